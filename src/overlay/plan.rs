//! Assigns files to ranks and surveys them. Every file is read once before anything is written, because its
//! rank, base time and process names may follow the events.

use crate::overlay::copy::stream::{Surveyed, survey};
use crate::overlay::{OverlayError, OverlayRequest};
use hta_base::health::{Health, Severity};
use hta_base::units::fmt_count;
use hta_base::wording::ranks::ranks_named;
use hta_read::input::Input;
use hta_read::room::MemoryLimit;
use hta_read::source::ByteCount;
use hta_results::run::{Progress, RankClaims, Refused, RunError, Task, duplicate};
use rayon::prelude::*;
use std::collections::BTreeMap;

pub struct DrawnSource {
    pub task: Task,
    pub input: Input,
    pub surveyed: Surveyed,
}

impl DrawnSource {
    /// What could not be copied from the file, one line each.
    pub fn losses(&self) -> Vec<String> {
        let health: &Health = &self.surveyed.health;
        let of = health.iter().filter(|(c, _)| c.spec().severity >= Severity::Lost);
        of.map(|(counter, tally)| {
            let spec = counter.spec();
            let (rank, file) = (self.task.rank, &self.input.shown);
            format!("hta: rank {rank} ({file}): {} x {}: {}", fmt_count(tally.count), spec.name, spec.doc)
        })
        .collect()
    }
}

pub struct DrawnSources {
    /// Sorted by rank.
    pub all: Vec<DrawnSource>,
    pub refused: Vec<Refused>,
}

impl DrawnSources {
    /// Finds and surveys the files of the requested ranks.
    ///
    /// # Errors
    /// When two files have the same rank, a requested rank has no file, or nothing is readable.
    pub fn find(request: &OverlayRequest, progress: &dyn Progress) -> Result<Self, RunError> {
        let inputs = request.inputs;
        let mut claims = RankClaims::peek(inputs);
        let mut known: BTreeMap<usize, Surveyed> = BTreeMap::new();
        let count = ByteCount::default();
        // Files are surveyed in parallel, so each gets a share of the limit for its largest value.
        let memory = request.load.memory.map(|m| MemoryLimit { bytes: m.bytes / 4, ..m });
        let mut is_started = false;
        loop {
            let tasks = claims.tasks(inputs, request.ranks)?;
            let new: Vec<Task> = tasks.iter().filter(|t| !known.contains_key(&t.input)).copied().collect();
            if !is_started {
                let size = |t: &Task| inputs[t.input].path.size().unwrap_or(0);
                progress.start(new.len(), new.iter().map(size).sum(), &count);
                is_started = true;
            }
            let surveys: Vec<_> = new
                .par_iter()
                .with_max_len(1)
                .map(|t| {
                    let surveyed = survey(&inputs[t.input], memory, &count);
                    progress.rank_done();
                    (t.input, surveyed)
                })
                .collect();
            let mut settled = true;
            for (input, surveyed) in surveys {
                match surveyed {
                    Ok(s) => drop(known.insert(input, s)),
                    Err(e) => {
                        claims.refused[input] = Some(e);
                        settled = false;
                    }
                }
            }
            for t in &tasks {
                let own = known.get(&t.input).and_then(|s| s.meta.rank);
                if own.is_some() && claims.ranks[t.input] != own {
                    // The rank was found behind the events: assign ranks to the whole set again.
                    claims.ranks[t.input] = own;
                    settled &= own == Some(t.own_rank());
                }
            }
            let refused = |claims: &RankClaims| -> Vec<Refused> {
                let of = inputs.iter().zip(&claims.refused);
                of.filter_map(|(i, e)| Some(Refused { input: i.clone(), error: e.clone()? })).collect()
            };
            if known.is_empty() && (settled || claims.refused.iter().all(Option::is_some)) {
                progress.finish();
                return Err(RunError::NothingReadable(refused(&claims)));
            }
            if !settled {
                continue;
            }
            progress.finish();
            if let Some(pair) = tasks.windows(2).find(|p| p[0].rank == p[1].rank) {
                return Err(duplicate(inputs, &pair[0], &pair[1]));
            }
            let source = |t: &Task| {
                let surveyed = known.remove(&t.input)?;
                Some(DrawnSource { task: *t, input: inputs[t.input].clone(), surveyed })
            };
            let all = tasks.iter().filter_map({
                let mut source = source;
                move |t| source(t)
            });
            return Ok(Self { all: all.collect(), refused: refused(&claims) });
        }
    }
}

/// The sources to draw.
///
/// # Errors
/// When none is selected.
pub fn drawn<'s>(all: &'s [DrawnSource], ranks: &[(u32, u32)]) -> Result<Vec<&'s DrawnSource>, OverlayError> {
    let wanted =
        |s: &&DrawnSource| ranks.is_empty() || ranks.iter().any(|(a, b)| (*a..=*b).contains(&s.task.rank));
    let drawn: Vec<&DrawnSource> = all.iter().filter(wanted).collect();
    if drawn.is_empty() {
        let known: Vec<u32> = all.iter().map(|s| s.task.rank).collect();
        return Err(OverlayError::NothingToDraw(ranks_named(&known)));
    }
    Ok(drawn)
}

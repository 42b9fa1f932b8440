//! Joins several partials into one mapped set, which is the same as if one process had mapped all files.
//!
//! Ranks are assigned anew with all files known: each partial knew only its own files, and the rank that a
//! name means can depend on the other names. Every rank must be the same as in its partial.

use crate::partial::error::PartialError;
use crate::partial::folder::PartialFolder;
use crate::partial::options::RecordedOptions;
use crate::partial::shares;
use crate::partial::state::{Fate, Seen};
use crate::run::{MappedSet, RankClaims, RankResults, Refused, RunError, Task, duplicate};
use crate::store::PartialStore;
use hta_read::discover::natural_key;
use hta_read::error::ReadError;
use hta_trace::meta::RankSource;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// The joined partials.
pub struct Merged {
    pub set: MappedSet,
    pub options: RecordedOptions,
}

/// Why partials cannot be joined.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    #[error(transparent)]
    Partial(#[from] PartialError),
    #[error(transparent)]
    Run(#[from] RunError),
}

/// A file of one of the partials.
struct Given {
    seen: Seen,
    /// Index of the partial.
    of: usize,
    source: Option<RankSource>,
}

/// Joins partials that were opened into `store`. Their order does not change the result. Their files and
/// ranks are moved out of them.
///
/// # Errors
/// When the options differ, a rank is in two partials, or a file gets another rank now that all files are
/// known.
pub fn merge(partials: &mut [PartialFolder], store: PartialStore) -> Result<Merged, MergeError> {
    let options = same_options(partials)?;
    leave_out_front_ends(partials);
    each_rank_once(partials)?;
    let mut ranks: Vec<RankResults> = Vec::new();
    let mut given: Vec<Given> = Vec::new();
    for (of, p) in partials.iter_mut().enumerate() {
        let sources: BTreeMap<u32, RankSource> = p.state.ranks.iter().map(|d| (d.rank, d.source)).collect();
        for seen in std::mem::take(&mut p.state.files) {
            let source = if let Fate::Mapped(rank) = seen.fate { sources.get(&rank).copied() } else { None };
            given.push(Given { seen, of, source });
        }
        ranks.append(&mut p.state.ranks);
    }
    ranks.sort_by_key(|d| d.rank);
    let given = in_order(given);
    let inputs: Vec<_> = given.iter().map(|g| g.seen.input.clone()).collect();
    let head = |g: &Given| if let Fate::RefusedAtHead(e) = &g.seen.fate { Some(e.clone()) } else { None };
    let claims = RankClaims {
        ranks: given.iter().map(|g| g.seen.claim).collect(),
        worlds: given.iter().map(|g| g.seen.world).collect(),
        refused: given.iter().map(head).collect(),
        // Partials do not say it; each part was checked when it was made.
        recorders: vec![None; given.len()],
    };
    let mut tasks = claims.tasks(&inputs, &[])?;
    tasks.retain(|t| given.get(t.input).is_some_and(|g| !matches!(g.seen.fate, Fate::LeftOut)));
    tasks.iter().try_for_each(|t| as_in_its_partial(partials, &given, t))?;
    if let Some(pair) = tasks.windows(2).find(|p| p[0].rank == p[1].rank) {
        return Err(duplicate(&inputs, &pair[0], &pair[1]).into());
    }
    let refuse = |i: usize, e: &ReadError| Refused { input: inputs[i].clone(), error: e.clone() };
    let mut refused: Vec<Refused> =
        claims.refused.iter().enumerate().filter_map(|(i, e)| Some(refuse(i, e.as_ref()?))).collect();
    refused.extend(tasks.iter().filter_map(|t| match &given.get(t.input)?.seen.fate {
        Fate::Refused(e) => Some(refuse(t.input, e)),
        _ => None,
    }));
    Ok(Merged { set: MappedSet { inputs, claims, tasks, ranks, refused, store }, options })
}

/// Leaves out front ends that were mapped because each was alone in its partial, if there are other files.
fn leave_out_front_ends(partials: &mut [PartialFolder]) {
    let is_read = |seen: &&Seen| matches!(seen.fate, Fate::Mapped(_) | Fate::Refused(_));
    if partials.iter().flat_map(|p| &p.state.files).filter(is_read).count() < 2 {
        return;
    }
    for p in partials.iter_mut().filter(|p| p.state.ranks.iter().any(|d| d.is_front_end)) {
        p.state.ranks.clear();
        p.manifest.files.clear();
        for seen in p.state.files.iter_mut().filter(|seen| matches!(seen.fate, Fate::Mapped(_))) {
            seen.fate = Fate::Refused(ReadError::FrontEnd { file: seen.input.shown.clone() });
        }
    }
}

/// The options of all partials, with the shares that they hold together.
fn same_options(partials: &[PartialFolder]) -> Result<RecordedOptions, PartialError> {
    let Some((first, others)) = partials.split_first() else { return Ok(RecordedOptions::new()) };
    for other in others {
        let names = first.options.keys().chain(other.options.keys());
        let names: BTreeSet<&String> = names.filter(|name| *name != shares::OPTION).collect();
        if let Some(name) = names.into_iter().find(|n| first.options.get(*n) != other.options.get(*n)) {
            let shown = |p: &PartialFolder| match p.options.get(name) {
                None => "not given".to_string(),
                Some(text) if text.len() > 60 || text.contains('\n') => {
                    format!("a text of {} bytes", text.len())
                }
                Some(text) => format!("`{text}`"),
            };
            return Err(PartialError::Options {
                first: first.shown(),
                second: other.shown(),
                option: name.clone(),
                values: Box::new((shown(first), shown(other))),
            });
        }
    }
    let mut options = first.options.clone();
    if let Some(shares) = shares::joined(partials)? {
        options.insert(shares::OPTION.to_string(), shares);
    }
    Ok(options)
}

fn each_rank_once(partials: &[PartialFolder]) -> Result<(), PartialError> {
    let mut seen: BTreeMap<u32, (&PartialFolder, &RankResults)> = BTreeMap::new();
    for p in partials {
        for d in &p.state.ranks {
            if let Some((other, done)) = seen.insert(d.rank, (p, d)) {
                return Err(PartialError::SameRank {
                    rank: d.rank,
                    first: other.shown(),
                    second: p.shown(),
                    first_file: done.file.clone(),
                    second_file: d.file.clone(),
                });
            }
        }
    }
    Ok(())
}

/// All files in the natural order of one set. A file that several partials left out, or refused for the same
/// reason, is listed once.
fn in_order(mut given: Vec<Given>) -> Vec<Given> {
    let weight = |g: &Given| match &g.seen.fate {
        Fate::Mapped(rank) => (3, Reverse(*rank)),
        Fate::RefusedAtHead(_) => (2, Reverse(0)),
        Fate::Refused(_) => (1, Reverse(0)),
        Fate::LeftOut => (0, Reverse(0)),
    };
    // Of files with the same name, the mapped ones come first.
    given.sort_by_cached_key(|g| {
        (natural_key(&g.seen.input.shown), g.seen.input.shown.clone(), Reverse(weight(g)))
    });
    let mut out: Vec<Given> = Vec::new();
    for g in given {
        let is_known = out.last().is_some_and(|last| {
            last.seen.input.shown == g.seen.input.shown
                && match &g.seen.fate {
                    Fate::Mapped(_) => false,
                    Fate::LeftOut => true,
                    Fate::Refused(e) | Fate::RefusedAtHead(e) => is_same_refusal(&last.seen.fate, e),
                }
        });
        if !is_known {
            out.push(g);
        }
    }
    out
}

fn is_same_refusal(fate: &Fate, error: &ReadError) -> bool {
    match fate {
        Fate::Refused(e) | Fate::RefusedAtHead(e) => e.to_string() == error.to_string(),
        Fate::Mapped(_) | Fate::LeftOut => false,
    }
}

fn as_in_its_partial(partials: &[PartialFolder], given: &[Given], task: &Task) -> Result<(), PartialError> {
    let Some(Given { seen, of, source }) = given.get(task.input) else { return Ok(()) };
    let Fate::Mapped(rank) = seen.fate else { return Ok(()) };
    if (rank, *source) == (task.rank, Some(task.source)) {
        return Ok(());
    }
    Err(PartialError::RankDiffers {
        path: partials.get(*of).map_or_else(String::new, PartialFolder::shown),
        file: seen.input.shown.clone(),
        expected: rank,
        found: match task.source {
            RankSource::Position | RankSource::Process => format!("{} by its position", task.rank),
            _ => task.rank.to_string(),
        },
    })
}

//! Reduces the partials of all ranks to tables and verdict.

use crate::run::withhold::withhold;
use crate::run::{MappedSet, Outcome, RowSink, RunError};
use crate::store::StoredPartial;
use hta_analysis::api::{Analysis, Options, Output, Partial};
use hta_analysis::filters;
use hta_analysis::inventory::recorders::Recorders;
use hta_analysis::inventory::{self, without_rows};
use hta_analysis::job::{Clock, Job, RankSummary};
use hta_analysis::recording::Recording;
use hta_analysis::recording::belong::{self, FileOrigin};
use hta_analysis::recording::facts::Recordings;
use hta_base::health::{Counter, Health};
use hta_base::table::schema::{Batch, Table};
use hta_trace::meta::{RankSource, Recorder, TimeEra};
use rayon::prelude::*;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// Number of ranks below which analyses are reduced in parallel. With more ranks they run one after the
/// other, because the partials of one analysis at a time already fill memory.
const FEW: usize = 64;

/// Reduces a mapped set, made by one process or several, to tables and verdict.
///
/// # Errors
/// When a filter selects nothing, or the sink cannot write the tables.
pub fn reduce(
    set: MappedSet,
    analyses: &[&'static dyn Analysis],
    options: &Options,
    sink: &dyn RowSink,
) -> Result<Outcome, RunError> {
    let MappedSet { tasks, ranks: done, refused, store, .. } = set;
    let stored: Vec<&StoredPartial> = done.iter().map(|d| &d.inventory).collect();
    let opened = store.open(&stored).map_err(RunError::ReadBack)?;
    let recordings: Vec<Batch> = opened.iter().filter_map(|p| p.table(Recordings::SPEC)).cloned().collect();
    let has_peers = tasks.len() > 1 && tasks.iter().all(|t| t.source != RankSource::Process);
    let is_judged = has_peers && !options.across.by_position;
    if is_judged {
        let origins: Vec<FileOrigin> =
            recordings.iter().flat_map(Recordings::rows).map(FileOrigin::from).collect();
        belong::check(&origins)?;
    }
    let are_dumps =
        opened.iter().any(|p| p.rows::<Recorders>().any(|r| r.recorder == Recorder::MemoryDump.name()));
    if filters::has_any(options) {
        filters::check(opened.into_iter())?;
    }
    let mut health = Health::default();
    for d in done.iter().filter(|d| d.source == RankSource::Position) {
        health.note(Counter::RankByPosition, &d.file);
    }
    let eras: Vec<TimeEra> = done.iter().map(|d| d.era).collect();
    if eras.windows(2).any(|w| w[0] != w[1]) {
        let names: BTreeSet<&str> = eras.iter().map(|e| e.name()).collect();
        health.note(Counter::EraMixed, &names.into_iter().collect::<Vec<_>>().join(", "));
    }
    let bases: Vec<i64> = done.iter().filter_map(|d| d.base).collect();
    if bases.windows(2).any(|w| w[0] != w[1]) {
        health.note(Counter::BaseDiffers, "");
    }
    let worlds: BTreeSet<u32> = done.iter().filter_map(|d| d.world).collect();
    let beyond = done.iter().filter(|d| d.world.is_some_and(|w| d.rank >= w)).count();
    if worlds.len() > 1 || beyond > 0 {
        let shown: Vec<String> = worlds.iter().map(u32::to_string).collect();
        health.note(Counter::RankWorldMismatch, &format!("world size {}", shown.join(", ")));
    }
    let mut per_analysis: Vec<Vec<StoredPartial>> = Vec::new();
    per_analysis.resize_with(analyses.len(), Vec::new);
    let (mut inventory, mut rank_health, mut parts) = (Vec::new(), Vec::new(), Vec::new());
    let mut unpacked_bytes = 0;
    for d in done {
        for (list, partial) in per_analysis.iter_mut().zip(d.partials) {
            list.push(partial);
        }
        inventory.push(d.inventory);
        parts.extend(d.part);
        rank_health.push((d.rank, d.file, d.health));
        unpacked_bytes += d.unpacked;
    }
    // a part of a job is mapped with peers in mind; a job of one rank has none
    let left_out =
        Recording::of(recordings.clone(), &Job::join(std::iter::empty(), options.across.clock)).left_out();
    let peers = |part: RankSummary| match (has_peers, left_out.contains(&part.rank)) {
        (false, _) => part.without_peers(),
        (true, true) => part.left_out(),
        (true, false) => part,
    };
    let join = || -> Result<Job, RunError> {
        let parts = store.take_parts(parts).map_err(RunError::ReadBack)?;
        let job = Job::join(parts.into_iter().map(peers), options.across.clock);
        if is_judged {
            belong::check_groups(&job)?;
        }
        Recording::of(recordings.clone(), &job).give_to(&job);
        filters::check_groups(&job, options)?;
        Ok(job)
    };
    let reasons: Mutex<Vec<(u32, &str, &str)>> = Mutex::default();
    type AnalysisPartials = (&'static dyn Analysis, Vec<StoredPartial>);
    let answer = |job: &Job,
                  (analysis, kept): AnalysisPartials|
     -> Result<(&'static dyn Analysis, Output), RunError> {
        // what an analysis left of all ranks is opened for it alone
        let partials = store.take(kept).map_err(RunError::ReadBack)?;
        let told = partials.iter().filter_map(|p| Some((p.rank, analysis.stem(), p.reason?)));
        reasons.lock().unwrap_or_else(PoisonError::into_inner).extend(told);
        let mut output = analysis.reduce(&partials, job, options);
        withhold(&mut output, analysis, &partials, job, options);
        drop(partials);
        let reduced = sink.reduced(analysis, &mut output);
        reduced.map_err(|source| RunError::Write { what: "the tables".to_string(), source })?;
        Ok((analysis, output))
    };
    let answers = |(analysis, _): &AnalysisPartials| !are_dumps || analysis.about().reads_dumps;
    let left: Vec<AnalysisPartials> = analyses.iter().copied().zip(per_analysis).filter(answers).collect();
    let (job, mut outputs) = if inventory.len() < FEW {
        let job = join()?;
        let answers = left.into_par_iter().with_max_len(1).map(|left| answer(&job, left));
        let outputs = answers.collect::<Result<Vec<_>, RunError>>()?;
        (job, outputs)
    } else {
        // Analyses that do not use the job run first, so that their partials are freed before its parts are
        // decoded.
        let joins = |(_, (a, _)): &(usize, AnalysisPartials)| a.about().joins_ranks || a.about().joins_peers;
        let (joining, alone): (Vec<_>, Vec<_>) = left.into_iter().enumerate().partition(joins);
        let nobody = Job::join(std::iter::empty(), options.across.clock);
        Recording::of(recordings.clone(), &nobody).give_to(&nobody);
        let mut outputs = Vec::new();
        for (i, left) in alone {
            outputs.push((i, answer(&nobody, left)?));
        }
        let job = join()?;
        for (i, left) in joining {
            outputs.push((i, answer(&job, left)?));
        }
        outputs.sort_by_key(|(i, _)| *i);
        (job, outputs.into_iter().map(|(_, output)| output).collect())
    };
    let clocks: Vec<(u32, Clock)> =
        job.parts.iter().map(|p| p.rank).zip(job.clocks.iter().copied()).collect();
    let recording = Recording::of_job(&job);
    drop(job);
    let mut inventory = store.take(inventory).map_err(RunError::ReadBack)?;
    inventory.iter_mut().zip(&clocks).for_each(|(i, (rank, clock))| {
        if i.rank == *rank {
            inventory::set_clock(i, clock);
        }
    });
    if let Some(first) = inventory.first_mut() {
        let reasons = reasons.into_inner().unwrap_or_else(PoisonError::into_inner);
        first.tables.extend([recording.table(), without_rows::table(reasons)]);
    }
    leave_out_for_serving(&inventory, &mut outputs);
    Ok(Outcome {
        inventory,
        outputs,
        refused,
        set_health: health,
        rank_health,
        unpacked_bytes,
        clocks,
        recording,
    })
}

/// Leaves out observations that do not hold where ranks serve requests.
pub(crate) fn leave_out_for_serving(inventory: &[Partial], outputs: &mut [(&'static dyn Analysis, Output)]) {
    if inventory::serves(inventory) {
        let holds = |analysis: &&'static dyn Analysis| analysis.about().observes_serving;
        outputs.iter_mut().filter(|(a, _)| !holds(a)).for_each(|(_, output)| output.observations.clear());
    }
}

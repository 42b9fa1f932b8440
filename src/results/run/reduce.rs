//! Reduces the partials of all ranks to tables and verdict.

use crate::run::withhold::say;
use crate::run::{MappedSet, Outcome, RankResults, RowSink, RunError, Task};
use crate::store::{PartialStore, StoredPartial};
use arrow_array::RecordBatch;
use arrow_select::concat::concat_batches;
use hta_analysis::api::{Analysis, Options, Output, Partial};
use hta_analysis::filters;
use hta_analysis::inventory::recorders::Recorders;
use hta_analysis::inventory::{self, notes, without_rows};
use hta_base::health::{Counter, Health};
use hta_base::table::schema::{Batch, Table};
use hta_job::recording::Recording;
use hta_job::recording::belong::{self, FileOrigin};
use hta_job::recording::facts::Recordings;
use hta_job::recording::rules::class_doubts;
use hta_job::{Clock, Job, RankSummary, ToldMeshes};
use hta_read::coordinates::NamedPlace;
use hta_read::input::Input;
use hta_trace::meta::{RankSource, Recorder, TimeEra};
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Mutex, PoisonError};

/// Number of ranks below which analyses are reduced in parallel. With more ranks they run one after the
/// other, because the partials of one analysis at a time already fill memory.
const FEW: usize = 64;

/// Number of inventories that are opened together to be looked through.
const INVENTORIES_AT_ONCE: usize = 4096;

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
    let MappedSet { inputs, tasks, ranks: done, refused, store, .. } = set;
    let told = ToldMeshes { shape: options.across.mesh.clone(), files: named_places(&inputs, &tasks) };
    let has_peers = tasks.len() > 1 && tasks.iter().all(|t| t.source != RankSource::Process);
    let is_judged = has_peers && !options.across.by_position;
    let InventoryFacts { recordings, are_dumps } = recorded(&done, &store, options, is_judged)?;
    let set_health = noted(&done);
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
    let answers = |(analysis, _): &AnalysisPartials| !are_dumps || analysis.about().reads_dumps;
    let left: Vec<AnalysisPartials> = analyses.iter().copied().zip(per_analysis).filter(answers).collect();
    let reduction =
        Reduction { options, sink, store, recordings, has_peers, is_judged, told, reasons: Mutex::default() };
    let (job, mut outputs) = if inventory.len() < FEW {
        reduction.together(parts, left)?
    } else {
        reduction.in_turn(parts, left)?
    };
    let clocks: Vec<(u32, Clock)> =
        job.parts.iter().map(|p| p.rank).zip(job.clocks.iter().copied()).collect();
    let recording = Recording::of_job(&job);
    drop(job);
    let mut inventory = reduction.store.take(inventory).map_err(RunError::ReadBack)?;
    inventory::set_clocks(&mut inventory, &clocks);
    note_cut_ends(&inventory, &mut outputs);
    note_doubts(&recording, &mut outputs);
    complete_verdict(&mut outputs);
    let notes = notes::table(&inventory, outputs.iter().map(|(analysis, output)| (analysis.stem(), output)));
    if let Some(first) = inventory.first_mut() {
        let reasons = reduction.reasons.into_inner().unwrap_or_else(PoisonError::into_inner);
        first.tables.extend([recording.table(), without_rows::table(reasons), notes]);
    }
    Ok(Outcome { inventory, outputs, refused, set_health, rank_health, unpacked_bytes, clocks, recording })
}

/// What the inventories of all ranks say, which are read for that and dropped.
struct InventoryFacts {
    /// The table `recordings` of all ranks as one: as slices of a rank each it would take many times as much.
    recordings: Batch,
    are_dumps: bool,
}

/// Reads the inventories of all ranks, and checks that the ranks belong together and a filter finds
/// something.
fn recorded(
    ranks: &[RankResults],
    store: &PartialStore,
    options: &Options,
    is_judged: bool,
) -> Result<InventoryFacts, RunError> {
    let stored: Vec<&StoredPartial> = ranks.iter().map(|d| &d.inventory).collect();
    let (mut rows, mut are_dumps) = (Vec::new(), false);
    for some in stored.chunks(INVENTORIES_AT_ONCE) {
        let opened = store.open(some).map_err(RunError::ReadBack)?;
        let of_ranks = opened.iter().filter_map(|p| p.table(Recordings::SPEC)).map(Batch::rows);
        rows.push(together(&of_ranks.collect::<Vec<_>>())?);
        are_dumps |=
            opened.iter().any(|p| p.rows::<Recorders>().any(|r| r.recorder == Recorder::MemoryDump.name()));
    }
    let recordings = Batch::new(Recordings::SPEC, together(&rows)?);
    if is_judged {
        belong::check(&Recordings::rows(&recordings).map(FileOrigin::from).collect::<Vec<_>>())?;
    }
    if filters::has_any(options) {
        filters::check(store.open(&stored).map_err(RunError::ReadBack)?.into_iter())?;
    }
    Ok(InventoryFacts { recordings, are_dumps })
}

/// Rows of the table `recordings` as one batch.
fn together<'a>(rows: impl IntoIterator<Item = &'a RecordBatch>) -> Result<RecordBatch, RunError> {
    concat_batches(&Recordings::SPEC.schema(), rows).map_err(|e| RunError::ReadBack(io::Error::other(e)))
}

/// What is odd about the ranks as a set.
fn noted(ranks: &[RankResults]) -> Health {
    let mut health = Health::default();
    for d in ranks.iter().filter(|d| d.source == RankSource::Position) {
        health.note(Counter::RankByPosition, &d.file);
    }
    let eras: Vec<TimeEra> = ranks.iter().map(|d| d.era).collect();
    if eras.windows(2).any(|w| w[0] != w[1]) {
        let names: BTreeSet<&str> = eras.iter().map(|e| e.name()).collect();
        health.note(Counter::EraMixed, &names.into_iter().collect::<Vec<_>>().join(", "));
    }
    let bases: Vec<i64> = ranks.iter().filter_map(|d| d.base).collect();
    if bases.windows(2).any(|w| w[0] != w[1]) {
        health.note(Counter::BaseDiffers, "");
    }
    let worlds: BTreeSet<u32> = ranks.iter().filter_map(|d| d.world).collect();
    let beyond = ranks.iter().filter(|d| d.world.is_some_and(|w| d.rank >= w)).count();
    if worlds.len() > 1 || beyond > 0 {
        let shown: Vec<String> = worlds.iter().map(u32::to_string).collect();
        health.note(Counter::RankWorldMismatch, &format!("world size {}", shown.join(", ")));
    }
    health
}

/// The coordinates in the names of files, by rank of the job.
pub(super) fn named_places(inputs: &[Input], tasks: &[Task]) -> BTreeMap<u32, NamedPlace> {
    tasks.iter().filter_map(|t| Some((t.rank, NamedPlace::of(inputs.get(t.input)?)?))).collect()
}

/// What an analysis left of all ranks.
type AnalysisPartials = (&'static dyn Analysis, Vec<StoredPartial>);

/// The answer of an analysis.
type AnalysisAnswer = (&'static dyn Analysis, Output);

/// A set while its analyses are reduced.
struct Reduction<'a> {
    options: &'a Options,
    sink: &'a dyn RowSink,
    store: PartialStore,
    recordings: Batch,
    has_peers: bool,
    /// Whether it is checked that the ranks belong together.
    is_judged: bool,
    told: ToldMeshes,
    /// Rank, analysis, and why it has no rows of the rank.
    reasons: Mutex<Vec<(u32, &'static str, &'static str)>>,
}

impl Reduction<'_> {
    /// Reduces all analyses in parallel.
    fn together(
        &self,
        parts: Vec<StoredPartial>,
        left: Vec<AnalysisPartials>,
    ) -> Result<(Job, Vec<AnalysisAnswer>), RunError> {
        let job = self.job(parts)?;
        let nobody = self.nobody();
        let job_of = |analysis: &dyn Analysis| if joins(analysis) { &job } else { &nobody };
        let answers = left.into_par_iter().with_max_len(1).map(|left| self.answer(job_of(left.0), left));
        let outputs = answers.collect::<Result<Vec<_>, RunError>>()?;
        Ok((job, outputs))
    }

    /// Reduces one analysis after the other. Those that do not use the job run first, so that their partials
    /// are freed before its parts are decoded, and those that replay it last.
    fn in_turn(
        &self,
        parts: Vec<StoredPartial>,
        left: Vec<AnalysisPartials>,
    ) -> Result<(Job, Vec<AnalysisAnswer>), RunError> {
        let is_joining = |(_, (a, _)): &(usize, AnalysisPartials)| joins(*a);
        let (mut joining, alone): (Vec<_>, Vec<_>) = left.into_iter().enumerate().partition(is_joining);
        joining.sort_by_key(|(_, (a, _))| a.about().replays);
        let nobody = self.nobody();
        let mut outputs = Vec::new();
        for (i, left) in alone {
            outputs.push((i, self.answer(&nobody, left)?));
        }
        let job = self.job(parts)?;
        for (i, left) in joining {
            outputs.push((i, self.answer(&job, left)?));
        }
        outputs.sort_by_key(|(i, _)| *i);
        Ok((job, outputs.into_iter().map(|(_, output)| output).collect()))
    }

    /// A job without ranks, for analyses that look at one rank after the other: what they say does not
    /// depend on what else is asked.
    fn nobody(&self) -> Job {
        let nobody = Job::nobody(self.options.across.clock);
        Recording::of(vec![self.recordings.clone()], &nobody).give_to(&nobody);
        nobody
    }

    /// The job of all ranks. A part of a job is mapped with peers in mind; a job of one rank has none.
    fn job(&self, parts: Vec<StoredPartial>) -> Result<Job, RunError> {
        let left_out =
            Recording::of(vec![self.recordings.clone()], &Job::nobody(self.options.across.clock)).left_out();
        let peers = |part: RankSummary| match (self.has_peers, left_out.contains(&part.rank)) {
            (false, _) => part.without_peers(),
            (true, true) => part.left_out(),
            (true, false) => part,
        };
        let parts = self.store.take_parts(parts).map_err(RunError::ReadBack)?;
        let job = Job::join(parts.into_iter().map(peers), self.options.across.clock, &self.told);
        if self.is_judged {
            belong::check_groups(&job)?;
        }
        Recording::of(vec![self.recordings.clone()], &job).give_to(&job);
        filters::check_groups(&job, self.options)?;
        filters::check_mesh(&self.told, &job.programs())?;
        Ok(job)
    }

    /// Reduces what an analysis left, which is opened for it alone.
    fn answer(&self, job: &Job, (analysis, kept): AnalysisPartials) -> Result<AnalysisAnswer, RunError> {
        let partials = self.store.take(kept).map_err(RunError::ReadBack)?;
        let told = partials.iter().filter_map(|p| Some((p.rank, analysis.stem(), p.reason?)));
        self.reasons.lock().unwrap_or_else(PoisonError::into_inner).extend(told);
        let mut output = analysis.reduce(&partials, job, self.options);
        say(&mut output, analysis, &partials, job, self.options);
        analysis.complete(&partials, &mut output);
        drop(partials);
        let reduced = self.sink.reduced(analysis, &mut output);
        reduced.map_err(|source| RunError::Write { what: "the tables".to_string(), source })?;
        Ok((analysis, output))
    }
}

/// Whether an analysis compares ranks.
fn joins(analysis: &dyn Analysis) -> bool {
    let about = analysis.about();
    about.joins_ranks || about.joins_peers
}

/// Adds to the diagnosis what only other analyses know.
fn complete_verdict(outputs: &mut [AnalysisAnswer]) {
    let headline = outputs.iter_mut().find_map(|(_, output)| output.headline.take());
    let energy = outputs.iter_mut().find_map(|(_, output)| output.energy.take());
    let mut operators = outputs.iter_mut().map(|(_, output)| std::mem::take(&mut output.operators));
    let operators = operators.find(|shares| !shares.is_empty()).unwrap_or_default();
    let Some(verdict) = outputs.iter_mut().find_map(|(_, output)| output.verdict.as_mut()) else { return };
    (verdict.headline, verdict.energy) = (headline, energy);
    if verdict.operators.is_empty() && !verdict.mix.is_empty() {
        verdict.operators = operators;
    }
}

/// Says beside what is told of overlap where it is not recorded.
pub(crate) fn note_cut_ends(inventory: &[Partial], outputs: &mut [AnalysisAnswer]) {
    let telling = outputs.iter_mut().filter(|(analysis, _)| analysis.about().tells_overlap);
    inventory::cut_ends::add_note(inventory, telling.map(|(_, output)| output));
}

/// Repeats doubts about the classes of kernels beside what is told of overlap. What is told of ranks and
/// transfers is a bound then, with the same reason.
pub(crate) fn note_doubts(recording: &Recording, outputs: &mut [AnalysisAnswer]) {
    let doubts: Vec<&str> = class_doubts(recording).filter_map(|l| l.sentence.split(". ").next()).collect();
    for (_, output) in outputs.iter_mut().filter(|(analysis, _)| analysis.about().tells_overlap) {
        doubts.iter().for_each(|doubt| output.note((*doubt).to_string()));
    }
}

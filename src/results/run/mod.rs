//! The pipeline: finds the ranks, maps them in parallel, and reduces.
//!
//! A rank's trace is loaded, mapped and dropped; only bounded partials are kept. Tables with rows per event
//! go to a [`RowSink`] in order of rank, whatever the order in which ranks finish; within one rank the order
//! of tables is arbitrary.
//!
//! [`run`] is [`map`] followed by [`reduce`] on a [`MappedSet`]. The ranks of a job may be mapped by several
//! processes: `partial` writes and reads the sets, and `hta merge` reduces them by the same function.

mod captures;
mod claims;
mod flight;
mod from_results;
mod order;
mod processes;
mod rank;
mod reduce;
mod share;
mod which_capture;
mod withhold;

pub use captures::{CaptureError, read_captures};
pub use claims::{RankClaims, Task, duplicate};
pub use from_results::from_results;
pub use reduce::reduce;
pub use share::RunShare;
pub use which_capture::{WhichCapture, by_process as captures_by_process};

use crate::results::Results;
use crate::store::{PartialStore, Spool, StoredPartial};
use flight::Admission;
use hta_analysis::api::{Analysis, Options, Output, Partial};
use hta_analysis::inventory;
use hta_analysis::job::Clock;
use hta_analysis::recording::Recording;
use hta_analysis::recording::capability::Capability;
use hta_analysis::recording::limit::Limit;
use hta_base::health::{Counter, Health};
use hta_base::table::schema::Batch;
use hta_read::error::{IDLE_PROCESS, ReadError, SetError};
use hta_read::files::Location;
use hta_read::input::Input;
use hta_read::load::load;
use hta_read::options::LoadOptions;
use hta_read::reading::Spread;
use hta_read::room::{MemoryLimit, estimate};
use hta_read::source::ByteCount;
use hta_trace::meta::{RankSource, TimeEra};
use hta_trace::rank_trace::RankTrace;
use order::InOrder;
use rank::{Failure, RankContext, one};
use std::io;
use std::sync::Arc;

/// Receives data that is too large to keep in memory.
pub trait RowSink: Sync {
    /// Takes rows of a table of one rank. Called in order of rank, any number of times per rank.
    ///
    /// # Errors
    /// When the rows cannot be written.
    fn rows(&self, rows: Batch) -> io::Result<()>;

    /// Takes a rank's whole trace. Called in any order of ranks.
    ///
    /// # Errors
    /// When it cannot be written.
    fn trace(&self, trace: &RankTrace) -> io::Result<()>;

    /// Takes the answer of an analysis as soon as it is made. The sink may move its tables out, so that those
    /// of all analyses are never in memory together.
    ///
    /// # Errors
    /// When the tables cannot be written.
    fn reduced(&self, _analysis: &dyn Analysis, _output: &mut Output) -> io::Result<()> {
        Ok(())
    }

    /// Where what the ranks left is kept when it is too much for the memory.
    fn spool(&self) -> Spool {
        Spool::default()
    }

    /// All that was given so far is void: a file told another rank behind its events, and the set is numbered
    /// anew.
    ///
    /// # Errors
    /// When written data cannot be removed.
    fn void(&self) -> io::Result<()>;
}

/// Discards rows: only the answers are needed.
pub struct NoRows;

impl RowSink for NoRows {
    fn rows(&self, _: Batch) -> io::Result<()> {
        Ok(())
    }

    fn trace(&self, _: &RankTrace) -> io::Result<()> {
        Ok(())
    }

    fn void(&self) -> io::Result<()> {
        Ok(())
    }
}

/// Progress notifications, from any thread.
pub trait Progress: Sync {
    /// The run starts: number of ranks, bytes on disk, and a counter of the bytes read.
    fn start(&self, ranks: usize, bytes: u64, count: &ByteCount);
    /// One rank is done.
    fn rank_done(&self);
    /// All ranks are done.
    fn finish(&self);
}

pub struct Request<'a> {
    pub inputs: &'a [Input],
    pub analyses: &'a [&'static dyn Analysis],
    pub options: &'a Options,
    pub load: LoadOptions,
    /// Ranks to analyse (inclusive ranges); all if empty.
    pub ranks: &'a [(u32, u32)],
}

#[derive(Debug)]
pub struct Refused {
    pub input: Input,
    pub error: ReadError,
}

impl Refused {
    /// Whether the refusal is a loss. The front end of an engine is none, nor a merged file beside
    /// the files of its ranks. A file that was only found in a folder and is not a trace is none, unless its
    /// name marks it as a rank's trace and it is not a whole file of another known kind.
    pub fn is_loss(&self) -> bool {
        let has_name = || self.input.has_trace_name() && !self.error.is_other_format();
        let is_idle = matches!(&self.error, ReadError::NothingRecorded { what, .. } if what == IDLE_PROCESS);
        let is_no_rank =
            is_idle || matches!(self.error, ReadError::FrontEnd { .. } | ReadError::MergedCopy { .. });
        !is_no_rank && (self.input.named || !self.error.is_foreign() || has_name())
    }
}

/// What a run found.
pub struct Outcome {
    /// Partials of the inventory (ranks, health, kernel rules), in order of rank.
    pub inventory: Vec<Partial>,
    /// Answers of the analyses, in the order of the request, without the tables that the sink has moved out.
    pub outputs: Vec<(&'static dyn Analysis, Output)>,
    pub refused: Vec<Refused>,
    /// Counters of the set as a whole.
    pub(crate) set_health: Health,
    /// Rank, file and counters of each rank.
    pub rank_health: Vec<(u32, String, Health)>,
    pub(crate) unpacked_bytes: u64,
    /// Clocks of the ranks, if an analysis joined them.
    pub clocks: Vec<(u32, Clock)>,
    /// What was recorded, and what may be said from it.
    pub recording: Arc<Recording>,
}

impl Outcome {
    /// Whether some input could not be used: a lost event, or a refused file that counts as a loss.
    pub fn has_loss(&self) -> bool {
        is_loss(&self.refused) || self.rank_health.iter().any(|(_, _, h)| h.has_loss())
    }

    /// What is withheld of what was asked for: of the verdict, or without one of all analyses.
    pub fn withheld(&self) -> Option<&Limit> {
        let has_verdict = self.outputs.iter().any(|(_, o)| o.verdict.is_some());
        let asked = self.outputs.iter().filter(|(_, o)| o.verdict.is_some() || !has_verdict);
        let needs: Vec<Capability> =
            asked.flat_map(|(analysis, _)| analysis.about().needs).copied().collect();
        self.recording.withheld(&needs)
    }

    /// The `health` table: the set's counters, then each rank's, then the refused files.
    pub fn health_table(&self) -> Batch {
        let mut table = inventory::HealthTable::default();
        inventory::push_health(&mut table, None, "", &self.set_health);
        for (rank, file, health) in &self.rank_health {
            inventory::push_health(&mut table, Some(*rank), file, health);
        }
        for r in &self.refused {
            table.push(inventory::HealthRow {
                rank: None,
                file: &r.input.shown,
                counter: Counter::FileRefused.spec().name,
                severity: if r.is_loss() { "fatal" } else { "info" },
                count: 1,
                first_byte: None,
                example: None,
                description: &r.error.to_string(),
            });
        }
        table.finish()
    }

    /// The tables of the run as results in memory: those that the sink has left here, and the rows that it
    /// has kept.
    pub fn results(&self, place: impl Into<Location>, rows: Vec<Batch>) -> Results {
        let tables = self.outputs.iter().flat_map(|(_, output)| &output.tables);
        let tables = self.inventory.iter().flat_map(|p| &p.tables).chain(tables).cloned();
        Results::in_memory(place, tables.chain(rows))
    }

    pub fn ranks(&self) -> Vec<u32> {
        self.inventory.iter().map(|p| p.rank).collect()
    }
}

/// Why a run ended without an outcome.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Set(#[from] SetError),
    /// No file could be read; each has its reason.
    #[error("cannot analyse anything: none of {} files is a readable trace", .0.len())]
    NothingReadable(Vec<Refused>),
    #[error("cannot write {what}: {source}")]
    Write { what: String, source: io::Error },
    #[error("cannot read back what the ranks left: {0}")]
    ReadBack(io::Error),
    #[error("cannot find the ranks asked for: the set holds {0}")]
    NoSuchRank(String),
}

/// The results of mapping one rank.
pub struct RankResults {
    pub rank: u32,
    pub(crate) source: RankSource,
    pub(crate) file: String,
    /// By analysis of the run.
    pub(crate) partials: Vec<StoredPartial>,
    pub(crate) inventory: StoredPartial,
    /// For the analyses that compare ranks, where the run has one.
    pub(crate) part: Option<StoredPartial>,
    pub(crate) health: Health,
    pub(crate) era: TimeEra,
    /// `baseTimeNanoseconds`, which was added to the times, ns.
    pub(crate) base: Option<i64>,
    /// World size, ranks.
    pub(crate) world: Option<u32>,
    /// Size of the JSON text, bytes.
    pub(crate) unpacked: u64,
    /// The front end of an engine, mapped because no other file was there: with other ranks it is left out.
    pub(crate) is_front_end: bool,
}

/// The results of mapping some files of a job: everything that [`reduce`] needs.
pub struct MappedSet {
    /// The input files, in natural order.
    pub(crate) inputs: Vec<Input>,
    pub(crate) claims: RankClaims,
    /// Files that were read or tried, in order of rank.
    pub(crate) tasks: Vec<Task>,
    /// Ranks that were mapped, in order of rank.
    pub ranks: Vec<RankResults>,
    /// Their partials.
    pub(crate) store: PartialStore,
    /// Files that are no traces, in order of the files; then those that turned out unreadable, in order of
    /// rank.
    pub refused: Vec<Refused>,
}

impl MappedSet {
    /// Whether some input could not be used, as in [`Outcome::has_loss`].
    pub fn has_loss(&self) -> bool {
        is_loss(&self.refused) || self.ranks.iter().any(|d| d.health.has_loss())
    }
}

fn is_loss(refused: &[Refused]) -> bool {
    refused.iter().any(Refused::is_loss)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    Whole,
    /// Other processes map the other ranks. So a rank must not follow from a file's position, each rank has
    /// peers, and it is not an error if no file is readable.
    Part,
    /// Processes of one server that are no ranks of one job: each is analysed by itself.
    Processes,
    /// Other processes map the other ranks, but all see the same files: ranks and peers are those of the
    /// whole.
    Share(RunShare),
}

/// Maps and reduces a set of files.
///
/// # Errors
/// When two files have the same rank, nothing is readable, or rows cannot be written. If only some files
/// cannot be read, the outcome reports them.
pub fn run(request: &Request, sink: &dyn RowSink, progress: &dyn Progress) -> Result<Outcome, RunError> {
    let whole = |request: &Request, extent| whole(request, extent, sink, progress);
    match whole(request, Extent::Whole) {
        Err(RunError::Set(clash @ SetError::DuplicateRank { .. })) => {
            // Comparing processes of different jobs as ranks would be wrong; what looks at one by itself is
            // right.
            let alone = looking_at_one(request.analyses);
            match !alone.is_empty() && processes::of_one_server(request) {
                true => whole(&Request { analyses: &alone, ..*request }, Extent::Processes),
                false => Err(clash.into()),
            }
        }
        done => done,
    }
}

/// Maps and reduces files as processes of their own, by the analyses that look at one by itself.
///
/// # Errors
/// As [`run`].
pub fn run_each(request: &Request, sink: &dyn RowSink, progress: &dyn Progress) -> Result<Outcome, RunError> {
    let alone = looking_at_one(request.analyses);
    whole(&Request { analyses: &alone, ..*request }, Extent::Processes, sink, progress)
}

fn looking_at_one(analyses: &[&'static dyn Analysis]) -> Vec<&'static dyn Analysis> {
    analyses.iter().copied().filter(|a| !a.about().joins_ranks).collect()
}

fn whole(
    request: &Request,
    extent: Extent,
    sink: &dyn RowSink,
    progress: &dyn Progress,
) -> Result<Outcome, RunError> {
    let set = map(request, extent, sink, progress)?;
    if set.ranks.is_empty() {
        return Err(RunError::NothingReadable(set.refused));
    }
    reduce(set, request.analyses, request.options, sink)
}

/// Maps the ranks of a set of files.
///
/// # Errors
/// When two files have the same rank, or rows cannot be written; for a part of a job, when a file does not
/// give its rank.
pub fn map(
    request: &Request,
    extent: Extent,
    sink: &dyn RowSink,
    progress: &dyn Progress,
) -> Result<MappedSet, RunError> {
    let mut claims = RankClaims::peek(request.inputs);
    claims.refuse_dumps(request.inputs, request.analyses.iter().any(|a| a.about().reads_dumps));
    if !request.analyses.iter().any(|a| a.about().needs_known_events) {
        claims.take_idle_processes(request.inputs);
    }
    // Chosen once, so that a rank that is found later does not move the file to another share.
    let own = match extent {
        Extent::Share(share) => {
            let tasks = claims.tasks(request.inputs, request.ranks)?;
            Some(share.inputs(&tasks, |t| stored_size(&request.inputs[t.input])))
        }
        Extent::Whole | Extent::Part | Extent::Processes => None,
    };
    loop {
        let mut tasks = match extent {
            Extent::Processes => claims.processes(request.inputs, request.ranks)?,
            Extent::Whole | Extent::Part | Extent::Share(_) => claims.tasks(request.inputs, request.ranks)?,
        };
        let is_beside = extent == Extent::Part || tasks.len() > 1;
        if let Some(own) = &own {
            tasks.retain(|t| own.contains(&t.input));
        }
        match attempt(request, (extent, is_beside), &claims, &tasks, sink, progress)? {
            Attempt::Finished(ranks, refused, store) => {
                return Ok(MappedSet {
                    inputs: request.inputs.to_vec(),
                    claims,
                    tasks,
                    ranks,
                    refused,
                    store,
                });
            }
            // A file gave its rank after the events: assign all ranks again with what is known now.
            Attempt::Claimed(input, rank) => {
                claims.ranks[input] = Some(rank);
                sink.void().map_err(|source| RunError::Write { what: "the tables".to_string(), source })?;
            }
        }
    }
}

enum Attempt {
    Finished(Vec<RankResults>, Vec<Refused>, PartialStore),
    Claimed(usize, u32),
}

/// Size of a file or an object, or of its part for one process, bytes; 0 if it is not known.
pub fn stored_size(input: &Input) -> u64 {
    let size = input.path.size().unwrap_or(0);
    input.process.as_ref().map_or(size, |part| part.share(size))
}

fn attempt(
    request: &Request,
    (extent, is_beside): (Extent, bool),
    claims: &RankClaims,
    tasks: &[Task],
    sink: &dyn RowSink,
    progress: &dyn Progress,
) -> Result<Attempt, RunError> {
    let captured = request.options.model.graph_captures.held_bytes();
    let memory = request.load.memory.map(|m| for_ranks(m, tasks.len(), captured)).transpose()?;
    // Names or positions clash: read the stored ranks of these files before anything is written.
    if let Some(pair) = tasks.windows(2).find(|p| p[0].rank == p[1].rank) {
        let options = LoadOptions { memory, ..LoadOptions::default() };
        for task in pair.iter().filter(|j| j.source != RankSource::File) {
            let full = load(&request.inputs[task.input], options, Spread::Inline, &ByteCount::default());
            if let Some(rank) = full.ok().and_then(|l| l.meta.rank)
                && rank != task.rank
            {
                return Ok(Attempt::Claimed(task.input, rank));
            }
        }
        return Err(duplicate(request.inputs, &pair[0], &pair[1]));
    }
    let threads = rayon::current_num_threads();
    let spread = if threads > 1 && tasks.len() < threads { Spread::AllCores } else { Spread::Inline };
    let count = ByteCount::default();
    let size = |j: &Task| stored_size(&request.inputs[j.input]);
    progress.start(tasks.len(), tasks.iter().map(size).sum(), &count);
    let order = InOrder::new(sink);
    let needs = match memory {
        Some(_) => tasks.iter().map(|j| estimate(&request.inputs[j.input])).collect(),
        None => vec![0; tasks.len()],
    };
    let store = PartialStore::new(sink.spool());
    // as long as the run goes on, and once more when it is read back
    let kept = || 2 * store.held_bytes() as u64;
    let results: Vec<Result<RankResults, Failure>> =
        Admission::new(needs, memory, &order, &kept).run(progress, |i, room| {
            // of the last ranks, one may be at work when the others are done: their threads help
            let is_last = threads > 1 && i + threads >= tasks.len();
            let mapping = if is_last { Spread::AllCores } else { spread };
            let is_alone = tasks.len() == 1;
            let how = RankContext {
                extent,
                is_beside,
                is_alone,
                spread,
                mapping,
                count: &count,
                room,
                store: &store,
            };
            one(request, &tasks[i], &how, sink, &|rows| order.take(i, rows))
        });
    progress.finish();
    if let Some(source) = order.error() {
        return Err(RunError::Write { what: "the tables".to_string(), source });
    }
    let mut refused: Vec<Refused> = Vec::new();
    for (input, error) in request.inputs.iter().zip(&claims.refused) {
        if let Some(error) = error {
            refused.push(Refused { input: input.clone(), error: error.clone() });
        }
    }
    let mut done = Vec::new();
    for (task, result) in tasks.iter().zip(results) {
        match result {
            Ok(d) => done.push(d),
            Err(Failure::Claims(rank)) => return Ok(Attempt::Claimed(task.input, rank)),
            Err(Failure::Read(error)) => {
                refused.push(Refused { input: request.inputs[task.input].clone(), error })
            }
            Err(Failure::Write(what, source)) => {
                return Err(RunError::Write { what: what.to_string(), source });
            }
            Err(Failure::NoRank) => {
                return Err(SetError::NoRank { file: request.inputs[task.input].shown.clone() }.into());
            }
        }
    }
    Ok(Attempt::Finished(done, refused, store))
}

/// Memory reserved for the program, its threads and the tables that are being written, bytes.
const OWN_BYTES: u64 = 64 << 20;

/// Memory reserved for the results of one rank, bytes.
const RANK_KEPT_BYTES: u64 = 64 << 10;

/// Smallest accepted limit for the ranks in flight, bytes.
const SMALLEST_ROOM: u64 = 16 << 20;

/// Subtracts the reserved memory, and that of the captured graphs, from the limit.
fn for_ranks(limit: MemoryLimit, ranks: usize, captured: u64) -> Result<MemoryLimit, SetError> {
    let own = OWN_BYTES + RANK_KEPT_BYTES * ranks as u64 + captured;
    let left = limit.bytes.saturating_sub(own);
    if left < SMALLEST_ROOM && limit.given {
        return Err(SetError::Memory { ranks, limit: limit.bytes, needs: own + SMALLEST_ROOM });
    }
    Ok(MemoryLimit { bytes: left.max(SMALLEST_ROOM), ..limit })
}

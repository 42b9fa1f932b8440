//! From files to answers: find the ranks, map them in parallel, reduce.
//!
//! A rank's trace is loaded, mapped and dropped; only bounded partials are kept. Row tables are handed
//! to a [`RowSink`] in order of rank, whatever the order in which ranks finish; of one rank, different tables come in
//! any order.
//!
//! [`run`] is [`map`] and [`reduce`] over one [`MappedSet`]. Other processes may map other ranks of the job:
//! `partial` writes a set and reads it again, and `hta merge` reduces all of them by the same function.

mod claims;
mod flight;
mod order;
mod rank;
mod reduce;

pub use claims::{Claims, Task, again, duplicate};
pub use reduce::reduce;

use crate::analysis::api::{Analysis, Options, Output, Partial};
use crate::analysis::inventory;
use crate::error::{ReadError, SetError};
use crate::health::{Counter, Health};
use crate::job::Clock;
use crate::read::input::Input;
use crate::read::load::load;
use crate::read::options::LoadOptions;
use crate::read::reading::Spread;
use crate::read::room::{MemoryLimit, estimate};
use crate::read::source::ByteCount;
use crate::store::{PartialStore, Spool, StoredPartial};
use crate::table::schema::Batch;
use crate::trace::meta::{RankSource, TimeEra};
use crate::trace::rank_trace::RankTrace;
use flight::Flight;
use order::InOrder;
use rank::{Failure, How, one};
use std::io;

/// Takes what is too large to keep.
pub trait RowSink: Sync {
    /// Rows of a table, of one rank; called in order of rank, for each as often as it has rows to give.
    ///
    /// # Errors
    /// When they cannot be written.
    fn rows(&self, rows: Batch) -> io::Result<()>;

    /// A rank's whole trace, in any order.
    ///
    /// # Errors
    /// When it cannot be written.
    fn trace(&self, trace: &RankTrace) -> io::Result<()>;

    /// An analysis' answer, as each is made; its tables may be taken, so that those of all analyses are never in memory
    /// together.
    ///
    /// # Errors
    /// When they cannot be written.
    fn reduced(&self, _analysis: &dyn Analysis, _output: &mut Output) -> io::Result<()> {
        Ok(())
    }

    /// Where what the ranks left is kept when it is too much for the memory.
    fn spool(&self) -> Spool {
        Spool::default()
    }

    /// All that was given so far is void: a file told another rank behind its events, and the set is numbered anew.
    ///
    /// # Errors
    /// When what was written cannot be taken back.
    fn void(&self) -> io::Result<()>;
}

/// Told of progress, from any thread.
pub trait Progress: Sync {
    /// The set is known: number of ranks and bytes on disk.
    fn start(&self, ranks: usize, bytes: u64, count: &ByteCount);
    /// One rank is done.
    fn rank_done(&self);
    /// All are done.
    fn finish(&self);
}

/// What to run.
pub struct Request<'a> {
    pub inputs: &'a [Input],
    pub analyses: &'a [&'static dyn Analysis],
    pub options: &'a Options,
    pub load: LoadOptions,
    /// Ranks to keep; all when empty.
    pub ranks: &'a [(u32, u32)],
}

/// A file that was not analysed.
#[derive(Debug)]
pub struct Refused {
    pub input: Input,
    pub error: ReadError,
}

impl Refused {
    /// Whether something is lost with it: not where it only lay in the folder and is something else than a trace. A
    /// file with the name of a rank's trace is one, unless it is a whole file of another kind.
    pub fn is_loss(&self) -> bool {
        let has_name = || self.input.has_trace_name() && !self.error.is_other_format();
        self.input.named || !self.error.is_foreign() || has_name()
    }
}

/// What a run found.
pub struct Outcome {
    /// Partials of the inventory (ranks, health, kernel rules), in order of rank.
    pub inventory: Vec<Partial>,
    /// Per analysis, in the order asked for; without the tables that the sink has taken.
    pub outputs: Vec<(&'static dyn Analysis, Output)>,
    pub refused: Vec<Refused>,
    /// Counters of the set as a whole.
    pub set_health: Health,
    /// Counters of all ranks.
    pub rank_health: Vec<(u32, String, Health)>,
    pub unpacked_bytes: u64,
    /// Clocks of the ranks, where an analysis of the run joined them.
    pub clocks: Vec<(u32, Clock)>,
}

impl Outcome {
    /// Whether something could not be used: a lost event, a refused file that was named.
    pub fn has_loss(&self) -> bool {
        is_loss(&self.refused) || self.rank_health.iter().any(|(_, _, h)| h.has_loss())
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

    /// Ranks that were analysed.
    pub fn ranks(&self) -> Vec<u32> {
        self.inventory.iter().map(|p| p.rank).collect()
    }
}

/// Why a run ended without an outcome.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Set(#[from] SetError),
    /// No file could be read; each with its reason.
    #[error("cannot analyse anything: none of {} files is a readable trace", .0.len())]
    NothingReadable(Vec<Refused>),
    #[error("cannot write {what}: {source}")]
    Write { what: String, source: io::Error },
    #[error("cannot read back what the ranks left: {0}")]
    ReadBack(io::Error),
    #[error("cannot find the ranks asked for: the set holds {0}")]
    NoSuchRank(String),
}

/// What one rank leaves.
pub struct Done {
    pub rank: u32,
    pub source: RankSource,
    pub file: String,
    /// By analysis of the run.
    pub partials: Vec<StoredPartial>,
    pub inventory: StoredPartial,
    /// For the analyses that compare ranks, where the run has one.
    pub part: Option<StoredPartial>,
    pub health: Health,
    pub era: TimeEra,
    /// Base time that was added, ns.
    pub base: Option<i64>,
    /// World size, ranks.
    pub world: Option<u32>,
    /// Size of the JSON text, bytes.
    pub unpacked: u64,
}

/// What mapping some files of a job leaves: all that [`reduce`] needs.
pub struct MappedSet {
    /// The files, in natural order, with what is known of each.
    pub inputs: Vec<Input>,
    pub claims: Claims,
    /// Files that were read or tried, in order of rank.
    pub tasks: Vec<Task>,
    /// Ranks that were mapped, in order of rank.
    pub ranks: Vec<Done>,
    /// Their partials.
    pub store: PartialStore,
    /// Files that are no traces, in order of the files; then those that turned out unreadable, in order of rank.
    pub refused: Vec<Refused>,
}

impl MappedSet {
    /// Whether something could not be used, as [`Outcome::has_loss`] tells it.
    pub fn has_loss(&self) -> bool {
        is_loss(&self.refused) || self.ranks.iter().any(|d| d.health.has_loss())
    }
}

fn is_loss(refused: &[Refused]) -> bool {
    refused.iter().any(Refused::is_loss)
}

/// Whether a set of files is the whole job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    Whole,
    /// Other ranks are mapped elsewhere: a rank must not come from a file's position, peers are there, and it is no
    /// error that no file is readable.
    Part,
}

/// Runs analyses over a set of files.
///
/// # Errors
/// Two files of one rank, nothing readable, rows that cannot be written. Files that cannot be read while
/// others can are reported in the outcome.
pub fn run(request: &Request, sink: &dyn RowSink, progress: &dyn Progress) -> Result<Outcome, RunError> {
    let set = map(request, Extent::Whole, sink, progress)?;
    if set.ranks.is_empty() {
        return Err(RunError::NothingReadable(set.refused));
    }
    reduce(set, request.analyses, request.options, sink)
}

/// Maps the ranks of a set of files.
///
/// # Errors
/// Two files of one rank, rows that cannot be written; of a part, a file that does not tell its rank.
pub fn map(
    request: &Request,
    extent: Extent,
    sink: &dyn RowSink,
    progress: &dyn Progress,
) -> Result<MappedSet, RunError> {
    let mut claims = Claims::peek(request.inputs);
    loop {
        let tasks = claims.tasks(request.inputs, request.ranks)?;
        match attempt(request, extent, &claims, &tasks, sink, progress)? {
            Attempt::Finished(ranks, refused, store) => {
                return Ok(MappedSet { inputs: request.inputs.to_vec(), claims, tasks, ranks, refused, store });
            }
            // a rank stood behind the events: number the set again with what is known now
            Attempt::Claimed(input, rank) => {
                claims.ranks[input] = Some(rank);
                sink.void().map_err(|source| RunError::Write { what: "the tables".to_string(), source })?;
            }
        }
    }
}

enum Attempt {
    Finished(Vec<Done>, Vec<Refused>, PartialStore),
    Claimed(usize, u32),
}

fn attempt(
    request: &Request,
    extent: Extent,
    claims: &Claims,
    tasks: &[Task],
    sink: &dyn RowSink,
    progress: &dyn Progress,
) -> Result<Attempt, RunError> {
    let memory = request.load.memory.map(|m| for_ranks(m, tasks.len())).transpose()?;
    // two names or positions with one rank: settle before anything is written, by reading their claims
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
    let size = |j: &Task| std::fs::metadata(&request.inputs[j.input].path).map_or(0, |m| m.len());
    progress.start(tasks.len(), tasks.iter().map(size).sum(), &count);
    let order = InOrder::new(sink);
    let needs = match memory {
        Some(_) => tasks.iter().map(|j| estimate(&request.inputs[j.input].path)).collect(),
        None => vec![0; tasks.len()],
    };
    let store = PartialStore::new(sink.spool());
    // as long as the run goes on, and once more when it is read back
    let kept = || 2 * store.held_bytes() as u64;
    let results: Vec<Result<Done, Failure>> = Flight::new(needs, memory, &order, &kept).run(progress, |i, room| {
        // of the last ranks, one may be at work when the others are done: their threads help
        let is_last = threads > 1 && i + threads >= tasks.len();
        let mapping = if is_last { Spread::AllCores } else { spread };
        let how = How { extent, ranks: tasks.len(), spread, mapping, count: &count, room, store: &store };
        one(request, &tasks[i], &how, sink, &|rows| order.take(i, rows))
    });
    progress.finish();
    if let Some(source) = order.error() {
        return Err(RunError::Write { what: "the tables".to_string(), source });
    }
    let mut refused: Vec<Refused> = Vec::new();
    for (input, error) in request.inputs.iter().zip(&claims.refused) {
        if let Some(error) = error {
            refused.push(Refused { input: input.clone(), error: again(error) });
        }
    }
    let mut done = Vec::new();
    for (task, result) in tasks.iter().zip(results) {
        match result {
            Ok(d) => done.push(d),
            Err(Failure::Claims(rank)) => return Ok(Attempt::Claimed(task.input, rank)),
            Err(Failure::Read(error)) => refused.push(Refused { input: request.inputs[task.input].clone(), error }),
            Err(Failure::Write(what, source)) => return Err(RunError::Write { what: what.to_string(), source }),
            Err(Failure::NoRank) => {
                return Err(SetError::NoRank { file: request.inputs[task.input].shown.clone() }.into());
            }
        }
    }
    Ok(Attempt::Finished(done, refused, store))
}

/// What hta takes itself: its program, threads, the tables that are being written.
const OWN_BYTES: u64 = 64 << 20;

/// What is kept of a rank that is done.
const RANK_KEPT_BYTES: u64 = 64 << 10;

/// The smallest bound for the ranks in flight.
const SMALLEST_ROOM: u64 = 16 << 20;

/// What a limit leaves for the ranks in flight.
fn for_ranks(limit: MemoryLimit, ranks: usize) -> Result<MemoryLimit, SetError> {
    let own = OWN_BYTES + RANK_KEPT_BYTES * ranks as u64;
    let left = limit.bytes.saturating_sub(own);
    if left < SMALLEST_ROOM && limit.given {
        return Err(SetError::Memory { ranks, limit: limit.bytes, needs: own + SMALLEST_ROOM });
    }
    Ok(MemoryLimit { bytes: left.max(SMALLEST_ROOM), ..limit })
}

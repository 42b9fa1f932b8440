//! The pipeline: finds the ranks, maps them in parallel, and reduces.
//!
//! A rank's trace is loaded, mapped and dropped; only bounded partials are kept. Tables with rows per event
//! go to a [`RowSink`] in order of rank, whatever the order in which ranks finish; within one rank the order
//! of tables is arbitrary.
//!
//! [`run`] is [`map`] followed by [`reduce`] on a [`MappedSet`]. The ranks of a job may be mapped by several
//! processes: `partial` writes and reads the sets, and `hta merge` reduces them by the same function.

mod along;
mod attempt;
mod captures;
mod chosen_groups;
mod claims;
mod error;
mod flight;
mod narrowed;
mod order;
mod outcome;
mod processes;
mod programs;
mod rank;
mod reduce;
mod share;
mod which_capture;
mod withhold;

pub use along::{AlongDimension, ranks_along, ranks_along_of};
pub use captures::{CaptureError, read_captures};
pub use chosen_groups::of_groups;
pub use claims::{RankClaims, Task, are_apart, duplicate, stored_size};
pub use error::{Refused, RunError};
pub use narrowed::narrowed;
pub use outcome::{MappedSet, Outcome, RankResults};
pub use reduce::reduce;
pub use share::RunShare;
pub use which_capture::{WhichCapture, by_process as captures_by_process};

use crate::store::Spool;
use attempt::{Attempt, attempt};
use hta_analysis::api::{Analysis, Options, Output};
use hta_analysis::filters;
use hta_base::table::schema::Batch;
use hta_job::{ProgramExtent, ToldMeshes};
use hta_read::error::SetError;
use hta_read::input::Input;
use hta_read::options::LoadOptions;
use hta_read::source::ByteCount;
use hta_trace::rank_trace::RankTrace;
use std::collections::BTreeSet;
use std::io;

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
    if are_apart(request.inputs) {
        return run_each(request, sink, progress);
    }
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

/// Checks `--mesh` against what the heads of the files say, before they are read. Of several programs it is
/// checked when they are joined.
fn check_mesh(claims: &RankClaims, options: &Options) -> Result<(), RunError> {
    let worlds: BTreeSet<u32> = claims.worlds.iter().copied().flatten().collect();
    let (Some(world), 1) = (worlds.first().copied(), worlds.len()) else { return Ok(()) };
    let told = ToldMeshes { shape: options.across.mesh.clone(), ..ToldMeshes::default() };
    let program = ProgramExtent { role: None, replica: None, first: 0, said: Some(world), seen: 0 };
    Ok(filters::check_mesh(&told, &[program])?)
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
    check_mesh(&claims, request.options)?;
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
            // A file gave its rank, or the size of its program, after the events: assign all ranks again with
            // what is known now.
            Attempt::Claimed(input, claim) => {
                claims.learn(input, claim);
                sink.void().map_err(|source| RunError::Write { what: "the tables".to_string(), source })?;
            }
        }
    }
}

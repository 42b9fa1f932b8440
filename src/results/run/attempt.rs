//! One attempt to map all ranks of a set: admitted by memory, in parallel, their rows in order of rank.

use crate::run::claims::{FileClaim, RankClaims, Task, duplicate, stored_size};
use crate::run::error::{Refused, RunError};
use crate::run::flight::Admission;
use crate::run::order::InOrder;
use crate::run::outcome::RankResults;
use crate::run::rank::{Failure, RankContext, one};
use crate::run::{Extent, Progress, Request, RowSink};
use crate::store::PartialStore;
use hta_base::process::{resident_memory, return_freed_memory};
use hta_read::error::SetError;
use hta_read::load::load;
use hta_read::options::LoadOptions;
use hta_read::reading::Spread;
use hta_read::room::{MemoryLimit, estimate};
use hta_read::source::ByteCount;
use hta_trace::meta::RankSource;

/// How an attempt to map all ranks ended.
pub(super) enum Attempt {
    Finished(Vec<RankResults>, Vec<Refused>, PartialStore),
    Claimed(usize, FileClaim),
}

/// Maps the ranks of the tasks.
pub(super) fn attempt(
    request: &Request,
    (extent, is_beside): (Extent, bool),
    claims: &RankClaims,
    tasks: &[Task],
    sink: &dyn RowSink,
    progress: &dyn Progress,
) -> Result<Attempt, RunError> {
    let captured = request.options.model.graph_captures.held_bytes();
    let needs: Vec<u64> = match request.load.memory {
        Some(_) => tasks.iter().map(|j| estimate(&request.inputs[j.input])).collect(),
        None => vec![0; tasks.len()],
    };
    let memory = request.load.memory.map(|m| for_ranks(m, &needs, captured)).transpose()?;
    if let Some(pair) = tasks.windows(2).find(|p| p[0].rank == p[1].rank) {
        let claimed = other_rank(request, LoadOptions { memory, ..LoadOptions::default() }, pair);
        return claimed.ok_or_else(|| duplicate(request.inputs, &pair[0], &pair[1]));
    }
    let threads = rayon::current_num_threads();
    let spread = if threads > 1 && tasks.len() < threads { Spread::AllCores } else { Spread::Inline };
    let count = ByteCount::default();
    progress.start(tasks.len(), tasks.iter().map(|j| stored_size(&request.inputs[j.input])).sum(), &count);
    let order = InOrder::new(sink);
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
            let result = one(request, &tasks[i], &how, sink, &|rows| order.take(i, rows));
            // The rank keeps its share of the limit until its memory is back: no other takes it before.
            if request.load.memory.is_some_and(is_near) {
                return_freed_memory();
            }
            result
        });
    progress.finish();
    if let Some(source) = order.error() {
        return Err(RunError::Write { what: "the tables".to_string(), source });
    }
    sorted(request, claims, tasks.iter().zip(results), store)
}

/// What a file of a pair that clashes by name or position says of its rank behind its events, if that is
/// another rank. It is read before anything is written.
fn other_rank(request: &Request, options: LoadOptions, pair: &[Task]) -> Option<Attempt> {
    pair.iter().filter(|task| task.source != RankSource::File).find_map(|task| {
        let full = load(&request.inputs[task.input], options, Spread::Inline, &ByteCount::default());
        let meta = full.ok()?.meta;
        let claim = FileClaim { rank: meta.rank, world: meta.world_size };
        claim.contradicts(task).then_some(Attempt::Claimed(task.input, claim))
    })
}

/// Parts results into ranks and refused files.
fn sorted<'a>(
    request: &Request,
    claims: &RankClaims,
    results: impl Iterator<Item = (&'a Task, Result<RankResults, Failure>)>,
    store: PartialStore,
) -> Result<Attempt, RunError> {
    let mut refused: Vec<Refused> = Vec::new();
    for (input, error) in request.inputs.iter().zip(&claims.refused) {
        if let Some(error) = error {
            refused.push(Refused { input: input.clone(), error: error.clone() });
        }
    }
    let mut done = Vec::new();
    for (task, result) in results {
        match result {
            Ok(d) => done.push(d),
            Err(Failure::Claims(claim)) => return Ok(Attempt::Claimed(task.input, claim)),
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

/// Percent of a memory limit above which freed memory is returned after each rank. Below, it is kept: a later
/// rank then does not wait for new pages.
const NEAR_PERCENT: u64 = 75;

/// Whether the process takes so much memory that what it has freed must be returned.
fn is_near(limit: MemoryLimit) -> bool {
    resident_memory().is_some_and(|bytes| bytes > limit.bytes / 100 * NEAR_PERCENT)
}

/// Memory reserved for the program, its threads and the tables that are being written, bytes.
const OWN_BYTES: u64 = 64 << 20;

/// Memory reserved for the results of one rank, bytes.
const RANK_KEPT_BYTES: u64 = 64 << 10;

/// Smallest accepted limit for the ranks in flight, bytes.
const SMALLEST_ROOM: u64 = 16 << 20;

/// Subtracts the reserved memory, and that of the captured graphs, from the limit. `needs`: the estimates of
/// the ranks, bytes.
fn for_ranks(limit: MemoryLimit, needs: &[u64], captured: u64) -> Result<MemoryLimit, SetError> {
    let ranks = needs.len();
    let own = OWN_BYTES + RANK_KEPT_BYTES * ranks as u64 + captured;
    let left = limit.bytes.saturating_sub(own);
    if left < SMALLEST_ROOM && limit.given {
        let largest = needs.iter().copied().max().unwrap_or(0).max(SMALLEST_ROOM);
        return Err(SetError::Memory { ranks, limit: limit.bytes, needs: own.saturating_add(largest) });
    }
    Ok(MemoryLimit { bytes: left.max(SMALLEST_ROOM), ..limit })
}

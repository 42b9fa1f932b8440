//! Processing of one rank: reads its trace, maps it with every analysis, and drops it.

use crate::run::claims::FileClaim;
use crate::run::{Extent, RankResults, Request, RowSink, Task};
use crate::store::{INVENTORY, PartialStore, StoredPartial};
use hta_analysis::api::{Analysis, Partial};
use hta_analysis::filters;
use hta_analysis::inventory;
use hta_base::table::schema::Batch;
use hta_job::{JobOptions, RankSummary};
use hta_read::error::ReadError;
use hta_read::load::load_within;
use hta_read::reading::Spread;
use hta_read::room::MemoryGate;
use hta_read::source::ByteCount;
use hta_trace::content::{is_front_end, nothing_recorded, unknown_content};
use hta_trace::merged::{merged, torn};
use hta_trace::meta::RankSource;
use hta_trace::other_recorder::other_recorder;
use hta_trace::rank_trace::RankTrace;
use rayon::prelude::*;
use std::io;

/// Why a rank has no result.
pub(super) enum Failure {
    Read(ReadError),
    /// What could not be written.
    Write(&'static str, io::Error),
    /// The file's own rank, found behind its events, is another one, or its program is larger.
    Claims(FileClaim),
    /// Neither the file nor its name gives the rank, and a position means nothing in a part of a job.
    NoRank,
}

/// How a rank is read and mapped.
pub(super) struct RankContext<'a> {
    pub(crate) extent: Extent,
    /// Whether the set has other files of ranks or processes.
    pub(crate) is_beside: bool,
    /// Whether it is the only file of this process.
    pub(crate) is_alone: bool,
    /// Parallelism of reading.
    pub(crate) spread: Spread,
    /// Parallelism of the analyses.
    pub(crate) mapping: Spread,
    pub(crate) count: &'a ByteCount,
    pub(crate) room: &'a dyn MemoryGate,
    pub(crate) store: &'a PartialStore,
}

impl RankContext<'_> {
    /// Whether the rank has others to be compared with.
    fn has_peers(&self) -> bool {
        self.is_beside && self.extent != Extent::Processes
    }
}

/// Reads and maps one rank; `give` receives rows of tables.
pub(super) fn one(
    request: &Request,
    task: &Task,
    how: &RankContext,
    sink: &dyn RowSink,
    give: &(dyn Fn(Batch) + Sync),
) -> Result<RankResults, Failure> {
    let (trace, source) = read(request, task, how)?;
    let is_dump = trace.columns.dump.is_some();
    // Alone it is analysed, and whether it is alone is known when the parts are merged.
    let is_front = is_front_end(&trace);
    let is_alone = is_front && how.is_alone && other_recorder(&trace).is_none();
    if how.is_beside && is_front && !is_alone {
        return Err(Failure::Read(ReadError::FrontEnd { file: trace.file }));
    }
    let needs_known = !is_dump && request.analyses.iter().any(|a| a.about().needs_known_events);
    if let Some(error) = unanalysable(&trace, needs_known, how) {
        return Err(Failure::Read(error));
    }
    if how.extent == Extent::Part && source == RankSource::Position && !is_alone {
        return Err(Failure::NoRank);
    }
    let (inventory, partials) = mapped(request, &trace, how, sink, give)?;
    let options = request.options;
    let has_peers = how.has_peers();
    let joins = |a: &&'static dyn Analysis| a.about().joins_ranks || (has_peers && a.about().joins_peers);
    let joins = !is_dump && request.analyses.iter().any(joins);
    let job = JobOptions { model: &options.model, kernel_wait_max: options.kernel_wait_max, has_peers };
    let part = joins.then(|| how.store.put_part(RankSummary::new(&trace, job)));
    Ok(RankResults {
        rank: trace.rank,
        source,
        part: part.transpose().map_err(unspooled)?,
        partials: partials.into(),
        inventory,
        era: trace.meta.era,
        base: trace.meta.base_ns,
        world: trace.meta.world_size,
        unpacked: trace.unpacked_bytes,
        file: trace.file,
        health: trace.health,
        is_front_end: is_alone,
    })
}

/// Reads the trace, and from where its rank is known.
fn read(request: &Request, task: &Task, how: &RankContext) -> Result<(RankTrace, RankSource), Failure> {
    let input = &request.inputs[task.input];
    let loaded = load_within(input, request.load, how.spread, how.count, how.room);
    let mut loaded = loaded.map_err(Failure::Read)?;
    let meta = &mut loaded.meta;
    if how.extent == Extent::Processes {
        // What it is in its own job says nothing about this set.
        (meta.rank, meta.world_size) = (None, None);
    }
    let claim = FileClaim { rank: meta.rank, world: meta.world_size };
    if claim.contradicts(task) {
        return Err(Failure::Claims(claim));
    }
    let source = if claim.rank.is_some() { RankSource::File } else { task.source };
    task.place_in(meta, input);
    Ok((loaded.into_trace(task.rank, source, input.shown.clone(), &request.options.model), source))
}

/// Why a trace cannot be analysed as one rank, if so.
fn unanalysable(trace: &RankTrace, needs_known: bool, how: &RankContext) -> Option<ReadError> {
    let file = || trace.file.clone();
    if needs_known && let Some(what) = other_recorder(trace).or_else(|| unknown_content(trace)) {
        return Some(ReadError::UnknownContent { file: file(), what });
    }
    if needs_known && let Some(what) = nothing_recorded(trace) {
        return Some(ReadError::NothingRecorded { file: file(), what });
    }
    let what = torn(trace).or_else(|| merged(trace).filter(|_| how.extent != Extent::Processes))?;
    Some(ReadError::Merged { file: file(), what })
}

fn unspooled(error: io::Error) -> Failure {
    Failure::Write("what the ranks left", error)
}

/// Maps the trace with every analysis, and writes its events: its inventory, and by analysis what it left.
fn mapped(
    request: &Request,
    trace: &RankTrace,
    how: &RankContext,
    sink: &dyn RowSink,
    give: &(dyn Fn(Batch) + Sync),
) -> Result<(StoredPartial, Vec<StoredPartial>), Failure> {
    let (options, is_dump) = (request.options, trace.columns.dump.is_some());
    let inventory = || {
        let mut partial = inventory::map(trace, options, &mut |rows| give(rows));
        partial.tables.extend(filters::map(trace, request.analyses, options));
        how.store.put(INVENTORY, partial)
    };
    // Slow analyses start first, so that none runs alone at the end and before shared facts fill memory.
    let (mut order, short): (Vec<_>, Vec<_>) =
        request.analyses.iter().enumerate().partition(|(_, a)| a.about().is_long);
    order.extend(short);
    let map = |(i, a): (usize, &&'static dyn Analysis)| {
        let partial = match is_dump && !a.about().reads_dumps {
            true => Partial {
                rank: trace.rank,
                reason: Some("a dump of memory has no events"),
                ..Partial::default()
            },
            false => a.map(trace, options, &mut |rows| give(rows)),
        };
        Ok((i, how.store.put(a.stem(), partial)?))
    };
    let write = || sink.trace(trace).map_err(|e| Failure::Write("the events", e));
    type Made = io::Result<Vec<(usize, StoredPartial)>>;
    let (inventory, made): (io::Result<StoredPartial>, Made) = match how.mapping {
        Spread::Inline => {
            write()?;
            let made = order.into_iter().map(map).collect();
            (inventory(), made)
        }
        // In parallel: the events are written on one thread, and the analyses run on the others as these get
        // free.
        Spread::AllCores => {
            let mapped = || rayon::join(inventory, || order.into_iter().par_bridge().map(map).collect());
            let (written, mapped) = rayon::join(write, mapped);
            written?;
            mapped
        }
    };
    let (inventory, mut made) = (inventory.map_err(unspooled)?, made.map_err(unspooled)?);
    made.sort_by_key(|(i, _)| *i);
    Ok((inventory, made.into_iter().map(|(_, partial)| partial).collect()))
}

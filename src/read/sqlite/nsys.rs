//! The rows of one process in an export of nsys, as columns.
//!
//! Schemas differ by version: tables and columns that a file lacks are empty or null.

use super::database::{Database, FEW, Only, int, text};
use super::gpu_names::{copy_name, set_name, wait_name};
use super::nsys_calls::calls;
use super::nsys_export::{CALLS, Export, pid, place, process_of};
use super::nsys_meta::meta;
use super::ranges::{Said, SqliteRanges};
use super::rows::{GpuWork, Rows};
use crate::error::ReadError;
use crate::input::{Input, PartKey};
use crate::reading::{Reading, Unsettled};
use hashbrown::{HashMap, HashSet};
use hta_base::health::Counter;
use hta_trace::args::Arg;
use hta_trace::launch::is_launch_call;
use hta_trace::meta::Meta;
use hta_trace::strings::StrId;
use std::collections::BTreeSet;

const KERNELS: &str = "CUPTI_ACTIVITY_KIND_KERNEL";
const COPIES: &str = "CUPTI_ACTIVITY_KIND_MEMCPY";
const SETS: &str = "CUPTI_ACTIVITY_KIND_MEMSET";
const GRAPHS: &str = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE";
const WAITS: &str = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION";
const RANGES: &str = "NVTX_EVENTS";

/// Tables with GPU work.
const WORK: [&str; 4] = [KERNELS, COPIES, SETS, GRAPHS];

/// Tables that say what others mean, or nothing about time.
const KNOWN: [&str; 22] = [
    RANGES,
    CALLS,
    WAITS,
    "StringIds",
    "ANALYSIS_FILE",
    "ANALYSIS_DETAILS",
    "ProcessStreams",
    "PROCESSES",
    "ThreadNames",
    "TARGET_INFO_SYSTEM_ENV",
    "TARGET_INFO_SESSION_START_TIME",
    "TARGET_INFO_GPU",
    "TARGET_INFO_CUDA_DEVICE",
    "TARGET_INFO_CUDA_CONTEXT_INFO",
    "TARGET_INFO_CUDA_STREAM",
    "TARGET_INFO_CUDA_NULL_STREAM",
    "TARGET_INFO_NIC_INFO",
    "META_DATA_CAPTURE",
    "META_DATA_EXPORT",
    "EXPORT_META_DATA",
    "NVTX_PAYLOAD_SCHEMAS",
    "NVTX_PAYLOAD_SCHEMA_ENTRIES",
];

/// Type of the events that name a thread.
const THREAD_NAME: i64 = 39;

/// The processes of an export, in order of their ids.
#[derive(Debug, Default)]
pub(crate) struct NsysProcesses {
    /// Those with GPU work, and beside them those that launched work of which nothing is recorded.
    pub(crate) ranks: Vec<i64>,
    /// Those that only called the API.
    pub(crate) idle: Vec<i64>,
}

/// Whether a database is an export of nsys: its texts, and what it says of itself or rows of its recorder.
/// nsys 2020 wrote no table about the export.
pub(crate) fn is_nsys(database: &Database) -> bool {
    const OWN: [&str; 5] =
        ["META_DATA_EXPORT", "EXPORT_META_DATA", RANGES, "TARGET_INFO_SESSION_START_TIME", "ANALYSIS_FILE"];
    let of_gpu = |table: &String| table.starts_with("CUPTI_ACTIVITY_KIND_");
    database.has("StringIds")
        && (OWN.iter().any(|table| database.has(table)) || database.tables().iter().any(of_gpu))
}

/// # Errors
/// When the file is damaged.
pub(crate) fn processes(database: &Database) -> Result<NsysProcesses, ReadError> {
    let (mut working, mut launching, mut calling) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for table in WORK {
        database.each(table, ["globalPid"], |row| {
            working.extend(int(row, 0).map(process_of).filter(|_| working.len() <= FEW));
        })?;
    }
    if working.is_empty() {
        return Ok(NsysProcesses::default());
    }
    let mut launches: HashSet<i64> = HashSet::new();
    database.each("StringIds", ["id", "value"], |row| {
        let is_launch = || launches.len() <= FEW && text(row, 1).is_some_and(|name| is_launch_call(&name));
        launches.extend(int(row, 0).filter(|_| is_launch()));
    })?;
    database.each(CALLS, ["globalTid", "nameId"], |row| {
        let Some(process) = int(row, 0).map(process_of).filter(|_| calling.len() <= FEW) else { return };
        calling.insert(process);
        if int(row, 1).is_some_and(|name| launches.contains(&name)) {
            launching.insert(process);
        }
    })?;
    if [working.len(), launches.len(), calling.len()].iter().any(|count| *count > FEW) {
        return Err(database.too_many("processes, or names of launches"));
    }
    let ranks: BTreeSet<i64> = working.union(&launching).copied().collect();
    let idle = calling.difference(&ranks).copied().collect();
    Ok(NsysProcesses { ranks: ranks.into_iter().collect(), idle })
}

/// The process that an input stands for.
///
/// # Errors
/// When there is no GPU work, or work of several processes and none is chosen.
pub(crate) fn process(database: &Database, input: &Input) -> Result<i64, ReadError> {
    let refused =
        |what, hint| Err(ReadError::NotATrace { file: input.shown.clone(), what, hint, is_known: true });
    if let Some(PartKey::Process(id) | PartKey::Idle(id)) = input.process.as_ref().map(|part| &part.key) {
        return Ok(*id);
    }
    match processes(database)?.ranks.as_slice() {
        [process] => Ok(*process),
        [] if database.count(CALLS)? > 0 => refused(
            "an export of nsys with CUDA calls, but without kernels and copies",
            "nothing was recorded of the GPU: end the program or call cudaProfilerStop before nsys stops, \
             record without another profiler beside it, and see the warnings of `nsys stats` on permissions",
        ),
        [] => refused(
            "an export of nsys without GPU activity",
            "it was recorded without -t cuda, or the profiled range was empty",
        ),
        _ => refused(
            "an export of nsys with several processes",
            "name the file instead of standard input: each process is a rank",
        ),
    }
}

/// The rank by which MPI named a thread of the process.
///
/// # Errors
/// When the file is damaged.
pub(crate) fn rank(database: &Database, process: i64) -> Result<Option<u32>, ReadError> {
    let mut rank = None;
    let names = Only { column: "eventType", shift: 0, value: THREAD_NAME };
    database.each_with(RANGES, ["globalTid", "text"], Some(names), |row| {
        if int(row, 0).map(process_of) == Some(process) {
            rank = rank.or_else(|| rank_of(&text(row, 1)?));
        }
    })?;
    Ok(rank)
}

/// The rank in the name of a thread.
fn rank_of(name: &str) -> Option<u32> {
    name.strip_prefix("MPI Rank ")?.trim().parse().ok()
}

/// # Errors
/// When the file is damaged, or takes more memory than there is.
pub(crate) fn load(
    database: &Database,
    process: i64,
    input: &Input,
    how: &Reading,
) -> Result<Unsettled, ReadError> {
    let mut export = Export::new(process, Rows::new(how));
    database.each("StringIds", ["id", "value"], |row| {
        if let Some((id, value)) = int(row, 0).zip(database.text(row, 1)) {
            export.rows.add_text(id, &value);
        }
    })?;
    kernels(database, &mut export)?;
    copies(database, &mut export)?;
    sets(database, &mut export)?;
    graphs(database, &mut export)?;
    waits(database, &mut export)?;
    calls(database, &mut export)?;
    let rank = ranges(database, &mut export)?;
    let meta = Meta { rank, ..meta(database, pid(process))? };
    let is_read = |table: &str| table.starts_with("ENUM_") || WORK.contains(&table) || KNOWN.contains(&table);
    export.rows.finish(database, is_read, meta, input)
}

/// Columns that all tables of GPU work begin with here.
const COMMON: [&str; 7] = ["start", "end", "deviceId", "streamId", "contextId", "correlationId", "globalPid"];

/// What all rows of GPU work have; `None` if the row is of another process.
fn work_of(export: &Export, row: &rusqlite::Row) -> Option<GpuWork> {
    export.is_mine(int(row, 6)).then(|| GpuWork {
        span: (int(row, 0), int(row, 1)),
        device: int(row, 2),
        stream: int(row, 3),
        context: int(row, 4),
        correlation: int(row, 5),
    })
}

/// The common columns and those of one table.
fn with<const N: usize, const M: usize>(own: [&'static str; N]) -> [&'static str; M] {
    std::array::from_fn(|i| COMMON.get(i).or_else(|| own.get(i - COMMON.len())).copied().unwrap_or("start"))
}

fn kernels(database: &Database, export: &mut Export) -> Result<(), ReadError> {
    let own = [
        "demangledName",
        "mangledName",
        "shortName",
        "gridX",
        "gridY",
        "gridZ",
        "blockX",
        "blockY",
        "blockZ",
        "registersPerThread",
        "staticSharedMemory",
        "dynamicSharedMemory",
        "graphNodeId",
        "graphId",
    ];
    database.each_with(KERNELS, with::<14, 21>(own), export.only("globalPid"), |r| {
        let Some(work) = work_of(export, r) else { return };
        let rows = &mut export.rows;
        let name = rows.named(&[int(r, 7), int(r, 8), int(r, 9)]);
        let Some(row) = rows.work("kernel", name, &work) else { return };
        for (arg, at) in [(Arg::Grid, 10), (Arg::Block, 13)] {
            rows.dim3(row, arg, [at, at + 1, at + 2].map(|column| int(r, column)));
        }
        rows.int(row, Arg::Registers, int(r, 16));
        let shared = int(r, 17).zip(int(r, 18)).and_then(|(a, b)| a.checked_add(b));
        rows.int(row, Arg::SharedMemory, shared);
        rows.int(row, Arg::GraphNodeId, int(r, 19).filter(|id| *id > 0));
        rows.int(row, Arg::GraphId, int(r, 20).filter(|id| *id > 0));
    })
}

fn copies(database: &Database, export: &mut Export) -> Result<(), ReadError> {
    /// Direction, and both kinds of memory.
    type CopyKey = (Option<i64>, Option<(i64, i64)>);
    let mut names: HashMap<CopyKey, StrId> = HashMap::new();
    database.each_with(
        COPIES,
        with::<4, 11>(["bytes", "copyKind", "srcKind", "dstKind"]),
        export.only("globalPid"),
        |r| {
            let Some(work) = work_of(export, r) else { return };
            let rows = &mut export.rows;
            let key = (int(r, 8), int(r, 9).zip(int(r, 10)));
            let name =
                *names.entry(key).or_insert_with(|| rows.columns.strings.intern(&copy_name(key.0, key.1)));
            let Some(row) = rows.work("gpu_memcpy", name, &work) else { return };
            rows.int(row, Arg::Bytes, int(r, 7));
        },
    )
}

fn sets(database: &Database, export: &mut Export) -> Result<(), ReadError> {
    database.each_with(SETS, with::<2, 9>(["bytes", "memKind"]), export.only("globalPid"), |r| {
        let Some(work) = work_of(export, r) else { return };
        let rows = &mut export.rows;
        let name = rows.columns.strings.intern(&set_name(int(r, 8)));
        let Some(row) = rows.work("gpu_memset", name, &work) else { return };
        rows.int(row, Arg::Bytes, int(r, 7));
    })
}

/// Launches of graphs whose kernels were not recorded.
fn graphs(database: &Database, export: &mut Export) -> Result<(), ReadError> {
    database.each_with(GRAPHS, with::<1, 8>(["graphId"]), export.only("globalPid"), |r| {
        let Some(work) = work_of(export, r) else { return };
        let rows = &mut export.rows;
        rows.columns.health.add(Counter::GraphsWhole, 1, None, "");
        let name = rows.columns.strings.intern("CUDA graph");
        let Some(row) = rows.work("kernel", name, &work) else { return };
        rows.int(row, Arg::GraphId, int(r, 7).filter(|id| *id > 0));
    })
}

fn waits(database: &Database, export: &mut Export) -> Result<(), ReadError> {
    database.each_with(WAITS, with::<2, 9>(["syncType", "eventId"]), export.only("globalPid"), |r| {
        let Some(work) = work_of(export, r) else { return };
        let rows = &mut export.rows;
        let name = rows.columns.strings.intern(wait_name(int(r, 7)));
        rows.work("cuda_sync", name, &work);
    })
}

/// Adds the ranges; the rank by which MPI named a thread.
fn ranges(database: &Database, export: &mut Export) -> Result<Option<u32>, ReadError> {
    /// Types of ranges: pushed and popped; started and ended; the same with a registered text.
    const TYPES: [i64; 4] = [59, 60, 70, 71];
    let mut ranges = SqliteRanges::new(&export.rows);
    let mut rank = None;
    let columns = ["start", "end", "eventType", "globalTid", "text", "textId"];
    database.each_with(RANGES, columns, export.only("globalTid"), |r| {
        let Some(thread) = int(r, 3).filter(|id| export.is_mine(Some(*id))) else { return };
        let Some(kind) = int(r, 2) else { return };
        if kind == THREAD_NAME {
            rank = rank.or_else(|| rank_of(&text(r, 4)?));
        }
        if !TYPES.contains(&kind) {
            return;
        }
        let id = export.rows.named(&[int(r, 5)]);
        let is_nested = kind == TYPES[0] || kind == TYPES[2];
        let said = database.text(r, 4);
        let said = said.as_deref().map_or(Said::Interned(id), Said::Text);
        ranges.add(&mut export.rows, said, (int(r, 0), int(r, 1)), place(thread), is_nested);
    })?;
    ranges.push_into(&mut export.rows);
    Ok(rank)
}

//! The rows of one process in an export of nsys, as columns.
//!
//! ```text
//!   process   id / 2^24 of a globalPid or globalTid; its upper bits are of host and virtual machine
//!   thread    globalTid mod 2^24
//!   time      ns after the start of the capture, which is utcEpochNs after 1970
//! ```
//!
//! Schemas differ by version: tables and columns that a file lacks are empty or null.

use super::database::{Database, int, text};
use super::nvtx::operator;
use crate::error::ReadError;
use crate::flops::has_model;
use crate::health::Counter;
use crate::read::input::Input;
use crate::read::reading::{Reading, Unsettled};
use crate::read::room::MemoryUse;
use crate::trace::args::Arg;
use crate::trace::events::ColumnsBuilder;
use crate::trace::meta::{Device, Meta};
use crate::trace::strings::StrId;
use hashbrown::{HashMap, HashSet};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

/// Bits of a thread's number within a process.
const THREAD_BITS: u32 = 24;

const KERNELS: &str = "CUPTI_ACTIVITY_KIND_KERNEL";
const COPIES: &str = "CUPTI_ACTIVITY_KIND_MEMCPY";
const SETS: &str = "CUPTI_ACTIVITY_KIND_MEMSET";
const GRAPHS: &str = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE";
const CALLS: &str = "CUPTI_ACTIVITY_KIND_RUNTIME";
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

/// Class of a runtime call that surrounds another row of the same call, in exports of schema 2.
const OUTER_CALL: i64 = 67;

/// The processes with GPU work, in order of their ids.
///
/// # Errors
/// When the file is damaged.
pub fn processes(database: &Database) -> Result<Vec<i64>, ReadError> {
    let mut found = BTreeSet::new();
    for table in WORK {
        database.each(table, ["globalPid"], |row| found.extend(int(row, 0).map(process_of)))?;
    }
    Ok(found.into_iter().collect())
}

/// The process of a globalPid or globalTid.
fn process_of(id: i64) -> i64 {
    id >> THREAD_BITS
}

/// The thread of a globalTid.
fn thread_of(id: i64) -> i64 {
    id & ((1 << THREAD_BITS) - 1)
}

/// The process id of the operating system, which has as many bits as a thread.
pub fn pid(process: i64) -> i64 {
    thread_of(process)
}

/// The process that an input stands for.
///
/// # Errors
/// When there is no GPU work, or work of several processes and none is chosen.
pub fn process(database: &Database, input: &Input) -> Result<i64, ReadError> {
    let refused = |what, hint| Err(ReadError::NotATrace { file: input.shown.clone(), what, hint, is_known: true });
    if let Some(process) = input.process {
        return Ok(process);
    }
    match processes(database)?.as_slice() {
        [process] => Ok(*process),
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
pub fn rank(database: &Database, process: i64) -> Result<Option<u32>, ReadError> {
    /// Type of the events that name a thread.
    const THREAD_NAME: i64 = 39;
    let mut rank = None;
    database.each(RANGES, ["eventType", "globalTid", "text"], |row| {
        let is_name = int(row, 0) == Some(THREAD_NAME) && int(row, 1).map(process_of) == Some(process);
        if is_name && let Some(number) = text(row, 2).and_then(|t| t.strip_prefix("MPI Rank ")) {
            rank = rank.or(number.trim().parse().ok());
        }
    })?;
    Ok(rank)
}

/// # Errors
/// When the file is damaged, or takes more memory than there is.
pub fn load(database: &Database, process: i64, input: &Input, how: &Reading) -> Result<Unsettled, ReadError> {
    let mut rows =
        Rows { columns: ColumnsBuilder::default(), process, texts: HashMap::new(), lanes: HashMap::new(), how };
    database.each("StringIds", ["id", "value"], |row| {
        if let Some((id, value)) = int(row, 0).zip(text(row, 1)) {
            let value = rows.columns.strings.intern(value);
            rows.texts.insert(id, value);
        }
    })?;
    kernels(database, &mut rows)?;
    copies(database, &mut rows)?;
    sets(database, &mut rows)?;
    graphs(database, &mut rows)?;
    waits(database, &mut rows)?;
    calls(database, &mut rows)?;
    ranges(database, &mut rows)?;
    for table in database.tables().iter().filter(|t| !t.starts_with("ENUM_") && !t.starts_with("sqlite_")) {
        if !WORK.contains(&table.as_str()) && !KNOWN.contains(&table.as_str()) {
            let count = database.count(table)?;
            rows.columns.health.add(Counter::TableIgnored, count, None, table);
        }
    }
    let mut meta = meta(database, process)?;
    meta.rank = rank(database, process)?;
    let Rows { mut columns, .. } = rows;
    let length = std::fs::metadata(&input.path).map_or(0, |m| m.len());
    let count = columns.len() as u64;
    columns.phases.insert(b'X', count);
    let texts = columns.strings.held_bytes();
    let held = MemoryUse { columns: columns.held_bytes() - texts, texts, buffers: 0, unpacked: length, is_whole: true };
    how.room.hold(held).map_err(|e| ReadError::TooLarge { file: input.shown.clone(), needs: None, limit: e.limit })?;
    how.count.fetch_add(length, Ordering::Relaxed);
    Ok(Unsettled { columns, meta, unpacked_bytes: length })
}

/// Where a row runs.
enum Place {
    Stream { device: i64, stream: i64 },
    Thread(i64),
}

struct Rows<'a> {
    columns: ColumnsBuilder,
    process: i64,
    /// By id in `StringIds`.
    texts: HashMap<i64, StrId>,
    /// By process and thread, or device and stream.
    lanes: HashMap<(i64, i64), u32>,
    how: &'a Reading<'a>,
}

impl Rows<'_> {
    fn is_mine(&self, id: Option<i64>) -> bool {
        id.map(process_of) == Some(self.process)
    }

    /// The first of some texts that the file has.
    fn named(&self, ids: &[Option<i64>]) -> StrId {
        ids.iter().flatten().find_map(|id| self.texts.get(id)).copied().unwrap_or_default()
    }

    /// Adds a row; `None` if its times cannot be.
    fn push(&mut self, category: &str, name: StrId, span: (Option<i64>, Option<i64>), place: &Place) -> Option<u32> {
        let c = &mut self.columns;
        let Some((start, end)) = span.0.zip(span.1) else {
            c.health.add(Counter::TsMissing, 1, None, "");
            return None;
        };
        let Some(length) = end.checked_sub(start).filter(|l| *l >= 0) else {
            c.health.add(Counter::DurNegative, 1, None, "");
            return None;
        };
        let (pid, tid) = match place {
            Place::Stream { device, stream } => (*device, *stream),
            Place::Thread(id) => (pid(process_of(*id)), thread_of(*id)),
        };
        let lane = *self.lanes.entry((pid, tid)).or_insert_with(|| {
            let [pid, tid] = [pid, tid].map(|id| c.strings.intern(&id.to_string()));
            c.lane(pid, tid)
        });
        let category = c.strings.intern(category);
        let category = c.category(category);
        let row = c.len() as u32;
        c.ts.push(start);
        c.dur.push(length);
        c.name.push(name);
        c.cat.push(category);
        c.lane.push(lane);
        Some(row)
    }

    fn int(&mut self, row: u32, arg: Arg, value: Option<i64>) {
        if let Some(value) = value {
            self.columns.args.column_mut(arg).push(row, value as u64);
        }
    }

    fn text(&mut self, row: u32, arg: Arg, value: &str) {
        let id = self.columns.strings.intern(value);
        self.columns.args.column_mut(arg).push(row, u64::from(id.0));
    }

    /// Adds a row of GPU work with what all have.
    fn work(&mut self, category: &str, name: StrId, common: &Common) -> Option<u32> {
        let place = Place::Stream { device: common.device.unwrap_or(0), stream: common.stream.unwrap_or(0) };
        let row = self.push(category, name, common.span, &place)?;
        self.int(row, Arg::Device, common.device);
        self.int(row, Arg::Stream, common.stream);
        self.int(row, Arg::Correlation, common.correlation.filter(|c| *c >= 0));
        if self.how.options.event_args {
            self.int(row, Arg::Context, common.context.filter(|c| *c >= 0));
        }
        Some(row)
    }
}

/// Columns that all tables of GPU work begin with here.
const COMMON: [&str; 7] = ["start", "end", "deviceId", "streamId", "contextId", "correlationId", "globalPid"];

struct Common {
    span: (Option<i64>, Option<i64>),
    device: Option<i64>,
    stream: Option<i64>,
    context: Option<i64>,
    correlation: Option<i64>,
    process: Option<i64>,
}

impl Common {
    fn of(row: &rusqlite::Row) -> Self {
        Self {
            span: (int(row, 0), int(row, 1)),
            device: int(row, 2),
            stream: int(row, 3),
            context: int(row, 4),
            correlation: int(row, 5),
            process: int(row, 6),
        }
    }
}

/// The common columns and those of one table.
fn with<const N: usize, const M: usize>(own: [&'static str; N]) -> [&'static str; M] {
    std::array::from_fn(|i| COMMON.get(i).or_else(|| own.get(i - COMMON.len())).copied().unwrap_or("start"))
}

fn kernels(database: &Database, rows: &mut Rows) -> Result<(), ReadError> {
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
    database.each(KERNELS, with::<14, 21>(own), |r| {
        let common = Common::of(r);
        if !rows.is_mine(common.process) {
            return;
        }
        let name = rows.named(&[int(r, 7), int(r, 8), int(r, 9)]);
        let Some(row) = rows.work("kernel", name, &common) else { return };
        for (arg, at) in [(Arg::Grid, 10), (Arg::Block, 13)] {
            if let (Some(x), Some(y), Some(z)) = (int(r, at), int(r, at + 1), int(r, at + 2)) {
                rows.text(row, arg, &format!("[{x},{y},{z}]"));
            }
        }
        rows.int(row, Arg::Registers, int(r, 16));
        let shared = int(r, 17).zip(int(r, 18)).and_then(|(a, b)| a.checked_add(b));
        rows.int(row, Arg::SharedMemory, shared);
        rows.int(row, Arg::GraphNodeId, int(r, 19).filter(|id| *id > 0));
        rows.int(row, Arg::GraphId, int(r, 20).filter(|id| *id > 0));
    })
}

/// Name of a direction of copies (`copyKind`).
fn direction(kind: Option<i64>) -> &'static str {
    match kind {
        Some(1 | 11) => "HtoD",
        Some(2 | 12) => "DtoH",
        Some(3) => "HtoA",
        Some(4) => "AtoH",
        Some(5) => "AtoA",
        Some(6) => "AtoD",
        Some(7) => "DtoA",
        Some(8 | 13) => "DtoD",
        Some(9) => "HtoH",
        Some(10) => "PtoP",
        _ => "Unknown",
    }
}

/// Name of a kind of memory (`memKind`), as Kineto writes it.
fn memory(kind: i64) -> &'static str {
    match kind {
        0 => "Pageable",
        1 => "Pinned",
        2 => "Device",
        3 => "Array",
        4 => "Managed",
        5 => "Device Static",
        6 => "Managed Static",
        _ => "Unknown",
    }
}

fn copies(database: &Database, rows: &mut Rows) -> Result<(), ReadError> {
    database.each(COPIES, with::<4, 11>(["bytes", "copyKind", "srcKind", "dstKind"]), |r| {
        let common = Common::of(r);
        if !rows.is_mine(common.process) {
            return;
        }
        let ends = int(r, 9).zip(int(r, 10)).map(|(from, to)| format!(" ({} -> {})", memory(from), memory(to)));
        let name = format!("Memcpy {}{}", direction(int(r, 8)), ends.unwrap_or_default());
        let name = rows.columns.strings.intern(&name);
        let Some(row) = rows.work("gpu_memcpy", name, &common) else { return };
        rows.int(row, Arg::Bytes, int(r, 7));
    })
}

fn sets(database: &Database, rows: &mut Rows) -> Result<(), ReadError> {
    database.each(SETS, with::<2, 9>(["bytes", "memKind"]), |r| {
        let common = Common::of(r);
        if !rows.is_mine(common.process) {
            return;
        }
        let name = rows.columns.strings.intern(&format!("Memset ({})", int(r, 8).map_or("Unknown", memory)));
        let Some(row) = rows.work("gpu_memset", name, &common) else { return };
        rows.int(row, Arg::Bytes, int(r, 7));
    })
}

/// Launches of graphs whose kernels were not recorded.
fn graphs(database: &Database, rows: &mut Rows) -> Result<(), ReadError> {
    database.each(GRAPHS, with::<1, 8>(["graphId"]), |r| {
        let common = Common::of(r);
        if !rows.is_mine(common.process) {
            return;
        }
        rows.columns.health.add(Counter::GraphsWhole, 1, None, "");
        let name = rows.columns.strings.intern("CUDA graph");
        let Some(row) = rows.work("kernel", name, &common) else { return };
        rows.int(row, Arg::GraphId, int(r, 7).filter(|id| *id > 0));
    })
}

fn waits(database: &Database, rows: &mut Rows) -> Result<(), ReadError> {
    database.each(WAITS, with::<2, 9>(["syncType", "eventId"]), |r| {
        let common = Common::of(r);
        if !rows.is_mine(common.process) {
            return;
        }
        let name = match int(r, 7) {
            Some(1) => "Event Sync",
            Some(2) => "Stream Wait Event",
            Some(3) => "Stream Sync",
            Some(4) => "Context Sync",
            _ => "Sync",
        };
        let name = rows.columns.strings.intern(name);
        rows.work("cuda_sync", name, &common);
    })
}

/// A call of the API.
struct CallRow {
    span: (Option<i64>, Option<i64>),
    is_driver: bool,
    thread: i64,
    correlation: Option<i64>,
    name: StrId,
}

fn calls(database: &Database, rows: &mut Rows) -> Result<(), ReadError> {
    let mut outer: Vec<CallRow> = Vec::new();
    let mut inner: HashSet<(i64, Option<i64>)> = HashSet::new();
    let mut shown: HashMap<StrId, StrId> = HashMap::new();
    let columns = ["start", "end", "eventClass", "globalTid", "correlationId", "nameId"];
    database.each(CALLS, columns, |r| {
        let Some(thread) = int(r, 3).filter(|id| rows.is_mine(Some(*id))) else { return };
        let recorded = rows.named(&[int(r, 5)]);
        let name = *shown.entry(recorded).or_insert_with(|| {
            let name = without_version(rows.columns.strings.get(recorded)).to_string();
            rows.columns.strings.intern(&name)
        });
        let class = int(r, 2);
        let is_driver = class == Some(1);
        let call = CallRow { span: (int(r, 0), int(r, 1)), is_driver, thread, correlation: int(r, 4), name };
        if class == Some(OUTER_CALL) {
            outer.push(call);
        } else {
            inner.insert((thread, call.correlation));
            rows.call(&call);
        }
    })?;
    for call in outer {
        if inner.contains(&(call.thread, call.correlation)) {
            rows.columns.health.add(Counter::CallTwice, 1, None, "");
        } else {
            rows.call(&call);
        }
    }
    Ok(())
}

impl Rows<'_> {
    fn call(&mut self, call: &CallRow) {
        let category = if call.is_driver { "cuda_driver" } else { "cuda_runtime" };
        let Some(row) = self.push(category, call.name, call.span, &Place::Thread(call.thread)) else { return };
        self.int(row, Arg::Correlation, call.correlation.filter(|c| *c > 0));
    }
}

/// The name without the version of the API: `cudaLaunchKernel_v7000`; `cuMemcpyDtoH_v2` is another function.
fn without_version(name: &str) -> &str {
    match name.rsplit_once("_v") {
        Some((name, version)) if version.len() >= 4 && version.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => name,
    }
}

fn ranges(database: &Database, rows: &mut Rows) -> Result<(), ReadError> {
    /// Types of ranges: pushed and popped; started and ended; the same with a registered text.
    const TYPES: [i64; 4] = [59, 60, 70, 71];
    let end_of_capture = rows.columns.ts.iter().zip(&rows.columns.dur).map(|(ts, dur)| ts.saturating_add(*dur)).max();
    let columns = ["start", "end", "eventType", "globalTid", "text", "textId"];
    database.each(RANGES, columns, |r| {
        let Some(thread) = int(r, 3).filter(|id| rows.is_mine(Some(*id))) else { return };
        let Some(kind) = int(r, 2).filter(|kind| TYPES.contains(kind)) else { return };
        let start = int(r, 0);
        let is_open = int(r, 1).is_none();
        let end = int(r, 1).or_else(|| Some(end_of_capture?.max(start?)));
        if rows.how.options.device_only {
            if let Some((start, end)) = start.zip(end).filter(|(s, e)| s <= e) {
                rows.columns.reach(start, end);
            }
            return;
        }
        let id = rows.named(&[int(r, 5)]);
        let said = text(r, 4).map_or_else(|| rows.columns.strings.get(id).to_string(), str::to_string);
        rows.range(&said, kind == TYPES[0] || kind == TYPES[2], (start, end), thread, is_open);
    })
}

impl Rows<'_> {
    fn range(&mut self, said: &str, is_nested: bool, span: (Option<i64>, Option<i64>), thread: i64, is_open: bool) {
        // Ranges that may end on another thread are in no tree of operators.
        let marked = operator(said).filter(|_| is_nested);
        let name = self.columns.strings.intern(marked.as_ref().map_or(said, |m| m.name));
        let category = if marked.is_some() { "cpu_op" } else { "user_annotation" };
        let Some(row) = self.push(category, name, span, &Place::Thread(thread)) else { return };
        if is_open {
            self.int(row, Arg::Finished, Some(0));
        }
        let Some(marked) = marked else { return };
        self.int(row, Arg::SeqNumber, marked.sequence);
        if self.how.options.event_args {
            self.int(row, Arg::RecordFunctionId, marked.record.and_then(|r| i64::try_from(r).ok()));
        }
        let needs_sizes = || self.how.options.event_args || has_model(marked.name.as_bytes());
        if let Some(sizes) = marked.sizes.filter(|_| needs_sizes()) {
            let sizes: String = sizes.chars().filter(|c| !c.is_whitespace()).collect();
            self.text(row, Arg::InputDims, &sizes);
        }
    }
}

fn meta(database: &Database, process: i64) -> Result<Meta, ReadError> {
    let mut meta = Meta::default();
    database.each("TARGET_INFO_SESSION_START_TIME", ["utcEpochNs"], |r| meta.base_ns = meta.base_ns.or(int(r, 0)))?;
    for table in ["META_DATA_EXPORT", "EXPORT_META_DATA"] {
        database.each(table, ["name", "value"], |r| {
            let Some((name, value)) = text(r, 0).zip(text(r, 1)) else { return };
            if ["EXPORT_SCHEMA_VERSION", "EXPORT_PRODUCT_VERSION"].contains(&name) {
                meta.other.insert(name.to_ascii_lowercase(), serde_json::Value::from(value).to_string());
            }
        })?;
    }
    // Which GPU a number of the process stands for.
    let mut places: Vec<(i64, i64)> = Vec::new();
    database.each("TARGET_INFO_CUDA_DEVICE", ["gpuId", "cudaId", "pid"], |r| {
        if int(r, 2) == Some(pid(process)) {
            places.extend(int(r, 0).zip(int(r, 1)));
        }
    })?;
    let columns = [
        "id",
        "name",
        "totalMemory",
        "smCount",
        "computeMajor",
        "computeMinor",
        "threadsPerWarp",
        "maxWarpsPerSm",
        "maxRegistersPerSm",
        "maxShmemPerSm",
    ];
    database.each("TARGET_INFO_GPU", columns, |r| {
        let Some(gpu) = int(r, 0) else { return };
        let number = |column: usize| int(r, column).and_then(|n| u32::try_from(n).ok());
        let device = |id: i64| Device {
            id,
            name: text(r, 1).unwrap_or_default().to_string(),
            memory_bytes: int(r, 2).and_then(|n| u64::try_from(n).ok()),
            sm_count: number(3),
            compute_capability: number(4).zip(number(5)).map(|(major, minor)| format!("{major}.{minor}")),
            warp_size: number(6),
            max_threads_per_sm: number(6).zip(number(7)).and_then(|(a, b)| a.checked_mul(b)),
            registers_per_sm: number(8),
            shared_memory_per_sm: number(9),
        };
        let mine = places.iter().filter(|(id, _)| *id == gpu).map(|(_, cuda)| *cuda);
        let ids: Vec<i64> = if places.is_empty() { vec![gpu] } else { mine.collect() };
        meta.devices.extend(ids.into_iter().map(device));
    })?;
    Ok(meta)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_no_part_of_names() {
        let names = ["cudaLaunchKernel_v7000", "cuMemcpyDtoH_v2", "cudaFree", "x_v12a45"];
        assert_eq!(names.map(without_version), ["cudaLaunchKernel", "cuMemcpyDtoH_v2", "cudaFree", "x_v12a45"]);
    }
}

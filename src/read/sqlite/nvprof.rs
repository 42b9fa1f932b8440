//! The rows of a database of nvprof, which PyProf reads, as columns.
//!
//! ```text
//!   time      ns after 1970
//!   texts     ids of StringTable
//!   thread    low 32 bits of threadId (signed for calls) and of the number in the object of a marker
//!   marker    a row for the start and one for the end of a range, joined by id
//! ```
//!
//! One file is of one process, and so one rank. Every table exists in every file, mostly empty.

use super::callbacks::{CallbackApi, function};
use super::database::{Database, blob, int};
use super::devices::device;
use super::gpu_names::{copy_name, cupti_memory, set_name, wait_name};
use super::ranges::{Said, SqliteRanges};
use super::rows::{GpuWork, ROWS_BETWEEN_CHECKS, RowPlace, Rows};
use crate::error::ReadError;
use crate::input::Input;
use crate::reading::{Reading, Unsettled};
use hashbrown::HashMap;
use hta_base::health::Counter;
use hta_trace::args::Arg;
use hta_trace::kernel::demangled;
use hta_trace::meta::{Meta, Recorder};
use hta_trace::strings::StrId;

/// Kernels that may overlap, and kernels that nvprof ran one after the other.
const KERNELS: [&str; 2] = ["CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL", "CUPTI_ACTIVITY_KIND_KERNEL"];
const COPIES: &str = "CUPTI_ACTIVITY_KIND_MEMCPY";
const PEER_COPIES: &str = "CUPTI_ACTIVITY_KIND_MEMCPY2";
const SETS: &str = "CUPTI_ACTIVITY_KIND_MEMSET";
const WAITS: &str = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION";
const RUNTIME: &str = "CUPTI_ACTIVITY_KIND_RUNTIME";
const DRIVER: &str = "CUPTI_ACTIVITY_KIND_DRIVER";
const OVERHEAD: &str = "CUPTI_ACTIVITY_KIND_OVERHEAD";
const MARKERS: &str = "CUPTI_ACTIVITY_KIND_MARKER";
const DEVICES: &str = "CUPTI_ACTIVITY_KIND_DEVICE";
const CONTEXTS: &str = "CUPTI_ACTIVITY_KIND_CONTEXT";

/// Tables with GPU work.
const WORK: [&str; 5] = [KERNELS[0], KERNELS[1], COPIES, PEER_COPIES, SETS];

/// Other tables that are read.
const READ: [&str; 9] =
    ["StringTable", "Version", WAITS, RUNTIME, DRIVER, OVERHEAD, MARKERS, DEVICES, CONTEXTS];

/// Whether a database has the tables of nvprof.
pub(crate) fn is_nvprof(database: &Database) -> bool {
    database.has("StringTable") && database.has(MARKERS)
}

/// # Errors
/// When the file is damaged, has no GPU work, or takes more memory than there is.
pub(crate) fn load(database: &Database, input: &Input, how: &Reading) -> Result<Unsettled, ReadError> {
    check_for_work(database, input)?;
    let mut rows = Rows::new(how);
    database.each("StringTable", ["_id_", "value"], |row| {
        if let Some((id, value)) = int(row, 0).zip(database.text(row, 1)) {
            rows.add_text(id, &demangled(&value));
        }
    })?;
    let mut contexts: HashMap<i64, i64> = HashMap::new();
    database
        .each_of_few(CONTEXTS, ["contextId", "deviceId"], |r| contexts.extend(int(r, 0).zip(int(r, 1))))?;
    for table in KERNELS {
        kernels(database, table, &mut rows)?;
    }
    copies(database, &mut rows)?;
    sets(database, &mut rows)?;
    waits(database, &contexts, &mut rows)?;
    calls(database, RUNTIME, CallbackApi::Runtime, &mut rows)?;
    calls(database, DRIVER, CallbackApi::Driver, &mut rows)?;
    overhead(database, &mut rows)?;
    markers(database, &mut rows)?;
    let meta = meta(database, &rows)?;
    rows.finish(database, |table| WORK.contains(&table) || READ.contains(&table), meta, input)
}

/// # Errors
/// When there is no GPU work.
pub(crate) fn check_for_work(database: &Database, input: &Input) -> Result<(), ReadError> {
    for table in WORK {
        if database.count(table)? > 0 {
            return Ok(());
        }
    }
    let what = "a database of nvprof without GPU activity";
    let hint = "the profiled range was empty, or the program used no GPU";
    Err(ReadError::NotATrace { file: input.shown.clone(), what, hint, is_known: true })
}

/// What the columns start, end, deviceId, streamId, contextId and correlationId say, which stand first.
fn work_of(row: &rusqlite::Row) -> GpuWork {
    GpuWork {
        span: (int(row, 0), int(row, 1)),
        device: int(row, 2),
        stream: int(row, 3),
        context: int(row, 4),
        correlation: int(row, 5),
    }
}

fn kernels(database: &Database, table: &str, rows: &mut Rows) -> Result<(), ReadError> {
    let columns = [
        "start",
        "end",
        "deviceId",
        "streamId",
        "contextId",
        "correlationId",
        "name",
        "gridX",
        "gridY",
        "gridZ",
        "blockX",
        "blockY",
        "blockZ",
        "registersPerThread",
        "staticSharedMemory",
        "dynamicSharedMemory",
    ];
    database.each(table, columns, |r| {
        let name = rows.named(&[int(r, 6)]);
        let Some(row) = rows.work("kernel", name, &work_of(r)) else { return };
        for (arg, at) in [(Arg::Grid, 7), (Arg::Block, 10)] {
            rows.dim3(row, arg, [at, at + 1, at + 2].map(|column| int(r, column)));
        }
        rows.int(row, Arg::Registers, int(r, 13));
        rows.int(row, Arg::SharedMemory, int(r, 14).zip(int(r, 15)).and_then(|(a, b)| a.checked_add(b)));
    })
}

fn copies(database: &Database, rows: &mut Rows) -> Result<(), ReadError> {
    let columns = [
        "start",
        "end",
        "deviceId",
        "streamId",
        "contextId",
        "correlationId",
        "bytes",
        "copyKind",
        "srcKind",
        "dstKind",
        "srcDeviceId",
        "dstDeviceId",
    ];
    // Only copies between devices name them.
    for table in [COPIES, PEER_COPIES] {
        database.each(table, columns, |r| {
            let ends = int(r, 8).zip(int(r, 9)).map(|(from, to)| (cupti_memory(from), cupti_memory(to)));
            let name = rows.columns.strings.intern(&copy_name(int(r, 7), ends));
            let Some(row) = rows.work("gpu_memcpy", name, &work_of(r)) else { return };
            rows.int(row, Arg::Bytes, int(r, 6));
            if rows.how.options.event_args {
                rows.int(row, Arg::FromDevice, int(r, 10));
                rows.int(row, Arg::ToDevice, int(r, 11));
            }
        })?;
    }
    Ok(())
}

fn sets(database: &Database, rows: &mut Rows) -> Result<(), ReadError> {
    let columns =
        ["start", "end", "deviceId", "streamId", "contextId", "correlationId", "bytes", "memoryKind"];
    database.each(SETS, columns, |r| {
        let name = rows.columns.strings.intern(&set_name(int(r, 7).map(cupti_memory)));
        let Some(row) = rows.work("gpu_memset", name, &work_of(r)) else { return };
        rows.int(row, Arg::Bytes, int(r, 6));
    })
}

/// Waits of the host name no device, but a context.
fn waits(database: &Database, contexts: &HashMap<i64, i64>, rows: &mut Rows) -> Result<(), ReadError> {
    let columns =
        ["start", "end", "deviceId", "streamId", "contextId", "correlationId", "type", "cudaEventId"];
    database.each(WAITS, columns, |r| {
        let name = rows.columns.strings.intern(wait_name(int(r, 6)));
        let recorded = work_of(r);
        let device = recorded.device.or_else(|| contexts.get(&recorded.context?).copied());
        // A wait for an event is of no stream.
        let work = GpuWork { device, stream: recorded.stream.filter(|s| *s >= 0), ..recorded };
        let Some(row) = rows.work("cuda_sync", name, &work) else { return };
        if rows.how.options.event_args {
            rows.int(row, Arg::WaitOnEvent, int(r, 7).filter(|id| *id >= 0));
        }
    })
}

/// A thread's number without the upper bits, which only some tables have.
fn thread(id: i64) -> i64 {
    id & 0xffff_ffff
}

fn calls(database: &Database, table: &str, api: CallbackApi, rows: &mut Rows) -> Result<(), ReadError> {
    let mut names: HashMap<i64, StrId> = HashMap::new();
    let columns = ["start", "end", "cbid", "processId", "threadId", "correlationId"];
    database.each(table, columns, |r| {
        let callback = int(r, 2).unwrap_or(0);
        let known = function(api, callback);
        if known.is_none() {
            rows.columns.health.add(Counter::CallUnnamed, 1, None, &format!("cbid {callback}"));
        }
        let name = *names.entry(callback).or_insert_with(|| {
            let name = known.map_or_else(|| format!("cbid {callback}"), str::to_string);
            rows.columns.strings.intern(&name)
        });
        let place =
            RowPlace::Thread { process: int(r, 3).unwrap_or(0), thread: thread(int(r, 4).unwrap_or(0)) };
        rows.call(api == CallbackApi::Driver, name, (int(r, 0), int(r, 1)), &place, int(r, 5));
    })
}

/// The object of a row: process and thread; `None` for a device.
fn object(kind: Option<i64>, bytes: Option<&[u8]>) -> Option<(i64, i64)> {
    /// Kinds of objects.
    const PROCESS: i64 = 1;
    const THREAD: i64 = 2;
    let (process, rest) = bytes?.split_first_chunk::<4>()?;
    let process = i64::from(i32::from_le_bytes(*process));
    match kind? {
        PROCESS => Some((process, 0)),
        THREAD => Some((process, thread(i64::from_le_bytes(*rest.first_chunk::<8>()?)))),
        _ => None,
    }
}

/// Time that nvprof itself took.
fn overhead(database: &Database, rows: &mut Rows) -> Result<(), ReadError> {
    let columns = ["start", "end", "overheadKind", "objectKind", "objectId"];
    database.each(OVERHEAD, columns, |r| {
        let name = match int(r, 2) {
            Some(1) => "Driver Compiler",
            Some(0x1_0000) => "Buffer Flush",
            Some(0x2_0000) => "Instrumentation",
            Some(0x3_0000) => "Resource",
            _ => "Overhead",
        };
        let name = rows.columns.strings.intern(name);
        let (process, thread) = object(int(r, 3), blob(r, 4)).unwrap_or((0, 0));
        rows.push("overhead", name, (int(r, 0), int(r, 1)), &RowPlace::Thread { process, thread });
    })
}

/// The start of a range whose end was not read yet.
struct Started {
    time: Option<i64>,
    name: StrId,
    object: Option<(i64, i64)>,
}

fn markers(database: &Database, rows: &mut Rows) -> Result<(), ReadError> {
    /// Bits of the flags.
    const START: i64 = 2;
    const END: i64 = 4;
    let mut ranges = SqliteRanges::new(rows);
    let mut started: HashMap<i64, Started> = HashMap::new();
    let mut add = |rows: &mut Rows, start: Started, end: Option<i64>, is_nested: bool| {
        let (process, thread) = start.object.unwrap_or((0, 0));
        let place = RowPlace::Thread { process, thread };
        ranges.add(rows, Said::Interned(start.name), (start.time, end), place, is_nested);
    };
    let columns = ["flags", "timestamp", "id", "objectKind", "objectId", "name"];
    database.each(MARKERS, columns, |r| {
        let flags = int(r, 0).unwrap_or(0);
        let Some(id) = int(r, 2) else { return };
        let object = object(int(r, 3), blob(r, 4));
        if flags & START != 0 {
            let start = Started { time: int(r, 1), name: rows.named(&[int(r, 5)]), object };
            let bytes = started.capacity() * (size_of::<(i64, Started)>() + 1);
            let is_asked = !started.is_empty() && started.len().is_multiple_of(ROWS_BETWEEN_CHECKS);
            if is_asked && !rows.hold_waiting(bytes) {
                return;
            }
            // A number that is started twice was not ended.
            if let Some(lost) = started.insert(id, start) {
                add(rows, lost, None, false);
            }
        } else if flags & END != 0 {
            let Some(start) = started.remove(&id) else {
                rows.columns.health.add(Counter::MarkerUnpaired, 1, None, "");
                return;
            };
            // A range that ends on another thread is no part of a call tree.
            let is_nested = start.object.is_some() && start.object == object;
            add(rows, start, int(r, 1), is_nested);
        } else {
            rows.columns.health.add(Counter::TableIgnored, 1, None, "instants of CUPTI_ACTIVITY_KIND_MARKER");
        }
    })?;
    let mut open: Vec<(i64, Started)> = started.into_iter().collect();
    open.sort_by_key(|(id, start)| (start.time, *id));
    for (_, start) in open {
        let is_nested = start.object.is_some();
        add(rows, start, None, is_nested);
    }
    rows.hold_waiting(0);
    ranges.push_into(rows);
    Ok(())
}

fn meta(database: &Database, rows: &Rows) -> Result<Meta, ReadError> {
    // Times are after 1970 already.
    let mut meta = Meta { recorder: Recorder::Nvprof, base_ns: Some(0), ..Meta::default() };
    database.each("Version", ["version"], |r| {
        if let Some(version) = int(r, 0) {
            meta.other.insert("nvprof_version".to_string(), version.to_string());
        }
    })?;
    let columns = [
        "id",
        "name",
        "globalMemorySize",
        "numMultiprocessors",
        "computeCapabilityMajor",
        "computeCapabilityMinor",
        "numThreadsPerWarp",
        "maxWarpsPerMultiprocessor",
        "maxRegistersPerMultiprocessor",
        "maxSharedMemoryPerMultiprocessor",
    ];
    database.each_of_few(DEVICES, columns, |r| {
        let Some(id) = int(r, 0) else { return };
        let name = rows.columns.strings.get(rows.named(&[int(r, 1)]));
        meta.devices.push(device(r, id, name));
    })?;
    Ok(meta)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_processes_and_threads_in_little_endian() {
        let bytes = [0x42, 0x3e, 0, 0, 0x40, 0x37, 0xdc, 0xea, 0, 0, 0, 0];
        assert_eq!(object(Some(2), Some(&bytes)), Some((15_938, 3_940_300_608)));
        assert_eq!(object(Some(1), Some(&bytes)), Some((15_938, 0)));
        assert_eq!(object(Some(3), Some(&bytes)), None);
        assert_eq!(object(Some(2), Some(&bytes[..11])), None);
        assert_eq!(thread(-354_666_688), 3_940_300_608);
    }
}

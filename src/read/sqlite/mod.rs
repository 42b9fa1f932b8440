//! Reads SQLite databases of recorders: exports of Nsight Systems (nsys), in which each process with GPU work
//! is a rank, and those of nvprof, which are of one process.

mod callbacks;
mod database;
mod devices;
mod gpu_names;
mod literal;
mod nsys;
mod nsys_calls;
mod nsys_export;
mod nsys_meta;
mod nvprof;
mod nvtx;
mod pyprof_marker;
mod ranges;
mod rows;

use super::format::{FileHead, FileStart, TraceFormat};
use super::input::{Input, PartKey, ProcessPart};
use super::reading::{Reading, Unsettled};
use crate::error::{IDLE_PROCESS, ReadError};
use database::{Database, MAGIC};
use hta_trace::meta::Recorder;
use hta_trace::recorders::{ASCEND_DATABASE, DLPROF, OtherRecorder, ROCPD, SNAPSHOT_DATABASE};
use std::fs::File;
use std::io::Read;

/// Databases of recorders.
pub(crate) struct Sqlite;

impl TraceFormat for Sqlite {
    fn name(&self) -> &'static str {
        "SQLite"
    }

    fn sniff(&self, head: &[u8]) -> bool {
        head.starts_with(MAGIC)
    }

    fn peek(&self, input: &Input, _: &FileStart) -> Result<FileHead, ReadError> {
        if matches!(input.process.as_ref().map(|part| &part.key), Some(PartKey::Idle(_))) {
            let what = IDLE_PROCESS.to_string();
            return Err(ReadError::NothingRecorded { file: input.shown.clone(), what });
        }
        let (database, kind) = open(input)?;
        let (rank, recorder) = match kind {
            DatabaseKind::Nsys => (nsys::rank(&database, nsys::process(&database, input)?)?, Recorder::Nsys),
            DatabaseKind::Nvprof => {
                nvprof::check_for_work(&database, input)?;
                // Its rank is in the name of the file at most.
                (None, Recorder::Nvprof)
            }
        };
        Ok(FileHead { rank, world: None, recorder })
    }

    fn parts(&self, input: Input, _: &FileStart) -> Vec<Input> {
        let processes = match open(&input) {
            Ok((database, DatabaseKind::Nsys)) => nsys::processes(&database).unwrap_or_default(),
            Ok((_, DatabaseKind::Nvprof)) | Err(_) => return vec![input],
        };
        let is_split = processes.ranks.len() > 1;
        let ranks = processes.ranks.into_iter().filter(|_| is_split).map(PartKey::Process);
        let keys: Vec<PartKey> = ranks.chain(processes.idle.into_iter().map(PartKey::Idle)).collect();
        let count = keys.len() as u64 + u64::from(!is_split);
        let part = |(index, key): (u64, PartKey)| {
            let (PartKey::Process(id) | PartKey::Idle(id)) = key else { return input.clone() };
            let shown = format!("{} (process {})", input.shown, nsys_export::pid(id));
            let process = Some(ProcessPart { key, index, count, rows: None });
            Input { shown, process, ..input.clone() }
        };
        let whole = (!is_split).then(|| input.clone());
        whole.into_iter().chain((u64::from(!is_split)..).zip(keys).map(part)).collect()
    }

    fn load(&self, input: &Input, how: &Reading) -> Result<Unsettled, ReadError> {
        let (database, recorder) = open(input)?;
        match recorder {
            DatabaseKind::Nsys => nsys::load(&database, nsys::process(&database, input)?, input, how),
            DatabaseKind::Nvprof => nvprof::load(&database, input, how),
        }
    }
}

/// Whether a file is a database that a known recorder made, whole or not.
pub(crate) fn is_recorders_database(input: &Input) -> bool {
    let mut head = [0; MAGIC.len()];
    let is_sqlite =
        File::open(&input.path).and_then(|mut f| f.read_exact(&mut head)).is_ok() && head == *MAGIC;
    // A damaged one is reported when it is read.
    is_sqlite && !matches!(open(input), Err(ReadError::OtherDatabase { .. } | ReadError::NotATrace { .. }))
}

/// Who made a database.
enum DatabaseKind {
    Nsys,
    Nvprof,
}

/// Opens a database, and tells who made it by its tables.
///
/// # Errors
/// When the file is damaged, or a database of another program.
fn open(input: &Input) -> Result<(Database, DatabaseKind), ReadError> {
    let database = Database::open(input)?;
    let has = |table: &str| database.has(table);
    if has("StringIds") && (has("META_DATA_EXPORT") || has("EXPORT_META_DATA")) {
        return Ok((database, DatabaseKind::Nsys));
    }
    if nvprof::is_nvprof(&database) {
        return Ok((database, DatabaseKind::Nvprof));
    }
    if let Some(OtherRecorder { what, hint }) = other_recorder(&database, input) {
        return Err(ReadError::NotATrace { file: input.shown.clone(), what, hint, is_known: true });
    }
    let some: Vec<&str> = database.tables().iter().take(5).map(String::as_str).collect();
    let tables =
        if some.is_empty() { "no tables".to_string() } else { format!("the tables {}", some.join(", ")) };
    Err(ReadError::OtherDatabase { file: input.shown.clone(), tables })
}

/// The recorder of a database that is none of ours, by its tables or its name.
fn other_recorder(database: &Database, input: &Input) -> Option<OtherRecorder> {
    let has = |table: &str| database.has(table);
    let any = |start: &str| database.tables().iter().any(|t| t.to_lowercase().starts_with(start));
    let name = input.path.file_name().map(|n| n.to_string_lossy().to_lowercase()).unwrap_or_default();
    if any("rocpd_") || name.ends_with(".rpd") {
        Some(ROCPD)
    } else if has("CANN_API") || has("PYTORCH_API") || has("STRING_IDS") && has("TASK") || has("NPU_INFO") {
        Some(ASCEND_DATABASE)
    } else if has("device_traces") || any("trace_entry") || has("segments") && has("blocks") {
        Some(SNAPSHOT_DATABASE)
    } else if any("dlprof") || name.contains("dlprof") {
        Some(DLPROF)
    } else {
        None
    }
}

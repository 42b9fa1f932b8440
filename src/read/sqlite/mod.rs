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
use hta_trace::recorders::{
    ASCEND_DATABASE, DLPROF, OtherRecorder, ROCPD, ROCPROF_DATABASE, SNAPSHOT_DATABASE,
};
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
    if nsys::is_nsys(&database) {
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

/// Tables by which other recorders are told: names in lower case, `*` for any ending, and how many of them
/// must be there.
const OTHERS: [(&[&str], usize, OtherRecorder); 9] = [
    (&["rocpd_*"], 1, ROCPD),
    (
        &["cann_api", "pytorch_api", "npu_info", "msprof_*", "ascendtask", "clusterstep*", "clustercomm*"],
        1,
        ASCEND_DATABASE,
    ),
    (&["string_ids", "task"], 2, ASCEND_DATABASE),
    (&["device_traces"], 1, SNAPSHOT_DATABASE),
    (&["trace_entry*"], 1, SNAPSHOT_DATABASE),
    (&["segments", "blocks"], 2, SNAPSHOT_DATABASE),
    (&["dlprof*"], 1, DLPROF),
    // One domain of rocprof is a table; those of hipprof have names of their own.
    (&["hip*", "hsa*", "hcc*", "roctx*"], 1, ROCPROF_DATABASE),
    (&["a", "ops", "copy", "kfd"], 2, ROCPROF_DATABASE),
];

/// The recorder of a database that is none of ours, by its tables or its name.
fn other_recorder(database: &Database, input: &Input) -> Option<OtherRecorder> {
    let tables: Vec<String> = database.tables().iter().map(|t| t.to_lowercase()).collect();
    let is_like = |table: &str, pattern: &str| match pattern.strip_suffix('*') {
        Some(start) => table.starts_with(start),
        None => table == pattern,
    };
    let has = |pattern: &&&str| tables.iter().any(|t| is_like(t, pattern));
    let name = input.path.file_name().map(|n| n.to_string_lossy().to_lowercase()).unwrap_or_default();
    let by_name = [(".rpd", ROCPD), ("dlprof", DLPROF)].into_iter().find(|(part, _)| name.contains(part));
    let by_tables = OTHERS.into_iter().find(|(all, least, _)| all.iter().filter(has).count() >= *least);
    by_tables.map(|(.., recorder)| recorder).or(by_name.map(|(_, recorder)| recorder))
}

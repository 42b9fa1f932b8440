//! Reads SQLite exports of Nsight Systems (nsys): each process with GPU work is a rank.

mod database;
mod nsys;
mod nvtx;

use super::format::TraceFormat;
use super::input::Input;
use super::reading::{Reading, Unsettled};
use crate::error::ReadError;
use database::{Database, MAGIC};

/// Databases of recorders.
pub struct Sqlite;

impl TraceFormat for Sqlite {
    fn name(&self) -> &'static str {
        "SQLite"
    }

    fn sniff(&self, head: &[u8]) -> bool {
        head.starts_with(MAGIC)
    }

    fn peek(&self, input: &Input) -> Result<Option<u32>, ReadError> {
        let database = open(input)?;
        let process = nsys::process(&database, input)?;
        nsys::rank(&database, process)
    }

    fn parts(&self, input: Input) -> Vec<Input> {
        let processes = open(&input).and_then(|database| nsys::processes(&database)).unwrap_or_default();
        if processes.len() < 2 {
            return vec![input];
        }
        let one = |process: i64| {
            let shown = format!("{} (process {})", input.shown, nsys::pid(process));
            Input { path: input.path.clone(), shown, named: input.named, process: Some(process) }
        };
        processes.into_iter().map(one).collect()
    }

    fn load(&self, input: &Input, how: &Reading) -> Result<Unsettled, ReadError> {
        let database = open(input)?;
        let process = nsys::process(&database, input)?;
        nsys::load(&database, process, input, how)
    }
}

/// Opens an export of nsys.
///
/// # Errors
/// When the file is damaged, or a database of another program.
fn open(input: &Input) -> Result<Database, ReadError> {
    let database = Database::open(input)?;
    let has = |table: &str| database.has(table);
    if has("StringIds") && (has("META_DATA_EXPORT") || has("EXPORT_META_DATA")) {
        return Ok(database);
    }
    let refused = |what, hint| Err(ReadError::NotATrace { file: input.shown.clone(), what, hint, is_known: true });
    if has("StringTable") && has("CUPTI_ACTIVITY_KIND_MARKER") {
        return refused(
            "an SQLite database of nvprof",
            "record with torch.profiler or nsys; nvprof's databases are not read yet",
        );
    }
    if has("rocpd_op") && has("rocpd_api") {
        return refused("an SQLite database of rocpd (AMD)", "convert it to JSON with rpd2tracing");
    }
    let some: Vec<&str> = database.tables().iter().take(5).map(String::as_str).collect();
    let tables = if some.is_empty() { "no tables".to_string() } else { format!("the tables {}", some.join(", ")) };
    Err(ReadError::OtherDatabase { file: input.shown.clone(), tables })
}

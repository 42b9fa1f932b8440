//! Errors. Each names the file and the position, and may have a hint on its own line.
//!
//! Form: `cannot <verb> <thing>: expected ..., found ...`, lower case, no final stop.

use crate::files::Fault;
use hta_base::health::{Counter, Health};
use hta_base::units::{MemoryLimit, fmt_bytes};
use hta_trace::merged::TWO_WRITERS;
use hta_trace::recorders::{PERFETTO_HINT, hint_of};
use std::path::PathBuf;
use std::sync::Arc;
use thiserror::Error;

/// Why a file was not analysed. The other files of the set are analysed nevertheless.
#[derive(Clone, Debug, Error)]
pub enum ReadError {
    #[error("cannot read {file}: {source}")]
    Io { file: String, source: Arc<std::io::Error> },
    #[error("cannot read {file}: expected a trace of torch.profiler, nsys or nvprof, found an empty file")]
    Empty { file: String },
    #[error("cannot read {file}: expected a trace of torch.profiler, nsys or nvprof, found {what}")]
    NotATrace {
        file: String,
        what: &'static str,
        hint: &'static str,
        /// Whether it is a whole file of another known kind, such as an execution trace or a database.
        is_known: bool,
    },
    /// One of several files has only Python frames: the front end of an inference engine, which is no rank.
    #[error("left out {file}: expected a rank, found a process without GPU work (front end?)")]
    FrontEnd { file: String },
    /// A merged file whose ranks cannot be told apart.
    #[error("cannot analyse {file}: expected the trace of one rank, found {what}")]
    Merged { file: String, what: String },
    /// A merged file beside the files that it was made of.
    #[error("left out {file}: expected a rank, found a merged file of ranks whose files are beside it")]
    MergedCopy { file: String },
    /// A Perfetto trace beside the Chrome JSON of the same recording, which says more.
    #[error("left out {file}: expected a recording of its own, found that of the JSON file beside it")]
    TwinOfJson { file: String },
    /// A Perfetto trace whose name gives no rank, beside the files of ranks.
    #[error(
        "left out {file}: expected a name with its rank beside the files of ranks, because such a Perfetto \
         trace records none"
    )]
    WithoutRank { file: String },
    /// A Perfetto trace with track events of another program, and their categories.
    #[error(
        "cannot read {file}: expected a trace of torch.profiler, nsys or nvprof, found TrackEvents of \
         another program ({categories})"
    )]
    OtherEvents { file: String, categories: String },
    /// Nothing but a few calls, of which nothing can be said.
    #[error(
        "cannot analyse {file}: expected operators or GPU activities, found that nothing was recorded \
         ({what})"
    )]
    NothingRecorded { file: String, what: String },
    /// Most rows have unknown categories; `what` says what the file contains instead.
    #[error("cannot analyse {file}: expected operators or GPU activities, found {what}")]
    UnknownContent { file: String, what: String },
    #[error("cannot read {file}: expected an export of nsys, found an SQLite database with {tables}")]
    OtherDatabase { file: String, tables: String },
    /// Nothing of a compressed file can be decompressed, or a database is damaged.
    #[error("cannot read {file}: expected a trace, found that {reason}")]
    Damaged { file: String, reason: String },
    #[error("cannot read {file}: expected events, found the end of the file before the first")]
    Cut { file: String },
    #[error("cannot read {file}: expected events, found {}", unusable(.health))]
    NoEvents { file: String, health: Box<Health> },
    /// A memory snapshot or timeline: what is wrong with it.
    #[error("cannot read {file}: {problem}")]
    Dump { file: String, problem: String, hint: Option<&'static str> },
    #[error("cannot read {file}: two writers wrote to it, found a second trace at byte {byte}")]
    Interleaved { file: String, byte: u64 },
    #[error("cannot read {file}: it needs {}", needed(*.needs, *.limit))]
    TooLarge { file: String, needs: Option<u64>, limit: MemoryLimit },
}

impl ReadError {
    pub fn io(file: &str, error: std::io::Error) -> Self {
        Self::Io { file: file.to_string(), source: Arc::new(error) }
    }

    /// Advice for the user.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            ReadError::Io { source, .. } if Fault::of(source).is_some() => {
                Fault::of(source).and_then(|f| f.hint)
            }
            ReadError::Io { source, .. } if source.kind() == std::io::ErrorKind::Other => {
                Some("a pipe is read as standard input: give `-`")
            }
            ReadError::Io { .. } => None,
            ReadError::Empty { .. } => Some("the job may have been killed before it wrote its trace"),
            ReadError::NotATrace { hint, .. } => Some(hint),
            ReadError::Merged { what, .. } if what.ends_with(TWO_WRITERS) => Some(SEVERAL_WRITERS),
            ReadError::Merged { .. } => {
                Some("give the files of the ranks instead of the merged one (`hta explain ranks`)")
            }
            ReadError::MergedCopy { .. } => None,
            ReadError::WithoutRank { .. } => {
                Some("name it rank_N.pftrace if it is a rank of this job; alone it can be analysed as it is")
            }
            ReadError::TwinOfJson { .. } => Some("alone it can be analysed: hta analyze FILE"),
            ReadError::OtherEvents { .. } => Some(PERFETTO_HINT),
            ReadError::NothingRecorded { .. } => Some(
                "run the program inside the profiler's context, at least one step of it after the warm-up, \
                 with ProfilerActivity.CPU and CUDA; another process, another tool on CUPTI or a schedule \
                 without an active step records nothing",
            ),
            ReadError::FrontEnd { .. } => Some("alone it can be analysed: hta analyze FILE"),
            ReadError::OtherDatabase { .. } => {
                Some("hta reads databases of nsys (`nsys export --type sqlite FILE.nsys-rep`) and nvprof")
            }
            ReadError::UnknownContent { what, .. } if hint_of(what).is_some() => hint_of(what),
            ReadError::UnknownContent { .. } => {
                Some("`hta query 'SELECT * FROM events' FILE` shows its rows")
            }
            ReadError::Damaged { reason, .. } if reason.contains(NEEDS_MEMORY) => {
                Some("raise --memory-limit, or pack the file again without `--long`")
            }
            ReadError::Damaged { .. } => {
                Some("it was cut or damaged when it was written or copied: copy or record it again")
            }
            ReadError::Cut { .. } => {
                Some("the file may still be being written, or its disk was full: record it again")
            }
            ReadError::NoEvents { health, .. } if health.count(Counter::TimeOverflow) > 0 => {
                Some("the clock of the recorder, or the unit in which times were written, is wrong")
            }
            ReadError::NoEvents { .. } => Some("the profiler was not active, or every event was damaged"),
            ReadError::Dump { hint, .. } => *hint,
            ReadError::Interleaved { .. } => Some(SEVERAL_WRITERS),
            ReadError::TooLarge { .. } => Some(
                "raise --memory-limit, or leave Python frames out with --skip python_function; a small file \
                 that unpacks to so much may be damaged",
            ),
        }
    }

    /// Whether the file is not a trace. In a folder that is no error, unless the file's name marks it as the
    /// trace of a rank.
    pub fn is_foreign(&self) -> bool {
        matches!(
            self,
            ReadError::NotATrace { .. }
                | ReadError::OtherEvents { .. }
                | ReadError::Empty { .. }
                | ReadError::Damaged { .. }
        )
    }

    /// Whether the file is a whole file of another known kind. In a folder that is no error, whatever its
    /// name.
    pub fn is_other_format(&self) -> bool {
        matches!(self, ReadError::NotATrace { is_known: true, .. } | ReadError::OtherEvents { .. })
    }
}

/// What is said of a process in an export of nsys that calls the API but is no rank.
pub const IDLE_PROCESS: &str = "the process launches nothing";

/// Part of zstd's message for a frame whose window exceeds the limit.
const SEVERAL_WRITERS: &str = "give every rank a file of its own and record again";

const NEEDS_MEMORY: &str = "too much memory";

/// What a file without usable events has.
fn unusable(health: &Health) -> String {
    match health.count(Counter::TimeOverflow) {
        0 => "none".to_string(),
        _ => "none whose time is within the 146 years before and after 1970 that can be held".to_string(),
    }
}

fn needed(needs: Option<u64>, limit: MemoryLimit) -> String {
    let (what, left) = (if limit.given { "--memory-limit" } else { "this machine" }, fmt_bytes(limit.bytes));
    match needs.and_then(|needs| Some((needs, needs.checked_sub(limit.bytes)?))) {
        Some((needs, more)) => {
            let (needs, more) = (fmt_bytes(needs), fmt_bytes(more));
            format!("about {needs} of memory, {more} more than {what} leaves for a rank")
        }
        None => format!("more than {left} of memory, {what} leaves {left} for a rank"),
    }
}

/// Largest number of captures that are listed.
const LISTED: usize = 16;

/// Numbered captures, one a line.
fn listed(files: &[String]) -> String {
    let shown = files.iter().take(LISTED).enumerate();
    let mut lines: String = shown.map(|(i, file)| format!("\n  {} {file}", i + 1)).collect();
    if files.len() > LISTED {
        lines.push_str(&format!("\n  ... and {} more", files.len() - LISTED));
    }
    lines
}

/// A set of files that cannot be analysed together, or invalid arguments.
#[derive(Debug, Error)]
pub enum SetError {
    #[error("cannot find {what}: no such file or folder")]
    Missing { what: String },
    #[error("cannot find {place}: {fault}")]
    Store { place: String, fault: Fault },
    #[error("cannot read the pattern `{pattern}`: {reason}")]
    Pattern { pattern: String, reason: String },
    #[error(
        "cannot find a trace: {what} holds no *.json, *.json.gz, *.json.zst, *.pftrace, *.tmp or \
         *.sqlite file"
    )]
    NoFiles { what: String },
    /// Traces of several folders in one, which nothing joins: the first of each.
    #[error(
        "cannot tell which traces in {folder} are of one job: expected folders of roles or of other ranks, \
         found {} folders with traces:{}",
        traces.len(), listed(traces)
    )]
    SeveralFolders { folder: String, traces: Vec<String> },
    #[error("cannot tell the ranks apart: {first} and {second} both claim rank {rank}")]
    DuplicateRank { rank: u32, first: String, second: String },
    /// Captures that one process wrote one after the other, in order of time.
    #[error("cannot take captures of one process for ranks: found {}:{}", files.len(), listed(files))]
    Captures { files: Vec<String> },
    #[error("cannot analyse files of two jobs as one: {first} and {other} have {how}")]
    TwoJobs { first: String, other: String, how: String },
    #[error(
        "cannot analyse files of several recorders as one job: {first} is of {first_recorder}, {other} of \
         {other_recorder}"
    )]
    SeveralRecorders {
        first: String,
        first_recorder: &'static str,
        other: String,
        other_recorder: &'static str,
    },
    #[error(
        "cannot tell the rank of {file}: expected it in the file (`distributedInfo`) or in its name, found \
         neither"
    )]
    NoRank { file: String },
    /// A file or folder of `--graph-capture`.
    #[error(
        "cannot use {what} for --graph-capture: expected launches between StreamBeginCapture and \
         StreamEndCapture, found none"
    )]
    NoCapture { what: String },
    /// A file that an option names: what it holds.
    #[error("cannot read the {holds} {path}: {reason}")]
    OptionFile { holds: &'static str, path: PathBuf, reason: String },
    #[error("cannot use `{value}` for {option}: {reason}")]
    Argument { option: &'static str, value: String, reason: String },
    #[error(
        "cannot stay below --memory-limit: expected at least {} for {ranks} {}, found {}",
        fmt_bytes(*needs), if *ranks == 1 { "rank" } else { "ranks" }, fmt_bytes(*limit)
    )]
    Memory { ranks: usize, limit: u64, needs: u64 },
}

impl SetError {
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            SetError::SeveralRecorders { .. } => {
                Some("give the files of one recorder; `hta diff` compares two recordings of a program")
            }
            SetError::DuplicateRank { .. } => Some(
                "give the files of one job, one file a rank; engines of one server can be seen beside each \
                 other: hta iterations; of a job of several programs name the roles: --role NAME=GLOB",
            ),
            SetError::SeveralFolders { .. } => Some(
                "give one of these folders; of a job of several programs name the roles: --role NAME=GLOB",
            ),
            SetError::Captures { .. } => Some(
                "take one of them with `--capture last` or `--capture N`, or analyse each by itself with \
                 `hta analyze --captures`; --ranks-by-position takes them for ranks",
            ),
            SetError::TwoJobs { .. } => Some(
                "give the files of one job; `hta diff` compares two; --ranks-by-position takes them for \
                 ranks of one",
            ),
            SetError::Memory { .. } => {
                Some("hta's own program takes most of it; the ranks in flight take what is left")
            }
            SetError::Missing { .. } => Some("paths and patterns are relative to the current folder"),
            SetError::Store { fault, .. } => fault.hint,
            SetError::NoRank { .. } => {
                Some("name it rank_N.json.gz: in a part of the job its position among the files says nothing")
            }
            SetError::NoCapture { .. } => {
                Some("record the engine while it captures its graphs; `hta explain serving` says how")
            }
            SetError::NoFiles { .. } => {
                Some("folders are read one level deep, and two levels where the first holds no trace")
            }
            _ => None,
        }
    }
}

//! A file to read, and what its name says.

use super::opening::packing;
use super::source::Compression;
use crate::files::Location;
use hta_trace::meta::Recorder;
use regex::Regex;
use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::LazyLock;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    pub path: Location,
    /// Name in messages. Standard input is spooled to a file, but shown as `<stdin>`.
    pub shown: String,
    /// Whether the user named the file, instead of a folder that contains it: then it is an error if it is
    /// not a trace.
    pub named: bool,
    /// The process that is meant, of a file with several.
    pub process: Option<ProcessPart>,
    /// What was seen of the file when it was found, so that it is not opened again to learn it.
    pub seen: Option<SeenFile>,
    /// The role of its process, if `--role` tells it.
    pub role: Option<ToldRole>,
}

/// What is told of the role of a file's process before the file is read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ToldRole {
    /// Name of the role: actor, rollout ...
    pub name: String,
    /// Which of several programs of this role, if that is told.
    pub replica: Option<u32>,
}

/// What the head of a file says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileHead {
    /// The rank, if the head contains it.
    pub rank: Option<u32>,
    /// World size, likewise.
    pub world: Option<u32>,
    pub recorder: Recorder,
}

/// Name of the format of Perfetto traces.
pub(crate) const PERFETTO: &str = "Perfetto";

/// What was seen of a file when it was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeenFile {
    pub(crate) packing: Compression,
    /// Name of the format.
    pub(crate) format: &'static str,
    pub(crate) head: FileHead,
}

/// One of the processes or ranks that a file holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessPart {
    pub key: PartKey,
    /// Its position among the parts of the file, and how many there are.
    pub(crate) index: u64,
    pub(crate) count: u64,
    /// Rows of the file that tell this part as theirs, where they were counted.
    pub(crate) rows: Option<u64>,
}

/// What tells the rows of a part from the others of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartKey {
    /// The number of the process in an export of nsys, or the track of a run in a converted trace.
    Process(i64),
    /// A process there that calls the API but launches nothing, and so is no rank.
    Idle(i64),
    /// A rank of a merged file, and the mark of its rows.
    Rank(u32, RankMark),
    /// A whole merged file whose ranks have files of their own beside it: it is left out.
    CopyOfRanks,
    /// A Perfetto trace beside the Chrome JSON of the same recording: it is left out.
    TwinOfJson,
    /// A Perfetto trace whose name gives no rank, beside traces of another form: it is left out.
    WithoutRank,
    /// A whole merged file whose ranks cannot be told apart: why.
    Mixed(String),
}

/// How the rows of a merged file name their rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RankMark {
    /// Process ids begin with `[LABEL] `, as SGLang's `merge_profiles` writes them.
    Label(String),
    /// Rows have an argument `rank`, as those of TraceLens.
    Argument,
    /// The names of processes begin with the rank: the ids of its processes.
    Processes(BTreeSet<String>),
}

impl ProcessPart {
    /// The part of the file's size that is reported for the process. All parts sum to the size.
    pub fn share(&self, size: u64) -> u64 {
        let before =
            |index: u64| (u128::from(size) * u128::from(index)).checked_div(self.count.into()).unwrap_or(0);
        u64::try_from(before(self.index + 1) - before(self.index)).unwrap_or(size)
    }
}

impl Input {
    /// A file that the user named.
    pub fn named(path: impl Into<Location>) -> Self {
        let path = path.into();
        let shown = path.display().to_string();
        Self { shown, path, named: true, process: None, seen: None, role: None }
    }

    /// A file that was found in a folder.
    pub fn found(path: impl Into<Location>) -> Self {
        Self { named: false, ..Self::named(path) }
    }

    /// The same file under another name in messages.
    pub fn shown_as(self, shown: impl Into<String>) -> Self {
        Self { shown: shown.into(), ..self }
    }

    /// How the file is compressed.
    ///
    /// # Errors
    /// When it was not seen yet and cannot be opened.
    pub fn packing(&self) -> io::Result<Compression> {
        self.seen.map_or_else(|| packing(&self.path), |seen| Ok(seen.packing))
    }

    /// Whether it was seen to be a dump of memory, which has no events.
    pub fn is_dump(&self) -> bool {
        self.seen.is_some_and(|seen| seen.head.recorder == Recorder::MemoryDump)
    }

    /// Whether it was seen to be a trace that another program has converted: it has no rank, and its clock is
    /// its own.
    pub fn is_converted(&self) -> bool {
        self.seen.is_some_and(|seen| seen.head.recorder == Recorder::Converted)
    }

    /// Whether it was seen to be torch's own Perfetto trace, in which the rank is not recorded.
    pub fn is_own_packets(&self) -> bool {
        self.seen.is_some_and(|seen| seen.format == PERFETTO && seen.head.recorder == Recorder::Cuspy)
    }

    /// Whether the name marks the file as the trace of a rank.
    pub fn has_trace_name(&self) -> bool {
        has_trace_name(&self.path)
    }
}

/// Whether a file is named as profilers and jobs name the trace of a rank: `x.pt.trace.json`,
/// `rank_3.json.gz`, `trace_rank3.1.json`; but not `rank_3_memory.json` or `config.json`.
pub(crate) fn has_trace_name(path: &Path) -> bool {
    let full = path.file_name().map(|n| n.to_string_lossy().to_lowercase()).unwrap_or_default();
    let packed =
        [".tmp", ".gz", ".zst"].iter().fold(full.as_str(), |n, ending| n.strip_suffix(ending).unwrap_or(n));
    packed.ends_with(".trace.json")
        || is_packets_name(path)
        || RANK_FILE.as_ref().is_some_and(|re| re.is_match(packed))
}

/// Whether a file is named as a Perfetto trace.
pub fn is_packets_name(path: &Path) -> bool {
    let name = path.file_name().map(|n| n.to_string_lossy().to_lowercase()).unwrap_or_default();
    let is_packets = [".pftrace", ".perfetto-trace"].iter().any(|ending| name.contains(ending));
    is_packets && !name.contains(".json")
}

/// Whether a file is named as JSON, packed or not.
pub(crate) fn is_json(path: &Path) -> bool {
    let name = path.file_name().map(|n| n.to_string_lossy().to_lowercase()).unwrap_or_default();
    [".json", ".gz", ".zst", ".tmp"].iter().any(|e| name.ends_with(e))
}

static RANK_FILE: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(^|[^a-z])rank[-_.]?[0-9]+(\.[^/]*)?\.json$").ok());

/// File name without folders and without the endings of traces and memory snapshots.
pub(super) fn base_name(path: &Path) -> String {
    let mut name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let endings =
        [".tmp", ".gz", ".zst", ".json", ".pftrace", ".perfetto-trace", ".trace", ".pt", ".pickle", ".pkl"];
    for ending in endings {
        if let Some(short) = name.strip_suffix(ending) {
            name = short.to_string();
        }
    }
    name
}

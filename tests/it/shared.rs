//! Files that tests share: the samples, and traces of third parties, which are not part of the repository.
//!
//! `tests/shared/MANIFEST.tsv` lists those traces and where they are published, and `tests/shared/fetch.py` fetches them
//! into `../shared`. The tests that need them are in `on_shared_traces`. If the folder is absent, they pass, and one
//! message on stderr says that they were skipped.

use arrow_array::RecordBatch;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Once, OnceLock};

/// The program, with signals that end it. A parent that ignores some (`nohup`, a job in the background of a script) hands
/// this on, and `hta` leaves them ignored, as it should: a test that sends one starts it anew.
pub fn interruptible() -> Command {
    static RESETS: OnceLock<bool> = OnceLock::new();
    let reset = "--default-signal=INT,TERM,HUP";
    let tried = || Command::new("env").args([reset, "true"]).output().is_ok_and(|run| run.status.success());
    if !*RESETS.get_or_init(tried) {
        return Command::new(env!("CARGO_BIN_EXE_hta"));
    }
    let mut command = Command::new("env");
    command.args([reset, env!("CARGO_BIN_EXE_hta")]);
    command
}

/// The folder of traces of third parties.
pub struct Shared(PathBuf);

/// The folder named by `HTA_SHARED`, else `shared` beside the repository; `None` if there is none.
pub fn folder() -> Option<Shared> {
    let test = std::thread::current().name().unwrap_or("main").to_string();
    assert!(test == "main" || test.starts_with("on_shared_traces::"), "{test} belongs in `on_shared_traces`");
    let root = match std::env::var_os("HTA_SHARED") {
        Some(path) => PathBuf::from(path),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared"),
    };
    let found = root.join("traces").is_dir();
    if !found {
        static ONCE: Once = Once::new();
        // print macros are captured in tests that pass
        ONCE.call_once(|| {
            let message = "skipped: the tests in `on_shared_traces`, which need the folder ../shared (or HTA_SHARED); \
                           tests/shared/fetch.py makes it";
            let _ = writeln!(std::io::stderr(), "{message}");
        });
    }
    found.then_some(Shared(root))
}

impl Shared {
    /// All traces, for tests of what holds for any.
    pub fn traces(&self) -> PathBuf {
        self.0.join("traces")
    }

    /// A trace or a folder of them, which the manifest must list.
    pub fn trace(&self, path: &str) -> PathBuf {
        static MANIFEST: OnceLock<String> = OnceLock::new();
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/shared/MANIFEST.tsv");
        let lines =
            MANIFEST.get_or_init(|| std::fs::read_to_string(manifest).expect("the manifest can be read"));
        let is_it = |line: &str| line.strip_prefix(path).is_some_and(|rest| rest.starts_with(['\t', '/']));
        assert!(lines.lines().any(is_it), "{path} is not in tests/shared/MANIFEST.tsv");
        let found = self.traces().join(path);
        assert!(found.exists(), "{} is not there: see tests/shared/fetch.py", found.display());
        found
    }

    /// A folder of small inputs with the right answer beside each, if it is there: it is not published.
    pub fn cases(&self, folder: &str) -> Option<PathBuf> {
        Some(self.0.join("cases").join(folder)).filter(|f| f.is_dir())
    }
}

/// What another tool says: a file or folder of `tests/reference`.
pub fn reference(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reference").join(path)
}

pub fn json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The samples of the repository.
pub fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/samples")
}

/// The names of the samples, sorted: the folders there.
pub fn sample_names() -> Vec<String> {
    let entries = std::fs::read_dir(samples()).expect("the samples can be listed");
    let folders = entries.map(|e| e.expect("an entry can be read")).filter(|e| e.path().is_dir());
    let mut names: Vec<String> = folders.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Files below a folder, sorted by path.
pub fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(&next).expect("a folder can be listed") {
            let path = entry.expect("an entry can be read").path();
            if path.is_dir() {
                open.push(path);
            } else {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// Every file of an output folder with its bytes.
pub type Files = BTreeMap<String, Vec<u8>>;

/// The files at and below a folder, by their paths in it.
pub fn contents(root: &Path) -> Files {
    let name = |p: &PathBuf| p.strip_prefix(root).expect("below the folder").display().to_string();
    files_below(root).iter().map(|p| (name(p), std::fs::read(p).expect("a result can be read"))).collect()
}

/// Folders at and below a folder, sorted by path.
pub fn folders_below(folder: &Path) -> Vec<PathBuf> {
    let mut folders = vec![folder.to_path_buf()];
    let mut at = 0;
    while let Some(next) = folders.get(at).cloned() {
        at += 1;
        for entry in std::fs::read_dir(&next).expect("a folder can be listed") {
            let path = entry.expect("an entry can be read").path();
            if path.is_dir() {
                folders.push(path);
            }
        }
    }
    folders.sort();
    folders
}

/// Whether a file with this name is read from a folder.
pub fn looks_like_a_trace(path: &Path) -> bool {
    let name = path.to_string_lossy().to_lowercase();
    [".json", ".json.gz", ".json.zst", ".pftrace", ".pftrace.gz", ".tmp"].iter().any(|e| name.ends_with(e))
}

/// The first rows of a Parquet file.
pub fn rows_of(path: &Path) -> RecordBatch {
    let reader =
        ParquetRecordBatchReaderBuilder::try_new(File::open(path).expect("a table")).expect("Parquet");
    reader.build().expect("a reader").next().expect("rows").expect("rows")
}

/// Writes rows so many times into a Parquet file.
pub fn write_rows(path: &Path, rows: &RecordBatch, times: usize) {
    let level = ZstdLevel::try_new(3).expect("a level");
    let properties = WriterProperties::builder().set_compression(Compression::ZSTD(level)).build();
    let file = File::create(path).expect("a file");
    let mut writer = ArrowWriter::try_new(file, rows.schema(), Some(properties)).expect("a writer");
    (0..times).for_each(|_| writer.write(rows).expect("rows"));
    writer.close().expect("a file");
}

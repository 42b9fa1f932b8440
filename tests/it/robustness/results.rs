//! Folders of results that are not what `hta analyze` left: files of other kinds, of other columns, and small ones that
//! unpack to much. Each is refused with its name, by every command that reads it.

use crate::shared::{rows_of, write_rows};
use arrow_array::{Array, ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use hta::registry::ANALYSES;
use hta::results::Results;
use hta::sql::{engine, results, statement::Statement};
use hta::units::MemoryLimit;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const STEPS: &str = "tables/steps.parquet";

/// Results of a sample in a folder of its own.
fn analysed() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let results = dir.path().join("results");
    let sample = Path::new(ROOT).join("data/samples/gpu_single");
    let run = Command::new(env!("CARGO_BIN_EXE_hta"))
        .args(["analyze", "--no-html", "-o"])
        .args([&results, &sample])
        .output()
        .expect("hta runs");
    assert!(run.status.code().is_some_and(|code| code < 2), "{}", String::from_utf8_lossy(&run.stderr));
    (dir, results)
}

/// Exit code and messages of a command.
fn hta(args: &[&str], folder: &Path) -> (Option<i32>, String) {
    let run =
        Command::new(env!("CARGO_BIN_EXE_hta")).args(args).current_dir(folder).output().expect("hta runs");
    (run.status.code(), String::from_utf8_lossy(&run.stderr).into_owned())
}

/// The command that prints the table of steps.
const STEPS_AS_CSV: &[&str] = &["steps", "results", "--table", "steps", "--format", "csv"];

/// Commands that read the steps of results.
const READING: [&[&str]; 3] =
    [STEPS_AS_CSV, &["diff", "results", "results"], &["query", "SELECT * FROM steps", "results"]];

fn refused(args: &[&str], folder: &Path, file: &str, reason: &str) {
    let (code, messages) = hta(args, folder);
    assert_eq!(code, Some(2), "{args:?}: {messages}");
    assert!(messages.contains(file) && messages.contains(reason), "{args:?}: {messages}");
}

/// What no file of results is: what is said of it, and how it is made in the place of one.
#[cfg(unix)]
type FileKind = (&'static str, fn(&Path));

#[cfg(unix)]
const KINDS: [FileKind; 5] = [
    ("found a pipe, socket or device", |at| {
        assert!(Command::new("mkfifo").arg(at).status().expect("mkfifo runs").success());
    }),
    ("found a pipe, socket or device", |at| {
        std::os::unix::fs::symlink("/dev/zero", at).expect("a link");
    }),
    ("found a folder", |at| fs::create_dir(at).expect("a folder")),
    ("found a link that leads out of the folder", |at| {
        let outside = at.ancestors().last().expect("a root").join(ROOT).join("Cargo.toml");
        std::os::unix::fs::symlink(outside, at).expect("a link");
    }),
    ("found a link that leads nowhere", |at| {
        std::os::unix::fs::symlink("none", at).expect("a link");
    }),
];

#[cfg(unix)]
#[test]
fn what_is_no_file_in_the_place_of_a_table_is_refused_by_its_name() {
    let (dir, results) = analysed();
    for (reason, make) in KINDS {
        fs::remove_dir(results.join(STEPS))
            .or_else(|_| fs::remove_file(results.join(STEPS)))
            .expect("a file");
        make(&results.join(STEPS));
        for args in READING {
            refused(args, dir.path(), STEPS, reason);
        }
        refused(&["files", "results", STEPS], dir.path(), STEPS, reason);
    }
}

#[cfg(unix)]
#[test]
fn what_is_no_file_in_the_place_of_a_text_is_refused_by_its_name() {
    let (dir, results) = analysed();
    for (reason, make) in KINDS {
        for (file, args) in [
            ("report.txt", &["files", "results", "report.txt"][..]),
            ("summary.json", &["steps", "results"]),
            ("summary.json", &["diff", "results", "results"]),
            ("summary.json", &["files", "results"]),
            ("summary.json", &["open", "results"]),
            ("summary.json", &["report", "results"]),
            ("summary.json", &["query", "top_kernels", "results"]),
            ("report.html", &["open", "results"]),
            ("report.html", &["files", "results", "report.html"]),
            ("report.html", &["report", "results"]),
            ("compare.html", &["report", "results", "--against", "results"]),
        ] {
            let (at, kept) = (results.join(file), dir.path().join("kept"));
            let is_there = fs::rename(&at, &kept).is_ok();
            make(&at);
            refused(args, dir.path(), file, reason);
            fs::remove_dir(&at).or_else(|_| fs::remove_file(&at)).expect("it is there");
            if is_there {
                fs::rename(&kept, &at).expect("a file");
            }
        }
    }
}

#[cfg(unix)]
#[test]
fn the_page_of_a_folder_is_not_written_through_a_link() {
    let (dir, results) = analysed();
    let outside = dir.path().join("outside");
    fs::write(&outside, "kept").expect("a file");
    for target in [&outside, &dir.path().join("none")] {
        std::os::unix::fs::symlink(target, results.join("report.html")).expect("a link");
        refused(&["report", "results"], dir.path(), "report.html", "found a link that leads");
        fs::remove_file(results.join("report.html")).expect("the link");
    }
    assert_eq!(fs::read_to_string(&outside).expect("a file"), "kept");
    assert!(!dir.path().join("none").exists());
}

#[test]
fn a_summary_that_is_none_is_refused_by_its_name() {
    let (dir, results) = analysed();
    let deep = "[".repeat(200_000);
    for text in [
        "",
        "{",
        "[]",
        "7",
        "{}",
        r#"{"empty_tables": 7}"#,
        r#"{"empty_tables": [7]}"#,
        r#"{"empty_tables": [], "empty_tables": []}"#,
        r#"{"empty_tables": [], "hta_version": 1}"#,
        &deep,
        &format!(r#"{{"a": {deep}"#),
        "\u{0}",
    ] {
        fs::write(results.join("summary.json"), text).expect("a file");
        for args in [
            &["steps", "results"][..],
            &["diff", "results", "results"],
            &["report", "results"],
            &["query", "top_kernels", "results"],
            &["files", "results", "tables/pipelines.parquet"],
        ] {
            refused(args, dir.path(), "summary.json", "expected the summary of a run");
        }
    }
}

#[cfg(unix)]
#[test]
fn a_link_inside_of_the_folder_is_read() {
    let (dir, results) = analysed();
    fs::rename(results.join(STEPS), results.join("tables/other")).expect("a file");
    std::os::unix::fs::symlink("other", results.join(STEPS)).expect("a link");
    for args in READING {
        let (code, messages) = hta(args, dir.path());
        assert_eq!(code, Some(0), "{args:?}: {messages}");
    }
}

#[test]
fn events_of_which_some_are_gone_are_refused() {
    let (dir, results) = analysed();
    let events = results.join("events/rank=00000.parquet");
    fs::copy(&events, results.join("events/rank=00001.parquet")).expect("the events twice");
    let count = ["query", "SELECT COUNT(*) AS c FROM events", "results"];
    refused(&count, dir.path(), "results/events", "events in 2 files");
    fs::remove_file(&events).expect("the file");
    assert_eq!(hta(&count, dir.path()).0, Some(0), "the same events in another file are all there");
}

#[test]
fn a_text_that_is_too_long_is_refused_by_its_name() {
    let (dir, results) = analysed();
    fs::write(results.join("summary.json"), "a".repeat(8 << 20)).expect("a file");
    refused(&["steps", "results", "--memory-limit", "80MB"], dir.path(), "summary.json", "bytes, found more");
}

/// The rows with another column of this name; without it, if there is none.
fn with_column(rows: &RecordBatch, name: &str, other: Option<ArrayRef>) -> RecordBatch {
    let schema = rows.schema();
    let fields = schema.fields().iter().map(|f| f.name().clone());
    let columns = fields.zip(rows.columns().iter().cloned()).filter(|(n, _)| n != name);
    let other = other.map(|array| (name.to_string(), array));
    RecordBatch::try_from_iter_with_nullable(columns.chain(other).map(|(n, a)| (n, a, true)))
        .expect("columns")
}

#[test]
fn columns_of_other_types_are_refused_by_their_names() {
    let (dir, results) = analysed();
    let rows = rows_of(&results.join(STEPS));
    let count = rows.num_rows();
    let others: [Option<ArrayRef>; 4] = [
        Some(Arc::new(Float64Array::from(vec![1.5; count]))),
        Some(Arc::new(StringArray::from(vec!["1"; count]))),
        Some(Arc::new(Int64Array::from(vec![None; count]))),
        None,
    ];
    for other in others {
        let what = other.as_ref().map(|a| a.data_type().clone());
        write_rows(&results.join(STEPS), &with_column(&rows, "dur_ns", other), 1);
        let (code, messages) = hta(STEPS_AS_CSV, dir.path());
        assert_eq!(code, Some(2), "{what:?}: {messages}");
        assert!(messages.contains(STEPS) && messages.contains("dur_ns"), "{what:?}: {messages}");
    }
    let more = with_column(&rows, "one_more", Some(Arc::new(Int64Array::from(vec![1; count]))));
    let declared = RecordBatch::try_new(
        Arc::new(arrow_schema::Schema::new(
            rows.schema()
                .fields()
                .iter()
                .cloned()
                .chain(more.schema().fields().last().cloned())
                .collect::<Vec<_>>(),
        )),
        more.columns().to_vec(),
    );
    write_rows(&results.join(STEPS), &declared.expect("the declared columns and one more"), 1);
    assert_eq!(hta(&["steps", "results"], dir.path()).0, Some(0));
}

#[test]
fn small_files_of_many_rows_are_refused_within_the_memory_limit() {
    let (dir, results) = analysed();
    let rows = rows_of(&results.join(STEPS));
    write_rows(&results.join(STEPS), &rows, 200_000 / rows.num_rows());
    assert!(fs::metadata(results.join(STEPS)).expect("a file").len() < 1_000_000);
    for args in [READING[0], READING[2]] {
        let args = [args, &["--memory-limit", "80MB"]].concat();
        refused(&args, dir.path(), STEPS, "of memory");
    }
}

/// What the fuzz target `results` does with a table.
fn read_as_steps(bytes: &[u8], folder: &Path) {
    fs::create_dir_all(folder.join("tables")).expect("a folder");
    fs::write(folder.join("summary.json"), "{\"empty_tables\": []}").expect("a file");
    fs::write(folder.join(STEPS), bytes).expect("a file");
    let limit = Some(MemoryLimit { bytes: 128 << 20, given: true });
    let spec = ANALYSES.iter().flat_map(|a| a.tables()).find(|t| t.name == "steps").expect("it is declared");
    let found = Results::open(folder).expect("results").within(limit);
    let rows = found.batches(spec).map(|_| ()).map_err(|e| e.to_string());
    let statement = Statement::new("SELECT * FROM steps").expect("a statement");
    let asked = results::load(&found, &statement, limit)
        .and_then(|tables| engine::run(&statement, tables, |t| found.columns(t)).map(|_| ()));
    for error in [rows.err(), asked.err().map(|e| e.to_string())].into_iter().flatten() {
        assert!(!error.is_empty());
    }
}

#[test]
fn the_inputs_of_the_fuzz_target_are_read_or_refused() {
    let corpus = Path::new(ROOT).join("tests/fuzz/corpus/results");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut count = 0;
    for entry in fs::read_dir(corpus).expect("the corpus") {
        let bytes = fs::read(entry.expect("a file").path()).expect("a file");
        read_as_steps(&bytes, folder.path());
        // The same with one byte changed, here and there.
        for at in (0..bytes.len()).step_by(bytes.len() / 40 + 1) {
            let mut changed = bytes.clone();
            changed[at] ^= 0x5a;
            read_as_steps(&changed, folder.path());
        }
        count += 1;
    }
    assert!(count >= 2, "{count}");
}

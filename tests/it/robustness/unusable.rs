//! Files that cannot be used: their effect on the exit code, their messages, and what is read nevertheless.

use crate::job::determinism::{gzip, zstandard};
use hta::error::ReadError;
use hta::health::Counter;
use hta::read::input::Input;
use hta::read::load::load;
use hta::read::options::LoadOptions;
use hta::read::reading::{Loaded, Spread};
use hta::read::source::ByteCount;
use hta::units::MemoryLimit;
use std::path::Path;
use std::process::{Command, Output};

fn fixture(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/broken").join(name);
    std::fs::read(path).expect("a fixture")
}

fn analyze(input: &Path, more: &[&str]) -> Output {
    let out = tempfile::tempdir().expect("a temporary folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_hta"));
    command.arg("analyze").args(more).arg("--out").arg(out.path().join("out")).arg(input);
    command.output().expect("the binary runs")
}

/// Files with the result and message for each.
fn unusable() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let clean = fixture("clean.json");
    let utf16: Vec<u8> = clean.iter().flat_map(|b| [*b, 0]).collect();
    let packed = gzip(&clean);
    vec![
        ("json", Vec::new(), "an empty file"),
        ("json", b" \n".to_vec(), "an empty file"),
        ("json", clean[..40].to_vec(), ""),
        ("json", vec![0; 4096], "zero bytes"),
        ("json.gz", vec![0; 4096], "zero bytes"),
        ("json.gz", gzip(&packed), "packed twice"),
        ("json.zst", zstandard(&packed), "packed twice"),
        ("json.gz", packed[..10].to_vec(), "the gzip stream ends early"),
        ("json", utf16.clone(), "UTF-16"),
        ("json", [&[0xff, 0xfe][..], &utf16].concat(), "UTF-16"),
        ("json", b"<html>504 Gateway Time-out</html>".to_vec(), "not JSON"),
        ("json", b"{\"a\": 1}".to_vec(), "JSON without `traceEvents`"),
    ]
}

#[test]
fn an_unusable_file_with_the_name_of_a_trace_costs_the_exit_code() {
    for (ending, bytes, says) in unusable() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(dir.path().join("rank_0.json"), fixture("clean.json")).expect("a file");
        let what = format!("{} bytes as {ending}: {says}", bytes.len());
        let bad = dir.path().join(format!("rank_1.{ending}"));
        std::fs::write(&bad, &bytes).expect("a file");
        let run = analyze(dir.path(), &[]);
        let errors = String::from_utf8_lossy(&run.stderr);
        assert_eq!(run.status.code(), Some(1), "{what}: {errors}");
        assert!(
            errors.contains("rank_1") && errors.contains(says) && errors.contains("hint:"),
            "{what}: {errors}"
        );
        assert_eq!(analyze(dir.path(), &["--strict"]).status.code(), Some(2), "{what}");
        std::fs::rename(&bad, dir.path().join(format!("host_1.17.pt.trace.{ending}"))).expect("a file");
        assert_eq!(analyze(dir.path(), &[]).status.code(), Some(1), "{what}");
    }
}

#[test]
fn other_files_in_the_folder_are_free() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(dir.path().join("rank_0.json"), fixture("clean.json")).expect("a file");
    for (i, (ending, bytes, says)) in unusable().into_iter().enumerate().filter(|(_, u)| !u.2.is_empty()) {
        let path = dir.path().join(format!("notes{i}.{ending}"));
        std::fs::write(&path, bytes).expect("a file");
        let run = analyze(dir.path(), &["--strict"]);
        assert_eq!(run.status.code(), Some(0), "{says}: {}", String::from_utf8_lossy(&run.stderr));
        assert_eq!(analyze(&path, &[]).status.code(), Some(2), "{says}, named");
    }
    // Whole files of other kinds, whatever their names.
    std::fs::write(dir.path().join("rank_1.json"), fixture("execution_trace.json")).expect("a file");
    std::fs::write(dir.path().join("rank_2.json"), fixture("memory_timeline.json")).expect("a file");
    assert_eq!(analyze(dir.path(), &["--strict"]).status.code(), Some(0));
}

fn read(bytes: &[u8], spread: Spread, memory: Option<u64>) -> Result<Loaded, ReadError> {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("a.json");
    std::fs::write(&path, bytes).expect("a file");
    let memory = memory.map(|bytes| MemoryLimit { bytes, given: true });
    let input = Input::named(path).shown_as("a.json");
    load(&input, LoadOptions { memory, ..LoadOptions::default() }, spread, &ByteCount::default())
}

/// As `zstd --long=N` compresses from a pipe: a frame that stores its window but not its size.
fn with_window(text: &[u8], log: u8) -> Vec<u8> {
    let mut packed = zstandard(text);
    assert_eq!(packed[4] & 0xe0, 0, "the frame tells its size: it has no window");
    packed[5] = (log - 10) << 3;
    packed
}

#[test]
fn windows_up_to_two_gib_are_read_and_larger_ones_told() {
    let clean = fixture("clean.json");
    for log in [20, 27, 28, 31] {
        for spread in [Spread::Inline, Spread::AllCores] {
            let loaded = read(&with_window(&clean, log), spread, Some(64 << 20))
                .unwrap_or_else(|e| panic!("{log}: {e}"));
            assert_eq!(loaded.columns.len(), 6, "{log}");
        }
    }
    let error = read(&with_window(&clean, 32), Spread::Inline, None).err().expect("too large");
    assert!(error.to_string().contains("too much memory") && error.hint().is_some(), "{error}");
}

#[test]
fn memory_of_a_window_counts_once_it_is_used() {
    // Instant events are not stored, so nearly all memory is the decoder's.
    let mark = r#",{"ph":"i","name":"x","s":"t","pid":1,"tid":1,"ts":1}"#;
    let text = format!("{{\"traceEvents\":[{EVENT}{}]}}", mark.repeat((64 << 20) / mark.len()));
    let (small, large) = (with_window(text.as_bytes(), 21), with_window(text.as_bytes(), 31));
    assert!(read(&small, Spread::Inline, Some(40 << 20)).is_ok());
    let error = read(&large, Spread::Inline, Some(40 << 20)).err().expect("too large");
    assert!(matches!(error, ReadError::TooLarge { .. }), "{error}");
}

#[test]
fn frames_without_data_are_skipped() {
    let clean = fixture("clean.json");
    let half = clean.len() / 2;
    // As pzstd writes: before each frame a skippable one with its size.
    let frame = |text: &[u8]| {
        let packed = zstandard(text);
        let size = u32::try_from(packed.len()).expect("a small frame").to_le_bytes();
        [&[0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0][..], &size, &packed].concat()
    };
    for spread in [Spread::Inline, Spread::AllCores] {
        let loaded = read(&[frame(&clean[..half]), frame(&clean[half..])].concat(), spread, None);
        assert_eq!(loaded.unwrap_or_else(|e| panic!("{e}")).columns.len(), 6);
    }
    let alone = read(&[0x5f, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 1, 2], Spread::Inline, None);
    assert!(matches!(alone, Err(ReadError::Empty { .. })));
}

const EVENT: &str = r#"{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1,"dur":1}"#;

fn counts(text: &str) -> Vec<(usize, u64, u64, u64)> {
    let spreads = [Spread::Inline, Spread::AllCores];
    let of = |loaded: Loaded| {
        let count = |counter| loaded.columns.health.count(counter);
        let [joined, data, events] =
            [Counter::LaterDocument, Counter::TrailingData, Counter::TrailingEvents].map(count);
        (loaded.columns.len(), joined, data, events)
    };
    spreads
        .into_iter()
        .map(|s| of(read(text.as_bytes(), s, None).unwrap_or_else(|e| panic!("{text}: {e}"))))
        .collect()
}

#[test]
fn documents_one_behind_the_other_are_read_as_one() {
    let document = |rank: u32| {
        format!(
            r#"{{"schemaVersion":1,"distributedInfo":{{"rank":{rank}}},"baseTimeNanoseconds":5,"traceEvents":[{EVENT},{EVENT}]}}"#
        )
    };
    assert_eq!(counts(&format!("{}\n\n{}", document(0), document(0))), [(4, 1, 0, 0); 2]);
    assert_eq!(counts(&format!("[{EVENT}][{EVENT}] {{\"traceEvents\":[{EVENT}]}}")), [(3, 2, 0, 0); 2]);
    // Documents of two ranks, or with two base times.
    for other in [document(1), document(0).replace(":5,", ":6,")] {
        let error = read(format!("{}{other}", document(0)).as_bytes(), Spread::Inline, None).err();
        assert!(matches!(error, Some(ReadError::Interleaved { .. })), "{error:?}");
    }
    // The second one is truncated.
    let cut = format!("{}{}", document(0), &document(0)[..150]);
    let loaded = read(cut.as_bytes(), Spread::Inline, None).unwrap_or_else(|e| panic!("{e}"));
    assert!(loaded.columns.health.has_loss());
}

#[test]
fn events_behind_the_end_are_a_loss_and_other_bytes_are_not() {
    assert_eq!(counts(&format!("{{\"traceEvents\":[{EVENT}]}},{EVENT}]}}")), [(1, 0, 1, 1); 2]);
    assert_eq!(counts(&format!("[{EVENT}],{EVENT}]")), [(1, 0, 1, 1); 2]);
    assert_eq!(counts(&format!("[{EVENT}]\0\0\0")), [(1, 0, 1, 0); 2]);
    assert_eq!(counts(&format!("[{EVENT}]}} the end")), [(1, 0, 1, 0); 2]);
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("a.json");
    std::fs::write(&path, format!("[{EVENT}],{EVENT}]")).expect("a file");
    assert_eq!(analyze(&path, &[]).status.code(), Some(1));
}

fn row(cat: &str, ts: usize) -> String {
    let cat = if cat.is_empty() { String::new() } else { format!("\"cat\":\"{cat}\",") };
    format!(r#"{{"ph":"X",{cat}"name":"a{ts}","pid":1,"tid":1,"ts":{ts},"dur":1,"args":{{}}}}"#)
}

fn rows(cats: &[&str]) -> String {
    format!("[{}]", cats.iter().enumerate().map(|(i, cat)| row(cat, 10 * i)).collect::<Vec<_>>().join(","))
}

#[test]
fn reports_that_must_be_exported_are_refused_with_the_command() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let says = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).expect("a file");
        let run = Command::new(env!("CARGO_BIN_EXE_hta"))
            .arg("analyze")
            .arg(&path)
            .output()
            .expect("the binary runs");
        assert_eq!(run.status.code(), Some(2), "{name}");
        String::from_utf8_lossy(&run.stderr).into_owned()
    };
    let binary = b"\x0a\x89\x01\x00report";
    for (name, bytes, what, hint) in [
        ("a.nsys-rep", &binary[..], "Nsight Systems", "nsys export --type sqlite"),
        ("b.qdrep", &binary[..], "Nsight Systems", "nsys export --type sqlite"),
        ("c.ncu-rep", &binary[..], "Nsight Compute", "torch.profiler or nsys"),
        ("e.0.et", &b"\x07\x0a\x050.0.4\x03\x08\x01\x12"[..], "a Chakra execution trace", "Kineto traces"),
        (
            "f.pb",
            &b"\x0a\x40\x0a\x3e\x0a\x26/job:localhost/replica:0/task:0"[..],
            "TensorFlow 1",
            "chrome://tracing",
        ),
        (
            "g.csv",
            &b"\"Index\",\"KernelName\",\"gpu-id\"\n0,\"f\",1\n"[..],
            "a table of rocprof",
            "torch.profiler",
        ),
        (
            "h.json",
            &b"[{\"name\": \"iteration\", \"ph\": \"B\", \"rel_ts\": 0, \"pad_before\": 1}]"[..],
            "MegaScan",
            "torch.profiler",
        ),
        ("d.nvvp", &b"<?xml version=\"1.0\"?><session></session>"[..], "Visual Profiler", "nvprof -o"),
    ] {
        let said = says(name, bytes);
        assert!(said.contains(name) && said.contains(what) && said.contains(hint), "{said}");
    }
    // A trace is read under any name.
    let path = dir.path().join("e.nsys-rep");
    std::fs::write(&path, rows(&["cpu_op"])).expect("a file");
    let run = Command::new(env!("CARGO_BIN_EXE_hta"))
        .arg("breakdown")
        .arg(&path)
        .output()
        .expect("the binary runs");
    assert_eq!(run.status.code(), Some(0));
}

#[test]
fn files_of_other_profilers_are_refused_by_name() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("a.json");
    let hta = |text: &str, arguments: &[&str]| {
        std::fs::write(&path, text).expect("a file");
        let run = Command::new(env!("CARGO_BIN_EXE_hta"))
            .args(arguments)
            .arg(&path)
            .output()
            .expect("the binary runs");
        (run.status.code(), String::from_utf8_lossy(&run.stderr).into_owned())
    };
    let ascend = rows(&["cpu_op", "cpu_op", "", "", "", "enqueue", "dequeue"]);
    let (code, says) = hta(&ascend, &["breakdown"]);
    assert_eq!(code, Some(2));
    assert!(
        says.contains("an Ascend profile (torch_npu): 5 of 7 rows") && says.contains("(none, `dequeue`"),
        "{says}"
    );
    let timeline = rows(&["forward-compute", "backward-compute"]);
    let (code, says) = hta(&timeline, &["idle"]);
    assert!(
        code == Some(2) && says.contains("a timeline of pipeline stages") && says.contains("hint: "),
        "{says}"
    );
    assert_eq!(hta(&timeline, &["what-if", "--method", "published"]).0, Some(0));
    assert_eq!(hta(&timeline, &["query", "SELECT * FROM events"]).0, Some(0));
    let named = |process: &str| {
        let name = format!(r#"{{"ph":"M","name":"process_name","pid":1,"args":{{"name":"{process}"}}}}"#);
        hta(&format!("[{name},{},{}]", row("Op", 0), row("Op", 10)), &["breakdown"])
    };
    for (process, what) in [
        ("/job:localhost/replica:0/task:0/device:CPU:0 Compute", "a timeline of TensorFlow 1"),
        ("/device:GPU:0/stream:all Compute", "a timeline of TensorFlow 1"),
        ("/device:GPU:0", "a trace of TensorFlow or JAX"),
        ("CPU HIP API", "a trace of rocprof or hipprof"),
        ("DP0-PP1-TP0", "a trace of MegaScan"),
    ] {
        let (code, says) = named(process);
        assert!(code == Some(2) && says.contains(what) && says.contains("hint: "), "{process}: {says}");
    }
    // Together with a trace it counts as a loss.
    std::fs::write(dir.path().join("b.json"), rows(&["cpu_op"])).expect("a file");
    std::fs::write(&path, &ascend).expect("a file");
    assert_eq!(analyze(dir.path(), &[]).status.code(), Some(1));
    // Early profilers of PyTorch wrote operators without a category.
    assert_eq!(hta(&rows(&["", ""]).replace("\"a", "\"aten::a"), &["breakdown"]).0, Some(0));
    // Half of them is not a majority.
    assert_eq!(hta(&rows(&["cpu_op", "cpu_op", "", "enqueue"]), &["breakdown"]).0, Some(0));
}

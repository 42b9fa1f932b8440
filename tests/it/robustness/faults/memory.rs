//! `--memory-limit`: fewer ranks at once give the same bytes; ranks that cannot fit are refused, even if they are small
//! files.

use super::{MeasuredRun, errors, event, has_python, hta, measured, names, sample, trace};
use crate::job::determinism::{gzip, zstandard};
use crate::shared::contents;
use arrow_array::{ArrayRef, DictionaryArray, Int32Array, Int64Array, RecordBatch, StringArray};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

/// A set with one large rank and small ones.
fn set(ranks: usize, large: usize) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for rank in 0..ranks {
        let count = if rank == 1 { large } else { 4_000 };
        let events: Vec<String> = (0..count).map(|i| event(&format!("op{}", i % 50), i * 10)).collect();
        std::fs::write(dir.path().join(format!("rank_{rank}.json.gz")), gzip(trace(&events).as_bytes()))
            .unwrap();
    }
    dir
}

fn analyze(out: &Path, input: &Path, args: &[&str]) -> Output {
    hta(&["analyze", "--out"]).arg(out).args(args).arg(input).output().unwrap()
}

#[test]
fn a_limit_changes_no_byte() {
    let large = set(6, 60_000);
    for input in [sample(), large.path().to_path_buf()] {
        let dir = tempfile::tempdir().unwrap();
        let free = dir.path().join("free");
        let run = analyze(&free, &input, &["--threads", "1"]);
        assert_eq!(run.status.code(), Some(0), "{}", errors(&run));
        let free = contents(&free);
        for (limit, threads) in [("110MB", "4"), ("130MB", "3"), ("200MB", "8"), ("110MB", "1"), ("1TB", "4")]
        {
            let out = dir.path().join("out");
            let run = analyze(&out, &input, &["--memory-limit", limit, "--threads", threads]);
            assert_eq!(run.status.code(), Some(0), "{limit}: {}", errors(&run));
            assert!(contents(&out) == free, "{limit} on {threads} threads gives other bytes");
        }
    }
}

#[test]
fn one_rank_that_cannot_fit_is_refused_and_the_others_are_analysed() {
    let input = set(4, 900_000);
    let dir = tempfile::tempdir().unwrap();
    let mut before = None;
    for threads in ["1", "4"] {
        let out = dir.path().join(format!("out{threads}"));
        let run = analyze(&out, input.path(), &["--memory-limit", "100MB", "--threads", threads]);
        let said = errors(&run);
        assert_eq!(run.status.code(), Some(1), "{said}");
        assert!(
            said.contains("rank_1.json.gz: it needs") && said.contains("--memory-limit leaves"),
            "{said}"
        );
        let now = contents(&out);
        assert!(before.is_none_or(|b| b == now), "the number of threads changes the result");
        before = Some(now);
    }
    let out = dir.path().join("alone");
    let run = analyze(&out, &input.path().join("rank_1.json.gz"), &["--memory-limit", "100MB"]);
    assert_eq!(run.status.code(), Some(2), "{}", errors(&run));
    assert!(errors(&run).contains("hint: raise --memory-limit"), "{}", errors(&run));
    assert!(!out.exists());
}

#[test]
fn a_limit_below_what_the_program_takes_says_what_is_needed() {
    let dir = tempfile::tempdir().unwrap();
    let run = analyze(&dir.path().join("out"), &sample(), &["--memory-limit", "20MB"]);
    assert_eq!(run.status.code(), Some(2));
    assert!(errors(&run).contains("expected at least 84"), "{}", errors(&run));
    let run = analyze(&dir.path().join("out"), &sample(), &["--memory-limit", "four potatoes"]);
    assert_eq!(run.status.code(), Some(2));
    assert!(names(dir.path()).is_empty());
}

/// Kinds of endless output: distinct names, one long text, blanks, numbers outside the events.
fn bombs() -> Vec<(&'static str, Vec<u8>)> {
    let mut names = b"{\"traceEvents\":[".to_vec();
    for i in 0..400 {
        names.extend_from_slice(event(&format!("{i}{}", "x".repeat(1_000_000)), i).as_bytes());
        names.push(b',');
    }
    let text = [b"{\"traceEvents\":[{\"name\":\"".to_vec(), vec![b'x'; 400 << 20]].concat();
    let value = [b"{\"a\":[".to_vec(), b"1,".repeat(200 << 20)].concat();
    let event = event("op", 10) + ",";
    let tiny = [b"{\"traceEvents\":[".to_vec(), event.as_bytes().repeat((400 << 20) / event.len())].concat();
    vec![("names", names), ("text", text), ("value", value), ("tiny", tiny)]
}

#[test]
fn a_small_file_that_unpacks_without_end_is_refused_within_the_limit() {
    if !has_python() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in bombs() {
        for (ending, packed) in [("gz", gzip(&text)), ("zst", zstandard(&text))] {
            let file: PathBuf = dir.path().join(format!("{name}.json.{ending}"));
            std::fs::write(&file, packed).unwrap();
            let MeasuredRun { code, said, bytes, .. } =
                measured(&["breakdown", "--threads", "2", "--memory-limit", "150MB"], &file);
            assert_eq!(code, Some(2), "{}: {said}", file.display());
            assert!(said.contains("--memory-limit leaves"), "{}: {said}", file.display());
            assert!(bytes < 150_000_000, "{}: {bytes} bytes", file.display());
        }
    }
}

/// Tables of a few kilobytes that are large in memory: a long text in every row, with and without a dictionary, many
/// rows, one long page.
fn tables() -> Vec<(&'static str, RecordBatch, usize)> {
    let long = "x".repeat(1 << 20);
    let word: ArrayRef = Arc::new(StringArray::from(vec![long.as_str()]));
    let keys = Int32Array::from(vec![0; 20_000]);
    let repeated: ArrayRef = Arc::new(DictionaryArray::try_new(keys, word).unwrap());
    let plain: ArrayRef = Arc::new(StringArray::from(vec![long.as_str(); 50]));
    let rows: ArrayRef = Arc::new(Int64Array::from(vec![7; 1 << 20]));
    let page: ArrayRef = Arc::new(StringArray::from(vec!["y".repeat(300 << 20)]));
    let table = |column: ArrayRef| RecordBatch::try_from_iter([("name", column)]).unwrap();
    vec![
        ("repeated", table(repeated), 1),
        ("plain", table(plain), 20),
        ("rows", table(rows), 200),
        ("page", table(page), 1),
    ]
}

#[test]
fn a_small_results_folder_that_unpacks_without_end_stays_within_the_limit() {
    if !has_python() {
        return;
    }
    for (name, batch, times) in tables() {
        let dir = tempfile::tempdir().unwrap();
        let table = dir.path().join("tables/kernels.parquet");
        std::fs::create_dir(dir.path().join("tables")).unwrap();
        std::fs::write(dir.path().join("summary.json"), r#"{"hta_version": "0.0.1", "empty_tables": []}"#)
            .unwrap();
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_dictionary_page_size_limit(8 << 20)
            .set_statistics_enabled(EnabledStatistics::None)
            .build();
        let file = std::fs::File::create(&table).unwrap();
        let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
        (0..times).for_each(|_| writer.write(&batch).unwrap());
        drop(batch);
        writer.close().unwrap();
        assert!(std::fs::metadata(&table).unwrap().len() < 2_000_000, "{name} is a small file");
        for select in ["SELECT * FROM kernels", "SELECT COUNT(name) AS n FROM kernels"] {
            let MeasuredRun { code, said, bytes, .. } =
                measured(&["query", select, "--memory-limit", "200MB"], dir.path());
            // Texts of a dictionary are counted by their codes, so that none is unpacked.
            if name == "repeated" && select.contains("COUNT") {
                assert_eq!(code, Some(0), "{name}: {said}");
                let query = Command::new(env!("CARGO_BIN_EXE_hta"))
                    .args(["query", select, "--format", "csv"])
                    .arg(dir.path())
                    .output()
                    .unwrap();
                assert_eq!(String::from_utf8_lossy(&query.stdout), "n\n20000\n");
            } else {
                assert_eq!(code, Some(2), "{name}: {said}");
                assert!(
                    said.contains("more than 200 MB") && said.contains("hint: raise --memory-limit"),
                    "{name}: {said}"
                );
            }
            assert!(bytes < 200_000_000, "{name}: {bytes} bytes");
        }
    }
}

/// Each of as many streams as steps has work from its step to the end, so that the rows of the queues grow
/// with the square of a small file.
#[test]
fn what_analyses_make_of_a_small_file_is_within_the_limit() {
    const STEPS: usize = 1_200;
    let event = |category: &str, name: &str, ts: usize, dur: usize, tid: usize, args: &str| {
        format!(
            r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":1,"tid":{tid},"ts":{ts},"dur":{dur},"args":{{{args}}}}}"#
        )
    };
    let of_step = |i: usize| {
        let (at, end) = (100 * i, 100 * STEPS);
        let place = format!(r#""device":0,"stream":{i},"correlation":{i}"#);
        [
            event("user_annotation", &format!("ProfilerStep#{i}"), at, 90, 1, ""),
            event("cuda_runtime", "cudaLaunchKernel", at + 10, 5, 1, &format!(r#""correlation":{i}"#)),
            event("kernel", "gemm", at + 20, end - at - 20, i, &place),
        ]
    };
    let events: Vec<String> = (1..=STEPS).flat_map(of_step).collect();
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("rank_0.json"), format!("{{\"traceEvents\":[{}]}}", events.join(",")))
        .unwrap();
    let run = Command::new(env!("CARGO_BIN_EXE_hta"))
        .args(["launches", "--memory-limit", "150MB"])
        .arg(dir.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stderr);
    assert_eq!(run.status.code(), Some(2), "{said}");
    assert!(said.contains("cannot keep the memory limit: it needs more than 150 MB"), "{said}");
    assert!(run.stdout.is_empty());
}

#[test]
fn many_ranks_stay_below_the_limit() {
    if !has_python() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for ranks in [8, 64] {
        let input = set(ranks, 100_000);
        let out = dir.path().join("out");
        let args = ["analyze", "--threads", "8", "--memory-limit", "160MB", "--out", out.to_str().unwrap()];
        let MeasuredRun { code, said, bytes, .. } = measured(&args, input.path());
        assert_eq!(code, Some(0), "{said}");
        assert!(bytes < 160_000_000, "{ranks} ranks: {bytes} bytes");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_limit_of_the_shell_that_leaves_too_little_to_begin_is_refused_in_words() {
    let dir = tempfile::tempdir().unwrap();
    let within = |limit: &str, arguments: &[&str]| {
        let script = format!("ulimit {limit}; exec \"$0\" \"$@\"");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script, env!("CARGO_BIN_EXE_hta")]).args(arguments).current_dir(dir.path());
        shell.output().unwrap()
    };
    let sample = sample().display().to_string();
    let analysed = ["analyze", &sample, "--force", "--out", "out"];
    for threads in ["2", "8"] {
        let run = within("-d 60000", &[&analysed[..], &["--threads", threads]].concat());
        let said = errors(&run);
        assert_eq!(run.status.code(), Some(2), "{said}");
        assert!(
            said.contains(&format!("cannot start {threads} threads")) && said.contains("ulimit -v"),
            "{said}"
        );
        assert!(said.contains("hint: raise the limit"), "{said}");
    }
    for kib in [300_000, 400_000, 600_000, 1_000_000, 2_000_000] {
        let run = within(&format!("-v {kib}"), &[&analysed[..], &["--threads", "8"]].concat());
        assert!(matches!(run.status.code(), Some(0 | 2)), "{kib}: {:?} {}", run.status, errors(&run));
    }
    // What reads no data begins.
    assert_eq!(within("-d 60000", &["list"]).status.code(), Some(0));
}

//! The command line as a user sees it: messages, exit codes, formats, closed pipes.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const ONE: &str = "data/samples/gpu_ddp8/rank_0.json.gz";

fn hta(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hta")).args(args).current_dir(ROOT).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn wrong_paths_and_empty_folders_are_told_with_a_hint() {
    let empty = tempfile::tempdir().unwrap();
    for (args, word) in [
        (vec!["analyze", "no/such/file.json"], "no such file or folder"),
        (vec!["breakdown", "no/such/*.json"], "no such file or folder"),
        (vec!["idle", empty.path().to_str().unwrap()], "holds no *.json"),
        (vec!["overlap", "--rank-dir", "no/such/folder"], "no such file or folder"),
    ] {
        let run = hta(&args);
        let errors = text(&run.stderr);
        assert_eq!(run.status.code(), Some(2), "{errors}");
        assert!(errors.contains(word) && errors.contains("hint: "), "{errors}");
        assert!(run.stdout.is_empty());
    }
}

#[test]
fn bad_arguments_stop_before_work_begins() {
    let sample = "data/samples/gpu_ddp8/rank_0.json.gz";
    for args in [
        vec!["breakdown", sample, "--steps", "x"],
        vec!["breakdown", sample, "--step-pattern", "("],
        vec!["breakdown", sample, "--table", "nope"],
        vec!["breakdown", sample, "--threads", "0"],
        vec!["idle", sample, "--compat", "tracelens"],
        vec!["pyprof", sample, "--compat", "hta"],
        vec!["breakdown", sample, "--ranks", "77"],
        vec!["explain", "nope"],
        vec!["nope"],
    ] {
        let run = hta(&args);
        assert_eq!(run.status.code(), Some(2), "{args:?}: {}", text(&run.stdout));
        assert!(!run.stderr.is_empty(), "{args:?}");
    }
}

#[test]
fn every_format_holds_the_same_rows() {
    let sample = "data/samples/gpu_ddp8";
    let csv = text(&hta(&["breakdown", sample, "--format", "csv"]).stdout);
    let json: serde_json::Value =
        serde_json::from_slice(&hta(&["breakdown", sample, "--format", "json"]).stdout).unwrap();
    let parquet = hta(&["breakdown", sample, "--format", "parquet"]).stdout;
    let rows = json.as_array().unwrap().len();
    // span, capture, five steps and outside on each of eight ranks
    assert_eq!(rows, 8 * 8);
    assert_eq!(csv.lines().count(), rows + 1);
    assert!(parquet.starts_with(b"PAR1") && parquet.ends_with(b"PAR1"));
}

#[test]
fn the_report_fits_eighty_columns_and_is_what_the_folder_holds() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let run = hta(&["analyze", "data/samples/gpu_ddp8", "--out", out.to_str().unwrap()]);
    assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
    let shown = text(&run.stdout);
    let kept = std::fs::read_to_string(out.join("report.txt")).unwrap();
    for line in kept.lines().chain(shown.lines()) {
        assert!(line.chars().count() <= 80, "{line}");
    }
    let words = kept.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("Rank 5 makes the others wait, in step 12"), "{kept}");
    // What is printed is the head of the report: enough to know what to do next, on one screen.
    assert!(shown.lines().count() <= 60 && kept.lines().count() > 150);
    // Commands name the folder from where they are typed, and a full report begins with all that was read.
    let head = |report: &str| -> Vec<String> {
        let lines = report
            .lines()
            .skip(2)
            .take_while(|l| !l.starts_with("About the input") && !l.starts_with("Where"));
        lines.filter(|l| !l.starts_with("   see ")).map(str::to_string).collect()
    };
    let all = head(&kept);
    assert!(head(&shown).iter().all(|line| all.contains(line)), "{shown}");
    assert!(head(&shown).iter().any(|line| line.starts_with("Causes")), "{shown}");
    let again = |option: &str| {
        let run = hta(&[
            "analyze",
            "data/samples/gpu_ddp8",
            option,
            "--no-events",
            "--out",
            dir.path().join("again").to_str().unwrap(),
        ]);
        text(&run.stdout)
    };
    assert_eq!(head(&again("--full")), all);
    let brief = again("--brief");
    let lines: Vec<&str> = brief.lines().collect();
    assert!(lines.len() == 2 && lines.iter().all(|l| l.chars().count() <= 200), "{brief}");
    assert!(text(&run.stderr).is_empty(), "progress is for terminals");
    for name in [
        "temporal_breakdown",
        "overlap",
        "overlap_kernels",
        "idle",
        "idle_host",
        "idle_gaps",
        "kernels_by_name",
        "kernel_classes",
        "ranks",
        "steps",
        "health",
        "kernels",
    ] {
        assert!(out.join(format!("tables/{name}.parquet")).exists(), "{name}");
    }
    for rank in 0..8 {
        assert!(out.join(format!("events/rank={rank:05}.parquet")).exists());
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_hta"))
        .args(["kernels", "data/samples/gpu_ddp8", "--format", "csv"])
        .current_dir(ROOT)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 10];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let run = child.wait_with_output().unwrap();
    assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
    assert!(run.stderr.is_empty());
}

#[test]
fn a_folder_with_other_things_is_not_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("thesis.txt"), "years of work").unwrap();
    let out = dir.path().to_str().unwrap();
    let run =
        hta(&["analyze", "data/samples/cpu_single/cpu_modules_stack_memory.pt.trace.json.gz", "--out", out]);
    assert_eq!(run.status.code(), Some(2));
    assert!(text(&run.stderr).contains("thesis.txt") && dir.path().join("thesis.txt").exists());
}

#[test]
fn standard_input_and_unusual_containers_read_like_the_file() {
    let sample = Path::new(ROOT).join("data/samples/gpu_ddp8/rank_3.json.gz");
    let direct = text(&hta(&["breakdown", sample.to_str().unwrap(), "--format", "csv"]).stdout);
    let piped = Command::new(env!("CARGO_BIN_EXE_hta"))
        .args(["breakdown", "-", "--format", "csv"])
        .stdin(std::fs::File::open(&sample).unwrap())
        .output()
        .unwrap();
    assert_eq!(direct, text(&piped.stdout));
    assert!(direct.lines().count() > 5);
}

#[test]
fn everything_that_is_listed_is_explained() {
    let list = text(&hta(&["list"]).stdout);
    assert!(list.lines().all(|l| l.chars().count() <= 80), "{list}");
    let topics = list.lines().filter_map(|l| l.strip_prefix("  ")).filter(|l| !l.starts_with(' '));
    let names: Vec<&str> =
        topics.filter_map(|l| l.split_whitespace().next()).map(|n| n.trim_end_matches(',')).collect();
    assert!(names.len() >= 11, "{names:?}");
    for name in names {
        let page = hta(&["explain", name]);
        assert_eq!(page.status.code(), Some(0), "{name}");
        assert!(page.stdout.len() > 200, "{name}");
    }
}

#[test]
fn a_topic_and_a_table_of_one_name_share_a_page() {
    for (name, topic, table) in
        [("ranks", "how the number is found", "Table ranks: "), ("health", "Counters", "Table health: ")]
    {
        let page = text(&hta(&["explain", name]).stdout);
        let (topic, table) = (page.find(topic), page.find(table));
        assert!(topic.is_some() && topic < table, "{page}");
    }
    // the table of all activities has the name of an analysis
    let page = text(&hta(&["explain", "kernels"]).stdout);
    assert!(
        page.contains("# kernels")
            && page.contains("Table kernels: ")
            && page.contains("Table kernels_by_name: ")
    );
}

#[test]
fn the_printed_kernels_follow_their_keys() {
    let head = |by: &str| -> Vec<String> {
        let printed = text(&hta(&["kernels", ONE, "--by", by]).stdout);
        let head = printed.lines().find(|l| l.starts_with("kernel ")).unwrap_or_default().to_string();
        head.split_whitespace().map(str::to_string).collect()
    };
    assert_eq!(head("op,shape"), ["kernel", "operator", "grid", "block", "count", "sum", "mean"]);
    assert_eq!(head("stream"), ["kernel", "stream", "count", "sum", "mean"]);
    assert_eq!(head("category"), ["kernel", "category", "count", "sum", "mean"]);
    let rows = |by: &[&str]| {
        let recording = "tests/data/causes/host_dispatch.json.gz";
        let printed = text(&hta(&[&["kernels", recording, "--top", "99"], by].concat()).stdout);
        printed.lines().skip_while(|l| !l.starts_with("kernel ")).skip(1).count()
    };
    assert!(rows(&["--by", "op,shape"]) > rows(&[]));
    let printed = text(&hta(&["kernels", ONE, "--by", "op"]).stdout);
    assert!(printed.contains("aten::mm") && printed.lines().all(|l| l.chars().count() <= 80), "{printed}");
}

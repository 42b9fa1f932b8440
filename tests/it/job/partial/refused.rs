//! Inputs that are not partials, or do not match the others, end with exit code 2, a message that names folder and
//! file, and no result.

use super::{copied, hta, map, stderr};
use crate::shared::contents;
use std::path::Path;

/// Runs a merge that must fail; returns its message.
fn refused(folder: &Path, parts: &[&str]) -> String {
    let run = hta(folder, &[&["merge", "-o", "result"], parts].concat());
    let message = stderr(&run);
    assert_eq!(run.status.code(), Some(2), "{parts:?}: {message}");
    assert!(run.stdout.is_empty() && !folder.join("result").exists(), "{parts:?} left something");
    assert!(message.starts_with("hta: cannot ") && message.contains("\nhint: "), "{message}");
    assert!(!message.contains("panicked"), "{message}");
    message
}

#[test]
fn what_is_no_partial_is_refused() {
    let (dir, inputs) = copied("gpu_single");
    let root = dir.path();
    map(root, &["--no-events"], &inputs, "part");
    let whole = hta(root, &["analyze", "--no-events", "-o", "whole", &inputs[0]]);
    assert!(whole.status.success(), "{}", stderr(&whole));
    std::fs::create_dir(root.join("empty")).expect("a folder can be made");
    std::fs::create_dir(root.join("other")).expect("a folder can be made");
    std::fs::write(root.join("other/partial.json"), "{\"format\": \"of something else\"}")
        .expect("a file is written");
    for (path, found) in [
        ("missing", "nothing of this name"),
        (inputs[0].as_str(), "a file"),
        ("whole", "results of a run without --partial"),
        ("empty", "a folder without partial.json"),
        ("other", "another partial.json"),
    ] {
        let message = refused(root, &["part", path]);
        let expected = format!(
            "hta: cannot merge {path}: expected a partial of `hta analyze --partial`, found {found}\n"
        );
        assert!(message.starts_with(&expected), "{message}");
    }
}

#[test]
fn partials_of_another_version_are_refused() {
    let (dir, inputs) = copied("gpu_counters");
    map(dir.path(), &["--no-events"], &inputs, "part");
    let manifest = dir.path().join("part/partial.json");
    let text = std::fs::read_to_string(&manifest).expect("a file can be read");
    let now = format!("\"version\": {}", hta::partial::VERSION);
    for (version, says) in
        [(hta::partial::VERSION + 1, "newer hta"), (0, "make all partials with the hta that merges")]
    {
        let other = text.replace(&now, &format!("\"version\": {version}"));
        assert_ne!(other, text);
        std::fs::write(&manifest, other).expect("a file can be written");
        let message = refused(dir.path(), &["part"]);
        assert!(message.contains(&format!("found version {version}")) && message.contains(says), "{message}");
    }
    let other = text.replace(
        concat!("\"hta_version\": \"", env!("CARGO_PKG_VERSION")),
        "\"hta_version\": \"0.0.0-before",
    );
    assert_ne!(other, text);
    std::fs::write(&manifest, other).expect("a file can be written");
    assert!(refused(dir.path(), &["part"]).contains("found one of hta 0.0.0-before"));
}

#[test]
fn partials_with_other_options_are_refused_and_the_option_is_named() {
    let (dir, inputs) = copied("gpu_ddp8");
    std::fs::write(dir.path().join("rules.toml"), "rule = []\n").expect("a file can be written");
    map(dir.path(), &["--no-events"], &inputs[..1], "plain");
    for (option, value) in [
        ("--step-window", "device"),
        ("--top", "5"),
        ("--clock", "none"),
        ("--compat", "hta"),
        ("--steps", "@0"),
        ("--rules", "rules.toml"),
        ("--kernel-wait-max-us", "31"),
        ("--straggler-min-pct", "6"),
        ("--group", "x"),
        ("--mesh", "dp=2,tp=4"),
        ("--skip", "python_function"),
        ("--step-pattern", "x+"),
    ] {
        map(dir.path(), &["--no-events", option, value], &inputs[1..2], "other");
        for parts in [["plain", "other"], ["other", "plain"]] {
            let message = refused(dir.path(), &parts);
            let expected = format!(
                "cannot merge {} and {}: made with different options: {option} is ",
                parts[0], parts[1]
            );
            assert!(message.contains(&expected), "{message}");
        }
    }
    map(dir.path(), &[], &inputs[1..2], "other");
    assert!(refused(dir.path(), &["plain", "other"]).contains("--no-events is `yes` and not given"));
}

#[test]
fn one_rank_in_two_partials_is_refused() {
    let (dir, inputs) = copied("gpu_ddp8");
    map(dir.path(), &["--no-events"], &inputs[..3], "low");
    map(dir.path(), &["--no-events"], &inputs[2..4], "high");
    let message = refused(dir.path(), &["low", "high"]);
    assert!(
        message.contains("cannot merge low and high: both hold rank 2 (rank_2.json.gz and rank_2.json.gz)"),
        "{message}"
    );
    assert!(refused(dir.path(), &["low", "low"]).contains("both hold rank 0"));
}

/// A trace without `distributedInfo`, in a file without a rank in its name.
fn nameless(folder: &Path, name: &str) {
    let text = r#"{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": 1, "dur": 2}]}"#;
    std::fs::write(folder.join(name), text).expect("a file can be written");
}

#[test]
fn a_rank_that_only_its_position_gives_is_refused() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    nameless(dir.path(), "trace.json");
    let run = hta(dir.path(), &["analyze", "--partial", "-o", "part", "trace.json"]);
    let message = stderr(&run);
    assert_eq!((run.status.code(), dir.path().join("part").exists()), (Some(2), false), "{message}");
    assert!(
        message.starts_with("hta: cannot tell the rank of trace.json: expected it in the file"),
        "{message}"
    );
    assert!(message.contains("\nhint: name it rank_N.json.gz"), "{message}");
}

/// `job_3` is rank 3 beside `job_2`, but not beside `other`: only merging can detect that.
#[test]
fn a_name_means_what_it_means_beside_all_others() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let parts = [("low", ["job_2.json", "job_3.json"]), ("high", ["job_4.json", "job_5.json"])];
    let other = ("other", ["other_6.json", "other_7.json"]);
    for (part, names) in parts.iter().chain([&other]) {
        names.iter().for_each(|name| nameless(dir.path(), name));
        map(dir.path(), &[], &names.map(str::to_string), part);
    }
    let both = hta(dir.path(), &["merge", "high", "low", "-o", "two"]);
    assert!(both.status.success(), "{}", stderr(&both));
    let all = parts.iter().flat_map(|(_, names)| names);
    let whole = [&["analyze", "-o", "whole"][..], &all.copied().collect::<Vec<_>>()].concat();
    let whole = hta(dir.path(), &whole);
    assert!(whole.status.success(), "{}", stderr(&whole));
    assert_eq!(contents(&dir.path().join("two")), contents(&dir.path().join("whole")));
    let message = refused(dir.path(), &["low", "high", "other"]);
    let expected =
        "cannot merge low: the rank of job_2.json: expected 2 as in the partial, found 0 by its position";
    assert!(message.contains(expected), "{message}");
}

/// For a single file, a number at the end of the name may be anything: a process id, a time, the number of the job.
#[test]
fn a_number_at_the_end_of_one_name_is_no_rank() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    for name in ["X_1016001.json", "job_3.json", "7.json"] {
        nameless(dir.path(), name);
        let run = hta(dir.path(), &["analyze", "--partial", "-o", "part", name]);
        let message = stderr(&run);
        assert_eq!((run.status.code(), dir.path().join("part").exists()), (Some(2), false), "{message}");
        assert!(message.starts_with(&format!("hta: cannot tell the rank of {name}: ")), "{message}");
    }
    for (name, rank) in [("rank_3.json", 3), ("worker4.json", 4), ("x-TP-5.json", 5)] {
        nameless(dir.path(), name);
        let run = hta(dir.path(), &["analyze", "--partial", "-o", "part", name]);
        assert!(run.status.success(), "{}", stderr(&run));
        assert!(String::from_utf8_lossy(&run.stdout).contains(&format!("partial: rank {rank} in")), "{name}");
    }
}

/// Files outside a partial are never read by merging it, and pipes do not block.
#[cfg(unix)]
#[test]
fn links_and_pipes_in_a_partial_are_refused() {
    use std::os::unix::fs::symlink;
    let (dir, inputs) = copied("gpu_counters");
    let root = dir.path();
    map(root, &[], &inputs, "part");
    let events = "part/events/rank=00000.parquet";
    for name in [events, "part/tables/launches.parquet", "part/partial.json"] {
        let (path, kept) = (root.join(name), root.join("kept"));
        std::fs::rename(&path, &kept).expect("a file can be moved");
        symlink(&kept, &path).expect("a link can be made");
        assert!(!refused(root, &["part"]).contains("checksum"));
        std::fs::remove_file(&path).expect("a link can be removed");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().expect("mkfifo runs").success());
        refused(root, &["part"]);
        std::fs::remove_file(&path).expect("a pipe can be removed");
        std::fs::rename(&kept, &path).expect("a file can be moved");
    }
    for folder in ["part/state", "part/events"] {
        std::fs::rename(root.join(folder), root.join("kept")).expect("a folder can be moved");
        symlink("../kept", root.join(folder)).expect("a link can be made");
        assert!(refused(root, &["part"]).contains("found a link or a file"));
        std::fs::remove_file(root.join(folder)).expect("a link can be removed");
        std::fs::rename(root.join("kept"), root.join(folder)).expect("a folder can be moved");
    }
    assert!(hta(root, &["merge", "part", "-o", "result"]).status.success());
}

/// Merging links events into the results: events of another partial must not be overwritten through such a link.
#[test]
fn events_of_a_rank_that_is_not_in_the_partial_are_refused() {
    let (dir, inputs) = copied("gpu_ddp8");
    let root = dir.path();
    map(root, &[], &inputs[..1], "zero");
    map(root, &[], &inputs[1..2], "one");
    let before = contents(&root.join("zero"));
    // The manifest of `one` with the events of rank 0 and correct checksums.
    let manifest = root.join("one/partial.json");
    let text = std::fs::read_to_string(&manifest).expect("a file can be read");
    let mut all: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    let files = all["body"]["files"].as_array_mut().expect("a list of files");
    let events =
        files.iter_mut().find(|f| f["name"] == "events/rank=00001.parquet").expect("events of rank 1");
    events["name"] = "events/rank=00000.parquet".into();
    let mut sum = flate2::Crc::new();
    sum.update(all["body"].to_string().as_bytes());
    all["crc32"] = sum.sum().into();
    std::fs::write(&manifest, all.to_string()).expect("a file can be written");
    std::fs::rename(root.join("one/events/rank=00001.parquet"), root.join("one/events/rank=00000.parquet"))
        .expect("a file can be moved");
    let message = refused(root, &["zero", "one"]);
    assert!(message.contains("expected events of a rank of this partial"), "{message}");
    assert_eq!(contents(&root.join("zero")), before);
}

#[test]
fn a_partial_and_a_result_never_replace_one_another() {
    let (dir, inputs) = copied("gpu_counters");
    map(dir.path(), &[], &inputs, "part");
    let whole = hta(dir.path(), &["analyze", "-o", "part", &inputs[0]]);
    assert_eq!(whole.status.code(), Some(2));
    let merged = hta(dir.path(), &["merge", "part", "-o", "part"]);
    assert_eq!(merged.status.code(), Some(2));
    assert!(stderr(&merged).contains("found `"), "{}", stderr(&merged));
    // A partial is an input, and not even --force allows overwriting it.
    let before = contents(&dir.path().join("part"));
    for out in ["part", "part/new", "."] {
        let merged = hta(dir.path(), &["merge", "part", "-o", out, "--force"]);
        assert_eq!(merged.status.code(), Some(2), "{out}");
        assert!(stderr(&merged).contains("inputs"), "{}", stderr(&merged));
    }
    assert_eq!(contents(&dir.path().join("part")), before);
    let result = hta(dir.path(), &["merge", "part", "-o", "result"]);
    assert_eq!(result.status.code(), Some(0), "{}", stderr(&result));
    let part = hta(dir.path(), &["analyze", "--partial", "-o", "result", &inputs[0]]);
    assert_eq!(part.status.code(), Some(2));
    // A partial that is made again replaces the earlier one.
    map(dir.path(), &[], &inputs, "part");
}

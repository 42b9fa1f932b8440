//! What is no partial, or does not go with the others, ends with exit code 2, a line that names folder and file, and
//! no result.

use super::{copied, hta, map, stderr};
use crate::shared::contents;
use std::path::Path;

/// Merges, which must fail; the message.
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
    std::fs::write(root.join("other/partial.json"), "{\"format\": \"of something else\"}").expect("a file is written");
    for (path, found) in [
        ("missing", "nothing of this name"),
        (inputs[0].as_str(), "a file"),
        ("whole", "results of a run without --partial"),
        ("empty", "a folder without partial.json"),
        ("other", "another partial.json"),
    ] {
        let message = refused(root, &["part", path]);
        let expected =
            format!("hta: cannot merge {path}: expected a partial of `hta analyze --partial`, found {found}\n");
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
    for (version, says) in [(hta::partial::VERSION + 1, "newer hta"), (0, "make all partials with the hta that merges")]
    {
        let other = text.replace(&now, &format!("\"version\": {version}"));
        assert_ne!(other, text);
        std::fs::write(&manifest, other).expect("a file can be written");
        let message = refused(dir.path(), &["part"]);
        assert!(message.contains(&format!("found version {version}")) && message.contains(says), "{message}");
    }
    let other =
        text.replace(concat!("\"hta_version\": \"", env!("CARGO_PKG_VERSION")), "\"hta_version\": \"0.0.0-before");
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
        ("--skip", "python_function"),
        ("--step-pattern", "x+"),
    ] {
        map(dir.path(), &["--no-events", option, value], &inputs[1..2], "other");
        for parts in [["plain", "other"], ["other", "plain"]] {
            let message = refused(dir.path(), &parts);
            let expected =
                format!("cannot merge {} and {}: made with different options: {option} is ", parts[0], parts[1]);
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

/// A trace without `distributedInfo` under a name without a rank.
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
    assert!(message.starts_with("hta: cannot tell the rank of trace.json: expected it in the file"), "{message}");
    assert!(message.contains("\nhint: name it rank_N.json.gz"), "{message}");
}

/// `job_3` is rank 3 beside `job_2`, and nothing beside `other`: only merging can tell.
#[test]
fn a_name_means_what_it_means_beside_all_others() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    for name in ["job_2.json", "job_3.json", "other_5.json"] {
        nameless(dir.path(), name);
        map(dir.path(), &[], &[name.to_string()], name.trim_end_matches(".json"));
    }
    let both = hta(dir.path(), &["merge", "job_3", "job_2", "-o", "two"]);
    assert!(both.status.success(), "{}", stderr(&both));
    let whole = hta(dir.path(), &["analyze", "job_2.json", "job_3.json", "-o", "whole"]);
    assert!(whole.status.success(), "{}", stderr(&whole));
    assert_eq!(contents(&dir.path().join("two")), contents(&dir.path().join("whole")));
    let message = refused(dir.path(), &["job_2", "job_3", "other_5"]);
    let expected = "cannot merge job_2: the rank of job_2.json: expected 2 as in the partial, found 0 by its position";
    assert!(message.contains(expected), "{message}");
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
    let result = hta(dir.path(), &["merge", "part", "-o", "result"]);
    assert_eq!(result.status.code(), Some(0), "{}", stderr(&result));
    let part = hta(dir.path(), &["analyze", "--partial", "-o", "result", &inputs[0]]);
    assert_eq!(part.status.code(), Some(2));
    // one that is made again takes the place of the earlier one
    map(dir.path(), &[], &inputs, "part");
}

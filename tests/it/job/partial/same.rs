//! Merged partials and one run give the same bytes: for every sample set, every way of splitting it and every order of
//! the partials; with refused files, other options, and names that give a rank only together with others.

use super::{copied, hta, map, stderr};
use crate::shared::{Files, contents};
use std::path::Path;

/// One run over all files: its files, output and exit code.
fn whole(folder: &Path, options: &[&str], inputs: &[String]) -> (Files, Vec<u8>, Option<i32>) {
    let mut arguments = vec!["analyze", "-o", "result"];
    arguments.extend_from_slice(options);
    arguments.extend(inputs.iter().map(String::as_str));
    let run = hta(folder, &arguments);
    assert!(run.status.code().is_some_and(|c| c < 2), "{}", stderr(&run));
    let left = contents(&folder.join("result"));
    std::fs::remove_dir_all(folder.join("result")).expect("a result can be removed");
    (left, run.stdout, run.status.code())
}

/// Maps each of `groups` separately and merges them in the order `order`.
fn apart(
    folder: &Path,
    options: &[&str],
    groups: &[&[String]],
    order: &[usize],
) -> (Files, Vec<u8>, Option<i32>) {
    let parts: Vec<String> = (0..groups.len()).map(|i| format!("part{i}")).collect();
    for (part, group) in parts.iter().zip(groups) {
        map(folder, options, group, part);
    }
    let mut arguments = vec!["merge", "-o", "result"];
    arguments.extend(order.iter().map(|&i| parts[i].as_str()));
    let run = hta(folder, &arguments);
    assert!(run.status.code().is_some_and(|c| c < 2), "{groups:?}: {}", stderr(&run));
    let left = contents(&folder.join("result"));
    for made in parts.iter().map(String::as_str).chain(["result"]) {
        std::fs::remove_dir_all(folder.join(made)).expect("a folder can be removed");
    }
    (left, run.stdout, run.status.code())
}

fn assert_same(what: &str, one: &(Files, Vec<u8>, Option<i32>), other: &(Files, Vec<u8>, Option<i32>)) {
    assert!(one.0.keys().eq(other.0.keys()), "{what}: {:?} and {:?}", one.0.keys(), other.0.keys());
    let differing: Vec<&String> = one.0.keys().filter(|k| one.0[*k] != other.0[*k]).collect();
    assert!(differing.is_empty(), "{what}: {differing:?} differ");
    assert!(one.0.contains_key("report.txt") && one.0.contains_key("tables/ranks.parquet"), "{what}");
    assert_eq!(String::from_utf8_lossy(&one.1), String::from_utf8_lossy(&other.1), "{what}");
    assert_eq!(one.2, other.2, "{what}");
}

/// Ways of splitting a set: all in one, one and the rest, halves, one each; each in some orders.
fn splits_of(inputs: &[String]) -> Vec<(Vec<&[String]>, Vec<usize>)> {
    let n = inputs.len();
    let mut all: Vec<(Vec<&[String]>, Vec<usize>)> = vec![(vec![inputs], vec![0])];
    if n > 1 {
        all.push((vec![&inputs[..1], &inputs[1..]], vec![1, 0]));
        all.push((inputs.chunks(1).collect(), (0..n).rev().collect()));
    }
    if n > 2 {
        all.push((inputs.chunks(n.div_ceil(2)).collect(), vec![0, 1]));
        all.push((inputs.chunks(1).collect(), (0..n).map(|i| (i * 3 + 1) % n).collect()));
    }
    all
}

fn same_for_every_split(set: &str, options: &[&str]) {
    let (dir, inputs) = copied(set);
    let one = whole(dir.path(), options, &inputs);
    assert!(options.contains(&"--no-events") || one.0.keys().any(|k| k.starts_with("events/")));
    for (groups, order) in splits_of(&inputs) {
        // Only permutations of all parts are valid orders.
        let mut sorted = order.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), groups.len(), "{order:?} is no order");
        let sizes: Vec<usize> = groups.iter().map(|g| g.len()).collect();
        let what = format!("{set} {options:?} in {sizes:?}, order {order:?}");
        assert_same(&what, &one, &apart(dir.path(), options, &groups, &order));
    }
}

#[test]
fn eight_ranks_on_gpus_merged_leave_the_bytes_of_one_run() {
    same_for_every_split("gpu_ddp8", &[]);
}

#[test]
fn four_ranks_on_cpus_merged_leave_the_bytes_of_one_run() {
    same_for_every_split("gloo_ddp4", &[]);
}

#[test]
fn single_ranks_merged_leave_the_bytes_of_one_run() {
    for set in ["gpu_single", "gpu_counters", "cpu_single"] {
        same_for_every_split(set, &[]);
    }
}

/// Alone a file of Python frames is analysed, and beside ranks it is left out as the front end of an engine.
#[test]
fn python_frames_alone_are_the_same_however_split() {
    let (dir, mut inputs) = copied("gpu_single");
    let frame = r#"{"ph":"X","cat":"python_function","name":"a.py(1): f","pid":1,"tid":1,"ts":0,"dur":5,"args":{"Python id":1}}"#;
    let text = format!(r#"{{"schemaVersion":1,"traceEvents":[{frame}]}}"#);
    std::fs::write(dir.path().join("min2.json"), text).expect("a file can be written");
    let frames = ["min2.json".to_string()];
    let alone = whole(dir.path(), &[], &frames);
    assert_same("alone", &alone, &apart(dir.path(), &[], &[&frames], &[0]));
    inputs.extend(frames);
    let beside = whole(dir.path(), &[], &inputs);
    let (frames, ranks) = (&inputs[inputs.len() - 1..], &inputs[..inputs.len() - 1]);
    assert_same("beside", &beside, &apart(dir.path(), &[], &[frames, ranks], &[0, 1]));
}

#[test]
fn options_are_taken_from_the_partials() {
    let rules = "[[rule]]\nreason = \"mine\"\nclass = \"communication\"\nname = \"gemm\"\n";
    let (dir, inputs) = copied("gpu_ddp8");
    std::fs::write(dir.path().join("rules.toml"), rules).expect("a file can be written");
    let some: [&[&str]; 6] = [
        &["--compat", "hta", "--no-events"],
        &["--compat", "tracelens", "--no-events"],
        &["--steps", "@1..@2", "--step-window", "device", "--top", "3", "--no-events"],
        &["--rules", "rules.toml", "--clock", "none", "--straggler-min-pct", "0.3", "--mesh", "dp=4,tp=2"],
        &["--keep-args", "--skip", "python_function", "--linked-only", "--clock", "collectives"],
        &["--ranks", "1,3-6", "--kernel-wait-max-us", "7", "--group", "0", "--no-events"],
    ];
    for options in some {
        let one = whole(dir.path(), options, &inputs);
        let groups: Vec<&[String]> = vec![&inputs[..3], &inputs[3..]];
        assert_same(&format!("{options:?}"), &one, &apart(dir.path(), options, &groups, &[1, 0]));
    }
}

/// A file that is unreadable from the start, one unreadable later, one in a folder that is not a trace, and a truncated
/// one: the report and the exit code are those of one run.
#[test]
fn refused_and_damaged_files_are_told_as_in_one_run() {
    let (dir, _) = copied("gpu_ddp8");
    let at = |name: &str| dir.path().join(name);
    for (i, folder) in ["a", "a", "a", "b", "b", "b", "c", "c"].iter().enumerate() {
        std::fs::create_dir_all(at(folder)).expect("a folder can be made");
        std::fs::rename(at(&format!("rank_{i}.json.gz")), at(&format!("{folder}/rank_{i}.json.gz")))
            .expect("a file moves");
    }
    let write = |name: &str, bytes: &[u8]| std::fs::write(at(name), bytes).expect("a file can be written");
    let cut = |name: &str, to: usize| {
        let bytes = std::fs::read(at(name)).expect("a file can be read");
        write(name, &bytes[..to]);
    };
    cut("a/rank_1.json.gz", 20_000);
    cut("b/rank_4.json.gz", 30);
    write("a/notes.json", b"{\"no\": \"trace\"}");
    write("b/empty.json", b"");
    write("b/rank_9.json", b"{\"traceEvents\": []}");
    write("named.json", b"not even JSON");
    let text = |list: &[&str]| list.iter().map(|t| t.to_string()).collect::<Vec<_>>();
    let one = whole(dir.path(), &[], &text(&["a", "b", "c", "named.json"]));
    assert_eq!(one.2, Some(1));
    let report = String::from_utf8_lossy(&one.0["report.txt"]).into_owned();
    for told in ["notes.json", "rank_4.json.gz", "named.json", "file_truncated"] {
        assert!(report.contains(told), "{told}: {report}");
    }
    let (a, b, c) = (text(&["a"]), text(&["b"]), text(&["c"]));
    let named = text(&["named.json"]);
    for order in [[0, 1, 2, 3], [3, 1, 0, 2]] {
        // The last of them contains no rank, only the reason.
        assert_same("refused files", &one, &apart(dir.path(), &[], &[&a, &b, &c, &named], &order));
    }
}

#[test]
fn a_loss_ends_a_strict_run_and_a_strict_merge_alike() {
    let (dir, inputs) = copied("gpu_ddp8");
    let bytes = std::fs::read(dir.path().join("rank_2.json.gz")).expect("a file can be read");
    std::fs::write(dir.path().join("rank_2.json.gz"), &bytes[..20_000]).expect("a file can be written");
    assert_eq!(map(dir.path(), &[], &inputs[..2], "p0"), Some(0));
    assert_eq!(map(dir.path(), &[], &inputs[2..4], "p1"), Some(1));
    let strict = hta(dir.path(), &["merge", "--strict", "p0", "p1", "-o", "result"]);
    assert_eq!(strict.status.code(), Some(2), "{}", stderr(&strict));
    assert!(!dir.path().join("result").exists());
    let part = hta(dir.path(), &["analyze", "--partial", "--strict", "rank_2.json.gz", "-o", "p2"]);
    assert_eq!((part.status.code(), dir.path().join("p2").exists()), (Some(2), false), "{}", stderr(&part));
    let plain = hta(dir.path(), &["merge", "p0", "p1", "-o", "result"]);
    assert_eq!(plain.status.code(), Some(1), "{}", stderr(&plain));
    let left: Vec<_> = std::fs::read_dir(dir.path()).expect("a folder can be listed").flatten().collect();
    assert!(left.iter().all(|e| !e.file_name().to_string_lossy().contains(".hta-")), "{left:?}");
}

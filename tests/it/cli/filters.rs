//! Filters of the command line: one that is applied changes the answer, one that selects nothing is an error that lists
//! the alternatives, and one that an answer cannot apply is refused.

use hta::registry::ANALYSES;
use std::path::Path;
use std::process::{Command, Output};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const SET: &str = "data/samples/gpu_ddp8";
const ONE: &str = "data/samples/gpu_ddp8/rank_0.json.gz";
const CPU: &str = "data/samples/gloo_ddp4";

fn hta(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hta")).args(args).current_dir(ROOT).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a command that must end with exit code 2, print nothing, and name the alternatives.
fn refused(args: &[&str], words: &str) {
    let run = hta(args);
    let errors = text(&run.stderr);
    assert_eq!((run.status.code(), text(&run.stdout)), (Some(2), String::new()), "{args:?}: {errors}");
    assert!(errors.contains(words), "{args:?}: expected `{words}` in {errors}");
}

const STEPS: &str =
    "cannot use `100` for --steps: expected a step of the traces, found none like it; there are 10-14";
const GROUPS: &str =
    "expected a process group of the traces, found none like it; there are 0 (default_pg) [0-7]";
const OF_ALL: &str = "leave --steps out";

#[test]
fn an_analysis_refuses_filters_that_select_nothing_on_one_rank_and_on_several() {
    for analysis in ANALYSES.iter().map(|a| a.stem()) {
        for (traces, ranks) in [(SET, "the set holds ranks 0-7"), (ONE, "the set holds rank 0")] {
            let of_all = ["patterns", "graph-ops", "collectives", "experts", "fabric", "mesh", "what-if"];
            let narrows = !of_all.contains(&analysis);
            refused(&[analysis, traces, "--steps", "100"], if narrows { STEPS } else { OF_ALL });
            let with_groups =
                ["diagnosis", "efficiency", "stragglers", "experts", "fabric", "sync", "collectives"];
            let knows_groups = with_groups.contains(&analysis);
            refused(
                &[analysis, traces, "--group", "7"],
                if knows_groups { GROUPS } else { "leave --group out" },
            );
            refused(&[analysis, traces, "--ranks", "99"], ranks);
            refused(&[analysis, traces, "--ranks", "pp=1"], "add --mesh");
            refused(&[analysis, traces, "--step-pattern", "nope"], "expected an annotation of the traces");
        }
    }
}

#[test]
fn filters_of_one_analysis_that_select_nothing_are_errors() {
    for traces in [SET, ONE] {
        refused(
            &["critical-path", traces, "--annotation", "nope"],
            "there are nccl:all_reduce, Optimizer.step#AdamW.step",
        );
        refused(&["critical-path", traces, "--annotation", "ProfilerStep#10:1"], "expected an annotation");
        refused(
            &["annotations", traces, "--match", "nope"],
            "there are nccl:all_reduce, Optimizer.step#AdamW.step",
        );
        refused(
            &["patterns", traces, "--op", "nope"],
            "expected an operator of the traces, found none like it; there are aten::mm",
        );
        // The name must match exactly; a part of it does not suffice.
        refused(&["patterns", traces, "--op", "aten::m"], "expected an operator");
        refused(&["patterns", traces, "--op-glob", "nope*"], "expected an operator");
        refused(&["patterns", traces, "--compat", "hta", "--op", "nope"], "expected an operator");
    }
}

#[test]
fn filters_that_contradict_each_other_or_the_definitions_are_refused() {
    refused(
        &["critical-path", ONE, "--annotation", "ProfilerStep#10", "--steps", "11"],
        "--annotation chooses the window",
    );
    refused(&["critical-path", ONE, "--capture", "--steps", "11"], "--capture chooses the window");
    refused(
        &["critical-path", ONE, "--capture", "--annotation", "ProfilerStep#10"],
        "--capture chooses the window",
    );
    refused(
        &["patterns", ONE, "--op", "aten::mm", "--op-glob", "aten::*"],
        "--op-glob chooses the operators",
    );
    refused(
        &["annotations", ONE, "--match", "nccl", "--compat", "hta"],
        "definitions of hta are for all annotations",
    );
    refused(&["breakdown", ONE, "--steps", "11", "--compat", "hta"], "definitions of hta are for all steps");
    refused(&["sync", SET, "--group", "0", "--group", "7"], "cannot use `7` for --group");
}

#[test]
fn analyze_diff_and_query_refuse_filters_that_select_nothing_and_leave_no_results() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let out = out.to_str().unwrap();
    for traces in [SET, ONE] {
        refused(&["analyze", traces, "-o", out, "--steps", "100"], STEPS);
        refused(&["analyze", traces, "-o", out, "--group", "7"], GROUPS);
        refused(&["analyze", traces, "-o", out, "--ranks", "99"], "the set holds rank");
        refused(&["analyze", traces, "-o", out, "--only", "patterns", "--steps", "11"], OF_ALL);
        refused(&["diff", traces, traces, "--steps", "100"], "there are 10-14");
        refused(&["diff", traces, traces, "--steps", "100", "--compat", "hta"], "there are 10-14");
        refused(&["query", "SELECT * FROM idle", traces, "--steps", "100"], STEPS);
        refused(&["query", "SELECT * FROM kernels", traces, "--steps", "11"], OF_ALL);
        refused(&["query", "SELECT * FROM collectives", traces, "--group", "7"], GROUPS);
        refused(&["query", "SELECT * FROM idle", traces, "--group", "0"], "leave --group out");
        refused(&["query", "SELECT * FROM idle", traces, "--ranks", "99"], "the set holds rank");
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn overlay_refuses_filters_that_select_nothing_or_narrow_nothing_that_is_drawn() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out.json");
    let out = out.to_str().unwrap();
    for traces in [SET, ONE] {
        refused(&["overlay", traces, "-o", out, "--critical-path", "--steps", "100"], STEPS);
        refused(
            &["overlay", traces, "-o", out, "--critical-path", "--annotation", "nope"],
            "there are nccl:all_reduce",
        );
        refused(&["overlay", traces, "-o", out, "--draw", "77"], "the chosen ones are rank");
        refused(&["overlay", traces, "-o", out, "--no-compare", "--steps", "11"], "neither is drawn");
        refused(&["overlay", traces, "-o", out, "--no-compare", "--group", "0"], "no ranks are compared");
    }
    refused(&["overlay", SET, "-o", out, "--steps", "100"], STEPS);
    refused(&["overlay", SET, "-o", out, "--group", "7"], GROUPS);
    refused(&["overlay", ONE, "-o", out, "--steps", "11"], "neither is drawn");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn parts_of_a_job_are_judged_when_they_are_merged() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_string();
    for (filter, value, words) in [("--steps", "100", STEPS), ("--group", "7", GROUPS)] {
        for rank in ["0", "1"] {
            let trace = format!("{SET}/rank_{rank}.json.gz");
            let run = hta(&["analyze", "--partial", "--force", &trace, "-o", &at(rank), filter, value]);
            assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
        }
        let words = if filter == "--group" { "expected a process group" } else { words };
        refused(&["merge", &at("0"), &at("1"), "-o", &at("merged")], words);
        assert!(!Path::new(&at("merged")).exists());
    }
}

#[test]
fn a_filter_that_selects_something_on_some_ranks_only_is_no_error() {
    let dir = tempfile::tempdir().unwrap();
    let copy = |rank: u32, from: &str, to: &str| {
        use std::io::{Read, Write};
        let source = Path::new(ROOT).join(format!("{SET}/rank_{rank}.json.gz"));
        let mut json = String::new();
        flate2::read::MultiGzDecoder::new(std::fs::File::open(source).unwrap())
            .read_to_string(&mut json)
            .unwrap();
        let mut file = std::fs::File::create(dir.path().join(format!("rank_{rank}.json"))).unwrap();
        file.write_all(json.replace(from, to).as_bytes()).unwrap();
    };
    copy(0, "", "");
    copy(1, "ProfilerStep#14", "ProfilerStep#99");
    let set = dir.path().to_str().unwrap();
    for args in [
        vec!["breakdown", set, "--steps", "99"],
        vec!["critical-path", set, "--annotation", "ProfilerStep#99"],
        vec!["annotations", set, "--match", "#99"],
        vec!["diff", set, set, "--compat", "hta", "--steps", "99"],
    ] {
        let run = hta(&args);
        assert_eq!(run.status.code(), Some(0), "{args:?}: {}", text(&run.stderr));
        assert!(!run.stdout.is_empty());
    }
}

#[test]
fn what_is_printed_is_of_the_steps_asked_for() {
    for analysis in [
        "breakdown",
        "steps",
        "sync",
        "overlap",
        "critical-path",
        "idle",
        "launches",
        "queue",
        "copies",
        "kernels",
        "ops",
        "annotations",
        "counters",
    ] {
        let (all, one) = (hta(&[analysis, SET]), hta(&[analysis, SET, "--steps", "10"]));
        assert_eq!(one.status.code(), Some(0), "{analysis}: {}", text(&one.stderr));
        assert!(text(&all.stdout) != text(&one.stdout), "{analysis} prints the same for one step");
    }
    // 240 calls in five steps of eight ranks.
    let csv = |args: &[&str]| text(&hta(args).stdout);
    let printed = csv(&["kernels", SET, "--steps", "11"]);
    assert!(
        printed.lines().any(|l| l.contains("nccl") && l.split_whitespace().any(|w| w == "24")),
        "{printed}"
    );
}

#[test]
fn the_step_that_hta_compares_is_the_one_asked_for() {
    let counts = |args: &[&str]| -> i64 {
        let all = [&["diff", CPU_STEPS, CPU_STEPS, "--compat", "hta", "--format", "csv"], args].concat();
        let run = hta(&all);
        assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
        let csv = text(&run.stdout);
        csv.lines().skip(1).filter(|l| l.starts_with("ALL,")).map(duration).sum()
    };
    let lowest = counts(&[]);
    assert_eq!(counts(&["--steps", "10"]), lowest);
    let others: Vec<i64> = ["11", "12"].iter().map(|s| counts(&["--steps", s])).collect();
    assert!(others.iter().all(|o| *o > 0));
    assert_eq!(counts(&["--steps", "10-12"]), lowest + others.iter().sum::<i64>());
    assert_eq!(counts(&["--steps", "@1-@2"]), others.iter().sum::<i64>());
}

const CPU_STEPS: &str = ONE;

/// `Control_total_duration` of a row, whatever commas its name has.
fn duration(line: &str) -> i64 {
    let cells: Vec<&str> = line.rsplit(',').collect();
    cells[5].parse().unwrap()
}

/// One stage of one rank in three steps that take 10, 20 and 40 us.
fn timeline() -> String {
    let mut events = vec![
        r#"{"ph":"M","name":"thread_name","pid":0,"tid":0,"args":{"name":"PP rank 0, TP rank 0, compute"}}"#
            .to_string(),
    ];
    for (step, (ts, scale)) in [(0, 1), (1000, 2), (2000, 4)].into_iter().enumerate() {
        for (name, at, dur) in [("forward-compute", 0, 4), ("backward-compute", 4, 5), ("optimizer", 9, 1)] {
            events.push(format!(
                r#"{{"ph":"X","cat":"op","name":"{name}","pid":0,"tid":0,"ts":{},"dur":{},"args":{{"step":{}}}}}"#,
                ts + at * scale,
                dur * scale,
                step + 5
            ));
        }
    }
    format!(r#"{{"traceEvents":[{}]}}"#, events.join(","))
}

#[test]
fn the_published_what_if_replays_only_the_steps_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rank_0.json");
    std::fs::write(&path, timeline()).unwrap();
    let path = path.to_str().unwrap();
    let steps = |filter: &[&str]| -> Vec<String> {
        let run = hta(&[&["what-if", path, "--method", "published", "--format", "csv"], filter].concat());
        assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
        let rows = text(&run.stdout);
        rows.lines()
            .filter_map(|l| l.strip_prefix("step,"))
            .map(|l| l.split(',').next().unwrap().to_string())
            .collect()
    };
    assert_eq!(steps(&[]), ["5", "6", "7"]);
    assert_eq!(steps(&["--steps", "6"]), ["6"]);
    assert_eq!(steps(&["--steps", "@0,7"]), ["5", "7"]);
    refused(
        &["what-if", path, "--method", "published", "--steps", "100"],
        "expected a step of the traces, found none like it; there are 5-7",
    );
}

#[test]
fn the_capture_is_the_step_0_of_a_rank_without_steps() {
    let one = "data/samples/gpu_counters/rank_0.json.gz";
    let run = hta(&["critical-path", one, "--steps", "@0"]);
    assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
    refused(&["critical-path", one, "--steps", "@1"], "there are @0");
}

#[test]
fn a_cpu_job_has_groups_and_steps_to_choose_from() {
    refused(&["breakdown", CPU, "--steps", "100"], "there are 2-4");
    refused(&["sync", CPU, "--group", "nope"], "expected a process group");
}

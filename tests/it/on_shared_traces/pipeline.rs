//! Pipelines against their known answers: planted ones by their truth, and recordings of torch by what an
//! independent script found.

use crate::run::{Answer, Record, answer, options};
use crate::shared;
use serde_json::Value;

/// The answer to a set, and its truth.
fn set(name: &str) -> Option<(Answer, Value)> {
    let root = shared::folder()?.traces().join("parallelism");
    let truth = root.join(format!("{name}.truth.json"));
    truth.exists().then(|| (answer(&[root.join(name)], &options()), shared::json(&truth)))
}

fn steps(answer: &Answer) -> Vec<Record> {
    answer.rows_where("pipelines", |_| true)
}

/// Compares a part with the truth in microseconds or milliseconds.
fn near(found: Option<i64>, truth: &Value, unit: f64, within: f64, what: &str) {
    let (found, truth) = (found.unwrap_or(0) as f64, truth.as_f64().unwrap_or(0.0) * unit);
    assert!((found - truth).abs() <= within, "{what}: {found}, expected {truth}");
}

#[test]
fn planted_pipelines_have_the_known_parts() {
    for (name, m) in [("pp4_1f1b_plain", 8), ("pp4_1f1b_fat2", 8)] {
        let Some((answer, truth)) = set(name) else { return };
        let steps = steps(&answer);
        let known = truth["steps_pipelines"].as_array().expect("steps");
        assert_eq!(steps.len(), known.len(), "{name}");
        for (step, known) in steps.iter().zip(known) {
            let known = &known[0];
            let shape = ["rank_count", "stages_per_rank", "micro_batches", "violation_count"];
            assert_eq!((step.text("schedule_name"), shape.map(|c| step.int(c))), ("1F1B", [4, 1, m, 0]));
            let parts = [
                ("t_ns", "T"),
                ("busy_mean_ns", "busy_mean"),
                ("schedule_ns", "schedule"),
                ("imbalance_ns", "imbalance"),
                ("jitter_ns", "jitter"),
                ("transfer_ns", "transfer"),
                ("lag_ns", "lag"),
            ];
            for (column, key) in parts {
                near(step.opt_int(column), &known[key], 1e3, 1e3, &format!("{name} {key}"));
            }
            for (position, row) in known["rows"].as_array().expect("rows").iter().enumerate() {
                let of = |r: &Record| {
                    r.int("position") == position as i64 && r.cell("step_label") == step.cell("step_label")
                };
                let rank = crate::run::one(answer.rows_where("pipeline_ranks", of));
                for part in ["busy", "fill", "steady", "drain"] {
                    near(
                        Some(rank.int(&format!("{part}_ns"))),
                        &row[part],
                        1e3,
                        1e3,
                        &format!("{name} {part}"),
                    );
                }
            }
        }
    }
}

#[test]
fn what_a_change_gives_is_the_known_answer() {
    let Some((answer, _)) = set("pp4_1f1b_fat2") else { return };
    let replay = |change: &str| {
        answer.rows_where("pipeline_what_if", |r| r.text("change") == change)[0].int("replay_ns")
    };
    assert_eq!(replay("equal stages"), 35_475_000);
    assert_eq!(replay("move work of the longest stage"), 37_500_000);
    assert_eq!(replay("stages per rank"), 34_400_000);
}

#[test]
fn a_missing_rank_leaves_positions_alone() {
    let Some((answer, _)) = set("pp8_missing_rank") else { return };
    for step in steps(&answer) {
        assert_eq!((step.text("missing_ranks"), step.opt_int("imbalance_ns")), ("3", None));
        assert_eq!((step.int("t_ns"), step.int("rank_count")), (28_225_000, 8));
    }
    let findings = answer.rows_where("findings", |r| r.text("kind") == "straggler");
    assert!(findings.is_empty(), "{findings:?}");
}

/// Stage 2 sleeps for longer, but on a loaded machine stage 3 took longest in one of two steps.
#[test]
fn a_stage_that_is_the_longest_in_some_steps_is_not_named() {
    let sentence = |name: &str| {
        let (answer, _) = set(name)?;
        let of_bubble = answer.rows_where("findings", |r| r.text("kind") == "pipeline_bubble");
        Some(crate::run::one(of_bubble).text("sentence").to_string())
    };
    let (Some(unsteady), Some(steady)) = (sentence("gloo_1f1b_p4_m8_slow2"), sentence("gloo_1f1b_p3_m7"))
    else {
        return;
    };
    assert!(unsteady.contains("imbalance 13.8") && !unsteady.contains("too heavy"), "{unsteady}");
    assert!(steady.contains("stage 2 too heavy"), "{steady}");
}

/// The schedule, size and parts of recordings of torch; what messages take on the host is part of the lag.
#[test]
fn recorded_pipelines_have_the_known_parts() {
    let sets = [
        ("gloo_1f1b_p4_m8", "1F1B", [4, 1, 8]),
        ("gloo_1f1b_p4_m8_slow2", "1F1B", [4, 1, 8]),
        ("gloo_1f1b_p3_m7", "1F1B", [3, 1, 7]),
        ("gloo_interleaved_p4_v2_m8", "interleaved 1F1B", [4, 2, 8]),
        ("gloo_interleaved_zb_p4_v2_m8", "interleaved zero bubble", [4, 2, 8]),
        ("gloo_zbv_p4_m8", "ZBV", [4, 2, 8]),
    ];
    for (name, schedule, shape) in sets {
        let Some((answer, truth)) = set(name) else { return };
        let steps = steps(&answer);
        let known = truth["parts_by_reference_script"].as_array().expect("steps");
        assert_eq!(steps.len(), known.len(), "{name}");
        for (step, known) in steps.iter().zip(known) {
            let found = ["rank_count", "stages_per_rank", "micro_batches"].map(|c| step.int(c));
            assert_eq!((step.text("schedule_name"), found), (schedule, shape), "{name}");
            assert_eq!((step.int("violation_count"), step.opt_int("transfer_ns")), (0, None), "{name}");
            // A thousandth of the time; 0.2 ms more on each stage where the script leaves out an operator behind the
            // first chunk, which belongs to it.
            let left_out = if name == "gloo_1f1b_p4_m8_slow2" { 2e5 } else { 0.0 };
            let within = step.int("t_ns") as f64 / 1e3 + left_out;
            let parts = [
                ("t_ns", "T"),
                ("busy_mean_ns", "busy_mean"),
                ("schedule_ns", "schedule"),
                ("imbalance_ns", "imbalance"),
                ("jitter_ns", "jitter"),
                ("lag_ns", "lag"),
            ];
            for (column, key) in parts {
                near(step.opt_int(column), &known[key], 1e6, within, &format!("{name} {key}"));
            }
        }
    }
}

/// An iteration of a dump of Primus (chunk times of each rank, ms) as traces: an annotation and a kernel a chunk, and
/// messages that take no time.
fn primus(folder: &std::path::Path, dumps: &[Value], iteration: &str) {
    let us = |ms: f64| ms * 1e3;
    for (rank, dump) in dumps.iter().enumerate() {
        let times = |key: &str| -> Vec<f64> {
            dump[iteration][key].as_array().expect("times").iter().filter_map(Value::as_f64).collect()
        };
        let mut events = vec![serde_json::json!({
            "ph": "X", "cat": "user_annotation", "name": "ProfilerStep#15", "pid": 1, "tid": 1, "ts": 0, "dur": us(4e3),
        })];
        let mut message = |kind: &str, other: usize, at: f64| {
            let (src, dst) = if kind == "send" { (rank, other) } else { (other, rank) };
            events.push(serde_json::json!({
                "ph": "X", "cat": "kernel", "name": "ncclDevKernel_SendRecv", "pid": 0, "tid": 20, "ts": us(at), "dur": 0.001,
                "args": {
                    "device": 0, "stream": 20, "Collective name": kind, "Src Rank": src, "Dst Rank": dst,
                    "Group size": 8, "Process Group Name": "pp", "Process Group Ranks": "[0, 1, 2, 3, 4, 5, 6, 7]",
                    "In msg nelems": 8, "Out msg nelems": 8, "dtype": "BFloat16",
                },
            }));
        };
        let last = dumps.len() - 1;
        let mut chunks = Vec::new();
        for (kind, next, before) in
            [("fwd", rank + 1, rank.wrapping_sub(1)), ("bwd", rank.wrapping_sub(1), rank + 1)]
        {
            let (starts, ends) = (times(&format!("{kind}_start")), times(&format!("{kind}_end")));
            for (batch, (start, end)) in starts.into_iter().zip(ends).enumerate() {
                chunks.push((if kind == "fwd" { "F" } else { "B" }, batch, start, end));
                if next <= last {
                    message("send", next, end);
                }
                if before <= last {
                    let given = &dumps[before][iteration][format!("{kind}_end")][batch];
                    message("recv", before, given.as_f64().expect("a time"));
                }
            }
        }
        for (i, (kind, batch, start, end)) in chunks.into_iter().enumerate() {
            let name = format!("PP:{rank}{kind}{batch}");
            events.extend([
                serde_json::json!({
                    "ph": "X", "cat": "user_annotation", "name": name, "pid": 1, "tid": 1, "ts": us(start), "dur": 2,
                }),
                serde_json::json!({
                    "ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1,
                    "ts": us(start) + 0.5, "dur": 0.5, "args": { "correlation": i + 1 },
                }),
                serde_json::json!({
                    "ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": us(start), "dur": us(end - start),
                    "args": { "device": 0, "stream": 7, "correlation": i + 1 },
                }),
            ]);
        }
        let trace = serde_json::json!({
            "schemaVersion": 1, "baseTimeNanoseconds": 1_700_000_000_000_000_000_i64,
            "distributedInfo": { "backend": "nccl", "rank": rank, "world_size": dumps.len() },
            "traceEvents": events,
        });
        std::fs::write(folder.join(format!("rank_{rank}.json")), trace.to_string())
            .expect("a file can be written");
    }
}

#[test]
fn the_measured_pipeline_of_primus_has_the_known_parts() {
    let Some(root) = shared::folder() else { return };
    let dump = |rank: usize| root.traces().join(format!("pipeline/primus_pp8_rank_{rank}.json"));
    if !dump(0).exists() {
        return;
    }
    let dumps: Vec<Value> = (0..8).map(|rank| shared::json(&dump(rank))).collect();
    let folder = tempfile::tempdir().expect("a temporary folder");
    primus(folder.path(), &dumps, "15");
    let answer = answer(&[folder.path().to_path_buf()], &options());
    let step = crate::run::one(steps(&answer));
    let shape = ["rank_count", "stages_per_rank", "micro_batches"].map(|c| step.int(c));
    assert_eq!((step.text("schedule_name"), shape), ("1F1B", [8, 1, 16]));
    let known = [
        ("t_ns", 3252.963),
        ("busy_mean_ns", 2137.858),
        ("schedule_ns", 935.313),
        ("imbalance_ns", 127.959),
        ("jitter_ns", 18.891),
        ("bubble_ns", 1115.105),
    ];
    for (column, ms) in known {
        let found = step.int(column) as f64 / 1e6;
        assert!((found - ms).abs() < 0.01, "{column}: {found}, expected {ms}");
    }
    let rest = step.opt_int("transfer_ns").unwrap_or(0) + step.int("lag_ns");
    assert!((rest as f64 / 1e6 - 32.941).abs() < 0.01, "{rest}");
}

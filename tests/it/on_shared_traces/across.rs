//! Comparison of ranks against external numbers: `reference/megatron_tp8.json`, the TensorBoard plugin's goldens, the
//! published what-if analysis, the sleep planted in our own recording, and the planted facts of the samples.

use crate::job::determinism::gzip;
use crate::run::{Answer, Record, answer, answer_by, options};
use crate::shared::json;
use crate::shared::{self, Shared};
use hta::analysis::api::Options;
use hta::compat::Compat;
use hta::job::ClockMode;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;

fn with_clock(clock: ClockMode) -> Options {
    let mut o = options();
    o.across.clock = clock;
    o
}

fn megatron(shared: &Shared) -> PathBuf {
    shared.trace("multirank_nccl_megatron_tp8")
}

/// Per rank: times last, and waiting, ns.
fn lasts_and_waits(answer: &Answer) -> (BTreeMap<String, i64>, BTreeMap<String, i64>) {
    let rows = answer.rows("collective_ranks");
    let by = |column: &str| rows.iter().map(|r| (r.int("rank").to_string(), r.int(column))).collect();
    (by("last_count"), by("wait_sum_ns"))
}

fn named(answer: &Answer) -> Vec<(String, String, String)> {
    let cell = |r: &Record, c: &str| r.text(c).to_string();
    let row = |r: &Record| (cell(r, "pattern"), cell(r, "ranks"), cell(r, "steps"));
    answer.rows("stragglers").iter().map(row).collect()
}

/// The ranks for which an answer says that it cannot tell whether they are slower.
fn untold(answer: &Answer) -> Vec<String> {
    let notes = answer.notes("stragglers");
    let rank = |n: &String| {
        Some(n.strip_prefix("cannot tell whether this lasts: ")?.split(" late").next()?.to_string())
    };
    notes.iter().filter_map(rank).collect()
}

#[test]
fn the_planted_sleep_is_found_with_file_and_line_and_nobody_else_is_named() {
    let answer = answer(&[shared::samples().join("gloo_ddp4")], &options());
    assert_eq!(named(&answer), [("persistent".to_string(), "2".to_string(), "2, 3, 4".to_string())]);
    let found = answer.rows("stragglers").remove(0);
    assert_eq!((found.text("cause"), found.text("cause_name")), ("python", "<built-in function sleep>"));
    assert_eq!(found.text("cause_detail"), "gen_ddp.py(42): forward");
    // The first all-reduce of each step: excess as in the specification.
    let mut expected = BTreeMap::from([(2, 56.0), (3, 63.4), (4, 61.2)]);
    let causes = answer.rows_where("straggler_causes", |r| r.int("rank") == 2);
    for (step, want) in &mut expected {
        let of_step = || causes.iter().filter(|r| r.int("step_label") == *step);
        let sleep = of_step().find(|r| r.text("name") == "<built-in function sleep>").expect("it slept");
        let event = sleep.int("event_id");
        let excess: i64 = of_step().filter(|r| r.int("event_id") == event).map(|r| r.int("delta_ns")).sum();
        assert!((excess as f64 / 1e6 - *want).abs() < 0.1, "step {step}: {excess} ns, expected {want} ms");
        assert!((50_000_000..70_000_000).contains(&sleep.int("delta_ns")), "{sleep:?}");
    }
    let ranks = answer.rows("ranks");
    assert!(ranks.iter().all(|r| r.text("clock_state") == "reported" && r.int("clock_offset_ns") == 0));
    let groups = answer.rows("process_groups");
    assert_eq!((groups.len(), groups[0].float("matched_pct")), (1, Some(100.0)));
}

/// A value in the plugin's whole microseconds.
fn us(r: &Record, column: &str) -> i64 {
    assert_eq!(r.int(column) % 1000, 0);
    r.int(column) / 1000
}

#[test]
fn collectives_of_the_sample_are_as_they_were_planted() {
    let known = json(&shared::samples().join("KNOWN_ANSWERS.json"));
    let answer = answer(&[shared::samples().join("gpu_ddp8")], &options());
    let rows = answer.rows("collectives");
    let mut compared = 0;
    for c in known["collectives"].as_array().expect("a list") {
        for rank in 0..8 {
            let is_it = |r: &&Record| r.int("rank") == rank as i64 && Some(r.int("seq")) == c["seq"].as_i64();
            let row = rows.iter().find(is_it).expect("a row");
            assert_eq!(Some(row.int("arrival_ns")), c["arrival_ns"][rank].as_i64());
            assert_eq!(Some(row.int("wait_ns")), c["wait_ns"][rank].as_i64());
            assert_eq!(Some(row.int("last_rank")), c["last_rank"].as_i64());
            assert_eq!(Some(row.int("transfer_ns")), c["transfer_ns"].as_i64());
            assert_eq!(Some(row.int("size_bytes")), c["size_bytes"].as_i64());
            compared += 1;
        }
    }
    assert_eq!(compared, 15 * 8);
    let planted = known["planted"].as_array().expect("a list");
    let late = planted.iter().find(|p| p["fact"] == "late_rank").expect("planted");
    let expected = late["first_arrival_minus_second_last_ns_by_step"].as_array().expect("a list");
    let of_rank = |r: &Record| r.int("rank") == 3 && r.cell("process_group") == Value::Null;
    let delays = answer.rows_where("straggler_delays", of_rank);
    let gains: Vec<i64> = delays.iter().map(|r| r.int("gain_ns")).collect();
    assert_eq!(gains, expected.iter().filter_map(Value::as_i64).collect::<Vec<_>>());
    let found = answer.rows("stragglers");
    assert_eq!(
        (found[0].text("ranks"), found[0].text("cause_name")),
        ("3", late["kernel"].as_str().expect("a name"))
    );
    // Behind it, the slow loader of one step.
    assert_eq!((found[1].text("ranks"), found[1].text("behind_ranks")), ("5", "3"));
    assert_eq!((found[1].text("steps"), found[1].text("cause")), ("12", "data_loader"));
}

#[test]
fn megatron_is_matched_whole_and_its_waits_are_the_reference_s() {
    let Some(shared) = shared::folder() else { return };
    let reference = json(&shared::reference("megatron_tp8.json"));
    let answer = answer(&[megatron(&shared)], &with_clock(ClockMode::None));
    let groups = answer.rows("process_groups");
    assert_eq!(groups.len(), 1);
    assert_eq!((groups[0].int("collective_count"), groups[0].int("complete_count")), (84, 84));
    assert_eq!((groups[0].int("present_count"), groups[0].text("matched_by")), (8, "seq"));
    let (lasts, waits) = lasts_and_waits(&answer);
    for rank in 0..8 {
        let key = rank.to_string();
        assert_eq!(Some(lasts[&key]), reference["last_arriver_count"][&key].as_i64(), "rank {rank} last");
        let wait = reference["wait_for_last_arriver_us"][&key].as_f64().expect("a time");
        assert_eq!(waits[&key], (wait * 1000.0) as i64, "rank {rank} waits");
    }
    let skew = answer.rows("collective_summary").iter().map(|r| r.int("end_skew_max_ns")).max();
    assert_eq!(skew, reference["end_spread_us"]["max"].as_f64().map(|us| (us * 1000.0) as i64));
}

/// Eight ranks and one step: ranks 0 and 6 are late, but one step does not show whether that persists.
#[test]
fn megatron_s_late_ranks_are_seen_and_nobody_is_named_after_one_step_whatever_a_clock_says() {
    let Some(shared) = shared::folder() else { return };
    let straight = answer(&[megatron(&shared)], &options());
    assert_eq!(named(&straight), []);
    // Rank 2 by less than 5 % of the step.
    assert_eq!(untold(&straight), ["rank 0", "rank 2", "rank 6"]);
    assert!(straight.notes("stragglers").iter().any(|n| n.contains("record 3 steps")));
    assert!(
        straight.rows("ranks").iter().all(|r| r.int("clock_found_ns").abs() < 20_000),
        "one host, one clock"
    );
    // Cause: the host was busy with something else.
    for rank in [0, 6] {
        let causes = straight.rows_where("straggler_causes", |r| r.int("rank") == rank);
        assert!(causes.iter().any(|r| r.int("delta_ns") > 1_000_000 && !r.text("name").is_empty()));
    }
    // The same set with rank 3 shifted by a millisecond.
    let dir = tempfile::tempdir().expect("a folder");
    for rank in 0..8 {
        let name = format!("megatron_kineto_{rank}.json.gz");
        let bytes = std::fs::read(megatron(&shared).join(&name)).expect("the trace is there");
        let to = dir.path().join(&name);
        if rank != 3 {
            std::fs::write(to, bytes).expect("it can be copied");
            continue;
        }
        let mut text = String::new();
        flate2::read::MultiGzDecoder::new(&bytes[..]).read_to_string(&mut text).expect("it is text");
        let mut trace: Value = serde_json::from_str(&text).expect("it is JSON");
        for event in trace["traceEvents"].as_array_mut().expect("events") {
            if let Some(ts) = event.get("ts").and_then(Value::as_i64) {
                event["ts"] = Value::from(ts + 1000);
            }
        }
        std::fs::write(to, gzip(trace.to_string().as_bytes())).expect("it can be written");
    }
    let shifted = answer(&[dir.path().to_path_buf()], &options());
    assert_eq!((named(&shifted), untold(&shifted)), (named(&straight), untold(&straight)));
    let clock = |rank: i64| shifted.rows_where("ranks", |r| r.int("rank") == rank).remove(0);
    assert_eq!(clock(3).text("clock_state"), "applied");
    assert!((clock(3).int("clock_offset_ns") - 1_000_000).abs() < 20_000, "{:?}", clock(3));
    assert!((0..8).filter(|r| *r != 3).all(|r| clock(r).text("clock_state") == "reported"));
    let ((_, before), (_, after)) = (lasts_and_waits(&straight), lasts_and_waits(&shifted));
    for (rank, wait) in before {
        // 84 collectives, each within the remaining offset.
        assert!((after[&rank] - wait).abs() < 84 * 20_000, "rank {rank}: {wait} and {}", after[&rank]);
    }
}

#[test]
fn the_plugin_s_distributed_goldens_are_met_by_the_shortest_method() {
    let folder = shared::reference("tensorboard/unit");
    let mut compared = 0;
    for set in ["nccl", "gloo_gpu", "gloo_cpu"] {
        let golden = json(&folder.join(format!("test_distributed_{set}.distributed.expected.json")));
        let dir = tempfile::tempdir().expect("a folder");
        for worker in 0..2 {
            let from = folder.join(format!("test_distributed_{set}.{worker}.trace.json"));
            std::fs::copy(from, dir.path().join(format!("rank_{worker}.json"))).expect("it can be copied");
        }
        let answer = answer_by(Some(Compat::TensorBoard), &[dir.path().to_path_buf()], &options());
        for r in answer.rows("sync_shortest") {
            let (worker, step) = (format!("worker{}", r.int("rank")), r.text("step"));
            let overlap =
                ["compute_only_ns", "overlap_ns", "communication_only_ns", "other_ns"].map(|c| us(&r, c));
            assert_eq!(
                Value::from(overlap.to_vec()),
                golden["steps_to_overlap"][step][&worker],
                "{set} {worker} {step}"
            );
            let wait = ["transfer_ns", "synchronizing_ns"].map(|c| us(&r, c));
            assert_eq!(
                Value::from(wait.to_vec()),
                golden["steps_to_wait"][step][&worker],
                "{set} {worker} {step}"
            );
            compared += 1;
        }
        for worker in 0..2 {
            let rows = answer.rows_where("collective_shortest", |r| r.int("rank") == worker);
            let wanted = golden["comm_ops"][format!("worker{worker}")].as_array().expect("operators");
            assert_eq!(rows.len(), wanted.len());
            for (r, want) in rows.iter().zip(wanted) {
                let half_even =
                    |column: &str, by: f64| (r.float(column).expect("a mean") / by).round_ties_even() as i64;
                let got = vec![
                    Value::from(r.text("name")),
                    Value::from(r.int("count")),
                    Value::from(r.int("size_sum_bytes")),
                    Value::from(half_even("size_mean_bytes", 1.0)),
                    Value::from(us(r, "latency_sum_ns")),
                    Value::from(half_even("latency_mean_ns", 1000.0)),
                    Value::from(us(r, "transfer_sum_ns")),
                    Value::from(half_even("transfer_mean_ns", 1000.0)),
                ];
                assert_eq!(Value::from(got), *want, "{set} worker {worker}");
                compared += 1;
            }
        }
    }
    assert_eq!(compared, 3 * (2 * 2 + 2 * 2));
}

#[test]
fn the_published_what_if_answers_are_met() {
    let Some(shared) = shared::folder() else { return };
    let folder = shared.trace("straggler_bytedance");
    let result = json(&folder.join("ByteDanceStraggler__result-ST.json"));
    let timeline = folder.join("ByteDanceStraggler__timeline-ST.json.gz");
    let answer = answer_by(Some(Compat::Osdi25), &[timeline], &options());
    let rows = answer.rows("what_if");
    let slowdown = |scope: &str, what: &str| {
        let row = rows.iter().find(|r| r.text("scope") == scope && r.text("what") == what);
        row.and_then(|r| r.float("slowdown")).unwrap_or_else(|| panic!("no {scope} {what}"))
    };
    let near = |got: f64, want: &Value, what: &str| {
        let want = want.as_f64().expect("a number");
        assert!((got - want).abs() < 5e-6, "{what}: {got}, published {want}");
    };
    near(slowdown("all", "all workers and steps"), &result["blocking_slowdown"], "S");
    let mut compared = 0;
    for (scope, key) in [
        ("stage", "blocking_decompose_by_stage"),
        ("dp_rank", "blocking_decompose_by_dp_rank"),
        ("op_type", "blocking_decompose_by_optype"),
        ("step", "blocking_step_slowdown"),
    ] {
        for (what, want) in result[key].as_object().expect("an object") {
            near(slowdown(scope, what), want, what);
            compared += 1;
        }
    }
    assert_eq!(compared, 4 + 2 + 11 + 32);
    // M is the part of the slowdown that the repair removes.
    for (scope, file, key) in [("m_s", "ms-ST", "Ms"), ("m_w", "mw-ST", "Mw")] {
        let row = rows.iter().find(|r| r.text("scope") == scope).expect("a row");
        let m = row.float("share_of_slowdown_pct").expect("a share") / 100.0;
        let want = json(&folder.join(format!("ByteDanceStraggler__{file}.json")))[key].clone();
        near(m, &want, key);
    }
    assert!(rows.iter().all(|r| r.cell("is_reliable") == Value::Bool(true)));
}

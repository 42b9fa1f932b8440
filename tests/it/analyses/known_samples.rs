//! `data/samples/gpu_ddp8` against KNOWN_ANSWERS.json, which is computed from the planted facts.
//!
//! ```text
//! rank 3    |compute............|ar|ar|ar|        the late one, never waits
//! rank 0    |compute.....|ar...........|ar|ar|    waits in every first all-reduce
//! ```

use crate::run::{Answer, Record, answer, one, options, rank_trace};
use crate::shared::samples;
use hta::trace::args::Arg;
use hta::trace::timeline::WorkClass;
use serde_json::Value;
use std::sync::LazyLock;

static KNOWN: LazyLock<Value> = LazyLock::new(|| {
    let text = std::fs::read_to_string(samples().join("KNOWN_ANSWERS.json")).expect("the file is there");
    serde_json::from_str(&text).expect("it is JSON")
});

static ANSWER: LazyLock<Answer> = LazyLock::new(|| answer(&[samples().join("gpu_ddp8")], &options()));

fn list(value: &'static Value) -> &'static [Value] {
    value.as_array().expect("a list")
}

fn int(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("{value} is no integer"))
}

fn planted(fact: &str) -> &'static Value {
    list(&KNOWN["planted"]).iter().find(|p| p["fact"] == fact).unwrap_or_else(|| panic!("no fact {fact}"))
}

/// Compares one window with the rows of `temporal_breakdown` and `overlap`; returns the cells compared.
fn window(known: &Value, keep: impl Fn(&Record) -> bool) -> usize {
    let breakdown = one(ANSWER.rows_where("temporal_breakdown", &keep));
    let overlap = one(ANSWER.rows_where("overlap", &keep));
    assert_eq!(breakdown.int("ts_ns"), int(&known["start_ns"]));
    assert_eq!(breakdown.int("ts_ns") + breakdown.int("dur_ns"), int(&known["end_ns"]));
    let times = [
        "dur_ns",
        "compute_ns",
        "exposed_communication_ns",
        "copies_ns",
        "idle_ns",
        "communication_ns",
        "memory_ns",
    ];
    for column in times {
        assert_eq!(breakdown.int(column), int(&known[column]), "{column} in {known}");
    }
    assert_eq!(overlap.int("overlap_ns"), int(&known["overlap_ns"]));
    // Written with six decimals.
    let ratio = overlap.float("overlap_ratio").expect("there is communication");
    let written = known["overlap_ratio"].as_f64().expect("a ratio");
    assert!((ratio - written).abs() <= 0.000_000_5, "{ratio} {known}");
    2 + times.len() + 2
}

fn in_loader(rank: i64, step: i64) -> i64 {
    let keep = |r: &Record| {
        let window =
            r.int("rank") == rank && r.text("scope") == "step" && r.opt_int("step_label") == Some(step);
        window && r.text("activity") == "data_loader"
    };
    let rows = ANSWER.rows_where("idle_host", keep);
    let loader = planted("idle")["annotation"].as_str().expect("a name");
    assert!(rows.iter().all(|r| r.text("name") == loader), "{rows:?}");
    rows.iter().map(|r| r.int("time_ns")).sum()
}

#[test]
fn every_window_of_every_rank_holds_what_was_planted() {
    let mut cells = 0;
    for rank in list(&KNOWN["ranks"]) {
        let id = int(&rank["rank"]);
        let row = one(ANSWER.rows_where("ranks", |r| r.int("rank") == id));
        assert_eq!(row.text("host_name"), rank["host"].as_str().expect("a host"));
        assert_eq!(row.text("devices"), int(&rank["device"]).to_string());
        assert_eq!(row.int("activity_count"), int(&rank["gpu_activities"]));
        cells += 3 + window(&rank["span"], |r| r.int("rank") == id && r.text("scope") == "span");
        for step in list(&rank["steps"]) {
            let label = int(&step["step"]);
            let keep = |r: &Record| r.int("rank") == id && r.opt_int("step_label") == Some(label);
            cells += 1 + window(step, keep);
            assert_eq!(in_loader(id, label), int(&step["idle_in_loader_ns"]), "rank {id} step {label}");
        }
        let steps = ANSWER.rows_where("steps", |r| r.int("rank") == id);
        assert_eq!(steps.len(), list(&rank["steps"]).len());
    }
    assert_eq!(ANSWER.rows("ranks").len(), list(&KNOWN["ranks"]).len());
    assert_eq!(cells, 8 * (3 + 11 + 5 * 12));
}

#[test]
fn collectives_start_end_and_wait_as_planted() {
    let kernels = ANSWER.rows("overlap_kernels");
    let mut compared = 0;
    for (i, known) in list(&KNOWN["collectives"]).iter().enumerate() {
        let end = int(&known["end_ns"]);
        let mut starts = Vec::new();
        for rank in 0..8 {
            let ends = |r: &&Record| r.int("rank") == rank && r.int("ts_ns") + r.int("dur_ns") == end;
            let row =
                kernels.iter().find(ends).unwrap_or_else(|| panic!("rank {rank}: nothing ends at {end}"));
            let start = row.int("ts_ns");
            // The profiler's name, and hta's name for all spellings.
            assert_eq!((known["kind"].as_str(), row.text("kind")), (Some("allreduce"), "all_reduce"));
            assert_eq!(row.int("size_bytes"), int(&known["size_bytes"]));
            assert_eq!(start, int(&known["arrival_ns"][rank as usize]));
            let wait = end - int(&known["transfer_ns"]) - start;
            assert_eq!(wait, int(&known["wait_ns"][rank as usize]));
            starts.push((start, rank));
            compared += 1;
        }
        starts.sort_unstable();
        let (last, before) = (starts[7], starts[6]);
        assert_eq!((last.1, last.0 - before.0), (int(&known["last_rank"]), int(&known["gain_ns"])), "{i}");
        let step = ANSWER.rows_where("steps", |r| r.opt_int("step_label") == Some(int(&known["step"])));
        assert!(step.iter().all(|s| (s.int("ts_ns")..=s.int("ts_ns") + s.int("dur_ns")).contains(&end)));
        assert_eq!(step.len(), 8);
    }
    assert_eq!((compared, kernels.len()), (15 * 8, 15 * 8));
}

#[test]
fn sequence_numbers_of_collectives_are_read() {
    let trace = rank_trace(&samples().join("gpu_ddp8/rank_6.json.gz"), 6);
    let of = |a: &hta::trace::activity::Activity| trace.columns.args.uint(Arg::Seq, a.row);
    let seqs: Vec<_> =
        trace.activities.iter().filter(|a| a.work == WorkClass::Communication).map(of).collect();
    let known: Vec<_> = list(&KNOWN["collectives"]).iter().map(|c| c["seq"].as_u64()).collect();
    assert_eq!(seqs, known);
}

#[test]
fn the_planted_overlap_is_that_of_the_late_rank() {
    let fact = planted("overlap");
    let rank = int(&fact["rank"]);
    let rows = ANSWER.rows_where("overlap", |r| r.int("rank") == rank && r.text("scope") == "step");
    assert_eq!(rows.len(), 5);
    for row in rows {
        assert_eq!(row.int("communication_ns"), int(&fact["communication_ns_per_step"]));
        assert_eq!(row.int("overlap_ns"), int(&fact["overlap_ns_per_step"]));
        assert_eq!(row.float("overlap_ratio"), fact["overlap_ratio"].as_f64());
    }
}

#[test]
fn the_planted_idle_time_is_spent_in_the_data_loader() {
    let fact = planted("idle");
    let slow = (int(&fact["slow_rank"]), int(&fact["slow_step"]));
    for rank in 0..8 {
        for step in 10..15 {
            let key =
                if (rank, step) == slow { "slow_idle_in_loader_ns" } else { "idle_in_loader_ns_per_step" };
            assert_eq!(in_loader(rank, step), int(&fact[key]), "rank {rank} step {step}");
        }
    }
    let arrivals = first_arrivals(slow.1);
    let late = arrivals[slow.0 as usize] - median_of_others(&arrivals, slow.0 as usize);
    assert_eq!(late, int(&fact["slow_first_arrival_minus_median_of_others_ns"][0]));
}

/// Start of the first all-reduce of a step, by rank.
fn first_arrivals(step: i64) -> Vec<i64> {
    let of = |rank: i64| {
        let rows = ANSWER.rows_where("overlap_kernels", |r| r.int("rank") == rank);
        let label = |r: &Record| {
            ANSWER.rows_where("steps", |s| s.int("rank") == rank && s.int("step") == r.int("step"))
        };
        let inside = rows.iter().filter(|r| label(r)[0].opt_int("step_label") == Some(step));
        inside.map(|r| r.int("ts_ns")).min().expect("a collective")
    };
    (0..8).map(of).collect()
}

/// The middle value of the seven other ranks.
fn median_of_others(arrivals: &[i64], rank: usize) -> i64 {
    let mut others: Vec<i64> =
        arrivals.iter().enumerate().filter(|(r, _)| *r != rank).map(|(_, t)| *t).collect();
    others.sort_unstable();
    others[others.len() / 2]
}

#[test]
fn the_planted_late_rank_runs_one_kernel_longer() {
    let fact = planted("late_rank");
    let late = int(&fact["rank"]);
    let host = one(ANSWER.rows_where("ranks", |r| r.int("rank") == late));
    assert_eq!(host.text("host_name"), fact["host"].as_str().expect("a host"));
    for rank in 0..8 {
        let kernel =
            |r: &Record| r.int("rank") == rank && r.text("name") == fact["kernel"].as_str().expect("a name");
        let rows = ANSWER.rows_where("kernels_by_name", |r| kernel(r) && r.text("scope") == "step");
        let ns = int(&fact[if rank == late { "kernel_ns" } else { "kernel_ns_on_others" }]);
        assert_eq!(rows.len(), 5, "rank {rank}");
        assert!(rows.iter().all(|r| r.int("sum_ns") == ns && r.int("count") == 1), "{rows:?}");
    }
    assert_eq!(int(&fact["kernel_ns"]) - int(&fact["kernel_ns_on_others"]), int(&fact["extra_ns_per_step"]));
    for (i, step) in (10..15).enumerate() {
        let arrivals = first_arrivals(step);
        let mut sorted = arrivals.clone();
        sorted.sort_unstable();
        assert_eq!(sorted[7], arrivals[late as usize], "step {step}");
        assert_eq!(sorted[7] - sorted[6], int(&fact["first_arrival_minus_second_last_ns_by_step"][i]));
        let ahead = sorted[7] - median_of_others(&arrivals, late as usize);
        assert_eq!(ahead, int(&fact["first_arrival_minus_median_of_others_ns_by_step"][i]));
    }
}

#[test]
fn all_ranks_share_one_clock() {
    let offsets: Vec<i64> = list(&planted("clocks")["offset_ns"]).iter().map(int).collect();
    assert_eq!(offsets, [0; 8]);
    // Every collective ends at the same instant on all ranks: see `collectives_start_end_and_wait_as_planted`.
    let first: Vec<i64> = ANSWER
        .rows_where("temporal_breakdown", |r| r.text("scope") == "span")
        .iter()
        .map(|r| r.int("ts_ns"))
        .collect();
    assert_eq!(first, [int(&KNOWN["ranks"][0]["span"]["start_ns"]); 8]);
}

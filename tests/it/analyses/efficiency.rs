//! `efficiency`: known accounts and factors of real and synthetic jobs, and that relabelling changes nothing.

use crate::run::{Answer, Record, answer, device_windows, options};
use crate::shared::samples;

const PARTS: [&str; 7] =
    ["compute_ns", "waiting_ns", "transfer_ns", "unmatched_ns", "copies_ns", "idle_ns", "finished_early_ns"];

pub fn rows(answer: &Answer, scope: &str) -> Vec<Record> {
    answer.rows_where("efficiency", |r| r.text("scope") == scope)
}

/// Shares of the seven parts in percent of n T, with two decimals.
pub fn shares(row: &Record) -> [f64; 7] {
    let all = row.int("device_count") * row.int("time_ns");
    assert_eq!(PARTS.map(|p| row.int(p)).iter().sum::<i64>(), all);
    PARTS.map(|p| (row.int(p) as f64 / all as f64 * 1e4).round() / 1e2)
}

/// Parallel efficiency, load balance, communication and orchestration, with four decimals.
pub fn factors(row: &Record) -> [f64; 4] {
    ["parallel_efficiency", "load_balance", "communication_efficiency", "orchestration_efficiency"]
        .map(|c| (row.float(c).expect("a factor") * 1e4).round() / 1e4)
}

/// Times and factors of the replay: T0, T1, T2, and with four decimals the product and its parts beside load balance.
pub fn replayed(row: &Record) -> ([i64; 3], [f64; 4]) {
    let factors = ["replayed_parallel", "serialization", "replayed_orchestration", "transfer"]
        .map(|c| row.float(&format!("{c}_efficiency")).expect("a factor"));
    let product = row.float("load_balance").expect("a factor") * factors[1] * factors[2] * factors[3];
    assert!((product - factors[0]).abs() < 1e-12, "{product} {factors:?}");
    let times = ["replayed_ns", "instant_network_ns", "instant_hosts_ns"].map(|c| row.int(c));
    (times, factors.map(|f| (f * 1e4).round() / 1e4))
}

#[test]
fn the_eight_ranks_with_a_straggler_have_the_known_account() {
    let answer = answer(&[samples().join("gpu_ddp8")], &device_windows());
    let job = &rows(&answer, "job")[0];
    assert_eq!((job.int("device_count"), job.int("step_count"), job.int("time_ns")), (8, 5, 96_618_500));
    assert_eq!(shares(job), [49.30, 13.27, 23.92, 0.0, 1.98, 11.52, 0.0]);
    assert_eq!(factors(job), [0.4930, 0.6447, 0.8611, 0.8880]);
    // The steps are parts of the job.
    let steps = rows(&answer, "step");
    assert_eq!(steps.len(), 5);
    for column in PARTS.iter().chain(&["time_ns"]) {
        assert_eq!(steps.iter().map(|s| s.int(column)).sum::<i64>(), job.int(column), "{column}");
    }
    // The only group is all ranks.
    let groups = rows(&answer, "group");
    assert_eq!((groups.len(), factors(&groups[0])), (1, factors(job)));
}

#[test]
fn the_replay_tells_hosts_from_the_network() {
    let answer = answer(&[samples().join("gpu_ddp8")], &options());
    // Four gaps of 50 us between the steps; all transfer is 2 ms a step; rank 3 computes most.
    let times = [96_618_500 + 4 * 50_000, 96_818_500 - 5 * 2_000_000, 73_885_000];
    assert_eq!(replayed(&rows(&answer, "job")[0]), (times, [0.4920, 1.0, 0.8510, 0.8967]));
}

#[test]
fn host_windows_of_four_ranks_on_cpus_have_the_known_factors() {
    let answer = answer(&[samples().join("gloo_ddp4")], &options());
    let steps = rows(&answer, "step");
    let found: Vec<(Option<i64>, [f64; 4])> =
        steps.iter().map(|s| (s.opt_int("step_label"), factors(s))).collect();
    let known = [
        (Some(2), [0.3234, 0.5960, 0.5990, 0.9059]),
        (Some(3), [0.3016, 0.8933, 0.3690, 0.9149]),
        (Some(4), [0.2758, 0.6404, 0.4653, 0.9256]),
    ];
    assert_eq!(found, known);
    assert_eq!(steps[0].int("time_ns"), 211_113_915);
    // The ranks have no devices, so nothing is known about hosts beside their work.
    assert_eq!(steps[0].opt_int("replayed_ns"), None);
}

#[test]
fn one_rank_without_communication_has_an_account_too() {
    let answer = answer(&[samples().join("gpu_single")], &options());
    let job = &rows(&answer, "job")[0];
    let [useful, synchronizing, .., deficit] = PARTS.map(|p| job.int(p));
    assert!(useful > 0 && synchronizing == 0 && deficit == 0);
    assert_eq!(factors(job)[1], 1.0);
    shares(job);
}

/// Share of each rank in the cost of all, percent with one decimal: by direct and propagated, and by coming last.
pub fn cost_shares(answer: &Answer) -> (i64, Vec<(f64, f64)>) {
    let rows = answer.rows("delay_cost");
    let most = rows.iter().map(|r| r.int("rank")).max().unwrap_or(0);
    let all: i64 = rows.iter().map(|r| r.int("direct_ns") + r.int("propagated_ns")).sum();
    assert_eq!(rows.iter().map(|r| r.int("imposed_last_ns")).sum::<i64>(), all);
    let share = |rank: i64, columns: &[&str]| {
        let of_rank = rows.iter().filter(|r| r.int("rank") == rank);
        let ns: i64 = of_rank.map(|r| columns.iter().map(|c| r.int(c)).sum::<i64>()).sum();
        (ns as f64 / all as f64 * 1e3).round() / 10.0
    };
    let ranks =
        (0..=most).map(|r| (share(r, &["direct_ns", "propagated_ns"]), share(r, &["imposed_last_ns"])));
    (all, ranks.collect())
}

#[test]
fn the_straggler_is_charged_nearly_all_waiting() {
    let (all, shares) = cost_shares(&answer(&[samples().join("gpu_ddp8")], &options()));
    assert_eq!(all, 228_450_000);
    let charged: Vec<f64> = shares.iter().map(|s| s.0).collect();
    assert_eq!(charged, [0.0, 0.0, 0.0, 96.7, 0.0, 3.3, 0.0, 0.0]);
}

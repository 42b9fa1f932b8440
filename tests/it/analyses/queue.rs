//! Queue length: by eye, by brute force, and on real traces with known answers.

use crate::plan::{Kind, ORIGIN, Plan, Row, plans};
use crate::robustness::brute::Brute;
use crate::run::{Answer, Record, answer, one, options};
use hta::analysis::api::Options;
use hta::trace::step::StepWindow;
use hta_testkit::{Format, TraceBuilder, us};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Rank, device and stream.
type Lane = (i64, Option<i64>, Option<i64>);

fn lane(r: &Record) -> Lane {
    (r.int("rank"), r.opt_int("device"), r.opt_int("stream"))
}

/// Invariants of every trace: a queue is never negative, ends at 0, and its integral is the summed waiting time of
/// launches.
pub fn check(what: &str, answer: &Answer) {
    let mut series: BTreeMap<Lane, Vec<Record>> = BTreeMap::new();
    for r in answer.rows("queue_length") {
        series.entry(lane(&r)).or_default().push(r);
    }
    let stats = answer.rows("queue_stats");
    for r in stats.iter().filter(|r| r.text("scope") == "span") {
        let points = series.remove(&lane(r)).unwrap_or_default();
        let (mut area, mut max, mut pending) = (0, 0, 0);
        for pair in points.windows(2) {
            assert!(pair[0].int("ts_ns") < pair[1].int("ts_ns"), "{what}: {}", pair[1].0);
            let values = |p: &Record| (p.int("queue_length"), p.int("pending_activities"));
            assert_ne!(values(&pair[0]), values(&pair[1]), "{what}: {}", pair[1].0);
            let length = pair[0].int("queue_length");
            // The span begins after the lead of the device.
            let seen = pair[1].int("ts_ns") - pair[0].int("ts_ns").max(r.int("ts_ns"));
            if seen <= 0 {
                continue;
            }
            area += length * seen;
            max = max.max(length);
            if pair[0].int("ts_ns") < r.int("ts_ns") + r.int("dur_ns") {
                pending = pending.max(pair[0].int("pending_activities"));
            }
            assert!(length <= pair[0].int("pending_activities"), "{what}: {}", pair[0].0);
        }
        if let Some(last) = points.last() {
            assert_eq!(
                (last.int("queue_length"), last.int("pending_activities")),
                (0, 0),
                "{what}: {}",
                last.0
            );
        }
        let want = [area, max, pending];
        assert_eq!(["wait_ns", "max_length", "max_pending"].map(|c| r.int(c)), want, "{what}: {}", r.0);
    }
    assert!(series.is_empty(), "{what}: series without statistics");
    for r in &stats {
        let [p50, p95, max] = ["p50_length", "p95_length", "max_length"].map(|c| r.opt_int(c));
        assert!(p50 <= p95 && (r.int("dur_ns") == 0 || p95 <= max), "{what}: {}", r.0);
        assert_eq!(p50.is_none(), r.int("dur_ns") == 0, "{what}: {}", r.0);
        assert!(r.int("blocked_call_ns") <= r.int("full_ns"), "{what}: {}", r.0);
        assert!(r.int("full_ns") + r.int("empty_ns") <= r.int("dur_ns"), "{what}: {}", r.0);
        assert!(r.int("empty_at_launch_count") <= r.int("launch_count"), "{what}: {}", r.0);
    }
    little_holds(what, answer, &stats);
    for r in stats.iter().filter(|r| r.text("scope") == "capture") {
        let parts: Vec<&Record> = stats
            .iter()
            .filter(|p| lane(p) == lane(r) && ["step", "outside"].contains(&p.text("scope")))
            .collect();
        for column in
            ["wait_ns", "empty_ns", "full_ns", "blocked_call_ns", "launch_count", "empty_at_launch_count"]
        {
            let sum: i64 = parts.iter().map(|p| p.int(column)).sum();
            assert!(parts.is_empty() || sum == r.int(column), "{what}: {column} of {}", r.0);
        }
    }
}

/// The integral of the length equals the sum of the waits of all launches, computed from the list of activities.
fn little_holds(what: &str, answer: &Answer, stats: &[Record]) {
    let mut waits: BTreeMap<(Lane, i64), (i64, i64)> = BTreeMap::new();
    for k in answer.rows("kernels").iter().filter(|k| k.opt_int("launch_event_id").is_some()) {
        let first =
            waits.entry((lane(k), k.int("launch_event_id"))).or_insert((k.int("launch_ts_ns"), i64::MAX));
        first.1 = first.1.min(k.int("ts_ns"));
    }
    let begins: BTreeMap<Lane, i64> =
        stats.iter().filter(|r| r.text("scope") == "span").map(|r| (lane(r), r.int("ts_ns"))).collect();
    let mut sums: BTreeMap<Lane, (i64, i64)> = BTreeMap::new();
    for ((lane, _), (enter, start)) in &waits {
        let sum = sums.entry(*lane).or_default();
        // The span begins after the lead of the device.
        let begin = begins.get(lane).copied().unwrap_or(i64::MIN);
        sum.0 += (start - (*enter).max(begin)).max(0);
        sum.1 += i64::from(*enter >= begin);
    }
    for r in stats.iter().filter(|r| r.text("scope") == "span") {
        let want = sums.remove(&lane(r));
        assert_eq!(Some((r.int("wait_ns"), r.int("launch_count"))), want, "{what}: {}", r.0);
    }
    assert!(sums.is_empty(), "{what}: streams without a queue");
}

fn set(mut options: Options, flag: &str, text: &str) -> Options {
    let all = hta::registry::ANALYSES.iter().flat_map(|a| a.about().settings);
    let setting = all.into_iter().find(|s| s.flag == flag).expect("a declared option");
    options.settings.set(setting, text).expect("a value");
    options
}

fn write(t: &TraceBuilder) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("rank_0.json");
    std::fs::write(&path, t.to_bytes(&Format::default())).expect("a temporary file can be written");
    (folder, path)
}

/// ```text
/// us         0    10   20   30   40   50   60   70   80
/// calls      |a..||b..||g........|                         a, b kernels; g a graph of two
/// stream 7             [a========)[b==)[g1)    [g2)
/// length     1    2    2         1    0
/// pending    1    2    2+2       3 ... 1 until 70
/// ```
#[test]
fn a_graph_is_one_launch_in_the_queue_and_each_of_its_activities_is_pending() {
    let mut t = TraceBuilder::new().rank(0).device("NVIDIA H100", 132);
    let mut main = t.thread(1);
    main.launch(us(0)..us(8)).kernel("a", 7, us(22)..us(40));
    main.launch(us(10)..us(18)).kernel("b", 7, us(40)..us(48));
    main.graph_launch(us(20)..us(38))
        .kernel("g1", 7, us(50)..us(56))
        .graph_node(1, 1)
        .kernel("g2", 7, us(70)..us(75))
        .graph_node(1, 2);
    let (_folder, path) = write(&t);
    let answer = answer(&[path], &set(options(), "--max-queue", "2"));
    check("by eye", &answer);
    let start = answer.rows("queue_length")[0].int("ts_ns");
    let points: Vec<[i64; 3]> = answer
        .rows("queue_length")
        .iter()
        .map(|r| [(r.int("ts_ns") - start) / 1000, r.int("queue_length"), r.int("pending_activities")])
        .collect();
    let want = [[0, 1, 1], [10, 2, 2], [20, 3, 4], [22, 2, 3], [40, 1, 2], [50, 0, 1], [70, 0, 0]];
    assert_eq!(points, want);
    let span = one(answer.rows_where("queue_stats", |r| r.text("scope") == "span"));
    // Waits of 22, 30 and 30 us over the 50 us until the last one leaves.
    let got = ["launch_count", "empty_at_launch_count", "max_length", "max_pending"].map(|c| span.int(c));
    assert_eq!(got, [3, 1, 3, 4]);
    assert_eq!(
        (span.int("dur_ns"), span.int("wait_ns"), span.float("mean_length")),
        (us(50), us(82), Some(1.64))
    );
    // length 1 for 20 us, 2 for 28, 3 for 2
    assert_eq!(["p50_length", "p95_length"].map(|c| span.int(c)), [2, 2]);
    // two or more from 10 to 40; calls are open from 10 to 18 and from 20 to 38
    assert_eq!(["full_ns", "blocked_call_ns", "empty_ns"].map(|c| span.int(c)), [us(30), us(26), 0]);
}

#[test]
fn a_kernel_that_starts_before_its_call_never_waits() {
    let mut t = TraceBuilder::new().rank(0);
    t.thread(1).launch(us(10)..us(18)).kernel("early", 7, us(9)..us(12));
    let (_folder, path) = write(&t);
    let answer = answer(&[path], &options());
    check("by eye", &answer);
    let span = one(answer.rows_where("queue_stats", |r| r.text("scope") == "span"));
    assert_eq!((span.int("launch_count"), span.int("max_length"), span.int("dur_ns")), (1, 0, 0));
    assert!(span.float("mean_length").is_none() && answer.rows("queue_length").is_empty());
}

#[test]
fn without_launches_there_are_no_queues_and_a_reason() {
    let mut t = TraceBuilder::new().rank(0);
    t.unlinked().kernel("orphan", 7, us(1)..us(2));
    let (_folder, path) = write(&t);
    let gpu_only = answer(&[path], &options());
    assert!(gpu_only.rows("queue_stats").is_empty() && gpu_only.rows("queue_length").is_empty());
    assert_eq!(gpu_only.notes("queue"), ["rank 0: no launches recorded"]);
    let mut t = TraceBuilder::new().rank(0);
    t.thread(1).op("aten::mm", us(1)..us(2));
    let (_folder, path) = write(&t);
    let cpu_only = answer(&[path], &options());
    assert!(cpu_only.rows("queue_stats").is_empty());
    assert_eq!(cpu_only.notes("queue"), ["rank 0: no GPU activity"]);
}

/// A queue of at most two launches: the third call returns when the first kernel has started.
#[test]
fn a_host_held_by_a_full_queue_is_told() {
    let mut t = TraceBuilder::new().rank(0);
    let mut main = t.thread(1);
    for i in 0..12 {
        // Two quick launches; then each waits for room.
        let call =
            if i < 2 { us(10 * i)..us(10 * i + 5) } else { us(20 + 100 * (i - 2))..us(115 + 100 * (i - 2)) };
        main.launch(call).kernel("k", 7, us(50 + 100 * i)..us(150 + 100 * i));
    }
    let (_folder, path) = write(&t);
    let answer = answer(&[path], &set(options(), "--max-queue", "2"));
    check("by eye", &answer);
    let row = one(answer.rows_where("queue_stats", |r| r.text("scope") == "span"));
    assert_eq!(row.int("full_call_count"), 11);
    // The second call fills the queue, the ten others wait for room.
    let means = ["full_call_mean_ns", "other_call_mean_ns"].map(|c| row.float(c));
    assert_eq!(means, [Some((5_000.0 + 10.0 * 95_000.0) / 11.0), Some(5_000.0)]);
    let notes = answer.notes("queue");
    assert!(
        notes.contains(&"full: 2 or more wait; blocked: launch calls meanwhile".to_string()),
        "{notes:?}"
    );
}

/// The queue of one stream counted at every instant: enter and leave of each launch and of each activity, and the spans
/// of the calls.
#[derive(Default)]
struct Counted {
    launches: Vec<(i64, i64)>,
    activities: Vec<(i64, i64)>,
    calls: Vec<(i64, i64)>,
}

fn count(rows: &[Row]) -> BTreeMap<(i64, i64), Counted> {
    let mut out: BTreeMap<(i64, i64), Counted> = BTreeMap::new();
    for (call, c) in rows.iter().enumerate().filter(|(_, r)| r.kind == Kind::Call) {
        let own: Vec<&Row> = rows.iter().filter(|r| r.kind == Kind::Gpu && r.launch == Some(call)).collect();
        let mut lanes: Vec<(i64, i64)> = own.iter().map(|r| (r.device, r.stream)).collect();
        lanes.sort_unstable();
        lanes.dedup();
        for lane in lanes {
            let starts = || own.iter().filter(|r| (r.device, r.stream) == lane).map(|r| r.start.max(c.start));
            let counted = out.entry(lane).or_default();
            counted.launches.push((c.start, starts().min().unwrap_or(c.start)));
            counted.activities.extend(starts().map(|s| (c.start, s)));
            counted.calls.push((c.start, c.end));
        }
    }
    out
}

const FULL: i64 = 2;

fn waiting(all: &[(i64, i64)], t: i64) -> i64 {
    all.iter().filter(|(enter, leave)| *enter <= t && t < *leave).count() as i64
}

/// Compares one row of `queue_stats` with the instants of its window.
fn compare(r: &Record, q: &Counted, cells: &[i64]) {
    let mut lengths: Vec<i64> = cells.iter().map(|t| waiting(&q.launches, *t)).collect();
    let pending = cells.iter().map(|t| waiting(&q.activities, *t)).max().unwrap_or(0);
    let full = |t: &&i64| waiting(&q.launches, **t) >= FULL;
    let open = |t: &&i64| q.calls.iter().any(|c| c.0 <= **t && **t < c.1);
    let want = [
        ("dur_ns", cells.len() as i64),
        ("wait_ns", lengths.iter().sum()),
        ("max_length", lengths.iter().copied().max().unwrap_or(0)),
        ("max_pending", pending),
        ("empty_ns", lengths.iter().filter(|l| **l == 0).count() as i64),
        ("full_ns", cells.iter().filter(full).count() as i64),
        ("blocked_call_ns", cells.iter().filter(full).filter(open).count() as i64),
    ];
    for (column, ns) in want {
        assert_eq!(r.int(column), ns, "{column} {}", r.0);
    }
    lengths.sort_unstable();
    let nearest = |percent: usize| lengths.get((lengths.len() * percent).div_ceil(100).max(1) - 1).copied();
    assert_eq!((r.opt_int("p50_length"), r.opt_int("p95_length")), (nearest(50), nearest(95)), "{}", r.0);
}

pub fn run(plan: &Plan) -> Answer {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut o = set(options(), "--max-queue", &FULL.to_string());
    o.model.step_window = StepWindow::Host;
    if plan.steps.is_empty() {
        o.model.step_pattern = regex::Regex::new("^ProfilerStep#").ok();
    }
    answer(&[plan.write(folder.path(), ORIGIN, &Format::default())], &o)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn queues_equal_a_count_of_every_nanosecond(plan in plans()) {
        let rows = plan.rows();
        let Some(brute) = Brute::new(&rows, false, 6) else { return Ok(()) };
        let answer = run(&plan);
        check("a random trace", &answer);
        let queues = count(&rows);
        let stats = answer.rows("queue_stats");
        let lane = |r: &Record| (r.int("device"), r.int("stream"));
        let found: std::collections::BTreeSet<_> = stats.iter().map(lane).collect();
        prop_assert!(found.iter().eq(queues.keys()));
        let series = answer.rows("queue_length");
        for (key, q) in &queues {
            let points: Vec<&Record> = series.iter().filter(|r| lane(r) == *key).collect();
            for t in 0..crate::plan::END {
                let at = points.iter().rev().find(|r| r.int("ts_ns") - ORIGIN <= t);
                let got = at.map_or((0, 0), |r| (r.int("queue_length"), r.int("pending_activities")));
                prop_assert_eq!(got, (waiting(&q.launches, t), waiting(&q.activities, t)), "{:?} at {}", key, t);
            }
            let first = q.launches.iter().map(|l| l.0).min().unwrap_or(0);
            let last = q.launches.iter().map(|l| l.1).max().unwrap_or(0);
            let in_step = |t: &i64| brute.steps.iter().any(|s| s.1.0 <= *t && *t < s.1.1);
            for r in stats.iter().filter(|r| lane(r) == *key) {
                let cells: Vec<i64> = match r.text("scope") {
                    "span" => (first..last).collect(),
                    "capture" => (brute.capture.0..brute.capture.1).collect(),
                    "outside" => (brute.capture.0..brute.capture.1).filter(|t| !in_step(t)).collect(),
                    _ => {
                        let (_, window) = brute.steps[r.int("step") as usize];
                        (window.0..window.1).collect()
                    }
                };
                compare(r, q, &cells);
                let inside = q.launches.iter().filter(|l| r.text("scope") == "span" || cells.contains(&l.0)).count();
                prop_assert_eq!(r.int("launch_count"), inside as i64, "{}", r.0);
            }
        }
    }
}

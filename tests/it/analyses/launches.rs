//! Launch calls: by eye on small traces, compared with counting every nanosecond on random ones, and with figures of
//! real traces from an independent script.

use crate::cli::one_analysis::{of_trace, set};
use crate::plan::{Kind, ORIGIN, Row, plans};
use crate::robustness::brute::Brute;
use crate::run::{Answer, Record, ints, one, options};
use hta::analysis::api::Options;
use hta_testkit::{Call, TraceBuilder, Vendor};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// Statistics of an API over the capture.
pub fn stats(answer: &Answer, api: &str) -> Record {
    one(answer.rows_where("launch_stats", |r| r.text("scope") == "capture" && r.text("api") == api))
}

/// ```text
///           0    10   20   30   40   50   60   70   80
///   thread  |-a--|         |---b----|         |-c--|
///   stream       .   [k1)  . [k2.........)[k3)   [k4)
/// ```
/// a starts k1; b is a graph of k2 and k3; c starts k4.
#[test]
fn a_call_has_latency_delay_and_the_work_it_started() {
    let mut t = TraceBuilder::new().rank(0);
    t.thread(1).op("aten::mm", 0..15);
    t.thread(1).launch(0..10).kernel("k1", 7, 20..26);
    t.thread(1).graph_launch(30..40).kernel("k2", 7, 35..50).kernel("k3", 7, 55..60);
    t.thread(1).launch(70..80).kernel("k4", 7, 76..79);
    t.thread(1).launch(80..82);
    t.unlinked().kernel("lost", 8, 62..70);
    let answer = of_trace("launches", &t, &options());
    let rows = answer.rows("launches");
    let columns = ["cpu_dur_ns", "activity_count", "gpu_dur_ns", "gpu_busy_ns", "idle_ns"];
    assert_eq!(
        rows.iter().map(|r| ints(r, columns)).collect::<Vec<_>>(),
        // The last nanosecond of the third call is after the last recorded end, and a later launch owns nothing, so
        // what ran then is not recorded.
        [[10, 1, 6, 6, 10], [10, 2, 20, 20, 5], [10, 1, 3, 3, 6], [2, 0, 0, 0, 0],]
    );
    let starts = ["latency_ns", "delay_ns", "gpu_span_ns"];
    assert_eq!(ints(&rows[0], starts), [20, 10, 6]);
    assert_eq!(ints(&rows[1], starts), [5, -5, 25]);
    assert_eq!(rows[3].opt_int("latency_ns"), None);
    assert_eq!((rows[0].text("op"), rows[0].text("name"), rows[1].text("op")), ("aten::mm", "k1", ""));
    let launch = stats(&answer, "cudaLaunchKernel");
    let counts =
        ["launch_count", "started_count", "launched_no_activity_count", "activity_count", "short_count"];
    assert_eq!(ints(&launch, counts), [3, 2, 1, 2, 2]);
    assert_eq!(ints(&launch, ["cpu_sum_ns", "cpu_p50_ns", "cpu_max_ns", "short_gpu_ns"]), [22, 10, 10, 9]);
    assert_eq!(
        ints(&launch, ["latency_p50_ns", "latency_max_ns", "delay_p50_ns", "delay_max_ns"]),
        [6, 20, -4, 10]
    );
    assert_eq!(launch.float("delay_mean_ns"), Some(3.0));
    // The graph is not short: it runs for 20 ns.
    assert_eq!(ints(&stats(&answer, "cudaGraphLaunch"), ["activity_count", "short_count"]), [2, 0]);
    let lost = one(answer.rows_where("unlinked_activities", |r| r.text("scope") == "capture"));
    assert_eq!(ints(&lost, ["unlinked_count", "unlinked_ns"]), [1, 8]);
    // 8 of 6 + 15 + 5 + 3 + 8
    assert_eq!((lost.text("class"), lost.float("gpu_pct")), ("compute", Some(100.0 * 8.0 / 37.0)));
}

#[test]
fn a_start_before_its_own_call_is_kept_but_counts_as_the_start_of_the_call() {
    let mut t = TraceBuilder::new().rank(0);
    t.thread(1).launch(100..110).kernel("early", 7, 95..120);
    t.thread(1).launch(200..210).kernel("late", 7, 230..240);
    let answer = of_trace("launches", &t, &options());
    assert_eq!(ints(&answer.rows("launches")[0], ["latency_ns", "delay_ns"]), [-5, -15]);
    let s = stats(&answer, "cudaLaunchKernel");
    assert_eq!(ints(&s, ["launch_delay_negative_count", "latency_p50_ns", "latency_max_ns"]), [1, 0, 30]);
    assert_eq!(ints(&s, ["delay_p50_ns", "delay_max_ns"]), [-10, 20]);
}

#[test]
fn every_vendor_s_calls_are_launches_because_they_own_something() {
    for vendor in [Vendor::Nvidia, Vendor::Amd, Vendor::Xpu, Vendor::Mtia] {
        let mut t = TraceBuilder::new().rank(0).vendor(vendor);
        t.thread(1).launch(0..10).kernel("k", 7, 20..30);
        t.thread(1).call(Call::Copy, 40..50).memcpy("HtoD (Pinned -> Device)", 7, 64, 60..70);
        let answer = of_trace("launches", &t, &options());
        let capture = answer.rows_where("launch_stats", |r| r.text("scope") == "capture");
        let activities: i64 = capture.iter().map(|r| r.int("activity_count")).sum();
        assert_eq!((capture.len(), activities), (2, 2), "{vendor:?}: {capture:?}");
        assert!(answer.rows("unlinked_activities").is_empty(), "{vendor:?}");
    }
}

#[test]
fn outliers_are_counted_above_the_limits_that_were_asked_for() {
    let mut t = TraceBuilder::new().rank(0);
    t.thread(1).launch(0..50_000).kernel("k", 7, 150_000..150_001);
    t.thread(1).launch(200_000..250_001).kernel("k", 7, 350_002..350_003);
    let mut o = options();
    let counts = |o: &Options| {
        ints(
            &stats(&of_trace("launches", &t, o), "cudaLaunchKernel"),
            ["runtime_outlier_count", "runtime_outlier_ns", "delay_outlier_count"],
        )
    };
    assert_eq!(counts(&o), [1, 50_001, 1]);
    set(&mut o, "launches", "--runtime-outlier-us", "40");
    set(&mut o, "launches", "--delay-outlier-us", "101");
    assert_eq!(counts(&o), [2, 100_001, 0]);
}

/// Ten launches of 10 us for kernels of 1 us, one after the other: the device waits for the host. It is idle for 90 of
/// the step's 100 us, all inside launch calls.
#[test]
fn idle_time_inside_launches_of_short_kernels_is_counted() {
    let mut t = TraceBuilder::new().rank(0);
    for step in 0..3 {
        t.thread(1).step(step, step as i64 * 100_000..(step as i64 + 1) * 100_000);
        for i in 0..10 {
            let at = step as i64 * 100_000 + i * 10_000;
            t.thread(1).launch(at..at + 10_000).kernel("k", 7, at + 9_000..at + 10_000);
        }
    }
    let lost = |t: &TraceBuilder| -> i64 {
        let answer = of_trace("launches", t, &options());
        let of_steps = answer.rows_where("launch_stats", |r| r.text("scope") == "step");
        of_steps.iter().map(|r| r.int("short_idle_ns")).sum()
    };
    assert_eq!(lost(&t), 3 * 90_000);
    // A device that is busy in the meantime loses nothing.
    t.unlinked().kernel("long", 8, 0..300_000);
    assert_eq!(lost(&t), 0);
}

#[test]
fn a_trace_without_launches_answers_with_the_reason() {
    let mut t = TraceBuilder::new().rank(0);
    t.thread(1).op("aten::mm", 0..10);
    let answer = of_trace("launches", &t, &options());
    for table in ["launch_stats", "launches", "unlinked_activities"] {
        assert!(answer.rows(table).is_empty(), "{table}");
    }
    assert_eq!(answer.notes("launches"), ["rank 0: no launches recorded"]);
    // Activities without any launch call are reported as well.
    t.unlinked().kernel("k", 7, 20..30);
    let lost = of_trace("launches", &t, &options())
        .rows_where("unlinked_activities", |r| r.text("scope") == "capture");
    assert_eq!(one(lost).float("gpu_pct"), Some(100.0));
}

/// Number of instants at which any of these activities runs.
pub fn busy(rows: &[Row], keep: impl Fn(&Row) -> bool, span: (i64, i64)) -> i64 {
    let runs = |t: &i64| rows.iter().any(|r| r.kind == Kind::Gpu && keep(r) && r.start <= *t && *t < r.end);
    (span.0..span.1).filter(runs).count() as i64
}

/// Whether a call began before the first launched activity of a stream that it feeds, and an activity without a launch
/// record precedes that one.
fn is_behind_unrecorded(rows: &[Row], call: usize) -> bool {
    rows.iter().filter(|a| a.launch == Some(call)).any(|own| {
        let mut stream: Vec<(i64, usize, bool)> = (0..rows.len())
            .filter(|&i| {
                rows[i].kind == Kind::Gpu && (rows[i].device, rows[i].stream) == (own.device, own.stream)
            })
            .map(|i| (rows[i].start, i, rows[i].launch.is_some()))
            .collect();
        stream.sort_unstable();
        let first = stream.iter().position(|a| a.2).expect("the call's own is one");
        first > 0 && rows[call].start < stream[first].0
    })
}

/// Scope and step of something that starts at `t`, in addition to the capture.
fn scopes(brute: &Brute, rows: &[Row], t: i64) -> Vec<(String, Option<i64>)> {
    let mut all = vec![("capture".to_string(), None)];
    if !brute.steps.is_empty() {
        let unmarked = !rows.iter().any(|r| r.kind == Kind::Step);
        let step = if unmarked { Some(0) } else { brute.step_at(t) };
        all.push((if step.is_some() { "step" } else { "outside" }.to_string(), step));
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn launches_equal_a_count_of_every_nanosecond(plan in plans()) {
        let rows = plan.rows();
        let Some(brute) = Brute::new(&rows, false, 30_000) else { return Ok(()) };
        let mut o = options();
        if plan.steps.is_empty() {
            o.model.step_pattern = regex::Regex::new("^ProfilerStep#").ok();
        }
        let answer = of_trace("launches", &plan.builder(ORIGIN), &o);
        let table: BTreeMap<usize, Record> =
            answer.rows("launches").into_iter().map(|r| (r.int("event_id") as usize, r)).collect();
        let is_launch = |i: &usize| rows[*i].name.contains("Launch") || rows.iter().any(|a| a.launch == Some(*i));
        let calls: Vec<usize> = (0..rows.len()).filter(|&i| rows[i].kind == Kind::Call).filter(is_launch).collect();
        prop_assert_eq!(table.keys().copied().collect::<Vec<_>>(), calls.clone());
        // By scope, step and API: calls, activities, host time, short calls, their GPU time, idle time.
        let mut sums: BTreeMap<(String, Option<i64>, String), [i64; 6]> = BTreeMap::new();
        for i in calls {
            let (call, r) = (&rows[i], &table[&i]);
            let own: Vec<&Row> = rows.iter().filter(|a| a.launch == Some(i)).collect();
            let first = own.iter().map(|a| a.start).min();
            let last = own.iter().map(|a| a.end).max();
            let runs = busy(&rows, |a| a.launch == Some(i), (0, 200));
            let dur: i64 = own.iter().map(|a| a.end - a.start).sum();
            prop_assert_eq!(r.int("ts_ns") - ORIGIN, call.start);
            let cpu = call.end - call.start;
            prop_assert_eq!(
                ints(r, ["cpu_dur_ns", "activity_count", "gpu_dur_ns", "gpu_busy_ns"]),
                [cpu, own.len() as i64, dur, runs]
            );
            prop_assert_eq!(r.opt_int("latency_ns"), first.map(|f| f - call.start));
            prop_assert_eq!(r.opt_int("delay_ns"), first.map(|f| f - call.end));
            prop_assert_eq!(r.opt_int("gpu_span_ns"), first.map(|f| last.unwrap_or(f) - f));
            let device = own.iter().min_by_key(|a| (a.start, a.device, a.stream)).map(|a| a.device);
            let idle = device.map_or(0, |d| cpu - busy(&rows, |a| a.device == d, (call.start, call.end)));
            prop_assert_eq!((r.int("idle_ns"), r.opt_int("device")), (idle, device));
            let short = i64::from(!own.is_empty() && runs < cpu);
            let behind = i64::from(is_behind_unrecorded(&rows, i));
            prop_assert_eq!(r.flag("behind_unrecorded"), Some(behind == 1));
            for (scope, step) in scopes(&brute, &rows, call.start) {
                let sum = sums.entry((scope, step, call.name.clone())).or_default();
                let clean = 1 - behind;
                let add = [1, own.len() as i64, cpu, clean * short, clean * short * runs, clean * idle];
                sum.iter_mut().zip(add).for_each(|(s, a)| *s += a);
            }
        }
        let columns = ["launch_count", "activity_count", "cpu_sum_ns", "short_count", "short_gpu_ns", "idle_ns"];
        let got: BTreeMap<_, _> = answer.rows("launch_stats").iter().map(|r| {
            let key = (r.text("scope").to_string(), r.opt_int("step"), r.text("api").to_string());
            (key, ints(r, columns))
        }).collect();
        prop_assert_eq!(got, sums);
        // Every activity belongs to exactly one launch, or is unlinked.
        let capture = |table: &str, column: &str| -> i64 {
            answer.rows_where(table, |r| r.text("scope") == "capture").iter().map(|r| r.int(column)).sum()
        };
        let gpu: Vec<&Row> = rows.iter().filter(|r| r.kind == Kind::Gpu).collect();
        let unlinked: Vec<&&Row> = gpu.iter().filter(|r| r.launch.is_none()).collect();
        let lost: i64 = unlinked.iter().map(|r| r.end - r.start).sum();
        prop_assert_eq!(capture("unlinked_activities", "unlinked_count"), unlinked.len() as i64);
        prop_assert_eq!(capture("unlinked_activities", "unlinked_ns"), lost);
        let linked = capture("launch_stats", "activity_count");
        prop_assert_eq!(linked + capture("unlinked_activities", "unlinked_count"), gpu.len() as i64);
        let parts: i64 = answer.rows_where("unlinked_activities", |r| r.text("scope") != "capture")
            .iter().map(|r| r.int("unlinked_ns")).sum();
        prop_assert_eq!(parts, if brute.steps.is_empty() { 0 } else { lost });
    }
}

/// Invariants of every input: each activity belongs to one launch or is unlinked, and parts sum to the capture.
pub fn check(what: &str, answer: &Answer) {
    let (stats, lost, calls) =
        (answer.rows("launch_stats"), answer.rows("unlinked_activities"), answer.rows("launches"));
    let mut activities: BTreeMap<i64, i64> = BTreeMap::new();
    answer.rows("kernels").iter().for_each(|r| *activities.entry(r.int("rank")).or_default() += 1);
    let sum = |rows: &[Record], rank: i64, column: &str, whole: bool| -> i64 {
        let wanted = |r: &&Record| r.int("rank") == rank && (r.text("scope") == "capture") == whole;
        rows.iter().filter(wanted).map(|r| r.int(column)).sum()
    };
    for (&rank, &all) in &activities {
        let linked = sum(&stats, rank, "activity_count", true);
        assert_eq!(linked + sum(&lost, rank, "unlinked_count", true), all, "{what}: rank {rank}");
        let listed = calls.iter().filter(|r| r.int("rank") == rank);
        assert_eq!(listed.map(|r| r.int("activity_count")).sum::<i64>(), linked, "{what}: rank {rank}");
    }
    for rank in stats.iter().chain(&lost).map(|r| r.int("rank")).collect::<BTreeSet<_>>() {
        let counts = ["launch_count", "activity_count", "cpu_sum_ns", "short_count", "idle_ns", "gpu_sum_ns"];
        for (rows, column) in counts.map(|c| (&stats, c)).into_iter().chain([(&lost, "unlinked_ns")]) {
            let whole = sum(rows, rank, column, true);
            assert_eq!(sum(rows, rank, column, false), whole, "{what}: rank {rank} {column}");
        }
    }
    for r in &calls {
        let (cpu, idle) = (r.int("cpu_dur_ns"), r.int("idle_ns"));
        assert!((0..=cpu).contains(&idle), "{what}: {}", r.0);
        assert!(r.int("gpu_busy_ns") <= r.int("gpu_dur_ns"), "{what}: {}", r.0);
        if let Some(latency) = r.opt_int("latency_ns") {
            assert_eq!(latency - r.int("delay_ns"), cpu, "{what}: {}", r.0);
        }
    }
}

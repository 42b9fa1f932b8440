//! Steps: planted slow steps and their causes, other tools' step times, and invariants between the tables of `steps`
//! and those of other analyses.

use crate::plan::{ORIGIN, Plan, plans};
use crate::robustness::brute::{Brute, Window};
use crate::robustness::invariants::check as check_all;
use crate::run::{Answer, Record, answer, one, options};
use hta::analysis::api::Options;
use hta::trace::rank_trace::StepFilter;
use hta::trace::step::StepWindow;
use hta_testkit::{Collective, Format, TraceBuilder, us};
use proptest::prelude::*;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Lengths of the parts of a step, us.
///
/// ```text
/// host      |loader....|aten::mm........|..........................|  10 us after the last activity
/// launches             ..|==|=|  submit
/// stream 7             ..........|gemm......|extra|
/// stream 20                                       |all_reduce|
/// ```
#[derive(Clone, Copy)]
struct Shape {
    loader: i64,
    extra: i64,
    all_reduce: i64,
}

/// A step of 100 us: idle 20 + 15 + 10, compute 40, communication 15.
const USUAL: Shape = Shape { loader: 20, extra: 0, all_reduce: 15 };

const LOADER: &str = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__";

/// Steps 1 to 5; step 4 has another shape.
fn five_steps(rank: u32, world: u32, odd: Shape) -> TraceBuilder {
    let mut t = TraceBuilder::new().rank(rank).world(world);
    let reduce = Collective::all_reduce(1000, "Float").group("0", "default_pg", 0..world);
    let mut at = 0;
    for number in 1..=5u64 {
        let s = if number == 4 { odd } else { USUAL };
        let run = at + s.loader;
        let end = run + 55 + s.extra + s.all_reduce + 10;
        let mut main = t.thread(1);
        main.step(number, us(at)..us(end));
        main.data_loader(us(at)..us(run));
        main.op("aten::mm", us(run)..us(run + 20));
        main.launch(us(run + 5)..us(run + 10)).kernel("gemm", 7, us(run + 15)..us(run + 55));
        if s.extra > 0 {
            main.launch(us(run + 11)..us(run + 14)).kernel("extra", 7, us(run + 55)..us(run + 55 + s.extra));
        }
        let start = run + 55 + s.extra;
        main.nccl(
            &reduce.clone().seq(number),
            us(run + 30)..us(run + 40),
            20,
            us(start)..us(start + s.all_reduce),
        );
        at = end;
    }
    t
}

fn write(folder: &Path, traces: &[TraceBuilder]) -> Vec<PathBuf> {
    let one = |(i, t): (usize, &TraceBuilder)| {
        let path = folder.join(format!("rank_{i}.json"));
        std::fs::write(&path, t.to_json()).expect("a temporary file can be written");
        path
    };
    traces.iter().enumerate().map(one).collect()
}

pub fn run(traces: &[TraceBuilder], options: &Options) -> Answer {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let answer = answer(&write(folder.path(), traces), options);
    match options.model.steps {
        None => check_all("a planted trace", &answer),
        // With selected steps, the time outside them has no row.
        Some(_) => check("a planted trace", &answer),
    };
    answer
}

/// What is said of the slow step: the note below the view of slow steps.
fn said(answer: &Answer) -> Option<String> {
    answer.notes("steps").into_iter().find(|note| note.starts_with("step 4: "))
}

/// The difference and its parts: compute, exposed communication, exposed memory, idle, us.
fn parts(row: &Record) -> [i64; 5] {
    ["diff_ns", "compute_diff_ns", "exposed_communication_diff_ns", "copies_diff_ns", "idle_diff_ns"]
        .map(|c| row.int(c) / 1000)
}

#[test]
fn a_longer_data_loader_is_found_as_the_cause_of_a_slow_step() {
    let answer = run(&[five_steps(0, 1, Shape { loader: 70, ..USUAL })], &options());
    let row = one(answer.rows("slow_steps"));
    assert_eq!((row.int("step_label"), row.int("median_step_label")), (4, 1));
    assert_eq!(parts(&row), [50, 0, 0, 0, 50]);
    assert_eq!((row.text("largest"), row.int("host_wait_diff_ns")), ("idle", us(50)));
    let host = (row.text("host_activity"), row.text("host_name"), row.int("host_diff_ns"));
    assert_eq!(host, ("data_loader", LOADER, us(50)));
    assert!(row.cell("work_name").is_null() && row.cell("rank_count").is_null(), "{}", row.0);
    let waited = answer.rows_where("slow_step_host", |r| r.int("diff_ns") != 0);
    let waited = one(waited);
    assert_eq!((waited.int("time_ns"), waited.int("median_time_ns")), (us(70), us(20)));
    let sentence = format!(
        "step 4: 50.0 us more idle, waiting for the host, which spends 50.0 us more in data loader `{LOADER}`"
    );
    assert_eq!(said(&answer), Some(sentence));
    let summary = one(answer.rows("step_summary"));
    assert_eq!((summary.int("slow_ns"), summary.int("dur_ns")), (us(50), us(550)));
}

#[test]
fn an_extra_kernel_is_found_as_the_cause_of_a_slow_step() {
    let answer = run(&[five_steps(0, 1, Shape { extra: 30, ..USUAL })], &options());
    let row = one(answer.rows("slow_steps"));
    assert_eq!(parts(&row), [30, 30, 0, 0, 0]);
    assert_eq!((row.text("largest"), row.int("activity_count_diff")), ("compute", 1));
    assert_eq!(
        (row.text("work_name"), row.int("work_diff_ns"), row.int("work_count_diff")),
        ("extra", us(30), 1)
    );
    let work = one(answer.rows_where("slow_step_work", |r| r.int("diff_ns") != 0));
    assert_eq!((work.text("name"), work.int("count"), work.int("median_count")), ("extra", 1, 0));
    let sentence = "step 4: 30.0 us more compute, the largest part in `extra` (+30.0 us, 1 more call)";
    assert_eq!(said(&answer).as_deref(), Some(sentence));
}

#[test]
fn a_longer_collective_is_found_as_the_cause_of_a_slow_step() {
    let answer = run(&[five_steps(0, 1, Shape { all_reduce: 65, ..USUAL })], &options());
    let row = one(answer.rows("slow_steps"));
    assert_eq!(parts(&row), [50, 0, 50, 0, 0]);
    assert!(row.text("work_name").contains("AllReduce"), "{}", row.0);
    assert_eq!((row.int("work_diff_ns"), row.int("work_count_diff")), (us(50), 0));
    let sentence = said(&answer).expect("a note");
    assert!(sentence.contains("50.0 us more waiting or transfer, the largest part in `nccl"), "{sentence}");
}

/// Rank 0 is late in step 4; rank 1 waits for it in the all-reduce.
#[test]
fn of_two_slow_ranks_the_one_that_does_not_only_wait_is_named() {
    let traces = [
        five_steps(0, 2, Shape { all_reduce: 65, ..USUAL }),
        five_steps(1, 2, Shape { loader: 70, ..USUAL }),
    ];
    let answer = run(&traces, &options());
    let rows = answer.rows("slow_steps");
    assert_eq!(rows.iter().map(parts).collect::<Vec<_>>(), [[50, 0, 50, 0, 0], [50, 0, 0, 0, 50]]);
    for r in &rows {
        assert_eq!((r.text("joined_by"), r.int("rank_count"), r.int("slow_rank_count")), ("label", 2, 2));
    }
    let sentence = said(&answer).expect("a note");
    assert!(sentence.starts_with("step 4: rank 1, 50.0 us more idle, waiting for the host"), "{sentence}");
}

#[test]
fn a_step_that_is_slow_on_one_rank_is_said_to_be() {
    let answer = run(&[five_steps(0, 2, USUAL), five_steps(1, 2, Shape { extra: 30, ..USUAL })], &options());
    let row = one(answer.rows("slow_steps"));
    assert_eq!((row.int("rank"), row.int("rank_count"), row.int("slow_rank_count")), (1, 2, 1));
    let sentence = said(&answer).expect("a note");
    assert!(sentence.starts_with("step 4: rank 1, 30.0 us more compute"), "{sentence}");
}

#[test]
fn equal_steps_have_a_summary_and_nothing_slow() {
    let answer = run(&[five_steps(0, 1, USUAL)], &options());
    let s = one(answer.rows("step_summary"));
    let times =
        ["min_ns", "median_ns", "p95_ns", "max_ns", "slow_above_ns", "mad_ns", "slow_ns"].map(|c| s.int(c));
    assert_eq!(times, [us(100), us(100), us(100), us(100), us(105), 0, 0]);
    let counts = ["step_count", "full_count", "slow_count"].map(|c| s.int(c));
    assert_eq!((counts, s.text("step_rule")), ([5, 5, 0], "profiler_step"));
    assert_eq!((s.float("variation_ratio"), s.float("std_ns")), (Some(0.0), Some(0.0)));
    for r in answer.rows("steps") {
        let classes = ["compute_ns", "exposed_communication_ns", "copies_ns", "idle_ns"].map(|c| r.int(c));
        assert_eq!(classes, [us(40), us(15), 0, us(45)]);
        // the all-reduce ends 10 us before the annotation
        assert_eq!((r.int("launched_count"), r.int("gpu_lag_ns")), (2, -us(10)));
        assert_eq!((r.float("ratio_to_median"), r.flag("is_slow")), (Some(1.0), Some(false)));
    }
    assert!(answer.rows("slow_steps").is_empty() && said(&answer).is_none());
}

/// Of five steps three launch twice as much: the others do less by design, and are whole. One among them that is cut
/// has less than its like.
#[test]
fn where_every_second_step_does_more_the_others_are_whole() {
    let partial = |launches: &[i64]| -> Vec<bool> {
        let mut t = TraceBuilder::new().rank(0).world(1);
        let mut at = 0;
        for (number, n) in (1..).zip(launches) {
            let mut main = t.thread(1);
            main.step(number, us(at)..us(at + 20 * n + 30));
            for k in 0..*n {
                let start = at + 20 * k;
                main.launch(us(start)..us(start + 5)).kernel("gemm", 7, us(start + 10)..us(start + 25));
            }
            at += 20 * n + 40;
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        let rows = answer(&write(folder.path(), &[t]), &options()).rows("steps");
        rows.iter().map(|r| r.cell("is_partial") == Value::Bool(true)).collect()
    };
    assert_eq!(partial(&[20, 10, 20, 10, 20]), [false; 5]);
    assert_eq!(partial(&[20, 20, 10, 20, 20]), [false, false, true, false, false]);
    assert_eq!(partial(&[20, 10, 20, 5, 20, 10, 20]), [false, false, false, true, false, false, false]);
}

#[test]
fn chosen_steps_are_judged_as_if_the_others_were_not_there() {
    let mut two = options();
    two.model.steps = Some(StepFilter { labels: vec![(4, 5)], indices: Vec::new() });
    let answer = run(&[five_steps(0, 1, Shape { loader: 70, ..USUAL })], &two);
    let steps = answer.rows("steps");
    assert_eq!(steps.len(), 2);
    // Two steps are too few for a slow one; the lower of the two is the median.
    assert!(steps.iter().all(|r| r.cell("is_slow").is_null()), "{steps:?}");
    assert_eq!(steps[0].float("ratio_to_median"), Some(1.5));
    assert_eq!(one(answer.rows("step_summary")).int("median_ns"), us(100));
    two.model.steps = Some(StepFilter { labels: vec![(9, 9)], indices: Vec::new() });
    let folder = tempfile::tempdir().expect("a temporary folder");
    let paths = write(folder.path(), &[five_steps(0, 1, USUAL)]);
    let refused = crate::run::try_run(&paths, &two).err().expect("there is no such step").to_string();
    assert!(refused.contains("cannot use `9` for --steps"), "{refused}");
}

#[test]
fn without_marks_the_capture_is_the_one_step_and_is_not_compared() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut t = TraceBuilder::new().rank(0);
    t.thread(1).launch(us(0)..us(5)).kernel("gemm", 7, us(10)..us(30));
    let answer = answer(&write(folder.path(), &[t]), &options());
    let step = one(answer.rows("steps"));
    assert_eq!(
        (step.int("dur_ns"), step.int("compute_ns"), step.cell("is_slow")),
        (us(30), us(20), Value::Null)
    );
    assert_eq!(one(answer.rows("step_summary")).text("step_rule"), "capture");
    assert!(answer.rows("slow_steps").is_empty());
}

/// The median step and the slow ones, computed again from the definitions on sorted durations.
fn slow_again(durations: &[(i64, bool)]) -> Option<(i64, i64, Vec<usize>)> {
    let full: Vec<i64> = durations.iter().filter(|d| !d.1).map(|d| d.0).collect();
    let all: Vec<i64> = durations.iter().map(|d| d.0).collect();
    let mut base = if full.is_empty() { all.clone() } else { full };
    let middle = |v: &mut Vec<i64>| {
        v.sort_unstable();
        v[(v.len() - 1) / 2]
    };
    let median = if base.is_empty() { return None } else { middle(&mut base) };
    let mad = middle(&mut base.iter().map(|d| (d - median).abs()).collect());
    // In units of 1/10000 ns, to avoid rounding.
    let margin = (i128::from(median) * 500).max(i128::from(mad) * 3 * 14_826);
    let slow = |d: &i64| base.len() >= 3 && i128::from(d - median) * 10_000 > margin;
    Some((median, mad, (0..all.len()).filter(|&i| slow(&all[i])).collect()))
}

/// Invariants between the tables of an answer. Returns the number of slow steps.
pub fn check(what: &str, answer: &Answer) -> usize {
    let (steps, summaries) = (answer.rows("steps"), answer.rows("step_summary"));
    let (slow, host, work) =
        (answer.rows("slow_steps"), answer.rows("slow_step_host"), answer.rows("slow_step_work"));
    let breakdown = answer.rows_where("temporal_breakdown", |r| r.text("scope") == "step");
    let idle = answer.rows_where("idle", |r| r.text("scope") == "step" && r.opt_int("stream").is_none());
    let idle_host = answer.rows_where("idle_host", |r| r.text("scope") == "step");
    type Place = (i64, Option<i64>, i64);
    let place = |r: &Record| -> Place { (r.int("rank"), r.opt_int("device"), r.int("step")) };
    let windows: BTreeMap<Place, &Record> = breakdown.iter().map(|r| (place(r), r)).collect();
    let gaps: BTreeMap<Place, &Record> = idle.iter().map(|r| (place(r), r)).collect();
    let marks: BTreeSet<&str> = steps.iter().map(|s| s.text("name")).collect();
    for s in &steps {
        let own: Vec<&Record> = breakdown
            .iter()
            .filter(|b| (b.int("rank"), b.int("step")) == (s.int("rank"), s.int("step")))
            .collect();
        assert!(own.iter().all(|b| b.int("dur_ns") == s.int("dur_ns")), "{what}: {}", s.0);
        for c in ["compute_ns", "exposed_communication_ns", "copies_ns", "idle_ns"] {
            let want = if let [one] = own[..] { Some(one.int(c)) } else { None };
            assert_eq!(s.opt_int(c), want, "{what}: {c} of {}", s.0);
        }
        assert!(s.int("launched_count") <= s.int("activity_count"), "{what}: {}", s.0);
        assert_eq!(s.opt_int("gpu_lag_ns").is_none(), s.int("launched_count") == 0, "{what}: {}", s.0);
    }
    let mut expected = 0;
    for s in &summaries {
        let rank = s.int("rank");
        let own: Vec<&Record> = steps.iter().filter(|r| r.int("rank") == rank).collect();
        let partial = |r: &Record| r.cell("is_partial") == Value::Bool(true);
        let durations: Vec<(i64, bool)> = own.iter().map(|r| (r.int("dur_ns"), partial(r))).collect();
        let (median, mad, mut indices) = slow_again(&durations).expect("a summary has steps");
        let mut usual = vec![median; durations.len()];
        if let Some((period, first)) = s.opt_int("period").zip(s.opt_int("period_first")) {
            // Every k-th step does more: steps are compared with their like.
            indices.clear();
            for more in [false, true] {
                let alike: Vec<usize> =
                    (0..durations.len()).filter(|i| (*i as i64 % period == first) == more).collect();
                let of: Vec<(i64, bool)> = alike.iter().map(|i| durations[*i]).collect();
                let Some((median, _, slow)) = slow_again(&of) else { continue };
                alike.iter().for_each(|i| usual[*i] = median);
                indices.extend(slow.into_iter().map(|i| alike[i]));
            }
            indices.sort_unstable();
        }
        let iterations = answer.rows_where("iterations", |r| r.int("rank") == rank);
        let kind = |r: &Record| ["phase", "mode", "requests"].map(|c| r.cell(c).to_string());
        if iterations.iter().map(kind).collect::<BTreeSet<_>>().len() > 1 {
            // Iterations that differ by design are not compared.
            assert_eq!(s.cell("slow_above_ns"), Value::Null, "{what}: {}", s.0);
            indices.clear();
        }
        assert_eq!((s.int("median_ns"), s.int("mad_ns")), (median, mad), "{what}: {}", s.0);
        let full = durations.iter().filter(|d| !d.1).count();
        let counts = ["step_count", "full_count", "slow_count"].map(|c| s.int(c) as usize);
        assert_eq!(counts, [own.len(), full, indices.len()], "{what}: {}", s.0);
        let over: i64 = indices.iter().map(|&i| durations[i].0 - usual[i]).sum();
        assert_eq!(s.int("slow_ns"), over, "{what}: {}", s.0);
        let marked: Vec<usize> =
            (0..own.len()).filter(|&i| own[i].cell("is_slow") == Value::Bool(true)).collect();
        assert_eq!(marked, indices, "{what}: rank {rank}");
        let devices = breakdown.iter().filter(|b| b.int("rank") == rank && b.int("step") == 0).count();
        let rows = slow.iter().filter(|r| r.int("rank") == rank).count();
        // With --steps, the first step may not be among the rows.
        if own.first().is_some_and(|r| r.int("step") == 0) {
            assert_eq!(rows, indices.len() * devices, "{what}: rank {rank}");
        }
        expected += indices.len();
    }
    assert!(!slow.is_empty() || (host.is_empty() && work.is_empty()), "{what}");
    for r in &slow {
        let (here, usual) = (place(r), (r.int("rank"), r.opt_int("device"), r.int("median_step")));
        let diff = |map: &BTreeMap<Place, &Record>, c: &str| map[&here].int(c) - map[&usual].int(c);
        assert!(r.int("diff_ns") > 0 && r.int("diff_ns") == diff(&windows, "dur_ns"), "{what}: {}", r.0);
        let parts = ["compute", "exposed_communication", "copies", "idle"];
        let of = |c: &str| r.int(&format!("{c}_diff_ns"));
        assert_eq!(parts.iter().map(|c| of(c)).sum::<i64>(), r.int("diff_ns"), "{what}: {}", r.0);
        for c in parts {
            assert_eq!(of(c), diff(&windows, &format!("{c}_ns")), "{what}: {c} of {}", r.0);
            assert!(of(c) <= of(r.text("largest")), "{what}: {}", r.0);
        }
        let waits = ["host_wait", "kernel_wait", "other"];
        assert_eq!(waits.iter().map(|c| of(c)).sum::<i64>(), of("idle"), "{what}: {}", r.0);
        for c in waits {
            assert_eq!(of(c), diff(&gaps, &format!("{c}_ns")), "{what}: {c} of {}", r.0);
        }
        let own = |rows: &[Record]| rows.iter().filter(|x| place(x) == here).cloned().collect::<Vec<_>>();
        let waited = own(&host);
        assert_eq!(waited.iter().map(|x| x.int("diff_ns")).sum::<i64>(), of("idle"), "{what}: {}", r.0);
        for x in &waited {
            assert_eq!(x.int("time_ns") - x.int("median_time_ns"), x.int("diff_ns"), "{what}: {}", x.0);
            if x.text("wait") == "host_wait" {
                // Must agree with `idle_host` for both windows.
                let name = |y: &Record| match (y.text("activity"), y.text("name")) {
                    ("annotation", n) if marks.contains(n) => "[step]".to_string(),
                    (_, n) => n.to_string(),
                };
                let activity = |y: &Record| y.text("activity").to_string();
                let same =
                    |y: &Record, p: Place| place(y) == p && activity(y) == activity(x) && name(y) == name(x);
                let time = |p| idle_host.iter().filter(|y| same(y, p)).map(|y| y.int("time_ns")).sum::<i64>();
                assert_eq!(
                    (x.int("time_ns"), x.int("median_time_ns")),
                    (time(here), time(usual)),
                    "{what}: {}",
                    x.0
                );
            }
        }
        let named = own(&work);
        for x in &named {
            assert_eq!(x.int("sum_ns") - x.int("median_sum_ns"), x.int("diff_ns"), "{what}: {}", x.0);
        }
        let counts: i64 = named.iter().map(|x| x.int("count") - x.int("median_count")).sum();
        assert_eq!(counts, r.int("activity_count_diff"), "{what}: {}", r.0);
    }
    // For device activities, names sum to all durations by step of the launch.
    let kernels = answer.rows("kernels");
    for r in slow.iter().filter(|r| !kernels.is_empty() && r.opt_int("device").is_some()) {
        let of_step = |step: i64| -> i64 {
            let own = kernels
                .iter()
                .filter(|k| (k.int("rank"), k.opt_int("device")) == (r.int("rank"), r.opt_int("device")));
            own.filter(|k| k.opt_int("step") == Some(step)).map(|k| k.int("dur_ns")).sum()
        };
        let sum: i64 = work.iter().filter(|x| place(x) == place(r)).map(|x| x.int("diff_ns")).sum();
        assert_eq!(sum, of_step(r.int("step")) - of_step(r.int("median_step")), "{what}: {}", r.0);
    }
    expected
}

fn find(windows: &[Window], step: i64) -> &Window {
    windows.iter().find(|w| w.step == Some(step)).expect("a window per step")
}

/// Plans with enough steps for a slow one.
fn with_steps() -> impl Strategy<Value = Plan> {
    let steps = prop::collection::vec((prop_oneof![3 => Just(10i64), 1 => 4i64..26], 0i64..3), 3..6);
    (plans(), steps).prop_map(|(plan, steps)| Plan { steps, ..plan })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn differences_equal_a_count_of_every_nanosecond(plan in with_steps()) {
        const KERNEL_WAIT: i64 = 6;
        let rows = plan.rows();
        for window in [StepWindow::Host, StepWindow::Device] {
            let Some(brute) = Brute::new(&rows, window == StepWindow::Device, KERNEL_WAIT) else { continue };
            let mut o = options();
            o.model.step_window = window;
            o.kernel_wait_max = KERNEL_WAIT;
            let folder = tempfile::tempdir().expect("a temporary folder");
            let answer = answer(&[plan.write(folder.path(), ORIGIN, &Format::default())], &o);
            check_all("a random trace", &answer);
            let devices = brute.devices();
            for r in answer.rows("slow_steps") {
                let d = devices.iter().find(|d| d.device == r.opt_int("device")).expect("a device");
                let (slow, usual) = (find(&d.windows, r.int("step")), find(&d.windows, r.int("median_step")));
                let cells = |keep: &dyn Fn(usize) -> bool| -> i64 {
                    (0..8).filter(|s| keep(*s)).map(|s| slow.sets[s] - usual.sets[s]).sum()
                };
                prop_assert_eq!(r.int("diff_ns"), slow.dur - usual.dur);
                prop_assert_eq!(r.int("compute_diff_ns"), cells(&|s| s & 1 != 0));
                prop_assert_eq!(r.int("exposed_communication_diff_ns"), cells(&|s| s & 3 == 2));
                prop_assert_eq!(r.int("copies_diff_ns"), cells(&|s| s == 4));
                prop_assert_eq!(r.int("idle_diff_ns"), cells(&|s| s == 0));
                prop_assert_eq!(r.int("host_wait_diff_ns"), slow.host_wait - usual.host_wait);
                prop_assert_eq!(r.int("kernel_wait_diff_ns"), slow.kernel_wait - usual.kernel_wait);
                let mut named: BTreeMap<String, i64> = BTreeMap::new();
                let own = |x: &Record| (x.opt_int("device"), x.int("step")) == (r.opt_int("device"), r.int("step"));
                for x in answer.rows_where("slow_step_host", |x| own(x) && x.text("wait") == "host_wait") {
                    *named.entry(x.text("name").to_string()).or_default() += x.int("diff_ns");
                }
                for (name, diff) in named {
                    let is = |n: &str| if name == "[step]" { n.starts_with("ProfilerStep#") } else { n == name };
                    let of = |w: &Window| w.host.iter().filter(|(n, _)| is(n)).map(|(_, ns)| ns).sum::<i64>();
                    prop_assert_eq!(diff, of(slow) - of(usual), "{}", name);
                }
            }
        }
    }
}

#[test]
fn random_traces_have_slow_steps_to_check() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let mut slow = 0;
    for _ in 0..40 {
        let plan = with_steps().new_tree(&mut runner).expect("a plan").current();
        let folder = tempfile::tempdir().expect("a temporary folder");
        slow += check(
            "a random trace",
            &answer(&[plan.write(folder.path(), ORIGIN, &Format::default())], &options()),
        );
    }
    assert!(slow >= 10, "{slow} slow steps");
}

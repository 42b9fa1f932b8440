//! Annotations: small traces checked by eye, and random ones compared with counting every nanosecond.

use crate::cli::one_analysis::{of_trace, set};
use crate::plan::{Class, Kind, ORIGIN, Row, plans};
use crate::robustness::brute::Brute;
use crate::run::{Answer, Record, ints, options};
use hta_testkit::TraceBuilder;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const TIMES: [&str; 7] =
    ["activity_count", "gpu_ns", "gpu_self_ns", "busy_ns", "compute_ns", "communication_ns", "memory_ns"];

/// The row of a name over the capture.
fn row(answer: &Answer, name: &str) -> Record {
    let mut rows =
        answer.rows_where("user_annotations", |r| r.text("scope") == "capture" && r.text("name") == name);
    assert_eq!(rows.len(), 1, "{name}: {rows:?}");
    rows.remove(0)
}

/// ```text
///             0    10   20   30   40   50   60   70   80   90
///   thread 1  [train...................................)
///               [forward......)      [backward..)
///   launches     a   b            c    d                  e
///   stream         [a.)[b...)       [c.......)
///                                        [d: copy....)      [e)
/// ```
fn training() -> TraceBuilder {
    let mut t = TraceBuilder::new().rank(0);
    t.thread(1).annotation("train", 0..80);
    t.thread(1).annotation("forward", 4..34);
    t.thread(1).annotation("backward", 50..70);
    for (launch, kernel) in [(6..8, 10..16), (16..18, 18..28), (40..42, 44..60)] {
        t.thread(1).launch(launch).kernel("gemm", 7, kernel);
    }
    t.thread(1).launch(52..54).memcpy("HtoD (Pinned -> Device)", 8, 64, 55..75);
    t.thread(1).launch(85..87).kernel("gemm", 7, 88..92);
    t
}

#[test]
fn activities_belong_to_what_is_open_at_their_launch() {
    let answer = of_trace("annotations", &training(), &options());
    assert_eq!(ints(&row(&answer, "train"), TIMES), [4, 52, 16, 47, 32, 0, 20]);
    assert_eq!(ints(&row(&answer, "forward"), TIMES), [2, 16, 16, 16, 16, 0, 0]);
    assert_eq!(ints(&row(&answer, "backward"), TIMES), [1, 20, 20, 20, 0, 0, 20]);
    assert_eq!(ints(&row(&answer, "(none)"), TIMES), [1, 4, 4, 4, 4, 0, 0]);
    let train = row(&answer, "train");
    assert_eq!(ints(&train, ["range_count", "range_sum_ns", "range_max_ns", "working_ns"]), [1, 80, 80, 8]);
    assert_eq!(train.text("side"), "host");
    assert_eq!(row(&answer, "(none)").opt_int("range_p50_ns"), None);
}

#[test]
fn with_a_pattern_the_time_is_shared_out_among_what_matches() {
    let mut o = options();
    set(&mut o, "annotations", "--match", "^(for|back)ward$");
    let answer = of_trace("annotations", &training(), &o);
    let names = answer.rows_where("user_annotations", |r| r.text("scope") == "capture");
    assert_eq!(names.iter().map(|r| r.text("name")).collect::<Vec<_>>(), ["backward", "(none)", "forward"]);
    assert_eq!(ints(&row(&answer, "(none)"), ["activity_count", "gpu_self_ns"]), [2, 20]);
}

#[test]
fn a_name_nested_in_itself_owns_an_activity_once() {
    let mut t = TraceBuilder::new().rank(0);
    t.thread(1).annotation("again", 0..100);
    t.thread(1).annotation("again", 10..50);
    t.thread(1).launch(20..25).kernel("k", 7, 30..40);
    let r = row(&of_trace("annotations", &t, &options()), "again");
    assert_eq!(ints(&r, ["range_count", "range_sum_ns", "working_ns"]), [2, 140, 5]);
    assert_eq!(ints(&r, ["activity_count", "gpu_ns", "gpu_self_ns"]), [1, 10, 10]);
}

/// Each range contains all later ones and launches a kernel that runs on past the next one's.
///
/// ```text
///   thread     [0.............................)        kernels  [0...)
///                 [1.......................)                      [1...)
///                    [2.................)                           [2...)
/// ```
#[test]
fn ranges_nested_to_any_depth_own_what_is_launched_in_those_inside_them() {
    let depth = 10_000;
    let mut t = TraceBuilder::new().rank(0);
    for i in 0..depth {
        t.thread(1).annotation(&format!("range {i}"), 10 * i..30 * depth - 10 * i);
        t.thread(1).launch(10 * i + 2..10 * i + 4).kernel(
            "gemm",
            7 + i % 2,
            30 * depth + 10 * i..30 * depth + 10 * i + 15,
        );
    }
    let answer = of_trace("annotations", &t, &options());
    let rows = answer.rows_where("user_annotations", |r| r.text("scope") == "capture");
    assert_eq!(rows.len() as i64, depth + 1);
    for r in rows.iter().filter(|r| r.text("name") != "(none)") {
        let outside: i64 = r.text("name").trim_start_matches("range ").parse().unwrap();
        let inside = depth - outside;
        let union = 10 * inside + 5;
        assert_eq!(ints(r, TIMES), [inside, 15 * inside, 15, union, union, 0, 0]);
    }
}

/// The launch is not recorded, but the profiler drew two ranges around the kernel: the shorter one owns it.
#[test]
fn an_activity_without_a_launch_belongs_to_the_shortest_range_drawn_around_its_start() {
    let mut t = TraceBuilder::new().rank(0);
    t.gpu_annotation("long", 7, 0..100);
    t.gpu_annotation("short", 7, 40..60);
    t.gpu_annotation("elsewhere", 8, 45..55);
    t.unlinked().kernel("k", 7, 50..70);
    t.unlinked().kernel("k", 7, 60..65);
    t.unlinked().kernel("k", 9, 50..55);
    let answer = of_trace("annotations", &t, &options());
    let of = |name| ints(&row(&answer, name), ["range_count", "activity_count", "gpu_self_ns"]);
    assert_eq!(of("short"), [1, 1, 20]);
    assert_eq!(of("long"), [1, 1, 5]);
    assert_eq!(of("elsewhere"), [1, 0, 0]);
    assert_eq!(of("(none)"), [0, 1, 5]);
    assert_eq!(row(&answer, "short").text("side"), "gpu");
}

#[test]
fn steps_are_marked_and_a_range_belongs_to_the_step_of_its_start() {
    let mut t = TraceBuilder::new().rank(0);
    for step in 0..2 {
        let at = step as i64 * 100;
        t.thread(1).step(step, at..at + 100);
        t.thread(1).annotation("forward", at + 10..at + 50);
        t.thread(1).launch(at + 20..at + 30).kernel("k", 7, at + 60..at + 130);
    }
    let answer = of_trace("annotations", &t, &options());
    for r in answer.rows("user_annotations") {
        assert_eq!(r.flag("is_step"), Some(r.text("name").starts_with("ProfilerStep")), "{}", r.0);
    }
    let steps =
        answer.rows_where("user_annotations", |r| r.text("scope") == "step" && r.text("name") == "forward");
    let columns = ["step", "range_count", "activity_count", "gpu_ns", "busy_ns"];
    assert_eq!(
        steps.iter().map(|r| ints(r, columns)).collect::<Vec<_>>(),
        [[0, 1, 1, 70, 70], [1, 1, 1, 70, 70]]
    );
    let printed: Vec<Vec<String>> = answer.views().into_iter().flat_map(|view| view.rows).collect();
    assert_eq!(printed.len(), 1, "{printed:?}");
    assert_eq!(printed[0][0], "forward");
}

#[test]
fn a_cpu_only_rank_has_ranges_and_working_time() {
    let mut t = TraceBuilder::new().rank(0);
    t.thread(1).annotation("data", 0..50);
    t.thread(1).op("aten::cat", 10..20);
    t.thread(1).op("aten::copy_", 12..15);
    t.thread(2).op("aten::elsewhere", 0..50);
    let answer = of_trace("annotations", &t, &options());
    let all = answer.rows_where("user_annotations", |r| r.text("scope") == "capture");
    assert_eq!(all.len(), 1);
    assert_eq!(ints(&all[0], ["range_sum_ns", "working_ns", "gpu_ns"]), [50, 10, 0]);
    assert_eq!(all[0].opt_int("device"), None);
}

/// Device, scope, step, side and name.
type Key = (Option<i64>, String, Option<i64>, &'static str, String);

/// The expected values of a row.
#[derive(Default, Debug, PartialEq, Clone)]
struct Want {
    ranges: Vec<usize>,
    activities: Vec<usize>,
    own: i64,
}

fn host_range(r: &Row) -> bool {
    matches!(r.kind, Kind::Step | Kind::Annotation | Kind::CommunicationRange | Kind::Loader)
}

fn drawn_range(r: &Row) -> bool {
    r.kind == Kind::Drawn && r.name == "range_0"
}

/// Computed directly from the definitions, one activity and one range at a time.
fn wanted(rows: &[Row], brute: &Brute) -> BTreeMap<Key, Want> {
    let mut want: BTreeMap<Key, Want> = BTreeMap::new();
    let mut devices: Vec<Option<i64>> =
        rows.iter().filter(|r| r.kind == Kind::Gpu).map(|r| Some(r.device)).collect();
    devices.sort_unstable();
    devices.dedup();
    let scopes = |t: i64| {
        let mut all = vec![("capture".to_string(), None)];
        if !brute.steps.is_empty() {
            let unmarked = !rows.iter().any(|r| r.kind == Kind::Step);
            let step = if unmarked { Some(0) } else { brute.step_at(t) };
            all.push((if step.is_some() { "step" } else { "outside" }.to_string(), step));
        }
        all
    };
    for (i, r) in rows.iter().enumerate().filter(|(_, r)| host_range(r) || drawn_range(r)) {
        let on = match (drawn_range(r), devices.is_empty()) {
            // drawn on device 0
            (true, _) => vec![Some(0)],
            (false, true) => vec![None],
            (false, false) => devices.clone(),
        };
        let side = if drawn_range(r) { "gpu" } else { "host" };
        for device in on {
            for (scope, step) in scopes(r.start) {
                want.entry((device, scope, step, side, r.name.clone())).or_default().ranges.push(i);
            }
        }
    }
    if want.is_empty() {
        return want;
    }
    for device in &devices {
        let mut windows = vec![("capture".to_string(), None)];
        windows.extend((0..brute.steps.len()).map(|s| ("step".to_string(), Some(s as i64))));
        if !brute.steps.is_empty() {
            windows.push(("outside".to_string(), None));
        }
        for (scope, step) in windows {
            want.insert((*device, scope, step, "none", "(none)".to_string()), Want::default());
        }
    }
    for (i, a) in rows.iter().enumerate().filter(|(_, r)| r.kind == Kind::Gpu) {
        let mut names: Vec<(&'static str, String)> = Vec::new();
        let mut own = ("none", "(none)".to_string());
        match a.launch.map(|l| &rows[l]) {
            Some(l) => {
                let is_open = |r: &&Row| {
                    host_range(r) && r.thread == l.thread && r.start <= l.start && l.start <= r.end
                };
                let open: Vec<&Row> = rows.iter().filter(is_open).collect();
                names.extend(open.iter().map(|r| ("host", r.name.clone())));
                if let Some(inner) = open.iter().max_by_key(|r| (r.start, -r.end)) {
                    own = ("host", inner.name.clone());
                }
            }
            None => {
                let holds = |r: &&Row| {
                    drawn_range(r) && (a.device, a.stream) == (0, 1) && r.start <= a.start && a.start < r.end
                };
                if let Some(r) = rows.iter().filter(holds).min_by_key(|r| r.end - r.start) {
                    own = ("gpu", r.name.clone());
                    names.push(own.clone());
                }
            }
        }
        if names.is_empty() {
            names.push(own.clone());
        }
        names.sort();
        names.dedup();
        for (side, name) in names {
            for (scope, step) in scopes(a.launch.map_or(a.start, |l| rows[l].start)) {
                let w = want.entry((Some(a.device), scope, step, side, name.clone())).or_default();
                w.activities.push(i);
                w.own += if own == (side, name.clone()) { a.end - a.start } else { 0 };
            }
        }
    }
    want
}

/// Number of instants at which any of these rows is open.
fn cells<'a>(rows: impl Iterator<Item = &'a Row> + Clone) -> i64 {
    (0..200).filter(|t| rows.clone().any(|r| r.start <= *t && *t < r.end)).count() as i64
}

/// Number of instants inside ranges of a thread at which it works, summed over threads.
fn working(rows: &[Row], ranges: &[usize]) -> i64 {
    let works =
        |r: &Row| matches!(r.kind, Kind::Op | Kind::CommunicationOp | Kind::Call | Kind::CommunicationRange);
    let at = |r: &Row, thread: i64, t: i64| r.thread == thread && r.start <= t && t < r.end;
    let count = |thread: i64| {
        let inside = |t: &i64| ranges.iter().any(|&i| at(&rows[i], thread, *t));
        (0..200).filter(inside).filter(|t| rows.iter().any(|r| works(r) && at(r, thread, *t))).count() as i64
    };
    count(1) + count(2)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn annotations_equal_a_count_of_every_nanosecond(plan in plans()) {
        let rows = plan.rows();
        let Some(brute) = Brute::new(&rows, false, 30_000) else { return Ok(()) };
        let mut o = options();
        if plan.steps.is_empty() {
            o.model.step_pattern = regex::Regex::new("^ProfilerStep#").ok();
        }
        let answer = of_trace("annotations", &plan.builder(ORIGIN), &o);
        let mut want = wanted(&rows, &brute);
        let table = answer.rows("user_annotations");
        prop_assert_eq!(table.len(), want.len(), "{:?}", want.keys());
        let mut own: BTreeMap<(Option<i64>, String), i64> = BTreeMap::new();
        for r in &table {
            let side = ["host", "gpu", "none"].into_iter().find(|s| *s == r.text("side")).expect("a side");
            let key = (r.opt_int("device"), r.text("scope").to_string(), r.opt_int("step"), side, r.text("name").to_string());
            let w = want.remove(&key);
            prop_assert!(w.is_some(), "{:?} is not in the plan", key);
            let w = w.unwrap_or_default();
            let mut lengths: Vec<i64> = w.ranges.iter().map(|&i| rows[i].end - rows[i].start).collect();
            lengths.sort_unstable();
            prop_assert_eq!(
                ints(r, ["range_count", "range_sum_ns"]),
                [lengths.len() as i64, lengths.iter().sum::<i64>()]
            );
            prop_assert_eq!(r.opt_int("range_min_ns"), lengths.first().copied());
            prop_assert_eq!(r.opt_int("range_max_ns"), lengths.last().copied());
            let works = (side == "host").then(|| working(&rows, &w.ranges));
            prop_assert_eq!(r.opt_int("working_ns"), works, "{:?}", key);
            let of = || w.activities.iter().map(|&i| &rows[i]);
            let class = |c: Class| cells(of().filter(move |a| a.class == c));
            let gpu = of().map(|a| a.end - a.start).sum::<i64>();
            let expected = [w.activities.len() as i64, gpu, w.own, cells(of()),
                class(Class::Compute), class(Class::Communication), class(Class::Memory)];
            prop_assert_eq!(ints(r, TIMES), expected, "{:?}", key);
            prop_assert!(w.own <= gpu);
            *own.entry((key.0, key.1)).or_default() += r.int("gpu_self_ns");
        }
        // Self times partition all durations.
        for ((device, scope), sum) in own.iter().filter(|(k, _)| k.1 == "capture") {
            let all: i64 = rows.iter().filter(|r| r.kind == Kind::Gpu && Some(r.device) == *device)
                .map(|r| r.end - r.start).sum();
            prop_assert_eq!(*sum, all, "{:?} {}", device, scope);
        }
    }
}

/// Invariants of every input: self times partition all durations, and are part of the inclusive ones.
pub fn check(what: &str, answer: &Answer) {
    let mut own: BTreeMap<(i64, Option<i64>, bool), i64> = BTreeMap::new();
    let table = answer.rows("user_annotations");
    for r in &table {
        let place = (r.int("rank"), r.opt_int("device"), r.text("scope") == "capture");
        *own.entry(place).or_default() += r.int("gpu_self_ns");
        assert!(r.int("gpu_self_ns") <= r.int("gpu_ns"), "{what}: {}", r.0);
        let parts = ["compute_ns", "communication_ns", "memory_ns"].map(|c| r.int(c));
        let busy = r.int("busy_ns");
        assert!(parts.iter().all(|p| *p <= busy) && busy <= parts.iter().sum(), "{what}: {}", r.0);
        let (count, sum) = (r.int("range_count"), r.int("range_sum_ns"));
        let [min, max] = ["range_min_ns", "range_max_ns"].map(|c| r.opt_int(c).unwrap_or(0));
        assert!(count * min <= sum && sum <= count * max, "{what}: {}", r.0);
        assert!(r.opt_int("working_ns").is_none_or(|w| (0..=sum).contains(&w)), "{what}: {}", r.0);
    }
    let ranks: BTreeSet<i64> = table.iter().map(|r| r.int("rank")).collect();
    let mut all: BTreeMap<(i64, Option<i64>), i64> = BTreeMap::new();
    for r in answer.rows("kernels").iter().filter(|r| ranks.contains(&r.int("rank"))) {
        *all.entry((r.int("rank"), r.opt_int("device"))).or_default() += r.int("dur_ns");
    }
    for ((rank, device), sum) in all {
        for whole in [true, false] {
            assert_eq!(own.get(&(rank, device, whole)), Some(&sum), "{what}: rank {rank} device {device:?}");
        }
    }
}

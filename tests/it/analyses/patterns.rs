//! Repeated kernel sequences: by eye, by a slow search in the table of kernels, and on real traces.

use crate::plan::{ORIGIN, plans};
use crate::robustness::invariants::traces_below;
use crate::run::{Answer, Record, answer, one, options, try_run};
use crate::shared;
use hta::analysis::api::Options;
use hta::registry::find;
use hta_testkit::{Format, TraceBuilder, us};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn with(given: &[(&str, &str)]) -> Options {
    let mut o = options();
    let analysis = find("patterns").expect("it is registered");
    for (flag, text) in given {
        let setting = analysis.about().settings.iter().find(|s| s.flag == *flag).expect("a setting");
        o.settings.set(setting, text).expect("a value");
    }
    o
}

pub fn of(t: &TraceBuilder, options: &Options) -> Answer {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("rank_0.json");
    std::fs::write(&path, t.to_json()).expect("a trace is written");
    answer(&[path], options)
}

/// Three rounds of `a b c`, one per step, launched one by one or as a graph, and something else after each.
///
/// ```text
///   us         0    5    10   15   20   25   30   35   40
///   op         |aten::linear......|         |aten::add|
///   launches     |2||=3| |1|                 |2|
///   stream 7             |a========|  |b=||c=|    |x|
///   stream 9                       |-|
/// ```
fn rounds(graph: bool) -> TraceBuilder {
    let mut t = TraceBuilder::new().rank(0).world(1).host("h").device("NVIDIA H100", 132);
    for k in 0..3u8 {
        let at = |x: i64| us(100 * i64::from(k) + x);
        let mut main = t.thread(1);
        main.step(u64::from(k), at(0)..at(99));
        main.op("aten::linear", at(0)..at(20));
        main.op("aten::addmm", at(1)..at(19));
        let kernels = [("a", at(10)..at(20)), ("b", at(23)..at(26)), ("c", at(26)..at(29))];
        let launches = [at(2)..at(4), at(5)..at(8), at(9)..at(10)];
        if graph {
            let id = main.graph_launch(at(2)..at(4)).correlation().expect("a launch");
            for (name, span) in kernels {
                t.linked(id).kernel(name, 7, span);
            }
        } else {
            for ((name, span), launch) in kernels.into_iter().zip(launches) {
                main.launch(launch).kernel(name, 7, span);
            }
        }
        let mut main = t.thread(1);
        main.op("aten::add", at(30)..at(40));
        let other = ["x", "y", "z"][usize::from(k)];
        main.launch(at(31)..at(33)).kernel(other, 7, at(35)..at(37));
        t.unlinked().kernel("fill", 9, at(20)..at(21));
    }
    t
}

#[test]
fn a_pattern_has_the_gaps_and_launches_of_its_occurrences() {
    let row = one(of(&rounds(false), &options()).rows("repeats"));
    let ints = ["stream", "length", "count", "gpu_ns", "extent_ns", "busy_ns", "gap_ns", "idle_ns", "steps"];
    let us3 = |n: i64| 3 * n * 1000;
    assert_eq!(ints.map(|c| row.int(c)), [7, 3, 3, us3(16), us3(19), us3(16), us3(3), us3(2), 3]);
    assert_eq!(row.text("names"), "a|b|c");
    // 48 of 48 + 3 x 2 us
    assert_eq!(row.float("covered_pct"), Some(100.0 * 48.0 / 54.0));
    assert_eq!(
        ["launch_count", "launch_cpu_ns", "graph_pct"].map(|c| row.float(c)),
        [Some(3.0), Some(6000.0), Some(0.0)]
    );
    assert_eq!((row.int("unlinked_count"), row.opt_int("parent")), (0, None));
}

#[test]
fn what_is_a_graph_already_says_so() {
    let row = one(of(&rounds(true), &options()).rows("repeats"));
    let floats = ["launch_count", "launch_cpu_ns", "graph_pct"].map(|c| row.float(c));
    assert_eq!(floats, [Some(1.0), Some(2000.0), Some(100.0)]);
}

#[test]
fn sequences_are_those_of_outermost_operators_unless_one_is_asked_for() {
    let shown = |options: &Options| -> Vec<(String, String, i64, i64, i64)> {
        let rows = of(&rounds(false), options).rows("operator_sequences");
        let row = |r: &Record| {
            let text = |c| r.text(c).to_string();
            (
                text("operator"),
                text("sequence"),
                r.int("count"),
                r.int("op_dur_sum_ns"),
                r.int("gpu_dur_sum_ns"),
            )
        };
        rows.iter().map(row).collect()
    };
    let row = |op: &str, names: &str, count, host, gpu| (op.to_string(), names.to_string(), count, host, gpu);
    let linear = row("aten::linear", "a|b|c", 3, 60_000, 48_000);
    let add = |x: &str| row("aten::add", x, 1, 10_000, 2_000);
    assert_eq!(shown(&options()), [linear.clone(), add("x"), add("y"), add("z")]);
    assert_eq!(shown(&with(&[("--op", "aten::addmm")])), [row("aten::addmm", "a|b|c", 3, 54_000, 48_000)]);
    // addmm has a selected ancestor.
    assert_eq!(
        shown(&with(&[("--op-glob", "*::*l*n*"), ("--min-length", "3")])),
        std::slice::from_ref(&linear)
    );
    assert_eq!(shown(&with(&[("--op-glob", "aten::?*"), ("--min-length", "3")])), [linear]);
}

/// The activities of a stream in order of start.
#[derive(Default)]
struct Stream {
    kernels: Vec<Kernel>,
    /// The latest end up to each kernel.
    ends: Vec<i64>,
}

struct Kernel {
    name: String,
    event_id: i64,
    start: i64,
    end: i64,
    step: Option<i64>,
}

impl Stream {
    fn push(&mut self, k: &Record) {
        let (start, end) = (k.int("ts_ns"), k.int("ts_ns") + k.int("dur_ns"));
        self.ends.push(self.ends.last().copied().unwrap_or(end).max(end));
        let (name, event_id, step) = (k.text("name").to_string(), k.int("event_id"), k.opt_int("step"));
        self.kernels.push(Kernel { name, event_id, start, end, step });
    }

    /// Time in a window in which a kernel runs.
    fn busy(&self, from: i64, until: i64) -> i64 {
        let (mut busy, mut at) = (0, from);
        let first = self.ends.partition_point(|end| *end <= from);
        for k in self.kernels[first..].iter().take_while(|k| k.start < until) {
            busy += (k.end.min(until) - k.start.max(at)).max(0);
            at = at.max(k.end.min(until));
        }
        busy
    }
}

fn length(kernels: &[Kernel]) -> i64 {
    kernels.iter().map(|k| k.end - k.start).sum()
}

/// A row's occurrences, searched one by one in the table of kernels.
fn look_for(what: &str, row: &Record, stream: &Stream) {
    let text = &stream.kernels;
    let count_of_names = row.int("length") as usize;
    let start = text.iter().position(|k| k.event_id == row.int("event_id")).expect("its first kernel");
    let names: Vec<&str> = text[start..start + count_of_names].iter().map(|k| k.name.as_str()).collect();
    assert_eq!(text[start].start, row.int("first_ts_ns"), "{what}: {}", row.0);
    let (mut count, mut gpu, mut extent, mut busy, mut steps) = (0, 0, 0, 0, Vec::new());
    let mut i = 0;
    while i + count_of_names <= text.len() {
        let part = &text[i..i + count_of_names];
        if !part.iter().map(|k| &k.name).eq(names.iter().copied()) {
            i += 1;
            continue;
        }
        assert!(count > 0 || i == start, "{what}: {} begins earlier", row.0);
        i += count_of_names;
        count += 1;
        gpu += length(part);
        steps.extend(part.iter().filter_map(|k| k.step));
        let (from, until) = (part[0].start, part.iter().map(|k| k.end).max().expect("not empty"));
        extent += until - from;
        busy += stream.busy(from, until);
    }
    steps.sort_unstable();
    steps.dedup();
    let own = ["count", "gpu_ns", "extent_ns", "busy_ns", "steps"].map(|c| row.int(c));
    assert_eq!(own, [count, gpu, extent, busy, steps.len() as i64], "{what}: {}", row.0);
    assert!(gpu <= length(text));
}

/// Checks invariants, and searches every pattern again. Returns the number of patterns.
pub fn check(what: &str, answer: &Answer) -> usize {
    let key = |r: &Record| ["rank", "device", "stream"].map(|c| r.opt_int(c));
    let mut streams: BTreeMap<[Option<i64>; 3], Stream> = BTreeMap::new();
    let kernels = answer.rows("kernels");
    kernels.iter().for_each(|k| streams.entry(key(k)).or_default().push(k));
    assert!(streams.values().all(|s| s.kernels.is_sorted_by_key(|k| k.start)), "{what}");
    let rows = answer.rows("repeats");
    for row in &rows {
        let [extent, busy, gap, idle] = ["extent_ns", "busy_ns", "gap_ns", "idle_ns"].map(|c| row.int(c));
        assert!(busy + gap == extent && 0 <= idle && idle <= gap, "{what}: {}", row.0);
        assert!(row.int("length") >= 3 && row.int("count") >= 3, "{what}: {}", row.0);
        if let Some(parent) = row.opt_int("parent") {
            let of_rank = |r: &&Record| r.int("rank") == row.int("rank") && r.int("pattern_id") == parent;
            let parent = rows.iter().find(of_rank).expect("the parent is there");
            assert!(parent.int("length") > row.int("length"), "{what}: {}", row.0);
        }
        look_for(what, row, &streams[&key(row)]);
    }
    let sequences = answer.rows("operator_sequences");
    let launched: i64 = sequences.iter().map(|r| r.int("length") * r.int("count")).sum();
    let under_operators = kernels.iter().filter(|k| k.opt_int("op_event_id").is_some()).count();
    assert_eq!(launched, under_operators as i64, "{what}: each activity under an operator, once");
    rows.len()
}

#[test]
fn patterns_of_every_sample_are_where_they_are_said_to_be() {
    let mut found = 0;
    for file in traces_below(&shared::samples()) {
        if let Ok(answer) = try_run(std::slice::from_ref(&file), &options()) {
            found += check(&file.display().to_string(), &answer);
        }
    }
    assert!(found > 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn patterns_of_random_traces_are_where_they_are_said_to_be(plan in plans()) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = plan.write(folder.path(), ORIGIN, &Format::default());
        if let Ok(answer) = try_run(&[file], &options()) {
            check("a random trace", &answer);
        }
    }
}

/// Two rounds of `a b c` in steps of 100 us, and four more after the steps. In each the device idles 16 us between
/// kernels.
///
/// ```text
///   us        0         100       200   300       400 ..
///   steps     |0........||1.......|
///   stream 7    a b c      a b c          a b c      a b c  a b c  a b c
/// ```
#[test]
fn what_a_pattern_costs_a_step_is_the_mean_of_what_lies_in_the_steps() {
    let mut t = TraceBuilder::new().rank(0).world(1).host("h").device("NVIDIA H100", 132);
    let mut main = t.thread(1);
    (0..2).for_each(|k| {
        main.step(k, us(100 * k as i64)..us(100 * k as i64 + 99));
    });
    for at in [0, 100, 300, 400, 500, 600] {
        for (i, name) in ["a", "b", "c"].into_iter().enumerate() {
            let start = at + 20 + 10 * i as i64;
            main.launch(us(start - 10)..us(start - 8)).kernel(name, 7, us(start)..us(start + 2));
        }
    }
    let answer = of(&t, &options());
    let pattern = answer.rows_where("repeats", |r| r.int("length") == 3).remove(0);
    assert_eq!((pattern.int("count"), pattern.int("idle_ns"), pattern.int("steps")), (6, us(96), 2));
    let cost = answer.rows_where("top_repeats", |r| r.int("length") == 3).remove(0).int("step_idle_ns");
    assert_eq!(cost, us(16));
    let steps = answer.rows_where("idle", |r| r.text("scope") == "step" && r.opt_int("stream").is_none());
    assert!(steps.iter().all(|s| cost <= s.int("idle_ns")), "{steps:?}");
}

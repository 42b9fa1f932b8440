//! Work from before and after the recording: by eye on tiny traces, one for each condition, and on real traces with
//! known answers.

use crate::run::{Answer, Record, answer, one, options};
use hta::analysis::api::Options;
use hta_testkit::{TraceBuilder, Vendor, us};
use serde_json::Value;

pub fn run(trace: &TraceBuilder) -> Answer {
    run_with(trace, &options())
}

fn run_with(trace: &TraceBuilder, options: &Options) -> Answer {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rank_0.json");
    std::fs::write(&path, trace.to_json()).unwrap();
    answer(&[path], options)
}

/// Rows of `record_edges` of one case: scope, from and to since the first event, launches, activities.
pub fn edges(answer: &Answer, case: &str) -> Vec<(String, i64, i64, i64, i64)> {
    let first = one(answer.rows("ranks")).int("first_ts_ns");
    let row = |r: &Record| {
        let at = |c: &str| r.int(c) - first;
        (r.text("scope").to_string(), at("from_ns"), at("to_ns"), r.int("launches"), r.int("activities"))
    };
    answer.rows_where("record_edges", |r| r.text("case") == case).iter().map(row).collect()
}

pub fn of_scope(answer: &Answer, table: &str, scope: &str) -> Vec<Record> {
    answer.rows_where(table, |r| r.text("scope") == scope)
}

/// Two launches wait for 4.985 ms: the stream was busy before the recording.
///
/// ```text
///   host       |aten::add ..........|                              us(0)..us(100)
///   launches     |==|  |==|             |sync ...............|     us(10), us(30), sync us(200)..us(5_300)
///   stream 7   ????????????????????????????[a ==)[b ==)            us(5_000)..us(5_100), us(5_100)..us(5_300)
/// ```
pub fn hidden() -> TraceBuilder {
    let mut t = TraceBuilder::new().rank(0).device("NVIDIA H100", 132);
    let mut main = t.thread(1);
    main.op("aten::add", us(0)..us(100));
    main.launch(us(10)..us(15)).kernel("a", 7, us(5_000)..us(5_100));
    main.launch(us(30)..us(35)).kernel("b", 7, us(5_100)..us(5_300));
    main.runtime("cudaStreamSynchronize", us(200)..us(5_310));
    t
}

#[test]
fn work_from_before_the_recording_is_in_no_window() {
    let a = run(&hidden());
    assert_eq!(
        edges(&a, "hidden_work"),
        [("lead".to_string(), 0, us(5_000), 2, 2), (String::new(), 0, us(5_000), 2, 2)]
    );
    a.batches().for_each(crate::registry::follows_its_declaration);
    let ranks = one(a.rows("ranks"));
    let capture = one(of_scope(&a, "temporal_breakdown", "capture"));
    // lead + capture = recorded
    assert_eq!(capture.int("ts_ns") - ranks.int("first_ts_ns"), us(5_000));
    assert_eq!(capture.int("ts_ns") + capture.int("dur_ns"), ranks.int("last_ts_ns"));
    assert_eq!(["dur_ns", "compute_ns", "idle_ns"].map(|c| capture.int(c)), [us(310), us(300), us(10)]);
    let span = one(of_scope(&a, "temporal_breakdown", "span"));
    assert_eq!(["dur_ns", "compute_ns", "idle_ns"].map(|c| span.int(c)), [us(300), us(300), 0]);
    for r in a.rows("idle") {
        assert!(
            ["idle_ns", "host_wait_ns", "kernel_wait_ns", "other_ns"].iter().all(|c| r.int(c) <= us(10)),
            "{}",
            r.0
        );
    }
    // Gaps of the device: only the one after its last activity.
    assert_eq!(a.rows_where("idle_gaps", |r| r.opt_int("stream").is_none()).len(), 1);
}

#[test]
fn launches_behind_unrecorded_work_are_flagged_and_in_no_statistic() {
    let a = run(&hidden());
    let launches = a.rows("launches");
    assert!(launches.iter().all(|r| r.cell("behind_unrecorded") == Value::Bool(true)), "{launches:?}");
    assert_eq!(launches.iter().map(|r| r.int("delay_ns")).collect::<Vec<_>>(), [us(4_985), us(5_065)]);
    let stats = one(of_scope(&a, "launch_stats", "capture"));
    assert_eq!(["launch_count", "behind_unrecorded_count", "started_count"].map(|c| stats.int(c)), [2, 2, 0]);
    for column in ["latency_mean_ns", "latency_p50_ns", "delay_mean_ns", "delay_max_ns"] {
        assert!(stats.cell(column).is_null(), "{column} of {}", stats.0);
    }
    let none = ["delay_outlier_count", "runtime_outlier_count", "short_count", "idle_ns", "short_idle_ns"];
    assert_eq!(none.map(|c| stats.int(c)), [0; 5]);
    let marks = |r: &Record| (r.int("ts_ns"), r.cell("is_lower_bound") == Value::Bool(true));
    let first = one(a.rows("ranks")).int("first_ts_ns");
    let lengths: Vec<(i64, bool)> =
        a.rows("queue_length").iter().map(marks).map(|(t, m)| (t - first, m)).collect();
    assert_eq!(lengths, [(us(10), true), (us(30), true), (us(5_000), false), (us(5_100), false)]);
}

#[test]
fn a_call_that_waits_over_the_lead_is_listed_and_counts_for_no_rule() {
    let a = run(&hidden());
    assert_eq!(edges(&a, "host_wait"), [(String::new(), us(200), us(5_310), 1, 0)]);
    let row = one(a.rows_where("record_edges", |r| r.text("case") == "host_wait"));
    assert_eq!(row.text("evidence"), "`cudaStreamSynchronize` waited for work from before the capture");
    assert_eq!(a.rows_where("memory_copy_rules", |r| r.text("rule") == "synchronize_call").len(), 0);
}

#[test]
fn the_critical_path_of_the_capture_ends_before_it_with_one_segment() {
    let a = run(&hidden());
    let path = a.rows("critical_path");
    let lead = path.first().unwrap();
    assert_eq!((lead.text("class"), lead.int("dur_ns"), lead.int("seq")), ("before_capture", us(5_000), 0));
    assert_eq!(path.iter().filter(|r| r.text("class") == "before_capture").count(), 1);
    for pair in path.windows(2) {
        assert_eq!(pair[0].int("ts_ns") + pair[0].int("dur_ns"), pair[1].int("ts_ns"));
    }
    let classes = a.rows("critical_path_summary");
    let pct: f64 = classes.iter().filter_map(|r| r.float("window_pct")).sum();
    assert!((pct - 100.0).abs() < 1e-9, "{pct}");
    let before = classes.iter().find(|r| r.text("class") == "before_capture").unwrap();
    assert!(before.cell("window_pct").is_null(), "{}", before.0);
}

#[test]
fn a_step_that_the_lead_cuts_keeps_what_is_left_of_it() {
    // A step before, across and after the end of the lead.
    let mut t = hidden();
    let mut main = t.thread(1);
    main.step(1, us(0)..us(400));
    main.step(2, us(4_900)..us(5_200));
    main.step(3, us(5_200)..us(5_310));
    let a = run(&t);
    let steps = of_scope(&a, "temporal_breakdown", "step");
    let rows =
        steps.iter().map(|r| (r.int("step_label"), r.int("dur_ns"), r.int("compute_ns"), r.int("idle_ns")));
    assert_eq!(rows.collect::<Vec<_>>(), [(2, us(200), us(200), 0), (3, us(110), us(100), us(10))]);
    assert_eq!(steps.iter().map(|r| r.cell("is_partial").clone()).collect::<Vec<_>>(), [true, false]);
    let sum =
        |scope: &str| of_scope(&a, "temporal_breakdown", scope).iter().map(|r| r.int("dur_ns")).sum::<i64>();
    assert_eq!(sum("step") + sum("outside"), sum("capture"));
}

#[test]
fn a_threshold_decides_what_a_hidden_wait_is() {
    let mut o = options();
    o.model.hidden_min = us(4_985);
    assert_eq!(edges(&run_with(&hidden(), &o), "hidden_work").len(), 2);
    o.model.hidden_min = us(4_986);
    assert_eq!(edges(&run_with(&hidden(), &o), "hidden_work").len(), 0);
}

/// A trace in which the closure makes the launches of `hidden`.
fn with(make: impl FnOnce(&mut TraceBuilder)) -> TraceBuilder {
    let mut t = TraceBuilder::new().rank(0).device("NVIDIA H100", 132);
    t.thread(1).op("aten::add", us(0)..us(100));
    make(&mut t);
    t
}

fn fires(trace: &TraceBuilder) -> bool {
    let a = run(trace);
    let capture = one(of_scope(&a, "temporal_breakdown", "capture"));
    let fires = !edges(&a, "hidden_work").is_empty();
    assert_eq!(fires, capture.int("ts_ns") != one(a.rows("ranks")).int("first_ts_ns"));
    fires
}

#[test]
fn each_condition_is_needed() {
    let two = |t: &mut TraceBuilder, start: i64| {
        let mut main = t.thread(1);
        main.launch(us(10)..us(15)).kernel("a", 7, start..start + us(100));
        main.launch(us(30)..us(35)).kernel("b", 7, start + us(100)..start + us(200));
    };
    assert!(fires(&with(|t| two(t, us(5_000)))));
    // (a) An earlier activity is recorded on the stream: a recorded head.
    assert!(!fires(&with(|t| {
        t.unlinked().kernel("before", 7, us(1)..us(2));
        two(t, us(5_000));
    })));
    // (b) The wait is shorter than a millisecond.
    assert!(!fires(&with(|t| two(t, us(1_014)))));
    assert!(fires(&with(|t| two(t, us(1_015)))));
    // (c) The device is recorded as busy on another stream: allowed for 1 %, not more.
    let busy = |ns: i64| {
        with(|t| {
            t.thread(1).launch(us(16)..us(17)).kernel("other", 9, us(20)..us(20) + ns);
            two(t, us(5_015));
        })
    };
    assert!(fires(&busy(us(50))));
    assert!(!fires(&busy(us(51))));
    // (d) The recording began longer before the launch than the wait is long.
    let late = |after: i64| {
        with(|t| {
            let mut main = t.thread(1);
            main.launch(after - us(5)..after).kernel("a", 7, after + us(2_000)..after + us(2_100));
            main.launch(after..after + us(5)).kernel("b", 7, after + us(2_100)..after + us(2_200));
        })
    };
    assert!(fires(&late(us(2_000))));
    assert!(!fires(&late(us(2_001))));
    // (e) A single launch may be late by itself, unless a call waited with it.
    let alone = |sync: Option<(i64, i64)>| {
        with(|t| {
            let mut main = t.thread(1);
            main.launch(us(10)..us(15)).kernel("a", 7, us(5_015)..us(5_100));
            if let Some((start, end)) = sync {
                main.runtime("cudaStreamSynchronize", start..end);
            }
        })
    };
    assert!(!fires(&alone(None)));
    assert!(fires(&alone(Some((us(100), us(5_110))))));
    // The call returned too late, or was too short, to have waited for it.
    assert!(!fires(&alone(Some((us(100), us(6_016))))));
    assert!(!fires(&alone(Some((us(2_700), us(5_110))))));
}

#[test]
fn a_recorded_head_is_busy_time_and_its_launches_are_flagged() {
    // The launch of `x` was not recorded; that of `a` came while x ran.
    let a = run(&with(|t| {
        t.unlinked().kernel("x", 7, us(5)..us(300));
        let mut main = t.thread(1);
        main.launch(us(10)..us(15)).kernel("a", 7, us(300)..us(400));
        main.launch(us(310)..us(315)).kernel("b", 7, us(400)..us(500));
    }));
    assert_eq!(edges(&a, "recorded_head"), [(String::new(), us(5), us(300), 1, 1)]);
    let capture = one(of_scope(&a, "temporal_breakdown", "capture"));
    assert_eq!(["dur_ns", "compute_ns", "idle_ns"].map(|c| capture.int(c)), [us(500), us(495), us(5)]);
    let flags: Vec<bool> =
        a.rows("launches").iter().map(|r| r.cell("behind_unrecorded") == Value::Bool(true)).collect();
    assert_eq!(flags, [true, false]);
    let stats = one(of_scope(&a, "launch_stats", "capture"));
    assert_eq!(["started_count", "delay_p50_ns"].map(|c| stats.int(c)), [1, us(85)]);
}

/// Three launches, of which the last two own nothing.
fn cut_short(names: [&str; 2]) -> TraceBuilder {
    with(|t| {
        let mut main = t.thread(1);
        main.launch(us(10)..us(15)).kernel("a", 7, us(20)..us(60));
        main.runtime(names[0], us(40)..us(45));
        main.runtime(names[1], us(50)..us(55));
    })
}

#[test]
fn launches_without_activities_at_the_end_are_a_lost_tail() {
    let a = run(&cut_short(["cudaLaunchKernel", "cudaMemcpyAsync"]));
    assert_eq!(edges(&a, "lost_tail"), [("lost_tail".to_string(), us(60), us(100), 2, 0)]);
    let capture = one(of_scope(&a, "temporal_breakdown", "capture"));
    assert_eq!(["dur_ns", "compute_ns", "idle_ns"].map(|c| capture.int(c)), [us(60), us(40), us(20)]);
}

#[test]
fn calls_that_start_no_work_make_no_lost_tail() {
    // A set of unknown size may have 0 bytes.
    assert_eq!(edges(&run(&cut_short(["cudaMemsetAsync", "cudaStreamQuery"])), "lost_tail"), []);
    // Launches that are captured into a graph do not run.
    let captured = with(|t| {
        let mut main = t.thread(1);
        main.launch(us(10)..us(15)).kernel("a", 7, us(20)..us(60));
        main.runtime("cudaStreamBeginCapture", us(30)..us(35));
        main.runtime("cudaLaunchKernel", us(40)..us(45));
        main.runtime("cudaStreamEndCapture", us(60)..us(65));
    });
    assert_eq!(edges(&run(&captured), "lost_tail"), []);
    // If links are missing, the call may own one of the later activities.
    let mut unlinked = cut_short(["cudaLaunchKernel", "cudaLaunchKernel"]);
    unlinked.unlinked().kernel("b", 7, us(70)..us(80));
    assert_eq!(edges(&run(&unlinked), "lost_tail"), []);
}

#[test]
fn a_step_that_owns_a_lost_call_is_partial() {
    let mut t = cut_short(["cudaLaunchKernel", "cudaLaunchKernel"]);
    let mut main = t.thread(1);
    main.step(1, us(0)..us(30));
    main.step(2, us(30)..us(60));
    let partial: Vec<Value> = run(&t).rows("steps").iter().map(|r| r.cell("is_partial").clone()).collect();
    assert_eq!(partial, [false, true]);
}

#[test]
fn a_graph_launch_with_fewer_activities_than_another_of_its_graph_is_counted() {
    let graph = |ids: bool, last: &[&str]| {
        with(|t| {
            for (k, names) in [(0, &["a", "b", "c"][..]), (1, last)] {
                let start = us(10) + k * us(50);
                let mut main = t.thread(1);
                let mut row = main.graph_launch(start..start + us(5));
                for (i, name) in (0..).zip(names) {
                    let at = start + us(6) + i * us(2);
                    row = row.kernel(name, 7, at..at + us(1));
                    row = if ids { row.graph_node(3, 1 + i as u64) } else { row };
                }
            }
        })
    };
    let found =
        |t: &TraceBuilder| edges(&run(t), "partial_graph").iter().map(|e| (e.3, e.4)).collect::<Vec<_>>();
    assert_eq!(found(&graph(true, &["a", "b"])), [(1, 1)]);
    assert_eq!(found(&graph(false, &["a", "b"])), [(1, 1)]);
    assert_eq!(found(&graph(false, &["a", "b", "c"])), []);
    // Another graph: its names are not the beginning of the first one's.
    assert_eq!(found(&graph(false, &["b", "c"])), []);
}

#[test]
fn calls_of_the_profiler_itself_are_told_apart() {
    let name = "torch/profiler/profiler.py(207): stop_trace";
    let stacks = with(|t| {
        let mut main = t.thread(1);
        main.frame("train.py(3): main", us(0)..us(100));
        main.launch(us(10)..us(15)).kernel("a", 7, us(20)..us(60));
        main.runtime("cudaDeviceSynchronize", us(62)..us(64));
        main.frame(name, us(65)..us(95));
        main.runtime("cudaDeviceSynchronize", us(70)..us(90));
    });
    let a = run(&stacks);
    assert_eq!(edges(&a, "profiler"), [("profiler".to_string(), us(70), us(90), 1, 0)]);
    let row = one(a.rows_where("record_edges", |r| r.text("case") == "profiler"));
    assert_eq!(row.text("evidence"), format!("`cudaDeviceSynchronize` in `{name}`"));
    let rule = a.rows_where("memory_copy_rules", |r| {
        r.text("rule") == "synchronize_call" && r.text("scope") == "capture"
    });
    assert_eq!(one(rule).int("count"), 1);
    // Without stacks: after all launches, and just before the end.
    let last = |end: i64| {
        with(|t| {
            let mut main = t.thread(1);
            main.launch(us(10)..us(15)).kernel("a", 7, us(20)..us(60));
            main.runtime("cudaDeviceSynchronize", us(20)..us(61));
            main.op("aten::add", end - us(10)..end);
        })
    };
    assert_eq!(edges(&run(&last(us(1_061))), "profiler").len(), 1);
    assert_eq!(edges(&run(&last(us(1_062))), "profiler").len(), 0);
}

#[test]
fn a_rank_without_a_gpu_has_no_edges() {
    let a = run(&with(|t| {
        t.thread(1).op("aten::mm", us(3_000)..us(4_000));
    }));
    assert_eq!(a.rows("record_edges").len(), 0);
}

#[test]
fn amd_calls_are_told_the_same_way() {
    let mut t = TraceBuilder::new().rank(0).vendor(Vendor::Amd).device("AMD MI300X", 304);
    let mut main = t.thread(1);
    main.op("aten::add", us(0)..us(100));
    main.launch(us(10)..us(15)).kernel("a", 0, us(5_000)..us(5_100));
    main.launch(us(30)..us(35)).kernel("b", 0, us(5_100)..us(5_300));
    assert!(fires(&t));
}

#[test]
fn a_file_with_the_profilers_record_span_is_no_excerpt() {
    let excerpt = |t: &TraceBuilder| {
        let rows = run(t).rows_where("record_edges", |r| r.text("scope") == "lead");
        one(rows).cell("excerpt") == Value::Bool(true)
    };
    // the profiler counts its events from 0
    assert!(!excerpt(&hidden()));
    let cut = |from: i64| {
        let mut t = TraceBuilder::new().rank(0).device("NVIDIA H100", 132);
        let mut main = t.thread(1);
        main.op("aten::add", us(0)..us(100)).arg("Ev Idx", from);
        main.launch(us(10)..us(15)).kernel("a", 7, us(5_000)..us(5_100));
        main.launch(us(30)..us(35)).kernel("b", 7, us(5_100)..us(5_300));
        t
    };
    assert!(excerpt(&cut(37_160)));
    assert!(!excerpt(&cut(0)));
    let mut whole = cut(37_160);
    whole.window(us(0)..us(6_000));
    assert!(!excerpt(&whole));
}

#[test]
fn text_and_page_carry_one_note_and_no_finding() {
    let folder = tempfile::tempdir().unwrap();
    let (input, out) = (folder.path().join("rank_0.json"), folder.path().join("out"));
    std::fs::write(&input, hidden().to_json()).unwrap();
    let run = |args: &[&str]| {
        let done = std::process::Command::new(env!("CARGO_BIN_EXE_hta")).args(args).output().unwrap();
        String::from_utf8(done.stdout).unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let (input, out) = (input.display().to_string(), out.display().to_string());
    let note = "GPU 0 was still running work launched before this file begins: 5.00 ms, 94.2 % of the file, left out of \
                every share. Next time synchronise before starting the profiler, or skip the first iteration.";
    assert_eq!(run(&["analyze", &input, "-o", &out]).matches(note).count(), 1);
    assert_eq!(run(&["idle", &input]).matches(note).count(), 1);
    let page = std::fs::read_to_string(format!("{out}/report.html")).unwrap();
    assert_eq!(page.matches(note).count(), 1);
}

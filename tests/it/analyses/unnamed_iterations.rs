//! Iterations that no engine names, and ranks that serve without any.

use crate::run::{Answer, Record, answer, one, options};
use hta_testkit::{TraceBuilder, us};

/// A loop of four rounds of 1 ms each; `x` ran before it.
///
/// ```text
///   us       1000                          2000 ...
///   host     [round 0           )          [round 1
///   calls      l  l  l  (1020, 1120, 1220)
///   stream       [a )[b )[c )              1030..1130, 1140..1240, 1250..1350
/// ```
fn rounds(launched: i64) -> TraceBuilder {
    let mut t = TraceBuilder::new().rank(0).device("NVIDIA H100", 132);
    let mut main = t.thread(1);
    main.op("aten::randn", 0..us(50));
    main.launch(us(10)..us(15)).kernel("x", 7, us(20)..us(20) + launched);
    for k in 1..=4 {
        for (i, name) in (0..).zip(["a", "b", "c"]) {
            let call = us(1_000 * k + 20 + 100 * i);
            let run = us(1_000 * k + 30 + 110 * i);
            main.launch(call..call + us(5)).kernel(name, 7, run..run + us(100));
        }
    }
    t
}

fn run(trace: &TraceBuilder) -> Answer {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rank_0.json");
    std::fs::write(&path, trace.to_json()).unwrap();
    answer(&[path], &options())
}

fn rule(a: &Answer) -> String {
    one(a.rows("ranks")).text("step_rule").to_string()
}

/// Host start and length, window, period of each iteration, us.
fn times(a: &Answer) -> Vec<[i64; 4]> {
    let of = |r: &Record| ["host_ts_ns", "host_dur_ns", "dur_ns", "period_ns"].map(|c| r.int(c) / 1_000);
    let mut all: Vec<[i64; 4]> = a.rows("iterations").iter().map(of).collect();
    let first = all.first().map_or(0, |r| r[0]);
    all.iter_mut().for_each(|r| r[0] -= first);
    all
}

#[test]
fn kernels_that_repeat_are_iterations_from_the_first_launch_to_the_last() {
    let a = run(&rounds(us(100)));
    assert_eq!(rule(&a), "repeat");
    let window = 320;
    assert_eq!(
        times(&a),
        [
            [0, 205, window, 1_000],
            [1_000, 205, window, 1_000],
            [2_000, 205, window, 1_000],
            [3_000, 205, window, window]
        ]
    );
    let r = &a.rows("iterations")[0];
    assert_eq!((r.text("rule"), r.text("label"), r.text("name")), ("repeat", "iteration", ""));
    assert_eq!(
        (r.cell("engine").is_null(), r.cell("phase").is_null(), r.float("tokens_per_s")),
        (true, true, None)
    );
    assert_eq!(r.int("activity_count"), 3);
    assert!(a.notes("iterations").iter().any(|n| n.starts_with("no range names these iterations")));
}

#[test]
fn what_repeats_must_hold_four_fifths_of_the_gpu_time() {
    // The rounds hold 1,200 us.
    assert_eq!(rule(&run(&rounds(us(200)))), "repeat");
    let mut t = rounds(us(200));
    t.thread(1).launch(us(6_000)..us(6_005)).kernel("y", 7, us(6_010)..us(6_110));
    assert_eq!(rule(&run(&t)), "repeat");
    let mut t = rounds(us(200));
    t.thread(1).launch(us(6_000)..us(6_005)).kernel("y", 7, us(6_010)..us(6_111));
    assert_eq!(rule(&run(&t)), "capture");
}

#[test]
fn ranges_inside_another_one_come_before_kernels_that_repeat() {
    let mut t = rounds(us(100));
    let mut main = t.thread(1);
    main.annotation("generate", us(900)..us(5_900));
    for k in 1..=4 {
        main.annotation(&format!("denoise {k}"), us(1_000 * k)..us(1_000 * k + 400));
        main.annotation("attention", us(1_000 * k + 10)..us(1_000 * k + 130));
    }
    let a = run(&t);
    assert_eq!(rule(&a), "inner_annotation");
    assert_eq!(times(&a)[1], [1_000, 400, 320, 1_000]);
    let r = &a.rows("iterations")[2];
    assert_eq!((r.text("mode"), r.text("label"), r.text("name")), ("denoise #", "denoise #", "denoise 3"));
    assert!(a.notes("iterations").iter().any(|n| n.contains("ranges `denoise #` repeat inside another one")));
    let phase = one(a.rows("iteration_phases"));
    // The first one is in no average.
    assert_eq!((phase.text("mode"), phase.int("iteration_count"), phase.int("counted")), ("denoise #", 4, 3));
}

#[test]
fn ranges_without_gpu_time_are_no_iterations() {
    let mut t = TraceBuilder::new().rank(0).device("NVIDIA H100", 132);
    let mut main = t.thread(1);
    main.annotation("capture_8_FULL", 0..us(1_000));
    for k in 0..6 {
        main.annotation(&format!("## Call CompiledFxGraph f{k} ##"), us(100 * k)..us(100 * k + 50));
    }
    main.launch(us(700)..us(705)).kernel("a", 7, us(710)..us(720));
    assert_eq!(rule(&run(&t)), "capture");
}

#[test]
fn steps_inside_an_image_request_are_its_iterations() {
    let mut t = rounds(us(100));
    t.thread(1).annotation("execute_diffusion_1_1024x768", us(900)..us(5_900));
    let a = run(&t);
    assert_eq!(rule(&a), "repeat");
    let rows = a.rows("iterations");
    assert_eq!(
        (rows.len(), rows[0].text("label"), rows[0].text("engine")),
        (4, "diffusion 1 req 1024x768", "diffusion")
    );
    // Of a request in which nothing repeats, all is one iteration.
    let mut t = TraceBuilder::new().rank(0).device("NVIDIA H100", 132);
    let mut main = t.thread(1);
    main.annotation("execute_diffusion_1_1024x768", 0..us(500));
    main.launch(us(10)..us(15)).kernel("a", 7, us(20)..us(400));
    let a = run(&t);
    assert_eq!((rule(&a).as_str(), a.rows("iterations").len()), ("iteration", 1));
}

#[test]
fn three_image_requests_are_iterations_whatever_repeats_inside() {
    let mut t = rounds(us(100));
    for k in 1..=4 {
        t.thread(1).annotation("execute_diffusion_1_512x512", us(1_000 * k)..us(1_000 * k + 500));
    }
    let a = run(&t);
    assert_eq!((rule(&a).as_str(), a.rows("iterations").len()), ("iteration", 4));
}

#[test]
fn training_without_step_marks_is_left_alone() {
    let mut t = rounds(us(100));
    t.thread(1).op("autograd::engine::evaluate_function: MmBackward0", us(1_000)..us(1_400));
    let a = run(&t);
    assert_eq!((rule(&a).as_str(), a.rows("iterations").len()), ("capture", 0));
}

#[test]
fn occurrences_in_one_graph_launch_are_no_iterations() {
    let mut t = TraceBuilder::new().rank(0).device("NVIDIA H100", 132);
    let mut main = t.thread(1);
    main.op("aten::randn", 0..us(50));
    let mut graph = main.graph_launch(us(100)..us(120));
    for k in 0..12 {
        graph = graph.kernel(["a", "b", "c"][k as usize % 3], 7, us(130 + 10 * k)..us(140 + 10 * k));
    }
    let a = run(&t);
    assert_eq!((rule(&a).as_str(), a.rows("iterations").len()), ("capture", 0));
}

/// A rank that replays a graph of 200 us and launches 30 kernels of 2 us.
fn replays() -> TraceBuilder {
    let mut t = TraceBuilder::new().rank(0).device("NVIDIA H100", 132);
    let mut main = t.thread(1);
    main.op("aten::randn", 0..us(50));
    let mut graph = main.graph_launch(us(100)..us(120));
    for k in 0..100 {
        graph = graph.kernel(&format!("g{k}"), 7, us(130 + 2 * k)..us(132 + 2 * k));
    }
    for k in 0..30 {
        let call = us(400 + 20 * k);
        main.launch(call..call + us(12)).kernel(&format!("k{k}"), 7, call + us(14)..call + us(16));
    }
    t
}

#[test]
fn a_rank_that_replays_graphs_serves_without_iterations() {
    let a = run(&replays());
    assert_eq!(rule(&a), "capture");
    assert_eq!(one(a.rows("ranks")).flag("is_serving"), Some(true));
    // Launches one by one are no finding then.
    assert!(a.rows("findings").iter().all(|r| r.text("kind") != "host_dispatch"), "{:?}", a.rows("findings"));
    let first = a.rows_where("verdict", |r| r.int("line") == 1);
    assert!(!first[0].text("text").contains("iteration"), "{}", first[0].text("text"));
    // With a mark of the profiler's schedule it is a program as any other.
    let mut t = replays();
    t.thread(1).step(1, us(60)..us(1_100));
    assert_eq!(one(run(&t).rows("ranks")).flag("is_serving"), Some(false));
}

//! Iterations of inference engines, on the sample whose timeline `data/make_samples/serving.rs` shows, and on
//! tiny traces.

use crate::run::{Answer, Record, answer, one, options};
use crate::shared;
use hta::analysis::api::Options;
use hta::trace::rank_trace::StepFilter;
use hta::trace::step::StepWindow;
use hta_testkit::{TraceBuilder, us};

fn sample_with(options: &Options) -> Answer {
    answer(&[shared::samples().join("serving")], options)
}

fn sample() -> Answer {
    sample_with(&options())
}

fn run_with(trace: &TraceBuilder, options: &Options) -> Answer {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rank_0.json");
    std::fs::write(&path, trace.to_json()).unwrap();
    answer(&[path], options)
}

fn run(trace: &TraceBuilder) -> Answer {
    run_with(trace, &options())
}

/// A column of the three iterations, in us; `None` where it is null.
fn column(a: &Answer, name: &str) -> Vec<Option<i64>> {
    let us = |ns: i64| {
        assert_eq!(ns % 1_000, 0, "{name}: {ns}");
        ns / 1_000
    };
    a.rows("iterations").iter().map(|r| r.opt_int(name).map(us)).collect()
}

#[test]
fn windows_gaps_and_periods_of_the_sample_are_those_of_its_timeline() {
    let a = sample();
    let all = |name: &str| column(&a, name);
    assert_eq!(all("dur_ns"), [Some(720), Some(515), Some(490)]);
    assert_eq!(all("window_busy_ns"), [Some(720), Some(410), Some(410)]);
    assert_eq!(all("gap_ns"), [Some(790), Some(185), None]);
    assert_eq!(all("post_busy_ns"), [Some(5), Some(5), None]);
    assert_eq!(all("gap_idle_ns"), [Some(785), Some(180), None]);
    assert_eq!(all("period_ns"), [Some(1_510), Some(700), Some(490)]);
    assert_eq!(all("post_work_ns"), [Some(5), Some(5), Some(5)]);
    assert_eq!(all("lag_ns"), [Some(-115), Some(190), Some(165)]);
    let rows = a.rows("iterations");
    let texts = |name: &str| rows.iter().map(|r| r.text(name)).collect::<Vec<_>>();
    assert_eq!(texts("basis"), ["period", "period", "window"]);
    assert_eq!(texts("phase"), ["prefill", "decode", "decode"]);
    assert_eq!(texts("engine"), ["sglang"; 3]);
    assert_eq!(
        texts("label"),
        ["prefill 1 req 512 tok kv 512", "decode 4 req 4 tok kv 513", "decode 4 req 4 tok kv 514"]
    );
    let counts = |name: &str| rows.iter().map(|r| r.int(name)).collect::<Vec<_>>();
    assert_eq!(counts("activity_count"), [40, 41, 41]);
    assert_eq!(counts("post_count"), [1, 1, 1]);
}

#[test]
fn idle_time_of_the_sample_is_before_inside_and_after_the_graph_launch() {
    let a = sample();
    let all = |name: &str| column(&a, name);
    assert_eq!(all("idle_before_graph_ns"), [Some(0), Some(65), Some(65)]);
    assert_eq!(all("idle_in_graph_call_ns"), [Some(0), Some(40), Some(10)]);
    assert_eq!(all("idle_rest_ns"), [Some(0), Some(0), Some(5)]);
    assert_eq!(all("graph_busy_ns"), [Some(0), Some(400), Some(400)]);
    assert_eq!(all("graph_idle_inside_ns"), [Some(0); 3]);
    let rows = a.rows("iterations");
    let counts = |name: &str| rows.iter().map(|r| r.int(name)).collect::<Vec<_>>();
    assert_eq!(
        (counts("graph_launch_count"), counts("graph_activity_count")),
        (vec![0, 1, 1], vec![0, 40, 40])
    );
}

#[test]
fn only_host_time_in_which_the_gpu_idles_is_a_bubble() {
    let a = sample();
    let all = |name: &str| column(&a, name);
    assert_eq!(all("host_after_ns"), [Some(600), Some(300), Some(200)]);
    assert_eq!(all("host_exposed_ns"), [Some(595), Some(105), Some(30)]);
    assert_eq!(all("host_after_sync_ns"), [Some(10), Some(180), Some(155)]);
    assert_eq!(all("host_after_api_ns"), [Some(10), Some(10), Some(10)]);
    assert_eq!(all("host_after_python_ns"), [Some(580), Some(110), Some(35)]);
    assert_eq!(all("host_cycle_ns"), [Some(1_590), Some(520), Some(445)]);
    assert_eq!(
        (all("preparation_ns"), all("forward_ns")),
        (vec![Some(100), Some(50), Some(50)], vec![Some(890), Some(340), Some(340)])
    );
    let bound: Vec<bool> = a.rows("iterations").iter().map(|r| r.flag("is_host_bound").unwrap()).collect();
    assert_eq!(bound, [true, false, false]);
}

#[test]
fn rates_follow_from_tokens_and_periods() {
    let a = sample();
    let rate = |name: &str| a.rows("iterations").iter().map(|r| r.float(name)).collect::<Vec<_>>();
    assert_eq!(rate("tokens_per_s"), [512e9 / 1_510e3, 4e9 / 700e3, 4e9 / 490e3].map(Some));
    assert_eq!(rate("ms_per_token"), [None, Some(0.7), Some(0.49)]);
    let phases = a.rows("iteration_phases");
    let of = |r: &Record| (r.text("phase").to_string(), r.int("requests"), r.int("iteration_count"));
    assert_eq!(
        phases.iter().map(of).collect::<Vec<_>>(),
        [("decode".to_string(), 4, 2), ("prefill".to_string(), 1, 1)]
    );
    // The last iteration has no period, so the rate of its kind is that of the one before.
    assert_eq!(phases[0].float("tokens_per_s"), Some(4e9 / 700e3));
    assert_eq!(phases.iter().map(|r| r.int("period_count")).collect::<Vec<_>>(), [1, 1]);
    assert_eq!(
        ["window_ns", "window_busy_ns", "gap_idle_ns", "host_exposed_ns"].map(|c| phases[0].int(c)),
        [us(1_005), us(820), us(180), us(135)]
    );
}

#[test]
fn categories_add_up_to_what_iterations_launched() {
    let a = sample();
    let of =
        |r: &Record| (r.text("phase").to_string(), r.text("category").to_string(), r.int("sum_ns") / 1_000);
    let known = [
        ("decode", "attention", 400),
        ("decode", "gemm", 400),
        ("decode", "elementwise", 20),
        ("prefill", "attention", 360),
        ("prefill", "gemm", 360),
    ];
    let known = known.map(|(phase, category, us)| (phase.to_string(), category.to_string(), us));
    assert_eq!(a.rows("iteration_categories").iter().map(of).collect::<Vec<_>>(), known);
}

#[test]
fn the_diagnosis_of_the_sample_tells_the_gap_first() {
    let a = sample();
    let findings = a.rows_where("findings", |r| r.text("kind") != "not_explained");
    let found: Vec<(&str, i64)> = findings.iter().map(|r| (r.text("kind"), r.int("owned_ns"))).collect();
    // Before the graph: 4.8 % of 2,700 us, in the launch call less; both are below 5 %.
    assert_eq!(found, [("iteration_gap", us(965))]);
    assert!(
        findings[0].text("sentence").starts_with("The device waits for the host between iterations"),
        "{}",
        findings[0].0
    );
    let account: i64 = a.rows("time_account").iter().map(|r| r.int("time_ns")).sum();
    assert_eq!(account, us(1_510 + 700 + 490));
}

#[test]
fn chosen_iterations_are_alone_and_others_do_not_exist() {
    let mut o = options();
    o.model.steps = Some(StepFilter { labels: Vec::new(), indices: vec![(1, 1)] });
    let a = sample_with(&o);
    assert_eq!((column(&a, "dur_ns"), column(&a, "period_ns")), (vec![Some(515)], vec![Some(700)]));
    assert_eq!(a.rows("iteration_phases").len(), 1);
}

#[test]
fn the_window_of_an_iteration_is_on_the_device_whatever_is_asked() {
    let mut o = options();
    o.model.step_window = StepWindow::Device;
    let of =
        |a: &Answer| a.rows("steps").iter().map(|r| (r.int("ts_ns"), r.int("dur_ns"))).collect::<Vec<_>>();
    assert_eq!(of(&sample()), of(&sample_with(&o)));
    assert_eq!(of(&sample()).iter().map(|w| w.1).collect::<Vec<_>>(), [us(720), us(515), us(490)]);
}

/// A decode iteration, alone.
///
/// ```text
///   host       [execute...      )                     us(0)..us(100)
///   launches     |=|    |=|        |=|                us(10), us(50), us(120)
///   stream 7       [a===)  [b===)     [c=)            us(20)..us(40), us(60)..us(140), us(150)..us(160)
/// ```
fn single(name: &str) -> TraceBuilder {
    let mut t = TraceBuilder::new().rank(0).device("NVIDIA H100", 132);
    let mut main = t.thread(1);
    main.annotation(name, 0..us(100));
    main.launch(us(10)..us(15)).kernel("a", 7, us(20)..us(40));
    main.launch(us(50)..us(55)).kernel("b", 7, us(60)..us(140));
    main.launch(us(120)..us(125)).kernel("c", 7, us(150)..us(160));
    t
}

#[test]
fn one_match_is_a_step() {
    let a = run(&single("execute_context_0(0)_generation_2(2)"));
    let step = one(a.rows("steps"));
    assert_eq!(
        (step.int("dur_ns"), step.int("launched_count"), step.opt_int("step_label")),
        (us(120), 2, None)
    );
    assert_eq!(one(a.rows("iterations")).text("label"), "decode 2 req 2 tok");
}

#[test]
fn drafted_tokens_make_the_rate_unknown() {
    let a = run(&single("execute_context_0(0)_generation_2(8)"));
    let r = one(a.rows("iterations"));
    assert_eq!((r.float("tokens_per_s"), r.float("ms_per_token")), (None, None));
    assert_eq!([r.int("generated_min"), r.int("generated_max")], [2, 8]);
}

#[test]
fn a_pattern_overrides_the_grammar_with_one_match() {
    let mut o = options();
    o.model.step_pattern = Some(regex::Regex::new("^execute_").unwrap());
    o.model.step_window = StepWindow::Device;
    let a = run_with(&single("execute_context_0(0)_generation_2(2)"), &o);
    assert_eq!(one(a.rows("ranks")).text("step_rule"), "pattern");
    assert_eq!(one(a.rows("steps")).int("dur_ns"), us(140));
    assert_eq!(a.rows("iterations").len(), 0);
}

#[test]
fn iterations_inside_steps_of_the_profiler_are_the_steps() {
    let mut t = single("execute_context_0(0)_generation_2(2)");
    t.thread(1).step(3, 0..us(110));
    assert_eq!(one(run(&t).rows("ranks")).text("step_rule"), "iteration");
    let mut t = single("execute_context_0(0)_generation_2(2)");
    t.thread(1).step(3, us(20)..us(110));
    assert_eq!(one(run(&t).rows("ranks")).text("step_rule"), "profiler_step");
}

#[test]
fn work_without_a_launch_and_of_other_processes_belongs_to_no_iteration() {
    let mut t = single("execute_context_0(0)_generation_2(2)");
    t.unlinked().kernel("u", 9, us(70)..us(80));
    t.event("cuda_runtime", "cudaLaunchKernel", 77, 77, us(30)..us(35)).arg("correlation", 9_999);
    t.event("kernel", "other", 0, 8, us(36)..us(46))
        .arg("correlation", 9_999)
        .arg("device", 0)
        .arg("stream", 8);
    let a = run(&t);
    let r = one(a.rows("iterations"));
    assert_eq!([r.int("activity_count"), r.int("post_count"), r.int("dur_ns")], [2, 1, us(120)]);
}

#[test]
fn an_iteration_that_launches_nothing_has_an_empty_window() {
    let mut t = single("execute_context_0(0)_generation_2(2)");
    t.thread(1).annotation("step[IDLE bs=0]", us(200)..us(210));
    t.thread(1).launch(us(220)..us(225)).kernel("d", 7, us(230)..us(240));
    let a = run(&t);
    let rows = a.rows("iterations");
    assert_eq!(rows.iter().map(|r| r.int("dur_ns")).collect::<Vec<_>>(), [us(120), 0]);
    assert_eq!((rows[1].text("phase"), rows[1].float("tokens_per_s")), ("idle", None));
}

#[test]
fn a_trace_without_iterations_says_so() {
    let mut t = TraceBuilder::new().rank(0).device("NVIDIA H100", 132);
    t.thread(1).launch(us(10)..us(15)).kernel("a", 7, us(20)..us(40));
    let a = run(&t);
    assert_eq!(a.rows("iterations").len(), 0);
    let output = a.outcome.outputs.iter().find(|(x, _)| x.stem() == "iterations").map(|(_, o)| o).unwrap();
    assert!(output.notes.is_empty());
    let why = a.rows_where("without_rows", |r| r.text("analysis") == "iterations");
    assert_eq!(why[0].text("reason"), "no iterations of an inference engine");
}

/// Frames alone: the process that takes requests and gives them to the one with the GPU.
fn front_end() -> TraceBuilder {
    let mut t = TraceBuilder::new().pid(50);
    let mut main = t.thread(50);
    main.frame("server.py(10): serve", 0..us(5_000));
    main.frame("socket.py(20): recv", us(100)..us(4_000));
    t
}

#[test]
fn a_front_end_is_no_rank_of_the_set() {
    let folder = tempfile::tempdir().unwrap();
    let (front, worker) = (folder.path().join("api.pt.trace.json"), folder.path().join("worker.json.gz"));
    std::fs::write(&front, front_end().to_json()).unwrap();
    std::fs::copy(shared::samples().join("serving/rank_0.json.gz"), &worker).unwrap();
    for inputs in [vec![folder.path().to_path_buf()], vec![front.clone(), worker.clone()]] {
        let a = answer(&inputs, &options());
        assert_eq!(a.outcome.ranks(), [0]);
        assert_eq!(column(&a, "dur_ns"), [Some(720), Some(515), Some(490)]);
        let refused = a.outcome.refused.iter().map(|r| r.error.to_string()).collect::<Vec<_>>();
        assert!(
            matches!(&refused[..], [one] if one.ends_with("a process without GPU work (front end?)")),
            "{refused:?}"
        );
        assert!(!a.outcome.has_loss());
    }
    // Alone it is read, and has no finding.
    let a = answer(&[front], &options());
    assert_eq!((a.outcome.ranks().len(), a.rows("findings").len(), a.rows("iterations").len()), (1, 0, 0));
}

/// A host that is iterations ahead of its device: its graphs wait in a queue.
///
/// ```text
///   host       [0 g g )[1 g g )............[2 g g )
///   stream 7      [a====).[b====)...[a====).[b====)...[a====).[b====)
/// ```
fn host_ahead(graphs: i64) -> TraceBuilder {
    let mut t = TraceBuilder::new().rank(0).device("NVIDIA H100", 132);
    let mut main = t.thread(1);
    let mut device = us(100);
    for k in 0..6 {
        let start = if k < 3 { us(60) * k } else { us(1_000) * (k - 2) };
        main.annotation("execute_context_0(0)_generation_4(4)", start..start + us(50));
        for g in 0..graphs {
            let call = start + us(5 + 8 * g);
            main.graph_launch(call..call + us(4)).kernel("a", 7, device..device + us(900 / graphs));
            device += us(900 / graphs) + if g + 1 < graphs { us(30) } else { us(10) };
        }
    }
    t
}

#[test]
fn idle_time_between_graphs_of_an_iteration_is_no_bubble_where_the_host_is_ahead() {
    for graphs in [1, 3] {
        let a = run(&host_ahead(graphs));
        assert_eq!(column(&a, "gap_idle_ns"), [[Some(10); 5].as_slice(), &[None]].concat());
        assert_eq!(column(&a, "host_exposed_ns")[..5], [Some(10); 5]);
        assert!(a.rows("iterations").iter().all(|r| r.flag("is_host_bound") == Some(false)));
    }
}

//! Critical paths of real traces: known shares, and every window is tiled.

use crate::analyses::critical_path::*;
use crate::robustness::invariants::traces_below;
use crate::run::{Answer, answer, options, rank_trace};
use crate::shared;
use hta::analysis::critical_path::{CAPTURE, path};
use hta::trace::rank_trace::StepFilter;

/// Percent of the window that classes with one of these beginnings take.
fn share(answer: &Answer, classes: &[&str]) -> f64 {
    let rows = answer.rows("critical_path_summary");
    let of = rows.iter().filter(|r| classes.iter().any(|c| r.text("class").starts_with(c)));
    of.filter_map(|r| r.float("window_pct")).sum()
}

#[test]
fn paths_of_real_traces_are_what_the_definitions_say() {
    let Some(root) = shared::folder() else { return };
    let resnet = "kineto_tb/samples_resnet50_num_workers_0_worker0.1623143089861.pt.trace.json.gz";
    let cases: [(&str, Option<i64>, &str, f64); 7] = [
        ("tracelens/mi300_resnet_act_checkpoint.json.gz", Some(15), "gpu_communication", 82.0),
        (resnet, Some(5), "host_data_loader", 36.0),
        (resnet, Some(5), "gpu_compute", 35.0),
        ("hta/trace_diff_test_test.json.gz", Some(1009), "gpu_", 94.0),
        ("tracelens/b200_eager_trace.json.gz", None, "host_python", 56.0),
        ("tracelens/b200_eager_trace.json.gz", None, "host_operator", 33.0),
        ("multirank_gloo_ddp4/rank_0.pt.trace.json.gz", Some(2), "host_communication", 85.0),
    ];
    for (trace, step, class, pct) in cases {
        let mut options = options();
        match step {
            Some(label) => {
                options.model.steps = Some(StepFilter { labels: vec![(label, label)], indices: vec![] })
            }
            None => options.settings.set(&CAPTURE, "").expect("a flag"),
        }
        let answer = answer(&[root.trace(trace)], &options);
        let got = share(&answer, &[class]);
        assert!((got - pct).abs() < 1.0, "{trace}: {class} {got}");
    }
}

#[test]
fn every_step_and_capture_of_every_real_trace_is_tiled() {
    let Some(root) = shared::folder() else { return };
    let files: Vec<_> =
        ["hta", "tracelens", "kineto_tb"].iter().flat_map(|f| traces_below(&root.trace(f))).collect();
    let mut windows = 0;
    for file in files {
        let input = hta::read::input::Input::named(&file).shown_as("");
        let loaded = hta::read::load::load(
            &input,
            hta::read::options::LoadOptions::default(),
            hta::read::reading::Spread::Inline,
            &hta::read::source::ByteCount::default(),
        );
        if loaded.is_err() {
            continue;
        }
        let trace = rank_trace(&file, 0);
        let steps = trace.steps.steps.iter().map(|s| s.window);
        for window in steps.chain([trace.capture]).filter(|w| !w.is_empty()) {
            let found = path(&trace, window);
            assert!(
                tile(&found, window) && work_is_inside_its_event(&trace, &found),
                "{} {window:?}",
                file.display()
            );
            windows += 1;
        }
    }
    assert!(windows > 100, "{windows}");
}

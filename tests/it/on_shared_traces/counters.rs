//! Utilization, efficiency and occupancy against the TensorBoard plugin.

use crate::analyses::counters::*;
use crate::run::{Record, answer, device_windows, rank_trace};
use crate::shared;
use crate::shared::json;
use hta::analysis::counters::load::{kernels, loads, multiprocessors};
use hta::units::Span;

const RESNET50: &str = "samples_resnet50_num_workers_0_worker0.1623143089861.pt.trace.json.gz";

/// Traces of the plugin's own tests for which hta answers differently, and why: plugin, hta.
const OTHERWISE: [(&str, f64, f64, &str); 5] = [
    ("test_distributed_nccl.0", 0.5148936170212766, 0.933_643_771_827_706_6, NO_LAUNCHES),
    ("test_distributed_nccl.1", 0.7787234042553192, 0.766_049_382_716_049_4, NO_LAUNCHES),
    ("test_last_steps_no_kernel.0", 0.8181818181818182, 0.542_857_142_857_142_8, DROPPED),
    ("test_memory_view.0", 0.0375, 0.015_789_473_684_210_527, DROPPED),
    (
        "test_multiple_profilersteps_with_overlap.0",
        0.5405405405405406,
        0.568_627_450_980_392_1,
        "the plugin lets the first step begin when the kernel from before it has ended; hta where it is marked",
    ),
];

const NO_LAUNCHES: &str =
    "neither steps nor launches: the plugin ends with the last host event, hta with the capture";

const DROPPED: &str = "the plugin drops steps at the end that launch no kernel; hta does not";

#[test]
fn resnet50_is_as_busy_as_the_tensorboard_plugin_says() {
    let Some(root) = shared::folder() else { return };
    let reference = json(&shared::reference("tensorboard/resnet50_num_workers_0.span1/overview.json"));
    let file = root.trace(&format!("kineto_tb/{RESNET50}"));
    let answer = answer(std::slice::from_ref(&file), &device_windows());
    let row = &answer.rows_where("counter_means", |r| r.text("scope") == "steps")[0];
    for (column, key) in [
        ("gpu_utilization_ratio", "gpu_utilization"),
        ("sm_efficiency_ratio", "sm_efficiency"),
        ("est_occupancy_pct", "occupancy_pct"),
    ] {
        let want = reference[key]["0"].as_f64().expect("a number");
        assert!(near(row.float(column), want), "{column}: plugin {want}, hta {}", row.0);
    }
    // The plugin has buckets of 100 ms from its own start; the last one takes the rest, here more than one width.
    let trace = rank_trace(&file, 0);
    let buckets = reference["gpu_util_buckets"]["0"].as_array().expect("a list");
    let at = |i: usize| buckets[i][0].as_i64().expect("a time") * 1000;
    let spans: Vec<Span> = (1..buckets.len()).map(|i| Span::new(at(i - 1), at(i))).collect();
    let asked: Vec<&[Span]> = spans.iter().map(std::slice::from_ref).collect();
    let mut compared = 0;
    for (i, load) in
        loads(&kernels(&trace, &trace.devices[0], &multiprocessors(&trace)), &asked).iter().enumerate()
    {
        let want = buckets[i][1].as_f64().expect("a share");
        assert!(near(load.utilization(spans[i].len()), want), "bucket {i}: {want}");
        compared += 1;
    }
    assert_eq!(compared, 10);
}

#[test]
fn traces_of_the_plugins_own_tests_are_as_busy_as_it_says() {
    let folder = shared::reference("tensorboard/unit");
    let (mut compared, mut otherwise) = (0, 0);
    for file in shared::files_below(&folder) {
        let Some(name) =
            file.file_name().and_then(|n| n.to_str()).and_then(|n| n.strip_suffix(".expected.json"))
        else {
            continue;
        };
        let reference = json(&file);
        let Some(want) = reference["gpu_utilization"][0].as_f64() else { continue };
        let answer = answer(&[folder.join(format!("{name}.trace.json"))], &device_windows());
        let device = reference["gpu_ids"][0].as_i64();
        let wanted = |r: &Record| r.text("scope") == "steps" && r.opt_int("device") == device;
        let row = answer
            .rows_where("counter_means", wanted)
            .into_iter()
            .next()
            .unwrap_or_else(|| panic!("{name}: no row"));
        let got = row.float("gpu_utilization_ratio");
        if let Some((_, theirs, ours, why)) = OTHERWISE.iter().find(|o| o.0 == name) {
            assert!(
                near(Some(*theirs), want) && near(got, *ours) && why.len() > 20,
                "{name}: {want} {got:?}"
            );
            otherwise += 1;
            continue;
        }
        assert!(near(got, want), "{name}: plugin {want}, hta {got:?}");
        for (column, key) in [("sm_efficiency_ratio", "sm_eff"), ("est_occupancy_pct", "occupancy")] {
            if let Some(want) = reference[key][0].as_f64() {
                assert!(near(row.float(column), want), "{name} {column}: plugin {want}, hta {}", row.0);
            }
        }
        compared += 1;
    }
    assert_eq!((compared, otherwise), (16, OTHERWISE.len()));
}

//! Steps of real traces against the TensorBoard plugin, and known windows.

use crate::run::{answer, device_windows, one, options};
use crate::shared;
use crate::shared::json;
use hta_testkit::us;
use serde_json::Value;

/// A row of numbers, us, as ns.
fn costs(row: &Value) -> Vec<i64> {
    row.as_array().expect("a list").iter().filter_map(Value::as_i64).map(us).collect()
}

/// Fixtures of the plugin's own tests whose totals are defined differently:
/// - without steps, it takes the time from the first to the last operator of the host; here the capture is the step;
/// - its first step begins after kernels that ran before it, and steps after the last kernel are left out.
const ANOTHER_THING: [&str; 6] = [
    "test_build_module_hierarchy.0",
    "test_distributed_nccl.0",
    "test_distributed_nccl.1",
    "test_last_steps_no_kernel.0",
    "test_memory_view.0",
    "test_multiple_profilersteps_with_overlap.0",
];

/// Kernel, Memcpy, Memset, Runtime, DataLoader, CPU, Other: all except the device's are idle time here.
#[test]
fn device_windows_are_the_steps_of_the_tensorboard_plugin() {
    let Some(root) = shared::folder() else { return };
    let reference = json(&shared::reference("tensorboard/resnet50_num_workers_0.span1/overview.json"));
    let trace = root.trace("kineto_tb/samples_resnet50_num_workers_0_worker0.1623143089861.pt.trace.json.gz");
    let answer = answer(&[trace], &device_windows());
    let rows = reference["steps"]["rows"].as_array().expect("steps");
    let steps = answer.rows("steps");
    assert_eq!((steps.len(), rows.len()), (6, 6));
    for (step, want) in steps.iter().zip(rows) {
        let label = want[0].as_str().expect("a name");
        assert_eq!(step.int("step_label").to_string(), label);
        let c = costs(want);
        let times = ["dur_ns", "compute_ns", "copies_ns", "exposed_communication_ns"].map(|k| step.int(k));
        assert_eq!(times, [c.iter().sum(), c[0], c[1] + c[2], 0], "step {label}");
        assert_eq!(step.int("idle_ns"), c[3..].iter().sum::<i64>(), "step {label}");
    }
}

#[test]
fn step_lengths_of_the_plugins_own_tests_agree() {
    let (mut compared, mut differing) = (0, Vec::new());
    for file in shared::files_below(&shared::reference("tensorboard/unit")) {
        let name = file.file_name().expect("a name").to_string_lossy().into_owned();
        let Some(stem) = name.strip_suffix(".expected.json").filter(|s| !s.ends_with("distributed")) else {
            continue;
        };
        let rows = json(&file)["steps_costs"].as_array().cloned().unwrap_or_default();
        let total = |r: &Value| r.as_array().and_then(|c| c.last()).and_then(Value::as_i64).map(us);
        // Without any event that it counts as work, the plugin has a total of -18446744073709551615.
        let Some(totals) = rows.iter().map(total).collect::<Option<Vec<i64>>>() else { continue };
        let answer = answer(&[file.with_file_name(format!("{stem}.trace.json"))], &device_windows());
        let lengths: Vec<i64> = answer.rows("steps").iter().map(|r| r.int("dur_ns")).collect();
        compared += 1;
        if lengths != totals {
            differing.push(stem.to_string());
        }
    }
    assert_eq!((compared, differing), (28, ANOTHER_THING.map(str::to_string).to_vec()));
}

#[test]
fn known_windows_of_real_steps_are_in_the_table() {
    let Some(root) = shared::folder() else { return };
    let resnet = "kineto_tb/samples_resnet50_num_workers_0_worker0.1623143089861.pt.trace.json.gz";
    let gloo = "multirank_gloo_ddp4/rank_2.pt.trace.json.gz";
    for (trace, options, label, times) in [
        (resnet, device_windows(), 5, [187_948_000, 98_598_000, 0, 2_031_000, 87_319_000]),
        (resnet, options(), 5, [176_078_000, 87_356_000, 0, 2_026_000, 86_696_000]),
        (gloo, options(), 2, [211_048_896, 84_577_604, 50_115_200, 0, 76_356_092]),
    ] {
        let answer = answer(&[root.trace(trace)], &options);
        let row = one(answer.rows_where("steps", |r| r.int("step_label") == label));
        let columns = ["dur_ns", "compute_ns", "exposed_communication_ns", "copies_ns", "idle_ns"];
        assert_eq!(columns.map(|c| row.int(c)), times, "{trace}");
    }
}

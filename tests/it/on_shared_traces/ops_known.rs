//! Operators against the figures of the PyTorch TensorBoard plugin, and against answers computed without any tool.

use crate::analyses::ops::{ops, with};
use crate::cli::csv::{CsvRow, read, text as cell};
use crate::cli::other_columns::{printed, rows};
use crate::run::Record;
use crate::shared;
use std::collections::BTreeMap;

const RESNET50: &str = "kineto_tb/samples_resnet50_num_workers_0_worker0.1623143089861.pt.trace.json.gz";
const PLUGIN: &str = "tensorboard/resnet50_num_workers_0.span1";

/// Calls; device self, device total, host self, host total, us.
const KNOWN: [(&str, [i64; 5]); 5] = [
    ("aten::cudnn_convolution", [318, 126_619, 126_619, 33_121, 56_998]),
    ("aten::conv2d", [318, 0, 126_619, 7_387, 77_781]),
    ("aten::cudnn_convolution_backward_weight", [318, 142_461, 142_461, 22_804, 40_246]),
    ("aten::add_", [2_994, 24_098, 24_098, 51_013, 78_125]),
    ("CudnnConvolutionBackward", [318, 0, 273_428, 3_217, 90_989]),
];

const COLUMNS: [&str; 5] = ["count", "gpu_self_ns", "gpu_ns", "host_self_ns", "host_ns"];

fn figures(r: &Record) -> [i64; 5] {
    COLUMNS.map(|c| if c.ends_with("_ns") { r.int(c) / 1000 } else { r.int(c) })
}

fn capture(r: &Record) -> bool {
    r.text("scope") == "capture"
}

/// Fixtures whose API calls are on another thread than their operators, or name another operator by `External id`: the
/// plugin uses the id, hta the thread.
const BY_EXTERNAL_ID: [&str; 5] = [
    "test_external_id",
    "test_gpu_utilization",
    "test_group_by_kernel_columns",
    "test_group_by_kernel_columns_invalid_input",
    "test_memory_view",
];

/// Needs the traces beside the repository: see [`crate::shared::folder`].
mod on_shared_traces {
    use super::*;

    #[test]
    fn host_self_time_is_without_children_and_api_calls() {
        let Some(root) = shared::folder() else { return };
        let answer = ops(&[root.trace(RESNET50)], &with(&[])).expect("a good trace");
        for (name, want) in KNOWN {
            let rows = answer.rows_where("operators", |r| capture(r) && r.text("name") == name);
            assert_eq!(rows.iter().map(figures).collect::<Vec<_>>(), [want], "{name}");
        }
        // Forward convolutions own the launches of their backward nodes, by sequence number.
        let forward = answer.rows_where("operators", |r| r.text("name") == "aten::conv2d");
        assert_eq!(forward[0].int("bwd_gpu_ns"), 273_428_000);
        let stacks = &answer.rows("call_stacks")[0];
        assert_eq!((stacks.text("bwd_rule"), stacks.int("bwd_unmatched_count")), ("sequence", 0));
    }

    /// Every row of the plugin's operator tables, by name and by name and shape. The plugin merges an operator with its
    /// only child of the same name (`aten::div`), which counts as two calls here.
    #[test]
    fn operators_of_resnet50_equal_those_of_the_tensorboard_plugin() {
        let Some(root) = shared::folder() else { return };
        for (file, by, rows) in [
            ("operators_by_name.csv", &[][..], 76),
            ("operators_by_name_shape.csv", &[("--by", "shape")], 577),
        ] {
            let answer = ops(&[root.trace(RESNET50)], &with(by)).expect("a good trace");
            let dims = |text: &str| text.replace(' ', "");
            let key = |r: &Record| (r.text("name").to_string(), dims(r.text("input_dims")));
            let mut ours: BTreeMap<_, _> =
                answer.rows_where("operators", capture).iter().map(|r| (key(r), figures(r))).collect();
            let reference = read(&shared::reference(PLUGIN).join(file)).expect("a reference");
            assert_eq!(reference.len(), rows);
            for r in reference {
                let shape = r.get("input_shape").map(|s| dims(s)).unwrap_or_default();
                let key = (r["name"].clone(), shape);
                let columns = [
                    "calls",
                    "device_self_duration",
                    "device_total_duration",
                    "host_self_duration",
                    "host_total_duration",
                ];
                let mut want = columns.map(|c| r[c].parse::<i64>().expect("a whole number"));
                if key.0 == "aten::div" && (by.is_empty() || want[1] > 0) {
                    want[0] += 6;
                }
                assert_eq!(ours.remove(&key), Some(want), "{key:?}");
            }
            // The remaining row is not an operator.
            assert_eq!(ours.into_keys().map(|k| k.0).collect::<Vec<_>>(), ["[no operator]"]);
        }
    }

    #[test]
    fn operators_of_the_plugins_own_fixtures_are_the_same() {
        let folder = shared::reference("tensorboard/unit");
        let (mut compared, mut linked) = (0, 0);
        for file in shared::files_below(&folder) {
            let path = file.to_string_lossy().into_owned();
            let Some(stem) = path.strip_suffix(".trace.json") else { continue };
            let text =
                std::fs::read_to_string(format!("{stem}.expected.json")).expect("the reference can be read");
            let expected: serde_json::Value = serde_json::from_str(&text).expect("the reference is JSON");
            let Some(answer) = ops(std::slice::from_ref(&file), &with(&[])) else { continue };
            let ours = answer.rows_where("operators", capture);
            let test = stem.rsplit('/').next().and_then(|n| n.split('.').next()).unwrap_or_default();
            for op in expected["op_by_name"].as_array().into_iter().flatten() {
                let name = op["name"].as_str().expect("a name");
                let found = ours
                    .iter()
                    .find(|r| r.text("name") == name)
                    .unwrap_or_else(|| panic!("{test}: no {name}"));
                let [count, gpu_self, gpu, host_self, host] = figures(found);
                let us = |key: &str| op[key].as_i64().expect("a whole number");
                assert_eq!(host, us("host_duration"), "{test}: {name}");
                compared += 1;
                if BY_EXTERNAL_ID.contains(&test) {
                    continue;
                }
                assert_eq!(host_self, us("self_host_duration"), "{test}: {name}");
                assert_eq!(
                    [gpu_self, gpu],
                    [us("self_device_duration"), us("device_duration")],
                    "{test}: {name}"
                );
                // Three nested operators of one name count as one call there.
                let merged = if test == "test_remove_dup_nodes" { 2 } else { 0 };
                assert_eq!(count, us("calls") + merged, "{test}: {name}");
                linked += 1;
            }
        }
        assert!(compared >= 50 && linked >= 38, "{compared} rows, {linked} of them whole");
    }
}

/// The plugin makes one call of an operator and the one of the same name inside it, so those are left out.
#[test]
fn the_columns_of_tensorboard_have_the_plugin_s_numbers() {
    let Some(root) = shared::folder() else { return };
    let trace = root.trace(RESNET50);
    let ours = rows(&printed(&["ops", &trace.to_string_lossy(), "--format", "tensorboard"]));
    let theirs = read(&shared::reference(PLUGIN).join("operators_by_name.csv")).expect("a reference");
    let by_name: BTreeMap<&str, &CsvRow> = ours.iter().map(|r| (cell(r, "Name"), r)).collect();
    let (mut compared, mut merged) = (0, 0);
    for row in &theirs {
        let name = cell(row, "name");
        let Some(mine) = by_name.get(name) else { panic!("no row `{name}`") };
        if cell(row, "calls") != cell(mine, "Calls") {
            merged += 1;
            continue;
        }
        let pairs = [
            ("device_self_duration", "Device Self Duration (us)"),
            ("host_self_duration", "Host Self Duration (us)"),
            ("tc_eligible", "Tensor Cores Eligible"),
        ];
        for (their, my) in pairs {
            assert_eq!(cell(row, their), cell(mine, my), "{name}: {my}");
        }
        compared += 1;
    }
    assert!(compared > 50 && merged * 20 < compared, "{compared} {merged}");
}

//! `--compat tracelens` against TraceLens' own `gpu_timeline.csv`.
//!
//! TraceLens computes in f64 microseconds since 1970, hta in integer nanoseconds, so times may differ by the rounding
//! of such floats, 0.1 us at most.

use crate::cli::csv::{CsvRow, number, read, text};
use crate::run::{answer_by, options};
use crate::shared;
use hta::compat::Compat;
use std::collections::BTreeMap;

/// Folder of the reference and its trace below `traces/tracelens/`.
const TRACES: [(&str, &str); 12] = [
    ("b200_eager", "b200_eager_trace.json.gz"),
    ("h100_Qwen", "h100_Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz"),
    ("h100_timesformer", "h100_facebook_timesformer-base-finetuned-k400__1016002.json.gz"),
    ("mi210_gpu_only", "mi210_gpu_only_trace_gpu_only_trace.json.gz"),
    ("mi300_Qwen", "mi300_Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz"),
    ("mi300_resnet", "mi300_resnet_act_checkpoint.json.gz"),
    ("mi300_timesformer", "mi300_facebook_timesformer-base-finetuned-k400__1016002.json.gz"),
    ("normalization", "perf_model_normalization_normalization_layer_test.json.gz"),
    ("sglang_decode", "inference_sglang_decode_sglang_Qwen3-8B_decode.json.gz"),
    ("torch_compile_triton", "torch_compile_triton_trace.json.gz"),
    ("vllm_decode_full", "inference_vllm_decode_full_graph_execution.json.gz"),
    ("vllm_decode_full_perf", "inference_vllm_decode_full_graph_execution.json.gz"),
];

/// Largest difference, ms.
const TOLERANCE: f64 = 0.000_1;

/// Values that add up over mi300_resnet's two halves, without and with recomputation. The spans of the halves overlap,
/// so nothing else adds up; recomputed kernels there are compute only.
const ADDS_UP: [&str; 4] =
    ["computation_time", "total_comm_time", "total_memcpy_time", "exposed_memcpy_time"];

/// Rows of a folder: time by type, ms, and whether each type had two rows that were added.
fn times(rows: &[CsvRow]) -> BTreeMap<&str, (f64, bool)> {
    let mut sums: BTreeMap<&str, (f64, bool)> = BTreeMap::new();
    for row in rows {
        let time = number(row, "time ms").expect("every row has a time");
        sums.entry(text(row, "type")).and_modify(|s| *s = (s.0 + time, true)).or_insert((time, false));
    }
    sums
}

#[test]
fn gpu_timelines_equal_tracelens_within_a_tenth_of_a_microsecond() {
    let Some(root) = shared::folder() else { return };
    let (mut compared, mut summed) = (0, 0);
    for (name, file) in TRACES {
        let reference = shared::reference("tracelens").join(name).join("gpu_timeline.csv");
        let rows = read(&reference).unwrap_or_else(|| panic!("{name}: no gpu_timeline.csv"));
        let theirs = times(&rows);
        let trace = root.trace(&format!("tracelens/{file}"));
        let ours =
            answer_by(Some(Compat::TraceLens), &[trace], &options()).rows("compat_tracelens_gpu_timeline");
        assert_eq!((ours.len(), theirs.len()), (8, 8), "{name}");
        let total = ours.iter().find(|r| r.text("type") == "total_time").and_then(|r| r.float("time ms"));
        let total = total.unwrap_or_else(|| panic!("{name}: no total_time"));
        for row in &ours {
            let kind = row.text("type");
            let (time, is_sum) = theirs[kind];
            if is_sum && !ADDS_UP.contains(&kind) {
                continue;
            }
            let mine = row.float("time ms").expect("a time");
            assert!((mine - time).abs() <= TOLERANCE, "{name} {kind}: TraceLens {time} ms, hta {mine} ms");
            compared += 1;
            summed += usize::from(is_sum);
            if !is_sum {
                let (a, b) = (row.float("percent"), rows.iter().find(|r| text(r, "type") == kind));
                let (a, b) =
                    (a.expect("a percent"), b.and_then(|r| number(r, "percent")).expect("a percent"));
                assert!((a - b).abs() <= 100.0 * 2.0 * TOLERANCE / total, "{name} {kind}: {b} %, hta {a} %");
            }
        }
    }
    assert_eq!((compared, summed), (11 * 8 + 4, 4));
}

#[test]
fn every_gpu_timeline_of_the_reference_is_compared() {
    let mut folders: Vec<String> = std::fs::read_dir(shared::reference("tracelens"))
        .expect("the reference can be listed")
        .map(|e| e.expect("an entry can be read").path())
        .filter(|p| p.join("gpu_timeline.csv").exists())
        .filter_map(|p| p.file_name().map(|n| n.to_string_lossy().into_owned()))
        .collect();
    folders.sort();
    assert_eq!(folders, TRACES.map(|t| t.0));
}

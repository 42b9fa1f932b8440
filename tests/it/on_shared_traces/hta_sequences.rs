//! `patterns --compat hta` against the frequent kernel sequences found by Meta's HTA 0.5.0.

use crate::cli::csv::{CsvRow, number, read, text};
use crate::run::{Record, answer_by, options};
use crate::shared;
use hta::compat::Compat;
use hta::registry::find;
use std::path::{Path, PathBuf};

/// Folder of the reference, its trace below `traces/` and its rank.
const TRACES: [(&str, &str, u32); 15] = [
    ("amd_mi250", "hta/amd_trace_mi250_minitoy_train_ROCm6_2_kineto.json.gz", 0),
    ("backward_thread", "hta/call_stack_backward_thread.json", 0),
    ("cp_cuda_event_sync", "hta/critical_path_cuda_event_sync_event_sync_trace.json.gz", 0),
    (
        "cp_event_sync_multi_stream",
        "hta/critical_path_cuda_event_sync_multi_stream_event_sync_trace.json.gz",
        0,
    ),
    ("cp_simple_add", "hta/critical_path_end_to_end_simple_add_input_trace.json.gz", 0),
    ("cpu_only", "hta/cpu_only_rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz", 34),
    ("cupti_profiler", "hta/cupti_profiler_benchmark_result_924719_1679055439_trace.json.gz", 0),
    ("execution_trace", "hta/execution_trace_benchmark_simple_add_trace.json.gz", 0),
    ("rank_non_gpu", "hta/mixed_files_rank_non_gpu.json.gz", 0),
    ("trace_compare_base", "hta/trace_compare_base_base.json.gz", 1),
    ("trace_compare_test", "hta/trace_compare_test_test.json.gz", 1),
    ("trace_diff_control", "hta/trace_diff_control_control.json.gz", 3),
    ("trace_diff_test", "hta/trace_diff_test_test.json.gz", 1),
    ("x_cuda_event_sync_old", "hta/a4a6c2_critical_path_cuda_event_sync_event_sync_trace.json.gz", 0),
    ("x_with_gpu_user_annotation", "hta/with_gpu_user_annotation_step_based_trace_2543932.json.gz", 0),
];

const MEGATRON: (&str, &str, u32) =
    ("megatron_tp8", "multirank_nccl_megatron_tp8/megatron_kineto_{}.json.gz", 8);

fn ours(paths: &[PathBuf], least: &str) -> Vec<Record> {
    let mut o = options();
    let settings = find("patterns").expect("it is registered").about().settings;
    let setting = settings.iter().find(|s| s.flag == "--min-length").expect("a setting");
    o.settings.set(setting, least).expect("a number");
    answer_by(Some(Compat::Hta), paths, &o).rows("compat_hta_frequent_kernel_sequences")
}

fn same(folder: &str, theirs: &[CsvRow], ours: &[&Record]) {
    let key = |r: &&Record| (r.text("operator_name").to_string(), r.text("pattern").to_string());
    let want: Vec<_> = theirs
        .iter()
        .map(|r| (text(r, "operator_name").to_string(), text(r, "pattern").to_string()))
        .collect();
    assert_eq!(ours.iter().map(key).collect::<Vec<_>>(), want, "{folder}");
    for (a, b) in theirs.iter().zip(ours) {
        for column in ["count", "GPU kernel duration (us)", "CPU op duration (us)"] {
            assert_eq!(b.float(column), number(a, column), "{folder} {column}: {}", b.0);
        }
    }
}

fn reference(folder: &Path, rank: u32, least: &str) -> Vec<CsvRow> {
    let name = format!("frequent_kernel_sequences_rank{rank}_minlen{least}.csv");
    read(&folder.join(&name)).unwrap_or_else(|| panic!("{} has no {name}", folder.display()))
}

#[test]
fn sequences_equal_those_of_hta() {
    let Some(root) = shared::folder() else { return };
    let references = shared::reference("hta");
    let mut rows = 0;
    for least in ["3", "1"] {
        for (folder, trace, rank) in TRACES {
            let theirs = reference(&references.join(folder), rank, least);
            let ours = ours(&[root.trace(trace)], least);
            same(folder, &theirs, &ours.iter().collect::<Vec<_>>());
            rows += theirs.len();
        }
        let (folder, pattern, ranks) = MEGATRON;
        let paths: Vec<PathBuf> =
            (0..ranks).map(|r| root.trace(&pattern.replace("{}", &r.to_string()))).collect();
        let all = ours(&paths, least);
        for rank in 0..ranks {
            let theirs = reference(&references.join(folder), rank, least);
            let own: Vec<&Record> = all.iter().filter(|r| r.int("rank") == i64::from(rank)).collect();
            same(folder, &theirs, &own);
            rows += theirs.len();
        }
    }
    assert_eq!(rows, 80);
}

/// Every such file of the reference is compared, so a new folder that is not listed here fails.
#[test]
fn every_file_of_sequences_is_compared() {
    let is_one = |p: &PathBuf| {
        p.file_name().is_some_and(|n| n.to_string_lossy().starts_with("frequent_kernel_sequences"))
    };
    let found = shared::files_below(&shared::reference("hta")).iter().filter(|p| is_one(p)).count();
    assert_eq!(found, 2 * (TRACES.len() + MEGATRON.2 as usize));
}

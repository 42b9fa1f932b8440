//! `--compat hta` against the output of Meta's HTA 0.5.0 for the same traces, to the digit.
//!
//! Comparisons are counted and the counts asserted, so that a missing file or an empty table does not pass for
//! agreement.

use crate::cli::csv::{CsvRow, number, read, text};
use crate::run::{Answer, Record, answer_by, options};
use crate::shared;
use hta::compat::Compat;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Folder of the reference and its trace below `traces/`.
const TRACES: [(&str, &str); 27] = [
    ("amd_mi250", "hta/amd_trace_mi250_minitoy_train_ROCm6_2_kineto.json.gz"),
    ("b200_eager", "tracelens/b200_eager_trace.json.gz"),
    ("backward_thread", "hta/call_stack_backward_thread.json"),
    ("cp_cuda_event_sync", "hta/critical_path_cuda_event_sync_event_sync_trace.json.gz"),
    ("cp_event_sync_multi_stream", "hta/critical_path_cuda_event_sync_multi_stream_event_sync_trace.json.gz"),
    ("cp_simple_add", "hta/critical_path_end_to_end_simple_add_input_trace.json.gz"),
    ("cpu_only", "hta/cpu_only_rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz"),
    ("cupti_profiler", "hta/cupti_profiler_benchmark_result_924719_1679055439_trace.json.gz"),
    ("execution_trace", "hta/execution_trace_benchmark_simple_add_trace.json.gz"),
    ("h100_qwen", "tracelens/h100_Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz"),
    ("h100_timesformer", "tracelens/h100_facebook_timesformer-base-finetuned-k400__1016002.json.gz"),
    ("mi300_resnet", "tracelens/mi300_resnet_act_checkpoint.json.gz"),
    ("mtia_inference", "hta/mtia_inference_trace_mtia_inference_rank_0.json.gz"),
    ("nccl_data", "hta/nccl_parser_config_nccl_data.json.gz"),
    ("rank_non_gpu", "hta/mixed_files_rank_non_gpu.json.gz"),
    ("sglang_decode", "tracelens/inference_sglang_decode_sglang_Qwen3-8B_decode.json.gz"),
    ("trace_compare_base", "hta/trace_compare_base_base.json.gz"),
    ("trace_compare_test", "hta/trace_compare_test_test.json.gz"),
    ("trace_diff_control", "hta/trace_diff_control_control.json.gz"),
    ("trace_diff_test", "hta/trace_diff_test_test.json.gz"),
    ("trace_file_list", "hta/trace_file_list_inference_rank_1.json.gz"),
    ("triton_example", "hta/c88eab_triton_example_triton_example.json.gz"),
    ("v100_resnet50", "kineto_tb/samples_resnet50_num_workers_0_worker0.1623143089861.pt.trace.json.gz"),
    ("x_cpu_only_old", "hta/05cd72_cpu_only_rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz"),
    ("x_cuda_event_sync_old", "hta/a4a6c2_critical_path_cuda_event_sync_event_sync_trace.json.gz"),
    ("x_large_integer", "hta/large_integer_trace_rank-70.Mar_25_20_48_12.2861.pt.trace.json.gz"),
    ("x_with_gpu_user_annotation", "hta/with_gpu_user_annotation_step_based_trace_2543932.json.gz"),
];

/// Sets of several ranks: folder of the reference and their traces.
const SETS: [(&str, &str, u32); 2] = [
    ("gloo_ddp4", "multirank_gloo_ddp4/rank_{}.pt.trace.json.gz", 4),
    ("megatron_tp8", "multirank_nccl_megatron_tp8/megatron_kineto_{}.json.gz", 8),
];

/// Folders of the reference without any of these four analyses.
const OTHER_FOLDERS: [&str; 2] = ["memory_timeline", "trace_diff"];

/// Folder, table, row, the reference's value, ours, and the reason.
type Difference = (&'static str, &'static str, &'static str, Option<f64>, Option<f64>, &'static str);

/// Intended differences: folder, table, key, HTA's value, hta's value, reason.
const DIFFERENCES: [Difference; 3] = [
    (
        "h100_qwen",
        "idle_time_breakdown",
        "0/7/host_wait",
        Some(1543.0),
        Some(1525.0),
        "HTA joins kernels without a launch record with event 0, which starts after the first of \
         them, and so takes 18 us of kernel wait for host wait",
    ),
    (
        "h100_qwen",
        "idle_time_breakdown",
        "0/7/kernel_wait",
        Some(4145.0),
        Some(4163.0),
        "the other side of the 18 us above",
    ),
    (
        "v100_resnet50",
        "gpu_kernel_type_breakdown",
        "COMPUTATION overlapping MEMORY",
        Some(0.0),
        None,
        "HTA sorts the end of a copy and the start of a kernel at the same time in any order, which \
         leaves a row of 0 us; hta has no row for what never happened",
    ),
];

/// Tables for which HTA crashed: folder, table, reason.
const CRASHES: [(&str, &str, &str); 13] = [
    ("cpu_only", "temporal_breakdown", NO_GPU_ROW),
    ("cpu_only", "idle_time_breakdown", NO_GPU_ROW),
    ("cupti_profiler", "temporal_breakdown", NO_GPU_ROW),
    ("cupti_profiler", "idle_time_breakdown", NO_GPU_ROW),
    ("gloo_ddp4", "temporal_breakdown", NO_GPU_ROW),
    ("gloo_ddp4", "idle_time_breakdown", NO_GPU_ROW),
    (
        "h100_qwen",
        "temporal_breakdown",
        "HTA asserts that the rest is not negative; durations of -1 make it so",
    ),
    ("rank_non_gpu", "temporal_breakdown", NO_GPU_ROW),
    ("rank_non_gpu", "idle_time_breakdown", NO_GPU_ROW),
    ("x_cpu_only_old", "temporal_breakdown", NO_GPU_ROW),
    ("x_cpu_only_old", "idle_time_breakdown", NO_GPU_ROW),
    ("x_large_integer", "temporal_breakdown", NO_GPU_ROW),
    ("x_large_integer", "idle_time_breakdown", NO_GPU_ROW),
];

const NO_GPU_ROW: &str = "HTA fails where no row has a stream; hta answers with no rows";

/// One folder of the reference with hta's answer for its traces.
pub struct Case {
    pub name: String,
    pub reference: PathBuf,
    pub answer: Answer,
}

impl Case {
    fn reference(&self, table: &str) -> Option<Vec<CsvRow>> {
        let rows = read(&self.reference.join(format!("{table}.csv")));
        let crashed = CRASHES.iter().any(|c| c.0 == self.name && c.1 == table);
        assert_eq!(rows.is_none(), crashed, "{}: {table} is missing, or is there", self.name);
        rows
    }

    pub fn rows(&self, table: &str) -> Vec<Record> {
        self.answer.rows(table)
    }
}

/// All cases, analysed once for all tests.
pub fn cases() -> Option<&'static [Case]> {
    static CASES: OnceLock<Option<Vec<Case>>> = OnceLock::new();
    CASES.get_or_init(analysed).as_deref()
}

fn analysed() -> Option<Vec<Case>> {
    let root = shared::folder()?;
    let single = TRACES.iter().map(|(name, file)| (*name, vec![root.trace(file)]));
    let several = SETS.iter().map(|(name, pattern, ranks)| {
        let file = |r: u32| root.trace(&pattern.replace("{}", &r.to_string()));
        (*name, (0..*ranks).map(file).collect())
    });
    let case = |(name, paths): (&str, Vec<PathBuf>)| Case {
        name: name.to_string(),
        reference: shared::reference("hta").join(name),
        answer: answer_by(Some(Compat::Hta), &paths, &options()),
    };
    Some(single.chain(several).map(case).collect())
}

/// Number of cells compared in all cases, and of differences found.
#[derive(Default)]
struct Tally {
    rows: usize,
    cells: usize,
    met: Vec<(String, String)>,
}

impl Tally {
    /// Compares one cell; an intended difference must be exactly as listed.
    fn cell(&mut self, case: &Case, table: &str, key: &str, theirs: Option<f64>, ours: Option<f64>) {
        self.cells += 1;
        let listed = DIFFERENCES.iter().find(|d| (d.0, d.1, d.2) == (&*case.name, table, key));
        if let Some(d) = listed {
            assert_eq!((theirs, ours), (d.3, d.4), "{} {table} {key}: not the difference listed", case.name);
            self.met.push((table.to_string(), key.to_string()));
        } else {
            assert_eq!(ours, theirs, "{} {table} {key}", case.name);
        }
    }

    /// Compares one cell up to the order of a float sum.
    fn nearly(&mut self, case: &Case, key: &str, theirs: Option<f64>, ours: Option<f64>) {
        self.cells += 1;
        let (Some(a), Some(b)) = (theirs, ours) else { panic!("{} {key}: {theirs:?} {ours:?}", case.name) };
        assert!((a - b).abs() <= 1e-9 * a.abs(), "{} {key}: HTA {a}, hta {b}", case.name);
    }

    fn differences(&self, table: &str) {
        let listed: Vec<_> = DIFFERENCES.iter().filter(|d| d.1 == table).map(|d| d.2).collect();
        let met: Vec<_> = self.met.iter().map(|m| &*m.1).collect();
        assert_eq!(met, listed, "differences of {table}");
    }
}

#[test]
fn temporal_breakdown_equals_hta_to_the_microsecond() {
    let Some(cases) = cases() else { return };
    let mut tally = Tally::default();
    for case in cases {
        let ours = case.rows("compat_hta_temporal_breakdown");
        let Some(theirs) = case.reference("temporal_breakdown") else {
            // Where HTA fails because there is no GPU row, there is nothing to compare.
            assert_eq!(ours.is_empty(), case.name != "h100_qwen", "{}", case.name);
            continue;
        };
        assert_eq!(ours.len(), theirs.len(), "{}", case.name);
        for (a, b) in theirs.iter().zip(&ours) {
            tally.rows += 1;
            for column in [
                "rank",
                "idle_time(us)",
                "compute_time(us)",
                "non_compute_time(us)",
                "kernel_time(us)",
                "idle_time_pctg",
                "compute_time_pctg",
                "non_compute_time_pctg",
            ] {
                tally.cell(case, "temporal_breakdown", column, number(a, column), b.float(column));
            }
        }
    }
    tally.differences("temporal_breakdown");
    assert_eq!((tally.rows, tally.cells), (29, 29 * 8));
}

#[test]
fn overlap_equals_hta_to_the_digit() {
    let Some(cases) = cases() else { return };
    let mut tally = Tally::default();
    for case in cases {
        let theirs = case.reference("comm_comp_overlap").expect("HTA always answers");
        let ours = case.rows("compat_hta_comm_comp_overlap");
        assert_eq!(ours.len(), theirs.len(), "{}", case.name);
        for (a, b) in theirs.iter().zip(&ours) {
            tally.rows += 1;
            for column in ["rank", "comp_comm_overlap_pctg"] {
                tally.cell(case, "comm_comp_overlap", column, number(a, column), b.float(column));
            }
        }
    }
    assert_eq!((tally.rows, tally.cells), (39, 39 * 2));
}

#[test]
fn kernel_types_equal_hta_to_the_digit() {
    let Some(cases) = cases() else { return };
    let table = "gpu_kernel_type_breakdown";
    let mut tally = Tally::default();
    for case in cases {
        let theirs = case.reference(table).expect("HTA always answers");
        let ours = case.rows("compat_hta_gpu_kernel_type_breakdown");
        let mut mine = ours.iter();
        for a in &theirs {
            tally.rows += 1;
            let key = text(a, "kernel_type");
            if DIFFERENCES.iter().any(|d| (d.0, d.1, d.2, d.4) == (&*case.name, table, key, None)) {
                tally.cell(case, table, key, number(a, "sum"), None);
                continue;
            }
            let b = mine.next().unwrap_or_else(|| panic!("{} {key}: no row", case.name));
            assert_eq!(b.text("kernel_type"), key, "{}: order of rows", case.name);
            tally.cell(case, table, &format!("{key}/sum"), number(a, "sum"), b.float("sum"));
            tally.cell(case, table, &format!("{key}/%"), number(a, "percentage"), b.float("percentage"));
        }
        assert_eq!(mine.next().map(|r| &r.0), None, "{}: a row too many", case.name);
    }
    tally.differences(table);
    assert_eq!((tally.rows, tally.cells), (61, 60 * 2 + 1));
}

#[test]
fn idle_time_equals_hta_to_the_microsecond() {
    let Some(cases) = cases() else { return };
    let table = "idle_time_breakdown";
    let mut tally = Tally::default();
    for case in cases {
        let ours = case.rows("compat_hta_idle_time_breakdown");
        let Some(theirs) = case.reference(table) else {
            assert!(ours.is_empty(), "{}", case.name);
            continue;
        };
        assert_eq!(ours.len(), theirs.len(), "{}", case.name);
        for (a, b) in theirs.iter().zip(&ours) {
            tally.rows += 1;
            let key = format!("{}/{}/{}", text(a, "rank"), text(a, "stream"), text(a, "idle_category"));
            let same = format!("{}/{}/{}", b.int("rank"), b.int("stream"), b.text("idle_category"));
            assert_eq!(same, key, "{}: order of rows", case.name);
            tally.cell(case, table, &key, number(a, "idle_time"), b.float("idle_time"));
            let ratio = format!("{key}/ratio");
            tally.cell(case, table, &ratio, number(a, "idle_time_ratio"), b.float("idle_time_ratio"));
        }
    }
    tally.differences(table);
    assert_eq!((tally.rows, tally.cells), (155, 155 * 2));
}

#[test]
fn kernel_names_equal_hta() {
    let Some(cases) = cases() else { return };
    let mut tally = Tally::default();
    for case in cases {
        let theirs = case.reference("gpu_kernel_breakdown_all").expect("HTA always answers");
        let ours = case.rows("compat_hta_gpu_kernel_breakdown");
        assert_eq!(ours.len(), theirs.len(), "{}", case.name);
        for a in &theirs {
            tally.rows += 1;
            let (rank, name) = (number(a, "rank"), text(a, "name"));
            let mut same = ours.iter().filter(|b| b.float("rank") == rank && b.text("name") == name);
            let b = same.next().unwrap_or_else(|| panic!("{} {name}: no row", case.name));
            assert!(same.next().is_none(), "{} {name}: two rows", case.name);
            assert_eq!(b.text("kernel_type"), text(a, "kernel_type"), "{} {name}", case.name);
            for column in ["sum (us)", "max (us)", "min (us)"] {
                let key = format!("{name}/{column}");
                tally.cell(case, "gpu_kernel_breakdown_all", &key, number(a, column), b.float(column));
            }
            for column in ["stddev", "mean (us)"] {
                tally.nearly(case, name, number(a, column), b.float(column));
            }
        }
    }
    assert_eq!((tally.rows, tally.cells), (1043, 1043 * 5));
}

/// The table of crashes lists what is missing, and so does the reference's own list of runs.
#[test]
fn every_crash_is_a_folder_that_is_compared() {
    let known = |name: &str| TRACES.iter().map(|t| t.0).chain(SETS.iter().map(|s| s.0)).any(|n| n == name);
    for (folder, table, why) in CRASHES {
        assert!(known(folder) && why.len() > 20, "{folder} {table}");
    }
    for (folder, table, key, _, _, why) in DIFFERENCES {
        assert!(known(folder) && Path::new(table).extension().is_none() && why.len() > 20, "{folder} {key}");
    }
}

/// HTA reads microseconds as f64, which near today's Unix time are multiples of 0.25 us: 10.1 is read as 10.0, and 10.0
/// + 9.9 is 20.0. The exact decimals would give 9 us, from 11 to 20.
#[test]
fn decimal_microseconds_since_1970_round_as_f64_do() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let kernel_time = |head: &str, ts: &str| {
        let path = folder.path().join("rank_0.json");
        let kernel = format!(
            r#"{{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":{ts},"dur":9.900,"args":{{"device":0,"stream":7,"correlation":3}}}}"#
        );
        std::fs::write(&path, format!(r#"{{"schemaVersion":1,{head}"traceEvents":[{kernel}]}}"#))
            .expect("a file");
        let answer = answer_by(Some(Compat::Hta), &[path], &options());
        answer.rows("compat_hta_temporal_breakdown")[0].int("kernel_time(us)")
    };
    assert_eq!(kernel_time("", "1700000000000010.100"), 10);
    // With a base time the numbers are small enough for f64.
    assert_eq!(kernel_time(r#""baseTimeNanoseconds":1700000000000000000,"#, "10.100"), 9);
}

#[test]
fn every_folder_of_the_reference_is_compared() {
    let mut folders: Vec<String> = std::fs::read_dir(shared::reference("hta"))
        .expect("the reference can be listed")
        .map(|e| e.expect("an entry can be read").path())
        .filter(|p| p.is_dir())
        .filter_map(|p| p.file_name().map(|n| n.to_string_lossy().into_owned()))
        .collect();
    folders.sort();
    let names = TRACES.iter().map(|t| t.0).chain(SETS.iter().map(|s| s.0)).chain(OTHER_FOLDERS);
    let mut listed: Vec<&str> = names.collect();
    listed.sort_unstable();
    assert_eq!(folders, listed);
}

//! `--compat hta` of launches, annotations and counters against the output of Meta's HTA 0.5.0, to the digit.
//!
//! Comparisons are counted and the counts asserted, so that a missing file does not pass for agreement.

use crate::cli::csv::{CsvRow, number, read, text};
use crate::on_shared_traces::hta_tables::cases;
use crate::run::Record;
use crate::shared;

fn nearly(what: &str, theirs: Option<f64>, ours: Option<f64>) {
    let (Some(a), Some(b)) = (theirs, ours) else { panic!("{what}: {theirs:?} {ours:?}") };
    assert!((a - b).abs() <= 1e-9 * a.abs(), "{what}: HTA {a}, hta {b}");
}

#[test]
fn launches_equal_hta_to_the_microsecond() {
    let Some(cases) = cases() else { return };
    let (mut files, mut rows) = (0, 0);
    for case in cases {
        let ours = case.rows("compat_hta_cuda_kernel_launch_stats");
        let mut compared = 0;
        for rank in 0..100 {
            let Some(theirs) = read(&case.reference.join(format!("cuda_kernel_launch_stats_rank{rank}.csv")))
            else {
                continue;
            };
            files += 1;
            let ours: Vec<&Record> = ours.iter().filter(|r| r.int("rank") == rank).collect();
            assert_eq!(ours.len(), theirs.len(), "{} rank {rank}", case.name);
            for (i, (a, b)) in theirs.iter().zip(ours).enumerate() {
                compared += 1;
                for column in ["correlation", "cpu_duration", "gpu_duration", "launch_delay"] {
                    assert_eq!(
                        b.float(column),
                        number(a, column),
                        "{} rank {rank} row {i} {column}",
                        case.name
                    );
                }
            }
        }
        assert_eq!(compared, ours.len(), "{}: a rank without reference", case.name);
        let counted: i64 =
            case.rows("compat_hta_cuda_kernel_launch_outliers").iter().map(|r| r.int("launches")).sum();
        assert_eq!(counted, compared as i64, "{}", case.name);
        rows += compared;
    }
    assert_eq!((files, rows), (39, 34_266));
}

/// Folder, name and side of the only range on which HTA and hta differ.
const CUT: (&str, &str, &str) = ("triton_example", "ProfilerStep#1", "cpu");

fn annotations(side: &str) -> (usize, usize) {
    let Some(cases) = cases() else { return (0, 0) };
    let (mut files, mut rows) = (0, 0);
    for case in cases {
        let ours = case.rows(&format!("compat_hta_user_annotation_breakdown_{side}"));
        let theirs = read(&case.reference.join(format!("user_annotation_breakdown_{side}.csv")));
        files += usize::from(theirs.is_some());
        // HTA writes nothing if no event has the category.
        let theirs = theirs.unwrap_or_default();
        assert_eq!(ours.len(), theirs.len(), "{}", case.name);
        for (a, b) in theirs.iter().zip(&ours) {
            rows += 1;
            let what = format!("{} {}", case.name, text(a, "name"));
            assert_eq!(b.text("name"), text(a, "name"), "{what}: order of rows");
            if (case.name.as_str(), b.text("name"), side) == CUT {
                // The range has a duration of 13.3 s, but the recording ends 1.8 ms after its start, where hta cuts it.
                assert_eq!((number(a, "sum (us)"), b.float("sum (us)")), (Some(13_336_314.0), Some(1836.0)));
                continue;
            }
            for column in ["sum (us)", "max (us)", "min (us)", "rank"] {
                assert_eq!(b.float(column), number(a, column), "{what} {column}");
            }
            for column in ["stddev", "mean (us)"] {
                nearly(&what, number(a, column), b.float(column));
            }
        }
    }
    (files, rows)
}

const COUNTERS: [&str; 9] = ["dadd", "ffma", "hmul", "fmul", "hfma", "fadd", "hadd", "dfma", "dmul"];

#[test]
fn annotations_on_the_gpu_equal_hta() {
    if shared::folder().is_some() {
        assert_eq!(annotations("gpu"), (7, 20));
    }
}

#[test]
fn annotations_on_the_host_equal_hta() {
    if shared::folder().is_some() {
        assert_eq!(annotations("cpu"), (25, 289));
    }
}

/// HTA numbers all events of the file, hta only the complete ones: positions are translated with the file.
#[test]
fn counters_equal_hta() {
    let Some(cases) = cases() else { return };
    let Some(root) = shared::folder() else { return };
    let file = root.trace("hta/cupti_profiler_benchmark_result_924719_1679055439_trace.json.gz");
    let (mut rows, mut positions) = (0, Vec::new());
    let packed = std::fs::File::open(file).expect("the trace can be read");
    let trace: serde_json::Value =
        serde_json::from_reader(flate2::read::GzDecoder::new(packed)).expect("the trace is JSON");
    let mut complete = 0;
    for event in trace["traceEvents"].as_array().expect("events") {
        positions.push(complete);
        complete += i64::from(event["ph"] == "X");
    }
    for case in cases {
        let ours = case.rows("compat_hta_cupti_counters");
        let theirs: Vec<CsvRow> = read(&case.reference.join("cupti_counters_rank0.csv")).unwrap_or_default();
        assert_eq!(ours.len(), theirs.len(), "{}", case.name);
        for (a, b) in theirs.iter().zip(&ours) {
            rows += 1;
            for column in ["name", "op_stack", "top_level_op", "bottom_level_op"] {
                assert_eq!(b.text(column), text(a, column), "row {rows} {column}");
            }
            for op in COUNTERS {
                let column = format!("smsp__sass_thread_inst_executed_op_{op}_pred_on.sum");
                assert_eq!(b.float(&column), number(a, &column), "row {rows} {column}");
            }
            for (mine, hta) in [("event_id", "index"), ("launch_event_id", "index_runtime")] {
                let position = number(a, hta).expect("a position") as usize;
                assert_eq!(b.int(mine), positions[position], "row {rows} {mine}");
            }
        }
    }
    assert_eq!(rows, 77);
}

//! A database of nvprof has the known sums, and `hta export pyprof` the rows that PyProf printed for it.

use crate::cli::csv::{CsvRow, read, text};
use crate::run::{Answer, answer, options, rank_trace};
use crate::shared;
use std::path::PathBuf;
use std::process::Command;

/// Kernels of the recorded step.
const KERNELS: usize = 160;

fn file(name: &str) -> Option<PathBuf> {
    Some(shared::folder()?.trace(&format!("pyprof/{name}")))
}

fn database() -> Option<Answer> {
    Some(answer(&[file("profiling_lm.net.sql")?], &options()))
}

/// What PyProf printed, and what `hta export pyprof` prints.
fn both(labels: &str) -> Option<(Vec<CsvRow>, Vec<CsvRow>)> {
    let theirs = read(&file("profiling_lm.lm.csv")?).expect("a reference");
    let columns = "kernel,mod,op,dir,sil,tc,flops,bytes,device,stream,block,grid,trace,params";
    let mut command = Command::new(env!("CARGO_BIN_EXE_hta"));
    command
        .arg("pyprof")
        .arg(file("profiling_lm.net.sql")?)
        .args(["--csv", "--cols", columns, "--labels", labels]);
    let run = command.output().expect("hta runs");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let printed = folder.path().join("printed.csv");
    std::fs::write(&printed, run.stdout).expect("a temporary file can be written");
    let ours = read(&printed).expect("just written");
    assert_eq!([theirs.len(), ours.len()], [KERNELS; 2]);
    Some((theirs, ours))
}

/// Rows in which a column is equal; numbers are compared by value.
fn equal(theirs: &[CsvRow], ours: &[CsvRow], column: &str) -> usize {
    let value = |row: &CsvRow| {
        let cell = text(row, column).to_string();
        cell.parse::<f64>().map_or(cell, |n| n.to_string())
    };
    theirs.iter().zip(ours).filter(|(a, b)| value(a) == value(b)).count()
}

#[test]
fn all_sums_are_known() {
    let Some(answer) = database() else { return };
    let rows = answer.rows_where("kernels_by_name", |r| r.text("scope") == "span");
    let of = |start: &str| {
        let mine = || rows.iter().filter(|r| r.text("name").starts_with(start));
        [mine().map(|r| r.int("count")).sum::<i64>(), mine().map(|r| r.int("sum_ns")).sum()]
    };
    assert_eq!(of("Memcpy DtoH (Device -> Pageable)"), [21, 38_463]);
    assert_eq!(of("Memset (Device)"), [8, 12_096]);
    let [count, ns] = of("");
    assert_eq!([count - 29, ns - 38_463 - 12_096], [160, 7_296_770]);
    assert_eq!(of("volta_sgemm_32x128_nn"), [1, 1_319_380]);
    let busy = answer.rows_where("temporal_breakdown", |r| r.text("scope") == "span");
    assert_eq!(busy.iter().map(|r| r.int("busy_ns")).collect::<Vec<_>>(), [7_347_329]);
    // Every kernel has its launch.
    let unlinked = answer.rows_where("operators", |r| r.text("name") == "[unlinked]");
    assert_eq!(unlinked.len(), 0);
    let categories = answer.rows_where("kernel_categories", |r| r.text("scope") == "span");
    let category = |name: &str| {
        let rows = || categories.iter().filter(|r| r.text("category") == name);
        [rows().map(|r| r.int("count")).sum::<i64>(), rows().map(|r| r.int("sum_ns")).sum()]
    };
    let known = [
        ("gemm", [21, 3_360_833]),
        ("softmax", [6, 2_100_558]),
        ("elementwise", [77, 951_512]),
        ("reduction", [29, 713_788]),
        ("normalization", [12, 68_064]),
        ("gather_scatter", [4, 47_999]),
        ("layout", [6, 27_456]),
        ("random", [5, 26_560]),
    ];
    for (name, sums) in known {
        assert_eq!(category(name), sums, "{name}");
    }
    let overhead = answer.rows_where("health", |r| r.text("counter") == "profiler_overhead");
    assert_eq!(overhead.iter().map(|r| r.int("count")).collect::<Vec<_>>(), [657]);
}

#[test]
fn every_row_of_the_database_is_an_event() {
    let Some(file) = file("profiling_lm.net.sql") else { return };
    let trace = rank_trace(&file, 0);
    let c = &trace.columns;
    let category = |row: usize| trace.text(c.categories[usize::from(c.cat[row])].text);
    let count = |of: &str, name: Option<&str>| {
        let mine = (0..c.len()).filter(|row| category(*row) == of);
        mine.filter(|row| name.is_none_or(|n| trace.name(*row as u32) == n)).count()
    };
    assert_eq!(count("cuda_runtime", None), 1_968);
    let calls = ["cudaLaunchKernel", "cudaMemcpyAsync", "cudaMemsetAsync", "cudaStreamSynchronize"];
    assert_eq!(calls.map(|name| count("cuda_runtime", Some(name))), [160, 21, 8, 21]);
    assert_eq!([count("cuda_sync", Some("Stream Sync")), count("cuda_sync", None)], [21, 23]);
    // Of 683 ranges 140 are stacks, which are no rows.
    assert_eq!([count("user_annotation", None), count("cpu_op", None)], [0, 683 - 140]);
    assert!(trace.activities.iter().all(|a| a.launch().is_some() && a.op().is_some()));
    let device = trace.device_properties(Some(0)).expect("a device");
    let expected = ("Tesla V100-SXM2-16GB", Some(80), Some("7.0"));
    assert_eq!((device.name.as_str(), device.sm_count, device.compute_capability.as_deref()), expected);
}

#[test]
fn work_follows_from_the_marked_shapes() {
    let Some((_, ours)) = both("hta") else { return };
    let flops = |is: &dyn Fn(&CsvRow) -> bool| -> u64 {
        ours.iter().filter(|r| is(r)).filter_map(|r| text(r, "FLOPs").parse::<u64>().ok()).sum()
    };
    assert_eq!(flops(&|r| text(r, "Kernel").contains("gemm")), 29_020_320_000);
    assert_eq!(flops(&|_| true), 29_526_758_812);
    let unknown = ours.iter().filter(|r| text(r, "FLOPs") == "na").count();
    assert_eq!(unknown, 40);
}

#[test]
fn pyprof_s_labels_are_its_own_for_every_kernel() {
    let Some((theirs, ours)) = both("pyprof") else { return };
    let columns =
        ["Kernel", "Module", "Op", "Direction", "Sil(ns)", "TC", "Device", "Stream", "Block", "Grid"];
    for column in columns {
        assert_eq!(equal(&theirs, &ours, column), KERNELS, "{column}");
    }
}

/// Gradients that autograd adds up are of the backward pass; products inside attention are products; nine helpers of
/// normalization and softmax have no work of their own with both, beside the 37 and 41 kernels with the same formula.
#[test]
fn own_labels_differ_where_they_should() {
    let Some((theirs, ours)) = both("hta") else { return };
    for column in ["Sil(ns)", "Device", "Stream", "Block", "Grid"] {
        assert_eq!(equal(&theirs, &ours, column), KERNELS, "{column}");
    }
    let kernel = |r: &CsvRow| text(r, "Kernel").split('<').next().unwrap_or_default().to_string();
    assert!(theirs.iter().zip(&ours).all(|(a, b)| text(a, "Kernel") == kernel(b)));
    assert_eq!(equal(&theirs, &ours, "Direction"), 136);
    let backward = |rows: &[CsvRow]| rows.iter().filter(|r| text(r, "Direction") == "bprop").count();
    assert_eq!([backward(&theirs), backward(&ours)], [42, 66]);
    assert_eq!(equal(&theirs, &ours, "FLOPs"), 37 + 9);
    assert_eq!(equal(&theirs, &ours, "Bytes"), 41 + 9);
    // A kernel of the backward pass has the stack and the shapes of its forward operator.
    let last =
        ours.iter().find(|r| text(r, "Op") == "mm" && text(r, "Direction") == "bprop").expect("a product");
    let stack = "language-model.py:111;language-model.py:261;language-model.py:319";
    assert_eq!(text(last, "Trace"), stack);
    assert!(text(last, "Params").starts_with("shapes=[[35,20,200],[200,33278]]"), "{last:?}");
}

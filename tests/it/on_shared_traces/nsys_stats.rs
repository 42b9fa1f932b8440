//! `hta export nsys-stats` agrees with the summaries that were computed from NVIDIA's definitions, and with known sums.

use crate::cli::csv::{CsvRow, number, read, text as cell};
use crate::shared::{self, Shared};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The rows of a report.
fn printed(report: &str, trace: &Path, folder: &Path) -> Vec<CsvRow> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hta"));
    let run =
        command.args(["nsys-stats", report]).arg(trace).args(["--format", "csv"]).output().expect("hta runs");
    assert!(run.status.success(), "{report}: {}", String::from_utf8_lossy(&run.stderr));
    let path = folder.join(format!("{report}.csv"));
    std::fs::write(&path, &run.stdout).expect("a temporary file can be written");
    read(&path).expect("just written")
}

/// How the rows of a reference are compared.
struct Comparison {
    /// Columns that identify a row.
    keys: &'static [&'static str],
    /// Our text of a key of theirs.
    translated: fn(&str) -> String,
    /// Columns of the reference that are not compared.
    skipped: &'static [&'static str],
}

/// The name of our column: theirs have units in some reports only.
fn heading(theirs: &str, ours: &CsvRow) -> String {
    let size = theirs.replace("(B)", "(MB)");
    [theirs.to_string(), format!("{theirs} (ns)"), size]
        .into_iter()
        .find(|h| ours.contains_key(h))
        .unwrap_or_else(|| {
            panic!("no column for `{theirs}` in {ours:?}");
        })
}

fn key(row: &CsvRow, keys: &[&str], translated: fn(&str) -> String) -> Vec<String> {
    keys.iter().map(|k| translated(cell(row, k))).collect()
}

/// Compares every number of every row, and returns the number of rows.
fn compare(ours: &[CsvRow], theirs: &[CsvRow], how: &Comparison) -> usize {
    let mine: BTreeMap<Vec<String>, &CsvRow> =
        ours.iter().map(|r| (key(r, how.keys, |text| text.to_string()), r)).collect();
    assert_eq!(mine.len(), ours.len(), "keys are unique");
    assert_eq!(ours.len(), theirs.len());
    for row in theirs {
        let key = key(row, how.keys, how.translated);
        let Some(own) = mine.get(&key) else { panic!("no row {key:?}") };
        for (column, value) in
            row.iter().filter(|(c, _)| !how.keys.contains(&c.as_str()) && !value_is_text(c))
        {
            if how.skipped.contains(&column.as_str()) {
                continue;
            }
            let name = heading(column, own);
            let their: f64 = value.parse().unwrap_or_else(|_| panic!("`{value}` in {column}"));
            let unit = if column.contains("(B)") { 1e6 } else { 1.0 };
            let our = number(own, &name).unwrap_or(0.0) * unit;
            // Both print one digit behind the point, of sizes hta prints six in MB.
            let tolerance = if unit > 1.0 { 0.51 } else { 0.0501 };
            assert!((our - their).abs() <= tolerance, "{key:?} {column}: {our} and {their}");
        }
    }
    theirs.len()
}

fn value_is_text(column: &str) -> bool {
    ["Style"].contains(&column)
}

fn same(text: &str) -> String {
    text.to_string()
}

const FILES: [(&str, &str); 3] = [
    ("mock", "nsys-ai__9d9d2f_mock.sqlite"),
    ("mfu_2gpu_before", "nsys-ai__c8f71e_mfu_2gpu_before.sqlite"),
    ("saxpy_mpi", "pipit__saxpy-mpi-cuda_nsys_perlmutter0.sqlite"),
];

/// Compares a report of every file that has a reference.
fn against_references(report: &str, skipped_files: &[&str], how: &Comparison) -> usize {
    let Some(root) = shared::folder() else { return 0 };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut compared = 0;
    for (name, file) in FILES.iter().filter(|(name, _)| !skipped_files.contains(name)) {
        let reference = shared::reference("nsys").join(name).join(format!("{report}.csv"));
        let Some(theirs) = read(&reference) else { continue };
        compared += compare(&printed(report, &trace(&root, file), folder.path()), &theirs, how);
    }
    compared
}

fn trace(root: &Shared, file: &str) -> PathBuf {
    root.trace(&format!("nsys/{file}"))
}

/// Whether the traces are there, so that rows must have been compared.
fn expected(rows: usize) -> usize {
    if shared::folder().is_some() { rows } else { 0 }
}

/// The reference of saxpy_mpi counts every call twice, as its notes say: there the counts are checked by themselves.
#[test]
fn calls_have_the_sums_of_the_reference() {
    let how = Comparison { keys: &["Name"], translated: same, skipped: &[] };
    assert_eq!(against_references("cuda_api_sum", &["saxpy_mpi"], &how), expected(16 + 8));
    let Some(root) = shared::folder() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let rows = printed("cuda_api_sum", &trace(&root, FILES[2].1), folder.path());
    let calls: BTreeMap<&str, &str> = rows.iter().map(|r| (cell(r, "Name"), cell(r, "Num Calls"))).collect();
    let right = [("cudaMemcpy", "15"), ("cudaMalloc", "15"), ("cudaLaunchKernel", "5"), ("cudaFree", "3")];
    assert!(right.iter().all(|(name, count)| calls.get(name) == Some(count)), "{calls:?}");
}

#[test]
fn kernels_have_the_sums_of_the_reference() {
    let how = Comparison { keys: &["Name"], translated: same, skipped: &[] };
    assert_eq!(against_references("cuda_gpu_kern_sum", &[], &how), expected(27 + 2 + 1));
    let how = Comparison { keys: &["GridXYZ", "BlockXYZ", "Name"], translated: same, skipped: &[] };
    assert_eq!(against_references("cuda_gpu_kern_gb_sum", &[], &how), expected(48 + 2 + 1));
}

/// The reference prints the number of a direction where the file has no table of their names; the export of hta
/// names all of them.
#[test]
fn copies_and_sets_have_the_sums_of_the_reference() {
    let named = |text: &str| match text {
        "[CUDA memcpy 1]" => "[CUDA memcpy Host-to-Device]".to_string(),
        "[CUDA memcpy 2]" => "[CUDA memcpy Device-to-Host]".to_string(),
        other => other.to_string(),
    };
    let how = Comparison { keys: &["Operation"], translated: named, skipped: &[] };
    assert_eq!(against_references("cuda_gpu_mem_time_sum", &[], &how), expected(3 + 1 + 2));
    assert_eq!(against_references("cuda_gpu_mem_size_sum", &[], &how), expected(3 + 1 + 2));
}

/// The reference leaves the version in the names of calls; hta prints them as `cuda_api_sum` does.
#[test]
fn executions_have_the_sums_of_the_reference() {
    let without_version = |text: &str| text.trim_end_matches("_v7000").to_string();
    let keys = &["PID", "TID", "DevId", "API Name", "Kernel Name"];
    let how = Comparison { keys, translated: without_version, skipped: &[] };
    assert_eq!(against_references("cuda_kern_exec_sum", &[], &how), expected(54 + 2 + 1));
}

#[test]
fn ranges_have_the_sums_of_the_reference() {
    let how = Comparison { keys: &["Style", "Range"], translated: same, skipped: &[] };
    assert_eq!(against_references("nvtx_sum", &[], &how), expected(18_499 + 5));
    let how = Comparison { keys: &["Range", "Style"], translated: same, skipped: &[] };
    assert_eq!(against_references("nvtx_gpu_proj_sum", &[], &how), expected(9_494 + 1));
}

/// First rows as documented, with all their figures.
#[test]
fn the_first_kernels_are_the_known_ones() {
    let Some(root) = shared::folder() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let rows = printed("cuda_gpu_kern_sum", &trace(&root, FILES[1].1), folder.path());
    let figures = |r: &CsvRow| {
        let columns =
            ["Time (%)", "Total Time (ns)", "Instances", "Avg (ns)", "Med (ns)", "Min (ns)", "Max (ns)"];
        columns.iter().chain(&["StdDev (ns)"]).map(|c| cell(r, c).to_string()).collect::<Vec<_>>().join(" ")
    };
    let first: Vec<String> = rows.iter().take(3).map(figures).collect();
    let known = [
        "50.9 272317378 68 4004667.3 3977582.0 150752 7867915 3878677.8",
        "7.1 38226009 235 162663.9 102080.0 97696 527903 149280.3",
        "4.9 25996204 269 96640.2 81983.0 3584 181663 54978.2",
    ];
    assert_eq!(first, known);
    let names: Vec<&str> = rows.iter().map(|r| cell(r, "Name")).collect();
    assert!(
        names[0].starts_with("void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<(int)128"),
        "{}",
        names[0]
    );
    assert_eq!((names.len(), names[1]), (27, "nvjet_tst_192x192_64x4_2x1_v_bz_coopB_bias_TNN"));
    let rows = printed("cuda_gpu_kern_sum", &trace(&root, "nvfuser__57da9a_report.sqlite"), folder.path());
    let known = [
        ("21.5", "2187752", "nvjet_tst_192x192_64x4_2x1_v_bz_coopB_TNN"),
        ("21.0", "2140073", "nvjet_tst_192x192_64x3_1x2_h_bz_coopB_NTN"),
        ("20.8", "2115529", "nvjet_tst_256x128_64x4_1x2_h_bz_coopA_NNT"),
    ];
    let first = rows.iter().map(|r| (cell(r, "Time (%)"), cell(r, "Total Time (ns)"), cell(r, "Name")));
    assert_eq!((rows.len(), first.take(3).collect::<Vec<_>>()), (16, known.to_vec()));
}

/// Of one rank only, by its process.
#[test]
fn ranks_are_chosen_before_they_are_summed() {
    let Some(root) = shared::folder() else { return };
    let mut command = Command::new(env!("CARGO_BIN_EXE_hta"));
    let file = trace(&root, FILES[1].1);
    let run =
        command.args(["nsys-stats", "cuda_gpu_sum", "--format", "csv", "--ranks", "1"]).arg(file).output();
    let out = String::from_utf8_lossy(&run.expect("hta runs").stdout).into_owned();
    let of = |category: &str| -> i64 {
        let rows = out.lines().filter(|l| l.contains(category));
        rows.filter_map(|l| l.split(',').nth(2)).map(|n| n.parse::<i64>().expect("a count")).sum()
    };
    assert_eq!(of("CUDA_KERNEL"), 2_017);
    assert!(of("MEMORY_OPER") > 0, "{out}");
}

//! `hta export nsys-stats` on traces that can be checked by eye, its two formats, and what it refuses.

use crate::cli::csv::{CsvRow, read, text as cell};
use crate::robustness::nsys::{export, id};
use crate::run::{answer, options};
use hta_testkit::{Call, TraceBuilder, us};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

const SAMPLE: &str = "data/samples/gpu_ddp8/rank_0.json.gz";

fn hta(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hta"));
    command
        .arg("nsys-stats")
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("hta runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Times in us; the scale has a break.
///
/// ```text
///   outer    0 [......................................) 100
///   inner           25 [.........) 50
///   calls        A 10..20      B 30..40         C 105..106  D 110..112   wait 115..3016
///   k of A        15 [......) 45
///   k of B                          50 [.....) 70
///   set of C                                               2955 [........) 3015
///   copy of D                                              2955 [..) 2960
/// ```
fn trace(rank: u32) -> TraceBuilder {
    let mut t = TraceBuilder::new().rank(rank).world(2).device("NVIDIA H100", 132);
    let mut main = t.thread(1);
    main.annotation("outer", us(0)..us(100));
    main.annotation("inner", us(25)..us(50));
    main.launch(us(10)..us(20)).kernel("k", 7, us(15)..us(45));
    main.launch(us(30)..us(40)).kernel("k", 7, us(50)..us(70)).grid([4, 2, 1]);
    main.runtime("cudaMemset", us(105)..us(106)).memset(7, 1_000, us(2_955)..us(3_015));
    main.call(Call::Copy, us(110)..us(112)).memcpy(
        "HtoD (Pageable -> Device)",
        8,
        2_500_000,
        us(2_955)..us(2_960),
    );
    main.call(Call::DeviceSync, us(115)..us(3_016));
    t
}

fn written(trace: &TraceBuilder, folder: &TempDir, name: &str) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, trace.to_json()).expect("a temporary file can be written");
    path
}

/// The rows of a report as CSV, with the header line.
fn csv(report: &str, traces: &[&Path]) -> (String, Vec<CsvRow>) {
    let mut arguments = vec![report.to_string(), "--format".to_string(), "csv".to_string()];
    arguments.extend(traces.iter().map(|p| p.display().to_string()));
    let run = hta(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(run.status.success(), "{report}: {}", text(&run.stderr));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("printed.csv");
    std::fs::write(&path, &run.stdout).expect("a temporary file can be written");
    let header = text(&run.stdout).lines().next().unwrap_or_default().to_string();
    (header, read(&path).expect("just written"))
}

fn cells<'a>(row: &'a CsvRow, columns: &[&str]) -> Vec<&'a str> {
    columns.iter().map(|c| cell(row, c)).collect()
}

#[test]
fn a_kernel_waits_in_the_queue_only_if_it_starts_after_its_call() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = written(&trace(0), &folder, "rank_0.json");
    let (header, rows) = csv("cuda_kern_exec_sum", &[&file]);
    assert!(
        header.starts_with(
            "PID,TID,DevId,Count,QCount,TAvg (ns),TMed (ns),TMin (ns),TMax (ns),TStdDev (ns),AAvg"
        )
    );
    assert!(header.ends_with("KMax (ns),KStdDev (ns),API Name,Kernel Name"), "{header}");
    assert_eq!(rows.len(), 1);
    let row = &rows[0];
    let who = ["PID", "TID", "DevId", "API Name", "Kernel Name", "Count", "QCount"];
    assert_eq!(cells(row, &who), ["1000", "1", "0", "cudaLaunchKernel", "k", "2", "1"]);
    // A: from 10 to 45; B: from 30 to 70. Only B waits, from 40 to 50.
    assert_eq!(cells(row, &["TMin (ns)", "TMax (ns)", "TAvg (ns)"]), ["35000", "40000", "37500.0"]);
    assert_eq!(cells(row, &["QMin (ns)", "QMax (ns)", "QStdDev (ns)"]), ["10000", "10000", "0.0"]);
    assert_eq!(cells(row, &["AAvg (ns)", "KAvg (ns)", "KMed (ns)"]), ["10000.0", "25000.0", "25000.0"]);
}

#[test]
fn ranges_reach_from_the_first_to_the_last_work_launched_inside_them() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = written(&trace(0), &folder, "rank_0.json");
    let (header, rows) = csv("nvtx_gpu_proj_sum", &[&file]);
    assert_eq!(
        header,
        "Range,Style,Total Proj Time (ns),Total Range Time (ns),Range Instances,Proj Avg (ns),Proj Med (ns),Proj Min \
         (ns),Proj Max (ns),Proj StdDev (ns),Total GPU Ops,Avg GPU Ops,Avg Range Lvl,Avg Num Child"
    );
    let columns =
        ["Range", "Total Proj Time (ns)", "Total Range Time (ns)", "Total GPU Ops", "Avg Range Lvl"];
    let found: Vec<_> = rows.iter().map(|r| cells(r, &columns)).collect();
    assert_eq!(found, [[":outer", "55000", "100000", "2", "0.0"], [":inner", "20000", "25000", "1", "1.0"]]);
    let (_, rows) = csv("nvtx_kern_sum", &[&file]);
    let columns = ["NVTX Range", "NVTX Inst", "Kern Inst", "Total Time (ns)", "Kernel Name"];
    let found: Vec<_> = rows.iter().map(|r| cells(r, &columns)).collect();
    assert_eq!(found, [[":outer", "1", "2", "50000", "k"], [":inner", "1", "1", "20000", "k"]]);
    let (header, rows) = csv("nvtx_pushpop_trace", &[&file]);
    assert_eq!(
        header,
        "Start (ns),End (ns),Duration (ns),DurChild (ns),DurNonChild (ns),Name,PID,TID,Lvl,NumChild,RangeId,ParentId,\
         RangeStack,NameTree"
    );
    let columns =
        ["Duration (ns)", "DurChild (ns)", "DurNonChild (ns)", "Lvl", "NumChild", "RangeStack", "NameTree"];
    let found: Vec<_> = rows.iter().map(|r| cells(r, &columns)).collect();
    assert_eq!(found[0], ["100000", "25000", "75000", "0", "1", ":1", ":outer"]);
    assert_eq!(found[1], ["25000", "0", "25000", "1", "0", ":1:2", "--:inner"]);
    assert_eq!(found.len(), 2);
}

/// The device works from 15 to 3015 us, so a part is 100 us long. Half of the first is busy, and more of the last.
#[test]
fn gaps_and_idle_parts_are_found() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = written(&trace(0), &folder, "rank_0.json");
    let (header, rows) = csv("gpu_gaps", &[&file]);
    assert_eq!(header, "Row#,Duration (ns),Start (ns),PID,Device ID,Context ID");
    // From 70 to 2955; the 5 us before the second kernel are too short.
    let columns = ["Row#", "Duration (ns)", "PID", "Device ID", "Context ID"];
    assert_eq!(
        rows.iter().map(|r| cells(r, &columns)).collect::<Vec<_>>(),
        [["1", "2885000", "1000", "0", "1"]]
    );
    let (header, used) = csv("gpu_time_util", &[&file]);
    assert_eq!(header, "Row#,In-Use (%),Duration (ns),Start (ns),PID,Device ID,Context ID");
    assert_eq!(used.len(), 28);
    assert!(used.iter().all(|r| cells(r, &["In-Use (%)", "Duration (ns)"]) == ["0.0", "100000"]), "{used:?}");
    let start = |row: &CsvRow| cell(row, "Start (ns)").parse::<i64>().expect("a number");
    // The first idle part starts at 115, the gap at 70.
    assert_eq!(start(&used[0]) - start(&rows[0]), 45_000);
}

#[test]
fn rules_find_the_calls_that_block() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = written(&trace(0), &folder, "rank_0.json");
    let (header, rows) = csv("cuda_memset_sync", &[&file]);
    assert_eq!(
        header,
        "Duration (ns),Start (ns),Memory Kind,Bytes (MB),PID,Device ID,Context ID,Stream ID,API Name"
    );
    let columns = ["Duration (ns)", "Memory Kind", "Bytes (MB)", "Stream ID", "API Name"];
    assert_eq!(cells(&rows[0], &columns), ["60000", "Device", "0.001000", "7", "cudaMemset"]);
    let (_, rows) = csv("cuda_memcpy_async", &[&file]);
    let columns = ["Duration (ns)", "Src Kind", "Dst Kind", "Bytes (MB)", "API Name"];
    assert_eq!(cells(&rows[0], &columns), ["5000", "Pageable", "Device", "2.500000", "cudaMemcpyAsync"]);
    assert_eq!((rows.len(), csv("cuda_memcpy_sync", &[&file]).1.len()), (1, 0));
    let (_, rows) = csv("cuda_api_sync", &[&file]);
    assert_eq!(cells(&rows[0], &["Duration (ns)", "API Name"]), ["2901000", "cudaDeviceSynchronize"]);
    let (header, rows) = csv("cuda_gpu_trace", &[&file]);
    assert!(
        header.starts_with(
            "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB)"
        )
    );
    let columns = ["GrdX", "GrdY", "BlkX", "Reg/Trd", "Throughput (MB/s)", "Device", "Strm", "Name"];
    let found: Vec<_> = rows.iter().map(|r| cells(r, &columns)).collect();
    assert_eq!(found[1], ["4", "2", "128", "32", "", "NVIDIA H100 (0)", "7", "k"]);
    // 2.5 MB in 5 us.
    let copy = ["", "", "", "", "500000.000", "NVIDIA H100 (0)", "8", "[CUDA memcpy Host-to-Device]"];
    assert_eq!(found.iter().find(|r| r[6] == "8"), Some(&copy.to_vec()));
}

#[test]
fn sums_and_medians_are_of_all_ranks() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut other = trace(1);
    other.thread(1).launch(us(3_020)..us(3_021)).kernel("k", 7, us(3_022)..us(3_032));
    let files = [written(&trace(0), &folder, "rank_0.json"), written(&other, &folder, "rank_1.json")];
    let (header, rows) = csv("cuda_gpu_kern_sum", &[&files[0], &files[1]]);
    assert_eq!(
        header,
        "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name"
    );
    // 30 and 20 us on both, 10 on the second: the squares of the distances from 22 are 64, 4, 64, 4 and 144, over 4.
    let all = ["100.0", "110000", "5", "22000.0", "20000.0", "10000", "30000", "8366.6", "k"];
    assert_eq!(cells(&rows[0], &header.split(',').collect::<Vec<_>>()), all);
    let (header, rows) = csv("cuda_gpu_kern_gb_sum", &[&files[0], &files[1]]);
    assert!(header.ends_with("StdDev (ns),GridXYZ,BlockXYZ,Name"), "{header}");
    let columns = ["Total Time (ns)", "GridXYZ", "BlockXYZ"];
    let found: Vec<_> = rows.iter().map(|r| cells(r, &columns)).collect();
    assert_eq!(found, [["70000", "1 1 1", "128 1 1"], ["40000", "4 2 1", "128 1 1"]]);
    let (_, rows) = csv("cuda_api_gpu_sum", &[&files[0]]);
    let first: Vec<_> = rows.iter().take(3).map(|r| cells(r, &["Category", "Operation"])).collect();
    let expected =
        [["CUDA_API", "cudaDeviceSynchronize"], ["MEMORY_OPER", "[CUDA memset]"], ["CUDA_KERNEL", "k"]];
    assert_eq!(first, expected);
}

#[test]
fn operators_are_no_ranges_of_kineto() {
    let (_, rows) = csv("nvtx_sum", &[Path::new(SAMPLE)]);
    assert!(rows.iter().any(|r| cell(r, "Range").starts_with(":ProfilerStep#")), "{rows:?}");
    assert!(rows.iter().all(|r| !cell(r, "Range").starts_with(":aten::")), "{rows:?}");
}

/// Of an export with a range that is started and ended around the launch.
///
/// ```text
/// aten::mm  [0.......20)   launch [5..8)          epoch [2..............60)
///   gpu 0   gemm            [30.......70)
/// ```
#[test]
fn ranges_of_nsys_have_their_whole_text_and_style() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("report.sqlite");
    export(&file);
    let db = rusqlite::Connection::open(&file).expect("just made");
    db.execute("INSERT INTO NVTX_EVENTS VALUES (2, 60, 60, ?, 'epoch')", [id(7, 2)])
        .expect("a row can be added");
    drop(db);
    let (_, rows) = csv("nvtx_sum", &[&file]);
    let columns = ["Range", "Style", "Total Time (ns)"];
    let found: Vec<_> = rows.iter().map(|r| cells(r, &columns)).collect();
    let marked = ":aten::mm, seq = 4, op_id = 11, sizes = [[4, 8], [8, 2]]";
    assert_eq!(found, [[":epoch", "StartEnd", "58"], [marked, "PushPop", "20"]]);
    let (_, rows) = csv("nvtx_gpu_proj_sum", &[&file]);
    let columns = ["Range", "Total Proj Time (ns)", "Total GPU Ops"];
    assert_eq!(rows.iter().map(|r| cells(r, &columns)).collect::<Vec<_>>(), [[marked, "40", "1"]]);
    // Both processes launch with the same correlation, and each has its own thread.
    let (_, rows) = csv("cuda_kern_exec_sum", &[&file]);
    let columns = ["PID", "TID", "QAvg (ns)", "API Name"];
    let found: Vec<_> = rows.iter().map(|r| cells(r, &columns)).collect();
    assert_eq!(found, [["7", "2", "22.0", "cudaLaunchKernel"], ["9", "2", "4.0", "cudaLaunchKernel"]]);
}

/// Nothing is lost or counted twice: the sums are those of the tables.
#[test]
fn the_sum_of_all_work_is_that_of_the_ranks() {
    let sample = Path::new(SAMPLE);
    let answer = answer(&[Path::new(env!("CARGO_MANIFEST_DIR")).join(SAMPLE)], &options());
    let of = |rows: &[CsvRow], column: &str| -> i64 {
        rows.iter().map(|r| cell(r, column).parse::<i64>().expect("a number")).sum()
    };
    let ranks = answer.rows("ranks");
    let total: i64 = ranks.iter().map(|r| r.int("gpu_sum_ns")).sum();
    let count: i64 = ranks.iter().map(|r| r.int("activity_count")).sum();
    let (_, rows) = csv("cuda_gpu_sum", &[sample]);
    assert!(total > 0);
    assert_eq!((of(&rows, "Total Time (ns)"), of(&rows, "Instances")), (total, count));
    let parts = ["cuda_gpu_kern_gb_sum", "cuda_gpu_mem_time_sum"].map(|report| csv(report, &[sample]).1);
    assert_eq!(parts.iter().map(|rows| of(rows, "Total Time (ns)")).sum::<i64>(), total);
    assert_eq!(csv("cuda_gpu_trace", &[sample]).1.len() as i64, count);
}

#[test]
fn text_fits_the_line_and_says_what_it_leaves_out() {
    for report in ["cuda_kern_exec_sum", "cuda_gpu_trace", "nvtx_pushpop_trace", "cuda_api_gpu_sum"] {
        let run = hta(&[report, SAMPLE]);
        let printed = text(&run.stdout);
        assert!(run.status.success(), "{}", text(&run.stderr));
        assert!(printed.lines().all(|l| l.chars().count() <= 80), "{report}:\n{printed}");
        assert!(printed.contains("left out"), "{report}:\n{printed}");
    }
    assert_eq!(text(&hta(&["cuda_memcpy_sync", SAMPLE]).stdout), "no rows\n");
}

#[test]
fn help_lists_every_report_and_an_unknown_one_is_refused_with_all_names() {
    let help = text(&hta(&["--help"]).stdout);
    let refused = hta(&["gpu_sum", SAMPLE]);
    let error = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2));
    assert!(error.contains("`gpu_sum`"), "{error}");
    let reports = hta::compat::nsys::REPORTS.iter();
    for report in reports {
        let is_line =
            |l: &str| l.trim_start().starts_with(&format!("{} ", report.name)) && l.contains(report.about);
        assert!(help.lines().any(is_line), "{}: {help}", report.name);
        assert!(error.contains(report.name), "{error}");
        let run = hta(&[report.name, SAMPLE, "--format", "csv"]);
        assert!(run.status.success() && run.stdout.contains(&b','), "{}: {}", report.name, text(&run.stderr));
    }
}

#[test]
fn steps_and_answers_of_other_tools_are_refused() {
    let steps = hta(&["cuda_gpu_sum", SAMPLE, "--steps", "3"]);
    assert_eq!(steps.status.code(), Some(2));
    assert!(text(&steps.stderr).contains("leave --steps out"), "{}", text(&steps.stderr));
    assert_eq!(hta(&["cuda_gpu_sum", SAMPLE, "--compat", "hta"]).status.code(), Some(2));
}

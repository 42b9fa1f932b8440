//! The account on a time axis: blocks sum to the account, follow one another, and waits name who came late.

use crate::job::planted::job::{Job, all_reduce, kernel};
use crate::job::planted::recording::Recording;
use crate::job::planted::simulate::simulate;
use crate::run::{Answer, Record, answer, options};
use crate::shared;
use hta_testkit::{TraceBuilder, ms, us};
use std::collections::BTreeMap;
use std::path::Path;

/// Rank, device and step; the step by its number, or else its index.
type Cell = (i64, Option<i64>, Option<i64>, Option<i64>);

fn cell(r: &Record) -> Cell {
    let label = r.opt_int("step_label");
    (r.int("rank"), r.opt_int("device"), r.opt_int("step").filter(|_| label.is_none()), label)
}

/// Checks that blocks follow one another, and that those of a step sum to the account of the step.
fn check_sums(answer: &Answer, what: &str) -> usize {
    let mut account: BTreeMap<Cell, [i64; 4]> = BTreeMap::new();
    for r in answer.rows("time_account") {
        let part = match r.text("part") {
            "compute" => 0,
            "waiting" | "transfer" | "unmatched" => 1,
            "copies" => 2,
            "idle" => 3,
            _ => continue,
        };
        account.entry(cell(&r)).or_default()[part] += r.int("time_ns");
    }
    let mut sums: BTreeMap<Cell, [i64; 4]> = BTreeMap::new();
    let mut ends: BTreeMap<Cell, i64> = BTreeMap::new();
    let parts = ["compute_ns", "communication_ns", "memory_ns", "idle_ns"];
    for r in answer.rows("timeline") {
        let sum = sums.entry(cell(&r)).or_default();
        parts.iter().zip(sum.iter_mut()).for_each(|(c, sum)| *sum += r.int(c));
        assert_eq!(parts.iter().map(|c| r.int(c)).sum::<i64>(), r.int("dur_ns"), "{what}");
        let end = ends.insert(cell(&r), r.int("ts_ns") + r.int("dur_ns"));
        assert!(end.is_none_or(|end| end == r.int("ts_ns")), "{what}: blocks of {:?} have a gap", cell(&r));
        assert!(r.int("count") >= 1);
    }
    let mut checked = 0;
    for (cell, sum) in &sums {
        // Steps that not all devices have are no steps of the account.
        if let Some(of_account) = account.get(cell) {
            assert_eq!(sum, of_account, "{what}: {cell:?}");
            checked += 1;
        }
    }
    checked
}

#[test]
fn blocks_of_the_samples_sum_to_the_account() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/samples");
    for sample in
        ["gpu_ddp8", "gpu_pp4", "gpu_ep4", "gloo_ddp4", "gpu_single", "gpu_counters", "gpu_cuspy", "serving"]
    {
        let found = check_sums(&answer(&[root.join(sample)], &options()), sample);
        assert!(found > 0, "{sample}");
    }
    // Two recordings without a step in common: each has an account of its own.
    for file in shared::files_below(&root.join("cpu_single")) {
        if file.to_string_lossy().ends_with(".json.gz") {
            assert!(check_sums(&answer(std::slice::from_ref(&file), &options()), "cpu_single") > 0);
        }
    }
}

#[test]
fn a_step_is_cut_into_what_the_device_does() {
    // host      |launch|launch.......|
    // stream 7        |gemm....|          |copy|
    // stream 20                |nccl.|
    let mut t = TraceBuilder::new().rank(0).world(1).host("node-0").device("NVIDIA H100", 132);
    let mut main = t.thread(1);
    main.step(1, us(0)..us(200));
    main.op("aten::mm", us(0)..us(10));
    main.launch(us(2)..us(5)).kernel("gemm", 7, us(10)..us(60));
    main.launch(us(6)..us(8)).kernel("ncclDevKernel_AllReduce_Sum_bf16", 20, us(50)..us(90));
    main.launch(us(100)..us(150)).memcpy("HtoD", 7, 1 << 20, us(155)..us(200));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("rank_0.json");
    std::fs::write(&path, t.to_json()).expect("it can be written");
    let answer = answer(&[path], &options());
    let rows = answer.rows("timeline");
    let start = rows[0].int("ts_ns");
    let shown: Vec<(i64, i64, String, String)> = rows
        .iter()
        .map(|r| {
            let name = r.text("name").split('(').next().unwrap_or_default().trim().to_string();
            (r.int("ts_ns") - start, r.int("dur_ns"), r.text("part").to_string(), name)
        })
        .filter(|(.., part, _)| part != "idle")
        .collect();
    let of = |start: i64, len: i64, part: &str, name: &str| {
        (us(start), us(len), part.to_string(), name.to_string())
    };
    let want = [
        of(10, 50, "compute", "gemm"),
        of(60, 30, "communication", "ncclDevKernel_AllReduce_Sum_bf16"),
        of(155, 45, "memory", "Memcpy HtoD"),
    ];
    assert_eq!(shown, want);
    let idle: i64 = rows.iter().map(|r| r.int("idle_ns")).sum();
    assert_eq!(idle, us(10 + 65));
    assert!(rows.iter().filter(|r| r.text("part") == "idle").all(|r| !r.text("cause").is_empty()));
}

#[test]
fn those_who_wait_name_the_rank_that_came_late() {
    let program = |rank: u32, _: u64| {
        let work = if rank == 2 { ms(9) } else { ms(5) };
        vec![kernel("gemm", work), all_reduce(0, 500_000, us(300))]
    };
    let answer = Recording::full().answer(&simulate(&Job::new(4, 5, &program)));
    assert!(check_sums(&answer, "late") > 0);
    let waits = answer.rows("timeline_waits");
    let long: Vec<&Record> = waits.iter().filter(|r| r.int("dur_ns") > ms(1)).collect();
    assert!(!long.is_empty());
    for r in long {
        assert_eq!(r.int("late_rank"), 2);
        assert_ne!(r.int("rank"), 2);
        assert!((r.int("dur_ns") - ms(4)).abs() < us(200), "{}", r.0);
    }
}

#[test]
fn work_of_a_host_alone_is_named_by_its_outermost_operator() {
    // operators   |linear........|      |relu|
    //                |mm..|
    let mut t = TraceBuilder::new().rank(0).world(1).host("node-0");
    let mut main = t.thread(1);
    main.step(1, us(0)..us(100));
    main.op("aten::linear", us(10)..us(50));
    main.op("aten::mm", us(20)..us(40));
    main.op("aten::relu", us(70)..us(80));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("rank_0.json");
    std::fs::write(&path, t.to_json()).expect("it can be written");
    let answer = answer(&[path], &options());
    let rows = answer.rows("timeline");
    let compute = rows.iter().filter(|r| r.text("part") == "compute");
    let shown: Vec<(String, i64)> = compute.map(|r| (r.text("name").to_string(), r.int("dur_ns"))).collect();
    assert_eq!(shown, [("aten::linear".to_string(), us(40)), ("aten::relu".to_string(), us(10))]);
    assert!(check_sums(&answer, "host") > 0);
}

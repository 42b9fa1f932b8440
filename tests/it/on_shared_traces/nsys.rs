//! Exports of nsys have the known sums, in every generation of the schema at hand.

use crate::run::{Answer, answer, options};
use crate::shared;

/// Of kernels, copies and sets, over all ranks: count and summed ns.
fn classes(answer: &Answer) -> [[i64; 2]; 3] {
    let rows = answer.rows_where("kernels_by_name", |r| r.text("scope") == "span");
    let of = |is: &dyn Fn(&str) -> bool| {
        let mine = || rows.iter().filter(|r| is(r.text("name")));
        [mine().map(|r| r.int("count")).sum(), mine().map(|r| r.int("sum_ns")).sum()]
    };
    let is_copy = |n: &str| n.starts_with("Memcpy ");
    let is_set = |n: &str| n.starts_with("Memset ");
    [of(&|n| !is_copy(n) && !is_set(n)), of(&is_copy), of(&is_set)]
}

fn read(name: &str) -> Option<Answer> {
    let file = shared::folder()?.trace(&format!("nsys/{name}"));
    Some(answer(&[file], &options()))
}

#[test]
fn a_range_of_two_processes_is_two_ranks() {
    let Some(answer) = read("nsys-ai__c8f71e_mfu_2gpu_before.sqlite") else { return };
    let copies = 5_665_431 + 26_656;
    assert_eq!(classes(&answer), [[4_010, 535_200_650], [1_020, copies], [269, 213_408]]);
    let ranks = answer.rows("ranks");
    let of = |column: &str| ranks.iter().map(|r| r.int(column)).collect::<Vec<_>>();
    assert_eq!(of("rank"), [0, 1]);
    let kernels = |rank: i64| {
        let is_kernel = |n: &str| !n.starts_with("Memcpy ") && !n.starts_with("Memset ");
        let rows =
            answer.rows_where("kernels_by_name", |r| r.text("scope") == "span" && r.int("rank") == rank);
        rows.iter().filter(|r| is_kernel(r.text("name"))).map(|r| r.int("count")).sum::<i64>()
    };
    assert_eq!([kernels(0), kernels(1)], [1_993, 2_017]);
    // Busy time of each device, with copies and sets.
    let busy = answer.rows_where("temporal_breakdown", |r| r.text("scope") == "span");
    assert_eq!(busy.iter().map(|r| r.int("busy_ns")).collect::<Vec<_>>(), [273_817_787, 267_275_916]);
    // 24 kernels were launched before the range; all others have their launch in the same process.
    let unlinked =
        answer.rows_where("operators", |r| r.text("name") == "[unlinked]" && r.text("scope") == "capture");
    assert_eq!(unlinked.iter().map(|r| r.int("kernel_count")).sum::<i64>(), 24);
    let categories = answer.rows_where("kernel_categories", |r| r.text("scope") == "span");
    let of = |name: &str| {
        let rows = || categories.iter().filter(|r| r.text("category") == name);
        [rows().map(|r| r.int("count")).sum::<i64>(), rows().map(|r| r.int("sum_ns")).sum()]
    };
    assert_eq!(of("attention"), [68, 272_317_378]);
    assert_eq!(of("communication"), [66, 25_401_752]);
    // NCCL's ranges of its own calls repeat, and are no steps.
    let steps = answer.rows("steps");
    assert!(steps.iter().all(|r| !r.text("name").starts_with("nccl")), "{steps:?}");
}

#[test]
fn a_range_of_one_process_has_its_device() {
    let Some(answer) = read("nvfuser__57da9a_report.sqlite") else { return };
    assert_eq!(classes(&answer), [[18, 10_167_602], [3, 21_356_533 + 31_839], [3, 3_072]]);
    let busy = answer.rows_where("temporal_breakdown", |r| r.text("scope") == "span");
    assert_eq!(busy.iter().map(|r| r.int("busy_ns")).collect::<Vec<_>>(), [31_559_046]);
}

#[test]
fn calls_that_an_old_schema_has_twice_count_once() {
    let Some(answer) = read("pipit__saxpy-mpi-cuda_nsys_perlmutter0.sqlite") else { return };
    assert_eq!(classes(&answer), [[5, 88_573_480], [15, 186_001_123 + 98_698_477], [0, 0]]);
    let twice = answer.rows_where("health", |r| r.text("counter") == "nsys_api_twice");
    assert_eq!(twice.iter().map(|r| r.int("count")).sum::<i64>(), 38);
    let busy = answer.rows_where("temporal_breakdown", |r| r.text("scope") == "span");
    assert_eq!(busy.iter().map(|r| r.int("busy_ns")).collect::<Vec<_>>(), [373_273_080]);
}

#[test]
fn a_small_export_is_read() {
    let Some(answer) = read("nsys-ai__9d9d2f_mock.sqlite") else { return };
    assert_eq!(classes(&answer), [[2, 4_129], [1, 1_632], [0, 0]]);
}

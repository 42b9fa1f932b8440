//! `diagnosis`: every nanosecond has one owner, rows refer to each other, and labels of ranks do not matter.

use crate::job::planted::job::{Job, about, all_reduce, kernel};
use crate::job::planted::recording::Recording;
use crate::job::planted::simulate::simulate;
use crate::run::{Answer, Record, answer, options};
use crate::shared;
use hta_testkit::{Format, TraceBuilder, ms, us};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

type Cell = (i64, Option<i64>, Option<i64>, Option<i64>);

fn cell(r: &Record) -> Cell {
    (r.int("rank"), r.opt_int("device"), r.opt_int("step"), r.opt_int("step_label"))
}

/// Checks that the account adds up: to the time of each step, to the parts of `efficiency`, and to what each finding owns.
pub fn check_sums(answer: &Answer, what: &str) {
    let rows = answer.rows("time_account");
    let mut of_cell: BTreeMap<Cell, i64> = BTreeMap::new();
    let mut of_part: BTreeMap<String, i64> = BTreeMap::new();
    let mut of_finding: BTreeMap<String, i64> = BTreeMap::new();
    for r in &rows {
        assert!(r.int("time_ns") >= 0, "{what}: {}", r.0);
        assert_eq!(
            r.text("part") == "compute",
            r.text("cause").is_empty(),
            "{what}: only compute has no owner"
        );
        *of_cell.entry(cell(r)).or_default() += r.int("time_ns");
        *of_part.entry(r.text("part").to_string()).or_default() += r.int("time_ns");
        *of_finding.entry(r.text("finding_id").to_string()).or_default() += r.int("time_ns");
    }
    // All devices have the same time in a step.
    let mut steps: BTreeMap<(Option<i64>, Option<i64>), BTreeSet<i64>> = BTreeMap::new();
    for ((_, _, step, label), ns) in &of_cell {
        steps.entry((*step, *label)).or_default().insert(*ns);
    }
    assert!(steps.values().all(|times| times.len() == 1), "{what}: {steps:?}");
    let Some(job) = answer.rows_where("efficiency", |r| r.text("scope") == "job").into_iter().next() else {
        assert!(rows.is_empty(), "{what}");
        return;
    };
    let time: i64 = steps.values().flatten().sum();
    assert_eq!(time, job.int("time_ns"), "{what}");
    for (part, column) in [
        ("compute", "compute_ns"),
        ("waiting", "waiting_ns"),
        ("transfer", "transfer_ns"),
        ("unmatched", "unmatched_ns"),
        ("copies", "copies_ns"),
        ("idle", "idle_ns"),
        ("finished_early", "finished_early_ns"),
    ] {
        assert_eq!(of_part.get(part).copied().unwrap_or(0), job.int(column), "{what}: {part}");
    }
    let findings = answer.rows("findings");
    let lost = time * job.int("device_count") - job.int("compute_ns");
    assert_eq!(findings.iter().map(|f| f.int("owned_ns")).sum::<i64>(), lost, "{what}");
    for f in findings.iter().filter(|f| f.text("kind") != "not_explained") {
        let id = f.text("finding_id");
        assert_eq!(of_finding.get(id).copied().unwrap_or(0), f.int("owned_ns"), "{what}: {id}");
    }
    let ids: BTreeSet<&str> = findings.iter().map(|f| f.text("finding_id")).collect();
    assert_eq!(ids.len(), findings.len(), "{what}: ids are unique");
    assert!(answer.rows("finding_evidence").iter().all(|e| ids.contains(e.text("finding_id"))), "{what}");
}

pub fn files(folder: &Path) -> Vec<PathBuf> {
    shared::files_below(folder).into_iter().filter(|p| p.to_string_lossy().contains(".json")).collect()
}

#[test]
fn every_nanosecond_of_the_samples_has_one_owner() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for sample in ["gpu_ddp8", "gloo_ddp4", "gpu_single", "gpu_counters", "cpu_single"] {
        check_sums(&answer(&[root.join("data/samples").join(sample)], &options()), sample);
    }
    for file in files(&root.join("tests/data/causes")) {
        check_sums(&answer(std::slice::from_ref(&file), &options()), &file.display().to_string());
    }
}

/// Kind, ranks, gain and owned time of every finding, without the ids.
fn findings(answer: &Answer) -> Vec<(String, Vec<i64>, i64, i64)> {
    let ranks = |r: &Record| r.text("ranks").split(',').filter_map(|n| n.parse().ok()).collect();
    let row = |r: &Record| (r.text("kind").to_string(), ranks(r), r.int("recoverable_ns"), r.int("owned_ns"));
    answer.rows("findings").iter().map(row).collect()
}

/// Writes the eight ranks of the sample with other rank numbers.
fn with_numbers(number: impl Fn(u64) -> u64) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for file in files(&shared::samples().join("gpu_ddp8")) {
        let packed = std::fs::File::open(&file).expect("the sample can be opened");
        let mut trace: Value =
            serde_json::from_reader(flate2::read::GzDecoder::new(packed)).expect("it is JSON");
        let rank = number(trace["distributedInfo"]["rank"].as_u64().expect("a rank"));
        trace["distributedInfo"]["rank"] = rank.into();
        std::fs::write(folder.path().join(format!("rank_{rank}.json")), trace.to_string())
            .expect("it can be written");
    }
    folder
}

#[test]
fn other_numbers_of_ranks_change_only_the_numbers() {
    let answer_of = |number: fn(u64) -> u64| answer(&[with_numbers(number).path().to_path_buf()], &options());
    let (one, other) = (answer_of(|r| r), answer_of(|r| (r + 3) % 8));
    let renamed: Vec<_> = findings(&one)
        .into_iter()
        .map(|(kind, ranks, gain, owned)| {
            let mut ranks: Vec<i64> = ranks.into_iter().map(|r| (r + 3) % 8).collect();
            ranks.sort_unstable();
            (kind, ranks, gain, owned)
        })
        .collect();
    let other_rows = findings(&other);
    assert_eq!(renamed.len(), other_rows.len());
    for (a, b) in renamed.iter().zip(&other_rows) {
        assert_eq!((&a.0, &a.1, a.2), (&b.0, &b.1, b.2));
        // Where a wait cannot be divided evenly, the rest goes to the lowest rank.
        assert!((a.3 - b.3).abs() < 100, "{a:?} {b:?}");
    }
    assert_eq!((renamed[0].0.as_str(), renamed[0].1.as_slice()), ("straggler", [6].as_slice()));
    // The names of the causes do not depend on the numbers.
    let ids = |a: &Answer| -> Vec<String> {
        a.rows("findings").iter().map(|r| r.text("finding_id").to_string()).collect()
    };
    assert_eq!(ids(&one), ids(&other));
}

#[test]
fn ranks_that_do_the_same_name_nobody() {
    let program = |rank: u32, step: u64| {
        vec![kernel("gemm", about(ms(5), 2, rank, step, 1)), all_reduce(0, 500_000, us(300))]
    };
    let answer = Recording::full().answer(&simulate(&Job::new(8, 6, &program)));
    check_sums(&answer, "balanced");
    assert!(
        findings(&answer).iter().all(|(kind, ..)| kind != "straggler" && kind != "imbalance"),
        "{:?}",
        findings(&answer)
    );
}

/// The answer for one rank.
pub fn of(t: &TraceBuilder) -> Answer {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("rank_0.json");
    std::fs::write(&path, t.to_bytes(&Format::default())).expect("a temporary file can be written");
    answer(&[path], &options())
}

/// ```text
/// gpu 7   sgemm [0....40)  mul [40.52)  add [52......82)   sgemm ...      100 times, in us
/// ```
///
/// As one kernel, `mul` and `add` take as long as `add`. A product of 512 x 512 matrices in fp32 on an H100 with
/// 67 TFLOP/s in fp32, 989 in bf16 and 3350 GB/s takes max(40 us x 67 / 989, 3,145,728 bytes / 3350 GB/s) = 2,709 ns.
#[test]
fn gains_of_kernels_are_what_the_device_could_save() {
    let mut t = TraceBuilder::new().device("NVIDIA H100 80GB HBM3", 132);
    let mut main = t.thread(1);
    let square: (&[i64], &str) = (&[512, 512], "float");
    for i in 0..100 {
        let (host, gpu) = (us(i * 20), us(i * 82 + 30));
        let mut op = |name, at: i64, kernel, from: i64, to: i64| {
            main.op(name, host + us(at)..host + us(at + 6)).inputs(&[square, square]);
            main.launch(host + us(at + 1)..host + us(at + 3)).kernel(kernel, 7, gpu + us(from)..gpu + us(to));
        };
        op("aten::mm", 0, "volta_sgemm_128x64_nn", 0, 40);
        op("aten::mul", 6, "vectorized_elementwise_kernel", 40, 52);
        op("aten::add", 12, "vectorized_elementwise_kernel", 52, 82);
    }
    main.runtime("cudaDeviceSynchronize", us(2_000)..us(8_230));
    let answer = of(&t);
    let found = |kind: &str| {
        let rows = answer.rows_where("findings", |r| r.text("kind") == kind);
        rows.first().map(|r| (r.int("recoverable_ns"), r.text("basis").to_string(), r.int("compute_ns")))
    };
    assert_eq!(found("kernel_elementwise"), Some((100 * 12_000, "bound".to_string(), 100 * 42_000)));
    assert_eq!(
        found("kernel_precision"),
        Some((100 * (40_000 - 2_709), "roofline".to_string(), 100 * 40_000))
    );
    assert_eq!(found("kernel_attention"), None);
}

#[test]
fn data_parallel_and_gloo_with_gpus_are_told() {
    let mut t = TraceBuilder::new();
    let mut main = t.thread(1);
    main.annotation("DataParallel.forward", us(0)..us(100));
    main.launch(us(1)..us(3)).kernel("gemm", 7, us(10)..us(60));
    main.launch(us(4)..us(6)).kernel("gemm", 7, us(10)..us(60)).arg("device", 1);
    main.op("gloo:all_reduce", us(110)..us(120));
    let answer = of(&t);
    let told = answer.outcome.outputs.iter().find_map(|(_, o)| o.verdict.as_ref()).expect("a verdict");
    let notes = |word: &str| told.notes.iter().filter(|n| n.contains(word)).count();
    assert_eq!([notes("DistributedDataParallel"), notes("NCCL")], [1, 1], "{:?}", told.notes);
}

/// The rows of `findings` about memory: kind, bytes, sentence.
fn memory_causes(t: &TraceBuilder) -> Vec<(String, Option<i64>, String)> {
    let of_memory = of(t).rows_where("findings", |r| r.text("kind").starts_with("memory_"));
    let cells = |r: &Record| (r.text("kind").to_string(), r.opt_int("bytes"), r.text("sentence").to_string());
    of_memory.iter().map(cells).collect()
}

/// A GPU of 85.03 GB, on which 80 GB are 94.1 %.
#[test]
fn a_gpu_that_is_nearly_full_is_a_cause() {
    let causes = |level: i64| {
        let mut t = TraceBuilder::new().device("NVIDIA H100 80GB HBM3", 132);
        let mut main = t.thread(1);
        main.op("aten::mm", us(0)..us(100));
        main.launch(us(1)..us(3)).kernel("gemm", 7, us(10)..us(60));
        main.memory(us(20), 7, 512, level).on_device(0, 84_000_000_000);
        // The host's memory is not that of the GPU.
        main.memory(us(30), 8, 512, 85_000_000_000);
        memory_causes(&t)
    };
    let said = "GPU memory of cuda:0 (rank 0) is nearly full: 80.0 GB of 85.0 GB at the peak (94.1 %); `aten::mm` holds 0.0 % of it";
    assert_eq!(causes(80_000_000_000), [("memory_full".to_string(), Some(80_000_000_000), said.to_string())]);
    // 84 GB are reserved; 16.7 % of them are not allocated, then 28.6 %.
    assert_eq!(causes(70_000_000_000), []);
    let found = causes(60_000_000_000);
    assert_eq!((found.len(), found[0].0.as_str(), found[0].1), (1, "memory_unused", Some(24_000_000_000)));
}

/// ```text
///   step 0      [0 .......................................... 200)
///   aten::mm      [10 ................. 60)     [70 ... 90)
///   calls           free 20  free 30  malloc 40   malloc 80
///   outside                                                free 120   malloc 130
/// ```
///
/// The request of the first operator is a retry. The second one takes memory only, and what is given back outside of an
/// operator was asked for by `empty_cache()`.
#[test]
fn memory_that_is_given_back_and_asked_for_in_one_operator_is_a_retry() {
    let mut t = TraceBuilder::new().device("NVIDIA H100 80GB HBM3", 132);
    let mut main = t.thread(1);
    main.step(0, us(0)..us(200));
    // A library asks for memory of its own at its first use.
    main.op("aten::mm", us(1)..us(8));
    main.op("aten::mm", us(10)..us(60));
    for (name, at) in
        [("cudaFree", 20), ("cudaFree", 30), ("cudaMalloc", 40), ("cudaMalloc", 80), ("cudaFree", 120)]
    {
        main.runtime(name, us(at)..us(at + 5));
    }
    main.op("aten::mm", us(70)..us(90));
    main.runtime("cudaMalloc", us(130)..us(135));
    main.launch(us(50)..us(52)).kernel("gemm", 7, us(55)..us(160));
    let said = "The caching allocator of rank 0 ran out of memory and gave its cache back 1 time inside steps, 1 of them at `aten::mm`";
    assert_eq!(memory_causes(&t), [("memory_retry".to_string(), None, said.to_string())]);
}

/// Causes about memory own no time, and the account sums up as without them.
#[test]
fn a_request_that_failed_is_the_first_cause_and_owns_no_time() {
    let mut t = TraceBuilder::new().device("NVIDIA H100 80GB HBM3", 132);
    let mut main = t.thread(1);
    main.step(0, us(0)..us(200));
    main.op("aten::mm", us(10)..us(60));
    main.launch(us(50)..us(52)).kernel("gemm", 7, us(150)..us(160));
    main.failed_request(us(20), 4_000_000_000, 1_000_000).on_device(0, 2_000_000);
    let answer = of(&t);
    check_sums(&answer, "a failed request");
    let first = &answer.rows("findings")[0];
    assert_eq!((first.text("kind"), first.int("bytes")), ("memory_failed", 4_000_000_000));
    assert_eq!((first.int("owned_ns"), first.int("recoverable_ns")), (0, 0));
    let told = answer.outcome.outputs.iter().find_map(|(_, o)| o.verdict.clone()).expect("a verdict");
    assert!(
        told.lines[0].starts_with("1 request for memory on cuda:0 (rank 0) failed, the largest of 4.00 GB"),
        "{told:?}"
    );
}

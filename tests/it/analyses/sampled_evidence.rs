//! Sampled metrics that support a cause: only where samples can tell its kernels from others.

use crate::run::{Answer, answer, options};
use hta_testkit::{Call, Collective, Format, TraceBuilder, us};

const NORM: &str = "void at::native::vectorized_elementwise_kernel<4, Add>(int)";
const H100: &str = "NVIDIA H100 80GB HBM3";

fn run(traces: &[TraceBuilder]) -> Answer {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let paths = traces.iter().enumerate().map(|(rank, t)| {
        let path = folder.path().join(format!("rank_{rank}.json"));
        std::fs::write(&path, t.to_bytes(&Format::default())).expect("a temporary file can be written");
        path
    });
    answer(&paths.collect::<Vec<_>>(), &options())
}

/// The words of the evidence of causes of a kind.
fn words(answer: &Answer, kind: &str) -> String {
    let ids: Vec<String> = answer
        .rows_where("findings", |r| r.text("kind") == kind)
        .iter()
        .map(|r| r.text("finding_id").to_string())
        .collect();
    assert!(!ids.is_empty(), "no {kind} in {:?}", answer.rows("findings"));
    let of = answer.rows_where("finding_evidence", |r| ids.iter().any(|id| id == r.text("finding_id")));
    of.iter().map(|r| r.text("words").to_string() + "\n").collect()
}

/// A rank with kernels of a length one after the other for 40 ms, with a sample of a metric every ms.
fn elementwise(rank: u32, model: &str, len: i64, (metric, value): (&str, f64)) -> TraceBuilder {
    let mut t = TraceBuilder::new().rank(rank).world(1).device(model, 132);
    let count = 40_000 / len;
    let mut main = t.thread(1);
    for i in 0..count {
        main.launch(us(3 * i)..us(3 * i + 2)).kernel(NORM, 7, us(700 + i * len)..us(700 + (i + 1) * len));
    }
    for i in 0..42 {
        t.hardware_counter(metric, us(1_000 * i), value);
    }
    t
}

#[test]
fn kernels_that_use_most_of_the_memory_bandwidth() {
    let at = |pct| elementwise(0, H100, 200, ("HBM BW (%)", pct));
    let of = |t: TraceBuilder| words(&run(&[t]), "kernel_elementwise");
    assert!(of(at(78.0)).contains("HBM 78.0 % of peak while they run"), "{}", of(at(78.0)));
    assert!(!of(at(69.0)).contains("HBM"));
    // Without a unit it may be anything.
    assert!(!of(elementwise(0, H100, 200, ("HBM BW", 78.0))).contains("HBM"));
}

#[test]
fn kernels_far_shorter_than_the_period_have_no_value_of_their_own() {
    // In each ms the kernels run for 390 us, and others for the rest.
    let mut t = TraceBuilder::new().rank(0).world(1).device(H100, 132);
    let mut main = t.thread(1);
    for i in 0..40 {
        let at = us(1_000 * i);
        for part in 0..3 {
            let norm = at + us(300 + 130 * part)..at + us(430 + 130 * part);
            main.launch(us(12 * i + 3 * part)..us(12 * i + 3 * part + 2)).kernel(NORM, 7, norm);
        }
        main.launch(us(12 * i + 9)..us(12 * i + 11)).kernel(
            "void cutlass::gemm_bf16(P)",
            7,
            at + us(690)..at + us(1_290),
        );
    }
    for i in 0..42 {
        t.hardware_counter("HBM BW (%)", us(1_000 * i), 90.0);
    }
    assert!(!words(&run(&[t]), "kernel_elementwise").contains("HBM"));
}

#[test]
fn small_kernels_that_leave_multiprocessors_idle() {
    let of = |pct| words(&run(&[elementwise(0, H100, 8, ("SM Active (%)", pct))]), "kernel_small");
    assert!(of(41.0).contains("41.0 % of the multiprocessors work in busy time"), "{}", of(41.0));
    assert!(!of(51.0).contains("multiprocessors"));
}

/// Two ranks that compute for 4 ms and exchange for 6 ms, five times.
fn exchanges(metric: &str, value: f64) -> Answer {
    let rank = |rank: u32| {
        let mut t = TraceBuilder::new().rank(rank).world(2).device(H100, 132);
        let mut main = t.thread(1);
        for step in 0..5 {
            let at = us(10_100 * step);
            main.step(step as u64, at..at + us(10_050));
            main.launch(at + us(1)..at + us(3)).kernel(
                "void cutlass::gemm_bf16(P)",
                7,
                at + us(10)..at + us(4_010),
            );
            let c = Collective::all_reduce(1 << 26, "BFloat16")
                .group("0", "default_pg", 0..2)
                .seq(step as u64 + 1);
            main.nccl(&c, at + us(4)..at + us(14), 20, at + us(4_011)..at + us(10_011));
            main.call(Call::DeviceSync, at + us(20)..at + us(10_020));
        }
        for i in 0..51 {
            t.hardware_counter(metric, us(1_000 * i), value);
        }
        t
    };
    run(&[rank(0), rank(1)])
}

#[test]
fn links_are_full_or_not_while_transfers_are_exposed() {
    let of = |metric, value| words(&exchanges(metric, value), "transfer_bare");
    let full = of("NVLink RX (%)", 91.0);
    assert!(full.contains("NVLink 91.0 % of peak during exposed transfers: the link is full"), "{full}");
    let empty = of("NVLink TX (%)", 12.0);
    assert!(
        empty.contains("NVLink 12.0 % of peak") && empty.contains("not full: latency or waiting"),
        "{empty}"
    );
    assert!(!of("NVLink RX (%)", 50.0).contains("NVLink"));
    assert!(!of("NVLink RX", 91.0).contains("NVLink"));
}

#[test]
fn percentages_of_different_models_are_not_averaged() {
    let trace = |rank: u32, model| {
        let mut t = TraceBuilder::new().rank(rank).world(2).device(model, 132);
        let mut main = t.thread(1);
        for i in 0..200 {
            main.launch(us(3 * i)..us(3 * i + 2)).kernel(NORM, 7, us(700 + 200 * i)..us(900 + 200 * i));
        }
        for i in 0..42 {
            t.hardware_counter("HBM BW (%)", us(1_000 * i), 90.0);
        }
        t
    };
    assert!(words(&run(&[trace(0, H100), trace(1, H100)]), "kernel_elementwise").contains("HBM 90.0 %"));
    let mixed = run(&[trace(0, H100), trace(1, "NVIDIA A100-SXM4-80GB")]);
    assert!(!words(&mixed, "kernel_elementwise").contains("HBM"));
}

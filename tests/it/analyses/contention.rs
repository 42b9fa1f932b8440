//! Kernels that are longer only beside copies: evidence of the rank or the step that is long, or the cause
//! `contention`.
//!
//! ```text
//!   stream 7    |gemm......|gemm......|gemm|gemm|    2.6 times as long beside copies
//!   stream 30   |copy......|copy......|
//! ```

use crate::run::{answer, options};
use hta_testkit::{Call, Collective, TraceBuilder, us};

const WORLD: u32 = 3;
const KERNELS: i64 = 10;

/// Whether the first half of the kernels of a rank is slow in a step, and whether copies run beside them.
type Beside = fn(u32, u64) -> (bool, bool);

/// The sentences and figures of all causes that save 2 % or more.
fn told(beside: Beside, shapes: bool) -> String {
    let new = |rank| TraceBuilder::new().rank(rank).world(WORLD).device("NVIDIA H100", 132);
    let mut traces: Vec<TraceBuilder> = (0..WORLD).map(new).collect();
    let mut start = 0;
    for step in 0..8 {
        let length = |rank: u32, k: i64| if k * 2 < KERNELS && beside(rank, step).0 { 2_600 } else { 1_000 };
        let work = |rank: u32| (0..KERNELS).map(|k| length(rank, k)).sum::<i64>();
        let end = start + 100 + (0..WORLD).map(work).max().unwrap_or(0) + 500;
        for (rank, t) in (0..WORLD).zip(&mut traces) {
            let mut main = t.thread(1);
            main.step(step, us(start)..us(end + 20));
            let mut at = start + 100;
            for k in 0..KERNELS {
                let (launch, len) = (start + 10 + 8 * k, length(rank, k));
                if k * 2 < KERNELS && beside(rank, step).1 {
                    let call = main.call(Call::Copy, us(launch)..us(launch + 3));
                    call.memcpy("DtoH (Device -> Pinned)", 30, 1 << 25, us(at)..us(at + len));
                }
                if shapes {
                    main.op("aten::mm", us(launch + 4)..us(launch + 7)).inputs(&[(&[64, 64], "float")]);
                }
                let launch = main.launch(us(launch + 4)..us(launch + 7));
                launch.kernel("gemm", 7, us(at)..us(at + len)).grid([64, 1, 1]);
                at += len;
            }
            let c =
                Collective::all_reduce(1 << 22, "BFloat16").group("0", "default_pg", 0..WORLD).seq(step + 1);
            main.nccl(&c, us(start + 90)..us(start + 99), 20, us(at)..us(end));
            main.call(Call::DeviceSync, us(start + 100)..us(end + 10));
        }
        start = end + 20;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let paths = traces.iter().enumerate().map(|(rank, t)| {
        let path = folder.path().join(format!("rank_{rank}.json"));
        std::fs::write(&path, t.to_json()).expect("a temporary file can be written");
        path
    });
    let a = answer(&paths.collect::<Vec<_>>(), &options());
    let rows = a.rows_where("findings", |r| r.float("recoverable_pct").is_some_and(|pct| pct >= 2.0));
    let words = rows.iter().map(|r| [r.text("sentence"), r.text("detail"), r.text("action")].join(". "));
    words.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_rank_whose_kernels_are_slow_only_beside_copies_says_so() {
    let told = told(|rank, _| (rank == 2, rank == 2), false);
    assert!(told.contains("Rank 2 is late in all 8 steps"), "{told}");
    assert!(told.contains("40 of 40 kernels beside copies (`gemm`) are slow, 2.60 times as long"), "{told}");
    assert!(!told.contains("compare the inputs of this kernel"), "{told}");
}

#[test]
fn steps_that_are_long_beside_asynchronous_copies_say_so() {
    let told = told(|_, step| (step == 4, step == 4), false);
    assert!(told.contains("Step 4 (1 of 8) is far longer than the others"), "{told}");
    assert!(
        told.contains("5 of 5 kernels beside copies") || told.contains("15 of 15 kernels beside copies"),
        "{told}"
    );
}

#[test]
fn slow_kernels_without_copies_and_copies_without_slow_kernels_say_nothing_of_copies() {
    let slow = told(|rank, _| (rank == 2, false), false);
    assert!(slow.contains("compare the inputs of this kernel") && !slow.contains("beside copies"), "{slow}");
    let elsewhere = told(|rank, _| (rank == 2, rank == 1), false);
    assert!(!elsewhere.contains("beside copies"), "{elsewhere}");
    assert!(!told(|_, _| (false, true), true).contains("beside copies"));
}

#[test]
fn kernels_of_all_ranks_and_steps_that_are_slow_beside_copies_are_a_cause() {
    let told = told(|_, _| (true, true), true);
    assert!(told.contains("Kernels run slower beside copies. "), "{told}");
    assert!(
        told.contains("120 of 120 kernels beside copies (`gemm`) are slow, 2.60 times as long"),
        "{told}"
    );
    // Without shapes the slow ones may be of another size.
    let unknown = self::told(|_, _| (true, true), false);
    assert!(!unknown.contains("beside copies"), "{unknown}");
}

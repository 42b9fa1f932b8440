//! Kernels that exchange and multiply in one, and kernels that wait for other ranks although no rule knows
//! them: both end together on all ranks, 200 us after the last one has started.
//!
//! ```text
//!   us        0         100           300          500
//!   rank 0    [attention][mega_moe....waits......]
//!   rank 1    [attention            ][mega_moe   ]
//! ```

use crate::run::{Answer, answer, options};
use hta_testkit::{Call, Collective, Format, SyncKind, TraceBuilder, us};
use std::ops::Range;

const RANKS: u32 = 4;
const STEPS: u64 = 8;
const LENGTH: i64 = 1_000;
const FUSED: &str = "void deep_gemm::sm100_fp8_fp4_mega_moe_impl<8192u, 7168u>(void*, int*, unsigned int)";

/// When a rank starts and ends the kernel in a step, us from its start.
fn run(rank: u32) -> Range<i64> {
    let start = if rank == 1 { 300 } else { 100 + i64::from(rank) };
    start..500
}

/// `behind`: us of a product behind all of it.
fn trace(rank: u32, name: &str, behind: i64) -> TraceBuilder {
    let mut t = TraceBuilder::new().rank(rank).world(RANKS).host("node-0").device("NVIDIA B200", 148);
    for step in 0..STEPS {
        let at = |range: Range<i64>| -> Range<i64> {
            let start = step as i64 * (LENGTH + behind);
            us(start + range.start)..us(start + range.end)
        };
        let mut main = t.thread(1);
        main.step(step, at(10..900 + behind));
        for (i, (name, run)) in (0i64..).zip([("flash_fwd_kernel", 50..run(rank).start), (name, run(rank))]) {
            main.launch(at(20 + 5 * i..23 + 5 * i)).kernel(name, 7, at(run)).grid([132, 1, 1]);
        }
        let all_reduce = Collective::all_reduce(64, "Float").group("0", "default_pg", 0..RANKS).seq(step);
        main.nccl(&all_reduce, at(35..40), 7, at(550..553));
        let end = 560 + behind;
        if behind > 0 {
            main.launch(at(40..43)).kernel("cutlass_gemm", 7, at(560..end)).grid([132, 1, 1]);
        }
        main.call(Call::DeviceSync, at(50..end)).sync_row(SyncKind::ContextSync, -1, at(51..end - 1));
    }
    t
}

fn answered(name: &str, behind: i64) -> Answer {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let write = |rank: u32| {
        let path = folder.path().join(format!("rank_{rank}.json"));
        let bytes = trace(rank, name, behind).to_bytes(&Format::default());
        std::fs::write(&path, bytes).expect("a temporary file can be written");
        path
    };
    let files: Vec<_> = (0..RANKS).map(write).collect();
    let mut options = options();
    // What a rank costs in a long step is told, too.
    options.across.straggler_min_pct = 1.0;
    answer(&files, &options)
}

#[test]
fn a_rank_that_comes_late_to_fused_kernels_is_named_with_a_bound() {
    let answer = answered(FUSED, 0);
    let calls = answer.rows_where("collectives", |c| c.text("kind") != "all_reduce");
    assert_eq!(calls.len() as u64, u64::from(RANKS) * STEPS);
    for c in &calls {
        let start = run(c.int("rank") as u32).start;
        assert_eq!((c.text("kind"), c.opt_int("wait_ns"), c.opt_int("transfer_ns")), ("fused", None, None));
        assert_eq!((c.int("wait_upper_ns"), c.int("last_rank")), (us(300 - start), 1));
    }
    let late = answer.rows_where("findings", |r| r.text("kind") == "straggler");
    assert_eq!((late[0].text("rank_label"), late[0].text("certainty")), ("rank 1", "at most"));
    // All but the last of the steps end before the others would have: 300 - 103 us.
    let gain = late[0].int("recoverable_ns");
    assert!((7 * us(190)..=8 * us(200)).contains(&gain), "{gain}");
    assert!(!answer.rows("findings").iter().any(|r| r.text("kind") == "transfer_bare"));
    assert!(answer.rows("kernels_end_together").is_empty());
}

#[test]
fn parts_with_fused_kernels_sum_to_the_window() {
    let answer = answered(FUSED, 0);
    for r in answer.rows("temporal_breakdown") {
        let parts = ["compute_ns", "fused_ns", "exposed_communication_ns", "copies_ns", "idle_ns"];
        assert_eq!(parts.map(|p| r.int(p)).iter().sum::<i64>(), r.int("dur_ns"), "{r:?}");
        assert_eq!(r.int("exposed_upper_ns"), r.int("fused_ns") + r.int("exposed_communication_ns"));
    }
    for r in answer.rows_where("sync", |r| r.text("process_group").is_empty()) {
        let parts = ["compute_only_ns", "overlapped_communication_ns", "fused_ns", "waiting_ns"];
        let rest = ["transfer_ns", "unmatched_ns", "other_ns"];
        let sum: i64 = parts.iter().chain(&rest).map(|p| r.int(p)).sum();
        assert_eq!((sum, r.int("waiting_ns")), (r.int("dur_ns"), 0), "{r:?}");
    }
    let classes = answer.rows_where("time_account", |r| r.text("part") == "fused");
    let fused: i64 = classes.iter().map(|r| r.int("time_ns")).sum();
    let expected: i64 = (0..RANKS).map(|r| STEPS as i64 * us(500 - run(r).start)).sum();
    assert_eq!(fused, expected);
    assert!(classes.iter().all(|r| r.text("cause").is_empty()));
    let trust = answer.rows_where("trust", |r| r.text("rule") == "fused_communication");
    let graded: Vec<_> = trust.iter().map(|r| (r.text("capability"), r.text("grade"))).collect();
    assert_eq!(graded, [("overlap", "withheld"), ("ranks", "at most"), ("transfer", "at most")]);
}

#[test]
fn lateness_to_fused_kernels_is_a_bound_however_short_they_are() {
    let answer = answered(FUSED, 7_500);
    assert!(answer.rows_where("trust", |r| r.text("rule") == "fused_communication").is_empty());
    let late = answer.rows_where("findings", |r| r.text("kind") == "straggler");
    assert_eq!((late[0].text("rank_label"), late[0].text("certainty")), ("rank 1", "at most"));
}

#[test]
fn layers_inside_fused_kernels_have_no_times() {
    let answer = answered(FUSED, 0);
    let passes = answer.rows("expert_ranks");
    assert_eq!(passes.len() as u64, u64::from(RANKS) * STEPS);
    for r in &passes {
        assert_eq!(r.int("dispatch_event_id"), r.int("combine_event_id"));
        let times = ["expert_ns", "dispatch_ns", "combine_ns", "dispatch_wait_ns", "combine_wait_ns"];
        assert_eq!(times.map(|t| r.opt_int(t)), [None; 5], "{r:?}");
    }
    let layers = answer.rows("expert_layers");
    assert!(layers.len() as u64 == STEPS && layers.iter().all(|l| l.opt_int("hot_rank").is_none()));
    assert!(answer.notes("experts").iter().any(|n| n.contains("in fused kernels")));
}

#[test]
fn a_kernel_that_ends_together_is_listed_and_stays_compute() {
    let answer = answered("void acme::fence(int*)", 0);
    let found = answer.rows("kernels_end_together");
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].text("name"), found[0].int("instance_count")), ("void acme::fence(int*)", 8));
    let classes = answer.rows_where("kernels", |r| r.text("name").contains("acme"));
    assert!(classes.iter().all(|r| r.text("class") == "compute"));
    // What starts and ends apart is none.
    assert!(!found.iter().any(|r| r.text("name") == "flash_fwd_kernel"));
}

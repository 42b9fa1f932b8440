//! Layers of experts whose exchanges are kernels of a library (DeepEP): times only, no sizes.
//!
//! ```text
//!   us        0         100    110      150                 400        450
//!   rank 0    [attention][notify][dispatch][m_grouped 100][combine......]
//!   rank 2    [attention][notify][dispatch][m_grouped 250       ][combine]
//! ```

use crate::run::{Answer, answer, options};
use hta_testkit::{Call, Format, SyncKind, TraceBuilder, us};
use std::ops::Range;

const RANKS: u32 = 4;
const STEPS: u64 = 6;
const LENGTH: i64 = 1_000;

/// Kernels of a library, by what they do.
struct Library {
    notify: &'static str,
    dispatch: &'static str,
    combine: &'static str,
}

const DEEP_EP: Library = Library {
    notify: "void deep_ep::intranode::notify_dispatch<4>(int const*, int*, int const*)",
    dispatch: "void deep_ep::intranode::dispatch<4, 768, 8192>(int4*, float*, int*)",
    combine: "void deep_ep::intranode::combine<__nv_bfloat16, 4, 768, 4096>(__nv_bfloat16*, float*)",
};

const MORI: Library = Library {
    notify: "void mori::moe::EpCombineSync<float>(mori::moe::EpDispatchCombineArgs<float>)",
    dispatch: "void mori::moe::EpDispatchIntraNodeKernel<float>(mori::moe::EpDispatchCombineArgs<float>)",
    combine: "void mori::moe::EpCombineIntraNodeKernel<float>(mori::moe::EpDispatchCombineArgs<float>)",
};

fn trace(rank: u32, library: &Library) -> TraceBuilder {
    let mut t = TraceBuilder::new().rank(rank).world(RANKS).host("node-0").device("NVIDIA H100", 132);
    for step in 0..STEPS {
        let at = |from: i64, to: i64| -> Range<i64> {
            let start = step as i64 * LENGTH;
            us(start + from)..us(start + to)
        };
        let gemm = if rank == 2 { 400 } else { 250 };
        let mut main = t.thread(1);
        main.step(step, at(10, 900));
        let rows = [
            ("attention", 7, at(50, 100)),
            (library.notify, 20, at(101, 110)),
            (library.dispatch, 20, at(111, 150)),
            ("void m_grouped_gemm_fp8_nt_contiguous<1, 2>(x)", 7, at(150, gemm)),
            (library.combine, 20, at(gemm + 1, 450)),
        ];
        for (i, (name, stream, run)) in (0i64..).zip(rows) {
            main.launch(at(20 + 5 * i, 23 + 5 * i)).kernel(name, stream, run).grid([132, 1, 1]);
        }
        main.call(Call::DeviceSync, at(50, 451)).sync_row(SyncKind::ContextSync, -1, at(51, 450));
    }
    t
}

fn answered(library: &Library) -> Answer {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let write = |rank: u32| {
        let path = folder.path().join(format!("rank_{rank}.json"));
        let bytes = trace(rank, library).to_bytes(&Format::default());
        std::fs::write(&path, bytes).expect("a temporary file can be written");
        path
    };
    let files: Vec<_> = (0..RANKS).map(write).collect();
    answer(&files, &options())
}

#[test]
fn kernels_of_libraries_are_exchanges_without_sizes() {
    for library in [DEEP_EP, MORI] {
        let answer = answered(&library);
        let passes = answer.rows("expert_ranks");
        assert_eq!(passes.len() as u64, u64::from(RANKS) * STEPS, "{}", library.dispatch);
        for r in &passes {
            let expert = if r.int("rank") == 2 { us(250) } else { us(100) };
            assert_eq!((r.int("expert_ns"), r.int("dispatch_ns")), (expert, us(39)), "{}", r.0);
            assert_eq!((r.opt_int("received_bytes"), r.opt_int("tokens_in")), (None, None));
        }
        // Without sizes nobody is named for tokens.
        let layers = answer.rows("expert_layers");
        assert!(
            layers.iter().all(|l| l.float("token_share_pct").is_none() && l.float("max_over_mean").is_none())
        );
        let found = answer.rows_where("findings", |r| r.text("kind") == "expert_imbalance");
        assert!(found.is_empty(), "{found:?}");
        // Nor is anybody sure to be slow: it may have more tokens.
        let late = answer.rows_where("findings", |r| r.text("kind") == "straggler");
        let told: Vec<_> =
            late.iter().map(|r| (r.text("ranks"), r.text("key"), r.text("certainty"))).collect();
        assert_eq!(told, [("2", "expert_time", "at most")], "{}", library.dispatch);
        assert!(late[0].text("detail").contains("more tokens or a slower device"), "{late:?}");
    }
}

#[test]
fn agreeing_on_sizes_is_a_barrier() {
    let calls = answered(&DEEP_EP).rows("collectives");
    let count = |kind: &str| calls.iter().filter(|r| r.text("kind") == kind).count() as u64;
    let passes = u64::from(RANKS) * STEPS;
    assert_eq!((count("barrier"), count("all_to_all")), (passes, 2 * passes));
}

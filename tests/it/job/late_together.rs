//! Two ranks that are late together, each for a reason of its own: they hide each other, and neither reason is that of both.

use crate::run::{answer_of, options};
use hta_testkit::{Call, Collective, TraceBuilder, us};

const RANKS: u32 = 8;
const STEPS: u64 = 10;
const KERNELS: i64 = 20;
/// The rank with a slow device, and the one whose host stands still.
const SLOW: u32 = 2;
const STILL: u32 = 5;

/// Kernels of three names, all longer on one rank by two fifths; another rank works as long more on its host.
///
/// ```text
///   slow    |launch..|           stream 7  [a.....][b.....][c.....]...      [allreduce]
///   still   |load....|launch..|  stream 7           [a...][b...][c...]...   [allreduce]
///   other   |launch..|           stream 7  [a...][b...][c...]...   [allreduce.........]
/// ```
#[test]
fn ranks_that_are_late_together_have_their_own_reasons() {
    let length = |rank: u32| if rank == SLOW { 140 } else { 100 };
    let load = |rank: u32| if rank == STILL { KERNELS * 40 } else { 5 };
    let end = 20 + 40 * KERNELS + 100 * KERNELS + 100;
    let trace = |rank: u32| {
        let mut t = TraceBuilder::new().rank(rank).world(RANKS).device("NVIDIA H100", 132);
        let mut main = t.thread(1);
        for step in 0..STEPS {
            let at = step as i64 * (end + 30);
            let mut run = at + load(rank) + 15;
            main.op("load", us(at + 2)..us(at + load(rank)));
            for k in 0..KERNELS {
                let (call, name) = (at + load(rank) + 5 * k, ["gemm", "softmax", "gelu"][k as usize % 3]);
                main.launch(us(call + 1)..us(call + 4)).kernel(name, 7, us(run)..us(run + length(rank)));
                run += length(rank) + 1;
            }
            let c = Collective::all_reduce(1_000_000, "Float").group("0", "default_pg", 0..RANKS).seq(step);
            let call = at + load(rank) + 5 * KERNELS;
            main.nccl(&c, us(call)..us(call + 10), 20, us(run)..us(at + end));
            main.call(Call::DeviceSync, us(call + 15)..us(at + end + 5));
            main.step(step, us(at)..us(at + end + 10));
        }
        t
    };
    let answer = answer_of(&(0..RANKS).map(trace).collect::<Vec<_>>(), &options());
    let found = answer.rows_where("findings", |r| r.text("kind") == "straggler");
    assert_eq!(found.len(), 1, "{found:?}");
    let (detail, action) = (found[0].text("detail"), found[0].text("action"));
    assert_eq!(found[0].text("ranks"), format!("{SLOW},{STILL}"), "{found:?}");
    assert!(detail.contains(&format!("ank {SLOW}: all its kernels take 1.40 times as long")), "{detail}");
    assert!(
        detail.contains(&format!("ank {STILL}: the device idles while the host is in `load`")),
        "{detail}"
    );
    assert!(!action.contains("clocks"), "{action}");
}

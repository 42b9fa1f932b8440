//! Hosts that stand still one after the other, each once: nobody's pause is much of the job, and all of them are.

use crate::run::{Answer, answer_of, options};
use hta_testkit::{Call, TraceBuilder, us};

const RANKS: u32 = 8;
/// Length of a step without a pause, and of a pause, us.
const STEP: i64 = 20_000;
const PAUSE: i64 = 1_200;

/// In each step another rank stands still in an operator that calls nothing: the first rank in its first event of that
/// name.
///
/// ```text
///   host      |view............|view|mm|view|mm|...   |wait......|
///   stream 7                        [gemm..][gemm..]....[gemm..]
/// ```
fn job(pause: i64) -> Answer {
    let trace = |rank: u32| {
        let mut t = TraceBuilder::new().rank(rank).world(RANKS).device("NVIDIA H100", 132);
        let mut main = t.thread(1);
        let mut at = 0;
        for step in 0..RANKS {
            let start = at;
            let name = if rank.is_multiple_of(2) { "aten::view" } else { "aten::t" };
            at += 10 + if step == rank { pause } else { 0 };
            main.op(name, us(start + 5)..us(at));
            for k in 0..10 {
                let (call, runs) = (at + 20 * k, at + 30 + 1_950 * k);
                main.op(name, us(call + 1)..us(call + 5));
                main.op("aten::mm", us(call + 6)..us(call + 16));
                main.launch(us(call + 8)..us(call + 14)).kernel("gemm", 7, us(runs)..us(runs + 1_949));
            }
            main.call(Call::DeviceSync, us(at + 300)..us(at + 19_540));
            at += STEP - 10;
            main.step(u64::from(step), us(start)..us(at - 1));
        }
        t
    };
    answer_of(&(0..RANKS).map(trace).collect::<Vec<_>>(), &options())
}

#[test]
fn pauses_of_all_ranks_in_turn_are_one_cause_of_all_ranks() {
    let found = job(PAUSE).rows_where("findings", |r| r.text("kind") == "host_pause");
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].text("ranks"), "0,1,2,3,4,5,6,7", "{found:?}");
    assert!(found[0].text("sentence").ends_with("each time on another rank"), "{found:?}");
    // Their events take 5 us without the pause.
    assert_eq!(found[0].int("owned_ns"), us(i64::from(RANKS) * (PAUSE + 5)), "{found:?}");
}

#[test]
fn without_pauses_no_host_stands_still() {
    let found = job(0).rows_where("findings", |r| r.text("kind") == "host_pause");
    assert!(found.is_empty(), "{found:?}");
}

//! Ranks whose hosts do the same as long as those that own a cause belong to it; other code of theirs does not count.

use crate::run::{Answer, answer_of, options};
use hta_testkit::{Call, TraceBuilder, us};

const STEPS: u64 = 6;
const PERIOD: i64 = 10_060;
/// The step in which some ranks save.
const SAVED: u64 = 3;

/// A step computes for 10 ms, while its host evaluates. Then, in one step, the hosts of some ranks save.
///
/// ```text
///   host      |ls|evaluate......|wait.......|save_checkpoint....|ls|
///   stream 7    [gemm.......................]                      [gemm...
/// ```
fn job(savers: &[u32]) -> Answer {
    let trace = |rank: u32| {
        let mut t = TraceBuilder::new().rank(rank).world(4).device("NVIDIA H100", 132);
        let mut main = t.thread(1);
        let mut at = 0;
        for step in 0..STEPS {
            main.launch(us(at + 10)..us(at + 20)).kernel("gemm", 7, us(at + 30)..us(at + 10_030));
            main.annotation("evaluate", us(at + 100)..us(at + 4_100));
            main.call(Call::DeviceSync, us(at + 4_200)..us(at + 10_040));
            let start = at;
            at += PERIOD;
            if step == SAVED {
                if savers.contains(&rank) {
                    main.annotation("save_checkpoint", us(at + 5)..us(at + 3_000));
                }
                at += 3_050;
            }
            main.step(step, us(start)..us(at - 5));
        }
        t
    };
    answer_of(&(0..4).map(trace).collect::<Vec<_>>(), &options())
}

#[test]
fn ranks_that_run_other_code_do_not_join_those_that_save() {
    for savers in [&[1, 2][..], &[0, 1, 2, 3]] {
        let found = job(savers).rows_where("findings", |r| r.text("key") == "save_checkpoint");
        let names: Vec<String> = savers.iter().map(u32::to_string).collect();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].text("ranks"), names.join(","), "{found:?}");
    }
}

//! A rank whose kernels behind the last collective of a step take longer: its host waits for them, so the next step
//! begins later.

use crate::run::{answer_of, options};
use hta_testkit::{Call, Collective, TraceBuilder, us};

const RANKS: u32 = 4;
const LATE: u32 = 2;
const STEPS: u64 = 8;
/// Length of the last kernel of a step, us, and by how much it takes longer on the late rank.
const UPDATE: i64 = 100;
const LONGER: i64 = 500;

/// ```text
///   host       |load|launch|   |launch|wait...........|load|launch|
///   stream 7               [gemm]           [update...]           [gemm]
///   stream 20                    [allreduce]
/// ```
#[test]
fn a_rank_that_is_slower_behind_the_last_collective_delays_the_next_step() {
    let mut traces: Vec<TraceBuilder> =
        (0..RANKS).map(|r| TraceBuilder::new().rank(r).world(RANKS).device("NVIDIA H100", 132)).collect();
    let mut at = vec![0; RANKS as usize];
    for step in 0..STEPS {
        let end = at.iter().max().unwrap() + 1_310 + 50;
        for (rank, (t, at)) in (0u32..).zip(traces.iter_mut().zip(&mut at)) {
            let (start, mut main) = (*at, t.thread(1));
            let update = end + 1 + UPDATE + if rank == LATE { LONGER } else { 0 };
            main.op("load", us(start + 1)..us(start + 300));
            main.launch(us(start + 301)..us(start + 306)).kernel(
                "gemm",
                7,
                us(start + 310)..us(start + 1_310),
            );
            let c = Collective::all_reduce(1_000_000, "Float").group("0", "default_pg", 0..RANKS).seq(step);
            main.nccl(&c, us(start + 320)..us(start + 330), 20, us(start + 1_310)..us(end));
            main.launch(us(start + 340)..us(start + 345)).kernel("update", 7, us(end + 1)..us(update));
            main.call(Call::DeviceSync, us(start + 350)..us(update + 5));
            *at = update + 10;
            main.step(step, us(start)..us(*at - 1));
        }
    }
    let answer = answer_of(&traces, &options());
    let found = answer.rows_where("findings", |r| r.text("kind") == "straggler");
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].text("ranks"), LATE.to_string());
    assert!(
        found[0].text("detail").contains("kernel `update` takes 600 us, on the others 100 us"),
        "{found:?}"
    );
    // All but the first step begin later, and the last one ends later.
    let (gain, least) = (found[0].int("recoverable_ns"), us((STEPS as i64 - 1) * LONGER));
    assert!((least..=least + us(LONGER)).contains(&gain), "{gain} of {least}");
}

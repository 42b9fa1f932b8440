//! A rank whose launches take longer: its device idles while its host is in code that all hosts run as long.

use crate::run::{Answer, answer_of, options};
use hta_testkit::{Call, Collective, TraceBuilder, us};

const RANKS: u32 = 4;
const LATE: u32 = 2;
const STEPS: u64 = 8;
const KERNELS: i64 = 20;

/// In each step a host launches kernels of 100 us, with time between the launches in which no event is open. A kernel
/// starts before its launch has returned. `launch` and `between`: their lengths on the late rank, us.
///
/// ```text
///   late      |launch.....|           |launch.....|          |nccl|wait.....|
///   stream 7     [gemm..........].......[gemm..........]
///   stream 20                                                     [allreduce]
/// ```
fn job(launch: i64, between: i64) -> Answer {
    let lengths = |rank: u32| if rank == LATE { (launch, between) } else { (10, 60) };
    // When the kernels of a rank have ended, us behind the start of a step.
    let starts = |rank: u32| {
        let (launch, between) = lengths(rank);
        let mut free = 0;
        let kernel = move |k: i64| {
            let call = 5 + k * (launch + between);
            let start = free.max(call + 5);
            free = start + 101;
            (call, start)
        };
        (0..KERNELS).map(kernel).collect::<Vec<_>>()
    };
    let ready =
        |rank: u32| starts(rank).last().map_or(0, |(call, start)| (start + 101).max(call + launch + 20));
    let end = (0..RANKS).map(ready).max().unwrap_or(0) + 50;
    let trace = |rank: u32| {
        let mut t = TraceBuilder::new().rank(rank).world(RANKS).device("NVIDIA H100", 132);
        let mut main = t.thread(1);
        for step in 0..STEPS {
            let at = step as i64 * (end + 30);
            let mut host = at;
            for (call, start) in starts(rank) {
                host = at + call + lengths(rank).0;
                main.launch(us(at + call)..us(host)).kernel("gemm", 7, us(at + start)..us(at + start + 100));
            }
            let c = Collective::all_reduce(1_000_000, "Float").group("0", "default_pg", 0..RANKS).seq(step);
            main.nccl(&c, us(host + 5)..us(host + 15), 20, us(at + ready(rank))..us(at + end));
            main.call(Call::DeviceSync, us(host + 20)..us(at + end + 5));
            main.step(step, us(at)..us(at + end + 10));
        }
        t
    };
    answer_of(&(0..RANKS).map(trace).collect::<Vec<_>>(), &options())
}

/// What is told of the late rank.
fn told(answer: &Answer) -> String {
    let found = answer.rows_where("findings", |r| r.text("kind") == "straggler");
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].text("ranks"), LATE.to_string(), "{found:?}");
    found[0].text("detail").to_string()
}

#[test]
fn what_a_host_does_longer_is_the_reason_and_not_what_its_device_idles_under() {
    let answer = job(60, 60);
    let detail = told(&answer);
    assert!(detail.contains("because its host takes longer in launch calls"), "{detail}");
    assert!(!detail.contains("not recorded"), "{detail}");
    let causes = answer.rows_where("straggler_causes", |r| r.int("rank") == i64::from(LATE));
    assert!(causes.iter().any(|r| r.text("cause") == "host_behind"), "{causes:?}");
}

#[test]
fn code_that_was_not_recorded_is_the_reason_if_a_host_is_longer_in_it() {
    let detail = told(&job(10, 110));
    assert!(detail.contains("in code that was not recorded"), "{detail}");
}

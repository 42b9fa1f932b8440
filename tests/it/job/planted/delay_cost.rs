//! Who is charged with the waiting of others: a delay that one group passes on to another, computed by hand.

use super::groups::{own_groups, tp_dp};
use super::job::{Job, all_reduce, kernel};
use super::recording::Recording;
use super::simulate::simulate;
use crate::run::Answer;
use hta_testkit::{ms, us};

/// Direct and propagated cost of a rank, ns.
fn cost(answer: &Answer, rank: i64) -> (i64, i64) {
    let rows = answer.rows_where("delay_cost", |r| r.int("rank") == rank);
    (rows.iter().map(|r| r.int("direct_ns")).sum(), rows.iter().map(|r| r.int("propagated_ns")).sum())
}

/// Pairs {0, 1} and {2, 3} exchange first, then {0, 2} and {1, 3}. Rank 0 computes 10 ms longer before the first, rank 1
/// 2 ms longer before the second. Rank 1 waits 10 ms for 0; then 2 waits 10 for 0, and 3 waits 12 for 1, of which 1 has
/// worked 2 itself and waited 10 for 0.
#[test]
fn a_delay_is_charged_to_the_rank_where_it_began() {
    let program = |rank: u32, _: u64| {
        let (tensor, data) = own_groups(4, 2, rank);
        let more = |of: u32, ns: i64| if rank == of { ns } else { 0 };
        vec![
            kernel("gemm", ms(1) + more(0, ms(10))),
            all_reduce(tensor, 65_536, us(20)),
            kernel("gemm", ms(1) + more(1, ms(2))),
            all_reduce(data, 65_536, us(20)),
        ]
    };
    let answer = Recording::full().answer(&simulate(&Job::new(4, 1, &program).groups(tp_dp(4, 2))));
    // The simulated ranks launch with delays of some microseconds.
    let known = [(ms(20), ms(10)), (ms(2), 0), (0, 0), (0, 0)];
    for (rank, (direct, propagated)) in (0i64..).zip(known) {
        let found = cost(&answer, rank);
        let near = |a: i64, b: i64| (a - b).abs() < us(50);
        assert!(near(found.0, direct) && near(found.1, propagated), "rank {rank}: {found:?}");
    }
    let waits: i64 = answer.rows("collectives").iter().map(|r| r.int("wait_ns")).sum();
    let charged: i64 = (0..4).map(|r| cost(&answer, r)).map(|(direct, propagated)| direct + propagated).sum();
    assert_eq!(charged, waits);
    assert!((waits - ms(32)).abs() < us(100));
}

//! Ranks that are late because another group delayed them are not named; the rank that caused the delay is.

use super::groups::{own_groups, tp_dp};
use super::job::{Job, about, all_reduce, kernel};
use super::late::{check_delays, one};
use super::recording::Recording;
use super::simulate::simulate;
use super::truth::{gain_of_repair, within};
use hta_testkit::{Collective, TraceBuilder, ms, us};
use std::ops::Range;

/// Rank 3 is late in its pair {2, 3}; rank 2 comes last to {0, 2, 4, 6} without having worked longer.
#[test]
fn a_rank_held_up_by_another_group_is_not_named() {
    let program = |late: i64| {
        move |rank: u32, step: u64| {
            let (tensor, data) = own_groups(8, 2, rank);
            let extra = if rank == 3 { late } else { us(50) };
            vec![
                kernel("gemm", about(us(900), 3, rank, step, 1)),
                kernel("extra", extra),
                all_reduce(tensor, 65_536, us(20)),
                kernel("gemm", about(us(1_100), 3, rank, step, 2)),
                all_reduce(data, 500_000, us(180)),
            ]
        }
    };
    let simulated = |late| simulate(&Job::new(8, 8, &program(late)).groups(tp_dp(8, 2)));
    let job = simulated(ms(2));
    let answer = Recording::full().answer(&job);
    let row = one(&answer);
    assert_eq!((row.text("pattern"), row.text("ranks"), row.int("late_step_count")), ("persistent", "3", 8));
    assert_eq!((row.text("cause"), row.text("cause_name")), ("slow_kernel", "extra"));
    // The repaired rank is given the work of the typical rank, which differs from its own by 3 % of each kernel.
    within("gain", row.int("gain_sum_ns"), gain_of_repair(&job, &simulated(us(50))), 2);
    check_delays(&answer, &job);
    // Nevertheless it came last in its data-parallel group.
    let late = |r: &crate::run::Record| r.int("rank") == 2 && r.text("process_group").contains("dp");
    let rows = answer.rows_where("straggler_delays", late);
    assert!(rows.len() == 8 && rows.iter().all(|r| r.int("gain_ns") > ms(1) && r.int("excess_ns") < us(100)));
}

/// One rank's step, planned by hand: what runs on the device at which time.
struct Plan {
    trace: TraceBuilder,
    host: i64,
}

impl Plan {
    fn kernel(&mut self, name: &str, run: Range<i64>) {
        self.trace.thread(1).launch(self.host..self.host + us(4)).kernel(name, 7, run);
        self.host += us(6);
    }

    fn all_reduce(&mut self, name: &str, ranks: [u32; 2], stream: i64, run: Range<i64>) {
        let c = Collective::all_reduce(10_000, "Float")
            .group(name, "undefined", ranks)
            .detail(Default::default());
        self.trace.thread(1).nccl(&c, self.host..self.host + us(12), stream, run);
        self.host += us(14);
    }
}

/// Pairs {0, 1} and {2, 3} in `x`, {0, 2} and {1, 3} in `s` and `a`; `d` differs from step to step.
///
/// ```text
/// us      1000  1200 1500              5000  5200  5500  6000
/// rank 3         [s  ][slow............][x.........]
///                                             [fuse......][a
/// rank 2  [x.....[s  ]..waiting.........|transfer  ]
///                                             [fuse......][a     excess over 0: held up by 3
/// rank 0  [x.....[s  ]..|transfer]
///                          [fuse.....][a..................       1800 and 2600
/// ```
#[test]
fn waiting_in_another_group_is_a_cause_with_its_origin() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let steps: Vec<(u64, i64)> = (0..4).map(|s| (s, us(37) * (s as i64 + 1) + 11 * s as i64)).collect();
    let write = |rank: u32| {
        let trace = TraceBuilder::new().rank(rank).world(4).device("NVIDIA H100", 132);
        let mut p = Plan { trace, host: 0 };
        for &(step, d) in &steps {
            let s = ms(10) * step as i64;
            let at = |a: i64, b: i64| s + us(a)..s + us(b);
            let later = |a: i64, b: i64| s + us(a) + d..s + us(b) + d;
            p.host = s + us(5);
            p.trace.thread(1).step(step, s..s + ms(9));
            let x = if rank < 2 { [0, 1] } else { [2, 3] };
            let other = [rank % 2, rank % 2 + 2];
            let is_held = rank >= 2;
            p.kernel("gemm", at(300, 1_000));
            if rank.is_multiple_of(2) {
                let end = if is_held { later(0, 5_500).end } else { at(0, 2_100).end };
                p.all_reduce("x", x, 21, s + us(1_000)..end);
                p.all_reduce("sa", other, 22, at(1_200, 1_500));
            } else {
                p.all_reduce("sa", other, 22, at(1_200, 1_500));
                let slow = if is_held { s + us(1_500)..s + us(4_990) + d } else { at(1_500, 1_590) };
                p.kernel("slow", slow);
                p.all_reduce("x", x, 21, if is_held { later(5_000, 5_500) } else { at(1_600, 2_100) });
            }
            p.kernel("fuse", if is_held { later(5_200, 6_000) } else { at(1_800, 2_600) });
            let end = later(0, 6_300).end;
            let start = if is_held { later(6_000, 0).start } else { at(2_600, 0).start };
            p.all_reduce("sa", other, 22, start..end);
        }
        let path = folder.path().join(format!("rank_{rank}.json"));
        std::fs::write(&path, p.trace.to_json()).expect("a temporary file can be written");
        path
    };
    let paths: Vec<_> = (0..4).map(write).collect();
    let answer = crate::run::answer(&paths, &crate::run::options());
    for &(step, d) in &steps {
        let of = |rank: i64, group: &'static str| {
            let keep = move |r: &crate::run::Record| {
                r.int("rank") == rank
                    && r.int("step_label") == step as i64
                    && r.text("process_group") == group
            };
            (answer.rows_where("straggler_delays", keep), answer.rows_where("straggler_causes", keep))
        };
        let (delays, causes) = of(2, "sa (undefined) [0, 2]");
        let (delays, causes) = if delays.is_empty() { of(2, "sa [0, 2]") } else { (delays, causes) };
        assert_eq!(delays.len(), 1);
        let excess = us(3_400) + d;
        assert_eq!((delays[0].int("gain_ns"), delays[0].int("excess_ns")), (excess, excess), "step {step}");
        let found: Vec<(&str, Option<i64>, i64)> =
            causes.iter().map(|r| (r.text("cause"), r.opt_int("origin_rank"), r.int("delta_ns"))).collect();
        let expected = [("earlier_wait", Some(3), us(3_500) + d), ("earlier_wait", Some(1), -us(100))];
        assert_eq!(found, expected, "step {step}");
    }
    let named: Vec<String> = answer.rows("stragglers").iter().map(|r| r.0.to_string()).collect();
    // What rank 2 fuses starts before its transfer has ended, so nothing shows that it, too, would start earlier if rank 3
    // came earlier: the replay gains only if both are repaired.
    assert!(
        named.iter().any(|r| r.contains(r#""ranks":"2, 3""#)),
        "{named:?} {:?}",
        answer.notes("stragglers")
    );
}

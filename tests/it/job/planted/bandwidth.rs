//! Sizes by kind, and the two bandwidths, of collectives made by hand.
//!
//! ```text
//! rank 0..2   [wait......|transfer]
//! rank 3                 [transfer]      the last one: t
//! ```

use super::job::{Action, Job, Join, Kind, about, kernel};
use super::recording::Recording;
use super::simulate::simulate;
use crate::run::Record;
use hta_testkit::{Collective, TraceBuilder, us};

const N: u32 = 4;

/// Three steps with one collective of a kind, with transfers of 100, 200 and 600 us; its row of the summary.
fn summary(kind: Kind, elements: u64) -> Record {
    let program = |rank: u32, step: u64| {
        let transfer = [us(100), us(200), us(600)][step as usize - 10];
        let join = Join::new(0, kind, elements, transfer);
        vec![kernel("gemm", about(us(500), 50, rank, step, 1)), Action::Join(join)]
    };
    let answer = Recording::full().answer(&simulate(&Job::new(N, 3, &program)));
    let mut rows = answer.rows("collective_summary");
    assert_eq!(rows.len(), 1, "{rows:?}");
    rows.remove(0)
}

#[test]
fn sizes_and_bandwidths_follow_the_kind() {
    // Elements of one member's share or buffer; bytes that count; bus over algorithm bandwidth for 4 members.
    let cases = [
        (Kind::AllReduce, 1_000_000, 4_000_000, 1.5),
        (Kind::AllGather, 250_000, 4_000_000, 0.75),
        (Kind::ReduceScatter, 250_000, 4_000_000, 0.75),
        (Kind::AllToAll, 1_000_000, 4_000_000, 0.75),
        (Kind::Broadcast, 1_000_000, 4_000_000, 1.0),
        (Kind::Reduce, 1_000_000, 4_000_000, 1.0),
    ];
    for (kind, elements, bytes, factor) in cases {
        let row = summary(kind, elements);
        assert_eq!((row.text("kind"), row.int("size_bytes")), (kind.name(), bytes), "{}", row.0);
        assert_eq!(
            (row.int("count"), row.int("complete_count"), row.int("member_count")),
            (3, 3, 4),
            "{}",
            row.0
        );
        let transfers = ["transfer_sum_ns", "transfer_p50_ns", "transfer_p95_ns"].map(|c| row.int(c));
        assert_eq!(transfers, [us(900), us(200), us(600)], "{}", row.0);
        // 3 x 4 MB in 0.9 ms
        let algorithm = 3.0 * bytes as f64 / us(900) as f64;
        let near = |column: &str, expected: f64| {
            let got = row.float(column).unwrap_or_else(|| panic!("no {column} in {}", row.0));
            assert!((got - expected).abs() < 1e-9 * expected, "{column} {got} {expected}");
        };
        near("alg_bw_gb_per_s", algorithm);
        near("bus_bw_gb_per_s", algorithm * factor);
    }
}

#[test]
fn a_barrier_has_no_size_and_no_bandwidth() {
    let row = summary(Kind::Barrier, 1);
    assert_eq!((row.text("kind"), row.opt_int("size_bytes")), ("barrier", None));
    assert_eq!((row.float("alg_bw_gb_per_s"), row.float("bus_bw_gb_per_s")), (None, None));
    assert_eq!(row.int("transfer_sum_ns"), us(900));
}

/// Ranks send 10, 20, 30 and 40 elements: the instance has the largest size, each rank its own.
#[test]
fn uneven_splits_count_by_the_largest_member() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let write = |rank: u32| {
        let mut t = TraceBuilder::new().rank(rank).world(N).device("NVIDIA H100", 132);
        let c = Collective::new("all_to_allv", 10 * (u64::from(rank) + 1), "Float")
            .group("0", "default_pg", 0..N)
            .seq(1);
        let start = us(100) + us(10) * i64::from(rank);
        t.thread(1).nccl(&c, us(20)..us(40), 20, start..us(180));
        let path = folder.path().join(format!("rank_{rank}.json"));
        std::fs::write(&path, t.to_json()).expect("a temporary file can be written");
        path
    };
    let paths: Vec<_> = (0..N).map(write).collect();
    let answer = crate::run::answer(&paths, &crate::run::options());
    let sizes: Vec<i64> = answer.rows("collectives").iter().map(|r| r.int("size_bytes")).collect();
    assert_eq!(sizes, [40, 80, 120, 160]);
    let summary = answer.rows("collective_summary");
    assert_eq!((summary.len(), summary[0].int("size_bytes")), (1, 160));
    // The last one starts at 130 us: 160 bytes in 50 us.
    assert_eq!(summary[0].int("transfer_sum_ns"), us(50));
    assert!((summary[0].float("alg_bw_gb_per_s").expect("a rate") - 160.0 / 50_000.0).abs() < 1e-12);
    assert_eq!(summary[0].int("start_skew_max_ns"), us(30));
}

/// Collectives that are implausible because of a wrong clock are counted and excluded from rates.
#[test]
fn a_collective_that_ends_before_the_last_arrival_has_no_bandwidth() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let spans = [(us(100), us(200)), (us(110), us(200)), (us(230), us(260))];
    let write = |(rank, (start, end)): (usize, &(i64, i64))| {
        let mut t = TraceBuilder::new().rank(rank as u32).world(3).device("NVIDIA H100", 132);
        let c = || Collective::all_reduce(1_000, "Float").group("0", "default_pg", 0..3);
        t.thread(1).nccl(&c().seq(1), us(20)..us(40), 20, *start..*end);
        // No offset of a clock explains both: the ends of this one agree.
        t.thread(1).nccl(&c().seq(2), us(280)..us(290), 20, us(300)..us(390));
        let path = folder.path().join(format!("rank_{rank}.json"));
        std::fs::write(&path, t.to_json()).expect("a temporary file can be written");
        path
    };
    let paths: Vec<_> = spans.iter().enumerate().map(write).collect();
    let answer = crate::run::answer(&paths, &crate::run::options());
    let rows = answer.rows_where("collectives", |r| r.opt_int("seq") == Some(1));
    assert_eq!(rows.iter().map(|r| r.int("wait_ns")).collect::<Vec<_>>(), [us(100), us(90), 0]);
    let impossible: Vec<bool> = rows.iter().map(|r| r.cell("ends_before_last_arrival") == true).collect();
    assert_eq!(impossible, [true, true, false]);
    let summary = answer.rows("collective_summary");
    assert_eq!((summary[0].int("count"), summary[0].int("complete_count")), (2, 1));
    assert_eq!(answer.rows("process_groups")[0].int("end_before_last_arrival_count"), 1);
}

/// One of two ranks has no trace: the waiting time of the other is unknown.
#[test]
fn waiting_in_collectives_that_nothing_matched_is_unknown_not_zero() {
    let mut t = TraceBuilder::new().rank(0).world(2);
    let c = Collective::all_reduce(1 << 20, "Float").group("0", "default_pg", [0, 1]).seq(1);
    t.thread(1).nccl(&c, us(0)..us(20), 9, us(30)..us(90));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("rank_0.json");
    std::fs::write(&path, t.to_json()).expect("a trace is written");
    let answer = crate::run::answer(&[path], &crate::run::options());
    let sums = answer.rows("collective_summary");
    assert_eq!((sums[0].opt_int("wait_sum_ns"), sums[0].int("unmatched_sum_ns")), (None, us(60)));
    let ranks = answer.rows("collective_ranks");
    assert_eq!((ranks[0].opt_int("wait_sum_ns"), ranks[0].opt_int("transfer_sum_ns")), (None, None));
    assert!(sums[0].cell("wait_pct").is_null());
}

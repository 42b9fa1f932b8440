//! Why a rank is late: planted causes are found by name and to the nanosecond, and all causes sum to the excess.

use super::job::{Action, about, forward, kernel};
use super::late::{hta_group, of_rank, one, plain, simulated};
use super::recording::Recording;
use super::simulate::Simulated;
use super::truth::{Late, lates};
use crate::run::{Answer, Record};
use hta_testkit::{ms, us};
use std::collections::BTreeMap;

/// Causes of one rank by step and group sum to its excess there; every late step has some.
fn check_sums(answer: &Answer, job: &Simulated) {
    let mut sums: BTreeMap<(i64, i64, String), i64> = BTreeMap::new();
    for r in answer.rows("straggler_causes") {
        assert_eq!(r.int("delta_ns"), r.int("own_ns") - r.int("typical_ns"));
        *sums
            .entry((r.int("rank"), r.int("step_label"), r.text("process_group").to_string()))
            .or_default() += r.int("delta_ns");
    }
    let mut late = 0;
    for l in lates(job).iter().filter(|l| l.own_gain() > 0) {
        let key = (i64::from(l.rank), l.step as i64, hta_group(&job.groups[l.key.group]));
        assert_eq!(sums.get(&key), Some(&l.excess), "{key:?}");
        late += 1;
    }
    assert!(late > 0);
}

/// The part of the excess that kernels of one name contribute.
fn of_kernel(job: &Simulated, late: &Late, name: &str) -> i64 {
    let typical =
        lates(job).into_iter().find(|l| l.key == late.key && l.rank == late.typical).expect("it is a member");
    job.kernels(late.rank, name, &late.window).0 - job.kernels(typical.rank, name, &typical.window).0
}

fn causes(answer: &Answer, rank: i64, cause: &str, name: &str) -> Vec<Record> {
    answer.rows_where("straggler_causes", |r| {
        r.int("rank") == rank && r.text("cause") == cause && r.text("name") == name
    })
}

/// The finding names a rank, a cause and its name.
fn check_main(row: &Record, rank: &str, cause: &str, name: &str) {
    assert_eq!((row.text("pattern"), row.text("ranks")), ("persistent", rank), "{}", row.0);
    assert_eq!((row.text("cause"), row.text("cause_name")), (cause, name), "{}", row.0);
}

#[test]
fn a_slow_kernel_is_named() {
    let program = |rank: u32, step: u64| {
        plain(
            rank,
            step,
            vec![kernel("softmax", if rank == 5 { ms(2) } else { about(us(300), 5, rank, step, 60) })],
        )
    };
    let job = simulated(&program);
    let answer = Recording::full().answer(&job);
    let row = one(&answer);
    check_main(&row, "5", "slow_kernel", "softmax");
    let planted: i64 = of_rank(&job, 5).iter().map(|l| of_kernel(&job, l, "softmax")).sum();
    assert_eq!(row.int("cause_ns"), planted);
    check_sums(&answer, &job);
}

#[test]
fn more_kernels_are_told_from_slow_ones() {
    let program = |rank: u32, step: u64| {
        let n = if rank == 2 { 6 } else { 2 };
        plain(
            rank,
            step,
            (0..n).map(|i| kernel("scatter_add", about(us(450), 2, rank, step, 60 + i))).collect(),
        )
    };
    let job = simulated(&program);
    let answer = Recording::full().answer(&job);
    let row = one(&answer);
    check_main(&row, "2", "other_kernels", "scatter_add");
    let planted: i64 = of_rank(&job, 2).iter().map(|l| of_kernel(&job, l, "scatter_add")).sum();
    assert_eq!(row.int("cause_ns"), planted);
    for r in causes(&answer, 2, "other_kernels", "scatter_add") {
        assert_eq!((r.int("own_count"), r.int("typical_count")), (6, 2));
    }
    check_sums(&answer, &job);
}

#[test]
fn one_factor_on_all_kernels_is_a_slow_device() {
    let slower = |rank: u32, action: Action| match action {
        Action::Kernel { name, dur } if rank == 7 => kernel(name, dur * 6 / 5),
        other => other,
    };
    let program =
        |rank: u32, step: u64| plain(rank, step, Vec::new()).into_iter().map(|a| slower(rank, a)).collect();
    let job = simulated(&program);
    let answer = Recording::full().answer(&job);
    let row = one(&answer);
    check_main(&row, "7", "slow_device", "");
    let names = ["embedding", "attention", "gemm", "norm", "loss"];
    let of = |l: &Late| names.iter().map(|n| of_kernel(&job, l, n)).sum::<i64>();
    let planted: i64 = of_rank(&job, 7).iter().map(of).sum();
    // Kernels vary by 2 % of their length anyway.
    assert!((row.int("cause_ns") - planted).abs() * 10 <= planted, "{planted} {}", row.0);
    check_sums(&answer, &job);
}

#[test]
fn a_host_in_its_data_loader_is_named() {
    let program = |rank: u32, step: u64| {
        let mut actions = vec![Action::Loader(if rank == 1 { ms(3) } else { us(500) })];
        actions.extend(plain(rank, step, Vec::new()));
        actions
    };
    let job = simulated(&program);
    let answer = Recording::full().answer(&job);
    let row = one(&answer);
    check_main(&row, "1", "data_loader", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__");
    assert_eq!(row.int("cause_ns"), 8 * us(2_500));
    check_sums(&answer, &job);
}

#[test]
fn a_python_frame_is_named_with_file_and_line() {
    let program = |rank: u32, step: u64| {
        let mut actions = forward(rank, step);
        actions.push(Action::Frame("train.py(42): log_metrics", if rank == 4 { ms(2) } else { us(200) }));
        actions.extend(plain(rank, step, Vec::new()));
        actions
    };
    let job = simulated(&program);
    let answer = Recording::full().answer(&job);
    let row = one(&answer);
    check_main(&row, "4", "python", "train.py(42): log_metrics");
    assert_eq!(row.int("cause_ns"), 8 * us(1_800));
    check_sums(&answer, &job);
}

#[test]
fn two_causes_at_once_are_both_said() {
    let program = |rank: u32, step: u64| {
        let mut actions = vec![Action::Loader(if rank == 4 { ms(2) } else { us(500) })];
        let slow = if rank == 4 { us(1_300) } else { about(us(300), 5, rank, step, 60) };
        actions.extend(plain(rank, step, vec![kernel("softmax", slow)]));
        actions
    };
    let job = simulated(&program);
    let answer = Recording::full().answer(&job);
    check_main(
        &one(&answer),
        "4",
        "data_loader",
        "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
    );
    let late = of_rank(&job, 4);
    let kernels = causes(&answer, 4, "slow_kernel", "softmax");
    assert_eq!((late.len(), kernels.len()), (8, 8));
    for l in &late {
        let row = kernels.iter().find(|r| r.int("step_label") == l.step as i64).expect("a row of the step");
        assert_eq!(row.int("delta_ns"), of_kernel(&job, l, "softmax"));
    }
    let loader =
        causes(&answer, 4, "data_loader", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__");
    assert_eq!(loader.iter().map(|r| r.int("delta_ns")).sum::<i64>(), 8 * us(1_500));
    check_sums(&answer, &job);
}

/// The typical rank is the member with the median of the others' local times.
#[test]
fn the_late_rank_is_compared_with_the_typical_one() {
    let program = |rank: u32, step: u64| {
        plain(rank, step, vec![kernel("extra", if rank == 3 { ms(2) } else { us(90) })])
    };
    let job = simulated(&program);
    let answer = Recording::full().answer(&job);
    for l in of_rank(&job, 3) {
        let of_step = |r: &Record| r.int("rank") == 3 && r.int("step_label") == l.step as i64;
        let rows = answer.rows_where("straggler_causes", of_step);
        assert!(!rows.is_empty() && rows.iter().all(|r| r.int("typical_rank") == i64::from(l.typical)));
    }
    check_sums(&answer, &job);
}

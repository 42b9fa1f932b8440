//! The plugin's three golden results, computed by hand, and rules that they do not cover.

use crate::tensorboard::plugin_rules::{operator_bytes, steps_of};
use crate::tensorboard::shortest::*;

/// `sum / count` rounded to the nearest whole number, halves to even; 0 if the count is 0.
fn rounded_mean(sum: i64, count: i64) -> i64 {
    if count <= 0 {
        return 0;
    }
    let (down, rest) = (sum.div_euclid(count), sum.rem_euclid(count));
    let up = match rest.cmp(&(count - rest)) {
        std::cmp::Ordering::Less => false,
        std::cmp::Ordering::Equal => down % 2 != 0,
        std::cmp::Ordering::Greater => true,
    };
    down + i64::from(up)
}

fn operator(name: &str, span: PluginRange, kernels: &[PluginRange], elements: i64) -> CollectiveOperator {
    let bytes = operator_bytes(&[vec![elements]], &["float"]).unwrap();
    CollectiveOperator { name: name.to_string(), span, kernels: kernels.to_vec(), bytes, step: Some(0) }
}

fn worker(end: i64, operators: Vec<CollectiveOperator>, compute: &[PluginRange]) -> PluginWorker {
    let communication =
        operators.iter().flat_map(|o| std::iter::once(o.span).chain(o.kernels.clone())).collect();
    PluginWorker {
        operators,
        steps: vec![("0".to_string(), 0, end)],
        compute: compute.to_vec(),
        communication,
    }
}

fn overlap(view: &WorkerView) -> [[i64; 4]; 2] {
    let row = |o: PluginOverlap| [o.compute_only, o.overlap, o.communication_only, o.other];
    [row(view.overlap[0]), row(view.overlap_all)]
}

fn wait(view: &WorkerView) -> [[i64; 2]; 2] {
    assert_eq!(view.wait.len(), 1);
    assert_eq!(view.wait[0].0, Some(0));
    let row = |w: PluginWait| [w.transfer, w.synchronizing];
    [row(view.wait[0].1), row(view.wait_all)]
}

/// [name, calls, bytes, mean bytes, latency, mean latency, transfer, mean transfer], as in the golden results.
fn rows(view: &WorkerView) -> Vec<(&str, [i64; 7])> {
    let row = |t: &CommOpTotals| {
        let mean = |sum| rounded_mean(sum, t.calls);
        [t.calls, t.bytes, mean(t.bytes), t.latency, mean(t.latency), t.transfer, mean(t.transfer)]
    };
    view.operators.iter().map(|t| (t.name.as_str(), row(t))).collect()
}

const BROADCAST: i64 = 53_120;
const ALL_REDUCE: i64 = 2_049_000;

#[test]
fn nccl_golden() {
    let workers = [
        worker(
            235,
            vec![
                operator("nccl:broadcast", (0, 75), &[(16, 32)], BROADCAST),
                operator("nccl:all_reduce", (160, 235), &[(162, 1718)], ALL_REDUCE),
            ],
            &[(130, 291)],
        ),
        worker(
            235,
            vec![
                operator("nccl:broadcast", (0, 20), &[(8, 39)], BROADCAST),
                operator("nccl:all_reduce", (160, 235), &[(562, 1620)], ALL_REDUCE),
            ],
            &[(30, 191)],
        ),
    ];
    let view = shortest(&workers).unwrap();
    assert_eq!(view.names_differ, 0);
    let [a, b] = [&view.workers[0], &view.workers[1]];
    assert_eq!(overlap(a), [[30, 75, 75, 55]; 2]);
    assert_eq!(overlap(b), [[121, 40, 74, 0]; 2]);
    assert_eq!(wait(a), [[1169, 464]; 2]);
    assert_eq!(wait(b), [[1169, 3]; 2]);
    assert_eq!(
        rows(a),
        [
            ("nccl:broadcast", [1, 212_480, 212_480, 75, 75, 36, 36]),
            ("nccl:all_reduce", [1, 8_196_000, 8_196_000, 1558, 1558, 1133, 1133])
        ]
    );
    assert_eq!(
        rows(b),
        [
            ("nccl:broadcast", [1, 212_480, 212_480, 39, 39, 36, 36]),
            ("nccl:all_reduce", [1, 8_196_000, 8_196_000, 1133, 1133, 1133, 1133])
        ]
    );
}

/// The host ranges of the two gloo data sets. They are out of order, because they are recorded per thread.
fn gloo(compute: [&[PluginRange]; 2]) -> [PluginWorker; 2] {
    let operators = |broadcast: [PluginRange; 3], all_reduce: [PluginRange; 2]| {
        let all = all_reduce.into_iter().map(|r| operator("gloo:all_reduce", r, &[], ALL_REDUCE));
        all.chain(broadcast.into_iter().map(|r| operator("gloo:broadcast", r, &[], BROADCAST))).collect()
    };
    [
        worker(156, operators([(16, 54), (25, 61), (66, 84)], [(110, 128), (120, 156)]), compute[0]),
        worker(146, operators([(20, 48), (28, 58), (77, 83)], [(88, 126), (130, 146)]), compute[1]),
    ]
}

fn assert_gloo(view: &DistributedView) {
    let [a, b] = [&view.workers[0], &view.workers[1]];
    assert_eq!(wait(a), [[75, 34]; 2]);
    assert_eq!(wait(b), [[78, 20]; 2]);
    assert_eq!(
        rows(a),
        [
            ("gloo:broadcast", [3, 637_440, 212_480, 63, 21, 41, 14]),
            ("gloo:all_reduce", [2, 16_392_000, 8_196_000, 46, 23, 34, 17])
        ]
    );
    assert_eq!(
        rows(b),
        [
            ("gloo:broadcast", [3, 637_440, 212_480, 44, 15, 44, 15]),
            ("gloo:all_reduce", [2, 16_392_000, 8_196_000, 54, 27, 34, 17])
        ]
    );
}

#[test]
fn gloo_with_gpu_golden() {
    // There is one compute kernel, so aten::add_ on the host does not count as compute.
    let view = shortest(&gloo([&[(30, 131)], &[(70, 140)]])).unwrap();
    assert_eq!(overlap(&view.workers[0]), [[31, 70, 39, 16]; 2]);
    assert_eq!(overlap(&view.workers[1]), [[16, 54, 44, 32]; 2]);
    assert_gloo(&view);
}

#[test]
fn gloo_on_cpu_golden() {
    // Compute is aten::add_ and aten::mul.
    let view = shortest(&gloo([&[(0, 20), (30, 131)], &[(0, 30), (70, 140)]])).unwrap();
    assert_eq!(overlap(&view.workers[0]), [[47, 74, 35, 0]; 2]);
    assert_eq!(overlap(&view.workers[1]), [[36, 64, 34, 12]; 2]);
    assert_gloo(&view);
}

#[test]
fn waits_are_never_negative_where_a_kernel_runs_below_its_operator() {
    let w = worker(75, vec![operator("nccl:all_reduce", (0, 75), &[(10, 60)], 1)], &[]);
    let view = shortest(&[w.clone(), w]).unwrap();
    assert_eq!(wait(&view.workers[0]), [[75, 0]; 2]);
}

#[test]
fn transfer_is_the_union_of_the_last_parts() {
    let of = |a, b| {
        worker(200, vec![operator("gloo:all_reduce", a, &[], 1), operator("gloo:broadcast", b, &[], 1)], &[])
    };
    let view = shortest(&[of((0, 100), (50, 120)), of((90, 100), (110, 180))]).unwrap();
    assert_eq!(wait(&view.workers[0]), [[70, 50]; 2]);
    assert_eq!(wait(&view.workers[1]), [[80, 0]; 2]);
    // A row by name contains only the ranges of that name.
    assert_eq!(view.workers[0].operators.iter().map(|t| t.latency).collect::<Vec<_>>(), [100, 70]);
}

#[test]
fn disagreement_is_said() {
    let one = |n: usize| PluginWorker {
        operators: vec![operator("gloo:reduce", (0, 1), &[], 1); n],
        ..worker(1, vec![], &[])
    };
    let err = shortest(&[one(3), one(3), one(2)]).unwrap_err();
    assert_eq!(err, "numbers of collective operators differ: 3 (worker 0), 3 (worker 1), 2 (worker 2)");
    assert_eq!(shortest(&[one(1), one(0)]).unwrap_err(), "worker 1 has no collective operator");
    assert_eq!(shortest(&[]).unwrap_err(), "no worker");
    let with = |n: usize| worker(9, vec![operator("nccl:reduce", (0, 1), &vec![(2, 3); n], 1)], &[]);
    let err = shortest(&[with(1), with(2)]).unwrap_err();
    assert_eq!(
        err,
        "numbers of kernels of collective operator 0 (nccl:reduce) differ: 1 (worker 0), 2 (worker 1)"
    );
}

#[test]
fn bad_ranges_are_refused() {
    let of = |r: PluginRange| worker(9, vec![operator("gloo:reduce", r, &[], 1)], &[]);
    for bad in [(2, 1), (i64::MIN, 0), (0, i64::MAX)] {
        assert!(
            shortest(&[of(bad)]).unwrap_err().starts_with("worker 0: operator 0 (gloo:reduce) has the range")
        );
    }
    let mut outside = of((0, 1));
    outside.operators[0].step = Some(1);
    assert!(shortest(&[outside]).is_err());
    let mut inverted = of((0, 1));
    inverted.compute = vec![(5, 4)];
    assert!(shortest(&[inverted]).unwrap_err().contains("compute"));
    let mut heavy = of((0, 1));
    heavy.operators.push(CollectiveOperator { bytes: i64::MAX, ..heavy.operators[0].clone() });
    assert!(shortest(&[heavy]).unwrap_err().contains("bytes"));
}

#[test]
fn names_are_not_compared_but_counted() {
    let of = |name| worker(9, vec![operator(name, (0, 4), &[], 1)], &[]);
    assert_eq!(shortest(&[of("gloo:reduce"), of("gloo:broadcast")]).unwrap().names_differ, 1);
}

#[test]
fn steps_and_their_mean() {
    let mut w = worker(0, vec![], &[(0, 5), (20, 21)]);
    w.steps = vec![("7".into(), 0, 10), ("8".into(), 10, 25), ("7".into(), 25, 30)];
    let spans = [(1, 3), (9, 11), (12, 13), (26, 29), (40, 41)];
    assert_eq!(steps_of(&spans, &w.steps), [Some(0), None, Some(1), Some(2), None]);
    for (span, step) in spans.iter().zip(steps_of(&spans, &w.steps)) {
        w.operators.push(CollectiveOperator { step, ..operator("gloo:reduce", *span, &[], 1) });
        w.communication.push(*span);
    }
    let view = shortest(&[w.clone(), w]).unwrap();
    let v = &view.workers[0];
    // The two operators outside every step form a group; the two steps named 7 are merged.
    let transfers: Vec<_> = v.wait.iter().map(|(s, w)| (*s, w.transfer)).collect();
    assert_eq!(transfers, [(Some(0), 5), (None, 3), (Some(1), 1)]);
    assert_eq!(v.wait_all, PluginWait { transfer: 3, synchronizing: 0 });
    assert_eq!(v.overlap[0], PluginOverlap { compute_only: 3, overlap: 2, communication_only: 1, other: 4 });
    assert_eq!(v.overlap[1], PluginOverlap { compute_only: 1, overlap: 0, communication_only: 2, other: 12 });
    assert_eq!(v.overlap[2], PluginOverlap { compute_only: 0, overlap: 0, communication_only: 3, other: 2 });
    // 4 / 3, 2 / 3, 6 / 3, 18 / 3, truncated.
    assert_eq!(v.overlap_all, PluginOverlap { compute_only: 1, overlap: 0, communication_only: 2, other: 6 });
}

#[test]
fn bytes_and_means() {
    assert_eq!(operator_bytes(&[vec![2, 3], vec![]], &["c10::Half", "long int"]), Some(20));
    assert_eq!(operator_bytes(&[vec![5], vec![7]], &["double", "unsigned char"]), Some(7));
    assert_eq!(operator_bytes(&[], &[]), Some(0));
    assert_eq!(operator_bytes(&[vec![1]], &[]), None);
    assert_eq!(operator_bytes(&[vec![i64::MAX]], &["float"]), None);
    let means = [(1, 2), (3, 2), (5, 2), (41, 3), (44, 3), (-1, 2), (-3, 2), (7, 0)];
    assert_eq!(means.map(|(s, n)| rounded_mean(s, n)), [0, 2, 2, 14, 15, 0, -2, 0]);
    assert_eq!(rounded_mean(i64::MAX, 1), i64::MAX);
}

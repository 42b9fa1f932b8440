//! Source lines against answers that an independent script computed from the traces.

use crate::analyses::lines::{lines, place, with};
use crate::run::{Answer, Record, options};
use crate::shared;
use std::collections::{BTreeMap, BTreeSet};

/// Capture rows by place.
fn by_place<const N: usize>(answer: &Answer, rank: i64, columns: [&str; N]) -> BTreeMap<String, [i64; N]> {
    let rows = answer.rows_where("lines", |r| r.int("rank") == rank && r.text("scope") == "capture");
    rows.iter().map(|r| (place(r), columns.map(|c| r.opt_int(c).unwrap_or(0)))).collect()
}

/// Number of places with host time, and its sum. The script did not divide places by whether their threads are idle.
fn whole(answer: &Answer, rank: i64) -> (usize, i64) {
    let has_time = |r: &Record| r.int("rank") == rank && r.int("host_self_ns") > 0;
    let rows = answer.rows_where("lines", has_time);
    let places: BTreeSet<String> = rows.iter().map(place).collect();
    (places.len(), rows.iter().map(|r| r.int("host_self_ns")).sum())
}

/// Self and native time, and calls, ns.
const CPU_MODULES: [(&str, [i64; 3]); 9] = [
    ("gen_cpu.py:21", [842_826_903, 837_324_150, 13]),
    ("gen_cpu.py:8", [445_318_980, 444_081_976, 30]),
    ("gen_cpu.py:11", [102_776_048, 101_500_107, 15]),
    ("gen_cpu.py:20", [36_983_927, 36_461_452, 15]),
    ("gen_cpu.py:19", [2_399_845, 1_111_242, 3]),
    ("gen_cpu.py(8): forward", [676_383, 0, 6]),
    ("gen_cpu.py(21): train", [440_302, 0, 1]),
    ("gen_cpu.py(11): forward", [293_095, 0, 3]),
    ("gen_cpu.py(22): <module>", [3_637, 0, 1]),
];

#[test]
fn lines_of_the_cpu_recording_are_those_of_the_independent_count() {
    let path = shared::samples().join("cpu_single/cpu_modules_stack_memory.pt.trace.json.gz");
    let answer = lines(std::slice::from_ref(&path), &with(&[("--folded", "self")]));
    let rows = by_place(&answer, 0, ["host_self_ns", "native_ns", "calls"]);
    for (name, want) in CPU_MODULES {
        assert_eq!(rows[name], want, "{name}");
    }
    assert_eq!(whole(&answer, 0), (9, 1_431_719_120));
    let totals = by_place(&answer, 0, ["host_total_ns"]);
    assert_eq!(totals["gen_cpu.py:20"], [586_048_433]);
    let folded = answer.outcome.outputs[0].1.raw.as_deref().expect("folded stacks");
    let sum: i64 = folded.lines().filter_map(|l| l.rsplit(' ').next()?.parse::<i64>().ok()).sum();
    assert_eq!(sum, 1_431_719_120);
    // All allocations have a line; those of the backward pass that of their forward operator.
    let bytes: i64 = answer.rows("lines").iter().map(|r| r.int("alloc_bytes")).sum();
    assert_eq!(bytes, 13_344_276);
    let modules =
        by_place(&lines(&[path], &with(&[("--by", "module")])), 0, ["host_self_ns", "host_total_ns"]);
    assert_eq!(modules["Net_0"], [753_323, 549_139_957]);
    let conv = "Net_0/Sequential_0/Conv_1";
    assert_eq!(modules[&format!("{conv}/Conv2d_1")][0], 140_442_928);
    assert_eq!(modules[&format!("{conv}/BatchNorm2d_1")][0], 103_770_841);
}

#[test]
fn lines_of_four_ranks_are_those_of_the_independent_count() {
    let Some(root) = shared::folder() else { return };
    let answer = lines(&[root.trace("multirank_gloo_ddp4")], &options());
    assert_eq!(whole(&answer, 2), (28, 479_753_472));
    let known = [
        ("gen_ddp.py:47", [190_272_095, 3]),
        ("gen_ddp.py:87", [140_010_946, 3]),
        ("gen_ddp.py:89", [50_828_330, 6]),
        ("gen_ddp.py:92", [48_309_142, 9]),
        ("gen_ddp.py:33", [17_193_770, 12]),
        ("gen_ddp.py:31", [11_113_260, 12]),
        ("gen_ddp.py:93", [11_067_216, 3]),
        ("gen_ddp.py:94", [1_611_368, 4]),
        ("gen_ddp.py:84", [1_382_439, 3]),
        ("gen_ddp.py:30", [1_135_896, 12]),
    ];
    let rows = by_place(&answer, 2, ["host_self_ns", "calls"]);
    known.iter().for_each(|(name, want)| assert_eq!(rows[*name], *want, "{name}"));
    assert_eq!(by_place(&answer, 2, ["host_total_ns"])["gen_ddp.py:84"], [223_856_714]);
    for (rank, waits) in [(0, 326_629_815), (1, 284_988_448), (3, 287_314_053)] {
        let rows = by_place(&answer, rank, ["host_self_ns"]);
        assert_eq!(rows["gen_ddp.py:87"], [waits], "rank {rank}");
    }
}

#[test]
fn functions_of_timesformer_are_those_of_the_independent_count() {
    let Some(root) = shared::folder() else { return };
    let file = "tracelens/h100_facebook_timesformer-base-finetuned-k400__1016002.json.gz";
    let answer = lines(&[root.trace(file)], &options());
    assert_eq!(whole(&answer, 0), (102, 765_909_285));
    let columns = ["host_self_ns", "native_ns", "gpu_busy_ns", "launches", "blocked_ns"];
    let rows = by_place(&answer, 0, columns);
    let of = |file: &str, line: u32| -> [i64; 5] {
        let start = format!("transformers/{file}.py({line}): ");
        let mut found = rows.iter().filter(|(name, _)| name.starts_with(&start));
        let (_, row) = found.next().unwrap_or_else(|| panic!("no row {start}"));
        *row
    };
    let host = [
        ("pipelines/base", 1173, 129_817_029, Some(129_764_188)),
        ("image_transforms", 390, 106_156_658, Some(660_170)),
        ("pipelines/video_classification", 174, 36_003_328, None),
        ("image_transforms", 93, 33_290_119, None),
        ("feature_extraction_utils", 139, 13_544_915, None),
        ("image_transforms", 319, 9_418_802, None),
        ("image_transforms", 158, 7_263_312, None),
    ];
    for (file, line, own, native) in host {
        let row = of(file, line);
        assert_eq!(row[0], own, "{file} {line}");
        native.iter().for_each(|n| assert_eq!(row[1], *n, "{file} {line}"));
    }
    let model = "models/timesformer/modeling_timesformer";
    let gpu = [
        (model, 200, 138_968_534, 240),
        (model, 320, 7_665_823, 168),
        ("pipelines/base", 1173, 3_464_142, 2),
        (model, 269, 1_977_749, 24),
        (model, 283, 1_904_562, 24),
        ("activations", 77, 1_534_200, 12),
        (model, 59, 1_297_914, 7),
        (model, 231, 1_124_285, 48),
        (model, 94, 431_165, 7),
        (model, 543, 59_744, 1),
    ];
    for (file, line, busy, events) in gpu {
        assert_eq!(of(file, line)[2..4], [busy, events], "{file} {line}");
    }
    assert_eq!((of(model, 320)[0], of(model, 200)[0]), (10_822_268, 10_346_979));
    let sum = |column: usize| -> i64 { rows.values().map(|r| r[column]).sum() };
    assert_eq!((sum(2), sum(3), sum(4)), (158_433_174, 534, 55_830));
    assert_eq!(of("pipelines/base", 1173)[4], 28_510);
    // A sleeping thread would be first by its time.
    let all = answer.rows("lines");
    let is_idle = |r: &Record| r.flag("is_idle_thread") == Some(true);
    let monitor = all.iter().find(|r| place(r) == "tqdm/_monitor.py(60): run").expect("a row");
    assert_eq!((monitor.int("host_self_ns"), is_idle(monitor)), (382_968_963, true));
    assert!(all.is_sorted_by_key(is_idle) && !is_idle(&all[0]));
}

#[test]
fn recomputation_is_backward_work_of_the_line_that_was_checkpointed() {
    let Some(root) = shared::folder() else { return };
    let answer = lines(&[root.trace("tracelens/mi300_resnet_act_checkpoint.json.gz")], &options());
    assert_eq!(whole(&answer, 0), (5, 102_383_853));
    let columns = ["host_self_ns", "blocked_ns", "gpu_busy_ns", "bwd_gpu_busy_ns", "launches"];
    let rows = by_place(&answer, 0, columns);
    let step = "train_ddp.py(82): train_step";
    assert_eq!(rows[step], [48_338_542, 0, 6_643_832, 13_181_613, 2_280]);
    assert_eq!(rows["train_ddp.py(161): ddp_worker"][..2], [38_558_641, 37_854_131]);
    assert_eq!(rows["[no user code]"][0], 15_483_060);
    assert_eq!(rows["[no python]"][2..], [48_022_861, 0, 405]);
    let sums = by_place(&answer, 0, ["gpu_sum_ns", "bwd_gpu_sum_ns"]);
    assert_eq!(sums["[unlinked]"], [31_834_405, 0]);
    assert_eq!(sums.values().map(|s| s[0] + s[1]).sum::<i64>(), 100_230_072);
}

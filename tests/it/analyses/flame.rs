//! The tree of flame graphs on a trace that can be checked by eye.

use super::{lines, ops};
use crate::run::{Answer, Record, options};
use hta_testkit::{Format, TraceBuilder, us};
use std::collections::BTreeMap;

/// Rows by their path from the root: kind, then host, GPU and backward GPU time in us.
fn paths(answer: &Answer) -> BTreeMap<String, (String, [i64; 3])> {
    let rows = answer.rows("flame");
    let path = |r: &Record| {
        let mut names = vec![r.text("name").to_string()];
        let mut at = r.opt_int("parent");
        while let Some(above) = at {
            let row = rows.iter().find(|r| r.int("node") == above).expect("a parent");
            names.push(row.text("name").to_string());
            at = row.opt_int("parent");
        }
        names.reverse();
        names.join(" ; ")
    };
    let values = |r: &Record| ["host_self_ns", "gpu_sum_ns", "bwd_gpu_sum_ns"].map(|c| r.int(c) / 1000);
    rows.iter().map(|r| (path(r), (r.text("kind").to_string(), values(r)))).collect()
}

fn of(t: &TraceBuilder) -> Answer {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("rank_0.json");
    std::fs::write(&path, t.to_bytes(&Format::default())).expect("a temporary file can be written");
    ops::ops(&[path], &options()).expect("a good trace")
}

#[test]
fn operators_are_below_the_user_code_that_calls_them_and_gpu_work_below_its_operator() {
    let answer = of(&lines::small());
    let got = paths(&answer);
    let main = "train.py(10): train";
    let linear = format!("{main} ; train.py:12 ; model.py(3): forward ; model.py:7 ; aten::linear");
    let expected = [
        (main.to_string(), "function", [30, 0, 0]),
        (format!("{main} ; train.py:12"), "line", [4, 0, 0]),
        (format!("{main} ; train.py:12 ; model.py(3): forward"), "function", [16, 0, 0]),
        // The built-in function that the line calls is not a node; its own time is 2 us on either side of the operator.
        (format!("{main} ; train.py:12 ; model.py(3): forward ; model.py:7"), "line", [4, 0, 0]),
        (linear.clone(), "operator", [22, 0, 0]),
        (format!("{linear} ; cudaLaunchKernel"), "runtime_call", [4, 0, 0]),
        (format!("{linear} ; gemm"), "kernel", [0, 20, 0]),
        (format!("{linear} ; dgemm"), "kernel", [0, 0, 14]),
        (format!("{main} ; train.py:14"), "line", [4, 0, 0]),
        (format!("{main} ; train.py:14 ; aten::item"), "operator", [6, 0, 0]),
        (format!("{main} ; train.py:14 ; aten::item ; cudaStreamSynchronize"), "runtime_call", [10, 0, 0]),
        ("[no python] ; LinearBackward0".to_string(), "operator", [5, 0, 0]),
        ("[no python] ; LinearBackward0 ; cudaLaunchKernel".to_string(), "runtime_call", [2, 0, 0]),
        ("[no python]".to_string(), "other", [0, 0, 0]),
        ("[unlinked]".to_string(), "other", [0, 0, 0]),
        ("[unlinked] ; orphan".to_string(), "kernel", [0, 5, 0]),
    ];
    let expected: BTreeMap<String, (String, [i64; 3])> =
        expected.into_iter().map(|(path, kind, values)| (path, (kind.to_string(), values))).collect();
    assert_eq!(got, expected);
}

#[test]
fn threads_that_only_wait_in_python_are_below_a_root_of_their_own() {
    let mut t = lines::small();
    t.thread(9).frame("threading.py(1): _bootstrap", us(0)..us(90));
    t.thread(9).frame("monitor.py(60): run", us(10)..us(80));
    let got = paths(&of(&t));
    let idle = "[threads without operators]";
    assert_eq!(got[&format!("{idle} ; [no user code]")].1, [20, 0, 0]);
    assert_eq!(got[&format!("{idle} ; monitor.py(60): run")].1, [70, 0, 0]);
    assert_eq!(got["train.py(10): train"].1, [30, 0, 0]);
}

#[test]
fn of_many_stacks_the_small_ones_are_summed() {
    let mut t = TraceBuilder::new();
    let mut main = t.thread(1);
    for i in 0..3_000 {
        main.op(&format!("op_{i}"), us(10 * i)..us(10 * i + 1 + i64::from(i < 500)));
    }
    let answer = of(&t);
    let rows = answer.rows("flame");
    let small: Vec<&Record> = rows.iter().filter(|r| r.text("name") == "[small]").collect();
    // 2,000 named nodes: the root and 1,999 operators.
    assert_eq!((rows.len(), small.len()), (2_001, 1));
    assert_eq!((small[0].int("merged_count"), small[0].int("host_self_ns")), (1_001, 1_001_000));
    assert_eq!(rows.iter().map(|r| r.int("host_self_ns")).sum::<i64>(), 3_500_000);
}

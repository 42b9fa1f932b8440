//! The operator and the shapes that a kernel's time belongs to, on a trace that can be checked by eye and by grouping the
//! kernels of every sample.

use crate::run::{Answer, Record, answer, options};
use crate::shared::{files_below, samples};
use hta_testkit::{Format, TraceBuilder, us};
use std::collections::BTreeMap;

fn of(t: &TraceBuilder) -> Answer {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("rank_0.json");
    std::fs::write(&path, t.to_bytes(&Format::default())).expect("a temporary file can be written");
    answer(&[path], &options())
}

/// ```text
///   aten::mm  [8,16] x [16,4]   gemm   30 us, 10 us
///   aten::mm  [8,8] x [8,4]     gemm   25 us
///   aten::bmm                   gemm   40 us
///   mine::op  [8]               copy_  10 us       no model of its work: no shapes
///   no operator                 spin    5 us
/// ```
fn small() -> TraceBuilder {
    let mut t = TraceBuilder::new().device("NVIDIA H100", 132);
    let mut at = 0;
    let mut run = |op: Option<&str>, inputs: &[(&[i64], &str)], kernel: &str, length: i64| {
        let mut main = t.thread(1);
        if let Some(op) = op {
            main.op(op, us(at)..us(at + 20)).inputs(inputs);
        }
        main.launch(us(at + 5)..us(at + 10)).kernel(kernel, 7, us(at + 12)..us(at + 12 + length));
        at += 100;
    };
    let wide: &[(&[i64], &str)] = &[(&[8, 16], "float"), (&[16, 4], "float")];
    let square: &[(&[i64], &str)] = &[(&[8, 8], "float"), (&[8, 4], "float")];
    run(Some("aten::mm"), wide, "gemm", 30);
    run(Some("aten::mm"), square, "gemm", 25);
    run(Some("aten::mm"), wide, "gemm", 10);
    run(Some("aten::bmm"), &[], "gemm", 40);
    run(Some("mine::op"), &[(&[8], "float")], "copy_", 10);
    run(None, &[], "spin", 5);
    t
}

#[test]
fn a_kernel_names_the_operator_and_the_shapes_of_most_of_its_time() {
    let answer = of(&small());
    let rows = answer.rows_where("kernels_by_name", |r| r.text("scope") == "span");
    let of = |name: &str| rows.iter().find(|r| r.text("name") == name).expect("the kernel is there");
    let told =
        |r: &Record| (r.text("main_op").to_string(), r.opt_int("main_op_ns"), r.opt_int("main_input_ns"));
    let gemm = of("gemm");
    assert_eq!(gemm.int("sum_ns"), 105_000);
    assert_eq!(told(gemm), ("aten::mm".to_string(), Some(65_000), Some(40_000)));
    assert_eq!(gemm.text("main_input_dims").replace(' ', ""), "[[8,16],[16,4]]");
    // The products of the three calls of aten::mm are known, that of aten::bmm is not.
    assert_eq!((gemm.int("work_count"), gemm.int("work_ns")), (3, 65_000));
    assert_eq!(gemm.int("flops"), 2 * (2 * 8 * 16 * 4) + 2 * 8 * 8 * 4);
    assert_eq!(told(of("copy_")), ("mine::op".to_string(), Some(10_000), None));
    assert_eq!(told(of("spin")), (String::new(), None, None));
}

/// The same by grouping the rows of `kernels`, one for each activity.
#[test]
fn main_operators_and_shapes_are_those_of_the_single_kernels() {
    type Sums = BTreeMap<(String, Option<String>), i64>;
    let mut seen = 0;
    for sample in ["gpu_ddp8", "gpu_single", "serving_capture"] {
        let answer = answer(&files_below(&samples().join(sample)), &options());
        let key = |r: &Record| {
            let texts = ["class_reason", "kind", "name", "category"].map(|c| r.text(c).to_string());
            (r.int("rank"), r.opt_int("device"), texts)
        };
        let mut groups: BTreeMap<_, Sums> = BTreeMap::new();
        for k in answer.rows("kernels") {
            let group = groups.entry(key(&k)).or_default();
            if !k.text("op").is_empty() {
                let dims = k.cell("op_input_dims").as_str().map(str::to_string);
                *group.entry((k.text("op").to_string(), dims)).or_default() += k.int("dur_ns");
            }
        }
        let rows = answer.rows_where("kernels_by_name", |r| r.text("scope") == "span");
        let mut times: BTreeMap<_, usize> = BTreeMap::new();
        rows.iter().for_each(|r| *times.entry(key(r)).or_default() += 1);
        // Rows that differ in how their category was found cannot be told apart here.
        for r in rows.iter().filter(|r| times.get(&key(r)) == Some(&1)) {
            let sums = &groups[&key(r)];
            let mut ops: BTreeMap<&str, i64> = BTreeMap::new();
            sums.iter().for_each(|((op, _), ns)| *ops.entry(op).or_default() += ns);
            let most = ops.values().max();
            assert_eq!(r.opt_int("main_op_ns"), most.copied(), "{sample}: {}", r.0);
            let Some(most) = most else { continue };
            let first = ops.iter().find(|(_, ns)| *ns == most).map(|(op, _)| *op);
            assert_eq!(Some(r.text("main_op")), first, "{sample}: {}", r.0);
            let shapes = sums.iter().filter(|((op, dims), _)| Some(op.as_str()) == first && dims.is_some());
            let largest = shapes.map(|(_, ns)| *ns).max();
            assert_eq!(r.opt_int("main_input_ns"), largest, "{sample}: {}", r.0);
            seen += usize::from(largest.is_some());
        }
    }
    assert!(seen > 50, "only {seen} kernels have shapes");
}

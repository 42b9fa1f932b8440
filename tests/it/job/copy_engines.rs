//! Collectives by copy engines, products below operators of symmetric memory, and the copies of FSDP.

use crate::run::{Answer, answer_of, options};
use hta_testkit::{Collective, Thread, TraceBuilder, us};

fn all_gather(seq: u64) -> Collective {
    Collective::all_gather(1 << 20, 2, "BFloat16").group("0", "default_pg", 0..2).seq(seq)
}

fn rank(rank: u32) -> TraceBuilder {
    TraceBuilder::new()
        .rank(rank)
        .world(2)
        .group("0", "default_pg", 0..2)
        .device("NVIDIA H100 80GB HBM3", 132)
}

fn of(ranks: &[TraceBuilder]) -> Answer {
    answer_of(ranks, &options())
}

fn copy(main: &mut Thread, kind: &str, call: i64, stream: i64, from: i64, to: i64) {
    main.runtime("cudaMemcpyAsync", us(call)..us(call + 2)).memcpy(kind, stream, 1 << 20, us(from)..us(to));
}

/// ```text
///   us           30        50         70       90
///   stream 20    [ PtoP    )[ PtoP    )
///   stream 21              [ PtoP              )         one all-gather of 60 us
///   stream 7                                      ...    a copy of the same kind that no exchange launches
/// ```
#[test]
fn the_copies_of_an_exchange_are_one_call() {
    let peer = "PtoP (Device -> Device)";
    let make = |r: u32| {
        let mut t = rank(r);
        let mut main = t.thread(1);
        for k in 0..4u64 {
            let at = 200 * k as i64;
            main.submission(&all_gather(k), us(at)..us(at + 30));
            main.param_comms(&all_gather(k), us(at + 1)..us(at + 29));
            main.op("aten::copy_", us(at + 2)..us(at + 8));
            copy(&mut main, peer, at + 3, 20, at + 30, at + 50);
            copy(&mut main, peer, at + 10, 21, at + 50, at + 90);
            copy(&mut main, peer, at + 15, 20, at + 51, at + 70);
            main.op("aten::copy_", us(at + 40)..us(at + 48));
            copy(&mut main, peer, at + 42, 7, at + 100, at + 130);
        }
        t
    };
    let answer = of(&[make(0), make(1)]);
    let calls = answer.rows("collectives");
    assert_eq!(calls.len(), 8);
    for c in &calls {
        assert_eq!((c.text("kind"), c.int("dur_ns"), c.int("member_count")), ("all_gather", us(60), 2));
    }
    let span = answer.rows_where("temporal_breakdown", |r| r.text("scope") == "span");
    let sum = |column: &str| span.iter().map(|r| r.int(column)).sum::<i64>();
    assert_eq!([sum("exposed_communication_ns"), sum("copies_ns")], [2 * 4 * us(60), 2 * 4 * us(30)]);
}

#[test]
fn a_product_below_symmetric_memory_is_compute_and_its_exchange_is_not() {
    let mut t = rank(0);
    let mut main = t.thread(1);
    let names = ["sm90_xmma_gemm_bf16", "flash_fwd_kernel", "one_shot_all_reduce_kernel", "mine::push"];
    for (i, name) in (0..).zip(names) {
        let at = us(100 * i);
        main.op("symm_mem::fused_all_gather_matmul", at..at + us(20));
        main.launch(at + us(3)..at + us(5)).kernel(name, 7, at + us(30)..at + us(90));
    }
    let answer = of(&[t]);
    let mut found: Vec<(String, String)> = answer
        .rows_where("kernels_by_name", |r| r.text("scope") == "span")
        .iter()
        .map(|r| (r.text("name").to_string(), r.text("class").to_string()))
        .collect();
    found.sort();
    let class = |name: &str| found.iter().find(|f| f.0 == name).map(|f| f.1.as_str());
    assert_eq!(names.map(class), ["compute", "compute", "communication", "communication"].map(Some));
}

#[test]
fn copies_of_sharded_parameters_are_no_layout() {
    let copies =
        ["fsdp::all_gather_copy_in", "aten::split_with_sizes_copy", "aten::_chunk_cat", "aten::clone"];
    let category = |has_gathers: bool| {
        let mut t = rank(0);
        let mut main = t.thread(1);
        for (i, op) in (0..).zip(copies) {
            let at = us(100 * i);
            main.op(op, at..at + us(20));
            let name = "void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, 4>(float*)";
            main.launch(at + us(3)..at + us(5)).kernel(name, 7, at + us(30)..at + us(90));
            if has_gathers {
                main.nccl(&all_gather(i as u64), at + us(21)..at + us(29), 20, at + us(30)..at + us(60));
            }
        }
        let rows = of(&[t]).rows_where("kernel_categories", |r| r.text("scope") == "span");
        let count = |name: &str| -> i64 {
            rows.iter().filter(|r| r.text("category") == name).map(|r| r.int("count")).sum()
        };
        [count("shard_copy"), count("layout")]
    };
    assert_eq!([category(true), category(false)], [[3, 1], [1, 3]]);
}

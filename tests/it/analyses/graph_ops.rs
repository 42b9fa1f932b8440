//! Kernels inside graphs, named by captures: tiny traces of an engine and of its captures.
//!
//! ```text
//!   capture trace   begin [op0 l0)[op1 l1) ... [opn ln) end        li: launch of kernel ki, recorded, not run
//!   run             [iteration   g g    )                          g: launch of a graph
//!   stream                        [k0)[k1) ... [kn)
//! ```

use crate::run::{Answer, answer, one, options};
use crate::shared;
use hta::analysis::api::Options;
use hta::read::discover::discover;
use hta::read::options::LoadOptions;
use hta::run::read_captures;
use hta_testkit::{TraceBuilder, Vendor, us};
use std::path::Path;
use std::sync::Arc;

const MAIN: i64 = 100;
const STREAM: i64 = 7;

/// A captured launch: operator and kernel.
type Captured = (String, String);

/// Operators `op0`, `op1`, ... that launch kernels `k0`, `k1`, ...
fn nodes(n: usize) -> Vec<Captured> {
    (0..n).map(|i| (format!("op{i}"), format!("k{i}"))).collect()
}

fn kernels(of: &[Captured]) -> Vec<String> {
    of.iter().map(|(_, kernel)| kernel.clone()).collect()
}

fn engine(vendor: Vendor) -> TraceBuilder {
    TraceBuilder::new()
        .vendor(vendor)
        .rank(0)
        .world(1)
        .host("server")
        .pid(MAIN)
        .device("AMD Instinct MI300X", 304)
}

/// Captures one graph from `start` on.
fn capture(trace: &mut TraceBuilder, name: &str, start: i64, of: &[Captured]) {
    let end = start + us(20) + us(10) * of.len() as i64;
    let mut main = trace.thread(MAIN);
    main.annotation(name, start..end + us(10));
    main.begin_capture(start + us(1)..start + us(2));
    for (i, (op, kernel)) in (0..).zip(of) {
        let at = start + us(10) + us(10) * i;
        main.op("engine::layer", at..at + us(9));
        main.op(op, at + us(1)..at + us(8))
            .inputs(&[(&[4, 8], "c10::BFloat16"), (&[8, 16], "c10::BFloat16")]);
        main.captured_launch(kernel, at + us(2)..at + us(4));
    }
    main.end_capture(end..end + us(1));
}

/// Launches a graph from `start` on; its kernels take 5 us each.
fn replay(trace: &mut TraceBuilder, start: i64, of: &[String], graph: Option<u64>) {
    let mut main = trace.thread(MAIN);
    let mut row = main.graph_launch(start..start + us(5));
    for (i, kernel) in (0..).zip(of) {
        let at = start + us(10) + us(5) * i;
        row = row.kernel(kernel, STREAM, at..at + us(5));
        if let Some(graph) = graph {
            row = row.graph_node(graph, 1 + i as u64);
        }
    }
}

/// Runs a trace with the captures of another one.
fn run(trace: &TraceBuilder, captures: Option<&TraceBuilder>) -> Answer {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rank_0.json");
    std::fs::write(&path, trace.to_json()).unwrap();
    let mut options = options();
    if let Some(captures) = captures {
        let path = folder.path().join("capture_rank_0.json");
        std::fs::write(&path, captures.to_json()).unwrap();
        give(&mut options, &path);
    }
    answer(&[path], &options)
}

fn give(options: &mut Options, captures: &Path) {
    let inputs = discover(&[captures.to_path_buf()]).unwrap();
    options.model.graph_captures = Arc::new(read_captures(&inputs, LoadOptions::default()).unwrap());
}

/// Operator of each node of the only replay; empty if it has none.
fn named(a: &Answer) -> Vec<String> {
    a.rows("graph_nodes").iter().map(|r| r.text("op").to_string()).collect()
}

/// A run of one iteration that launches graphs, one every millisecond.
fn with_replays(of: &[Vec<String>]) -> TraceBuilder {
    let mut trace = engine(Vendor::Amd);
    let end = us(1_000) * (1 + of.len() as i64);
    trace.thread(MAIN).annotation("step[DECODE bs=4]", us(0)..end);
    for (i, kernels) in (0..).zip(of) {
        replay(&mut trace, us(1_000) * i + us(10), kernels, None);
    }
    trace
}

fn with_captures(of: &[(&str, Vec<Captured>)]) -> TraceBuilder {
    let mut trace = engine(Vendor::Amd);
    for (i, (name, nodes)) in (0..).zip(of) {
        capture(&mut trace, name, us(10_000) * i, nodes);
    }
    trace
}

#[test]
fn a_replay_equal_to_a_capture_has_its_operators_everywhere() {
    let mut of = nodes(20);
    of[3] = ("aten::mm".to_string(), "k3".to_string());
    let captures = with_captures(&[("capture_4_FULL", of.clone())]);
    let a = run(&with_replays(&[kernels(&of)]), Some(&captures));
    let graph = one(a.rows("graphs"));
    assert_eq!((graph.text("op_source"), graph.text("capture")), ("exact", "capture_4_FULL"));
    assert_eq!(
        ["padded_batch", "captured_count", "matched_count", "named_count"].map(|c| graph.int(c)),
        [4, 20, 20, 20]
    );
    let wanted: Vec<String> = of.iter().map(|(op, _)| op.clone()).collect();
    assert_eq!(named(&a), wanted);
    let node = &a.rows("graph_nodes")[3];
    assert_eq!((node.text("operators"), node.text("op_source")), ("engine::layer > aten::mm", "exact"));
    assert_eq!(node.text("input_dims"), "[[4,8],[8,16]]");
    // In the tables of operators and kernels as if launched by that operator.
    let mm = one(a.rows_where("operators", |r| r.text("name") == "aten::mm"));
    assert_eq!(
        ["count", "gpu_self_ns", "graph_self_ns", "gpu_ns", "host_ns"].map(|c| mm.int(c)),
        [1, 5_000, 5_000, 5_000, 0]
    );
    assert_eq!((mm.int("flops"), mm.int("bytes")), (2 * 4 * 8 * 16, 2 * (4 * 8 + 8 * 16 + 4 * 16)));
    let layer = one(a.rows_where("operators", |r| r.text("name") == "engine::layer"));
    assert_eq!(
        ["count", "gpu_self_ns", "gpu_ns", "gpu_busy_ns", "activity_count"].map(|c| layer.int(c)),
        [20, 0, 100_000, 100_000, 20]
    );
    let own = one(a.rows_where("operators", |r| r.text("name") == "[no operator]"));
    assert_eq!(["gpu_self_ns", "gpu_ns", "activity_count"].map(|c| own.int(c)), [0, 0, 0]);
    let all: i64 = a.rows("operators").iter().map(|r| r.int("gpu_self_ns")).sum();
    assert_eq!(all, 100_000);
    let kernel = one(a.rows_where("kernels", |r| r.text("name") == "k3"));
    assert_eq!(
        (kernel.text("op"), kernel.text("op_source"), kernel.opt_int("op_event_id")),
        ("aten::mm", "exact", None)
    );
    assert_eq!(kernel.int("flops"), 1_024);
    let sentence = "named 20 of 20 graph activities, 0.0 % of GPU time unnamed".to_string();
    for stem in ["graph-ops", "ops"] {
        assert!(a.notes(stem).contains(&sentence), "{stem}: {:?}", a.notes(stem));
    }
}

#[test]
fn without_a_capture_it_is_said_that_nothing_has_a_name() {
    let mut trace = with_replays(&[kernels(&nodes(20))]);
    let mut main = trace.thread(MAIN);
    main.op("aten::add", us(900)..us(920));
    main.launch(us(901)..us(902)).kernel("k5", STREAM, us(903)..us(904));
    let a = run(&trace, None);
    assert_eq!(one(a.rows("graphs")).text("reject"), "no capture");
    let sentence = "named 0 of 20 graph activities, 99.0 % of GPU time unnamed".to_string();
    for stem in ["graph-ops", "ops"] {
        assert!(a.notes(stem).contains(&sentence), "{stem}: {:?}", a.notes(stem));
    }
    // A guess stays a guess.
    let guessed = a.rows_where("graph_ops", |r| r.text("op_guess") == "aten::add");
    assert_eq!((one(guessed.clone()).int("sum_ns"), one(guessed).text("op")), (5_000, ""));
    assert_eq!(one(a.rows_where("operators", |r| r.text("name") == "aten::add")).int("gpu_self_ns"), 1_000);
}

#[test]
fn most_of_a_replay_is_named_by_a_capture_that_differs_a_little() {
    let of = nodes(40);
    let captures = with_captures(&[("capture_4_FULL", of.clone())]);
    let mut replayed = kernels(&of);
    replayed.remove(7);
    replayed[20] = "another".to_string();
    let a = run(&with_replays(&[replayed]), Some(&captures));
    let graph = one(a.rows("graphs"));
    assert_eq!(graph.text("op_source"), "partial");
    assert_eq!(
        ["activity_count", "missing_count", "matched_count", "named_count"].map(|c| graph.int(c)),
        [39, 1, 38, 38]
    );
    let names = named(&a);
    assert_eq!([&names[6], &names[7], &names[20], &names[21]], ["op6", "op8", "", "op22"]);
    assert_eq!(a.rows("graph_nodes")[20].text("op_source"), "none");
}

#[test]
fn a_cut_replay_has_no_name_and_lacks_activities() {
    let of = nodes(40);
    let captures = with_captures(&[("capture_4_FULL", of.clone())]);
    let whole = kernels(&of);
    let a = run(&with_replays(&[whole[..30].to_vec(), whole.clone()]), Some(&captures));
    let rows = a.rows("graphs");
    let cut: Vec<(&str, i64, &str)> =
        rows.iter().map(|r| (r.text("op_source"), r.int("missing_count"), r.text("reject"))).collect();
    assert_eq!(cut, [("none", 10, "another length"), ("exact", 0, "")]);
    assert_eq!((rows[0].text("capture"), rows[0].int("captured_count")), ("capture_4_FULL", 40));
}

#[test]
fn captures_that_fit_equally_well_are_not_chosen_between() {
    let of = nodes(40);
    let mut other = of.clone();
    other[3].1 = "k3b".to_string();
    let mut replayed = kernels(&of);
    replayed[3] = "k3c".to_string();
    let captures = with_captures(&[("first", of.clone()), ("second", other.clone())]);
    let a = run(&with_replays(&[replayed.clone()]), Some(&captures));
    let graph = one(a.rows("graphs"));
    assert_eq!(
        (graph.text("op_source"), graph.text("reject"), graph.int("matched_count")),
        ("none", "several fit equally", 39)
    );
    // The batch in the name breaks the tie.
    let captures = with_captures(&[("capture_2_FULL", of), ("capture_8_FULL", other)]);
    let a = run(&with_replays(&[replayed]), Some(&captures));
    assert_eq!(one(a.rows("graphs")).text("capture"), "capture_8_FULL");
}

#[test]
fn equal_pieces_are_taken_in_turn() {
    let layer = |n: usize| -> Vec<Captured> {
        (0..5).map(|i| (format!("layer{n}::op{i}"), format!("k{i}"))).collect()
    };
    let captures = with_captures(&[("capture_4_PIECEWISE", layer(0)), ("capture_4_PIECEWISE", layer(1))]);
    let kernels = kernels(&layer(0));
    // Two iterations, each with both layers.
    let mut trace = engine(Vendor::Amd);
    for k in 0..2 {
        let start = us(10_000) * k;
        trace.thread(MAIN).annotation("step[DECODE bs=4]", start..start + us(5_000));
        replay(&mut trace, start + us(10), &kernels, None);
        replay(&mut trace, start + us(1_000), &kernels, None);
    }
    let a = run(&trace, Some(&captures));
    let firsts: Vec<String> = named(&a).into_iter().step_by(5).collect();
    assert_eq!(firsts, ["layer0::op0", "layer1::op0", "layer0::op0", "layer1::op0"]);
    let counts: Vec<i64> = a.rows("graphs").iter().map(|r| r.int("replay_count")).collect();
    assert_eq!(counts, [2, 2]);
}

#[test]
fn the_ids_of_nodes_are_the_order_and_not_the_time() {
    let of = nodes(20);
    let captures = with_captures(&[("capture_4_FULL", of.clone())]);
    let mut trace = engine(Vendor::Amd);
    trace.thread(MAIN).annotation("step[DECODE bs=4]", us(0)..us(1_000));
    let mut main = trace.thread(MAIN);
    let mut row = main.graph_launch(us(10)..us(15));
    // Nodes 4 and 5 run in the other order, and are written in the order of time.
    let order = (0..4).chain([5, 4]).chain(6..20);
    for (slot, node) in (0..).zip(order) {
        let at = us(20) + us(5) * slot;
        row = row.kernel(&of[node].1, STREAM, at..at + us(5)).graph_node(3, 1 + node as u64);
    }
    let a = run(&trace, Some(&captures));
    let graph = one(a.rows("graphs"));
    assert_eq!((graph.text("op_source"), graph.int("graph_id")), ("exact", 3));
    assert_eq!(named(&a)[4..6], ["op4", "op5"]);
    assert_eq!(one(a.rows("graph_summary")).int("reordered_count"), 1);
    let health = a
        .outcome
        .rank_health
        .iter()
        .map(|(_, _, h)| h.count(hta::health::Counter::GraphOrderDiffers))
        .sum::<u64>();
    assert_eq!(health, 1);
}

#[test]
fn captures_without_names_fit_by_count() {
    let of = nodes(20);
    let mut captures = engine(Vendor::Nvidia);
    capture(&mut captures, "capture_4_FULL", us(0), &of);
    capture(&mut captures, "capture_8_FULL", us(10_000), &nodes(22));
    let mut trace = engine(Vendor::Nvidia);
    trace.thread(MAIN).annotation("step[DECODE bs=4]", us(0)..us(1_000));
    replay(&mut trace, us(10), &kernels(&of), Some(3));
    let a = run(&trace, Some(&captures));
    let graph = one(a.rows("graphs"));
    assert_eq!((graph.text("op_source"), graph.text("capture")), ("by_count", "capture_4_FULL"));
    assert_eq!((named(&a)[19].as_str(), a.rows("graph_nodes")[0].text("op_source")), ("op19", "by_count"));
    let captured = a.rows("captured_graphs");
    let counts: Vec<_> = captured
        .iter()
        .map(|r| (r.int("call_count"), r.int("nameless_count"), r.int("replay_count")))
        .collect();
    assert_eq!(counts, [(20, 20, 1), (22, 22, 0)]);
}

#[test]
fn a_run_that_captures_names_its_own_replays() {
    let of = nodes(20);
    let mut trace = engine(Vendor::Amd);
    capture(&mut trace, "capture_4_FULL", us(0), &of);
    trace.thread(MAIN).annotation("step[DECODE bs=4]", us(1_000)..us(2_000));
    replay(&mut trace, us(1_010), &kernels(&of), None);
    let a = run(&trace, None);
    assert_eq!((one(a.rows("graphs")).text("op_source"), named(&a)[19].as_str()), ("exact", "op19"));
    let summary = one(a.rows("graph_summary"));
    assert_eq!(["own_graph_count", "own_call_count", "named_count"].map(|c| summary.int(c)), [1, 20, 20]);
}

#[test]
fn a_capture_given_as_a_run_is_named_as_such_and_launched_nothing() {
    let captures = with_captures(&[("capture_4_FULL", nodes(20)), ("capture_8_FULL", nodes(22))]);
    let mut trace = captures;
    trace.thread(MAIN).launch(us(50_000)..us(50_005)).kernel("warm_up", STREAM, us(50_010)..us(50_020));
    let a = run(&trace, None);
    let told = "a capture trace: 42 launches recorded into 2 graphs; give it with --graph-capture to the run that replays them";
    assert!(a.notes("graph-ops").iter().any(|n| n == told), "{:?}", a.notes("graph-ops"));
    assert_eq!(a.rows("launches").len(), 1);
    let stats = a.rows("launch_stats");
    assert!(stats.iter().all(|r| r.int("launched_no_activity_count") == 0), "{stats:?}");
    assert_eq!(a.rows("graphs").len(), 0);
}

#[test]
fn a_file_without_captures_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rank_0.json");
    std::fs::write(&path, with_replays(&[kernels(&nodes(3))]).to_json()).unwrap();
    let inputs = discover(std::slice::from_ref(&path)).unwrap();
    let error = read_captures(&inputs, LoadOptions::default()).err().unwrap().to_string();
    assert!(error.contains("--graph-capture") && error.contains("rank_0.json"), "{error}");
    let inputs = discover(&[folder.path().to_path_buf()]).unwrap();
    assert!(read_captures(&inputs, LoadOptions::default()).is_err());
}

#[test]
fn the_capture_beside_the_sample_names_its_graph() {
    let mut options = options();
    give(&mut options, &shared::samples().join("serving_capture"));
    let a = answer(&[shared::samples().join("serving")], &options);
    let graph = one(a.rows("graphs"));
    assert_eq!((graph.text("op_source"), graph.text("capture")), ("by_count", "capture_4_FULL"));
    assert_eq!(["replay_count", "activity_count", "named_count"].map(|c| graph.int(c)), [2, 40, 40]);
    let ops: Vec<(String, i64, i64)> = a
        .rows("graph_ops")
        .iter()
        .map(|r| (r.text("op").to_string(), r.int("operator_count"), r.int("sum_ns")))
        .collect();
    // 20 layers, each a product of 10 us and an attention of 10 us, replayed twice.
    let attention = "vllm::unified_attention_with_output".to_string();
    assert_eq!(ops, [("aten::mm".to_string(), 40, 400_000), (attention, 40, 400_000)]);
    let repeat = ["repeat_length", "repeat_start", "repeat_count", "repeat_median_ns"].map(|c| graph.int(c));
    assert_eq!(repeat, [2, 0, 20, 20_000]);
    let layers: Vec<i64> = a.rows("graph_nodes").iter().filter_map(|r| r.opt_int("layer")).collect();
    assert_eq!(layers, (0..20).flat_map(|l| [l, l]).chain((0..20).flat_map(|l| [l, l])).collect::<Vec<_>>());
}

//! Rows of Cuspy that only hand-made traces have: unknown kinds, labels over streams, lanes, nodes, jobs of both
//! recorders. All times in us.

use crate::run::{Answer, answer, options, rank_trace};
use hta::trace::args::Arg;
use hta::trace::meta::Recorder;
use hta::trace::rank_trace::RankTrace;
use hta_testkit::{Call, Format, TestRecorder, TraceBuilder, us};
use std::path::PathBuf;
use tempfile::TempDir;

const CUSPY: TestRecorder = TestRecorder::Cuspy;

fn written(folder: &TempDir, name: &str, t: &TraceBuilder, recorder: TestRecorder) -> PathBuf {
    let path = folder.path().join(name);
    let bytes = t.to_bytes(&Format { recorder, ..Format::default() });
    std::fs::write(&path, bytes).expect("a temporary file can be written");
    path
}

fn read(t: &TraceBuilder, recorder: TestRecorder) -> (RankTrace, Answer) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = written(&folder, "trace.json", t, recorder);
    (rank_trace(&path, 0), answer(&[path], &options()))
}

/// A copy and a node, by which the recorder is known.
fn signed() -> TraceBuilder {
    let mut t = TraceBuilder::new().rank(0).device("NVIDIA H100", 132);
    let mut main = t.thread(1);
    main.call(Call::Copy, us(0)..us(2)).memcpy("HtoD (Pinned -> Device)", 7, 64, us(3)..us(4));
    t
}

fn texts(answer: &Answer, column: &str) -> Vec<String> {
    answer.rows("kernels").iter().map(|r| r.text(column).to_string()).collect()
}

#[test]
fn kinds_that_cuspy_has_no_word_for_are_numbers() {
    let mut t = signed();
    let mut main = t.thread(1);
    main.call(Call::Copy, us(10)..us(12)).memcpy("9 (Pageable -> Pinned)", 7, 64, us(13)..us(14));
    main.call(Call::Copy, us(20)..us(22)).memcpy("17 (5 -> 12)", 7, 64, us(23)..us(24));
    main.call(Call::Set, us(30)..us(32))
        .memset(7, 64, us(33)..us(34))
        .arg("memory kind", 77)
        .raw_name("Memset");
    main.launch(us(40)..us(42)).kernel("k", 7, us(43)..us(44));
    let (trace, answer) = read(&t, CUSPY);
    assert_eq!(trace.meta.recorder, Recorder::Cuspy);
    let want = [
        "Memcpy HtoD (Pinned -> Device)",
        "Memcpy HtoH (Pageable -> Pinned)",
        "Memcpy 17 (Managed -> 12)",
        "Memset (77)",
        "k",
    ];
    assert_eq!(texts(&answer, "name"), want);
    assert_eq!(texts(&answer, "kind")[..4], ["HtoD", "HtoH", "unknown", "set"]);
}

/// ```text
///   a  stream 3 and device 5 are annotations of the program; it is on stream 7
///   b  drawn on lane 100003
///   c  drawn on lane 100004, its stream is not recorded
/// ```
#[test]
fn annotations_and_lanes_are_no_streams() {
    let mut t = signed();
    t.thread(1)
        .graph_launch(us(10)..us(20))
        .kernel("a", 7, us(21)..us(22))
        .graph_node(2, 0)
        .arg("stream", 3)
        .arg("device", 5)
        .kernel("b", 100_003, us(22)..us(23))
        .graph_node(2, 1)
        .arg("original_stream", 13)
        .kernel("c", 100_004, us(23)..us(24))
        .graph_node(2, 2);
    let (trace, answer) = read(&t, CUSPY);
    let places: Vec<_> =
        answer.rows("kernels").iter().map(|r| (r.int("device"), r.opt_int("stream"))).collect();
    assert_eq!(places, [(0, Some(7)), (0, Some(7)), (0, Some(13)), (0, None)]);
    let lanes: Vec<u64> = trace.columns.args.column(Arg::DisplayLane).iter().map(|lane| lane.1).collect();
    assert_eq!(lanes, [100_003, 100_004]);
}

/// Nodes are numbered from 0, and branches of the graph start in another order.
#[test]
fn node_0_is_a_node_and_the_order_is_that_of_nodes() {
    let mut t = signed();
    t.thread(1)
        .graph_launch(us(10)..us(20))
        .kernel("second", 7, us(21)..us(22))
        .graph_node(2, 1)
        .kernel("first", 13, us(22)..us(23))
        .graph_node(2, 0);
    for recorder in [CUSPY, TestRecorder::Kineto] {
        let (_, answer) = read(&t, recorder);
        let nodes = answer.rows("graph_nodes");
        let order: Vec<_> = nodes.iter().map(|r| (r.int("node"), r.text("name"))).collect();
        assert_eq!(order, [(0, "first"), (1, "second")]);
        let ids: Vec<_> = answer.rows("kernels").iter().map(|r| r.opt_int("graph_node_id")).collect();
        assert_eq!(ids, [None, Some(1), Some(0)]);
    }
}

#[test]
fn node_0_of_graph_0_is_none() {
    let mut t = signed();
    t.thread(1).launch(us(10)..us(20)).kernel("k", 7, us(21)..us(22)).graph_node(0, 0);
    let (trace, answer) = read(&t, TestRecorder::Kineto);
    assert_eq!(trace.meta.recorder, Recorder::Kineto);
    assert!(answer.rows("kernels").iter().all(|r| r.opt_int("graph_node_id").is_none()));
}

/// Torch 2.15 spreads an annotation over the arguments, 2.14 writes a list, the Python exporter of Kineto quotes all
/// values and draws lanes.
#[test]
fn kernels_of_graphs_have_the_names_that_the_program_gave_them() {
    let mut t = signed();
    t.thread(1)
        .graph_launch(us(10)..us(20))
        .kernel("a", 7, us(21)..us(22))
        .graph_node(2, 8_589_934_593)
        .arg("name", "attention")
        .kernel("b", 3, us(22)..us(23))
        .graph_node(2, 8_589_934_594)
        .arg("name", "attention")
        .arg("autograd_phase", "backward")
        .arg("original_stream", "7")
        .kernel("c", 7, us(23)..us(24))
        .graph_node(2, 8_589_934_595)
        .arg("annotation", r#"[{"name": "loss", "autograd_phase": "backward"}]"#)
        .kernel("d", 7, us(24)..us(25))
        .graph_node(2, 8_589_934_596);
    // An argument `name` outside graphs is no annotation.
    t.thread(1).launch(us(30)..us(32)).kernel("e", 7, us(33)..us(34)).arg("name", "else");
    for recorder in [TestRecorder::Kineto, CUSPY] {
        let (trace, answer) = read(&t, recorder);
        assert_eq!(trace.meta.recorder == Recorder::Cuspy, recorder == CUSPY);
        let ops = texts(&answer, "op");
        assert_eq!(ops, ["", "attention", "attention backward", "loss backward", "", ""]);
        let sources = texts(&answer, "op_source");
        assert_eq!(sources, ["", "annotation", "annotation", "annotation", "", ""]);
        let streams: Vec<i64> = answer.rows("kernels").iter().map(|r| r.int("stream")).collect();
        assert_eq!(streams, [7; 6]);
        let summary = &answer.rows("graph_summary")[0];
        assert_eq!((summary.int("named_count"), summary.int("unnamed_ns")), (3, 1000));
        let of_graphs = answer
            .rows_where("user_annotations", |r| r.text("side") == "graph" && r.text("scope") == "capture");
        let mut named: Vec<_> =
            of_graphs.iter().map(|r| (r.text("name"), r.int("range_sum_ns"), r.int("gpu_self_ns"))).collect();
        named.sort_unstable();
        let want =
            [("attention", 1000, 1000), ("attention backward", 1000, 1000), ("loss backward", 1000, 1000)];
        assert_eq!(named, want);
    }
}

#[test]
fn a_named_part_of_a_graph_is_no_operator() {
    let mut t = signed();
    t.thread(1)
        .graph_launch(us(10)..us(20))
        .kernel("a", 7, us(21)..us(90))
        .graph_node(2, 8_589_934_593)
        .arg("name", "attention");
    let (_, answer) = read(&t, CUSPY);
    let verdict = answer.outcome.outputs.iter().find_map(|(_, o)| o.verdict.as_ref()).expect("a verdict");
    let told: Vec<&str> = verdict.operators.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(told, ["attention (graph)"]);
}

#[test]
fn edges_between_nodes_are_no_launches() {
    let flow = |id: u64| {
        format!(r#"{{"ph": "s", "id": {id}, "pid": 0, "tid": 7, "ts": 1.0, "cat": "ac2g", "name": "ac2g"}}"#)
    };
    let mut t = signed();
    t.thread(1).launch(us(10)..us(20)).kernel("k", 7, us(21)..us(22)).graph_node(2, 0);
    t.raw_event(flow(2));
    t.raw_event(flow(1 << 40));
    assert_eq!(read(&t, CUSPY).0.columns.launch_flows, [2]);
    assert_eq!(read(&t, TestRecorder::Kineto).0.columns.launch_flows, [2, 1 << 40]);
}

#[test]
fn ranks_of_both_recorders_are_one_job() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let files = [(0, TestRecorder::Kineto), (1, CUSPY)].map(|(rank, recorder)| {
        let mut t = TraceBuilder::new().rank(rank).world(2).device("NVIDIA H100", 132);
        let mut main = t.thread(1);
        main.call(Call::Copy, us(0)..us(2)).memcpy("HtoD (Pinned -> Device)", 7, 64, us(3)..us(4));
        main.launch(us(10)..us(20)).kernel("k", 7, us(21)..us(22));
        written(&folder, &format!("rank_{rank}.json"), &t, recorder)
    });
    let ranks = answer(&files, &options()).rows("ranks");
    let recorders: Vec<_> = ranks.iter().map(|r| r.text("recorder")).collect();
    assert_eq!(recorders, ["kineto", "cuspy"]);
}

//! Graphs of recordings of vLLM and SGLang, named by a recorded capture: the known numbers, to the nanosecond, and those
//! of TraceLens.

use crate::run::{Answer, Record, answer, one, options};
use crate::shared;
use hta::read::discover::discover;
use hta::read::options::LoadOptions;
use hta::run::read_captures;
use std::path::PathBuf;
use std::sync::Arc;

const VD: &str = "inference_vllm_decode_full_graph_execution.json.gz";
const VC: &str = "inference_vllm_decode_full_capture/graph_capture_rank_0.json.gz";
const SD: &str = "inference_sglang_decode_sglang_Qwen3-8B_decode.json.gz";
const B3: &str = "sgl_semantic_purity_deepseek_r1_B300_1782843274.7730265-TP-0-DECODE.trace.json.gz";
const M3: &str = "sgl_semantic_purity_deepseek_r1_MI300_1782841132.2905657-TP-0-DECODE.trace.json.gz";

fn file(name: &str) -> Option<PathBuf> {
    Some(shared::folder()?.trace(&format!("tracelens/{name}")))
}

/// A recording, with a capture.
fn read(name: &str, capture: Option<&str>) -> Option<Answer> {
    let mut options = options();
    if let Some(capture) = capture {
        let inputs = discover(&[file(capture)?]).unwrap();
        options.model.graph_captures = Arc::new(read_captures(&inputs, LoadOptions::default()).unwrap());
    }
    Some(answer(&[file(name)?], &options))
}

/// Operator, kernels, time (ns) and what TraceLens says, us.
const OPERATORS: [(&str, i64, i64, f64); 12] = [
    ("vllm::moe_forward", 72, 7_171_530, 7_171.532),
    ("aten::addmm", 72, 953_882, 953.878),
    ("vllm::unified_attention_with_output", 36, 724_360, 724.361),
    ("SortTokens", 72, 375_127, 375.118),
    ("aiter::rmsnorm2d_fwd_with_add_ck", 48, 326_031, 326.038),
    ("triton_poi_fused__to_copy_1", 23, 292_376, 292.374),
    ("_C::rotary_embedding", 24, 149_735, 149.738),
    ("_C_cache_ops::reshape_and_cache_flash", 24, 136_415, 136.410),
    ("triton_poi_fused_constant_pad_nd_moe_forward_0", 24, 122_615, 122.610),
    ("TopK", 24, 119_814, 119.814),
    ("triton_poi_fused_0", 1, 10_598, 10.598),
    ("aiter::rms_norm", 1, 5_999, 5.999),
];

#[test]
fn every_kernel_of_the_decode_graph_of_vllm_has_the_operator_of_the_capture() {
    let Some(a) = read(VD, Some(VC)) else { return };
    let graph = one(a.rows("graphs"));
    let counts = ["replay_count", "activity_count", "captured_count", "matched_count", "named_count"];
    assert_eq!(counts.map(|c| graph.int(c)), [1, 421, 421, 421, 421]);
    assert_eq!([graph.text("op_source"), graph.text("capture")], ["exact", "capture_32_FULL"]);
    assert_eq!((graph.int("padded_batch"), graph.int("named_ns")), (32, 10_388_482));
    let found: Vec<(String, i64, i64)> = a
        .rows("graph_ops")
        .iter()
        .map(|r| (r.text("op").to_string(), r.int("activity_count"), r.int("sum_ns")))
        .collect();
    let known: Vec<_> = OPERATORS.iter().map(|(op, n, ns, _)| ((*op).to_string(), *n, *ns)).collect();
    assert_eq!(found, known);
    for (op, _, ns, tracelens) in OPERATORS {
        // Its times are f64 microseconds near 6.5e12.
        assert!((ns as f64 / 1e3 - tracelens).abs() < 0.011, "{op}");
    }
    let instances: i64 = a.rows("graph_ops").iter().map(|r| r.int("operator_count")).sum();
    assert_eq!(instances, 313);
    let told = "named 421 of 421 graph activities, 0.0 % of GPU time unnamed".to_string();
    assert!(a.notes("graph-ops").contains(&told) && a.notes("ops").contains(&told), "{:?}", a.notes("ops"));
}

#[test]
fn operators_modules_and_kernels_use_the_names() {
    let Some(a) = read(VD, Some(VC)) else { return };
    for (op, kernels, ns, _) in OPERATORS {
        let rows = a.rows_where("operators", |r| r.text("name") == op && r.text("scope") == "capture");
        let row = one(rows);
        assert_eq!((row.int("graph_self_ns"), row.int("kernel_count") >= kernels), (ns, true), "{op}");
    }
    let modules: Vec<(String, i64, i64)> = a
        .rows_where("modules", |r| r.int("gpu_self_ns") > 0)
        .iter()
        .map(|r| (r.text("path").to_string(), r.int("gpu_self_ns"), r.int("gpu_ns")))
        .collect();
    let outer = "GptOssForCausalLM_0/GraphModule_0".to_string();
    let inner = format!("{outer}/GraphModule_0");
    assert_eq!(modules, [(outer, 9_527_707, 10_388_482), (inner, 860_775, 860_775)]);
    let nodes = a.rows("graph_nodes");
    let paths: std::collections::BTreeSet<&str> = nodes.iter().map(|r| r.text("module")).collect();
    assert_eq!(paths.len(), 2);
    let named = a.rows_where("kernels", |r| r.text("op_source") == "exact");
    assert_eq!(named.len(), 421);
    let repeats = nodes.iter().filter_map(|r| r.opt_int("repeat")).collect::<Vec<_>>();
    assert_eq!((repeats.len(), repeats.first(), repeats.last()), (385, Some(&0), Some(&10)));
}

#[test]
fn weights_and_keys_are_read_at_the_known_rates() {
    let Some(a) = read(VD, Some(VC)) else { return };
    let rows = a.rows("decode_bandwidth");
    let shape = |op: &str, shape: &str| {
        one(rows.iter().filter(|r| r.text("op") == op && r.text("shape") == shape).cloned().collect())
    };
    let pct = |r: &Record| (r.float("peak_pct").unwrap() * 10.0).round() / 10.0;
    let head = shape("aten::mm", "2880x201088");
    assert_eq!((head.int("bytes"), head.int("busy_ns"), pct(&head)), (1_158_266_880, 276_678, 79.0));
    assert_eq!(pct(&shape("aten::addmm", "2880x5120")), 34.5);
    assert_eq!(pct(&shape("aten::addmm", "4096x2880")), 29.2);
    assert_eq!(pct(&shape("aten::addmm", "2880x32")), 0.4);
    let kv: Vec<Record> = rows.iter().filter(|r| r.text("kind") == "kv").cloned().collect();
    assert_eq!(
        kv.iter().map(|r| (r.int("count"), r.int("bytes"))).collect::<Vec<_>>(),
        [(12, 12 * 112_816_128); 2]
    );
    let told: Vec<_> = kv.iter().filter_map(|r| r.float("gb_per_s")).collect();
    assert_eq!(told.iter().map(|r| r.round()).collect::<Vec<_>>(), [2_406.0]);
    let none = kv.iter().find(|r| r.float("gb_per_s").is_none()).unwrap();
    assert!(none.text("reason").contains("over-counted"));
    let weights = one(a.rows_where("decode_bandwidth_summary", |r| r.text("kind") == "weights"));
    assert_eq!(["count", "bytes", "busy_ns"].map(|c| weights.int(c)), [73, 2_436_710_400, 1_230_560]);
    let rounded = |c: &str| (weights.float(c).unwrap() * 10.0).round() / 10.0;
    assert_eq!((rounded("peak_pct"), rounded("coverage_pct")), (37.4, 11.5));
}

#[test]
fn layers_repeat_without_a_capture() {
    // Block, number, start, median of the sums (ns) where it is known.
    let known = [
        (VD, [35, 11, 3], Some(878_200)),
        (SD, [15, 36, 2], Some(250_359)),
        (B3, [11, 32, 2], Some(117_249)),
        (M3, [11, 32, 2], None),
    ];
    for (name, repeat, median) in known {
        let Some(a) = read(name, None) else { return };
        let graph = one(a.rows("graphs"));
        assert_eq!(["repeat_length", "repeat_count", "repeat_start"].map(|c| graph.int(c)), repeat, "{name}");
        let found = graph.int("repeat_median_ns");
        assert!(median.is_none_or(|m| m == found), "{name}: {found}");
        assert_eq!((graph.text("op_source"), graph.text("reject")), ("none", "no capture"), "{name}");
        let summary = one(a.rows("graph_summary"));
        // On MI300 two branches of the graph run in another order than that of the file.
        assert_eq!(summary.int("reordered_count"), i64::from(name == M3), "{name}");
        assert_eq!(summary.int("named_count"), 0, "{name}");
    }
}

#[test]
fn a_capture_given_as_a_run_is_told_and_launched_little() {
    let Some(a) = read(VC, None) else { return };
    let told = "a capture trace: 421 launches recorded into 1 graph; give it with --graph-capture to the run that \
                replays them";
    assert!(a.notes("graph-ops").iter().any(|n| n == told), "{:?}", a.notes("graph-ops"));
    // Seven kernels and three copies.
    assert_eq!(a.rows("launches").len(), 10);
    assert_eq!(a.rows_where("record_edges", |r| r.text("case") == "lost_tail").len(), 0);
}

#[test]
fn a_capture_of_another_engine_names_nothing() {
    let Some(a) = read(SD, Some(VC)) else { return };
    let graph = one(a.rows("graphs"));
    assert_eq!(
        (graph.text("op_source"), graph.text("reject"), graph.int("named_count")),
        ("none", "another length", 0)
    );
}

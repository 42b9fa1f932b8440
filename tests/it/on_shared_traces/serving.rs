//! Recordings of vLLM and SGLang have the known numbers, to the nanosecond.

use crate::run::{Answer, Record, answer, one, options};
use crate::shared;
use std::path::PathBuf;

const VD: &str = "inference_vllm_decode_full_graph_execution.json.gz";
const SD: &str = "inference_sglang_decode_sglang_Qwen3-8B_decode.json.gz";
const B3: &str = "sgl_semantic_purity_deepseek_r1_B300_1782843274.7730265-TP-0-DECODE.trace.json.gz";
const M3: &str = "sgl_semantic_purity_deepseek_r1_MI300_1782841132.2905657-TP-0-DECODE.trace.json.gz";

fn file(name: &str) -> Option<PathBuf> {
    Some(shared::folder()?.trace(&format!("tracelens/{name}")))
}

fn read(name: &str) -> Option<Answer> {
    Some(answer(&[file(name)?], &options()))
}

/// Known numbers of the only iteration of a file.
struct Known {
    file: &'static str,
    engine: &'static str,
    label: &'static str,
    /// Requests, tokens, KV tokens.
    batch: [i64; 3],
    host_dur: i64,
    /// Since the first event; `None` without a lead.
    lead: Option<i64>,
    /// All, of the iteration, post.
    activities: [i64; 3],
    window: i64,
    busy: i64,
    sum: i64,
    /// Before the graph, in the graph launch call, rest.
    idle: [i64; 3],
    /// Activities, sum, idle time inside.
    graph: [i64; 3],
    lag: i64,
    post: i64,
    /// After the range, and exposed.
    host_after: [i64; 2],
    host_bound: bool,
    tokens_per_s: f64,
    categories: &'static [(&'static str, i64, i64)],
}

const KNOWN: [Known; 4] = [
    Known {
        file: VD,
        engine: "vllm",
        label: "decode 32 req 32 tok kv 1721",
        batch: [32, 32, 55_086],
        host_dur: 2_408_598,
        lead: Some(8_370_878),
        activities: [434, 434, 0],
        window: 10_743_181,
        busy: 10_717_708,
        sum: 10_717_708,
        idle: [0, 0, 25_473],
        graph: [421, 10_388_482, 420],
        lag: 16_705_461,
        post: 0,
        host_after: [0, 0],
        host_bound: false,
        tokens_per_s: 2_978.6,
        categories: &[
            ("moe gemm", 48, 7_034_595),
            ("gemm", 73, 1_230_560),
            ("moe routing", 144, 754_491),
            ("attention", 36, 724_360),
            ("normalization", 49, 332_030),
            ("elementwise", 25, 307_413),
            ("elementwise rope", 24, 149_735),
            ("gather_scatter kv_cache", 24, 136_415),
            ("layout copy_gather", 11, 48_109),
        ],
    },
    Known {
        file: SD,
        engine: "sglang",
        label: "decode 32 req 32 tok kv 1025",
        batch: [32, 32, 32_785],
        host_dur: 465_716_634,
        lead: Some(463_380_240),
        activities: [558, 558, 0],
        window: 10_450_292,
        busy: 9_768_680,
        sum: 9_778_614,
        idle: [384_578, 287_828, 9_206],
        graph: [544, 9_656_404, 274_232],
        lag: 8_113_898,
        post: 0,
        host_after: [0, 0],
        host_bound: false,
        tokens_per_s: 3_062.1,
        categories: &[
            ("gemm", 145, 5_782_257),
            ("attention", 72, 2_127_869),
            ("normalization", 145, 683_953),
            ("layout copy_gather", 81, 404_204),
            ("elementwise activation", 36, 324_367),
            ("elementwise rope", 36, 195_815),
            ("gather_scatter kv_cache", 37, 178_952),
            ("sort_topk sampling", 3, 66_016),
            ("elementwise", 3, 15_181),
        ],
    },
    Known {
        file: B3,
        engine: "sglang",
        label: "decode 16 req 16 tok kv 513",
        batch: [16, 16, 8_209],
        host_dur: 3_874_768,
        lead: None,
        activities: [397, 373, 24],
        window: 5_502_829,
        busy: 3_642_973,
        sum: 4_000_457,
        idle: [1_232_498, 616_345, 11_013],
        graph: [356, 3_935_849, 0],
        lag: 3_236_301,
        post: 133_569,
        host_after: [2_300_855, 0],
        host_bound: true,
        tokens_per_s: 2_907.6,
        categories: &[
            ("gemm", 161, 3_003_160),
            ("attention", 32, 363_433),
            ("normalization", 65, 269_766),
            ("elementwise activation", 32, 125_345),
            ("elementwise rope", 32, 98_625),
            ("gather_scatter kv_cache", 32, 54_656),
            ("layout copy_gather", 10, 34_528),
            ("sort_topk sampling", 3, 32_864),
            ("elementwise", 6, 18_080),
        ],
    },
    Known {
        file: M3,
        engine: "sglang",
        label: "decode 16 req 16 tok kv 513",
        batch: [16, 16, 8_209],
        host_dur: 1_676_664,
        lead: None,
        activities: [389, 369, 20],
        window: 8_828_018,
        busy: 8_008_614,
        sum: 8_013_530,
        idle: [797_039, 10_860, 11_505],
        graph: [356, 7_931_461, 355],
        lag: 7_454_556,
        post: 276_701,
        host_after: [1_238_063, 0],
        host_bound: false,
        tokens_per_s: 1_812.4,
        categories: &[
            ("gemm", 129, 4_292_920),
            ("attention", 64, 1_582_260),
            ("normalization", 65, 905_257),
            ("elementwise activation", 32, 424_369),
            ("gather_scatter kv_cache", 33, 414_208),
            ("elementwise rope", 32, 297_528),
            ("sort_topk sampling", 3, 46_397),
            ("layout copy_gather", 8, 40_392),
            ("elementwise", 3, 10_199),
        ],
    },
];

#[test]
fn the_iteration_of_each_recording_has_the_known_numbers() {
    for k in &KNOWN {
        let Some(a) = read(k.file) else { return };
        let r = one(a.rows("iterations"));
        let ints = |columns: &[&str]| columns.iter().map(|c| r.int(c)).collect::<Vec<_>>();
        assert_eq!(
            [r.text("engine"), r.text("phase"), r.text("label")],
            [k.engine, "decode", k.label],
            "{}",
            k.file
        );
        assert_eq!(ints(&["requests", "tokens", "kv_tokens"]), k.batch, "{}", k.file);
        assert_eq!(r.int("host_dur_ns"), k.host_dur, "{}", k.file);
        let ranks = one(a.rows("ranks"));
        let start = r.int("ts_ns") - ranks.int("first_ts_ns");
        assert!(k.lead.is_none_or(|lead| start == lead), "{}: {start}", k.file);
        assert_eq!([ranks.int("activity_count"), r.int("activity_count"), r.int("post_count")], k.activities);
        assert_eq!(ints(&["dur_ns", "period_ns"]), [k.window, k.window], "{}", k.file);
        assert_eq!(ints(&["window_busy_ns", "gpu_sum_ns"]), [k.busy, k.sum], "{}", k.file);
        let idle = ["idle_before_graph_ns", "idle_in_graph_call_ns", "idle_rest_ns"];
        assert_eq!(ints(&idle), k.idle, "{}", k.file);
        assert_eq!(r.int("idle_ns"), k.window - k.busy, "{}", k.file);
        let graph = ["graph_activity_count", "graph_sum_ns", "graph_idle_inside_ns"];
        assert_eq!((r.int("graph_launch_count"), ints(&graph)), (1, k.graph.to_vec()), "{}", k.file);
        assert_eq!(ints(&["lag_ns", "post_work_ns"]), [k.lag, k.post], "{}", k.file);
        assert_eq!(ints(&["host_after_ns", "host_exposed_ns"]), k.host_after, "{}", k.file);
        let flag = |c: &str| r.cell(c).as_bool().unwrap();
        assert_eq!(flag("is_host_bound"), k.host_bound, "{}", k.file);
        assert_eq!(flag("is_first"), k.lead.is_none(), "{}", k.file);
        assert_eq!(r.text("basis"), "window", "{}", k.file);
        assert!((r.float("tokens_per_s").unwrap() - k.tokens_per_s).abs() < 0.05, "{}", k.file);
        let rows = a.rows("iteration_categories");
        let name = |r: &Record| format!("{} {}", r.text("category"), r.text("sub_category"));
        let categories: Vec<(String, i64, i64)> = rows
            .iter()
            .map(|r| (name(r).trim_end().to_string(), r.int("activity_count"), r.int("sum_ns")))
            .collect();
        let known: Vec<(String, i64, i64)> =
            k.categories.iter().map(|(name, count, ns)| (name.to_string(), *count, *ns)).collect();
        assert_eq!(categories, known, "{}", k.file);
    }
}

#[test]
fn one_range_is_a_step_and_its_number_is_no_label() {
    for k in &KNOWN {
        let Some(a) = read(k.file) else { return };
        let ranks = one(a.rows("ranks"));
        assert_eq!((ranks.text("step_rule"), ranks.int("step_count")), ("iteration", 1), "{}", k.file);
        let step = one(a.rows("steps"));
        assert_eq!((step.opt_int("step_label"), step.int("dur_ns")), (None, k.window), "{}", k.file);
        let window = one(a.rows_where("temporal_breakdown", |r| r.text("scope") == "step"));
        assert_eq!([window.int("dur_ns"), window.int("busy_ns")], [k.window, k.busy], "{}", k.file);
    }
}

#[test]
fn the_diagnosis_tells_the_gap_and_its_owner_or_how_busy_the_gpu_is() {
    let first = |name: &str| -> Option<(Vec<String>, String)> {
        let a = read(name)?;
        for (analysis, output) in &a.outcome.outputs {
            for said in output.sentences.iter().chain(output.notes.iter().map(|note| &note.text)) {
                assert!(!said.contains("CUDA graphs"), "{name}: {}: {said}", analysis.stem());
            }
        }
        let findings = a.rows_where("findings", |r| r.text("kind") != "not_explained");
        for f in &findings {
            assert!(!f.text("action").to_lowercase().contains("cuda graph"), "{name}: {}", f.text("action"));
            assert!(!f.text("action").contains("torch.compile"), "{name}: {}", f.text("action"));
        }
        let kinds = findings.iter().map(|r| r.text("kind").to_string()).collect();
        let lines = a.rows("verdict").iter().map(|r| r.text("text").to_string()).collect::<Vec<_>>();
        Some((kinds, lines.join(" ")))
    };
    let Some((kinds, line)) = first(VD) else { return };
    assert_eq!(kinds, [""; 0]);
    let busy = "The GPU is busy 99.8 % of the time in 1 iteration; moe is 71.8 % of the compute";
    assert!(line.contains(busy), "{line}");
    let (_, line) = first(SD).unwrap();
    assert!(line.contains("The GPU is busy 93.5 % of the time in 1 iteration"), "{line}");
    let (kinds, line) = first(B3).unwrap();
    assert_eq!(kinds, ["graph_launch", "graph_preparation"]);
    assert!(line.contains("(first iteration after the profiler started)"), "{line}");
    let a = read(B3).unwrap();
    let owned = a.rows_where("findings", |r| r.text("kind") != "not_explained");
    assert_eq!(owned.iter().map(|r| r.int("owned_ns")).collect::<Vec<_>>(), [616_345, 1_232_498]);
    let (kinds, _) = first(M3).unwrap();
    assert_eq!(kinds, ["graph_preparation"]);
}

/// What is never said of a rank that replays graphs and serves: these words in any finding or note.
const WITHHELD: [&str; 14] = [
    "CUDA graph",
    "HIP graph",
    "torch.compile",
    "launch bound",
    "one by one",
    "critical path",
    "autocast",
    "scaler",
    "data loader",
    "DataLoader",
    "checkpoint",
    "gradient",
    "exposed communication",
    "straggler",
];

#[test]
fn general_advice_is_withheld_from_ranks_that_serve() {
    for name in [VD, SD, B3, M3] {
        let Some(a) = read(name) else { return };
        let outputs = || a.outcome.outputs.iter().map(|(_, output)| output);
        let notes = outputs().flat_map(|o| o.notes.iter().map(|note| note.text.clone()));
        let sentences = outputs().flat_map(|o| o.sentences.clone());
        let findings = a.rows("findings");
        let found = findings.iter().map(|r| format!("{} {}", r.text("sentence"), r.text("action")));
        for said in notes.chain(sentences).chain(found) {
            for words in WITHHELD {
                assert!(!said.contains(words), "{name}: `{words}` in: {said}");
            }
        }
        // ROCm graphs carry neither grid nor block, so nothing is said about multiprocessors.
        let known = a.rows_where("counters", |r| {
            r.text("counter") == "sm_efficiency_ratio" && !r.cell("value").is_null()
        });
        assert!(name == B3 || known.is_empty(), "{name}: {known:?}");
    }
}

#[test]
fn idle_time_behind_the_lead_and_of_the_profiler_is_in_no_finding() {
    for name in [VD, SD, M3, B3] {
        let Some(a) = read(name) else { return };
        let lead = a.rows_where("record_edges", |r| r.text("scope") == "lead");
        let (first, capture) =
            (one(a.rows("ranks")), one(a.rows_where("temporal_breakdown", |r| r.text("scope") == "capture")));
        let lead: i64 = lead.iter().map(|r| r.int("to_ns") - r.int("from_ns")).sum();
        assert_eq!(capture.int("ts_ns") - first.int("first_ts_ns"), lead, "{name}");
        // The account of the diagnosis is the iteration's period, which is its window.
        let account: i64 = a.rows("time_account").iter().map(|r| r.int("time_ns")).sum();
        assert_eq!(account, one(a.rows("iterations")).int("dur_ns"), "{name}");
        let kinds = ["host_sync", "copy_sync", "copy_pageable", "host_pause", "host_python"];
        let waits = a.rows_where("findings", |r| kinds.contains(&r.text("kind")));
        assert!(waits.is_empty(), "{name}: {waits:?}");
    }
}

/// A recording and two copies of it, each 10 ms after the one before.
fn three(name: &str) -> Option<serde_json::Value> {
    let packed = std::fs::File::open(file(name)?).unwrap();
    let mut trace: serde_json::Value = serde_json::from_reader(flate2::read::GzDecoder::new(packed)).unwrap();
    let events = trace["traceEvents"].as_array().unwrap().clone();
    let mut all = Vec::new();
    for k in 0..3i64 {
        for event in &events {
            let mut e = event.clone();
            if let Some(ts) = e["ts"].as_f64() {
                e["ts"] = serde_json::json!(ts + 10_000.0 * k as f64);
            }
            for at in ["correlation", "External id", "Python id", "Python parent id"] {
                if let Some(id) = e["args"][at].as_i64() {
                    e["args"][at] = serde_json::json!(id + 10_000_000 * k);
                }
            }
            let is_flow = e["cat"] == "ac2g" || e["cat"] == "fwdbwd";
            if let Some(id) = e["id"].as_i64().filter(|_| is_flow) {
                e["id"] = serde_json::json!(id + 10_000_000 * k);
            }
            all.push(e);
        }
    }
    trace["traceEvents"] = serde_json::Value::Array(all);
    Some(trace)
}

#[test]
fn three_copies_of_an_iteration_have_periods_and_bubbles() {
    let Some(trace) = three(B3) else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rank_0.json");
    std::fs::write(&path, trace.to_string()).unwrap();
    let a = answer(&[path], &options());
    let rows = a.rows("iterations");
    // Adding to microseconds as f64 moves times by less than a nanosecond, which rounds to one at most.
    let is_near = |r: &Record, column: &str, known: i64| {
        let found = r.int(column);
        assert!((found - known).abs() <= 2, "{column}: {found}, known {known}");
    };
    assert_eq!(rows.len(), 3);
    for (k, r) in rows.iter().enumerate() {
        is_near(r, "dur_ns", 5_502_829);
        if k < 2 {
            is_near(r, "period_ns", 10_000_000);
            is_near(r, "gap_ns", 4_497_171);
            is_near(r, "post_busy_ns", 0);
            is_near(r, "host_after_ns", 6_125_232);
            // Idle time behind the range on the host and the window of its work, which ends 10 us later.
            is_near(r, "host_exposed_ns", 2_888_931);
            assert_eq!(r.text("basis"), "period");
            assert!((r.float("tokens_per_s").unwrap() - 1_600.0).abs() < 0.01);
        } else {
            is_near(r, "period_ns", 5_502_829);
            assert_eq!((r.text("basis"), r.opt_int("gap_ns")), ("window", None));
        }
    }
}

#[test]
fn a_capture_trace_has_no_iterations() {
    let name = "inference_vllm_decode_full_capture/graph_capture_rank_0.json.gz";
    let Some(a) = read(name) else { return };
    assert_eq!(a.rows("iterations").len(), 0);
    assert_eq!(one(a.rows("ranks")).text("step_rule"), "capture");
}

//! Edges of the recording of real traces: hidden work before it, a lost tail behind it.

use crate::analyses::record_edges::*;
use crate::run::{Answer, answer, one, options, rank_trace, try_trace};
use crate::shared;
use serde_json::Value;
use std::path::{Path, PathBuf};

fn tracelens(name: &str) -> Option<PathBuf> {
    Some(shared::folder()?.trace(&format!("tracelens/{name}")))
}

const VD: &str = "inference_vllm_decode_full_graph_execution.json.gz";
const SD: &str = "inference_sglang_decode_sglang_Qwen3-8B_decode.json.gz";
const B3: &str = "sgl_semantic_purity_deepseek_r1_B300_1782843274.7730265-TP-0-DECODE.trace.json.gz";
const M3: &str = "sgl_semantic_purity_deepseek_r1_MI300_1782841132.2905657-TP-0-DECODE.trace.json.gz";

fn real(name: &str) -> Option<Answer> {
    Some(answer(&[tracelens(name)?], &options()))
}

/// Delays of the launches that were not queued behind unrecorded work.
fn clean_delays(answer: &Answer) -> Vec<i64> {
    let clean = answer.rows_where("launches", |r| r.cell("behind_unrecorded") == Value::Bool(false));
    let mut delays: Vec<i64> = clean.iter().filter_map(|r| r.opt_int("delay_ns")).collect();
    delays.sort_unstable();
    delays
}

#[test]
fn a_decode_step_of_vllm_is_busy_behind_its_lead() {
    let Some(a) = real(VD) else { return };
    let lead = edges(&a, "hidden_work");
    assert_eq!((lead[0].0.as_str(), lead[0].2, lead[0].3), ("lead", 8_370_878, 14));
    assert!(clean_delays(&a).is_empty());
    for scope in ["span", "capture"] {
        let r = one(of_scope(&a, "temporal_breakdown", scope));
        assert_eq!(
            ["dur_ns", "busy_ns", "idle_ns"].map(|c| r.int(c)),
            [10_743_181, 10_717_708, 25_473],
            "{scope}"
        );
    }
    let first = a.rows("record_edges");
    assert!(first.iter().all(|r| r.cell("excerpt") == Value::Bool(true)));
    let told = a.outcome.outputs.iter().find_map(|(_, o)| o.verdict.clone()).expect("a verdict");
    assert!(told.recorded.contains("43.8 % of the file is work launched before"), "{}", told.recorded);
}

#[test]
fn a_decode_step_of_sglang_is_not_idle_for_half_a_second() {
    let Some(a) = real(SD) else { return };
    let lead = edges(&a, "hidden_work");
    let of = |e: &(String, i64, i64, i64, i64)| (e.0.clone(), e.2, e.3);
    assert_eq!(
        lead.iter().map(of).collect::<Vec<_>>(),
        [("lead".to_string(), 463_380_240, 5), (String::new(), 463_380_240, 5)]
    );
    let delays = clean_delays(&a);
    assert_eq!((delays.len(), delays[4] + delays[5]), (10, 9_885));
    let r = one(of_scope(&a, "temporal_breakdown", "capture"));
    assert_eq!(["dur_ns", "busy_ns"].map(|c| r.int(c)), [10_450_292, 9_768_680]);
    let wait = one(a.rows_where("record_edges", |r| r.text("case") == "host_wait"));
    assert_eq!(wait.text("evidence"), "`hipMemcpyWithStream` waited for work from before the capture");
    assert_eq!(edges(&a, "host_wait")[0].1, 361_701);
    // The kernel on another stream in the lead keeps its row.
    let first = one(a.rows("ranks")).int("first_ts_ns");
    assert_eq!(a.rows_where("kernels", |r| r.int("ts_ns") - first < 463_380_240).len(), 1);
}

#[test]
fn the_only_long_waits_of_two_decode_steps_are_the_profilers() {
    for (name, call, ns) in [(M3, "hipDeviceSynchronize", 5_582_400), (B3, "cudaDeviceSynchronize", 778_900)]
    {
        let Some(a) = real(name) else { return };
        assert_eq!(edges(&a, "hidden_work"), [], "{name}");
        assert_eq!(edges(&a, "lost_tail"), [], "{name}");
        let found = edges(&a, "profiler");
        assert!(found.iter().any(|e| (e.2 - e.1 - ns).abs() < 100), "{name}: {found:?}");
        let rows = a.rows_where("record_edges", |r| r.text("case") == "profiler");
        assert!(rows.iter().any(|r| r.text("evidence").starts_with(&format!("`{call}` in `"))), "{name}");
        assert!(rows.iter().all(|r| r.cell("excerpt") == Value::Bool(false)), "{name}");
    }
}

/// A trace without the device rows that start `t` us after the first event or later, and the number of these.
fn cut(name: &str, t: f64, folder: &Path) -> Option<(PathBuf, usize)> {
    let packed = std::fs::File::open(tracelens(name)?).unwrap();
    let mut trace: Value = serde_json::from_reader(flate2::read::GzDecoder::new(packed)).unwrap();
    let events = trace["traceEvents"].as_array_mut().unwrap();
    let ts = |e: &Value| e["ts"].as_f64();
    let first = events
        .iter()
        .filter(|e| e["ph"] == "X" && e["cat"] != "Trace")
        .filter_map(ts)
        .min_by(f64::total_cmp)
        .unwrap();
    let before = events.len();
    let is_gpu = |e: &Value| ["kernel", "gpu_memcpy", "gpu_memset"].iter().any(|c| e["cat"] == *c);
    events.retain(|e| !(e["ph"] == "X" && is_gpu(e) && ts(e).is_some_and(|ts| ts - first >= t)));
    let removed = before - events.len();
    let path = folder.join("rank_0.json");
    std::fs::write(&path, trace.to_string()).unwrap();
    Some((path, removed))
}

#[test]
fn a_tail_that_is_cut_off_is_found() {
    let folder = tempfile::tempdir().unwrap();
    for (name, t, removed, without, after, graph) in
        [(B3, 5_000.0, 265, 12, 9, 103), (M3, 3_000.0, 298, 8, 5, 66), (SD, 465_660.0, 459, 4, 4, 89)]
    {
        let Some((path, found)) = cut(name, t, folder.path()) else { return };
        assert_eq!(found, removed, "{name}");
        let a = answer(std::slice::from_ref(&path), &options());
        let tails = edges(&a, "lost_tail");
        assert_eq!(tails.iter().map(|e| e.3).collect::<Vec<_>>(), [after], "{name}");
        let capture = one(of_scope(&a, "temporal_breakdown", "capture"));
        let first = one(a.rows("ranks")).int("first_ts_ns");
        assert_eq!(capture.int("ts_ns") + capture.int("dur_ns") - first, tails[0].1, "{name}");
        assert_eq!(tails[0].2 + first, one(a.rows("ranks")).int("last_ts_ns"), "{name}");
        let launches = a.rows("launches");
        let most = launches
            .iter()
            .filter(|r| r.text("api").contains("GraphLaunch"))
            .map(|r| r.int("activity_count"));
        assert_eq!(most.collect::<Vec<_>>(), [graph], "{name}");
        // Calls without activities, including copies.
        let trace = rank_trace(&path, 0);
        let is_launch =
            |n: &str| ["launch", "memcpy", "memset"].iter().any(|p| n.to_ascii_lowercase().contains(p));
        let own = |row: u32| !trace.launches().of(row).is_empty();
        let calls =
            (0..trace.columns.len() as u32).filter(|&r| trace.classes[r as usize].name() == "runtime_call");
        assert_eq!(calls.filter(|&r| is_launch(trace.name(r)) && !own(r)).count(), without, "{name}");
    }
}

#[test]
fn of_all_real_traces_two_begin_behind_hidden_work_and_none_loses_its_tail() {
    let Some(root) = shared::folder() else { return };
    let (mut hidden, mut cut) = (Vec::new(), Vec::new());
    for path in shared::files_below(&root.traces()) {
        let Some(trace) = try_trace(&path) else { continue };
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !trace.edges.tails.is_empty() {
            cut.push(name);
            continue;
        }
        if !trace.edges.leads().is_empty() {
            hidden.push(name);
        } else {
            assert_eq!(trace.capture, trace.recorded, "{name}");
        }
    }
    hidden.sort();
    assert_eq!(hidden, [SD, VD]);
    cut.sort();
    // Synthetic ones, whose last call (`cuLaunchKernel`, correlation 900) has no kernel.
    let names =
        ["lanes", "meta", "plain"].map(|name| [format!("{name}.json.gz"), format!("{name}.pftrace.gz")]);
    assert_eq!(cut, names.concat());
}

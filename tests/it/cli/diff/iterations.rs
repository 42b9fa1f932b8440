//! Two recordings of an engine, compared by phase and batch.

use hta_testkit::{TraceBuilder, us};
use serde_json::Value;
use std::process::Command;

/// Iterations that begin every `period` us, each with a name and one kernel of so many us.
///
/// ```text
///   host     [iteration          )                  [iteration        0..100 of each period
///   call       l                                                      10..15
///   stream       [kernel               )                              20..20 + kernel
/// ```
pub fn recorded(period: i64, iterations: &[(&str, i64)]) -> TraceBuilder {
    let mut t = TraceBuilder::new().rank(0).world(1).device("NVIDIA H100", 132);
    let mut main = t.thread(1);
    for (start, (name, kernel)) in (0..).map(|k| us(period * k)).zip(iterations) {
        main.annotation(name, start..start + us(100));
        main.launch(start + us(10)..start + us(15)).kernel(
            "gemm",
            7,
            start + us(20)..start + us(20 + kernel),
        );
    }
    t
}

pub const DECODE_4: &str = "execute_context_0(0)_generation_4(4)";
const DECODE_8: &str = "execute_context_0(0)_generation_8(8)";
const PREFILL: &str = "execute_context_1(64)_generation_0(0)";

fn sides() -> (TraceBuilder, TraceBuilder) {
    let (before, after) = ((DECODE_4, 200), (DECODE_4, 240));
    (
        recorded(500, &[before, before, before, before, before, (PREFILL, 300)]),
        recorded(550, &[after, after, after, after, after, (DECODE_8, 260)]),
    )
}

fn hta(base: &TraceBuilder, test: &TraceBuilder, args: &[&str]) -> (i32, String) {
    let folder = tempfile::tempdir().unwrap();
    let paths = ["base.json", "test.json"].map(|name| folder.path().join(name).display().to_string());
    std::fs::write(&paths[0], base.to_json()).unwrap();
    std::fs::write(&paths[1], test.to_json()).unwrap();
    let done = Command::new(env!("CARGO_BIN_EXE_hta"))
        .args(["diff", &paths[0], &paths[1]])
        .args(args)
        .output()
        .unwrap();
    (done.status.code().unwrap(), String::from_utf8(done.stdout).unwrap())
}

fn rows(base: &TraceBuilder, test: &TraceBuilder) -> Vec<Value> {
    let (code, text) = hta(base, test, &["--table", "diff_iterations", "--format", "json"]);
    assert_eq!(code, 0);
    serde_json::from_str::<Value>(&text).unwrap().as_array().unwrap().clone()
}

fn number(row: &Value, column: &str) -> f64 {
    row.get(column).unwrap_or_else(|| panic!("no `{column}` in {row}")).as_f64().unwrap_or(f64::NAN)
}

#[test]
fn iterations_of_one_phase_and_batch_are_compared() {
    let (base, test) = sides();
    let all = rows(&base, &test);
    let of = |r: &Value| {
        (
            r["phase"].as_str().unwrap().to_string(),
            r["requests"].as_i64(),
            r["side"].as_str().unwrap().to_string(),
        )
    };
    assert_eq!(
        all.iter().map(of).collect::<Vec<_>>(),
        [("decode", 4, "both"), ("decode", 8, "test"), ("prefill", 1, "base")].map(|(phase, n, side)| (
            phase.to_string(),
            Some(n),
            side.to_string()
        ))
    );
    let r = &all[0];
    // The first iteration after the profiler started does not count.
    assert_eq!((r["base_iteration_count"].as_i64(), r["test_iteration_count"].as_i64()), (Some(4), Some(4)));
    let us_of = |columns: [&str; 3]| columns.map(|c| number(r, c) / 1e3);
    assert_eq!(us_of(["base_period_ns", "test_period_ns", "delta_period_ns"]), [500.0, 550.0, 50.0]);
    assert_eq!(us_of(["base_window_ns", "test_window_ns", "delta_window_ns"]), [200.0, 240.0, 40.0]);
    assert_eq!(us_of(["base_gap_idle_ns", "test_gap_idle_ns", "delta_gap_idle_ns"]), [300.0, 310.0, 10.0]);
    assert_eq!(
        us_of(["base_host_exposed_ns", "test_host_exposed_ns", "delta_host_exposed_ns"]),
        [280.0, 290.0, 10.0]
    );
    assert_eq!((number(r, "base_window_busy_pct"), number(r, "delta_window_busy_pct")), (100.0, 0.0));
    assert_eq!(number(r, "base_tokens_per_s"), 8_000.0);
    assert!((number(r, "test_tokens_per_s") - 4e6 / 550.0).abs() < 1e-6);
    assert!((number(r, "delta_period_pct") - 10.0).abs() < 1e-9);
    let significant = |c: &str| r[c].as_bool();
    assert_eq!(
        (significant("is_period_significant"), significant("is_window_busy_significant")),
        (Some(true), Some(false))
    );
    // Of one side alone, and without a next iteration: only the window.
    assert_eq!((all[2]["basis"].as_str(), number(&all[2], "base_period_ns")), (Some("window"), 300_000.0));
    assert!(all[2]["test_period_ns"].is_null() && all[2]["is_period_significant"].is_null());
}

#[test]
fn a_set_against_itself_is_the_same_and_swapped_sides_change_signs() {
    let (base, test) = sides();
    let deltas = |rows: &[Value]| -> Vec<(String, f64)> {
        let of = |r: &Value| {
            let all = r.as_object().unwrap().iter();
            let numbers =
                all.filter(|(c, v)| c.starts_with("delta_") && !c.ends_with("_pct") && v.is_number());
            numbers.map(|(c, v)| (c.clone(), v.as_f64().unwrap())).collect::<Vec<_>>()
        };
        rows.iter().flat_map(of).collect()
    };
    let same = deltas(&rows(&base, &base));
    assert!(same.len() == 7 && same.iter().all(|(_, delta)| *delta == 0.0), "{same:?}");
    let (there, back) = (deltas(&rows(&base, &test)), deltas(&rows(&test, &base)));
    assert_eq!(there, back.into_iter().map(|(c, delta)| (c, -delta)).collect::<Vec<_>>());
}

#[test]
fn other_batches_are_no_other_work() {
    let (base, test) = sides();
    let (code, text) = hta(&base, &test, &[]);
    assert_eq!(code, 0, "{text}");
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "Iterations `decode 4` are slower: period 500 us -> 550 us (+10.0 %), beyond the noise; 8000.0 -> 7272.7 tokens/s",
        "decode 4 4 -> 4 period 500 us 550 us +10.0 % beyond",
        "prefill 1 1 before window 300 us -",
        "decode 8 1 after window - 260 us",
        "compare by phase and batch",
    ] {
        assert!(words.contains(part), "`{part}` is not in\n{text}");
    }
}

#[test]
fn a_training_run_has_no_iterations_to_compare() {
    let mut t = TraceBuilder::new().rank(0).world(1).device("NVIDIA H100", 132);
    let mut main = t.thread(1);
    main.step(1, 0..us(100));
    main.launch(us(10)..us(15)).kernel("a", 7, us(20)..us(90));
    assert_eq!(rows(&t, &t), [Value::Null; 0]);
}

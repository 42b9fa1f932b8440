//! Answers of queries: planted facts of the samples, and equality on results and on traces.

use super::{SAMPLES, answer, ask, results, traces};
use crate::run::{Quiet, options};
use crate::shared::samples;
use hta::read::discover::discover;
use hta::read::options::LoadOptions;
use hta::results::Results;
use hta::run::{Request, run};
use hta::sql::answer::QueryAnswer;
use hta::sql::catalog::{QUERIES, find};
use hta::sql::engine;
use hta::sql::live;
use hta::sql::live::Live;
use hta::sql::results::load;
use hta::sql::statement::Statement;
use hta_testkit::{TraceBuilder, us};
use polars::prelude::LazyFrame;
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn named(sample: &str, query: &str) -> QueryAnswer {
    answer(sample, find(query).expect("a query of the catalog"))
}

/// What a statement reads of traces.
fn read(sample: &str, statement: &Statement) -> Vec<(String, LazyFrame)> {
    let live = Live::new(statement).expect("tables that exist");
    let mut options = options();
    options.wanted = live.rows_wanted();
    let analyses = live.analyses();
    let event_args = live.needs_events() || analyses.iter().any(|a| a.reads_event_args(&options));
    let inputs = discover(&[traces(sample)]).expect("a sample");
    let load = LoadOptions { event_args, ..LoadOptions::default() };
    let request = Request { inputs: &inputs, analyses: &analyses, options: &options, load, ranks: &[] };
    let outcome = run(&request, &live, &Quiet).expect("a sample can be read");
    live.tables(&outcome).expect("tables that Polars takes")
}

#[test]
fn tables_of_traces_are_those_that_analyze_leaves() {
    for sample in SAMPLES {
        let all = Statement::new(&format!("SELECT * FROM {}", live::names().join(", "))).expect("a SELECT");
        let left = load(&Results::open(results(sample)).expect("results"), &all, None).expect("tables");
        let live: BTreeMap<String, LazyFrame> = read(sample, &all).into_iter().collect();
        assert_eq!(left.len(), live.len());
        for (name, frame) in left {
            let (frame, other) =
                (frame.collect().expect("rows"), live[&name].clone().collect().expect("rows"));
            assert_eq!(frame.schema(), other.schema(), "{sample}: {name}");
            assert!(frame.equals_missing(&other), "{sample}: {name}\n{frame:?}\n{other:?}");
        }
    }
}

#[test]
fn every_query_answers_the_same_on_results_and_on_traces() {
    for sample in ["gpu_single", "gpu_counters"] {
        for query in QUERIES {
            let statement = Statement::new(query.text).expect("a SELECT");
            let live = engine::run(&statement, read(sample, &statement), live::columns).expect("an answer");
            assert_eq!(live, answer(sample, query), "{sample}: {}", query.name);
        }
    }
    for query in ["late_ranks", "worst_collectives", "ranks_overview", "dtype_conversions", "import_health"] {
        let query = find(query).expect("a query of the catalog");
        let statement = Statement::new(query.text).expect("a SELECT");
        let live = engine::run(&statement, read("gpu_ddp8", &statement), live::columns).expect("an answer");
        assert_eq!(live, answer("gpu_ddp8", query), "{}", query.name);
    }
}

#[test]
fn pageable_copies_are_two_a_step_in_the_sample_that_has_them() {
    let answer = named("gpu_single", "pageable_copies");
    let per_step: f64 = (0..answer.len()).filter_map(|r| answer.value("per_step_count", r).as_f64()).sum();
    assert_eq!(per_step, 2.0);
    assert_eq!(answer.value("direction", 0), "HtoD");
    assert_eq!(answer.value("size_bytes", 0), 8 * 8_388_608);
    assert_eq!(answer.value("blocking_count", 0), 8);
    // The other sample copies its batch in this way, once per step on each rank.
    let other = named("gpu_ddp8", "pageable_copies");
    assert_eq!(other.len(), 8);
    assert!(
        (0..8).all(|r| other.value("count", r) == 5 && other.value("per_step_count", r) == 1.0),
        "{}",
        other.csv(hta::output::json::CsvStyle::Plain)
    );
    assert!(named("gloo_ddp4", "pageable_copies").is_empty());
}

#[test]
fn bubbles_and_hot_experts_are_those_of_the_simulated_jobs() {
    let bubbles = named("gpu_pp4", "pipeline_bubbles");
    let parts = ["bubble_ns", "schedule_ns", "imbalance_ns", "jitter_ns", "transfer_ns", "lag_ns"];
    let found = parts.map(|part| bubbles.value(part, 0).as_i64().expect("ns"));
    assert_eq!(found, [13_855_000, 9_675_000, 3_825_000, 0, 325_000, 30_000]);
    let experts = named("gpu_ep4", "hot_experts");
    assert_eq!(experts.len(), 30, "3 layers in 10 steps");
    assert!((0..30).all(|row| experts.value("hot_rank", row) == 2));
    assert_eq!(experts.value("excess_ns", 0), 476_400);
}

#[test]
fn the_planted_kernel_is_the_one_that_differs_between_ranks() {
    let answer = named("gpu_ddp8", "kernels_that_differ");
    assert!(answer.value("name", 0).as_str().is_some_and(|n| n.starts_with("slow_gemm_kernel")));
    assert_eq!(answer.value("slowest_rank", 0), 3);
    assert_eq!(answer.value("max_ns", 0), 5 * 6_500_000);
    assert_eq!(answer.value("extra_ns", 0), f64::from(5 * 6_000_000));
    assert_eq!(answer.value("to_median_ratio", 0), 13.0);
}

#[test]
fn ranks_differ_as_the_known_answers_say() {
    let text =
        std::fs::read_to_string(samples().join("KNOWN_ANSWERS.json")).expect("a file of the repository");
    let known: Value = serde_json::from_str(&text).expect("JSON");
    let compute = |rank: usize| -> i64 {
        let steps = known["ranks"][rank]["steps"].as_array().expect("steps");
        steps.iter().map(|s| s["compute_ns"].as_i64().expect("ns")).sum::<i64>() / steps.len() as i64
    };
    let mut all: Vec<i64> = (0..8).map(compute).collect();
    let own = compute(3);
    all.sort_unstable();
    let median = (all[3] + all[4]) as f64 / 2.0;
    let answer = named("gpu_ddp8", "ranks_that_differ");
    assert_eq!(answer.value("rank", 0), 3);
    assert_eq!(answer.value("compute_diff_ns", 0), own as f64 - median);
    assert_eq!(answer.value("differs_ns", 0), own as f64 - median);
}

#[test]
fn collectives_wait_as_the_known_answers_say() {
    let text =
        std::fs::read_to_string(samples().join("KNOWN_ANSWERS.json")).expect("a file of the repository");
    let known: Value = serde_json::from_str(&text).expect("JSON");
    let int = |v: &Value| v.as_i64().expect("a number");
    let waits = |c: &Value| c["wait_ns"].as_array().expect("a list").iter().map(int).sum::<i64>();
    let mut planted: Vec<(i64, i64, i64)> = known["collectives"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|c| (waits(c), int(&c["last_rank"]), int(&c["size_bytes"])))
        .collect();
    planted.sort_unstable_by_key(|c| std::cmp::Reverse(c.0));
    let answer = named("gpu_ddp8", "worst_collectives");
    assert_eq!(answer.len(), planted.len());
    for (row, (wait, _, _)) in planted.iter().enumerate() {
        assert_eq!(answer.value("wait_ns", row), *wait, "row {row}");
        assert_eq!((answer.value("member_count", row), answer.value("last_rank", row)), (json!(8), json!(3)));
    }
}

#[test]
fn the_late_ranks_are_those_that_were_made_late() {
    let answer = named("gpu_ddp8", "late_ranks");
    let gain = |row| (answer.value("rank", row), answer.value("gain_ns", row).as_i64());
    assert!(
        (0..5).all(|r| gain(r).0 == 3 && gain(r).1.is_some_and(|g| g > 3_000_000)),
        "{}",
        answer.csv(hta::output::json::CsvStyle::Plain)
    );
    let cause = named("gpu_ddp8", "late_causes");
    assert_eq!((cause.value("rank", 0), cause.value("cause", 0)), (json!(3), json!("slow_kernel")));
    assert_eq!(cause.value("extra_ns", 0), 5 * 6_000_000);
    assert_eq!(named("gloo_ddp4", "late_ranks").value("rank", 0), 2);
}

#[test]
fn synchronizing_calls_are_counted_with_their_callers() {
    let answer = named("gpu_single", "sync_calls_in_steps");
    let row = |name: &str| (0..answer.len()).find(|r| answer.value("name", *r) == name).expect("the call");
    let (device, stream) = (row("cudaDeviceSynchronize"), row("cudaStreamSynchronize"));
    assert_eq!((answer.value("count", device), answer.value("caller", device)), (json!(8), Value::Null));
    assert_eq!(answer.value("caller", stream), "aten::_local_scalar_dense");
    assert_eq!(answer.value("per_step_ns", stream), 190_000.0);
}

#[test]
fn shares_add_up_to_the_whole() {
    let shares =
        [("top_kernels", "gpu_pct"), ("idle_causes", "idle_pct"), ("operators_by_gpu_time", "gpu_self_pct")];
    for (query, column) in shares {
        let answer = named("gpu_ddp8", query);
        let sum: f64 = (0..answer.len()).filter_map(|r| answer.value(column, r).as_f64()).sum();
        assert!((sum - 100.0).abs() < 1e-9, "{query}: {sum}");
    }
    let parts = ["compute_pct", "waiting_or_transfer_pct", "copies_pct", "idle_pct"];
    let time = named("gloo_ddp4", "time_by_rank");
    for row in 0..time.len() {
        let sum: f64 = parts.iter().filter_map(|p| time.value(p, row).as_f64()).sum();
        assert!((sum - 100.0).abs() < 1e-9, "{sum}");
    }
}

#[test]
fn data_loaders_gaps_and_steps_are_those_of_the_sample() {
    let loads = named("gpu_single", "data_loader_time");
    assert_eq!((loads.value("count", 0), loads.value("total_ns", 0)), (json!(8), json!(16_000_000)));
    assert_eq!(named("gpu_single", "slowest_steps").value("step_label", 0), 25);
    let causes = named("gpu_single", "slow_step_causes");
    assert_eq!((causes.value("step_label", 1), causes.value("what", 1)), (json!(26), json!("cudaMalloc")));
    assert_eq!(causes.value("what_ns", 1), 2_000_000);
    // The gap before the slow step begins in the previous one.
    let gaps = named("gpu_single", "longest_gaps");
    assert_eq!((gaps.value("step", 0), gaps.value("kernel_wait_ns", 0)), (json!(4), json!(0)));
}

#[test]
fn rows_without_an_order_are_sorted_and_values_keep_their_kind() {
    let answer = ask(
        "gpu_ddp8",
        "SELECT class, COUNT(*) AS n, MIN(device) = 0 AS has_first FROM kernels GROUP BY class",
    );
    let kinds: Vec<Value> = (0..answer.len()).map(|r| answer.value("class", r)).collect();
    assert_eq!(kinds, ["communication", "compute", "memory"]);
    assert_eq!((answer.value("n", 0), answer.value("has_first", 0)), (json!(120), json!(true)));
    // An id that uses all 64 bits.
    let ids = ask("gpu_single", "SELECT event_id - 5 AS less, correlation FROM events WHERE event_id = 0");
    assert_eq!(ids.value("less", 0), -5);
}

#[test]
fn frames_that_wait_on_threads_that_launch_nothing_come_last() {
    let mut t = TraceBuilder::new().rank(0).world(1);
    let mut main = t.thread(1);
    main.frame("train.py(3): step", us(0)..us(100));
    main.frame("threading.py(9): wait", us(50)..us(60));
    main.launch(us(10)..us(12)).kernel("gemm", 7, us(20)..us(30));
    let mut idle = t.thread(2);
    idle.frame("threading.py(9): wait", us(0)..us(900));
    let mut worker = t.thread(3);
    worker.frame("loader.py(5): decode", us(0)..us(40));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("rank_0.json");
    std::fs::write(&path, t.to_json()).expect("a trace is written");
    let out = folder.path().join("out");
    let done = std::process::Command::new(env!("CARGO_BIN_EXE_hta"))
        .arg("analyze")
        .arg(&path)
        .arg("-o")
        .arg(&out)
        .output()
        .expect("hta runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let statement = Statement::new(find("python_functions").expect("a query").text).expect("a SELECT");
    let results = Results::open(&out).expect("results");
    let tables = load(&results, &statement, None).expect("tables");
    let answer = engine::run(&statement, tables, |t| results.columns(t)).expect("an answer");
    let rows: Vec<(Value, Value, Value)> = (0..answer.len())
        .map(|r| (answer.value("name", r), answer.value("idle_thread", r), answer.value("self_ns", r)))
        .collect();
    let row = |name: &str, idle: bool, us: i64| (json!(name), json!(idle), json!(us * 1000));
    let wanted = [
        row("train.py(3): step", false, 90),
        row("loader.py(5): decode", false, 40),
        row("threading.py(9): wait", false, 10),
        row("threading.py(9): wait", true, 900),
    ];
    assert_eq!(rows, wanted);
}

#[test]
fn conditions_keep_the_same_rows_whether_they_are_checked_while_reading_or_later() {
    // A condition in CASE is not checked while rows are read.
    for condition in [
        "name LIKE '%gemm%'",
        "name NOT LIKE '%gemm%' AND class = 'kernel'",
        "class IN ('kernel', 'operator') AND dur_ns > 1000",
        "stream IS NULL",
        "stream IS NOT NULL AND rank = 3",
        "rank = 3 OR rank = 5",
        "rank IN (99)",
        "thread_name IS NULL OR thread_name <> 'main'",
        "UPPER(category) = 'KERNEL'",
        "category = class",
        "1 = 2",
        "dur_ns > ts_ns",
    ] {
        let kept = ask(
            "gpu_ddp8",
            &format!("SELECT COUNT(*) AS n, SUM(event_id) AS ids FROM events WHERE {condition}"),
        );
        let later = ask(
            "gpu_ddp8",
            &format!(
                "SELECT SUM(CASE WHEN {condition} THEN 1 ELSE 0 END) AS n, \
                 SUM(CASE WHEN {condition} THEN event_id END) AS ids FROM events"
            ),
        );
        let ids = |a: &QueryAnswer| a.value("ids", 0).as_i64().unwrap_or(0);
        assert_eq!((kept.value("n", 0), ids(&kept)), (later.value("n", 0), ids(&later)), "{condition}");
    }
}

#[test]
fn tables_are_counted_and_limited_without_their_columns() {
    let all = ask("gpu_ddp8", "SELECT COUNT(*) AS n FROM events").value("n", 0);
    assert_eq!(ask("gpu_ddp8", "SELECT COUNT(event_id) AS n FROM events").value("n", 0), all);
    assert_eq!(ask("gpu_ddp8", "SELECT 1 AS one FROM events").len() as u64, all.as_u64().unwrap_or(0));
    assert_eq!(ask("gpu_ddp8", "SELECT * FROM events LIMIT 7").len(), 7);
    assert_eq!(ask("gpu_ddp8", "SELECT name FROM events WHERE rank = 7 LIMIT 5").len(), 5);
}

#[test]
fn a_subquery_can_stand_for_a_value() {
    let above = "SELECT COUNT(*) AS n FROM kernels WHERE dur_ns >= (SELECT MAX(dur_ns) FROM kernels)";
    assert!(ask("gpu_ddp8", above).value("n", 0).as_u64().is_some_and(|n| n > 0));
    let share = "SELECT SUM(dur_ns) * 100.0 / (SELECT SUM(dur_ns) FROM kernels) AS pct FROM kernels";
    assert_eq!(ask("gpu_ddp8", share).value("pct", 0), 100.0);
    let text = "SELECT DISTINCT class FROM kernels WHERE class = (SELECT MIN(class) FROM kernels)";
    assert_eq!(ask("gpu_ddp8", text).value("class", 0), "communication");
}

#[test]
fn the_first_rows_of_an_order_are_those_of_the_whole_order() {
    let whole =
        |by: &str| ask("gpu_ddp8", &format!("SELECT rank, event_id, dur_ns, step FROM events ORDER BY {by}"));
    for by in [
        "dur_ns DESC, rank, event_id",
        "dur_ns, rank DESC, event_id",
        "step NULLS FIRST, rank, event_id",
        "step DESC NULLS LAST, rank, event_id",
        "step DESC NULLS FIRST, rank, event_id",
    ] {
        let text = format!("SELECT rank, event_id, dur_ns, step FROM events ORDER BY {by} LIMIT 20");
        assert_eq!(ask("gpu_ddp8", &text), whole(by).head(20), "{by}");
    }
}

#[test]
fn an_order_by_one_column_can_have_a_limit() {
    let longest = "SELECT dur_ns FROM events WHERE rank = 3 ORDER BY dur_ns DESC LIMIT 3";
    let all = "SELECT dur_ns FROM events WHERE rank = 3 ORDER BY dur_ns DESC";
    assert_eq!(ask("gpu_ddp8", longest), ask("gpu_ddp8", all).head(3));
    let grouped = "SELECT rank, SUM(dur_ns) AS ns FROM events GROUP BY rank ORDER BY rank";
    assert_eq!(ask("gpu_ddp8", &format!("{grouped} LIMIT 2")), ask("gpu_ddp8", grouped).head(2));
}

#[test]
fn rows_without_a_partner_stay_in_a_left_join_and_go_in_an_inner_one() {
    let joined = |how: &str| {
        let text = format!(
            "SELECT COUNT(*) AS n, COUNT(o.event_id) AS partners FROM events AS k {how} JOIN events AS o \
             ON k.rank = o.rank AND k.op_event_id = o.event_id"
        );
        let answer = ask("gpu_ddp8", &text);
        (answer.value("n", 0), answer.value("partners", 0))
    };
    let counted = ask("gpu_ddp8", "SELECT COUNT(*) AS n, COUNT(op_event_id) AS owned FROM events");
    let (all, owned) = (counted.value("n", 0), counted.value("owned", 0));
    assert_eq!(joined("INNER"), (owned.clone(), owned.clone()));
    assert_eq!(joined("LEFT"), (all, owned));
}

//! Questions about samples whose truth is known, asked as an assistant asks them.

use super::{Client, ROOT, results};
use crate::shared::samples;
use hta::units::fmt_ns;
use serde_json::{Value, json};
use std::path::Path;

fn known() -> Value {
    let text = std::fs::read_to_string(samples().join("KNOWN_ANSWERS.json")).expect("the file is there");
    serde_json::from_str(&text).expect("it is JSON")
}

fn planted<'a>(known: &'a Value, fact: &str) -> &'a Value {
    let facts = known["planted"].as_array().expect("a list");
    facts.iter().find(|p| p["fact"] == fact).unwrap_or_else(|| panic!("no fact {fact}"))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The id of the first cause of a kind.
fn cause(client: &mut Client, source: &str, kind: &str) -> Value {
    let answer = client.answered("causes", json!({"source": source, "max_bytes": 20_000}));
    let found = list(&answer["causes"]).iter().find(|c| c["kind"] == kind).cloned();
    found.unwrap_or_else(|| panic!("no {kind} in {answer}"))
}

#[test]
fn the_planted_facts_of_the_sample_with_eight_ranks_are_told() {
    let known = known();
    // Given as traces: the server analyses them at the first question.
    let mut client = Client::start(&["data/samples/gpu_ddp8"]);
    let late = planted(&known, "late_rank");
    let kernel = late["kernel"].as_str().expect("a name");

    let verdict = client.answered("verdict", json!({}));
    let [first, second] = [0, 1].map(|i| verdict["lines"][i].as_str().expect("a sentence"));
    assert!(first.starts_with("Rank 3 is late in all 5 steps. Fixing it saves"), "{first}");
    assert!(second.contains(kernel.split('(').next().expect("a name")), "{second}");
    assert_eq!((&verdict["rank_count"], &verdict["step_count"]), (&json!(8), &json!(5)));
    let parts: i64 = list(&verdict["parts_ns"]).iter().filter_map(|p| p["time_ns"].as_i64()).sum();
    // Parts of all devices and steps; every device's steps are as long as its windows.
    assert!(parts > 0 && parts <= 8 * verdict["time_ns"].as_i64().expect("a time"), "{verdict}");

    let straggler = cause(&mut client, "gpu_ddp8", "straggler");
    assert_eq!((&straggler["ranks"], &straggler["certainty"]), (&json!("rank 3"), &json!("sure")));
    // The repair gives what the rank is later than the second last in each step: a little less than it works
    // longer.
    let gains = list(&late["first_arrival_minus_second_last_ns_by_step"]);
    let sum: i64 = gains.iter().filter_map(Value::as_i64).sum();
    assert_eq!(straggler["recoverable_ns"], json!(sum));

    let evidence = client.answered("evidence", json!({"finding_id": straggler["finding_id"]}));
    let first = &evidence["evidence"][0];
    assert_eq!(first["words"], "takes 6.00 ms longer than the typical rank in each step");
    // The rows behind a number can be fetched with the statement that comes with it.
    let statement = first["sql"].as_str().expect("a statement");
    let sum = statement.replace("SELECT *", "SELECT CAST(SUM(delta_ns) AS BIGINT) AS ns");
    let sum = client.rows("gpu_ddp8", &sum).concat().iter().filter_map(Value::as_i64).sum::<i64>();
    assert_eq!(fmt_ns(sum / 5), "6.00 ms", "{statement}");

    let loader = planted(&known, "idle");
    let steps = 5;
    let data_loader = cause(&mut client, "gpu_ddp8", "data_loader");
    let gain = loader["idle_in_loader_ns_per_step"].as_i64().expect("a time") * steps;
    assert_eq!(data_loader["recoverable_ns"], json!(gain));
    assert_eq!(data_loader["ranks"], "all 8 ranks");

    let sql = format!(
        "SELECT rank, MAX(dur_ns) AS ns FROM kernels WHERE name = '{kernel}' GROUP BY rank ORDER BY rank"
    );
    let others = &late["kernel_ns_on_others"];
    let expected: Vec<Vec<Value>> = (0..8)
        .map(|rank| vec![json!(rank), if rank == 3 { late["kernel_ns"].clone() } else { others.clone() }])
        .collect();
    assert_eq!(client.rows("gpu_ddp8", &sql), expected);
    assert_eq!(client.close(), Some(0));
}

#[test]
fn every_window_of_every_rank_is_as_planted() {
    let known = known();
    let dir = tempfile::tempdir().unwrap();
    let out = results("gpu_ddp8", dir.path());
    let mut client = Client::start(&[&out]);
    let columns = ["dur_ns", "compute_ns", "exposed_communication_ns", "copies_ns", "idle_ns"];
    let sql = format!(
        "SELECT rank, {} FROM temporal_breakdown WHERE scope = 'span' ORDER BY rank",
        columns.map(|c| c.to_string()).join(", ")
    );
    let rows = client.rows("gpu_ddp8", &sql);
    let ranks = list(&known["ranks"]);
    assert_eq!((rows.len(), ranks.len()), (8, 8));
    for (row, rank) in rows.iter().zip(ranks) {
        assert_eq!(row[0], rank["rank"]);
        for (cell, column) in row[1..].iter().zip(columns) {
            assert_eq!(*cell, rank["span"][column], "{column} of rank {}", rank["rank"]);
        }
    }
}

#[test]
fn the_sleeping_rank_of_the_recording_with_four_ranks_is_told() {
    let truth: Value = serde_json::from_slice(
        &std::fs::read(Path::new(ROOT).join("data/samples/gloo_ddp4/ground_truth.json")).unwrap(),
    )
    .unwrap();
    let dir = tempfile::tempdir().unwrap();
    let out = results("gloo_ddp4", dir.path());
    let mut client = Client::start(&[&out]);
    let straggler = cause(&mut client, "gloo_ddp4", "straggler");
    assert_eq!(straggler["ranks"], format!("rank {}", truth["straggler"]));
    let [sentence, detail] = ["sentence", "detail"].map(|c| straggler[c].as_str().unwrap());
    assert!(detail.contains("sleep()") && sentence.contains("all 3 steps"), "{sentence}: {detail}");
    // It sleeps 60 ms a step; what that costs cannot be more, and is most of it.
    let gain = straggler["recoverable_ns"].as_f64().unwrap() / truth["active"].as_f64().unwrap() / 1e9;
    let sleep = truth["sleep_s"].as_f64().unwrap();
    assert!(gain < sleep * 1.1 && gain > sleep * 0.5, "{gain}");
}

#[test]
fn what_a_recording_does_not_say_is_no_answer() {
    // Kernels of a launch are missing, so that idle time means nothing.
    let mut client = Client::start(&["tests/broken/one_rank_cut", "data/samples/gpu_ddp8"]);
    let result = client.tool("verdict", json!({"source": "one_rank_cut"}));
    assert_eq!(result["isError"], false, "{result}");
    let content = &result["structuredContent"];
    assert_eq!(content["status"], "cannot_answer");
    assert!(
        content["reason"].as_str().unwrap().starts_with("cannot tell where the time goes: "),
        "{content}"
    );
    assert!(content["hint"].is_string() && content.get("answer").is_none());
    let compared = client.tool("compare", json!({"base": "one_rank_cut", "test": "gpu_ddp8"}));
    assert_eq!(compared["structuredContent"]["status"], "cannot_answer");
}

#[test]
fn two_runs_are_compared_by_step_and_cause() {
    let dir = tempfile::tempdir().unwrap();
    let before = results("gpu_ddp8", dir.path());
    // The same job without its late rank's partners that show the wait: other ranks, other causes.
    let mut client = Client::start(&[&before, "data/samples/gpu_single"]);
    let same = client.answered("compare", json!({"base": "gpu_ddp8", "test": "gpu_ddp8"}));
    assert!(
        list(&same["per_step"]).iter().all(|c| c["base_ns"] == c["test_ns"] && c["delta_pct"] == 0.0),
        "{same}"
    );
    assert!(list(&same["causes"]).iter().all(|c| c["state"] == "same"), "{same}");
    let other =
        client.answered("compare", json!({"base": "gpu_ddp8", "test": "gpu_single", "max_bytes": 9000}));
    let state = |kind: &str| {
        let found =
            list(&other["causes"]).iter().find(|c| c["finding_id"].as_str().unwrap().starts_with(kind));
        found.unwrap_or_else(|| panic!("no {kind} in {other}"))["state"].clone()
    };
    assert_eq!((state("straggler"), state("host_dispatch")), (json!("gone"), json!("new")));
    assert_eq!(list(&other["warnings"]).len(), 2, "world size and ranks: {other}");
    // 96,618,500 ns in 5 steps
    assert_eq!(other["per_step"][0]["base_ns"], json!(19_323_700.0));
    // What stands out and the parts are figures of one comparison.
    let transfer = list(&other["per_step"]).iter().find(|c| c["part"] == "transfer").expect("a part");
    assert_eq!((&transfer["base_ns"], &transfer["test_ns"]), (&json!(5_000_000.0), &json!(0.0)));
    let sentence = other["stands_out"][1].as_str().expect("a sentence");
    assert!(sentence.contains("transfer") && sentence.contains("5.00 ms -> 0 ns"), "{other}");
}

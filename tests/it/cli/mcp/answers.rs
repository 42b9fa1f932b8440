//! The form of answers: sizes, cursors, schemas, ids.

use super::{Client, results, why};
use serde_json::{Value, json};

/// Arguments with which each tool answers about the sample.
fn calls() -> Vec<(&'static str, Value)> {
    vec![
        ("sources", json!({})),
        ("verdict", json!({"source": "gpu_ddp8"})),
        ("causes", json!({"source": "gpu_ddp8"})),
        ("evidence", json!({"source": "gpu_ddp8", "finding_id": "straggler-2f59304c"})),
        ("tables", json!({"source": "gpu_ddp8"})),
        ("schema", json!({"source": "gpu_ddp8", "table": "findings"})),
        ("queries", json!({})),
        ("sql", json!({"source": "gpu_ddp8", "statement": "top_kernels"})),
        ("sql", json!({"source": "gpu_ddp8", "statement": "SELECT * FROM findings ORDER BY position"})),
        ("explain", json!({"name": "stragglers"})),
        ("compare", json!({"base": "gpu_ddp8", "test": "gpu_ddp8"})),
    ]
}

#[test]
fn answers_are_below_two_kilobytes_unless_more_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let out = results("gpu_ddp8", dir.path());
    let mut client = Client::start(&[&out]);
    for (tool, arguments) in calls() {
        let result = client.tool(tool, arguments.clone());
        assert_eq!(result["structuredContent"]["status"], "answered", "{tool}: {result}");
        let size = result.to_string().len();
        assert!(size < 2048, "{tool} {arguments}: {size} bytes: {result}");
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(!text.is_empty() && result["content"].as_array().unwrap().len() == 1, "{result}");
    }
    let large = client.tool("tables", json!({"max_bytes": 50_000}));
    assert!(large.to_string().len() > 2048 && large["structuredContent"].get("cursor").is_none());
}

#[test]
fn a_cursor_leads_through_everything_once() {
    let dir = tempfile::tempdir().unwrap();
    let out = results("gpu_ddp8", dir.path());
    let mut client = Client::start(&[&out]);
    let sql = "SELECT rank, step_label, dur_ns FROM steps ORDER BY rank, step_label";
    let whole = client.rows("gpu_ddp8", sql);
    let mut parts: Vec<Vec<Value>> = Vec::new();
    let mut cursor = Value::Null;
    let mut calls = 0;
    loop {
        let mut arguments = json!({"statement": sql, "limit": 7, "max_bytes": 700});
        if !cursor.is_null() {
            arguments["cursor"] = cursor;
        }
        let content = client.tool("sql", arguments)["structuredContent"].clone();
        assert_eq!(content["answer"]["first_row"], json!(parts.len()), "{content}");
        parts.extend(serde_json::from_value::<Vec<Vec<Value>>>(content["answer"]["rows"].clone()).unwrap());
        cursor = content["cursor"].clone();
        calls += 1;
        if cursor.is_null() {
            break;
        }
    }
    assert!(calls > 3 && parts == whole, "{calls} calls, {} rows of {}", parts.len(), whole.len());
    // The same for a list whose items stand in the program.
    let mut names = Vec::new();
    let mut arguments = json!({});
    loop {
        let content = client.tool("queries", arguments.clone())["structuredContent"].clone();
        names.extend(content["answer"]["queries"].as_array().unwrap().iter().map(|q| q["name"].clone()));
        match content["cursor"].as_str() {
            Some(cursor) => arguments = json!({"cursor": cursor}),
            None => break,
        }
    }
    let all: Vec<Value> = hta::sql::catalog::QUERIES.iter().map(|q| json!(q.name)).collect();
    assert_eq!(names, all);
}

#[test]
fn every_tool_declares_what_it_takes_and_gives() {
    let mut client = Client::start(&["data/samples/gpu_single"]);
    let answer = client.request("tools/list", json!({}));
    let tools = answer["result"]["tools"].as_array().unwrap().clone();
    let names: Vec<&str> = tools.iter().map(|t| t["name"].as_str().unwrap()).collect();
    let expected = [
        "sources", "verdict", "causes", "evidence", "tables", "schema", "queries", "sql", "explain",
        "compare", "overlay",
    ];
    assert_eq!(names, expected);
    for tool in &tools {
        let name = &tool["name"];
        assert!(tool["description"].as_str().unwrap().len() > 40, "{name}");
        assert_eq!(tool["annotations"]["readOnlyHint"], true, "{name}");
        assert_eq!(tool["inputSchema"]["type"], "object");
        assert_eq!(tool["inputSchema"]["additionalProperties"], false, "{name}");
        let properties = &tool["outputSchema"]["properties"];
        assert!(
            ["status", "answer", "reason", "hint", "cursor"].iter().all(|p| properties.get(p).is_some()),
            "{tool}"
        );
        for (argument, schema) in tool["inputSchema"]["properties"].as_object().unwrap() {
            assert!(schema["description"].as_str().is_some_and(|d| d.len() > 10), "{name} {argument}");
        }
    }
    assert!(answer.to_string().len() < 30_000, "{}", answer.to_string().len());
}

#[test]
fn sources_have_stable_ids_and_names_must_be_clear() {
    let dir = tempfile::tempdir().unwrap();
    let out = results("gpu_single", dir.path());
    let start = || Client::start(&[&out, "data/samples/gpu_single", "--allow", dir.path().to_str().unwrap()]);
    let listed = start().answered("sources", json!({}));
    assert_eq!(listed, start().answered("sources", json!({})));
    let ids: Vec<&Value> = listed["sources"].as_array().unwrap().iter().map(|s| &s["id"]).collect();
    assert_eq!(ids, [&json!("gpu_single"), &json!("gpu_single-2")]);
    let kinds: Vec<&Value> = listed["sources"].as_array().unwrap().iter().map(|s| &s["kind"]).collect();
    assert_eq!(kinds, [&json!("results"), &json!("traces")]);
    let mut client = start();
    let (status, reason) = why(&client.tool("verdict", json!({})));
    assert!(status == "refused" && reason.contains("there are several"), "{reason}");
    // By path below the allowed folder, too: it is the same source.
    let by_path = client.answered("verdict", json!({"source": out}));
    assert_eq!(by_path, client.answered("verdict", json!({"source": "gpu_single"})));
}

#[test]
fn pages_and_columns_are_explained() {
    let mut client = Client::start(&["data/samples/gpu_single", "--no-events"]);
    let page = client.tool("explain", json!({"name": "findings", "find": "recoverable_ns"}));
    let text = page["content"][0]["text"].as_str().unwrap();
    assert!(text.trim_start().starts_with("recoverable_ns") && text.contains("[ns]"), "{text}");
    let none = client.tool("explain", json!({"name": "findings", "find": "no such word"}));
    assert_eq!(why(&none).0, "cannot_answer");
    let wrong = client.tool("explain", json!({"name": "stragler"}));
    assert_eq!(wrong["structuredContent"]["hint"], "did you mean `stragglers`?");
    let schema = client.answered("schema", json!({"table": "steps", "max_bytes": 9000}));
    let columns = schema["columns"].as_array().unwrap();
    let dur = columns.iter().find(|c| c["name"] == "dur_ns").unwrap();
    assert_eq!((&dur["unit"], &dur["kind"]), (&json!("ns"), &json!("integer")));
    assert!(schema["row_count"].as_u64().unwrap() > 0 && !schema["sorted_by"].as_str().unwrap().is_empty());
    let missing = client.tool("sql", json!({"statement": "SELECT * FROM events"}));
    assert!(why(&missing).1.contains("holds none, as `hta analyze --no-events` leaves it"), "{missing}");
}

#[test]
fn results_cannot_be_drawn_and_say_what_can() {
    let dir = tempfile::tempdir().unwrap();
    let out = results("gpu_single", dir.path());
    let mut client = Client::start(&[&out]);
    let result = client.tool("overlay", json!({"ranks": "0"}));
    assert_eq!(why(&result).0, "cannot_answer", "{result}");
    assert!(result["structuredContent"]["hint"].as_str().unwrap().contains("hta overlay TRACES --open"));
}

//! Input that tries to break the server or to read what it may not.

use super::{Client, results, why};
use crate::shared::{rows_of, write_rows};
use serde_json::json;
use std::process::Command;
use std::time::{Duration, Instant};

#[test]
fn what_is_no_message_does_not_end_the_server() {
    let mut client = Client::start(&["data/samples/gpu_single"]);
    for line in [
        "",
        "not json",
        "{",
        "[]",
        "null",
        "{\"jsonrpc\": \"2.0\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":\"x\"}",
        "\u{feff}{}",
    ] {
        client.send(line);
    }
    client.send(&format!("{{\"a\": \"{}\"", "x".repeat(1 << 20)));
    client.send(&"[".repeat(100_000));
    let unknown = client.request("tools/call", json!({"name": "delete_everything", "arguments": {}}));
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    assert!(unknown["error"]["message"].as_str().unwrap().contains("no tool `delete_everything`"));
    let method = client.request("no/such/method", json!({}));
    assert_eq!(method["error"]["code"], -32601, "{method}");
    for (tool, arguments) in [
        ("sql", json!({})),
        ("sql", json!({"statement": 7})),
        ("sql", json!({"statement": "SELECT 1 AS a", "shell": "rm"})),
        ("sql", json!({"statement": "SELECT 1 AS a", "limit": 0})),
        ("sql", json!({"statement": "SELECT 1 AS a", "limit": -1})),
        ("sql", json!({"statement": "SELECT 1 AS a", "max_bytes": 4_000_000_000u32})),
        ("causes", json!({"cursor": "../../etc"})),
        ("overlay", json!({"ranks": "0; rm -rf /"})),
        ("overlay", json!({"ranks": "--out=x"})),
        ("evidence", json!({"finding_id": "' OR 1=1 --"})),
        ("schema", json!({"table": "../../../etc/passwd"})),
    ] {
        let result = client.tool(tool, arguments.clone());
        assert_eq!(
            (why(&result).0.as_str(), &result["isError"]),
            ("refused", &json!(true)),
            "{tool} {arguments}: {result}"
        );
    }
    assert_eq!(client.answered("verdict", json!({}))["rank_count"], 1);
    assert_eq!(client.close(), Some(0));
}

#[cfg(unix)]
#[test]
fn nothing_outside_the_given_paths_is_read() {
    use std::os::unix::fs::symlink;
    let dir = tempfile::tempdir().unwrap();
    let (allowed, outside) = (dir.path().join("allowed"), dir.path().join("outside"));
    std::fs::create_dir_all(&allowed).unwrap();
    let secret = results("gpu_single", &outside);
    std::fs::write(outside.join("secret.sql"), "SELECT 'hunter2' AS secret FROM ranks").unwrap();
    results("gpu_single", &allowed);
    symlink(&secret, allowed.join("link")).unwrap();
    std::fs::create_dir(allowed.join("mixed")).unwrap();
    symlink(std::path::Path::new(&secret).join("tables"), allowed.join("mixed/tables")).unwrap();
    let mut client = Client::start(&["--allow", allowed.to_str().unwrap()]);
    let sources = client.answered("sources", json!({}));
    assert_eq!(
        sources["sources"].as_array().unwrap().len(),
        2,
        "the folder and the one with a link inside: {sources}"
    );
    let up = allowed.join("gpu_single/../../outside/gpu_single").display().to_string();
    for source in
        [secret.as_str(), "../outside/gpu_single", "link", "mixed", &up, "/etc", "/etc/passwd", "~", "*", ""]
    {
        let result = client.tool("verdict", json!({"source": source}));
        assert_eq!(why(&result).0, "refused", "{source}: {result}");
    }
    let secret_file = outside.join("secret.sql").display().to_string();
    for statement in [
        secret_file.as_str(),
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_parquet('../../outside/gpu_single/tables/ranks.parquet')",
        "WITH read_csv AS (SELECT 1 AS a) SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM \"../../../outside/gpu_single/tables/ranks\"",
        "COPY ranks TO '/tmp/stolen'",
        "DROP TABLE ranks",
        "SELECT 1 AS a; SELECT 2 AS a",
        "-",
        "--out=/tmp/stolen SELECT 1",
    ] {
        let result = client.tool("sql", json!({"source": "gpu_single", "statement": statement}));
        assert_eq!(why(&result).0, "refused", "{statement}: {result}");
        let text = result.to_string();
        assert!(!text.contains("root:") && !text.contains("hunter2"), "{text}");
    }
    // Neither the environment nor the temporary folder is told.
    let all = client.tool("sql", json!({"source": "gpu_single", "statement": "SELECT * FROM nowhere"}));
    assert!(
        !all.to_string().contains("correct-horse-battery") && !all.to_string().contains(".hta-mcp-"),
        "{all}"
    );
}

/// Events with events three times: almost 2^32 rows, the most that Polars puts into one table, which neither the time nor
/// the memory that the test allows is enough for. More rows would be refused by Polars itself, on a fast machine before
/// the time is over.
const ENDLESS: &str = "WITH few AS (SELECT dur_ns FROM events LIMIT 1600) \
                       SELECT COUNT(*) AS n FROM few a CROSS JOIN few b CROSS JOIN few c \
                       WHERE (a.dur_ns * b.dur_ns) % (c.dur_ns + 1) = 1";

#[test]
fn a_statement_that_does_not_end_is_ended_and_others_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let out = results("gpu_ddp8", dir.path());
    let mut client = Client::start(&[&out, "--time-limit", "3", "--memory-limit", "1GB"]);
    let begin = Instant::now();
    let endless: Vec<u64> = (0..3).map(|_| client.ask_tool("sql", json!({"statement": ENDLESS}))).collect();
    // Others are answered meanwhile.
    let verdict = client.ask_tool("verdict", json!({}));
    let page = client.ask_tool("explain", json!({}));
    assert_eq!(client.answer(page)["result"]["structuredContent"]["status"], "answered");
    assert_eq!(client.answer(verdict)["result"]["structuredContent"]["status"], "answered");
    for id in endless {
        let result = client.answer(id)["result"].clone();
        let (status, reason) = why(&result);
        let is_ended = reason.contains("takes longer than 3 s") || reason.contains("memory");
        assert!(status == "refused" && is_ended, "{result}");
    }
    assert!(begin.elapsed() < Duration::from_secs(90), "{:?}", begin.elapsed());
}

#[test]
fn traces_that_do_not_come_are_given_up_and_no_other_urls_are_asked() {
    // It takes connections and says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/rank_0.json", silent.local_addr().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let out = results("gpu_single", dir.path());
    let mut client = Client::start(&[&url, &out, "--analysis-time-limit", "1"]);
    let begin = Instant::now();
    for tool in ["verdict", "tables"] {
        let result = client.tool(tool, json!({"source": "rank_0.json"}));
        let (status, reason) = why(&result);
        assert!(status == "cannot_answer" && reason.contains("takes longer than 1 s"), "{result}");
    }
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
    for other in
        [url.replace("rank_0", "rank_1"), url.replace("/rank_0.json", ""), "s3://bucket/job".to_string()]
    {
        let result = client.tool("verdict", json!({"source": other}));
        let (status, reason) = why(&result);
        assert!(
            status == "refused" && reason.contains("expected a path at or below those given"),
            "{other}: {result}"
        );
    }
    assert_eq!(client.answered("verdict", json!({"source": "gpu_single"}))["rank_count"], 1);
    let (code, messages) = Client::silent(&["--allow", "s3://bucket/results"]).ended();
    assert!(code == Some(2) && messages.contains("give each URL as a PATH"), "{messages}");
}

#[test]
fn huge_answers_are_told_in_parts_or_refused() {
    let dir = tempfile::tempdir().unwrap();
    let out = results("gpu_ddp8", dir.path());
    let mut client = Client::start(&[&out, "--memory-limit", "300MB"]);
    let names = json!({"statement": "SELECT rank, name, ts_ns FROM events ORDER BY rank, ts_ns, event_id", "limit": 1000});
    let part = client.tool("sql", names);
    assert!(part.to_string().len() < 2048 && part["structuredContent"]["cursor"].is_string(), "{part}");
    let all = client.tool("sql", json!({"statement": "SELECT * FROM events"}));
    assert!(why(&all).1.contains("columns alone fill the answer") && all.to_string().len() < 2048, "{all}");
    let all = client.tool("sql", json!({"statement": "SELECT * FROM events", "max_bytes": 100_000}));
    assert_eq!(all["structuredContent"]["status"], "answered");
    let wide = "SELECT repeat_ FROM (SELECT CONCAT(a.name, b.name, a.name, b.name) AS repeat_ FROM events a CROSS JOIN events b)";
    let result = client.tool("sql", json!({"statement": wide}));
    // It is ended for want of memory or time, or its first rows are told.
    assert!(result.to_string().len() < 2048, "{result}");
    let long =
        client.tool("sql", json!({"statement": format!("SELECT {} FROM ranks", "1 +".repeat(50_000))}));
    assert_eq!(why(&long).0, "refused");
    let deep = client.tool(
        "sql",
        json!({"statement": format!("SELECT {}1{} AS a FROM ranks", "(".repeat(9000), ")".repeat(9000))}),
    );
    assert_eq!(why(&deep).0, "refused", "{deep}");
    assert_eq!(client.answered("verdict", json!({}))["rank_count"], 8);
}

#[test]
fn closing_standard_input_ends_it_whatever_it_does() {
    let dir = tempfile::tempdir().unwrap();
    let out = results("gpu_ddp8", dir.path());
    let mut client = Client::start(&[&out, "--time-limit", "600", "--memory-limit", "1GB"]);
    client.ask_tool("sql", json!({"statement": ENDLESS}));
    let begin = Instant::now();
    assert_eq!(client.close(), Some(0));
    assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
    assert_eq!(Client::silent(&[&out]).close(), Some(0), "a client that says nothing");
}

#[cfg(unix)]
#[test]
fn a_signal_ends_it_and_its_temporary_files() {
    let temporary = tempfile::tempdir().unwrap();
    let mut client = Client::start_in(&["data/samples/gpu_ddp8"], temporary.path());
    client.answered("verdict", json!({}));
    assert_eq!(std::fs::read_dir(temporary.path()).unwrap().count(), 1);
    let pid = client.id().to_string();
    assert!(std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    let (code, messages) = client.ended();
    assert_eq!(code, Some(130), "{messages}");
    assert_eq!(std::fs::read_dir(temporary.path()).unwrap().count(), 0);
}

#[test]
fn a_path_that_is_not_there_is_an_error_at_the_start() {
    let (code, messages) = Client::silent(&["no/such/results"]).ended();
    assert_eq!(code, Some(2));
    assert!(messages.contains("cannot use no/such/results") && messages.contains("hint: "), "{messages}");
}

#[test]
fn a_table_that_unpacks_to_much_is_refused_by_every_tool_and_the_server_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let (whole, bomb) = (results("gpu_single", dir.path()), dir.path().join("bomb"));
    let copied = Command::new("cp").args(["-r", &whole]).arg(&bomb).status();
    assert!(copied.is_ok_and(|status| status.success()));
    let path = bomb.join("tables/findings.parquet");
    let table = rows_of(&path);
    write_rows(&path, &table, 200_000 / table.num_rows());
    assert!(std::fs::metadata(&path).unwrap().len() < 1_000_000);
    let mut client = Client::start(&[&whole, bomb.to_str().unwrap(), "--memory-limit", "80MB"]);
    for (tool, arguments) in [
        ("causes", json!({"source": "bomb"})),
        ("evidence", json!({"source": "bomb", "finding_id": "x"})),
        ("sql", json!({"source": "bomb", "statement": "SELECT * FROM findings"})),
        ("compare", json!({"base": "bomb", "test": "gpu_single"})),
        ("compare", json!({"base": "gpu_single", "test": "bomb"})),
    ] {
        let (status, reason) = why(&client.tool(tool, arguments.clone()));
        assert_eq!(status, "refused", "{tool} {arguments}: {reason}");
        let is_named = reason.contains("bomb/tables/findings.parquet") && reason.contains("of memory");
        assert!(is_named && !reason.contains(dir.path().to_str().unwrap()), "{tool} {arguments}: {reason}");
    }
    assert_eq!(client.answered("verdict", json!({"source": "gpu_single"}))["rank_count"], 1);
    client.answered("compare", json!({"base": "gpu_single", "test": "gpu_single"}));
    assert_eq!(client.close(), Some(0));
}

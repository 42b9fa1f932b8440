//! `hta mcp` over a store: it answers from what is there now, however long it has been running.

use super::server::Store;
use super::{hta, run, said};
use crate::cli::mcp::Client;
use crate::shared;
use serde_json::{Value, json};
use std::path::Path;

fn serving(store: &Store, folder: &Path, place: &str) -> Client {
    Client::greeted(hta(store, folder).env("TMPDIR", folder).args(["mcp", place]))
}

#[test]
fn results_that_change_behind_a_running_server_are_answered_as_they_are_now() {
    let (store, dir) = (Store::start(), tempfile::tempdir().expect("a folder"));
    let write = |sample: &str| {
        let traces = shared::samples().join(sample).display().to_string();
        let made = run(&store, dir.path(), &["analyze", &traces, "--no-html", "--out", "s3://jobs/out"]);
        assert!(matches!(made.status.code(), Some(0 | 1)), "{}", said(&made));
    };
    let answers = |client: &mut Client| -> Vec<Value> {
        let asked = [
            ("verdict", json!({})),
            ("tables", json!({"max_bytes": 50_000})),
            ("schema", json!({"table": "steps"})),
            ("sql", json!({"statement": "SELECT rank, event_count FROM ranks ORDER BY rank"})),
        ];
        asked.map(|(tool, arguments)| client.tool(tool, arguments)["structuredContent"].clone()).to_vec()
    };
    write("gpu_single");
    let mut client = serving(&store, dir.path(), "s3://jobs/out");
    let before = answers(&mut client);
    write("gpu_ddp8");
    let now = answers(&mut client);
    let unchanged =
        before.iter().zip(&now).filter(|(before, now)| before == now || now["status"] != "answered");
    assert_eq!(unchanged.count(), 0);
    assert_eq!(now, answers(&mut serving(&store, dir.path(), "s3://jobs/out")));
}

#[test]
fn traces_are_analysed_again_when_an_object_is_new_or_has_changed() {
    let (store, dir) = (Store::start(), tempfile::tempdir().expect("a folder"));
    let put = |name: &str, rank: u32| {
        let file = shared::samples().join(format!("gpu_ddp8/rank_{rank}.json.gz"));
        store.put(&format!("traces/run/{name}"), &std::fs::read(file).expect("a sample"));
    };
    put("a.json.gz", 0);
    let mut client = serving(&store, dir.path(), "s3://traces/run");
    let mut ranks = || client.rows("run", "SELECT rank FROM ranks ORDER BY rank");
    assert_eq!(ranks(), [[json!(0)]]);
    let reads = || store.log().iter().filter(|line| line.contains("a.json.gz")).count();
    let read = reads();
    assert_eq!((ranks(), reads()), (vec![vec![json!(0)]], read), "nothing has changed, and nothing is read");
    put("b.json.gz", 1);
    assert_eq!(ranks(), [[json!(0)], [json!(1)]]);
    put("a.json.gz", 2);
    assert_eq!(ranks(), [[json!(1)], [json!(2)]]);
}

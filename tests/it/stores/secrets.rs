//! Secrets are in requests, and nowhere else.

use super::server::{Mishap, Store};
use super::{SECRET, run, said};
use crate::shared;

const QUERY: &str = "X-Amz-Date=20260101&X-Amz-Signature=51gn4tur3/0f/th3/url";
const SIGNATURE: &str = "51gn4tur3";

fn assert_unseen(what: &str, bytes: &[u8]) {
    for secret in [SIGNATURE, SECRET] {
        assert!(!bytes.windows(secret.len()).any(|w| w == secret.as_bytes()), "{what} holds a secret");
    }
}

#[test]
fn the_signature_of_a_url_is_sent_and_seen_nowhere() {
    let (store, dir) = (Store::start(), tempfile::tempdir().expect("a folder"));
    store.put(
        "a/rank_0.json.gz",
        &std::fs::read(shared::samples().join("gpu_ddp8/rank_0.json.gz")).expect("a sample"),
    );
    let url = format!("{}/a/rank_0.json.gz?{QUERY}", store.endpoint());
    let read = run(&store, dir.path(), &["analyze", &url, "--out", "out"]);
    assert!(read.status.success(), "{}", said(&read));
    assert!(store.log().iter().all(|line| line.contains(SIGNATURE)), "{:?}", store.log());
    assert_unseen("the output", said(&read).as_bytes());
    let results = shared::contents(&dir.path().join("out"));
    assert!(results.len() > 5);
    results.iter().for_each(|(name, bytes)| assert_unseen(name, bytes));
    // Not in tables that are packed, either.
    let ranks = run(&store, dir.path(), &["query", "SELECT * FROM ranks", "out", "--format", "csv"]);
    assert!(said(&ranks).contains("/a/rank_0.json.gz"), "{}", said(&ranks));
    assert_unseen("the table of ranks", said(&ranks).as_bytes());
    let partial = run(&store, dir.path(), &["analyze", &url, "--partial", "--out", "part"]);
    assert!(partial.status.success(), "{}", said(&partial));
    shared::contents(&dir.path().join("part")).iter().for_each(|(name, bytes)| assert_unseen(name, bytes));
}

#[test]
fn errors_do_not_show_secrets() {
    let (store, dir) = (Store::start(), tempfile::tempdir().expect("a folder"));
    let missing = format!("{}/a/none.json.gz?{QUERY}", store.endpoint());
    let with_password = format!("https://user:{SIGNATURE}@127.0.0.1/a.json");
    let endpoint = format!("http://user:{SIGNATURE}@127.0.0.1:9000");
    let of_azure = format!("az://traces/rank_0.json?sv=1&sig={SIGNATURE}");
    for arguments in [
        vec!["breakdown", &missing],
        vec!["breakdown", &with_password],
        vec!["breakdown", "s3://a/b.json", "--endpoint", &endpoint],
        vec!["breakdown", &of_azure],
        vec!["analyze", &missing, "--out", &with_password],
        vec!["breakdown", &missing, "--no-such-option", &missing],
        vec!["report", &missing],
        vec!["merge", &missing],
        vec!["query", "top_kernels", &missing],
    ] {
        let refused = run(&store, dir.path(), &arguments);
        let told = said(&refused);
        assert_eq!(refused.status.code(), Some(2), "{told}");
        assert!(told.contains("cannot") || told.contains("error"), "{told}");
        assert_unseen(&format!("{arguments:?}: {told}"), told.as_bytes());
    }
    store.plan(|_| Mishap::Status(403));
    for status in ["s3://a/b.json", &missing] {
        let refused = run(&store, dir.path(), &["breakdown", status]);
        assert!(said(&refused).contains("403"), "{}", said(&refused));
        assert_unseen("a refusal", said(&refused).as_bytes());
    }
}

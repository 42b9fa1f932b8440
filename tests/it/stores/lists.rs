//! Lists of stores that do not end, and keys that no path can have: bounded, named, and the other objects are read.

use super::server::{Mishap, Store};
use super::{run, said, with_samples};
use std::process::Output;
use std::time::{Duration, Instant};

fn ranks(store: &Store, place: &str) -> Output {
    let dir = tempfile::tempdir().expect("a folder");
    run(store, dir.path(), &["query", "SELECT COUNT(*) AS n FROM ranks", place, "--format", "csv"])
}

fn item(key: &str) -> String {
    format!(
        "<Contents><Key>{key}</Key><LastModified>2023-11-14T22:13:20.000Z</LastModified><ETag>\"1\"</ETag>\
         <Size>5</Size></Contents>"
    )
}

/// A page of a list that names the next one.
fn page(number: usize, next: &str) -> String {
    let items: String = (0..100).map(|i| item(&format!("job/{number}_{i}.txt"))).collect();
    format!(
        "<ListBucketResult><NextContinuationToken>{next}</NextContinuationToken>{items}</ListBucketResult>"
    )
}

#[test]
fn lists_that_do_not_end_are_refused() {
    let (store, begun) = (Store::start(), Instant::now());
    let is_list = |target: &str| target.contains("list-type");
    store.plan(move |asked| match is_list(asked.target) {
        true => Mishap::Body(page(asked.number, &format!("t{}", asked.number))),
        false => Mishap::Status(404),
    });
    let refused = ranks(&store, "s3://b/job/");
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
    assert!(said(&refused).contains("the store's list does not end: 500 pages"), "{}", said(&refused));
    let lists = store.log().iter().filter(|line| is_list(line)).count();
    assert!((500..=1000).contains(&lists), "{lists}");

    store.plan(move |asked| Mishap::Body(page(asked.number, "same")));
    let before = store.log().len();
    let refused = ranks(&store, "s3://b/job/");
    assert!(said(&refused).contains("a page names itself as the next one"), "{}", said(&refused));
    assert!(store.log().len() < before + 10, "{:?}", store.log());

    store.plan(|_| {
        Mishap::Body(format!("<ListBucketResult>{}</ListBucketResult>", item("job/x").repeat(200_000)))
    });
    let refused = ranks(&store, "s3://b/job/");
    assert!(said(&refused).contains("a page is longer than 16 MiB"), "{}", said(&refused));
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}

#[test]
fn a_key_that_no_path_can_have_is_named_and_the_others_are_read() {
    let store = with_samples();
    let sample = store.objects("samples/gpu_ddp8/")["rank_1.json.gz"].clone();
    let keys = [
        "job//rank_0.json.gz",
        "job/a/../rank_0.json.gz",
        "job/\u{1b}]0;e\u{7}rank_0.json.gz",
        "job/../../../etc/passwd",
        "../../rank_0.json.gz",
    ];
    for key in keys {
        store.put("b/job/rank_1.json.gz", &sample);
        let shown = key.replace('\u{1b}', r"\u{1b}").replace('\u{7}', r"\u{7}");
        let listed = key.to_string();
        store.plan(move |asked| match asked.target.contains("list-type") {
            true => {
                let items = item(&listed) + &item("job/rank_1.json.gz");
                Mishap::Body(format!("<ListBucketResult>{items}</ListBucketResult>"))
            }
            false => Mishap::None,
        });
        let read = ranks(&store, "s3://b/job/");
        assert_eq!(read.status.code(), Some(1), "{key}: {}", said(&read));
        assert!(said(&read).contains(&format!("s3://b/{shown}")), "{key}: {}", said(&read));
        assert!(said(&read).contains("n\n1\n") && !said(&read).contains('\u{1b}'), "{key}: {}", said(&read));
    }
    // What lies outside the folder that was asked for is not read.
    store.plan(|asked| match asked.target.contains("list-type") {
        true => Mishap::Body(format!(
            "<ListBucketResult>{}{}</ListBucketResult>",
            item("../../rank_0.json.gz"),
            item("job2/rank_1.json.gz")
        )),
        false => Mishap::None,
    });
    let refused = ranks(&store, "s3://b/job/");
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
}

#[test]
fn advice_is_true_of_what_was_done() {
    let store = Store::start();
    let told = |status: u16| {
        store.plan(move |_| Mishap::Status(status));
        said(&ranks(&store, "s3://b/job/"))
    };
    assert!(told(403).contains("credentials are taken from") && !told(403).contains("several times"));
    assert!(told(302).contains("--endpoint") && !told(302).contains("several times"));
    assert!(!told(400).contains("several times"));
    store.plan(|_| Mishap::Redirect("http://127.0.0.1:1/".to_string()));
    let told = said(&ranks(&store, "s3://b/job/"));
    assert!(told.contains("--endpoint") && !told.contains("several times"), "{told}");
}

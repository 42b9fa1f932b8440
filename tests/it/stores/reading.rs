//! Reading from a store.

use super::server::{Mishap, Store};
use super::{hta, run, said, with_samples};
use crate::shared;
use hta::files::{Fault, Location};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const SAMPLES: [&str; 6] = ["gpu_ddp8", "gpu_single", "gpu_counters", "gloo_ddp4", "cpu_single", "serving"];

/// A path of files with as many letters as `s3://samples`, so that reports are laid out alike.
const LIKE_A_BUCKET: &str = "like_samples";

/// Copies the samples to a folder, so that names of files have the same length as in the store.
fn beside(folder: &Path) {
    for path in shared::files_below(&shared::samples()) {
        let to = folder.join(LIKE_A_BUCKET).join(path.strip_prefix(shared::samples()).expect("below"));
        std::fs::create_dir_all(to.parent().expect("a folder")).expect("a folder");
        std::fs::copy(path, to).expect("a copy");
    }
}

/// A file of a result with names of objects replaced by those of files; of a table, its rows as CSV.
fn comparable(folder: &Path, name: &str) -> String {
    let bytes = match name.strip_prefix("tables/").and_then(|n| n.strip_suffix(".parquet")) {
        Some(table) => {
            let statement = format!("SELECT * FROM {table}");
            let mut hta = Command::new(env!("CARGO_BIN_EXE_hta"));
            let rows = hta
                .args(["query", &statement, "--format", "csv"])
                .arg(folder)
                .output()
                .expect("the binary runs");
            assert!(rows.status.success(), "{name}: {}", said(&rows));
            rows.stdout
        }
        None => std::fs::read(folder.join(name)).expect("a file"),
    };
    String::from_utf8_lossy(&bytes).replace("s3://samples", LIKE_A_BUCKET)
}

#[test]
fn every_sample_gives_the_same_results_from_a_store_as_from_files() {
    let (store, dir) = (with_samples(), tempfile::tempdir().expect("a folder"));
    beside(dir.path());
    for sample in SAMPLES {
        let (file, object) = (format!("{LIKE_A_BUCKET}/{sample}"), format!("s3://samples/{sample}"));
        let local = run(&store, dir.path(), &["analyze", &file, "--out", &format!("local_{sample}")]);
        let remote = run(&store, dir.path(), &["analyze", &object, "--out", &format!("store_{sample}")]);
        assert_eq!(remote.status.code(), local.status.code(), "{sample}: {}", said(&remote));
        let folders =
            [format!("local_{sample}"), format!("store_{sample}")].map(|name| dir.path().join(name));
        let [files, objects] = folders.each_ref().map(|folder| shared::contents(folder));
        assert_eq!(files.keys().collect::<Vec<_>>(), objects.keys().collect::<Vec<_>>(), "{sample}");
        for name in files.keys().filter(|name| files[*name] != objects[*name]) {
            // Only names of files may differ.
            assert!(!name.starts_with("events/"), "{sample}/{name}");
            assert!(
                comparable(&folders[0], name) == comparable(&folders[1], name),
                "{sample}/{name} differs"
            );
        }
    }
}

#[test]
fn failed_broken_and_slow_answers_are_asked_for_again_and_change_no_byte() {
    let (store, dir) = (with_samples(), tempfile::tempdir().expect("a folder"));
    let clean = run(&store, dir.path(), &["analyze", "s3://samples/gpu_ddp8/", "--out", "clean"]);
    assert!(clean.status.success(), "{}", said(&clean));
    let counted = AtomicUsize::new(0);
    store.plan(move |_| match counted.fetch_add(1, Ordering::SeqCst) % 9 {
        1 => Mishap::Status(503),
        2 => Mishap::Reset(1000),
        4 => Mishap::Short(5000),
        5 => Mishap::Status(500),
        7 => Mishap::Stall(2000, Duration::from_millis(2500)),
        8 => Mishap::Reset(0),
        _ => Mishap::None,
    });
    let arguments = ["analyze", "s3://samples/gpu_ddp8/", "--out", "faulty", "--store-timeout", "1"];
    let faulty = run(&store, dir.path(), &arguments);
    assert!(faulty.status.success(), "{}", said(&faulty));
    assert_eq!(shared::contents(&dir.path().join("clean")), shared::contents(&dir.path().join("faulty")));
}

#[test]
fn lists_and_messages_that_break_off_are_asked_for_again() {
    let (store, dir) = (with_samples(), tempfile::tempdir().expect("a folder"));
    let seen = Mutex::new(BTreeSet::new());
    store.plan(move |asked| {
        let is_first = seen.lock().expect("not poisoned").insert(asked.target.to_string());
        if is_first { Mishap::Reset(10) } else { Mishap::None }
    });
    for place in ["s3://samples/gpu_ddp8", "s3://samples/gpu_ddp8/rank_*.json.gz"] {
        let run =
            run(&store, dir.path(), &["query", "SELECT COUNT(*) AS n FROM ranks", place, "--format", "csv"]);
        assert!(run.status.success(), "{place}: {}", said(&run));
        assert_eq!(String::from_utf8_lossy(&run.stdout), "n\n8\n", "{place}");
    }
    let lists = store.log().iter().filter(|line| line.contains("list-type")).count();
    assert!(lists >= 2, "a list was asked for again: {:?}", store.log());
    store.plan(|asked| if asked.target.contains("list-type") { Mishap::Reset(10) } else { Mishap::None });
    let refused = run(&store, dir.path(), &["breakdown", "s3://samples/gpu_single"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(said(&refused).contains("s3://samples/gpu_single"), "{}", said(&refused));
}

#[test]
fn an_object_that_cannot_be_had_whole_is_refused_by_name() {
    let (store, dir) = (with_samples(), tempfile::tempdir().expect("a folder"));
    store.plan(|asked| match asked.target.contains("rank_3") {
        true if asked.method == "GET" => Mishap::Short(20_000),
        _ => Mishap::None,
    });
    // The store's list says 31 kB, and it sends 20 kB of them at most: the rest comes with the next request.
    let whole = run(&store, dir.path(), &["breakdown", "s3://samples/gpu_ddp8/"]);
    assert!(whole.status.success(), "{}", said(&whole));
    // The rest never comes.
    let seen = AtomicUsize::new(0);
    store.plan(move |asked| match asked.target.contains("rank_3") {
        true if seen.fetch_add(1, Ordering::SeqCst) > 0 => Mishap::Short(0),
        _ => Mishap::None,
    });
    let cut = run(&store, dir.path(), &["breakdown", "s3://samples/gpu_ddp8/"]);
    let told = said(&cut);
    assert_eq!(cut.status.code(), Some(1), "{told}");
    let expected =
        "cannot read s3://samples/gpu_ddp8/rank_3.json.gz: the store's answers end at byte 8192 of 30992";
    assert!(told.contains(expected), "{told}");
    store.plan(|asked| if asked.target.contains("rank_3") { Mishap::Status(500) } else { Mishap::None });
    let failed = run(&store, dir.path(), &["breakdown", "s3://samples/gpu_ddp8/"]);
    let told = said(&failed);
    assert_eq!(failed.status.code(), Some(1), "{told}");
    assert!(
        told.contains(
            "cannot read s3://samples/gpu_ddp8/rank_3.json.gz: the store answers with an error (500"
        ),
        "{told}"
    );
}

#[test]
fn an_object_that_changes_while_it_is_read_is_refused_by_name() {
    let store = std::sync::Arc::new(Store::start());
    let dir = tempfile::tempdir().expect("a folder");
    let sample = std::fs::read(shared::samples().join("gpu_ddp8/rank_0.json.gz")).expect("a sample");
    store.put("jobs/rank_0.json.gz", &sample);
    let mut other = sample.clone();
    other.reverse();
    let (seen, writer) = (AtomicUsize::new(0), std::sync::Arc::downgrade(&store));
    store.plan(move |asked| {
        if asked.method == "GET" && seen.fetch_add(1, Ordering::SeqCst) == 1 {
            writer.upgrade().expect("alive").put("jobs/rank_0.json.gz", &other);
        }
        Mishap::None
    });
    let changed = run(&store, dir.path(), &["breakdown", "s3://jobs/rank_0.json.gz"]);
    let told = said(&changed);
    assert_eq!(changed.status.code(), Some(2), "{told}");
    assert!(told.contains("s3://jobs/rank_0.json.gz: the object changed while it was read"), "{told}");
}

#[test]
fn folders_and_patterns_are_listed_and_what_is_missing_is_named() {
    let (store, dir) = (with_samples(), tempfile::tempdir().expect("a folder"));
    store.put("samples/gpu_ddp8_old/rank_0.json.gz", b"another folder with the same beginning");
    store.put("samples/gpu_ddp8/notes.txt", b"not a trace");
    store.put("samples/gpu_ddp8/deeper/rank_9.json.gz", b"not read");
    let ranks = |place: &str| {
        let run = run(
            &store,
            dir.path(),
            &["query", "SELECT rank FROM ranks ORDER BY rank", place, "--format", "csv"],
        );
        assert!(run.status.success(), "{place}: {}", said(&run));
        String::from_utf8_lossy(&run.stdout).split_whitespace().skip(1).collect::<Vec<_>>().join(",")
    };
    assert_eq!(ranks("s3://samples/gpu_ddp8"), "0,1,2,3,4,5,6,7");
    assert_eq!(ranks("s3://samples/gpu_ddp8/"), "0,1,2,3,4,5,6,7");
    assert_eq!(ranks("s3://samples/gpu_ddp8/rank_[2-4].json*"), "2,3,4");
    assert_eq!(ranks("s3://samples/*_ddp8/rank_?.json.gz"), "0,1,2,3,4,5,6,7");
    assert_eq!(ranks("s3://samples/gpu_ddp8/rank_5.json.gz"), "5");
    let missing = |place: &str, expected: &str| {
        let run = run(&store, dir.path(), &["breakdown", place]);
        let told = said(&run);
        assert_eq!(run.status.code(), Some(2), "{place}: {told}");
        assert!(told.contains(&format!("cannot find {place}: {expected}")), "{told}");
    };
    missing("s3://samples/gpu_ddp", "no object or folder of this name");
    missing("s3://samples/gpu_ddp8/rank_[89].json.gz", "no object of this pattern");
    missing("s3://samples/../other", "expected a path without");
}

#[test]
fn two_sets_and_snapshots_are_read_from_stores_and_databases_are_not() {
    let (store, dir) = (with_samples(), tempfile::tempdir().expect("a folder"));
    let same = run(&store, dir.path(), &["diff", "s3://samples/gpu_ddp8", "s3://samples/gpu_ddp8"]);
    assert!(same.status.success(), "{}", said(&same));
    let mut database = b"SQLite format 3\0".to_vec();
    database.resize(4096, 0);
    store.put("samples/nsys/report.sqlite", &database);
    let refused = run(&store, dir.path(), &["breakdown", "s3://samples/nsys/report.sqlite"]);
    let told = said(&refused);
    assert_eq!(refused.status.code(), Some(2), "{told}");
    assert!(told.contains("found an SQLite database in a store") && told.contains("copy it"), "{told}");
}

#[test]
fn servers_of_files_are_read_with_and_without_ranges_and_through_redirects() {
    let (store, dir) = (with_samples(), tempfile::tempdir().expect("a folder"));
    let url = format!("{}/samples/gpu_single/rank_0.json.gz", store.endpoint());
    let told = |store: &Store| {
        let run = run(store, dir.path(), &["breakdown", &url, "--format", "csv"]);
        assert!(run.status.success(), "{}", said(&run));
        run.stdout
    };
    let expected = told(&store);
    store.plan(|_| Mishap::Whole);
    assert!(told(&store) == expected);
    let moved = format!("{}/samples/gpu_single/rank_0.json.gz", store.endpoint());
    store.plan(move |asked| {
        if asked.target.contains("samples") && asked.number % 2 == 0 {
            Mishap::Redirect(moved.clone())
        } else {
            Mishap::None
        }
    });
    assert!(told(&store) == expected);
    // Requests to a bucket carry credentials, and follow nothing.
    let other = format!("{}/samples/gpu_single/rank_0.json.gz", store.endpoint());
    store.plan(move |_| Mishap::Redirect(other.clone()));
    let refused = run(&store, dir.path(), &["breakdown", "s3://samples/gpu_single/rank_0.json.gz"]);
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
    let listed = run(&store, dir.path(), &["breakdown", &format!("{}/samples/", store.endpoint())]);
    assert_eq!(listed.status.code(), Some(2), "{}", said(&listed));
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let (store, dir) = (Store::start(), tempfile::tempdir().expect("a folder"));
    let mut command = hta(&store, dir.path());
    let run = command.args(["breakdown", "s3://samples/x.json", "--endpoint", "http://127.0.0.1:9"]).output();
    let told = said(&run.expect("the binary runs"));
    assert!(told.contains("cannot find s3://samples/x.json") && told.contains("refused"), "{told}");
}

fn mishap() -> impl Strategy<Value = Mishap> {
    prop_oneof![
        4 => Just(Mishap::None),
        1 => Just(Mishap::Status(503)),
        2 => (0usize..60_000).prop_map(Mishap::Reset),
        2 => (0usize..60_000).prop_map(Mishap::Short),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, max_shrink_iters: 0, ..ProptestConfig::default() })]

    #[test]
    fn whatever_goes_wrong_the_bytes_are_those_of_the_object_or_an_error(
        size in 0usize..150_000, start in 0u64..100_000, mishaps in prop::collection::vec(mishap(), 12),
    ) {
        let store = Store::start();
        let bytes: Vec<u8> = (0..size as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        store.put("files/object", &bytes);
        store.plan(move |asked| mishaps.get(asked.number).cloned().unwrap_or(Mishap::None));
        let url = format!("{}/files/object", store.endpoint());
        let mut read = Vec::new();
        match Location::from(url.as_str()).open_at(start).and_then(|mut file| file.read_to_end(&mut read)) {
            Ok(_) => prop_assert!(read == bytes.get(start as usize..).unwrap_or_default()),
            Err(error) => prop_assert!(Fault::of(&error).is_some(), "{error}"),
        }
    }
}

//! `hta files`: the files of an output in a store or a folder, and removing partials.

use super::server::Store;
use super::{run, said, with_samples};
use crate::shared;

#[test]
fn the_files_of_results_are_listed_and_copied_from_a_store_and_a_folder() {
    let (store, dir) = (with_samples(), tempfile::tempdir().expect("a folder"));
    for out in ["out", "s3://jobs/out"] {
        assert!(
            run(&store, dir.path(), &["analyze", "s3://samples/gpu_single", "--out", out]).status.success()
        );
    }
    store.put("jobs/out/thesis.txt", b"years of work");
    std::fs::write(dir.path().join("out/thesis.txt"), "years of work").expect("a file");
    let mut expected = shared::contents(&dir.path().join("out"));
    expected.remove("thesis.txt");
    for place in ["out", "s3://jobs/out"] {
        let listed = run(&store, dir.path(), &["files", place]);
        let names: Vec<&str> = std::str::from_utf8(&listed.stdout).expect("text").lines().collect();
        assert_eq!(names, expected.keys().map(String::as_str).collect::<Vec<_>>(), "{}", said(&listed));
        for (name, bytes) in
            expected.iter().filter(|(name, _)| name.contains("kernels") || !name.contains('/'))
        {
            assert!(run(&store, dir.path(), &["files", place, name]).stdout == *bytes, "{place}: {name}");
            let copied = run(&store, dir.path(), &["files", place, name, "--out", "copy"]);
            assert!(copied.status.success() && copied.stdout.is_empty(), "{}", said(&copied));
            assert!(std::fs::read(dir.path().join("copy")).expect("a copy") == *bytes, "{place}: {name}");
        }
        for name in ["thesis.txt", "../out/summary.json", "tables/none.parquet"] {
            let refused = run(&store, dir.path(), &["files", place, name]);
            assert_eq!(refused.status.code(), Some(2), "{name}: {}", said(&refused));
            assert!(
                said(&refused).contains(&format!("cannot find `{name}` in {place}")),
                "{}",
                said(&refused)
            );
        }
    }
    let own = run(&store, dir.path(), &["files", "out", "report.txt", "--out", "out/summary.json"]);
    assert_eq!(own.status.code(), Some(2), "{}", said(&own));
    for (place, found) in
        [("s3://samples/gpu_single", "neither summary.json"), ("s3://jobs/none", "nothing there")]
    {
        let refused = run(&store, dir.path(), &["files", place]);
        assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
        assert!(said(&refused).contains(found), "{}", said(&refused));
    }
}

#[test]
fn partials_are_removed_from_a_store_complete_or_not_and_nothing_else() {
    let (store, dir) = (with_samples(), tempfile::tempdir().expect("a folder"));
    for (share, out) in [("0/2", "s3://jobs/parts/run 1/a"), ("1/2", "s3://jobs/parts/b")] {
        let arguments = ["analyze", "--partial", "--share", share, "s3://samples/gpu_ddp8", "--out", out];
        assert!(run(&store, dir.path(), &arguments).status.success());
    }
    // What a killed process has left.
    store.put("jobs/parts/c/state/inventory.ranks.parquet", b"half");
    store.put("jobs/parts2/keep.txt", b"of others");
    store.put("jobs/parts/b/thesis.txt", b"years of work");
    let before = store.objects("jobs/");
    let refused = run(&store, dir.path(), &["files", "s3://jobs/parts", "--remove-partials"]);
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
    assert!(said(&refused).contains("found `b/thesis.txt`"), "{}", said(&refused));
    assert!(store.objects("jobs/") == before);
    let cleaned = Store::start();
    before
        .iter()
        .filter(|(name, _)| !name.ends_with("thesis.txt"))
        .for_each(|(n, b)| cleaned.put(&format!("jobs/{n}"), b));
    let removed = run(&cleaned, dir.path(), &["files", "s3://jobs/parts/", "--remove-partials"]);
    assert!(removed.status.success() && said(&removed).contains("3 partials removed"), "{}", said(&removed));
    assert_eq!(cleaned.objects("jobs/").into_keys().collect::<Vec<_>>(), ["parts2/keep.txt"]);
    // The proof goes first, so that nobody takes the rest for a partial.
    let removals: Vec<String> =
        cleaned.log().into_iter().filter(|l| l.contains("jobs/parts") && l.starts_with("DELETE")).collect();
    assert!(removals.iter().any(|l| l.ends_with("partial.json")), "{removals:?}");
    let first = |end: &str| removals.iter().position(|l| l.contains("parts/b/") && l.ends_with(end));
    assert!(first("partial.json") < first("parquet"), "{removals:?}");
    let local = run(&store, dir.path(), &["files", "parts", "--remove-partials"]);
    assert!(said(&local).contains("expected a folder of a store"), "{}", said(&local));
}

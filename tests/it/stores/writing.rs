//! Writing to a store: complete, or not at all.

use super::server::{Mishap, Store};
use super::{hta, run, said, with_samples};
use crate::shared;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

fn samples(name: &str) -> String {
    shared::samples().join(name).display().to_string()
}

fn contents(folder: &Path) -> shared::Files {
    shared::contents(folder)
}

#[test]
fn results_in_a_store_are_the_bytes_of_results_in_a_folder_and_the_proof_is_last() {
    let (store, dir) = (Store::start(), tempfile::tempdir().expect("a folder"));
    let local = run(&store, dir.path(), &["analyze", &samples("gpu_ddp8"), "--out", "out"]);
    assert!(local.status.success(), "{}", said(&local));
    for attempt in ["first", "again"] {
        let remote =
            run(&store, dir.path(), &["analyze", &samples("gpu_ddp8"), "--out", "s3://jobs/run 7/out"]);
        assert!(remote.status.success(), "{attempt}: {}", said(&remote));
        assert!(store.objects("jobs/run 7/out/") == contents(&dir.path().join("out")), "{attempt}");
    }
    let writes: Vec<String> = store.log().into_iter().filter(|l| l.starts_with("PUT")).collect();
    assert!(writes.last().is_some_and(|l| l.ends_with("summary.json")), "{writes:?}");
    assert_eq!(store.open_uploads(), 0);
}

#[test]
fn results_in_a_store_are_asked_like_those_in_a_folder_if_they_are_complete() {
    let (store, dir) = (Store::start(), tempfile::tempdir().expect("a folder"));
    for out in ["out", "s3://jobs/out"] {
        assert!(run(&store, dir.path(), &["analyze", &samples("gpu_ddp8"), "--out", out]).status.success());
    }
    let asked = |arguments: &[&str], place: &str| {
        let run = run(&store, dir.path(), &[arguments, &[place]].concat());
        assert!(run.status.success(), "{}", said(&run));
        run.stdout
    };
    let statement =
        "SELECT name, COUNT(*) AS n, SUM(dur_ns) AS d FROM events GROUP BY name ORDER BY d DESC, name";
    for query in ["top_kernels", statement] {
        let arguments = ["query", query, "--format", "csv"];
        assert!(asked(&arguments, "out") == asked(&arguments, "s3://jobs/out"), "{query}");
    }
    let page = ["report", "--out", "-"];
    assert!(asked(&page, "out") == asked(&page, "s3://jobs/out/"));
    let nowhere = run(&store, dir.path(), &["report", "s3://jobs/out"]);
    assert!(said(&nowhere).contains("only folders of results are written to stores"), "{}", said(&nowhere));
    // Without its proof it is no result.
    let bytes = store.objects("jobs/out/");
    let half = Store::start();
    bytes
        .iter()
        .filter(|(name, _)| *name != "summary.json")
        .for_each(|(n, b)| half.put(&format!("jobs/out/{n}"), b));
    for arguments in [["query", "top_kernels", "s3://jobs/out"], ["report", "--out=-", "s3://jobs/out"]] {
        let refused = run(&half, dir.path(), &arguments);
        assert_eq!(refused.status.code(), Some(2));
        assert!(said(&refused).contains("no summary.json"), "{}", said(&refused));
    }
}

#[test]
fn parts_of_a_job_in_a_store_are_merged_to_the_results_of_one_run() {
    let (store, dir) = (with_samples(), tempfile::tempdir().expect("a folder"));
    let whole = run(&store, dir.path(), &["analyze", "s3://samples/gpu_ddp8", "--out", "whole"]);
    assert!(whole.status.success(), "{}", said(&whole));
    for (traces, part) in [("rank_[0-2].json.gz", "a"), ("rank_[3-7].json.gz", "b")] {
        let (traces, part) = (format!("s3://samples/gpu_ddp8/{traces}"), format!("s3://jobs/parts/{part}"));
        let made = run(&store, dir.path(), &["analyze", "--partial", &traces, "--out", &part]);
        assert!(made.status.success(), "{}", said(&made));
    }
    let merged = run(
        &store,
        dir.path(),
        &["merge", "s3://jobs/parts/b", "s3://jobs/parts/a", "--out", "s3://jobs/all"],
    );
    assert!(merged.status.success(), "{}", said(&merged));
    assert!(store.objects("jobs/all/") == contents(&dir.path().join("whole")));
    // A part that was not written to its end, and one that was damaged.
    let manifest = store.objects("jobs/parts/a/").remove("partial.json").expect("a manifest");
    store.put("jobs/parts/c/state/inventory.ranks.parquet", b"alone");
    let refused = run(&store, dir.path(), &["merge", "s3://jobs/parts/c"]);
    assert!(said(&refused).contains("a folder without partial.json"), "{}", said(&refused));
    store.put("jobs/parts/c/partial.json", &manifest);
    let refused = run(&store, dir.path(), &["merge", "s3://jobs/parts/c"]);
    assert!(said(&refused).contains("no such") && refused.status.code() == Some(2), "{}", said(&refused));
}

#[test]
fn a_place_that_holds_something_else_or_an_input_is_refused() {
    let (store, dir) = (with_samples(), tempfile::tempdir().expect("a folder"));
    store.put("jobs/out/thesis.txt", b"years of work");
    let refused = run(&store, dir.path(), &["analyze", &samples("gpu_single"), "--out", "s3://jobs/out"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(said(&refused).contains("found `thesis.txt` in it"), "{}", said(&refused));
    let forced =
        run(&store, dir.path(), &["analyze", &samples("gpu_single"), "--out", "s3://jobs/out", "--force"]);
    assert!(forced.status.success(), "{}", said(&forced));
    let there = store.objects("jobs/out/");
    assert!(there.contains_key("summary.json") && there["thesis.txt"] == b"years of work");
    for out in ["s3://samples/gpu_single", "s3://samples", "s3://samples/gpu_single/out"] {
        let refused =
            run(&store, dir.path(), &["analyze", "s3://samples/gpu_single/", "--out", out, "--force"]);
        assert_eq!(refused.status.code(), Some(2), "{out}: {}", said(&refused));
        assert!(said(&refused).contains("inputs"), "{out}: {}", said(&refused));
    }
    let url = format!("{}/out", store.endpoint());
    let refused = run(&store, dir.path(), &["analyze", &samples("gpu_single"), "--out", &url]);
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
}

#[test]
fn a_store_that_fails_for_a_while_gets_every_byte_and_one_that_fails_for_good_keeps_none() {
    let (store, dir) = (Store::start(), tempfile::tempdir().expect("a folder"));
    let arguments = ["analyze", &samples("gpu_single"), "--out", "s3://jobs/out"];
    store.plan(|asked| if asked.number % 3 == 1 { Mishap::Status(503) } else { Mishap::None });
    let written = run(&store, dir.path(), &arguments);
    assert!(written.status.success(), "{}", said(&written));
    let whole = store.objects("jobs/out/");
    let store = Store::start();
    store.plan(|asked| match asked.method == "PUT" && asked.target.contains("kernels.parquet") {
        true => Mishap::Status(403),
        false => Mishap::None,
    });
    let failed = run(&store, dir.path(), &arguments);
    assert_eq!(failed.status.code(), Some(2), "{}", said(&failed));
    assert!(
        said(&failed).contains("cannot write to s3://jobs/out: the store refuses access (403"),
        "{}",
        said(&failed)
    );
    assert!(store.objects("jobs/").is_empty());
    store.plan(|_| Mishap::None);
    let again = run(&store, dir.path(), &arguments);
    assert!(again.status.success(), "{}", said(&again));
    assert!(store.objects("jobs/out/") == whole);
}

/// A trace whose events take more than one part of an upload: names that cannot be packed.
fn large(folder: &Path) -> String {
    let mut text = "{\"traceEvents\": [".to_string();
    let mut state = 7u64;
    let letters: Vec<char> = ('A'..='Z').chain('a'..='z').chain('0'..='9').chain(['+', '-']).collect();
    for i in 0..260_000u64 {
        let mut name = String::new();
        for _ in 0..60 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            name.push(letters[(state >> 58) as usize]);
        }
        let comma = if i == 0 { "" } else { "," };
        let _ = write!(
            text,
            "{comma}{{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"{name}\",\"pid\":1,\"tid\":1,\"ts\":{i},\"dur\":1}}"
        );
    }
    text.push_str("]}");
    let path = folder.join("rank_0.json");
    std::fs::write(&path, text).expect("a trace");
    path.display().to_string()
}

#[test]
fn large_files_are_written_in_parts_which_are_given_up_if_one_fails_or_the_user_interrupts() {
    let (store, dir) = (Store::start(), tempfile::tempdir().expect("a folder"));
    let trace = large(dir.path());
    let arguments = ["analyze", &trace, "--only", "breakdown", "--out", "s3://jobs/out"];
    let local = run(&store, dir.path(), &["analyze", &trace, "--only", "breakdown", "--out", "out"]);
    assert!(local.status.success(), "{}", said(&local));
    let written = run(&store, dir.path(), &arguments);
    assert!(written.status.success(), "{}", said(&written));
    assert!(store.log().iter().any(|l| l.contains("partNumber=2")), "it is larger than a part");
    assert!(store.objects("jobs/out/") == contents(&dir.path().join("out")));

    let store = Store::start();
    store
        .plan(|asked| if asked.target.contains("partNumber=2") { Mishap::Status(403) } else { Mishap::None });
    let failed = run(&store, dir.path(), &arguments);
    assert_eq!(failed.status.code(), Some(2), "{}", said(&failed));
    assert!(store.objects("jobs/").is_empty() && store.open_uploads() == 0);

    #[cfg(unix)]
    {
        let store = Store::start();
        store.plan(|asked| match asked.target.contains("partNumber=2") {
            true => Mishap::Stall(0, Duration::from_secs(3)),
            false => Mishap::None,
        });
        let mut command = hta(&store, dir.path());
        let mut child =
            command.args(arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it runs");
        for _ in 0..600 {
            if store.log().iter().any(|l| l.contains("partNumber=2")) {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        let sent = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        assert!(sent.expect("kill runs").success());
        let mut told = String::new();
        std::io::Read::read_to_string(&mut child.stderr.take().expect("a pipe"), &mut told).expect("text");
        assert_eq!(child.wait().expect("it ends").code(), Some(130), "{told}");
        assert!(told.contains("nothing was written"), "{told}");
        assert!(store.objects("jobs/").is_empty() && store.open_uploads() == 0);
    }
}

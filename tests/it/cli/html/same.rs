//! `hta report` writes the page of `hta analyze` again, from a folder that may lack tables or be damaged.

use super::{Page, analyze, hta, shown};
use std::path::Path;

fn errors(run: &std::process::Output) -> String {
    String::from_utf8_lossy(&run.stderr).into_owned()
}

#[test]
fn the_page_made_again_has_the_same_bytes() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let out = dir.path().join("out");
    for sample in ["gpu_ddp8", "cpu_single"] {
        let page = analyze(&format!("data/samples/{sample}"), &out, &[]);
        let again = dir.path().join("again.html");
        let run = hta(&["report", shown(&out), "-o", shown(&again)]);
        assert_eq!(run.status.code(), Some(0), "{}", errors(&run));
        assert!(Page::read(&again).html == page.html, "{sample}");
        let printed = hta(&["report", shown(&out), "-o", "-"]);
        assert!(printed.stdout == page.html.as_bytes(), "{sample}");
        std::fs::remove_file(out.join("report.html")).expect("the page is there");
        let in_place = hta(&["report", shown(&out)]);
        assert!(String::from_utf8_lossy(&in_place.stdout).ends_with("report.html\n"));
        assert!(Page::read(&out.join("report.html")).html == page.html, "{sample}");
    }
}

#[test]
fn editor_and_source_folder_are_set_as_asked_and_the_page_can_be_left_out() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let out = dir.path().join("out");
    let sample = "data/samples/gpu_single";
    let page = analyze(sample, &out, &[]);
    assert_eq!((&page.data["editor"], &page.data["source_root"]), (&"vscode".into(), &"".into()));
    let page = analyze(sample, &out, &["--editor", "cursor", "--source-root", "/src/<x>"]);
    assert_eq!((&page.data["editor"], &page.data["source_root"]), (&"cursor".into(), &"/src/<x>".into()));
    let again = dir.path().join("again.html");
    assert_eq!(hta(&["report", shown(&out), "-o", shown(&again), "--editor", "none"]).status.code(), Some(0));
    assert_eq!(Page::read(&again).data["editor"], "none");
    let run = hta(&["analyze", sample, "-o", shown(&out), "--no-html"]);
    assert_eq!(run.status.code(), Some(0));
    assert!(!out.join("report.html").exists() && out.join("report.txt").exists());
}

#[test]
fn a_run_in_other_definitions_has_a_page_that_says_what_is_not_in_it() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    for tool in ["hta", "tracelens"] {
        let page = analyze("data/samples/gpu_ddp8", &dir.path().join("out"), &["--compat", tool]);
        assert!(page.reason("breakdown").is_some_and(|r| r.contains("--compat")), "{tool}");
        assert!(page.reason("ranks").is_none() && page.reason("health").is_none(), "{tool}");
    }
}

#[test]
fn missing_tables_are_told_in_the_page_and_damaged_ones_by_an_error() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let out = dir.path().join("out");
    analyze("data/samples/gpu_ddp8", &out, &["--no-events"]);
    let tables = out.join("tables");
    for table in ["kernels_over_ranks", "idle_host", "process_groups"] {
        std::fs::remove_file(tables.join(format!("{table}.parquet"))).expect("the table is there");
    }
    assert_eq!(hta(&["report", shown(&out)]).status.code(), Some(0));
    let page = Page::read(&out.join("report.html"));
    assert!(page.reason("kernels").is_some_and(|r| r.contains("`kernels_over_ranks`")));
    assert!(page.reason("idle").is_none() && page.reason("collectives").is_none());

    let damage = |table: &str, change: &dyn Fn(&mut Vec<u8>)| {
        let path = tables.join(format!("{table}.parquet"));
        let whole = std::fs::read(&path).expect("the table is there");
        let mut bytes = whole.clone();
        change(&mut bytes);
        std::fs::write(&path, bytes).expect("a file can be written");
        let run = hta(&["report", shown(&out)]);
        std::fs::write(&path, whole).expect("a file can be written");
        assert_eq!(run.status.code(), Some(2), "{table}");
        assert!(
            errors(&run).contains(&format!("{table}.parquet")) && errors(&run).contains("hint: "),
            "{}",
            errors(&run)
        );
        assert!(!errors(&run).contains("panicked"), "{}", errors(&run));
    };
    damage("ranks", &|bytes| bytes.truncate(bytes.len() / 2));
    damage("repeats", &|bytes| bytes.clear());
    damage("operators_over_ranks", &|bytes| bytes.extend_from_slice(b"more"));
    assert_eq!(
        Page::read(&out.join("report.html")).html,
        page.html,
        "a page that cannot be made leaves the one that is there"
    );
}

#[test]
fn a_folder_that_is_no_result_is_an_error_with_a_hint() {
    let empty = tempfile::tempdir().expect("a temporary folder");
    for folder in [empty.path(), Path::new("no/such/folder"), Path::new("README.md")] {
        let run = hta(&["report", shown(folder)]);
        assert_eq!(run.status.code(), Some(2));
        assert!(
            errors(&run).contains("expected a results folder") && errors(&run).contains("hint: "),
            "{}",
            errors(&run)
        );
    }
    let summary = tempfile::tempdir().expect("a temporary folder");
    std::fs::create_dir(summary.path().join("tables")).expect("a folder can be made");
    assert!(errors(&hta(&["report", shown(summary.path())])).contains("summary.json"));
}

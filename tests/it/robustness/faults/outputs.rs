//! Places of outputs: never over an input or another user's files, including places that cannot be replaced as a whole.

use super::{errors, hta, names, sample};
use crate::shared::{Files, contents};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Runs `hta` in a folder.
fn run(folder: &Path, args: &[&str]) -> Output {
    hta(args).current_dir(folder).output().expect("the binary runs")
}

/// Everything below a folder: the bytes of files, the targets of links.
fn snapshot(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(&next).expect("a folder can be listed") {
            let path = entry.expect("an entry can be read").path();
            let kind = std::fs::symlink_metadata(&path).expect("it is there").file_type();
            let bytes = match std::fs::read_link(&path) {
                Ok(to) => to.to_string_lossy().into_owned().into_bytes(),
                Err(_) if kind.is_dir() => {
                    open.push(path.clone());
                    Vec::new()
                }
                Err(_) => std::fs::read(&path).expect("a file can be read"),
            };
            all.insert(path, bytes);
        }
    }
    all
}

/// A run that must refuse its output and change nothing.
fn refused(folder: &Path, args: &[&str]) -> String {
    let before = snapshot(folder);
    let end = run(folder, args);
    let said = errors(&end);
    assert_eq!(end.status.code(), Some(2), "{args:?}: {said}");
    assert!(said.starts_with("hta: cannot write") && said.contains("\nhint: "), "{args:?}: {said}");
    assert!(snapshot(folder) == before, "{args:?} changed something");
    said
}

/// A run that must write its output.
fn written(folder: &Path, args: &[&str]) -> String {
    let end = run(folder, args);
    let said = errors(&end);
    assert_eq!(end.status.code(), Some(0), "{args:?}: {said}");
    said
}

fn copy(from: &str, to: PathBuf) {
    std::fs::create_dir_all(to.parent().expect("it has a parent")).expect("a folder can be made");
    std::fs::copy(sample().join(from), to).expect("a sample can be copied");
}

fn write(path: PathBuf, text: &str) {
    std::fs::create_dir_all(path.parent().expect("it has a parent")).expect("a folder can be made");
    std::fs::write(path, text).expect("a file can be written");
}

/// A job with its traces in `job/events`, and one in `job` itself.
fn job() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a temporary folder");
    copy("rank_0.json.gz", dir.path().join("job/events/rank_0.json.gz"));
    copy("rank_1.json.gz", dir.path().join("job/rank_1.json.gz"));
    dir
}

/// The results of one run, which must be the same at any place.
fn expected(root: &Path) -> Files {
    written(root, &["analyze", "job/rank_1.json.gz", "-o", "expected"]);
    let files = contents(&root.join("expected"));
    std::fs::remove_dir_all(root.join("expected")).expect("a result can be removed");
    files
}

#[test]
fn an_output_that_holds_an_input_or_lies_in_one_is_refused() {
    let dir = job();
    let root = dir.path();
    for (input, out) in [
        ("job/events", "job"),
        ("job/events", "job/events"),
        ("job/events", "job/events/new"),
        ("job/events", "."),
        ("job/events", "job/../job"),
        ("job", "job/events"),
        ("job", "job/hta-out"),
        ("job/*.gz", "job"),
        ("job/events/rank_0.json.gz", "job/events"),
        ("job/events/rank_0.json.gz", "job"),
        ("./job/events/../events/rank_0.json.gz", "job/events/"),
    ] {
        for more in [&[][..], &["--force"], &["--partial"], &["--partial", "--force"]] {
            let said = refused(root, &[&["analyze", input, "-o", out], more].concat());
            assert!(said.contains("inputs"), "{said}");
        }
    }
    refused(root, &["analyze", "--rank-dir", "job", "-o", "job/out"]);
    // Beside the traces, and in the folder of a single one of them.
    written(root, &["analyze", "job", "-o", "results"]);
    written(root, &["analyze", "job/rank_1.json.gz", "-o", "job/results"]);
}

#[test]
fn traces_below_folders_of_our_names_are_not_deleted() {
    let dir = job();
    let root = dir.path();
    // Files that are not inputs of this run.
    let said = refused(root, &["analyze", "job/rank_1.json.gz", "-o", "job/events"]);
    assert!(said.contains("rank_0.json.gz"), "{said}");
    copy("rank_2.json.gz", root.join("other/rank_2.json.gz"));
    for below in ["mine/tables/a.parquet", "mine2/events/b.json", "mine3/report.txt", "mine4/report.html"] {
        write(root.join(below), "years of work");
        let out = below.split('/').next().expect("a folder");
        let said = refused(root, &["analyze", "other", "-o", out]);
        assert!(said.contains("--force"), "{said}");
    }
    // Even with --force, files with other names stay.
    for below in ["mine/tables/a.parquet", "mine2/events/b.json"] {
        let out = below.split('/').next().expect("a folder");
        let said = written(root, &["analyze", "other", "-o", out, "--force"]);
        assert!(said.contains("other files, which stay"), "{said}");
        assert_eq!(std::fs::read_to_string(root.join(below)).expect("it is there"), "years of work");
        assert!(root.join(out).join("summary.json").is_file());
        assert!(!names(root).iter().any(|n| n.contains(".hta-")), "{:?}", names(root));
    }
}

#[test]
fn an_earlier_result_is_replaced_only_while_it_is_one() {
    let dir = job();
    let root = dir.path();
    let expected = expected(root);
    let again = ["analyze", "job/rank_1.json.gz", "-o", "out"];
    written(root, &["analyze", "job/events", "-o", "out"]);
    written(root, &again);
    assert!(contents(&root.join("out")) == expected, "nothing of the run before is left");
    write(root.join("out/tables/mine.parquet"), "mine");
    assert!(refused(root, &again).contains("`tables/mine.parquet`"));
    std::fs::remove_file(root.join("out/tables/mine.parquet")).expect("a file can be removed");
    written(root, &again);
    std::fs::remove_file(root.join("out/summary.json")).expect("a file can be removed");
    assert!(refused(root, &again).contains("no summary.json of hta"));
    written(root, &[&again[..], &["--force"]].concat());
    assert!(contents(&root.join("out")) == expected);
    // An empty folder may be used.
    std::fs::create_dir(root.join("empty")).expect("a folder can be made");
    written(root, &["analyze", "job/rank_1.json.gz", "-o", "empty"]);
    assert!(contents(&root.join("empty")) == expected);
}

#[test]
fn no_command_writes_over_what_it_reads() {
    let dir = job();
    let root = dir.path();
    let trace = "job/rank_1.json.gz";
    written(root, &["analyze", "job", "-o", "results"]);
    write(root.join("q.sql"), "SELECT rank FROM ranks");
    write(root.join("rules.toml"), "rule = []\n");
    for out in [trace, "./job/../job/rank_1.json.gz"] {
        for command in ["kernels", "breakdown", "idle", "steps", "overlay"] {
            assert!(refused(root, &[command, trace, "-o", out]).contains("never written to"));
        }
        for format in ["csv", "json", "parquet", "text"] {
            refused(root, &["kernels", "job", "--format", format, "-o", out]);
        }
        refused(root, &["query", "top_kernels", "job", "-o", out]);
        refused(root, &["query", "SELECT rank FROM ranks", trace, "-o", out]);
        refused(root, &["diff", trace, "job/events", "-o", out]);
        refused(root, &["diff", "job/events", trace, "-o", out]);
        refused(root, &["overlay", "job", "-o", out, "--force"]);
    }
    refused(root, &["breakdown", trace, "--rules", "rules.toml", "-o", "rules.toml"]);
    refused(root, &["overlay", trace, "--rules", "rules.toml", "-o", "rules.toml", "--force"]);
    refused(root, &["query", "q.sql", "results", "-o", "q.sql"]);
    refused(root, &["query", "q.sql", "--sql", "-o", "q.sql"]);
    for file in ["tables/ranks.parquet", "events/rank=00001.parquet", "summary.json"] {
        let out = format!("results/{file}");
        refused(root, &["query", "q.sql", "results", "-o", &out]);
        refused(root, &["query", "q.sql", "--results", "results", "-o", &out]);
        refused(root, &["report", "results", "-o", &out]);
    }
    written(root, &["report", "results"]);
    written(root, &["report", "results", "-o", "results/report.html"]);
    written(root, &["kernels", trace, "-o", "job/kernels.txt"]);
    written(root, &["query", "q.sql", "results", "-o", "answer.csv"]);
}

#[cfg(unix)]
#[test]
fn a_link_leads_where_the_output_goes() {
    use std::os::unix::fs::symlink;
    let dir = job();
    let root = dir.path();
    let expected = expected(root);
    let is_link = |name: &str| std::fs::symlink_metadata(root.join(name)).expect("it is there").is_symlink();
    std::fs::create_dir(root.join("store")).expect("a folder can be made");
    for (link, to) in [("there", "store"), ("not-yet", "store/new"), ("twice", "not-yet")] {
        symlink(to, root.join(link)).expect("a link can be made");
        if link == "not-yet" {
            std::fs::remove_dir_all(root.join("store")).expect("a folder can be removed");
        }
        for _ in 0..2 {
            written(root, &["analyze", "job/rank_1.json.gz", "-o", link]);
            assert!(is_link(link) && contents(&root.join(link)) == expected, "{link}");
        }
        written(root, &["analyze", "job/rank_1.json.gz", "-o", &format!("{link}/")]);
        assert!(is_link(link), "{link}/");
    }
    // A link to the traces, or into them, does not circumvent the check.
    symlink("job", root.join("to-job")).expect("a link can be made");
    symlink("job/new", root.join("into-job")).expect("a link can be made");
    for out in ["to-job", "into-job", "to-job/new"] {
        refused(root, &["analyze", "job", "-o", out, "--force"]);
    }
    symlink("job/rank_1.json.gz", root.join("to-trace")).expect("a link can be made");
    refused(root, &["kernels", "job", "-o", "to-trace"]);
    refused(root, &["overlay", "job", "-o", "to-trace", "--force"]);
    // Traces that are links: neither the links nor their targets may be overwritten.
    write(root.join("links/x"), "");
    symlink("../job/rank_1.json.gz", root.join("links/rank_1.json.gz")).expect("a link can be made");
    for out in ["links", "job", "."] {
        refused(root, &["analyze", "links/*.gz", "-o", out, "--force"]);
    }
    // Files: the link stays, and its target is written.
    symlink("table.csv", root.join("table")).expect("a link can be made");
    symlink("drawn.json", root.join("drawn")).expect("a link can be made");
    for _ in 0..2 {
        written(root, &["kernels", "job", "--format", "csv", "-o", "table"]);
        written(root, &["overlay", "job/rank_1.json.gz", "-o", "drawn", "--force"]);
        assert!(is_link("table") && root.join("table.csv").is_file());
        assert!(is_link("drawn") && root.join("drawn.json").is_file());
    }
    // Links with our names in an earlier result are not followed.
    written(root, &["analyze", "job/rank_1.json.gz", "-o", "out"]);
    std::fs::remove_dir_all(root.join("out/tables")).expect("a folder can be removed");
    symlink("../job", root.join("out/tables")).expect("a link can be made");
    for force in [&[][..], &["--force"]] {
        let said = refused(root, &[&["analyze", "links/*.gz", "-o", "out"], force].concat());
        assert!(said.contains("expected a folder `tables`, found a link"), "{said}");
    }
}

#[test]
fn the_current_folder_is_filled_in_place() {
    let dir = job();
    let root = dir.path();
    let here = root.join("here");
    std::fs::create_dir(&here).expect("a folder can be made");
    written(&here, &["analyze", "../job/rank_1.json.gz", "-o", "../expected"]);
    let expected = contents(&root.join("expected"));
    std::fs::remove_dir_all(root.join("expected")).expect("a result can be removed");
    for _ in 0..2 {
        let said = written(&here, &["analyze", "../job/rank_1.json.gz", "-o", "."]);
        assert!(said.contains("moved into . file by file, summary.json last"), "{said}");
        assert!(contents(&here) == expected);
        assert_eq!(names(root), ["here", "job"]);
    }
}

/// A folder on which another file system is mounted, in a separate mount namespace.
#[cfg(target_os = "linux")]
#[test]
fn a_mount_point_is_filled_in_place() {
    let dir = job();
    let root = dir.path();
    let expected = expected(root);
    std::fs::create_dir(root.join("mounted")).expect("a folder can be made");
    let in_space = |line: &str| {
        let mut shell = Command::new("unshare");
        shell.args(["-rm", "sh", "-c", line, env!("CARGO_BIN_EXE_hta")]).current_dir(root);
        shell.output()
    };
    let may = in_space("mount -t tmpfs none mounted");
    if !may.is_ok_and(|run| run.status.success()) {
        return println!("skipped: no file system can be mounted here");
    }
    let line = "mount -t tmpfs none mounted && mkdir -p mounted/.hta-results-1-abc/results/tables seen \
        && for i in 1 2; do \"$0\" analyze job/rank_1.json.gz -o mounted || exit; done && cp -a mounted/. seen \
        && touch mounted/thesis && { \"$0\" analyze job/rank_1.json.gz -o mounted && exit 1; \
        \"$0\" analyze job/rank_1.json.gz -o mounted --force; } && test -e mounted/thesis";
    let end = in_space(line).expect("a shell runs");
    let said = errors(&end);
    assert_eq!(end.status.code(), Some(0), "{said}");
    assert!(said.contains("file by file, summary.json last: it is a mount point"), "{said}");
    assert!(contents(&root.join("seen")) == expected && names(&root.join("seen")).len() == 5);
    assert_eq!(names(root), ["job", "mounted", "seen"]);
}

#[test]
fn a_place_that_cannot_be_used_is_named_with_a_hint_that_helps() {
    let dir = job();
    let root = dir.path();
    write(root.join("file"), "x");
    for force in [&[][..], &["--force"]] {
        let said = refused(root, &[&["analyze", "job", "-o", "file"], force].concat());
        assert!(said.contains("expected a folder, found a file") && !said.contains("--force"), "{said}");
    }
    let full = Command::new("sh")
        .args(["-c", "ulimit -f 20; exec \"$0\" analyze job -o results", env!("CARGO_BIN_EXE_hta")])
        .current_dir(root)
        .output()
        .expect("a shell runs");
    let said = errors(&full);
    assert_eq!(full.status.code(), Some(2), "{said}");
    assert!(said.lines().next().is_some_and(|l| l.contains("to results")), "the folder is named: {said}");
}

#[cfg(unix)]
#[test]
fn few_file_handles_are_an_error_that_leaves_nothing() {
    for handles in [10, 14, 18, 20, 24] {
        let dir = job();
        let line = format!("ulimit -n {handles}; exec \"$0\" analyze --threads 2 job -o results");
        let end = Command::new("sh")
            .args(["-c", &line, env!("CARGO_BIN_EXE_hta")])
            .current_dir(dir.path())
            .output()
            .expect("a shell runs");
        let said = errors(&end);
        let left: Vec<String> = names(dir.path()).into_iter().filter(|n| n != "job").collect();
        match end.status.code() {
            Some(0) => assert_eq!(left, ["results"], "{handles}: {said}"),
            Some(2) => assert_eq!(left, Vec::<String>::new(), "{handles}: {said}"),
            other => panic!("{handles}: {other:?}: {said}"),
        }
    }
}

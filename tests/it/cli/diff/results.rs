//! `hta diff` on results: the answer is the one that it gives on the traces of which they are.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::OnceLock;
use tempfile::TempDir;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const SAMPLES: [&str; 9] = [
    "cpu_single",
    "gloo_ddp4",
    "gpu_counters",
    "gpu_cuspy",
    "gpu_ddp8",
    "gpu_ep4",
    "gpu_pp4",
    "gpu_single",
    "serving",
];
const TABLES: [&str; 5] = ["diff_summary", "diff_by_name", "diff_steps", "diff_causes", "diff_iterations"];

fn hta(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hta")).args(args).current_dir(folder).output().expect("the binary runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A folder with the samples as `t0`, `t1` and so on, and their results as `r0`, `r1`.
fn made() -> &'static Path {
    static MADE: OnceLock<TempDir> = OnceLock::new();
    let folder = MADE.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for (i, sample) in SAMPLES.iter().enumerate() {
            let traces = Path::new(ROOT).join("data/samples").join(sample);
            std::os::unix::fs::symlink(traces, folder.path().join(format!("t{i}"))).expect("a link");
            let args = ["analyze", &format!("t{i}"), "--out", &format!("r{i}"), "--no-html", "--no-events"];
            let run = hta(folder.path(), &args);
            assert!(run.status.code().is_some_and(|c| c < 2), "{sample}: {}", text(&run.stderr));
        }
        folder
    });
    folder.path()
}

/// What a diff prints, and its exit code. What the traces lost is told of traces only.
fn diff(base: &str, test: &str, options: &[&str]) -> (String, Option<i32>) {
    let run = hta(made(), &[&["diff", base, test], options].concat());
    let errors = text(&run.stderr);
    let told = if run.status.code() == Some(2) { errors } else { String::new() };
    (text(&run.stdout).replace("r", "t") + &told.replace("r", "t"), run.status.code())
}

#[test]
fn results_are_compared_as_their_traces_are() {
    let all = (0..SAMPLES.len()).flat_map(|b| (0..SAMPLES.len()).map(move |t| (b, t)));
    for (base, test) in all.filter(|(b, t)| b != t || *b == 3) {
        let [traces, results] = ["t", "r"].map(|kind| [format!("{kind}{base}"), format!("{kind}{test}")]);
        let of = |sides: &[String; 2], options: &[&str]| diff(&sides[0], &sides[1], options);
        let forced = of(&traces, &["--force"]);
        assert_eq!(of(&results, &["--force"]), forced, "{base} {test}");
        let mixed = [traces[0].clone(), results[1].clone()];
        assert_eq!(of(&mixed, &["--force"]), forced, "{base} {test}");
        for options in [&["--force", "--by", "category", "--short-names"][..], &[]] {
            assert_eq!(of(&results, options), of(&traces, options), "{base} {test} {options:?}");
        }
    }
}

#[test]
fn tables_of_results_are_those_of_their_traces() {
    for (base, test) in [(3, 4), (4, 3), (1, 0), (5, 5)] {
        for table in TABLES {
            let options = ["--force", "--table", table, "--format", "csv"];
            let [traces, results] =
                ["t", "r"].map(|kind| diff(&format!("{kind}{base}"), &format!("{kind}{test}"), &options));
            assert_eq!(results, traces, "{base} {test} {table}");
        }
    }
    let condition = ["--force", "--fail-if", "step_time > -90%", "--fail-if", "count:aten::mm > +1"];
    assert_eq!(diff("r3", "r4", &condition), diff("t3", "t4", &condition));
}

#[test]
fn what_results_do_not_hold_is_refused_by_name() {
    for (options, word) in [
        (&["--steps", "@1"][..], "cannot use --steps: expected traces, found the results in r3"),
        (&["--ranks", "0"], "cannot use --ranks: expected traces"),
        (&["--by", "module"], "cannot use --by: expected traces"),
        (&["--compat", "hta"], "cannot use --compat: expected traces"),
    ] {
        let run = hta(made(), &[&["diff", "r3", "t3"], options].concat());
        let errors = text(&run.stderr);
        assert_eq!((run.status.code(), run.stdout.is_empty()), (Some(2), true), "{options:?}: {errors}");
        assert!(errors.contains(word) && errors.contains("hint: "), "{options:?}: {errors}");
    }
}

#[test]
fn a_table_that_results_lack_is_named() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let copy = |without: &str| {
        let to = folder.path().join(without);
        std::fs::create_dir_all(to.join("tables")).expect("a folder");
        let from = made().join("r4");
        std::fs::copy(from.join("summary.json"), to.join("summary.json")).expect("a copy");
        for file in
            std::fs::read_dir(from.join("tables")).expect("tables").map(|entry| entry.expect("a table"))
        {
            if !file.file_name().to_string_lossy().starts_with(without) {
                std::fs::copy(file.path(), to.join("tables").join(file.file_name())).expect("a copy");
            }
        }
        to.display().to_string()
    };
    let old = hta(made(), &["diff", "r4", &copy("host_by_name")]);
    assert!(old.status.success() && !old.stdout.is_empty());
    let said = "hta: test: host events cannot be compared, and whether both ran the same program is not known: the table \
                `host_by_name` is not among these results";
    assert!(text(&old.stderr).contains(said), "{}", text(&old.stderr));
    let none = hta(made(), &["diff", &copy("temporal_breakdown"), "r4"]);
    let said = "cannot compare: base: steps and kernels cannot be compared: the table `temporal_breakdown` is not among";
    assert!(none.status.code() == Some(2) && text(&none.stderr).contains(said), "{}", text(&none.stderr));
    assert!(
        text(&none.stderr).contains("hint: analyze it again with all analyses"),
        "{}",
        text(&none.stderr)
    );
}

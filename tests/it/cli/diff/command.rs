//! `hta diff` as a user sees it: exit codes, messages, formats.

use super::sets::{BASE, GEMM, Job, TEST, folder};
use std::process::{Command, Output};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const SAMPLE: &str = "data/samples/gpu_ddp8";

fn diff(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hta"))
        .arg("diff")
        .args(args)
        .current_dir(ROOT)
        .output()
        .expect("the binary runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_crossed_threshold_is_exit_3_and_standard_error_says_by_how_much() {
    let (a, b) = (folder(), folder());
    let (base, test) = (BASE.write(&a), TEST.write(&b));
    let paths = [base.to_str().expect("a path"), test.to_str().expect("a path")];
    let run = diff(&[&paths[..], &["--fail-if", "step_time > +4%", "--fail-if", "idle > +1us"]].concat());
    assert_eq!(run.status.code(), Some(3));
    assert_eq!(
        text(&run.stderr),
        "hta: `step_time > +4%` crossed: 200 us -> 210 us per step (+5.0 %, +10.0 us); beyond the noise: no step \
         differs from the others\n"
    );
    let report = text(&run.stdout);
    assert!(report.lines().all(|l| l.chars().count() <= 80), "{report}");
    assert!(
        report.contains("step_time > +4%  crossed") && report.contains("idle > +1us      ok"),
        "{report}"
    );
    let run = diff(&[&paths[..], &["--fail-if", "step_time > +5%"]].concat());
    assert_eq!((run.status.code(), text(&run.stderr)), (Some(0), String::new()));
    let run = diff(&[&paths[..], &["--fail-if", "kernel:nobody > +5%"]].concat());
    assert_eq!(run.status.code(), Some(0));
    assert!(text(&run.stderr).contains("nothing of that name is in either set"));
    // A crossed threshold takes precedence over a loss, because it is what the user asked for.
    let cut = b.path().join("rank_0_cut.json");
    let whole = std::fs::read_to_string(&test).expect("the trace");
    std::fs::write(&cut, &whole[..whole.len() * 9 / 10]).expect("a cut copy");
    let cut = cut.to_str().expect("a path");
    assert_eq!(diff(&[paths[0], cut]).status.code(), Some(1));
    assert_eq!(diff(&[paths[0], cut, "--fail-if", "step_time > 1us"]).status.code(), Some(3));
    let strict = diff(&[paths[0], cut, "--fail-if", "step_time > 1us", "--strict"]);
    assert_eq!((strict.status.code(), strict.stdout.is_empty()), (Some(2), true));
}

#[test]
fn bad_conditions_and_sets_stop_before_work_begins() {
    let empty = folder();
    let empty = empty.path().to_str().expect("a path");
    for (args, word) in [
        (vec![SAMPLE, SAMPLE, "--fail-if", "step_time > 5%"], "with its sign"),
        (vec![SAMPLE, SAMPLE, "--fail-if", "speed > +5%"], "expected step_time, compute"),
        (vec![SAMPLE, SAMPLE, "--fail-if", "step_time"], "'step_time > +5%'"),
        (vec![SAMPLE, SAMPLE, "--fail-if", "step_time > +5%", "--compat", "hta"], "not for --compat"),
        (vec![SAMPLE, SAMPLE, "--compat", "tracelens"], "no answer in that tool's definitions"),
        (vec![SAMPLE, SAMPLE, "--table", "nope"], "expected one of diff_summary"),
        (vec![SAMPLE, SAMPLE, "--by", "shape"], "name, category, op, op,shape, module"),
        (vec![SAMPLE], "<TEST>"),
        (vec![SAMPLE, SAMPLE, SAMPLE], "unexpected argument"),
        (vec![SAMPLE, "no/such"], "cannot use the test set\n  cannot find `no/such`"),
        (vec![empty, SAMPLE], "cannot use the base set\n  cannot find a trace"),
        (vec![SAMPLE, SAMPLE, "--ranks", "99"], "cannot use the base set\n  cannot find the ranks asked for"),
        (
            vec![SAMPLE, SAMPLE, "--steps", "77"],
            "cannot use the base set\n  cannot use `77` for --steps: expected a step",
        ),
    ] {
        let run = diff(&args);
        let errors = text(&run.stderr);
        assert_eq!((run.status.code(), run.stdout.is_empty()), (Some(2), true), "{args:?}: {errors}");
        assert!(errors.contains(word), "{args:?}: {errors}");
    }
}

#[test]
fn a_set_with_two_jobs_is_refused_with_both_files() {
    let (a, b) = (folder(), folder());
    let base = BASE.write(&a);
    BASE.write(&b);
    std::fs::copy(&base, b.path().join("other_job.json")).expect("a copy");
    let run = diff(&[a.path().to_str().expect("a path"), b.path().to_str().expect("a path")]);
    let errors = text(&run.stderr);
    assert_eq!(run.status.code(), Some(2), "{errors}");
    assert!(errors.contains("cannot use the test set") && errors.contains("both claim rank 0"), "{errors}");
    assert!(errors.contains("hint: give the files of one job"), "{errors}");
}

#[test]
fn formats_hold_the_same_rows_and_threads_change_no_byte() {
    let (a, b) = (folder(), folder());
    for rank in 0..3 {
        Job { rank, ..BASE }.write(&a);
        Job { rank, jitter: i64::from(rank), ..TEST }.write(&b);
    }
    let (base, test) = (a.path().to_str().expect("a path"), b.path().to_str().expect("a path"));
    for table in ["diff_summary", "diff_by_name", "diff_steps"] {
        let csv = |threads: &str| {
            text(&diff(&[base, test, "--format", "csv", "--table", table, "--threads", threads]).stdout)
        };
        assert_eq!(csv("1"), csv("4"));
        let json = diff(&[base, test, "--format", "json", "--table", table]).stdout;
        let json: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
        assert_eq!(json.as_array().map(Vec::len), Some(csv("1").lines().count() - 1), "{table}");
    }
    let out = a.path().join("diff.parquet");
    let to = out.to_str().expect("a path");
    let run = diff(&[base, test, "--format", "parquet", "--table", "diff_by_name", "--out", to]);
    assert_eq!((run.status.code(), run.stdout.len()), (Some(0), 0));
    assert!(std::fs::read(&out).expect("the file").starts_with(b"PAR1"));
    let names = text(&diff(&[base, test, "--format", "csv", "--table", "diff_by_name"]).stdout);
    assert!(names.contains(&format!("\"{GEMM}\"")), "{names}");
}

#[test]
fn the_report_of_a_set_against_itself_fits_eighty_columns() {
    for by in ["name", "op", "module"] {
        let run = diff(&[SAMPLE, SAMPLE, "--by", by, "--fail-if", "step_time > +0.001%"]);
        let report = text(&run.stdout);
        assert_eq!((run.status.code(), text(&run.stderr)), (Some(0), String::new()), "{report}");
        assert!(report.lines().all(|l| l.chars().count() <= 80), "{report}");
        assert!(report.contains("takes as long as before"), "{report}");
    }
}

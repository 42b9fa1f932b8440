//! Limits of numeric options, and endless files named by options.

use super::{errors, hta, sample};
use std::path::Path;

#[test]
fn numbers_out_of_bounds_are_refused_before_work_begins() {
    let sample = sample();
    for (option, values) in [
        ("--threads", &["0", "4000", "513", "-1", "18446744073709551616", "x"][..]),
        ("--straggler-min-pct", &["nan", "NaN", "inf", "-inf", "-1", "1e999", "", "x"]),
        ("--memory-limit", &["nan", "inf", "-1GB", ""]),
        ("--kernel-wait-max-us", &["-1", "4294967296", "nan"]),
    ] {
        for value in values {
            let run = hta(&["breakdown", &format!("{option}={value}")]).arg(&sample).output().unwrap();
            let said = errors(&run);
            assert_eq!(run.status.code(), Some(2), "{option}={value}: {said}");
            assert!(run.stdout.is_empty() && said.contains(option), "{option}={value}: {said}");
        }
    }
    for condition in ["step_time > nan%", "step_time > inf%", "step_time > +nan", "step_time > 1e999%"] {
        let run = hta(&["diff", "--fail-if", condition]).arg(&sample).arg(&sample).output().unwrap();
        assert_eq!(run.status.code(), Some(2), "{condition}: {}", errors(&run));
    }
    for good in [["--threads", "512"], ["--straggler-min-pct", "0"], ["--straggler-min-pct", "7.5%"]] {
        let run = hta(&["stragglers", good[0], good[1]]).arg(&sample).output().unwrap();
        assert_eq!(run.status.code(), Some(0), "{good:?}: {}", errors(&run));
    }
    let run = hta(&["merge", "--threads", "4000", "part"]).output().unwrap();
    assert!(run.status.code() == Some(2) && errors(&run).contains("--threads"), "{}", errors(&run));
}

#[cfg(unix)]
#[test]
fn a_text_without_end_is_refused() {
    use std::os::unix::fs::symlink;
    let zero = Path::new("/dev/zero");
    if !zero.exists() {
        return println!("skipped: no /dev/zero");
    }
    let run = hta(&["breakdown", "--rules", "/dev/zero"]).arg(sample()).output().unwrap();
    let said = errors(&run);
    assert!(
        run.status.code() == Some(2) && said.contains("/dev/zero") && said.contains("found more"),
        "{said}"
    );
    let dir = tempfile::tempdir().unwrap();
    let statement = dir.path().join("endless.sql");
    symlink(zero, &statement).unwrap();
    let run = hta(&["query", statement.to_str().unwrap()]).arg(sample()).output().unwrap();
    let said = errors(&run);
    assert!(
        run.status.code() == Some(2) && said.contains("endless.sql") && said.contains("found more"),
        "{said}"
    );
    let run = hta(&["query", "-"]).arg(sample()).stdin(std::fs::File::open(zero).unwrap()).output().unwrap();
    assert!(run.status.code() == Some(2) && errors(&run).contains("found more"), "{}", errors(&run));
}

#[test]
fn a_misspelt_output_is_not_taken_for_another_option() {
    for command in ["analyze", "idle", "overlay", "report", "query", "diff", "merge"] {
        let run = hta(&[command, "x", "--ouput", "y"]).output().unwrap();
        let said = errors(&run);
        assert_eq!(run.status.code(), Some(2), "{command}: {said}");
        assert!(said.contains("'--output'") && !said.contains("--compat'"), "{command}: {said}");
    }
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out.csv");
    let run = hta(&["breakdown", "--format", "csv", "--output"]).arg(&out).arg(sample()).output().unwrap();
    assert!(run.status.success() && out.is_file(), "{}", errors(&run));
}

//! Recordings of several recorders: refused as one job, and compared as two sets with a warning.

use crate::robustness::nsys::export;
use hta_testkit::{TraceBuilder, us};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

pub fn hta(arguments: &[&str], paths: &[&Path]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hta")).args(arguments).args(paths).output().expect("hta runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The operator and the kernel of the export, with a Python frame and an annotation that nsys has not.
///
/// ```text
///   aten::mm  [0.......20)   launch [5..8)
///   gpu 0             gemm          [30.......80)
/// ```
fn kineto(folder: &TempDir) -> PathBuf {
    let mut t = TraceBuilder::new().rank(0).device("NVIDIA H100", 132);
    let mut main = t.thread(2);
    main.frame("train.py(3): step", us(0)..us(90));
    main.annotation("forward", us(0)..us(25));
    main.op("aten::mm", us(0)..us(20));
    main.launch(us(5)..us(8)).kernel("gemm", 7, us(30)..us(80));
    let path = folder.path().join("kineto.json");
    std::fs::write(&path, t.to_json()).expect("a temporary file can be written");
    path
}

fn nsys(folder: &TempDir) -> PathBuf {
    let path = folder.path().join("report.sqlite");
    export(&path);
    path
}

#[test]
fn files_of_two_recorders_are_no_job() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (a, b) = (kineto(&folder), nsys(&folder));
    let results = tempfile::tempdir().expect("a temporary folder");
    let out = results.path().join("out");
    let out = out.to_str().expect("UTF-8");
    let commands: [&[&str]; 4] = [
        &["kernels"],
        &["analyze", "--out", out],
        &["nsys-stats", "cuda_gpu_sum"],
        &["kernels", "--ranks", "0"],
    ];
    for command in commands {
        for given in [&[a.as_path(), b.as_path()][..], &[folder.path()]] {
            let run = hta(command, given);
            let error = text(&run.stderr);
            assert_eq!((run.status.code(), run.stdout.is_empty()), (Some(2), true), "{command:?}: {error}");
            let named = "cannot analyse files of several recorders as one job";
            assert!(error.contains(named) && error.contains("hint: "), "{command:?}: {error}");
            assert!(error.contains("kineto.json is of Kineto"), "{command:?}: {error}");
            assert!(error.contains("report.sqlite (process 7) of Nsight Systems"), "{command:?}: {error}");
        }
    }
    assert!(!Path::new(out).exists());
    // A database of another program is refused by itself, and the trace beside it is read.
    std::fs::remove_file(&b).expect("the file is there");
    rusqlite::Connection::open(&b)
        .expect("a new file")
        .execute_batch("CREATE TABLE songs (a INTEGER)")
        .expect("made");
    let beside = hta(&["kernels"], &[folder.path()]);
    assert_eq!(beside.status.code(), Some(1), "{}", text(&beside.stderr));
    assert!(text(&beside.stdout).contains("gemm") && text(&beside.stderr).contains("the tables songs"));
}

#[test]
fn a_diff_of_two_recorders_warns_and_compares_what_both_have() {
    let folders = [(); 2].map(|()| tempfile::tempdir().expect("a temporary folder"));
    let (a, b) = (kineto(&folders[0]), nsys(&folders[1]));
    for (base, test, recorders, only) in [
        (&a, &b, "recorders differ: Kineto before, Nsight Systems after", "annotation (base), python (base)"),
        (&b, &a, "recorders differ: Nsight Systems before, Kineto after", "annotation (test), python (test)"),
    ] {
        let run = hta(&["diff"], &[base, test]);
        assert!(run.status.success(), "{}", text(&run.stderr));
        let printed = text(&run.stdout);
        assert!(printed.contains(recorders), "{printed}");
        let left_out = format!("left out, because one recorder does not have them: {only}");
        assert!(printed.contains(&left_out) && printed.contains("as with --short-names"), "{printed}");
        assert!(!printed.contains("drivers and runtimes differ"), "{printed}");
        let run = hta(&["diff", "--table", "diff_by_name", "--format", "csv"], &[base, test]);
        let rows = String::from_utf8_lossy(&run.stdout).into_owned();
        let of = |name: &str| rows.lines().filter(|l| l.contains(name)).count();
        assert_eq!(
            [of("gemm"), of("aten::mm"), of("cudaLaunchKernel"), of("forward"), of("train.py")],
            [1, 1, 1, 0, 0]
        );
    }
}

#[test]
fn a_diff_of_one_recorder_does_not_speak_of_recorders() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for file in [kineto(&folder), nsys(&folder)] {
        let run = hta(&["diff"], &[&file, &file]);
        assert!(run.status.success(), "{}", text(&run.stderr));
        assert!(!text(&run.stdout).contains("recorder"), "{}", text(&run.stdout));
    }
}

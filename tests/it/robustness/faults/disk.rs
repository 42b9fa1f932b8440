//! Results that cannot be written: a full disk, a file size limit.

use super::{errors, hta, names, sample};
use std::path::Path;
use std::process::{Command, Output};

/// Runs `hta` with a file size limit of this many blocks of 512 bytes.
fn limited(blocks: u32, args: &[&str], out: &Path) -> Output {
    let mut shell = Command::new("sh");
    let line = format!("ulimit -f {blocks}; exec \"$0\" \"$@\"");
    shell.args(["-c", &line, env!("CARGO_BIN_EXE_hta")]).args(args).arg(out).arg(sample());
    shell.output().expect("a shell runs")
}

#[cfg(unix)]
#[test]
fn a_disk_that_is_full_is_told_and_leaves_no_half_file() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    for blocks in [0, 2, 20] {
        let out = dir.path().join("out");
        let run = limited(blocks, &["analyze", "--out"], &out);
        let said = errors(&run);
        assert_eq!(run.status.code(), Some(2), "{blocks} blocks: {said}");
        assert!(said.contains("hta: cannot write"), "{said}");
        assert!(names(dir.path()).is_empty(), "{:?}", names(dir.path()));
        let file = dir.path().join("table.csv");
        let run = limited(0, &["kernels", "--format", "csv", "--out"], &file);
        let said = errors(&run);
        assert_eq!(run.status.code(), Some(2), "{said}");
        assert!(said.contains("cannot write") && said.contains("table.csv"), "{said}");
        assert!(names(dir.path()).is_empty(), "{:?}", names(dir.path()));
        let overlay = dir.path().join("seen.json");
        let run = limited(2, &["overlay", "--ranks", "0", "--out"], &overlay);
        let said = errors(&run);
        assert_eq!(run.status.code(), Some(2), "{said}");
        assert!(said.contains("cannot write"), "{said}");
        assert!(names(dir.path()).is_empty(), "{:?}", names(dir.path()));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn an_earlier_result_survives_a_full_disk() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let out = dir.path().join("out");
    let run = hta(&["analyze", "--out"]).arg(&out).arg(sample()).output().expect("the binary runs");
    assert_eq!(run.status.code(), Some(0), "{}", errors(&run));
    let before = crate::shared::contents(&out);
    assert_eq!(limited(20, &["analyze", "--out"], &out).status.code(), Some(2));
    assert!(crate::shared::contents(&out) == before);
    assert_eq!(names(dir.path()), ["out"]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_device_without_room_is_an_error_and_not_replaced() {
    let device = Path::new("/dev/full");
    if !device.exists() {
        return println!("skipped: no /dev/full");
    }
    for format in ["csv", "json", "parquet", "text"] {
        let run = hta(&["kernels", "--format", format, "--out", "/dev/full"]).arg(sample()).output().unwrap();
        assert_eq!(run.status.code(), Some(2), "{format}");
        assert!(errors(&run).contains("/dev/full"), "{}", errors(&run));
        let full = std::fs::OpenOptions::new().write(true).open(device).unwrap();
        let run = hta(&["kernels", "--format", format]).arg(sample()).stdout(full).output().unwrap();
        assert_eq!(run.status.code(), Some(2), "{format}: {}", errors(&run));
    }
    assert!(!device.is_file());
}

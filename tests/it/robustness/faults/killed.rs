//! Runs that are killed or interrupted: the result is the old one, the new one or absent, and the next run works.

use super::{event, hta, names, sample, trace};
use crate::shared::contents;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

fn start(out: &Path) -> Child {
    start_on(&sample(), out)
}

fn start_on(input: &Path, out: &Path) -> Child {
    let mut command = hta(&["analyze", "--threads", "2", "--out"]);
    command.arg(out).arg(input).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("the binary runs")
}

#[test]
fn a_run_killed_at_any_moment_leaves_no_half_result_and_the_next_one_works() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let out = dir.path().join("out");
    let begun = Instant::now();
    assert!(start(&out).wait().expect("it ends").success());
    let took = begun.elapsed();
    let whole = contents(&out);
    let mut killed = 0;
    for i in 0..24u32 {
        // Half of the time there is an earlier result.
        if i % 2 == 0 {
            let _ = std::fs::remove_dir_all(&out);
        } else if !out.exists() {
            assert!(start(&out).wait().expect("it ends").success());
        }
        let mut run = start(&out);
        std::thread::sleep(took * i / 20);
        let _ = run.kill();
        killed += u32::from(!run.wait().expect("it ends").success());
        if out.exists() {
            assert!(contents(&out) == whole, "a half result after {i}/20 of a run");
        } else {
            assert_eq!(i % 2, 0, "an earlier result is gone after {i}/20 of a run");
        }
    }
    assert!(killed > 5, "only {killed} runs were killed in time");
    assert!(start(&out).wait().expect("it ends").success());
    assert!(contents(&out) == whole);
    assert_eq!(names(dir.path()), ["out"], "what killed runs left is cleared");
}

#[cfg(unix)]
#[test]
fn an_interrupted_run_exits_with_130_and_leaves_nothing() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let out = dir.path().join("out");
    // The run takes much longer than sending a signal.
    let input = tempfile::tempdir().expect("a temporary folder");
    let events: Vec<String> = (0..400_000).map(|i| event("op", i * 10)).collect();
    std::fs::write(input.path().join("rank_0.json"), trace(&events)).expect("a trace can be written");
    for signal in ["-INT", "-TERM", "-HUP", "-INT"] {
        let mut run = start_on(input.path(), &out);
        // Wait until it has begun to write.
        let begun = Instant::now();
        while names(dir.path()).is_empty() && begun.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let told = std::process::Command::new("kill").args([signal, &run.id().to_string()]).status();
        assert!(told.expect("kill runs").success());
        let end = run.wait().expect("it ends");
        assert_eq!(end.code(), Some(130), "{signal}: {end}");
        assert_eq!(names(dir.path()), Vec::<String>::new(), "{signal}");
    }
}

/// Standard output is a full pipe, so the run blocks there after its results are in place.
#[cfg(unix)]
#[test]
fn a_run_that_is_interrupted_after_its_results_stand_says_so() {
    use std::io::{Read, Write};
    let dir = tempfile::tempdir().expect("a temporary folder");
    for signal in ["-TERM", "-INT", "-HUP"] {
        let out = dir.path().join(format!("out{signal}"));
        let (_reader, mut writer) = std::io::pipe().expect("a pipe can be made");
        // The capacity of a pipe.
        writer.write_all(&[b' '; 65536]).expect("a pipe can be filled");
        let mut command = hta(&["analyze", "--threads", "2", "--out"]);
        command.arg(&out).arg(sample()).stdout(writer).stderr(Stdio::piped());
        let mut run = command.spawn().expect("the binary runs");
        let begun = Instant::now();
        while names(dir.path()) != [format!("out{signal}")] && begun.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let told = std::process::Command::new("kill").args([signal, &run.id().to_string()]).status();
        assert!(told.expect("kill runs").success());
        let end = run.wait().expect("it ends");
        let mut said = String::new();
        run.stderr.take().expect("errors are kept").read_to_string(&mut said).expect("errors can be read");
        assert_eq!(end.code(), Some(130), "{signal}: {said}");
        let expected = format!("hta: interrupted after {} was written completely\n", out.display());
        assert_eq!(said, expected, "{signal}");
        assert!(out.join("summary.json").is_file() && out.join("tables/kernels.parquet").is_file());
        std::fs::remove_dir_all(&out).expect("a result can be removed");
    }
}

/// In a container process ids start again, so the id in the name of leftovers may belong to a running process.
#[cfg(unix)]
#[test]
fn what_a_killed_run_left_is_removed_although_a_process_has_its_id() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let (out, left) = (dir.path().join("out"), dir.path().join(".hta-results-1-abc"));
    std::fs::create_dir_all(left.join("tables")).expect("a folder can be made");
    std::fs::write(left.join("tables/kernels.parquet"), "half").expect("a file can be written");
    assert!(start(&out).wait().expect("it ends").success());
    assert_eq!(names(dir.path()), ["out"]);
    // A locked folder belongs to a running process.
    std::fs::create_dir_all(left.join("tables")).expect("a folder can be made");
    let mut holder = std::process::Command::new("flock")
        .arg(&left)
        .args(["sh", "-c", "echo held; read line"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("flock runs");
    let mut held = [0; 4];
    std::io::Read::read_exact(holder.stdout.as_mut().expect("its output is kept"), &mut held)
        .expect("it is locked");
    assert!(start(&out).wait().expect("it ends").success());
    assert_eq!(names(dir.path()), [".hta-results-1-abc", "out"]);
    drop(holder.stdin.take());
    holder.wait().expect("it ends");
    assert!(start(&out).wait().expect("it ends").success());
    assert_eq!(names(dir.path()), ["out"]);
}

/// Other users must not read traces from standard input.
#[cfg(target_os = "linux")]
#[test]
fn standard_input_is_kept_where_only_its_user_can_read_it() {
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().expect("a temporary folder");
    let mut command = hta(&["breakdown", "-"]);
    command.env("TMPDIR", dir.path()).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut run = command.spawn().expect("the binary runs");
    let mut input = run.stdin.take().expect("its input is a pipe");
    input.write_all(b"{\"traceEvents\": [").expect("it reads");
    let begun = Instant::now();
    while names(dir.path()).is_empty() && begun.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(1));
    }
    for name in names(dir.path()) {
        let mode = std::fs::metadata(dir.path().join(&name)).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    assert!(!names(dir.path()).is_empty());
    drop(input);
    run.wait().expect("it ends");
    assert!(names(dir.path()).is_empty());
}

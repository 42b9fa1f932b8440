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
        // every other time there is an earlier result
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
    // takes far longer than it takes to send a signal
    let input = tempfile::tempdir().expect("a temporary folder");
    let events: Vec<String> = (0..400_000).map(|i| event("op", i * 10)).collect();
    std::fs::write(input.path().join("rank_0.json"), trace(&events)).expect("a trace can be written");
    for signal in ["-INT", "-TERM", "-INT"] {
        let mut run = start_on(input.path(), &out);
        // once it has begun to write
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

//! Inputs that are not regular files, change while they are read, or contain unusually many of something.

use super::{errors, event, hta, trace};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn run(args: &[&str], inputs: &[&Path]) -> Output {
    let mut child = hta(args).args(inputs).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    // A pipe without a writer must not block.
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > Duration::from_secs(120) {
            let _ = child.kill();
            panic!("{inputs:?} hangs");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    child.wait_with_output().unwrap()
}

fn good(path: &Path) {
    std::fs::write(path, trace(&(0..50).map(|i| event("op", i * 10)).collect::<Vec<_>>())).unwrap();
}

#[cfg(unix)]
#[test]
fn what_is_no_file_is_refused_and_the_other_files_are_read() {
    use std::os::unix::fs::symlink;
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    good(&at("rank_0.json"));
    std::fs::create_dir(at("rank_1.json")).unwrap();
    symlink("nowhere", at("rank_2.json")).unwrap();
    symlink("rank_4.json", at("rank_3.json")).unwrap();
    symlink("rank_3.json", at("rank_4.json")).unwrap();
    assert!(Command::new("mkfifo").arg(at("rank_5.json")).status().unwrap().success());
    let _socket = std::os::unix::net::UnixListener::bind(at("rank_6.json")).unwrap();
    // Each is reported; a folder is not a file.
    let end = run(&["breakdown"], &[dir.path()]);
    let said = errors(&end);
    assert_eq!(end.status.code(), Some(1), "{said}");
    let told = |i: usize| said.contains(&format!("rank_{i}.json: "));
    assert_eq!([0, 1, 2, 3, 4, 5, 6].map(told), [false, false, true, true, true, true, true], "{said}");
    for (name, word) in [
        ("rank_1.json", "holds no *.json"),
        ("rank_2.json", "No such file"),
        ("rank_3.json", "symbolic links"),
        ("rank_5.json", "found a pipe"),
        ("rank_6.json", "found a pipe, socket"),
    ] {
        let end = run(&["breakdown"], &[&at(name)]);
        let said = errors(&end);
        assert_eq!(end.status.code(), Some(2), "{name}: {said}");
        assert!(said.contains(name) && said.contains(word), "{name}: {said}");
    }
    // In addition to a good file.
    let end = run(&["breakdown"], &[&at("rank_0.json"), &at("rank_5.json")]);
    assert_eq!(end.status.code(), Some(1), "{}", errors(&end));
    if Path::new("/proc/self/mem").exists() {
        let end = run(&["breakdown"], &[Path::new("/proc/self/mem")]);
        assert_eq!(end.status.code(), Some(2));
        assert!(errors(&end).contains("/proc/self/mem"), "{}", errors(&end));
    }
}

#[test]
fn a_file_that_changes_while_it_is_read_is_an_answer_or_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let text = trace(&(0..60_000).map(|i| event("op", i * 10)).collect::<Vec<_>>());
    for (threads, shrinks) in [("1", true), ("1", false), ("3", true), ("3", false)] {
        for delay in 0..6 {
            let path = dir.path().join("rank_0.json");
            let first = if shrinks { &text[..] } else { &text[..text.len() / 2] };
            std::fs::write(&path, first).unwrap();
            let mut command = hta(&["breakdown", "--threads", threads]);
            let child = command.arg(&path).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
            std::thread::sleep(Duration::from_millis(delay * 4));
            if shrinks {
                std::fs::OpenOptions::new()
                    .write(true)
                    .open(&path)
                    .unwrap()
                    .set_len(text.len() as u64 / 3)
                    .unwrap();
            } else {
                let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
                file.write_all(&text.as_bytes()[text.len() / 2..]).unwrap();
            }
            let end = child.wait_with_output().unwrap();
            let said = errors(&end);
            match end.status.code() {
                Some(0) => {}
                // Truncated, and reported.
                Some(1 | 2) => assert!(said.contains("rank_0.json") && !said.trim().is_empty(), "{said}"),
                other => panic!("{other:?}: {said}"),
            }
        }
    }
}

#[test]
fn a_folder_of_ten_thousand_files_is_read() {
    let dir = tempfile::tempdir().unwrap();
    for i in 0..10_000 {
        // Few of them are traces, and only these have names of traces.
        let (name, text) = match i % 100 {
            0 => ("rank", trace(&[event("op", 10), event("op", 30)])),
            _ => ("note", "{\"a\": 1}".to_string()),
        };
        std::fs::write(dir.path().join(format!("{name}_{i}.json")), text).unwrap();
    }
    let end = run(&["breakdown", "--format", "csv"], &[dir.path()]);
    assert_eq!(end.status.code(), Some(0), "{}", errors(&end));
    let lines = String::from_utf8_lossy(&end.stdout).lines().count();
    assert!(lines > 100, "{lines}");
}

#[test]
fn names_and_arguments_of_a_megabyte_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rank_0.json");
    let long = "n".repeat(1_000_000);
    let with_args = format!(
        r#"{{"ph":"X","cat":"cpu_op","name":"b","pid":1,"tid":1,"ts":50,"dur":1,"args":{{"Input Dims":"{long}","x":"{long}"}}}}"#
    );
    std::fs::write(&path, trace(&[event(&long, 10), with_args, event("c", 90)])).unwrap();
    for threads in ["1", "3"] {
        let out = dir.path().join("out");
        let end = hta(&["analyze", "--keep-args", "--threads", threads, "--out"])
            .arg(&out)
            .arg(&path)
            .output()
            .unwrap();
        assert_eq!(end.status.code(), Some(0), "{}", errors(&end));
        let summary: serde_json::Value =
            serde_json::from_slice(&std::fs::read(out.join("summary.json")).unwrap()).unwrap();
        assert_eq!(summary["event_count"], 3);
    }
}

#[test]
fn nesting_a_hundred_thousand_deep_is_read_through_the_command_line() {
    let dir = tempfile::tempdir().unwrap();
    let deep = |open: &str, close: &str| format!("{}1{}", open.repeat(100_000), close.repeat(100_000));
    for (i, value) in [deep("[", "]"), deep("{\"a\":", "}"), deep("[{\"a\":", "}]")].into_iter().enumerate() {
        let path = dir.path().join(format!("rank_{i}.json"));
        let event = format!(
            r#"{{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1,"dur":1,"args":{{"x":{value}}}}}"#
        );
        std::fs::write(&path, format!("{{\"odd\":{value},\"traceEvents\":[{event}]}}")).unwrap();
        let end = run(&["breakdown"], &[&path]);
        assert_eq!(end.status.code(), Some(0), "{}", errors(&end));
    }
}

#[test]
fn a_million_top_level_keys_take_no_longer_than_their_text() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rank_0.json");
    let keys: Vec<String> = (0..1_000_000).map(|i| format!("\"k{i}\":1")).collect();
    std::fs::write(&path, format!("{{{},\"traceEvents\":[{}]}}", keys.join(","), event("op", 10))).unwrap();
    let end = run(&["breakdown"], &[&path]);
    assert_eq!(end.status.code(), Some(0), "{}", errors(&end));
}

/// Gzip of ten million tiny events, 600 MB of text.
#[test]
#[ignore = "takes a minute"]
fn ten_million_tiny_events_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rank_0.json.gz");
    let mut file = GzEncoder::new(std::fs::File::create(&path).unwrap(), Compression::fast());
    file.write_all(b"{\"traceEvents\":[\n").unwrap();
    for i in 0..10_000_000 {
        writeln!(file, "{},", event("a", i)).unwrap();
    }
    writeln!(file, "{}]}}", event("a", 1)).unwrap();
    file.finish().unwrap();
    let out = dir.path().join("out");
    let end = hta(&["analyze", "--no-events", "--out"]).arg(&out).arg(&path).output().unwrap();
    assert_eq!(end.status.code(), Some(0), "{}", errors(&end));
    let summary: serde_json::Value =
        serde_json::from_slice(&std::fs::read(out.join("summary.json")).unwrap()).unwrap();
    assert_eq!(summary["event_count"], 10_000_001);
}

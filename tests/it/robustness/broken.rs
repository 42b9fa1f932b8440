//! Broken and unusual inputs: one tiny file per defect, with the expected results in `tests/broken/EXPECTED.tsv`.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/broken");

struct Case {
    path: String,
    exit: i32,
    kept: u64,
    counters: BTreeMap<String, u64>,
}

fn cases() -> Vec<Case> {
    let text = std::fs::read_to_string(Path::new(FIXTURES).join("EXPECTED.tsv")).unwrap();
    let rows = text.lines().filter(|l| !l.starts_with('#') && !l.starts_with("path\t"));
    rows.map(|line| {
        let f: Vec<&str> = line.split('\t').collect();
        let counter = |c: &str| c.split_once('=').map(|(n, v)| (n.to_string(), v.parse().unwrap())).unwrap();
        Case {
            path: f[0].to_string(),
            exit: f[2].parse().unwrap(),
            kept: f[3].parse().unwrap_or(0),
            counters: if f[4] == "-" { BTreeMap::new() } else { f[4].split(',').map(counter).collect() },
        }
    })
    .collect()
}

fn analyze(input: &Path, out: &Path, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hta"));
    command.args(["analyze", "--threads", "1", "--out"]).arg(out).args(more).arg(input);
    command.output().unwrap()
}

/// Counter -> (count, severity), summed over files.
fn health(summary: &Value) -> BTreeMap<String, (u64, String)> {
    let mut all: BTreeMap<String, (u64, String)> = BTreeMap::new();
    for h in summary["health"].as_array().unwrap() {
        let severity = h["severity"].as_str().unwrap().to_string();
        all.entry(h["counter"].as_str().unwrap().to_string()).or_insert((0, severity)).0 +=
            h["count"].as_u64().unwrap();
    }
    all
}

fn summary(out: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(out.join("summary.json")).unwrap()).unwrap()
}

#[test]
fn every_defect_is_repaired_counted_or_refused_as_declared() {
    let dir = tempfile::tempdir().unwrap();
    let mut wrong = Vec::new();
    let cases = cases();
    assert!(cases.len() > 100, "only {} fixtures were found", cases.len());
    for case in &cases {
        let out = dir.path().join("out");
        let _ = std::fs::remove_dir_all(&out);
        let run = analyze(&Path::new(FIXTURES).join(&case.path), &out, &[]);
        let errors = String::from_utf8_lossy(&run.stderr);
        let mut say = |what: String| wrong.push(format!("{}: {what}", case.path));
        if errors.contains("panicked") {
            say(format!("panic: {errors}"));
        }
        if run.status.code() != Some(case.exit) {
            say(format!("exit {:?}, expected {}: {errors}", run.status.code(), case.exit));
            continue;
        }
        if case.exit == 2 {
            if errors.trim().is_empty() || out.exists() {
                say(format!("refused without a word, or with a result: {errors}"));
            }
            continue;
        }
        let summary = summary(&out);
        let kept = summary["event_count"].as_u64().unwrap();
        if kept != case.kept {
            say(format!("{kept} events kept, expected {}", case.kept));
        }
        let got = health(&summary);
        for (name, count) in &case.counters {
            if got.get(name).map(|g| g.0) != Some(*count) {
                say(format!("{name} is {:?}, expected {count}", got.get(name)));
            }
        }
        for (name, (count, severity)) in &got {
            if !case.counters.contains_key(name) && severity != "info" {
                say(format!("{name} = {count} ({severity}) was not expected"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Names and times of all events of a fixture, through the library.
fn events(path: &str) -> (Vec<String>, Vec<i64>, Vec<i64>) {
    use hta::read::input::Input;
    use hta::read::load::load;
    use hta::read::options::LoadOptions;
    use hta::read::reading::Spread;
    use hta::read::source::ByteCount;
    let path = Path::new(FIXTURES).join(path);
    let input = Input::named(path);
    let loaded = load(&input, LoadOptions::default(), Spread::Inline, &ByteCount::default()).unwrap();
    let c = loaded.columns;
    let names = (0..c.len()).map(|row| c.strings.get(c.name(row)).to_string()).collect();
    (names, c.ts.to_vec(), c.dur.to_vec())
}

#[test]
fn names_survive_bare_quotes_control_characters_and_bad_bytes() {
    let (names, ..) = events("d01_unescaped_quote.json");
    assert_eq!(names[0], r#"{"device": "cpu"}"#);
    assert_eq!(names[3], r#"open("log", "pid_file")"#);
    assert_eq!(names[6], r#""quoted""#);
    let (names, ..) = events("d02_control_char.json");
    assert_eq!(
        (names[0].as_str(), names[3].as_str(), names[6].as_str()),
        ("read\u{1}file", "two\nlines", "del\u{7f}")
    );
    let (names, ..) = events("d03_invalid_utf8.json");
    assert_eq!((names[0].as_str(), names[3].as_str()), ("caf\u{fffd} au lait", "cut \u{fffd}"));
    let (names, ..) = events("d05_bad_escape.json");
    assert_eq!(
        (names[0].as_str(), names[3].as_str()),
        ("D:\\Models.py(12): forward", "C:\\users.py(3): run")
    );
}

#[test]
fn times_are_exact_through_a_whole_file() {
    let (_, ts, dur) = events("clean.json");
    assert_eq!((ts[0], dur[0]), (1_711_964_646_001_000_100, 50_250));
    let (_, ts, dur) = events("d15_bad_duration.json");
    assert_eq!((dur[6], dur[7], dur[8]), (0, 700_000, 600_000));
    assert!(ts.iter().all(|t| *t > 0));
}

#[test]
fn every_prefix_of_a_trace_gives_a_result_or_an_error() {
    let text = std::fs::read(Path::new(FIXTURES).join("clean.json")).unwrap();
    let whole = feed(&[&text]).map(|c| c.0).unwrap();
    let mut last = 0;
    for cut in 0..text.len() {
        if let Ok((kept, _)) = feed(&[&text[..cut]]) {
            assert!(kept >= last && kept <= whole, "cut at {cut}: {kept} events after {last}");
            last = kept;
        }
    }
    assert_eq!(last, whole);
}

#[test]
fn no_single_damaged_byte_hangs_or_panics() {
    let text = std::fs::read(Path::new(FIXTURES).join("clean.json")).unwrap();
    for at in 0..text.len() {
        for byte in [b'"', b'\\', b'{', b'}', b'[', b']', b',', 0, 0xff] {
            let mut damaged = text.clone();
            damaged[at] = byte;
            if let Ok((kept, _)) = feed(&[&damaged]) {
                assert!(kept <= 7, "byte {byte} at {at}: {kept} events");
            }
        }
    }
}

#[test]
fn the_size_of_the_blocks_changes_nothing() {
    for fixture in [
        "clean.json",
        "d01_unescaped_quote.json",
        "d07_log_lines_before.json",
        "d08_broken_args.json",
        "trailing_comma.json",
        "bom.json",
    ] {
        let text = std::fs::read(Path::new(FIXTURES).join(fixture)).unwrap();
        let whole = feed(&[&text]);
        for size in [1, 7, 64, 1000] {
            let blocks: Vec<&[u8]> = text.chunks(size).collect();
            assert_eq!(feed(&blocks), whole, "{fixture} in blocks of {size}");
        }
    }
}

/// Reads blocks like a stream: bytes that were not consumed are passed again with the next block.
fn feed(blocks: &[&[u8]]) -> Result<(usize, Vec<(String, u64)>), String> {
    use hta::read::kineto::document::Document;
    use hta::read::options::LoadOptions;
    let mut document =
        Document::new(LoadOptions { event_args: true, rest_args: true, ..LoadOptions::default() });
    let mut buf: Vec<u8> = Vec::new();
    for block in blocks {
        buf.extend_from_slice(block);
        let used = document.feed(&buf, false).map_err(|r| format!("{r:?}"))?;
        buf.drain(..used);
    }
    document.feed_last(&buf, false).map_err(|r| format!("{r:?}"))?;
    document.finish().map_err(|r| format!("{r:?}"))?;
    let c = &document.reader.columns;
    let health = c.health.iter().map(|(k, t)| (k.spec().name.to_string(), t.count)).collect();
    Ok((c.len(), health))
}

#[test]
fn nesting_a_hundred_thousand_deep_costs_no_stack() {
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    let text = format!(
        r#"{{"odd": {deep}, "traceEvents": [{{"ph":"X","name":"a","pid":1,"tid":1,"ts":1,"dur":1,"args":{{"x":{deep}}}}}]}}"#
    );
    assert_eq!(feed(&[text.as_bytes()]).map(|f| f.0), Ok(1));
}

#[test]
fn two_files_of_one_rank_stop_the_run_before_anything_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let run = analyze(&PathBuf::from(FIXTURES).join("duplicate_ranks"), &out, &[]);
    let errors = String::from_utf8_lossy(&run.stderr);
    assert_eq!(run.status.code(), Some(2));
    assert!(
        errors.contains("both claim rank") && errors.contains("hint: give the files of one job"),
        "{errors}"
    );
    assert!(!out.exists());
}

#[test]
fn strict_writes_nothing_where_something_was_lost() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let run = analyze(&PathBuf::from(FIXTURES).join("truncated_mid_event.json"), &out, &["--strict"]);
    assert_eq!(run.status.code(), Some(2));
    assert!(!out.exists());
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}

#[test]
fn a_plain_file_in_pieces_reads_like_a_stream() {
    use hta::read::input::Input;
    use hta::read::load::load;
    use hta::read::options::LoadOptions;
    use hta::read::reading::Spread;
    use hta::read::source::ByteCount;
    // The largest plain file here is much smaller than a piece, so one is made from many copies of an event.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("large.json");
    let event = r#"{"ph":"X","cat":"cpu_op","name":"odd } {\"ph\": , {","pid":1,"tid":1,"ts":TS.125,"dur":3.5,"args":{"External id":TS,"Input Dims":[[1,2],[]]}}"#;
    // Most events end near the border of their piece, some far behind it, and one is longer than a piece.
    let note = |i: usize| match i {
        80_000 => format!(",\"note\":\"{{\\\"ph\\\": , {}\"", "x".repeat(3 << 20)),
        _ if i.is_multiple_of(500) => format!(",\"note\":\"{}\"", "y".repeat(1000 + i * 4)),
        _ => String::new(),
    };
    let events: Vec<String> = (0..90_000)
        .map(|i| event.replace("TS", &(1000 + i).to_string()).replace("[]]", &("[]]".to_string() + &note(i))))
        .collect();
    let text = format!(
        "{{\"schemaVersion\":1,\"traceEvents\":[\n{}\n],\"distributedInfo\":{{\"rank\":5}}}}",
        events.join(",\n")
    );
    std::fs::write(&path, text).unwrap();
    let input = Input::named(path).shown_as("large");
    let options = LoadOptions { event_args: true, ..LoadOptions::default() };
    let read = |spread| {
        let l = load(&input, options, spread, &ByteCount::default()).unwrap();
        let c = l.columns;
        let names: Vec<String> = c.strings.iter().map(|(_, t)| t.to_string()).collect();
        let health: Vec<_> = c.health.iter().map(|(k, t)| (k, t.clone())).collect();
        (c.ts, c.dur, c.name, c.cat, c.lane, names, health, l.meta.rank, l.unpacked_bytes)
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(4).build().unwrap();
    let (one, many) = (read(Spread::Inline), pool.install(|| read(Spread::AllCores)));
    assert_eq!(one.0.len(), 90_000);
    assert!(one == many, "pieces differ from the stream");
}

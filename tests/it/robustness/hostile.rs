//! Text from a trace in the output: every text field contains characters that control a terminal, and every command
//! that prints is run on it. Also numbers from a trace: none of them determines how much memory is allocated.

use hta::compat::{Compat, find};
use hta::registry::ANALYSES;
use hta::sql::catalog::QUERIES;
use hta::trace::args::{ARGS, ArgType};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Window title, clipboard, colours and cursor; C1; direction of writing; characters without width; line breaks.
const HOSTILE: &str = "\u{1b}]0;t\u{7}\u{1b}]52;c;eA==\u{7}\u{1b}[31m\u{1b}[2J\u{9b}31m\u{9d}0;x\u{9c}\r\n\t\u{8}\u{7f}\u{85}\u{202e}\u{2066}\u{200f}\u{200b}\u{2060}\u{feff}\u{ad}\u{2028}\u{e0041}z";

/// Characters that a terminal would interpret, or that are invisible.
fn is_hidden(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t')
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

fn named(name: &str) -> String {
    format!("{name} {HOSTILE}")
}

/// Arguments of every kind, with hostile texts where texts are allowed.
fn args(correlation: u64) -> Value {
    let mut args = Map::new();
    for spec in ARGS {
        let value = match spec.ty {
            ArgType::Text => json!(named(spec.column)),
            ArgType::Json => json!([HOSTILE]),
            ArgType::Bool => json!(true),
            _ => json!(1),
        };
        args.extend(spec.keys.first().map(|key| (key.to_string(), value)));
    }
    // What becomes names of copies, streams and annotations of graphs.
    for key in
        ["name", "autograd_phase", "copy kind", "src kind", "dst kind", "memory kind", "original_stream"]
    {
        args.insert(key.to_string(), json!(named(key)));
    }
    // Values that link events must be valid, or the events would be ignored.
    for (key, value) in
        [("correlation", json!(correlation)), ("External id", json!(correlation)), ("device", json!(0))]
    {
        args.insert(key.to_string(), value);
    }
    args.insert("Process Group Ranks".to_string(), json!("[0, 1]"));
    args.insert("Collective name".to_string(), json!("allreduce"));
    args.insert(named("a key"), json!({ HOSTILE: [HOSTILE] }));
    Value::Object(args)
}

/// A trace of one rank in which all texts are hostile.
fn trace(rank: u64) -> String {
    let mut events = Vec::new();
    let mut push = |cat: &str, name: &str, tid: Value, ts: u64, dur: u64, args: Value| {
        events.push(json!({
            "ph": "X", "cat": cat, "name": named(name), "pid": 1, "tid": tid, "ts": ts, "dur": dur, "args": args,
        }));
    };
    for step in 0..4u64 {
        let t = 1_000 + 10_000 * step;
        events_of_step(&mut push, t, step, rank);
    }
    push("a category \u{1b}[1m\u{202e}", "odd", json!(1), 2_000, 5, json!({}));
    events.push(json!({
        "ph": "M", "name": "process_name", "pid": 1, "tid": 0, "ts": 0, "args": { "name": HOSTILE },
    }));
    events.push(json!({
        "ph": "X", "cat": "cpu_op", "name": HOSTILE, "pid": HOSTILE, "tid": HOSTILE, "ts": 3_000, "dur": 7, "args": {},
    }));
    let mut file = json!({
        "schemaVersion": 1,
        "baseTimeNanoseconds": 1_700_000_000_000_000_000u64,
        "deviceProperties": [{ "id": 0, "name": named("GPU"), "numSms": 100, "totalGlobalMem": 1 }],
        "distributedInfo": {
            "rank": rank, "world_size": 2, "backend": named("nccl"),
            "pg_config": [{ "pg_name": named("process_group"), "pg_desc": HOSTILE, "pg_size": 2, "ranks": [0, 1] }],
        },
        "host_name": named("host"), "trace_id": HOSTILE, "traceName": named("trace"), "displayTimeUnit": HOSTILE,
    });
    file["a key \u{1b}[1m\u{202e}"] = json!(HOSTILE);
    file["traceEvents"] = Value::Array(events);
    // A truncated text, one with raw control characters and one with invalid bytes are reported with examples.
    serde_json::to_string(&file).expect("JSON").replace("odd \\u001b", "odd \u{1b}\u{9b}31m")
}

fn events_of_step(push: &mut impl FnMut(&str, &str, Value, u64, u64, Value), t: u64, step: u64, rank: u64) {
    let id = 10 * step;
    let slow = 3_000 * rank;
    push("user_annotation", &format!("ProfilerStep#{step}"), json!(1), t, 9_000, json!({}));
    push("python_function", "a.py(1): f", json!(1), t, 8_900, json!({ "Python id": id + 1 }));
    push(
        "python_function",
        "b.py(2): g",
        json!(1),
        t + 1,
        5_000,
        json!({ "Python id": id + 2, "Python parent id": id + 1 }),
    );
    push("user_annotation", "part", json!(1), t + 2, 4_000, json!({}));
    push("cpu_op", "aten::mm", json!(1), t + 10, 100, args(id + 3));
    push("cuda_runtime", "cudaLaunchKernel", json!(1), t + 20, 10, json!({ "correlation": id + 3 }));
    push("kernel", "gemm", json!(7), t + 40, 1_000 + slow, args(id + 3));
    push("cuda_runtime", "cudaMemcpyAsync", json!(1), t + 200, 10, json!({ "correlation": id + 4 }));
    push("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", json!(8), t + 220, 300, args(id + 4));
    push("cpu_op", "record_param_comms", json!(1), t + 400, 60, args(id + 5));
    push("cuda_runtime", "cudaLaunchKernel", json!(1), t + 410, 10, json!({ "correlation": id + 5 }));
    let start = t + 1_100 + slow;
    push("kernel", "ncclDevKernel_AllReduce", json!(9), start, t + 4_500 - start, args(id + 5));
    push("cuda_runtime", "cudaStreamSynchronize", json!(1), t + 4_600, 300, json!({ "correlation": id + 6 }));
    push("cuda_sync", "Stream Synchronize", json!(9), t + 4_600, 200, args(id + 6));
}

/// Two such ranks in files with hostile names, and a file that is not a trace.
fn folder(dir: &Path) -> PathBuf {
    let folder = dir.join("job \u{1b}[1m\u{202e}");
    std::fs::create_dir(&folder).expect("a folder");
    for rank in 0..2 {
        let name = format!("rank_{rank}.\u{1b}]0;x\u{7}\u{9b}1m\u{202e}.json");
        std::fs::write(folder.join(name), trace(rank)).expect("a file");
    }
    std::fs::write(folder.join("other\u{1b}[1m.json"), "{\"a\": 1}").expect("a file");
    folder
}

fn hta(arguments: &[&str], path: &[&Path]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hta")).args(arguments).args(path).output().expect("the binary runs")
}

fn assert_harmless(what: &str, bytes: &[u8]) {
    let text = std::str::from_utf8(bytes).unwrap_or_else(|e| panic!("{what}: {e}"));
    if let Some((line, c)) = text.lines().find_map(|l| Some((l, l.chars().find(|c| is_hidden(*c))?))) {
        panic!("{what}: {c:?} in {line:?}");
    }
}

/// Runs a command, whose output must be non-empty and free of characters that a terminal interprets.
fn assert_says_harmless(arguments: &[&str], path: &[&Path], exits: &[i32]) -> String {
    let run = hta(arguments, path);
    assert_harmless(&format!("{arguments:?}"), &run.stdout);
    assert_harmless(&format!("{arguments:?}, errors"), &run.stderr);
    let errors = String::from_utf8_lossy(&run.stderr);
    let code = run.status.code().unwrap_or(-1);
    assert!(exits.contains(&code), "{arguments:?}: exit {code}: {errors}");
    assert!(!run.stdout.is_empty() || !run.stderr.is_empty(), "{arguments:?} says nothing");
    String::from_utf8_lossy(&run.stdout).into_owned()
}

#[test]
fn no_text_of_a_trace_acts_on_the_terminal_in_any_analysis() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let job = folder(dir.path());
    let mut all = String::new();
    for analysis in ANALYSES {
        let stem = analysis.stem();
        all += &assert_says_harmless(&[stem], &[&job], &[0, 1]);
        for table in analysis.tables() {
            for format in ["csv", "json"] {
                all += &assert_says_harmless(
                    &[stem, "--format", format, "--table", table.name],
                    &[&job],
                    &[0, 1],
                );
            }
        }
        for tool in Compat::TOOLS.into_iter().filter(|t| find(*t, stem).is_some()) {
            assert_says_harmless(&[stem, "--compat", tool.name()], &[&job], &[0, 1]);
            assert_says_harmless(&[stem, "--compat", tool.name(), "--format", "csv"], &[&job], &[0, 1]);
        }
    }
    // The names appear with escapes.
    for part in [r"gemm \u{1b}]0;t\u{7}", r"\u{202e}", "\\u202e"] {
        assert!(all.contains(part), "{part}");
    }
}

#[test]
fn no_text_of_a_trace_acts_on_the_terminal_in_any_other_command() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let job = folder(dir.path());
    let at = |name: &str| dir.path().join(name);
    let (out, part, merged, overlay) =
        (at("out \u{1b}[1m"), at("part"), at("merged"), at("overlay \u{9b}1m.json"));
    let report = assert_says_harmless(&["analyze", "--out", &out.display().to_string()], &[&job], &[0, 1]);
    assert!(
        report.contains("both ranks (0, 1), GPU") && report.contains(r"\u{1b}]52;c;eA==\u{7}"),
        "{report}"
    );
    assert_harmless("report.txt", &std::fs::read(out.join("report.txt")).expect("a report"));
    assert_says_harmless(&["analyze", "--partial", "--out", &part.display().to_string()], &[&job], &[0, 1]);
    assert_says_harmless(&["merge", "--out", &merged.display().to_string()], &[&part], &[0, 1]);
    assert_says_harmless(&["report"], &[&out], &[0]);
    assert_says_harmless(&["diff"], &[&job, &job], &[0, 1]);
    assert_says_harmless(&["diff", "--format", "csv"], &[&job, &job], &[0, 1]);
    assert_says_harmless(&["diff", "--compat", "hta"], &[&job, &job], &[0, 1]);
    assert_says_harmless(&["overlay", "--out", &overlay.display().to_string()], &[&job], &[0, 1]);
    for query in QUERIES {
        assert_says_harmless(&["query", query.name], &[&out], &[0, 2]);
    }
    for statement in
        ["SELECT * FROM events", "SELECT * FROM ranks", "SELECT * FROM health", "SELECT * FROM kernels"]
    {
        for format in ["text", "csv", "json"] {
            assert_says_harmless(&["query", statement, "--format", format], &[&out], &[0]);
        }
    }
    // Errors name files and folders.
    let file = job.join("other\u{1b}[1m.json");
    assert_says_harmless(&["breakdown"], &[&file], &[2]);
    assert_says_harmless(&["breakdown"], &[&at("nothing \u{1b}[1m\u{202e}")], &[2]);
    assert_says_harmless(&["breakdown", "--nothing\u{1b}[1m"], &[&job], &[2]);
    assert_says_harmless(&["explain", "nothing\u{1b}[1m\u{202e}"], &[], &[2]);
    assert_says_harmless(&["query", "SELECT x\u{1b}[1m FROM events"], &[&out], &[2]);
}

#[test]
fn formulas_in_csv_are_marked_in_files_for_spreadsheets_and_where_that_is_asked_for() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let file = dir.path().join("rank_0.json");
    let kernel = |name: &str| {
        format!(
            r#"{{"ph":"X","cat":"kernel","name":"{name}","pid":0,"tid":7,"ts":1,"dur":1,"args":{{"stream":7}}}}"#
        )
    };
    let names = ["=HYPERLINK(1)", "+1", "-1", "@SUM(A1)", "a=b"];
    let text = format!("{{\"traceEvents\":[{}]}}", names.map(kernel).join(","));
    std::fs::write(&file, text).expect("a file");
    let csv = |more: &[&str]| {
        let arguments = [&["kernels", "--format", "csv"], more].concat();
        String::from_utf8(hta(&arguments, &[&file]).stdout).expect("UTF-8")
    };
    let (plain, safe) = (csv(&[]), csv(&["--csv-safe"]));
    for name in names {
        assert!(plain.contains(&format!(",{name},")), "{plain}");
        assert_eq!(safe.contains(&format!(",'{name},")), name != "a=b", "{safe}");
    }
    let written = |name: &str, more: &[&str]| {
        let out = dir.path().join(name);
        let arguments =
            [&["kernels", "--format", "csv", "--out", out.to_str().expect("UTF-8")], more].concat();
        assert!(hta(&arguments, &[&file]).status.success());
        std::fs::read_to_string(&out).expect("a file")
    };
    assert_eq!((written("a.csv", &[]), written("a.CSV", &[])), (safe.clone(), safe));
    assert_eq!((written("a.csv", &["--csv-exact"]), written("a.txt", &[])), (plain.clone(), plain));
    let query = ["query", "SELECT DISTINCT name FROM events", "--format", "csv", "--csv-safe"];
    let safe = String::from_utf8(hta(&query, &[&file]).stdout).expect("UTF-8");
    assert!(safe.contains("\n'=HYPERLINK(1)\n") && safe.contains("\na=b\n"), "{safe}");
}

/// A few hundred bytes that describe groups of billions of ranks, in every possible way.
#[cfg(target_os = "linux")]
#[test]
fn no_number_in_a_trace_decides_how_much_memory_is_taken() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let group = |size: u64, more: Value| {
        let mut args =
            json!({ "Collective name": "allreduce", "Process Group Name": "1", "Group size": size });
        args.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        args
    };
    let huge = 4_000_000_000u64;
    let kernels = [
        group(huge, json!({ "Process Group Ranks": "[0, 1, ...]" })),
        group(huge, json!({ "Global rank start": 0, "Global rank stride": 1 })),
        group(1_000_000, json!({ "Global rank start": 0, "Global rank stride": 3 })),
        group(1_000_000, json!({ "Process Group Ranks": "[0, 1, ...]", "Process Group Name": "2" })),
        group(huge, json!({ "Process Group Name": "0" })),
    ];
    let event = |(i, args): (usize, Value)| {
        let ts = 10 * i;
        json!({ "ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce", "pid": 0, "tid": 7, "ts": ts, "dur": 5, "args": args })
    };
    for rank in 0..2 {
        let events: Vec<Value> = kernels.clone().into_iter().enumerate().map(event).collect();
        let file = json!({
            "schemaVersion": 1, "baseTimeNanoseconds": 1_700_000_000_000_000_000u64,
            "distributedInfo": {
                "rank": rank, "world_size": huge,
                "pg_config": [{ "pg_name": "0", "pg_size": huge, "ranks": [0, 1] }],
            },
            "traceEvents": events,
        });
        std::fs::write(dir.path().join(format!("rank_{rank}.json")), file.to_string()).expect("a file");
    }
    let out = tempfile::tempdir().expect("a folder for results");
    // Expanding the lists alone would take many GB.
    let run = Command::new("sh")
        .args([
            "-c",
            "ulimit -v 6000000; exec \"$0\" \"$@\"",
            env!("CARGO_BIN_EXE_hta"),
            "analyze",
            "--threads",
            "2",
            "--out",
        ])
        .args([out.path().join("out"), dir.path().to_path_buf()])
        .output()
        .expect("the binary runs");
    let (text, errors) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert_eq!(run.status.code(), Some(0), "{errors}");
    // Three kernels, the group of the job and the job itself.
    assert!(text.contains("10 x group_size_impossible"), "{text}");
}

//! Source lines on small traces that can be checked by eye, on the recordings of the repository, and invariants.

use crate::run::{Answer, Keep, Quiet, Record, options};
use crate::shared;
use hta::analysis::api::Options;
use hta::read::discover::discover;
use hta::read::options::LoadOptions;
use hta::registry::find;
use hta::run::{Request, run};
use hta::trace::interval::Union;
use hta::units::Span;
use hta_testkit::{Format, TraceBuilder, us};
use proptest::prelude::*;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Runs only `lines`.
pub fn lines(paths: &[PathBuf], options: &Options) -> Answer {
    let analysis = find("lines").expect("it is registered");
    let inputs = discover(paths).expect("the files are there");
    let keep = Keep::default();
    let request =
        Request { inputs: &inputs, analyses: &[analysis], options, load: LoadOptions::default(), ranks: &[] };
    let outcome = run(&request, &keep, &Quiet).expect("good traces");
    Answer::of(outcome, keep, options)
}

/// The default options plus some of the analysis' own.
pub fn with(given: &[(&str, &str)]) -> Options {
    let mut o = options();
    for (flag, value) in given {
        let declared = find("lines").expect("it is registered").about().settings;
        let setting = declared.iter().find(|s| s.flag == *flag).expect("a declared option");
        o.settings.set(setting, value).expect("a valid value");
    }
    o
}

fn of(t: &TraceBuilder, options: &Options) -> Answer {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("rank_0.json");
    std::fs::write(&path, t.to_bytes(&Format::default())).expect("a temporary file can be written");
    lines(&[path], options)
}

/// The place of a row: `train.py:12`, `train.py(10): train`, or what stands for it.
pub fn place(r: &Record) -> String {
    let file = if r.text("module").is_empty() { r.text("file") } else { r.text("module") };
    match (r.opt_int("line"), r.text("function")) {
        (Some(line), "") => format!("{file}:{line}"),
        (Some(line), function) => format!("{file}({line}): {function}"),
        _ => file.to_string(),
    }
}

/// Capture rows by place, times in us.
fn rows<const N: usize>(answer: &Answer, columns: [&str; N]) -> BTreeMap<String, [i64; N]> {
    let rows = answer.rows_where("lines", |r| r.text("scope") == "capture");
    let value = |r: &Record, c: &str| if c.ends_with("_ns") { r.int(c) / 1000 } else { r.int(c) };
    rows.iter().map(|r| (place(r), columns.map(|c| value(r, c)))).collect()
}

fn raw(answer: &Answer) -> String {
    answer.outcome.outputs[0].1.raw.clone().expect("folded stacks")
}

fn sum(folded: &str) -> i64 {
    let value = |line: &str| line.rsplit(' ').next().and_then(|v| v.parse::<i64>().ok()).expect("a value");
    folded.lines().map(value).sum()
}

/// ```text
/// main     train.py(10): train             [0..........................................................100)
///            nn.Module: Net_0, from :12         [10..........................60)
///              torch/nn/m.py(5): _call           [11........................59)
///                model.py(3): forward             [12......................58)
///                  <built-in linear>, from :7         [20..........50)
///                    aten::linear                      [22........48)
///                      launch                             [30.34)
///            <built-in item>, from :14                                                  [70......90)
///              aten::item                                                                [72....88)
///                cudaStreamSynchronize                                                    [75..85)
/// autograd   LinearBackward0                                              [62....69)
///              launch                                                       [63..65)
/// gpu        gemm [40..60)   dgemm [66..80)   orphan [90..95)
/// ```
pub fn small() -> TraceBuilder {
    let mut t = TraceBuilder::new();
    let mut main = t.thread(1);
    main.frame("train.py(10): train", us(0)..us(100)).arg("CallFrom", "train.py:30");
    main.frame("nn.Module: Net_0", us(10)..us(60)).arg("CallFrom", "train.py:12");
    main.frame("torch/nn/m.py(5): _call", us(11)..us(59)).arg("CallFrom", "torch/nn/m.py:2");
    main.frame("model.py(3): forward", us(12)..us(58)).arg("CallFrom", "torch/nn/m.py:6");
    main.frame("<built-in linear at 0x7f01>", us(20)..us(50)).arg("CallFrom", "model.py:7");
    main.op("aten::linear", us(22)..us(48)).sequence(5, 0);
    main.launch(us(30)..us(34)).kernel("gemm", 7, us(40)..us(60));
    main.frame("<built-in item at 0x7f02>", us(70)..us(90)).arg("CallFrom", "train.py:14");
    main.op("aten::item", us(72)..us(88));
    main.runtime("cudaStreamSynchronize", us(75)..us(85));
    let mut autograd = t.thread(2);
    autograd.op("LinearBackward0", us(62)..us(69)).sequence(5, 1);
    autograd.launch(us(63)..us(65)).kernel("dgemm", 7, us(66)..us(80));
    t.forward_backward(1, (1, us(22)), (2, us(62)));
    t.unlinked().kernel("orphan", 7, us(90)..us(95));
    t
}

#[test]
fn every_instant_counts_at_the_line_of_user_code_that_waits_for_it() {
    let answer = of(&small(), &options());
    let rows = rows(&answer, ["calls", "host_self_ns", "host_total_ns", "native_ns", "python_ns"]);
    assert_eq!(rows["train.py(10): train"], [1, 30, 100, 0, 30]);
    // The library's own time is 2 us on either side of `forward`, which is user code again.
    assert_eq!(rows["train.py:12"], [1, 4, 50, 0, 4]);
    assert_eq!(rows["model.py(3): forward"], [1, 16, 46, 0, 16]);
    assert_eq!(rows["model.py:7"], [1, 30, 30, 30, 0]);
    assert_eq!(rows["train.py:14"], [1, 20, 20, 20, 0]);
    // The first frame has no caller in the recording, so its own `CallFrom` is no row.
    assert_eq!(rows.len(), 6, "{rows:?}");
    let total = &answer.rows("line_totals")[0];
    assert_eq!((total.int("host_self_ns"), total.int("idle_ns")), (100_000, 0));
    assert!(total.flag("has_lines") == Some(true) && total.int("frame_count") == 6);
}

#[test]
fn gpu_work_counts_at_the_line_that_launched_it_and_backward_at_the_forward_line() {
    let answer = of(&small(), &options());
    let columns = ["gpu_sum_ns", "gpu_busy_ns", "bwd_gpu_sum_ns", "bwd_host_ns", "launches", "blocked_ns"];
    let rows = rows(&answer, columns);
    assert_eq!(rows["model.py:7"], [20, 20, 14, 7, 2, 0]);
    assert_eq!(rows["train.py:14"], [0, 0, 0, 0, 0, 10]);
    assert_eq!(rows["[unlinked]"], [5, 5, 0, 0, 0, 0]);
    let all: i64 = rows.values().map(|r| r[0] + r[2]).sum();
    assert_eq!(all * 1000, answer.rows("line_totals")[0].int("gpu_ns"));
}

#[test]
fn without_the_lines_of_calls_rows_are_functions() {
    let mut t = TraceBuilder::new();
    let mut main = t.thread(1);
    main.frame("train.py(10): train", us(0)..us(100));
    main.frame("torch/nn/m.py(5): _call", us(10)..us(60));
    main.frame("model.py(3): forward", us(20)..us(50));
    main.op("aten::mm", us(25)..us(45));
    let answer = of(&t, &options());
    let rows = rows(&answer, ["calls", "host_self_ns", "host_total_ns", "native_ns"]);
    assert_eq!(rows["train.py(10): train"], [1, 70, 100, 0]);
    assert_eq!(rows["model.py(3): forward"], [1, 30, 30, 20]);
    let notes = answer.notes("lines").join("\n");
    assert!(notes.contains("the lines of calls are not recorded"), "{notes}");
}

#[test]
fn a_function_that_calls_itself_counts_once_in_its_total() {
    let mut t = TraceBuilder::new();
    let mut main = t.thread(1);
    main.frame("rec.py(1): f", us(0)..us(40));
    main.frame("rec.py(1): f", us(10)..us(30)).arg("CallFrom", "rec.py:2");
    main.frame("rec.py(1): f", us(15)..us(20)).arg("CallFrom", "rec.py:2");
    main.op("aten::mm", us(16)..us(18));
    let rows = rows(&of(&t, &options()), ["calls", "host_self_ns", "host_total_ns", "native_ns"]);
    assert_eq!(rows["rec.py(1): f"], [3, 40, 40, 2]);
    assert_eq!(rows["rec.py:2"], [2, 0, 20, 0]);
}

#[test]
fn threads_that_only_watch_have_a_view_of_their_own() {
    let mut t = small();
    t.thread(9).frame("tqdm/_monitor.py(60): run", us(0)..us(1000));
    let answer = of(&t, &options());
    let rows = answer.rows("lines");
    let last = rows.last().expect("rows");
    assert_eq!((place(last).as_str(), last.int("host_self_ns")), ("tqdm/_monitor.py(60): run", 1_000_000));
    assert!(last.flag("is_idle_thread") == Some(true) && last.float("self_pct").is_none());
    let of_all: f64 = rows.iter().filter_map(|r| r.float("self_pct")).sum();
    assert!((of_all - 100.0).abs() < 1e-9, "{of_all}");
    let views = answer.views();
    let idle = views.iter().find(|v| v.title.starts_with("On threads")).expect("the view");
    assert_eq!(idle.rows.iter().map(|r| r[0].as_str()).collect::<Vec<_>>(), ["tqdm/_monitor.py:60 run"]);
}

#[test]
fn rows_can_be_functions_files_and_modules() {
    let by =
        |key| rows(&of(&small(), &with(&[("--by", key)])), ["host_self_ns", "host_total_ns", "gpu_sum_ns"]);
    let functions = by("function");
    assert_eq!(functions["train.py(10): train"], [54, 100, 0]);
    assert_eq!(functions["model.py(3): forward"], [46, 46, 20]);
    let files = by("file");
    assert_eq!((files["train.py"], files["model.py"]), ([54, 100, 0], [46, 46, 20]));
    let modules = by("module");
    assert_eq!((modules["Net_0"], modules["[no module]"]), ([50, 50, 20], [50, 0, 0]));
    assert_eq!(modules["[unlinked]"], [0, 0, 5]);
}

#[test]
fn options_say_what_user_code_is() {
    let all = rows(&of(&small(), &with(&[("--all-frames", "")])), ["host_self_ns"]);
    assert_eq!((all["torch/nn/m.py(5): _call"], all["train.py:12"]), ([2], [2]));
    let model = rows(&of(&small(), &with(&[("--library", "model.*")])), ["host_self_ns"]);
    assert_eq!((model["train.py:12"], model.contains_key("model.py:7")), ([50], false));
    let torch = rows(&of(&small(), &with(&[("--user", "torch/nn/*")])), ["host_self_ns"]);
    assert_eq!(torch["torch/nn/m.py(5): _call"], [2]);
}

#[test]
fn steps_divide_the_rows() {
    let mut t = small();
    t.thread(1).step(3, us(0)..us(40));
    t.thread(1).step(4, us(40)..us(95));
    let mut o = options();
    o.model.steps = Some(hta::trace::rank_trace::StepFilter { labels: vec![(3, 4)], indices: Vec::new() });
    let answer = of(&t, &o);
    let step = |label: i64, name: &str| {
        let found =
            answer.rows_where("lines", |r| r.opt_int("step_label") == Some(label) && place(r) == name);
        found
            .first()
            .map(|r| (r.int("calls"), r.int("host_self_ns"), r.int("host_total_ns"), r.int("gpu_sum_ns")))
    };
    assert_eq!(step(3, "model.py:7"), Some((1, 20_000, 20_000, 20_000)));
    // The call was made in the step before.
    assert_eq!(step(4, "model.py:7"), Some((0, 10_000, 10_000, 0)));
    for place_of in ["train.py(10): train", "train.py:12", "model.py:7", "train.py:14"] {
        let of = |scope: &str| -> i64 {
            let rows = answer.rows_where("lines", |r| r.text("scope") == scope && place(r) == place_of);
            rows.iter().map(|r| r.int("host_self_ns")).sum()
        };
        assert_eq!(of("capture"), of("step") + of("outside"), "{place_of}");
    }
}

#[test]
fn stacks_of_user_code_add_up_to_the_rows() {
    let folded = raw(&of(&small(), &with(&[("--folded", "self")])));
    assert_eq!(
        folded,
        "train.py(10): train 30000\n\
         train.py(10): train;train.py:12 4000\n\
         train.py(10): train;train.py:12;model.py(3): forward 16000\n\
         train.py(10): train;train.py:12;model.py(3): forward;model.py:7 30000\n\
         train.py(10): train;train.py:14 20000\n"
    );
    let gpu = raw(&of(&small(), &with(&[("--folded", "gpu")])));
    let line = "train.py(10): train;train.py:12;model.py(3): forward;model.py:7";
    assert_eq!(gpu, format!("[unlinked];orphan 5000\n{line};[backward];dgemm 14000\n{line};gemm 20000\n"));
}

#[test]
fn stacks_by_module_are_the_tree_of_modules() {
    let folded = |weight| raw(&of(&small(), &with(&[("--by", "module"), ("--folded", weight)])));
    assert_eq!(folded("self"), "Net_0 50000\n[no module] 50000\n");
    assert_eq!(folded("gpu"), "Net_0;[backward];dgemm 14000\nNet_0;gemm 20000\n[unlinked];orphan 5000\n");
}

/// The file that `--speedscope` names.
fn speedscope(answer: &Answer) -> Value {
    let file = answer.outcome.outputs[0].1.files.first().expect("a file");
    assert_eq!(file.path, "out.json");
    serde_json::from_str(&file.text).expect("valid JSON")
}

/// Checks the shape of a speedscope file, and returns the sum of all weights.
pub fn weights(file: &Value) -> i64 {
    assert_eq!(file["$schema"], "https://www.speedscope.app/file-format-schema.json");
    let frames = file["shared"]["frames"].as_array().expect("frames").len() as u64;
    let profiles = file["profiles"].as_array().expect("profiles");
    assert!(file["activeProfileIndex"].as_u64().is_some_and(|i| i == 0 || (i as usize) < profiles.len()));
    let mut sum = 0;
    for p in profiles {
        assert_eq!((p["type"].as_str(), p["unit"].as_str()), (Some("sampled"), Some("nanoseconds")));
        let (samples, weights) =
            (p["samples"].as_array().expect("samples"), p["weights"].as_array().expect("weights"));
        assert_eq!(samples.len(), weights.len());
        for sample in samples {
            let stack = sample.as_array().expect("a stack");
            assert!(!stack.is_empty() && stack.iter().all(|f| f.as_u64().is_some_and(|f| f < frames)));
        }
        let of_profile: i64 = weights.iter().map(|w| w.as_i64().expect("ns")).sum();
        assert_eq!((p["startValue"].as_i64(), p["endValue"].as_i64()), (Some(0), Some(of_profile)));
        sum += of_profile;
    }
    sum
}

#[test]
fn a_speedscope_file_has_a_profile_for_each_thread_and_the_folded_sum() {
    let mut t = small();
    t.thread(9).frame("tqdm/_monitor.py(60): run", us(0)..us(30));
    let answer = of(&t, &with(&[("--speedscope", "out.json"), ("--folded", "self")]));
    let file = speedscope(&answer);
    assert_eq!((weights(&file), sum(&raw(&answer))), (130_000, 130_000));
    let profiles = file["profiles"].as_array().expect("profiles");
    let names: Vec<&str> = profiles.iter().filter_map(|p| p["name"].as_str()).collect();
    assert_eq!(names, ["rank 0, thread 1000/1", "rank 0, thread 1000/9"]);
    let frames = file["shared"]["frames"].as_array().expect("frames");
    let line = frames.iter().find(|f| f["name"] == "model.py:7").expect("a frame");
    assert_eq!((line["file"].as_str(), line["line"].as_i64()), (Some("model.py"), Some(7)));
    let gpu = of(&t, &with(&[("--speedscope", "out.json"), ("--folded", "gpu")]));
    assert_eq!(weights(&speedscope(&gpu)), 39_000);
    // Without --folded the report is printed as usual.
    assert_eq!(of(&t, &with(&[("--speedscope", "out.json")])).outcome.outputs[0].1.raw, None);
}

#[test]
fn source_is_printed_beside_the_numbers() {
    let mut o = options();
    let declared = find("lines").expect("it is registered").about().settings;
    let annotate = declared.iter().find(|s| s.flag == "--annotate").expect("a declared option");
    let text: String = (1..=20).map(|i| format!("line {i}\n")).collect();
    o.settings.set_file(annotate, "src/train.py", text.clone());
    let answer = of(&small(), &o);
    let view = &answer.views()[0];
    let shown = |row: &[String]| (row[0].clone(), row[1].clone(), row[6].clone());
    let found: Vec<_> = view.rows.iter().map(|r| shown(r)).collect();
    let numbers: Vec<&str> = found.iter().map(|f| f.0.as_str()).collect();
    assert_eq!(numbers, ["8", "9", "10", "11", "12", "13", "14", "15", "16"]);
    assert!(found.contains(&("14".to_string(), "20.0 us".to_string(), "line 14".to_string())), "{found:?}");
    assert!(found.contains(&("13".to_string(), "-".to_string(), "line 13".to_string())), "{found:?}");
    o.settings.set_file(annotate, "train.py", "one line\n".to_string());
    let notes = of(&small(), &o).notes("lines").join("\n");
    assert!(notes.contains("lines beyond the end of the file"), "{notes}");
    o.settings.set_file(annotate, "other.py", text);
    let notes = of(&small(), &o).notes("lines").join("\n");
    assert!(notes.contains("no line of other.py is in the recording"), "{notes}");
}

#[test]
fn recordings_without_stacks_say_which_option_to_set() {
    let mut t = TraceBuilder::new();
    t.thread(1).op("aten::mm", us(0)..us(10));
    let answer = of(&t, &options());
    assert_eq!(answer.notes("lines"), ["rank 0: no Python frames: record with with_stack=True"]);
    assert!(answer.rows("lines").is_empty());
    let mut t = TraceBuilder::new();
    let mut main = t.thread(1);
    main.frame("train.py(1): main", us(0)..us(10));
    main.op("aten::mm", us(1)..us(2));
    t.thread(2).op("aten::mm", us(1)..us(2));
    assert_eq!(of(&t, &options()).rows("lines").len(), 1, "half of the operators are enough");
    t.thread(2).op("aten::mm", us(3)..us(4));
    let note =
        "rank 0: fewer than half of the operators are inside Python frames: record with with_stack=True";
    assert_eq!(of(&t, &options()).notes("lines"), [note]);
}

/// The recording of four ranks, of which one sleeps in every forward pass.
#[test]
fn the_line_of_a_straggler_differs_between_the_ranks() {
    let answer = lines(&[shared::samples().join("gloo_ddp4")], &options());
    let spread = answer.rows("line_spread");
    let first = spread.first().expect("a line that differs");
    assert_eq!((place(first).as_str(), first.int("rank")), ("gen_ddp.py:47", 2));
    let slow = answer.rows_where("lines", |r| r.int("rank") == 2 && place(r) == "gen_ddp.py:47");
    assert!(slow[0].int("host_self_ns") >= 180_000_000, "three sleeps of 60 ms");
}

/// A frame or an operator: thread, start, length, what it is, and whether the line of its call is recorded.
type Piece = (i64, i64, i64, u8, bool);

fn trace_of(pieces: &[Piece]) -> TraceBuilder {
    let mut t = TraceBuilder::new();
    t.thread(1).frame("main.py(1): main", us(0)..us(1));
    for (i, (thread, start, len, kind, called)) in pieces.iter().enumerate() {
        let span = us(*start)..us(start + len);
        let mut thread = t.thread(*thread);
        let name = match kind {
            0 => "train.py(10): train",
            1 => "torch/x.py(5): call",
            2 => "<built-in f>",
            3 => "nn.Module: Net_0",
            4 => {
                thread.op("aten::mm", span);
                continue;
            }
            _ => {
                // A stream of its own, because kernels of one stream follow one another.
                thread.launch(span.clone()).kernel("k", 7 + i as i64, span.start..span.end + 500);
                continue;
            }
        };
        let frame = thread.frame(name, span);
        if *called {
            frame.arg("CallFrom", format!("train.py:{}", 10 + i % 3));
        }
    }
    t
}

/// The sums of the rows against those of the trace, for any nesting and overlap of its events.
fn check(pieces: &[Piece]) {
    let t = trace_of(pieces);
    let mut frames: BTreeMap<i64, Vec<Span>> = BTreeMap::from([(1, vec![Span::new(0, 1_000)])]);
    for (thread, start, len, ..) in pieces.iter().filter(|p| p.3 < 4) {
        frames.entry(*thread).or_default().push(Span::new(us(*start), us(start + len)));
    }
    let open: i64 = frames.into_values().map(|spans| Union::new(spans).len()).sum();
    let gpu: i64 = pieces.iter().filter(|p| p.3 > 4).map(|p| us(p.2) + 500).sum();
    for by in ["line", "function", "file", "module"] {
        let answer = of(&t, &with(&[("--by", by), ("--folded", "self"), ("--speedscope", "out.json")]));
        if answer.rows("line_totals").is_empty() {
            // Too few operators in frames.
            assert!(!answer.notes("lines").is_empty());
            return;
        }
        let rows = answer.rows("lines");
        let sum_of = |column: &str| -> i64 { rows.iter().filter_map(|r| r.opt_int(column)).sum() };
        assert_eq!(sum_of("host_self_ns"), open, "by {by}: {pieces:?}");
        assert_eq!(sum_of("gpu_sum_ns") + sum_of("bwd_gpu_sum_ns"), gpu, "by {by}: {pieces:?}");
        for r in &rows {
            let [own, native, python] = ["host_self_ns", "native_ns", "python_ns"].map(|c| r.int(c));
            assert!(own == native + python && native >= 0 && python >= 0, "by {by}: {}", r.0);
        }
        assert_eq!(sum(&raw(&answer)), open, "{pieces:?}");
        assert_eq!(weights(&speedscope(&answer)), open, "{pieces:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn rows_add_up_to_the_open_frames_and_to_the_gpu_work(
        pieces in prop::collection::vec((1i64..3, 0i64..40, 0i64..20, 0u8..6, any::<bool>()), 0..14),
    ) {
        check(&pieces);
    }
}

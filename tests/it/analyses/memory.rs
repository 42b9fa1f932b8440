//! Memory by eye and by brute force: peaks, what holds them, steps that grow, addresses that are used again.

use crate::run::{Answer, Keep, Quiet, Record, one, options};
use hta::analysis::api::Options;
use hta::health::Counter;
use hta::read::discover::discover;
use hta::read::options::LoadOptions;
use hta::registry::find;
use hta::run::{Request, run};
use hta_testkit::{Format, TraceBuilder, us};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The answer of the analysis alone; `None` if no file is a trace.
pub fn memory(paths: &[PathBuf], options: &Options) -> Option<Answer> {
    let analyses = ["memory", "diagnosis"].map(|stem| find(stem).expect("it is registered"));
    let inputs = discover(paths).expect("the files are there");
    let keep = Keep::default();
    let load = LoadOptions::default();
    let request = Request { inputs: &inputs, analyses: &analyses, options, load, ranks: &[] };
    let outcome = run(&request, &keep, &Quiet).ok()?;
    Some(Answer::of(outcome, keep, options))
}

fn of(t: &TraceBuilder) -> Answer {
    of_with(t, &options())
}

fn of_with(t: &TraceBuilder, options: &Options) -> Answer {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("rank_0.json");
    std::fs::write(&path, t.to_bytes(&Format::default())).expect("a temporary file can be written");
    memory(&[path], options).expect("a good trace")
}

/// Key, count and bytes of the rows of one moment.
pub fn content(answer: &Answer, at: &str, kind: &str) -> Vec<(String, Option<i64>, i64)> {
    let rows = answer.rows_where("memory_content", |r| r.text("moment") == at && r.text("key_kind") == kind);
    rows.iter().map(|r| (r.text("key").to_string(), r.opt_int("count"), r.int("bytes"))).collect()
}

/// What is said of leaks.
pub fn sentences(answer: &Answer) -> Vec<String> {
    let found = answer.rows_where("findings", |r| r.text("kind") == "memory_leak");
    found.iter().map(|r| r.text("sentence").to_string()).collect()
}

/// A device of a rank.
type Place = (i64, String, Option<i64>);

fn place(r: &Record) -> Place {
    (r.int("rank"), r.text("device_type").to_string(), r.opt_int("device"))
}

/// What holds for every trace: levels are the running sum (unless totals jump), contents add up to the level, own
/// figures of operators to those of all records, and allocations to the records.
pub fn check(what: &str, answer: &Answer) {
    let mut curves: BTreeMap<Place, Vec<Record>> = BTreeMap::new();
    for r in answer.rows("memory_curve") {
        curves.entry(place(&r)).or_default().push(r);
    }
    for (place_of, curve) in &curves {
        let peaks = answer.rows_where("memory_peaks", |r| place(r) == *place_of);
        let capture = one(peaks.iter().filter(|r| r.text("scope") == "capture").cloned().collect());
        let base = capture.opt_int("base_bytes").unwrap_or(0);
        let mut level = base;
        for (i, r) in curve.iter().enumerate() {
            level += r.int("delta_bytes");
            assert_eq!((r.int("seq"), r.int("allocated_bytes")), (i as i64, level), "{what}: {}", r.0);
        }
        let most = curve.iter().map(|r| r.int("allocated_bytes")).max().unwrap_or(0);
        assert_eq!(capture.int("peak_bytes"), most, "{what}");
        let first = curve.iter().position(|r| r.int("allocated_bytes") == most).map(|i| i as i64);
        assert_eq!(Some(capture.int("seq")), first, "{what}");
        let of_content = answer.rows_where("memory_content", |r| place(r) == *place_of);
        let mut sums: BTreeMap<(String, Option<i64>, String), i64> = BTreeMap::new();
        for r in &of_content {
            let key = (r.text("moment").to_string(), r.opt_int("step"), r.text("key_kind").to_string());
            *sums.entry(key).or_default() += r.int("bytes");
        }
        for ((at, step, kind), sum) in sums {
            let want = match at.as_str() {
                "end" => level,
                "peak" => most,
                _ => one(peaks
                    .iter()
                    .filter(|r| r.text("scope") == "step" && r.opt_int("step") == step)
                    .cloned()
                    .collect())
                .int("peak_bytes"),
            };
            assert_eq!(sum, want, "{what}: {at} {step:?} by {kind}");
        }
        let operators = answer.rows_where("memory_operators", |r| place(r) == *place_of);
        let total = |column: &str| operators.iter().map(|r| r.int(column)).sum::<i64>();
        let allocated: Vec<i64> = curve.iter().map(|r| r.int("delta_bytes")).filter(|b| *b > 0).collect();
        assert_eq!(total("net_self_bytes"), level - base, "{what}");
        assert_eq!(total("alloc_self_bytes"), allocated.iter().sum::<i64>(), "{what}");
        assert_eq!(total("alloc_self_count"), allocated.len() as i64, "{what}");
        for r in &operators {
            assert!(r.int("alloc_bytes") >= r.int("alloc_self_bytes"), "{what}: {}", r.0);
        }
        let allocations = answer.rows_where("memory_allocations", |r| place(r) == *place_of);
        if !allocations.is_empty() {
            let opened = allocations.iter().filter(|r| r.opt_int("seq").is_some());
            assert_eq!(opened.count(), allocated.len(), "{what}");
            let freed = allocations.iter().filter(|r| r.opt_int("free_seq").is_some()).count();
            assert_eq!(freed, curve.len() - allocated.len(), "{what}");
        }
        for r in answer.rows_where("memory_steps", |r| place(r) == *place_of) {
            assert_eq!(r.int("net_bytes"), r.int("end_bytes") - r.int("start_bytes"), "{what}");
            assert!(
                r.int("min_bytes") <= r.int("start_bytes") && r.int("start_bytes") <= r.int("max_bytes"),
                "{what}"
            );
        }
    }
}

/// ```text
/// us        0    10   20   30   40   50   60
/// step      [ProfilerStep#1....................)
/// frame     [train.py(3): step.................)
/// ops         [conv.....)   [mm.....)
///               [empty)
/// record  before -256 +1024      +4096 -1024  +64
/// level   768     512   1536     5632   4608  4672
/// ```
fn one_step() -> TraceBuilder {
    let mut t = TraceBuilder::new().rank(0).device("NVIDIA H100", 132);
    let mut main = t.thread(1000);
    main.step(1, us(0)..us(60));
    main.frame("train.py(3): step", us(0)..us(60)).called_from("train.py:9");
    main.op("aten::conv2d", us(5)..us(25));
    main.op("aten::empty", us(10)..us(20));
    main.op("aten::mm", us(30)..us(40));
    main.memory(us(2), 7, -256, 512).on_device(0, 8192);
    // Out of order in the file.
    main.memory(us(35), 9, 4096, 5632).on_device(0, 8192);
    main.memory(us(12), 8, 1024, 1536).on_device(0, 8192);
    main.memory(us(45), 8, -1024, 4608).on_device(0, 8192);
    main.memory(us(50), 8, 64, 4672).on_device(0, 8192);
    main.launch(us(32)..us(34)).kernel("gemm", 7, us(36)..us(50));
    t
}

/// The options of the analysis.
pub fn with(given: &[(&str, &str)]) -> Options {
    let mut options = options();
    for (flag, text) in given {
        let settings = find("memory").expect("it is registered").about().settings;
        let setting = settings.iter().find(|s| s.flag == *flag).expect("a known option");
        options.settings.set(setting, text).expect("a good value");
    }
    options
}

#[test]
fn folded_stacks_add_up_to_the_level_and_to_what_is_allocated() {
    let folded = |what: &str| {
        let answer = of_with(&one_step(), &with(&[("--folded", what)]));
        answer.outcome.outputs[0].1.raw.clone().expect("folded stacks")
    };
    let step = "cuda:0;train.py(3): step";
    assert_eq!(
        folded("peak"),
        format!("cuda:0;[before window] 512\n{step};aten::conv2d;aten::empty 1024\n{step};aten::mm 4096\n")
    );
    assert_eq!(folded("end"), format!("cuda:0;[before window] 512\n{step} 64\n{step};aten::mm 4096\n"));
    assert_eq!(
        folded("alloc"),
        format!("{step} 64\n{step};aten::conv2d;aten::empty 1024\n{step};aten::mm 4096\n")
    );
    let answer = of_with(&one_step(), &with(&[("--speedscope", "peak.json")]));
    let file = &answer.outcome.outputs[0].1.files[0];
    let json: serde_json::Value = serde_json::from_str(&file.text).expect("JSON");
    let profile = &json["profiles"][0];
    assert_eq!(
        (file.path.as_str(), &profile["unit"], &profile["endValue"]),
        ("peak.json", &"bytes".into(), &5632.into())
    );
    assert_eq!(profile["name"], "rank 0, device cuda:0");
    let weights =
        profile["weights"].as_array().expect("weights").iter().filter_map(serde_json::Value::as_i64);
    assert_eq!(weights.sum::<i64>(), 5632);
}

#[test]
fn the_content_is_listed_at_the_moment_that_is_asked_for() {
    let rows_and_notes = |given: &[(&str, &str)]| {
        let answer = of_with(&one_step(), &with(given));
        let views = answer.views();
        let view = views.iter().find(|v| v.title == "What holds memory").expect("the content");
        let rows: Vec<String> = view.rows.iter().map(|r| format!("{} {}", r[1], r[3])).collect();
        (rows, view.notes.clone())
    };
    let (rows, notes) = rows_and_notes(&[("--at", "step:1")]);
    assert_eq!(notes[0], "at the peak of step 1, by op");
    assert_eq!(rows.len(), 3);
    let (rows, notes) = rows_and_notes(&[("--at", "entry:1")]);
    assert_eq!(notes[0], "after entry 1, by op");
    assert_eq!(rows, ["aten::conv2d (aten::empty) 1.02 kB", "[before window] 512 B"]);
    // The same bytes are told as a sum if they are below the least.
    let (rows, notes) = rows_and_notes(&[("--min-bytes", "1000")]);
    assert_eq!(rows, ["aten::mm 4.10 kB", "aten::conv2d (aten::empty) 1.02 kB"]);
    assert_eq!(notes, ["at the peak, by op", "below --min-bytes: 1 holder with 512 B"]);
}

#[test]
fn the_peak_is_held_by_what_is_alive_and_the_rest_is_from_before() {
    let answer = of(&one_step());
    check("planted", &answer);
    let peak = one(answer.rows_where("memory_peaks", |r| r.text("scope") == "capture"));
    let found =
        ["peak_bytes", "base_bytes", "reserved_bytes", "seq", "known_count", "known_bytes", "before_bytes"];
    assert_eq!(found.map(|c| peak.int(c)), [5632, 768, 8192, 2, 2, 5120, 512]);
    assert_eq!((peak.int("unused_max_bytes"), peak.int("in_step_ns")), (8192 - 512, us(35)));
    assert_eq!([peak.text("trigger_op"), peak.text("phase")], ["aten::mm", "forward"]);
    assert_eq!(peak.text("trigger_site"), "train.py(3): step");
    let held = |at, kind| content(&answer, at, kind);
    let row = |key: &str, count, bytes| (key.to_string(), count, bytes);
    assert_eq!(
        held("peak", "op"),
        [
            row("aten::mm", Some(1), 4096),
            row("aten::conv2d (aten::empty)", Some(1), 1024),
            row("[before window]", None, 512)
        ]
    );
    assert_eq!(
        held("end", "op"),
        [
            row("aten::mm", Some(1), 4096),
            row("[before window]", None, 512),
            row("[no operator]", Some(1), 64)
        ]
    );
    assert_eq!(
        held("peak", "line"),
        [row("train.py(3): step", Some(2), 5120), row("[before window]", None, 512)]
    );
    assert_eq!(held("peak", "module"), []);
    let ended: Vec<(Option<i64>, Option<i64>, String)> = answer
        .rows("memory_allocations")
        .iter()
        .map(|r| (r.opt_int("seq"), r.opt_int("lifetime_ns"), r.text("ended").to_string()))
        .collect();
    let want = [
        (None, None, "before"),
        (Some(1), Some(us(33)), "freed"),
        (Some(2), None, "live"),
        (Some(4), None, "live"),
    ];
    assert_eq!(ended, want.map(|(seq, ns, end)| (seq, ns, end.to_string())));
}

/// An operator that runs inside one of its own name counts once in the totals.
#[test]
fn nested_calls_of_one_name_count_once() {
    let mut t = TraceBuilder::new().rank(0);
    let mut main = t.thread(1000);
    main.op("aten::div", us(0)..us(40));
    main.op("aten::div", us(5)..us(35));
    main.op("aten::empty", us(10)..us(20));
    main.memory(us(12), 8, 1024, 1024);
    main.memory(us(30), 9, 8, 1032);
    main.memory(us(38), 8, -1024, 8);
    let answer = of(&t);
    check("nested", &answer);
    let div = one(answer.rows_where("memory_operators", |r| r.text("name") == "aten::div"));
    let columns = ["count", "net_bytes", "alloc_bytes", "alloc_count", "net_self_bytes", "alloc_self_bytes"];
    assert_eq!(columns.map(|c| div.int(c)), [2, 8, 1032, 2, 8 - 1024, 8]);
}

/// Steps of 100 us; in each one block stays and another one is freed. `leaked`: bytes that stay, by step.
fn training(leaked: &[i64]) -> TraceBuilder {
    let mut t = TraceBuilder::new().rank(0).device("NVIDIA H100", 132);
    let mut main = t.thread(1000);
    let mut level = 1 << 20;
    for (i, stays) in leaked.iter().enumerate() {
        let at = us(100 * i as i64);
        main.step(i as u64, at..at + us(100));
        main.frame("train.py(3): train", at..at + us(100));
        main.frame("<built-in method append of list object at 0x7f>", at + us(5)..at + us(30))
            .called_from("train.py:12");
        main.op("aten::clone", at + us(10)..at + us(20));
        main.op("aten::mm", at + us(50)..at + us(70));
        level += stays;
        if *stays > 0 {
            main.memory(at + us(15), 1000 + i as u64, *stays, level).on_device(0, 1 << 33);
        }
        level += 4 << 20;
        main.memory(at + us(55), 7, 4 << 20, level).on_device(0, 1 << 33);
        level -= 4 << 20;
        main.memory(at + us(80), 7, -(4 << 20), level).on_device(0, 1 << 33);
        main.launch(at + us(60)..at + us(62)).kernel("gemm", 7, at + us(65)..at + us(90));
    }
    t
}

#[test]
fn the_verdict_tells_a_leak() {
    let sentences = |leaked: &[i64]| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("rank_0.json");
        std::fs::write(&path, training(leaked).to_bytes(&Format::default()))
            .expect("a temporary file can be written");
        let answer = crate::run::answer(&[path], &options());
        let told = answer.outcome.outputs.iter().find_map(|(_, o)| o.verdict.clone()).expect("a verdict");
        told.causes.into_iter().filter(|c| c.kind == "memory_leak").map(|c| c.sentence).collect::<Vec<_>>()
    };
    let told = sentences(&[9 << 20, 2 << 20, 3 << 20, 2 << 20, 2 << 20]);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("rank 0") && told[0].contains("`train.py:12`: 4.19 MB a step"), "{}", told[0]);
    assert_eq!(sentences(&[9 << 20, 0, 0, 0, 0]), [""; 0]);
}

#[test]
fn a_leak_is_told_with_its_line_and_a_first_step_that_grows_is_none() {
    let answer = of(&training(&[9 << 20, 2 << 20, 3 << 20, 2 << 20, 2 << 20]));
    check("leak", &answer);
    let told: Vec<String> = sentences(&answer).into_iter().filter(|s| s.contains("grows")).collect();
    assert_eq!(told.len(), 1, "{:?}", sentences(&answer));
    assert!(told[0].contains("each of the last 4 full steps, by 2.10 MB in the median one"), "{}", told[0]);
    assert!(told[0].contains("`train.py:12`: 4.19 MB a step"), "{}", told[0]);
    assert!(told[0].contains("the device is full in about"), "{}", told[0]);
    let net: Vec<i64> = answer.rows("memory_steps").iter().map(|r| r.int("net_bytes") >> 20).collect();
    assert_eq!(net, [9, 2, 3, 2, 2]);
    let survivors: Vec<_> = answer.rows("memory_steps").iter().map(|r| r.opt_int("survivor_bytes")).collect();
    assert_eq!(survivors, [Some(9 << 20), Some(2 << 20), Some(3 << 20), Some(2 << 20), None]);
    let line = one(answer.rows_where("memory_leaks", |r| r.text("key_kind") == "line"));
    assert_eq!([line.int("groups"), line.int("count"), line.int("bytes")], [4, 4, 16 << 20]);
    assert_eq!(line.cell("is_recurring"), true);

    for silent in [
        // Only the first step, only two steps, one that shrinks at the end, less than 1 MiB.
        &[9 << 20, 0, 0, 0, 0][..],
        &[9 << 20, 2 << 20, 2 << 20],
        &[0, 2 << 20, 2 << 20, 2 << 20, 0],
        &[0, 1 << 20, 1 << 20, 1 << 20, 1 << 20],
    ] {
        let answer = of(&training(silent));
        check("no leak", &answer);
        assert!(
            !sentences(&answer).iter().any(|s| s.contains("grows")),
            "{silent:?}: {:?}",
            sentences(&answer)
        );
    }
}

/// Backward operators have the line and the module of their forward operators, and phases are told by annotations first.
#[test]
fn backward_is_charged_to_the_forward_line_and_annotations_tell_the_phase() {
    let mut t = TraceBuilder::new().rank(0);
    let mut main = t.thread(1000);
    main.frame("train.py(3): train", us(0)..us(100));
    main.frame("nn.Module: Linear_0", us(1)..us(20)).called_from("train.py:5");
    main.op("aten::linear", us(2)..us(18)).sequence(4, 0);
    main.memory(us(10), 1, 100, 100);
    main.data_loader(us(22)..us(28));
    main.op("aten::stack", us(23)..us(27));
    main.memory(us(24), 2, 10, 110);
    main.annotation("Optimizer.zero_grad#SGD.zero_grad", us(30)..us(40));
    main.memory(us(32), 3, 1, 111);
    main.annotation("Optimizer.step#SGD.step", us(50)..us(60));
    main.op("aten::add_", us(51)..us(59));
    main.memory(us(52), 4, 2, 113);
    main.memory(us(95), 5, 4, 117);
    let mut autograd = t.thread(2000);
    autograd.op("autograd::engine::evaluate_function: AddmmBackward0", us(41)..us(49)).sequence(4, 1);
    autograd.op("AddmmBackward0", us(42)..us(48)).sequence(4, 1);
    autograd.op("aten::mm", us(43)..us(47));
    autograd.memory(us(44), 6, 1000, 1111);
    let answer = of(&t);
    let rows = answer.rows("memory_allocations");
    let found: Vec<(i64, &str, &str, &str)> =
        rows.iter().map(|r| (r.int("bytes"), r.text("phase"), r.text("site"), r.text("module"))).collect();
    let function = "train.py(3): train";
    assert_eq!(
        found,
        [
            (100, "forward", "train.py:5", "Linear_0"),
            (10, "data", function, ""),
            (1, "zero_grad", function, ""),
            (1000, "backward", "train.py:5", "Linear_0"),
            (2, "optimizer", function, ""),
            (4, "outside", function, "")
        ]
    );
}

#[test]
fn what_contradicts_itself_is_counted() {
    let mut t = TraceBuilder::new().rank(0);
    let mut main = t.thread(1000);
    main.op("aten::mm", us(0)..us(50));
    main.memory(us(1), 7, 100, 100);
    main.memory(us(2), 7, 50, 150);
    main.memory(us(3), 7, -60, 90);
    main.memory(us(4), 9, 8, 500);
    main.memory(us(5), 9, 0, 500);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("rank_0.json");
    std::fs::write(&path, t.to_bytes(&Format::default())).expect("a temporary file can be written");
    let trace = crate::run::rank_trace(&path, 0);
    let counted = [
        Counter::MemoryAllocOverLive,
        Counter::MemorySizeMismatch,
        Counter::MemoryTotalJump,
        Counter::MemoryZeroBytes,
        Counter::MemoryWithoutBytes,
    ];
    assert_eq!(counted.map(|c| trace.health.count(c)), [1, 1, 1, 1, 0]);
    let answer = memory(&[path], &options()).expect("a good trace");
    let levels: Vec<i64> = answer.rows("memory_curve").iter().map(|r| r.int("allocated_bytes")).collect();
    assert_eq!(levels, [100, 150, 90, 500]);
    let ended: Vec<String> =
        answer.rows("memory_allocations").iter().map(|r| r.text("ended").to_string()).collect();
    assert_eq!(ended, ["unknown", "freed", "live"]);
}

#[test]
fn a_trace_without_records_says_how_to_record_them() {
    let mut t = TraceBuilder::new().rank(0);
    t.thread(1000).op("aten::mm", us(0)..us(50));
    let answer = of(&t);
    assert!(answer.rows("memory_peaks").is_empty());
    assert!(
        answer.notes("memory").iter().any(|n| n.contains("profile_memory=True")),
        "{:?}",
        answer.notes("memory")
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// Random allocations and frees on two threads, in random places of steps and operators.
    #[test]
    fn random_records_keep_all_sums(
        records in prop::collection::vec((0i64..400, 0u64..6, 1i64..5000, any::<bool>(), 0i64..2), 1..40),
        base in 0i64..3 * 5000,
    ) {
        let mut t = TraceBuilder::new().rank(0).device("NVIDIA H100", 132);
        let mut main = t.thread(1000);
        for step in 0..3 {
            main.step(step, us(100 * step as i64)..us(100 * step as i64 + 90));
            main.frame("train.py(3): f", us(100 * step as i64)..us(100 * step as i64 + 80));
            main.op("aten::a", us(100 * step as i64 + 10)..us(100 * step as i64 + 70));
            main.op("aten::empty", us(100 * step as i64 + 20)..us(100 * step as i64 + 40));
        }
        let mut records = records;
        records.sort_by_key(|r| r.0);
        // Levels by device; at equal times the order of the file counts.
        let mut levels = [base; 2];
        for (at, address, bytes, is_free, device) in records {
            let bytes = if is_free { -bytes } else { bytes };
            levels[device as usize] += bytes;
            main.memory(us(at), address, bytes, levels[device as usize]).on_device(device, 1 << 20);
        }
        let answer = of(&t);
        check("random", &answer);
    }
}

//! Takes one thing away from a recording that is good, and asks for the verdict again. It may get weaker, say less or
//! refuse; it must not become another one that is sure. What is taken away: the device rows of a rank, the rows of a
//! stream, every second kernel, the agreement of device clock and host clock, the beginning, a rank.

use crate::run::{Quiet, Record, options, rows_of};
use crate::shared;
use flate2::read::GzDecoder;
use hta::read::discover::discover;
use hta::read::options::LoadOptions;
use hta::registry::find;
use hta::run::{Request, RowSink, run};
use hta::table::schema::Batch;
use hta::trace::rank_trace::RankTrace;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Files above this size are left out of a set's test, bytes: what is found on them is found on smaller ones.
const MOST_BYTES: u64 = 3_000_000;
/// Largest number of files of a set: those of more ranks are alike.
const MOST_FILES: usize = 16;
/// Shift of the device's clock, us.
const CLOCK_SHIFT: f64 = -400.0;

/// Drops rows with events; the diagnosis alone is asked for.
struct NoRows;

impl RowSink for NoRows {
    fn rows(&self, _: Batch) -> std::io::Result<()> {
        Ok(())
    }

    fn trace(&self, _: &RankTrace) -> std::io::Result<()> {
        Ok(())
    }

    fn void(&self) -> std::io::Result<()> {
        Ok(())
    }
}

/// What a diagnosis says of a set: kind and key of every cause in its table, and those of the causes that it shows as
/// sure, with their sentences.
struct Said {
    known: BTreeSet<(String, String)>,
    sure: BTreeMap<(String, String), String>,
}

impl Said {
    /// `None` if the files are refused.
    fn of(paths: &[PathBuf]) -> Option<Self> {
        let inputs = discover(paths).ok()?;
        let options = options();
        let request = Request {
            inputs: &inputs,
            analyses: &[find("diagnosis")?],
            options: &options,
            load: LoadOptions { event_args: false, ..LoadOptions::default() },
            ranks: &[],
        };
        let outcome = run(&request, &NoRows, &Quiet).ok()?;
        let (_, output) = outcome.outputs.first()?;
        let findings: Vec<Record> =
            output.tables.iter().filter(|t| t.spec.name == "findings").flat_map(rows_of).collect();
        let name = |r: &Record| (r.text("kind").to_string(), r.text("key").to_string());
        let verdict = output.verdict.as_ref()?;
        let mut sure = BTreeMap::new();
        for cause in verdict.causes.iter().filter(|c| c.certainty == "sure" && c.reason.is_none()) {
            let row = findings.iter().find(|r| r.text("finding_id") == cause.finding_id);
            let row = row.unwrap_or_else(|| panic!("`{}` is not in findings", cause.finding_id));
            sure.insert(name(row), cause.sentence.clone());
        }
        Some(Self { known: findings.iter().map(name).collect(), sure })
    }
}

/// A set of files as JSON.
type Set = Vec<Value>;

pub fn read(path: &Path) -> Option<Value> {
    let bytes = std::fs::read(path).ok()?;
    let mut text = Vec::new();
    match bytes.starts_with(&[0x1f, 0x8b]) {
        true => GzDecoder::new(bytes.as_slice()).read_to_end(&mut text).ok()?,
        false => bytes.as_slice().read_to_end(&mut text).ok()?,
    };
    serde_json::from_slice(&text).ok()
}

fn events(file: &mut Value) -> Option<&mut Vec<Value>> {
    match file {
        Value::Array(all) => Some(all),
        file => file.get_mut("traceEvents")?.as_array_mut(),
    }
}

fn is_device_row(event: &Value) -> bool {
    let category = event.get("cat").and_then(Value::as_str).unwrap_or_default().to_ascii_lowercase();
    matches!(category.as_str(), "kernel" | "gpu_memcpy" | "gpu_memset")
}

fn stream(event: &Value) -> Option<i64> {
    event.get("args")?.get("stream")?.as_i64()
}

fn number(event: &Value, field: &str) -> Option<f64> {
    event.get(field).and_then(Value::as_f64)
}

/// Keeps the events for which `keep` is true.
fn retain(file: &mut Value, keep: impl FnMut(&Value) -> bool) {
    if let Some(all) = events(file) {
        all.retain(keep);
    }
}

/// The stream of a file with most device time.
fn busiest_stream(file: &mut Value) -> Option<i64> {
    let mut sums: BTreeMap<i64, f64> = BTreeMap::new();
    for event in events(file)?.iter().filter(|e| is_device_row(e)) {
        *sums.entry(stream(event)?).or_default() += number(event, "dur").unwrap_or_default();
    }
    (sums.len() > 1).then(|| sums.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).map(|(s, _)| s))?
}

/// What is taken away, and how; `None` where the set has nothing of it.
type Taken = (&'static str, fn(&mut Set) -> Option<()>);

const TAKEN: [Taken; 6] = [
    ("the device rows of the last rank", |set| {
        retain(set.last_mut()?, |e| !is_device_row(e));
        Some(())
    }),
    ("the busiest stream of the last rank", |set| {
        let busiest = busiest_stream(set.last_mut()?)?;
        retain(set.last_mut()?, |e| !is_device_row(e) || stream(e) != Some(busiest));
        Some(())
    }),
    ("every second kernel", |set| {
        for file in set {
            let mut kernels = 0;
            retain(file, |e| {
                kernels += u32::from(is_device_row(e));
                !is_device_row(e) || kernels % 2 == 0
            });
        }
        Some(())
    }),
    ("the device clock", |set| {
        for event in set.iter_mut().filter_map(events).flatten().filter(|e| is_device_row(e)) {
            let moved = number(event, "ts")? + CLOCK_SHIFT;
            event.as_object_mut()?.insert("ts".to_string(), moved.into());
        }
        Some(())
    }),
    ("the first third", |set| {
        let spans = set.iter_mut().filter_map(|file| {
            let starts = events(file)?.iter().filter(|e| e.get("ph").and_then(Value::as_str) == Some("X"));
            let starts: Vec<f64> = starts.filter_map(|e| number(e, "ts")).collect();
            Some((
                starts.iter().copied().min_by(f64::total_cmp)?,
                starts.iter().copied().max_by(f64::total_cmp)?,
            ))
        });
        let (first, last) = spans.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))?;
        let cut = first + (last - first) / 3.0;
        for file in set {
            retain(file, |e| number(e, "ts").is_none_or(|ts| ts == 0.0 || ts >= cut));
        }
        Some(())
    }),
    ("the last rank", |set| {
        set.pop()?;
        (!set.is_empty()).then_some(())
    }),
];

fn write(set: &Set, folder: &Path) -> Vec<PathBuf> {
    let name = |i: usize| folder.join(format!("rank_{i}.json"));
    for (i, file) in set.iter().enumerate() {
        std::fs::write(name(i), file.to_string()).expect("a file can be written");
    }
    (0..set.len()).map(name).collect()
}

/// What becomes different and sure when something is taken away from a set.
fn mistakes(what: &str, files: &[PathBuf]) -> Vec<String> {
    let Some(set) = files.iter().map(|f| read(f)).collect::<Option<Set>>() else { return Vec::new() };
    let whole = tempfile::tempdir().expect("a temporary folder");
    let Some(before) = Said::of(&write(&set, whole.path())) else { return Vec::new() };
    let mut wrong = Vec::new();
    for (name, take) in TAKEN {
        let mut less = set.clone();
        if take(&mut less).is_none() || less == set {
            continue;
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        let Some(after) = Said::of(&write(&less, folder.path())) else { continue };
        let new = after.sure.iter().filter(|(cause, _)| !before.known.contains(*cause));
        wrong.extend(new.map(|((kind, key), text)| format!("{what} without {name}: {kind} `{key}`: {text}")));
    }
    wrong
}

/// The sets at and below a folder: each of its folders with several files that look like ranks, else each file.
pub fn sets(root: &Path) -> Vec<(String, Vec<PathBuf>)> {
    let mut out = Vec::new();
    for folder in shared::folders_below(root) {
        let Ok(all) = std::fs::read_dir(&folder) else { continue };
        let is_small = |p: &PathBuf| p.metadata().is_ok_and(|m| m.is_file() && m.len() <= MOST_BYTES);
        let mut files: Vec<PathBuf> = all.filter_map(|e| Some(e.ok()?.path())).filter(is_small).collect();
        files.retain(|p| shared::looks_like_a_trace(p) && !p.to_string_lossy().contains("truth"));
        files.sort();
        let name = |p: &Path| p.strip_prefix(root).unwrap_or(p).display().to_string();
        let is_rank = |p: &PathBuf| p.file_name().is_some_and(|n| n.to_string_lossy().contains("rank"));
        match files.len() > 1 && files.len() <= MOST_FILES && files.iter().all(is_rank) {
            true => out.push((name(&folder), files)),
            false => out.extend(files.into_iter().map(|f| (name(&f), vec![f]))),
        }
    }
    out
}

/// Verdicts that are other ones only by their words: the set, and how the new cause begins.
const SAME: [(&str, &str, &str); 4] = [
    (
        "gloo_ddp4",
        "host_python `gen_ddp.py(42): forward`",
        "the code that the whole set names in the late rank's sentence",
    ),
    ("serving/rank_0.json.gz without the first third", "graph_preparation", "the other iterations are gone"),
    (
        "timesformer-base-finetuned-k400__1016002.json.gz without the first third",
        "copy_pageable",
        "the idle head is gone",
    ),
    (
        "graph_capture_rank_0.json.gz without the first third",
        "memory_full",
        "it is as full with the whole file",
    ),
];

pub fn check(root: &Path) {
    let mut wrong: Vec<String> = sets(root).iter().flat_map(|(name, files)| mistakes(name, files)).collect();
    wrong
        .retain(|w| !SAME.iter().any(|(set, cause, _)| w.contains(set) && w.contains(&format!(": {cause}"))));
    assert!(wrong.is_empty(), "{} verdicts became different and sure:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_sample_with_less_recorded_gets_no_other_sure_verdict() {
    check(&shared::samples());
}

#[test]
fn a_recorded_cause_with_less_recorded_gets_no_other_sure_verdict() {
    check(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/causes"));
}

#[test]
fn device_rows_are_known_by_their_category() {
    let row = |category: &str| Value::Object(Map::from_iter([("cat".to_string(), category.into())]));
    assert!(
        is_device_row(&row("kernel")) && is_device_row(&row("Kernel")) && is_device_row(&row("gpu_memcpy"))
    );
    assert!(!is_device_row(&row("cpu_op")) && !is_device_row(&Value::Null));
}

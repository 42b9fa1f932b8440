//! Perfetto traces of torch 2.14 and 2.15: every known answer of the seven converted ones, and torch's own beside the
//! JSON that it wrote of the same events.

use crate::run::{answer, options, rows_of};
use crate::shared;
use hta::output::events::rows as events_table;
use hta::output::json::cell;
use hta::read::discover::discover;
use hta::read::load::load;
use hta::read::options::LoadOptions;
use hta::read::reading::Spread;
use hta::read::source::ByteCount;
use hta::trace::args::Arg;
use hta::trace::rank_trace::{ModelOptions, RankTrace};
use hta::trace::strings::StrId;
use hta_base::health::Counter;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};

/// An event as the known answers have it.
#[derive(Debug, Clone, PartialEq)]
struct KnownRow {
    process: String,
    category: String,
    name: String,
    start: i64,
    end: i64,
    place: String,
    is_gpu: bool,
    is_linked: bool,
    graph: Option<u64>,
    node: Option<u64>,
    annotation: Option<String>,
}

/// The cells of an event, by column.
type EventCells = BTreeMap<String, Value>;

/// A file, run by run.
struct KnownFile {
    rows: Vec<KnownRow>,
    /// Rows that the converter made, which are not read.
    added: u64,
    instants: u64,
    /// Device, name, values.
    samples: BTreeMap<(String, String), Vec<f64>>,
}

impl KnownFile {
    /// The rows of a process; a file of one run is not told apart.
    fn of(&self, process: &str) -> Vec<&KnownRow> {
        let is_alone = self.rows.iter().all(|r| r.process == "*");
        self.rows.iter().filter(|r| process == "*" || is_alone || r.process == process).collect()
    }
}

fn traces(path: &Path) -> Vec<RankTrace> {
    let inputs = discover(&[path]).unwrap_or_else(|e| panic!("{e}"));
    let read = |input: &hta::read::input::Input| {
        let options = LoadOptions { event_args: true, rest_args: true, ..LoadOptions::default() };
        let loaded =
            load(input, options, Spread::Inline, &ByteCount::default()).unwrap_or_else(|e| panic!("{e}"));
        let source = hta::trace::meta::RankSource::Process;
        loaded.into_trace(0, source, input.shown.clone(), &ModelOptions::default())
    };
    inputs.iter().map(read).collect()
}

fn rows(trace: &RankTrace, process: &str) -> Vec<KnownRow> {
    let c = &trace.columns;
    let linked: BTreeSet<u32> =
        trace.activities.iter().filter(|a| a.launch().is_some()).map(|a| a.row).collect();
    let text = |arg: Arg, row: u32| c.args.text(arg, row).map(|id| c.strings.get(id).to_string());
    let row = |at: usize| {
        let row = at as u32;
        KnownRow {
            process: process.to_string(),
            category: c.strings.get(c.categories[usize::from(c.cat[at])].text).to_string(),
            name: c.strings.get(StrId(c.name[at])).to_string(),
            start: c.ts[at],
            end: c.ts[at] + c.dur[at],
            place: format!(
                "{}:{}",
                c.args.int(Arg::Device, row).unwrap_or(-1),
                c.args.int(Arg::Stream, row).unwrap_or(-1)
            ),
            is_gpu: trace.classes[at].is_gpu(),
            is_linked: linked.contains(&row),
            graph: c.args.uint(Arg::GraphId, row),
            node: c.args.uint(Arg::GraphNodeId, row),
            annotation: text(Arg::GraphAnnotation, row),
        }
    };
    (0..c.len()).map(row).collect()
}

fn known_file(path: &Path) -> KnownFile {
    let mut found = KnownFile { rows: Vec::new(), added: 0, instants: 0, samples: BTreeMap::new() };
    for trace in traces(path) {
        let process = trace.file.rsplit_once(" (").map_or("*", |(_, name)| name.trim_end_matches(')'));
        found.rows.extend(rows(&trace, process));
        found.added += trace.health.count(Counter::ConverterRows);
        found.instants += trace.columns.phases.get(&b'i').copied().unwrap_or(0);
        for sample in &trace.columns.counter_samples {
            let name = trace.columns.strings.get(sample.counter).to_string();
            let process = format!("GPU {} Counters", sample.device);
            found.samples.entry((process, name)).or_default().push(sample.value);
        }
    }
    found
}

/// The length of the union of spans.
fn union(rows: &[&KnownRow]) -> i64 {
    let mut spans: Vec<(i64, i64)> = rows.iter().map(|r| (r.start, r.end)).collect();
    spans.sort_unstable();
    let mut until = i64::MIN;
    let of = |(start, end): (i64, i64)| {
        let new = (end - start.max(until)).max(0);
        until = until.max(end);
        new
    };
    spans.into_iter().map(of).sum()
}

/// Number and total length of rows.
fn sums<'a>(rows: impl Iterator<Item = &'a KnownRow>) -> (i64, i64) {
    rows.fold((0, 0), |(count, sum), row| (count + 1, sum + row.end - row.start))
}

/// The name that a list of annotations has in the table: `[{"name": "loss", "autograd_phase": "backward"}]`.
fn annotation(list: &str) -> String {
    let parts: Value = serde_json::from_str(list).expect("a list of annotations");
    let name = parts[0]["name"].as_str().expect("a name");
    let is_backward = parts[0]["autograd_phase"] == "backward" && name != "backward";
    if is_backward { format!("{name} backward") } else { name.to_string() }
}

/// Number of packets, and of those that describe a track.
fn packets(bytes: &[u8]) -> (i64, i64) {
    let varint = |at: &mut usize| {
        let (mut value, mut shift) = (0u64, 0);
        loop {
            let byte = bytes[*at];
            *at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                return value;
            }
        }
    };
    let (mut at, mut counts) = (0, (0, 0));
    while at < bytes.len() {
        assert_eq!(varint(&mut at), 0x0a);
        let end = varint(&mut at) as usize + at;
        counts.0 += 1;
        // A descriptor stands alone, or behind the time 0.
        let begins = if bytes[at] == 0x40 { at + 2 } else { at };
        counts.1 += i64::from(bytes[begins..].starts_with(&[0xe2, 0x03]));
        at = end;
    }
    counts
}

/// Checks a known answer; `None` where the file must be looked at as a whole.
fn check(file: &KnownFile, process: &str, key: &str, name: &str) -> Option<(i64, i64)> {
    let own = file.of(process);
    let gpu: Vec<&KnownRow> = own.iter().copied().filter(|r| r.is_gpu).collect();
    let count = gpu.len() as i64;
    let start = || gpu.iter().map(|r| r.start).min().unwrap_or(0);
    let end = || gpu.iter().map(|r| r.end).max().unwrap_or(0);
    let all = || gpu.iter().copied();
    Some(match key {
        "category" if name == "gpu_user_annotation" && file.added > 0 => return None,
        "category" => sums(own.iter().copied().filter(|r| r.category == name)),
        "gpu_user_annotation" | "user_annotation" => {
            let found = sums(own.iter().copied().filter(|r| r.category == key && r.name == name));
            return Some(found).filter(|found| found.0 > 0);
        }
        "gpu_first" => (count, start()),
        "gpu_last" => (count, end()),
        "gpu_busy" => (count, union(&gpu)),
        "gpu_idle" => (count, end() - start() - union(&gpu)),
        "gpu_sum" => sums(all()),
        "stream" => sums(all().filter(|r| r.place == name)),
        "kernel" => sums(all().filter(|r| r.category == "kernel" && r.name == name)),
        "kernel_names" => {
            let names: BTreeSet<&str> =
                all().filter(|r| r.category == "kernel").map(|r| r.name.as_str()).collect();
            (names.len() as i64, sums(all().filter(|r| r.category == "kernel")).1)
        }
        "graph_id" => {
            let of: Vec<&KnownRow> = all().filter(|r| r.graph == name.parse().ok()).collect();
            let nodes: BTreeSet<Option<u64>> = of.iter().map(|r| r.node).collect();
            (of.len() as i64, nodes.len() as i64)
        }
        "graph_annotation" => {
            let wanted = annotation(name);
            sums(all().filter(|r| r.annotation.as_ref() == Some(&wanted)))
        }
        "gpu_with_flow" => return None,
        "slices" => (file.rows.len() as i64 + file.added as i64, 0),
        "instants" => (file.instants as i64, 0),
        _ => return None,
    })
}

/// The arguments of rows that torch writes otherwise into its own file: its number of the operator, shared memory
/// without its static part, what the file does not hold, and names of threads.
const OTHERWISE: [&str; 4] = ["external_id", "shared_memory_bytes", "thread_name", "args_json"];

/// What a file does not hold: tables, and columns of a table or of all, that may differ.
type MayDiffer = [(&'static str, &'static [&'static str])];

/// Torch's own file: no device, so that nothing is known that takes its size or its peaks; no rank; no direction of
/// copies; rows in another order.
const NOT_IN_TORCHS_OWN: [(&str, &[&str]); 19] = [
    // Without the name of a device its peaks are not known.
    ("kernel_repairs", &["ideal_ns", "known_ns"]),
    // Copies are called by other names, which conditions on names repeat.
    ("finding_evidence", &["filter"]),
    ("finding_names", &["name"]),
    (
        "*",
        &["event_id", "source_event_id", "next_event_id", "launch_event_id", "op_event_id", "first_event_id"],
    ),
    (
        "*",
        &[
            "blocks_per_sm",
            "sm_efficiency_pct",
            "est_occupancy_pct",
            "occupancy_pct",
            "occupancy_known_pct",
            "waves",
            "tail",
            "occupancy_limiter",
        ],
    ),
    (
        "*",
        &[
            "peak_flops_pct",
            "peak_bandwidth_pct",
            "roofline_pct",
            "bound",
            "mfu_pct",
            "hfu_pct",
            "file",
            "rank_source",
        ],
    ),
    (
        "*",
        &[
            "name",
            "short_name",
            "kind",
            "kernel_id",
            "next_name",
            "sequence",
            "names",
            "words",
            "basis",
            "detail",
        ],
    ),
    ("counter_means", &["sm_efficiency_ratio", "blocks_known_pct"]),
    ("mfu", &["device_name", "peak_tflops_per_s", "peak_tb_per_s"]),
    ("mfu_by_device", &["device_name", "peak_tflops_per_s", "peak_tb_per_s", "mfu_pct", "hfu_pct"]),
    // Without peaks neither utilization is known, nor whether it is a lower bound.
    ("mfu_over_ranks", &["mfu_pct", "hfu_pct", "is_lower_bound"]),
    (
        "ranks",
        &["backend", "world_size", "device_name", "unpacked_bytes", "event_count", "other_event_count"],
    ),
    ("recordings", &["capability", "world_size"]),
    ("memory_copies", &[]),
    ("copies_over_ranks", &[]),
    ("memory_bandwidth", &[]),
    // Sentences about what the file does not hold.
    ("notes", &[]),
    ("counters", &[]),
    ("health", &[]),
];

/// A converted file: neither the devices nor the base of its times; rows in another order.
const NOT_IN_CONVERTED: [(&str, &[&str]); 13] = [
    ("kernel_repairs", &["ideal_ns", "known_ns"]),
    ("recorders", &["recorder"]),
    (
        "*",
        &["event_id", "source_event_id", "next_event_id", "launch_event_id", "op_event_id", "first_event_id"],
    ),
    (
        "*",
        &[
            "sm_efficiency_pct",
            "est_occupancy_pct",
            "occupancy_pct",
            "occupancy_known_pct",
            "waves",
            "tail",
            "occupancy_limiter",
            "basis",
            "detail",
        ],
    ),
    (
        "*",
        &[
            "peak_flops_pct",
            "peak_bandwidth_pct",
            "roofline_pct",
            "bound",
            "mfu_pct",
            "hfu_pct",
            "file",
            "rank_source",
        ],
    ),
    ("mfu", &["device_name", "peak_tflops_per_s", "peak_tb_per_s"]),
    ("mfu_by_device", &["device_name", "peak_tflops_per_s", "peak_tb_per_s", "mfu_pct", "hfu_pct"]),
    // Without peaks neither utilization is known, nor whether it is a lower bound.
    ("mfu_over_ranks", &["mfu_pct", "hfu_pct", "is_lower_bound"]),
    ("ranks", &["recorder", "backend", "world_size", "device_name", "time_era", "base_ns", "unpacked_bytes"]),
    (
        "recordings",
        &["capability", "world_size", "recorded_start_ns", "recorded_end_ns", "has_origin", "recorder"],
    ),
    // Sentences about what the file does not hold.
    ("notes", &[]),
    ("call_tree", &[]),
    ("health", &[]),
];

/// The rows of each table as JSON.
fn tables(path: &Path) -> BTreeMap<&'static str, Vec<Value>> {
    let answer = answer(&[path.to_path_buf()], &options());
    let mut found: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for batch in answer.batches() {
        let rows = rows_of(batch);
        let objects = rows.iter().map(|row| serde_json::from_str(&row.0.to_string()).expect("an object"));
        found.entry(batch.spec.name).or_default().extend(objects);
    }
    found
}

/// Checks that tables differ only where they may; times of the first are later by `base`.
fn differ(
    first: &BTreeMap<&str, Vec<Value>>,
    second: &BTreeMap<&str, Vec<Value>>,
    may: &MayDiffer,
    base: i64,
) {
    assert!(first.keys().eq(second.keys()));
    let mut compared = 0;
    for (table, rows) in first {
        let of: Vec<_> = may.iter().filter(|of| of.0 == *table || of.0 == "*").collect();
        if of.iter().any(|of| of.1.is_empty()) {
            continue;
        }
        assert_eq!(rows.len(), second[table].len(), "{table}");
        for (row, other) in rows.iter().zip(&second[table]) {
            for (column, value) in row.as_object().expect("an object") {
                let is_free = of.iter().any(|of| of.1.contains(&column.as_str()));
                let is_time = column.ends_with("ts_ns") || ["from_ns", "to_ns"].contains(&column.as_str());
                let wanted = match value.as_i64() {
                    Some(time) if is_time => Value::from(time - base),
                    _ => value.clone(),
                };
                // Torch rounds the cycles of a kernel in protobuf, and cuts them off in JSON.
                if column == "value" && row["kind"] == "cycles" {
                    let by = value.as_f64().zip(other[column].as_f64()).map(|(a, b)| (a - b).abs());
                    assert!(by.is_some_and(|by| by <= 1.0), "{table}: {row} and {other}");
                    continue;
                }
                // The rest of what the profiler wrote is counted, not kept.
                if !is_free && column != "other_event_count" {
                    assert_eq!(other[column], wanted, "{table}: {column} of {row} and {other}");
                    compared += 1;
                }
            }
        }
    }
    assert!(compared > 5_000, "{compared}");
}

/// The files that torch's own writers made of planted events, if they are there: they are not published.
fn own_files() -> Option<PathBuf> {
    let folder = shared::folder()?.traces().join("torch215");
    Some(folder).filter(|folder| folder.join("native").is_dir())
}

/// Needs the traces beside the repository: see [`crate::shared::folder`].
mod on_shared_traces {
    use super::*;

    #[test]
    fn every_known_answer_holds() {
        let Some(root) = shared::folder() else { return };
        let known = root.traces().join("../spec/torch-2.15-known-answers.tsv");
        let Ok(known) = std::fs::read_to_string(known) else { return };
        let mut files: BTreeMap<String, KnownFile> = BTreeMap::new();
        let (mut checked, mut of_added): (usize, BTreeMap<String, i64>) = (0, BTreeMap::new());
        for line in known.lines().skip(1) {
            let cells: Vec<&str> = line.split('\t').collect();
            let [stem, process, key, name, count, value] = cells[..] else { panic!("{line}") };
            let path = root.trace(&format!("torch215/{stem}.pftrace"));
            let file = files.entry(stem.to_string()).or_insert_with(|| known_file(&path));
            let count: i64 = count.parse().unwrap_or(0);
            checked += 1;
            match key {
                "packets" | "descriptors" => {
                    let bytes = std::fs::read(&path).expect("the file can be read");
                    let found = packets(&bytes);
                    assert_eq!(if key == "packets" { found.0 } else { found.1 }, count, "{line}");
                }
                "counter_min" | "counter_max" | "counter_mean" => {
                    let values = &file.samples[&(process.to_string(), name.to_string())];
                    let found = match key {
                        "counter_min" => values.iter().copied().fold(f64::INFINITY, f64::min),
                        "counter_max" => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
                        _ => values.iter().sum::<f64>() / values.len() as f64,
                    };
                    let value: f64 = value.parse().expect("a number");
                    assert!((found - value).abs() < 1e-9 && values.len() as i64 == count, "{line}: {found}");
                }
                // The known answers count flows, which files of Cuspy draw for some rows only; all have a call.
                "gpu_with_flow" => {
                    let gpu: Vec<&KnownRow> = file.of(process).into_iter().filter(|r| r.is_gpu).collect();
                    assert!(gpu.iter().all(|r| r.is_linked) && gpu.len() as i64 >= count, "{line}");
                }
                _ => match check(file, process, key, name) {
                    Some(found) => {
                        let value = value.parse().unwrap_or(found.1);
                        assert_eq!(found, (count, value), "{line}");
                    }
                    None if key == "category" => {
                        let kept = file.rows.iter().filter(|r| r.category == name).count() as i64;
                        assert_eq!(kept + file.added as i64, count, "{line}");
                    }
                    None => *of_added.entry(stem.to_string()).or_default() += count,
                },
            }
        }
        // Ranges that are not in the rows are those that the converter made.
        for (stem, file) in &files {
            assert_eq!(of_added.get(stem).copied().unwrap_or(0), file.added as i64, "{stem}");
        }
        assert_eq!((files.len(), checked), (7, known.lines().count() - 1));
    }

    /// Torch writes groups of begins and their ends, which a stack would pair wrongly.
    #[test]
    fn slices_of_torchs_own_file_are_those_of_its_json_to_the_nanosecond() {
        let Some(own) = own_files() else { return };
        for (stem, slices) in [("plain", 189), ("lanes", 189), ("meta", 189), ("edge", 6)] {
            let of = |ending: &str| {
                let path = own.join(format!("native/{stem}.{ending}"));
                let trace = traces(&path).remove(0);
                let lane = |at: usize| &trace.columns.lanes[trace.columns.lane[at] as usize];
                let place = |at: usize| {
                    let lane = lane(at);
                    let text = |id| trace.columns.strings.get(id).to_string();
                    (text(lane.pid), text(lane.tid))
                };
                let is_slice =
                    |r: &KnownRow| !r.is_gpu && !r.category.starts_with("g") && r.category != "Trace";
                let all = rows(&trace, "*").into_iter().enumerate();
                let kept = all.filter(|(_, r)| is_slice(r));
                let mut found: Vec<_> =
                    kept.map(|(at, r)| (r.category, r.name, r.start, r.end, place(at))).collect();
                found.sort();
                found
            };
            let json: Vec<_> = of("json.gz").into_iter().filter(|r| r.1 != "Foo").collect();
            assert_eq!(of("pftrace.gz"), json, "{stem}");
            assert!(json.len() >= slices, "{stem}: {}", json.len());
        }
    }

    /// Kernels of torch's own file end where the next one of their stream starts.
    #[test]
    fn arguments_of_torchs_own_file_are_those_of_its_json() {
        let Some(own) = own_files() else { return };
        for stem in ["native/plain", "native/lanes", "native/meta", "native/edge", "twin/cuspy"] {
            let of = |ending: &str| {
                let trace = traces(&own.join(format!("{stem}.{ending}"))).remove(0);
                let table = events_table(&trace, |_| true).expect("the table can be made");
                let mut found: BTreeMap<String, Vec<EventCells>> = BTreeMap::new();
                for at in 0..table.num_rows() {
                    let schema = table.schema();
                    let cells = schema.fields().iter().zip(table.columns());
                    let row: EventCells =
                        cells.map(|(field, array)| (field.name().clone(), cell(array, at))).collect();
                    let name =
                        if row["class"] == "memcpy" { "Memcpy" } else { row["name"].as_str().unwrap_or("") };
                    let key = format!("{} {name} {}", row["category"], row["ts_ns"]);
                    found.entry(key).or_default().push(row);
                }
                found
            };
            let (json, packets) = (of("json.gz"), of("pftrace.gz"));
            assert!(packets.len() > 10);
            for (key, rows) in &packets {
                let wanted = json.get(key).unwrap_or_else(|| panic!("{stem}: {key} is not in the JSON"));
                assert_eq!(rows.len(), wanted.len(), "{stem}: {key}");
                for (row, wanted) in rows.iter().zip(wanted) {
                    for (column, value) in row {
                        let column = column.as_str();
                        let is_link =
                            column.ends_with("event_id") || ["parent", "rank", "name"].contains(&column);
                        let is_clipped = ["dur_ns", "self_ns"].contains(&column) && row["name"] == "gA";
                        if !is_link && !is_clipped && !OTHERWISE.contains(&column) {
                            assert_eq!(value, &wanted[column], "{stem}: {key}: {column}");
                        }
                    }
                }
            }
        }
    }

    /// Every prefix and every flipped byte of torch's smallest file, packed and unpacked.
    #[test]
    fn no_cut_and_no_flipped_byte_of_torchs_own_file_stops_the_program() {
        let Some(own) = own_files() else { return };
        let packed = std::fs::read(own.join("native/edge.pftrace.gz")).expect("the file can be read");
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(packed.as_slice()).read_to_end(&mut bytes).expect("a whole file");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("rank_0.pftrace");
        for (bytes, flip) in [(&packed, 0x10), (&bytes, 0xff)] {
            let read = |bytes: &[u8]| {
                std::fs::write(&path, bytes).expect("a temporary file can be written");
                let input = hta::read::input::Input::named(path.as_path());
                load(&input, LoadOptions::default(), Spread::Inline, &ByteCount::default()).is_ok()
            };
            assert!(read(bytes) && !read(&[]));
            for at in 0..bytes.len() {
                read(&bytes[..at]);
                let mut damaged = bytes.clone();
                damaged[at] ^= flip;
                read(&damaged);
            }
        }
    }

    /// One planted trace by four writers: its tables are the same, but for what a file does not hold.
    #[test]
    fn tables_of_the_twins_differ_by_what_their_files_do_not_hold() {
        let Some(own) = own_files() else { return };
        let of = |name: &str| tables(&own.join("twin").join(name));
        differ(&of("cuspy.json.gz"), &of("cuspy.pftrace.gz"), &NOT_IN_TORCHS_OWN, 0);
        differ(&of("kineto.json.gz"), &of("converted.pftrace"), &NOT_IN_CONVERTED, 1_790_857_026_000_000_000);
    }
}

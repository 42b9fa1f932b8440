//! Traces of Cuspy are read as those of Kineto: one planted trace by both, and files that the writer of torch 2.15.0 made
//! of planted columns.

use crate::run::{Answer, Record, answer, options, rank_trace};
use crate::shared;
use hta::output::json;
use hta::trace::args::{ARGS, Arg};
use hta::trace::category::Class;
use hta::trace::meta::Recorder;
use hta::trace::rank_trace::RankTrace;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const KINETO: &str = "torch215/twin/kineto.json.gz";
const CUSPY: &str = "torch215/twin/cuspy.json.gz";

/// Columns that may differ between the two files, with the reason. Columns of event ids are compared by the event that
/// they point at, because the files have another order.
const DIFFERENT: [(&str, &str, &str); 17] = [
    ("ranks", "file", "another file"),
    ("ranks", "recorder", "that is the difference"),
    ("ranks", "unpacked_bytes", "another file"),
    ("ranks", "event_count", "Cuspy writes the row `Trace`"),
    ("ranks", "other_event_count", "Cuspy names more threads and marks the window"),
    ("recorders", "recorder", "that is the difference"),
    ("recordings", "file", "another file"),
    ("health", "file", "another file"),
    ("kernels", "blocks_per_sm", "Kineto rounds to six digits, Cuspy records none"),
    ("kernels", "graph_node_id", "Kineto puts the graph into the upper half"),
    ("kernels_by_name", "blocks_per_sm", "Kineto rounds to six digits, Cuspy records none"),
    ("counter_means", "sm_efficiency_ratio", "from blocks per SM"),
    ("counter_means", "est_occupancy_pct", "Cuspy records none, so it is derived"),
    ("counters", "value", "of SM efficiency and occupancy, as in counter_means"),
    ("hardware_by_rank", "sm_efficiency_pct", "from blocks per SM"),
    ("hardware_counters", "source", "Cuspy adds a derived counter of cycles"),
    ("hardware_counter_means", "counter", "Cuspy adds a derived counter of cycles"),
];

/// Tables that are compared only without some of their rows: those about the text of the file, and derived samples.
const OTHER_ROWS: [&str; 3] = ["health", "hardware_counters", "hardware_counter_means"];

#[test]
fn the_twin_by_cuspy_has_the_tables_of_the_twin_by_kineto() {
    let Some(root) = shared::folder() else { return };
    let all = [KINETO, CUSPY].map(|file| tables(&root.trace(file)));
    let [kineto, cuspy] = &all;
    let names = |t: &BTreeMap<String, Vec<Value>>| t.keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(names(kineto), names(cuspy));
    let mut seen = BTreeSet::new();
    for (table, rows) in kineto.iter().filter(|(table, _)| !OTHER_ROWS.contains(&table.as_str())) {
        let others = &cuspy[table];
        assert_eq!(rows.len(), others.len(), "{table}");
        for (row, other) in rows.iter().zip(others) {
            let cells = |row: &Value| row.as_object().expect("a row is an object").clone();
            for ((column, cell), (_, other)) in cells(row).iter().zip(cells(other).iter()) {
                if cell != other {
                    let is_known = DIFFERENT.iter().any(|d| (d.0, d.1) == (table, column));
                    assert!(is_known, "{table}.{column}: {cell} and {other}");
                    seen.insert((table.clone(), column.clone()));
                }
            }
        }
    }
    // Nothing is on the list that is equal.
    let listed = DIFFERENT.iter().filter(|d| !OTHER_ROWS.contains(&d.0));
    assert_eq!(seen, listed.map(|d| (d.0.to_string(), d.1.to_string())).collect());
}

/// All tables, with events in place of their ids.
fn tables(file: &Path) -> BTreeMap<String, Vec<Value>> {
    let trace = rank_trace(file, 0);
    let event = |id: u64| {
        let row = id as u32;
        Value::from(format!("{} at {}", trace.name(row), trace.span(row).start))
    };
    let mut all: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for batch in answer(&[file.to_path_buf()], &options()).batches() {
        let rows = all.entry(batch.spec.name.to_string()).or_default();
        for mut row in json::records(batch) {
            let cells = row.as_object_mut().expect("a row is an object");
            for (_, cell) in cells.iter_mut().filter(|(column, _)| column.ends_with("event_id")) {
                if let Some(id) = cell.as_u64() {
                    *cell = event(id);
                }
            }
            rows.push(row);
        }
    }
    all
}

/// Arguments that may differ between the two files, with the reason; they are the columns of `events`.
const OTHER_ARGUMENTS: [(Arg, &str); 8] = [
    (Arg::ExternalId, "Cuspy writes it for rows of the host only"),
    (Arg::BlocksPerSm, "Cuspy records none"),
    (Arg::WarpsPerSm, "Cuspy records none"),
    (Arg::Occupancy, "Cuspy records none"),
    (Arg::Bandwidth, "Cuspy records none"),
    (Arg::GraphId, "Cuspy leaves it out where it is 0"),
    (Arg::GraphNodeId, "Kineto puts the graph into the upper half, and writes 0 for none"),
    (Arg::Channel, "Cuspy writes it for copies, too"),
];

#[test]
fn the_twins_have_the_same_events() {
    let Some(root) = shared::folder() else { return };
    let [kineto, cuspy] = [KINETO, CUSPY].map(|file| events(&rank_trace(&root.trace(file), 0)));
    assert_eq!((kineto.len(), cuspy.len()), (78, 78));
    for (a, b) in kineto.iter().zip(&cuspy) {
        assert_eq!(a.0, b.0);
        for (spec, (mine, theirs)) in ARGS.iter().zip(a.1.iter().zip(&b.1)) {
            let is_known = OTHER_ARGUMENTS.iter().any(|o| o.0 == spec.id) || spec.id == Arg::ChannelType;
            assert!(mine == theirs || is_known, "{} of {:?}: {mine:?} and {theirs:?}", spec.column, a.0);
        }
    }
}

type Event = ((i64, i64, String, Class), Vec<Option<String>>);

/// The recorded events with all arguments, in order of time.
fn events(trace: &RankTrace) -> Vec<Event> {
    use hta::trace::args::ArgType;
    let c = &trace.columns;
    let value = |row: u32, arg: Arg| {
        let value = c.args.column(arg).get(row)?;
        Some(match arg.spec().ty {
            ArgType::Text | ArgType::Json => c.args.text(arg, row).map(|t| trace.text(t).to_string())?,
            ArgType::Int | ArgType::UInt | ArgType::Float | ArgType::Bool => value.to_string(),
        })
    };
    let rows = (0..c.len() as u32).filter(|row| trace.classes[*row as usize] != Class::Noise);
    let mut all: Vec<Event> = rows
        .map(|row| {
            let span = trace.span(row);
            let key = (span.start, span.end, trace.name(row).to_string(), trace.classes[row as usize]);
            (key, ARGS.iter().map(|spec| value(row, spec.id)).collect())
        })
        .collect();
    all.sort();
    all
}

fn kernels(answer: &Answer) -> BTreeMap<String, Record> {
    answer.rows("kernels").into_iter().map(|r| (r.text("name").to_string(), r)).collect()
}

/// Streams 7 and 13 were planted, a label `stream: 3` over the first, and lanes 100003 and 100004.
#[test]
fn rows_of_graphs_are_on_their_true_streams() {
    let Some(root) = shared::folder() else { return };
    for file in ["plain", "lanes", "meta"] {
        let path = root.trace(&format!("torch215/native/{file}.json.gz"));
        let answer = answer(std::slice::from_ref(&path), &options());
        let kernels = kernels(&answer);
        let streams = ["gA", "gB", "gC", "gD"].map(|name| kernels[name].int("stream"));
        assert_eq!(streams, [7, 7, 13, 7], "{file}");
        let nodes = ["gA", "gB", "gC", "gD"].map(|name| kernels[name].int("graph_node_id"));
        assert_eq!(nodes, [1, 2, 3, 4], "{file}");
        let streams: BTreeSet<i64> = answer.rows("kernels").iter().map(|r| r.int("stream")).collect();
        assert_eq!(streams, BTreeSet::from([7, 13]), "{file}");

        let trace = rank_trace(&path, 0);
        assert_eq!(trace.meta.recorder, Recorder::Cuspy, "{file}");
        let lanes: Vec<i64> =
            trace.columns.args.column(Arg::DisplayLane).iter().map(|v| v.1 as i64).collect();
        assert_eq!(lanes, if file == "lanes" { vec![100_003, 100_003, 100_004] } else { vec![] }, "{file}");
    }
}

#[test]
fn copies_nodes_and_annotations_of_cuspy_are_named() {
    let Some(root) = shared::folder() else { return };
    for file in ["plain", "lanes", "meta"] {
        let path = root.trace(&format!("torch215/native/{file}.json.gz"));
        let answer = answer(std::slice::from_ref(&path), &options());
        let copies: Vec<String> = answer
            .rows_where("kernels", |r| r.text("class") == "memory")
            .iter()
            .map(|r| r.text("name").into())
            .collect();
        let planted = ["Memcpy HtoD (Pinned -> Device)", "Memcpy PtoP (Device -> Device)", "Memset (Device)"];
        assert_eq!(copies, planted, "{file}");
        let kernels = kernels(&answer);
        let named = ["gA", "gB", "gD"].map(|k| (kernels[k].text("op"), kernels[k].text("op_source")));
        assert_eq!(
            named,
            [("attention", "annotation"), ("attention backward", "annotation"), ("", "")],
            "{file}"
        );
        assert_eq!(kernels["gC"].text("class"), "communication", "{file}");

        let trace = rank_trace(&path, 0);
        let class = |name: &str| {
            let row =
                (0..trace.columns.len() as u32).find(|row| trace.name(*row) == name).expect("a planted row");
            (trace.classes[row as usize], trace.span(row).len())
        };
        assert_eq!(class("EventRecord"), (Class::CudaEvent, 0), "{file}");
        assert_eq!(class("HostNode: my_cb"), (Class::Sync, 100), "{file}");
        assert!(trace.columns.categories.iter().all(|c| c.class != Class::Unknown), "{file}");
        // Cuspy names threads a second time, without what stands in brackets.
        let threads = trace.thread_names();
        let host = trace.text(*threads.get(&trace.columns.lane[0]).expect("the thread has a name"));
        assert!(host.ends_with("(python)"), "{file}: {host}");
        // Sums that the writer prints as 6.8389999999999995 us.
        let drawn: Vec<i64> = (0..trace.columns.len() as u32)
            .filter(|row| trace.classes[*row as usize] == Class::GpuAnnotation)
            .map(|row| trace.span(row).len())
            .collect();
        assert_eq!(drawn, [6_839, 8_157, 10_075], "{file}");
    }
}

#[test]
fn two_devices_of_one_cuspy_file_stay_apart() {
    let Some(root) = shared::folder() else { return };
    let answer = answer(&[root.trace("torch215/native/edge.json.gz")], &options());
    let places: BTreeMap<String, (i64, i64)> =
        kernels(&answer).into_iter().map(|(name, r)| (name, (r.int("device"), r.int("stream")))).collect();
    let want = [("k1", (0, 7)), ("k2", (0, 7)), ("k3", (1, 7)), ("k4", (1, 20))];
    assert_eq!(places, want.map(|(name, place)| (name.to_string(), place)).into());
    assert_eq!(answer.rows("ranks")[0].text("recorder"), "cuspy");
}

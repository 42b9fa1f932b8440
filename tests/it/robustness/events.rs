//! The record batch of a rank's events: what the table `events` says, in the memory of the trace.

use crate::run::rank_trace;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, UInt32Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use hta::output::events::rows;
use hta::output::json::cell;
use hta::trace::args::Arg;
use hta::trace::rank_trace::RankTrace;
use serde_json::{Value, json};
use std::path::Path;

fn samples() -> [RankTrace; 2] {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/samples");
    ["gloo_ddp4/rank_0.pt.trace.json.gz", "gpu_ddp8/rank_0.json.gz"]
        .map(|file| rank_trace(&samples.join(file), 0))
}

/// The value of a cell. A thread without a name has a key whose text is null.
fn shown(batch: &RecordBatch, column: &str, row: usize) -> Value {
    let array: &ArrayRef = batch.column_by_name(column).unwrap_or_else(|| panic!("no column {column}"));
    let Some(texts) = array.as_any_dictionary_opt() else { return cell(array, row) };
    let key = texts.keys().is_valid(row).then(|| texts.normalized_keys()[row]);
    let text =
        key.filter(|k| texts.values().is_valid(*k)).map(|k| texts.values().as_string::<i32>().value(k));
    json!(text)
}

#[test]
fn the_batch_holds_what_the_events_table_shows() {
    for trace in samples() {
        let args = [Arg::SeqNumber, Arg::Correlation, Arg::Stream, Arg::GroupName, Arg::Finished];
        let (batch, table) = (trace.events_with(&args), rows(&trace, |_| true).expect("the table's columns"));
        assert_eq!((batch.num_rows(), table.num_rows()), (trace.columns.len(), trace.columns.len()));
        let ids = table["event_id"].as_primitive::<UInt32Type>();
        for field in batch.schema().fields() {
            for place in 0..table.num_rows() {
                let row = ids.value(place) as usize;
                assert_eq!(
                    shown(&batch, field.name(), row),
                    shown(&table, field.name(), place),
                    "{field} of {row}"
                );
            }
        }
    }
}

#[test]
fn the_batch_is_the_memory_of_the_trace_and_outlives_it() {
    for trace in samples() {
        let batch = trace.events();
        let place = |column: &str| batch[column].as_primitive::<Int64Type>().values().as_ptr();
        assert_eq!(place("ts_ns"), trace.columns.ts.as_ptr());
        assert_eq!(place("dur_ns"), trace.columns.dur.as_ptr());
        let names = batch["name"].as_dictionary::<Int32Type>();
        assert_eq!(names.keys().values().as_ptr().cast(), trace.columns.name.as_ptr());
        let threads = batch["tid"].as_dictionary::<Int32Type>();
        assert_eq!(threads.keys().values().as_ptr().cast(), trace.columns.lane.as_ptr());
        let first = trace.name(0).to_string();
        drop(trace);
        assert_eq!(shown(&batch, "name", 0), json!(first));
    }
}

//! `summary.json`: findings, health and the summary tables for programs; and tables as JSON or CSV.

use super::text::findings;
use crate::model::schema::{Batch, TableSpec};
use crate::pipeline::Outcome;
use arrow::array::{Array, AsArray};
use arrow::datatypes::{DataType, Float64Type, Int32Type, Int64Type, UInt32Type, UInt64Type};
use serde_json::{Map, Value, json};

/// The summary of a run.
pub fn summary(outcome: &Outcome) -> Value {
    let health = outcome.rank_health.iter().flat_map(|(rank, file, health)| {
        health.iter().map(move |(counter, tally)| {
            json!({
                "rank": rank, "file": file, "counter": counter.spec().name,
                "severity": counter.spec().severity.name(), "count": tally.count,
                "first_byte": tally.first_byte,
                "example": if tally.example.is_empty() { Value::Null } else { json!(tally.example) },
            })
        })
    });
    let set = outcome.set_health.iter().map(|(counter, tally)| {
        json!({
            "rank": null, "file": null, "counter": counter.spec().name,
            "severity": counter.spec().severity.name(), "count": tally.count, "example": tally.example,
        })
    });
    let refused: Vec<Value> = outcome
        .refused
        .iter()
        .map(|r| json!({ "file": r.input.shown, "reason": r.error.to_string(), "named": r.input.named }))
        .collect();
    let analyses: Map<String, Value> = outcome
        .outputs
        .iter()
        .map(|(a, output)| {
            let mut tables: Map<String, Value> = Map::new();
            for batch in &output.tables {
                // long tables are in Parquet; here is what a dashboard shows
                if is_short(batch.spec) {
                    let rows = tables.entry(batch.spec.name).or_insert_with(|| json!([]));
                    if let Some(list) = rows.as_array_mut() {
                        list.extend(records(batch));
                    }
                }
            }
            (a.stem().to_string(), Value::Object(tables))
        })
        .collect();
    let ranks: Vec<Value> = outcome.inventory.iter().filter_map(|p| p.tables.first()).flat_map(records).collect();
    json!({
        "hta_version": env!("CARGO_PKG_VERSION"),
        "ranks": ranks,
        "findings": findings(outcome),
        "health": set.chain(health).collect::<Vec<_>>(),
        "refused": refused,
        "analyses": analyses,
    })
}

/// Tables with a bounded number of rows per rank and window.
fn is_short(spec: &TableSpec) -> bool {
    !matches!(spec.name, "kernels_by_name" | "idle_host" | "compat_hta_gpu_kernel_breakdown")
}

/// The cell of a column given by its position: columns stand in the order of the declaration.
fn cell(batch: &Batch, column: usize, row: usize) -> Value {
    let array = batch.rows.column(column);
    if array.is_null(row) {
        return Value::Null;
    }
    match array.data_type() {
        DataType::Int64 => Value::from(array.as_primitive::<Int64Type>().value(row)),
        DataType::UInt32 => Value::from(array.as_primitive::<UInt32Type>().value(row)),
        DataType::UInt64 => Value::from(array.as_primitive::<UInt64Type>().value(row)),
        DataType::Float64 => Value::from(array.as_primitive::<Float64Type>().value(row)),
        DataType::Boolean => Value::from(array.as_boolean().value(row)),
        _ => {
            let texts = array.as_dictionary_opt::<Int32Type>();
            let text = texts.and_then(|t| Some(t.values().as_string_opt::<i32>()?.value(t.key(row)?)));
            text.map_or(Value::Null, Value::from)
        }
    }
}

/// Rows of a batch as JSON objects.
pub fn records(batch: &Batch) -> Vec<Value> {
    let record = |row| -> Value {
        let pairs = batch.spec.columns.iter().enumerate().map(|(i, c)| (c.name.to_string(), cell(batch, i, row)));
        Value::Object(pairs.collect())
    };
    (0..batch.len()).map(record).collect()
}

/// A table as CSV (RFC 4180), with a header line also when there are no rows.
pub fn csv(spec: &TableSpec, batches: &[&Batch]) -> String {
    let mut out = String::new();
    let names: Vec<String> = spec.columns.iter().map(|c| quoted(c.name)).collect();
    out.push_str(&names.join(","));
    out.push('\n');
    for batch in batches {
        for row in 0..batch.len() {
            let cells: Vec<String> = spec
                .columns
                .iter()
                .enumerate()
                .map(|(i, _)| match cell(batch, i, row) {
                    Value::Null => String::new(),
                    Value::String(s) => quoted(&s),
                    other => other.to_string(),
                })
                .collect();
            out.push_str(&cells.join(","));
            out.push('\n');
        }
    }
    out
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_cells_are_quoted_where_they_must_be() {
        assert_eq!(quoted("a"), "a");
        assert_eq!(quoted("f<a, b>(\"x\")"), "\"f<a, b>(\"\"x\"\")\"");
    }
}

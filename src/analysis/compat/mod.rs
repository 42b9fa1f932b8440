//! Answers in other tools' definitions, so that people can check hta against numbers they have.

pub(crate) mod hta;
pub(crate) mod hta_annotations;
pub(crate) mod hta_bandwidth;
pub(crate) mod hta_cupti;
pub mod hta_diff;
pub(crate) mod hta_launches;
mod hta_loader;
pub(crate) mod hta_queue;
pub(crate) mod hta_sequences;
mod hta_statistics;
pub(crate) mod hta_stragglers;
pub(crate) mod tracelens;

use crate::analysis::api::{Align, Output, Partial, View};
use crate::table::schema::{Batch, TableSpec};
use crate::wording::counts::plural;

/// All ranks' rows of the tables, and a view of each.
pub fn concatenated(partials: &[Partial], specs: &[&'static TableSpec]) -> Output {
    let tables: Vec<Batch> = specs.iter().flat_map(|s| partials.iter().filter_map(|p| p.table(s).cloned())).collect();
    let views = specs.iter().map(|s| view(s, &tables)).filter(|v| !v.rows.is_empty()).collect();
    Output { tables, findings: Vec::new(), views, raw: None }
}

/// Rows of a table that are printed.
const SHOWN: usize = 40;

/// A view of all columns of a table.
pub fn view(spec: &'static TableSpec, tables: &[Batch]) -> View {
    let batches: Vec<&Batch> = tables.iter().filter(|b| b.spec.name == spec.name).collect();
    let total: usize = batches.iter().map(|b| b.len()).sum();
    let rows = batches.iter().flat_map(|b| (0..b.len()).map(move |r| (*b, r))).take(SHOWN).map(|(b, r)| {
        let cell = |c: &crate::table::schema::ColumnSpec| match c.kind {
            "text" => b.text(c.name, r).unwrap_or("-").to_string(),
            "f64" => b.float(c.name, r).map_or("-".to_string(), |v| format!("{v}")),
            _ => b.int(c.name, r).map_or("-".to_string(), |v| v.to_string()),
        };
        spec.columns.iter().map(cell).collect()
    });
    let align = |kind| if kind == "text" { Align::Left } else { Align::Right };
    View {
        title: spec.name.to_string(),
        columns: spec.columns.iter().map(|c| (c.name, align(c.kind))).collect(),
        rows: rows.collect(),
        notes: (total > SHOWN)
            .then(|| format!("{} in the table", plural(total - SHOWN, "more row")))
            .into_iter()
            .collect(),
    }
}

/// `100 * part / whole` rounded as numpy does: scaled, half to even, scaled back.
pub fn rounded_percent(part: i64, whole: i64, decimals: i32) -> Option<f64> {
    (whole != 0).then(|| {
        let scale = 10f64.powi(decimals);
        (100.0 * (part as f64 / whole as f64) * scale).round_ties_even() / scale
    })
}

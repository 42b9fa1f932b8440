//! Output of answers that show another tool's tables unchanged: the rows of all ranks, and a view of each
//! table.

use hta_analysis::api::{Align, Output, Partial, View};
use hta_base::table::schema::{Batch, ColumnSpec, TableSpec};
use hta_base::wording::counts::plural;

/// Collects the rows of all ranks for each table, and makes a view of each table that has rows.
pub(super) fn concatenated(partials: &[Partial], specs: &[&'static TableSpec]) -> Output {
    let tables: Vec<Batch> =
        specs.iter().flat_map(|s| partials.iter().filter_map(|p| p.table(s).cloned())).collect();
    let views = specs.iter().map(|s| view(s, &tables)).filter(|v| !v.rows.is_empty()).collect();
    Output { tables, views, ..Output::default() }
}

/// Number of rows that a view shows.
const SHOWN: usize = 40;

/// A view with all columns of a table and its first rows.
pub(super) fn view(spec: &'static TableSpec, tables: &[Batch]) -> View {
    let batches: Vec<&Batch> = tables.iter().filter(|b| b.spec.name == spec.name).collect();
    let total: usize = batches.iter().map(|b| b.len()).sum();
    let rows = batches.iter().flat_map(|b| (0..b.len()).map(move |r| (*b, r))).take(SHOWN).map(|(b, r)| {
        let cell = |c: &ColumnSpec| match c.kind {
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

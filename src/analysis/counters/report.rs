//! The counters of kernels of all ranks: the printed table of `counters`.

use super::{CounterMeans, STEPS};
use crate::analysis::api::{Align, Options, Output, Partial, View};
use crate::analysis::population::{groups, reasons, several_devices};
use crate::model::schema::Batch;
use crate::units::{fmt_ns, fmt_pct};

/// Tables and view of all ranks.
pub fn reduce(partials: &[Partial], options: &Options) -> Output {
    let several = several_devices(&groups(partials, CounterMeans::SPEC));
    let mut rows: Vec<(&Batch, usize)> = Vec::new();
    for batch in partials.iter().filter_map(|p| p.table(CounterMeans::SPEC)) {
        let of = |scope: &'static str| (0..batch.len()).filter(move |&r| batch.text("scope", r) == Some(scope));
        let steps: Vec<usize> = of(STEPS).collect();
        let chosen = if steps.is_empty() { of("span").collect() } else { steps };
        rows.extend(chosen.into_iter().map(|r| (batch, r)));
    }
    let mut notes = reasons(partials);
    if rows.len() > options.top {
        let utilization = |(b, r): (&Batch, usize)| b.float("gpu_utilization_ratio", r).unwrap_or(0.0);
        rows.sort_by(|a, b| utilization(*a).total_cmp(&utilization(*b)));
        notes.push(format!("{} more ranks, with higher utilization, are in the table", rows.len() - options.top));
        rows.truncate(options.top);
    }
    if !rows.is_empty() {
        notes.push(
            "utilization: kernels, without copies; SM efficiency and occupancy are estimates from grids".to_string(),
        );
        notes.push("known: of the kernels' time, with blocks per SM and with an occupancy".to_string());
    }
    let cells = |(b, r): (&Batch, usize)| {
        let device = b.int("device", r).filter(|_| several).map_or(String::new(), |d| format!(" device {d}"));
        let ratio = |column: &str| fmt_pct(b.float(column, r).map(|v| 100.0 * v));
        vec![
            format!("{}{device}", b.int("rank", r).unwrap_or(0)),
            fmt_ns(b.int("dur_ns", r).unwrap_or(0)),
            ratio("gpu_utilization_ratio"),
            ratio("sm_efficiency_ratio"),
            fmt_pct(b.float("est_occupancy_pct", r)),
            fmt_pct(b.float("blocks_known_pct", r)),
            fmt_pct(b.float("occupancy_known_pct", r)),
        ]
    };
    let view = View {
        title: "How busy kernels keep each device, first to last step".to_string(),
        columns: vec![
            ("rank", Align::Left),
            ("window", Align::Right),
            ("utilization", Align::Right),
            ("SM eff.", Align::Right),
            ("occupancy", Align::Right),
            ("known", Align::Right),
            ("known occ.", Align::Right),
        ],
        rows: rows.into_iter().map(cells).collect(),
        notes,
    };
    Output {
        tables: partials.iter().filter_map(|p| p.table(CounterMeans::SPEC).cloned()).collect(),
        findings: Vec::new(),
        views: vec![view],
        raw: None,
    }
}

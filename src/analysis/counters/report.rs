//! Reduces the kernel counters of all ranks to the printed table.

use crate::analysis::api::{Align, Options, Output, Partial, View};
use crate::analysis::counters::{CounterMeans, STEPS};
use crate::analysis::population::{groups, reasons, several_devices};
use crate::analysis::worst_first::WorstFirst;
use crate::table::schema::Batch;
use crate::units::{fmt_ns, fmt_pct, percent};

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
    // Least used devices first: sorted by the share of the window without a kernel, computed in integers.
    let int = |&(b, r): &(&Batch, usize), column: &str| b.int(column, r).unwrap_or(0);
    let unused = |row: &(&Batch, usize)| {
        let window = i128::from(int(row, "dur_ns"));
        ((window - i128::from(int(row, "kernel_ns"))) << 40).checked_div(window).unwrap_or(0)
    };
    let shown = WorstFirst::new(&rows, options.top, unused);
    notes.extend(shown.others_note("device", "means", "with no lower utilization"));
    if !rows.is_empty() {
        notes.push(
            "utilization: kernels, without copies; SM efficiency and occupancy are estimates from grids".to_string(),
        );
        notes.push("known: of the kernels' time, with blocks per SM and with an occupancy".to_string());
    }
    let name = |row: &(&Batch, usize)| {
        let (b, r) = *row;
        let device = b.int("device", r).filter(|_| several).map_or(String::new(), |d| format!(" device {d}"));
        format!("{}{device}", int(row, "rank"))
    };
    let cells = |name: String, of: &[&(&Batch, usize)]| {
        let sum = |column: &str| of.iter().map(|row| int(row, column)).sum::<i64>();
        let window = sum("dur_ns");
        // A mean over time combines by the lengths of the windows; a mean weighted by kernel time does not.
        let over_time = |column: &str| {
            let parts = of.iter().map(|row| Some(row.0.float(column, row.1)? * int(row, "dur_ns") as f64));
            parts.sum::<Option<f64>>().filter(|_| window > 0).map(|s| 100.0 * s / window as f64)
        };
        let of_one = |column: &str| match of {
            [(b, r)] => b.float(column, *r),
            _ => None,
        };
        vec![
            name,
            fmt_ns(window / of.len().max(1) as i64),
            fmt_pct(percent(sum("kernel_ns"), window)),
            fmt_pct(over_time("sm_efficiency_ratio")),
            fmt_pct(of_one("est_occupancy_pct")),
            fmt_pct(of_one("blocks_known_pct")),
            fmt_pct(of_one("occupancy_known_pct")),
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
        rows: shown.rows(name, cells),
        notes,
    };
    Output {
        tables: partials.iter().filter_map(|p| p.table(CounterMeans::SPEC).cloned()).collect(),
        findings: Vec::new(),
        views: vec![view],
        raw: None,
    }
}

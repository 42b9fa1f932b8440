//! Iterations of an inference engine in two runs, by phase and batch: what `hta diff` says of them.

use crate::diff::iterations::DiffIterations;
use crate::output::html::against::figure::{Better, FigureName, figures, push};
use crate::output::html::grid::Grid;
use crate::output::html::texts::Texts;
use hta_base::table::compare::ComparedFigure;
use hta_base::table::schema::{Batch, Table};

/// Largest number of phases and batches shown.
const MOST: usize = 40;

pub(crate) fn serving(iterations: &Batch, texts: &mut Texts) -> Grid {
    let mut grid = figures("iteration_phases");
    for r in DiffIterations::rows(iterations).take(MOST) {
        let batch = match r.requests {
            Some(1) => ", 1 request".to_string(),
            Some(n) => format!(", {n} requests"),
            None => String::new(),
        };
        let whole = format!("{}{batch}", r.phase.or(r.mode).unwrap_or("unknown phase").replace('_', " "));
        let mut add = |group: &str, name: &str, unit, better, figure: ComparedFigure| {
            push(&mut grid, texts, FigureName { group, name, unit, better }, &figure);
        };
        let known = ComparedFigure::known;
        let share = |pct: Option<f64>| pct.map(|pct| pct / 100.0);
        let count = |n: u64| Some(n as f64).filter(|n| *n > 0.0);
        let period = known(r.base_period_ns, r.test_period_ns, r.is_period_significant);
        let window = known(r.base_window_ns, r.test_window_ns, r.is_window_significant);
        let (busy, of_base) = (share(r.test_window_busy_pct), share(r.base_window_busy_pct));
        let busy = known(of_base, busy, r.is_window_busy_significant);
        let rate = known(r.base_tokens_per_s, r.test_tokens_per_s, r.is_tokens_per_s_significant);
        let counts = known(count(r.base_iteration_count), count(r.test_iteration_count), None);
        add("", &whole, "ns", Better::Less, period);
        add(&whole, "work on the device", "ns", Better::Less, window);
        add(&whole, "busy share of it", "ratio", Better::More, busy);
        add(&whole, "tokens per second", "number", Better::More, rate);
        add(&whole, "iterations", "count", Better::Neither, counts);
    }
    if iterations.len() > MOST {
        let all = iterations.len();
        grid.notes.push(format!("{MOST} of {all} phases and batches are shown; `iteration_phases` has all."));
    }
    grid
}

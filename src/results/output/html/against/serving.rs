//! Iterations of an inference engine in two runs, by phase and batch.

use crate::diff::exact::Noise;
use crate::output::html::against::figure::{Better, FigureName, HEADINGS, RunFigure, Unit, push};
use crate::output::html::grid::Grid;
use crate::output::html::texts::Texts;
use crate::results::{Results, ResultsError, columns};
use hta_analysis::iterations::tables::{IterationPhases, IterationsTable};

use hta_base::table::schema::Text;
use std::collections::{BTreeMap, BTreeSet};

/// Largest number of phases and batches shown.
const MOST: usize = 40;

columns! {
    Phase of IterationPhases {
        phase: Option<Text>, mode: Option<Text>, requests: Option<u64>, counted: u64, period_p50_ns: i64,
        window_p50_ns: i64, window_ns: i64, window_busy_ns: i64, tokens_per_s: Option<f64>,
    }
}

columns! {
    Iteration of IterationsTable {
        step: u32, phase: Option<Text>, mode: Option<Text>, requests: Option<u64>, is_first: bool, is_partial: bool,
        dur_ns, period_ns: i64, basis: Text,
    }
}

/// Phase or the engine's word for it, and number of requests.
type IterationKindName = (String, Option<u64>);

fn kind(phase: Option<&str>, mode: Option<&str>, requests: Option<u64>) -> IterationKindName {
    (phase.or(mode).unwrap_or("unknown phase").replace('_', " "), requests)
}

/// One phase and batch of one run.
#[derive(Default)]
struct OfKind {
    counted: u64,
    window: i64,
    busy: i64,
    /// Medians and rates of the ranks.
    periods: Vec<i64>,
    windows: Vec<i64>,
    rates: Vec<f64>,
    /// Iterations that count: of the ranks, by number.
    period_of: BTreeMap<u32, Vec<i64>>,
    window_of: BTreeMap<u32, Vec<i64>>,
}

fn phases(results: &Results) -> Result<BTreeMap<IterationKindName, OfKind>, ResultsError> {
    let mut all: BTreeMap<IterationKindName, OfKind> = BTreeMap::new();
    results.read::<Phase>(|r| {
        let of = all.entry(kind(r.phase, r.mode, r.requests)).or_default();
        of.counted += r.counted;
        of.window += r.window_ns;
        of.busy += r.window_busy_ns;
        of.periods.push(r.period_p50_ns);
        of.windows.push(r.window_p50_ns);
        of.rates.extend(r.tokens_per_s);
    })?;
    results.read::<Iteration>(|r| {
        let Some(of) = all.get_mut(&kind(r.phase, r.mode, r.requests)) else { return };
        if r.is_partial || r.is_first {
            return;
        }
        of.window_of.entry(r.step).or_default().push(r.dur_ns);
        if r.basis == "period" {
            of.period_of.entry(r.step).or_default().push(r.period_ns);
        }
    })?;
    Ok(all)
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> Option<f64> {
    let n = values.len();
    (n > 0).then(|| values.sum::<f64>() / n as f64)
}

/// The mean over ranks of their medians, with the noise of the iterations.
fn timed(medians: &[i64], samples: &BTreeMap<u32, Vec<i64>>) -> RunFigure {
    let samples: Vec<f64> =
        samples.values().filter_map(|values: &Vec<i64>| mean(values.iter().map(|ns| *ns as f64))).collect();
    // The median of iterations that are all partial has no noise that could be told: it counts as one.
    let noise = Noise::of(if samples.is_empty() { &[0.0] } else { &samples });
    RunFigure { value: mean(medians.iter().map(|ns| *ns as f64)), noise }
}

/// # Errors
/// When a table is damaged.
pub(crate) fn serving(this: &Results, base: &Results, texts: &mut Texts) -> Result<Grid, ResultsError> {
    let mut grid = Grid::new("iteration_phases", &HEADINGS);
    let (this, base) = (phases(this)?, phases(base)?);
    let kinds: BTreeSet<&IterationKindName> = this.keys().chain(base.keys()).collect();
    for kind in kinds.iter().take(MOST) {
        let batch = match kind.1 {
            Some(1) => ", 1 request".to_string(),
            Some(n) => format!(", {n} requests"),
            None => String::new(),
        };
        let whole = format!("{}{batch}", kind.0);
        let pair = |of: &dyn Fn(&OfKind) -> RunFigure| {
            [this.get(*kind), base.get(*kind)].map(|side| side.map_or(RunFigure::of_run(None), of))
        };
        let mut add = |group: &str, name: &str, unit, better, of: &dyn Fn(&OfKind) -> RunFigure| {
            let [a, b] = pair(of);
            push(&mut grid, texts, FigureName { group, name, unit, better }, a, b);
        };
        add("", &whole, Unit::Ns, Better::Less, &|of| timed(&of.periods, &of.period_of));
        add(&whole, "work on the device", Unit::Ns, Better::Less, &|of| timed(&of.windows, &of.window_of));
        add(&whole, "busy share of it", Unit::Ratio, Better::More, &|of| {
            RunFigure::of_run((of.window > 0).then(|| of.busy as f64 / of.window as f64))
        });
        add(&whole, "tokens per second", Unit::Number, Better::More, &|of| {
            RunFigure::of_run(mean(of.rates.iter().copied()))
        });
        add(&whole, "iterations", Unit::Count, Better::Neither, &|of| {
            RunFigure::of_run(Some(of.counted as f64))
        });
    }
    if kinds.len() > MOST {
        grid.notes.push(format!(
            "{MOST} of {} phases and batches are shown; `iteration_phases` has all.",
            kinds.len()
        ));
    }
    Ok(grid)
}

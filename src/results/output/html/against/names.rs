//! What `hta diff` finds in two runs: the parts of a step, its steps, kernels and categories, causes.

use crate::diff::causes::DiffCauses;
use crate::diff::set::Set;
use crate::diff::{DiffNames, Summaries, SummaryRow};
use crate::output::html::against::figure::{Better, FigureName, figures, push_told, ratio, surety, too_few};
use crate::output::html::axis::PageStep;
use crate::output::html::grid::{Cell, Grid};
use crate::output::html::texts::Texts;
use hta_base::table;
use hta_base::table::compare::ComparedFigure;
use hta_base::table::schema::{Batch, Table, Text};
use hta_trace::kernel::short_name;
use std::collections::BTreeMap;

/// Largest number of names listed.
const MOST_NAMES: usize = 400;
/// Largest number of steps shown.
const MOST_STEPS: usize = 400;

fn of<'a>(tables: &'a [Batch], name: &'a str) -> impl Iterator<Item = &'a Batch> {
    tables.iter().filter(move |b| b.spec.name == name)
}

/// The step and what it consists of.
pub(crate) fn parts(tables: &[Batch], texts: &mut Texts) -> Grid {
    let mut grid = figures("temporal_breakdown");
    for r in of(tables, Summaries::SPEC.name).flat_map(Summaries::rows) {
        let group = if r.is_part { "step time" } else { "" };
        let name = if r.metric == "step_time" && r.scope == "capture" { "capture" } else { r.metric };
        let name = name.replace('_', " ").replace("gpu", "GPU");
        let is_lost = r.is_part && r.metric != "compute";
        let better = if is_lost || r.metric == "step_time" { Better::Less } else { Better::Neither };
        let figure = ComparedFigure {
            base: Some(r.base_ns_per_step),
            test: Some(r.test_ns_per_step),
            delta: Some(r.delta_ns_per_step),
            pct: r.delta_pct,
            error: r.std_error_ns,
            is_significant: r.is_significant,
        };
        let told = match surety(&figure) {
            "" if r.metric == "step_time" => too_few(least(r), r.scope),
            told => told.to_string(),
        };
        let what = FigureName { group, name: &name, unit: "ns", better };
        push_told(&mut grid, texts, what, &figure, &told);
    }
    grid
}

/// Number of steps, or captures, of the run that has fewer.
fn least(r: SummaryRow<'_>) -> usize {
    let of = |steps: u64, ranks: u32| steps.div_ceil(u64::from(ranks).max(1)) as usize;
    of(r.base_step_count, r.base_rank_count).min(of(r.test_step_count, r.test_rank_count))
}

table! {
    /// Steps of both runs at the same place in their order.
    struct StepPairs, StepPairRow = "steps" by "place" {
        place: u32, "", "place in the order of steps";
        this_step: Option<Text>, "", "step of this run", "step";
        this_ns: Option<f64>, "ns", "its length, mean over ranks and devices", "this run";
        this_partial: Option<u64>, "", "windows of it that are partial, and count in no mean", "partial";
        base_step: Option<Text>, "", "step of the baseline", "step of the baseline";
        base_ns: Option<f64>, "ns", "its length, mean over ranks and devices", "baseline";
        base_partial: Option<u64>, "", "windows of it that are partial, and count in no mean", "partial";
    }
}

/// The lengths of the steps of both runs in order, each the mean over ranks and devices.
pub(crate) fn steps([base, this]: [&Set; 2], texts: &mut Texts) -> Grid {
    let mut grid = Grid::of_tables("temporal_breakdown", &[StepPairs::SPEC]);
    let [this, base] = [this, base].map(lengths);
    let most = this.len().max(base.len());
    for place in 0..most.min(MOST_STEPS) {
        let mut row: Vec<Cell> = vec![place.into()];
        for of in [&this, &base] {
            match of.get(place) {
                Some((step, mean, partial)) => {
                    row.extend([texts.cell(&step.to_string()), (*mean).into(), (*partial).into()]);
                }
                None => row.extend([Cell::Nothing; 3]),
            }
        }
        grid.push(row);
    }
    if most > MOST_STEPS {
        grid.notes.push(format!("The first {MOST_STEPS} of {most} steps are shown."));
    }
    grid
}

/// Step, mean length, and number of windows that are partial.
fn lengths(set: &Set) -> Vec<(PageStep, f64, usize)> {
    let mut sums: BTreeMap<PageStep, (i64, usize, usize)> = BTreeMap::new();
    for w in set.ranks.iter().flat_map(|r| &r.windows).filter(|w| w.step.is_some()) {
        let Some(step) = PageStep::new(w.step, w.label) else { continue };
        let sum = sums.entry(step).or_default();
        sum.0 += w.dur;
        sum.1 += 1;
        sum.2 += usize::from(w.is_partial);
    }
    sums.into_iter().map(|(step, (ns, n, partial))| (step, ns as f64 / n.max(1) as f64, partial)).collect()
}

table! {
    /// GPU time by name in both runs.
    struct NamePairs, NamePairRow = "names" by "absolute delta_ns descending" {
        class: Text, "", "compute, communication or memory";
        short: Text, "", "short name; `hta explain kernels`", "kernel";
        name: Text, "", "full name, or category", "full name";
        this_ns: f64, "ns", "summed durations per step, mean over ranks; concurrent ones count twice",
            "this run";
        base_ns: f64, "ns", "the same of the baseline", "baseline";
        delta_ns: f64, "ns", "this run - baseline", "difference";
        delta_ratio: Option<f64>, "share", "the difference as a share of the baseline's value", "of baseline";
        step_ratio: Option<f64>, "share", "the difference as a share of the baseline's step", "of the step";
        this_count: f64, "", "how often per step, mean over ranks", "count";
        base_count: f64, "", "the same of the baseline", "count before";
        change: Text, "", "of the count: added, deleted, increased, decreased, unchanged";
        surety: Text, "",
            "whether the difference is more than three standard errors over the steps; empty: too \
             few to tell",
            "noise";
    }
}

/// GPU time by name, or by what `hta diff --by` made of names.
pub fn names(tables: &[Batch], source: &'static str, texts: &mut Texts) -> Grid {
    let mut grid = Grid::of_tables(source, &[NamePairs::SPEC]);
    // The largest change first, as the table is sorted.
    let rows: Vec<_> =
        of(tables, DiffNames::SPEC.name).flat_map(DiffNames::rows).filter(|r| r.side == "gpu").collect();
    for r in rows.iter().take(MOST_NAMES) {
        let (base, test) = (Some(r.base_ns_per_step), Some(r.test_ns_per_step));
        let figure = ComparedFigure::known(base, test, r.is_significant);
        grid.push([
            texts.cell(r.class),
            texts.cell(&short_name(r.name)),
            texts.cell(r.name),
            r.test_ns_per_step.into(),
            r.base_ns_per_step.into(),
            r.delta_ns_per_step.into(),
            ratio(r.delta_pct),
            ratio(r.step_pct),
            r.test_count_per_step.into(),
            r.base_count_per_step.into(),
            texts.cell(r.change),
            texts.cell(surety(&figure)),
        ]);
    }
    let left = rows.get(MOST_NAMES..).unwrap_or_default();
    let (this, base) =
        left.iter().fold((0.0, 0.0), |s, r| (s.0 + r.test_ns_per_step, s.1 + r.base_ns_per_step));
    let sums = [Cell::Nothing, Cell::Nothing, Cell::Nothing, this.into(), base.into(), (this - base).into()];
    let rest = [Cell::Nothing; 6];
    grid.leave_out(left.len(), sums.into_iter().chain(rest).collect());
    grid
}

table! {
    /// Causes of both runs.
    struct CausePairs, CausePairRow = "causes" by "state" {
        state: Text, "", "new, gone, changed or same";
        sentence: Text, "", "the cause in words", "cause";
        rank_label: Text, "", "its ranks", "ranks";
        kind: Text, "", "`hta explain diagnosis` defines it";
        this_ratio: Option<f64>, "share", "what fixing it saves, of the time of the job", "this run";
        base_ratio: Option<f64>, "share", "the same of the baseline", "baseline";
        delta_ratio: f64, "share", "this run - baseline, in points", "difference";
    }
}

/// Causes that are gone, new, changed and the same.
pub(crate) fn causes(table: &Batch, texts: &mut Texts) -> Grid {
    let mut grid = Grid::of_tables("findings", &[CausePairs::SPEC]);
    for r in DiffCauses::rows(table) {
        let (this, base) = (r.test_recoverable_pct, r.base_recoverable_pct);
        grid.push([
            texts.cell(r.state),
            texts.whole(r.sentence),
            texts.cell(r.rank_label),
            texts.cell(r.kind),
            ratio(this),
            ratio(base),
            ratio(Some(this.unwrap_or(0.0) - base.unwrap_or(0.0))),
        ]);
    }
    grid
}

//! What `hta diff` finds in two runs: the parts of a step, its steps, kernels and categories, causes.

use crate::diff::causes::DiffCauses;
use crate::diff::set::Set;
use crate::diff::{DiffNames, Summaries, SummaryRow};
use crate::output::html::against::figure::{Better, FigureName, HEADINGS, push_told, ratio, surety, too_few};
use crate::output::html::axis::PageStep;
use crate::output::html::grid::{Cell, CellType, Grid, Heading};
use crate::output::html::texts::Texts;
use hta_base::table::compare::ComparedFigure;
use hta_base::table::schema::{Batch, Table};
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
    let mut grid = Grid::new("temporal_breakdown", &HEADINGS);
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

/// The lengths of the steps of both runs in order, each the mean over ranks and devices.
pub(crate) fn steps([base, this]: [&Set; 2], texts: &mut Texts) -> Grid {
    let mut grid = Grid::new(
        "temporal_breakdown",
        &[
            ("place", "place", CellType::Id, "place in the order of steps"),
            ("this_step", "step", CellType::Text, "step of this run"),
            ("this_ns", "this run", CellType::Ns, "its length, mean over ranks and devices"),
            (
                "this_partial",
                "partial",
                CellType::Count,
                "windows of it that are partial, and count in no mean",
            ),
            ("base_step", "step of the baseline", CellType::Text, "step of the baseline"),
            ("base_ns", "baseline", CellType::Ns, "its length, mean over ranks and devices"),
            (
                "base_partial",
                "partial",
                CellType::Count,
                "windows of it that are partial, and count in no mean",
            ),
        ],
    );
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

const SUMS: [Heading; 9] = [
    (
        "this_ns",
        "this run",
        CellType::Ns,
        "summed durations per step, mean over ranks; concurrent ones count twice",
    ),
    ("base_ns", "baseline", CellType::Ns, "the same of the baseline"),
    ("delta_ns", "difference", CellType::Ns, "this run - baseline"),
    ("delta_ratio", "of baseline", CellType::Ratio, "the difference as a share of the baseline's value"),
    ("step_ratio", "of the step", CellType::Ratio, "the difference as a share of the baseline's step"),
    ("this_count", "count", CellType::Number, "how often per step, mean over ranks"),
    ("base_count", "count before", CellType::Number, "the same of the baseline"),
    ("change", "change", CellType::Text, "of the count: added, deleted, increased, decreased, unchanged"),
    (
        "surety",
        "noise",
        CellType::Text,
        "whether the difference is more than three standard errors over the steps; empty: too few to tell",
    ),
];

/// GPU time by name, or by what `hta diff --by` made of names.
pub fn names(tables: &[Batch], source: &'static str, texts: &mut Texts) -> Grid {
    let head: [Heading; 3] = [
        ("class", "class", CellType::Text, "compute, communication or memory"),
        ("short", "kernel", CellType::Text, "short name; `hta explain kernels`"),
        ("name", "full name", CellType::Text, "full name, or category"),
    ];
    let headings: Vec<Heading> = head.into_iter().chain(SUMS).collect();
    let mut grid = Grid::new(source, &headings);
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

/// Causes that are gone, new, changed and the same.
pub(crate) fn causes(table: &Batch, texts: &mut Texts) -> Grid {
    let mut grid = Grid::new(
        "findings",
        &[
            ("state", "state", CellType::Text, "new, gone, changed or same"),
            ("sentence", "cause", CellType::Text, "the cause in words"),
            ("rank_label", "ranks", CellType::Text, "its ranks"),
            ("kind", "kind", CellType::Text, "`hta explain diagnosis` defines it"),
            ("this_ratio", "this run", CellType::Ratio, "what fixing it saves, of the time of the job"),
            ("base_ratio", "baseline", CellType::Ratio, "the same of the baseline"),
            ("delta_ratio", "difference", CellType::Ratio, "this run - baseline, in points"),
        ],
    );
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

//! Figures of two runs beside each other: both values, their difference, and whether it is more than the
//! noise of the steps.

use crate::diff::exact::{Noise, STANDARD_ERRORS, standard_error};
use crate::output::html::grid::{CellType, Grid, Heading};
use crate::output::html::texts::Texts;
use std::collections::BTreeMap;

/// How the page writes a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Ns,
    Bytes,
    Count,
    Ratio,
    /// A number without a unit of its own.
    Number,
}

impl Unit {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Unit::Ns => "ns",
            Unit::Bytes => "bytes",
            Unit::Count => "count",
            Unit::Ratio => "ratio",
            Unit::Number => "number",
        }
    }
}

/// Which change is an improvement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Better {
    Less,
    More,
    /// Neither: the figure only says what is different.
    Neither,
}

impl Better {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Better::Less => "less",
            Better::More => "more",
            Better::Neither => "",
        }
    }
}

/// One run's value.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunFigure {
    pub(crate) value: Option<f64>,
    /// Over steps; no step where the figure is not of steps.
    pub(crate) noise: Noise,
}

impl RunFigure {
    /// A figure of the whole run.
    pub(crate) fn of_run(value: Option<f64>) -> Self {
        Self { value, noise: Noise::of(&[]) }
    }

    /// A mean over windows, whose sums and numbers are known by step.
    pub(crate) fn mean<K: Ord>(sums: &BTreeMap<K, i64>, windows: &BTreeMap<K, u64>) -> Self {
        let number: u64 = windows.values().sum();
        let total: i128 = sums.values().map(|ns| i128::from(*ns)).sum();
        let of_step =
            |(step, n): (&K, &u64)| sums.get(step).copied().unwrap_or(0) as f64 / (*n).max(1) as f64;
        let samples: Vec<f64> = windows.iter().map(of_step).collect();
        Self { value: (number > 0).then(|| total as f64 / number as f64), noise: Noise::of(&samples) }
    }
}

/// What can be said of a difference; nothing where there are too few steps to tell.
pub(crate) fn surety(delta: Option<f64>, significant: Option<bool>) -> &'static str {
    match (delta, significant) {
        (None, _) => "",
        (Some(0.0), _) => "same",
        (_, Some(true)) => "more than noise",
        (_, Some(false)) => "within noise",
        (_, None) => "",
    }
}

/// That the noise of this many steps, or captures, is not known. It is said of the whole only.
pub(crate) fn too_few(count: usize, sample: &str) -> String {
    match count {
        0 => String::new(),
        1 => format!("one {sample}: cannot tell"),
        _ => format!("fewer than three {sample}s: cannot tell"),
    }
}

/// The name of a figure, and what it belongs to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FigureName<'a> {
    /// Name of the figure above, of which it is a part; empty for one that stands alone.
    pub(crate) group: &'a str,
    pub(crate) name: &'a str,
    pub(crate) unit: Unit,
    pub(crate) better: Better,
}

pub(crate) const HEADINGS: [Heading; 9] = [
    ("group", "part of", CellType::Text, "the figure of which it is a part"),
    ("name", "figure", CellType::Text, "what is compared"),
    ("unit", "unit", CellType::Text, "ns, bytes, count, ratio or number"),
    ("better", "better", CellType::Text, "less or more, where one of them is better"),
    ("this", "this run", CellType::Number, "value of this run"),
    ("base", "baseline", CellType::Number, "value of the baseline"),
    ("delta", "difference", CellType::Number, "this run - baseline"),
    ("delta_ratio", "of baseline", CellType::Ratio, "the difference as a share of the baseline's value"),
    (
        "surety",
        "noise",
        CellType::Text,
        "whether the difference is more than three standard errors over the steps; empty: too few to tell",
    ),
];

/// Adds a figure of both runs; none if both lack it.
pub(crate) fn push(grid: &mut Grid, texts: &mut Texts, what: FigureName, this: RunFigure, base: RunFigure) {
    if this.value.is_none() && base.value.is_none() {
        return;
    }
    let delta = this.value.zip(base.value).map(|(this, base)| this - base);
    let error = standard_error(base.noise, this.noise);
    let significant = delta.zip(error).map(|(delta, error)| delta.abs() > STANDARD_ERRORS * error);
    let told = match (this.value, base.value) {
        (None, _) => "not in this run".to_string(),
        (_, None) => "not in the baseline".to_string(),
        _ => surety(delta, significant).to_string(),
    };
    grid.push([
        texts.cell(what.group),
        texts.cell(what.name),
        texts.cell(what.unit.name()),
        texts.cell(what.better.name()),
        this.value.into(),
        base.value.into(),
        delta.into(),
        delta.zip(base.value).and_then(|(delta, base)| (base != 0.0).then(|| delta / base.abs())).into(),
        texts.cell(&told),
    ]);
}

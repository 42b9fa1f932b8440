//! Figures of two runs beside each other: both values, their difference, and whether it is more than the
//! noise of the steps.

use crate::output::html::grid::{Cell, Grid};
use crate::output::html::texts::Texts;
use hta_base::table;
use hta_base::table::compare::{ComparedFigure, Trend};
use hta_base::table::schema::Text;

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

/// What can be said of a difference; nothing where there are too few steps to tell.
pub(crate) fn surety(figure: &ComparedFigure) -> &'static str {
    match figure.trend() {
        Trend::Same => "same",
        Trend::Slower | Trend::Faster => "more than noise",
        Trend::WithinNoise => "within noise",
        Trend::Unknown => "",
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
    /// Name of the type of its cells: ns, bytes, count, ratio or number.
    pub(crate) unit: &'static str,
    pub(crate) better: Better,
}

table! {
    /// Figures of two runs beside each other.
    struct FigurePairs, FigurePairRow = "figures" by "group, name" {
        group: Text, "", "the figure of which it is a part", "part of";
        name: Text, "", "what is compared", "figure";
        unit: Text, "", "ns, bytes, count, ratio or number";
        better: Text, "", "less or more, where one of them is better";
        this: Option<f64>, "", "value of this run", "this run";
        base: Option<f64>, "", "value of the baseline", "baseline";
        delta: Option<f64>, "", "this run - baseline", "difference";
        delta_ratio: Option<f64>, "share", "the difference as a share of the baseline's value", "of baseline";
        surety: Text, "",
            "whether the difference is more than three standard errors over the steps; empty: too \
             few to tell",
            "noise";
    }
}

/// A grid of figures of both runs, made from this table.
pub(crate) fn figures(table: &'static str) -> Grid {
    Grid::of_tables(table, &[FigurePairs::SPEC])
}

/// A percentage as a share of one.
pub(crate) fn ratio(pct: Option<f64>) -> Cell {
    pct.map(|pct| pct / 100.0).into()
}

/// Adds a figure of both runs; none if both lack it.
pub(crate) fn push(grid: &mut Grid, texts: &mut Texts, what: FigureName, figure: &ComparedFigure) {
    let told = match (figure.test, figure.base) {
        (None, None) => return,
        (None, _) => "not in this run",
        (_, None) => "not in the baseline",
        _ => surety(figure),
    };
    push_told(grid, texts, what, figure, told);
}

/// Adds a figure, of which something is said.
pub(crate) fn push_told(
    grid: &mut Grid,
    texts: &mut Texts,
    what: FigureName,
    figure: &ComparedFigure,
    told: &str,
) {
    grid.push([
        texts.cell(what.group),
        texts.cell(what.name),
        texts.cell(what.unit),
        texts.cell(what.better.name()),
        figure.test.into(),
        figure.base.into(),
        figure.delta.into(),
        ratio(figure.pct),
        texts.cell(told),
    ]);
}

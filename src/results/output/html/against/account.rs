//! The account of time and the efficiency of two runs.

use crate::output::html::against::figure::{Better, FigureName, figures, push};
use crate::output::html::grid::Grid;
use crate::output::html::texts::Texts;
use crate::results::{Results, ResultsError};
use hta_analysis::efficiency::Efficiencies;
use hta_analysis::verdict::TIME_PARTS;
use hta_base::table::compare::{ComparedFigure, Comparison, FigureRole, FigureSpec, RunOfRanks};
use hta_base::table::value::Value;
use hta_diagnosis::TimeAccount;

/// A step of a device.
const STEP: Comparison = Comparison {
    windows: &["rank", "device"],
    figures: &[FigureSpec { column: "time_ns", scope: "", role: FigureRole::Mean }],
    ..Comparison::of(TimeAccount::SPEC)
};
const PARTS: Comparison = Comparison { by: &["part"], ..STEP };
const OWNERS: Comparison = Comparison { by: &["part", "cause"], ..STEP };

/// Waiting and transfer are unmatched where only one run can tell them apart, as in `hta diff`.
fn undivided(mut key: Vec<Value>) -> Vec<Value> {
    for part in key.iter_mut().take(1).filter(|part| matches!(part.text(), Some("waiting" | "transfer"))) {
        *part = Value::Text("unmatched".into());
    }
    key
}

/// The account of time of the ranks that are compared: what a step of a device consists of, and what owns the
/// lost time. `is_divided`: both runs know waiting and transfer.
///
/// # Errors
/// When a table is damaged.
pub(crate) fn account(
    runs: [RunOfRanks; 2],
    is_divided: bool,
    texts: &mut Texts,
) -> Result<Grid, ResultsError> {
    let mut grid = figures("time_account");
    let mut add = |group: &str, name: &str, better: Better, figure: Option<&ComparedFigure>| {
        let what = FigureName { group, name, unit: "ns", better };
        figure.into_iter().for_each(|figure| push(&mut grid, texts, what, figure));
    };
    let rows = |of: Comparison| {
        let of = if is_divided { of } else { Comparison { key: undivided, ..of } };
        of.rows_of_ranks(runs).map_err(ResultsError::of_view)
    };
    let (parts, owners) = (rows(PARTS)?, rows(OWNERS)?);
    for step in rows(STEP)? {
        add("", "a step of a device", Better::Less, step.figures.first());
    }
    for (column, name) in TIME_PARTS {
        let part = Some(column.trim_end_matches("_ns"));
        let better = if name == "compute" { Better::Neither } else { Better::Less };
        let is_there = |f: &&ComparedFigure| f.base.unwrap_or(0.0) != 0.0 || f.test.unwrap_or(0.0) != 0.0;
        let of_part = parts.iter().find(|row| row.key.first().and_then(Value::text) == part);
        let Some(figure) = of_part.and_then(|row| row.figures.first()).filter(is_there) else { continue };
        add("", name, better, Some(figure));
        // What only one run can tell apart has owners in that run only.
        if !is_divided && name == "unmatched" {
            continue;
        }
        for row in owners.iter().filter(|row| row.key.first().and_then(Value::text) == part) {
            let Some(owner) = row.key.get(1).and_then(Value::text) else { continue };
            add(name, &owner.replace('_', " "), better, row.figures.first());
        }
    }
    Ok(grid)
}

/// The efficiency of the job.
const EFFICIENCY: Comparison = Comparison {
    figures: &[
        factor("parallel_efficiency"),
        factor("load_balance"),
        factor("communication_efficiency"),
        factor("orchestration_efficiency"),
        factor("serialization_efficiency"),
        factor("replayed_orchestration_efficiency"),
        factor("transfer_efficiency"),
    ],
    ..Comparison::of(Efficiencies::SPEC)
};

const fn factor(column: &'static str) -> FigureSpec {
    FigureSpec { column, scope: "job", role: FigureRole::Whole }
}

/// Names of the factors, in the order in which they multiply.
const FACTORS: [(&str, &str); 7] = [
    ("", "efficiency"),
    ("efficiency", "load balance"),
    ("efficiency", "communication"),
    ("efficiency", "orchestration"),
    ("by a replay", "serialization"),
    ("by a replay", "orchestration"),
    ("by a replay", "transfer"),
];

/// The efficiency and its factors.
///
/// # Errors
/// When a table is damaged.
pub(crate) fn efficiency(this: &Results, base: &Results, texts: &mut Texts) -> Result<Grid, ResultsError> {
    let mut grid = figures("efficiency");
    for row in EFFICIENCY.rows(base, this).map_err(ResultsError::of_view)? {
        for ((group, name), figure) in FACTORS.into_iter().zip(&row.figures) {
            let what = FigureName { group, name, unit: "ratio", better: Better::More };
            push(&mut grid, texts, what, figure);
        }
    }
    Ok(grid)
}

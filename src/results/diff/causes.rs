//! Causes before and after: which are gone, new, or give more or less than before.
//!
//! A cause is the same on both sides if its `finding_id` is.

use hta_analysis::printed::{View, number, text};
use hta_base::table;
use hta_base::table::schema::{Batch, Table, Text};
use hta_base::units::fmt_pct;
use hta_base::wording::names::clip;
use hta_diagnosis::{FindingRow, Findings};
use std::collections::{BTreeMap, BTreeSet};

table! {
    /// Causes of both sides, by the gain of their repair. Withheld causes are left out.
    pub(crate) struct DiffCauses, DiffCauseRow = "diff_causes" by "state, finding_id" {
        state: Text, "", "gone, new, changed or same";
        finding_id: Text, "", "the cause, as in findings";
        kind: Text, "", "kind of cause";
        base_recoverable_pct: Option<f64>, "%",
            "what fixing it saves, of the time of the base job; null: not there";
        test_recoverable_pct: Option<f64>, "%", "the same of test";
        rank_label: Text, "", "its ranks in words, of test where it is there";
        sentence: Text, "", "the cause in words, of test where it is there";
    }
}

/// A cause whose gain changes by less is the same, percentage points,
const POINTS: f64 = 1.0;
/// or percent of the gain before.
const PCT: f64 = 20.0;

/// Largest width of a key in the view, characters.
const WIDTH: usize = 40;

/// What became of a cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CauseState {
    Gone,
    New,
    Changed,
    Same,
}

/// Causes with a smaller gain on a side are not there, percent of the time.
const LEAST: f64 = 1.0;

impl CauseState {
    pub fn name(self) -> &'static str {
        match self {
            CauseState::Gone => "gone",
            CauseState::New => "new",
            CauseState::Changed => "changed",
            CauseState::Same => "same",
        }
    }

    /// Of a cause with these gains, percent of the time; null: not there.
    fn of(base: Option<f64>, test: Option<f64>) -> CauseState {
        match (base, test) {
            (Some(_), None) => CauseState::Gone,
            (None, _) => CauseState::New,
            (Some(base), Some(test)) if (test - base).abs() > POINTS.max(base * PCT / 100.0) => {
                CauseState::Changed
            }
            _ => CauseState::Same,
        }
    }
}

/// A cause before and after.
pub struct CauseChange<'a> {
    pub state: CauseState,
    /// Gain of its repair before, percent of the time; `None`: not there.
    pub base_pct: Option<f64>,
    pub test_pct: Option<f64>,
    /// The cause, after where it is there.
    pub shown: FindingRow<'a>,
}

/// The causes of two sets, from their tables `findings`, by state and id.
pub fn changes<'a>(base: &'a [Batch], test: &'a [Batch]) -> Vec<CauseChange<'a>> {
    let (base, test) = (causes(base), causes(test));
    let ids: BTreeSet<&str> = base.keys().chain(test.keys()).copied().collect();
    let pct = |of: Option<&FindingRow>| of.and_then(|r| r.recoverable_pct);
    let change = |id: &'a str| {
        let (before, after) = (base.get(id), test.get(id));
        let (base_pct, test_pct) = (pct(before), pct(after));
        let state = CauseState::of(base_pct, test_pct);
        Some(CauseChange { state, base_pct, test_pct, shown: *after.or(before)? })
    };
    let mut out: Vec<CauseChange> = ids.into_iter().filter_map(change).collect();
    out.sort_by_key(|c| (c.state, c.shown.finding_id));
    out
}

/// The causes of a side, from its table `findings`.
fn causes<'a>(tables: &'a [Batch]) -> BTreeMap<&'a str, FindingRow<'a>> {
    let found = tables.iter().filter(|b| b.spec.name == Findings::SPEC.name);
    let rows = found
        .flat_map(Findings::rows)
        .filter(|r| r.certainty != "withheld" && r.recoverable_pct >= Some(LEAST));
    rows.map(|r| (r.finding_id, r)).collect()
}

/// Kind, key and ranks of a cause.
fn named(cause: &FindingRow) -> String {
    let key = if cause.key.is_empty() { String::new() } else { format!(" `{}`", clip(cause.key, WIDTH)) };
    format!("{}{key}, {}", cause.kind.replace('_', " "), cause.rank_label)
}

/// Compares the causes of two sets, given their tables.
pub fn compare(base: &[Batch], test: &[Batch]) -> (Batch, View) {
    let mut table = DiffCauses::default();
    let mut view = View {
        title: "Causes gone, new and changed".to_string(),
        columns: vec![text(""), number("base"), number("test"), text("cause")],
        rows: Vec::new(),
        notes: Vec::new(),
    };
    for CauseChange { state, base_pct, test_pct, shown } in changes(base, test) {
        table.push(DiffCauseRow {
            state: state.name(),
            finding_id: shown.finding_id,
            kind: shown.kind,
            base_recoverable_pct: base_pct,
            test_recoverable_pct: test_pct,
            rank_label: shown.rank_label,
            sentence: shown.sentence,
        });
        view.rows.push(vec![state.name().to_string(), fmt_pct(base_pct), fmt_pct(test_pct), named(&shown)]);
    }
    if view.rows.is_empty() {
        view.notes.push("no cause on either side gives 1 % of the time".to_string());
    }
    (table.finish(), view)
}

#[cfg(test)]
mod tests {
    use super::CauseState;

    #[test]
    fn small_changes_of_a_gain_are_none() {
        assert_eq!(CauseState::of(Some(10.0), None), CauseState::Gone);
        assert_eq!(CauseState::of(None, Some(1.0)), CauseState::New);
        assert_eq!(CauseState::of(Some(10.0), Some(11.5)), CauseState::Same);
        assert_eq!(CauseState::of(Some(10.0), Some(12.5)), CauseState::Changed);
        assert_eq!(CauseState::of(Some(1.0), Some(1.9)), CauseState::Same);
    }
}

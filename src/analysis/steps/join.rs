//! Compares slow steps of several ranks: the same step by its label, or else by its index.
//!
//! A step that one rank delays is slow on all ranks, and all others wait in communication. So among the ranks
//! that are slow in a step, the cause is most likely the one with most time that is not communication.

use crate::api::{Partial, rows};
use crate::steps::tables::{SlowStepRow, SlowSteps, StepSummary, StepsTable};
use hta_base::table::schema::{Batch, Table};
use hta_base::table::typed::Values;
use hta_base::units::Ns;
use hta_job::delay::StepKey;
use hta_trace::step::StepRule;
use std::collections::{BTreeMap, BTreeSet};

/// Rules by which the ranks' steps were found; without marked steps there is nothing to compare.
pub(crate) fn rules(partials: &[Partial]) -> BTreeSet<&str> {
    let all: BTreeSet<&str> = rows::<StepSummary>(partials).map(|r| r.step_rule).collect();
    if all.contains(StepRule::Capture.name()) { BTreeSet::new() } else { all }
}

pub(crate) fn labels_are_unique(partials: &[Partial]) -> bool {
    partials.iter().filter_map(|p| p.columns::<StepsTable>()).all(|t| {
        let rows = t.step.len();
        let labels: BTreeSet<i64> = (0..rows).filter_map(|r| t.step_label.at(r)).collect();
        labels.len() == rows
    })
}

/// Identifies a step across ranks: its label, or its index.
fn key(index: u32, label: Option<i64>, by_label: bool) -> Option<i64> {
    if by_label { label } else { Some(i64::from(index)) }
}

impl SlowStepRow<'_> {
    /// Additional time of the step, without waiting for others in communication, ns.
    pub(crate) fn own(&self) -> Ns {
        self.diff_ns - self.exposed_communication_diff_ns.max(0)
    }

    pub(crate) fn step_name(&self) -> String {
        StepKey::new(self.step, self.step_label).shown()
    }
}

/// A step that is slow on some rank.
pub(crate) struct SlowStep<'a> {
    pub(crate) key: i64,
    pub(crate) joined_by: &'static str,
    /// Number of ranks that have the step, and (next field) the rows of those on which it is slow.
    pub(crate) ranks: u32,
    pub(crate) slow: Vec<u32>,
    /// The rank and device with most additional time of its own; the others wait for it.
    pub(crate) worst: SlowStepRow<'a>,
}

pub(crate) fn slow_steps<'a>(
    partials: &'a [Partial],
    joined_by: &'static str,
    comparable: bool,
) -> Vec<SlowStep<'a>> {
    let by_label = joined_by == "label";
    // Ranks whose steps cannot be compared stay separate.
    let apart = |rank: u32| (!comparable).then_some(rank);
    let mut having: BTreeMap<(Option<u32>, i64), u32> = BTreeMap::new();
    let mut slow: BTreeMap<(Option<u32>, i64), Vec<SlowStepRow>> = BTreeMap::new();
    for p in partials {
        for k in p.rows::<StepsTable>().filter_map(|r| key(r.step, r.step_label, by_label)) {
            *having.entry((apart(p.rank), k)).or_default() += 1;
        }
        for row in p.rows::<SlowSteps>() {
            if let Some(k) = key(row.step, row.step_label, by_label) {
                slow.entry((apart(p.rank), k)).or_default().push(row);
            }
        }
    }
    let step = |(place, rows): ((Option<u32>, i64), Vec<SlowStepRow<'a>>)| {
        let mut ranks: Vec<u32> = rows.iter().map(|a| a.rank).collect();
        ranks.dedup();
        // Of equal rows, the first is chosen.
        let worst = rows.iter().rev().max_by_key(|a| a.own()).copied()?;
        let ranks_with = having.get(&place).copied().unwrap_or(0);
        Some(SlowStep { key: place.1, joined_by, ranks: ranks_with, slow: ranks, worst })
    };
    slow.into_iter().filter_map(step).collect()
}

/// Fills in which row of each slow step is the worst, and where ranks can be compared the number of ranks on
/// which it is slow. `found` must then be in order of its key.
pub(crate) fn join(batch: &Batch, found: &[SlowStep], by_label: bool, comparable: bool) -> Batch {
    let place = |row: &SlowStepRow| (row.rank, row.device, row.step);
    let worst: BTreeSet<_> = found.iter().map(|s| place(&s.worst)).collect();
    let mut table = SlowSteps::default();
    for row in SlowSteps::rows(batch) {
        let key = key(row.step, row.step_label, by_label).filter(|_| comparable);
        let step = key.and_then(|k| found.get(found.binary_search_by_key(&k, |s| s.key).ok()?));
        table.push(SlowStepRow {
            joined_by: step.map(|s| s.joined_by),
            rank_count: step.map(|s| s.ranks),
            slow_rank_count: step.map(|s| s.slow.len() as u32),
            is_worst: worst.contains(&place(&row)),
            ..row
        });
    }
    table.finish()
}

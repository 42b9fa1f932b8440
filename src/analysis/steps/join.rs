//! Compares slow steps of several ranks: the same step by its label, or else by its index.
//!
//! A step that one rank delays is slow on all ranks, and all others wait in communication. So among the ranks that are
//! slow in a step, the cause is most likely the one with most time that is not communication.

use crate::analysis::api::Partial;
use crate::analysis::steps::tables::{SlowSteps, StepSummary, StepsTable};
use crate::table::schema::{Batch, Cell, Text};
use crate::trace::step::StepRule;
use crate::units::Ns;
use arrow::array::{ArrayRef, UInt32Array};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Rules by which the ranks' steps were found; without marked steps there is nothing to compare.
pub fn rules(partials: &[Partial]) -> BTreeSet<&str> {
    let rows = partials.iter().filter_map(|p| p.table(StepSummary::SPEC)?.text("step_rule", 0));
    let all: BTreeSet<&str> = rows.collect();
    if all.contains(StepRule::Capture.name()) { BTreeSet::new() } else { all }
}

pub fn labels_are_unique(partials: &[Partial]) -> bool {
    partials.iter().filter_map(|p| p.table(StepsTable::SPEC)).all(|b| {
        let labels: BTreeSet<i64> = (0..b.len()).filter_map(|r| b.int("step_label", r)).collect();
        labels.len() == b.len()
    })
}

/// Identifies a step across ranks: its label, or its index.
fn key(batch: &Batch, row: usize, by_label: bool) -> Option<i64> {
    batch.int(if by_label { "step_label" } else { "step" }, row)
}

/// A row of `slow_steps`.
#[derive(Clone, Copy)]
pub struct At<'a> {
    pub rank: u32,
    pub batch: &'a Batch,
    pub row: usize,
}

impl At<'_> {
    pub fn int(&self, column: &str) -> Ns {
        self.batch.int(column, self.row).unwrap_or(0)
    }

    pub fn text(&self, column: &str) -> Option<&str> {
        self.batch.text(column, self.row)
    }

    /// Its additional time without waiting for others in communication, ns.
    pub fn own(&self) -> Ns {
        self.int("diff_ns") - self.int("exposed_communication_diff_ns").max(0)
    }

    pub fn name(&self) -> String {
        step_name(self.batch, self.row)
    }
}

/// Label of a row's step, or its index after an `@`.
pub fn step_name(batch: &Batch, row: usize) -> String {
    match batch.int("step_label", row) {
        Some(label) => label.to_string(),
        None => format!("@{}", batch.int("step", row).unwrap_or(0)),
    }
}

/// A step that is slow on some rank.
pub struct SlowStep<'a> {
    pub key: i64,
    pub joined_by: &'static str,
    /// Number of ranks that have the step, and (next field) the rows of those on which it is slow.
    pub ranks: u32,
    pub slow: Vec<u32>,
    /// The rank and device with most additional time of its own; the others wait for it.
    pub worst: At<'a>,
    pub several_devices: bool,
}

pub fn slow_steps<'a>(partials: &'a [Partial], joined_by: &'static str, comparable: bool) -> Vec<SlowStep<'a>> {
    let by_label = joined_by == "label";
    // Ranks whose steps cannot be compared stay separate.
    let apart = |rank: u32| (!comparable).then_some(rank);
    let mut having: BTreeMap<(Option<u32>, i64), u32> = BTreeMap::new();
    let mut slow: BTreeMap<(Option<u32>, i64), Vec<At>> = BTreeMap::new();
    for p in partials {
        if let Some(b) = p.table(StepsTable::SPEC) {
            for k in (0..b.len()).filter_map(|r| key(b, r, by_label)) {
                *having.entry((apart(p.rank), k)).or_default() += 1;
            }
        }
        if let Some(b) = p.table(SlowSteps::SPEC) {
            for row in 0..b.len() {
                if let Some(k) = key(b, row, by_label) {
                    slow.entry((apart(p.rank), k)).or_default().push(At { rank: p.rank, batch: b, row });
                }
            }
        }
    }
    let step = |(place, rows): ((Option<u32>, i64), Vec<At<'a>>)| {
        let mut ranks: Vec<u32> = rows.iter().map(|a| a.rank).collect();
        ranks.dedup();
        // Ties: the first.
        let worst = rows.iter().rev().max_by_key(|a| a.own()).copied()?;
        let ranks_with = having.get(&place).copied().unwrap_or(0);
        let several_devices = rows.len() > ranks.len();
        Some(SlowStep { key: place.1, joined_by, ranks: ranks_with, slow: ranks, worst, several_devices })
    };
    slow.into_iter().filter_map(step).collect()
}

/// Fills in the number of ranks on which each slow step is slow. `found` must be in order of its key.
pub fn join(batch: &mut Batch, found: &[SlowStep], by_label: bool) {
    let mut text = <Option<Text> as Cell>::Builder::default();
    let (mut ranks, mut slow) = (Vec::new(), Vec::new());
    for row in 0..batch.len() {
        let step = key(batch, row, by_label).and_then(|k| found.get(found.binary_search_by_key(&k, |s| s.key).ok()?));
        <Option<Text> as Cell>::push(&mut text, step.map(|s| s.joined_by));
        ranks.push(step.map(|s| s.ranks));
        slow.push(step.map(|s| s.slow.len() as u32));
    }
    let columns: [(&str, ArrayRef); 3] = [
        ("joined_by", <Option<Text> as Cell>::finish(text)),
        ("rank_count", Arc::new(UInt32Array::from(ranks))),
        ("slow_rank_count", Arc::new(UInt32Array::from(slow))),
    ];
    batch.replace(&columns);
}

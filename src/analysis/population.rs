//! Selects the rows of a per-window table on which findings and printed averages are based.
//!
//! These are the full steps (all steps, if none is full), or the span if there are no steps. The report says if partial
//! steps are left out.

use crate::analysis::api::Partial;
use crate::table::schema::{Batch, TableSpec};
use crate::units::Ns;
use crate::wording::ranks::rank_list;
use std::collections::HashMap;

/// The selected rows of one rank and device.
pub struct Group<'a> {
    pub rank: u32,
    pub device: Option<i64>,
    pub batch: &'a Batch,
    pub rows: Vec<usize>,
    /// Whether the rows are steps.
    pub is_steps: bool,
    /// Whether all steps are partial and therefore used.
    pub all_partial: bool,
}

impl Group<'_> {
    /// Sum of a column over the rows, ns.
    pub fn sum(&self, column: &str) -> Ns {
        self.rows.iter().filter_map(|&r| self.batch.int(column, r)).sum()
    }

    /// Mean of a column over the rows (rounded down), ns.
    pub fn mean(&self, column: &str) -> Ns {
        self.sum(column) / (self.rows.len().max(1) as i64)
    }

    /// Percentage of the window.
    pub fn percent(&self, column: &str) -> Option<f64> {
        crate::units::percent(self.sum(column), self.sum("dur_ns"))
    }

    /// `per step`, or `in the recorded span`.
    pub fn per(&self) -> &'static str {
        if self.is_steps { "per step" } else { "of the recorded span" }
    }

    /// The step in which a column is largest: its name for a sentence, and the value, ns. `None` if there are not
    /// several steps, or none stands out.
    pub fn worst_step(&self, column: &str) -> Option<(String, Ns)> {
        let value = |r: &usize| self.batch.int(column, *r).unwrap_or(0);
        let worst = self.rows.iter().copied().max_by_key(|r| (value(r), std::cmp::Reverse(*r)))?;
        // A step must exceed the mean by more than a twentieth to stand out.
        if !self.is_steps || self.rows.len() < 2 || value(&worst) * 20 <= self.mean(column) * 21 {
            return None;
        }
        let name = match self.batch.int("step_label", worst) {
            Some(label) => label.to_string(),
            None => format!("@{}", self.batch.int("step", worst)?),
        };
        Some((name, value(&worst)))
    }

    /// The rank, with the device if the rank has several: for a column of ranks.
    pub fn short_name(&self, several_devices: bool) -> String {
        self.who(several_devices).replacen("rank ", "", 1)
    }

    /// As `rank 3`, with the device if the rank has several.
    pub fn who(&self, several_devices: bool) -> String {
        match self.device {
            Some(d) if several_devices => format!("rank {} device {d}", self.rank),
            _ => format!("rank {}", self.rank),
        }
    }
}

/// Groups the rows of a per-window table by rank and device. Rows of streams are left out.
pub fn groups<'a>(partials: &'a [Partial], spec: &TableSpec) -> Vec<Group<'a>> {
    let mut out: Vec<Group> = Vec::new();
    for partial in partials {
        let Some(batch) = partial.table(spec) else { continue };
        // Devices in order of their first row, with their rows that are not for a stream.
        let mut places: HashMap<Option<i64>, usize> = HashMap::new();
        let mut devices: Vec<(Option<i64>, Vec<usize>)> = Vec::new();
        for row in 0..batch.len() {
            let device = batch.int("device", row);
            let place = *places.entry(device).or_insert(devices.len());
            if place == devices.len() {
                devices.push((device, Vec::new()));
            }
            if let Some((_, rows)) = devices.get_mut(place).filter(|_| batch.int("stream", row).is_none()) {
                rows.push(row);
            }
        }
        for (device, of_device) in devices {
            let scope = |name: &str| -> Vec<usize> {
                of_device.iter().copied().filter(|&r| batch.text("scope", r) == Some(name)).collect()
            };
            let steps = scope("step");
            let full: Vec<usize> = steps.iter().copied().filter(|&r| batch.int("is_partial", r) != Some(1)).collect();
            let all_partial = full.is_empty() && !steps.is_empty();
            // Without marked steps the capture is the only step; the device's own span is more informative.
            let mark = |r: usize, column: &str| batch.int(column, r);
            let capture = scope("capture").first().map(|&r| (mark(r, "ts_ns"), mark(r, "dur_ns")));
            let is_whole = |r: usize| capture == Some((mark(r, "ts_ns"), mark(r, "dur_ns")));
            let is_steps = !(steps.is_empty() || matches!(steps[..], [r] if is_whole(r)));
            let rows = match (full.is_empty(), is_steps) {
                (_, false) => scope("span"),
                (false, true) => full,
                (true, true) => steps,
            };
            out.push(Group { rank: partial.rank, device, batch, rows, is_steps, all_partial });
        }
    }
    out
}

pub fn several_devices(groups: &[Group]) -> bool {
    groups.windows(2).any(|w| w[0].rank == w[1].rank)
}

/// Why ranks have no rows, one line per reason.
pub fn reasons(partials: &[Partial]) -> Vec<String> {
    let mut seen: Vec<(&str, Vec<u32>)> = Vec::new();
    for p in partials {
        let Some(reason) = p.reason else { continue };
        match seen.iter_mut().find(|(r, _)| *r == reason) {
            Some((_, ranks)) => ranks.push(p.rank),
            None => seen.push((reason, vec![p.rank])),
        }
    }
    let line = |(reason, ranks): &(&str, Vec<u32>)| {
        let noun = if ranks.len() == 1 { "rank" } else { "ranks" };
        format!("{noun} {}: {reason}", rank_list(ranks))
    };
    seen.iter().map(line).collect()
}

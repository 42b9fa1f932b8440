//! Which rows of a per-window table a sentence or a printed average stands on.
//!
//! Full steps where there are steps (all of them when none is full), else the span. Partial steps are
//! left out of averages, and the report says so.

use crate::analysis::api::Partial;
use crate::table::schema::{Batch, TableSpec};
use crate::trace::collective::Members;
use crate::units::Ns;
use std::collections::HashMap;

/// The rows of one rank and device.
pub struct Group<'a> {
    pub rank: u32,
    pub device: Option<i64>,
    pub batch: &'a Batch,
    pub rows: Vec<usize>,
    /// Whether the rows are steps.
    pub is_steps: bool,
    /// Whether all steps were partial and count nevertheless.
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

    /// Percent of the window.
    pub fn percent(&self, column: &str) -> Option<f64> {
        crate::units::percent(self.sum(column), self.sum("dur_ns"))
    }

    /// `per step`, or `in the recorded span`.
    pub fn per(&self) -> &'static str {
        if self.is_steps { "per step" } else { "of the recorded span" }
    }

    /// The step in which a column is largest: its name for a sentence, and the value, ns. `None` without
    /// several steps, or when none of them stands out.
    pub fn worst_step(&self, column: &str) -> Option<(String, Ns)> {
        let value = |r: &usize| self.batch.int(column, *r).unwrap_or(0);
        let worst = self.rows.iter().copied().max_by_key(|r| (value(r), std::cmp::Reverse(*r)))?;
        // within a twentieth of the mean no step stands out, and one step has none to stand out of
        if !self.is_steps || self.rows.len() < 2 || value(&worst) * 20 <= self.mean(column) * 21 {
            return None;
        }
        let name = match self.batch.int("step_label", worst) {
            Some(label) => label.to_string(),
            None => format!("@{}", self.batch.int("step", worst)?),
        };
        Some((name, value(&worst)))
    }

    /// `3`, with the device where the rank has several: for a column of ranks.
    pub fn short_name(&self, several_devices: bool) -> String {
        self.who(several_devices).replacen("rank ", "", 1)
    }

    /// `rank 3`, with the device where the rank has several.
    pub fn who(&self, several_devices: bool) -> String {
        match self.device {
            Some(d) if several_devices => format!("rank {} device {d}", self.rank),
            _ => format!("rank {}", self.rank),
        }
    }
}

/// Groups the rows of a per-window table by rank and device. Rows with a stream are left out.
pub fn groups<'a>(partials: &'a [Partial], spec: &TableSpec) -> Vec<Group<'a>> {
    let mut out: Vec<Group> = Vec::new();
    for partial in partials {
        let Some(batch) = partial.table(spec) else { continue };
        // devices in order of their first row, each with its rows that have no stream
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
            // without step marks the capture is the one step: the device's own span says more
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

/// `1 step`, `5 steps`.
pub fn plural(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

/// `1 call`, `1,234 calls`: for counts that may be large.
pub fn counted(n: u64, noun: &str) -> String {
    format!("{} {noun}{}", crate::units::fmt_count(n), if n == 1 { "" } else { "s" })
}

/// `rank 3`, `ranks 0-7`.
pub fn ranks_named(ranks: &[u32]) -> String {
    format!("rank{} {}", if ranks.len() == 1 { "" } else { "s" }, rank_list(ranks))
}

/// Whether any rank has more than one device.
pub fn several_devices(groups: &[Group]) -> bool {
    groups.windows(2).any(|w| w[0].rank == w[1].rank)
}

/// `ranks 1, 2, 5-7`, shortened.
pub fn rank_list(ranks: &[u32]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for &rank in ranks {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(rank) => *last = rank,
            _ => runs.push((rank, rank)),
        }
    }
    run_list(runs.into_iter())
}

/// Runs of ranks from their first to their last, as [`rank_list`] shows them.
pub fn run_list(runs: impl ExactSizeIterator<Item = (u32, u32)>) -> String {
    let more = runs.len().saturating_sub(RUNS_SHOWN);
    let shown = |(first, last): (u32, u32)| match last - first {
        0 => first.to_string(),
        1 => format!("{first}, {last}"),
        _ => format!("{first}-{last}"),
    };
    let mut parts: Vec<String> = runs.take(RUNS_SHOWN).map(shown).collect();
    if more > 0 {
        parts.push(format!("... ({more} more)"));
    }
    parts.join(", ")
}

/// Runs that are shown of a list of ranks.
const RUNS_SHOWN: usize = 12;

/// The members of a group, as [`rank_list`] shows them, without a list of them all.
pub fn member_list(members: &Members) -> String {
    match members {
        Members::Regular { first, stride: 1, count } => {
            run_list(std::iter::once((*first, first.saturating_add(count.saturating_sub(1)))))
        }
        Members::Regular { first, stride, count } => {
            let member = |i: u32| first.saturating_add(stride.saturating_mul(i));
            run_list((0..*count).map(|i| (member(i), member(i))))
        }
        Members::Listed(ranks) => rank_list(ranks),
    }
}

/// Members that are not among the ranks present, which are in ascending order: as runs, and at most `most` of them.
pub fn absent_runs(members: &Members, present: &[u32], most: usize) -> Vec<(u32, u32)> {
    let is_present = |rank: &u32| present.binary_search(rank).is_ok();
    let Members::Regular { first, stride: 1, count } = members else {
        return members.iter().filter(|r| !is_present(r)).map(|r| (r, r)).take(most).collect();
    };
    let (mut next, last) = (*first, first.saturating_add(count.saturating_sub(1)));
    let mut runs = Vec::new();
    for &rank in present.iter().filter(|r| (*first..=last).contains(r)) {
        if rank > next {
            runs.push((next, rank - 1));
        }
        next = rank.saturating_add(1);
    }
    if next <= last && !is_present(&last) {
        runs.push((next, last));
    }
    runs.truncate(most);
    runs
}

/// Ranks of a job of `world` ranks that are not among those present, as [`rank_list`] shows them, and how many they are.
pub fn missing_ranks(world: u32, present: &[u32]) -> (String, u64) {
    let runs = Members::regular(0, 1, world).map_or(Vec::new(), |all| absent_runs(&all, present, usize::MAX));
    let count = runs.iter().map(|(a, b)| u64::from(b - a) + 1).sum();
    (run_list(runs.into_iter()), count)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_ranks_are_shortened() {
        assert_eq!(rank_list(&[1, 2, 5, 6, 7, 9]), "1, 2, 5-7, 9");
        assert_eq!(rank_list(&[]), "");
    }

    #[test]
    fn members_are_shown_as_the_list_of_them() {
        for ranks in
            [vec![4], vec![4, 5], vec![4, 5, 6], vec![1, 3, 5], vec![0, 1, 9], (0..40).map(|i| 8 * i).collect()]
        {
            assert_eq!(member_list(&Members::listed(ranks.clone())), rank_list(&ranks));
        }
        let all = Members::regular(1, 2, 1 << 30).expect("ranks");
        assert!(member_list(&all).ends_with("21, 23, ... (1073741812 more)"), "{}", member_list(&all));
    }

    #[test]
    fn absent_members_are_those_of_the_group_that_are_not_there() {
        let absent = |members: Vec<u32>, present: &[u32]| absent_runs(&Members::listed(members), present, 3);
        assert_eq!(absent(vec![0, 1, 2, 3, 4, 5], &[0, 3, 9]), [(1, 2), (4, 5)]);
        assert_eq!(absent(vec![2, 3, 4], &[1, 4]), [(2, 3)]);
        assert_eq!(absent(vec![2, 3], &[2, 3]), []);
        assert_eq!(absent(vec![0, 2, 4, 6, 8], &[4]), [(0, 0), (2, 2), (6, 6)]);
        assert_eq!(missing_ranks(u32::MAX, &[1, 2]), ("0, 3-4294967294".to_string(), 4_294_967_293));
        assert_eq!(missing_ranks(0, &[]), (String::new(), 0));
    }
}

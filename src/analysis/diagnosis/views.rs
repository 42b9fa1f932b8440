//! The printed tables: the account by rank, and by owner.

use crate::api::{Align, Options, View};
use crate::diagnosis::account::TimePart;
use crate::diagnosis::diagnose::Diagnosis;
use crate::diagnosis::trust::Trust;
use crate::diagnosis::verdict::is_listed;
use crate::facts::vendor::DeviceVendor;
use crate::job::Job;
use crate::verdict::TIME_PARTS;
use crate::worst_first::alike;
use hta_base::units::{Ns, fmt_ns, fmt_pct, percent};
use std::collections::BTreeMap;

/// A row of the printed table: ranks, and the sums of their parts over steps.
struct RankLine {
    ranks: Vec<u32>,
    /// The device of a rank with several.
    device: Option<i64>,
    is_late: bool,
    sums: [Ns; 7],
    /// Shares of the rank that the others of the row are like, percent.
    shares: [Option<f64>; 7],
}

impl RankLine {
    fn whole(&self) -> Ns {
        self.sums.iter().sum()
    }

    fn share(&self, part: usize) -> Option<f64> {
        percent(self.sums[part], self.whole())
    }

    /// Length and shares as they are printed, means of a step and rank.
    fn cells(&self, steps: Ns, parts: &[usize]) -> Vec<String> {
        let mut cells = vec![fmt_ns(self.whole() / steps / self.ranks.len().max(1) as Ns)];
        cells.extend(parts.iter().map(|i| fmt_pct(self.share(*i))));
        cells
    }

    /// Whether both lose about the same time to the same parts.
    fn is_like(&self, other: &Self) -> bool {
        let near = |i: usize| match (self.shares[i], other.shares[i]) {
            (Some(a), Some(b)) => (a - b).abs() <= ALIKE_PCT / 2.0,
            (a, b) => a == b,
        };
        self.device.is_none() && other.device.is_none() && self.is_late == other.is_late && (0..7).all(near)
    }

    fn add(&mut self, other: Self) {
        self.ranks.extend(other.ranks);
        self.sums.iter_mut().zip(other.sums).for_each(|(to, ns)| *to += ns);
    }
}

/// Largest number of rows of single ranks; of more, those that are alike share a row.
const ROWS: usize = 12;
/// Largest difference of the shares of ranks that are alike, points.
const ALIKE_PCT: f64 = 5.0;

/// Joins lines that are alike, those that stand for the most ranks first, so that single ones do not lead a
/// row.
fn joined(mut lines: Vec<RankLine>) -> Vec<RankLine> {
    lines.sort_by_key(|line| std::cmp::Reverse(line.ranks.len()));
    let mut out: Vec<RankLine> = Vec::new();
    for line in lines {
        match out.iter_mut().find(|known| known.is_like(&line)) {
            Some(known) => known.add(line),
            None => out.push(line),
        }
    }
    out
}

/// The account by rank, means of a step; ranks whose rows are equal are one row, those that make others wait
/// first, then those with the least compute. Each device of a rank with several has a row of its own.
pub(super) fn by_rank(found: &Diagnosis, job: &Job, options: &Options) -> View {
    let account = &found.account;
    let n = account.steps.len().max(1) as Ns;
    let mut sums: BTreeMap<(u32, Option<i64>), [Ns; 7]> = BTreeMap::new();
    for (_, (part, device), cell) in account.cells() {
        let sum = sums.entry((job.parts[part as usize].rank, device)).or_default();
        sum.iter_mut().zip(TimePart::ALL).for_each(|(to, part)| *to += part.of(&cell.parts));
    }
    // Columns without any time are left out.
    let is_used = |i: usize| sums.values().any(|of| of[i] > 0);
    let used: Vec<usize> = (0..TimePart::ALL.len()).filter(|i| *i == 0 || is_used(*i)).collect();
    let has_several = |rank: u32| sums.range((rank, None)..=(rank, Some(i64::MAX))).nth(1).is_some();
    // The ranks that make others wait first.
    let late: Vec<u32> = found
        .causes
        .iter()
        .find(|c| c.kind.is_late() && is_listed(c, account))
        .map_or(Vec::new(), |c| c.ranks.clone());
    let lines = sums.iter().map(|((rank, device), of)| {
        let whole = of.iter().sum();
        RankLine {
            ranks: vec![*rank],
            device: device.filter(|_| has_several(*rank)),
            is_late: late.contains(rank),
            sums: *of,
            shares: std::array::from_fn(|i| percent(of[i], whole)),
        }
    });
    // Each device of a rank has a row of its own.
    let own = |line: &RankLine| line.device.map(|device| (line.ranks.clone(), device));
    let mut rows: Vec<RankLine> = alike(lines, |line| (own(line), line.cells(n, &used)))
        .into_iter()
        .filter_map(|equal| {
            equal.into_iter().reduce(|mut all, line| {
                all.add(line);
                all
            })
        })
        .collect();
    let has_more = rows.len() > ROWS;
    if has_more {
        rows = joined(rows);
    }
    rows.iter_mut().for_each(|r| r.ranks.sort_unstable());
    rows.sort_by_key(|r| (!r.is_late, r.sums[0] / r.ranks.len() as Ns, r.ranks.clone(), r.device));
    let hidden = rows.len().saturating_sub(options.top);
    rows.truncate(options.top);
    let of_time = if found.trust.has_steps { found.trust.step_noun() } else { "recorded" };
    let mut columns = vec![("ranks", Align::Left), (of_time, Align::Right)];
    columns.extend(used.iter().map(|i| (TIME_PARTS[*i].1, Align::Right)));
    let mut notes = Vec::new();
    if hidden > 0 {
        notes.push(format!(
            "{hidden} more rows of ranks that compute for longer (--top {})",
            options.top + hidden
        ));
    }
    if has_more {
        notes
            .push(format!("rows of several ranks: means; their shares differ by at most {ALIKE_PCT} points"));
    }
    let row = |r: RankLine| {
        let device = r.device.map_or(String::new(), |d| format!(" device {d}"));
        let name = found.topology.in_column(&r.ranks) + &device;
        std::iter::once(name).chain(r.cells(n, &used)).collect()
    };
    View {
        title: "Where the time of each rank went".to_string(),
        columns,
        rows: if account.steps.is_empty() { Vec::new() } else { rows.into_iter().map(row).collect() },
        notes,
    }
}

/// The account by part and cause, of all devices and steps.
pub(super) fn by_owner(found: &Diagnosis) -> View {
    let account = &found.account;
    let mut rows: Vec<(Ns, Vec<String>)> = Vec::new();
    let mut owned: BTreeMap<TimePart, Ns> = BTreeMap::new();
    let n = account.steps.len().max(1) as Ns * i64::from(account.devices.max(1));
    let line = |what: String, ns: Ns| (ns, vec![what, fmt_ns(ns / n), fmt_pct(percent(ns, account.all()))]);
    for c in &found.causes {
        let ns = c.owned_sum();
        if ns > 0 {
            let withheld = if matches!(c.trust, Trust::Withheld(_)) { " (withheld)" } else { "" };
            rows.push(line(format!("{}{withheld}", c.words.what), ns));
        }
        for ((_, _, part), ns) in &c.owned {
            *owned.entry(*part).or_default() += ns;
        }
    }
    for (part, what) in [
        (TimePart::Waiting, "Waiting for other ranks, no cause found"),
        (TimePart::Transfer, "Transfer, no cause found"),
        (TimePart::Copies, "Copies, no cause found"),
        (TimePart::Idle, "Idle, no cause found"),
        (TimePart::FinishedEarly, "Finished early: another rank needs longer"),
    ] {
        let rest = account.sum(part) - owned.get(&part).copied().unwrap_or(0);
        if rest > 0 {
            rows.push(line(what.to_string(), rest));
        }
    }
    rows.sort_by_key(|(ns, _)| std::cmp::Reverse(*ns));
    let (compute, title) = match found.trust.vendor {
        DeviceVendor::Host => ("Compute: operators", "Where the time of all CPUs went"),
        _ => ("Compute", "Where the time of all devices went"),
    };
    let each = match (found.trust.vendor, found.trust.has_steps, found.trust.has_iterations) {
        (DeviceVendor::Host, true, false) => "a step and rank",
        (DeviceVendor::Host, true, true) => "an iteration and rank",
        (DeviceVendor::Host, false, _) => "a rank",
        (_, true, false) => "a step and device",
        (_, true, true) => "an iteration and device",
        (_, false, _) => "a device",
    };
    rows.insert(0, line(compute.to_string(), account.sum(TimePart::Compute)));
    View {
        title: title.to_string(),
        columns: vec![("where it goes", Align::Left), (each, Align::Right), ("of all time", Align::Right)],
        rows: if account.steps.is_empty() {
            Vec::new()
        } else {
            rows.into_iter().map(|(_, cells)| cells).collect()
        },
        notes: Vec::new(),
    }
}

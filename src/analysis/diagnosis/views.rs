//! The printed tables: the account by rank, and by owner.

use crate::api::{Align, Options, View};
use crate::diagnosis::account::TimePart;
use crate::diagnosis::diagnose::Diagnosis;
use crate::diagnosis::trust::Trust;
use crate::diagnosis::verdict::is_listed;
use crate::facts::vendor::DeviceVendor;
use crate::job::Job;
use hta_base::units::{Ns, fmt_ns, fmt_pct, percent};
use std::collections::BTreeMap;

/// Parts of the account that are columns of the printed table.
const SHOWN: [(TimePart, &str); 7] = [
    (TimePart::Compute, "compute"),
    (TimePart::Waiting, "waiting"),
    (TimePart::Transfer, "transfer"),
    (TimePart::Unmatched, "unmatched"),
    (TimePart::Copies, "copies"),
    (TimePart::Idle, "idle"),
    (TimePart::FinishedEarly, "finished early"),
];

/// Compute time, cells, the device of a rank with several, and the ranks.
type RankLine = (Ns, Vec<String>, Option<i64>, Vec<u32>);

/// The account by rank, means of a step; ranks whose rows are equal are one row, those that make others wait
/// first, then those with the least compute. Each device of a rank with several has a row of its own.
pub(super) fn by_rank(found: &Diagnosis, job: &Job, options: &Options) -> View {
    let account = &found.account;
    let n = account.steps.len().max(1) as Ns;
    let mut sums: BTreeMap<(u32, Option<i64>), [Ns; 7]> = BTreeMap::new();
    for (_, (part, device), cell) in account.cells() {
        let sum = sums.entry((job.parts[part as usize].rank, device)).or_default();
        sum.iter_mut().zip(SHOWN).for_each(|(to, (part, _))| *to += part.of(&cell.parts));
    }
    // Columns without any time are left out.
    let is_used = |i: usize| sums.values().any(|of| of[i] > 0);
    let used: Vec<usize> = (0..SHOWN.len()).filter(|i| *i == 0 || is_used(*i)).collect();
    let has_several = |rank: u32| sums.range((rank, None)..=(rank, Some(i64::MAX))).nth(1).is_some();
    let mut rows: Vec<RankLine> = Vec::new();
    for ((rank, device), of) in &sums {
        let device = device.filter(|_| has_several(*rank));
        let whole: Ns = of.iter().sum();
        let mut cells = vec![fmt_ns(whole / n)];
        cells.extend(used.iter().map(|i| fmt_pct(percent(of[*i], whole))));
        match rows.iter_mut().find(|(_, known, of, _)| *known == cells && device.is_none() && of.is_none()) {
            Some((.., ranks)) => ranks.push(*rank),
            None => rows.push((of[0], cells, device, vec![*rank])),
        }
    }
    // The ranks that make others wait first.
    let late: Vec<u32> = found
        .causes
        .iter()
        .find(|c| c.kind.is_late() && is_listed(c, account))
        .map_or(Vec::new(), |c| c.ranks.clone());
    let is_other = |ranks: &[u32]| ranks.iter().all(|r| !late.contains(r));
    rows.sort_by_key(|(compute, _, device, ranks)| (is_other(ranks), *compute, ranks.clone(), *device));
    let hidden = rows.len().saturating_sub(options.top);
    rows.truncate(options.top);
    let of_time = if found.trust.has_steps { found.trust.step_noun() } else { "recorded" };
    let mut columns = vec![("ranks", Align::Left), (of_time, Align::Right)];
    columns.extend(used.iter().map(|i| (SHOWN[*i].1, Align::Right)));
    let mut notes = Vec::new();
    if hidden > 0 {
        notes.push(format!(
            "{hidden} more rows of ranks that compute for longer (--top {})",
            options.top + hidden
        ));
    }
    let row = |(_, cells, device, ranks): RankLine| {
        let device = device.map_or(String::new(), |d| format!(" device {d}"));
        std::iter::once(found.topology.in_column(&ranks) + &device).chain(cells).collect()
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
        columns: vec![("where it goes", Align::Left), (each, Align::Right), ("share", Align::Right)],
        rows: if account.steps.is_empty() {
            Vec::new()
        } else {
            rows.into_iter().map(|(_, cells)| cells).collect()
        },
        notes: Vec::new(),
    }
}

//! The printed tables: the account by rank, and by owner.

use crate::account::TimePart;
use crate::cause::finding_id;
use crate::diagnose::Diagnosis;
use crate::role_tables::{ROLES, RolesOverPeriods};
use crate::verdict::is_listed;
use hta_analysis::api::ViewNote;
use hta_base::table;
use hta_base::table::schema::{Batch, Text};
use hta_base::table::view::{Note, ViewSpec};
use hta_base::units::{Ns, fmt_ns, fmt_pct, percent};
use hta_facts::vendor::DeviceVendor;
use hta_job::Job;
use hta_job::mesh::Coordinates;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

table! {
    /// The time of each rank, or of several alike, means of a step: those that make others wait first, then
    /// those with the least compute.
    pub(crate) struct TimeByRanks, TimeByRanksRow = "time_by_ranks" by "position" {
        position: u32, "", "place in the order, from 1";
        ranks: Text, "", "the ranks in words";
        device: Option<i64>, "", "device, of a rank with several";
        rank_count: u32, "ranks", "number of the ranks";
        is_late: bool, "", "they make others wait";
        time_ns: i64, "ns", "time of a step, or of what is recorded without steps", "time";
        compute_pct: Option<f64>, "%", "of it in compute", "compute";
        fused_pct: Option<f64>, "%", "in fused kernels", "fused";
        waiting_pct: Option<f64>, "%", "waiting for other ranks", "waiting";
        transfer_pct: Option<f64>, "%", "in transfer", "transfer";
        unmatched_pct: Option<f64>, "%", "in communication that is not matched", "unmatched";
        copies_pct: Option<f64>, "%", "in copies", "copies";
        idle_pct: Option<f64>, "%", "idle", "idle";
        finished_early_pct: Option<f64>, "%", "while another device needs longer for the step",
            "finished early";
    }
}

table! {
    /// The time of all devices and steps by what it is for, or what costs it.
    pub(crate) struct TimeByOwner, TimeByOwnerRow = "time_by_owner" by "position" {
        position: u32, "", "place in the order, from 1";
        owner: Text, "", "what the time is for, or the cause that costs it", "where it goes";
        finding_id: Option<Text>, "", "the cause, as in findings; null: none";
        is_withheld: bool, "", "the recording does not support the cause", "withheld";
        time_ns: i64, "ns", "time of a step and device, or of a device without steps", "time";
        share_pct: Option<f64>, "%", "of all time", "of all time";
    }
}

pub(super) const VIEWS: [ViewSpec; 3] = [
    ViewSpec {
        title: "Where the time of each rank went",
        columns: &[
            "ranks",
            "device?",
            "time_ns",
            "compute_pct",
            "fused_pct?",
            "waiting_pct?",
            "transfer_pct?",
            "unmatched_pct?",
            "copies_pct?",
            "idle_pct?",
            "finished_early_pct?",
        ],
        ..ViewSpec::of(TimeByRanks::SPEC)
    },
    ViewSpec {
        title: OWNERS,
        columns: &["owner", "is_withheld?", "time_ns", "share_pct"],
        ..ViewSpec::of(TimeByOwner::SPEC)
    },
    ViewSpec {
        title: ROLES,
        columns: &[
            "role",
            "rank_count",
            "period_count",
            "period_ns",
            "phase_pct",
            "idle_pct",
            "waits_rollout_pct",
            "waits_train_pct",
            "tail_pct",
        ],
        notes: &[Note::Text("others generate, others train: idle time in which another rank does")],
        ..ViewSpec::of(RolesOverPeriods::SPEC)
    },
];

const OWNERS: &str = "Where the time of all devices went";
/// A row of the printed table: ranks, and the sums of their parts over steps.
struct RankLine {
    ranks: Vec<u32>,
    /// The device of a rank with several.
    device: Option<i64>,
    is_late: bool,
    sums: [Ns; 8],
    /// Shares of the rank that the others of the row are like, percent.
    shares: [Option<f64>; 8],
}

impl RankLine {
    fn whole(&self) -> Ns {
        self.sums.iter().sum()
    }

    fn share(&self, part: usize) -> Option<f64> {
        percent(self.sums[part], self.whole())
    }

    /// Length, a mean of a step and rank.
    fn time(&self, steps: Ns) -> Ns {
        self.whole() / steps / self.ranks.len().max(1) as Ns
    }

    /// Length and shares as they are printed.
    fn cells(&self, steps: Ns) -> Vec<String> {
        let shares = (0..TimePart::ALL.len()).map(|i| fmt_pct(self.share(i)));
        [fmt_ns(self.time(steps))].into_iter().chain(shares).collect()
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
/// The same of ranks that share coordinates.
const SAME_PLACE_PCT: f64 = 1.0;

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

/// Joins lines of ranks that share coordinates of the mesh, along as few dimensions as possible, if those of
/// each place have about the same shares. Ranks that make others wait are apart from them.
fn by_place(lines: Vec<RankLine>, coordinates: &Coordinates) -> Result<Vec<RankLine>, Vec<RankLine>> {
    let is_narrow = |of: &[&RankLine]| {
        (0..7).all(|part| {
            let shares = || of.iter().map(|line| line.share(part).unwrap_or(0.0));
            shares().fold(0.0, f64::max) - shares().fold(100.0, f64::min) <= SAME_PLACE_PCT
        })
    };
    let late: Vec<&RankLine> = lines.iter().filter(|line| line.is_late).collect();
    let own_rows = if is_narrow(&late) { late.len().min(1) } else { late.len() };
    if lines.iter().any(|line| line.device.is_some()) {
        return Err(lines);
    }
    for place_of in coordinates.places(ROWS.saturating_sub(own_rows)) {
        let mut places: BTreeMap<Vec<u32>, Vec<&RankLine>> = BTreeMap::new();
        for line in lines.iter().filter(|line| !line.is_late) {
            places.entry(place_of(line.ranks[0])).or_default().push(line);
        }
        if places.values().all(|of| is_narrow(of)) {
            let key = |line: &RankLine| match line.is_late {
                true => (true, if own_rows == 1 { Vec::new() } else { line.ranks.clone() }),
                false => (false, place_of(line.ranks[0])),
            };
            return Ok(summed(lines, key));
        }
    }
    Err(lines)
}

/// Lines of equal keys added up.
fn summed<K: Eq + Hash>(lines: Vec<RankLine>, key: impl Fn(&RankLine) -> K) -> Vec<RankLine> {
    let sum = |mut all: RankLine, line| {
        all.add(line);
        all
    };
    alike(lines.into_iter(), key).into_iter().filter_map(|of| of.into_iter().reduce(sum)).collect()
}

/// The account by rank, means of a step; ranks whose rows are equal are one row, those that make others wait
/// first, then those with the least compute. Each device of a rank with several has a row of its own.
pub(super) fn by_rank(found: &Diagnosis, job: &Job) -> (Batch, Vec<ViewNote>) {
    let account = &found.account;
    let n = account.steps.len().max(1) as Ns;
    let mut sums: BTreeMap<(u32, Option<i64>), [Ns; 8]> = BTreeMap::new();
    for (_, (part, device), cell) in account.cells() {
        let sum = sums.entry((job.parts[part as usize].rank, device)).or_default();
        sum.iter_mut().zip(TimePart::ALL).for_each(|(to, part)| *to += part.of(&cell.parts));
    }
    let has_several = |rank: u32| sums.range((rank, None)..=(rank, Some(i64::MAX))).nth(1).is_some();
    // The ranks that make others wait first.
    let late: Vec<u32> = found
        .causes
        .iter()
        .find(|c| c.kind.is_late() && is_listed(c, account))
        .map_or(Vec::new(), |c| c.ranks.clone());
    let lines = || {
        sums.iter().map(|((rank, device), of)| RankLine {
            ranks: vec![*rank],
            device: device.filter(|_| has_several(*rank)),
            is_late: late.contains(rank),
            sums: *of,
            shares: std::array::from_fn(|i| percent(of[i], of.iter().sum())),
        })
    };
    // Each device of a rank has a row of its own.
    let own = |line: &RankLine| line.device.map(|device| (line.ranks.clone(), device));
    let mut rows = summed(lines().collect(), |line| (own(line), line.cells(n)));
    let mut alike_pct = None;
    if rows.len() > 2
        && let Some(coordinates) = found.topology.coordinates()
        && let Ok(of_places) = by_place(lines().collect(), coordinates)
        && of_places.len() < rows.len()
    {
        (rows, alike_pct) = (of_places, Some(SAME_PLACE_PCT));
    } else if rows.len() > ROWS {
        (rows, alike_pct) = (joined(rows), Some(ALIKE_PCT));
    }
    rows.iter_mut().for_each(|r| r.ranks.sort_unstable());
    rows.sort_by_key(|r| (!r.is_late, r.sums[0] / r.ranks.len() as Ns, r.ranks.clone(), r.device));
    let note = alike_pct.map(|pct| {
        let points = if pct > 1.0 { "points" } else { "point" };
        format!("rows of several ranks: means; their shares differ by at most {pct} {points}")
    });
    let mut table = TimeByRanks::default();
    for (position, r) in (1u32..).zip(&rows).filter(|_| !account.steps.is_empty()) {
        table.push(TimeByRanksRow {
            position,
            ranks: &found.topology.in_column(&r.ranks),
            device: r.device,
            rank_count: r.ranks.len() as u32,
            is_late: r.is_late,
            time_ns: r.time(n),
            compute_pct: r.share(0),
            fused_pct: r.share(1),
            waiting_pct: r.share(2),
            transfer_pct: r.share(3),
            unmatched_pct: r.share(4),
            copies_pct: r.share(5),
            idle_pct: r.share(6),
            finished_early_pct: r.share(7),
        });
    }
    let time = match found.trust.has_steps {
        true => format!("time: mean of one {}", found.trust.step_noun()),
        false => "time: all that is recorded".to_string(),
    };
    let notes = [Some(time), note].into_iter().flatten();
    let notes = notes.filter(|_| !rows.is_empty()).map(|text| ViewNote { view: "", text });
    (table.finish(), notes.collect())
}

/// The account by part and cause, of all devices and steps.
pub(super) fn by_owner(found: &Diagnosis) -> (Batch, Option<ViewNote>) {
    let account = &found.account;
    let mut rows: Vec<OwnersLine> = Vec::new();
    let mut owned: BTreeMap<TimePart, Ns> = BTreeMap::new();
    let n = account.steps.len().max(1) as Ns * i64::from(account.devices.max(1));
    let line =
        |owner: &str, ns: Ns| OwnersLine { ns, owner: owner.to_string(), finding: None, is_withheld: false };
    for c in &found.causes {
        let ns = c.owned_sum();
        if ns > 0 {
            let (finding, is_withheld) = (Some(finding_id(c)), c.is_withheld());
            rows.push(OwnersLine { finding, is_withheld, ..line(&c.words.what, ns) });
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
            rows.push(line(what, rest));
        }
    }
    rows.sort_by_key(|of| std::cmp::Reverse(of.ns));
    let compute = match found.trust.vendor {
        DeviceVendor::Host => "Compute: operators",
        _ => "Compute",
    };
    let each = match (found.trust.vendor, found.trust.has_steps, found.trust.has_iterations) {
        (DeviceVendor::Host, true, false) => "a step and rank",
        (DeviceVendor::Host, true, true) => "an iteration and rank",
        (DeviceVendor::Host, false, _) => "a rank",
        (_, true, false) => "a step and device",
        (_, true, true) => "an iteration and device",
        (_, false, _) => "a device",
    };
    let fused = account.sum(TimePart::Fused);
    if fused > 0 {
        rows.insert(0, line("Fused kernels (exchange and product in one)", fused));
    }
    rows.insert(0, line(compute, account.sum(TimePart::Compute)));
    let mut table = TimeByOwner::default();
    for (position, of) in (1u32..).zip(&rows).filter(|_| !account.steps.is_empty()) {
        table.push(TimeByOwnerRow {
            position,
            owner: &of.owner,
            finding_id: of.finding.as_deref(),
            is_withheld: of.is_withheld,
            time_ns: of.ns / n,
            share_pct: percent(of.ns, account.all()),
        });
    }
    let note = || ViewNote { view: OWNERS, text: format!("time: mean of {each}") };
    (table.finish(), (!account.steps.is_empty()).then(note))
}

/// Time of all devices and steps, ns, with its owner.
struct OwnersLine {
    ns: Ns,
    owner: String,
    finding: Option<String>,
    is_withheld: bool,
}

/// Items of equal keys together, in the order of the first of each.
fn alike<T, K: Eq + Hash>(items: impl Iterator<Item = T>, key: impl Fn(&T) -> K) -> Vec<Vec<T>> {
    let mut out: Vec<Vec<T>> = Vec::new();
    let mut known: HashMap<K, usize> = HashMap::new();
    for item in items {
        let at = *known.entry(key(&item)).or_insert(out.len());
        match out.get_mut(at) {
            Some(equal) => equal.push(item),
            None => out.push(vec![item]),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use hta_job::mesh::coordinates::Atom;

    /// A rank that computes for `compute` of 1,000 ns and waits for the rest.
    fn line(rank: u32, compute: Ns, is_late: bool) -> RankLine {
        let sums = [compute, 1000 - compute, 0, 0, 0, 0, 0, 0];
        let shares = std::array::from_fn(|i| percent(sums[i], 1000));
        RankLine { ranks: vec![rank], device: None, is_late, sums, shares }
    }

    fn mesh(dimensions: &[(&str, u32, u32)]) -> Coordinates {
        let atom = |(name, size, stride): &(&str, u32, u32)| Atom {
            names: vec![name.to_string()],
            size: *size,
            stride: *stride,
        };
        let size = dimensions.iter().map(|(_, size, _)| size).product();
        Coordinates { first: 0, size, atoms: dimensions.iter().map(atom).collect() }
    }

    fn folded(lines: Vec<RankLine>, mesh: &Coordinates) -> Option<Vec<Vec<u32>>> {
        by_place(lines, mesh).ok().map(|lines| lines.into_iter().map(|line| line.ranks).collect())
    }

    #[test]
    fn ranks_of_the_same_stage_share_a_row_if_they_lose_the_same_time() {
        let mesh = mesh(&[("tp", 2, 1), ("dp", 2, 2), ("pp", 4, 4)]);
        let by_stage =
            |own: Ns| (0..16).map(move |r| line(r, 500 + 50 * i64::from(r / 4) + own * (r % 2) as Ns, false));
        let stages: Vec<Vec<u32>> = (0..4).map(|s| (4 * s..4 * s + 4).collect()).collect();
        assert_eq!(folded(by_stage(10).collect(), &mesh), Some(stages));
        // Members of a tensor-parallel group differ, too: a row for each of 8 places.
        assert_eq!(folded(by_stage(11).collect(), &mesh).map(|rows| rows.len()), Some(8));
        // Nothing in common.
        assert_eq!(folded((0..16).map(|r| line(r, 500 + 20 * i64::from(r), false)).collect(), &mesh), None);
        // All alike.
        assert_eq!(
            folded((0..16).map(|r| line(r, 500, false)).collect(), &mesh),
            Some(vec![(0..16).collect()])
        );
    }

    #[test]
    fn late_ranks_are_apart_from_those_that_are_like_them() {
        let mesh = mesh(&[("tp", 2, 1), ("dp", 4, 2)]);
        let lines = |late: &[u32], step: Ns| -> Vec<RankLine> {
            let one = |r| {
                line(r, if late.contains(&r) { 900 + step * i64::from(r) } else { 500 }, late.contains(&r))
            };
            (0..8).map(one).collect()
        };
        let others = vec![0, 1, 4, 5, 6, 7];
        assert_eq!(folded(lines(&[2, 3], 0), &mesh), Some(vec![others.clone(), vec![2, 3]]));
        assert_eq!(folded(lines(&[2, 3], 20), &mesh), Some(vec![others, vec![2], vec![3]]));
        // A job of one dimension has no places.
        assert_eq!(folded(lines(&[2, 3], 0), &self::mesh(&[("dp", 8, 1)])), None);
    }
}

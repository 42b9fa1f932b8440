//! Turns what is known of all ranks into causes: each nanosecond of lost time has one owner, a cause says what to
//! repair, and what its repair would give. The only place that advises.

mod account;
mod advice;
mod cause;
mod causes;
mod compute;
pub mod condition;
mod context;
mod evidence;
mod gain;
pub mod grouping;
mod host;
mod host_operators;
mod kernel_mix;
mod kernel_repairs;
pub mod kind;
mod late;
mod long_steps;
mod lost;
mod memory;
mod mix_causes;
mod owners;
mod piece;
mod repair;
mod serving;
mod slow_groups;
pub mod timeline;
mod transfer;
mod trust;
mod verdict;

use crate::api::{About, Align, Analysis, Options, Output, Partial, RowEmitter, View};
use crate::diagnosis::account::TimePart;
use crate::diagnosis::cause::Cause;
use crate::diagnosis::causes::{Diagnosis, diagnose};
use crate::diagnosis::compute::compute_kernels;
use crate::diagnosis::host::{HostPauses, HostSide};
use crate::diagnosis::host_operators::HostOperators;
use crate::diagnosis::kernel_mix::KernelMix;
use crate::diagnosis::kernel_repairs::{KernelRepairs, RepairFinder};
use crate::diagnosis::kind::CauseKind;
use crate::diagnosis::lost::{LostHostTime, LostTime, ways};
use crate::diagnosis::memory::MemoryThreats;
use crate::diagnosis::timeline::{OwnedIdle, TimelineTable, TimelineWaits, waits};
use crate::diagnosis::trust::Trust;
use crate::diagnosis::verdict::finding_id;
use crate::facts::vendor::DeviceVendor;
use crate::job::Job;
use crate::job::delay::StepKey;
use crate::recording::capability::Capability;
use crate::verdict::JobVerdict;
use hta_base::table;
use hta_base::table::schema::Text;
use hta_base::units::{Ns, fmt_ns, fmt_pct, percent};
use hta_trace::interval::Union;
use hta_trace::rank_trace::RankTrace;
use std::collections::BTreeMap;

table! {
    /// Causes of lost time and of trouble with memory, the most important first, and what no cause owns. A cause of lost time is a row from 1 % of the job's time on.
    pub struct Findings, FindingRow = "findings" by "position" {
        position: u32, "", "place in the order of importance, from 1";
        finding_id: Text, "", "stable name of the cause: the same in every run that has it";
        kind: Text, "", "kind of cause (see hta explain diagnosis)";
        key: Text, "", "what it is about: a kernel, frame, call; empty if the kind says all";
        scope: Text, "", "all, local_rank, host or rank";
        ranks: Text, "", "its ranks, separated by commas";
        rank_label: Text, "", "its ranks in words";
        step_labels: Text, "", "its steps, separated by commas; empty: all";
        recoverable_ns: i64, "ns", "gain over all steps if only this cause is repaired";
        recoverable_pct: Option<f64>, "%", "of the job's time";
        basis: Text, "", "replay, bound, roofline or assumed: how the gain was found";
        owned_ns: i64, "ns", "lost time of all devices that it owns";
        useful_ns: i64, "ns", "useful time of all devices that it owns (causes in the mix of kernels)";
        share_pct: Option<f64>, "%", "owned time, of the time of all devices";
        bytes: Option<i64>, "bytes", "memory that a cause about memory is about, on its worst rank: the largest failed request, growth of the median step, the peak, or what is unused; null for causes of time";
        confidence: Text, "", "A measured, B by interpretation, C only a bound";
        p_value: Option<f64>, "", "of the test for stragglers";
        trust: Text, "", "ok, downgraded or withheld";
        trust_reason: Option<Text>, "", "why it is not ok";
        sentence: Text, "", "the cause in words";
        action: Text, "", "what to do";
    }
}

table! {
    /// The diagnosis in two lines.
    pub struct VerdictTable, VerdictRow = "verdict" by "line" {
        line: u32, "", "1: the first cause with its gain; 2: efficiency, next causes, trust";
        text: Text, "", "the line, at most 200 characters";
    }
}

table! {
    /// Numbers that support a cause, and the rows of other tables in which they stand.
    pub struct FindingEvidence, FindingEvidenceRow = "finding_evidence" by "finding_id, position" {
        finding_id: Text, "", "the cause, as in findings";
        position: u32, "", "from 1";
        evidence_table: Text, "", "table";
        filter: Text, "", "condition for its rows, in SQL";
        words: Text, "", "the number, in words";
    }
}

table! {
    /// The time of every device and step by part and owner. Over owners and parts, ns adds up to the step's time; over the parts but u, to what is lost.
    pub struct TimeAccount, TimeAccountRow = "time_account" by "rank, device, step, part, cause" {
        rank; device;
        step: Option<u32>, "", "index of the step in time, for steps without a number";
        step_label;
        part: Text, "", "u useful, s synchronizing, f transfer, n unmatched, m exposed copies, i idle, d deficit";
        cause: Option<Text>, "", "kind of the owner, or not_explained; null: useful time";
        finding_id: Option<Text>, "", "the owner, as in findings; null if it is not a finding";
        time_ns: i64, "ns", "time";
    }
}

/// Largest number of devices of a rank whose idle time is divided, because what the host did is looked up for each. No
/// machine has more, but a file may; their lost time is not explained.
const MOST_DEVICES: usize = 64;

pub struct DiagnosisOf;

impl Analysis for DiagnosisOf {
    fn about(&self) -> About {
        About {
            stem: "diagnosis",
            title: "what costs time, what its repair would give, and how sure that is",
            explain: include_str!("page.md"),
            tables: &[
                Findings::SPEC,
                FindingEvidence::SPEC,
                VerdictTable::SPEC,
                TimeAccount::SPEC,
                TimelineTable::SPEC,
                TimelineWaits::SPEC,
                HostPauses::SPEC,
            ],
            kept_tables: &[
                LostTime::SPEC,
                LostHostTime::SPEC,
                KernelMix::SPEC,
                KernelRepairs::SPEC,
                MemoryThreats::SPEC,
                HostOperators::SPEC,
            ],
            takes_groups: true,
            joins_ranks: true,
            needs: &[Capability::DeviceTime, Capability::Idle],
            ..About::DEFAULT
        }
    }

    fn map(&self, trace: &RankTrace, options: &Options, give: &mut RowEmitter) -> Partial {
        let ways = ways(trace);
        let busy = Union::new(trace.devices.iter().flat_map(|w| w.timeline.busy().spans().to_vec()));
        let host = HostSide::new(trace, &busy, &ways);
        let (mut lost, mut times) = (LostTime::default(), LostHostTime::default());
        let (mut mix, mut repairs) = (KernelMix::default(), KernelRepairs::default());
        let mut finder = RepairFinder::new(trace, options);
        let mut timeline = TimelineTable::default();
        for work in &trace.devices {
            let windows = trace.account_windows(work, &options.model);
            let cut = (windows.as_slice(), options.kernel_wait_max);
            if trace.devices.len() <= MOST_DEVICES {
                let idle = lost::push(trace, work, &host, &ways, cut, (&mut lost, &mut times));
                if options.wants(TimelineTable::SPEC) {
                    timeline::push(&mut timeline, trace, work, &OwnedIdle { idle: &idle, ways: &ways }, &windows);
                }
            }
            if work.is_gpu {
                let kernels = compute_kernels(trace, work);
                kernel_mix::push(&mut mix, trace, work, &kernels, &windows);
                kernel_repairs::push(&mut repairs, &mut finder, work, &kernels, &windows);
            }
        }
        if options.wants(TimelineTable::SPEC) {
            give(timeline.finish());
        }
        let mut threats = MemoryThreats::default();
        memory::push(&mut threats, trace, options);
        let operators = host_operators::of_rank(trace);
        let made = [lost.finish(), times.finish(), mix.finish(), repairs.finish(), threats.finish(), operators];
        let tables = made.into_iter().chain([host.pauses_table()]).collect();
        let reason = trace.without_devices();
        Partial { rank: trace.rank, tables, reason }
    }

    fn reduce(&self, partials: &[Partial], job: &Job, options: &Options) -> Output {
        let found = diagnose(job, partials, options);
        let (findings, evidence) = finding_tables(&found);
        let told = verdict::verdict(&found);
        let mut tables = vec![findings, evidence, lines(&told), time_account(&found, job), waits(job, &found.account)];
        tables.extend(partials.iter().filter_map(|p| p.table(HostPauses::SPEC)).cloned());
        let views = vec![by_rank(&found, job, options), by_owner(&found)];
        Output { tables, views, verdict: Some(told), ..Output::default() }
    }
}

fn lines(told: &JobVerdict) -> hta_base::table::schema::Batch {
    let mut table = VerdictTable::default();
    for (line, text) in (1u32..).zip(&told.lines).filter(|(_, text)| !text.is_empty()) {
        table.push(VerdictRow { line, text });
    }
    table.finish()
}

fn finding_tables(found: &Diagnosis) -> (hta_base::table::schema::Batch, hta_base::table::schema::Batch) {
    let (mut table, mut evidence) = (Findings::default(), FindingEvidence::default());
    let account = &found.account;
    for (position, c) in (1u32..).zip(&found.causes) {
        let id = finding_id(c);
        let list: Vec<String> = c.ranks.iter().map(u32::to_string).collect();
        table.push(FindingRow {
            position,
            finding_id: &id,
            kind: c.kind.name(),
            key: &c.key,
            scope: c.scope.name(),
            ranks: &list.join(","),
            rank_label: &c.rank_label,
            step_labels: &c.steps.join(","),
            recoverable_ns: c.gain,
            recoverable_pct: percent(c.gain, account.time),
            basis: c.basis.name(),
            owned_ns: c.owned_sum(),
            useful_ns: c.useful,
            share_pct: percent(c.owned_sum(), account.all()),
            bytes: c.bytes,
            confidence: c.confidence.name(),
            p_value: c.p_value,
            trust: c.trust.name(),
            trust_reason: c.trust.reason(),
            sentence: &c.sentence,
            action: &c.action,
        });
        for (position, e) in (1u32..).zip(&c.evidence) {
            evidence.push(FindingEvidenceRow {
                finding_id: &id,
                position,
                evidence_table: e.table,
                filter: &e.filter,
                words: &e.words,
            });
        }
    }
    if !account.steps.is_empty() {
        table.push(not_explained(found));
    }
    (table.finish(), evidence.finish())
}

/// The row of what no cause owns.
fn not_explained(found: &Diagnosis) -> FindingRow<'static> {
    let account = &found.account;
    let lost = account.all() - account.sum(TimePart::Useful);
    let owned: Ns = found.causes.iter().filter(|c| !c.kind.is_kernel_mix()).map(Cause::owned_sum).sum();
    FindingRow {
        position: found.causes.len() as u32 + 1,
        finding_id: CauseKind::NotExplained.name(),
        kind: CauseKind::NotExplained.name(),
        key: "",
        scope: "all",
        ranks: "",
        rank_label: "",
        step_labels: "",
        recoverable_ns: 0,
        recoverable_pct: None,
        basis: "bound",
        owned_ns: lost - owned,
        useful_ns: 0,
        share_pct: percent(lost - owned, account.all()),
        bytes: None,
        confidence: CauseKind::NotExplained.confidence().name(),
        p_value: None,
        trust: Trust::Ok.name(),
        trust_reason: None,
        sentence: "Lost time that no rule assigns to a cause",
        action: "",
    }
}

fn time_account(found: &Diagnosis, job: &Job) -> hta_base::table::schema::Batch {
    let mut table = TimeAccount::default();
    let ids: Vec<String> = found.causes.iter().map(finding_id).collect();
    // Rank, device, step and part; the cause that owns it.
    type Piece = ((u32, Option<i64>, usize, TimePart), Option<usize>, Ns);
    let mut rows: Vec<Piece> = Vec::new();
    for (s, (part, device), cell) in found.account.cells() {
        let rank = job.parts[part as usize].rank;
        for time_part in TimePart::ALL {
            let all = time_part.of(&cell.parts);
            let place = (rank, device, s, time_part);
            let mut rest = all;
            for (i, c) in found.causes.iter().enumerate() {
                let ns = c.owned.get(&(s, (part, device), time_part)).copied().unwrap_or(0);
                if ns > 0 {
                    rows.push((place, Some(i), ns));
                    rest -= ns;
                }
            }
            if rest != 0 || all == 0 && time_part == TimePart::Useful {
                rows.push((place, None, rest));
            }
        }
    }
    rows.sort_by_key(|(place, cause, _)| (*place, *cause));
    for ((rank, device, s, part), cause, ns) in rows {
        let (step, step_label) = StepKey::cells(found.account.steps[s].key);
        let owner = cause.map_or(CauseKind::NotExplained, |i| found.causes[i].kind);
        table.push(TimeAccountRow {
            rank,
            device,
            step,
            step_label,
            part: part.name(),
            cause: (part != TimePart::Useful).then(|| owner.name()),
            finding_id: cause.and_then(|i| ids.get(i)).map(String::as_str),
            time_ns: ns,
        });
    }
    table.finish()
}

/// Parts of the account that are columns of the printed table.
const SHOWN: [(TimePart, &str); 7] = [
    (TimePart::Useful, "useful"),
    (TimePart::Synchronizing, "waiting"),
    (TimePart::Transfer, "transfer"),
    (TimePart::Unmatched, "unmatched"),
    (TimePart::Copies, "copies"),
    (TimePart::Idle, "idle"),
    (TimePart::Deficit, "shorter"),
];

/// Useful time, cells, the device of a rank with several, and the ranks.
type RankLine = (Ns, Vec<String>, Option<i64>, Vec<u32>);

/// The account by rank, means of a step; ranks whose rows are equal are one row, the least useful first. Each device of a
/// rank with several has a row of its own.
fn by_rank(found: &Diagnosis, job: &Job, options: &Options) -> View {
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
    rows.sort_by_key(|(useful, _, device, ranks)| (*useful, ranks.clone(), *device));
    let hidden = rows.len().saturating_sub(options.top);
    rows.truncate(options.top);
    let of_time = if found.trust.has_steps { "step" } else { "recorded" };
    let mut columns = vec![("ranks", Align::Left), (of_time, Align::Right)];
    columns.extend(used.iter().map(|i| (SHOWN[*i].1, Align::Right)));
    let mut notes = Vec::new();
    if hidden > 0 {
        notes.push(format!("{hidden} more rows of ranks that are useful for longer (--top {})", options.top + hidden));
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
fn by_owner(found: &Diagnosis) -> View {
    let account = &found.account;
    let mut rows: Vec<(Ns, Vec<String>)> = Vec::new();
    let mut owned: BTreeMap<TimePart, Ns> = BTreeMap::new();
    let n = account.steps.len().max(1) as Ns * i64::from(account.devices.max(1));
    let line = |what: String, ns: Ns| (ns, vec![what, fmt_ns(ns / n), fmt_pct(percent(ns, account.all()))]);
    for c in &found.causes {
        let ns = c.owned_sum();
        if ns > 0 {
            let withheld = if matches!(c.trust, Trust::Withheld(_)) { " (withheld)" } else { "" };
            let ranks = found.topology.briefly(&c.ranks);
            rows.push(line(format!("{} ({ranks}){withheld}", c.kind.name().replace('_', " ")), ns));
        }
        for ((_, _, part), ns) in &c.owned {
            *owned.entry(*part).or_default() += ns;
        }
    }
    for (part, what) in [
        (TimePart::Synchronizing, "waiting for other ranks, no cause found"),
        (TimePart::Transfer, "exposed transfer, no cause found"),
        (TimePart::Copies, "exposed copies, no cause found"),
        (TimePart::Idle, "idle, no cause found"),
        (TimePart::Deficit, "step of another rank is longer"),
    ] {
        let rest = account.sum(part) - owned.get(&part).copied().unwrap_or(0);
        if rest > 0 {
            rows.push(line(what.to_string(), rest));
        }
    }
    rows.sort_by_key(|(ns, _)| std::cmp::Reverse(*ns));
    let (useful, title, each) = match (found.trust.vendor, found.trust.has_steps) {
        (DeviceVendor::Host, true) => ("useful: operators run", "Where the time of all CPUs went", "a step and rank"),
        (DeviceVendor::Host, false) => ("useful: operators run", "Where the time of all CPUs went", "a rank"),
        (_, true) => ("useful: compute runs", "Where the time of all devices went", "a step and device"),
        (_, false) => ("useful: compute runs", "Where the time of all devices went", "a device"),
    };
    rows.insert(0, line(useful.to_string(), account.sum(TimePart::Useful)));
    View {
        title: title.to_string(),
        columns: vec![("owner", Align::Left), (each, Align::Right), ("share", Align::Right)],
        rows: if account.steps.is_empty() { Vec::new() } else { rows.into_iter().map(|(_, cells)| cells).collect() },
        notes: Vec::new(),
    }
}

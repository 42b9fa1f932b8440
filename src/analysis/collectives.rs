//! Collectives of the job: every call with its wait and transfer, bandwidth, and how much was matched.

use super::across::{Group, Instance, Job, Method};
use super::api::{Align, Analysis, Mapped, Options, Output, Partial, View};
use super::collective_tables::{
    CollectiveRankRow, CollectiveRanks, CollectiveRow, CollectiveSummaries, CollectiveSummaryRow, Collectives,
    ProcessGroupRow, ProcessGroups,
};
use super::population::{plural, rank_list};
use super::summary::Summary;
use crate::model::collective::Kind;
use crate::model::rank_trace::RankTrace;
use crate::model::schema::{Batch, TableSpec};
use crate::units::{Ns, fmt_bytes, fmt_count, fmt_ns, fmt_pct, percent};
use std::collections::BTreeMap;

pub struct CollectivesOf;

impl Analysis for CollectivesOf {
    fn stem(&self) -> &'static str {
        "collectives"
    }

    fn title(&self) -> &'static str {
        "collectives matched across ranks: wait, transfer, bandwidth, skew"
    }

    fn explain(&self) -> &'static str {
        include_str!("explain/collectives.md")
    }

    fn tables(&self) -> &'static [&'static TableSpec] {
        &[CollectiveSummaries::SPEC, CollectiveRanks::SPEC, Collectives::SPEC, ProcessGroups::SPEC]
    }

    fn joins_ranks(&self) -> bool {
        true
    }

    fn map(&self, trace: &RankTrace, _: &Options) -> Mapped {
        Mapped::joined_later(trace)
    }

    fn reduce(&self, partials: &[Partial], job: &Job, options: &Options) -> Output {
        if options.compat.is_some() {
            return Output::default();
        }
        let shown = Shown::new(job, options);
        let sums = summaries(job, &shown);
        let mut tables = vec![summary_table(&sums, &shown), rank_table(job, &shown)];
        tables.extend((0..job.parts.len()).map(|p| calls(job, &shown, p as u32)));
        tables.push(group_table(job, &shown));
        let mut views = vec![summary_view(&sums, &shown, partials, options), group_view(job, &shown)];
        if !options.across.groups.is_empty() && !shown.asked.contains(&true) {
            let known: Vec<&str> = shown.names.iter().map(String::as_str).take(8).collect();
            let asked = options.across.groups.join(", ");
            views[0].notes.push(format!("no process group is called {asked}: the set has {}", known.join("; ")));
        }
        views.retain(|v| !v.rows.is_empty() || !v.notes.is_empty());
        Output { tables, findings: Vec::new(), views, raw: None }
    }
}

/// Groups by name, and which of them are asked for.
pub struct Shown {
    names: Vec<String>,
    sizes: Vec<u32>,
    asked: Vec<bool>,
    is_narrowed: bool,
}

impl Shown {
    pub fn new(job: &Job, options: &Options) -> Self {
        let wanted = &options.across.groups;
        let fits = |g: &Group, shown: &str| {
            wanted.is_empty()
                || wanted.iter().any(|w| Some(w) == g.name.as_ref() || Some(w) == g.desc.as_ref() || w == shown)
        };
        let names: Vec<String> = job.matched.groups.iter().map(|g| g.shown(&job.parts)).collect();
        let asked = job.matched.groups.iter().zip(&names).map(|(g, n)| fits(g, n)).collect();
        let sizes = job.matched.groups.iter().map(|g| g.expected() as u32).collect();
        Self { names, sizes, asked, is_narrowed: !wanted.is_empty() }
    }

    /// Whether a group is asked for.
    pub fn has(&self, group: u32) -> bool {
        self.asked.get(group as usize).copied().unwrap_or(false)
    }

    /// Whether calls that belong to no known group are asked for.
    pub fn has_groupless(&self) -> bool {
        !self.is_narrowed
    }

    /// Members of a group.
    fn sizes(&self, group: u32) -> u32 {
        self.sizes.get(group as usize).copied().unwrap_or(0)
    }

    pub fn name(&self, group: u32) -> &str {
        self.names.get(group as usize).map_or("", String::as_str)
    }
}

/// One row per call of a part, in order of start.
fn calls(job: &Job, shown: &Shown, part: u32) -> Batch {
    let p = &job.parts[part as usize];
    let mut order: Vec<usize> = (0..p.calls.calls.len()).collect();
    order.sort_by_key(|&i| (p.calls.calls[i].span.start, p.calls.calls[i].event));
    let mut table = Collectives::default();
    for i in order {
        let c = &p.calls.calls[i];
        let member = super::across::Member { part, call: i as u32 };
        let outcome = job.outcome(member);
        let instance = outcome.and_then(|o| job.instances().get(o.instance as usize));
        let group = instance.map(|i| i.group).or_else(|| job.matched.group_of(part, c.group));
        if !group.map_or(shown.has_groupless(), |g| shown.has(g)) {
            continue;
        }
        let arrivals = outcome.map(|o| job.arrivals(o.instance as usize));
        let last = instance.zip(arrivals).and_then(|(i, a)| job.members(i).get(a.last_member as usize));
        let step = p.step_of(c);
        let dur = c.span.len();
        table.push(CollectiveRow {
            rank: p.rank,
            event_id: c.event,
            collective: outcome.map(|o| o.instance),
            process_group: group.map(|g| shown.name(g)),
            kind: c.kind.name(),
            seq: c.seq,
            size_bytes: c.bytes,
            dtype: p.calls.dtype(c),
            device: c.device,
            stream: c.stream,
            step: c.step,
            step_label: step.and_then(|s| s.label),
            submit_ns: job.aligned(part, c.submit),
            ts_ns: job.aligned(part, c.span.start),
            dur_ns: dur,
            arrival_ns: job.aligned(part, c.arrival()),
            last_arrival_ns: arrivals.map(|a| a.last),
            last_rank: last.map(|m| job.parts[m.part as usize].rank),
            wait_ns: outcome.map(|o| o.wait),
            transfer_ns: outcome.map(|o| dur - o.wait),
            ends_before_last_arrival: outcome.map(|o| o.is_impossible),
            member_count: instance.map_or(1, |i| i.len() as u32),
            expected_count: instance.map(|i| i.expected),
            matched_by: instance.map(|i| i.method.name()),
        });
    }
    table.finish()
}

/// Instances of one kind, size, type and group.
#[derive(Default)]
struct Sum {
    count: u64,
    complete: u64,
    /// Transfer of the last-arriving rank, for complete instances, ns.
    transfers: Vec<Ns>,
    without_transfer: u64,
    start_skews: Vec<Ns>,
    end_skews: Vec<Ns>,
    /// Duration over all calls, ns.
    dur: Ns,
    wait: Ns,
}

/// Kind, size, type, group.
type SumKey<'a> = (Kind, Option<i64>, Option<&'a str>, u32);

fn summaries<'a>(job: &'a Job, shown: &Shown) -> BTreeMap<SumKey<'a>, Sum> {
    let mut sums: BTreeMap<SumKey, Sum> = BTreeMap::new();
    for (id, i) in job.instances().iter().enumerate().filter(|(_, i)| shown.has(i.group)) {
        let members = job.members(i);
        let Some(head) = members.first() else { continue };
        let dtype = job.parts[head.part as usize].calls.dtype(job.call(*head));
        let kind = if i.method == Method::Peers { Kind::SendRecv } else { i.kind };
        let sum = sums.entry((kind, i.bytes, dtype, i.group)).or_default();
        sum.count += 1;
        for m in members {
            sum.dur += job.call(*m).span.len();
            sum.wait += job.outcome(*m).map_or(0, |o| o.wait);
        }
        let a = job.arrivals(id);
        if !i.is_complete() || a.is_impossible || i.len() < 2 {
            continue;
        }
        sum.complete += 1;
        sum.start_skews.push(a.last - a.first);
        sum.end_skews.push(a.end_skew);
        let Some(last) = members.get(a.last_member as usize) else { continue };
        let transfer = job.call(*last).span.len() - job.outcome(*last).map_or(0, |o| o.wait);
        if transfer > 0 {
            sum.transfers.push(transfer);
        } else {
            sum.without_transfer += 1;
        }
    }
    sums
}

/// Algorithm bandwidth of a set of instances, GB/s: sum of sizes over sum of times.
fn alg_bandwidth(bytes: Option<i64>, transfers: &Summary) -> Option<f64> {
    let bytes = bytes? as f64 * transfers.count as f64;
    (transfers.sum > 0).then(|| bytes / transfers.sum as f64)
}

fn summary_table(sums: &BTreeMap<SumKey, Sum>, shown: &Shown) -> Batch {
    let mut table = CollectiveSummaries::default();
    for ((kind, bytes, dtype, group), s) in sums {
        let t = Summary::new(s.transfers.clone());
        let (start, end) = (Summary::new(s.start_skews.clone()), Summary::new(s.end_skews.clone()));
        let some = |n: u64, v: Ns| (n > 0).then_some(v);
        let alg = alg_bandwidth(*bytes, &t);
        let members = shown.sizes(*group);
        table.push(CollectiveSummaryRow {
            kind: kind.name(),
            size_bytes: *bytes,
            dtype: *dtype,
            process_group: shown.name(*group),
            member_count: members,
            count: s.count,
            complete_count: s.complete,
            timed_count: t.count,
            untimed_count: s.without_transfer,
            dur_sum_ns: s.dur,
            wait_sum_ns: s.wait,
            transfer_sum_ns: t.sum,
            transfer_mean_ns: (t.count > 0).then_some(t.mean),
            transfer_p50_ns: some(t.count, t.p50),
            transfer_p95_ns: some(t.count, t.p95),
            alg_bw_gb_per_s: alg,
            bus_bw_gb_per_s: alg.map(|a| a * kind.bus_factor(members)),
            start_skew_p50_ns: some(start.count, start.p50),
            start_skew_max_ns: some(start.count, start.max),
            end_skew_p50_ns: some(end.count, end.p50),
            end_skew_max_ns: some(end.count, end.max),
        });
    }
    table.finish()
}

fn rank_table(job: &Job, shown: &Shown) -> Batch {
    #[derive(Default)]
    struct Row {
        calls: u64,
        unmatched: u64,
        bytes: i64,
        unsized_calls: u64,
        dur: Ns,
        wait: Ns,
        matched_dur: Ns,
        last: u64,
    }
    let mut table = CollectiveRanks::default();
    for (part, p) in job.parts.iter().enumerate() {
        let part = part as u32;
        let mut rows: BTreeMap<(Option<u32>, Kind), Row> = BTreeMap::new();
        for (i, c) in p.calls.calls.iter().enumerate() {
            let member = super::across::Member { part, call: i as u32 };
            let outcome = job.outcome(member);
            let instance = outcome.and_then(|o| job.instances().get(o.instance as usize).zip(Some(o)));
            let group = instance.map(|(i, _)| i.group).or_else(|| job.matched.group_of(part, c.group));
            if !group.map_or(shown.has_groupless(), |g| shown.has(g)) {
                continue;
            }
            let row = rows.entry((group, c.kind)).or_default();
            row.calls += 1;
            row.bytes += c.bytes.unwrap_or(0);
            row.unsized_calls += u64::from(c.bytes.is_none());
            row.dur += c.span.len();
            match instance {
                None => row.unmatched += 1,
                Some((instance, o)) => {
                    row.wait += o.wait;
                    row.matched_dur += c.span.len();
                    let a = job.arrivals(o.instance as usize);
                    row.last += u64::from(job.members(instance).get(a.last_member as usize) == Some(&member));
                }
            }
        }
        for ((group, kind), r) in rows {
            table.push(CollectiveRankRow {
                rank: p.rank,
                process_group: group.map(|g| shown.name(g)),
                kind: kind.name(),
                count: r.calls,
                unmatched_count: r.unmatched,
                size_sum_bytes: r.bytes,
                unsized_count: r.unsized_calls,
                dur_sum_ns: r.dur,
                wait_sum_ns: r.wait,
                transfer_sum_ns: r.matched_dur - r.wait,
                unmatched_sum_ns: r.dur - r.matched_dur,
                last_count: r.last,
            });
        }
    }
    table.finish()
}

/// How much of a group was matched.
#[derive(Default)]
struct Share {
    calls: u64,
    matched: u64,
    instances: u64,
    complete: u64,
    disagree: u64,
    impossible: u64,
    methods: BTreeMap<Method, u64>,
}

fn shares(job: &Job) -> Vec<Share> {
    let mut shares: Vec<Share> = Vec::new();
    shares.resize_with(job.matched.groups.len(), Share::default);
    for (id, i) in job.instances().iter().enumerate() {
        let Some(s) = shares.get_mut(i.group as usize) else { continue };
        s.calls += i.len() as u64;
        s.instances += 1;
        s.complete += u64::from(i.is_complete());
        s.disagree += u64::from(i.disagrees);
        s.impossible += u64::from(job.arrivals(id).is_impossible);
        if i.len() > 1 {
            s.matched += i.len() as u64;
            *s.methods.entry(i.method).or_default() += i.len() as u64;
        }
    }
    for (group, _, kinds) in &job.matched.conflicts {
        if let Some(s) = shares.get_mut(*group as usize) {
            s.disagree += kinds.len() as u64;
        }
    }
    shares
}

fn methods(s: &Share) -> String {
    s.methods.keys().map(|m| m.name()).collect::<Vec<_>>().join(", ")
}

fn group_table(job: &Job, shown: &Shown) -> Batch {
    let mut table = ProcessGroups::default();
    for (g, (group, s)) in job.matched.groups.iter().zip(shares(job)).enumerate() {
        if !shown.has(g as u32) {
            continue;
        }
        let members = group.members.as_deref().map(rank_list);
        table.push(ProcessGroupRow {
            process_group: shown.name(g as u32),
            name: group.name.as_deref(),
            description: group.desc.as_deref(),
            members: members.as_deref(),
            member_count: group.expected() as u32,
            present_count: group.uses.len() as u32,
            is_inferred: group.is_inferred,
            matched_by: &methods(&s),
            call_count: s.calls,
            matched_count: s.matched,
            matched_pct: (s.calls > 0).then(|| 100.0 * s.matched as f64 / s.calls as f64),
            collective_count: s.instances,
            complete_count: s.complete,
            disagreement_count: s.disagree,
            end_before_last_arrival_count: s.impossible,
        });
    }
    table.finish()
}

fn summary_view(sums: &BTreeMap<SumKey, Sum>, shown: &Shown, partials: &[Partial], options: &Options) -> View {
    let mut order: Vec<(&SumKey, &Sum)> = sums.iter().collect();
    order.sort_by_key(|(key, s)| (std::cmp::Reverse(s.dur), **key));
    let mut view = View {
        title: "Collectives: time, waiting and bandwidth".to_string(),
        columns: vec![
            ("kind", Align::Left),
            ("size", Align::Right),
            ("group", Align::Left),
            ("count", Align::Right),
            ("time", Align::Right),
            ("waiting", Align::Right),
            ("transfer", Align::Right),
            ("bus GB/s", Align::Right),
            ("skew", Align::Right),
        ],
        rows: Vec::new(),
        notes: super::population::reasons(partials),
    };
    for ((kind, bytes, _, group), s) in order.iter().take(options.top) {
        let t = Summary::new(s.transfers.clone());
        let start = Summary::new(s.start_skews.clone());
        let alg = alg_bandwidth(*bytes, &t);
        let dash = || "-".to_string();
        view.rows.push(vec![
            kind.name().to_string(),
            bytes.map_or_else(dash, |b| fmt_bytes(b as u64)),
            shown.name(*group).to_string(),
            fmt_count(s.count),
            fmt_ns(s.dur),
            fmt_pct(percent(s.wait, s.dur)),
            if t.count > 0 { fmt_ns(t.p50) } else { dash() },
            alg.map_or_else(dash, |a| format!("{:.1}", a * kind.bus_factor(shown.sizes(*group)))),
            if start.count > 0 { fmt_ns(start.p50) } else { dash() },
        ]);
    }
    if !view.rows.is_empty() {
        let line = "time: of all calls on all ranks; transfer, skew (last minus first arrival): medians";
        view.notes.push(line.to_string());
    }
    if order.len() > options.top {
        view.notes.push(format!("{} more, with less time, are in the table", order.len() - options.top));
    }
    view
}

fn group_view(job: &Job, shown: &Shown) -> View {
    let mut view = View {
        title: "How calls were matched across ranks".to_string(),
        columns: vec![
            ("group", Align::Left),
            ("ranks", Align::Right),
            ("by", Align::Left),
            ("calls", Align::Right),
            ("matched", Align::Right),
            ("complete", Align::Right),
        ],
        rows: Vec::new(),
        notes: Vec::new(),
    };
    let shares = shares(job);
    let mut order: Vec<usize> = (0..shares.len()).filter(|g| shown.has(*g as u32)).collect();
    order.sort_by_key(|&g| (std::cmp::Reverse(shares[g].calls), g));
    for &g in order.iter().take(GROUPS_SHOWN) {
        let (s, group) = (&shares[g], &job.matched.groups[g]);
        view.rows.push(vec![
            shown.name(g as u32).to_string(),
            format!("{} of {}", group.uses.len(), group.expected()),
            methods(s),
            fmt_count(s.calls),
            fmt_pct((s.calls > 0).then(|| 100.0 * s.matched as f64 / s.calls as f64)),
            format!("{} of {}", fmt_count(s.complete), fmt_count(s.instances)),
        ]);
    }
    if order.len() > GROUPS_SHOWN {
        view.notes.push(format!("{} more groups are in the table", order.len() - GROUPS_SHOWN));
    }
    view.notes.extend(warnings(job));
    view
}

/// Groups that are printed.
const GROUPS_SHOWN: usize = 12;

/// What is wrong with the calls, or with the clocks.
pub fn warnings(job: &Job) -> Vec<String> {
    let mut out = Vec::new();
    out.extend(incomplete(job));
    let impossible = (0..job.instances().len()).filter(|i| job.arrivals(*i).is_impossible).count();
    if impossible > 0 {
        out.push(format!(
            "{} ended on some rank before the last one arrived (collective_end_before_last_arrival): clocks differ, \
             or a match is wrong; left out of bandwidth, and of the alignment while they are few",
            plural(impossible, "collective")
        ));
    }
    for i in job.instances().iter().filter(|i| i.disagrees).take(3) {
        out.push(disagreement(job, i));
    }
    for (g, seq, kinds) in job.matched.conflicts.iter().take(3) {
        let kinds: Vec<&str> = kinds.iter().map(|k| k.name()).collect();
        let group = job.matched.groups.get(*g as usize).map(|g| g.shown(&job.parts)).unwrap_or_default();
        out.push(format!("group {group}: members disagree about number {seq}: {}", kinds.join(", ")));
    }
    let mut groupless: Vec<u32> = Vec::new();
    let mut without_origin: Vec<u32> = Vec::new();
    for (part, p) in job.parts.iter().enumerate() {
        if !p.has_origin && !p.calls.calls.is_empty() {
            without_origin.push(p.rank);
        } else if p.calls.calls.iter().any(|c| job.matched.group_of(part as u32, c.group).is_none()) {
            groupless.push(p.rank);
        }
    }
    if !groupless.is_empty() {
        out.push(format!(
            "ranks {}: some calls name no group, and what the ranks did does not tell it: left unmatched",
            rank_list(&groupless)
        ));
    }
    if !without_origin.is_empty() {
        out.push(format!(
            "ranks {}: times without a known origin cannot be compared: left unmatched",
            rank_list(&without_origin)
        ));
    }
    out
}

fn disagreement(job: &Job, i: &Instance) -> String {
    let sizes: Vec<String> = job
        .members(i)
        .iter()
        .map(|m| {
            let c = job.call(*m);
            let dtype = job.parts[m.part as usize].calls.dtype(c).unwrap_or("-");
            let size = c.bytes.map_or("-".to_string(), |b| format!("{b} bytes"));
            format!("rank {} {size} {dtype}", job.parts[m.part as usize].rank)
        })
        .take(4)
        .collect();
    format!("members disagree about one {}: {}", i.kind.name(), sizes.join(", "))
}

/// Groups of which a rank is not in the set.
fn incomplete(job: &Job) -> Option<String> {
    let present: Vec<u32> = job.parts.iter().map(|p| p.rank).collect();
    let mut absent: Vec<u32> = job
        .matched
        .groups
        .iter()
        .filter_map(|g| g.members.as_ref())
        .flatten()
        .copied()
        .filter(|r| !present.contains(r))
        .collect();
    absent.sort_unstable();
    absent.dedup();
    (!absent.is_empty()).then(|| {
        format!(
            "traces of {}{} are missing: a wait for one of them looks like transfer, and it cannot be named",
            if absent.len() == 1 { "rank " } else { "ranks " },
            rank_list(&absent)
        )
    })
}

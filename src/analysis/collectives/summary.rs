//! Statistics of the instances of one kind, size, type and group: bandwidth and skew; and of the calls of one
//! title.

use crate::collectives::GroupSelection;
use crate::collectives::tables::{
    CollectiveSummaries, CollectiveSummaryRow, CollectiveTitleRow, CollectiveTitles,
};
use crate::summary::Summary;
use hta_base::table::schema::Batch;
use hta_base::units::{Ns, percent};
use hta_job::{Job, MatchMethod, Member};
use hta_trace::collective::CollectiveKind;
use hta_trace::step::mask;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Default)]
pub(crate) struct InstanceStats {
    count: u64,
    complete: u64,
    /// Transfer times of the rank that arrived last, for complete instances, ns.
    transfers: Vec<Ns>,
    without_transfer: u64,
    start_skews: Vec<Ns>,
    end_skews: Vec<Ns>,
    /// Summed duration of all calls, ns.
    dur: Ns,
    /// Summed duration of the calls whose waiting is known, ns.
    divided_dur: Ns,
    wait: Option<Ns>,
}

/// Kind, size, type, group.
pub(crate) type SumKey<'a> = (CollectiveKind, Option<i64>, Option<&'a str>, u32);

pub(crate) fn summaries<'a>(job: &'a Job, shown: &GroupSelection) -> BTreeMap<SumKey<'a>, InstanceStats> {
    let mut sums: BTreeMap<SumKey, InstanceStats> = BTreeMap::new();
    for (id, i) in job.instances().iter().enumerate().filter(|(_, i)| shown.has(i.group)) {
        let members = job.members(i);
        let Some(head) = members.first() else { continue };
        let dtype = job.parts[head.part as usize].calls.dtype(job.call(*head));
        let kind = if i.method == MatchMethod::Peers { CollectiveKind::SendRecv } else { i.kind };
        let sum = sums.entry((kind, i.bytes, dtype, i.group)).or_default();
        sum.count += 1;
        for m in members {
            sum.dur += job.call(*m).span.len();
            if let Some(outcome) = job.told_wait(*m) {
                sum.divided_dur += job.call(*m).span.len();
                *sum.wait.get_or_insert(0) += outcome.wait;
            }
        }
        let a = job.arrivals(id);
        if !i.is_complete() || a.is_impossible || i.len() < 2 {
            continue;
        }
        sum.complete += 1;
        sum.start_skews.push(a.last - a.first);
        sum.end_skews.push(a.end_skew);
        if job.is_stray(id as u32) || i.kind == CollectiveKind::Fused {
            continue;
        }
        let Some(last) = members.get(a.last_member as usize) else { continue };
        let transfer = job.transfer_ns(*last).unwrap_or_else(|| job.call(*last).span.len());
        if transfer > 0 {
            sum.transfers.push(transfer);
        } else {
            sum.without_transfer += 1;
        }
    }
    sums
}

/// Algorithm bandwidth of a set of instances, GB/s: sum of sizes divided by sum of times.
fn alg_bandwidth(bytes: Option<i64>, transfers: &Summary) -> Option<f64> {
    let bytes = bytes? as f64 * transfers.count as f64;
    (transfers.sum > 0).then(|| bytes / transfers.sum as f64)
}

pub(crate) fn summary_table(sums: &BTreeMap<SumKey, InstanceStats>, shown: &GroupSelection) -> Batch {
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
            unmatched_sum_ns: s.dur - s.divided_dur,
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
            wait_pct: s.wait.and_then(|wait| percent(wait, s.divided_dur)),
        });
    }
    table.finish()
}

/// The calls of a title and kind, over all ranks.
#[derive(Default)]
struct TitleSums<'a> {
    texts: BTreeSet<&'a str>,
    calls: u64,
    dur: Ns,
    wait: Option<Ns>,
    /// Length of the calls whose waiting is known, ns.
    divided_dur: Ns,
}

/// Collectives by the titles that `dist.record_comm` gave them.
pub(super) fn title_table(job: &Job, shown: &GroupSelection) -> Batch {
    let mut sums: BTreeMap<(String, CollectiveKind), TitleSums> = BTreeMap::new();
    for (part, p) in (0u32..).zip(&job.parts) {
        for (call, c) in (0u32..).zip(&p.calls.calls) {
            let Some(title) = p.calls.title(c) else { continue };
            let member = Member { part, call };
            let instance = job.instance_of(member).and_then(|id| job.instances().get(id as usize));
            let group = instance.map(|i| i.group).or_else(|| job.matched.group_of(part, c.shape.group));
            if !group.map_or(shown.has_groupless(), |g| shown.has(g)) {
                continue;
            }
            let sum = sums.entry((mask(title), c.shape.kind)).or_default();
            sum.texts.insert(title);
            sum.calls += 1;
            sum.dur += c.span.len();
            if let Some(outcome) = job.told_wait(member) {
                *sum.wait.get_or_insert(0) += outcome.wait;
                sum.divided_dur += c.span.len();
            }
        }
    }
    let mut table = CollectiveTitles::default();
    for ((title, kind), sum) in &sums {
        table.push(CollectiveTitleRow {
            title,
            kind: kind.name(),
            text_count: sum.texts.len() as u64,
            count: sum.calls,
            dur_sum_ns: sum.dur,
            wait_sum_ns: sum.wait,
            transfer_sum_ns: sum.wait.map(|wait| sum.divided_dur - wait),
            unmatched_sum_ns: sum.dur - sum.divided_dur,
            wait_pct: sum.wait.and_then(|wait| percent(wait, sum.divided_dur)),
        });
    }
    table.finish()
}

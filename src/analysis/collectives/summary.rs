//! Statistics of the instances of one kind, size, type and group: bandwidth and skew.

use crate::api::{Align, Options, Partial, View};
use crate::collectives::GroupSelection;
use crate::collectives::tables::{CollectiveSummaries, CollectiveSummaryRow};
use crate::job::{Job, MatchMethod};
use crate::population::reasons;
use crate::summary::Summary;
use hta_base::table::schema::Batch;
use hta_base::units::{Ns, fmt_bytes, fmt_count, fmt_ns, fmt_pct, percent};
use hta_base::wording::counts::plural;
use hta_trace::collective::CollectiveKind;
use std::collections::BTreeMap;

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
        });
    }
    table.finish()
}

pub(crate) fn summary_view(
    sums: &BTreeMap<SumKey, InstanceStats>,
    shown: &GroupSelection,
    partials: &[Partial],
    options: &Options,
) -> View {
    let mut order: Vec<(&SumKey, &InstanceStats)> = sums.iter().collect();
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
        notes: reasons(partials),
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
            fmt_pct(s.wait.and_then(|wait| percent(wait, s.divided_dur))),
            if t.count > 0 { fmt_ns(t.p50) } else { dash() },
            alg.map_or_else(dash, |a| format!("{:.1}", a * kind.bus_factor(shown.sizes(*group)))),
            if start.count > 0 { fmt_ns(start.p50) } else { dash() },
        ]);
    }
    if !view.rows.is_empty() {
        let line = "time: of all calls on all ranks; waiting: of the time of calls that other ranks matched, \
                    - where there are none; transfer, skew (last minus first arrival): medians";
        view.notes.push(line.to_string());
    }
    if order.len() > options.top {
        view.notes
            .push(format!("{}, with less time, in the table", plural(order.len() - options.top, "more row")));
    }
    view
}

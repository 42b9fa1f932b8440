//! `--compat hta`: Meta's Holistic Trace Analysis 0.5.0, four of its analyses; the others stand in files beside
//! this one.
//!
//! Reproduced on purpose, because its figures exist only with them: whole microseconds (starts rounded
//! up, ends down, so that a length can become -1), classes by name, every row with a stream as GPU work,
//! the last profiler step left out. A length of -1 subtracts from a union there; so it does here.
//! Not reproduced: rows without a launch joined with event 0, and crashes.

use crate::analysis::api::{Output, Partial};
use crate::analysis::compat::hta_loader::{Kind, Row, load};
use crate::analysis::compat::{concatenated, rounded_percent, view};
use crate::table;
use crate::table::schema::{Batch, Text};
use crate::trace::category::Class;
use crate::trace::rank_trace::RankTrace;
use std::collections::{BTreeMap, HashMap};

table! {
    /// HTA's `get_temporal_breakdown`: devices pooled.
    pub struct Temporal, TemporalRow = "compat_hta_temporal_breakdown" by "rank" {
        rank: u32, "", "rank";
        idle as "idle_time(us)": i64, "us", "between GPU rows";
        compute as "compute_time(us)": i64, "us", "union of compute rows";
        non_compute as "non_compute_time(us)": i64, "us", "the rest";
        kernel as "kernel_time(us)": i64, "us", "first start to last end";
        idle_pct as "idle_time_pctg": Option<f64>, "%", "of kernel_time";
        compute_pct as "compute_time_pctg": Option<f64>, "%", "of kernel_time";
        non_compute_pct as "non_compute_time_pctg": Option<f64>, "%", "of kernel_time";
    }
}

table! {
    /// HTA's `get_comm_comp_overlap`.
    pub struct CommComp, CommCompRow = "compat_hta_comm_comp_overlap" by "rank" {
        rank: u32, "", "rank";
        overlap as "comp_comm_overlap_pctg": Option<f64>, "%", "of communication; null without";
    }
}

table! {
    /// HTA's `get_gpu_kernel_breakdown`, kernel types, summed over ranks.
    pub struct KernelTypes, KernelTypeRow = "compat_hta_gpu_kernel_type_breakdown" by "sum descending" {
        kernel_type: Text, "", "classes that run together";
        sum: i64, "us", "time";
        percentage: Option<f64>, "%", "of all types";
    }
}

table! {
    /// HTA's `get_gpu_kernel_breakdown`, all names (without its row `others`).
    pub struct KernelNames, KernelNameRow = "compat_hta_gpu_kernel_breakdown" by "rank, kernel_type, sum descending, name" {
        name: Text, "", "kernel";
        sum as "sum (us)": i64, "us", "sum of durations";
        max as "max (us)": i64, "us", "longest";
        min as "min (us)": i64, "us", "shortest";
        stddev: f64, "us", "sample standard deviation, 0 for one";
        mean as "mean (us)": f64, "us", "mean";
        kernel_type: Text, "", "class by name";
        rank: u32, "", "rank";
    }
}

table! {
    /// HTA's `get_idle_time_breakdown`, per stream.
    pub struct IdleTimes, IdleTimeRow = "compat_hta_idle_time_breakdown" by "rank, stream in order of appearance, idle_category" {
        rank: u32, "", "rank";
        stream: i64, "", "stream";
        idle_category: Text, "", "host_wait, kernel_wait or other";
        idle_time: i64, "us", "sum of gaps, negative ones included";
        idle_time_ratio: Option<f64>, "", "of the stream's idle time";
    }
}

table! {
    /// Time per set of classes on one rank; the input of `compat_hta_gpu_kernel_type_breakdown`.
    pub struct TypeSums, TypeSumRow = "compat_hta_type_sums" by "set" {
        set: u32, "", "bit set";
        sum: i64, "us", "time";
    }
}

const TYPES: [(Kind, &str); 3] =
    [(Kind::Computation, "COMPUTATION"), (Kind::Communication, "COMMUNICATION"), (Kind::Memory, "MEMORY")];

/// HTA's merge of rows: sorted by start, a new group where a row starts after all earlier ends. A row
/// of length -1 alone makes a group of length -1.
fn merge(rows: impl Iterator<Item = Row>) -> Vec<(i64, i64)> {
    let mut all: Vec<(i64, i64)> = rows.map(|r| (r.ts, r.end())).collect();
    all.sort_by_key(|r| r.0);
    let mut groups: Vec<(i64, i64)> = Vec::new();
    let mut latest = i64::MIN;
    for (start, end) in all {
        match groups.last_mut() {
            Some(last) if start <= latest => last.1 = last.1.max(end),
            _ => groups.push((start, end)),
        }
        latest = latest.max(end);
    }
    groups
}

fn length(groups: &[(i64, i64)]) -> i64 {
    groups.iter().map(|(a, b)| b - a).sum()
}

fn mapped(trace: &RankTrace, table: Batch, empty: bool) -> Partial {
    let reason = empty.then_some("no GPU row");
    Partial { rank: trace.rank, tables: vec![table], reason }
}

pub fn temporal(trace: &RankTrace) -> Partial {
    let rows = load(trace);
    let mut table = Temporal::default();
    if let (Some(first), Some(last)) = (rows.iter().map(|r| r.ts).min(), rows.iter().map(Row::end).max()) {
        let span = last - first;
        let all = merge(rows.iter().copied());
        let idle: i64 = all.windows(2).map(|w| w[1].0 - w[0].1).sum();
        let compute = length(&merge(rows.iter().copied().filter(|r| r.kind == Kind::Computation)));
        let non_compute = span - idle - compute;
        table.push(TemporalRow {
            rank: trace.rank,
            idle,
            compute,
            non_compute,
            kernel: span,
            idle_pct: rounded_percent(idle, span, 2),
            compute_pct: rounded_percent(compute, span, 2),
            non_compute_pct: rounded_percent(non_compute, span, 2),
        });
    }
    mapped(trace, table.finish(), rows.is_empty())
}

pub fn overlap(trace: &RankTrace) -> Partial {
    let rows = load(trace);
    let union = |kind: Kind| {
        let spans = rows.iter().filter(|r| r.kind == kind).map(|r| crate::units::Span::new(r.ts, r.end()));
        crate::trace::interval::Union::new(spans)
    };
    let (compute, communication) = (union(Kind::Computation), union(Kind::Communication));
    let mut table = CommComp::default();
    let overlap = rounded_percent(compute.and(&communication).len(), communication.len(), 2);
    table.push(CommCompRow { rank: trace.rank, overlap });
    mapped(trace, table.finish(), rows.is_empty())
}

pub fn kernels(trace: &RankTrace) -> Partial {
    let rows = load(trace);
    let mut edges: Vec<(i64, i64)> = Vec::new();
    for (bit, (kind, _)) in TYPES.iter().enumerate() {
        for (start, end) in merge(rows.iter().copied().filter(|r| r.kind == *kind)) {
            edges.push((start, 1 << bit));
            edges.push((end, -(1 << bit)));
        }
    }
    edges.sort_unstable();
    let mut sums = [0i64; 8];
    let mut running = 0;
    for pair in edges.windows(2) {
        running += pair[0].1;
        // a row of length -1 disturbs the running code there, too
        if (1..8).contains(&running) {
            sums[running as usize] += pair[1].0 - pair[0].0;
        }
    }
    let mut types = TypeSums::default();
    for (set, sum) in sums.into_iter().enumerate().filter(|(_, s)| *s > 0) {
        types.push(TypeSumRow { set: set as u32, sum });
    }
    let mut out = mapped(trace, types.finish(), rows.is_empty());
    out.tables.push(names(trace, &rows));
    out
}

fn names(trace: &RankTrace, rows: &[Row]) -> Batch {
    let mut by_name: BTreeMap<&str, (Kind, Vec<i64>)> = BTreeMap::new();
    for r in rows.iter().filter(|r| r.kind != Kind::Other) {
        by_name.entry(trace.name(r.id)).or_insert((r.kind, Vec::new())).1.push(r.dur);
    }
    let label = |kind: Kind| TYPES.iter().find(|t| t.0 == kind).map_or("OTHER", |t| t.1);
    let mut all: Vec<_> = by_name.into_iter().map(|(n, (k, d))| (label(k), n, d)).collect();
    all.sort_by_key(|(kind, name, durs)| (*kind, -durs.iter().sum::<i64>(), *name));
    let mut table = KernelNames::default();
    for (kernel_type, name, durs) in all {
        let (n, sum) = (durs.len() as f64, durs.iter().sum::<i64>());
        let mean = sum as f64 / n;
        let squares: f64 = durs.iter().map(|d| (*d as f64 - mean).powi(2)).sum();
        table.push(KernelNameRow {
            name,
            sum,
            max: durs.iter().copied().max().unwrap_or(0),
            min: durs.iter().copied().min().unwrap_or(0),
            stddev: if durs.len() > 1 { (squares / (n - 1.0)).sqrt() } else { 0.0 },
            mean,
            kernel_type,
            rank: trace.rank,
        });
    }
    table.finish()
}

/// Kernel types are summed over ranks, names are not.
pub fn reduce_kernels(partials: &[Partial]) -> Output {
    let mut sums = [0i64; 8];
    for batch in partials.iter().filter_map(|p| p.table(TypeSums::SPEC)) {
        for row in 0..batch.len() {
            let set = batch.int("set", row).and_then(|s| usize::try_from(s).ok()).unwrap_or(0);
            if let Some(sum) = sums.get_mut(set) {
                *sum += batch.int("sum", row).unwrap_or(0);
            }
        }
    }
    let total: i64 = sums.iter().sum();
    let mut order: Vec<usize> = (1..8).filter(|s| sums[*s] > 0).collect();
    order.sort_by_key(|s| (-sums[*s], *s));
    let mut table = KernelTypes::default();
    for set in order {
        let names: Vec<_> = TYPES.iter().enumerate().filter(|(bit, _)| set >> bit & 1 == 1).map(|(_, t)| t.1).collect();
        table.push(KernelTypeRow {
            kernel_type: &names.join(" overlapping "),
            sum: sums[set],
            percentage: rounded_percent(sums[set], total, 1),
        });
    }
    let types = table.finish();
    let mut out = concatenated(partials, &[KernelNames::SPEC]);
    out.views.insert(0, view(KernelTypes::SPEC, std::slice::from_ref(&types)));
    out.tables.insert(0, types);
    out
}

/// Gaps shorter than this are kernel waits there, us.
const KERNEL_WAIT_BELOW: i64 = 30;

pub fn idle(trace: &RankTrace) -> Partial {
    let rows: Vec<Row> = load(trace)
        .into_iter()
        .filter(|r| {
            let gpu = trace.classes[r.id as usize].is_gpu();
            // `event_wait` rows of MTIA have a GPU category, although they are no work
            gpu || (trace.classes[r.id as usize] == Class::Sync && is_mtia(trace, r.id))
        })
        .collect();
    // streams in order of their first row
    let mut places: HashMap<i64, usize> = HashMap::new();
    let mut streams: Vec<(i64, Vec<Row>)> = Vec::new();
    for r in &rows {
        let place = *places.entry(r.stream).or_insert(streams.len());
        match streams.get_mut(place) {
            Some((_, of_stream)) => of_stream.push(*r),
            None => streams.push((r.stream, vec![*r])),
        }
    }
    let mut table = IdleTimes::default();
    for (stream, mut of_stream) in streams {
        of_stream.sort_by_key(|r| r.ts);
        // the first row has no gap and counts as `other`
        let mut sums: BTreeMap<&str, i64> = BTreeMap::from([("other", 0)]);
        for pair in of_stream.windows(2) {
            let (previous, row) = (&pair[0], &pair[1]);
            let gap = row.ts - previous.end();
            let category = if row.partner_ts.is_some_and(|p| p > previous.end()) {
                "host_wait"
            } else if gap < KERNEL_WAIT_BELOW {
                "kernel_wait"
            } else {
                "other"
            };
            *sums.entry(category).or_default() += gap;
        }
        let total: i64 = sums.values().sum();
        for (idle_category, idle_time) in sums {
            let idle_time_ratio =
                (total != 0).then(|| (idle_time as f64 / total as f64 * 100.0).round_ties_even() / 100.0);
            table.push(IdleTimeRow { rank: trace.rank, stream, idle_category, idle_time, idle_time_ratio });
        }
    }
    mapped(trace, table.finish(), rows.is_empty())
}

fn is_mtia(trace: &RankTrace, row: u32) -> bool {
    let cat = trace.columns.categories.get(usize::from(trace.columns.cat[row as usize]));
    cat.is_some_and(|c| trace.text(c.text).eq_ignore_ascii_case("mtia_ccp_events"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_length_minus_one_subtracts() {
        let row = |ts, dur| Row { id: 0, ts, dur, stream: 7, kind: Kind::Computation, partner_ts: None, partner: None };
        let groups = merge([row(0, 10), row(20, -1), row(5, 10)].into_iter());
        assert_eq!(groups, [(0, 15), (20, 19)]);
        assert_eq!(length(&groups), 14);
    }
}

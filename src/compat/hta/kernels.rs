//! HTA's `get_gpu_kernel_breakdown`: kernel types summed over ranks, and kernel names per rank.

use crate::hta::NAME;
use crate::hta::groups::merge;
use crate::hta::loader::{HtaClass, HtaRow, NO_ROWS, load};
use crate::hta::statistics::rounded_percent;
use hta_analysis::api::{About, Analysis, Options, Output, Partial, RowEmitter};
use hta_base::table;
use hta_base::table::schema::{Batch, Text};
use hta_job::Job;
use hta_trace::rank_trace::RankTrace;
use std::collections::BTreeMap;

table! {
    /// HTA's `get_gpu_kernel_breakdown`: kernel types, summed over ranks.
    pub(crate) struct KernelTypes, KernelTypeRow = "compat_hta_gpu_kernel_type_breakdown"
        by "sum descending" {
        kernel_type: Text, "", "classes that run at the same time";
        sum: i64, "us", "time during which exactly these classes run";
        percentage: Option<f64>, "%", "share of the sum over all types";
    }
}

table! {
    /// HTA's `get_gpu_kernel_breakdown`: all kernel names, without HTA's row `others`.
    pub(crate) struct KernelNames, KernelNameRow = "compat_hta_gpu_kernel_breakdown"
        by "rank, kernel_type, sum descending, name" {
        name: Text, "", "name of the kernel";
        sum as "sum (us)": i64, "us", "sum of durations";
        max as "max (us)": i64, "us", "longest duration";
        min as "min (us)": i64, "us", "shortest duration";
        stddev: f64, "us", "sample standard deviation; 0 for a single kernel";
        mean as "mean (us)": f64, "us", "mean duration";
        kernel_type: Text, "", "class of the kernel, by its name";
        rank: u32, "", "rank";
    }
}

table! {
    /// Time per set of classes on one rank, from which `compat_hta_gpu_kernel_type_breakdown` is computed.
    struct TypeSums, TypeSumRow = "compat_hta_type_sums" by "set" {
        set: u32, "", "bit set: 1 computation, 2 communication, 4 memory";
        sum: i64, "us", "time during which exactly these classes run";
    }
}

const TYPES: [(HtaClass, &str); 3] = [
    (HtaClass::Computation, "COMPUTATION"),
    (HtaClass::Communication, "COMMUNICATION"),
    (HtaClass::Memory, "MEMORY"),
];

pub(crate) struct HtaKernels;

impl Analysis for HtaKernels {
    fn about(&self) -> About {
        About {
            kept_tables: &[TypeSums::SPEC],
            ..head!(Some(NAME), "kernels", "HTA's kernels by type and by name", [KernelTypes, KernelNames])
        }
    }

    fn map(&self, trace: &RankTrace, _: &Options, _: &mut RowEmitter) -> Partial {
        kernels(trace)
    }

    fn reduce(&self, partials: &[Partial], _: &Job, _: &Options) -> Output {
        reduce(partials)
    }
}

fn kernels(trace: &RankTrace) -> Partial {
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
        // A row of length -1 disturbs the running set, as it does in HTA.
        if (1..8).contains(&running) {
            sums[running as usize] += pair[1].0 - pair[0].0;
        }
    }
    let mut types = TypeSums::default();
    for (set, sum) in sums.into_iter().enumerate().filter(|(_, s)| *s > 0) {
        types.push(TypeSumRow { set: set as u32, sum });
    }
    let tables = vec![types.finish(), names(trace, &rows)];
    Partial { rank: trace.rank, tables, reason: rows.is_empty().then_some(NO_ROWS) }
}

fn names(trace: &RankTrace, rows: &[HtaRow]) -> Batch {
    let mut by_name: BTreeMap<&str, (HtaClass, Vec<i64>)> = BTreeMap::new();
    for r in rows.iter().filter(|r| r.kind != HtaClass::Other) {
        by_name.entry(trace.name(r.id)).or_insert((r.kind, Vec::new())).1.push(r.dur);
    }
    let label = |kind: HtaClass| TYPES.iter().find(|t| t.0 == kind).map_or("OTHER", |t| t.1);
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

/// Sums kernel types over ranks; kernel names stay per rank.
fn reduce(partials: &[Partial]) -> Output {
    let mut sums = [0i64; 8];
    for row in partials.iter().flat_map(|p| p.rows::<TypeSums>()) {
        if let Some(sum) = sums.get_mut(row.set as usize) {
            *sum += row.sum;
        }
    }
    let total: i64 = sums.iter().sum();
    let mut order: Vec<usize> = (1..8).filter(|s| sums[*s] > 0).collect();
    order.sort_by_key(|s| (-sums[*s], *s));
    let mut table = KernelTypes::default();
    for set in order {
        let names: Vec<_> =
            TYPES.iter().enumerate().filter(|(bit, _)| set >> bit & 1 == 1).map(|(_, t)| t.1).collect();
        table.push(KernelTypeRow {
            kernel_type: &names.join(" overlapping "),
            sum: sums[set],
            percentage: rounded_percent(sums[set], total, 1),
        });
    }
    Output { tables: vec![table.finish()], ..Output::default() }
}

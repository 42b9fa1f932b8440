//! HTA's `get_gpu_user_annotation_breakdown`, for its rows of category `gpu_user_annotation` and for those of
//! `user_annotation`. Times are whole microseconds. All names are listed; the row `others`, which HTA adds
//! after a thousand names, is omitted.

use crate::hta::NAME;
use crate::hta::loader::{LoadedRow, load_all};
use hta_analysis::api::{About, Analysis, Options, Partial, RowEmitter};
use hta_base::table;
use hta_base::table::schema::{Batch, Text};
use hta_trace::rank_trace::RankTrace;
use std::collections::BTreeMap;

table! {
    /// HTA's `get_gpu_user_annotation_breakdown` with `use_gpu_annotation=True`.
    pub(crate) struct OnGpu, OnGpuRow = "compat_hta_user_annotation_breakdown_gpu" by "rank, name" {
        name: Text, "", "name of the annotation";
        sum as "sum (us)": i64, "us", "sum of durations";
        max as "max (us)": i64, "us", "longest duration";
        min as "min (us)": i64, "us", "shortest duration";
        stddev: f64, "us", "sample standard deviation; 0 for a single range";
        mean as "mean (us)": f64, "us", "mean duration";
        rank: u32, "", "rank";
    }
}

table! {
    /// HTA's `get_gpu_user_annotation_breakdown` with `use_gpu_annotation=False`.
    pub(crate) struct OnCpu, OnCpuRow = "compat_hta_user_annotation_breakdown_cpu" by "rank, name" {
        name: Text, "", "name of the annotation";
        sum as "sum (us)": i64, "us", "sum of durations";
        max as "max (us)": i64, "us", "longest duration";
        min as "min (us)": i64, "us", "shortest duration";
        stddev: f64, "us", "sample standard deviation; 0 for a single range";
        mean as "mean (us)": f64, "us", "mean duration";
        rank: u32, "", "rank";
    }
}

pub(crate) struct HtaAnnotations;

impl Analysis for HtaAnnotations {
    fn about(&self) -> About {
        head!(Some(NAME), "annotations", "HTA's user annotations by name", [OnGpu, OnCpu])
    }

    fn map(&self, trace: &RankTrace, _: &Options, _: &mut RowEmitter) -> Partial {
        let rows = load_all(trace);
        let tables = vec![on_gpu(trace, &rows), on_cpu(trace, &rows)];
        let reason = tables.iter().all(Batch::is_empty).then_some("no annotations");
        Partial { rank: trace.rank, tables, reason }
    }
}

/// Statistics of the durations of one name, us.
struct DurationStatistics<'a> {
    name: &'a str,
    sum: i64,
    max: i64,
    min: i64,
    stddev: f64,
    mean: f64,
}

fn by_name<'a>(trace: &'a RankTrace, rows: &[LoadedRow], category: &str) -> Vec<DurationStatistics<'a>> {
    let c = &trace.columns;
    let is_wanted: Vec<bool> = c.categories.iter().map(|k| c.strings.get(k.text) == category).collect();
    let mut names: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
    for r in rows {
        if is_wanted.get(usize::from(c.cat[r.row.id as usize])) == Some(&true) {
            names.entry(trace.name(r.row.id)).or_default().push(r.row.dur);
        }
    }
    let lengths = |(name, durs): (&'a str, Vec<i64>)| {
        let (n, sum) = (durs.len() as f64, durs.iter().sum::<i64>());
        let mean = sum as f64 / n;
        let squares: f64 = durs.iter().map(|d| (*d as f64 - mean).powi(2)).sum();
        DurationStatistics {
            name,
            sum,
            max: durs.iter().copied().max().unwrap_or(0),
            min: durs.iter().copied().min().unwrap_or(0),
            stddev: if durs.len() > 1 { (squares / (n - 1.0)).sqrt() } else { 0.0 },
            mean,
        }
    };
    names.into_iter().map(lengths).collect()
}

fn on_gpu(trace: &RankTrace, rows: &[LoadedRow]) -> Batch {
    let mut table = OnGpu::default();
    for DurationStatistics { name, sum, max, min, stddev, mean } in
        by_name(trace, rows, "gpu_user_annotation")
    {
        table.push(OnGpuRow { name, sum, max, min, stddev, mean, rank: trace.rank });
    }
    table.finish()
}

fn on_cpu(trace: &RankTrace, rows: &[LoadedRow]) -> Batch {
    let mut table = OnCpu::default();
    for DurationStatistics { name, sum, max, min, stddev, mean } in by_name(trace, rows, "user_annotation") {
        table.push(OnCpuRow { name, sum, max, min, stddev, mean, rank: trace.rank });
    }
    table.finish()
}

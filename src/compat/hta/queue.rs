//! HTA's `get_queue_length_summary` and `get_queue_length_time_series`.
//!
//! The queue length of a stream increases by one when a call named as in `LAUNCHES` starts (once per GPU row
//! of the call), and decreases by one when such a row starts. A call whose GPU row is the first event of the
//! file is left out. Statistics are over these points, not over time. At equal times HTA's order is
//! arbitrary; here increases come first. Times are in whole microseconds from the rank's first event.

use crate::hta::NAME;
use crate::hta::loader::load_all;
use crate::hta::statistics::Describe;
use hashbrown::{HashMap, HashSet};
use hta_analysis::api::{About, Analysis, Options, Partial, RowEmitter};
use hta_base::table;
use hta_base::table::schema::{Batch, Table};
use hta_base::table::view::ViewSpec;
use hta_trace::rank_trace::RankTrace;
use std::collections::BTreeMap;

table! {
    /// HTA's `get_queue_length_summary`.
    pub(crate) struct QueueSummary, QueueSummaryRow = "compat_hta_queue_length_summary" by "rank, stream" {
        rank: u32, "", "rank";
        stream: i64, "", "stream";
        count: u64, "", "number of points of the series";
        mean: f64, "launches", "mean over points, not over time";
        std: Option<f64>, "launches", "sample standard deviation; null for one point";
        min: f64, "launches", "minimum";
        p25 as "25%": f64, "launches", "first quartile";
        p50 as "50%": f64, "launches", "median";
        p75 as "75%": f64, "launches", "third quartile";
        max: f64, "launches", "maximum";
    }
}

table! {
    /// HTA's `get_queue_length_time_series`.
    pub(crate) struct QueueSeries, QueueSeriesRow = "compat_hta_queue_length_time_series"
        by "rank, stream, ts" {
        rank: u32, "", "rank";
        ts: i64, "us", "time from the rank's first event";
        pid: Option<i64>, "", "process of the GPU event";
        tid: Option<i64>, "", "thread of the GPU event";
        stream: i64, "", "stream";
        queue_length: i64, "launches", "queue length from this time on";
    }
}

/// Names of the calls that increase the queue length.
const LAUNCHES: [&str; 11] = [
    "cudaLaunchKernel",
    "cudaLaunchKernelExC",
    "cuLaunchKernel",
    "cudaMemcpyAsync",
    "cudaMemsetAsync",
    "runFunction - job_prep_and_submit_for_execution",
    "hipLaunchKernel",
    "hipExtModuleLaunchKernel",
    "hipMemcpyAsync",
    "hipMemsetAsync",
    "hipMemcpyWithStream",
];

/// An increase or decrease of the queue length. At equal times increases come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct QueuePoint {
    ts: i64,
    is_down: bool,
    /// Row of the GPU event.
    row: u32,
}

pub(crate) struct HtaQueue;

const VIEWS: [ViewSpec; 1] = [ViewSpec::whole(QueueSummary::SPEC)];

impl Analysis for HtaQueue {
    fn about(&self) -> About {
        About {
            views: &VIEWS,
            ..head!(Some(NAME), "queue", "HTA's queue length", [QueueSummary, QueueSeries])
        }
    }

    fn map(&self, trace: &RankTrace, _: &Options, give: &mut RowEmitter) -> Partial {
        queue(trace, give)
    }
}

fn queue(trace: &RankTrace, give: &mut RowEmitter) -> Partial {
    let rows = load_all(trace);
    let named: HashSet<u32> =
        trace.columns.strings.iter().filter(|(_, t)| LAUNCHES.contains(t)).map(|(id, _)| id.0).collect();
    let mut gpu: HashMap<i64, Vec<usize>> = HashMap::new();
    for (i, r) in rows.iter().enumerate().filter(|(_, r)| r.row.stream != -1) {
        gpu.entry(r.correlation).or_default().push(i);
    }
    let mut streams: BTreeMap<i64, Vec<QueuePoint>> = BTreeMap::new();
    let mut launched: HashSet<i64> = HashSet::new();
    let is_launch = |name: hta_trace::strings::StrId| named.contains(&name.0);
    for call in rows.iter().filter(|r| !r.linked && r.correlation != -1 && is_launch(r.name)) {
        let own = gpu.get(&call.correlation).map_or(&[][..], Vec::as_slice);
        // HTA treats a partner with index 0 as absent.
        if own.iter().rfind(|&&i| rows[i].linked).is_none_or(|&i| rows[i].row.id == 0) {
            continue;
        }
        for &i in own {
            launched.insert(call.correlation);
            let point = QueuePoint { ts: call.row.ts, is_down: false, row: rows[i].row.id };
            streams.entry(rows[i].row.stream).or_default().push(point);
        }
    }
    for r in rows.iter().filter(|r| r.row.stream != -1 && launched.contains(&r.correlation)) {
        streams.entry(r.row.stream).or_default().push(QueuePoint {
            ts: r.row.ts,
            is_down: true,
            row: r.row.id,
        });
    }
    let first = rows.iter().map(|r| r.row.ts).min().unwrap_or(0);
    let (mut summary, mut series) = (QueueSummary::default(), QueueSeries::default());
    for (stream, mut points) in streams {
        points.sort_unstable();
        let mut length = 0;
        let mut lengths = Vec::with_capacity(points.len());
        for p in &points {
            length += if p.is_down { -1 } else { 1 };
            lengths.push(length as f64);
            let lane = trace.columns.lanes.get(trace.columns.lane[p.row as usize] as usize);
            series.push(QueueSeriesRow {
                rank: trace.rank,
                ts: p.ts - first,
                pid: lane.and_then(|l| l.pid_num),
                tid: lane.and_then(|l| l.tid_num),
                stream,
                queue_length: length,
            });
            series.give_piece(give);
        }
        if let Some(d) = Describe::new(lengths) {
            summary.push(QueueSummaryRow {
                rank: trace.rank,
                stream,
                count: d.count,
                mean: d.mean,
                std: d.std,
                min: d.min,
                p25: d.p25,
                p50: d.p50,
                p75: d.p75,
                max: d.max,
            });
        }
    }
    let summary: Batch = summary.finish();
    let reason = summary.is_empty().then_some("no launch that HTA knows");
    give(series.finish());
    Partial { rank: trace.rank, tables: vec![summary], reason }
}

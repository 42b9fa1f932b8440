//! HTA's `get_memory_bw_summary` and `get_memory_bw_time_series`.
//!
//! The running sum of the *recorded* bandwidth of copies and memsets over all streams, by kind, which is the
//! start of the name. A length of 0 becomes 1 us. Statistics are over the points above 0, not over time. At
//! equal times HTA's order is arbitrary; here ends come before starts, so that consecutive copies do not
//! appear to overlap. Not reproduced: the rounding error of floats that is left when all copies have ended,
//! which counts as a point in HTA.

use crate::hta::NAME;
use crate::hta::loader::{HtaClass, load_all};
use crate::hta::statistics::Describe;
use hta_analysis::api::{About, Analysis, Options, Partial, RowEmitter};
use hta_base::table;
use hta_base::table::schema::{Batch, Table, Text};
use hta_base::table::view::ViewSpec;
use hta_trace::args::Arg;
use hta_trace::rank_trace::RankTrace;
use std::collections::BTreeMap;

table! {
    /// HTA's `get_memory_bw_summary`.
    pub(crate) struct BandwidthSummary, BandwidthSummaryRow = "compat_hta_memory_bw_summary" by "rank, name" {
        rank: u32, "", "rank";
        name: Text, "", "kind of copy, or Memset";
        count: u64, "", "number of points of the series above 0";
        mean: f64, "GB/s", "mean over points, not over time";
        std: Option<f64>, "GB/s", "sample standard deviation; null for one point";
        min: f64, "GB/s", "minimum";
        p25 as "25%": f64, "GB/s", "first quartile";
        p50 as "50%": f64, "GB/s", "median";
        p75 as "75%": f64, "GB/s", "third quartile";
        max: f64, "GB/s", "maximum";
    }
}

table! {
    /// HTA's `get_memory_bw_time_series`.
    pub(crate) struct BandwidthSeries, BandwidthSeriesRow = "compat_hta_memory_bw_time_series"
        by "rank, name, ts" {
        rank: u32, "", "rank";
        ts: i64, "us", "time from the rank's first event";
        pid: Option<i64>, "", "process of the copy";
        name: Text, "", "kind of copy, or Memset";
        memory_bw_gbps: f64, "GB/s", "bandwidth from this time on";
    }
}

/// 1 GB/s in the unit of the sums, 2^-48 GB/s. Sums are integers, so they return to exactly 0.
const ONE: f64 = (1i64 << 48) as f64;

fn kind(name: &str) -> &str {
    match name.get(..6) {
        Some("Memset") => "Memset",
        Some("Memcpy") => name.get(..11).unwrap_or(name),
        _ => "Memcpy Unknown",
    }
}

pub(crate) struct Copies;

const VIEWS: [ViewSpec; 1] = [ViewSpec::whole(BandwidthSummary::SPEC)];

impl Analysis for Copies {
    fn about(&self) -> About {
        About {
            views: &VIEWS,
            ..head!(Some(NAME), "copies", "HTA's memory bandwidth", [BandwidthSummary, BandwidthSeries])
        }
    }

    fn map(&self, trace: &RankTrace, _: &Options, give: &mut RowEmitter) -> Partial {
        bandwidth(trace, give)
    }
}

fn bandwidth(trace: &RankTrace, give: &mut RowEmitter) -> Partial {
    let rows = load_all(trace);
    let first = rows.iter().map(|r| r.row.ts).min().unwrap_or(0);
    let recorded = trace.columns.args.column(Arg::Bandwidth);
    let mut kinds: BTreeMap<&str, Vec<(i64, i128, u32)>> = BTreeMap::new();
    for r in rows.iter().map(|r| r.row).filter(|r| r.stream != -1 && r.kind == HtaClass::Memory) {
        let rate = recorded.get(r.id).map(f64::from_bits).filter(|v| v.is_finite()).unwrap_or(0.0);
        let rate = (rate * ONE).round() as i128;
        let points = kinds.entry(kind(trace.name(r.id))).or_default();
        points.push((r.ts, rate, r.id));
        points.push((r.ts + if r.dur == 0 { 1 } else { r.dur }, -rate, r.id));
    }
    let (mut summary, mut series) = (BandwidthSummary::default(), BandwidthSeries::default());
    for (name, mut points) in kinds {
        points.sort_unstable();
        let mut sum = 0i128;
        let mut above = Vec::new();
        for (ts, rate, row) in points {
            sum = sum.saturating_add(rate);
            let value = sum as f64 / ONE;
            if value > 0.0 {
                above.push(value);
            }
            let lane = trace.columns.lanes.get(trace.columns.lane[row as usize] as usize);
            let pid = lane.and_then(|l| l.pid_num);
            series.push(BandwidthSeriesRow {
                rank: trace.rank,
                ts: ts - first,
                pid,
                name,
                memory_bw_gbps: value,
            });
            series.give_piece(give);
        }
        if let Some(d) = Describe::new(above) {
            summary.push(BandwidthSummaryRow {
                rank: trace.rank,
                name,
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
    let reason = summary.is_empty().then_some("no copy with a recorded bandwidth");
    give(series.finish());
    Partial { rank: trace.rank, tables: vec![summary], reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_the_first_letters() {
        let names = ["Memcpy DtoH (Device -> Pageable)", "Memset (Device)", "dma_request", "Memcpy"];
        assert_eq!(names.map(kind), ["Memcpy DtoH", "Memset", "Memcpy Unknown", "Memcpy"]);
    }
}

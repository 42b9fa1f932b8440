//! HTA's `get_temporal_breakdown`.

use crate::hta::NAME;
use crate::hta::groups::{length, merge};
use crate::hta::loader::{HtaClass, HtaRow, NO_ROWS, load};
use crate::hta::statistics::rounded_percent;
use hta_analysis::api::{About, Analysis, Options, Partial, RowEmitter};
use hta_base::table;
use hta_trace::rank_trace::RankTrace;

table! {
    /// HTA's `get_temporal_breakdown`, with all devices pooled.
    pub(crate) struct Temporal, TemporalRow = "compat_hta_temporal_breakdown" by "rank" {
        rank: u32, "", "rank";
        idle as "idle_time(us)": i64, "us", "part of kernel_time in which no GPU row runs";
        compute as "compute_time(us)": i64, "us", "union of compute rows";
        non_compute as "non_compute_time(us)": i64, "us", "kernel_time minus idle_time and compute_time";
        kernel as "kernel_time(us)": i64, "us", "first start to last end of the GPU rows";
        idle_pct as "idle_time_pctg": Option<f64>, "%", "share of kernel_time";
        compute_pct as "compute_time_pctg": Option<f64>, "%", "share of kernel_time";
        non_compute_pct as "non_compute_time_pctg": Option<f64>, "%", "share of kernel_time";
    }
}

pub(crate) struct HtaBreakdown;

impl Analysis for HtaBreakdown {
    fn about(&self) -> About {
        head!(Some(NAME), "breakdown", "HTA's temporal breakdown", [Temporal])
    }

    fn map(&self, trace: &RankTrace, _: &Options, _: &mut RowEmitter) -> Partial {
        temporal(trace)
    }
}

fn temporal(trace: &RankTrace) -> Partial {
    let rows = load(trace);
    let mut table = Temporal::default();
    if let (Some(first), Some(last)) = (rows.iter().map(|r| r.ts).min(), rows.iter().map(HtaRow::end).max()) {
        let span = last - first;
        let all = merge(rows.iter().copied());
        let idle: i64 = all.windows(2).map(|w| w[1].0 - w[0].1).sum();
        let compute = length(&merge(rows.iter().copied().filter(|r| r.kind == HtaClass::Computation)));
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
    Partial { rank: trace.rank, tables: vec![table.finish()], reason: rows.is_empty().then_some(NO_ROWS) }
}

//! HTA's `get_idle_time_breakdown`, per stream.

use crate::hta::NAME;
use crate::hta::loader::{HtaRow, NO_ROWS, load};
use hashbrown::HashMap;
use hta_analysis::api::{About, Analysis, Options, Partial, RowEmitter};
use hta_base::table;
use hta_base::table::schema::Text;
use hta_trace::category::Class;
use hta_trace::rank_trace::RankTrace;
use std::collections::BTreeMap;

table! {
    /// HTA's `get_idle_time_breakdown`, per stream.
    pub(crate) struct IdleTimes, IdleTimeRow = "compat_hta_idle_time_breakdown"
        by "rank, stream in order of appearance, idle_category" {
        rank: u32, "", "rank";
        stream: i64, "", "stream";
        idle_category: Text, "", "host_wait, kernel_wait or other";
        idle_time: i64, "us", "sum of gaps, including negative ones";
        idle_time_ratio: Option<f64>, "", "share of the stream's idle time";
    }
}

/// HTA counts gaps shorter than this as kernel waits, us.
const KERNEL_WAIT_BELOW: i64 = 30;

pub(crate) struct HtaIdle;

impl Analysis for HtaIdle {
    fn about(&self) -> About {
        head!(Some(NAME), "idle", "HTA's idle time by cause", [IdleTimes])
    }

    fn map(&self, trace: &RankTrace, _: &Options, _: &mut RowEmitter) -> Partial {
        idle(trace)
    }
}

fn idle(trace: &RankTrace) -> Partial {
    let rows: Vec<HtaRow> = load(trace)
        .into_iter()
        .filter(|r| {
            let gpu = trace.classes[r.id as usize].is_gpu();
            // HTA includes `event_wait` rows of MTIA: they have a GPU category although they are no work.
            gpu || (trace.classes[r.id as usize] == Class::Sync && is_mtia(trace, r.id))
        })
        .collect();
    // Collect the streams in the order of their first row.
    let mut places: HashMap<i64, usize> = HashMap::new();
    let mut streams: Vec<(i64, Vec<HtaRow>)> = Vec::new();
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
        // The first row has no gap. HTA adds 0 to `other` for it.
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
    Partial { rank: trace.rank, tables: vec![table.finish()], reason: rows.is_empty().then_some(NO_ROWS) }
}

fn is_mtia(trace: &RankTrace, row: u32) -> bool {
    let cat = trace.columns.categories.get(usize::from(trace.columns.cat[row as usize]));
    cat.is_some_and(|c| trace.text(c.text).eq_ignore_ascii_case("mtia_ccp_events"))
}

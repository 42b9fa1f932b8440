//! HTA's `get_comm_comp_overlap`.

use crate::hta::NAME;
use crate::hta::loader::{HtaClass, NO_ROWS, load};
use crate::hta::statistics::rounded_percent;
use hta_analysis::api::{About, Analysis, Options, Partial, RowEmitter};
use hta_base::table;
use hta_base::units::Span;
use hta_trace::interval::Union;
use hta_trace::rank_trace::RankTrace;

table! {
    /// HTA's `get_comm_comp_overlap`.
    pub(crate) struct CommComp, CommCompRow = "compat_hta_comm_comp_overlap" by "rank" {
        rank: u32, "", "rank";
        overlap as "comp_comm_overlap_pctg": Option<f64>, "%",
            "share of communication under compute; null without any";
    }
}

pub(crate) struct HtaOverlap;

impl Analysis for HtaOverlap {
    fn about(&self) -> About {
        head!(Some(NAME), "overlap", "HTA's overlap of communication and compute", [CommComp])
    }

    fn map(&self, trace: &RankTrace, _: &Options, _: &mut RowEmitter) -> Partial {
        overlap(trace)
    }
}

fn overlap(trace: &RankTrace) -> Partial {
    let rows = load(trace);
    let union = |kind: HtaClass| {
        let spans = rows.iter().filter(|r| r.kind == kind).map(|r| Span::new(r.ts, r.end()));
        Union::new(spans)
    };
    let (compute, communication) = (union(HtaClass::Computation), union(HtaClass::Communication));
    let mut table = CommComp::default();
    let overlap = rounded_percent(compute.and(&communication).len(), communication.len(), 2);
    table.push(CommCompRow { rank: trace.rank, overlap });
    Partial { rank: trace.rank, tables: vec![table.finish()], reason: rows.is_empty().then_some(NO_ROWS) }
}

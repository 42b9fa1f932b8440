//! Annotations over all ranks.

use crate::annotations::{AnnotationSums, SumRow, UserAnnotations};
use crate::api::Partial;
use hta_base::table::schema::Batch;
use hta_base::units::ratio;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The table of annotations over all ranks and devices, without those that mark steps.
pub(super) fn table(partials: &[Partial]) -> Batch {
    let mut sums: BTreeMap<(&str, &str, &str), SumRow> = BTreeMap::new();
    for p in partials {
        let first = p.rows::<UserAnnotations>().next().and_then(|r| r.device);
        for row in p.rows::<UserAnnotations>().filter(|r| !r.is_step) {
            let t = sums.entry((row.scope, row.name, row.side)).or_default();
            // Ranges on threads are repeated for each device of the rank.
            if row.side != "host" || row.device == first {
                t.range_count += row.range_count;
                t.range_sum_ns += row.range_sum_ns;
                if let Some(ns) = row.working_ns {
                    *t.working_ns.get_or_insert(0) += ns;
                }
            }
            t.gpu_ns += row.gpu_ns;
            t.gpu_self_ns += row.gpu_self_ns;
            t.busy_ns += row.busy_ns;
        }
    }
    // Ranges drawn on the device repeat those of the host, except where they own activities.
    sums.retain(|(_, _, side), t| t.gpu_ns > 0 || *side != "gpu" && t.range_count > 0);
    let mut order: Vec<_> = sums.into_iter().collect();
    order.sort_by_key(|((scope, name, side), t)| {
        (*scope, Reverse(t.gpu_ns), Reverse(t.range_sum_ns), *name, *side)
    });
    let mut table = AnnotationSums::default();
    for ((scope, name, side), t) in order {
        let range_mean_ns = ratio(t.range_sum_ns, t.range_count as i64);
        let drawn = Some(side).filter(|side| ["gpu", "graph"].contains(side));
        table.push(SumRow { scope, name, drawn, range_mean_ns, ..t });
    }
    table.finish()
}

//! Annotations over all ranks.

use crate::annotations::UserAnnotations;
use crate::api::Partial;
use hta_base::table;
use hta_base::table::schema::{Batch, Text};
use hta_base::table::view::{Keep, Note, ViewSpec};
use hta_base::units::ratio;
use std::cmp::Reverse;
use std::collections::BTreeMap;

table! {
    /// Annotations over all ranks and devices, and a row `(none)` for the activities that belong to none;
    /// without those that mark steps, and ranges drawn on a device that own no activity.
    pub(super) struct AnnotationSums, AnnotationSumRow = "annotations_over_ranks"
        by "scope, gpu_ns descending, range_sum_ns descending, name, drawn" {
        scope: Text, "", "capture: everything; step: what starts or is launched in one; outside: the rest";
        name: Text, "", "annotation, or `(none)`", "annotation";
        drawn: Option<Text>, "",
            "gpu: drawn on the device; graph: given to a part of a CUDA graph; null: recorded on threads";
        range_count: u64, "", "ranges";
        range_sum_ns: i64, "ns", "sum of their lengths";
        range_mean_ns: Option<f64>, "ns", "mean length", "mean";
        working_ns: Option<i64>, "ns", "time inside the ranges in which their thread works; host only";
        gpu_ns: i64, "ns", "sum of the lengths of the activities that belong to it", "GPU sum";
        gpu_self_ns: i64, "ns", "the same, of those that belong to no nested annotation", "GPU self";
        busy_ns: i64, "ns", "time in which any of them runs, summed over devices", "GPU busy";
    }
}

pub(super) const VIEW: ViewSpec = ViewSpec {
    title: "Annotations",
    columns: &[
        "name",
        "drawn?",
        "range_count",
        "range_mean_ns",
        "working_ns",
        "gpu_ns",
        "gpu_self_ns",
        "busy_ns",
    ],
    keep: &[Keep::Scope("capture")],
    notes: &[Note::Text(
        "step marks, and ranges drawn on the device that repeat others, are in the table user_annotations",
    )],
    ..ViewSpec::of(AnnotationSums::SPEC)
};

/// The table of annotations over all ranks and devices, without those that mark steps.
pub(super) fn table(partials: &[Partial]) -> Batch {
    let mut sums: BTreeMap<(&str, &str, &str), AnnotationSumRow> = BTreeMap::new();
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
        table.push(AnnotationSumRow { scope, name, drawn, range_mean_ns, ..t });
    }
    table.finish()
}

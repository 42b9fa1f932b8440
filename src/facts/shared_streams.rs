//! Communication on streams that also run compute: the work of one stream runs one by one, so nothing there overlaps.

use crate::trace::activity::Activity;
use crate::trace::device::DeviceWork;
use crate::trace::interval::Union;
use crate::trace::rank_trace::RankTrace;
use crate::trace::timeline::WorkClass;
use std::collections::BTreeSet;

/// Share of communication on such streams from which a rank cannot overlap it, percent.
pub const CANNOT_OVERLAP_PCT: f64 = 80.0;

/// When communication of a device runs on streams that also run compute.
pub fn communication_beside_compute(trace: &RankTrace, work: &DeviceWork) -> Union {
    let of = |class: WorkClass| {
        let all = work.activities.iter().map(|i| &trace.activities[*i as usize]);
        all.filter(move |a| a.work == class && a.stream().is_some())
    };
    let streams: BTreeSet<Option<i64>> = of(WorkClass::Compute).map(Activity::stream).collect();
    Union::new(of(WorkClass::Communication).filter(|a| streams.contains(&a.stream())).map(|a| a.span))
}

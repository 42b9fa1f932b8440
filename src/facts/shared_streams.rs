//! Communication on the stream of the compute: the work of one stream runs one by one, so nothing there
//! overlaps.

use hta_base::units::{Ns, percent};
use hta_trace::device::DeviceWork;
use hta_trace::interval::Union;
use hta_trace::rank_trace::RankTrace;
use hta_trace::timeline::WorkClass;
use std::collections::BTreeMap;

/// Share of communication on such a stream from which a rank cannot overlap it, percent.
pub const CANNOT_OVERLAP_PCT: f64 = 80.0;

/// Share of the compute that the stream of the compute has, percent. Another stream may run a few kernels of
/// compute, such as copies of FSDP before its collectives, while this one goes on.
const COMPUTE_PCT: f64 = 80.0;

/// When communication of a device runs on the stream of its compute.
pub fn communication_beside_compute(trace: &RankTrace, work: &DeviceWork) -> Union {
    let of = |class: WorkClass| {
        let all = work.activities.iter().map(|i| &trace.activities[*i as usize]);
        all.filter(move |a| a.work == class)
    };
    let mut compute: BTreeMap<Option<i64>, Ns> = BTreeMap::new();
    of(WorkClass::Compute).for_each(|a| *compute.entry(a.stream()).or_default() += a.span.len());
    let stream = stream_of_compute(&compute);
    Union::new(
        of(WorkClass::Communication).filter(|a| stream.is_some() && a.stream() == stream).map(|a| a.span),
    )
}

/// The stream with nearly all of the compute, by the time of each.
fn stream_of_compute(time: &BTreeMap<Option<i64>, Ns>) -> Option<i64> {
    let all: Ns = time.values().sum();
    let is_of_compute = |ns: Ns| percent(ns, all).is_some_and(|pct| pct >= COMPUTE_PCT);
    time.iter().find(|(_, ns)| is_of_compute(**ns)).and_then(|(stream, _)| *stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_with_a_few_copies_is_not_the_stream_of_the_compute() {
        let time = |streams: &[(Option<i64>, Ns)]| stream_of_compute(&streams.iter().copied().collect());
        assert_eq!(time(&[(Some(7), 900), (Some(20), 100)]), Some(7));
        assert_eq!(time(&[(Some(7), 500), (Some(20), 500)]), None);
        assert_eq!([time(&[(None, 900)]), time(&[])], [None, None]);
    }
}

//! The place of a moment in the history of a snapshot.

use hta_trace::memory_moment::MemoryMoment;
use hta_trace::snapshot::{Entry, Snapshot};

/// The entry after which it is: `Some(None)` is before the first. `None` if the history has no such moment.
pub(crate) fn seq<'a>(
    moment: MemoryMoment,
    peak: Option<u32>,
    entries: impl Iterator<Item = &'a Entry>,
) -> Option<Option<u32>> {
    let all = (0u32..).zip(entries);
    match moment {
        // A snapshot has no steps.
        MemoryMoment::Step(_) => None,
        MemoryMoment::Peak => Some(peak),
        MemoryMoment::End => Some(all.map(|(seq, _)| seq).last()),
        MemoryMoment::Entry(seq) => (all.count() as u64 > u64::from(seq)).then_some(Some(seq)),
        MemoryMoment::Time(ns) => {
            let mut last = None;
            let mut has_time = false;
            for (seq, entry) in all {
                let Some(time) = entry.time_us() else { continue };
                has_time = true;
                if time.saturating_mul(1000) > ns {
                    break;
                }
                last = Some(seq);
            }
            has_time.then_some(last)
        }
    }
}

/// Whether a history of the snapshot has the moment; the end is also known without one.
pub(super) fn is_in(snapshot: &Snapshot, moment: MemoryMoment) -> bool {
    moment == MemoryMoment::End
        || snapshot.histories.iter().any(|history| seq(moment, None, snapshot.entries(history)).is_some())
}

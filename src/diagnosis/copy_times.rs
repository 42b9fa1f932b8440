//! What copies of a device carry, and what those of pageable memory would take if the memory were pinned.

use crate::CauseKind;
use hta_analysis::copies::copy::Copy;
use hta_base::table;
use hta_base::table::schema::Text;
use hta_base::units::{Ns, Span};
use hta_trace::device::DeviceWork;
use hta_trace::rank_trace::RankTrace;
use hta_trace::window::Window;
use std::collections::BTreeMap;

table! {
    /// Copies of a device in a window, by direction.
    pub(crate) struct CopyTimes, CopyTimeRow = "copy_times" by "rank, device, scope, step, direction" {
        rank; device; scope; step; step_label;
        direction: Text, "", "HtoD, DtoH, DtoD, PtoP, HtoH or unknown";
        size_bytes: u64, "bytes", "size of those that start in the window, where known";
        sized_ns: i64, "ns", "summed durations of these";
        pageable_bytes: u64, "bytes", "carried from or to pageable memory while nothing else runs";
        linked_ns: i64, "ns", "what these bytes take at the peak of the link to the host";
        seen_ns: i64, "ns", "what they take at the best rate of any copy from or to the host of the rank";
    }
}

/// Peak of the link to the host where the device is not known, bytes per ns: PCIe x16 of generation 4.
const LINK: f64 = 25.0;

/// Copies of at least this size show the rate of a link, bytes.
const LARGE: u64 = 1 << 20;

/// Sums of a direction.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CopyTime {
    pub(crate) bytes: u64,
    pub(crate) sized: Ns,
    pub(crate) pageable_bytes: u64,
    pub(crate) linked: Ns,
    pub(crate) seen: Ns,
}

impl CopyTime {
    pub(crate) fn add(&mut self, other: &CopyTime) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.sized += other.sized;
        self.pageable_bytes = self.pageable_bytes.saturating_add(other.pageable_bytes);
        self.linked += other.linked;
        self.seen += other.seen;
    }
}

/// A stretch in which only a copy of pageable memory runs.
pub(crate) struct PageablePiece {
    pub(crate) span: Span,
    pub(crate) direction: &'static str,
    /// Bytes per ns.
    pub(crate) rate: f64,
}

/// Adds the rows of a device. `pageable` is in order of time; `link` the peak of its link to the host, bytes
/// per ns.
pub(crate) fn push(
    table: &mut CopyTimes,
    trace: &RankTrace,
    (work, link): (&DeviceWork, Option<f64>),
    ways: &[(Copy, Option<CauseKind>)],
    (pageable, windows): (&[PageablePiece], &[Window]),
) {
    let is_own = |c: &&Copy| trace.activities[c.activity as usize].device() == work.device;
    let mut own: Vec<&Copy> = ways
        .iter()
        .map(|(c, _)| c)
        .filter(|c| c.direction != "set" && c.bytes.is_some())
        .filter(is_own)
        .collect();
    own.sort_by_key(|c| c.span.start);
    let best = ways.iter().filter_map(|(c, _)| host_rate(c)).fold(0.0, f64::max);
    for w in windows {
        let mut sums: BTreeMap<&'static str, CopyTime> = BTreeMap::new();
        for part in w.parts() {
            let first = own.partition_point(|c| c.span.start < part.start);
            for c in own[first..].iter().take_while(|c| c.span.start < part.end) {
                let sum = sums.entry(c.direction).or_default();
                sum.bytes = sum.bytes.saturating_add(c.bytes.unwrap_or(0));
                sum.sized += c.span.len();
            }
            let first = pageable.partition_point(|p| p.span.end <= part.start);
            for p in pageable[first..].iter().take_while(|p| p.span.start < part.end) {
                let bytes = p.span.intersect(*part).len() as f64 * p.rate;
                sums.entry(p.direction).or_default().add(&CopyTime {
                    pageable_bytes: bytes as u64,
                    linked: (bytes / link.unwrap_or(LINK).max(best)) as Ns,
                    seen: (bytes / best.max(p.rate)) as Ns,
                    ..CopyTime::default()
                });
            }
        }
        for (direction, sum) in sums {
            table.push(CopyTimeRow {
                rank: trace.rank,
                device: work.device,
                scope: w.scope.name(),
                step: w.step,
                step_label: w.label,
                direction,
                size_bytes: sum.bytes,
                sized_ns: sum.sized,
                pageable_bytes: sum.pageable_bytes,
                linked_ns: sum.linked,
                seen_ns: sum.seen,
            });
        }
    }
}

/// Bytes per ns.
pub(crate) fn rate(c: &Copy) -> Option<f64> {
    Some(c.bytes? as f64 / c.span.len() as f64).filter(|rate| rate.is_finite() && *rate > 0.0)
}

/// That of a copy from or to the host that is large enough to show the rate of the link.
fn host_rate(c: &Copy) -> Option<f64> {
    let is_large = c.bytes.is_some_and(|b| b >= LARGE);
    rate(c).filter(|_| is_large && matches!(c.direction, "HtoD" | "DtoH"))
}

//! The idle time of one device, gap by gap, and how the part inside a window divides.
//!
//! Gaps are classified once, over the whole capture, and then cut by windows; so whoever asks for the
//! same window gets the same parts, and the parts of steps and of what lies outside them add up to the
//! capture's.

use super::gaps::{Classifier, Gap, Sums, busiest_launcher};
use super::host_activity::{HostNames, HostUse};
use crate::model::interval::Union;
use crate::model::rank_trace::{DeviceWork, RankTrace};
use crate::units::{Ns, Span};
use std::collections::BTreeMap;

/// Kind of host activity, and names of its event and of the frame that called it.
pub type UseKey<'a> = (&'static str, (&'a str, &'a str));

/// Idle time of a device.
pub struct DeviceIdle<'a> {
    trace: &'a RankTrace,
    names: &'a HostNames,
    pub busy: Union,
    /// Thread to blame when no activity follows.
    pub default_thread: Option<u32>,
    /// In order of time.
    pub gaps: Vec<Gap>,
    uses: Vec<Vec<HostUse>>,
}

/// Idle time of one window.
#[derive(Debug, Default)]
pub struct Split<'a> {
    pub sums: Sums,
    /// What the host did during host wait: time and number of gaps. The times sum to `sums.host`.
    pub host: BTreeMap<UseKey<'a>, (Ns, u64)>,
}

impl<'a> DeviceIdle<'a> {
    /// Gaps of the capture that reach into one of `within`: ordered, disjoint spans.
    pub fn new(
        trace: &'a RankTrace,
        work: &DeviceWork,
        kernel_wait_max: Ns,
        names: &'a HostNames,
        within: &[Span],
    ) -> Self {
        let default_thread = if work.is_gpu { busiest_launcher(trace, work) } else { trace.main_thread() };
        let classifier = Classifier { trace, activities: &work.activities, kernel_wait_max, default_thread };
        let busy = work.timeline.busy();
        let asked = |gap: &Span| {
            let i = within.partition_point(|w| w.end <= gap.start);
            within.get(i).is_some_and(|w| w.start < gap.end)
        };
        let gaps: Vec<Gap> =
            busy.gaps_in(trace.capture).into_iter().filter(asked).map(|g| classifier.classify(g)).collect();
        let uses = gaps.iter().map(|g| names.uses(trace, g.thread, Span::new(g.span.start, g.host_until))).collect();
        Self { trace, names, busy, default_thread, gaps, uses }
    }

    /// The idle time inside the parts of a window.
    pub fn split(&self, parts: &[Span]) -> Split<'a> {
        let mut split = Split::default();
        for part in parts {
            let first = self.gaps.partition_point(|g| g.span.end <= part.start);
            let gaps = self.gaps.iter().zip(&self.uses).skip(first);
            for (gap, used) in gaps.take_while(|(g, _)| g.span.start < part.end) {
                gap.add_to(&mut split.sums, *part);
                let mut here: BTreeMap<UseKey, Ns> = BTreeMap::new();
                for u in used {
                    let time = u.span.intersect(*part).len();
                    if time > 0 {
                        *here.entry((u.activity, self.names.texts(self.trace, u))).or_default() += time;
                    }
                }
                for (key, time) in here {
                    let total = split.host.entry(key).or_default();
                    total.0 += time;
                    total.1 += 1;
                }
            }
        }
        split
    }
}

/// Name of a use for people: a built-in Python function with the frame that called it.
pub fn use_name((event, caller): (&str, &str)) -> String {
    if caller.is_empty() { event.to_string() } else { format!("{event} in {caller}") }
}

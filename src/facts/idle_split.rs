//! The idle time of one device, gap by gap, and how the part inside a window divides.
//!
//! Gaps are classified once, over the whole capture, and then cut by windows; so whoever asks for the
//! same window gets the same parts, and the parts of steps and of what lies outside them add up to the
//! capture's.

use crate::facts::gaps::{Classifier, Gap, Sums, busiest_launcher};
use crate::facts::host_activity::HostNames;
use crate::facts::host_sums::HostSums;
use crate::trace::device::DeviceWork;
use crate::trace::interval::Union;
use crate::trace::rank_trace::RankTrace;
use crate::trace::strings::StrId;
use crate::units::{Ns, Span};
use hashbrown::HashMap;
use std::borrow::Cow;
use std::cmp::Reverse;
use std::sync::Arc;

/// Kind of host activity, and names of its event and of the frame that called it.
pub type UseKey<'a> = (&'static str, (&'a str, &'a str));

/// Idle time of a device.
pub struct DeviceIdle<'a> {
    pub busy: Union,
    /// Thread to blame when no activity follows.
    pub default_thread: Option<u32>,
    /// In order of time.
    pub gaps: Vec<Gap>,
    uses: Uses,
    keys: Vec<UseKey<'a>>,
    /// Each key's place among the sorted keys.
    order: Vec<u32>,
}

/// What the host did in the gaps.
enum Uses {
    /// Gap by gap: a gap's uses follow each other from its start to the end of the host's part.
    Listed {
        lengths: Vec<Ns>,
        /// The place of each use's key in `keys`.
        used: Vec<u32>,
        /// Where each gap's begin; one more entry for the end.
        from: Vec<u32>,
    },
    /// Looked up in what all devices share.
    Shared(Arc<HostSums>),
}

/// Devices of a rank from which they share what the host did. No machine has that many; a file may.
const SHARED_FROM: usize = 32;

/// Time and gaps of a key so far.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    time: Ns,
    gaps: u64,
    /// The gap counted last.
    last: u64,
}

/// Idle time of one window.
#[derive(Debug, Default)]
pub struct Split {
    pub sums: Sums,
    /// What the host did during host wait, longest first and then by key. The times sum to `sums.host`.
    pub host: Vec<HostTime>,
}

/// Host wait under one key.
#[derive(Debug, Clone, Copy)]
pub struct HostTime {
    /// For [`DeviceIdle::key`].
    pub key: u32,
    pub time: Ns,
    /// Gaps in which it happened.
    pub gaps: u64,
}

impl<'a> DeviceIdle<'a> {
    /// Gaps of the device's capture that reach into one of `within`: ordered, disjoint spans.
    pub fn new(
        trace: &'a RankTrace,
        work: &DeviceWork,
        kernel_wait_max: Ns,
        names: &HostNames,
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
            busy.gaps_in(work.capture).into_iter().filter(asked).map(|g| classifier.classify(g)).collect();
        if trace.devices.len() >= SHARED_FROM {
            let shared = trace.shared(HostSums::new);
            let text = |(activity, name, caller): &(&'static str, StrId, StrId)| {
                (*activity, (trace.text(*name), trace.text(*caller)))
            };
            let keys = shared.keys().iter().map(text).collect();
            return Self::ordered(busy, default_thread, gaps, Uses::Shared(shared), keys);
        }
        let (mut lengths, mut used) = (Vec::new(), Vec::new());
        let (mut from, mut keys) = (Vec::with_capacity(gaps.len() + 1), Vec::new());
        let mut known: HashMap<(&'static str, StrId, StrId), u32> = HashMap::new();
        let name = |row: Option<u32>| row.map_or(StrId::EMPTY, |r| trace.columns.name(r as usize));
        for g in &gaps {
            from.push(used.len() as u32);
            names.each_use(trace, g.thread, Span::new(g.span.start, g.host_until), |u| {
                let key = *known.entry((u.activity, name(u.row), name(u.caller))).or_insert_with(|| {
                    keys.push((u.activity, (trace.text(name(u.row)), trace.text(name(u.caller)))));
                    (keys.len() - 1) as u32
                });
                lengths.push(u.span.len());
                used.push(key);
            });
        }
        from.push(used.len() as u32);
        Self::ordered(busy, default_thread, gaps, Uses::Listed { lengths, used, from }, keys)
    }

    fn ordered(busy: Union, default_thread: Option<u32>, gaps: Vec<Gap>, uses: Uses, keys: Vec<UseKey<'a>>) -> Self {
        let mut sorted: Vec<u32> = (0..keys.len() as u32).collect();
        sorted.sort_unstable_by_key(|&k| keys[k as usize]);
        let mut order = vec![0; keys.len()];
        (0..).zip(sorted).for_each(|(place, k)| order[k as usize] = place);
        Self { busy, default_thread, gaps, uses, keys, order }
    }

    /// What host wait is counted under, by number.
    pub fn keys(&self) -> &[UseKey<'a>] {
        &self.keys
    }

    pub fn key(&self, number: u32) -> UseKey<'a> {
        self.keys[number as usize]
    }

    /// Keys and times of what the host did in its part of a gap, inside `part`; no time is 0.
    fn each_use(&self, g: usize, gap: &Gap, part: Span, mut take: impl FnMut(u32, Ns)) {
        match &self.uses {
            Uses::Listed { lengths, used, from } => {
                let range = from.get(g).zip(from.get(g + 1)).map_or(0..0, |(a, b)| *a as usize..*b as usize);
                let mut at = gap.span.start;
                for (key, length) in used[range.clone()].iter().zip(&lengths[range]) {
                    let span = Span::new(at, at + length);
                    at = span.end;
                    let time = span.intersect(part).len();
                    if time > 0 {
                        take(*key, time);
                    }
                }
            }
            Uses::Shared(shared) => {
                let span = Span::new(gap.span.start, gap.host_until).intersect(part);
                shared.each(gap.thread, span, take);
            }
        }
    }

    /// The idle time inside the parts of a window.
    pub fn split(&self, parts: &[Span]) -> Split {
        let mut split = Split::default();
        let mut sums: HashMap<u32, Sum> = HashMap::new();
        let mut met = 0;
        for part in parts {
            let first = self.gaps.partition_point(|g| g.span.end <= part.start);
            let gaps = self.gaps.iter().enumerate().skip(first);
            for (g, gap) in gaps.take_while(|(_, g)| g.span.start < part.end) {
                gap.add_to(&mut split.sums, *part);
                met += 1;
                self.each_use(g, gap, *part, |key, time| {
                    let sum = sums.entry(key).or_default();
                    sum.time += time;
                    sum.gaps += u64::from(sum.last != met);
                    sum.last = met;
                });
            }
        }
        split.host = sums.into_iter().map(|(k, s)| HostTime { key: k, time: s.time, gaps: s.gaps }).collect();
        split.host.sort_unstable_by_key(|h| (Reverse(h.time), self.order[h.key as usize]));
        split
    }
}

/// Name of a use for people: a built-in Python function with the frame that called it.
pub fn use_name<'a>((event, caller): (&'a str, &'a str)) -> Cow<'a, str> {
    if caller.is_empty() { Cow::Borrowed(event) } else { Cow::Owned(format!("{event} in {caller}")) }
}

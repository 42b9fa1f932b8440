//! The idle time of one device, gap by gap, and its division inside a window.
//!
//! Gaps are classified once, over the whole capture, and then cut at windows. So all analyses get the same
//! parts for the same window, and the parts of the steps and of the time outside them add up to the
//! capture's.

use crate::gaps::{Classifier, Gap, IdleSums};
use crate::host_activity::HostNames;
use crate::host_sums::{HostSums, HostUseKey};
use hashbrown::HashMap;
use hta_base::units::{Ns, Span};
use hta_trace::device::DeviceWork;
use hta_trace::interval::Union;
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::StrId;
use std::borrow::Cow;
use std::cmp::Reverse;
use std::sync::Arc;

/// Kind of host activity, and the names of its event and of the frame that called it.
pub type UseKey<'a> = (&'static str, (&'a str, &'a str));

pub struct DeviceIdle<'a> {
    pub busy: Union,
    /// Responsible thread if no activity follows.
    pub default_thread: Option<u32>,
    /// In order of time.
    pub gaps: Vec<Gap>,
    uses: HostUses,
    keys: Vec<UseKey<'a>>,
    /// Position of each key among the sorted keys.
    order: Vec<u32>,
}

/// What the host did during the gaps.
enum HostUses {
    /// Listed gap by gap: the uses of a gap follow each other from its start to the end of the host's part.
    Listed {
        lengths: Vec<Ns>,
        /// The place of each use's key in `keys`.
        used: Vec<u32>,
        /// Where each gap's begin; one more entry for the end.
        from: Vec<u32>,
    },
    /// Looked up in sums that all devices of the rank share.
    Shared(Arc<HostSums>),
}

/// Number of devices of a rank from which shared sums are used. No machine has that many, but a file may.
const SHARED_FROM: usize = 32;

/// Accumulated time and number of gaps of a key.
#[derive(Debug, Clone, Copy, Default)]
struct KeySum {
    time: Ns,
    gaps: u64,
    /// The last gap that was counted.
    last: u64,
}

#[derive(Debug, Default)]
pub struct Split {
    pub sums: IdleSums,
    /// Host wait by what the host did: longest first, then by key. The times sum to `sums.host`.
    pub host: Vec<HostTime>,
}

#[derive(Debug, Clone, Copy)]
pub struct HostTime {
    /// Key for [`DeviceIdle::key`].
    pub key: u32,
    pub time: Ns,
    /// Number of gaps in which it occurred.
    pub gaps: u64,
}

impl<'a> DeviceIdle<'a> {
    /// Finds the gaps of the device's capture that overlap one of `within` (ordered, disjoint spans).
    pub fn new(
        trace: &'a RankTrace,
        work: &DeviceWork,
        kernel_wait_max: Ns,
        names: &HostNames,
        within: &[Span],
    ) -> Self {
        let classifier = Classifier::of_device(trace, work, kernel_wait_max);
        let default_thread = classifier.default_thread;
        let busy = work.timeline.busy();
        let asked = |gap: &Span| {
            let i = within.partition_point(|w| w.end <= gap.start);
            within.get(i).is_some_and(|w| w.start < gap.end)
        };
        let gaps: Vec<Gap> =
            busy.gaps_in(work.capture).into_iter().filter(asked).map(|g| classifier.classify(g)).collect();
        if trace.devices.len() >= SHARED_FROM {
            let shared = trace.shared(HostSums::new);
            let text = |(activity, name, caller): &HostUseKey| {
                (activity.name(), (trace.text(*name), trace.text(*caller)))
            };
            let keys = shared.keys().iter().map(text).collect();
            return Self::ordered(busy, default_thread, gaps, HostUses::Shared(shared), keys);
        }
        let (mut lengths, mut used) = (Vec::new(), Vec::new());
        let (mut from, mut keys) = (Vec::with_capacity(gaps.len() + 1), Vec::new());
        let mut known: HashMap<HostUseKey, u32> = HashMap::new();
        let name = |row: Option<u32>| row.map_or(StrId::EMPTY, |r| trace.columns.name(r as usize));
        for g in &gaps {
            from.push(used.len() as u32);
            names.each_use(trace, g.thread, Span::new(g.span.start, g.host_until), |u| {
                let key = *known.entry((u.activity, name(u.row), name(u.caller))).or_insert_with(|| {
                    keys.push((u.activity.name(), (trace.text(name(u.row)), trace.text(name(u.caller)))));
                    (keys.len() - 1) as u32
                });
                lengths.push(u.span.len());
                used.push(key);
            });
        }
        from.push(used.len() as u32);
        Self::ordered(busy, default_thread, gaps, HostUses::Listed { lengths, used, from }, keys)
    }

    fn ordered(
        busy: Union,
        default_thread: Option<u32>,
        gaps: Vec<Gap>,
        uses: HostUses,
        keys: Vec<UseKey<'a>>,
    ) -> Self {
        let mut sorted: Vec<u32> = (0..keys.len() as u32).collect();
        sorted.sort_unstable_by_key(|&k| keys[k as usize]);
        let mut order = vec![0; keys.len()];
        (0..).zip(sorted).for_each(|(place, k)| order[k as usize] = place);
        Self { busy, default_thread, gaps, uses, keys, order }
    }

    /// The keys of host wait; a key's index is its number.
    pub fn keys(&self) -> &[UseKey<'a>] {
        &self.keys
    }

    pub fn key(&self, number: u32) -> UseKey<'a> {
        self.keys[number as usize]
    }

    /// Keys and times of what the host did in its part of a gap, inside `part`; no time is 0.
    fn each_use(&self, g: usize, gap: &Gap, part: Span, mut take: impl FnMut(u32, Ns)) {
        match &self.uses {
            HostUses::Listed { lengths, used, from } => {
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
            HostUses::Shared(shared) => {
                let span = Span::new(gap.span.start, gap.host_until).intersect(part);
                shared.each(gap.thread, span, take);
            }
        }
    }

    /// Divides the idle time inside the parts of a window.
    pub fn split(&self, parts: &[Span]) -> Split {
        let mut split = Split::default();
        let mut sums: HashMap<u32, KeySum> = HashMap::new();
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

/// Display name of a use: for a built-in Python function, with the frame that called it.
pub fn use_name<'a>((event, caller): (&'a str, &'a str)) -> Cow<'a, str> {
    if caller.is_empty() { Cow::Borrowed(event) } else { Cow::Owned(format!("{event} in {caller}")) }
}

//! Sums over what host threads did in any stretch of time, by key, without walking through the whole stretch.
//!
//! On a rank with few devices, each device walks through what the host did during its gaps. That costs the
//! length of the trace per device, and a file may name any number of devices. So with many devices, each
//! thread is walked only once:
//!
//! ```text
//!   pieces        |a|b|a|..|b|a|c|b|a|..
//!   sums before   ^a0 b0 c0  ^a3 b2 c0          every `stride` pieces, by key
//!   query             [...........)             difference of two sums, and the pieces at both ends
//! ```

use crate::host_activity::{HostActivity, HostNames};
use hashbrown::HashMap;
use hta_base::units::{Ns, Span};
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::StrId;
use std::collections::BTreeMap;

/// Kind of host activity, name of its event, and name of the frame that called it.
pub(crate) type HostUseKey = (HostActivity, StrId, StrId);

/// Least number of pieces between two sums.
const STRIDE: usize = 64;

/// The threads of a rank over its capture.
#[derive(Default)]
pub(crate) struct HostSums {
    keys: Vec<HostUseKey>,
    threads: BTreeMap<Option<u32>, ThreadSums>,
}

/// One thread as consecutive pieces of time without gaps.
#[derive(Default)]
struct ThreadSums {
    /// Start of each piece, followed by the end of the last.
    starts: Vec<Ns>,
    /// Index of each piece's key in `keys`.
    used: Vec<u32>,
    stride: usize,
    /// Total time by key of all pieces before every `stride`-th one.
    before: Vec<Vec<Ns>>,
}

impl HostSums {
    /// Sums for the threads that launch work, for `main`, and for time without a thread.
    pub(crate) fn new(trace: &RankTrace) -> Self {
        let names = HostNames::of(trace);
        let lanes =
            trace.launches().iter().filter_map(|(call, _)| trace.columns.lane.get(call as usize).copied());
        let mut me = Self::default();
        for lane in lanes.map(Some).chain([None, trace.main_thread()]) {
            me.threads.entry(lane).or_default();
        }
        let name = |row: Option<u32>| row.map_or(StrId::EMPTY, |r| trace.columns.name(r as usize));
        let mut known: HashMap<HostUseKey, u32> = HashMap::new();
        for (lane, thread) in &mut me.threads {
            names.each_use(trace, *lane, trace.capture, |u| {
                let key = (u.activity, name(u.row), name(u.caller));
                let place = *known.entry(key).or_insert_with(|| {
                    me.keys.push(key);
                    (me.keys.len() - 1) as u32
                });
                thread.starts.push(u.span.start);
                thread.used.push(place);
            });
            thread.starts.push(trace.capture.end);
        }
        me.threads.values_mut().for_each(ThreadSums::sum);
        me
    }

    pub(crate) fn keys(&self) -> &[HostUseKey] {
        &self.keys
    }

    /// Calls `take` with what a thread did inside a span: index of a key and time above 0; a key may come
    /// several times.
    pub(crate) fn each(&self, lane: Option<u32>, span: Span, mut take: impl FnMut(u32, Ns)) {
        if let Some(thread) = self.threads.get(&lane) {
            thread.each(span, &mut take);
        }
    }
}

impl ThreadSums {
    fn len(&self, piece: usize) -> Ns {
        self.piece(piece).len()
    }

    fn piece(&self, i: usize) -> Span {
        let at = |i: usize| self.starts.get(i).copied().unwrap_or(Ns::MAX);
        Span::new(at(i), at(i + 1))
    }

    fn sum(&mut self) {
        let keys = self.used.iter().max().map_or(0, |k| *k as usize + 1);
        // Sums take no more memory than pieces.
        self.stride = STRIDE.max(keys);
        let mut sums: Vec<Ns> = vec![0; keys];
        for (i, &key) in self.used.iter().enumerate() {
            if i % self.stride == 0 {
                self.before.push(sums.clone());
            }
            let ns = self.len(i);
            if let Some(sum) = sums.get_mut(key as usize) {
                *sum += ns;
            }
        }
    }

    fn each(&self, span: Span, take: &mut impl FnMut(u32, Ns)) {
        if span.is_empty() {
            return;
        }
        let mut walk = |pieces: std::ops::Range<usize>| {
            for (i, key) in pieces.clone().zip(self.used.get(pieces).unwrap_or_default()) {
                let ns = self.piece(i).intersect(span).len();
                if ns > 0 {
                    take(*key, ns);
                }
            }
        };
        let first = self.starts.partition_point(|t| *t <= span.start).saturating_sub(1);
        let end = self.starts.partition_point(|t| *t < span.end).min(self.used.len());
        // Only strides strictly inside the span, so that none contains one of its ends.
        let (from, until) =
            ((first + 1).div_ceil(self.stride.max(1)), end.saturating_sub(1) / self.stride.max(1));
        let (Some(low), Some(high)) = (self.before.get(from), self.before.get(until)) else {
            return walk(first..end);
        };
        if from >= until {
            return walk(first..end);
        }
        walk(first..from * self.stride);
        walk(until * self.stride..end);
        for (key, (a, b)) in low.iter().zip(high).enumerate() {
            if b > a {
                take(key as u32, b - a);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sums_match_a_walk_over_every_piece(
            pieces in prop::collection::vec((1i64..9, 0u32..5), 1..600),
            asked in prop::collection::vec((0i64..3_000, 0i64..3_000), 1..20),
        ) {
            let mut thread = ThreadSums::default();
            let mut at = 0;
            for (len, key) in &pieces {
                thread.starts.push(at);
                thread.used.push(*key);
                at += len;
            }
            thread.starts.push(at);
            thread.sum();
            for (start, len) in asked {
                let span = Span::new(start.min(at), (start + len).min(at));
                let (mut got, mut want) = ([0; 5], [0; 5]);
                thread.each(span, &mut |key, ns| got[key as usize] += ns);
                for i in 0..pieces.len() {
                    want[pieces[i].1 as usize] += thread.piece(i).intersect(span).len();
                }
                prop_assert_eq!(got, want);
            }
        }
    }
}

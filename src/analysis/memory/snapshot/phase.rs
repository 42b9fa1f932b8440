//! The phase in which an entry lies. The first rule that applies counts: the entry's own category, an
//! annotation of the optimizer around its time, then what its stack says.
//!
//! Whether memory is a parameter, a gradient or an activation is stated by no snapshot, and is not guessed.

use super::site::{StackFacts, StackPhase};
use hta_base::units::Ns;
use hta_trace::snapshot::{Entry, Snapshot};
use hta_trace::strings::StrId;
use std::collections::{BTreeMap, BTreeSet};

pub(crate) const UNKNOWN: &str = "unknown";

/// A time, in microseconds, in which the optimizer ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Interval {
    start: i64,
    end: i64,
    phase: &'static str,
    name: StrId,
}

/// The annotated times of a device.
pub struct Phases<'a> {
    snapshot: &'a Snapshot,
    /// By start, an outer one before those inside it.
    intervals: Vec<Interval>,
    /// Times at which another interval becomes the innermost, with its place.
    changes: Vec<(i64, Option<usize>)>,
}

impl<'a> Phases<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot, device: Option<i64>) -> Self {
        let mut intervals: Vec<Interval> = Vec::new();
        let mut open: BTreeMap<StrId, Vec<i64>> = BTreeMap::new();
        let of_device = snapshot.annotations.iter().filter(|a| a.device.is_none() || a.device == device);
        for a in of_device {
            let (Some(phase), Some(time)) = (phase_of_name(snapshot.texts.get(a.name)), a.time_us) else {
                continue;
            };
            if a.is_start {
                open.entry(a.name).or_default().push(time);
                continue;
            }
            // An end without a start belongs to what began before the recording.
            let start = open.get_mut(&a.name).and_then(Vec::pop).unwrap_or(i64::MIN);
            intervals.push(Interval { start, end: time, phase, name: a.name });
        }
        for (name, starts) in open {
            let phase = phase_of_name(snapshot.texts.get(name)).unwrap_or(UNKNOWN);
            intervals.extend(starts.into_iter().map(|start| Interval { start, end: i64::MAX, phase, name }));
        }
        intervals.sort_by_key(|i| (i.start, std::cmp::Reverse(i.end)));
        let changes = innermost(&intervals);
        Self { snapshot, intervals, changes }
    }

    /// The innermost annotation around a time.
    fn around(&self, entry: &Entry) -> Option<&Interval> {
        let time = entry.time_us()?;
        let begun = self.changes.partition_point(|(at, _)| *at <= time);
        let (_, innermost) = self.changes.get(begun.checked_sub(1)?)?;
        self.intervals.get((*innermost)?)
    }

    pub fn of(&self, entry: &Entry, facts: StackFacts) -> &'a str {
        if entry.category != StrId::EMPTY {
            return self.snapshot.texts.get(entry.category);
        }
        if let Some(interval) = self.around(entry) {
            return interval.phase;
        }
        match facts.phase {
            StackPhase::Optimizer => "optimizer",
            StackPhase::Backward => "backward",
            StackPhase::Forward => "forward",
            StackPhase::Unknown => UNKNOWN,
            StackPhase::Other => "other",
        }
    }

    /// Name of the annotation around an entry, and the time since it began, ns.
    pub fn since(&self, entry: &Entry) -> Option<(&'a str, Ns)> {
        let interval = self.around(entry).filter(|i| i.start != i64::MIN)?;
        let since_us = entry.time_us()? - interval.start;
        Some((self.snapshot.texts.get(interval.name), since_us.saturating_mul(1000)))
    }
}

/// When which interval is the innermost: of those around a time the last in their order.
///
/// ```text
///   0  |--------------|          changes  0  1     0       -
///   1     |-----|                         |  |     |       |
/// ```
fn innermost(intervals: &[Interval]) -> Vec<(i64, Option<usize>)> {
    let mut bounds: Vec<(i64, usize, bool)> = Vec::with_capacity(2 * intervals.len());
    for (place, interval) in intervals.iter().enumerate().filter(|(_, i)| i.start < i.end) {
        bounds.push((interval.start, place, true));
        bounds.push((interval.end, place, false));
    }
    bounds.sort_unstable();
    let mut around: BTreeSet<usize> = BTreeSet::new();
    let mut changes: Vec<(i64, Option<usize>)> = Vec::new();
    for (time, place, is_start) in bounds {
        if is_start {
            around.insert(place);
        } else {
            around.remove(&place);
        }
        let now = around.last().copied();
        match changes.last_mut() {
            Some((at, innermost)) if *at == time => *innermost = now,
            Some((_, innermost)) if *innermost == now => {}
            _ => changes.push((time, now)),
        }
    }
    changes
}

/// The phase that an annotation of `torch.optim` names.
fn phase_of_name(name: &str) -> Option<&'static str> {
    if name.contains("zero_grad#") {
        Some("zero_grad")
    } else if name.starts_with("Optimizer.step#") {
        Some("optimizer")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_interval_is_that_which_a_search_from_the_last_finds() {
        let of = |start, end| Interval { start, end, phase: UNKNOWN, name: StrId::EMPTY };
        let mut intervals = vec![
            of(0, 20),
            of(3, 9),
            of(5, 12),
            of(5, 5),
            of(14, i64::MAX),
            of(i64::MIN, 2),
            of(30, 25),
            of(9, 14),
        ];
        intervals.sort_by_key(|i| (i.start, std::cmp::Reverse(i.end)));
        let changes = innermost(&intervals);
        for time in -2..40 {
            let searched = intervals.iter().rposition(|i| i.start <= time && time < i.end);
            let begun = changes.partition_point(|(at, _)| *at <= time);
            assert_eq!(changes[begun - 1].1, searched, "{time}");
        }
    }
}

//! The phase in which an entry lies. The first rule that applies counts: the entry's own category, an annotation of the
//! optimizer around its time, then what its stack says.
//!
//! Whether memory is a parameter, a gradient or an activation is stated by no snapshot, and is not guessed.

use super::site::{StackFacts, StackPhase};
use crate::read::snapshot::{Entry, Snapshot};
use crate::trace::strings::StrId;

pub const UNKNOWN: &str = "unknown";

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
    intervals: Vec<Interval>,
}

impl<'a> Phases<'a> {
    pub fn new(snapshot: &'a Snapshot, device: Option<i64>) -> Self {
        let mut intervals: Vec<Interval> = Vec::new();
        let mut open: Vec<(StrId, i64)> = Vec::new();
        let of_device = snapshot.annotations.iter().filter(|a| a.device.is_none() || a.device == device);
        for a in of_device {
            let (Some(phase), Some(time)) = (phase_of_name(snapshot.texts.get(a.name)), a.time_us) else { continue };
            if a.is_start {
                open.push((a.name, time));
                continue;
            }
            // An end without a start belongs to what began before the recording.
            let at = open.iter().rposition(|(name, _)| *name == a.name);
            let start = at.map_or(i64::MIN, |at| open.remove(at).1);
            intervals.push(Interval { start, end: time, phase, name: a.name });
        }
        for (name, start) in open {
            let phase = phase_of_name(snapshot.texts.get(name)).unwrap_or(UNKNOWN);
            intervals.push(Interval { start, end: i64::MAX, phase, name });
        }
        intervals.sort_by_key(|i| (i.start, std::cmp::Reverse(i.end)));
        Self { snapshot, intervals }
    }

    /// The innermost annotation around a time.
    fn around(&self, entry: &Entry) -> Option<&Interval> {
        let time = entry.time_us()?;
        let begun = self.intervals.partition_point(|i| i.start <= time);
        self.intervals.get(..begun)?.iter().rev().find(|i| time < i.end)
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

    /// Name of the annotation around an entry, and the microseconds since it began.
    pub fn since(&self, entry: &Entry) -> Option<(&'a str, i64)> {
        let interval = self.around(entry).filter(|i| i.start != i64::MIN)?;
        Some((self.snapshot.texts.get(interval.name), entry.time_us()? - interval.start))
    }
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

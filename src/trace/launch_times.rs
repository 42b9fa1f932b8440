//! Whether the times of activities agree with those of their launch calls. They do not if the clock of a
//! device is ahead of the host's, or if activities were recorded on another stream, or at another time, than
//! they ran. Times in ns.
//!
//! ```text
//!   calls     |-a-|       |-b-|                 b' : when b starts by the host's clock
//!   stream    [a==)  [b==)                      b starts before its call began: the device's clock is ahead
//!                   <-------> ahead
//!   calls     |-a-| |-b-|
//!   stream            [b==)  [a==)              b overtakes a, which no stream does
//! ```
//!
//! How far a clock is ahead shows where the stream was empty: other activities wait for the one before, so
//! that they are early by less. There it is nearly the same amount each time, or else the launch records are
//! at fault.

use crate::activity::Activity;
use crate::clock_behind::{self, ClockBehind, are_steady};
use crate::events::Columns;
use crate::own_streams::OwnStreams;
use crate::timeline::WorkClass;
use hashbrown::HashMap;
use hta_base::health::{Counter, Health};
use hta_base::units::{Ns, Span};
use std::collections::BTreeMap;

/// Share of a device's activities that start before their calls at which its clock is in question, percent.
const EARLY_PCT: u64 = 5;

/// A device whose clock is ahead of the host's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockAhead {
    pub device: Option<i64>,
    /// The clock is ahead by at least this.
    pub ahead: Ns,
    /// Activities that start before their launch call began, and (next field) all that have one.
    pub early: u64,
    pub linked: u64,
}

/// What contradicts the order of launches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LaunchTimes {
    /// In order of device.
    pub clocks: Vec<ClockAhead>,
    /// Of the only device.
    pub behind: Option<ClockBehind>,
    /// Activities with a launch call, without communication.
    pub ordered: u64,
    /// Of those, activities that one launched after them overtook on their stream.
    pub overtaken: u64,
    /// The longest time between the calls of both, ns.
    pub overtaken_by: Ns,
}

impl LaunchTimes {
    /// `all` is in order of start and classified.
    pub fn of(all: &[Activity], c: &Columns, health: &mut Health) -> Self {
        let mut found = LaunchTimes::default();
        let mut devices: BTreeMap<Option<i64>, (u64, u64)> = BTreeMap::new();
        let mut at: (Option<i64>, (u64, u64)) = (None, (0, 0));
        for a in all {
            let Some(row) = a.launch() else { continue };
            if at.0 != a.device() {
                devices.insert(at.0, at.1);
                at = (a.device(), devices.get(&a.device()).copied().unwrap_or_default());
            }
            at.1.0 += u64::from(a.span.start < c.ts[row as usize]);
            at.1.1 += 1;
        }
        devices.insert(at.0, at.1);
        health.add(Counter::LaunchDelayNegative, devices.values().map(|d| d.0).sum(), None, "");
        let in_question = devices.into_iter().filter(|(_, (early, linked))| early * 100 > linked * EARLY_PCT);
        found.clocks = in_question
            .filter_map(|(device, (early, linked))| {
                let ahead = ahead(all.iter().filter(|a| a.device() == device), c)?;
                Some(ClockAhead { device, ahead, early, linked })
            })
            .collect();
        found.behind = clock_behind::find(all, c);
        found.follow(all, c);
        health.add(Counter::StreamOvertaken, found.overtaken, None, "");
        found
    }

    /// Compares the order of the activities of each stream with that of their calls. Kernels of communication
    /// are left out: some recorders show those of several communicators on one stream.
    fn follow(&mut self, all: &[Activity], c: &Columns) {
        // By stream: the latest start of a call so far.
        let mut latest: Vec<Ns> = Vec::new();
        let mut numbers = OwnStreams::default();
        let is_compared = |a: &&Activity| a.work != WorkClass::Communication && a.stream().is_some();
        for (a, row) in all.iter().filter(is_compared).filter_map(|a| Some((a, a.launch()?))) {
            let call = c.span(row as usize);
            self.ordered += 1;
            let Some(before) = latest.get_mut(numbers.number(a, c)) else {
                latest.push(call.start);
                continue;
            };
            // Calls of two threads may overlap.
            if call.end < *before {
                self.overtaken += 1;
                self.overtaken_by = self.overtaken_by.max(*before - call.start);
            }
            *before = call.start.max(*before);
        }
    }
}

/// By how much the clock of a device is ahead, if its activities are early by nearly the same amount.
fn ahead<'a>(activities: impl Iterator<Item = &'a Activity> + Clone, c: &Columns) -> Option<Ns> {
    let early = |a: &Activity, call: Span| call.start - a.span.start;
    let linked = || activities.clone().filter_map(|a| Some((a, c.span(a.launch()? as usize))));
    let least = linked().map(|(a, call)| early(a, call)).max()?;
    let mut ends: HashMap<Option<i64>, Ns> = HashMap::new();
    let mut last_call = None;
    let mut amounts: Vec<Ns> = Vec::new();
    for a in activities.clone() {
        let end = ends.entry(a.stream()).or_insert(Ns::MIN);
        // Of a graph only the first activity follows the call.
        if let Some(row) = a.launch().filter(|row| last_call != Some(*row)) {
            let call = c.span(row as usize);
            if end.saturating_add(least) <= call.start {
                amounts.push(early(a, call));
            }
        }
        last_call = a.launch().or(last_call);
        *end = a.span.end.max(*end);
    }
    amounts.sort_unstable();
    are_steady(&amounts).then_some(least)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::category::Class;
    use crate::events::{ColumnsBuilder, EventLane};
    use crate::strings::StrId;

    /// Activities of one stream, given by the start of their call and their own start and end; calls take 5
    /// ns.
    fn times(rows: &[(Ns, Ns, Ns)]) -> LaunchTimes {
        let mut c = ColumnsBuilder::default();
        c.lanes.push(EventLane { pid: StrId::EMPTY, tid: StrId::EMPTY, pid_num: None, tid_num: None });
        let mut all: Vec<Activity> = Vec::new();
        for (row, (call, start, end)) in (0u32..).zip(rows) {
            c.ts.push(*call);
            c.dur.push(5);
            c.lane.push(0);
            let mut a = Activity::new(row, Span::new(*start, *end), StrId::EMPTY, Class::Kernel).on(0, 7);
            a.set_launch(Some(row));
            all.push(a);
        }
        all.sort_by_key(|a| (a.span.start, a.row));
        LaunchTimes::of(&all, &c.finish(), &mut Health::default())
    }

    /// Steps of three kernels, of which the first finds the stream empty; times of the device are shifted.
    fn steps(shift: Ns) -> Vec<(Ns, Ns, Ns)> {
        let step = |i: Ns| {
            let t = i * 10_000;
            let kernel =
                move |k: Ns| (t + 10 * k, t + 20 + 300 * k + i % 3 - shift, t + 310 + 300 * k - shift);
            (0..3).map(kernel)
        };
        (1..9).flat_map(step).collect()
    }

    #[test]
    fn a_clock_that_is_ahead_is_found_with_its_size() {
        assert!(times(&steps(0)).clocks.is_empty());
        let found = times(&steps(4_000)).clocks;
        assert_eq!(found, [ClockAhead { device: Some(0), ahead: 3_980, early: 24, linked: 24 }]);
        assert_eq!(times(&steps(500)).clocks.first().map(|c| c.ahead), Some(480));
    }

    #[test]
    fn activities_that_are_early_by_any_amount_are_no_clock() {
        let rows: Vec<_> =
            steps(0).into_iter().zip(0..).map(|((c, s, e), i)| (c, s - 400 * (i % 7), e)).collect();
        assert!(times(&rows).clocks.is_empty());
    }

    #[test]
    fn overtaken_activities_are_counted() {
        let all = times(&[(0, 10, 20), (30, 500, 520), (40, 100, 120), (60, 130, 140), (64, 480, 490)]);
        // The one launched at 30 runs last.
        assert_eq!((all.ordered, all.overtaken, all.overtaken_by), (5, 1, 34));
        assert_eq!(times(&steps(0)).overtaken, 0);
    }
}

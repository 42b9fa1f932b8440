//! Whether the clock of a device is behind that of the host: work that was launched before a call waited for
//! the device ends after this call has returned, by nearly the same time. Times in ns.
//!
//! ```text
//!   calls     |-a-| |-b-| |-synchronize------|
//!   device       [a=======)[b======================)
//!                                            <-----> behind
//! ```

use crate::activity::Activity;
use crate::events::Columns;
use crate::strings::StrId;
use hashbrown::HashMap;
use hta_base::units::{Ns, Span};
use std::collections::BTreeMap;

/// Calls that return when all work of the device has ended.
const WAITS: [&str; 2] = ["cudaDeviceSynchronize", "hipDeviceSynchronize"];

/// Calls that return when all work of a stream has ended.
const STREAM_WAITS: [&str; 2] = ["cudaStreamSynchronize", "hipStreamSynchronize"];

/// A call that waits returns this much after the work has ended, at most, ns.
const RETURN: u64 = 200_000;

/// Work may end this much after such a call, ns: clocks are not exact.
const LATE: Ns = 20_000;

/// Fewest amounts by which clocks differ.
const FEWEST: usize = 3;

/// Share of the calls, percent.
const LATE_PCT: usize = 50;

/// Largest interquartile range of the amounts, percent of the median.
const SPREAD_PCT: Ns = 20;

/// A device whose clock is behind the host's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockBehind {
    /// The clock is behind by at least this.
    pub behind: Ns,
    /// Calls before which work ends too late, and (next field) all that have work before them.
    pub late: u64,
    pub waits: u64,
}

/// Whether amounts (ascending) by which two clocks differ are enough, and nearly the same.
pub fn are_steady(amounts: &[Ns]) -> bool {
    let quartile = |k: usize| amounts.get((amounts.len().saturating_sub(1)) * k / 4).copied().unwrap_or(0);
    let spread = quartile(3) - quartile(1);
    amounts.len() >= FEWEST
        && quartile(2) > 0
        && spread.saturating_mul(100) < quartile(2).saturating_mul(SPREAD_PCT)
}

/// The clock of the only device. `all` is in order of start.
pub fn find(all: &[Activity], c: &Columns) -> Option<ClockBehind> {
    let device = all.first()?.device();
    let calls = waits(c, &WAITS);
    if calls.is_empty() || all.iter().any(|a| a.device() != device) {
        return None;
    }
    let mut amounts = late_ends(all.iter(), c, calls);
    let all = amounts.len();
    amounts.retain(|amount| *amount > LATE);
    amounts.sort_unstable();
    let is_behind = amounts.len() * 100 > all * LATE_PCT && are_steady(&amounts);
    let behind = amounts.last().copied().filter(|_| is_behind)?;
    Some(ClockBehind { behind, late: amounts.len() as u64, waits: all as u64 })
}

/// Whether an offset of the clock of a device explains both starts and ends: work starts `least` after its
/// call at least, and what calls waited for ends as much after they have returned.
pub(super) fn is_bracketed(of_device: &[&Activity], c: &Columns, least: Ns) -> bool {
    let calls = waits(c, &[WAITS, STREAM_WAITS].concat());
    let late = late_ends(of_device.iter().copied(), c, calls);
    let near = late.iter().filter(|by| by.abs_diff(least) <= RETURN).count();
    // No work ends after the call that waited for it.
    let is_possible = late.iter().all(|by| *by <= least.saturating_add(LATE));
    is_possible && near >= FEWEST && near * 100 > late.len() * LATE_PCT
}

/// A call that waits: its span, its thread, and whether for one stream only.
type Wait = (Span, Option<u32>, bool);

/// The calls of these names, in order of start.
fn waits(c: &Columns, names: &[&str]) -> Vec<Wait> {
    let known = c.strings.iter().filter(|(_, text)| names.contains(text));
    let ids: HashMap<StrId, bool> = known.map(|(id, text)| (id, STREAM_WAITS.contains(&text))).collect();
    if ids.is_empty() {
        return Vec::new();
    }
    let of_row = |row: usize| Some((c.span(row), c.lane.get(row).copied(), *ids.get(&c.name(row))?));
    let mut waits: Vec<Wait> = (0..c.len()).filter_map(of_row).collect();
    waits.sort_unstable_by_key(|(span, ..)| (span.start, span.end));
    waits
}

/// By how much the last work that was launched before each call that waited for it ends after the call. Of a
/// call that waits for a stream this is the stream on which its thread launched last.
fn late_ends<'a>(all: impl Iterator<Item = &'a Activity>, c: &Columns, waits: Vec<Wait>) -> Vec<Ns> {
    let launched = |a: &Activity| {
        let row = a.launch()? as usize;
        Some((c.span(row).end, a.span.end, c.lane.get(row).copied(), a.stream()))
    };
    let mut launched: Vec<_> = all.filter_map(launched).collect();
    launched.sort_unstable();
    let (mut next, mut amounts) = (0, Vec::new());
    // By stream the latest end of what no call has waited for yet; by thread the stream of its last launch.
    let (mut ends, mut streams) = (BTreeMap::new(), BTreeMap::new());
    for (wait, thread, is_of_stream) in waits {
        while let Some((_, end, thread, stream)) = launched.get(next).filter(|l| l.0 <= wait.start) {
            let latest = ends.entry(*stream).or_insert(*end);
            *latest = (*end).max(*latest);
            streams.insert(*thread, *stream);
            next += 1;
        }
        let waited = streams.get(&thread).copied();
        let is_waited = |stream: &Option<i64>| !is_of_stream || Some(*stream) == waited;
        let last = ends.iter().filter(|(stream, _)| is_waited(stream)).map(|(_, end)| *end).max();
        amounts.extend(last.map(|end: Ns| end.saturating_sub(wait.end)));
        ends.retain(|stream, _| !is_waited(stream));
    }
    amounts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::category::Class;
    use crate::events::ColumnsBuilder;

    const US: Ns = 1_000;

    /// Steps of a kernel, launched at 0 us and run from 10 us on, and a call that waits from 20 us until 105
    /// us.
    fn found(kernel_ends: &[Ns]) -> Option<ClockBehind> {
        let mut c = ColumnsBuilder::default();
        let (launch, wait) =
            (c.strings.intern("cudaLaunchKernel"), c.strings.intern("cudaDeviceSynchronize"));
        let mut all = Vec::new();
        for (step, end) in (0..).zip(kernel_ends) {
            let at = step * 1_000 * US;
            for (name, start, dur) in [(launch, at, 5 * US), (wait, at + 20 * US, 85 * US)] {
                c.ts.push(start);
                c.dur.push(dur);
                c.name.push(name);
            }
            let mut a =
                Activity::new(0, Span::new(at + 10 * US, at + end * US), launch, Class::Kernel).on(0, 7);
            a.set_launch(Some(2 * step as u32));
            all.push(a);
        }
        find(&all, &c.finish())
    }

    #[test]
    fn work_that_ends_after_the_call_that_waited_for_it_shows_a_clock_that_is_behind() {
        assert_eq!(found(&[500, 501, 500, 503]), Some(ClockBehind { behind: 398 * US, late: 4, waits: 4 }));
        assert_eq!(found(&[100, 101, 100, 103]), None);
        assert_eq!(found(&[500, 300, 700, 200]), None, "by any amount");
        assert_eq!(found(&[500, 500, 100, 100, 100, 500]), None, "half of the calls");
    }
}

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
use hashbrown::HashSet;
use hta_base::units::{Ns, Span};

/// Calls that return when all work of the device has ended.
const WAITS: [&str; 2] = ["cudaDeviceSynchronize", "hipDeviceSynchronize"];

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
pub(super) fn are_steady(amounts: &[Ns]) -> bool {
    let quartile = |k: usize| amounts.get((amounts.len().saturating_sub(1)) * k / 4).copied().unwrap_or(0);
    let spread = quartile(3) - quartile(1);
    amounts.len() >= FEWEST
        && quartile(2) > 0
        && spread.saturating_mul(100) < quartile(2).saturating_mul(SPREAD_PCT)
}

/// The clock of the only device. `all` is in order of start.
pub fn find(all: &[Activity], c: &Columns) -> Option<ClockBehind> {
    let device = all.first()?.device();
    let names: HashSet<StrId> =
        c.strings.iter().filter(|(_, text)| WAITS.contains(text)).map(|(id, _)| id).collect();
    if names.is_empty() || all.iter().any(|a| a.device() != device) {
        return None;
    }
    let rows = (0..c.len()).filter(|row| names.contains(&c.name(*row)));
    let mut waits: Vec<Span> = rows.map(|row| c.span(row)).collect();
    waits.sort_unstable_by_key(|w| (w.start, w.end));
    let mut launched: Vec<(Ns, Ns)> =
        all.iter().filter_map(|a| Some((c.span(a.launch()? as usize).end, a.span.end))).collect();
    launched.sort_unstable();
    let mut next = 0;
    // By how much the work before a call ends after it.
    let mut amounts: Vec<Ns> = Vec::new();
    for wait in waits {
        let before = next + launched.get(next..)?.partition_point(|(call_end, _)| *call_end <= wait.start);
        let last = launched.get(next..before).and_then(|work| work.iter().map(|(_, end)| *end).max());
        amounts.extend(last.map(|end| end.saturating_sub(wait.end)));
        next = before;
    }
    let all = amounts.len();
    amounts.retain(|amount| *amount > LATE);
    amounts.sort_unstable();
    let is_behind = amounts.len() * 100 > all * LATE_PCT && are_steady(&amounts);
    let behind = amounts.last().copied().filter(|_| is_behind)?;
    Some(ClockBehind { behind, late: amounts.len() as u64, waits: all as u64 })
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

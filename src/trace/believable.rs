//! Rows that start where nothing can have been recorded. They are left out of everything but the table
//! `events`, and windows end at the last believable row.
//!
//! ```text
//!   rows      |=|                     |==|==|=====|==|              |=|
//!   window    far from the others     [ record window ) 1 ms .......  after its end
//! ```
//!
//! Rows of devices and of hosts are judged apart, because their clocks may differ.

use crate::category::Class;
use crate::events::Columns;
use hta_base::health::{Counter, Health};
use hta_base::units::{Ns, fmt_ns};

/// Rows may start this much after the end of the record window, ns: clocks of devices are not exact.
const AFTER_END: Ns = 1_000_000;

/// Rows may start this much before the record window, ns: some recorders open it late.
const BEFORE_START: Ns = 1_000_000_000;

/// Rows may start this far from the median start in any recording, ns.
const FAR: Ns = 3_600_000_000_000;

/// In a long recording they may start as far from the median as this multiple of the median distance. Where
/// starts are spread evenly, the farthest is at 2.
const SPREAD: Ns = 6;

/// Rows whose times come from one clock.
#[derive(Debug, Clone, Copy)]
struct ClockRows {
    is_of: fn(Class) -> bool,
    counter: Counter,
}

const CLOCKS: [ClockRows; 2] = [
    ClockRows { is_of: is_on_device, counter: Counter::FarOutlier },
    ClockRows { is_of: is_on_host, counter: Counter::HostFarOutlier },
];

fn is_on_device(class: Class) -> bool {
    class.is_gpu() || matches!(class, Class::GpuAnnotation | Class::Sync | Class::CudaEvent)
}

fn is_on_host(class: Class) -> bool {
    class.is_host() || matches!(class, Class::Memory | Class::Unknown)
}

/// Gives rows outside of the recording the class [`Class::Outside`], and counts them. GPU rows of length 0 at
/// the origin of the file are a defect of their own: [`Counter::ZeroStart`].
pub(crate) fn leave_out(c: &mut Columns, classes: &mut [Class], base: Ns, health: &mut Health) {
    let mut believed: Option<Starts> = None;
    for clock in CLOCKS {
        let is_zero = |row: usize| classes[row].is_gpu() && c.ts[row] == base && c.dur[row] == 0;
        let rows = || (0..classes.len()).filter(|&row| (clock.is_of)(classes[row]) && !is_zero(row));
        let Some(mut starts) = Starts::of(rows().map(|row| c.ts[row])) else { continue };
        let bounds = Bounds::of(c, &starts, || rows().map(|row| c.ts[row]));
        if !bounds.hold(starts.first) || !bounds.hold(starts.last) {
            let out: Vec<usize> = rows().filter(|&row| !bounds.hold(c.ts[row])).collect();
            let inside = Starts::of(rows().map(|row| c.ts[row]).filter(|t| bounds.hold(*t)));
            starts = inside.unwrap_or(starts);
            if let Some(&row) = out.first() {
                let example = format!("{} {}", c.strings.get(c.name(row)), starts.distance(c.ts[row]));
                health.add(clock.counter, out.len() as u64, None, &example);
            }
            out.into_iter().for_each(|row| classes[row] = Class::Outside);
        }
        believed = Some(believed.map_or(starts, |b| b.and(starts)));
    }
    let Some(believed) = believed else { return };
    let bounds = Bounds::around(c, &believed);
    // Of rows that were not loaded only the extent is known.
    c.recorded.unloaded = c.unloaded.map(|(start, end)| {
        let start = if bounds.hold(start) { start } else { believed.first };
        (start, if bounds.hold(end) { end.max(start) } else { believed.last.max(start) })
    });
    let records = c.memory.len();
    c.recorded.memory.retain(|m| bounds.hold(m.ts));
    health.add(Counter::HostFarOutlier, (records - c.memory.len()) as u64, None, "a record of memory");
}

/// The starts of rows, in short.
#[derive(Debug, Clone, Copy)]
struct Starts {
    first: Ns,
    last: Ns,
    count: usize,
}

impl Starts {
    fn of(starts: impl Iterator<Item = Ns>) -> Option<Self> {
        let none = Starts { first: Ns::MAX, last: Ns::MIN, count: 0 };
        let all = starts.fold(none, |s, t| Starts {
            first: s.first.min(t),
            last: s.last.max(t),
            count: s.count + 1,
        });
        (all.count > 0).then_some(all)
    }

    fn and(self, other: Starts) -> Starts {
        let (first, last) = (self.first.min(other.first), self.last.max(other.last));
        Starts { first, last, count: self.count + other.count }
    }

    fn distance(&self, t: Ns) -> String {
        match t > self.last {
            true => format!("starts {} after all others", fmt_ns(t.saturating_sub(self.last))),
            false => format!("starts {} before all others", fmt_ns(self.first.saturating_sub(t))),
        }
    }
}

/// Where rows may start.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    low: Ns,
    high: Ns,
}

impl Bounds {
    fn of<I: Iterator<Item = Ns>>(c: &Columns, all: &Starts, starts: impl Fn() -> I) -> Self {
        let mut bounds = Bounds { low: Ns::MIN, high: Ns::MAX };
        if all.last.saturating_sub(all.first) > FAR {
            let mut sorted: Vec<Ns> = starts().collect();
            let median = middle(&mut sorted);
            sorted.iter_mut().for_each(|t| *t = t.saturating_sub(median).saturating_abs());
            let reach = middle(&mut sorted).saturating_mul(SPREAD).max(FAR);
            bounds = Bounds { low: median.saturating_sub(reach), high: median.saturating_add(reach) };
        }
        // A mark that most rows contradict is wrong itself.
        let is_believed = |outside: usize| outside * 2 <= all.count;
        if let Some(end) = c.window_end.map(|end| end.saturating_add(AFTER_END))
            && all.last > end
            && is_believed(starts().filter(|t| *t > end).count())
        {
            bounds.high = bounds.high.min(end);
        }
        if let Some(start) = c.window_start.map(|start| start.saturating_sub(BEFORE_START))
            && all.first < start
            && is_believed(starts().filter(|t| *t < start).count())
        {
            bounds.low = bounds.low.max(start);
        }
        bounds
    }

    /// For what is recorded beside the rows, where these start.
    fn around(c: &Columns, believed: &Starts) -> Self {
        let end = c.window_end.map(|end| end.saturating_add(AFTER_END)).filter(|end| *end >= believed.last);
        let high = end.unwrap_or(believed.last.saturating_add(FAR));
        Bounds { low: believed.first.saturating_sub(FAR), high }
    }

    fn hold(&self, t: Ns) -> bool {
        self.low <= t && t <= self.high
    }
}

/// The median; of an even number of values the upper one.
fn middle(values: &mut [Ns]) -> Ns {
    let mid = values.len() / 2;
    if values.is_empty() { 0 } else { *values.select_nth_unstable(mid).1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::ColumnsBuilder;

    const S: Ns = 1_000_000_000;

    /// The starts that are left out, of device rows (a third) and host rows, with the counters of both.
    fn left_out(starts: &[(Class, Ns)], window: Option<(Ns, Ns)>) -> (Vec<Ns>, [u64; 2]) {
        let mut c = ColumnsBuilder::default();
        for (_, start) in starts {
            c.ts.push(*start);
            c.dur.push(1);
            c.name.push(Default::default());
        }
        c.window_start = window.map(|w| w.0);
        c.window_end = window.map(|w| w.1);
        let mut c = c.finish();
        let mut classes: Vec<Class> = starts.iter().map(|s| s.0).collect();
        let mut health = Health::default();
        leave_out(&mut c, &mut classes, 0, &mut health);
        let out =
            starts.iter().zip(&classes).filter(|(_, k)| **k == Class::Outside).map(|(s, _)| s.1).collect();
        (out, [Counter::FarOutlier, Counter::HostFarOutlier].map(|counter| health.count(counter)))
    }

    fn kernels(starts: impl IntoIterator<Item = Ns>) -> Vec<(Class, Ns)> {
        starts.into_iter().map(|t| (Class::Kernel, t)).collect()
    }

    #[test]
    fn rows_after_the_record_window_are_left_out_and_those_about_at_its_end_kept() {
        let window = Some((100 * S, 101 * S));
        let at = |end: Ns| kernels((0..9).map(|i| 100 * S + i).chain([end]));
        assert_eq!(left_out(&at(106 * S), window), (vec![106 * S], [1, 0]));
        assert_eq!(left_out(&at(101 * S + AFTER_END), window), (vec![], [0, 0]));
        assert_eq!(left_out(&at(90 * S), window), (vec![90 * S], [1, 0]));
        assert_eq!(left_out(&at(106 * S), None), (vec![], [0, 0]));
    }

    #[test]
    fn a_mark_that_most_rows_contradict_is_not_believed() {
        assert_eq!(left_out(&kernels((0..9).map(|i| 100 * S + i)), Some((S, 2 * S))), (vec![], [0, 0]));
    }

    #[test]
    fn without_marks_rows_an_hour_from_the_median_are_left_out_in_both_directions() {
        let hours = 3_600 * S;
        for far in [-2 * hours, 2 * hours] {
            let mut rows = kernels((0..9).map(|i| 10 * hours + i));
            rows.push((Class::HostOp, 10 * hours));
            rows.push((Class::Kernel, 10 * hours + far));
            assert_eq!(left_out(&rows, None), (vec![10 * hours + far], [1, 0]));
            rows.extend((0..9).map(|i| (Class::HostOp, 10 * hours + i)));
            rows.push((Class::Python, 10 * hours + far));
            assert_eq!(left_out(&rows, None).1, [1, 1]);
        }
    }

    #[test]
    fn long_recordings_are_kept() {
        assert_eq!(left_out(&kernels((0..100).map(|i| i * 600 * S)), None), (vec![], [0, 0]));
    }

    #[test]
    fn a_device_clock_of_its_own_is_no_reason_to_leave_rows_out() {
        let hosts = (0..9).map(|i| (Class::Runtime, 1_000_000 * S + i));
        let rows: Vec<(Class, Ns)> = hosts.chain(kernels(1..4)).collect();
        assert_eq!(left_out(&rows, None), (vec![], [0, 0]));
    }
}

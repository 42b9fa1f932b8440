//! Clocks of devices that differ from the clock of the host by a constant offset, as nvprof records them on
//! some machines. The offset is removed. Times in ns.
//!
//! ```text
//!   calls     |-a-| |-b-|        |-c-|
//!   device                 ... 133 s ...     [a==)[b==)      [c==)
//!                                                           ^ the device is idle, and the call long over
//! ```
//!
//! An idle device starts at once what is launched. Where it starts late, or before the call, by nearly the
//! same time each time, its clock is off. Work that waits for unrecorded work is late too, but no work of a
//! device that is idle in between; so only activities behind idle time are evidence, and the least delay of
//! all is the offset. Where a device is hardly idle, calls that wait for it are: its work ends after they
//! have returned, by nearly as much as it starts late.

use crate::activity::Activity;
use crate::args::Arg;
use crate::category::Class;
use crate::clock_behind::{are_steady, is_bracketed};
use crate::events::Columns;
use hta_base::health::{Counter, Health};
use hta_base::units::{Ns, Span, fmt_ns};

/// Smaller offsets are left: they are bounds of what is told (`launch_times`).
const LEAST: Ns = 1_000_000;

/// A device that is idle for less may be between two activities of a queue, ns.
const IDLE: Ns = 20_000;

/// Between the start of a call and of what it launches, at least, ns.
const LAUNCH: Ns = 5_000;

/// So many activities are looked at first: where one starts soon after its call, and none before, there is no
/// offset.
const FIRST: usize = 64;

/// A device and by how much its clock is ahead of the host's (negative: behind), ns.
pub type DeviceOffset = (Option<i64>, Ns);

/// Removes the offset of each device from the times of its rows and activities. `all` is in order of start.
/// Returns those that were removed.
pub(crate) fn remove(
    all: &mut [Activity],
    c: &mut Columns,
    classes: &[Class],
    health: &mut Health,
) -> Vec<DeviceOffset> {
    let delay = |a: &Activity| Some(a.span.start.saturating_sub(*c.ts.get(a.launch()? as usize)?));
    // Where a clock is behind, those that wait in a queue may seem to start soon after their calls.
    let first = || all.iter().filter_map(delay).take(FIRST);
    let is_early = first().any(|d| d <= -LEAST);
    if first().next().is_none() || !is_early && first().any(|d| d < LEAST) {
        return Vec::new();
    }
    let mut devices: Vec<Option<i64>> = all.iter().map(Activity::device).collect();
    devices.sort_unstable();
    devices.dedup();
    let offset = |device: &Option<i64>| {
        let of_device: Vec<&Activity> = all.iter().filter(|a| a.device() == *device).collect();
        Some((*device, offset(&of_device, c)?))
    };
    let offsets: Vec<DeviceOffset> = devices.iter().filter_map(offset).collect();
    if offsets.is_empty() {
        return offsets;
    }
    let of = |device: Option<i64>| offsets.iter().find(|(d, _)| *d == device).map_or(0, |(_, by)| *by);
    let is_host = |row: &usize| classes.get(*row).is_some_and(|class| class.is_host());
    let host = (0..c.len()).filter(is_host).map(|row| c.span(row)).reduce(Span::hull);
    // Rows of waits are on the clock of the host in some files.
    let is_beyond = |span: Span| host.is_some_and(|h| span.start >= h.end || span.end <= h.start);
    let mut starts: Vec<Ns> = c.ts.to_vec();
    for ((row, class), ts) in classes.iter().enumerate().zip(&mut starts) {
        let is_moved = match class {
            Class::GpuAnnotation => true,
            Class::Sync | Class::CudaEvent => is_beyond(c.span(row)),
            class => class.is_gpu(),
        };
        if is_moved {
            *ts = ts.saturating_sub(of(c.args.int(Arg::Device, row as u32)));
        }
    }
    c.ts = starts.into();
    for a in all.iter_mut() {
        let by = of(a.device());
        a.span = Span::new(a.span.start.saturating_sub(by), a.span.end.saturating_sub(by));
    }
    all.sort_by_key(|a| (a.span.start, a.row));
    for (device, by) in &offsets {
        let device = device.map_or(String::new(), |d| format!("device {d}: "));
        health.note(Counter::DeviceClockOffset, &format!("{device}{}", in_words(*by)));
    }
    offsets
}

/// How far a clock is from that of the host.
pub fn in_words(by: Ns) -> String {
    format!("{} {}", fmt_ns(by.saturating_abs()), if by > 0 { "ahead" } else { "behind" })
}

/// By how much the clock of a device is ahead of the host's (negative: behind), if it is by nearly the same
/// amount at each start of an idle device, and no activity starts sooner.
fn offset(of_device: &[&Activity], c: &Columns) -> Option<Ns> {
    let (mut busy_until, mut last_call, mut least) = (Ns::MAX, None, Ns::MAX);
    let mut amounts: Vec<Ns> = Vec::new();
    for a in of_device {
        if let Some(row) = a.launch() {
            let delay = a.span.start.saturating_sub(*c.ts.get(row as usize)?);
            least = least.min(delay);
            // Of a graph only the first activity follows the call.
            if a.span.start.saturating_sub(busy_until) >= IDLE && last_call != Some(row) {
                amounts.push(delay);
            }
            last_call = Some(row);
        }
        busy_until = if busy_until == Ns::MAX { a.span.end } else { busy_until.max(a.span.end) };
    }
    let sign = if least < 0 { -1 } else { 1 };
    amounts.iter_mut().for_each(|amount| *amount *= sign);
    amounts.sort_unstable();
    let is_one = || amounts.first().is_some_and(|a| *a >= LEAST) && are_steady(&amounts);
    let is_large = least != Ns::MAX && least.saturating_abs() >= LEAST;
    // A device that always has work is idle only where a call waited for it.
    (is_large && (is_one() || is_bracketed(of_device, c, least))).then(|| least.saturating_sub(LAUNCH))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::ColumnsBuilder;
    use crate::strings::StrId;

    const S: Ns = 1_000_000_000;
    const MS: Ns = 1_000_000;

    /// The start of the first kernel and the offsets that were removed. A step every 10 ms launches three
    /// kernels of 300 us, the first onto an idle device; times of the device are moved by `by`, and each step
    /// starts `late` later than the one before.
    fn removed(by: Ns, late: Ns) -> (Ns, Vec<DeviceOffset>) {
        let mut c = ColumnsBuilder::default();
        let (mut all, mut classes) = (Vec::new(), Vec::new());
        for step in 0..5 {
            for k in 0..3 {
                let call = S + step * 10 * MS + k * 10_000;
                let start = call + 5_000 + 300_000 * k + late * step + by;
                for (ts, dur, class) in [(call, 4_000, Class::Runtime), (start, 300_000, Class::Kernel)] {
                    c.ts.push(ts);
                    c.dur.push(dur);
                    classes.push(class);
                }
                let row = classes.len() as u32 - 1;
                c.args.column_mut(Arg::Device).push(row, 0);
                let span = Span::new(start, start + 300_000);
                let mut a = Activity::new(row, span, StrId::EMPTY, Class::Kernel).on(0, 7);
                a.set_launch(Some(row - 1));
                all.push(a);
            }
        }
        let mut c = c.finish();
        let found = remove(&mut all, &mut c, &classes, &mut Health::default());
        assert_eq!(c.ts[1], all[0].span.start);
        (all[0].span.start - S, found)
    }

    #[test]
    fn an_offset_that_is_the_same_at_every_launch_is_removed() {
        for by in [133 * S, 40 * MS, -133 * S, 4 * 86_400 * S] {
            assert_eq!(removed(by, 0), (5_000, vec![(Some(0), by)]));
        }
        assert_eq!(removed(0, 0), (5_000, vec![]));
        assert_eq!(removed(392_000, 0), (397_000, vec![]), "a bound of what is told");
    }

    /// The offsets removed from a device that is busy from call to call: each step launches a kernel of
    /// 982 us, whose times are moved by `by`, and a call waits for it, which returns `late` after the end.
    fn removed_by_waits(by: Ns, late: Ns) -> Vec<DeviceOffset> {
        let mut c = ColumnsBuilder::default();
        let names = ["cudaLaunchKernel", "gemm", "cudaStreamSynchronize"].map(|n| c.strings.intern(n));
        let (mut all, mut classes) = (Vec::new(), Vec::new());
        for step in 0..5 {
            let call = S + step * MS;
            let rows = [(call, 4_000), (call + 5_000 + by, 982_000), (call + 20_000, 967_000 + late)];
            for ((ts, dur), name) in rows.into_iter().zip(names) {
                c.ts.push(ts);
                c.dur.push(dur);
                c.name.push(name);
            }
            let row = classes.len() as u32 + 1;
            classes.extend([Class::Runtime, Class::Kernel, Class::Runtime]);
            c.args.column_mut(Arg::Device).push(row, 0);
            let span = Span::new(rows[1].0, rows[1].0 + 982_000);
            let mut a = Activity::new(row, span, names[1], Class::Kernel).on(0, 7);
            a.set_launch(Some(row - 1));
            all.push(a);
        }
        remove(&mut all, &mut c.finish(), &classes, &mut Health::default())
    }

    #[test]
    fn calls_that_wait_show_the_offset_of_a_device_that_is_hardly_idle() {
        for by in [2 * MS, 5 * S, -40 * MS] {
            assert_eq!(removed_by_waits(by, 5_000), [(Some(0), by)]);
        }
        assert_eq!(removed_by_waits(0, 5_000), []);
        assert_eq!(removed_by_waits(2 * MS, 2 * MS + 5_000), [], "a queue");
    }

    #[test]
    fn delays_that_grow_are_no_offset() {
        assert_eq!(removed(40 * MS, 30 * MS).1, []);
    }
}

//! Python frames whose end was not recorded. The profiler writes that they last until it stopped, although
//! their caller returned before; they are cut at its end.
//!
//! ```text
//!   caller    [=======)
//!   frame        [====|.......................) profiler stop
//! ```
//!
//! The profiler stops where the last frame ends, or where several frames end at once that outlast their
//! callers.

use crate::events::Columns;
use crate::stack::Frames;
use hashbrown::HashMap;
use hta_base::health::{Counter, Health};
use hta_base::units::Ns;

/// Frames end at once if they end within this, ns: some files have whole microseconds.
const STOP: Ns = 1_000;

/// Fewest frames that outlast their callers and end at once where the profiler stopped.
const FEWEST: usize = 3;

/// Cuts such frames.
pub(super) fn cut(c: &mut Columns, frames: &Frames, health: &mut Health) {
    let end = |row: u32| c.span(row as usize).end;
    let called = || frames.calls().filter(|(row, caller)| c.lane[*row as usize] == c.lane[*caller as usize]);
    let Some(last) = frames.rows().map(end).max() else { return };
    let outlast = called().filter(|(row, caller)| end(*row) > end(*caller).saturating_add(STOP));
    let stops = stops(outlast.map(|(row, _)| end(row)).collect(), last);
    let is_stop = |t: Ns| {
        let next = stops.partition_point(|s| *s < t.saturating_sub(STOP));
        stops.get(next).is_some_and(|s| *s <= t.saturating_add(STOP))
    };
    if stops.is_empty() {
        return;
    }
    // Outer frames first.
    let mut open: Vec<(u32, u32)> = called().filter(|(row, _)| is_stop(end(*row))).collect();
    open.sort_by_key(|(row, _)| (c.ts[*row as usize], *row));
    let mut ends: HashMap<u32, Ns> = HashMap::new();
    // A caller that is cut may stand after what it calls, if both start at once.
    for _ in 0..open.len() {
        let before = ends.len();
        for (row, caller) in &open {
            let returned = ends.get(caller).copied().unwrap_or_else(|| end(*caller));
            if end(*row) > returned.saturating_add(STOP) {
                ends.entry(*row).or_insert(returned.max(c.ts[*row as usize]));
            }
        }
        if ends.len() == before {
            break;
        }
    }
    if ends.is_empty() {
        return;
    }
    health.add(Counter::FrameUnended, ends.len() as u64, None, "");
    let mut dur: Vec<Ns> = std::mem::take(&mut c.dur).into();
    for (row, end) in ends {
        dur[row as usize] = end - c.ts[row as usize];
    }
    c.dur = dur.into();
}

/// Where the profiler stopped, ascending; from the ends of frames that outlast their callers, and the end of
/// the last one.
fn stops(mut ends: Vec<Ns>, last: Ns) -> Vec<Ns> {
    ends.sort_unstable();
    let of_one = |ends: &&[Ns]| {
        ends.len() >= FEWEST || ends.last().is_some_and(|end| *end >= last.saturating_sub(STOP))
    };
    ends.chunk_by(|a, b| b.saturating_sub(*a) <= STOP).filter(of_one).flatten().copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Arg;
    use crate::category::Class;
    use crate::events::ColumnsBuilder;

    /// The ends of frames that are given by thread, start, end, and the caller's row.
    fn cut_ends(frames: &[(u32, Ns, Ns, Option<u64>)]) -> (Vec<Ns>, u64) {
        let mut c = ColumnsBuilder::default();
        for (row, (lane, start, end, caller)) in (0u32..).zip(frames) {
            c.ts.push(*start);
            c.dur.push(end - start);
            c.lane.push(*lane);
            c.args.column_mut(Arg::PythonId).push(row, u64::from(row) + 10);
            caller.iter().for_each(|caller| c.args.column_mut(Arg::PythonParent).push(row, caller + 10));
        }
        let (mut c, mut health) = (c.finish(), Health::default());
        let read = Frames::new(&c, &vec![Class::Python; frames.len()]);
        cut(&mut c, &read, &mut health);
        ((0..frames.len()).map(|row| c.span(row).end).collect(), health.count(Counter::FrameUnended))
    }

    const US: Ns = 1_000;

    /// ```text
    ///   main  [0...............................................................100)
    ///   step      [10..............30)
    ///   call          [15.......................................................100)
    ///   inner            [20....................................................100)
    /// ```
    #[test]
    fn frames_that_last_until_the_stop_end_with_their_caller() {
        let frames = [
            (0, 0, 100 * US, None),
            (0, 10 * US, 30 * US, Some(0)),
            (0, 15 * US, 100 * US, Some(1)),
            (0, 20 * US, 100 * US, Some(2)),
        ];
        assert_eq!(cut_ends(&frames), (vec![100 * US, 30 * US, 30 * US, 30 * US], 2));
    }

    /// The outermost frame was closed after the profiler stopped.
    #[test]
    fn frames_that_end_at_once_after_their_callers_end_with_them() {
        let calls = |stop: Ns| {
            let mut frames = vec![(0, 0, 100 * US, None)];
            for i in 0..3 {
                frames.push((0, 10 * i * US, (10 * i + 5) * US, Some(0)));
                frames.push((0, (10 * i + 1) * US, 90 * US + i * stop, Some(frames.len() as u64 - 1)));
            }
            cut_ends(&frames)
        };
        assert_eq!(calls(0), (vec![100 * US, 5 * US, 5 * US, 15 * US, 15 * US, 25 * US, 25 * US], 3));
        assert_eq!(calls(2 * US).1, 0, "each at another time");
    }

    #[test]
    fn frames_that_are_open_at_the_stop_with_their_callers_are_kept() {
        let frames =
            [(0, 0, 100 * US, None), (0, 10 * US, 100 * US, Some(0)), (0, 20 * US, 100 * US, Some(1))];
        assert_eq!(cut_ends(&frames).1, 0);
        // A frame of another thread may outlast the one that started it, and one that ends before the stop is
        // kept.
        let frames = [(0, 0, 50 * US, None), (1, 10 * US, 100 * US, Some(0)), (0, 20 * US, 70 * US, Some(0))];
        assert_eq!(cut_ends(&frames).1, 0);
    }
}

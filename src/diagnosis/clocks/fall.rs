//! When the clock of one device falls while it works.
//!
//! ```text
//!   far      v < 95 % of the clock that 95 % of the busy time do not exceed, for 10 % of the busy time
//!   steady   before a moment and after it the median clocks differ by 2.5 %, and nearly all of the time is
//!            on its side of the mean of both, so that noise of single samples is no fall
//! ```

use crate::clocks::held::{HeldValue, median_by_time, percentile_by_time, time_of};
use hta_base::units::{Ns, Span};
use hta_trace::interval::Union;

/// Fewest samples in busy time. One sample says nothing.
const SAMPLES: usize = 10;
/// The clock that a device could have: what this share of its busy time does not exceed, percent.
const TOP_PCT: u8 = 95;
/// A clock below this share of it is far below, percent.
const FAR_PCT: i128 = 95;
/// Smallest share of busy time with a low clock, percent.
const LOW_PCT: i128 = 10;
/// Fewest samples on each side of a steady fall.
const SIDE_SAMPLES: usize = 3;
/// Smallest steady fall, thousandths: below the 3 % that are worth a word, and above what medians of
/// several noisy samples differ by.
const STEADY_MILLE: i128 = 25;
/// Share of the time before and after a steady fall that is on its own side, percent.
const SIDE_PCT: i128 = 80;

/// The clock of a device is lower during a part of its busy time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ClockFall {
    /// The clock that the device could have, Hz.
    pub(super) top: i64,
    /// Where it is lower, in order of time.
    pub(super) low: Vec<HeldValue>,
    /// Where it is not.
    pub(super) high: Vec<HeldValue>,
    /// Whether it is the steady fall. That one may be small, so it counts only where kernels take longer.
    pub(super) is_steady: bool,
}

impl ClockFall {
    /// The falls among the clocks of `busy` ns: a far one, and a steady one. If the low clocks are near the
    /// limit of a far fall, noise puts some of them above it; then the steady fall finds all of them.
    pub(super) fn all(clocks: &[HeldValue], busy: Ns) -> Vec<Self> {
        let top = percentile_by_time(clocks, TOP_PCT).filter(|top| *top > 0 && clocks.len() >= SAMPLES);
        let Some(top) = top else { return Vec::new() };
        let is_far = |h: &HeldValue| i128::from(h.value) * 100 < i128::from(top) * FAR_PCT;
        let far = Self::split(clocks, top, false, is_far);
        let steady = steady(clocks).map(|(since, limit)| {
            Self::split(clocks, top, true, |h: &HeldValue| h.cell.start >= since && h.value < limit)
        });
        [Some(far), steady].into_iter().flatten().filter(|fall| fall.is_long(busy)).collect()
    }

    fn split(clocks: &[HeldValue], top: i64, is_steady: bool, is_low: impl Fn(&HeldValue) -> bool) -> Self {
        let (low, high) = clocks.iter().partition(|h| is_low(h));
        Self { top, low, high, is_steady }
    }

    fn is_long(&self, busy: Ns) -> bool {
        let low = i128::from(time_of(&self.low));
        low > 0 && low * 100 >= i128::from(busy) * LOW_PCT
    }

    /// How much shorter work would be at the top clock, at most, ns.
    pub(super) fn bound(&self, work: &Union) -> Ns {
        self.low.iter().map(|h| shorter(work.len_in(h.cell), h.value, self.top)).sum()
    }

    /// When it begins, ns.
    pub(super) fn since(&self) -> Option<Ns> {
        Some(self.low.first()?.cell.start)
    }

    /// The time of the low and of the other clocks.
    pub(super) fn spans(&self) -> [Union; 2] {
        let of = |held: &[HeldValue]| Union::new(held.iter().map(|h| h.cell).collect::<Vec<Span>>());
        [of(&self.low), of(&self.high)]
    }
}

/// How much shorter a time at a clock would be at the top clock, ns.
fn shorter(time: Ns, clock: i64, top: i64) -> Ns {
    (i128::from(time) * i128::from(top.saturating_sub(clock)) / i128::from(top.max(1))) as Ns
}

/// When a steady fall begins, and the mean of the median clocks before and after it.
fn steady(clocks: &[HeldValue]) -> Option<(Ns, i64)> {
    let weighted = |h: &HeldValue| (h.value as f64 * h.time as f64, h.time as f64);
    let (all, whole) = clocks.iter().map(weighted).fold((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1));
    // The cut with the most variance between its sides.
    let (mut sum, mut time) = (0.0, 0.0);
    let mut best: Option<(f64, usize)> = None;
    for (i, h) in clocks.iter().enumerate() {
        let is_inside = i >= SIDE_SAMPLES && i + SIDE_SAMPLES <= clocks.len();
        if is_inside && time > 0.0 && time < whole {
            let apart = sum / time - (all - sum) / (whole - time);
            let between = apart * apart * time * (whole - time);
            if apart > 0.0 && best.is_none_or(|(most, _)| between > most) {
                best = Some((between, i));
            }
        }
        let of = weighted(h);
        (sum, time) = (sum + of.0, time + of.1);
    }
    let (before, after) = clocks.split_at_checked(best?.1)?;
    let (high, low) = (median_by_time(before)?, median_by_time(after)?);
    let limit = low + (high - low) / 2;
    let is_steady = (i128::from(high) - i128::from(low)) * 1000 >= i128::from(high) * STEADY_MILLE;
    let is_on_side = |side: &[HeldValue], is_low: bool| {
        let own = time_of(side.iter().filter(|h| (h.value < limit) == is_low));
        i128::from(own) * 100 >= i128::from(time_of(side)) * SIDE_PCT
    };
    (is_steady && is_on_side(before, false) && is_on_side(after, true))
        .then_some((after.first()?.cell.start, limit))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MHZ: i64 = 1_000_000;

    /// Samples of 100 ns each, in which the device works all the time.
    fn clocks(megahertz: &[i64]) -> Vec<HeldValue> {
        let cell = |i: usize| Span::new(100 * i as Ns, 100 * (i as Ns + 1));
        megahertz
            .iter()
            .enumerate()
            .map(|(i, v)| HeldValue { cell: cell(i), value: v * MHZ, time: 100 })
            .collect()
    }

    fn find(megahertz: &[i64]) -> Option<ClockFall> {
        ClockFall::all(&clocks(megahertz), 100 * megahertz.len() as Ns).into_iter().next()
    }

    /// The trace that four writers recorded alike (`torch215/twin`): clocks every 100 us beside the copies,
    /// kernels and sets of three steps.
    #[test]
    fn the_fall_of_the_recorded_twin() {
        let starts = [10, 33, 63, 93, 123, 156, 230, 250, 270, 290].map(|us: Ns| us * 1_000);
        let lengths = [
            [2_000, 9_000, 12_001, 7_003, 15_007, 1_000, 11_000, 13_000, 17_000, 19_000],
            [2_000, 9_011, 12_012, 7_014, 15_018, 1_000, 11_001, 13_001, 17_001, 19_001],
            [2_000, 9_022, 12_023, 7_025, 15_029, 1_000, 11_002, 13_002, 17_002, 19_002],
        ];
        let of_step = |(step, lengths): (Ns, &[Ns; 10])| {
            let at = |(start, len): (Ns, Ns)| Span::new(start + 400_000 * step, start + 400_000 * step + len);
            starts.into_iter().zip(*lengths).map(at).collect::<Vec<Span>>()
        };
        let busy: Vec<Span> = (0..).zip(&lengths).flat_map(of_step).collect();
        let busy = Union::new(busy);
        assert_eq!(busy.len(), 318_177);
        let at = |i: i64| if i <= 0 { 0 } else { (100_000 * i - 50_000).min(1_200_000) };
        let cell = |i: i64| Span::new(at(i), if i == 12 { 1_200_000 } else { at(i + 1) });
        let held: Vec<HeldValue> = (0..13)
            .map(|i| {
                let value = if i < 7 { 1_980 * MHZ } else { 1_410 * MHZ };
                HeldValue { cell: cell(i), value, time: busy.len_in(cell(i)) }
            })
            .filter(|h| h.time > 0)
            .collect();
        let fall = ClockFall::all(&held, busy.len()).remove(0);
        assert_eq!((fall.top, time_of(&fall.low), fall.bound(&busy)), (1_980 * MHZ, 155_110, 44_651));
        assert_eq!((fall.is_steady, fall.since()), (false, Some(650_000)));
    }

    #[test]
    fn a_far_fall_lasts_for_a_tenth_of_the_busy_time() {
        let of = |low: usize| {
            let mut all = vec![2_000; 20 - low];
            all.extend(vec![1_899; low]);
            find(&all).map(|fall| (fall.is_steady, time_of(&fall.low)))
        };
        assert_eq!([of(1), of(2), of(19)], [None, Some((false, 200)), None]);
        // Just not below 95 %: one sample in twenty of 2,000 is no fall, and ten of them a steady one.
        let near: Vec<i64> = [vec![2_000; 10], vec![1_900; 10]].concat();
        assert_eq!(find(&near).map(|fall| (fall.is_steady, time_of(&fall.low))), Some((true, 1_000)));
    }

    #[test]
    fn few_samples_say_nothing() {
        assert_eq!(find(&[2_000, 2_000, 2_000, 2_000, 1_000, 1_000, 1_000, 1_000, 1_000]), None);
        assert!(find(&[2_000, 2_000, 2_000, 2_000, 2_000, 1_000, 1_000, 1_000, 1_000, 1_000]).is_some());
    }

    #[test]
    fn noise_and_small_falls_are_told_apart() {
        // Up and down by 2 % in turn is not steady; neither is a fall of 2 %, nor a clock that rises.
        let noise: Vec<i64> = (0..40).map(|i| if i % 2 == 0 { 1_980 } else { 1_940 }).collect();
        let small = [vec![1_980; 20], vec![1_941; 20]].concat();
        let rise = [vec![1_900; 20], vec![1_980; 20]].concat();
        assert_eq!([find(&noise), find(&small), find(&rise)], [None, None, None]);
        let fall = find(&[vec![1_980; 20], vec![1_920; 20]].concat()).unwrap();
        assert_eq!((fall.is_steady, fall.since(), fall.low.len()), (true, Some(2_000), 20));
        // 2,000 ns at 60 of 1,980.
        assert_eq!(fall.bound(&Union::new([Span::new(0, 4_000)])), 20 * (100 * 60 / 1_980));
    }
}

//! Cells, the time for which a sample stands, and means over a set of time.
//!
//! ```text
//!   PM sampling, period p     t1---->t2---->t3---->        t5---->     a mean from its sample on
//!   cells                     [  v1 )[  v2 )[  v3 )        [  v5 )     a gap stays a gap
//!   environment               t1     t2     t3                         the value at an instant
//!   cells                     [v1)[  v2  )[v3                          up to the middle of both neighbours
//! ```

use crate::interval::Union;
use hta_base::order_statistics::median;
use hta_base::units::{Ns, Span};

/// The time for which one sample stands. Cells of a counter are in order and disjoint; some are empty.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CounterCell {
    pub span: Span,
    pub value: f64,
    /// The value in millionths, rounded half to even; `None` if it is too large to sum.
    pub millionths: Option<i128>,
}

/// Millionths in 1.
const MILLION: u32 = 1_000_000;

/// Values beyond this many units of the last place are not summed: over days, sums would leave `i128`.
const LARGEST: i128 = 1 << 76;

/// `value * scale`, rounded half to even, by exact arithmetic. `None` if it is not finite or too large.
pub(super) fn scaled(value: f64, scale: u32) -> Option<i128> {
    if !value.is_finite() {
        return None;
    }
    let bits = value.to_bits();
    let (exponent, fraction) = ((bits >> 52 & 0x7ff) as i32, bits & ((1 << 52) - 1));
    // |value| is `mantissa * 2^shift`.
    let (mantissa, shift) = match exponent {
        0 => (fraction, -1074),
        e => (fraction | 1 << 52, e - 1075),
    };
    let product = u128::from(mantissa) * u128::from(scale);
    let magnitude = match shift {
        41.. => return None,
        0.. => product << shift,
        // The product is below 2^85.
        ..-120 => 0,
        _ => {
            let down = shift.unsigned_abs();
            let (whole, rest, half) = (product >> down, product & ((1 << down) - 1), 1u128 << (down - 1));
            whole + u128::from(rest > half || (rest == half && whole & 1 == 1))
        }
    };
    let signed = i128::try_from(magnitude).ok().filter(|m| *m <= LARGEST)?;
    Some(if value < 0.0 { -signed } else { signed })
}

/// The usual time from a sample to the next: the lower median of the differences of all times, each taken
/// once. `None` if there are fewer than two. Leaves the times sorted.
pub(super) fn sampling_period(times: &mut Vec<Ns>) -> Option<Ns> {
    times.sort_unstable();
    times.dedup();
    let mut steps: Vec<Ns> = times.windows(2).map(|w| w[1].saturating_sub(w[0])).collect();
    median(&mut steps)
}

fn cell(start: Ns, end: Ns, value: f64) -> CounterCell {
    CounterCell { span: Span::new(start, end.max(start)), value, millionths: scaled(value, MILLION) }
}

/// The cells of samples that are means over the time that starts with them, in order of time. `period` is
/// that of the device.
pub(super) fn pm_cells(samples: &[(Ns, f64)], period: Option<Ns>) -> Vec<CounterCell> {
    let make = |(i, &(ts, value)): (usize, &(Ns, f64))| {
        let Some(period) = period else { return cell(ts, ts, value) };
        let next = samples.get(i + 1).map(|s| s.0);
        let is_near = |next: &Ns| 2 * i128::from(next.saturating_sub(ts)) <= 3 * i128::from(period);
        cell(ts, next.filter(is_near).unwrap_or(ts.saturating_add(period)), value)
    };
    samples.iter().enumerate().map(make).collect()
}

/// The cells of samples that are values at an instant, in order of time. A cell that is much longer than most
/// is cut to the usual length, so that a gap in the recording stays one.
pub(super) fn environment_cells(samples: &[(Ns, f64)], period: Option<Ns>) -> Vec<CounterCell> {
    let middle = |a: Ns, b: Ns| (i128::from(a) + i128::from(b)).div_euclid(2) as Ns;
    let at = |i: usize| samples.get(i).map(|s| s.0);
    let make = |(i, &(ts, value)): (usize, &(Ns, f64))| {
        let start = i.checked_sub(1).and_then(at).map_or(ts, |before| middle(before, ts));
        let end = at(i + 1).map_or(ts, |next| middle(ts, next));
        match period.filter(|p| i128::from(end) - i128::from(start) > 3 * i128::from(*p)) {
            Some(p) => cell(start.max(ts.saturating_sub(p / 2)), end.min(ts.saturating_add(p / 2)), value),
            None => cell(start, end, value),
        }
    };
    samples.iter().enumerate().map(make).collect()
}

/// The mean of a counter over a set of time, weighted by time.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CellMean {
    /// Sum of millionths times ns; `None` if a value is too large.
    pub sum: Option<i128>,
    /// Length of the set, ns.
    pub window: Ns,
    /// Length of the set inside cells, ns.
    pub covered: Ns,
    /// Number of cells that the set meets.
    pub samples: u64,
    /// Length of these cells, ns.
    pub used: Ns,
    pub min: Option<f64>,
    pub max: Option<f64>,
}

/// The mean over a set of time.
pub fn mean_over(cells: &[CounterCell], time: &Union) -> CellMean {
    let mut mean = CellMean { sum: Some(0), window: time.len(), ..CellMean::default() };
    for (cell, len) in time.overlaps(cells, |cell| cell.span) {
        let part = cell.millionths.and_then(|v| v.checked_mul(i128::from(len)));
        mean.sum = mean.sum.zip(part).and_then(|(sum, part)| sum.checked_add(part));
        mean.covered += len;
        mean.samples += 1;
        mean.used += cell.span.len();
        mean.min = Some(mean.min.map_or(cell.value, |v| v.min(cell.value)));
        mean.max = Some(mean.max.map_or(cell.value, |v| v.max(cell.value)));
    }
    mean
}

impl CellMean {
    /// Whether the samples stand for at least half of the set.
    pub fn is_covered(&self) -> bool {
        self.covered > 0 && 2 * i128::from(self.covered) >= i128::from(self.window)
    }

    /// The mean; `None` if less than half of the set has samples.
    pub fn value(&self) -> Option<f64> {
        let sum = self.sum.filter(|_| self.is_covered())?;
        let whole = i128::from(MILLION) * i128::from(self.covered);
        Some((sum / whole) as f64 + (sum % whole) as f64 / whole as f64)
    }

    /// Whether samples can tell this set from what else ran: it fills four fifths of the cells that it meets,
    /// or its shortest piece lasts for two periods.
    pub fn is_resolved(&self, shortest: Option<Ns>, period: Option<Ns>) -> bool {
        let fills = self.used > 0 && 5 * i128::from(self.covered) >= 4 * i128::from(self.used);
        let is_long = |(shortest, period): (Ns, Ns)| i128::from(shortest) >= 2 * i128::from(period);
        fills || (self.covered > 0 && shortest.zip(period).is_some_and(is_long))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn spans(cells: &[CounterCell]) -> Vec<(Ns, Ns)> {
        cells.iter().map(|c| (c.span.start, c.span.end)).collect()
    }

    fn union(parts: &[(Ns, Ns)]) -> Union {
        Union::new(parts.iter().map(|(a, b)| Span::new(*a, *b)))
    }

    /// ```text
    ///   samples  0    10   20        40 44
    ///   PM       [    [    [   )     [  [   )      period 10: nothing between 30 and 40
    /// ```
    #[test]
    fn a_mean_stands_from_its_sample_to_the_next_or_for_one_period() {
        let samples = [(0, 1.0), (10, 2.0), (20, 3.0), (40, 4.0), (44, 5.0)];
        let cells = pm_cells(&samples, Some(10));
        assert_eq!(spans(&cells), [(0, 10), (10, 20), (20, 30), (40, 44), (44, 54)]);
        // 15 is 1.5 periods, 16 is more.
        assert_eq!(
            spans(&pm_cells(&[(0, 1.0), (15, 1.0), (31, 1.0)], Some(10))),
            [(0, 15), (15, 25), (31, 41)]
        );
        assert_eq!(spans(&pm_cells(&[(7, 1.0)], None)), [(7, 7)]);
    }

    /// ```text
    ///   samples  0     10    20    31                      91
    ///   cells    [  5)[  15)[  25)[   ?  )           [  ? )     the last two are longer than 3 periods
    /// ```
    #[test]
    fn a_value_at_an_instant_stands_up_to_the_middle_of_its_neighbours() {
        let samples = [(0, 1.0), (10, 2.0), (20, 3.0), (31, 4.0), (91, 5.0)];
        let cells = environment_cells(&samples, Some(10));
        assert_eq!(spans(&cells), [(0, 5), (5, 15), (15, 25), (26, 36), (61, 91)]);
        let cut = environment_cells(&[(0, 1.0), (10, 1.0), (20, 1.0), (100, 1.0), (110, 1.0)], Some(10));
        assert_eq!(spans(&cut), [(0, 5), (5, 15), (15, 25), (95, 105), (105, 110)]);
        assert_eq!(spans(&environment_cells(&[(7, 1.0)], None)), [(7, 7)]);
        // Halves go down, also before the origin.
        assert_eq!(spans(&environment_cells(&[(-4, 1.0), (-1, 1.0)], Some(3))), [(-4, -3), (-3, -1)]);
    }

    #[test]
    fn values_are_rounded_half_to_even() {
        let of = |v: f64| scaled(v, MILLION);
        assert_eq!(
            [of(1.5), of(-1.5), of(0.0), of(-0.0)],
            [Some(1_500_000), Some(-1_500_000), Some(0), Some(0)]
        );
        // 2^-7 is 0.0078125, a tie in millionths.
        assert_eq!([of(0.007_812_5), of(0.023_437_5)], [Some(7812), Some(23_438)]);
        assert_eq!([of(85.651_170_244_878_79), of(5e-324), of(4e-7)], [Some(85_651_170), Some(0), Some(0)]);
        assert_eq!(of(9e11), Some(900_000_000_000_000_000));
        assert_eq!([of(f64::NAN), of(f64::INFINITY), of(1e300), of(1e20)], [None; 4]);
    }

    #[test]
    fn a_mean_needs_samples_for_half_of_the_time() {
        let cells = pm_cells(&[(0, 10.0), (10, 20.0)], Some(10));
        let mean = |parts: &[(Ns, Ns)]| mean_over(&cells, &union(parts));
        assert_eq!(mean(&[(5, 20)]).value(), Some((10.0 * 5.0 + 20.0 * 10.0) / 15.0));
        assert_eq!(mean(&[(10, 30)]).value(), Some(20.0));
        assert_eq!(mean(&[(10, 31)]).value(), None);
        assert_eq!(mean(&[(30, 40)]).value(), None);
        assert_eq!(mean(&[]).value(), None);
        let huge = pm_cells(&[(0, 1e30), (10, 20.0)], Some(10));
        assert_eq!(mean_over(&huge, &union(&[(0, 20)])).value(), None);
    }

    #[test]
    fn a_set_is_resolved_if_it_fills_its_cells_or_its_pieces_are_long() {
        let cells = pm_cells(&[(0, 1.0), (10, 1.0), (20, 1.0), (30, 1.0)], Some(10));
        let resolved = |parts: &[(Ns, Ns)]| {
            let shortest = parts.iter().map(|(a, b)| b - a).min();
            mean_over(&cells, &union(parts)).is_resolved(shortest, Some(10))
        };
        assert!(resolved(&[(0, 8)]) && !resolved(&[(0, 7)]));
        assert!(resolved(&[(1, 5), (6, 10)]));
        // Two periods, over parts of three cells.
        assert!(resolved(&[(5, 25)]) && !resolved(&[(5, 24)]));
        // A short piece in a cell of its own.
        assert!(!resolved(&[(2, 20), (21, 22)]));
        assert!(!resolved(&[(100, 200)]));
    }

    /// SM active and DRAM bandwidth of a real capture, a value every ms, over the GPU's window and over three
    /// replays of a graph.
    #[test]
    fn means_of_a_real_capture_are_known() {
        let first = 4_222_041_004_989_806;
        let times = [0, 1_000_000, 2_000_001, 3_000_002, 4_000_002, 5_000_003, 6_000_003].map(|t| first + t);
        let sm = [
            0.0,
            78.255_769_665_339_07,
            85.651_170_244_878_79,
            79.171_970_073_910_1,
            83.035_866_346_943_2,
            83.419_531_049_549_36,
            67.752_824_689_585_01,
        ];
        let dram = [
            0.000_950_949_047_149_054_8,
            16.732_939_473_594_648,
            18.613_885_007_213_91,
            16.743_743_126_514_836,
            16.069_385_802_116_93,
            16.105_505_505_505_505,
            14.057_371_141_657_091,
        ];
        let windows = [
            (4_222_041_005_911_470, 5_908_964),
            (4_222_041_006_053_998, 1_980_962),
            (4_222_041_008_079_952, 1_892_449),
            (4_222_041_010_017_777, 1_802_657),
        ];
        let period = sampling_period(&mut times.to_vec());
        assert_eq!(period, Some(1_000_000));
        let known = [
            (sm, [78.831_373, 82.009_893, 81.178_173, 76.200_655]),
            (dram, [16.236_685, 17.682_698, 16.393_605, 15.161_770]),
        ];
        for (values, means) in known {
            let samples: Vec<(Ns, f64)> = times.into_iter().zip(values).collect();
            let cells = pm_cells(&samples, period);
            for ((start, len), want) in windows.into_iter().zip(means) {
                let mean = mean_over(&cells, &union(&[(start, start + len)])).value().unwrap();
                assert!((mean - want).abs() < 1e-6, "{mean} is not {want}");
            }
        }
    }

    fn samples() -> impl Strategy<Value = Vec<(Ns, f64)>> {
        let value = (0i64..400).prop_map(|v| v as f64 / 4.0);
        prop::collection::vec((1i64..12, value), 0..10).prop_map(|steps| {
            let mut at = -10;
            steps.into_iter().map(|(step, v)| (at += step, (at, v)).1).collect()
        })
    }

    fn parts() -> impl Strategy<Value = Vec<(Ns, Ns)>> {
        prop::collection::vec((-20i64..100, 0i64..15).prop_map(|(s, d)| (s, s + d)), 0..8)
    }

    proptest! {
        #[test]
        fn means_match_a_sum_over_every_ns(s in samples(), w in parts(), is_pm in any::<bool>()) {
            let period = sampling_period(&mut s.iter().map(|s| s.0).collect());
            let cells = if is_pm { pm_cells(&s, period) } else { environment_cells(&s, period) };
            prop_assert!(cells.windows(2).all(|c| c[0].span.end <= c[1].span.start));
            let inside = |t: Ns| w.iter().any(|(a, b)| *a <= t && t < *b);
            let held: Vec<&CounterCell> = (-40..140)
                .filter(|t| inside(*t))
                .filter_map(|t| cells.iter().find(|c| c.span.holds(t)))
                .collect();
            let mean = mean_over(&cells, &union(&w));
            prop_assert_eq!(mean.window, (-40..140).filter(|t| inside(*t)).count() as Ns);
            prop_assert_eq!(mean.covered, held.len() as Ns);
            prop_assert_eq!(mean.sum, Some(held.iter().map(|c| (c.value * 1e6) as i128).sum()));
            let met: Vec<&CounterCell> = cells
                .iter()
                .filter(|c| (c.span.start..c.span.end).any(inside))
                .collect();
            prop_assert_eq!(mean.samples, met.len() as u64);
            prop_assert_eq!(mean.used, met.iter().map(|c| c.span.len()).sum::<Ns>());
            prop_assert_eq!(mean.min, met.iter().map(|c| c.value).reduce(f64::min));
            prop_assert_eq!(mean.max, met.iter().map(|c| c.value).reduce(f64::max));
        }

        #[test]
        fn scaling_agrees_with_whole_numbers(millionths in -1_000_000_000_000i64..1_000_000_000_000) {
            prop_assert_eq!(scaled(millionths as f64 / 1e6, MILLION), Some(i128::from(millionths)));
        }
    }
}

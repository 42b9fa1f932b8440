//! Energy from samples of power: the area under straight lines between samples.

use super::cells::scaled;
use hta_base::units::{Ns, Span};

/// Energy since the first sample of power, in pJ: 1 mW for 1 ns is 1 pJ. It is a function of time, so windows
/// that join each other have energies that add up exactly.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PowerCurve {
    /// Time, power in mW, and twice the energy up to this time.
    points: Vec<(Ns, i128, i128)>,
}

/// No device takes so much, mW. With this and the next limit all products fit `i128`.
const LARGEST_POWER: i128 = 1 << 24;

/// Longest time between two samples, ns: 13 days.
const LONGEST: i128 = 1 << 50;

impl PowerCurve {
    /// The curve through samples in watts, in order of time. `None` if there are fewer than two, or a value
    /// is no power.
    pub fn new(samples: &[(Ns, f64)]) -> Option<Self> {
        let mut points: Vec<(Ns, i128, i128)> = Vec::with_capacity(samples.len());
        for (ts, watts) in samples {
            let power = scaled(*watts, 1000).filter(|p| (0..LARGEST_POWER).contains(p))?;
            let twice = match points.last() {
                None => 0,
                Some((before, p, sum)) => {
                    let len = i128::from(*ts) - i128::from(*before);
                    sum + (p + power) * Some(len).filter(|l| *l < LONGEST)?
                }
            };
            points.push((*ts, power, twice));
        }
        (points.len() >= 2).then_some(Self { points })
    }

    /// Energy up to a time, pJ. Before the first sample it is 0, after the last one it stays: nothing is
    /// extrapolated.
    pub fn until(&self, t: Ns) -> i128 {
        let after = self.points.partition_point(|p| p.0 <= t);
        let Some(&(ta, pa, twice)) = after.checked_sub(1).and_then(|i| self.points.get(i)) else { return 0 };
        let Some(&(tb, pb, _)) = self.points.get(after) else { return twice.div_euclid(2) };
        let (gone, whole) = (i128::from(t) - i128::from(ta), i128::from(tb) - i128::from(ta));
        let part = (gone * (2 * pa * whole + (pb - pa) * gone)).div_euclid(whole);
        (twice + part).div_euclid(2)
    }

    /// Energy of parts of time, pJ.
    pub fn energy(&self, parts: impl IntoIterator<Item = Span>) -> i128 {
        parts.into_iter().filter(|s| !s.is_empty()).map(|s| self.until(s.end) - self.until(s.start)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// ```text
    ///   W   2 ----------- 2          a rectangle of 2 W for 10 ns, then a triangle that rises to 4 W
    ///       0            10        20
    /// ```
    #[test]
    fn energy_is_the_area_under_straight_lines() {
        let curve = PowerCurve::new(&[(0, 2.0), (10, 2.0), (20, 4.0)]).unwrap();
        assert_eq!(
            [-5, 0, 5, 10, 15, 20, 99].map(|t| curve.until(t)),
            [0, 0, 10_000, 20_000, 32_500, 50_000, 50_000]
        );
        assert_eq!(curve.energy([Span::new(5, 10), Span::new(15, 20), Span::new(9, 9)]), 10_000 + 17_500);
    }

    #[test]
    fn one_sample_or_what_is_no_power_gives_no_energy() {
        assert_eq!(PowerCurve::new(&[(0, 260.19)]), None);
        assert_eq!(PowerCurve::new(&[]), None);
        assert_eq!(PowerCurve::new(&[(0, 1.0), (5, -1.0)]), None);
        assert_eq!(PowerCurve::new(&[(0, 1.0), (5, f64::NAN)]), None);
        assert_eq!(PowerCurve::new(&[(0, 1.0), (i64::MAX, 1.0)]), None);
    }

    proptest! {
        #[test]
        fn windows_that_join_have_energies_that_add_up(
            steps in prop::collection::vec((0i64..9, 0i64..2000), 2..9),
            cuts in prop::collection::vec(-5i64..80, 0..8),
        ) {
            let mut at = 0;
            let samples: Vec<(Ns, f64)> =
                steps.iter().map(|(step, mw)| (at += step, (at, *mw as f64 / 1000.0)).1).collect();
            let curve = PowerCurve::new(&samples).unwrap();
            let mut edges = cuts;
            edges.extend([-5, 80]);
            edges.sort_unstable();
            let windows = edges.windows(2).map(|w| Span::new(w[0], w[1]));
            prop_assert_eq!(curve.energy(windows), curve.energy([Span::new(-5, 80)]));
            // By hand, in exact fractions of 2 pJ times the length of the piece.
            let whole: i64 = samples
                .windows(2)
                .zip(steps.windows(2))
                .map(|(s, p)| (p[0].1 + p[1].1) * (s[1].0 - s[0].0))
                .sum();
            prop_assert_eq!(curve.until(80), i128::from(whole.div_euclid(2)));
            let t = edges[edges.len() / 2];
            let exact: f64 = samples
                .windows(2)
                .filter(|s| s[0].0 < t && s[0].0 < s[1].0)
                .map(|s| {
                    let (a, b, end) = (s[0].0 as f64, s[1].0 as f64, t.min(s[1].0) as f64);
                    let p = s[0].1 + (s[1].1 - s[0].1) * (end - a) / (b - a);
                    (s[0].1 + p) / 2.0 * (end - a) * 1000.0
                })
                .sum();
            prop_assert!((curve.until(t) as f64 - exact).abs() < 2.0);
        }
    }
}

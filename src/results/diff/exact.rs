//! Means per step as exact fractions of integers.
//!
//! A side's figure is the mean over its ranks of total / steps. With L the least common multiple of the
//! ranks' numbers of steps, it is one fraction: sum(total x L / steps) / (L x ranks). All figures of a side
//! have this denominator, so sums of figures are sums of integers, and parts sum to the whole exactly.

use hta_base::units::Ns;

/// Largest common multiple that is used. Above it, weights are rounded to multiples of 1 / LIMIT; the
/// rounding is the same for all figures of a rank, so parts still sum exactly.
const LIMIT: i128 = 1 << 40;

/// The fraction `num / den`. `den` is never 0, and positive in figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ExactFraction {
    pub(crate) num: i128,
    pub(crate) den: i128,
}

impl ExactFraction {
    pub(crate) fn value(self) -> f64 {
        let g = gcd(self.num.unsigned_abs(), self.den.unsigned_abs()).max(1);
        // The gcd of two numbers of 127 bits fits into an `i128`.
        let g = i128::try_from(g).unwrap_or(1);
        (self.num / g) as f64 / (self.den / g) as f64
    }

    pub(crate) fn minus(self, base: ExactFraction) -> ExactFraction {
        let num = self.num.saturating_mul(base.den).saturating_sub(base.num.saturating_mul(self.den));
        ExactFraction { num, den: self.den.saturating_mul(base.den) }
    }

    /// Percentage of `whole`, computed from integers; `None` if `whole` is 0.
    pub(crate) fn percent_of(self, whole: ExactFraction) -> Option<f64> {
        if whole.num == 0 {
            return None;
        }
        // Equal denominators cancel.
        let fraction = if self.den == whole.den {
            Some((self.num, whole.num))
        } else {
            self.num.checked_mul(whole.den).zip(whole.num.checked_mul(self.den))
        };
        Some(
            100.0
                * fraction.map_or_else(
                    || self.value() / whole.value(),
                    |(num, den)| ExactFraction { num, den }.value(),
                ),
        )
    }
}

fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Weights of the ranks of one side in a mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Weights {
    pub(crate) of_rank: Vec<i128>,
    pub(crate) den: i128,
}

impl Weights {
    /// `divisors`: the number by which each rank's totals are divided, at least 1.
    pub(crate) fn new(divisors: &[u64]) -> Self {
        let mut multiple: i128 = 1;
        for d in divisors.iter().map(|d| i128::from(*d).max(1)) {
            let g = i128::try_from(gcd(multiple.unsigned_abs(), d.unsigned_abs())).unwrap_or(1).max(1);
            multiple = (multiple / g).saturating_mul(d).min(LIMIT + 1);
            if multiple > LIMIT {
                break;
            }
        }
        let exact = multiple <= LIMIT;
        let common = if exact { multiple } else { LIMIT };
        let weight = |d: &u64| (common + i128::from(*d) / 2 * i128::from(!exact)) / i128::from(*d).max(1);
        Self {
            of_rank: divisors.iter().map(weight).collect(),
            den: common.saturating_mul(i128::try_from(divisors.len().max(1)).unwrap_or(1)),
        }
    }

    /// The mean for a sum of weighted totals.
    pub(crate) fn mean(&self, num: i128) -> ExactFraction {
        ExactFraction { num, den: self.den }
    }

    /// The weighted total of the rank at index `rank`.
    pub(crate) fn weigh(&self, rank: usize, total: Ns) -> i128 {
        self.of_rank.get(rank).map_or(0, |w| w.saturating_mul(i128::from(total)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_with_different_numbers_of_steps_count_alike() {
        // The mean of 12 ns in 2 steps and 30 ns in 3 steps is (6 + 10) / 2.
        let w = Weights::new(&[2, 3]);
        assert_eq!((w.of_rank.as_slice(), w.den), (&[3, 2][..], 12));
        assert_eq!(w.mean(w.weigh(0, 12) + w.weigh(1, 30)).value(), 8.0);
    }

    #[test]
    fn many_different_numbers_of_steps_give_rounded_weights_and_the_same_for_all_parts() {
        let steps: Vec<u64> = (1..60).collect();
        let w = Weights::new(&steps);
        let mean = |total: &dyn Fn(u64) -> Ns| w.mean((0..59).map(|r| w.weigh(r, total(steps[r]))).sum());
        let whole = mean(&|n| n as Ns * 700);
        assert!((whole.value() - 700.0).abs() < 1e-6);
        assert_eq!(whole.num, mean(&|n| n as Ns * 123).num + mean(&|n| n as Ns * 577).num);
    }

    #[test]
    fn a_difference_of_fractions_is_a_fraction() {
        let d = ExactFraction { num: 7, den: 2 }.minus(ExactFraction { num: 10, den: 3 });
        assert_eq!((d.num, d.den), (1, 6));
        assert_eq!(d.percent_of(ExactFraction { num: 1, den: 3 }), Some(50.0));
        assert_eq!(d.percent_of(ExactFraction { num: 0, den: 3 }), None);
    }
}

//! The values of one quantity as a sorted multiset, for exact medians over many ranks.

use std::collections::BTreeMap;

/// Each distinct value with its count.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Distribution(BTreeMap<i64, u64>);

impl Distribution {
    pub(crate) fn add(&mut self, value: i64, count: u64) {
        *self.0.entry(value).or_default() += count;
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.values().sum()
    }

    pub(crate) fn total(&self) -> i128 {
        self.0.iter().map(|(value, count)| i128::from(*value) * i128::from(*count)).sum()
    }

    pub(crate) fn min(&self) -> Option<i64> {
        self.0.keys().next().copied()
    }

    pub(crate) fn max(&self) -> Option<i64> {
        self.0.keys().next_back().copied()
    }

    pub(crate) fn mean(&self) -> Option<f64> {
        let count = self.count();
        (count > 0).then(|| self.total() as f64 / count as f64)
    }

    /// The middle value, or the mean of both middle ones.
    pub fn median(&self) -> Option<f64> {
        let count = self.count();
        let at = |place: u64| {
            let mut before = 0;
            let found = self.0.iter().find(|(_, n)| {
                before += **n;
                before > place
            });
            found.map(|(value, _)| *value)
        };
        let (low, high) = (at(count.checked_sub(1)? / 2)?, at(count / 2)?);
        Some((low as f64 + high as f64) / 2.0)
    }

    /// Sample standard deviation; 0 for a single value.
    pub(crate) fn deviation(&self) -> Option<f64> {
        let (mean, count) = (self.mean()?, self.count());
        let squares: f64 = self.0.iter().map(|(value, n)| *n as f64 * (*value as f64 - mean).powi(2)).sum();
        Some(if count > 1 { (squares / (count - 1) as f64).sqrt() } else { 0.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[i64]) -> Distribution {
        let mut out = Distribution::default();
        values.iter().for_each(|v| out.add(*v, 1));
        out
    }

    #[test]
    fn the_median_of_an_even_number_of_values_lies_between_the_middle_ones() {
        let d = of(&[9, 2, 4, 4]);
        assert_eq!((d.count(), d.total(), d.min(), d.max()), (4, 19, Some(2), Some(9)));
        assert_eq!((d.median(), d.mean()), (Some(4.0), Some(4.75)));
        assert_eq!((of(&[1, 2]).median(), of(&[3, 1, 2]).median()), (Some(1.5), Some(2.0)));
    }

    #[test]
    fn the_deviation_is_that_of_a_sample() {
        // Squares of the distances from 5: 9 + 1 + 1 + 9 = 20, over 3.
        assert_eq!(of(&[2, 4, 6, 8]).deviation(), Some((20.0f64 / 3.0).sqrt()));
        assert_eq!((of(&[7]).deviation(), of(&[]).deviation(), of(&[]).median()), (Some(0.0), None, None));
    }
}

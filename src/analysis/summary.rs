//! Statistics of durations.

use hta_base::units::Ns;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Summary {
    pub(crate) count: u64,
    pub(crate) sum: Ns,
    pub(crate) mean: f64,
    pub(crate) min: Ns,
    pub(crate) max: Ns,
    /// Sample standard deviation; `None` for fewer than two values.
    pub(crate) std: Option<f64>,
    pub(crate) p50: Ns,
    pub(crate) p95: Ns,
}

impl Summary {
    pub(crate) fn new(mut durations: Vec<Ns>) -> Self {
        durations.sort_unstable();
        let n = durations.len();
        let sum: Ns = durations.iter().sum();
        let mean = if n == 0 { 0.0 } else { sum as f64 / n as f64 };
        let squares: f64 = durations.iter().map(|d| (*d as f64 - mean).powi(2)).sum();
        Self {
            count: n as u64,
            sum,
            mean,
            min: durations.first().copied().unwrap_or(0),
            max: durations.last().copied().unwrap_or(0),
            std: (n > 1).then(|| (squares / (n - 1) as f64).sqrt()),
            p50: nearest_rank(&durations, 50),
            p95: nearest_rank(&durations, 95),
        }
    }
}

/// The value at position `ceil(q n)` of sorted values (nearest rank); 0 without values.
pub(crate) fn nearest_rank(sorted: &[Ns], percent: usize) -> Ns {
    let position = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(position - 1).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_by_hand() {
        let s = Summary::new(vec![4, 1, 3, 2]);
        assert_eq!((s.count, s.sum, s.min, s.max, s.p50, s.p95), (4, 10, 1, 4, 2, 4));
        assert_eq!(s.std, Some((5.0f64 / 3.0).sqrt()));
        assert_eq!(Summary::new(vec![7]).std, None);
        assert_eq!(
            nearest_rank(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20], 95),
            19
        );
    }
}

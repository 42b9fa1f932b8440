//! The statistics in HTA's tables: those of pandas' `describe`, and percentages.

/// Count, mean, sample standard deviation and quartiles of some values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Describe {
    pub(crate) count: u64,
    pub(crate) mean: f64,
    /// `None` for fewer than two values.
    pub(crate) std: Option<f64>,
    pub(crate) min: f64,
    pub(crate) p25: f64,
    pub(crate) p50: f64,
    pub(crate) p75: f64,
    pub(crate) max: f64,
}

impl Describe {
    /// Returns `None` if there are no values.
    pub(crate) fn new(mut values: Vec<f64>) -> Option<Self> {
        values.sort_unstable_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let n = values.len();
        let mean = values.iter().sum::<f64>() / n as f64;
        let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
        // Interpolate linearly between neighbours.
        let at = |q: f64| {
            let position = q * (n - 1) as f64;
            let low = position.floor();
            let value = |i: f64| values.get(i as usize).copied().unwrap_or(max);
            value(low) + (value(low + 1.0) - value(low)) * (position - low)
        };
        let std = (n > 1).then(|| (squares / (n - 1) as f64).sqrt());
        Some(Self { count: n as u64, mean, std, min, p25: at(0.25), p50: at(0.5), p75: at(0.75), max })
    }
}

/// `100 * part / whole` rounded as numpy does: scaled, half to even, scaled back.
pub(super) fn rounded_percent(part: i64, whole: i64, decimals: i32) -> Option<f64> {
    (whole != 0).then(|| {
        let scale = 10f64.powi(decimals);
        (100.0 * (part as f64 / whole as f64) * scale).round_ties_even() / scale
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_lie_between_neighbours() {
        let d = Describe::new(vec![4.0, 1.0, 2.0, 3.0]).unwrap();
        assert_eq!((d.count, d.mean, d.min, d.p25, d.p50, d.p75, d.max), (4, 2.5, 1.0, 1.75, 2.5, 3.25, 4.0));
        assert_eq!(d.std, Some((5.0f64 / 3.0).sqrt()));
        assert_eq!(Describe::new(vec![7.0]).unwrap().std, None);
        assert_eq!(Describe::new(Vec::new()), None);
    }
}

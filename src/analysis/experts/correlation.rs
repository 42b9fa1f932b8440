//! Whether expert times follow the tokens: the correlation of the longest expert time with the largest
//! number of tokens over the mean, over the passes of a job.

use hta_job::experts::JobLayers;

/// Fewest passes, and (next) smallest range of the numbers of tokens over their mean, for a correlation to
/// say anything.
const PASSES: usize = 8;
const RANGE: f64 = 0.05;

/// A correlation, with the number of passes.
pub(super) struct TokenCorrelation {
    /// `None` if too few passes, or too equal ones, say nothing.
    pub(super) r: Option<f64>,
    pub(super) passes: usize,
}

impl TokenCorrelation {
    pub(super) fn of(layers: &JobLayers) -> Option<Self> {
        let point = |b: hta_job::experts::LayerBalance| Some((b.load_ratio?, b.max as f64));
        let points: Vec<(f64, f64)> =
            layers.layers.iter().filter_map(|l| l.balance.and_then(point)).collect();
        (!points.is_empty()).then(|| Self { r: correlation(&points), passes: points.len() })
    }
}

fn correlation(points: &[(f64, f64)]) -> Option<f64> {
    let n = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let ratios = || points.iter().map(|p| p.0);
    let range = ratios().fold(f64::MIN, f64::max) - ratios().fold(f64::MAX, f64::min);
    if points.len() < PASSES || range < RANGE * x {
        return None;
    }
    let sum = |of: &dyn Fn(f64, f64) -> f64| points.iter().map(|p| of(p.0 - x, p.1 - y)).sum::<f64>();
    let spread = (sum(&|dx, _| dx * dx) * sum(&|_, dy| dy * dy)).sqrt();
    (spread > 0.0).then(|| sum(&|dx, dy| dx * dy) / spread)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_or_equal_passes_have_no_correlation() {
        let point = |i| (1.0 + f64::from(i) / 10.0, 3.0 * f64::from(i));
        let line: Vec<(f64, f64)> = (0..8).map(point).collect();
        let found = correlation(&line).expect("a correlation");
        assert!((found - 1.0).abs() < 1e-9);
        assert!(correlation(&line[..7]).is_none());
        let narrow: Vec<(f64, f64)> = line.iter().map(|(x, y)| (1.5 + x / 100.0, *y)).collect();
        assert!(correlation(&narrow).is_none());
        let flat: Vec<(f64, f64)> = line.iter().map(|(x, _)| (*x, 5.0)).collect();
        assert!(correlation(&flat).is_none());
    }
}

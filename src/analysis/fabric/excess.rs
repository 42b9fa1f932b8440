//! How much slower than its class a group transfers, by step. It knows no traces: numbers in, numbers out.
//!
//! A class is what should be equally fast: groups of one dimension and size that do the same. Slowness is
//! one-sided, so the level of a class in a step, and its spread, are taken from its faster half:
//!
//! ```text
//!   y(group, step)   ln of the transfer time of a byte
//!   level(step)      lower quartile of the class in the step + 0.674 sigma: the middle of what is not slow
//!   z = y - level    0.4: 1.5 times slower than the class
//! ```

/// Fewest groups of a class that are compared.
pub(crate) const GROUPS_LEAST: usize = 3;
/// The median of a normal distribution is so many of its deviations above its lower quartile.
const QUARTILE: f64 = 0.674;
/// The median deviation from the median, in the lower half of a normal distribution, in its deviations.
const DEVIATION_OF_HALF: f64 = 0.41;
/// A step counts as at most so many deviations slower than the middle one of its group: what is slow in a few
/// steps is no place.
const BURST: f64 = 3.0;
/// No spread counts as smaller: transfers are recorded in whole ns, and none is that exact.
const LEAST_SIGMA: f64 = 0.002;

/// A value at a share of the sorted values, between two of them in proportion.
pub(crate) fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let at = share * sorted.len().checked_sub(1)? as f64;
    let (below, part) = (at.floor() as usize, at - at.floor());
    let low = *sorted.get(below)?;
    Some(sorted.get(below + 1).map_or(low, |high| low + part * (high - low)))
}

/// The spread of the faster half, as the deviation of a normal distribution.
pub(crate) fn sigma_of(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.get(..values.len().div_ceil(2)).unwrap_or_default();
    let Some(middle) = quantile(half, 0.5) else { return LEAST_SIGMA };
    let mut apart: Vec<f64> = half.iter().map(|v| (v - middle).abs()).collect();
    apart.sort_by(f64::total_cmp);
    (quantile(&apart, 0.5).unwrap_or(0.0) / DEVIATION_OF_HALF).max(LEAST_SIGMA)
}

/// The z of the groups of one class, as the input by group and step, and the level by step. Steps that fewer
/// than [`GROUPS_LEAST`] groups have compare nothing.
pub(crate) fn of_class(groups: &[Vec<Option<f64>>]) -> (Vec<Vec<Option<f64>>>, Vec<Option<f64>>) {
    let steps = groups.iter().map(Vec::len).max().unwrap_or(0);
    let quartile = |step: usize| {
        let mut of_step: Vec<f64> = groups.iter().filter_map(|g| *g.get(step)?).collect();
        of_step.sort_by(f64::total_cmp);
        quantile(&of_step, 0.25).filter(|_| of_step.len() >= GROUPS_LEAST)
    };
    let mut level: Vec<Option<f64>> = (0..steps).map(quartile).collect();
    let above = |g: &Vec<Option<f64>>| -> Vec<Option<f64>> {
        g.iter().zip(&level).map(|(y, level)| Some((*y)? - (*level)?)).collect()
    };
    let mut z: Vec<Vec<Option<f64>>> = groups.iter().map(above).collect();
    let sigma = sigma_of(&mut z.iter().flatten().flatten().copied().collect::<Vec<f64>>());
    for of_group in &mut z {
        let mut sorted: Vec<f64> = of_group.iter().flatten().copied().collect();
        sorted.sort_by(f64::total_cmp);
        let most = quantile(&sorted, 0.5).unwrap_or(0.0) + BURST * sigma;
        of_group.iter_mut().flatten().for_each(|z| *z = z.min(most) - QUARTILE * sigma);
    }
    level.iter_mut().flatten().for_each(|l| *l += QUARTILE * sigma);
    (z, level)
}

/// The mean of what is known.
pub(crate) fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, n) = values.fold((0.0, 0u32), |(sum, n), v| (sum + v, n + 1));
    (n > 0).then(|| sum / f64::from(n))
}

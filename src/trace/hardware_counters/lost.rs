//! Samples that the buffer of the sampler has overwritten before they were read.

use hta_base::units::Ns;

/// Number of samples that miss at the begin and in the middle of the times of PM sampling of a device, which
/// are in order and each there once. Sampling begins with the capture: a first sample that is more than two
/// periods late is not the first that was taken.
pub fn samples_lost(times: &[Ns], period: Ns, capture_start: Ns) -> u64 {
    let Some(first) = times.first().filter(|_| period > 0) else { return 0 };
    let late = first.saturating_sub(capture_start);
    let before = if late > period.saturating_mul(2) { late / period } else { 0 };
    let gap = |w: &[Ns]| {
        let missing = i128::from(w[1]) - i128::from(w[0]);
        let is_gap = 2 * missing > 3 * i128::from(period);
        // A gap of 1.5 to 2 periods lacks one.
        if is_gap { (missing / i128::from(period) - 1).max(1) as u64 } else { 0 }
    };
    before.max(0) as u64 + times.windows(2).map(gap).sum::<u64>()
}

#[cfg(test)]
mod tests {
    use super::samples_lost;

    #[test]
    fn a_late_first_sample_and_gaps_are_counted() {
        assert_eq!(samples_lost(&[0, 10, 20], 10, 0), 0);
        assert_eq!(samples_lost(&[0, 10, 20], 10, -20), 0);
        assert_eq!(samples_lost(&[0, 10, 20], 10, -21), 2);
        assert_eq!(samples_lost(&[0, 10, 20], 10, 500), 0);
        assert_eq!(samples_lost(&[0, 15, 31, 61], 10, 0), 1 + 2);
        assert_eq!(samples_lost(&[], 10, 0), 0);
        assert_eq!(samples_lost(&[i64::MIN, i64::MAX], 1, i64::MIN), u64::MAX - 1);
    }
}

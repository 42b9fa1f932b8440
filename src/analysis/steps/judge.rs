//! Decides which steps of a rank are slow, from the rank's own durations.
//!
//! ```text
//!   durations     | |||||                  |            |
//!                 median ....... limit                  slow
//!   limit = median + the larger of 5 % of the median and three standard deviations, which are
//!           estimated as 3 x 1.4826 x median distance from the median: an outlier does not move it
//! ```
//!
//! Medians are durations that occur. For an even number of values, the median is the lower of the two in the
//! middle.

use crate::summary::Summary;
use hta_base::order_statistics::median;
use hta_base::units::Ns;
use hta_trace::step_period::StepPeriod;

/// Fewest full steps for which a step can be slow.
const FEWEST: usize = 3;

/// Smallest margin over the median, in ten-thousandths of it.
const LEAST_MARGIN: i128 = 500;

/// Three standard deviations of a normal distribution, in ten-thousandths of the median distance from its
/// median.
const THREE_DEVIATIONS: i128 = 44_478;

/// Statistics of a rank's steps, and the limit for slow ones.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StepStats {
    /// Statistics of the full steps; of all steps if none is full.
    pub(crate) summary: Summary,
    /// Number of steps in the statistics.
    pub(crate) counted: usize,
    /// Whether no step is full.
    pub(crate) all_partial: bool,
    /// Median distance from the median, ns.
    pub(crate) mad: Ns,
    /// Steps that take longer are slow, ns; `None` with too few steps.
    pub(crate) limit: Option<Ns>,
    /// Index of the first of the counted steps whose duration is the median.
    pub(crate) median: Option<usize>,
}

impl StepStats {
    /// `steps`: duration and whether the step is partial.
    pub(crate) fn new(steps: &[(Ns, bool)]) -> Self {
        let all_partial = steps.iter().all(|(_, partial)| *partial);
        let counted = || steps.iter().enumerate().filter(|(_, (_, partial))| all_partial || !partial);
        let summary = Summary::new(counted().map(|(_, (dur, _))| *dur).collect());
        let middle = summary.p50;
        let mut distances: Vec<Ns> = counted().map(|(_, (dur, _))| (dur - middle).abs()).collect();
        let mad = median(&mut distances).unwrap_or(0);
        let margin = (i128::from(middle) * LEAST_MARGIN).max(i128::from(mad) * THREE_DEVIATIONS) / 10_000;
        let margin = Ns::try_from(margin).unwrap_or(Ns::MAX);
        Self {
            counted: distances.len(),
            all_partial: all_partial && !steps.is_empty(),
            mad,
            limit: (distances.len() >= FEWEST).then(|| middle.saturating_add(margin)),
            median: counted().find(|(_, (dur, _))| *dur == middle).map(|(i, _)| i),
            summary,
        }
    }

    /// Whether a duration is slow; `None` with too few steps.
    pub(crate) fn is_slow(&self, dur: Ns) -> Option<bool> {
        self.limit.map(|l| dur > l)
    }
}

/// Statistics of all steps, and of those that do alike where every k-th does more work.
pub(crate) struct StepJudge {
    pub(crate) all: StepStats,
    /// The period, and statistics of the steps that do usual and more work.
    pub(crate) alike: Option<(StepPeriod, [StepStats; 2])>,
}

impl StepJudge {
    /// `steps`: index, duration and whether the step is partial.
    pub(crate) fn new(steps: &[(u32, Ns, bool)], period: Option<StepPeriod>) -> Self {
        let of = |keep: &dyn Fn(u32) -> bool| {
            StepStats::new(
                &steps.iter().map(|(i, dur, partial)| (*dur, *partial || !keep(*i))).collect::<Vec<_>>(),
            )
        };
        let alike = period.map(|p| (p, [of(&|i| !p.holds(i)), of(&|i| p.holds(i))]));
        // With `--steps`, one kind may be absent.
        let alike = alike.filter(|(_, of)| of.iter().all(|stats| !stats.all_partial && stats.counted > 0));
        Self { all: of(&|_| true), alike }
    }

    /// The statistics that a step is judged by.
    pub fn of(&self, step: u32) -> &StepStats {
        match &self.alike {
            Some((period, [_, more])) if period.holds(step) => more,
            Some((_, [usual, _])) => usual,
            None => &self.all,
        }
    }

    /// Length of a whole period by the medians, ns.
    pub(crate) fn period_ns(&self) -> Option<Ns> {
        let (period, [usual, more]) = self.alike.as_ref()?;
        Some(usual.summary.p50.saturating_mul(Ns::from(period.every) - 1).saturating_add(more.summary.p50))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full(durations: &[Ns]) -> StepStats {
        StepStats::new(&durations.iter().map(|d| (*d, false)).collect::<Vec<_>>())
    }

    #[test]
    fn with_a_period_a_step_is_judged_by_its_like() {
        let lengths = [40, 90, 40, 90, 50, 90, 40, 99];
        let steps: Vec<(u32, Ns, bool)> = (0..).zip(lengths).map(|(i, dur)| (i, dur, false)).collect();
        let judge = StepJudge::new(&steps, Some(StepPeriod { every: 2, first: 1 }));
        let slow: Vec<u32> =
            steps.iter().filter(|s| judge.of(s.0).is_slow(s.1) == Some(true)).map(|s| s.0).collect();
        assert_eq!((slow, judge.period_ns()), (vec![4, 7], Some(130)));
        // Without the others, those that are left are judged together.
        let even: Vec<(u32, Ns, bool)> = steps.iter().copied().filter(|s| s.0 % 2 == 0).collect();
        assert!(StepJudge::new(&even, Some(StepPeriod { every: 2, first: 1 })).alike.is_none());
    }

    #[test]
    fn a_step_is_slow_beyond_a_twentieth_of_the_median() {
        let j = full(&[100, 100, 106, 100, 105]);
        assert_eq!((j.summary.p50, j.mad, j.limit, j.median), (100, 0, Some(105), Some(0)));
        assert_eq!((j.is_slow(105), j.is_slow(106)), (Some(false), Some(true)));
    }

    #[test]
    fn steps_that_vary_must_be_slower_to_be_called_slow() {
        // Distances from 100: 0 10 10 10 20, the middle one is 10; 3 x 1.4826 x 10 = 44.478.
        let j = full(&[90, 100, 110, 110, 120]);
        assert_eq!((j.summary.p50, j.mad), (110, 10));
        assert_eq!((j.limit, j.is_slow(154), j.is_slow(155)), (Some(154), Some(false), Some(true)));
    }

    #[test]
    fn the_lower_of_two_middle_steps_is_the_median() {
        let j = full(&[40, 10, 30, 20]);
        assert_eq!((j.summary.p50, j.median, j.mad), (20, Some(3), 10));
    }

    #[test]
    fn two_steps_are_too_few_and_partial_ones_do_not_count() {
        assert_eq!(full(&[10, 90]).limit, None);
        let j = StepStats::new(&[(1, true), (10, false), (10, false), (10, false)]);
        assert_eq!((j.counted, j.summary.min, j.median, j.is_slow(1)), (3, 10, Some(1), Some(false)));
        let j = StepStats::new(&[(10, true), (11, true), (12, true)]);
        assert_eq!((j.counted, j.all_partial, j.summary.p50), (3, true, 11));
        let j = StepStats::new(&[]);
        assert_eq!((j.counted, j.all_partial, j.median, j.limit), (0, false, None, None));
    }
}

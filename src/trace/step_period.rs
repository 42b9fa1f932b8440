//! Steps of which every k-th does more work: gradients are accumulated over k steps, and only the last of
//! them reduces them and runs the optimizer.
//!
//! ```text
//!   launches  40 40 40 61 40 40 40 61 40 40 40 61       every 4th step: k = 4, the first at position 3
//! ```
//!
//! Such a step is longer by design. It is compared with its like only.

use std::cmp::Reverse;

/// Share of the usual count of launches by which steps do more; where it is less, three of them are needed.
const MORE_PCT: u64 = 5;

/// Every how many steps one does more work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepPeriod {
    pub every: u32,
    /// Position of the first of these steps, below `every`.
    pub first: u32,
}

impl StepPeriod {
    /// Finds the period in the number of launches of each step; `None` for steps of which not all is known.
    /// Steps that do more differ from the others by more than they do among each other.
    pub fn find(launched: &[Option<u64>]) -> Option<Self> {
        let mut known: Vec<u64> = launched.iter().copied().flatten().collect();
        known.sort_unstable();
        // Every second step may do more, and of an odd number of steps the larger part.
        let usual = (known.len() / 2).checked_sub(1)?;
        let gaps = known.windows(2).enumerate().skip(usual);
        let (at, _) = gaps.max_by_key(|(i, pair)| (pair[1] - pair[0], Reverse(*i)))?;
        let (least, most, from) = (*known.first()?, *known.last()?, *known.get(at + 1)?);
        let to = *known.get(at)?;
        if from - to <= (to - least).max(most - from) {
            return None;
        }
        let is_more = |n: &Option<u64>| n.is_some_and(|n| n >= from);
        let mut more = (0u32..).zip(launched).filter(|(_, n)| is_more(n)).map(|(i, _)| i);
        let (first, second) = (more.next()?, more.next()?);
        let is_small = (from - to).saturating_mul(100) < to.saturating_mul(MORE_PCT);
        if is_small && more.next().is_none() {
            return None;
        }
        let distance = second - first;
        let fits =
            |p: &StepPeriod| (0u32..).zip(launched).all(|(i, n)| n.is_none() || is_more(n) == p.holds(i));
        // Between the first two may be steps of which not all is known.
        let periods = (2..=distance).filter(|every| distance % every == 0);
        periods.map(|every| StepPeriod { every, first: first % every }).find(fits)
    }

    /// Whether the step at a position does more work.
    pub fn holds(self, index: u32) -> bool {
        index % self.every == self.first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(launched: &[u64]) -> Option<(u32, u32)> {
        let known: Vec<Option<u64>> = launched.iter().map(|n| (*n > 0).then_some(*n)).collect();
        StepPeriod::find(&known).map(|p| (p.every, p.first))
    }

    #[test]
    fn every_fourth_step_that_launches_more_is_a_period() {
        assert_eq!(of(&[40, 40, 40, 61, 40, 40, 40, 61]), Some((4, 3)));
        assert_eq!(of(&[61, 40, 61, 40, 61]), Some((2, 0)));
        // A partial step may be anything.
        assert_eq!(of(&[0, 61, 40, 0, 40, 61, 40, 40, 40, 61]), Some((4, 1)));
    }

    #[test]
    fn steps_that_do_more_at_uneven_distances_or_once_are_no_period() {
        assert_eq!(of(&[40, 61, 40, 61, 61, 40, 40, 40]), None);
        assert_eq!(of(&[40, 40, 40, 61, 40, 40, 40, 40]), None);
        assert_eq!(of(&[40; 8]), None);
        assert_eq!(of(&[40, 40, 40, 61, 40, 40, 40, 90]), None);
        assert_eq!(of(&[]), None);
        // Noise that happens to be periodic is no larger than other noise.
        assert_eq!(of(&[400, 420, 404, 409, 401, 420, 411, 405]), None);
    }

    #[test]
    fn one_launch_more_is_a_period_if_it_comes_three_times() {
        assert_eq!(of(&[400, 401, 400, 401, 400, 401]), Some((2, 1)));
        assert_eq!(of(&[400, 400, 401, 400, 400, 401]), None);
    }
}

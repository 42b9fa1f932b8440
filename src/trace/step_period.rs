//! Steps of which every k-th does more work: gradients are accumulated over k steps, and only the last of them reduces
//! them and runs the optimizer.
//!
//! ```text
//!   launches  40 40 40 61 40 40 40 61 40 40 40 61       every 4th step: k = 4, the first at position 3
//! ```
//!
//! Such a step is longer by design. It is compared with its like only.

/// Share of the usual count of launches by which a step must exceed it to do more work, and by which those may differ.
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
    pub fn find(launched: &[Option<u64>]) -> Option<Self> {
        let mut known: Vec<u64> = launched.iter().copied().flatten().collect();
        known.sort_unstable();
        // With every second step doing more, and an odd number of steps, most may do more.
        let usual = *known.get((known.len() / 2).checked_sub(1)?)?;
        let margin = |n: u64| (n.saturating_mul(MORE_PCT) / 100).max(1);
        let is_more = |n: u64| n > usual.saturating_add(margin(usual));
        let most = known.last().filter(|n| is_more(**n))?;
        let is_like_most = |n: u64| n.saturating_add(margin(*most).saturating_mul(2)) >= *most;
        let fits = |p: &StepPeriod| {
            let mut count = 0;
            let fits = (0u32..).zip(launched).all(|(i, n)| match (n, p.holds(i)) {
                (None, _) => true,
                (Some(n), true) => {
                    count += 1;
                    is_more(*n) && is_like_most(*n)
                }
                (Some(n), false) => !is_more(*n),
            });
            fits && count >= 2
        };
        let longest = launched.len() as u32 / 2;
        let all = (2..=longest).flat_map(|every| (0..every).map(move |first| StepPeriod { every, first }));
        // Nothing before the first step that does more can be one.
        let start = (0u32..).zip(launched).find(|(_, n)| n.is_some_and(is_more))?.0;
        all.filter(|p| p.holds(start)).find(fits)
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
    }
}

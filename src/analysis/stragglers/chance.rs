//! Tests whether chance alone could make a rank as late as it was: the evidence that a straggler must have.
//!
//! The measure is a rank's *balance* in a step: its local time minus the lower median of all members'. If no
//! rank were slower than the others, the balances of a step could equally have occurred on any other ranks.
//! So they are permuted over the ranks, within each step, and the largest sum over the steps is noted. The
//! p-value of a rank is the share of permutations whose largest sum is at least its own. If there are few
//! permutations, all are made, else a fixed number of random ones with a fixed seed.
//!
//! With `n` ranks and `S` steps no p-value can be below `n^(1-S)`, so enough steps are required that this is
//! at most 2 %.

use crate::random::below;
use hta_base::units::Ns;

/// Largest p-value that counts as evidence.
pub const P_MOST: f64 = 0.02;

/// Chance at which ranks that are late in turn are so few among all.
pub(super) const FEW_BY_CHANCE: f64 = 0.05;

/// Gain up to which a rank must also stand apart from the others, percent of the median step: jitter that
/// lasts over steps rarely costs more.
pub(crate) const APART_PCT: f64 = 5.0;

/// A rank stands apart if it is ahead of the others by this, divided by their number, times the distance
/// between them, and at least by that distance.
const APART: Ns = 15;
const APART_OTHERS: usize = 3;

/// Fewest steps that show how long jitter lasts.
pub(super) const STEPS_FOR_JITTER: usize = 8;

/// Up to this number of permutations all are made.
const ALL: f64 = 50_000.0;

/// Number of random permutations; fewer in large jobs, where the number of drawn balances is limited.
const DRAWS: usize = 20_000;
const LEAST_DRAWS: usize = 2_000;
const DRAWN_BALANCES: usize = 10_000_000;

/// Number of steps that the permutation test needs with `ranks` ranks.
pub(crate) fn steps_needed(ranks: usize) -> usize {
    let n = ranks.max(2) as f64;
    (1..).find(|s| n.powi(1 - *s as i32) <= P_MOST).unwrap_or(usize::MAX)
}

/// Balances by step; each step has one per rank, in order of rank.
pub struct Balances<'a>(pub &'a [Vec<Ns>]);

impl Balances<'_> {
    fn ranks(&self) -> usize {
        self.0.first().map_or(0, Vec::len)
    }

    /// p-values of sets of ranks, all of the same size: the sum of a set is compared with the largest sum of
    /// any set of that size.
    ///
    /// `None` if there are too few steps for any p-value to be evidence.
    pub(crate) fn p_values(&self, sets: &[Vec<usize>]) -> Option<Vec<f64>> {
        let (n, steps) = (self.ranks(), self.0.len());
        let size = sets.first()?.len();
        if n < 2 || steps < steps_needed(n) {
            return None;
        }
        let sum = |set: &Vec<usize>| set.iter().map(|r| self.0.iter().map(|b| b[*r]).sum::<Ns>()).sum::<Ns>();
        let observed: Vec<Ns> = sets.iter().map(sum).collect();
        let mut found = PermutationCounts { largest: Vec::new(), size };
        let permutations = (1..=n).map(|k| k as f64).product::<f64>().powi(steps as i32);
        let (more, of) = if permutations <= ALL {
            let orders = all_orders(n);
            self.every(1, &mut self.0[0].clone(), &orders, &mut found);
            (0, found.largest.len())
        } else {
            let draws = (DRAWN_BALANCES / (n * steps)).clamp(LEAST_DRAWS, DRAWS);
            self.random(draws, &mut found);
            // The observed order counts as one of the permutations.
            (1, draws + 1)
        };
        found.largest.sort_unstable();
        let at_least = |sum: &Ns| found.largest.len() - found.largest.partition_point(|x| x < sum) + more;
        Some(observed.iter().map(|sum| at_least(sum) as f64 / of as f64).collect())
    }

    /// Whether the sums over all steps set these ranks apart from the others. That is evidence even if jitter
    /// lasts, so that steps do not repeat what happened by chance.
    pub(crate) fn stand_apart(&self, set: &[usize]) -> bool {
        let sum = |r: usize| self.0.iter().map(|b| b[r]).sum::<Ns>();
        let others: Vec<Ns> = (0..self.ranks()).filter(|r| !set.contains(r)).map(sum).collect();
        let own = set.iter().map(|r| sum(*r)).min();
        let (Some(own), Some(least), Some(most)) = (own, others.iter().min(), others.iter().max()) else {
            return false;
        };
        let n = others.len() as Ns + 1;
        let is_ahead = (own - most) * n >= APART.max(n) * (most - least) && own > *most;
        others.len() >= APART_OTHERS && is_ahead
    }

    /// Whether there are too few steps to know how long jitter lasts, and these ranks do not stand apart.
    pub(crate) fn is_brief(&self, set: &[usize]) -> bool {
        self.0.len() < STEPS_FOR_JITTER && !self.stand_apart(set)
    }

    /// Makes all orders of the steps from `step` on. The first step stays fixed, because names of ranks do
    /// not matter.
    fn every(&self, step: usize, sums: &mut [Ns], orders: &[Vec<usize>], found: &mut PermutationCounts) {
        let Some(of_step) = self.0.get(step) else { return found.note(sums) };
        for order in orders {
            order.iter().zip(sums.iter_mut()).for_each(|(from, sum)| *sum += of_step[*from]);
            self.every(step + 1, sums, orders, found);
            order.iter().zip(sums.iter_mut()).for_each(|(from, sum)| *sum -= of_step[*from]);
        }
    }

    fn random(&self, draws: usize, found: &mut PermutationCounts) {
        let mut shuffled: Vec<Vec<Ns>> = self.0.to_vec();
        let Some((first, others)) = shuffled.split_first_mut() else { return };
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut sums = vec![0; self.ranks()];
        for _ in 0..draws {
            // Only the order of the steps against each other counts, so the first one stays, here as well.
            sums.copy_from_slice(first);
            for of_step in &mut *others {
                for i in (1..of_step.len()).rev() {
                    of_step.swap(i, below(&mut state, i + 1));
                }
                of_step.iter().zip(&mut sums).for_each(|(b, sum)| *sum += b);
            }
            found.note(&sums);
        }
    }
}

/// Counts how often the largest sum of sets of one size reaches each observed sum.
struct PermutationCounts {
    largest: Vec<Ns>,
    size: usize,
}

impl PermutationCounts {
    fn note(&mut self, sums: &[Ns]) {
        let largest = if self.size == 1 {
            sums.iter().copied().max().unwrap_or(0)
        } else {
            let mut sums = sums.to_vec();
            sums.sort_unstable_by_key(|s| std::cmp::Reverse(*s));
            sums.iter().take(self.size).sum()
        };
        self.largest.push(largest);
    }
}

/// All orders of `0..n`.
fn all_orders(n: usize) -> Vec<Vec<usize>> {
    let mut out = vec![Vec::new()];
    for _ in 0..n {
        let longer = |order: Vec<usize>| {
            let free: Vec<usize> = (0..n).filter(|i| !order.contains(i)).collect();
            free.into_iter().map(move |i| order.iter().copied().chain([i]).collect())
        };
        out = out.into_iter().flat_map(longer).collect();
    }
    out
}

/// Whether a rank was the largest in every step, each time by at least the distance between the others:
/// evidence for jobs with too few steps to permute. `steps`: the rank's balance, and those of the others with
/// which it was compared.
pub fn is_always_ahead(steps: &[(Ns, Vec<Ns>)]) -> bool {
    let ranks = steps.iter().map(|(_, others)| others.len() + 1).min().unwrap_or(0);
    let enough = (4..8).contains(&ranks) && steps.len() >= 3 || ranks >= 8 && steps.len() >= 2;
    enough
        && steps.iter().all(|(own, others)| {
            let (least, most) =
                (others.iter().min().copied().unwrap_or(0), others.iter().max().copied().unwrap_or(0));
            own - most >= most - least && *own > most
        })
}

/// The most that the chance can be that so many draws of `ranks` give no more than `few` of them: the number
/// of ways to choose these, times the chance of all draws to be among them.
pub(super) fn chance_of_few(few: usize, draws: usize, ranks: usize) -> f64 {
    let ways: f64 = (0..few).map(|i| (ranks.max(i) - i) as f64 / (i + 1) as f64).product();
    ways * (few as f64 / ranks.max(1) as f64).powi(i32::try_from(draws).unwrap_or(i32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chance_of_few_is_that_of_all_draws_among_them() {
        // 6 pairs of 4 ranks, and all draws in one of them: 6/2^6 and 6/2^7.
        assert_eq!((chance_of_few(2, 6, 4), chance_of_few(2, 7, 4)), (6.0 / 64.0, 6.0 / 128.0));
        assert_eq!(chance_of_few(8, 8, 8), 1.0);
        assert!(chance_of_few(2, 5, 8) < 0.05 && chance_of_few(3, 5, 8) > 0.05);
        assert!(chance_of_few(10, 10, 64) > 1.0);
    }

    /// n^(1-S) <= 2 %: the numbers of steps in the definition.
    #[test]
    fn small_jobs_need_more_steps() {
        let needed: Vec<usize> = [2, 3, 4, 7, 8, 49, 50, 1000].into_iter().map(steps_needed).collect();
        assert_eq!(needed, [7, 5, 4, 4, 3, 3, 2, 2]);
    }

    /// Rank 0 always has the 9; n of the n^S possible orders put all of them on one rank.
    #[test]
    fn a_rank_that_is_always_late_has_the_least_p_value() {
        let two = vec![vec![9, 0]; 7];
        assert_eq!(Balances(&two).p_values(&[vec![0], vec![1]]), Some(vec![1.0 / 64.0, 1.0]));
        let three = vec![vec![9, 0, 0]; 5];
        assert_eq!(Balances(&three).p_values(&[vec![0]]), Some(vec![1.0 / 81.0]));
        let few = vec![vec![9, 0]; 6];
        assert_eq!(Balances(&few).p_values(&[vec![0]]), None);
    }

    /// 4 ranks, 5 steps: 24^5 orders are too many to make all. 4 of 4^5 have an equally large sum.
    #[test]
    fn random_orders_give_nearly_the_exact_p_value() {
        let b = vec![vec![9, 0, 0, 0]; 5];
        let p = Balances(&b).p_values(&[vec![0]]).expect("enough steps")[0];
        assert!((p - 1.0 / 256.0).abs() < 0.002, "{p}");
        let twins = vec![vec![9, 9, 0, 0]; 4];
        let p = Balances(&twins).p_values(&[vec![0, 1]]).expect("enough steps")[0];
        assert!((p - 1.0 / 216.0).abs() < 0.002, "{p}");
    }

    #[test]
    fn a_rank_in_turn_is_no_evidence() {
        let b: Vec<Vec<Ns>> =
            (0..8).map(|s| (0..4).map(|r| if r == s % 4 { 9 } else { 0 }).collect()).collect();
        assert!(Balances(&b).p_values(&[vec![0]]).expect("enough steps")[0] > 0.5);
    }

    /// ```text
    ///   others 0..10 apart by 10; the first is ahead by 10, then by 9
    /// ```
    #[test]
    fn ahead_means_by_the_distance_between_the_others_in_every_step() {
        let clear = vec![(20, vec![10, 0, 5]); 3];
        let mut once = clear.clone();
        once[1].0 = 19;
        assert!(is_always_ahead(&clear));
        assert!(!is_always_ahead(&once));
        assert!(!is_always_ahead(&clear[..2]));
        assert!(!is_always_ahead(&vec![(20, vec![10, 0]); 3]));
        assert!(is_always_ahead(&vec![(20, vec![0; 7]); 2]));
    }
}

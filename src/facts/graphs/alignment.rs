//! A longest common subsequence of two sequences that are nearly equal, by the greedy algorithm of Myers
//! (1986): time and memory grow with the length and the square of the number of differences.
//!
//! ```text
//!   a   k1 k2 k3 k3 k4        diagonal x - y: how many more of a than of b were left out so far
//!   b   k1 k3 k3 k5 k4        each round allows one more difference and goes as far as the symbols agree
//!        |     |  |    |
//! ```

use super::symbols::Symbol;

/// Differences that are tried at most, so that the memory stays below some ten megabytes.
const MOST_DIFFERENCES: usize = 1_500;

/// For each element of `a` the index of its partner in `b`; `None` if more than `most` elements of both
/// together have none.
pub(crate) fn align(a: &[Symbol], b: &[Symbol], most: usize) -> Option<Vec<Option<u32>>> {
    let (n, m) = (a.len(), b.len());
    let most = most.min(MOST_DIFFERENCES).min(n + m);
    let agrees = |x: usize, y: usize| a.get(x).zip(b.get(y)).is_some_and(|(a, b)| a.is_like(*b));
    // How far into `a` each diagonal reaches; diagonal 0 is at `middle`.
    let middle = most + 1;
    let mut reach = vec![0u32; 2 * middle + 1];
    // The reach before each round, of the diagonals that it uses.
    let mut rounds: Vec<Vec<u32>> = Vec::new();
    for d in 0..=most {
        rounds.push(reach[middle - d..=middle + d].to_vec());
        for k in (middle - d..=middle + d).step_by(2) {
            let (mut x, _) = step(k, d, middle, |k| reach[k]);
            let Some(mut y) = (x + middle).checked_sub(k) else { continue };
            while agrees(x, y) {
                (x, y) = (x + 1, y + 1);
            }
            reach[k] = x as u32;
            if (x, y) == (n, m) {
                return Some(partners((n, m), middle, &rounds));
            }
        }
    }
    None
}

/// Where round `d` begins on diagonal `k`, and the diagonal from which it comes: one element of `b` is left
/// out (from the next diagonal) or one of `a` (from the previous).
fn step(k: usize, d: usize, middle: usize, reach: impl Fn(usize) -> u32) -> (usize, usize) {
    let leaves_out_b = k == middle - d || (k != middle + d && reach(k - 1) < reach(k + 1));
    match leaves_out_b {
        true => (reach(k + 1) as usize, k + 1),
        false => (reach(k - 1) as usize + 1, k - 1),
    }
}

/// Walks back from the ends of both sequences, round by round.
fn partners((n, m): (usize, usize), middle: usize, rounds: &[Vec<u32>]) -> Vec<Option<u32>> {
    let mut pairs = vec![None; n];
    let (mut x, mut y) = (n, m);
    for (d, before) in rounds.iter().enumerate().rev() {
        let reach = |k: usize| (k + d).checked_sub(middle).and_then(|i| before.get(i)).copied().unwrap_or(0);
        let (start, from) = match d {
            0 => (0, middle),
            _ => step(middle + x - y, d, middle, reach),
        };
        // What lies behind the start of a round is common.
        while x > start && y > 0 {
            (x, y) = (x - 1, y - 1);
            if let Some(pair) = pairs.get_mut(x) {
                *pair = Some(y as u32);
            }
        }
        x = reach(from) as usize;
        y = (x + middle).saturating_sub(from);
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn kernels(of: &[u32]) -> Vec<Symbol> {
        of.iter().map(|k| Symbol::kernel(*k)).collect()
    }

    #[test]
    fn equal_sequences_are_paired_one_to_one() {
        let a = kernels(&[1, 2, 3, 1]);
        assert_eq!(align(&a, &a, 0), Some(vec![Some(0), Some(1), Some(2), Some(3)]));
        assert_eq!(align(&[], &[], 0), Some(Vec::new()));
    }

    #[test]
    fn what_has_no_partner_is_left_out() {
        let (a, b) = (kernels(&[1, 2, 3, 3, 4]), kernels(&[1, 3, 3, 5, 4]));
        assert_eq!(align(&a, &b, 2), Some(vec![Some(0), None, Some(1), Some(2), Some(4)]));
        assert_eq!(align(&a, &b, 1), None);
        assert_eq!(align(&a, &[], 5), Some(vec![None; 5]));
        assert_eq!(align(&[], &b, 5), Some(Vec::new()));
    }

    /// Length of the longest common subsequence, from all pairs of prefixes.
    fn longest(a: &[u32], b: &[u32]) -> usize {
        let mut best = vec![vec![0; b.len() + 1]; a.len() + 1];
        for (i, x) in a.iter().enumerate() {
            for (j, y) in b.iter().enumerate() {
                best[i + 1][j + 1] = if x == y { best[i][j] + 1 } else { best[i][j + 1].max(best[i + 1][j]) };
            }
        }
        best[a.len()][b.len()]
    }

    proptest! {
        #[test]
        fn pairs_are_a_longest_common_subsequence(
            a in prop::collection::vec(0u32..4, 0..14),
            b in prop::collection::vec(0u32..4, 0..14),
            most in 0usize..28,
        ) {
            let length = longest(&a, &b);
            let differences = a.len() + b.len() - 2 * length;
            let pairs = align(&kernels(&a), &kernels(&b), most);
            prop_assert_eq!(pairs.is_some(), differences <= most);
            if let Some(pairs) = pairs {
                let found: Vec<(usize, u32)> = pairs.iter().enumerate().filter_map(|(i, j)| Some((i, (*j)?))).collect();
                prop_assert_eq!(found.len(), length);
                prop_assert!(found.windows(2).all(|w| w[0].1 < w[1].1));
                prop_assert!(found.iter().all(|(i, j)| a[*i] == b[*j as usize]));
            }
        }
    }
}

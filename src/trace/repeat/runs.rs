//! Finds all runs of a text: maximal stretches that repeat with a period, for two rounds or more.
//!
//! ```text
//!   text   x a b a b a b y          run [1, 7) with period 2
//! ```
//!
//! By the runs theorem (Bannai et al.) there are fewer runs than positions, and each contains a position
//! whose longest Lyndon word, under the order of symbols or its reverse, has the length of the period. The
//! longest Lyndon word at a position ends where the next smaller suffix begins, which follows from the ranks.
//! So one pair of suffixes per position and order is compared, to the right and to the left.

use crate::repeat::lcp::SuffixArrayWithLcp;

/// A run, identified by the rank of the suffix at its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RepeatRun {
    pub(crate) rank: u32,
    pub(crate) length: u32,
    /// The smallest period, at most half the length.
    pub(crate) period: u32,
}

/// Runs of at least `least` symbols, in order of rank; some occur twice.
pub(crate) fn runs(text: &[u32], sorted: &SuffixArrayWithLcp, least: u32) -> Vec<RepeatRun> {
    let mut all = Vec::new();
    next_where(&sorted.rank, |next, own| next < own, |i, j| all.extend(run(text, sorted, i, j)));
    next_where(&sorted.rank, |next, own| next > own, |i, j| all.extend(run(text, sorted, i, j)));
    all.retain(|r| r.length >= least);
    all.sort_unstable();
    all
}

/// Calls `found(i, j)` for each `i` with the first later `j` for which `so(rank[j], rank[i])` holds, if any.
fn next_where(rank: &[u32], so: impl Fn(u32, u32) -> bool, mut found: impl FnMut(usize, usize)) {
    let mut open: Vec<u32> = Vec::new();
    for (j, &own) in rank.iter().enumerate() {
        while let Some(&i) = open.last().filter(|i| so(own, rank[**i as usize])) {
            open.pop();
            found(i as usize, j);
        }
        open.push(j as u32);
    }
}

/// The run whose first root is the Lyndon word `[i, j)`, if there is one.
fn run(text: &[u32], sorted: &SuffixArrayWithLcp, i: usize, j: usize) -> Option<RepeatRun> {
    if text[i] != text[j] {
        return None;
    }
    let period = j - i;
    let right = sorted.agree(text, i, j);
    let left = agree_before(text, sorted, i, j);
    // With a whole round before it, this is not the first root of the run.
    (left < period && left + right >= period).then(|| RepeatRun {
        rank: sorted.rank[i - left],
        length: (left + period + right) as u32,
        period: period as u32,
    })
}

/// Number of equal symbols before `i` and before `j`, from the right. Exact below `j - i`, otherwise a lower
/// bound.
fn agree_before(text: &[u32], sorted: &SuffixArrayWithLcp, i: usize, j: usize) -> usize {
    const DIRECT: usize = 16;
    let most = i.min(j - i);
    let direct = (1..=most.min(DIRECT)).take_while(|k| text[i - k] == text[j - k]).count();
    if direct < most.min(DIRECT) {
        return direct;
    }
    // The k symbols before both are equal if, k positions earlier, at least k symbols agree.
    let equal = |k: usize| sorted.agree(text, i - k, j - k) >= k;
    let (mut known, mut step) = (direct, DIRECT);
    while known < most {
        let k = (known + step).min(most);
        if !equal(k) {
            let (mut low, mut high) = (known, k);
            while high - low > 1 {
                let middle = low + (high - low) / 2;
                if equal(middle) { low = middle } else { high = middle }
            }
            return low;
        }
        known = k;
        step *= 2;
    }
    known
}

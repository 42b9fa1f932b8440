//! Merges patterns that are rotations of each other: the same loop body, with a different starting point.
//!
//! Most patterns have no rotation among the others. A cheap invariant shows that: the number of symbols, and
//! a sum over pairs of neighbouring symbols (the last and the first count as neighbours). Only patterns that
//! agree in both are rotated to their smallest rotation and compared.

use crate::repeat::pattern::RepeatPattern;
use std::cmp::Reverse;

/// Keeps from each set of rotations the one with most weight; ties: the first.
pub(crate) fn one_of_rotations(text: &[u32], patterns: &mut Vec<RepeatPattern>) {
    let pair = |a: u32, b: u32| mix(u64::from(a) << 32 | u64::from(b));
    let mut before = Vec::with_capacity(text.len());
    let mut sum = 0u64;
    before.push(0);
    for w in text.windows(2) {
        sum = sum.wrapping_add(pair(w[0], w[1]));
        before.push(sum);
    }
    let print = |p: &RepeatPattern| {
        let (from, last) = (p.first as usize, p.first as usize + p.length() as usize - 1);
        before[last].wrapping_sub(before[from]).wrapping_add(pair(text[last], text[from]))
    };
    let mut order: Vec<(u32, u64, u32)> =
        patterns.iter().enumerate().map(|(k, p)| (p.length(), print(p), k as u32)).collect();
    order.sort_unstable();
    let mut turned: Vec<u32> = Vec::new();
    let mut drop = vec![false; patterns.len()];
    for alike in order.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)).filter(|c| c.len() > 1) {
        turned.clear();
        for &(length, _, k) in alike {
            let from = patterns[k as usize].first as usize;
            let word = &text[from..from + length as usize];
            let start = least_rotation(word);
            turned.extend_from_slice(&word[start..]);
            turned.extend_from_slice(&word[..start]);
        }
        let length = alike[0].0 as usize;
        let word = |at: &u32| &turned[*at as usize * length..][..length];
        let mut by_word: Vec<u32> = (0..alike.len() as u32).collect();
        by_word.sort_unstable_by_key(word);
        for same in by_word.chunk_by(|a, b| word(a) == word(b)) {
            let of = |at: &u32| alike[*at as usize].2 as usize;
            let best = same.iter().map(of).min_by_key(|&k| (Reverse(patterns[k].weight), patterns[k].first));
            for k in same.iter().map(of) {
                drop[k] = Some(k) != best;
            }
        }
    }
    let mut k = 0;
    patterns.retain(|_| {
        k += 1;
        !drop[k - 1]
    });
}

/// The finalizer of splitmix64: a fixed hash.
fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Start of the lexicographically smallest rotation, in linear time: of two candidate starts, the loser also
/// rules out the starts it has passed.
fn least_rotation(text: &[u32]) -> usize {
    let n = text.len();
    let at = |i: usize| text[if i < n { i } else { i - n }];
    let (mut a, mut b, mut k) = (0, 1, 0);
    while a < n && b < n && k < n {
        let (x, y) = (at(a + k), at(b + k));
        if x == y {
            k += 1;
            continue;
        }
        if x > y {
            a += k + 1
        } else {
            b += k + 1
        }
        b += usize::from(a == b);
        k = 0;
    }
    a.min(b)
}

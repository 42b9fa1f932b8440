//! Maximal repeats, and the loop bodies of those that are loops.
//!
//! ```text
//!   LCP        0  1  1  3  3  1  0        a group of suffixes that share more with each other than with
//!   intervals     [.........1...]         their neighbours is an LCP interval: a string and its places
//!                       [..3.]
//! ```
//!
//! If all places have the same symbol before them, the string can be extended to the left without losing an
//! occurrence, so it is not a candidate. The intervals nest, so one walk over the suffixes with a stack of
//! open intervals visits every string that begins a suffix, by length.
//!
//! A periodic candidate (two rounds or more) differs to the left in two places, so at one of its places it
//! begins a run. Therefore the runs are walked, not the candidates: each marks the open intervals between two
//! rounds and its own length, and stops at one that is already marked.

use crate::repeat::MinimumSize;
use crate::repeat::lcp::SuffixArrayWithLcp;
use crate::repeat::runs::RepeatRun;

/// A string, given by its places: the suffixes `[from, until)` of the suffix array begin with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Candidate {
    pub(crate) from: u32,
    pub(crate) until: u32,
    pub(crate) length: u32,
}

impl Candidate {
    /// Number of positions in the text.
    pub(crate) fn places(&self) -> u32 {
        self.until - self.from
    }
}

/// Maximal repeats that are not loops, and the roots (loop bodies) of those that are; each string once,
/// sorted. `runs` must be in order of rank.
pub(crate) fn candidates(
    text: &[u32],
    sorted: &SuffixArrayWithLcp,
    runs: Vec<RepeatRun>,
    least: MinimumSize,
) -> Vec<Candidate> {
    let repeats = maximal_repeats(text, sorted, least.length);
    let mut is_loop = vec![false; repeats.len()];
    let mut found = roots(&repeats, runs, &mut is_loop);
    found.extend(repeats.iter().zip(&is_loop).filter(|(_, l)| !**l).map(|(c, _)| *c));
    found.retain(|c| c.length >= least.length && c.places() >= least.count);
    found.sort_unstable();
    found.dedup();
    found
}

/// LCP intervals of at least `least` symbols with more than one left symbol, inner ones before outer ones.
fn maximal_repeats(text: &[u32], sorted: &SuffixArrayWithLcp, least: u32) -> Vec<Candidate> {
    let n = sorted.len();
    let left = sorted.before(text);
    let mut found = Vec::new();
    // Open intervals by length, with the last place before their start where the left symbol changed.
    let mut open: Vec<(u32, u32)> = Vec::new();
    let mut last_change = 0;
    for r in 1..=n {
        let shared = if r < n { sorted.lcp[r] } else { 0 };
        let mut from = r as u32 - 1;
        while let Some(&(length, start)) = open.last().filter(|o| o.0 > shared) {
            open.pop();
            from = start;
            if last_change > start {
                found.push(Candidate { from, until: r as u32, length });
            }
        }
        if shared >= least.max(1) && open.last().is_none_or(|o| o.0 < shared) {
            open.push((shared, from));
        }
        if r < n && left[r] != left[r - 1] {
            last_change = r as u32;
        }
    }
    found
}

/// Roots of the periodic ones among `repeats`; marks these as loops.
fn roots(repeats: &[Candidate], mut runs: Vec<RepeatRun>, is_loop: &mut [bool]) -> Vec<Candidate> {
    let mut roots = Vec::new();
    // The list is in order of end, inner ones first; read from its end, outer ones open first.
    let mut next = repeats.len();
    let mut open: Vec<u32> = Vec::new();
    let of = |k: u32| &repeats[k as usize];
    while let Some(run) = runs.pop() {
        while let Some(k) = next.checked_sub(1).filter(|&k| repeats[k].until > run.rank) {
            next = k;
            while open.last().is_some_and(|&o| of(o).from >= repeats[k].until) {
                open.pop();
            }
            open.push(k as u32);
        }
        while open.last().is_some_and(|&o| of(o).from > run.rank) {
            open.pop();
        }
        let longest = open.partition_point(|&k| of(k).length <= run.length);
        let mut is_new = false;
        for &k in open[..longest].iter().rev() {
            if of(k).length < 2 * run.period || is_loop[k as usize] {
                break;
            }
            is_loop[k as usize] = true;
            is_new = true;
        }
        if is_new {
            let root = open.partition_point(|&k| of(k).length < run.period);
            let at = of(open[root]);
            roots.push(Candidate { length: run.period, ..*at });
        }
    }
    roots
}

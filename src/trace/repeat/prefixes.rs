//! Lookup of the strings (candidates or patterns) with which each position of the text begins, stored as a
//! forest.
//!
//! A string's places are an interval of the suffix array, and such intervals nest. So the strings with which
//! a suffix begins form a chain from the longest to the shortest, and one chain pointer per string and one
//! start per position suffice.

use crate::repeat::candidates::Candidate;
use crate::repeat::lcp::SuffixArrayWithLcp;
use std::cmp::Reverse;

const NONE: u32 = u32::MAX;

/// A forest of strings; the parent of each is the longest other string with which it begins.
pub(crate) struct Prefixes {
    nodes: Vec<PrefixNode>,
    /// By index in the suffix array, the longest string with which the suffix begins.
    longest: Vec<u32>,
}

#[derive(Debug, Clone, Copy)]
struct PrefixNode {
    length: u32,
    shorter: u32,
    /// A string further up the chain, chosen so that any length can be found in a logarithmic number of
    /// steps.
    jump: u32,
    depth: u32,
}

impl Prefixes {
    pub(crate) fn new(sorted: &SuffixArrayWithLcp, strings: &[Candidate]) -> Self {
        let mut order: Vec<u32> = (0..strings.len() as u32).collect();
        let of = |k: u32| &strings[k as usize];
        order.sort_unstable_by_key(|&k| (of(k).from, Reverse(of(k).until), of(k).length));
        let mut nodes = vec![PrefixNode { length: 0, shorter: NONE, jump: NONE, depth: 0 }; strings.len()];
        let mut longest = vec![NONE; sorted.len()];
        let mut open: Vec<u32> = Vec::new();
        let mut next = order.into_iter().peekable();
        for (rank, slot) in longest.iter_mut().enumerate() {
            while open.last().is_some_and(|&k| of(k).until as usize <= rank) {
                open.pop();
            }
            while let Some(k) = next.next_if(|&k| of(k).from as usize == rank) {
                nodes[k as usize] = below(&nodes, of(k).length, open.last().copied());
                open.push(k);
            }
            *slot = open.last().copied().unwrap_or(NONE);
        }
        Self { nodes, longest }
    }

    /// The longest string with which the suffix at an index of the suffix array begins; an invalid index if
    /// there is none.
    pub(crate) fn longest(&self, rank: u32) -> u32 {
        self.longest[rank as usize]
    }

    /// The parent of each string: the next shorter string with which it begins; an invalid index if there is
    /// none.
    pub(crate) fn shorter(&self) -> impl Iterator<Item = u32> {
        self.nodes.iter().map(|n| n.shorter)
    }

    /// The strings of up to `most` symbols with which the suffix at an index of the suffix array begins,
    /// longest first.
    pub(crate) fn up_to(&self, rank: u32, most: u32) -> impl Iterator<Item = u32> {
        let is_longer = |k: u32| k != NONE && self.nodes[k as usize].length > most;
        let mut k = self.longest[rank as usize];
        while is_longer(k) {
            let node = &self.nodes[k as usize];
            k = if is_longer(node.jump) { node.jump } else { node.shorter };
        }
        self.chain(k)
    }

    fn chain(&self, from: u32) -> impl Iterator<Item = u32> {
        let some = |k: u32| (k != NONE).then_some(k);
        std::iter::successors(some(from), move |&k| some(self.nodes[k as usize].shorter))
    }
}

/// A child node. Its jump pointer goes twice as far if the two jumps before it have equal length (Myers).
fn below(nodes: &[PrefixNode], length: u32, shorter: Option<u32>) -> PrefixNode {
    let Some(up) = shorter else { return PrefixNode { length, shorter: NONE, jump: NONE, depth: 1 } };
    let depth = |k: u32| if k == NONE { 0 } else { nodes[k as usize].depth };
    let parent = &nodes[up as usize];
    let first = parent.depth - depth(parent.jump);
    let second = if parent.jump == NONE { NONE } else { nodes[parent.jump as usize].jump };
    let same = parent.jump != NONE && first == depth(parent.jump) - depth(second);
    PrefixNode { length, shorter: up, jump: if same { second } else { up }, depth: parent.depth + 1 }
}

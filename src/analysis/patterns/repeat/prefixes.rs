//! Which strings each position of the text begins with: the candidates, or patterns, as a forest.
//!
//! A string's places are an interval of the suffix array, and such intervals nest: the strings that a
//! suffix begins with are a chain from the longest to the shortest. One chain pointer per string and one
//! start per position hold them all.

use crate::analysis::patterns::repeat::candidates::Candidate;
use crate::analysis::patterns::repeat::lcp::Sorted;
use std::cmp::Reverse;

/// No string.
const NONE: u32 = u32::MAX;

/// A forest of strings, each below the longest of them that it begins with.
pub struct Prefixes {
    nodes: Vec<Node>,
    /// By place in the suffix array, the longest string that the suffix begins with.
    longest: Vec<u32>,
}

#[derive(Debug, Clone, Copy)]
struct Node {
    length: u32,
    shorter: u32,
    /// A string further up the chain, chosen such that any length on it is a logarithm of steps away.
    jump: u32,
    depth: u32,
}

impl Prefixes {
    pub fn new(sorted: &Sorted, strings: &[Candidate]) -> Self {
        let mut order: Vec<u32> = (0..strings.len() as u32).collect();
        let of = |k: u32| &strings[k as usize];
        order.sort_unstable_by_key(|&k| (of(k).from, Reverse(of(k).until), of(k).length));
        let mut nodes = vec![Node { length: 0, shorter: NONE, jump: NONE, depth: 0 }; strings.len()];
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

    /// The longest string that the suffix at a place of the suffix array begins with; no index where there is none.
    pub fn longest(&self, rank: u32) -> u32 {
        self.longest[rank as usize]
    }

    /// The string next shorter than each that it begins with; no index where there is none.
    pub fn shorter(&self) -> impl Iterator<Item = u32> {
        self.nodes.iter().map(|n| n.shorter)
    }

    /// The strings of up to `most` symbols that the suffix at a place of the suffix array begins with, the
    /// longest first.
    pub fn up_to(&self, rank: u32, most: u32) -> impl Iterator<Item = u32> {
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

/// A node below another: its jump goes twice as far where the two before it are of one length (Myers).
fn below(nodes: &[Node], length: u32, shorter: Option<u32>) -> Node {
    let Some(up) = shorter else { return Node { length, shorter: NONE, jump: NONE, depth: 1 } };
    let depth = |k: u32| if k == NONE { 0 } else { nodes[k as usize].depth };
    let parent = &nodes[up as usize];
    let first = parent.depth - depth(parent.jump);
    let second = if parent.jump == NONE { NONE } else { nodes[parent.jump as usize].jump };
    let same = parent.jump != NONE && first == depth(parent.jump) - depth(second);
    Node { length, shorter: up, jump: if same { second } else { up }, depth: parent.depth + 1 }
}

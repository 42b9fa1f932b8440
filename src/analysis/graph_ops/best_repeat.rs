//! The part of a graph that repeats: in a model of equal layers, one or a few layers.
//!
//! ```text
//!   nodes    a  b  x y z  x y z  x y z  x y  c        length 3, from 2, three times: 9 of 13 nodes
//! ```

/// Share of the nodes that a repeat must cover, percent.
const COVERED_PCT: usize = 90;

/// Comparisons after which no further length is tried. It bounds the time on sequences with many near
/// repeats.
const MOST_COMPARISONS: usize = 50_000_000;

/// A block of nodes that follows itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Repeat {
    /// Nodes of one block.
    pub(crate) length: usize,
    /// Index of the first node of the first block.
    pub(crate) from: usize,
    /// Number of blocks.
    pub(crate) count: usize,
}

impl Repeat {
    /// Nodes that are in a block.
    pub(crate) fn covered(self) -> usize {
        self.length * self.count
    }

    /// The block in which a node is.
    pub(crate) fn block(self, node: usize) -> Option<usize> {
        let block = node.checked_sub(self.from)?.checked_div(self.length)?;
        (block < self.count).then_some(block)
    }
}

/// The repeat that covers most nodes (of those the shortest block), if that is nearly the whole sequence.
pub(crate) fn best_repeat<T: PartialEq>(nodes: &[T]) -> Option<Repeat> {
    let n = nodes.len();
    // Nodes that every such repeat covers, wherever it begins.
    let left_out = n - (n * COVERED_PCT).div_ceil(100);
    let (mut best, mut compared): (Option<Repeat>, usize) = (None, 0);
    for length in 1..=n / 2 {
        let repeats = |i: usize| nodes.get(i).zip(nodes.get(i + length)).is_some_and(|(a, b)| a == b);
        let middle = left_out..n.saturating_sub(left_out + length);
        let Some(start) = (!middle.is_empty()).then_some(middle.start) else {
            // So long a block is in no common part; look everywhere.
            let found = longest_run(n, length, repeats);
            compared += n;
            best = better(best, found, length);
            continue;
        };
        let end = middle.end;
        let agreeing = middle.take_while(|i| repeats(*i)).count();
        compared += agreeing + 1;
        if start + agreeing == end {
            let first = (0..start).rev().take_while(|i| repeats(*i)).count();
            let last = (end..n).take_while(|i| repeats(*i)).count();
            best = better(best, Some((start - first, first + agreeing + last)), length);
        }
        if best.is_some_and(|b| b.covered() == n) || compared > MOST_COMPARISONS {
            break;
        }
    }
    best.filter(|b| b.covered() * 100 >= n * COVERED_PCT)
}

/// Start and length of the longest run of nodes that are equal to those one block later.
fn longest_run(n: usize, length: usize, repeats: impl Fn(usize) -> bool) -> Option<(usize, usize)> {
    let mut best: Option<(usize, usize)> = None;
    let mut from = 0;
    for i in 0..=n.saturating_sub(length) {
        if !repeats(i) {
            if best.is_none_or(|b| i - from > b.1) {
                best = Some((from, i - from));
            }
            from = i + 1;
        }
    }
    best
}

fn better(best: Option<Repeat>, run: Option<(usize, usize)>, length: usize) -> Option<Repeat> {
    let found = run.map(|(from, agreeing)| Repeat { length, from, count: agreeing / length + 1 });
    let found = found.filter(|f| f.count > 1);
    match (best, found) {
        (Some(best), Some(found)) if found.covered() > best.covered() => Some(found),
        (None, found) => found,
        (best, _) => best,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(text: &str) -> Option<(usize, usize, usize)> {
        best_repeat(text.as_bytes()).map(|r| (r.length, r.from, r.count))
    }

    #[test]
    fn the_shortest_block_of_the_largest_part_is_found() {
        assert_eq!(of("xyzxyzxyzxyz"), Some((3, 0, 4)));
        assert_eq!(of("axyzxyzxyzxyzxyzxyz"), Some((3, 1, 6)));
        assert_eq!(of("aaaaaaaaaa"), Some((1, 0, 10)));
        // 12 of 15 are not enough, and neither is nothing.
        assert_eq!((of("abcxyzxyzxyzxyz"), of("abcdef"), of(""), of("a")), (None, None, None, None));
        assert_eq!(of("aa"), Some((1, 0, 2)));
    }

    #[test]
    fn a_node_is_in_the_block_that_holds_it() {
        let r = Repeat { length: 3, from: 1, count: 2 };
        let blocks: Vec<_> = (0..8).map(|i| r.block(i)).collect();
        assert_eq!(blocks, [None, Some(0), Some(0), Some(0), Some(1), Some(1), Some(1), None]);
    }

    proptest! {
        #[test]
        fn no_other_repeat_covers_more(nodes in prop::collection::vec(0u8..3, 0..24)) {
            let n = nodes.len();
            let mut most = 0;
            for length in 1..=n / 2 {
                for from in 0..n {
                    let mut count = 1;
                    while from + (count + 1) * length <= n
                        && (0..length).all(|i| nodes[from + i] == nodes[from + count * length + i])
                    {
                        count += 1;
                    }
                    if count > 1 {
                        most = most.max(count * length);
                    }
                }
            }
            let wanted = (most * 100 >= n * 90 && most > 0).then_some(most);
            prop_assert_eq!(best_repeat(&nodes).map(Repeat::covered), wanted);
        }
    }
}

//! The largest nodes of a tree of stacks, so that a flame graph of any job fits into a page.

use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A node of a flame graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FlameNode {
    /// Index of the node above, which precedes it.
    pub parent: Option<u32>,
    /// Its own values, without the nodes below: host time, GPU time, and GPU time of its backward pass.
    pub values: [i64; 3],
    /// Number of nodes that it stands for, if it is one that sums small ones; 0 for a node with a name.
    pub merged: u64,
}

/// Precision of shares: parts of the whole.
const WHOLE: i128 = 1 << 40;

/// The nodes with the largest share of any of the three sums, at most `most` of them, each with its index in
/// `nodes`. What is left out is summed below its parent in one node without an index, so every sum stays
/// what it was. Empty subtrees are dropped. Parents come first.
pub fn keep_largest(nodes: &[FlameNode], most: usize) -> Vec<(Option<u32>, FlameNode)> {
    let parent = |i: usize| nodes.get(i).and_then(|n| n.parent).map(|p| p as usize).filter(|p| *p < i);
    let mut below: Vec<([i64; 3], u64)> = nodes.iter().map(|n| (n.values, named_or_merged(n))).collect();
    let mut all = [0_i64; 3];
    for i in (0..nodes.len()).rev() {
        let (values, count) = below[i];
        let (into, counted) = match parent(i).and_then(|p| below.get_mut(p)) {
            Some((into, counted)) => (into, Some(counted)),
            None => (&mut all, None),
        };
        for (sum, value) in into.iter_mut().zip(values) {
            *sum = sum.saturating_add(value);
        }
        if let Some(counted) = counted {
            *counted += count;
        }
    }
    // The share of a node is not below that of any node under it, so the parents of what is kept are kept.
    let share = |i: usize| {
        let shares = below[i].0.iter().zip(all).filter(|(_, all)| *all > 0);
        shares.map(|(value, all)| i128::from(*value) * WHOLE / i128::from(all)).max().unwrap_or(0)
    };
    let is_empty = |i: usize| below[i].0 == [0; 3];
    let mut order: Vec<(Reverse<i128>, usize)> = (0..nodes.len())
        .filter(|&i| nodes[i].merged == 0 && !is_empty(i))
        .map(|i| (Reverse(share(i)), i))
        .collect();
    order.sort_unstable();
    let mut is_kept = vec![false; nodes.len()];
    for (_, i) in order.into_iter().take(most) {
        is_kept[i] = true;
    }
    let mut kept = Vec::new();
    let mut place: Vec<Option<u32>> = vec![None; nodes.len()];
    let mut small: BTreeMap<Option<u32>, FlameNode> = BTreeMap::new();
    for (i, node) in nodes.iter().enumerate() {
        let above = parent(i);
        if is_kept[i] {
            let node = FlameNode { parent: above.and_then(|p| place[p]), values: node.values, merged: 0 };
            place[i] = Some(kept.len() as u32);
            kept.push((Some(i as u32), node));
        } else if above.is_none_or(|p| is_kept[p]) && !is_empty(i) {
            let parent = above.and_then(|p| place[p]);
            let sum = small.entry(parent).or_insert(FlameNode { parent, ..FlameNode::default() });
            for (sum, value) in sum.values.iter_mut().zip(below[i].0) {
                *sum = sum.saturating_add(value);
            }
            sum.merged += below[i].1;
        }
    }
    kept.extend(small.into_values().map(|node| (None, node)));
    kept
}

/// How many nodes with a value it stands for.
fn named_or_merged(node: &FlameNode) -> u64 {
    if node.values == [0; 3] { 0 } else { node.merged.max(1) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn node(parent: Option<u32>, host: i64, gpu: i64) -> FlameNode {
        FlameNode { parent, values: [host, gpu, 0], merged: 0 }
    }

    #[test]
    fn small_nodes_are_summed_below_their_parent() {
        // 0 train [0]    1 a [50]   2 b [3]    3 c below b [2]    4 d [0], 1 of 1 GPU    5 e [0]
        let tree = [
            node(None, 0, 0),
            node(Some(0), 50, 0),
            node(Some(0), 3, 0),
            node(Some(2), 2, 0),
            node(Some(0), 0, 1),
            node(Some(0), 0, 0),
        ];
        let small = FlameNode { parent: Some(0), values: [5, 0, 0], merged: 2 };
        let named = |i: u32, host, gpu| (Some(i), node(Some(0), host, gpu));
        let root = (Some(0), tree[0]);
        assert_eq!(keep_largest(&tree, 3), [root, named(1, 50, 0), named(4, 0, 1), (None, small)]);
        // A sum of small ones adds to the next.
        let again = [tree[0], tree[1], small, node(Some(0), 1, 0)];
        let both = FlameNode { parent: Some(0), values: [6, 0, 0], merged: 3 };
        assert_eq!(keep_largest(&again, 2), [root, named(1, 50, 0), (None, both)]);
        assert_eq!(keep_largest(&[], 2), []);
    }

    proptest! {
        #[test]
        fn sums_of_every_subtree_stay_what_they_were(
            tree in prop::collection::vec((any::<prop::sample::Index>(), prop::array::uniform3(0..20_i64)), 1..60),
            most in 0..40_usize,
        ) {
            let parent = |i: usize, of: &prop::sample::Index| Some(of.index(i + 1) as u32).filter(|p| *p < i as u32);
            let nodes: Vec<FlameNode> = tree
                .iter()
                .enumerate()
                .map(|(i, (of, values))| FlameNode { parent: parent(i, of), values: *values, merged: 0 })
                .collect();
            let kept = keep_largest(&nodes, most);
            // The slow way: every node is added to all that are above it.
            let sums = |nodes: &[FlameNode]| {
                let mut sums = vec![[0; 3]; nodes.len() + 1];
                for (i, n) in nodes.iter().enumerate() {
                    let mut at = Some(i);
                    while let Some(place) = at {
                        (0..3).for_each(|v| sums[place][v] += n.values[v]);
                        at = nodes[place].parent.map(|p| p as usize);
                    }
                    (0..3).for_each(|v| sums[nodes.len()][v] += n.values[v]);
                }
                sums
            };
            let of_kept: Vec<FlameNode> = kept.iter().map(|(_, n)| *n).collect();
            let (before, after) = (sums(&nodes), sums(&of_kept));
            prop_assert_eq!(before.last(), after.last());
            for ((of, n), sum) in kept.iter().zip(&after) {
                prop_assert!(n.parent.is_none_or(|p| kept[p as usize].0.is_some()));
                if let Some(of) = of {
                    prop_assert_eq!(&before[*of as usize], sum);
                }
            }
            prop_assert!(kept.iter().filter(|(of, _)| of.is_some()).count() <= most);
            let with_value = nodes.iter().filter(|n| n.values != [0; 3]).count() as u64;
            let shown: u64 = of_kept.iter().map(|n| if n.values == [0; 3] { 0 } else { n.merged.max(1) }).sum();
            prop_assert_eq!(shown, with_value);
        }
    }
}

//! A forest of events in preorder, with sums and unions over everything below each node.
//!
//! In preorder a node's subtree is one range of positions, so "the union of all GPU work launched below" is
//! a union over a range, for every node:
//!
//! ```text
//!   position   0    1    2    3         node 0 = [0, 4)   node 1 = [1, 3)
//!   tree       A {  B {  c1 } c2 }
//!   c1's work  [=====)                  B busy 6
//!   c2's work     [=======)             A busy 10
//! ```
//!
//! Computing each union separately would be quadratic for deep stacks. Instead positions are processed in
//! order, and for every instant the last position whose work covers it is stored. When the range of a node
//! ends, its union is the time whose last cover is not before the node: a prefix sum. That takes `O(log n)`
//! per activity and node at any depth. Activities that do not overlap any other (most of them) are simply
//! summed.

use crate::calls::last_cover::LastCover;
use hta_base::units::{Ns, Span};
use hta_trace::activity::Activity;
use std::ops::AddAssign;

/// No position, and no other index.
pub(crate) const NOWHERE: u32 = u32::MAX;

/// Events in preorder: a parent precedes everything below it, and a subtree is contiguous.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Forest {
    /// Row of each position.
    pub rows: Vec<u32>,
    /// Position of the parent, `NOWHERE` for roots.
    parents: Vec<u32>,
    /// End of the subtree of each position (exclusive).
    pub end: Vec<u32>,
    /// Position of each row, `NOWHERE` for those outside the forest.
    at: Vec<u32>,
}

impl Forest {
    /// The forest of `rows` (all below `all`). A row whose parent is outside the forest becomes a root, and
    /// so does the first row of a cycle of parents.
    pub fn new(all: usize, rows: &[u32], parent: impl Fn(u32) -> Option<u32>) -> Self {
        let mut index = vec![NOWHERE; all];
        for (i, &row) in rows.iter().enumerate() {
            index[row as usize] = i as u32;
        }
        // Children as linked lists, last first.
        let mut child = vec![NOWHERE; rows.len()];
        let mut sibling = vec![NOWHERE; rows.len()];
        let mut roots = Vec::new();
        for (i, &row) in rows.iter().enumerate() {
            let up = parent(row).and_then(|p| index.get(p as usize).copied()).filter(|&p| p != NOWHERE);
            match up {
                Some(p) => sibling[i] = std::mem::replace(&mut child[p as usize], i as u32),
                None => roots.push(i as u32),
            }
        }
        let mut me = Self {
            rows: Vec::with_capacity(rows.len()),
            parents: Vec::with_capacity(rows.len()),
            end: Vec::new(),
            at: vec![NOWHERE; all],
        };
        let mut open: Vec<(u32, u32)> = Vec::new();
        // After the roots, try every row, to include those in cycles.
        for start in roots.into_iter().chain(0..rows.len() as u32) {
            if me.at[rows[start as usize] as usize] != NOWHERE {
                continue;
            }
            open.push((start, NOWHERE));
            while let Some((i, up)) = open.pop() {
                let row = rows[i as usize];
                let position = me.rows.len() as u32;
                me.at[row as usize] = position;
                me.rows.push(row);
                me.parents.push(up);
                let mut next = child[i as usize];
                while next != NOWHERE {
                    if me.at[rows[next as usize] as usize] == NOWHERE {
                        open.push((next, position));
                    }
                    next = sibling[next as usize];
                }
            }
        }
        me.end = (1..=me.rows.len() as u32).collect();
        for p in (0..me.rows.len()).rev() {
            if let Some(up) = me.parent(p as u32) {
                me.end[up as usize] = me.end[up as usize].max(me.end[p]);
            }
        }
        me
    }

    pub fn call_count(&self) -> usize {
        self.rows.len()
    }

    pub fn parent(&self, position: u32) -> Option<u32> {
        self.parents.get(position as usize).copied().filter(|&p| p != NOWHERE)
    }

    pub fn position(&self, row: u32) -> Option<u32> {
        self.at.get(row as usize).copied().filter(|&p| p != NOWHERE)
    }

    /// Adds every node's value to all of its ancestors.
    pub fn add_up<T: AddAssign + Copy>(&self, values: &mut [T]) {
        for p in (0..self.call_count()).rev() {
            if let Some(up) = self.parent(p as u32) {
                let value = values[p];
                values[up as usize] += value;
            }
        }
    }
}

/// Per activity: whether it overlaps no other in time, on any stream or device.
pub fn alone(all: &[Activity]) -> Vec<bool> {
    let mut alone = vec![true; all.len()];
    let mut last: Option<(usize, Ns)> = None;
    for (i, a) in all.iter().enumerate().filter(|(_, a)| !a.span.is_empty()) {
        match last {
            Some((before, end)) if a.span.start < end => {
                (alone[before], alone[i]) = (false, false);
                if a.span.end > end {
                    last = Some((i, a.span.end));
                }
            }
            _ => last = Some((i, a.span.end)),
        }
    }
    alone
}

/// GPU work launched at or below one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubtreeWork {
    /// Sum of durations.
    pub sum_ns: Ns,
    /// Length of the union.
    pub busy_ns: Ns,
    /// First start and last end; empty if nothing was launched.
    pub(crate) extent: Span,
    pub count: u32,
    /// Number of activities that overlap another one.
    crowded: u32,
}

impl SubtreeWork {
    const NONE: SubtreeWork = SubtreeWork {
        sum_ns: 0,
        busy_ns: 0,
        extent: Span { start: Ns::MAX, end: Ns::MIN },
        count: 0,
        crowded: 0,
    };
}

impl AddAssign for SubtreeWork {
    fn add_assign(&mut self, other: SubtreeWork) {
        self.sum_ns += other.sum_ns;
        self.busy_ns += other.busy_ns;
        self.extent.start = self.extent.start.min(other.extent.start);
        self.extent.end = self.extent.end.max(other.extent.end);
        self.count += other.count;
        self.crowded += other.crowded;
    }
}

/// GPU work launched at or below each node of a forest. Stored only for nodes that have any, which are few.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkBelow {
    /// Pairs (position, index of an activity), in order.
    pub launched: Vec<(u32, u32)>,
    /// Index into `work` for each position, or `NOWHERE`.
    slots: Vec<u32>,
    /// In order of position.
    work: Vec<SubtreeWork>,
}

impl WorkBelow {
    /// `launched` assigns activities to positions; `alone` says for each activity whether it overlaps no
    /// other.
    pub fn new(forest: &Forest, mut launched: Vec<(u32, u32)>, all: &[Activity], alone: &[bool]) -> Self {
        launched.sort();
        let mut slots = vec![NOWHERE; forest.call_count()];
        for &(p, _) in &launched {
            let mut node = Some(p);
            while let Some(at) = node.filter(|&at| slots[at as usize] == NOWHERE) {
                slots[at as usize] = 0;
                node = forest.parent(at);
            }
        }
        let mut nodes: Vec<u32> = Vec::new();
        for (p, slot) in slots.iter_mut().enumerate().filter(|(_, slot)| **slot != NOWHERE) {
            *slot = nodes.len() as u32;
            nodes.push(p as u32);
        }
        let mut work = vec![SubtreeWork::NONE; nodes.len()];
        for &(p, i) in &launched {
            let (span, is_alone) = (all[i as usize].span, alone[i as usize]);
            work[slots[p as usize] as usize] += SubtreeWork {
                sum_ns: span.len(),
                busy_ns: if is_alone { span.len() } else { 0 },
                extent: span,
                count: 1,
                crowded: u32::from(!is_alone),
            };
        }
        for k in (0..nodes.len()).rev() {
            if let Some(up) = forest.parent(nodes[k]) {
                let of = work[k];
                work[slots[up as usize] as usize] += of;
            }
        }
        let mut me = Self { launched, slots, work };
        if me.work.iter().any(|w| w.crowded > 0) {
            me.unite(forest, &nodes, all, alone);
        }
        me
    }

    /// The work at or below a position.
    pub fn at(&self, position: u32) -> &SubtreeWork {
        let slot = self.slots.get(position as usize).copied().unwrap_or(NOWHERE);
        self.work.get(slot as usize).unwrap_or(&SubtreeWork::NONE)
    }

    /// Adds the unions of overlapping activities to `busy_ns`. `nodes` are the positions with work.
    fn unite(&mut self, forest: &Forest, nodes: &[u32], all: &[Activity], alone: &[bool]) {
        let mut cover = LastCover::new(nodes.len());
        let mut next = 0;
        for (k, &p) in nodes.iter().enumerate() {
            while let Some(&(_, i)) = self.launched.get(next).filter(|l| l.0 == p) {
                if !alone[i as usize] {
                    cover.put(all[i as usize].span, k as u32);
                }
                next += 1;
            }
            // All nodes whose range ends before further work: a chain of ancestors, which have work because
            // this one has.
            let following = nodes.get(k + 1).copied().unwrap_or(NOWHERE);
            let mut node = Some(p);
            while let Some(at) = node.filter(|&at| forest.end[at as usize] <= following) {
                let slot = self.slots[at as usize];
                let of = &mut self.work[slot as usize];
                if of.crowded > 0 {
                    of.busy_ns += cover.since(slot);
                }
                node = forest.parent(at);
            }
        }
    }

    /// Activities launched at the positions of a range.
    pub fn within(&self, from: u32, until: u32) -> &[(u32, u32)] {
        let start = self.launched.partition_point(|l| l.0 < from);
        &self.launched[start..start + self.launched[start..].partition_point(|l| l.0 < until)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hta_trace::category::Class;
    use hta_trace::interval::Union;
    use hta_trace::strings::StrId;
    use proptest::prelude::*;

    fn activities(spans: &[(Ns, Ns)]) -> Vec<Activity> {
        let one = |(i, s): (usize, &(Ns, Ns))| {
            Activity::new(i as u32, Span::new(s.0, s.0 + s.1), StrId::EMPTY, Class::Kernel)
        };
        let mut all: Vec<Activity> = spans.iter().enumerate().map(one).collect();
        all.sort_by_key(|a| a.span.start);
        all
    }

    fn forest(parents: &[Option<u32>]) -> Forest {
        let rows: Vec<u32> = (0..parents.len() as u32).collect();
        Forest::new(parents.len(), &rows, |r| parents[r as usize])
    }

    fn below(f: &Forest, launched: &[(u32, u32)], all: &[Activity]) -> WorkBelow {
        let at = |&(row, i): &(u32, u32)| (f.position(row).unwrap(), i);
        WorkBelow::new(f, launched.iter().map(at).collect(), all, &alone(all))
    }

    #[test]
    fn a_subtree_is_one_range_and_what_overlaps_counts_once() {
        //            A(0) { B(1) { c1(2) } c2(3) }   and a separate root (4)
        let f = forest(&[None, Some(0), Some(1), Some(0), None]);
        assert_eq!((f.rows.as_slice(), f.end.as_slice()), (&[0, 1, 2, 3, 4][..], &[4, 3, 3, 4, 5][..]));
        let all = activities(&[(0, 6), (3, 7), (20, 5)]);
        let b = below(&f, &[(2, 0), (3, 1), (3, 2)], &all);
        let of = |what: fn(&SubtreeWork) -> Ns| -> Vec<Ns> { (0..5).map(|p| what(b.at(p))).collect() };
        assert_eq!(of(|g| g.sum_ns), [18, 6, 6, 12, 0]);
        assert_eq!(of(|g| g.busy_ns), [15, 6, 6, 12, 0]);
        assert_eq!(of(|g| g.count.into()), [3, 1, 1, 2, 0]);
        assert_eq!((b.at(0).extent, b.at(4)), (Span::new(0, 25), &SubtreeWork::NONE));
        assert_eq!(b.within(0, 3), [(2, 0)]);
    }

    #[test]
    fn a_cycle_of_parents_starts_at_its_first_row() {
        let f = forest(&[None, Some(3), Some(1), Some(2), Some(9)]);
        assert_eq!(f.rows, [0, 4, 1, 2, 3]);
        let parents: Vec<Option<u32>> = (0..5).map(|p| f.parent(p)).collect();
        assert_eq!(parents, [None, None, None, Some(2), Some(3)]);
    }

    #[test]
    fn a_hundred_thousand_levels_take_no_quadratic_time() {
        // A chain in which every level launches, and all launched work overlaps.
        let n = 100_000;
        let parents: Vec<Option<u32>> = (0..n).map(|i: u32| i.checked_sub(1)).collect();
        let f = forest(&parents);
        let spans: Vec<(Ns, Ns)> = (0..i64::from(n)).map(|i| (i, 3)).collect();
        let all = activities(&spans);
        let launched: Vec<(u32, u32)> = (0..n).map(|i| (i, i)).collect();
        let b = below(&f, &launched, &all);
        let n = i64::from(n);
        assert_eq!((b.at(0).sum_ns, b.at(0).busy_ns), (3 * n, n + 2));
        assert_eq!((b.at(50_000).busy_ns, b.at(n as u32 - 1).busy_ns), (n - 50_000 + 2, 3));
    }

    proptest! {
        #[test]
        fn sums_and_unions_equal_those_of_the_activities_below(
            parents in prop::collection::vec(any::<prop::sample::Index>(), 1..14),
            work in prop::collection::vec((any::<prop::sample::Index>(), 0i64..40, 0i64..9), 0..20),
        ) {
            // Parents precede their children; sometimes there is none.
            let up = |(i, p): (usize, &prop::sample::Index)| p.index(i + 2).checked_sub(2).map(|p| p as u32);
            let parents: Vec<Option<u32>> = parents.iter().enumerate().map(up).collect();
            let n = parents.len();
            let f = forest(&parents);
            let all = activities(&work.iter().map(|w| (w.1, w.2)).collect::<Vec<_>>());
            let launched: Vec<(u32, u32)> =
                all.iter().enumerate().map(|(i, a)| (work[a.row as usize].0.index(n) as u32, i as u32)).collect();
            let b = below(&f, &launched, &all);
            for node in 0..n as u32 {
                let is_below = |mut at: u32| loop {
                    match (at == node, parents[at as usize]) {
                        (true, _) => break true,
                        (false, Some(p)) => at = p,
                        (false, None) => break false,
                    }
                };
                let spans: Vec<Span> =
                    launched.iter().filter(|l| is_below(l.0)).map(|l| all[l.1 as usize].span).collect();
                let p = f.position(node).unwrap();
                let found = b.at(p);
                prop_assert_eq!(found.sum_ns, spans.iter().map(|s| s.len()).sum::<Ns>());
                prop_assert_eq!(found.busy_ns, Union::new(spans.iter().copied()).len());
                prop_assert_eq!(found.count as usize, spans.len());
                prop_assert_eq!(found.extent.start, spans.iter().map(|s| s.start).min().unwrap_or(Ns::MAX));
                prop_assert_eq!(found.extent.end, spans.iter().map(|s| s.end).max().unwrap_or(Ns::MIN));
                prop_assert_eq!(b.within(p, f.end[p as usize]).len(), spans.len());
            }
        }
    }
}

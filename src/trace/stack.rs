//! Call trees: parent, depth and self time of host events.
//!
//! There are three separate trees: operators with runtime calls, and annotations, both by containment per
//! thread; and Python frames by their recorded parent ids. In real traces annotations and Python frames
//! partly overlap, so a single stack would lose events.

use crate::args::Arg;
use crate::category::Class;
use crate::events::Columns;
use hashbrown::{HashMap, HashSet};
use hta_base::health::{Counter, Health};
use hta_base::units::{Ns, Span};

/// A child that ends after its parent is cut if the overhang is below this, and otherwise becomes a sibling,
/// ns.
const CLIP_BELOW: Ns = 1_000;

/// Most events that are looked at outward from one. Python stops calls that nest half as deep; without a
/// limit events that all nest in each other, in a file made for it, cost the square of their number.
pub const MOST_AROUND: usize = 2_048;

/// The trees of one trace, indexed by row. Compact: three numbers per event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StackForest {
    /// `NONE` for a root, or outside the trees.
    parent: Vec<u32>,
    /// `OUTSIDE`: outside the trees.
    depth: Vec<u32>,
    /// 0 for an event outside the trees.
    self_ns: Vec<Ns>,
    /// Events that overhang their parent by less than 1 us.
    pub clipped: u64,
    /// Number of events that partly overlap another one.
    pub siblings: u64,
    /// Number of Python frames that overlap another frame of the same caller, or end after their caller.
    pub(crate) overlaps: u64,
}

const NONE: u32 = u32::MAX;

/// A depth that is none.
const OUTSIDE: u32 = u32::MAX;

impl StackForest {
    /// Counts what had to be bent into a forest.
    pub(crate) fn tell(&self, health: &mut Health) {
        health.add(Counter::OverlapClipped, self.clipped, None, "");
        health.add(Counter::OverlapSibling, self.siblings, None, "");
        health.add(Counter::FrameOverlap, self.overlaps, None, "");
    }

    #[inline]
    pub fn parent(&self, row: u32) -> Option<u32> {
        self.parent.get(row as usize).copied().filter(|p| *p != NONE)
    }

    /// An event and those around it, innermost first. At most as many as the event is deep, because wrong ids
    /// in a file may form a cycle, and at most [`MOST_AROUND`].
    #[inline]
    pub fn outward(&self, row: u32) -> impl Iterator<Item = u32> {
        let count = self.depth(row).unwrap_or(0) as usize + 1;
        std::iter::successors(Some(row), |r| self.parent(*r)).take(count.min(MOST_AROUND))
    }

    /// Number of events around this one; `None` outside the trees.
    #[inline]
    pub fn depth(&self, row: u32) -> Option<u32> {
        self.depth.get(row as usize).copied().filter(|d| *d != OUTSIDE)
    }

    /// Duration without the time of the children, ns; `None` outside the trees.
    #[inline]
    pub fn self_ns(&self, row: u32) -> Option<Ns> {
        self.depth(row).and_then(|_| self.self_ns.get(row as usize).copied())
    }

    /// Whether no event is in a tree.
    pub fn is_empty(&self) -> bool {
        self.depth.iter().all(|d| *d == OUTSIDE)
    }

    /// Builds the trees. `hosts`: host events by lane; `frames`: Python frames, if they are recorded.
    pub(super) fn new(
        c: &Columns,
        classes: &[Class],
        hosts: &[(u32, Vec<u32>)],
        frames: Option<&Frames>,
    ) -> Self {
        let n = c.len();
        let mut me =
            Self { parent: vec![NONE; n], depth: vec![OUTSIDE; n], self_ns: vec![0; n], ..Self::default() };
        for (_, rows) in hosts {
            let of =
                |keep: fn(Class) -> bool| rows.iter().copied().filter(move |&r| keep(classes[r as usize]));
            me.contain(of(|k| matches!(k, Class::HostOp | Class::Runtime)), c);
            me.contain(of(|k| k == Class::Annotation), c);
        }
        if let Some(frames) = frames {
            me.python(frames, c);
        }
        me
    }

    /// One thread's tree by containment. Asynchronous ranges, such as those of point-to-point operations,
    /// partly overlap each other. Then the time that two children of one parent share is that of the earlier
    /// one, so that own times are never negative and add up to the length of the root.
    fn contain(&mut self, rows: impl Iterator<Item = u32>, c: &Columns) {
        // Row, end, and the moment until which its time is given to others.
        let mut open: Vec<(u32, Ns, Ns)> = Vec::new();
        for row in rows {
            let r = row as usize;
            let Span { start, mut end } = c.span(r);
            while open.last().is_some_and(|o| o.1 <= start && !(o.1 == start && c.ts[o.0 as usize] == start))
            {
                open.pop();
            }
            let mut at = open.len();
            let mut is_sibling = false;
            while let Some(&(_, parent_end, _)) = at.checked_sub(1).and_then(|i| open.get(i)) {
                if end <= parent_end {
                    break;
                }
                if end - parent_end < CLIP_BELOW {
                    self.clipped += 1;
                    end = parent_end;
                    break;
                }
                // It overlaps this one only partly, so its parent is what encloses both.
                is_sibling = true;
                at -= 1;
            }
            self.siblings += u64::from(is_sibling);
            let around = at.checked_sub(1).and_then(|i| open.get_mut(i));
            let parent = around.as_ref().map(|o| o.0);
            self.parent[r] = parent.unwrap_or(NONE);
            let depth = parent.and_then(|p| self.depth(p)).map_or(0, |d| d + 1);
            self.depth[r] = depth;
            let own_start = around.as_ref().map_or(start, |o| start.max(o.2));
            let own = (end - own_start).max(0);
            self.self_ns[r] = own;
            if let Some((p, _, given)) = around {
                self.self_ns[*p as usize] -= own;
                *given = end.max(*given);
            }
            // Events that end no later than this one cannot enclose later events. Dropping them keeps the
            // cost linear even if all events of a thread partly overlap.
            while open.last().is_some_and(|o| o.1 <= end) {
                open.pop();
            }
            open.push((row, end, own_start));
        }
    }

    /// Builds the tree of Python frames. A frame's self time is the time that no child on its thread covers,
    /// because frames of autograd threads have their parent on another thread, and some profilers record
    /// children that overlap each other or outlast their caller.
    fn python(&mut self, frames: &Frames, c: &Columns) {
        for (&row, &parent) in frames.rows.iter().zip(&frames.parents) {
            self.self_ns[row as usize] = c.dur[row as usize];
            self.parent[row as usize] = parent;
        }
        // For each frame, the child with the latest end so far.
        let mut latest = vec![NONE; c.len()];
        let mut overlapped: HashSet<u32> = HashSet::new();
        let calls = || frames.rows.iter().copied().zip(frames.parents.iter().copied());
        let is_timed =
            |row: u32, parent: u32| parent != NONE && c.lane[parent as usize] == c.lane[row as usize];
        for (row, parent) in calls().filter(|(row, parent)| is_timed(*row, *parent)) {
            let (child, caller) = (c.span(row as usize), c.span(parent as usize));
            let before = Some(latest[parent as usize])
                .filter(|r| *r != NONE)
                .map_or(Ns::MIN, |r| c.span(r as usize).end);
            if child.is_empty() || child.start >= before.max(caller.start) && child.end <= caller.end {
                self.self_ns[parent as usize] -= child.len();
            } else {
                self.overlaps += 1;
                overlapped.insert(parent);
            }
            if child.end > before {
                latest[parent as usize] = row;
            }
        }
        if !overlapped.is_empty() {
            let children =
                calls().filter(|(row, parent)| is_timed(*row, *parent) && overlapped.contains(parent));
            let mut children: Vec<(u32, Span)> = children
                .map(|(row, parent)| (parent, c.span(row as usize).intersect(c.span(parent as usize))))
                .collect();
            children.sort_unstable_by_key(|(parent, span)| (*parent, span.start, span.end));
            for of_one in children.chunk_by(|a, b| a.0 == b.0) {
                let Some(&(parent, _)) = of_one.first() else { continue };
                let (mut covered, mut end) = (0, Ns::MIN);
                for (_, span) in of_one.iter().filter(|(_, span)| !span.is_empty()) {
                    covered += (span.end - span.start.max(end)).max(0);
                    end = end.max(span.end);
                }
                self.self_ns[parent as usize] = c.dur[parent as usize] - covered;
            }
        }
        // Depth along the parents, without recursion. Wrong ids may form a cycle, which ends at the frame
        // where it started.
        let mut path = Vec::new();
        for &row in &frames.rows {
            let mut at = Some(row);
            while let Some(r) = at.filter(|r| self.depth(*r).is_none()) {
                self.depth[r as usize] = 0;
                path.push(r);
                at = self.parent(r);
            }
            let mut depth = at.and_then(|r| self.depth(r)).map_or(0, |d| d + 1);
            while let Some(r) = path.pop() {
                self.depth[r as usize] = depth;
                depth += 1;
            }
        }
    }
}

/// Python frames in order of their rows, with the row of the calling frame (`NONE` without one).
pub(super) struct Frames {
    rows: Vec<u32>,
    parents: Vec<u32>,
}

impl Frames {
    /// The caller is the frame with the recorded id; if frames share an id, the last of them.
    pub(super) fn new(c: &Columns, classes: &[Class]) -> Self {
        let rows: Vec<u32> = (0..c.len() as u32).filter(|&r| classes[r as usize] == Class::Python).collect();
        let by_id = ById::new(&rows, c);
        let mut recorded = c.args.cursor(Arg::PythonParent);
        let parent =
            |&row: &u32| recorded.get(row).and_then(|id| by_id.row(id)).filter(|p| *p != row).unwrap_or(NONE);
        let parents = rows.iter().map(parent).collect();
        Self { rows, parents }
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = u32> {
        self.rows.iter().copied()
    }

    /// Frames with those that called them.
    pub(super) fn calls(&self) -> impl Iterator<Item = (u32, u32)> {
        self.rows().zip(self.parents.iter().copied()).filter(|(_, caller)| *caller != NONE)
    }
}

/// Rows of frames by their recorded ids.
enum ById {
    /// Consecutive ids, as the profiler assigns them: indexed from the first id on, with `NONE` for gaps.
    Near(u64, Vec<u32>),
    Far(HashMap<u64, u32>),
}

/// Largest number of slots in [`ById::Near`] per frame: no more memory than a hash map.
const PLACES: u64 = 4;

impl ById {
    fn new(rows: &[u32], c: &Columns) -> Self {
        let ids = || {
            let mut ids = c.args.cursor(Arg::PythonId);
            rows.iter().filter_map(move |&r| Some((ids.get(r)?, r)))
        };
        let (first, last) = ids().fold((u64::MAX, 0), |(a, b), (id, _)| (a.min(id), b.max(id)));
        let between = last.saturating_sub(first);
        if between >= PLACES * rows.len() as u64 {
            return ById::Far(ids().collect());
        }
        let mut places = vec![NONE; between as usize + 1];
        ids().for_each(|(id, row)| places[(id - first) as usize] = row);
        ById::Near(first, places)
    }

    fn row(&self, id: u64) -> Option<u32> {
        match self {
            ById::Near(first, places) => {
                let at = usize::try_from(id.checked_sub(*first)?).ok()?;
                places.get(at).copied().filter(|row| *row != NONE)
            }
            ById::Far(rows) => rows.get(&id).copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::ColumnsBuilder;
    use proptest::prelude::*;

    fn stacks(events: &[(Ns, Ns)]) -> StackForest {
        let mut c = ColumnsBuilder::default();
        for (ts, dur) in events {
            c.ts.push(*ts);
            c.dur.push(*dur);
            c.lane.push(0);
        }
        let c = c.finish();
        let classes = vec![Class::HostOp; events.len()];
        StackForest::new(&c, &classes, &crate::thread::host_rows(&c, &classes), None)
    }

    #[test]
    fn children_lie_inside_their_parents_and_self_times_add_up() {
        // 0 [0,100)  1 [10,40)  2 [15,20)  3 [50,60)
        let s = stacks(&[(0, 100), (10, 30), (15, 5), (50, 10)]);
        assert_eq!(s.parent, [NONE, 0, 1, 0]);
        assert_eq!(s.depth, [0, 1, 2, 1]);
        assert_eq!(s.self_ns, [60, 25, 5, 10]);
    }

    #[test]
    fn a_short_overhang_is_cut_and_a_long_one_makes_a_sibling() {
        let s = stacks(&[(0, 10_000), (9_000, 1_500)]);
        assert_eq!((s.parent(1), s.self_ns(0), s.clipped, s.siblings), (Some(0), Some(9_000), 1, 0));
        let s = stacks(&[(0, 10_000), (5_000, 10_000)]);
        assert_eq!((s.parent(1), s.self_ns(0), s.clipped, s.siblings), (None, Some(10_000), 0, 1));
    }

    #[test]
    fn recursion_depth_is_unlimited() {
        let events: Vec<(Ns, Ns)> = (0..200_000).map(|i| (i, 1_000_000 - 2 * i)).collect();
        assert_eq!(stacks(&events).depth(199_999), Some(199_999));
    }

    /// Consecutive Python frames, each with its id and its caller's.
    fn frames(recorded: &[(Option<u64>, Option<u64>)]) -> StackForest {
        let mut c = ColumnsBuilder::default();
        for (row, (id, caller)) in recorded.iter().enumerate() {
            c.ts.push(row as Ns);
            c.dur.push(100);
            c.lane.push(0);
            for (arg, value) in [(Arg::PythonId, id), (Arg::PythonParent, caller)] {
                value.iter().for_each(|v| c.args.column_mut(arg).push(row as u32, *v));
            }
        }
        let c = c.finish();
        let classes = vec![Class::Python; recorded.len()];
        StackForest::new(
            &c,
            &classes,
            &crate::thread::host_rows(&c, &classes),
            Some(&Frames::new(&c, &classes)),
        )
    }

    /// Frames on one thread, all called by the first.
    fn called_by_the_first(spans: &[(Ns, Ns)]) -> StackForest {
        let mut c = ColumnsBuilder::default();
        for (row, (start, end)) in spans.iter().enumerate() {
            c.ts.push(*start);
            c.dur.push(end - start);
            c.lane.push(0);
            c.args.column_mut(Arg::PythonId).push(row as u32, row as u64);
            if row > 0 {
                c.args.column_mut(Arg::PythonParent).push(row as u32, 0);
            }
        }
        let c = c.finish();
        let classes = vec![Class::Python; spans.len()];
        StackForest::new(
            &c,
            &classes,
            &crate::thread::host_rows(&c, &classes),
            Some(&Frames::new(&c, &classes)),
        )
    }

    /// ```text
    ///    0         10        20        30        40
    ///    |------------------ 0 ------------------|
    ///       |---- 1 ----|
    ///           |---- 2 ----|         |------ 3 ------|
    ///       3   7       15  19        29         40   45      covered: [3,19) and [29,40)
    /// ```
    #[test]
    fn a_frame_s_own_time_is_what_no_called_frame_covers() {
        let s = called_by_the_first(&[(0, 40), (3, 15), (7, 19), (29, 45)]);
        assert_eq!((s.self_ns(0), s.overlaps), (Some(40 - 16 - 11), 2));
        let s = called_by_the_first(&[(0, 40), (29, 45), (7, 19), (3, 15)]);
        assert_eq!(s.self_ns(0), Some(40 - 16 - 11));
        let s = called_by_the_first(&[(0, 40), (0, 30), (10, 40), (50, 60)]);
        assert_eq!((s.self_ns(0), s.self_ns(2)), (Some(0), Some(30)));
        let s = called_by_the_first(&[(0, 40), (3, 15), (15, 19), (29, 40)]);
        assert_eq!((s.self_ns(0), s.overlaps), (Some(40 - 12 - 4 - 11), 0));
    }

    proptest! {
        /// Compared with counting the instants that no child covers.
        #[test]
        fn a_frame_s_own_time_is_never_negative(spans in prop::collection::vec((0i64..40, 0i64..20), 1..12)) {
            let spans: Vec<(Ns, Ns)> = spans.into_iter().map(|(start, len)| (start, start + len)).collect();
            let inside = |t: Ns, (start, end): (Ns, Ns)| start <= t && t < end;
            let free = (0..80).filter(|t| inside(*t, spans[0]) && !spans[1..].iter().any(|s| inside(*t, *s))).count();
            prop_assert_eq!(called_by_the_first(&spans).self_ns(0), Some(free as Ns));
        }
    }

    proptest! {
        /// Times are whole microseconds, so nothing is cut.
        #[test]
        fn own_times_of_a_tree_add_up_to_its_root(spans in prop::collection::vec((0i64..30, 1i64..20), 1..12)) {
            let mut spans = spans;
            spans.sort_unstable_by_key(|(start, len)| (*start, -len));
            let s = stacks(&spans.iter().map(|(start, len)| (start * 1000, len * 1000)).collect::<Vec<_>>());
            let mut sums = vec![0; spans.len()];
            for row in 0..spans.len() as u32 {
                let own = s.self_ns(row).unwrap();
                prop_assert!((0..=spans[row as usize].1 * 1000).contains(&own), "{own} of row {row}");
                sums[s.outward(row).last().unwrap() as usize] += own;
            }
            for root in (0..spans.len()).filter(|r| s.parent(*r as u32).is_none()) {
                prop_assert_eq!(sums[root], spans[root].1 * 1000);
            }
        }
    }

    proptest! {
        /// Ids may be missing, shared, unknown, the frame's own, or form cycles.
        #[test]
        fn a_frame_s_caller_has_the_recorded_id_however_far_ids_lie_apart(
            recorded in prop::collection::vec((prop::option::of(0u64..30), prop::option::of(0u64..40)), 0..40),
            first in prop::sample::select(vec![0, 7, u64::MAX - (40 << 40)]),
        ) {
            let spread = |factor: u64| -> Vec<(Option<u64>, Option<u64>)> {
                let to = |id: Option<u64>| id.map(|id| first + id * factor);
                recorded.iter().map(|(id, caller)| (to(*id), to(*caller))).collect()
            };
            let near = frames(&spread(1));
            for (row, (_, caller)) in recorded.iter().enumerate() {
                let last = recorded.iter().rposition(|(id, _)| id.is_some() && id == caller);
                let expected = last.filter(|p| *p != row).map(|p| p as u32);
                prop_assert_eq!(near.parent(row as u32), expected);
            }
            prop_assert_eq!(&frames(&spread(1 << 40)), &near);
        }
    }
}

//! Finds what a host thread was doing: the innermost open event at an instant, and pieces of time with one
//! innermost event.
//!
//! ```text
//!   operator    [A..............)      [B.....)
//!   runtime         [r.....)
//!   innermost   AAAArrrrrrrrAAAA.......BBBBBBBB     the one that started last; ties: the shorter
//! ```
//!
//! Events of one thread may partly overlap (annotations and Python frames do); "started last" is still
//! unambiguous at every instant.

use crate::category::Class;
use crate::events::Columns;
use crate::sparse::Sparse;
use hta_base::units::{Ns, Span};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Number of rows from which the two halves are sorted on two threads.
const HALVES_FROM: usize = 1 << 14;

/// Sorts rows of one thread so that an outer event precedes those inside it.
pub fn sort_outer_first(rows: &mut [u32], c: &Columns) {
    let key = |r: u32| (c.ts[r as usize], Reverse(c.dur[r as usize]), r);
    if rows.is_sorted_by_key(|&r| key(r)) {
        return;
    }
    // Files contain long sorted runs, which the stable sort merges.
    let mut keyed: Vec<_> = rows.iter().map(|&r| key(r)).collect();
    let (first, second) = keyed.split_at_mut(if rows.len() < HALVES_FROM { 0 } else { rows.len() / 2 });
    rayon::join(|| first.sort(), || second.sort());
    keyed.sort();
    rows.iter_mut().zip(keyed).for_each(|(slot, (_, _, r))| *slot = r);
}

/// Of events that may contain each other, those that lie in no other one of their thread, in order of time.
pub(crate) fn outermost(c: &Columns, mut rows: Vec<u32>) -> Vec<u32> {
    sort_outer_first(&mut rows, c);
    let mut covered_until: BTreeMap<u32, Ns> = BTreeMap::new();
    rows.retain(|&row| {
        let end = c.span(row as usize).end;
        let until = covered_until.entry(c.lane[row as usize]).or_insert(Ns::MIN);
        let is_outer = end > *until;
        *until = end.max(*until);
        is_outer
    });
    rows
}

/// Rows of host events by lane, those of one lane outer first; lanes without any are left out.
pub(crate) fn host_rows(c: &Columns, classes: &[Class]) -> Vec<(u32, Vec<u32>)> {
    let lanes = c.lane.iter().max().map_or(0, |l| *l as usize + 1);
    let mut by_lane: Vec<Vec<u32>> = vec![Vec::new(); lanes];
    for (row, class) in classes.iter().enumerate() {
        if class.is_host() {
            by_lane[c.lane[row] as usize].push(row as u32);
        }
    }
    let mut found: Vec<(u32, Vec<u32>)> =
        by_lane.into_iter().enumerate().filter(|(_, r)| !r.is_empty()).map(|(l, r)| (l as u32, r)).collect();
    found.iter_mut().for_each(|(_, rows)| sort_outer_first(rows, c));
    found
}

/// For each query `(t, tag)` in ascending order of `t`, calls `found` with the innermost of `rows` whose
/// closed span `[start, end]` contains `t`. `rows` must be sorted outer first.
pub fn innermost_at(
    rows: &[u32],
    c: &Columns,
    queries: &[(Ns, u32)],
    mut found: impl FnMut(u32, Option<u32>),
) {
    let end = |r: u32| c.span(r as usize).end;
    let mut open: Vec<u32> = Vec::new();
    let mut next = 0;
    for &(t, tag) in queries {
        while next < rows.len() && c.ts[rows[next] as usize] <= t {
            let row = rows[next];
            // An event that has ended is never innermost again.
            while open.last().is_some_and(|&o| end(o) < c.ts[row as usize]) {
                open.pop();
            }
            open.push(row);
            next += 1;
        }
        while open.last().is_some_and(|&o| end(o) < t) {
            open.pop();
        }
        found(tag, open.last().copied());
    }
}

/// A stretch of a thread's time with one innermost event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InnermostSpan {
    pub span: Span,
    /// The innermost event.
    pub row: u32,
    /// The innermost open event that the caller marked (such as a data loader), if any encloses the piece.
    pub marked: Option<u32>,
}

/// A thread's time as pieces in order, with nothing open between them. Stored compactly as change points,
/// because every host event makes one or two pieces and they are kept as long as the trace.
#[derive(Debug, Clone, Default)]
pub struct InnermostTimeline {
    /// Times at which the innermost event changes.
    starts: Vec<Ns>,
    /// The innermost event from each of these times on; `NOTHING` if none is open, as after the last.
    rows: Vec<u32>,
    /// The marked event from each of these times on; there are few.
    marked: Sparse,
}

const NOTHING: u32 = u32::MAX;

impl InnermostTimeline {
    /// A thread's pieces. `is_marked` selects events that are reported for everything inside them. `rows`
    /// must be sorted outer first.
    pub fn new(rows: &[u32], c: &Columns, is_marked: impl Fn(u32) -> bool) -> Self {
        let mut walk =
            Walk { out: Self::default(), open: Vec::new(), marked: Vec::new(), at: Ns::MIN, until: Ns::MIN };
        for &row in rows {
            let Span { start, end } = c.span(row as usize);
            if end > start {
                walk.advance(start);
                walk.open.push(OpenEvent { end, row });
                if is_marked(row) {
                    walk.marked.push(OpenEvent { end, row });
                }
            }
        }
        walk.advance(Ns::MAX);
        walk.finish()
    }

    fn cut(&mut self, start: Ns, row: u32, marked: Option<u32>) {
        if let Some(marked) = marked {
            self.marked.push(self.starts.len() as u32, u64::from(marked));
        }
        self.starts.push(start);
        self.rows.push(row);
    }

    #[inline]
    fn mark(&self, i: usize) -> Option<u32> {
        self.marked.get(i as u32).map(|row| row as u32)
    }

    /// The piece that begins at a change point, unless nothing is open there.
    #[inline]
    fn at(&self, i: usize) -> Option<InnermostSpan> {
        let (start, end) = (*self.starts.get(i)?, *self.starts.get(i + 1)?);
        let row = Some(self.rows[i]).filter(|row| *row != NOTHING)?;
        Some(InnermostSpan { span: Span::new(start, end), row, marked: self.mark(i) })
    }

    #[inline]
    pub fn from(&self, t: Ns) -> impl Iterator<Item = InnermostSpan> {
        let first = self.starts.partition_point(|start| *start <= t).saturating_sub(1);
        (first..self.starts.len()).filter_map(|i| self.at(i))
    }

    /// The pieces that start before `t`, last first.
    #[inline]
    pub fn before(&self, t: Ns) -> impl Iterator<Item = InnermostSpan> {
        let end = self.starts.partition_point(|start| *start < t);
        (0..end).rev().filter_map(|i| self.at(i))
    }
}

struct OpenEvent {
    end: Ns,
    row: u32,
}

struct Walk {
    out: InnermostTimeline,
    /// Open events in order of start; ended ones may remain below those that are still open.
    open: Vec<OpenEvent>,
    /// The marked events among them.
    marked: Vec<OpenEvent>,
    at: Ns,
    /// End of the last piece.
    until: Ns,
}

impl Walk {
    /// Advances to `t`: emits the pieces in between and closes events that end.
    fn advance(&mut self, t: Ns) {
        while let Some(top) = self.open.last() {
            // The next moment at which something changes: the top event ends, or a marked event below it
            // does.
            while self.marked.last().is_some_and(|m| m.end <= self.at) {
                self.marked.pop();
            }
            let marked = self.marked.last();
            let stop = top.end.min(t).min(marked.map_or(Ns::MAX, |m| m.end));
            if stop > self.at {
                let (row, mark) = (top.row, marked.map(|m| m.row));
                self.piece(row, mark);
                (self.at, self.until) = (stop, stop);
            }
            if self.open.last().is_some_and(|top| top.end <= self.at) {
                self.open.pop();
            } else if self.at >= t {
                return;
            }
        }
        self.at = t;
    }

    /// Begins a piece here, unless the previous one continues.
    fn piece(&mut self, row: u32, marked: Option<u32>) {
        let is_behind = self.until == self.at;
        if is_behind && self.out.rows.last() == Some(&row) && self.out.mark(self.out.rows.len() - 1) == marked
        {
            return;
        }
        if !is_behind && !self.out.starts.is_empty() {
            self.out.cut(self.until, NOTHING, None);
        }
        self.out.cut(self.at, row, marked);
    }

    fn finish(mut self) -> InnermostTimeline {
        if !self.out.starts.is_empty() {
            self.out.cut(self.until, NOTHING, None);
        }
        self.out.starts.shrink_to_fit();
        self.out.rows.shrink_to_fit();
        self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::ColumnsBuilder;
    use proptest::prelude::*;

    fn columns(events: &[(Ns, Ns)]) -> (Columns, Vec<u32>) {
        let mut c = ColumnsBuilder::default();
        for (ts, dur) in events {
            c.ts.push(*ts);
            c.dur.push(*dur);
        }
        let c = c.finish();
        let mut rows: Vec<u32> = (0..events.len() as u32).collect();
        sort_outer_first(&mut rows, &c);
        (c, rows)
    }

    #[test]
    fn the_innermost_event_is_the_one_that_started_last() {
        let (c, rows) = columns(&[(0, 16), (4, 8), (23, 8)]);
        let pieces = InnermostTimeline::new(&rows, &c, |r| r == 0);
        let got: Vec<_> = pieces.from(Ns::MIN).map(|p| (p.span.start, p.span.end, p.row, p.marked)).collect();
        assert_eq!(got, [(0, 4, 0, Some(0)), (4, 12, 1, Some(0)), (12, 16, 0, Some(0)), (23, 31, 2, None)]);
        let mut at = Vec::new();
        innermost_at(&rows, &c, &[(0, 0), (12, 1), (13, 2), (20, 3)], |tag, row| at.push((tag, row)));
        assert_eq!(at, [(0, Some(0)), (1, Some(1)), (2, Some(0)), (3, None)]);
    }

    #[test]
    fn many_rows_are_in_order_across_the_halves_that_were_sorted_apart() {
        // Many rows share a start and a length.
        let spread = |i: usize, most: i64| (i.wrapping_mul(0x9e37_79b9) >> 7) as i64 % most;
        for count in [HALVES_FROM - 1, HALVES_FROM, HALVES_FROM + 1] {
            let events: Vec<(Ns, Ns)> =
                (0..count).map(|i| (spread(i, 5_000), spread(i + count, 3))).collect();
            let (c, rows) = columns(&events);
            assert!(rows.is_sorted_by_key(|&r| (c.ts[r as usize], Reverse(c.dur[r as usize]), r)));
            let mut all = rows.clone();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..count as u32));
        }
    }

    proptest! {
        #[test]
        fn pieces_match_a_look_at_every_instant(events in prop::collection::vec((0i64..40, 0i64..15), 0..10), mark in 0u32..10) {
            let (c, rows) = columns(&events);
            let pieces = InnermostTimeline::new(&rows, &c, |r| r == mark);
            let got: Vec<InnermostSpan> = pieces.from(Ns::MIN).collect();
            prop_assert!(got.is_sorted_by(|a, b| a.span.end <= b.span.start && (a.span.end, a.row, a.marked) != (b.span.start, b.row, b.marked)));
            for t in 0..60 {
                prop_assert!(pieces.from(t).eq(got.iter().filter(|p| p.span.end > t).copied()), "from {}", t);
                prop_assert!(pieces.before(t).eq(got.iter().rev().filter(|p| p.span.start < t).copied()), "before {}", t);
                let open = |r: &&u32| c.ts[**r as usize] <= t && t < c.ts[**r as usize] + c.dur[**r as usize];
                let want = rows.iter().rfind(open).copied();
                let piece = got.iter().find(|p| p.span.holds(t));
                prop_assert_eq!(piece.map(|p| p.row), want, "at {}", t);
                if let Some(p) = piece {
                    prop_assert_eq!(p.marked, rows.iter().filter(open).find(|r| **r == mark).copied());
                }
            }
        }
    }
}

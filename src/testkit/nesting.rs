//! Finds which span contains which: operators around launches, Python frames around frames.
//!
//! Spans of one thread are in order of start, and each stores the one that was still open below it, so a
//! look-up visits only as many spans as are nested.

use std::cmp::Reverse;
use std::collections::HashMap;

/// One span of a thread, with the id by which others refer to it.
pub(super) struct Nested {
    pub pid: i64,
    pub tid: i64,
    pub start: i64,
    pub end: i64,
    pub id: u64,
}

/// Spans ordered by thread, then start, then the longer first.
pub(super) struct Nesting {
    spans: Vec<Nested>,
    /// The span of the same thread that was still open when this one started.
    below: Vec<Option<usize>>,
    by_id: HashMap<u64, usize>,
}

impl Nesting {
    pub fn new(mut spans: Vec<Nested>) -> Self {
        spans.sort_by_key(|s| (s.pid, s.tid, s.start, Reverse(s.end), s.id));
        let mut below = Vec::with_capacity(spans.len());
        let mut open: Vec<usize> = Vec::new();
        for (at, span) in spans.iter().enumerate() {
            while let Some(top) = open.last().and_then(|&top| spans.get(top)) {
                if (top.pid, top.tid) == (span.pid, span.tid) && top.end > span.start {
                    break;
                }
                open.pop();
            }
            below.push(open.last().copied());
            open.push(at);
        }
        let by_id = spans.iter().enumerate().map(|(at, span)| (span.id, at)).collect();
        Nesting { spans, below, by_id }
    }

    /// The innermost span that is open at an instant; its end counts as inside.
    pub fn innermost(&self, pid: i64, tid: i64, ts: i64) -> Option<u64> {
        let after = self.spans.partition_point(|s| (s.pid, s.tid, s.start) <= (pid, tid, ts));
        let mut chain =
            self.up_from(after.checked_sub(1)).take_while(|s: &&Nested| (s.pid, s.tid) == (pid, tid));
        chain.find(|s| s.end >= ts).map(|s| s.id)
    }

    /// The innermost span that contains another one completely.
    pub fn parent(&self, id: u64) -> Option<u64> {
        let at = *self.by_id.get(&id)?;
        let child = self.spans.get(at)?;
        self.up_from(self.below.get(at).copied().flatten()).find(|s| s.end >= child.end).map(|s| s.id)
    }

    fn up_from(&self, at: Option<usize>) -> impl Iterator<Item = &Nested> {
        std::iter::successors(at, |&at| self.below.get(at).copied().flatten())
            .filter_map(|at| self.spans.get(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ```text
    /// 1  |....................|
    /// 2     |......|
    /// 3        |.|
    /// 4                 |........|     hangs over its parent's end
    /// ```
    fn four() -> Nesting {
        let spans = [(0, 20, 1), (3, 10, 2), (6, 8, 3), (17, 26, 4)];
        Nesting::new(
            spans.iter().map(|&(start, end, id)| Nested { pid: 1, tid: 1, start, end, id }).collect(),
        )
    }

    #[test]
    fn the_innermost_open_span_is_found() {
        let at = |ts| four().innermost(1, 1, ts);
        assert_eq!(
            [at(-1), at(0), at(7), at(9), at(12), at(18), at(30)],
            [None, Some(1), Some(3), Some(2), Some(1), Some(4), None]
        );
        assert_eq!(four().innermost(1, 2, 7), None);
    }

    #[test]
    fn a_parent_holds_the_whole_child() {
        let nesting = four();
        assert_eq!([1, 2, 3, 4].map(|id| nesting.parent(id)), [None, Some(1), Some(2), None]);
    }
}

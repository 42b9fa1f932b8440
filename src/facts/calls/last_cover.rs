//! For every instant the last position of a forest whose work covers it, with sums by position.

use hta_base::units::{Ns, Span};
use std::collections::BTreeMap;

/// The pieces, and their sums.
pub struct LastCover {
    /// Disjoint pieces: start, with end and position.
    pieces: BTreeMap<Ns, (Ns, u32)>,
    /// Covered time by position, as a Fenwick tree.
    sums: Vec<Ns>,
    total: Ns,
}

impl LastCover {
    pub fn new(positions: usize) -> Self {
        Self { pieces: BTreeMap::new(), sums: vec![0; positions + 1], total: 0 }
    }

    pub fn put(&mut self, span: Span, position: u32) {
        if span.is_empty() {
            return;
        }
        // Cut the piece that reaches into the span at the span's start.
        if let Some((&start, &(end, at))) = self.pieces.range(..span.start).next_back()
            && end > span.start
        {
            self.pieces.insert(start, (span.start, at));
            self.pieces.insert(span.start, (end, at));
        }
        while let Some((&start, &(end, at))) = self.pieces.range(span.start..span.end).next() {
            self.pieces.remove(&start);
            self.add(at, start - end.min(span.end));
            if end > span.end {
                self.pieces.insert(span.end, (end, at));
            }
        }
        self.pieces.insert(span.start, (span.end, position));
        self.add(position, span.len());
    }

    fn add(&mut self, position: u32, ns: Ns) {
        self.total += ns;
        let mut i = position as usize + 1;
        while let Some(sum) = self.sums.get_mut(i) {
            *sum += ns;
            i += i & i.wrapping_neg();
        }
    }

    /// Time whose last cover is `position` or later.
    pub fn since(&self, position: u32) -> Ns {
        let mut before = 0;
        let mut i = position as usize;
        while i > 0 {
            before += self.sums[i];
            i &= i - 1;
        }
        self.total - before
    }
}

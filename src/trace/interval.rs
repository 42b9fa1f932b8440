//! Interval algebra: unions of half-open spans, their lengths and intersections.
//!
//! ```text
//!   spans     [====)   [==)
//!                [====)   [=)      empty spans are dropped, touching ones merged
//!   union     [=======)[====)  ->  [=============)
//! ```

use hta_base::units::{Ns, Span};

/// A union of spans: sorted, disjoint, not touching, none empty. Lengths are computed in `O(log n)`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Union {
    spans: Vec<Span>,
    /// `before[i]` is the length of all spans before span `i`; the last entry is the total length.
    before: Vec<Ns>,
}

impl Union {
    /// The union of spans in any order. Spans that arrive in order of start, as most do, are merged
    /// immediately to save memory.
    pub fn new(spans: impl IntoIterator<Item = Span>) -> Self {
        let mut merged: Vec<Span> = Vec::new();
        let mut is_sorted = true;
        for s in spans.into_iter().filter(|s| !s.is_empty()) {
            is_sorted = is_sorted && merged.last().is_none_or(|last| last.start <= s.start);
            match merged.last_mut() {
                Some(last) if is_sorted && s.start <= last.end => last.end = last.end.max(s.end),
                _ => merged.push(s),
            }
        }
        if !is_sorted {
            merged.sort_unstable_by_key(|s| s.start);
            merged.dedup_by(|s, last| {
                let joins = s.start <= last.end;
                last.end = if joins { last.end.max(s.end) } else { last.end };
                joins
            });
        }
        merged.shrink_to_fit();
        Self::from_disjoint(merged)
    }

    fn from_disjoint(spans: Vec<Span>) -> Self {
        let mut before = Vec::with_capacity(spans.len() + 1);
        let mut sum = 0;
        before.push(0);
        for s in &spans {
            sum += s.len();
            before.push(sum);
        }
        Self { spans, before }
    }

    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    pub fn len(&self) -> Ns {
        self.before.last().copied().unwrap_or(0)
    }

    pub fn len_in(&self, window: Span) -> Ns {
        let first = self.spans.partition_point(|s| s.end <= window.start);
        let later = self.spans[first..].get(1..).unwrap_or(&[]);
        let Some(begun) = self.spans.get(first) else { return 0 };
        // Most windows are short: they touch one span, or none.
        if later.first().is_none_or(|next| next.start >= window.end) {
            return begun.intersect(window).len();
        }
        let last = first + later.partition_point(|s| s.start < window.end);
        let between = self.before[last] - self.before[first + 1];
        begun.intersect(window).len() + between + self.spans[last].intersect(window).len()
    }

    pub fn parts_in(&self, window: Span) -> impl Iterator<Item = Span> {
        let first = self.spans.partition_point(|s| s.end <= window.start);
        self.spans[first..].iter().take_while(move |s| s.start < window.end).map(move |s| s.intersect(window))
    }

    /// Of items whose spans are disjoint and in order, those that overlap the union, with the length of the
    /// overlap.
    pub fn overlaps<'a, T>(&self, items: &'a [T], span: impl Fn(&T) -> Span) -> Vec<(&'a T, Ns)> {
        let mut found: Vec<(usize, Ns)> = Vec::new();
        let mut first = 0;
        for part in &self.spans {
            let rest = items.get(first..).unwrap_or_default();
            first += rest.partition_point(|item| span(item).end <= part.start);
            for (i, item) in items.iter().enumerate().skip(first) {
                if span(item).start >= part.end {
                    break;
                }
                let len = span(item).intersect(*part).len();
                match found.last_mut() {
                    _ if len == 0 => {}
                    Some((last, sum)) if *last == i => *sum += len,
                    _ => found.push((i, len)),
                }
            }
        }
        found.into_iter().filter_map(|(i, len)| Some((items.get(i)?, len))).collect()
    }

    /// The parts of `window` outside the union, in order.
    pub fn gaps_in(&self, window: Span) -> Vec<Span> {
        let mut gaps = Vec::new();
        let mut at = window.start;
        for s in self.parts_in(window) {
            if s.start > at {
                gaps.push(Span::new(at, s.start));
            }
            at = s.end;
        }
        if window.end > at {
            gaps.push(Span::new(at, window.end));
        }
        gaps
    }

    /// `self` without `other`.
    pub fn minus(&self, other: &Union) -> Union {
        Self::from_disjoint(self.spans.iter().flat_map(|s| other.gaps_in(*s)).collect())
    }

    /// The intersection of `self` and `other`.
    pub fn and(&self, other: &Union) -> Union {
        Self::from_disjoint(self.spans.iter().flat_map(|s| other.parts_in(*s)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn spans() -> impl Strategy<Value = Vec<Span>> {
        prop::collection::vec((0i64..60, 0i64..12).prop_map(|(s, d)| Span::new(s, s + d)), 0..12)
    }

    /// Reference implementation: one flag per ns.
    fn cells(spans: &[Span]) -> Vec<bool> {
        (0..80).map(|t| spans.iter().any(|s| s.holds(t))).collect()
    }

    fn count(cells: &[bool], window: Span) -> Ns {
        (window.start..window.end).filter(|t| cells[*t as usize]).count() as Ns
    }

    #[test]
    fn touching_spans_merge_and_empty_ones_vanish() {
        let u = Union::new([Span::new(5, 8), Span::new(0, 5), Span::new(9, 9)]);
        assert_eq!(u.spans(), [Span::new(0, 8)]);
        assert_eq!(u.gaps_in(Span::new(-2, 10)), [Span::new(-2, 0), Span::new(8, 10)]);
    }

    proptest! {
        #[test]
        fn lengths_and_algebra_match_a_count_of_cells(a in spans(), b in spans(), w in (0i64..70, 0i64..10)) {
            let w = Span::new(w.0, w.0 + w.1);
            let (ca, cb) = (cells(&a), cells(&b));
            let (ua, ub) = (Union::new(a.clone()), Union::new(b.clone()));
            prop_assert_eq!(ua.len_in(w), count(&ca, w));
            prop_assert_eq!(ua.len(), count(&ca, Span::new(0, 80)));
            prop_assert_eq!(ua.gaps_in(w).iter().map(|g| g.len()).sum::<Ns>(), w.len() - ua.len_in(w));
            let both: Vec<bool> = ca.iter().zip(&cb).map(|(x, y)| *x && *y).collect();
            let only: Vec<bool> = ca.iter().zip(&cb).map(|(x, y)| *x && !*y).collect();
            prop_assert_eq!(cells(ua.and(&ub).spans()), both);
            prop_assert_eq!(cells(ua.minus(&ub).spans()), only);
            let overlaps: Vec<(&Span, Ns)> = ub.spans().iter().map(|s| (s, ua.len_in(*s))).collect();
            let overlaps: Vec<(&Span, Ns)> = overlaps.into_iter().filter(|(_, len)| *len > 0).collect();
            prop_assert_eq!(ua.overlaps(ub.spans(), |s| *s), overlaps);
            let mut reversed = a;
            reversed.reverse();
            prop_assert_eq!(Union::new(reversed), ua);
        }
    }
}

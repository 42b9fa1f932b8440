//! Classifies each instant of exposed communication by the calls that run at that time.
//!
//! ```text
//!   exposed        |---------------------------|      |------|
//!   matched call      [wait......|transfer]
//!   unmatched call             [......................]
//!   kind           |?|sync....|?.|transfer |?..........|     |?....|      ?: unmatched
//! ```
//!
//! Transfer comes before unmatched and unmatched before waiting, because time in which data is transferred is
//! not lost. Where no call runs, the communication belongs to no known call and counts as unmatched, too.

use hta_base::units::{Ns, Span};
use std::collections::BTreeSet;

/// The kind of an instant of exposed communication.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExposedKind {
    Sync,
    Unmatched,
    Transfer,
}

/// One call, on the rank's own clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallSpan {
    pub(crate) call: u32,
    pub span: Span,
    /// End of its waiting; `None` if it is not matched.
    pub until: Option<Ns>,
}

/// A stretch of exposed communication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExposedPiece {
    pub span: Span,
    pub what: ExposedKind,
    /// The call that determines the kind: of several, the first that reached that state.
    pub call: Option<u32>,
}

/// Divides exposed spans (sorted, disjoint) by the kind of the running calls.
pub fn divide(exposed: &[Span], runs: &[CallSpan]) -> Vec<ExposedPiece> {
    // Edges: (time, whether it is a start, kind, start of the part, call).
    let mut edges: Vec<(Ns, bool, ExposedKind, Ns, u32)> = Vec::with_capacity(runs.len() * 4);
    let mut part = |span: Span, what: ExposedKind, call: u32| {
        if !span.is_empty() {
            edges.push((span.start, true, what, span.start, call));
            edges.push((span.end, false, what, span.start, call));
        }
    };
    for r in runs {
        match r.until {
            None => part(r.span, ExposedKind::Unmatched, r.call),
            Some(until) => {
                part(Span::new(r.span.start, until), ExposedKind::Sync, r.call);
                part(Span::new(until, r.span.end), ExposedKind::Transfer, r.call);
            }
        }
    }
    edges.sort_unstable();
    let mut running: [BTreeSet<(Ns, u32)>; 3] = Default::default();
    let mut out: Vec<ExposedPiece> = Vec::new();
    let mut edges = edges.into_iter().peekable();
    for span in exposed {
        let mut at = span.start;
        while at < span.end {
            while let Some((_, is_start, what, start, call)) = edges.next_if(|e| e.0 <= at) {
                let of_kind = &mut running[what as usize];
                if is_start {
                    of_kind.insert((start, call));
                } else {
                    of_kind.remove(&(start, call));
                }
            }
            let until = edges.peek().map_or(span.end, |e| e.0.min(span.end));
            let first =
                |what: ExposedKind| running[what as usize].first().map(|(_, call)| (what, Some(*call)));
            let (what, call) = first(ExposedKind::Transfer)
                .or_else(|| first(ExposedKind::Unmatched))
                .or_else(|| first(ExposedKind::Sync))
                .unwrap_or((ExposedKind::Unmatched, None));
            out.push(ExposedPiece { span: Span::new(at, until), what, call });
            at = until;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn transfer_comes_before_unmatched_and_unmatched_before_waiting() {
        let runs = [
            CallSpan { call: 0, span: Span::new(3, 23), until: Some(14) },
            CallSpan { call: 1, span: Span::new(12, 35), until: None },
        ];
        let got = divide(&[Span::new(0, 30), Span::new(33, 40)], &runs);
        let shown: Vec<_> = got.iter().map(|p| (p.span.start, p.span.end, p.what, p.call)).collect();
        let want = [
            (0, 3, ExposedKind::Unmatched, None),
            (3, 12, ExposedKind::Sync, Some(0)),
            (12, 14, ExposedKind::Unmatched, Some(1)),
            (14, 23, ExposedKind::Transfer, Some(0)),
            (23, 30, ExposedKind::Unmatched, Some(1)),
            (33, 35, ExposedKind::Unmatched, Some(1)),
            (35, 40, ExposedKind::Unmatched, None),
        ];
        assert_eq!(shown, want);
    }

    proptest! {
        #[test]
        fn pieces_match_a_look_at_every_instant(
            calls in prop::collection::vec((0i64..40, 0i64..20, prop::option::of(0i64..20)), 0..8),
            gaps in prop::collection::vec((1i64..6, 1i64..8), 0..6),
        ) {
            let runs: Vec<CallSpan> = calls.iter().enumerate().map(|(i, (start, len, wait))| CallSpan {
                call: i as u32,
                span: Span::new(*start, start + len),
                until: wait.map(|w| start + w.min(*len)),
            }).collect();
            let mut at = 0;
            let exposed: Vec<Span> = gaps.iter().map(|(gap, len)| {
                let s = Span::new(at + gap, at + gap + len);
                at = s.end;
                s
            }).collect();
            let got = divide(&exposed, &runs);
            for t in 0..70 {
                let piece = got.iter().find(|p| p.span.holds(t));
                prop_assert_eq!(piece.is_some(), exposed.iter().any(|s| s.holds(t)));
                let Some(p) = piece else { continue };
                let state = |r: &CallSpan| match r.until {
                    None => ExposedKind::Unmatched,
                    Some(u) if t < u => ExposedKind::Sync,
                    Some(_) => ExposedKind::Transfer,
                };
                let want = runs.iter().filter(|r| r.span.holds(t)).map(state).max().unwrap_or(ExposedKind::Unmatched);
                prop_assert_eq!(p.what, want, "at {}", t);
                let decides = p.call.map(|c| (runs[c as usize].span.holds(t), state(&runs[c as usize])));
                prop_assert!(decides.is_none_or(|d| d == (true, want)));
                prop_assert_eq!(p.call.is_some(), runs.iter().any(|r| r.span.holds(t)));
            }
        }
    }
}

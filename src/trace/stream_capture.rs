//! Stretches of host threads in which launches are recorded into a graph instead of run (stream capture).
//!
//! ```text
//!   thread   |BeginCapture|  l   c   l  |GetCaptureInfo|  l  |EndCapture|
//!   capture               [.............................. ....)          l, c: recorded into the graph, own no activity
//! ```

use crate::category::Class;
use crate::events::Columns;
use hta_base::units::{Ns, Span};
use std::collections::BTreeMap;

/// The captures of a rank, by thread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamCaptures(BTreeMap<u32, Vec<Span>>);

impl StreamCaptures {
    /// A capture that does not end lasts until the end of time.
    pub(crate) fn new(c: &Columns, classes: &[Class]) -> Self {
        let is_mark =
            |text: &str| match (text.contains("StreamBeginCapture"), text.contains("StreamEndCapture")) {
                (true, _) => Some(true),
                (_, true) => Some(false),
                _ => None,
            };
        let names: BTreeMap<u32, bool> =
            c.strings.iter().filter_map(|(id, t)| Some((id.0, is_mark(t)?))).collect();
        if names.is_empty() {
            return Self::default();
        }
        let mut marks: BTreeMap<u32, Vec<(Ns, bool)>> = BTreeMap::new();
        for row in (0..c.len()).filter(|&r| classes[r] == Class::Runtime) {
            let Some(&begins) = names.get(&c.name(row).0) else { continue };
            let span = c.span(row);
            marks.entry(c.lane[row]).or_default().push((if begins { span.end } else { span.start }, begins));
        }
        let between = |(lane, mut marks): (u32, Vec<(Ns, bool)>)| {
            marks.sort_unstable();
            let mut spans: Vec<Span> = Vec::new();
            let mut open = None;
            for (at, begins) in marks {
                match (open, begins) {
                    (None, true) => open = Some(at),
                    (Some(from), false) => {
                        spans.push(Span::new(from, at));
                        open = None;
                    }
                    _ => {}
                }
            }
            spans.extend(open.map(|from| Span::new(from, Ns::MAX)));
            (lane, spans)
        };
        Self(marks.into_iter().map(between).filter(|(_, spans)| !spans.is_empty()).collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Threads with their captures in order of time.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &[Span])> {
        self.0.iter().map(|(lane, spans)| (*lane, spans.as_slice()))
    }

    /// Whether a call at a row is recorded into a graph.
    pub fn hold(&self, c: &Columns, row: u32) -> bool {
        let Some(lane) = c.lane.get(row as usize) else { return false };
        let Some((spans, at)) = self.0.get(lane).zip(c.ts.get(row as usize)) else { return false };
        let before = spans.partition_point(|s| s.start <= *at);
        before.checked_sub(1).and_then(|i| spans.get(i)).is_some_and(|s| *at < s.end)
    }
}

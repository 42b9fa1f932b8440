//! When optimizers step: the annotations `Optimizer.step#...` of each thread.

use hashbrown::HashMap;
use hta_base::units::Span;
use hta_trace::interval::Union;
use hta_trace::rank_trace::RankTrace;
use std::sync::Arc;

/// By thread: when a step of an optimizer is open.
pub(crate) struct OptimizerSteps(HashMap<u32, Union>);

impl OptimizerSteps {
    pub fn of(trace: &RankTrace) -> Arc<Self> {
        trace.shared(Self::new)
    }

    fn new(trace: &RankTrace) -> Self {
        let c = &trace.columns;
        let is_step = c.strings.each(|text| text.starts_with("Optimizer.step"));
        let mut steps: HashMap<u32, Vec<Span>> = HashMap::new();
        if is_step.holds_any() {
            for row in (0..c.len()).filter(|r| trace.classes[*r].is_host() && is_step.holds(c.name(*r))) {
                steps.entry(c.lane[row]).or_default().push(trace.span(row as u32));
            }
        }
        Self(steps.into_iter().map(|(lane, spans)| (lane, Union::new(spans))).collect())
    }

    /// Whether a host event starts in a step of an optimizer on its thread.
    pub(crate) fn is_in(&self, trace: &RankTrace, row: u32) -> bool {
        let of_thread = self.0.get(&trace.columns.lane[row as usize]);
        let start = trace.span(row).start;
        of_thread.is_some_and(|steps| steps.len_in(Span::new(start, start + 1)) > 0)
    }
}

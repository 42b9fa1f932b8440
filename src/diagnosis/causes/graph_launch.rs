//! `graph_launch`: the device idles inside calls that launch graphs.

use crate::cause_words::CauseWords;
use crate::lost_words::LostWords;
use crate::rule::{CauseFamily, CauseRule, LostRule};
use hta_base::units::Span;
use hta_facts::iterations::DeviceIteration;
use hta_trace::rank_trace::RankTrace;

pub(super) const RULE: CauseRule = CauseRule {
    name: "graph_launch",
    evidence: "I inside calls that launch graphs, in an iteration",
    owns: "that I",
    family: CauseFamily::Lost(LostRule {
        of_iteration: |trace, of, _| calls(trace, of),
        words,
        tint: Some(1),
        ..LostRule::ITERATION
    }),
    ..CauseRule::HOST
};

/// The calls that launch graphs of an iteration, disjoint. Those of several threads may overlap.
fn calls(trace: &RankTrace, of: &DeviceIteration) -> Vec<Span> {
    let mut at = of.window.start;
    let mut rest = |row: &u32| {
        let call = trace.span(*row).intersect(Span::new(at, of.window.end));
        at = at.max(call.end);
        call
    };
    of.graph_calls.iter().map(&mut rest).collect()
}

fn words(w: &LostWords) -> CauseWords {
    CauseWords::new(
        format!("{} inside the graph launch call {}", w.device_of_ranks("waits"), w.top_name()),
        w.idle(),
        "if it is not only the first launch of this graph: upload the graph before, or make fewer and larger \
         graphs",
    )
}

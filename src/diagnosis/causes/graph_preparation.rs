//! `graph_preparation`: the device idles in an iteration before the first call that launches a graph.

use crate::cause_words::CauseWords;
use crate::lost_words::LostWords;
use crate::rule::{CauseFamily, CauseRule, LostRule};
use hta_base::units::Span;
use hta_facts::iterations::DeviceIteration;
use hta_trace::rank_trace::RankTrace;

pub(super) const RULE: CauseRule = CauseRule {
    name: "graph_preparation",
    evidence: "I in an iteration, before the first call that launches a graph",
    owns: "that I",
    family: CauseFamily::Lost(LostRule {
        of_iteration: |trace, of, _| before_graph(trace, of),
        words,
        tint: Some(1),
        ..LostRule::ITERATION
    }),
    ..CauseRule::HOST
};

fn before_graph(trace: &RankTrace, of: &DeviceIteration) -> Vec<Span> {
    let first = of.first_graph_call(trace);
    first.map(|first| Span::new(of.window.start, first.min(of.window.end))).into_iter().collect()
}

fn words(w: &LostWords) -> CauseWords {
    CauseWords::new(
        format!("{} while an iteration is prepared before its graph", w.device_of_ranks("idles")),
        w.idle(),
        "prepare inputs while the GPU computes the iteration before, with fewer small operators and copies",
    )
}

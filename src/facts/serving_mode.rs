//! Whether a rank serves requests instead of training. Times in ns.
//!
//! It does if its steps are iterations that an engine names. Without a name of an engine it does if most of
//! its GPU time is replayed from graphs and no `ProfilerStep` is recorded: then its kernels are not launched
//! one by one, and what helps training is no help. A loop whose iterations nothing names may be anything, so
//! all advice stays.

use crate::iterations::Iterations;
use hta_base::units::Ns;
use hta_trace::graph_replay::graph_of;
use hta_trace::launch::is_graph_launch;
use hta_trace::rank_trace::RankTrace;
use std::sync::Arc;

/// Share of the GPU time in graphs from which a rank without iterations serves, percent.
const GRAPH_PCT: i128 = 50;

pub struct ServingMode {
    pub is_serving: bool,
    /// Summed duration of the activities that graphs launched.
    pub graph: Ns,
}

impl ServingMode {
    /// The shared instance of a rank.
    pub fn of(trace: &RankTrace) -> Arc<Self> {
        trace.shared(Self::new)
    }

    fn new(trace: &RankTrace) -> Self {
        let c = &trace.columns;
        // By name, so that each name is compared once.
        let is_graph_call = c.strings.each(is_graph_launch);
        let (mut graph, mut all) = (0, 0);
        for a in &trace.activities {
            let called = a.launch().is_some_and(|row| is_graph_call.holds(c.name(row as usize)));
            all += i128::from(a.span.len());
            if called || graph_of(c, a.row).is_some() {
                graph += a.span.len();
            }
        }
        let is_by_graph = all > 0 && i128::from(graph) * 100 >= all * GRAPH_PCT;
        // Inside the request of a diffusion engine, iterations are found by what repeats.
        let is_engine = Iterations::of(trace).all.iter().any(|it| it.about.engine.is_some());
        Self { is_serving: is_engine || (is_by_graph && !trace.steps.has_profiler_steps), graph }
    }
}

//! How much of the GPU time in graphs has a name. It is told wherever time is divided by operator, because
//! what has no name is missing there.

use crate::graphs::nodes::GraphNodes;
use hta_base::units::{Ns, fmt_count, fmt_pct, percent};
use hta_trace::rank_trace::RankTrace;

/// Activities in graphs, and the time of those without a name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NamedNodes {
    pub activities: u64,
    pub named: u64,
    /// Summed duration of the activities in graphs, and (next field) of those without an operator.
    pub graph_ns: Ns,
    pub unnamed_ns: Ns,
    /// Summed duration of all activities.
    pub gpu_ns: Ns,
}

impl NamedNodes {
    pub fn of(trace: &RankTrace) -> Self {
        let nodes = GraphNodes::of(trace);
        let mut sums = Self { gpu_ns: trace.gpu_ns(), ..Self::default() };
        for replay in &nodes.replays {
            for &i in &replay.nodes {
                let ns = trace.activities.get(i as usize).map_or(0, |a| a.span.len());
                let is_named = nodes.operator_of(i).is_some();
                sums.activities += 1;
                sums.named += u64::from(is_named);
                sums.graph_ns += ns;
                sums.unnamed_ns += if is_named { 0 } else { ns };
            }
        }
        sums
    }

    /// The sentence for reports; `None` without graphs.
    pub fn sentence(&self) -> Option<String> {
        (self.activities > 0).then(|| {
            format!(
                "named {} of {} graph activities, {} of GPU time unnamed",
                fmt_count(self.named),
                fmt_count(self.activities),
                fmt_pct(percent(self.unnamed_ns, self.gpu_ns))
            )
        })
    }

    /// Adds the sums of another rank.
    pub fn add(&mut self, other: Self) {
        self.activities += other.activities;
        self.named += other.named;
        self.graph_ns += other.graph_ns;
        self.unnamed_ns += other.unnamed_ns;
        self.gpu_ns += other.gpu_ns;
    }
}

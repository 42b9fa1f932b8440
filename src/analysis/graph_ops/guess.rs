//! Guesses for kernels without a name: the only operator that launches kernels of the same name outside
//! graphs.

use hashbrown::HashMap;
use hta_facts::graphs::nodes::GraphNodes;
use hta_trace::category::Class;
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::StrId;

/// By name of a kernel: its operator, `None` if several launch it.
pub(crate) struct Guesses(HashMap<StrId, Option<StrId>>);

impl Guesses {
    pub(crate) fn new(trace: &RankTrace, nodes: &GraphNodes) -> Self {
        let mut of: HashMap<StrId, Option<StrId>> = HashMap::new();
        for (i, a) in (0..).zip(&trace.activities) {
            let Some(op) = a.op().filter(|_| a.class == Class::Kernel && nodes.node(i).is_none()) else {
                continue;
            };
            let name = trace.columns.name(op as usize);
            let known = of.entry(a.name).or_insert(Some(name));
            *known = known.filter(|k| *k == name);
        }
        Self(of)
    }

    pub fn of(&self, kernel: StrId) -> Option<StrId> {
        self.0.get(&kernel).copied().flatten()
    }
}

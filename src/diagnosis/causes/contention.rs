//! `contention`: kernels are longer only beside copies or collectives.

use crate::certainty::CauseCertainty;
use crate::rule::CauseRule;

pub(super) const RULE: CauseRule = CauseRule {
    name: "contention",
    // The other work runs at another time then, and may take time itself.
    certainty: CauseCertainty::AtMost,
    is_price: true,
    evidence: "of kernels of one name, grid, operator and shapes of inputs, which are recorded, 80 % of \
               those beside copies (or collectives) take 1.5 times as long as the median of those that run \
               alone, which are alike; no straggler or long step is told by it",
    owns: "part of the compute",
    shown_by: "tests/it/analyses/contention.rs",
    ..CauseRule::KERNELS
};

//! `kernel_elementwise`: compute in pointwise kernels that are limited by memory.

use crate::cause::GainBasis;
use crate::cause_words::CauseWords;
use crate::certainty::CauseCertainty;
use crate::compute::ComputeKernel;
use crate::kernel_facts::{KernelFacts, KernelsAfter};
use crate::kernel_mix::mix_category;
use crate::mix_words::MixWords;
use crate::rule::{CauseFamily, CauseRule, KernelRule};
use hashbrown::HashMap;
use hta_base::units::fmt_count;
use hta_trace::kernel::category::Category;

pub(super) const RULE: CauseRule = CauseRule {
    name: "kernel_elementwise",
    certainty: CauseCertainty::AtMost,
    evidence: "pointwise kernels that no compiler made, 20 % of U and 100 launches or more",
    shown_by: "tests/data/causes/kernel_elementwise.json.gz",
    family: CauseFamily::Kernels(KernelRule {
        kernels: chained,
        least_pct: 20.0,
        holds: |_, repair| repair.count >= FEWEST,
        names_operators: false,
        assumed_factor: 3.0,
        basis: GainBasis::Bound,
        words,
        new_time: "nothing, except the longest kernel of a chain: kernels that follow each other on a stream \
                   and that a compiler fuses (elementwise, normalization, softmax, reduction, random)",
    }),
    ..CauseRule::KERNELS
};

/// Fewest kernels on elements that a compiler is worth.
const FEWEST: u64 = 100;

/// Whether a compiler fuses the kernel with its neighbours.
fn is_fusible(category: Category) -> bool {
    use Category::{Elementwise, Normalization, Random, Reduction, Softmax};
    matches!(category, Elementwise | Normalization | Random | Reduction | Softmax)
}

/// Kernels on elements by their index, with what each takes if every chain becomes one kernel.
fn chained(facts: &KernelFacts, kernels: &[ComputeKernel]) -> KernelsAfter {
    let mut chains: HashMap<Option<i64>, Vec<usize>> = HashMap::new();
    let mut out = Vec::new();
    let mut end = |chain: &mut Vec<usize>| {
        let longest =
            chain.iter().copied().reduce(|a, b| if kernels[b].len > kernels[a].len { b } else { a });
        let of_elements = chain.drain(..).filter(|i| mix_category(kernels[*i].work) == Category::Elementwise);
        out.extend(of_elements.map(|i| (i, Some(if Some(i) == longest { kernels[i].len } else { 0 }))));
    };
    for (i, k) in kernels.iter().enumerate() {
        let chain = chains.entry(facts.trace.activities[k.activity as usize].stream()).or_default();
        if is_fusible(mix_category(k.work)) {
            chain.push(i);
        } else {
            end(chain);
        }
    }
    chains.values_mut().for_each(end);
    out
}

fn words(w: &MixWords) -> CauseWords {
    let after = w.after("with each chain fused into one kernel they would take");
    CauseWords::new(
        "Elementwise kernels are not fused",
        format!("{} of them take {}{after}", fmt_count(w.count), w.share()),
        "torch.compile fuses them; for optimizers use the fused or foreach variant",
    )
}

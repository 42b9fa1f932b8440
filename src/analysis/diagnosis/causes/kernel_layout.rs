//! `kernel_layout`: kernels that only change the memory layout.

use crate::diagnosis::cause::GainBasis;
use crate::diagnosis::cause_words::CauseWords;
use crate::diagnosis::compute::ComputeKernel;
use crate::diagnosis::kernel_facts::{KernelFacts, KernelsAfter, chosen};
use crate::diagnosis::kernel_mix::mix_category;
use crate::diagnosis::mix_words::MixWords;
use crate::diagnosis::rule::{CauseFamily, CauseRule, KernelRule};
use hta_base::units::{fmt_count, percent};
use hta_trace::kernel::category::Category;

pub(super) const RULE: CauseRule = CauseRule {
    name: "kernel_layout",
    evidence: "kernels that change layouts, 5 % of U",
    shown_by: "tests/data/causes/kernel_layout.json.gz",
    family: CauseFamily::Kernels(KernelRule {
        kernels,
        least_pct: 5.0,
        holds: |_, _| true,
        assumed_factor: 3.0,
        basis: GainBasis::Bound,
        words,
        new_time: "nothing",
    }),
    ..CauseRule::KERNELS
};

/// Smallest share of convolutions for which layouts are those of convolutions, percent. A patch embedding
/// alone does not make a network of convolutions.
const CONVOLUTIONS_PCT: f64 = 10.0;

fn kernels(_: &KernelFacts, kernels: &[ComputeKernel]) -> KernelsAfter {
    chosen(kernels, |k| (mix_category(k.work) == Category::Layout).then_some(Some(0)))
}

fn words(w: &MixWords) -> CauseWords {
    let convolutions = w.context.account.mix().get(Category::Convolution.name()).map_or(0, |m| m.time);
    let action = match percent(convolutions, w.compute).is_some_and(|pct| pct >= CONVOLUTIONS_PCT) {
        true => "memory_format=torch.channels_last for model and input; contiguous() once",
        false => {
            "keep one layout from operator to operator: transpose once, contiguous() only where a kernel \
             needs it"
        }
    };
    CauseWords::new(
        "Kernels only change the layout of tensors in memory",
        format!("{} of them take {}", fmt_count(w.count), w.share()),
        action,
    )
}

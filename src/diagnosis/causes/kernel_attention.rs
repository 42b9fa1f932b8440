//! `kernel_attention`: attention made of softmax and batched matrix products.

use crate::account::RepairTime;
use crate::cause::GainBasis;
use crate::cause_words::CauseWords;
use crate::certainty::CauseCertainty;
use crate::compute::ComputeKernel;
use crate::context::Context;
use crate::kernel_facts::{KernelFacts, KernelsAfter, at_rate, chosen};
use crate::kernel_mix::mix_category;
use crate::mix_words::MixWords;
use crate::rule::{CauseFamily, CauseRule, KernelRule};
use hashbrown::HashMap;
use hta_base::units::Ns;
use hta_trace::flops::peaks::Units;
use hta_trace::kernel::category::Category;
use hta_trace::strings::StrId;

pub(super) const RULE: CauseRule = CauseRule {
    name: "kernel_attention",
    certainty: CauseCertainty::AtMost,
    evidence: "softmax and batched matrix products, 10 % of U, and no fused attention",
    shown_by: "tests/data/causes/kernel_attention.json.gz",
    family: CauseFamily::Kernels(KernelRule {
        kernels,
        least_pct: 10.0,
        holds,
        names_operators: false,
        assumed_factor: 3.0,
        basis: GainBasis::Roofline,
        words,
        new_time: "the products take FLOPs / matrix peak; softmax nothing",
    }),
    ..CauseRule::KERNELS
};

fn holds(context: &Context, repair: &RepairTime) -> bool {
    let mix = context.account.mix();
    let softmax = mix.get(Category::Softmax.name()).map_or(0, |m| m.time);
    softmax > 0 && repair.time > softmax && !mix.contains_key(Category::Attention.name())
}

fn kernels(facts: &KernelFacts, kernels: &[ComputeKernel]) -> KernelsAfter {
    // By name of the operator: whether it multiplies batches of matrices.
    let mut batched: HashMap<StrId, bool> = HashMap::new();
    let trace = facts.trace;
    let mut is_batched = |k: &ComputeKernel| {
        let Some(op) = trace.activities[k.activity as usize].op() else { return false };
        let is_bmm = || matches!(trace.name(op), "aten::bmm" | "aten::baddbmm" | "aten::baddbmm_");
        *batched.entry(trace.columns.name(op as usize)).or_insert_with(is_bmm)
    };
    // The fused kernel keeps the scores on the chip.
    chosen(kernels, |k| match is_batched(k) {
        true => Some(of_product(facts, k)),
        false => (mix_category(k.work) == Category::Softmax).then_some(Some(0)),
    })
}

/// The kernel's share of its operator's FLOPs at the peak of matrix units, ns.
fn of_product(facts: &KernelFacts, k: &ComputeKernel) -> Option<Ns> {
    let a = &facts.trace.activities[k.activity as usize];
    let (_, work) = facts.works.of_activity(facts.trace, k.activity)?;
    let flops = facts.works.share(facts.trace, k.activity).flops?;
    at_rate(flops, facts.machine.device(a.device())?.flops_per_s(work.number?, Units::Matrix)?)
}

fn words(w: &MixWords) -> CauseWords {
    CauseWords::new(
        "Attention is made of softmax and batched matrix products",
        format!("It takes {}{}", w.share(), w.after("at the peak the products would take")),
        "torch.nn.functional.scaled_dot_product_attention",
    )
}

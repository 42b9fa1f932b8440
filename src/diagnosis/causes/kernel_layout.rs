//! `kernel_layout`: kernels that only change the memory layout.

use crate::CauseKind;
use crate::cause::GainBasis;
use crate::cause_words::CauseWords;
use crate::certainty::CauseCertainty;
use crate::compute::ComputeKernel;
use crate::kernel_facts::{KernelFacts, KernelsAfter, chosen};
use crate::kernel_mix::mix_category;
use crate::lost_words::shown;
use crate::mix_words::MixWords;
use crate::rule::{CauseFamily, CauseRule, KernelRule};
use hashbrown::HashMap;
use hta_base::units::{fmt_count, percent};
use hta_trace::kernel::category::Category;
use hta_trace::strings::StrId;
use std::cmp::Reverse;

pub(super) const RULE: CauseRule = CauseRule {
    name: "kernel_layout",
    certainty: CauseCertainty::Likely,
    evidence: "kernels that change layouts, 5 % of U; not those of FSDP, and none of FP8 operands",
    shown_by: "tests/data/causes/kernel_layout.json.gz",
    family: CauseFamily::Kernels(KernelRule {
        kernels,
        least_pct: 5.0,
        holds: |_, _| true,
        names_operators: true,
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

fn kernels(facts: &KernelFacts, kernels: &[ComputeKernel]) -> KernelsAfter {
    let trace = facts.trace;
    let mut known: HashMap<StrId, bool> = HashMap::new();
    let mut is_fp8 = |k: &ComputeKernel| {
        let a = &trace.activities[k.activity as usize];
        let operator = a.op().map(|op| trace.columns.name(op as usize));
        [Some(a.name), operator]
            .into_iter()
            .flatten()
            .any(|name| *known.entry(name).or_insert_with(|| of_fp8(trace.text(name))))
    };
    // Products in FP8 want their operands in one layout: a transpose before them is no choice of the user.
    let has_products = kernels.iter().any(|k| k.work.category == Category::Gemm && is_fp8(k));
    chosen(kernels, |k| {
        let is_transpose = || trace.text(trace.activities[k.activity as usize].name).contains("transpose");
        let is_layout = mix_category(k.work) == Category::Layout;
        (is_layout && !is_fp8(k) && !(has_products && is_transpose())).then_some(Some(0))
    })
}

/// Whether a name is of eight-bit floating point.
fn of_fp8(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    ["fp8", "float8", "e4m3", "e5m2", "_scaled_mm", "nvjet_qq"].iter().any(|word| lower.contains(word))
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
    let of = w.context.account.operators.iter().filter(|((kind, _), _)| *kind == CauseKind::KernelLayout);
    let most = of.max_by_key(|((_, name), ns)| (**ns, Reverse(name.clone())));
    let most = most.map_or(String::new(), |((_, name), _)| format!(", most in {}", shown(name)));
    CauseWords::new(
        "Kernels only change the layout of tensors in memory",
        format!("{} of them take {}{most}", fmt_count(w.count), w.share()),
        action,
    )
}

//! `kernel_precision`: matrix products and convolutions in fp32 without tensor cores.

use crate::cause::GainBasis;
use crate::cause_words::CauseWords;
use crate::certainty::CauseCertainty;
use crate::compute::ComputeKernel;
use crate::kernel_facts::{KernelFacts, KernelsAfter, SMALL, at_rate, chosen};
use crate::mix_words::MixWords;
use crate::rule::{CauseFamily, CauseRule, KernelRule};
use hashbrown::HashMap;
use hta_base::units::Ns;
use hta_trace::flops::Number;
use hta_trace::flops::peaks::Units;
use hta_trace::kernel::category::Category;
use hta_trace::strings::StrId;

pub(super) const RULE: CauseRule = CauseRule {
    name: "kernel_precision",
    certainty: CauseCertainty::AtMost,
    evidence: "fp32 matrix products and convolutions of 10 us and longer without tensor cores, 20 % of U",
    shown_by: "tests/data/causes/kernel_precision.json.gz",
    family: CauseFamily::Kernels(KernelRule {
        kernels,
        least_pct: 20.0,
        // Autocast is for training.
        holds: |context, _| context.trust.has_tensor_cores && !context.trust.is_serving,
        names_operators: false,
        assumed_factor: 4.0,
        basis: GainBasis::Roofline,
        words,
        new_time: "time x vector peak / matrix peak (bf16, else fp16), but no less than bytes / bandwidth",
    }),
    ..CauseRule::KERNELS
};

/// Parts of names of matrix products and convolutions in fp32 that do not use tensor cores, lower case.
const SIMT: [&str; 5] = ["sgemm", "scudnn", "simt_s", "ffma", "engine<float"];

/// Parts of names whose inputs are in a shorter format, also with a part of the list above:
/// `volta_fp16_sgemm_fp16_...`.
const SHORTER: [&str; 4] = ["tf32", "fp16", "f16", "half"];

/// Whether a name is that of a product in fp32 without tensor cores.
fn is_simt(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let is_winograd = lower.contains("winograd") && lower.contains("<float");
    (is_winograd || SIMT.iter().any(|p| lower.contains(p))) && !SHORTER.iter().any(|p| lower.contains(p))
}

fn kernels(facts: &KernelFacts, kernels: &[ComputeKernel]) -> KernelsAfter {
    let mut by_name: HashMap<StrId, bool> = HashMap::new();
    let trace = facts.trace;
    let mut is_simt = |k: &ComputeKernel| {
        let name = trace.activities[k.activity as usize].name;
        matches!(k.work.category, Category::Convolution | Category::Gemm)
            && *by_name.entry(name).or_insert_with(|| is_simt(trace.text(name)))
    };
    chosen(kernels, |k| (k.len >= SMALL && is_simt(k)).then(|| with_tensor_cores(facts, k)))
}

/// The kernel on tensor cores with half-precision inputs, at the same share of the peak, ns.
fn with_tensor_cores(facts: &KernelFacts, k: &ComputeKernel) -> Option<Ns> {
    let device = facts.machine.device(facts.trace.activities[k.activity as usize].device())?;
    let bytes = facts.works.share(facts.trace, k.activity).bytes?;
    let half = [Number::BFloat16, Number::Float16].into_iter();
    let matrix = half.filter_map(|n| device.flops_per_s(n, Units::Matrix)).next()?;
    let vector = device.flops_per_s(Number::Float32, Units::Vector)?;
    Some(((k.len as f64 * vector / matrix) as Ns).max(at_rate(bytes, device.bytes_per_s())?))
}

fn words(w: &MixWords) -> CauseWords {
    let after = w.after("on tensor cores, at the same share of the peak, they would take");
    let action = match w.context.trust.has_bf16 {
        true => "bf16 autocast, or at least torch.set_float32_matmul_precision('high') for TF32",
        false => "fp16 autocast with a gradient scaler",
    };
    CauseWords::new(
        "Matrix products and convolutions in fp32 use no tensor cores",
        format!("They take {}{after}", w.share()),
        action,
    )
}

#[cfg(test)]
mod tests {
    use super::is_simt;

    #[test]
    fn products_in_fp32_without_tensor_cores_are_found_by_name() {
        assert!(is_simt("volta_sgemm_128x64_nt"));
        assert!(!is_simt("ampere_tf32_s1688gemm_128x128"));
        assert!(!is_simt("ampere_bf16_s16816gemm_bf16_128x128"));
        assert!(is_simt("volta_scudnn_128x64_relu_interior_nn_v1"));
        assert!(is_simt(
            "void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>(cudnn::Params<float>)"
        ));
        assert!(is_simt("void cudnn::winograd::winograd3x3Kernel<float, float, 2, 2, 2, false>(float)"));
        assert!(is_simt("void cudnn::cnn::wgrad_alg1_engine<float, 128, 5, 5, 3>(int)"));
        assert!(!is_simt(
            "void cudnn::winograd_nonfused::winogradForwardData4x4<__half, float>(cudnn::Params<__half>)"
        ));
        assert!(!is_simt("volta_fp16_scudnn_fp16_128x64_relu_interior_nn_v1"));
        assert!(!is_simt("maxwell_fp16_sgemm_fp16_128x64_nn"));
    }
}

//! The mix of kernels: what compute time is made of, by category, and what of it could be done better.
//!
//! Categories follow from names, first match, ignoring case. Each nanosecond of compute belongs to one kernel: of
//! concurrent ones to that which started first.

use crate::table;
use crate::table::schema::Text;
use crate::trace::device::DeviceWork;
use crate::trace::rank_trace::RankTrace;
use crate::trace::strings::StrId;
use crate::trace::timeline::WorkClass;
use crate::trace::window::Window;
use crate::units::{Ns, Span};
use std::collections::{BTreeMap, HashMap};

table! {
    /// Compute time of a device in a window, by category of kernel.
    pub struct KernelMix, KernelMixRow = "kernel_mix" by "rank, device, scope, step, category" {
        rank; device; scope; step; step_label;
        category: Text, "", "attention, softmax, gemm, conv, layout, norm, elementwise, reduce, multi_tensor or other";
        time_ns: i64, "ns", "compute time, each instant in one category";
        kernel_count: u64, "", "kernels that start in the window";
        small_ns: i64, "ns", "of kernels shorter than 10 us";
        compiled_ns: i64, "ns", "of kernels that a compiler generated";
        simt_ns: i64, "ns", "of matrix products and convolutions in fp32 without tensor cores, of 10 us and longer";
        batched_ns: i64, "ns", "of batched matrix products (aten::bmm, aten::baddbmm)";
    }
}

/// Kernels below this length are small, ns.
const SMALL: Ns = 10_000;

/// Category and the parts of a name that give it, lower case; the first match decides.
const CATEGORIES: [(&str, &[&str]); 9] = [
    ("attention", &["flash", "fmha", "attn", "attention", "mha_", "paged"]),
    ("softmax", &["softmax"]),
    ("conv", &["conv", "fprop", "dgrad", "wgrad", "cudnn", "scudnn", "miopen", "winograd"]),
    ("gemm", &["gemm", "cijk_", "cutlass", "wmma", "xmma", "_mm_", "matmul", "cublas", "nvjet", "moe", "gemv"]),
    ("layout", &["nchwtonhwc", "nhwctonchw", "transpose", "permute"]),
    ("norm", &["norm"]),
    ("multi_tensor", &["multi_tensor"]),
    ("reduce", &["reduce"]),
    (
        "elementwise",
        &["elementwise", "vectorized", "unrolled", "catarray", "copy_kernel", "fill", "index_", "triton_poi"],
    ),
];

/// Category of kernels that no rule knows.
const OTHER: &str = "other";

/// Parts of names of matrix products and convolutions in fp32 that do not use tensor cores, lower case.
const SIMT: [&str; 6] = ["sgemm", "scudnn", "simt_s", "ffma", "engine<float", "winograd_nonfused"];

/// What follows from a kernel's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelName {
    pub category: &'static str,
    pub is_compiled: bool,
    pub is_simt: bool,
}

impl KernelName {
    pub fn of(name: &str) -> Self {
        let lower = name.to_ascii_lowercase();
        let has = |parts: &[&str]| parts.iter().any(|p| lower.contains(p));
        // Layout changes of cudnn are no convolutions.
        let is_layout = has(&["nchwtonhwc", "nhwctonchw"]);
        // A normalization of cudnn is one.
        let is_norm = lower.contains("bn_fw") || lower.contains("bn_bw") || lower.contains("batchnorm");
        let found = CATEGORIES.iter().find(|(_, parts)| has(parts)).map_or(OTHER, |(category, _)| category);
        let category = match found {
            "conv" if is_layout => "layout",
            "conv" | "gemm" if is_norm => "norm",
            found => found,
        };
        let is_matrix = matches!(category, "conv" | "gemm");
        let is_compiled = lower.starts_with("triton_");
        KernelName { category, is_compiled, is_simt: is_matrix && has(&SIMT) && !lower.contains("tf32") }
    }
}

#[derive(Default)]
struct Sum {
    time: Ns,
    count: u64,
    small: Ns,
    compiled: Ns,
    simt: Ns,
    batched: Ns,
}

struct Kernel {
    /// The part of its span that belongs to it.
    own: Span,
    start: Ns,
    len: Ns,
    name: KernelName,
    is_batched: bool,
}

pub fn push(table: &mut KernelMix, trace: &RankTrace, work: &DeviceWork, windows: &[Window]) {
    if !work.is_gpu {
        return;
    }
    let kernels = kernels(trace, work);
    for w in windows {
        let mut sums: BTreeMap<&'static str, Sum> = BTreeMap::new();
        for part in &w.parts {
            let first = kernels.partition_point(|k| k.own.end <= part.start);
            for k in kernels[first..].iter().take_while(|k| k.own.start < part.end) {
                let time = k.own.intersect(*part).len();
                let sum = sums.entry(k.name.category).or_default();
                sum.time += time;
                sum.count += u64::from(part.holds(k.start));
                let add = |to: &mut Ns, when: bool| *to += if when { time } else { 0 };
                add(&mut sum.small, k.len < SMALL);
                add(&mut sum.compiled, k.name.is_compiled);
                add(&mut sum.simt, k.name.is_simt && k.len >= SMALL);
                add(&mut sum.batched, k.is_batched);
            }
        }
        for (category, s) in sums {
            table.push(KernelMixRow {
                rank: trace.rank,
                device: work.device,
                scope: w.scope.name(),
                step: w.step,
                step_label: w.label,
                category,
                time_ns: s.time,
                kernel_count: s.count,
                small_ns: s.small,
                compiled_ns: s.compiled,
                simt_ns: s.simt,
                batched_ns: s.batched,
            });
        }
    }
}

/// Compute of a device in order of time, each instant once.
fn kernels(trace: &RankTrace, work: &DeviceWork) -> Vec<Kernel> {
    let mut known: HashMap<StrId, KernelName> = HashMap::new();
    let mut batched: HashMap<u32, bool> = HashMap::new();
    let mut out = Vec::new();
    let mut at = Ns::MIN;
    for a in work.activities.iter().map(|&i| &trace.activities[i as usize]).filter(|a| a.work == WorkClass::Compute) {
        let name = *known.entry(a.name).or_insert_with(|| KernelName::of(trace.text(a.name)));
        let is_bmm = |op: u32| matches!(trace.name(op), "aten::bmm" | "aten::baddbmm" | "aten::baddbmm_");
        let is_batched = a.op().is_some_and(|op| *batched.entry(op).or_insert_with(|| is_bmm(op)));
        let own = Span::new(a.span.start.max(at), a.span.end.max(at));
        out.push(Kernel { own, start: a.span.start, len: a.span.len(), name, is_batched });
        at = at.max(a.span.end);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::KernelName;

    #[test]
    fn names_give_categories() {
        let known = [
            ("void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>", "elementwise"),
            ("void flash_fwd_kernel<Flash_fwd_kernel_traits<64>>", "attention"),
            ("void at::native::(anonymous namespace)::cunn_SoftMaxForward<4>", "softmax"),
            ("Cijk_Ailk_Bljk_BBS_BH_MT64x64x64_MI16x16x16x1", "gemm"),
            ("volta_scudnn_128x64_relu_interior_nn_v1", "conv"),
            ("void cudnn::ops::nchwToNhwcKernel<float, float>", "layout"),
            ("void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float>", "norm"),
            ("void at::native::reduce_kernel<512, 1>", "reduce"),
            ("void at::native::(anonymous namespace)::multi_tensor_apply_kernel<>", "multi_tensor"),
            ("spin_kernel", "other"),
        ];
        for (name, category) in known {
            assert_eq!(KernelName::of(name).category, category, "{name}");
        }
        assert!(KernelName::of("volta_sgemm_128x64_nt").is_simt);
        assert!(!KernelName::of("ampere_tf32_s1688gemm_128x128").is_simt);
        assert!(!KernelName::of("ampere_bf16_s16816gemm_bf16_128x128").is_simt);
    }
}

//! What a kernel is for in a model that serves requests, from its name: the parts of a transformer layer, its caches and
//! the choice of tokens. Finer than [`Category`](crate::kernel::category::Category) where engines have kernels of their
//! own, and coarser elsewhere.

use regex::RegexSet;
use std::sync::LazyLock;

/// Category and pattern; the first that matches, in any case of letters, decides.
const RULES: [(&str, &str); 14] = [
    (
        "communication",
        r"nccl|rccl|cross_device_reduce|all_?reduce|shot_all|deep_ep|(intra|inter)node.*(dispatch|combine)",
    ),
    ("moe_gemm", r"matmul_ogs|fused_moe_kernel|moe.*gemm|grouped_?gemm|gemm.*grouped|bmm_.*(E4m3|E2m1)"),
    ("moe_other", r"moe|_topk_forward|topk_?gating|routing|bitmatrix|finalize_matmul"),
    (
        "kv_cache",
        r"reshape_and_cache|store_kvcache|set_mla_kv|concat_and_cache|kv_indices|slot_mapping|page_(indices|table)",
    ),
    (
        "attention",
        r"attention|attn|fmha|flash_|mla_|PagedKVCache|reduce_segments|splitkv|causal_conv1d|gated_delta|selective_scan",
    ),
    ("norm", r"rms_?norm|layer_?norm|group_?norm|triton_(red|per)_.*(rsqrt|norm)"),
    ("rope", r"rotary|rope"),
    ("activation", r"act_and_mul|silu|gelu|swiglu"),
    ("quantize", r"quant|cvt_fp16_to_fp|scaled_fp"),
    (
        "gemm",
        r"Cijk_|nvjet|gemm|gemv|cublas|splitK|xmma|cutlass::(Kernel|device_kernel)|7cutlass13device_kernel|conv_fwd",
    ),
    (
        "sampling",
        r"ArgMax|SoftMax|radix_sort|scan_innermost|sort_postprocess|multinomial|future_token|clamp_position|distribution_elementwise",
    ),
    ("copy_gather", r"^Mem(cpy|set)|copy_kernel|multi_tensor_apply|gather_kernel|indexSelect|transpose"),
    ("elementwise", r"elementwise|at::native|triton_|rocprim|cub::"),
    ("other", ""),
];

/// The category of communication, which kernels of that class have whatever their name.
pub const COMMUNICATION: &str = RULES[0].0;

/// The category of a kernel, copy or set by its name.
pub fn serving_category(name: &str) -> &'static str {
    static PATTERNS: LazyLock<RegexSet> = LazyLock::new(|| {
        let patterns = RULES.iter().map(|(_, pattern)| format!("(?i){pattern}"));
        RegexSet::new(patterns).expect("a test uses every pattern")
    });
    let first = PATTERNS.matches(name).iter().next();
    first.and_then(|i| RULES.get(i)).map_or("other", |rule| rule.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_decides() {
        for (name, category) in [
            ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "communication"),
            ("_matmul_ogs_NNT_bf16xbf16xmxfp4_32x256x128x1", "moe_gemm"),
            ("_topk_forward", "moe_other"),
            ("void vllm::reshape_and_cache_flash_kernel<bf16>", "kv_cache"),
            ("kernel_unified_attention_2d", "attention"),
            ("void aiter::add_rmsnorm_quant_kernel<bf16>", "norm"),
            ("void vllm::rotary_embedding_kernel<bf16>", "rope"),
            ("void sgl_hip::activation::act_and_mul_kernel<bf16>", "activation"),
            ("void vllm::scaled_fp8_quant_kernel", "quantize"),
            ("void cublasLt::splitKreduce_kernel<32>", "gemm"),
            ("Cijk_Alik_Bljk_BBS_BH_Bias", "gemm"),
            ("void at::native::ArgMaxOps", "sampling"),
            ("Memcpy DtoD (Device -> Device)", "copy_gather"),
            ("void at::native::vectorized_elementwise_kernel<4>", "elementwise"),
            ("my_kernel", "other"),
        ] {
            assert_eq!(serving_category(name), category, "{name}");
        }
    }
}

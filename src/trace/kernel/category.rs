//! What a kernel computes: one category of a closed list, by ordered rules (`data/kernel_categories.toml`).
//!
//! A rule looks at one part of a C++ name at a time, because a whole name also names types that say nothing
//! about the kernel. A *wrapper* such as `elementwise_kernel` or `cutlass::Kernel2` says nothing itself, so
//! its template arguments are tried first:
//!
//! ```text
//!   wrapper   last two components of each argument, of the base, whole arguments, base
//!   other     last two components of the base, base, last two components of each argument
//! ```

use crate::kernel_name::cpp::{argument_paths, base, head, last_two, normalized};
use crate::kernel_name::demangled;
use crate::kernel_name::patterns::NamePatterns;
use serde::Deserialize;
use std::sync::OnceLock;

const RULES: &str = include_str!("../../../data/kernel_categories.toml");

/// Kernels whose name says nothing: what they do is among their template arguments.
const WRAPPER: &str = r"(^|::)((vectorized_|unrolled_|legacy_)?elementwise_kernel(_manual_unroll|_with_index)?|vectorized_templated_elementwise_kernel|multi_tensor_apply_kernel|Kernel2?|device_kernel|kentry|entry|trampoline_kernel|kernel)$";

macro_rules! categories {
    ($($(#[doc = $doc:literal])+ $id:ident $name:literal;)+) => {
        /// What a GPU activity does, in the order of reports.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Category { $($(#[doc = $doc])+ $id),+ }

        impl Category {
            pub const ALL: &'static [Category] = &[$(Category::$id),+];

            /// As in the tables.
            pub fn name(self) -> &'static str {
                match self { $(Category::$id => $name),+ }
            }

            pub fn named(name: &str) -> Option<Category> {
                Self::ALL.iter().copied().find(|c| c.name() == name)
            }
        }
    };
}

categories! {
    /// Matrix products.
    Gemm "gemm";
    /// Attention, fused.
    Attention "attention";
    /// Convolutions.
    Convolution "convolution";
    /// Routing and products of experts.
    Moe "moe";
    /// Normalizations.
    Normalization "normalization";
    /// Softmax outside fused attention.
    Softmax "softmax";
    /// One output per element of the inputs.
    Elementwise "elementwise";
    /// Reductions, scans and losses.
    Reduction "reduction";
    /// Data is moved without arithmetic: copies with another type or stride, cat, transpose.
    Layout "layout";
    /// Copies of sharded parameters and gradients into and out of the buffers of collectives.
    ShardCopy "shard_copy";
    /// Embeddings, index, gather, scatter, cache writes.
    GatherScatter "gather_scatter";
    /// Sorting, selection, sampling of tokens.
    SortTopk "sort_topk";
    /// Random numbers and dropout.
    Random "random";
    /// Fused optimizers.
    Optimizer "optimizer";
    /// Quantization.
    Quantization "quantization";
    /// Pooling and interpolation.
    Pooling "pooling";
    /// Made by a compiler of several operators.
    Fused "fused";
    /// Collectives and messages.
    Communication "communication";
    /// Copies.
    Memcpy "memcpy";
    /// Sets of memory.
    Memset "memset";
    /// No rule knows it.
    Unknown "unknown";
}

/// How a category was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The kind of the row.
    Row,
    /// Arguments of the row.
    Args,
    Name,
    /// The name, and the operator that launched it.
    NameAndOp,
    /// The name, and the range in which it was launched.
    NameAndRange,
    /// The operator alone.
    Op,
    None,
}

impl Reason {
    pub fn name(self) -> &'static str {
        match self {
            Reason::Row => "row",
            Reason::Args => "args",
            Reason::Name => "name",
            Reason::NameAndOp => "name+op",
            Reason::NameAndRange => "name+range",
            Reason::Op => "op",
            Reason::None => "none",
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawCategoryRule {
    pub(crate) category: String,
    #[serde(default)]
    pub(crate) sub: String,
    pub(crate) name: String,
    #[serde(default)]
    #[allow(dead_code, reason = "for readers of the file")]
    source: String,
    #[serde(default)]
    #[allow(dead_code, reason = "checked by a test")]
    pub(crate) examples: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CategoryFile {
    rule: Vec<RawCategoryRule>,
    op: Vec<RawCategoryRule>,
    /// Those of [`serving`](super::serving).
    pub(crate) serving: Vec<RawCategoryRule>,
}

/// The file of rules, read once.
pub(super) fn file() -> Result<&'static CategoryFile, String> {
    static READ: OnceLock<Result<CategoryFile, String>> = OnceLock::new();
    READ.get_or_init(|| toml::from_str(RULES).map_err(|e| e.to_string())).as_ref().map_err(String::clone)
}

struct CategoryTable {
    names: NamePatterns,
    categories: Vec<(Category, String)>,
}

impl CategoryTable {
    fn new(rules: &[RawCategoryRule]) -> Result<Self, String> {
        let category = |r: &RawCategoryRule| Category::named(&r.category).map(|c| (c, r.sub.clone()));
        let categories =
            rules.iter().map(|r| category(r).ok_or_else(|| format!("no category `{}`", r.category)));
        Ok(Self {
            names: NamePatterns::in_any_case(rules.iter().map(|r| &r.name))?,
            categories: categories.collect::<Result<_, _>>()?,
        })
    }

    /// The first rule that matches.
    fn first(&self, text: &str) -> Option<usize> {
        self.names.first(text)
    }
}

/// The rules, compiled when first needed.
struct CategoryRules {
    names: CategoryTable,
    wrapper: NamePatterns,
    /// Kernels of which the operators around decide: index of the rule for matrix products.
    matrix: Option<usize>,
}

fn rules() -> Option<&'static CategoryRules> {
    static MADE: OnceLock<Option<CategoryRules>> = OnceLock::new();
    // The file is part of the program; a test reads it.
    MADE.get_or_init(|| read().ok()).as_ref()
}

fn read() -> Result<CategoryRules, String> {
    let file = file()?;
    // Of the two rules for matrix products the second is that of libraries.
    let matrix = file.rule.iter().rposition(|r| r.category == Category::Gemm.name());
    let wrapper = NamePatterns::in_any_case([WRAPPER.to_string()].iter())?;
    Ok(CategoryRules { names: CategoryTable::new(&file.rule)?, wrapper, matrix })
}

/// The rules for operators, which few kernels need.
fn of_operators() -> Result<CategoryTable, String> {
    CategoryTable::new(&file()?.op)
}

/// What the name of a kernel says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NameCategory {
    /// `None` if no rule matches.
    pub category: Option<Category>,
    /// Sub-category; empty for most.
    pub sub: &'static str,
    /// A product of matrices, which may be part of a convolution.
    pub is_matrix: bool,
    /// A kernel that runs over a list of tensors, as optimizers launch it.
    pub is_multi_tensor: bool,
}

/// The category by a kernel's name alone.
pub fn by_name(name: &str) -> NameCategory {
    let full = demangled(name);
    let plain = normalized(&full);
    let head = head(&plain);
    let base = base(head);
    let arguments = argument_paths(head);
    let mut out = NameCategory {
        category: None,
        sub: "",
        is_matrix: false,
        is_multi_tensor: name.contains("multi_tensor_apply"),
    };
    let Some(rules) = rules() else { return out };
    let of_base = [last_two(&base), &base];
    let short = || arguments.iter().map(|path| last_two(path));
    let first = |text: &str| rules.names.first(text);
    let found = if rules.wrapper.first(&base).is_some() {
        let mut texts = short().chain([of_base[0]]).chain(arguments.iter().copied()).chain([of_base[1]]);
        texts.find_map(first)
    } else {
        let mut texts = of_base.into_iter().chain(short());
        texts.find_map(first)
    };
    // A name that cannot be taken apart is tried as it is.
    let found =
        found.or_else(|| (full.as_ref() == name && name.starts_with("_Z")).then(|| first(name)).flatten());
    if let Some((category, sub)) = found.and_then(|i| rules.names.categories.get(i)) {
        out.category = Some(*category);
        out.sub = sub;
        out.is_matrix = found == rules.matrix;
    }
    out
}

/// The category by the operator that launched a kernel.
pub fn by_op(op: &str) -> Option<Category> {
    static MADE: OnceLock<Option<CategoryTable>> = OnceLock::new();
    let table = MADE.get_or_init(|| of_operators().ok()).as_ref()?;
    Some(table.categories.get(table.first(op)?)?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_decides_its_examples() {
        let file = file().unwrap();
        read().unwrap();
        of_operators().unwrap();
        for r in &file.rule {
            assert!(!r.examples.is_empty() && !r.source.is_empty(), "{}", r.name);
            for example in &r.examples {
                let found = by_name(example);
                assert_eq!(
                    (found.category.map(Category::name), found.sub),
                    (Some(r.category.as_str()), r.sub.as_str()),
                    "{example}"
                );
                let alone = regex::bytes::RegexBuilder::new(&r.name)
                    .case_insensitive(true)
                    .unicode(false)
                    .build()
                    .unwrap();
                assert!(alone.is_match(example.as_bytes()), "{example}");
            }
        }
    }

    #[test]
    fn types_among_the_arguments_do_not_decide() {
        let of = |name: &str| by_name(name).category;
        let paged =
            "void paged_attention_ll4mi_QKV_mfma16_kernel<bf16, (vllm::Fp8KVCacheDataType)0, 128>(bf16*)";
        assert_eq!(of(paged), Some(Category::Attention));
        let quantize = "void tensorrt_llm::kernels::quantize_with_block_size<(flashinfer::QuantizationSFLayout)1, bf16>(int)";
        assert_eq!(of(quantize), Some(Category::Quantization));
        assert_eq!(
            of("void at::native::elementwise_kernel<128, 4, \
                 at::native::direct_copy_kernel_cuda(A&)::{lambda()#3}>(int)"),
            Some(Category::Layout)
        );
        assert!(
            by_name("void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x128_nn_align4>(P)").is_matrix
        );
        assert_eq!(of("spin_kernel"), None);
    }

    #[test]
    fn operators_decide_where_names_say_nothing() {
        assert_eq!(by_op("aten::_scaled_dot_product_flash_attention"), Some(Category::Attention));
        assert_eq!(by_op("aten::cudnn_convolution"), Some(Category::Convolution));
        assert_eq!(by_op("aten::native_layer_norm"), Some(Category::Normalization));
        assert_eq!(by_op("aten::normal_"), Some(Category::Random));
        assert_eq!(by_op("mine::op"), None);
    }
}

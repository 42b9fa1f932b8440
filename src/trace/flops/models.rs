//! Which model each operator has.

use crate::flops::attention::{self, AttentionPositions, Causal, DimensionOrder, Sliding};
use crate::flops::convolution::ConvolutionPositions;
use crate::flops::elementwise_operators::{
    BROADCASTING, BROADCASTING_TO_BOOL, REDUCTIONS, THREE_INPUTS, UNARY, UNARY_TO_BOOL,
};
use crate::flops::inputs::{InputsOfCall, Tensor};
use crate::flops::matmul::{self, Positions};
use crate::flops::pointwise::{self, Norm, Reduced};
use crate::flops::quantity::product;
use crate::flops::{Family, Work, convolution};
use DimensionOrder::{HeadsFirst, SequenceFirst};
use Model::{Attention, Convolution, GroupedProduct, LayerNorm, Product};
use hashbrown::HashMap;
use std::sync::OnceLock;

/// How the work of an operator follows from its inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Model {
    Product(matmul::Positions),
    /// Products in groups: both factors, and the ends of the groups.
    GroupedProduct([usize; 3]),
    Convolution(convolution::ConvolutionPositions),
    ConvolutionBackward,
    Attention(attention::AttentionPositions),
    Norm(Norm),
    LayerNorm,
    Softmax,
    SoftmaxBackward,
    /// Operations per element, and whether the result is a truth value.
    Unary(u64, bool),
    /// Number of inputs; operations per element, and whether the result is a truth value.
    Broadcasting(usize, u64, bool),
    Dropout,
    DropoutBackward,
    /// Operations per element, the position of the dimensions, and what is left.
    Reduction(u64, usize, Reduced),
    Embedding,
    EmbeddingBackward,
    Gather,
    IndexSelect,
    Copy,
    Duplicate,
    Fill,
    Cat,
    /// Operations per parameter.
    Optimizer(u64),
}

impl Model {
    pub fn family(self) -> Family {
        match self {
            Model::Product(_) | Model::GroupedProduct(_) => Family::Matmul,
            Model::Convolution(_) | Model::ConvolutionBackward => Family::Convolution,
            Model::Attention(_) => Family::Attention,
            Model::Norm(_) | Model::LayerNorm => Family::Normalization,
            Model::Softmax | Model::SoftmaxBackward => Family::Softmax,
            Model::Unary(..) | Model::Broadcasting(..) | Model::Dropout | Model::DropoutBackward => {
                Family::Elementwise
            }
            Model::Reduction(..) => Family::Reduction,
            Model::Embedding | Model::EmbeddingBackward | Model::Gather | Model::IndexSelect => {
                Family::Gather
            }
            Model::Copy | Model::Duplicate | Model::Fill | Model::Cat => Family::Copy,
            Model::Optimizer(_) => Family::Optimizer,
        }
    }

    /// The work of one call. What its inputs do not say is `None`.
    pub fn work(self, inputs: &InputsOfCall) -> Work {
        let known = match self {
            Model::Product(at) => matmul::product_of(inputs, at),
            Model::GroupedProduct([a, b, offsets]) => matmul::grouped(inputs, a, b, offsets),
            Model::Convolution(at) => convolution::forward(inputs, at),
            Model::ConvolutionBackward => convolution::backward(inputs),
            Model::Attention(at) => attention::work(inputs, at),
            Model::Norm(at) => pointwise::norm(inputs, at),
            Model::LayerNorm => layer_norm(inputs),
            Model::Softmax => pointwise::softmax(inputs, false),
            Model::SoftmaxBackward => pointwise::softmax(inputs, true),
            Model::Unary(per_element, gives_bool) => pointwise::unary(inputs, per_element, gives_bool),
            Model::Broadcasting(count, per_element, gives_bool) => {
                pointwise::broadcasting(inputs, count, per_element, gives_bool)
            }
            Model::Dropout => pointwise::dropout(inputs),
            Model::DropoutBackward => pointwise::dropout_backward(inputs),
            // `max(a, b)` compares two tensors.
            Model::Reduction(per_element, dims, _) if inputs.tensor(dims).is_some() => {
                pointwise::broadcasting(inputs, 2, per_element, false)
            }
            Model::Reduction(per_element, dims, gives) => {
                pointwise::reduction(inputs, per_element, dims, gives)
            }
            Model::Embedding => pointwise::embedding(inputs),
            Model::EmbeddingBackward => pointwise::embedding_backward(inputs),
            Model::Gather => pointwise::gather(inputs),
            Model::IndexSelect => pointwise::index_select(inputs),
            Model::Copy => pointwise::copy(inputs),
            Model::Duplicate => pointwise::duplicate(inputs),
            Model::Fill => pointwise::fill(inputs),
            Model::Cat => pointwise::cat(inputs),
            Model::Optimizer(per_element) => pointwise::optimizer(inputs, per_element),
        };
        known.unwrap_or(Work { family: self.family(), flops: None, bytes: None, number: None })
    }
}

/// Layer normalization writes its statistics for each group of normalized elements.
fn layer_norm(inputs: &InputsOfCall) -> Option<Work> {
    let work = pointwise::norm(inputs, norm_at(0, Some(2), Some(3), [8, 6]));
    let normalized = inputs.ints(1)?.iter().map(|n| u64::try_from(*n).ok()).collect::<Option<Vec<u64>>>()?;
    let of_one = product(&normalized).filter(|n| *n > 0)?;
    let groups = inputs.tensor(0).and_then(Tensor::elements).map(|e| e / of_one);
    pointwise::with_statistics(work, groups)
}

const fn norm_at(input: usize, weight: Option<usize>, bias: Option<usize>, per_element: [u64; 2]) -> Norm {
    Norm { input, weight, bias, per_element, training: None, is_backward: false }
}

const fn convolution_at(bias: Option<usize>, [stride, padding, dilation, groups]: [usize; 4]) -> Model {
    let (transposed, output_padding) = (None, None);
    Convolution(ConvolutionPositions { bias, stride, padding, dilation, transposed, output_padding, groups })
}

const fn attention_at(
    query: usize,
    layout: DimensionOrder,
    causal: &'static [usize],
    is_backward: bool,
) -> Model {
    let causal = Causal::Flag(causal);
    let sliding = Sliding::None;
    Attention(AttentionPositions { query, layout, causal, lengths: None, sliding, is_backward })
}

/// Attention over sequences that may have different lengths.
const fn varying(model: Model, lengths: [usize; 4]) -> Model {
    match model {
        Attention(at) => Attention(AttentionPositions { lengths: Some(lengths), ..at }),
        other => other,
    }
}

/// Attention with a window that slides: keys before and after the query's own.
const fn sliding(model: Model, sides: [usize; 2]) -> Model {
    match model {
        Attention(at) => Attention(AttentionPositions { sliding: Sliding::Sides(sides), ..at }),
        other => other,
    }
}

const fn backward(norm: Norm) -> Model {
    Model::Norm(Norm { is_backward: true, ..norm })
}

const fn trained(norm: Norm, training: usize) -> Model {
    Model::Norm(Norm { training: Some(training), ..norm })
}

const fn efficient(
    query: usize,
    lengths: [usize; 4],
    mask: usize,
    window: usize,
    is_backward: bool,
) -> Model {
    let (causal, sliding) = (Causal::MaskType(mask), Sliding::Last(window));
    let lengths = Some(lengths);
    Attention(AttentionPositions { query, layout: SequenceFirst, causal, lengths, sliding, is_backward })
}

const fn flash(query: usize, causal: &'static [usize], sides: [usize; 2], is_backward: bool) -> Model {
    sliding(attention_at(query, SequenceFirst, causal, is_backward), sides)
}

const GENERAL: Model = Convolution(ConvolutionPositions {
    bias: Some(2),
    stride: 3,
    padding: 4,
    dilation: 5,
    transposed: Some(6),
    output_padding: Some(7),
    groups: 8,
});

const LINEAR: Positions = Positions { transposed_b: true, ..Positions::of(0, 1) };

/// Models by the full name of the operator. Positions follow the schemas in PyTorch's `native_functions.yaml`
/// and `derivatives.yaml`, and those of flash-attention, vLLM and SGLang.
const NAMED: &[(&str, Model)] = &[
    ("aten::mm", Product(Positions::of(0, 1))),
    ("aten::bmm", Product(Positions::of(0, 1))),
    ("aten::matmul", Product(Positions::of(0, 1))),
    ("aten::mv", Product(Positions::of(0, 1))),
    ("aten::dot", Product(Positions::of(0, 1))),
    ("aten::vdot", Product(Positions::of(0, 1))),
    ("aten::_int_mm", Product(Positions::of(0, 1))),
    ("aten::_scaled_mm", Product(Positions { out_dtype: Some(6), ..Positions::of(0, 1) })),
    ("aten::addmm", Product(Positions::of(1, 2).adding(0, Some(3)))),
    ("aten::_addmm_activation", Product(Positions::of(1, 2).adding(0, Some(3)))),
    ("aten::addmv", Product(Positions::of(1, 2).adding(0, Some(3)))),
    ("aten::addmv_", Product(Positions::of(1, 2).adding(0, Some(3)))),
    ("aten::baddbmm", Product(Positions::of(1, 2).adding(0, Some(3)))),
    ("aten::baddbmm_", Product(Positions::of(1, 2).adding(0, Some(3)))),
    ("aten::linear", Product(LINEAR.adding(2, None))),
    ("aten::mkldnn_linear", Product(LINEAR.adding(2, None))),
    ("mkldnn::_linear_pointwise", Product(LINEAR.adding(2, None))),
    ("vllm::rocm_unquantized_gemm", Product(LINEAR.adding(2, None))),
    ("_C::cutlass_scaled_mm", Product(Positions { out: Some(0), ..Positions::of(1, 2) })),
    ("sgl_kernel::fp8_scaled_mm", Product(Positions { out_dtype: Some(4), ..Positions::of(0, 1) })),
    ("aten::_grouped_mm", GroupedProduct([0, 1, 2])),
    ("aten::_scaled_grouped_mm", GroupedProduct([0, 1, 4])),
    ("aten::conv1d", convolution_at(Some(2), [3, 4, 5, 6])),
    ("aten::conv2d", convolution_at(Some(2), [3, 4, 5, 6])),
    ("aten::conv3d", convolution_at(Some(2), [3, 4, 5, 6])),
    ("aten::convolution", GENERAL),
    ("aten::_convolution", GENERAL),
    ("aten::convolution_overrideable", GENERAL),
    ("aten::cudnn_convolution", convolution_at(None, [3, 2, 4, 5])),
    ("aten::cudnn_convolution_relu", convolution_at(Some(2), [3, 4, 5, 6])),
    ("aten::miopen_convolution", convolution_at(Some(2), [4, 3, 5, 6])),
    ("aten::miopen_depthwise_convolution", convolution_at(Some(2), [4, 3, 5, 6])),
    ("aten::mkldnn_convolution", convolution_at(Some(2), [4, 3, 5, 6])),
    ("aten::_conv_depthwise2d", convolution_at(Some(3), [4, 5, 6, 7])),
    ("aten::_slow_conv2d_forward", convolution_at(Some(3), [4, 5, 6, 7])),
    ("aten::slow_conv3d_forward", convolution_at(Some(3), [4, 5, 6, 7])),
    ("aten::convolution_backward", Model::ConvolutionBackward),
    ("aten::scaled_dot_product_attention", attention_at(0, HeadsFirst, &[5], false)),
    ("aten::_scaled_dot_product_flash_attention", attention_at(0, HeadsFirst, &[4], false)),
    ("aten::_scaled_dot_product_flash_attention_for_cpu", attention_at(0, HeadsFirst, &[4], false)),
    ("aten::_scaled_dot_product_efficient_attention", attention_at(0, HeadsFirst, &[6], false)),
    ("aten::_scaled_dot_product_cudnn_attention", attention_at(0, HeadsFirst, &[6], false)),
    ("aten::_scaled_dot_product_fused_attention_overrideable", attention_at(0, HeadsFirst, &[5], false)),
    ("aten::_flash_attention_forward", varying(flash(0, &[8], [11, 12], false), [3, 4, 5, 6])),
    ("aten::_efficient_attention_forward", efficient(0, [4, 5, 6, 7], 9, 13, false)),
    ("aten::_scaled_dot_product_flash_attention_backward", attention_at(1, HeadsFirst, &[11], true)),
    ("aten::_scaled_dot_product_flash_attention_for_cpu_backward", attention_at(1, HeadsFirst, &[7], true)),
    ("aten::_scaled_dot_product_efficient_attention_backward", attention_at(1, HeadsFirst, &[11], true)),
    ("aten::_scaled_dot_product_cudnn_attention_backward", attention_at(1, HeadsFirst, &[14, 13, 11], true)),
    ("aten::_flash_attention_backward", varying(flash(1, &[11], [15, 16], true), [6, 7, 8, 9])),
    ("aten::_efficient_attention_backward", efficient(1, [6, 7, 8, 9], 14, 18, true)),
    ("flash_attn::_flash_attn_forward", flash(0, &[5], [6, 7], false)),
    ("flash_attn::_flash_attn_backward", flash(1, &[11], [12, 13], true)),
    ("flash_attn::_flash_attn_varlen_forward", varying(flash(0, &[9], [10, 11], false), [3, 4, 5, 6])),
    ("flash_attn::_flash_attn_varlen_backward", varying(flash(1, &[15], [16, 17], true), [9, 10, 11, 12])),
    ("aten::native_layer_norm", LayerNorm),
    ("aten::native_layer_norm_backward", backward(norm_at(1, Some(5), None, [11, 8]))),
    ("aten::native_group_norm", Model::Norm(norm_at(0, Some(1), Some(2), [8, 6]))),
    ("aten::native_group_norm_backward", backward(norm_at(1, Some(4), None, [11, 8]))),
    ("aten::native_batch_norm", trained(norm_at(0, Some(1), Some(2), [8, 6]), 5)),
    ("aten::cudnn_batch_norm", trained(norm_at(0, Some(1), Some(2), [8, 6]), 5)),
    ("aten::miopen_batch_norm", trained(norm_at(0, Some(1), Some(2), [8, 6]), 5)),
    ("aten::native_batch_norm_backward", backward(norm_at(1, Some(2), None, [11, 8]))),
    ("aten::cudnn_batch_norm_backward", backward(norm_at(0, Some(2), None, [11, 8]))),
    ("aten::miopen_batch_norm_backward", backward(norm_at(0, Some(2), None, [11, 8]))),
    ("aten::rms_norm", Model::Norm(norm_at(0, Some(2), None, [4, 4]))),
    ("aten::_fused_rms_norm", Model::Norm(norm_at(0, Some(2), None, [4, 4]))),
    ("aten::_fused_rms_norm_backward", backward(norm_at(1, Some(4), None, [8, 8]))),
    ("_C::rms_norm", Model::Norm(norm_at(1, Some(2), None, [4, 4]))),
    ("aten::_softmax", Model::Softmax),
    ("aten::_log_softmax", Model::Softmax),
    ("aten::_safe_softmax", Model::Softmax),
    ("aten::_softmax_backward_data", Model::SoftmaxBackward),
    ("aten::_log_softmax_backward_data", Model::SoftmaxBackward),
    ("aten::native_dropout", Model::Dropout),
    ("aten::_fused_dropout", Model::Dropout),
    ("aten::native_dropout_backward", Model::DropoutBackward),
    ("aten::_masked_scale", Model::DropoutBackward),
    ("aten::embedding", Model::Embedding),
    ("aten::embedding_dense_backward", Model::EmbeddingBackward),
    ("aten::gather", Model::Gather),
    ("aten::index_select", Model::IndexSelect),
    ("aten::copy_", Model::Copy),
    ("aten::clone", Model::Duplicate),
    ("aten::contiguous", Model::Duplicate),
    ("aten::fill_", Model::Fill),
    ("aten::zero_", Model::Fill),
    ("aten::cat", Model::Cat),
    ("aten::_fused_adam_", Model::Optimizer(12)),
    ("aten::_fused_adamw_", Model::Optimizer(12)),
    ("aten::_fused_sgd_", Model::Optimizer(4)),
];

fn all() -> &'static HashMap<Vec<u8>, Model> {
    static MODELS: OnceLock<HashMap<Vec<u8>, Model>> = OnceLock::new();
    MODELS.get_or_init(|| {
        let mut models: HashMap<Vec<u8>, Model> = HashMap::new();
        let lists = [
            (UNARY, Model::Unary(1, false)),
            (UNARY_TO_BOOL, Model::Unary(1, true)),
            (BROADCASTING, Model::Broadcasting(2, 1, false)),
            (BROADCASTING_TO_BOOL, Model::Broadcasting(2, 1, true)),
        ];
        let lists = lists.into_iter().flat_map(|(names, model)| names.iter().map(move |n| (*n, model)));
        let three = THREE_INPUTS
            .iter()
            .map(|(name, per_element)| (*name, Model::Broadcasting(3, *per_element, false)));
        for (name, model) in lists.chain(three) {
            models.insert(format!("aten::{name}").into_bytes(), model);
            models.insert(format!("aten::{name}_").into_bytes(), model);
        }
        for (name, per_element, dims, gives) in REDUCTIONS {
            models
                .insert(format!("aten::{name}").into_bytes(), Model::Reduction(*per_element, *dims, *gives));
        }
        models.extend(NAMED.iter().map(|(name, model)| (name.as_bytes().to_vec(), *model)));
        models
    })
}

/// The model of an operator; `None` if it has none.
pub(crate) fn operator_model(name: &str) -> Option<Model> {
    all().get(name.as_bytes()).copied()
}

/// The model of one of PyTorch's own operators, without its namespace.
pub(crate) fn aten_model(name: &str) -> Option<Model> {
    operator_model(&format!("aten::{name}"))
}

/// Whether an operator of this name has a model, so that its inputs are needed.
pub fn has_model(name: &[u8]) -> bool {
    all().contains_key(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// FLOPs and bytes of an operator whose inputs have these shapes, types and scalars.
    fn work(name: &str, dims: &str, types: &[&str], concrete: &[&str]) -> (Option<u64>, Option<u64>) {
        let texts = [types, concrete].map(|t| serde_json::to_string(t).unwrap());
        let inputs = InputsOfCall::parse(dims, &texts[0], None, Some(&texts[1])).unwrap();
        let work = operator_model(name).unwrap().work(&inputs);
        (work.flops, work.bytes)
    }

    const BF16: &str = "c10::BFloat16";

    #[test]
    fn products_count_two_operations_for_each_pair() {
        // 2 x 3 x 4 products of rows and columns of 3.
        assert_eq!(
            work("aten::mm", "[[2,3],[3,4]]", &["float", "float"], &[]),
            (Some(48), Some(4 * (6 + 12 + 8)))
        );
        let addmm = |beta| {
            let types = ["float", "float", "float", "Scalar", "Scalar"];
            work("aten::addmm", "[[4],[2,3],[3,4],[],[]]", &types, &["", "", "", beta, "1"])
        };
        assert_eq!(addmm("1"), (Some(48 + 8), Some(4 * (6 + 12 + 8 + 4))));
        assert_eq!(addmm("0"), (Some(48), Some(4 * (6 + 12 + 8))));
        // The stated value of a real call: 32 batches of [2048,64] x [64,2048].
        let types = [BF16, BF16, BF16, "Scalar", "Scalar"];
        let baddbmm = "[[32,2048,2048],[32,2048,64],[32,64,2048],[],[]]";
        let batched = work("aten::baddbmm", baddbmm, &types, &["", "", "", "0.", "0.125"]);
        assert_eq!(batched.0, Some(17_179_869_184));
        assert_eq!(work("aten::linear", "[[5,2,3],[4,3],[4]]", &["float"; 3], &[]).0, Some(2 * 40 * 3 + 40));
        // Two 4-bit numbers in each byte of the shape.
        let packed = ["c10::Float4_e2m1fn_x2"; 2];
        assert_eq!(
            work("aten::_scaled_mm", "[[2,3],[3,4]]", &packed, &["", "", "", "", "", "", "15"]),
            (Some(96), Some(6 + 12 + 2 * 8))
        );
        assert_eq!(work("aten::mm", "[[2,3],[5,4]]", &["float"; 2], &[]), (None, None));
    }

    #[test]
    fn grouped_products_meet_one_matrix_each() {
        let of = |dims| work("aten::_grouped_mm", dims, &[BF16, BF16, "int"], &[]);
        assert_eq!(of("[[10,3],[2,3,4],[2]]"), (Some(2 * 10 * 3 * 4), Some(2 * (30 + 24 + 40))));
        assert_eq!(of("[[2,5,3],[2,3,4],[]]"), (Some(2 * 10 * 3 * 4), Some(2 * (30 + 24 + 40))));
        assert_eq!(of("[[6,10],[10,4],[2]]"), (Some(2 * 6 * 10 * 4), Some(2 * (60 + 40 + 48))));
    }

    #[test]
    fn convolutions_follow_their_windows() {
        let list = "ScalarList";
        // The stated value of a real call.
        let types = [BF16, BF16, list, list, list, "Scalar", "Scalar", "Scalar", "Scalar"];
        let dims = "[[128,3,224,224],[768,3,16,16],[],[],[],[],[],[],[]]";
        let concrete = ["", "", "[0, 0]", "[16, 16]", "[1, 1]", "1", "False", "False", "True"];
        assert_eq!(work("aten::cudnn_convolution", dims, &types, &concrete).0, Some(29_595_009_024));
        // One dimension: 8 inputs, window 3, stride 2, padding 1 give 4 outputs.
        let types = ["float", "float", "float", list, list, list, "Scalar"];
        let conv = |padding| {
            work(
                "aten::conv1d",
                "[[1,2,8],[4,2,3],[4],[],[],[],[]]",
                &types,
                &["", "", "", "[2]", padding, "[1]", "1"],
            )
        };
        assert_eq!(conv("[1]").0, Some(2 * 4 * 2 * 3 * 4 + 4 * 4));
        assert_eq!(conv("valid").0, Some(2 * 4 * 2 * 3 * 3 + 4 * 3));
        // Transposed: each of 8 inputs is spread over a window of 3.
        let types = ["float", "float", "", list, list, list, "Scalar", list, "Scalar"];
        let concrete = ["", "", "", "[2]", "[1]", "[1]", "True", "[0]", "2"];
        let transposed =
            work("aten::convolution", "[[1,2,8],[2,4,3],[],[],[],[],[],[],[]]", &types, &concrete);
        // 15 outputs in 2 x 4 channels.
        assert_eq!(transposed, (Some(2 * 2 * 4 * 3 * 8), Some(4 * (16 + 24 + 8 * 15))));
        let mut types = vec!["float"; 3];
        types.extend([list, list, list, list, "Scalar", list, "Scalar", list]);
        let backward = |mask| {
            let concrete = ["", "", "", "[16]", "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1", mask];
            let dims = "[[8,16,16,16],[8,8,16,16],[16,8,3,3],[],[],[],[],[],[],[],[]]";
            work("aten::convolution_backward", dims, &types, &concrete).0
        };
        assert_eq!(backward("[True, True, True]"), Some(2 * 4_718_592 + 32_768));
        assert_eq!(backward("[False, True, False]"), Some(4_718_592));
    }

    #[test]
    fn attention_counts_pairs_that_are_not_masked() {
        let flash = |dims: &str, causal: &str, more: &[&str]| {
            let (mut types, mut concrete) = (vec![BF16; 3], vec!["", "", ""]);
            types.extend(more);
            types.extend(["Scalar"; 5]);
            concrete.extend(["", "", "559", "559", "0.", causal]);
            work("aten::_flash_attention_forward", dims, &types, &concrete)
        };
        let dims = "[[16,559,16,64],[16,559,16,64],[16,559,16,64],[],[],[],[],[],[]]";
        assert_eq!(flash(dims, "True", &["", ""]), (Some(10_257_694_720), Some(73_269_248)));
        assert_eq!(flash(dims, "False", &["", ""]).0, Some(20_478_754_816 / 559 * 559));
        // Two sequences behind each other: known if both are as long as the longest.
        let same = "[[1118,16,64],[1118,16,64],[1118,16,64],[3],[3],[],[],[],[]]";
        assert_eq!(flash(same, "True", &["int", "int"]).0, Some(10_257_694_720 / 8));
        let other = "[[1000,16,64],[1000,16,64],[1000,16,64],[3],[3],[],[],[],[]]";
        let unknown = flash(other, "True", &["int", "int"]);
        assert_eq!((unknown.0, unknown.1.is_some()), (None, true));
        // Eight heads of queries share two of keys; 3 queries see 5 keys.
        let types = [BF16, BF16, BF16, "", "Scalar", "Scalar"];
        let shared = "[[2,8,3,4],[2,2,5,4],[2,2,5,4],[],[],[]]";
        let grouped =
            work("aten::scaled_dot_product_attention", shared, &types, &["", "", "", "", "0.", "False"]);
        assert_eq!(grouped, (Some(2 * 2 * 8 * 15 * 8), Some(2 * (192 + 80 + 80 + 192))));
        let causal =
            work("aten::scaled_dot_product_attention", shared, &types, &["", "", "", "", "0.", "True"]);
        assert_eq!(causal.0, Some(2 * 2 * 8 * 6 * 8));
    }

    #[test]
    fn a_window_that_slides_over_the_keys_leaves_pairs_out() {
        let types = |count: usize| [vec![BF16; 3], vec!["Scalar"; count]].concat();
        let flash = |keys: u64, causal, left, right| {
            let dims = format!("[[1,8,2,4],[1,{keys},2,4],[1,{keys},2,4],[],[],[],[],[]]");
            let concrete = ["", "", "", "0.", "0.5", causal, left, right];
            let flops = work("flash_attn::_flash_attn_forward", &dims, &types(5), &concrete).0;
            // Four operations per element of a head, for each pair of two heads.
            flops.map(|f| f / (4 * 4 * 2))
        };
        assert_eq!(flash(8, "True", "-1", "-1"), Some(36));
        // 1, 2, 3 and then 3 keys each.
        assert_eq!(flash(8, "True", "2", "0"), Some(1 + 2 + 6 * 3));
        assert_eq!(flash(8, "True", "2", "-1"), flash(8, "True", "2", "0"));
        // One on each side, and one less at both ends.
        assert_eq!(flash(8, "False", "1", "1"), Some(8 * 3 - 2));
        assert_eq!(flash(8, "False", "100", "100"), Some(64));
        assert_eq!(flash(8, "False", "-1", "0"), Some(36));
        // The last query lies at the last key; the first at key 4.
        assert_eq!((flash(12, "True", "2", "0"), flash(12, "True", "100", "0")), (Some(24), Some(96 - 28)));
        assert_eq!(flash(8, "True", "wide", "0"), None);
        // 1,024 keys of 8,192, as two operators record it.
        let dims =
            |more: usize| format!("[{},{}]", ["[1,8192,8,128]"; 3].join(","), vec!["[]"; more].join(","));
        let concrete = ["", "", "", "0.", "0.088", "True", "1023", "0", "0.", "", "False"];
        let of_package = work("flash_attn::_flash_attn_forward", &dims(8), &types(8), &concrete).0;
        let concrete =
            ["", "", "", "", "", "8192", "8192", "0.", "True", "False", "0.088", "1023", "0", "", ""];
        let types = [vec![BF16; 3], vec!["", ""], vec!["Scalar"; 8], vec!["", ""]].concat();
        let of_torch = work("aten::_flash_attention_forward", &dims(12), &types, &concrete).0;
        assert_eq!((of_package, of_torch), (Some(32_214_351_872), Some(32_214_351_872)));
    }

    #[test]
    fn element_wise_work_is_that_of_the_result() {
        assert_eq!(
            work("aten::add", "[[4,1],[3],[]]", &["float", "c10::Half", "Scalar"], &[]),
            (Some(12), Some(16 + 6 + 48))
        );
        // A number is an argument of the kernel, and the third input a place for the result.
        assert_eq!(work("aten::mul", "[[4],[],[4]]", &[BF16, "double", BF16], &[]), (Some(4), Some(16)));
        assert_eq!(work("aten::gt", "[[4],[]]", &["float", "Scalar"], &[]), (Some(4), Some(20)));
        assert_eq!(
            work("aten::addcmul_", "[[4],[4],[4],[]]", &["float", "float", "float", "Scalar"], &[]).0,
            Some(12)
        );
        let mean = work(
            "aten::mean",
            "[[2,6],[],[],[]]",
            &["float", "ScalarList", "Scalar", ""],
            &["", "[-1]", "False", ""],
        );
        assert_eq!(mean, (Some(12), Some(4 * 12 + 4 * 2)));
        assert_eq!(work("aten::sum", "[[2,6],[]]", &["float", ""], &[]), (Some(12), Some(4 * 12 + 4)));
        let softmax =
            work("aten::_softmax", "[[2,6],[],[]]", &["c10::Half", "Scalar", "Scalar"], &["", "-1", "True"]);
        assert_eq!(softmax, (Some(60), Some(2 * 12 + 4 * 12)));
        assert_eq!(
            work(
                "aten::embedding",
                "[[100,8],[3],[],[],[]]",
                &["float", "long int", "Scalar", "Scalar", "Scalar"],
                &[]
            ),
            (Some(0), Some(24 + 2 * 3 * 8 * 4))
        );
        let norm = |weight| {
            let types = ["float", "ScalarList", weight, weight, "Scalar"];
            work(
                "aten::native_layer_norm",
                "[[8,16,32,32],[],[16,32,32],[16,32,32],[]]",
                &types,
                &["", "[16, 32, 32]", "", "", "1e-5"],
            )
            .0
        };
        assert_eq!((norm(""), norm("float")), (Some(786_432), Some(8 * 131_072)));
    }

    #[test]
    fn a_repeated_element_is_read_once() {
        let types = serde_json::to_string(&["float", "float", "Scalar"]).unwrap();
        let inputs =
            InputsOfCall::parse("[[8,10],[8,10],[]]", &types, Some("[[10,1],[0,1],[]]"), None).unwrap();
        assert_eq!(operator_model("aten::copy_").unwrap().work(&inputs).bytes, Some(4 * (80 + 10)));
    }

    proptest! {
        /// Whatever a file says, a model answers or does not know.
        #[test]
        fn no_input_makes_a_model_fail(
            which in 0usize..1000,
            dims in prop::collection::vec(prop::collection::vec(0u64..=u64::MAX / 2, 0..5), 0..8),
            numbers in prop::collection::vec(any::<i64>(), 12),
            form in 0u8..4,
        ) {
            let names: Vec<&Vec<u8>> = { let mut all: Vec<_> = all().keys().collect(); all.sort(); all };
            let name = std::str::from_utf8(names[which % names.len()]).unwrap();
            let types = serde_json::to_string(&vec!["float"; dims.len()]).unwrap();
            let scalar = |n: &i64| match form {
                0 => n.to_string(),
                1 => format!("[{n}, {n}]"),
                2 => "[True, False, True]".to_string(),
                _ => if n % 2 == 0 { "True".to_string() } else { "valid".to_string() },
            };
            let concrete = serde_json::to_string(&numbers.iter().map(scalar).collect::<Vec<_>>()).unwrap();
            let dims = serde_json::to_string(&dims).unwrap();
            let inputs = InputsOfCall::parse(&dims, &types, Some(&dims), Some(&concrete)).unwrap_or_default();
            operator_model(name).unwrap().work(&inputs);
        }
    }
}

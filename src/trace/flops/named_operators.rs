//! Operators whose model depends on where their inputs are, by name.

use crate::flops::attention::{AttentionPositions, Causal, DimensionOrder, Sliding};
use crate::flops::convolution::ConvolutionPositions;
use crate::flops::matmul::Positions;
use crate::flops::models::Model;
use crate::flops::pointwise::Norm;
use DimensionOrder::{HeadsFirst, SequenceFirst};
use Model::{Attention, Convolution, GroupedProduct, LayerNorm, Product};

pub(super) const fn norm_at(input: usize, weight: Option<usize>, bias: Option<usize>, per_element: [u64; 2]) -> Norm {
    Norm { input, weight, bias, per_element, training: None, is_backward: false }
}

const fn convolution_at(bias: Option<usize>, [stride, padding, dilation, groups]: [usize; 4]) -> Model {
    let (transposed, output_padding) = (None, None);
    Convolution(ConvolutionPositions { bias, stride, padding, dilation, transposed, output_padding, groups })
}

const fn attention_at(query: usize, layout: DimensionOrder, causal: &'static [usize], is_backward: bool) -> Model {
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

const fn efficient(query: usize, lengths: [usize; 4], mask: usize, window: usize, is_backward: bool) -> Model {
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

/// Models by the full name of the operator. Positions follow the schemas in PyTorch's `native_functions.yaml` and
/// `derivatives.yaml`, and those of flash-attention, vLLM and SGLang.
pub(super) const NAMED: &[(&str, Model)] = &[
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

//! FLOPs and bytes of operators, from the recorded shapes, types and scalars of their inputs.
//!
//! A multiply-add counts as two operations. Bytes are compulsory traffic: every distinct input element is
//! read once, every output element written once. What cannot be computed from the recorded inputs is `None`,
//! never a guess. `hta explain ops` has the formulas.

mod attention;
mod convolution;
mod dtype;
mod elementwise_operators;
mod inputs;
mod matmul;
mod models;
pub mod peaks;
mod pointwise;
mod python_calls;
mod quantity;
pub mod roofline;

pub use dtype::{Dtype, Number};
pub use inputs::InputsOfCall;
pub use models::{Model, has_model};
pub use python_calls::{python_call, work_behind, work_inside};

/// The model of an operator, or of a call of Python that PyProf marked; `None` if it has none.
pub fn model(name: &str) -> Option<Model> {
    models::operator_model(name).or_else(|| python_calls::python_model(name))
}

/// What kind of work an operator does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// Products of matrices and vectors.
    Matmul,
    Convolution,
    Attention,
    Normalization,
    Softmax,
    /// One result per element.
    Elementwise,
    Reduction,
    /// Rows are looked up or selected.
    Gather,
    /// Data is moved or set.
    Copy,
    Optimizer,
}

impl Family {
    /// Whether its FLOPs count for the utilization of a model (MFU): products, convolutions and attention.
    pub fn is_matrix(self) -> bool {
        matches!(self, Family::Matmul | Family::Convolution | Family::Attention)
    }

    /// As in the tables: what kernels of this work are called, too
    /// ([`Category`](crate::kernel::category::Category)).
    pub fn name(self) -> &'static str {
        match self {
            Family::Matmul => "gemm",
            Family::Convolution => "convolution",
            Family::Attention => "attention",
            Family::Normalization => "normalization",
            Family::Softmax => "softmax",
            Family::Elementwise => "elementwise",
            Family::Reduction => "reduction",
            Family::Gather => "gather_scatter",
            Family::Copy => "layout",
            Family::Optimizer => "optimizer",
        }
    }
}

/// The work of one call of an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Work {
    pub family: Family,
    /// Operations; `None` if the inputs do not say.
    pub flops: Option<u64>,
    /// Compulsory traffic, bytes; `None` if the inputs do not say.
    pub bytes: Option<u64>,
    /// Type of the first matrix input, or of the first input; `None` if unknown.
    pub number: Option<Number>,
}

//! Operators whose work follows from the number of elements: normalizations, softmax, element-wise operators,
//! reductions, look-ups, copies and optimizers.

use crate::flops::dtype::Dtype;
use crate::flops::inputs::{InputsOfCall, Tensor};
use crate::flops::matmul::broadcast;
use crate::flops::quantity::{product, sum};
use crate::flops::{Family, Work};

/// Size of statistics (mean, reciprocal deviation), bytes per element: kept in single precision.
const STATISTIC: u64 = 4;

fn work(family: Family, of: &Tensor, flops: Option<u64>, bytes: Option<u64>) -> Option<Work> {
    Some(Work { family, flops, bytes, number: of.dtype.and_then(Dtype::number) })
}

/// Elements times the size of an element, bytes.
fn dense(t: &Tensor) -> Option<u64> {
    product(&[t.elements()?, t.size()?])
}

/// Normalizations over the input at a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Norm {
    pub(crate) input: usize,
    pub(crate) weight: Option<usize>,
    pub(crate) bias: Option<usize>,
    /// Operations per element with weight, and without.
    pub(crate) per_element: [u64; 2],
    /// Where the flag stands that chooses training; without training, 4 operations per element.
    pub(crate) training: Option<usize>,
    pub(crate) is_backward: bool,
}

pub(crate) fn norm(inputs: &InputsOfCall, at: Norm) -> Option<Work> {
    let x = inputs.tensor(at.input)?;
    let weight = at.weight.and_then(|i| inputs.tensor(i));
    let is_inference = at.training.is_some_and(|i| inputs.flag(i) == Some(false));
    let per_element = match (is_inference, weight.is_some()) {
        (true, _) => 4,
        (false, true) => at.per_element[0],
        (false, false) => at.per_element[1],
    };
    let flops = product(&[per_element, x.elements()?]);
    let parameters = [weight, at.bias.and_then(|i| inputs.tensor(i))];
    let parameters = parameters.into_iter().flatten().try_fold(0u64, |all, t| all.checked_add(t.bytes()?));
    // The gradient and the input are read, the gradient of the input is written.
    let passes = if at.is_backward { 2 } else { 1 };
    let bytes = sum([x.bytes().and_then(|b| product(&[b, passes])), dense(x), parameters]);
    work(Family::Normalization, x, flops, bytes)
}

/// Statistics that a forward normalization also writes: two numbers for each of so many groups.
pub(crate) fn with_statistics(work: Option<Work>, groups: Option<u64>) -> Option<Work> {
    let work = work?;
    Some(Work { bytes: sum([work.bytes, groups.and_then(|n| product(&[2, n, STATISTIC]))]), ..work })
}

pub(crate) fn softmax(inputs: &InputsOfCall, is_backward: bool) -> Option<Work> {
    let x = inputs.tensor(0)?;
    let elements = x.elements()?;
    let flops = product(&[if is_backward { 4 } else { 5 }, elements]);
    // Softmax may widen half precision.
    let widens = !is_backward && inputs.flag(2) == Some(true);
    let written = if widens { product(&[elements, 4]) } else { dense(x) };
    let second = if is_backward { inputs.tensor(1)?.bytes() } else { Some(0) };
    work(Family::Softmax, x, flops, sum([x.bytes(), second, written]))
}

/// One input tensor, one result of its shape.
pub(crate) fn unary(inputs: &InputsOfCall, per_element: u64, gives_bool: bool) -> Option<Work> {
    let x = inputs.tensor(0)?;
    let written = if gives_bool { x.elements() } else { dense(x) };
    work(Family::Elementwise, x, product(&[per_element, x.elements()?]), sum([x.bytes(), written]))
}

/// Dropout writes a mask of one byte per element.
pub(crate) fn dropout(inputs: &InputsOfCall) -> Option<Work> {
    let x = inputs.tensor(0)?;
    work(Family::Elementwise, x, product(&[2, x.elements()?]), sum([x.bytes(), dense(x), x.elements()]))
}

/// The backward pass of dropout reads the gradient and the mask.
pub(crate) fn dropout_backward(inputs: &InputsOfCall) -> Option<Work> {
    let (x, mask) = (inputs.tensor(0)?, inputs.tensor(1)?);
    work(Family::Elementwise, x, x.elements(), sum([x.bytes(), mask.elements(), dense(x)]))
}

/// The first `count` inputs broadcast to one result; further ones are options or a place for the result.
/// Numbers are arguments of the kernel and move no bytes: they are recorded as `double` or `long` without
/// dimensions, and only the first input may be a tensor like that.
pub(crate) fn broadcasting(
    inputs: &InputsOfCall,
    count: usize,
    per_element: u64,
    gives_bool: bool,
) -> Option<Work> {
    let is_number = |i: usize, t: &Tensor| {
        i > 0 && t.dims.is_empty() && matches!(t.dtype, Some(Dtype::Float64 | Dtype::Int64))
    };
    let of = inputs.tensors().take_while(|(i, _)| *i < count).filter(|(i, t)| !is_number(*i, t));
    let tensors: Vec<&Tensor> = of.map(|(_, t)| t).collect();
    let first = tensors.first()?;
    let shapes: Vec<&[u64]> = tensors.iter().map(|t| t.dims.as_slice()).collect();
    let out = product(&broadcast(&shapes)?)?;
    let read = tensors.iter().try_fold(0u64, |all, t| all.checked_add(t.bytes()?));
    // A tensor without dimensions does not widen the others.
    let dims = tensors.iter().map(|t| t.dims.len()).max().unwrap_or(0);
    let widest = tensors.iter().filter(|t| !t.dims.is_empty() || dims == 0);
    let dtype = widest.map(|t| t.dtype).reduce(|a, b| Some(a?.promoted(b?))).flatten();
    let size = if gives_bool { Some(1) } else { dtype.map(Dtype::size) };
    work(
        Family::Elementwise,
        first,
        product(&[per_element, out]),
        sum([read, size.and_then(|s| product(&[out, s]))]),
    )
}

/// What a reduction leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reduced {
    /// One number of the type of the input for each group.
    Same,
    Bool,
    /// The place of one.
    Index,
    /// A number and its place, if a dimension is given.
    WithIndex,
    /// As many as went in.
    Scan,
}

/// A reduction over the dimensions at a position, or all.
pub(crate) fn reduction(
    inputs: &InputsOfCall,
    per_element: u64,
    dims_at: usize,
    gives: Reduced,
) -> Option<Work> {
    let x = inputs.tensor(0)?;
    let elements = x.elements()?;
    let dims = inputs.ints(dims_at).or_else(|| inputs.int(dims_at).map(|d| vec![d]));
    // `sum(x, dtype)` has no dimensions at its second place.
    let dims = dims.filter(|d| !d.is_empty() && inputs.count() > 2);
    let groups = match (&dims, gives) {
        (_, Reduced::Scan) => Some(elements),
        (None, _) => Some(1),
        (Some(dims), _) => {
            let all = dims.iter().try_fold(1u64, |all, d| all.checked_mul(x.dim(*d)?));
            all.filter(|n| *n > 0).map(|n| elements / n)
        }
    };
    let size = match gives {
        Reduced::Same | Reduced::Scan => x.size(),
        Reduced::Bool => Some(1),
        Reduced::Index => Some(8),
        Reduced::WithIndex => x.size().map(|s| if dims.is_some() { s + 8 } else { s }),
    };
    let written = groups.zip(size).and_then(|(n, s)| product(&[n, s]));
    work(Family::Reduction, x, product(&[per_element, elements]), sum([x.bytes(), written]))
}

/// `aten::embedding`: a row of the table for each index.
pub(crate) fn embedding(inputs: &InputsOfCall) -> Option<Work> {
    let (table, index) = (inputs.tensor(0)?, inputs.tensor(1)?);
    let out = product(&[index.elements()?, table.dim(-1)?, table.size()?]);
    work(Family::Gather, table, Some(0), sum([index.bytes(), out, out]))
}

/// `aten::embedding_dense_backward`: rows of gradients are added to the table.
pub(crate) fn embedding_backward(inputs: &InputsOfCall) -> Option<Work> {
    let (dy, index) = (inputs.tensor(0)?, inputs.tensor(1)?);
    work(Family::Gather, dy, Some(0), sum([index.bytes(), dense(dy).and_then(|b| product(&[3, b]))]))
}

/// `aten::gather`: an element for each index.
pub(crate) fn gather(inputs: &InputsOfCall) -> Option<Work> {
    let (x, index) = (inputs.tensor(0)?, inputs.tensor(2)?);
    let out = index.elements().and_then(|e| product(&[e, x.size()?]));
    work(Family::Gather, x, Some(0), sum([index.bytes(), out, out]))
}

/// `aten::index_select`: a slice along a dimension for each index.
pub(crate) fn index_select(inputs: &InputsOfCall) -> Option<Work> {
    let (x, index) = (inputs.tensor(0)?, inputs.tensor(2)?);
    let along = x.dim(inputs.int(1)?).filter(|n| *n > 0)?;
    let out = product(&[x.elements()? / along, index.elements()?, x.size()?]);
    work(Family::Gather, x, Some(0), sum([index.bytes(), out, out]))
}

/// `aten::copy_`: the second input is read, the first is written.
pub(crate) fn copy(inputs: &InputsOfCall) -> Option<Work> {
    let (to, from) = (inputs.tensor(0)?, inputs.tensor(1)?);
    work(Family::Copy, to, Some(0), sum([from.bytes(), dense(to)]))
}

/// One input is read, and the same is written.
pub fn duplicate(inputs: &InputsOfCall) -> Option<Work> {
    let x = inputs.tensor(0)?;
    work(Family::Copy, x, Some(0), sum([x.bytes(), dense(x)]))
}

/// The first input is written.
pub(crate) fn fill(inputs: &InputsOfCall) -> Option<Work> {
    let x = inputs.tensor(0)?;
    work(Family::Copy, x, Some(0), dense(x))
}

/// A list of tensors is read, and written behind each other. The list has no element types.
pub(crate) fn cat(inputs: &InputsOfCall) -> Option<Work> {
    inputs.list_elements(0)?;
    Some(Work { family: Family::Copy, flops: Some(0), bytes: None, number: None })
}

/// Optimizers over lists of tensors, which have no element types.
pub(crate) fn optimizer(inputs: &InputsOfCall, per_element: u64) -> Option<Work> {
    let flops = product(&[per_element, inputs.list_elements(0)?]);
    Some(Work { family: Family::Optimizer, flops, bytes: None, number: None })
}

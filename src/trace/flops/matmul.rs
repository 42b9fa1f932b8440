//! Products of matrices and vectors: m x k times k x n is 2mnk operations.

use crate::flops::dtype::Dtype;
use crate::flops::inputs::{InputsOfCall, Tensor};
use crate::flops::quantity::{product, sum};
use crate::flops::{Family, Work};

/// The two factors and what is added, by position, and the position of the factor of what is added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Positions {
    pub(crate) a: usize,
    pub(crate) b: usize,
    /// What is added to the product, and where its factor `beta` stands (always 1 if nowhere).
    pub(crate) added: Option<(usize, Option<usize>)>,
    /// The factor `b` is stored as n x k.
    pub(crate) transposed_b: bool,
    /// Where the type of the result stands, if it may differ from that of `a`.
    pub(crate) out_dtype: Option<usize>,
    /// A tensor that the caller gives for the result.
    pub(crate) out: Option<usize>,
}

impl Positions {
    pub(crate) const fn of(a: usize, b: usize) -> Self {
        Positions { a, b, added: None, transposed_b: false, out_dtype: None, out: None }
    }

    pub(crate) const fn adding(self, at: usize, beta: Option<usize>) -> Self {
        Positions { added: Some((at, beta)), ..self }
    }
}

/// A product, batched or not, with broadcast batch dimensions.
pub(crate) fn product_of(inputs: &InputsOfCall, at: Positions) -> Option<Work> {
    let (a, b) = (inputs.tensor(at.a)?, inputs.tensor(at.b)?);
    // A vector is a matrix of one row, or of one column.
    let (m, k) = match a.dims.as_slice() {
        [k] => (1, *k),
        dims => (dims.get(dims.len().checked_sub(2)?).copied()?, a.dim(-1)?),
    };
    let (k_of_b, n) = match (b.dims.as_slice(), at.transposed_b) {
        ([k], _) => (*k, 1),
        (_, true) => (b.dim(-1)?, b.dim(-2)?),
        (_, false) => (b.dim(-2)?, b.dim(-1)?),
    };
    if k != k_of_b {
        return None;
    }
    let batch_of = |t: &Tensor| t.dims.get(..t.dims.len().saturating_sub(2)).unwrap_or_default().to_vec();
    let batch = broadcast(&[&batch_of(a), &batch_of(b)]).and_then(|dims| product(&dims))?;
    let k = product(&[k, a.dtype.map_or(1, Dtype::numbers)])?;
    let results = product(&[batch, m, n])?;
    let mut flops = product(&[2, results, k]);
    let named = at.out_dtype.and_then(|i| inputs.concrete(i)).and_then(Dtype::numbered);
    let given = at.out.and_then(|i| inputs.tensor(i)).and_then(|t| t.dtype);
    let size = given.or(named).or(a.dtype).map(Dtype::size);
    let mut bytes = sum([a.bytes(), b.bytes(), size.and_then(|s| product(&[results, s]))]);
    if let Some((added, beta)) = at.added
        && let Some(added) = inputs.tensor(added)
        && beta.and_then(|i| inputs.number(i)) != Some(0.0)
    {
        flops = sum([flops, Some(results)]);
        bytes = sum([bytes, added.bytes()]);
    }
    Some(Work { family: Family::Matmul, flops, bytes, number: a.dtype.and_then(Dtype::number) })
}

/// A product of matrices in groups, whose sizes are not recorded: every row of A meets one matrix of B.
///
/// ```text
///   [T,K] x [G,K,N]     2 T K N      rows belong to groups
///   [G,M,K] x [G,K,N]   2 G M K N
///   [M,T] x [T,N]       2 M T N      gradient of the weights: [G,M,N]
/// ```
pub(crate) fn grouped(inputs: &InputsOfCall, a: usize, b: usize, offsets: usize) -> Option<Work> {
    let groups = inputs.tensor(offsets).and_then(|t| t.dim(0)).unwrap_or(1);
    let (a, b) = (inputs.tensor(a)?, inputs.tensor(b)?);
    let (work, results) = match (a.dims.as_slice(), b.dims.as_slice()) {
        ([t, k], [_, kb, n]) if k == kb => ([*t, *k, *n], product(&[*t, *n])?),
        ([g, m, k], [gb, kb, n]) if (g, k) == (gb, kb) => {
            ([g.checked_mul(*m)?, *k, *n], product(&[*g, *m, *n])?)
        }
        ([m, t], [tb, n]) if t == tb => ([*m, *t, *n], product(&[groups, *m, *n])?),
        _ => return None,
    };
    let numbers = a.dtype.map_or(1, Dtype::numbers);
    let flops = product(&[2, work[0], work[1], work[2], numbers]);
    // Results of scaled products of 8-bit numbers have 16 bits.
    let size = a.size().map(|s| s.max(2));
    let bytes = sum([a.bytes(), b.bytes(), size.and_then(|s| product(&[results, s]))]);
    Some(Work { family: Family::Matmul, flops, bytes, number: a.dtype.and_then(Dtype::number) })
}

/// The shape to which shapes broadcast; `None` if they do not fit.
pub(crate) fn broadcast(shapes: &[&[u64]]) -> Option<Vec<u64>> {
    let rank = shapes.iter().map(|s| s.len()).max().unwrap_or(0);
    let mut out = vec![1; rank];
    for shape in shapes {
        for (size, dim) in out[rank - shape.len()..].iter_mut().zip(*shape) {
            match (*size, *dim) {
                (1, dim) => *size = dim,
                (size, dim) if dim != 1 && dim != size => return None,
                _ => {}
            }
        }
    }
    Some(out)
}

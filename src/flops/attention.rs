//! Fused attention: two products over all pairs of a query and a key that is not masked.
//!
//! ```text
//!   forward    2 pairs (d_qk + d_v)
//!   backward   2 pairs (3 d_qk + 2 d_v)      scores again, dP, dV, dQ, dK
//!   pairs      B H_q N_q N_k; causal: B H_q times N_q (N_q + 1) / 2 for N_q <= N_k,
//!              else N_k (N_k + 1) / 2 + (N_q - N_k) N_k
//! ```

use crate::flops::dtype::Dtype;
use crate::flops::inputs::{Inputs, Tensor};
use crate::flops::quantity::{product, sum};
use crate::flops::{Family, Work};

/// How the dimensions of the inputs are ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Batch, heads, sequence, size of a head.
    HeadsFirst,
    /// Batch, sequence, heads, size of a head; without batch for sequences of different lengths behind each other.
    SequenceFirst,
}

/// How a causal mask is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Causal {
    /// A flag; positions differ between versions, and the first that holds a truth value counts.
    Flag(&'static [usize]),
    /// `custom_mask_type` of xFormers: 0 none, 1 and 2 causal.
    MaskType(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Positions {
    /// Query; key and value follow.
    pub query: usize,
    pub layout: Layout,
    pub causal: Causal,
    /// Starts of the sequences of queries and keys, and their greatest lengths, where sequences may differ.
    pub lengths: Option<[usize; 4]>,
    pub is_backward: bool,
}

/// Shapes of one side: batch, sequence, heads, size of a head.
struct Shape {
    batch: u64,
    sequence: u64,
    heads: u64,
    size: u64,
}

/// The shape; `None` if sequences have different lengths, which are not recorded.
fn shape(inputs: &Inputs, tensor: &Tensor, at: Positions, side: usize) -> Option<Shape> {
    match (tensor.dims.as_slice(), at.layout) {
        ([batch, heads, sequence, size], Layout::HeadsFirst)
        | ([batch, sequence, heads, size], Layout::SequenceFirst) => {
            // Sequences behind each other, with a batch of one.
            let starts = at.lengths.and_then(|l| inputs.tensor(l[side]));
            if let Some(count) = starts.and_then(|t| t.dim(0)?.checked_sub(1)).filter(|n| *n != *batch) {
                return equal_lengths(inputs, at, side, count, *sequence, *heads, *size);
            }
            Some(Shape { batch: *batch, sequence: *sequence, heads: *heads, size: *size })
        }
        ([total, heads, size], Layout::SequenceFirst) => {
            let count = inputs.tensor(at.lengths?[side])?.dim(0)?.checked_sub(1)?;
            equal_lengths(inputs, at, side, count, *total, *heads, *size)
        }
        _ => None,
    }
}

/// Sequences behind each other: known only if all are as long as the longest.
fn equal_lengths(
    inputs: &Inputs,
    at: Positions,
    side: usize,
    count: u64,
    total: u64,
    heads: u64,
    size: u64,
) -> Option<Shape> {
    let longest = u64::try_from(inputs.int(at.lengths?[2 + side])?).ok()?;
    (product(&[count, longest])? == total).then_some(Shape { batch: count, sequence: longest, heads, size })
}

/// Pairs of one sequence of one head.
fn pairs(queries: u64, keys: u64, is_causal: bool) -> Option<u64> {
    // n (n + 1) / 2 without overflow: one of both is even.
    let triangle =
        |n: u64| if n.is_multiple_of(2) { product(&[n / 2, n.checked_add(1)?]) } else { product(&[n, n / 2 + 1]) };
    match is_causal {
        false => product(&[queries, keys]),
        true if queries <= keys => triangle(queries),
        true => sum([triangle(keys), product(&[queries - keys, keys])]),
    }
}

pub fn work(inputs: &Inputs, at: Positions) -> Option<Work> {
    let tensor = |i: usize| inputs.tensor(at.query + i);
    let (q, k, v) = (tensor(0)?, tensor(1)?, tensor(2)?);
    let number = q.dtype.and_then(Dtype::number);
    // Result and its gradient have the shape of the query with the head size of the value.
    let heads = q.dims.split_last().map(|(_, rest)| rest.to_vec())?;
    let out = product(&heads).and_then(|n| product(&[n, v.dim(-1)?, q.size()?]));
    let once = sum([q.bytes(), k.bytes(), v.bytes(), out]);
    let bytes = if at.is_backward { sum([once, once]) } else { once };
    let is_causal = match at.causal {
        Causal::Flag(places) => places.iter().find_map(|i| inputs.flag(*i)),
        Causal::MaskType(i) => Some(inputs.int(i).is_some_and(|t| t > 0)),
    };
    let flops = (|| {
        let (queries, keys) = (shape(inputs, q, at, 0)?, shape(inputs, k, at, 1)?);
        if queries.batch != keys.batch {
            return None;
        }
        let pairs = product(&[queries.batch, queries.heads, pairs(queries.sequence, keys.sequence, is_causal?)?])?;
        let size_of_value = v.dim(-1)?;
        let sizes = match at.is_backward {
            false => sum([Some(queries.size), Some(size_of_value)]),
            true => sum([product(&[3, queries.size]), product(&[2, size_of_value])]),
        };
        product(&[2, pairs, sizes?])
    })();
    Some(Work { family: Family::Attention, flops, bytes, number })
}

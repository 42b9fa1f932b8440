//! Fused attention: two products over all pairs of a query and a key that is not masked.
//!
//! ```text
//!   forward    2 pairs (d_qk + d_v)
//!   backward   2 pairs (3 d_qk + 2 d_v)      scores again, dP, dV, dQ, dK
//!   pairs      B H_q N_q N_k; causal: B H_q times N_q (N_q + 1) / 2 for N_q <= N_k,
//!              else N_k (N_k + 1) / 2 + (N_q - N_k) N_k
//!   window     query i meets the keys i - left to i + right only, counted from the end if N_q and N_k differ
//! ```

use crate::flops::dtype::Dtype;
use crate::flops::inputs::{InputsOfCall, Tensor};
use crate::flops::quantity::{product, sum};
use crate::flops::{Family, Work};

/// How the dimensions of the inputs are ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DimensionOrder {
    /// Batch, heads, sequence, size of a head.
    HeadsFirst,
    /// Batch, sequence, heads, size of a head; without batch for sequences of different lengths behind each
    /// other.
    SequenceFirst,
}

/// How a causal mask is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Causal {
    /// A flag; positions differ between versions, and the first that holds a truth value counts.
    Flag(&'static [usize]),
    /// `custom_mask_type` of xFormers: 0 none, 1 and 2 causal.
    MaskType(usize),
}

/// How a window that slides over the keys is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sliding {
    /// The operator has none.
    None,
    /// Keys before and after the query's own; below 0 and absent: all.
    Sides([usize; 2]),
    /// Number of keys up to the query's own; 0 and absent: all.
    Last(usize),
}

/// Keys before and after a query's own that it meets; `None`: all on that side.
type KeysMet = [Option<u64>; 2];

impl Sliding {
    /// The window of a call; `None` if what is recorded is no number.
    fn of(self, inputs: &InputsOfCall) -> Option<KeysMet> {
        // A number below 0 is no limit.
        let side = |at: usize| match inputs.concrete(at) {
            None | Some("None") => Some(None),
            Some(text) => text.parse::<i64>().ok().map(|n| u64::try_from(n).ok()),
        };
        match self {
            Sliding::None => Some([None, None]),
            Sliding::Sides([left, right]) => Some([side(left)?, side(right)?]),
            Sliding::Last(at) => Some(
                side(at)?.filter(|keys| *keys > 0).map_or([None, None], |keys| [Some(keys - 1), Some(0)]),
            ),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttentionPositions {
    /// Query; key and value follow.
    pub(crate) query: usize,
    pub(crate) layout: DimensionOrder,
    pub(crate) causal: Causal,
    /// Starts of the sequences of queries and keys, and their greatest lengths, where sequences may differ.
    pub(crate) lengths: Option<[usize; 4]>,
    pub(crate) sliding: Sliding,
    pub(crate) is_backward: bool,
}

/// Shapes of one side: batch, sequence, heads, size of a head.
struct Shape {
    batch: u64,
    sequence: u64,
    heads: u64,
    size: u64,
}

/// The shape; `None` if sequences have different lengths, which are not recorded.
fn shape(inputs: &InputsOfCall, tensor: &Tensor, at: AttentionPositions, side: usize) -> Option<Shape> {
    match (tensor.dims.as_slice(), at.layout) {
        ([batch, heads, sequence, size], DimensionOrder::HeadsFirst)
        | ([batch, sequence, heads, size], DimensionOrder::SequenceFirst) => {
            // Sequences behind each other, with a batch of one.
            let starts = at.lengths.and_then(|l| inputs.tensor(l[side]));
            if let Some(count) = starts.and_then(|t| t.dim(0)?.checked_sub(1)).filter(|n| *n != *batch) {
                return equal_lengths(inputs, at, side, count, *sequence, *heads, *size);
            }
            Some(Shape { batch: *batch, sequence: *sequence, heads: *heads, size: *size })
        }
        ([total, heads, size], DimensionOrder::SequenceFirst) => {
            let count = inputs.tensor(at.lengths?[side])?.dim(0)?.checked_sub(1)?;
            equal_lengths(inputs, at, side, count, *total, *heads, *size)
        }
        _ => None,
    }
}

/// Sequences behind each other: known only if all are as long as the longest.
fn equal_lengths(
    inputs: &InputsOfCall,
    at: AttentionPositions,
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
    let triangle = |n: u64| {
        if n.is_multiple_of(2) { product(&[n / 2, n.checked_add(1)?]) } else { product(&[n, n / 2 + 1]) }
    };
    match is_causal {
        false => product(&[queries, keys]),
        true if queries <= keys => triangle(queries),
        true => sum([triangle(keys), product(&[queries - keys, keys])]),
    }
}

/// Pairs of one sequence of one head where each query meets the keys of a window.
///
/// ```text
///   queries 3, keys 5, left 1, right 0      . . # . .   query i lies at key i + keys - queries;
///                                           . # # . .   f(c) = sum over i of i + c, within 0 and keys, so
///                                           . . # # .   pairs = f(keys - queries + right + 1) - f(keys - queries - left)
/// ```
fn pairs_in_window(queries: u64, keys: u64, [left, right]: KeysMet, from_start: bool) -> Option<u64> {
    let (n, k) = (i128::from(queries), i128::from(keys));
    let shift = if from_start { 0 } else { k - n };
    let sum_up_to = |c: i128| -> Option<i128> {
        let (first, full) = ((-c).clamp(0, n), (k - c).clamp(0, n));
        let rising = (full - first).checked_mul(first + full - 1 + 2 * c)? / 2;
        rising.checked_add((n - full).checked_mul(k)?)
    };
    let above = right.map_or(Some(n.checked_mul(k)?), |r| sum_up_to(shift + i128::from(r) + 1))?;
    let below = left.map_or(Some(0), |l| sum_up_to(shift - i128::from(l)))?;
    u64::try_from(above - below).ok()
}

pub(crate) fn work(inputs: &InputsOfCall, at: AttentionPositions) -> Option<Work> {
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
        let of_one = match at.sliding.of(inputs)? {
            [None, None] => pairs(queries.sequence, keys.sequence, is_causal?)?,
            [left, right] => {
                let right = if is_causal? { Some(0) } else { right };
                // xFormers counts from the first key for its mask type 1.
                let from_start = matches!(at.causal, Causal::MaskType(i) if inputs.int(i) == Some(1));
                pairs_in_window(queries.sequence, keys.sequence, [left, right], from_start)?
            }
        };
        let pairs = product(&[queries.batch, queries.heads, of_one])?;
        let size_of_value = v.dim(-1)?;
        let sizes = match at.is_backward {
            false => sum([Some(queries.size), Some(size_of_value)]),
            true => sum([product(&[3, queries.size]), product(&[2, size_of_value])]),
        };
        product(&[2, pairs, sizes?])
    })();
    Some(Work { family: Family::Attention, flops, bytes, number })
}

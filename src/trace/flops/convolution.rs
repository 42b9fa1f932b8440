//! Convolutions: every output element of every channel sums over a window of the channels of its group.
//!
//! ```text
//!   forward      2 N K (C/g) prod(R) prod(P),   P = floor((H + 2p - d(R - 1) - 1) / s) + 1
//!   transposed   2 N C (K/g) prod(R) prod(H)
//!   backward     one forward each for the gradients of the input and of the weights; N K prod(P) for the bias
//! ```

use crate::flops::dtype::Dtype;
use crate::flops::inputs::{InputsOfCall, Tensor};
use crate::flops::quantity::{product, sum};
use crate::flops::{Family, Work};

/// Positions of the parameters of a forward convolution; input and weight stand at 0 and 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConvolutionPositions {
    pub(crate) bias: Option<usize>,
    pub(crate) stride: usize,
    /// Numbers, or the words `same` and `valid`.
    pub(crate) padding: usize,
    pub(crate) dilation: usize,
    /// A flag: the convolution is transposed.
    pub(crate) transposed: Option<usize>,
    pub(crate) output_padding: Option<usize>,
    pub(crate) groups: usize,
}

/// A parameter per spatial dimension; one number stands for all.
fn per_dim(values: Option<Vec<i64>>, dims: usize, default: i64) -> Option<Vec<i64>> {
    match values {
        None => Some(vec![default; dims]),
        Some(v) if v.len() == dims => Some(v),
        Some(v) => match v.as_slice() {
            [] => Some(vec![default; dims]),
            [one] => Some(vec![*one; dims]),
            _ => None,
        },
    }
}

/// Spatial sizes of the output.
fn output(
    inputs: &InputsOfCall,
    at: ConvolutionPositions,
    x: &Tensor,
    w: &Tensor,
    is_transposed: bool,
) -> Option<Vec<u64>> {
    let (sizes, window) = (x.dims.get(2..)?, w.dims.get(2..)?);
    let n = sizes.len();
    if window.len() != n {
        return None;
    }
    let stride = per_dim(inputs.ints(at.stride), n, 1)?;
    let dilation = per_dim(inputs.ints(at.dilation), n, 1)?;
    let reach = |i: usize| dilation.get(i)?.checked_mul(i64::try_from(*window.get(i)?).ok()?.checked_sub(1)?);
    let padding: Vec<i64> = match inputs.concrete(at.padding) {
        // Both sides together: as much as the window reaches, so that the size stays.
        Some("same") => return Some(sizes.to_vec()),
        Some("valid") => vec![0; n],
        _ => per_dim(inputs.ints(at.padding), n, 0)?,
    };
    let added = per_dim(at.output_padding.and_then(|i| inputs.ints(i)), n, 0)?;
    let size = |i: usize| -> Option<u64> {
        let h = i64::try_from(*sizes.get(i)?).ok()?;
        let (s, p, reach) = (*stride.get(i)?, *padding.get(i)?, reach(i)?);
        let out = if is_transposed {
            let out = h.checked_sub(1)?.checked_mul(s)?.checked_sub(p.checked_mul(2)?)?.checked_add(reach)?;
            out.checked_add(*added.get(i)?)?.checked_add(1)?
        } else {
            let room = h.checked_add(p.checked_mul(2)?)?.checked_sub(reach)?.checked_sub(1)?;
            if room < 0 || s <= 0 {
                return None;
            }
            room / s + 1
        };
        u64::try_from(out).ok()
    };
    (0..n).map(size).collect()
}

pub(crate) fn forward(inputs: &InputsOfCall, at: ConvolutionPositions) -> Option<Work> {
    let (x, w) = (inputs.tensor(0)?, inputs.tensor(1)?);
    let is_transposed = at.transposed.and_then(|i| inputs.flag(i)).unwrap_or(false);
    let sizes = product(&output(inputs, at, x, w, is_transposed)?)?;
    let batch = x.dim(0)?;
    let window = product(w.dims.get(2..)?)?;
    let (channels, per_channel) = (w.dim(0)?, w.dim(1)?);
    let (flops, out_channels) = if is_transposed {
        // The weight is [C, K/g, ...].
        let groups = inputs.int(at.groups).and_then(|g| u64::try_from(g).ok()).unwrap_or(1);
        let inside = product(x.dims.get(2..)?)?;
        (product(&[2, batch, channels, per_channel, window, inside]), product(&[per_channel, groups])?)
    } else {
        (product(&[2, batch, channels, per_channel, window, sizes]), channels)
    };
    let out = product(&[batch, out_channels, sizes])?;
    let bias = at.bias.and_then(|i| inputs.tensor(i));
    let flops = sum([flops, Some(bias.map_or(0, |_| out))]);
    let written = x.size().and_then(|s| product(&[out, s]));
    let bytes = sum([x.bytes(), w.bytes(), written, bias.map_or(Some(0), Tensor::bytes)]);
    Some(Work { family: Family::Convolution, flops, bytes, number: x.dtype.and_then(Dtype::number) })
}

/// `aten::convolution_backward`: gradient, input, weight; the mask says which gradients are wanted.
pub(crate) fn backward(inputs: &InputsOfCall) -> Option<Work> {
    let (dy, x, w) = (inputs.tensor(0)?, inputs.tensor(1)?, inputs.tensor(2)?);
    let is_transposed = inputs.flag(7).unwrap_or(false);
    let window = product(w.dims.get(2..)?)?;
    let sizes = if is_transposed { product(x.dims.get(2..)?)? } else { product(dy.dims.get(2..)?)? };
    let forward = product(&[2, x.dim(0)?, w.dim(0)?, w.dim(1)?, window, sizes])?;
    let mask = inputs.flags(10)?;
    let asked = |i: usize| mask.get(i).copied().unwrap_or(false);
    let part = |asked: bool, work: u64| if asked { work } else { 0 };
    let moved = |asked: bool, bytes: Option<u64>| if asked { bytes } else { Some(0) };
    let bias = dy.dim(1).and_then(|k| product(&[k, dy.size()?]));
    let flops = sum([
        Some(part(asked(0), forward)),
        Some(part(asked(1), forward)),
        Some(part(asked(2), dy.elements()?)),
    ]);
    let bytes = sum([
        moved(asked(0), sum([dy.bytes(), w.bytes(), x.elements().and_then(|e| product(&[e, x.size()?]))])),
        moved(asked(1), sum([dy.bytes(), x.bytes(), w.elements().and_then(|e| product(&[e, w.size()?]))])),
        moved(asked(2), sum([dy.bytes(), bias])),
    ]);
    Some(Work { family: Family::Convolution, flops, bytes, number: dy.dtype.and_then(Dtype::number) })
}

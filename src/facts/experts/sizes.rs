//! How much one exchange of tokens moves, by peer: from the split lists and shapes of the events around it.
//!
//! Recorders write splits in three ways: as elements (`In split size` of some NCCL versions), as rows of the
//! buffer (the other versions, and `c10d::alltoall_base_`), and as a list of tensors (`c10d::alltoall_`).
//! Here all are elements. Lists that the recorder cut are dropped; the totals stay.

use crate::collectives::shapes;
use hta_trace::args::Arg;
use hta_trace::collective::dtype::element_bytes;
use hta_trace::rank_trace::RankTrace;
use serde_json::Value;

/// The sizes of one rank's part in an exchange, in elements.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ExchangeSizes {
    pub(super) sent: Option<i64>,
    pub(super) received: Option<i64>,
    /// To each member of the group, and (next field) from each; empty if not known of all.
    pub(super) sent_parts: Vec<i64>,
    pub(super) received_parts: Vec<i64>,
    /// Elements of a token: of a row of the buffer.
    pub(super) of_token: Option<i64>,
    /// Bytes of an element.
    pub(super) width: Option<i64>,
}

/// One side of an exchange, as one event tells it.
#[derive(Default)]
struct ExchangeSide {
    total: Option<i64>,
    parts: Vec<i64>,
    of_token: Option<i64>,
}

impl ExchangeSizes {
    /// From the rows that describe a call: the kernel, and the operators around its launch or submission.
    pub(super) fn of(trace: &RankTrace, rows: &[u32], members: Option<usize>) -> Self {
        let args = &trace.columns.args;
        let text = |arg| {
            let of_row = |row: &u32| args.text(arg, *row).map(|t| trace.text(t)).filter(|t| !t.is_empty());
            rows.iter().find_map(of_row)
        };
        let number = |arg| rows.iter().find_map(|row| args.int(arg, *row));
        let mut out = Self {
            sent: number(Arg::InNelems),
            received: number(Arg::OutNelems),
            width: text(Arg::Dtype).and_then(element_bytes),
            ..Self::default()
        };
        if let Some(row) = rows.iter().copied().find(|row| trace.name(*row).starts_with("c10d::alltoall")) {
            out.add_operator(trace, row);
        }
        if out.sent_parts.is_empty() || out.received_parts.is_empty() {
            // Without splits, only an exchange that is not one of unequal sizes divides evenly.
            let members = members.filter(|_| text(Arg::CollectiveName).is_none_or(|n| !n.ends_with('v')));
            let dims = text(Arg::InputDims).and_then(|t| serde_json::from_str::<Value>(t).ok());
            let of_row = dims.as_ref().zip(out.sent).and_then(|(dims, sent)| row_elements(dims, sent));
            out.of_token = out.of_token.or(of_row);
            let side = |total, arg| of_splits(total, text(arg)?, members);
            if let Some(side) = side(out.sent, Arg::InSplit) {
                (out.sent_parts, out.of_token) = (side.parts, out.of_token.or(side.of_token));
            }
            if let Some(side) = side(out.received, Arg::OutSplit) {
                (out.received_parts, out.of_token) = (side.parts, out.of_token.or(side.of_token));
            }
        }
        out
    }

    /// Inputs of `c10d::alltoall_base_` (output, input, group, output splits, input splits) and of
    /// `c10d::alltoall_` (outputs, inputs).
    fn add_operator(&mut self, trace: &RankTrace, row: u32) {
        let args = &trace.columns.args;
        let list = |arg| -> Vec<Value> {
            let text = args.text(arg, row).map_or("", |t| trace.text(t));
            serde_json::from_str(text).unwrap_or_default()
        };
        let (dims, inputs) = (list(Arg::InputDims), list(Arg::ConcreteInputs));
        let splits = |i: usize| inputs.get(i).and_then(Value::as_str);
        if let (Some(output), Some(input)) = (dims.first(), dims.get(1)) {
            let (received, sent) = (of_buffer(output, splits(3)), of_buffer(input, splits(4)));
            self.of_token = self.of_token.or(received.of_token).or(sent.of_token);
            (self.received, self.received_parts) = (self.received.or(received.total), received.parts);
            (self.sent, self.sent_parts) = (self.sent.or(sent.total), sent.parts);
        }
        let width = |v: &Value| v.as_str().and_then(element_bytes);
        self.width = self.width.or_else(|| list(Arg::InputType).first().and_then(width));
    }
}

/// A buffer with its splits in rows, or a list of tensors, of which each is for one member.
fn of_buffer(dims: &Value, splits: Option<&str>) -> ExchangeSide {
    let shape: Option<Vec<i64>> =
        dims.as_array().and_then(|list| list.iter().map(Value::as_i64).collect::<Option<_>>());
    let Some(shape) = shape.filter(|s| !s.is_empty()) else {
        let tensors = dims.as_array().map_or(&[][..], Vec::as_slice);
        let parts: Vec<i64> = tensors.iter().map_while(shapes::elements).collect();
        let is_known = !parts.is_empty() && parts.len() == tensors.len();
        return match is_known {
            true => ExchangeSide { total: Some(parts.iter().sum()), parts, of_token: None },
            false => ExchangeSide::default(),
        };
    };
    let of_row = shape.iter().skip(1).try_fold(1i64, |n, d| n.checked_mul(*d)).filter(|n| *n > 0);
    let total = of_row.and_then(|n| n.checked_mul(*shape.first()?));
    let rows = splits.and_then(list_of_numbers).unwrap_or_default();
    let parts = of_row.map_or(Vec::new(), |n| rows.iter().map(|r| r.saturating_mul(n)).collect());
    let is_whole = parts.iter().copied().try_fold(0i64, i64::checked_add) == total;
    // A buffer of one dimension does not say how long a token is.
    let of_token = of_row.filter(|_| shape.len() > 1);
    ExchangeSide { total, parts: if is_whole { parts } else { Vec::new() }, of_token }
}

/// Splits as elements, from a list in elements or rows; an empty list divides evenly.
fn of_splits(total: Option<i64>, text: &str, members: Option<usize>) -> Option<ExchangeSide> {
    let (total, list) = (total?, list_of_numbers(text)?);
    let sum = list.iter().copied().try_fold(0i64, i64::checked_add)?;
    if list.is_empty() {
        let n = i64::try_from(members?).ok().filter(|n| *n > 0 && total % *n == 0)?;
        return Some(ExchangeSide { parts: vec![total / n; members?], ..ExchangeSide::default() });
    }
    let is_of_all = members.is_none_or(|n| n == list.len());
    if !is_of_all || sum <= 0 || total % sum != 0 {
        return None;
    }
    let of_row = total / sum;
    let parts = list.iter().map(|n| n.saturating_mul(of_row)).collect();
    Some(ExchangeSide { parts, of_token: (of_row > 1).then_some(of_row), total: None })
}

/// Elements of a row of the first tensor of recorded shapes that holds exactly `total` elements.
fn row_elements(dims: &Value, total: i64) -> Option<i64> {
    let Value::Array(list) = dims else { return None };
    let shape: Option<Vec<i64>> = list.iter().map(Value::as_i64).collect();
    match shape {
        Some(shape) if shape.len() > 1 && shapes::elements(dims) == Some(total) => {
            shape.iter().skip(1).try_fold(1i64, |n, d| n.checked_mul(*d)).filter(|n| *n > 0)
        }
        Some(_) => None,
        None => list.iter().find_map(|inner| row_elements(inner, total)),
    }
}

/// A list as recorders write it; `None` if it is cut, or not a list.
fn list_of_numbers(text: &str) -> Option<Vec<i64>> {
    let inner = text.trim().strip_prefix('[')?.strip_suffix(']')?;
    inner.split(',').map(str::trim).filter(|p| !p.is_empty()).map(|p| p.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_in_rows_and_in_elements_are_the_same() {
        let rows = of_splits(Some(24), "[1, 2, 3]", Some(3)).expect("a list");
        assert_eq!((rows.parts, rows.of_token), (vec![4, 8, 12], Some(4)));
        let elements = of_splits(Some(24), "[4, 8, 12]", Some(3)).expect("a list");
        assert_eq!((elements.parts, elements.of_token), (vec![4, 8, 12], None));
        let even = of_splits(Some(24), "[]", Some(3)).expect("a list");
        assert_eq!(even.parts, [8, 8, 8]);
    }

    #[test]
    fn cut_lists_tell_nothing_of_parts() {
        assert!(of_splits(Some(24), "[1, 2, ...]", Some(3)).is_none());
        assert!(of_splits(Some(24), "[1, 2]", Some(3)).is_none());
        assert!(of_splits(Some(24), "[5, 2]", Some(2)).is_none());
    }

    #[test]
    fn a_token_is_a_row_of_the_buffer() {
        let dims = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        assert_eq!(row_elements(&dims("[[[6, 64]], []]"), 384), Some(64));
        assert_eq!(row_elements(&dims("[[384]]"), 384), None);
        let side = of_buffer(&dims("[6, 64]"), Some("[1, 2, 3]"));
        assert_eq!((side.total, side.parts, side.of_token), (Some(384), vec![64, 128, 192], Some(64)));
        let tensors = of_buffer(&dims("[[2, 8], [1, 8]]"), None);
        assert_eq!((tensors.total, tensors.parts), (Some(24), vec![16, 8]));
    }
}

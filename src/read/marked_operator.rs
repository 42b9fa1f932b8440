//! Operators that PyTorch marked by the text of a range.
//!
//! `torch.autograd.profiler.emit_nvtx` marks operators by ranges with texts such as `aten::mul, seq = 45328,
//! op_id = 990354, sizes = [[2, 3], [3]]`. nsys and nvprof record them as NVTX ranges, and traces of Kineto
//! have them as names of annotations or operators.

use std::borrow::Cow;

/// An operator that PyTorch marked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MarkedOperator<'a> {
    pub(crate) name: &'a str,
    /// Number that a forward operator shares with its backward operators; 0 is none.
    pub(crate) sequence: Option<i64>,
    pub(crate) record: Option<u64>,
    /// Dimensions of each input, as JSON.
    pub(crate) sizes: Option<&'a str>,
    /// Whether the text is that of a PyTorch that wrote `mul` for `aten::mul` (before 1.6).
    is_short: bool,
}

impl<'a> MarkedOperator<'a> {
    /// The name with its namespace.
    pub(crate) fn full_name(&self) -> Cow<'a, str> {
        if self.is_short { format!("aten::{}", self.name).into() } else { self.name.into() }
    }
}

/// What may follow the name, in this order.
const SEQUENCE: &str = ", seq = ";
const RECORD: &str = ", op_id = ";
const SIZES: &str = ", sizes = ";
const INPUT_RECORDS: &str = ", input_op_ids = ";

/// The number of the forward thread that operators of the backward pass get: it only tells them from others.
pub(crate) const FORWARD_THREAD: i64 = 1;

/// Name of the range around a node of the backward pass.
const NODE: &str = "autograd::engine::";

/// Name of the node that adds up gradients.
const ACCUMULATE: &str = "torch::autograd::AccumulateGrad";

/// Whether a name is that of a node of the backward pass: `MulBackward0`, `torch::autograd::CopyBackwards`.
pub(crate) fn is_backward_node(name: &str) -> bool {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    name.starts_with(NODE) || name == ACCUMULATE || stem.ends_with("Backward") || stem.ends_with("Backwards")
}

/// Whether a name is that of a function of the backward pass: `aten::threshold_backward`.
pub(crate) fn is_backward_name(name: &str) -> bool {
    name.trim_end_matches(|c: char| c.is_ascii_digit()).ends_with("backward")
}

/// The operator that a text marks; `None` for annotations.
pub(crate) fn operator(text: &str) -> Option<MarkedOperator<'_>> {
    // Where neither is, the texts behind them are not looked for.
    let is_mark = |at: &usize| [SIZES, INPUT_RECORDS].iter().any(|mark| text[*at..].starts_with(mark));
    let at = memchr::memchr_iter(b',', text.as_bytes()).find(is_mark);
    let (marks, inputs) = text.split_at_checked(at.unwrap_or(text.len())).unwrap_or((text, ""));
    let (marks, record) = number_after(marks, RECORD);
    let (name, sequence) = number_after(marks, SEQUENCE);
    let sizes = at.and_then(|_| inputs.split_once(SIZES)).map(|(_, sizes)| sizes);
    let sizes =
        sizes.and_then(|s| s.split(INPUT_RECORDS).next()).map(str::trim).filter(|s| s.starts_with('['));
    if name.is_empty()
        || sequence.is_none()
            && record.is_none()
            && sizes.is_none()
            && !name.starts_with(NODE)
            && name != ACCUMULATE
    {
        return None;
    }
    // Versions with numbers of records write namespaces; a name without one is that of a range of the user.
    let is_short = sequence.is_some()
        && record.is_none()
        && name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let sequence = sequence.filter(|s| *s > 0);
    let record = record.and_then(|r| u64::try_from(r).ok());
    Some(MarkedOperator { name, sequence, record, sizes, is_short })
}

/// Takes a mark with a number off the end of a text: what is before it, and the number.
fn number_after<'a>(text: &'a str, mark: &str) -> (&'a str, Option<i64>) {
    let start = text.trim_end_matches(|c: char| c.is_ascii_digit() || c == '-');
    match start.strip_suffix(mark) {
        Some(before) => match text.get(start.len()..).and_then(|n| n.parse().ok()) {
            Some(number) => (before, Some(number)),
            None => (text, None),
        },
        None => (text, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_are_told_from_annotations() {
        let of = |text| operator(text).map(|o| (o.name, o.sequence, o.record, o.sizes));
        let mul = "aten::mul, seq = 45328, op_id = 990354, sizes = [[2, 3], [3]]";
        assert_eq!(of(mul), Some(("aten::mul", Some(45328), Some(990354), Some("[[2, 3], [3]]"))));
        let with_records = "aten::mul, op_id = 7, sizes = [[2], []], input_op_ids = [(3,0), (4,0)]";
        assert_eq!(of(with_records), Some(("aten::mul", None, Some(7), Some("[[2], []]"))));
        assert_eq!(of("aten::mul, seq = x"), None);
        assert_eq!(of(", seq = 5"), None);
        assert_eq!(of("aten::mul, op_id = 7"), Some(("aten::mul", None, Some(7), None)));
        assert_eq!(of("MulBackward0, seq = 0"), Some(("MulBackward0", None, None, None)));
        let node = "autograd::engine::evaluate_function: MulBackward0";
        assert_eq!(of(node), Some((node, None, None, None)));
        assert_eq!(of("iteration 7, warm"), None);
        assert_eq!(of(""), None);
    }

    #[test]
    fn old_names_get_their_namespace() {
        let name = |text| operator(text).map(|o| o.full_name().into_owned());
        assert_eq!(name("_fused_dropout, seq = 5").as_deref(), Some("aten::_fused_dropout"));
        assert_eq!(name("MmBackward, seq = 5").as_deref(), Some("MmBackward"));
        assert_eq!(name("aten::mm, seq = 5").as_deref(), Some("aten::mm"));
        assert_eq!(name("forward, seq = 5, op_id = 7").as_deref(), Some("forward"));
    }

    #[test]
    fn names_tell_nodes_and_functions_of_the_backward_pass() {
        for node in ["MmBackward", "MulBackward0", "torch::autograd::CopyBackwards", ACCUMULATE] {
            assert!(is_backward_node(node) && !is_backward_name(node), "{node}");
        }
        assert!(
            is_backward_name("aten::threshold_backward") && !is_backward_node("aten::threshold_backward")
        );
        assert!(!is_backward_node("aten::mm") && !is_backward_name("aten::mm"));
    }
}

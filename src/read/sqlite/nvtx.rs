//! What the text of an NVTX range stands for.
//!
//! `torch.autograd.profiler.emit_nvtx` marks operators by ranges with texts such as
//! `aten::mul, seq = 45328, op_id = 990354, sizes = [[2, 3], [3]]`. PyProf's markers are Python dicts. Everything else is
//! an annotation.

use super::pyprof_marker::{DamagedMarker, MarkedCall, PyProfMarker, marker};
use regex::Regex;
use std::borrow::Cow;
use std::sync::LazyLock;

/// What a text stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Meaning<'a> {
    Operator(MarkedOperator<'a>),
    /// A function of Python that PyProf marked.
    Call(MarkedCall),
    /// The call stack of what is inside, innermost first, joined by `;`.
    Stack(String),
    /// A module, which is an annotation with this name.
    Module(String),
    Annotation(&'a str),
    /// A marker of PyProf that cannot be read.
    Damaged,
}

pub fn meaning(text: &str) -> Meaning<'_> {
    match marker(text) {
        Some(Ok(PyProfMarker::Call(call))) => Meaning::Call(call),
        Some(Ok(PyProfMarker::Stack(frames))) => Meaning::Stack(frames),
        Some(Ok(PyProfMarker::Module(name))) => Meaning::Module(name),
        Some(Err(DamagedMarker)) => Meaning::Damaged,
        None => operator(text).map_or(Meaning::Annotation(text), Meaning::Operator),
    }
}

/// An operator that PyTorch marked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MarkedOperator<'a> {
    pub name: &'a str,
    /// Number that a forward operator shares with its backward operators; 0 is none.
    pub sequence: Option<i64>,
    pub record: Option<u64>,
    /// Dimensions of each input, as JSON.
    pub sizes: Option<&'a str>,
    /// Whether the text is that of a PyTorch that wrote `mul` for `aten::mul` (before 1.6).
    is_short: bool,
}

impl<'a> MarkedOperator<'a> {
    /// The name with its namespace.
    pub fn full_name(&self) -> Cow<'a, str> {
        if self.is_short { format!("aten::{}", self.name).into() } else { self.name.into() }
    }
}

static MARKS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?s)^(.+?)(?:, seq = (-?\d+))?(?:, op_id = (\d+))?(?:, (?:input_op_ids|sizes) = .*)?$").ok()
});

/// The start of the sizes.
const SIZES: &str = ", sizes = ";

/// Name of the range around a node of the backward pass.
const NODE: &str = "autograd::engine::";

/// Name of the node that adds up gradients.
const ACCUMULATE: &str = "torch::autograd::AccumulateGrad";

/// Whether a name is that of a node of the backward pass: `MulBackward0`, `torch::autograd::CopyBackwards`.
pub fn is_backward_node(name: &str) -> bool {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    name.starts_with(NODE) || name == ACCUMULATE || stem.ends_with("Backward") || stem.ends_with("Backwards")
}

/// Whether a name is that of a function of the backward pass: `aten::threshold_backward`.
pub fn is_backward_name(name: &str) -> bool {
    name.trim_end_matches(|c: char| c.is_ascii_digit()).ends_with("backward")
}

/// The operator that a text marks; `None` for annotations.
fn operator(text: &str) -> Option<MarkedOperator<'_>> {
    let found = MARKS.as_ref()?.captures(text)?;
    let name = found.get(1)?.as_str();
    let (sequence, record) = (found.get(2), found.get(3));
    let sizes = text.find(SIZES).map(|at| text[at + SIZES.len()..].trim()).filter(|s| s.starts_with('['));
    if sequence.is_none() && record.is_none() && sizes.is_none() && !name.starts_with(NODE) && name != ACCUMULATE {
        return None;
    }
    // Versions with numbers of records write namespaces; a name without one is that of a range of the user.
    let is_short = sequence.is_some()
        && record.is_none()
        && name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let sequence = sequence.and_then(|s| s.as_str().parse().ok()).filter(|s| *s > 0);
    let record = record.and_then(|r| r.as_str().parse().ok());
    Some(MarkedOperator { name, sequence, record, sizes, is_short })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_are_told_from_annotations() {
        let of = |text| operator(text).map(|o| (o.name, o.sequence, o.record, o.sizes));
        let mul = "aten::mul, seq = 45328, op_id = 990354, sizes = [[2, 3], [3]]";
        assert_eq!(of(mul), Some(("aten::mul", Some(45328), Some(990354), Some("[[2, 3], [3]]"))));
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
        assert!(is_backward_name("aten::threshold_backward") && !is_backward_node("aten::threshold_backward"));
        assert!(!is_backward_node("aten::mm") && !is_backward_name("aten::mm"));
    }
}

//! What the text of an NVTX range stands for.
//!
//! `torch.autograd.profiler.emit_nvtx` marks operators by ranges with texts such as
//! `aten::mul, seq = 45328, op_id = 990354, sizes = [[2, 3], [3]]`. Everything else is an annotation.

use regex::Regex;
use std::sync::LazyLock;

/// An operator that PyTorch marked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MarkedOperator<'a> {
    pub name: &'a str,
    /// Number that a forward operator shares with its backward operators; 0 is none.
    pub sequence: Option<i64>,
    pub record: Option<u64>,
    /// Dimensions of each input, as JSON.
    pub sizes: Option<&'a str>,
}

static MARKS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?s)^(.+?)(?:, seq = (-?\d+))?(?:, op_id = (\d+))?(?:, (?:input_op_ids|sizes) = .*)?$").ok()
});

/// The start of the sizes.
const SIZES: &str = ", sizes = ";

/// The operator that a text marks; `None` for annotations.
pub fn operator(text: &str) -> Option<MarkedOperator<'_>> {
    let found = MARKS.as_ref()?.captures(text)?;
    let name = found.get(1)?.as_str();
    let (sequence, record) = (found.get(2), found.get(3));
    let sizes = text.find(SIZES).map(|at| text[at + SIZES.len()..].trim()).filter(|s| s.starts_with('['));
    let is_named = name.starts_with("autograd::engine::") || name == "torch::autograd::AccumulateGrad";
    if sequence.is_none() && record.is_none() && sizes.is_none() && !is_named {
        return None;
    }
    let sequence = sequence.and_then(|s| s.as_str().parse().ok()).filter(|s| *s > 0);
    Some(MarkedOperator { name, sequence, record: record.and_then(|r| r.as_str().parse().ok()), sizes })
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
}

//! The first call of each operator that a library of the vendor does: the library sets itself up in it, and
//! asks for and gives back memory for that.

use hashbrown::{HashMap, HashSet};
use hta_base::units::Ns;
use hta_trace::category::Class;
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::StrId;
use std::sync::Arc;

pub struct FirstCalls(HashSet<u32>);

impl FirstCalls {
    /// The shared instance of a rank.
    pub fn of(trace: &RankTrace) -> Arc<Self> {
        trace.shared(Self::new)
    }

    fn new(trace: &RankTrace) -> Self {
        let of_library = trace.columns.strings.each(is_of_library);
        let mut first: HashMap<StrId, (Ns, u32)> = HashMap::new();
        for &row in trace.host_rows().iter().flat_map(|(_, rows)| rows) {
            let name = trace.columns.name(row as usize);
            if trace.classes[row as usize] == Class::HostOp && of_library.holds(name) {
                let call = (trace.columns.ts[row as usize], row);
                let of_name = first.entry(name).or_insert(call);
                *of_name = call.min(*of_name);
            }
        }
        Self(first.into_values().map(|(_, row)| row).collect())
    }

    /// Whether an event is one of them, or inside one.
    pub fn are_around(&self, trace: &RankTrace, row: u32) -> bool {
        trace.stacks.outward(row).any(|r| self.0.contains(&r))
    }
}

/// Whether an operator multiplies matrices, convolves, or is named after a library.
fn is_of_library(name: &str) -> bool {
    const WORDS: [&str; 11] =
        ["convolution", "cudnn", "miopen", "blas", "sparse", "solver", "linalg", "_mm", "fft", "rnn", "lstm"];
    let Some((_, op)) = name.rsplit_once("::") else { return false };
    matches!(op, "mm" | "bmm" | "addmm" | "baddbmm" | "addbmm" | "matmul" | "linear" | "mv" | "addmv" | "dot")
        || op.starts_with("conv") && op.ends_with('d')
        || WORDS.iter().any(|word| op.contains(word))
}

#[cfg(test)]
mod tests {
    use super::is_of_library;

    #[test]
    fn operators_of_libraries_are_told_by_name() {
        for name in ["aten::addmm", "aten::cudnn_convolution", "aten::conv2d", "aten::_scaled_mm"] {
            assert!(is_of_library(name), "{name}");
        }
        for name in ["aten::cat", "aten::add", "prims::convert_element_type", "mm", "aten::to"] {
            assert!(!is_of_library(name), "{name}");
        }
    }
}

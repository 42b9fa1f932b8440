//! Graphs as they were captured: which calls each records, and what the host did when it made them.
//!
//! A replay of a graph has neither operators nor shapes. The trace of its capture has both, but no GPU work.
//! It is read before the ranks, reduced to this, and dropped, so that its size does not matter to them.
//!
//! ```text
//!   capture trace                                             here
//!   vllm::moe_forward [.........................)             operator 0
//!     aten::addmm       [..........)                          operator 1, inside 0
//!       hipLaunchKernel    [k1)                               call: k1, operator 1
//!     hipLaunchKernel                   [k2)                  call: k2, operator 0
//! ```

use crate::strings::{StrId, TraceTexts};

/// What a captured call does on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NodeKind<D = StrId> {
    Kernel,
    /// A copy; the direction as in `Memcpy DtoH`, if known.
    Copy(Option<D>),
    Set,
}

/// A call that was recorded into a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CapturedCall {
    pub kind: NodeKind,
    /// Name of the kernel; CUDA does not record it.
    pub name: Option<StrId>,
    /// Innermost operator around it, an index into [`CaptureFile::operators`].
    pub operator: Option<u32>,
}

/// One call of an operator during the capture.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CapturedOperator {
    pub name: StrId,
    /// The operator around it, which precedes it.
    pub outer: Option<u32>,
    /// Shapes, types, strides and scalars of its inputs, where recorded.
    pub inputs: [Option<StrId>; 4],
    /// Names of the modules around it, the outermost first, joined by `/`.
    pub module: Option<StrId>,
    /// Number of the innermost repeated layer in `module`.
    pub layer: Option<u32>,
    /// The innermost Python frames around it, innermost first, joined by `;`.
    pub stack: Option<StrId>,
    /// Source line of user code from which it was called.
    pub line: Option<StrId>,
    /// Whether the work of its inputs counts here, and not for an operator inside or around it.
    pub counts: bool,
}

/// One captured graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapturedGraph {
    /// Name of the innermost range around the capture, such as `capture_32_FULL`.
    pub name: Option<StrId>,
    /// The number in that name: requests for which kernels are launched.
    pub padded_batch: Option<u64>,
    /// In order of time.
    pub calls: Vec<CapturedCall>,
}

/// The captured graphs of one trace.
#[derive(Default)]
pub struct CaptureFile {
    pub file: String,
    /// Rank as told by the file or its name.
    pub rank: Option<u32>,
    pub texts: TraceTexts,
    pub operators: Vec<CapturedOperator>,
    /// In order of time.
    pub graphs: Vec<CapturedGraph>,
}

impl CaptureFile {
    /// Number of calls in all graphs.
    pub fn call_count(&self) -> usize {
        self.graphs.iter().map(|g| g.calls.len()).sum()
    }

    /// Memory of the contents, bytes.
    pub(crate) fn held_bytes(&self) -> u64 {
        let texts: usize = self.texts.iter().map(|(_, t)| t.len() + 8).sum();
        let operators = self.operators.len() * size_of::<CapturedOperator>();
        (texts + operators + self.call_count() * size_of::<CapturedCall>()) as u64
    }
}

/// All captures that the user gave.
#[derive(Default)]
pub struct Captures {
    pub files: Vec<CaptureFile>,
}

impl Captures {
    /// The files for a rank: those of its number, or all if none has it.
    pub fn of_rank(&self, rank: u32) -> impl Iterator<Item = &CaptureFile> {
        let has_own = self.files.iter().any(|f| f.rank == Some(rank));
        self.files.iter().filter(move |f| !has_own || f.rank == Some(rank))
    }

    /// Memory of the contents, bytes.
    pub fn held_bytes(&self) -> u64 {
        self.files.iter().map(CaptureFile::held_bytes).sum()
    }
}

/// The number in the name of a range around a capture: 32 in `capture_32_FULL`.
pub fn padded_batch(name: &str) -> Option<u64> {
    let rest = name.strip_prefix("capture_")?;
    rest.split('_').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(rank: Option<u32>, name: &str) -> CaptureFile {
        CaptureFile { file: name.to_string(), rank, ..CaptureFile::default() }
    }

    #[test]
    fn a_rank_takes_its_own_captures_or_all() {
        let captures = Captures { files: vec![file(Some(0), "a"), file(Some(1), "b"), file(None, "c")] };
        let of = |rank| captures.of_rank(rank).map(|f| f.file.as_str()).collect::<Vec<_>>();
        assert_eq!((of(1), of(7)), (vec!["b"], vec!["a", "b", "c"]));
    }

    #[test]
    fn the_batch_is_the_number_in_the_name() {
        assert_eq!(padded_batch("capture_32_FULL"), Some(32));
        assert_eq!(padded_batch("capture_8"), Some(8));
        assert_eq!((padded_batch("capture_FULL"), padded_batch("x_capture_3_A")), (None, None));
    }
}

//! Why a file has no rank, and why a run ended without an outcome.

use hta_read::error::{IDLE_PROCESS, ReadError, SetError};
use hta_read::input::Input;
use std::io;

#[derive(Debug)]
pub struct Refused {
    pub input: Input,
    pub error: ReadError,
}

impl Refused {
    /// Whether the refusal is a loss. The front end of an engine is none, nor a merged file beside
    /// the files of its ranks. A file that was only found in a folder and is not a trace is none, unless its
    /// name marks it as a rank's trace and it is not a whole file of another known kind.
    pub fn is_loss(&self) -> bool {
        let has_name = || self.input.has_trace_name() && !self.error.is_other_format();
        let is_idle = matches!(&self.error, ReadError::NothingRecorded { what, .. } if what == IDLE_PROCESS);
        let is_no_rank = is_idle
            || matches!(
                self.error,
                ReadError::FrontEnd { .. } | ReadError::MergedCopy { .. } | ReadError::TwinOfJson { .. }
            );
        !is_no_rank && (self.input.named || !self.error.is_foreign() || has_name())
    }
}

/// Whether one of them is a loss.
pub(super) fn is_loss(refused: &[Refused]) -> bool {
    refused.iter().any(Refused::is_loss)
}

/// Why a run ended without an outcome.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Set(#[from] SetError),
    /// No file could be read; each has its reason.
    #[error("cannot analyse anything: none of {} files is a readable trace", .0.len())]
    NothingReadable(Vec<Refused>),
    #[error("cannot write {what}: {source}")]
    Write { what: String, source: io::Error },
    #[error("cannot read back what the ranks left: {0}")]
    ReadBack(io::Error),
    #[error("cannot find the ranks asked for: the set holds {0}")]
    NoSuchRank(String),
}

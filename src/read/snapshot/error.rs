//! Why a memory snapshot or a memory timeline was not read.

use crate::error::ReadError;
use crate::room::OutOfMemory;
use hta_base::units::{MemoryLimit, fmt_bytes};
use thiserror::Error;

/// What is wrong with a file. Bytes are offsets in the decompressed file.
#[derive(Debug, Error)]
pub enum Problem {
    #[error("{0}")]
    Io(std::io::Error),
    #[error("expected {expected}, found the end of the file at byte {byte}")]
    Cut { expected: &'static str, byte: u64 },
    #[error("expected a memory snapshot or timeline, found that {0}")]
    Packed(String),
    #[error("this pickle asks to run `{module}.{name}` (byte {byte}); a memory snapshot never does")]
    Calls { module: String, name: String, byte: u64 },
    #[error("expected an opcode that memory snapshots use, found {name} at byte {byte}")]
    Opcode { name: String, byte: u64 },
    #[error("expected {expected}, found {found} at byte {byte}")]
    Malformed { expected: &'static str, found: String, byte: u64 },
    #[error("byte {byte}: {what}, more than the {limit} that are accepted")]
    Exceeds { what: String, limit: String, byte: u64 },
    #[error("expected a memory snapshot, found an NCCL flight recorder dump")]
    FlightRecorder,
    #[error("expected a memory snapshot or timeline, found {what}")]
    Other { what: &'static str },
    #[error("it needs more than {} of memory", fmt_bytes(limit.bytes))]
    TooLarge { limit: MemoryLimit },
}

impl Problem {
    /// Advice for the user.
    fn hint(&self) -> Option<&'static str> {
        match self {
            Problem::Io(_) => None,
            Problem::Cut { .. } => {
                Some("the file may still be being written, or its disk was full: dump it again")
            }
            Problem::Packed(_) => Some("it was cut or damaged when it was written or copied: copy it again"),
            Problem::Calls { .. } | Problem::Opcode { .. } => {
                Some("hta reads a pickle as data and runs nothing; do not open this file with Python either")
            }
            Problem::Malformed { .. } | Problem::Exceeds { .. } => {
                Some("`torch.cuda.memory._dump_snapshot(FILE)` writes a file that can be read")
            }
            Problem::FlightRecorder => Some(
                "PyTorch's `torchfrtrace` reads such dumps; memory is dumped with \
                 `torch.cuda.memory._dump_snapshot`",
            ),
            Problem::Other { .. } => {
                Some("`torch.cuda.memory._dump_snapshot(FILE)` writes a memory snapshot")
            }
            Problem::TooLarge { .. } => Some("raise --memory-limit"),
        }
    }

    /// The same of a file, whose name is shown.
    pub(super) fn of_file(self, file: &str) -> ReadError {
        let hint = self.hint();
        match self {
            Problem::Io(error) => ReadError::io(file, error),
            Problem::TooLarge { limit } => ReadError::TooLarge { file: file.to_string(), needs: None, limit },
            problem => ReadError::Dump { file: file.to_string(), problem: problem.to_string(), hint },
        }
    }
}

impl From<OutOfMemory> for Problem {
    fn from(OutOfMemory { limit, .. }: OutOfMemory) -> Self {
        Problem::TooLarge { limit }
    }
}

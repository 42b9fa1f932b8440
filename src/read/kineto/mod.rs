//! Reader of Kineto's Chrome-trace JSON: tokens, events, the document around them, and parallel reading in
//! pieces.

mod arg_keys;
mod arguments;
mod collecting;
pub(crate) mod composed;
pub mod cursor;
pub mod document;
mod emit_nvtx;
pub(crate) mod event;
mod event_array;
pub(crate) mod gaps;
pub(crate) mod header;
mod later_documents;
pub mod load;
mod memory;
pub(crate) mod merged;
pub mod number;
mod other_events;
mod other_kinds;
pub mod part;
mod peek;
pub(crate) mod pieces;
mod recent;
mod recovery;
mod refusal;
mod scratch;
pub mod sink;
pub mod text;

use super::format::{FileHead, FileStart, TraceFormat};
use super::input::{Input, PartKey};
use super::reading::{Reading, Unsettled};
use crate::error::ReadError;
use hta_trace::meta::{Meta, Recorder};

/// Chrome-trace JSON as PyTorch's profiler and related tools write it.
pub(crate) struct Kineto;

impl TraceFormat for Kineto {
    fn name(&self) -> &'static str {
        "Kineto"
    }

    fn sniff(&self, head: &[u8]) -> bool {
        let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
        matches!(text.iter().find(|b| !b.is_ascii_whitespace()), Some(b'{' | b'['))
    }

    fn peek(&self, input: &Input, start: &FileStart) -> Result<FileHead, ReadError> {
        let file = || input.shown.clone();
        let (rank, world) = match input.process.as_ref().map(|part| &part.key) {
            Some(PartKey::CopyOfRanks) => return Err(ReadError::MergedCopy { file: file() }),
            Some(PartKey::Mixed(what)) => return Err(ReadError::Merged { file: file(), what: what.clone() }),
            Some(PartKey::Rank(rank, _)) => (Some(*rank), None),
            Some(PartKey::Process(_) | PartKey::Idle(_) | PartKey::TwinOfJson | PartKey::WithoutRank)
            | None => {
                let meta = peek::peek(input, start)?;
                (meta.rank, meta.world_size)
            }
        };
        Ok(FileHead { rank, world, recorder: Recorder::Kineto })
    }

    fn head(&self, input: &Input, start: &FileStart) -> Meta {
        peek::peek(input, start).unwrap_or_default()
    }

    fn parts(&self, input: Input, start: &FileStart) -> Vec<Input> {
        merged::parts(input, start)
    }

    fn load(&self, input: &Input, how: &Reading) -> Result<Unsettled, ReadError> {
        load::load(input, how)
    }
}

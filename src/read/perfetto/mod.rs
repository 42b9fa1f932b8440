//! Reader of Perfetto protobuf (`.pftrace`): what torch.profiler writes itself since 2.14, and its Chrome
//! JSON as converters write it. Both become the rows of that JSON.
//!
//! The wire format is read by hand, over borrowed bytes. The alternatives were looked at: `prost` makes an
//! owned text of every annotation, of which a file has millions, and needs hand-written tags for the fields
//! that torch's GPU extensions add; `quick-protobuf` borrows, and is hardly kept up; `perfetto_protos` brings
//! the whole schema of Perfetto, without those extensions. Twelve messages of three kinds of values are less
//! than any of them.
//!
//! Surprising: torch's slices are paired by position, not by nesting ([`slices`]), and its file lacks what
//! its JSON has: rank, world size, devices, the direction of copies.

mod annotations;
mod captures;
mod counters;
mod events;
mod fields;
mod interned;
mod load;
mod packet;
mod packets;
mod recognize;
mod rows;
mod slices;
mod stages;
mod tracks;
mod walk;
mod wire;

use super::format::{FileHead, FileStart, TraceFormat};
use super::input::{Input, PERFETTO, PartKey};
use super::reading::{Reading, Unsettled};
use crate::error::ReadError;

/// Perfetto protobuf of torch.profiler.
pub(crate) struct Perfetto;

impl TraceFormat for Perfetto {
    fn name(&self) -> &'static str {
        PERFETTO
    }

    fn sniff(&self, head: &[u8]) -> bool {
        recognize::is_of_packets(head)
    }

    fn peek(&self, input: &Input, start: &FileStart) -> Result<FileHead, ReadError> {
        if let Some(reason) = start.damage.clone() {
            return Err(ReadError::Damaged { file: input.shown.clone(), reason });
        }
        match input.process.as_ref().map(|part| &part.key) {
            Some(PartKey::Mixed(what)) => {
                return Err(ReadError::Merged { file: input.shown.clone(), what: what.clone() });
            }
            Some(PartKey::TwinOfJson) => return Err(ReadError::TwinOfJson { file: input.shown.clone() }),
            Some(PartKey::WithoutRank) => return Err(ReadError::WithoutRank { file: input.shown.clone() }),
            _ => {}
        }
        Ok(FileHead { rank: None, world: None, recorder: recognize::writer(input)? })
    }

    fn parts(&self, input: Input, _: &FileStart) -> Vec<Input> {
        captures::parts(input)
    }

    fn load(&self, input: &Input, how: &Reading) -> Result<Unsettled, ReadError> {
        load::load(input, how)
    }
}

//! Memory for one rank: what a file holds while it is read, what the rank will need in all, and who may object.
//!
//! How much text a packed file unpacks to is known only at its end: what gzip writes there is modulo 4 GiB, and a
//! file may lie. So a rank starts with an [`estimate`], and asks again while it grows. Sizes are bytes. The
//! surprising thing: a [`Room`] may make the caller wait, until ranks that are analysed at the same time are done.

use crate::read::source::{Packing, packing, zstd_head};
pub use crate::units::MemoryLimit;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// What a file holds by now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Held {
    /// Columns without their texts.
    pub columns: u64,
    /// Texts of the columns.
    pub texts: u64,
    /// Text of the file that waits to be read.
    pub buffers: u64,
    /// Text read so far.
    pub unpacked: u64,
    /// The file is read to its end.
    pub is_whole: bool,
}

/// A rank has to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoRoom {
    pub limit: MemoryLimit,
}

/// Gives memory to a rank.
pub trait Room: Sync {
    /// The rank holds this much; it is told to stop where that is too much.
    ///
    /// # Errors
    /// When the file must not be read on.
    fn hold(&self, held: Held) -> Result<(), NoRoom>;
}

/// As much as it takes.
pub struct Unbounded;

impl Room for Unbounded {
    fn hold(&self, _: Held) -> Result<(), NoRoom> {
        Ok(())
    }
}

/// One rank with all memory to itself.
pub struct Alone(pub MemoryLimit);

impl Room for Alone {
    fn hold(&self, held: Held) -> Result<(), NoRoom> {
        if need(held) > self.0.bytes { Err(NoRoom { limit: self.0 }) } else { Ok(()) }
    }
}

/// A rank needs its columns this many times over, once its links, stacks and tables are made.
const TIMES_COLUMNS: u64 = 5;

/// And its texts: they stand in dictionaries of several tables at once, and in the report.
const TIMES_TEXTS: u64 = 6;

/// What a rank needs however small it is: buffers, dictionaries, encoders.
const AT_LEAST: u64 = 8 << 20;

/// A file is taken to need this part of its text, whatever is in it: so that a small file that unpacks without end is
/// refused in time. Traces need several times as much.
const TEXT_PER_BYTE: u64 = 16;

/// What a rank needs in all that holds this much.
pub fn need(held: Held) -> u64 {
    let columns = held.columns.saturating_mul(TIMES_COLUMNS);
    let texts = held.texts.saturating_mul(TIMES_TEXTS);
    let all = AT_LEAST.saturating_add(columns).saturating_add(texts).saturating_add(held.buffers);
    all.max(held.unpacked / TEXT_PER_BYTE)
}

/// What a rank with this much text will need, before it is read.
fn need_of_text(text: u64) -> u64 {
    AT_LEAST.saturating_add(text / 2)
}

/// Text in a file of a format that does not say how much, as a multiple of its packed size.
const USUAL_RATIO: u64 = 12;

/// What a file's rank will need, from its size and what its format says of its text.
pub fn estimate(path: &Path) -> u64 {
    need_of_text(text_size(path).unwrap_or(0))
}

fn text_size(path: &Path) -> Option<u64> {
    let size = std::fs::metadata(path).ok()?.len();
    match packing(path).ok()? {
        Packing::Plain => Some(size),
        Packing::Gzip => {
            let mut file = File::open(path).ok()?;
            file.seek(SeekFrom::End(-4)).ok()?;
            let mut tail = [0; 4];
            file.read_exact(&mut tail).ok()?;
            Some(unwrapped(u64::from(u32::from_le_bytes(tail)), size))
        }
        Packing::Zstd => {
            // a frame behind one without data is usually one of many
            let told = zstd_head(path).ok()?.filter(|head| !head.is_behind_others).and_then(|head| head.content);
            Some(told.unwrap_or(size.saturating_mul(USUAL_RATIO)))
        }
    }
}

/// A size modulo 4 GiB, as large as the packed size makes likely.
fn unwrapped(modulo: u64, packed: u64) -> u64 {
    const WRAP: u64 = 1 << 32;
    let likely = packed.saturating_mul(USUAL_RATIO);
    modulo.saturating_add(likely.saturating_sub(modulo) / WRAP * WRAP)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_modulo_four_gib_is_told_by_the_packed_size() {
        assert_eq!(unwrapped(100_000_000, 5_000_000), 100_000_000);
        assert_eq!(unwrapped(1 << 20, 500 << 20), (1 << 32) + (1 << 20));
    }

    #[test]
    fn need_grows_with_what_is_held_and_with_the_text() {
        let held = |columns, unpacked| need(Held { columns, unpacked, ..Held::default() });
        assert!(held(1 << 20, 0) > AT_LEAST);
        assert!(held(1 << 30, 0) > held(1 << 29, 0) * 3 / 2);
        assert_eq!(held(0, 1 << 40), 1 << 36);
    }

    #[test]
    fn alone_a_rank_is_stopped_at_the_limit() {
        let room = Alone(MemoryLimit { bytes: 100 << 20, given: true });
        assert!(room.hold(Held { columns: 10 << 20, ..Held::default() }).is_ok());
        assert!(room.hold(Held { columns: 100 << 20, ..Held::default() }).is_err());
    }
}

//! Memory of one rank: what a file holds while it is read, an estimate of the rank's total need, and the
//! interface that admits it. Sizes in bytes.
//!
//! The size of the decompressed text is known only at the end: gzip stores it modulo 4 GiB, and the value may
//! be wrong. So a rank starts with an [`estimate`] and asks again while it grows. A [`MemoryGate`] may make
//! the caller wait until other ranks are done.

use crate::input::Input;
use crate::source::{Compression, zstd_head};
use hashbrown::HashMap;
pub use hta_base::units::MemoryLimit;
use std::io::Read;

/// Memory that a file holds at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryUse {
    /// Columns without their texts.
    pub columns: u64,
    /// Texts of the columns.
    pub texts: u64,
    /// Text of the file that is not parsed yet.
    pub buffers: u64,
    /// Text read so far.
    pub unpacked: u64,
    /// Whether the file has been read to its end.
    pub is_whole: bool,
}

/// Memory was refused: reading must stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutOfMemory {
    pub limit: MemoryLimit,
    /// What the rank held when it was refused.
    pub held: MemoryUse,
}

/// Admits the memory of a rank.
pub trait MemoryGate: Sync {
    /// Reports that the rank holds this much memory.
    ///
    /// # Errors
    /// When that is too much and reading must stop.
    fn hold(&self, held: MemoryUse) -> Result<(), OutOfMemory>;
}

/// Admits everything.
pub struct Unbounded;

impl MemoryGate for Unbounded {
    fn hold(&self, _: MemoryUse) -> Result<(), OutOfMemory> {
        Ok(())
    }
}

/// Admits one rank up to a limit.
pub struct FixedLimit(pub MemoryLimit);

impl MemoryGate for FixedLimit {
    fn hold(&self, held: MemoryUse) -> Result<(), OutOfMemory> {
        if need(held) > self.0.bytes { Err(OutOfMemory { limit: self.0, held }) } else { Ok(()) }
    }
}

/// A rank's need as a multiple of its columns, once links, stacks and tables are built.
const TIMES_COLUMNS: u64 = 5;

/// The same for its texts, which are copied to the dictionaries of several tables and to the report.
const TIMES_TEXTS: u64 = 6;

/// Least need of a rank: buffers, dictionaries, encoders.
const AT_LEAST: u64 = 8 << 20;

/// Text read per byte of need at least, whatever the file contains, so that a small file that decompresses
/// without end is refused in time. Traces need several times as much.
const TEXT_PER_BYTE: u64 = 16;

/// Total need of a rank that holds this much.
pub fn need(held: MemoryUse) -> u64 {
    let columns = held.columns.saturating_mul(TIMES_COLUMNS);
    let texts = held.texts.saturating_mul(TIMES_TEXTS);
    let all = AT_LEAST.saturating_add(columns).saturating_add(texts).saturating_add(held.buffers);
    all.max(held.unpacked / TEXT_PER_BYTE)
}

/// Total need of a file's rank that held this much when it was refused: what a rank holds grows with its
/// text.
pub fn need_of_whole(input: &Input, held: MemoryUse) -> u64 {
    let text = text_size(input).unwrap_or(0).max(held.unpacked);
    let grown = |bytes: u64| (u128::from(bytes) * u128::from(text) / u128::from(held.unpacked.max(1))) as u64;
    let whole = MemoryUse { columns: grown(held.columns), texts: grown(held.texts), unpacked: text, ..held };
    need(whole)
}

/// Total need of a rank with this much text, before it is read.
fn need_of_text(text: u64) -> u64 {
    AT_LEAST.saturating_add(text / 2)
}

/// Assumed compression ratio of a file that does not say how much text it contains.
const USUAL_RATIO: u64 = 12;

/// Memory of a hash map, bytes. While it grows, what it held and twice as much are there.
pub(crate) fn of_map<K, V>(map: &HashMap<K, V>) -> u64 {
    const WHILE_IT_GROWS: usize = 3;
    let slots = (map.capacity() * 8 / 7).next_power_of_two();
    (slots * (size_of::<(K, V)>() + 1) * WHILE_IT_GROWS) as u64
}

/// Estimated need of a file's rank, from its size and what its format says about the text.
pub fn estimate(input: &Input) -> u64 {
    need_of_text(text_size(input).unwrap_or(0))
}

fn text_size(input: &Input) -> Option<u64> {
    let size = input.path.size().ok()?;
    match input.packing().ok()? {
        Compression::Plain => Some(size),
        Compression::Gzip => {
            let mut tail = [0; 4];
            input.path.open_at(size.checked_sub(4)?).ok()?.read_exact(&mut tail).ok()?;
            Some(unwrapped(u64::from(u32::from_le_bytes(tail)), size))
        }
        Compression::Zstd => {
            // A frame after one without data is usually one of many, so its size says little.
            let told = zstd_head(&input.path)
                .ok()?
                .filter(|head| !head.is_behind_others)
                .and_then(|head| head.content);
            Some(told.unwrap_or(size.saturating_mul(USUAL_RATIO)))
        }
    }
}

/// Resolves a size modulo 4 GiB to the most likely value for the compressed size.
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
        let held = |columns, unpacked| need(MemoryUse { columns, unpacked, ..MemoryUse::default() });
        assert!(held(1 << 20, 0) > AT_LEAST);
        assert!(held(1 << 30, 0) > held(1 << 29, 0) * 3 / 2);
        assert_eq!(held(0, 1 << 40), 1 << 36);
    }

    #[test]
    fn alone_a_rank_is_stopped_at_the_limit() {
        let room = FixedLimit(MemoryLimit { bytes: 100 << 20, given: true });
        assert!(room.hold(MemoryUse { columns: 10 << 20, ..MemoryUse::default() }).is_ok());
        assert!(room.hold(MemoryUse { columns: 100 << 20, ..MemoryUse::default() }).is_err());
    }
}

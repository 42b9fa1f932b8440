//! How a file is read, and the result.

use super::options::LoadOptions;
use super::room::MemoryGate;
use super::source::ByteCount;
use hta_trace::events::{Columns, ColumnsBuilder};
use hta_trace::meta::{Meta, RankSource};
use hta_trace::rank_trace::{ModelOptions, RankTrace};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spread {
    /// Everything on the calling thread: there are as many files as cores, or only one thread.
    Inline,
    /// Decompression on a second thread, plain files in pieces on all cores.
    AllCores,
}

/// A file that was loaded.
pub struct Loaded {
    pub columns: Columns,
    pub meta: Meta,
    /// Size of the decompressed text, bytes.
    pub unpacked_bytes: u64,
}

impl Loaded {
    /// The model of the rank whose file `shown` is.
    pub fn into_trace(self, rank: u32, source: RankSource, shown: String, model: &ModelOptions) -> RankTrace {
        RankTrace::new(rank, source, shown, self.unpacked_bytes, self.meta, self.columns, model)
    }
}

/// One file as its format's reader leaves it: times are those of the file.
pub struct Unsettled {
    pub(crate) columns: ColumnsBuilder,
    pub(crate) meta: Meta,
    /// Size of the unpacked text, bytes.
    pub(crate) unpacked_bytes: u64,
}

/// How much of a file is looked at at once. It never changes what is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunks {
    /// Bytes of text per step; small enough to stay in the cache between decompression and parsing.
    pub block: usize,
    /// Bytes of a plain file per piece.
    pub piece: usize,
}

impl Default for Chunks {
    fn default() -> Self {
        Self { block: 256 << 10, piece: 1 << 20 }
    }
}

#[derive(Clone, Copy)]
pub struct Reading<'a> {
    pub(crate) options: LoadOptions,
    pub(crate) spread: Spread,
    pub(crate) chunks: Chunks,
    /// Counts the bytes read from disk, for progress.
    pub(crate) count: &'a ByteCount,
    /// Grants memory, or stops the reading.
    pub(crate) room: &'a dyn MemoryGate,
}

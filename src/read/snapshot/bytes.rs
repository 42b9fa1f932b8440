//! The bytes of a pickle, read block by block. An announced length is never trusted: a long text is collected
//! as its bytes arrive.

use super::error::Problem;
use crate::source::{Source, SourceError};

/// Size of the block that is in memory.
const BLOCK: usize = 256 << 10;

/// A stream with a block of look-ahead.
pub(crate) struct PickleBytes {
    source: Box<dyn Source>,
    block: Vec<u8>,
    /// Next byte in `block`, and end of the valid ones.
    at: usize,
    end: usize,
    /// Offset in the file of the first byte of `block`.
    base: u64,
    /// A text that is longer than what was left of the block.
    long: Vec<u8>,
    /// Why the source ended early, if it did; told once the bytes before are used.
    pub(crate) damage: Option<String>,
    is_done: bool,
}

impl PickleBytes {
    pub(crate) fn new(source: Box<dyn Source>) -> Self {
        Self {
            source,
            block: vec![0; BLOCK],
            at: 0,
            end: 0,
            base: 0,
            long: Vec::new(),
            damage: None,
            is_done: false,
        }
    }

    /// Offset of the next byte.
    pub(crate) fn offset(&self) -> u64 {
        self.base + self.at as u64
    }

    /// The next byte, or `None` at the end.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<u8>, Problem> {
        if self.at == self.end && self.fill(1)? == 0 {
            return Ok(None);
        }
        let byte = self.block.get(self.at).copied();
        self.at += 1;
        Ok(byte)
    }

    /// The next `N` bytes.
    #[inline]
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Problem> {
        let bytes = self.take(N)?;
        bytes.try_into().map_err(|_| Problem::Cut { expected: "the rest of a pickle", byte: 0 })
    }

    /// The next `len` bytes.
    #[inline]
    pub(crate) fn take(&mut self, len: usize) -> Result<&[u8], Problem> {
        if self.end - self.at >= len {
            let from = self.at;
            self.at += len;
            return Ok(self.block.get(from..from + len).unwrap_or_default());
        }
        self.take_slowly(len)
    }

    #[cold]
    fn take_slowly(&mut self, len: usize) -> Result<&[u8], Problem> {
        self.long.clear();
        while self.long.len() < len {
            if self.at == self.end && self.fill(1)? == 0 {
                return Err(Problem::Cut { expected: "the rest of a pickle", byte: self.offset() });
            }
            let n = (len - self.long.len()).min(self.end - self.at);
            self.long.extend_from_slice(self.block.get(self.at..self.at + n).unwrap_or_default());
            self.at += n;
        }
        Ok(&self.long)
    }

    /// A line without its end, of at most `most` bytes.
    pub(crate) fn line(&mut self, most: usize) -> Result<String, Problem> {
        let mut line = Vec::new();
        while let Some(byte) = self.next()? {
            if byte == b'\n' || line.len() == most {
                break;
            }
            line.push(byte);
        }
        Ok(String::from_utf8_lossy(&line).into_owned())
    }

    /// Reads the next block once the present one is used up. Returns the number of bytes that are there.
    fn fill(&mut self, least: usize) -> Result<usize, Problem> {
        self.base += self.end as u64;
        (self.at, self.end) = (0, 0);
        while self.end < least && !self.is_done {
            match self.source.read(self.block.get_mut(self.end..).unwrap_or_default()) {
                Ok(0) => self.is_done = true,
                Ok(n) => self.end += n,
                Err(SourceError::Io(e)) => return Err(Problem::Io(e)),
                Err(SourceError::Cut { reason, .. }) => {
                    self.damage = Some(reason);
                    self.is_done = true;
                }
            }
        }
        Ok(self.end)
    }
}

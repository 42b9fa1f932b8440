//! Opens files and objects as sources of decompressed bytes.

use crate::files::Location;
use crate::read_ahead::ReadAhead;
use crate::source::{ByteCount, Compression, Counted, Source, UpToDamage, decoder, open_once};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

/// How a file is compressed, from its first four bytes.
pub(crate) fn packing(at: &Location) -> io::Result<Compression> {
    sniffed(at).map(|(packing, _)| packing)
}

/// Opens a file of which nothing is known, and tells how it is compressed.
pub(crate) fn open_any(at: &Location) -> io::Result<(Compression, Box<dyn Source>)> {
    let (packing, file) = sniffed(at)?;
    let source = decoder(at, packing, Counted { inner: file, count: ByteCount::default() })?;
    Ok((packing, up_to_damage(source, at, packing)))
}

fn sniffed(at: &Location) -> io::Result<(Compression, Box<dyn Read + Send>)> {
    at.check_file()?;
    let mut head = [0; 4];
    let mut file = at.open()?;
    let mut n = 0;
    while n < head.len() {
        match file.read(&mut head[n..])? {
            0 => break,
            k => n += k,
        }
    }
    let packing = match &head[..n] {
        [0x1f, 0x8b, ..] => Compression::Gzip,
        // A frame with data, or a skippable frame, which `pzstd` writes before each frame.
        [0x28, 0xb5, 0x2f, 0xfd] | [0x50..=0x5f, 0x2a, 0x4d, 0x18] => Compression::Zstd,
        _ => Compression::Plain,
    };
    Ok((packing, Box::new(io::Cursor::new(head).take(n as u64).chain(file))))
}

/// Opens a file as a stream of decompressed bytes. With `ahead`, decompression runs on its own thread.
pub fn open(
    at: &Location,
    packing: Compression,
    count: &ByteCount,
    ahead: bool,
) -> io::Result<Box<dyn Source>> {
    let source = up_to_damage(open_once(at, packing, count)?, at, packing);
    Ok(if ahead && packing != Compression::Plain { Box::new(ReadAhead::new(source)) } else { source })
}

fn up_to_damage(source: Box<dyn Source>, at: &Location, packing: Compression) -> Box<dyn Source> {
    match packing {
        Compression::Plain => source,
        _ => {
            Box::new(UpToDamage { source, at: at.clone(), packing, given: 0, rest: Vec::new(), damage: None })
        }
    }
}

/// A part of a plain file that is read in pieces on several cores.
pub(crate) struct FileRange {
    file: Counted<File>,
}

impl FileRange {
    /// The part of a file from `start` on.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open(path: &Path, start: u64, count: &ByteCount) -> io::Result<Self> {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(start))?;
        Ok(Self { file: Counted { inner: file, count: Arc::clone(count) } })
    }

    /// Reads on into `out`, which already holds `filled` bytes of the part, until it holds `len` bytes or the
    /// file ends. Returns the number of bytes that it holds.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(crate) fn read_up_to(
        &mut self,
        len: usize,
        mut filled: usize,
        out: &mut Vec<u8>,
    ) -> io::Result<usize> {
        if out.len() < len {
            out.resize(len, 0);
        }
        while filled < len {
            match self.file.read(&mut out[filled..len]) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(filled)
    }
}

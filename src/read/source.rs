//! Sources of bytes: plain, gzip or zstd files, on disk or in a store. The first bytes decide about
//! decompression, not the name. Data is decompressed as a stream, so that a rank's text is never completely
//! in memory.

use crate::files::{Fault, Location};
use flate2::bufread::GzDecoder;
use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How a file is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    Plain,
    Gzip,
    Zstd,
}

/// Bytes read from files so far, for progress.
pub type ByteCount = Arc<AtomicU64>;

/// Why reading stopped before the end.
#[derive(Debug)]
pub enum SourceError {
    Io(io::Error),
    /// The compressed data ends early or is damaged; everything before that is valid.
    Cut {
        reason: String,
        /// Damaged, not only truncated.
        damaged: bool,
    },
}

/// What follows the compressed data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Trailing {
    pub garbage: bool,
}

/// A stream of decompressed bytes.
pub trait Source: Send {
    /// Fills `out` as far as possible; returns 0 at the end.
    fn read(&mut self, out: &mut [u8]) -> Result<usize, SourceError>;
    /// Whether bytes after the compressed data were ignored; known at the end.
    fn trailing(&self) -> Trailing {
        Trailing::default()
    }
    /// Size of the decoder's window once that much is decompressed, bytes.
    fn window(&self) -> u64 {
        0
    }
}

pub(crate) fn open_once(
    at: &Location,
    packing: Compression,
    count: &ByteCount,
) -> io::Result<Box<dyn Source>> {
    decoder(at, packing, Counted { inner: at.open()?, count: Arc::clone(count) })
}

pub(crate) fn decoder(
    at: &Location,
    packing: Compression,
    counted: FileBytes,
) -> io::Result<Box<dyn Source>> {
    Ok(match packing {
        Compression::Plain => Box::new(Plain(counted)),
        Compression::Gzip => {
            let packed = BufReader::with_capacity(PACKED_BUFFER, counted);
            Box::new(Gzip { members: GzipMembers::Next(packed), damage: None, garbage: false })
        }
        Compression::Zstd => {
            let window = zstd_head(at)?.map_or(0, |head| head.window);
            let mut decoder = zstd::stream::read::Decoder::new(counted)?;
            let log = window.checked_next_power_of_two().map_or(LARGEST_WINDOW_LOG, u64::ilog2);
            decoder.window_log_max(log.clamp(USUAL_WINDOW_LOG, LARGEST_WINDOW_LOG))?;
            Box::new(Zstd { decoder, window, damage: None })
        }
    })
}

const PACKED_BUFFER: usize = 64 << 10;

pub(crate) struct Counted<R> {
    pub(super) inner: R,
    pub(super) count: ByteCount,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buf)?;
        self.count.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

/// The bytes of a file as they are.
pub(crate) type FileBytes = Counted<Box<dyn Read + Send>>;

pub(crate) struct Plain(FileBytes);

impl Source for Plain {
    fn read(&mut self, out: &mut [u8]) -> Result<usize, SourceError> {
        // A plain file gives the same error again on the next call, so nothing needs to be stored.
        fill(&mut self.0, out, &mut None).map_err(SourceError::Io)
    }
}

/// Reads until `out` is full or the stream ends. Bytes before an error are valid: the error is stored in
/// `damage` for the next call, because a decoder that has failed may claim to be at its end.
fn fill(from: &mut impl Read, out: &mut [u8], damage: &mut Option<io::Error>) -> io::Result<usize> {
    if let Some(e) = damage.take() {
        return Err(e);
    }
    let mut n = 0;
    while n < out.len() {
        match from.read(&mut out[n..]) {
            Ok(0) => break,
            Ok(k) => n += k,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) if n > 0 => {
                *damage = Some(e);
                break;
            }
            Err(e) => return Err(e),
        }
    }
    Ok(n)
}

type PackedReader = BufReader<FileBytes>;

enum GzipMembers {
    /// Before the header of a member, or at the end.
    Next(PackedReader),
    Inside(Box<GzDecoder<PackedReader>>),
    Done,
}

/// Decoder for gzip files with any number of members.
struct Gzip {
    members: GzipMembers,
    damage: Option<io::Error>,
    garbage: bool,
}

impl Source for Gzip {
    fn read(&mut self, out: &mut [u8]) -> Result<usize, SourceError> {
        loop {
            match std::mem::replace(&mut self.members, GzipMembers::Done) {
                GzipMembers::Done => return Ok(0),
                GzipMembers::Next(mut packed) => {
                    let head = packed.fill_buf().map_err(SourceError::Io)?;
                    if head.is_empty() {
                        continue;
                    }
                    if !(head[0] == 0x1f && head.get(1).is_none_or(|b| *b == 0x8b)) {
                        // Zeros are padding (tapes, block devices); other bytes are counted as trailing data.
                        self.garbage = head.iter().any(|b| *b != 0);
                        continue;
                    }
                    self.members = GzipMembers::Inside(Box::new(GzDecoder::new(packed)));
                }
                GzipMembers::Inside(mut member) => match fill(&mut member, out, &mut self.damage) {
                    Ok(0) => self.members = GzipMembers::Next(member.into_inner()),
                    Ok(n) => {
                        self.members = GzipMembers::Inside(member);
                        return Ok(n);
                    }
                    Err(e) => return Err(cut("gzip", e)),
                },
            }
        }
    }

    fn trailing(&self) -> Trailing {
        Trailing { garbage: self.garbage }
    }
}

/// Window size that every decoder supports: that of `zstd --long`.
const USUAL_WINDOW_LOG: u32 = 27;

/// Largest supported window, 2 GiB: that of `zstd --long=31`.
const LARGEST_WINDOW_LOG: u32 = 31;

/// Header of the first frame with data in a zstd file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ZstdHead {
    /// Window size, bytes.
    pub(crate) window: u64,
    /// Decompressed size of the frame, if stored.
    pub(crate) content: Option<u64>,
    /// Whether frames without data precede it.
    pub(crate) is_behind_others: bool,
}

/// Reads the header of the first frame with data; `None` if the file has none.
///
/// # Errors
/// When the file cannot be read.
pub(crate) fn zstd_head(file: &Location) -> io::Result<Option<ZstdHead>> {
    let mut at = 0;
    loop {
        let mut head = Vec::with_capacity(FRAME_HEAD);
        file.open_at(at)?.take(FRAME_HEAD as u64).read_to_end(&mut head)?;
        match head.as_slice() {
            [0x50..=0x5f, 0x2a, 0x4d, 0x18, a, b, c, d, ..] => {
                at = at.saturating_add(8 + u64::from(u32::from_le_bytes([*a, *b, *c, *d])));
            }
            [0x28, 0xb5, 0x2f, 0xfd, descriptor, window, ..] => {
                let content = zstd::zstd_safe::get_frame_content_size(&head).ok().flatten();
                // RFC 8878, 3.1.1.1: a single segment has no window byte; its window is the whole content.
                let is_single = descriptor & 0x20 != 0;
                let base = 1u64 << (10 + (window >> 3));
                let window =
                    if is_single { content.unwrap_or(0) } else { base + base / 8 * u64::from(window & 7) };
                return Ok(Some(ZstdHead { window, content, is_behind_others: at > 0 }));
            }
            _ => return Ok(None),
        }
    }
}

/// Longest header of a frame, bytes.
const FRAME_HEAD: usize = 18;

struct Zstd {
    decoder: zstd::stream::read::Decoder<'static, PackedReader>,
    window: u64,
    damage: Option<io::Error>,
}

impl Source for Zstd {
    fn read(&mut self, out: &mut [u8]) -> Result<usize, SourceError> {
        fill(&mut self.decoder, out, &mut self.damage).map_err(|e| cut("zstd", e))
    }

    fn window(&self) -> u64 {
        self.window
    }
}

/// The error of a decoder: damage of the data, unless the data could not be had.
fn cut(format: &str, e: io::Error) -> SourceError {
    if Fault::of(&e).is_some() {
        return SourceError::Io(e);
    }
    let damaged = e.kind() != io::ErrorKind::UnexpectedEof;
    let reason = if damaged {
        format!("the {format} stream is damaged ({e})")
    } else {
        format!("the {format} stream ends early")
    };
    SourceError::Cut { reason, damaged }
}

/// A compressed file, read exactly up to the byte where it is damaged.
///
/// A decoder that meets damage does not report what it has decompressed in the same call, so the loss would
/// depend on the size of the request. Therefore the failed stretch is decompressed again, byte by byte.
pub(crate) struct UpToDamage {
    pub(super) source: Box<dyn Source>,
    pub(super) at: Location,
    pub(super) packing: Compression,
    /// Number of bytes returned so far.
    pub(super) given: u64,
    /// Valid bytes that remain, last byte first.
    pub(super) rest: Vec<u8>,
    pub(super) damage: Option<SourceError>,
}

impl UpToDamage {
    /// Decompresses up to `most` further bytes again, byte by byte: the valid ones and the error after them.
    /// `None` if the file has changed.
    fn again(&self, most: usize) -> Option<(Vec<u8>, SourceError)> {
        let mut source = open_once(&self.at, self.packing, &ByteCount::default()).ok()?;
        let mut known = vec![0; PACKED_BUFFER];
        let mut left = self.given;
        while left > 0 {
            let next = known.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            match source.read(&mut known[..next]) {
                Ok(n) if n > 0 => left -= n as u64,
                _ => return None,
            }
        }
        let (mut rest, mut byte) = (Vec::new(), [0]);
        loop {
            match source.read(&mut byte) {
                Ok(1) if rest.len() < most => rest.push(byte[0]),
                Ok(_) => return None,
                Err(e) => {
                    rest.reverse();
                    return Some((rest, e));
                }
            }
        }
    }
}

impl Source for UpToDamage {
    fn read(&mut self, out: &mut [u8]) -> Result<usize, SourceError> {
        if self.damage.is_none() {
            match self.source.read(out) {
                Err(e @ SourceError::Cut { damaged: true, .. }) => match self.again(out.len()) {
                    Some((rest, end)) => (self.rest, self.damage) = (rest, Some(end)),
                    None => return Err(e),
                },
                other => {
                    self.given += *other.as_ref().unwrap_or(&0) as u64;
                    return other;
                }
            }
        }
        let n = out.len().min(self.rest.len());
        out.iter_mut().zip(self.rest.drain(self.rest.len() - n..).rev()).for_each(|(to, byte)| *to = byte);
        match n {
            0 => Err(self.damage.take().unwrap_or(SourceError::Io(io::ErrorKind::UnexpectedEof.into()))),
            n => Ok(n),
        }
    }

    fn trailing(&self) -> Trailing {
        self.source.trailing()
    }

    fn window(&self) -> u64 {
        self.source.window()
    }
}

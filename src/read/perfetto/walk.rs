//! Goes over the packets of a file while it is unpacked: each packet, each damage, and the end of the file.
//! All that is read of a file of packets is read so.

use super::packets::{PacketBuffer, PacketStep};
use crate::source::{Source, SourceError};
use std::io;

/// What comes next in a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Walked<'a> {
    /// A packet, and the offset of its content in the unpacked file. Where its end holds packets of its own,
    /// [`PacketWalk::go_back`] gives them next.
    Packet(&'a [u8], u64),
    /// The beginning of a packet, and the offset, where longer packets are not read as a whole.
    Beginning(&'a [u8], u64),
    /// Bytes that are no packet, and where they begin.
    Skipped(u64),
    /// The file ends in the middle: where, and the reason if it is in the compression. Whole packets may
    /// follow that were unpacked before.
    Cut(u64, String),
    /// A packet is longer than any that is read: its length, and where it begins. Nothing is read behind it.
    TooLong(u64, u64),
    /// A block was unpacked.
    Block(WalkProgress),
}

/// How far a walk has come.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WalkProgress {
    /// Memory of the bytes that are not read yet, and of the next block.
    pub(super) held: u64,
    /// Offset of the first of them in the unpacked file.
    pub(super) offset: u64,
    /// Whether the file ends here.
    pub(super) is_last: bool,
}

/// The way over the packets of a file.
pub(super) struct PacketWalk<'s> {
    source: &'s mut dyn Source,
    buffer: PacketBuffer,
    /// Number of bytes that are unpacked at once.
    block: usize,
    /// Whether it was told that the file is cut.
    is_cut: bool,
    is_over: bool,
}

impl<'s> PacketWalk<'s> {
    pub(super) fn new(source: &'s mut dyn Source, block: usize) -> Self {
        Self::with(PacketBuffer::default(), source, block)
    }

    /// A way over the packets of which only the beginning is held, where they have more than `most` bytes.
    pub(super) fn over_beginnings(source: &'s mut dyn Source, block: usize, most: usize) -> Self {
        Self::with(PacketBuffer::of_beginnings(most), source, block)
    }

    fn with(buffer: PacketBuffer, source: &'s mut dyn Source, block: usize) -> Self {
        Self { source, buffer, block: block.max(1), is_cut: false, is_over: false }
    }

    /// What comes next; `None` at the end.
    ///
    /// # Errors
    /// When the file cannot be read.
    #[inline]
    pub(super) fn next(&mut self) -> io::Result<Option<Walked<'_>>> {
        while !self.is_over {
            match self.buffer.step() {
                PacketStep::Packet(range, at) => {
                    return Ok(Some(Walked::Packet(self.buffer.get(range), at)));
                }
                PacketStep::Beginning(range, at) => {
                    return Ok(Some(Walked::Beginning(self.buffer.get(range), at)));
                }
                PacketStep::Skipped(at) => return Ok(Some(Walked::Skipped(at))),
                PacketStep::NeedMore => return self.unpack().map(Some),
                PacketStep::Cut(_) if self.is_cut => {}
                PacketStep::Cut(at) => {
                    self.is_cut = true;
                    return Ok(Some(Walked::Cut(at, String::new())));
                }
                PacketStep::TooLong(length, at) => {
                    self.is_over = true;
                    return Ok(Some(Walked::TooLong(length, at)));
                }
                PacketStep::End => self.is_over = true,
            }
        }
        Ok(None)
    }

    fn unpack(&mut self) -> io::Result<Walked<'static>> {
        match self.source.read(self.buffer.room(self.block)) {
            Ok(n) => {
                self.buffer.add(n);
                let (held, offset) = (self.buffer.held(self.block), self.buffer.offset());
                Ok(Walked::Block(WalkProgress { held, offset, is_last: n == 0 }))
            }
            Err(SourceError::Cut { reason, .. }) => {
                self.buffer.add(0);
                self.is_cut = true;
                Ok(Walked::Cut(self.buffer.offset(), reason))
            }
            Err(SourceError::Io(error)) => Err(error),
        }
    }

    /// Goes back by a number of bytes of the packet that came last: its length is wrong, and they are packets
    /// of their own.
    #[inline]
    pub(super) fn go_back(&mut self, bytes: usize) {
        self.buffer.go_back(bytes);
    }

    /// Offset of the first unread byte in the unpacked file: at the end its size.
    pub(super) fn offset(&self) -> u64 {
        self.buffer.offset()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::opening::open_any;
    use flate2::{Compression, write::GzEncoder};
    use std::io::Write;

    /// A packet of a time only.
    fn packet(time: u8) -> Vec<u8> {
        vec![0x0a, 2, 0x40, time]
    }

    fn packets(times: std::ops::Range<u8>) -> Vec<u8> {
        times.flat_map(packet).collect()
    }

    /// Bytes that come a few at a time, and an error in place of their end.
    struct Bytes<'a> {
        bytes: &'a [u8],
        end: Option<SourceError>,
    }

    impl Source for Bytes<'_> {
        fn read(&mut self, out: &mut [u8]) -> Result<usize, SourceError> {
            let n = out.len().min(self.bytes.len());
            let (given, left) = self.bytes.split_at(n);
            out[..n].copy_from_slice(given);
            self.bytes = left;
            match self.end.take_if(|_| n == 0) {
                Some(error) => Err(error),
                None => Ok(n),
            }
        }
    }

    /// What a walk tells besides blocks: `p` a packet with its offset and its last byte, `s` what is skipped,
    /// `c` a cut with its reason, `l` a length that is too long; and the offset at the end.
    fn told(source: &mut dyn Source, block: usize) -> io::Result<(Vec<String>, u64)> {
        let (mut told, mut last) = (Vec::new(), 0);
        let mut walk = PacketWalk::new(source, block);
        while let Some(next) = walk.next()? {
            match next {
                Walked::Packet(bytes, at) => {
                    let time = bytes.last().map_or(String::new(), |time| format!("={time}"));
                    told.push(format!("p{at}{time}"));
                    // As its readers do: the first field 1 of a packet is the head of the next one.
                    let swallowed = bytes.iter().position(|byte| *byte == 0x0a).map(|at| bytes.len() - at);
                    walk.go_back(swallowed.unwrap_or(0));
                }
                Walked::Beginning(_, at) => told.push(format!("b{at}")),
                Walked::Skipped(at) => told.push(format!("s{at}")),
                Walked::Cut(at, reason) => told.push(format!("c{at}{reason}")),
                Walked::TooLong(length, at) => told.push(format!("l{at}={length}")),
                Walked::Block(progress) => {
                    assert!(progress.offset >= last && progress.held > 0);
                    last = progress.offset;
                }
            }
        }
        assert_eq!(walk.next()?, None);
        Ok((told, walk.offset()))
    }

    /// The same, which does not depend on the blocks in which the bytes come.
    fn walked(bytes: &[u8]) -> String {
        let of = |block: usize| {
            let (told, end) = told(&mut Bytes { bytes, end: None }, block).unwrap();
            format!("{} e{end}", told.join(" "))
        };
        let whole = of(1 << 10);
        (1..9).for_each(|block| assert_eq!(of(block), whole, "{block}"));
        whole
    }

    #[test]
    fn all_packets_come_in_order_with_the_offsets_of_their_contents() {
        assert_eq!(walked(&packets(1..4)), "p2=1 p6=2 p10=3 e12");
        assert_eq!(walked(&[]), " e0");
    }

    #[test]
    fn a_packet_that_is_cut_at_the_end_is_told_once() {
        let bytes = packets(1..4);
        assert_eq!(walked(&bytes[..11]), "p2=1 p6=2 c8 e11");
        assert_eq!(walked(&bytes[..10]), "p2=1 p6=2 c8 e10");
        assert_eq!(walked(&bytes[..9]), "p2=1 p6=2 c8 e9");
        assert_eq!(walked(&bytes[..8]), "p2=1 p6=2 e8");
    }

    #[test]
    fn a_length_beyond_the_next_packet_gives_it_back() {
        let mut bytes = packets(1..5);
        // The second packet says that it has the third, too: both come.
        bytes[5] = 6;
        assert_eq!(walked(&bytes), "p2=1 p6=3 p10=3 p14=4 e16");
        // Beyond the end it is a length that is wrong, not a file that is cut.
        bytes[5] = 100;
        assert_eq!(walked(&bytes), "p2=1 s4 p10=3 p14=4 e16");
    }

    #[test]
    fn nothing_is_read_behind_a_packet_that_is_too_long() {
        let bytes = [packets(1..2), vec![0x0a, 0x80, 0x80, 0x80, 0x80, 0x08], packets(2..4)].concat();
        assert_eq!(walked(&bytes), "p2=1 l4=2147483648 e4");
    }

    #[test]
    fn a_length_of_zero_is_an_empty_packet_which_is_passed_over() {
        let bytes = [packets(1..2), vec![0x0a, 0], packets(2..3)].concat();
        assert_eq!(walked(&bytes), "p2=1 p8=2 e10");
        // Where the packet is not empty, its bytes are skipped.
        let mut bytes = packets(1..4);
        bytes[5] = 0;
        assert_eq!(walked(&bytes), "p2=1 s6 p10=3 e12");
    }

    #[test]
    fn unknown_fields_before_between_and_behind_packets_are_skipped() {
        let unknown = [0x12, 3, b'a', b'b', b'c'];
        assert_eq!(walked(&[&unknown[..], &packets(1..3)].concat()), "s0 p7=1 p11=2 e13");
        assert_eq!(walked(&[&packets(1..2), &unknown[..], &packets(2..3)].concat()), "p2=1 s4 p11=2 e13");
        assert_eq!(walked(&[&packets(1..3), &unknown[..]].concat()), "p2=1 p6=2 s8 e13");
        assert_eq!(walked(&unknown), "s0 e5");
    }

    #[test]
    fn a_reader_may_end_the_walk_early() {
        let bytes = packets(1..100);
        let mut source = Bytes { bytes: &bytes, end: None };
        let mut walk = PacketWalk::new(&mut source, 8);
        let mut seen = 0;
        while let Ok(Some(next)) = walk.next() {
            seen += usize::from(matches!(next, Walked::Packet(..)));
            if seen == 3 {
                break;
            }
        }
        assert_eq!(walk.offset(), 12);
        assert!(source.bytes.len() >= bytes.len() - 16, "{}", source.bytes.len());
    }

    #[test]
    fn a_compressed_file_is_the_same_up_to_where_it_is_cut() {
        let bytes = packets(1..100);
        let mut packed = GzEncoder::new(Vec::new(), Compression::none());
        packed.write_all(&bytes).unwrap();
        let packed = packed.finish().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.pftrace.gz");
        let of = |packed: &[u8], block: usize| {
            std::fs::write(&path, packed).unwrap();
            let (_, mut source) = open_any(&path.as_path().into()).unwrap();
            told(source.as_mut(), block).unwrap()
        };
        let (whole, end) = of(&packed, 7);
        assert_eq!((whole.join(" ") + &format!(" e{end}")), walked(&bytes));
        // Ten bytes of a head, five of a block, then the packets as they are.
        let (cut, end) = of(&packed[..15 + 10], 4);
        assert_eq!((cut.join(" "), end), ("p2=1 p6=2 c8the gzip stream ends early".to_string(), 10));
    }

    #[test]
    fn what_was_unpacked_before_an_error_comes_first() {
        let bytes = packets(1..3);
        let end = Some(SourceError::Io(io::Error::other("gone")));
        let mut source = Bytes { bytes: &bytes, end };
        let mut walk = PacketWalk::new(&mut source, 4);
        let mut seen = Vec::new();
        let error = loop {
            match walk.next() {
                Ok(Some(Walked::Packet(bytes, _))) => seen.extend(bytes.last()),
                Ok(next) => assert!(matches!(next, Some(Walked::Block(_)))),
                Err(error) => break error,
            }
        };
        assert_eq!((seen, error.to_string().as_str()), (vec![1, 2], "gone"));
    }
}

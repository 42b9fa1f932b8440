//! Cuts the bytes of a file into packets: `0a`, the length, the packet. Where a length is wrong, reading goes
//! on at the next bytes that are a packet from end to end and have another behind them.
//!
//! ```text
//!   0a 2a [packet] 0a 11 [packet] 0a ff [pack] 0a 12 [packet] ...
//!                                    ^ wrong   ^ goes on here
//! ```

use super::fields::packet as at;
use super::wire::{WireMessage, is_cut_varint, varint};
use std::ops::Range;

/// Largest packet that is read, bytes.
pub(super) const LONGEST: usize = 256 << 20;

/// Largest packet at which reading goes on behind damage, bytes.
const LONGEST_AFTER_DAMAGE: usize = 1 << 20;

/// Largest packet at which it goes on once too many bytes were tried in vain.
const SHORT_AFTER_DAMAGE: usize = 256;

/// Fields that are tried behind damage per byte of the file, and those that are tried in any case. Each byte
/// may look like the beginning of a long packet: without a limit the work would grow with the square of the
/// size.
const TRIED_PER_BYTE: u64 = 8;
const TRIED_AT_LEAST: u64 = 1 << 16;

/// First byte of a packet: field 1 of the file.
const PACKET: u8 = 0x0a;

/// What comes next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PacketStep {
    /// A packet: where it is in the buffer, and the offset of its content in the file.
    Packet(Range<usize>, u64),
    /// The same of the beginning of a packet that is not read as a whole.
    Beginning(Range<usize>, u64),
    /// Bytes that are no packet, and where they begin in the file.
    Skipped(u64),
    NeedMore,
    /// The file ends inside of a packet that begins here.
    Cut(u64),
    /// A packet is longer than any that is read: its length, and where it begins.
    TooLong(u64, u64),
    End,
}

/// The bytes that are not read yet.
#[derive(Default)]
pub(super) struct PacketBuffer {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    /// Offset in the file of the first unread byte.
    offset: u64,
    /// Whether nothing follows in the file.
    is_over: bool,
    /// Where bytes began that are no packet.
    damage: Option<u64>,
    /// Number of fields that were tried behind damage, in the whole file.
    tried: u64,
    /// Of a longer packet only so many bytes are looked at.
    most: Option<usize>,
    /// Number of bytes of a packet that are passed over unread.
    passed_over: u64,
}

/// The head of a packet.
enum PacketHead {
    /// The lengths of the head and of the packet.
    Whole(usize, u64),
    Cut,
    Wrong,
}

fn head(bytes: &[u8]) -> PacketHead {
    match bytes.split_first() {
        None => PacketHead::Cut,
        Some((&PACKET, rest)) => match varint(rest) {
            Some((length, n)) => PacketHead::Whole(1 + n, length),
            None if is_cut_varint(rest) => PacketHead::Cut,
            None => PacketHead::Wrong,
        },
        Some(_) => PacketHead::Wrong,
    }
}

/// Number of bytes of the empty packets at the beginning. They hold nothing, and a file may have many.
fn empty_packets(bytes: &[u8]) -> usize {
    const EMPTY: [u8; 2] = [PACKET, 0];
    const MANY: usize = 32;
    let (many, _) = bytes.as_chunks::<{ 2 * MANY }>();
    let many = many.iter().take_while(|chunk| chunk.as_chunks().0 == [EMPTY; MANY]).count() * 2 * MANY;
    let (few, _) = bytes.get(many..).unwrap_or_default().as_chunks();
    many + 2 * few.iter().take_while(|packet| **packet == EMPTY).count()
}

impl PacketBuffer {
    /// A buffer that gives only the beginning of a packet of more than `most` bytes.
    pub(super) fn of_beginnings(most: usize) -> Self {
        Self { most: Some(most), ..Self::default() }
    }

    /// Free memory for `block` further bytes.
    pub(super) fn room(&mut self, block: usize) -> &mut [u8] {
        let size = self.size_for(block);
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        self.bytes.resize(size, 0);
        self.bytes.get_mut(self.end..self.end + block).unwrap_or_default()
    }

    /// Size of the buffer with room for a block behind the bytes that are not read yet. A packet that needs
    /// more than there is doubles it, up to its length.
    fn size_for(&self, block: usize) -> usize {
        let needed = self.unread().len() + block;
        if needed <= self.bytes.len() {
            return self.bytes.len();
        }
        let doubled = self.bytes.len().saturating_mul(2);
        let most = match head(self.unread()) {
            PacketHead::Whole(n, length) if length <= LONGEST as u64 => n + length as usize + block,
            _ => doubled,
        };
        doubled.min(most).max(needed)
    }

    /// Takes over bytes that were written to the free memory. None: the file is over.
    pub(super) fn add(&mut self, bytes: usize) {
        self.end = self.bytes.len().min(self.end + bytes);
        self.is_over |= bytes == 0;
    }

    /// Memory of the buffer once there is room for a block more, bytes.
    pub(super) fn held(&self, block: usize) -> u64 {
        self.size_for(block) as u64
    }

    /// Offset in the file of the first unread byte.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    pub(super) fn get(&self, range: Range<usize>) -> &[u8] {
        self.bytes.get(range).unwrap_or_default()
    }

    /// Goes back by a number of bytes of the packet that was taken last.
    pub(super) fn go_back(&mut self, bytes: usize) {
        let bytes = bytes.min(self.start);
        if bytes > 0 {
            self.passed_over = 0;
        }
        self.start -= bytes;
        self.offset -= bytes as u64;
    }

    fn skip(&mut self, bytes: usize) {
        self.start += bytes;
        self.offset += bytes as u64;
    }

    fn unread(&self) -> &[u8] {
        self.bytes.get(self.start..self.end).unwrap_or_default()
    }

    /// The next packet, if it is there.
    pub(super) fn step(&mut self) -> PacketStep {
        if self.damage.is_some() {
            return self.find();
        }
        let passed_over = self.passed_over.min(self.unread().len() as u64);
        self.passed_over -= passed_over;
        self.skip(passed_over as usize);
        self.skip(empty_packets(self.unread()));
        let rest = self.unread();
        if rest.is_empty() {
            return if self.is_over { PacketStep::End } else { PacketStep::NeedMore };
        }
        match head(rest) {
            PacketHead::Whole(_, length) if length > LONGEST as u64 => {
                PacketStep::TooLong(length, self.offset)
            }
            PacketHead::Whole(n, length) if n + length as usize <= rest.len() => {
                self.skip(n);
                let range = self.start..self.start + length as usize;
                let at = self.offset;
                self.skip(range.len());
                PacketStep::Packet(range, at)
            }
            PacketHead::Whole(n, length) if self.most.is_some_and(|most| n + most <= rest.len()) => {
                self.skip(n);
                let range = self.start..self.start + self.most.unwrap_or(0);
                let at = self.offset;
                self.skip(range.len());
                self.passed_over = length - range.len() as u64;
                PacketStep::Beginning(range, at)
            }
            PacketHead::Whole(n, _) if self.is_over => self.cut(n),
            PacketHead::Cut if self.is_over => self.cut(rest.len()),
            PacketHead::Whole(..) | PacketHead::Cut => PacketStep::NeedMore,
            PacketHead::Wrong => {
                self.damage = Some(self.offset);
                self.find()
            }
        }
    }

    /// The file ends before the packet does: it is cut, or the length is wrong and packets are inside.
    fn cut(&mut self, head: usize) -> PacketStep {
        let is_swallowing = self.may_try() && {
            let inside = self.unread().get(head..).unwrap_or_default();
            let (is_swallowing, tried) = is_swallowing(inside);
            self.tried += tried;
            is_swallowing
        };
        if is_swallowing {
            self.damage = Some(self.offset);
            self.skip(1);
            return self.find();
        }
        let at = self.offset;
        self.skip(self.unread().len());
        PacketStep::Cut(at)
    }

    /// Looks for the next packet behind damage.
    fn find(&mut self) -> PacketStep {
        let began = self.damage.unwrap_or(self.offset);
        loop {
            let Some(next) = memchr::memchr(PACKET, self.unread()) else {
                self.skip(self.unread().len());
                break;
            };
            self.skip(next);
            match self.is_packet_here() {
                Some(true) => break,
                Some(false) => self.skip(1),
                None => return PacketStep::NeedMore,
            }
        }
        if self.unread().is_empty() && !self.is_over {
            return PacketStep::NeedMore;
        }
        self.damage = None;
        PacketStep::Skipped(began)
    }

    /// Whether long packets may still be tried behind damage.
    fn may_try(&self) -> bool {
        self.tried <= TRIED_AT_LEAST + self.offset.saturating_mul(TRIED_PER_BYTE)
    }

    /// Whether a packet begins at the first unread byte; `None`: that takes more bytes.
    fn is_packet_here(&mut self) -> Option<bool> {
        let longest = if self.may_try() { LONGEST_AFTER_DAMAGE } else { SHORT_AFTER_DAMAGE };
        let rest = self.unread();
        let too_short = if self.is_over { Some(false) } else { None };
        let (n, length) = match head(rest) {
            PacketHead::Whole(_, length) if length > longest as u64 => return Some(false),
            PacketHead::Whole(n, length) => (n, length as usize),
            PacketHead::Cut => return too_short,
            PacketHead::Wrong => return Some(false),
        };
        let Some(content) = rest.get(n..n + length) else { return too_short };
        let follows = match rest.get(n + length) {
            Some(byte) => *byte == PACKET,
            None if self.is_over => true,
            None => return None,
        };
        let (is_packet, tried) = if follows { is_packet(content) } else { (false, 0) };
        self.tried += tried;
        Some(is_packet)
    }
}

/// Whether bytes are a whole packet of a trace, and the number of fields that were looked at.
pub(super) fn is_packet(content: &[u8]) -> (bool, u64) {
    let (mut message, mut tried) = (WireMessage::new(content), 0);
    let mut counted = message.by_ref().inspect(|_| tried += 1);
    let is_known = counted.next().is_some_and(|(number, _)| at::ALL.contains(&number));
    let is_packet = is_known && counted.all(|(number, _)| number != 1);
    (is_packet && !message.is_broken(), tried)
}

/// Whether the bytes of a packet that does not end hold the packets behind it, or are none, so that its
/// length is wrong; and the number of fields that were looked at.
fn is_swallowing(content: &[u8]) -> (bool, u64) {
    let (mut message, mut tried) = (WireMessage::new(content), 0);
    loop {
        let rest = content.get(content.len() - message.left()..).unwrap_or_default();
        match message.next() {
            Some((1, _)) => return (true, tried),
            Some(_) => tried += 1,
            None => return (varint(rest).is_some_and(|(tag, _)| !is_tag(tag)), tried),
        }
    }
}

/// Whether a field can begin with this number.
fn is_tag(tag: u64) -> bool {
    tag >> 3 != 0 && matches!(tag & 7, 0 | 1 | 2 | 5)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet of a time only.
    fn packet(time: u8) -> Vec<u8> {
        vec![0x0a, 2, 0x40, time]
    }

    /// The times of the packets, and the offsets of what is no packet.
    fn read(bytes: &[u8], block: usize) -> (Vec<u8>, Vec<u64>) {
        let (mut buffer, mut at) = (PacketBuffer::default(), 0);
        let (mut times, mut damaged) = (Vec::new(), Vec::new());
        loop {
            match buffer.step() {
                PacketStep::Packet(range, _) | PacketStep::Beginning(range, _) => {
                    times.extend(buffer.get(range).last());
                }
                PacketStep::Skipped(at) | PacketStep::Cut(at) | PacketStep::TooLong(_, at) => {
                    damaged.push(at);
                    if damaged.len() > bytes.len() {
                        return (times, damaged);
                    }
                }
                PacketStep::NeedMore => {
                    let room = buffer.room(block);
                    let n = block.min(bytes.len() - at).min(room.len());
                    room[..n].copy_from_slice(&bytes[at..at + n]);
                    at += n;
                    buffer.add(n);
                }
                PacketStep::End => return (times, damaged),
            }
        }
    }

    #[test]
    fn packets_are_cut_wherever_the_blocks_end() {
        let bytes: Vec<u8> = (1..20).flat_map(packet).collect();
        for block in 1..12 {
            assert_eq!(read(&bytes, block), ((1..20).collect(), Vec::new()));
        }
    }

    #[test]
    fn reading_goes_on_behind_a_wrong_length_and_behind_other_bytes() {
        let mut bytes: Vec<u8> = (1..6).flat_map(packet).collect();
        bytes[5] = 1;
        assert_eq!(read(&bytes, 4).0, [1, 0x40, 3, 4, 5]);
        assert_eq!(read(&bytes, 4).1, [7]);
        let bytes: Vec<u8> = [packet(1), vec![7, 7, 0x0a, 7], packet(2), packet(3)].concat();
        assert_eq!(read(&bytes, 3), (vec![1, 2, 3], vec![4]));
    }

    #[test]
    fn of_a_long_packet_only_the_beginning_is_kept() {
        let long = [vec![0x0a, 0xe8, 7], vec![9; 1000]].concat();
        let bytes = [packet(1), long, packet(2)].concat();
        for block in [1, 7, 64] {
            let (mut buffer, mut at) = (PacketBuffer::of_beginnings(10), 0);
            let mut found = Vec::new();
            loop {
                match buffer.step() {
                    PacketStep::NeedMore => {
                        let room = buffer.room(block);
                        let n = room.len().min(bytes.len() - at);
                        room[..n].copy_from_slice(&bytes[at..at + n]);
                        at += n;
                        buffer.add(n);
                        assert!(buffer.bytes.len() < 2 * (64 + 10), "{}", buffer.bytes.len());
                    }
                    PacketStep::End => break,
                    step => found.push(step),
                }
            }
            let found: Vec<String> = found
                .iter()
                .map(|step| match step {
                    PacketStep::Packet(range, at) => format!("p{at}+{}", range.len()),
                    PacketStep::Beginning(range, at) => format!("b{at}+{}", range.len()),
                    other => format!("{other:?}"),
                })
                .collect();
            assert_eq!(found, ["p2+2", "b7+10", "p1009+2"], "{block}");
        }
    }

    #[test]
    fn the_buffer_is_no_longer_than_the_packet_and_a_block() {
        let bytes = [vec![0x0a, 0x80, 0x80, 0x40], vec![0x40; 1 << 20]].concat();
        let (mut buffer, mut at) = (PacketBuffer::default(), 0);
        while let PacketStep::NeedMore = buffer.step() {
            let announced = buffer.held(1000);
            let room = buffer.room(1000);
            assert_eq!(room.len(), 1000);
            let n = room.len().min(bytes.len() - at);
            room[..n].copy_from_slice(&bytes[at..at + n]);
            at += n;
            buffer.add(n);
            assert_eq!(buffer.bytes.len() as u64, announced);
            assert!(buffer.bytes.len() <= 4 + (1 << 20) + 1000);
        }
        assert_eq!(at, bytes.len());
    }

    #[test]
    fn empty_packets_are_passed_over_however_many() {
        for n in [0, 1, 31, 32, 33, 64, 100] {
            let bytes = [[0x0a, 0].repeat(n), packet(3)].concat();
            assert_eq!(empty_packets(&bytes), 2 * n);
            assert_eq!(read(&bytes, 5), (vec![3], vec![]), "{n}");
        }
    }

    #[test]
    fn a_file_that_ends_in_a_packet_is_cut_there() {
        let bytes: Vec<u8> = (1..4).flat_map(packet).collect();
        assert_eq!(read(&bytes[..11], 5), (vec![1, 2], vec![8]));
        assert_eq!(read(&bytes[..9], 5), (vec![1, 2], vec![8]));
    }

    #[test]
    fn a_length_beyond_the_end_that_begins_within_a_number_swallows_no_packets() {
        let mut bytes: Vec<u8> = (1..60).flat_map(packet).collect();
        // The length takes in the first byte of the packet, whose second is no beginning of a field.
        bytes[5] = 0x82;
        bytes[7] = 0x07;
        assert_eq!(read(&bytes, 16).0.len(), 58);
    }

    #[test]
    fn the_work_behind_damage_grows_with_the_size_only() {
        // A million bytes of which each third begins a packet of ten thousand small fields that is none.
        let mut bytes = vec![0xff];
        (0..300_000).for_each(|_| bytes.extend([0x0a, 0xff, 0x7f, 0x40, 0x01]));
        bytes.extend([packet(1), packet(2)].concat());
        let mut buffer = PacketBuffer::default();
        buffer.room(bytes.len()).get_mut(..bytes.len()).unwrap().copy_from_slice(&bytes);
        buffer.add(bytes.len());
        buffer.add(0);
        let mut found = 0;
        loop {
            match buffer.step() {
                PacketStep::Packet(..) => found += 1,
                PacketStep::Skipped(_) => {}
                _ => break,
            }
        }
        assert!(found >= 1);
        assert!(buffer.tried < 20 * bytes.len() as u64, "{}", buffer.tried);
    }

    #[test]
    fn a_length_beyond_the_end_swallows_no_packets() {
        let mut bytes: Vec<u8> = (1..6).flat_map(packet).collect();
        bytes[5] = 100;
        assert_eq!(read(&bytes, 4), (vec![1, 3, 4, 5], vec![4]));
    }
}

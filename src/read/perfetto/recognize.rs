//! Who wrote a file, told by the fields and the categories of its first packets: torch, a converter of its
//! JSON, or a program whose traces are not read.

use super::fields::{event, packet as at};
use super::interned::InternedData;
use super::packets::{PacketBuffer, PacketStep};
use super::wire::{WireMessage, WireValue, integers, varint};
use crate::error::ReadError;
use crate::input::Input;
use crate::opening::open_any;
use crate::source::SourceError;
use hta_trace::category::{Class, classify};
use hta_trace::meta::Recorder;
use hta_trace::recorders::{
    OtherRecorder, PERFETTO_CHROME, PERFETTO_COMPRESSED, PERFETTO_GRAPHICS, PERFETTO_PROFILE, PERFETTO_SYSTEM,
};
use std::collections::BTreeSet;

/// Number of packets that are looked at, and of bytes; each packet as a whole.
const PACKETS: u64 = 64;
const BYTES: u64 = 1 << 20;

/// Largest number of categories of another program that are named.
const NAMED: usize = 5;

/// The kind of device rows of torch that others do not have.
const KERNEL: &[u8] = b"Kernel";

/// What was seen in the first packets.
#[derive(Default)]
pub(super) struct FirstPackets {
    fields: BTreeSet<u32>,
    interned: InternedData,
    /// Categories that stand at events, in the order of the file.
    categories: Vec<Vec<u8>>,
    category_ids: BTreeSet<u64>,
    packets: u64,
    events: u64,
}

impl FirstPackets {
    /// Looks at the beginning of a file.
    ///
    /// # Errors
    /// When it cannot be read.
    fn of(input: &Input) -> Result<Self, ReadError> {
        let io_error = |error| ReadError::io(&input.shown, error);
        let (_, mut source) = open_any(&input.path).map_err(io_error)?;
        let (mut seen, mut buffer) = (Self::default(), PacketBuffer::default());
        loop {
            match buffer.step() {
                PacketStep::Packet(range, _) => seen.look_at(buffer.get(range)),
                PacketStep::Skipped(_) => {}
                PacketStep::NeedMore => match source.read(buffer.room(BLOCK)) {
                    Ok(n) => buffer.add(n),
                    Err(SourceError::Cut { .. }) => buffer.add(0),
                    Err(SourceError::Io(error)) => return Err(io_error(error)),
                },
                PacketStep::Cut(_) | PacketStep::TooLong(..) | PacketStep::End => break,
            }
            // Tracks are described before the first event, and there may be many.
            if seen.packets >= PACKETS && seen.events > 0 || buffer.offset() >= BYTES {
                break;
            }
        }
        Ok(seen)
    }

    fn look_at(&mut self, packet: &[u8]) {
        self.packets += 1;
        for (number, value) in WireMessage::new(packet) {
            self.fields.insert(number);
            self.events += u64::from(![at::TIMESTAMP, at::SEQUENCE, at::FLAGS, at::TRACK].contains(&number));
            match (number, value.bytes()) {
                (at::INTERNED, Some(bytes)) => {
                    self.interned.read(bytes);
                }
                (at::TRACK_EVENT, Some(bytes)) => self.look_at_event(bytes),
                _ => {}
            }
        }
    }

    fn look_at_event(&mut self, bytes: &[u8]) {
        for (number, value) in WireMessage::new(bytes) {
            match (number, value.bytes()) {
                (event::CATEGORY, Some(category)) => self.categories.push(category.to_vec()),
                (event::CATEGORY_IDS, _) => self.category_ids.extend(integers(value)),
                _ => {}
            }
        }
    }

    /// Who wrote the file.
    ///
    /// # Errors
    /// When it is no trace of torch.
    fn writer(&self, input: &Input) -> Result<Recorder, ReadError> {
        let has = |number: u32| self.fields.contains(&number);
        let refused = |OtherRecorder { what, hint }: OtherRecorder| {
            Err(ReadError::NotATrace { file: input.shown.clone(), what, hint, is_known: true })
        };
        let has_kernels = self.interned.specifications.iter().any(|name| name == KERNEL);
        if has_kernels || self.interned.categories.iter().any(is_torch) {
            return Ok(Recorder::Cuspy);
        }
        if has(at::COMPRESSED) {
            return refused(PERFETTO_COMPRESSED);
        }
        if [1, 2, 7].into_iter().any(has) || has(33) && has(45) {
            return refused(PERFETTO_SYSTEM);
        }
        if [51, 5, 48].into_iter().any(has) {
            return refused(PERFETTO_CHROME);
        }
        if [37, 56, 66, 74].into_iter().any(has) {
            return refused(PERFETTO_PROFILE);
        }
        if has(at::RENDER_STAGE) {
            return refused(PERFETTO_GRAPHICS);
        }
        if self.categories.iter().any(|category| is_torch(category)) {
            return Ok(Recorder::Converted);
        }
        if !has(at::TRACK_EVENT) {
            // Tracks without events, or less: that nothing is in it is told when it is read.
            return Ok(Recorder::Converted);
        }
        Err(ReadError::OtherEvents { file: input.shown.clone(), categories: self.named() })
    }

    /// The first categories, in words.
    fn named(&self) -> String {
        let by_id = self.category_ids.iter().filter_map(|id| self.interned.categories.get(*id));
        let mut named: Vec<String> = Vec::new();
        for category in self.categories.iter().map(Vec::as_slice).chain(by_id) {
            let category = format!("`{}`", String::from_utf8_lossy(category));
            if named.len() < NAMED && !named.contains(&category) {
                named.push(category);
            }
        }
        match named.len() {
            0 => "without categories".to_string(),
            1 => format!("of the category {}", named.concat()),
            _ => format!("of the categories {}", named.join(", ")),
        }
    }
}

/// Bytes that are read at once.
const BLOCK: usize = 64 << 10;

/// Whether this is a category of torch.
fn is_torch(category: &[u8]) -> bool {
    std::str::from_utf8(category).is_ok_and(|category| classify(category).0 != Class::Unknown)
}

/// Who wrote a file.
///
/// # Errors
/// When it cannot be read, or is no trace of torch.
pub(super) fn writer(input: &Input) -> Result<Recorder, ReadError> {
    match input.seen.map(|seen| seen.head.recorder) {
        Some(known @ (Recorder::Cuspy | Recorder::Converted)) => Ok(known),
        _ => FirstPackets::of(input)?.writer(input),
    }
}

/// Whether a file that begins with these bytes is one of packets: not of a text, and the first is followed by
/// another or ends behind these bytes.
pub(super) fn is_of_packets(start: &[u8]) -> bool {
    let is_text = |b: &u8| matches!(b, b'\t' | b'\n' | b'\r' | b' '..=b'~');
    if start.iter().take(64).all(is_text) {
        return false;
    }
    let Some((0x0a, rest)) = start.split_first() else { return false };
    let Some((length, n)) = varint(rest) else { return false };
    let Some(inside) = rest.get(n..) else { return false };
    let Ok(length) = usize::try_from(length) else { return false };
    let (content, is_followed) = match inside.split_at_checked(length) {
        Some((content, behind)) => (content, behind.first().is_none_or(|byte| *byte == 0x0a)),
        None => (inside, true),
    };
    is_followed
        && WireMessage::new(content).next().is_some_and(|(number, value)| begins_packet(number, value))
}

/// Whether a packet can begin with this field. Most fields of packets are messages.
fn begins_packet(number: u32, value: WireValue) -> bool {
    const NUMBERS: [u32; 9] = [3, 8, 10, 13, 41, 42, 58, 79, 87];
    let is_number = NUMBERS.contains(&number);
    number <= LARGEST_FIELD && is_number == value.bytes().is_none()
}

/// Largest number of a field of a packet.
const LARGEST_FIELD: u32 = 1000;

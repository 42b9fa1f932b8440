//! Reads one file: makes the rows of its packets as it is unpacked.

use super::interned::InternedData;
use super::packet::TracePacket;
use super::packets::LONGEST;
use super::recognize::writer;
use super::rows::{ADDED_SEQUENCE, PerfettoRows};
use super::walk::{PacketWalk, WalkProgress, Walked};
use super::wire::WireMessage;
use crate::error::ReadError;
use crate::input::{Input, PartKey};
use crate::kineto::load::out_of_memory;
use crate::opening::open;
use crate::reading::{Reading, Spread, Unsettled};
use crate::room::MemoryUse;
use crate::source::{Compression, Source};
use hta_base::health::Counter;
use hta_base::units::{Ns, fmt_bytes};
use hta_trace::meta::Meta;

/// Clocks of a snapshot: the time since boot, and that since 1970.
const BOOT: u64 = 6;
const REAL: u64 = 1;

/// Reads a file.
///
/// # Errors
/// When it is no trace of torch, cannot be read, or takes more memory than there is.
pub(super) fn load(input: &Input, how: &Reading) -> Result<Unsettled, ReadError> {
    let writer = writer(input)?;
    let run = input.process.as_ref().and_then(|part| match part.key {
        PartKey::Process(id) => Some(id as u64),
        _ => None,
    });
    let io_error = |error| ReadError::io(&input.shown, error);
    let packed = input.packing().map_err(io_error)?;
    let ahead = how.spread == Spread::AllCores && packed != Compression::Plain;
    let mut source = open(&input.path, packed, how.count, ahead).map_err(io_error)?;
    let mut rows = PerfettoRows::new(how.options, writer, run);
    let unpacked = read(input, source.as_mut(), &mut rows, how)?;
    if source.trailing().garbage {
        rows.reader.columns.health.note(Counter::TrailingGarbage, &input.shown);
    }
    rows.reader.columns.is_cut = rows.reader.columns.health.count(Counter::Truncated) > 0;
    rows.finish();
    let base_ns = rows.clocks.0.and(rows.clocks.1);
    let meta = Meta { recorder: writer, base_ns, ..Meta::default() };
    let unpacked_bytes = input.process.as_ref().map_or(unpacked, |part| part.share(unpacked));
    let columns = rows.reader.columns;
    Ok(Unsettled { columns, meta, unpacked_bytes })
}

/// Reads all packets. Returns the size of the unpacked file.
fn read(
    input: &Input,
    source: &mut dyn Source,
    rows: &mut PerfettoRows,
    how: &Reading,
) -> Result<u64, ReadError> {
    let mut walk = PacketWalk::new(source, how.chunks.block);
    let mut last = WalkProgress { held: 0, offset: 0, is_last: false };
    let hold = |held| how.room.hold(held).map_err(|refused| out_of_memory(input, refused));
    while let Some(next) = walk.next().map_err(|error| ReadError::io(&input.shown, error))? {
        match next {
            Walked::Packet(bytes, at) => {
                if bytes.len() > how.chunks.block {
                    let held = rows.memory(&last);
                    hold(MemoryUse { buffers: held.buffers + growth(bytes), is_whole: false, ..held })?;
                }
                let swallowed = rows.packet(bytes, at);
                walk.go_back(swallowed);
            }
            // The walk is one over whole packets.
            Walked::Beginning(..) => {}
            Walked::Skipped(at) => rows.count(Counter::PacketDamaged, at, ""),
            Walked::Cut(at, reason) => rows.count(Counter::Truncated, at, &reason),
            Walked::TooLong(length, at) => {
                let (length, most) = (fmt_bytes(length), fmt_bytes(LONGEST as u64));
                let reason =
                    format!("the packet at byte {at} says it has {length}, where {most} are the most");
                return Err(ReadError::Damaged { file: input.shown.clone(), reason });
            }
            Walked::Block(progress) => {
                hold(rows.memory(&progress))?;
                last = progress;
            }
        }
    }
    Ok(walk.offset())
}

/// Most memory that a packet takes when it is read, bytes.
fn growth(bytes: &[u8]) -> u64 {
    // A control character takes six bytes as JSON, of which there are up to three copies.
    const TIMES_ROW: u64 = 18;
    let packet = TracePacket::read(WireMessage::new(bytes));
    let rows = [packet.event, packet.stage, packet.counter, packet.track].into_iter().flatten();
    let of_rows: u64 = rows.map(|row| row.len() as u64 * TIMES_ROW).sum();
    of_rows + packet.interned.map_or(0, InternedData::growth)
}

impl PerfettoRows {
    /// Reads a packet. Returns the number of bytes at its end that are packets of their own.
    fn packet(&mut self, bytes: &[u8], at: u64) -> usize {
        let packet = TracePacket::read(WireMessage::new(bytes));
        self.check(!packet.is_broken && packet.swallowed == 0, at);
        if packet.drops {
            self.count(Counter::PacketsDropped, at, "");
        }
        // A converter's names are its own, and so are those of each writer of a file.
        if packet.sequence == ADDED_SEQUENCE {
            if packet.event.is_some() || packet.stage.is_some() {
                self.count(Counter::ConverterRows, at, "");
            }
            return packet.swallowed;
        }
        self.take_names_of(packet.sequence);
        if packet.clears() {
            self.interned = Default::default();
        }
        if let Some(interned) = packet.interned {
            let is_whole = self.interned.read(interned);
            self.check(is_whole, at);
        }
        if let Some(clocks) = packet.clocks {
            self.clock(clocks);
        }
        if let Some(track) = packet.track {
            self.describe(track, at);
        }
        if let Some(event) = packet.event {
            self.event(event, packet.timestamp, at);
        }
        if let Some(stage) = packet.stage {
            self.stage(stage, packet.timestamp, at);
        }
        if let Some(counter) = packet.counter {
            self.counter(counter, packet.timestamp, at);
        }
        packet.swallowed
    }

    /// Takes over the first reading of the clocks.
    fn clock(&mut self, bytes: &[u8]) {
        for (_, clock) in WireMessage::new(bytes).filter(|(number, _)| *number == 1) {
            let (mut id, mut time) = (0, None);
            for (number, value) in WireMessage::new(clock.bytes().unwrap_or_default()) {
                match number {
                    1 => id = value.number().unwrap_or(0),
                    2 => time = value.number().and_then(|n| Ns::try_from(n).ok()),
                    _ => {}
                }
            }
            match id {
                BOOT => self.clocks.0 = self.clocks.0.or(time),
                REAL => self.clocks.1 = self.clocks.1.or(time),
                _ => {}
            }
        }
    }

    fn memory(&self, progress: &WalkProgress) -> MemoryUse {
        let texts = self.reader.columns.strings.held_bytes();
        let columns = self.reader.columns.held_bytes().saturating_sub(texts);
        MemoryUse {
            columns,
            texts,
            buffers: progress.held + self.held(),
            unpacked: progress.offset,
            is_whole: progress.is_last,
        }
    }
}

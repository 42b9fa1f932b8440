//! Who wrote a file, told by the fields and the categories of its first packets: torch, a converter of its
//! JSON, or a program whose traces are not read.

use super::fields::{event, packet as at, stage};
use super::interned::KindNames;
use super::packet::TracePacket;
use super::packets::is_packet;
use super::rows::ADDED_SEQUENCE;
use super::tracks::TrackDescriptor;
use super::walk::{PacketWalk, Walked};
use super::wire::{WireMessage, WireValue, integers, varint};
use crate::error::ReadError;
use crate::input::Input;
use crate::opening::open_any;
use hta_trace::meta::Recorder;
use hta_trace::recorders::{
    OtherRecorder, PERFETTO_CHROME, PERFETTO_COMPRESSED, PERFETTO_GRAPHICS, PERFETTO_PROFILE,
    PERFETTO_SYSTEM, ROCPROFV3,
};
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Number of packets that are looked at, and of bytes; each packet as a whole, up to a size.
const PACKETS: u64 = 64;
const BYTES: u64 = 1 << 20;
const OF_A_PACKET: usize = 2 << 20;

/// Most writers, numbers of names, and texts of each kind that are kept, however many a file has.
const MOST_WRITERS: usize = 1 << 8;
const MOST_IDS: usize = 1 << 12;

/// Largest number of categories of another program that are named, and bytes of each.
const NAMED: usize = 5;
const LONGEST_NAMED: usize = 1 << 8;

/// The kind of device rows of torch that others do not have.
const KERNEL: &[u8] = b"Kernel";

/// Categories that only torch writes. Others have `kernel`, `runtime`, `python` or `overhead`, too.
const OF_TORCH: [&[u8]; 9] = [
    b"cpu_op",
    b"user_annotation",
    b"cuda_runtime",
    b"cuda_driver",
    b"gpu_memcpy",
    b"gpu_memset",
    b"gpu_user_annotation",
    b"python_function",
    b"cuda_sync",
];

/// Beginnings of the categories of AMD's profilers.
const OF_ROCPROF: [&[u8]; 8] = [
    b"hip_",
    b"hsa_",
    b"rocm_",
    b"rccl_api",
    b"kernel_dispatch",
    b"marker_api",
    b"rocdecode_api",
    b"rocjpeg_api",
];

/// Categories that are torch's beside streams of a device.
const ON_STREAMS: [&[u8]; 3] = [b"kernel", b"overhead", b"Trace"];

/// Texts of device rows that drivers do not write.
const EXTRAS_OF_TORCH: [&[u8]; 2] = [b"stream id", b"context id"];

/// Fields of packets beside what they hold: time, writer, names, flags. A packet holds one thing at most.
const BESIDE: [u32; 13] = [3, 8, 10, 12, 13, 41, 42, 58, 59, 79, 87, 98, 99];

/// Fields of converted traces.
const OF_CONVERTED: [u32; 5] = [at::TIMESTAMP, at::SEQUENCE, at::TRACK_EVENT, at::DROPPED, at::TRACK];

/// One packet of so many may have other fields: it is damaged.
const MOST_FOREIGN: u64 = 16;

/// What was seen in the first packets.
#[derive(Default)]
pub(super) struct FirstPackets {
    /// Fields of undamaged packets.
    fields: BTreeSet<u32>,
    interned: BTreeMap<u64, KindNames>,
    tracks: HashSet<u64>,
    has_streams: bool,
    /// The first categories that stand at events, in the order of the file, and what the others say.
    categories: Vec<Vec<u8>>,
    has_categories_of_torch: bool,
    has_categories_on_streams: bool,
    has_categories_of_rocprof: bool,
    /// Numbers of categories and of kinds of device rows that were used: the packet's writer and place.
    category_ids: BTreeMap<(u64, u64), u64>,
    stage_ids: BTreeMap<(u64, u64), u64>,
    has_extras: bool,
    /// Packets with fields that converted traces do not have.
    foreign: u64,
    is_damaged: bool,
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
        let mut seen = Self::default();
        let mut walk = PacketWalk::over_beginnings(source.as_mut(), BLOCK, OF_A_PACKET);
        while let Some(next) = walk.next().map_err(io_error)? {
            match next {
                Walked::Packet(bytes, at) => {
                    let swallowed = seen.look_at(|| WireMessage::new(bytes), at);
                    walk.go_back(swallowed);
                }
                Walked::Beginning(bytes, at) => {
                    seen.look_at(|| WireMessage::beginning(bytes), at);
                }
                Walked::Skipped(_) => seen.is_damaged = true,
                Walked::Cut(..) | Walked::TooLong(..) | Walked::Block(_) => {}
            }
            // Tracks are described before the first event, and there may be many.
            if seen.packets >= PACKETS && seen.events >= PACKETS || walk.offset() >= BYTES {
                break;
            }
        }
        Ok(seen)
    }

    /// Looks at a packet. Returns the number of bytes at its end that are packets of their own.
    fn look_at<'a>(&mut self, content: impl Fn() -> WireMessage<'a>, at: u64) -> usize {
        let (packet, mut fields) = (TracePacket::read(content()), BTreeSet::new());
        let mut swallowed = 0;
        let mut message = content();
        loop {
            let left = message.left();
            let Some((number, value)) = message.next() else { break };
            if number == 1 && value.bytes().is_some_and(|inner| is_packet(inner).0) {
                swallowed = left;
                break;
            }
            fields.insert(number.min(LARGEST_FIELD + 1));
        }
        if packet.sequence == ADDED_SEQUENCE {
            return swallowed;
        }
        self.packets += 1;
        let kinds = fields.iter().filter(|number| !BESIDE.contains(number)).count();
        if message.is_broken() || swallowed > 0 || kinds > 1 {
            self.is_damaged = true;
        } else {
            self.events += u64::from(kinds > 0 && packet.track.is_none() || packet.interned.is_some());
            self.foreign += u64::from(fields.iter().any(|number| !OF_CONVERTED.contains(number)));
            self.fields.extend(fields);
        }
        let sequence = packet.sequence;
        if let Some(names) = packet.interned
            && (self.interned.len() < MOST_WRITERS || self.interned.contains_key(&sequence))
        {
            self.interned.entry(sequence).or_default().read(names, MOST_IDS);
        }
        if let Some(track) = packet.track {
            let track = TrackDescriptor::read(track).0;
            self.has_streams |= track.is_stream(track.parent().is_some_and(|p| self.tracks.contains(&p)));
            self.tracks.insert(track.uuid);
        }
        if let Some(event) = packet.event {
            self.look_at_event(event, sequence, at);
        }
        if let Some(stage) = packet.stage {
            self.look_at_stage(stage, sequence, at);
        }
        swallowed
    }

    fn look_at_event(&mut self, bytes: &[u8], sequence: u64, at: u64) {
        for (number, value) in WireMessage::new(bytes) {
            match (number, value.bytes()) {
                (event::CATEGORY, Some(category)) => self.look_at_category(category),
                (event::CATEGORY_IDS, _) => {
                    for id in integers(value) {
                        keep_id(&mut self.category_ids, (sequence, id), at);
                    }
                }
                _ => {}
            }
        }
    }

    fn look_at_category(&mut self, category: &[u8]) {
        self.has_categories_of_torch |= OF_TORCH.contains(&category);
        self.has_categories_on_streams |= ON_STREAMS.contains(&category);
        self.has_categories_of_rocprof |= is_of_rocprof(category);
        let named = shown(category);
        if self.categories.len() < NAMED && !self.categories.iter().any(|known| known == named) {
            self.categories.push(named.to_vec());
        }
    }

    fn look_at_stage(&mut self, bytes: &[u8], sequence: u64, at: u64) {
        for (number, value) in WireMessage::new(bytes) {
            match (number, value.bytes()) {
                (stage::STAGE, None) => {
                    let id = value.number().unwrap_or(0);
                    keep_id(&mut self.stage_ids, (sequence, id), at);
                }
                (stage::EXTRA, Some(extra)) => {
                    let mut texts = WireMessage::new(extra)
                        .filter_map(|(number, value)| value.bytes().filter(|_| number == 1));
                    self.has_extras |= texts.any(|text| EXTRAS_OF_TORCH.contains(&text));
                }
                _ => {}
            }
        }
    }

    /// Who wrote the file.
    ///
    /// # Errors
    /// When it is no trace of torch, or one without the names of its rows.
    fn writer(&self, input: &Input) -> Result<Recorder, ReadError> {
        let refused = |OtherRecorder { what, hint }: OtherRecorder| {
            Err(ReadError::NotATrace { file: input.shown.clone(), what, hint, is_known: true })
        };
        let names = || self.interned.values();
        let has_kernels = names().any(|names| names.specifications.iter().any(|name| name == KERNEL));
        let is_native = names().any(|names| names.categories.iter().any(|name| OF_TORCH.contains(&name)));
        // Kernels on streams of a device are torch's, too.
        let is_on_streams = self.has_categories_on_streams && self.has_streams;
        let is_converted = self.has_categories_of_torch || is_on_streams;
        // A wrong length gives fields that the file does not have.
        let is_known = has_kernels || self.is_damaged && (is_native || self.has_extras || is_converted);
        if let Some(other) = self.other().filter(|_| !is_known) {
            return refused(other);
        }
        if has_kernels || is_native || self.has_extras {
            return self.check_names(input).map(|()| Recorder::Cuspy);
        }
        if self.fields.contains(&at::RENDER_STAGE) {
            return refused(PERFETTO_GRAPHICS);
        }
        let is_plain = self.foreign * MOST_FOREIGN <= self.packets;
        // Tracks without events, or less: that nothing is in it is told when it is read.
        if is_converted && is_plain || !self.fields.contains(&at::TRACK_EVENT) {
            return Ok(Recorder::Converted);
        }
        self.check_names(input)?;
        Err(ReadError::OtherEvents { file: input.shown.clone(), categories: self.named() })
    }

    /// Which other program wrote the file, by the fields of its packets.
    fn other(&self) -> Option<OtherRecorder> {
        let has = |number: u32| self.fields.contains(&number);
        if has(at::COMPRESSED) {
            return Some(PERFETTO_COMPRESSED);
        }
        let mut named = self.interned.values().flat_map(|names| names.categories.iter());
        if self.has_categories_of_rocprof || named.any(is_of_rocprof) {
            return Some(ROCPROFV3);
        }
        if [1, 2, 7].into_iter().any(has) || has(33) && has(45) {
            return Some(PERFETTO_SYSTEM);
        }
        if [51, 5, 48].into_iter().any(has) {
            return Some(PERFETTO_CHROME);
        }
        [37, 56, 66, 74].into_iter().any(has).then_some(PERFETTO_PROFILE)
    }

    /// Checks that most numbers of names that events use have names.
    ///
    /// # Errors
    /// When they have not: their packet is missing or damaged, and nothing can be said of the events.
    fn check_names(&self, input: &Input) -> Result<(), ReadError> {
        let names = |sequence: &u64| self.interned.get(sequence);
        let categories = self.category_ids.iter().map(|((sequence, id), at)| {
            (names(sequence).is_some_and(|names| names.categories.get(*id).is_some()), at)
        });
        let stages = self.stage_ids.iter().map(|((sequence, id), at)| {
            (names(sequence).is_some_and(|names| names.specifications.get(*id).is_some()), at)
        });
        let used: Vec<(bool, &u64)> = categories.chain(stages).collect();
        let missing = used.iter().filter(|(is_named, _)| !is_named);
        let Some(first) = missing.clone().map(|(_, at)| *at).min() else { return Ok(()) };
        if missing.count() * 2 <= used.len() {
            return Ok(());
        }
        let reason = format!(
            "the packet of names is missing or damaged: the packet at byte {first} has a category of which \
             only the number is there"
        );
        Err(ReadError::Damaged { file: input.shown.clone(), reason })
    }

    /// The first categories, in words.
    fn named(&self) -> String {
        let by_id = self.category_ids.keys();
        let by_id = by_id.filter_map(|(sequence, id)| self.interned.get(sequence)?.categories.get(*id));
        let mut named: Vec<String> = Vec::new();
        for category in self.categories.iter().map(Vec::as_slice).chain(by_id) {
            let category = format!("`{}`", String::from_utf8_lossy(shown(category)));
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

/// Keeps a number that is used, and where it is first.
fn keep_id(ids: &mut BTreeMap<(u64, u64), u64>, id: (u64, u64), at: u64) {
    if ids.len() < MOST_IDS {
        ids.entry(id).or_insert(at);
    }
}

fn is_of_rocprof(category: &[u8]) -> bool {
    OF_ROCPROF.iter().any(|start| category.starts_with(start))
}

/// What is shown of a category.
fn shown(category: &[u8]) -> &[u8] {
    category.get(..LONGEST_NAMED).unwrap_or(category)
}

/// Bytes that are read at once.
const BLOCK: usize = 64 << 10;

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
    // Empty packets hold nothing, and say nothing.
    let mut start = start;
    while let Some(rest) = start.strip_prefix(&[0x0a, 0]).filter(|rest| !rest.is_empty()) {
        start = rest;
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

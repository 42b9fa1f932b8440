//! A memory snapshot in columns: segments with their blocks, the history of each device, interned stacks,
//! annotations.
//!
//! Bytes are `i64`, addresses `u64`, times microseconds since the epoch as in the file. The reader ensures
//! that all sizes of a file together stay below 2^62, so sums of them cannot overflow.

use crate::strings::{Interner, StrId};
use hashbrown::{DefaultHashBuilder, HashTable};
use hta_base::health::Health;
use std::hash::BuildHasher;
use std::ops::Range;

/// What an entry of the history says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Alloc,
    FreeRequested,
    FreeCompleted,
    SegmentAlloc,
    SegmentFree,
    SegmentMap,
    SegmentUnmap,
    Oom,
    Snapshot,
    Annotate,
    /// Written by a later version of PyTorch; in no sum.
    Other,
}

/// Id of a stack of frames; [`StackId::NONE`] if none was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StackId(pub u32);

impl StackId {
    pub const NONE: StackId = StackId(u32::MAX);
}

/// One entry of a device's history.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// The address; of an `oom` the free bytes of the device.
    pub addr: u64,
    pub size: i64,
    /// Microseconds since the epoch; [`Entry::NO_TIME`] if none was recorded.
    time_us: i64,
    pub stack: StackId,
    /// The key `category`, or the empty text.
    pub category: StrId,
    /// Other keys as JSON, or the empty text.
    pub other: StrId,
    pub stream: u16,
    pub action: Action,
}

impl Entry {
    const NO_TIME: i64 = i64::MIN;

    pub fn new(action: Action) -> Self {
        Self {
            addr: 0,
            size: 0,
            time_us: Self::NO_TIME,
            stack: StackId::NONE,
            category: StrId::EMPTY,
            other: StrId::EMPTY,
            stream: u16::MAX,
            action,
        }
    }

    pub fn set_time(&mut self, time_us: i64) {
        self.time_us = time_us;
    }

    pub fn time_us(&self) -> Option<i64> {
        (self.time_us != Self::NO_TIME).then_some(self.time_us)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockState {
    Allocated,
    /// Freed, but another stream may still use it.
    Pending,
    Inactive,
    Unknown,
}

#[derive(Debug, Clone, Copy)]
pub struct MemoryBlock {
    pub address: u64,
    pub bytes: i64,
    /// Bytes that the program asked for; of an inactive block a left-over value.
    pub requested: i64,
    pub state: BlockState,
    pub stack: StackId,
}

#[derive(Debug, Clone, Copy)]
pub struct Segment {
    pub device: i64,
    pub address: u64,
    pub bytes: i64,
    /// Sums that the file states; `None` if the key is missing.
    pub allocated: Option<i64>,
    pub requested: Option<i64>,
    pub stream: Option<i64>,
    pub is_large: Option<bool>,
    pub is_expandable: bool,
    /// Two numbers; (0, 0) is the default pool.
    pub pool: (i64, i64),
    pub stack: StackId,
    pub first_block: u32,
    pub block_count: u32,
}

#[derive(Debug, Clone, Copy)]
pub struct Frame {
    pub file: StrId,
    pub function: StrId,
    pub line: Option<i64>,
}

#[derive(Debug, Clone, Copy)]
pub struct Annotation {
    pub is_start: bool,
    pub name: StrId,
    pub device: Option<i64>,
    pub time_us: Option<i64>,
}

/// The history of one device.
#[derive(Debug, Clone, Default)]
pub struct DeviceHistory {
    pub device: i64,
    /// Whether it is pinned memory of the host.
    pub is_host: bool,
    /// Ranges of [`Snapshot::entries`], in order.
    pub runs: Vec<Range<u32>>,
}

/// How it is known that the first entries of a history are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overflow {
    /// Setting `trace_alloc_overflowed`.
    Told,
    /// The history has as many entries as the buffer holds.
    Full,
}

impl DeviceHistory {
    pub fn len(&self) -> usize {
        self.runs.iter().map(|r| r.len()).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Frames and stacks, each kept once.
#[derive(Default)]
pub struct SnapshotStacks {
    frames: Vec<Frame>,
    frame_table: HashTable<u32>,
    /// Frames of all stacks, and the end of each stack among them.
    members: Vec<u32>,
    ends: Vec<u32>,
    stack_table: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl SnapshotStacks {
    pub fn frame(&mut self, frame: Frame) -> u32 {
        let key = |f: &Frame| (f.file.0, f.function.0, f.line);
        let (frames, hasher) = (&self.frames, &self.hasher);
        let hash = hasher.hash_one(key(&frame));
        let at = |i: &u32| frames.get(*i as usize).map(key);
        if let Some(id) = self.frame_table.find(hash, |i| at(i) == Some(key(&frame))) {
            return *id;
        }
        let id = self.frames.len() as u32;
        self.frames.push(frame);
        let (frames, hasher) = (&self.frames, &self.hasher);
        self.frame_table
            .insert_unique(hash, id, |i| hasher.hash_one(frames.get(*i as usize).map_or((0, 0, None), key)));
        id
    }

    /// The stack of these frames, innermost first.
    pub fn stack(&mut self, of: &[u32]) -> StackId {
        let hash = self.hasher.hash_one(of);
        let (members, ends, hasher) = (&self.members, &self.ends, &self.hasher);
        if let Some(id) = self.stack_table.find(hash, |i| members_of(members, ends, *i) == of) {
            return StackId(*id);
        }
        let id = self.ends.len() as u32;
        self.members.extend_from_slice(of);
        self.ends.push(self.members.len() as u32);
        let (members, ends) = (&self.members, &self.ends);
        self.stack_table.insert_unique(hash, id, |i| hasher.hash_one(members_of(members, ends, *i)));
        StackId(id)
    }

    /// Number of distinct stacks.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// All distinct frames; a stack refers to them by place.
    pub fn distinct_frames(&self) -> &[Frame] {
        &self.frames
    }

    /// Places of a stack's frames, innermost first; none for [`StackId::NONE`].
    pub fn places(&self, stack: StackId) -> &[u32] {
        members_of(&self.members, &self.ends, stack.0)
    }

    /// The frames of a stack, innermost first; none for [`StackId::NONE`].
    pub fn frames(&self, stack: StackId) -> impl DoubleEndedIterator<Item = &Frame> {
        let members = members_of(&self.members, &self.ends, stack.0);
        members.iter().filter_map(|i| self.frames.get(*i as usize))
    }

    pub fn held_bytes(&self) -> u64 {
        let tables = self.frames.len() + self.ends.len();
        (self.frames.len() * size_of::<Frame>()
            + (self.members.len() + self.ends.len() + tables) * size_of::<u32>()) as u64
    }
}

fn members_of<'a>(members: &'a [u32], ends: &[u32], stack: u32) -> &'a [u32] {
    let stack = stack as usize;
    let start = stack.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or(0);
    match ends.get(stack) {
        Some(end) => members.get(start as usize..*end as usize).unwrap_or_default(),
        None => &[],
    }
}

/// How old the format is; see `hta explain snapshots`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Generation {
    /// 2022: blocks carry their own history.
    BlockHistory,
    /// 2023: entries without times.
    Untimed,
    /// 2024: times, settings and annotations.
    Timed,
    /// 2025: compile contexts and user metadata.
    CompileContext,
    /// 2026: pinned memory of the host.
    Host,
}

/// A memory snapshot.
pub struct Snapshot {
    pub generation: Generation,
    pub texts: Interner,
    pub stacks: SnapshotStacks,
    /// Segments of the devices, in the order of the file.
    pub segments: Vec<Segment>,
    /// Segments of pinned memory of the host.
    pub host_segments: Vec<Segment>,
    pub blocks: Vec<MemoryBlock>,
    pub entries: Vec<Entry>,
    /// One a device, in the order of the file; devices without entries are left out.
    pub histories: Vec<DeviceHistory>,
    pub annotations: Vec<Annotation>,
    /// Name and value, as JSON, of each allocator setting.
    pub settings: Vec<(String, String)>,
    pub streams: Vec<i64>,
    /// Size of the unpacked file, bytes.
    pub unpacked_bytes: u64,
    /// Number of rows that could not be read as what their keys say.
    pub health: Health,
}

impl Snapshot {
    pub fn blocks(&self, segment: &Segment) -> &[MemoryBlock] {
        let first = segment.first_block as usize;
        self.blocks.get(first..first + segment.block_count as usize).unwrap_or_default()
    }

    pub fn entries<'a>(&'a self, of: &'a DeviceHistory) -> impl DoubleEndedIterator<Item = &'a Entry> {
        of.runs.iter().flat_map(|r| self.entries.get(r.start as usize..r.end as usize).unwrap_or_default())
    }

    /// Whether a ring buffer dropped the first entries of a history: as the recorder says, or because it is
    /// full.
    pub fn overflow(&self, history: &DeviceHistory) -> Option<Overflow> {
        let setting =
            |name: &str| self.settings.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str());
        let most = setting("trace_alloc_max_entries").and_then(|v| v.parse::<u64>().ok());
        let is_full = most.is_some_and(|most| most > 0 && history.len() as u64 >= most);
        match setting("trace_alloc_overflowed") {
            Some("true") => Some(Overflow::Told),
            Some("false") => None,
            _ => is_full.then_some(Overflow::Full),
        }
    }

    /// Memory of its rows and texts, bytes.
    pub fn held_bytes(&self) -> u64 {
        let rows = self.entries.len() * size_of::<Entry>() + self.blocks.len() * size_of::<MemoryBlock>();
        rows as u64 + self.stacks.held_bytes() + self.texts.held_bytes()
    }

    pub fn stream(&self, entry: &Entry) -> Option<i64> {
        self.streams.get(usize::from(entry.stream)).copied()
    }
}

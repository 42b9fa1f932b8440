//! Turns a dict that closes into what its keys say it is: an entry, frame, block, segment or annotation, as a
//! row of columns.

use super::claims::RowClaims;
use super::container::{Containers, Object, RowKind, SharedList, Value};
use super::json::Budget;
use super::keys;
use hashbrown::HashMap;
use hta_base::health::{Counter, Health};
use hta_trace::snapshot::{
    Action, Annotation, BlockState, Entry, Frame, MemoryBlock, Segment, SnapshotStacks, StackId,
};
use hta_trace::strings::{Interner, StrId};

/// The sum of all sizes of a file stays below this, so that no sum of sizes overflows.
const LARGEST_SUM: i64 = 1 << 62;

/// Largest time that can be converted to nanoseconds.
const LARGEST_TIME: i64 = i64::MAX / 1000;

/// An element of `history` of a block of the first generation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Past {
    pub(crate) real_size: i64,
    pub(crate) stack: StackId,
}

/// All rows of a file.
pub(crate) struct SnapshotRowList {
    pub(crate) texts: Interner,
    pub(crate) stacks: SnapshotStacks,
    pub(crate) entries: Vec<Entry>,
    pub(crate) blocks: Vec<MemoryBlock>,
    pub(crate) segments: Vec<Segment>,
    pub(crate) annotations: Vec<Annotation>,
    pub(crate) pasts: Vec<Past>,
    pub(crate) streams: Vec<i64>,
    /// Place of each stream.
    stream_places: HashMap<i64, u16>,
    pub(crate) json: Budget,
    /// Entries, blocks and segments that a device or segment has.
    claims: [RowClaims; 3],
    pub(crate) health: Health,
    /// What tells the generations apart.
    pub(crate) has_time: bool,
    pub(crate) has_context: bool,
    pub(crate) has_past: bool,
    /// Sum of all sizes so far.
    sum: i64,
    last_stream: u16,
}

impl SnapshotRowList {
    pub(crate) fn new() -> Self {
        Self {
            texts: keys::interner(),
            stacks: SnapshotStacks::default(),
            entries: Vec::new(),
            blocks: Vec::new(),
            segments: Vec::new(),
            annotations: Vec::new(),
            pasts: Vec::new(),
            streams: Vec::new(),
            stream_places: HashMap::new(),
            json: Budget::default(),
            claims: Default::default(),
            health: Health::default(),
            has_time: false,
            has_context: false,
            has_past: false,
            sum: 0,
            last_stream: 0,
        }
    }

    pub(crate) fn held_bytes(&self) -> u64 {
        (self.entries.len() * size_of::<Entry>()
            + self.blocks.len() * size_of::<MemoryBlock>()
            + self.segments.len() * size_of::<Segment>()
            + self.annotations.len() * size_of::<Annotation>()
            + self.pasts.len() * size_of::<Past>()) as u64
            + self.stacks.held_bytes()
            + self.texts.held_bytes()
    }

    /// Closes a dict with these keys and values, one after the other; `None` if it is none of the known
    /// kinds, or has no room.
    pub(crate) fn close(&mut self, pairs: &[Value], c: &mut Containers, byte: u64) -> Option<Object> {
        let mut keys = pairs.iter().step_by(2);
        let kind = keys.find_map(|key| match key.text()? {
            keys::ACTION => Some(RowKind::Entry),
            keys::BLOCKS => Some(RowKind::Segment),
            keys::STATE if has(pairs, keys::SIZE) => Some(RowKind::Block),
            keys::STAGE => Some(RowKind::Annotation),
            keys::REAL_SIZE => Some(RowKind::Past),
            _ => None,
        });
        let at = match kind {
            None if has(pairs, keys::FILENAME) && has(pairs, keys::NAME) => return Some(self.frame(pairs)),
            None => return None,
            Some(RowKind::Entry) => {
                let entry = self.entry(pairs, c, byte);
                push(&mut self.entries, entry)
            }
            Some(RowKind::Block) => {
                let block = self.block(pairs, c, byte);
                push(&mut self.blocks, block)
            }
            Some(RowKind::Segment) => {
                let segment = self.segment(pairs, c, byte);
                push(&mut self.segments, segment)
            }
            Some(RowKind::Annotation) => {
                let annotation = self.annotation(pairs, byte);
                push(&mut self.annotations, annotation)
            }
            Some(RowKind::Past) => {
                let past = self.past(pairs, c, byte);
                push(&mut self.pasts, past)
            }
        };
        kind.zip(at).map(|(kind, at)| Object::Row { kind, at })
    }

    fn unusable(&mut self, byte: u64) {
        self.health.hit(Counter::SnapshotValueUnusable, byte);
    }

    /// A size in bytes; 0 and counted if it cannot be one.
    fn size(&mut self, value: Value, byte: u64) -> i64 {
        match value.int().filter(|v| *v >= 0 && self.sum.checked_add(*v).is_some_and(|sum| sum < LARGEST_SUM))
        {
            Some(v) => {
                self.sum += v;
                v
            }
            None => {
                self.unusable(byte);
                0
            }
        }
    }

    fn address(&mut self, value: Value, byte: u64) -> u64 {
        value.address().unwrap_or_else(|| {
            self.unusable(byte);
            0
        })
    }

    fn stack(&mut self, value: Value, c: &mut Containers, byte: u64) -> StackId {
        c.stack(value, &mut self.stacks).unwrap_or_else(|| {
            if value != Value::None {
                self.unusable(byte);
            }
            StackId::NONE
        })
    }

    fn time(&mut self, value: Value, byte: u64) -> Option<i64> {
        let time = value.int().filter(|t| t.unsigned_abs() <= LARGEST_TIME as u64);
        if time.is_none() {
            self.unusable(byte);
        }
        self.has_time = true;
        time
    }

    fn stream(&mut self, value: Value, byte: u64) -> u16 {
        let Some(stream) = value.int() else {
            self.unusable(byte);
            return u16::MAX;
        };
        if self.streams.get(usize::from(self.last_stream)) == Some(&stream) {
            return self.last_stream;
        }
        if let Some(place) = self.stream_places.get(&stream) {
            self.last_stream = *place;
            return *place;
        }
        // A device has some dozen streams; a file with thousands is damaged.
        let Some(place) = u16::try_from(self.streams.len()).ok().filter(|at| *at < u16::MAX) else {
            self.unusable(byte);
            return u16::MAX;
        };
        self.streams.push(stream);
        self.stream_places.insert(stream, place);
        self.last_stream = place;
        place
    }

    fn entry(&mut self, pairs: &[Value], c: &mut Containers, byte: u64) -> Entry {
        let mut entry = Entry::new(Action::Other);
        let mut other: Vec<(StrId, Value)> = Vec::new();
        for (key, value) in pairs_of(pairs) {
            match key.text().unwrap_or_default() {
                keys::ACTION => {
                    entry.action = keys::action(value.text().unwrap_or_default());
                    if entry.action == Action::Other {
                        let name = value.text().map_or("", |t| self.texts.get(t));
                        self.health.add(Counter::SnapshotActionUnknown, 1, Some(byte), name);
                    }
                }
                keys::ADDR | keys::DEVICE_FREE => entry.addr = self.address(value, byte),
                keys::SIZE => entry.size = self.size(value, byte),
                keys::STREAM => entry.stream = self.stream(value, byte),
                keys::TIME_US => {
                    if let Some(time) = self.time(value, byte) {
                        entry.set_time(time);
                    }
                }
                keys::FRAMES => entry.stack = self.stack(value, c, byte),
                keys::CATEGORY => entry.category = value.text().unwrap_or_default(),
                keys::COMPILE_CONTEXT | keys::USER_METADATA if is_default(value) => self.has_context = true,
                key => {
                    self.has_context |= key == keys::COMPILE_CONTEXT;
                    other.push((key, value));
                }
            }
        }
        if !other.is_empty() {
            let json = self.json_of(&other, c, byte);
            entry.other = self.texts.intern(&json);
        }
        entry
    }

    /// Keys that are not known, with their values, as JSON.
    fn json_of(&mut self, pairs: &[(StrId, Value)], c: &Containers, byte: u64) -> String {
        let mut json = self.json.writer(c, &self.texts, byte);
        for (key, value) in pairs {
            if json.is_full() {
                break;
            }
            json.out.push(if json.out.is_empty() { '{' } else { ',' });
            json.text(*key);
            json.out.push(':');
            json.value(*value);
        }
        if !json.out.is_empty() {
            json.out.push('}');
        }
        let out = json.out;
        self.json.spend(&out);
        out
    }

    /// Takes rows for the one place that has them; false, and counted, if another has.
    pub(crate) fn claim(&mut self, kind: RowKind, first: u32, len: u32, byte: Option<u64>) -> bool {
        let claims = match kind {
            RowKind::Entry => self.claims.first_mut(),
            RowKind::Block => self.claims.get_mut(1),
            _ => self.claims.last_mut(),
        };
        let is_free = claims.is_some_and(|c| c.claim(first, len));
        if !is_free {
            self.shared(byte);
        }
        is_free
    }

    /// Counts rows that another place has, or a list of them.
    pub(crate) fn shared(&mut self, byte: Option<u64>) {
        self.health.add(Counter::SnapshotShared, 1, byte, "");
    }

    fn frame(&mut self, pairs: &[Value]) -> Object {
        let mut frame = Frame { file: StrId::EMPTY, function: StrId::EMPTY, line: None };
        for (key, value) in pairs_of(pairs) {
            match key.text().unwrap_or_default() {
                keys::FILENAME => frame.file = value.text().unwrap_or_default(),
                keys::NAME => frame.function = value.text().unwrap_or_default(),
                // A line that is unknown is written as 2^64 - 1.
                keys::LINE => frame.line = value.int().filter(|line| *line >= 0),
                _ => {}
            }
        }
        Object::Frame(self.stacks.frame(frame))
    }

    fn block(&mut self, pairs: &[Value], c: &mut Containers, byte: u64) -> MemoryBlock {
        let mut block = MemoryBlock {
            address: 0,
            bytes: 0,
            requested: 0,
            state: BlockState::Unknown,
            stack: StackId::NONE,
        };
        let (mut requested, mut past) = (None, None);
        for (key, value) in pairs_of(pairs) {
            match key.text().unwrap_or_default() {
                keys::ADDRESS => block.address = self.address(value, byte),
                keys::SIZE => block.bytes = self.size(value, byte),
                keys::REQUESTED_SIZE => requested = Some(self.size(value, byte)),
                keys::STATE => {
                    block.state = match value.text().unwrap_or_default() {
                        keys::ACTIVE_ALLOCATED => BlockState::Allocated,
                        keys::ACTIVE_PENDING_FREE | keys::ACTIVE_AWAITING_FREE => BlockState::Pending,
                        keys::INACTIVE => BlockState::Inactive,
                        _ => {
                            self.unusable(byte);
                            BlockState::Unknown
                        }
                    }
                }
                keys::FRAMES => block.stack = self.stack(value, c, byte),
                keys::HISTORY => {
                    self.has_past = true;
                    past = c.first(value).and_then(|v| match v {
                        Value::Rows { kind: RowKind::Past, first, .. } => {
                            self.pasts.get(first as usize).copied()
                        }
                        _ => None,
                    });
                }
                _ => {}
            }
        }
        if let Some(past) = past {
            block.stack = past.stack;
        }
        block.requested = requested.or(past.map(|p| p.real_size)).unwrap_or(block.bytes);
        block
    }

    fn past(&mut self, pairs: &[Value], c: &mut Containers, byte: u64) -> Past {
        let mut past = Past { real_size: 0, stack: StackId::NONE };
        for (key, value) in pairs_of(pairs) {
            match key.text().unwrap_or_default() {
                keys::REAL_SIZE => past.real_size = self.size(value, byte),
                keys::FRAMES => past.stack = self.stack(value, c, byte),
                _ => {}
            }
        }
        past
    }

    fn segment(&mut self, pairs: &[Value], c: &mut Containers, byte: u64) -> Segment {
        let mut segment = Segment {
            device: 0,
            address: 0,
            bytes: 0,
            allocated: None,
            requested: None,
            stream: None,
            is_large: None,
            is_expandable: false,
            pool: (0, 0),
            stack: StackId::NONE,
            first_block: 0,
            block_count: 0,
        };
        for (key, value) in pairs_of(pairs) {
            match key.text().unwrap_or_default() {
                keys::DEVICE => segment.device = value.int().unwrap_or_default(),
                keys::ADDRESS => segment.address = self.address(value, byte),
                keys::TOTAL_SIZE => segment.bytes = self.size(value, byte),
                keys::ALLOCATED_SIZE => segment.allocated = value.int(),
                keys::REQUESTED_SIZE => segment.requested = value.int(),
                keys::STREAM => segment.stream = value.int(),
                keys::SEGMENT_TYPE => {
                    segment.is_large = match value.text() {
                        Some(keys::LARGE) => Some(true),
                        Some(keys::SMALL) => Some(false),
                        _ => None,
                    }
                }
                keys::IS_EXPANDABLE => segment.is_expandable = value == Value::Bool(true),
                keys::SEGMENT_POOL_ID => segment.pool = c.pair(value).unwrap_or_default(),
                keys::FRAMES => segment.stack = self.stack(value, c, byte),
                keys::BLOCKS => match c.take(value) {
                    Ok(values) => {
                        (segment.first_block, segment.block_count) = self.block_range(&values, byte)
                    }
                    Err(SharedList) => self.shared(Some(byte)),
                },
                _ => {}
            }
        }
        self.place_blocks(&segment);
        segment
    }

    /// The blocks of a segment as one range; they are copied to the end if they are not one.
    fn block_range(&mut self, values: &[Value], byte: u64) -> (u32, u32) {
        if let [Value::Rows { kind: RowKind::Block, first, len }] = values {
            return if self.claim(RowKind::Block, *first, *len, Some(byte)) {
                (*first, *len)
            } else {
                (0, 0)
            };
        }
        let first = self.blocks.len();
        for value in values {
            match value {
                Value::Rows { kind: RowKind::Block, first, len } => {
                    if !self.claim(RowKind::Block, *first, *len, Some(byte)) {
                        continue;
                    }
                    let range = *first as usize..(*first as usize).saturating_add(*len as usize);
                    let copied: Vec<MemoryBlock> = self.blocks.get(range).unwrap_or_default().to_vec();
                    self.blocks.extend(copied);
                }
                _ => self.unusable(byte),
            }
        }
        match (u32::try_from(first), u32::try_from(self.blocks.len() - first)) {
            (Ok(first), Ok(len)) => (first, len),
            _ => (0, 0),
        }
    }

    /// Blocks of the first generation have no address: it is the running sum of sizes.
    fn place_blocks(&mut self, segment: &Segment) {
        let first = segment.first_block as usize;
        let mut at = segment.address;
        for block in self.blocks.get_mut(first..first + segment.block_count as usize).into_iter().flatten() {
            if block.address == 0 {
                block.address = at;
            }
            at = at.saturating_add(block.bytes.unsigned_abs());
        }
    }

    fn annotation(&mut self, pairs: &[Value], byte: u64) -> Annotation {
        let mut annotation = Annotation { is_start: false, name: StrId::EMPTY, device: None, time_us: None };
        for (key, value) in pairs_of(pairs) {
            match key.text().unwrap_or_default() {
                keys::STAGE => annotation.is_start = value == Value::Text(keys::START),
                keys::NAME => annotation.name = value.text().unwrap_or_default(),
                keys::DEVICE => annotation.device = value.int(),
                keys::TIME_US => annotation.time_us = self.time(value, byte),
                _ => {}
            }
        }
        annotation
    }
}

/// Whether a value of a context key says nothing.
fn is_default(value: Value) -> bool {
    matches!(value, Value::None | Value::Text(StrId::EMPTY | keys::NOT_KNOWN))
}

fn has(pairs: &[Value], key: StrId) -> bool {
    pairs.iter().step_by(2).any(|k| *k == Value::Text(key))
}

fn pairs_of(pairs: &[Value]) -> impl Iterator<Item = (Value, Value)> {
    pairs.chunks_exact(2).filter_map(|pair| match pair {
        [key, value] => Some((*key, *value)),
        _ => None,
    })
}

/// Adds a row; its place, or `None` if there are 2^32 already.
fn push<T>(rows: &mut Vec<T>, row: T) -> Option<u32> {
    let at = u32::try_from(rows.len()).ok().filter(|at| *at < u32::MAX)?;
    rows.push(row);
    Some(at)
}

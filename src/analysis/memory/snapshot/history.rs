//! The history of a device, replayed: the level before it, the level after every entry, and who is alive at a
//! moment.
//!
//! ```text
//!   entry        0      1      2      3          end state: blocks b, c
//!   alloc a      |------|                        a: allocated and freed
//!   alloc b             .      |--------->       b: alive at the end
//!   free  x  ----|                               x: freed, but not allocated here: it was there before
//!            --------------------------->        c: a block at the end that no entry allocates: it was there before
//!   before = x + c
//! ```
//!
//! The level is the sum of who is alive, so it is never negative and the content of any moment adds up to it.

use super::end_state::EndState;
use hashbrown::HashMap;
use hashbrown::hash_map::Entry as Slot;
use hta_trace::snapshot::{
    Action, BlockState, DeviceHistory, Entry, MemoryBlock, Segment, Snapshot, StackId,
};

/// When freed memory stops counting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Until {
    /// When the tensor is gone.
    Requested,
    /// When no stream can use the memory any more.
    #[default]
    Completed,
}

impl Until {
    /// What an option names.
    pub(crate) fn named(text: Option<&str>) -> Self {
        if text == Some("requested") { Self::Requested } else { Self::Completed }
    }

    fn frees(self, action: Action) -> bool {
        action == if self == Until::Requested { Action::FreeRequested } else { Action::FreeCompleted }
    }

    /// Whether a block in this state at the end is alive.
    fn is_alive(self, state: BlockState) -> bool {
        state == BlockState::Allocated || (self == Until::Completed && state == BlockState::Pending)
    }
}

/// Where something that is alive comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeldOrigin {
    /// Entry that allocated it.
    Entry(u32),
    /// From before the history, alive at the end.
    BeforeAlive,
    /// From before the history, freed by this entry.
    BeforeFreed(u32),
}

/// One allocation that is alive at a moment.
#[derive(Debug, Clone, Copy)]
pub struct HeldAllocation {
    pub(crate) origin: HeldOrigin,
    pub bytes: i64,
    /// Of the allocation; of what was freed later, of the free.
    pub(crate) stack: StackId,
}

/// How an allocation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Freed(u32),
    Live,
    /// Its address was allocated again.
    Unknown(u32),
}

/// One allocation of the history.
#[derive(Debug, Clone, Copy)]
pub struct HistoryAllocation {
    pub(crate) seq: u32,
    pub(crate) ended: Ended,
}

/// The highest level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peak {
    pub bytes: i64,
    /// The first entry that reaches it; `None` if the level before the history is the highest.
    pub seq: Option<u32>,
}

/// A replayed history.
pub struct ReplayedHistory {
    pub(crate) until: Until,
    /// Level before the first entry.
    pub before: i64,
    /// Level after every entry.
    pub levels: Vec<i64>,
    pub peak: Peak,
    /// Entries that free what no entry allocated.
    pub unmatched_frees: Vec<u32>,
    /// Blocks at the end that no entry allocated.
    pub(crate) before_alive: Vec<MemoryBlock>,
    /// Entries of allocations that are alive at the end.
    pub(crate) live: Vec<u32>,
    /// Reserved before the first entry.
    pub reserved_before: i64,
    pub reserved_max: i64,
    /// By how much `before` differs from what the end state and the changes say.
    pub disagreement: i64,
    pub(crate) over_live: u64,
}

/// Changes of the level by the entries, told one after the other.
struct Changes<'a> {
    until: Until,
    open: HashMap<u64, (u32, i64)>,
    told: &'a mut dyn FnMut(u32, &Entry, LevelChange),
}

/// What an entry does to the level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LevelChange {
    Alloc,
    /// Frees what this entry allocated, of this size.
    Free {
        of: u32,
        bytes: i64,
    },
    FreeUnmatched,
    /// The entry allocates where this one is still alive.
    Replace {
        of: u32,
        bytes: i64,
    },
    None,
}

impl Changes<'_> {
    fn run<'a>(mut self, entries: impl Iterator<Item = &'a Entry>) -> HashMap<u64, (u32, i64)> {
        for (seq, entry) in (0u32..).zip(entries) {
            if entry.action == Action::Alloc {
                let change = match self.open.insert(entry.addr, (seq, entry.size)) {
                    Some((of, bytes)) => LevelChange::Replace { of, bytes },
                    None => LevelChange::Alloc,
                };
                (self.told)(seq, entry, change);
            } else if self.until.frees(entry.action) {
                let change = match self.open.entry(entry.addr) {
                    Slot::Occupied(slot) => {
                        let (of, bytes) = slot.remove();
                        LevelChange::Free { of, bytes }
                    }
                    Slot::Vacant(_) => LevelChange::FreeUnmatched,
                };
                (self.told)(seq, entry, change);
            } else {
                (self.told)(seq, entry, LevelChange::None);
            }
        }
        self.open
    }
}

/// Change of the reserved memory by an entry.
pub(crate) fn reserved_delta(entry: &Entry) -> i64 {
    match entry.action {
        Action::SegmentAlloc | Action::SegmentMap => entry.size,
        Action::SegmentFree | Action::SegmentUnmap => -entry.size,
        _ => 0,
    }
}

impl ReplayedHistory {
    /// Replays a history that ended in these segments.
    pub(crate) fn new(
        snapshot: &Snapshot,
        history: &DeviceHistory,
        segments: &[&Segment],
        end: &EndState,
        until: Until,
    ) -> Self {
        let mut levels = Vec::with_capacity(history.len());
        let mut unmatched_frees = Vec::new();
        let (mut level, mut raw, mut unmatched, mut over_live) = (0i64, 0i64, 0i64, 0);
        let (mut reserved, mut reserved_most) = (0i64, 0i64);
        let mut tell = |seq: u32, entry: &Entry, change: LevelChange| {
            match change {
                LevelChange::Alloc => (level, raw) = (level + entry.size, raw + entry.size),
                LevelChange::Replace { bytes, .. } => {
                    (level, raw) = (level + entry.size - bytes, raw + entry.size);
                    over_live += 1;
                }
                LevelChange::Free { bytes, .. } => (level, raw) = (level - bytes, raw - entry.size),
                LevelChange::FreeUnmatched => {
                    (level, raw, unmatched) = (level - entry.size, raw - entry.size, unmatched + entry.size);
                    unmatched_frees.push(seq);
                }
                LevelChange::None => {}
            }
            reserved += reserved_delta(entry);
            reserved_most = reserved_most.max(reserved);
            levels.push(level);
        };
        let open = Changes { until, open: HashMap::new(), told: &mut tell }.run(snapshot.entries(history));
        let blocks = segments.iter().flat_map(|s| snapshot.blocks(s));
        let before_alive: Vec<MemoryBlock> =
            blocks.filter(|b| until.is_alive(b.state) && !open.contains_key(&b.address)).copied().collect();
        let before = unmatched + before_alive.iter().map(|b| b.requested).sum::<i64>();
        let stated = end.requested + if until == Until::Completed { end.pending_requested } else { 0 } - raw;
        levels.iter_mut().for_each(|l| *l += before);
        let mut peak = Peak { bytes: before, seq: None };
        for (seq, level) in (0u32..).zip(&levels) {
            if *level > peak.bytes || (peak.seq.is_none() && *level == peak.bytes) {
                peak = Peak { bytes: *level, seq: Some(seq) };
            }
        }
        let mut live: Vec<u32> = open.into_values().map(|(seq, _)| seq).collect();
        live.sort_unstable();
        let reserved_before = end.reserved - reserved;
        Self {
            until,
            before,
            levels,
            peak,
            unmatched_frees,
            before_alive,
            live,
            reserved_before,
            reserved_max: reserved_before + reserved_most,
            disagreement: before - stated,
            over_live,
        }
    }

    /// Level after an entry; before the first for `None`.
    pub fn level(&self, seq: Option<u32>) -> i64 {
        seq.and_then(|s| self.levels.get(s as usize)).copied().unwrap_or(self.before)
    }

    /// Who is alive after an entry (before the first for `None`), in order: from before, then by entry.
    pub(crate) fn content(
        &self,
        snapshot: &Snapshot,
        history: &DeviceHistory,
        at: Option<u32>,
    ) -> Vec<HeldAllocation> {
        let mut held: Vec<HeldAllocation> = Vec::new();
        let until = at.map_or(0, |seq| seq as usize + 1);
        let before = self.before_alive.iter();
        held.extend(before.map(|b| HeldAllocation {
            origin: HeldOrigin::BeforeAlive,
            bytes: b.requested,
            stack: b.stack,
        }));
        let mut freed_later =
            self.unmatched_frees.iter().copied().filter(|seq| at.is_none_or(|at| *seq > at)).peekable();
        let mut nothing = |_: u32, _: &Entry, _: LevelChange| {};
        let changes = Changes { until: self.until, open: HashMap::new(), told: &mut nothing };
        let open = changes.run(snapshot.entries(history).take(until));
        let mut open: Vec<u32> = open.into_values().map(|(seq, _)| seq).collect();
        open.sort_unstable();
        let mut open = open.into_iter().peekable();
        for (seq, entry) in (0u32..).zip(snapshot.entries(history)) {
            let origin = if open.next_if_eq(&seq).is_some() {
                HeldOrigin::Entry(seq)
            } else if freed_later.next_if_eq(&seq).is_some() {
                HeldOrigin::BeforeFreed(seq)
            } else {
                continue;
            };
            held.push(HeldAllocation { origin, bytes: entry.size, stack: entry.stack });
        }
        held
    }

    /// All allocations of the history, in order.
    pub fn allocations(&self, snapshot: &Snapshot, history: &DeviceHistory) -> Vec<HistoryAllocation> {
        let mut all: Vec<HistoryAllocation> = Vec::new();
        let mut ends: HashMap<u32, Ended> = HashMap::new();
        let mut tell = |seq: u32, _: &Entry, change: LevelChange| {
            if let LevelChange::Free { of, .. } = change {
                ends.insert(of, Ended::Freed(seq));
            }
            if let LevelChange::Replace { of, .. } = change {
                ends.insert(of, Ended::Unknown(seq));
            }
            if matches!(change, LevelChange::Alloc | LevelChange::Replace { .. }) {
                all.push(HistoryAllocation { seq, ended: Ended::Live });
            }
        };
        Changes { until: self.until, open: HashMap::new(), told: &mut tell }.run(snapshot.entries(history));
        for a in &mut all {
            if let Some(ended) = ends.get(&a.seq) {
                a.ended = *ended;
            }
        }
        all
    }
}

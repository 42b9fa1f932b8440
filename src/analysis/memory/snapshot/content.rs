//! What holds the memory at a moment, by site, stack, autograd node or phase. The parts add up to the level.

use super::device::DeviceMemory;
use super::history::{HeldAllocation, HeldOrigin};
use super::site::Sites;
use super::stack_text::folded;
use hta_trace::snapshot::Action;
use std::collections::BTreeMap;

/// What memory is added up by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ContentKey {
    #[default]
    Line,
    Stack,
    Node,
    Phase,
}

impl ContentKey {
    pub const ALL: [ContentKey; 4] =
        [ContentKey::Line, ContentKey::Stack, ContentKey::Node, ContentKey::Phase];

    /// As in `--by` and column `key_kind`.
    pub fn name(self) -> &'static str {
        match self {
            ContentKey::Line => "line",
            ContentKey::Stack => "stack",
            ContentKey::Node => "node",
            ContentKey::Phase => "phase",
        }
    }
}

/// Keys of what was allocated before the history.
pub(crate) const BEFORE_ALIVE: &str = "[before window] still alive";
pub(crate) const BEFORE_FREED: &str = "[before window] freed later";

/// A part of the level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContentPart {
    pub key: String,
    pub count: u64,
    pub bytes: i64,
}

/// The parts of what is alive, the largest first.
pub fn parts(
    device: &DeviceMemory,
    sites: &Sites,
    held: impl IntoIterator<Item = HeldAllocation>,
    by: ContentKey,
) -> Vec<ContentPart> {
    let entries: Vec<_> = device.history.iter().flat_map(|h| device.snapshot.entries(h)).collect();
    // By numbers first: a text for every allocation would be many.
    let mut sums: BTreeMap<(&str, u32), (u64, i64)> = BTreeMap::new();
    for h in held {
        let facts = sites.of(h.stack);
        let before = match h.origin {
            HeldOrigin::Entry(_) => "",
            HeldOrigin::BeforeAlive => BEFORE_ALIVE,
            HeldOrigin::BeforeFreed(_) => BEFORE_FREED,
        };
        let key = match (by, h.origin) {
            (ContentKey::Stack, _) => (before, h.stack.0),
            (_, HeldOrigin::BeforeAlive | HeldOrigin::BeforeFreed(_)) => (before, 0),
            (ContentKey::Line, HeldOrigin::Entry(_)) => ("", facts.site),
            (ContentKey::Node, HeldOrigin::Entry(_)) => ("", facts.node),
            (ContentKey::Phase, HeldOrigin::Entry(seq)) => {
                (entries.get(seq as usize).map_or("", |e| device.phases.of(e, facts)), 0)
            }
        };
        let sum = sums.entry(key).or_default();
        *sum = (sum.0 + 1, sum.1 + h.bytes);
    }
    // Different stacks can have the same text once frames of the interpreter are left out.
    let mut by_text: BTreeMap<String, (u64, i64)> = BTreeMap::new();
    for part in sums.into_iter().map(|((text, number), (count, bytes)): ((&str, u32), (u64, i64))| {
        let key = match (by, text) {
            (ContentKey::Stack, "") => folded(device.snapshot, number),
            (ContentKey::Stack, before) => format!("{before};{}", folded(device.snapshot, number)),
            (ContentKey::Line | ContentKey::Node, "") => sites.name(number).to_string(),
            (_, text) => text.to_string(),
        };
        ContentPart { key, count, bytes }
    }) {
        let sum = by_text.entry(part.key).or_default();
        *sum = (sum.0 + part.count, sum.1 + part.bytes);
    }
    let mut parts: Vec<ContentPart> =
        by_text.into_iter().map(|(key, (count, bytes))| ContentPart { key, count, bytes }).collect();
    parts.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.key.cmp(&b.key)));
    parts
}

/// What the entries of the history allocate, the largest first; most of it is freed again.
pub fn allocated(device: &DeviceMemory, sites: &Sites, by: ContentKey) -> Vec<ContentPart> {
    let entries = device.history.iter().flat_map(|h| device.snapshot.entries(h));
    let allocs = (0u32..).zip(entries).filter(|(_, e)| e.action == Action::Alloc);
    let held = allocs.map(|(seq, e)| HeldAllocation {
        origin: HeldOrigin::Entry(seq),
        bytes: e.size,
        stack: e.stack,
    });
    parts(device, sites, held, by)
}

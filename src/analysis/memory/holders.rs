//! What holds a device's memory at a moment: the allocations that are alive, summed by operator, line, module
//! and phase.
//!
//! All moments are served by one walk over the records, which adds and removes allocations:
//!
//! ```text
//!   record      +a   +b   -a   +c
//!   alive       a    ab   b    bc
//!   moment           ^ 1: a, b       ^ end: b, c
//! ```
//!
//! What was allocated before the recording is known only as a sum: the level minus what is alive.

use crate::memory::device::RecordedDevice;
use crate::memory::tables::{MemoryContent, MemoryContentRow};
use hta_base::units::percent;
use hta_facts::by_owner::{NO_MODULE, NO_OPERATOR};
use hta_facts::lines::LineId;
use hta_facts::memory_places::{MemoryPhase, MemoryPlace, MemoryPlaces, ShownOperator};
use hta_trace::memory::Allocation;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Holder of what was allocated before the recording.
pub const BEFORE: &str = "[before window]";

/// One holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Holder {
    Line(LineId),
    Module(Option<u32>),
    Op(Option<ShownOperator>),
    Phase(MemoryPhase),
}

/// The kinds of holders, in order of their names.
pub(crate) const KINDS: [&str; 4] = ["line", "module", "op", "phase"];

impl Holder {
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Holder::Line(_) => "line",
            Holder::Module(_) => "module",
            Holder::Op(_) => "op",
            Holder::Phase(_) => "phase",
        }
    }

    /// `None` if the trace does not record such holders.
    pub(crate) fn text(self, places: &MemoryPlaces) -> Option<String> {
        match self {
            Holder::Line(line) => places.line(line),
            Holder::Module(_) if places.paths.is_empty() => None,
            Holder::Module(module) => {
                let path = module.and_then(|m| places.paths.get(m as usize));
                Some(path.map_or(NO_MODULE, String::as_str).to_string())
            }
            Holder::Op(op) => Some(op.map_or_else(|| NO_OPERATOR.to_string(), |op| places.text(op))),
            Holder::Phase(phase) => Some(phase.name().to_string()),
        }
    }

    /// The holders of an allocation, one of each kind.
    pub fn of(place: &MemoryPlace, places: &MemoryPlaces) -> [Holder; 4] {
        [
            Holder::Line(place.line),
            Holder::Module(place.module),
            Holder::Op(place.op.map(|op| places.shown(op))),
            Holder::Phase(place.phase),
        ]
    }
}

/// Number and size of allocations.
pub(crate) type CountAndBytes = (u64, i64);

/// What is alive at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct HeldMemory {
    pub(crate) by_holder: BTreeMap<Holder, CountAndBytes>,
    pub(crate) known: CountAndBytes,
}

/// What is alive after each of the given records, which must be in order; empty where allocations are not
/// known.
pub(crate) fn held_after(
    memory: &RecordedDevice,
    places: &MemoryPlaces,
    numbers: &[usize],
) -> Vec<HeldMemory> {
    // Where the level before the recording is unknown, what is alive is no part of anything.
    let Some(allocations) = memory.allocations.as_ref().filter(|_| !memory.is_relative) else {
        return Vec::new();
    };
    // The allocation that each record opens, and the ones that it closes (two if it allocates over a live
    // one).
    let mut changes: Vec<(u32, bool, &Allocation)> = Vec::with_capacity(2 * allocations.all.len());
    for allocation in allocations.all.iter().filter(|a| a.opened.is_some()) {
        changes.extend(allocation.opened.map(|n| (n, true, allocation)));
        changes.extend(allocation.closed.map(|n| (n, false, allocation)));
    }
    changes.sort_by_key(|c| (c.0, c.1));
    let mut held = HeldMemory::default();
    let mut next = changes.into_iter().peekable();
    let mut out = Vec::with_capacity(numbers.len());
    for &number in numbers {
        while let Some((_, is_opened, allocation)) = next.next_if(|c| c.0 as usize <= number) {
            held.change(memory, places, allocation, is_opened);
        }
        out.push(held.clone());
    }
    out
}

impl HeldMemory {
    fn change(
        &mut self,
        memory: &RecordedDevice,
        places: &MemoryPlaces,
        allocation: &Allocation,
        is_opened: bool,
    ) {
        let Some(opened) = allocation.opened.map(|n| n as usize) else { return };
        let (Some(record), Some(place)) = (memory.records.get(opened), memory.places.get(opened)) else {
            return;
        };
        let add = |(count, bytes): &mut CountAndBytes| match is_opened {
            true => (*count, *bytes) = (*count + 1, bytes.saturating_add(record.bytes)),
            false => (*count, *bytes) = (count.saturating_sub(1), bytes.saturating_sub(record.bytes)),
        };
        add(&mut self.known);
        for holder in Holder::of(place, places) {
            let of = self.by_holder.entry(holder).or_default();
            add(of);
            if of.0 == 0 {
                self.by_holder.remove(&holder);
            }
        }
    }
}

/// The moment of some rows.
#[derive(Debug, Clone, Copy)]
pub struct HolderMoment<'a> {
    pub(crate) name: &'a str,
    pub(crate) step: Option<u32>,
    pub(crate) level: i64,
}

/// Adds the rows of one moment.
pub(crate) fn push(
    table: &mut MemoryContent,
    memory: &RecordedDevice,
    places: &MemoryPlaces,
    moment: HolderMoment,
    held: &HeldMemory,
) {
    for kind in KINDS {
        let of_kind = held.by_holder.iter().filter(|(holder, _)| holder.kind() == kind);
        let named = of_kind.map(|(holder, sum)| Some((holder.text(places)?, Some(sum.0), sum.1)));
        let Some(mut rows) = named.collect::<Option<Vec<_>>>() else { continue };
        if (kind == "line" && places.lines.is_empty()) || (kind == "module" && places.paths.is_empty()) {
            continue;
        }
        let before = moment.level.saturating_sub(held.known.1);
        if before != 0 {
            rows.push((BEFORE.to_string(), None, before));
        }
        rows.sort_by(|a, b| (Reverse(a.2), &a.0).cmp(&(Reverse(b.2), &b.0)));
        for (key, count, bytes) in rows {
            table.push(MemoryContentRow {
                rank: memory.rank,
                device_type: &memory.device_type,
                device: memory.device,
                source: super::TRACE,
                moment: moment.name,
                step: moment.step,
                key_kind: kind,
                key: &key,
                count,
                bytes,
                pct: percent(bytes, moment.level),
            });
        }
    }
}

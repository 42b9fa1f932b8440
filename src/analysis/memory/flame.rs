//! Stacks of allocations with bytes, for flame graphs: from the device over Python frames and operators, root
//! first.
//!
//! ```text
//!   alloc   every allocation of the recording
//!   peak    what is alive at the peak; with `[before window]` the sum is the peak
//!   end     what is alive at the end
//! ```

use crate::memory::device::{RecordedDevice, devices};
use crate::memory::holders::BEFORE;
use crate::memory::report::{device_name, is_of_device};
use crate::stacks::StackTree;
use hta_base::table::schema::Batch;
use hta_facts::calls::CallForest;
use hta_facts::lines::Lines;
use hta_facts::memory_places::MemoryPlaces;
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::StrId;

/// Which allocations are folded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeldStacks {
    Alloc,
    Peak,
    End,
}

impl HeldStacks {
    /// What an option names.
    pub(crate) fn named(text: Option<&str>) -> Option<Self> {
        match text {
            Some("alloc") => Some(Self::Alloc),
            Some("peak") => Some(Self::Peak),
            Some("end") => Some(Self::End),
            _ => None,
        }
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Alloc => "allocated memory",
            Self::Peak => "memory at the peak",
            Self::End => "memory at the end",
        }
    }
}

/// A name of the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum MemoryStackName {
    /// Number among the devices of the rank.
    Device(usize),
    Row(StrId),
    Before,
}

/// The stacks of a rank, of all its devices or the one that a text names.
pub(crate) fn fold(trace: &RankTrace, held: HeldStacks, device: Option<&str>) -> Batch {
    let calls = CallForest::new(trace);
    let lines = Lines::of(trace);
    let places = MemoryPlaces::new(&calls, &lines);
    let all = devices(trace, &places);
    let mut tree: StackTree<MemoryStackName> = StackTree::default();
    for (number, memory) in all.iter().enumerate() {
        if device.is_none_or(|text| is_of_device(&memory.device_type, memory.device, text)) {
            add(&mut tree, trace, &lines, memory, (held, MemoryStackName::Device(number)));
        }
    }
    tree.table(|name| match name {
        MemoryStackName::Device(number) => {
            all.get(number).map_or_else(String::new, |m| device_name(&m.device_type, m.device))
        }
        MemoryStackName::Row(name) => trace.text(name).to_string(),
        MemoryStackName::Before => BEFORE.to_string(),
    })
}

fn add(
    tree: &mut StackTree<MemoryStackName>,
    trace: &RankTrace,
    lines: &Lines,
    memory: &RecordedDevice,
    of: (HeldStacks, MemoryStackName),
) {
    let (held, device) = of;
    // The root is left out of folded stacks, so the device is also their first frame.
    let root = tree.below(None, device);
    let root = tree.below(Some(root), device);
    let moment = match held {
        HeldStacks::Alloc => None,
        HeldStacks::Peak => memory.peak(None),
        HeldStacks::End => memory.levels.len().checked_sub(1),
    };
    let mut known = 0i64;
    for number in opened(memory, moment) {
        let (Some(record), Some(place)) = (memory.records.get(number), memory.places.get(number)) else {
            continue;
        };
        // As in other flame graphs, frames are the outer part: those open when the outermost operator starts.
        let outward = |row: u32| trace.stacks.outward(row);
        let mut stack: Vec<u32> = place.op.into_iter().flat_map(outward).collect();
        let start =
            stack.last().and_then(|row| trace.columns.ts.get(*row as usize)).copied().unwrap_or(record.ts);
        stack.extend(lines.frame_at(record.lane, start).into_iter().flat_map(outward));
        stack.reverse();
        let name = |row: &u32| MemoryStackName::Row(trace.columns.name(*row as usize));
        let leaf = stack.iter().fold(root, |at, row| tree.below(Some(at), name(row)));
        tree.add(leaf, record.bytes);
        known = known.saturating_add(record.bytes);
    }
    let level = moment.and_then(|number| memory.levels.get(number)).copied().filter(|_| !memory.is_relative);
    if let Some(before) = level.map(|level| level.saturating_sub(known)).filter(|before| *before > 0) {
        let node = tree.below(Some(root), MemoryStackName::Before);
        tree.add(node, before);
    }
}

/// Numbers of the records that allocate what is alive after a record; of all that allocate, if none is given.
fn opened(memory: &RecordedDevice, moment: Option<usize>) -> Vec<usize> {
    let Some(moment) = moment else {
        return (0..memory.records.len())
            .filter(|n| memory.records.get(*n).is_some_and(|r| r.bytes > 0))
            .collect();
    };
    let is_alive = |opened: usize, closed: Option<u32>| {
        opened <= moment && closed.is_none_or(|closed| closed as usize > moment)
    };
    let all = memory.allocations.iter().flat_map(|a| &a.all);
    all.filter_map(|a| a.opened.map(|n| n as usize).filter(|n| is_alive(*n, a.closed))).collect()
}

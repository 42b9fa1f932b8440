//! The records of one device with their places, levels and allocations: what all tables are made of.

use hta_base::units::{Ns, Span};
use hta_facts::memory_places::{MemoryPlace, MemoryPlaces};
use hta_trace::memory::{Allocations, MemoryRecord, by_device, device_type_name, levels};
use hta_trace::rank_trace::RankTrace;
use hta_trace::step::Step;
use std::ops::Range;

/// The memory of one device over the recording.
pub(crate) struct RecordedDevice<'a> {
    pub(crate) rank: u32,
    pub(crate) device_type: String,
    pub device: Option<i64>,
    pub(crate) records: &'a [MemoryRecord],
    /// Where each record happens.
    pub(crate) places: Vec<MemoryPlace>,
    /// Level before the first record; 0 if it is unknown.
    pub(crate) before: i64,
    /// Whether it is unknown.
    pub(crate) is_relative: bool,
    /// Level after each record.
    pub(crate) levels: Vec<i64>,
    /// `None` without addresses.
    pub(crate) allocations: Option<Allocations>,
    /// Memory of the device.
    pub(crate) total: Option<i64>,
}

/// All devices of a rank, in order of type and number.
pub(crate) fn devices<'a>(trace: &'a RankTrace, places: &MemoryPlaces) -> Vec<RecordedDevice<'a>> {
    let of_each = by_device(&trace.columns.memory).map(|records| RecordedDevice::new(trace, places, records));
    let mut all: Vec<RecordedDevice> = of_each.collect();
    all.sort_by(|a, b| (&a.device_type, a.device).cmp(&(&b.device_type, b.device)));
    all
}

impl<'a> RecordedDevice<'a> {
    fn new(trace: &'a RankTrace, places: &MemoryPlaces, records: &'a [MemoryRecord]) -> Self {
        let (kind, device) = records.first().map_or((0, None), MemoryRecord::place);
        let (before, is_relative, levels) = levels(records);
        let properties = device.and_then(|id| trace.device_properties(Some(id)));
        Self {
            rank: trace.rank,
            device_type: device_type_name(kind),
            device,
            records,
            places: records.iter().map(|r| places.at(r.lane, r.ts)).collect(),
            before,
            is_relative,
            levels,
            allocations: Allocations::pair(records),
            total: properties.and_then(|p| p.memory_bytes).and_then(|b| i64::try_from(b).ok()),
        }
    }

    /// Reserved after a record; `None` for the host, whose allocator reserves nothing.
    pub(crate) fn reserved(&self, number: usize) -> Option<i64> {
        self.records.get(number).filter(|r| r.device.is_some()).and_then(|r| r.total_reserved)
    }

    /// Reserved but not allocated after a record.
    pub(crate) fn unused(&self, number: usize) -> Option<i64> {
        Some(self.reserved(number)?.saturating_sub(*self.levels.get(number)?))
    }

    /// The level at an instant, before anything that is recorded at that instant.
    pub(crate) fn level_before(&self, t: Ns) -> i64 {
        let count = self.records.partition_point(|r| r.ts < t);
        count.checked_sub(1).and_then(|last| self.levels.get(last)).copied().unwrap_or(self.before)
    }

    /// The numbers of the records in a step (all, if none is given).
    pub(crate) fn numbers_in(&self, step: Option<&Step>) -> Range<usize> {
        let Some(Span { start, end }) = step.map(|s| s.host) else { return 0..self.records.len() };
        let before = |t: Ns| self.records.partition_point(|r| r.ts < t);
        before(start)..before(end).max(before(start))
    }

    /// The first record with the highest level of those in a step (of all, if none is given).
    pub(crate) fn peak(&self, step: Option<&Step>) -> Option<usize> {
        self.numbers_in(step).max_by_key(|&n| (self.levels.get(n), std::cmp::Reverse(n)))
    }
}

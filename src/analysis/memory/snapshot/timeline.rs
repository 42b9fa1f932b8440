//! Memory timelines of the profiler: level by category of tensor, in the tables of the analysis `memory`.
//!
//! A tensor that changes in place has two rows, the bytes taken away and added again. So the level is that
//! after the last row of a time: within a time there is no dip and no peak.

use super::tables::{DumpTables, MemoryCategories, MemoryCategoryRow, MemoryDeviceRow, MemoryDevices};
use crate::memory::tables::{
    MemoryContent, MemoryContentRow, MemoryCurve, MemoryCurveRow, MemoryPeakRow, MemoryPeaks,
};
use hta_base::units::percent;
use hta_trace::memory_moment::MemoryMoment;
use hta_trace::memory_timeline::{CATEGORIES, MemoryTimeline, Sizes, TimelineAction};

/// Column `source` of everything from a timeline.
pub(crate) const TIMELINE: &str = "timeline";
/// A timeline does not name its device.
const DEVICE_TYPE: &str = "unknown";

/// The rows of one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Instant {
    ts_ns: Option<i64>,
    /// Number of its last row.
    seq: u64,
    /// Change and level of each category after it.
    deltas: Sizes,
    levels: Sizes,
    /// Bytes and category of the largest tensor that it makes.
    largest: Option<(i64, u8)>,
}

/// A timeline with its levels.
pub struct Levels {
    instants: Vec<Instant>,
    /// Place of the highest level in `instants`.
    peak: usize,
    /// Highest level of each category.
    pub most: Sizes,
    /// Level before the first row with a time.
    pub before: i64,
}

fn total(sizes: &Sizes) -> i64 {
    sizes.iter().sum()
}

impl Levels {
    pub fn new(timeline: &MemoryTimeline) -> Self {
        let mut instants: Vec<Instant> = Vec::new();
        let mut levels: Sizes = [0; CATEGORIES.len()];
        for (seq, row) in (0u64..).zip(&timeline.rows) {
            if instants.last().is_none_or(|last| last.ts_ns != row.ts_ns) {
                instants.push(Instant {
                    ts_ns: row.ts_ns,
                    seq,
                    deltas: [0; CATEGORIES.len()],
                    levels,
                    largest: None,
                });
            }
            let Some(now) = instants.last_mut() else { continue };
            let category = usize::from(row.category);
            if let Some(level) = levels.get_mut(category) {
                *level += row.delta;
            }
            if let Some(delta) = now.deltas.get_mut(category) {
                *delta += row.delta;
            }
            (now.seq, now.levels) = (seq, levels);
            let is_new = matches!(row.action, TimelineAction::Create | TimelineAction::Level);
            if is_new && now.largest.is_none_or(|(bytes, _)| row.delta > bytes) {
                now.largest = Some((row.delta, row.category));
            }
        }
        let mut peak = 0;
        let mut most: Sizes = [0; CATEGORIES.len()];
        let mut highest = i64::MIN;
        for (i, instant) in instants.iter().enumerate() {
            if total(&instant.levels) > highest {
                (highest, peak) = (total(&instant.levels), i);
            }
            most.iter_mut().zip(&instant.levels).for_each(|(most, level)| *most = (*most).max(*level));
        }
        let before = instants.iter().take_while(|i| i.ts_ns.is_none()).last().map_or(0, |i| total(&i.levels));
        Self { instants, peak, most, before }
    }

    fn at(&self, moment: MemoryMoment) -> Option<&Instant> {
        match moment {
            // A timeline has no steps.
            MemoryMoment::Step(_) => None,
            MemoryMoment::Peak => self.instants.get(self.peak),
            MemoryMoment::End => self.instants.last(),
            MemoryMoment::Entry(row) => self.instants.iter().find(|i| i.seq >= u64::from(row)),
            MemoryMoment::Time(ns) => {
                self.instants.iter().take_while(|i| i.ts_ns.is_none_or(|t| t <= ns)).last()
            }
        }
    }

    pub(super) fn has(&self, moment: MemoryMoment) -> bool {
        self.at(moment).is_some()
    }

    /// Bytes by category at a moment, the largest first.
    fn parts(&self, moment: MemoryMoment) -> Option<Vec<(&'static str, i64)>> {
        let levels = &self.at(moment)?.levels;
        let mut parts: Vec<(&str, i64)> =
            CATEGORIES.into_iter().zip(levels.iter().copied()).filter(|p| p.1 != 0).collect();
        parts.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        Some(parts)
    }

    /// Adds the rows of the timeline to all tables; what is printed is at `at`, or at the peak.
    pub fn add(&self, tables: &mut DumpTables, rank: u32, at: Option<MemoryMoment>) {
        self.add_peak(&mut tables.peaks, rank);
        self.add_content(&mut tables.content, rank, at);
        self.add_device(&mut tables.devices, rank);
        self.add_categories(&mut tables.categories, rank, at.unwrap_or_default());
        tables.curve.iter_mut().for_each(|table| self.add_curve(table, rank));
    }

    /// The highest level.
    pub fn peak_bytes(&self) -> i64 {
        self.instants.get(self.peak).map_or(0, |i| total(&i.levels))
    }

    fn add_peak(&self, table: &mut MemoryPeaks, rank: u32) {
        let Some(peak) = self.instants.get(self.peak) else { return };
        table.push(MemoryPeakRow {
            rank,
            device_type: DEVICE_TYPE,
            source: TIMELINE,
            scope: "capture",
            peak_bytes: total(&peak.levels),
            base_bytes: Some(self.before),
            seq: peak.seq,
            ts_ns: peak.ts_ns,
            trigger_bytes: peak.largest.map_or(0, |(bytes, _)| bytes),
            ..MemoryPeakRow::default()
        });
    }

    fn add_content(&self, table: &mut MemoryContent, rank: u32, moment: Option<MemoryMoment>) {
        for at in moment.map_or(vec![MemoryMoment::End, MemoryMoment::Peak], |m| vec![m]) {
            let parts = self.parts(at).unwrap_or_default();
            let whole: i64 = parts.iter().map(|p| p.1).sum();
            for (category, bytes) in parts {
                table.push(MemoryContentRow {
                    rank,
                    device_type: DEVICE_TYPE,
                    device: None,
                    source: TIMELINE,
                    moment: &at.name(),
                    step: None,
                    key_kind: "category",
                    key: category,
                    count: None,
                    bytes,
                    pct: percent(bytes, whole),
                });
            }
        }
    }

    /// The device in figures: a timeline has a history alone.
    fn add_device(&self, table: &mut MemoryDevices, rank: u32) {
        table.push(MemoryDeviceRow {
            rank,
            device_type: DEVICE_TYPE,
            source: TIMELINE,
            peak_bytes: Some(self.peak_bytes()),
            base_bytes: Some(self.before),
            ..MemoryDeviceRow::default()
        });
    }

    /// The categories at a moment.
    fn add_categories(&self, table: &mut MemoryCategories, rank: u32, moment: MemoryMoment) {
        let (Some(instant), Some(parts)) = (self.at(moment), self.parts(moment)) else { return };
        let first = self.instants.iter().find_map(|i| i.ts_ns);
        let most = |name: &str| {
            CATEGORIES.iter().zip(self.most).find(|(c, _)| **c == name).map_or(0, |(_, most)| most)
        };
        for (category, bytes) in parts {
            table.push(MemoryCategoryRow {
                rank,
                seq: instant.seq,
                since_ns: instant.ts_ns.zip(first).map(|(t, first)| t - first),
                category,
                bytes,
                max_bytes: most(category),
            });
        }
    }

    /// One row for each category that changes at a time.
    fn add_curve(&self, table: &mut MemoryCurve, rank: u32) {
        for instant in &self.instants {
            for (category, delta) in
                CATEGORIES.into_iter().zip(instant.deltas).filter(|(_, delta)| *delta != 0)
            {
                table.push(MemoryCurveRow {
                    rank,
                    device_type: DEVICE_TYPE,
                    device: None,
                    source: TIMELINE,
                    seq: instant.seq,
                    ts_ns: instant.ts_ns,
                    delta_bytes: delta,
                    allocated_bytes: total(&instant.levels),
                    reserved_bytes: None,
                    is_relative: false,
                    category: Some(category),
                });
            }
        }
    }
}

//! Memory timelines of the profiler: level by category of tensor, in the tables of the analysis `memory`.
//!
//! A tensor that changes in place has two rows, the bytes taken away and added again. So the level is that after the last
//! row of a time: within a time there is no dip and no peak.

use super::findings::size;
use crate::api::{Align, View};
use crate::memory::tables::{MemoryContent, MemoryContentRow, MemoryCurve, MemoryCurveRow, MemoryPeakRow, MemoryPeaks};
use hta_base::table::schema::{Batch, TableSpec};
use hta_base::units::{fmt_count, fmt_ns, fmt_pct, percent};
use hta_read::snapshot::{CATEGORIES, MemoryTimeline, Sizes, TimelineAction};
use hta_trace::memory_moment::MemoryMoment;

/// Column `source` of everything from a timeline.
const SOURCE: &str = "timeline";
/// A timeline does not name its device.
const DEVICE_TYPE: &str = "unknown";

/// The tables of a timeline.
pub const TIMELINE_TABLES: &[&TableSpec] = &[MemoryPeaks::SPEC, MemoryContent::SPEC, MemoryCurve::SPEC];

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
                instants.push(Instant { ts_ns: row.ts_ns, seq, deltas: [0; CATEGORIES.len()], levels, largest: None });
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
            MemoryMoment::Time(ns) => self.instants.iter().take_while(|i| i.ts_ns.is_none_or(|t| t <= ns)).last(),
        }
    }

    /// Bytes by category at a moment, the largest first.
    fn parts(&self, moment: MemoryMoment) -> Option<Vec<(&'static str, i64)>> {
        let levels = &self.at(moment)?.levels;
        let mut parts: Vec<(&str, i64)> =
            CATEGORIES.into_iter().zip(levels.iter().copied()).filter(|p| p.1 != 0).collect();
        parts.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        Some(parts)
    }

    /// The rows of one table.
    pub fn table(&self, spec: &TableSpec, rank: u32, moment: Option<MemoryMoment>) -> Option<Batch> {
        match spec.name {
            name if name == MemoryPeaks::SPEC.name => self.peaks(rank),
            name if name == MemoryContent::SPEC.name => Some(self.content(rank, moment)),
            name if name == MemoryCurve::SPEC.name => Some(self.curve(rank)),
            _ => None,
        }
    }

    /// The highest level.
    pub fn peak_bytes(&self) -> i64 {
        self.instants.get(self.peak).map_or(0, |i| total(&i.levels))
    }

    fn peaks(&self, rank: u32) -> Option<Batch> {
        let peak = self.instants.get(self.peak)?;
        let mut table = MemoryPeaks::default();
        table.push(MemoryPeakRow {
            rank,
            device_type: DEVICE_TYPE,
            device: None,
            source: SOURCE,
            scope: "capture",
            step: None,
            step_label: None,
            peak_bytes: total(&peak.levels),
            base_bytes: Some(self.before),
            is_relative: false,
            reserved_bytes: None,
            unused_max_bytes: None,
            seq: peak.seq,
            ts_ns: peak.ts_ns,
            in_step_ns: None,
            phase: None,
            trigger_bytes: peak.largest.map_or(0, |(bytes, _)| bytes),
            trigger_op: None,
            trigger_chain: None,
            trigger_site: None,
            module: None,
            known_count: None,
            known_bytes: None,
            before_bytes: None,
            device_total_bytes: None,
        });
        Some(table.finish())
    }

    fn content(&self, rank: u32, moment: Option<MemoryMoment>) -> Batch {
        let mut table = MemoryContent::default();
        for at in moment.map_or(vec![MemoryMoment::End, MemoryMoment::Peak], |m| vec![m]) {
            let parts = self.parts(at).unwrap_or_default();
            let whole: i64 = parts.iter().map(|p| p.1).sum();
            for (category, bytes) in parts {
                table.push(MemoryContentRow {
                    rank,
                    device_type: DEVICE_TYPE,
                    device: None,
                    source: SOURCE,
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
        table.finish()
    }

    /// One row for each category that changes at a time.
    fn curve(&self, rank: u32) -> Batch {
        let mut table = MemoryCurve::default();
        for instant in &self.instants {
            for (category, delta) in CATEGORIES.into_iter().zip(instant.deltas).filter(|(_, delta)| *delta != 0) {
                table.push(MemoryCurveRow {
                    rank,
                    device_type: DEVICE_TYPE,
                    device: None,
                    source: SOURCE,
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
        table.finish()
    }

    /// The view of the report.
    pub fn view(&self, rank: u32, moment: MemoryMoment) -> Option<View> {
        let instant = self.at(moment)?;
        let first = self.instants.iter().find_map(|i| i.ts_ns);
        let since =
            instant.ts_ns.zip(first).map_or_else(String::new, |(t, first)| format!(", {} in", fmt_ns(t - first)));
        let parts = self.parts(moment)?;
        let whole = total(&instant.levels);
        let most = |name: &str| CATEGORIES.iter().zip(self.most).find(|(c, _)| **c == name).map_or(0, |(_, most)| most);
        let row = |(name, bytes): &(&'static str, i64)| {
            vec![name.to_string(), size(*bytes), fmt_pct(percent(*bytes, whole)), size(most(name))]
        };
        let when = moment.words();
        Some(View {
            title: format!(
                "Memory {when}: {} (rank {rank}, timeline, row {}{since})",
                size(whole),
                fmt_count(instant.seq)
            ),
            columns: vec![
                ("category", Align::Left),
                ("bytes", Align::Right),
                ("share", Align::Right),
                ("most of it at any time", Align::Right),
            ],
            rows: parts.iter().map(row).collect(),
            notes: vec![format!("before the recording: {}", size(self.before))],
        })
    }
}

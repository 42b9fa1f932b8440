//! What is printed of the devices of dumps beside the tables: which come first, what the allocator holds, and
//! what is said of them.

use super::choice::SnapshotChoice;
use super::device::device_words;
use super::end_state::EndState;
use super::events::EventKind;
use super::tables::{
    MemoryCategories, MemoryDeviceRow, MemoryDevices, MemoryReserved, MemoryReservedRow, MemorySegments,
};
use super::timeline::TIMELINE;
use crate::api::{Options, Partial, ViewNote, rows};
use crate::memory::report::{CATEGORIES, EVENTS, HOLDERS, RESERVED, ReportedDevice, note, size};
use crate::memory::tables::{MemoryContent, MemoryEvents, MemoryHighest, MemoryHighestRow};
use hta_base::table::schema::Batch;
use hta_base::units::{fmt_count, fmt_ns, fmt_pct, percent};
use hta_base::wording::counts::counted;
use hta_trace::memory_moment::MemoryMoment;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Order of devices, the one nearest to its limit first: a device whose requests fail, then by the most that
/// it reserved or held. A snapshot does not say how much a device has. Pinned memory of the host comes last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Nearness {
    is_host: bool,
    fits: bool,
    most: Reverse<Option<i64>>,
}

impl Nearness {
    pub(super) fn of(row: &MemoryDeviceRow) -> Self {
        let reserved = row.reserved_max_bytes.or(row.reserved_bytes);
        Self {
            is_host: row.device.is_none() && row.source != TIMELINE,
            fits: row.failed_count == 0,
            most: Reverse(row.peak_bytes.max(reserved)),
        }
    }
}

/// Name of a device in sentences.
pub(super) fn name(row: &MemoryDeviceRow) -> String {
    if row.source == TIMELINE { TIMELINE.to_string() } else { device_words(row.device) }
}

/// Largest number of devices that are printed in detail.
const MOST_DETAILED: usize = 4;

/// A device that is printed in detail.
struct DeviceReport<'a> {
    row: MemoryDeviceRow<'a>,
    partials: &'a [Partial],
    choice: SnapshotChoice<'a>,
    /// Before its notes, where there are several devices.
    place: String,
}

/// The devices and what the allocator holds of them, and what is said below the views.
pub(crate) fn tables(partials: &[Partial], options: &Options) -> (Vec<Batch>, Vec<ViewNote>) {
    let mut devices: Vec<MemoryDeviceRow> = rows::<MemoryDevices>(partials).collect();
    devices.sort_by_key(Nearness::of);
    let (mut highest, mut reserved) = (MemoryHighest::default(), MemoryReserved::default());
    let mut notes = Vec::new();
    if devices.len() > MOST_DETAILED {
        notes.push(note(
            "",
            format!(
                "details follow of the {MOST_DETAILED} first devices; --ranks and --device choose others"
            ),
        ));
    }
    let is_one = devices.len() == 1;
    for (place, row) in (0..).zip(devices) {
        let whose = if is_one { String::new() } else { format!("rank {}, {}: ", row.rank, name(&row)) };
        let device = DeviceReport { row, partials, choice: SnapshotChoice::of(options), place: whose };
        let is_detailed = (place as usize) < MOST_DETAILED;
        device.add_highest(&mut highest, place, is_detailed);
        if row.source != TIMELINE {
            device.add_reserved(&mut reserved);
        }
        if is_detailed {
            notes.extend(device.notes());
        }
    }
    (vec![highest.finish(), reserved.finish()], notes)
}

impl DeviceReport<'_> {
    fn has_history(&self) -> bool {
        self.row.entry_count.is_some()
    }

    fn is(&self, rank: u32, device_type: &str, device: Option<i64>) -> bool {
        let own = ReportedDevice {
            rank: self.row.rank,
            device_type: self.row.device_type,
            device: self.row.device,
        };
        own.is(rank, device_type, device)
    }

    /// The moment whose content is printed.
    fn moment(&self) -> MemoryMoment {
        if self.has_history() { self.choice.at.unwrap_or_default() } else { MemoryMoment::End }
    }

    fn add_highest(&self, table: &mut MemoryHighest, place: u32, is_detailed: bool) {
        let d = &self.row;
        table.push(MemoryHighestRow {
            place,
            rank: d.rank,
            device_type: d.device_type,
            device: d.device,
            source: d.source,
            peak_bytes: d.peak_bytes,
            reserved_max_bytes: d.reserved_max_bytes,
            reserved_bytes: d.reserved_bytes,
            active_bytes: d.active_bytes,
            split_bytes: d.split_bytes,
            split_pct: d.split_bytes.zip(d.reserved_bytes).and_then(|(split, all)| percent(split, all)),
            is_detailed,
            moment: &self.moment().name(),
            key_kind: self.choice.by.name(),
            ..MemoryHighestRow::default()
        });
    }

    /// The bytes that the allocator holds, in parts that add up.
    fn add_reserved(&self, table: &mut MemoryReserved) {
        let (d, end) = (&self.row, EndState::of(&self.row));
        let active = format!("of {}", counted(end.active_blocks, "active block"));
        let split = format!("free beside blocks in use; fragmented: {}", size(end.fragmented()));
        let parts = [
            ("requested", end.requested, active.as_str()),
            ("rounding", end.rounding(), "sizes are rounded up"),
            ("pending", end.pending, "freed, but another stream may still use it"),
            ("releasable", end.releasable, "whole segments that empty_cache() would return"),
            ("split", end.split, split.as_str()),
        ];
        for (position, (part, bytes, meaning)) in (0..).zip(parts) {
            table.push(MemoryReservedRow {
                rank: d.rank,
                device_type: d.device_type,
                device: d.device,
                position,
                part,
                bytes,
                pct: percent(bytes, end.reserved),
                meaning,
            });
        }
    }

    fn notes(&self) -> Vec<ViewNote> {
        if self.row.source == TIMELINE {
            return self.timeline().into_iter().map(|text| self.note(CATEGORIES, text)).collect();
        }
        let mut notes: Vec<ViewNote> =
            self.content().into_iter().map(|text| self.note(HOLDERS, text)).collect();
        notes.extend(self.reserved().into_iter().map(|text| self.note(RESERVED, text)));
        notes.extend(self.grown_late().map(|text| self.note(EVENTS, text)));
        notes
    }

    fn note(&self, view: &'static str, text: String) -> ViewNote {
        note(view, format!("{}{text}", self.place))
    }

    fn content(&self) -> Vec<String> {
        let (by, moment) = (self.choice.by.name(), self.moment());
        let name = moment.name();
        let of_moment = rows::<MemoryContent>(self.partials)
            .filter(|r| self.is(r.rank, r.device_type, r.device) && r.key_kind == by && r.moment == name);
        let (mut whole, mut small) = (0i64, (0u64, 0i64));
        for r in of_moment {
            whole = whole.saturating_add(r.bytes);
            if r.bytes < self.choice.min_bytes {
                small = (small.0 + 1, small.1.saturating_add(r.bytes));
            }
        }
        let mut notes = vec![format!("{}, by {by}: {} requested", moment.words(), size(whole))];
        if small.0 > 0 {
            notes.push(format!("below --min-bytes: {} with {}", counted(small.0, "holder"), size(small.1)));
        }
        notes.extend(self.row.base_bytes.map(|base| format!("before the first entry: {}", size(base))));
        if !self.has_history() {
            notes.push(
                "no history was recorded: torch.cuda.memory._record_memory_history() before the work"
                    .to_string(),
            );
        }
        notes
    }

    /// What is said of the parts of what the allocator holds.
    fn reserved(&self) -> Vec<String> {
        let end = EndState::of(&self.row);
        let mut notes = Vec::new();
        if let Some(index) = end.fragmentation() {
            let pct = fmt_pct(Some(100.0 * index));
            notes.push(format!(
                "largest free block {}: {pct} of the free memory lie in other blocks",
                size(end.largest_inactive)
            ));
        }
        if end.tails > 0 {
            let tails = size(end.tails);
            notes.push(format!(
                "of split, {tails} are at the end of expandable segments: empty_cache() would return them"
            ));
        }
        let most = self.row.reserved_before_bytes.zip(self.row.reserved_max_bytes);
        let history = most
            .map(|(before, most)| format!("{} before the history, {} at most, ", size(before), size(most)));
        notes.push(format!("reserved: {}{} at the end", history.unwrap_or_default(), size(end.reserved)));
        notes.extend(self.by_stream());
        if self.row.has_times == Some(false) {
            notes.push("the entries have no times: their number is the axis".to_string());
        }
        notes
    }

    /// Reserved by pool and stream, where there are several.
    fn by_stream(&self) -> Option<String> {
        let mut places: BTreeMap<((i64, i64), Option<i64>), i64> = BTreeMap::new();
        let segments = rows::<MemorySegments>(self.partials);
        for s in segments.filter(|s| self.is(s.rank, s.device_type, s.device)) {
            let pool = s.pool.split_once(',').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
            *places.entry((pool.unwrap_or_default(), s.stream)).or_default() += s.bytes;
        }
        let shown = |((pool, stream), bytes): (&((i64, i64), Option<i64>), &i64)| {
            let stream = stream.map_or_else(|| "unknown".to_string(), |s| s.to_string());
            let pool = if *pool == (0, 0) { String::new() } else { format!("pool {},{} ", pool.0, pool.1) };
            format!("{pool}stream {stream} {}", size(*bytes))
        };
        (places.len() > 1).then(|| {
            format!("reserved by stream: {}", places.iter().map(shown).collect::<Vec<_>>().join(", "))
        })
    }

    /// What was still reserved late in the history.
    fn grown_late(&self) -> Option<String> {
        let grows = [EventKind::SegmentAlloc.name(), EventKind::Map.name()];
        let third = self.row.entry_count? / 3;
        let is_late = |e: &crate::memory::tables::MemoryEventRow| {
            self.is(e.rank, e.device_type, e.device)
                && e.seq.is_some_and(|seq| seq >= third)
                && grows.contains(&e.kind)
        };
        let late: Vec<i64> =
            rows::<MemoryEvents>(self.partials).filter(is_late).map(|e| e.bytes.unwrap_or(0)).collect();
        (!late.is_empty()).then(|| {
            format!(
                "after the first third of the history {} were still reserved in {}",
                size(late.iter().sum()),
                counted(late.len() as u64, "request")
            )
        })
    }

    /// What is said of the categories of a timeline.
    fn timeline(&self) -> Option<String> {
        let first = rows::<MemoryCategories>(self.partials).find(|r| r.rank == self.row.rank)?;
        let since = first.since_ns.map_or_else(String::new, |ns| format!(", {} in", fmt_ns(ns)));
        let before = self.row.base_bytes.map(|b| format!("; before the recording: {}", size(b)));
        let when = self.choice.at.unwrap_or_default().words();
        Some(format!("{when}: row {}{since}{}", fmt_count(first.seq), before.unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The devices of these ranks, each with one peak; whether it is of the host, and requests that failed.
    fn devices(of: &[(i64, bool, u64)]) -> Partial {
        let mut table = MemoryDevices::default();
        for (rank, (peak, is_host, failed)) in (0..).zip(of) {
            table.push(MemoryDeviceRow {
                rank,
                device_type: "cuda",
                device: (!is_host).then_some(0),
                source: "snapshot",
                peak_bytes: Some(*peak),
                failed_count: *failed,
                reserved_bytes: Some(0),
                ..MemoryDeviceRow::default()
            });
        }
        Partial { rank: 0, tables: vec![table.finish()], reason: None }
    }

    /// Ranks in the order of memory_highest, and whether they are detailed.
    fn highest(partial: &Partial) -> Vec<(i64, bool)> {
        let (tables, _) = tables(std::slice::from_ref(partial), &Options::default());
        let all = &tables[0];
        let row = |row| (all.int("rank", row).unwrap_or(-1), all.int("is_detailed", row) == Some(1));
        (0..all.len()).map(row).collect()
    }

    #[test]
    fn a_device_whose_requests_fail_is_nearest_to_its_limit_and_the_host_last() {
        let partial = devices(&[(10, true, 0), (9, false, 0), (8, false, 1)]);
        assert_eq!(highest(&partial).iter().map(|r| r.0).collect::<Vec<_>>(), [2, 1, 0]);
    }

    #[test]
    fn of_many_devices_the_highest_peaks_are_detailed() {
        let partial = devices(&[10, 70, 30, 60, 50, 70].map(|peak| (peak, false, 0)));
        let expected = [(1, true), (5, true), (3, true), (4, true), (2, false), (0, false)];
        assert_eq!(highest(&partial), expected);
    }
}

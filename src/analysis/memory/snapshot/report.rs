//! The text report of the devices of dumps: what holds the memory, what is reserved, who allocates, what
//! happened, what stays.

use super::choice::SnapshotChoice;
use super::content::{ContentKey, ContentPart};
use super::end_state::EndState;
use super::events::EventKind;
use super::summary::{MOST_DETAILED, Nearness, beside, name};
use super::tables::{MemoryAllocated, MemoryCategories, MemoryDeviceRow, MemoryDevices, MemorySegments};
use super::timeline::TIMELINE;
use crate::api::{Align, Options, Partial, View, rows};
use crate::memory::report::{ReportedDevice, size};
use crate::memory::tables::{MemoryContent, MemoryEvents, MemoryLeaks};
use hta_base::units::{fmt_count, fmt_ns, fmt_pct, percent};
use hta_base::wording::counts::counted;
use hta_trace::memory_moment::MemoryMoment;
use std::collections::BTreeMap;

/// A device whose tables are printed.
struct DeviceReport<'a> {
    row: MemoryDeviceRow<'a>,
    partials: &'a [Partial],
    choice: SnapshotChoice<'a>,
    /// Number of rows of each table.
    top: usize,
    /// `rank 0, device 1`.
    place: String,
}

/// All devices beside each other, then the tables of those nearest to their limits.
pub(super) fn views(partials: &[Partial], options: &Options) -> Vec<View> {
    let mut devices: Vec<MemoryDeviceRow> = rows::<MemoryDevices>(partials).collect();
    devices.sort_by_key(Nearness::of);
    if devices.is_empty() {
        let notes = partials.iter().find_map(|p| p.reason).map(str::to_string).into_iter().collect();
        return vec![View { title: "Memory".to_string(), columns: Vec::new(), rows: Vec::new(), notes }];
    }
    let mut out: Vec<View> = beside(&devices, options.top).into_iter().collect();
    for row in devices.into_iter().take(MOST_DETAILED) {
        let place = format!("rank {}, {}", row.rank, name(&row));
        let device =
            DeviceReport { row, partials, choice: SnapshotChoice::of(options), top: options.top, place };
        match row.source == TIMELINE {
            true => out.extend(device.timeline()),
            false => out.extend(device.views()),
        }
    }
    out
}

fn part_rows(
    parts: &[ContentPart],
    whole: i64,
    top: usize,
    min_bytes: i64,
) -> (Vec<Vec<String>>, Vec<String>) {
    let shown = parts.iter().take(top).take_while(|p| p.bytes >= min_bytes);
    let rows: Vec<Vec<String>> = shown
        .map(|p| vec![fmt_count(p.count), size(p.bytes), fmt_pct(percent(p.bytes, whole)), p.key.clone()])
        .collect();
    let rest = parts.get(rows.len()..).unwrap_or_default();
    let sum: i64 = rest.iter().map(|p| p.bytes).sum();
    let note = format!("{} more with {}", fmt_count(rest.len() as u64), size(sum));
    (rows, if rest.is_empty() { Vec::new() } else { vec![note] })
}

const PART_COLUMNS: [(&str, Align); 4] = [
    ("allocations", Align::Right),
    ("bytes", Align::Right),
    ("share", Align::Right),
    ("allocated at", Align::Left),
];

fn part_columns(last: &'static str) -> Vec<(&'static str, Align)> {
    let mut columns = PART_COLUMNS.to_vec();
    if let Some(column) = columns.last_mut() {
        column.0 = last;
    }
    columns
}

impl<'a> DeviceReport<'a> {
    fn views(&self) -> Vec<View> {
        let mut out: Vec<View> = self.content().into_iter().collect();
        out.push(self.state());
        if self.has_history() {
            out.extend(self.allocated(self.choice.by));
            out.extend(self.phases());
            out.extend(self.survivors());
            out.extend(self.happened());
        }
        out
    }

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

    fn content(&self) -> Option<View> {
        let at = if self.has_history() { self.choice.at.unwrap_or_default() } else { MemoryMoment::End };
        let (by, moment) = (self.choice.by.name(), at.name());
        let of_moment = rows::<MemoryContent>(self.partials)
            .filter(|r| self.is(r.rank, r.device_type, r.device) && r.key_kind == by && r.moment == moment);
        let parts: Vec<ContentPart> = of_moment
            .map(|r| ContentPart { key: r.key.to_string(), count: r.count.unwrap_or(0), bytes: r.bytes })
            .collect();
        if parts.is_empty() && matches!(at, MemoryMoment::Entry(_) | MemoryMoment::Time(_)) {
            return None;
        }
        let whole: i64 = parts.iter().map(|p| p.bytes).sum();
        let (shown, mut notes) = part_rows(&parts, whole, self.top, self.choice.min_bytes);
        notes.extend(self.row.base_bytes.map(|base| format!("before the first entry: {}", size(base))));
        if !self.has_history() {
            notes.push(
                "no history was recorded: torch.cuda.memory._record_memory_history() before the work"
                    .to_string(),
            );
        }
        Some(View {
            title: format!("Memory {}: {} requested ({})", at.words(), size(whole), self.place),
            columns: part_columns(by),
            rows: shown,
            notes,
        })
    }

    /// The bytes that the allocator holds, in parts that add up.
    fn state(&self) -> View {
        let end = EndState::of(&self.row);
        let row = |name: &str, bytes: i64, meaning: String| {
            vec![name.to_string(), size(bytes), fmt_pct(percent(bytes, end.reserved)), meaning]
        };
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
        if let (Some(before), Some(most)) = (self.row.reserved_before_bytes, self.row.reserved_max_bytes) {
            notes.push(format!(
                "reserved: {} before the history, {} at most, {} at the end",
                size(before),
                size(most),
                size(end.reserved)
            ));
        }
        notes.extend(self.by_stream());
        if self.row.has_times == Some(false) {
            notes.push("the entries have no times: their number is the axis".to_string());
        }
        View {
            title: format!("Reserved when the snapshot was taken: {} ({})", size(end.reserved), self.place),
            columns: vec![
                ("part", Align::Left),
                ("bytes", Align::Right),
                ("share", Align::Right),
                ("meaning", Align::Left),
            ],
            rows: vec![
                row("requested", end.requested, format!("of {}", counted(end.active_blocks, "active block"))),
                row("rounding", end.rounding(), "sizes are rounded up".to_string()),
                row("pending", end.pending, "freed, but another stream may still use it".to_string()),
                row(
                    "releasable",
                    end.releasable,
                    "whole segments that empty_cache() would return".to_string(),
                ),
                row(
                    "split",
                    end.split,
                    format!("free beside blocks in use; fragmented: {}", size(end.fragmented())),
                ),
            ],
            notes,
        }
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

    /// What the history allocates by a key, and all of it.
    fn sources(&self, by: ContentKey) -> (Vec<ContentPart>, i64) {
        let of_key = rows::<MemoryAllocated>(self.partials)
            .filter(|r| self.is(r.rank, r.device_type, r.device) && r.key_kind == by.name());
        let parts: Vec<ContentPart> =
            of_key.map(|r| ContentPart { key: r.key.to_string(), count: r.count, bytes: r.bytes }).collect();
        let whole = parts.iter().map(|p| p.bytes).sum();
        (parts, whole)
    }

    fn allocated(&self, by: ContentKey) -> Option<View> {
        let (parts, whole) = self.sources(by);
        let (shown, notes) = part_rows(&parts, whole, self.top, self.choice.min_bytes);
        let title = format!("Allocated over the history: {} ({})", size(whole), self.place);
        (!shown.is_empty()).then(|| View { title, columns: part_columns(by.name()), rows: shown, notes })
    }

    fn phases(&self) -> Option<View> {
        let (parts, whole) = self.sources(ContentKey::Phase);
        let (shown, notes) = part_rows(&parts, whole, usize::MAX, i64::MIN);
        let title = format!("Allocated by phase ({})", self.place);
        (shown.len() > 1).then(|| View { title, columns: part_columns("phase"), rows: shown, notes })
    }

    fn survivors(&self) -> Option<View> {
        let leaks = rows::<MemoryLeaks>(self.partials).filter(|l| self.is(l.rank, l.device_type, l.device));
        let cells = |l: crate::memory::tables::MemoryLeakRow| {
            let kind = if l.is_recurring { "again and again" } else { "once" };
            vec![fmt_count(l.count), size(l.bytes), fmt_count(l.groups), kind.to_string(), l.site.to_string()]
        };
        let shown: Vec<Vec<String>> = leaks.take(self.top).map(cells).collect();
        (!shown.is_empty()).then(|| View {
            title: format!("Allocated in the history and alive at its end ({})", self.place),
            columns: vec![
                ("allocations", Align::Right),
                ("bytes", Align::Right),
                ("groups", Align::Right),
                ("made", Align::Left),
                ("line", Align::Left),
            ],
            rows: shown,
            notes: Vec::new(),
        })
    }

    fn happened(&self) -> Option<View> {
        let is_one_of = |kinds: &[EventKind], kind: &str| kinds.iter().any(|k| k.name() == kind);
        let grows = [EventKind::SegmentAlloc, EventKind::Map];
        let segments = [EventKind::SegmentAlloc, EventKind::Map, EventKind::SegmentFree, EventKind::Unmap];
        let of_device =
            rows::<MemoryEvents>(self.partials).filter(|e| self.is(e.rank, e.device_type, e.device));
        // Annotations beside the history have no entry.
        let mut all: Vec<_> = of_device.filter_map(|e| Some((e.seq?, e))).collect();
        all.sort_by_key(|(seq, _)| *seq);
        let third = self.row.entry_count.unwrap_or(0) / 3;
        let grown = all.iter().filter(|(seq, e)| *seq >= third && is_one_of(&grows, e.kind));
        let late: Vec<i64> = grown.map(|(_, e)| e.bytes.unwrap_or(0)).collect();
        let mut shown: Vec<_> = all.iter().filter(|(_, e)| !is_one_of(&segments, e.kind)).collect();
        let more = shown.len().saturating_sub(self.top);
        shown.truncate(self.top);
        let mut notes = Vec::new();
        if more > 0 {
            notes.push(format!("{} more in the table memory_events", fmt_count(more as u64)));
        }
        if !late.is_empty() {
            notes.push(format!(
                "after the first third of the history {} were still reserved in {}",
                size(late.iter().sum()),
                counted(late.len() as u64, "request")
            ));
        }
        let mut cells = Vec::new();
        for (seq, e) in &shown {
            let (bytes, reserved) = (size(e.bytes.unwrap_or(0)), size(e.reserved_bytes.unwrap_or(0)));
            cells.push(vec![
                e.kind.to_string(),
                fmt_count(*seq),
                bytes,
                reserved,
                e.site.unwrap_or_default().to_string(),
            ]);
        }
        (!cells.is_empty() || !notes.is_empty()).then(|| View {
            title: format!("Allocator events ({})", self.place),
            columns: vec![
                ("event", Align::Left),
                ("entry", Align::Right),
                ("bytes", Align::Right),
                ("reserved after", Align::Right),
                ("site", Align::Left),
            ],
            rows: cells,
            notes,
        })
    }

    /// The categories of a timeline.
    fn timeline(&self) -> Option<View> {
        let all: Vec<_> =
            rows::<MemoryCategories>(self.partials).filter(|r| r.rank == self.row.rank).collect();
        let first = all.first()?;
        let whole: i64 = all.iter().map(|r| r.bytes).sum();
        let since = first.since_ns.map_or_else(String::new, |ns| format!(", {} in", fmt_ns(ns)));
        let mut cells = Vec::new();
        for r in &all {
            let share = fmt_pct(percent(r.bytes, whole));
            cells.push(vec![r.category.to_string(), size(r.bytes), share, size(r.max_bytes)]);
        }
        let when = self.choice.at.unwrap_or_default().words();
        let (rank, row) = (self.row.rank, fmt_count(first.seq));
        Some(View {
            title: format!("Memory {when}: {} (rank {rank}, timeline, row {row}{since})", size(whole)),
            columns: vec![
                ("category", Align::Left),
                ("bytes", Align::Right),
                ("share", Align::Right),
                ("most of it at any time", Align::Right),
            ],
            rows: cells,
            notes: self
                .row
                .base_bytes
                .map(|b| format!("before the recording: {}", size(b)))
                .into_iter()
                .collect(),
        })
    }
}

//! The text report of a device: what holds the memory, what is reserved, who allocates, what happened, what stays.

use super::content::{ContentKey, ContentPart, allocated, parts};
use super::events::{EventKind, events};
use super::findings::size;
use super::rows::DeviceRows;
use crate::api::{Align, View};
use hta_base::units::{fmt_count, fmt_pct, percent};
use hta_base::wording::counts::counted;
use hta_read::snapshot::Generation;
use hta_trace::memory_moment::MemoryMoment;

/// What the report shows.
#[derive(Debug, Clone, Copy)]
pub struct ReportOptions {
    pub by: ContentKey,
    pub at: MemoryMoment,
    /// Number of rows of each table.
    pub top: usize,
    /// Smallest size of a holder that is a row.
    pub min_bytes: i64,
}

/// The views of a device.
pub fn views(rows: &DeviceRows, options: ReportOptions) -> Vec<View> {
    let place = format!("rank {}, {}", rows.rank, rows.device.name());
    let mut out: Vec<View> = content(rows, options, &place).into_iter().collect();
    out.push(state(rows, &place));
    if rows.device.replay.is_some() {
        out.extend(sites(rows, options, &place));
        out.extend(phases(rows, &place));
        out.extend(survivors(rows, options, &place));
        out.extend(happened(rows, options, &place));
    }
    out
}

fn part_rows(parts: &[ContentPart], whole: i64, top: usize, min_bytes: i64) -> (Vec<Vec<String>>, Vec<String>) {
    let row =
        |p: &ContentPart| vec![fmt_count(p.count), size(p.bytes), fmt_pct(percent(p.bytes, whole)), p.key.clone()];
    let shown = parts.iter().take(top).take_while(|p| p.bytes >= min_bytes);
    let rows: Vec<Vec<String>> = shown.map(row).collect();
    let rest = parts.get(rows.len()..).unwrap_or_default();
    let sum: i64 = rest.iter().map(|p| p.bytes).sum();
    let note = format!("{} more with {}", fmt_count(rest.len() as u64), size(sum));
    (rows, if rest.is_empty() { Vec::new() } else { vec![note] })
}

const PART_COLUMNS: [(&str, Align); 4] =
    [("allocations", Align::Right), ("bytes", Align::Right), ("share", Align::Right), ("allocated at", Align::Left)];

fn part_columns(last: &'static str) -> Vec<(&'static str, Align)> {
    let mut columns = PART_COLUMNS.to_vec();
    if let Some(column) = columns.last_mut() {
        column.0 = last;
    }
    columns
}

fn content(rows: &DeviceRows, options: ReportOptions, place: &str) -> Option<View> {
    let at = if rows.device.replay.is_none() { MemoryMoment::End } else { options.at };
    let (_, held) = rows.held(at)?;
    let whole: i64 = held.iter().map(|h| h.bytes).sum();
    let parts = parts(rows.device, rows.sites, held, options.by);
    let (shown, mut notes) = part_rows(&parts, whole, options.top, options.min_bytes);
    let when = at.words();
    notes.extend(rows.device.replay.as_ref().map(|r| format!("before the first entry: {}", size(r.before))));
    if rows.device.history.is_none() {
        notes.push("no history was recorded: torch.cuda.memory._record_memory_history() before the work".to_string());
    }
    Some(View {
        title: format!("Memory {when}: {} requested ({place})", size(whole)),
        columns: part_columns(options.by.name()),
        rows: shown,
        notes,
    })
}

/// The bytes that the allocator holds, in parts that add up.
fn state(rows: &DeviceRows, place: &str) -> View {
    let end = &rows.device.end;
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
        notes.push(format!("of split, {tails} are at the end of expandable segments: empty_cache() would return them"));
    }
    if let Some(replay) = &rows.device.replay {
        notes.push(format!(
            "reserved: {} before the history, {} at most, {} at the end",
            size(replay.reserved_before),
            size(replay.reserved_max),
            size(end.reserved)
        ));
    }
    notes.extend(by_place(rows));
    if rows.device.snapshot.generation == Generation::Untimed && rows.device.history.is_some() {
        notes.push("the entries have no times: their number is the axis".to_string());
    }
    View {
        title: format!("Reserved when the snapshot was taken: {} ({place})", size(end.reserved)),
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
            row("releasable", end.releasable, "whole segments that empty_cache() would return".to_string()),
            row("split", end.split, format!("free beside blocks in use; fragmented: {}", size(end.fragmented()))),
        ],
        notes,
    }
}

/// Reserved by pool and stream, where there are several.
fn by_place(rows: &DeviceRows) -> Option<String> {
    let mut places: std::collections::BTreeMap<((i64, i64), Option<i64>), i64> = std::collections::BTreeMap::new();
    for s in &rows.device.segments {
        *places.entry((s.pool, s.stream)).or_default() += s.bytes;
    }
    let shown = |((pool, stream), bytes): (&((i64, i64), Option<i64>), &i64)| {
        let stream = stream.map_or_else(|| "unknown".to_string(), |s| s.to_string());
        let pool = if *pool == (0, 0) { String::new() } else { format!("pool {},{} ", pool.0, pool.1) };
        format!("{pool}stream {stream} {}", size(*bytes))
    };
    (places.len() > 1)
        .then(|| format!("reserved by stream: {}", places.iter().map(shown).collect::<Vec<_>>().join(", ")))
}

fn sites(rows: &DeviceRows, options: ReportOptions, place: &str) -> Option<View> {
    let parts = allocated(rows.device, rows.sites, options.by);
    let whole: i64 = parts.iter().map(|p| p.bytes).sum();
    let (shown, notes) = part_rows(&parts, whole, options.top, options.min_bytes);
    let title = format!("Allocated over the history: {} ({place})", size(whole));
    (!shown.is_empty()).then(|| View { title, columns: part_columns(options.by.name()), rows: shown, notes })
}

fn phases(rows: &DeviceRows, place: &str) -> Option<View> {
    let parts = allocated(rows.device, rows.sites, ContentKey::Phase);
    let whole: i64 = parts.iter().map(|p| p.bytes).sum();
    let (shown, notes) = part_rows(&parts, whole, usize::MAX, i64::MIN);
    let title = format!("Allocated by phase ({place})");
    (shown.len() > 1).then(|| View { title, columns: part_columns("phase"), rows: shown, notes })
}

fn survivors(rows: &DeviceRows, options: ReportOptions, place: &str) -> Option<View> {
    let leaks = rows.leaks();
    let shown: Vec<Vec<String>> = leaks
        .iter()
        .take(options.top)
        .map(|l| {
            let kind = if l.is_recurring() { "again and again" } else { "once" };
            vec![fmt_count(l.count), size(l.bytes), fmt_count(l.groups), kind.to_string(), l.site.to_string()]
        })
        .collect();
    (!shown.is_empty()).then(|| View {
        title: format!("Allocated in the history and alive at its end ({place})"),
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

fn happened(rows: &DeviceRows, options: ReportOptions, place: &str) -> Option<View> {
    let all = events(rows.device, rows.sites);
    let is_segment =
        |kind| matches!(kind, EventKind::SegmentAlloc | EventKind::SegmentFree | EventKind::Map | EventKind::Unmap);
    let entries = rows.device.history.map_or(0, |h| h.len());
    let grown = all.iter().filter(|e| matches!(e.kind, EventKind::SegmentAlloc | EventKind::Map));
    let late: Vec<i64> = grown.filter(|e| e.seq as usize >= entries / 3).map(|e| e.bytes).collect();
    let mut shown: Vec<_> = all.iter().filter(|e| !is_segment(e.kind)).collect();
    let more = shown.len().saturating_sub(options.top);
    shown.truncate(options.top);
    let row = |e: &&super::events::AllocatorEvent| {
        let kind = e.kind.name().to_string();
        vec![kind, fmt_count(u64::from(e.seq)), size(e.bytes), size(e.reserved), rows.sites.site(e.stack).to_string()]
    };
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
    (!shown.is_empty() || !notes.is_empty()).then(|| View {
        title: format!("Allocator events ({place})"),
        columns: vec![
            ("event", Align::Left),
            ("entry", Align::Right),
            ("bytes", Align::Right),
            ("reserved after", Align::Right),
            ("site", Align::Left),
        ],
        rows: shown.iter().map(row).collect(),
        notes,
    })
}

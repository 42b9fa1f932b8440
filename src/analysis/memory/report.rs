//! The devices of traces, the one nearest to its limit first, and what is said of them.

use crate::api::{Options, Partial, ViewNote, rows};
use crate::memory::holders::BEFORE;
use crate::memory::steps::is_numbered;
use crate::memory::tables::{
    MemoryContent, MemoryContentRow, MemoryEvents, MemoryHighest, MemoryHighestRow, MemoryPeakRow,
    MemoryPeaks,
};
use crate::memory::{AT, BY, DEVICE, MIN_BYTES};
use hta_base::table::schema::Batch;
use hta_base::units::{fmt_bytes, percent};
use hta_base::wording::counts::plural;
use hta_trace::memory_moment::MemoryMoment;
use std::cmp::Reverse;

/// Titles of views below which more is said than their tables hold.
pub(crate) const HOLDERS: &str = "What holds memory";
pub(crate) const RESERVED: &str = "Reserved when the snapshot was taken";
pub(crate) const EVENTS: &str = "Allocator events";
pub(crate) const CATEGORIES: &str = "Memory by category";

/// A note below one of them.
pub(crate) fn note(view: &'static str, text: String) -> ViewNote {
    ViewNote { view, text }
}

/// A device of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReportedDevice<'a> {
    pub rank: u32,
    pub device_type: &'a str,
    pub device: Option<i64>,
}

impl<'a> ReportedDevice<'a> {
    pub fn of(peak: &MemoryPeakRow<'a>) -> Self {
        Self { rank: peak.rank, device_type: peak.device_type, device: peak.device }
    }

    pub(crate) fn is(&self, rank: u32, device_type: &str, device: Option<i64>) -> bool {
        (self.rank, self.device_type, self.device) == (rank, device_type, device)
    }

    /// `cuda:0 (rank 3)`; without the rank if there is only one.
    pub fn shown(&self, several: bool) -> String {
        let name = device_name(self.device_type, self.device);
        if several { format!("{name} (rank {})", self.rank) } else { name }
    }
}

/// A device as PyTorch writes it: `cuda:0`, and `cpu` for the host.
pub fn device_name(device_type: &str, device: Option<i64>) -> String {
    device.map_or_else(|| device_type.to_string(), |id| format!("{device_type}:{id}"))
}

/// Whether a device is the one that a text names: `cuda:0`, `cuda` or `0`.
pub(crate) fn is_of_device(device_type: &str, device: Option<i64>, text: &str) -> bool {
    text == device_type
        || text == device_name(device_type, device)
        || device.is_some_and(|id| text.parse() == Ok(id))
}

/// A number of bytes that may be negative.
pub fn size(bytes: i64) -> String {
    let text = fmt_bytes(bytes.unsigned_abs());
    if bytes < 0 { format!("-{text}") } else { text }
}

/// The peaks of the capture: the device nearest to its limit first; then by size, devices before hosts.
pub fn peaks(partials: &[Partial]) -> Vec<MemoryPeakRow<'_>> {
    let mut peaks: Vec<_> = rows::<MemoryPeaks>(partials).filter(|r| r.scope == "capture").collect();
    // In units of 2^-20, which is finer than any print.
    let share = |r: &MemoryPeakRow| {
        let total = r.device_total_bytes.filter(|total| *total > 0)?;
        Some(i128::from(r.peak_bytes) * (1 << 20) / i128::from(total))
    };
    peaks.sort_by_key(|r| (Reverse(share(r)), r.device.is_none(), Reverse(r.peak_bytes), r.rank));
    peaks
}

/// Index of the step of a moment of a device.
fn step_at(partials: &[Partial], place: &ReportedDevice, moment: MemoryMoment) -> Option<u32> {
    let MemoryMoment::Step(number) = moment else { return None };
    let is_step = |r: &MemoryPeakRow| {
        ReportedDevice::of(r) == *place && r.step.is_some_and(|step| is_numbered(step, r.step_label, number))
    };
    rows::<MemoryPeaks>(partials).find(is_step).and_then(|r| r.step)
}

/// The rows of one moment of a device.
pub fn content_at<'a>(
    partials: &'a [Partial],
    place: &ReportedDevice,
    kind: &str,
    moment: MemoryMoment,
) -> Vec<MemoryContentRow<'a>> {
    let step = step_at(partials, place, moment);
    let name = moment.name();
    let of_moment = |r: &MemoryContentRow| {
        place.is(r.rank, r.device_type, r.device) && r.key_kind == kind && r.moment == name && r.step == step
    };
    rows::<MemoryContent>(partials).filter(of_moment).collect()
}

/// The devices, the one nearest to its limit first, and what is said of them.
pub(crate) fn highest(partials: &[Partial], options: &Options) -> (Batch, Vec<ViewNote>) {
    let wanted = options.settings.text(&DEVICE);
    let mut peaks = peaks(partials);
    peaks.retain(|r| wanted.is_none_or(|text| is_of_device(r.device_type, r.device, text)));
    let (by, at) = (options.settings.text(&BY).unwrap_or("op"), options.settings.moment(&AT));
    let mut table = MemoryHighest::default();
    for (place, r) in (0..).zip(&peaks) {
        table.push(MemoryHighestRow {
            place,
            rank: r.rank,
            device_type: r.device_type,
            device: r.device,
            source: r.source,
            peak_bytes: Some(r.peak_bytes),
            total_pct: r.device_total_bytes.and_then(|total| percent(r.peak_bytes, total)),
            reserved_bytes: r.reserved_bytes,
            unused_bytes: r.reserved_bytes.map(|reserved| reserved.saturating_sub(r.peak_bytes)),
            unused_max_bytes: r.unused_max_bytes,
            in_step_ns: r.in_step_ns,
            phase: r.phase,
            is_relative: r.is_relative,
            is_detailed: place == 0,
            moment: &at.name(),
            step: step_at(partials, &ReportedDevice::of(r), at),
            key_kind: by,
            ..MemoryHighestRow::default()
        });
    }
    let mut notes = Vec::new();
    let failed = rows::<MemoryEvents>(partials).filter(|r| r.kind == "oom").count();
    if failed > 0 {
        notes.push(note("", format!("{} failed (table memory_events)", plural(failed, "request"))));
    }
    if let Some(first) = peaks.first() {
        notes.extend(holder_notes(partials, &ReportedDevice::of(first), options));
    }
    (table.finish(), notes)
}

/// What is said of the holders on a device; none where they are not known by this key.
fn holder_notes(partials: &[Partial], place: &ReportedDevice, options: &Options) -> Vec<ViewNote> {
    let (by, at) = (options.settings.text(&BY).unwrap_or("op"), options.settings.moment(&AT));
    let content = content_at(partials, place, by, at);
    let least = i64::try_from(options.settings.count(&MIN_BYTES)).unwrap_or(i64::MAX);
    let (small, large): (Vec<&MemoryContentRow>, Vec<_>) = content.iter().partition(|r| r.bytes < least);
    let mut notes = vec![format!("{}, by {by}", at.words())];
    if !small.is_empty() {
        let bytes = small.iter().fold(0i64, |sum, r| sum.saturating_add(r.bytes));
        notes.push(format!("below --min-bytes: {} with {}", plural(small.len(), "holder"), size(bytes)));
    } else if large.is_empty() {
        let is_known = !content_at(partials, place, "op", at).is_empty();
        notes.push(match (is_known, by) {
            (true, "line") => "no Python frames recorded (with_stack=True records them)".to_string(),
            (true, "module") => "no modules recorded (with_stack=True records them)".to_string(),
            (true, _) => return Vec::new(),
            (false, _) => {
                "the file has no addresses or no totals: what holds the memory is not known".to_string()
            }
        });
    } else if large.iter().any(|r| r.key == BEFORE) {
        notes.push(format!("{BEFORE}: allocated before the recording began, by what is not known"));
    }
    notes.into_iter().map(|text| note(HOLDERS, text)).collect()
}

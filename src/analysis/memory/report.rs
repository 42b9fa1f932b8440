//! The printed tables: peaks of all ranks, and of one of them what holds the peak, its operators and steps.

use crate::api::{Align, Options, Partial, View, rows};
use crate::memory::holders::BEFORE;
use crate::memory::steps::is_numbered;
use crate::memory::tables::{
    MemoryContent, MemoryContentRow, MemoryEvents, MemoryLeaks, MemoryOperators, MemoryPeakRow, MemoryPeaks,
    MemorySteps,
};
use crate::memory::{AT, BY, DEVICE, MIN_BYTES};
use crate::population::reasons;
use crate::sums::more;
use hta_base::units::{fmt_bytes, fmt_count, fmt_ns, fmt_pct, percent};
use hta_base::wording::counts::plural;
use hta_trace::memory_moment::MemoryMoment;
use std::cmp::Reverse;

/// Largest width of a key in print, characters.
const KEY_WIDTH: usize = 52;

/// A device of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReportedDevice<'a> {
    pub(crate) rank: u32,
    pub(crate) device_type: &'a str,
    pub(crate) device: Option<i64>,
}

impl<'a> ReportedDevice<'a> {
    pub fn of(peak: &MemoryPeakRow<'a>) -> Self {
        Self { rank: peak.rank, device_type: peak.device_type, device: peak.device }
    }

    pub(crate) fn is(&self, rank: u32, device_type: &str, device: Option<i64>) -> bool {
        (self.rank, self.device_type, self.device) == (rank, device_type, device)
    }

    /// `cuda:0 (rank 3)`; without the rank if there is only one.
    pub(crate) fn shown(&self, several: bool) -> String {
        let name = device_name(self.device_type, self.device);
        if several { format!("{name} (rank {})", self.rank) } else { name }
    }
}

/// A device as PyTorch writes it: `cuda:0`, and `cpu` for the host.
pub(crate) fn device_name(device_type: &str, device: Option<i64>) -> String {
    device.map_or_else(|| device_type.to_string(), |id| format!("{device_type}:{id}"))
}

/// Whether a device is the one that a text names: `cuda:0`, `cuda` or `0`.
pub(crate) fn is_of_device(device_type: &str, device: Option<i64>, text: &str) -> bool {
    text == device_type
        || text == device_name(device_type, device)
        || device.is_some_and(|id| text.parse() == Ok(id))
}

/// A number of bytes that may be negative.
pub(crate) fn size(bytes: i64) -> String {
    let text = fmt_bytes(bytes.unsigned_abs());
    if bytes < 0 { format!("-{text}") } else { text }
}

/// The peaks of the capture: the device nearest to its limit first; then by size, devices before hosts.
pub(crate) fn peaks(partials: &[Partial]) -> Vec<MemoryPeakRow<'_>> {
    let mut peaks: Vec<_> = rows::<MemoryPeaks>(partials).filter(|r| r.scope == "capture").collect();
    // In units of 2^-20, which is finer than any print.
    let share = |r: &MemoryPeakRow| {
        let total = r.device_total_bytes.filter(|total| *total > 0)?;
        Some(i128::from(r.peak_bytes) * (1 << 20) / i128::from(total))
    };
    peaks.sort_by_key(|r| (Reverse(share(r)), r.device.is_none(), Reverse(r.peak_bytes), r.rank));
    peaks
}

/// The rows of one moment of a device.
pub(crate) fn content_at<'a>(
    partials: &'a [Partial],
    place: &ReportedDevice,
    kind: &str,
    moment: MemoryMoment,
) -> Vec<MemoryContentRow<'a>> {
    let is_step = |r: &MemoryPeakRow, number: i64| {
        ReportedDevice::of(r) == *place && r.step.is_some_and(|step| is_numbered(step, r.step_label, number))
    };
    let step = match moment {
        MemoryMoment::Step(number) => {
            rows::<MemoryPeaks>(partials).find(|r| is_step(r, number)).and_then(|r| r.step)
        }
        _ => None,
    };
    let name = moment.name();
    let of_moment = |r: &MemoryContentRow| {
        place.is(r.rank, r.device_type, r.device) && r.key_kind == kind && r.moment == name && r.step == step
    };
    rows::<MemoryContent>(partials).filter(of_moment).collect()
}

pub(crate) fn views(partials: &[Partial], options: &Options) -> Vec<View> {
    let wanted = options.settings.text(&DEVICE);
    let mut peaks = peaks(partials);
    peaks.retain(|r| wanted.is_none_or(|text| is_of_device(r.device_type, r.device, text)));
    let mut views = vec![peak_view(partials, &peaks, options)];
    if let Some(first) = peaks.first() {
        let place = ReportedDevice::of(first);
        views.extend(content_view(partials, &place, options));
        views.extend(operator_view(partials, &place, options));
        views.extend(step_view(partials, &place, options));
        views.extend(leak_view(partials, &place, options));
    }
    views
}

fn peak_view(partials: &[Partial], peaks: &[MemoryPeakRow], options: &Options) -> View {
    let mut notes = reasons(partials);
    if peaks.iter().any(|r| r.device_total_bytes.is_some()) {
        notes.push("share: of the device's memory".to_string());
    }
    notes.extend(more(peaks.len().saturating_sub(options.top), "row"));
    if peaks.iter().any(|r| r.reserved_bytes.is_some()) {
        notes.push(
            "unused: reserved by the caching allocator but not allocated, at the peak and at most; blocks \
             that wait for their next use are normal"
                .to_string(),
        );
    }
    if peaks.iter().any(|r| r.is_relative) {
        notes.push(
            "the file has no totals: levels count from 0 at the start of the recording, and what was \
             allocated before is not known"
                .to_string(),
        );
    }
    let failed = rows::<MemoryEvents>(partials).filter(|r| r.kind == "oom").count();
    if failed > 0 {
        notes.push(format!("{} failed (table memory_events)", plural(failed, "request")));
    }
    let optional = |bytes: Option<i64>| bytes.map_or_else(|| "-".to_string(), size);
    let cells = |r: &MemoryPeakRow| {
        vec![
            r.rank.to_string(),
            device_name(r.device_type, r.device),
            size(r.peak_bytes),
            fmt_pct(r.device_total_bytes.and_then(|total| percent(r.peak_bytes, total))),
            optional(r.reserved_bytes),
            optional(r.reserved_bytes.map(|reserved| reserved.saturating_sub(r.peak_bytes))),
            optional(r.unused_max_bytes),
            r.in_step_ns.map_or_else(|| "-".to_string(), fmt_ns),
            r.phase.unwrap_or("-").to_string(),
        ]
    };
    View {
        title: "Highest level of memory".to_string(),
        columns: vec![
            ("rank", Align::Right),
            ("device", Align::Left),
            ("peak", Align::Right),
            ("share", Align::Right),
            ("reserved", Align::Right),
            ("unused", Align::Right),
            ("at most", Align::Right),
            ("in step", Align::Right),
            ("phase", Align::Left),
        ],
        rows: peaks.iter().take(options.top).map(cells).collect(),
        notes,
    }
}

/// The end of a key, if it is a path; the start of another one.
fn shown(kind: &str, key: &str) -> String {
    match kind {
        "module" | "line" if key.chars().count() > KEY_WIDTH => {
            let end: Vec<char> = key.chars().rev().take(KEY_WIDTH - 3).collect();
            format!("...{}", end.into_iter().rev().collect::<String>())
        }
        _ => hta_base::wording::names::clip(key, KEY_WIDTH),
    }
}

fn content_view(partials: &[Partial], place: &ReportedDevice, options: &Options) -> Option<View> {
    let (by, at) = (options.settings.text(&BY).unwrap_or("op"), options.settings.moment(&AT));
    let mut content = content_at(partials, place, by, at);
    let least = i64::try_from(options.settings.count(&MIN_BYTES)).unwrap_or(i64::MAX);
    let small = content.iter().filter(|r| r.bytes < least);
    let (small_count, small_bytes) =
        small.fold((0u64, 0i64), |(n, sum), r| (n + 1, sum.saturating_add(r.bytes)));
    content.retain(|r| r.bytes >= least);
    let mut notes: Vec<String> = more(content.len().saturating_sub(options.top), "row").into_iter().collect();
    if small_count > 0 {
        notes.push(format!(
            "below --min-bytes: {} with {}",
            plural(small_count as usize, "holder"),
            size(small_bytes)
        ));
    } else if content.is_empty() {
        let is_known = !content_at(partials, place, "op", at).is_empty();
        notes.push(match (is_known, by) {
            (true, "line") => "no Python frames recorded (with_stack=True records them)".to_string(),
            (true, "module") => "no modules recorded (with_stack=True records them)".to_string(),
            (true, _) => return None,
            (false, _) => {
                "the file has no addresses or no totals: what holds the memory is not known".to_string()
            }
        });
    } else if content.iter().any(|r| r.key == BEFORE) {
        notes.push(format!("{BEFORE}: allocated before the recording began, by what is not known"));
    }
    let cells = |r: &MemoryContentRow| {
        vec![
            shown(by, r.key),
            r.count.map_or_else(|| "-".to_string(), fmt_count),
            size(r.bytes),
            fmt_pct(r.pct),
        ]
    };
    Some(View {
        title: format!("What holds memory {}, by {by}: {}", at.words(), place.shown(true)),
        columns: vec![
            ("holder", Align::Left),
            ("count", Align::Right),
            ("bytes", Align::Right),
            ("share", Align::Right),
        ],
        rows: content.iter().take(options.top).map(cells).collect(),
        notes,
    })
}

fn operator_view(partials: &[Partial], place: &ReportedDevice, options: &Options) -> Option<View> {
    let of_device = rows::<MemoryOperators>(partials).filter(|r| place.is(r.rank, r.device_type, r.device));
    let all: Vec<_> = of_device.filter(|r| r.alloc_self_bytes > 0).collect();
    let cells = |r: &crate::memory::tables::MemoryOperatorRow| {
        vec![
            shown("op", r.name),
            r.count.map_or_else(|| "-".to_string(), fmt_count),
            fmt_count(r.alloc_self_count),
            size(r.alloc_self_bytes),
            size(r.net_self_bytes),
            size(r.alloc_bytes),
        ]
    };
    (!all.is_empty()).then(|| View {
        title: format!("Operators by what they allocate: {}", place.shown(true)),
        columns: vec![
            ("operator", Align::Left),
            ("calls", Align::Right),
            ("allocations", Align::Right),
            ("bytes", Align::Right),
            ("net", Align::Right),
            ("with nested", Align::Right),
        ],
        rows: all.iter().take(options.top).map(cells).collect(),
        notes: more(all.len().saturating_sub(options.top), "operator").into_iter().collect(),
    })
}

fn step_view(partials: &[Partial], place: &ReportedDevice, options: &Options) -> Option<View> {
    let all: Vec<_> =
        rows::<MemorySteps>(partials).filter(|r| place.is(r.rank, r.device_type, r.device)).collect();
    let cells = |r: &crate::memory::tables::MemoryStepRow| {
        let name = r.step_label.or(r.step.map(i64::from)).map_or_else(|| "-".to_string(), |n| n.to_string());
        vec![
            name,
            size(r.start_bytes),
            size(r.max_bytes),
            size(r.end_bytes),
            size(r.net_bytes),
            r.survivor_bytes.map_or_else(|| "-".to_string(), size),
        ]
    };
    (!all.is_empty()).then(|| View {
        title: format!("Memory by step: {}", place.shown(true)),
        columns: vec![
            ("step", Align::Right),
            ("start", Align::Right),
            ("highest", Align::Right),
            ("end", Align::Right),
            ("net", Align::Right),
            ("survives", Align::Right),
        ],
        rows: all.iter().take(options.top).map(cells).collect(),
        notes: more(all.len().saturating_sub(options.top), "step")
            .into_iter()
            .chain(["survives: allocated in the step and alive when the next one ends".to_string()])
            .collect(),
    })
}

/// Sites with survivors in every step.
fn leak_view(partials: &[Partial], place: &ReportedDevice, options: &Options) -> Option<View> {
    let of_device = rows::<MemoryLeaks>(partials).filter(|r| place.is(r.rank, r.device_type, r.device));
    let all: Vec<_> = of_device.filter(|r| r.is_recurring).collect();
    let cells = |r: &crate::memory::tables::MemoryLeakRow| {
        vec![
            shown(r.key_kind, r.site),
            r.key_kind.to_string(),
            fmt_count(r.groups),
            fmt_count(r.count),
            size(r.bytes),
            size(r.bytes_per_group),
        ]
    };
    (!all.is_empty()).then(|| View {
        title: format!("Allocated in every step, alive when the next one ends: {}", place.shown(true)),
        columns: vec![
            ("site", Align::Left),
            ("kind", Align::Left),
            ("steps", Align::Right),
            ("count", Align::Right),
            ("bytes", Align::Right),
            ("a step", Align::Right),
        ],
        rows: all.iter().take(options.top).map(cells).collect(),
        notes: more(all.len().saturating_sub(options.top), "site").into_iter().collect(),
    })
}

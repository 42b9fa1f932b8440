//! One device of a snapshot: its segments, its history, and what follows from them.

use super::end_state::{EndState, disagrees, end_state};
use super::history::{ReplayedHistory, Until};
use super::phase::Phases;
use crate::memory::report::is_of_device;
use hta_base::health::{Counter, Health};
use hta_trace::snapshot::{DeviceHistory, Overflow, Segment, Snapshot};
use std::collections::BTreeSet;

pub struct DeviceMemory<'a> {
    pub(crate) snapshot: &'a Snapshot,
    /// `None` for pinned memory of the host.
    pub device: Option<i64>,
    pub(crate) segments: Vec<&'a Segment>,
    pub end: EndState,
    pub history: Option<&'a DeviceHistory>,
    pub replay: Option<ReplayedHistory>,
    pub phases: Phases<'a>,
}

impl DeviceMemory<'_> {
    /// Whether the first entries of the history were dropped.
    pub(crate) fn overflow(&self) -> Option<Overflow> {
        self.snapshot.overflow(self.history?)
    }

    /// The type of the device, as in tables.
    pub fn device_type(&self) -> &'static str {
        type_of(self.device)
    }

    /// Name in sentences.
    pub fn name(&self) -> String {
        device_words(self.device)
    }
}

/// The type of a device, as in tables. A snapshot does not say which accelerator it is of.
pub(crate) fn type_of(device: Option<i64>) -> &'static str {
    if device.is_some() { "cuda" } else { "cpu" }
}

/// Name of a device in sentences.
pub(crate) fn device_words(device: Option<i64>) -> String {
    device.map_or_else(|| "pinned host memory".to_string(), |d| format!("device {d}"))
}

/// The devices of a snapshot that have segments or a history, the host last: all, or the one that a text
/// names. Counts what does not agree.
pub fn devices<'a>(
    snapshot: &'a Snapshot,
    until: Until,
    only: Option<&str>,
    health: &mut Health,
) -> Vec<DeviceMemory<'a>> {
    device_numbers(snapshot, only).map(|d| device(snapshot, d, until, health)).collect()
}

/// The numbers of these devices; none is the host's.
pub(crate) fn device_numbers(snapshot: &Snapshot, only: Option<&str>) -> impl Iterator<Item = Option<i64>> {
    let of_segments = snapshot.segments.iter().map(|s| s.device);
    let of_histories = snapshot.histories.iter().filter(|h| !h.is_host).map(|h| h.device);
    let numbers: BTreeSet<i64> = of_segments.chain(of_histories).collect();
    let has_host = !snapshot.host_segments.is_empty() || snapshot.histories.iter().any(|h| h.is_host);
    let all = numbers.into_iter().map(Some).chain(has_host.then_some(None));
    let is_asked = move |d: &Option<i64>| only.is_none_or(|text| is_of_device(type_of(*d), *d, text));
    all.filter(move |d| is_asked(d))
}

fn device<'a>(
    snapshot: &'a Snapshot,
    device: Option<i64>,
    until: Until,
    health: &mut Health,
) -> DeviceMemory<'a> {
    let segments: Vec<&Segment> = match device {
        Some(number) => snapshot.segments.iter().filter(|s| s.device == number).collect(),
        None => snapshot.host_segments.iter().collect(),
    };
    let of_device =
        |h: &&DeviceHistory| h.is_host == device.is_none() && device.is_none_or(|d| d == h.device);
    let history = snapshot.histories.iter().find(of_device);
    let end = end_state(snapshot, segments.iter().copied());
    let differ = segments.iter().filter(|s| disagrees(s, snapshot.blocks(s))).count();
    health.add(Counter::SnapshotSumDiffers, differ as u64, None, "");
    let replay = history.map(|h| ReplayedHistory::new(snapshot, h, &segments, &end, until));
    if let Some(replay) = &replay {
        let bytes = replay.disagreement.unsigned_abs();
        health.add(Counter::SnapshotStateDisagrees, bytes, None, "");
        health.add(Counter::SnapshotAllocOverLive, replay.over_live, None, "");
        let overflows = history.and_then(|h| snapshot.overflow(h)).is_some();
        health.add(Counter::SnapshotHistoryOverflowed, u64::from(overflows), None, "");
    }
    DeviceMemory { snapshot, device, segments, end, history, replay, phases: Phases::new(snapshot, device) }
}

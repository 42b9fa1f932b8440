//! Devices and ranks beside each other: the peak, what is reserved, and what of it is of no use.

use super::device::DeviceMemory;
use super::end_state::EndState;
use crate::api::{Align, View};
use hta_base::units::{fmt_bytes, fmt_count, fmt_pct, percent};
use hta_read::snapshot::Action;
use std::cmp::Reverse;

/// Order of devices, the one nearest to its limit first: a device whose requests fail, then by the most that it reserved
/// or held. A snapshot does not say how much a device has. Pinned memory of the host comes last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Nearness {
    is_host: bool,
    fits: bool,
    most: Reverse<Option<i64>>,
}

/// The numbers of one device.
pub struct DeviceSummary {
    pub(crate) rank: u32,
    pub(crate) device: String,
    is_host: bool,
    /// Whether a request failed.
    has_failed: bool,
    /// `None` without a history.
    pub(crate) peak: Option<i64>,
    /// `None` of a timeline, which has no segments.
    end: Option<EndState>,
    reserved_max: Option<i64>,
}

impl DeviceSummary {
    pub fn new(rank: u32, device: &DeviceMemory) -> Self {
        let replay = device.replay.as_ref();
        let mut entries = device.history.into_iter().flat_map(|h| device.snapshot.entries(h));
        Self {
            rank,
            device: device.name(),
            is_host: device.device.is_none(),
            has_failed: entries.any(|e| e.action == Action::Oom),
            peak: replay.map(|r| r.peak.bytes),
            end: Some(device.end),
            reserved_max: replay.map(|r| r.reserved_max),
        }
    }

    pub fn of_timeline(rank: u32, peak: i64) -> Self {
        let device = "timeline".to_string();
        Self { rank, device, is_host: false, has_failed: false, peak: Some(peak), end: None, reserved_max: None }
    }

    pub(crate) fn nearness(&self) -> Nearness {
        let reserved = self.reserved_max.or(self.end.map(|e| e.reserved));
        Nearness { is_host: self.is_host, fits: !self.has_failed, most: Reverse(self.peak.max(reserved)) }
    }
}

/// Largest number of devices with tables of their own.
const MOST_DETAILED: usize = 4;

/// Places of the devices, the one nearest to its limit first.
fn by_nearness(devices: &[DeviceSummary]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..devices.len()).collect();
    order.sort_by_key(|i| devices.get(*i).map(DeviceSummary::nearness));
    order
}

/// The views of a report: all devices beside each other, then the tables of those nearest to their limits. `detailed` has
/// the tables of each device.
pub fn report(devices: &[DeviceSummary], mut detailed: Vec<Vec<View>>, top: usize) -> Vec<View> {
    let shown = by_nearness(devices).into_iter().take(MOST_DETAILED);
    let of_shown: Vec<View> = shown.filter_map(|i| detailed.get_mut(i).map(std::mem::take)).flatten().collect();
    beside(devices, top).into_iter().chain(of_shown).collect()
}

/// A row for each device, the highest peak first; `None` for a single device.
fn beside(devices: &[DeviceSummary], top: usize) -> Option<View> {
    if devices.len() < 2 {
        return None;
    }
    let bytes = |v: Option<i64>| v.map_or_else(|| "-".to_string(), |v| fmt_bytes(v.unsigned_abs()));
    let row = |d: &DeviceSummary| {
        let end = d.end.as_ref();
        vec![
            d.rank.to_string(),
            d.device.clone(),
            bytes(d.peak),
            bytes(d.reserved_max),
            bytes(end.map(|e| e.reserved)),
            bytes(end.map(|e| e.active)),
            bytes(end.map(|e| e.split)),
            fmt_pct(end.and_then(|e| percent(e.split, e.reserved))),
        ]
    };
    let order = by_nearness(devices);
    let left_out = devices.len().saturating_sub(top);
    let mut notes = Vec::new();
    if left_out > 0 {
        notes.push(format!("{} more", fmt_count(left_out as u64)));
    }
    if devices.len() > MOST_DETAILED {
        notes.push(format!(
            "tables follow of the {MOST_DETAILED} devices with the highest peaks; --ranks and --device choose others"
        ));
    }
    Some(View {
        title: "Devices beside each other, the highest peak first".to_string(),
        columns: vec![
            ("rank", Align::Right),
            ("device", Align::Left),
            ("peak", Align::Right),
            ("most reserved", Align::Right),
            ("reserved", Align::Right),
            ("active", Align::Right),
            ("split", Align::Right),
            ("of reserved", Align::Right),
        ],
        rows: order.iter().take(top).filter_map(|i| devices.get(*i)).map(row).collect(),
        notes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(title: &str) -> View {
        View { title: title.to_string(), columns: Vec::new(), rows: Vec::new(), notes: Vec::new() }
    }

    #[test]
    fn a_device_whose_requests_fail_is_nearest_to_its_limit_and_the_host_last() {
        let mut devices: Vec<DeviceSummary> =
            (0..3).map(|i| DeviceSummary::of_timeline(i, 10 - i64::from(i))).collect();
        devices[0].is_host = true;
        devices[2].has_failed = true;
        assert_eq!(by_nearness(&devices), [2, 1, 0]);
    }

    #[test]
    fn of_many_devices_the_highest_peaks_are_detailed() {
        let peaks = [10, 70, 30, 60, 50, 70];
        let devices: Vec<DeviceSummary> =
            (0..).zip(peaks).map(|(rank, peak)| DeviceSummary::of_timeline(rank, peak)).collect();
        let detailed = (0..6).map(|i| vec![view(&i.to_string())]).collect();
        let views = report(&devices, detailed, 5);
        let titles: Vec<&str> = views.iter().skip(1).map(|v| v.title.as_str()).collect();
        assert_eq!(titles, ["1", "5", "3", "4"]);
        let ranks: Vec<&str> = views[0].rows.iter().map(|r| r[0].as_str()).collect();
        assert_eq!(ranks, ["1", "5", "3", "4", "2"]);
        assert_eq!((views[0].notes.len(), views[0].notes[0].as_str()), (2, "1 more"));
        assert_eq!(report(&devices[..1], vec![vec![view("0")]], 5), [view("0")]);
    }
}

//! Devices and ranks beside each other: the peak, what is reserved, and what of it is of no use.

use super::device::DeviceMemory;
use super::end_state::EndState;
use crate::analysis::api::{Align, View};
use crate::units::{fmt_bytes, fmt_count, fmt_pct, percent};
use std::cmp::Reverse;

/// The numbers of one device.
pub struct DeviceSummary {
    pub rank: u32,
    pub device: String,
    /// `None` without a history.
    pub peak: Option<i64>,
    /// `None` of a timeline, which has no segments.
    end: Option<EndState>,
    reserved_max: Option<i64>,
}

impl DeviceSummary {
    pub fn new(rank: u32, device: &DeviceMemory) -> Self {
        let replay = device.replay.as_ref();
        Self {
            rank,
            device: device.name(),
            peak: replay.map(|r| r.peak.bytes),
            end: Some(device.end),
            reserved_max: replay.map(|r| r.reserved_max),
        }
    }

    pub fn of_timeline(rank: u32, peak: i64) -> Self {
        Self { rank, device: "timeline".to_string(), peak: Some(peak), end: None, reserved_max: None }
    }
}

/// Largest number of devices with tables of their own.
const MOST_DETAILED: usize = 4;

/// Places of the devices, the highest peak first.
fn by_peak(devices: &[DeviceSummary]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..devices.len()).collect();
    order.sort_by_key(|i| devices.get(*i).map(|d| Reverse(d.peak.max(d.reserved_max))));
    order
}

/// The views of a report: all devices beside each other, then the tables of those with the highest peaks, in order of
/// rank. `detailed` has the tables of each device.
pub fn report(devices: &[DeviceSummary], detailed: Vec<Vec<View>>, top: usize) -> Vec<View> {
    let mut shown = by_peak(devices);
    shown.truncate(MOST_DETAILED);
    let of_shown = detailed.into_iter().enumerate().filter(|(i, _)| shown.contains(i)).flat_map(|(_, views)| views);
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
    let order = by_peak(devices);
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
    fn of_many_devices_the_highest_peaks_are_detailed_in_order_of_rank() {
        let peaks = [10, 70, 30, 60, 50, 70];
        let devices: Vec<DeviceSummary> =
            (0..).zip(peaks).map(|(rank, peak)| DeviceSummary::of_timeline(rank, peak)).collect();
        let detailed = (0..6).map(|i| vec![view(&i.to_string())]).collect();
        let views = report(&devices, detailed, 5);
        let titles: Vec<&str> = views.iter().skip(1).map(|v| v.title.as_str()).collect();
        assert_eq!(titles, ["1", "3", "4", "5"]);
        let ranks: Vec<&str> = views[0].rows.iter().map(|r| r[0].as_str()).collect();
        assert_eq!(ranks, ["1", "5", "3", "4", "2"]);
        assert_eq!((views[0].notes.len(), views[0].notes[0].as_str()), (2, "1 more"));
        assert_eq!(report(&devices[..1], vec![vec![view("0")]], 5), [view("0")]);
    }
}

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

/// A row for each device, the highest peak first; `None` for a single device.
pub fn beside(mut devices: Vec<DeviceSummary>, top: usize) -> Option<View> {
    if devices.len() < 2 {
        return None;
    }
    devices.sort_by_key(|d| Reverse(d.peak.max(d.reserved_max)));
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
    let left_out = devices.len().saturating_sub(top);
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
        rows: devices.iter().take(top).map(row).collect(),
        notes: if left_out > 0 { vec![format!("{} more", fmt_count(left_out as u64))] } else { Vec::new() },
    })
}

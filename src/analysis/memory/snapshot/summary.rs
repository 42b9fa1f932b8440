//! Devices and ranks beside each other: the peak, what is reserved, and what of it is of no use.

use super::device::device_words;
use super::tables::MemoryDeviceRow;
use super::timeline::TIMELINE;
use crate::api::{Align, View};
use crate::memory::report::size;
use hta_base::units::{fmt_count, fmt_pct, percent};
use std::cmp::Reverse;

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

/// Largest number of devices with tables of their own.
pub(super) const MOST_DETAILED: usize = 4;

/// A row for each device, the one nearest to its limit first; `None` for a single device.
pub(super) fn beside(devices: &[MemoryDeviceRow], top: usize) -> Option<View> {
    if devices.len() < 2 {
        return None;
    }
    let bytes = |v: Option<i64>| v.map_or_else(|| "-".to_string(), size);
    let row = |d: &MemoryDeviceRow| {
        vec![
            d.rank.to_string(),
            name(d),
            bytes(d.peak_bytes),
            bytes(d.reserved_max_bytes),
            bytes(d.reserved_bytes),
            bytes(d.active_bytes),
            bytes(d.split_bytes),
            fmt_pct(
                d.split_bytes.zip(d.reserved_bytes).and_then(|(split, reserved)| percent(split, reserved)),
            ),
        ]
    };
    let left_out = devices.len().saturating_sub(top);
    let mut notes = Vec::new();
    if left_out > 0 {
        notes.push(format!("{} more", fmt_count(left_out as u64)));
    }
    if devices.len() > MOST_DETAILED {
        notes.push(format!(
            "tables follow of the {MOST_DETAILED} devices with the highest peaks; --ranks and --device \
             choose others"
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
        rows: devices.iter().take(top).map(row).collect(),
        notes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{Options, Partial};
    use crate::memory::snapshot::report::views;
    use crate::memory::snapshot::tables::MemoryDevices;

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

    #[test]
    fn a_device_whose_requests_fail_is_nearest_to_its_limit_and_the_host_last() {
        let partial = devices(&[(10, true, 0), (9, false, 0), (8, false, 1)]);
        let mut rows: Vec<MemoryDeviceRow> = partial.rows::<MemoryDevices>().collect();
        rows.sort_by_key(Nearness::of);
        assert_eq!(rows.iter().map(|r| r.rank).collect::<Vec<_>>(), [2, 1, 0]);
    }

    #[test]
    fn of_many_devices_the_highest_peaks_are_detailed() {
        let partial = devices(&[10, 70, 30, 60, 50, 70].map(|peak| (peak, false, 0)));
        let options = Options { top: 5, ..Options::default() };
        let views = views(std::slice::from_ref(&partial), &options);
        let titles: Vec<&str> = views.iter().skip(2).step_by(2).map(|v| v.title.as_str()).collect();
        let expected = [1, 5, 3, 4]
            .map(|rank| format!("Reserved when the snapshot was taken: 0 B (rank {rank}, device 0)"));
        assert_eq!(titles, expected);
        let ranks: Vec<&str> = views[0].rows.iter().map(|r| r[0].as_str()).collect();
        assert_eq!(ranks, ["1", "5", "3", "4", "2"]);
        assert_eq!((views[0].notes.len(), views[0].notes[0].as_str()), (2, "1 more"));
    }
}

//! Records of the allocators (`profile_memory=True`): what was allocated and freed, when, on which device and
//! thread.
//!
//! ```text
//!   record        +512   +2048   -512    +512 again at the same address
//!   level      0   512    2560    2048    2560
//!   allocation 0  [=================)
//!   allocation 1          [==================================   live at the end
//!   allocation 2                        [====================
//! ```
//!
//! Records are no events: they have no length and no row. Files list them out of order, so they are sorted by
//! device, time and order in the file; a record's place among those of its device is its number.

use hashbrown::HashMap;
use hta_base::health::{Counter, Health};
use hta_base::units::Ns;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MemoryRecordKind {
    /// An allocation or a free.
    #[default]
    Change,
    /// A request that failed; nothing was allocated.
    OutOfMemory,
}

impl MemoryRecordKind {
    /// By the name of the instant.
    pub fn of(name: &[u8]) -> Option<Self> {
        match name {
            b"[memory]" => Some(MemoryRecordKind::Change),
            b"[OutOfMemory]" => Some(MemoryRecordKind::OutOfMemory),
            _ => None,
        }
    }
}

/// One record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryRecord {
    pub kind: MemoryRecordKind,
    pub ts: Ns,
    /// Index into the lanes of the trace.
    pub lane: u32,
    /// Positive: allocated; negative: freed.
    pub bytes: i64,
    pub address: Option<u64>,
    /// As PyTorch numbers types of devices: 0 host, 1 CUDA, ...
    pub device_type: i64,
    /// `None` for the host.
    pub device: Option<i64>,
    /// Level after the record.
    pub total_allocated: Option<i64>,
    pub total_reserved: Option<i64>,
}

impl MemoryRecord {
    /// Type and number of its device.
    pub fn place(&self) -> (i64, Option<i64>) {
        (self.device_type, self.device)
    }
}

/// Name of a type of device.
pub fn device_type_name(number: i64) -> String {
    match number {
        0 => "cpu".to_string(),
        1 => "cuda".to_string(),
        6 => "hip".to_string(),
        12 => "xpu".to_string(),
        19 => "mtia".to_string(),
        20 => "privateuse1".to_string(),
        other => other.to_string(),
    }
}

/// How an allocation ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllocationEnd {
    Freed,
    /// Not freed while it was recorded.
    Live,
    /// Freed, but allocated before the recording.
    Before,
    /// Its address was allocated again, so that its free is missing.
    Unknown,
}

impl AllocationEnd {
    pub fn name(self) -> &'static str {
        match self {
            AllocationEnd::Freed => "freed",
            AllocationEnd::Live => "live",
            AllocationEnd::Before => "before",
            AllocationEnd::Unknown => "unknown",
        }
    }
}

/// An allocation, or what is known of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allocation {
    /// Number of the record that allocates; `None` if that was before the recording.
    pub opened: Option<u32>,
    /// Number of the record with which it ends.
    pub closed: Option<u32>,
    pub end: AllocationEnd,
}

/// The allocations of one device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allocations {
    /// In order of the first of their records.
    pub all: Vec<Allocation>,
    /// Allocations at an address that was not freed.
    pub(crate) over_live: u64,
    /// Frees of another size than the allocation.
    pub(crate) mismatched: u64,
}

/// Fewest allocations at addresses in use, and their share of all, percent, from which addresses are not
/// believed.
const LIVE_AGAIN: (u64, u64) = (3, 5);

impl Allocations {
    /// Pairs the records of one device by address; `None` if a record has no address, or addresses cannot be
    /// true.
    pub fn pair(records: &[MemoryRecord]) -> Option<Self> {
        Self::by_address(records).filter(|me| me.contradictions(records) == 0)
    }

    /// Number of allocations at an address that is in use, if addresses cannot be true.
    pub fn live_again(records: &[MemoryRecord]) -> Option<u64> {
        Self::by_address(records).map(|me| me.contradictions(records))
    }

    /// An address that is allocated again was freed without a record, or is wrong: it is where the totals add
    /// up without a free. A few frees are missing in many files.
    fn contradictions(&self, records: &[MemoryRecord]) -> u64 {
        let (fewest, pct) = LIVE_AGAIN;
        let opened = self.all.iter().filter(|a| a.opened.is_some()).count() as u64;
        if self.over_live < fewest || self.over_live * 100 <= opened * pct {
            return 0;
        }
        let adds_up = |w: &&[MemoryRecord]| match w {
            [a, b] => a.total_allocated.zip(b.total_allocated).is_some_and(|(x, y)| x + b.bytes == y),
            _ => false,
        };
        let jumps =
            (records.len() as u64).saturating_sub(1) - records.windows(2).filter(adds_up).count() as u64;
        if jumps * 2 < self.over_live { self.over_live } else { 0 }
    }

    fn by_address(records: &[MemoryRecord]) -> Option<Self> {
        let mut me = Self::default();
        let mut live: HashMap<u64, usize> = HashMap::new();
        for (number, record) in records.iter().enumerate() {
            let number = number as u32;
            let address = record.address?;
            if record.bytes > 0 {
                if let Some(old) = live.insert(address, me.all.len()) {
                    me.over_live += 1;
                    let old = &mut me.all[old];
                    (old.closed, old.end) = (Some(number), AllocationEnd::Unknown);
                }
                me.all.push(Allocation { opened: Some(number), closed: None, end: AllocationEnd::Live });
                continue;
            }
            match live.remove(&address) {
                Some(open) => {
                    let open = &mut me.all[open];
                    (open.closed, open.end) = (Some(number), AllocationEnd::Freed);
                    let size = open.opened.and_then(|o| records.get(o as usize)).map_or(0, |o| o.bytes);
                    me.mismatched += u64::from(size != record.bytes.saturating_neg());
                }
                None => {
                    me.all.push(Allocation {
                        opened: None,
                        closed: Some(number),
                        end: AllocationEnd::Before,
                    });
                }
            }
        }
        Some(me)
    }
}

/// Splits records in order into those of each device, without failed requests.
pub fn by_device(records: &[MemoryRecord]) -> impl Iterator<Item = &[MemoryRecord]> {
    let changes = records.partition_point(|r| r.kind == MemoryRecordKind::Change);
    records[..changes].chunk_by(|a, b| a.place() == b.place())
}

/// The failed requests, in order.
pub fn failed_requests(records: &[MemoryRecord]) -> &[MemoryRecord] {
    &records[records.partition_point(|r| r.kind == MemoryRecordKind::Change)..]
}

/// Levels of one device: (before the first record, whether that is unknown, after each record). Where the
/// file has totals they are used, even if they contradict the sizes.
pub fn levels(records: &[MemoryRecord]) -> (i64, bool, Vec<i64>) {
    let is_relative = records.iter().any(|r| r.total_allocated.is_none());
    let before = match records.first() {
        Some(first) if !is_relative => first.total_allocated.unwrap_or(0).saturating_sub(first.bytes),
        _ => 0,
    };
    let mut sum = before;
    let after = records.iter().map(|r| {
        sum = match r.total_allocated {
            Some(total) if !is_relative => total,
            _ => sum.saturating_add(r.bytes),
        };
        sum
    });
    let after = after.collect();
    (before, is_relative, after)
}

/// Sorts the records by device, time and order in the file, failed requests last, and counts what contradicts
/// itself.
pub(crate) fn put_in_order(records: &mut Vec<MemoryRecord>, health: &mut Health) {
    records.sort_by_key(|r| (r.kind == MemoryRecordKind::OutOfMemory, r.place(), r.ts));
    records.shrink_to_fit();
    for of_device in by_device(records) {
        let name = device_type_name(of_device.first().map_or(0, |r| r.device_type));
        let (before, is_relative, after) = levels(of_device);
        let mut level = before;
        for (record, now) in of_device.iter().zip(after) {
            let missing = now.saturating_sub(level).saturating_sub(record.bytes);
            if !is_relative && missing != 0 {
                health.note(Counter::MemoryTotalJump, &format!("{missing} bytes on {name}"));
            }
            level = now;
        }
        if let Some(pairs) = Allocations::by_address(of_device) {
            health.add(Counter::MemoryAllocOverLive, pairs.over_live, None, &name);
            health.add(Counter::MemorySizeMismatch, pairs.mismatched, None, &name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(ts: Ns, address: u64, bytes: i64) -> MemoryRecord {
        MemoryRecord { ts, address: Some(address), bytes, ..MemoryRecord::default() }
    }

    fn pair(records: &[MemoryRecord]) -> Vec<(Option<u32>, Option<u32>, &'static str)> {
        let pairs = Allocations::by_address(records).expect("all have addresses");
        pairs.all.iter().map(|a| (a.opened, a.closed, a.end.name())).collect()
    }

    #[test]
    fn an_address_is_used_again_after_its_free() {
        let records = [record(0, 7, 512), record(1, 9, 64), record(2, 7, -512), record(3, 7, 512)];
        assert_eq!(
            pair(&records),
            [(Some(0), Some(2), "freed"), (Some(1), None, "live"), (Some(3), None, "live")]
        );
    }

    #[test]
    fn a_free_without_allocation_is_from_before_and_a_second_allocation_ends_the_first() {
        let records = [record(0, 7, -512), record(1, 9, 64), record(2, 9, 32), record(3, 9, -64)];
        assert_eq!(
            pair(&records),
            [(None, Some(0), "before"), (Some(1), Some(2), "unknown"), (Some(2), Some(3), "freed")]
        );
        let counted = Allocations::pair(&records).map(|p| (p.over_live, p.mismatched));
        assert_eq!(counted, Some((1, 1)));
    }

    #[test]
    fn addresses_that_are_in_use_by_the_totals_are_not_believed() {
        /// The address of the n-th record.
        type AddressOf = fn(i64) -> u64;
        let at = |n: i64, address: u64, total: i64| MemoryRecord {
            total_allocated: Some(total),
            ..record(n, address, 10)
        };
        let of = |address: AddressOf, missing: i64| -> Vec<MemoryRecord> {
            (0..8).map(|n| at(n, address(n), 100 + 10 * n - missing * n)).collect()
        };
        let (one, own): (AddressOf, AddressOf) = (|_| 7, |n| n as u64);
        assert_eq!(Allocations::pair(&of(one, 0)), None);
        assert_eq!(Allocations::live_again(&of(one, 0)), Some(7));
        assert!(Allocations::pair(&of(own, 0)).is_some());
        assert!(Allocations::pair(&of(one, 10)).is_some(), "frees are missing: the totals do not add up");
    }

    #[test]
    fn records_are_sorted_by_device_and_time_and_jumps_of_the_total_are_counted() {
        let on = |device, ts, bytes, total| MemoryRecord {
            device_type: i64::from(device != 0),
            device: (device != 0).then_some(device),
            total_allocated: Some(total),
            ..record(ts, 0, bytes)
        };
        let failed = MemoryRecord { kind: MemoryRecordKind::OutOfMemory, ..on(0, 0, 4096, 0) };
        let mut records =
            vec![on(1, 9, 64, 164), failed, on(0, 5, 32, 32), on(1, 2, 100, 100), on(0, 6, 8, 50)];
        let mut health = Health::default();
        put_in_order(&mut records, &mut health);
        let order: Vec<(i64, Ns)> = records.iter().map(|r| (r.device_type, r.ts)).collect();
        assert_eq!(order, [(0, 5), (0, 6), (1, 2), (1, 9), (0, 0)]);
        assert_eq!(health.count(Counter::MemoryTotalJump), 1);
        assert_eq!(by_device(&records).map(<[MemoryRecord]>::len).collect::<Vec<_>>(), [2, 2]);
        assert_eq!(failed_requests(&records).len(), 1);
        assert_eq!(levels(&records[..2]), (0, false, vec![32, 50]));
    }

    #[test]
    fn without_totals_levels_are_running_sums() {
        assert_eq!(levels(&[record(0, 1, 10), record(1, 1, -4)]), (0, true, vec![10, 6]));
    }
}

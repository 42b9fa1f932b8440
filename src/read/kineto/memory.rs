//! Arguments of `[memory]` and `[OutOfMemory]` records.

use super::cursor::Token;
use super::number::{Integer, integer};
use hta_base::units::Ns;
use hta_trace::memory::{MemoryRecord, MemoryRecordKind};

/// An argument of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MemoryArg {
    Bytes,
    Address,
    DeviceType,
    DeviceId,
    TotalAllocated,
    TotalReserved,
}

impl MemoryArg {
    pub(super) fn of(key: &[u8]) -> Option<Self> {
        Some(match key {
            b"Bytes" => MemoryArg::Bytes,
            b"Addr" => MemoryArg::Address,
            b"Device Type" => MemoryArg::DeviceType,
            b"Device Id" => MemoryArg::DeviceId,
            b"Total Allocated" => MemoryArg::TotalAllocated,
            b"Total Reserved" => MemoryArg::TotalReserved,
            _ => return None,
        })
    }
}

/// The record with these arguments; `None` without a size.
pub(super) fn record(
    kind: MemoryRecordKind,
    ts: Ns,
    lane: u32,
    args: &[(MemoryArg, Token)],
    buf: &[u8],
) -> Option<MemoryRecord> {
    let mut record = MemoryRecord { kind, ts, lane, ..MemoryRecord::default() };
    let mut bytes = None;
    for (arg, token) in args {
        let number = match integer(token.bytes(buf)) {
            // A negative number has the bits of its i64.
            Integer::Value(n) | Integer::Unsigned(n) => n,
            Integer::TooLarge | Integer::NotANumber => continue,
        };
        let signed = number as i64;
        match arg {
            MemoryArg::Bytes => bytes = Some(signed),
            MemoryArg::Address => record.address = Some(number),
            MemoryArg::DeviceType => record.device_type = signed,
            MemoryArg::DeviceId => record.device = Some(signed).filter(|id| *id >= 0),
            MemoryArg::TotalAllocated => record.total_allocated = Some(signed),
            MemoryArg::TotalReserved => record.total_reserved = Some(signed),
        }
    }
    record.bytes = bytes?;
    Some(record)
}

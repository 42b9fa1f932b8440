//! A device, from a row of the tables in which nsys and nvprof describe devices alike.

use super::database::int;
use hta_trace::meta::Device;
use rusqlite::Row;

/// The columns from the third on: bytes of memory, multiprocessors, major and minor compute capability, threads of a
/// warp; of a multiprocessor warps, registers and bytes of shared memory.
pub(super) fn device(row: &Row, id: i64, name: &str) -> Device {
    let number = |column: usize| int(row, column).and_then(|n| u32::try_from(n).ok());
    Device {
        id,
        name: name.to_string(),
        memory_bytes: int(row, 2).and_then(|n| u64::try_from(n).ok()),
        sm_count: number(3),
        compute_capability: number(4).zip(number(5)).map(|(major, minor)| format!("{major}.{minor}")),
        warp_size: number(6),
        max_threads_per_sm: number(6).zip(number(7)).and_then(|(a, b)| a.checked_mul(b)),
        registers_per_sm: number(8),
        shared_memory_per_sm: number(9),
    }
}

//! How many blocks of a kernel a multiprocessor holds at once, from the limits of the device.
//!
//! Kineto records an estimate, but writes 0 for kernels with more than 48 KiB of shared memory, so it is
//! derived here.
//!
//! ```text
//!   warps w = ceil(threads of a block / 32)
//!   blocks of one multiprocessor: the least of
//!     warps           floor((max threads per SM / 32) / w)
//!     registers       floor(4 floor(floor(registers per SM / (256 ceil(32 registers / 256))) / 4) / w)
//!     shared_memory   floor(shared memory per SM / (128 ceil((shared memory + r) / 128)))    r: 1024 since 8.0, else 0
//!     blocks          16 (7.5, 8.6), 24 (8.9), 32 (others)
//!   occupancy = min(blocks / SMs, active blocks) w / (max threads per SM / 32), at most 100 %
//!   waves     = blocks / (SMs x active blocks);  tail = their fraction, the share of the last wave that is filled
//! ```
//!
//! Registers are given to warps in units of 256 by four schedulers, shared memory in units of 128 bytes.

use crate::kernel::tensor_cores::capability;
use crate::meta::Device;

/// Threads of a warp of NVIDIA devices, for which the formulas hold.
const WARP: u64 = 32;
/// Unit in which registers are given to a warp.
const REGISTER_UNIT: u64 = 256;
/// Schedulers of a multiprocessor, which share its registers evenly.
const SCHEDULERS: u64 = 4;
/// Unit of shared memory, bytes.
const SHARED_UNIT: u64 = 128;
/// Shared memory that the system takes of each block since compute capability 8.0, bytes.
const RESERVED: u64 = 1024;

/// How a kernel was launched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaunchShape {
    pub blocks: u64,
    pub threads_per_block: u64,
    pub registers_per_thread: u64,
    /// Static and dynamic, bytes per block.
    pub shared_memory: u64,
}

/// What limits the blocks of a multiprocessor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Limiter {
    Warps,
    Registers,
    SharedMemory,
    Blocks,
}

impl Limiter {
    /// As in the tables.
    pub fn name(self) -> &'static str {
        match self {
            Limiter::Warps => "warps",
            Limiter::Registers => "registers",
            Limiter::SharedMemory => "shared_memory",
            Limiter::Blocks => "blocks",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Occupancy {
    /// Blocks that a multiprocessor holds at once.
    pub(crate) active_blocks: u64,
    /// Warps that run, of those that fit, percent.
    pub pct: f64,
    pub limiter: Limiter,
    /// Rounds in which all multiprocessors together run the grid.
    pub waves: f64,
}

impl Occupancy {
    /// The filled part of the last wave; 1 if it is full.
    pub fn tail(self) -> f64 {
        let part = self.waves.fract();
        if part == 0.0 { 1.0 } else { part }
    }
}

/// The limits of a device; `None` if some are not recorded, or for devices of other vendors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceLimits {
    multiprocessors: u64,
    threads: u64,
    registers: u64,
    shared_memory: u64,
    blocks: u64,
    reserved: u64,
}

impl DeviceLimits {
    pub fn of(device: &Device) -> Option<Self> {
        if device.warp_size != Some(WARP as u32) {
            return None;
        }
        let capability = capability(device.compute_capability.as_deref()?)?;
        let above_zero = |n: Option<u32>| n.map(u64::from).filter(|n| *n > 0);
        Some(Self {
            multiprocessors: above_zero(device.sm_count)?,
            threads: above_zero(device.max_threads_per_sm)?,
            registers: above_zero(device.registers_per_sm)?,
            shared_memory: above_zero(device.shared_memory_per_sm)?,
            blocks: match capability {
                [7, 5] | [8, 6] => 16,
                [8, 9] => 24,
                _ => 32,
            },
            reserved: if capability >= [8, 0] { RESERVED } else { 0 },
        })
    }

    /// `None` for a launch that does not fit on the device.
    pub fn occupancy(&self, launched: LaunchShape) -> Option<Occupancy> {
        let warps = launched.threads_per_block.div_ceil(WARP);
        if warps == 0 || launched.blocks == 0 {
            return None;
        }
        let most_warps = self.threads / WARP;
        let of_warp =
            REGISTER_UNIT * WARP.checked_mul(launched.registers_per_thread)?.div_ceil(REGISTER_UNIT);
        let by_registers = match of_warp {
            0 => u64::MAX,
            n => SCHEDULERS * (self.registers / n / SCHEDULERS) / warps,
        };
        let of_block = SHARED_UNIT * launched.shared_memory.checked_add(self.reserved)?.div_ceil(SHARED_UNIT);
        let by_shared = self.shared_memory.checked_div(of_block).unwrap_or(u64::MAX);
        let limits = [
            (most_warps / warps, Limiter::Warps),
            (by_registers, Limiter::Registers),
            (by_shared, Limiter::SharedMemory),
            (self.blocks, Limiter::Blocks),
        ];
        let (active_blocks, limiter) = limits.into_iter().min_by_key(|l| l.0)?;
        if active_blocks == 0 || most_warps == 0 {
            return None;
        }
        let per_sm = launched.blocks as f64 / self.multiprocessors as f64;
        let running = per_sm.min(active_blocks as f64) * warps as f64;
        Some(Occupancy {
            active_blocks,
            pct: (100.0 * running / most_warps as f64).min(100.0),
            limiter,
            waves: per_sm / active_blocks as f64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn a100() -> DeviceLimits {
        DeviceLimits::of(&Device {
            sm_count: Some(108),
            compute_capability: Some("8.0".to_string()),
            warp_size: Some(32),
            max_threads_per_sm: Some(2048),
            registers_per_sm: Some(65_536),
            shared_memory_per_sm: Some(167_936),
            ..Device::default()
        })
        .unwrap()
    }

    #[test]
    fn the_least_limit_counts() {
        let launched = |blocks, threads_per_block, registers_per_thread, shared_memory| {
            let launched = LaunchShape { blocks, threads_per_block, registers_per_thread, shared_memory };
            a100().occupancy(launched).map(|o| (o.active_blocks, o.limiter))
        };
        // 64 warps fit: 16 blocks of 4.
        assert_eq!(launched(1000, 128, 16, 0), Some((16, Limiter::Warps)));
        // A warp of 128 registers per thread takes 4096; 16 warps fit.
        assert_eq!(launched(1000, 128, 128, 0), Some((4, Limiter::Registers)));
        // 164 KiB of which each block takes 65 with the system's part.
        assert_eq!(launched(1000, 128, 16, 65_536), Some((2, Limiter::SharedMemory)));
        assert_eq!(launched(1000, 32, 16, 0), Some((32, Limiter::Blocks)));
        assert_eq!(launched(1000, 128, 16, 200_000), None);
        assert_eq!(launched(0, 128, 16, 0), None);
    }

    #[test]
    fn a_small_grid_fills_part_of_one_wave() {
        let launched =
            LaunchShape { blocks: 54, threads_per_block: 256, registers_per_thread: 32, shared_memory: 0 };
        let o = a100().occupancy(launched).unwrap();
        // Half a block of 8 warps per multiprocessor, of 64 warps.
        assert_eq!((o.pct, o.active_blocks), (6.25, 8));
        assert_eq!((o.waves, o.tail()), (0.0625, 0.0625));
        let full = a100().occupancy(LaunchShape { blocks: 108 * 8 * 3, ..launched }).unwrap();
        assert_eq!((full.pct, full.waves, full.tail()), (100.0, 3.0, 1.0));
    }
}

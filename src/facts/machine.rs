//! What the devices of a rank can do at most, and how its kernels occupy them.

use crate::graphs::nodes::OperatorCall;
use crate::kernel_work::KernelWorks;
use crate::operator_work::OperatorWorks;
use hashbrown::HashMap;
use hta_trace::activity::Activity;
use hta_trace::args::Arg;
use hta_trace::flops::Work;
use hta_trace::flops::peaks::{DevicePeaks, Peaks, Units};
use hta_trace::flops::roofline::CallPeaks;
use hta_trace::kernel::occupancy::{DeviceLimits, LaunchShape, Occupancy};
use hta_trace::kernel::tensor_cores::TensorCores;
use hta_trace::meta::Recorder;
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::StrId;
use std::sync::Arc;

/// Peaks of the devices of a rank.
pub struct RankMachine<'a> {
    trace: &'a RankTrace,
    by_device: HashMap<Option<i64>, Option<&'a DevicePeaks>>,
    kernels: Arc<KernelWorks>,
    works: Arc<OperatorWorks>,
}

impl<'a> RankMachine<'a> {
    pub fn new(trace: &'a RankTrace, peaks: &'a Peaks) -> Self {
        let device = |id| trace.device_properties(id).and_then(|d| peaks.of(d));
        let by_device =
            trace.devices.iter().filter(|w| w.is_gpu).map(|w| (w.device, device(w.device))).collect();
        Self { trace, by_device, kernels: KernelWorks::of(trace), works: OperatorWorks::of(trace) }
    }

    /// The peaks of a device.
    pub fn device(&self, device: Option<i64>) -> Option<&'a DevicePeaks> {
        self.by_device.get(&device).copied().flatten()
    }

    /// The units that did the work of a call of an operator. Products, convolutions and attention are
    /// measured against matrix units where the name of the kernel does not tell.
    pub fn units(&self, call: OperatorCall, work: &Work) -> Option<Units> {
        let activity = self.works.main_activity(call)?;
        let uses = self.kernels.at(activity).tensor_cores;
        let is_matrix = work.family.is_matrix() && uses != TensorCores::No;
        Some(if is_matrix { Units::Matrix } else { Units::Vector })
    }

    /// Peaks for the work of a call of an operator, on the device of the kernel that does it.
    pub fn peaks(&self, call: OperatorCall, work: &Work) -> CallPeaks {
        let activity = self.works.main_activity(call);
        let device = activity
            .and_then(|i| self.trace.activities.get(i as usize))
            .and_then(|a| self.device(a.device()));
        let Some((units, device)) = self.units(call, work).zip(device) else { return CallPeaks::default() };
        CallPeaks {
            flops_per_s: work.number.and_then(|n| device.flops_per_s(n, units)),
            bytes_per_s: Some(device.bytes_per_s()),
        }
    }
}

/// Largest shared memory of a block without a special request, bytes. The profiler takes it for the device's
/// limit, and records an occupancy of 0 above it.
const STATIC_SHARED_MEMORY: i64 = 48 * 1024;

/// How kernels were launched, with texts of grids and blocks read once.
pub struct LaunchShapes<'a> {
    trace: &'a RankTrace,
    limits: HashMap<Option<i64>, Option<DeviceLimits>>,
    sizes: HashMap<StrId, Option<u64>>,
}

impl<'a> LaunchShapes<'a> {
    pub fn new(trace: &'a RankTrace) -> Self {
        Self { trace, limits: HashMap::new(), sizes: HashMap::new() }
    }

    /// Product of the dimensions of a grid or block; `None` if not recorded.
    fn size(&mut self, arg: Arg, row: u32) -> Option<u64> {
        let trace = self.trace;
        let text = trace.columns.args.text(arg, row)?;
        *self.sizes.entry(text).or_insert_with(|| {
            let dims: Vec<u64> = serde_json::from_str(trace.text(text)).ok()?;
            dims.iter().try_fold(1u64, |all, d| all.checked_mul(*d))
        })
    }

    /// Blocks of the grid.
    pub(crate) fn blocks(&mut self, a: &Activity) -> Option<u64> {
        self.size(Arg::Grid, a.row)
    }

    /// Occupancy as derived; `None` if something that it depends on is not recorded.
    pub fn occupancy(&mut self, a: &Activity) -> Option<Occupancy> {
        let trace = self.trace;
        let device = a.device();
        let limits = *self
            .limits
            .entry(device)
            .or_insert_with(|| trace.device_properties(device).and_then(DeviceLimits::of));
        let args = &trace.columns.args;
        let number = |arg| args.int(arg, a.row).and_then(|n| u64::try_from(n).ok());
        let launched = LaunchShape {
            registers_per_thread: number(Arg::Registers)?,
            shared_memory: number(Arg::SharedMemory).unwrap_or(0),
            blocks: self.size(Arg::Grid, a.row)?,
            threads_per_block: self.size(Arg::Block, a.row)?,
        };
        limits?.occupancy(launched)
    }

    /// The occupancy of a kernel in percent: as recorded, unless that is wrongly 0. Cuspy records none, so it
    /// is derived there.
    pub fn occupancy_pct(&mut self, a: &Activity) -> Option<f64> {
        let recorded = self.trace.columns.args.column(Arg::Occupancy).get(a.row).map(f64::from_bits);
        let recorded = recorded.filter(|pct| pct.is_finite() && *pct >= 0.0);
        let derived = match recorded {
            None if self.trace.meta.recorder == Recorder::Cuspy => self.occupancy(a),
            _ => self.wrongly_zero(a),
        };
        derived.map(|o| o.pct).or(recorded)
    }

    /// The derived occupancy of a kernel whose recorded one is wrongly 0: at least half a percent, which
    /// rounds to 1.
    pub fn wrongly_zero(&mut self, a: &Activity) -> Option<Occupancy> {
        let args = &self.trace.columns.args;
        let recorded = args.column(Arg::Occupancy).get(a.row).map(f64::from_bits);
        let is_suspect =
            recorded == Some(0.0) && args.int(Arg::SharedMemory, a.row) > Some(STATIC_SHARED_MEMORY);
        if is_suspect { self.occupancy(a).filter(|o| o.pct >= 0.5) } else { None }
    }

    /// Blocks for each multiprocessor: as recorded, else derived.
    pub fn blocks_per_sm(&mut self, a: &Activity) -> Option<f64> {
        let recorded = self.trace.columns.args.column(Arg::BlocksPerSm).get(a.row).map(f64::from_bits);
        recorded.filter(|b| b.is_finite()).or_else(|| {
            let sms = self.trace.device_properties(a.device())?.sm_count.filter(|n| *n > 0)?;
            Some(self.blocks(a)? as f64 / f64::from(sms))
        })
    }
}

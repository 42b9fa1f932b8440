//! What compute kernels would take if they were written in another way.
//!
//! ```text
//!   kernel_elementwise  they take nothing, except the longest kernel of a chain; a chain is what a compiler fuses:
//!                       kernels on elements, normalizations, softmax, reductions and random numbers that follow each
//!                       other on a stream
//!   kernel_attention    the products take FLOPs / matrix peak, softmax is part of them
//!   kernel_layout       nothing
//!   kernel_precision    time x vector peak / matrix peak of bf16 (else fp16), but no less than bytes / bandwidth
//!   kernel_small        FLOPs / peak or bytes / bandwidth, whichever is longer
//! ```
//!
//! A time is not known if the shapes were not recorded, or the device has no entry in the file of peaks.

use crate::api::Options;
use crate::diagnosis::compute::{ComputeKernel, times_in};
use crate::diagnosis::kernel_mix::mix_category;
use crate::diagnosis::kind::CauseKind;
use crate::facts::machine::RankMachine;
use crate::facts::operator_work::OperatorWorks;
use hta_base::table;
use hta_base::table::schema::Text;
use hta_base::units::Ns;
use hta_trace::device::DeviceWork;
use hta_trace::flops::Number;
use hta_trace::flops::peaks::Units;
use hta_trace::kernel::category::Category;
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::StrId;
use hta_trace::window::Window;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

table! {
    /// Compute time of a device in a window that a repair of its kernels is about. A kernel may be in several rows.
    pub(crate) struct KernelRepairs, KernelRepairRow = "kernel_repairs" by "rank, device, scope, step, cause" {
        rank; device; scope; step; step_label;
        cause: Text, "", "kind of cause";
        time_ns: i64, "ns", "compute time of the kernels, each instant in one kernel";
        kernel_count: u64, "", "kernels that start in the window";
        known_ns: i64, "ns", "of kernels whose time after the repair is known";
        ideal_ns: i64, "ns", "what these would take after the repair";
    }
}

/// Kernels below this length are small, ns.
const SMALL: Ns = 10_000;

/// Parts of names of matrix products and convolutions in fp32 that do not use tensor cores, lower case.
const SIMT: [&str; 5] = ["sgemm", "scudnn", "simt_s", "ffma", "engine<float"];

/// Parts of names whose inputs are in a shorter format, also with a part of the list above: `volta_fp16_sgemm_fp16_...`.
const SHORTER: [&str; 4] = ["tf32", "fp16", "f16", "half"];

/// Whether a name is that of a product in fp32 without tensor cores.
fn is_simt(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let is_winograd = lower.contains("winograd") && lower.contains("<float");
    (is_winograd || SIMT.iter().any(|p| lower.contains(p))) && !SHORTER.iter().any(|p| lower.contains(p))
}

/// Time that a repair is about.
#[derive(Default)]
struct Sum {
    time: Ns,
    count: u64,
    known: Ns,
    ideal: Ns,
}

pub(crate) fn push(
    table: &mut KernelRepairs,
    finder: &mut RepairFinder,
    work: &DeviceWork,
    kernels: &[ComputeKernel],
    windows: &[Window],
) {
    let trace = finder.trace;
    let repairs = repairs(finder, kernels);
    for w in windows {
        let mut sums: BTreeMap<CauseKind, Sum> = BTreeMap::new();
        for part in &w.parts {
            for (i, time) in times_in(kernels, *part) {
                for repair in &repairs[i] {
                    let sum = sums.entry(repair.kind).or_default();
                    sum.time += time;
                    sum.count += u64::from(part.holds(kernels[i].start));
                    if let Some(ideal) = repair.ideal {
                        sum.known += time;
                        sum.ideal += share(ideal, time, kernels[i].len);
                    }
                }
            }
        }
        for (kind, s) in sums {
            table.push(KernelRepairRow {
                rank: trace.rank,
                device: work.device,
                scope: w.scope.name(),
                step: w.step,
                step_label: w.label,
                cause: kind.name(),
                time_ns: s.time,
                kernel_count: s.count,
                known_ns: s.known,
                ideal_ns: s.ideal,
            });
        }
    }
}

/// The part of the new time of a kernel that falls on a part of its old time, ns.
fn share(ideal: Ns, time: Ns, len: Ns) -> Ns {
    if len == 0 { 0 } else { (i128::from(ideal.min(len)) * i128::from(time) / i128::from(len)) as Ns }
}

/// A repair of one kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct KernelRepair {
    kind: CauseKind,
    /// What the kernel takes afterwards, ns; `None` if not known.
    ideal: Option<Ns>,
}

/// The repairs of each kernel, by their order.
fn repairs(finder: &mut RepairFinder, kernels: &[ComputeKernel]) -> Vec<Vec<KernelRepair>> {
    let mut out: Vec<Vec<KernelRepair>> = kernels.iter().map(|k| finder.find(k)).collect();
    for (i, ideal) in chained(finder.trace, kernels) {
        out[i].push(KernelRepair { kind: CauseKind::KernelElementwise, ideal: Some(ideal) });
    }
    out
}

/// Whether a compiler fuses the kernel with its neighbours.
fn is_fusible(category: Category) -> bool {
    use Category::{Elementwise, Normalization, Random, Reduction, Softmax};
    matches!(category, Elementwise | Normalization | Random | Reduction | Softmax)
}

/// Kernels on elements by their index, with what each takes if every chain becomes one kernel.
fn chained(trace: &RankTrace, kernels: &[ComputeKernel]) -> Vec<(usize, Ns)> {
    let mut chains: HashMap<Option<i64>, Vec<usize>> = HashMap::new();
    let mut out = Vec::new();
    let mut end = |chain: &mut Vec<usize>| {
        let longest = chain.iter().copied().reduce(|a, b| if kernels[b].len > kernels[a].len { b } else { a });
        let of_elements = chain.drain(..).filter(|i| mix_category(kernels[*i].work) == Category::Elementwise);
        out.extend(of_elements.map(|i| (i, if Some(i) == longest { kernels[i].len } else { 0 })));
    };
    for (i, k) in kernels.iter().enumerate() {
        let chain = chains.entry(trace.activities[k.activity as usize].stream()).or_default();
        if is_fusible(mix_category(k.work)) {
            chain.push(i);
        } else {
            end(chain);
        }
    }
    chains.values_mut().for_each(end);
    out
}

/// Finds the repairs of the kernels of a rank, on all its devices.
pub(crate) struct RepairFinder<'a> {
    trace: &'a RankTrace,
    works: Arc<OperatorWorks>,
    machine: RankMachine<'a>,
    /// By name of the kernel.
    simt: HashMap<StrId, bool>,
    /// By name of the operator: whether it multiplies batches of matrices.
    batched: HashMap<StrId, bool>,
}

impl<'a> RepairFinder<'a> {
    pub(crate) fn new(trace: &'a RankTrace, options: &'a Options) -> Self {
        let machine = RankMachine::new(trace, &options.peaks);
        Self { trace, works: OperatorWorks::of(trace), machine, simt: HashMap::new(), batched: HashMap::new() }
    }

    fn find(&mut self, k: &ComputeKernel) -> Vec<KernelRepair> {
        let mut out = Vec::new();
        let category = mix_category(k.work);
        let is_batched = self.is_batched(k);
        if category == Category::Softmax || is_batched {
            // The fused kernel keeps the scores on the chip.
            let ideal = if is_batched { self.of_product(k) } else { Some(0) };
            out.push(KernelRepair { kind: CauseKind::KernelAttention, ideal });
        }
        if category == Category::Layout {
            out.push(KernelRepair { kind: CauseKind::KernelLayout, ideal: Some(0) });
        }
        if k.len >= SMALL && self.is_simt(k) {
            out.push(KernelRepair { kind: CauseKind::KernelPrecision, ideal: self.with_tensor_cores(k) });
        }
        if k.len < SMALL {
            out.push(KernelRepair { kind: CauseKind::KernelSmall, ideal: self.at_peaks(k) });
        }
        out
    }

    fn is_batched(&mut self, k: &ComputeKernel) -> bool {
        let trace = self.trace;
        let Some(op) = trace.activities[k.activity as usize].op() else { return false };
        let is_bmm = || matches!(trace.name(op), "aten::bmm" | "aten::baddbmm" | "aten::baddbmm_");
        *self.batched.entry(trace.columns.name(op as usize)).or_insert_with(is_bmm)
    }

    fn is_simt(&mut self, k: &ComputeKernel) -> bool {
        let trace = self.trace;
        let name = trace.activities[k.activity as usize].name;
        matches!(k.work.category, Category::Convolution | Category::Gemm)
            && *self.simt.entry(name).or_insert_with(|| is_simt(trace.text(name)))
    }

    /// The kernel's share of its operator's FLOPs at the peak of matrix units, ns.
    fn of_product(&self, k: &ComputeKernel) -> Option<Ns> {
        let a = &self.trace.activities[k.activity as usize];
        let (_, work) = self.works.of_activity(self.trace, k.activity)?;
        let number = work.number?;
        let flops = self.works.share(self.trace, k.activity).flops?;
        at_rate(flops, self.machine.device(a.device())?.flops_per_s(number, Units::Matrix)?)
    }

    /// The kernel on tensor cores with half-precision inputs, at the same share of the peak, ns.
    fn with_tensor_cores(&self, k: &ComputeKernel) -> Option<Ns> {
        let device = self.machine.device(self.trace.activities[k.activity as usize].device())?;
        let bytes = self.works.share(self.trace, k.activity).bytes?;
        let half = [Number::BFloat16, Number::Float16].into_iter();
        let matrix = half.filter_map(|n| device.flops_per_s(n, Units::Matrix)).next()?;
        let vector = device.flops_per_s(Number::Float32, Units::Vector)?;
        Some(((k.len as f64 * vector / matrix) as Ns).max(at_rate(bytes, device.bytes_per_s())?))
    }

    /// The kernel's share of its operator's work at the peaks of the device, ns.
    fn at_peaks(&self, k: &ComputeKernel) -> Option<Ns> {
        let (call, work) = self.works.of_activity(self.trace, k.activity)?;
        let amount = self.works.share(self.trace, k.activity);
        let peaks = self.machine.peaks(call, work);
        let of_flops = if amount.flops? == 0 { Some(0) } else { at_rate(amount.flops?, peaks.flops_per_s?) };
        Some(of_flops?.max(at_rate(amount.bytes?, peaks.bytes_per_s?)?))
    }
}

/// Time for an amount at a rate per second, ns; `None` if it is longer than any kernel.
fn at_rate(amount: u64, per_second: f64) -> Option<Ns> {
    let ns = amount as f64 / per_second * 1e9;
    (ns < i64::MAX as f64).then_some(ns as Ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_in_fp32_without_tensor_cores_are_found_by_name() {
        assert!(is_simt("volta_sgemm_128x64_nt"));
        assert!(!is_simt("ampere_tf32_s1688gemm_128x128"));
        assert!(!is_simt("ampere_bf16_s16816gemm_bf16_128x128"));
        assert!(is_simt("volta_scudnn_128x64_relu_interior_nn_v1"));
        assert!(is_simt("void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>(cudnn::Params<float>)"));
        assert!(is_simt("void cudnn::winograd::winograd3x3Kernel<float, float, 2, 2, 2, false>(float)"));
        assert!(is_simt("void cudnn::cnn::wgrad_alg1_engine<float, 128, 5, 5, 3>(int)"));
        assert!(!is_simt(
            "void cudnn::winograd_nonfused::winogradForwardData4x4<__half, float>(cudnn::Params<__half>)"
        ));
        assert!(!is_simt("volta_fp16_scudnn_fp16_128x64_relu_interior_nn_v1"));
        assert!(!is_simt("maxwell_fp16_sgemm_fp16_128x64_nn"));
    }

    #[test]
    fn a_part_of_a_kernel_has_that_part_of_its_new_time() {
        assert_eq!([share(40, 100, 100), share(40, 25, 100), share(400, 50, 100), share(1, 0, 0)], [40, 10, 50, 0]);
    }

    #[test]
    fn amounts_take_time_at_a_rate() {
        assert_eq!([at_rate(1_000_000, 1e12), at_rate(u64::MAX, 1e-9)], [Some(1_000), None]);
    }
}

//! The mix of kernels: what compute time is made of, by category.
//!
//! Categories are those of `hta kernels`. Each nanosecond of compute belongs to one kernel: of
//! concurrent ones to that which started first.

use crate::compute::{ComputeKernel, times_in};
use hta_base::table;
use hta_base::table::schema::Text;
use hta_base::units::Ns;
use hta_facts::kernel_work::KernelWork;
use hta_trace::device::DeviceWork;
use hta_trace::kernel::category::Category;
use hta_trace::rank_trace::RankTrace;
use hta_trace::window::Window;
use std::collections::BTreeMap;

table! {
    /// Compute time of a device in a window, by category of kernel.
    pub(crate) struct KernelMix, KernelMixRow = "kernel_mix" by "rank, device, scope, step, category" {
        rank; device; scope; step; step_label;
        category: Text, "", "as in kernel_categories; copies with another type or stride are elementwise";
        time_ns: i64, "ns", "compute time, each instant in one category";
        kernel_count: u64, "", "kernels that start in the window";
    }
}

/// The category of a kernel for the diagnosis. Copies with another type or stride are work on elements, which
/// a compiler fuses.
pub(crate) fn mix_category(work: KernelWork) -> Category {
    let is_copy = work.category == Category::Layout && work.sub == "copy";
    if is_copy { Category::Elementwise } else { work.category }
}

pub(crate) fn push(
    table: &mut KernelMix,
    trace: &RankTrace,
    work: &DeviceWork,
    kernels: &[ComputeKernel],
    windows: &[Window],
) {
    for w in windows {
        let mut sums: BTreeMap<&'static str, (Ns, u64)> = BTreeMap::new();
        for part in w.parts() {
            for (i, time) in times_in(kernels, *part) {
                let sum = sums.entry(mix_category(kernels[i].work).name()).or_default();
                sum.0 += time;
                sum.1 += u64::from(part.holds(kernels[i].start));
            }
        }
        for (category, (time_ns, kernel_count)) in sums {
            table.push(KernelMixRow {
                rank: trace.rank,
                device: work.device,
                scope: w.scope.name(),
                step: w.step,
                step_label: w.label,
                category,
                time_ns,
                kernel_count,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hta_trace::kernel::category::Reason;
    use hta_trace::kernel::tensor_cores::TensorCores;

    #[test]
    fn copies_between_types_count_as_work_on_elements() {
        let tensor_cores = TensorCores::No;
        let work = |sub| KernelWork { category: Category::Layout, reason: Reason::Name, sub, tensor_cores };
        assert_eq!(mix_category(work("copy")), Category::Elementwise);
        assert_eq!(mix_category(work("")), Category::Layout);
    }
}

//! What compute kernels would take after the fix of each cause in their mix. A time is not known if the
//! shapes were not recorded, or the device has no entry in the file of peaks.

use crate::CauseKind;
use crate::compute::{ComputeKernel, times_in};
use crate::kernel_facts::KernelFacts;
use hashbrown::HashMap;
use hta_base::table;
use hta_base::table::schema::Text;
use hta_base::units::Ns;
use hta_trace::device::DeviceWork;
use hta_trace::strings::StrId;
use hta_trace::window::Window;
use std::cmp::Reverse;
use std::collections::BTreeMap;

table! {
    /// Compute time of a device in a window that a repair of its kernels is about. A kernel may be in several
    /// rows.
    pub(crate) struct KernelRepairs, KernelRepairRow = "kernel_repairs"
        by "rank, device, scope, step, cause" {
        rank; device; scope; step; step_label;
        cause: Text, "", "kind of cause";
        operator: Text, "", "operator of most of the time, if the cause tells it";
        time_ns: i64, "ns", "compute time of the kernels, each instant in one kernel";
        kernel_count: u64, "", "kernels that start in the window";
        known_ns: i64, "ns", "of kernels whose time after the fix is known";
        ideal_ns: i64, "ns", "what these would take after the fix";
    }
}

/// Time that a repair is about.
#[derive(Default)]
struct RepairedSums {
    time: Ns,
    count: u64,
    known: Ns,
    ideal: Ns,
    /// By operator, if the cause tells it.
    operators: HashMap<StrId, Ns>,
}

pub(crate) fn push(
    table: &mut KernelRepairs,
    facts: &KernelFacts,
    work: &DeviceWork,
    kernels: &[ComputeKernel],
    windows: &[Window],
) {
    let trace = facts.trace;
    let repairs = repairs(facts, kernels);
    for w in windows {
        let mut sums: BTreeMap<CauseKind, RepairedSums> = BTreeMap::new();
        for part in w.parts() {
            for (i, time) in times_in(kernels, *part) {
                for (kind, ideal) in &repairs[i] {
                    let sum = sums.entry(*kind).or_default();
                    sum.time += time;
                    sum.count += u64::from(part.holds(kernels[i].start));
                    if kind.kernels().is_some_and(|rule| rule.names_operators) {
                        let a = &trace.activities[kernels[i].activity as usize];
                        let name = a.op().map_or(a.name, |op| trace.columns.name(op as usize));
                        *sum.operators.entry(name).or_default() += time;
                    }
                    if let Some(ideal) = ideal {
                        sum.known += time;
                        sum.ideal += share(*ideal, time, kernels[i].len);
                    }
                }
            }
        }
        for (kind, s) in sums {
            let most = s.operators.iter().max_by_key(|(name, ns)| (**ns, Reverse(trace.text(**name))));
            table.push(KernelRepairRow {
                rank: trace.rank,
                device: work.device,
                scope: w.scope.name(),
                step: w.step,
                step_label: w.label,
                cause: kind.name(),
                operator: most.map_or("", |(name, _)| trace.text(*name)),
                time_ns: s.time,
                kernel_count: s.count,
                known_ns: s.known,
                ideal_ns: s.ideal,
            });
        }
    }
}

/// The repairs of each kernel with what it takes afterwards, ns; `None` if not known.
fn repairs(facts: &KernelFacts, kernels: &[ComputeKernel]) -> Vec<Vec<(CauseKind, Option<Ns>)>> {
    let mut out = vec![Vec::new(); kernels.len()];
    for (kind, rule) in CauseKind::all_kernels() {
        for (i, ideal) in (rule.kernels)(facts, kernels) {
            out[i].push((kind, ideal));
        }
    }
    out
}

/// The part of the new time of a kernel that falls on a part of its old time, ns.
fn share(ideal: Ns, time: Ns, len: Ns) -> Ns {
    if len == 0 { 0 } else { (i128::from(ideal.min(len)) * i128::from(time) / i128::from(len)) as Ns }
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn a_part_of_a_kernel_has_that_part_of_its_new_time() {
        assert_eq!(
            [share(40, 100, 100), share(40, 25, 100), share(400, 50, 100), share(1, 0, 0)],
            [40, 10, 50, 0]
        );
    }
}

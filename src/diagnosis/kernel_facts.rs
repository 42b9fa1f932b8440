//! What the repairs of kernels are found by: their work, and the peaks of the machine.

use crate::compute::ComputeKernel;
use hta_analysis::api::Options;
use hta_base::units::Ns;
use hta_facts::machine::RankMachine;
use hta_facts::operator_work::OperatorWorks;
use hta_trace::rank_trace::RankTrace;
use std::sync::Arc;

/// Kernels below this length are small, ns.
pub(crate) const SMALL: Ns = 10_000;

/// The kernels of a rank, on all its devices.
pub(crate) struct KernelFacts<'a> {
    pub(crate) trace: &'a RankTrace,
    pub(crate) works: Arc<OperatorWorks>,
    pub(crate) machine: RankMachine<'a>,
}

impl<'a> KernelFacts<'a> {
    pub(crate) fn new(trace: &'a RankTrace, options: &'a Options) -> Self {
        Self { trace, works: OperatorWorks::of(trace), machine: RankMachine::new(trace, &options.peaks) }
    }
}

/// Kernels that a repair is about, by their place, with what each takes afterwards, ns; `None` if not known.
pub(crate) type KernelsAfter = Vec<(usize, Option<Ns>)>;

/// Kernels of which something is true, by their place, with what each takes after a repair.
pub(crate) fn chosen(
    kernels: &[ComputeKernel],
    mut repair: impl FnMut(&ComputeKernel) -> Option<Option<Ns>>,
) -> KernelsAfter {
    kernels.iter().enumerate().filter_map(|(i, k)| Some((i, repair(k)?))).collect()
}

/// Time for an amount at a rate per second, ns; `None` if it is longer than any kernel.
pub(crate) fn at_rate(amount: u64, per_second: f64) -> Option<Ns> {
    let ns = amount as f64 / per_second * 1e9;
    (ns < i64::MAX as f64).then_some(ns as Ns)
}

#[cfg(test)]
mod tests {
    use super::at_rate;

    #[test]
    fn amounts_take_time_at_a_rate() {
        assert_eq!([at_rate(1_000_000, 1e12), at_rate(u64::MAX, 1e-9)], [Some(1_000), None]);
    }
}

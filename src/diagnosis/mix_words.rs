//! The numbers of a cause in the mix of kernels.

use crate::context::Context;
use hta_base::units::{Ns, fmt_pct};

/// What kernels take after a repair.
#[derive(Debug, Clone, Copy)]
pub(crate) enum NewTime {
    /// Share of what they take now, percent.
    Known(f64),
    /// So many times as fast.
    Assumed(f64),
}

pub(crate) struct MixWords<'a> {
    pub(crate) context: &'a Context<'a>,
    /// Compute time of all devices, ns.
    pub(crate) compute: Ns,
    /// Of the compute time, percent.
    pub(crate) share_pct: f64,
    pub(crate) count: u64,
    pub(crate) new_time: NewTime,
}

impl MixWords<'_> {
    pub(crate) fn share(&self) -> String {
        format!("{} of the compute", fmt_pct(Some(self.share_pct)))
    }

    /// What the kernels take after the repair; if it is known, in the words of the cause.
    pub(crate) fn after(&self, known: &str) -> String {
        match self.new_time {
            NewTime::Known(pct) => format!("; {known} {} as long as now", fmt_pct(Some(pct))),
            NewTime::Assumed(factor) => {
                format!("; the saving assumes that these kernels become {factor} times as fast")
            }
        }
    }
}

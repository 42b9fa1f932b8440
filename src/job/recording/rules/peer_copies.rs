//! Copies between devices beside barriers of symmetric memory take 5 % of the time of devices or more: ranks
//! exchange by copy engines (asynchronous tensor parallelism, all-gathers that use no multiprocessor). These
//! copies count as memory, so that communication, its overlap and its transfer are bounds.

use crate::recording::capability::{Capability, Grade};
use crate::recording::limit::Limit;
use crate::recording::rules::Recorded;
use hta_base::units::{Ns, fmt_ns, fmt_pct, percent};

pub const NAME: &str = "peer_copies";

/// Share of the time of devices, percent.
const LEAST_PCT: f64 = 5.0;

pub fn find(recorded: &Recorded) -> Vec<Limit> {
    let of = || recorded.job.parts.iter().map(|p| &p.tokens);
    let copies: Ns = of().filter(|t| t.has_symmetric_memory).map(|t| t.peer_copies).sum();
    let gpu: Ns = of().map(|t| t.gpu).sum();
    let Some(share) = percent(copies, gpu).filter(|p| *p >= LEAST_PCT) else { return Vec::new() };
    let share = fmt_pct(Some(share));
    vec![Limit {
        rank: None,
        capability: Capability::Transfer,
        grade: Grade::AtMost,
        rule: NAME,
        sentence: format!(
            "exchanged by copy engines: {} ({share} of the device's time), not in communication or overlap",
            fmt_ns(copies)
        ),
        measured: share,
        limit: fmt_pct(Some(LEAST_PCT)),
        next: "look at `hta copies` for these exchanges".to_string(),
    }]
}

//! Fewer than 100 GPU activities are recorded of every rank: too few for a statement about a job.

use crate::facts::vendor::Vendor;
use crate::recording::capability::{Capability, Grade};
use crate::recording::facts::NOT_RECORDED;
use crate::recording::limit::Limit;
use crate::recording::rules::Recorded;
use crate::units::{fmt_count, fmt_ns};

/// Fewest GPU activities.
const LEAST: u64 = 100;

pub fn find(recorded: &Recorded) -> Vec<Limit> {
    let most = recorded.ranks.iter().max_by_key(|r| r.activity_count);
    let Some(most) =
        most.filter(|r| r.activity_count < LEAST && r.vendor != Vendor::Host.name() && r.device_state != NOT_RECORDED)
    else {
        return Vec::new();
    };
    let count = fmt_count(most.activity_count);
    let limit = Limit {
        rank: None,
        capability: Capability::Idle,
        grade: Grade::Withheld,
        rule: "too_short",
        measured: count.clone(),
        limit: LEAST.to_string(),
        sentence: format!("too short: {count} GPU activities, {} of GPU time", fmt_ns(most.gpu_sum_ns)),
        next: "record again, and start the profiler before the work is launched; check that no other tool uses the \
               device's tracing at the same time"
            .to_string(),
    };
    use Capability::{DeviceTime, Host, Idle, Launch, Work};
    limit.of_all(&[DeviceTime, Idle, Host, Launch, Work])
}

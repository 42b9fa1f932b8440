//! What stands out of the queues of all ranks.

use crate::api::{Certainty, Observation, Partial};
use crate::population::{SelectedRows, groups, several_devices};
use crate::queue::{DeviceQueues, QueueStats};
use hta_base::units::{Ns, fmt_count, fmt_ns, fmt_pct, percent};
use hta_base::wording::counts::capital;
use std::cmp::Reverse;

/// Smallest share of the window that blocked launch calls must take for an observation, percent.
const BLOCKED_FROM_PCT: f64 = 1.0;

/// A full queue blocks the host if calls that find it full take at least this many times as long as others.
const BLOCKED_CALLS_LONGER: i128 = 2;

/// A device may be launch-bound if kernels run for less than this share of time, percent,
const KERNELS_BELOW_PCT: f64 = 50.0;

/// and at least this share of launches finds an empty queue, percent.
const EMPTY_FROM_PCT: f64 = 50.0;

/// The rank whose host waits longest for full queues, and the one that waits most for launches.
pub fn observations(partials: &[Partial], full: u64) -> Vec<Observation> {
    let devices = groups::<DeviceQueues>(partials);
    let several = several_devices(&devices);
    let mut observations = Vec::new();
    let blocked = devices.iter().max_by_key(|g| (g.mean(|t| t.blocked_call_ns), Reverse(g.rank)));
    observations.extend(blocked.and_then(|g| blocked_host(g, several, full)));
    let bound = devices.iter().filter(|g| is_launch_bound(g));
    let bound_count = bound.clone().count();
    let worst = bound.max_by_key(|g| (g.mean(|t| t.idle_ns), Reverse(g.rank)));
    observations.extend(worst.and_then(|g| launch_bound(g, several, bound_count, devices.len())));
    observations
}

/// Mean duration of calls, ns; `None` without calls.
fn mean_call(ns: Ns, count: Ns) -> Option<Ns> {
    (count > 0).then(|| ns / count)
}

/// The observation that the host waited for a full queue: calls that found it full took longer than others.
fn blocked_host(g: &SelectedRows<DeviceQueues>, several: bool, full: u64) -> Option<Observation> {
    let cost = g.mean(|t| t.blocked_call_ns);
    let share = g.percent(|t| t.blocked_call_ns).filter(|s| *s >= BLOCKED_FROM_PCT)?;
    let (held_count, held_ns) = (g.sum(|t| t.full_call_count), g.sum(|t| t.full_call_ns));
    let (other_count, other_ns) = (g.sum(|t| t.launch_count) - held_count, g.sum(|t| t.other_call_ns));
    let held = mean_call(held_ns, held_count)?;
    let other = mean_call(other_ns, other_count)?;
    if i128::from(held) < BLOCKED_CALLS_LONGER * i128::from(other) {
        return None;
    }
    Some(Observation {
        analysis: "queue",
        ranks: vec![g.rank],
        steps: Vec::new(),
        cost_ns_per_step: cost,
        share_of_step: Some(share / 100.0),
        certainty: Certainty::Inferred,
        sentence: format!(
            "{}: the host spends {} {} ({}) in launch calls while {} or more launches wait; such a call \
             takes {}, others take {}. The device has work; what the thread does besides launching (data, \
             logging) comes late: launch less at once with CUDA graphs or fused kernels",
            capital(&g.who(several)),
            fmt_ns(cost),
            g.per(),
            fmt_pct(Some(share)),
            fmt_count(full),
            fmt_ns(held),
            fmt_ns(other),
        ),
        table: QueueStats::SPEC.name,
    })
}

fn is_launch_bound(g: &SelectedRows<DeviceQueues>) -> bool {
    let found_empty = percent(g.sum(|t| t.empty_at_launch_count), g.sum(|t| t.launch_count));
    g.percent(|t| t.kernel_ns).is_some_and(|s| s < KERNELS_BELOW_PCT)
        && found_empty.is_some_and(|s| s > EMPTY_FROM_PCT)
}

/// The observation that the device waits for launches more than it runs.
fn launch_bound(
    g: &SelectedRows<DeviceQueues>,
    several: bool,
    bound: usize,
    of: usize,
) -> Option<Observation> {
    let launches = g.sum(|t| t.launch_count);
    let idle = g.percent(|t| t.idle_ns)?;
    let also = match bound {
        1 => String::new(),
        n => format!(", the most idle of {n} such (of {of})"),
    };
    Some(Observation {
        analysis: "queue",
        ranks: vec![g.rank],
        steps: Vec::new(),
        cost_ns_per_step: g.mean(|t| t.idle_ns),
        share_of_step: Some(idle / 100.0),
        certainty: Certainty::Inferred,
        sentence: format!(
            "{} is launch bound{also}: {} of its {} launches found no other waiting on their stream, and \
             kernels run {} of the time ({} idle {}). CUDA graphs, torch.compile or larger batches give the \
             device more work per launch; first remove what else delays the host (`hta idle`)",
            capital(&g.who(several)),
            fmt_pct(percent(g.sum(|t| t.empty_at_launch_count), launches)),
            fmt_count(launches as u64),
            fmt_pct(g.percent(|t| t.kernel_ns)),
            fmt_ns(g.mean(|t| t.idle_ns)),
            g.per(),
        ),
        table: QueueStats::SPEC.name,
    })
}

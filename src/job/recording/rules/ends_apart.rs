//! Members of a collective in which each waits for all others end apart, by more than 1 ms and a tenth of the
//! longest call. One of the times is wrong, so that the collective counts neither as transfer nor for
//! bandwidth. If that is so of more than 5 % of the collectives, what is said of transfers is a bound. If
//! they end apart by nearly the same time, and all until some moment, or from it on, a clock jumped while
//! recording: then what is said of late ranks is a bound, too.

use crate::Job;
use crate::recording::capability::{Capability, Grade};
use crate::recording::limit::Limit;
use crate::recording::rules::Recorded;
use hta_base::units::{Ns, fmt_ns};
use hta_base::wording::counts::plural;
use hta_trace::clock_behind::are_steady;
use std::collections::BTreeSet;

/// Share of collectives, percent.
const MOST_PCT: usize = 5;

pub fn find(recorded: &Recorded) -> Vec<Limit> {
    let job = recorded.job;
    let Some(farthest) = job.strays.iter().max_by_key(|s| s.apart.abs()) else { return Vec::new() };
    let all = job.instances().iter().filter(|i| i.is_synchronous() && i.len() > 1).count();
    if job.strays.len() * 100 <= all * MOST_PCT {
        return Vec::new();
    }
    let count = plural(job.strays.len(), "collective");
    let mut by: Vec<Ns> = job.strays.iter().map(|s| s.apart.abs()).collect();
    by.sort_unstable();
    let is_jump = are_steady(&by) && is_from_one_moment(job);
    let jump = if is_jump { ", mostly by the same time, as after a jump of a clock" } else { "" };
    let limit = Limit {
        rank: None,
        capability: Capability::Transfer,
        grade: Grade::AtMost,
        rule: "ends_apart",
        measured: format!("{count}, {}", fmt_ns(farthest.apart.abs())),
        limit: format!("{MOST_PCT} % of the collectives"),
        sentence: format!("members of {count} end apart{jump}: {}", job.stray_in_words(farthest)),
        next: "check the clock of this rank and the version of its profiler".to_string(),
    };
    let jumped =
        if is_jump { &[Capability::Transfer, Capability::Ranks][..] } else { &[Capability::Transfer] };
    limit.of_all(jumped)
}

/// Whether all members that end apart do so until some moment, or from it on, and the others of their groups
/// on its other side.
fn is_from_one_moment(job: &Job) -> bool {
    let group = |id: u32| job.instances().get(id as usize).map(|i| i.group);
    let groups: BTreeSet<u32> = job.strays.iter().filter_map(|s| group(s.instance)).collect();
    let of_groups = (0u32..)
        .zip(job.instances())
        .filter(|(_, i)| i.kind.is_synchronous() && i.len() > 1 && groups.contains(&i.group));
    let end = |i| job.members(i).iter().map(|m| job.call(*m).span.end).min();
    let mut ends: Vec<_> = of_groups.map(|(id, i)| (end(i), job.is_stray(id))).collect();
    ends.sort_unstable();
    ends.windows(2).filter(|w| matches!(w, [(_, a), (_, b)] if a != b)).count() == 1
}

//! More than 5 % of the collectives between the first and the last one that a whole group recorded lack a
//! member, although all ranks of the group were read: kernels of these calls were lost. In such steps nothing
//! is known of who waits for whom, so that what is said of late ranks is a bound.

use crate::recording::capability::{Capability, Grade};
use crate::recording::limit::Limit;
use crate::recording::rules::Recorded;
use hta_base::units::Ns;
use hta_base::wording::counts::plural;
use std::collections::BTreeMap;

/// Share of collectives, percent.
const MOST_PCT: usize = 5;

pub fn find(recorded: &Recorded) -> Vec<Limit> {
    let job = recorded.job;
    // By group, when each begins, and whether all members recorded it.
    let mut groups: BTreeMap<u32, Vec<(Ns, bool)>> = BTreeMap::new();
    for i in job.instances().iter().filter(|i| i.is_synchronous() && i.expected > 1) {
        let starts = job.members(i).iter().map(|m| job.aligned_span(m.part, job.call(*m).span).start);
        groups.entry(i.group).or_default().extend(starts.min().map(|at| (at, i.is_complete())));
    }
    let (mut all, mut lacking) = (0, 0);
    for of_group in groups.values_mut() {
        of_group.sort_unstable();
        let Some(first) = of_group.iter().position(|(_, is_complete)| *is_complete) else { continue };
        let last = of_group.iter().rposition(|(_, is_complete)| *is_complete).unwrap_or(first);
        let inside = of_group.get(first..=last).unwrap_or_default();
        all += inside.len();
        lacking += inside.iter().filter(|(_, is_complete)| !is_complete).count();
    }
    if lacking * 100 <= all * MOST_PCT {
        return Vec::new();
    }
    let count = format!("{lacking} of {}", plural(all, "collective"));
    let limit = Limit {
        rank: None,
        capability: Capability::Ranks,
        grade: Grade::AtMost,
        rule: "missing_calls",
        measured: count.clone(),
        limit: format!("{MOST_PCT} % of the collectives"),
        sentence: format!("of {count} not all members were recorded"),
        next: "record again for a shorter time, so that no kernel is lost".to_string(),
    };
    limit.of_all(&[Capability::Ranks, Capability::Transfer])
}

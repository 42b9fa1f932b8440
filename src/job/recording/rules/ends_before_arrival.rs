//! More than 5 % of the collectives in which each member waits for all others end on a member before the last
//! one has arrived, although the clocks were corrected where the ends of collectives show by how much. The
//! clocks of ranks contradict each other, so that nothing is told about who waits for whom. Where the
//! contradiction is small beside the length of these collectives, it is a bound.

use crate::Job;
use crate::recording::capability::{Capability, Grade};
use crate::recording::limit::Limit;
use crate::recording::rules::Recorded;
use hta_base::order_statistics::median;
use hta_base::units::{Ns, fmt_ns};
use hta_base::wording::counts::plural;

/// Share of collectives, percent.
const MOST_PCT: usize = 5;

/// Times of one host may disagree by this much, ns.
const SLACK: Ns = 20_000;

/// What is no more than this share of the longest call of a collective is small, percent.
const SMALL_PCT: Ns = 10;

pub fn find(recorded: &Recorded) -> Vec<Limit> {
    let job = recorded.job;
    let all = || (0u32..).zip(job.instances()).filter(|(_, i)| i.is_synchronous() && i.len() > 1);
    let early: Vec<Contradiction> = all().filter_map(|(id, _)| Contradiction::of(job, id)).collect();
    let most = early.iter().map(|c| c.by).max().unwrap_or(0);
    if early.len() * 100 <= all().count() * MOST_PCT {
        return Vec::new();
    }
    let small = early.iter().filter(|c| c.is_small()).count();
    let grade = if small * 2 > early.len() { Grade::AtMost } else { Grade::Withheld };
    let by = median(&mut early.iter().map(|c| c.by).collect::<Vec<Ns>>()).unwrap_or(0);
    let count = format!("{} of {}", early.len(), plural(all().count(), "collective"));
    let limit = Limit {
        rank: None,
        capability: Capability::Ranks,
        grade,
        rule: "ends_before_arrival",
        measured: format!("{count}, {} mostly, {} at most", fmt_ns(by), fmt_ns(most)),
        limit: format!("{MOST_PCT} % of the collectives"),
        sentence: format!(
            "the clocks of ranks contradict each other: {count} end on a rank before the last one arrives, \
             mostly by {}",
            fmt_ns(by)
        ),
        next: "synchronize the clocks of the hosts, and record 8 collectives or more".to_string(),
    };
    limit.of_all(&[Capability::Ranks, Capability::Transfer])
}

/// A collective that ends on a member before the last one has arrived.
struct Contradiction {
    by: Ns,
    /// The longest call.
    longest: Ns,
}

impl Contradiction {
    /// Whether it is small beside the length of the collective.
    fn is_small(&self) -> bool {
        self.by.saturating_mul(100) <= self.longest.saturating_mul(SMALL_PCT)
    }

    fn of(job: &Job, id: u32) -> Option<Self> {
        let instance = job.instances().get(id as usize)?;
        if !job.arrivals(id as usize).is_impossible || job.is_stray(id) {
            return None;
        }
        let spans = || job.members(instance).iter().map(|m| job.aligned_span(m.part, job.call(*m).span));
        let by = spans().map(|s| s.start).max()?.saturating_sub(spans().map(|s| s.end).min()?);
        let found = Self { by, longest: spans().map(|s| s.len()).max()? };
        (by > SLACK || by > 0 && !found.is_small()).then_some(found)
    }
}

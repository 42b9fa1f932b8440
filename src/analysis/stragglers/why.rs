//! The causes of each straggler: differences of its windows from the typical rank's, summed over its steps.

use crate::analysis::stragglers::judge::{Judgement, Straggler};
use crate::job::Job;
use crate::job::cause::{Cause, Difference, differences};
use crate::job::delay::{Chain, StepKey};
use crate::trace::strings::StrId;
use crate::units::Ns;
use std::collections::BTreeMap;

/// A part's differences in one step.
pub struct StepDifferences {
    pub part: u32,
    pub step: Option<StepKey>,
    /// The call before which it was late.
    pub call: u32,
    pub group: u32,
    pub typical: u32,
    pub differences: Vec<Difference>,
}

/// Differences of all relevant chains.
pub fn explain(job: &Job, judged: &Judgement) -> Vec<StepDifferences> {
    let mut out = Vec::new();
    for c in &judged.chains {
        for (part, late) in &c.lates {
            if !counts(judged, c, *part) {
                continue;
            }
            let Some(typical) = late.typical else { continue };
            out.push(StepDifferences {
                part: *part,
                step: c.step,
                call: late.member.call,
                group: c.group,
                typical: typical.part,
                differences: differences(job, &judged.windows, late),
            });
        }
    }
    out
}

/// Whether to explain a part's window in a chain: it delayed others, or was late behind one that did.
fn counts(judged: &Judgement, c: &Chain, part: u32) -> bool {
    c.is_delayed_by(part)
        || judged.stragglers.iter().any(|s| {
            s.parts.contains(&part)
                && c.step.is_some_and(|k| s.steps.iter().any(|(x, who)| *x == k && who.contains(&part)))
        })
}

/// A cause of a straggler, over all its steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CauseSum {
    pub cause: Cause,
    pub name: StrId,
    pub detail: StrId,
    pub origin: Option<u32>,
    pub own: Ns,
    pub typical: Ns,
    pub own_count: i64,
    pub typical_count: i64,
}

impl CauseSum {
    pub fn delta(&self) -> Ns {
        self.own - self.typical
    }
}

/// Causes of a straggler, the largest first, and the sum of all differences, ns.
pub fn reasons(straggler: &Straggler, explained: &[StepDifferences]) -> (Vec<CauseSum>, Ns) {
    let is_late = |e: &StepDifferences| {
        e.step.is_some_and(|k| straggler.steps.iter().any(|(x, who)| *x == k && who.contains(&e.part)))
    };
    type Key = (Cause, StrId, StrId, Option<u32>);
    let mut sums: BTreeMap<Key, CauseSum> = BTreeMap::new();
    let mut total = 0;
    for d in explained.iter().filter(|e| straggler.parts.contains(&e.part) && is_late(e)).flat_map(|e| &e.differences) {
        // Merge longer events and additional events of the same name, which may vary between steps.
        let cause = if let Cause::MoreHost(what) = d.cause { Cause::Host(what) } else { d.cause };
        let r = sums.entry((cause, d.name, d.detail, d.origin)).or_insert(CauseSum {
            cause: d.cause,
            name: d.name,
            detail: d.detail,
            origin: d.origin,
            own: 0,
            typical: 0,
            own_count: 0,
            typical_count: 0,
        });
        r.own += d.own;
        r.typical += d.typical;
        r.own_count += d.own_count;
        r.typical_count += d.typical_count;
        total += d.delta();
    }
    let mut all: Vec<CauseSum> = sums.into_values().collect();
    all.sort_by_key(|r| (std::cmp::Reverse(r.delta()), r.cause, r.name, r.detail));
    (all, total)
}

//! The tail of a rollout: the time at its end in which few engines still generate.
//!
//! ```text
//!   engine 0   [rollout  ]
//!   engine 1   [rollout   ]
//!   engine 2   [rollout ................]
//!   tail                  |-------------|      one of three works
//! ```

use crate::joined::Job;
use hta_base::units::{Ns, Span};
use hta_facts::role_phases::RolePhase;
use hta_trace::role_phase::LoopPhase;
use std::collections::{BTreeMap, BTreeSet};

/// Share of the engines below which the rollout is in its tail, percent. One engine alone is one always.
const TAIL_PCT: usize = 25;

/// The tail of the rollout of a period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tail {
    pub span: Span,
    /// All engines, and (next field) those that work in it.
    pub engines: u32,
    pub working: u32,
}

/// The tail of a rollout, from the phases of each part in a period; `None` if there is one engine, or no
/// rollout.
pub(crate) fn tail(job: &Job, phases: &[(u32, Vec<RolePhase>)]) -> Option<Tail> {
    let rollouts: Vec<(u32, Vec<Span>)> = phases
        .iter()
        .map(|(part, of)| {
            let own = of.iter().filter(|p| p.phase == LoopPhase::Rollout);
            (*part, own.map(|p| p.span).collect::<Vec<_>>())
        })
        .filter(|(_, of)| !of.is_empty())
        .collect();
    of_engines(&engines(job, rollouts))
}

/// The rollouts of each engine: of ranks that share a collective meanwhile.
fn engines(job: &Job, rollouts: Vec<(u32, Vec<Span>)>) -> Vec<Vec<Span>> {
    let mut engine: BTreeMap<u32, u32> = rollouts.iter().map(|(part, _)| (*part, *part)).collect();
    let spans: BTreeMap<u32, &Vec<Span>> = rollouts.iter().map(|(part, of)| (*part, of)).collect();
    for instance in job.instances() {
        let is_in_rollout = |m: &crate::matching::Member| {
            let start = job.aligned(m.part, job.call(*m).span.start);
            spans.get(&m.part).is_some_and(|of| of.iter().any(|s| s.holds(start)))
        };
        let together: BTreeSet<u32> =
            job.members(instance).iter().filter(|m| is_in_rollout(m)).map(|m| m.part).collect();
        let ids: BTreeSet<u32> = together.iter().filter_map(|part| engine.get(part).copied()).collect();
        if let Some(lowest) = ids.first().copied().filter(|_| ids.len() > 1) {
            engine.values_mut().filter(|id| ids.contains(id)).for_each(|id| *id = lowest);
        }
    }
    let mut by_engine: BTreeMap<u32, Vec<Span>> = BTreeMap::new();
    for (part, of) in rollouts {
        by_engine.entry(engine.get(&part).copied().unwrap_or(part)).or_default().extend(of);
    }
    by_engine.into_values().collect()
}

fn of_engines(engines: &[Vec<Span>]) -> Option<Tail> {
    if engines.len() < 2 {
        return None;
    }
    let mut times: Vec<Ns> = engines.iter().flatten().flat_map(|s| [s.start, s.end]).collect();
    times.sort_unstable();
    times.dedup();
    let end = times.last().copied()?;
    let (mut start, mut working) = (end, 0);
    for pair in times.windows(2).rev() {
        let [from, _] = pair else { continue };
        let count = engines.iter().filter(|of| of.iter().any(|s| s.holds(*from))).count();
        let is_few = count == 1 || count * 100 < engines.len() * TAIL_PCT;
        if count == 0 || !is_few {
            break;
        }
        (start, working) = (*from, working.max(count));
    }
    let tail = Tail { span: Span::new(start, end), engines: engines.len() as u32, working: working as u32 };
    (start < end).then_some(tail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail_of(engines: &[(Ns, Ns)]) -> Option<(Ns, Ns, u32)> {
        let engines: Vec<Vec<Span>> = engines.iter().map(|(a, b)| vec![Span::new(*a, *b)]).collect();
        of_engines(&engines).map(|t| (t.span.start, t.span.end, t.working))
    }

    #[test]
    fn few_engines_at_the_end_are_the_tail() {
        assert_eq!(tail_of(&[(0, 10), (0, 30)]), Some((10, 30, 1)));
        assert_eq!(tail_of(&[(0, 10), (0, 10)]), None);
        assert_eq!(tail_of(&[(0, 30)]), None, "one engine has no others to wait for");
        // Two of nine are less than a quarter, three are not.
        let mut nine = vec![(0, 10); 6];
        nine.extend([(0, 20), (0, 25), (0, 30)]);
        assert_eq!(tail_of(&nine), Some((20, 30, 2)));
        assert_eq!(tail_of(&[(0, 30), (5, 10)]), Some((10, 30, 1)));
    }
}

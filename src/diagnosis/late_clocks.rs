//! Ranks with a lower clock as stragglers: those that no test of lateness names, because they lose less than
//! such a test can tell from chance, because most ranks are so, or because slower ones hide them. Here the
//! clocks tell it.

use crate::clocks::{JobClocks, SlowerClock};
use hta_analysis::stragglers::{Judgement, NoChance, Pattern, Straggler};
use hta_base::units::Ns;
use hta_job::Job;
use hta_job::delay::StepKey;
use hta_job::replay::{Removed, ReplayedJob};
use std::collections::{BTreeMap, BTreeSet};

/// By step the parts that are slower, in order.
type SlowerSteps = BTreeMap<StepKey, Vec<u32>>;

fn steps_of(slower: &[&SlowerClock], judged: &Judgement) -> SlowerSteps {
    let mut steps = SlowerSteps::new();
    for s in slower {
        for key in s.steps.iter().filter(|key| judged.length.keys.contains(key)) {
            steps.entry(*key).or_default().push(s.place.0);
        }
    }
    steps
}

/// The ranks with a lower clock that are not named: one straggler for each model of devices.
pub(super) fn unnamed(
    job: &Job,
    clocks: &JobClocks,
    is_named: impl Fn(u32) -> bool,
    judged: &Judgement,
) -> Vec<Straggler> {
    let mut by_model: BTreeMap<Option<&str>, Vec<&SlowerClock>> = BTreeMap::new();
    for s in clocks.slower.iter().filter(|s| !is_named(s.place.0)) {
        by_model.entry(clocks.recorded.model(s.place)).or_default().push(s);
    }
    by_model.into_values().filter_map(|of| straggler(job, &of, judged)).collect()
}

fn straggler(job: &Job, slower: &[&SlowerClock], judged: &Judgement) -> Option<Straggler> {
    let are_most = slower.iter().any(|s| s.are_most);
    let steps = steps_of(slower, judged);
    let parts: BTreeSet<u32> = steps.values().flatten().copied().collect();
    let replayed = ReplayedJob::of(job).filter(|r| r.is_reliable())?;
    // The usual time of a job of which most ranks are slower is that of the slower ones.
    let gain = match are_most {
        true => gain_at_higher_clock(job, &replayed, slower, judged),
        false => replayed.gain_of(is_slower(&steps), &judged.length.keys),
    };
    (gain > 0).then(|| Straggler {
        pattern: if parts.len() == 1 { Pattern::Persistent } else { Pattern::Together },
        parts: parts.into_iter().collect(),
        steps: steps.into_iter().collect(),
        gain,
        excess: 0,
        behind: Vec::new(),
        is_brief: false,
        is_beside_tokens: false,
        evidence: NoChance::LowerClock,
    })
}

fn is_slower(steps: &SlowerSteps) -> impl Fn(u32, Option<StepKey>) -> bool {
    |part, step| {
        step.is_some_and(|key| steps.get(&key).is_some_and(|parts| parts.binary_search(&part).is_ok()))
    }
}

/// A straggler that is late by its clock, with the ranks that have a lower clock, too, and are not named:
/// they make nobody wait now, but they would once it is repaired. The gain is that of repairing all of
/// them. `None` if there are no such ranks.
pub(super) fn with_unnamed(
    job: &Job,
    clocks: &JobClocks,
    s: &Straggler,
    is_named: impl Fn(u32) -> bool,
    judged: &Judgement,
) -> Option<Straggler> {
    let is_own = |of: &SlowerClock| s.parts.contains(&of.place.0);
    let models: BTreeSet<Option<&str>> =
        clocks.slower.iter().filter(|of| is_own(of)).map(|of| clocks.recorded.model(of.place)).collect();
    let is_other = |of: &&SlowerClock| {
        !is_own(of) && !is_named(of.place.0) && models.contains(&clocks.recorded.model(of.place))
    };
    let others: Vec<&SlowerClock> = clocks.slower.iter().filter(is_other).collect();
    let more = steps_of(&others, judged);
    if more.is_empty() || !matches!(s.pattern, Pattern::Persistent | Pattern::Together) {
        return None;
    }
    let mut steps: BTreeMap<StepKey, BTreeSet<u32>> = BTreeMap::new();
    for (key, parts) in s.steps.iter().map(|(key, parts)| (key, parts)).chain(&more) {
        steps.entry(*key).or_default().extend(parts);
    }
    let steps: SlowerSteps =
        steps.into_iter().map(|(key, parts)| (key, parts.into_iter().collect())).collect();
    let parts: BTreeSet<u32> = steps.values().flatten().copied().collect();
    let all: Vec<&SlowerClock> = clocks.slower.iter().filter(|of| parts.contains(&of.place.0)).collect();
    let replayed = ReplayedJob::of(job).filter(|r| r.is_reliable())?;
    let usual = replayed.gain_of(is_slower(&steps), &judged.length.keys);
    let gain = s.gain.max(usual).max(gain_at_higher_clock(job, &replayed, &all, judged));
    Some(Straggler {
        pattern: Pattern::Together,
        parts: parts.into_iter().collect(),
        steps: steps.into_iter().collect(),
        gain,
        ..s.clone()
    })
}

/// The gain if the kernels of slower devices that follow the clock took as long as on the faster ones, ns.
fn gain_at_higher_clock(
    job: &Job,
    replayed: &ReplayedJob,
    slower: &[&SlowerClock],
    judged: &Judgement,
) -> Ns {
    let (replay, mut removed) = (&replayed.replay, Removed::default());
    for s in slower {
        let (part, device) = s.place;
        let is_here = |node: &usize| {
            let lane = job.parts.get(part as usize).and_then(|p| p.lanes.get(replay.lane(*node) as usize));
            lane.is_some_and(|lane| lane.device == device)
        };
        let is_then = |node: &usize| replay.step(*node).is_some_and(|key| s.steps.contains(&key));
        for node in replay.of_part(part).filter(is_here).filter(is_then) {
            removed.busy(node, replay.local_uses(job, node).map(|e| s.excess(&e)).sum());
        }
        if let Some(last) = replay.last_of(part).filter(is_here).filter(is_then) {
            removed.tail(last, replay.tail_uses(job, last).map(|e| s.excess(&e)).sum());
        }
    }
    replayed.gain_without(&removed, &judged.length.keys)
}

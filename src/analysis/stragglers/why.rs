//! The causes of each straggler: differences of its windows from the typical rank's, summed over its steps.

use crate::stragglers::job_chains::JobChains;
use crate::stragglers::straggler::{Judgement, Pattern, Straggler};
use hta_base::units::{Ns, Span};
use hta_job::cause::{
    DelayCause, Difference, WindowPair, WindowPairs, common_factor, differences, differences_of,
};
use hta_job::delay::{Chain, StepKey};
use hta_job::replay::{Replay, ReplayedJob};
use hta_job::window::{LocalWindow, Windows};
use hta_job::{Instance, Job, Member};
use hta_trace::strings::StrId;
use std::collections::BTreeMap;

/// A part's differences in one step.
pub struct StepDifferences {
    pub(crate) part: u32,
    pub(crate) step: Option<StepKey>,
    /// The call before which it was late.
    pub(crate) call: u32,
    pub(crate) group: u32,
    pub(crate) typical: u32,
    pub(crate) differences: Vec<Difference>,
}

/// Differences of all relevant chains.
pub(crate) fn explain(job: &Job, judged: &Judgement, chains: &JobChains) -> Vec<StepDifferences> {
    let mut out = Vec::new();
    for c in &chains.all {
        for late in &c.lates {
            let part = late.member.part;
            if !counts(judged, c, part) {
                continue;
            }
            out.push(StepDifferences {
                part,
                step: c.step,
                call: late.member.call,
                group: c.group,
                typical: late.typical.part,
                differences: differences(job, &chains.windows, late),
            });
        }
    }
    out
}

/// Replaces the differences of stragglers whose kernels are slower or others, and of those that no chain
/// shows, by those of all their work: one call has too few kernels to tell a slow device from a slow kernel.
/// Where it seems to run other kernels, whole steps are compared: the time before a call holds more kernels
/// on a rank that never waits than on one that did so just before it. Where calls were lost, only the work
/// between the same two calls is.
pub(crate) fn of_all_work(
    job: &Job,
    judged: &Judgement,
    replayed: &ReplayedJob,
    why: &mut Vec<StepDifferences>,
) {
    use DelayCause::{ExpertTime, OtherKernels, SlowDevice, SlowKernel};
    let is_of_kernels = |c: DelayCause| matches!(c, SlowKernel | SlowDevice | OtherKernels | ExpertTime);
    let is_short = |s: &&Straggler| {
        let (causes, total) = reasons(s, why);
        let explained: Ns = causes.iter().map(|c| c.delta()).filter(|d| *d > 0).sum();
        let most = causes.first().filter(|c| c.delta() * 2 >= total);
        most.is_none_or(|c| is_of_kernels(c.cause)) || explained * 2 < s.excess
    };
    let on_device = |s: &&Straggler| {
        let is_gpu = |p: &u32| job.parts.get(*p as usize).is_some_and(|p| p.lanes.iter().any(|l| l.is_gpu));
        s.pattern != Pattern::Rotating && s.parts.iter().all(is_gpu)
    };
    let short: Vec<Straggler> =
        judged.stragglers.iter().filter(on_device).filter(is_short).cloned().collect();
    if short.is_empty() {
        return;
    }
    let replay = &replayed.replay;
    let mut windows: Windows = job.parts.iter().map(|p| vec![None; p.calls.calls.len()]).collect();
    for i in 0..replay.node_count() {
        let slot = windows.get_mut(replay.part(i) as usize).and_then(|w| w.get_mut(replay.call(i) as usize));
        slot.into_iter().for_each(|w| *w = Some(replay.window(job, i)));
    }
    let (peers, are_lost) = (replay.peers(), has_lost_calls(job));
    for s in short {
        // By part and step: pairs of a segment and its typical peer.
        let mut pairs: BTreeMap<(u32, Option<StepKey>), WindowPairs> = BTreeMap::new();
        for i in (0..replay.node_count()).filter(|i| s.is_late(replay.part(*i), replay.step(*i))) {
            // Behind a lost call, the calls of a step have other places in it.
            let mut alike = match job.instance_of(replay.member(i)).filter(|_| are_lost) {
                Some(instance) => replay.members(instance).iter().map(|k| *k as usize).collect(),
                None => peers.get(&replay.peer_key(i)).cloned().unwrap_or_default(),
            };
            alike.retain(|k| replay.part(*k) != replay.part(i));
            alike.sort_by_key(|k| (replay.local(*k), replay.part(*k)));
            let Some(typical) = alike.get(alike.len() / 2).copied() else { continue };
            if are_lost && before(job, replay, i) != before(job, replay, typical) {
                continue;
            }
            let side = |k: usize| (replay.member(k), replay.window(job, k));
            pairs.entry((replay.part(i), replay.step(i))).or_default().push([side(i), side(typical)]);
        }
        let are_others = !are_lost && main_cause(&s, why) == Some(DelayCause::OtherKernels);
        if are_others {
            let steps = pairs
                .into_iter()
                .filter_map(|(at, of)| Some((at, vec![whole_step(job, replay, at.1, &of)?])));
            pairs = steps.collect();
        }
        why.retain(|d| !s.is_late(d.part, d.step));
        let factors = factors(job, &pairs);
        for ((part, step), pairs) in pairs {
            let Some([(last, _), (typical, _)]) = pairs.last().copied() else { continue };
            let local = job.call(last).shape.group;
            let Some(group) = job.matched.group_of(part, local) else { continue };
            let factor = factors.get(&part).copied().flatten();
            let mut differences = differences_of(job, &windows, &pairs, factor);
            // In a whole step the others wait for this rank; what remains is what it works.
            differences.retain(|d| !are_others || d.cause.is_own_work());
            why.push(StepDifferences {
                part,
                step,
                call: last.call,
                group,
                typical: typical.part,
                differences,
            });
        }
    }
}

/// By how much all kernels take longer, by part: one may be late for another reason than the others.
fn factors(job: &Job, pairs: &BTreeMap<(u32, Option<StepKey>), WindowPairs>) -> BTreeMap<u32, Option<f64>> {
    let mut of_parts: BTreeMap<u32, WindowPairs> = BTreeMap::new();
    for ((part, _), pairs) in pairs {
        of_parts.entry(*part).or_default().extend(pairs);
    }
    of_parts.iter().map(|(part, pairs)| (*part, common_factor(job, pairs))).collect()
}

/// Whether a rank lacks a call of its group between two that it has.
fn has_lost_calls(job: &Job) -> bool {
    let mut count: BTreeMap<u32, usize> = BTreeMap::new();
    // By group and part: place of the first and last instance among those of the group, and their number.
    let mut found: BTreeMap<(u32, u32), (usize, usize, usize)> = BTreeMap::new();
    let is_of_most = |i: &&Instance| i.kind.is_synchronous() && i.len() * 2 >= i.expected as usize;
    for i in job.instances().iter().filter(is_of_most) {
        let at = count.entry(i.group).or_default();
        for m in job.members(i) {
            let (_, last, n) = found.entry((i.group, m.part)).or_insert((*at, *at, 0));
            (*last, *n) = (*at, *n + 1);
        }
        *at += 1;
    }
    found.values().any(|(first, last, n)| last - first + 1 > *n)
}

/// The instance of the call of a rank before that of a node.
fn before(job: &Job, replay: &Replay, node: usize) -> Option<u32> {
    let earlier = node.checked_sub(1).filter(|k| replay.part(*k) == replay.part(node));
    earlier.and_then(|k| job.instance_of(replay.member(k)))
}

/// The windows of a rank and of the typical one of its last call, each from the start of its step.
fn whole_step(job: &Job, replay: &Replay, step: Option<StepKey>, pairs: &WindowPairs) -> Option<WindowPair> {
    let last = *pairs.last()?;
    let whole = |(m, w): (Member, LocalWindow)| {
        let mut nodes = replay.of_part(m.part).filter(|i| replay.step(*i) == step);
        let start = replay.window(job, nodes.next()?).span.start.min(w.span.start);
        Some((m, LocalWindow { span: Span::new(start, w.span.end), ..w }))
    };
    Some([whole(last[0])?, whole(last[1])?])
}

/// Whether to explain a part's window in a chain: it delayed others, or was late behind one that did.
fn counts(judged: &Judgement, c: &Chain, part: u32) -> bool {
    c.is_delayed_by(part)
        || judged.stragglers.iter().any(|s| {
            s.parts.contains(&part)
                && c.step.is_some_and(|k| s.steps.iter().any(|(x, who)| *x == k && who.contains(&part)))
        })
}

/// What differences are summed by: longer events and additional events of the same name, which may vary
/// between steps, are one. The name of what a host is behind by is known where its device idles under it.
fn merged(cause: DelayCause, name: StrId) -> (DelayCause, StrId) {
    match cause {
        DelayCause::HostBehind(_) => (cause, StrId::EMPTY),
        cause => (cause.whatever_count(), name),
    }
}

/// Causes of a straggler, the largest first, and the sum of all differences, ns.
pub fn reasons(straggler: &Straggler, explained: &[StepDifferences]) -> (Vec<Difference>, Ns) {
    let is_late = |e: &StepDifferences| {
        e.step.is_some_and(|k| straggler.steps.iter().any(|(x, who)| *x == k && who.contains(&e.part)))
    };
    type Key = (DelayCause, StrId, StrId, Option<u32>);
    let mut sums: BTreeMap<Key, Difference> = BTreeMap::new();
    let mut total = 0;
    for d in explained
        .iter()
        .filter(|e| straggler.parts.contains(&e.part) && is_late(e))
        .flat_map(|e| &e.differences)
        .filter(|d| !(straggler.is_beside_tokens && d.cause == DelayCause::MoreTokens))
    {
        let (cause, name) = merged(d.cause, d.name);
        let r = sums.entry((cause, name, d.detail, d.origin)).or_insert(Difference {
            own: 0,
            typical: 0,
            own_count: 0,
            typical_count: 0,
            ..*d
        });
        r.name = if r.name == StrId::EMPTY { d.name } else { r.name };
        r.own += d.own;
        r.typical += d.typical;
        r.own_count += d.own_count;
        r.typical_count += d.typical_count;
        total += d.delta();
    }
    let mut all: Vec<Difference> = sums.into_values().collect();
    all.sort_by_key(|r| (std::cmp::Reverse(r.delta()), r.cause, r.name, r.detail));
    (all, total)
}

impl Straggler {
    /// The same of some of its ranks.
    fn of_parts(&self, parts: &[u32]) -> Straggler {
        let own = |who: &Vec<u32>| who.iter().copied().filter(|p| parts.contains(p)).collect::<Vec<u32>>();
        let steps = self.steps.iter().map(|(step, who)| (*step, own(who)));
        let steps = steps.filter(|(_, who)| !who.is_empty()).collect();
        Straggler { parts: parts.to_vec(), steps, ..self.clone() }
    }

    /// Ranks that are late together by their reason, those with most of the delay first. Ranks that are late
    /// in turn are one.
    pub fn by_reason(&self, why: &[StepDifferences]) -> Vec<Straggler> {
        if self.pattern != Pattern::Together {
            return vec![self.clone()];
        }
        type Reason = Option<(DelayCause, StrId)>;
        let mut groups: BTreeMap<Reason, (Ns, Vec<u32>)> = BTreeMap::new();
        for part in &self.parts {
            let (causes, total) = reasons(&self.of_parts(&[*part]), why);
            let main = causes.first().filter(|c| c.delta() * 2 >= total).map(|c| merged(c.cause, c.name));
            let group = groups.entry(main).or_default();
            group.0 += total;
            group.1.push(*part);
        }
        let mut groups: Vec<(Ns, Vec<u32>)> = groups.into_values().collect();
        groups.sort_by_key(|(total, parts)| (std::cmp::Reverse(*total), parts.clone()));
        groups.iter().map(|(_, parts)| self.of_parts(parts)).collect()
    }
}

/// The cause of most of a straggler's excess.
pub fn main_cause(s: &Straggler, why: &[StepDifferences]) -> Option<DelayCause> {
    let (causes, total) = reasons(s, why);
    causes.first().filter(|c| c.delta() * 2 >= total).map(|c| c.cause)
}

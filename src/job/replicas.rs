//! Finds slow ranks in a pipeline by comparing each stage with the same stage of the other replicas.
//!
//! ```text
//!   pipeline A   stage 0  [f0][f1][f2]          [b0].[b1].[b2]       a receive waits for whatever the other end did
//!                stage 1      [f0][f1][f2][b0][b1][b2]               before, and most of it is the pipeline's bubble
//!   pipeline B   stage 0  [f0][f1][f2]             ...
//!                stage 1      [f0..][f1..][f2..][b0..][b1..][b2..]   slower than stage 1 of A at the same place
//! ```
//!
//! The difference between the arrivals at the two ends of a message does not show who is slow. So the local
//! time before each send and receive is compared with that of the same stage in other pipelines: the same
//! position among as many ranks that exchange messages, at the same place in the same sequence of kinds and
//! sizes. The groups are not asked: a pipeline may use one for each pair of stages, and the first of a pair
//! is another stage in each. Without replicas nothing is judged.
//!
//! The gain of repairing a rank in a step is limited to the sum of its excess local times, and to how much
//! later its pipeline ends than the others: from the start of the step to its last message, on each rank's
//! own clock.

use crate::chain::{Chain, Lateness, StepKey};
use crate::delay::{LocalTime, lateness, step_of};
use crate::joined::Job;
use crate::matching::Member;
use crate::pipeline_places::{PipelinePlace, PipelinePlaces};
use crate::window::{LocalWindow, Windows};
use hta_base::order_statistics::median_of_others;
use hta_base::units::Ns;
use hta_trace::collective::CollectiveKind;
use std::collections::{BTreeMap, BTreeSet};

/// Kinds and sizes of the messages of one rank in one step, in order.
type MessageSequence = Vec<(CollectiveKind, Option<i64>)>;

/// One rank's messages in one step.
struct StepMessages {
    part: u32,
    place: PipelinePlace,
    step: Option<StepKey>,
    sequence: MessageSequence,
    /// Calls, each with one of its instances.
    calls: Vec<(u32, u32)>,
}

/// Identifies the replicas of one stage in one step: role of the program, number of ranks of the pipeline,
/// position among them, step, and the sequence of messages.
type Stage<'j> = (Option<&'j str>, usize, usize, Option<StepKey>, MessageSequence);

/// A chain for each place of each rank that has replicas; the parts in `without` are ignored.
pub fn replica_chains(job: &Job, windows: &Windows, without: &BTreeSet<u32>) -> Vec<Chain> {
    let all = messages(job, without);
    let ends = pipeline_ends(job, &all);
    let mut stages: BTreeMap<Stage, Vec<&StepMessages>> = BTreeMap::new();
    for m in &all {
        let role = job.parts[m.part as usize].role_name();
        let PipelinePlace { size, position, .. } = m.place;
        stages.entry((role, size, position, m.step, m.sequence.clone())).or_default().push(m);
    }
    let mut out = Vec::new();
    for ((.., step, _), replicas) in stages.into_iter().filter(|(_, replicas)| replicas.len() > 1) {
        compare(job, windows, step, &replicas, &ends, &mut out);
    }
    out.sort_by_key(|c| (c.group, c.step, c.arrivals.first().copied()));
    out
}

/// All matched messages by rank and step, as they were submitted.
fn messages(job: &Job, without: &BTreeSet<u32>) -> Vec<StepMessages> {
    let places = PipelinePlaces::of(job);
    let mut by: BTreeMap<(u32, Option<StepKey>), BTreeMap<u32, u32>> = BTreeMap::new();
    for (id, i) in job.instances().iter().enumerate().filter(|(_, i)| i.len() > 1 && i.is_message()) {
        for m in job.members(i).iter().filter(|m| !without.contains(&m.part)) {
            by.entry((m.part, step_of(job, *m))).or_default().entry(m.call).or_insert(id as u32);
        }
    }
    let list = |((part, step), calls): ((u32, Option<StepKey>), BTreeMap<u32, u32>)| {
        let mut calls: Vec<(u32, u32)> = calls.into_iter().collect();
        calls.sort_by_key(|(call, _)| (job.call(Member { part, call: *call }).submit, *call));
        let kind = |(call, _): &(u32, u32)| {
            let c = job.call(Member { part, call: *call });
            (c.shape.kind, c.shape.bytes)
        };
        let place = places.get(part)?;
        Some(StepMessages { part, place, step, sequence: calls.iter().map(kind).collect(), calls })
    };
    by.into_iter().filter_map(list).collect()
}

/// By pipeline and step: time from the start of the step to the last end of a message, the longest of its
/// ranks.
fn pipeline_ends(job: &Job, all: &[StepMessages]) -> BTreeMap<(usize, Option<StepKey>), Ns> {
    let mut out: BTreeMap<(usize, Option<StepKey>), Ns> = BTreeMap::new();
    for m in all {
        let p = &job.parts[m.part as usize];
        let calls = || m.calls.iter().filter_map(|(call, _)| p.calls.calls.get(*call as usize));
        let start = calls().find_map(|c| p.step_of(c)).map_or(p.capture.start, |s| s.window.start);
        let end = calls().map(|c| c.released).max().unwrap_or(start);
        let slot = out.entry((m.place.pipeline, m.step)).or_default();
        *slot = (*slot).max(end - start);
    }
    out
}

/// Compares the replicas of one stage in one step, place by place.
fn compare(
    job: &Job,
    windows: &Windows,
    step: Option<StepKey>,
    replicas: &[&StepMessages],
    ends: &BTreeMap<(usize, Option<StepKey>), Ns>,
    out: &mut Vec<Chain>,
) {
    // For each part, its places with their lateness.
    let mut of_part: BTreeMap<u32, Vec<(usize, Lateness)>> = BTreeMap::new();
    for place in 0..replicas[0].calls.len() {
        let window = |m: &StepMessages| -> Option<(Member, LocalWindow)> {
            let member = Member { part: m.part, call: m.calls.get(place)?.0 };
            Some((member, windows[member.part as usize][member.call as usize]?))
        };
        // If several messages follow one meeting point, the last one has the whole local time.
        let is_last = |m: &StepMessages, w: &LocalWindow| {
            let next = m.calls.get(place + 1).and_then(|(call, _)| windows[m.part as usize][*call as usize]);
            next.is_none_or(|n| (n.lane, n.span.start) != (w.lane, w.span.start))
        };
        let of_place: Vec<_> = replicas.iter().filter_map(|m| Some((*m, window(m)?))).collect();
        if of_place.len() < replicas.len() || !of_place.iter().any(|(m, (_, w))| is_last(m, w)) {
            continue;
        }
        let locals: Vec<LocalTime> = of_place.iter().map(|(_, (m, w))| LocalTime::new(job, *m, w)).collect();
        lateness(&locals, |late| of_part.entry(late.member.part).or_default().push((place, late)));
    }
    let end = |m: &StepMessages| ends.get(&(m.place.pipeline, step)).copied().unwrap_or(0);
    let mut all_ends: Vec<Ns> = replicas.iter().map(|m| end(m)).collect();
    all_ends.sort_unstable();
    for m in replicas {
        let Some(lates) = of_part.remove(&m.part) else { continue };
        // A pipeline has one rank per stage, so the others are all except this one.
        let usual = median_of_others(&all_ends, all_ends.partition_point(|e| *e < end(m)));
        let later = usual.map_or(0, |usual| (end(m) - usual).max(0));
        let longer = lates.iter().map(|(_, l)| l.difference).sum::<Ns>().max(0);
        let mut left = i128::from(later.min(longer));
        let mut weight: i128 = lates.iter().map(|(_, l)| i128::from(l.excess())).sum();
        for (place, late) in lates {
            // Distributes the gain of the step in proportion to the excess at each place, without remainder.
            let gain = if weight == 0 { 0 } else { left * i128::from(late.excess()) / weight };
            left -= gain;
            weight -= i128::from(late.excess());
            let ready = job.aligned(m.part, job.ready(late.member));
            let instance = m.calls[place].1;
            let group = job.instances()[instance as usize].group;
            out.push(Chain::of_one(group, step, instance, late, gain as Ns, ready));
        }
    }
}

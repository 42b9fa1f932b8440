//! Tables of `stragglers`.

use crate::api::Options;
use crate::collectives::GroupSelection;
use crate::stragglers::delays::{ByPart, DelaySums, totals};
use crate::stragglers::straggler::{Judgement, Straggler};
use crate::stragglers::why::{StepDifferences, reasons};
use hta_base::table;
use hta_base::table::schema::{Batch, TableSpec, Text};
use hta_base::table::view::{Fold, Note, ViewSpec};
use hta_base::units::{Ns, percent};
use hta_base::wording::ranks::rank_list;
use hta_job::Job;
use hta_job::delay::StepKey;
use std::collections::{BTreeMap, BTreeSet};

table! {
    /// Stragglers, most expensive first; no row: no rank straggles.
    pub struct StragglerTable, StragglerRow = "stragglers" by "hidden ones last, gain_sum_ns descending" {
        pattern: Text, "", "persistent, together, in_steps or rotating";
        ranks: Text, "", "ranks of the observation";
        late_step_count: u32, "", "steps in which it is late", "late in";
        step_count: u32, "", "steps with collectives";
        since_step: Option<Text>, "", "first of its steps, if it is late in most steps from there on";
        steps: Text, "", "its steps, with the rank for each where they change";
        gain_sum_ns: i64, "ns",
            "what fixing it saves over all steps, by the replay of `what-if`; without a reliable one the \
             sum of its delays";
        gain_per_step_ns: i64, "ns", "the same over all steps";
        gain_pct: Option<f64>, "%", "of the mean step, as in `efficiency`", "of the step";
        excess_sum_ns: i64, "ns", "how much longer it worked than the median of the others, over its steps";
        evidence: Text, "",
            "permutation, ahead_in_every_step, throughout or stands_out: why it is not chance";
        p_value: Option<f64>, "", "of the permutation test: how often chance makes some rank as late";
        behind_ranks: Option<Text>, "",
            "ranks that hide it: it would be the straggler without them", "hidden behind";
        cause: Option<Text>, "", "largest difference from the typical rank";
        cause_name: Option<Text>, "", "kernel, operator, Python function, ...", "name";
        cause_detail: Option<Text>, "", "launch shape, or the frame with file and line";
        cause_origin_rank: Option<u32>, "", "rank that it waited for, in another group";
        cause_ns: Option<i64>, "ns", "that difference, over its steps", "costs";
    }
}

table! {
    /// Delay by rank, step and group. A chain of collectives that are one delay counts once.
    pub struct Delays, DelayRow = "straggler_delays" by "rank, step, process_group" {
        rank;
        step: Option<u32>, "", "index of the step in time, for steps without a number";
        step_label;
        process_group: Option<Text>, "", "name and members; null: all groups";
        gain_ns: i64, "ns",
            "how much earlier its chains of collectives would have ended if it had been ready together with \
             the last of the others; all groups: at most its excess";
        excess_ns: i64, "ns", "local time minus the median of the other members'";
        local_ns: i64, "ns",
            "time from synchronisation points until it was ready for the last collective of each chain";
        last_count: u32, "", "collectives where its kernel started last";
        collective_count: u32, "", "collectives";
        last_pct: Option<f64>, "%", "of the collectives";
        imposed_wait_ns: i64, "ns", "waiting of the other members in collectives where it arrived last";
        wait_ns: i64, "ns", "its own waiting";
    }
}

table! {
    /// Why a rank was late: differences from the typical rank of its group. The differences before one call
    /// sum to the difference of the two local times, which is the excess at that call.
    pub struct StragglerCauses, CauseRow = "straggler_causes"
        by "rank, step, process_group, event_id, delta_ns descending" {
        rank;
        event_id: u32, "", "the call before which it was late, as in `collectives`";
        step: Option<u32>, "", "index of the step in time, for steps without a number";
        step_label;
        process_group: Text, "", "group that waited";
        typical_rank: u32, "", "rank with the median local time, against which it is compared";
        cause: Text, "",
            "slow_device, slow_kernel, more_tokens, other_kernels, copies, earlier_wait, \
             earlier_transfer, unmatched_communication, host_behind, or what the host did while the \
             device idled";
        name: Option<Text>, "", "kernel, operator, function; null: the rest";
        detail: Option<Text>, "", "launch shape, or the frame with file and line";
        op: Option<Text>, "", "operator that launches the kernel", "operator";
        frame: Option<Text>, "", "Python line that launches the kernel";
        origin_rank: Option<u32>, "", "rank that it waited for, in another group";
        delta_ns: i64, "ns", "time on this rank minus time on the typical one", "adds";
        own_ns: i64, "ns", "time on this rank";
        typical_ns: i64, "ns", "time on the typical rank";
        own_count: i64, "", "starts on this rank";
        typical_count: i64, "", "starts on the typical rank";
    }
}

table! {
    /// Delay by rank, by host and by device index, over all steps.
    pub(crate) struct LateSums, SumRow = "straggler_ranks" by "level, gain_per_step_ns descending, key" {
        level: Text, "", "rank, host or device";
        key: Text, "", "rank, host name or device index";
        rank_count: u32, "", "ranks";
        gain_per_step_ns: i64, "ns", "own gain, summed over its ranks";
        excess_per_step_ns: i64, "ns", "excess, summed over its ranks";
        last_count: u64, "", "collectives where one of its ranks arrived last";
        last_pct: Option<f64>, "%", "of the collectives of its ranks";
        imposed_wait_ns: i64, "ns", "waiting of others in collectives where one of its ranks arrived last";
        p_value: Option<f64>, "",
            "how often chance alone makes some rank as late, over all steps; null: a host or device, or not \
             tested, since nobody is late enough or the steps are too few";
    }
}

table! {
    /// Delay by rank over all steps, as it is printed.
    pub(crate) struct RankDelays, RankDelayRow = "straggler_delays_by_rank" by "rank" {
        rank;
        place: Option<Text>, "", "its role and its coordinates in the mesh of the job, where known"
            => first(place);
        gain_per_step_ns: i64, "ns", "own gain, as in straggler_delays", "delay/step"
            => sum(gain_per_step_ns);
        gain_pct: Option<f64>, "%", "the same of the mean step, at least of the median one", "of step"
            => sum(gain_pct);
        excess_per_step_ns: i64, "ns", "local time minus the median of the other members'", "excess/step"
            => sum(excess_per_step_ns);
        last_count: u32, "", "collectives where it arrived last" => sum(last_count);
        collective_count: u32, "", "collectives", "of" => sum(collective_count);
        imposed_wait_per_step_ns: i64, "ns", "waiting of others in collectives where it arrived last",
            "others wait" => sum(imposed_wait_per_step_ns);
        gains_by_step: Text, "",
            "own gain of the median step in each of the first steps: . below 1 %, - 5 %, + 10 %, # 25 %, @ \
             more",
            "delay by step";
    }
}

pub(crate) const ALL: &[&TableSpec] =
    &[StragglerTable::SPEC, Delays::SPEC, RankDelays::SPEC, StragglerCauses::SPEC, LateSums::SPEC];

pub(crate) const VIEW: ViewSpec = ViewSpec {
    title: "Who makes the others wait",
    columns: &[
        "rank",
        "gain_per_step_ns",
        "gain_pct",
        "excess_per_step_ns",
        "last_count",
        "collective_count",
        "imposed_wait_per_step_ns",
        "gains_by_step",
    ],
    joined: &[("rank", ": ", "place")],
    nulls: &[("gains_by_step", "")],
    by: "gain_per_step_ns",
    fold: Fold::Worst,
    notes: &[Note::Text("delay: own gain of the median step: . below 1 %, - 5 %, + 10 %, # 25 %, @ more")],
    ..ViewSpec::of(RankDelays::SPEC)
};

pub(crate) fn build(job: &Job, judged: &Judgement, why: &[StepDifferences], options: &Options) -> Vec<Batch> {
    let shown = GroupSelection::new(job, options);
    vec![
        observations(job, judged, why),
        delays(job, &judged.delays, &shown),
        delays_by_rank(job, judged),
        causes(job, why, &shown),
        places(job, judged),
    ]
}

pub(crate) fn ranks_of(job: &Job, parts: &[u32]) -> Vec<u32> {
    parts.iter().map(|p| job.parts[*p as usize].rank).collect()
}

/// Steps as text: `2, 3 and 4`, with ranks if these differ between steps.
pub(crate) fn steps_text(job: &Job, steps: &[(StepKey, Vec<u32>)], with_ranks: bool) -> String {
    const SHOWN: usize = 12;
    let one = |(step, parts): &(StepKey, Vec<u32>)| {
        if with_ranks {
            format!("{}: {}", step.shown(), rank_list(&ranks_of(job, parts)))
        } else {
            step.shown()
        }
    };
    let mut list: Vec<String> = steps.iter().take(SHOWN).map(one).collect();
    if steps.len() > SHOWN {
        list.push(format!("... ({} more)", steps.len() - SHOWN));
    }
    list.join(if with_ranks { "; " } else { ", " })
}

/// The first late step, if the rank is late in most steps from there on, and recorded steps before.
pub(crate) fn since(job: &Job, judged: &Judgement, s: &Straggler) -> Option<StepKey> {
    let steps = &s.steps;
    let first = steps.first()?.0;
    let from = judged.steps.iter().filter(|s| **s >= first).count();
    let recorded = s.parts.iter().flat_map(|part| &job.parts[*part as usize].steps);
    let mut recorded = recorded.map(|step| StepKey::new(step.index, step.label));
    let began_later = recorded.any(|key| key < first && judged.steps.contains(&key));
    (began_later && steps.len() > 1 && steps.len() * 5 >= from * 4).then_some(first)
}

fn observations(job: &Job, judged: &Judgement, why: &[StepDifferences]) -> Batch {
    let mut table = StragglerTable::default();
    for s in &judged.stragglers {
        let (causes, _) = reasons(s, why);
        let main = causes.first().filter(|c| c.delta() > 0);
        let text = |id| Some(job.names.get(id)).filter(|t| !t.is_empty());
        let behind = (!s.behind.is_empty()).then(|| rank_list(&ranks_of(job, &s.behind)));
        table.push(StragglerRow {
            pattern: s.pattern.name(),
            ranks: &rank_list(&ranks_of(job, &s.parts)),
            late_step_count: s.steps.len() as u32,
            step_count: judged.steps.len() as u32,
            since_step: since(job, judged, s).map(StepKey::shown).as_deref(),
            steps: &steps_text(job, &s.steps, s.parts.len() > 1),
            gain_sum_ns: s.gain,
            gain_per_step_ns: judged.length.per_step(s.gain),
            gain_pct: percent(s.gain, judged.length.time),
            excess_sum_ns: s.excess,
            evidence: s.evidence.name(),
            p_value: s.evidence.p_value(),
            behind_ranks: behind.as_deref(),
            cause: main.map(|c| c.cause.name()),
            cause_name: main.and_then(|c| text(c.name)),
            cause_detail: main.and_then(|c| text(c.detail)),
            cause_origin_rank: main.and_then(|c| c.origin),
            cause_ns: main.map(|c| c.delta()),
        });
    }
    table.finish()
}

fn delays(job: &Job, sums: &ByPart, shown: &GroupSelection) -> Batch {
    let mut table = Delays::default();
    for (&(part, step, group), d) in sums {
        if !group.is_none_or(|g| shown.has(g)) {
            continue;
        }
        let (step, step_label) = StepKey::cells(step);
        table.push(DelayRow {
            rank: job.parts[part as usize].rank,
            step,
            step_label,
            process_group: group.map(|g| shown.name(g)),
            gain_ns: d.gain,
            excess_ns: d.excess,
            local_ns: d.local,
            last_count: d.last,
            collective_count: d.count,
            last_pct: percent(i64::from(d.last), i64::from(d.count)),
            imposed_wait_ns: d.imposed,
            wait_ns: d.wait,
        });
    }
    table.finish()
}

/// The mark for a share of the median step.
fn mark(ns: Ns, step: Ns) -> char {
    match percent(ns, step).unwrap_or(0.0) {
        p if p < 1.0 => '.',
        p if p < 5.0 => '-',
        p if p < 10.0 => '+',
        p if p < 25.0 => '#',
        _ => '@',
    }
}

/// Number of steps with a mark.
pub(super) const STEPS_MARKED: usize = 24;

fn delays_by_rank(job: &Job, judged: &Judgement) -> Batch {
    let mut table = RankDelays::default();
    let steps = judged.steps.len().max(1) as Ns;
    // Means of the same steps: a step that one rank stretches is longer than the median.
    let mean = if judged.counts_steps() { judged.length.step() } else { 0 };
    for (part, d) in totals(&judged.delays) {
        let gain = |step: &StepKey| judged.delays.get(&(part, Some(*step), None)).map_or(0, |d| d.gain);
        let marked = judged.steps.iter().take(STEPS_MARKED);
        let marks: String = marked.map(|step| mark(gain(step), judged.median_step)).collect();
        let rank = job.parts[part as usize].rank;
        table.push(RankDelayRow {
            rank,
            place: job.words.place(rank).as_deref(),
            gain_per_step_ns: d.gain / steps,
            gain_pct: percent(d.gain / steps, mean.max(judged.median_step)),
            excess_per_step_ns: d.excess / steps,
            last_count: d.last,
            collective_count: d.count,
            imposed_wait_per_step_ns: d.imposed / steps,
            gains_by_step: &marks,
        });
    }
    table.finish()
}

fn causes(job: &Job, why: &[StepDifferences], shown: &GroupSelection) -> Batch {
    let mut table = StragglerCauses::default();
    let mut order: Vec<&StepDifferences> = why.iter().filter(|e| shown.has(e.group)).collect();
    order.sort_by_key(|e| (e.part, e.step, e.group, e.call));
    for e in order {
        let p = &job.parts[e.part as usize];
        for d in &e.differences {
            let text = |id| Some(job.names.get(id)).filter(|t| !t.is_empty());
            let origin = p.origins.get(&d.name).filter(|_| d.name != hta_trace::strings::StrId::EMPTY);
            let (step, step_label) = StepKey::cells(e.step);
            let event = p.calls.calls.get(e.call as usize).map_or(0, |c| c.event);
            table.push(CauseRow {
                rank: p.rank,
                event_id: event,
                step,
                step_label,
                process_group: shown.name(e.group),
                typical_rank: job.parts[e.typical as usize].rank,
                cause: d.cause.name(),
                name: text(d.name),
                detail: text(d.detail),
                op: origin.and_then(|o| text(o.op)),
                frame: origin.and_then(|o| text(o.frame)),
                origin_rank: d.origin,
                delta_ns: d.delta(),
                own_ns: d.own,
                typical_ns: d.typical,
                own_count: d.own_count,
                typical_count: d.typical_count,
            });
        }
    }
    table.finish()
}

/// A rank, a host or a device index.
pub(crate) struct LevelKey {
    pub(crate) level: &'static str,
    pub(crate) key: String,
    pub(crate) parts: BTreeSet<u32>,
    pub(crate) delay: DelaySums,
}

/// Delay by rank, host and device index; on each level the largest gain first.
pub(crate) fn by_place(job: &Job, sums: &ByPart) -> Vec<LevelKey> {
    let mut places: BTreeMap<(usize, String), LevelKey> = BTreeMap::new();
    for (part, d) in totals(sums) {
        let p = &job.parts[part as usize];
        let device = p.lanes.iter().find_map(|l| l.device).map(|d| d.to_string());
        let keys = [("rank", Some(p.rank.to_string())), ("host", p.host.clone()), ("device", device)];
        for (order, (level, key)) in keys.into_iter().enumerate() {
            let Some(key) = key else { continue };
            let new =
                || LevelKey { level, key: key.clone(), parts: BTreeSet::new(), delay: DelaySums::default() };
            let place = places.entry((order, key.clone())).or_insert_with(new);
            place.parts.insert(part);
            place.delay.add(&d);
        }
    }
    let mut out: Vec<((usize, String), LevelKey)> = places.into_iter().collect();
    let number = |k: &str| k.parse::<u64>().unwrap_or(u64::MAX);
    out.sort_by(|((a, _), x), ((b, _), y)| {
        (a, -x.delay.gain, number(&x.key), &x.key).cmp(&(b, -y.delay.gain, number(&y.key), &y.key))
    });
    out.into_iter().map(|(_, p)| p).collect()
}

fn places(job: &Job, judged: &Judgement) -> Batch {
    let mut table = LateSums::default();
    let steps = judged.steps.len().max(1) as i64;
    for p in by_place(job, &judged.delays) {
        let d = p.delay;
        table.push(SumRow {
            level: p.level,
            key: &p.key,
            rank_count: p.parts.len() as u32,
            gain_per_step_ns: d.gain / steps,
            excess_per_step_ns: d.excess / steps,
            last_count: u64::from(d.last),
            last_pct: percent(i64::from(d.last), i64::from(d.count)),
            imposed_wait_ns: d.imposed,
            p_value: p
                .parts
                .first()
                .filter(|_| p.level == "rank")
                .and_then(|part| judged.p_values.get(part))
                .copied(),
        });
    }
    table.finish()
}

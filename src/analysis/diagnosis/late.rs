//! Stragglers as causes: ranks that the test names, with the reason for which they are late.

use crate::api::Options;
use crate::diagnosis::evidence::Evidence;
use crate::diagnosis::kind::CauseKind;
use crate::job::cause::DelayCause;
use crate::job::delay::{StepKey, step_of};
use crate::job::{Job, Member, TimeUse};
use crate::stragglers::{
    Judged, Judgement, Pattern, StepDifferences, Straggler, because, cannot_tell, judged, reasons, when,
};
use hta_base::units::{Ns, fmt_ns, percent};
use hta_base::wording::counts::plural;
use hta_base::wording::ranks::ranks_named;
use hta_trace::collective::CollectiveKind;
use std::collections::BTreeMap;

/// One straggler, or several ranks that are late together or in turn.
#[derive(Debug, Clone)]
pub(crate) struct LateRank {
    pub(crate) index: usize,
    pub(crate) kind: CauseKind,
    /// What its host does longer than those of the others; its time belongs to the straggler.
    pub(crate) host_kinds: &'static [CauseKind],
    pub(crate) key: String,
    pub(crate) ranks: Vec<u32>,
    pub(crate) steps: Vec<String>,
    /// Over all steps, ns.
    pub(crate) gain: Ns,
    pub(crate) p_value: Option<f64>,
    pub(crate) sentence: String,
    pub(crate) action: String,
    pub(crate) evidence: Vec<Evidence>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct LateRanks {
    pub(crate) stragglers: Vec<LateRank>,
    /// Ranks that are late in single steps: too seldom for a cause, but evidence for a step that is longer than others.
    pub(crate) in_steps: Vec<LateRank>,
    /// Ranks that are late by as much as a straggler, which may be chance, in words.
    pub(crate) unproven: Vec<String>,
    /// By part and step: the straggler.
    places: BTreeMap<(u32, StepKey), usize>,
    /// By part, for jobs without steps.
    parts: BTreeMap<u32, usize>,
}

impl LateRanks {
    /// The straggler that a part is in a step; without a step, in any.
    pub fn of(&self, part: u32, step: Option<StepKey>) -> Option<usize> {
        match step {
            Some(step) => self.places.get(&(part, step)).copied(),
            None => self.parts.get(&part).copied(),
        }
    }
}

/// Share of a step by which a rank must be late for the verdict to say that this may be chance, percent.
const UNPROVEN_PCT: f64 = 5.0;

pub fn find(job: &Job, options: &Options) -> LateRanks {
    let mut out = LateRanks::default();
    if job.parts.len() < 2 {
        return out;
    }
    let shared = judged(job, options);
    let Judged { judgement: judged, why } = shared.as_ref();
    if judged.steps.len() > 1 {
        out.unproven = cannot_tell(job, judged, UNPROVEN_PCT);
    }
    for s in judged.stragglers.iter().filter(|s| s.gain > 0) {
        // A rank that is late behind others is told by `stragglers`; what is first to repair stands here.
        let share = percent(s.gain, judged.length.time).unwrap_or(0.0);
        let is_seldom = s.pattern == Pattern::InSteps && share < options.across.straggler_min_pct;
        if is_seldom || !s.behind.is_empty() {
            out.in_steps.extend(is_seldom.then(|| late_rank(job, 0, s, judged, why)));
            continue;
        }
        let index = out.stragglers.len();
        for (key, parts) in &s.steps {
            for part in parts {
                out.places.entry((*part, *key)).or_insert(index);
                out.parts.entry(*part).or_insert(index);
            }
        }
        out.stragglers.push(late_rank(job, index, s, judged, why));
    }
    out
}

fn late_rank(job: &Job, index: usize, s: &Straggler, judged: &Judgement, why: &[StepDifferences]) -> LateRank {
    let steps = judged.steps.len();
    // If another rank is late each time, none of them is the reason.
    let is_one = |part: &u32| s.pattern == Pattern::Rotating || s.parts.contains(part);
    let mut ranks: Vec<u32> = (0u32..).zip(&job.parts).filter(|(i, _)| is_one(i)).map(|(_, p)| p.rank).collect();
    ranks.sort_unstable();
    let (causes, total) = reasons(s, why);
    let main = main_cause(s, why);
    let late = s.steps.iter().map(|(_, who)| who.len() as i64).sum::<i64>().max(1);
    let who = capital(&ranks_named(&ranks));
    let is = if ranks.len() == 1 { "is" } else { "are" };
    let when = match s.pattern {
        Pattern::Rotating if s.steps.len() < steps => format!("in {} of {}", s.steps.len(), plural(steps, "step")),
        _ => when(job, judged, s, steps),
    };
    let mut sentence = match s.pattern {
        Pattern::Rotating => format!("Each time another rank makes the others wait, {when}"),
        Pattern::Together => format!("{who} {is} late together {when}"),
        _ => format!("{who} {is} late {when}"),
    };
    let tokens = match main {
        Some(DelayCause::SlowKernel | DelayCause::OtherKernels) => excess_of_tokens(job, s),
        _ => None,
    };
    if let Some(ratio) = tokens {
        sentence = format!("{sentence}, with {ratio:.2} times the mean data in all_to_all (a hot expert)");
    }
    let is_known = total > 0 && s.pattern != Pattern::Rotating;
    if let Some(because) = is_known.then(|| because(job, s, &causes, total)).flatten() {
        sentence = format!("{sentence}: {because}");
    }
    let kind = match main {
        Some(DelayCause::OtherKernels) => CauseKind::Imbalance,
        _ if tokens.is_some() => CauseKind::Imbalance,
        _ => CauseKind::Straggler,
    };
    let key = causes.first().map_or("", |c| c.cause.name()).to_string();
    let steps = if s.steps.len() == steps { Vec::new() } else { s.steps.iter().map(|(k, _)| k.shown()).collect() };
    let filter = format!("rank IN ({})", ranks.iter().map(u32::to_string).collect::<Vec<_>>().join(", "));
    let evidence = vec![
        Evidence {
            table: "straggler_delays",
            filter: filter.clone(),
            words: format!("works {} a step longer than the typical rank", fmt_ns(total / late)),
        },
        Evidence { table: "straggler_causes", filter, words: format!("largest part: {}", key.replace('_', " ")) },
    ];
    LateRank {
        index,
        kind,
        host_kinds: host_kinds(main),
        key,
        action: match tokens {
            Some(_) => "balance the tokens of the experts: load-balancing loss, capacity, placement".to_string(),
            None => action(main, &ranks),
        },
        ranks,
        steps,
        gain: s.gain,
        p_value: s.evidence.p_value(),
        sentence,
        evidence,
    }
}

/// How many times as much data as the mean rank a late rank has in some all-to-all of each of its steps, if that is
/// clearly more.
fn excess_of_tokens(job: &Job, s: &Straggler) -> Option<f64> {
    const LEAST: f64 = 1.2;
    // By step, group, place among the calls of the group, and whether the part is late: the sizes.
    let mut sizes: BTreeMap<(StepKey, u32, u32), [Vec<i64>; 2]> = BTreeMap::new();
    for (part, p) in (0u32..).zip(&job.parts) {
        let mut place: BTreeMap<(StepKey, u32), u32> = BTreeMap::new();
        for (call, c) in (0u32..).zip(&p.calls.calls).filter(|(_, c)| c.kind == CollectiveKind::AllToAll) {
            let (step, group) = (step_of(job, Member { part, call }), job.matched.group_of(part, c.group));
            let (Some(step), Some(group), Some(bytes)) = (step, group, c.bytes) else { continue };
            let at = place.entry((step, group)).or_default();
            let of = sizes.entry((step, group, *at)).or_default();
            *at += 1;
            if let Some(list) = of.get_mut(usize::from(s.is_late(part, Some(step)))) {
                list.push(bytes);
            }
        }
    }
    // The largest ratio of each step, and the least of these.
    let mut by_step: BTreeMap<StepKey, f64> = BTreeMap::new();
    for ((step, ..), [others, late]) in &sizes {
        let all: i128 = others.iter().chain(late).map(|b| i128::from(*b)).sum();
        if let Some(own) = late.iter().min().filter(|_| all > 0 && !others.is_empty()) {
            let mean = all as f64 / (others.len() + late.len()) as f64;
            let most = by_step.entry(*step).or_default();
            *most = most.max(*own as f64 / mean);
        }
    }
    by_step.into_values().min_by(f64::total_cmp).filter(|ratio| *ratio >= LEAST)
}

/// The cause of most of a straggler's excess.
fn main_cause(s: &Straggler, why: &[StepDifferences]) -> Option<DelayCause> {
    let (causes, total) = reasons(s, why);
    causes.first().filter(|c| c.delta() * 2 >= total).map(|c| c.cause)
}

/// Kinds of causes that describe what a late host does.
fn host_kinds(main: Option<DelayCause>) -> &'static [CauseKind] {
    let Some(DelayCause::Host(what) | DelayCause::MoreHost(what)) = main else { return &[] };
    match what {
        TimeUse::DataLoader => &[CauseKind::DataLoader],
        TimeUse::AllocationCall => &[CauseKind::HostAlloc],
        TimeUse::SyncCall => &[CauseKind::HostSync],
        TimeUse::Python | TimeUse::Annotation | TimeUse::Untracked => &[CauseKind::HostPython],
        TimeUse::KernelWait | TimeUse::OtherWait | TimeUse::UnlinkedWait => &[],
        _ => &[CauseKind::HostDispatch, CauseKind::WarmUp, CauseKind::HostPause, CauseKind::HostLock],
    }
}

fn action(main: Option<DelayCause>, ranks: &[u32]) -> String {
    let who = ranks_named(ranks);
    match main {
        Some(DelayCause::SlowDevice) => {
            format!("check clocks, power and temperature of the device of {who}, or swap the node")
        }
        Some(DelayCause::SlowKernel) => format!(
            "compare the inputs of this kernel on {who} with those of the others: shape, data, and the code that launches it"
        ),
        Some(DelayCause::OtherKernels) => {
            "balance the work: sequence lengths, experts, embedding tables, stages".to_string()
        }
        Some(DelayCause::Host(_) | DelayCause::MoreHost(_)) => {
            format!("look at the host of {who}: the code named here runs longer there only")
        }
        Some(DelayCause::Copies) => {
            format!("look at the copies of {who}: pinned memory, and the place of the process on its node")
        }
        _ => format!("compare {who} with another rank: hta diff, and hta stragglers for the causes by step"),
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |c| c.to_uppercase().chain(chars).collect())
}

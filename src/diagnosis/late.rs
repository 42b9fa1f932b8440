//! Stragglers as causes: ranks that the test names, with the reason for which they are late.

use crate::CauseKind;
use crate::cause_words::CauseWords;
use crate::clocks::JobClocks;
use crate::context::BESIDES_PCT;
use crate::evidence::{Evidence, of_ranks, of_steps};
use crate::late_clocks;
use crate::late_ranks::{LateRank, LateRanks};
use hta_analysis::api::Options;
use hta_analysis::experts::imbalance::ExpertImbalance;
use hta_analysis::stragglers::{
    Judged, Judgement, NoChance, P_MOST, Pattern, StepDifferences, Straggler, Unproven, always_last, because,
    cannot_tell, each_time, judged, main_cause, place, reasons, when,
};
use hta_base::units::{Ns, fmt_ns, percent};
use hta_base::wording::counts::{capital, plural};
use hta_job::cause::DelayCause;
use hta_job::delay::StepKey;
use hta_job::difference::{Difference, HostDelay};
use hta_job::experts::JobLayers;
use hta_job::fused::is_late_to_fused;
use hta_job::recording::step_noun;
use hta_job::{Job, TimeUse};
use hta_trace::kernel::category::{Category, by_name};
use std::collections::BTreeMap;

/// What tells why ranks are late.
pub(crate) struct LateFacts<'a> {
    pub(crate) job: &'a Job,
    pub(crate) straggler: &'a Straggler,
    /// The cause of most of the excess.
    pub(crate) main: Option<DelayCause>,
    pub(crate) ranks: &'a [u32],
    pub(crate) clocks: &'a JobClocks,
}

/// What is told of late ranks.
#[derive(Debug, Default)]
pub(crate) struct LateWords {
    /// Behind the sentence that says who is late.
    pub(crate) detail: String,
    /// If not empty, the sentence itself; who is late then stands behind it.
    pub(crate) instead: String,
    /// What is seen beside that.
    pub(crate) beside: String,
    pub(crate) action: String,
    /// Whether most ranks are late.
    pub(crate) are_most: bool,
    /// Whether they are late by different amounts, so that the slowest hide the others.
    pub(crate) has_levels: bool,
    /// Whether it holds only if something is so that is not recorded.
    pub(crate) is_open: bool,
    /// Before what the delays show.
    pub(crate) evidence: Vec<Evidence>,
}

/// Share of a step by which a rank must be late for the verdict to say that this may be chance, percent.
const UNPROVEN_PCT: f64 = 5.0;
/// Smallest number of collectives of one step for that.
const LAST_OF: u32 = 8;

pub(crate) fn find(job: &Job, options: &Options, clocks: &JobClocks) -> LateRanks {
    let mut out = LateRanks::default();
    if job.parts.len() < 2 {
        return out;
    }
    let shared = judged(job, options);
    let Judged { judgement: judged, why } = shared.as_ref();
    out.has_no_chains = judged.delays.is_empty();
    // Of one step only a rank that comes last in nearly all of many collectives is told.
    let last = if judged.steps.len() == 1 { always_last(judged) } else { BTreeMap::new() };
    let is_last = |part: &u32| last.get(part).is_some_and(|(_, count, _)| *count >= LAST_OF);
    let share = |u: &Unproven| percent(u.gain, judged.median_step).unwrap_or(0.0);
    // Ranks that pass the test of chance, but do not stand apart, are told as well.
    let is_seen = |u: &Unproven| share(u) >= UNPROVEN_PCT || u.p_value.is_some_and(|p| p <= P_MOST);
    let is_told = |u: &Unproven| is_seen(u) && (judged.steps.len() > 1 || u.parts.iter().all(is_last));
    out.unproven = cannot_tell(job, judged, is_told);
    out.unproven_pct = judged.unproven.iter().find(|u| is_told(u)).map_or(0.0, share);
    // Who is late because of tokens is not repaired by becoming as the others: another cause owns that.
    let has_uneven_experts = ExpertImbalance::of(job).is_some();
    let is_by_tokens =
        |s: &Straggler| has_uneven_experts && main_cause(s, why) == Some(DelayCause::MoreTokens);
    let is_judged = |part| judged.stragglers.iter().any(|s| s.gain > 0 && s.parts.contains(&part));
    for s in judged.stragglers.iter().filter(|s| s.gain > 0) {
        if is_by_tokens(s) {
            out.give_to_tokens(s, None);
            continue;
        }
        if s.is_beside_tokens {
            let whole = Straggler { is_beside_tokens: false, ..s.clone() };
            let late = late_rank(job, out.stragglers.len(), (s, None), (judged, why, clocks));
            out.push_beside_tokens(late, s, [s, &whole].map(|s| reasons(s, why).1));
            continue;
        }
        let share = percent(s.gain, judged.length.time).unwrap_or(0.0);
        let is_seldom = s.pattern == Pattern::InSteps && share < options.across.straggler_min_pct;
        let late = late_rank(job, out.stragglers.len(), (s, None), (judged, why, clocks));
        // What is first to repair is the cause; who is late behind it is told with it.
        if let Some(part) = s.behind.first().filter(|_| share >= BESIDES_PCT) {
            out.tell_behind(&late, *part);
        }
        if is_seldom || !s.behind.is_empty() {
            out.in_steps.extend(is_seldom.then_some(LateRank { index: 0, ..late }));
            continue;
        }
        let wider = (late.kind == CauseKind::Throttled).then(|| {
            let is_named = |part| out.names(job, part) || is_judged(part);
            late_clocks::with_unnamed(job, clocks, s, is_named, judged)
        });
        let wider = wider.flatten().and_then(|wider| {
            let late = late_rank(job, out.stragglers.len(), (&wider, Some(s)), (judged, why, clocks));
            (late.kind == CauseKind::Throttled).then_some((late, wider))
        });
        match wider {
            Some((late, s)) => out.push(late, &s),
            None => out.push(late, s),
        }
    }
    for s in late_clocks::unnamed(job, clocks, |part| out.names(job, part), judged) {
        let late = late_rank(job, out.stragglers.len(), (&s, None), (judged, why, clocks));
        if late.kind == CauseKind::Throttled {
            out.push(late, &s);
        }
    }
    out
}

/// `named`: the straggler without the ranks that it hides, if there are such ranks.
fn late_rank(
    job: &Job,
    index: usize,
    (s, named): (&Straggler, Option<&Straggler>),
    (judged, why, clocks): (&Judgement, &[StepDifferences], &JobClocks),
) -> LateRank {
    let steps = judged.steps.len();
    // If any rank may be late each time, none of them is the reason.
    let is_any = s.is_any_in_turn(job.parts.len());
    let all: Vec<u32> = (0u32..).zip(&job.parts).map(|(part, _)| part).collect();
    let ranks = ranks_of(job, if is_any { &all } else { &s.parts });
    let (causes, total) = reasons(s, why);
    let is_one = s.by_reason(why).len() < 2;
    let main = main_cause(s, why).filter(|_| is_one).or_else(|| of_hosts_in_turn(s, &causes, total));
    let late = s.steps.iter().map(|(_, who)| who.len() as i64).sum::<i64>().max(1);
    let who = capital(&job.words.named(&ranks));
    let is = if ranks.len() == 1 { "is" } else { "are" };
    let when = match s.pattern {
        Pattern::Rotating if s.steps.len() < steps => {
            format!("in {} of {}", s.steps.len(), plural(steps, step_noun(job.has_iterations())))
        }
        _ => when(job, judged, s, steps),
    };
    let mut sentence = match s.pattern {
        Pattern::Rotating if is_any => format!("Each time another rank makes the others wait, {when}"),
        Pattern::Rotating => format!("{who} make the others wait in turn, {when}"),
        Pattern::Together => format!("{who} {is} late together {when}"),
        _ => format!("{who} {is} late {when}"),
    };
    let facts = LateFacts { job, straggler: s, main, ranks: &ranks, clocks };
    let found = CauseKind::all_late().rev().find_map(|(kind, rule)| Some((kind, (rule.words)(&facts)?)));
    let (kind, words) = found.unwrap_or((CauseKind::NotExplained, LateWords::default()));
    // What differs from the typical rank does not say why most ranks are late.
    let (causes, main) = if words.are_most { (Vec::new(), None) } else { (causes, main) };
    sentence.push_str(&words.detail);
    let is_known = total > 0 && !words.are_most;
    let why = is_known.then(|| because(job, s, why)).flatten();
    let mut why = why.map_or(String::new(), |why| capital(&why));
    if let ([part], Some(DelayCause::SlowKernel | DelayCause::SlowDevice)) = (&s.parts[..], main)
        && let Some(factor) = JobLayers::of(job).slower_per_token(*part)
    {
        why.push_str(&format!(
            ". Its experts take {factor:.2} x the time of the others for each token: a slow device or \
             kernel, not its tokens"
        ));
    }
    let is_of_experts = main == Some(DelayCause::SlowKernel) && are_experts(job, s, causes.first());
    let key = causes.first().filter(|_| is_one).map_or("", |c| c.cause.name()).to_string();
    let steps =
        if s.steps.len() == steps { Vec::new() } else { s.steps.iter().map(|(k, _)| k.shown()).collect() };
    // A straggler that is told by its clock alone: no test showed that its delays are more than chance, so
    // they are not given as evidence.
    let delays =
        (s.evidence != NoChance::LowerClock).then(|| of_delays(job, judged, s, (&key, total / late)));
    let late_then = who_is_late(job, judged, (s, named), &words);
    let evidence = words.evidence.into_iter().chain(delays.into_iter().flatten()).collect();
    if !words.instead.is_empty() {
        why = late_then;
        sentence = words.instead;
    }
    LateRank {
        index,
        kind,
        host_kinds: host_kinds(main),
        is_open: main == Some(DelayCause::ExpertTime)
            || is_of_experts
            || words.is_open
            || s.is_brief
            || is_late_to_fused(job, &s.parts),
        key,
        words: CauseWords::new(sentence, why, words.action),
        place: if is_known && is_one { place(job, s, &causes) } else { String::new() },
        ranks,
        steps,
        // Tokens that one rank has less are shared by all.
        gain: if is_of_experts { s.gain - s.gain / job.parts.len().max(1) as Ns } else { s.gain },
        p_value: s.evidence.p_value(),
        evidence,
    }
}

/// The ranks of some parts, ascending.
fn ranks_of(job: &Job, parts: &[u32]) -> Vec<u32> {
    let mut ranks: Vec<u32> = parts.iter().filter_map(|p| Some(job.parts.get(*p as usize)?.rank)).collect();
    ranks.sort_unstable();
    ranks
}

/// Whether the kernel that makes a rank late is one of experts of whose tokens nothing is known.
fn are_experts(job: &Job, s: &Straggler, cause: Option<&Difference>) -> bool {
    let is_known = s.parts.iter().any(|part| JobLayers::of(job).slower_per_token(*part).is_some());
    !is_known && cause.is_some_and(|c| by_name(job.names.get(c.name)).category == Some(Category::Moe))
}

/// The largest cause on the host of ranks that are late in turn, if their hosts make most of it together,
/// whatever each was in.
fn of_hosts_in_turn(s: &Straggler, causes: &[Difference], total: Ns) -> Option<DelayCause> {
    let of_hosts = || causes.iter().filter(|c| c.cause.is_of_host());
    let is_most = of_hosts().map(Difference::delta).sum::<Ns>() * 2 >= total;
    of_hosts().next().filter(|_| s.pattern == Pattern::Rotating && is_most).map(|c| c.cause)
}

/// Who is late and when, behind a sentence that says why.
fn who_is_late(
    job: &Job,
    judged: &Judgement,
    (s, named): (&Straggler, Option<&Straggler>),
    words: &LateWords,
) -> String {
    let when = |s: &Straggler| when(job, judged, s, judged.steps.len());
    let together = |s: &Straggler| if s.pattern == Pattern::Together { "together " } else { "" };
    let behind = |mark: &str| match words.beside.as_str() {
        "" => String::new(),
        beside => format!("{mark} {beside}"),
    };
    match named {
        Some(named) => {
            let hidden: Vec<u32> = s.parts.iter().filter(|p| !named.parts.contains(p)).copied().collect();
            let (late, hidden) = (ranks_of(job, &named.parts), ranks_of(job, &hidden));
            let (is, repaired) = if late.len() == 1 { ("is", "it is") } else { ("are", "they are") };
            format!(
                "{} {is} late {}{}; {} would be once {repaired} repaired{}",
                capital(&job.words.named(&late)),
                together(named),
                when(named),
                job.words.plain(&hidden),
                behind(";")
            )
        }
        // No test says which of these ranks make the others wait: the slowest hide the others.
        None if words.has_levels && s.evidence == NoChance::LowerClock => {
            format!("Their clocks are so {}{}", when(s), behind(","))
        }
        None => {
            let subject = if s.parts.len() == 1 { "It is" } else { "They are" };
            format!("{subject} late {}{}{}", together(s), when(s), behind(","))
        }
    }
}

/// What the differences from the typical rank show of late ranks in their late steps: how much longer they
/// work, the largest part of that, and how much later they are ready than the others.
fn of_delays(job: &Job, judged: &Judgement, s: &Straggler, (key, longer): (&str, Ns)) -> Vec<Evidence> {
    let filter = when_late(job, s);
    let late = s.steps.iter().flat_map(|(step, parts)| parts.iter().map(move |part| (*part, Some(*step))));
    let excess: Vec<Ns> =
        late.filter_map(|(part, step)| Some(judged.delays.get(&(part, step, None))?.excess)).collect();
    let later = excess.iter().sum::<Ns>() / excess.len().max(1) as Ns;
    let each = each_time(job, judged, s);
    let mut out = vec![Evidence {
        table: "straggler_causes",
        filter: filter.clone(),
        words: format!("takes {} longer than the typical rank{each}", fmt_ns(longer)),
    }];
    if !key.is_empty() {
        out.push(Evidence {
            table: "straggler_causes",
            filter: format!("{filter} AND cause = '{key}'"),
            words: format!("largest part: {}", key.replace('_', " ")),
        });
    }
    // A rank that is late by its work alone has no delays.
    if !excess.is_empty() {
        out.push(Evidence {
            table: "straggler_delays",
            filter: format!("{filter} AND process_group IS NULL"),
            words: format!("ready {} later than the median of the others{each}", fmt_ns(later)),
        });
    }
    out
}

/// The condition for rows of late ranks in their late steps, in SQL.
fn when_late(job: &Job, s: &Straggler) -> String {
    let mut steps: BTreeMap<u32, Vec<StepKey>> = BTreeMap::new();
    for (key, parts) in &s.steps {
        let ranks = parts.iter().filter_map(|part| Some(job.parts.get(*part as usize)?.rank));
        ranks.for_each(|rank| steps.entry(rank).or_default().push(*key));
    }
    let mut ranks: BTreeMap<Vec<StepKey>, Vec<u32>> = BTreeMap::new();
    for (rank, mut keys) in steps {
        keys.sort_unstable();
        ranks.entry(keys).or_default().push(rank);
    }
    let of =
        |(keys, ranks): (&Vec<StepKey>, &Vec<u32>)| format!("{} AND {}", of_ranks(ranks), of_steps(keys));
    let all: Vec<String> = ranks.iter().map(of).collect();
    match &all[..] {
        [one] => one.clone(),
        all => format!("({})", all.iter().map(|one| format!("({one})")).collect::<Vec<_>>().join(" OR ")),
    }
}

/// Kinds of causes that describe what a late host does.
fn host_kinds(main: Option<DelayCause>) -> Vec<CauseKind> {
    let kinds = CauseKind::all_lost().filter(|(_, rule)| match main {
        Some(DelayCause::Host(what) | DelayCause::MoreHost(what)) => rule.makes_late_by(what),
        // What a host is behind by is a cause of its own.
        Some(DelayCause::HostBehind(HostDelay { by, .. })) => {
            !rule.late_by.is_empty() && by.is_none_or(|by| !rule.late_by.contains(&TimeUse::Host(by)))
        }
        _ => false,
    });
    kinds.map(|(kind, _)| kind).collect()
}

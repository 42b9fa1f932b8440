//! The report on stragglers: sentences, and the notes below the table.

use crate::api::{Options, ViewNote};
use crate::collectives::warnings;
use crate::stragglers::because::{because, late_count};
use crate::stragglers::chance::P_MOST;
use crate::stragglers::delays::{DelaySums, totals};
use crate::stragglers::straggler::{Judgement, Pattern, Straggler, Unproven};
use crate::stragglers::tables::{LevelKey, STEPS_MARKED, by_place, ranks_of, since, steps_text};
use crate::stragglers::why::{StepDifferences, reasons};
use hta_base::units::{Ns, fmt_ns, fmt_pct, percent};
use hta_base::wording::counts::{capital, plural};
use hta_base::wording::ranks::rank_list;
use hta_job::Job;
use hta_job::delay::StepKey;
use hta_job::recording::{per_step, step_noun};
use std::collections::{BTreeMap, BTreeSet};

/// Who is late, since when, what that costs and why.
pub(crate) fn sentences(job: &Job, judged: &Judgement, why: &[StepDifferences]) -> Vec<String> {
    judged.stragglers.iter().map(|s| sentence(job, judged, s, why)).collect()
}

fn sentence(job: &Job, judged: &Judgement, s: &Straggler, why: &[StepDifferences]) -> String {
    let n = judged.steps.len();
    let gain = judged.length.per_step(s.gain);
    let share = fmt_pct(percent(s.gain, judged.length.time));
    let noun = step_noun(job.has_iterations());
    let per = if judged.counts_steps() { per_step(job.has_iterations()) } else { "" };
    let who = capital(&job.words.named(&ranks_of(job, &s.parts)));
    let verb = if s.parts.len() == 1 { "makes" } else { "make" };
    let when = when(job, judged, s, n);
    let mut text = match s.pattern {
        Pattern::Rotating => format!(
            "A rotating straggler: each time another rank makes the others wait {}{per} ({share}) in {} of \
             {} (by {noun}: {}).",
            fmt_ns(gain),
            s.steps.len(),
            plural(n, noun),
            steps_text(job, &s.steps, true)
        ),
        Pattern::Together => format!(
            "{who} are late together, {when}: fixing all of them saves {}{per} ({share}).",
            fmt_ns(gain)
        ),
        _ => {
            format!("{who} {verb} the others wait, {when}: fixing it saves {}{per} ({share}).", fmt_ns(gain))
        }
    };
    if !s.behind.is_empty() {
        let behind = rank_list(&ranks_of(job, &s.behind));
        text.push_str(&format!(
            " It is hidden behind {}{behind}.",
            if s.behind.len() == 1 { "rank " } else { "ranks " }
        ));
    }
    let (_, total) = reasons(s, why);
    if total > 0 {
        let longer = fmt_ns(total / late_count(s));
        let subject = if s.parts.len() == 1 { "It takes" } else { "They take" };
        let each = each_time(job, judged, s);
        if let Some(because) = because(job, s, why) {
            text.push_str(&format!(" {subject} {longer} longer than the typical rank{each}: {because}."));
        }
    }
    text
}

pub fn when(job: &Job, judged: &Judgement, s: &Straggler, n: usize) -> String {
    let noun = step_noun(job.has_iterations());
    match (s.steps.len(), since(job, judged, s)) {
        (_, _) if n == 1 && judged.steps == [StepKey::Index(0)] => "over the capture".to_string(),
        (_, _) if n == 1 => format!("in the one {noun}"),
        (k, _) if k == n => format!("in all {n} {noun}s"),
        (k, Some(first)) => format!("since {noun} {} ({k} of {n} {noun}s)", first.told()),
        (k, None) if k <= 6 => {
            let s_or_none = if k == 1 { "" } else { "s" };
            let list = steps_text(job, &s.steps, false).replace('@', "");
            format!("in {noun}{s_or_none} {list} ({k} of {n})")
        }
        (k, None) => format!("in {k} of {n} {noun}s"),
    }
}

/// Behind a time that is a mean of the steps in which ranks are late.
pub fn each_time(job: &Job, judged: &Judgement, s: &Straggler) -> String {
    let noun = step_noun(job.has_iterations());
    match (s.steps.len(), judged.steps.len()) {
        (_, 1) => String::new(),
        (k, n) if k == n => format!(" in each {noun}"),
        (1, _) => format!(" in this {noun}"),
        _ => format!(" in each of these {noun}s"),
    }
}

/// What is said of a job below its table.
pub(crate) fn notes(job: &Job, judged: &Judgement, options: &Options) -> Vec<ViewNote> {
    let steps = judged.steps.len();
    let marked =
        (steps > STEPS_MARKED).then(|| format!("marks: of the first {STEPS_MARKED} of {steps} steps"));
    let mut notes: Vec<String> = marked.into_iter().chain(verdict(job, judged, options)).collect();
    notes.extend(not_confirmed(job, judged));
    notes.extend(cannot_tell(job, judged, |_| true));
    notes.extend(always_last_words(job, judged));
    notes.extend(shared_cores(job));
    notes.extend(clocks(job));
    notes.extend(place(job, judged));
    notes.extend(warnings(job));
    notes.into_iter().map(ViewNote::first).collect()
}

/// The sentence that no rank is a straggler.
fn verdict(job: &Job, judged: &Judgement, options: &Options) -> Option<String> {
    if !judged.stragglers.is_empty() {
        return None;
    }
    if judged.delays.is_empty() {
        return Some("no collectives could be compared across ranks".to_string());
    }
    if !judged.unproven.is_empty() || !judged.unconfirmed.is_empty() {
        return None;
    }
    let limit = judged.thresholds.iter().max().copied().unwrap_or(0);
    let pct = options.across.straggler_min_pct;
    Some(match judged.largest {
        Some((part, gain)) if gain > 0 => format!(
            "no straggler: the largest is rank {} with {} a step ({}); one is named from {pct} % of the \
             median step on, and from {} on with these clocks and ends",
            job.parts[part as usize].rank,
            fmt_ns(gain),
            fmt_pct(percent(gain, judged.median_step)),
            fmt_ns(limit)
        ),
        _ => "no straggler: no rank works longer than the others and makes them wait".to_string(),
    })
}

/// Ranks that are late, although their repair gives little.
fn not_confirmed(job: &Job, judged: &Judgement) -> Vec<String> {
    judged
        .unconfirmed
        .iter()
        .take(2)
        .map(|s: &Straggler| {
            format!(
                "{} late, but the others would hardly come earlier without that: {} would take {} less ({})",
                late_ranks(&ranks_of(job, &s.parts)),
                if judged.counts_steps() { "a step" } else { "all" },
                fmt_ns(judged.length.per_step(s.gain)),
                fmt_pct(percent(s.gain, judged.length.time))
            )
        })
        .collect()
}

fn late_ranks(ranks: &[u32]) -> String {
    if ranks.len() == 1 {
        format!("rank {} is", rank_list(ranks))
    } else {
        format!("ranks {} are", rank_list(ranks))
    }
}

/// Effects that may be chance, as far as they are told, and how many steps to record in order to know.
pub fn cannot_tell(job: &Job, judged: &Judgement, is_told: impl Fn(&Unproven) -> bool) -> Vec<String> {
    const SHOWN: usize = 4;
    let is_large = |u: &&Unproven| is_told(u);
    let steps = judged.steps.len();
    let mut out: Vec<String> = judged.unproven.iter().filter(is_large).take(SHOWN).map(|u: &Unproven| {
        let noun = if u.parts.len() == 1 { "rank" } else { "ranks" };
        let who = format!("{noun} {}", rank_list(&ranks_of(job, &u.parts)));
        let share = fmt_pct(percent(u.gain, judged.median_step));
        let late = match steps {
            1 => format!("late by {} ({share} of the time)", fmt_ns(u.gain)),
            _ => format!(
                "late in {} of {}, by {} in the median ({share} of a step)",
                u.late,
                plural(steps, "step"),
                fmt_ns(u.gain)
            ),
        };
        match (u.steps_to_record(steps), u.p_value) {
            (Some(needed), _) if u.ranks == 2 => format!(
                "cannot tell whether {who} is slower: {late}; of 2 ranks one is later in every step by \
                 chance, too: record {needed} steps"
            ),
            (Some(needed), _) => format!(
                "cannot tell whether this lasts: {who} {late}; with {} and {} that may be chance: record \
                 {needed} steps",
                plural(u.ranks, "rank"),
                plural(steps, "step")
            ),
            (None, Some(p)) if p <= P_MOST => format!(
                "cannot tell whether this lasts: {who} {late}, as by jitter that lasts: record more steps"
            ),
            (None, Some(p)) => format!(
                "cannot tell whether this is more than chance: {who} {late}; chance alone makes some rank as \
                 late in {} of such recordings",
                fmt_pct(Some(p * 100.0))
            ),
            (None, None) => format!("cannot tell whether this is more than chance: {who} {late}"),
        }
    }).collect();
    let more = judged.unproven.iter().filter(is_large).count().saturating_sub(SHOWN);
    if more > 0 {
        out.push(format!("cannot tell for {} more", plural(more, "rank")));
    }
    out
}

/// Parts that are nearly always last, hardly wait and make the others wait, although no rule names them: how
/// often they are last, of how many collectives, and how long another rank waits a step, ns.
pub fn always_last(judged: &Judgement) -> BTreeMap<u32, (u32, u32, Ns)> {
    const LAST_PCT: f64 = 80.0;
    let named: BTreeSet<u32> = judged.stragglers.iter().flat_map(|s| s.parts.iter().copied()).collect();
    let by_part = totals(&judged.delays);
    let steps = judged.steps.len().max(1) as i64;
    let others = (by_part.len() as i64 - 1).max(1);
    let waits = |(part, d): (u32, DelaySums)| {
        let last = percent(i64::from(d.last), i64::from(d.count))?;
        let imposed = d.imposed / steps / others;
        let is_so = last >= LAST_PCT
            && percent(imposed, judged.median_step).is_some_and(|p| p >= 5.0)
            && d.wait * 20 <= d.imposed / others;
        is_so.then_some((part, (d.last, d.count, imposed)))
    };
    by_part.into_iter().filter(|(part, _)| !named.contains(part)).filter_map(waits).collect()
}

fn always_last_words(job: &Job, judged: &Judgement) -> Vec<String> {
    let words = |(part, (last, count, imposed)): (u32, (u32, u32, Ns))| {
        format!(
            "rank {} comes last in {last} of {count} collectives and hardly waits itself, while the others \
             wait {} a step on average ({} of it): look at it even though no rule names it",
            job.parts[part as usize].rank,
            fmt_ns(imposed),
            fmt_pct(percent(imposed, judged.median_step))
        )
    };
    always_last(judged).into_iter().map(words).collect()
}

/// A note that ranks without devices share the cores of a host.
fn shared_cores(job: &Job) -> Option<String> {
    let mut hosts: BTreeMap<&str, usize> = BTreeMap::new();
    for p in job
        .parts
        .iter()
        .filter(|p| p.lanes.iter().all(|l| !l.is_gpu) && p.calls.calls.iter().any(|c| c.shape.on_host))
    {
        *hosts.entry(p.host.as_deref().unwrap_or("")).or_default() += 1;
    }
    let (_, most) = hosts.into_iter().max_by_key(|(_, n)| *n).filter(|(_, n)| *n > 1)?;
    Some(format!(
        "{most} ranks compute on the cores of one host and compete for them: small delays are chance"
    ))
}

/// The note on the accuracy of the clocks.
fn clocks(job: &Job) -> Vec<String> {
    let aligned: Vec<_> =
        job.parts.iter().zip(&job.clocks).filter(|(_, c)| c.is_aligned && c.instances > 0).collect();
    let rank = |p: &hta_job::RankSummary| p.rank;
    let applied: Vec<String> = aligned
        .iter()
        .filter(|(_, c)| c.is_applied)
        .map(|(p, c)| {
            let by = if c.is_few() {
                format!(" by {}", plural(c.instances as usize, "collective"))
            } else {
                String::new()
            };
            let within = fmt_ns(c.residual.max(c.doubt));
            format!("rank {} {} (+-{within}{by})", rank(p), fmt_ns(c.offset))
        })
        .collect();
    let mut out = Vec::new();
    if aligned.is_empty() {
        // No offsets were found, so there is nothing to report.
    } else if applied.is_empty() {
        let worst = aligned.iter().map(|(_, c)| c.residual).max().unwrap_or(0);
        let largest = aligned.iter().map(|(_, c)| c.offset.abs()).max().unwrap_or(0);
        out.push(format!(
            "clocks: nothing corrected; ends differ by at most {} between ranks, to be trusted within {}",
            fmt_ns(largest),
            fmt_ns(worst)
        ));
    } else {
        const SHOWN: usize = 6;
        let more = applied.len().saturating_sub(SHOWN);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let list: Vec<String> = applied.into_iter().take(SHOWN).collect();
        out.push(format!("clocks corrected by the ends of collectives: {}{more}", list.join(", ")));
    }
    let alone: Vec<u32> =
        job.parts.iter().zip(&job.clocks).filter(|(_, c)| !c.is_aligned).map(|(p, _)| rank(p)).collect();
    if !alone.is_empty() && job.parts.len() > 1 {
        out.push(format!(
            "clocks of ranks {}: they cannot be checked, no synchronous collective is shared with other \
             ranks",
            rank_list(&alone)
        ));
    }
    out
}

/// A hint if several late ranks share a host or a device index.
fn place(job: &Job, judged: &Judgement) -> Option<String> {
    let places = by_place(job, &judged.delays);
    let late: BTreeSet<u32> = judged.stragglers.iter().flat_map(|s| s.parts.iter().copied()).collect();
    let total: Ns = places.iter().filter(|p| p.level == "rank").map(|p| p.delay.gain).sum();
    if late.len() < 2 || total == 0 {
        return None;
    }
    let several = |level: &str| places.iter().filter(|p| p.level == level).count() > 1;
    let found = places.iter().find(|p: &&LevelKey| {
        p.level != "rank"
            && several(p.level)
            && p.delay.gain * 10 >= total * 8
            && p.parts.intersection(&late).count() > 1
    })?;
    let what = format!("{} {}", if found.level == "host" { "host" } else { "device index" }, found.key);
    let share = fmt_pct(percent(found.delay.gain, total));
    let n = found.parts.len();
    Some(format!("{share} of the delay comes from {what} ({n} ranks): look there for a common cause"))
}

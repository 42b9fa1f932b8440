//! `step_outlier`: some steps take longer than the median step.

use crate::CauseKind;
use crate::account::JobStep;
use crate::cause::Cause;
use crate::cause_words::CauseWords;
use crate::context::Context;
use crate::evidence::{Evidence, of_steps};
use crate::gain::OwnedTime;
use crate::late_ranks::{LateRank, LateRanks};
use crate::rule::{CauseFamily, CauseRule};
use hta_analysis::efficiency::account::PartDevice;
use hta_analysis::stragglers::{DEVIATIONS, SIGMA_OF_MAD};
use hta_base::order_statistics::median;
use hta_base::units::{Ns, fmt_ns};
use hta_job::delay::StepKey;
use hta_job::recording::capability::Capability;
use hta_trace::step_period::StepPeriod;
use std::collections::BTreeMap;

pub(super) const RULE: CauseRule = CauseRule {
    name: "step_outlier",
    needs: &[Capability::Steps],
    evidence: "steps 1.5 times as long as the median step, fewer than half of them, whose excess no cause \
               owns",
    owns: "excess",
    family: CauseFamily::Job(long_steps),
    ..CauseRule::DEFAULT
};

/// Steps that are much longer than the median step, unless a cause owns most of what they take longer.
fn long_steps(context: &Context, causes: &[Cause], late: &LateRanks) -> Option<Cause> {
    if context.trust.has_iterations {
        // Iterations of several phases and batches are not alike; `iterations` compares those that are.
        return None;
    }
    // Where every k-th step does more work, a step is compared with those that do alike.
    let kernels =
        |s: &JobStep| s.cells.values().flat_map(|c| c.mix.iter()).map(|(_, m)| m.count).sum::<u64>();
    let period =
        StepPeriod::find(&context.account.steps.iter().map(|s| Some(kernels(s))).collect::<Vec<_>>());
    let does_more = |s: usize| period.is_some_and(|p| p.holds(s as u32));
    let limits = |more: bool| {
        let alike = (0..).zip(&context.account.steps).filter(|(i, _)| does_more(*i) == more);
        let mut times: Vec<Ns> = alike.map(|(_, s)| s.time).collect();
        let usual = median(&mut times)?;
        let mut away: Vec<Ns> = times.iter().map(|t| (t - usual).abs()).collect();
        Some((usual, median(&mut away)? as f64 * (DEVIATIONS * SIGMA_OF_MAD)))
    };
    let (usual, more) = (limits(false)?, limits(true));
    let of = |s: usize| more.filter(|_| does_more(s)).unwrap_or(usual);
    let is_long = |s: &usize| {
        let (time, (usual, spread)) = (context.account.steps[*s].time, of(*s));
        time * 2 > usual * 3 && (time - usual) as f64 > spread
    };
    // The first step ends the work of those before it, and the last one may wait for the profiler.
    let long: Vec<usize> = (1..context.account.steps.len().saturating_sub(1)).filter(is_long).collect();
    if long.is_empty() || long.len() * 2 >= context.account.steps.len() {
        return None;
    }
    let excess: Ns = long.iter().map(|s| context.account.steps[*s].time - of(*s).0).sum();
    let usual = of(long.first().copied()?).0;
    let most_of = |c: &Cause, s: usize| {
        let mut by_place: BTreeMap<PartDevice, Ns> = BTreeMap::new();
        for ((_, place, _), ns) in c.owned.iter().filter(|((step, ..), _)| *step == s) {
            *by_place.entry(*place).or_default() += ns;
        }
        by_place.into_values().max().unwrap_or(0)
    };
    let owned = |c: &Cause| long.iter().map(|s| most_of(c, *s)).sum::<Ns>();
    if causes.iter().any(|c| owned(c) * 2 > excess) {
        return None;
    }
    let ranks = context.job.parts.iter().map(|p| p.rank).collect();
    let mut cause = context.cause(CauseKind::StepOutlier, "", ranks, OwnedTime::new(), excess);
    cause.steps = long.iter().filter_map(|s| Some(context.account.steps.get(*s)?.key?.shown())).collect();
    let (list, n) = (cause.steps.join(", "), long.len());
    let (noun, takes) = if n == 1 { ("Step", "It takes") } else { ("Steps", "They take on average") };
    let is = if n == 1 { "is" } else { "are" };
    cause.words = CauseWords::new(
        format!("{noun} {list} ({n} of {}) {is} far longer than the others", context.account.steps.len()),
        format!("{takes} {} more than the median step of {}", fmt_ns(excess / n as Ns), fmt_ns(usual)),
        "hta steps compares them with the others: checkpoints, evaluation, garbage collection, allocation",
    );
    let keys: Vec<StepKey> = long.iter().filter_map(|s| context.account.steps.get(*s)?.key).collect();
    cause.evidence = vec![Evidence {
        table: "time_account",
        filter: of_steps(&keys),
        words: format!("{} together beyond the median", fmt_ns(excess)),
    }];
    let is_late_then = |s: &&LateRank| s.steps.iter().any(|step| cause.steps.contains(step));
    // The rows of the late rank, with the sentence in place of their number.
    let told =
        |s: &LateRank| s.evidence.first().map(|e| Evidence { words: s.words.what.clone(), ..e.clone() });
    cause.evidence.extend(late.in_steps.iter().filter(is_late_then).take(2).filter_map(told));
    Some(cause)
}

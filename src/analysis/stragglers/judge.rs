//! Decides which ranks are stragglers, and in which steps.
//!
//! The measure of one rank in one step is its *own gain*: over the chains of the step, the smaller of gain
//! (what repairing it alone would save its group) and excess (how much longer it worked than the others). A
//! rank that came last without working longer was delayed elsewhere; a rank that worked longer and was not
//! last cost nothing.
//!
//! 1. Threshold: `--straggler-min-pct` of the median step, and three times the larger of the rank's clock
//!    residual and the median end skew.
//! 2. *Persistent*: the median of its own gains over the steps reaches the threshold, and there is evidence
//!    that this is not chance: a permutation test, or it was ahead in every step
//!    ([`crate::stragglers::chance`]). An effect without evidence is kept as *unproven*, and no rank is named
//!    for it.
//! 3. *Together*: equally late ranks hide each other. A set of at most half of the members, all with an
//!    excess above the threshold, is judged by what repairing all of them saves, with the same test for sets.
//! 4. *In steps*: an own gain above the threshold that is [`STANDS_OUT`] times the largest own gain of any
//!    other rank in any step, or, of a few steps of several ranks, of all others, and [`DEVIATIONS`] robust
//!    standard deviations of the usual differences between ranks; or all late steps of a rank whose own gains
//!    in these reach the threshold on average of all steps, if the test of chance and the distance to the
//!    others are evidence. Ranks that are late at once are one: what
//!    repairing all of them saves stands out from the others in the same step, and is the most of any step.
//! 5. *Rotating*: several ranks in turn, in two thirds of the steps or more, each by [`DEVIATIONS`]
//!    deviations.
//! 6. With several steps, the stragglers found are removed and the others are judged again, as long as
//!    [`REMAIN`] ranks remain: this finds ranks that would be late *behind* the first ones.

use crate::api::Options;
use crate::efficiency::account::StepLength;
use crate::stragglers::chance::APART_PCT;
use crate::stragglers::delays::{delay_sums, own_gains};
use crate::stragglers::job_chains::JobChains;
use crate::stragglers::judge_round::JudgeRound;
use crate::stragglers::judge_round::REMAIN;
use crate::stragglers::straggler::{Judgement, Straggler};
use hta_base::order_statistics::median;
use hta_base::units::Ns;
use hta_job::Job;
use hta_job::delay::{StepKey, median_step};
use std::collections::BTreeSet;

/// Largest number of rounds of removing stragglers and judging again.
const ROUNDS: usize = 4;

pub(crate) fn judge(job: &Job, options: &Options, chains: &JobChains) -> Judgement {
    let first = &chains.all;
    let steps: Vec<StepKey> =
        first.iter().filter_map(|c| c.step).collect::<BTreeSet<_>>().into_iter().collect();
    let median_step = median_step(job);
    let thresholds = thresholds(job, median_step, options);
    let (mut stragglers, mut unproven, mut p_values): (Vec<Straggler>, _, _) = Default::default();
    let mut named: BTreeSet<u32> = BTreeSet::new();
    let mut largest = None;
    // With one step, ranks that are late behind others cannot be distinguished from chance.
    for round in 0..if steps.len() > 1 { ROUNDS } else { 1 } {
        let later;
        let of_round = if round == 0 {
            first
        } else {
            later = chains.without(job, options, &named);
            &later
        };
        let is_first = round == 0;
        let apart = (median_step as f64 * APART_PCT / 100.0) as Ns;
        let round = JudgeRound::new(of_round, &steps, (&thresholds, apart));
        if !is_first && round.parts.len() < REMAIN {
            break;
        }
        let mut found = round.judge(is_first);
        if is_first {
            largest = round.largest();
            unproven = found.unproven;
            p_values = found.p_values;
        }
        if found.stragglers.is_empty() {
            break;
        }
        let behind: Vec<u32> = named.iter().copied().collect();
        named.extend(found.stragglers.iter().flat_map(|s| s.parts.iter().copied()));
        found.stragglers.iter_mut().for_each(|s| s.behind = behind.clone());
        stragglers.extend(found.stragglers);
    }
    stragglers.sort_by_key(|s| (!s.behind.is_empty(), std::cmp::Reverse(s.gain), s.parts.clone()));
    let unconfirmed = Vec::new();
    let length = StepLength::of(job);
    Judgement {
        stragglers,
        unconfirmed,
        length,
        unproven,
        delays: delay_sums(job, first),
        own_gains: own_gains(first),
        steps,
        median_step,
        thresholds,
        p_values,
        largest,
    }
}

fn thresholds(job: &Job, median_step: Ns, options: &Options) -> Vec<Ns> {
    let share = (median_step as f64 * options.across.straggler_min_pct / 100.0).round() as Ns;
    let synchronous = job.instances().iter().enumerate().filter(|(_, i)| i.is_synchronous() && i.len() > 1);
    let mut skews: Vec<Ns> = synchronous.map(|(id, _)| job.arrivals(id).end_skew).collect();
    let skew = median(&mut skews).unwrap_or(0);
    job.clocks.iter().map(|c| share.max(3 * skew.max(c.residual)).max(1)).collect()
}

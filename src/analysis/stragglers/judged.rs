//! The stragglers of a job with their reasons, computed once for all analyses.

use crate::api::Options;
use crate::stragglers::by_work;
use crate::stragglers::confirm::confirm;
use crate::stragglers::job_chains::JobChains;
use crate::stragglers::judge::judge;
use crate::stragglers::straggler::{Judgement, Straggler};
use crate::stragglers::why::{StepDifferences, explain, main_cause, of_all_work, reasons};
use hta_base::units::percent;
use hta_job::Job;
use hta_job::balanced::BalancedExperts;
use hta_job::cause::DelayCause;
use hta_job::experts::JobLayers;
use hta_job::replay::ReplayedJob;
use std::sync::Arc;

/// The stragglers of a job, and why they are late.
pub struct Judged {
    pub judgement: Judgement,
    pub why: Vec<StepDifferences>,
}

/// Who is late because of tokens is repaired by equal numbers of tokens, not by becoming as the others are.
/// How much faster equal exchanges are is only bounded, and no part of it. What it takes longer beside them,
/// by `min_pct` of the time or more, makes it a straggler of its own.
fn balance_tokens(
    job: &Job,
    judgement: &mut Judgement,
    why: &[StepDifferences],
    replayed: &ReplayedJob,
    min_pct: f64,
) {
    let is_by_tokens = |s: &Straggler| main_cause(s, why) == Some(DelayCause::MoreTokens);
    if !judgement.stragglers.iter().any(is_by_tokens) {
        return;
    }
    let balanced = BalancedExperts::of(job, &JobLayers::of(job), false);
    let gain = replayed.gain(&balanced.run(&replayed.replay, false), &judgement.length.keys);
    let time = judgement.length.time;
    let beside = |s: &Straggler| {
        let rest = Straggler { is_beside_tokens: true, ..s.clone() };
        // Behind its repair it is late by its tokens still, so that all of it is saved.
        let gain = reasons(&rest, why).1.min(s.gain);
        percent(gain, time).is_some_and(|pct| pct >= min_pct).then_some(Straggler { gain, ..rest })
    };
    let mut others = Vec::new();
    for s in judgement.stragglers.iter_mut().filter(|s| is_by_tokens(s)) {
        others.extend(beside(s));
        s.gain = gain;
    }
    judgement.stragglers.extend(others);
}

/// Judges the ranks of a job once; all analyses of a job have the same options.
pub fn judged(job: &Job, options: &Options) -> Arc<Judged> {
    job.shared(|job| {
        // Before the chains, because making it takes memory beside them.
        let replayed = ReplayedJob::of(job).filter(|r| r.is_reliable());
        let chains = JobChains::of(job, options);
        let mut judgement = judge(job, options, &chains);
        if let Some(replayed) = replayed.as_deref() {
            confirm(options, &mut judgement, replayed);
            by_work::add(job, options, &mut judgement, replayed);
        }
        let mut why = explain(job, &judgement, &chains);
        if let Some(replayed) = replayed.as_deref() {
            of_all_work(job, &judgement, replayed, &mut why);
            balance_tokens(job, &mut judgement, &why, replayed, options.across.straggler_min_pct);
        }
        Judged { judgement, why }
    })
}

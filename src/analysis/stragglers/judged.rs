//! The stragglers of a job with their reasons, computed once for all analyses.

use crate::api::Options;
use crate::job::Job;
use crate::job::balanced::BalancedExperts;
use crate::job::cause::DelayCause;
use crate::job::experts::JobLayers;
use crate::job::replay::ReplayedJob;
use crate::stragglers::by_work;
use crate::stragglers::confirm::confirm;
use crate::stragglers::job_chains::JobChains;
use crate::stragglers::judge::judge;
use crate::stragglers::straggler::{Judgement, Straggler};
use crate::stragglers::why::{StepDifferences, explain, main_cause, of_all_work};
use std::sync::Arc;

/// The stragglers of a job, and why they are late.
pub struct Judged {
    pub(crate) judgement: Judgement,
    pub(crate) why: Vec<StepDifferences>,
}

/// Who is late because of tokens is repaired by equal numbers of tokens, not by becoming as the others are.
/// How
/// much faster equal exchanges are is only bounded, and no part of it.
fn balance_tokens(job: &Job, judgement: &mut Judgement, why: &[StepDifferences], replayed: &ReplayedJob) {
    let is_by_tokens = |s: &Straggler| main_cause(s, why) == Some(DelayCause::MoreTokens);
    if judgement.stragglers.iter().any(is_by_tokens) {
        let balanced = BalancedExperts::of(job, &JobLayers::of(job), false);
        let gain = replayed.gain(&balanced.run(&replayed.replay, false), &judgement.length.keys);
        judgement.stragglers.iter_mut().filter(|s| is_by_tokens(s)).for_each(|s| s.gain = gain);
    }
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
            balance_tokens(job, &mut judgement, &why, replayed);
        }
        Judged { judgement, why }
    })
}

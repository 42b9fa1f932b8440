//! The stragglers of a job with their reasons, computed once for all analyses.

use crate::api::Options;
use crate::job::Job;
use crate::job::replay::ReplayedJob;
use crate::stragglers::by_work;
use crate::stragglers::confirm::confirm;
use crate::stragglers::job_chains::JobChains;
use crate::stragglers::judge::judge;
use crate::stragglers::straggler::Judgement;
use crate::stragglers::why::{StepDifferences, explain, of_all_work};
use std::sync::Arc;

/// The stragglers of a job, and why they are late.
pub struct Judged {
    pub(crate) judgement: Judgement,
    pub(crate) why: Vec<StepDifferences>,
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
        }
        Judged { judgement, why }
    })
}

//! The stragglers of a job with their reasons, computed once for all analyses.

use crate::analysis::api::Options;
use crate::analysis::stragglers::judge::{Judgement, judge};
use crate::analysis::stragglers::why::{StepDifferences, explain};
use crate::job::Job;
use std::sync::Arc;

/// The stragglers of a job, and why they are late.
pub struct Judged {
    pub judgement: Judgement,
    pub why: Vec<StepDifferences>,
}

/// Judges the ranks of a job once; all analyses of a job have the same options.
pub fn judged(job: &Job, options: &Options) -> Arc<Judged> {
    job.shared(|job| {
        let judgement = judge(job, options);
        let why = explain(job, &judgement);
        Judged { judgement, why }
    })
}

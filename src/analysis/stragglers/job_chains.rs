//! The chains that ranks are judged by. They take much memory, so they are dropped when all ranks are judged.

use crate::api::Options;
use crate::collectives::GroupSelection;
use hta_job::Job;
use hta_job::delay::{Chain, StepKey, chains};
use hta_job::replicas::replica_chains;
use hta_job::window::{Windows, all_windows};
use std::collections::BTreeSet;

/// The chains of the selected groups and steps, and the local time before each call.
pub(crate) struct JobChains {
    pub(crate) windows: Windows,
    pub(crate) all: Vec<Chain>,
}

impl JobChains {
    pub(crate) fn of(job: &Job, options: &Options) -> Self {
        let mut chains = Self { windows: all_windows(job), all: Vec::new() };
        chains.all = chains.without(job, options, &BTreeSet::new());
        chains
    }

    /// The chains as if some parts did not exist.
    pub(crate) fn without(&self, job: &Job, options: &Options, parts: &BTreeSet<u32>) -> Vec<Chain> {
        let mut all = chains(job, &self.windows, parts);
        all.extend(replica_chains(job, &self.windows, parts));
        asked(job, options, all)
    }
}

/// Chains of the selected groups and steps.
fn asked(job: &Job, options: &Options, chains: Vec<Chain>) -> Vec<Chain> {
    let shown = GroupSelection::new(job, options);
    let in_step = |c: &Chain| match (&options.model.steps, c.step) {
        (None, _) => true,
        (Some(filter), Some(StepKey::Label(l))) => filter.keeps(u32::MAX, Some(l)),
        (Some(filter), Some(StepKey::Index(i))) => filter.keeps(i, None),
        (Some(_), None) => false,
    };
    chains.into_iter().filter(|c| shown.has(c.group) && in_step(c)).collect()
}

//! What is said below the views of the layers of experts.

use crate::experts::correlation::TokenCorrelation;
use crate::experts::imbalance::ExpertImbalance;
use hta_base::units::{Ns, fmt_ns};
use hta_job::Job;
use hta_job::experts::{JobLayer, JobLayers};
use std::collections::BTreeSet;

pub(super) fn notes(job: &Job, layers: &JobLayers) -> Vec<String> {
    let mut out = Vec::new();
    let mut passes = job.parts.iter().flat_map(|p| p.layers.iter()).peekable();
    if passes.peek().is_none() {
        out.push(
            "no layers of experts found: no dispatch and combine of tokens with compute between them is \
             recorded"
                .to_string(),
        );
    } else if passes.any(|l| l.expert.is_none()) {
        out.push(
            "experts compute in fused kernels, together with the exchange of their tokens: their times, and \
             which rank is hot, cannot be told"
                .to_string(),
        );
    } else if layers.layers.iter().all(|l| l.balance.is_none()) {
        out.push(
            "layers of experts are recorded, but not those of all ranks of a group: who waits for whom is \
             not known"
                .to_string(),
        );
    }
    let is_unknown = |l: &JobLayer| l.balance.is_some_and(|b| b.load_ratio.is_none());
    if layers.layers.iter().any(is_unknown) {
        out.push(
            "sizes of some exchanges are not recorded, so hot experts cannot be told from slow devices here \
             (`hta stragglers` compares all else that a rank computes): record shapes, or log the tokens of \
             each expert"
                .to_string(),
        );
    }
    if layers.layers.iter().any(|l| l.agrees == Some(false)) {
        out.push("some ranks received other sizes than were sent to them: the match is doubtful".to_string());
    }
    let excess: Ns = layers.layers.iter().filter_map(|l| l.balance).map(|b| b.excess()).sum();
    let steps: BTreeSet<_> = layers.layers.iter().map(|l| l.step).collect();
    if excess > 0 {
        out.push(format!(
            "excess of all layers together: {} a step, an upper bound of what equal expert times save",
            fmt_ns(excess / steps.len().max(1) as Ns)
        ));
    }
    if let Some(c) = TokenCorrelation::of(layers) {
        let r = c.r.map_or("undefined, too few or too equal ones".to_string(), |r| format!("r = {r:.2}"));
        out.push(format!(
            "longest expert time against the largest number of tokens/mean, over {} passes: {r}",
            c.passes
        ));
    }
    if let Some(found) = ExpertImbalance::of(job).as_ref() {
        out.push(format!("{}. {}.", found.what(&job.words), found.why()));
    }
    out
}

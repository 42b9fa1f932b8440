//! `imbalance`: a rank has more compute than the others in the same steps.

use crate::late::{LateFacts, LateWords};
use crate::rule::{CauseFamily, CauseRule, LateRule};
use hta_analysis::stragglers::Straggler;
use hta_job::cause::DelayCause;
use hta_job::delay::{StepKey, step_of};
use hta_job::{Job, Member};
use hta_trace::collective::CollectiveKind;
use std::collections::BTreeMap;

pub(super) const RULE: CauseRule = CauseRule {
    name: "imbalance",
    evidence: "the same, by more compute",
    owns: "S",
    shown_by: "tests/it/analyses/diagnosis.rs",
    family: CauseFamily::Late(LateRule { words, of_all: |_| None }),
    ..CauseRule::LATE
};

fn words(late: &LateFacts) -> Option<LateWords> {
    use DelayCause::{MoreTokens, OtherKernels, SlowKernel};
    let is_compute =
        matches!(late.main, Some(SlowKernel | OtherKernels | MoreTokens)) && !late.straggler.is_beside_tokens;
    if let Some(ratio) = is_compute.then(|| excess_of_tokens(late.job, late.straggler)).flatten() {
        return Some(LateWords {
            detail: format!(", with {ratio:.2} times the mean data in all_to_all (a hot expert)"),
            action: "balance the tokens of the experts: load-balancing loss, capacity, placement".to_string(),
            ..LateWords::default()
        });
    }
    let has_more = matches!(late.main, Some(OtherKernels | MoreTokens));
    let action = "balance the work: sequence lengths, experts, embedding tables, stages".to_string();
    has_more.then(|| LateWords { action, ..LateWords::default() })
}

/// How many times as much data as the mean rank a late rank has in some all-to-all of each of its steps, if
/// that is clearly more.
fn excess_of_tokens(job: &Job, s: &Straggler) -> Option<f64> {
    const LEAST: f64 = 1.2;
    // By step, group, place among the calls of the group, and whether the part is late: the sizes.
    let mut sizes: BTreeMap<(StepKey, u32, u32), [Vec<i64>; 2]> = BTreeMap::new();
    for (part, p) in (0u32..).zip(&job.parts) {
        let mut place: BTreeMap<(StepKey, u32), u32> = BTreeMap::new();
        for (call, c) in
            (0u32..).zip(&p.calls.calls).filter(|(_, c)| c.shape.kind == CollectiveKind::AllToAll)
        {
            let (step, group) =
                (step_of(job, Member { part, call }), job.matched.group_of(part, c.shape.group));
            let (Some(step), Some(group), Some(bytes)) = (step, group, c.shape.bytes) else { continue };
            let at = place.entry((step, group)).or_default();
            let of = sizes.entry((step, group, *at)).or_default();
            *at += 1;
            if let Some(list) = of.get_mut(usize::from(s.is_late(part, Some(step)))) {
                list.push(bytes);
            }
        }
    }
    // The largest ratio of each step, and the least of these.
    let mut by_step: BTreeMap<StepKey, f64> = BTreeMap::new();
    for ((step, ..), [others, late]) in &sizes {
        let all: i128 = others.iter().chain(late).map(|b| i128::from(*b)).sum();
        if let Some(own) = late.iter().min().filter(|_| all > 0 && !others.is_empty()) {
            let mean = all as f64 / (others.len() + late.len()) as f64;
            let most = by_step.entry(*step).or_default();
            *most = most.max(*own as f64 / mean);
        }
    }
    by_step.into_values().min_by(f64::total_cmp).filter(|ratio| *ratio >= LEAST)
}

//! Causes in the mix of kernels, which own compute time.

use crate::CauseKind;
use crate::account::{CellOfStep, RepairTime, TimePart};
use crate::cause::{Cause, GainBasis};
use crate::context::Context;
use crate::evidence::{Evidence, of_steps};
use crate::gain::{self, OwnedTime};
use crate::kernel_repairs::KernelRepairs;
use crate::mix_words::{MixWords, NewTime};
use crate::rule::KernelRule;
use hta_base::units::{fmt_ns, percent};
use hta_job::delay::StepKey;
use std::collections::BTreeSet;

/// The causes that apply to a job.
pub(crate) fn causes(context: &Context) -> Vec<Cause> {
    CauseKind::all_kernels().filter_map(|(kind, rule)| cause(context, kind, rule)).collect()
}

fn cause(context: &Context, kind: CauseKind, rule: &KernelRule) -> Option<Cause> {
    let account = context.account;
    let compute = account.sum(TimePart::Compute);
    let all = account.repair(kind);
    let share_pct = percent(all.time, compute).filter(|pct| *pct >= rule.least_pct)?;
    if !(rule.holds)(context, &all) {
        return None;
    }
    let factor = rule.assumed_factor;
    let is_known = all.known * 2 >= all.time;
    let saved = |r: &RepairTime| {
        if is_known { r.known - r.ideal } else { (r.time as f64 * (1.0 - 1.0 / factor)) as i64 }
    };
    let of_cell = |c: &CellOfStep| c.repairs.get(&kind).map_or(0, saved);
    let is_in = |c: &CellOfStep| c.repairs.get(&kind).is_some_and(|r| r.time > 0);
    let parts: BTreeSet<u32> = account.cells().filter(|(_, _, c)| is_in(c)).map(|(_, p, _)| p.0).collect();
    let ranks: Vec<u32> = parts.into_iter().map(|p| context.rank(p)).collect();
    let mut cause = context.cause(kind, "", ranks, OwnedTime::new(), gain::of_devices(account, of_cell));
    cause.compute = all.time;
    cause.basis = if is_known { rule.basis } else { GainBasis::Assumed };
    let new_time = match is_known {
        true => NewTime::Known(percent(all.ideal, all.known).unwrap_or(0.0)),
        false => NewTime::Assumed(factor),
    };
    cause.words = (rule.words)(&MixWords { context, compute, share_pct, count: all.count, new_time });
    let steps: Vec<StepKey> = account.steps.iter().filter_map(|s| s.key).collect();
    let in_steps = match of_steps(&steps) {
        steps if steps.is_empty() => "scope = 'span'".to_string(),
        steps => format!("scope IN ('step', 'device_step') AND {steps}"),
    };
    cause.evidence = vec![
        Evidence {
            table: KernelRepairs::SPEC.name,
            filter: format!("cause = '{}' AND {in_steps}", kind.name()),
            words: format!("{} of {} of compute", fmt_ns(all.time), fmt_ns(compute)),
        },
        Evidence {
            table: "time_account",
            filter: format!("part = '{}'", TimePart::Compute.name()),
            words: format!("{} of compute on all devices", fmt_ns(compute)),
        },
    ];
    Some(cause)
}

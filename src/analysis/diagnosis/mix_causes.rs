//! Causes in the mix of kernels, which own useful time.

use crate::diagnosis::account::{CellOfStep, RepairTime, TimePart};
use crate::diagnosis::advice::{self, MixWords, NewTime};
use crate::diagnosis::cause::{Cause, GainBasis};
use crate::diagnosis::context::Context;
use crate::diagnosis::evidence::Evidence;
use crate::diagnosis::gain::{self, OwnedTime};
use crate::diagnosis::kind::CauseKind;
use hta_base::units::{Ns, fmt_ns, percent};
use std::collections::BTreeSet;

/// Fewest kernels on elements that a compiler is worth.
const FEWEST: u64 = 100;
/// Smallest share of compute time, percent.
const ELEMENTWISE_PCT: f64 = 20.0;
const ATTENTION_PCT: f64 = 10.0;
const LAYOUT_PCT: f64 = 5.0;
const PRECISION_PCT: f64 = 20.0;
/// Smallest share of convolutions for which layouts are those of convolutions, percent.
const CONVOLUTIONS_PCT: f64 = 10.0;
const SMALL_PCT: f64 = 30.0;
/// Share of idle time up to which small kernels are a cause, percent: on an idle device their launches are.
const BUSY_PCT: f64 = 10.0;

/// The kinds that apply to a job.
pub(crate) fn causes(context: &Context) -> Vec<Cause> {
    let account = context.account;
    let useful = account.sum(TimePart::Useful);
    let is_large = |kind, pct| percent(account.repair(kind).time, useful).is_some_and(|p| p >= pct);
    let mix = account.mix();
    let time = |category: &str| mix.get(category).map_or(0, |m| m.time);
    let mut kinds = Vec::new();
    let elementwise = account.repair(CauseKind::KernelElementwise);
    if is_large(CauseKind::KernelElementwise, ELEMENTWISE_PCT) && elementwise.count >= FEWEST {
        kinds.push(CauseKind::KernelElementwise);
    }
    let softmax = time("softmax");
    let has_products = account.repair(CauseKind::KernelAttention).time > softmax;
    let is_fused = mix.contains_key("attention");
    if softmax > 0 && has_products && !is_fused && is_large(CauseKind::KernelAttention, ATTENTION_PCT) {
        kinds.push(CauseKind::KernelAttention);
    }
    if is_large(CauseKind::KernelLayout, LAYOUT_PCT) {
        kinds.push(CauseKind::KernelLayout);
    }
    // Autocast is for training.
    let casts = context.trust.has_tensor_cores && !context.trust.is_serving;
    if is_large(CauseKind::KernelPrecision, PRECISION_PCT) && casts {
        kinds.push(CauseKind::KernelPrecision);
    }
    let is_busy = percent(account.sum(TimePart::Idle), account.all()).is_some_and(|p| p < BUSY_PCT);
    if is_large(CauseKind::KernelSmall, SMALL_PCT) && is_busy {
        kinds.push(CauseKind::KernelSmall);
    }
    kinds.into_iter().map(|kind| cause(context, kind, useful)).collect()
}

/// How many times as fast kernels become that cannot be compared with a peak.
fn assumed_factor(kind: CauseKind) -> f64 {
    match kind {
        CauseKind::KernelPrecision => 4.0,
        CauseKind::KernelSmall => 2.0,
        _ => 3.0,
    }
}

fn cause(context: &Context, kind: CauseKind, useful: Ns) -> Cause {
    let account = context.account;
    let all = account.repair(kind);
    let factor = assumed_factor(kind);
    let is_known = all.known * 2 >= all.time;
    let saved = |r: &RepairTime| {
        if is_known { r.known - r.ideal } else { (r.time as f64 * (1.0 - 1.0 / factor)) as Ns }
    };
    let of_cell = |c: &CellOfStep| c.repairs.get(&kind).map_or(0, saved);
    let places: BTreeSet<u32> = account
        .cells()
        .filter(|(_, _, c)| c.repairs.get(&kind).is_some_and(|r| r.time > 0))
        .map(|(_, p, _)| p.0)
        .collect();
    let ranks: Vec<u32> = places.into_iter().map(|p| context.rank(p)).collect();
    let mut cause = context.cause(kind, "", ranks, OwnedTime::new(), gain::of_devices(account, of_cell));
    cause.useful = all.time;
    cause.basis = match kind {
        _ if !is_known => GainBasis::Assumed,
        CauseKind::KernelElementwise | CauseKind::KernelLayout => GainBasis::Bound,
        _ => GainBasis::Roofline,
    };
    let new_time =
        if is_known { NewTime::Known(percent(all.ideal, all.known).unwrap_or(0.0)) } else { NewTime::Assumed(factor) };
    let share = percent(all.time, useful).unwrap_or(0.0);
    // A patch embedding alone does not make a network of convolutions.
    let convolutions = account.mix().get("convolution").map_or(0, |m| m.time);
    let has_convolutions = percent(convolutions, useful).is_some_and(|p| p >= CONVOLUTIONS_PCT);
    let words = MixWords { share, count: all.count, new_time, has_convolutions, trust: context.trust };
    (cause.sentence, cause.action) = advice::kernel_mix(kind, &words);
    cause.evidence = vec![Evidence {
        table: "kernels_by_name",
        filter: "class = 'compute'".to_string(),
        words: format!("{} of {} of compute", fmt_ns(all.time), fmt_ns(useful)),
    }];
    cause
}

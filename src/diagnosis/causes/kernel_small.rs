//! `kernel_small`: kernels shorter than 10 us, on a device that is busy.

use crate::account::TimePart;
use crate::cause::GainBasis;
use crate::cause_words::CauseWords;
use crate::certainty::CauseCertainty;
use crate::compute::ComputeKernel;
use crate::context::Context;
use crate::kernel_facts::{KernelFacts, KernelsAfter, SMALL, at_rate, chosen};
use crate::mix_words::MixWords;
use crate::rule::{CauseFamily, CauseRule, KernelRule};
use hta_base::units::{Ns, percent};
use hta_facts::vendor::DeviceVendor;

pub(super) const RULE: CauseRule = CauseRule {
    name: "kernel_small",
    certainty: CauseCertainty::AtMost,
    evidence: "kernels below 10 us, 30 % of U, while the device idles less than 10 %",
    shown_by: "tests/data/causes/kernel_small.json.gz",
    family: CauseFamily::Kernels(KernelRule {
        kernels,
        least_pct: 30.0,
        holds: |context, _| is_busy(context),
        names_operators: false,
        assumed_factor: 2.0,
        basis: GainBasis::Roofline,
        words,
        new_time: "FLOPs / peak or bytes / bandwidth, the longer of them",
    }),
    ..CauseRule::KERNELS
};

/// Share of idle time up to which small kernels are a cause, percent: on an idle device their launches are.
const BUSY_PCT: f64 = 10.0;

fn is_busy(context: &Context) -> bool {
    let account = context.account;
    percent(account.sum(TimePart::Idle), account.all()).is_some_and(|pct| pct < BUSY_PCT)
}

fn kernels(facts: &KernelFacts, kernels: &[ComputeKernel]) -> KernelsAfter {
    chosen(kernels, |k| (k.len < SMALL).then(|| at_peaks(facts, k)))
}

/// The kernel's share of its operator's work at the peaks of the device, ns.
fn at_peaks(facts: &KernelFacts, k: &ComputeKernel) -> Option<Ns> {
    let (call, work) = facts.works.of_activity(facts.trace, k.activity)?;
    let amount = facts.works.share(facts.trace, k.activity);
    let peaks = facts.machine.peaks(call, work);
    let of_flops = if amount.flops? == 0 { Some(0) } else { at_rate(amount.flops?, peaks.flops_per_s?) };
    Some(of_flops?.max(at_rate(amount.bytes?, peaks.bytes_per_s?)?))
}

fn words(w: &MixWords) -> CauseWords {
    let after = w.after("at the peaks of the device their work would take");
    let action = match w.context.trust.vendor {
        _ if w.context.trust.by_graph => "larger batches, fused kernels",
        DeviceVendor::Amd => "larger batches, fused kernels, torch.compile or HIP graphs",
        DeviceVendor::Nvidia => "larger batches, fused kernels, torch.compile or CUDA graphs",
        _ => "larger batches, fused kernels",
    };
    CauseWords::new("Many kernels are shorter than 10 us", format!("They take {}{after}", w.share()), action)
}

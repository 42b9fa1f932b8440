//! `host_dispatch`: the device idles while the launching thread runs operators and launches kernels.

use crate::cause_words::CauseWords;
use crate::lost_words::{LostWords, TOLD_PART_PCT};
use crate::rule::{CauseFamily, CauseRule, LAUNCHING, LostRule, OfHost};
use hta_facts::host_activity::HostActivity;
use hta_facts::vendor::DeviceVendor;
use hta_job::TimeUse;

pub(super) const RULE: CauseRule = CauseRule {
    name: "host_dispatch",
    evidence: "I while it runs operators and launches",
    owns: "I, S behind it",
    shown_by: "tests/data/causes/host_dispatch.json.gz",
    family: CauseFamily::Lost(LostRule {
        of_host: OfHost::Any(|_, m| Some(m.own())),
        is_cold: |_| true,
        uses: Some(&[
            TimeUse::Host(HostActivity::Operator),
            TimeUse::Host(HostActivity::CommunicationOperator),
            TimeUse::Host(HostActivity::LaunchCall),
            TimeUse::Host(HostActivity::RuntimeCall),
            TimeUse::KernelWait,
        ]),
        late_by: LAUNCHING,
        // Operators that are not launched one by one take no time on the host.
        saves: |own, _| own,
        is_told,
        words,
        // A part of what is spread over many operators is not named.
        names_parts: |w| w.top.first().is_some_and(|t| t.share >= TOLD_PART_PCT),
        tint: Some(2),
        ..LostRule::HOST
    }),
    ..CauseRule::HOST
};

/// Smallest gain between graph launches, where a host has little to do, and where one operator takes much of
/// the time, percent of the time of the job.
const LARGE_PCT: f64 = 10.0;

fn is_told(w: &LostWords) -> bool {
    let is_large = w.gain_pct.is_some_and(|pct| pct >= LARGE_PCT);
    // Where graphs are replayed, launching one by one costs nothing; what does is told by part of the
    // iteration.
    let has_owner = w.trust.by_graph && w.trust.is_serving;
    w.trust.vendor != DeviceVendor::Host
        && !has_owner
        && (is_large || !w.trust.by_graph && !w.has_large_part())
}

fn words(w: &LostWords) -> CauseWords {
    let by_graph = w.trust.by_graph;
    let action = match w.trust.vendor {
        DeviceVendor::Nvidia if by_graph => {
            "fewer pieces between graph launches, less scheduling on the host"
        }
        DeviceVendor::Nvidia => "torch.compile or CUDA graphs, or a larger batch",
        DeviceVendor::Amd => "torch.compile or HIP graphs, or a larger batch",
        _ => "larger batches, fewer and larger operators",
    };
    let runs = if by_graph { "launches too slowly" } else { "launches kernels one by one" };
    CauseWords::new(
        format!("{} while the host {runs}", w.device_of_ranks("waits")),
        format!("{}{}", w.idle(), w.largest_part()),
        action,
    )
}

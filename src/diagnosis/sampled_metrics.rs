//! What sampled metrics of a device say of the kernels that a cause is about: how much of the memory
//! bandwidth they use, and how many multiprocessors work. A sample is a mean of all that ran in its time, so
//! it says something only of kernels that fill it.

use crate::CauseKind;
use crate::compute::ComputeKernel;
use crate::kernel_facts::KernelFacts;
use hta_base::table;
use hta_base::table::schema::Text;
use hta_base::units::{Ns, Span};
use hta_trace::device::DeviceWork;
use hta_trace::hardware_counters::{
    CounterCell, HardwareCounter, RecordedCounter, RecordedCounters, mean_over,
};
use hta_trace::interval::Union;
use hta_trace::timeline::WorkClass;

table! {
    /// Means of sampled metrics while kernels of a cause run, if samples can tell these from others.
    pub(crate) struct SampledMeans, SampledMeanRow = "sampled_means" by "rank, device, cause, kind" {
        rank; device;
        cause: Text, "", "kind of cause; empty: all busy time";
        kind: Text, "", "what is measured";
        model: Option<Text>, "", "name of the device";
        mean_pct: f64, "%", "mean over their time";
        covered_ns: i64, "ns", "their time inside samples";
    }
}

table! {
    /// Samples of the traffic of links, in percent, where communication runs that no compute hides.
    pub(crate) struct LinkSamples, LinkSampleRow = "link_samples" by "rank, device, kind, start_ns" {
        rank; device;
        kind: Text, "", "what is measured";
        model: Option<Text>, "", "name of the device";
        start_ns: i64, "ns", "start of the time that it is a mean of, on the rank's own clock";
        end_ns: i64, "ns", "its end";
        period_ns: i64, "ns", "usual time from a sample to the next";
        millionths: i64, "", "millionths of a percent";
    }
}

/// A sampled metric in percent.
fn in_percent(counters: &RecordedCounters, device: i64, kind: HardwareCounter) -> Option<&RecordedCounter> {
    counters.of(device, kind).filter(|c| c.unit == Some("%"))
}

/// Adds the means of a device.
pub(crate) fn push(
    (means, links): (&mut SampledMeans, &mut LinkSamples),
    facts: &KernelFacts,
    work: &DeviceWork,
    kernels: &[ComputeKernel],
) {
    let (trace, counters) = (facts.trace, &facts.trace.counters);
    let Some(device) = work.device.filter(|id| counters.pm_sampling.contains_key(id)) else { return };
    let model = trace.device_properties(work.device).map(|d| d.name.as_str()).filter(|name| !name.is_empty());
    let mut add = |cause, kind: HardwareCounter, set: &Union, shortest: Option<Ns>| {
        let Some(counter) = in_percent(counters, device, kind) else { return };
        let mean = mean_over(&counter.cells, set);
        if let Some(mean_pct) = mean.value().filter(|_| mean.is_resolved(shortest, counter.period)) {
            let (rank, device, kind, covered_ns) = (trace.rank, work.device, kind.key(), mean.covered);
            means.push(SampledMeanRow { rank, device, cause, kind, model, mean_pct, covered_ns });
        }
    };
    let busy = work.timeline.busy();
    let shortest = busy.spans().iter().map(|s| s.len()).min();
    add("", HardwareCounter::SmActive, &busy, shortest);
    for (kind, rule) in CauseKind::all_kernels() {
        let of: Vec<usize> = (rule.kernels)(facts, kernels).into_iter().map(|(i, _)| i).collect();
        let chosen = || of.iter().filter_map(|i| kernels.get(*i));
        if of.is_empty() {
            continue;
        }
        add(
            kind.name(),
            HardwareCounter::Hbm,
            &Union::new(chosen().map(|k| k.own).collect::<Vec<Span>>()),
            chosen().map(|k| k.len).min(),
        );
    }
    let of_class = |class: WorkClass| {
        let all = work.activities.iter().filter_map(|i| trace.activities.get(*i as usize));
        Union::new(all.filter(|a| a.work == class).map(|a| a.span).collect::<Vec<Span>>())
    };
    let exposed = of_class(WorkClass::Communication).minus(&of_class(WorkClass::Compute));
    for kind in [HardwareCounter::NvlinkRx, HardwareCounter::NvlinkTx] {
        let Some(counter) = in_percent(counters, device, kind) else { continue };
        let cells = exposed.overlaps(&counter.cells, |cell| cell.span).into_iter().map(|(cell, _)| cell);
        for CounterCell { span, millionths, .. } in cells {
            let Some(millionths) = millionths.and_then(|m| i64::try_from(m).ok()) else { continue };
            links.push(LinkSampleRow {
                rank: trace.rank,
                device: work.device,
                kind: kind.key(),
                model,
                start_ns: span.start,
                end_ns: span.end,
                period_ns: counter.period.unwrap_or(0),
                millionths,
            });
        }
    }
}

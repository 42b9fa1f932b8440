//! Sampled metrics as evidence of causes: `bandwidth_bound` and `sm_idle_inside` for kernels,
//! `link_saturated` for exposed transfers. They support or contradict a cause, and are none themselves.

use crate::CauseKind;
use crate::account::TimePart;
use crate::cause::Cause;
use crate::certainty::CauseCertainty;
use crate::evidence::{Evidence, of_ranks};
use crate::sampled_metrics::{LinkSampleRow, LinkSamples, SampledMeanRow, SampledMeans};
use hta_analysis::api::{Partial, rows};
use hta_base::units::{Ns, Span, fmt_pct};
use hta_job::exposed::{ExposedKind, divide};
use hta_job::{Job, Member};
use hta_trace::hardware_counters::{CounterCell, HardwareCounter, mean_over};
use hta_trace::interval::Union;
use std::collections::BTreeMap;

/// Use of the memory bandwidth from which on kernels are bound by it, percent of the peak.
const BANDWIDTH_PCT: f64 = 70.0;
/// Use of a link from which on it is full, percent,
const FULL_PCT: f64 = 80.0;
/// and below which it is not what the transfers wait for.
const EMPTY_PCT: f64 = 30.0;
/// Multiprocessors that work while the device is busy, below which kernels leave many idle, percent.
const ACTIVE_PCT: f64 = 50.0;

/// Adds what sampled metrics say to the causes of a job.
pub(crate) fn add(job: &Job, partials: &[Partial], causes: &mut [Cause]) {
    let means: Vec<SampledMeanRow> = rows::<SampledMeans>(partials).collect();
    for cause in causes.iter_mut().filter(|c| c.kind.kernels().is_some()) {
        bandwidth_bound(&means, cause);
        if cause.kind == CauseKind::KernelSmall {
            sm_idle_inside(&means, cause);
        }
    }
    let is_transfer = |c: &&mut Cause| c.owned_part(TimePart::Transfer) > 0 && c.kind.is_of_transfers();
    let owner = causes.iter_mut().filter(is_transfer).max_by_key(|c| c.owned_part(TimePart::Transfer));
    if let Some((cause, found)) = owner.zip(link_use(job, &rows::<LinkSamples>(partials).collect::<Vec<_>>()))
    {
        link_saturated(cause, found);
    }
}

/// The mean percentage of a device over the time for which it was sampled, ns.
struct DevicePct<'a> {
    rank: u32,
    model: Option<&'a str>,
    pct: f64,
    covered: Ns,
}

/// The mean over devices, weighted by time, and their ranks; `None` for devices of several models, whose
/// percentages are of different peaks.
fn mean_of_devices(devices: &[DevicePct]) -> Option<(f64, Vec<u32>)> {
    let time: Ns = devices.iter().map(|d| d.covered).sum();
    let sum: f64 = devices.iter().map(|d| d.pct * d.covered as f64).sum();
    let models: Vec<Option<&str>> = devices.iter().map(|d| d.model).collect();
    (time > 0 && is_of_one_model(&models))
        .then(|| (sum / time as f64, devices.iter().map(|d| d.rank).collect()))
}

/// The mean over the ranks of a cause.
fn mean(means: &[SampledMeanRow], cause: &str, kind: HardwareCounter) -> Option<(f64, Vec<u32>)> {
    let of_cause = means.iter().filter(|m| m.cause == cause && m.kind == kind.key());
    let devices: Vec<DevicePct> = of_cause
        .map(|m| DevicePct { rank: m.rank, model: m.model, pct: m.mean_pct, covered: m.covered_ns })
        .collect();
    mean_of_devices(&devices)
}

/// Whether percentages of devices are of the same peak, given their models.
fn is_of_one_model(models: &[Option<&str>]) -> bool {
    match models {
        [] => false,
        [_] => true,
        [first, others @ ..] => first.is_some() && others.iter().all(|model| model == first),
    }
}

fn evidence(kind: HardwareCounter, ranks: &[u32], words: String) -> Evidence {
    let filter = format!("{} AND kind = '{}'", of_ranks(ranks), kind.key());
    Evidence { table: "hardware_counters", filter, words }
}

fn of_means(cause: &str, kind: HardwareCounter, ranks: &[u32], words: String) -> Evidence {
    let filter = format!("{} AND cause = '{cause}' AND kind = '{}'", of_ranks(ranks), kind.key());
    Evidence { table: SampledMeans::SPEC.name, filter, words }
}

fn bandwidth_bound(means: &[SampledMeanRow], cause: &mut Cause) {
    let found = mean(means, cause.kind.name(), HardwareCounter::Hbm);
    let Some((pct, ranks)) = found.filter(|(pct, _)| *pct >= BANDWIDTH_PCT) else { return };
    let mut words = format!("HBM {} of peak while they run", fmt_pct(Some(pct)));
    if cause.kind == CauseKind::KernelPrecision {
        // Arithmetic is not what these products wait for, so that a faster one gains less.
        words.push_str(": bound by memory rather than by arithmetic");
        cause.certainty = CauseCertainty::AtMost;
    }
    cause.evidence.push(of_means(cause.kind.name(), HardwareCounter::Hbm, &ranks, words));
}

fn sm_idle_inside(means: &[SampledMeanRow], cause: &mut Cause) {
    let found = mean(means, "", HardwareCounter::SmActive);
    let Some((pct, ranks)) = found.filter(|(pct, _)| *pct < ACTIVE_PCT) else { return };
    let words = format!("{} of the multiprocessors work in busy time", fmt_pct(Some(pct)));
    cause.evidence.push(of_means("", HardwareCounter::SmActive, &ranks, words));
}

/// The fuller direction of the links during exposed transfers, percent, and the ranks of which it is known;
/// `None` for devices of several models.
fn link_use(job: &Job, samples: &[LinkSampleRow]) -> Option<(HardwareCounter, f64, Vec<u32>)> {
    if samples.is_empty() {
        return None;
    }
    type LinkOf<'a> = (&'a str, u32, Option<i64>);
    let mut cells: BTreeMap<LinkOf, (Vec<CounterCell>, Ns, Option<&str>)> = BTreeMap::new();
    for s in samples {
        let of = cells.entry((s.kind, s.rank, s.device)).or_default();
        let (span, value) = (Span::new(s.start_ns, s.end_ns), s.millionths as f64 / 1e6);
        of.0.push(CounterCell { span, value, millionths: Some(i128::from(s.millionths)) });
        (of.1, of.2) = (s.period_ns, s.model);
    }
    let of_kind = |kind: HardwareCounter| {
        let mut devices: Vec<DevicePct> = Vec::new();
        for (part, p) in (0u32..).zip(&job.parts) {
            for (l, lane) in p.lanes.iter().enumerate() {
                let of_lane = cells.get(&(kind.key(), p.rank, lane.device));
                let Some((cells, period, model)) = of_lane else { continue };
                let transfers = transfers(job, part, l, &lane.exposed);
                let shortest = transfers.spans().iter().map(|s| s.len()).min();
                let mean = mean_over(cells, &transfers);
                if let Some(pct) = mean.value().filter(|_| mean.is_resolved(shortest, Some(*period))) {
                    devices.push(DevicePct { rank: p.rank, model: *model, pct, covered: mean.covered });
                }
            }
        }
        mean_of_devices(&devices).map(|(pct, ranks)| (kind, pct, ranks))
    };
    let both = [HardwareCounter::NvlinkRx, HardwareCounter::NvlinkTx].into_iter().filter_map(of_kind);
    both.max_by(|a, b| a.1.total_cmp(&b.1))
}

/// When data is transferred on a lane that no compute hides.
fn transfers(job: &Job, part: u32, lane: usize, exposed: &[Span]) -> Union {
    let calls = job.parts.get(part as usize).map(|p| p.calls_in(lane, Span::new(Ns::MIN, Ns::MAX)));
    let runs: Vec<_> = calls.into_iter().flatten().map(|call| job.run(Member { part, call })).collect();
    let pieces = divide(exposed, &runs).into_iter().filter(|p| p.what == ExposedKind::Transfer);
    Union::new(pieces.map(|p| p.span).collect::<Vec<Span>>())
}

fn link_saturated(cause: &mut Cause, (kind, pct, ranks): (HardwareCounter, f64, Vec<u32>)) {
    let shown = fmt_pct(Some(pct));
    let words = match pct {
        p if p >= FULL_PCT => format!("NVLink {shown} of peak during exposed transfers: the link is full"),
        p if p < EMPTY_PCT => {
            format!(
                "NVLink {shown} of peak during exposed transfers: the link is not full: latency or waiting"
            )
        }
        _ => return,
    };
    cause.evidence.push(evidence(kind, &ranks, words));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_of_one_peak_only_for_one_known_model() {
        assert!(!is_of_one_model(&[]));
        assert!(is_of_one_model(&[None]));
        assert!(is_of_one_model(&[Some("H100"), Some("H100")]));
        assert!(!is_of_one_model(&[Some("H100"), Some("A100")]));
        assert!(!is_of_one_model(&[None, None]));
        assert!(!is_of_one_model(&[Some("H100"), None]));
    }
}

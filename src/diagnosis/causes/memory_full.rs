//! `memory_full`: the memory of a device is nearly full at the peak.

use crate::rule::{CauseFamily, CauseRule, MemoryRule};
use crate::threat::{MemoryFacts, SITE, Threat, nearly_full};
use hta_analysis::memory::holders::BEFORE;
use hta_analysis::memory::report::{ReportedDevice, content_at, size};
use hta_analysis::memory::tables::MemoryPeakRow;
use hta_base::units::{fmt_pct, percent};
use hta_base::wording::names::clip;
use hta_trace::memory_moment::MemoryMoment;
use std::cmp::Reverse;

pub(super) const RULE: CauseRule = CauseRule {
    name: "memory_full",
    evidence: "a peak of more than 90 % of the device, engines of inference excepted",
    shown_by: "tests/it/analyses/diagnosis.rs",
    family: CauseFamily::Memory(MemoryRule {
        threats: |facts| facts.peaks.iter().find_map(|peak| nearly(facts, peak)).into_iter().collect(),
        action: "hold less at the peak before the batch or the model grows: activation checkpointing, \
                 sharded states; hta memory shows what holds it",
        table: "memory_peaks",
        condition: "scope = 'capture'",
        site: Some(("memory_content", "moment = 'peak' AND key")),
    }),
    ..CauseRule::MEMORY
};

/// The peak of a device that is nearly full, and what holds most of it.
fn nearly(facts: &MemoryFacts, peak: &MemoryPeakRow) -> Option<Threat> {
    let (total, share) = nearly_full(peak, peak.peak_bytes)?;
    let place = ReportedDevice::of(peak);
    let largest = |kind: &str| {
        let content = content_at(facts.of_rank, &place, kind, MemoryMoment::Peak);
        let known = content.iter().filter(|r| r.key != BEFORE && !r.key.starts_with('['));
        known.max_by_key(|r| (r.bytes, Reverse(r.key))).map(|r| (r.key.to_string(), r.bytes))
    };
    let holder = largest("line").or_else(|| largest("op"));
    let held = holder.as_ref().map_or(String::new(), |(key, bytes)| {
        format!("; `{}` holds {} of it", clip(key, SITE), fmt_pct(percent(*bytes, peak.peak_bytes)))
    });
    Some(Threat {
        device_type: peak.device_type.to_string(),
        device: peak.device,
        bytes: Some(peak.peak_bytes),
        weight: (share * 10.0) as i64,
        site: holder.map_or(String::new(), |(key, _)| key),
        words: format!(
            "GPU memory of {} is nearly full: {} of {} at the peak ({}){held}",
            place.shown(true),
            size(peak.peak_bytes),
            size(total),
            fmt_pct(Some(share))
        ),
        evidence: format!("peak of {}, {} of the device", size(peak.peak_bytes), fmt_pct(Some(share))),
    })
}

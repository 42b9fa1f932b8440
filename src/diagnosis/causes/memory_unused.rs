//! `memory_unused`: the memory of a device is reserved nearly whole, but much of it is not allocated.

use crate::rule::{CauseFamily, CauseRule, MemoryRule};
use crate::threat::{Threat, nearly_full};
use hta_analysis::memory::report::{ReportedDevice, size};
use hta_analysis::memory::tables::MemoryPeakRow;
use hta_base::units::{fmt_pct, percent};

pub(super) const RULE: CauseRule = CauseRule {
    name: "memory_unused",
    evidence: "more than 90 % of the device are reserved, and more than 20 % of that is not allocated at the \
               peak",
    shown_by: "tests/it/analyses/diagnosis.rs",
    family: CauseFamily::Memory(MemoryRule {
        threats: |facts| facts.peaks.iter().find_map(unused).into_iter().collect(),
        action: "record a snapshot (torch.cuda.memory._record_memory_history) and run hta memory on it: it \
                 tells fragmented from cached memory; PYTORCH_ALLOC_CONF=expandable_segments:True repairs \
                 the first",
        table: "memory_peaks",
        condition: "scope = 'capture'",
        site: None,
    }),
    ..CauseRule::MEMORY
};

/// Share of the reserved memory that is not allocated at the peak, from which on it is told, percent.
const UNUSED_PCT: f64 = 20.0;

/// A device whose memory is reserved nearly whole, although much of it is not allocated even at the peak.
fn unused(peak: &MemoryPeakRow) -> Option<Threat> {
    let reserved = peak.reserved_bytes?;
    let (total, _) = nearly_full(peak, reserved)?;
    let unused = reserved.saturating_sub(peak.peak_bytes);
    let share = percent(unused, reserved).filter(|p| *p > UNUSED_PCT)?;
    let place = ReportedDevice::of(peak);
    Some(Threat {
        device_type: peak.device_type.to_string(),
        device: peak.device,
        bytes: Some(unused),
        weight: unused,
        site: String::new(),
        words: format!(
            "The caching allocator of {} has {} of {} reserved, but {} of that ({}) are not allocated even \
             at the peak: fragmented or cached, which a trace cannot tell",
            place.shown(true),
            size(reserved),
            size(total),
            size(unused),
            fmt_pct(Some(share))
        ),
        evidence: format!(
            "{} of {} reserved bytes are not allocated at the peak",
            size(unused),
            size(reserved)
        ),
    })
}

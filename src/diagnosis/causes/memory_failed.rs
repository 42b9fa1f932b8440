//! `memory_failed`: requests for memory failed.

use crate::rule::{CauseFamily, CauseRule, MemoryRule};
use crate::threat::{MemoryFacts, Threat, at_site};
use hta_analysis::memory::report::{ReportedDevice, size};
use hta_base::wording::counts::{capital, counted};
use std::cmp::Reverse;

pub(super) const RULE: CauseRule = CauseRule {
    name: "memory_failed",
    evidence: "requests for memory that failed",
    shown_by: "tests/it/analyses/diagnosis.rs",
    family: CauseFamily::Memory(MemoryRule {
        threats,
        action: "hold less at the peak (a smaller batch, activation checkpointing); hta memory shows what \
                 holds it",
        table: "memory_events",
        condition: "kind = 'oom'",
        site: None,
    }),
    ..CauseRule::MEMORY
};

fn threats(facts: &MemoryFacts) -> Vec<Threat> {
    let told = facts.events("oom").into_iter().filter_map(|((device_type, device), all)| {
        let largest = all.iter().max_by_key(|r| (r.bytes, Reverse(r.ts_ns)))?;
        let (bytes, site) = (largest.bytes.unwrap_or(0), largest.site.unwrap_or(""));
        let place = ReportedDevice { rank: largest.rank, device_type, device }.shown(true);
        let requests = counted(all.len() as u64, "request");
        Some(Threat {
            device_type: device_type.to_string(),
            device,
            bytes: Some(bytes),
            weight: bytes,
            site: site.to_string(),
            words: capital(&format!(
                "{requests} for memory on {place} failed, the largest of {}{}",
                size(bytes),
                at_site(site)
            )),
            evidence: format!("{requests} failed, {} at most", size(bytes)),
        })
    });
    told.collect()
}

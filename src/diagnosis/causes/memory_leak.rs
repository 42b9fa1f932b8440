//! `memory_leak`: the level of memory grows from step to step.

use crate::certainty::CauseCertainty;
use crate::rule::{CauseFamily, CauseRule, MemoryRule};
use crate::threat::{MemoryFacts, Threat};
use hta_analysis::memory::findings::leaks;
use hta_analysis::memory::report::size;

pub(super) const RULE: CauseRule = CauseRule {
    name: "memory_leak",
    certainty: CauseCertainty::Likely,
    evidence: "the level grows in each of the last 3 full steps or more, by more than 1 MiB and 0.1 % of the \
               peak",
    shown_by: "tests/it/analyses/memory.rs",
    family: CauseFamily::Memory(MemoryRule {
        threats: |facts| fastest(facts).into_iter().collect(),
        action: "release what is kept from step to step, or bound what is collected",
        table: "memory_steps",
        condition: "step > 0 AND is_partial = false",
        site: Some(("memory_leaks", "is_recurring = true AND site")),
    }),
    ..CauseRule::MEMORY
};

/// The device whose memory grows fastest from step to step.
fn fastest(facts: &MemoryFacts) -> Option<Threat> {
    let found = leaks(facts.of_rank);
    let leak = found.first()?;
    let bytes = leak.bytes;
    Some(Threat {
        device_type: leak.place.device_type.to_string(),
        device: leak.place.device,
        bytes: Some(bytes),
        weight: bytes,
        site: leak.site(facts.of_rank).map_or(String::new(), |s| s.site.to_string()),
        words: leak.sentence(facts.of_rank),
        evidence: format!("{} more after the median step", size(bytes)),
    })
}

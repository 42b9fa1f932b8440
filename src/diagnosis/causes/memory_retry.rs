//! `memory_retry`: the caching allocator runs out of memory inside steps, gives its cache back and asks
//! again.

use crate::certainty::CauseCertainty;
use crate::rule::{CauseFamily, CauseRule, MemoryRule};
use crate::threat::{MemoryFacts, Threat, at_site};
use hta_base::units::fmt_count;
use hta_base::wording::counts::{counted, plural};
use std::cmp::Reverse;
use std::collections::BTreeMap;

pub(super) const RULE: CauseRule = CauseRule {
    name: "memory_retry",
    certainty: CauseCertainty::Likely,
    evidence: "frees of cached memory and a new request inside one operator of a step",
    shown_by: "tests/it/analyses/diagnosis.rs",
    family: CauseFamily::Memory(MemoryRule {
        threats,
        action: "leave room at the peak, or reduce fragmentation: \
                 PYTORCH_ALLOC_CONF=expandable_segments:True",
        table: "memory_events",
        condition: "kind = 'retry'",
        site: None,
    }),
    ..CauseRule::MEMORY
};

fn threats(facts: &MemoryFacts) -> Vec<Threat> {
    let steps = &facts.trace.steps.steps;
    let is_inside = |ts: i64| steps.is_empty() || steps.iter().any(|s| s.host.start <= ts && ts < s.host.end);
    let mut out = Vec::new();
    for ((device_type, device), mut all) in facts.events("retry") {
        all.retain(|r| r.ts_ns.is_some_and(is_inside));
        let mut by_site: BTreeMap<&str, u64> = BTreeMap::new();
        all.iter().for_each(|r| *by_site.entry(r.site.unwrap_or("")).or_default() += 1);
        let Some((site, most)) = by_site.into_iter().max_by_key(|(site, n)| (*n, Reverse(*site))) else {
            continue;
        };
        let count = all.len() as u64;
        let of_site = if site.is_empty() {
            String::new()
        } else {
            format!(", {} of them{}", fmt_count(most), at_site(site))
        };
        out.push(Threat {
            device_type: device_type.to_string(),
            device,
            bytes: None,
            weight: all.len() as i64,
            site: site.to_string(),
            words: format!(
                "The caching allocator of rank {} ran out of memory and gave its cache back {} inside \
                 steps{of_site}",
                facts.trace.rank,
                plural(all.len(), "time"),
            ),
            evidence: format!("{} inside steps", counted(count, "retry").replace("retrys", "retries")),
        });
    }
    out
}

//! What is said of the fabric: what the groups cannot see, and what is slow.

use crate::fabric::found::Fabric;
use crate::fabric::verdict::STEPS_LEAST;
use hta_base::wording::counts::plural;

/// What keeps places from being seen.
pub(crate) fn limits(fabric: &Fabric) -> Vec<String> {
    let mut out = Vec::new();
    if fabric.groups.is_empty() {
        out.push(
            "no place can be told: no transfer of 1 MiB or more among ranks that are all recorded, on devices"
                .to_string(),
        );
        return out;
    }
    if fabric.groups.iter().all(|g| g.factor.is_none()) {
        out.push(format!(
            "no place can be told: {} without peers; at least 3 groups that do the same are compared",
            plural(fabric.groups.len(), "group")
        ));
    }
    if !fabric.hosts.is_known {
        out.push(
            "hosts are not recorded: only the port of a rank and the link between two can be told"
                .to_string(),
        );
    }
    let steps = fabric.transfers.steps.len();
    if steps < STEPS_LEAST {
        out.push(format!("a place is named from {STEPS_LEAST} steps on; {} recorded", plural(steps, "step")));
    }
    out
}

/// What is slow.
pub(crate) fn slow_places(fabric: &Fabric) -> Vec<String> {
    let mut notes = Vec::new();
    for slow in &fabric.slow {
        notes.push(format!("{}.", fabric.sentence(slow)));
        if slow.is_lasting {
            notes.push(
                "Slowness lasts from step to step by itself here: with fewer than 30 steps this is less sure."
                    .to_string(),
            );
        }
    }
    if !notes.is_empty() {
        notes.push("what its repair saves, and what to do: `hta diagnosis`".to_string());
    }
    let is_seen = fabric.groups.iter().any(|g| g.factor.is_some());
    if notes.is_empty() && is_seen {
        notes.push("no place is slower than chance makes some".to_string());
    }
    notes
}

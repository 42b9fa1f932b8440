//! The steps of ranks of one program were found in different ways, for example by a repeat of kernels on one
//! rank and not at all on another. They are no steps of one job: the whole recording of each rank counts, and
//! nothing is told about means of steps and outliers.

use crate::recording::capability::{Capability, Grade};
use crate::recording::limit::Limit;
use crate::recording::rules::Recorded;
use hta_base::wording::ranks::ranks_named;
use std::collections::BTreeMap;

/// Name of the rule.
pub const NAME: &str = "step_rules";

pub fn find(recorded: &Recorded) -> Vec<Limit> {
    if !recorded.job.has_mixed_steps() {
        return Vec::new();
    }
    let mut rules: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for part in &recorded.job.parts {
        rules.entry(part.step_rule.name()).or_default().push(part.rank);
    }
    let each = |(rule, ranks): (&&str, &Vec<u32>)| format!("{rule} on {}", ranks_named(ranks));
    let measured = rules.iter().map(each).collect::<Vec<_>>().join(", ");
    vec![Limit {
        rank: None,
        capability: Capability::Steps,
        grade: Grade::Withheld,
        rule: NAME,
        sentence: format!("steps were found in different ways ({measured}): whole recordings are compared"),
        measured,
        limit: "one way for all ranks of a program".to_string(),
        next: "mark the steps of all ranks: call `prof.step()`, or give --step-pattern".to_string(),
    }]
}

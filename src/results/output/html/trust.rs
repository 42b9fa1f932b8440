//! What the recording of a run does not carry, from the tables `trust` and `recordings`.

use crate::results::{Results, ResultsError, columns};
use hta_analysis::recording::capability::{Capability, Grade};
use hta_analysis::recording::facts::Recordings;
use hta_analysis::recording::limit::TrustTable;
use hta_base::table::schema::Text;
use std::collections::BTreeSet;

columns! {
    Limited of TrustTable {
        rank: Option<u32>, capability: Text, grade: Text, sentence: Text, next: Text,
    }
}

columns! {
    Recorded of Recordings { rank }
}

/// Largest number of reasons that a page names.
const MOST: usize = 8;

/// A sentence for each reason: what is withheld or a bound for it, and what to record next time.
///
/// # Errors
/// When the table is damaged.
pub(crate) fn notes(results: &Results) -> Result<Vec<String>, ResultsError> {
    let mut reasons: Vec<(String, [String; 2], Vec<String>)> = Vec::new();
    results.read::<Limited>(|r| {
        let what = if r.grade == Grade::Withheld.name() { "withheld" } else { "at most" };
        let said = [r.sentence, r.next].map(str::to_string);
        let capability = r.capability.replace('_', " ");
        match reasons.iter_mut().find(|(known, words, _)| known == what && *words == said) {
            Some((_, _, of)) if of.contains(&capability) => {}
            Some((_, _, of)) => of.push(capability),
            None => reasons.push((what.to_string(), said, vec![capability])),
        }
    })?;
    let more = reasons.len().saturating_sub(MOST);
    let line = |(what, [sentence, next], of): (String, [String; 2], Vec<String>)| {
        format!("{what} ({}): {sentence}; {next}", of.join(", "))
    };
    let mut out: Vec<String> = reasons.into_iter().take(MOST).map(line).collect();
    out.extend((more > 0).then(|| format!("{more} more reasons are in the table trust")));
    Ok(out)
}

/// Ranks of whose devices nothing, or only a part, is recorded; none where that is so of all ranks.
///
/// # Errors
/// When a table is damaged.
pub(crate) fn left_out(results: &Results) -> Result<Vec<u32>, ResultsError> {
    let (mut lost, mut all) = (BTreeSet::new(), BTreeSet::new());
    results.read::<Recorded>(|r| {
        all.insert(r.rank);
    })?;
    results.read::<Limited>(|r| {
        if r.capability == Capability::DeviceTime.name() && r.grade == Grade::Withheld.name() {
            lost.extend(r.rank);
        }
    })?;
    Ok(if lost == all { Vec::new() } else { lost.into_iter().collect() })
}

//! What the recording of a run does not carry, from the table `trust`.

use crate::results::{Results, ResultsError, columns};
use hta_analysis::recording::capability::Grade;
use hta_analysis::recording::limit::TrustTable;
use hta_base::table::schema::Text;

columns! {
    Limited of TrustTable {
        capability: Text, grade: Text, sentence: Text, next: Text,
    }
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

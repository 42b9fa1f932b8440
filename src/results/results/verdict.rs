//! The diagnosis of a run from its tables: the verdict, the causes that a report tells, and the remarks.

use crate::results::{Results, ResultsError, columns};
use hta_analysis::inventory::notes::{ENERGY, HEADLINE, Notes, RECORDED, REMARK};
use hta_analysis::verdict::{JobVerdict, ToldCause};
use hta_base::table::schema::Text;
use hta_diagnosis::{CauseCertainty, CauseKind, FindingEvidence, Findings, VerdictTable};
use std::collections::BTreeMap;

columns! {
    Line of VerdictTable { line: u32, text: Text }
}

columns! {
    Finding of Findings {
        finding_id: Text, kind: Text, certainty: Text, reason: Option<Text>, sentence: Text, detail: Text,
        place: Text, action: Text, saves: Text, is_once: bool, is_told: bool, is_listed: bool,
    }
}

columns! {
    Evidence of FindingEvidence { finding_id: Text, position: u32, words: Text }
}

columns! {
    Said of Notes { kind: Text, note: Text }
}

/// The diagnosis; without lines where the run has none.
///
/// # Errors
/// When a table is missing or damaged.
pub(super) fn verdict(results: &Results) -> Result<JobVerdict, ResultsError> {
    let mut told = JobVerdict::default();
    if !results.read::<Line>(|r| {
        let line = (r.line as usize).checked_sub(1).and_then(|at| told.lines.get_mut(at));
        line.into_iter().for_each(|line| *line = r.text.to_string());
    })? {
        return Err(results.no_table(VerdictTable::SPEC));
    }
    let mut evidence: BTreeMap<String, String> = BTreeMap::new();
    results.read::<Evidence>(|r| {
        if r.position == 1 {
            evidence.insert(r.finding_id.to_string(), r.words.to_string());
        }
    })?;
    results.read::<Finding>(|r| {
        told.more += usize::from(r.is_listed && !r.is_told);
        told.causes.extend(r.is_told.then(|| cause(&r, &mut evidence)).flatten());
    })?;
    results.read::<Said>(|r| match r.kind {
        HEADLINE => told.headline = Some(r.note.to_string()),
        ENERGY => told.energy = Some(r.note.to_string()),
        RECORDED => told.recorded = r.note.to_string(),
        REMARK => told.notes.push(r.note.to_string()),
        _ => {}
    })?;
    Ok(told)
}

/// A cause as it is printed; `None` of a kind that this version does not know.
fn cause(r: &Finding, evidence: &mut BTreeMap<String, String>) -> Option<ToldCause> {
    let kind = CauseKind::ALL.iter().find(|kind| kind.name() == r.kind)?;
    let certainty = CauseCertainty::ALL.into_iter().find(|certainty| certainty.name() == r.certainty)?;
    let saves = |is_once: bool| if r.is_once == is_once { r.saves.to_string() } else { String::new() };
    let mut cause = ToldCause::default();
    (cause.kind, cause.command, cause.certainty) = (kind.name(), kind.command(), certainty.name());
    (cause.saved, cause.once) = (saves(false), saves(true));
    cause.evidence = evidence.remove(r.finding_id).unwrap_or_default();
    cause.finding_id = r.finding_id.to_string();
    cause.sentence = r.sentence.to_string();
    cause.detail = r.detail.to_string();
    cause.place = r.place.to_string();
    cause.action = r.action.to_string();
    cause.reason = r.reason.map(str::to_string);
    Some(cause)
}

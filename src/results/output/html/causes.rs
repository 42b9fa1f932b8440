//! The first section: the verdict, and the causes with what they own, their evidence and what to do.

use crate::output::html::grid::Section;
use crate::output::html::overview::{self, PageRanks};
use crate::output::html::places;
use crate::output::html::texts::Texts;
use crate::output::html::trust::PageTrust;
use crate::results::{Results, ResultsError};
use hta_diagnosis::Findings;

/// The section without the causes, which stand as their table has them.
///
/// # Errors
/// When a table is damaged.
pub(crate) fn section(
    results: &Results,
    ranks: &PageRanks,
    trust: &PageTrust,
    texts: &mut Texts,
) -> Result<Section, ResultsError> {
    let mut section = match results.read_columns(Findings::SPEC, &["kind"], |_, _| ())? {
        true => Section::default(),
        false => Section::without("No diagnosis: a run with --compat or --only."),
    };
    section.notes = trust.notes();
    section.notes.extend(overview::record_note(results, ranks)?);
    match places::map(results, texts)? {
        Some(map) if section.empty.is_none() => Ok(section.with("places", map)),
        _ => Ok(section),
    }
}

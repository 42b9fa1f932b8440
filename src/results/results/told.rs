//! What an analysis prints, from the tables of a run: its declared views with the notes below them, and the
//! sentences of the table `notes`. Of traces, of results on disk and of results in a store it is the same.

use crate::results::verdict::verdict;
use crate::results::{Results, ResultsError, columns};
use hta_analysis::api::{About, Analysis, Certainty, Observation, Options, Output};
use hta_analysis::diagnosis::{FindingEvidence, Findings, VerdictTable};
use hta_analysis::inventory::Ranks;
use hta_analysis::inventory::notes::{NOTE, Notes, STANDS_OUT, TRUST};
use hta_analysis::inventory::without_rows::WithoutRows;
use hta_base::table::column::Column;
use hta_base::table::schema::{Batch, TableSpec, Text};
use hta_base::table::view::{TableError, Tables, ViewScope};
use hta_base::table::view_rows::ViewRows;
use hta_base::wording::ranks::rank_list;
use std::collections::BTreeSet;

columns! {
    Named of Ranks { rank }
}

columns! {
    Said of Notes { analysis: Text, kind: Text, view: Text, cost_ns: Option<i64>, note: Text }
}

columns! {
    Lacking of WithoutRows { rank, analysis: Text, reason: Text }
}

impl Tables for Results {
    fn each_row(
        &self,
        table: &'static TableSpec,
        columns: &[&'static str],
        each: &mut dyn FnMut(&[Column<'_>], usize),
    ) -> Result<bool, TableError> {
        Ok(self.read_columns(table, columns, each)?)
    }

    fn whole(&self, table: &'static TableSpec) -> Result<Vec<Batch>, TableError> {
        Ok(self.batches(table)?.unwrap_or_default())
    }
}

/// What is printed of a run: notes on its input, and what each analysis says, without its tables.
pub struct ToldRun {
    pub notes: Vec<String>,
    pub outputs: Vec<(&'static dyn Analysis, Output)>,
}

impl ToldRun {
    /// # Errors
    /// When a table is missing or damaged.
    pub fn new(
        results: &Results,
        analyses: &[&'static dyn Analysis],
        options: &Options,
    ) -> Result<Self, ResultsError> {
        let mut notes = Vec::new();
        results.read::<Said>(|r| notes.extend(r.analysis.is_empty().then(|| r.note.to_string())))?;
        let output = |analysis: &&'static dyn Analysis| Ok((*analysis, told(results, *analysis, options)?));
        Ok(Self { notes, outputs: analyses.iter().map(output).collect::<Result<_, ResultsError>>()? })
    }
}

/// Whether what an analysis prints is made of this table.
pub fn is_told_from(analysis: &dyn Analysis, table: &TableSpec) -> bool {
    let about = analysis.about();
    let is_of_verdict = is_diagnosis(&about) && OF_VERDICT.iter().any(|spec| spec.name == table.name);
    is_of_verdict || about.views.iter().any(|view| view.reads(table))
}

/// The tables of a diagnosis that its sentences and causes stand in.
const OF_VERDICT: [&TableSpec; 3] = [VerdictTable::SPEC, Findings::SPEC, FindingEvidence::SPEC];

fn is_diagnosis(about: &About) -> bool {
    about.tables.iter().any(|spec| spec.name == VerdictTable::SPEC.name)
}

/// What an analysis prints, without its tables.
///
/// # Errors
/// When a table is missing or damaged.
pub(crate) fn told(
    results: &Results,
    analysis: &'static dyn Analysis,
    options: &Options,
) -> Result<Output, ResultsError> {
    let about = analysis.about();
    let mut out = Output::default();
    let mut notes: Vec<(String, String)> = Vec::new();
    results.read::<Said>(|r| {
        if r.analysis != about.stem {
            return;
        }
        match r.kind {
            TRUST => out.trust.lines.push(r.note.to_string()),
            STANDS_OUT => out.observations.push(outstanding(about.stem, r.cost_ns, r.note)),
            NOTE => notes.push((r.view.to_string(), r.note.to_string())),
            _ => {}
        }
    })?;
    if is_diagnosis(&about) {
        out.verdict = Some(verdict(results)?);
    }
    let mut ranks = BTreeSet::new();
    results.read::<Named>(|r| {
        ranks.insert(r.rank);
    })?;
    let option = |flag: &str| {
        let setting = about.settings.iter().find(|s| s.flag == flag)?;
        options.settings.shown(setting)
    };
    let scope = ViewScope {
        tables: results,
        top: options.top,
        of_steps: options.model.steps.is_some(),
        is_one_rank: ranks.len() == 1,
        option: &option,
    };
    let mut views = Vec::with_capacity(about.views.len());
    for spec in about.views {
        let mut view = match spec.rows(&scope).map_err(ResultsError::of_view)? {
            Some(view) => view,
            None if results.has_files => return Err(results.no_table(spec.of)),
            None => ViewRows { title: spec.title, ..ViewRows::default() },
        };
        let own: Vec<String> =
            notes.iter().filter(|(of, _)| of == spec.title).map(|(_, text)| text.clone()).collect();
        let is_shown = !view.rows.is_empty() || !own.is_empty() || !spec.none.is_empty();
        view.notes.extend(own);
        if view.rows.is_empty() && !spec.none.is_empty() {
            view.notes.insert(0, spec.none.to_string());
        }
        views.push((is_shown, view));
    }
    let first = views.iter().position(|(is_shown, _)| *is_shown).unwrap_or(0);
    for (i, (is_shown, mut view)) in views.into_iter().enumerate() {
        if i == first {
            view.notes.splice(0..0, reasons(results, about.stem)?);
            view.notes.extend(notes.iter().filter(|(of, _)| of.is_empty()).map(|(_, text)| text.clone()));
        }
        if i == first || is_shown {
            out.shown.push(view);
        }
    }
    // A title alone says nothing where there is more.
    if out.shown.iter().any(|view| !view.rows.is_empty()) {
        out.shown.retain(|view| !view.rows.is_empty() || !view.notes.is_empty());
    }
    Ok(out)
}

/// What is largest in the tables of an analysis.
fn outstanding(analysis: &'static str, cost_ns: Option<i64>, sentence: &str) -> Observation {
    Observation {
        analysis,
        ranks: Vec::new(),
        steps: Vec::new(),
        cost_ns_per_step: cost_ns.unwrap_or(0),
        share_of_step: cost_ns.map(|_| 0.0),
        certainty: Certainty::Measured,
        sentence: sentence.to_string(),
        table: Notes::SPEC.name,
    }
}

/// Why ranks have no rows, a line for each reason.
fn reasons(results: &Results, stem: &str) -> Result<Vec<String>, ResultsError> {
    let mut all: Vec<(String, Vec<u32>)> = Vec::new();
    results.read::<Lacking>(|r| {
        if r.analysis == stem {
            match all.iter_mut().find(|(reason, _)| reason == r.reason) {
                Some((_, ranks)) => ranks.push(r.rank),
                None => all.push((r.reason.to_string(), vec![r.rank])),
            }
        }
    })?;
    let line = |(reason, ranks): &(String, Vec<u32>)| {
        let noun = if ranks.len() == 1 { "rank" } else { "ranks" };
        format!("{noun} {}: {reason}", rank_list(ranks))
    };
    Ok(all.iter().map(line).collect())
}

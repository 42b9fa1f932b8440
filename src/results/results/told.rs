//! What an analysis prints, from the tables of a run: its declared views with the notes below them, of which
//! some are in the table `notes`. Of traces, of results on disk and of results in a store it is the same.

use crate::results::verdict::verdict;
use crate::results::{Results, ResultsError, columns};
use hta_analysis::api::{About, Analysis, Options, Output};
use hta_analysis::inventory::Ranks;
use hta_analysis::inventory::notes::{NOTE, Notes, STANDS_OUT, TRUST};
use hta_analysis::inventory::without_rows::WithoutRows;
use hta_base::table::column::Column;
use hta_base::table::schema::{Batch, TableSpec, Text};
use hta_base::table::view::{TableError, Tables, ViewScope};
use hta_base::table::view_rows::ViewRows;
use hta_base::wording::ranks::rank_list;
use hta_diagnosis::{FindingEvidence, Findings, VerdictTable};
use std::collections::{BTreeMap, BTreeSet};

columns! {
    Named of Ranks { rank }
}

columns! {
    Said of Notes { analysis: Text, kind: Text, view: Text, note: Text }
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
        let said = SaidOfRun::read(results)?;
        let output = |analysis: &&'static dyn Analysis| {
            let about = analysis.about();
            let mut out = Output { shown: said.shown(results, &about, options)?, ..Output::default() };
            out.trust.lines = said.notes(about.stem, TRUST).map(|said| said.note.clone()).collect();
            out.sentences = said.notes(about.stem, STANDS_OUT).map(|said| said.note.clone()).collect();
            if is_diagnosis(&about) {
                out.verdict = Some(verdict(results)?);
            }
            Ok((*analysis, out))
        };
        let outputs = analyses.iter().map(output).collect::<Result<_, ResultsError>>()?;
        Ok(Self { notes: said.notes("", NOTE).map(|said| said.note.clone()).collect(), outputs })
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

/// The sentences of a run, and why ranks have no rows.
pub(crate) struct SaidOfRun {
    said: Vec<SaidSentence>,
    /// By analysis: reasons with their ranks.
    lacking: BTreeMap<String, Vec<(String, Vec<u32>)>>,
    is_one_rank: bool,
}

/// A row of the table `notes`.
struct SaidSentence {
    analysis: String,
    kind: String,
    view: String,
    note: String,
}

impl SaidOfRun {
    /// # Errors
    /// When a table is damaged.
    pub(crate) fn read(results: &Results) -> Result<Self, ResultsError> {
        let mut said = Vec::new();
        results.read::<Said>(|r| {
            let [analysis, kind, view, note] = [r.analysis, r.kind, r.view, r.note].map(str::to_string);
            said.push(SaidSentence { analysis, kind, view, note });
        })?;
        let mut lacking: BTreeMap<String, Vec<(String, Vec<u32>)>> = BTreeMap::new();
        results.read::<Lacking>(|r| {
            let reasons = lacking.entry(r.analysis.to_string()).or_default();
            match reasons.iter_mut().find(|(reason, _)| reason == r.reason) {
                Some((_, ranks)) => ranks.push(r.rank),
                None => reasons.push((r.reason.to_string(), vec![r.rank])),
            }
        })?;
        let mut ranks = BTreeSet::new();
        results.read::<Named>(|r| {
            ranks.insert(r.rank);
        })?;
        Ok(Self { said, lacking, is_one_rank: ranks.len() == 1 })
    }

    fn notes(&self, stem: &str, kind: &str) -> impl Iterator<Item = &SaidSentence> {
        self.said.iter().filter(move |said| said.analysis == stem && said.kind == kind)
    }

    /// Why ranks have no rows of an analysis, a line for each reason.
    fn reasons(&self, stem: &str) -> impl Iterator<Item = String> {
        self.lacking.get(stem).into_iter().flatten().map(|(reason, ranks)| {
            let noun = if ranks.len() == 1 { "rank" } else { "ranks" };
            format!("{noun} {}: {reason}", rank_list(ranks))
        })
    }

    /// The views of an analysis with their rows and the notes below them.
    ///
    /// # Errors
    /// When a table is missing or damaged.
    pub(crate) fn shown(
        &self,
        results: &Results,
        about: &About,
        options: &Options,
    ) -> Result<Vec<ViewRows>, ResultsError> {
        let option = |flag: &str| {
            let setting = about.settings.iter().find(|s| s.flag == flag)?;
            options.settings.shown(setting)
        };
        let scope = ViewScope {
            tables: results,
            top: options.top,
            of_steps: options.model.steps.is_some(),
            is_one_rank: self.is_one_rank,
            option: &option,
        };
        let below = |title: &str| {
            let notes = self.notes(about.stem, NOTE).filter(|said| said.view == title);
            notes.map(|said| said.note.clone()).collect::<Vec<String>>()
        };
        let mut views = Vec::with_capacity(about.views.len());
        for spec in about.views {
            let mut view = match spec.rows(&scope).map_err(ResultsError::of_view)? {
                Some(view) => view,
                None if results.has_files => return Err(results.no_table(spec.of)),
                None => ViewRows { title: spec.title, ..ViewRows::default() },
            };
            let own = below(spec.title);
            let is_shown = !view.rows.is_empty() || !own.is_empty() || !spec.none.is_empty();
            view.notes.extend(own);
            if view.rows.is_empty() && !spec.none.is_empty() {
                view.notes.insert(0, spec.none.to_string());
            }
            views.push((is_shown, view));
        }
        let first = views.iter().position(|(is_shown, _)| *is_shown).unwrap_or(0);
        if let Some((is_shown, view)) = views.get_mut(first) {
            *is_shown = true;
            view.notes.splice(0..0, self.reasons(about.stem));
            view.notes.extend(below(""));
        }
        let mut shown: Vec<ViewRows> =
            views.into_iter().filter(|(is_shown, _)| *is_shown).map(|(_, view)| view).collect();
        // A title alone says nothing where there is more.
        if shown.iter().any(|view| !view.rows.is_empty()) {
            shown.retain(|view| !view.rows.is_empty() || !view.notes.is_empty());
        }
        Ok(shown)
    }
}

//! Two results folders beside each other: the page of one run with another as its baseline (`hta report
//! --against`).
//!
//! Everything is computed from the tables of both folders. Steps, kernels, causes and iterations are compared
//! by [`crate::diff`], as `hta diff` does with the traces; the other figures are declared as
//! [comparisons](hta_base::table::compare::Comparison) of a table.
//!
//! ```text
//!   tables of A  --ComparedRun-->  \
//!                                   RunPair::compare -> parts, names, causes, iterations \
//!   tables of B  --ComparedRun-->  /                                                      Section of the page
//!   tables of A and B  ------------> Comparison::rows -> account, efficiency, memory ->  /
//! ```

mod account;
mod figure;
mod names;
mod peaks;
mod serving;
mod totals;

use crate::diff::comparable::SetDifferences;
use crate::diff::{BY, ComparedExtent, ComparedRun, DiffBasis, RunPair};
use crate::output::html::grid::{Grid, Section};
use crate::output::html::texts::Texts;
use crate::results::{Results, ResultsError};
use hta_analysis::api::{Options, Output};
use hta_base::table;
use hta_base::table::compare::RunOfRanks;
use hta_base::table::schema::{Batch, Text};

/// Number of sentences of `hta diff` that the page opens with.
const VERDICT: usize = 2;

/// A run and its baseline, compared.
pub struct Against {
    this: Results,
    base: Results,
    /// The folders as the user wrote them.
    shown: [String; 2],
    pair: RunPair,
    /// What `hta diff` would say; `None` where the tables that it takes are missing.
    pub output: Option<Output>,
    /// The same by category of kernels.
    categories: Vec<Batch>,
    extent: ComparedExtent,
    causes: Option<Batch>,
    population: Vec<String>,
    pub differences: SetDifferences,
    /// What cannot be compared, and why.
    pub notes: Vec<String>,
}

impl Against {
    /// Compares two runs. `options` are those of `hta diff` without arguments.
    ///
    /// # Errors
    /// When a table is damaged.
    pub fn read(this: Results, base: Results, options: &mut Options) -> Result<Self, ResultsError> {
        let shown = [&this, &base].map(|r| r.folder().display().to_string());
        let test = ComparedRun::read(&this, "this run", options)?;
        let pair = RunPair::new(ComparedRun::read(&base, "baseline", options)?, test);
        let mut against = Self {
            this,
            base,
            shown,
            output: None,
            categories: Vec::new(),
            extent: pair.extent(options),
            causes: None,
            population: Vec::new(),
            differences: SetDifferences::default(),
            notes: pair.notes().cloned().collect(),
            pair,
        };
        against.diff(options);
        if let Some((table, view)) = against.pair.causes() {
            if against.output.is_none() {
                against.output.get_or_insert_default().views.push(view);
            }
            against.causes = Some(table);
        }
        Ok(against)
    }

    /// The folder of the baseline.
    pub(crate) fn base(&self) -> &Results {
        &self.base
    }

    /// Columns that one run divides and the other does not.
    pub(crate) fn apart(&self) -> &'static [&'static str] {
        if self.extent.is_divided { &[] } else { &["waiting_ns", "transfer_ns", "unmatched_ns"] }
    }

    fn diff(&mut self, options: &mut Options) {
        // A set without ranks has a note already.
        let Ok(DiffBasis { population, differences }) = self.pair.basis(options) else { return };
        (self.population, self.differences) = (population, differences);
        // Runs of different work are compared, too: what differs stands above the figures.
        self.output = self.pair.compare(&[], true, options).ok().map(|(output, _)| output);
        if options.settings.set(&BY, "category").is_ok() {
            self.categories =
                self.pair.compare(&[], true, options).map_or(Vec::new(), |(output, _)| output.tables);
        }
    }

    /// The section of the page.
    ///
    /// # Errors
    /// When a table is damaged.
    pub(crate) fn section(&self, texts: &mut Texts) -> Result<Section, ResultsError> {
        let (this, base) = (&self.this, &self.base);
        let mut section = Section::default();
        let (runs, totals) = totals::runs([(this, &self.shown[0]), (base, &self.shown[1])], texts)?;
        let mut add = |name: &'static str, grid: Grid| {
            if grid.len() > 0 {
                section = std::mem::take(&mut section).with(name, grid);
            }
        };
        add("runs", runs);
        add("totals", totals);
        let stand_out = self.output.iter().flat_map(|output| &output.sentences);
        let verdict: Vec<String> = stand_out.take(VERDICT).map(|sentence| format!("{sentence}.")).collect();
        for (name, sentences) in [
            ("verdict", &verdict),
            ("refusals", &self.differences.refusals),
            ("warnings", &self.differences.warnings),
            ("about", &self.population),
        ] {
            add(name, told(sentences, texts));
        }
        if let Some(output) = &self.output {
            let tables = output.tables.as_slice();
            add("parts", names::parts(tables, texts));
            add("steps", names::steps(self.pair.sets(), texts));
            if !self.extent.is_by_category {
                add("kernels", names::names(tables, "kernels_by_name", texts));
            }
            add("categories", names::names(&self.categories, "kernel_categories", texts));
        }
        if let Some(table) = &self.causes {
            add("causes", names::causes(table, texts));
        }
        let [of_base, of_this] = &self.extent.ranks;
        let both: [RunOfRanks; 2] = [(base, of_base.as_ref()), (this, of_this.as_ref())];
        let mut notes = self.notes.clone();
        for (name, words, part) in [
            ("account", "the account of time", account::account(both, self.extent.is_divided, texts)),
            ("efficiency", "efficiency", account::efficiency(this, base, texts)),
            ("memory", "peaks of memory", peaks::memory(this, base, texts)),
        ] {
            match part {
                Err(ResultsError::Column { path, column, .. }) => {
                    notes.push(format!(
                        "{words} cannot be compared: {path} is of another version, without `{column}`"
                    ));
                }
                grid => add(name, grid?),
            }
        }
        add("serving", serving::serving(&self.extent.iterations, texts));
        section.notes = notes;
        Ok(section)
    }
}

table! {
    /// Sentences on two runs.
    struct RunSentences, RunSentenceRow = "sentences" by "order" {
        text: Text, "", "what is to be known", "sentence";
    }
}

/// Sentences as a grid.
fn told(sentences: &[String], texts: &mut Texts) -> Grid {
    let mut grid = Grid::of_tables("diff_summary", &[RunSentences::SPEC]);
    for sentence in sentences {
        grid.push([texts.whole(sentence)]);
    }
    grid
}

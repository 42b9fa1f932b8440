//! What an entry of the list of sections is: a section of the page, with its grids.

use crate::output::html::account::PageAccount;
use crate::output::html::breakdown::PageLanes;
use crate::output::html::grid::{Grid, Section, missing};
use crate::output::html::overview::PageRanks;
use crate::output::html::texts::Texts;
use crate::output::html::timeline::Room;
use crate::output::html::trust::PageTrust;
use crate::results::{Results, ResultsError};
use hta_base::table::value::Value;
use hta_base::table::view::{ViewScope, ViewSpec};
use hta_job::recording::capability::Capability;
use serde::Serialize;

/// A section of the page.
#[derive(Debug, Serialize)]
pub(crate) struct SectionEntry {
    /// Its name in the data and in addresses.
    pub(crate) id: &'static str,
    /// Its name in the list of contents.
    pub(crate) name: &'static str,
    pub(crate) heading: &'static str,
    /// What it shows.
    pub(crate) about: &'static str,
    /// Topics of `hta explain` with its definitions.
    pub(crate) topics: &'static [&'static str],
    /// What it rests on beside the needs of the analysis that its first topic is.
    #[serde(skip)]
    pub(crate) needs: &'static [Capability],
    /// What is said below it; empty: nothing.
    pub(crate) note: &'static str,
    /// What makes it; `None` if it has nothing but grids that show a table as it is, or comes with the ranks
    /// or with the baseline.
    #[serde(skip)]
    pub(crate) make: Option<SectionMaker>,
    #[serde(skip)]
    pub(crate) grids: &'static [GridEntry],
}

/// Makes a section and its texts.
pub(crate) type SectionMaker = fn(&PageSource, &mut Texts) -> Result<Section, ResultsError>;

/// What sections are made of.
pub(crate) struct PageSource<'a> {
    pub(crate) results: &'a Results,
    pub(crate) ranks: &'a PageRanks,
    pub(crate) lanes: Option<PageLanes>,
    pub(crate) trust: PageTrust,
    pub(crate) room: Room,
}

/// The reason why sections about lanes are empty.
const NO_WINDOWS: &str = "The table `temporal_breakdown` is empty or not among these results: nothing ran, \
                          or a run with --compat or --only.";

impl PageSource<'_> {
    /// The account of time, where the results have lanes.
    pub(crate) fn account(&self) -> Option<&PageAccount> {
        self.lanes.as_ref().map(|lanes| &lanes.account)
    }

    /// A section about lanes.
    pub(crate) fn in_lanes(
        &self,
        section: fn(&Results, &PageLanes, &mut Texts) -> Result<Section, ResultsError>,
        texts: &mut Texts,
    ) -> Result<Section, ResultsError> {
        match &self.lanes {
            Some(lanes) => section(self.results, lanes, texts),
            None => Ok(Section::without(NO_WINDOWS)),
        }
    }
}

impl SectionEntry {
    pub(crate) const NONE: SectionEntry = SectionEntry {
        id: "",
        name: "",
        heading: "",
        about: "",
        topics: &[],
        needs: &[],
        note: "",
        make: None,
        grids: &[],
    };

    /// The section with its texts.
    ///
    /// # Errors
    /// When a table is damaged.
    pub(crate) fn made(&self, of: &PageSource, texts: &mut Texts) -> Result<Section, ResultsError> {
        let section = match self.make {
            Some(make) => make(of, texts)?,
            None => Section::default(),
        };
        let mut section = self.completed(section, of.results, texts)?;
        section.trust = self.topics.first().and_then(|stem| of.trust.grade(stem, self.needs));
        Ok(section)
    }

    /// Adds the grids that show a table as it is, and names all of them.
    ///
    /// # Errors
    /// When a table is damaged.
    pub(crate) fn completed(
        &self,
        mut section: Section,
        results: &Results,
        texts: &mut Texts,
    ) -> Result<Section, ResultsError> {
        if section.empty.is_some() {
            return Ok(section);
        }
        for entry in self.grids {
            if let GridSource::Table(view) = &entry.made {
                match grid(view, results, entry.has_sentences, texts)? {
                    None if !view.none.is_empty() => section.empty = Some(missing(view.of.name)),
                    Some(grid) if grid.len() == 0 && !view.none.is_empty() => {
                        section.empty = Some(view.none.to_string());
                    }
                    made => {
                        let no_rows = || Grid::of(view.of, view.columns);
                        section = section.with(entry.grid, made.unwrap_or_else(no_rows));
                    }
                }
            }
            section.name(entry.grid, entry.title);
        }
        Ok(section)
    }
}

/// A grid of a section.
#[derive(Debug)]
pub(crate) struct GridEntry {
    /// Its name in the data of the page.
    pub(crate) grid: &'static str,
    /// Its name for the reader; empty where the script of the section names it or shows no table of it.
    title: &'static str,
    /// Whether its texts are sentences, which are never cut.
    has_sentences: bool,
    made: GridSource,
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "entries are constants, of which no list is moved")]
enum GridSource {
    /// The section makes it of several rows or tables. Columns tell its rows apart in two runs; none where
    /// these are not put beside each other.
    Section(&'static [&'static str]),
    Table(ViewSpec),
}

impl GridEntry {
    /// Columns that tell its rows apart in two runs; none where these are not put beside each other.
    pub(crate) fn key(&self) -> Vec<&'static str> {
        match &self.made {
            GridSource::Section(key) => key.to_vec(),
            GridSource::Table(view) => view.key(),
        }
    }

    /// What it shows of a table, if it shows one as it is.
    #[cfg(test)]
    pub(crate) fn view(&self) -> Option<&ViewSpec> {
        if let GridSource::Table(view) = &self.made { Some(view) } else { None }
    }
}

/// A grid that the section makes, with the columns that tell its rows apart.
pub(crate) const fn made(grid: &'static str, title: &'static str, key: &'static [&'static str]) -> GridEntry {
    GridEntry { grid, title, has_sentences: false, made: GridSource::Section(key) }
}

/// A grid that shows a table as it is.
pub(crate) const fn table(grid: &'static str, title: &'static str, view: ViewSpec) -> GridEntry {
    GridEntry { grid, title, has_sentences: false, made: GridSource::Table(view) }
}

/// A grid that shows a table of sentences as it is.
pub(crate) const fn sentences(grid: &'static str, title: &'static str, view: ViewSpec) -> GridEntry {
    GridEntry { grid, title, has_sentences: true, made: GridSource::Table(view) }
}

/// The grid of a view. `None` if there is no such table.
///
/// # Errors
/// When the table is damaged.
fn grid(
    view: &ViewSpec,
    results: &Results,
    has_sentences: bool,
    texts: &mut Texts,
) -> Result<Option<Grid>, ResultsError> {
    let (top, no_option) = (usize::MAX, |_: &str| None);
    let scope = ViewScope { tables: results, top, of_steps: false, is_one_rank: false, option: &no_option };
    let Some(rows) = view.rows(&scope).map_err(ResultsError::of_view)? else { return Ok(None) };
    let mut cell = |value: &Value| match value {
        Value::Text(text) if has_sentences => texts.whole(text),
        value => texts.value(value),
    };
    let mut grid = Grid::of_view(view.of.name, &rows.columns);
    for row in &rows.rows {
        grid.push(row.iter().map(&mut cell));
    }
    grid.leave_out(rows.left, rows.rest.iter().map(&mut cell).collect());
    Ok(Some(grid))
}

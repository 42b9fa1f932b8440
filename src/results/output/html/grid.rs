//! Data of the page: grids of typed columns with name, unit and meaning. A chart and the table below it are
//! drawn from the same grid, so they cannot disagree.
//!
//! Times are integer nanoseconds, which the page formats. Points in time are relative to the first event of
//! the set.

use crate::output::html::trust::SectionGrade;
use hta_base::table::format::CellType;
use hta_base::table::schema::{ColumnSpec, TableSpec};
use hta_base::table::view_cells::ViewColumn;
use serde::ser::{Serialize, SerializeMap, SerializeStruct, Serializer};
use std::borrow::Cow;

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cell {
    Nothing,
    Int(i64),
    Float(f64),
    /// Index into [`Texts`](crate::output::html::texts::Texts) of the section, or later of the page.
    Text(u32),
}

impl From<i64> for Cell {
    fn from(v: i64) -> Self {
        Cell::Int(v)
    }
}

impl From<u32> for Cell {
    fn from(v: u32) -> Self {
        Cell::Int(i64::from(v))
    }
}

impl From<u64> for Cell {
    fn from(v: u64) -> Self {
        i64::try_from(v).map_or(Cell::Nothing, Cell::Int)
    }
}

impl From<usize> for Cell {
    fn from(v: usize) -> Self {
        Cell::Int(i64::try_from(v).unwrap_or(i64::MAX))
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(v: Option<T>) -> Self {
        v.map_or(Cell::Nothing, Into::into)
    }
}

impl From<f64> for Cell {
    fn from(v: f64) -> Self {
        if v.is_finite() { Cell::Float(v) } else { Cell::Nothing }
    }
}

impl Serialize for Cell {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Cell::Nothing => to.serialize_none(),
            Cell::Int(v) => to.serialize_i64(*v),
            Cell::Float(v) => to.serialize_f64(*v),
            Cell::Text(id) => to.serialize_u32(*id),
        }
    }
}

/// A column of a grid, with its cells and the heading and meaning that its table declares.
struct GridColumn {
    name: &'static str,
    title: Cow<'static, str>,
    kind: CellType,
    doc: &'static str,
    cells: Vec<Cell>,
}

impl From<&ColumnSpec> for GridColumn {
    fn from(spec: &ColumnSpec) -> Self {
        Self { name: spec.name, title: spec.title(), kind: spec.cells(), doc: spec.doc, cells: Vec::new() }
    }
}

/// A table of the page.
pub(crate) struct Grid {
    /// The results table from which it is made.
    table: &'static str,
    /// Its name for the reader; empty where the page does not show it as a table.
    title: &'static str,
    columns: Vec<GridColumn>,
    /// By column, the cells of a baseline for the same rows; empty without one.
    base: Vec<Option<Vec<Cell>>>,
    /// Whether the baseline has rows that its page does not list.
    is_base_cut: bool,
    /// Number of rows that are not listed, and their sums where these are meaningful.
    rest: Option<(usize, Vec<Cell>)>,
    /// Notes for the reader on what was merged or left out.
    pub(crate) notes: Vec<String>,
}

impl Grid {
    /// A grid with columns of a table, as the table declares them.
    pub(crate) fn of(spec: &TableSpec, names: &[&str]) -> Self {
        Self::with_columns(
            spec.name,
            names.iter().filter_map(|name| spec.column_spec(name)).map(GridColumn::from).collect(),
        )
    }

    /// A grid with all columns of some tables that the page alone shows, one behind the other. It is made
    /// from a table of the results.
    pub(crate) fn of_tables(table: &'static str, parts: &[&TableSpec]) -> Self {
        let columns = parts.iter().flat_map(|spec| spec.columns).map(GridColumn::from).collect();
        Self::with_columns(table, columns)
    }

    /// The same of one table, which is named as the one that it is made from.
    pub(crate) fn whole(spec: &TableSpec) -> Self {
        Self::of_tables(spec.name, &[spec])
    }

    /// A grid with the columns of a view.
    pub(crate) fn of_view(table: &'static str, columns: &[ViewColumn]) -> Self {
        let column = |c: &ViewColumn| GridColumn {
            name: c.name,
            title: c.heading.clone(),
            kind: c.cells,
            doc: c.doc,
            cells: Vec::new(),
        };
        Self::with_columns(table, columns.iter().map(column).collect())
    }

    fn with_columns(table: &'static str, columns: Vec<GridColumn>) -> Self {
        let (base, rest, notes) = (Vec::new(), None, Vec::new());
        Self { table, title: "", columns, base, is_base_cut: false, rest, notes }
    }

    /// Adds a row with one cell per column.
    pub(crate) fn push(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let mut cells = cells.into_iter();
        for column in &mut self.columns {
            column.cells.push(cells.next().unwrap_or(Cell::Nothing));
        }
    }

    /// Adds the next row of a table in its order, unless there are `most`: then its sums count among those of
    /// the rows that are not listed. Of a row, `cells` gives what stands before and behind the sums.
    pub(crate) fn list<const K: usize, const N: usize>(
        &mut self,
        most: usize,
        sums: [i64; N],
        cells: impl FnOnce() -> ([Cell; K], Vec<Cell>),
    ) {
        if self.len() < most {
            let (key, behind) = cells();
            return self.push(key.into_iter().chain(sums.map(Cell::Int)).chain(behind));
        }
        let none = || [Cell::Nothing; K].into_iter().chain([Cell::Int(0); N]).collect();
        let (rows, rest) = self.rest.get_or_insert_with(|| (0, none()));
        *rows += 1;
        for (cell, value) in rest.iter_mut().skip(K).zip(sums) {
            if let Cell::Int(sum) = cell {
                *sum = sum.saturating_add(value);
            }
        }
    }

    /// Sets the number of rows that are not listed, and their sums.
    pub(crate) fn leave_out(&mut self, rows: usize, sums: Vec<Cell>) {
        if rows > 0 {
            self.rest = Some((rows, sums));
        }
    }

    /// The cells of a column.
    pub(crate) fn cells(&self, name: &str) -> Option<&[Cell]> {
        self.columns.iter().find(|c| c.name == name).map(|c| c.cells.as_slice())
    }

    /// Puts the figures of a baseline beside those of this grid: `places` has its row by row of this grid.
    /// Columns of the key, texts, and numbers that identify something stand alone.
    pub(crate) fn set_baseline(&mut self, base: &Grid, places: &[Option<usize>], key: &[&str]) {
        if places.iter().all(Option::is_none) {
            return;
        }
        let beside = |c: &GridColumn| {
            let is_figure = !key.contains(&c.name) && !matches!(c.kind, CellType::Text | CellType::Id);
            let cells = base.cells(c.name).filter(|_| is_figure)?;
            let of_row =
                |place: &Option<usize>| place.and_then(|i| cells.get(i)).copied().unwrap_or(Cell::Nothing);
            Some(places.iter().map(of_row).collect())
        };
        self.base = self.columns.iter().map(beside).collect();
        self.is_base_cut = base.rest.is_some();
    }

    pub(crate) fn len(&self) -> usize {
        self.columns.first().map_or(0, |c| c.cells.len())
    }
}

impl Serialize for Grid {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        struct GridColumns<'a>(&'a GridColumn, Option<&'a [Cell]>);
        impl Serialize for GridColumns<'_> {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                let mut map = to.serialize_map(None)?;
                map.serialize_entry("name", self.0.name)?;
                map.serialize_entry("title", &self.0.title)?;
                map.serialize_entry("kind", self.0.kind.name())?;
                map.serialize_entry("doc", self.0.doc)?;
                map.serialize_entry("cells", &self.0.cells)?;
                if let Some(base) = self.1 {
                    map.serialize_entry("base", base)?;
                }
                map.end()
            }
        }
        let base = |i: usize| self.base.get(i).and_then(Option::as_deref);
        let columns: Vec<GridColumns> =
            self.columns.iter().enumerate().map(|(i, column)| GridColumns(column, base(i))).collect();
        let mut grid = to.serialize_struct("Grid", 7)?;
        grid.serialize_field("table", self.table)?;
        grid.serialize_field("title", self.title)?;
        grid.serialize_field("rows", &self.len())?;
        grid.serialize_field("columns", &columns)?;
        grid.serialize_field("rest", &self.rest)?;
        grid.serialize_field("notes", &self.notes)?;
        // Absent without a baseline.
        match self.base.is_empty() {
            true => grid.skip_field("is_base_cut")?,
            false => grid.serialize_field("is_base_cut", &self.is_base_cut)?,
        }
        grid.end()
    }
}

/// Sections by name.
pub(crate) type Sections = Vec<(&'static str, Section)>;

#[derive(Default)]
pub(crate) struct Section {
    grids: Vec<(&'static str, Grid)>,
    pub(crate) notes: Vec<String>,
    /// The reason why the section has no data.
    pub(crate) empty: Option<String>,
    /// How far the recording carries what it says.
    pub(crate) trust: Option<SectionGrade>,
}

impl Section {
    /// A section without data, with the reason.
    pub(crate) fn without(reason: impl Into<String>) -> Self {
        Self { empty: Some(reason.into()), ..Self::default() }
    }

    pub(crate) fn with(mut self, name: &'static str, grid: Grid) -> Self {
        self.grids.push((name, grid));
        self
    }

    pub(crate) fn grid(&self, name: &str) -> Option<&Grid> {
        self.grids.iter().find(|(of, _)| *of == name).map(|(_, grid)| grid)
    }

    /// Names a grid for the reader.
    pub(crate) fn name(&mut self, grid: &str, title: &'static str) {
        if let Some(grid) = self.grid_mut(grid) {
            grid.title = title;
        }
    }

    pub(crate) fn grid_mut(&mut self, name: &str) -> Option<&mut Grid> {
        self.grids.iter_mut().find(|(of, _)| *of == name).map(|(_, grid)| grid)
    }

    /// Replaces indices into the section's texts by indices into the page's.
    pub(crate) fn place_texts(&mut self, places: &[u32]) {
        for (_, grid) in &mut self.grids {
            let rest = grid.rest.iter_mut().flat_map(|(_, sums)| sums);
            for cell in grid.columns.iter_mut().flat_map(|c| &mut c.cells).chain(rest) {
                if let Cell::Text(text) = cell {
                    *text = places.get(*text as usize).copied().unwrap_or(u32::MAX);
                }
            }
        }
    }
}

impl Serialize for Section {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        struct Grids<'a>(&'a [(&'static str, Grid)]);
        impl Serialize for Grids<'_> {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_map(self.0.iter().map(|(name, grid)| (name, grid)))
            }
        }
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("grids", &Grids(&self.grids))?;
        map.serialize_entry("notes", &self.notes)?;
        map.serialize_entry("empty", &self.empty)?;
        map.serialize_entry("trust", &self.trust)?;
        map.end()
    }
}

/// The message for a section whose table is missing.
pub(crate) fn missing(table: &str) -> String {
    format!(
        "The table `{table}` is not among these results (a run with --compat or --only leaves other tables)."
    )
}

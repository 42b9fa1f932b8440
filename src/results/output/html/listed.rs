//! Grids that show a table of the results as it is: which columns, which rows, in which order. They are data
//! of the list of sections; one function makes all of them.

use crate::output::html::axis::PageStep;
use crate::output::html::grid::{Cell, Grid};
use crate::output::html::texts::Texts;
use crate::results::{Results, ResultsError};
use hta_base::table::column::{Column, ColumnCells};
use hta_base::table::schema::TableSpec;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Which rows of a table are shown.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Keep {
    All,
    /// Those with a number above 0 in the column.
    Positive(&'static str),
    /// Those whose numbers in these columns are among those that a function gives.
    Among(&'static [&'static str], fn(&Results) -> Result<RowKeys, ResultsError>),
}

/// Numbers of rows in some columns.
pub(crate) type RowKeys = BTreeSet<Vec<Option<i64>>>;

/// Columns and rows of a table as they are shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Listed {
    pub(crate) table: &'static TableSpec,
    /// Columns in their order on the page. `step` is the step's number in its name where the table has it.
    pub(crate) columns: &'static [&'static str],
    pub(crate) keep: Keep,
    /// Column by which rows fall; empty: in the order of the table.
    pub(crate) by: &'static str,
    /// Largest number of rows.
    pub(crate) most: usize,
    /// Columns whose sum over the rows that are not listed is shown.
    pub(crate) sums: &'static [&'static str],
    /// Why the section is empty where no row is left; empty: other grids of it may have some.
    pub(crate) none: &'static str,
}

/// A cell before its text has a place on the page.
#[derive(Debug, Clone)]
enum RawCell {
    Known(Cell),
    Text(String),
}

impl RawCell {
    fn of(column: &Column, row: usize) -> Self {
        match column.cells {
            ColumnCells::Text(..) => {
                column.text(row).map_or(RawCell::Known(Cell::Nothing), |t| RawCell::Text(t.to_string()))
            }
            ColumnCells::F64(_) => RawCell::Known(column.float(row).into()),
            _ => RawCell::Known(column.int(row).into()),
        }
    }

    fn int(&self) -> i64 {
        if let RawCell::Known(Cell::Int(v)) = self { *v } else { 0 }
    }
}

/// Rows so far, and what is known of those that are not listed.
struct ListedRows {
    rows: Vec<Vec<RawCell>>,
    left: usize,
    rest: Vec<i64>,
}

impl ListedRows {
    fn leave_out(&mut self, row: &[RawCell]) {
        self.left += 1;
        self.rest.iter_mut().zip(row).for_each(|(sum, cell)| *sum = sum.saturating_add(cell.int()));
    }

    /// Sorts rows by a column, and keeps the first ones.
    fn cut(&mut self, by: usize, most: usize) {
        self.rows.sort_by_key(|row| Reverse(row.get(by).map_or(0, RawCell::int)));
        for row in self.rows.split_off(most.min(self.rows.len())) {
            self.leave_out(&row);
        }
    }
}

impl Listed {
    /// The first rows of a table.
    pub(crate) const fn of(table: &'static TableSpec, most: usize) -> Self {
        Self { table, columns: &[], keep: Keep::All, by: "", most, sums: &[], none: "" }
    }

    /// Columns by which two runs stand beside each other: the key of the table, where all of it is shown.
    pub(crate) fn key(&self) -> Vec<&'static str> {
        let key: Vec<&str> = self.table.key().collect();
        if key.iter().all(|name| self.columns.contains(name)) { key } else { Vec::new() }
    }

    /// The grid of a table that is not there.
    pub(crate) fn no_rows(&self) -> Grid {
        Grid::of(self.table, self.columns)
    }

    /// The grid. `None` if there is no such table.
    ///
    /// # Errors
    /// When the table is damaged.
    pub(crate) fn grid(&self, results: &Results, texts: &mut Texts) -> Result<Option<Grid>, ResultsError> {
        let mut names = self.columns.to_vec();
        let kept_by = self.kept_by();
        names.extend(kept_by.iter().copied().chain(self.label()).filter(|n| !self.columns.contains(n)));
        let mut seen = BTreeSet::new();
        names.retain(|name| seen.insert(*name));
        let at = |name: &str| names.iter().position(|n| *n == name);
        let kept: Vec<usize> = kept_by.iter().filter_map(|name| at(name)).collect();
        let among = match self.keep {
            Keep::Among(_, keys) => Some(keys(results)?),
            Keep::All | Keep::Positive(_) => None,
        };
        let by = at(self.by);
        let step = self.label().and_then(at).zip(at("step"));
        let width = self.columns.len();
        let mut all = ListedRows { rows: Vec::new(), left: 0, rest: vec![0; width] };
        let there = results.read_columns(self.table, &names, |columns, row| {
            let is_kept = match &among {
                Some(keys) => keys.contains(
                    &kept.iter().map(|at| columns.get(*at).and_then(|c| c.int(row))).collect::<Vec<_>>(),
                ),
                None => {
                    kept.iter().all(|at| columns.get(*at).and_then(|c| c.float(row)).is_some_and(|v| v > 0.0))
                }
            };
            if !is_kept {
                return;
            }
            let mut cells: Vec<RawCell> = columns.iter().take(width).map(|c| RawCell::of(c, row)).collect();
            if let Some((label, step)) = step {
                let number = |at: usize| columns.get(at).and_then(|c| c.int(row));
                let name = PageStep::new(number(step).and_then(|n| u32::try_from(n).ok()), number(label));
                let name = name.map_or(RawCell::Known(Cell::Nothing), |s| RawCell::Text(s.to_string()));
                cells.get_mut(step).into_iter().for_each(|cell| *cell = name.clone());
            }
            match by {
                None if all.rows.len() >= self.most => all.leave_out(&cells),
                _ => all.rows.push(cells),
            }
            // Rows that cannot be among the first are not kept in memory.
            if let Some(by) = by.filter(|_| all.rows.len() > 16 * self.most) {
                all.cut(by, self.most);
            }
        })?;
        if let Some(by) = by {
            all.cut(by, self.most);
        }
        Ok(there.then(|| self.filled(all, texts)))
    }

    /// The columns that decide which rows are shown.
    fn kept_by(&self) -> Vec<&'static str> {
        match self.keep {
            Keep::All => Vec::new(),
            Keep::Positive(column) => vec![column],
            Keep::Among(columns, _) => columns.to_vec(),
        }
    }

    /// The column with the number in the name of the step.
    fn label(&self) -> Option<&'static str> {
        self.table.column_spec("step_label").filter(|_| self.columns.contains(&"step")).map(|c| c.name)
    }

    fn filled(&self, all: ListedRows, texts: &mut Texts) -> Grid {
        let mut grid = Grid::of(self.table, self.columns);
        if self.label().is_some() {
            grid.set_text("step");
        }
        for row in all.rows {
            grid.push(row.into_iter().map(|cell| match cell {
                RawCell::Known(cell) => cell,
                RawCell::Text(text) => texts.cell(&text),
            }));
        }
        let sum =
            |(name, sum): (&&str, i64)| if self.sums.contains(name) { Cell::Int(sum) } else { Cell::Nothing };
        grid.leave_out(all.left, self.columns.iter().zip(all.rest).map(sum).collect());
        grid
    }
}

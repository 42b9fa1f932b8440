//! Views: what is shown of a table, as data. Text, page and assistants print the same view.
//!
//! ```ignore
//! const CALLS: ViewSpec = ViewSpec {
//!     title: "Launch calls",
//!     columns: &["api", "launch_count", "cpu_sum_ns", "cpu_mean_ns"],
//!     keep: &[Keep::Scope("capture")],
//!     by: "cpu_sum_ns",
//!     notes: &[Note::Sum("noise_count", "start", "before the launching call: clock noise")],
//!     ..ViewSpec::of(LaunchCalls::SPEC)
//! };
//! ```
//!
//! Headings, alignments and formats of numbers are those that the table declares for its columns.

use crate::table::column::Column;
use crate::table::schema::{Batch, Table, TableSpec};
use std::error::Error;

/// Columns and rows of a table as they are shown.
#[derive(Debug, Clone, Copy)]
pub struct ViewSpec {
    pub title: &'static str,
    pub of: &'static TableSpec,
    /// Further tables that its notes and tests read.
    pub also: &'static [&'static TableSpec],
    /// Columns in their order; none: all of the table, under their names and digit by digit, as another tool
    /// has them. `step` is the step's number in its name where the table has it; `rank` is a
    /// list of ranks where rows are folded. With `?` behind its name a column is left out where no row has
    /// anything but null, 0 or an empty text in it; and `rank`, `device` or `process_group`, where it tells
    /// no rows apart.
    pub columns: &'static [&'static str],
    /// Columns (or all shares, as `share`) that are left out where one of some others is shown, because lines
    /// are narrow; one after another.
    pub gives_way: &'static [(&'static str, &'static [&'static str])],
    /// Columns in which null stands for something, with its word; in the others it is `-`.
    pub nulls: &'static [(&'static str, &'static str)],
    /// Rows that are shown: those for which all of these hold.
    pub keep: &'static [Keep],
    /// Columns that stand in the cell of another one behind what is in it, with what is between them, where
    /// they are not null.
    pub joined: &'static [(&'static str, &'static str, &'static str)],
    /// Columns by which rows fall, or rise with `ascending` behind the name, in the notation of the order
    /// of a table; what is unknown comes last. They give way to none. Empty: in the order of the table.
    pub by: &'static str,
    /// An option, and by its values other columns by which rows fall.
    pub by_option: (&'static str, &'static [(&'static str, &'static str)]),
    pub fold: Fold,
    /// Column of counts by which sums are divided for people, such as the number of windows; empty: none.
    pub per: &'static str,
    /// Quotients that stand behind the columns: a column, the column of counts that divides it, and a
    /// heading.
    pub means: &'static [(&'static str, &'static str, &'static str)],
    /// Columns whose share of their sum over all rows that are kept (with `each`, of those with equal values
    /// there) stands behind these, with the heading of the share; left out where all sums are 0.
    pub shares: &'static [(&'static str, &'static str)],
    /// Columns whose part of another column of the row stands behind the columns in percent: the part, the
    /// whole, and the heading.
    pub percents: &'static [(&'static str, &'static str, &'static str)],
    /// Shares of the whole that are drawn as a bar behind the columns, each with its mark; an empty name
    /// stands for what the others leave.
    pub bar: &'static [(char, &'static str)],
    /// Largest number of rows, however many are asked for.
    pub most: usize,
    /// Columns within whose values the number of rows is counted that are asked for; empty: all rows
    /// together.
    pub each: &'static [&'static str],
    /// Whether all rows are shown, however few are asked for: the parts of a whole.
    pub is_whole: bool,
    /// Columns whose sum over the rows that are not listed is shown on the page.
    pub sums: &'static [&'static str],
    pub notes: &'static [Note],
    /// What is said where no row is left; empty: the view is left out.
    pub none: &'static str,
}

impl ViewSpec {
    /// The rows of a table in its order, without columns yet.
    pub const fn of(table: &'static TableSpec) -> Self {
        Self {
            title: "",
            of: table,
            also: &[],
            columns: &[],
            gives_way: &[],
            nulls: &[],
            keep: &[],
            joined: &[],
            by: "",
            by_option: ("", &[]),
            fold: Fold::Rest,
            per: "",
            means: &[],
            shares: &[],
            percents: &[],
            bar: &[],
            most: usize::MAX,
            each: &[],
            is_whole: false,
            sums: &[],
            notes: &[],
            none: "",
        }
    }

    /// The columns in their order, and whether each may be left out.
    pub(crate) fn named_columns(&self) -> impl Iterator<Item = (&'static str, bool)> + use<> {
        self.columns.iter().map(|column| match column.strip_suffix('?') {
            Some(name) => (name, true),
            None => (*column, false),
        })
    }

    /// Whether a column is one of those that are shown.
    pub(crate) fn has_column(&self, name: &str) -> bool {
        self.named_columns().any(|(known, _)| known == name)
    }

    /// Columns that rows are sorted by, and whether their values rise.
    pub(crate) fn order(by: &'static str) -> impl Iterator<Item = (&'static str, bool)> {
        by.split(", ").filter(|name| !name.is_empty()).map(|part| match part.strip_suffix(" ascending") {
            Some(name) => (name, true),
            None => (part, false),
        })
    }

    /// A whole table under its name, with all columns and exact numbers.
    pub const fn whole(table: &'static TableSpec) -> Self {
        Self { title: table.name, ..Self::of(table) }
    }

    /// Whether it is made of this table.
    pub fn reads(&self, table: &TableSpec) -> bool {
        self.of.name == table.name || self.also.iter().any(|spec| spec.name == table.name)
    }

    /// Columns by which two runs stand beside each other: the key of the table, where all of it is shown
    /// but what is the same in all rows.
    pub fn key(&self) -> Vec<&'static str> {
        let is_fixed = |name: &&str| self.keep.iter().any(|k| matches!(k, Keep::Is(of, [_]) if of == name));
        let key: Vec<&str> = self.of.key().filter(|name| !is_fixed(name)).collect();
        if key.iter().all(|name| self.has_column(name)) { key } else { Vec::new() }
    }
}

/// Which rows of a table are shown.
#[derive(Debug, Clone, Copy)]
pub enum Keep {
    /// Those with a number above 0, or true, in the column.
    Positive(&'static str),
    /// Those with 0, or false, in the column.
    Zero(&'static str),
    /// Those with one of these texts in the column.
    Is(&'static str, &'static [&'static str]),
    /// Those with a text in the column, and none of these.
    IsNot(&'static str, &'static [&'static str]),
    /// Those with null in the column.
    Null(&'static str),
    /// Those with a value in the column.
    Known(&'static str),
    /// Those of the scope `step` if steps were chosen, or else of this one.
    Scope(&'static str),
    /// Those whose values in these columns are the first row's, in the order of the view.
    First(&'static [&'static str]),
    /// Those whose text in the column is the value of an option, or else this one.
    Chosen(&'static str, &'static str, &'static str),
    /// Those for whose values in these columns a function of other tables says so.
    Made(&'static [&'static str], fn(&ViewScope) -> Result<RowTest, TableError>),
}

/// Whether a row is shown, by its values in the named columns.
pub type RowTest = Box<dyn Fn(&[Column<'_>], usize) -> bool>;

/// What becomes of the rows beyond the number that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fold {
    /// They are counted.
    Rest,
    /// Rows are of ranks: those that are equal, but for columns of the role `first`, share a row, the worst
    /// come first where not all fit, and one row stands for the others, combined as the roles of the columns
    /// say.
    Worst,
}

/// A line below a view.
#[derive(Debug, Clone, Copy)]
pub enum Note {
    /// Where the view has rows.
    Text(&'static str),
    /// Where some row that is kept has a value other than null and 0 in the column.
    If(&'static str, &'static str),
    /// The sum of a column over all rows that are kept, with the noun for what it counts or else its unit,
    /// and what is said of it; where it is above 0.
    Sum(&'static str, &'static str, &'static str),
    /// Made from tables.
    Made(fn(&ViewScope) -> Result<Option<String>, TableError>),
}

/// A table could not be read.
pub type TableError = Box<dyn Error + Send + Sync>;

/// The tables of a run, in memory or in files.
pub trait Tables {
    /// Passes all rows of a table in order to `each`, with some columns by their names. Returns `false` if
    /// there is no such table.
    ///
    /// # Errors
    /// When the table is damaged.
    fn each_row(
        &self,
        table: &'static TableSpec,
        columns: &[&'static str],
        each: &mut dyn FnMut(&[Column<'_>], usize),
    ) -> Result<bool, TableError>;

    /// A whole table; empty if there is none.
    ///
    /// # Errors
    /// When the table is damaged.
    fn whole(&self, table: &'static TableSpec) -> Result<Vec<Batch>, TableError>;
}

impl Tables for Vec<Batch> {
    fn each_row(
        &self,
        table: &'static TableSpec,
        columns: &[&'static str],
        each: &mut dyn FnMut(&[Column<'_>], usize),
    ) -> Result<bool, TableError> {
        for batch in self.iter().filter(|b| b.spec.name == table.name) {
            let found: Vec<Column> = columns.iter().filter_map(|name| batch.column(name)).collect();
            if found.len() < columns.len() {
                return Err(format!("the table {} lacks a column", table.name).into());
            }
            (0..batch.len()).for_each(|row| each(&found, row));
        }
        Ok(true)
    }

    fn whole(&self, table: &'static TableSpec) -> Result<Vec<Batch>, TableError> {
        Ok(self.iter().filter(|b| b.spec.name == table.name).cloned().collect())
    }
}

/// The tables that a view is of, and what the reader asked for.
pub struct ViewScope<'a> {
    pub tables: &'a dyn Tables,
    /// Largest number of rows of a view.
    pub top: usize,
    /// Whether steps were chosen.
    pub of_steps: bool,
    /// Whether the run has one rank, which need not be named.
    pub is_one_rank: bool,
    /// The value of an option of an analysis by its flag, as text.
    pub option: &'a dyn Fn(&str) -> Option<String>,
}

impl ViewScope<'_> {
    /// Passes each row of a table to a function.
    ///
    /// # Errors
    /// When the table is damaged.
    pub fn each<T: Table>(&self, mut each: impl FnMut(T::Row<'_>)) -> Result<(), TableError> {
        for batch in self.tables.whole(T::SPEC)? {
            T::rows(&batch).for_each(&mut each);
        }
        Ok(())
    }

    /// The scope whose rows are shown: `step` if steps were chosen, or else `whole`.
    pub fn scope(&self, whole: &'static str) -> &'static str {
        if self.of_steps { "step" } else { whole }
    }
}

//! Structs that are written as rows of a table and read back.
//!
//! [`stored!`](macro@crate::stored) declares the table and, behind its columns, what a row is made of: a
//! struct pattern in which each column stands where its value is. Such a pattern is an expression, too. So
//! writing takes a struct apart by it and reading makes the struct by it, and the compiler refuses a field
//! that is forgotten.

use crate::table::checked::InvalidCell;
use crate::table::schema::{Batch, ColumnType, Table, Text};
use std::sync::Arc;

/// Why a cell is not a value of the type that is read.
#[derive(Debug)]
pub struct UnfitCell {
    expected: String,
    found: String,
}

impl UnfitCell {
    /// A name that this version does not know.
    pub fn unknown(name: &str) -> Self {
        Self { expected: "a name that this version knows".to_string(), found: format!("`{name}`") }
    }

    /// The same with its place in a table.
    pub fn at<T: Table>(self, row: usize, column: &'static str) -> InvalidCell {
        InvalidCell::new::<T>(row, column, self.expected, self.found)
    }
}

/// A value that is a cell of a column of type `C`.
pub trait CellOf<C: ColumnType>: Sized {
    fn cell(&self) -> C::In<'_>;

    /// # Errors
    /// When the cell is none that [`CellOf::cell`] makes.
    fn of_cell(cell: C::In<'_>) -> Result<Self, UnfitCell>;
}

/// A table whose rows are made of other values, and these of its rows.
pub trait Stored: Table {
    /// What a row is made of.
    type Parts<'a>;
    /// The same, owned.
    type Whole;

    /// Adds a row.
    fn put(&mut self, parts: Self::Parts<'_>);

    /// # Errors
    /// When a cell does not fit.
    fn whole(at: usize, row: Self::Row<'_>) -> Result<Self::Whole, InvalidCell>;

    /// A table with a row for each of some values.
    fn of<'a>(all: impl IntoIterator<Item = Self::Parts<'a>>) -> Self {
        let mut table = Self::default();
        all.into_iter().for_each(|parts| table.put(parts));
        table
    }

    /// What the rows of a batch are made of.
    fn wholes(batch: &Batch) -> impl Iterator<Item = Result<Self::Whole, InvalidCell>> {
        Self::rows(batch).enumerate().map(|(at, row)| Self::whole(at, row))
    }
}

/// Declares a table as [`table!`](macro@crate::table) does, and what its rows are made of: types with their
/// patterns, in which the names of columns stand for the values of cells.
///
/// What is not a plain field follows in two blocks, each where it is needed: `write` makes the columns that
/// the patterns do not bind, as references, and `read` what they bind and no column holds.
///
/// ```ignore
/// stored! {
///     /// One row per run.
///     struct Runs, RunRow = "runs" by "position" {
///         lane: u32, "", "position of its lane";
///         start_ns: i64, "ns", "start";
///         end_ns: i64, "ns", "end";
///         depth: Option<u32>, "", "depth, where nested";
///     } of u32 = (lane), Run = (Run { span: Span { start: start_ns, end: end_ns }, nesting, parts });
///     write { let depth = &nesting.map(|n| n.depth); }
///     read { let (nesting, parts) = (Option::map(depth, Nesting::new), Vec::new()); }
/// }
///
/// let table = Runs::of(runs.iter().map(|run| (&lane, run)));
/// let runs: Result<Vec<(u32, Run)>, InvalidCell> = Runs::wholes(&batch).collect();
/// ```
#[macro_export]
macro_rules! stored {
    ($(#[doc = $doc:literal])+ $vis:vis struct $name:ident, $row:ident = $table:literal by $order:literal {
        $($col:ident $(: $ty:ty, $unit:literal, $cdoc:literal)?;)+
    } of $($part:ty = ($($shape:tt)+)),+; $(write { $($write:tt)* })? $(read { $($read:tt)* })?) => {
        $crate::table! {
            $(#[doc = $doc])+
            $vis struct $name, $row = $table by $order { $($col $(: $ty, $unit, $cdoc)?;)+ }
        }

        impl $crate::table::stored::Stored for $name {
            type Parts<'a> = ($(&'a $part),+);
            type Whole = ($($part),+);

            #[allow(unused_variables, reason = "a pattern names all fields, also those without a column")]
            fn put(&mut self, parts: Self::Parts<'_>) {
                let ($($($shape)+),+) = parts;
                $($($write)*)?
                self.push($row { $($col: <_ as $crate::table::stored::CellOf<
                    $crate::column!(ty $col $(: $ty, $unit, $cdoc)?)
                >>::cell($col),)+ });
            }

            fn whole(
                at: usize,
                row: Self::Row<'_>,
            ) -> Result<Self::Whole, $crate::table::checked::InvalidCell> {
                $(let $col = <_ as $crate::table::stored::CellOf<
                    $crate::column!(ty $col $(: $ty, $unit, $cdoc)?)
                >>::of_cell(row.$col).map_err(|unfit| unfit.at::<Self>(at, stringify!($col)))?;)+
                $($($read)*)?
                Ok(($($($shape)+),+))
            }
        }
    };
}

/// Lets the values of an enum be text cells: all its values, and the method that names one.
#[macro_export]
macro_rules! stored_name {
    ($ty:ty, $all:expr, $name:ident) => {
        impl $crate::table::stored::CellOf<$crate::table::schema::Text> for $ty {
            fn cell(&self) -> &str {
                self.$name()
            }

            fn of_cell(cell: &str) -> Result<Self, $crate::table::stored::UnfitCell> {
                let known = $all.into_iter().find(|value| value.$name() == cell);
                known.ok_or_else(|| $crate::table::stored::UnfitCell::unknown(cell))
            }
        }
    };
}

/// Values that are cells as they are.
macro_rules! plain_cells {
    ($($ty:ty),+) => {$(
        impl CellOf<$ty> for $ty {
            fn cell(&self) -> $ty {
                *self
            }
            fn of_cell(cell: $ty) -> Result<Self, UnfitCell> {
                Ok(cell)
            }
        }
    )+};
}

plain_cells!(i64, u32, u64, bool, Option<i64>, Option<u32>, Option<u64>, Option<bool>);

impl CellOf<u32> for u16 {
    fn cell(&self) -> u32 {
        u32::from(*self)
    }

    fn of_cell(cell: u32) -> Result<Self, UnfitCell> {
        let unfit = |_| UnfitCell { expected: format!("at most {}", u16::MAX), found: cell.to_string() };
        u16::try_from(cell).map_err(unfit)
    }
}

impl CellOf<Text> for String {
    fn cell(&self) -> &str {
        self
    }

    fn of_cell(cell: &str) -> Result<Self, UnfitCell> {
        Ok(cell.to_string())
    }
}

impl CellOf<Text> for Arc<str> {
    fn cell(&self) -> &str {
        self
    }

    fn of_cell(cell: &str) -> Result<Self, UnfitCell> {
        Ok(cell.into())
    }
}

impl<T: CellOf<Text>> CellOf<Option<Text>> for Option<T> {
    fn cell(&self) -> Option<&str> {
        self.as_ref().map(T::cell)
    }

    fn of_cell(cell: Option<&str>) -> Result<Self, UnfitCell> {
        cell.map(T::of_cell).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Span;

    #[derive(Debug, Clone, PartialEq)]
    struct Stretch {
        span: Span,
        name: Option<String>,
        pair: Option<(u32, u32)>,
    }

    stored! {
        /// One row per stretch of a lane.
        struct Stretches, StretchRow = "stretches" by "lane" {
            lane: u32, "", "lane";
            start_ns: i64, "ns", "start";
            end_ns: i64, "ns", "end";
            name: Option<Text>, "", "name";
            first: Option<u32>, "", "first of the pair";
            second: Option<u32>, "", "second of the pair";
        } of u16 = (lane), Stretch = (Stretch { span: Span { start: start_ns, end: end_ns }, name, pair });
        write { let (first, second) = (&pair.map(|p| p.0), &pair.map(|p| p.1)); }
        read { let pair = Option::zip(first, second); }
    }

    #[test]
    fn what_is_written_reads_back_and_a_cell_that_does_not_fit_is_told() {
        let all = [
            (3, Stretch { span: Span::new(5, 9), name: Some("a".to_string()), pair: None }),
            (0, Stretch { span: Span::new(-1, 0), name: None, pair: Some((1, 2)) }),
        ];
        let batch = Stretches::of(all.iter().map(|(lane, stretch)| (lane, stretch))).finish();
        assert_eq!(Stretches::wholes(&batch).collect::<Result<Vec<_>, _>>().unwrap(), all);
        let mut table = Stretches::default();
        table.push(StretchRow { lane: 1 << 16, ..StretchRow::default() });
        let error = Stretches::wholes(&table.finish()).next().unwrap().unwrap_err();
        let expected = "table `stretches`, row 0, column `lane`: expected at most 65535, found 65536";
        assert_eq!(error.to_string(), expected);
    }
}

//! Columns of several batches of one table, put together row by row.
//!
//! A batch of a few rows takes many times their size, so batches that wait to be written together are not kept as they
//! are: their values are.

use crate::table::cells::{Nullable, Texts};
use crate::table::schema::Cell;
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Float64Type, Int32Type, Int64Type, UInt32Type, UInt64Type};

/// A column that grows by what other columns of its type hold.
#[derive(Debug)]
pub enum Appended {
    I64(Nullable<i64>),
    U32(Nullable<u32>),
    U64(Nullable<u64>),
    F64(Nullable<f64>),
    Flags(Nullable<bool>),
    Texts(Texts),
}

impl Appended {
    /// A column of one of the types that tables have.
    pub fn new(kind: &DataType) -> Self {
        match kind {
            DataType::Int64 => Self::I64(Nullable::default()),
            DataType::UInt32 => Self::U32(Nullable::default()),
            DataType::UInt64 => Self::U64(Nullable::default()),
            DataType::Float64 => Self::F64(Nullable::default()),
            DataType::Boolean => Self::Flags(Nullable::default()),
            _ => Self::Texts(Texts::default()),
        }
    }

    /// A column with room for so many rows.
    pub fn with_capacity(kind: &DataType, rows: usize) -> Self {
        let mut column = Self::new(kind);
        match &mut column {
            Self::I64(of) => of.reserve(rows),
            Self::U32(of) => of.reserve(rows),
            Self::U64(of) => of.reserve(rows),
            Self::F64(of) => of.reserve(rows),
            Self::Flags(of) => of.reserve(rows),
            Self::Texts(of) => of.reserve(rows),
        }
        column
    }

    /// Adds what a column holds, which is of the same table and so of the same type.
    pub fn append(&mut self, column: &ArrayRef) {
        let nulls = column.nulls();
        match self {
            Self::I64(to) => to.extend(column.as_primitive::<Int64Type>().values().iter().copied(), nulls),
            Self::U32(to) => to.extend(column.as_primitive::<UInt32Type>().values().iter().copied(), nulls),
            Self::U64(to) => to.extend(column.as_primitive::<UInt64Type>().values().iter().copied(), nulls),
            Self::F64(to) => to.extend(column.as_primitive::<Float64Type>().values().iter().copied(), nulls),
            Self::Flags(to) => to.extend(column.as_boolean().values().iter(), nulls),
            Self::Texts(to) => {
                let texts = column.as_dictionary::<Int32Type>();
                let words: Vec<&str> =
                    texts.values().as_string::<i32>().iter().map(Option::unwrap_or_default).collect();
                to.extend(&words, texts.keys().values().iter().copied(), nulls);
            }
        }
    }

    pub fn finish(self) -> ArrayRef {
        match self {
            Self::I64(of) => Option::<i64>::finish(of),
            Self::U32(of) => Option::<u32>::finish(of),
            Self::U64(of) => Option::<u64>::finish(of),
            Self::F64(of) => Option::<f64>::finish(of),
            Self::Flags(of) => Option::<bool>::finish(of),
            Self::Texts(of) => of.finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::every::{Every, Row, batch};
    use crate::table::schema::Batch;
    use arrow::compute::concat_batches;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn batches_put_together_are_all_their_rows(lists in prop::collection::vec(prop::collection::vec(any::<Row>(), 0..20), 0..6)) {
            let batches: Vec<Batch> = lists.iter().map(|l| batch(l)).collect();
            let whole = batch(&lists.concat());
            for (i, field) in Every::SPEC.schema().fields().iter().enumerate() {
                let mut column = Appended::new(field.data_type());
                batches.iter().for_each(|b| column.append(b.rows.column(i)));
                prop_assert_eq!(&column.finish(), whole.rows.column(i));
            }
        }
    }

    #[test]
    fn a_text_that_no_row_has_is_left_out() {
        let rows: Vec<Row> = ["a", "b", "a"].map(|h| (0, None, None, None, None, Some(h.to_string()))).to_vec();
        let all = batch(&rows);
        let host = concat_batches(&all.rows.schema(), &[all.rows.slice(1, 1)]).unwrap().column(5).clone();
        let mut column = Appended::new(host.data_type());
        column.append(&host);
        let column = column.finish();
        let texts = column.as_dictionary::<Int32Type>();
        assert_eq!(texts.values().as_string::<i32>().iter().collect::<Vec<_>>(), [Some("b")]);
    }
}

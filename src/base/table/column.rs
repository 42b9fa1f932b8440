//! Access to a column by its name, for callers that do not know the table at compile time.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, Int64Type, UInt32Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int32Array, Int64Array, StringArray, UInt32Array,
    UInt64Array,
};
use arrow_schema::DataType;
use std::ops::Range;

/// Some rows of a column of one of the types that tables can have.
#[derive(Debug, Clone, Copy)]
pub struct Column<'a> {
    pub cells: ColumnCells<'a>,
    first: usize,
    count: usize,
}

/// The cells of a column by their type.
#[derive(Debug, Clone, Copy)]
pub enum ColumnCells<'a> {
    I64(&'a Int64Array),
    U32(&'a UInt32Array),
    U64(&'a UInt64Array),
    F64(&'a Float64Array),
    Bool(&'a BooleanArray),
    /// Indices into the distinct texts, and the distinct texts.
    Text(&'a Int32Array, &'a StringArray),
}

/// The cell of a row, if the row exists and the cell is not null.
fn cell<T>(array: &impl Array, row: usize, value: impl FnOnce() -> T) -> Option<T> {
    (row < array.len() && array.is_valid(row)).then(value)
}

impl<'a> ColumnCells<'a> {
    fn new(array: &'a ArrayRef) -> Option<Self> {
        match array.data_type() {
            DataType::Int64 => array.as_primitive_opt::<Int64Type>().map(Self::I64),
            DataType::UInt32 => array.as_primitive_opt::<UInt32Type>().map(Self::U32),
            DataType::UInt64 => array.as_primitive_opt::<UInt64Type>().map(Self::U64),
            DataType::Float64 => array.as_primitive_opt::<Float64Type>().map(Self::F64),
            DataType::Boolean => array.as_boolean_opt().map(Self::Bool),
            _ => {
                let texts = array.as_dictionary_opt::<Int32Type>()?;
                Some(Self::Text(texts.keys(), texts.values().as_string_opt::<i32>()?))
            }
        }
    }
}

impl<'a> Column<'a> {
    /// All rows of an array; `None` if no table has columns of this type.
    pub fn new(array: &'a ArrayRef) -> Option<Self> {
        Self::of(array, 0..array.len())
    }

    /// Some rows of an array, of which the first has number 0.
    pub(crate) fn of(array: &'a ArrayRef, rows: Range<usize>) -> Option<Self> {
        Some(Self { cells: ColumnCells::new(array)?, first: rows.start, count: rows.len() })
    }

    /// The position of a row in the arrays.
    fn position(&self, row: usize) -> Option<usize> {
        (row < self.count).then_some(self.first + row)
    }

    /// An integer; a boolean is 0 or 1. `None` for null, overflow, a row that does not exist, or a column of
    /// another type.
    pub fn int(&self, row: usize) -> Option<i64> {
        let row = self.position(row)?;
        match self.cells {
            ColumnCells::I64(a) => cell(a, row, || a.value(row)),
            ColumnCells::U32(a) => cell(a, row, || i64::from(a.value(row))),
            ColumnCells::U64(a) => cell(a, row, || a.value(row)).and_then(|v| i64::try_from(v).ok()),
            ColumnCells::Bool(a) => cell(a, row, || i64::from(a.value(row))),
            ColumnCells::F64(_) | ColumnCells::Text(..) => None,
        }
    }

    /// An unsigned 64-bit integer; `None` for columns of other types.
    pub fn uint(&self, row: usize) -> Option<u64> {
        let row = self.position(row)?;
        match self.cells {
            ColumnCells::U64(a) => cell(a, row, || a.value(row)),
            _ => None,
        }
    }

    /// A floating-point number; integers are converted.
    pub fn float(&self, row: usize) -> Option<f64> {
        match self.cells {
            ColumnCells::F64(a) => {
                let row = self.position(row)?;
                cell(a, row, || a.value(row))
            }
            _ => self.int(row).map(|v| v as f64),
        }
    }

    /// Number of a text among the distinct texts of the column; rows with the same number have the same text.
    pub fn text_number(&self, row: usize) -> Option<i32> {
        let row = self.position(row)?;
        match self.cells {
            ColumnCells::Text(keys, _) => cell(keys, row, || keys.value(row)),
            _ => None,
        }
    }

    pub fn text(&self, row: usize) -> Option<&'a str> {
        let ColumnCells::Text(_, texts) = self.cells else { return None };
        let key = usize::try_from(self.text_number(row)?).ok()?;
        cell(texts, key, || texts.value(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{DictionaryArray, StringViewArray};
    use std::sync::Arc;

    #[test]
    fn cells_are_what_was_put_in_and_nothing_stands_behind_the_last() {
        let numbers: ArrayRef = Arc::new(UInt64Array::from(vec![Some(7), None, Some(u64::MAX)]));
        let column = Column::new(&numbers).unwrap();
        assert_eq!([0, 1, 2, 3].map(|r| column.int(r)), [Some(7), None, None, None]);
        assert_eq!([0, 1, 2, 3].map(|r| column.uint(r)), [Some(7), None, Some(u64::MAX), None]);
        assert_eq!((column.float(0), column.text(0)), (Some(7.0), None));
        let marks: ArrayRef = Arc::new(BooleanArray::from(vec![true, false]));
        assert_eq!([0, 1, 2].map(|r| Column::new(&marks).unwrap().int(r)), [Some(1), Some(0), None]);
        let fractions: ArrayRef = Arc::new(Float64Array::from(vec![1.5]));
        let column = Column::new(&fractions).unwrap();
        assert_eq!((column.float(0), column.float(1), column.int(0)), (Some(1.5), None, None));
        let texts: ArrayRef = Arc::new(
            [Some("b"), None, Some("a"), Some("b")].into_iter().collect::<DictionaryArray<Int32Type>>(),
        );
        let column = Column::new(&texts).unwrap();
        assert_eq!([0, 1, 2, 3, 4].map(|r| column.text(r)), [Some("b"), None, Some("a"), Some("b"), None]);
        let other: ArrayRef = Arc::new(StringViewArray::from(vec!["a"]));
        assert!(Column::new(&other).is_none());
    }
}

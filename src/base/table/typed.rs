//! Typed access to the columns of a table: slices of numbers, flags and texts, with or without nulls.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, Int64Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, StringArray};
use arrow_buffer::NullBuffer;
use std::ops::Range;

/// A column whose cells are values of one type.
pub trait Values<'a>: Copy {
    type Value;
    /// Some rows of an array as a column of this type; `None` if the array has another type or fewer rows.
    fn of(array: &'a ArrayRef, rows: Range<usize>) -> Option<Self>;
    /// The cell of a row, which must exist; the first has number 0.
    fn at(self, row: usize) -> Self::Value;
}

macro_rules! numbers {
    ($($ty:ty, $arrow:ty;)+) => {$(
        impl<'a> Values<'a> for &'a [$ty] {
            type Value = $ty;
            fn of(array: &'a ArrayRef, rows: Range<usize>) -> Option<Self> {
                array.as_primitive_opt::<$arrow>()?.values().get(rows)
            }
            fn at(self, row: usize) -> $ty {
                self[row]
            }
        }
    )+};
}

numbers! {
    i64, Int64Type;
    u32, UInt32Type;
    u64, UInt64Type;
    f64, Float64Type;
}

/// A column of true and false.
#[derive(Debug, Clone, Copy)]
pub struct Flags<'a> {
    all: &'a BooleanArray,
    first: usize,
}

impl<'a> Values<'a> for Flags<'a> {
    type Value = bool;
    fn of(array: &'a ArrayRef, rows: Range<usize>) -> Option<Self> {
        let all = array.as_boolean_opt().filter(|a| rows.end <= a.len())?;
        Some(Self { all, first: rows.start })
    }
    fn at(self, row: usize) -> bool {
        self.all.value(self.first + row)
    }
}

/// A column of texts: a key for each row, and the distinct texts.
#[derive(Debug, Clone, Copy)]
pub struct Words<'a> {
    keys: &'a [i32],
    texts: &'a StringArray,
}

impl<'a> Words<'a> {
    /// Index of a row's text among the distinct texts. Rows with equal keys have equal texts.
    pub fn key(self, row: usize) -> usize {
        self.keys[row] as usize
    }

    /// The text of a key that [`Words::key`] returned.
    pub fn text_of(self, key: usize) -> &'a str {
        self.texts.value(key)
    }
}

impl<'a> Values<'a> for Words<'a> {
    type Value = &'a str;
    fn of(array: &'a ArrayRef, rows: Range<usize>) -> Option<Self> {
        let texts = array.as_dictionary_opt::<Int32Type>()?;
        Some(Self { keys: texts.keys().values().get(rows)?, texts: texts.values().as_string_opt()? })
    }
    fn at(self, row: usize) -> &'a str {
        self.text_of(self.key(row))
    }
}

/// A column that can have nulls.
#[derive(Debug, Clone, Copy)]
pub struct Maybe<'a, V> {
    values: V,
    nulls: Option<&'a NullBuffer>,
    first: usize,
}

impl<'a, V: Values<'a>> Values<'a> for Maybe<'a, V> {
    type Value = Option<V::Value>;
    fn of(array: &'a ArrayRef, rows: Range<usize>) -> Option<Self> {
        let first = rows.start;
        Some(Self { values: V::of(array, rows)?, nulls: array.nulls(), first })
    }
    fn at(self, row: usize) -> Option<V::Value> {
        self.nulls.is_none_or(|n| n.is_valid(self.first + row)).then(|| self.values.at(row))
    }
}

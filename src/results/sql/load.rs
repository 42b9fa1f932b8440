//! Converts `arrow` batches to Polars tables, without copying values of types that both libraries have.
//!
//! A column of unsigned numbers becomes signed if all its values fit, so that `a - b` can be negative; larger
//! 64-bit ids stay unsigned. Polars has no dictionary type other than its categoricals, so texts become
//! string views: each row points to its text in the shared dictionary.

use crate::results::parquet_file::{NUMBER_BYTES, TEXT_BYTES, is_text};
use crate::sql::QueryError;
use crate::sql::codes::{is_code, stored_name};
use crate::sql::into_polars;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StringViewArray, UInt64Array, new_empty_array};
use arrow_buffer::ScalarBuffer;
use arrow_schema::DataType as Kind;
use arrow_select::concat::concat;
use arrow_select::take::take;
use polars::prelude::{Column, DataFrame, PolarsError};
use std::sync::Arc;

/// A Polars table that is built batch by batch.
pub(crate) struct GrowingFrame {
    /// Source of the rows, for error messages.
    place: String,
    columns: Vec<ColumnChunks>,
    /// Whether unsigned columns whose values all fit become signed at the end.
    narrows: bool,
}

/// One column: one array per batch.
struct ColumnChunks {
    name: String,
    /// The type of all arrays.
    kind: Kind,
    arrays: Vec<ArrayRef>,
}

/// Mean number of rows per batch below which batches are joined, because Polars works chunk by chunk.
const SMALL: usize = 1 << 14;

/// The type that a column of a table has while a statement runs; `None` for a type that no table has.
pub(crate) fn kind_in_memory(kind: &Kind) -> Option<Kind> {
    Some(match kind {
        Kind::Int64 | Kind::Int32 | Kind::UInt32 => Kind::Int64,
        Kind::UInt64 | Kind::Float64 | Kind::Boolean => kind.clone(),
        _ if is_text(kind) => Kind::Utf8View,
        _ => return None,
    })
}

impl GrowingFrame {
    /// A table with these columns.
    ///
    /// # Errors
    /// A column of a type that no table has.
    pub(crate) fn new<'a>(
        place: &str,
        columns: impl IntoIterator<Item = (&'a str, &'a Kind)>,
    ) -> Result<Self, QueryError> {
        let columns = columns.into_iter().map(|(name, kind)| {
            let kind = match is_code(name) {
                true => Kind::UInt32,
                false => kind_in_memory(kind).ok_or_else(|| odd(place, name, kind))?,
            };
            Ok(ColumnChunks { name: name.to_string(), kind, arrays: Vec::new() })
        });
        let columns = columns.collect::<Result<_, QueryError>>()?;
        Ok(Self { place: place.to_string(), columns, narrows: true })
    }

    /// Keeps unsigned columns as they are. A column declared signed takes unsigned arrays whose values fit.
    pub(crate) fn keeping_unsigned(mut self) -> Self {
        self.narrows = false;
        self
    }

    /// Adds rows; columns are found by name.
    ///
    /// # Errors
    /// A column that is missing or has another type.
    pub(crate) fn push(&mut self, rows: &RecordBatch) -> Result<(), QueryError> {
        let arrays = self.converted(&self.place, rows)?;
        self.add(arrays);
        Ok(())
    }

    /// The columns of rows as Polars takes them, in the table's order. `place` is where the rows are from.
    /// For a column of codes these are its texts: codes are assigned in the order of the rows.
    ///
    /// # Errors
    /// A column that is missing or has another type.
    pub(crate) fn converted(&self, place: &str, rows: &RecordBatch) -> Result<Vec<ArrayRef>, QueryError> {
        let convert = |column: &ColumnChunks| {
            let array =
                rows.column_by_name(stored_name(&column.name)).ok_or_else(|| QueryError::Unreadable {
                    path: place.to_string(),
                    reason: format!("expected a column `{}`, found none", column.name),
                })?;
            if is_code(&column.name) {
                return Ok(Arc::clone(array));
            }
            let mut found = for_polars(array);
            if let Some(numbers) = found.as_ref().and_then(|a| a.as_primitive_opt::<UInt64Type>())
                && column.kind == Kind::Int64
                && fits(numbers)
            {
                found = Some(Arc::new(signed(numbers)));
            }
            let fitting = found.filter(|a| *a.data_type() == column.kind);
            fitting.ok_or_else(|| odd(place, &column.name, array.data_type()))
        };
        self.columns.iter().map(convert).collect()
    }

    /// Adds what [`Self::converted`] made, with codes in the place of their texts.
    pub(crate) fn add(&mut self, arrays: Vec<ArrayRef>) {
        self.columns.iter_mut().zip(arrays).for_each(|(column, array)| column.arrays.push(array));
    }

    /// The table.
    ///
    /// # Errors
    /// Columns that Polars refuses.
    pub(crate) fn finish(self) -> Result<DataFrame, QueryError> {
        let unreadable = |reason: String| QueryError::Unreadable { path: self.place.clone(), reason };
        let refused = |e: PolarsError| unreadable(crate::sql::statement::plain(&e));
        let columns = self.columns.into_iter().map(|ColumnChunks { name, mut kind, mut arrays }| {
            if self.narrows && kind == Kind::UInt64 && arrays.iter().all(|a| fits(a.as_primitive())) {
                kind = Kind::Int64;
                arrays = arrays.iter().map(|a| Arc::new(signed(a.as_primitive())) as ArrayRef).collect();
            }
            if arrays.is_empty() {
                arrays.push(new_empty_array(&kind));
            }
            if arrays.len() > 1 && arrays.iter().map(|a| a.len()).sum::<usize>() < SMALL * arrays.len() {
                let all: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
                arrays = vec![concat(&all).map_err(|e| unreadable(e.to_string()))?];
            }
            Ok(Column::from(into_polars::series(&name, &kind, &arrays).map_err(refused)?))
        });
        DataFrame::new_infer_height(columns.collect::<Result<_, QueryError>>()?).map_err(refused)
    }
}

/// The array converted to a type that Polars has too; `None` for a type that no table has.
fn for_polars(array: &ArrayRef) -> Option<ArrayRef> {
    Some(match array.data_type() {
        Kind::Int64 | Kind::UInt64 | Kind::Float64 | Kind::Boolean | Kind::Utf8View => Arc::clone(array),
        Kind::Int32 => {
            Arc::new(array.as_primitive::<Int32Type>().unary::<_, Int64Type>(i64::from)) as ArrayRef
        }
        Kind::UInt32 => Arc::new(array.as_primitive::<UInt32Type>().unary::<_, Int64Type>(i64::from)),
        Kind::Utf8 => Arc::new(StringViewArray::from(array.as_string::<i32>())),
        Kind::Dictionary(_, _) => {
            let texts = array.as_dictionary_opt::<Int32Type>()?;
            let words = StringViewArray::from(texts.values().as_string_opt::<i32>()?);
            take(&words, texts.keys(), None).ok()?
        }
        _ => return None,
    })
}

fn fits(numbers: &UInt64Array) -> bool {
    numbers.iter().flatten().all(|n| i64::try_from(n).is_ok())
}

/// Numbers as signed integers, in the same memory. They must fit.
fn signed(numbers: &UInt64Array) -> Int64Array {
    let values = ScalarBuffer::new(numbers.values().inner().clone(), 0, numbers.len());
    Int64Array::new(values, numbers.nulls().cloned())
}

/// Size of the values of a column, bytes. A text counts once per row, because a query result may repeat it
/// for every row, and once in all if the rows become codes.
pub(super) fn size(array: &ArrayRef) -> u64 {
    let width = if is_text(array.data_type()) { TEXT_BYTES } else { NUMBER_BYTES };
    // The low half of a view contains the length of its text.
    let texts =
        array.as_string_view_opt().map_or(0, |t| t.views().iter().map(|v| u64::from(*v as u32)).sum());
    let words = array.as_any_dictionary_opt().map_or(0, |d| d.values().get_array_memory_size() as u64);
    (array.len() as u64).saturating_mul(width).saturating_add(texts).saturating_add(words)
}

pub(super) fn odd(place: &str, name: &str, kind: &Kind) -> QueryError {
    let reason = format!("expected numbers, text or true and false in the column `{name}`, found {kind}");
    QueryError::Unreadable { path: place.to_string(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{DictionaryArray, StringArray, UInt32Array};
    use arrow_schema::{Field, Schema};

    fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
        let fields: Vec<Field> =
            columns.iter().map(|(n, a)| Field::new(*n, a.data_type().clone(), true)).collect();
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns.into_iter().map(|c| c.1).collect())
            .unwrap()
    }

    fn frame(batches: &[RecordBatch]) -> Result<DataFrame, QueryError> {
        let schema = batches[0].schema();
        let mut table =
            GrowingFrame::new("t", schema.fields().iter().map(|f| (f.name().as_str(), f.data_type())))?;
        batches.iter().try_for_each(|b| table.push(b))?;
        table.finish()
    }

    #[test]
    fn values_and_nulls_arrive_whole() {
        let ranks: ArrayRef = Arc::new(UInt32Array::from(vec![Some(u32::MAX), None]));
        let ids: ArrayRef = Arc::new(UInt64Array::from(vec![7, u64::MAX]));
        let counts: ArrayRef = Arc::new(UInt64Array::from(vec![Some(5), None]));
        let names: ArrayRef =
            Arc::new(vec![Some("a"), None].into_iter().collect::<DictionaryArray<Int32Type>>());
        let plain: ArrayRef = Arc::new(StringArray::from(vec![None, Some("it's")]));
        let one =
            batch(vec![("rank", ranks), ("id", ids), ("count", counts), ("name", names), ("text", plain)]);
        let frame = frame(&[one.clone(), one]).unwrap();
        assert_eq!(frame.height(), 4);
        let ints = |c: &str| frame.column(c).unwrap().i64().unwrap().iter().collect::<Vec<_>>();
        assert_eq!(ints("rank"), [Some(4_294_967_295), None, Some(4_294_967_295), None]);
        assert_eq!(ints("count"), [Some(5), None, Some(5), None]);
        assert_eq!(frame.column("id").unwrap().u64().unwrap().get(1), Some(u64::MAX));
        let texts = |c: &str| frame.column(c).unwrap().str().unwrap().get(2).map(str::to_string);
        assert_eq!((texts("name"), texts("text")), (Some("a".to_string()), None));
    }

    #[test]
    fn a_type_that_no_table_has_is_refused_by_name() {
        let odd: ArrayRef = Arc::new(arrow_array::Float32Array::from(vec![1.0]));
        let message = frame(&[batch(vec![("x", odd)])]).unwrap_err().to_string();
        assert!(message.contains("column `x`") && message.contains("Float32"), "{message}");
    }
}

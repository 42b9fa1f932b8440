//! Columns of `arrow` copied into those of Polars, batch by batch, so that a table is never in memory twice.
//!
//! Unsigned numbers become signed ones where all fit, so that `a - b` is what it looks like; ids of 64 bits stay as they
//! are. Texts are repeated for each row: Polars has no dictionary without its categories.

use crate::sql::QueryError;
use crate::units::MemoryLimit;
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType as Kind, Float64Type, Int32Type, Int64Type, UInt32Type, UInt64Type};
use polars::prelude::{
    BooleanChunkedBuilder, ChunkedBuilder, Column, DataFrame, DataType, Float64Type as Floats, Int64Type as Ints,
    IntoSeries, PlSmallStr, PrimitiveChunkedBuilder, StringChunkedBuilder, UInt64Type as UInts,
};

/// A table of Polars that grows batch by batch.
pub struct Growing {
    /// Where the rows come from, for messages.
    place: String,
    columns: Vec<(String, Builder)>,
    /// What the copied values take, bytes.
    bytes: u64,
    /// Where they would be too many.
    limit: Option<MemoryLimit>,
}

enum Builder {
    Ints(PrimitiveChunkedBuilder<Ints>),
    UInts(PrimitiveChunkedBuilder<UInts>),
    Floats(PrimitiveChunkedBuilder<Floats>),
    Bools(BooleanChunkedBuilder),
    Texts(StringChunkedBuilder),
}

impl Growing {
    /// A table with these columns.
    ///
    /// # Errors
    /// A column of a type that no table has.
    pub fn new<'a>(place: &str, columns: impl IntoIterator<Item = (&'a str, &'a Kind)>) -> Result<Self, QueryError> {
        let columns = columns.into_iter().map(|(name, kind)| {
            let at = PlSmallStr::from_str(name);
            let builder = match kind {
                Kind::Int64 | Kind::Int32 | Kind::UInt32 => Builder::Ints(PrimitiveChunkedBuilder::new(at, 0)),
                Kind::UInt64 => Builder::UInts(PrimitiveChunkedBuilder::new(at, 0)),
                Kind::Float64 => Builder::Floats(PrimitiveChunkedBuilder::new(at, 0)),
                Kind::Boolean => Builder::Bools(BooleanChunkedBuilder::new(at, 0)),
                Kind::Utf8 | Kind::Dictionary(_, _) => Builder::Texts(StringChunkedBuilder::new(at, 0)),
                other => return Err(odd(place, name, other)),
            };
            Ok((name.to_string(), builder))
        });
        Ok(Self { place: place.to_string(), columns: columns.collect::<Result<_, _>>()?, bytes: 0, limit: None })
    }

    /// Refuses rows that would take more.
    pub fn within(mut self, limit: Option<MemoryLimit>) -> Self {
        self.limit = limit;
        self
    }

    /// What the copied values take, bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds rows; columns are found by their name.
    ///
    /// # Errors
    /// A column that is missing, or of another type; more bytes than the limit.
    pub fn push(&mut self, rows: &RecordBatch) -> Result<(), QueryError> {
        if let Some(limit) = self.limit {
            let columns = self.columns.iter().filter_map(|(name, _)| rows.column_by_name(name));
            self.bytes = columns.map(copied_size).fold(self.bytes, u64::saturating_add);
            if self.bytes > limit.bytes {
                return Err(QueryError::TooLarge { path: self.place.clone(), limit });
            }
        }
        for (name, builder) in &mut self.columns {
            let array = rows.column_by_name(name).ok_or_else(|| QueryError::Unreadable {
                path: self.place.clone(),
                reason: format!("expected a column `{name}`, found none"),
            })?;
            append(builder, array).ok_or_else(|| odd(&self.place, name, array.data_type()))?;
        }
        Ok(())
    }

    /// The table.
    ///
    /// # Errors
    /// Columns that Polars refuses.
    pub fn finish(self) -> Result<DataFrame, QueryError> {
        let place = self.place;
        let refused = |e: polars::prelude::PolarsError| QueryError::Unreadable {
            path: place.clone(),
            reason: crate::sql::statement::plain(&e),
        };
        let columns = self.columns.into_iter().map(|(_, builder)| {
            Ok(Column::from(match builder {
                Builder::Ints(b) => b.finish().into_series(),
                Builder::Floats(b) => b.finish().into_series(),
                Builder::Bools(b) => b.finish().into_series(),
                Builder::Texts(b) => b.finish().into_series(),
                Builder::UInts(b) => {
                    let numbers = b.finish();
                    let fits = numbers.iter().flatten().all(|v| i64::try_from(v).is_ok());
                    let series = numbers.into_series();
                    if fits { series.cast(&DataType::Int64).map_err(refused)? } else { series }
                }
            }))
        });
        DataFrame::new_infer_height(columns.collect::<Result<_, QueryError>>()?).map_err(refused)
    }
}

/// What the values of a column take when they are copied, bytes: a text is there once for each row that has it.
fn copied_size(array: &ArrayRef) -> u64 {
    let (rows, width) = (array.len() as u64, if is_text(array.data_type()) { TEXT_BYTES } else { NUMBER_BYTES });
    let texts: u64 = match array.data_type() {
        Kind::Utf8 => array.as_string::<i32>().iter().flatten().map(|t| t.len() as u64).sum(),
        Kind::Dictionary(_, _) => {
            let Some(texts) = array.as_dictionary_opt::<Int32Type>() else { return 0 };
            let Some(words) = texts.values().as_string_opt::<i32>() else { return 0 };
            (0..texts.len()).filter_map(|row| texts.key(row)).map(|key| words.value(key).len() as u64).sum()
        }
        _ => 0,
    };
    rows.saturating_mul(width).saturating_add(texts)
}

pub(super) fn is_text(kind: &Kind) -> bool {
    matches!(kind, Kind::Utf8 | Kind::Dictionary(_, _))
}

/// What a number takes, bytes.
pub(super) const NUMBER_BYTES: u64 = 8;
/// What a text takes beside its characters, bytes.
pub(super) const TEXT_BYTES: u64 = 16;

fn odd(place: &str, name: &str, kind: &Kind) -> QueryError {
    let reason = format!("expected numbers, text or true and false in the column `{name}`, found {kind}");
    QueryError::Unreadable { path: place.to_string(), reason }
}

/// Copies the values; `None` where they are of another type.
fn append(builder: &mut Builder, array: &ArrayRef) -> Option<()> {
    match (builder, array.data_type()) {
        (Builder::Ints(b), Kind::Int64) => array.as_primitive::<Int64Type>().iter().for_each(|v| b.append_option(v)),
        (Builder::Ints(b), Kind::Int32) => {
            array.as_primitive::<Int32Type>().iter().for_each(|v| b.append_option(v.map(i64::from)));
        }
        (Builder::Ints(b), Kind::UInt32) => {
            array.as_primitive::<UInt32Type>().iter().for_each(|v| b.append_option(v.map(i64::from)));
        }
        (Builder::UInts(b), Kind::UInt64) => array.as_primitive::<UInt64Type>().iter().for_each(|v| b.append_option(v)),
        (Builder::Floats(b), Kind::Float64) => {
            array.as_primitive::<Float64Type>().iter().for_each(|v| b.append_option(v));
        }
        (Builder::Bools(b), Kind::Boolean) => array.as_boolean().iter().for_each(|v| b.append_option(v)),
        (Builder::Texts(b), Kind::Utf8) => array.as_string::<i32>().iter().for_each(|v| b.append_option(v)),
        (Builder::Texts(b), Kind::Dictionary(_, _)) => {
            let texts = array.as_dictionary_opt::<Int32Type>()?;
            let words = texts.values().as_string_opt::<i32>()?;
            for row in 0..texts.len() {
                b.append_option(texts.key(row).map(|key| words.value(key)));
            }
        }
        _ => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{DictionaryArray, StringArray, UInt32Array, UInt64Array};
    use arrow::datatypes::{Field, Schema};
    use std::sync::Arc;

    fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
        let fields: Vec<Field> = columns.iter().map(|(n, a)| Field::new(*n, a.data_type().clone(), true)).collect();
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns.into_iter().map(|c| c.1).collect()).unwrap()
    }

    fn frame(batches: &[RecordBatch]) -> Result<DataFrame, QueryError> {
        let schema = batches[0].schema();
        let mut table = Growing::new("t", schema.fields().iter().map(|f| (f.name().as_str(), f.data_type())))?;
        batches.iter().try_for_each(|b| table.push(b))?;
        table.finish()
    }

    #[test]
    fn values_and_nulls_arrive_whole() {
        let ranks: ArrayRef = Arc::new(UInt32Array::from(vec![Some(u32::MAX), None]));
        let ids: ArrayRef = Arc::new(UInt64Array::from(vec![7, u64::MAX]));
        let counts: ArrayRef = Arc::new(UInt64Array::from(vec![Some(5), None]));
        let names: ArrayRef = Arc::new(vec![Some("a"), None].into_iter().collect::<DictionaryArray<Int32Type>>());
        let plain: ArrayRef = Arc::new(StringArray::from(vec![None, Some("it's")]));
        let one = batch(vec![("rank", ranks), ("id", ids), ("count", counts), ("name", names), ("text", plain)]);
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
        let odd: ArrayRef = Arc::new(arrow::array::Float32Array::from(vec![1.0]));
        let message = frame(&[batch(vec![("x", odd)])]).unwrap_err().to_string();
        assert!(message.contains("column `x`") && message.contains("Float32"), "{message}");
    }
}

//! Passes columns from `arrow` to Polars, which has its own Arrow implementation.
//!
//! Both implement the Arrow C data interface, so a column is passed as pointers to its buffers and nothing is
//! copied. This is the only module of the library that needs `unsafe`.

#![allow(unsafe_code)]

use arrow_array::{Array, ArrayRef};
use arrow_data::ffi::FFI_ArrowArray;
use arrow_schema::DataType;
use arrow_schema::ffi::FFI_ArrowSchema;
use polars::prelude::{PlSmallStr, PolarsError, PolarsResult, Series};
use polars_arrow::ffi::{ArrowArray, ArrowSchema, import_array_from_c, import_field_from_c};
use std::mem::transmute;

/// A Polars column made from arrays of one type, each of which becomes a chunk.
///
/// # Errors
/// A type that one of the two libraries does not support.
pub(crate) fn series(name: &str, kind: &DataType, chunks: &[ArrayRef]) -> PolarsResult<Series> {
    let schema = FFI_ArrowSchema::try_from(kind)
        .map_err(|e: arrow_schema::ArrowError| PolarsError::ComputeError(e.to_string().into()))?;
    // SAFETY: both types are the `ArrowSchema` of the C data interface, `#[repr(C)]` and with the same
    // fields; the compiler checks that their sizes are equal. `transmute` moves the value, so it is released
    // once. `arrow` has just created the data that it points to, so that data is valid.
    let field = unsafe { import_field_from_c(&transmute::<FFI_ArrowSchema, ArrowSchema>(schema))? };
    let cross = |array: &ArrayRef| {
        let array = FFI_ArrowArray::new(&array.to_data());
        // SAFETY: as above, for `ArrowArray`. The array has the type `field.dtype`: before this closure is
        // called, all arrays are checked to be of `kind`, by their type in memory and not by one that a file
        // claims. The buffers are immutable and stay alive until Polars calls `release` of the moved value.
        unsafe { import_array_from_c(transmute::<FFI_ArrowArray, ArrowArray>(array), field.dtype.clone()) }
    };
    if let Some(other) = chunks.iter().find(|c| c.data_type() != kind) {
        return Err(PolarsError::SchemaMismatch(
            format!("expected {kind}, found {}", other.data_type()).into(),
        ));
    }
    let chunks = chunks.iter().map(cross).collect::<PolarsResult<Vec<_>>>()?;
    Series::try_from((PlSmallStr::from_str(name), chunks))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{BooleanArray, Float64Array, Int64Array, StringViewArray, UInt64Array};
    use std::sync::Arc;

    #[test]
    fn numbers_cross_in_place_and_outlive_the_array() {
        let numbers = Int64Array::from(vec![Some(7), None, Some(i64::MIN), Some(3)]);
        let place = numbers.values().as_ptr();
        let chunks: [ArrayRef; 2] = [Arc::new(numbers.clone()), Arc::new(numbers.slice(2, 2))];
        drop(numbers);
        let column = series("n", &DataType::Int64, &chunks).unwrap();
        drop(chunks);
        let column = column.i64().unwrap();
        assert_eq!(column.downcast_iter().next().unwrap().values().as_ptr(), place);
        let values = [Some(7), None, Some(i64::MIN), Some(3), Some(i64::MIN), Some(3)];
        assert_eq!(column.iter().collect::<Vec<_>>(), values);
    }

    #[test]
    fn all_types_of_tables_cross_whole_and_sliced() {
        let texts = StringViewArray::from(vec![
            Some("a"),
            None,
            Some("longer than what a view itself holds"),
            Some(""),
        ]);
        let flags = BooleanArray::from(vec![Some(true), None, Some(false), Some(true)]);
        let arrays: [ArrayRef; 4] = [
            Arc::new(texts),
            Arc::new(flags),
            Arc::new(Float64Array::from(vec![0.5, f64::NAN, -0.0, 9.0])),
            Arc::new(UInt64Array::from(vec![Some(u64::MAX), None, Some(0), Some(1)])),
        ];
        for array in arrays {
            let shown = |a: &ArrayRef| {
                let column = series("x", a.data_type(), std::slice::from_ref(a)).unwrap();
                column.iter().map(|v| v.to_string()).collect::<Vec<_>>()
            };
            let whole = shown(&array);
            assert_eq!(shown(&array.slice(1, 3)), whole[1..]);
            assert_eq!(shown(&array.slice(0, 0)), [""; 0]);
            assert_eq!(whole[1], if *array.data_type() == DataType::Float64 { "NaN" } else { "null" });
        }
    }

    #[test]
    fn arrays_of_another_type_are_refused() {
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        assert!(series("n", &DataType::Float64, &[numbers]).is_err());
    }
}

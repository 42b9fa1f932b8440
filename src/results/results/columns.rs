//! Which columns of a table a reader takes: a row type whose cells have the types that the table declares.

use arrow_array::{Array, RecordBatch};
use hta_base::table::schema::ColumnType;
use hta_base::table::typed::Values;

/// Columns of a table that a reader takes. [`columns!`] declares them.
pub trait Picked {
    const TABLE: &'static str;
    const COLUMNS: &'static [&'static str];
    /// One cell of each column.
    type Row<'a>;
    /// Passes the rows of a batch to `each`.
    ///
    /// # Errors
    /// The name of a column that is missing or does not match the table's declaration.
    fn give(batch: &RecordBatch, each: &mut impl FnMut(Self::Row<'_>)) -> Result<(), &'static str>;
}

/// A column by its name and declared type.
pub(crate) fn column<'a, C: ColumnType>(
    batch: &'a RecordBatch,
    name: &'static str,
) -> Result<C::Column<'a>, &'static str> {
    let array = batch.column_by_name(name).filter(|c| C::NULLABLE || c.null_count() == 0);
    array.and_then(|a| C::Column::of(a, 0..a.len())).ok_or(name)
}

/// Declares which columns of a table a reader takes, as a row with these cells. The types are those of the
/// table; they are left out for key columns.
macro_rules! columns {
    ($row:ident of $table:ty { $($col:ident $(: $ty:ty)?),+ $(,)? }) => {
        #[derive(Clone, Copy)]
        pub struct $row<'a> { $($col: <hta_base::column!(ty $col $(: $ty)?) as hta_base::table::schema::ColumnType>::In<'a>,)+ }

        impl $crate::results::Picked for $row<'static> {
            const TABLE: &'static str = <$table>::SPEC.name;
            const COLUMNS: &'static [&'static str] = &[$(stringify!($col),)+];
            type Row<'a> = $row<'a>;

            fn give(
                batch: &arrow_array::RecordBatch,
                each: &mut impl FnMut(Self::Row<'_>),
            ) -> Result<(), &'static str> {
                use hta_base::table::typed::Values;
                $(let $col = $crate::results::column::<hta_base::column!(ty $col $(: $ty)?)>(batch, stringify!($col))?;)+
                for row in 0..batch.num_rows() {
                    each($row { $($col: $col.at(row),)+ });
                }
                Ok(())
            }
        }

        // This compiles only if the table declares these columns with these types.
        const _: for<'a> fn(hta_base::table::schema::ColumnsOf<'a, $table>) = |table| {
            $(let _: <hta_base::column!(ty $col $(: $ty)?) as hta_base::table::schema::ColumnType>::Column<'_> = table.$col;)+
        };
    };
}
pub(crate) use columns;

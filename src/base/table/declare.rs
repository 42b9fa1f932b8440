//! Macros that declare tables, with the type, unit and meaning of every column.
//! [`table!`](macro@crate::table) turns a declaration into a builder, a row type, a type for reading columns,
//! and a [`TableSpec`](crate::table::schema::TableSpec).

/// The name of a column: its identifier, or the text given for it.
#[macro_export]
macro_rules! column_name {
    ($col:ident) => {
        stringify!($col)
    };
    ($col:ident $shown:literal) => {
        $shown
    };
}

/// Type, unit, meaning or heading of a column: as declared, or predefined for a key column, which a table
/// declares by its name alone.
#[macro_export]
macro_rules! column {
    (ty $col:ident: $ty:ty $(, $unit:literal, $doc:literal)?) => { $ty };
    (unit $col:ident: $ty:ty, $unit:literal, $doc:literal) => { $unit };
    (doc $col:ident: $ty:ty, $unit:literal, $doc:literal) => { $doc };
    (heading $col:ident: $ty:ty, $unit:literal, $doc:literal) => { "" };
    (heading $col:ident: $ty:ty, $unit:literal, $doc:literal, $heading:literal) => { $heading };
    ($part:ident rank) => {
        $crate::column!($part rank: u32, "", "rank")
    };
    ($part:ident device) => {
        $crate::column!($part device: Option<i64>, "", "device index; null on a CPU-only rank or where none \
            is recorded")
    };
    ($part:ident stream) => {
        $crate::column!($part stream: Option<i64>, "", "stream, where recorded")
    };
    ($part:ident scope) => {
        $crate::column!($part scope: $crate::table::schema::Text, "", "span, capture, step or outside")
    };
    ($part:ident step) => {
        $crate::column!($part step: Option<u32>, "", "index of the step in time")
    };
    ($part:ident step_label) => {
        $crate::column!($part step_label: Option<i64>, "", "number in the step's name")
    };
    ($part:ident is_partial) => {
        $crate::column!($part is_partial: Option<bool>, "", "the step is cut by the capture, or has far less \
            work than the others")
    };
    ($part:ident ts_ns) => {
        $crate::column!($part ts_ns: i64, "ns", "start of the window")
    };
    ($part:ident dur_ns) => {
        $crate::column!($part dur_ns: i64, "ns", "length of the window")
    };
}

/// Declares a table: its builder, its row type, its columns and its
/// [`TableSpec`](crate::table::schema::TableSpec).
///
/// Where the heading that follows from a column's name does not say enough, another one stands behind the
/// meaning. Behind the order, `key "rank, step"` names the columns that tell rows of two runs apart, where
/// the order does not. A column of a [rollup](mod@crate::table::rollup) ends with its role: `=> sum(count)`.
///
/// ```ignore
/// table! {
///     /// One row per step.
///     pub struct StepsTable, StepsRow = "steps" by "rank, step" {
///         rank; step_label;
///         name: Text, "", "name of the annotation";
///         dur_ns: i64, "ns", "length";
///     }
/// }
///
/// let total: i64 = StepsTable::read(&batch).dur_ns.iter().sum();
/// let names = StepsTable::rows(&batch).map(|row| row.name);
/// ```
#[macro_export]
macro_rules! table {
    ($(#[doc = $doc:literal])+ $vis:vis struct $name:ident, $row:ident = $table:literal by $order:literal $(key $key:literal)? {
        $($col:ident $(as $shown:literal)? $(: $ty:ty, $unit:literal, $cdoc:literal $(, $heading:literal)?)?
            $(=> $role:ident $(($($of:ident),+))?)?;)+
    }) => {
        $(#[doc = $doc])+
        #[derive(Default)]
        $vis struct $name { $($col: <$crate::column!(ty $col $(: $ty, $unit, $cdoc)?) as $crate::table::schema::ColumnType>::Builder,)+ }

        /// One row.
        #[derive(Clone, Copy, Default)]
        $vis struct $row<'a> {
            $(#[doc = $crate::column!(doc $col $(: $ty, $unit, $cdoc)?)] pub $col: <$crate::column!(ty $col $(: $ty, $unit, $cdoc)?) as $crate::table::schema::ColumnType>::In<'a>,)+
        }

        impl $name {
            /// The declaration.
            pub const SPEC: &'static $crate::table::schema::TableSpec = &$crate::table::schema::TableSpec {
                name: $table,
                doc: concat!($($doc),+),
                order: $order,
                key: concat!($($key)?),
                columns: &[$($crate::table::schema::ColumnSpec {
                    name: $crate::column_name!($col $($shown)?),
                    kind: <$crate::column!(ty $col $(: $ty, $unit, $cdoc)?) as $crate::table::schema::ColumnType>::KIND,
                    nullable: <$crate::column!(ty $col $(: $ty, $unit, $cdoc)?) as $crate::table::schema::ColumnType>::NULLABLE,
                    unit: $crate::column!(unit $col $(: $ty, $unit, $cdoc)?),
                    doc: $crate::column!(doc $col $(: $ty, $unit, $cdoc)?),
                    heading: $crate::column!(heading $col $(: $ty, $unit, $cdoc $(, $heading)?)?),
                    role: $crate::role!($($role $(($($of),+))?)?),
                },)+],
            };

            /// Adds a row.
            #[allow(dead_code, reason = "a rollup is made without it")]
            pub fn push(&mut self, row: $row<'_>) {
                $(<$crate::column!(ty $col $(: $ty, $unit, $cdoc)?) as $crate::table::schema::ColumnType>::push(&mut self.$col, row.$col);)+
            }

            /// The rows so far as one batch.
            pub fn finish(self) -> $crate::table::schema::Batch {
                $crate::table::schema::assemble(Self::SPEC, vec![
                    $(<$crate::column!(ty $col $(: $ty, $unit, $cdoc)?) as $crate::table::schema::ColumnType>::finish(self.$col),)+
                ])
            }
        }

        const _: () = {
            /// Each column by its type.
            #[derive(Clone, Copy)]
            #[allow(dead_code, reason = "few tables are read back, and of those a few columns")]
            pub struct Columns<'a> {
                $(#[doc = $crate::column!(doc $col $(: $ty, $unit, $cdoc)?)] pub $col: <$crate::column!(ty $col $(: $ty, $unit, $cdoc)?) as $crate::table::schema::ColumnType>::Column<'a>,)+
            }

            impl $crate::table::schema::Table for $name {
                const SPEC: &'static $crate::table::schema::TableSpec = $name::SPEC;
                type Row<'a> = $row<'a>;
                type Columns<'a> = Columns<'a>;

                fn read(batch: &$crate::table::schema::Batch) -> Columns<'_> {
                    let mut columns = batch.columns();
                    Columns { $($col: $crate::table::schema::next_column::<$crate::column!(ty $col $(: $ty, $unit, $cdoc)?)>(&mut columns),)+ }
                }

                fn row<'a>(columns: &Self::Columns<'a>, row: usize) -> Self::Row<'a> {
                    $row { $($col: $crate::table::typed::Values::at(columns.$col, row),)+ }
                }

                fn cells(&self) -> usize {
                    let rows = [$(<$crate::column!(ty $col $(: $ty, $unit, $cdoc)?) as $crate::table::schema::ColumnType>::rows(&self.$col),)+];
                    rows[0] * rows.len()
                }

                fn text_bytes(&self) -> usize {
                    0 $(+ <$crate::column!(ty $col $(: $ty, $unit, $cdoc)?) as $crate::table::schema::ColumnType>::text_bytes(&self.$col))+
                }

                fn batch(self) -> $crate::table::schema::Batch {
                    self.finish()
                }
            }
        };
    };
}

//! The parts of a declared table: the types of its cells, its [`TableSpec`] and batches of its rows.
//!
//! `hta explain` prints the spec, and tests compare the output with it.

use crate::table::cells::{Nullable, TextCells};
use crate::table::column::Column;
use crate::table::role::Role;
use crate::table::typed::{Flags, Maybe, Values, Words};
use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, UInt32Array, UInt64Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// One column of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnSpec {
    pub name: &'static str,
    /// `i64`, `u32`, `u64`, `f64`, `bool` or `text`.
    pub kind: &'static str,
    pub nullable: bool,
    /// Unit, or `""`.
    pub unit: &'static str,
    pub doc: &'static str,
    /// Heading, or `""` for that of its name ([`ColumnSpec::title`]).
    pub heading: &'static str,
    /// How it is made, in a rollup.
    pub role: Role,
}

impl ColumnSpec {
    fn arrow_type(&self) -> DataType {
        match self.kind {
            "u32" => DataType::UInt32,
            "u64" => DataType::UInt64,
            "f64" => DataType::Float64,
            "bool" => DataType::Boolean,
            "text" => DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
            _ => DataType::Int64,
        }
    }
}

/// The declaration of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableSpec {
    pub name: &'static str,
    /// Meaning of a row.
    pub doc: &'static str,
    /// Key that rows are sorted by.
    pub order: &'static str,
    /// Columns that tell its rows apart in every run, by which two runs stand beside each other; or `""`.
    pub key: &'static str,
    pub columns: &'static [ColumnSpec],
}

impl TableSpec {
    pub fn column_spec(&self, name: &str) -> Option<&'static ColumnSpec> {
        self.columns.iter().find(|c| c.name == name)
    }

    /// The place of a column.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|c| c.name == name)
    }

    /// The columns that its rows are sorted by, and whether their values fall.
    pub fn order_columns(&self) -> impl Iterator<Item = (&'static str, bool)> {
        self.order.split(',').map(str::trim).map(|part| match part.strip_suffix(" descending") {
            Some(name) => (name, true),
            None => (part, false),
        })
    }

    /// Names of the columns that tell its rows apart: the declared ones, or those that it is sorted by.
    pub fn key(&self) -> impl Iterator<Item = &'static str> {
        let names = if self.key.is_empty() { self.order } else { self.key };
        names.split(", ").filter(|name| self.column_spec(name).is_some())
    }

    /// The Arrow schema. It is created once and shared, because a job has many batches of each table.
    pub fn schema(&self) -> SchemaRef {
        type Made = Mutex<HashMap<(&'static str, usize), SchemaRef>>;
        static MADE: OnceLock<Made> = OnceLock::new();
        // Two tables (of different tools) can have the same name, but not the same columns.
        let key = (self.name, self.columns.as_ptr() as usize);
        let mut made = MADE.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
        SchemaRef::clone(made.entry(key).or_insert_with(|| {
            let field = |c: &ColumnSpec| Field::new(c.name, c.arrow_type(), c.nullable);
            Arc::new(Schema::new(self.columns.iter().map(field).collect::<Vec<_>>()))
        }))
    }

    /// The schema with units and meanings as metadata, for files. Batches in memory go without, because the
    /// metadata is larger than the rows of most tables.
    pub fn noted_schema(&self) -> SchemaRef {
        let field = |c: &ColumnSpec| {
            let notes = [("unit", c.unit), ("description", c.doc)];
            let notes = notes.into_iter().filter(|(_, v)| !v.is_empty());
            Field::new(c.name, c.arrow_type(), c.nullable)
                .with_metadata(notes.map(|(k, v)| (k.to_string(), v.to_string())).collect::<HashMap<_, _>>())
        };
        let notes = HashMap::from([
            ("table".to_string(), self.name.to_string()),
            ("description".to_string(), self.doc.to_string()),
            ("sorted_by".to_string(), self.order.to_string()),
        ]);
        Arc::new(Schema::new_with_metadata(self.columns.iter().map(field).collect::<Vec<_>>(), notes))
    }
}

/// A type that a column can have.
pub trait ColumnType {
    /// The value that is pushed for a row.
    type In<'a>;
    type Builder: Default;
    /// A finished column, for reading.
    type Column<'a>: Values<'a, Value = Self::In<'a>>;
    const KIND: &'static str;
    const NULLABLE: bool = false;
    fn push(builder: &mut Self::Builder, value: Self::In<'_>);
    /// Number of rows so far.
    fn rows(builder: &Self::Builder) -> usize;
    /// Memory of the texts that occur so far, bytes.
    #[inline]
    fn text_bytes(_: &Self::Builder) -> usize {
        0
    }
    fn finish(builder: Self::Builder) -> ArrayRef;
}

/// Marks a text column; its cells are `&str`.
pub struct Text;

macro_rules! number_cell {
    ($($ty:ty, $arrow:ty, $kind:literal, $column:ty;)+) => {$(
        impl ColumnType for $ty {
            type In<'a> = $ty;
            type Builder = Vec<$ty>;
            type Column<'a> = $column;
            const KIND: &'static str = $kind;
            #[inline]
            fn push(builder: &mut Vec<$ty>, value: $ty) { builder.push(value); }
            #[inline]
            fn rows(builder: &Vec<$ty>) -> usize { builder.len() }
            fn finish(mut builder: Vec<$ty>) -> ArrayRef {
                builder.shrink_to_fit();
                Arc::new(<$arrow>::from(builder))
            }
        }
        impl ColumnType for Option<$ty> {
            type In<'a> = Option<$ty>;
            type Builder = Nullable<$ty>;
            type Column<'a> = Maybe<'a, $column>;
            const KIND: &'static str = $kind;
            const NULLABLE: bool = true;
            #[inline]
            fn push(builder: &mut Nullable<$ty>, value: Option<$ty>) { builder.push(value); }
            #[inline]
            fn rows(builder: &Nullable<$ty>) -> usize { builder.values.len() }
            fn finish(mut builder: Nullable<$ty>) -> ArrayRef {
                builder.values.shrink_to_fit();
                Arc::new(<$arrow>::new(builder.values.into(), builder.valid.finish()))
            }
        }
    )+};
}

number_cell! {
    i64, Int64Array, "i64", &'a [i64];
    u32, UInt32Array, "u32", &'a [u32];
    u64, UInt64Array, "u64", &'a [u64];
    f64, Float64Array, "f64", &'a [f64];
    bool, BooleanArray, "bool", Flags<'a>;
}

impl ColumnType for Text {
    type In<'a> = &'a str;
    type Builder = TextCells;
    type Column<'a> = Words<'a>;
    const KIND: &'static str = "text";
    #[inline]
    fn push(builder: &mut TextCells, value: &str) {
        builder.push(Some(value));
    }
    #[inline]
    fn rows(builder: &TextCells) -> usize {
        builder.rows()
    }
    #[inline]
    fn text_bytes(builder: &TextCells) -> usize {
        builder.text_bytes()
    }
    fn finish(builder: TextCells) -> ArrayRef {
        builder.finish()
    }
}

impl ColumnType for Option<Text> {
    type In<'a> = Option<&'a str>;
    type Builder = TextCells;
    type Column<'a> = Maybe<'a, Words<'a>>;
    const KIND: &'static str = "text";
    const NULLABLE: bool = true;
    #[inline]
    fn push(builder: &mut TextCells, value: Option<&str>) {
        builder.push(value);
    }
    #[inline]
    fn rows(builder: &TextCells) -> usize {
        builder.rows()
    }
    #[inline]
    fn text_bytes(builder: &TextCells) -> usize {
        builder.text_bytes()
    }
    fn finish(builder: TextCells) -> ArrayRef {
        builder.finish()
    }
}

/// Number of cells (rows times columns), and bytes of text, from which the rows so far form a piece of a long
/// table. A piece takes a megabyte or less.
const PIECE_CELLS: usize = 1 << 17;
const PIECE_TEXT: usize = 256 << 10;

/// A declared table: it is built row by row, and read column by column or row by row.
pub trait Table: Default {
    const SPEC: &'static TableSpec;
    /// One cell of each column.
    type Row<'a>: Copy;
    /// A struct with one field per column: slices for numbers, other types that implement [`Values`] for the
    /// rest.
    type Columns<'a>: Copy;
    /// The columns of a batch of this table.
    fn read(batch: &Batch) -> Self::Columns<'_>;
    /// The cells of one row.
    fn row<'a>(columns: &Self::Columns<'a>, row: usize) -> Self::Row<'a>;
    /// Number of cells so far.
    fn cells(&self) -> usize;
    /// Memory of the texts that occur so far, bytes.
    fn text_bytes(&self) -> usize;
    /// The rows so far as one batch.
    fn batch(self) -> Batch;

    /// The rows of a batch of this table.
    fn rows(batch: &Batch) -> impl Iterator<Item = Self::Row<'_>> {
        let columns = Self::read(batch);
        (0..batch.len()).map(move |row| Self::row(&columns, row))
    }

    /// Passes the rows so far to `give` if they are enough for a piece, so that a long table is never in
    /// memory as a whole.
    fn give_piece(&mut self, give: &mut dyn FnMut(Batch)) {
        if self.cells() >= PIECE_CELLS || self.text_bytes() >= PIECE_TEXT {
            give(std::mem::take(self).batch());
        }
    }
}

/// The columns of a batch of a table.
pub type ColumnsOf<'a, T> = <T as Table>::Columns<'a>;

/// Reads the next column of a table. Columns are in the order of the declaration.
pub fn next_column<'a, C: ColumnType>(columns: &mut BatchColumns<'a>) -> C::Column<'a> {
    let column = columns.next().and_then(|(array, rows)| C::Column::of(array, rows));
    column.expect("batches follow their table's declaration")
}

/// A batch of rows of a declared table: some rows of columns that it shares with others. Batches of thousands
/// of ranks are in memory together, and columns cut for each of them would take more than their cells.
#[derive(Debug, Clone)]
pub struct Batch {
    pub spec: &'static TableSpec,
    whole: Arc<RecordBatch>,
    first: usize,
    count: usize,
}

impl Batch {
    pub fn new(spec: &'static TableSpec, rows: RecordBatch) -> Self {
        let count = rows.num_rows();
        Self { spec, whole: Arc::new(rows), first: 0, count }
    }

    /// Some of its rows, which must exist.
    pub fn slice(&self, rows: Range<usize>) -> Self {
        assert!(rows.start <= rows.end && rows.end <= self.count, "rows of a batch");
        Self { first: self.first + rows.start, count: rows.len(), whole: Arc::clone(&self.whole), ..*self }
    }

    /// Its rows, with columns of their own.
    pub fn rows(&self) -> RecordBatch {
        self.whole.slice(self.first, self.count)
    }

    /// Its columns, in order, each with the rows that are its own.
    pub fn columns(&self) -> BatchColumns<'_> {
        BatchColumns { columns: self.whole.columns().iter(), rows: self.first..self.first + self.count }
    }

    /// Memory of its columns, bytes.
    pub fn held_bytes(&self) -> u64 {
        self.rows().get_array_memory_size() as u64
    }

    pub fn len(&self) -> usize {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A column by its name, for callers that do not know the table at compile time.
    pub fn column(&self, name: &str) -> Option<Column<'_>> {
        Column::of(self.whole.column_by_name(name)?, self.first..self.first + self.count)
    }

    /// An integer cell; `None` for null, or if there is no such integer column.
    pub fn int(&self, column: &str, row: usize) -> Option<i64> {
        self.column(column)?.int(row)
    }

    /// An unsigned 64-bit cell.
    pub fn uint(&self, column: &str, row: usize) -> Option<u64> {
        self.column(column)?.uint(row)
    }

    /// A float cell; integers are converted.
    pub fn float(&self, column: &str, row: usize) -> Option<f64> {
        self.column(column)?.float(row)
    }

    /// A text cell.
    pub fn text(&self, column: &str, row: usize) -> Option<&str> {
        self.column(column)?.text(row)
    }
}

/// The columns of a batch.
pub struct BatchColumns<'a> {
    columns: std::slice::Iter<'a, ArrayRef>,
    rows: Range<usize>,
}

impl<'a> Iterator for BatchColumns<'a> {
    type Item = (&'a ArrayRef, Range<usize>);

    fn next(&mut self) -> Option<Self::Item> {
        Some((self.columns.next()?, self.rows.clone()))
    }
}

/// Combines finished columns into a batch with the table's schema.
pub fn assemble(spec: &'static TableSpec, columns: Vec<ArrayRef>) -> Batch {
    // The columns come from the same declaration as the schema, so a mismatch is a bug, not bad input.
    let rows = RecordBatch::try_new(spec.schema(), columns).expect("columns follow the table's declaration");
    Batch::new(spec, rows)
}

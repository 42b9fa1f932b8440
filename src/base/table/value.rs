//! Cells of any column by their value, for rollups and views, which know columns only by their names.

use crate::order_statistics::median_of_sorted;
use crate::table::column::{Column, ColumnCells};
use crate::table::schema::{ColumnSpec, ColumnType, Text};
use crate::wording::ranks::rank_list;
use arrow_array::ArrayRef;
use hashbrown::HashMap;
use std::cmp::Ordering;
use std::sync::Arc;

/// A cell.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Value {
    #[default]
    Null,
    /// An integer of any column; true is 1. Sums of 64-bit integers cannot overflow it.
    Int(i128),
    Float(f64),
    Text(Arc<str>),
}

impl Value {
    /// The cell of a row.
    pub fn of(column: &Column, row: usize) -> Self {
        match column.cells {
            ColumnCells::F64(_) => column.float(row).map_or(Value::Null, Value::Float),
            ColumnCells::U64(_) => column.uint(row).map_or(Value::Null, |v| Value::Int(i128::from(v))),
            ColumnCells::Text(..) => column.text(row).map_or(Value::Null, |t| Value::Text(Arc::from(t))),
            _ => column.int(row).map_or(Value::Null, |v| Value::Int(i128::from(v))),
        }
    }

    /// A number as one with a fraction.
    pub fn float(&self) -> Option<f64> {
        match self {
            Value::Int(v) => Some(*v as f64),
            Value::Float(v) => Some(*v),
            Value::Null | Value::Text(_) => None,
        }
    }

    /// An integer; numbers beyond 64 bits as the largest.
    pub fn int(&self) -> Option<i64> {
        match self {
            Value::Int(v) => Some((*v).clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64),
            _ => None,
        }
    }

    pub fn text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// Adds a number; null adds nothing.
    pub fn add(&mut self, other: &Value) {
        *self = match (&*self, other) {
            (_, Value::Null | Value::Text(_)) => return,
            (Value::Null | Value::Text(_), number) => number.clone(),
            (Value::Int(a), Value::Int(b)) => Value::Int(a.saturating_add(*b)),
            (Value::Float(a), Value::Float(b)) => Value::Float(a + b),
            (Value::Int(a), Value::Float(b)) => Value::Float(*a as f64 + b),
            (Value::Float(a), Value::Int(b)) => Value::Float(a + *b as f64),
        };
    }

    /// Takes another value in its place if that one is less or greater; null is neither.
    pub fn keep(&mut self, other: Value, which: Ordering) {
        if !other.is_null() && (self.is_null() || compare(&other, self) == which) {
            *self = other;
        }
    }
}

/// The order of two cells of a column: null first, then numbers, or texts by their bytes.
pub fn compare(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => a.cmp(b),
        (Value::Text(a), Value::Text(b)) => a.cmp(b),
        (Value::Null, _) | (_, Value::Null) => b.is_null().cmp(&a.is_null()),
        _ => a.float().unwrap_or(0.0).total_cmp(&b.float().unwrap_or(0.0)),
    }
}

/// The lower median of cells; nulls are left out.
pub(crate) fn median<'a>(cells: impl Iterator<Item = &'a Value>) -> Value {
    let mut sorted: Vec<&Value> = cells.filter(|cell| !cell.is_null()).collect();
    sorted.sort_by(|a, b| compare(a, b));
    median_of_sorted(&sorted).cloned().unwrap_or_default()
}

/// A text that lists ascending numbers; null without any.
pub(crate) fn list(numbers: impl Iterator<Item = u32>) -> Value {
    let numbers: Vec<u32> = numbers.collect();
    if numbers.is_empty() { Value::Null } else { Value::Text(rank_list(&numbers).into()) }
}

/// A column of a table from its values.
pub fn array<'a>(spec: &ColumnSpec, values: impl Iterator<Item = &'a Value>) -> ArrayRef {
    fn column<'v, T, V>(values: impl Iterator<Item = &'v Value>, cell: impl Fn(&'v Value) -> V) -> ArrayRef
    where
        T: for<'x> ColumnType<In<'x> = V>,
    {
        let mut builder = T::Builder::default();
        values.for_each(|value| T::push(&mut builder, cell(value)));
        T::finish(builder)
    }
    let uint = |v: &Value| match v {
        Value::Int(v) => u64::try_from(*v).ok(),
        _ => None,
    };
    let narrow = |v: &Value| v.int().and_then(|v| u32::try_from(v).ok());
    let flag = |v: &Value| v.int().map(|v| v != 0);
    match (spec.kind, spec.nullable) {
        ("i64", true) => column::<Option<i64>, _>(values, Value::int),
        ("i64", false) => column::<i64, _>(values, |v| v.int().unwrap_or(0)),
        ("u32", true) => column::<Option<u32>, _>(values, narrow),
        ("u32", false) => column::<u32, _>(values, |v| narrow(v).unwrap_or(0)),
        ("u64", true) => column::<Option<u64>, _>(values, uint),
        ("u64", false) => column::<u64, _>(values, |v| uint(v).unwrap_or(0)),
        ("f64", true) => column::<Option<f64>, _>(values, Value::float),
        ("f64", false) => column::<f64, _>(values, |v| v.float().unwrap_or(0.0)),
        ("bool", true) => column::<Option<bool>, _>(values, flag),
        ("bool", false) => column::<bool, _>(values, |v| flag(v).unwrap_or(false)),
        _ => {
            let mut builder = <Text as ColumnType>::Builder::default();
            values.for_each(|v| builder.push(if spec.nullable { v.text() } else { v.text().or(Some("")) }));
            builder.finish()
        }
    }
}

/// The distinct values of a column, numbered in the order in which they were met.
#[derive(Debug, Default)]
pub(crate) struct Codes {
    texts: HashMap<Arc<str>, u32>,
    numbers: HashMap<Option<i64>, u32>,
    values: Vec<Value>,
}

impl Codes {
    /// The number of a cell.
    pub(crate) fn code(&mut self, column: &Column, row: usize) -> u32 {
        let next = self.values.len() as u32;
        match column.text(row) {
            Some(text) => match self.texts.get(text) {
                Some(code) => return *code,
                None => {
                    let text: Arc<str> = Arc::from(text);
                    self.values.push(Value::Text(Arc::clone(&text)));
                    self.texts.insert(text, next);
                }
            },
            None => match self.numbers.get(&column.int(row)) {
                Some(code) => return *code,
                None => {
                    self.values.push(Value::of(column, row));
                    self.numbers.insert(column.int(row), next);
                }
            },
        }
        next
    }

    /// The numbers of some rows of a column; each distinct text of the column is looked for once.
    pub(crate) fn of_rows(&mut self, column: Option<Column>, rows: &[usize]) -> Vec<u32> {
        let Some(column) = column else { return vec![0; rows.len()] };
        let mut known: Vec<Option<u32>> = Vec::new();
        let mut last: Option<(Option<i64>, u32)> = None;
        let of_row = |row: &usize| match column.text_number(*row) {
            Some(number) => {
                let at = number as usize;
                if known.len() <= at {
                    known.resize(at + 1, None);
                }
                *known[at].get_or_insert_with(|| self.code(&column, *row))
            }
            None => match last {
                Some((value, code)) if value == column.int(*row) => code,
                _ => {
                    let code = self.code(&column, *row);
                    last = Some((column.int(*row), code));
                    code
                }
            },
        };
        rows.iter().map(of_row).collect()
    }

    /// The value of a number.
    pub(crate) fn value(&self, code: u32) -> Value {
        self.values.get(code as usize).cloned().unwrap_or_default()
    }

    /// A cell, sharing the memory of equal texts.
    pub(crate) fn value_of(&mut self, column: &Column, row: usize) -> Value {
        match column.text(row) {
            Some(_) => {
                let code = self.code(column, row);
                self.value(code)
            }
            None => Value::of(column, row),
        }
    }

    pub(crate) fn text(&self, code: u32) -> &str {
        self.values.get(code as usize).and_then(Value::text).unwrap_or_default()
    }
}

//! Conditions of a statement that are checked while rows are read, so that other rows never get to Polars.
//!
//! A condition on one text column is checked on the words of its dictionary, of which there are a few
//! thousand, and not on each row: `LIKE`, `=`, `IN` and functions of a text cost the same.

use crate::sql::QueryError;
use crate::sql::load::GrowingFrame;
use crate::sql::statement::plain;
use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, DictionaryArray, RecordBatch, RecordBatchOptions, new_null_array};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{ArrowError, Field, Schema};
use arrow_select::concat::concat;
use polars::prelude::{BooleanFunction, Expr, FunctionExpr, IntoLazy, Operator, PolarsError};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A part of WHERE that all rows must satisfy.
#[derive(Debug, Clone)]
pub(crate) struct Condition {
    expression: Expr,
    /// The columns that it needs.
    columns: BTreeSet<String>,
}

/// The parts of a WHERE.
#[derive(Debug, Default)]
pub(crate) struct Conditions {
    /// Conditions on one row.
    pub(crate) of_row: Vec<Condition>,
    /// Conditions that need the other rows of the table, or a large stack.
    pub(crate) of_table: Vec<Expr>,
}

impl Conditions {
    pub(crate) fn new(all: Option<&Expr>) -> Self {
        let mut conditions = Self::default();
        let mut open: Vec<&Expr> = all.into_iter().collect();
        while let Some(expression) = open.pop() {
            match expression {
                Expr::BinaryExpr { left, op: Operator::And | Operator::LogicalAnd, right } => {
                    open.extend([right.as_ref(), left.as_ref()]);
                }
                // A hint of a sort with a LIMIT to its input, which has no value yet and excludes nothing.
                Expr::Display { fmt_str, .. } if fmt_str.starts_with("dynamic_pred") => {}
                other if is_checked_early(other) => conditions.of_row.push(Condition::new(other)),
                other => conditions.of_table.push(other.clone()),
            }
        }
        conditions
    }
}

/// Most parts of a condition that is checked while rows are read: threads that read have small stacks.
const MOST_PARTS: usize = 200;

fn is_checked_early(expression: &Expr) -> bool {
    expression.into_iter().all(is_of_row) && expression.into_iter().count() <= MOST_PARTS
}

/// Whether a part of an expression depends on the values of one row only.
fn is_of_row(part: &Expr) -> bool {
    use BooleanFunction as Is;
    match part {
        Expr::Column(_)
        | Expr::Literal(_)
        | Expr::Alias(..)
        | Expr::BinaryExpr { .. }
        | Expr::Cast { .. }
        | Expr::Ternary { .. } => true,
        // A function of the planner.
        Expr::AnonymousFunction { options, .. } => options.is_elementwise(),
        Expr::Function { function, .. } => match function {
            FunctionExpr::Boolean(is) => matches!(
                is,
                Is::IsNull
                    | Is::IsNotNull
                    | Is::IsNan
                    | Is::IsNotNan
                    | Is::IsFinite
                    | Is::IsInfinite
                    | Is::IsIn { .. }
                    | Is::AllHorizontal
                    | Is::AnyHorizontal
                    | Is::Not
            ),
            other => matches!(other, FunctionExpr::Negate),
        },
        _ => false,
    }
}

/// The columns that an expression needs.
pub(crate) fn columns(expression: &Expr) -> BTreeSet<String> {
    let name = |part: &Expr| match part {
        Expr::Column(name) => Some(name.to_string()),
        _ => None,
    };
    expression.into_iter().filter_map(name).collect()
}

impl Condition {
    fn new(expression: &Expr) -> Self {
        Self { expression: expression.clone(), columns: columns(expression) }
    }

    pub(crate) fn columns(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(String::as_str)
    }

    /// Which rows satisfy it. `place` is where the rows are from.
    ///
    /// # Errors
    /// When Polars cannot compute it.
    pub(crate) fn met(&self, place: &str, rows: &RecordBatch) -> Result<BooleanBuffer, QueryError> {
        let mut columns = self.columns();
        let only = columns.next().filter(|_| columns.next().is_none());
        let texts = only.and_then(|name| Some((name, rows.column_by_name(name)?)));
        match texts.and_then(|(name, array)| Some((name, array.as_dictionary_opt::<Int32Type>()?))) {
            Some((name, texts)) if texts.values().len() < rows.num_rows() => {
                self.met_by_words(place, name, texts)
            }
            _ => self.met_by_rows(place, rows),
        }
    }

    fn met_by_words(
        &self,
        place: &str,
        name: &str,
        texts: &DictionaryArray<Int32Type>,
    ) -> Result<BooleanBuffer, QueryError> {
        let words = texts.values();
        let null = new_null_array(words.data_type(), 1);
        // The last word stands for rows without one.
        let words = concat(&[words.as_ref(), null.as_ref()]).and_then(|words| batch(vec![(name, words)]));
        let met = self.met_by_rows(place, &words.map_err(|e| unreadable(place, &e))?)?;
        let (keys, missing) = (texts.keys().values(), met.value(met.len() - 1));
        Ok(match texts.nulls() {
            None => BooleanBuffer::collect_bool(keys.len(), |row| met.value(keys[row] as usize)),
            Some(present) => BooleanBuffer::collect_bool(keys.len(), |row| match present.is_valid(row) {
                true => met.value(keys[row] as usize),
                false => missing,
            }),
        })
    }

    fn met_by_rows(&self, place: &str, rows: &RecordBatch) -> Result<BooleanBuffer, QueryError> {
        let schema = rows.schema_ref();
        let needed = schema.fields().iter().filter(|f| self.columns.contains(f.name()));
        let mut frame = GrowingFrame::new(place, needed.map(|f| (f.name().as_str(), f.data_type())))?;
        frame.push(rows)?;
        let met = frame.finish()?.lazy().select([self.expression.clone().alias("met")]).collect();
        let met = met.and_then(|frame| Ok(frame.column("met")?.bool()?.clone())).map_err(|e| refused(&e))?;
        if met.len() == rows.num_rows() {
            return Ok(met.iter().map(|is_met| is_met == Some(true)).collect());
        }
        // A condition without columns has one value.
        let is_met = met.get(0) == Some(true);
        Ok(BooleanBuffer::collect_bool(rows.num_rows(), |_| is_met))
    }
}

/// Rows with these columns.
pub(crate) fn batch(columns: Vec<(&str, ArrayRef)>) -> Result<RecordBatch, ArrowError> {
    let fields = columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true));
    let schema = Schema::new(fields.collect::<Vec<_>>());
    let rows = columns.first().map_or(1, |(_, array)| array.len());
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    RecordBatch::try_new_with_options(Arc::new(schema), arrays, &options)
}

fn unreadable(place: &str, error: &ArrowError) -> QueryError {
    QueryError::Unreadable { path: place.to_string(), reason: error.to_string() }
}

fn refused(error: &PolarsError) -> QueryError {
    QueryError::Sql { reason: plain(error) }
}

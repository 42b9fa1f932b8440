//! Functions of one row, as expressions of Polars.

use crate::sql::planner::kinds::{TypedExpr, ValueKind, int, refused};
use polars::prelude::{
    BooleanChunked, Column, Expr, Field, Float64Chunked, Int64Chunked, IntoColumn, NewChunkedArray,
    PlSmallStr, PolarsResult, StringChunked, UInt64Chunked,
};
use std::borrow::Cow;

/// A value of a row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum RowValue<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Unsigned(u64),
    Float(f64),
    Text(Cow<'a, str>),
}

/// Computes a value from those of a row, none of which is NULL. The error says why there is no value.
pub(crate) type RowFunction = for<'a> fn(&[RowValue<'a>]) -> Result<RowValue<'a>, String>;

/// The values of a column.
enum ColumnRows<'a> {
    Null,
    Bool(&'a BooleanChunked),
    Int(&'a Int64Chunked),
    Unsigned(&'a UInt64Chunked),
    Float(&'a Float64Chunked),
    Text(&'a StringChunked),
}

impl RowValue<'_> {
    /// The value in an error message.
    pub(crate) fn shown(&self) -> String {
        match self {
            RowValue::Null => "NULL".to_string(),
            RowValue::Bool(v) => v.to_string(),
            RowValue::Int(v) => v.to_string(),
            RowValue::Unsigned(v) => v.to_string(),
            RowValue::Float(v) => v.to_string(),
            RowValue::Text(v) => format!("'{}'", v.chars().take(40).collect::<String>()),
        }
    }
}

/// A function of one row that is NULL where an argument is. Its name is part of the expression: functions of
/// one name and the same arguments are taken to be equal, so all that it depends on must be an argument.
pub(crate) fn by_row(
    name: &'static str,
    function: RowFunction,
    inputs: Vec<TypedExpr>,
    output: ValueKind,
) -> TypedExpr {
    made(name, inputs, output, move |cells| match cells.contains(&RowValue::Null) {
        true => Ok(RowValue::Null),
        false => function(cells),
    })
}

/// The same for a function that is given NULL, too.
pub(crate) fn by_row_with_nulls(
    name: &'static str,
    function: RowFunction,
    inputs: Vec<TypedExpr>,
    output: ValueKind,
) -> TypedExpr {
    made(name, inputs, output, function)
}

fn made(
    name: &'static str,
    inputs: Vec<TypedExpr>,
    output: ValueKind,
    function: impl for<'a> Fn(&[RowValue<'a>]) -> Result<RowValue<'a>, String> + Send + Sync + 'static,
) -> TypedExpr {
    let run = move |columns: &mut [Column]| {
        let rows = height(columns);
        let cells = columns.iter().map(ColumnRows::new).collect::<PolarsResult<Vec<_>>>()?;
        let lengths: Vec<usize> = columns.iter().map(Column::len).collect();
        let mut row = Vec::with_capacity(cells.len());
        let mut found = Vec::with_capacity(rows);
        for at in 0..rows {
            row.clear();
            row.extend(cells.iter().zip(&lengths).map(|(c, len)| c.at(row_of(*len, at))));
            found.push(function(&row).map_err(refused)?);
        }
        Ok(column(columns.first().map_or(PlSmallStr::EMPTY, |c| c.name().clone()), found, output))
    };
    let expressions: Vec<Expr> = inputs.into_iter().map(|i| i.expr).collect();
    TypedExpr::new(elementwise(name, run, &expressions, output), output)
}

/// An expression of whole columns, of which each row depends on the same row of the inputs only. An input of
/// one value stands for all rows.
pub(crate) fn elementwise(
    name: &'static str,
    run: impl Fn(&mut [Column]) -> PolarsResult<Column> + Send + Sync + 'static,
    inputs: &[Expr],
    output: ValueKind,
) -> Expr {
    let field = move |_: &_, fields: &[Field]| {
        let name = fields.first().map_or(PlSmallStr::EMPTY, |f| f.name().clone());
        Ok(Field::new(name, output.data_type()))
    };
    let (first, rest) = match inputs {
        [first, rest @ ..] => (first.clone(), rest),
        [] => (int(0), inputs),
    };
    let mut made = first.map_many(run, rest, field);
    if let Expr::AnonymousFunction { fmt_str, .. } = &mut made {
        **fmt_str = PlSmallStr::from_static(name);
    }
    made
}

/// The number of rows of the inputs of a function: of the one that is not a single value, if there is one.
pub(crate) fn height(columns: &[Column]) -> usize {
    let one = |c: &Column| c.len() == 1;
    columns.iter().find(|c| !one(c)).or_else(|| columns.first()).map_or(0, Column::len)
}

/// The row of an input of this length that belongs to a row of the result.
pub(crate) fn row_of(length: usize, row: usize) -> usize {
    if length == 1 { 0 } else { row }
}

impl<'a> ColumnRows<'a> {
    fn new(column: &'a Column) -> PolarsResult<Self> {
        Ok(match ValueKind::of(column.dtype())? {
            ValueKind::Null => Self::Null,
            ValueKind::Bool => Self::Bool(column.bool()?),
            ValueKind::Int | ValueKind::Decimal(_) => Self::Int(column.i64()?),
            ValueKind::Unsigned => Self::Unsigned(column.u64()?),
            ValueKind::Float => Self::Float(column.f64()?),
            ValueKind::Text => Self::Text(column.str()?),
        })
    }

    fn at(&self, row: usize) -> RowValue<'a> {
        match self {
            Self::Null => None,
            Self::Bool(values) => values.get(row).map(RowValue::Bool),
            Self::Int(values) => values.get(row).map(RowValue::Int),
            Self::Unsigned(values) => values.get(row).map(RowValue::Unsigned),
            Self::Float(values) => values.get(row).map(RowValue::Float),
            Self::Text(values) => values.get(row).map(|v| RowValue::Text(v.into())),
        }
        .unwrap_or(RowValue::Null)
    }
}

/// A column of values of one kind; others are missing.
fn column(name: PlSmallStr, cells: Vec<RowValue<'_>>, kind: ValueKind) -> Column {
    let cells = cells.into_iter();
    match kind {
        ValueKind::Null => Column::full_null(name, cells.len(), &kind.data_type()),
        ValueKind::Bool => {
            let values = cells.map(|c| if let RowValue::Bool(v) = c { Some(v) } else { None });
            BooleanChunked::from_iter_options(name, values).into_column()
        }
        ValueKind::Int | ValueKind::Decimal(_) => {
            let values = cells.map(|c| if let RowValue::Int(v) = c { Some(v) } else { None });
            Int64Chunked::from_iter_options(name, values).into_column()
        }
        ValueKind::Unsigned => {
            let values = cells.map(|c| if let RowValue::Unsigned(v) = c { Some(v) } else { None });
            UInt64Chunked::from_iter_options(name, values).into_column()
        }
        ValueKind::Float => {
            let values = cells.map(|c| if let RowValue::Float(v) = c { Some(v) } else { None });
            Float64Chunked::from_iter_options(name, values).into_column()
        }
        ValueKind::Text => {
            let values = cells.map(|c| if let RowValue::Text(v) = c { Some(v) } else { None });
            StringChunked::from_iter_options(name, values).into_column()
        }
    }
}

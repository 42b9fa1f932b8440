//! CAST of values to another kind.

use crate::sql::planner::cells::{RowValue, by_row};
use crate::sql::planner::kinds::{TypedExpr, ValueKind, int, refused};
use polars::prelude::{DataType, PolarsResult};

impl TypedExpr {
    /// The value as CAST makes it. With `is_try`, what cannot be converted is NULL.
    ///
    /// # Errors
    /// When these kinds cannot be converted.
    pub(crate) fn cast(self, kind: ValueKind, is_try: bool) -> PolarsResult<Self> {
        use ValueKind as Is;
        let function = match (self.kind, kind) {
            (from, to) if from == to => return Ok(self),
            (Is::Null, _) | (Is::Int, Is::Float) | (Is::Bool, Is::Int) => return self.becomes(kind),
            (Is::Int, Is::Bool) => return Ok(Self::new(self.expr.neq(int(0)), kind)),
            (Is::Unsigned, Is::Float) => return Ok(Self::new(self.expr.cast(DataType::Float64), kind)),
            (Is::Float, Is::Int) => whole,
            (Is::Text, Is::Int) => read_whole,
            (Is::Text, Is::Float) => read_float,
            (Is::Text, Is::Bool) => read_bool,
            (_, Is::Text) => written,
            (from, to) => {
                return Err(refused(format!("CAST of {} to {} is not supported", from.words(), to.words())));
            }
        };
        Ok(by_row("cast", function, vec![self, Self::bool(is_try)], kind))
    }
}

/// NULL for TRY_CAST, else an error.
fn failed<'a>(cells: &[RowValue<'a>], to: &str) -> Result<RowValue<'a>, String> {
    match cells {
        [_, RowValue::Bool(true)] => Ok(RowValue::Null),
        [value, ..] => Err(format!("CAST cannot make {to} of {}", value.shown())),
        [] => Ok(RowValue::Null),
    }
}

const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;

/// A float rounded to an integer, halves to the even one as DuckDB does.
fn whole<'a>(cells: &[RowValue<'a>]) -> Result<RowValue<'a>, String> {
    match cells {
        [RowValue::Float(v), ..] if (-TWO_TO_63..TWO_TO_63).contains(&v.round_ties_even()) => {
            Ok(RowValue::Int(v.round_ties_even() as i64))
        }
        _ => failed(cells, "an integer"),
    }
}

/// The failure of a text as a number, which TRY_CAST makes NULL only where it is none for sure: DuckDB knows
/// more ways to write one.
fn not_read<'a>(cells: &[RowValue<'a>], text: &str, to: &str) -> Result<RowValue<'a>, String> {
    match text.chars().any(char::is_numeric) {
        true => Err(format!("CAST cannot make {to} of {}", RowValue::Text(text.into()).shown())),
        false => failed(cells, to),
    }
}

fn read_whole<'a>(cells: &[RowValue<'a>]) -> Result<RowValue<'a>, String> {
    match cells {
        [RowValue::Text(text), ..] => {
            text.trim().parse().map(RowValue::Int).or_else(|_| not_read(cells, text, "an integer"))
        }
        _ => failed(cells, "an integer"),
    }
}

fn read_float<'a>(cells: &[RowValue<'a>]) -> Result<RowValue<'a>, String> {
    match cells {
        [RowValue::Text(text), ..] => {
            text.trim().parse().map(RowValue::Float).or_else(|_| not_read(cells, text, "a float"))
        }
        _ => failed(cells, "a float"),
    }
}

fn read_bool<'a>(cells: &[RowValue<'a>]) -> Result<RowValue<'a>, String> {
    match cells {
        [RowValue::Text(text), ..] => match text.to_lowercase().as_str() {
            "true" | "t" | "1" | "yes" | "y" => Ok(RowValue::Bool(true)),
            "false" | "f" | "0" | "no" | "n" => Ok(RowValue::Bool(false)),
            _ => failed(cells, "true or false"),
        },
        _ => failed(cells, "true or false"),
    }
}

/// A value as text.
fn written<'a>(cells: &[RowValue<'a>]) -> Result<RowValue<'a>, String> {
    let text = match cells {
        [RowValue::Bool(is), ..] => is.to_string(),
        [RowValue::Int(v), ..] => v.to_string(),
        [RowValue::Unsigned(v), ..] => v.to_string(),
        // Engines differ in how they write exponents.
        [RowValue::Float(v), ..] if *v == 0.0 || (1e-4..1e15).contains(&v.abs()) => format!("{v:?}"),
        _ => return failed(cells, "text"),
    };
    Ok(RowValue::Text(text.into()))
}

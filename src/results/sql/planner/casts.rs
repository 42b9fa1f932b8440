//! How values become another kind: by CAST, and where SQL converts them without being asked to.

use crate::sql::planner::cells::{RowValue, by_row};
use crate::sql::planner::kinds::{
    DecimalDigits, MOST_DIGITS, TypedExpr, ValueKind, constant, float, int, missing, refused,
};
use crate::sql::planner::numbers::{as_float, rescaled, rounded};
use polars::prelude::{AnyValue, DataType, PolarsError, PolarsResult};

impl TypedExpr {
    /// The value as another kind, where SQL converts without being asked to.
    ///
    /// # Errors
    /// When these kinds do not mix.
    pub(crate) fn becomes(self, kind: ValueKind) -> PolarsResult<Self> {
        use ValueKind as Is;
        match (self.kind, kind) {
            (from, to) if from == to => Ok(self),
            (Is::Null, _) if self.literal().is_some() => Ok(Self::new(missing(kind), kind)),
            (Is::Null, _) => Ok(Self::new(self.expr.cast(kind.data_type()), kind)),
            (Is::Int, Is::Float) => match self.whole_number() {
                Some(number) => Ok(Self::new(float(number as f64), kind)),
                None => Ok(Self::new(self.expr.cast(DataType::Float64), kind)),
            },
            (Is::Decimal(_), Is::Float) => Ok(as_float(self)),
            (Is::Int | Is::Decimal(_), Is::Decimal(digits)) => rescaled(self, digits),
            (Is::Int, Is::Unsigned) => match self.whole_number().map(u64::try_from) {
                Some(Ok(number)) => Ok(Self::new(constant(kind, AnyValue::UInt64(number)), kind)),
                _ => Err(mixed(self.kind, kind)),
            },
            (Is::Bool, Is::Int) => Ok(Self::new(self.expr.cast(DataType::Int64), kind)),
            (from, to) => Err(mixed(from, to)),
        }
    }

    /// The value as CAST makes it. With `is_try`, what cannot be converted is NULL.
    ///
    /// # Errors
    /// When these kinds cannot be converted.
    pub(crate) fn cast(self, kind: ValueKind, is_try: bool) -> PolarsResult<Self> {
        use ValueKind as Is;
        let function = match (self.kind, kind) {
            (from, to) if from == to => return Ok(self),
            (Is::Null, _) | (Is::Int | Is::Decimal(_), Is::Float) | (Is::Bool, Is::Int) => {
                return self.becomes(kind);
            }
            (Is::Decimal(_), Is::Int) => return Ok(Self::new(rounded(self, "round_decimal", 0).expr, kind)),
            (Is::Decimal(digits), Is::Text) => {
                // Without a digit before the point DuckDB writes none.
                let least = i64::from(digits.part) + i64::from(digits.whole > 0);
                let inputs = vec![self, Self::int(i64::from(digits.part)), Self::int(least)];
                return Ok(by_row("cast_decimal", written_decimal, inputs, kind));
            }
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

fn mixed(one: ValueKind, other: ValueKind) -> PolarsError {
    refused(format!("{} and {} do not mix: CAST one of them", one.words(), other.words()))
}

/// The kind that values of both kinds can have.
///
/// # Errors
/// When these kinds do not mix.
pub(crate) fn common(one: ValueKind, other: ValueKind) -> PolarsResult<ValueKind> {
    use ValueKind as Is;
    Ok(match (one, other) {
        (a, b) if a == b => a,
        (Is::Null, kind) | (kind, Is::Null) => kind,
        (Is::Int | Is::Decimal(_), Is::Float) | (Is::Float, Is::Int | Is::Decimal(_)) => Is::Float,
        (Is::Int | Is::Decimal(_), Is::Int | Is::Decimal(_)) => {
            let (one, other) = (one.digits(), other.digits());
            let digits = DecimalDigits { whole: one.whole.max(other.whole), part: one.part.max(other.part) };
            // DuckDB would drop digits behind the point.
            if digits.whole + digits.part > MOST_DIGITS {
                return Err(refused(
                    "a sum of decimals and a number with more digits do not mix: CAST one to DOUBLE",
                ));
            }
            Is::Decimal(digits)
        }
        (Is::Int, Is::Unsigned) | (Is::Unsigned, Is::Int) => Is::Unsigned,
        (Is::Bool, Is::Int) | (Is::Int, Is::Bool) => Is::Int,
        (a, b) => return Err(mixed(a, b)),
    })
}

/// Both values as their common kind.
///
/// # Errors
/// When their kinds do not mix.
pub(crate) fn alike(one: TypedExpr, other: TypedExpr) -> PolarsResult<(TypedExpr, TypedExpr)> {
    let kind = common(one.kind, other.kind)?;
    Ok((one.becomes(kind)?, other.becomes(kind)?))
}

/// All values as their common kind.
///
/// # Errors
/// When their kinds do not mix.
pub(crate) fn all_alike(values: Vec<TypedExpr>) -> PolarsResult<(Vec<TypedExpr>, ValueKind)> {
    let kind = values.iter().try_fold(ValueKind::Null, |kind, value| common(kind, value.kind))?;
    Ok((values.into_iter().map(|v| v.becomes(kind)).collect::<PolarsResult<_>>()?, kind))
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

/// A decimal as text, with all of its digits.
fn written_decimal<'a>(cells: &[RowValue<'a>]) -> Result<RowValue<'a>, String> {
    let [RowValue::Int(units), RowValue::Int(digits), RowValue::Int(least)] = cells else {
        return failed(cells, "text");
    };
    let (digits, sign) = (*digits as usize, if *units < 0 { "-" } else { "" });
    let text = format!("{:0>1$}", units.unsigned_abs(), *least as usize);
    let (whole, part) = text.split_at(text.len() - digits);
    let point = if digits == 0 { "" } else { "." };
    Ok(RowValue::Text(format!("{sign}{whole}{point}{part}").into()))
}

//! Literals of a statement, and the types that CAST names.

use crate::sql::planner::kinds::{
    DecimalDigits, MOST_DIGITS, TypedExpr, ValueKind, constant, float, refused,
};
use crate::sql::planner::numbers::MOST_DIGITS_BEHIND;
use polars::prelude::{AnyValue, PolarsResult};
use sqlparser::ast::{DataType, Value};

/// A literal.
///
/// # Errors
/// A kind of literal that statements cannot use.
pub(crate) fn literal(value: &Value) -> PolarsResult<TypedExpr> {
    Ok(match value {
        Value::Number(text, _) => number(text)?,
        Value::SingleQuotedString(text) => TypedExpr::new(
            constant(ValueKind::Text, AnyValue::StringOwned(text.as_str().into())),
            ValueKind::Text,
        ),
        Value::Boolean(is) => TypedExpr::bool(*is),
        Value::Null => TypedExpr::null(),
        other => return Err(refused(format!("the literal {other} is not supported"))),
    })
}

/// A number: an integer if it is written as one, a float if it has an exponent, else a decimal.
fn number(text: &str) -> PolarsResult<TypedExpr> {
    let plain = text.replace('_', "");
    if let Ok(whole) = plain.parse::<i64>() {
        return Ok(TypedExpr::int(whole));
    }
    if let Ok(id) = plain.parse::<u64>() {
        return Ok(TypedExpr::new(constant(ValueKind::Unsigned, AnyValue::UInt64(id)), ValueKind::Unsigned));
    }
    if let Some((whole, part)) = plain.split_once('.').filter(|_| !plain.contains(['e', 'E'])) {
        let units = format!("{whole}{part}").parse::<i64>().ok();
        let part = u8::try_from(part.len()).ok().filter(|digits| *digits <= MOST_DIGITS_BEHIND);
        let (Some(units), Some(part)) = (units, part) else {
            return Err(refused(format!("the number {text} has too many digits: write it as {text}e0")));
        };
        // DuckDB counts a 0 before the point.
        let whole = u8::try_from(whole.trim_start_matches('-').len()).unwrap_or(MOST_DIGITS);
        let kind = ValueKind::Decimal(DecimalDigits { whole, part });
        return Ok(TypedExpr::new(constant(kind, AnyValue::Int64(units)), kind));
    }
    match plain.parse::<f64>() {
        Ok(number) if plain.contains(['e', 'E']) => Ok(TypedExpr::new(float(number), ValueKind::Float)),
        _ => Err(refused(format!("the number {text} does not fit in 64 bits"))),
    }
}

/// A type that CAST names: the kind of its values, and the range of its integers.
pub(crate) struct NamedType {
    pub(crate) kind: ValueKind,
    pub(crate) range: Option<(i64, i64)>,
}

/// # Errors
/// A type that statements cannot use.
pub(crate) fn named_type(of: &DataType) -> PolarsResult<NamedType> {
    let plain = |kind| NamedType { kind, range: None };
    let within = |least, most| NamedType { range: Some((least, most)), ..plain(ValueKind::Int) };
    Ok(match of {
        DataType::BigInt(None) | DataType::Int8(None) | DataType::Int64 => plain(ValueKind::Int),
        DataType::Integer(None) | DataType::Int(None) | DataType::Int4(None) | DataType::Int32 => {
            within(i64::from(i32::MIN), i64::from(i32::MAX))
        }
        DataType::SmallInt(None) | DataType::Int2(None) | DataType::Int16 => {
            within(i64::from(i16::MIN), i64::from(i16::MAX))
        }
        DataType::TinyInt(None) => within(i64::from(i8::MIN), i64::from(i8::MAX)),
        DataType::HugeInt => plain(ValueKind::Int),
        DataType::Double(_) | DataType::DoublePrecision | DataType::Float8 | DataType::Float64 => {
            plain(ValueKind::Float)
        }
        DataType::Float(_) | DataType::Real | DataType::Float4 => {
            return Err(refused("floats of 32 bits are not supported: CAST to DOUBLE"));
        }
        DataType::Varchar(_) | DataType::Text | DataType::String(_) | DataType::CharVarying(_) => {
            plain(ValueKind::Text)
        }
        DataType::Boolean | DataType::Bool => plain(ValueKind::Bool),
        other => return Err(refused(format!("the type {other} is not supported"))),
    })
}

//! Arithmetic of integers, decimals and floats, row by row.
//!
//! A decimal is an integer that counts units of its last digit, so that what is computed of decimals and
//! integers is exact.

use crate::sql::planner::cells::{RowValue, by_row, elementwise, height, row_of};
use crate::sql::planner::kinds::{
    DecimalDigits, MOST_DIGITS, TypedExpr, ValueKind, constant, float, int, refused,
};
use polars::prelude::{
    AnyValue, Column, Expr, Float64Chunked, Int64Chunked, IntoColumn, NewChunkedArray, PolarsResult,
};

/// Most digits behind the point: 10 to this power still fits in 64 bits.
pub(crate) const MOST_DIGITS_BEHIND: u8 = 18;

/// How many units of the last digit one is.
pub(crate) fn units_of_one(digits: u8) -> i64 {
    10i64.pow(u32::from(digits.min(MOST_DIGITS_BEHIND)))
}

/// An integer or decimal as a decimal with more digits behind the point.
///
/// # Errors
/// A literal that does not fit in 64 bits then.
pub(crate) fn rescaled(value: TypedExpr, digits: DecimalDigits) -> PolarsResult<TypedExpr> {
    let by = units_of_one(digits.part.saturating_sub(value.kind.digits().part));
    let kind = ValueKind::Decimal(digits);
    let expr = match value.units() {
        _ if by == 1 => value.expr,
        Some(units) => {
            let units = units.checked_mul(by).ok_or_else(|| refused(too_large("*")))?;
            constant(kind, AnyValue::Int64(units))
        }
        None => whole_numbers("*", value.expr, int(by)),
    };
    Ok(TypedExpr::new(expr, kind))
}

/// A decimal as the float next to it.
pub(crate) fn as_float(value: TypedExpr) -> TypedExpr {
    let one = units_of_one(value.kind.digits().part);
    match value.units() {
        Some(units) => TypedExpr::new(float(quotient_of_units(units, one)), ValueKind::Float),
        None => {
            by_row("float_of_decimal", float_of_units, vec![value, TypedExpr::int(one)], ValueKind::Float)
        }
    }
}

fn float_of_units<'a>(cells: &[RowValue<'a>]) -> Result<RowValue<'a>, String> {
    Ok(match cells {
        [RowValue::Int(units), RowValue::Int(one)] => RowValue::Float(quotient_of_units(*units, *one)),
        _ => RowValue::Null,
    })
}

/// The last bit is that of DuckDB, which divides at once only what is a float without an error.
fn quotient_of_units(units: i64, one: i64) -> f64 {
    match units.unsigned_abs() <= 1 << 53 {
        true => units as f64 / one as f64,
        false => (units / one) as f64 + (units % one) as f64 / one as f64,
    }
}

/// -1, 0 or 1 as the first of two integers or decimals is smaller than, equal to or larger than the second.
/// None is converted, which might not fit in 64 bits.
pub(crate) fn order(one: TypedExpr, other: TypedExpr) -> Expr {
    let (digits, of_other) = (one.kind.digits().part, other.kind.digits().part);
    let by_one = TypedExpr::int(units_of_one(of_other.saturating_sub(digits)));
    let by_other = TypedExpr::int(units_of_one(digits.saturating_sub(of_other)));
    by_row("order", ordered, vec![one, other, by_one, by_other], ValueKind::Int).expr
}

fn ordered<'a>(cells: &[RowValue<'a>]) -> Result<RowValue<'a>, String> {
    Ok(match cells {
        [RowValue::Int(one), RowValue::Int(other), RowValue::Int(by_one), RowValue::Int(by_other)] => {
            let product = |a: &i64, b: &i64| i128::from(*a) * i128::from(*b);
            RowValue::Int(product(one, by_one).cmp(&product(other, by_other)) as i64)
        }
        _ => RowValue::Null,
    })
}

/// A decimal with fewer digits behind the point: by ROUND halves away from zero, or FLOOR, CEIL, TRUNC.
pub(crate) fn rounded(value: TypedExpr, how: &'static str, digits: u8) -> TypedExpr {
    let DecimalDigits { whole, part } = value.kind.digits();
    if part <= digits {
        return value;
    }
    let kind =
        ValueKind::Decimal(DecimalDigits { whole: (whole + 1).min(MOST_DIGITS - digits), part: digits });
    let unit = TypedExpr::int(units_of_one(part - digits));
    let by: for<'a> fn(&[RowValue<'a>]) -> Result<RowValue<'a>, String> = match how {
        "floor_decimal" => |cells| Ok(divided(cells, i64::div_euclid)),
        "ceil_decimal" => {
            |cells| Ok(divided(cells, |units, by| units.div_euclid(by) + (units.rem_euclid(by)).signum()))
        }
        "trunc_decimal" => |cells| Ok(divided(cells, |units, by| units / by)),
        _ => |cells| Ok(divided(cells, |units, by| units / by + units % by / (by / 2))),
    };
    by_row(how, by, vec![value, unit], kind)
}

fn divided<'a>(cells: &[RowValue<'a>], by: fn(i64, i64) -> i64) -> RowValue<'a> {
    match cells {
        [RowValue::Int(units), RowValue::Int(unit)] => RowValue::Int(by(*units, *unit)),
        _ => RowValue::Null,
    }
}

fn too_large(op: &str) -> String {
    format!("a result of `{op}` does not fit in 64 bits: CAST to DOUBLE")
}

/// `+ - * % //` of two integers. A result that does not fit in 64 bits, and `%` or `//` by 0, is an error.
pub(crate) fn whole_numbers(op: &'static str, left: Expr, right: Expr) -> Expr {
    let compute = move |a: i64, b: i64| match op {
        "+" => a.checked_add(b),
        "-" => a.checked_sub(b),
        "*" => a.checked_mul(b),
        "%" => a.checked_rem(b),
        _ => a.checked_div(b),
    };
    let run = move |columns: &mut [Column]| {
        let rows = height(columns);
        let [one, other] = &*columns else { return Err(refused(format!("{op} takes two numbers"))) };
        let (left, right) = (one.i64()?, other.i64()?);
        let (mut has_failed, is_division) = (false, matches!(op, "%" | "//"));
        let values = (0..rows).map(|row| {
            let (a, b) = (left.get(row_of(left.len(), row))?, right.get(row_of(right.len(), row))?);
            let made = compute(a, b);
            has_failed |= made.is_none();
            made
        });
        let made = Int64Chunked::from_iter_options(one.name().clone(), values);
        match (has_failed, is_division) {
            (true, true) => Err(refused(format!("`{op}` by 0: write NULLIF(..., 0)"))),
            (true, false) => Err(refused(too_large(op))),
            (false, _) => Ok(made.into_column()),
        }
    };
    elementwise(op, run, &[left, right], ValueKind::Int)
}

/// The quotient of two floats, rounded once. Polars multiplies by the reciprocal of a constant, which is
/// rounded, too: 3 / 10 would be 0.30000000000000004.
pub(crate) fn quotient(left: Expr, right: Expr) -> Expr {
    let run = |columns: &mut [Column]| {
        let rows = height(columns);
        let [one, other] = &*columns else { return Err(refused("/ takes two numbers")) };
        let (left, right) = (one.f64()?, other.f64()?);
        let values = (0..rows).map(|row| {
            let (a, b) = (left.get(row_of(left.len(), row))?, right.get(row_of(right.len(), row))?);
            Some(a / b)
        });
        Ok(Float64Chunked::from_iter_options(one.name().clone(), values).into_column())
    };
    elementwise("/", run, &[left, right], ValueKind::Float)
}

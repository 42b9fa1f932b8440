//! Operators, CASE and CAST of values whose kinds are known.

use crate::sql::planner::casts::{alike, all_alike, common};
use crate::sql::planner::cells::{RowValue, by_row};
use crate::sql::planner::functions::arithmetic;
use crate::sql::planner::kinds::{TypedExpr, ValueKind, int, missing, refused};
use crate::sql::planner::literals::NamedType;
use crate::sql::planner::numbers::order;
use crate::sql::planner::texts;
use polars::prelude::{Column, DataType, Expr, IntoSeries, LazyFrame, PolarsResult, Series, lit, when};
use sqlparser::ast::BinaryOperator;

/// The values of a condition.
pub(crate) fn truth(value: TypedExpr) -> PolarsResult<Expr> {
    match value.kind {
        ValueKind::Bool => Ok(value.expr),
        ValueKind::Null => Ok(value.expr.cast(DataType::Boolean)),
        ValueKind::Int => Ok(value.expr.neq(int(0))),
        _ => Err(refused("a condition must be true or false: compare its value with something")),
    }
}

/// Whether a condition is true, or false: NULL is neither.
pub(crate) fn is(value: TypedExpr, wanted: bool) -> PolarsResult<TypedExpr> {
    let value = truth(value)?;
    let met = if wanted { value } else { value.not() };
    Ok(TypedExpr::new(when(met).then(lit(true)).otherwise(lit(false)), ValueKind::Bool))
}

/// The opposite of a condition.
pub(crate) fn not(value: Expr) -> TypedExpr {
    TypedExpr::new(value.not(), ValueKind::Bool)
}

/// Keeps the rows that meet a condition.
pub(crate) fn filtered(frame: LazyFrame, met: Expr) -> LazyFrame {
    match TypedExpr::new(met.clone(), ValueKind::Bool).literal().map(|v| v.value().extract_bool()) {
        Some(Some(true)) => frame,
        Some(_) => frame.slice(0, 0),
        None => frame.filter(met),
    }
}

/// Whether two values are equal or both missing.
pub(crate) fn same(one: TypedExpr, other: TypedExpr) -> PolarsResult<TypedExpr> {
    let (one, other) = alike(one, other)?;
    if one.kind == ValueKind::Null {
        return Ok(TypedExpr::bool(true));
    }
    let missing = one.expr.clone().is_null().and(other.expr.clone().is_null());
    let equal = when(one.expr.eq(other.expr)).then(lit(true)).otherwise(lit(false));
    Ok(TypedExpr::new(missing.or(equal), ValueKind::Bool))
}

/// The first value whose condition is met.
pub(crate) fn choice(branches: Vec<(Expr, TypedExpr)>, otherwise: TypedExpr) -> PolarsResult<TypedExpr> {
    let (conditions, mut values): (Vec<Expr>, Vec<TypedExpr>) = branches.into_iter().unzip();
    values.push(otherwise);
    let (mut values, kind) = all_alike(values)?;
    let last = values.pop().unwrap_or_else(TypedExpr::null);
    let chain = conditions.into_iter().zip(values).rev();
    let expr = chain.fold(last.expr, |rest, (met, value)| when(met).then(value.expr).otherwise(rest));
    Ok(TypedExpr::new(expr, kind))
}

/// A value as the type that CAST names.
pub(crate) fn converted(value: TypedExpr, to: &NamedType, is_try: bool) -> PolarsResult<TypedExpr> {
    let made = value.cast(to.kind, is_try)?;
    let Some((least, most)) = to.range else { return Ok(made) };
    let inputs = vec![made, TypedExpr::int(least), TypedExpr::int(most), TypedExpr::bool(is_try)];
    Ok(by_row("range", in_range, inputs, ValueKind::Int))
}

fn in_range<'a>(cells: &[RowValue<'a>]) -> Result<RowValue<'a>, String> {
    match cells {
        [RowValue::Int(v), RowValue::Int(least), RowValue::Int(most), RowValue::Bool(is_try)] => {
            match (least..=most).contains(&v) {
                true => Ok(RowValue::Int(*v)),
                false if *is_try => Ok(RowValue::Null),
                false => Err(format!("{v} does not fit in the type of CAST")),
            }
        }
        _ => Ok(RowValue::Null),
    }
}

/// The value of an operator.
pub(crate) fn binary(left: TypedExpr, op: &BinaryOperator, right: TypedExpr) -> PolarsResult<TypedExpr> {
    use BinaryOperator as Op;
    let compared = |with: fn(Expr, Expr) -> Expr| {
        if let ValueKind::Decimal(_) = common(left.kind, right.kind)?
            && left.kind.digits().part != right.kind.digits().part
        {
            let (left, right) = (left.clone(), right.clone());
            return Ok(TypedExpr::new(with(order(left, right), int(0)), ValueKind::Bool));
        }
        let (left, right) = alike(left.clone(), right.clone())?;
        match left.kind {
            ValueKind::Null => Ok(TypedExpr::new(missing(ValueKind::Bool), ValueKind::Bool)),
            _ => Ok(TypedExpr::new(with(left.expr, right.expr), ValueKind::Bool)),
        }
    };
    match op {
        Op::Eq => compared(Expr::eq),
        Op::NotEq => compared(Expr::neq),
        Op::Lt => compared(Expr::lt),
        Op::LtEq => compared(Expr::lt_eq),
        Op::Gt => compared(Expr::gt),
        Op::GtEq => compared(Expr::gt_eq),
        Op::And => logic(left, right, true),
        Op::Or => logic(left, right, false),
        Op::Plus => arithmetic("+", left, right),
        Op::Minus => arithmetic("-", left, right),
        Op::Multiply => arithmetic("*", left, right),
        Op::Divide => arithmetic("/", left, right),
        Op::Modulo => arithmetic("%", left, right),
        Op::DuckIntegerDivide => arithmetic("//", left, right),
        Op::StringConcat => {
            let text = |v: TypedExpr| {
                if v.kind == ValueKind::Null {
                    v.becomes(ValueKind::Text)
                } else {
                    v.cast(ValueKind::Text, false)
                }
            };
            Ok(by_row("||", texts::joined, vec![text(left)?, text(right)?], ValueKind::Text))
        }
        other => Err(refused(format!("the operator {other} is not supported"))),
    }
}

/// AND or OR. A constant operand decides, or is left out.
pub(crate) fn logic(left: TypedExpr, right: TypedExpr, is_and: bool) -> PolarsResult<TypedExpr> {
    let sides =
        [TypedExpr::new(truth(left)?, ValueKind::Bool), TypedExpr::new(truth(right)?, ValueKind::Bool)];
    let known = |v: &TypedExpr| v.literal().and_then(|v| v.value().extract_bool());
    if sides.iter().any(|v| known(v) == Some(!is_and)) {
        return Ok(TypedExpr::bool(!is_and));
    }
    let [one, other] = sides;
    Ok(match (known(&one), known(&other)) {
        (Some(_), _) => other,
        (_, Some(_)) => one,
        _ if is_and => TypedExpr::new(one.expr.and(other.expr), ValueKind::Bool),
        _ => TypedExpr::new(one.expr.or(other.expr), ValueKind::Bool),
    })
}

/// Whether a value is one of a list.
pub(crate) fn among(value: TypedExpr, items: Vec<TypedExpr>) -> PolarsResult<TypedExpr> {
    let kind = items.iter().try_fold(value.kind, |kind, item| common(kind, item.kind))?;
    let value = value.becomes(kind)?;
    let items = items.into_iter().map(|i| i.becomes(kind)).collect::<PolarsResult<Vec<_>>>()?;
    if let Some(known) = series(&items, kind) {
        let found = value.expr.is_in(lit(known.implode()?.into_series()), false);
        return Ok(TypedExpr::new(found, ValueKind::Bool));
    }
    let mut equal = items.into_iter().map(|item| binary(value.clone(), &BinaryOperator::Eq, item));
    let first = equal.next().unwrap_or_else(|| Ok(TypedExpr::bool(false)))?;
    equal.try_fold(first, |any, next| Ok(TypedExpr::new(any.expr.or(next?.expr), ValueKind::Bool)))
}

/// The values of literals, if all are and none is NULL.
fn series(items: &[TypedExpr], kind: ValueKind) -> Option<Series> {
    let values =
        items.iter().map(|item| item.literal().map(|v| v.value().clone())).collect::<Option<Vec<_>>>()?;
    let is_missing = kind == ValueKind::Null || values.iter().any(polars::prelude::AnyValue::is_null);
    let made = Series::from_any_values_and_dtype("".into(), &values, &kind.data_type(), true).ok()?;
    Some(made).filter(|_| !is_missing)
}

/// Whether a value is among those of a column of this kind, none of which is missing; `has_missing` says that
/// there were some.
pub(crate) fn among_column(
    value: TypedExpr,
    of: &Column,
    kind: ValueKind,
    has_missing: bool,
) -> PolarsResult<TypedExpr> {
    if of.is_empty() && !has_missing {
        return Ok(TypedExpr::bool(false));
    }
    let value = value.becomes(kind)?;
    let known = of.as_materialized_series().clone();
    let found = match kind {
        ValueKind::Null => missing(ValueKind::Bool),
        _ => value.expr.is_in(lit(known.implode()?.into_series()), false),
    };
    let unknown = missing(ValueKind::Bool);
    let expr = if has_missing { when(found).then(lit(true)).otherwise(unknown) } else { found };
    Ok(TypedExpr::new(expr, ValueKind::Bool))
}

//! Expressions of a statement as expressions of Polars.

use crate::sql::planner::aggregates::is_aggregate;
use crate::sql::planner::functions::{called, known, negated};
use crate::sql::planner::kinds::{TypedExpr, ValueKind, brief, constant, refused};
use crate::sql::planner::literals::{literal, named_type};
use crate::sql::planner::names::{Names, RelationColumn, StatementQueries, find, key_of};
use crate::sql::planner::operators::{among, binary, choice, converted, is, logic, not, same, truth};
use crate::sql::planner::texts;
use polars::prelude::{Column, DataFrame, Expr, IntoLazy, PolarsError, PolarsResult};
use sqlparser::ast::{
    BinaryOperator, CastKind, CeilFloorKind, DateTimeField, Expr as SqlExpr, Function, FunctionArg,
    FunctionArgExpr, FunctionArguments, Ident, TrimWhereField, UnaryOperator, Value,
};

/// The value of an expression.
///
/// # Errors
/// When it uses a name that is not there, or something that statements cannot use.
pub(crate) fn value(
    of: &SqlExpr,
    names: &Names<'_>,
    queries: &mut dyn StatementQueries,
) -> PolarsResult<TypedExpr> {
    if !names.computed.is_empty()
        && let Some(known) = names.computed.get(&of.to_string())
    {
        return Ok(known.clone());
    }
    folded(of_part(of, names, queries)?)
}

/// The value of an expression that is computed of other expressions.
fn of_part(of: &SqlExpr, names: &Names<'_>, queries: &mut dyn StatementQueries) -> PolarsResult<TypedExpr> {
    let mut inner = |part: &SqlExpr| value(clear(part, of)?, names, queries);
    match of {
        SqlExpr::Nested(part) => inner(part),
        SqlExpr::Identifier(name) => named(std::slice::from_ref(name), names, queries),
        SqlExpr::CompoundIdentifier(parts) => named(parts, names, queries),
        SqlExpr::Value(value) => literal(&value.value),
        SqlExpr::Subquery(query) => queries.value(query),
        SqlExpr::UnaryOp { op: UnaryOperator::Not, expr } => Ok(not(truth(inner(expr)?)?)),
        SqlExpr::UnaryOp { op: UnaryOperator::Minus, expr } => negative(expr, names, queries),
        SqlExpr::UnaryOp { op: UnaryOperator::Plus, expr } => inner(expr),
        SqlExpr::BinaryOp { left, op, right } => binary(inner(left)?, op, inner(right)?),
        SqlExpr::Case { operand, conditions, else_result, .. } => {
            let operand = operand.as_deref().map(&mut inner).transpose()?;
            let mut branches = Vec::new();
            for branch in conditions {
                let condition = inner(&branch.condition)?;
                let met = match &operand {
                    Some(operand) => binary(operand.clone(), &BinaryOperator::Eq, condition)?.expr,
                    None => truth(condition)?,
                };
                branches.push((met, inner(&branch.result)?));
            }
            let otherwise = else_result.as_deref().map(inner).transpose()?;
            choice(branches, otherwise.unwrap_or_else(TypedExpr::null))
        }
        SqlExpr::Cast { kind, expr, data_type, array: false, format: None } => {
            converted(inner(expr)?, &named_type(data_type)?, *kind == CastKind::TryCast)
        }
        SqlExpr::Function(function) => function_value(of, function, names, queries),
        _ => match spelled(of) {
            Some((name, parts)) => called(name, parts.into_iter().map(inner).collect::<PolarsResult<_>>()?),
            None => test(of, names, queries),
        },
    }
}

/// The value of a test: true, false or NULL.
fn test(of: &SqlExpr, names: &Names<'_>, queries: &mut dyn StatementQueries) -> PolarsResult<TypedExpr> {
    let mut inner = |part: &SqlExpr| value(clear(part, of)?, names, queries);
    let bool = |expr: Expr| TypedExpr::new(expr, ValueKind::Bool);
    let (negated, found) = match of {
        SqlExpr::IsNull(part) => (false, bool(inner(part)?.expr.is_null())),
        SqlExpr::IsNotNull(part) => (true, bool(inner(part)?.expr.is_null())),
        SqlExpr::IsTrue(part) => (false, is(inner(part)?, true)?),
        SqlExpr::IsNotTrue(part) => (true, is(inner(part)?, true)?),
        SqlExpr::IsFalse(part) => (false, is(inner(part)?, false)?),
        SqlExpr::IsNotFalse(part) => (true, is(inner(part)?, false)?),
        SqlExpr::IsUnknown(part) => (false, bool(truth(inner(part)?)?.is_null())),
        SqlExpr::IsNotUnknown(part) => (true, bool(truth(inner(part)?)?.is_null())),
        SqlExpr::IsDistinctFrom(one, other) => (true, same(inner(one)?, inner(alone(other)?)?)?),
        SqlExpr::IsNotDistinctFrom(one, other) => (false, same(inner(one)?, inner(alone(other)?)?)?),
        SqlExpr::Between { expr, negated, low, high } => {
            let (value, low, high) = (inner(expr)?, inner(low)?, inner(high)?);
            let above = binary(value.clone(), &BinaryOperator::GtEq, low)?;
            let below = binary(value, &BinaryOperator::LtEq, high)?;
            (*negated, logic(above, below, true)?)
        }
        SqlExpr::InList { expr, list, negated } => {
            let value = inner(expr)?;
            (*negated, among(value, list.iter().map(inner).collect::<PolarsResult<_>>()?)?)
        }
        SqlExpr::InSubquery { expr, subquery, negated } => {
            let value = inner(expr)?;
            (*negated, queries.membership(value, subquery)?)
        }
        SqlExpr::Exists { subquery, negated } => (*negated, queries.existence(subquery, names)?),
        SqlExpr::Like { negated, any: false, expr, pattern, escape_char }
        | SqlExpr::ILike { negated, any: false, expr, pattern, escape_char } => {
            let escape = escape_char.as_ref().map(|e| literal(&e.value)).transpose()?;
            let any_case = matches!(of, SqlExpr::ILike { .. });
            (*negated, texts::like(inner(expr)?, inner(pattern)?, escape, any_case)?)
        }
        other => return Err(refused(format!("the expression {} is not supported", brief(other)))),
    };
    Ok(if negated { not(found.expr) } else { found })
}

/// A function that has a syntax of its own, and its arguments.
fn spelled(of: &SqlExpr) -> Option<(&'static str, Vec<&SqlExpr>)> {
    const WHOLE: CeilFloorKind = CeilFloorKind::DateTimeField(DateTimeField::NoDateTime);
    match of {
        SqlExpr::Ceil { expr, field } if *field == WHOLE => Some(("ceil", vec![expr])),
        SqlExpr::Floor { expr, field } if *field == WHOLE => Some(("floor", vec![expr])),
        SqlExpr::Position { expr, r#in } => Some(("strpos", vec![r#in, expr])),
        SqlExpr::Substring { expr, substring_from: Some(from), substring_for, .. } => {
            Some(("substring", [expr, from].into_iter().chain(substring_for).map(|p| &**p).collect()))
        }
        SqlExpr::Trim { trim_where, trim_what, expr, trim_characters } => {
            let name = match trim_where {
                None | Some(TrimWhereField::Both) => "trim",
                Some(TrimWhereField::Leading) => "ltrim",
                Some(TrimWhereField::Trailing) => "rtrim",
            };
            let what = trim_what.as_deref().into_iter().chain(trim_characters.iter().flatten());
            Some((name, [&**expr].into_iter().chain(what).collect()))
        }
        _ => None,
    }
}

/// An operand, unless the parser may have read it in another way than DuckDB. It takes NOT EXISTS for one
/// operand, where NOT applies to all that follows, and `a < b IN (c)` for `(a < b) IN (c)`.
fn clear<'a>(part: &'a SqlExpr, of: &SqlExpr) -> PolarsResult<&'a SqlExpr> {
    use SqlExpr as Of;
    let is_unclear = match part {
        Of::Exists { negated: true, .. } => !joins_conditions(of),
        Of::BinaryOp { op, .. } if is_comparison(op) => match of {
            Of::BinaryOp { op, .. } => is_comparison(op),
            Of::Between { .. } | Of::InList { .. } | Of::InSubquery { .. } => true,
            Of::Like { .. } | Of::ILike { .. } => true,
            _ => false,
        },
        _ => false,
    };
    let advice = || refused(format!("put parentheses around {}: it can be read in two ways", brief(part)));
    if is_unclear { Err(advice()) } else { Ok(part) }
}

fn is_comparison(op: &BinaryOperator) -> bool {
    use BinaryOperator as Op;
    matches!(op, Op::Eq | Op::NotEq | Op::Lt | Op::LtEq | Op::Gt | Op::GtEq)
}

/// Whether an expression takes whole conditions, so that NOT before one is clear.
fn joins_conditions(of: &SqlExpr) -> bool {
    match of {
        SqlExpr::BinaryOp { op, .. } => matches!(op, BinaryOperator::And | BinaryOperator::Or),
        SqlExpr::UnaryOp { op, .. } => *op == UnaryOperator::Not,
        SqlExpr::Nested(_) | SqlExpr::Case { .. } | SqlExpr::Cast { .. } => true,
        _ => false,
    }
}

/// The same value as a literal if it is constant. Polars gives functions of literals one row, whatever the
/// number of rows around them.
fn folded(value: TypedExpr) -> PolarsResult<TypedExpr> {
    if value.literal().is_some() || !value.is_constant() {
        return Ok(value);
    }
    let row = DataFrame::new(1, vec![Column::new("row".into(), [1i64])])?.lazy();
    let made = row.select([value.expr.alias("value")]).collect()?;
    let known = made.column("value")?.get(0)?.into_static();
    Ok(TypedExpr::new(constant(value.kind, known), value.kind))
}

/// A condition: NULL is neither true nor false.
///
/// # Errors
/// When it is no condition.
pub(crate) fn condition(
    of: &SqlExpr,
    names: &Names<'_>,
    queries: &mut dyn StatementQueries,
) -> PolarsResult<Expr> {
    truth(value(of, names, queries)?)
}

/// The parts of a condition that must all be met.
pub(crate) fn conjuncts(of: &SqlExpr) -> Vec<&SqlExpr> {
    let (mut open, mut found) = (vec![of], Vec::new());
    while let Some(part) = open.pop() {
        match part {
            SqlExpr::BinaryOp { left, op: BinaryOperator::And, right } => open.extend([&**right, &**left]),
            SqlExpr::Nested(inner) => open.push(inner),
            other => found.push(other),
        }
    }
    found
}

/// The arguments of a function in their order, and whether they are DISTINCT. `*` is no argument.
///
/// # Errors
/// Arguments with names, and clauses within the parentheses.
pub(crate) fn arguments(function: &Function) -> PolarsResult<(Vec<&SqlExpr>, bool)> {
    let unclear = || refused(format!("the arguments of {} are not supported", function.name));
    let list = match &function.args {
        FunctionArguments::List(list) if list.clauses.is_empty() => list,
        FunctionArguments::None => return Ok((Vec::new(), false)),
        _ => return Err(unclear()),
    };
    let is_distinct = list.duplicate_treatment == Some(sqlparser::ast::DuplicateTreatment::Distinct);
    let mut found = Vec::new();
    for argument in &list.args {
        match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(part)) => found.push(part),
            FunctionArg::Unnamed(FunctionArgExpr::Wildcard) if list.args.len() == 1 => {}
            _ => return Err(unclear()),
        }
    }
    Ok((found, is_distinct))
}

/// The name of a function in lower case.
pub(crate) fn name_of(function: &Function) -> String {
    function.name.to_string().to_lowercase()
}

fn named(parts: &[Ident], names: &Names<'_>, queries: &mut dyn StatementQueries) -> PolarsResult<TypedExpr> {
    let column = match (find(names.columns, parts), parts) {
        (Err(PolarsError::ColumnNotFound(missing)), [name]) => match names.given.get(&name.value) {
            Some(given) => {
                // A name that is given to an expression with that name in it stands for the column.
                let mut rest = names.given.clone();
                rest.remove(&name.value);
                return value(given, &Names { given: &rest, ..*names }, queries);
            }
            None => return Err(PolarsError::ColumnNotFound(missing)),
        },
        (found, _) => found?,
    };
    column_value(column, names)
}

/// The value of a column, which must be known of the whole group in a grouped SELECT.
///
/// # Errors
/// When it is not.
pub(crate) fn column_value(column: &RelationColumn, names: &Names<'_>) -> PolarsResult<TypedExpr> {
    if !names.is_grouped {
        return Ok(column.value());
    }
    let known = names.computed.get(&key_of(column)).cloned();
    known.ok_or_else(|| refused(format!("`{}` is neither in GROUP BY nor in an aggregate", column.name)))
}

fn function_value(
    of: &SqlExpr,
    function: &Function,
    names: &Names<'_>,
    queries: &mut dyn StatementQueries,
) -> PolarsResult<TypedExpr> {
    let name = name_of(function);
    if function.over.is_some() {
        return Err(refused(format!("a window cannot be used there: {}", brief(of))));
    }
    if is_aggregate(&name) {
        return Err(refused(format!("an aggregate cannot be used there: {}", brief(of))));
    }
    known(&name)?;
    if function.filter.is_some() || function.null_treatment.is_some() {
        return Err(refused(format!("the form of {} is not supported", brief(of))));
    }
    let (parts, is_distinct) = arguments(function)?;
    if is_distinct {
        return Err(refused(format!("DISTINCT is not supported in {name}")));
    }
    let values = parts.into_iter().map(|p| value(p, names, queries)).collect::<PolarsResult<Vec<_>>>()?;
    match (name.as_str(), values.as_slice()) {
        ("coalesce" | "ifnull", [_, ..]) => {
            let mut values = values;
            let last = values.pop().unwrap_or_else(TypedExpr::null);
            choice(values.into_iter().map(|v| (v.expr.clone().is_not_null(), v)).collect(), last)
        }
        ("nullif", [one, other]) => {
            let equal = binary(one.clone(), &BinaryOperator::Eq, other.clone())?.expr;
            choice(vec![(equal, TypedExpr::null())], one.clone())
        }
        ("if", [met, yes, no]) => choice(vec![(truth(met.clone())?, yes.clone())], no.clone()),
        _ => called(&name, values),
    }
}

/// A negative number; a literal stays one.
fn negative(of: &SqlExpr, names: &Names<'_>, queries: &mut dyn StatementQueries) -> PolarsResult<TypedExpr> {
    if let SqlExpr::Value(number) = of
        && let Value::Number(text, is_long) = &number.value
    {
        let made = literal(&Value::Number(format!("-{text}"), *is_long))?;
        let is_zero = made.literal().is_some_and(|v| v.value().extract::<f64>() == Some(0.0));
        return if is_zero { literal(&number.value) } else { Ok(made) };
    }
    negated(value(of, names, queries)?)
}

/// What stands behind IS DISTINCT FROM. The parser takes all that follows for it, and so reads `a IS DISTINCT
/// FROM b AND c` as a comparison with `b AND c`.
fn alone(of: &SqlExpr) -> PolarsResult<&SqlExpr> {
    use SqlExpr as Of;
    let is_alone = match of {
        Of::Nested(_) | Of::Identifier(_) | Of::CompoundIdentifier(_) | Of::Value(_) | Of::Function(_) => {
            true
        }
        Of::Subquery(_) | Of::Case { .. } | Of::Cast { .. } => true,
        Of::UnaryOp { op, .. } => *op != UnaryOperator::Not,
        Of::BinaryOp { op, .. } => matches!(
            op,
            BinaryOperator::Plus | BinaryOperator::Minus | BinaryOperator::Multiply | BinaryOperator::Divide
        ),
        _ => false,
    };
    let advice =
        || refused("put parentheses around IS DISTINCT FROM and its operands, and around the second of them");
    if is_alone { Ok(of) } else { Err(advice()) }
}

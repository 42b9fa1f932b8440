//! Subqueries in expressions. Each is computed before the rest of the statement, which then contains its
//! value, or compares with the values that it gave.

use crate::sql::planner::casts::{alike, common};
use crate::sql::planner::cells::{elementwise, height, row_of};
use crate::sql::planner::expressions::{condition, conjuncts, value as value_of};
use crate::sql::planner::groups::has_aggregate;
use crate::sql::planner::joins;
use crate::sql::planner::kinds::{TypedExpr, ValueKind, constant, refused};
use crate::sql::planner::names::{Names, StatementQueries};
use crate::sql::planner::operators::{among_column, filtered};
use polars::prelude::{
    AnyValue, BooleanChunked, Column, DataFrame, Expr, IntoColumn, IntoLazy, NewChunkedArray, PolarsResult,
    UniqueKeepStrategy, col, lit,
};
use sqlparser::ast::{BinaryOperator, Expr as SqlExpr, GroupByExpr, Query, Select, SelectItem, SetExpr};
use std::collections::{BTreeMap, HashSet};

/// The value of a subquery that stands for one.
///
/// # Errors
/// When it gives more than one.
pub(crate) fn value(query: &Query, queries: &mut dyn StatementQueries) -> PolarsResult<TypedExpr> {
    let (found, kind) = only_column(query, queries)?;
    if found.len() > 1 {
        let rows = found.len();
        return Err(refused(format!(
            "a subquery that stands for a value gives {rows} rows; add MAX(...), or LIMIT 1"
        )));
    }
    let known = if found.is_empty() { AnyValue::Null } else { found.get(0)?.into_static() };
    Ok(TypedExpr::new(constant(kind, known), kind))
}

/// Whether a value is among those of a subquery.
///
/// # Errors
/// When it gives several columns, or values of another kind.
pub(crate) fn membership(
    value: TypedExpr,
    query: &Query,
    queries: &mut dyn StatementQueries,
) -> PolarsResult<TypedExpr> {
    let (found, kind) = only_column(query, queries)?;
    let wanted = common(value.kind, kind)?;
    let (place, has_missing) = (found.name().clone(), found.null_count() > 0);
    let present = DataFrame::new_infer_height(vec![found.drop_nulls().unique()?])?.lazy();
    let alike = TypedExpr::new(col(place.clone()), kind).becomes(wanted)?;
    let present = queries.collect(present.select([alike.expr.alias(place.clone())]))?;
    among_column(value, present.column(&place)?, wanted, has_missing)
}

fn only_column(query: &Query, queries: &mut dyn StatementQueries) -> PolarsResult<(Column, ValueKind)> {
    let rows = queries.rows(query)?;
    let [column] = rows.columns.as_slice() else {
        return Err(refused(format!(
            "a subquery in an expression gives {} columns, not one",
            rows.columns.len()
        )));
    };
    let (place, kind) = (column.place.clone(), column.kind);
    let found = queries.collect(rows.frame.select([col(place.clone())]))?;
    Ok((found.column(&place)?.clone(), kind))
}

/// Whether a subquery has rows. Where its WHERE compares values of its own with values of the row around it,
/// the row's values are looked up among all of its own.
///
/// # Errors
/// When it depends on the row around it in another way.
pub(crate) fn existence(
    query: &Query,
    around: &Names<'_>,
    queries: &mut dyn StatementQueries,
) -> PolarsResult<TypedExpr> {
    let select = match query.body.as_ref() {
        SetExpr::Select(select)
            if query.with.is_none() && query.limit_clause.is_none() && !select.from.is_empty() =>
        {
            select
        }
        _ => return any_rows(query, queries),
    };
    let mut rows = joins::from(&select.from, select.selection.as_ref(), queries)?;
    let columns = std::mem::take(&mut rows.columns);
    let (computed, given) = (BTreeMap::new(), BTreeMap::new());
    let own = Names { columns: &columns, computed: &computed, is_grouped: false, given: &given };
    let mut keys: Vec<(TypedExpr, TypedExpr)> = Vec::new();
    for part in select.selection.as_ref().map(conjuncts).unwrap_or_default() {
        match condition(part, &own, queries) {
            Ok(met) => rows.frame = filtered(rows.frame, met),
            Err(error) => keys.push(key(part, &own, around, queries)?.ok_or(error)?),
        }
    }
    if keys.is_empty() {
        return any_rows(query, queries);
    }
    if !is_plain(select) {
        return Err(refused(
            "EXISTS that depends on the row around it can only have FROM and WHERE: join instead",
        ));
    }
    for item in &select.projection {
        if let SelectItem::UnnamedExpr(part) | SelectItem::ExprWithAlias { expr: part, .. } = item
            && value_of(part, around, queries).is_err()
        {
            value_of(part, &own, queries)?;
        }
    }
    let mut own_values = Vec::new();
    let mut outer = Vec::new();
    for (inner, other) in keys {
        let (inner, other) = alike(inner, other)?;
        own_values.push(inner.expr.alias(queries.fresh("key")));
        outer.push(other.expr);
    }
    let frame = rows.frame.select(own_values).unique(None, UniqueKeepStrategy::Any);
    let known = known_rows(&queries.collect(frame)?)?;
    // Polars takes functions of one name and the same arguments to be equal.
    outer.push(lit(queries.fresh("exists").as_str()));
    Ok(TypedExpr::new(
        elementwise("exists", move |c| looked_up(c, &known), &outer, ValueKind::Bool),
        ValueKind::Bool,
    ))
}

fn any_rows(query: &Query, queries: &mut dyn StatementQueries) -> PolarsResult<TypedExpr> {
    let rows = queries.rows(query)?;
    let places: Vec<Expr> = rows.columns.iter().map(|c| col(c.place.clone())).collect();
    Ok(TypedExpr::bool(queries.collect(rows.frame.select(places).limit(1))?.height() > 0))
}

fn is_plain(of: &Select) -> bool {
    let is_grouped = !matches!(&of.group_by, GroupByExpr::Expressions(keys, _) if keys.is_empty());
    let has_aggregate = of.projection.iter().any(|item| match item {
        SelectItem::UnnamedExpr(part) | SelectItem::ExprWithAlias { expr: part, .. } => has_aggregate(part),
        _ => false,
    });
    !has_aggregate && !is_grouped && of.having.is_none() && of.qualify.is_none() && of.distinct.is_none()
}

/// A condition that compares a value of the subquery with one of the row around it.
fn key(
    part: &SqlExpr,
    own: &Names<'_>,
    around: &Names<'_>,
    queries: &mut dyn StatementQueries,
) -> PolarsResult<Option<(TypedExpr, TypedExpr)>> {
    let SqlExpr::BinaryOp { left, op: BinaryOperator::Eq, right } = part else { return Ok(None) };
    for (inner, outer) in [(left, right), (right, left)] {
        if let (Ok(inner), Ok(outer)) = (value_of(inner, own, queries), value_of(outer, around, queries)) {
            return Ok(Some((inner, outer)));
        }
    }
    Ok(None)
}

/// A value of a key. Floats are compared by their bits.
#[derive(PartialEq, Eq, Hash)]
enum KeyValue {
    Bool(bool),
    Int(i64),
    Unsigned(u64),
    Float(u64),
    Text(String),
}

/// `None` if it is missing, which equals nothing.
fn key_value(of: &AnyValue<'_>) -> Option<KeyValue> {
    Some(match of {
        AnyValue::Boolean(v) => KeyValue::Bool(*v),
        AnyValue::Int64(v) => KeyValue::Int(*v),
        AnyValue::UInt64(v) => KeyValue::Unsigned(*v),
        AnyValue::Float64(v) => KeyValue::Float((v + 0.0).to_bits()),
        other => KeyValue::Text(other.get_str()?.to_string()),
    })
}

fn known_rows(of: &DataFrame) -> PolarsResult<HashSet<Vec<KeyValue>>> {
    let mut known = HashSet::new();
    for row in 0..of.height() {
        let values = of.columns().iter().map(|c| c.get(row)).collect::<PolarsResult<Vec<_>>>()?;
        known.extend(values.iter().map(key_value).collect::<Option<Vec<_>>>());
    }
    Ok(known)
}

fn looked_up(columns: &[Column], known: &HashSet<Vec<KeyValue>>) -> PolarsResult<Column> {
    let keys = columns.split_last().map_or(columns, |(_, keys)| keys);
    let rows = height(keys);
    let mut found = Vec::with_capacity(rows);
    for row in 0..rows {
        let values = keys.iter().map(|c| c.get(row_of(c.len(), row)));
        let values = values.collect::<PolarsResult<Vec<_>>>()?;
        let key = values.iter().map(key_value).collect::<Option<Vec<_>>>();
        found.push(key.is_some_and(|key| known.contains(&key)));
    }
    let name = columns.first().map(|c| c.name().clone()).unwrap_or_default();
    Ok(BooleanChunked::from_slice(name, &found).into_column())
}

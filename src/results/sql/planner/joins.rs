//! FROM: tables, and joins of every form.
//!
//! Conditions that compare a value of one side with one of the other are keys of the join. What else ON asks
//! is a rest: rows that fulfil the keys and the rest match, and an outer join adds those of a side that match
//! nothing. A filter of the joined rows could not tell those apart.

use crate::sql::planner::casts::alike;
use crate::sql::planner::expressions::{condition, conjuncts, value};
use crate::sql::planner::kinds::{TypedExpr, ValueKind, brief, missing, refused};
use crate::sql::planner::names::{Names, Relation, RelationColumn, StatementQueries, find};
use crate::sql::planner::operators::filtered;
use polars::prelude::{
    Expr, IdxSize, JoinCoalesce, JoinType, LazyFrame, PlSmallStr, PolarsResult, UnionArgs, col, when,
};
use sqlparser::ast::{
    BinaryOperator, Expr as SqlExpr, Ident, JoinConstraint, JoinOperator, ObjectName, ObjectNamePart,
    TableAlias, TableFactor, TableWithJoins,
};
use std::collections::BTreeMap;

/// Which rows of the two sides a join gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum JoinForm {
    Inner,
    Left,
    Right,
    Full,
    Semi,
    Anti,
}

/// Values that must be equal, of the left and of the right side.
type JoinKeys = Vec<(Expr, Expr)>;

/// The rows of a FROM, for a SELECT with this WHERE.
///
/// # Errors
/// A table that is not there, or a form that statements cannot use.
pub(crate) fn from(
    tables: &[TableWithJoins],
    selection: Option<&SqlExpr>,
    queries: &mut dyn StatementQueries,
) -> PolarsResult<Relation> {
    let mut all: Option<Relation> = None;
    for table in tables {
        let mut rows = factor(&table.relation, queries)?;
        for join in &table.joins {
            let right = factor(&join.relation, queries)?;
            rows = joined(rows, right, &join.join_operator, selection, queries)?;
        }
        all = Some(match all {
            Some(before) => product(before, rows, selection, queries)?,
            None => rows,
        });
    }
    all.ok_or_else(|| refused("a SELECT needs a FROM"))
}

/// A table, a query in parentheses, or a join in parentheses.
fn factor(of: &TableFactor, queries: &mut dyn StatementQueries) -> PolarsResult<Relation> {
    let columns = |alias: &TableAlias| alias.columns.iter().map(|c| c.name.clone()).collect::<Vec<Ident>>();
    match of {
        TableFactor::Table {
            name,
            alias,
            args: None,
            version: None,
            with_ordinality: false,
            sample: None,
            ..
        } => {
            let table = plain_name(name)?;
            let rows = queries.table(&table)?;
            let shown = alias.as_ref().map_or(table, |a| a.name.value.clone());
            rows.named(&shown, &alias.as_ref().map(columns).unwrap_or_default().iter().collect::<Vec<_>>())
        }
        TableFactor::Derived { lateral: false, subquery, alias, sample: None } => {
            let rows = queries.rows(subquery)?;
            match alias {
                Some(alias) => rows.named(&alias.name.value, &columns(alias).iter().collect::<Vec<_>>()),
                None => Ok(rows),
            }
        }
        TableFactor::NestedJoin { table_with_joins, alias: None } => {
            from(std::slice::from_ref(table_with_joins), None, queries)
        }
        other => Err(refused(format!("{} is not supported in FROM", brief(other)))),
    }
}

/// The name of a table.
pub(crate) fn plain_name(name: &ObjectName) -> PolarsResult<String> {
    match name.0.as_slice() {
        [ObjectNamePart::Identifier(name)] => Ok(name.value.clone()),
        _ => Err(refused(format!("`{name}`: names of tables have one part"))),
    }
}

fn joined(
    left: Relation,
    right: Relation,
    operator: &JoinOperator,
    selection: Option<&SqlExpr>,
    queries: &mut dyn StatementQueries,
) -> PolarsResult<Relation> {
    let (form, constraint) = match operator {
        JoinOperator::Join(on) | JoinOperator::Inner(on) => (JoinForm::Inner, on),
        JoinOperator::Left(on) | JoinOperator::LeftOuter(on) => (JoinForm::Left, on),
        JoinOperator::Right(on) | JoinOperator::RightOuter(on) => (JoinForm::Right, on),
        JoinOperator::FullOuter(on) => (JoinForm::Full, on),
        JoinOperator::Semi(on) | JoinOperator::LeftSemi(on) => (JoinForm::Semi, on),
        JoinOperator::Anti(on) | JoinOperator::LeftAnti(on) => (JoinForm::Anti, on),
        JoinOperator::CrossJoin(JoinConstraint::None) => return product(left, right, selection, queries),
        _ => return Err(refused("this form of JOIN is not supported")),
    };
    distinct_sources(&left, &right)?;
    let shared: Vec<Ident> = match constraint {
        JoinConstraint::Using(names) => {
            names.iter().map(|n| plain_name(n).map(Ident::new)).collect::<PolarsResult<_>>()?
        }
        JoinConstraint::Natural => {
            let has = |name: &str| right.columns.iter().any(|c| c.name == name);
            left.columns
                .iter()
                .filter(|c| !c.is_merged && has(&c.name))
                .map(|c| Ident::new(&c.name))
                .collect()
        }
        JoinConstraint::On(on) => {
            let (keys, rest) = split(on, &left, &right, queries)?;
            return matched(left, right, form, keys, rest, queries);
        }
        JoinConstraint::None => return Err(refused("this JOIN needs ON or USING")),
    };
    if shared.is_empty() {
        return Err(refused("NATURAL JOIN needs a column that both tables have"));
    }
    using(left, right, form, &shared, queries)
}

fn distinct_sources(left: &Relation, right: &Relation) -> PolarsResult<()> {
    let twice = right.columns.iter().filter_map(|c| c.source.as_deref()).find(|s| left.has_source(s));
    twice.map_or(Ok(()), |name| {
        Err(refused(format!("`{name}` is there twice: give one another name with AS")))
    })
}

/// A join whose columns of the same name become one.
fn using(
    left: Relation,
    right: Relation,
    form: JoinForm,
    shared: &[Ident],
    queries: &mut dyn StatementQueries,
) -> PolarsResult<Relation> {
    let mut keys = Vec::new();
    let mut merged = Vec::new();
    for name in shared {
        let (one, other) = (
            find(&left.columns, std::slice::from_ref(name))?,
            find(&right.columns, std::slice::from_ref(name))?,
        );
        let (a, b) = alike(one.value(), other.value())?;
        let place = queries.fresh(&name.value);
        let values = match form {
            JoinForm::Right => b.expr.clone(),
            JoinForm::Full => {
                when(a.expr.clone().is_not_null()).then(a.expr.clone()).otherwise(b.expr.clone())
            }
            _ => a.expr.clone(),
        };
        merged.push((values.alias(place.clone()), name.value.clone(), place, a.kind));
        keys.push((a.expr, b.expr));
    }
    let mut rows = matched(left, right, form, keys, Vec::new(), queries)?;
    rows.frame = rows.frame.with_columns(merged.iter().map(|m| m.0.clone()).collect::<Vec<_>>());
    // The merged column stands where that of the left side stood.
    for (_, name, place, kind) in merged {
        let first = rows.columns.iter().position(|c| !c.is_merged && c.name == name).unwrap_or(0);
        rows.columns.iter_mut().filter(|c| c.name == name).for_each(|c| c.is_merged = true);
        let column = RelationColumn { source: None, name, place, kind, is_merged: false };
        rows.columns.insert(first, column);
    }
    Ok(rows)
}

/// All pairs of rows. Conditions of the WHERE that compare both sides are keys already here, so that not all
/// pairs are made.
fn product(
    left: Relation,
    right: Relation,
    selection: Option<&SqlExpr>,
    queries: &mut dyn StatementQueries,
) -> PolarsResult<Relation> {
    distinct_sources(&left, &right)?;
    let mut keys = Vec::new();
    for part in selection.map(conjuncts).unwrap_or_default() {
        let SqlExpr::BinaryOp { left: one, op: BinaryOperator::Eq, right: other } = part else { continue };
        // Names that are not of one of the sides are of another table, or wrong, which WHERE tells.
        if is_name(one)
            && is_name(other)
            && let Ok((found, _)) = split(part, &left, &right, queries)
        {
            keys.extend(found);
        }
    }
    matched(left, right, JoinForm::Inner, keys, Vec::new(), queries)
}

fn is_name(of: &SqlExpr) -> bool {
    matches!(of, SqlExpr::Identifier(_) | SqlExpr::CompoundIdentifier(_))
}

/// The keys of an ON, and the rest of its conditions.
fn split(
    on: &SqlExpr,
    left: &Relation,
    right: &Relation,
    queries: &mut dyn StatementQueries,
) -> PolarsResult<(JoinKeys, Vec<Expr>)> {
    let both: Vec<RelationColumn> = left.columns.iter().chain(&right.columns).cloned().collect();
    let (computed, given) = (BTreeMap::new(), BTreeMap::new());
    let names = Names { columns: &both, computed: &computed, is_grouped: false, given: &given };
    let (mut keys, mut rest) = (Vec::new(), Vec::new());
    for part in conjuncts(on) {
        if let SqlExpr::BinaryOp { left: one, op: BinaryOperator::Eq, right: other } = part
            && let (one, other) = (value(one, &names, queries)?, value(other, &names, queries)?)
            && let Some(key) = sides(one, other, left, right)?
        {
            keys.push(key);
            continue;
        }
        rest.push(condition(part, &names, queries)?);
    }
    Ok((keys, rest))
}

/// Both values if one depends on the left side only and the other on the right.
fn sides(
    one: TypedExpr,
    other: TypedExpr,
    left: &Relation,
    right: &Relation,
) -> PolarsResult<Option<(Expr, Expr)>> {
    let is_of = |value: &TypedExpr, side: &Relation| {
        let mut columns = value.expr.into_iter().filter_map(|part| match part {
            Expr::Column(place) => Some(side.columns.iter().any(|c| c.place == *place)),
            _ => None,
        });
        columns.next() == Some(true) && columns.all(|is| is)
    };
    let (one, other) = if is_of(&one, left) { (one, other) } else { (other, one) };
    if !is_of(&one, left) || !is_of(&other, right) {
        return Ok(None);
    }
    let (one, other) = alike(one, other)?;
    Ok(Some((one.expr, other.expr)).filter(|_| one.kind != ValueKind::Null))
}

/// The rows of a join by keys and a rest of conditions.
fn matched(
    left: Relation,
    right: Relation,
    form: JoinForm,
    keys: JoinKeys,
    rest: Vec<Expr>,
    queries: &mut dyn StatementQueries,
) -> PolarsResult<Relation> {
    if form == JoinForm::Right {
        let keys = keys.into_iter().map(|(a, b)| (b, a)).collect();
        let count = right.columns.len();
        let mut rows = matched(right, left, JoinForm::Left, keys, rest, queries)?;
        rows.columns.rotate_left(count);
        return Ok(rows);
    }
    let is_of_left = matches!(form, JoinForm::Semi | JoinForm::Anti);
    let mut columns = left.columns.clone();
    if !is_of_left {
        columns.extend(right.columns.iter().cloned());
    }
    let places: Vec<Expr> = columns.iter().map(|c| col(c.place.clone())).collect();
    let frame = if rest.is_empty() && !keys.is_empty() {
        let how = match form {
            JoinForm::Inner | JoinForm::Right => JoinType::Inner,
            JoinForm::Left => JoinType::Left,
            JoinForm::Full => JoinType::Full,
            JoinForm::Semi => JoinType::Semi,
            JoinForm::Anti => JoinType::Anti,
        };
        by_keys(left.frame, right.frame, keys, how, queries).select(places)
    } else if form == JoinForm::Inner {
        rest.into_iter().fold(pairs(left.frame, right.frame, keys, queries), filtered)
    } else {
        let row = [queries.fresh("left row"), queries.fresh("right row")];
        let [one, other] =
            [(left.frame, &row[0]), (right.frame, &row[1])].map(|(frame, row)| numbered(frame, row));
        let pairs = rest.into_iter().fold(pairs(one.clone(), other.clone(), keys, queries), filtered);
        let alone = |side: LazyFrame, row: &PlSmallStr, how: JoinType| {
            let pairs = pairs.clone().select([col(row.clone())]);
            side.join_builder().with(pairs).on([col(row.clone())]).how(how).finish()
        };
        match form {
            JoinForm::Semi => alone(one, &row[0], JoinType::Semi).select(places),
            JoinForm::Anti => alone(one, &row[0], JoinType::Anti).select(places),
            _ => {
                queries.keep_columns();
                let empty = |of: &[RelationColumn]| {
                    of.iter().map(|c| missing(c.kind).alias(c.place.clone())).collect::<Vec<_>>()
                };
                let mut parts = vec![pairs.clone().select(places.clone())];
                let lone = alone(one, &row[0], JoinType::Anti).with_columns(empty(&right.columns));
                parts.push(lone.select(places.clone()));
                if form == JoinForm::Full {
                    let lone = alone(other, &row[1], JoinType::Anti).with_columns(empty(&left.columns));
                    parts.push(lone.select(places));
                }
                polars::prelude::concat(parts, UnionArgs::default())?
            }
        }
    };
    Ok(Relation { frame, columns, is_made: true })
}

fn numbered(frame: LazyFrame, row: &PlSmallStr) -> LazyFrame {
    frame.with_row_index(row.clone(), Some(0 as IdxSize))
}

/// All pairs of rows with equal keys.
fn pairs(left: LazyFrame, right: LazyFrame, keys: JoinKeys, queries: &mut dyn StatementQueries) -> LazyFrame {
    if keys.is_empty() {
        queries.keep_columns();
        return left.cross_join(right, None);
    }
    by_keys(left, right, keys, JoinType::Inner, queries)
}

/// A join by keys alone. Keys that are no columns become some first, which stay in the rows.
fn by_keys(
    mut left: LazyFrame,
    mut right: LazyFrame,
    keys: JoinKeys,
    how: JoinType,
    queries: &mut dyn StatementQueries,
) -> LazyFrame {
    let mut column = |frame: &mut LazyFrame, key: Expr| match key {
        Expr::Column(_) => key,
        other => {
            let place = queries.fresh("key");
            *frame = frame.clone().with_columns([other.alias(place.clone())]);
            col(place)
        }
    };
    let (one, other): (Vec<Expr>, Vec<Expr>) =
        keys.into_iter().map(|(a, b)| (column(&mut left, a), column(&mut right, b))).unzip();
    let join = left.join_builder().with(right).left_on(one).right_on(other).how(how);
    join.coalesce(JoinCoalesce::KeepColumns).finish()
}

//! One SELECT: what it reads, groups and gives.
//!
//! Its parts are computed in the order in which SQL means them: FROM, WHERE, GROUP BY with the aggregates,
//! HAVING, windows, QUALIFY, the columns, DISTINCT, ORDER BY. Aggregates and windows become columns before
//! the expressions that contain them are computed, and are found there by their text.

use crate::sql::planner::expressions::{column_value, condition, conjuncts, value};
use crate::sql::planner::groups::{calls, grouped, keys};
use crate::sql::planner::items::{ItemValue, SelectedItem, given, items, ordinal};
use crate::sql::planner::joins;
use crate::sql::planner::kinds::{TypedExpr, refused};
use crate::sql::planner::names::{Names, Relation, RelationColumn, StatementQueries};
use crate::sql::planner::operators::filtered;
use crate::sql::planner::order::{OrderPlace, WantedOrder, order_of};
use crate::sql::planner::window_calls::window;
use crate::sql::planner::windows::{self, sorted};
use polars::prelude::{Column, DataFrame, Expr, IntoLazy, PlSmallStr, PolarsResult, UniqueKeepStrategy, col};
use sqlparser::ast::{Distinct, Expr as SqlExpr, GroupByExpr, OrderBy, Select};
use std::collections::BTreeMap;

/// The rows of a SELECT in the order that is asked for. `is_inner` says that it is part of a statement.
///
/// # Errors
/// When it uses a name that is not there, or something that statements cannot use.
pub(crate) fn select(
    of: &Select,
    order: Option<&OrderBy>,
    is_inner: bool,
    queries: &mut dyn StatementQueries,
) -> PolarsResult<Relation> {
    known_clauses(of)?;
    let mut rows = match of.from.as_slice() {
        [] => one_row(queries)?,
        tables => joins::from(tables, of.selection.as_ref(), queries)?,
    };
    let items = items(of, &rows)?;
    let given = given(of);
    let columns = std::mem::take(&mut rows.columns);
    let none = BTreeMap::new();
    let names = Names { columns: &columns, computed: &none, is_grouped: false, given: &given };
    for part in of.selection.as_ref().map(conjuncts).unwrap_or_default() {
        rows.frame = filtered(rows.frame, condition(part, &names, queries)?);
    }
    let order = order_of(order, &items)?;
    let calls = calls(of, &items, &order);
    let keys = keys(of, &items)?;
    let is_grouped = !keys.is_empty() || of.having.is_some() || !calls.aggregates.is_empty();
    let mut computed = BTreeMap::new();
    if is_grouped {
        if is_inner && keys.is_empty() {
            queries.keep_columns();
        }
        let is_all = matches!(of.group_by, GroupByExpr::All(_));
        computed = grouped(&mut rows, &keys, &calls.aggregates, &names, is_all, queries)?;
    }
    let names = Names { computed: &computed, is_grouped, ..names };
    if let Some(having) = &of.having {
        rows.frame = filtered(rows.frame, condition(having, &names, queries)?);
    }
    let mut with_windows = computed.clone();
    for (text, function) in &calls.windows {
        let call = window(function, of, &names, queries)?;
        let (frame, made) = windows::computed(rows.frame, call)?;
        rows.frame = frame;
        rows.is_made = true;
        with_windows.insert(text.clone(), made);
    }
    let names = Names { computed: &with_windows, ..names };
    if let Some(qualify) = &of.qualify {
        rows.frame = filtered(rows.frame, condition(qualify, &names, queries)?);
    }
    given_rows(of, rows, &items, &order, &names, queries)
}

/// # Errors
/// A clause that statements cannot use.
fn known_clauses(of: &Select) -> PolarsResult<()> {
    let unknown = [
        (of.top.is_some(), "TOP"),
        (of.into.is_some(), "INTO"),
        (of.exclude.is_some(), "EXCLUDE"),
        (!of.lateral_views.is_empty(), "LATERAL VIEW"),
        (of.prewhere.is_some(), "PREWHERE"),
        (!of.connect_by.is_empty(), "CONNECT BY"),
        (!of.cluster_by.is_empty(), "CLUSTER BY"),
        (!of.distribute_by.is_empty(), "DISTRIBUTE BY"),
        (!of.sort_by.is_empty(), "SORT BY"),
        (of.value_table_mode.is_some(), "SELECT AS"),
        (of.projection.is_empty(), "a SELECT without columns"),
    ];
    let found = unknown.into_iter().find(|(is, _)| *is);
    found.map_or(Ok(()), |(_, name)| Err(refused(format!("{name} is not supported"))))
}

/// What a SELECT without FROM reads: one row, whose only column nobody can name.
fn one_row(queries: &mut dyn StatementQueries) -> PolarsResult<Relation> {
    let column = Column::new(queries.fresh("row"), [1i64]);
    let frame = DataFrame::new(1, vec![column])?.lazy();
    Ok(Relation { frame, columns: Vec::new(), is_made: false })
}

/// What is computed for the columns of a SELECT.
#[derive(Default)]
struct GivenColumns {
    selected: Vec<Expr>,
    /// Values that are the same in all rows, which are made before: a literal alone has one row.
    constants: Vec<Expr>,
}

impl GivenColumns {
    fn add(&mut self, value: TypedExpr, place: &PlSmallStr) {
        let is_constant = value.is_constant();
        let named = value.expr.alias(place.clone());
        if is_constant {
            self.constants.push(named);
            self.selected.push(col(place.clone()));
        } else {
            self.selected.push(named);
        }
    }
}

/// The columns that a SELECT gives, in the order that is asked for.
fn given_rows(
    of: &Select,
    mut rows: Relation,
    items: &[SelectedItem],
    order: &[WantedOrder<'_>],
    names: &Names<'_>,
    queries: &mut dyn StatementQueries,
) -> PolarsResult<Relation> {
    let mut given = GivenColumns::default();
    let mut columns = Vec::new();
    for item in items {
        let found = match &item.value {
            ItemValue::Expression(of) => value(of, names, queries)?,
            ItemValue::Column(column) => column_value(column, names)?,
        };
        let (name, place, kind) = (item.name.clone(), queries.fresh(&item.name), found.kind);
        given.add(found, &place);
        columns.push(RelationColumn { source: None, name, place, kind, is_merged: false });
    }
    let answer: Vec<Expr> = columns.iter().map(|c| col(c.place.clone())).collect();
    let mut hidden = |of: &SqlExpr| {
        let place = queries.fresh("order");
        given.add(value(of, names, queries)?, &place);
        Ok(col(place))
    };
    let mut sort = Vec::new();
    for key in order {
        sort.push(key.key(match key.place {
            OrderPlace::Item(at) => answer[at].clone(),
            OrderPlace::Expression(_) if of.distinct == Some(Distinct::Distinct) => {
                return Err(refused("ORDER BY of a SELECT DISTINCT takes its columns only"));
            }
            OrderPlace::Expression(of) => hidden(of)?,
        }));
    }
    let first_of = match &of.distinct {
        Some(Distinct::On(keys)) if !sort.is_empty() => {
            let key = |key: &SqlExpr| match ordinal(key).and_then(|number| answer.get(number.checked_sub(1)?))
            {
                Some(column) => Ok(column.clone()),
                None => hidden(key),
            };
            keys.iter().map(key).collect::<PolarsResult<Vec<_>>>()?
        }
        Some(Distinct::On(_)) => return Err(refused("DISTINCT ON needs ORDER BY")),
        _ => Vec::new(),
    };
    let GivenColumns { selected, constants } = given;
    if selected.len() == constants.len() {
        queries.keep_columns();
    }
    let has_hidden = selected.len() > answer.len();
    let mut frame = rows.frame;
    if !constants.is_empty() {
        frame = frame.with_columns(constants);
    }
    frame = frame.select(selected);
    if of.distinct == Some(Distinct::Distinct) {
        frame = frame.unique_generic(Some(answer.clone()), UniqueKeepStrategy::Any);
        rows.is_made = true;
    }
    if !sort.is_empty() {
        frame = sorted(frame, &sort);
        rows.is_made = false;
    }
    if !first_of.is_empty() {
        frame = frame.unique_stable_generic(Some(first_of), UniqueKeepStrategy::First);
    }
    if has_hidden {
        frame = frame.select(answer);
    }
    Ok(Relation { frame, columns, is_made: rows.is_made })
}

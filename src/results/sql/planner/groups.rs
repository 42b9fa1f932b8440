//! GROUP BY: the keys and aggregates of a SELECT, and its rows by group.

use crate::sql::planner::aggregates::{AggregateCall, aggregate, is_aggregate};
use crate::sql::planner::expressions::{arguments, condition, name_of, value};
use crate::sql::planner::items::{SelectedItem, expression, ordinal};
use crate::sql::planner::kinds::{TypedExpr, ValueKind, int, missing, refused};
use crate::sql::planner::names::{Names, Relation, StatementQueries, find, key_of};
use crate::sql::planner::order::{OrderPlace, WantedOrder};
use polars::prelude::{Expr, PlSmallStr, PolarsResult, col, when};
use sqlparser::ast::{
    Expr as SqlExpr, Function, GroupByExpr, NamedWindowExpr, Query, Select, Visit, Visitor,
};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// The keys of GROUP BY, as expressions.
pub(crate) fn keys(of: &Select, items: &[SelectedItem]) -> PolarsResult<Vec<SqlExpr>> {
    let GroupByExpr::Expressions(keys, modifiers) = &of.group_by else {
        if items.iter().any(|item| expression(item).is_none()) {
            return Err(refused("GROUP BY ALL needs the names of the columns instead of `*`"));
        }
        return Ok(items.iter().filter_map(expression).filter(|e| !has_aggregate(e)).cloned().collect());
    };
    if !modifiers.is_empty() {
        return Err(refused("ROLLUP, CUBE and GROUPING SETS are not supported"));
    }
    let key = |key: &SqlExpr| match ordinal(key) {
        Some(number) => {
            let item = number.checked_sub(1).and_then(|at| items.get(at));
            item.and_then(expression)
                .cloned()
                .ok_or_else(|| refused(format!("GROUP BY {number} is no column")))
        }
        None => Ok(key.clone()),
    };
    keys.iter().map(key).collect()
}

/// Aggregates and windows of expressions, by their text.
#[derive(Default)]
pub(crate) struct FoundCalls {
    pub(crate) aggregates: BTreeMap<String, Function>,
    pub(crate) windows: BTreeMap<String, Function>,
    /// How many subqueries the visitor is in, whose calls are their own.
    depth: usize,
}

impl Visitor for FoundCalls {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, of: &SqlExpr) -> ControlFlow<()> {
        if let SqlExpr::Function(function) = of
            && self.depth == 0
        {
            if function.over.is_some() {
                self.windows.insert(of.to_string(), function.clone());
            } else if is_aggregate(&name_of(function)) {
                self.aggregates.insert(of.to_string(), function.clone());
            }
        }
        ControlFlow::Continue(())
    }
}

/// Whether an expression contains an aggregate of its own rows.
pub(crate) fn has_aggregate(of: &SqlExpr) -> bool {
    !found_calls([of]).aggregates.is_empty()
}

fn found_calls<'a>(of: impl IntoIterator<Item = &'a SqlExpr>) -> FoundCalls {
    let mut found = FoundCalls::default();
    for part in of {
        let _ = part.visit(&mut found);
    }
    found
}

pub(crate) fn calls(of: &Select, items: &[SelectedItem], order: &[WantedOrder<'_>]) -> FoundCalls {
    let ordered = order.iter().filter_map(|key| match key.place {
        OrderPlace::Expression(of) => Some(of),
        OrderPlace::Item(_) => None,
    });
    let clauses = of.having.iter().chain(&of.qualify);
    let mut found = found_calls(items.iter().filter_map(expression).chain(clauses).chain(ordered));
    for window in &of.named_window {
        if let NamedWindowExpr::WindowSpec(spec) = &window.1 {
            let parts = spec.partition_by.iter().chain(spec.order_by.iter().map(|o| &o.expr));
            found.aggregates.extend(found_calls(parts).aggregates);
        }
    }
    found
}

/// Makes groups of rows. Gives their keys and aggregates, by their text.
pub(crate) fn grouped(
    rows: &mut Relation,
    keys: &[SqlExpr],
    aggregates: &BTreeMap<String, Function>,
    names: &Names<'_>,
    is_all: bool,
    queries: &mut dyn StatementQueries,
) -> PolarsResult<BTreeMap<String, TypedExpr>> {
    let mut computed = BTreeMap::new();
    let mut before = Vec::new();
    let mut by: Vec<PlSmallStr> = Vec::new();
    for key in keys {
        let found = value(key, names, queries)?;
        if is_all && found.is_constant() {
            return Err(refused("GROUP BY ALL of a value that is the same in all rows: name the keys"));
        }
        let (place, kind) = place(found, "key", &mut before, queries);
        let column = TypedExpr::new(col(place.clone()), kind);
        if let Some(named) = names.columns.iter().find(|c| c.place == place) {
            computed.insert(key_of(named), column.clone());
        }
        if let SqlExpr::Identifier(name) = key
            && let Some(given) = names.given.get(&name.value)
            && find(names.columns, std::slice::from_ref(name)).is_err()
        {
            computed.insert(given.to_string(), column.clone());
        }
        computed.insert(key.to_string(), column);
        if !by.contains(&place) {
            by.push(place);
        }
    }
    let mut parts = Vec::new();
    if aggregates.is_empty() {
        let row = queries.fresh("row");
        before.push(int(1).alias(row.clone()));
        parts.push(col(row).count().alias(queries.fresh("rows")));
    }
    let mut made = Vec::new();
    for (text, function) in aggregates {
        let call = aggregate_call(function, names, &mut before, queries)?;
        parts.extend(call.parts.into_iter().map(|(place, part)| part.alias(place)));
        let place = queries.fresh("aggregate");
        made.push(call.made.expr.alias(place.clone()));
        computed.insert(text.clone(), TypedExpr::new(col(place), call.made.kind));
    }
    let frame = rows.frame.clone();
    let frame = if before.is_empty() { frame } else { frame.with_columns(before) };
    let frame = match by.as_slice() {
        [] => frame.select(parts),
        keys => frame.group_by(keys.iter().cloned().map(col).collect::<Vec<_>>()).agg(parts),
    };
    rows.frame = if made.is_empty() { frame } else { frame.with_columns(made) };
    rows.is_made = true;
    Ok(computed)
}

/// The column with these values: it is made before, unless there is one.
fn place(
    of: TypedExpr,
    name: &str,
    before: &mut Vec<Expr>,
    queries: &mut dyn StatementQueries,
) -> (PlSmallStr, ValueKind) {
    if let Expr::Column(place) = of.expr {
        return (place, of.kind);
    }
    let place = queries.fresh(name);
    before.push(of.expr.alias(place.clone()));
    (place, of.kind)
}

fn aggregate_call(
    function: &Function,
    names: &Names<'_>,
    before: &mut Vec<Expr>,
    queries: &mut dyn StatementQueries,
) -> PolarsResult<AggregateCall> {
    if !function.within_group.is_empty() || function.null_treatment.is_some() {
        return Err(refused(format!("the form of {function} is not supported")));
    }
    let name = name_of(function);
    let (found, is_distinct) = arguments(function)?;
    let mut inputs =
        found.into_iter().map(|of| value(of, names, queries)).collect::<PolarsResult<Vec<_>>>()?;
    let fraction = if inputs.len() > 1 { inputs.pop() } else { None };
    if inputs.len() > 1 || (fraction.is_some() && !name.starts_with("quantile")) {
        return Err(refused(format!("{name} takes one argument")));
    }
    let mut input = inputs.pop();
    if let Some(filter) = &function.filter {
        let met = condition(filter, names, queries)?;
        let all = input.unwrap_or_else(|| TypedExpr::int(1));
        let all = if all.kind == ValueKind::Null { all.becomes(ValueKind::Int)? } else { all };
        let nothing = missing(all.kind);
        input = Some(TypedExpr::new(when(met).then(all.expr).otherwise(nothing), all.kind));
    }
    if input.is_none() && queries.has_union() {
        input = Some(TypedExpr::int(1));
    }
    let input = input.map(|of| {
        let (place, kind) = place(of, "argument", before, queries);
        TypedExpr::new(col(place), kind)
    });
    aggregate(&name, input, fraction.as_ref(), is_distinct, &queries.fresh(&name))
}

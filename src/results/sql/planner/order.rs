//! ORDER BY.

use crate::sql::planner::expressions::value;
use crate::sql::planner::items::{ItemValue, SelectedItem, ordinal};
use crate::sql::planner::kinds::refused;
use crate::sql::planner::names::{Names, Relation, RelationColumn, StatementQueries};
use crate::sql::planner::windows::{OrderKey, sorted};
use polars::prelude::{Expr, LazyFrame, PolarsResult, col};
use sqlparser::ast::{
    Expr as SqlExpr, Ident, OrderBy, OrderByExpr, OrderByKind, OrderByOptions, UnaryOperator,
};
use std::collections::BTreeMap;

/// A key of ORDER BY.
pub(crate) struct WantedOrder<'a> {
    pub(crate) place: OrderPlace<'a>,
    options: &'a OrderByOptions,
}

pub(crate) enum OrderPlace<'a> {
    /// A column of the answer.
    Item(usize),
    Expression(&'a SqlExpr),
}

impl WantedOrder<'_> {
    pub(crate) fn key(&self, value: Expr) -> OrderKey {
        OrderKey::new(value, self.options)
    }
}

pub(crate) fn order_of<'a>(
    order: Option<&'a OrderBy>,
    items: &[SelectedItem],
) -> PolarsResult<Vec<WantedOrder<'a>>> {
    let Some(order) = order else { return Ok(Vec::new()) };
    if order.interpolate.is_some() {
        return Err(refused("INTERPOLATE is not supported"));
    }
    let all = |options: &'a OrderByOptions| {
        let item = |at| WantedOrder { place: OrderPlace::Item(at), options };
        Ok((0..items.len()).map(item).collect())
    };
    let keys = match &order.kind {
        OrderByKind::All(options) => return all(options),
        OrderByKind::Expressions(keys) => keys,
    };
    if let [OrderByExpr { expr: SqlExpr::Identifier(Ident { value, quote_style: None, .. }), options, .. }] =
        keys.as_slice()
        && value.eq_ignore_ascii_case("all")
    {
        return all(options);
    }
    let key = |key: &'a OrderByExpr| {
        let place = match (&key.expr, ordinal(&key.expr)) {
            (SqlExpr::Identifier(name), _) => match item_named(items, &name.value)? {
                Some(at) => OrderPlace::Item(at),
                None => OrderPlace::Expression(&key.expr),
            },
            (_, Some(number)) if (1..=items.len()).contains(&number) => OrderPlace::Item(number - 1),
            (SqlExpr::Value(_) | SqlExpr::UnaryOp { op: UnaryOperator::Minus, .. }, _)
                if is_number(&key.expr) =>
            {
                return Err(refused(format!("ORDER BY {} is no column", key.expr)));
            }
            _ => OrderPlace::Expression(&key.expr),
        };
        Ok(WantedOrder { place, options: &key.options })
    };
    keys.iter().map(key).collect()
}

/// Rows in the order that is asked for by their names, as of a UNION.
///
/// # Errors
/// When the order uses anything else.
pub(crate) fn ordered(
    mut rows: Relation,
    order: Option<&OrderBy>,
    queries: &mut dyn StatementQueries,
) -> PolarsResult<Relation> {
    let items: Vec<SelectedItem> = rows
        .columns
        .iter()
        .map(|c| SelectedItem { name: c.name.clone(), value: ItemValue::Column(c.clone()) })
        .collect();
    let order = order_of(order, &items)?;
    if order.is_empty() {
        return Ok(rows);
    }
    let none = (BTreeMap::new(), BTreeMap::new());
    let names = Names { columns: &rows.columns, computed: &none.0, is_grouped: false, given: &none.1 };
    let keys = order.iter().map(|key| {
        let value = match key.place {
            OrderPlace::Item(at) => col(rows.columns[at].place.clone()),
            OrderPlace::Expression(of) => value(of, &names, queries)?.expr,
        };
        Ok(key.key(value))
    });
    let keys = keys.collect::<PolarsResult<Vec<_>>>()?;
    rows.frame = sorted(rows.frame, &keys);
    rows.is_made = false;
    Ok(rows)
}

/// Rows without an order of their own, sorted by all their columns, so that the same input gives the same
/// bytes.
pub(crate) fn in_order(rows: Relation) -> Relation {
    if !rows.is_made {
        return rows;
    }
    let key = |c: &RelationColumn| OrderKey::ascending(col(c.place.clone()));
    let keys: Vec<OrderKey> = rows.columns.iter().map(key).collect();
    let frame: LazyFrame = sorted(rows.frame, &keys);
    Relation { frame, is_made: false, ..rows }
}

/// The column of the answer that has a name.
///
/// # Errors
/// When several have it.
pub(crate) fn item_named(items: &[SelectedItem], name: &str) -> PolarsResult<Option<usize>> {
    let mut found = items.iter().enumerate().filter(|(_, item)| item.name == name).map(|(at, _)| at);
    match (found.next(), found.next()) {
        (_, Some(_)) => Err(refused(format!("`{name}` names several columns: order by their numbers"))),
        (at, None) => Ok(at),
    }
}

/// Whether a key is a literal, or a negative one.
fn is_number(of: &SqlExpr) -> bool {
    match of {
        SqlExpr::Value(_) => true,
        SqlExpr::UnaryOp { expr, .. } => is_number(expr),
        _ => false,
    }
}

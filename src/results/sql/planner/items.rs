//! The columns that a SELECT gives, and what its names stand for.

use crate::sql::planner::joins::plain_name;
use crate::sql::planner::kinds::refused;
use crate::sql::planner::names::{Relation, RelationColumn};
use polars::prelude::PolarsResult;
use sqlparser::ast::{
    Expr as SqlExpr, Select, SelectItem, SelectItemQualifiedWildcardKind, WildcardAdditionalOptions,
};
use std::collections::BTreeMap;

/// A column of the answer.
pub(crate) struct SelectedItem {
    pub(crate) name: String,
    pub(crate) value: ItemValue,
}

pub(crate) enum ItemValue {
    Expression(Box<SqlExpr>),
    /// One that `*` stands for.
    Column(RelationColumn),
}

/// The columns that a SELECT gives.
pub(crate) fn items(of: &Select, rows: &Relation) -> PolarsResult<Vec<SelectedItem>> {
    let mut items = Vec::new();
    let all = |source: Option<&str>, options: &WildcardAdditionalOptions| {
        let plain = WildcardAdditionalOptions {
            wildcard_token: options.wildcard_token.clone(),
            ..Default::default()
        };
        let is_wanted = |c: &&RelationColumn| match source {
            Some(source) => c.source.as_deref() == Some(source),
            None => !c.is_merged,
        };
        let columns: Vec<&RelationColumn> = rows.columns.iter().filter(is_wanted).collect();
        if *options != plain || columns.is_empty() {
            return Err(refused(format!(
                "`{}*{options}` is not supported",
                source.map_or(String::new(), |s| s.to_string() + ".")
            )));
        }
        Ok(columns.into_iter().cloned().collect::<Vec<_>>())
    };
    for item in &of.projection {
        match item {
            SelectItem::UnnamedExpr(part) => {
                items.push(SelectedItem {
                    name: unnamed(part),
                    value: ItemValue::Expression(Box::new(part.clone())),
                });
            }
            SelectItem::ExprWithAlias { expr, alias } => {
                items.push(SelectedItem {
                    name: alias.value.clone(),
                    value: ItemValue::Expression(Box::new(expr.clone())),
                });
            }
            SelectItem::Wildcard(options) => {
                let found = all(None, options)?;
                items.extend(
                    found
                        .into_iter()
                        .map(|c| SelectedItem { name: c.name.clone(), value: ItemValue::Column(c) }),
                );
            }
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(source), options) => {
                let found = all(Some(&plain_name(source)?), options)?;
                items.extend(
                    found
                        .into_iter()
                        .map(|c| SelectedItem { name: c.name.clone(), value: ItemValue::Column(c) }),
                );
            }
            other => return Err(refused(format!("`{other}` is not supported"))),
        }
    }
    Ok(items)
}

/// The name of a column without AS: that of the column, or the expression as it is written.
fn unnamed(of: &SqlExpr) -> String {
    match of {
        SqlExpr::Identifier(name) => name.value.clone(),
        SqlExpr::CompoundIdentifier(parts) => parts.last().map_or(String::new(), |p| p.value.clone()),
        SqlExpr::Nested(inner) => unnamed(inner),
        other => other.to_string(),
    }
}

/// What the names that a SELECT gives stand for.
pub(crate) fn given(of: &Select) -> BTreeMap<String, SqlExpr> {
    let named = of.projection.iter().filter_map(|item| match item {
        SelectItem::ExprWithAlias { expr, alias } => Some((alias.value.clone(), expr.clone())),
        _ => None,
    });
    named.collect()
}

/// The expression of a column that is none of a table.
pub(crate) fn expression(item: &SelectedItem) -> Option<&SqlExpr> {
    match &item.value {
        ItemValue::Expression(of) => Some(of),
        ItemValue::Column(_) => None,
    }
}

/// The number of a column that stands for it.
pub(crate) fn ordinal(of: &SqlExpr) -> Option<usize> {
    match of {
        SqlExpr::Nested(inner) => ordinal(inner),
        SqlExpr::Value(value) => value.value.to_string().parse().ok(),
        _ => None,
    }
}

//! What a part of a statement can name: columns of its tables, and names that its SELECT gives.

use crate::sql::planner::kinds::{TypedExpr, ValueKind, refused};
use polars::prelude::{DataFrame, LazyFrame, PlSmallStr, PolarsError, PolarsResult, col};
use sqlparser::ast::{Expr as SqlExpr, Ident, Query};
use std::collections::BTreeMap;

/// Rows of a part of a statement, with what its columns are called.
#[derive(Clone)]
pub(crate) struct Relation {
    pub(crate) frame: LazyFrame,
    pub(crate) columns: Vec<RelationColumn>,
    /// Whether its rows have no order of their own, because it groups or joins.
    pub(crate) is_made: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct RelationColumn {
    /// The table, or the name that the statement gives it.
    pub(crate) source: Option<String>,
    pub(crate) name: String,
    /// Its name in the frame, which no other column of the statement has.
    pub(crate) place: PlSmallStr,
    pub(crate) kind: ValueKind,
    /// Whether USING made it part of another column: only its qualified name stands for it.
    pub(crate) is_merged: bool,
}

/// What expressions need of the statement around them.
pub(crate) trait StatementQueries {
    /// The rows of a table or of a part after WITH.
    fn table(&mut self, name: &str) -> PolarsResult<Relation>;
    /// The rows of a query in parentheses.
    fn rows(&mut self, query: &Query) -> PolarsResult<Relation>;
    /// The one value of a query that stands for a value.
    fn value(&mut self, query: &Query) -> PolarsResult<TypedExpr>;
    /// Whether a value is among those of a query.
    fn membership(&mut self, value: TypedExpr, query: &Query) -> PolarsResult<TypedExpr>;
    /// Whether a query has rows, which may depend on the row around it.
    fn existence(&mut self, query: &Query, around: &Names<'_>) -> PolarsResult<TypedExpr>;
    /// The rows of a plan.
    fn collect(&mut self, frame: LazyFrame) -> PolarsResult<DataFrame>;
    /// A name for a column that no other has.
    fn fresh(&mut self, name: &str) -> PlSmallStr;
    /// Whether the plan puts tables below each other. Polars cannot count the rows of those without a column.
    fn has_union(&self) -> bool;
    /// Says that rows of the plan would be lost if Polars left out columns that nothing uses.
    fn keep_columns(&mut self);
}

/// The names that an expression can use.
#[derive(Clone, Copy)]
pub(crate) struct Names<'a> {
    pub(crate) columns: &'a [RelationColumn],
    /// Expressions that are columns already, by their text: keys of groups, aggregates and windows.
    pub(crate) computed: &'a BTreeMap<String, TypedExpr>,
    /// Whether rows are groups: a column is known by [`Self::computed`] only.
    pub(crate) is_grouped: bool,
    /// Names that the SELECT gives, for what is no column.
    pub(crate) given: &'a BTreeMap<String, SqlExpr>,
}

/// The key of a column in [`Names::computed`], whichever of its names an expression uses.
pub(crate) fn key_of(column: &RelationColumn) -> String {
    format!("\0{}", column.place)
}

impl RelationColumn {
    pub(crate) fn value(&self) -> TypedExpr {
        TypedExpr::new(col(self.place.clone()), self.kind)
    }
}

impl Relation {
    /// The same rows under the name that a FROM gives them.
    ///
    /// # Errors
    /// When it names more columns than there are.
    pub(crate) fn named(mut self, source: &str, columns: &[&Ident]) -> PolarsResult<Self> {
        if columns.len() > self.columns.len() {
            return Err(refused(format!(
                "`{source}` has {} columns, not {}",
                self.columns.len(),
                columns.len()
            )));
        }
        for (at, column) in self.columns.iter_mut().enumerate() {
            column.source = Some(source.to_string());
            if let Some(name) = columns.get(at) {
                column.name.clone_from(&name.value);
            }
        }
        Ok(self)
    }

    pub(crate) fn has_source(&self, name: &str) -> bool {
        self.columns.iter().any(|c| c.source.as_deref() == Some(name))
    }
}

/// The column of this name.
///
/// # Errors
/// When there is none, or more than one.
pub(crate) fn find<'a>(columns: &'a [RelationColumn], parts: &[Ident]) -> PolarsResult<&'a RelationColumn> {
    let found: Vec<&RelationColumn> = match parts {
        [name] => columns.iter().filter(|c| !c.is_merged && c.name == name.value).collect(),
        [source, name] => {
            let of = |c: &&RelationColumn| c.source.as_deref() == Some(source.value.as_str());
            if !columns.iter().any(|c| of(&c)) {
                return Err(refused(format!("`{}` is no table of this SELECT", source.value)));
            }
            columns.iter().filter(|c| of(c) && c.name == name.value).collect()
        }
        _ => return Err(refused("names of more than two parts are not supported")),
    };
    let name = parts.last().map_or("", |p| p.value.as_str());
    match found.as_slice() {
        [one] => Ok(one),
        [] => Err(PolarsError::ColumnNotFound(name.to_string().into())),
        [first, second, ..] => {
            let of = |c: &RelationColumn| format!("`{}.{name}`", c.source.as_deref().unwrap_or("?"));
            Err(refused(format!("`{name}` can be {} or {}: say which", of(first), of(second))))
        }
    }
}

//! Queries: SELECTs with the parts after WITH, combined by UNION, EXCEPT and INTERSECT, and limited.

use crate::sql::equal_texts::by_code;
use crate::sql::plan;
use crate::sql::planner::casts::common;
use crate::sql::planner::kinds::{TypedExpr, ValueKind, brief, refused};
use crate::sql::planner::names::{Names, Relation, RelationColumn, StatementQueries};
use crate::sql::planner::numbers::as_float;
use crate::sql::planner::order::{in_order, ordered};
use crate::sql::planner::select::select;
use crate::sql::planner::subqueries;
use polars::prelude::{
    DataFrame, Expr, IdxSize, JoinType, LazyFrame, PlSmallStr, PolarsError, PolarsResult, UnionArgs,
    UniqueKeepStrategy, col, concat,
};
use sqlparser::ast::{
    Expr as SqlExpr, LimitClause, OrderBy, Query, SetExpr, SetOperator, SetQuantifier, Value,
};
use std::collections::{BTreeMap, BTreeSet};

/// Makes the plan of a statement.
pub(crate) struct Planner {
    tables: BTreeMap<String, LazyFrame>,
    /// The parts after WITH that the query can use.
    parts: BTreeMap<String, Relation>,
    /// Number of names given to columns.
    named: usize,
    /// How many queries the current one is in.
    depth: usize,
    /// Whether all columns are kept through the plan. Polars loses rows where it leaves out all columns of a
    /// side of a join, or of the one row of an aggregate.
    keeps_columns: bool,
    has_union: bool,
}

impl Planner {
    pub(crate) fn new(tables: Vec<(String, LazyFrame)>) -> Self {
        let tables = tables.into_iter().collect();
        Self { tables, parts: BTreeMap::new(), named: 0, depth: 0, keeps_columns: false, has_union: false }
    }

    /// The rows of a statement, with the names that it gives.
    ///
    /// # Errors
    /// When it uses a name that is not there, or something that statements cannot use, or a table cannot be
    /// read.
    pub(crate) fn answer(&mut self, query: &Query) -> PolarsResult<DataFrame> {
        let rows = in_order(self.query(query)?);
        let shown = |column: &RelationColumn| {
            let value = column.value();
            let value = if let ValueKind::Decimal(_) = value.kind { as_float(value) } else { value };
            value.expr.alias(column.place.clone())
        };
        let mut frame =
            self.collect(rows.frame.select(rows.columns.iter().map(shown).collect::<Vec<_>>()))?;
        frame.set_column_names(&names(&rows.columns))?;
        Ok(frame)
    }

    fn query(&mut self, query: &Query) -> PolarsResult<Relation> {
        if query.fetch.is_some()
            || !query.locks.is_empty()
            || query.for_clause.is_some()
            || !query.pipe_operators.is_empty()
            || query.settings.is_some()
            || query.format_clause.is_some()
        {
            return Err(refused("only WITH, ORDER BY, LIMIT and OFFSET can stand around a SELECT"));
        }
        let outer = self.parts.clone();
        self.depth += 1;
        let rows = self.with_parts(query);
        self.depth -= 1;
        self.parts = outer;
        limited(rows?, query.limit_clause.as_ref())
    }

    fn with_parts(&mut self, query: &Query) -> PolarsResult<Relation> {
        if let Some(with) = &query.with {
            if with.recursive {
                return Err(refused("WITH RECURSIVE is not supported"));
            }
            for part in &with.cte_tables {
                let columns: Vec<_> = part.alias.columns.iter().map(|c| &c.name).collect();
                let rows = self.query(&part.query)?.named(&part.alias.name.value, &columns)?;
                self.parts.insert(part.alias.name.value.clone(), rows);
            }
        }
        self.body(&query.body, query.order_by.as_ref())
    }

    fn body(&mut self, body: &SetExpr, order: Option<&OrderBy>) -> PolarsResult<Relation> {
        match body {
            SetExpr::Select(of) => {
                let is_inner = self.depth > 1;
                select(of, order, is_inner, self)
            }
            SetExpr::Query(inner) => {
                let rows = self.query(inner)?;
                ordered(rows, order, self)
            }
            SetExpr::SetOperation { op, set_quantifier, left, right } => {
                self.depth += 1;
                let sides = self.body(left, None).and_then(|left| Ok((left, self.body(right, None)?)));
                self.depth -= 1;
                let (left, right) = sides?;
                let rows = self.combined(*op, *set_quantifier, left, right)?;
                ordered(rows, order, self)
            }
            other => Err(refused(format!("{} is not supported", brief(other)))),
        }
    }

    fn combined(
        &mut self,
        op: SetOperator,
        quantifier: SetQuantifier,
        left: Relation,
        right: Relation,
    ) -> PolarsResult<Relation> {
        if left.columns.len() != right.columns.len() {
            return Err(refused(format!("{op} needs the same number of columns on both sides")));
        }
        let kinds = left.columns.iter().zip(&right.columns).map(|(a, b)| common(a.kind, b.kind));
        let kinds = kinds.collect::<PolarsResult<Vec<ValueKind>>>()?;
        let columns: Vec<RelationColumn> = left
            .columns
            .iter()
            .zip(&kinds)
            .map(|(c, kind)| RelationColumn {
                source: None,
                name: c.name.clone(),
                place: self.fresh(&c.name),
                kind: *kind,
                is_merged: false,
            })
            .collect();
        let side = |rows: Relation| -> PolarsResult<LazyFrame> {
            let values = rows
                .columns
                .iter()
                .zip(&columns)
                .map(|(from, to)| Ok(from.value().becomes(to.kind)?.expr.alias(to.place.clone())));
            Ok(rows.frame.select(values.collect::<PolarsResult<Vec<_>>>()?))
        };
        let (left, right) = (side(left)?, side(right)?);
        let all: Vec<Expr> = columns.iter().map(|c| col(c.place.clone())).collect();
        let among = |how: JoinType| {
            let join = left.clone().join_builder().with(right.clone()).how(how).join_nulls(true);
            join.on(&all).finish()
        };
        let unique = |frame: LazyFrame| frame.unique_generic(Some(all.clone()), UniqueKeepStrategy::Any);
        let is_all = match quantifier {
            SetQuantifier::All => true,
            SetQuantifier::Distinct | SetQuantifier::None => false,
            other => return Err(refused(format!("{op} {other} is not supported"))),
        };
        self.has_union |= op == SetOperator::Union;
        let frame = match (op, is_all) {
            (SetOperator::Union, true) => concat([left, right], UnionArgs::default())?,
            (SetOperator::Union, false) => unique(concat([left, right], UnionArgs::default())?),
            (SetOperator::Except, false) => unique(among(JoinType::Anti)),
            (SetOperator::Intersect, false) => unique(among(JoinType::Semi)),
            (op, _) => return Err(refused(format!("{op} {quantifier} is not supported"))),
        };
        Ok(Relation { frame, columns, is_made: true })
    }
}

/// The names of the columns of an answer. Of two with one name, the second gets a number behind it.
fn names(columns: &[RelationColumn]) -> Vec<String> {
    let mut taken = BTreeSet::new();
    let mut free = |c: &RelationColumn| {
        let mut name = c.name.clone();
        let mut number = 1;
        while !taken.insert(name.clone()) {
            name = format!("{}_{number}", c.name);
            number += 1;
        }
        name
    };
    columns.iter().map(&mut free).collect()
}

fn limited(rows: Relation, clause: Option<&LimitClause>) -> PolarsResult<Relation> {
    let (limit, offset) = match clause {
        None => return Ok(rows),
        Some(LimitClause::LimitOffset { limit, offset, limit_by }) if limit_by.is_empty() => {
            (limit.as_ref(), offset.as_ref().map(|o| &o.value))
        }
        Some(_) => return Err(refused("only LIMIT n OFFSET m is supported")),
    };
    let number = |of: &SqlExpr| match of {
        SqlExpr::Value(value) => match &value.value {
            Value::Number(text, _) => text.parse::<u32>().ok(),
            _ => None,
        },
        _ => None,
    };
    let number = |of: &SqlExpr| number(of).ok_or_else(|| refused("LIMIT and OFFSET take a number"));
    let limit = limit.map(number).transpose()?.map_or(IdxSize::MAX, |n| n as IdxSize);
    let offset = offset.map(number).transpose()?.unwrap_or(0);
    let rows = in_order(rows);
    Ok(Relation { frame: rows.frame.slice(i64::from(offset), limit), ..rows })
}

impl StatementQueries for Planner {
    fn table(&mut self, name: &str) -> PolarsResult<Relation> {
        let (frame, columns, is_made) = match (self.parts.get(name), self.tables.get(name)) {
            (Some(part), _) => (part.frame.clone(), part.columns.clone(), part.is_made),
            (None, Some(table)) => {
                let mut frame = table.clone();
                let schema = frame.collect_schema()?;
                let column = |(name, kind): (&PlSmallStr, &polars::prelude::DataType)| {
                    let kind = ValueKind::of(kind)?;
                    Ok(RelationColumn {
                        source: None,
                        name: name.to_string(),
                        place: name.clone(),
                        kind,
                        is_merged: false,
                    })
                };
                (frame, schema.iter().map(column).collect::<PolarsResult<_>>()?, false)
            }
            (None, None) => {
                return Err(PolarsError::SQLInterface(format!("relation '{name}' was not found").into()));
            }
        };
        let renamed: Vec<RelationColumn> = columns
            .iter()
            .map(|c| RelationColumn { source: None, place: self.fresh(&c.name), ..c.clone() })
            .collect();
        let places =
            columns.iter().zip(&renamed).map(|(from, to)| col(from.place.clone()).alias(to.place.clone()));
        let frame = frame.select(places.collect::<Vec<_>>());
        Ok(Relation { frame, columns: renamed, is_made })
    }

    fn rows(&mut self, query: &Query) -> PolarsResult<Relation> {
        self.query(query)
    }

    fn value(&mut self, query: &Query) -> PolarsResult<TypedExpr> {
        subqueries::value(query, self)
    }

    fn membership(&mut self, value: TypedExpr, query: &Query) -> PolarsResult<TypedExpr> {
        subqueries::membership(value, query, self)
    }

    fn existence(&mut self, query: &Query, around: &Names<'_>) -> PolarsResult<TypedExpr> {
        subqueries::existence(query, around, self)
    }

    fn collect(&mut self, frame: LazyFrame) -> PolarsResult<DataFrame> {
        let plan = by_code(plan::narrowed(frame)?);
        plan.with_projection_pushdown(!self.keeps_columns).collect()
    }

    fn fresh(&mut self, name: &str) -> PlSmallStr {
        self.named += 1;
        PlSmallStr::from(format!("{name}\0{}", self.named))
    }

    fn has_union(&self) -> bool {
        self.has_union
    }

    fn keep_columns(&mut self) {
        self.keeps_columns = true;
    }
}

//! Conditions that follow from a statement without being written in it. They are added to its plan, so that
//! the rows that they exclude are not read.
//!
//! - Rows whose key is NULL have no partner in a join. Most events have no launch, for example.
//! - Of `ORDER BY dur_ns DESC, name LIMIT 20` only rows can be in the answer whose duration is at least the
//!   20th longest, which follows from that column alone.

use polars::lazy::dsl::DslPlan;
use polars::prelude::{DataType, Expr, JoinType, LazyFrame, PolarsResult, SortMultipleOptions, lit};
use std::sync::Arc;

/// Largest LIMIT for which the rows of a table are first compared by one column.
const FEW: usize = 10_000;

/// The plan of a statement with these conditions.
///
/// # Errors
/// When a column cannot be read.
pub(crate) fn narrowed(frame: LazyFrame) -> PolarsResult<LazyFrame> {
    let mut plan = frame.logical_plan;
    narrow(&mut plan, None)?;
    Ok(LazyFrame::from(plan))
}

/// `limit` is the number of rows that suffice, if the plan's rows are in the answer as they are.
fn narrow(plan: &mut DslPlan, limit: Option<usize>) -> PolarsResult<()> {
    match plan {
        DslPlan::IR { dsl, .. } => {
            *plan = DslPlan::clone(dsl);
            narrow(plan, limit)
        }
        DslPlan::Slice { input, offset: 0, len } => narrow(Arc::make_mut(input), Some(*len as usize)),
        DslPlan::Select { input, expr, .. } => {
            let is_of_rows = expr.iter().all(|e| matches!(e, Expr::Column(_) | Expr::Selector(_)));
            narrow(Arc::make_mut(input), limit.filter(|_| is_of_rows))
        }
        DslPlan::Sort { input, by_column, sort_options, .. } => {
            narrow(Arc::make_mut(input), None)?;
            match (limit, by_column.as_slice()) {
                (Some(rows), [key, _, ..]) if rows <= FEW => longest(input, key, sort_options, rows),
                _ => Ok(()),
            }
        }
        DslPlan::Join { input_left, input_right, left_on, right_on, options, .. } => {
            let (left, right) = match options.args.how {
                JoinType::Inner | JoinType::Semi => (true, true),
                JoinType::Left | JoinType::Anti => (false, true),
                _ => (false, false),
            };
            narrow(Arc::make_mut(input_left), None)?;
            narrow(Arc::make_mut(input_right), None)?;
            if !options.args.nulls_equal {
                with_keys(input_left, left_on.iter().filter(|_| left));
                with_keys(input_right, right_on.iter().filter(|_| right));
            }
            Ok(())
        }
        other => inputs(other).into_iter().try_for_each(|input| narrow(Arc::make_mut(input), None)),
    }
}

/// The plans that a plan reads, of those that statements have.
pub(crate) fn inputs(plan: &mut DslPlan) -> Vec<&mut Arc<DslPlan>> {
    match plan {
        DslPlan::Filter { input, .. }
        | DslPlan::GroupBy { input, .. }
        | DslPlan::HStack { input, .. }
        | DslPlan::Distinct { input, .. }
        | DslPlan::Select { input, .. }
        | DslPlan::Sort { input, .. }
        | DslPlan::Slice { input, .. } => vec![input],
        DslPlan::Join { input_left, input_right, .. } => vec![input_left, input_right],
        _ => Vec::new(),
    }
}

/// Excludes rows in which a key is NULL.
fn with_keys<'a>(input: &mut Arc<DslPlan>, keys: impl Iterator<Item = &'a Expr>) {
    for key in keys.filter(|key| matches!(key, Expr::Column(_))) {
        filter(input, key.clone().is_not_null());
    }
}

fn filter(input: &mut Arc<DslPlan>, predicate: Expr) {
    let rows = Arc::clone(input);
    *input = Arc::new(DslPlan::Filter { input: rows, predicate });
}

/// Excludes rows that cannot be among the first `rows`, if the plan reads one table and the key is an
/// integer.
fn longest(
    input: &mut Arc<DslPlan>,
    key: &Expr,
    order: &SortMultipleOptions,
    rows: usize,
) -> PolarsResult<()> {
    if !is_of_one_table(input) || !matches!(key, Expr::Column(_)) {
        return Ok(());
    }
    let is_descending = order.descending.first().copied().unwrap_or(false);
    let is_null_last = order.nulls_last.first().copied().unwrap_or(false);
    let keys = LazyFrame::from(DslPlan::clone(input)).select([key.clone().alias("key")]).collect()?;
    let column = keys.column("key")?.clone();
    let present = column.len() - column.null_count();
    let is_unclear = present < rows || (present < column.len() && !is_null_last);
    if rows == 0 || is_unclear || *column.dtype() != DataType::Int64 {
        return Ok(());
    }
    let mut values: Vec<i64> = column.i64()?.iter().flatten().collect();
    let bound = match is_descending {
        true => *values.select_nth_unstable_by(rows - 1, |a, b| b.cmp(a)).1,
        false => *values.select_nth_unstable(rows - 1).1,
    };
    filter(input, if is_descending { key.clone().gt_eq(lit(bound)) } else { key.clone().lt_eq(lit(bound)) });
    Ok(())
}

/// Whether a plan only chooses columns and rows of one table, so that reading a column of it twice is cheap.
fn is_of_one_table(plan: &DslPlan) -> bool {
    match plan {
        DslPlan::IR { dsl, .. } => is_of_one_table(dsl),
        DslPlan::Scan { .. } | DslPlan::DataFrameScan { .. } => true,
        DslPlan::Filter { input, .. } => is_of_one_table(input),
        DslPlan::Select { input, expr, .. } | DslPlan::HStack { input, exprs: expr, .. } => {
            let is_cheap = |e: &Expr| {
                let part = |p: &Expr| matches!(p, Expr::Column(_) | Expr::Alias(..) | Expr::Selector(_));
                e.into_iter().all(part)
            };
            expr.iter().all(is_cheap) && is_of_one_table(input)
        }
        _ => false,
    }
}

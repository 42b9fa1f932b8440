//! Groups and distinct values of texts, by the codes of their dictionary instead of the texts.
//!
//! ```text
//! GroupBy(category)                 HStack(category: the text of each code)
//!   Filter(dur_ns > 0)       ->       GroupBy(code of category AS category)
//!     Scan(category, dur_ns)            Filter(dur_ns > 0)
//!                                         Scan(code of category, dur_ns)
//! ```
//!
//! Equal texts of a table have equal codes and NULL has none, so groups and counts are the same. Only a key
//! or an argument that is a column of a table as it is has codes; others stay as they are.

use crate::sql::codes::{TextCodes, code_name};
use crate::sql::plan::inputs;
use crate::sql::scan::TableScan;
use polars::lazy::dsl::{DslPlan, FileScanDsl};
use polars::prelude::{AggExpr, Column, DataType, Expr, Field, FunctionExpr, LazyFrame, PlSmallStr, col};
use std::sync::Arc;

/// The plan with codes where only the equality of texts matters.
pub(crate) fn by_code(frame: LazyFrame) -> LazyFrame {
    let mut plan = frame.logical_plan;
    rewrite(&mut plan);
    LazyFrame::from(plan)
}

fn rewrite(plan: &mut DslPlan) {
    if let DslPlan::IR { dsl, .. } = plan {
        *plan = DslPlan::clone(dsl);
    }
    inputs(plan).into_iter().for_each(|input| rewrite(Arc::make_mut(input)));
    match plan {
        DslPlan::Select { input, expr, .. } => {
            expr.iter_mut().for_each(|e| *e = counted(e, Arc::make_mut(input)));
        }
        DslPlan::GroupBy { input, keys, predicates, aggs, apply: None, .. } => {
            let input = Arc::make_mut(input);
            predicates.iter_mut().chain(aggs).for_each(|e| *e = counted(e, input));
            let mut decoded = Vec::new();
            for key in keys {
                let Some((column, name)) = plain(key) else { continue };
                // HAVING sees the key as a text.
                if predicates.iter().any(|p| names(p, &column) || names(p, &name)) {
                    continue;
                }
                if let Some(codes) = add_codes(input, &column) {
                    *key = col(code_name(&column)).alias(name.clone());
                    decoded.push(texts(name, codes));
                }
            }
            if !decoded.is_empty() {
                let grouped = LazyFrame::from(plan.clone());
                *plan = grouped.with_columns(decoded).logical_plan;
            }
        }
        _ => {}
    }
}

/// An expression that counts codes where it counts the texts of a column, distinct or not.
fn counted(expression: &Expr, input: &mut DslPlan) -> Expr {
    let mut of_codes = |argument: &Expr| {
        let Expr::Column(name) = argument else { return None };
        add_codes(input, name).map(|_| col(code_name(name)).alias(name.clone()))
    };
    expression.clone().map_expr(|part| {
        let codes = match &part {
            Expr::Agg(AggExpr::NUnique(argument)) => of_codes(argument).map(Expr::n_unique),
            Expr::Agg(AggExpr::Count { input, include_nulls: false }) => of_codes(input).map(Expr::count),
            Expr::Function { input, function: FunctionExpr::NullCount } => {
                input.first().and_then(&mut of_codes).map(Expr::null_count)
            }
            _ => None,
        };
        codes.unwrap_or(part)
    })
}

/// The column that an expression stands for, and the name that it gives it.
fn plain(expression: &Expr) -> Option<(PlSmallStr, PlSmallStr)> {
    match expression {
        Expr::Column(name) => Some((name.clone(), name.clone())),
        Expr::Alias(inner, alias) => Some((plain(inner)?.0, alias.clone())),
        _ => None,
    }
}

fn names(expression: &Expr, column: &str) -> bool {
    expression.into_iter().any(|part| matches!(part, Expr::Column(name) if name == column))
}

/// Adds the codes of a column to the rows of a plan, if these are rows of one table.
fn add_codes(plan: &mut DslPlan, column: &str) -> Option<Arc<TextCodes>> {
    match plan {
        DslPlan::Filter { input, .. } => add_codes(Arc::make_mut(input), column),
        DslPlan::Select { input, expr, .. } => {
            let source = expr.iter().filter_map(plain).find(|(_, name)| name == column)?.0;
            let codes = add_codes(Arc::make_mut(input), &source)?;
            let added = col(code_name(&source)).alias(code_name(column));
            if !expr.contains(&added) {
                expr.push(added);
            }
            Some(codes)
        }
        DslPlan::Scan { scan_type, .. } => {
            let FileScanDsl::Anonymous { function, .. } = scan_type.as_ref() else { return None };
            let table = function.as_any().downcast_ref::<TableScan>()?;
            let codes = Arc::clone(&table.codes);
            if !table.columns.iter().any(|(name, _)| *name == code_name(column)) {
                *plan = table.with_codes(column)?.logical_plan;
            }
            Some(codes)
        }
        _ => None,
    }
}

/// The texts of a column of codes.
fn texts(name: PlSmallStr, codes: Arc<TextCodes>) -> Expr {
    let text = move |column: Column| codes.texts(&column);
    col(name).map(text, |_, field| Ok(Field::new(field.name().clone(), DataType::String)))
}

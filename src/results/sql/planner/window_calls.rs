//! OVER: what a window function of a SELECT is computed of.

use crate::sql::planner::expressions::{arguments, name_of, value};
use crate::sql::planner::items::ordinal;
use crate::sql::planner::kinds::{brief, refused};
use crate::sql::planner::names::{Names, StatementQueries};
use crate::sql::planner::windows::{OrderKey, WindowCall, WindowFrame};
use polars::prelude::PolarsResult;
use sqlparser::ast::{
    Function, Ident, NamedWindowExpr, Select, WindowFrameBound, WindowFrameUnits, WindowSpec, WindowType,
};

pub(crate) fn window(
    function: &Function,
    of: &Select,
    names: &Names<'_>,
    queries: &mut dyn StatementQueries,
) -> PolarsResult<WindowCall> {
    let unclear = |what: &str| refused(format!("{what} is not supported in a window: {}", brief(function)));
    if function.filter.is_some() || function.null_treatment.is_some() || !function.within_group.is_empty() {
        return Err(unclear("FILTER, IGNORE NULLS or WITHIN GROUP"));
    }
    let spec = match &function.over {
        Some(WindowType::WindowSpec(spec)) if spec.window_name.is_none() => spec,
        Some(WindowType::NamedWindow(name)) => named_window(of, name)?,
        _ => return Err(unclear("a window that extends another")),
    };
    let (found, is_distinct) = arguments(function)?;
    if is_distinct {
        return Err(unclear("DISTINCT"));
    }
    let inputs = found.into_iter().map(|of| value(of, names, queries)).collect::<PolarsResult<_>>()?;
    let partition = spec
        .partition_by
        .iter()
        .map(|of| Ok(value(of, names, queries)?.expr))
        .collect::<PolarsResult<_>>()?;
    let order = spec.order_by.iter();
    let order = order.map(|key| Ok(OrderKey::new(value(&key.expr, names, queries)?.expr, &key.options)));
    let order: Vec<OrderKey> = order.collect::<PolarsResult<_>>()?;
    let frame = frame_of(spec, !order.is_empty()).ok_or_else(|| unclear("this frame"))?;
    Ok(WindowCall {
        function: name_of(function),
        inputs,
        partition,
        order,
        frame,
        place: queries.fresh("window"),
    })
}

fn named_window<'a>(of: &'a Select, name: &Ident) -> PolarsResult<&'a WindowSpec> {
    let found = of.named_window.iter().find(|w| w.0.value == name.value).map(|w| &w.1);
    match found {
        Some(NamedWindowExpr::WindowSpec(spec)) if spec.window_name.is_none() => Ok(spec),
        _ => Err(refused(format!("the window `{name}` is not defined by WINDOW"))),
    }
}

/// Which rows a window takes; `None` for a frame that is not supported.
fn frame_of(spec: &WindowSpec, is_ordered: bool) -> Option<WindowFrame> {
    use WindowFrameBound as Bound;
    let Some(frame) = &spec.window_frame else {
        return Some(if is_ordered { WindowFrame::UpToEqual } else { WindowFrame::Whole });
    };
    match (frame.units, &frame.start_bound, &frame.end_bound) {
        (_, Bound::Preceding(None), Some(Bound::Following(None))) => Some(WindowFrame::Whole),
        (WindowFrameUnits::Rows, Bound::Preceding(None), None | Some(Bound::CurrentRow)) if is_ordered => {
            Some(WindowFrame::UpToRow)
        }
        (WindowFrameUnits::Rows, Bound::Preceding(Some(rows)), None | Some(Bound::CurrentRow))
            if is_ordered =>
        {
            ordinal(rows).and_then(|rows| i64::try_from(rows).ok()).map(WindowFrame::Last)
        }
        (WindowFrameUnits::Range, Bound::Preceding(None), None | Some(Bound::CurrentRow)) if is_ordered => {
            Some(WindowFrame::UpToEqual)
        }
        _ => None,
    }
}

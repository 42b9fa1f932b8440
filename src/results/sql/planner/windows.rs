//! Windows: values of the rows around a row. Rows are sorted by the keys of a window, and its values are
//! computed over them.
//!
//! ```text
//! partition  order  value   row  SUM, rows before   SUM, with equal rows
//!     a        1      10      1          10                  10
//!     a        2       5      2          15                  22
//!     a        2       7      3          22                  22
//!     b        1       3      1           3                   3
//! ```
//!
//! Without a frame, rows that are equal in the order count as one; with ROWS each is of its own.

use crate::sql::planner::aggregates::{aggregate, exact};
use crate::sql::planner::kinds::{TypedExpr, ValueKind, float, int, refused};
use crate::sql::planner::numbers::units_of_one;
use polars::prelude::{
    DataType, Expr, FillNullStrategy, LazyFrame, PlSmallStr, PolarsResult, SortMultipleOptions, col, lit,
    when,
};
use sqlparser::ast::OrderByOptions;

/// Which rows of the partition a window takes, up to the row itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WindowFrame {
    /// All.
    Whole,
    /// The rows before it, itself, and those that are equal in the order.
    UpToEqual,
    /// The rows before it, and itself.
    UpToRow,
    /// So many rows before it, and itself.
    Last(i64),
}

/// A key of an order.
#[derive(Debug, Clone)]
pub(crate) struct OrderKey {
    pub(crate) value: Expr,
    is_descending: bool,
    is_null_last: bool,
}

/// A function over a window.
pub(crate) struct WindowCall {
    pub(crate) function: String,
    pub(crate) inputs: Vec<TypedExpr>,
    pub(crate) partition: Vec<Expr>,
    pub(crate) order: Vec<OrderKey>,
    pub(crate) frame: WindowFrame,
    /// Begins the names of the columns that are computed.
    pub(crate) place: PlSmallStr,
}

impl OrderKey {
    /// Missing values are last unless the statement says that they are first.
    pub(crate) fn new(value: Expr, options: &OrderByOptions) -> Self {
        let is_null_last = !options.nulls_first.unwrap_or(false);
        Self { value, is_descending: options.asc == Some(false), is_null_last }
    }

    pub(crate) fn ascending(value: Expr) -> Self {
        Self::new(value, &OrderByOptions::default())
    }
}

/// Sorts rows.
pub(crate) fn sorted(frame: LazyFrame, keys: &[OrderKey]) -> LazyFrame {
    let by: Vec<Expr> = keys.iter().map(|k| k.value.clone()).collect();
    let order = SortMultipleOptions::default()
        .with_order_descending_multi(keys.iter().map(|k| k.is_descending))
        .with_nulls_last_multi(keys.iter().map(|k| k.is_null_last))
        .with_maintain_order(true);
    frame.sort_by_exprs(by, order)
}

/// Adds the values of a window to rows, which are in the order of the window then.
///
/// # Errors
/// A function that windows do not have, or not with this frame.
pub(crate) fn computed(frame: LazyFrame, call: WindowCall) -> PolarsResult<(LazyFrame, TypedExpr)> {
    let mut window = WindowColumns {
        frame,
        place: call.place.clone(),
        added: 0,
        partition: Vec::new(),
        equal: Vec::new(),
    };
    window.partition = call.partition.iter().map(|key| window.add(key.clone())).collect();
    let order: Vec<OrderKey> = call
        .order
        .iter()
        .map(|key| OrderKey { value: window.add(key.value.clone()), ..key.clone() })
        .collect();
    window.equal = window.partition.iter().cloned().chain(order.iter().map(|k| k.value.clone())).collect();
    let inputs: Vec<TypedExpr> =
        call.inputs.iter().map(|i| TypedExpr::new(window.add(i.expr.clone()), i.kind)).collect();
    let of_partition = window.partition.iter().cloned().map(OrderKey::ascending);
    let keys: Vec<OrderKey> = of_partition.chain(order.iter().cloned()).collect();
    if !order.is_empty() {
        window.frame = sorted(window.frame, &keys);
    }
    let is_ordered = !order.is_empty();
    let made = match (call.function.as_str(), inputs.as_slice()) {
        ("row_number" | "rank" | "dense_rank" | "percent_rank" | "cume_dist", []) => {
            window.place_of_row(&call.function)?
        }
        ("lag" | "lead", [value, rest @ ..]) if is_ordered && rest.len() < 2 => {
            let by = call.inputs.get(1).map_or(Some(1), TypedExpr::whole_number);
            let by = by.ok_or_else(|| refused("LAG and LEAD take a literal number of rows"))?;
            let by = if call.function == "lag" { by } else { -by };
            let moved = window.over(value.expr.clone().shift(int(by)))?;
            TypedExpr::new(window.add(moved), value.kind)
        }
        ("first_value", [value]) if is_ordered && !matches!(call.frame, WindowFrame::Last(_)) => {
            let first = window.over(value.expr.clone().first())?;
            TypedExpr::new(window.add(first), value.kind)
        }
        ("last_value", [value]) if is_ordered => {
            let last = match call.frame {
                WindowFrame::Whole => window.over(value.expr.clone().last())?,
                WindowFrame::UpToEqual => window.over_equal(value.expr.clone().last())?,
                WindowFrame::UpToRow | WindowFrame::Last(_) => value.expr.clone(),
            };
            TypedExpr::new(window.add(last), value.kind)
        }
        (name @ ("sum" | "count" | "avg" | "min" | "max"), values)
            if is_ordered && call.frame != WindowFrame::Whole =>
        {
            window.running(name, values.first(), call.frame)?
        }
        (name, values) if call.frame == WindowFrame::Whole || !is_ordered => {
            let all = aggregate(
                name,
                values.first().cloned(),
                call.inputs.get(1),
                false,
                &format!("{}.all", call.place),
            )?;
            let parts = all.parts.into_iter().map(|(place, part)| Ok(window.over(part)?.alias(place)));
            let parts = parts.collect::<PolarsResult<Vec<_>>>()?;
            window.frame = window.frame.with_columns(parts);
            TypedExpr::new(window.add(all.made.expr), all.made.kind)
        }
        (name, _) => return Err(refused(format!("{name} is not supported over this window"))),
    };
    Ok((window.frame, made))
}

/// Rows to which columns are added.
struct WindowColumns {
    frame: LazyFrame,
    place: PlSmallStr,
    added: usize,
    partition: Vec<Expr>,
    /// The keys of the partition and of the order.
    equal: Vec<Expr>,
}

impl WindowColumns {
    /// A new column with these values.
    fn add(&mut self, values: Expr) -> Expr {
        let place = PlSmallStr::from(format!("{}.{}", self.place, self.added));
        self.added += 1;
        self.frame = self.frame.clone().with_columns([values.alias(place.clone())]);
        col(place)
    }

    fn over(&self, values: Expr) -> PolarsResult<Expr> {
        if self.partition.is_empty() { Ok(values) } else { values.over(&self.partition) }
    }

    fn over_equal(&self, values: Expr) -> PolarsResult<Expr> {
        if self.equal.is_empty() { Ok(values) } else { values.over(&self.equal) }
    }

    /// The number of a row in its partition, and what follows from it.
    fn place_of_row(&mut self, name: &str) -> PolarsResult<TypedExpr> {
        let one = self.add(int(1));
        let number = self.over(one.clone().cum_sum(false))?;
        let number = self.add(number);
        if name == "row_number" {
            return Ok(TypedExpr::new(number, ValueKind::Int));
        }
        let least = self.over_equal(number.clone().min())?;
        let rank = self.add(least);
        let all = self.over(one.clone().sum())?;
        let all = self.add(all);
        let (made, kind) = match name {
            "rank" => (rank, ValueKind::Int),
            "dense_rank" => {
                let first = self.add(number.eq(rank).cast(DataType::Int64));
                (self.over(first.cum_sum(false))?, ValueKind::Int)
            }
            "percent_rank" => {
                let others = (all - int(1)).cast(DataType::Float64);
                let before = (rank - int(1)).cast(DataType::Float64);
                (
                    when(others.clone().gt(float(0.0))).then(before / others).otherwise(float(0.0)),
                    ValueKind::Float,
                )
            }
            _ => {
                let most = self.over_equal(number.max())?;
                let most = self.add(most);
                (most.cast(DataType::Float64) / all.cast(DataType::Float64), ValueKind::Float)
            }
        };
        Ok(TypedExpr::new(self.add(made), kind))
    }

    /// The sum of numbers up to each row, less those before the frame.
    fn sum_up_to_row(&mut self, numbers: Expr, frame: WindowFrame) -> PolarsResult<Expr> {
        let all = self.over(numbers.cum_sum(false))?;
        let all = self.add(all);
        let WindowFrame::Last(rows) = frame else { return Ok(all) };
        let before = self.over(all.clone().shift(int(rows.saturating_add(1))))?;
        let before = self.add(before);
        Ok(self.add(when(before.clone().is_null()).then(all.clone()).otherwise(all - before)))
    }

    /// The largest value so far is NaN from the first NaN on, which Polars leaves out.
    fn or_nan(&mut self, name: &str, values: Expr, known: Expr) -> PolarsResult<Expr> {
        let is_odd = self.add(values.is_nan().fill_null(lit(false)).cast(DataType::Int64));
        let odd = self.over(is_odd.cum_sum(false))?;
        let is_odd = self.add(odd).gt(int(0));
        let is_reached = if name == "max" { is_odd } else { known.clone().is_null().and(is_odd) };
        Ok(when(is_reached).then(float(f64::NAN)).otherwise(known))
    }

    /// An aggregate of the rows up to each. Rows without a value do not change it.
    fn running(
        &mut self,
        name: &str,
        input: Option<&TypedExpr>,
        frame: WindowFrame,
    ) -> PolarsResult<TypedExpr> {
        let value = input.cloned().unwrap_or_else(|| TypedExpr::int(1));
        let is_number = value.kind.is_number() && value.kind != ValueKind::Unsigned;
        if !is_number && name != "count" {
            return Err(refused(format!(
                "{name} of these values is not supported over a window with an order"
            )));
        }
        if matches!(frame, WindowFrame::Last(_))
            && (value.kind == ValueKind::Float || matches!(name, "min" | "max"))
        {
            return Err(refused(format!("{name} of these values is not supported over a number of rows")));
        }
        let counted = self.add(value.expr.clone().is_not_null().cast(DataType::Int64));
        let count = self.sum_up_to_row(counted, frame)?;
        let up_to_row = match name {
            "count" => count.clone(),
            "min" | "max" => {
                let number = value.expr.clone();
                let so_far = if name == "min" { number.cum_min(false) } else { number.cum_max(false) };
                let so_far = self.over(so_far)?;
                let so_far = self.add(so_far);
                let known = self.over(so_far.fill_null_with_strategy(FillNullStrategy::Forward(None)))?;
                if value.kind == ValueKind::Float {
                    let known = self.add(known);
                    self.or_nan(name, value.expr, known)?
                } else {
                    known
                }
            }
            _ => {
                let floats = self.add(value.expr.clone().cast(DataType::Float64).fill_null(float(0.0)));
                let floats = self.sum_up_to_row(floats, frame)?;
                match (name, value.kind) {
                    ("avg", kind) => {
                        let one = float(units_of_one(kind.digits().part) as f64);
                        floats / (count.clone().cast(DataType::Float64) * one)
                    }
                    (_, ValueKind::Float) => floats,
                    _ => {
                        let whole = self.add(value.expr.fill_null(int(0)));
                        let whole = self.sum_up_to_row(whole, frame)?;
                        exact(whole, floats)
                    }
                }
            }
        };
        let mut made = self.add(up_to_row);
        let mut present = count;
        if frame == WindowFrame::UpToEqual {
            let (last, last_count) = (self.over_equal(made.last())?, self.over_equal(present.last())?);
            made = self.add(last);
            present = self.add(last_count);
        }
        if name != "count" {
            made = self.add(when(present.gt(lit(0))).then(made).otherwise(lit(polars::prelude::NULL)));
        }
        let kind = match name {
            "count" => ValueKind::Int,
            "avg" => ValueKind::Float,
            "sum" => value.kind.of_sum(),
            _ => value.kind,
        };
        Ok(TypedExpr::new(made, kind))
    }
}

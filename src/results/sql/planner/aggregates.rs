//! Aggregates: what Polars computes of each group, and the value that is made of it.

use crate::sql::planner::cells::{RowValue, by_row_with_nulls, elementwise, height, row_of};
use crate::sql::planner::kinds::{TypedExpr, ValueKind, float, refused};
use crate::sql::planner::numbers::{as_float, quotient, units_of_one};
use polars::prelude::{
    ChunkApply, Column, DataType, Expr, Int64Chunked, IntoColumn, NewChunkedArray, PlSmallStr, PolarsResult,
    QuantileMethod, SortOptions, col, len, lit, when,
};

/// An aggregate.
pub(crate) struct AggregateCall {
    /// What Polars computes, by column.
    pub(crate) parts: Vec<(PlSmallStr, Expr)>,
    /// The value, made of those columns.
    pub(crate) made: TypedExpr,
}

const NAMES: [&str; 21] = [
    "count",
    "count_star",
    "count_if",
    "sum",
    "avg",
    "mean",
    "min",
    "max",
    "median",
    "quantile_cont",
    "quantile_disc",
    "stddev",
    "stddev_samp",
    "stddev_pop",
    "variance",
    "var_samp",
    "var_pop",
    "bool_and",
    "bool_or",
    "any_value",
    "first",
];

/// Whether a function is an aggregate when it has no OVER.
pub(crate) fn is_aggregate(name: &str) -> bool {
    NAMES.contains(&name)
}

/// An aggregate of a column. `place` begins the names of what is computed for it. `fraction` is the second
/// argument.
///
/// # Errors
/// An aggregate that these values do not have.
pub(crate) fn aggregate(
    name: &str,
    input: Option<TypedExpr>,
    fraction: Option<&TypedExpr>,
    is_distinct: bool,
    place: &str,
) -> PolarsResult<AggregateCall> {
    let mut parts = AggregateParts { place, parts: Vec::new() };
    let Some(TypedExpr { expr, kind }) = input else {
        if name != "count" && name != "count_star" {
            return Err(refused(format!("{name} needs an argument")));
        }
        let rows = parts.add(len());
        return Ok(parts.done(rows.cast(DataType::Int64), ValueKind::Int));
    };
    let (expr, kind) = match (name, kind) {
        ("sum", ValueKind::Bool) | (_, ValueKind::Null) => (expr.cast(DataType::Int64), ValueKind::Int),
        (_, kind) => (expr, kind),
    };
    if is_distinct && name == "count" {
        let (distinct, missing) = (parts.add(expr.clone().n_unique()), parts.add(expr.null_count()));
        let any_missing = missing.gt(lit(0)).cast(DataType::Int64);
        return Ok(parts.done(distinct.cast(DataType::Int64) - any_missing, ValueKind::Int));
    }
    let (expr, kind) = match (name, kind) {
        ("sum" | "avg" | "mean" | "min" | "max" | "count" | "quantile_disc", _) => (expr, kind),
        ("median" | "quantile_cont", ValueKind::Decimal(_)) => {
            return Err(refused(format!("{name} of decimals is not supported: CAST to DOUBLE")));
        }
        (_, ValueKind::Decimal(_)) => (as_float(TypedExpr::new(expr, kind)).expr, ValueKind::Float),
        _ => (expr, kind),
    };
    let expr = if is_distinct { expr.unique() } else { expr };
    let (made, kind) = match (name, kind) {
        ("count", _) => (parts.add(expr.count()).cast(DataType::Int64), ValueKind::Int),
        ("count_if", ValueKind::Bool) => {
            let met = expr.clone().cast(DataType::Int64).sum();
            (parts.known(&expr, met).cast(DataType::Int64), ValueKind::Int)
        }
        ("min", _) => (parts.add(expr.min()), kind),
        ("max", ValueKind::Float) => {
            let (most, odd) = (parts.add(expr.clone().max()), parts.add(expr.is_nan().any(true)));
            (when(odd).then(float(f64::NAN)).otherwise(most), kind)
        }
        ("max", _) => (parts.add(expr.max()), kind),
        ("bool_and", ValueKind::Bool) => (parts.known(&expr, expr.clone().all(true)), kind),
        ("bool_or", ValueKind::Bool) => (parts.known(&expr, expr.clone().any(true)), kind),
        ("any_value" | "first", _) => {
            return Err(refused(format!("{name} depends on the order of rows: use MIN or MAX")));
        }
        (_, ValueKind::Int | ValueKind::Float | ValueKind::Decimal(_)) => {
            parts.of_numbers(name, &expr, kind, fraction)?
        }
        _ => return Err(refused(format!("{name} of these values is not supported: CAST them"))),
    };
    Ok(parts.done(made, kind))
}

/// What is computed for an aggregate.
struct AggregateParts<'a> {
    place: &'a str,
    parts: Vec<(PlSmallStr, Expr)>,
}

impl AggregateParts<'_> {
    /// The column that will contain it.
    fn add(&mut self, expr: Expr) -> Expr {
        let place = PlSmallStr::from(format!("{}.{}", self.place, self.parts.len()));
        self.parts.push((place.clone(), expr));
        col(place)
    }

    /// An aggregate that only numbers have.
    fn of_numbers(
        &mut self,
        name: &str,
        of: &Expr,
        kind: ValueKind,
        fraction: Option<&TypedExpr>,
    ) -> PolarsResult<(Expr, ValueKind)> {
        let floats = of.clone().cast(DataType::Float64);
        let made = match name {
            "sum" => {
                let sum = self.known(of, of.clone().sum());
                let is_whole = kind != ValueKind::Float;
                let kind = kind.of_sum();
                return Ok((if is_whole { exact(sum, self.add(floats.sum())) } else { sum }, kind));
            }
            "avg" | "mean" if let ValueKind::Decimal(digits) = kind => {
                let sum = self.known(of, of.clone().sum());
                let sum = exact(sum, self.add(floats.sum())).cast(DataType::Float64);
                let count = self.add(of.clone().count()).cast(DataType::Float64);
                quotient(sum, count * float(units_of_one(digits.part) as f64))
            }
            "avg" | "mean" => self.add(floats.mean()),
            "median" => self.add(floats.median()),
            "quantile_cont" => {
                let part = float(part_of(name, fraction)?);
                self.add(floats.quantile(part, QuantileMethod::Linear))
            }
            "quantile_disc" => {
                let sorted = of.clone().drop_nulls().sort(SortOptions::default());
                let count = of.clone().count().cast(DataType::Float64);
                let at = (count * float(part_of(name, fraction)?)).map(
                    |c| Ok(c.f64()?.apply_values(last_of_part).into_column()),
                    |_, field| Ok(field.clone()),
                );
                return Ok((self.add(sorted.get(at.cast(DataType::Int64), true)), kind));
            }
            "stddev" | "stddev_samp" => self.spread(of, kind, |v| v.std(1)),
            "stddev_pop" => self.spread(of, kind, |v| v.std(0)),
            "variance" | "var_samp" => self.spread(of, kind, |v| v.var(1)),
            "var_pop" => self.spread(of, kind, |v| v.var(0)),
            _ => return Err(refused(format!("{name} of numbers is not supported"))),
        };
        Ok((made, ValueKind::Float))
    }

    /// An aggregate that is NULL where no value is present.
    fn known(&mut self, of: &Expr, aggregate: Expr) -> Expr {
        let (present, value) = (self.add(of.clone().count()), self.add(aggregate));
        when(present.gt(lit(0))).then(value).otherwise(lit(polars::prelude::NULL))
    }

    /// A variance or standard deviation.
    fn spread(&mut self, of: &Expr, kind: ValueKind, with: fn(Expr) -> Expr) -> Expr {
        let made = self.add(with(of.clone().cast(DataType::Float64)));
        if kind != ValueKind::Int {
            return made;
        }
        let (least, most) = (self.add(of.clone().min()), self.add(of.clone().max()));
        let inputs = [made, least, most].map(|v| TypedExpr::new(v, ValueKind::Int));
        by_row_with_nulls("spread", spread, inputs.to_vec(), ValueKind::Float).expr
    }

    fn done(self, made: Expr, kind: ValueKind) -> AggregateCall {
        AggregateCall { parts: self.parts, made: TypedExpr::new(made, kind) }
    }
}

/// The second argument of a quantile: a literal from 0 to 1.
fn part_of(name: &str, fraction: Option<&TypedExpr>) -> PolarsResult<f64> {
    let given = fraction.and_then(|f| f.clone().becomes(ValueKind::Float).ok());
    let part = given.and_then(|f| f.literal()?.value().extract::<f64>());
    part.filter(|p| (0.0..=1.0).contains(p))
        .ok_or_else(|| refused(format!("{name} needs a number from 0 to 1 as its second argument")))
}

/// The index of the last row of a part of the rows, of which there are so many. The product of their number
/// and a decimal such as 0.07 may be off by its rounding.
fn last_of_part(rows: f64) -> f64 {
    let whole = if (rows - rows.round()).abs() < 1e-9 * rows.max(1.0) { rows.round() } else { rows.ceil() };
    (whole - 1.0).max(0.0)
}

/// Integers above this are no floats without an error, which may be larger than their variance.
const LARGEST_FLOAT: u64 = 1 << 53;

fn spread<'a>(cells: &[RowValue<'a>]) -> Result<RowValue<'a>, String> {
    match cells {
        [_, RowValue::Int(least), RowValue::Int(most)]
            if least.unsigned_abs().max(most.unsigned_abs()) > LARGEST_FLOAT =>
        {
            Err("the variance of integers above 2^53 is not exact: subtract the smallest first".to_string())
        }
        [made, ..] => Ok(made.clone()),
        [] => Ok(RowValue::Null),
    }
}

/// Largest sum of integers that is exact for sure, far enough below 2^63 for the error of the float.
const LARGEST: f64 = 9.2e18;

/// A sum of integers, which wraps around where it does not fit in 64 bits. The sum of the same numbers as
/// floats tells: then it is an error.
pub(crate) fn exact(sum: Expr, as_floats: Expr) -> Expr {
    let run = |columns: &mut [Column]| {
        let rows = height(columns);
        let [sum, floats] = &*columns else { return Err(refused("a sum needs its floats")) };
        let (whole, floats) = (sum.i64()?, floats.f64()?);
        if floats.iter().flatten().any(|v| v.abs() > LARGEST) {
            return Err(refused("a sum of integers does not fit in 64 bits: CAST to DOUBLE"));
        }
        let values = (0..rows).map(|row| whole.get(row_of(whole.len(), row)));
        Ok(Int64Chunked::from_iter_options(sum.name().clone(), values).into_column())
    };
    elementwise("exact", run, &[sum, as_floats], ValueKind::Int)
}

//! Functions and arithmetic of one row.
//!
//! What a function takes and gives is declared in [`FUNCTIONS`]; one that is not there is refused.

use crate::sql::planner::cells::{
    RowFunction, RowValue, by_row, by_row_with_nulls, elementwise, height, row_of,
};
use crate::sql::planner::kinds::{TypedExpr, ValueKind, alike, all_alike, refused};
use crate::sql::planner::texts;
use polars::prelude::{
    Column, Expr, Float64Chunked, Int64Chunked, IntoColumn, NewChunkedArray, PolarsResult,
};

/// What a function takes.
#[derive(Clone, Copy)]
enum Takes {
    Int,
    Float,
    Text,
    /// An integer or a float.
    Number,
    /// Anything, as text.
    AsText,
}

/// What a function gives.
#[derive(Clone, Copy)]
enum Gives {
    Kind(ValueKind),
    /// The kind of its first argument.
    First,
}

struct ScalarFunction {
    names: &'static [&'static str],
    takes: &'static [Takes],
    /// How many of them are needed.
    least: usize,
    gives: Gives,
    run: RowFunction,
}

const fn function(
    names: &'static [&'static str],
    takes: &'static [Takes],
    least: usize,
    gives: Gives,
    run: RowFunction,
) -> ScalarFunction {
    ScalarFunction { names, takes, least, gives, run }
}

const INT: Gives = Gives::Kind(ValueKind::Int);
const FLOAT: Gives = Gives::Kind(ValueKind::Float);
const TEXT: Gives = Gives::Kind(ValueKind::Text);
const BOOL: Gives = Gives::Kind(ValueKind::Bool);

const FUNCTIONS: &[ScalarFunction] = &[
    function(&["abs"], &[Takes::Number], 1, Gives::First, abs),
    function(&["sign"], &[Takes::Number], 1, INT, sign),
    function(&["round"], &[Takes::Number, Takes::Int], 1, Gives::First, round),
    function(&["floor"], &[Takes::Number], 1, Gives::First, |c| Ok(rounded(c, f64::floor))),
    function(&["ceil", "ceiling"], &[Takes::Number], 1, Gives::First, |c| Ok(rounded(c, f64::ceil))),
    function(&["trunc"], &[Takes::Number], 1, Gives::First, |c| Ok(rounded(c, f64::trunc))),
    function(&["sqrt"], &[Takes::Float], 1, FLOAT, |c| above(c, 0.0, true, f64::sqrt)),
    function(&["ln"], &[Takes::Float], 1, FLOAT, |c| above(c, 0.0, false, f64::ln)),
    function(&["log", "log10"], &[Takes::Float], 1, FLOAT, |c| above(c, 0.0, false, f64::log10)),
    function(&["log2"], &[Takes::Float], 1, FLOAT, |c| above(c, 0.0, false, f64::log2)),
    function(&["exp"], &[Takes::Float], 1, FLOAT, |c| above(c, f64::NEG_INFINITY, true, f64::exp)),
    function(&["power", "pow"], &[Takes::Float, Takes::Float], 2, FLOAT, power),
    function(&["length", "len", "char_length", "character_length"], &[Takes::Text], 1, INT, texts::length),
    function(&["upper", "ucase"], &[Takes::Text], 1, TEXT, texts::upper),
    function(&["lower", "lcase"], &[Takes::Text], 1, TEXT, texts::lower),
    function(&["trim"], &[Takes::Text, Takes::Text], 1, TEXT, |c| Ok(texts::trimmed(c, true, true))),
    function(&["ltrim"], &[Takes::Text, Takes::Text], 1, TEXT, |c| Ok(texts::trimmed(c, true, false))),
    function(&["rtrim"], &[Takes::Text, Takes::Text], 1, TEXT, |c| Ok(texts::trimmed(c, false, true))),
    function(&["substr", "substring"], &[Takes::Text, Takes::Int, Takes::Int], 2, TEXT, texts::substring),
    function(&["left"], &[Takes::Text, Takes::Int], 2, TEXT, texts::left),
    function(&["right"], &[Takes::Text, Takes::Int], 2, TEXT, texts::right),
    function(&["replace"], &[Takes::Text, Takes::Text, Takes::Text], 3, TEXT, texts::replace),
    function(&["reverse"], &[Takes::Text], 1, TEXT, texts::reverse),
    function(&["strpos", "instr"], &[Takes::Text, Takes::Text], 2, INT, texts::position),
    function(&["starts_with", "prefix"], &[Takes::Text, Takes::Text], 2, BOOL, texts::starts_with),
    function(&["ends_with", "suffix"], &[Takes::Text, Takes::Text], 2, BOOL, texts::ends_with),
    function(&["contains"], &[Takes::Text, Takes::Text], 2, BOOL, texts::contains),
    function(&["lpad"], &[Takes::Text, Takes::Int, Takes::Text], 3, TEXT, |c| texts::padded(c, true)),
    function(&["rpad"], &[Takes::Text, Takes::Int, Takes::Text], 3, TEXT, |c| texts::padded(c, false)),
    function(&["split_part"], &[Takes::Text, Takes::Text, Takes::Int], 3, TEXT, texts::split_part),
];

/// # Errors
/// When there is no function of this name.
pub(crate) fn known(name: &str) -> PolarsResult<()> {
    let is_known = OF_ANY.contains(&name) || FUNCTIONS.iter().any(|f| f.names.contains(&name));
    if is_known { Ok(()) } else { Err(refused(format!("unsupported function '{name}'"))) }
}

/// Functions of values of any kind.
const OF_ANY: [&str; 9] =
    ["coalesce", "concat", "concat_ws", "greatest", "if", "ifnull", "least", "mod", "nullif"];

/// The value of a function.
///
/// # Errors
/// When there is no such function, or it takes something else.
pub(crate) fn called(name: &str, inputs: Vec<TypedExpr>) -> PolarsResult<TypedExpr> {
    match name {
        "mod" => {
            let [one, other] = pair(name, inputs)?;
            return arithmetic("%", one, other);
        }
        "greatest" | "least" if !inputs.is_empty() => {
            let (inputs, kind) = all_alike(inputs)?;
            return Ok(match name {
                "greatest" => by_row_with_nulls("greatest", |c| Ok(extreme(c, true)), inputs, kind),
                _ => by_row_with_nulls("least", |c| Ok(extreme(c, false)), inputs, kind),
            });
        }
        "concat" | "concat_ws" if !inputs.is_empty() => {
            let inputs =
                inputs.into_iter().map(|i| taken(name, i, Takes::AsText)).collect::<PolarsResult<_>>()?;
            return Ok(match name {
                "concat" => by_row_with_nulls("concat", texts::joined, inputs, ValueKind::Text),
                _ => by_row_with_nulls("concat_ws", texts::joined_with, inputs, ValueKind::Text),
            });
        }
        _ => {}
    }
    let Some(known) = FUNCTIONS.iter().find(|f| f.names.contains(&name)) else {
        return Err(refused(format!("unsupported function '{name}'")));
    };
    if inputs.len() < known.least || inputs.len() > known.takes.len() {
        return Err(refused(format!("{name} does not take {} arguments", inputs.len())));
    }
    let inputs = inputs.into_iter().zip(known.takes).map(|(input, takes)| taken(name, input, *takes));
    let inputs = inputs.collect::<PolarsResult<Vec<_>>>()?;
    let output = match (known.gives, inputs.first()) {
        (Gives::Kind(kind), _) => kind,
        (Gives::First, first) => first.map_or(ValueKind::Null, |f| f.kind),
    };
    Ok(by_row(known.names[0], known.run, inputs, output))
}

fn pair(name: &str, inputs: Vec<TypedExpr>) -> PolarsResult<[TypedExpr; 2]> {
    inputs.try_into().map_err(|_| refused(format!("{name} takes two arguments")))
}

/// An argument as the kind that a function takes.
fn taken(name: &str, input: TypedExpr, takes: Takes) -> PolarsResult<TypedExpr> {
    let kind = match takes {
        Takes::Int => ValueKind::Int,
        Takes::Float => ValueKind::Float,
        Takes::Text => ValueKind::Text,
        Takes::Number if input.kind == ValueKind::Null => ValueKind::Int,
        Takes::Number if matches!(input.kind, ValueKind::Int | ValueKind::Float) => return Ok(input),
        Takes::Number => return Err(refused(format!("{name} takes integers and floats"))),
        Takes::AsText if input.kind != ValueKind::Null => return input.cast(ValueKind::Text, false),
        Takes::AsText => ValueKind::Text,
    };
    input.becomes(kind).map_err(|e| refused(format!("{name}: {}", crate::sql::statement::plain(&e))))
}

/// `+ - * / % //` of two numbers.
///
/// # Errors
/// Values that are no numbers.
pub(crate) fn arithmetic(op: &'static str, left: TypedExpr, right: TypedExpr) -> PolarsResult<TypedExpr> {
    let is_number = |v: &TypedExpr| v.kind.is_number() || v.kind == ValueKind::Null;
    if !is_number(&left) || !is_number(&right) {
        return Err(refused(format!("{op} takes numbers: CAST its operands")));
    }
    let (left, right) = alike(left, right)?;
    if op == "/" {
        let (left, right) = (left.cast(ValueKind::Float, false)?, right.cast(ValueKind::Float, false)?);
        return Ok(TypedExpr::new(quotient(left.expr, right.expr), ValueKind::Float));
    }
    match left.kind {
        ValueKind::Null => Ok(TypedExpr::null().becomes(ValueKind::Int)?),
        ValueKind::Unsigned => Err(refused(format!("{op} cannot be used on ids of 64 bits"))),
        ValueKind::Int => Ok(TypedExpr::new(whole_numbers(op, left.expr, right.expr), ValueKind::Int)),
        _ => {
            let made = match op {
                "+" => left.expr + right.expr,
                "-" => left.expr - right.expr,
                "*" => left.expr * right.expr,
                "%" => return Ok(by_row("fmod", remainder, vec![left, right], ValueKind::Float)),
                _ => return Err(refused(format!("{op} takes integers"))),
            };
            Ok(TypedExpr::new(made, ValueKind::Float))
        }
    }
}

/// # Errors
/// A value that is no number.
pub(crate) fn negated(value: TypedExpr) -> PolarsResult<TypedExpr> {
    arithmetic("-", TypedExpr::int(0), value)
}

/// The same of integers. A result that does not fit in 64 bits, and `%` or `//` by 0, is an error.
fn whole_numbers(op: &'static str, left: Expr, right: Expr) -> Expr {
    let compute = move |a: i64, b: i64| match op {
        "+" => a.checked_add(b),
        "-" => a.checked_sub(b),
        "*" => a.checked_mul(b),
        "%" => a.checked_rem(b),
        _ => a.checked_div(b),
    };
    let run = move |columns: &mut [Column]| {
        let rows = height(columns);
        let [one, other] = &*columns else { return Err(refused(format!("{op} takes two numbers"))) };
        let (left, right) = (one.i64()?, other.i64()?);
        let (mut has_failed, is_division) = (false, matches!(op, "%" | "//"));
        let values = (0..rows).map(|row| {
            let (a, b) = (left.get(row_of(left.len(), row))?, right.get(row_of(right.len(), row))?);
            let made = compute(a, b);
            has_failed |= made.is_none();
            made
        });
        let made = Int64Chunked::from_iter_options(one.name().clone(), values);
        match (has_failed, is_division) {
            (true, true) => Err(refused(format!("`{op}` by 0: write NULLIF(..., 0)"))),
            (true, false) => {
                Err(refused(format!("a result of `{op}` does not fit in 64 bits: CAST to DOUBLE")))
            }
            (false, _) => Ok(made.into_column()),
        }
    };
    elementwise(op, run, &[left, right], ValueKind::Int)
}

/// The quotient of two floats, rounded once. Polars multiplies by the reciprocal of a constant, which is
/// rounded, too: 3 / 10 would be 0.30000000000000004.
fn quotient(left: Expr, right: Expr) -> Expr {
    let run = |columns: &mut [Column]| {
        let rows = height(columns);
        let [one, other] = &*columns else { return Err(refused("/ takes two numbers")) };
        let (left, right) = (one.f64()?, other.f64()?);
        let values = (0..rows).map(|row| {
            let (a, b) = (left.get(row_of(left.len(), row))?, right.get(row_of(right.len(), row))?);
            Some(a / b)
        });
        Ok(Float64Chunked::from_iter_options(one.name().clone(), values).into_column())
    };
    elementwise("/", run, &[left, right], ValueKind::Float)
}

fn remainder<'a>(cells: &[RowValue<'a>]) -> Result<RowValue<'a>, String> {
    Ok(match cells {
        [RowValue::Float(a), RowValue::Float(b)] if *b != 0.0 => RowValue::Float(a % b),
        [RowValue::Float(_), RowValue::Float(_)] => return Err("`%` by 0: write NULLIF(..., 0)".to_string()),
        _ => RowValue::Null,
    })
}

fn abs<'a>(cells: &[RowValue<'a>]) -> Result<RowValue<'a>, String> {
    Ok(match cells {
        [RowValue::Int(v)] => RowValue::Int(v.checked_abs().ok_or("ABS does not fit in 64 bits")?),
        [RowValue::Float(v)] => RowValue::Float(v.abs()),
        _ => RowValue::Null,
    })
}

fn sign<'a>(cells: &[RowValue<'a>]) -> Result<RowValue<'a>, String> {
    Ok(match cells {
        [RowValue::Int(v)] => RowValue::Int(v.signum()),
        [RowValue::Float(v)] => RowValue::Int(i64::from(*v > 0.0) - i64::from(*v < 0.0)),
        _ => RowValue::Null,
    })
}

/// Halves away from zero.
fn round<'a>(cells: &[RowValue<'a>]) -> Result<RowValue<'a>, String> {
    Ok(match cells {
        [RowValue::Float(v)] => RowValue::Float(v.round()),
        [RowValue::Float(v), RowValue::Int(digits @ 0..=15)] => {
            let power = 10f64.powi(*digits as i32);
            let made = (v * power).round() / power;
            RowValue::Float(if made.is_finite() { made } else { *v })
        }
        [RowValue::Int(v)] | [RowValue::Int(v), RowValue::Int(0..)] => RowValue::Int(*v),
        _ => return Err("ROUND takes 0 to 15 digits".to_string()),
    })
}

fn rounded<'a>(cells: &[RowValue<'a>], with: fn(f64) -> f64) -> RowValue<'a> {
    match cells {
        [RowValue::Float(v)] => RowValue::Float(with(*v)),
        [RowValue::Int(v)] => RowValue::Int(*v),
        _ => RowValue::Null,
    }
}

/// A function that is defined above a number only.
fn above<'a>(
    cells: &[RowValue<'a>],
    least: f64,
    or_equal: bool,
    with: fn(f64) -> f64,
) -> Result<RowValue<'a>, String> {
    match cells {
        [RowValue::Float(v)] if *v < least || (*v == least && !or_equal) => {
            Err(format!("a root or logarithm of {v} is not defined"))
        }
        [RowValue::Float(v)] => Ok(RowValue::Float(with(*v))),
        _ => Ok(RowValue::Null),
    }
}

fn power<'a>(cells: &[RowValue<'a>]) -> Result<RowValue<'a>, String> {
    Ok(match cells {
        [RowValue::Float(base), RowValue::Float(exponent)] => RowValue::Float(base.powf(*exponent)),
        _ => RowValue::Null,
    })
}

/// The largest or smallest value that is not missing.
fn extreme<'a>(cells: &[RowValue<'a>], largest: bool) -> RowValue<'a> {
    let order = |a: &RowValue<'_>, b: &RowValue<'_>| match (a, b) {
        (RowValue::Int(a), RowValue::Int(b)) => a.cmp(b),
        (RowValue::Unsigned(a), RowValue::Unsigned(b)) => a.cmp(b),
        (RowValue::Float(a), RowValue::Float(b)) => {
            a.partial_cmp(b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
        }
        (RowValue::Text(a), RowValue::Text(b)) => a.cmp(b),
        (RowValue::Bool(a), RowValue::Bool(b)) => a.cmp(b),
        _ => std::cmp::Ordering::Equal,
    };
    let present = cells.iter().filter(|c| **c != RowValue::Null);
    let found = if largest { present.max_by(|a, b| order(a, b)) } else { present.min_by(|a, b| order(a, b)) };
    found.cloned().unwrap_or(RowValue::Null)
}

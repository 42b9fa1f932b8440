//! Functions and arithmetic of one row.
//!
//! What a function takes and gives is declared in [`FUNCTIONS`]; one that is not there is refused.

use crate::sql::planner::casts::{alike, all_alike};
use crate::sql::planner::cells::{RowFunction, RowValue, by_row, by_row_with_nulls};
use crate::sql::planner::kinds::{DecimalDigits, MOST_DIGITS, TypedExpr, ValueKind, refused};
use crate::sql::planner::numbers::{
    MOST_DIGITS_BEHIND, quotient, rescaled, rounded as rounded_decimal, whole_numbers,
};
use crate::sql::planner::texts;
use polars::prelude::PolarsResult;

/// What a function takes.
#[derive(Clone, Copy)]
enum Takes {
    Int,
    Float,
    Text,
    /// An integer, a decimal or a float.
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
        "round" | "floor" | "ceil" | "ceiling" | "trunc" if inputs.first().is_some_and(has_point) => {
            return decimal_with_digits(name, inputs);
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

fn has_point(value: &TypedExpr) -> bool {
    matches!(value.kind, ValueKind::Decimal(_))
}

/// A decimal with the number of digits behind the point that a literal names, or none.
fn decimal_with_digits(name: &str, inputs: Vec<TypedExpr>) -> PolarsResult<TypedExpr> {
    let (how, takes) = match name {
        "floor" => ("floor_decimal", 1),
        "ceil" | "ceiling" => ("ceil_decimal", 1),
        "trunc" => ("trunc_decimal", 1),
        _ => ("round_decimal", 2),
    };
    let digits = inputs.get(1).map_or(Some(0), |d| u8::try_from(d.whole_number()?).ok());
    match (digits, inputs.len() <= takes, inputs.into_iter().next()) {
        (Some(digits), true, Some(value)) => Ok(rounded_decimal(value, how, digits)),
        _ => Err(refused(format!("{name} of decimals takes a literal number of digits: CAST to DOUBLE"))),
    }
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
        Takes::Number if input.kind == ValueKind::Unsigned || !input.kind.is_number() => {
            return Err(refused(format!("{name} takes integers and floats")));
        }
        Takes::Number => return Ok(input),
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
    if op == "/" {
        let (left, right) = (left.cast(ValueKind::Float, false)?, right.cast(ValueKind::Float, false)?);
        return Ok(TypedExpr::new(quotient(left.expr, right.expr), ValueKind::Float));
    }
    let is_exact = |v: &TypedExpr| !matches!(v.kind, ValueKind::Float | ValueKind::Unsigned);
    if op != "//" && (has_point(&left) || has_point(&right)) && is_exact(&left) && is_exact(&right) {
        return of_decimals(op, left, right);
    }
    let (left, right) = alike(left, right)?;
    match left.kind {
        ValueKind::Null => Ok(TypedExpr::null().becomes(ValueKind::Int)?),
        ValueKind::Unsigned => Err(refused(format!("{op} cannot be used on ids of 64 bits"))),
        ValueKind::Int => Ok(TypedExpr::new(whole_numbers(op, left.expr, right.expr), ValueKind::Int)),
        ValueKind::Decimal(_) => Err(refused("// takes integers")),
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

/// `+ - * %` of integers and decimals. A product has the digits of both, else the result has as many behind
/// the point as the longer one.
fn of_decimals(op: &'static str, left: TypedExpr, right: TypedExpr) -> PolarsResult<TypedExpr> {
    let (one, other) = (left.kind.digits(), right.kind.digits());
    let (whole, part) = match op {
        "*" => (one.whole + other.whole, one.part + other.part),
        "%" => (one.whole.max(other.whole), one.part.max(other.part)),
        _ => (one.whole.max(other.whole) + 1, one.part.max(other.part)),
    };
    if part > MOST_DIGITS_BEHIND || op == "%" && whole + part > MOST_DIGITS {
        return Err(refused(format!("a result of `{op}` has too many digits: CAST to DOUBLE")));
    }
    let digits = DecimalDigits { whole: whole.min(MOST_DIGITS - part), part };
    let alike = |value: TypedExpr| match (value.kind, op) {
        (ValueKind::Null, _) => value.becomes(ValueKind::Int),
        (_, "*") => Ok(value),
        _ => rescaled(value, digits),
    };
    let made = whole_numbers(op, alike(left)?.expr, alike(right)?.expr);
    Ok(TypedExpr::new(made, ValueKind::Decimal(digits)))
}

/// # Errors
/// A value that is no number.
pub(crate) fn negated(value: TypedExpr) -> PolarsResult<TypedExpr> {
    arithmetic("-", TypedExpr::int(0), value)
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

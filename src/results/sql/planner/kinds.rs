//! Values of a statement with their kinds.

use polars::prelude::{AnyValue, DataType, Expr, LiteralValue, PolarsError, PolarsResult, Scalar};

/// What the values of an expression are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueKind {
    /// NULL, of which nothing else is known.
    Null,
    Bool,
    Int,
    /// Ids that use all 64 bits.
    Unsigned,
    Float,
    /// An integer that counts units of the last digit behind the point: 2.50 is 250 with two such digits.
    /// Numbers that are written with a point are decimals, as in DuckDB, and so exact.
    Decimal(DecimalDigits),
    Text,
}

/// How many digits a decimal may have. DuckDB has at most 38 in all, of which sums take all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DecimalDigits {
    /// Before the point.
    pub(crate) whole: u8,
    /// Behind the point.
    pub(crate) part: u8,
}

/// Most digits of a decimal of DuckDB.
pub(crate) const MOST_DIGITS: u8 = 38;

/// An expression of Polars, with the kind of its values.
#[derive(Debug, Clone)]
pub(crate) struct TypedExpr {
    pub(crate) expr: Expr,
    pub(crate) kind: ValueKind,
}

/// A value that is the same in all rows. The literals that Polars makes of numbers have a type that depends
/// on where they stand.
pub(crate) fn constant(kind: ValueKind, value: AnyValue<'static>) -> Expr {
    Expr::Literal(LiteralValue::Scalar(Scalar::new(kind.data_type(), value)))
}

pub(crate) fn int(value: i64) -> Expr {
    constant(ValueKind::Int, AnyValue::Int64(value))
}

pub(crate) fn float(value: f64) -> Expr {
    constant(ValueKind::Float, AnyValue::Float64(value))
}

/// NULL of a kind.
pub(crate) fn missing(kind: ValueKind) -> Expr {
    constant(kind, AnyValue::Null)
}

/// The error of something that statements cannot use.
pub(crate) fn refused(what: impl Into<String>) -> PolarsError {
    PolarsError::SQLInterface(what.into().into())
}

/// The beginning of a part of a statement, for an error message.
pub(crate) fn brief(of: &impl std::fmt::Display) -> String {
    let text = of.to_string();
    let short: String = text.chars().take(60).collect();
    format!("`{short}{}`", if short.len() < text.len() { "..." } else { "" })
}

impl ValueKind {
    /// The kind of a column of a table.
    ///
    /// # Errors
    /// A type that no table has.
    pub(crate) fn of(kind: &DataType) -> PolarsResult<Self> {
        Ok(match kind {
            DataType::Null => Self::Null,
            DataType::Boolean => Self::Bool,
            DataType::Int64 => Self::Int,
            DataType::UInt64 => Self::Unsigned,
            DataType::Float64 => Self::Float,
            DataType::String => Self::Text,
            other => return Err(refused(format!("values of the type {other} are not supported"))),
        })
    }

    pub(crate) fn data_type(self) -> DataType {
        match self {
            Self::Null => DataType::Null,
            Self::Bool => DataType::Boolean,
            Self::Int | Self::Decimal(_) => DataType::Int64,
            Self::Unsigned => DataType::UInt64,
            Self::Float => DataType::Float64,
            Self::Text => DataType::String,
        }
    }

    /// The digits of integers and decimals.
    pub(crate) fn digits(self) -> DecimalDigits {
        if let Self::Decimal(digits) = self { digits } else { DecimalDigits { whole: 19, part: 0 } }
    }

    /// The kind of a sum of values of this kind.
    pub(crate) fn of_sum(self) -> Self {
        match self {
            Self::Decimal(digits) => {
                Self::Decimal(DecimalDigits { whole: MOST_DIGITS - digits.part, ..digits })
            }
            other => other,
        }
    }

    pub(crate) fn is_number(self) -> bool {
        matches!(self, Self::Int | Self::Unsigned | Self::Float | Self::Decimal(_))
    }

    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Null => "NULL",
            Self::Bool => "true and false",
            Self::Int => "integers",
            Self::Unsigned => "ids of 64 bits",
            Self::Float => "floats",
            Self::Decimal(_) => "decimals",
            Self::Text => "text",
        }
    }
}

impl TypedExpr {
    pub(crate) fn new(expr: Expr, kind: ValueKind) -> Self {
        Self { expr, kind }
    }

    pub(crate) fn int(value: i64) -> Self {
        Self::new(int(value), ValueKind::Int)
    }

    pub(crate) fn bool(value: bool) -> Self {
        Self::new(constant(ValueKind::Bool, AnyValue::Boolean(value)), ValueKind::Bool)
    }

    pub(crate) fn null() -> Self {
        Self::new(missing(ValueKind::Null), ValueKind::Null)
    }

    /// The value of a literal.
    pub(crate) fn literal(&self) -> Option<&Scalar> {
        match &self.expr {
            Expr::Literal(LiteralValue::Scalar(value)) => Some(value),
            _ => None,
        }
    }

    /// The value of a literal integer.
    pub(crate) fn whole_number(&self) -> Option<i64> {
        self.units().filter(|_| self.kind == ValueKind::Int)
    }

    /// The integer that stands for a literal integer or decimal.
    pub(crate) fn units(&self) -> Option<i64> {
        let is_exact = matches!(self.kind, ValueKind::Int | ValueKind::Decimal(_));
        self.literal().filter(|_| is_exact)?.value().extract::<i64>()
    }

    /// Whether the value is the same in all rows.
    pub(crate) fn is_constant(&self) -> bool {
        !self.expr.into_iter().any(|part| matches!(part, Expr::Column(_)))
    }
}

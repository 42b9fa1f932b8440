//! Values of a statement with their kinds, and how kinds become each other.

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
    Text,
}

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
            Self::Int => DataType::Int64,
            Self::Unsigned => DataType::UInt64,
            Self::Float => DataType::Float64,
            Self::Text => DataType::String,
        }
    }

    pub(crate) fn is_number(self) -> bool {
        matches!(self, Self::Int | Self::Unsigned | Self::Float)
    }

    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Null => "NULL",
            Self::Bool => "true and false",
            Self::Int => "integers",
            Self::Unsigned => "ids of 64 bits",
            Self::Float => "floats",
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
        self.literal().filter(|_| self.kind == ValueKind::Int)?.value().extract::<i64>()
    }

    /// Whether the value is the same in all rows.
    pub(crate) fn is_constant(&self) -> bool {
        !self.expr.into_iter().any(|part| matches!(part, Expr::Column(_)))
    }

    /// The value as another kind, where SQL converts without being asked to.
    ///
    /// # Errors
    /// When these kinds do not mix.
    pub(crate) fn becomes(self, kind: ValueKind) -> PolarsResult<Self> {
        use ValueKind as Is;
        match (self.kind, kind) {
            (from, to) if from == to => Ok(self),
            (Is::Null, _) if self.literal().is_some() => Ok(Self::new(missing(kind), kind)),
            (Is::Null, _) => Ok(Self::new(self.expr.cast(kind.data_type()), kind)),
            (Is::Int, Is::Float) => match self.whole_number() {
                Some(number) => Ok(Self::new(float(number as f64), kind)),
                None => Ok(Self::new(self.expr.cast(DataType::Float64), kind)),
            },
            (Is::Int, Is::Unsigned) => match self.whole_number().map(u64::try_from) {
                Some(Ok(number)) => Ok(Self::new(constant(kind, AnyValue::UInt64(number)), kind)),
                _ => Err(mixed(self.kind, kind)),
            },
            (Is::Bool, Is::Int) => Ok(Self::new(self.expr.cast(DataType::Int64), kind)),
            (from, to) => Err(mixed(from, to)),
        }
    }
}

fn mixed(one: ValueKind, other: ValueKind) -> PolarsError {
    refused(format!("{} and {} do not mix: CAST one of them", one.words(), other.words()))
}

/// The kind that values of both kinds can have.
///
/// # Errors
/// When these kinds do not mix.
pub(crate) fn common(one: ValueKind, other: ValueKind) -> PolarsResult<ValueKind> {
    use ValueKind as Is;
    Ok(match (one, other) {
        (a, b) if a == b => a,
        (Is::Null, kind) | (kind, Is::Null) => kind,
        (Is::Int, Is::Float) | (Is::Float, Is::Int) => Is::Float,
        (Is::Int, Is::Unsigned) | (Is::Unsigned, Is::Int) => Is::Unsigned,
        (Is::Bool, Is::Int) | (Is::Int, Is::Bool) => Is::Int,
        (a, b) => return Err(mixed(a, b)),
    })
}

/// Both values as their common kind.
///
/// # Errors
/// When their kinds do not mix.
pub(crate) fn alike(one: TypedExpr, other: TypedExpr) -> PolarsResult<(TypedExpr, TypedExpr)> {
    let kind = common(one.kind, other.kind)?;
    Ok((one.becomes(kind)?, other.becomes(kind)?))
}

/// All values as their common kind.
///
/// # Errors
/// When their kinds do not mix.
pub(crate) fn all_alike(values: Vec<TypedExpr>) -> PolarsResult<(Vec<TypedExpr>, ValueKind)> {
    let kind = values.iter().try_fold(ValueKind::Null, |kind, value| common(kind, value.kind))?;
    Ok((values.into_iter().map(|v| v.becomes(kind)).collect::<PolarsResult<_>>()?, kind))
}

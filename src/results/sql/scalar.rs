//! Subqueries that give one value, such as `dur_ns > (SELECT AVG(dur_ns) FROM kernels)`.
//!
//! The engine of Polars has none. Each is run before the statement that contains it and replaced by its
//! value, so it can use tables and the parts after WITH, but not the row around it.

use crate::sql::statement::{SqlToken, walk, with_points};
use polars::prelude::{AnyValue, DataFrame, PolarsError, PolarsResult};
use std::ops::Range;

/// The statement with values in place of such subqueries. `run` runs a statement.
///
/// # Errors
/// When a subquery cannot be run, or gives more than one value.
pub(crate) fn replaced(
    text: &str,
    mut run: impl FnMut(&str) -> PolarsResult<DataFrame>,
) -> PolarsResult<String> {
    let mut text = text.to_string();
    while let Some(Subquery { place, parts }) = last(&text) {
        let inside = &text[place.start + 1..place.end - 1];
        let parts = text[..parts].trim_end();
        let value = value(&run(format!("{parts} {inside}").trim_start())?)?;
        text.replace_range(place, &value);
    }
    Ok(text)
}

/// A subquery that stands for a value.
struct Subquery {
    /// Where it is, with its parentheses.
    place: Range<usize>,
    /// Length of the WITH before it, up to the last part that it can use.
    parts: usize,
}

/// Words after which a value stands, and a subquery is one.
const BEFORE_VALUE: [&str; 8] = ["select", "then", "else", "when", "between", "and", "or", "not"];

/// The last one, which contains no other.
fn last(text: &str) -> Option<Subquery> {
    let mut tokens: Vec<(SqlToken, usize)> = Vec::new();
    let mut at = 0;
    walk(text, |token, piece| {
        tokens.extend(token.map(|token| (token, at)));
        at += piece.len();
    });
    let is_with = tokens.first().is_some_and(|t| t.0.is("with"));
    let (mut parts, mut is_in_parts) = (0, is_with);
    // For each open parenthesis the word that began the clause, and the subquery that it may be.
    let mut open: Vec<(String, Option<(usize, usize)>)> = vec![(String::new(), None)];
    let mut found: Option<Subquery> = None;
    for (i, (token, at)) in tokens.iter().enumerate() {
        let before = i.checked_sub(1).and_then(|b| tokens.get(b)).map(|t| &t.0);
        let depth = open.len();
        match token {
            SqlToken::Mark('(') => {
                let begins = tokens.get(i + 1).is_some_and(|t| t.0.is("select"));
                let clause = open.last().map_or("", |o| o.0.as_str());
                let is_value = begins && before.is_some_and(|b| is_before_value(b, clause));
                open.push((String::new(), is_value.then_some((*at, parts))));
            }
            SqlToken::Mark(')') if depth > 1 => {
                if let Some((_, Some((start, parts)))) = open.pop()
                    && found.as_ref().is_none_or(|f| f.place.start < start)
                {
                    found = Some(Subquery { place: start..at + 1, parts });
                }
            }
            SqlToken::Mark(',') if depth == 1 && is_in_parts => parts = *at,
            SqlToken::Word(word) => {
                if word == "select" && depth == 1 && is_in_parts {
                    (parts, is_in_parts) = (*at, false);
                }
                if ["select", "from", "where", "group", "having", "order", "on"].contains(&word.as_str())
                    && let Some(clause) = open.last_mut()
                {
                    clause.0.clone_from(word);
                }
            }
            _ => {}
        }
    }
    found
}

fn is_before_value(before: &SqlToken, clause: &str) -> bool {
    match before {
        SqlToken::Mark(c) if "=<>+-*/%|".contains(*c) => true,
        SqlToken::Mark(',') => clause == "select",
        SqlToken::Word(word) => BEFORE_VALUE.contains(&word.as_str()),
        _ => false,
    }
}

/// The one value of an answer, as SQL.
fn value(answer: &DataFrame) -> PolarsResult<String> {
    let refused = |found: String| {
        let reason = format!("a subquery that stands for a value gives {found}; add MAX(...), or LIMIT 1");
        Err(PolarsError::ComputeError(reason.into()))
    };
    if answer.width() != 1 {
        return refused(format!("{} columns", answer.width()));
    }
    if answer.height() > 1 {
        return refused(format!("{} rows", answer.height()));
    }
    let first = answer.columns().first().and_then(|c| c.get(0).ok()).unwrap_or(AnyValue::Null);
    if let Some(text) = first.get_str() {
        return Ok(format!("'{}'", text.replace('\'', "''")));
    }
    Ok(match first {
        AnyValue::Null => "NULL".to_string(),
        AnyValue::Boolean(is) => if is { "TRUE" } else { "FALSE" }.to_string(),
        AnyValue::Float64(v) if v.is_finite() => format!("({})", with_points(&format!("{v:?}"))),
        AnyValue::Float64(v) => format!("CAST('{v}' AS DOUBLE)"),
        number => format!("({number})"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use polars::prelude::{Column, NamedFrom, Series};

    /// The statements that are run, where each gives its number, and what is left.
    fn steps(text: &str) -> (Vec<String>, String) {
        let mut ran = Vec::new();
        let left = replaced(text, |inner| {
            ran.push(inner.to_string());
            let number = Column::from(Series::new("n".into(), [ran.len() as i64]));
            DataFrame::new(1, vec![number])
        });
        (ran, left.expect("values"))
    }

    #[test]
    fn subqueries_that_stand_for_a_value_are_replaced_and_others_are_not() {
        let (ran, left) =
            steps("SELECT a, (SELECT 1) AS b FROM t WHERE a > (SELECT x FROM u WHERE x < (SELECT 2))");
        assert_eq!(ran, ["SELECT 2", "SELECT x FROM u WHERE x < (1)", "SELECT 1"]);
        assert_eq!(left, "SELECT a, (3) AS b FROM t WHERE a > (2)");
        for other in [
            "SELECT a FROM (SELECT a FROM t) AS s, (SELECT 1) AS r",
            "SELECT a FROM t WHERE a IN (SELECT b FROM u) OR EXISTS (SELECT 1 FROM u)",
            "WITH s AS (SELECT 1 AS a) SELECT a FROM s UNION (SELECT 2)",
            "SELECT '= (SELECT 1)' AS a FROM t -- = (SELECT 1)",
        ] {
            assert_eq!(steps(other), (vec![], other.to_string()));
        }
    }

    #[test]
    fn subqueries_can_use_the_parts_before_them() {
        let (ran, left) = steps(
            "WITH p AS (SELECT 1 AS a), q AS (SELECT a FROM p WHERE a = (SELECT MAX(a) FROM p)) \
             SELECT a FROM q",
        );
        assert_eq!(ran, ["WITH p AS (SELECT 1 AS a) SELECT MAX(a) FROM p"]);
        assert!(left.ends_with("WHERE a = (1)) SELECT a FROM q"));
        let (ran, _) = steps("WITH p AS (SELECT 1 AS a) SELECT a FROM p WHERE a = (SELECT MAX(a) FROM p)");
        assert_eq!(ran, ["WITH p AS (SELECT 1 AS a) SELECT MAX(a) FROM p"]);
    }
}

//! Runs statements, and explains what is wrong with those that cannot run.

use crate::sql::QueryError;
use crate::sql::answer::QueryAnswer;
use crate::sql::nearest::nearest;
use crate::sql::planner::query::Planner;
use crate::sql::statement::{Statement, plain};
use polars::prelude::{LazyFrame, PolarsError};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Stack size of the thread that parses and runs statements, bytes. Only the part that is used takes memory.
const STACK: usize = 512 << 20;

/// Runs `work` on a thread with a stack that is large enough for deeply nested statements.
///
/// # Errors
/// When the system cannot start such a thread.
pub fn on_large_stack<T: Send>(work: impl FnOnce() -> T + Send) -> std::io::Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work)?;
        thread.join().map_err(|_| std::io::Error::other("it uses something that this engine lacks"))
    })
}

/// Runs a statement over the tables that it names. `columns` gives all columns of a table, for error
/// messages.
///
/// # Errors
/// When the statement uses something that the tables or the engine do not have.
pub fn run(
    statement: &Statement,
    tables: Vec<(String, LazyFrame)>,
    columns: impl Fn(&str) -> Vec<String>,
) -> Result<QueryAnswer, QueryError> {
    let names: Vec<String> = tables.iter().map(|t| t.0.clone()).collect();
    // Polars panics on some plans that it cannot run.
    let ran = catch_unwind(AssertUnwindSafe(|| Planner::new(tables).answer(&statement.query)));
    let frame = match ran {
        Ok(Ok(frame)) => frame,
        Ok(Err(e)) => {
            return Err(of_table(e).unwrap_or_else(|e| explained(&e, statement, &names, columns)));
        }
        Err(_) => {
            return Err(QueryError::Sql { reason: "it uses something that this engine lacks".to_string() });
        }
    };
    QueryAnswer::new(&frame)
}

/// The error of a table that could not be read while the statement ran; else the engine's error unchanged.
fn of_table(error: PolarsError) -> Result<QueryError, PolarsError> {
    match error {
        PolarsError::Context { error, .. } | PolarsError::ExprContext { error, .. } => of_table(*error),
        PolarsError::IO { error, msg } => {
            let own = Arc::try_unwrap(error).map_err(|error| PolarsError::IO { error, msg: msg.clone() })?;
            own.downcast().map_err(|error| PolarsError::IO { error: Arc::new(error), msg })
        }
        other => Err(other),
    }
}

/// Replaces the engine's error by a better one if a column is missing, or a part of the statement hides a
/// table.
fn explained(
    error: &PolarsError,
    statement: &Statement,
    tables: &[String],
    columns: impl Fn(&str) -> Vec<String>,
) -> QueryError {
    let reason = plain(error);
    if let Some(name) = missing(&reason).filter(|n| reason.starts_with("relation '") && statement.defines(n))
    {
        return QueryError::Shadows { name };
    }
    let is_column = matches!(error, PolarsError::ColumnNotFound(_) | PolarsError::SchemaFieldNotFound(_))
        || reason.contains("unable to find column")
        || reason.contains("no column named");
    let Some(name) = missing(&reason).filter(|_| is_column) else { return QueryError::Sql { reason } };
    let mut known: Vec<String> = tables.iter().flat_map(|t| columns(t)).collect();
    if known.contains(&name) {
        let without: Vec<String> = tables.iter().filter(|t| !columns(t).contains(&name)).cloned().collect();
        let known = without.iter().flat_map(|t| columns(t)).collect();
        return QueryError::OutOfReach {
            name,
            without: (!without.is_empty()).then(|| shown(&without)),
            known,
        };
    }
    known.sort();
    known.dedup();
    let nearest = nearest(&name, known.iter().map(String::as_str)).map(str::to_string);
    QueryError::NoColumn { name, tables: shown(tables), known, nearest }
}

/// The name in the engine's message: the first in quotes, else the last word of "field not found: name".
fn missing(reason: &str) -> Option<String> {
    let quoted = reason.find(['"', '\'']).and_then(|at| {
        let mark = reason[at..].chars().next()?;
        let rest = &reason[at + 1..];
        Some(rest[..rest.find(mark)?].to_string())
    });
    quoted.or_else(|| reason.split_whitespace().last().map(str::to_string))
}

fn shown(tables: &[String]) -> String {
    if tables.is_empty() {
        return "a table named after FROM".to_string();
    }
    tables.iter().map(|t| format!("`{t}`")).collect::<Vec<_>>().join(" or ")
}

//! Errors of statements, and of the tables that they read.

use crate::output::columns::wrap;
use crate::results::ResultsError;
use hta_base::units::{MemoryLimit, fmt_bytes};

#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    #[error(
        "cannot find the query `{name}`: expected a name of `hta list queries`, SQL, a file *.sql, or `-`"
    )]
    UnknownName { name: String, nearest: Option<&'static str>, is_table: bool },
    #[error("cannot run the statement: expected one SELECT, found {found}")]
    NotOneSelect { found: String },
    #[error("cannot run the statement: {reason}")]
    Sql { reason: String },
    #[error("cannot run the statement: `{name}` after WITH hides the table that it reads")]
    Shadows { name: String },
    #[error("cannot find the table `{name}`: expected one of those in {place}")]
    NoTable { name: String, place: String, known: Vec<String>, nearest: Option<String> },
    #[error("cannot find the column `{name}`: expected one that {tables} has")]
    NoColumn { name: String, tables: String, known: Vec<String>, nearest: Option<String> },
    #[error("cannot use the column `{name}` there: {}", match without {
        Some(tables) => format!("{tables} has none"),
        None => "the engine sees only what that SELECT gives".to_string(),
    })]
    OutOfReach { name: String, without: Option<String>, known: Vec<String> },
    #[error("cannot read the table `events`: {place} holds none, as `hta analyze --no-events` leaves it")]
    NoEvents { place: String },
    #[error("cannot read {path}: {reason}")]
    Unreadable { path: String, reason: String },
    #[error(transparent)]
    Results(ResultsError),
    #[error("cannot read {path}: the statement needs more than {} of memory for its \
             tables", fmt_bytes(.limit.bytes))]
    TooLarge { path: String, limit: MemoryLimit },
    #[error(
        "cannot run the statement: expected at most {limit} operators and parentheses in one another, found \
         {found}"
    )]
    TooDeep { found: usize, limit: usize },
    #[error("cannot write the column `{name}`: expected numbers, text or true and false, found {found}")]
    Kind { name: String, found: String },
}

impl From<ResultsError> for QueryError {
    fn from(error: ResultsError) -> Self {
        match error {
            ResultsError::TooLarge { path, limit } => Self::TooLarge { path, limit },
            error => Self::Results(error),
        }
    }
}

/// Width of hints that list names, columns.
const WIDTH: usize = 100;

impl QueryError {
    /// Advice for the user.
    pub fn hint(&self) -> Option<String> {
        let meant = |n: &str| format!("did you mean `{n}`?");
        let listed = |nearest: &Option<String>, what: &str, known: &[String]| {
            let all = wrap(&format!("{what}: {}", known.join(", ")), WIDTH).join("\n  ");
            Some(nearest.as_deref().map(|n| format!("{}\n", meant(n))).unwrap_or_default() + &all)
        };
        match self {
            Self::UnknownName { name, is_table: true, .. } => {
                Some(format!("it is a table: hta query 'SELECT * FROM {name}'"))
            }
            Self::UnknownName { nearest, .. } => nearest.map(meant),
            Self::NotOneSelect { found } if found == "SHOW" => {
                Some("`hta list tables` lists the tables".into())
            }
            Self::NotOneSelect { found }
                if ["DESCRIBE", "DESC", "PRAGMA", "SUMMARIZE"].contains(&found.as_str()) =>
            {
                Some("`hta explain TABLE` lists the columns of a table, with their units".into())
            }
            Self::NotOneSelect { .. } => {
                Some("queries read tables and never write; begin with SELECT or WITH".into())
            }
            Self::Sql { reason } => Some(match instead(reason) {
                Some(way) => format!("write {way}; `hta explain query` says what statements can use"),
                None => "`hta explain query` says what statements can use".into(),
            }),
            Self::Shadows { .. } => Some("give it another name".into()),
            Self::NoTable { known, nearest, .. } => listed(nearest, "tables", known),
            Self::NoColumn { known, nearest, .. } => listed(nearest, "columns", known),
            Self::OutOfReach { without: Some(_), known, .. } => listed(&None, "its columns", known),
            Self::OutOfReach { name, .. } => {
                Some(format!("add `{name}` to that SELECT, or begin with WITH and choose from that part"))
            }
            Self::NoEvents { .. } => {
                Some("analyze again without --no-events, or give the traces: hta query ... TRACE".into())
            }
            Self::Kind { .. } => Some("turn it into text: CAST(... AS VARCHAR)".into()),
            Self::Results(ResultsError::OnlyForTraces { .. }) => Some(
                "what was analyzed is chosen with WHERE, or give the traces instead of the results".into(),
            ),
            Self::TooLarge { limit, .. } => Some(match limit.given {
                true => "raise --memory-limit, or name fewer columns".into(),
                false => {
                    "name fewer columns, or say with --memory-limit that more may be used; a small file that \
                          unpacks to so much may be damaged"
                        .into()
                }
            }),
            Self::TooDeep { .. } => Some("write a long chain of `x = 1 OR x = 2` as `x IN (1, 2)`".into()),
            Self::Results(e) => e.hint().map(String::from),
            Self::Unreadable { .. } => None,
        }
    }
}

/// Functions of other engines, and what to write instead of them.
const INSTEAD: [(&[&str], &str); 4] = [
    (
        &[
            "percentile_cont",
            "percentile",
            "quantile",
            "approx_quantile",
            "approx_percentile",
            "percentile_approx",
        ],
        "QUANTILE_CONT(x, 0.9)",
    ),
    (&["percentile_disc"], "QUANTILE_DISC(x, 0.9)"),
    (&["approx_count_distinct"], "COUNT(DISTINCT x)"),
    (
        &["arg_max", "arg_min", "max_by", "min_by", "mode"],
        "an inner SELECT with ROW_NUMBER() OVER (...) AS n, and WHERE n = 1 around it",
    ),
];

/// What to write instead of a function that the engine lacks.
fn instead(reason: &str) -> Option<&'static str> {
    let name = reason.strip_prefix("unsupported function '")?.split('\'').next()?;
    INSTEAD.iter().find(|(names, _)| names.contains(&name)).map(|(_, way)| *way)
}

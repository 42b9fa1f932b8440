//! Why results cannot be read or written.

use hta_base::table::view::TableError;
use hta_base::units::{MemoryLimit, fmt_bytes};
use hta_read::error::SetError;
use hta_read::files::Fault;
use std::io;
use std::path::Path;

#[derive(Debug, thiserror::Error)]
pub enum ResultsError {
    #[error("cannot open {path}: expected a results folder, found {found}")]
    NoResults { path: String, found: String },
    #[error("cannot read {path}: expected {expected}, found {found}")]
    Damaged { path: String, expected: String, found: String },
    /// A column is missing or of another type: the table is of another version, or damaged.
    #[error("cannot read {path}: expected a column `{column}` as `hta explain` declares it, found {found}")]
    Column { path: String, column: String, found: String },
    #[error("cannot read {path}: expected the table `{table}`, found none")]
    NoTable { path: String, table: &'static str },
    #[error("cannot read {path}: its rows need more than {} of memory", fmt_bytes(.limit.bytes))]
    TooLarge { path: String, limit: MemoryLimit },
    #[error(
        "cannot use {option} for `{analysis}` of results: it compares ranks, so that its rows \
         depend on all of them"
    )]
    NotNarrowed { option: &'static str, analysis: &'static str },
    #[error(
        "cannot use {option} for `{analysis}` of results: its figures are made of more than its tables hold"
    )]
    NotHeld { option: &'static str, analysis: &'static str },
    #[error(
        "cannot use --steps for `{analysis}` of results: `{table}` has figures of all steps together, of \
         which none of one step can be taken"
    )]
    OfAllSteps { analysis: &'static str, table: &'static str },
    #[error("cannot find the ranks asked for: the set holds {0}")]
    NoSuchRank(String),
    #[error(transparent)]
    Set(#[from] SetError),
    #[error("cannot use {place} here: expected traces, found the results of a run")]
    NoTraces { place: String },
    #[error("cannot use {option}: expected traces, found the results in {place}")]
    OnlyForTraces { option: String, place: String },
    #[error("cannot read {path}: {source}")]
    Io { path: String, source: io::Error },
    #[error("cannot write {path}: {source}")]
    Write { path: String, source: io::Error },
}

impl ResultsError {
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            ResultsError::Io { source, .. } if Fault::of(source).is_some() => {
                Fault::of(source).and_then(|f| f.hint)
            }
            ResultsError::NoTable { .. } => {
                Some("analyze the traces again with all analyses, or give them instead")
            }
            ResultsError::TooLarge { .. } => {
                Some("raise --memory-limit; a small file that unpacks to so much may be damaged")
            }
            ResultsError::NotNarrowed { .. }
            | ResultsError::NotHeld { .. }
            | ResultsError::OfAllSteps { .. } => {
                Some("leave it out, or give the traces instead of the results")
            }
            ResultsError::NoSuchRank(_) => None,
            ResultsError::Set(error) => error.hint(),
            ResultsError::NoTraces { .. } => Some(
                "this needs every event: give the traces; hta open, query, and the commands of analyses take \
                 results",
            ),
            ResultsError::OnlyForTraces { .. } => {
                Some("leave it out, or give the traces instead of the results")
            }
            ResultsError::Write { .. } => None,
            _ => Some("give a folder that `hta analyze` or `hta merge` has left, or run it again"),
        }
    }

    /// Why a view could not be made: of tables that were read here.
    pub(crate) fn of_view(error: TableError) -> Self {
        match error.downcast::<ResultsError>() {
            Ok(own) => *own,
            Err(other) => ResultsError::Damaged {
                path: "a table".to_string(),
                expected: "the columns that `hta explain` declares".to_string(),
                found: other.to_string(),
            },
        }
    }

    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        ResultsError::Io { path: path.display().to_string(), source }
    }

    pub(crate) fn column(path: &Path, name: &str, found: impl ToString) -> Self {
        ResultsError::Column {
            path: path.display().to_string(),
            column: name.to_string(),
            found: found.to_string(),
        }
    }

    pub(crate) fn damaged(path: &Path, expected: &str, found: impl ToString) -> Self {
        let (expected, found) = (expected.to_string(), found.to_string());
        ResultsError::Damaged { path: path.display().to_string(), expected, found }
    }
}

//! Tables that a results folder may lack: because the run made only some, or because another version of `hta` did.

use crate::results::ResultsError;

/// Whether a table could be read.
pub enum Readable {
    Yes,
    /// Why not, as the end of a sentence.
    Not(String),
}

/// Takes a missing table or column for unknown.
///
/// # Errors
/// When the table is damaged.
pub(crate) fn known(read: Result<bool, ResultsError>) -> Result<Readable, ResultsError> {
    match read {
        Ok(true) => Ok(Readable::Yes),
        Ok(false) => Ok(Readable::Not("its table is not among these results".to_string())),
        Err(ResultsError::Column { path, column, .. }) => {
            let table = path.rsplit(['/', '\\']).next().unwrap_or_default().trim_end_matches(".parquet").to_string();
            Ok(Readable::Not(format!(
                "the table `{table}` is of another version of hta, without the column `{column}`"
            )))
        }
        Err(e) => Err(e),
    }
}

//! Tables that a results folder may lack: because the run made only some, or because another version of `hta` did.

use crate::output::html::results::ResultsError;

/// Whether a table could be read.
pub enum Known {
    Yes,
    /// Why not, as the end of a sentence.
    Not(String),
}

/// Takes a missing table or column for unknown.
///
/// # Errors
/// When the table is damaged.
pub(crate) fn known(read: Result<bool, ResultsError>) -> Result<Known, ResultsError> {
    match read {
        Ok(true) => Ok(Known::Yes),
        Ok(false) => Ok(Known::Not("its table is not among these results".to_string())),
        Err(ResultsError::Column { path, column, .. }) => {
            let table = path.rsplit(['/', '\\']).next().unwrap_or_default().trim_end_matches(".parquet").to_string();
            Ok(Known::Not(format!("the table `{table}` is of another version of hta, without the column `{column}`")))
        }
        Err(e) => Err(e),
    }
}

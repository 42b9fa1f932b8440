//! Codes of the texts of a table: one number per distinct text, the same in all columns and files of the
//! table.
//!
//! Files store text columns as indices into a dictionary per row group. A statement that only compares texts
//! for equality reads the codes instead, under a name that no statement can contain.

use crate::sql::QueryError;
use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, UInt32Array};
use arrow_schema::DataType as Kind;
use arrow_select::take::take;
use hashbrown::HashMap;
use polars::prelude::{Column, IntoColumn, NamedFrom, PolarsResult, Series};
use std::sync::{Arc, Mutex, PoisonError};

/// What the name of a column of codes begins with.
const PREFIX: &str = "codes\0";

/// The name of the column that contains the codes of a column of texts.
pub(crate) fn code_name(column: &str) -> String {
    format!("{PREFIX}{column}")
}

/// The column of a file that a column is read from: the texts for a column of codes.
pub(crate) fn stored_name(column: &str) -> &str {
    column.strip_prefix(PREFIX).unwrap_or(column)
}

/// Whether a column has codes.
pub(crate) fn is_code(column: &str) -> bool {
    column.starts_with(PREFIX)
}

/// The codes of a table.
#[derive(Debug, Default)]
pub(crate) struct TextCodes(Mutex<TextsByCode>);

#[derive(Debug, Default)]
struct TextsByCode {
    codes: HashMap<Arc<str>, u32>,
    texts: Vec<Arc<str>>,
}

impl TextCodes {
    /// Whether texts of this type have codes.
    pub(crate) fn cover(kind: &Kind) -> bool {
        matches!(kind, Kind::Dictionary(key, words) if **key == Kind::Int32 && **words == Kind::Utf8)
    }

    /// The codes of an array of texts. New texts get the next ones.
    ///
    /// # Errors
    /// When it has no dictionary.
    pub(crate) fn codes(&self, place: &str, array: &ArrayRef) -> Result<ArrayRef, QueryError> {
        let refused = || QueryError::Unreadable {
            path: place.to_string(),
            reason: format!("expected texts with a dictionary, found {}", array.data_type()),
        };
        let texts = array.as_dictionary_opt::<Int32Type>().ok_or_else(refused)?;
        let words = texts.values().as_string_opt::<i32>().ok_or_else(refused)?;
        let codes: UInt32Array = {
            let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            words.iter().map(|word| word.map(|word| known.code(word))).collect()
        };
        take(&codes, texts.keys(), None).map_err(|_| refused())
    }

    /// The texts of codes.
    ///
    /// # Errors
    /// When the column contains something else.
    pub(crate) fn texts(&self, codes: &Column) -> PolarsResult<Column> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let text = |code: Option<u32>| known.texts.get(code? as usize).map(AsRef::as_ref);
        let texts: Vec<Option<&str>> = codes.u32()?.iter().map(text).collect();
        Ok(Series::new(codes.name().clone(), texts).into_column())
    }
}

impl TextsByCode {
    fn code(&mut self, text: &str) -> u32 {
        if let Some(code) = self.codes.get(text) {
            return *code;
        }
        // A table has fewer distinct texts than a 32-bit index of rows can count.
        let code = self.texts.len() as u32;
        let text: Arc<str> = text.into();
        self.texts.push(Arc::clone(&text));
        self.codes.insert(text, code);
        code
    }
}

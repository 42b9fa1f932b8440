//! The texts of a results folder: only files of the folder are read, and no more than is ever written.

use crate::results::room::TableRoom;
use crate::results::{PROOF, ResultsError, declared};
use hta_base::table::schema::TableSpec;
use hta_base::wording::names::clip;
use hta_read::files::Location;
use serde::Deserialize;
use serde::de::{Deserializer, SeqAccess, Visitor};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::{self, Formatter};
use std::io::{self, Read};

/// Maximum length of a summary, bytes, which does not depend on the number of ranks.
const LONGEST_SUMMARY: u64 = 16 << 20;
/// Length of a text that is read within any memory limit, bytes: the reserve for the program covers it.
const SHORT: u64 = 1 << 20;
/// Width of the reason for which a text is no summary, columns: it may cite the text.
const REASON_WIDTH: usize = 160;

/// The text of a file of a folder of results.
///
/// # Errors
/// When it is no file of the folder, too long, or cannot be read.
pub(super) fn text_of(
    folder: &Location,
    name: &str,
    longest: u64,
    room: &TableRoom,
) -> Result<String, ResultsError> {
    let path = folder.join(name);
    let read = || {
        let mut text = String::new();
        path.check_file_below(folder)?;
        let longest = room.left().map_or(longest, |left| left.clamp(SHORT, longest));
        path.open()?.take(longest + 1).read_to_string(&mut text)?;
        if text.len() as u64 > longest {
            return Err(io::Error::other(format!("expected at most {longest} bytes, found more")));
        }
        Ok(text)
    };
    read().map_err(|e| ResultsError::io(&path, e))
}

/// What is read of `summary.json`.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct RunSummary {
    /// The version of `hta` that made the folder.
    #[serde(default)]
    pub(crate) hta_version: String,
    /// Events of all ranks; unknown of a folder of another version.
    #[serde(default)]
    pub(crate) event_count: Option<u64>,
    /// The tables without rows, which have no file.
    #[serde(deserialize_with = "declared_tables")]
    pub(super) empty_tables: BTreeMap<&'static str, &'static TableSpec>,
}

impl RunSummary {
    /// The summary of a folder; the default before it is written, which is last.
    ///
    /// # Errors
    /// When something else is in its place.
    pub(super) fn read(folder: &Location, room: &TableRoom) -> Result<Self, ResultsError> {
        let text = match text_of(folder, PROOF, LONGEST_SUMMARY, room) {
            Err(ResultsError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            text => text?,
        };
        serde_json::from_str(&text).map_err(|e| {
            let reason = clip(&e.to_string(), REASON_WIDTH);
            ResultsError::damaged(&folder.join(PROOF), "the summary of a run", reason)
        })
    }
}

/// The declared tables of a list of names. Any other name is left out as it is read.
fn declared_tables<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<BTreeMap<&'static str, &'static TableSpec>, D::Error> {
    struct TableNames;
    impl<'de> Visitor<'de> for TableNames {
        type Value = BTreeMap<&'static str, &'static TableSpec>;

        fn expecting(&self, out: &mut Formatter) -> fmt::Result {
            out.write_str("a list of names of tables")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut names: A) -> Result<Self::Value, A::Error> {
            let mut tables = BTreeMap::new();
            while let Some(name) = names.next_element::<Cow<str>>()? {
                tables.extend(declared(&name).map(|spec| (spec.name, spec)));
            }
            Ok(tables)
        }
    }
    from.deserialize_seq(TableNames)
}

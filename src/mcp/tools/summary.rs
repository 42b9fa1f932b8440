//! `summary.json` of results: verdict, causes, totals, problems of the input.

use crate::mcp::answer::Refusal;
use crate::mcp::source::apart;
use hta_read::files::Location;
use serde_json::Value;
use std::fmt::Display;
use std::io::{self, Read};

/// `summary.json` of a results folder.
///
/// # Errors
/// When there is none, or it is none of hta.
pub async fn read(folder: &Location, name: &str) -> Result<Value, Refusal> {
    // It is small, whatever the number of ranks.
    const LONGEST: u64 = 4 << 20;
    let folder = folder.clone();
    let read = apart(move || {
        let (path, mut bytes) = (folder.join("summary.json"), Vec::new());
        path.check_file_below(&folder)?;
        path.open()?.take(LONGEST + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > LONGEST {
            return Err(io::Error::other(format!("expected at most {LONGEST} bytes, found more")));
        }
        Ok(bytes)
    });
    let bytes = read.await?.map_err(|e| unreadable(name, e))?;
    serde_json::from_slice(&bytes).map_err(|e| unreadable(name, e))
}

/// The refusal of a summary that hta has not written.
pub fn unreadable(name: &str, reason: impl Display) -> Refusal {
    Refusal::cannot_answer(format!("cannot read summary.json of `{name}`: {reason}"))
        .hint("give a folder that `hta analyze` or `hta merge` has left, or run it again")
}

pub fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

pub fn texts(value: Option<&Value>) -> Vec<&str> {
    list(value).iter().filter_map(Value::as_str).collect()
}

pub fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

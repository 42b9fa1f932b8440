//! Rows of a results folder by SQL, from a worker that is ended when it takes too long.

use crate::mcp::answer::Refusal;
use crate::mcp::worker;
use crate::mcp::worker::{WorkerError, WorkerLimits, error_of};
use hta_base::units::fmt_bytes;
use hta_read::files::Location;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use std::ffi::OsString;
use std::fmt;

/// Longest statement, bytes.
const LONGEST: usize = 20_000;

/// Columns, and a value for each in every row.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToldRows {
    pub columns: Vec<String>,
    pub rows: Vec<Vec<Value>>,
}

impl ToldRows {
    /// A cell; null if there is no such column or row.
    pub fn get(&self, row: usize, column: &str) -> &Value {
        let at = self.columns.iter().position(|c| c == column);
        at.and_then(|at| self.rows.get(row)?.get(at)).unwrap_or(&Value::Null)
    }

    pub fn text(&self, row: usize, column: &str) -> &str {
        self.get(row, column).as_str().unwrap_or_default()
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }
}

/// A text as an SQL literal.
pub fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// The first `most` rows of a statement over a results folder that tools call `name`.
///
/// # Errors
/// When the statement is refused, takes too long, or needs too much.
pub async fn ask(
    folder: &Location,
    name: &str,
    statement: &str,
    most: usize,
    (limits, store): (&WorkerLimits, &[OsString]),
) -> Result<ToldRows, Refusal> {
    // A single word would be the name of a query or of a file.
    if !statement.trim().contains(char::is_whitespace) {
        return Err(Refusal::refused("cannot run the statement: expected one SELECT")
            .hint("`queries` lists ready ones"));
    }
    if statement.len() > LONGEST {
        let found = statement.len();
        return Err(Refusal::refused(format!(
            "expected a statement of at most {LONGEST} bytes, found {found}"
        )));
    }
    let mut arguments: Vec<OsString> =
        ["query", "--format", "json", "--results"].map(OsString::from).to_vec();
    arguments.extend([folder.as_os_str().into(), "--limit".into(), most.to_string().into()]);
    if let Some(memory) = limits.memory {
        arguments.extend(["--memory-limit".into(), memory.to_string().into()]);
    }
    if let Some(time) = limits.time {
        // The limit of the worker's process ends it first.
        arguments.extend(["--time-limit".into(), (time.as_secs() + 60).to_string().into()]);
    }
    arguments.extend(store.iter().cloned());
    arguments.extend(["--".into(), statement.into()]);
    let ran = worker::run(&arguments, limits).await;
    let finished = ran.map_err(|e| match e {
        WorkerError::Start(_) => Refusal::cannot_answer(e.to_string()),
        WorkerError::TooSlow(_) => Refusal::refused(format!("cannot run the statement: {e}"))
            .hint("join on keys, filter before joining, or aggregate"),
        WorkerError::TooLong(_) => Refusal::refused(format!("cannot run the statement: {e}"))
            .hint("name fewer columns, or ask for fewer rows"),
    })?;
    // A worker to which the system refuses memory says so and ends.
    let is_refused_memory = finished.messages.contains("memory allocation of ");
    match finished.code.filter(|_| !is_refused_memory) {
        Some(0) => {}
        None => {
            let memory =
                limits.memory.map_or_else(String::new, |m| format!(" of more than {}", fmt_bytes(m)));
            return Err(Refusal::refused(format!(
                "cannot run the statement: it ended, probably for want of memory{memory}"
            ))
            .hint("name fewer columns, filter before joining, or aggregate"));
        }
        Some(_) => {
            let (reason, hint) = error_of(&finished.messages.replace(&folder.display().to_string(), name));
            let refusal = Refusal::refused(reason);
            return Err(match hint {
                Some(hint) => refusal.hint(hint),
                None => refusal,
            });
        }
    }
    let records: Vec<Record> = serde_json::from_slice(&finished.output)
        .map_err(|e| Refusal::cannot_answer(format!("the answer cannot be read: {e}")))?;
    let columns =
        records.first().map(|r| r.0.iter().map(|(name, _)| name.clone()).collect()).unwrap_or_default();
    Ok(ToldRows {
        columns,
        rows: records.into_iter().map(|r| r.0.into_iter().map(|(_, v)| v).collect()).collect(),
    })
}

/// An object with its keys in their order.
struct Record(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Record {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Record;

            fn expecting(&self, out: &mut fmt::Formatter) -> fmt::Result {
                out.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Record, M::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Record(pairs))
            }
        }
        from.deserialize_map(Pairs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_keep_their_order() {
        let records: Vec<Record> = serde_json::from_str(r#"[{"z": 1, "a": null}]"#).unwrap();
        let names: Vec<&str> = records[0].0.iter().map(|(n, _)| n.as_str()).collect();
        assert_eq!(names, ["z", "a"]);
    }

    #[test]
    fn quotes_in_literals_are_doubled() {
        assert_eq!(literal("a'; DROP"), "'a''; DROP'");
    }
}

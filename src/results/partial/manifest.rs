//! `partial.json`: the version of the format, the options, and the length and checksum of every other file.
//!
//! The version is outside of the part that the checksum covers, so that a partial of another version can be
//! told from a damaged one.

use crate::partial::error::PartialError;
use crate::store::{PROGRAM, VERSION};
use flate2::Crc;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Value of the field `format`.
const FORMAT: &str = "hta-partial";

/// Name of the file.
pub const NAME: &str = "partial.json";

/// A file of a partial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListedFile {
    /// Path relative to the partial's folder, with `/`.
    pub(crate) name: String,
    /// Length, bytes.
    pub(crate) bytes: u64,
    /// CRC-32 of its bytes.
    pub(crate) sum: u32,
}

/// The content of `partial.json`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// Values by option; options are named as on the command line.
    pub(crate) options: BTreeMap<String, String>,
    pub(crate) files: Vec<ListedFile>,
}

/// CRC-32 of some bytes.
pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    let mut sum = Crc::new();
    sum.update(bytes);
    sum.sum()
}

impl Manifest {
    /// The text of the file.
    pub(crate) fn text(&self) -> String {
        let file = |f: &ListedFile| json!({ "name": f.name, "bytes": f.bytes, "crc32": f.sum });
        let body =
            json!({ "options": self.options, "files": self.files.iter().map(file).collect::<Vec<_>>() });
        let all = json!({
            "format": FORMAT, "version": VERSION, "hta_version": PROGRAM,
            "crc32": checksum(body.to_string().as_bytes()), "body": body,
        });
        format!("{all:#}\n")
    }

    /// Whether a text is the `partial.json` of a partial of any version.
    pub(crate) fn is_one(text: &[u8]) -> bool {
        #[derive(serde::Deserialize)]
        struct Head {
            format: String,
        }
        serde_json::from_slice::<Head>(text).is_ok_and(|head| head.format == FORMAT)
    }

    /// Reads the file of the partial at `path`.
    ///
    /// # Errors
    /// When the text is not that of a partial, or the partial has another version or is damaged.
    pub(crate) fn parse(path: &str, bytes: &[u8]) -> Result<Self, PartialError> {
        let damaged = |expected: &str, found: String| PartialError::Damaged {
            path: path.to_string(),
            file: NAME.to_string(),
            expected: expected.to_string(),
            found,
        };
        let all: Value =
            serde_json::from_slice(bytes).map_err(|e| damaged("the JSON of a partial", e.to_string()))?;
        if all.get("format").and_then(Value::as_str) != Some(FORMAT) {
            let found = format!("another {NAME}");
            return Err(PartialError::Foreign { path: path.to_string(), found });
        }
        let version = all.get("version").and_then(Value::as_u64);
        let found = version.ok_or_else(|| damaged("a version", "none".to_string()))?;
        if found != VERSION {
            return Err(PartialError::Version { path: path.to_string(), expected: VERSION, found });
        }
        let program = all.get("hta_version").and_then(Value::as_str).unwrap_or("of no version");
        if program != PROGRAM {
            let found = program.to_string();
            return Err(PartialError::Program { path: path.to_string(), expected: PROGRAM, found });
        }
        let body = all.get("body").ok_or_else(|| damaged("a body", "none".to_string()))?;
        let sum = checksum(body.to_string().as_bytes());
        let stated = all.get("crc32").and_then(Value::as_u64);
        if stated != Some(u64::from(sum)) {
            let expected = stated.map_or("a checksum".to_string(), |s| format!("checksum {s:08x}"));
            return Err(damaged(&expected, format!("checksum {sum:08x}")));
        }
        let options = body.get("options").and_then(Value::as_object).map_or_else(BTreeMap::new, texts);
        let list = body.get("files").and_then(Value::as_array);
        let files: Option<Vec<ListedFile>> =
            list.map_or(Some(Vec::new()), |l| l.iter().map(listed).collect());
        let files = files.ok_or_else(|| damaged("a list of files", "other values".to_string()))?;
        Ok(Self { options, files })
    }

    /// The files of one folder of the partial.
    pub(crate) fn below<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = &'a ListedFile> {
        self.files.iter().filter(move |f| f.name.split_once('/').is_some_and(|(head, _)| head == folder))
    }
}

fn texts(map: &Map<String, Value>) -> BTreeMap<String, String> {
    map.iter().filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_string()))).collect()
}

fn listed(file: &Value) -> Option<ListedFile> {
    let name = file.get("name")?.as_str()?;
    let (folder, own) = name.split_once('/')?;
    // Never accept a path that leaves the partial's folder.
    let is_plain =
        |part: &str| !part.is_empty() && !part.contains(['/', '\\', '\0']) && part != ".." && part != ".";
    if !is_plain(folder) || !is_plain(own) {
        return None;
    }
    let sum = u32::try_from(file.get("crc32")?.as_u64()?).ok()?;
    Some(ListedFile { name: name.to_string(), bytes: file.get("bytes")?.as_u64()?, sum })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Manifest {
        let options = BTreeMap::from([("--top".to_string(), "16".to_string())]);
        let files = vec![ListedFile { name: "state/a.parquet".to_string(), bytes: 7, sum: u32::MAX }];
        Manifest { options, files }
    }

    #[test]
    fn what_is_written_is_read_and_any_change_of_it_is_seen() {
        let text = sample().text();
        assert_eq!(Manifest::parse("P", text.as_bytes()).unwrap(), sample());
        for (from, to) in
            [("16", "17"), ("a.parquet", "b.parquet"), ("4294967295", "4294967294"), ("\"body\"", "\"b\"")]
        {
            let changed = text.replacen(from, to, 1);
            assert_ne!(changed, text);
            assert!(Manifest::parse("P", changed.as_bytes()).is_err(), "{changed}");
        }
        for end in 0..text.len() - 1 {
            assert!(Manifest::parse("P", &text.as_bytes()[..end]).is_err(), "{end}");
        }
    }

    #[test]
    fn a_file_outside_of_the_partial_is_never_listed() {
        for name in ["../x", "/etc/passwd", "state/../../x", "x", "state/", "a/b/c"] {
            assert_eq!(listed(&json!({ "name": name, "bytes": 1, "crc32": 1 })), None, "{name}");
        }
    }

    #[test]
    fn a_file_without_a_checksum_is_damage() {
        let listed_as =
            |sum: Value| listed(&json!({ "name": "events/rank=00000.parquet", "bytes": 1, "crc32": sum }));
        assert!(listed_as(json!(7)).is_some());
        assert!(
            [Value::Null, json!(-1), json!("7"), json!(1u64 << 32)]
                .into_iter()
                .all(|s| listed_as(s).is_none())
        );
    }

    #[test]
    fn another_version_is_told_from_damage() {
        let text = sample().text().replacen("\"version\": 6", "\"version\": 7", 1);
        let error = Manifest::parse("P", text.as_bytes()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot merge P: expected partials of format version 6, found version 7"
        );
        assert_eq!(error.hint(), Some("it was made by a newer hta: merge with that one"));
    }
}

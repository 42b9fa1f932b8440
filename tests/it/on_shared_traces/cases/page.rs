//! A page `EXPECTED.md`: a table in Markdown with a row per input.

use super::entry::Entry;
use crate::shared;
use std::path::Path;

pub struct Page {
    /// The first cell and the whole text of each row.
    rows: Vec<(String, String)>,
}

impl Page {
    pub fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let body = text.lines().filter(|l| l.starts_with('|')).skip(2);
        let first = |line: &str| line.split('|').nth(1).unwrap_or_default().trim().to_string();
        Self { rows: body.map(|l| (first(l), l.to_string())).collect() }
    }

    /// Rows without an entry, entries without a row, and right values that do not stand in their row.
    pub fn mistakes(&self, entries: &[Entry]) -> Vec<String> {
        let mut wrong = Vec::new();
        let is_of = |e: &Entry, first: &str| first.starts_with(&e.input);
        for (first, _) in &self.rows {
            if !entries.iter().any(|e| is_of(e, first)) {
                wrong.push(format!("`{first}`: the row has no entry"));
            }
        }
        for e in entries {
            let of_entry: Vec<&(String, String)> =
                self.rows.iter().filter(|(first, _)| is_of(e, first)).collect();
            let [(_, row)] = of_entry[..] else {
                wrong.push(format!("`{}`: begins {} rows, not one", e.input, of_entry.len()));
                continue;
            };
            let absent = e.right.iter().filter(|r| !row.contains(r.as_str()));
            wrong.extend(absent.map(|r| format!("`{}`: `{r}` does not stand in the row", e.input)));
            if e.runs.is_empty() && e.elsewhere.is_none() && e.open.is_none() {
                wrong.push(format!("`{}`: nothing is checked", e.input));
            }
            let missing = e.elsewhere.iter().filter(|test| !is_test(test));
            wrong.extend(missing.map(|test| format!("`{}`: there is no test `{test}`", e.input)));
        }
        wrong
    }
}

/// Whether a file of tests has a function with the last word of this path.
fn is_test(path: &str) -> bool {
    let name = format!("fn {}(", path.rsplit("::").next().unwrap_or(path));
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = ["tests/it", "src"].iter().flat_map(|folder| shared::files_below(&root.join(folder)));
    files.filter(|f| f.extension().is_some_and(|e| e == "rs")).any(|f| {
        let text = std::fs::read_to_string(&f).unwrap_or_default();
        text.contains(&name)
    })
}

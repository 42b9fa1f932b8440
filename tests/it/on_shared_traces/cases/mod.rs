//! Small inputs with the right answer beside each: the folders `recordings`, `reports`, `jobs`, `hostile`,
//! `reports4`, `files4` and `gains4` of `../shared/cases`. Each has a page `EXPECTED.md` with a table, a row
//! per input; `tests/cases/<folder>.toml` says what the program must answer. The page is read as data: each
//! of its rows must have an entry, and the right values that an entry checks must stand in the row.

mod entry;
mod page;
mod program;

use crate::shared;
use entry::Entry;
use page::Page;
use std::path::{Path, PathBuf};

fn cases(folder: &str) -> Option<PathBuf> {
    shared::folder()?.cases(folder)
}

fn entries(folder: &str) -> Vec<Entry> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/cases/{folder}.toml"));
    entry::read(&path)
}

/// Checks the entries of a folder against its page, and the program against the entries.
fn check(folder: &str) {
    let Some(root) = cases(folder) else { return };
    let page = Page::read(&root.join("EXPECTED.md"));
    let entries = entries(folder);
    let mut wrong = page.mistakes(&entries);
    for entry in &entries {
        wrong.extend(entry.runs.iter().flat_map(|run| program::mistakes(&root, &entry.input, run)));
    }
    assert!(wrong.is_empty(), "{} of `{folder}`:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn recordings_get_the_right_answer() {
    check("recordings");
}

#[test]
fn reports_get_the_right_answer() {
    check("reports");
}

#[test]
fn jobs_get_the_right_answer() {
    check("jobs");
}

#[test]
fn hostile_inputs_get_the_right_answer() {
    check("hostile");
}

#[test]
fn conditions_of_later_reports_get_the_right_answer() {
    check("reports4");
}

#[test]
fn real_recordings_get_the_right_answer() {
    check("files4");
}

#[test]
fn gains_get_the_right_answer() {
    check("gains4");
}

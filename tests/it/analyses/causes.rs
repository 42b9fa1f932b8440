//! Causes are told in one place each, and their examples have them.

use crate::run::{answer, options};
use crate::shared;
use hta::diagnosis::CauseKind;
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Where the causes are, one file each, with the list of them.
const CAUSES: &str = "src/diagnosis/causes";

/// So many kinds in one file are a list of them.
const LIST: usize = 5;

#[test]
fn the_example_of_a_cause_has_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for kind in CauseKind::ALL.iter().filter(|kind| !kind.shown_by().is_empty()) {
        let example = kind.shown_by();
        let path = root.join(example);
        assert!(path.exists(), "{}: there is no {example}", kind.name());
        let has_it = match example.strip_suffix(".rs") {
            Some(_) => std::fs::read_to_string(&path).expect("a test can be read").contains(kind.name()),
            None => found
                .entry(example)
                .or_insert_with(|| {
                    let answer = answer(std::slice::from_ref(&path), &options());
                    answer.rows("findings").iter().map(|r| r.text("kind").to_string()).collect()
                })
                .contains(kind.name()),
        };
        assert!(has_it, "{} is not in {example}", kind.name());
    }
}

#[test]
fn recordings_with_a_planted_cause_are_named_after_one() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/causes");
    for file in shared::files_below(&folder) {
        let name = file.file_name().and_then(|n| n.to_str()).unwrap_or("");
        let Some(name) = name.strip_suffix(".json.gz").filter(|name| !name.starts_with("healthy")) else {
            continue;
        };
        assert!(CauseKind::ALL.iter().any(|kind| name.starts_with(kind.name())), "no cause is called {name}");
    }
}

/// Kinds that a text names as words of their own, by their name or that of their variant.
fn named(text: &str) -> BTreeSet<&'static str> {
    let word =
        Regex::new(r"\bCauseKind::(\w+)|\b([a-z]+(?:_[a-z]+)+|straggler|imbalance)\b").expect("a regex");
    let words: BTreeSet<&str> =
        word.captures_iter(text).filter_map(|c| c.get(1).or_else(|| c.get(2))).map(|m| m.as_str()).collect();
    let names = CauseKind::ALL.iter().map(|kind| (kind.name(), format!("{kind:?}")));
    names
        .filter(|(name, variant)| words.contains(name) || words.contains(variant.as_str()))
        .map(|(n, _)| n)
        .collect()
}

#[test]
fn causes_are_listed_in_one_place() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut lists = Vec::new();
    for folder in ["src", "python", "notebooks", "queries"] {
        for file in shared::files_below(&root.join(folder)) {
            let name = file.strip_prefix(root).expect("below the root").display().to_string();
            // The page explains in prose how causes exclude each other.
            let is_page = name == "src/diagnosis/page.md";
            let is_text = [".rs", ".js", ".py", ".sql", ".html", ".css", ".md", ".ipynb"]
                .iter()
                .any(|e| name.ends_with(e));
            if name.starts_with(CAUSES) || name.contains("plotly") || is_page || !is_text {
                continue;
            }
            let text = std::fs::read_to_string(&file).expect("a text file can be read");
            let kinds = named(&text);
            if kinds.len() >= LIST {
                lists.push(format!("{name}: {kinds:?}"));
            }
        }
    }
    assert!(lists.is_empty(), "causes are listed outside of {CAUSES}:\n{}", lists.join("\n"));
    // Each file is one of the list, and a cause.
    let files: BTreeSet<String> = shared::files_below(&root.join(CAUSES))
        .iter()
        .filter_map(|f| f.strip_prefix(root.join(CAUSES)).ok()?.to_str().map(str::to_string))
        .map(|f| f.split(['/', '.']).next().unwrap_or("").to_string())
        .filter(|f| f != "mod")
        .collect();
    let kinds: BTreeSet<String> = CauseKind::ALL.iter().map(|kind| kind.name().to_string()).collect();
    assert_eq!(files, kinds);
}

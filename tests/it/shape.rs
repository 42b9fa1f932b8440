//! The shape of the source: types have names of their own, and files, functions and lines are short enough to read.
//!
//! A limit that does not hold yet is a ceiling: it may fall and never rise.

use crate::shared;
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Longest file, function and line, without tests.
const FILE_LINES: usize = 400;
const FUNCTION_LINES: usize = 80;
const LINE_COLUMNS: usize = 110;

/// How many files and lines are longer; no function is.
const LONG_FILES: usize = 7;
const LONG_LINES: usize = 140;

/// The source files below `src` with their texts.
fn source() -> Vec<(String, String)> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files = shared::files_below(&src).into_iter().filter(|f| f.extension().is_some_and(|e| e == "rs"));
    let read = |file: std::path::PathBuf| {
        let name = file.strip_prefix(&src).expect("below src").display().to_string();
        (name, std::fs::read_to_string(&file).expect("a source file can be read"))
    };
    files.map(read).collect()
}

/// The folders of `src` that are crates.
const CRATES: [&str; 10] =
    ["base", "trace", "testkit", "read", "facts", "job", "analysis", "diagnosis", "compat", "results"];

/// The crate of a file: the program is what has no folder with a name of its own crate.
fn crate_of(file: &str) -> String {
    let room = file.split('/').next().unwrap_or_default();
    let is_crate = CRATES.contains(&room);
    if is_crate { room } else { "hta" }.to_string()
}

/// Whether a file holds only tests, or what only tests use.
fn is_test(name: &str) -> bool {
    name.ends_with("tests.rs") || name.split('/').any(|part| part == "tests")
}

/// The text up to its tests.
fn own(text: &str) -> &str {
    text.find("#[cfg(test)]\nmod tests").and_then(|end| text.get(..end)).unwrap_or(text)
}

/// The text with every comment, text and character literal blank, so that braces and words are those of the code. Lines
/// stay lines.
fn code(text: &str) -> String {
    let literals =
        r##"//[^\n]*|(?s:/\*.*?\*/)|b?r#"(?s:.*?)"#|b?"(?s:[^"\\]|\\.)*"|b?'(?:[^'\\\n]|\\[^\n][^'\n]*)'"##;
    let literals = Regex::new(literals).expect("a regex");
    let blank = |c: &regex::Captures| c[0].chars().filter(|c| *c == '\n').collect::<String>();
    literals.replace_all(text, blank).into_owned()
}

/// Names of the types that a file declares, in and outside of `table!`. Types inside of traits and implementations are
/// indented, and their names belong to them.
fn types(text: &str) -> BTreeSet<String> {
    let declared =
        r"(?m)^\s*(?:pub(?:\([^)]*\))?\s+)?(?:struct|enum|trait|union)\s+(\w+)(?:\s*,\s*(\w+)\s*=)?";
    let alias = r"(?m)^(?:pub(?:\([^)]*\))?\s+)?type\s+(\w+)";
    let mut found = BTreeSet::new();
    for regex in [declared, alias] {
        for captures in Regex::new(regex).expect("a regex").captures_iter(text) {
            found.extend(captures.iter().skip(1).flatten().map(|m| m.as_str().to_string()));
        }
    }
    found
}

/// Name and number of lines of each function.
fn functions(code: &str) -> Vec<(String, usize)> {
    let head = Regex::new(r"\bfn\s+(\w+)").expect("a regex");
    let length = |at: usize| {
        let mut depth = 0;
        for (offset, c) in code.get(at..).unwrap_or_default().char_indices() {
            match c {
                '{' => depth += 1,
                ';' if depth == 0 => return None,
                '}' if depth == 1 => {
                    return Some(1 + code.get(at..at + offset).unwrap_or_default().matches('\n').count());
                }
                '}' => depth -= 1,
                _ => {}
            }
        }
        None
    };
    head.captures_iter(code).filter_map(|c| Some((c[1].to_string(), length(c.get(0)?.start())?))).collect()
}

#[test]
fn types_have_names_of_their_own() {
    let mut by_name: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for (file, text) in source().into_iter().filter(|(file, _)| !is_test(file)) {
        // Each table has a type of this name, which no code can name.
        for name in types(&code(own(&text)))
            .into_iter()
            .filter(|name| !file.ends_with("table/declare.rs") || name != "Columns")
        {
            by_name.entry((crate_of(&file), name)).or_default().push(file.clone());
        }
    }
    assert!(by_name.len() > 1300, "{} types: the scan sees too little", by_name.len());
    let twice = by_name.iter().filter(|(_, files)| files.len() > 1);
    let twice: Vec<String> =
        twice.map(|((_, name), files)| format!("{name}: {}", files.join(", "))).collect();
    assert!(twice.is_empty(), "types of one name; name each by what it is:\n{}", twice.join("\n"));
}

#[test]
fn files_functions_and_lines_are_short() {
    let (mut files, mut long, mut lines) = (Vec::new(), Vec::new(), 0);
    for (file, text) in source() {
        let own = own(&text);
        let count = own.lines().count();
        if count > FILE_LINES && !is_test(&file) {
            files.push(format!("{file}: {count} lines"));
        }
        let too_long = functions(&code(own)).into_iter().filter(|(_, count)| *count > FUNCTION_LINES);
        long.extend(too_long.map(|(name, count)| format!("{file}: {name}, {count} lines")));
        lines += text.lines().filter(|line| line.chars().count() > LINE_COLUMNS).count();
    }
    assert!(
        files.len() <= LONG_FILES,
        "{} files are longer than {FILE_LINES} lines:\n{}",
        files.len(),
        files.join("\n")
    );
    assert!(long.is_empty(), "functions longer than {FUNCTION_LINES} lines:\n{}", long.join("\n"));
    assert!(
        lines <= LONG_LINES,
        "{lines} lines are longer than {LINE_COLUMNS} columns, at most {LONG_LINES} were"
    );
}

#[test]
fn actions_of_workflows_are_named_by_the_hash_of_a_commit() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(".github/workflows");
    let pinned = Regex::new("uses: [^@ ]+@[0-9a-f]{40} # v[0-9.]+$").expect("a pattern");
    for file in shared::files_below(&folder) {
        let text = std::fs::read_to_string(&file).expect("a workflow can be read");
        let loose: Vec<&str> = text.lines().filter(|l| l.contains("uses:") && !pinned.is_match(l)).collect();
        assert!(loose.is_empty(), "{}: {loose:?}", file.display());
    }
}

#[test]
fn the_scan_sees_types_and_the_lengths_of_functions() {
    let text = "pub struct A<'a> { b: &'a str }\ntable! {\n    pub struct B, Row = \"b\" {}\n}\n// struct C\npub(super) type D = u8;\nimpl A {\n    type E = u8;\n    fn f() -> char {\n        '{'\n    }\n}\ntrait F { fn g(); }\n";
    let code = code(text);
    assert_eq!(types(&code).into_iter().collect::<Vec<_>>(), ["A", "B", "D", "F", "Row"]);
    assert_eq!(functions(&code), [("f".to_string(), 3)]);
}

/// What the source does by hand that declarations should do: where it is counted, what it looks like, and how often it
/// still stands there. A count may fall and never rise.
const BY_HAND: [(&str, &[&str], &str, usize); 6] = [
    ("alignments of printed columns", &["analysis/", "diagnosis/", "job/", "compat/"], r"\bAlign::", 0),
    // Words of causes and of rules for recordings are theirs, with the numbers in them.
    ("numbers formatted by analyses", &["analysis/"], r"\bfmt_\w+\(", 109),
    (
        "types of cells outside of base",
        &["analysis/", "diagnosis/", "facts/", "job/", "compat/", "results/", "mcp/", "cli/"],
        r"\bCellType::",
        5,
    ),
    ("grids of the page made by hand", &["results/"], r"\bGrid::new\(", 0),
    (
        "functions that return a view",
        &["analysis/", "diagnosis/", "job/", "compat/"],
        r"->\s*(?:Option<|Vec<)?View\b",
        14,
    ),
    ("sums over ranks by hand", &["analysis/", "diagnosis/", "job/"], r"\bOverRanks::new\(", 3),
];

#[test]
fn what_is_made_by_hand_only_becomes_less() {
    let source = source();
    let mut more = Vec::new();
    for (what, rooms, pattern, ceiling) in BY_HAND {
        let pattern = Regex::new(pattern).expect("a regex");
        let of_room = |(file, _): &&(String, String)| rooms.iter().any(|room| file.starts_with(room));
        let of_rooms = source.iter().filter(of_room).filter(|(file, _)| !is_test(file));
        let found: usize = of_rooms.map(|(_, text)| pattern.find_iter(&code(own(text))).count()).sum();
        if found != ceiling {
            more.push(format!("{what}: {found}, with a ceiling of {ceiling}"));
        }
    }
    assert!(
        more.is_empty(),
        "raise none of them; lower the ceiling of what became less:\n{}",
        more.join("\n")
    );
}

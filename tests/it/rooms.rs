//! Checks the dependencies between the modules of the source: inside a crate, which modules may use which, and that
//! there are no cycles. Between crates the compiler allows one direction only.
//!
//! The files and folders of every folder are the nodes of a graph. A node uses another if any of its files names a
//! module of the other. These graphs have no cycles, and the modules of a crate follow the order of [`ORDER`]. The
//! `mod.rs` of a folder represents the folder itself, so it may use the folder's content and be used by it.

use crate::shared;
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// For each crate its modules in order; each may use those before it. `*` stands for all that are not named.
const ORDER: [(&str, &[&str]); 10] = [
    ("base", &["order_statistics", "process", "units", "wording", "table", "health"]),
    ("trace", &["*", "kernel", "flops"]),
    ("read", &["files", "error", "*"]),
    ("facts", &["*"]),
    ("job", &["*", "recording"]),
    ("analysis", &["*"]),
    ("diagnosis", &["*", "registry"]),
    ("compat", &["*"]),
    ("results", &["results", "diff", "store", "run", "output", "partial", "sql"]),
    ("hta", &["overlay", "mcp", "cli"]),
];

/// For each module's path, the modules that its file names.
type Uses = BTreeMap<Vec<String>, BTreeSet<Vec<String>>>;

/// A file's text without comments and tests.
fn code(text: &str) -> String {
    let tests = text.find("#[cfg(test)]\nmod tests").unwrap_or(text.len());
    let without = |line: &str| line.split("//").next().unwrap_or_default().to_string();
    text[..tests].lines().map(without).collect::<Vec<_>>().join("\n")
}

/// The paths in a tree of imports: `a::{b, c::{d, e}}` gives `a::b`, `a::c::d` and `a::c::e`.
fn leaves(tree: &str) -> Vec<String> {
    let Some((before, inside)) = tree.split_once('{') else { return vec![tree.trim().to_string()] };
    let inside = inside.rsplit_once('}').map_or(inside, |(inside, _)| inside);
    let (mut parts, mut open, mut from) = (Vec::new(), 0, 0);
    for (at, c) in inside.char_indices() {
        match c {
            '{' => open += 1,
            '}' => open -= 1,
            ',' if open == 0 => {
                parts.push(&inside[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&inside[from..]);
    let parts = parts.into_iter().map(str::trim).filter(|p| !p.is_empty());
    parts.flat_map(|p| leaves(&format!("{}{p}", before.trim_start()))).collect()
}

/// The module in `known` to which a path leads, seen from `own`.
fn target(path: &str, own: &[String], known: &BTreeSet<Vec<String>>) -> Option<Vec<String>> {
    let mut full: Vec<String> = own.to_vec();
    for (i, part) in path.split("::").map(str::trim).enumerate() {
        match part {
            name if i == 0 && name.starts_with("hta_") => full = vec![name["hta_".len()..].to_string()],
            "crate" if i == 0 => full.truncate(1),
            "self" => {}
            "super" => drop(full.pop()),
            name => full.push(name.split(' ').next().unwrap_or_default().to_string()),
        }
    }
    while !full.is_empty() && !known.contains(&full) {
        full.pop();
    }
    Some(full).filter(|f| !f.is_empty() && f != own)
}

fn uses(files: &BTreeMap<Vec<String>, String>) -> Uses {
    let import = Regex::new(r"\buse\s+([^;]+);").expect("a regex");
    let inline = Regex::new(r"\b(?:crate|super|hta_\w+)(?:::\w+)+").expect("a regex");
    let known: BTreeSet<Vec<String>> = files.keys().cloned().collect();
    let of = |(own, text): (&Vec<String>, &String)| {
        let text = code(text);
        let imports = import.captures_iter(&text).flat_map(|c| leaves(&c[1]));
        let named = imports.chain(inline.find_iter(&text).map(|m| m.as_str().to_string()));
        (own.clone(), named.filter_map(|path| target(&path, own, &known)).collect())
    };
    files.iter().map(of).collect()
}

/// For each child of a folder, the children that it uses, with a file that does.
fn children(uses: &Uses, folder: &[String]) -> BTreeMap<String, BTreeMap<String, Vec<String>>> {
    let child = |m: &[String]| m.strip_prefix(folder).and_then(|rest| rest.first().cloned());
    let mut out: BTreeMap<String, BTreeMap<String, Vec<String>>> = BTreeMap::new();
    for (own, targets) in uses {
        let Some(from) = child(own) else { continue };
        for to in targets.iter().filter_map(|t| child(t)).filter(|to| *to != from) {
            out.entry(from.clone()).or_default().entry(to).or_insert_with(|| own.clone());
        }
    }
    out
}

/// A cycle among the children of a folder: the nodes that remain after nodes that use no remaining node, or are used by
/// none, have been removed repeatedly.
fn circle(graph: &BTreeMap<String, BTreeMap<String, Vec<String>>>) -> Vec<String> {
    let mut left: BTreeSet<&String> = graph.keys().collect();
    loop {
        let uses = |n: &&String| graph[*n].keys().any(|t| left.contains(t));
        let used = |n: &&String| left.iter().any(|m| graph[*m].contains_key(*n));
        let kept: BTreeSet<&String> = left.iter().copied().filter(|n| uses(n) && used(n)).collect();
        if kept.len() == left.len() {
            return left.into_iter().cloned().collect();
        }
        left = kept;
    }
}

/// The source text by module path, of which the first part is the crate.
fn source() -> BTreeMap<Vec<String>, String> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = BTreeMap::new();
    for file in shared::files_below(&src) {
        if file.extension().is_none_or(|e| e != "rs") {
            continue;
        }
        let path = file.strip_prefix(&src).expect("below src").with_extension("");
        let mut module: Vec<String> = path.iter().map(|p| p.to_string_lossy().into_owned()).collect();
        if !src.join(&module[0]).join("lib.rs").exists() {
            module.insert(0, "hta".to_string());
        }
        if module.last().is_some_and(|m| m == "mod" || m == "lib") {
            module.pop();
        }
        files.insert(module, std::fs::read_to_string(&file).expect("a source file can be read"));
    }
    files
}

#[test]
fn the_modules_of_a_crate_use_each_other_one_way_only() {
    let uses = uses(&source());
    let order: BTreeMap<&str, &[&str]> = ORDER.into_iter().collect();
    let place = |module: &[String]| {
        let order =
            order.get(module[0].as_str()).unwrap_or_else(|| panic!("the crate {} has no order", module[0]));
        let is_named = |name: &str| order.iter().position(|o| *o == name);
        let name = module.get(1)?.as_str();
        Some(
            is_named(name)
                .or_else(|| is_named("*"))
                .unwrap_or_else(|| panic!("{name} of {} has no place", module[0])),
        )
    };
    let mut arrows = 0;
    for (from, targets) in uses.iter().filter(|(from, _)| from[0] != "testkit") {
        for to in targets.iter().filter(|to| to[0] == from[0]) {
            arrows += 1;
            let (Some(at), Some(above)) = (place(to), place(from)) else { continue };
            assert!(at <= above, "{} must not use {}", from.join("::"), to.join("::"));
        }
    }
    assert!(
        uses.len() > 200 && arrows > 1000,
        "{} files, {arrows} arrows: the scan sees too little",
        uses.len()
    );
}

#[test]
fn no_two_files_of_a_folder_need_each_other() {
    let uses = uses(&source());
    let folders: BTreeSet<&[String]> = uses.keys().flat_map(|m| (0..m.len()).map(|n| &m[..n])).collect();
    for folder in folders {
        let graph = children(&uses, folder);
        let in_circle = circle(&graph);
        let arrows = |from: &String| -> Vec<String> {
            let inside = graph[from].iter().filter(|(to, _)| in_circle.contains(to));
            inside.map(|(to, file)| format!("{from} -> {to} (in {})", file.join("::"))).collect()
        };
        let arrows: Vec<String> = in_circle.iter().flat_map(arrows).collect();
        assert!(arrows.is_empty(), "a circle in `{}`:\n{}", folder.join("::"), arrows.join("\n"));
    }
}

#[test]
fn tables_are_read_by_their_declared_types_and_not_by_the_names_of_columns() {
    let by_name = Regex::new(r#"\.(?:int|uint|float|text|column|column_by_name)\(\s*""#);
    let by_name = by_name.expect("a regex");
    for (module, text) in source() {
        // The engine of `hta query` reads columns that the user names.
        let typed = !matches!(module[..], [_, ref room, ..] if matches!(room.as_str(), "table" | "sql"));
        let text = code(&text);
        let found = by_name.find(&text).filter(|_| typed);
        assert!(found.is_none(), "{}: {:?}", module.join("::"), found.map(|f| f.as_str()));
    }
}

#[test]
fn the_scan_sees_every_way_to_name_a_module() {
    let file = |path: &str, text: &str| (path.split("::").map(String::from).collect(), text.to_string());
    let files = BTreeMap::from([
        file("base", "pub mod units;"),
        file("base::units", ""),
        file("k::a", "use crate::{b::{c::X, d}, e};\n#[cfg(test)]\nmod tests { use crate::f; }"),
        file("k::b", "mod c; use c::X;"),
        file("k::b::c", "fn f() { super::d::g() } // crate::e"),
        file("k::b::d", "use super::super::e as other; use self::h;"),
        file("k::e", "use hta_base::units::Ns; fn f() { hta_base::units::now() }"),
        file("k::f", "use super::b;"),
    ]);
    let uses = uses(&files);
    let of = |m: &str| -> Vec<String> {
        let own: Vec<String> = m.split("::").map(String::from).collect();
        uses[&own].iter().map(|t| t.join("::")).collect()
    };
    assert_eq!(of("k::a"), ["k::b::c", "k::b::d", "k::e"]);
    assert_eq!(of("k::b"), ["k::b::c"]);
    assert_eq!(of("k::b::c"), ["k::b::d"]);
    assert_eq!(of("k::b::d"), ["k::e"]);
    assert_eq!(of("k::e"), ["base::units"]);
    assert_eq!(of("k::f"), ["k::b"]);
}

#[test]
fn a_circle_is_found_and_what_hangs_on_it_is_not() {
    let file = |path: &str, text: &str| (path.split("::").map(String::from).collect(), text.to_string());
    let files = BTreeMap::from([
        file("k::a", "use crate::b;"),
        file("k::b", "use crate::c;"),
        file("k::c", "use crate::b; use crate::d;"),
        file("k::d", ""),
    ]);
    assert_eq!(circle(&children(&uses(&files), &["k".to_string()])), ["b", "c"]);
}

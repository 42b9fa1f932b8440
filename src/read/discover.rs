//! Resolves the user's arguments to files, and assigns ranks to the files.

use crate::error::SetError;
use crate::files::{self, Fault, is_remote};
use crate::read::input::{Input, base_name};
use crate::read::load::parts;
use crate::read::sqlite::is_recorders_database;
use crate::trace::meta::RankSource;
use regex::Regex;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// Endings of the files that are read from a folder.
const ENDINGS: [&str; 5] = [".json", ".json.gz", ".json.zst", ".tmp", ".sqlite"];

/// Endings of nvprof's databases, which other files have, too: those are read from a folder if a recorder made them.
const SHARED_ENDINGS: [&str; 3] = [".sql", ".nvprof", ".nvvp"];

/// The files of paths, folders (one level deep) and patterns, in natural order and without duplicates.
///
/// # Errors
/// When a path does not exist, a pattern matches nothing or cannot be read, or there are no files.
pub fn discover(arguments: &[PathBuf]) -> Result<Vec<Input>, SetError> {
    let mut inputs: Vec<Input> = Vec::new();
    let mut looked_in = Vec::new();
    for argument in arguments {
        let shown = argument.display().to_string();
        if is_remote(argument) {
            let found = in_store(argument).map_err(|fault| SetError::Store { place: shown.clone(), fault })?;
            if !found.iter().any(|i| i.named) {
                looked_in.push(shown);
            }
            inputs.extend(found);
        } else if argument.is_dir() {
            inputs.extend(folder(argument)?);
            looked_in.push(shown);
        } else if std::fs::symlink_metadata(argument).is_ok() {
            inputs.push(Input { path: argument.clone(), shown, named: true, process: None });
        } else if shown.contains(['*', '?', '[']) {
            let found = pattern(&shown)?;
            if found.is_empty() {
                return Err(SetError::Missing { what: format!("`{shown}`") });
            }
            inputs.extend(found);
        } else {
            return Err(SetError::Missing { what: format!("`{shown}`") });
        }
    }
    if inputs.is_empty() {
        return Err(SetError::NoFiles { what: looked_in.join(", ") });
    }
    inputs.sort_by_cached_key(|i| natural_key(&i.shown));
    // Remove duplicates, including links to the same file.
    let mut seen = std::collections::HashSet::new();
    inputs.retain(|i| seen.insert(std::fs::canonicalize(&i.path).unwrap_or_else(|_| i.path.clone())));
    // Traces in JSON are of one process; their heads need not be read here.
    let split = |i: Input| if is_json(&i.path) { vec![i] } else { parts(i) };
    Ok(inputs.into_iter().flat_map(split).collect())
}

/// The files of a URL: an object, the objects that a pattern matches, or those in a folder.
fn in_store(url: &Path) -> Result<Vec<Input>, Fault> {
    let text = url.to_string_lossy();
    let input = |path: PathBuf, named| Input { shown: path.display().to_string(), path, named, process: None };
    // A server of files has no folders, so what is wrong with its file is told when it is read.
    if text.starts_with("http") {
        return Ok(vec![input(url.to_path_buf(), true)]);
    }
    if !text.ends_with('/') && files::is_file(url).map_err(of_store)? {
        return Ok(vec![input(url.to_path_buf(), true)]);
    }
    let nothing = |what: &str| Err(Fault::new(io::ErrorKind::NotFound, what, Some("keys are case-sensitive")));
    if text.contains(['*', '?', '[']) {
        let found = files::matching(url)?;
        let found: Vec<Input> = found.into_iter().map(|path| input(path, true)).collect();
        return if found.is_empty() { nothing("no object of this pattern") } else { Ok(found) };
    }
    let names = files::names(url).map_err(of_store)?;
    if names.is_empty() && !files::is_folder(url).map_err(of_store)? {
        return nothing("no object or folder of this name");
    }
    let is_read = |name: &&String| ENDINGS.iter().any(|e| name.to_lowercase().ends_with(e));
    let folder = text.trim_end_matches('/');
    Ok(names.iter().filter(is_read).map(|name| input(PathBuf::from(format!("{folder}/{name}")), false)).collect())
}

/// The fault of a store inside an error of reading.
fn of_store(error: io::Error) -> Fault {
    Fault::of(&error).cloned().unwrap_or_else(|| Fault::new(error.kind(), error.to_string(), None))
}

fn is_json(path: &Path) -> bool {
    let name = path.file_name().map(|n| n.to_string_lossy().to_lowercase()).unwrap_or_default();
    [".json", ".gz", ".zst", ".tmp"].iter().any(|e| name.ends_with(e))
}

fn folder(dir: &Path) -> Result<Vec<Input>, SetError> {
    let missing = |e: std::io::Error| SetError::Missing { what: format!("`{}` ({e})", dir.display()) };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(missing)? {
        let path = entry.map_err(missing)?.path();
        let name = path.file_name().map(|n| n.to_string_lossy().to_lowercase()).unwrap_or_default();
        // Files that cannot be read, such as broken links, are reported when they are opened.
        if path.is_dir() {
            continue;
        }
        let ends = |endings: &[&str]| endings.iter().any(|e| name.ends_with(e));
        let input = Input { shown: path.display().to_string(), path, named: false, process: None };
        if ends(&ENDINGS) || ends(&SHARED_ENDINGS) && is_recorders_database(&input) {
            found.push(input);
        }
    }
    Ok(found)
}

fn pattern(text: &str) -> Result<Vec<Input>, SetError> {
    let error = |reason: String| SetError::Pattern { pattern: text.to_string(), reason };
    let mut found = Vec::new();
    for path in glob::glob(text).map_err(|e| error(e.to_string()))? {
        let path = path.map_err(|e| error(e.to_string()))?;
        if path.is_file() {
            found.push(Input { shown: path.display().to_string(), path, named: true, process: None });
        }
    }
    Ok(found)
}

/// Sort key of a file name: orders `rank_2` before `rank_10`.
pub fn natural_key(text: &str) -> Vec<(String, u64)> {
    let mut key = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let word_end = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let (word, tail) = rest.split_at(word_end);
        let digits_end = tail.find(|c: char| !c.is_ascii_digit()).unwrap_or(tail.len());
        let (digits, tail) = tail.split_at(digits_end);
        key.push((word.to_string(), digits.parse().unwrap_or(u64::MAX)));
        rest = tail;
    }
    key
}

static PARALLEL: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"(?i)\b(DP|PP|EP|TP)-(\d+)").ok());

/// A rank, and where it comes from.
pub type Assigned = (u32, RankSource);

/// Assigns a rank to each file: from the file, else from its name, else by position.
///
/// `claims` holds each file's `distributedInfo.rank`.
pub fn assign_ranks(inputs: &[Input], claims: &[Option<u32>]) -> Vec<Assigned> {
    // The name of a file with several processes says nothing about one of them.
    let name = |i: &Input| if i.process.is_some() { String::new() } else { base_name(&i.path) };
    let names: Vec<String> = inputs.iter().map(name).collect();
    let from_names = ranks_from_names(&names);
    let mut ranks: Vec<Option<Assigned>> = claims
        .iter()
        .zip(&from_names)
        .map(|(file, name)| match (file, name) {
            (Some(r), _) => Some((*r, RankSource::File)),
            (None, Some(r)) => Some((*r, RankSource::Name)),
            (None, None) => None,
        })
        .collect();
    // Assign the lowest free numbers in natural order of the names, which is the order of the inputs.
    let taken: std::collections::HashSet<u32> = ranks.iter().flatten().map(|r| r.0).collect();
    let mut free = (0..).filter(|r| !taken.contains(r));
    for rank in &mut ranks {
        if rank.is_none() {
            *rank = free.next().map(|r| (r, RankSource::Position));
        }
    }
    ranks.into_iter().flatten().collect()
}

/// Ranks from the names, by the first rule that fits each name.
fn ranks_from_names(names: &[String]) -> Vec<Option<u32>> {
    let own = |n: &String| {
        number_behind(n, &["rank"], &['-', '_', '.'])
            .or_else(|| number_behind(n, &["worker", "gpu", "device"], &['-', '_']))
    };
    let mut ranks: Vec<Option<u32>> = names.iter().map(own).collect();
    if ranks.iter().any(Option::is_none) {
        let tuples = ranks_from_parallel_tuples(names);
        ranks.iter_mut().zip(tuples).for_each(|(rank, tuple)| *rank = rank.or(tuple));
    }
    if ranks.iter().all(Option::is_none) {
        ranks = ranks_from_trailing_number(names);
    }
    ranks
}

/// The first number that follows one of `words`, ignoring case, with or without one of `marks` in between.
fn number_behind(name: &str, words: &[&str], marks: &[char]) -> Option<u32> {
    let digits = name.char_indices().find_map(|(at, _)| {
        let head = |word: &&&str| name.get(at..at + word.len()).is_some_and(|h| h.eq_ignore_ascii_case(word));
        let behind = &name[at + words.iter().find(head)?.len()..];
        let rest = behind.strip_prefix(marks).unwrap_or(behind);
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        (end > 0).then(|| &rest[..end])
    });
    digits?.parse().ok()
}

/// Ranks from names such as `TP-1-DP-0`: positions in the order of (PP, DP, EP, TP), so that tensor-parallel neighbours
/// are adjacent. A single coordinate is the rank itself.
fn ranks_from_parallel_tuples(names: &[String]) -> Vec<Option<u32>> {
    let Some(re) = PARALLEL.as_ref() else { return vec![None; names.len()] };
    let coordinates = |name: &String| -> Option<[Option<u32>; 4]> {
        let mut tuple = [None; 4];
        for c in re.captures_iter(name) {
            let at = ["PP", "DP", "EP", "TP"].iter().position(|k| c[1].eq_ignore_ascii_case(k))?;
            tuple[at] = c[2].parse().ok();
        }
        tuple.iter().any(Option::is_some).then_some(tuple)
    };
    let tuples: Vec<_> = names.iter().map(coordinates).collect();
    let kinds = |t: &[Option<u32>; 4]| t.iter().filter(|c| c.is_some()).count();
    if tuples.iter().flatten().all(|t| kinds(t) == 1) {
        return tuples.iter().map(|t| t.and_then(|t| t.into_iter().flatten().next())).collect();
    }
    let mut order: Vec<_> = tuples.iter().flatten().copied().collect();
    order.sort_unstable();
    order.dedup();
    tuples.iter().map(|t| t.and_then(|t| order.iter().position(|o| *o == t).map(|p| p as u32))).collect()
}

/// Ranks from a trailing number, if the names differ only in it: `megatron_kineto_3`.
fn ranks_from_trailing_number(names: &[String]) -> Vec<Option<u32>> {
    let split = |name: &String| -> Option<(String, u32)> {
        let at = name.rfind(|c: char| !c.is_ascii_digit()).map_or(0, |i| i + 1);
        Some((name[..at].to_string(), name[at..].parse().ok()?))
    };
    let parts: Option<Vec<_>> = names.iter().map(split).collect();
    match parts {
        Some(parts) if names.len() > 1 && parts.iter().all(|p| p.0 == parts[0].0) => {
            parts.into_iter().map(|p| Some(p.1)).collect()
        }
        _ => vec![None; names.len()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::input::has_trace_name;

    fn ranks(names: &[&str]) -> Vec<Option<u32>> {
        ranks_from_names(&names.iter().map(|n| base_name(Path::new(n))).collect::<Vec<_>>())
    }

    #[test]
    fn names_give_ranks_by_the_first_rule_that_fits() {
        assert_eq!(ranks(&["rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz"]), [Some(34)]);
        assert_eq!(ranks(&["worker0.1623143089861.pt.trace.json", "worker1.2.pt.trace.json"]), [Some(0), Some(1)]);
        assert_eq!(ranks(&["x-TP-0-DECODE.trace.json.gz", "x-TP-1-DECODE.trace.json.gz"]), [Some(0), Some(1)]);
        assert_eq!(ranks(&["a-DP-0-TP-1.json", "a-DP-1-TP-0.json", "a-DP-0-TP-0.json"]), [Some(1), Some(2), Some(0)]);
        assert_eq!(ranks(&["megatron_kineto_0.json.gz", "megatron_kineto_7.json.gz"]), [Some(0), Some(7)]);
        assert_eq!(ranks(&["host_4242.1623143089861.pt.trace.json"]), [None]);
        assert_eq!(ranks(&["ranked_RANK-.rank_gpu3_Rank.12x7"]), [Some(12)]);
        assert_eq!(ranks(&["rank_-1.DEVICE-5", "\u{e9}rank--3.worker_06"]), [Some(5), Some(6)]);
    }

    #[test]
    fn files_without_a_rank_take_the_lowest_free_numbers() {
        let input = |n: &str| Input { path: n.into(), shown: n.into(), named: true, process: None };
        let inputs = [input("a.json"), input("b.json"), input("c.json")];
        let got = assign_ranks(&inputs, &[None, Some(0), None]);
        assert_eq!(got, [(1, RankSource::Position), (0, RankSource::File), (2, RankSource::Position)]);
    }

    #[test]
    fn names_of_traces_are_told_from_other_names() {
        let is = |name: &str| has_trace_name(Path::new(name));
        for name in ["rank_0.json", "a/Rank-12.json.gz", "rank3.json.zst", "trace_rank_7.1698.json", "rank_1.json.tmp"]
        {
            assert!(is(name), "{name}");
        }
        assert!(is("host_4242.1623143089861.pt.trace.json.gz") && is("x-TP-0-DECODE.trace.json"));
        for name in ["notes.json", "rank_0_memory.json", "ranks.json", "crank1.json", "rank_.json", "rank_0.txt"] {
            assert!(!is(name), "{name}");
        }
    }

    #[test]
    fn numbers_in_names_sort_by_value() {
        assert!(natural_key("rank_2.json") < natural_key("rank_10.json"));
    }
}

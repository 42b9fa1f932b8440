//! Resolves the user's arguments to files.

use crate::coordinates::assign_ranks;
use crate::error::SetError;
use crate::files::{Fault, Location};
use crate::input::{Input, is_json};
use crate::leave_out::{leave_out_copies, leave_out_twins, leave_out_without_rank};
use crate::load::{is_dump_file, parts, peek};
use crate::roles::{RolePattern, role_of, set_roles};
use crate::sqlite::is_recorders_database;
use hta_trace::meta::RankSource;
use std::collections::BTreeSet;
use std::io;

/// Endings of the files that are read from a folder.
const ENDINGS: [&str; 11] = [
    ".json",
    ".json.gz",
    ".json.zst",
    ".pftrace",
    ".pftrace.gz",
    ".pftrace.zst",
    ".perfetto-trace",
    ".perfetto-trace.gz",
    ".perfetto-trace.zst",
    ".tmp",
    ".sqlite",
];

/// Endings of memory snapshots in stores, where a file is not opened to learn what it is.
const DUMP_ENDINGS: [&str; 6] = [".pickle", ".pickle.gz", ".pickle.zst", ".pkl", ".pkl.gz", ".pkl.zst"];

/// Endings of nvprof's databases, which other files have, too: those are read from a folder if a recorder
/// made them.
const SHARED_ENDINGS: [&str; 3] = [".sql", ".nvprof", ".nvvp"];

/// The files of paths, folders and patterns, in natural order and without duplicates. Folders are read one
/// level deep, and two levels where the first holds no trace. Dumps of memory that were only found in a
/// folder are left out where there are traces.
///
/// # Errors
/// When a path does not exist, a pattern matches nothing or cannot be read, or there are no files.
pub fn discover<P: Clone + Into<Location>>(arguments: &[P]) -> Result<Vec<Input>, SetError> {
    let mut inputs = discover_all(arguments)?;
    without_found_dumps(&mut inputs);
    Ok(inputs)
}

/// Takes out the dumps of memory that were only found in a folder, if there are traces.
pub fn without_found_dumps(inputs: &mut Vec<Input>) -> Vec<Input> {
    if inputs.iter().all(Input::is_dump) {
        return Vec::new();
    }
    let (dumps, kept) = inputs.drain(..).partition(|input| input.is_dump() && !input.named);
    *inputs = kept;
    dumps
}

/// Like [`discover`], with the dumps of memory in any case.
///
/// # Errors
/// As [`discover`].
pub fn discover_all<P: Clone + Into<Location>>(arguments: &[P]) -> Result<Vec<Input>, SetError> {
    discover_roles(arguments, &[])
}

/// Like [`discover_all`], with the roles that `--role` tells.
///
/// # Errors
/// As [`discover`]; when a pattern fits no file, or a file has no role although patterns are given.
pub fn discover_roles<P: Clone + Into<Location>>(
    arguments: &[P],
    roles: &[RolePattern],
) -> Result<Vec<Input>, SetError> {
    // An object of a store is one stream: what it holds is told when it is read.
    let is_whole = |i: &Input| i.process.is_some() || i.path.is_remote() && is_json(&i.path);
    let split = |i: Input| if is_whole(&i) { vec![i] } else { parts(i) };
    let found = files_told(arguments, !roles.is_empty())?;
    let inputs = leave_out_twins(found.into_iter().flat_map(split).collect());
    let mut inputs = leave_out_copies(inputs);
    set_roles(&mut inputs, roles)?;
    leave_out_without_rank(&mut inputs);
    Ok(inputs)
}

/// The files of paths, before any is opened.
///
/// # Errors
/// As [`discover`].
pub fn files<P: Clone + Into<Location>>(arguments: &[P]) -> Result<Vec<Input>, SetError> {
    files_told(arguments, false)
}

/// Like [`files`]; with roles, folders in a folder are those of one job.
fn files_told<P: Clone + Into<Location>>(arguments: &[P], has_roles: bool) -> Result<Vec<Input>, SetError> {
    let mut inputs: Vec<Input> = Vec::new();
    let mut looked_in = Vec::new();
    for argument in arguments {
        let argument: Location = argument.clone().into();
        let shown = argument.display().to_string();
        if argument.is_remote() {
            let found =
                in_store(&argument).map_err(|fault| SetError::Store { place: shown.clone(), fault })?;
            if !found.iter().any(|i| i.named) {
                looked_in.push(shown);
            }
            inputs.extend(found);
        } else if argument.is_dir() {
            inputs.extend(one_or_two_levels(&argument, has_roles)?);
            looked_in.push(shown);
        } else if std::fs::symlink_metadata(&argument).is_ok() {
            inputs.push(Input::named(argument));
        } else if shown.contains(['*', '?', '[']) {
            let found = pattern(&shown)?;
            if found.is_empty() {
                return Err(SetError::Missing { what: format!("`{shown}`") });
            }
            inputs.extend(found);
        } else if let Some(part) = named_part(&argument, &shown) {
            inputs.push(part);
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
    inputs.retain(|i| {
        let part = i.process.as_ref().map(|_| i.shown.clone());
        seen.insert((std::fs::canonicalize(&i.path).unwrap_or_else(|_| i.path.to_path_buf()), part))
    });
    Ok(inputs)
}

/// A part of a file, named as messages name it: `runs.pftrace (before)`.
fn named_part(argument: &Location, shown: &str) -> Option<Input> {
    let (file, _) = shown.strip_suffix(')')?.split_once(" (")?;
    let file = Input::named(argument.beside(file));
    std::fs::metadata(&file.path).is_ok_and(|found| found.is_file()).then_some(())?;
    parts(file).into_iter().find(|part| part.process.is_some() && part.shown == shown)
}

/// The files of a URL: an object, the objects that a pattern matches, or those in a folder.
fn in_store(url: &Location) -> Result<Vec<Input>, Fault> {
    let text = url.to_string_lossy();
    // A server of files has no folders, so what is wrong with its file is told when it is read.
    if text.starts_with("http") {
        return Ok(vec![Input::named(url)]);
    }
    if !text.ends_with('/') && url.is_file().map_err(of_store)? {
        return Ok(vec![Input::named(url)]);
    }
    let nothing =
        |what: &str| Err(Fault::new(io::ErrorKind::NotFound, what, Some("keys are case-sensitive")));
    if text.contains(['*', '?', '[']) {
        let found: Vec<Input> = url.matching()?.into_iter().map(Input::named).collect();
        return if found.is_empty() { nothing("no object of this pattern") } else { Ok(found) };
    }
    let names = url.names().map_err(of_store)?;
    if names.is_empty() && !url.is_folder().map_err(of_store)? {
        return nothing("no object or folder of this name");
    }
    let folder = text.trim_end_matches('/');
    let found =
        names.iter().filter(|name| has_known_ending(name)).map(|name| url.beside(format!("{folder}/{name}")));
    // Whatever these are, it is told that they cannot be read.
    Ok(found.chain(url.unreadable()).map(Input::found).collect())
}

/// Whether a name ends as those of traces and of memory snapshots do.
pub fn has_known_ending(name: &str) -> bool {
    let name = name.to_lowercase();
    is_trace_name(&name) || DUMP_ENDINGS.iter().any(|ending| name.ends_with(ending))
}

/// Whether a name, in lower case, is that of a trace. The rank may stand between the endings:
/// `trace.json-rank-0.gz`.
fn is_trace_name(name: &str) -> bool {
    let is_packed = [".gz", ".zst"].iter().any(|ending| name.ends_with(ending));
    ENDINGS.iter().any(|ending| name.ends_with(ending)) || is_packed && name.contains(".json")
}

/// The fault of a store inside an error of reading.
fn of_store(error: io::Error) -> Fault {
    Fault::of(&error).cloned().unwrap_or_else(|| Fault::new(error.kind(), error.to_string(), None))
}

/// The files of a folder; where none is a trace, the traces in its folders as well: a job of several programs
/// has a folder for each.
fn one_or_two_levels(dir: &Location, has_roles: bool) -> Result<Vec<Input>, SetError> {
    let mut found = folder(dir)?;
    if found.iter().any(|input| input.has_trace_name() || input.is_dump() || peek(input).is_ok()) {
        return Ok(found);
    }
    let missing = |e: std::io::Error| SetError::Missing { what: format!("`{}` ({e})", dir.display()) };
    let mut folders = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(missing)? {
        let path = entry.map_err(missing)?.path();
        let is_hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if path.is_dir() && !is_hidden {
            folders.push(dir.beside(path));
        }
    }
    folders.sort_by_cached_key(|folder| natural_key(&folder.display().to_string()));
    // What cannot be read there, or is no trace, was not asked for.
    let traces_in = |inner: &Location| -> Vec<Input> {
        folder(inner).unwrap_or_default().into_iter().filter(|input| peek(input).is_ok()).collect()
    };
    let of_folders: Vec<Vec<Input>> = folders.iter().map(traces_in).filter(|of| !of.is_empty()).collect();
    if !has_roles && !are_of_one_job(&of_folders) {
        let shown = of_folders.iter().flat_map(|of| of.first()).map(|input| input.shown.clone()).collect();
        return Err(SetError::SeveralFolders { folder: dir.display().to_string(), traces: shown });
    }
    found.extend(of_folders.into_iter().flatten());
    Ok(found)
}

/// Whether the traces of several folders are those of one job: each file is of a role, or tells a rank of its
/// own.
fn are_of_one_job(folders: &[Vec<Input>]) -> bool {
    let inputs: Vec<Input> = folders.iter().flatten().cloned().collect();
    if folders.len() < 2 || inputs.iter().all(|input| role_of(input).is_some()) {
        return true;
    }
    let claims: Vec<Option<u32>> = inputs.iter().map(|i| peek(i).ok().and_then(|head| head.rank)).collect();
    let ranks = assign_ranks(&inputs, &claims);
    let distinct: BTreeSet<u32> = ranks.iter().map(|(rank, _)| *rank).collect();
    distinct.len() == ranks.len() && ranks.iter().all(|(_, source)| *source != RankSource::Position)
}

fn folder(dir: &Location) -> Result<Vec<Input>, SetError> {
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
        let input = Input::found(dir.beside(path));
        if is_trace_name(&name)
            || ends(&SHARED_ENDINGS) && is_recorders_database(&input)
            || is_dump_file(&input)
        {
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
            found.push(Input::named(path));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::has_trace_name;
    use std::path::Path;

    #[test]
    fn names_of_traces_are_told_from_other_names() {
        let is = |name: &str| has_trace_name(Path::new(name));
        for name in [
            "rank_0.json",
            "a/Rank-12.json.gz",
            "rank3.json.zst",
            "trace_rank_7.1698.json",
            "rank_1.json.tmp",
        ] {
            assert!(is(name), "{name}");
        }
        assert!(is("host_4242.1623143089861.pt.trace.json.gz") && is("x-TP-0-DECODE.trace.json"));
        for name in
            ["notes.json", "rank_0_memory.json", "ranks.json", "crank1.json", "rank_.json", "rank_0.txt"]
        {
            assert!(!is(name), "{name}");
        }
    }

    #[test]
    fn the_rank_may_stand_between_the_endings() {
        assert!(has_known_ending("trace.json-rank-0.gz") && has_known_ending("rank_0.JSON.gz"));
        assert!(!has_known_ending("notes.txt.gz") && !has_known_ending("trace.json-rank-0"));
    }

    #[test]
    fn numbers_in_names_sort_by_value() {
        assert!(natural_key("rank_2.json") < natural_key("rank_10.json"));
    }
}

//! Which inputs are memory snapshots or timelines, decided by their content.

use clap::ArgMatches;
use hta_read::discover::{discover, natural_key};
use hta_read::files::{Location, Stores};
use hta_read::input::Input;
use hta_read::load::peek;
use hta_read::snapshot::{MemoryFile, memory_file};
use std::path::PathBuf;

/// A file about memory.
pub struct MemoryInput {
    pub input: Input,
    pub kind: MemoryFile,
}

/// The files of the arguments.
#[derive(Default)]
pub struct FoundInputs {
    pub memory: Vec<MemoryInput>,
    /// Whether there is something else, which can only be traces.
    pub has_traces: bool,
}

/// What the arguments are, by content. What is wrong with other files is told by the reader of traces, as for other
/// commands.
pub fn inputs(matches: &ArgMatches, stores: &Stores) -> FoundInputs {
    let paths = matches.get_many::<PathBuf>("traces");
    of_paths(paths.into_iter().flatten().map(|path| Location::new(path, stores)))
}

/// What some paths are.
pub fn of_paths(paths: impl Iterator<Item = Location>) -> FoundInputs {
    let mut found = FoundInputs::default();
    for path in paths {
        let named = match discover(std::slice::from_ref(&path)) {
            _ if path.is_dir() => in_folder(&path),
            // A folder of a store; endings of traces say nothing about snapshots.
            Ok(found) if path.is_remote() && !found.iter().any(|i| i.named) => in_folder(&path),
            found => found.unwrap_or_default(),
        };
        found.has_traces |= named.is_empty();
        for input in named {
            match memory_file(&input.path) {
                Ok(Some(kind)) => found.memory.push(MemoryInput { input, kind }),
                // A folder may hold anything beside.
                _ => found.has_traces = found.has_traces || input.named || peek(&input).is_ok(),
            }
        }
    }
    found
}

/// The files of a folder in natural order.
fn in_folder(folder: &Location) -> Vec<Input> {
    let names = folder.names().unwrap_or_default().into_iter();
    let files = names.map(|name| folder.join(name)).filter(|p| p.is_remote() || p.is_file().unwrap_or(false));
    let mut inputs: Vec<Input> = files.map(Input::found).collect();
    inputs.sort_by_cached_key(|i| natural_key(&i.shown));
    inputs
}

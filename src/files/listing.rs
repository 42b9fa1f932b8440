//! Which objects there are: in a folder, below it, and by a pattern.
//!
//! A folder of a store is a prefix of keys that ends in `/`. Servers of files (`https://`) are not listed: their pages are
//! for people.

use super::address::Address;
use super::fault::{Fault, whole_answer};
use super::object::object;
use super::scheme::Service;
use super::stores::{runtime, store_of};
use futures_util::TryStreamExt;
use glob::{MatchOptions, Pattern};
use object_store::path::Path as Key;
use object_store::{ObjectMeta, ObjectStore};
use std::io::ErrorKind::{InvalidInput, NotFound};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Names of the objects directly in a folder, sorted.
pub(super) fn names(folder: &Path) -> Result<Vec<String>, Fault> {
    let (address, store) = listable(folder)?;
    let found = runtime()?.block_on(whole_answer(|| store.list_with_delimiter(Some(&address.key))))?;
    Ok(sorted(found.objects.iter().filter_map(|object| below(&address.key, &object.location))))
}

/// Names of all objects below a folder, as paths relative to it, sorted.
pub fn all_names(folder: &Path) -> Result<Vec<String>, Fault> {
    let (address, store) = listable(folder)?;
    let found = collected(&store, &address.key)?;
    Ok(sorted(found.iter().filter_map(|object| below(&address.key, &object.location))))
}

/// Whether a folder has any object in it or below.
pub(super) fn has_any(folder: &Path) -> Result<bool, Fault> {
    let (address, store) = listable(folder)?;
    let first = runtime()?.block_on(whole_answer(|| async { store.list(Some(&address.key)).try_next().await }))?;
    Ok(first.is_some_and(|object| below(&address.key, &object.location).is_some()))
}

/// Whether there is an object.
pub(super) fn is_object(path: &Path) -> Result<bool, Fault> {
    if Address::of(path)?.key.is_root() {
        return Ok(false);
    }
    match object(path) {
        Ok(_) => Ok(true),
        Err(fault) if fault.kind == NotFound => Ok(false),
        Err(fault) => Err(fault),
    }
}

/// URLs of the objects whose keys a pattern matches, where `*` and `?` do not match `/`, sorted.
///
/// # Errors
/// When the pattern is none, or the store cannot be listed.
pub fn matching(pattern: &Path) -> Result<Vec<PathBuf>, Fault> {
    let text = pattern.to_string_lossy();
    let fixed = text.find(['*', '?', '[']).unwrap_or(text.len());
    let folder = text.get(..fixed).and_then(|t| t.rfind('/')).and_then(|at| text.get(..at)).unwrap_or_default();
    let (address, store) = listable(Path::new(folder))?;
    let keys = text.strip_prefix(&address.root).unwrap_or_default().trim_start_matches('/');
    let keys = Pattern::new(keys).map_err(|e| Fault::new(InvalidInput, e.to_string(), None))?;
    let how = MatchOptions { require_literal_separator: true, ..MatchOptions::new() };
    let found = collected(&store, &address.key)?;
    let found = found.iter().filter(|object| keys.matches_with(object.location.as_ref(), how));
    Ok(sorted(found.map(|object| address.url_of(&object.location))).into_iter().map(PathBuf::from).collect())
}

/// A folder of a store that can list its objects.
fn listable(folder: &Path) -> Result<(Address, Arc<dyn ObjectStore>), Fault> {
    let address = Address::of(folder)?;
    if address.service == Service::Http {
        let hint = "give the URL of each file; folders and patterns are for s3://, gs:// and az://";
        return Err(Fault::new(InvalidInput, "a server of files has no list of them", Some(hint)));
    }
    let store = store_of(&address)?;
    Ok((address, store))
}

fn collected(store: &Arc<dyn ObjectStore>, folder: &Key) -> Result<Vec<ObjectMeta>, Fault> {
    Ok(runtime()?.block_on(whole_answer(|| store.list(Some(folder)).try_collect()))?)
}

/// The key relative to a folder; `None` for the empty object by which some tools mark a folder.
fn below(folder: &Key, key: &Key) -> Option<String> {
    let rest = key.as_ref().strip_prefix(folder.as_ref())?.trim_start_matches('/');
    (!rest.is_empty()).then(|| rest.to_string())
}

fn sorted(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

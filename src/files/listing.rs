//! Which objects there are: in a folder, below it, and by a pattern.
//!
//! A folder of a store is a prefix of keys that ends in `/`. Servers of files (`https://`) are not listed: their pages are
//! for people.

use super::address::Address;
use super::fault::{Fault, whole_answer};
use super::lists;
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
    let found = found.objects.iter().filter_map(|object| below(&address.key, &object.location));
    Ok(sorted(found.chain(unreadable(&address))))
}

/// Names of all objects below a folder, as paths relative to it, sorted.
pub fn all_names(folder: &Path) -> Result<Vec<String>, Fault> {
    let (address, store) = listable(folder)?;
    let found = collected(&store, &address.key)?;
    let found = found.iter().filter_map(|object| below(&address.key, &object.location));
    Ok(sorted(found.chain(unreadable(&address))))
}

/// URLs of the objects that lists of a folder named so far, with keys that no path can have.
pub fn unreadable_urls(folder: &Path) -> Vec<PathBuf> {
    let of = |address: Address| {
        let keys = lists::unreadable_keys(&address.root, &address.key);
        keys.iter().map(|key| PathBuf::from(address.url_of(key))).collect()
    };
    Address::of(folder).map(of).unwrap_or_default()
}

/// Whether a folder has any object in it or below.
pub(super) fn has_any(folder: &Path) -> Result<bool, Fault> {
    let (address, store) = listable(folder)?;
    let first = runtime()?.block_on(whole_answer(|| async { store.list(Some(&address.key)).try_next().await }))?;
    let is_below = |object: ObjectMeta| below(&address.key, &object.location).is_some();
    Ok(first.is_some_and(is_below) || unreadable(&address).next().is_some())
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
    let odd = lists::unreadable_keys(&address.root, &address.key);
    let found = found.iter().map(|object| object.location.as_ref()).chain(odd.iter().map(String::as_str));
    let found = found.filter(|key| keys.matches_with(key, how));
    Ok(sorted(found.map(|key| address.url_of(key))).into_iter().map(PathBuf::from).collect())
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
    lists::below(folder.as_ref(), key.as_ref()).filter(|rest| !rest.is_empty()).map(str::to_string)
}

/// Keys below a folder that no path can have, relative to it: whoever opens one is told why it cannot be read.
fn unreadable(folder: &Address) -> impl Iterator<Item = String> {
    let keys = lists::unreadable_keys(&folder.root, &folder.key).into_iter();
    keys.filter_map(|key| lists::below(folder.key.as_ref(), &key).map(str::to_string))
}

fn sorted(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

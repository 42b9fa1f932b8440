//! Which objects there are: in a folder, below it, and by a pattern.
//!
//! A folder of a store is a prefix of keys that ends in `/`. Servers of files (`https://`) are not listed:
//! their pages are for people.

use super::address::Address;
use super::fault::{Fault, whole_answer};
use super::lists;
use super::location::{ContentVersion, Location};
use super::scheme::Service;
use super::stores::runtime;
use futures_util::TryStreamExt;
use glob::{MatchOptions, Pattern};
use object_store::path::Path as Key;
use object_store::{ObjectMeta, ObjectStore};
use std::io::ErrorKind::{InvalidInput, NotFound};
use std::sync::Arc;

impl Location {
    /// Names of the objects directly in a folder, sorted.
    pub(super) fn object_names(&self) -> Result<Vec<String>, Fault> {
        let (address, store) = self.listable()?;
        let found = runtime()?.block_on(whole_answer(|| store.list_with_delimiter(Some(&address.key))))?;
        let found = found.objects.iter().filter_map(|object| below(&address.key, &object.location));
        Ok(sorted(found.chain(self.unreadable_below(&address))))
    }

    /// Key, size, and time and ETag of an object, or of the objects directly in a folder, sorted.
    pub(super) fn object_version(&self) -> Result<ContentVersion, Fault> {
        let of = |object: &ObjectMeta| {
            let tag = object.e_tag.as_deref().unwrap_or_default();
            (object.location.to_string(), object.size, format!("{} {tag}", object.last_modified))
        };
        if self.address()?.service == Service::Http || self.is_object()? {
            return Ok(vec![of(&self.object()?.0.meta)]);
        }
        let (address, store) = self.listable()?;
        let found = runtime()?.block_on(whole_answer(|| store.list_with_delimiter(Some(&address.key))))?;
        let mut found: Vec<_> = found.objects.iter().map(of).collect();
        found.sort();
        Ok(found)
    }

    /// Names of all objects below a folder of a store, as paths relative to it, sorted.
    ///
    /// # Errors
    /// When the store cannot be listed.
    pub fn all_names(&self) -> Result<Vec<String>, Fault> {
        let (address, store) = self.listable()?;
        let found = collected(&store, &address.key)?;
        let found = found.iter().filter_map(|object| below(&address.key, &object.location));
        Ok(sorted(found.chain(self.unreadable_below(&address))))
    }

    /// Objects that lists of this folder named so far, with keys that no path can have.
    pub(crate) fn unreadable(&self) -> Vec<Location> {
        let of = |address: Address| {
            let keys = self.stores().unreadable().below(&address.root, &address.key);
            keys.iter().map(|key| self.beside(address.url_of(key))).collect()
        };
        self.address().map(of).unwrap_or_default()
    }

    /// Whether a folder has any object in it or below.
    pub(super) fn has_any(&self) -> Result<bool, Fault> {
        let (address, store) = self.listable()?;
        let first = runtime()?
            .block_on(whole_answer(|| async { store.list(Some(&address.key)).try_next().await }))?;
        Ok(first.is_some_and(|object: ObjectMeta| below(&address.key, &object.location).is_some())
            || self.unreadable_below(&address).next().is_some())
    }

    /// Whether there is an object.
    pub(super) fn is_object(&self) -> Result<bool, Fault> {
        if self.address()?.key.is_root() {
            return Ok(false);
        }
        match self.object() {
            Ok(_) => Ok(true),
            Err(fault) if fault.kind == NotFound => Ok(false),
            Err(fault) => Err(fault),
        }
    }

    /// The objects whose keys match it as a pattern, where `*` and `?` do not match `/`, sorted.
    ///
    /// # Errors
    /// When the pattern is none, or the store cannot be listed.
    pub(crate) fn matching(&self) -> Result<Vec<Location>, Fault> {
        let text = self.to_string_lossy();
        let fixed = text.find(['*', '?', '[']).unwrap_or(text.len());
        let folder =
            text.get(..fixed).and_then(|t| t.rfind('/')).and_then(|at| text.get(..at)).unwrap_or_default();
        let (address, store) = self.beside(folder).listable()?;
        let keys = text.strip_prefix(&address.root).unwrap_or_default().trim_start_matches('/');
        let keys = Pattern::new(keys).map_err(|e| Fault::new(InvalidInput, e.to_string(), None))?;
        let how = MatchOptions { require_literal_separator: true, ..MatchOptions::new() };
        let found = collected(&store, &address.key)?;
        let odd = self.stores().unreadable().below(&address.root, &address.key);
        let found = found.iter().map(|object| object.location.as_ref()).chain(odd.iter().map(String::as_str));
        let found = found.filter(|key| keys.matches_with(key, how));
        Ok(sorted(found.map(|key| address.url_of(key))).into_iter().map(|url| self.beside(url)).collect())
    }

    /// A folder of a store that can list its objects.
    fn listable(&self) -> Result<(Address, Arc<dyn ObjectStore>), Fault> {
        let address = self.address()?;
        if address.service == Service::Http {
            let hint = "give the URL of each file; folders and patterns are for s3://, gs:// and az://";
            return Err(Fault::new(InvalidInput, "a server of files has no list of them", Some(hint)));
        }
        let store = self.stores().store_of(&address)?;
        Ok((address, store))
    }

    /// Keys below a folder that no path can have, relative to it: whoever opens one is told why it cannot be
    /// read.
    fn unreadable_below(&self, address: &Address) -> impl Iterator<Item = String> {
        let keys = self.stores().unreadable().below(&address.root, &address.key).into_iter();
        keys.filter_map(|key| lists::below(address.key.as_ref(), &key).map(str::to_string))
    }
}

fn collected(store: &Arc<dyn ObjectStore>, folder: &Key) -> Result<Vec<ObjectMeta>, Fault> {
    Ok(runtime()?.block_on(whole_answer(|| store.list(Some(folder)).try_collect()))?)
}

/// The key relative to a folder; `None` for the empty object by which some tools mark a folder.
fn below(folder: &Key, key: &Key) -> Option<String> {
    lists::below(folder.as_ref(), key.as_ref()).filter(|rest| !rest.is_empty()).map(str::to_string)
}

fn sorted(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

//! What was seen of objects: their versions, and the first bytes of those that were seen last.

use super::address::Address;
use bytes::Bytes;
use object_store::{ObjectMeta, ObjectStore};
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Objects whose first bytes are kept. A job may have a hundred thousand objects.
const HEADS: usize = 1 << 10;

/// An object, as it was when it was first seen.
#[derive(Debug)]
pub(super) struct StoreObject {
    pub(crate) address: Address,
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) meta: ObjectMeta,
    /// Whether the server sends parts of it. If not, it is read from its beginning each time.
    pub(crate) has_ranges: bool,
}

/// An object with its first bytes, if they are still kept.
pub(super) type SeenObject = (Arc<StoreObject>, Bytes);

/// The objects that were seen.
#[derive(Default)]
pub(super) struct KnownObjects {
    objects: BTreeMap<PathBuf, SeenObject>,
    /// The paths of those whose first bytes are kept, the oldest first.
    with_head: VecDeque<PathBuf>,
}

impl KnownObjects {
    pub(crate) fn get(&self, path: &Path) -> Option<SeenObject> {
        self.objects.get(path).cloned()
    }

    pub(crate) fn add(&mut self, path: &Path, seen: SeenObject) {
        self.forget(path);
        self.objects.insert(path.to_path_buf(), seen);
        self.with_head.push_back(path.to_path_buf());
        while self.with_head.len() > HEADS {
            let oldest = self.with_head.pop_front().and_then(|path| self.objects.get_mut(&path));
            oldest.into_iter().for_each(|(_, head)| *head = Bytes::new());
        }
    }

    /// Forgets an object that was written or removed.
    pub(crate) fn forget(&mut self, path: &Path) {
        if self.objects.remove(path).is_some() {
            self.with_head.retain(|kept| kept != path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::secrets::Queries;
    use object_store::memory::InMemory;
    use object_store::path::Path as Key;

    #[test]
    fn of_many_objects_only_the_last_keep_their_first_bytes() {
        let mut known = KnownObjects::default();
        let path = |i: usize| PathBuf::from(format!("s3://bucket/rank_{i}.json"));
        let count = HEADS + 3;
        for i in 0..count {
            let last_modified = Default::default();
            let meta = ObjectMeta {
                location: Key::from("rank"),
                last_modified,
                size: 1,
                e_tag: None,
                version: None,
            };
            let address = Address::of(&path(i), &Queries::default()).unwrap();
            let store = Arc::new(InMemory::new());
            let object = Arc::new(StoreObject { address, store, meta, has_ranges: true });
            known.add(&path(i), (Arc::clone(&object), Bytes::from_static(b"{")));
            known.add(&path(i), (object, Bytes::from_static(b"[")));
        }
        assert_eq!((known.objects.len(), known.with_head.len()), (count, HEADS));
        assert!(known.objects[&path(2)].1.is_empty() && known.objects[&path(3)].1 == b"["[..]);
    }
}

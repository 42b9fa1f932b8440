//! Data that several analyses derive from the same input, identified by its type and computed once.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};

type SharedCell = Arc<OnceLock<Arc<dyn Any + Send + Sync>>>;

#[derive(Default)]
pub struct SharedFacts(Mutex<BTreeMap<TypeId, SharedCell>>);

impl SharedFacts {
    /// The value of type `T`, which `make` computes for the first caller; others wait for it.
    pub fn get<T: Any + Send + Sync>(&self, make: impl FnOnce() -> T) -> Arc<T> {
        let cell = match self.0.lock() {
            Ok(mut all) => Arc::clone(all.entry(TypeId::of::<T>()).or_default()),
            Err(_) => Arc::default(),
        };
        // The map must not be locked here, because `make` may request other shared data.
        let any = Arc::clone(cell.get_or_init(|| Arc::new(make())));
        any.downcast().unwrap_or_else(|_| unreachable!("kept by its type"))
    }
}

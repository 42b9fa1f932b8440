//! Texts that are constants of the program, read again: why a rank has no rows, what a file is instead of a trace.

use std::collections::BTreeSet;
use std::sync::{LazyLock, Mutex};

/// Longer than any such text, bytes.
const LONGEST: usize = 512;
/// More than there are.
const MOST: usize = 512;

static KNOWN: LazyLock<Mutex<BTreeSet<&'static str>>> = LazyLock::new(Mutex::default);

/// The text for as long as the program runs. `None` where it cannot be one of the program's own: there are few, so
/// what is kept is bounded.
pub fn constant(text: &str) -> Option<&'static str> {
    let mut known = KNOWN.lock().ok()?;
    if let Some(own) = known.get(text) {
        return Some(own);
    }
    if text.len() > LONGEST || known.len() >= MOST {
        return None;
    }
    let own: &'static str = Box::leak(text.to_string().into_boxed_str());
    known.insert(own);
    Some(own)
}

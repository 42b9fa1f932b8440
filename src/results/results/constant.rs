//! Restores texts that are constants of the program from a partial or results: why a rank has no rows, and
//! what a file is instead of a trace.

use std::collections::BTreeSet;
use std::sync::{LazyLock, Mutex};

/// Maximum length of such a text, bytes. All constants are shorter.
const LONGEST: usize = 512;
/// Maximum number of such texts. There are fewer constants.
const MOST: usize = 512;

static KNOWN: LazyLock<Mutex<BTreeSet<&'static str>>> = LazyLock::new(Mutex::default);

/// Returns the text with a static lifetime. Returns `None` for texts that cannot be constants of the program,
/// because they are too long or too many; so the leaked memory is bounded.
pub(crate) fn constant(text: &str) -> Option<&'static str> {
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

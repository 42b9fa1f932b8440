//! The tables of a partial, each preceded by its length (4 bytes, little endian): any bytes must give tables and a set
//! of ranks, or an error.

#![no_main]

use hta::partial::{assemble, read};
use libfuzzer_sys::fuzz_target;
use std::sync::Once;

/// Panics of the Parquet decoders are caught and accepted, because libFuzzer would stop at the first. Other panics end
/// the run.
static CAUGHT: Once = Once::new();

fuzz_target!(|data: &[u8]| {
    CAUGHT.call_once(|| std::panic::set_hook(Box::new(|_| {})));
    let mut rest = data;
    let mut tables = Vec::new();
    while let Some((length, behind)) = rest.split_first_chunk::<4>() {
        let (table, next) = behind.split_at((u32::from_le_bytes(*length) as usize).min(behind.len()));
        tables.extend(read(table));
        rest = next;
    }
    if let Ok(state) = assemble(tables) {
        // An accepted set must be consistent.
        assert!(state.ranks.windows(2).all(|w| w[0].rank < w[1].rank));
    }
});

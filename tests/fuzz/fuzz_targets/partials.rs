//! The tables of a partial, one after the other, each behind its length (4 bytes, little endian): any bytes give tables
//! and a set of ranks, or what is wrong with them.

#![no_main]

use hta::partial::{assemble, read};
use libfuzzer_sys::fuzz_target;
use std::sync::Once;

/// Panics of the Parquet decoders are caught, and are answers; libFuzzer would end at the first. Any other still ends it.
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
        // a set that was accepted can be told
        assert!(state.ranks.windows(2).all(|w| w[0].rank < w[1].rank));
    }
});

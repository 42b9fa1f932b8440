//! Memory snapshots within a memory limit: any bytes must give a snapshot whose rows are no more than the file can hold, or
//! an error.

#![no_main]

use hta::read::room::FixedLimit;
use hta::read::snapshot::read_snapshot;
use hta::read::source::{Source, SourceError};
use hta::units::MemoryLimit;
use libfuzzer_sys::fuzz_target;
use std::io::{Cursor, Read};

/// The bytes of the input, as of a file.
struct Whole(Cursor<Vec<u8>>);

impl Source for Whole {
    fn read(&mut self, out: &mut [u8]) -> Result<usize, SourceError> {
        self.0.read(out).map_err(SourceError::Io)
    }
}

fuzz_target!(|data: &[u8]| {
    let limit = MemoryLimit { bytes: 64 << 20, given: true };
    let Ok(snapshot) = read_snapshot(Box::new(Whole(Cursor::new(data.to_vec()))), &FixedLimit(limit)) else { return };
    let entries: usize = snapshot.histories.iter().map(|h| h.len()).sum();
    let blocks: usize = snapshot.segments.iter().map(|s| snapshot.blocks(s).len()).sum();
    assert!(entries + blocks + snapshot.segments.len() <= data.len(), "{entries} entries, {blocks} blocks");
});

//! Files of packets, with the runs that they hold: read in blocks of any length, within a memory limit, they must give the
//! same columns and counters, or the same refusal.
//!
//! The first byte is the length of the blocks. A packet that describes a track comes before the others, so that all inputs
//! are files of packets.

#![no_main]

use hta::read::discover::discover;
use hta::read::load::load_in_chunks;
use hta::read::options::LoadOptions;
use hta::read::reading::{Chunks, Loaded, Spread};
use hta::read::source::ByteCount;
use hta::units::MemoryLimit;
use hta_fuzz::Seen;
use libfuzzer_sys::fuzz_target;
use std::path::PathBuf;
use std::sync::LazyLock;

const FIRST: [u8; 7] = [0x0a, 5, 0xe2, 3, 2, 8, 1];

static PLACE: LazyLock<PathBuf> = LazyLock::new(|| {
    let memory = PathBuf::from("/dev/shm");
    let folder = if memory.is_dir() { memory } else { std::env::temp_dir() };
    folder.join(format!("hta-fuzz-{}.pftrace", std::process::id()))
});

fuzz_target!(|data: &[u8]| {
    let Some((block, packets)) = data.split_first() else { return };
    std::fs::write(&*PLACE, [&FIRST[..], packets].concat()).expect("the scratch file can be written");
    let limit = MemoryLimit { bytes: 64 << 20, given: true };
    let options = LoadOptions { event_args: true, memory: Some(limit), ..LoadOptions::default() };
    let seen = |l: Loaded| (Seen::of(&l.columns), l.meta, l.unpacked_bytes);
    for input in discover(&[PLACE.as_path()]).unwrap_or_default() {
        let read = |block| {
            let chunks = Chunks { block, ..Chunks::default() };
            load_in_chunks(&input, options, Spread::Inline, chunks, &ByteCount::default()).map(seen)
        };
        match (read(256 << 10), read(usize::from(*block).max(1))) {
            (Ok(whole), Ok(cut)) => assert_eq!(whole, cut),
            (Err(whole), Err(cut)) => assert_eq!(whole.to_string(), cut.to_string()),
            (whole, cut) => panic!("{:?} at once, {:?} in blocks", whole.map(|_| ()), cut.map(|_| ())),
        }
    }
});

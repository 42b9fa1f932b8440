//! Whole files, compressed or not: read on one thread and on all, in small pieces, within a memory limit. Both must
//! give the same columns, or both must refuse.

#![no_main]

use hta::read::input::Input;
use hta::read::load::{load_in_chunks, peek};
use hta::read::options::LoadOptions;
use hta::read::reading::{Chunks, Loaded, Spread};
use hta::read::source::ByteCount;
use hta::units::MemoryLimit;
use hta_fuzz::Seen;
use libfuzzer_sys::fuzz_target;
use std::path::PathBuf;
use std::sync::LazyLock;

static PLACE: LazyLock<PathBuf> = LazyLock::new(|| {
    let memory = PathBuf::from("/dev/shm");
    let folder = if memory.is_dir() { memory } else { std::env::temp_dir() };
    folder.join(format!("hta-fuzz-{}", std::process::id()))
});

fuzz_target!(|data: &[u8]| {
    std::fs::write(&*PLACE, data).expect("the scratch file can be written");
    let input = Input::named(PLACE.as_path()).shown_as("fuzz");
    let limit = MemoryLimit { bytes: 64 << 20, given: true };
    let options = LoadOptions { event_args: true, memory: Some(limit), ..LoadOptions::default() };
    let chunks = Chunks { block: 700, piece: 300 };
    let read = |spread| load_in_chunks(&input, options, spread, chunks, &ByteCount::default());
    let _ = peek(&input);
    let seen = |l: Loaded| (Seen::of(&l.columns), l.meta, l.unpacked_bytes);
    match (read(Spread::Inline).map(seen), read(Spread::AllCores).map(seen)) {
        (Ok(one), Ok(all)) => assert_eq!(one, all),
        (Err(one), Err(all)) => assert_eq!(one.to_string(), all.to_string()),
        (one, all) => panic!("{:?} on one thread, {:?} on all", one.map(|_| ()), all.map(|_| ())),
    }
});

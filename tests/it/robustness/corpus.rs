//! The inputs of the fuzz target `files`, with what it checks: read on one thread and on all, in small pieces, within a
//! memory limit, a file gives the same columns and counters, or the same refusal.

use hta::read::input::Input;
use hta::read::load::{load_in_chunks, peek};
use hta::read::options::LoadOptions;
use hta::read::reading::{Chunks, Loaded, Spread};
use hta::read::source::ByteCount;
use hta::units::MemoryLimit;
use std::path::Path;

/// What is compared of a reading.
fn seen(loaded: &Loaded) -> String {
    let c = &loaded.columns;
    let rows: Vec<_> = (0..c.len()).map(|i| (c.name(i), c.ts[i], c.dur[i], c.cat[i], c.lane[i])).collect();
    let texts: Vec<&str> = c.strings.iter().map(|(_, text)| text).collect();
    let health: Vec<_> = c.health.iter().map(|(counter, tally)| (counter, tally.count)).collect();
    format!("{rows:?} {texts:?} {health:?} {:?} {}", loaded.meta, loaded.unpacked_bytes)
}

#[test]
fn the_inputs_of_the_fuzz_target_are_read_alike_on_one_thread_and_on_all() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus/files");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("the corpus") {
        let path = entry.expect("a file").path();
        let input = Input::named(path);
        let limit = MemoryLimit { bytes: 64 << 20, given: true };
        let options = LoadOptions { event_args: true, memory: Some(limit), ..LoadOptions::default() };
        let chunks = Chunks { block: 700, piece: 300 };
        let read = |spread| {
            let loaded = load_in_chunks(&input, options, spread, chunks, &ByteCount::default());
            loaded.map(|l| seen(&l)).map_err(|e| e.to_string())
        };
        // It may refuse the file, and must not panic.
        let _ = peek(&input);
        assert_eq!(read(Spread::Inline), read(Spread::AllCores), "{}", input.shown);
        count += 1;
    }
    assert!(count > 30, "{count}");
}

//! The inputs of the fuzz targets `files` and `perfetto`, with what they check: read on one thread and on all, in small
//! pieces, within a memory limit, a file gives the same columns and counters, or the same refusal.

use hta::read::discover::discover;
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

/// A packet that describes a track, before each input: so all are files of packets.
const FIRST: [u8; 7] = [0x0a, 5, 0xe2, 3, 2, 8, 1];

#[test]
fn the_inputs_of_the_fuzz_target_of_packets_are_read_alike_in_blocks_of_any_length() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus/perfetto");
    let place = tempfile::tempdir().expect("a temporary folder");
    let mut read_count = 0;
    let entries: Vec<_> = std::fs::read_dir(folder).expect("the corpus").collect();
    assert!(entries.len() > 15, "{}", entries.len());
    for entry in entries {
        let entry = entry.expect("a file").path();
        let path = place.path().join("rank_0.pftrace");
        let bytes = std::fs::read(&entry).expect("an input");
        let (block, packets) = bytes.split_first().expect("the length of blocks");
        let bytes = [&FIRST[..], packets].concat();
        std::fs::write(&path, bytes).expect("a file");
        let limit = MemoryLimit { bytes: 64 << 20, given: true };
        let options = LoadOptions { event_args: true, memory: Some(limit), ..LoadOptions::default() };
        // Some are of several runs, and some of no known writer.
        for input in discover(&[path.as_path()]).unwrap_or_default() {
            let read = |block| {
                let chunks = Chunks { block, ..Chunks::default() };
                let loaded = load_in_chunks(&input, options, Spread::Inline, chunks, &ByteCount::default());
                loaded.map(|l| seen(&l)).map_err(|e| e.to_string())
            };
            let whole = read(256 << 10);
            read_count += usize::from(whole.is_ok());
            for block in [usize::from(*block).max(1), 1, 700] {
                assert_eq!(read(block), whole, "{} in blocks of {block}", entry.display());
            }
        }
    }
    assert!(read_count > 8, "{read_count}");
}

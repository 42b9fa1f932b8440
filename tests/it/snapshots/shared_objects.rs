//! Pickles that name one object in many places: memory and time go by the size of the file, and the first
//! place has the rows. The same files are in `tests/fuzz/corpus/snapshots`, smaller.

use super::source;
use hta::health::Counter;
use hta::read::room::FixedLimit;
use hta::read::snapshot::{Problem, read_snapshot};
use hta::trace::snapshot::Snapshot;
use hta::units::MemoryLimit;
use std::path::Path;
use std::time::{Duration, Instant};

/// Writes opcodes of protocol 2, with objects that are remembered by hand.
#[derive(Default)]
struct Pickle(Vec<u8>);

impl Pickle {
    fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend(bytes);
        self
    }

    fn text(&mut self, text: &str) -> &mut Self {
        self.raw(b"X").raw(&(text.len() as u32).to_le_bytes()).raw(text.as_bytes())
    }

    fn int(&mut self, value: i32) -> &mut Self {
        self.raw(b"J").raw(&value.to_le_bytes())
    }

    /// A dict of integers, with more pairs at its end.
    fn dict(&mut self, pairs: &[(&str, i32)], more: impl FnOnce(&mut Self)) -> &mut Self {
        self.raw(b"}(");
        for (key, value) in pairs {
            self.text(key).int(*value);
        }
        more(self);
        self.raw(b"u")
    }

    /// Remembers the object on top as number 0.
    fn remember(&mut self) -> &mut Self {
        self.raw(b"q\0")
    }

    fn recall(&mut self) -> &mut Self {
        self.raw(b"h\0")
    }
}

/// A snapshot of these segments and device traces.
fn file(segments: impl FnOnce(&mut Pickle), traces: impl FnOnce(&mut Pickle)) -> Vec<u8> {
    let mut p = Pickle::default();
    p.raw(b"\x80\x02}(").text("segments").raw(b"](");
    segments(&mut p);
    p.raw(b"e").text("device_traces").raw(b"](");
    traces(&mut p);
    p.raw(b"eu.");
    p.0
}

fn blocks(p: &mut Pickle, n: i32) {
    p.raw(b"](");
    for i in 0..n {
        p.dict(&[("address", 4096 + i * 512), ("size", 512)], |p| {
            p.text("state").text("active_allocated");
        });
    }
    p.raw(b"e");
}

fn segment(p: &mut Pickle, at: i32, blocks: impl FnOnce(&mut Pickle)) {
    p.dict(&[("address", at), ("total_size", 1 << 20), ("device", 0)], |p| {
        p.text("blocks");
        blocks(p);
    });
}

/// `segments` segments with one list of `n` blocks.
fn shared_blocks(segments: i32, n: i32) -> Vec<u8> {
    let all = |p: &mut Pickle| {
        for i in 0..segments {
            segment(p, 4096 + (i << 12), |p| match i {
                0 => {
                    blocks(p, n);
                    p.remember();
                }
                _ => {
                    p.recall();
                }
            });
        }
    };
    file(all, |_| {})
}

/// `devices` devices with one list of `n` entries.
fn shared_entries(devices: i32, n: i32) -> Vec<u8> {
    let traces = |p: &mut Pickle| {
        p.raw(b"](");
        for i in 0..n {
            p.dict(&[("addr", 4096 + i * 512), ("size", 512)], |p| {
                p.text("action").text("alloc");
            });
        }
        p.raw(b"e").remember();
        for _ in 1..devices {
            p.recall();
        }
    };
    file(|p| segment(p, 4096, |p| blocks(p, 2)), traces)
}

/// `entries` entries with one text of `length` bytes under a key that nobody knows.
fn shared_text(entries: i32, length: usize) -> Vec<u8> {
    let traces = |p: &mut Pickle| {
        p.raw(b"](");
        for i in 0..entries {
            p.dict(&[("addr", 4096 + i * 512)], |p| {
                p.text("action").text("alloc").text(&format!("key {i}"));
                match i {
                    0 => p.text(&"x".repeat(length)).remember(),
                    _ => p.recall(),
                };
            });
        }
        p.raw(b"e");
    };
    file(|p| segment(p, 4096, |p| blocks(p, 2)), traces)
}

/// `n` blocks with one history of `length` places.
fn shared_history(n: i32, length: usize) -> Vec<u8> {
    let all = |p: &mut Pickle| {
        segment(p, 4096, |p| {
            p.raw(b"](");
            for i in 0..n {
                p.dict(&[("address", 4096 + i * 512), ("size", 512)], |p| {
                    p.text("state").text("active_allocated").text("history");
                    match i {
                        0 => p.raw(b"](").raw(&b"K\x01".repeat(length)).raw(b"e").remember(),
                        _ => p.recall(),
                    };
                });
            }
            p.raw(b"e");
        });
    };
    file(all, |_| {})
}

/// A setting with `n` different pairs.
fn pairs(n: i32) -> Vec<u8> {
    let mut p = Pickle::default();
    p.raw(b"\x80\x02}(").text("allocator_settings").raw(b"}(").text("a").raw(b"](");
    for i in 0..n {
        p.int(i).int(i).raw(b"\x86");
    }
    p.raw(b"eu").text("segments").raw(b"](");
    segment(&mut p, 4096, |p| blocks(p, 2));
    p.raw(b"e").text("device_traces").raw(b"]u.");
    p.0
}

fn read(bytes: &[u8], limit: u64) -> Result<Snapshot, Problem> {
    read_snapshot(source(bytes), &FixedLimit(MemoryLimit { bytes: limit, given: true }))
}

#[test]
fn the_first_place_has_the_rows_and_the_others_are_counted() {
    let blocks = read(&shared_blocks(300, 200), 64 << 20).expect("a snapshot");
    assert_eq!(blocks.segments.iter().map(|s| blocks.blocks(s).len()).collect::<Vec<_>>()[..3], [200, 0, 0]);
    assert_eq!((blocks.segments.len(), blocks.health.count(Counter::SnapshotShared)), (300, 299));
    let entries = read(&shared_entries(40, 100), 64 << 20).expect("a snapshot");
    assert_eq!(entries.histories.iter().map(|h| h.len()).sum::<usize>(), 100);
    assert_eq!(entries.health.count(Counter::SnapshotShared), 39);
}

#[test]
fn own_rows_in_each_place_are_not_counted() {
    let own = file(|p| (0..3).for_each(|i| segment(p, 4096 + (i << 20), |p| blocks(p, 4))), |_| {});
    let own = read(&own, 64 << 20).expect("a snapshot");
    assert!(own.segments.iter().all(|s| own.blocks(s).len() == 4));
    assert_eq!(own.health.count(Counter::SnapshotShared), 0);
}

#[test]
fn a_shared_text_is_not_written_for_each_entry() {
    // Every one of 4,000 entries would have 1 MB.
    let read = read(&shared_text(4_000, 1 << 20), 64 << 20).expect("a snapshot");
    let held: usize = read.texts.iter().map(|(_, text)| text.len()).sum();
    assert!(held < 24 << 20, "{held}");
}

#[test]
fn time_grows_with_the_file() {
    let most = Duration::from_secs(20);
    let files = [
        shared_blocks(20_000, 20_000),
        shared_entries(20_000, 2_000),
        shared_history(20_000, 200_000),
        pairs(300_000),
    ];
    for bytes in files {
        let start = Instant::now();
        let known = read(&bytes, 300 << 20);
        assert!(known.is_ok() || matches!(known, Err(Problem::Exceeds { .. } | Problem::TooLarge { .. })));
        assert!(start.elapsed() < most, "{:?} for {} bytes", start.elapsed(), bytes.len());
    }
}

/// With `HTA_WRITE_CORPUS=1` the files are written anew.
#[test]
fn the_corpus_of_the_fuzz_target_is_read_within_its_size() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus/snapshots");
    let files = [
        ("shared_blocks", shared_blocks(30, 20)),
        ("shared_entries", shared_entries(30, 20)),
        ("shared_text", shared_text(20, 500)),
        ("shared_history", shared_history(20, 300)),
        ("pairs", pairs(100)),
    ];
    for (name, bytes) in files {
        let path = folder.join(format!("{name}.pickle"));
        if std::env::var_os("HTA_WRITE_CORPUS").is_some() {
            std::fs::create_dir_all(&folder).expect("a folder");
            std::fs::write(&path, &bytes).expect("a file");
        }
        assert_eq!(std::fs::read(&path).expect("HTA_WRITE_CORPUS=1 writes it"), bytes, "{name}");
        let snapshot = read(&bytes, 64 << 20).expect("a snapshot");
        let entries: usize = snapshot.histories.iter().map(|h| h.len()).sum();
        let blocks: usize = snapshot.segments.iter().map(|s| snapshot.blocks(s).len()).sum();
        assert!(
            entries + blocks + snapshot.segments.len() <= bytes.len(),
            "{name}: {entries} entries, {blocks} blocks"
        );
    }
}

//! Pickles that want to run something, and files that are cut, damaged or made to use memory: an error with
//! the place, or the part that is complete; never a panic.

use super::pickle::{Py, Writer, at, dumps, entry, segment, snapshot};
use super::{LIMIT, parsed, source};
use hta::health::Counter;
use hta::read::room::FixedLimit;
use hta::read::snapshot::{Problem, read_snapshot};
use hta::snapshot::history::Until;
use hta::units::MemoryLimit;

fn message(bytes: &[u8]) -> String {
    parsed(bytes).err().expect("refused").to_string()
}

#[test]
fn what_asks_to_run_code_is_refused_by_name_and_place() {
    let call = |name: &[u8]| [b"\x80\x02", name, b"X\x02\0\0\0ls\x85R."].concat();
    assert_eq!(
        message(&call(b"cos\nsystem\n")),
        "this pickle asks to run `os.system` (byte 2); a memory snapshot never does"
    );
    assert_eq!(
        message(b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x02ls\x85R."),
        "this pickle asks to run `os.system` (byte 14); a memory snapshot never does"
    );
    assert!(message(b"\x80\x02(X\x02\0\0\0lsios\nsystem\n.").contains("asks to run `os.system`"));
    for (code, name) in [
        (b'R', "REDUCE"),
        (b'b', "BUILD"),
        (b'o', "OBJ"),
        (0x81, "NEWOBJ"),
        (b'Q', "BINPERSID"),
        (b'0', "POP"),
    ] {
        let text = message(&[0x80, 4, b'N', code, b'.']);
        assert_eq!(
            text,
            format!("expected an opcode that memory snapshots use, found the opcode {name} at byte 3")
        );
    }
    assert!(message(&[0x80, 4, 0x07]).contains("the byte 0x07, which is no opcode"));
    assert!(message(&[0x80, 1, b'.']).contains("expected protocol 2 to 5, found protocol 1"));
}

#[test]
fn announcements_and_nesting_take_no_memory() {
    let text = |len: u64| [b"\x80\x04\x8d".as_slice(), &len.to_le_bytes(), b"abc"].concat();
    assert!(
        message(&text(10 << 30))
            .contains("a text of 10737418240 bytes, more than the 16777216 that are accepted")
    );
    assert!(matches!(parsed(&text(1 << 20)), Err(Problem::Cut { byte: 14, .. })));
    assert!(
        message(&[b"\x80\x04\x8b".as_slice(), &i32::MAX.to_le_bytes()].concat())
            .contains("bytes of an integer")
    );
    assert!(
        message(b"\x80\x04\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x01.")
            .contains("an integer from -2^63 to 2^64 - 1")
    );
    // Lists inside each other, with marks and without.
    assert!(
        message(&[b"\x80\x04".as_slice(), &b"](".repeat(100)].concat())
            .contains("containers inside each other")
    );
    let deep = [b"\x80\x04".as_slice(), &b"]".repeat(100_000), &b"a".repeat(99_999), b"."].concat();
    assert!(message(&deep).contains("containers inside each other"));
    assert!(message(&[b"\x80\x04(".as_slice(), &b"N".repeat(3 << 20)].concat()).contains("values wait"));
    // A list that holds itself.
    assert!(message(b"\x80\x04]\x94h\x00a.").contains("of another kind"));
}

#[test]
fn the_memo_is_checked() {
    assert!(
        message(b"\x80\x04h\x05.")
            .contains("expected a place of the memo that was filled, found place 5 of 0")
    );
    assert!(message(b"\x80\x04]r\xff\xff\xff\xff.").contains("expected the next place of the memo"));
    assert!(message(b"\x80\x04N\x94.").contains("a text or container to remember"));
    assert!(message(b"\x80\x04]\x94\x94.").contains("a text or container to remember"));
}

#[test]
fn stacks_that_run_dry_are_told() {
    for body in [
        b"a".as_slice(),
        b"e",
        b"u",
        b"s",
        b"d",
        b"t",
        b"\x87",
        b"(.",
        b"NN.",
        b".",
        b"(e",
        b"N(u",
        b"}(Nu",
        b"N(Ne",
        b"]NNs",
    ] {
        let bytes = [b"\x80\x04", body].concat();
        assert!(matches!(parsed(&bytes), Err(Problem::Malformed { .. } | Problem::Cut { .. })), "{body:?}");
    }
}

#[test]
fn the_memory_limit_holds() {
    let entries = (0..40_000).map(|i| entry("alloc", i * 512, 512, i, at(i))).collect();
    let bytes = dumps(&snapshot(Vec::new(), vec![entries]), Writer::Python);
    let limit = MemoryLimit { bytes: 1 << 20, given: true };
    assert!(matches!(read_snapshot(source(&bytes), &FixedLimit(limit)), Err(Problem::TooLarge { .. })));
    assert!(read_snapshot(source(&bytes), &FixedLimit(LIMIT)).is_ok());
}

#[test]
fn other_pickles_are_named() {
    assert!(
        message(&dumps(&Py::Dict(vec![("a", 1.into())]), Writer::Python))
            .contains("of another kind, without `segments`")
    );
    let recorder = Py::Dict(vec![
        ("version", "2.4".into()),
        ("pg_config", Py::Dict(vec![])),
        ("entries", Py::List(vec![])),
    ]);
    assert!(message(&dumps(&recorder, Writer::Torch)).contains("found an NCCL flight recorder dump"));
}

/// A small snapshot with everything that files have.
fn small(writer: Writer) -> Vec<u8> {
    let segments = vec![segment(0, 4096, 0, (0, 0), &[(512, 500, "active_allocated"), (512, 0, "inactive")])];
    let history = vec![
        entry("alloc", 4096, 500, 1, at(3)),
        entry("alloc", 4608, 100, 2, at(4)),
        entry("free_requested", 4608, 100, 3, at(5)),
        entry("free_completed", 4608, 100, 3, at(5)),
    ];
    dumps(&snapshot(segments, vec![history, Vec::new()]), writer)
}

#[test]
fn every_cut_is_an_error_or_the_complete_entries() {
    for writer in [Writer::Python, Writer::Torch] {
        let bytes = small(writer);
        let whole = parsed(&bytes).expect("a snapshot");
        assert_eq!(whole.histories.iter().map(|h| h.len()).sum::<usize>(), 4);
        let mut entries_before = 0;
        let mut usable = 0;
        for end in 0..bytes.len() {
            let Ok(cut) = parsed(&bytes[..end]) else {
                assert_eq!(
                    usable, 0,
                    "{writer:?} {end}: once the segments are complete, the rest may be missing"
                );
                continue;
            };
            usable += 1;
            assert_eq!(
                (cut.segments.len(), cut.health.count(Counter::SnapshotCut)),
                (1, 1),
                "{writer:?} {end}"
            );
            let entries = cut.histories.iter().map(|h| h.len()).sum::<usize>();
            assert!(entries >= entries_before && entries <= 4, "{writer:?} {end}: {entries}");
            entries_before = entries;
            let (devices, _) = super::replayed(&cut, Until::Completed);
            assert!(devices.iter().flat_map(|d| &d.replay).all(|r| r.levels.iter().all(|l| *l >= 0)));
        }
        assert_eq!(entries_before, 4);
        assert!(usable > bytes.len() / 4, "{usable} of {}", bytes.len());
    }
}

#[test]
fn flipped_bits_make_no_panic() {
    for writer in [Writer::Python, Writer::Torch] {
        let bytes = small(writer);
        let (mut state, mut refused) = (7u64, 0);
        for _ in 0..400 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (at, bit) = ((state >> 20) as usize % bytes.len(), (state >> 60) % 8);
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            match parsed(&damaged) {
                Err(_) => refused += 1,
                Ok(s) => {
                    for until in [Until::Completed, Until::Requested] {
                        let (devices, _) = super::replayed(&s, until);
                        let sites = hta::snapshot::site::Sites::new(&s);
                        for device in &devices {
                            let _ = super::table(device, &sites, "memory_sentences");
                        }
                    }
                }
            }
        }
        assert!(refused > 20, "{refused}");
    }
}

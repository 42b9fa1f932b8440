//! What no real snapshot at hand has: failed requests, retries, pending blocks, pools, several streams, the
//! first and the last generation. Both writers give the same.

use super::pickle::{Py, Writer, at, dumps, entry, frame, segment, snapshot};
use super::{parsed, replayed, sentences, table};
use hta::health::Counter;
use hta::snapshot::events::{EventKind, events};
use hta::snapshot::history::Until;
use hta::snapshot::site::Sites;
use hta::trace::snapshot::{Generation, Snapshot};

const MIB: i64 = 1 << 20;
const BASE: i64 = 0x7f00_0000_0000;

/// The same snapshot as either writer writes it.
fn both(value: &Py) -> [Snapshot; 2] {
    [Writer::Python, Writer::Torch].map(|w| parsed(&dumps(value, w)).expect("a snapshot"))
}

fn segment_entry(action: &str, addr: i64, size: i64, frames: Vec<Py>) -> Py {
    entry(action, addr, size, -1, frames)
}

#[test]
fn who_was_there_before_is_found_from_the_frees_and_the_end() {
    // entry       0        1       2      3       4      end
    // a  100      alloc    .       .      .       .      active
    // x  30  -----------------------freed ('before')
    // b  50       .        alloc   .      freed
    // c  7   ------------------------------------------- active
    let history = vec![
        entry("alloc", BASE, 100, 10, at(5)),
        entry("alloc", BASE + 512, 50, 20, at(6)),
        entry("free_requested", BASE + 4096, 30, 30, at(7)),
        entry("free_completed", BASE + 4096, 30, 30, at(7)),
        entry("free_requested", BASE + 512, 50, 40, at(8)),
        entry("free_completed", BASE + 512, 50, 40, at(8)),
    ];
    let blocks = [
        (512, 100, "active_allocated"),
        (512, 50, "inactive"),
        (512, 7, "active_allocated"),
        (512, 0, "inactive"),
    ];
    for s in both(&snapshot(vec![segment(0, BASE, 0, (0, 0), &blocks)], vec![history.clone()])) {
        assert_eq!(s.generation, Generation::Timed);
        let (devices, health) = replayed(&s, Until::Completed);
        let replay = devices[0].replay.as_ref().expect("a history");
        assert_eq!((replay.before, replay.disagreement), (37, 0));
        assert_eq!(replay.levels, [137, 187, 187, 157, 157, 107]);
        assert_eq!((replay.peak.bytes, replay.peak.seq), (187, Some(1)));
        assert!(!health.has_loss());
        let sites = Sites::new(&s);
        let rows = table(&devices[0], &sites, "memory_allocations");
        let ended: Vec<_> = (0..rows.len()).map(|r| (rows.text("ended", r), rows.int("bytes", r))).collect();
        let expected = [("live", 7), ("before", 30), ("live", 100), ("freed", 50)];
        assert_eq!(ended, expected.map(|(e, b)| (Some(e), Some(b))));
        assert_eq!((rows.int("lifetime_ns", 3), rows.int("free_ts_ns", 1)), (Some(20_000), Some(30_000)));
        let curve = table(&devices[0], &sites, "memory_curve");
        let deltas: i64 = (0..curve.len()).filter_map(|r| curve.int("delta_bytes", r)).sum();
        assert_eq!(deltas, 107 - 37);
    }
}

#[test]
fn a_pending_block_counts_until_the_free_is_completed() {
    let history = vec![
        entry("alloc", BASE, 400, 1, at(1)),
        entry("free_requested", BASE, 400, 2, at(2)),
        entry("alloc", BASE + 512, 300, 3, at(3)),
    ];
    let blocks = [(512, 400, "active_pending_free"), (512, 300, "active_allocated"), (1024, 0, "inactive")];
    for s in both(&snapshot(vec![segment(0, BASE, 0, (0, 0), &blocks)], vec![history.clone()])) {
        let (devices, _) = replayed(&s, Until::Completed);
        let end = &devices[0].end;
        assert_eq!([end.active, end.requested, end.pending, end.pending_requested], [512, 300, 512, 400]);
        assert_eq!([end.rounding(), end.inactive(), end.split], [212, 1024, 1024]);
        let replay = devices[0].replay.as_ref().expect("a history");
        assert_eq!((replay.levels.as_slice(), replay.disagreement), ([400, 400, 700].as_slice(), 0));
        let (devices, _) = replayed(&s, Until::Requested);
        let replay = devices[0].replay.as_ref().expect("a history");
        assert_eq!((replay.levels.as_slice(), replay.disagreement), ([400, 0, 300].as_slice(), 0));
    }
}

#[test]
fn a_failed_request_is_told_first_with_what_was_free() {
    let history = vec![
        segment_entry("segment_alloc", BASE, 20 * MIB, at(1)),
        entry("alloc", BASE, 18 * MIB, -1, at(2)),
        segment_entry("oom", 5 * MIB, 64 * MIB, at(3)),
    ];
    let blocks = [(18 * MIB, 18 * MIB, "active_allocated"), (2 * MIB, 0, "inactive")];
    for s in both(&snapshot(vec![segment(0, BASE, 0, (0, 0), &blocks)], vec![history.clone()])) {
        let sites = Sites::new(&s);
        let (devices, _) = replayed(&s, Until::Completed);
        let oom =
            events(&devices[0], &sites).into_iter().find(|e| e.kind == EventKind::Oom).expect("the failure");
        assert_eq!((oom.bytes, oom.device_free, oom.reserved), (64 * MIB, Some(5 * MIB), 20 * MIB));
        let told = sentences(&devices[0], &sites);
        let first = told.first().expect("a finding");
        assert!(first.contains("a request of 67.1 MB failed (entry 2) at train.py:3"), "{first}");
        assert!(
            first.contains("18.9 MB were requested before, 21.0 MB reserved, 5.24 MB were free"),
            "{first}"
        );
        assert!(first.ends_with("most was held by train.py:2, 18.9 MB (see --at entry:2)"), "{first}");
        let rows = table(&devices[0], &sites, "memory_events");
        assert_eq!(rows.int("device_free_bytes", 1), Some(5 * MIB));
    }
}

#[test]
fn what_is_freed_and_waits_for_a_stream_is_told_with_the_request_that_fails() {
    let alloc =
        |at_mib: i64, mib: i64, line: i64| entry("alloc", BASE + at_mib * MIB, mib * MIB, -1, at(line));
    let free = |action: &str, at_mib: i64, mib: i64| entry(action, BASE + at_mib * MIB, mib * MIB, -1, at(4));
    let all = vec![
        segment_entry("segment_alloc", BASE, 20 * MIB, at(1)),
        alloc(0, 12, 2),
        alloc(12, 4, 3),
        free("free_requested", 12, 4),
        // Freed for good, and freed after the failure.
        alloc(16, 2, 5),
        free("free_requested", 16, 2),
        free("free_completed", 16, 2),
        segment_entry("oom", 5 * MIB, 4 * MIB, at(6)),
        free("free_requested", 0, 12),
    ];
    let blocks = [
        (12 * MIB, 12 * MIB, "active_pending_free"),
        (4 * MIB, 4 * MIB, "active_pending_free"),
        (4 * MIB, 0, "inactive"),
    ];
    let first = |history: Vec<Py>| {
        let [s, _] = both(&snapshot(vec![segment(0, BASE, 0, (0, 0), &blocks)], vec![history]));
        let sites = Sites::new(&s);
        let (devices, _) = replayed(&s, Until::Completed);
        sentences(&devices[0], &sites).into_iter().next().expect("a finding")
    };
    let told = first(all.clone());
    let words =
        "train.py:6: 4.19 MB (25.0 %) of train.py:3 are freed and wait for a stream (record_stream); ";
    assert!(told.contains(words), "{told}");
    let mut two = all.clone();
    two.splice(7..7, [alloc(18, 1, 7), free("free_requested", 18, 1)]);
    let told = first(two);
    assert!(
        told.contains("5.24 MB (") && told.contains("most of it (4.19 MB) of train.py:3, are freed"),
        "{told}"
    );
    let mut without = all;
    without.remove(3);
    assert!(!first(without).contains("wait for a stream"));
}

#[test]
fn a_flush_is_a_retry_unless_its_frames_say_otherwise() {
    let empty =
        || vec![frame("torch/cuda/memory.py", 200, "empty_cache"), frame("/home/me/train.py", 9, "step")];
    let flush = |frames: &dyn Fn() -> Vec<Py>| {
        vec![
            segment_entry("segment_free", BASE, MIB, frames()),
            segment_entry("segment_free", BASE + MIB, 2 * MIB, frames()),
            segment_entry("segment_alloc", BASE, 3 * MIB, at(4)),
        ]
    };
    let kinds = |history: Vec<Py>| {
        let s = parsed(&dumps(
            &snapshot(vec![segment(0, BASE, 0, (0, 0), &[(3 * MIB, 0, "inactive")])], vec![history]),
            Writer::Python,
        ));
        let s = s.expect("a snapshot");
        let (devices, _) = replayed(&s, Until::Completed);
        let sites = Sites::new(&s);
        let all = events(&devices[0], &sites);
        let replay = devices[0].replay.as_ref().expect("a history");
        assert_eq!([replay.reserved_before, replay.reserved_max], [3 * MIB, 3 * MIB]);
        let told = sentences(&devices[0], &sites);
        let flushes: Vec<_> =
            all.iter().filter(|e| e.count > 0).map(|e| (e.kind, e.bytes, e.count, e.is_followed)).collect();
        (flushes, told.join("\n"))
    };
    let (found, told) = kinds(flush(&|| at(9)));
    assert_eq!(found, [(EventKind::Retry, 3 * MIB, 2, true)]);
    assert!(
        told.contains("the allocator flushed its cache once and asked the device again, first at train.py:9"),
        "{told}"
    );
    assert_eq!(kinds(flush(&Vec::new)).0, [(EventKind::Flush, 3 * MIB, 2, true)]);
    let (found, told) = kinds(flush(&empty));
    assert_eq!(found, [(EventKind::EmptyCache, 3 * MIB, 2, true)]);
    assert!(!told.contains("in a loop"), "{told}");
    let (found, told) = kinds(flush(&empty).into_iter().chain(flush(&empty)).collect());
    assert_eq!(found.len(), 2);
    assert!(told.contains("empty_cache() runs in a loop: 2 times it gave 6.29 MB back"), "{told}");
    // Freed at the end, and nothing is asked for: only the frames can tell.
    let mut last = flush(&|| at(9));
    last.pop();
    let s = snapshot(Vec::new(), vec![last]);
    let s = parsed(&dumps(&s, Writer::Python)).expect("a snapshot");
    let (devices, _) = replayed(&s, Until::Completed);
    assert!(events(&devices[0], &Sites::new(&s)).iter().all(|e| e.count == 0));
}

#[test]
fn streams_pools_and_devices_are_kept_apart() {
    let blocks = [(1024, 1000, "active_allocated"), (1024, 0, "inactive")];
    let free = [(4096, 0, "inactive")];
    let segments = vec![
        segment(0, BASE, 0, (0, 0), &blocks),
        segment(0, BASE + 8192, 17, (0, 0), &blocks),
        segment(0, BASE + 16384, 0, (0, 3), &free),
        segment(2, BASE, 0, (0, 0), &free),
    ];
    for s in both(&snapshot(segments.clone(), Vec::new())) {
        let (devices, _) = replayed(&s, Until::Completed);
        assert_eq!(devices.iter().map(|d| d.device).collect::<Vec<_>>(), [Some(0), Some(2)]);
        let end = &devices[0].end;
        assert_eq!([end.reserved, end.releasable, end.split, end.largest_inactive], [8192, 4096, 2048, 4096]);
        assert_eq!(end.fragmentation(), Some(1.0 - 4096.0 / 6144.0));
        let rows = table(&devices[0], &Sites::new(&s), "memory_segments");
        let of = |r: usize| (rows.int("stream", r), rows.text("pool", r), rows.int("largest_free_bytes", r));
        assert_eq!(
            [of(0), of(1), of(2)],
            [
                (Some(0), Some("0,0"), Some(1024)),
                (Some(17), Some("0,0"), Some(1024)),
                (Some(0), Some("0,3"), Some(4096))
            ]
        );
        let rows = table(&devices[0], &Sites::new(&s), "memory_blocks");
        assert_eq!(rows.len(), 5);
        assert_eq!(
            (rows.int("offset_bytes", 1), rows.text("state", 1), rows.text("site", 1)),
            (Some(1024), Some("inactive"), None)
        );
        // Without a history, the blocks are the content.
        let content = table(&devices[0], &Sites::new(&s), "memory_content");
        assert_eq!(
            (content.text("moment", 0), content.text("key_kind", 0), content.int("bytes", 0)),
            (Some("end"), Some("line"), Some(2000))
        );
    }
}

#[test]
fn the_first_generation_has_its_history_in_the_blocks() {
    let past = |size: i64, line: i64| {
        Py::List(vec![Py::Dict(vec![
            ("addr", BASE.into()),
            ("real_size", size.into()),
            ("frames", at(line).into()),
        ])])
    };
    let block = |size: i64, state: &str, history: Py| {
        Py::Dict(vec![("size", size.into()), ("state", state.into()), ("history", history)])
    };
    let segment = Py::Dict(vec![
        ("address", BASE.into()),
        ("total_size", 1536.into()),
        ("allocated_size", 1024.into()),
        ("active_size", 1024.into()),
        ("device", 1.into()),
        ("stream", 0.into()),
        ("segment_type", "small".into()),
        (
            "blocks",
            vec![
                block(512, "active_allocated", past(500, 3)),
                block(512, "inactive", Py::List(Vec::new())),
                block(512, "active_allocated", past(400, 4)),
            ]
            .into(),
        ),
    ]);
    // The snapshot may be a list of segments alone.
    for s in both(&Py::List(vec![segment])) {
        assert_eq!(s.generation, Generation::BlockHistory);
        let (devices, health) = replayed(&s, Until::Completed);
        assert_eq!([devices[0].end.active, devices[0].end.requested, devices[0].end.split], [1024, 900, 512]);
        assert_eq!(health.count(Counter::SnapshotSumDiffers), 0);
        let sites = Sites::new(&s);
        let rows = table(&devices[0], &sites, "memory_blocks");
        assert_eq!((rows.int("offset_bytes", 2), rows.text("site", 2)), (Some(1024), Some("train.py:4")));
    }
}

#[test]
fn the_last_generation_has_memory_of_the_host_and_more_keys() {
    let mut alloc = entry("alloc", BASE, 512, 5, at(4));
    if let Py::Dict(pairs) = &mut alloc {
        pairs.extend([
            ("category", Py::from("gradient stuff")),
            ("compile_context", "N/A".into()),
            (
                "user_metadata",
                Py::Dict(vec![("step", 7.into()), ("tags", Py::List(vec![Py::Float(0.5), Py::None]))]),
            ),
            ("pool_id", Py::Tuple(vec![0.into(), 0.into()])),
        ]);
    }
    let annotate = entry("annotate", 0, 0, 6, Vec::new());
    let strange = entry("teleport", 0, 9, 7, Vec::new());
    let far = Py::Dict(vec![
        ("name", "f".into()),
        ("filename", "C:\\me\\net.py".into()),
        ("line", Py::Big(u64::MAX)),
    ]);
    let host = entry("alloc", 64, 4096, 8, vec![far]);
    let mut top = match snapshot(
        vec![segment(0, BASE, 0, (0, 0), &[(512, 512, "active_allocated")])],
        vec![vec![alloc, annotate, strange]],
    ) {
        Py::Dict(pairs) => pairs,
        _ => Vec::new(),
    };
    top.push(("host_segments", vec![segment(0, 64, 0, (0, 0), &[(4096, 4096, "active_allocated")])].into()));
    top.push(("host_traces", Py::List(vec![host])));
    top.push(("allocator_settings", Py::Dict(vec![("expandable_segments", Py::Bool(true))])));
    let start = |stage: &str, time: i64| {
        Py::Dict(vec![
            ("stage", stage.into()),
            ("name", "Optimizer.zero_grad#SGD.zero_grad".into()),
            ("device", 0.into()),
            ("time_us", time.into()),
        ])
    };
    top.push(("external_annotations", vec![start("START", 1), start("END", 9)].into()));
    for s in both(&Py::Dict(top)) {
        assert_eq!(s.generation, Generation::Host);
        assert_eq!(s.settings, [("expandable_segments".to_string(), "true".to_string())]);
        let (devices, health) = replayed(&s, Until::Completed);
        assert_eq!(
            devices.iter().map(|d| (d.device, d.device_type())).collect::<Vec<_>>(),
            [(Some(0), "cuda"), (None, "cpu")]
        );
        assert_eq!(health.count(Counter::SnapshotActionUnknown), 1);
        assert!(!health.has_loss());
        let history = devices[0].history.expect("a history");
        let first = s.entries(history).next().expect("an entry");
        assert_eq!(
            s.texts.get(first.other),
            r#"{"user_metadata":{"step":7,"tags":[0.5,null]},"pool_id":[0,0]}"#
        );
        let sites = Sites::new(&s);
        let rows = table(&devices[0], &sites, "memory_allocations");
        assert_eq!(rows.text("phase", 0), Some("gradient stuff"));
        let unknown = s.entries(history).nth(2).expect("an entry");
        assert_eq!(devices[0].phases.of(unknown, sites.of(unknown.stack)), "zero_grad");
        // A line that is 2^64 - 1 is unknown; a path of Windows is split, too.
        let rows = table(&devices[1], &sites, "memory_allocations");
        assert_eq!(rows.text("site", 0), Some("net.py"));
    }
}

#[test]
fn a_history_that_disagrees_with_the_end_is_counted_and_still_adds_up() {
    let history = vec![
        entry("alloc", BASE, 100, 1, at(1)),
        entry("alloc", BASE, 60, 2, at(2)),
        entry("free_completed", BASE + 512, 40, 3, at(3)),
    ];
    let s = snapshot(vec![segment(0, BASE, 0, (0, 0), &[(512, 200, "active_allocated")])], vec![history]);
    let s = parsed(&dumps(&s, Writer::Python)).expect("a snapshot");
    let (devices, health) = replayed(&s, Until::Completed);
    let replay = devices[0].replay.as_ref().expect("a history");
    // 40 bytes are freed that were there before; the second allocation replaces the first.
    assert_eq!((replay.before, replay.levels.as_slice()), (40, [140, 100, 60].as_slice()));
    assert_eq!(health.count(Counter::SnapshotAllocOverLive), 1);
    // By the end state there should be 200 - (100 + 60 - 40) before.
    assert_eq!(health.count(Counter::SnapshotStateDisagrees), 80 - 40);
    let rows = table(&devices[0], &Sites::new(&s), "memory_allocations");
    assert_eq!(rows.text("ended", 1), Some("unknown"));
}

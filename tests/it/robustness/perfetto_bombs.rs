//! Small files of packets that unpack to many tracks, names or counters, or to one long packet: what they take is asked
//! for at the memory limit. Long texts that many rows share, and many tracks: the work grows with the file.

use crate::job::determinism::gzip;
use crate::robustness::faults::{MeasuredRun, has_python, measured};
use hta_testkit::{ProtoMessage, TraceBuilder, perfetto_file, us};
use std::path::Path;
use std::time::Duration;

/// A short trace as torch writes it.
fn trace() -> Vec<u8> {
    let mut t = TraceBuilder::new().rank(0).device("NVIDIA H100", 132);
    let mut main = t.thread(1000);
    main.op("aten::mm", us(10)..us(30));
    main.launch(us(25)..us(29)).kernel("gemm<float>(float*)", 7, us(35)..us(50));
    perfetto_file(&t.to_packets())
}

fn message() -> ProtoMessage {
    ProtoMessage::new()
}

/// The packet of an event of the first writer.
fn event(ts: i64, event: &ProtoMessage) -> ProtoMessage {
    message().int(8, ts).int(10, 1).message(11, event)
}

fn packet_of(track: &ProtoMessage) -> ProtoMessage {
    message().int(8, 0).message(60, track)
}

fn packets(count: i64, packet: impl Fn(i64) -> ProtoMessage) -> Vec<u8> {
    (0..count).fold(message(), |file, i| file.message(1, &packet(i))).0
}

fn tracks(count: i64) -> Vec<u8> {
    packets(count, |i| packet_of(&message().int(1, 1000 + i).bytes(8, b"")))
}

/// Descriptions of counters, a thousand in a packet.
fn counters(count: i64) -> Vec<u8> {
    let names = |packet: i64| {
        (0..1000).fold(message(), |names, i| names.message(47, &message().int(1, 1000 * packet + i)))
    };
    packets(count / 1000, |packet| message().int(8, 0).int(10, 1).message(12, &names(packet)))
}

/// A packet whose inner message has so many equal fields.
fn repeated(outer: u32, begin: &ProtoMessage, field: &[u8], count: usize) -> Vec<u8> {
    let inner = [begin.0.clone(), field.repeat(count)].concat();
    message().message(1, &message().int(8, 5_000).int(10, 1).bytes(outer, &inner)).0
}

/// Files that take several times the limit if nobody counts what they hold.
fn bombs() -> Vec<(&'static str, Vec<u8>)> {
    let begin = message().int(9, 1).int(11, 5).text(23, "x");
    let counter = message().int(1, 7).message(2, &message().message(1, &message().int(1, 1).text(2, "c")));
    let described = message().int(10, 1).message(12, &message().message(47, &counter));
    let described = perfetto_file(&[described]);
    let one_packet = message().message(1, &message().int(8, 5).bytes(99, &vec![0; 200 << 20])).0;
    let categories = repeated(11, &begin, &[0xb2, 1, 1, b'a'], 6_000_000);
    let annotations = repeated(11, &begin, &[0x22, 0], 20_000_000);
    let samples = repeated(52, &message().int(4, 7), &[0x12, 0], 20_000_000);
    vec![
        ("tracks", [trace(), tracks(1_500_000)].concat()),
        ("tracks_only", tracks(1_500_000)),
        ("counters", [trace(), counters(1_000_000)].concat()),
        ("categories", [categories.clone(), trace()].concat()),
        ("categories_late", [trace(), categories].concat()),
        ("annotations", [trace(), annotations].concat()),
        ("samples", [trace(), described, samples].concat()),
        ("first", [one_packet.clone(), trace()].concat()),
        ("last", [trace(), one_packet].concat()),
    ]
}

#[test]
fn what_a_file_of_packets_makes_us_keep_is_asked_for_at_the_limit() {
    if !has_python() {
        return;
    }
    const LIMIT: u64 = 100_000_000;
    let dir = tempfile::tempdir().expect("a temporary folder");
    for (name, bytes) in bombs() {
        let file = dir.path().join(format!("{name}.pftrace.gz"));
        std::fs::write(&file, gzip(&bytes)).expect("a file");
        let args = ["breakdown", "--threads", "1", "--memory-limit", "100MB"];
        let MeasuredRun { code, said, bytes, .. } = measured(&args, &file);
        assert_eq!(code, Some(2), "{name}: {said}");
        let is_other = name == "categories" && said.contains("TrackEvents of another program");
        assert!(said.contains("--memory-limit leaves") || is_other, "{name}: {said}");
        assert!(bytes < LIMIT + 64_000_000, "{name}: {bytes} bytes");
    }
}

/// Shorter runs are dominated by fixed costs.
const AT_LEAST: Duration = Duration::from_millis(500);

/// Largest allowed factor for four times the size; quadratic cost would be 16.
const MOST: u32 = 8;

/// Compares the time on a core for a file with that for a quarter of it.
fn grows_with_the_file(n: usize, file_of: impl Fn(usize) -> Vec<u8>) {
    if !has_python() {
        return;
    }
    let dir = tempfile::tempdir().expect("a temporary folder");
    let time = |n: usize| {
        let file = dir.path().join("rank_0.pftrace");
        std::fs::write(&file, file_of(n)).expect("a file");
        let run = measured(&["breakdown", "--threads", "1"], &file);
        // The trace before them is of another time, so that some rows are outliers.
        assert!(matches!(run.code, Some(0 | 1)), "{}", run.said);
        run.cpu
    };
    let (quarter, whole) = (time(n / 4), time(n));
    assert!(whole <= MOST * quarter.max(AT_LEAST), "{quarter:?} for a quarter, {whole:?} for {n}");
}

/// The names of a writer: a text in this field, which is number 9.
fn named(field: u32, text_field: u32, text: &str) -> ProtoMessage {
    message().int(10, 1).message(12, &message().message(field, &message().int(1, 9).text(text_field, text)))
}

fn slices(count: i64, begin: &ProtoMessage, end: &ProtoMessage) -> Vec<u8> {
    packets(2 * count, |i| event(1_000 + 5 * i, if i % 2 == 0 { begin } else { end }))
}

/// A text of a hundred bytes for each of its rows.
fn long(rows: usize) -> String {
    "A".repeat(100 * rows)
}

#[test]
fn a_long_name_of_many_rows_is_looked_at_once() {
    let end = message().int(9, 2).int(11, 5);
    let begin = message().int(9, 1).int(11, 5).text(22, "cpu_op");
    let thread = message().int(1, 5).message(4, &message().int(1, 1).int(2, 11));
    grows_with_the_file(40_000, |n| {
        let (names, thread) = (perfetto_file(&[named(2, 2, &long(n))]), perfetto_file(&[packet_of(&thread)]));
        [trace(), names, thread, slices(n as i64, &begin.clone().int(10, 9), &end)].concat()
    });
    // The name of a process, which is that of its threads, too.
    grows_with_the_file(40_000, |n| {
        let process = perfetto_file(&[packet_of(&message().int(1, 5).text(2, &long(n)))]);
        [trace(), process, slices(n as i64, &begin.clone().text(23, "a"), &end)].concat()
    });
}

#[test]
fn a_long_kind_of_many_rows_is_looked_at_once() {
    let stage = |i: i64| {
        let stage = message().int(2, 50).int(14, 9);
        message().int(8, 1_000 + 100 * i).int(10, 1).message(53, &stage)
    };
    grows_with_the_file(40_000, |n| {
        [trace(), perfetto_file(&[named(24, 2, &long(n))]), packets(n as i64, stage)].concat()
    });
}

#[test]
fn the_runs_of_a_file_are_counted_once_however_many_tracks_it_has() {
    grows_with_the_file(30_000, |n| {
        let run = |run: i64, name: &str| {
            let process = message().int(1, run).text(6, name);
            let track = |row: i64| message().int(1, run + row).int(5, run);
            perfetto_file(&[
                packet_of(&message().int(1, run).message(3, &process)),
                packet_of(&track(1).text(2, "stream 7")),
                packet_of(&track(2).message(4, &message().int(1, run).int(2, 11))),
            ])
        };
        let others = packets(n as i64, |i| packet_of(&message().int(1, 1_000 + i).int(5, 10).text(2, "x")));
        let kernel = |run: i64| message().int(9, 1).int(11, run + 1).text(22, "kernel").text(23, "k");
        let end = |run: i64| message().int(9, 2).int(11, run + 1);
        let [first, second] = [10, 20].map(|run| slices(n as i64, &kernel(run), &end(run)));
        [run(10, "before"), others, run(20, "after"), first, second].concat()
    });
}

/// A hundred megabytes of empty packets are a hundred kilobytes on the disk.
#[test]
fn empty_packets_change_nothing() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let said = |name: &str, bytes: &[u8]| {
        let folder = dir.path().join(name);
        std::fs::create_dir(&folder).expect("a folder");
        let file: &Path = &folder.join("rank_0.pftrace.gz");
        std::fs::write(file, gzip(bytes)).expect("a file");
        let run = crate::robustness::recorders::hta(&["breakdown", "--format", "csv"], &[file]);
        assert_eq!(run.status.code(), Some(0), "{name}: {}", String::from_utf8_lossy(&run.stderr));
        run.stdout
    };
    let empty = [0x0a, 0].repeat(50 << 20);
    let whole = said("whole", &trace());
    assert_eq!(said("behind", &[trace(), empty.clone()].concat()), whole);
    // Within the first bytes, by which a file is told.
    let few = &empty[..2_000];
    assert_eq!(said("before", &[few, &trace(), &empty].concat()), whole);
}

//! Memory timelines of the profiler: levels by category, in both forms.

use super::source;
use hta::health::Counter;
use hta::read::room::FixedLimit;
use hta::read::snapshot::{Problem, is_timeline, read_timeline};
use hta::snapshot::tables::DumpTables;
use hta::snapshot::timeline::Levels;
use hta::table::schema::Batch;
use hta::trace::memory_timeline::MemoryTimeline;

fn parsed(text: &str) -> Result<MemoryTimeline, Problem> {
    read_timeline(source(text.as_bytes()), &FixedLimit(super::LIMIT))
}

pub fn table(levels: &Levels, name: &str) -> Batch {
    let mut tables = DumpTables::of(|_| true);
    levels.add(&mut tables, 0, None);
    super::named(tables, name)
}

#[test]
fn a_new_version_is_neither_a_dip_nor_a_peak() {
    // 100 from before, 50 created, then the 50 change category within one time, then they go.
    let text = "[[-1, 1, 100, 0], [1000, 2, 50, 4], [2000, 3, -50, 4], [2000, 3, 50, 7], [3000, 4, -50, 7]]";
    assert!(is_timeline(text.as_bytes()));
    let levels = Levels::new(&parsed(text).expect("a timeline"));
    let curve = table(&levels, "memory_curve");
    let rows: Vec<_> = (0..curve.len())
        .map(|r| (curve.int("ts_ns", r), curve.int("delta_bytes", r), curve.int("allocated_bytes", r)))
        .collect();
    let at = |ts: i64, delta: i64, level: i64| (Some(ts), Some(delta), Some(level));
    assert_eq!(
        rows,
        [
            (None, Some(100), Some(100)),
            at(1000, 50, 150),
            at(2000, -50, 150),
            at(2000, 50, 150),
            at(3000, -50, 100)
        ]
    );
    let peaks = table(&levels, "memory_peaks");
    assert_eq!(
        (peaks.int("peak_bytes", 0), peaks.int("seq", 0), peaks.int("ts_ns", 0)),
        (Some(150), Some(1), Some(1000))
    );
    assert_eq!(peaks.int("base_bytes", 0), Some(100));
}

#[test]
fn levels_of_the_other_form_are_read_also_if_there_are_four_times() {
    for (times, rows) in [("[1, 2.5, 3]", 3), ("[1, 2, 3, 4]", 4)] {
        let sizes: Vec<String> =
            (0..rows).map(|i| format!("[0, {}, 0, 0, 0, {}, 0, 0, 0]", 10 * i, 5)).collect();
        let text = format!("[{times}, [{}]]", sizes.join(","));
        assert!(is_timeline(text.as_bytes()));
        let levels = Levels::new(&parsed(&text).expect("a timeline"));
        assert_eq!(levels.peak_bytes(), 10 * (rows - 1) + 5, "{text}");
        let curve = table(&levels, "memory_curve");
        assert_eq!(curve.int("ts_ns", 1), Some(if rows == 3 { 2_500 } else { 2_000 }));
        assert_eq!(curve.text("category", 0), Some("activation"));
    }
}

#[test]
fn other_lists_and_hostile_ones_are_refused() {
    for text in ["{}", "[1, 2]", "[[]]", "[\"a\"]", "[[\"a\"]]", "", "[", "[[true]]", "[[[1]]]"] {
        assert!(!is_timeline(text.as_bytes()), "{text}");
    }
    for text in [
        "[[1, 2, 3, 4], [1, 2]]",
        "[[1, 9, 3, 4], [1, 2, 3, 4]]",
        "[[1], [[0, 1]]]",
        "[[1], [[0,1,1,1,1,1,1,1,1], [0,1,1,1,1,1,1,1,1]]]",
        "[[[1]]]",
        "[[[[[[1",
        "[[1, 2, 3",
        "]",
        "[[1, 2, 3, 4], {}]",
        "[[1e, 2, 3, 4]]",
        "[[11111111111111111111111111111111111111111111111111]]",
    ] {
        assert!(parsed(text).is_err(), "{text}");
    }
    let huge = "[[1, 2, 9223372036854775807, 4], [2, 2, 9223372036854775807, 4], [3, 2, 1, 0]]";
    let timeline = parsed(huge).expect("the sizes that cannot be are left out");
    assert_eq!((timeline.rows.len(), timeline.health.count(Counter::SnapshotValueUnusable)), (1, 2));
    let cut = parsed("[[1, 2, 5, 4], [2, 2, 7, 4], [3, 2,").expect("the complete rows");
    assert_eq!((cut.rows.len(), cut.health.count(Counter::SnapshotCut)), (2, 1));
}

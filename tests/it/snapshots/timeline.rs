//! Memory timelines of the profiler: levels by category, in both forms.

use super::source;
use crate::shared;
use hta::health::Counter;
use hta::read::snapshot::{CATEGORIES, MemoryTimeline, Problem, is_timeline, load_timeline, read_timeline};
use hta::read::source::ByteCount;
use hta::snapshot::timeline::{Levels, TIMELINE_TABLES};
use hta::table::schema::Batch;

fn parsed(text: &str) -> Result<MemoryTimeline, Problem> {
    read_timeline(source(text.as_bytes()), Some(super::LIMIT))
}

fn table(levels: &Levels, name: &str) -> Batch {
    let spec = TIMELINE_TABLES.iter().find(|t| t.name == name).expect("a table of that name");
    levels.table(spec, 0, None).expect("rows")
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
        [(None, Some(100), Some(100)), at(1000, 50, 150), at(2000, -50, 150), at(2000, 50, 150), at(3000, -50, 100)]
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
        let sizes: Vec<String> = (0..rows).map(|i| format!("[0, {}, 0, 0, 0, {}, 0, 0, 0]", 10 * i, 5)).collect();
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

mod on_shared_traces {
    use super::*;
    use std::io::Read;

    #[test]
    fn levels_are_those_of_the_file_and_of_its_reference() {
        let Some(root) = shared::folder() else { return };
        let file = root.join("traces/hta/memory_analysis_memory_timeline.raw.gz");
        let timeline = load_timeline(&file, "a timeline", None, &ByteCount::default()).expect("a timeline");
        assert_eq!((timeline.rows.len(), timeline.health.has_loss()), (16_845, false));
        let levels = Levels::new(&timeline);
        assert_eq!(levels.before, 332_060_904);
        let peaks = table(&levels, "memory_peaks");
        assert_eq!((peaks.int("peak_bytes", 0), peaks.int("seq", 0)), (Some(3_082_832_104), Some(1_639)));
        let first = timeline.rows.iter().find_map(|r| r.ts_ns).expect("a time");
        let last = timeline.rows.iter().rev().find_map(|r| r.ts_ns).expect("a time");
        assert_eq!((peaks.int("ts_ns", 0).map(|t| t - first), last - first), (Some(98_424_324), 987_186_231));
        let content = table(&levels, "memory_content");
        let of = |at: &str| -> Vec<(&str, i64)> {
            let rows = (0..content.len()).filter(|r| content.text("moment", *r) == Some(at));
            rows.filter_map(|r| Some((content.text("key", r)?, content.int("bytes", r)?))).collect()
        };
        let expected = [
            ("activation", 2_592_465_920),
            ("unknown", 134_218_152),
            ("parameter", 102_440_608),
            ("optimizer_state", 102_228_128),
            ("gradient", 67_858_432),
            ("autograd_detail", 64_225_280),
            ("input", 19_395_584),
        ];
        assert_eq!(of("peak"), expected);
        assert_eq!(of("end").iter().map(|p| p.1).sum::<i64>(), 332_060_904);
        let most = |name: &str| CATEGORIES.iter().position(|c| *c == name).map(|i| levels.most[i]);
        assert_eq!(most("activation"), Some(2_746_497_024));
        assert_eq!(most("autograd_detail"), Some(256_901_120));
        assert_eq!(most("unknown"), Some(168_297_384));
        assert_eq!(most("gradient"), Some(107_868_160));
    }

    #[test]
    fn the_level_of_every_time_is_that_of_the_reference() {
        let Some(root) = shared::folder() else { return };
        let file = root.join("traces/hta/memory_analysis_memory_timeline.raw.gz");
        let timeline = load_timeline(&file, "a timeline", None, &ByteCount::default()).expect("a timeline");
        let curve = table(&Levels::new(&timeline), "memory_curve");
        let mut levels = std::collections::BTreeMap::new();
        for row in 0..curve.len() {
            levels.insert(curve.int("ts_ns", row).unwrap_or(0), curve.int("allocated_bytes", row));
        }
        let file =
            std::fs::File::open(root.join("reference/hta/memory_timeline/memory_timeline.csv.gz")).expect("a file");
        let mut text = String::new();
        flate2::read::GzDecoder::new(file).read_to_string(&mut text).expect("text");
        // The reference has a row for each row of the file; the last one of a time counts.
        let mut reference = std::collections::BTreeMap::new();
        for line in text.lines().skip(1) {
            let numbers: Vec<i64> = line.split(',').map(|n| n.parse().expect("a number")).collect();
            let (time, sizes) = numbers.split_last().expect("columns");
            reference.insert(*time, sizes.iter().sum::<i64>());
        }
        assert!(reference.len() > 5_000, "{}", reference.len());
        for (time, level) in reference {
            let own = levels.range(..=time).next_back().and_then(|(_, level)| *level);
            assert_eq!(own, Some(level), "at {time}");
        }
    }
}

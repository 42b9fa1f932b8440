//! A real memory timeline has the levels of the file and of its reference.

use crate::shared;
use crate::snapshots::timeline::*;
use hta::read::load::load_trace;
use hta::snapshot::timeline::Levels;
use hta::trace::memory_dump::MemoryDump;
use hta::trace::memory_timeline::CATEGORIES;
use std::io::Read;

#[test]
fn levels_are_those_of_the_file_and_of_its_reference() {
    let Some(root) = shared::folder() else { return };
    let file = root.trace("hta/memory_analysis_memory_timeline.raw.gz");
    let trace = load_trace(&file).expect("a timeline");
    let Some(MemoryDump::Timeline(timeline)) = &trace.columns.dump else { panic!("a timeline") };
    assert_eq!((timeline.rows.len(), trace.health.has_loss()), (16_845, false));
    let levels = Levels::new(timeline);
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
    let file = root.trace("hta/memory_analysis_memory_timeline.raw.gz");
    let trace = load_trace(&file).expect("a timeline");
    let Some(MemoryDump::Timeline(timeline)) = &trace.columns.dump else { panic!("a timeline") };
    let curve = table(&Levels::new(timeline), "memory_curve");
    let mut levels = std::collections::BTreeMap::new();
    for row in 0..curve.len() {
        levels.insert(curve.int("ts_ns", row).unwrap_or(0), curve.int("allocated_bytes", row));
    }
    let file =
        std::fs::File::open(shared::reference("hta/memory_timeline/memory_timeline.csv.gz")).expect("a file");
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

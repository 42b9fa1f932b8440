//! Real snapshots have the known sums, to the byte.

use crate::shared;
use crate::snapshots::{replayed, table};
use hta::health::Counter;
use hta::read::input::Input;
use hta::read::load::load;
use hta::read::options::LoadOptions;
use hta::read::reading::Spread;
use hta::read::source::ByteCount;
use hta::snapshot::content::{ContentKey, allocated, parts};
use hta::snapshot::device::DeviceMemory;
use hta::snapshot::events::{EventKind, events};
use hta::snapshot::history::Until;
use hta::snapshot::rows::DeviceRows;
use hta::snapshot::site::Sites;
use hta::trace::memory_dump::MemoryDump;
use hta::trace::memory_moment::MemoryMoment;
use hta::trace::snapshot::{Generation, Snapshot};

const EXPANDABLE: &str = "snapshot_expandable.pkl";
const EMPTY_CACHE: &str = "snapshot_with_empty_cache.pkl";
const DEVICES: &str = "snapshot_with_multi_devices.pkl";
const INFERENCE: &str = "wedsonlin__medium_128_inference_memory_snapshot.pickle";
const TRAINING: &str = "wedsonlin__medium_128_training_memory_snapshot.pickle";

fn read(name: &str) -> Option<Box<Snapshot>> {
    let file = shared::folder()?.trace(&format!("memory_snapshots/{name}"));
    let loaded = load(&Input::named(file), LoadOptions::default(), Spread::Inline, &ByteCount::default());
    match loaded.expect("a snapshot").columns.recorded.dump {
        Some(MemoryDump::Snapshot(snapshot)) => Some(snapshot),
        _ => panic!("{name} is no snapshot"),
    }
}

/// Parts of what holds the memory: key, allocations, bytes.
type Parts<'a> = Vec<(&'a str, u64, i64)>;

fn at_peak(device: &DeviceMemory, sites: &Sites, by: ContentKey) -> Vec<(String, u64, i64)> {
    let rows = DeviceRows { rank: 0, device, sites, steps: None };
    let (_, held) = rows.held(MemoryMoment::Peak).expect("a peak");
    let peak = device.replay.as_ref().expect("a history").peak.bytes;
    let parts = parts(device, sites, held, by);
    assert_eq!(parts.iter().map(|p| p.bytes).sum::<i64>(), peak);
    parts.into_iter().map(|p| (p.key, p.count, p.bytes)).collect()
}

fn first(parts: &[(String, u64, i64)], n: usize) -> Parts<'_> {
    parts.iter().take(n).map(|(key, count, bytes)| (key.as_str(), *count, *bytes)).collect()
}

fn of(parts: &[(String, u64, i64)], key: &str) -> (u64, i64) {
    parts.iter().find(|p| p.0 == key).map_or((0, 0), |p| (p.1, p.2))
}

fn all_allocated(device: &DeviceMemory, sites: &Sites, by: ContentKey) -> Vec<(String, u64, i64)> {
    allocated(device, sites, by).into_iter().map(|p| (p.key, p.count, p.bytes)).collect()
}

mod on_shared_traces {
    use super::*;

    /// Segments, large ones; active and inactive blocks; reserved, active, requested, releasable, split, largest inactive.
    type End = ([u64; 2], [u64; 2], [i64; 6]);
    /// Entries, allocations; unmatched frees, their bytes; level before; reserved before and at most; peak, its entry.
    type Levels = ([usize; 2], (usize, i64), i64, [i64; 2], (i64, Option<u32>));

    fn check(name: &str, number: i64, end: End, levels: Levels) {
        let Some(snapshot) = read(name) else { return };
        let (devices, health) = replayed(&snapshot, Until::Completed);
        let device = devices.iter().find(|d| d.device == Some(number)).expect("the device");
        let e = &device.end;
        assert_eq!([e.segments, e.large_segments], end.0, "{name} {number}");
        assert_eq!([e.active_blocks, e.inactive_blocks], end.1);
        assert_eq!([e.reserved, e.active, e.requested, e.releasable, e.split, e.largest_inactive], end.2);
        assert_eq!(e.reserved, e.active + e.pending + e.releasable + e.split);
        let (history, replay) =
            (device.history.expect("a history"), device.replay.as_ref().expect("a replay"));
        let allocations = replay.allocations(&snapshot, history);
        assert_eq!([history.len(), allocations.len()], levels.0);
        let unmatched = replay
            .unmatched_frees
            .iter()
            .map(|s| snapshot.entries(history).nth(*s as usize).map_or(0, |e| e.size));
        assert_eq!((replay.unmatched_frees.len(), unmatched.sum::<i64>()), levels.1);
        assert_eq!(replay.before, levels.2);
        assert_eq!([replay.reserved_before, replay.reserved_max], levels.3);
        assert_eq!((replay.peak.bytes, replay.peak.seq), levels.4);
        // The history and the state at the end agree, and so do the sums that segments state.
        assert_eq!(replay.disagreement, 0);
        assert!(replay.levels.iter().all(|l| *l >= 0));
        for counter in
            [Counter::SnapshotSumDiffers, Counter::SnapshotStateDisagrees, Counter::SnapshotAllocOverLive]
        {
            assert_eq!(health.count(counter), 0, "{counter:?}");
        }
        assert!(!health.has_loss());
        // Each free is requested and completed at once, so both views are the same.
        let (devices, _) = replayed(&snapshot, Until::Requested);
        let device = devices.iter().find(|d| d.device == Some(number)).expect("the device");
        assert_eq!(device.replay.as_ref().expect("a replay").peak.bytes, levels.4.0);
    }

    #[test]
    fn sums_and_levels_of_every_device_are_the_known_ones() {
        let before = 94_326_992;
        check(
            EXPANDABLE,
            0,
            ([2, 1], [645, 72], [643_825_664, 408_698_880, 408_384_288, 0, 235_126_784, 143_736_320]),
            ([8_092, 2_899], (0, 0), before, [113_246_208, 643_825_664], (597_327_488, Some(7_430))),
        );
        check(
            EMPTY_CACHE,
            0,
            ([34, 20], [645, 40], [509_607_936, 416_417_792, 408_384_288, 0, 93_190_144, 18_614_784]),
            ([8_180, 2_899], (0, 0), before, [113_246_208, 662_700_032], (597_327_488, Some(7_498))),
        );
        check(
            DEVICES,
            0,
            ([3, 1], [645, 73], [490_733_568, 408_698_880, 408_384_288, 0, 82_034_688, 19_791_360]),
            ([8_132, 2_899], (0, 0), before, [113_246_208, 643_825_664], (597_327_488, Some(7_467))),
        );
        check(
            DEVICES,
            1,
            ([52, 24], [0, 52], [551_550_976, 0, 0, 551_550_976, 0, 20_971_520]),
            ([9_700, 3_216], (0, 0), 0, [0, 551_550_976], (471_498_368, Some(2_599))),
        );
        check(
            INFERENCE,
            0,
            (
                [98, 95],
                [223, 7],
                [1_763_704_832, 1_703_276_544, 1_701_310_464, 46_137_344, 14_290_944, 20_971_520],
            ),
            ([3_840, 1_280], (0, 0), 1_701_310_464, [1_763_704_832; 2], (1_736_962_048, Some(292))),
        );
        check(
            TRAINING,
            0,
            (
                [377, 373],
                [885, 33],
                [7_235_174_400, 6_816_891_392, 6_808_535_044, 343_932_928, 74_350_080, 41_943_040],
            ),
            (
                [19_136, 6_526],
                (438, 3_385_466_880),
                5_095_321_600,
                [7_235_174_400; 2],
                (7_013_335_044, Some(9_966)),
            ),
        );
    }

    #[test]
    fn generations_are_told_by_what_the_entries_have() {
        for (name, generation) in [(EXPANDABLE, Generation::Untimed), (TRAINING, Generation::CompileContext)]
        {
            let Some(snapshot) = read(name) else { return };
            assert_eq!(snapshot.generation, generation);
        }
        let Some(snapshot) = read(TRAINING) else { return };
        assert_eq!(snapshot.settings.len(), 9);
        assert_eq!(snapshot.annotations.len(), 2);
        assert_eq!(
            snapshot.settings.first().map(|(n, v)| (n.as_str(), v.as_str())),
            Some(("PYTORCH_CUDA_ALLOC_CONF", "\"\""))
        );
        let stacks: std::collections::BTreeSet<_> =
            snapshot.histories.iter().flat_map(|h| snapshot.entries(h)).map(|e| e.stack).collect();
        assert_eq!(stacks.len(), 170);
        assert_eq!(snapshot.stacks.distinct_frames().len(), 511);
    }

    #[test]
    fn what_holds_the_peak_is_known_by_line() {
        for (name, kept, state, number) in
            [(EXPANDABLE, 12, 18, 0), (EMPTY_CACHE, 11, 17, 0), (DEVICES, 11, 17, 0)]
        {
            let Some(snapshot) = read(name) else { return };
            let sites = Sites::new(&snapshot);
            let (devices, _) = replayed(&snapshot, Until::Completed);
            let device = devices.iter().find(|d| d.device == Some(number)).expect("the device");
            let parts = at_peak(device, &sites, ContentKey::Line);
            let (kept, state) =
                (format!("memory_leaks_demo.py:{kept}"), format!("memory_leaks_demo.py:{state}"));
            let expected = [
                (state.as_str(), 484, 282_342_776),
                (kept.as_str(), 3, 125_829_120),
                ("[before window] still alive", 320, 94_326_992),
                ("[no frames]", 161, 94_114_088),
            ];
            assert_eq!(first(&parts, 4), expected, "{name}");
        }
        let Some(snapshot) = read(DEVICES) else { return };
        let sites = Sites::new(&snapshot);
        let (devices, _) = replayed(&snapshot, Until::Completed);
        let parts = at_peak(&devices[1], &sites, ContentKey::Line);
        assert_eq!(of(&parts, "memory_leaks_demo.py:14"), (484, 282_342_776));
        assert_eq!(of(&parts, "memory_leaks_demo.py:26"), (320, 94_326_992));
    }

    #[test]
    fn what_was_there_before_is_told_apart_from_what_was_freed_later() {
        let Some(snapshot) = read(INFERENCE) else { return };
        let sites = Sites::new(&snapshot);
        let (devices, _) = replayed(&snapshot, Until::Completed);
        let parts = at_peak(&devices[0], &sites, ContentKey::Line);
        let expected = [
            ("[before window] still alive", 223, 1_701_310_464),
            ("model.py:532", 2, 16_777_216),
            ("model.py:39", 2, 10_485_760),
        ];
        assert_eq!(first(&parts, 3), expected);
        let Some(snapshot) = read(TRAINING) else { return };
        let sites = Sites::new(&snapshot);
        let (devices, _) = replayed(&snapshot, Until::Completed);
        let parts = at_peak(&devices[0], &sites, ContentKey::Line);
        assert_eq!(of(&parts, "[before window] freed later"), (438, 3_385_466_880));
        assert_eq!(of(&parts, "[before window] still alive"), (226, 1_709_854_720));
        assert_eq!(of(&parts, "optimizer.py:80"), (3, 122_880_000));
        // Gradients: their stacks have only C++ frames, so a node or an operator names them.
        let is_cpp = |key: &str| !key.contains(".py:") && !key.starts_with('[');
        let gradients = parts.iter().filter(|p| is_cpp(&p.0));
        assert_eq!(gradients.fold((0, 0), |sum, p| (sum.0 + p.1, sum.1 + p.2)), (219, 1_692_733_440));
        let peaks = table(&devices[0], &sites, "memory_peaks");
        let of_peak = |column: &str| peaks.int(column, 0);
        assert_eq!(of_peak("trigger_bytes"), Some(40_960_000));
        assert_eq!(peaks.text("trigger_site", 0), Some("optimizer.py:80"));
        assert_eq!(peaks.text("phase", 0), Some("optimizer"));
        assert_eq!(of_peak("before_bytes"), Some(3_385_466_880 + 1_709_854_720));
        let history = devices[0].history.expect("a history");
        let trigger = snapshot.entries(history).nth(9_966).expect("the entry");
        assert_eq!(devices[0].phases.since(trigger), Some(("Optimizer.step#AdamW.step", 623_000)));
    }

    #[test]
    fn allocations_are_known_by_phase_node_and_site() {
        let Some(snapshot) = read(TRAINING) else { return };
        let sites = Sites::new(&snapshot);
        let (devices, _) = replayed(&snapshot, Until::Completed);
        let phases = all_allocated(&devices[0], &sites, ContentKey::Phase);
        let expected = [
            ("optimizer", 3_066, 23_698_268_160),
            ("backward", 2_169, 7_816_585_313),
            ("forward", 1_280, 2_851_305_568),
            ("other", 11, 81_932_296),
        ];
        assert_eq!(first(&phases, 9), expected);
        let nodes = all_allocated(&devices[0], &sites, ContentKey::Node);
        assert_eq!(of(&nodes, "BmmBackward0"), (434, 2_408_644_608));
        assert_eq!(of(&nodes, "AccumulateGrad"), (169, 1_651_572_736));
        assert_eq!(of(&nodes, "MulBackward0"), (484, 1_417_674_752));
        let lines = all_allocated(&devices[0], &sites, ContentKey::Line);
        assert_eq!(lines.iter().map(|p| p.2).sum::<i64>(), 34_448_091_337);
        let expected = [("optimizer.py:77", 876, 6_770_933_760), ("optimizer.py:80", 876, 6_770_933_760)];
        assert_eq!(first(&lines, 2), expected);
        // 33 lines of Python; the stacks without Python are one more, and here named by node.
        assert_eq!(lines.iter().filter(|p| p.0.contains(".py:")).count(), 33);

        let Some(snapshot) = read(EXPANDABLE) else { return };
        let sites = Sites::new(&snapshot);
        let (devices, _) = replayed(&snapshot, Until::Completed);
        let phases = all_allocated(&devices[0], &sites, ContentKey::Phase);
        let expected = [
            ("forward", 834, 3_061_107_852),
            ("unknown", 1_137, 1_087_800_192),
            ("optimizer", 916, 470_601_352),
            ("other", 12, 127_972_548),
        ];
        assert_eq!(first(&phases, 9), expected);
        let lines = all_allocated(&devices[0], &sites, ContentKey::Line);
        assert_eq!((lines.len(), lines.iter().map(|p| p.2).sum::<i64>()), (7, 4_747_481_944));
        assert_eq!(first(&lines, 1), [("memory_leaks_demo.py:16", 813, 3_061_102_968)]);

        let Some(snapshot) = read(INFERENCE) else { return };
        let sites = Sites::new(&snapshot);
        let (devices, _) = replayed(&snapshot, Until::Completed);
        let phases = all_allocated(&devices[0], &sites, ContentKey::Phase);
        assert_eq!(phases.iter().map(|p| p.0.as_str()).collect::<Vec<_>>(), ["forward"]);
    }

    #[test]
    fn only_the_planted_leak_recurs() {
        for (name, planted) in
            [(EXPANDABLE, 12), (EMPTY_CACHE, 11), (DEVICES, 11), (INFERENCE, 0), (TRAINING, 0)]
        {
            let Some(snapshot) = read(name) else { return };
            let sites = Sites::new(&snapshot);
            let (devices, _) = replayed(&snapshot, Until::Completed);
            for device in &devices {
                let rows = DeviceRows { rank: 0, device, sites: &sites, steps: None };
                let leaks = rows.leaks();
                let recurring: Vec<_> = leaks.iter().filter(|l| l.is_recurring()).collect();
                if planted == 0 || device.device == Some(1) {
                    assert!(recurring.is_empty(), "{name}");
                    continue;
                }
                let found: Vec<_> =
                    recurring.iter().map(|l| (l.site, l.groups, l.count, l.bytes_per_group())).collect();
                assert_eq!(
                    found,
                    [(format!("memory_leaks_demo.py:{planted}").as_str(), 3, 3, 41_943_040)],
                    "{name}"
                );
            }
        }
        let Some(snapshot) = read(EXPANDABLE) else { return };
        let sites = Sites::new(&snapshot);
        let (devices, _) = replayed(&snapshot, Until::Completed);
        let rows = table(&devices[0], &sites, "memory_allocations");
        let is_kept = |row: &usize| {
            rows.text("ended", *row) == Some("live")
                && rows.text("site", *row) == Some("memory_leaks_demo.py:12")
        };
        let entries: Vec<_> = (0..rows.len()).filter(is_kept).map(|row| rows.uint("seq", row)).collect();
        assert_eq!(entries, [Some(1), Some(2_932), Some(5_515)]);
    }

    #[test]
    fn flushes_of_the_cache_are_named_by_their_frames() {
        for (name, counts, bytes) in
            [(EMPTY_CACHE, [14, 20, 20], Some(444_596_224)), (DEVICES, [4, 3, 3], None)]
        {
            let Some(snapshot) = read(name) else { return };
            let sites = Sites::new(&snapshot);
            let (devices, _) = replayed(&snapshot, Until::Completed);
            let all = events(&devices[0], &sites);
            let flushes: Vec<_> = all.iter().filter(|e| e.kind == EventKind::EmptyCache).collect();
            assert_eq!(flushes.iter().map(|e| e.count).collect::<Vec<_>>(), counts, "{name}");
            assert!(flushes.iter().all(|e| sites.site(e.stack).ends_with("hooker.py:92")), "{name}");
            if let Some(bytes) = bytes {
                assert_eq!(flushes.iter().map(|e| e.bytes).sum::<i64>(), bytes);
            }
            assert!(
                !all.iter().any(|e| matches!(e.kind, EventKind::Retry | EventKind::Flush | EventKind::Oom))
            );
        }
    }
}

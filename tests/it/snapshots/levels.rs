//! What holds for any history: no level is negative, what holds the memory adds up to the peak, and a shorter
//! history of the same work has the same levels.

use super::pickle::{Py, Writer, at, dumps, entry, segment, snapshot};
use super::{parsed, replayed};
use hta::snapshot::content::{ContentKey, parts};
use hta::snapshot::history::Until;
use hta::snapshot::rows::DeviceRows;
use hta::snapshot::site::Sites;
use hta::trace::memory_moment::MemoryMoment;
use proptest::prelude::*;

/// What a program does: allocates a slot with a size, or frees it; the free is completed at once, or later by
/// the other number.
fn work() -> impl Strategy<Value = Vec<(usize, i64, bool)>> {
    prop::collection::vec((0usize..8, 1i64..1000, any::<bool>()), 1..60)
}

fn run(work: &[(usize, i64, bool)]) -> (Vec<Py>, Vec<(i64, i64, &'static str)>) {
    let mut slots: [Option<(i64, bool)>; 8] = [None; 8];
    let mut entries = Vec::new();
    for (time, (slot, size, is_late)) in (0i64..).zip(work) {
        let address = (*slot as i64 + 1) * 1024;
        match slots[*slot] {
            None => {
                entries.push(entry("alloc", address, *size, time, at(*slot as i64)));
                slots[*slot] = Some((*size, false));
            }
            Some((size, true)) => {
                entries.push(entry("free_completed", address, size, time, at(90)));
                slots[*slot] = None;
            }
            Some((size, false)) => {
                entries.push(entry("free_requested", address, size, time, at(91)));
                slots[*slot] = Some((size, true));
                if !is_late {
                    entries.push(entry("free_completed", address, size, time, at(92)));
                    slots[*slot] = None;
                }
            }
        }
    }
    let block = |s: &Option<(i64, bool)>| match s {
        None => (1024, 0, "inactive"),
        Some((size, false)) => (1024, *size, "active_allocated"),
        Some((size, true)) => (1024, *size, "active_pending_free"),
    };
    (entries, slots.iter().map(block).collect())
}

proptest! {
    #[test]
    fn levels_are_never_negative_and_content_adds_up(work in work(), skipped in 0usize..30, is_torch in any::<bool>()) {
        let (entries, blocks) = run(&work);
        let skipped = skipped.min(entries.len() - 1);
        let state = || vec![segment(0, 1024, 0, (0, 0), &blocks)];
        let writer = if is_torch { Writer::Torch } else { Writer::Python };
        let whole = parsed(&dumps(&snapshot(state(), vec![entries.clone()]), writer)).unwrap();
        // A ring buffer that lost its first entries.
        let late = parsed(&dumps(&snapshot(state(), vec![entries[skipped..].to_vec()]), writer)).unwrap();
        for until in [Until::Completed, Until::Requested] {
            let (of_whole, _) = replayed(&whole, until);
            let (of_late, _) = replayed(&late, until);
            let (of_whole, late_device) = (of_whole[0].replay.as_ref().unwrap(), &of_late[0]);
            let replay = late_device.replay.as_ref().unwrap();
            prop_assert_eq!(of_whole.disagreement, 0);
            prop_assert_eq!(of_whole.before, 0);
            if until == Until::Completed {
                // What was allocated before the first entry is found again.
                prop_assert_eq!(replay.disagreement, 0);
                prop_assert_eq!(&replay.levels[..], &of_whole.levels[skipped..]);
            }
            prop_assert!(replay.before >= 0 && replay.levels.iter().all(|l| *l >= 0));
            let sites = Sites::new(&late);
            let rows = DeviceRows { rank: 0, device: late_device, sites: &sites, steps: None };
            for (moment, level) in [(MemoryMoment::Peak, replay.peak.bytes), (MemoryMoment::End, replay.level(Some(replay.levels.len() as u32 - 1)))] {
                let (_, held) = rows.held(moment).unwrap();
                prop_assert_eq!(held.iter().map(|h| h.bytes).sum::<i64>(), level);
                for by in ContentKey::ALL {
                    let parts = parts(late_device, &sites, held.iter().copied(), by);
                    prop_assert_eq!(parts.iter().map(|p| p.bytes).sum::<i64>(), level);
                    prop_assert_eq!(parts.iter().map(|p| p.count).sum::<u64>(), held.len() as u64);
                }
            }
        }
    }
}

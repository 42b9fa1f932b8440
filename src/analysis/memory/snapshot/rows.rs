//! Fills the tables about memory from the devices of a snapshot.

use super::SnapshotChoice;
use super::content::{ContentKey, allocated, parts};
use super::device::DeviceMemory;
use super::events::{AllocatorEvent, EventKind, events};
use super::history::{HeldAllocation, HeldOrigin, reserved_delta};
use super::leak::{Falls, MarkedSteps, RECURRING};
use super::moment::seq;
use super::phase::UNKNOWN;
use super::site::Sites;
use super::tables::{DumpTables, MemoryAllocated, MemoryAllocatedRow, MemoryDeviceRow, MemoryDevices};
use crate::memory::tables::{
    MemoryContent, MemoryContentRow, MemoryCurve, MemoryCurveRow, MemoryEventRow, MemoryEvents,
    MemoryLeakRow, MemoryLeaks, MemoryPeakRow, MemoryPeaks,
};
use hta_base::units::percent;
use hta_trace::memory_moment::MemoryMoment;
use hta_trace::snapshot::{Action, BlockState, Entry, Generation, StackId};
use std::collections::BTreeMap;

/// Column `source` of everything from a snapshot.
pub(crate) const SOURCE: &str = "snapshot";

/// One device with what all tables need.
pub struct DeviceRows<'a> {
    pub rank: u32,
    pub device: &'a DeviceMemory<'a>,
    pub sites: &'a Sites,
    /// Steps that the user names, if any: survivors are grouped by them.
    pub steps: Option<&'a MarkedSteps>,
}

pub(super) fn ns(time_us: Option<i64>) -> Option<i64> {
    time_us.and_then(|t| t.checked_mul(1000))
}

/// What is known of an entry.
pub(super) fn known(phase: &str) -> Option<&str> {
    Some(phase).filter(|p| *p != UNKNOWN)
}

pub(super) fn stack_number(stack: StackId) -> Option<u64> {
    (stack != StackId::NONE).then(|| u64::from(stack.0))
}

/// The kinds of holders that are listed, in order of their names.
fn kinds(choice: &SnapshotChoice) -> impl Iterator<Item = ContentKey> {
    let mut kinds = ContentKey::ALL;
    kinds.sort_by_key(|k| k.name());
    let by_stack = choice.by_stack;
    kinds.into_iter().filter(move |by| *by != ContentKey::Stack || by_stack)
}

/// Survivors of a site.
pub struct SiteLeak<'a> {
    pub site: &'a str,
    pub groups: u64,
    pub count: u64,
    pub(crate) bytes: i64,
}

impl SiteLeak<'_> {
    pub fn is_recurring(&self) -> bool {
        self.groups >= RECURRING
    }

    pub fn bytes_per_group(&self) -> i64 {
        i64::try_from(self.groups).ok().filter(|g| *g > 0).map_or(0, |groups| self.bytes / groups)
    }
}

impl<'a> DeviceRows<'a> {
    pub(super) fn entries(&self) -> Vec<&'a Entry> {
        self.device.history.iter().flat_map(|h| self.device.snapshot.entries(h)).collect()
    }

    /// Adds the rows of the device to all tables.
    pub fn add(&self, tables: &mut DumpTables, choice: &SnapshotChoice) {
        self.add_peak(&mut tables.peaks);
        self.add_content(&mut tables.content, choice);
        self.add_leaks(&mut tables.leaks);
        self.add_events(&mut tables.events);
        self.add_allocated(&mut tables.allocated, choice);
        self.add_device(&mut tables.devices);
        self.add_segments(&mut tables.segments);
        tables.curve.iter_mut().for_each(|table| self.add_curve(table));
        tables.allocations.iter_mut().for_each(|table| self.add_allocations(table));
        tables.blocks.iter_mut().for_each(|table| self.add_blocks(table));
    }

    fn add_peak(&self, table: &mut MemoryPeaks) {
        let (Some(replay), Some(history)) = (&self.device.replay, self.device.history) else { return };
        let entries = self.entries();
        let (mut reserved, mut reserved_at, mut unused_most) =
            (replay.reserved_before, replay.reserved_before, 0);
        for (i, (entry, level)) in entries.iter().zip(&replay.levels).enumerate() {
            reserved += reserved_delta(entry);
            unused_most = unused_most.max(reserved - level);
            if replay.peak.seq == u32::try_from(i).ok() {
                reserved_at = reserved;
            }
        }
        let held = replay.content(self.device.snapshot, history, replay.peak.seq);
        let of_history = || held.iter().filter(|h| matches!(h.origin, HeldOrigin::Entry(_)));
        let known_bytes: i64 = of_history().map(|h| h.bytes).sum();
        let trigger =
            replay.peak.seq.and_then(|s| entries.get(s as usize)).filter(|e| e.action == Action::Alloc);
        let facts = trigger.map(|e| self.sites.of(e.stack));
        table.push(MemoryPeakRow {
            rank: self.rank,
            device_type: self.device.device_type(),
            device: self.device.device,
            source: SOURCE,
            scope: "capture",
            peak_bytes: replay.peak.bytes,
            base_bytes: Some(replay.before),
            reserved_bytes: Some(reserved_at),
            unused_max_bytes: Some(unused_most),
            seq: replay.peak.seq.map_or(0, u64::from),
            ts_ns: trigger.and_then(|e| ns(e.time_us())),
            phase: trigger.zip(facts).and_then(|(e, f)| known(self.device.phases.of(e, f))),
            trigger_bytes: trigger.map_or(0, |e| e.size),
            trigger_site: facts.map(|f| self.sites.name(f.site)),
            known_count: Some(of_history().count() as u64),
            known_bytes: Some(known_bytes),
            before_bytes: Some(replay.peak.bytes - known_bytes),
            ..MemoryPeakRow::default()
        });
    }

    /// Who is alive at a moment, and its name in column `at`.
    pub fn held(&self, moment: MemoryMoment) -> Option<(String, Vec<HeldAllocation>)> {
        let (replay, history) = (self.device.replay.as_ref(), self.device.history);
        let at = match (replay, history) {
            (Some(replay), Some(history)) => {
                let seq = seq(moment, replay.peak.seq, self.device.snapshot.entries(history))?;
                return Some((moment.name(), replay.content(self.device.snapshot, history, seq)));
            }
            _ if moment == MemoryMoment::End => moment.name(),
            _ => return None,
        };
        // Without a history, the blocks at the end are all that is known.
        let blocks = self.device.segments.iter().flat_map(|s| self.device.snapshot.blocks(s));
        let alive = blocks.filter(|b| matches!(b.state, BlockState::Allocated | BlockState::Pending));
        let held = |b: &hta_trace::snapshot::MemoryBlock| HeldAllocation {
            origin: HeldOrigin::BeforeAlive,
            bytes: b.requested,
            stack: b.stack,
        };
        Some((at, alive.map(held).collect()))
    }

    fn add_content(&self, table: &mut MemoryContent, choice: &SnapshotChoice) {
        let moments = choice.at.map_or(vec![MemoryMoment::End, MemoryMoment::Peak], |m| vec![m]);
        for (at, held) in moments.into_iter().filter_map(|m| self.held(m)) {
            let whole: i64 = held.iter().map(|h| h.bytes).sum();
            for by in kinds(choice) {
                for part in parts(self.device, self.sites, held.iter().copied(), by) {
                    table.push(MemoryContentRow {
                        rank: self.rank,
                        device_type: self.device.device_type(),
                        device: self.device.device,
                        source: SOURCE,
                        moment: &at,
                        step: None,
                        key_kind: by.name(),
                        key: &part.key,
                        count: Some(part.count),
                        bytes: part.bytes,
                        pct: percent(part.bytes, whole),
                    });
                }
            }
        }
    }

    fn add_allocated(&self, table: &mut MemoryAllocated, choice: &SnapshotChoice) {
        for by in kinds(choice).filter(|by| *by != ContentKey::Stack || choice.by == ContentKey::Stack) {
            for part in allocated(self.device, self.sites, by) {
                table.push(MemoryAllocatedRow {
                    rank: self.rank,
                    device_type: self.device.device_type(),
                    device: self.device.device,
                    source: SOURCE,
                    key_kind: by.name(),
                    key: &part.key,
                    count: part.count,
                    bytes: part.bytes,
                });
            }
        }
    }

    fn add_device(&self, table: &mut MemoryDevices) {
        let (end, replay) = (&self.device.end, self.device.replay.as_ref());
        let entries = self.entries();
        table.push(MemoryDeviceRow {
            rank: self.rank,
            device_type: self.device.device_type(),
            device: self.device.device,
            source: SOURCE,
            peak_bytes: replay.map(|r| r.peak.bytes),
            base_bytes: replay.map(|r| r.before),
            is_bound: self.device.overflow().is_some(),
            entry_count: self.device.history.map(|h| h.len() as u64),
            has_times: self.device.history.map(|_| self.device.snapshot.generation != Generation::Untimed),
            failed_count: entries.iter().filter(|e| e.action == Action::Oom).count() as u64,
            reserved_before_bytes: replay.map(|r| r.reserved_before),
            reserved_max_bytes: replay.map(|r| r.reserved_max),
            reserved_bytes: Some(end.reserved),
            active_bytes: Some(end.active),
            active_block_count: Some(end.active_blocks),
            requested_bytes: Some(end.requested),
            pending_bytes: Some(end.pending),
            releasable_bytes: Some(end.releasable),
            split_bytes: Some(end.split),
            tail_bytes: Some(end.tails),
            largest_free_bytes: Some(end.largest_inactive),
        });
    }

    fn add_curve(&self, table: &mut MemoryCurve) {
        let Some(replay) = &self.device.replay else { return };
        let (mut reserved, mut before) = (replay.reserved_before, replay.before);
        for ((seq, entry), level) in (0u64..).zip(self.entries()).zip(&replay.levels) {
            let change = reserved_delta(entry);
            reserved += change;
            let delta = level - before;
            before = *level;
            if delta == 0 && change == 0 {
                continue;
            }
            table.push(MemoryCurveRow {
                rank: self.rank,
                device_type: self.device.device_type(),
                device: self.device.device,
                source: SOURCE,
                seq,
                ts_ns: ns(entry.time_us()),
                delta_bytes: delta,
                allocated_bytes: *level,
                reserved_bytes: Some(reserved),
                is_relative: false,
                category: None,
            });
        }
    }

    /// The survivors of each site, the most bytes first.
    pub fn leaks(&self) -> Vec<SiteLeak<'a>> {
        let Some(replay) = &self.device.replay else { return Vec::new() };
        let entries = self.entries();
        let falls = Falls::new(&replay.levels);
        let mut survivors: BTreeMap<u32, (Vec<u32>, i64)> = BTreeMap::new();
        for (seq, entry) in replay.live.iter().filter_map(|seq| Some((*seq, entries.get(*seq as usize)?))) {
            let of_site = survivors.entry(self.sites.of(entry.stack).site).or_default();
            of_site.0.push(seq);
            of_site.1 += entry.size;
        }
        let time = |seq: &u32| entries.get(*seq as usize).and_then(|e| e.time_us());
        let leak = |(site, (seqs, bytes)): (u32, (Vec<u32>, i64))| SiteLeak {
            site: self.sites.name(site),
            groups: match self.steps {
                Some(steps) => steps.groups(seqs.iter().map(time)),
                None => falls.groups(&seqs),
            },
            count: seqs.len() as u64,
            bytes,
        };
        let mut leaks: Vec<SiteLeak> = survivors.into_iter().map(leak).collect();
        leaks.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.site.cmp(b.site)));
        leaks
    }

    fn add_leaks(&self, table: &mut MemoryLeaks) {
        for leak in self.leaks() {
            table.push(MemoryLeakRow {
                rank: self.rank,
                device_type: self.device.device_type(),
                device: self.device.device,
                source: SOURCE,
                site: leak.site,
                key_kind: ContentKey::Line.name(),
                groups: leak.groups,
                count: leak.count,
                bytes: leak.bytes,
                bytes_per_group: leak.bytes_per_group(),
                is_recurring: leak.is_recurring(),
            });
        }
    }

    fn add_events(&self, table: &mut MemoryEvents) {
        let mut rows: Vec<(Option<i64>, Option<AllocatorEvent>, &str)> = Vec::new();
        rows.extend(
            events(self.device, self.sites).into_iter().map(|e| (ns(e.time_us), Some(e), e.kind.name())),
        );
        let of_device =
            |a: &&hta_trace::snapshot::Annotation| a.device.is_none() || a.device == self.device.device;
        let starts = self.device.snapshot.annotations.iter().filter(of_device).filter(|a| a.is_start);
        rows.extend(starts.map(|a| (ns(a.time_us), None, self.device.snapshot.texts.get(a.name))));
        rows.sort_by_key(|(ts, event, _)| (*ts, event.map(|e| e.seq)));
        for (ts_ns, event, name) in rows {
            table.push(MemoryEventRow {
                rank: self.rank,
                device_type: self.device.device_type(),
                device: self.device.device,
                source: SOURCE,
                seq: event.map(|e| u64::from(e.seq)),
                ts_ns,
                kind: event.map_or(EventKind::Annotation.name(), |_| name),
                bytes: event.map(|e| e.bytes),
                device_free_bytes: event.and_then(|e| e.device_free),
                reserved_bytes: event.map(|e| e.reserved),
                site: Some(event.map_or(name, |e| self.sites.site(e.stack))),
            });
        }
    }
}

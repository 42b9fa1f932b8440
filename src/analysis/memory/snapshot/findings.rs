//! What stands out in a snapshot: the peak and what makes it, failed requests, flushes of the cache, leaks,
//! and memory that is reserved but of no use.

use super::content::{ContentKey, parts};
use super::end_state::EndState;
use super::events::{AllocatorEvent, EventKind, events};
use super::history::{HeldAllocation, HeldOrigin};
use super::report::{Nearness, name};
use super::rows::DeviceRows;
use super::tables::{DumpTables, MemoryDeviceRow, MemoryDevices, MemorySentenceRow, MemorySentences};
use crate::api::{Partial, rows};
use crate::memory::report::size;
use hashbrown::HashMap;
use hta_base::units::{fmt_count, fmt_ns, fmt_pct, percent};
use hta_base::wording::counts::counted;
use hta_trace::memory_moment::MemoryMoment;
use hta_trace::snapshot::{Action, Entry, Overflow};
use std::collections::BTreeSet;

/// Share of the reserved memory above which split blocks are named, percent.
const SPLIT_PCT: f64 = 10.0;
/// The same of memory that `empty_cache()` would give back.
const RELEASABLE_PCT: f64 = 20.0;
/// Share of the requested memory above which freed blocks that wait for a stream are named, percent.
const WAITING_PCT: f64 = 5.0;
/// Share of the active memory above which rounding is named, percent.
const ROUNDING_PCT: f64 = 5.0;
/// Difference to the median of the ranks' peaks from which a rank is named, percent.
const PEAK_DIFFERENCE_PCT: f64 = 10.0;
/// Number of failed requests and of flushes that are named one by one.
const NAMED: usize = 3;
/// Largest number of sentences of all devices together.
const SENTENCES: usize = 5;

/// What a finding is about, the most important first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    Oom,
    Leak,
    Retry,
    UnevenPeak,
    /// The first entries are missing, or entries and blocks disagree: what follows holds for the rest only.
    History,
    Peak,
    EmptyCache,
    Split,
    Releasable,
    Rounding,
}

/// Adds what stands out on one device of a snapshot.
pub fn tell(rows: &DeviceRows, tables: &mut DumpTables) {
    let all = events(rows.device, rows.sites);
    let found = [
        (Subject::Oom, failed_requests(rows, &all)),
        (Subject::History, history_faults(rows)),
        (Subject::Peak, Vec::from_iter(peak(rows))),
        (Subject::Leak, leaks(rows)),
        (Subject::Retry, Vec::from_iter(retries(rows, &all))),
        (Subject::EmptyCache, Vec::from_iter(emptied_in_loop(rows, &all))),
        (Subject::Split, Vec::from_iter(split(&rows.device.end))),
        (Subject::Releasable, Vec::from_iter(releasable(&rows.device.end))),
        (Subject::Rounding, Vec::from_iter(rounding(&rows.device.end))),
    ];
    let sentences = found.iter().flat_map(|(subject, all)| all.iter().map(|sentence| (*subject, sentence)));
    for (subject, sentence) in sentences {
        tables.sentences.push(MemorySentenceRow {
            rank: rows.rank,
            device_type: rows.device.device_type(),
            device: rows.device.device,
            subject: subject as u32,
            sentence: &format!("rank {}, {}: {sentence}", rows.rank, rows.device.name()),
        });
    }
}

fn of_kind(all: &[AllocatorEvent], kind: EventKind) -> impl Iterator<Item = &AllocatorEvent> {
    all.iter().filter(move |e| e.kind == kind)
}

fn failed_requests(rows: &DeviceRows, all: &[AllocatorEvent]) -> Vec<String> {
    of_kind(all, EventKind::Oom).take(NAMED).map(|e: &AllocatorEvent| {
        let free = e.device_free.map_or(String::new(), |f| format!(", {} were free on the device", size(f)));
        let level = rows.device.replay.as_ref().map_or(0, |r| r.level(Some(e.seq)));
        let held = rows.held(MemoryMoment::Entry(e.seq)).map_or_else(Vec::new, |(_, held)| held);
        let waiting = waiting(rows, &held, e, level);
        let holder = parts(rows.device, rows.sites, held, ContentKey::Line).into_iter().next().map(|largest| {
            let bytes = size(largest.bytes);
            format!("; most was held by {}, {bytes} (see --at entry:{})", largest.key, e.seq)
        });
        format!(
            "a request of {} failed (entry {}) at {}: {}{} were requested before, {} reserved{free}; {} of \
             the reserved were unused, in pieces or by rounding{}",
            size(e.bytes),
            fmt_count(u64::from(e.seq)),
            rows.sites.site(e.stack),
            waiting.unwrap_or_default(),
            size(level),
            size(e.reserved),
            size(e.reserved - level),
            holder.unwrap_or_default()
        )
    }).collect()
}

/// Of what was held when a request failed, what was freed already, but waits for a stream: enough for the
/// request, or a large share of all.
fn waiting(
    rows: &DeviceRows,
    held: &[HeldAllocation],
    failed: &AllocatorEvent,
    level: i64,
) -> Option<String> {
    let entries: Vec<&Entry> = rows.device.snapshot.entries(rows.device.history?).collect();
    let mut freed: HashMap<u64, u32> = HashMap::new();
    for (seq, entry) in (0..failed.seq).zip(&entries) {
        match entry.action {
            Action::FreeRequested => drop(freed.insert(entry.addr, seq)),
            Action::FreeCompleted | Action::Alloc => drop(freed.remove(&entry.addr)),
            _ => {}
        }
    }
    let address = |seq: u32| entries.get(seq as usize).map(|entry| entry.addr);
    let is_waiting = |h: &&HeldAllocation| match h.origin {
        HeldOrigin::Entry(seq) | HeldOrigin::BeforeFreed(seq) => {
            address(seq).is_some_and(|addr| freed.contains_key(&addr))
        }
        HeldOrigin::BeforeAlive => false,
    };
    let waiting: Vec<HeldAllocation> = held.iter().filter(is_waiting).copied().collect();
    let bytes: i64 = waiting.iter().map(|h| h.bytes).sum();
    let pct =
        percent(bytes, level).filter(|pct| bytes > 0 && (*pct > WAITING_PCT || bytes >= failed.bytes))?;
    let largest = parts(rows.device, rows.sites, waiting, ContentKey::Line).into_iter().next()?;
    let of = match largest.bytes {
        all if all == bytes => format!(" of {}", largest.key),
        most if most * 2 > bytes => format!(", most of it ({}) of {},", size(most), largest.key),
        _ => String::new(),
    };
    Some(format!(
        "{} ({}){of} are freed and wait for a stream (record_stream); ",
        size(bytes),
        fmt_pct(Some(pct))
    ))
}

fn leaks(rows: &DeviceRows) -> Vec<String> {
    let recurring = rows.leaks().into_iter().filter(|l| l.is_recurring());
    let sentences = recurring.map(|leak| {
        format!(
            "{} keeps {} more in each of {} rounds, {} in all ({}), and none of it is freed: a leak, or a \
             list or cache that grows",
            leak.site,
            size(leak.bytes_per_group()),
            leak.groups,
            size(leak.bytes),
            counted(leak.count, "allocation")
        )
    });
    sentences.collect()
}

/// The flushes of the cache after which the allocator asked the device again.
fn retries(rows: &DeviceRows, all: &[AllocatorEvent]) -> Option<String> {
    let first = of_kind(all, EventKind::Retry).next()?;
    Some(format!(
        "the allocator flushed its cache {} and asked the device again, first at {} (entry {}, {} given \
         back): each time the device is waited for",
        times(of_kind(all, EventKind::Retry).count()),
        rows.sites.site(first.stack),
        fmt_count(u64::from(first.seq)),
        size(first.bytes)
    ))
}

fn emptied_in_loop(rows: &DeviceRows, all: &[AllocatorEvent]) -> Option<String> {
    let in_loop: Vec<_> = of_kind(all, EventKind::EmptyCache).filter(|e| e.is_followed).collect();
    let first = in_loop.first().filter(|_| in_loop.len() > 1)?;
    Some(format!(
        "empty_cache() runs in a loop: {} it gave {} back that was reserved again at once, first at {} \
         (entry {})",
        times(in_loop.len()),
        size(in_loop.iter().map(|e| e.bytes).sum()),
        rows.sites.site(first.stack),
        fmt_count(u64::from(first.seq))
    ))
}

/// A part of the memory as a share of all, if that is large enough to be named.
fn large_share(part: i64, whole: i64, least: f64) -> Option<String> {
    percent(part, whole).filter(|p| *p > least).map(|pct| fmt_pct(Some(pct)))
}

/// Free pieces beside blocks in use, and whether they are fragmentation.
fn split(end: &EndState) -> Option<String> {
    let (free, largest) = (end.split - end.tails, size(end.largest_inactive));
    if let Some(pct) = large_share(end.fragmented(), end.reserved, SPLIT_PCT) {
        let pieces = size(end.fragmented());
        return Some(format!(
            "{pct} of the reserved memory ({pieces}) lie free in pieces beside blocks in use, where only \
             smaller requests fit: fragmentation; the largest free block, which is not among it, has \
             {largest}"
        ));
    }
    let pct = large_share(free, end.reserved, SPLIT_PCT)?;
    Some(format!(
        "{pct} of the reserved memory ({}) lie free beside blocks in use, but nearly all of it in one block \
         of {largest}, where large requests fit: no fragmentation",
        size(free)
    ))
}

fn releasable(end: &EndState) -> Option<String> {
    let pct = large_share(end.cached(), end.reserved, RELEASABLE_PCT)?;
    let place = match (end.releasable, end.tails) {
        (_, 0) => "in segments without any block in use",
        (0, _) => "at the end of expandable segments",
        _ => "in segments without any block in use and at the end of expandable ones",
    };
    Some(format!(
        "{pct} of the reserved memory ({}) are {place}: the cache, which empty_cache() would give back",
        size(end.cached())
    ))
}

fn rounding(end: &EndState) -> Option<String> {
    let pct = large_share(end.rounding(), end.active, ROUNDING_PCT)?;
    let bytes = size(end.rounding());
    Some(format!("{pct} of the active memory ({bytes}) were not asked for: sizes are rounded up"))
}

/// What is said of all devices: the most important first, then of the device nearest to its limit.
pub(crate) fn sentences(partials: &[Partial]) -> Vec<String> {
    let devices: Vec<MemoryDeviceRow> = rows::<MemoryDevices>(partials).collect();
    let mut found: Vec<((u32, Option<Nearness>), String)> = Vec::new();
    for told in rows::<MemorySentences>(partials) {
        let of_device = |d: &&MemoryDeviceRow| {
            (d.rank, d.device_type, d.device) == (told.rank, told.device_type, told.device)
        };
        let order = (told.subject, devices.iter().find(of_device).map(Nearness::of));
        found.push((order, told.sentence.to_string()));
    }
    found.extend(uneven(&devices));
    found.sort_by_key(|(order, _)| *order);
    found.into_iter().take(SENTENCES).map(|(_, sentence)| sentence).collect()
}

fn times(n: usize) -> String {
    if n == 1 { "once".to_string() } else { format!("{n} times") }
}

/// Why levels and the peak hold only for a part of what happened.
fn history_faults(rows: &DeviceRows) -> Vec<String> {
    let mut out = Vec::new();
    let (Some(replay), Some(history)) = (&rows.device.replay, rows.device.history) else { return out };
    if let Some(overflow) = rows.device.overflow() {
        let why = match overflow {
            Overflow::Told => "trace_alloc_overflowed",
            Overflow::Full => "trace_alloc_max_entries",
        };
        out.push(format!(
            "history overflowed ({why}, {} entries): the peak may lie before, and is at least what is named \
             here; {} were reserved then; record with more entries: _record_memory_history(max_entries=...)",
            fmt_count(history.len() as u64),
            size(replay.reserved_before)
        ));
    }
    if replay.disagreement != 0 {
        out.push(format!(
            "the history and the blocks at the end disagree by {}: entries are missing or were edited, and \
             the peak may differ by as much",
            size(replay.disagreement)
        ));
    }
    out
}

/// The peak, what holds most of it, and how much of it was there before.
fn peak(rows: &DeviceRows) -> Option<String> {
    let (replay, history) = (rows.device.replay.as_ref()?, rows.device.history?);
    let held = replay.content(rows.device.snapshot, history, replay.peak.seq);
    let sum =
        |is: fn(&HeldOrigin) -> bool| held.iter().filter(|h| is(&h.origin)).map(|h| h.bytes).sum::<i64>();
    let freed = sum(|o| matches!(o, HeldOrigin::BeforeFreed(_)));
    let alive = sum(|o| matches!(o, HeldOrigin::BeforeAlive));
    let is_bound = rows.device.overflow().is_some();
    let mut out =
        format!("the peak is {}{}", if is_bound { "at least " } else { "" }, size(replay.peak.bytes));
    match replay.peak.seq {
        None => out.push_str(", before the first entry of the history"),
        Some(seq) => {
            let entry = rows.device.snapshot.entries(history).nth(seq as usize)?;
            out.push_str(&format!(" at entry {}", fmt_count(u64::from(seq))));
            if let Some((name, since)) = rows.device.phases.since(entry) {
                out.push_str(&format!(", {} into {name}", fmt_ns(since)));
            }
        }
    }
    let share = |bytes| percent(bytes, replay.peak.bytes).filter(|pct| *pct >= 1.0);
    // What asked last is often small; what holds most is to be repaired.
    let of_history = held.iter().copied().filter(|h| matches!(h.origin, HeldOrigin::Entry(_)));
    let largest = parts(rows.device, rows.sites, of_history, ContentKey::Line).into_iter().next();
    if let Some((part, pct)) = largest.and_then(|p| share(p.bytes).map(|pct| (p, pct))) {
        let how_much = if pct >= 50.0 { "most of it" } else { "the largest part" };
        out.push_str(&format!(
            ", {how_much} held by {}: {} ({}) in {}",
            part.key,
            size(part.bytes),
            fmt_pct(Some(pct)),
            counted(part.count, "allocation")
        ));
    }
    if let Some(pct) = share(freed) {
        out.push_str(&format!("; {} were allocated before the history and freed later", fmt_pct(Some(pct))));
    }
    if let Some(pct) = share(alive) {
        out.push_str(&format!("; {} were allocated before the history and never freed", fmt_pct(Some(pct))));
    }
    Some(out)
}

/// Ranks whose peak is not that of the others.
fn uneven(devices: &[MemoryDeviceRow]) -> Vec<((u32, Option<Nearness>), String)> {
    let peaks: Vec<(&MemoryDeviceRow, i64)> =
        devices.iter().filter_map(|d| Some((d, d.peak_bytes?))).collect();
    let ranks: BTreeSet<u32> = peaks.iter().map(|p| p.0.rank).collect();
    let mut sizes: Vec<i64> = peaks.iter().map(|p| p.1).collect();
    sizes.sort_unstable();
    let Some(median) = sizes.get(sizes.len() / 2).copied().filter(|_| ranks.len() > 2) else {
        return Vec::new();
    };
    let mut out = Vec::new();
    for (d, bytes) in peaks {
        if percent((bytes - median).abs(), median).is_none_or(|differs| differs <= PEAK_DIFFERENCE_PCT) {
            continue;
        }
        let (rank, device) = (d.rank, name(d));
        let sentence = format!(
            "rank {rank}, {device}: its peak is {}, the median of the ranks {}",
            size(bytes),
            size(median)
        );
        let order = (Subject::UnevenPeak as u32, Some(Nearness::of(d)));
        out.push((order, sentence));
    }
    out
}

//! Causes about memory. They own no time: a job whose memory fills up loses none until it fails. What calls of the driver
//! cost is owned by `host_alloc`.
//!
//! Each rank leaves its threats, in words and bytes; of a job each kind is one cause, told by its worst rank.

use crate::api::{Options, Partial, rows};
use crate::diagnosis::cause::Cause;
use crate::diagnosis::context::Context;
use crate::diagnosis::evidence::Evidence;
use crate::diagnosis::gain::OwnedTime;
use crate::diagnosis::kind::CauseKind;
use crate::facts::serving_mode::ServingMode;
use crate::memory::RankMemory;
use crate::memory::findings::leaks;
use crate::memory::holders::BEFORE;
use crate::memory::report::{ReportedDevice, content_at, device_name, peaks, size};
use crate::memory::tables::{MemoryEventRow, MemoryEvents, MemoryPeakRow};
use hta_base::table;
use hta_base::table::schema::Text;
use hta_base::units::{fmt_count, fmt_pct, percent};
use hta_base::wording::counts::{capital, counted, plural};
use hta_base::wording::names::clip;
use hta_trace::memory_moment::MemoryMoment;
use hta_trace::rank_trace::RankTrace;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Share of a device's memory from which on it is nearly full, percent. The rule is that of the profiler plugin of
/// TensorBoard.
const NEARLY_FULL_PCT: f64 = 90.0;
/// Share of the reserved memory that is not allocated at the peak, from which on it is told, percent.
const UNUSED_PCT: f64 = 20.0;
/// Largest width of a site, characters.
const SITE: usize = 60;

table! {
    /// What threatens the memory of a rank.
    pub(crate) struct MemoryThreats, MemoryThreatRow = "memory_threat" by "rank, kind, device_type, device" {
        rank;
        kind: Text, "", "kind of cause";
        device_type: Text, "", "type of the device";
        device: Option<i64>, "", "device index; null for host memory, and for calls, which do not record it";
        bytes: Option<i64>, "bytes", "what it is about: the largest failed request, growth of the median step, the peak, unused memory; null for retries, whose sizes are not recorded";
        weight: i64, "", "orders the ranks: bytes, the share of the device in 1/1000, or the number of retries";
        site: Text, "", "line or operator; empty if none is known";
        words: Text, "", "the threat in words";
        evidence: Text, "", "the number behind it, in words";
    }
}

/// A threat, before it is a row.
struct Threat {
    kind: CauseKind,
    device_type: String,
    device: Option<i64>,
    bytes: Option<i64>,
    weight: i64,
    site: String,
    words: String,
    evidence: String,
}

pub(crate) fn push(table: &mut MemoryThreats, trace: &RankTrace, options: &Options) {
    // Without records only calls of the driver can tell something.
    let gives_back =
        |text: &str| matches!(text, "cudaFree" | "hipFree" | "cudaFreeAsync" | "hipFreeAsync" | "cuMemUnmap");
    if trace.columns.memory.is_empty() && !trace.columns.strings.iter().any(|(_, text)| gives_back(text)) {
        return;
    }
    let of_rank = [RankMemory::of(trace, options).partial(trace)];
    let mut threats = failed(&of_rank);
    threats.extend(retries(&of_rank, trace));
    threats.extend(leak(&of_rank));
    if !ServingMode::of(trace).is_serving {
        // Engines fill the memory with their cache on purpose.
        let peaks = peaks(&of_rank);
        threats.extend(peaks.iter().find_map(|peak| full(&of_rank, peak)));
        threats.extend(peaks.iter().find_map(unused));
    }
    threats.sort_by_key(|t| (t.kind.name(), t.device_type.clone(), t.device));
    for t in &threats {
        table.push(MemoryThreatRow {
            rank: trace.rank,
            kind: t.kind.name(),
            device_type: &t.device_type,
            device: t.device,
            bytes: t.bytes,
            weight: t.weight,
            site: &t.site,
            words: &t.words,
            evidence: &t.evidence,
        });
    }
}

/// Events of one kind, by device, in order of time.
fn events<'a>(of_rank: &'a [Partial], kind: &str) -> BTreeMap<(&'a str, Option<i64>), Vec<MemoryEventRow<'a>>> {
    let mut out: BTreeMap<(&str, Option<i64>), Vec<MemoryEventRow>> = BTreeMap::new();
    for row in rows::<MemoryEvents>(of_rank).filter(|r| r.kind == kind) {
        out.entry((row.device_type, row.device)).or_default().push(row);
    }
    out
}

fn at_site(site: &str) -> String {
    if site.is_empty() { String::new() } else { format!(" at `{}`", clip(site, SITE)) }
}

/// Requests for memory that failed.
fn failed(of_rank: &[Partial]) -> Vec<Threat> {
    let told = events(of_rank, "oom").into_iter().filter_map(|((device_type, device), all)| {
        let largest = all.iter().max_by_key(|r| (r.bytes, Reverse(r.ts_ns)))?;
        let (bytes, site) = (largest.bytes.unwrap_or(0), largest.site.unwrap_or(""));
        let place = ReportedDevice { rank: largest.rank, device_type, device }.shown(true);
        let requests = counted(all.len() as u64, "request");
        Some(Threat {
            kind: CauseKind::MemoryFailed,
            device_type: device_type.to_string(),
            device,
            bytes: Some(bytes),
            weight: bytes,
            site: site.to_string(),
            words: capital(&format!(
                "{requests} for memory on {place} failed, the largest of {}{}",
                size(bytes),
                at_site(site)
            )),
            evidence: format!("{requests} failed, {} at most", size(bytes)),
        })
    });
    told.collect()
}

/// Retries of the caching allocator inside steps.
fn retries(of_rank: &[Partial], trace: &RankTrace) -> Vec<Threat> {
    let steps = &trace.steps.steps;
    let is_inside = |ts: i64| steps.is_empty() || steps.iter().any(|s| s.host.start <= ts && ts < s.host.end);
    let mut out = Vec::new();
    for ((device_type, device), mut all) in events(of_rank, "retry") {
        all.retain(|r| r.ts_ns.is_some_and(is_inside));
        let mut by_site: BTreeMap<&str, u64> = BTreeMap::new();
        all.iter().for_each(|r| *by_site.entry(r.site.unwrap_or("")).or_default() += 1);
        let Some((site, most)) = by_site.into_iter().max_by_key(|(site, n)| (*n, Reverse(*site))) else { continue };
        let count = all.len() as u64;
        let of_site =
            if site.is_empty() { String::new() } else { format!(", {} of them{}", fmt_count(most), at_site(site)) };
        out.push(Threat {
            kind: CauseKind::MemoryRetry,
            device_type: device_type.to_string(),
            device,
            bytes: None,
            weight: all.len() as i64,
            site: site.to_string(),
            words: format!(
                "The caching allocator of rank {} ran out of memory and gave its cache back {} inside steps{of_site}",
                trace.rank,
                plural(all.len(), "time"),
            ),
            evidence: format!("{} inside steps", counted(count, "retry").replace("retrys", "retries")),
        });
    }
    out
}

/// The device whose memory grows fastest from step to step.
fn leak(of_rank: &[Partial]) -> Option<Threat> {
    let found = leaks(of_rank);
    let leak = found.first()?;
    let bytes = leak.bytes;
    Some(Threat {
        kind: CauseKind::MemoryLeak,
        device_type: leak.place.device_type.to_string(),
        device: leak.place.device,
        bytes: Some(bytes),
        weight: bytes,
        site: leak.site(of_rank).map_or(String::new(), |s| s.site.to_string()),
        words: leak.sentence(of_rank, true),
        evidence: format!("{} more after the median step", size(bytes)),
    })
}

/// Size of the device of a peak, and the share of some bytes in it.
fn of_device(peak: &MemoryPeakRow, bytes: i64) -> Option<(i64, f64)> {
    let total = peak.device_total_bytes.filter(|total| *total > 0 && !peak.is_relative && peak.device.is_some())?;
    Some((total, percent(bytes, total)?))
}

/// The peak of a device that is nearly full, and what holds most of it.
fn full(of_rank: &[Partial], peak: &MemoryPeakRow) -> Option<Threat> {
    let (total, share) = of_device(peak, peak.peak_bytes).filter(|(_, share)| *share > NEARLY_FULL_PCT)?;
    let place = ReportedDevice::of(peak);
    let largest = |kind: &str| {
        let content = content_at(of_rank, &place, kind, MemoryMoment::Peak);
        let known = content.iter().filter(|r| r.key != BEFORE && !r.key.starts_with('['));
        known.max_by_key(|r| (r.bytes, Reverse(r.key))).map(|r| (r.key.to_string(), r.bytes))
    };
    let holder = largest("line").or_else(|| largest("op"));
    let held = holder.as_ref().map_or(String::new(), |(key, bytes)| {
        format!("; `{}` holds {} of it", clip(key, SITE), fmt_pct(percent(*bytes, peak.peak_bytes)))
    });
    Some(Threat {
        kind: CauseKind::MemoryFull,
        device_type: peak.device_type.to_string(),
        device: peak.device,
        bytes: Some(peak.peak_bytes),
        weight: (share * 10.0) as i64,
        site: holder.map_or(String::new(), |(key, _)| key),
        words: format!(
            "GPU memory of {} is nearly full: {} of {} at the peak ({}){held}",
            place.shown(true),
            size(peak.peak_bytes),
            size(total),
            fmt_pct(Some(share))
        ),
        evidence: format!("peak of {}, {} of the device", size(peak.peak_bytes), fmt_pct(Some(share))),
    })
}

/// A device whose memory is reserved nearly whole, although much of it is not allocated even at the peak.
fn unused(peak: &MemoryPeakRow) -> Option<Threat> {
    let reserved = peak.reserved_bytes?;
    let (total, _) = of_device(peak, reserved).filter(|(_, share)| *share > NEARLY_FULL_PCT)?;
    let unused = reserved.saturating_sub(peak.peak_bytes);
    let share = percent(unused, reserved).filter(|p| *p > UNUSED_PCT)?;
    let place = ReportedDevice::of(peak);
    Some(Threat {
        kind: CauseKind::MemoryUnused,
        device_type: peak.device_type.to_string(),
        device: peak.device,
        bytes: Some(unused),
        weight: unused,
        site: String::new(),
        words: format!(
            "The caching allocator of {} has {} of {} reserved, but {} of that ({}) are not allocated even at the peak: \
             fragmented or cached, which a trace cannot tell",
            place.shown(true),
            size(reserved),
            size(total),
            size(unused),
            fmt_pct(Some(share))
        ),
        evidence: format!("{} of {} reserved bytes are not allocated at the peak", size(unused), size(reserved)),
    })
}

fn action(kind: CauseKind) -> &'static str {
    match kind {
        CauseKind::MemoryFailed => {
            "hold less at the peak (a smaller batch, activation checkpointing); hta memory shows what holds it"
        }
        CauseKind::MemoryRetry => {
            "leave room at the peak, or reduce fragmentation: PYTORCH_ALLOC_CONF=expandable_segments:True"
        }
        CauseKind::MemoryLeak => "release what is kept from step to step, or bound what is collected",
        CauseKind::MemoryFull => {
            "hold less at the peak before the batch or the model grows: activation checkpointing, sharded states; hta \
             memory shows what holds it"
        }
        _ => {
            "record a snapshot (torch.cuda.memory._record_memory_history) and run hta memory on it: it tells fragmented \
             from cached memory; PYTORCH_ALLOC_CONF=expandable_segments:True repairs the first"
        }
    }
}

/// Where the evidence of a kind stands: table, and the condition beside the device.
fn table_of(kind: CauseKind) -> (&'static str, &'static str) {
    match kind {
        CauseKind::MemoryFailed => ("memory_events", "kind = 'oom'"),
        CauseKind::MemoryRetry => ("memory_events", "kind = 'retry'"),
        CauseKind::MemoryLeak => ("memory_steps", "net_bytes > 0"),
        _ => ("memory_peaks", "scope = 'capture'"),
    }
}

/// The causes about memory, each told by its worst rank.
pub(crate) fn causes(context: &Context, partials: &[Partial]) -> Vec<Cause> {
    let mut by_kind: BTreeMap<CauseKind, Vec<MemoryThreatRow>> = BTreeMap::new();
    for row in rows::<MemoryThreats>(partials) {
        if let Some(kind) = CauseKind::named(row.kind) {
            by_kind.entry(kind).or_default().push(row);
        }
    }
    let told = by_kind.into_iter().filter_map(|(kind, mut all)| {
        all.sort_by_key(|r| (Reverse(r.weight), r.rank));
        let worst = all.first()?;
        let mut ranks: Vec<u32> = all.iter().map(|r| r.rank).collect();
        ranks.sort_unstable();
        ranks.dedup();
        let more = ranks.len().saturating_sub(1);
        let more = if more == 0 { String::new() } else { format!(" (and {} more)", plural(more, "rank")) };
        let mut cause = context.cause(kind, worst.site, ranks, OwnedTime::new(), 0);
        cause.bytes = worst.bytes;
        cause.sentence = format!("{}{more}", worst.words);
        cause.action = action(kind).to_string();
        let (table, condition) = table_of(kind);
        let device = worst.device.map_or("device IS NULL".to_string(), |id| format!("device = {id}"));
        cause.evidence = vec![Evidence {
            table,
            filter: format!(
                "rank = {} AND device_type = '{}' AND {device} AND {condition}",
                worst.rank, worst.device_type
            ),
            words: format!("{}: {}", device_name(worst.device_type, worst.device), worst.evidence),
        }];
        Some(cause)
    });
    told.collect()
}

//! The rows of `memory_peaks` and `memory_content`: the highest level of the capture and of each step, and
//! the end.

use crate::api::Options;
use crate::memory::TRACE;
use crate::memory::device::RecordedDevice;
use crate::memory::holders::{HeldMemory, HolderMoment, held_after, push};
use crate::memory::tables::{MemoryContent, MemoryPeakRow, MemoryPeaks};
use hta_facts::memory_places::MemoryPlaces;
use hta_trace::memory_moment::MemoryMoment;
use hta_trace::rank_trace::RankTrace;
use hta_trace::step::Step;
use std::borrow::Cow;

/// A moment that is described: the peak of the capture or of a step, or the end.
struct Described<'a> {
    moment: Cow<'static, str>,
    step: Option<&'a Step>,
    number: usize,
}

pub(crate) fn add(
    peaks: &mut MemoryPeaks,
    content: &mut MemoryContent,
    trace: &RankTrace,
    memory: &RecordedDevice,
    places: &MemoryPlaces,
    options: &Options,
) {
    let mut described: Vec<Described> = Vec::new();
    let of_capture =
        |moment: &'static str, number| Described { moment: Cow::Borrowed(moment), step: None, number };
    described.extend(memory.levels.len().checked_sub(1).map(|number| of_capture("end", number)));
    described.extend(memory.peak(None).map(|number| of_capture("peak", number)));
    let asked = options.settings.moment(&super::AT);
    let number = match asked {
        MemoryMoment::Entry(entry) => Some(entry as usize).filter(|n| *n < memory.levels.len()),
        MemoryMoment::Time(ns) => memory.records.partition_point(|r| r.ts <= ns).checked_sub(1),
        _ => None,
    };
    described.extend(number.map(|number| Described { moment: Cow::Owned(asked.name()), step: None, number }));
    for step in super::steps::shown(trace, options) {
        let number = memory.peak(Some(step));
        described.extend(number.map(|number| Described {
            moment: Cow::Borrowed("step"),
            step: Some(step),
            number,
        }));
    }
    let mut numbers: Vec<usize> = described.iter().map(|d| d.number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let held = held_after(memory, places, &numbers);
    for of in &described {
        let held = numbers.binary_search(&of.number).ok().and_then(|i| held.get(i));
        let level = memory.levels.get(of.number).copied().unwrap_or(0);
        if let Some(held) = held {
            push(
                content,
                memory,
                places,
                HolderMoment { name: &of.moment, step: of.step.map(|s| s.index), level },
                held,
            );
        }
        if of.step.is_some() || of.moment == "peak" {
            push_peak(peaks, trace, memory, places, of, held);
        }
    }
}

fn push_peak(
    table: &mut MemoryPeaks,
    trace: &RankTrace,
    memory: &RecordedDevice,
    places: &MemoryPlaces,
    of: &Described,
    held: Option<&HeldMemory>,
) {
    let n = of.number;
    let (Some(record), Some(place), Some(level)) =
        (memory.records.get(n), memory.places.get(n), memory.levels.get(n))
    else {
        return;
    };
    let around = place.step.and_then(|s| trace.steps.steps.get(s as usize));
    let chain = place.op.map(|op| {
        let mut names: Vec<&str> = places.chain(op).map(|row| trace.name(row)).collect();
        names.reverse();
        names.join(";")
    });
    table.push(MemoryPeakRow {
        rank: memory.rank,
        device_type: &memory.device_type,
        device: memory.device,
        source: TRACE,
        scope: if of.step.is_some() { "step" } else { "capture" },
        step: of.step.map(|s| s.index),
        step_label: of.step.and_then(|s| s.label),
        peak_bytes: *level,
        base_bytes: (!memory.is_relative).then_some(memory.before),
        is_relative: memory.is_relative,
        reserved_bytes: memory.reserved(n),
        unused_max_bytes: memory.numbers_in(of.step).filter_map(|i| memory.unused(i)).max(),
        seq: n as u64,
        ts_ns: Some(record.ts),
        in_step_ns: around.map(|s| record.ts.saturating_sub(s.host.start)),
        phase: Some(place.phase.name()),
        trigger_bytes: record.bytes,
        trigger_op: place.op.map(|op| places.text(places.shown(op))).as_deref(),
        trigger_chain: chain.as_deref(),
        trigger_site: places.line(place.line).as_deref(),
        module: place.module.and_then(|m| places.paths.get(m as usize)).map(String::as_str),
        known_count: held.map(|h| h.known.0),
        known_bytes: held.map(|h| h.known.1),
        before_bytes: held.map(|h| level.saturating_sub(h.known.1)),
        device_total_bytes: memory.total,
    });
}

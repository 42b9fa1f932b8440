//! The rows of `memory_steps` and `memory_leaks`: levels over each step, and what of a step outlives the next
//! one.
//!
//! ```text
//!   step        0       )[1       )[2       )[3       )
//!   level     0 ___---__4___---___8__---___12___---___16     net 4 in every step
//!   survivors   a........b.........c.........             a: of step 0, alive when step 1 ends
//! ```

use crate::api::Options;
use crate::memory::TRACE;
use crate::memory::device::RecordedDevice;
use crate::memory::holders::{CountAndBytes, Holder};
use crate::memory::tables::{MemoryLeakRow, MemoryLeaks, MemoryStepRow, MemorySteps};
use hta_facts::memory_places::MemoryPlaces;
use hta_trace::rank_trace::RankTrace;
use hta_trace::step::{Step, StepRule};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Steps that are marked in the trace and selected.
pub(crate) fn shown<'a>(trace: &'a RankTrace, options: &'a Options) -> impl Iterator<Item = &'a Step> {
    marked(trace).iter().filter(|s| options.model.selects(s))
}

/// Steps that are marked in the trace.
pub(crate) fn marked(trace: &RankTrace) -> &[Step] {
    if trace.steps.rule == StepRule::Capture { &[] } else { &trace.steps.steps }
}

/// Whether a step is meant by a number: its label, or its index if steps have none.
pub(crate) fn is_numbered(index: u32, label: Option<i64>, number: i64) -> bool {
    label.unwrap_or(i64::from(index)) == number
}

/// Numbers of the records of allocations that outlive the step after theirs, by step. `None` for a step after
/// which there is none, and without addresses.
struct Survivors(Vec<Option<Vec<usize>>>);

impl Survivors {
    fn new(trace: &RankTrace, memory: &RecordedDevice) -> Self {
        let steps = marked(trace);
        let is_known = memory.allocations.is_some();
        let mut all: Vec<Option<Vec<usize>>> =
            (0..steps.len()).map(|i| (is_known && i + 1 < steps.len()).then(Vec::new)).collect();
        for allocation in memory.allocations.iter().flat_map(|a| &a.all) {
            let Some(opened) = allocation.opened.map(|n| n as usize) else { continue };
            let Some(step) = memory.places.get(opened).and_then(|p| p.step).map(|s| s as usize) else {
                continue;
            };
            let Some(next) = steps.get(step + 1) else { continue };
            let closed = allocation.closed.and_then(|n| memory.records.get(n as usize));
            if closed.is_none_or(|free| free.ts >= next.host.end)
                && let Some(Some(of_step)) = all.get_mut(step)
            {
                of_step.push(opened);
            }
        }
        Self(all)
    }
}

pub(crate) fn add(
    table: &mut MemorySteps,
    leaks: &mut MemoryLeaks,
    trace: &RankTrace,
    memory: &RecordedDevice,
    places: &MemoryPlaces,
    options: &Options,
) {
    let survivors = Survivors::new(trace, memory);
    let bytes = |number: &usize| memory.records.get(*number).map_or(0, |r| r.bytes);
    for step in shown(trace, options) {
        let (start, end) = (memory.level_before(step.host.start), memory.level_before(step.host.end));
        let numbers = memory.numbers_in(Some(step));
        let inside = || memory.levels.get(numbers.clone()).unwrap_or_default().iter().copied();
        let survived = survivors.0.get(step.index as usize).and_then(Option::as_ref);
        table.push(MemoryStepRow {
            rank: memory.rank,
            device_type: &memory.device_type,
            device: memory.device,
            source: TRACE,
            step: Some(step.index),
            step_label: step.label,
            is_partial: Some(step.is_partial),
            start_bytes: start,
            end_bytes: end,
            net_bytes: end.saturating_sub(start),
            max_bytes: inside().fold(start, i64::max),
            min_bytes: inside().fold(start, i64::min),
            survivor_count: survived.map(|s| s.len() as u64),
            survivor_bytes: survived.map(|s| s.iter().map(bytes).fold(0, i64::saturating_add)),
        });
    }
    add_leaks(leaks, memory, places, &survivors);
}

/// The sites of survivors. They recur if every step has some, apart from the first one, whose state is made
/// once, and from the last one, which none follows.
fn add_leaks(table: &mut MemoryLeaks, memory: &RecordedDevice, places: &MemoryPlaces, survivors: &Survivors) {
    let judged = survivors.0.len().saturating_sub(2);
    let mut sites: BTreeMap<(&'static str, String), (BTreeSet<usize>, CountAndBytes)> = BTreeMap::new();
    for (step, numbers) in survivors.0.iter().enumerate() {
        for &number in numbers.iter().flatten() {
            let (Some(record), Some(place)) = (memory.records.get(number), memory.places.get(number)) else {
                continue;
            };
            for holder in Holder::of(place, places).into_iter().filter(|h| h.kind() != "phase") {
                let Some(text) = holder.text(places) else { continue };
                let (steps, sum) = sites.entry((holder.kind(), text)).or_default();
                steps.insert(step);
                *sum = (sum.0 + 1, sum.1.saturating_add(record.bytes));
            }
        }
    }
    let mut rows: Vec<_> = sites.iter().collect();
    rows.sort_by_key(|((kind, site), (_, sum))| (*kind, Reverse(sum.1), site));
    for ((kind, site), (steps, (count, bytes))) in rows {
        let later = steps.iter().filter(|s| **s > 0).count();
        table.push(MemoryLeakRow {
            rank: memory.rank,
            device_type: &memory.device_type,
            device: memory.device,
            source: TRACE,
            site,
            key_kind: kind,
            groups: steps.len() as u64,
            count: *count,
            bytes: *bytes,
            bytes_per_group: bytes / (steps.len().max(1) as i64),
            is_recurring: judged >= 2 && later == judged,
        });
    }
}

//! Memory: levels over time, peaks and what holds them, allocations, and what outlives its step.
//!
//! The records of a rank's allocators become one [`device::DeviceMemory`] per device, and each table is made from that.
//! Tables with a row per record are written while a rank is mapped; the others are bounded by names, steps and devices.

mod allocator;
mod device;
pub(crate) mod findings;
pub(crate) mod holders;
mod operators;
mod peaks;
mod per_record;
pub(crate) mod report;
mod steps;
pub(crate) mod tables;

use crate::analysis::api::{About, Analysis, Options, Output, Partial, RowEmitter};
use crate::analysis::memory::report::is_of_device;
use crate::analysis::memory::tables::{
    MemoryAllocations, MemoryContent, MemoryCurve, MemoryEvents, MemoryLeaks, MemoryOperators, MemoryPeaks, MemorySteps,
};
use crate::analysis::settings::{Setting, ValueType};
use crate::facts::calls::CallForest;
use crate::facts::lines::Lines;
use crate::facts::memory_places::MemoryPlaces;
use crate::job::Job;
use crate::table::schema::Batch;
use crate::trace::memory::device_type_name;
use crate::trace::rank_trace::RankTrace;
use std::sync::Arc;

/// Column `source` of rows from traces.
pub const TRACE: &str = "trace";

const BY: Setting = Setting {
    stem: "memory",
    flag: "--by",
    value: "KEY",
    help: "What holds the memory in the printed table: op, line, module or phase",
    kind: ValueType::Choice(&["op", "line", "module", "phase"]),
};

const AT: Setting = Setting {
    stem: "memory",
    flag: "--at",
    value: "MOMENT",
    help: "When: at the peak, or at the end of the recording",
    kind: ValueType::Choice(&["peak", "end"]),
};

const DEVICE: Setting = Setting {
    stem: "memory",
    flag: "--device",
    value: "DEVICE",
    help: "Print only this device, e.g. cuda:0, or this type of device, e.g. cpu",
    kind: ValueType::Text,
};

/// The tables of a rank whose size does not grow with the recording, made once for all that read them.
pub(crate) struct RankMemory {
    tables: Vec<Batch>,
}

impl RankMemory {
    pub(crate) fn of(trace: &RankTrace, options: &Options) -> Arc<Self> {
        trace.shared(|trace| Self::new(trace, options))
    }

    fn new(trace: &RankTrace, options: &Options) -> Self {
        let calls = CallForest::new(trace);
        let lines = Lines::of(trace);
        let places = MemoryPlaces::new(&calls, &lines);
        let (mut peaks, mut content) = (MemoryPeaks::default(), MemoryContent::default());
        let (mut steps, mut leaks) = (MemorySteps::default(), MemoryLeaks::default());
        let (mut operators, mut events) = (MemoryOperators::default(), MemoryEvents::default());
        let counts = operators::calls(trace);
        for memory in &device::devices(trace, &places) {
            peaks::add(&mut peaks, &mut content, trace, memory, &places, options);
            steps::add(&mut steps, &mut leaks, trace, memory, &places, options);
            operators::add(&mut operators, trace, memory, &places, &counts);
        }
        allocator::add(&mut events, trace, &places);
        let tables =
            vec![peaks.finish(), content.finish(), operators.finish(), steps.finish(), leaks.finish(), events.finish()];
        Self { tables }
    }

    /// What threatens the rank's memory, as a part of the answer of all ranks.
    pub(crate) fn partial(&self, trace: &RankTrace) -> Partial {
        Partial { rank: trace.rank, tables: self.tables.clone(), reason: None }
    }
}

/// Writes the tables with a row per record.
fn write_records(trace: &RankTrace, options: &Options, give: &mut RowEmitter) {
    if trace.columns.memory.is_empty() {
        // Most traces: the places of records, which take the whole call forest, are not needed.
        let empty = [MemoryCurve::default().finish(), MemoryAllocations::default().finish()];
        empty.into_iter().filter(|batch| options.wants_per_event(batch.spec)).for_each(give);
        return;
    }
    let calls = CallForest::new(trace);
    let lines = Lines::of(trace);
    let places = MemoryPlaces::new(&calls, &lines);
    let devices = device::devices(trace, &places);
    if options.wants_per_event(MemoryCurve::SPEC) {
        per_record::curve(&devices, give);
    }
    if options.wants_per_event(MemoryAllocations::SPEC) {
        per_record::allocations(&devices, &places, give);
    }
}

pub struct Memory;

impl Analysis for Memory {
    fn about(&self) -> About {
        About {
            stem: "memory",
            title: "memory over time, the peak and what holds it, growth from step to step",
            explain: include_str!("page.md"),
            tables: &[
                MemoryPeaks::SPEC,
                MemoryContent::SPEC,
                MemoryOperators::SPEC,
                MemorySteps::SPEC,
                MemoryLeaks::SPEC,
                MemoryEvents::SPEC,
                MemoryCurve::SPEC,
                MemoryAllocations::SPEC,
            ],
            settings: &[BY, AT, DEVICE],
            ..About::DEFAULT
        }
    }

    fn selects(&self, trace: &RankTrace, setting: &Setting, text: &str) -> Option<bool> {
        let is_of = |kind, device| is_of_device(&device_type_name(kind), device, text);
        (setting.flag == DEVICE.flag).then(|| trace.columns.memory.iter().any(|r| is_of(r.device_type, r.device)))
    }

    fn map(&self, trace: &RankTrace, options: &Options, give: &mut RowEmitter) -> Partial {
        let mut partial = Partial { rank: trace.rank, tables: Vec::new(), reason: None };
        if trace.columns.memory.is_empty() {
            partial.reason = Some("no memory recorded (profile_memory=True records it)");
        }
        partial.tables = RankMemory::of(trace, options).tables.clone();
        if options.wants_per_event(MemoryCurve::SPEC) || options.wants_per_event(MemoryAllocations::SPEC) {
            write_records(trace, options, give);
        }
        partial
    }

    fn reduce(&self, partials: &[Partial], _: &Job, options: &Options) -> Output {
        let specs = [
            MemoryPeaks::SPEC,
            MemoryContent::SPEC,
            MemoryOperators::SPEC,
            MemorySteps::SPEC,
            MemoryLeaks::SPEC,
            MemoryEvents::SPEC,
        ];
        let of = |spec| partials.iter().filter_map(move |p: &Partial| p.table(spec).cloned());
        Output {
            tables: specs.into_iter().flat_map(of).collect(),
            observations: findings::observations(self.about().stem, partials),
            views: report::views(partials, options),
            ..Output::default()
        }
    }
}

//! Memory: levels over time, peaks and what holds them, allocations, and what outlives its step.
//!
//! The records of a rank's allocators become one [`device::RecordedDevice`] per device, and each table is
//! made from that. Tables with a row per record are written while a rank is mapped; the others are bounded by
//! names, steps and devices.

mod allocator;
mod device;
pub mod findings;
mod flame;
pub mod holders;
mod operators;
mod peaks;
mod per_record;
pub mod report;
pub mod snapshot;
mod steps;
pub mod tables;
mod views;

use crate::api::{About, Analysis, Options, Output, Partial, RowEmitter};
use crate::memory::flame::HeldStacks;
use crate::memory::holders::KINDS;
use crate::memory::report::{device_name, is_of_device};
use crate::memory::snapshot::tables::{
    MemoryAllocated, MemoryBlocks, MemoryCategories, MemoryDevices, MemoryReserved, MemorySegments,
    MemorySentences, MemoryStacks,
};
use crate::memory::tables::{
    MemoryAllocations, MemoryContent, MemoryCurve, MemoryEvents, MemoryHighest, MemoryLeaks, MemoryOperators,
    MemoryPeaks, MemorySteps,
};
use crate::settings::{Setting, Settings, ValueType};
use crate::stacks::{StackNodes, StackUnit, folded, speedscope_file};
use hta_base::table::schema::Batch;
use hta_facts::calls::CallForest;
use hta_facts::lines::Lines;
use hta_facts::memory_places::MemoryPlaces;
use hta_job::Job;
use hta_job::recording::capability::Capability;
use hta_read::error::SetError;
use hta_trace::memory::{MemoryRecord, by_device, device_type_name};
use hta_trace::memory_moment::MemoryMoment;
use hta_trace::rank_trace::RankTrace;
use std::sync::Arc;

/// Column `source` of rows from traces.
pub(crate) const TRACE: &str = "trace";

pub(crate) const BY: Setting = Setting {
    stem: "memory",
    flag: "--by",
    value: "KEY",
    help: "What holds the memory in the printed table: op, line, module or phase; of snapshots line (their \
           default), stack, node (of autograd) or phase",
    kind: ValueType::Choice(&["op", "line", "module", "phase", "stack", "node"]),
};

pub(crate) const AT: Setting = Setting {
    stem: "memory",
    flag: "--at",
    value: "MOMENT",
    help: "When: peak, end, step:N (its peak; no snapshot has steps), entry:N (after a record), or a time of \
           the trace in ns, of snapshots since the epoch",
    kind: ValueType::Moment,
};

pub(crate) const DEVICE: Setting = Setting {
    stem: "memory",
    flag: "--device",
    value: "DEVICE",
    help: "Print only this device, e.g. cuda:0, or this type of device, e.g. cpu; of snapshots also in \
           tables",
    kind: ValueType::Text,
};

pub(crate) const MIN_BYTES: Setting = Setting {
    stem: "memory",
    flag: "--min-bytes",
    value: "N",
    help: "Print only holders of at least so many bytes; the others are told as a sum",
    kind: ValueType::Count { default: 0, min: 0 },
};

const FOLDED: Setting = Setting {
    stem: "memory",
    flag: "--folded",
    value: "WHAT",
    help: "Print folded stacks with bytes for flame graphs: alloc (all allocations), peak or end",
    kind: ValueType::Choice(&["none", "alloc", "peak", "end"]),
};

const SPEEDSCOPE: Setting = Setting {
    stem: "memory",
    flag: "--speedscope",
    value: "FILE",
    help: "Write the stacks of allocations to a file for speedscope: those at the peak, or what --folded \
           says",
    kind: ValueType::OutputFile,
};

pub(crate) const STEPS_BY: Setting = Setting {
    stem: "memory",
    flag: "--steps-by",
    value: "NAME",
    help: "Annotations that mark steps: what each step leaves behind is a leak (snapshots)",
    kind: ValueType::Text,
};

pub(crate) const UNTIL: Setting = Setting {
    stem: "memory",
    flag: "--until",
    value: "WHEN",
    help: "When freed memory stops counting (snapshots): completed or requested",
    kind: ValueType::Choice(&["completed", "requested"]),
};

/// Settings that choose among what an input holds.
pub(crate) const SELECTING: [Setting; 4] = [DEVICE, AT, BY, STEPS_BY];

/// Refuses settings that only dumps have, for inputs that are only traces.
///
/// # Errors
/// When one is given.
pub fn refuse_without_dumps(settings: &Settings) -> Result<(), SetError> {
    let Some(given) = [STEPS_BY, UNTIL].into_iter().find(|s| settings.is_given(s)) else { return Ok(()) };
    let reason = "it is for memory snapshots, and none is among the inputs".to_string();
    let value = settings.text(&given).unwrap_or_default().to_string();
    Err(SetError::Argument { option: given.flag, value, reason })
}

/// Refuses to write the stacks of traces and of dumps to one file.
///
/// # Errors
/// When such a file is named.
pub fn refuse_one_file(settings: &Settings) -> Result<(), SetError> {
    let Some(path) = settings.text(&SPEEDSCOPE) else { return Ok(()) };
    let reason = "snapshots and traces would write the same file: run `hta memory` on each kind".to_string();
    Err(SetError::Argument { option: SPEEDSCOPE.flag, value: path.to_string(), reason })
}

/// Whether a setting selects something of a rank, and what it could; `None` if it does not select among what
/// is there.
pub(crate) fn selects(trace: &RankTrace, setting: &Setting, text: &str) -> Option<(bool, Vec<String>)> {
    if let Some(dump) = &trace.columns.dump {
        return snapshot::selects(dump, setting, text);
    }
    let records = &trace.columns.memory;
    if *setting == DEVICE {
        let is_of = |kind, device| is_of_device(&device_type_name(kind), device, text);
        return Some((records.iter().any(|r| is_of(r.device_type, r.device)), devices_of(trace)));
    }
    if *setting == BY {
        return Some((KINDS.contains(&text), KINDS.map(str::to_string).to_vec()));
    }
    let moment = MemoryMoment::parse(text).filter(|_| *setting == AT)?;
    let of_devices = || by_device(records);
    let is_there = match moment {
        MemoryMoment::Peak | MemoryMoment::End => true,
        MemoryMoment::Step(number) => {
            steps::marked(trace).iter().any(|s| steps::is_numbered(s.index, s.label, number))
        }
        MemoryMoment::Entry(entry) => of_devices().any(|of| of.len() as u64 > u64::from(entry)),
        MemoryMoment::Time(ns) => of_devices().any(|of| of.first().is_some_and(|r| r.ts <= ns)),
    };
    Some((is_there, Vec::new()))
}

/// The tables of a rank whose size does not grow with the recording, made once for all that read them.
pub struct RankMemory {
    tables: Vec<Batch>,
}

impl RankMemory {
    pub fn of(trace: &RankTrace, options: &Options) -> Arc<Self> {
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
        let tables = vec![
            peaks.finish(),
            content.finish(),
            operators.finish(),
            steps.finish(),
            leaks.finish(),
            events.finish(),
        ];
        Self { tables }
    }

    /// What threatens the rank's memory, as a part of the answer of all ranks.
    pub fn partial(&self, trace: &RankTrace) -> Partial {
        Partial { rank: trace.rank, tables: self.tables.clone(), reason: None }
    }
}

/// Names of the devices with records.
fn devices_of(trace: &RankTrace) -> Vec<String> {
    let name = |r: &MemoryRecord| device_name(&device_type_name(r.device_type), r.device);
    by_device(&trace.columns.memory).filter_map(|of| of.first().map(name)).collect()
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

/// The stacks that are asked for.
pub(crate) fn held_stacks(options: &Options) -> Option<HeldStacks> {
    let of_file = options.settings.is_given(&SPEEDSCOPE).then_some(HeldStacks::Peak);
    HeldStacks::named(options.settings.text(&FOLDED)).or(of_file)
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
                MemoryHighest::SPEC,
                MemoryContent::SPEC,
                MemoryOperators::SPEC,
                MemorySteps::SPEC,
                MemoryLeaks::SPEC,
                MemoryEvents::SPEC,
                MemoryCurve::SPEC,
                MemoryAllocations::SPEC,
                MemoryDevices::SPEC,
                MemoryReserved::SPEC,
                MemoryCategories::SPEC,
                MemoryAllocated::SPEC,
                MemorySegments::SPEC,
                MemoryBlocks::SPEC,
                MemoryStacks::SPEC,
            ],
            views: &views::VIEWS,
            kept_tables: &[StackNodes::SPEC, MemorySentences::SPEC],
            settings: &[BY, AT, DEVICE, MIN_BYTES, FOLDED, SPEEDSCOPE, STEPS_BY, UNTIL],
            reads_dumps: true,
            needs: &[Capability::Memory],
            ..About::DEFAULT
        }
    }

    fn map(&self, trace: &RankTrace, options: &Options, give: &mut RowEmitter) -> Partial {
        if let Some(dump) = &trace.columns.dump {
            return snapshot::map(trace.rank, dump, options, give);
        }
        let mut partial = Partial { rank: trace.rank, tables: Vec::new(), reason: None };
        if trace.columns.memory.is_empty() {
            partial.reason = Some(match trace.columns.is_cut {
                true => "no memory stands before the cut of its file",
                false => "no memory recorded (profile_memory=True records it)",
            });
        }
        partial.tables = RankMemory::of(trace, options).tables.clone();
        if let Some(held) = held_stacks(options) {
            partial.tables.push(flame::fold(trace, held, options.settings.text(&DEVICE)));
        }
        if options.wants_per_event(MemoryCurve::SPEC) || options.wants_per_event(MemoryAllocations::SPEC) {
            write_records(trace, options, give);
        }
        partial
    }

    fn reduce(&self, partials: &[Partial], _: &Job, options: &Options) -> Output {
        let title = held_stacks(options).map_or("", HeldStacks::title);
        let is_of_dumps = snapshot::is_of_dumps(partials);
        let (tables, notes) = match is_of_dumps {
            true => snapshot::report::tables(partials, options),
            false => {
                let (highest, notes) = report::highest(partials, options);
                (vec![highest], notes)
            }
        };
        Output {
            tables,
            notes,
            raw: HeldStacks::named(options.settings.text(&FOLDED)).map(|_| folded(partials)),
            files: options
                .settings
                .text(&SPEEDSCOPE)
                .map(|path| speedscope_file(path, title, StackUnit::Bytes, partials))
                .into_iter()
                .collect(),
            ..Output::default()
        }
    }

    fn sentences(&self, partials: &[Partial], _: &Job, _: &Options) -> Vec<String> {
        match snapshot::is_of_dumps(partials) {
            true => snapshot::findings::sentences(partials),
            false => findings::different(partials),
        }
    }
}

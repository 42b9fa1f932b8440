//! What each summary counts of one rank.

use crate::nsys::names::operation;
use crate::nsys::process::thread_of;
use crate::nsys::ranges::{LaunchesByThread, ranges};
use crate::nsys::samples::{Collector, Quantity, SampleText, SummaryKey};
use hashbrown::{HashMap, HashSet};
use hta_trace::activity::Activity;
use hta_trace::args::Arg;
use hta_trace::category::Class;
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::StrId;

pub(crate) const API: &str = "CUDA_API";
pub(crate) const KERNEL: &str = "CUDA_KERNEL";
pub(crate) const MEMORY: &str = "MEMORY_OPER";

fn label(id: StrId) -> SampleText {
    SampleText::Recorded(id)
}

fn runtime_calls(trace: &RankTrace) -> impl Iterator<Item = u32> {
    (0..trace.columns.len() as u32).filter(|r| trace.classes.get(*r as usize) == Some(&Class::Runtime))
}

/// Calls by name.
pub(crate) fn api(trace: &RankTrace, out: &mut Collector) {
    for row in runtime_calls(trace) {
        let key = SummaryKey::of(label(trace.columns.name(row as usize)));
        out.add(key, Quantity::Time, trace.span(row).len());
    }
}

fn kernels_of(trace: &RankTrace) -> impl Iterator<Item = &Activity> {
    trace.activities.iter().filter(|a| a.class == Class::Kernel)
}

/// Kernels by name.
pub(crate) fn kernels(trace: &RankTrace, out: &mut Collector) {
    for a in kernels_of(trace) {
        out.add(SummaryKey::of(label(a.name)), Quantity::Time, a.span.len());
    }
}

/// Kernels by name, grid and block.
pub(crate) fn kernels_by_grid(trace: &RankTrace, out: &mut Collector) {
    let args = &trace.columns.args;
    for a in kernels_of(trace) {
        let shape = |arg| args.text(arg, a.row).map(label);
        let key =
            SummaryKey { grid: shape(Arg::Grid), block: shape(Arg::Block), ..SummaryKey::of(label(a.name)) };
        out.add(key, Quantity::Time, a.span.len());
    }
}

/// Operations of copies and sets by their names.
#[derive(Default)]
struct NamedOperations(HashMap<StrId, &'static str>);

impl NamedOperations {
    fn of(&mut self, trace: &RankTrace, a: &Activity) -> SampleText {
        SampleText::Known(self.0.entry(a.name).or_insert_with(|| operation(trace.text(a.name))))
    }
}

fn memory_operations(trace: &RankTrace, out: &mut Collector, quantity: Quantity) {
    let mut operations = NamedOperations::default();
    for a in trace.activities.iter().filter(|a| a.class != Class::Kernel) {
        let value = match quantity {
            Quantity::Bytes => trace.columns.args.int(Arg::Bytes, a.row),
            _ => Some(a.span.len()),
        };
        if let Some(value) = value {
            out.add(SummaryKey::of(operations.of(trace, a)), quantity, value);
        }
    }
}

/// Time of copies and sets by operation.
pub(crate) fn memory_times(trace: &RankTrace, out: &mut Collector) {
    memory_operations(trace, out, Quantity::Time);
}

/// Bytes of copies and sets by operation; those without a recorded size are left out.
pub(crate) fn memory_sizes(trace: &RankTrace, out: &mut Collector) {
    memory_operations(trace, out, Quantity::Bytes);
}

/// Kernels, copies and sets.
pub(crate) fn gpu(trace: &RankTrace, out: &mut Collector) {
    let mut operations = NamedOperations::default();
    for a in &trace.activities {
        let key = match a.class {
            Class::Kernel => {
                SummaryKey { category: Some(SampleText::Known(KERNEL)), ..SummaryKey::of(label(a.name)) }
            }
            _ => SummaryKey {
                category: Some(SampleText::Known(MEMORY)),
                ..SummaryKey::of(operations.of(trace, a))
            },
        };
        out.add(key, Quantity::Time, a.span.len());
    }
}

/// Calls, kernels, copies and sets.
pub(crate) fn api_and_gpu(trace: &RankTrace, out: &mut Collector) {
    gpu(trace, out);
    for row in runtime_calls(trace) {
        let name = label(trace.columns.name(row as usize));
        let key = SummaryKey { category: Some(SampleText::Known(API)), ..SummaryKey::of(name) };
        out.add(key, Quantity::Time, trace.span(row).len());
    }
}

/// Kernels with the call that launched them.
///
/// ```text
///   host    |call|                    A = call
///   stream          |kernel...|       Q = from the call's end to the kernel's start, if that is later
///           |--------T--------|       T = from the call's start to the end of both
/// ```
pub(crate) fn executions(trace: &RankTrace, out: &mut Collector) {
    for a in kernels_of(trace) {
        let Some(row) = a.launch() else { continue };
        let (process, thread) = thread_of(trace, row);
        let key = SummaryKey {
            process: process.map(label),
            thread: thread.map(label),
            device: a.device(),
            kernel: Some(label(a.name)),
            ..SummaryKey::of(label(trace.columns.name(row as usize)))
        };
        let call = trace.span(row);
        out.add(key, Quantity::Time, call.end.max(a.span.end).saturating_sub(call.start));
        out.add(key, Quantity::Api, call.len());
        out.add(key, Quantity::Kernel, a.span.len());
        if a.span.start > call.end {
            out.add(key, Quantity::Queue, a.span.start - call.end);
        }
    }
}

/// Ranges by text and style.
pub(crate) fn range_times(trace: &RankTrace, out: &mut Collector) {
    for range in ranges(trace) {
        let name = label(trace.columns.name(range.row as usize));
        let key = SummaryKey { style: Some(SampleText::Known(range.style())), ..SummaryKey::of(name) };
        out.add(key, Quantity::Time, range.span.len());
    }
}

/// Ranges projected to the GPU: from the first start to the last end of what was launched inside them.
pub(crate) fn projections(trace: &RankTrace, out: &mut Collector) {
    let launches = LaunchesByThread::new(trace);
    for range in ranges(trace).iter().filter(|r| !r.is_start_end) {
        let Some(projection) = launches.projection(range) else { continue };
        let name = label(trace.columns.name(range.row as usize));
        let key = SummaryKey { style: Some(SampleText::Known(range.style())), ..SummaryKey::of(name) };
        out.add(key, Quantity::Time, projection.span.len());
        out.add(key, Quantity::Range, range.span.len());
        out.add(key, Quantity::Operations, i64::try_from(projection.operations).unwrap_or(i64::MAX));
        out.add(key, Quantity::Level, i64::from(range.level));
        out.add(key, Quantity::Children, i64::from(range.children));
    }
}

/// Kernels by range: a kernel counts in each range around its launch.
pub(crate) fn range_kernels(trace: &RankTrace, out: &mut Collector) {
    let launches = LaunchesByThread::new(trace);
    for range in ranges(trace).iter().filter(|r| !r.is_start_end) {
        let (process, thread) = thread_of(trace, range.row);
        let key = |kernel: StrId| SummaryKey {
            process: process.map(label),
            thread: thread.map(label),
            style: Some(SampleText::Known(range.style())),
            kernel: Some(label(kernel)),
            ..SummaryKey::of(label(trace.columns.name(range.row as usize)))
        };
        let mut seen = HashSet::new();
        for a in launches.inside(range).filter(|a| a.class == Class::Kernel) {
            out.add(key(a.name), Quantity::Time, a.span.len());
            if seen.insert(a.name) {
                out.add(key(a.name), Quantity::Range, range.span.len());
            }
        }
    }
}

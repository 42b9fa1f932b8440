//! Copies and sets of memory: direction and rate, the part that no kernel hides, and which of them block the
//! host.

pub(crate) mod bandwidth;
pub mod copy;
pub(crate) mod rules;

use crate::api::{About, Analysis, Options, Partial, RowEmitter};
use bandwidth::bandwidth;
use copy::{Api, Copy, copies};
use hta_base::table;
use hta_base::table::rollup::Rollup;
use hta_base::table::schema::{Table, Text};
use hta_base::table::view::{Keep, Note, ViewSpec};
use hta_base::units::{Ns, Span};
use hta_facts::windows::ByLaunchStep;
use hta_job::recording::capability::Capability;
use hta_trace::device::DeviceWork;
use hta_trace::interval::Union;
use hta_trace::rank_trace::RankTrace;
use hta_trace::timeline::WorkClass;
use hta_trace::window::{Scope, Window};
use std::collections::{BTreeMap, BTreeSet};

table! {
    /// Copies and sets by direction and kinds of memory; each belongs as a whole to the step of its launch.
    pub(crate) struct MemoryCopies, MemoryCopyRow = "memory_copies"
        by "rank, device, scope, step, direction, source, target" {
        rank; device;
        scope: Text, "", "span: all; step: launched in it; outside: the rest";
        step: Option<u32>, "", "index of the step of the launch";
        step_label; is_partial; ts_ns; dur_ns;
        direction: Text, "", "HtoD, DtoH, DtoD, PtoP, HtoH, set or unknown";
        source: Option<Text>, "",
            "kind of memory read: pageable, pinned, device, managed, host (AMD: not distinguished)";
        target: Option<Text>, "", "kind of memory written";
        count: u64, "", "copies or sets";
        sized_count: u64, "", "of these, those whose size is known";
        size_bytes: Option<u64>, "bytes", "summed size; null if no size is known";
        mean_size_bytes: Option<f64>, "bytes", "of those whose size is known";
        dur_sum_ns: i64, "ns", "summed durations";
        sized_dur_ns: i64, "ns", "summed durations of those whose size is known";
        busy_ns: i64, "ns", "time in which at least one of them runs";
        exposed_ns: i64, "ns", "time in which at least one of them runs and no kernel does";
        bandwidth_gb_per_s: Option<f64>, "GB/s", "size_bytes / sized_dur_ns";
        max_bandwidth_gb_per_s: Option<f64>, "GB/s", "bandwidth of the fastest one";
        async_count: u64, "", "those requested by an asynchronous call";
        blocking_count: u64, "", "those whose call returns no earlier than the copy ends";
        call_ns: i64, "ns", "summed lengths of their calls";
    }
}

table! {
    /// Copies and sets by direction and kinds of memory, over all ranks.
    pub(crate) struct CopyKinds, CopyKindRow = "copies_over_ranks"
        by "scope, dur_sum_ns descending, direction, source, target" {
        scope: Text, "", "span: all; step: launched in one; outside: the rest";
        direction: Text, "", "HtoD, DtoH, DtoD, PtoP, HtoH, set or unknown", "kind";
        source: Option<Text>, "", "kind of memory read, as in memory_copies", "from";
        target: Option<Text>, "", "kind of memory written", "to";
        count: u64, "", "copies or sets" => sum(count);
        size_bytes: Option<u64>, "bytes", "summed size; null if no size is known" => sum(size_bytes);
        dur_sum_ns: i64, "ns", "summed durations", "time" => sum(dur_sum_ns);
        sized_dur_ns: i64, "ns", "summed durations of those whose size is known" => sum(sized_dur_ns);
        exposed_ns: i64, "ns", "time in which at least one of them runs and no kernel does", "alone"
            => sum(exposed_ns);
        bandwidth_gb_per_s: Option<f64>, "GB/s", "size_bytes / sized_dur_ns", "GB/s"
            => ratio(size_bytes, sized_dur_ns);
        max_bandwidth_gb_per_s: Option<f64>, "GB/s", "bandwidth of the fastest one", "max"
            => max(max_bandwidth_gb_per_s);
        blocking_count: u64, "", "those whose call returns no earlier than the copy ends", "blocking"
            => sum(blocking_count);
        rank_count: u32, "", "ranks that have them" => ranks;
    }
}

const KINDS: Rollup = Rollup::of(MemoryCopies::SPEC, CopyKinds::SPEC);

const VIEW: ViewSpec = ViewSpec {
    title: "Copies and sets, all ranks",
    columns: &[
        "direction",
        "source",
        "target",
        "count",
        "size_bytes",
        "dur_sum_ns",
        "exposed_ns",
        "bandwidth_gb_per_s",
        "max_bandwidth_gb_per_s",
        "blocking_count",
    ],
    keep: &[Keep::Scope("span")],
    notes: &[Note::Text(
        "alone: while no kernel runs; blocking: the call returns no earlier than the copy ends",
    )],
    ..ViewSpec::of(CopyKinds::SPEC)
};

table! {
    /// Bandwidth over time by direction. A row is written where a value changes; its values hold until the
    /// next row of the direction.
    pub(crate) struct MemoryBandwidth, MemoryBandwidthRow = "memory_bandwidth"
        by "rank, device, direction, ts_ns" {
        rank; device;
        direction: Text, "", "HtoD, DtoH, DtoD, PtoP, HtoH, set or unknown";
        ts_ns: i64, "ns", "start of the time for which the values hold";
        bandwidth_gb_per_s: Option<f64>, "GB/s",
            "sum over the running copies of size / duration; null while only copies of unknown size run";
        copy_count: u32, "", "running copies";
        unsized_count: u32, "", "of these, those of unknown size";
    }
}

table! {
    /// Copies, sets and calls that cost time because of how they are made: one row per rule and window.
    pub(crate) struct CopyRules, CopyRuleRow = "memory_copy_rules" by "rank, device, scope, step, rule" {
        rank; device; scope; step; step_label; is_partial; ts_ns; dur_ns;
        rule: Text, "", "pageable_copy, synchronous_copy, synchronous_set, synchronize_call or small_copy";
        count: u64, "", "copies, sets or calls that start in the window";
        size_bytes: u64, "bytes", "their size, where known";
        busy_ns: i64, "ns", "time in which at least one of the copies or sets runs";
        call_ns: i64, "ns", "time in which at least one of their calls is open";
        no_kernel_ns: i64, "ns", "time in which one of the copies, sets or calls runs and no kernel does";
    }
}

pub struct MemoryCopiesOf;

impl Analysis for MemoryCopiesOf {
    fn about(&self) -> About {
        About {
            stem: "copies",
            title: "copies and sets of memory: sizes, bandwidth, and which of them block the host",
            explain: include_str!("page.md"),
            tables: &[MemoryCopies::SPEC, CopyKinds::SPEC, MemoryBandwidth::SPEC, CopyRules::SPEC],
            views: &[VIEW],
            rollups: &[KINDS],
            needs: &[Capability::DeviceTime],
            ..About::DEFAULT
        }
    }

    fn map(&self, trace: &RankTrace, options: &Options, give: &mut RowEmitter) -> Partial {
        let (mut table, mut series, mut found) =
            (MemoryCopies::default(), MemoryBandwidth::default(), CopyRules::default());
        let mut any = false;
        let syncs = rules::synchronize_calls(trace);
        for work in trace.devices.iter().filter(|w| w.is_gpu) {
            let all = copies(trace, work);
            any |= !all.is_empty();
            push_copies(&mut table, trace, work, options, &all);
            if options.wants(MemoryBandwidth::SPEC) {
                push_bandwidth(&mut series, trace, work, &all, give);
            }
            rules::push(&mut found, trace, work, options, &all, &syncs);
        }
        let reason = match (trace.is_cpu_only(), any) {
            (true, _) => Some("no GPU activity"),
            (false, false) => Some("no copies or sets"),
            (false, true) => None,
        };
        if options.wants(MemoryBandwidth::SPEC) {
            give(series.finish());
        }
        Partial { rank: trace.rank, tables: vec![table.finish(), found.finish()], reason }
    }
}

/// When a kernel (compute or communication) runs.
fn kernels_run(work: &DeviceWork) -> Union {
    let runs = |s: &&hta_trace::timeline::ClassSegment| {
        s.set.has(WorkClass::Compute) || s.set.has(WorkClass::Communication)
    };
    Union::new(work.timeline.segments().iter().filter(runs).map(|s| s.span))
}

/// Identifies a row of `memory_copies`: direction, source, target.
type CopyKindKey = (&'static str, Option<&'static str>, Option<&'static str>);

fn push_copies(
    table: &mut MemoryCopies,
    trace: &RankTrace,
    work: &DeviceWork,
    options: &Options,
    all: &[Copy],
) {
    let kernels = kernels_run(work);
    let step = |c: &Copy| trace.activities[c.activity as usize].step();
    let launched = ByLaunchStep::new(all.iter().map(|c| (step(c), c)));
    for w in trace.windows(work, &options.model).iter().filter(|w| w.scope != Scope::Capture) {
        let mut groups: BTreeMap<CopyKindKey, Vec<&Copy>> = BTreeMap::new();
        for c in launched.of(w) {
            groups.entry((c.direction, c.source, c.target)).or_default().push(c);
        }
        for (key, members) in groups {
            push_group(table, trace, (work, w), key, &members, &kernels);
        }
    }
}

fn push_group(
    table: &mut MemoryCopies,
    trace: &RankTrace,
    (work, w): (&DeviceWork, &Window),
    key: CopyKindKey,
    of: &[&Copy],
    kernels: &Union,
) {
    let busy = Union::new(of.iter().map(|c| c.span));
    let count = |keep: &dyn Fn(&Copy) -> bool| of.iter().filter(|c| keep(c)).count() as u64;
    let sized: Vec<(u64, Ns)> = of.iter().filter_map(|c| Some((c.bytes?, c.span.len()))).collect();
    let bytes = sized.iter().fold(0u64, |sum, s| sum.saturating_add(s.0));
    let sized_ns: Ns = sized.iter().map(|s| s.1).sum();
    let rate = |bytes: u64, ns: Ns| bytes as f64 / ns as f64;
    // A graph launch may own several copies.
    let calls: BTreeSet<u32> = of.iter().filter_map(|c| c.call).collect();
    table.push(MemoryCopyRow {
        rank: trace.rank,
        device: work.device,
        scope: w.scope.name(),
        step: w.step,
        step_label: w.label,
        is_partial: w.is_partial,
        ts_ns: w.start(),
        dur_ns: w.len(),
        direction: key.0,
        source: key.1,
        target: key.2,
        count: of.len() as u64,
        sized_count: sized.len() as u64,
        size_bytes: (!sized.is_empty()).then_some(bytes),
        mean_size_bytes: (!sized.is_empty()).then(|| bytes as f64 / sized.len() as f64),
        dur_sum_ns: of.iter().map(|c| c.span.len()).sum(),
        sized_dur_ns: sized_ns,
        busy_ns: busy.len(),
        exposed_ns: busy.minus(kernels).len_in(work.capture),
        bandwidth_gb_per_s: (sized_ns > 0).then(|| rate(bytes, sized_ns)),
        max_bandwidth_gb_per_s: sized
            .iter()
            .filter(|s| s.1 > 0)
            .map(|s| rate(s.0, s.1))
            .max_by(f64::total_cmp),
        async_count: count(&|c| c.api == Api::Async),
        blocking_count: count(&|c| c.blocks == Some(true)),
        call_ns: calls.iter().map(|&r| trace.span(r).len()).sum(),
    });
}

fn push_bandwidth(
    table: &mut MemoryBandwidth,
    trace: &RankTrace,
    work: &DeviceWork,
    all: &[Copy],
    give: &mut RowEmitter,
) {
    let directions: BTreeSet<&'static str> = all.iter().map(|c| c.direction).collect();
    for direction in directions {
        for b in bandwidth(all.iter().filter(|c| c.direction == direction)) {
            table.push(MemoryBandwidthRow {
                rank: trace.rank,
                device: work.device,
                direction,
                ts_ns: b.at,
                bandwidth_gb_per_s: b.gb_per_s(),
                copy_count: b.sized + b.unsized_,
                unsized_count: b.unsized_,
            });
            table.give_piece(give);
        }
    }
}

fn spans<'a>(trace: &'a RankTrace, rows: impl Iterator<Item = u32> + 'a) -> impl Iterator<Item = Span> + 'a {
    rows.map(|r| trace.span(r))
}

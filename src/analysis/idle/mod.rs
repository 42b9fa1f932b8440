//! Idle time: every gap of a device and of its streams, and what it waits for.
//!
//! A device's gaps are cut by windows (in `idle_split`); a stream's gaps are not cut.

use crate::api::{About, AcrossOption, Analysis, Options, Partial, RowEmitter};
use hta_base::table;
use hta_base::table::rollup::Rollup;
use hta_base::table::schema::{Table, Text};
use hta_base::table::view::{Fold, Note, ViewSpec};
use hta_base::units::{Ns, Span, percent};
use hta_facts::gaps::{Classifier, Gap, GapCause, IdleSums};
use hta_facts::host_activity::HostNames;
use hta_facts::idle_split::{DeviceIdle, Split, use_name};
use hta_job::recording::capability::Capability;
use hta_trace::device::DeviceWork;
use hta_trace::interval::Union;
use hta_trace::rank_trace::RankTrace;
use hta_trace::window::{Scope, Window};
use rayon::prelude::*;
use std::borrow::Cow;
use std::collections::BTreeMap;

table! {
    /// Idle time of a device (stream null) or stream; host + kernel + other = idle.
    pub struct Idles, IdleRow = "idle" by "rank, device, scope, step, stream" {
        rank; device;
        stream: Option<i64>, "", "stream; null: the whole device";
        scope: Text, "", "span, capture, step or outside; streams have span only";
        step; step_label; is_partial; ts_ns; dur_ns;
        gap_count: u64, "", "gaps, or parts of gaps, in the window";
        idle_ns: i64, "ns", "nothing runs";
        host_wait_ns: i64, "ns", "time in which the next activity had not been submitted";
        kernel_wait_ns: i64, "ns",
            "time in which the next activity was submitted, and started within --kernel-wait-max-us";
        other_ns: i64, "ns",
            "time in which it was submitted but held back for longer, or its launch is unknown";
        unlinked_ns: i64, "ns", "part of other: the next activity has no launch record";
        other_stream_busy_ns: i64, "ns", "part of a stream's other: another stream was busy";
        idle_pct: Option<f64>, "%", "of the window";
    }
}

table! {
    /// What the host did while the device waited for it; rows of a window sum to its host wait.
    pub struct IdleHost, IdleHostRow = "idle_host"
        by "rank, device, scope, step, time_ns descending, activity, name" {
        rank; device; scope; step; step_label; is_partial; ts_ns; dur_ns;
        activity: Text, "", "kind of the innermost open event of the launching thread";
        name: Text, "",
            "its name; Python: the frame with file and line (a built-in: in the frame that called it)";
        time_ns: i64, "ns", "host wait during this activity";
        gap_count: u64, "", "gaps with this activity";
    }
}

table! {
    /// Idle time of each device over the windows that averages are based on: full steps, or else the span.
    pub(crate) struct IdleDevices, IdleDeviceRow = "idle_by_device" by "rank, device" {
        rank; device;
        is_steps: bool, "", "the windows are steps" => are_steps;
        window_count: u64, "", "windows" => rows;
        dur_ns: i64, "ns", "sum of their lengths" => sum(dur_ns);
        idle_ns: i64, "ns", "nothing runs", "idle" => sum(idle_ns);
        idle_pct: Option<f64>, "%", "of the windows", "of window" => percent(idle_ns, dur_ns);
        host_wait_ns: i64, "ns", "time in which the next activity had not been submitted"
            => sum(host_wait_ns);
        kernel_wait_ns: i64, "ns", "time between a submission and its start, as in idle"
            => sum(kernel_wait_ns);
        other_ns: i64, "ns", "the rest of it, as in idle" => sum(other_ns);
        gap_count: u64, "", "gaps, or parts of gaps", "gaps" => sum(gap_count);
    }
}

table! {
    /// What hosts did while devices waited for them, over all ranks and the windows of idle_by_device.
    pub(crate) struct IdleCauses, IdleCauseRow
        = "idle_causes_over_ranks" by "time_ns descending, activity, name" {
        activity: Text, "", "kind of the innermost open event of the launching thread";
        name: Text, "", "its name, as in idle_host";
        time_ns: i64, "ns", "host wait during this activity" => sum(time_ns);
        gap_count: u64, "", "gaps with this activity", "gaps" => sum(gap_count);
        rank_count: u32, "", "ranks that waited so" => ranks;
    }
}

const ROLLUPS: [Rollup; 2] = [
    Rollup::of_windows(Idles::SPEC, IdleDevices::SPEC),
    Rollup::of_windows_of(IdleHost::SPEC, Idles::SPEC, IdleCauses::SPEC),
];

const VIEWS: [ViewSpec; 2] = [
    ViewSpec {
        title: "Why the device idles",
        columns: &[
            "rank",
            "device?",
            "idle_ns",
            "idle_pct",
            "host_wait_ns",
            "kernel_wait_ns",
            "other_ns",
            "gap_count",
        ],
        by: "idle_ns",
        fold: Fold::Worst,
        per: "window_count",
        ..ViewSpec::of(IdleDevices::SPEC)
    },
    ViewSpec {
        title: "What the host did while devices waited for it",
        columns: &["activity", "name", "time_ns"],
        shares: &[("time_ns", "of wait")],
        most: 8,
        notes: &[Note::Text("time: sum over ranks and windows above")],
        ..ViewSpec::of(IdleCauses::SPEC)
    },
];

table! {
    /// Every gap, longest first: of devices over the capture, of streams over their span.
    pub(crate) struct IdleGaps, IdleGapRow = "idle_gaps" by "rank, dur_ns descending, device, stream, ts_ns" {
        rank; device;
        stream: Option<i64>, "", "stream; null: the whole device";
        ts_ns: i64, "ns", "start of the gap";
        dur_ns: i64, "ns", "length of the gap";
        host_wait_ns: i64, "ns", "time in which the next activity had not been submitted";
        kernel_wait_ns: i64, "ns",
            "time in which the next activity was submitted, and started within --kernel-wait-max-us";
        other_ns: i64, "ns",
            "time in which it was submitted but held back for longer, or its launch is unknown";
        unlinked_ns: i64, "ns", "part of other: no launch record";
        other_stream_busy_ns: i64, "ns", "part of other: another stream was busy";
        step: Option<u32>, "", "index of the step in which the gap starts";
        next_event_id: Option<u32>, "", "the activity that ends the gap";
        next_name: Option<Text>, "", "its name";
        launch_event_id: Option<u32>, "", "the call that launched it";
    }
}

pub struct Idle;

impl Analysis for Idle {
    fn about(&self) -> About {
        About {
            stem: "idle",
            title: "why the device idles, and what the host did meanwhile",
            explain: include_str!("page.md"),
            tables: &[Idles::SPEC, IdleDevices::SPEC, IdleHost::SPEC, IdleCauses::SPEC, IdleGaps::SPEC],
            views: &VIEWS,
            rollups: &ROLLUPS,
            is_long: true,
            needs: &[Capability::Idle, Capability::Host],
            takes: &[AcrossOption::KernelWaitMax],
            ..About::DEFAULT
        }
    }

    fn map(&self, trace: &RankTrace, options: &Options, give: &mut RowEmitter) -> Partial {
        let mut tables = IdleTables::default();
        let names = HostNames::of(trace);
        for work in &trace.devices {
            device(trace, work, options, &names, &mut tables);
        }
        let reason = trace.without_devices();
        let partial =
            Partial { rank: trace.rank, tables: vec![tables.idle.finish(), tables.host.finish()], reason };
        tables.gaps.give(trace, give);
        partial
    }
}

#[derive(Default)]
struct IdleTables {
    idle: Idles,
    host: IdleHost,
    gaps: GapRows,
}

/// Gaps of devices and of their streams, by device, stream and start.
#[derive(Default)]
struct GapRows {
    /// Index of the first gap in `all`, device, and stream (`None` for the device's own gaps).
    of: Vec<(usize, Option<i64>, Option<i64>)>,
    all: Vec<GapRow>,
}

/// A compact row of a gap, because all gaps of a rank are in memory until they are sorted by length.
struct GapRow {
    span: Span,
    host_until: Ns,
    /// Time in which other streams are busy in the part that is not the host's, ns.
    busy: Ns,
    /// Index of the activity that ends it; the number of activities if there is none.
    next: u32,
    rest: GapCause,
}

impl GapRows {
    /// Starts the gaps of a device or stream.
    fn next_of(&mut self, device: Option<i64>, stream: Option<i64>) {
        self.of.push((self.all.len(), device, stream));
    }

    fn push(&mut self, gap: Gap, busy: Ns) {
        let Gap { span, host_until, rest, next, thread: _ } = gap;
        self.all.push(GapRow { span, host_until, busy, next: next.unwrap_or(u32::MAX), rest });
    }

    /// Emits the rows, longest first.
    fn give(&self, trace: &RankTrace, give: &mut RowEmitter) {
        let mut table = IdleGaps::default();
        for i in self.longest_first() {
            self.row(&mut table, trace, i as usize);
            table.give_piece(give);
        }
        give(table.finish());
    }

    fn longest_first(&self) -> Vec<u32> {
        let mut order: Vec<(std::cmp::Reverse<Ns>, u32)> =
            self.all.iter().enumerate().map(|(i, g)| (std::cmp::Reverse(g.span.len()), i as u32)).collect();
        order.sort_unstable();
        order.into_iter().map(|(_, i)| i).collect()
    }

    fn row(&self, table: &mut IdleGaps, trace: &RankTrace, at: usize) {
        let (_, device, stream) = self.of[self.of.partition_point(|of| of.0 <= at) - 1];
        let &GapRow { span, host_until, busy, next, rest } = &self.all[at];
        let mut s = IdleSums::default();
        s.add(span, host_until, rest, span);
        let next = trace.activities.get(next as usize);
        table.push(IdleGapRow {
            rank: trace.rank,
            device,
            stream,
            ts_ns: span.start,
            dur_ns: span.len(),
            host_wait_ns: s.host,
            kernel_wait_ns: s.kernel,
            other_ns: s.other,
            unlinked_ns: s.unlinked,
            other_stream_busy_ns: busy,
            step: trace.steps.at(span.start),
            next_event_id: next.map(|a| a.row),
            next_name: next.map(|a| trace.text(a.name)),
            launch_event_id: next.and_then(|a| a.launch()),
        });
    }
}

/// Number of windows that are computed in parallel before they are written.
const AT_ONCE: usize = 16;

fn device(trace: &RankTrace, work: &DeviceWork, options: &Options, names: &HostNames, out: &mut IdleTables) {
    let idle = DeviceIdle::new(trace, work, options.kernel_wait_max, names, &[work.capture]);
    let texts: Vec<Cow<str>> = idle.keys().iter().map(|(_, name)| use_name(*name)).collect();
    for some in trace.windows(work, &options.model).chunks(AT_ONCE) {
        let splits: Vec<Split> = some.par_iter().with_max_len(1).map(|w| idle.split(w.parts())).collect();
        for (w, Split { sums, host }) in some.iter().zip(splits) {
            push_idle(&mut out.idle, trace.rank, work.device, None, w, sums);
            for used in host {
                out.host.push(IdleHostRow {
                    rank: trace.rank,
                    device: work.device,
                    scope: w.scope.name(),
                    step: w.step,
                    step_label: w.label,
                    is_partial: w.is_partial,
                    ts_ns: w.start(),
                    dur_ns: w.len(),
                    activity: idle.key(used.key).0,
                    name: &texts[used.key as usize],
                    time_ns: used.time,
                    gap_count: used.gaps,
                });
            }
        }
    }
    // What the host did is not needed any more.
    drop(texts);
    let DeviceIdle { busy, default_thread, gaps, .. } = idle;
    out.gaps.next_of(work.device, None);
    gaps.into_iter().for_each(|gap| out.gaps.push(gap, 0));
    streams(trace, work, options, &busy, default_thread, out);
}

fn push_idle(
    table: &mut Idles,
    rank: u32,
    device: Option<i64>,
    stream: Option<i64>,
    w: &Window,
    s: IdleSums,
) {
    table.push(IdleRow {
        rank,
        device,
        stream,
        scope: w.scope.name(),
        step: w.step,
        step_label: w.label,
        is_partial: w.is_partial,
        ts_ns: w.start(),
        dur_ns: w.len(),
        gap_count: s.count,
        idle_ns: s.idle,
        host_wait_ns: s.host,
        kernel_wait_ns: s.kernel,
        other_ns: s.other,
        unlinked_ns: s.unlinked,
        other_stream_busy_ns: s.other_stream_busy,
        idle_pct: percent(s.idle, w.len()),
    });
}

/// Gaps of each stream between its first start and last end.
fn streams(
    trace: &RankTrace,
    work: &DeviceWork,
    options: &Options,
    device_busy: &Union,
    default_thread: Option<u32>,
    out: &mut IdleTables,
) {
    let mut by_stream: BTreeMap<i64, Vec<u32>> = BTreeMap::new();
    for &i in &work.activities {
        if let Some(stream) = trace.activities[i as usize].stream() {
            by_stream.entry(stream).or_default().push(i);
        }
    }
    for (stream, activities) in by_stream {
        let spans = || activities.iter().map(|&i| trace.activities[i as usize].span);
        let first = spans().map(|s| s.start).min().unwrap_or(0).max(work.capture.start);
        // A stream may have worked only in the lead of the device.
        let window = Span::new(first, spans().map(|s| s.end).max().unwrap_or(0).max(first));
        let busy = Union::new(spans());
        let classifier = Classifier {
            trace,
            activities: &activities,
            kernel_wait_max: options.kernel_wait_max,
            default_thread,
        };
        let mut sums = IdleSums::default();
        out.gaps.next_of(work.device, Some(stream));
        for span in busy.gaps_in(window) {
            let gap = classifier.classify(span);
            gap.add_to(&mut sums, window);
            let held = match gap.rest {
                GapCause::KernelWait => Span::new(0, 0),
                GapCause::Other | GapCause::Unlinked => Span::new(gap.host_until, span.end),
            };
            // The stream itself is idle in its gap, so what is busy belongs to others.
            let others = device_busy.len_in(held);
            sums.other_stream_busy += others;
            out.gaps.push(gap, others);
        }
        let row = Window::whole(Scope::Span, window);
        push_idle(&mut out.idle, trace.rank, work.device, Some(stream), &row, sums);
    }
}

//! Idle time: every gap of a device and of its streams, and what it waits for.
//!
//! ```text
//!   gap        a..............................b|== next ==|
//!   launch            |----call----|
//!              host wait ..........|  submitted, not started
//!              [a, h)               [h, b)                   h = clamp(end of call, a, b)
//! ```
//!
//! Gaps of a device are classified once, over the whole capture, and then cut by the windows; so the
//! parts of steps and of what lies outside them add up to the capture's.

use super::api::{Align, Analysis, Certainty, Compat, Finding, Mapped, Options, Output, Partial, View};
use super::breakdown::capital;
use super::compat::hta;
use super::host_activity::{HostNames, HostUse};
use super::kernels::clip;
use super::population::{groups, reasons, several_devices};
use crate::model::rank_trace::{DeviceWork, RankTrace};
use crate::model::schema::{Batch, TableSpec, Text};
use crate::model::window::Scope;
use crate::table;
use crate::units::{Ns, Span, fmt_ns, fmt_pct, percent};
use std::collections::BTreeMap;

table! {
    /// Idle time of a device (stream null) or stream; host + kernel + other = idle.
    pub struct Idles, IdleRow = "idle" by "rank, device, scope, step, stream" {
        rank: u32, "", "rank";
        device: Option<i64>, "", "device index; null on a CPU-only rank";
        stream: Option<i64>, "", "stream; null: the whole device";
        scope: Text, "", "span, capture, step or outside; streams have span only";
        step: Option<u32>, "", "index of the step in time";
        step_label: Option<i64>, "", "number in the step's name";
        is_partial: Option<bool>, "", "the step was cut, or did far less than the others";
        ts_ns: i64, "ns", "start of the window";
        dur_ns: i64, "ns", "length of the window";
        gap_count: u64, "", "gaps, or parts of gaps, in the window";
        idle_ns: i64, "ns", "nothing runs";
        host_wait_ns: i64, "ns", "the next activity had not been submitted";
        kernel_wait_ns: i64, "ns", "submitted, and started within --kernel-wait-max-us";
        other_ns: i64, "ns", "submitted, but held longer than that, or launch unknown";
        unlinked_ns: i64, "ns", "part of other: the next activity has no launch record";
        other_stream_busy_ns: i64, "ns", "part of a stream's other: another stream was busy";
        idle_pct: Option<f64>, "%", "of the window";
    }
}

table! {
    /// What the host did while the device waited for it; rows of a window sum to its host wait.
    pub struct IdleHost, IdleHostRow = "idle_host" by "rank, device, scope, step, time_ns descending, activity, name" {
        rank: u32, "", "rank";
        device: Option<i64>, "", "device index; null on a CPU-only rank";
        scope: Text, "", "span, capture, step or outside";
        step: Option<u32>, "", "index of the step in time";
        step_label: Option<i64>, "", "number in the step's name";
        is_partial: Option<bool>, "", "the step was cut, or did far less than the others";
        ts_ns: i64, "ns", "start of the window";
        dur_ns: i64, "ns", "length of the window";
        activity: Text, "", "kind of the innermost open event of the launching thread";
        name: Text, "", "its name; Python: the frame with file and line (a built-in: in the frame that called it)";
        time_ns: i64, "ns", "host wait spent so";
        gap_count: u64, "", "gaps in which it happened";
    }
}

table! {
    /// Every gap, longest first: of devices over the capture, of streams over their span.
    pub struct IdleGaps, IdleGapRow = "idle_gaps" by "rank, dur_ns descending, device, stream, ts_ns" {
        rank: u32, "", "rank";
        device: Option<i64>, "", "device index; null on a CPU-only rank";
        stream: Option<i64>, "", "stream; null: the whole device";
        ts_ns: i64, "ns", "start of the gap";
        dur_ns: i64, "ns", "length of the gap";
        host_wait_ns: i64, "ns", "the next activity had not been submitted";
        kernel_wait_ns: i64, "ns", "submitted and started soon";
        other_ns: i64, "ns", "submitted but held, or launch unknown";
        unlinked_ns: i64, "ns", "part of other: no launch record";
        other_stream_busy_ns: i64, "ns", "part of other: another stream was busy";
        step: Option<u32>, "", "index of the step that holds the gap's start";
        next_event_id: Option<u32>, "", "the activity that ends the gap";
        next_name: Option<Text>, "", "its name";
        launch_event_id: Option<u32>, "", "the call that launched it";
    }
}

pub struct Idle;

impl Analysis for Idle {
    fn stem(&self) -> &'static str {
        "idle"
    }

    fn title(&self) -> &'static str {
        "why the device idles, and what the host did meanwhile"
    }

    fn explain(&self) -> &'static str {
        include_str!("explain/idle.md")
    }

    fn tables(&self) -> &'static [&'static TableSpec] {
        &[Idles::SPEC, IdleHost::SPEC, IdleGaps::SPEC]
    }

    fn compat_tables(&self, compat: Compat) -> &'static [&'static TableSpec] {
        match compat {
            Compat::Hta => &[hta::IdleTimes::SPEC],
            Compat::TraceLens => &[],
        }
    }

    fn map(&self, trace: &RankTrace, options: &Options) -> Mapped {
        match options.compat {
            Some(Compat::Hta) => return hta::idle(trace),
            Some(Compat::TraceLens) => return Mapped::default(),
            None => {}
        }
        let mut tables = Tables::default();
        let names = HostNames::new(trace);
        for work in &trace.devices {
            device(trace, work, options, &names, &mut tables);
        }
        let reason = trace.devices.is_empty().then_some("no GPU activity and no operators");
        Mapped {
            rows: vec![tables.all_gaps(trace)],
            partial: Partial { rank: trace.rank, tables: vec![tables.idle.finish(), tables.host.finish()], reason },
        }
    }

    fn reduce(&self, partials: &[Partial], options: &Options) -> Output {
        if let Some(compat) = options.compat {
            return super::compat::concatenated(partials, self.compat_tables(compat));
        }
        reduce(partials, options)
    }
}

/// A gap with what it waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Gap {
    span: Span,
    /// End of the host's part: the host had not finished submitting before.
    host_until: Ns,
    rest: Rest,
    /// Index of the activity that ends it.
    next: Option<u32>,
    /// Lane of the thread to blame for the host's part.
    thread: Option<u32>,
}

/// What the part behind the host's is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    KernelWait,
    Other,
    Unlinked,
}

#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    count: u64,
    idle: Ns,
    host: Ns,
    kernel: Ns,
    other: Ns,
    unlinked: Ns,
    other_stream_busy: Ns,
}

impl Gap {
    /// Adds the part inside `window`.
    fn add_to(&self, sums: &mut Sums, window: Span) {
        let part = self.span.intersect(window);
        if part.is_empty() {
            return;
        }
        let rest = Span::new(self.host_until, self.span.end).intersect(window).len();
        sums.count += 1;
        sums.idle += part.len();
        sums.host += part.len() - rest;
        match self.rest {
            Rest::KernelWait => sums.kernel += rest,
            Rest::Other => sums.other += rest,
            Rest::Unlinked => {
                sums.other += rest;
                sums.unlinked += rest;
            }
        }
    }
}

#[derive(Default)]
struct Tables {
    idle: Idles,
    host: IdleHost,
    gaps: Vec<(Option<i64>, Option<i64>, Gap, Ns)>,
}

impl Tables {
    fn all_gaps(&mut self, trace: &RankTrace) -> Batch {
        let mut table = IdleGaps::default();
        self.gaps
            .sort_by_key(|(device, stream, g, _)| (std::cmp::Reverse(g.span.len()), *device, *stream, g.span.start));
        for (device, stream, gap, busy) in &self.gaps {
            let mut s = Sums::default();
            gap.add_to(&mut s, gap.span);
            let next = gap.next.map(|i| &trace.activities[i as usize]);
            table.push(IdleGapRow {
                rank: trace.rank,
                device: *device,
                stream: *stream,
                ts_ns: gap.span.start,
                dur_ns: gap.span.len(),
                host_wait_ns: s.host,
                kernel_wait_ns: s.kernel,
                other_ns: s.other,
                unlinked_ns: s.unlinked,
                other_stream_busy_ns: *busy,
                step: trace.steps.at(gap.span.start),
                next_event_id: next.map(|a| a.row),
                next_name: next.map(|a| trace.text(a.name)),
                launch_event_id: next.and_then(|a| a.launch),
            });
        }
        table.finish()
    }
}

/// Finds what a gap waited for. `activities` are those that can end it, in order of start.
struct Classifier<'a> {
    trace: &'a RankTrace,
    activities: &'a [u32],
    kernel_wait_max: Ns,
    /// Thread to blame when no activity follows.
    default_thread: Option<u32>,
}

impl Classifier<'_> {
    fn classify(&self, span: Span) -> Gap {
        let t = self.trace;
        let start = |i: &u32| t.activities[*i as usize].span.start;
        let from = self.activities.partition_point(|i| start(i) < span.end);
        let tied = self.activities.get(from).map(start);
        // ties: the earliest launch, then the event
        let launched = |i: &u32| t.activities[*i as usize].launch.map_or(Ns::MAX, |l| t.columns.ts[l as usize]);
        let next = self.activities[from..]
            .iter()
            .take_while(|i| Some(start(i)) == tied)
            .min_by_key(|i| (launched(i), t.activities[**i as usize].row))
            .copied();
        let gap = |host_until, rest, thread| Gap { span, host_until, rest, next, thread };
        let Some(i) = next else { return gap(span.end, Rest::Other, self.default_thread) };
        let Some(launch) = t.activities[i as usize].launch else { return gap(span.start, Rest::Unlinked, None) };
        let host_until = t.span(launch).end.clamp(span.start, span.end);
        let soon = span.end - host_until < self.kernel_wait_max;
        let rest = if soon { Rest::KernelWait } else { Rest::Other };
        gap(host_until, rest, Some(t.columns.lane[launch as usize]))
    }
}

fn device(trace: &RankTrace, work: &DeviceWork, options: &Options, names: &HostNames, out: &mut Tables) {
    let default_thread = if work.is_gpu { busiest_launcher(trace, work) } else { trace.main_thread() };
    let classifier =
        Classifier { trace, activities: &work.activities, kernel_wait_max: options.kernel_wait_max, default_thread };
    let busy = work.timeline.busy();
    let gaps: Vec<Gap> = busy.gaps_in(trace.capture).into_iter().map(|g| classifier.classify(g)).collect();
    let uses: Vec<Vec<HostUse>> =
        gaps.iter().map(|g| names.uses(trace, g.thread, Span::new(g.span.start, g.host_until))).collect();
    for w in trace.windows(work, &options.model) {
        let mut sums = Sums::default();
        let mut host: BTreeMap<(&'static str, (&str, &str)), (Ns, u64)> = BTreeMap::new();
        for part in &w.parts {
            let first = gaps.partition_point(|g| g.span.end <= part.start);
            for (gap, used) in gaps.iter().zip(&uses).skip(first).take_while(|(g, _)| g.span.start < part.end) {
                gap.add_to(&mut sums, *part);
                let mut here: BTreeMap<(&'static str, (&str, &str)), Ns> = BTreeMap::new();
                for u in used {
                    let time = u.span.intersect(*part).len();
                    if time > 0 {
                        *here.entry((u.activity, names.texts(trace, u))).or_default() += time;
                    }
                }
                for (key, time) in here {
                    let total = host.entry(key).or_default();
                    total.0 += time;
                    total.1 += 1;
                }
            }
        }
        let step = w.step.and_then(|i| trace.steps.steps.get(i as usize));
        let is_partial = step.map(|s| s.is_partial);
        let row = (w.scope, w.step, w.label, is_partial, w.start(), w.len());
        push_idle(&mut out.idle, trace.rank, work.device, None, row, sums);
        let mut host: Vec<_> = host.into_iter().collect();
        host.sort_by_key(|((activity, name), (time, _))| (std::cmp::Reverse(*time), *activity, *name));
        for ((activity, (event, caller)), (time, gap_count)) in host {
            let name = if caller.is_empty() { event.to_string() } else { format!("{event} in {caller}") };
            out.host.push(IdleHostRow {
                rank: trace.rank,
                device: work.device,
                scope: w.scope.name(),
                step: w.step,
                step_label: w.label,
                is_partial,
                ts_ns: w.start(),
                dur_ns: w.len(),
                activity,
                name: &name,
                time_ns: time,
                gap_count,
            });
        }
    }
    out.gaps.extend(gaps.iter().map(|g| (work.device, None, *g, 0)));
    streams(trace, work, options, &busy, default_thread, out);
}

type Row = (Scope, Option<u32>, Option<i64>, Option<bool>, Ns, Ns);

fn push_idle(table: &mut Idles, rank: u32, device: Option<i64>, stream: Option<i64>, row: Row, s: Sums) {
    let (scope, step, step_label, is_partial, ts_ns, dur_ns) = row;
    table.push(IdleRow {
        rank,
        device,
        stream,
        scope: scope.name(),
        step,
        step_label,
        is_partial,
        ts_ns,
        dur_ns,
        gap_count: s.count,
        idle_ns: s.idle,
        host_wait_ns: s.host,
        kernel_wait_ns: s.kernel,
        other_ns: s.other,
        unlinked_ns: s.unlinked,
        other_stream_busy_ns: s.other_stream_busy,
        idle_pct: percent(s.idle, dur_ns),
    });
}

/// Gaps of each stream between its first start and last end.
fn streams(
    trace: &RankTrace,
    work: &DeviceWork,
    options: &Options,
    device_busy: &crate::model::interval::Union,
    default_thread: Option<u32>,
    out: &mut Tables,
) {
    let mut by_stream: BTreeMap<i64, Vec<u32>> = BTreeMap::new();
    for &i in &work.activities {
        if let Some(stream) = trace.activities[i as usize].stream {
            by_stream.entry(stream).or_default().push(i);
        }
    }
    for (stream, activities) in by_stream {
        let spans = || activities.iter().map(|&i| trace.activities[i as usize].span);
        let window = Span::new(spans().map(|s| s.start).min().unwrap_or(0), spans().map(|s| s.end).max().unwrap_or(0));
        let busy = crate::model::interval::Union::new(spans());
        let classifier =
            Classifier { trace, activities: &activities, kernel_wait_max: options.kernel_wait_max, default_thread };
        let mut sums = Sums::default();
        for span in busy.gaps_in(window) {
            let gap = classifier.classify(span);
            gap.add_to(&mut sums, window);
            let held = match gap.rest {
                Rest::KernelWait => Span::new(0, 0),
                Rest::Other | Rest::Unlinked => Span::new(gap.host_until, span.end),
            };
            // this stream is idle in its gap: whatever is busy is another one
            let others = device_busy.len_in(held);
            sums.other_stream_busy += others;
            out.gaps.push((work.device, Some(stream), gap, others));
        }
        let row = (Scope::Span, None, None, None, window.start, window.len());
        push_idle(&mut out.idle, trace.rank, work.device, Some(stream), row, sums);
    }
}

/// The thread that launches most of a device's activities (ties: the first).
fn busiest_launcher(trace: &RankTrace, work: &DeviceWork) -> Option<u32> {
    let mut launches: BTreeMap<u32, u64> = BTreeMap::new();
    for &i in &work.activities {
        if let Some(l) = trace.activities[i as usize].launch {
            *launches.entry(trace.columns.lane[l as usize]).or_default() += 1;
        }
    }
    launches.iter().max_by_key(|(lane, n)| (**n, std::cmp::Reverse(**lane))).map(|(l, _)| *l)
}

fn reduce(partials: &[Partial], options: &Options) -> Output {
    let groups = groups(partials, Idles::SPEC);
    let several = several_devices(&groups);
    let mut view = View {
        title: "Why the device idles".to_string(),
        columns: vec![
            ("rank", Align::Left),
            ("idle", Align::Right),
            ("of window", Align::Right),
            ("host wait", Align::Right),
            ("kernel wait", Align::Right),
            ("other", Align::Right),
            ("gaps", Align::Right),
        ],
        rows: Vec::new(),
        notes: reasons(partials),
    };
    let mut order: Vec<usize> = (0..groups.len()).collect();
    if groups.len() > options.top {
        order.sort_by_key(|&i| (std::cmp::Reverse(groups[i].mean("idle_ns")), groups[i].rank));
        view.notes.push(format!("{} more ranks, with less idle time, are in the table", groups.len() - options.top));
    }
    for &i in order.iter().take(options.top) {
        let g = &groups[i];
        view.rows.push(vec![
            g.who(several).replacen("rank ", "", 1),
            fmt_ns(g.mean("idle_ns")),
            fmt_pct(g.percent("idle_ns")),
            fmt_ns(g.mean("host_wait_ns")),
            fmt_ns(g.mean("kernel_wait_ns")),
            fmt_ns(g.mean("other_ns")),
            (g.sum("gap_count") / g.rows.len().max(1) as i64).to_string(),
        ]);
    }
    let causes = causes(partials, &groups);
    let waited: Ns = causes.iter().map(|c| c.time).sum();
    let cause_view = View {
        title: "What the host did while devices waited for it".to_string(),
        columns: vec![
            ("activity", Align::Left),
            ("name", Align::Left),
            ("time", Align::Right),
            ("of wait", Align::Right),
        ],
        rows: causes
            .iter()
            .take(options.top.min(8))
            .map(|c| {
                let name = if c.name.is_empty() { "-".to_string() } else { c.name.clone() };
                vec![c.activity.clone(), name, fmt_ns(c.time), fmt_pct(percent(c.time, waited))]
            })
            .collect(),
        notes: vec!["time: sum over ranks and windows above".to_string()],
    };
    let mut findings = Vec::new();
    if let Some(worst) = groups.iter().max_by_key(|g| (g.mean("idle_ns"), std::cmp::Reverse(g.rank))) {
        findings.extend(finding(worst, partials, several));
    }
    let tables = [Idles::SPEC, IdleHost::SPEC]
        .iter()
        .flat_map(|spec| partials.iter().filter_map(|p| p.table(spec).cloned()))
        .collect();
    let views = [view, cause_view].into_iter().filter(|v| !v.rows.is_empty() || v.title.starts_with("Why")).collect();
    Output { tables, findings, views }
}

struct Cause {
    activity: String,
    name: String,
    time: Ns,
}

/// Host activities during host wait, over the windows that averages stand on.
fn causes(partials: &[Partial], groups: &[super::population::Group]) -> Vec<Cause> {
    let mut sums: BTreeMap<(String, String), Ns> = BTreeMap::new();
    for g in groups {
        let Some(host) = partials.iter().find(|p| p.rank == g.rank).and_then(|p| p.table(IdleHost::SPEC)) else {
            continue;
        };
        let windows: Vec<(Option<&str>, Option<i64>)> =
            g.rows.iter().map(|&r| (g.batch.text("scope", r), g.batch.int("step", r))).collect();
        for row in 0..host.len() {
            let window = (host.text("scope", row), host.int("step", row));
            if host.int("device", row) == g.device && windows.contains(&window) {
                let key = |c: &str| host.text(c, row).unwrap_or_default().to_string();
                *sums.entry((key("activity"), key("name"))).or_default() += host.int("time_ns", row).unwrap_or(0);
            }
        }
    }
    let mut all: Vec<Cause> = sums.into_iter().map(|((activity, name), time)| Cause { activity, name, time }).collect();
    all.sort_by_key(|c| std::cmp::Reverse(c.time));
    all
}

fn finding(g: &super::population::Group, partials: &[Partial], several: bool) -> Option<Finding> {
    let idle = g.mean("idle_ns");
    let share = g.percent("idle_ns");
    if idle == 0 || share.is_none_or(|s| s < 2.0) {
        return None;
    }
    let own: Vec<Partial> = partials.iter().filter(|p| p.rank == g.rank).cloned().collect();
    let one = [super::population::Group { batch: g.batch, rows: g.rows.clone(), ..*g }];
    let causes = causes(&own, &one);
    let host = g.mean("host_wait_ns");
    let mut sentence = format!(
        "{} idles {} {} ({} of {})",
        capital(&g.who(several)),
        fmt_ns(idle),
        g.per(),
        fmt_pct(share),
        fmt_ns(g.mean("dur_ns"))
    );
    let mut certainty = Certainty::Measured;
    match causes.first() {
        Some(c) if host * 2 >= idle => {
            let time = c.time / g.rows.len().max(1) as i64;
            certainty = Certainty::Inferred;
            sentence.push_str(&format!(
                ": {} of that is waiting for the host, which spends {} in {}{}",
                fmt_pct(percent(host, idle)),
                fmt_ns(time),
                c.activity.replace('_', " "),
                if c.name.is_empty() { String::new() } else { format!(" `{}`", clip(&c.name, 60)) },
            ));
        }
        _ if g.mean("other_ns") * 2 >= idle => {
            sentence.push_str(": work was submitted but held, or its launch is unknown")
        }
        _ => sentence.push_str(", mostly between a launch and its start"),
    }
    let step = g.worst_step("idle_ns");
    if let Some((step, ns)) = &step {
        sentence.push_str(&format!("; worst in step {step}: {}", fmt_ns(*ns)));
    }
    Some(Finding {
        analysis: "idle",
        ranks: vec![g.rank],
        steps: step.into_iter().map(|s| s.0).collect(),
        cost_ns_per_step: idle,
        share_of_step: share.map(|s| s / 100.0),
        certainty,
        sentence,
        table: Idles::SPEC.name,
    })
}

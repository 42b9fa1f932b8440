//! The work of each device, and when it was recorded.

use crate::activity::Activity;
use crate::category::{Class, is_counter_range};
use crate::events::Columns;
use crate::interval::Union;
use crate::launch::is_launch_call;
use crate::no_step::is_backend_range;
use crate::stream_capture::StreamCaptures;
use crate::timeline::{Timeline, WorkClass};
use crate::title::is_collective_operator;
use hta_base::units::Span;
use std::collections::BTreeMap;

/// The activities of one device, or the host work of a CPU-only rank.
pub struct DeviceWork {
    /// `None` on a CPU-only rank, and if the back end records no device.
    pub device: Option<i64>,
    /// True for a device, false for the host work of a CPU-only rank.
    pub is_gpu: bool,
    /// Indices into `RankTrace::activities`, in order of start.
    pub activities: Vec<u32>,
    pub timeline: Timeline,
    /// First start to last end, including activities of length 0; inside `capture`.
    pub(crate) span: Option<Span>,
    /// First to last recorded event, without the device's lead and lost tail: contains all of its windows.
    pub capture: Span,
}

/// First to last recorded event, without the profiler's own rows.
pub(crate) fn capture(c: &Columns, classes: &[Class], all: &[Activity]) -> Span {
    let mut gpu = vec![false; if all.is_empty() { 0 } else { c.len() }];
    for a in all {
        gpu[a.row as usize] = true;
    }
    let mut span: Option<Span> = None;
    for (row, class) in classes.iter().enumerate() {
        // Activities with impossible times do not extend the capture.
        if class.is_profilers_own() || (class.is_gpu() && gpu.get(row) != Some(&true)) {
            continue;
        }
        let event = c.span(row);
        span = Some(span.map_or(event, |so_far| so_far.hull(event)));
    }
    if let Some((start, end)) = c.unloaded {
        let unloaded = Span::new(start, end);
        span = Some(span.map_or(unloaded, |so_far| so_far.hull(unloaded)));
    }
    span.unwrap_or(Span::new(0, 0))
}

pub(crate) fn device_work(all: &[Activity], recorded: Span) -> Vec<DeviceWork> {
    let mut by_device: BTreeMap<Option<i64>, Vec<u32>> = BTreeMap::new();
    for (i, a) in all.iter().enumerate() {
        by_device.entry(a.device()).or_default().push(i as u32);
    }
    let build = |(device, activities): (Option<i64>, Vec<u32>)| {
        let of = || activities.iter().map(|&i| &all[i as usize]);
        let start = of().map(|a| a.span.start).min();
        let end = of().map(|a| a.span.end).max();
        DeviceWork {
            device,
            is_gpu: true,
            timeline: Timeline::new(of().map(|a| (a.span, a.work))),
            span: start.zip(end).map(|(s, e)| Span::new(s, e)),
            capture: recorded,
            activities,
        }
    };
    by_device.into_iter().map(build).collect()
}

/// Whether a call submits work to a device instead of recording it into a graph. Not so where the profiler
/// reads counters: then it records ranges with counters in place of activities.
pub(crate) fn launches_work(c: &Columns, classes: &[Class], captures: &StreamCaptures) -> bool {
    if c.categories.iter().any(|k| is_counter_range(c.strings.get(k.text).as_bytes())) {
        return false;
    }
    let is_launch = c.strings.each(is_launch_call);
    let mut calls = (0u32..).zip(classes).filter(|(_, class)| **class == Class::Runtime).map(|(row, _)| row);
    calls.any(|row| is_launch.holds(c.name(row as usize)) && !captures.hold(c, row))
}

/// Rows of the host that are the work of a CPU-only rank: operators and communication ranges. Calls of a
/// device's runtime are no work: there they wait or ask for memory.
pub(crate) fn host_work_rows<'a>(
    c: &'a Columns,
    classes: &'a [Class],
) -> impl Iterator<Item = (u32, WorkClass)> + 'a {
    let as_class = |class| c.strings.each(move |t| is_host_communication(class, t));
    let (as_op, as_other) = (as_class(Class::HostOp), as_class(Class::Annotation));
    (0u32..).zip(classes).filter_map(move |(row, class)| {
        let name = c.name(row as usize);
        match class {
            Class::HostOp if as_op.holds(name) => Some((row, WorkClass::Communication)),
            Class::HostOp => Some((row, WorkClass::Compute)),
            Class::Annotation if as_other.holds(name) => Some((row, WorkClass::Communication)),
            Class::Collective | Class::Title => Some((row, WorkClass::Communication)),
            _ => None,
        }
    })
}

/// The host work of a CPU-only rank, without the calls of a device's runtime inside operators.
pub(crate) fn host_work(c: &Columns, classes: &[Class], recorded: Span) -> Option<DeviceWork> {
    let mut calls: BTreeMap<u32, Vec<Span>> = BTreeMap::new();
    for row in (0..c.len()).filter(|&row| classes[row] == Class::Runtime) {
        calls.entry(c.lane[row]).or_default().push(c.span(row));
    }
    let calls: BTreeMap<u32, Union> =
        calls.into_iter().map(|(lane, spans)| (lane, Union::new(spans))).collect();
    let work = host_work_rows(c, classes).flat_map(|(row, class)| {
        let span = c.span(row as usize);
        let calls = calls.get(&c.lane[row as usize]).filter(|_| class == WorkClass::Compute);
        calls
            .map_or_else(|| vec![span], |calls| calls.gaps_in(span))
            .into_iter()
            .map(move |span| (span, class))
    });
    let timeline = Timeline::new(work);
    let first = timeline.segments().first()?.span.start;
    let last = timeline.segments().last()?.span.end;
    Some(DeviceWork {
        device: None,
        is_gpu: false,
        activities: Vec::new(),
        timeline,
        span: Some(Span::new(first, last)),
        capture: recorded,
    })
}

/// Whether an event is host communication of a CPU job, by its class and name.
pub fn is_host_communication(class: Class, name: &str) -> bool {
    class == Class::Title || is_backend_range(name) || is_collective_operator(class, name)
}

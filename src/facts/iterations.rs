//! Iterations of an inference engine: what each says of itself, and its work on a device. Times in ns.
//!
//! ```text
//!   host      [iteration k          )post work.....[iteration k + 1
//!   calls       l  g[graph launch)     p             l
//!   device         [l)   .........[g====g====)..[p)......[l)
//!   window         [                         )           [
//!   idle               before  in the call    gap        gap is post work and idle time
//! ```

use hta_base::units::{Ns, Span};
use hta_trace::category::Class;
use hta_trace::device::DeviceWork;
use hta_trace::iteration::{Engine, Iteration};
use hta_trace::launch::is_graph_launch;
use hta_trace::rank_trace::RankTrace;
use hta_trace::step::{Step, StepRule, mask};
use hta_trace::strings::StrId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// An iteration on the host.
pub struct HostIteration {
    /// Index of the step.
    pub step: u32,
    /// What it launched is not recorded.
    pub is_lost: bool,
    pub about: Iteration,
    pub host: Span,
    /// The range inside it that runs the model, where the engine marks it.
    pub forward: Option<Span>,
}

/// All iterations of a rank; empty if its steps are none.
pub struct Iterations {
    pub all: Vec<HostIteration>,
    /// The thread whose ranges they are.
    pub thread: Option<u32>,
    /// Names of their ranges, and of ranges inside them that are named as iterations.
    pub names: BTreeSet<StrId>,
}

impl Iterations {
    /// The shared instance of a rank.
    pub fn of(trace: &RankTrace) -> Arc<Self> {
        trace.shared(Self::new)
    }

    fn new(trace: &RankTrace) -> Self {
        if !trace.steps.are_iterations() {
            return Self { all: Vec::new(), thread: None, names: BTreeSet::new() };
        }
        let thread = trace.main_thread();
        let inner = InnerRanges::new(trace, thread);
        let make = |step: &Step| {
            let mut about = match trace.steps.rule {
                StepRule::Iteration => Iteration::parse(trace.text(step.name))?,
                _ => inner.unnamed(trace, step),
            };
            let mut forward = None;
            for (span, inside) in inner.within(step.host, step.name) {
                if let Some(inside) = inside {
                    about.complete(inside);
                }
                forward = forward.or(Some(span));
            }
            Some(HostIteration { step: step.index, is_lost: step.is_lost, about, host: step.host, forward })
        };
        let named = inner.names.iter().filter(|(_, read)| read.is_some()).map(|(name, _)| *name);
        let names = named.chain(trace.steps.steps.iter().map(|s| s.name)).collect();
        Self { all: trace.steps.steps.iter().filter_map(make).collect(), thread, names }
    }
}

/// Ranges of a thread that are named as iterations, or as the part of one that runs the model, in order of
/// start.
struct InnerRanges {
    ranges: Vec<(Span, StrId)>,
    /// Those of them that are requests for images, whose iterations no engine names.
    images: Vec<(Span, StrId)>,
    names: BTreeMap<StrId, Option<Iteration>>,
}

impl InnerRanges {
    fn new(trace: &RankTrace, thread: Option<u32>) -> Self {
        let c = &trace.columns;
        let mut names: BTreeMap<StrId, Option<Option<Iteration>>> = BTreeMap::new();
        let mut ranges = Vec::new();
        let rows =
            trace.host_rows().iter().filter(|(lane, _)| Some(*lane) == thread).flat_map(|(_, rows)| rows);
        for &row in rows.filter(|r| trace.classes.get(**r as usize) == Some(&Class::Annotation)) {
            let name = c.name(row as usize);
            let read = |text: &str| match Iteration::parse(text) {
                None if text == "gpu_model_runner: forward" => Some(None),
                read => read.map(Some),
            };
            if names.entry(name).or_insert_with(|| read(trace.text(name))).is_some() {
                ranges.push((trace.span(row), name));
            }
        }
        ranges.sort_by_key(|(span, _)| (span.start, std::cmp::Reverse(span.end)));
        let names: BTreeMap<StrId, Option<Iteration>> =
            names.into_iter().filter_map(|(id, read)| Some((id, read?))).collect();
        let is_image = |(_, name): &&(Span, StrId)| {
            names
                .get(name)
                .and_then(Option::as_ref)
                .is_some_and(|read| read.engine == Some(Engine::Diffusion))
        };
        let images = ranges.iter().filter(is_image).copied().collect();
        Self { ranges, images, names }
    }

    /// What is known of an iteration that no engine named: its own words, and the image request around it.
    fn unnamed(&self, trace: &RankTrace, step: &Step) -> Iteration {
        let mut about = Iteration::new(None, None);
        about.mode = Some(mask(trace.text(step.name))).filter(|words| !words.is_empty());
        let before = self.images.partition_point(|(span, _)| span.start <= step.host.start);
        let around = before.checked_sub(1).and_then(|i| self.images.get(i));
        if let Some((_, name)) = around.filter(|(span, _)| step.host.end <= span.end)
            && let Some(Some(request)) = self.names.get(name)
        {
            about.complete(request);
        }
        about
    }

    /// The ranges inside an iteration, without its own.
    fn within(&self, host: Span, own: StrId) -> impl Iterator<Item = (Span, Option<&Iteration>)> {
        let first = self.ranges.partition_point(|(span, _)| span.start < host.start);
        let inside = self.ranges.iter().skip(first).take_while(move |(span, _)| span.start < host.end);
        inside
            .filter(move |(span, name)| !(*span == host && *name == own))
            .map(|(span, name)| (*span, self.names.get(name).and_then(Option::as_ref)))
    }
}

/// The work of an iteration on one device.
pub struct DeviceIteration {
    /// Index into [`Iterations::all`].
    pub index: usize,
    /// From the first start of what it launched, or the end of the previous window, to the last end; not in
    /// the lead.
    pub window: Span,
    /// Indices of the activities that it launched, in order of start.
    pub own: Vec<u32>,
    /// Of the activities launched after it and before the next one.
    pub post: Vec<u32>,
    /// Rows of its calls that launch graphs, in order of start.
    pub graph_calls: Vec<u32>,
}

impl DeviceIteration {
    /// Start of the first call that launches a graph.
    pub fn first_graph_call(&self, trace: &RankTrace) -> Option<Ns> {
        self.graph_calls.first().map(|row| trace.span(*row).start)
    }
}

/// The iterations on one device, in order. What was launched before the first belongs to none.
pub fn on_device(trace: &RankTrace, work: &DeviceWork, iterations: &Iterations) -> Vec<DeviceIteration> {
    let all = &iterations.all;
    let empty = Span::new(0, 0);
    let new = |index| DeviceIteration {
        index,
        window: empty,
        own: Vec::new(),
        post: Vec::new(),
        graph_calls: Vec::new(),
    };
    let mut out: Vec<DeviceIteration> = (0..all.len()).map(new).collect();
    let by_step: BTreeMap<u32, usize> = all.iter().enumerate().map(|(i, it)| (it.step, i)).collect();
    let own_process = process_of(trace, iterations.thread);
    for &i in &work.activities {
        let Some(a) = trace.activities.get(i as usize) else { continue };
        match (a.step(), a.launch()) {
            (Some(step), _) => {
                if let Some(of) = by_step.get(&step).and_then(|k| out.get_mut(*k)) {
                    of.own.push(i);
                }
            }
            (None, Some(call)) if process_of(trace, lane_of(trace, call)) == own_process => {
                let called = trace.span(call).start;
                let before = all.partition_point(|it| it.host.end <= called).checked_sub(1);
                if let Some(of) = before.and_then(|k| out.get_mut(k)) {
                    of.post.push(i);
                }
            }
            (None, _) => {}
        }
    }
    let mut previous_end = work.capture.start;
    for (of, it) in out.iter_mut().zip(all) {
        let spans = || of.own.iter().filter_map(|&i| trace.activities.get(i as usize)).map(|a| a.span);
        let first = spans().map(|s| s.start).min().unwrap_or(it.host.start);
        // What is launched in the lost tail has no window.
        let start = first.max(previous_end).min(work.capture.end);
        let end = spans().map(|s| s.end).max().unwrap_or(start).max(start);
        of.window = Span::new(start, end);
        previous_end = end;
        let calls = of.own.iter().filter_map(|&i| trace.activities.get(i as usize)?.launch());
        let mut calls: Vec<u32> = calls.filter(|row| is_graph_launch(trace.name(*row))).collect();
        calls.sort_unstable_by_key(|row| (trace.span(*row).start, *row));
        calls.dedup();
        of.graph_calls = calls;
    }
    out
}

fn lane_of(trace: &RankTrace, row: u32) -> Option<u32> {
    trace.columns.lane.get(row as usize).copied()
}

fn process_of(trace: &RankTrace, lane: Option<u32>) -> Option<StrId> {
    trace.columns.lanes.get(lane? as usize).map(|l| l.pid)
}

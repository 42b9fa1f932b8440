//! Steps: the ranges of a rank's time that are training (or serving) steps, and their windows. `inferred_steps` finds
//! those that no range names.

use crate::health::{Counter, Health};
use crate::trace::activity::Activity;
use crate::trace::args::Arg;
use crate::trace::category::Class;
use crate::trace::events::Columns;
use crate::trace::iteration::Iteration;
use crate::trace::strings::StrId;
use crate::units::{Ns, Span};
use regex::Regex;
use std::collections::BTreeMap;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StepRule {
    /// `ProfilerStep#n` annotations.
    ProfilerStep,
    /// `--step-pattern`.
    Pattern,
    /// Iterations of an inference engine, by the grammar of their names; one is enough.
    Iteration,
    /// Consecutive annotations on one thread whose names differ only in digits.
    Annotation,
    /// Iterations without an engine's name: annotations whose names differ only in digits, inside another one.
    InnerAnnotation,
    /// Iterations without an engine's name: a sequence of kernels that repeats.
    Repeat,
    /// No marks found: the whole capture is one step.
    Capture,
}

impl StepRule {
    pub const ALL: [StepRule; 7] = [
        StepRule::ProfilerStep,
        StepRule::Pattern,
        StepRule::Iteration,
        StepRule::Annotation,
        StepRule::Capture,
        StepRule::InnerAnnotation,
        StepRule::Repeat,
    ];

    /// Whether steps of this rule are iterations: of an inference engine, or of a loop that nothing names.
    pub fn is_iteration(self) -> bool {
        matches!(self, StepRule::Iteration | StepRule::InnerAnnotation | StepRule::Repeat)
    }

    pub fn name(self) -> &'static str {
        match self {
            StepRule::ProfilerStep => "profiler_step",
            StepRule::Pattern => "pattern",
            StepRule::Iteration => "iteration",
            StepRule::Annotation => "annotation",
            StepRule::InnerAnnotation => "inner_annotation",
            StepRule::Repeat => "repeat",
            StepRule::Capture => "capture",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Position in time, from 0.
    pub index: u32,
    /// The number in its name; iterations have none.
    pub label: Option<i64>,
    pub name: StrId,
    /// The span of the annotation.
    pub host: Span,
    /// The window by which analyses cut (host or device); windows are disjoint.
    pub window: Span,
    /// Cut by the capture, or with far fewer launches (on a CPU-only rank: operators) than the other steps (among
    /// iterations: those of its phase and batch).
    pub is_partial: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StepWindow {
    /// The annotation.
    #[default]
    Host,
    /// From the annotation's start to the end of what was launched inside it.
    Device,
}

/// The steps of a rank, and the rule that found them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Steps {
    pub rule: StepRule,
    pub steps: Vec<Step>,
    /// The thread of the iterations, to whose process they belong with all they launch; `None` for other steps.
    pub lane: Option<u32>,
    /// Whether there are `ProfilerStep#n` annotations, which only a training loop or a script writes.
    pub has_profiler_steps: bool,
}

impl Steps {
    pub fn new(rule: StepRule, steps: Vec<Step>) -> Self {
        Self { rule, steps, lane: None, has_profiler_steps: false }
    }

    /// Whether the steps are iterations. Their windows are on the device, whatever window is chosen.
    pub fn are_iterations(&self) -> bool {
        self.rule.is_iteration()
    }

    /// The step that launched an activity, or in which it started if its launch was not recorded. An iteration owns
    /// only what its own process launched.
    fn owner(&self, a: &Activity, c: &Columns, has_launches: bool) -> Option<u32> {
        let Some(call) = a.launch().map(|l| l as usize) else {
            return if self.are_iterations() && has_launches { None } else { self.at(a.span.start) };
        };
        let pid = |lane: u32| c.lanes.get(lane as usize).map(|l| l.pid);
        let is_own = |lane| pid(lane).is_some_and(|own| pid(c.lane[call]) == Some(own));
        self.lane.is_none_or(is_own).then(|| self.at(c.ts[call])).flatten()
    }

    /// Cuts the windows at the lead and the lost tail. `lost`: starts of the launch calls whose activities were not
    /// recorded. A step that owns such a call, or whose host window was cut, is partial.
    pub fn narrow(&mut self, capture: Span, window: StepWindow, lost: impl Iterator<Item = Ns>) {
        let (is_marked, are_iterations) = (self.rule != StepRule::Capture, self.are_iterations());
        for step in &mut self.steps {
            let w = step.window;
            if w.start >= capture.start && w.end <= capture.end {
                continue;
            }
            let start = w.start.clamp(capture.start, capture.end.max(capture.start));
            step.window = Span::new(start, w.end.min(capture.end).max(start));
            let is_cut = window == StepWindow::Host && !are_iterations;
            step.is_partial |= is_marked && (is_cut || step.window.is_empty());
        }
        let owners: Vec<u32> = lost.filter_map(|t| self.at(t)).collect();
        for step in owners {
            if let Some(step) = self.steps.get_mut(step as usize) {
                step.is_partial |= is_marked;
            }
        }
    }

    /// The step whose host range contains `t`.
    pub fn at(&self, t: Ns) -> Option<u32> {
        let i = self.steps.partition_point(|s| s.host.start <= t).checked_sub(1)?;
        self.steps[i].host.holds(t).then_some(self.steps[i].index)
    }
}

/// Finds a rank's steps; [`finish`] adds windows and partial marks.
pub fn find(c: &Columns, classes: &[Class], pattern: Option<&Regex>, health: &mut Health) -> Steps {
    let named = |keep: &dyn Fn(&str) -> bool, class: Class| -> Vec<u32> {
        let mut known: BTreeMap<StrId, bool> = BTreeMap::new();
        let rows = (0..classes.len()).filter(|&r| classes[r] == class);
        rows.filter(|&r| *known.entry(c.name(r)).or_insert_with(|| keep(c.strings.get(c.name(r)))))
            .map(|r| r as u32)
            .collect()
    };
    let on_device = named(&is_profiler_step, Class::GpuAnnotation).len() as u64;
    health.add(Counter::GpuStepIgnored, on_device, None, "");
    if let Some(pattern) = pattern {
        let rows = named(&|n| pattern.is_match(n), Class::Annotation);
        return Steps::new(StepRule::Pattern, build(c, one_thread(c, rows), label_of));
    }
    let marked = build(c, one_thread(c, named(&is_profiler_step, Class::Annotation)), label_of);
    let has_profiler_steps = !marked.is_empty();
    let found = |rule, steps| Steps { has_profiler_steps, ..Steps::new(rule, steps) };
    let iterations = one_thread(c, outermost(c, named(&|n| Iteration::parse(n).is_some(), Class::Annotation)));
    let lane = iterations.first().map(|&r| c.lane[r as usize]);
    let iterations = build(c, iterations, |_| None);
    if !iterations.is_empty() && (marked.is_empty() || iterations.iter().all(|i| is_inside(i, &marked))) {
        return Steps { lane, ..found(StepRule::Iteration, iterations) };
    }
    if !marked.is_empty() {
        return found(StepRule::ProfilerStep, marked);
    }
    match repeated_annotation(c, classes) {
        Some(rows) => found(StepRule::Annotation, build(c, rows, label_of)),
        None => found(StepRule::Capture, Vec::new()),
    }
}

/// Of ranges of one thread that contain each other, the outer ones.
fn outermost(c: &Columns, mut rows: Vec<u32>) -> Vec<u32> {
    crate::trace::thread::sort_outer_first(&mut rows, c);
    let mut open_until: BTreeMap<u32, Ns> = BTreeMap::new();
    rows.retain(|&row| {
        let span = c.span(row as usize);
        let until = open_until.entry(c.lane[row as usize]).or_insert(Ns::MIN);
        let is_inner = span.end <= *until;
        *until = span.end.max(*until);
        !is_inner
    });
    rows
}

/// Whether one of the outer steps, which are in order of time, contains a step.
fn is_inside(step: &Step, outer: &[Step]) -> bool {
    let before = outer.partition_point(|o| o.host.start <= step.host.start);
    before.checked_sub(1).and_then(|i| outer.get(i)).is_some_and(|o| step.host.end <= o.host.end)
}

fn is_profiler_step(name: &str) -> bool {
    let Some(rest) = name.strip_prefix("ProfilerStep") else { return false };
    let digits = rest.trim().strip_prefix('#').map(str::trim);
    digits.is_some_and(|d| !d.is_empty() && d.bytes().all(|b| b.is_ascii_digit()))
}

/// If several threads have such ranges, those of the thread with most (ties: the first thread).
fn one_thread(c: &Columns, rows: Vec<u32>) -> Vec<u32> {
    let mut by_lane: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for row in rows {
        by_lane.entry(c.lane[row as usize]).or_default().push(row);
    }
    by_lane.into_values().rev().max_by_key(Vec::len).unwrap_or_default()
}

/// Steps of these ranges.
pub fn build(c: &Columns, mut rows: Vec<u32>, label_of: impl Fn(&str) -> Option<i64>) -> Vec<Step> {
    rows.sort_unstable_by_key(|&r| (c.ts[r as usize], r));
    let finished = c.args.column(Arg::Finished);
    let mut steps: Vec<Step> = Vec::new();
    for row in rows {
        let r = row as usize;
        let mut host = c.span(r);
        if let Some(last) = steps.last() {
            // Steps are disjoint; in whole microseconds they may overlap by one.
            host.start = host.start.max(last.host.end);
        }
        if host.is_empty() {
            continue;
        }
        steps.push(Step {
            index: steps.len() as u32,
            label: label_of(c.strings.get(c.name(r))),
            name: c.name(r),
            host,
            window: host,
            is_partial: finished.get(row) == Some(0),
        });
    }
    steps
}

fn label_of(name: &str) -> Option<i64> {
    let end = name.rfind(|ch: char| ch.is_ascii_digit())? + 1;
    let start = name[..end].rfind(|ch: char| !ch.is_ascii_digit()).map_or(0, |i| i + 1);
    name.get(start..end)?.parse().ok()
}

/// Annotations at the top level of one thread whose names are equal after masking digits and which do not overlap, two
/// at least. If there are several such sets, the one that covers most time.
fn repeated_annotation(c: &Columns, classes: &[Class]) -> Option<Vec<u32>> {
    let mut by_lane: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for row in (0..classes.len()).filter(|&r| classes[r] == Class::Annotation) {
        by_lane.entry(c.lane[row]).or_default().push(row as u32);
    }
    let mut groups: BTreeMap<(u32, String), Vec<u32>> = BTreeMap::new();
    for (lane, mut rows) in by_lane {
        crate::trace::thread::sort_outer_first(&mut rows, c);
        let mut open_until = Ns::MIN;
        for row in rows {
            let Span { start, end } = c.span(row as usize);
            if start >= open_until {
                let name = c.strings.get(c.name(row as usize));
                if !is_no_step(name) {
                    groups.entry((lane, mask(name))).or_default().push(row);
                }
            }
            open_until = open_until.max(end);
        }
    }
    let covered = |rows: &[u32]| rows.iter().map(|&r| c.dur[r as usize]).sum::<Ns>();
    groups
        .into_values()
        .filter(|rows| rows.len() >= 2)
        .max_by_key(|rows| (covered(rows), std::cmp::Reverse(c.ts[rows[0] as usize])))
}

/// Whether annotations with this name repeat without being steps.
pub fn is_no_step(name: &str) -> bool {
    // NCCL marks its own calls, such as `ncclGroupEnd`, by ranges that nsys records.
    let is_nccl_call = name.strip_prefix("nccl").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()));
    is_nccl_call
        || ["nccl:", "gloo:", "mpi:", "ucc:", "enumerate(", "Optimizer.", "PyTorch Profiler"]
            .iter()
            .any(|p| name.starts_with(p))
}

/// A name with every number replaced by `#`, so that names which differ in numbers alone are one.
pub fn mask(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for ch in name.chars() {
        if !ch.is_ascii_digit() {
            out.push(ch);
        } else if !out.ends_with('#') {
            out.push('#');
        }
    }
    out
}

/// Assigns steps to activities, and windows and partial marks to steps.
pub fn finish(
    steps: &mut Steps,
    all: &mut [Activity],
    c: &Columns,
    classes: &[Class],
    window: StepWindow,
    capture: Span,
) {
    // In a trace without any launch record, activities count by their starts.
    let has_launches = all.iter().any(|a| a.launch().is_some());
    for a in all.iter_mut() {
        a.set_step(steps.owner(a, c, has_launches));
    }
    if steps.steps.is_empty() && !capture.is_empty() {
        // As a last resort, the whole capture is one step.
        let (host, window) = (capture, capture);
        steps.steps.push(Step { index: 0, label: None, name: StrId::EMPTY, host, window, is_partial: false });
        steps.rule = StepRule::Capture;
        all.iter_mut().for_each(|a| a.set_step(Some(0)));
        return;
    }
    let mut launched: Vec<u64> = vec![0; steps.steps.len()];
    for a in all.iter() {
        if let Some(s) = a.step().filter(|_| a.launch().is_some() || !has_launches) {
            launched[s as usize] += 1;
        }
    }
    if all.is_empty() {
        for row in (0..classes.len()).filter(|&r| classes[r] == Class::HostOp) {
            if let Some(s) = steps.at(c.ts[row]) {
                launched[s as usize] += 1;
            }
        }
    }
    if steps.are_iterations() || window == StepWindow::Device {
        let windows = match steps.are_iterations() {
            true => iteration_windows(&steps.steps, all),
            false => device_windows(&steps.steps, all),
        };
        steps.steps.iter_mut().zip(windows).for_each(|(step, w)| step.window = w);
    }
    for step in &mut steps.steps {
        step.is_partial |= step.host.start < capture.start || step.host.end > capture.end;
    }
    let mut alike: BTreeMap<Option<String>, Vec<usize>> = BTreeMap::new();
    for (i, step) in steps.steps.iter().enumerate() {
        let kind = steps.are_iterations().then(|| iteration_kind(c.strings.get(step.name)));
        alike.entry(kind).or_default().push(i);
    }
    for of_kind in alike.into_values().filter(|of| of.len() >= 3) {
        let mut sorted: Vec<u64> = of_kind.iter().map(|&i| launched[i]).collect();
        sorted.sort_unstable();
        // For an even number, the lower one.
        let median = sorted[(sorted.len() - 1) / 2];
        for i in of_kind {
            steps.steps[i].is_partial |= launched[i] * 5 < median * 4;
        }
    }
}

/// Phase and batch of an iteration: iterations are compared only with those that do the same.
pub fn iteration_kind(name: &str) -> String {
    Iteration::parse(name).map_or_else(String::new, |i| format!("{:?} {:?} {:?}", i.phase, i.mode, i.requests))
}

/// Each iteration's window on the device: from the first start of what was launched inside it, or the end of the
/// previous window, to the last end. An iteration that launched nothing has an empty window. The activities must have
/// their steps.
///
/// ```text
///   host      [iteration 0)post.....[iteration 1)
///   device         [0)[0==)   [post)     [1=======)
///   windows        [0     )              [1       )      what lies between is in no window
/// ```
pub fn iteration_windows(steps: &[Step], all: &[Activity]) -> Vec<Span> {
    let mut own: Vec<Option<Span>> = vec![None; steps.len()];
    for a in all {
        if let Some(window) = a.step().and_then(|s| own.get_mut(s as usize)) {
            let so_far = window.unwrap_or(a.span);
            *window = Some(Span::new(so_far.start.min(a.span.start), so_far.end.max(a.span.end)));
        }
    }
    let mut previous_end = Ns::MIN;
    let window = |(step, own): (&Step, &Option<Span>)| {
        let own = own.unwrap_or(Span::new(step.host.start, step.host.start));
        let start = own.start.max(previous_end);
        previous_end = own.end.max(start);
        Span::new(start, previous_end)
    };
    steps.iter().zip(&own).map(window).collect()
}

/// The windows of iterations, each up to the start of the next one's.
pub fn periods(steps: &[Step]) -> Vec<Span> {
    let ends = steps.iter().skip(1).map(|next| next.window.start).chain(steps.last().map(|last| last.window.end));
    steps.iter().zip(ends).map(|(step, end)| Span::new(step.window.start, end)).collect()
}

/// Each step's window on the device: from its start, or the end of the previous window, to the end of what was launched
/// inside it. The activities must have their steps.
pub fn device_windows(steps: &[Step], all: &[Activity]) -> Vec<Span> {
    // In a trace without any launch record, activities count by their starts.
    let has_launches = all.iter().any(|a| a.launch().is_some());
    let mut last_end: Vec<Ns> = vec![Ns::MIN; steps.len()];
    for a in all.iter().filter(|a| a.launch().is_some() || !has_launches) {
        if let Some(last) = a.step().and_then(|s| last_end.get_mut(s as usize)) {
            *last = a.span.end.max(*last);
        }
    }
    let mut previous_end = Ns::MIN;
    let window = |(step, last): (&Step, &Ns)| {
        let start = step.host.start.max(previous_end);
        let end = start.max(step.host.end).max(*last);
        previous_end = end;
        Span::new(start, end)
    };
    steps.iter().zip(&last_end).map(window).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn step_names_are_recognised_and_numbered() {
        assert!(is_profiler_step("ProfilerStep#12"));
        assert!(is_profiler_step("ProfilerStep # 12"));
        assert!(!is_profiler_step("ProfilerStep"));
        assert!(!is_profiler_step("ProfilerStep#x"));
        assert_eq!(label_of("step[DECODE bs=16]"), Some(16));
        assert_eq!(label_of("ProfilerStep#7"), Some(7));
        assert_eq!(mask("execute_12_of_3"), "execute_#_of_#");
    }
}

//! Steps: the ranges of a rank's time that are training (or serving) steps. `inferred_steps` finds those that
//! no range names, `step_evidence` decides which repeats are steps, `step_window` adds windows.

use crate::activity::Activity;
use crate::args::Arg;
use crate::category::Class;
use crate::events::Columns;
use crate::iteration::Iteration;
use crate::no_step::is_no_step;
use crate::step_name::{are_labels, label_of};
use crate::step_period::StepPeriod;
use crate::strings::StrId;
use crate::thread::{outermost, sort_outer_first};
use crate::title::CollectiveOps;
use hta_base::health::{Counter, Health};
use hta_base::stored_name;
use hta_base::units::{Ns, Span};
use regex::Regex;
use std::collections::BTreeMap;

/// Least share of the launched work that host windows must hold, percent.
pub const HELD_PCT: i128 = 90;

/// Whether windows hold too little of what their steps launched, ns.
pub fn misses_work(held: Ns, launched: Ns) -> bool {
    i128::from(held) * 100 < i128::from(launched) * HELD_PCT
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StepRule {
    /// `ProfilerStep#n` annotations.
    ProfilerStep,
    /// `--step-pattern`.
    Pattern,
    /// Iterations of an inference engine, by the grammar of their names; one is enough.
    Iteration,
    /// Turns of a loop of several roles, by the annotations of its phases.
    Loop,
    /// Consecutive annotations on one thread whose names differ only in digits.
    Annotation,
    /// Iterations without an engine's name: annotations whose names differ only in digits, inside another
    /// one.
    InnerAnnotation,
    /// Iterations without an engine's name: a sequence of kernels that repeats.
    Repeat,
    /// No marks found: the whole capture is one step.
    Capture,
}

impl StepRule {
    pub const ALL: [StepRule; 8] = [
        StepRule::ProfilerStep,
        StepRule::Pattern,
        StepRule::Iteration,
        StepRule::Loop,
        StepRule::Annotation,
        StepRule::Capture,
        StepRule::InnerAnnotation,
        StepRule::Repeat,
    ];

    /// Whether steps of this rule are iterations: of an inference engine, or of a loop that nothing names.
    pub fn is_iteration(self) -> bool {
        matches!(self, StepRule::Iteration | StepRule::InnerAnnotation | StepRule::Repeat)
    }

    /// Whether the rule with a name has iterations for steps.
    pub fn names_iterations(name: &str) -> bool {
        Self::ALL.iter().any(|r| r.name() == name && r.is_iteration())
    }

    pub fn name(self) -> &'static str {
        match self {
            StepRule::ProfilerStep => "profiler_step",
            StepRule::Pattern => "pattern",
            StepRule::Iteration => "iteration",
            StepRule::Loop => "loop",
            StepRule::Annotation => "annotation",
            StepRule::InnerAnnotation => "inner_annotation",
            StepRule::Repeat => "repeat",
            StepRule::Capture => "capture",
        }
    }
}

stored_name!(StepRule, StepRule::ALL, name);

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
    /// Its launches own no activities, although those of others do: what it did is not recorded. Then it is
    /// partial.
    pub is_lost: bool,
    /// Cut by the capture, or with far fewer launches (on a CPU-only rank: operators) than the other steps
    /// (among iterations: those of its phase and batch).
    pub is_partial: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StepWindow {
    /// The device's where the device lags behind its host, else the annotation (`step_window` decides).
    #[default]
    Auto,
    /// The annotation.
    Host,
    /// From the annotation's start to the end of what was launched inside it.
    Device,
}

impl StepWindow {
    pub const ALL: [Self; 3] = [Self::Auto, Self::Host, Self::Device];

    /// The value of `--step-window`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Host => "host",
            Self::Device => "device",
        }
    }
}

/// The steps of a rank, and the rule that found them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Steps {
    pub rule: StepRule,
    pub steps: Vec<Step>,
    /// The thread of the iterations, to whose process they belong with all they launch; `None` for other
    /// steps.
    pub(crate) lane: Option<u32>,
    /// Whether there are `ProfilerStep#n` annotations, which only a training loop or a script writes.
    pub has_profiler_steps: bool,
    /// Whether the windows are those of the device.
    pub is_on_device: bool,
    pub lag: Lag,
    /// Every how many steps one does more work.
    pub period: Option<StepPeriod>,
    /// What repeats and is no step; without steps only.
    pub repeated: Option<Repeated>,
}

/// How far the device is behind the host, ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lag {
    /// Median over the steps of the last end of what a step launched minus the end of its annotation; `None`
    /// if no launch is recorded.
    pub median: Option<Ns>,
    /// Summed duration of what the steps launched, and (next field) the part of it in the steps' windows.
    pub launched: Ns,
    pub held: Ns,
}

/// Ranges or kernels that repeat without being steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repeated {
    /// `layers`, `phases` or `repeats`.
    pub what: &'static str,
    pub count: usize,
    /// Their name with `#` for digits; empty for kernels.
    pub name: String,
    /// Why they are no steps.
    pub why: String,
}

impl Steps {
    pub(crate) fn new(rule: StepRule, steps: Vec<Step>) -> Self {
        Self {
            rule,
            steps,
            lane: None,
            has_profiler_steps: false,
            is_on_device: false,
            lag: Lag::default(),
            period: None,
            repeated: None,
        }
    }

    /// Whether the windows are those of the host and hold too little of what the steps launch.
    pub fn is_missed(&self) -> bool {
        !self.is_on_device && misses_work(self.lag.held, self.lag.launched)
    }

    /// Whether the steps are iterations. Their windows are on the device, whatever window is chosen.
    pub fn are_iterations(&self) -> bool {
        self.rule.is_iteration()
    }

    /// The step that launched an activity, or in which it started if its launch was not recorded. An
    /// iteration owns only what its own process launched.
    pub(crate) fn owner(&self, a: &Activity, c: &Columns, has_launches: bool) -> Option<u32> {
        let Some(call) = a.launch().map(|l| l as usize) else {
            return if self.are_iterations() && has_launches { None } else { self.at(a.span.start) };
        };
        let pid = |lane: u32| c.lanes.get(lane as usize).map(|l| l.pid);
        let is_own = |lane| pid(lane).is_some_and(|own| pid(c.lane[call]) == Some(own));
        self.lane.is_none_or(is_own).then(|| self.at(c.ts[call])).flatten()
    }

    /// Cuts the windows at the lead and the lost tail. `lost`: starts of the launch calls whose activities
    /// were not recorded. A step that owns such a call, or whose host window was cut, is partial.
    pub(crate) fn narrow(&mut self, capture: Span, lost: impl Iterator<Item = Ns>) {
        let (is_marked, are_iterations) = (self.rule != StepRule::Capture, self.are_iterations());
        for step in &mut self.steps {
            let w = step.window;
            if w.start >= capture.start && w.end <= capture.end {
                continue;
            }
            let start = w.start.clamp(capture.start, capture.end.max(capture.start));
            step.window = Span::new(start, w.end.min(capture.end).max(start));
            let is_cut = !self.is_on_device && !are_iterations;
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
    #[inline]
    pub fn at(&self, t: Ns) -> Option<u32> {
        let i = self.steps.partition_point(|s| s.host.start <= t).checked_sub(1)?;
        self.steps[i].host.holds(t).then_some(self.steps[i].index)
    }
}

/// Finds a rank's steps; `step_window` adds windows and partial marks.
pub(crate) fn find(
    c: &Columns,
    classes: &[Class],
    collectives: &CollectiveOps,
    pattern: Option<&Regex>,
    health: &mut Health,
) -> Steps {
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
    let iterations =
        one_thread(c, outermost(c, named(&|n| Iteration::parse(n).is_some(), Class::Annotation)));
    let lane = iterations.first().map(|&r| c.lane[r as usize]);
    let iterations = build(c, iterations, |_| None);
    if !iterations.is_empty() && (marked.is_empty() || iterations.iter().all(|i| is_inside(i, &marked))) {
        return Steps { lane, ..found(StepRule::Iteration, iterations) };
    }
    if !marked.is_empty() {
        return found(StepRule::ProfilerStep, marked);
    }
    match repeated_annotations(c, classes, collectives).next() {
        Some((_, steps)) => found(StepRule::Annotation, steps),
        None => found(StepRule::Capture, Vec::new()),
    }
}

/// Whether one of the outer steps, which are in order of time, contains a step.
fn is_inside(step: &Step, outer: &[Step]) -> bool {
    let before = outer.partition_point(|o| o.host.start <= step.host.start);
    before.checked_sub(1).and_then(|i| outer.get(i)).is_some_and(|o| step.host.end <= o.host.end)
}

/// Whether the profiler marks a step by this name.
pub fn is_profiler_step(name: &str) -> bool {
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

/// Steps of these ranges. They have labels where these tell them apart.
pub(crate) fn build(c: &Columns, mut rows: Vec<u32>, label_of: impl Fn(&str) -> Option<i64>) -> Vec<Step> {
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
            is_lost: false,
            is_partial: finished.get(row) == Some(0),
        });
    }
    let names: Vec<&str> = steps.iter().map(|s| c.strings.get(s.name)).collect();
    if !are_labels(&names) {
        steps.iter_mut().for_each(|step| step.label = None);
    }
    steps
}

/// Annotations at the top level of one thread whose names are equal after masking digits and which do not
/// overlap, two at least, with their thread. Of several such sets the one that covers most time is first.
pub(crate) fn repeated_annotations(
    c: &Columns,
    classes: &[Class],
    collectives: &CollectiveOps,
) -> impl Iterator<Item = (u32, Vec<Step>)> {
    let mut by_lane: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for row in (0..classes.len()).filter(|&r| classes[r] == Class::Annotation) {
        by_lane.entry(c.lane[row]).or_default().push(row as u32);
    }
    let mut groups: BTreeMap<(u32, String), Vec<u32>> = BTreeMap::new();
    for (lane, mut rows) in by_lane {
        sort_outer_first(&mut rows, c);
        let mut open_until = Ns::MIN;
        for row in rows {
            let Span { start, end } = c.span(row as usize);
            if start >= open_until {
                let name = c.strings.get(c.name(row as usize));
                if !is_no_step(name) && !collectives.hold(c, row) {
                    groups.entry((lane, mask(name))).or_default().push(row);
                }
            }
            open_until = open_until.max(end);
        }
    }
    let covered = |rows: &[u32]| rows.iter().map(|&r| c.dur[r as usize]).sum::<Ns>();
    let sets = groups.into_iter().filter(|(_, rows)| rows.len() >= 2);
    let mut sets: Vec<(u32, Vec<u32>)> = sets.map(|((lane, _), rows)| (lane, rows)).collect();
    sets.sort_by_cached_key(|(_, rows)| (std::cmp::Reverse(covered(rows)), c.ts[rows[0] as usize]));
    sets.into_iter().map(|(lane, rows)| (lane, build(c, rows, label_of)))
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

/// Phase and batch of an iteration: iterations are compared only with those that do the same.
pub fn iteration_kind(name: &str) -> String {
    Iteration::parse(name)
        .map_or_else(String::new, |i| format!("{:?} {:?} {:?}", i.phase, i.mode, i.requests))
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

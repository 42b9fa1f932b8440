//! Steps: which ranges of a rank's time are training (or serving) steps, and windows built on them.

use crate::health::{Counter, Health};
use crate::trace::activity::Activity;
use crate::trace::args::Arg;
use crate::trace::category::Class;
use crate::trace::events::Columns;
use crate::trace::strings::StrId;
use crate::units::{Ns, Span};
use regex::Regex;
use std::collections::BTreeMap;

/// How the steps of a rank were found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StepRule {
    /// `ProfilerStep#n` annotations.
    ProfilerStep,
    /// `--step-pattern`.
    Pattern,
    /// Annotations with one name but for its digits, one after the other on one thread.
    Annotation,
    /// None found: the whole capture is one step.
    Capture,
}

impl StepRule {
    pub fn name(self) -> &'static str {
        match self {
            StepRule::ProfilerStep => "profiler_step",
            StepRule::Pattern => "pattern",
            StepRule::Annotation => "annotation",
            StepRule::Capture => "capture",
        }
    }
}

/// One step of one rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Position in time, 0-based.
    pub index: u32,
    /// The number in its name.
    pub label: Option<i64>,
    pub name: StrId,
    /// The annotation's own span.
    pub host: Span,
    /// The window that analyses cut by (host or device, disjoint).
    pub window: Span,
    /// Cut by the capture, or with far fewer launches (CPU: operators) than the others.
    pub is_partial: bool,
}

/// Which window a step cuts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StepWindow {
    /// The annotation.
    #[default]
    Host,
    /// From the annotation's start to the end of what was launched inside it.
    Device,
}

/// The steps of a rank and how they were found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Steps {
    pub rule: StepRule,
    pub steps: Vec<Step>,
}

impl Steps {
    /// Cuts the windows to what is left between the lead and the lost tail. `lost`: starts of the launch calls whose
    /// activities were not recorded. A step that owns such a call is partial, and so is one whose host window was cut.
    pub fn narrow(&mut self, capture: Span, window: StepWindow, lost: impl Iterator<Item = Ns>) {
        let is_marked = self.rule != StepRule::Capture;
        for step in &mut self.steps {
            let w = step.window;
            if w.start >= capture.start && w.end <= capture.end {
                continue;
            }
            let start = w.start.clamp(capture.start, capture.end.max(capture.start));
            step.window = Span::new(start, w.end.min(capture.end).max(start));
            step.is_partial |= is_marked && (window == StepWindow::Host || step.window.is_empty());
        }
        let owners: Vec<u32> = lost.filter_map(|t| self.at(t)).collect();
        for step in owners {
            if let Some(step) = self.steps.get_mut(step as usize) {
                step.is_partial |= is_marked;
            }
        }
    }

    /// The step whose host range holds `t`.
    pub fn at(&self, t: Ns) -> Option<u32> {
        let i = self.steps.partition_point(|s| s.host.start <= t).checked_sub(1)?;
        self.steps[i].host.holds(t).then_some(self.steps[i].index)
    }
}

/// Finds a rank's steps; windows and partial marks come with [`finish`].
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
        return Steps { rule: StepRule::Pattern, steps: build(c, one_thread(c, rows)) };
    }
    let rows = named(&is_profiler_step, Class::Annotation);
    if !rows.is_empty() {
        return Steps { rule: StepRule::ProfilerStep, steps: build(c, one_thread(c, rows)) };
    }
    match repeated_annotation(c, classes) {
        Some(rows) => Steps { rule: StepRule::Annotation, steps: build(c, rows) },
        None => Steps { rule: StepRule::Capture, steps: Vec::new() },
    }
}

fn is_profiler_step(name: &str) -> bool {
    let Some(rest) = name.strip_prefix("ProfilerStep") else { return false };
    let digits = rest.trim().strip_prefix('#').map(str::trim);
    digits.is_some_and(|d| !d.is_empty() && d.bytes().all(|b| b.is_ascii_digit()))
}

/// Of ranges on several threads, those of the thread with most (ties: the first thread).
fn one_thread(c: &Columns, rows: Vec<u32>) -> Vec<u32> {
    let mut by_lane: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for row in rows {
        by_lane.entry(c.lane[row as usize]).or_default().push(row);
    }
    by_lane.into_values().rev().max_by_key(Vec::len).unwrap_or_default()
}

fn build(c: &Columns, mut rows: Vec<u32>) -> Vec<Step> {
    rows.sort_unstable_by_key(|&r| (c.ts[r as usize], r));
    let finished = c.args.column(Arg::Finished);
    let mut steps: Vec<Step> = Vec::new();
    for row in rows {
        let r = row as usize;
        let mut host = c.span(r);
        if let Some(last) = steps.last() {
            // steps are disjoint; microsecond times may overlap by one
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

/// The last number in a name.
fn label_of(name: &str) -> Option<i64> {
    let end = name.rfind(|ch: char| ch.is_ascii_digit())? + 1;
    let start = name[..end].rfind(|ch: char| !ch.is_ascii_digit()).map_or(0, |i| i + 1);
    name.get(start..end)?.parse().ok()
}

/// Ranges of annotations at the top level of one thread whose names are equal after digits are
/// masked and which do not overlap: at least two. Of several such groups, the one that covers most.
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

/// Annotations that repeat without being steps.
fn is_no_step(name: &str) -> bool {
    ["nccl:", "gloo:", "mpi:", "ucc:", "enumerate(", "Optimizer.", "PyTorch Profiler"]
        .iter()
        .any(|p| name.starts_with(p))
}

fn mask(name: &str) -> String {
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

/// Gives activities their step, steps their windows and their partial marks.
pub fn finish(
    steps: &mut Steps,
    all: &mut [Activity],
    c: &Columns,
    classes: &[Class],
    window: StepWindow,
    capture: Span,
) {
    for a in all.iter_mut() {
        a.set_step(steps.at(a.launch().map_or(a.span.start, |l| c.ts[l as usize])));
    }
    if steps.steps.is_empty() && !capture.is_empty() {
        // the last resort: the whole capture is one step
        let (host, window) = (capture, capture);
        steps.steps.push(Step { index: 0, label: None, name: StrId::EMPTY, host, window, is_partial: false });
        steps.rule = StepRule::Capture;
        all.iter_mut().for_each(|a| a.set_step(Some(0)));
        return;
    }
    // a trace without any launch record is counted by starts
    let has_launches = all.iter().any(|a| a.launch().is_some());
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
    if window == StepWindow::Device {
        let windows = device_windows(&steps.steps, all);
        steps.steps.iter_mut().zip(windows).for_each(|(step, w)| step.window = w);
    }
    for step in &mut steps.steps {
        step.is_partial |= step.host.start < capture.start || step.host.end > capture.end;
    }
    if steps.steps.len() >= 3 {
        let mut sorted = launched.clone();
        sorted.sort_unstable();
        // of an even number, the lower one
        let median = sorted[(sorted.len() - 1) / 2];
        for (step, n) in steps.steps.iter_mut().zip(&launched) {
            step.is_partial |= *n * 5 < median * 4;
        }
    }
}

/// Each step's window on the device: from its start, or the end of the window before, to the end of what was launched
/// inside it. The activities know their steps.
pub fn device_windows(steps: &[Step], all: &[Activity]) -> Vec<Span> {
    // a trace without any launch record is counted by starts
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

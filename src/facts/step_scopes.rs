//! Windows by what belongs to them as a whole: the capture, each step, and the time outside all steps.
//!
//! Analyses of calls or ranges do not cut them: a call belongs to the step whose host range contains its
//! start, an activity to the step of its launch. So counts and sums of the steps and of `outside` add up to
//! those of the capture, whatever the windows of the steps are.

use hta_base::units::Ns;
use hta_trace::rank_trace::{ModelOptions, RankTrace};
use hta_trace::step::{Step, StepRule};
use hta_trace::window::{Scope, Window, windows};

/// The windows of a rank, with an assignment of events to them.
pub struct StepScopes<'a> {
    trace: &'a RankTrace,
    windows: Vec<Window>,
    /// Index into `windows` of each step.
    of_step: Vec<Option<usize>>,
    outside: Option<usize>,
}

impl<'a> StepScopes<'a> {
    /// The windows with the selected steps; without `outside` unless all are selected.
    pub fn new(trace: &'a RankTrace, options: &ModelOptions) -> Self {
        Self::with(trace, |s| options.selects(s))
    }

    /// The windows with all steps, whichever are selected.
    pub fn every(trace: &'a RankTrace) -> Self {
        Self::with(trace, |_| true)
    }

    /// The capture, and the selected steps that are marked in the trace; what lies outside them has no
    /// window.
    pub fn of_marked_steps(trace: &'a RankTrace, options: &ModelOptions) -> Self {
        let mut scopes = Self::new(trace, options).if_by_step(trace.steps.rule != StepRule::Capture);
        scopes.outside = None;
        scopes.windows.retain(|w| w.scope != Scope::Outside);
        scopes
    }

    fn with(trace: &'a RankTrace, chosen: impl Fn(&Step) -> bool) -> Self {
        let steps = &trace.steps.steps;
        let windows = windows(None, trace.capture, steps, chosen);
        let outside = windows.iter().position(|w| w.scope == Scope::Outside);
        let mut of_step = vec![None; steps.len()];
        for (i, w) in windows.iter().enumerate() {
            if let Some(slot) = w.step.and_then(|s| of_step.get_mut(s as usize)) {
                *slot = Some(i);
            }
        }
        Self { trace, windows, of_step, outside }
    }

    /// The same, or the capture alone if nothing is asked by step.
    pub fn if_by_step(mut self, by_step: bool) -> Self {
        if !by_step {
            self.windows.truncate(1);
            self.of_step.clear();
            self.outside = None;
        }
        self
    }

    /// The capture first, then the steps in order, then `outside`.
    pub fn windows(&self) -> &[Window] {
        &self.windows
    }

    /// Whether a window is asked for: it is no step, or a selected one.
    pub fn is_asked(&self, window: &Window, options: &ModelOptions) -> bool {
        let step = window.step.and_then(|i| self.trace.steps.steps.get(i as usize));
        step.is_none_or(|step| options.selects(step))
    }

    /// The step of a host event that starts at `t`.
    pub fn step_at(&self, t: Ns) -> Option<u32> {
        match self.trace.steps.rule {
            // The single step covers everything, including the last instant.
            StepRule::Capture => self.trace.steps.steps.first().map(|s| s.index),
            _ => self.trace.steps.at(t),
        }
    }

    /// Indices of the windows that contain something of this step (or of no step).
    pub fn of(&self, step: Option<u32>) -> impl Iterator<Item = usize> + Clone + use<> {
        let own = match step {
            Some(s) => self.of_step.get(s as usize).copied().flatten(),
            None => self.outside,
        };
        std::iter::once(0).chain(own)
    }
}

//! The windows for which every analysis reports: span, capture, each step, and the time outside steps.

use crate::step::Step;
use hta_base::stored_name;
use hta_base::units::{Ns, Span};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// First start to last end of the device's activities (on a CPU-only rank: of its host work).
    Span,
    /// First to last recorded event of the rank, without the profiler's own rows, the lead and the lost tail.
    Capture,
    /// One step.
    Step,
    /// One step on the device, where steps are otherwise cut by the host's annotation; only the account of
    /// the job uses it.
    DeviceStep,
    /// The capture without the steps: one row.
    Outside,
}

stored_name!(Scope, [Scope::Span, Scope::Capture, Scope::Step, Scope::DeviceStep, Scope::Outside], name);

impl Scope {
    pub fn name(self) -> &'static str {
        match self {
            Scope::Span => "span",
            Scope::Capture => "capture",
            Scope::Step => "step",
            Scope::DeviceStep => "device_step",
            Scope::Outside => "outside",
        }
    }
}

/// A window: one span, or for `outside` the spans between the steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    pub scope: Scope,
    /// Index of the step.
    pub step: Option<u32>,
    pub label: Option<i64>,
    /// Of a step: whether it is cut by the capture, or has far less work than the others.
    pub is_partial: Option<bool>,
    parts: Vec<Span>,
    /// Of all parts.
    len: Ns,
}

impl Window {
    /// A window of one part that is no step.
    pub fn whole(scope: Scope, span: Span) -> Self {
        Self { scope, step: None, label: None, is_partial: None, parts: vec![span], len: span.len() }
    }

    /// Disjoint and in order.
    pub fn parts(&self) -> &[Span] {
        &self.parts
    }

    pub(crate) fn set_parts(&mut self, parts: Vec<Span>) {
        self.len = parts.iter().map(|p| p.len()).sum();
        self.parts = parts;
    }

    pub fn len(&self) -> Ns {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Start of the first part, ns.
    pub fn start(&self) -> Ns {
        self.parts.first().map_or(0, |p| p.start)
    }
}

/// All windows of a device (or of a CPU-only rank) whose work spans `span`. If `chosen` selects steps,
/// `outside` is left out, because it would not be the remaining time.
pub fn windows(
    span: Option<Span>,
    capture: Span,
    steps: &[Step],
    chosen: impl Fn(&Step) -> bool,
) -> Vec<Window> {
    let mut all = Vec::with_capacity(steps.len() + 3);
    all.extend(span.map(|s| Window::whole(Scope::Span, s)));
    all.push(Window::whole(Scope::Capture, capture));
    let mut outside = Vec::new();
    let mut at = capture.start;
    let mut every = true;
    for step in steps {
        // Devices of a rank may have different leads.
        let start = step.window.start.clamp(capture.start, capture.end.max(capture.start));
        let window = Span::new(start, step.window.end.min(capture.end).max(start));
        if window.start > at {
            outside.push(Span::new(at, window.start));
        }
        at = at.max(window.end);
        if chosen(step) {
            all.push(Window {
                step: Some(step.index),
                label: step.label,
                is_partial: Some(step.is_partial),
                ..Window::whole(Scope::Step, window)
            });
        } else {
            every = false;
        }
    }
    if !steps.is_empty() && every {
        if capture.end > at || outside.is_empty() {
            outside.push(Span::new(at.min(capture.end), capture.end));
        }
        let mut rest = Window::whole(Scope::Outside, capture);
        rest.set_parts(outside);
        all.push(rest);
    }
    all
}

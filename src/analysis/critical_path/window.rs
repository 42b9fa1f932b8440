//! Selects the window of the path: the median step, chosen steps, an annotation, or the capture.
//!
//! Steps and annotations end when the last activity that they launched ends on the device, whatever
//! `--step-window` says: a path that ended with the host would leave out what the host waits for next.

use crate::api::Options;
use crate::critical_path::{ANNOTATION, CAPTURE};
use hta_base::order_statistics::median_of_sorted;
use hta_base::units::{Ns, Span};
use hta_trace::category::Class;
use hta_trace::rank_trace::RankTrace;
use hta_trace::step::{Step, StepRule};
use hta_trace::step_window::device_windows;

/// A window with its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathWindow {
    pub span: Span,
    /// `step`, `annotation` or `capture`.
    pub(crate) scope: &'static str,
    /// Display name: `step 15`, `steps 3 to 7`, `annotation forward:0`, `capture`.
    pub name: String,
    /// Index of the (first) step.
    pub(crate) step: Option<u32>,
    pub(crate) label: Option<i64>,
    /// Number of steps inside; 1 if there are none.
    pub(crate) steps: u32,
}

/// The window that the options select, or else the reason why there is none.
pub fn choose(trace: &RankTrace, options: &Options) -> Result<PathWindow, &'static str> {
    if options.settings.flag(&CAPTURE) {
        return Ok(capture(trace));
    }
    match options.settings.text(&ANNOTATION) {
        Some(name) => annotation(trace, name).ok_or("no such annotation"),
        None => steps(trace, options),
    }
}

fn capture(trace: &RankTrace) -> PathWindow {
    let steps = if trace.steps.rule == StepRule::Capture { 1 } else { trace.steps.steps.len().max(1) as u32 };
    let name = "capture".to_string();
    PathWindow { span: trace.capture, scope: "capture", name, step: None, label: None, steps }
}

fn steps(trace: &RankTrace, options: &Options) -> Result<PathWindow, &'static str> {
    let all = &trace.steps.steps;
    if trace.steps.rule == StepRule::Capture || all.is_empty() {
        let is_asked = options.model.steps.as_ref().is_none_or(|f| f.keeps(0, None));
        return if is_asked { Ok(capture(trace)) } else { Err("no such step") };
    }
    // The lead and the lost tail belong to no window.
    let windows: Vec<Span> = match trace.steps.are_iterations() {
        true => all.iter().map(|s| s.window).collect(),
        false => {
            device_windows(all, &trace.activities).into_iter().map(|w| w.intersect(trace.capture)).collect()
        }
    };
    let chosen: Vec<(&Step, Span)> = match &options.model.steps {
        Some(filter) => all.iter().zip(windows).filter(|(s, _)| filter.keeps(s.index, s.label)).collect(),
        None => median(all, &windows).into_iter().collect(),
    };
    let (Some((first, from)), Some((last, until))) = (chosen.first(), chosen.last()) else {
        return Err("no such step");
    };
    let shown = |s: &Step| s.label.map_or_else(|| format!("@{}", s.index), |l| l.to_string());
    let name = match chosen.len() {
        1 => format!("step {}", shown(first)),
        _ => format!("steps {} to {}", shown(first), shown(last)),
    };
    Ok(PathWindow {
        span: Span::new(from.start, until.end),
        scope: "step",
        name,
        step: Some(first.index),
        label: first.label,
        steps: last.index - first.index + 1,
    })
}

/// The full step (any step, if none is full) of median length; for an even number of steps, the lower of the
/// two in the middle.
fn median<'a>(all: &'a [Step], windows: &[Span]) -> Option<(&'a Step, Span)> {
    let of =
        |full: bool| all.iter().zip(windows.iter().copied()).filter(move |(s, _)| !full || !s.is_partial);
    let mut sorted: Vec<(&Step, Span)> = of(of(true).next().is_some()).collect();
    sorted.sort_by_key(|(s, w)| (w.len(), s.index));
    median_of_sorted(&sorted)
}

/// The k-th annotation of a name, counted from 0: `NAME` or `NAME:k`.
pub fn annotation(trace: &RankTrace, text: &str) -> Option<PathWindow> {
    let found = |name: &str, k: usize| {
        let c = &trace.columns;
        let mut rows: Vec<u32> = (0..c.len() as u32)
            .filter(|&r| trace.classes[r as usize] == Class::Annotation && trace.name(r) == name)
            .collect();
        rows.sort_unstable_by_key(|&r| (c.ts[r as usize], r));
        let host = trace.span(*rows.get(k)?);
        Some(PathWindow {
            span: Span::new(host.start, host.end.max(last_launched_end(trace, host)))
                .intersect(trace.capture),
            scope: "annotation",
            name: format!("annotation {name}:{k}"),
            step: None,
            label: None,
            steps: 1,
        })
    };
    // A name may itself end in a colon and a number, so the whole text is tried first.
    found(text, 0).or_else(|| {
        let (name, k) = text.rsplit_once(':')?;
        found(name, k.parse().ok()?)
    })
}

fn last_launched_end(trace: &RankTrace, host: Span) -> Ns {
    let launched = trace
        .activities
        .iter()
        .filter(|a| a.launch().is_some_and(|l| host.holds(trace.columns.ts[l as usize])));
    launched.map(|a| a.span.end).max().unwrap_or(host.end)
}

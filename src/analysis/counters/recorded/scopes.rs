//! The sets of time over which means and energy of one device are taken.
//!
//! ```text
//!   host steps   [step 0  )   [step 1  )   [step 2  )
//!   samples      |....|....|....|....|....|....|....|
//!   step         [ 0          [ 1          [ 2          )    up to the next; the last one as the others
//!   capture      [                                      )    activities and samples
//! ```
//!
//! The device takes power between steps, too, so that a step goes on until the next one starts.

use hashbrown::HashMap;
use hta_base::order_statistics::median;
use hta_base::units::{Ns, Span};
use hta_facts::collectives::activity_kind;
use hta_trace::device::DeviceWork;
use hta_trace::hardware_counters::RecordedCounter;
use hta_trace::interval::Union;
use hta_trace::rank_trace::RankTrace;
use hta_trace::step::{Step, StepRule};
use hta_trace::strings::StrId;
use hta_trace::timeline::WorkClass;
use std::collections::BTreeMap;

/// What a set of time stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CounterScope {
    Busy,
    Capture,
    Collective,
    /// Of energy only.
    Idle,
    KernelName,
    Span,
    Step,
}

impl CounterScope {
    pub(super) fn key(self) -> &'static str {
        match self {
            Self::Busy => "busy",
            Self::Capture => "capture",
            Self::Collective => "collective",
            Self::Idle => "idle",
            Self::KernelName => "kernel_name",
            Self::Span => "span",
            Self::Step => "step",
        }
    }

    /// Whether a mean needs samples that tell the time from what else ran.
    pub(super) fn must_be_resolved(self) -> bool {
        matches!(self, Self::Collective | Self::KernelName | Self::Step)
    }
}

/// A set of time.
pub(super) struct ScopedTime<'a> {
    pub(super) scope: CounterScope,
    pub(super) name: Option<&'a str>,
    /// Index and label.
    pub(super) step: Option<(u32, Option<i64>)>,
    pub(super) time: Union,
    /// Lengths of its pieces: of the shortest, and the lower median.
    pub(super) shortest: Option<Ns>,
    pub(super) median: Option<Ns>,
}

impl<'a> ScopedTime<'a> {
    /// A set of single runs, which may overlap.
    fn of_runs(scope: CounterScope, name: Option<&'a str>, runs: &[Span]) -> Self {
        let mut lengths: Vec<Ns> = runs.iter().map(|r| r.len()).collect();
        let time = Union::new(runs.iter().copied());
        let shortest = lengths.iter().copied().min();
        Self { scope, name, step: None, time, shortest, median: median(&mut lengths) }
    }

    /// A step.
    pub(super) fn of_step(s: &PeriodOfStep) -> Self {
        Self { step: Some((s.index, s.label)), ..Self::one(CounterScope::Step, s.period) }
    }

    fn one(scope: CounterScope, span: Span) -> Self {
        Self::of_runs(scope, None, &[span])
    }
}

/// The recorded time of a device: its activities, and the samples of its counters.
pub(super) fn recorded(trace: &RankTrace, work: Option<&DeviceWork>, counters: &[&RecordedCounter]) -> Span {
    let of_events = work.map_or(trace.capture, |w| w.capture);
    let cells = counters.iter().flat_map(|c| &c.cells).map(|c| c.span);
    cells.fold(of_events, Span::hull)
}

/// Each step from its start to the start of the next. The last one lasts as long as the others do, if there
/// is as much recorded.
pub(super) fn step_periods(windows: &[Span], recorded: Span) -> Vec<Span> {
    let starts: Vec<Ns> = windows.iter().map(|w| w.start).collect();
    let mut periods: Vec<Ns> = starts.windows(2).map(|s| s[1] - s[0]).collect();
    let usual = median(&mut periods).unwrap_or(0);
    let next = |i: usize, own: &Span| match starts.get(i + 1) {
        Some(next) => *next,
        None => own.end.max(own.start.saturating_add(usual).min(recorded.end)),
    };
    windows.iter().enumerate().map(|(i, own)| Span::new(own.start, next(i, own))).collect()
}

/// A marked step with its period.
pub(super) struct PeriodOfStep {
    pub(super) index: u32,
    pub(super) label: Option<i64>,
    pub(super) period: Span,
}

/// The steps of a rank that are marked, with their periods.
pub(super) fn steps(trace: &RankTrace, recorded: Span) -> Vec<PeriodOfStep> {
    let steps = &trace.steps.steps;
    if trace.steps.rule == StepRule::Capture {
        return Vec::new();
    }
    let windows: Vec<Span> = steps.iter().map(|s| s.window).collect();
    let periods = step_periods(&windows, recorded);
    let of = |(s, period): (&Step, Span)| PeriodOfStep { index: s.index, label: s.label, period };
    steps.iter().zip(periods).map(of).collect()
}

/// All sets of time of a device, in the order of the tables.
pub(super) fn scoped_times<'a>(
    trace: &'a RankTrace,
    work: Option<&DeviceWork>,
    recorded: Span,
    steps: &[PeriodOfStep],
) -> Vec<ScopedTime<'a>> {
    let mut all = vec![ScopedTime::one(CounterScope::Capture, recorded)];
    if let Some(work) = work {
        let busy = work.timeline.busy();
        all.push(ScopedTime::of_runs(CounterScope::Busy, None, busy.spans()));
        let idle = Union::new([recorded]).minus(&busy);
        all.push(ScopedTime::of_runs(CounterScope::Idle, None, idle.spans()));
        all.extend(by_name(trace, work));
        let first = busy.spans().first().zip(busy.spans().last());
        all.extend(first.map(|(a, b)| ScopedTime::one(CounterScope::Span, Span::new(a.start, b.end))));
    }
    all.extend(steps.iter().map(ScopedTime::of_step));
    all.retain(|s| !s.time.is_empty());
    all.sort_by_key(|s| (s.scope, s.name, s.step));
    all
}

/// The runs of each activity by name, and of each kind of collective.
fn by_name<'a>(trace: &'a RankTrace, work: &DeviceWork) -> Vec<ScopedTime<'a>> {
    let mut of_id: HashMap<StrId, Vec<Span>> = HashMap::new();
    let mut runs: BTreeMap<(CounterScope, &'a str), Vec<Span>> = BTreeMap::new();
    let own = work.activities.iter().filter_map(|i| trace.activities.get(*i as usize));
    for a in own.filter(|a| !a.span.is_empty()) {
        of_id.entry(a.name).or_default().push(a.span);
        if let Some(kind) = activity_kind(trace, a).filter(|_| a.work == WorkClass::Communication) {
            runs.entry((CounterScope::Collective, kind)).or_default().push(a.span);
        }
    }
    for (name, mut spans) in of_id {
        runs.entry((CounterScope::KernelName, trace.text(name))).or_default().append(&mut spans);
    }
    runs.into_iter().map(|((scope, name), runs)| ScopedTime::of_runs(scope, Some(name), &runs)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_goes_on_until_the_next_and_the_last_as_long_as_the_others() {
        let windows = [Span::new(0, 39), Span::new(40, 70), Span::new(80, 119)];
        let of = |end: Ns| step_periods(&windows, Span::new(-5, end));
        assert_eq!(of(200), [Span::new(0, 40), Span::new(40, 80), Span::new(80, 120)]);
        assert_eq!(of(119)[2], Span::new(80, 119));
        assert_eq!(step_periods(&windows[..1], Span::new(0, 200)), [Span::new(0, 39)]);
        assert_eq!(step_periods(&[], Span::new(0, 200)), []);
    }
}

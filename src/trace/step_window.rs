//! The windows of steps: on the host or on the device. Times in ns.
//!
//! ```text
//!   host     [step 0)[step 1)[step 2)             the host runs ahead: its windows hold little of the device's work
//!   device      |=== of 0 ===||=== of 1 ===||=== of 2 ===|
//!   windows  [---------------)[------------)[------------)
//! ```
//!
//! A host that waits for its device in each step has the same windows on both sides. One that runs ahead only
//! measures how fast it launches. So unless the user chooses, the device's windows count where it lags.

use crate::activity::Activity;
use crate::category::Class;
use crate::events::Columns;
use crate::launch::is_launch_call;
use crate::step::{Lag, Step, StepRule, StepWindow, Steps, iteration_kind, misses_work};
use crate::step_period::StepPeriod;
use crate::stream_capture::StreamCaptures;
use crate::strings::StrId;
use hta_base::order_statistics::median;
use hta_base::units::{Ns, Span};
use std::collections::BTreeMap;

/// Median lag from which the device's windows count, percent of the median step of the host. Below it both
/// windows are equal to the digits that are printed.
const LAG_PCT: i128 = 1;

/// Assigns steps to activities, and windows and partial marks to steps.
pub(crate) fn finish(
    steps: &mut Steps,
    all: &mut [Activity],
    c: &Columns,
    classes: &[Class],
    captures: &StreamCaptures,
    (window, capture): (StepWindow, Span),
) {
    // In a trace without any launch record, activities count by their starts.
    let has_launches = all.iter().any(|a| a.launch().is_some());
    for a in all.iter_mut() {
        a.set_step(steps.owner(a, c, has_launches));
    }
    if steps.steps.is_empty() && classes.iter().any(|class| !class.is_profilers_own()) {
        // As a last resort, the whole capture is one step, even if it has no length.
        let (host, window) = (capture, capture);
        steps.steps.push(Step {
            index: 0,
            label: None,
            name: StrId::EMPTY,
            host,
            window,
            is_lost: false,
            is_partial: false,
        });
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
    steps.lag = lag(&steps.steps, all, has_launches);
    let is_late = || is_late(&steps.steps, all, &steps.lag);
    steps.is_on_device = steps.are_iterations()
        || match window {
            StepWindow::Auto => is_late(),
            StepWindow::Host => false,
            StepWindow::Device => true,
        };
    if steps.is_on_device {
        let windows = match steps.are_iterations() {
            true => iteration_windows(&steps.steps, all),
            false => device_windows(&steps.steps, all),
        };
        steps.steps.iter_mut().zip(windows).for_each(|(step, w)| step.window = w);
        steps.lag.held = held(&steps.steps, all, |s| s.window);
    }
    for step in &mut steps.steps {
        step.is_partial |= step.host.start < capture.start || step.host.end > capture.end;
    }
    if launched.iter().any(|n| *n > 0) && has_launches {
        let called = calls(steps, c, classes, captures);
        for (step, _) in
            steps.steps.iter_mut().zip(called.iter().zip(&launched)).filter(|(_, n)| *n.0 > 0 && *n.1 == 0)
        {
            (step.is_lost, step.is_partial) = (true, true);
        }
    }
    mark_small(steps, &launched, c);
    if !steps.are_iterations() {
        let known = steps.steps.iter().zip(&launched).map(|(s, n)| Some(*n).filter(|_| !s.is_partial));
        steps.period = StepPeriod::find(&known.collect::<Vec<_>>());
    }
}

/// Marks steps as partial that launch far less than is usual for their kind.
fn mark_small(steps: &mut Steps, launched: &[u64], c: &Columns) {
    // Where every k-th step does more, the others are not small, though they may be fewer.
    let seen = steps.steps.iter().zip(launched).map(|(s, n)| Some(*n).filter(|_| !s.is_partial));
    let period = StepPeriod::find(&seen.collect::<Vec<_>>()).filter(|_| !steps.are_iterations());
    let period = period.filter(|p| (0..steps.steps.len() as u32).filter(|i| !p.holds(*i)).count() > 1);
    let mut alike: BTreeMap<(Option<String>, bool), Vec<usize>> = BTreeMap::new();
    for (i, step) in steps.steps.iter().enumerate() {
        let kind = steps.are_iterations().then(|| iteration_kind(c.strings.get(step.name)));
        let does_more = period.is_some_and(|p| p.holds(i as u32));
        alike.entry((kind, does_more)).or_default().push(i);
    }
    for of_kind in alike.into_values().filter(|of| of.len() >= 3) {
        // Of what is lost nothing is known, so it does not say what is usual.
        let mut known: Vec<u64> =
            of_kind.iter().filter(|i| !steps.steps[**i].is_lost).map(|&i| launched[i]).collect();
        let Some(usual) = median(&mut known) else { continue };
        for i in of_kind {
            steps.steps[i].is_partial |= launched[i] * 5 < usual * 4;
        }
    }
}

/// Number of calls in each step that launch kernels or graphs, other than into a graph.
fn calls(steps: &Steps, c: &Columns, classes: &[Class], captures: &StreamCaptures) -> Vec<u64> {
    let is_launch = c.strings.each(is_launch_call);
    let pid = |lane: u32| c.lanes.get(lane as usize).map(|l| l.pid);
    let own = steps.lane.and_then(pid);
    let mut out = vec![0; steps.steps.len()];
    for (row, _) in classes.iter().enumerate().filter(|(_, class)| **class == Class::Runtime) {
        let is_own = || own.is_none() || pid(c.lane[row]) == own;
        if is_launch.holds(c.name(row)) && is_own() && !captures.hold(c, row as u32) {
            let step = steps.at(c.ts[row]).and_then(|s| out.get_mut(s as usize));
            step.into_iter().for_each(|n| *n += 1);
        }
    }
    out
}

/// How far the device is behind the host. The activities must have their steps, the windows must be those of
/// the host.
fn lag(steps: &[Step], all: &[Activity], has_launches: bool) -> Lag {
    if !has_launches {
        return Lag::default();
    }
    let mut last: Vec<Option<Ns>> = vec![None; steps.len()];
    let mut launched: Ns = 0;
    for a in all.iter().filter(|a| a.launch().is_some()) {
        if let Some(end) = a.step().and_then(|s| last.get_mut(s as usize)) {
            *end = (*end).max(Some(a.span.end));
            launched = launched.saturating_add(a.span.len());
        }
    }
    let lags = steps.iter().zip(&last).filter_map(|(s, end)| Some((*end)?.saturating_sub(s.host.end)));
    Lag { median: median(&mut lags.collect::<Vec<Ns>>()), launched, held: held(steps, all, |s| s.host) }
}

/// The part of what the steps launched that runs in windows, which are disjoint and in order.
fn held(steps: &[Step], all: &[Activity], window: impl Fn(&Step) -> Span) -> Ns {
    let mut before: Vec<Ns> = vec![0];
    before.extend(steps.iter().scan(0, |sum: &mut Ns, s| {
        *sum = sum.saturating_add(window(s).len());
        Some(*sum)
    }));
    let mut sum: Ns = 0;
    for a in all.iter().filter(|a| a.launch().is_some() && a.step().is_some()) {
        let first = steps.partition_point(|s| window(s).end <= a.span.start);
        let behind = steps.partition_point(|s| window(s).start < a.span.end);
        let over = steps.get(first..behind).unwrap_or_default();
        // The windows that it runs in, less the beginning of the first and the end of the last.
        if let (Some(from), Some(to)) = (over.first(), over.last()) {
            let outside = (a.span.start - window(from).start).max(0) + (window(to).end - a.span.end).max(0);
            sum = sum.saturating_add((before[behind] - before[first] - outside).max(0));
        }
    }
    sum
}

/// Whether the device's windows count: its work ends after the host's step, or after the last step by more
/// than one, or the host's windows hold too little of it.
fn is_late(steps: &[Step], all: &[Activity], lag: &Lag) -> bool {
    let host = median(&mut steps.iter().map(|s| s.host.len()).collect::<Vec<Ns>>()).unwrap_or(0);
    let is_behind = lag.median.is_some_and(|lag| i128::from(lag) * 100 > i128::from(host) * LAG_PCT);
    let owned = all.iter().filter(|a| a.launch().is_some() && a.step().is_some());
    let last = owned.map(|a| a.span.end).max().zip(steps.last());
    let runs_on = last.is_some_and(|(end, step)| end.saturating_sub(step.host.end) > host);
    is_behind || runs_on || misses_work(lag.held, lag.launched)
}

/// Each iteration's window on the device: from the first start of what was launched inside it, or the end of
/// the previous window, to the last end. An iteration that launched nothing has an empty window. The
/// activities must have their steps.
///
/// ```text
///   host      [iteration 0)post.....[iteration 1)
///   device         [0)[0==)   [post)     [1=======)
///   windows        [0     )              [1       )      what lies between is in no window
/// ```
pub(crate) fn iteration_windows(steps: &[Step], all: &[Activity]) -> Vec<Span> {
    let mut own: Vec<Option<Span>> = vec![None; steps.len()];
    for a in all {
        if let Some(window) = a.step().and_then(|s| own.get_mut(s as usize)) {
            *window = Some(window.map_or(a.span, |so_far| so_far.hull(a.span)));
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

/// The windows of iterations, each up to the start of the next one's. Of a rank that exchanges data with
/// others (`exchanges`: launch and end) each begins when the exchanges of the one before have ended: there
/// all ranks meet, but they begin when their schedulers are done, and time that belongs to neighbours on
/// different ranks would count twice.
///
/// ```text
///   rank 0   [0   )..[1 wwwwwwww)   w: waits for rank 1
///   rank 1   [0   )..........[1 )
///   periods  |  0    |     1    |   rank 0; for rank 1, iteration 0 is the long one
///   ends     |  0 |      1      |   of both
/// ```
pub(crate) fn periods(steps: &[Step], exchanges: &[(Ns, Ns)]) -> Vec<Span> {
    let window = |k: usize| steps.get(k).map_or(Span::new(0, 0), |step| step.window);
    let next = |k: usize| steps.get(k + 1).map_or(window(k).end, |next| next.window.start);
    if exchanges.is_empty() {
        return (0..steps.len()).map(|k| Span::new(window(k).start, next(k))).collect();
    }
    let mut ends: Vec<Ns> = steps.iter().map(|step| step.window.end).collect();
    for (launched, end) in exchanges {
        let before = steps.partition_point(|step| step.host.start <= *launched).checked_sub(1);
        if let Some(of) = before.and_then(|k| ends.get_mut(k)) {
            *of = (*end).max(*of);
        }
    }
    let mut at = window(0).start;
    let period = |end: Ns| {
        let span = Span::new(at, end.max(at));
        at = span.end;
        span
    };
    ends.into_iter().map(period).collect()
}

/// The windows of steps, each from the end of the one before: what lies between two steps, such as loading
/// its data, makes the next one late, on this rank and on those that wait for it.
///
/// ```text
///   windows  [step 0)....[step 1)....[step 2)
///   periods  [step 0)[step 1    )[step 2    )
/// ```
pub(crate) fn step_periods(steps: &[Step]) -> Vec<Span> {
    let first = steps.first().map(|s| s.window.start);
    let starts = first.into_iter().chain(steps.iter().map(|s| s.window.end));
    let period = |(step, start): (&Step, Ns)| Span::new(start.min(step.window.start), step.window.end);
    steps.iter().zip(starts).map(period).collect()
}

/// The time between each step and the next one.
pub fn gaps(steps: &[Step]) -> impl Iterator<Item = Span> {
    steps.windows(2).filter_map(|pair| match pair {
        [a, b] => Some(Span::new(a.window.end, b.window.start.max(a.window.end))),
        _ => None,
    })
}

/// Share of the time from the first step to the last that may lie between steps, percent. If it is more, a
/// step of the account begins with the end of the one before, so that this time has its place there.
const BETWEEN_PCT: i128 = 2;

/// Whether steps leave out more of the time between them than an account of them may.
pub(crate) fn leave_out_time(steps: &[Step]) -> bool {
    let (Some(first), Some(last)) = (steps.first(), steps.last()) else { return false };
    let between: Ns = gaps(steps).map(|gap| gap.len()).sum();
    let whole = last.window.end.saturating_sub(first.window.start);
    i128::from(between) * 100 > i128::from(whole) * BETWEEN_PCT
}

/// Each step's window on the device: from its start, or the end of the previous window, to the end of what
/// was launched inside it. The activities must have their steps.
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

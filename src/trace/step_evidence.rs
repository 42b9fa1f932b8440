//! Which repeats are steps. Times in ns.
//!
//! A step is a repeated unit of the whole program. Layers of one forward pass, phases of one request and
//! calls of one function repeat as well, and a mean or an outlier "per step" of them is wrong:
//!
//! ```text
//!   one pass  [embed)[layer)[layer)[layer)[layer)[head)       inside one frame that runs once: layers
//!   phases    [masks 0                 )[masks 3)[masks 3)    of lengths that differ 100 times, or different work: phases
//!   loop      [round 0)..[round 1)..[round 2)..[round 3)      most of the work and of the time, alike: steps
//! ```
//!
//! Marks of the profiler, iterations that an engine names and the user's pattern need no evidence.

use crate::activity::Activity;
use crate::category::Class;
use crate::events::Columns;
use crate::no_step::is_no_step;
use crate::step::{Repeated, Step, StepRule, Steps, mask};
use crate::step_name::{is_counted, part_of_step, says_step};
use crate::strings::StrId;
use hashbrown::HashMap;
use hta_base::units::{Ns, Span, fmt_ns, fmt_pct, percent};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Beginning of the frames of a module's forward pass.
const MODULE: &str = "nn.Module: ";

/// Least share of the work that steps launch, percent.
const HELD_PCT: i128 = 80;

/// Least share of the time of all work from the first step to the last, percent.
const EXTENT_PCT: i128 = 50;

/// Largest ratio of the longest to the shortest step. Only the first one, which compiles and loads, may be
/// longer.
const LENGTHS: i64 = 100;

/// Least share of a step's work under names that half of the steps have, percent.
const ALIKE_PCT: i128 = 50;

/// One activity by its launch call; on a CPU-only rank one operator.
struct Item {
    at: Ns,
    dur: Ns,
    end: Ns,
    name: StrId,
}

/// What a process launched, in order of the calls.
#[derive(Default)]
struct LaunchedByProcess {
    items: Vec<Item>,
    /// Before each item, and behind the last, the sum of durations.
    before: Vec<i128>,
}

impl LaunchedByProcess {
    /// Places of what was launched in a range.
    fn places(&self, range: Span) -> std::ops::Range<usize> {
        let at = |t: Ns| self.items.partition_point(|i| i.at < t);
        at(range.start)..at(range.end)
    }
}

/// What each process launched, in order of the calls.
pub(crate) struct LaunchedWork<'a> {
    c: &'a Columns,
    by_process: BTreeMap<StrId, LaunchedByProcess>,
    total: i128,
    /// First start to last end.
    window: Span,
    /// Whether the work has launches (on a CPU-only rank: operators), so that it can be said what ranges
    /// launch.
    is_known: bool,
}

impl<'a> LaunchedWork<'a> {
    pub(crate) fn new(c: &'a Columns, classes: &[Class], all: &[Activity]) -> Self {
        let mut by_process: BTreeMap<StrId, LaunchedByProcess> = BTreeMap::new();
        let (mut total, mut window) = (0, None);
        let mut add = |span: Span, call: Option<usize>, name: StrId| {
            total += i128::from(span.len());
            window = Some(window.map_or(span, |so_far: Span| so_far.hull(span)));
            let pid = call.and_then(|row| c.lanes.get(*c.lane.get(row)? as usize)).map(|l| l.pid);
            if let Some((pid, at)) = pid.zip(call.and_then(|row| c.ts.get(row))) {
                let item = Item { at: *at, dur: span.len(), end: span.end, name };
                by_process.entry(pid).or_default().items.push(item);
            }
        };
        for a in all {
            add(a.span, a.launch().map(|row| row as usize), a.name);
        }
        if all.is_empty() {
            for (row, _) in classes.iter().enumerate().filter(|(_, class)| **class == Class::HostOp) {
                add(c.span(row), Some(row), c.name(row));
            }
        }
        for of in by_process.values_mut() {
            of.items.sort_by_key(|i| i.at);
            let mut sum = 0;
            of.before = std::iter::once(0)
                .chain(of.items.iter().map(|i| i128::from(i.dur)))
                .map(|dur| {
                    sum += dur;
                    sum
                })
                .collect();
        }
        let is_known = !by_process.is_empty();
        Self { c, by_process, total, window: window.unwrap_or(Span::new(0, 0)), is_known }
    }

    fn process(&self, lane: u32) -> Option<&LaunchedByProcess> {
        self.by_process.get(&self.c.lanes.get(lane as usize)?.pid)
    }

    fn launched_in(&self, lane: u32, range: Span) -> &[Item] {
        self.process(lane).and_then(|of| of.items.get(of.places(range))).unwrap_or_default()
    }

    /// Summed duration of what the process of a thread launched in some ranges.
    pub(crate) fn time(&self, lane: u32, ranges: &[Span]) -> i128 {
        let Some(of) = self.process(lane) else { return 0 };
        let until = |at: usize| of.before.get(at).copied().unwrap_or(0);
        ranges.iter().map(|r| of.places(*r)).map(|p| until(p.end) - until(p.start)).sum()
    }
}

/// Decides whether repeats are steps.
pub(crate) struct StepEvidence<'a> {
    pub(crate) c: &'a Columns,
    pub(crate) classes: &'a [Class],
    pub(crate) work: &'a LaunchedWork<'a>,
    /// The repeats lie inside requests of an engine, which are no program of their own.
    pub(crate) in_requests: bool,
}

impl StepEvidence<'_> {
    /// Why inferred steps are none, if they are none.
    pub(crate) fn refusal(&self, steps: &Steps) -> Option<Repeated> {
        let ranges: Vec<Span> = steps.steps.iter().map(|s| s.host).collect();
        let lane = steps.lane.or_else(|| self.lane_of_first(steps))?;
        let names: Vec<&str> = steps.steps.iter().map(|s| self.c.strings.get(s.name)).collect();
        let first = names.first().copied().unwrap_or_default();
        let (what, why) = self
            .part_name(steps)
            .or_else(|| self.inside_one(steps, &ranges, lane, &names))
            .or_else(|| self.unlike(lane, &ranges))
            .or_else(|| self.too_little(lane, &ranges))?;
        Some(Repeated { what, count: ranges.len(), name: mask(first), why })
    }

    /// Whether ranges of a thread launch as much of the work as steps do, apart from the first of them. Costs
    /// as much as there are ranges, where [`Self::refusal`] looks at all events.
    pub(crate) fn hold_enough(&self, lane: u32, steps: &[Step]) -> bool {
        let ranges: Vec<Span> = steps.iter().map(|s| s.host).collect();
        let is_enough = |warm_up: &[Span], later: &[Span]| {
            let total = self.work.total - self.work.time(lane, warm_up);
            self.work.time(lane, later) * 100 >= total * HELD_PCT
        };
        let (first, later) = ranges.split_at(ranges.len().min(1));
        !self.work.is_known || is_enough(&[], &ranges) || is_enough(first, later)
    }

    /// The thread of the first step.
    fn lane_of_first(&self, steps: &Steps) -> Option<u32> {
        let (first, c) = (steps.steps.first()?, self.c);
        let is_first = |row: &usize| c.ts[*row] == first.host.start && c.name(*row) == first.name;
        (0..c.len()).find(is_first).and_then(|row| c.lane.get(row).copied())
    }

    /// Names of parts of a step.
    fn part_name(&self, steps: &Steps) -> Option<(&'static str, String)> {
        let parts: Vec<Option<&'static str>> =
            steps.steps.iter().map(|s| part_of_step(self.c.strings.get(s.name))).collect();
        let part = parts.iter().copied().flatten().next()?;
        parts.iter().all(Option::is_some).then(|| (part, "their names number parts of a step".to_string()))
    }

    /// All inside forward passes of one module, inside ranges of one name, or (kernels) inside one operator,
    /// each of which holds two or more. Ranges may be around those that are called steps, or count up.
    fn inside_one(
        &self,
        steps: &Steps,
        ranges: &[Span],
        lane: u32,
        names: &[&str],
    ) -> Option<(&'static str, String)> {
        let c = self.c;
        let pid = |lane: u32| c.lanes.get(lane as usize).map(|l| l.pid);
        let is_free = says_step(names);
        let may_be_inside_ranges = !is_free && !self.in_requests && !is_counted(names);
        let kinds = c.strings.each(|text| self.around(text));
        // By name: the first and last of the ranges that each holds.
        let mut around: BTreeMap<StrId, Vec<(usize, usize)>> = BTreeMap::new();
        for row in (0..self.classes.len()).filter(|row: &usize| match self.classes.get(*row) {
            Some(Class::Python) => !is_free && kinds.get(c.name(*row)) == Some(&Some(Class::Python)),
            Some(Class::Annotation) => {
                may_be_inside_ranges && kinds.get(c.name(*row)).is_some_and(Option::is_some)
            }
            Some(Class::HostOp) => steps.rule == StepRule::Repeat,
            _ => false,
        }) {
            let span = c.span(row);
            let from = ranges.partition_point(|r| r.start < span.start);
            let to = ranges.partition_point(|r| r.end <= span.end);
            if to >= from + 2 && ranges.get(from) != Some(&span) && pid(c.lane[row]) == pid(lane) {
                around.entry(c.name(row)).or_default().push((from, to));
            }
        }
        let mut all: Vec<(usize, StrId)> = Vec::new();
        for (name, mut held) in around {
            held.sort_unstable();
            let mut until = 0;
            let is_whole = held.iter().all(|(from, to)| {
                let follows = *from <= until;
                until = until.max(*to);
                follows
            });
            if is_whole && until == ranges.len() {
                all.push((held.len(), name));
            }
        }
        // The innermost: that with most calls.
        let (calls, name) = all.into_iter().max_by_key(|(calls, name)| (*calls, Reverse(*name)))?;
        let name = c.strings.get(name);
        let is_module = name.starts_with(MODULE);
        let what = if is_module && steps.rule == StepRule::Repeat { "layers" } else { "repeats" };
        Some((what, format!("all inside {} `{name}`", if calls == 1 { "one" } else { "calls of" })))
    }

    /// What a name can be around layers: a forward pass of a module, or a range.
    fn around(&self, name: &str) -> Option<Class> {
        match name.starts_with(MODULE) {
            true => Some(Class::Python),
            false => (!is_no_step(name)).then_some(Class::Annotation),
        }
    }

    /// Ranges that do different work.
    fn unlike(&self, lane: u32, ranges: &[Span]) -> Option<(&'static str, String)> {
        if !self.work.is_known {
            return None;
        }
        let of_range = |r: &Span| {
            let mut times: HashMap<StrId, i128> = HashMap::new();
            for item in self.work.launched_in(lane, *r) {
                *times.entry(item.name).or_default() += i128::from(item.dur);
            }
            times
        };
        let times: Vec<HashMap<StrId, i128>> = ranges.iter().map(of_range).collect();
        let mut having: HashMap<StrId, usize> = HashMap::new();
        times.iter().flat_map(|of| of.keys()).for_each(|name| *having.entry(*name).or_default() += 1);
        let is_usual = |name: &StrId| having.get(name).is_some_and(|n| *n >= 2 && n * 2 >= ranges.len());
        let is_alike = |of: &&HashMap<StrId, i128>| {
            let sum =
                |usual: bool| of.iter().filter(|(n, _)| !usual || is_usual(n)).map(|(_, t)| t).sum::<i128>();
            sum(false) > 0 && sum(true) * 100 >= sum(false) * ALIKE_PCT
        };
        let alike = times.iter().filter(is_alike).count();
        let why = || format!("{alike} of {} do the same work", ranges.len());
        (alike * 2 < ranges.len()).then(|| ("phases", why()))
    }

    /// Ranges that hold too little of the work or of the time, or of lengths that differ too much. The first
    /// one may differ: it compiles.
    fn too_little(&self, lane: u32, ranges: &[Span]) -> Option<(&'static str, String)> {
        let later = ranges.get(1..).filter(|later| later.len() >= 2);
        let of_all = self.measured(lane, ranges, None)?;
        let rest = later.zip(ranges.first()).map(|(later, first)| self.measured(lane, later, Some(*first)));
        match rest {
            Some(None) => None,
            _ => Some(("repeats", of_all)),
        }
    }

    /// Why some ranges are no steps, leaving out `warm_up` with all that came before the first of them.
    fn measured(&self, lane: u32, ranges: &[Span], warm_up: Option<Span>) -> Option<String> {
        let (first, last) = (ranges.first()?, ranges.last()?);
        let lengths = ranges.iter().map(|r| r.len());
        let (shortest, longest) = (lengths.clone().min()?, lengths.max()?);
        if shortest.saturating_mul(LENGTHS) < longest {
            return Some(format!("their lengths go from {} to {}", fmt_ns(shortest), fmt_ns(longest)));
        }
        let window = self.work.window;
        let from = if warm_up.is_some() { first.start.clamp(window.start, window.end) } else { window.start };
        let window = Span::new(from, window.end);
        let all = Span::new(first.start, last.end);
        let end =
            self.work.launched_in(lane, all).iter().map(|i| i.end).max().unwrap_or(last.end).max(last.end);
        let extent = window.intersect(Span::new(first.start, end)).len();
        if i128::from(extent) * 100 < i128::from(window.len()) * EXTENT_PCT {
            let share = fmt_pct(percent(extent, window.len()));
            return Some(format!("they take {share} of the time from the first work to the last"));
        }
        if !self.work.is_known {
            return None;
        }
        let total = self.work.total - warm_up.map_or(0, |w| self.work.time(lane, &[w]));
        let held = self.work.time(lane, ranges);
        let share =
            |part: i128, whole: i128| fmt_pct((whole > 0).then(|| part as f64 * 100.0 / whole as f64));
        (held * 100 < total * HELD_PCT).then(|| format!("they launch {} of the work", share(held, total)))
    }
}

//! Which repeats are steps. Times in ns.
//!
//! A step is a repeated unit of the whole program. Layers of one forward pass, phases of one request and calls of one
//! function repeat as well, and a mean or an outlier "per step" of them is wrong:
//!
//! ```text
//!   one pass  [embed)[layer)[layer)[layer)[layer)[head)       inside one frame that runs once: layers
//!   phases    [masks 0                 )[masks 3)[masks 3)    of lengths that differ 100 times, or different work: phases
//!   loop      [round 0)..[round 1)..[round 2)..[round 3)      most of the work and of the time, alike: steps
//! ```
//!
//! Marks of the profiler, iterations that an engine names and the user's pattern need no evidence.

use crate::trace::activity::Activity;
use crate::trace::category::Class;
use crate::trace::events::Columns;
use crate::trace::no_step::is_no_step;
use crate::trace::step::{Repeated, StepRule, Steps, mask};
use crate::trace::step_name::{is_counted, part_of_step, says_step};
use crate::trace::strings::StrId;
use crate::units::{Ns, Span, fmt_ns, fmt_pct, percent};
use hashbrown::HashMap;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Beginning of the frames of a module's forward pass.
const MODULE: &str = "nn.Module: ";

/// Least share of the work that steps launch, percent.
const HELD_PCT: i128 = 80;

/// Least share of the time of all work from the first step to the last, percent.
const EXTENT_PCT: i128 = 50;

/// Largest ratio of the longest to the shortest step. Only the first one, which compiles and loads, may be longer.
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
struct Launched {
    items: Vec<Item>,
    /// Before each item, and behind the last, the sum of durations.
    before: Vec<i128>,
}

impl Launched {
    /// Places of what was launched in a range.
    fn places(&self, range: Span) -> std::ops::Range<usize> {
        let at = |t: Ns| self.items.partition_point(|i| i.at < t);
        at(range.start)..at(range.end)
    }
}

/// What each process launched, in order of the calls.
pub struct LaunchedWork<'a> {
    c: &'a Columns,
    by_process: BTreeMap<StrId, Launched>,
    total: i128,
    /// First start to last end.
    window: Span,
    /// Whether the work has launches (on a CPU-only rank: operators), so that it can be said what ranges launch.
    is_known: bool,
}

impl<'a> LaunchedWork<'a> {
    pub fn new(c: &'a Columns, classes: &[Class], all: &[Activity]) -> Self {
        let mut by_process: BTreeMap<StrId, Launched> = BTreeMap::new();
        let (mut total, mut window) = (0, None);
        let mut add = |span: Span, call: Option<usize>, name: StrId| {
            total += i128::from(span.len());
            let so_far: Span = window.unwrap_or(span);
            window = Some(Span::new(so_far.start.min(span.start), so_far.end.max(span.end)));
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

    fn process(&self, lane: u32) -> Option<&Launched> {
        self.by_process.get(&self.c.lanes.get(lane as usize)?.pid)
    }

    fn launched_in(&self, lane: u32, range: Span) -> &[Item] {
        self.process(lane).and_then(|of| of.items.get(of.places(range))).unwrap_or_default()
    }

    /// Summed duration of what the process of a thread launched in some ranges.
    pub fn time(&self, lane: u32, ranges: &[Span]) -> i128 {
        let Some(of) = self.process(lane) else { return 0 };
        let until = |at: usize| of.before.get(at).copied().unwrap_or(0);
        ranges.iter().map(|r| of.places(*r)).map(|p| until(p.end) - until(p.start)).sum()
    }
}

/// Decides whether repeats are steps.
pub struct Evidence<'a> {
    pub c: &'a Columns,
    pub classes: &'a [Class],
    pub work: &'a LaunchedWork<'a>,
    /// The repeats lie inside requests of an engine, which are no program of their own.
    pub in_requests: bool,
}

impl Evidence<'_> {
    /// Why inferred steps are none, if they are none.
    pub fn refusal(&self, steps: &Steps) -> Option<Repeated> {
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

    /// All inside forward passes of one module, inside ranges of one name, or (kernels) inside one operator, each of
    /// which holds two or more. Ranges may be around those that are called steps, or count up.
    fn inside_one(&self, steps: &Steps, ranges: &[Span], lane: u32, names: &[&str]) -> Option<(&'static str, String)> {
        let c = self.c;
        let pid = |lane: u32| c.lanes.get(lane as usize).map(|l| l.pid);
        let is_free = says_step(names);
        let kinds: Vec<Option<Class>> = c.strings.iter().map(|(_, text)| self.around(text)).collect();
        let counts = |row: &usize| match self.classes.get(*row) {
            Some(Class::Python) => !is_free && kinds.get(c.name(*row).0 as usize) == Some(&Some(Class::Python)),
            Some(Class::Annotation) => {
                let may_be = kinds.get(c.name(*row).0 as usize).is_some_and(Option::is_some);
                !is_free && !self.in_requests && may_be && !is_counted(names)
            }
            Some(Class::HostOp) => steps.rule == StepRule::Repeat,
            _ => false,
        };
        // By name: the first and last of the ranges that each holds.
        let mut around: BTreeMap<StrId, Vec<(usize, usize)>> = BTreeMap::new();
        for row in (0..self.classes.len()).filter(counts) {
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
            let sum = |usual: bool| of.iter().filter(|(n, _)| !usual || is_usual(n)).map(|(_, t)| t).sum::<i128>();
            sum(false) > 0 && sum(true) * 100 >= sum(false) * ALIKE_PCT
        };
        let alike = times.iter().filter(is_alike).count();
        let why = || format!("{alike} of {} do the same work", ranges.len());
        (alike * 2 < ranges.len()).then(|| ("phases", why()))
    }

    /// Ranges that hold too little of the work or of the time, or of lengths that differ too much. The first one may
    /// differ: it compiles.
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
        let end = self.work.launched_in(lane, all).iter().map(|i| i.end).max().unwrap_or(last.end).max(last.end);
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
        let share = |part: i128, whole: i128| fmt_pct((whole > 0).then(|| part as f64 * 100.0 / whole as f64));
        (held * 100 < total * HELD_PCT).then(|| format!("they launch {} of the work", share(held, total)))
    }
}

#[cfg(test)]
pub(crate) use tests::rank;

#[cfg(test)]
mod tests {
    use crate::read::input::Input;
    use crate::read::load::load;
    use crate::read::options::LoadOptions;
    use crate::read::reading::Spread;
    use crate::read::source::ByteCount;
    use crate::trace::meta::RankSource;
    use crate::trace::rank_trace::{ModelOptions, RankTrace};
    use crate::trace::testing::{TraceBuilder, us};

    /// The model of a trace that is written and read.
    pub(crate) fn rank(t: &TraceBuilder, options: &ModelOptions) -> RankTrace {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rank_0.json");
        std::fs::write(&path, t.to_json()).unwrap();
        let input = Input::named(path);
        let l = load(&input, LoadOptions::default(), Spread::Inline, &ByteCount::default()).unwrap();
        let (meta, columns) = (l.meta, l.columns);
        RankTrace::new(0, RankSource::File, input.shown, l.unpacked_bytes, meta, columns, options)
    }

    /// Ranges of 100 us, one each millisecond, with a kernel of 50 us.
    fn ranges(names: &[&str]) -> TraceBuilder {
        let mut t = TraceBuilder::new().rank(0).device("NVIDIA H100", 132);
        let mut main = t.thread(1);
        for (k, name) in (0..).zip(names) {
            let at = 1_000 * k;
            main.annotation(name, us(at)..us(at + 100));
            main.launch(us(at + 10)..us(at + 15)).kernel("gemm", 7, us(at + 20)..us(at + 70));
        }
        t
    }

    fn found(t: &TraceBuilder) -> (&'static str, Option<(&'static str, String)>) {
        let steps = rank(t, &ModelOptions::default()).steps;
        (steps.rule.name(), steps.repeated.map(|r| (r.what, r.why)))
    }

    fn refused(t: &TraceBuilder) -> (&'static str, String) {
        let (rule, why) = found(t);
        assert_eq!(rule, "capture");
        why.unwrap()
    }

    #[test]
    fn rounds_of_a_loop_are_steps() {
        assert_eq!(found(&ranges(&["round 0", "round 1", "round 2", "round 3"])), ("annotation", None));
        assert_eq!(found(&ranges(&["Stage::Task::run"; 4])), ("annotation", None));
    }

    #[test]
    fn layers_and_phases_are_told_by_their_names() {
        let why = "their names number parts of a step".to_string();
        assert_eq!(refused(&ranges(&["layer 0", "layer 1", "layer 2"])), ("layers", why.clone()));
        assert_eq!(refused(&ranges(&["phase_0", "phase_1"])), ("phases", why));
    }

    #[test]
    fn ranges_that_do_different_work_are_phases() {
        let mut t = TraceBuilder::new().rank(0).device("NVIDIA H100", 132);
        let mut main = t.thread(1);
        for k in 0..4 {
            main.annotation(&format!("masks {k}"), us(100 * k)..us(100 * k + 90));
            main.launch(us(100 * k + 10)..us(100 * k + 15)).kernel(
                &format!("k{k}"),
                7,
                us(100 * k + 20)..us(100 * k + 60),
            );
        }
        assert_eq!(refused(&t), ("phases", "0 of 4 do the same work".to_string()));
    }

    #[test]
    fn ranges_of_very_different_lengths_are_no_steps_unless_it_is_the_first() {
        let mut t = ranges(&["round 0", "round 1", "round 2", "round 3"]);
        t.thread(1).annotation("round 4", us(4_000)..us(20_000));
        let (what, why) = refused(&t);
        assert_eq!((what, why.as_str()), ("repeats", "their lengths go from 100 us to 16.0 ms"));
        let mut t = TraceBuilder::new().rank(0).device("NVIDIA H100", 132);
        let mut main = t.thread(1);
        for k in 0..4 {
            let (at, len) = if k == 0 { (0, 20_000) } else { (20_000 + 100 * k, 90) };
            main.annotation(&format!("round {k}"), us(at)..us(at + len));
            main.launch(us(at + 10)..us(at + 15)).kernel("gemm", 7, us(at + 20)..us(at + 60));
        }
        assert_eq!(found(&t), ("annotation", None));
    }

    #[test]
    fn ranges_that_hold_little_of_the_work_are_no_steps() {
        let mut t = ranges(&["round 0", "round 1", "round 2"]);
        t.thread(1).launch(us(2_200)..us(2_210)).kernel("other", 7, us(2_220)..us(2_260));
        let (_, why) = refused(&t);
        assert_eq!(why, "they launch 78.9 % of the work");
        let mut t = ranges(&["round 0", "round 1", "round 2"]);
        t.thread(1).launch(us(9_000)..us(9_001)).kernel("other", 7, us(9_010)..us(9_011));
        let (_, why) = refused(&t);
        assert!(why.ends_with("of the time from the first work to the last"), "{why}");
    }

    #[test]
    fn repeats_inside_one_module_are_layers() {
        let mut t = TraceBuilder::new().rank(0).device("NVIDIA H100", 132);
        let mut main = t.thread(1);
        for k in 0..4 {
            for (i, name) in (0..).zip(["a", "b", "c"]) {
                let at = 1_000 * k + 100 * i + 20;
                main.launch(us(at)..us(at + 5)).kernel(name, 7, us(at + 10)..us(at + 90));
            }
        }
        assert_eq!(found(&t), ("repeat", None));
        let mut twice = t.clone();
        t.thread(1).frame("nn.Module: Model_0", us(0)..us(5_000));
        assert_eq!(refused(&t), ("layers", "all inside one `nn.Module: Model_0`".to_string()));
        twice.thread(1).frame("nn.Module: Model_0", us(0)..us(1_900));
        twice.thread(1).frame("nn.Module: Model_0", us(1_950)..us(5_000));
        assert_eq!(refused(&twice), ("layers", "all inside calls of `nn.Module: Model_0`".to_string()));
    }
}

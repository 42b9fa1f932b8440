//! Iterations that no engine names: of diffusion models and plain loops, by what repeats. Times in ns.
//!
//! ```text
//!   host      [generate                                    )     the outer range: the only one, or an image request
//!               [denoise 0)   [denoise 1)   [denoise 2)          (i) names that differ in digits
//!   calls       lll l         lll l         lll l
//!   stream        aab c         aab c         aab c              (ii) a sequence of kernels; its launches are the range
//!   without (i) [    )        [    )        [    )
//! ```
//!
//! Either counts if there are three disjoint ranges or more that are steps by `step_evidence`. In training,
//! layers repeat more often than steps do, and a step has its mark; so what trains is left alone.

use crate::activity::Activity;
use crate::category::Class;
use crate::events::Columns;
use crate::iteration::{Engine, Iteration};
use crate::no_step::is_no_step;
use crate::repeat::{self, MinimumSize};
use crate::step::{Step, StepRule, Steps, build, mask, repeated_annotations};
use crate::step_evidence::{LaunchedWork, StepEvidence};
use crate::strings::StrId;
use crate::title::CollectiveOps;
use hashbrown::HashMap;
use hta_base::units::Span;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Fewest ranges.
const FEWEST: usize = 3;

/// Most sets of annotations that are judged although another set covers more time: a file may have as many
/// sets as it has annotations, and each is compared with all events.
const MOST_SETS: usize = 64;

/// What counts as a repeat, as in `hta patterns`.
const LEAST: MinimumSize = MinimumSize { length: 3, count: 3 };

/// Parts of names that only training has.
const TRAINING: [&str; 7] = ["backward", "_bwd", "bwd_", "wgrad", "dgrad", "optimizer.step", "adam"];

/// The steps themselves if they have marks, else what repeats and is a step. Fewer than three image requests
/// are no iterations if something repeats inside them.
pub(crate) fn or_repeats(
    mut found: Steps,
    c: &Columns,
    classes: &[Class],
    collectives: &CollectiveOps,
    all: &[Activity],
) -> Steps {
    let is_request = |s: &Step| is_request(c.strings.get(s.name));
    let outer: Option<Vec<Span>> = match found.rule {
        StepRule::Capture | StepRule::Annotation => None,
        StepRule::Iteration if found.steps.len() < FEWEST && found.steps.iter().all(is_request) => {
            Some(found.steps.iter().map(|s| s.host).collect())
        }
        _ => return found,
    };
    let may_repeat = all.iter().any(|a| a.launch().is_some()) && !trains(c, classes, all);
    if found.rule != StepRule::Annotation && !may_repeat {
        return found;
    }
    let work = LaunchedWork::new(c, classes, all);
    let evidence = StepEvidence { c, classes, work: &work, in_requests: outer.is_some() };
    let mut repeated = None;
    if found.rule == StepRule::Annotation {
        repeated = evidence.refusal(&found);
        if repeated.is_none() {
            return found;
        }
        // What covers most time may be a phase of each step, such as loading data.
        let mut others = repeated_annotations(c, classes, collectives)
            .skip(1)
            .filter(|(lane, steps)| evidence.hold_enough(*lane, steps))
            .take(MOST_SETS)
            .map(|(_, steps)| Steps::new(StepRule::Annotation, steps));
        if let Some(steps) = others.find(|steps| evidence.refusal(steps).is_none()) {
            return Steps { has_profiler_steps: found.has_profiler_steps, ..steps };
        }
        found = Steps {
            has_profiler_steps: found.has_profiler_steps,
            ..Steps::new(StepRule::Capture, Vec::new())
        };
    }
    if may_repeat {
        let inner = inner_annotations(c, classes, collectives, &work, outer.is_some());
        for steps in inner.into_iter().chain(repeats(c, all, &work, outer.as_deref())) {
            match evidence.refusal(&steps) {
                None => return Steps { has_profiler_steps: found.has_profiler_steps, ..steps },
                Some(why) => repeated = repeated.or(Some(why)),
            }
        }
    }
    if found.rule == StepRule::Capture {
        found.repeated = repeated;
    }
    found
}

fn is_request(name: &str) -> bool {
    Iteration::parse(name).is_some_and(|i| i.engine == Some(Engine::Diffusion))
}

/// Whether the rank trains, by the names of its kernels, operators and ranges.
fn trains(c: &Columns, classes: &[Class], all: &[Activity]) -> bool {
    let mut is_known = vec![false; c.strings.len()];
    let mut is_new =
        |name: StrId| is_known.get_mut(name.0 as usize).is_some_and(|known| !std::mem::replace(known, true));
    let host = (0..classes.len())
        .filter(|&r| matches!(classes[r], Class::HostOp | Class::Annotation))
        .map(|r| c.name(r));
    all.iter().map(|a| a.name).chain(host).filter(|name| is_new(*name)).any(|name| {
        let lower = c.strings.get(name).to_ascii_lowercase();
        TRAINING.iter().any(|part| lower.contains(part))
    })
}

fn is_disjoint(ranges: &[Span]) -> bool {
    ranges.windows(2).all(|pair| matches!(pair, [a, b] if a.end <= b.start))
}

/// Annotations inside one other (or directly inside image requests) whose names differ in digits; of several
/// sets, that with most GPU time.
fn inner_annotations(
    c: &Columns,
    classes: &[Class],
    collectives: &CollectiveOps,
    work: &LaunchedWork,
    in_requests: bool,
) -> Option<Steps> {
    /// Stands for all image requests.
    const REQUESTS: u32 = u32::MAX;
    let mut by_lane: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for row in (0..classes.len()).filter(|&r| classes[r] == Class::Annotation && c.dur[r] > 0) {
        by_lane.entry(c.lane[row]).or_default().push(row as u32);
    }
    // Each name once.
    let mut masked: HashMap<StrId, Option<String>> = HashMap::new();
    let mut groups: BTreeMap<(u32, u32, String), Vec<u32>> = BTreeMap::new();
    for (lane, mut rows) in by_lane {
        crate::thread::sort_outer_first(&mut rows, c);
        let mut open: Vec<u32> = Vec::new();
        for row in rows {
            let span = c.span(row as usize);
            while open.last().is_some_and(|o| c.span(*o as usize).end <= span.start) {
                open.pop();
            }
            let parent = open.last().copied().filter(|o| c.span(*o as usize).end >= span.end);
            open.push(row);
            let Some(parent) = parent else { continue };
            let is_of_request = in_requests && is_request(c.strings.get(c.name(parent as usize)));
            let name = c.name(row as usize);
            let as_group = |text: &str| (!is_no_step(text)).then(|| mask(text));
            if let Some(name) = masked.entry(name).or_insert_with(|| as_group(c.strings.get(name)))
                && is_of_request == in_requests
                && !collectives.hold(c, row)
            {
                let parent = if in_requests { REQUESTS } else { parent };
                groups.entry((lane, parent, name.clone())).or_default().push(row);
            }
        }
    }
    let mut best: Option<(i128, u32, Vec<u32>)> = None;
    for ((lane, ..), rows) in groups.into_iter().filter(|(_, rows)| rows.len() >= FEWEST) {
        let ranges: Vec<Span> = rows.iter().map(|r| c.span(*r as usize)).collect();
        let held = is_disjoint(&ranges).then(|| work.time(lane, &ranges));
        if let Some(held) =
            held.filter(|held| *held > 0).filter(|held| best.as_ref().is_none_or(|b| *held > b.0))
        {
            best = Some((held, lane, rows));
        }
    }
    let (_, lane, rows) = best?;
    Some(Steps { lane: Some(lane), ..Steps::new(StepRule::InnerAnnotation, build(c, rows, |_| None)) })
}

/// The sequence of kernels with most GPU time that repeats on a stream: from the first launch of each
/// occurrence to the last. Streams are tried in the order of that time.
fn repeats(c: &Columns, all: &[Activity], work: &LaunchedWork, outer: Option<&[Span]>) -> Option<Steps> {
    let mut by_stream: BTreeMap<(Option<i64>, Option<i64>), Vec<&Activity>> = BTreeMap::new();
    for a in all {
        by_stream.entry((a.device(), a.stream())).or_default().push(a);
    }
    let mut found: Vec<(i64, Vec<Span>, u32)> =
        by_stream.into_values().filter_map(|activities| best_of_stream(c, &activities)).collect();
    found.sort_by_key(|(weight, ..)| Reverse(*weight));
    let is_inside =
        |r: &Span| outer.is_none_or(|all| all.iter().any(|o| o.start <= r.start && r.end <= o.end));
    let (_, ranges, lane) = found.into_iter().find(|(_, ranges, lane)| {
        ranges.len() >= FEWEST
            && is_disjoint(ranges)
            && work.time(*lane, ranges) > 0
            && ranges.iter().all(is_inside)
    })?;
    let step = |(index, host): (u32, Span)| Step {
        index,
        label: None,
        name: StrId::EMPTY,
        host,
        window: host,
        is_lost: false,
        is_partial: false,
    };
    let steps = (0..).zip(ranges).map(step).collect();
    Some(Steps { lane: Some(lane), ..Steps::new(StepRule::Repeat, steps) })
}

/// The repeat of a stream with most GPU time: this time, the launches of each occurrence, and the thread of
/// the first.
fn best_of_stream(c: &Columns, activities: &[&Activity]) -> Option<(i64, Vec<Span>, u32)> {
    let mut known: HashMap<StrId, u32> = HashMap::new();
    let symbol = |a: &&Activity| {
        let next = known.len() as u32;
        *known.entry(a.name).or_insert(next)
    };
    let symbols: Vec<u32> = activities.iter().map(symbol).collect();
    let durs: Vec<i64> = activities.iter().map(|a| a.span.len()).collect();
    let found = repeat::repeats(&symbols, &durs, LEAST);
    let best = found.patterns.iter().max_by_key(|p| (p.weight, Reverse(p.length()), Reverse(p.first)))?;
    let mut lane = None;
    let mut launches = |first: &u32| {
        let occurrence = activities.get(*first as usize..*first as usize + best.length() as usize)?;
        let mut span: Option<Span> = None;
        for call in occurrence.iter().filter_map(|a| a.launch()) {
            let call_span = c.span(call as usize);
            lane.get_or_insert(c.lane[call as usize]);
            span = Some(span.map_or(call_span, |so_far| so_far.hull(call_span)));
        }
        span.filter(|s| !s.is_empty())
    };
    let ranges: Vec<Span> = found.taken(best).iter().map(&mut launches).collect::<Option<_>>()?;
    Some((best.weight, ranges, lane?))
}

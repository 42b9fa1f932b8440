//! The loop of a job whose processes have phases (rollout, scoring, training, weight synchronization): its
//! periods, what each rank does in them, and for whom it waits otherwise.
//!
//! ```text
//!   engine 0   [rollout ]            [sync]|[rollout ...        a period goes from one start of the first
//! phase to
//!   engine 1   [rollout .....tail]   [sync]|[rollout ...        the next; the last one ends with its last
//! phase
//!   actor                  [train]   [sync]|
//!   waits for   rollout ........     nobody
//! ```
//!
//! A new period begins with the kind of phase that came first, once a training phase has ended since. Phases
//! of different programs are compared on one clock only: times since 1970 of one host. A rank's phases are
//! disjoint, so that its period is the sum of them and of its idle time.

use crate::joined::Job;
use crate::part::RankSummary;
use crate::tail::{Tail, tail};
use hta_base::units::{Ns, Span};
use hta_facts::role_phases::RolePhase;
use hta_trace::interval::Union;
use hta_trace::role_phase::LoopPhase;
use std::collections::{BTreeMap, BTreeSet};

/// The phases of a job in its periods.
#[derive(Debug, Clone, Default)]
pub struct JobLoops {
    /// Why phases of different programs cannot be compared, if so.
    pub withheld: Option<&'static str>,
    /// In order of time; on the common axis.
    pub periods: Vec<LoopPeriod>,
}

/// One period.
#[derive(Debug, Clone)]
pub struct LoopPeriod {
    pub span: Span,
    /// By part with phases, in order.
    pub ranks: Vec<PeriodOfRank>,
    pub tail: Option<Tail>,
}

/// What a rank does in a period.
#[derive(Debug, Clone)]
pub struct PeriodOfRank {
    pub part: u32,
    /// All of the period, in order of time.
    pub stretches: Vec<RoleStretch>,
    /// By kind: time and (second) the part in which a device worked, ns.
    pub phases: BTreeMap<LoopPhase, (Ns, Ns)>,
    /// Idle time by what others do meanwhile; `None`: no phase of another runs.
    pub idle: BTreeMap<Option<LoopPhase>, Ns>,
}

/// A phase of a rank, or idle time between its phases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoleStretch {
    pub span: Span,
    /// Its own phase, with the part in which a device worked; or what another does meanwhile.
    pub does: Result<(LoopPhase, Ns), Option<LoopPhase>>,
}

impl PeriodOfRank {
    pub fn idle_ns(&self) -> Ns {
        self.idle.values().sum()
    }

    /// Whether the rank has a phase of this kind in the period.
    pub fn does(&self, phase: LoopPhase) -> bool {
        self.phases.contains_key(&phase)
    }
}

/// Phases by part, on the common axis.
type PartPhases = Vec<(u32, Vec<RolePhase>)>;

impl JobLoops {
    pub fn of(job: &Job) -> std::sync::Arc<Self> {
        job.shared(Self::new)
    }

    fn new(job: &Job) -> Self {
        let mut all = annotated(job);
        let kinds: BTreeSet<LoopPhase> = all.iter().flat_map(|(_, of)| of).map(|p| p.phase).collect();
        if kinds.is_empty() {
            return Self::default();
        }
        if let Some(why) = not_on_one_axis(job) {
            return Self { withheld: Some(why), periods: Vec::new() };
        }
        all.extend(of_engines(job, &all));
        all.sort_by_key(|(part, _)| *part);
        let periods = periods(&all).into_iter().map(|span| LoopPeriod::new(job, &all, span)).collect();
        Self { withheld: None, periods }
    }
}

/// The annotated phases.
fn annotated(job: &Job) -> PartPhases {
    let on_axis = |part: u32, p: &RolePhase| RolePhase { span: job.aligned_span(part, p.span), ..*p };
    let of = |(part, p): (u32, &RankSummary)| (part, p.phases.iter().map(|f| on_axis(part, f)).collect());
    (0u32..).zip(&job.parts).filter(|(_, p)| !p.phases.is_empty()).map(of).collect()
}

/// Why times of different programs have no common axis, if so.
fn not_on_one_axis(job: &Job) -> Option<&'static str> {
    if job.parts.iter().any(|p| !p.has_origin) {
        return Some("the times of a process have no origin");
    }
    let programs: BTreeSet<u32> = job.parts.iter().map(RankSummary::program).collect();
    let hosts: BTreeSet<Option<&str>> = job.parts.iter().map(|p| p.host.as_deref()).collect();
    let is_one_host = hosts.len() == 1 && !hosts.contains(&None);
    (programs.len() > 1 && !is_one_host).then_some("its programs are not recorded on one host")
}

/// The iterations of inference engines without annotations: a phase of rollout is a sequence of iterations in
/// which no training phase begins.
fn of_engines(job: &Job, all: &PartPhases) -> PartPhases {
    let mut cuts: Vec<Ns> = all
        .iter()
        .flat_map(|(_, of)| of)
        .filter(|p| p.phase == LoopPhase::Train)
        .map(|p| p.span.start)
        .collect();
    cuts.sort_unstable();
    let is_engine = |p: &RankSummary| p.phases.is_empty() && p.step_rule.is_iteration();
    let mut out = Vec::new();
    for (part, p) in (0u32..).zip(&job.parts).filter(|(_, p)| is_engine(p)) {
        let mut phases: Vec<RolePhase> = Vec::new();
        for step in &p.steps {
            let span = job.aligned_span(part, step.window);
            let is_cut =
                |from: Ns| cuts.get(cuts.partition_point(|c| *c < from)).is_some_and(|c| *c <= span.start);
            match phases.last_mut() {
                Some(last) if !is_cut(last.span.end) => {
                    last.busy += Span::new(span.start.max(last.span.end), span.end.max(last.span.end)).len();
                    last.span.end = last.span.end.max(span.end);
                }
                _ => phases.push(RolePhase { phase: LoopPhase::Rollout, span, busy: span.len() }),
            }
        }
        if !phases.is_empty() {
            out.push((part, phases));
        }
    }
    out
}

/// The periods; the last one only if it has all kinds of phases that the first one has.
fn periods(all: &PartPhases) -> Vec<Span> {
    let mut phases: Vec<&RolePhase> = all.iter().flat_map(|(_, of)| of).collect();
    phases.sort_by_key(|p| (p.span.start, p.phase, p.span.end));
    let Some(first) = phases.first().map(|p| p.phase) else { return Vec::new() };
    let trains = phases.iter().any(|p| p.phase == LoopPhase::Train);
    let closes = |p: &RolePhase| if trains { p.phase == LoopPhase::Train } else { p.phase != first };
    let mut ends: Vec<Ns> = phases.iter().filter(|p| closes(p)).map(|p| p.span.end).collect();
    ends.sort_unstable();
    let mut starts: Vec<Ns> = Vec::new();
    for p in phases.iter().filter(|p| p.phase == first) {
        let has_closed = |since: Ns| {
            ends.get(ends.partition_point(|end| *end <= since)).is_some_and(|end| *end <= p.span.start)
        };
        if starts.last().is_none_or(|since| has_closed(*since)) {
            starts.push(p.span.start);
        }
    }
    let last_end = phases.iter().map(|p| p.span.end).max().unwrap_or(0);
    let bounds: Vec<Ns> = starts.iter().copied().chain([last_end]).collect();
    let mut out: Vec<Span> =
        bounds.windows(2).filter_map(|w| Some(Span::new(*w.first()?, *w.get(1)?))).collect();
    let kinds = |span: &Span| -> BTreeSet<LoopPhase> {
        phases.iter().filter(|p| span.holds(p.span.start)).map(|p| p.phase).collect()
    };
    if out.len() > 1 && out.first().map(kinds) != out.last().map(kinds) {
        out.pop();
    }
    out
}

impl LoopPeriod {
    fn new(job: &Job, all: &PartPhases, span: Span) -> Self {
        let inside = |of: &[RolePhase]| -> Vec<RolePhase> {
            let clipped = of.iter().map(|p| {
                let part = p.span.intersect(span);
                // Where a phase goes on in the next period, its work is divided as its time.
                let busy = i128::from(p.busy) * i128::from(part.len()) / i128::from(p.span.len().max(1));
                RolePhase { span: part, busy: busy as Ns, ..*p }
            });
            clipped.filter(|p| !p.span.is_empty()).collect()
        };
        let clipped: PartPhases = all.iter().map(|(part, of)| (*part, inside(of))).collect();
        let active = active_phases(&clipped);
        let ranks = clipped.iter().map(|(part, of)| of_rank(*part, of, &active, span)).collect();
        Self { span, ranks, tail: tail(job, &clipped) }
    }
}

/// The kind of phase that runs somewhere, as sorted stretches; of several, the first.
type ActivePhases = Vec<(Span, LoopPhase)>;

fn active_phases(all: &PartPhases) -> ActivePhases {
    let mut events: Vec<(Ns, LoopPhase, i64)> = Vec::new();
    for p in all.iter().flat_map(|(_, of)| of) {
        events.extend([(p.span.start, p.phase, 1), (p.span.end, p.phase, -1)]);
    }
    events.sort_unstable();
    let mut out: ActivePhases = Vec::new();
    let mut running: BTreeMap<LoopPhase, i64> = BTreeMap::new();
    let mut at = events.first().map_or(0, |e| e.0);
    for (time, phase, change) in events {
        let active = running.iter().find(|(_, count)| **count > 0).map(|(phase, _)| *phase);
        if let Some(active) = active.filter(|_| time > at) {
            match out.last_mut() {
                Some((span, phase)) if span.end == at && *phase == active => span.end = time,
                _ => out.push((Span::new(at, time), active)),
            }
        }
        at = time;
        *running.entry(phase).or_default() += change;
    }
    out
}

/// What a rank does in a period, of which these are its phases.
fn of_rank(part: u32, of: &[RolePhase], active: &ActivePhases, period: Span) -> PeriodOfRank {
    let mut stretches: Vec<RoleStretch> =
        of.iter().map(|p| RoleStretch { span: p.span, does: Ok((p.phase, p.busy)) }).collect();
    // What runs while the rank is in no phase is the phase of another.
    for gap in Union::new(of.iter().map(|p| p.span)).gaps_in(period) {
        let first = active.partition_point(|(span, _)| span.end <= gap.start);
        let mut idle = |start, end, waits_for| {
            if start < end {
                stretches.push(RoleStretch { span: Span::new(start, end), does: Err(waits_for) });
            }
            end
        };
        let mut at = gap.start;
        for (span, phase) in active.iter().skip(first).take_while(|(span, _)| span.start < gap.end) {
            let part = span.intersect(gap);
            at = idle(at, part.start, None);
            at = idle(at, part.end, Some(*phase));
        }
        idle(at, gap.end, None);
    }
    stretches.sort_by_key(|s| s.span.start);
    let mut phases: BTreeMap<LoopPhase, (Ns, Ns)> = BTreeMap::new();
    let mut idle: BTreeMap<Option<LoopPhase>, Ns> = BTreeMap::new();
    for s in &stretches {
        match s.does {
            Ok((phase, busy)) => {
                let sum = phases.entry(phase).or_default();
                (sum.0, sum.1) = (sum.0 + s.span.len(), sum.1 + busy);
            }
            Err(waits_for) => *idle.entry(waits_for).or_default() += s.span.len(),
        }
    }
    PeriodOfRank { part, stretches, phases, idle }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(phase: LoopPhase, start: Ns, end: Ns) -> RolePhase {
        RolePhase { phase, span: Span::new(start, end), busy: end - start }
    }

    #[test]
    fn a_period_goes_from_one_rollout_to_the_next() {
        use LoopPhase::{Rollout, Train, WeightSync};
        let engine = vec![
            phase(Rollout, 0, 10),
            phase(WeightSync, 30, 32),
            phase(Rollout, 33, 40),
            phase(WeightSync, 60, 62),
            phase(Rollout, 63, 70),
        ];
        let late = vec![phase(Rollout, 2, 15), phase(Rollout, 35, 45)];
        let trainer = vec![phase(Train, 16, 30), phase(Train, 46, 60)];
        let all = vec![(0, engine), (1, late), (2, trainer)];
        assert_eq!(periods(&all), [Span::new(0, 33), Span::new(33, 63)], "the third one is not whole");
    }

    #[test]
    fn phases_and_idle_time_of_a_rank_are_its_period() {
        use LoopPhase::{Rollout, Train};
        let all = vec![(0, vec![phase(Rollout, 0, 10)]), (1, vec![phase(Train, 12, 30)])];
        let active = active_phases(&all);
        let of = of_rank(1, &all[1].1, &active, Span::new(0, 31));
        assert_eq!(of.phases, BTreeMap::from([(Train, (18, 18))]));
        assert_eq!(of.idle, BTreeMap::from([(Some(Rollout), 10), (None, 3)]));
        assert_eq!(of.idle_ns() + 18, 31);
    }
}

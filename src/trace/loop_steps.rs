//! Steps of a rank in a loop that generates, scores and trains: its turns. A step goes from the end of one
//! turn to the end of the next, so that the wait for other processes before a phase is part of it.
//!
//! ```text
//!   phases         [score][train]          [score][train]
//!   steps     [step 0           )[step 1                )
//! ```

use crate::category::Class;
use crate::events::Columns;
use crate::role_phase::{PhaseRange, phase_ranges, turns};
use crate::step::{Step, StepRule, Steps};
use hta_base::units::{Ns, Span};
use std::collections::BTreeSet;

/// Fewest turns of a loop.
const FEWEST: usize = 2;

/// Share of the time of a loop that marked steps may leave out and still be its steps, percent.
const LEFT_OUT_PCT: i128 = 10;

/// The steps that were found, or the turns of a loop, if the rank has such and what was found is none of its
/// steps: annotations of single phases, or marked steps that leave out the time between the turns.
pub(crate) fn or_loop(found: Steps, c: &Columns, classes: &[Class]) -> Steps {
    let is_open = match found.rule {
        StepRule::Annotation | StepRule::Capture => true,
        StepRule::ProfilerStep => leave_out_waits(&found.steps),
        _ => false,
    };
    let turns = if is_open { loop_steps(c, classes) } else { Vec::new() };
    if turns.is_empty() {
        return found;
    }
    Steps { has_profiler_steps: found.has_profiler_steps, ..Steps::new(StepRule::Loop, turns) }
}

/// The turns as steps; none if the rank has fewer than two.
fn loop_steps(c: &Columns, classes: &[Class]) -> Vec<Step> {
    let ranges = phase_ranges(c, classes);
    let phases: Vec<_> = ranges.iter().map(|r| r.phase).collect();
    let turns = turns(&phases);
    if turns.len() < FEWEST {
        return Vec::new();
    }
    let of: Vec<&[PhaseRange]> = turns.into_iter().filter_map(|turn| ranges.get(turn)).collect();
    let kinds = |turn: &[PhaseRange]| turn.iter().map(|r| r.phase).collect::<BTreeSet<_>>();
    let all = of.iter().map(|turn| kinds(turn)).max_by_key(BTreeSet::len).unwrap_or_default();
    let span = |turn: &[PhaseRange]| Some(Span::new(turn.first()?.host.start, turn.last()?.host.end));
    let spans: Vec<Span> = of.iter().filter_map(|turn| span(turn)).collect();
    let starts = starts(&spans, recorded_from(c, classes));
    let step = |((index, turn), (span, start)): ((u32, &&[PhaseRange]), (&Span, Ns))| {
        let host = Span::new(start, span.end);
        Step {
            index,
            label: None,
            name: turn.first().map(|r| r.name).unwrap_or_default(),
            host,
            window: host,
            is_lost: false,
            is_partial: kinds(turn).len() < all.len(),
        }
    };
    (0u32..).zip(&of).zip(spans.iter().zip(starts)).map(step).collect()
}

/// Whether marked steps leave out so much of the time between them that they are not those of a loop.
fn leave_out_waits(marked: &[Step]) -> bool {
    let (Some(first), Some(last)) = (marked.first(), marked.last()) else { return true };
    let whole = last.host.end - first.host.start;
    let held: Ns = marked.iter().map(|step| step.host.len()).sum();
    i128::from(whole - held) * 100 > i128::from(whole) * LEFT_OUT_PCT
}

/// When each step begins: when the one before has ended. Nobody knows since when the first one has waited if
/// the recording began later, and what came before the loop is none of it: it waits no longer than another.
fn starts(turns: &[Span], recorded: Ns) -> Vec<Ns> {
    let gaps = || turns.windows(2).filter_map(|pair| Some(pair.get(1)?.start - pair.first()?.end));
    let longest = gaps().max().unwrap_or(0).max(0);
    let first = turns.first().map(|turn| recorded.max(turn.start - longest).min(turn.start));
    let ends = turns.iter().map(|turn| turn.end);
    first.into_iter().chain(ends).take(turns.len()).collect()
}

/// The start of the first event that is not the profiler's own.
fn recorded_from(c: &Columns, classes: &[Class]) -> Ns {
    let own = |row: &usize| classes.get(*row).is_some_and(|class| class.is_profilers_own());
    (0..c.len()).filter(|row| !own(row)).filter_map(|row| c.ts.get(row).copied()).min().unwrap_or(Ns::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_holds_the_wait_before_its_turn() {
        let turns = [Span::new(100, 150), Span::new(190, 240)];
        assert_eq!(starts(&turns, 80), [80, 150]);
        assert_eq!(starts(&turns, 10), [60, 150], "what was long before is none of the loop");
        assert_eq!(starts(&turns, 120), [100, 150]);
    }
}

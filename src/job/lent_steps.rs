//! Steps of ranks that show none, while other ranks of the program show theirs.
//!
//! Ranks that run the same collectives are in the same step. A rank of which only the capture is known takes
//! the steps of one that has some: by the collectives that both run, and for the time around them by the
//! clocks.
//!
//! ```text
//!   rank 0   | step 0  [c1] [c2] | step 1  [c3] |       found by repeats
//!   rank 1   |         [c1] [c2]           [c3] |       lent
//! ```
//!
//! Times are still compared over whole recordings (`has_mixed_steps`): steps only tell what happened again.

use crate::clock::Clock;
use crate::matching::Matched;
use crate::part::{PartStep, RankSummary};
use hta_base::units::{Ns, Span};
use hta_facts::host_activity::ActivitySums;
use hta_trace::step::StepRule;

/// A rank whose steps others can take: all that show none record when their times begin.
pub(super) fn lender(parts: &[RankSummary]) -> Option<usize> {
    let has_some = |p: &RankSummary| !p.is_left_out && !has_none(p) && !p.calls.calls.is_empty();
    let from = parts.iter().position(has_some)?;
    let (program, rule) = (parts[from].program(), parts[from].step_rule);
    let fits = |p: &RankSummary| match has_none(p) {
        true => p.has_origin && p.program() == program,
        false => p.step_rule == rule,
    };
    (parts.iter().any(has_none) && parts.iter().all(fits)).then_some(from)
}

fn has_none(part: &RankSummary) -> bool {
    part.step_rule == StepRule::Capture
}

/// Gives the steps of the lender to all ranks that show none.
pub(super) fn lend(from: usize, parts: &mut [RankSummary], matched: &Matched, clocks: &[Clock]) {
    let lent: Vec<PartStep> = parts[from].steps.clone();
    let of_calls: Vec<Option<u32>> = parts[from].calls.calls.iter().map(|c| c.step).collect();
    for (part, p) in parts.iter_mut().enumerate().filter(|(_, p)| has_none(p)) {
        let own = |t: Ns| {
            let common = clocks[from].aligned(t);
            common + (common - clocks[part].aligned(common))
        };
        let moved = |w: Span| Span::new(own(w.start), own(w.end));
        let step = |s: &PartStep| PartStep {
            window: moved(s.window),
            host_start: own(s.host_start),
            // Of the other's host.
            host: ActivitySums::default(),
            ..*s
        };
        p.steps = lent.iter().map(step).collect();
        p.calls.calls.iter_mut().for_each(|c| c.step = None);
    }
    for i in matched.instances.iter().filter(|i| i.len() > 1) {
        let members = matched.members(i);
        let Some(m) = members.iter().find(|m| m.part as usize == from) else { continue };
        let step = of_calls.get(m.call as usize).copied().flatten();
        for m in members {
            let poor = parts.get_mut(m.part as usize).filter(|p| has_none(p));
            if let Some(call) = poor.and_then(|p| p.calls.calls.get_mut(m.call as usize)) {
                call.step = step;
            }
        }
    }
}

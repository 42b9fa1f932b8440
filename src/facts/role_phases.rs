//! The phases of a rank in a loop that generates, scores and trains: when its devices worked for each.
//!
//! ```text
//!   host      [update_actor ...)
//!   device       [===)[==)..[====)              the phase lasts from the first start to the last end of what
//! its
//!   phase        [---------------)              range launched; without devices, as long as the range
//! ```
//!
//! A range that launches nothing is no phase of a rank with devices: its process only waits for others.

use hta_base::units::{Ns, Span};
use hta_trace::interval::Union;
use hta_trace::rank_trace::RankTrace;
use hta_trace::role_phase::{LoopPhase, PhaseRange, phase_ranges};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A phase of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RolePhase {
    pub phase: LoopPhase,
    pub span: Span,
    /// Part of it in which a device worked, ns.
    pub busy: Ns,
}

/// The phases of a rank in order of time; disjoint.
pub struct RolePhases {
    pub all: Vec<RolePhase>,
}

impl RolePhases {
    pub fn of(trace: &RankTrace) -> Arc<Self> {
        trace.shared(Self::new)
    }

    fn new(trace: &RankTrace) -> Self {
        let ranges = phase_ranges(&trace.columns, &trace.classes);
        if ranges.is_empty() {
            return Self { all: Vec::new() };
        }
        let spans = match trace.is_cpu_only() {
            true => ranges.iter().map(|r| Some(r.host)).collect(),
            false => on_devices(trace, &ranges),
        };
        let busy = Union::new(trace.devices.iter().flat_map(|w| w.timeline.busy().spans().to_vec()));
        let mut until = Ns::MIN;
        let mut all = Vec::new();
        for (range, span) in ranges.iter().zip(spans) {
            let Some(span) = span.map(|s| Span::new(s.start.max(until), s.end.max(until))) else { continue };
            if !span.is_empty() {
                all.push(RolePhase { phase: range.phase, span, busy: busy.len_in(span) });
                until = span.end;
            }
        }
        Self { all }
    }

    /// Whether the rank does several kinds of phases, but of one side of the loop only, so that it waits for
    /// other processes. One kind alone may be any program.
    pub fn is_one_sided(&self) -> bool {
        let kinds: BTreeSet<LoopPhase> = self.all.iter().map(|p| p.phase).collect();
        kinds.len() > 1 && !(kinds.contains(&LoopPhase::Rollout) && kinds.contains(&LoopPhase::Train))
    }
}

/// By range: from the first start to the last end of what was launched in it.
fn on_devices(trace: &RankTrace, ranges: &[PhaseRange]) -> Vec<Option<Span>> {
    let mut out: Vec<Option<Span>> = vec![None; ranges.len()];
    for activity in &trace.activities {
        let Some(at) = activity.launch().and_then(|row| trace.columns.ts.get(row as usize)) else { continue };
        let before = ranges.partition_point(|r| r.host.start <= *at);
        let Some(own) = before.checked_sub(1).filter(|i| ranges.get(*i).is_some_and(|r| r.host.holds(*at)))
        else {
            continue;
        };
        if let Some(slot) = out.get_mut(own) {
            *slot = Some(slot.map_or(activity.span, |so_far: Span| so_far.hull(activity.span)));
        }
    }
    out
}

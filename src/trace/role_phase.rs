//! Phases of a loop that generates, scores and trains, as libraries of reinforcement learning name them:
//! verl, OpenRLHF and others mark each by an annotation.
//!
//! ```text
//!   rollout engine   [generate_sequences ..........]                               [update_weights]
//!   trainer                                         [compute_log_prob][update_actor][update_weights]
//! ```

use crate::category::Class;
use crate::events::Columns;
use crate::strings::StrId;
use crate::thread::sort_outer_first;
use hta_base::stored_name;
use hta_base::units::{Ns, Span};
use std::collections::BTreeMap;

/// What a process does in such a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LoopPhase {
    Rollout,
    Reward,
    Scoring,
    Train,
    WeightSync,
}

stored_name!(LoopPhase, LoopPhase::ALL, name);

/// Parts of names in lower case, with the phase that they mark. The first that a name holds decides.
const NAMES: [(&str, LoopPhase); 14] = [
    ("update_weights", LoopPhase::WeightSync),
    ("sync_weights", LoopPhase::WeightSync),
    ("weight_sync", LoopPhase::WeightSync),
    ("generate_sequences", LoopPhase::Rollout),
    ("rollout_generate", LoopPhase::Rollout),
    ("compute_rm_score", LoopPhase::Reward),
    ("compute_reward", LoopPhase::Reward),
    ("compute_log_prob", LoopPhase::Scoring),
    ("compute_ref_log_prob", LoopPhase::Scoring),
    ("compute_values", LoopPhase::Scoring),
    ("update_actor", LoopPhase::Train),
    ("actor_update", LoopPhase::Train),
    ("update_critic", LoopPhase::Train),
    ("critic_update", LoopPhase::Train),
];

impl LoopPhase {
    pub const ALL: [LoopPhase; 5] =
        [Self::Rollout, Self::Reward, Self::Scoring, Self::Train, Self::WeightSync];

    pub fn name(self) -> &'static str {
        match self {
            Self::Rollout => "rollout",
            Self::Reward => "reward",
            Self::Scoring => "scoring",
            Self::Train => "train",
            Self::WeightSync => "weight_sync",
        }
    }

    /// The phase that an annotation marks.
    pub fn of_annotation(name: &str) -> Option<Self> {
        let lower = name.to_ascii_lowercase();
        NAMES.iter().find(|(part, _)| lower.contains(part)).map(|(_, phase)| *phase)
    }
}

/// An annotation of a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PhaseRange {
    pub phase: LoopPhase,
    /// On the host, ns.
    pub host: Span,
    /// Name of the annotation.
    pub name: StrId,
}

/// The annotated phases of a rank in order of time; disjoint. Of ranges inside each other the outer one
/// counts, on whatever threads they are.
pub fn phase_ranges(c: &Columns, classes: &[Class]) -> Vec<PhaseRange> {
    let mut known: BTreeMap<StrId, Option<LoopPhase>> = BTreeMap::new();
    let mut phase_of = |row: usize| {
        let name = c.name(row);
        *known.entry(name).or_insert_with(|| LoopPhase::of_annotation(c.strings.get(name)))
    };
    let mut rows: Vec<u32> = (0..classes.len())
        .filter(|&row| classes.get(row) == Some(&Class::Annotation) && phase_of(row).is_some())
        .map(|row| row as u32)
        .collect();
    sort_outer_first(&mut rows, c);
    let mut out: Vec<PhaseRange> = Vec::new();
    let mut until = Ns::MIN;
    for row in rows {
        let (span, name) = (c.span(row as usize), c.name(row as usize));
        let host = Span::new(span.start.max(until), span.end.max(until));
        if let Some(phase) = phase_of(row as usize).filter(|_| !host.is_empty()) {
            out.push(PhaseRange { phase, host, name });
            until = host.end;
        }
    }
    out
}

/// The turns of a loop, as ranges of positions: a turn begins with the phase with which the first began,
/// after another phase. Phases of one kind only are a turn each.
pub fn turns(phases: &[LoopPhase]) -> Vec<std::ops::Range<usize>> {
    let Some(first) = phases.first() else { return Vec::new() };
    let is_single = phases.iter().all(|phase| phase == first);
    let begins = |at: &usize| {
        let before = at.checked_sub(1).and_then(|before| phases.get(before));
        phases.get(*at) == Some(first) && (is_single || before != Some(first))
    };
    let starts: Vec<usize> = (0..phases.len()).filter(begins).collect();
    let ends = starts.iter().skip(1).copied().chain([phases.len()]);
    starts.iter().copied().zip(ends).map(|(from, to)| from..to).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_name_their_phases() {
        for (name, phase) in [
            ("generate_sequences", LoopPhase::Rollout),
            ("actor_rollout_compute_log_prob", LoopPhase::Scoring),
            ("ActorRolloutRefWorker.update_actor", LoopPhase::Train),
            ("compute_ref_log_prob", LoopPhase::Scoring),
            ("compute_rm_score", LoopPhase::Reward),
            ("update_weights#3", LoopPhase::WeightSync),
        ] {
            assert_eq!(LoopPhase::of_annotation(name), Some(phase), "{name}");
        }
        for name in ["generate", "Optimizer.step#AdamW.step", "forward", "update"] {
            assert_eq!(LoopPhase::of_annotation(name), None, "{name}");
        }
    }

    #[test]
    fn a_turn_begins_as_the_first_did() {
        use LoopPhase::{Rollout as R, Scoring as S, Train as T};
        assert_eq!(turns(&[R, S, T, R, S, T]), [0..3, 3..6]);
        assert_eq!(turns(&[S, S, T, T, S, T]), [0..4, 4..6], "micro-batches are of one turn");
        assert_eq!(turns(&[R, R, R]), [0..1, 1..2, 2..3]);
        assert!(turns(&[]).is_empty());
    }
}

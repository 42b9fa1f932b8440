//! Ranks whose files do not say since when their times count. Where collectives that their numbers match end
//! at the same time on all ranks, the times have one origin, and ranks can be compared.

use crate::collectives::collectives;
use crate::matching::Matched;
use crate::part::RankSummary;
use hta_base::units::Ns;

/// Ends of one collective agree within this, ns.
const TOGETHER: Ns = 100_000;

/// Fewest collectives of a rank.
const FEWEST: u64 = 3;

/// Share of a rank's collectives whose ends agree, percent.
const AGREE_PCT: u64 = 75;

/// Gives ranks without an origin a common one, if none has one and collectives prove it. Returns whether they
/// do for any.
pub(crate) fn prove(parts: &mut [RankSummary]) -> bool {
    if parts.len() < 2 || parts.iter().any(|p| p.has_origin) {
        return false;
    }
    parts.iter_mut().for_each(|p| p.has_origin = true);
    let matched = collectives(parts, false);
    let proved = proved(parts, &matched);
    parts.iter_mut().zip(proved).for_each(|(p, is_proved)| p.has_origin = is_proved);
    parts.iter().any(|p| p.has_origin)
}

/// By part: whether its collectives end together with those of the others.
fn proved(parts: &[RankSummary], matched: &Matched) -> Vec<bool> {
    let mut counts: Vec<(u64, u64)> = vec![(0, 0); parts.len()];
    for i in matched.instances.iter().filter(|i| i.is_synchronous() && i.len() > 1 && !i.disagrees) {
        let members = matched.members(i);
        let ends = || {
            members
                .iter()
                .filter_map(|m| Some(parts.get(m.part as usize)?.calls.calls.get(m.call as usize)?.span.end))
        };
        let (first, last) = (ends().min().unwrap_or(0), ends().max().unwrap_or(0));
        for m in members {
            if let Some((together, all)) = counts.get_mut(m.part as usize) {
                *together += u64::from(last.saturating_sub(first) <= TOGETHER);
                *all += 1;
            }
        }
    }
    counts.into_iter().map(is_proof).collect()
}

/// Whether so many of all collectives of a rank prove an origin, if they end together.
fn is_proof((together, all): (u64, u64)) -> bool {
    together >= FEWEST && together * 100 >= all * AGREE_PCT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_collectives_of_a_rank_must_end_together() {
        assert!(is_proof((3, 4)) && is_proof((75, 100)));
        assert!(!is_proof((2, 2)), "too few");
        assert!(!is_proof((74, 100)), "others end apart");
    }
}

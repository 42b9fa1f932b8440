//! Collectives in which each member waits for all others, and yet members end apart. One of the ends cannot
//! be true.
//!
//! ```text
//!   rank 0    [waiting...|transfer]
//!   rank 1            [  |transfer]
//!   rank 2           [   |transfer..............]     apart by more than 1 ms and a tenth of the longest call
//! ```
//!
//! Calls on the host are left out: a thread may return late. Ends are compared with the offsets of clocks
//! that were found, whether or not they are applied.

use crate::clock::Clock;
use crate::matching::{Matched, Member};
use crate::part::RankSummary;
use hta_base::order_statistics::median;
use hta_base::units::Ns;

/// Ends may differ by this, ns.
const APART: Ns = 1_000_000;

/// And by this share of the longest call.
const APART_PCT: Ns = 10;

/// A collective whose members end apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stray {
    /// Index of the instance.
    pub(crate) instance: u32,
    /// The member whose end is farthest from that of the others.
    pub(crate) member: Member,
    /// It ends so much after the median end; negative if before, ns.
    pub apart: Ns,
}

/// Finds them, in order of instance.
pub fn find(parts: &[RankSummary], matched: &Matched, clocks: &[Clock]) -> Vec<Stray> {
    let mut strays = Vec::new();
    for (instance, i) in (0u32..).zip(&matched.instances).filter(|(_, i)| i.is_synchronous() && i.len() > 1) {
        let members = matched.members(i);
        let call = |m: &Member| parts.get(m.part as usize).and_then(|p| p.calls.calls.get(m.call as usize));
        let ends: Vec<(Member, Ns)> = members
            .iter()
            .filter_map(|m| Some((*m, clocks.get(m.part as usize)?.found(call(m)?.span.end))))
            .collect();
        let longest = members.iter().filter_map(call).map(|c| c.span.len()).max().unwrap_or(0);
        if let Some((member, apart)) = farthest(&ends, longest)
            && !members.iter().filter_map(call).any(|c| c.shape.on_host)
        {
            strays.push(Stray { instance, member, apart });
        }
    }
    strays
}

/// The member whose end is farthest from the median end, and its distance, if ends are apart.
fn farthest(ends: &[(Member, Ns)], longest: Ns) -> Option<(Member, Ns)> {
    let all = || ends.iter().map(|(_, end)| *end);
    let apart = all().max()?.saturating_sub(all().min()?);
    if apart <= APART || apart.saturating_mul(100) <= longest.saturating_mul(APART_PCT) {
        return None;
    }
    let middle = median(&mut all().collect::<Vec<Ns>>())?;
    ends.iter().map(|(m, end)| (*m, end - middle)).max_by_key(|(_, from_middle)| from_middle.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Ns = 1_000_000;

    #[test]
    fn an_end_more_than_a_millisecond_and_a_tenth_from_the_others_is_found() {
        let ends = |ends: [Ns; 4]| -> Vec<(Member, Ns)> {
            (0..).zip(ends).map(|(part, end)| (Member { part, call: 0 }, 50 * MS + end)).collect()
        };
        let late = farthest(&ends([0, 0, 5 * MS, 0]), 7 * MS);
        assert_eq!(late, Some((Member { part: 2, call: 0 }, 5 * MS)));
        let early = farthest(&ends([0, 0, 0, -3 * MS]), 7 * MS);
        assert_eq!(early.map(|(m, apart)| (m.part, apart)), Some((3, -3 * MS)));
        assert_eq!(farthest(&ends([0, 0, MS, 0]), 2 * MS), None);
        assert_eq!(farthest(&ends([0, 0, 5 * MS, 0]), 50 * MS), None);
    }
}

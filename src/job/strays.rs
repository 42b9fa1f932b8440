//! Collectives in which each member waits for all others, and yet members end apart. One of the ends cannot be true.
//!
//! ```text
//!   rank 0    [waiting...|transfer]
//!   rank 1            [  |transfer]
//!   rank 2           [   |transfer..............]     apart by more than 1 ms and a tenth of the longest call
//! ```
//!
//! Calls on the host are left out: a thread may return late. Ends are compared with the offsets of clocks that were
//! found, whether or not they are applied.

use crate::job::clock::{Clock, median};
use crate::job::matching::{Matched, Member};
use crate::job::part::RankSummary;
use crate::units::Ns;

/// Ends may differ by this, ns.
const APART: Ns = 1_000_000;

/// And by this share of the longest call.
const APART_PCT: Ns = 10;

/// A collective whose members end apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stray {
    /// Index of the instance.
    pub instance: u32,
    /// The member whose end is farthest from that of the others.
    pub member: Member,
    /// It ends so much after the median end; negative if before, ns.
    pub apart: Ns,
}

/// Finds them, in order of instance.
pub fn find(parts: &[RankSummary], matched: &Matched, clocks: &[Clock]) -> Vec<Stray> {
    let mut strays = Vec::new();
    for (instance, i) in (0u32..).zip(&matched.instances).filter(|(_, i)| i.kind.is_synchronous() && i.len() > 1) {
        let members = matched.members(i);
        let call = |m: &Member| parts.get(m.part as usize).and_then(|p| p.calls.calls.get(m.call as usize));
        let end = |m: &Member| Some(clocks.get(m.part as usize)?.found(call(m)?.span.end));
        let mut ends: Vec<Ns> = members.iter().filter_map(end).collect();
        let (first, last) = (ends.iter().min(), ends.iter().max());
        let apart = last.zip(first).map_or(0, |(last, first)| last - first);
        if apart <= APART || members.iter().filter_map(call).any(|c| c.on_host) {
            continue;
        }
        let longest = members.iter().filter_map(call).map(|c| c.span.len()).max().unwrap_or(0);
        if apart.saturating_mul(100) <= longest.saturating_mul(APART_PCT) {
            continue;
        }
        let middle = median(&mut ends).unwrap_or(0);
        let from_middle = |m: &&Member| end(m).map_or(0, |e| (e - middle).abs());
        if let Some(member) = members.iter().max_by_key(from_middle) {
            strays.push(Stray { instance, member: *member, apart: end(member).map_or(0, |e| e - middle) });
        }
    }
    strays
}

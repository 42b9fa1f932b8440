//! What the order of calls tells where their ends do not: on hosts whose threads compete for cores, members
//! of a collective end as far apart as its neighbours.
//!
//! All members of a group submit its collectives in one order. So where two ranks recorded the same sequence
//! of calls, of a step or of all, the n-th belongs to the n-th:
//!
//! ```text
//!   rank 0   step 1 [A...B........A....B]   step 2 [A..B....A...B]
//!   rank 1   step 1 [A......B..A.....B..]   step 2 [A.B...A..B...]
//! ```
//!
//! Order is never the only evidence. It proposes an offset of the clocks, under which the ends must match
//! more calls than under the offset that the ends alone suggest; and it joins a pair that the ends leave open
//! if they match most calls of the same sequences, all of them in this order. Without step numbers a capture
//! that began one turn of a loop later looks like one of another clock, so the offset may then be no larger
//! than that of the ends. Where the ranks' sequences differ, or several threads submit, ends alone decide.

use crate::sequence::TokenAtEnd;
use hta_base::order_statistics::median;
use hta_base::units::Ns;
use std::collections::{BTreeMap, BTreeSet};

/// Largest difference in length of two sequences of which one may be part of the other.
const MOST_CUT: usize = 64;

/// A call to be matched by sequence.
#[derive(Clone, Copy)]
pub(super) struct UnmatchedCall {
    pub(super) call: u32,
    pub(super) item: TokenAtEnd,
    /// Token without the step's number.
    pub(super) plain: u32,
    /// The number of its step, if it counts.
    pub(super) step: Option<i64>,
    /// The submitting thread.
    pub(super) thread: Option<u32>,
    pub(super) on_host: bool,
    pub(super) ends_together: bool,
    pub(super) is_exchange: bool,
}

/// An offset of the clock of the second list relative to the first.
pub(super) struct ProposedOffset {
    pub(super) offset: Ns,
    /// Whether numbered steps say which calls belong together.
    pub(super) is_of_steps: bool,
}

/// The offsets that the order of calls proposes.
pub(super) fn offsets(x: &[UnmatchedCall], y: &[UnmatchedCall]) -> Vec<ProposedOffset> {
    if !x.iter().chain(y).all(|t| t.on_host) {
        return Vec::new();
    }
    let of_steps: Vec<(u32, u32)> = equal_steps(x, y).into_iter().flatten().collect();
    let steps = middle(x, y, &of_steps).map(|offset| ProposedOffset { offset, is_of_steps: true });
    let whole = alignments(x, y)
        .into_iter()
        .filter_map(|pairs| middle(x, y, &pairs))
        .map(|offset| ProposedOffset { offset, is_of_steps: false });
    steps.into_iter().chain(whole).collect()
}

/// Adds the pairs that the ends leave open in sequences which are the same on both ranks.
pub(super) fn complete(x: &[UnmatchedCall], y: &[UnmatchedCall], matches: &mut Vec<(u32, u32)>) {
    if !x.iter().chain(y).all(|t| t.on_host) || matches.len() == x.len().min(y.len()) {
        return;
    }
    let mut sequences = equal_steps(x, y);
    if sequences.is_empty() && x.len() == y.len() {
        sequences = alignments(x, y);
    }
    sequences.retain(|pairs| is_of_one_thread(x, pairs.iter().map(|p| p.0)));
    sequences.retain(|pairs| is_of_one_thread(y, pairs.iter().map(|p| p.1)));
    let found: BTreeMap<u32, u32> = matches.iter().copied().collect();
    let taken: BTreeSet<u32> = matches.iter().map(|m| m.1).collect();
    let is_matched = |(i, j): &&(u32, u32)| found.get(i) == Some(j);
    let is_open = |(i, j): &(u32, u32)| !found.contains_key(i) && !taken.contains(j);
    sequences.retain(|pairs| pairs.iter().all(|pair| is_matched(&pair) || is_open(pair)));
    let all: usize = sequences.iter().map(Vec::len).sum();
    let sure: usize = sequences.iter().flatten().filter(is_matched).count();
    if sure * 2 > all {
        matches.extend(sequences.into_iter().flatten().filter(is_open));
    }
}

/// Pairs of the calls of each numbered step that has the same sequence on both ranks.
fn equal_steps(x: &[UnmatchedCall], y: &[UnmatchedCall]) -> Vec<Vec<(u32, u32)>> {
    let mut steps: BTreeMap<i64, [Vec<u32>; 2]> = BTreeMap::new();
    for (side, list) in [x, y].into_iter().enumerate() {
        for (i, t) in (0u32..).zip(list) {
            if let Some(step) = t.step {
                steps.entry(step).or_default()[side].push(i);
            }
        }
    }
    let tokens = |list: &[UnmatchedCall], rows: &[u32]| -> Vec<Option<u32>> {
        rows.iter().map(|i| list.get(*i as usize).map(|t| t.plain)).collect()
    };
    let equal = steps.into_values().filter(|[a, b]| tokens(x, a) == tokens(y, b));
    equal.map(|[a, b]| a.into_iter().zip(b).collect()).collect()
}

/// Pairs for each place at which the shorter sequence is a part of the longer one.
fn alignments(x: &[UnmatchedCall], y: &[UnmatchedCall]) -> Vec<Vec<(u32, u32)>> {
    let (count, cut) = (x.len().min(y.len()), x.len().abs_diff(y.len()));
    if count == 0 || cut > MOST_CUT {
        return Vec::new();
    }
    let starts = (0..=cut).map(|s| if x.len() > y.len() { (s, 0) } else { (0, s) });
    let is_equal = |(a, b): &(usize, usize)| {
        x.iter().skip(*a).zip(y.iter().skip(*b)).take(count).all(|(s, t)| s.plain == t.plain)
    };
    let pairs = |(a, b): (usize, usize)| (0..count).map(|i| ((a + i) as u32, (b + i) as u32)).collect();
    starts.filter(is_equal).map(pairs).collect()
}

/// The lower median of the distances of ends that should agree.
fn middle(x: &[UnmatchedCall], y: &[UnmatchedCall], pairs: &[(u32, u32)]) -> Option<Ns> {
    let calls = pairs.iter().filter_map(|(i, j)| Some((x.get(*i as usize)?, y.get(*j as usize)?)));
    let together = calls.filter(|(s, _)| s.ends_together);
    let mut apart: Vec<Ns> = together.map(|(s, t)| t.item.end.saturating_sub(s.item.end)).collect();
    median(&mut apart)
}

fn is_of_one_thread(list: &[UnmatchedCall], mut rows: impl Iterator<Item = u32>) -> bool {
    let thread = |i: u32| list.get(i as usize).and_then(|t| t.thread);
    let first = rows.next().and_then(thread);
    first.is_some() && rows.all(|i| thread(i) == first)
}

//! Matches two ranks' calls of one group without sequence numbers.
//!
//! Matching by position would be wrong: an instance that one rank did not record shifts all later ones. Ends
//! are evidence, because a collective ends at nearly the same true moment on all members. So the offset
//! between the two clocks is estimated first: the one under which most calls find a partner with the same
//! token (kind, size, type, step) that ends at the same time. Then each call is paired with its nearest
//! partner, if it is that one's nearest, too.
//!
//! ```text
//!   rank 0   A....A....A....A....A....A        recorded from the first step on
//!   rank 1             A....A.........A        started late, and one is missing
//!   matched            |    |         |
//! ```
//!
//! Near-linear time: sorted lists per token, and a bounded number of candidate offsets on a bounded sample.

use hashbrown::HashMap;
use hta_base::order_statistics::median;
use hta_base::units::Ns;

/// One call: a token, equal for calls that may be the same collective, and its end, ns on the rank's own
/// clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TokenAtEnd {
    pub(crate) token: u32,
    pub(crate) end: Ns,
}

/// The calls of one rank by token, in order of their ends.
pub(crate) struct CallSequence {
    calls: Vec<SequencedCall>,
    /// Ends and indices into `calls`, sorted by token and end.
    sorted: Vec<(Ns, u32)>,
    tokens: Vec<CallToken>,
    rhythm: Ns,
    /// First and last end; `None` without calls.
    first_and_last: Option<(Ns, Ns)>,
}

struct SequencedCall {
    end: Ns,
    /// Index of its token in `tokens`.
    at: u32,
}

struct CallToken {
    token: u32,
    /// End of its calls in `sorted`.
    until: u32,
    /// Half the distance to the nearest call of the same token, ns: partners must be closer. A lone call has
    /// no limit.
    half_spacing: u64,
}

/// Number of calls on which a candidate offset is tried.
const SAMPLE: usize = 64;
/// Largest number of candidate offsets.
const CANDIDATES: usize = 8192;

impl CallSequence {
    pub(crate) fn new(items: Vec<TokenAtEnd>) -> Self {
        let mut order: Vec<u32> = (0..items.len() as u32).collect();
        let item = |i: &u32| items[*i as usize];
        order.sort_unstable_by_key(|i| (item(i).token, item(i).end, *i));
        let sorted: Vec<(Ns, u32)> = order.iter().map(|i| (item(i).end, *i)).collect();
        let mut calls: Vec<SequencedCall> =
            items.iter().map(|i| SequencedCall { end: i.end, at: 0 }).collect();
        let mut tokens: Vec<CallToken> = Vec::new();
        let mut from = 0;
        for same in order.chunk_by(|a, b| item(a).token == item(b).token) {
            let until = from + same.len();
            let half_spacing = half_spacing(&sorted[from..until]);
            same.iter().for_each(|i| calls[*i as usize].at = tokens.len() as u32);
            tokens.push(CallToken { token: item(&same[0]).token, until: until as u32, half_spacing });
            from = until;
        }
        tokens.shrink_to_fit();
        let ends = || items.iter().map(|i| i.end);
        let first_and_last = ends().min().zip(ends().max());
        let rhythm = rhythm(&items);
        Self { calls, sorted, tokens, rhythm, first_and_last }
    }

    /// Ends and indices of the calls of the token at `position`.
    fn list(&self, position: usize) -> &[(Ns, u32)] {
        let first = position.checked_sub(1).map_or(0, |p| self.tokens[p].until as usize);
        &self.sorted[first..self.tokens[position].until as usize]
    }

    /// Index of a token. The search starts at `near`, because ranks of a job mostly have similar sequences.
    fn find(&self, token: u32, near: usize) -> Option<usize> {
        let is_there = self.tokens.get(near).is_some_and(|t| t.token == token);
        if is_there { Some(near) } else { self.tokens.binary_search_by_key(&token, |t| t.token).ok() }
    }

    /// The common tokens of two sequences, as pairs of their indices.
    fn common<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = (usize, usize)> + 'a {
        other.tokens.iter().enumerate().filter_map(|(there, t)| Some((self.find(t.token, there)?, there)))
    }

    pub(crate) fn end(&self, i: u32) -> Ns {
        self.calls.get(i as usize).map_or(0, |c| c.end)
    }

    /// Largest distance of a partner from a call of this token: half of the smallest distance between two
    /// such calls, ns.
    pub(crate) fn limit(&self, token: u32) -> u64 {
        let gaps = |list: &[(Ns, u32)]| list.windows(2).map(|w| w[1].0.abs_diff(w[0].0)).min();
        self.find(token, 0).map(|at| self.list(at)).and_then(gaps).map_or(u64::MAX, |gap| gap / 2 + 1)
    }

    /// Typical distance between neighbouring ends, ns.
    pub(crate) fn rhythm(&self) -> Ns {
        self.rhythm
    }
}

/// Distance from an instant to the nearest end of a list, ns.
fn nearest(list: &[(Ns, u32)], end: Ns) -> Option<Ns> {
    let i = list.partition_point(|(e, _)| *e < end);
    let gap = |i: Option<usize>| i.and_then(|i| list.get(i)).map(|(e, _)| e.saturating_sub(end));
    [gap(Some(i)), gap(i.checked_sub(1))].into_iter().flatten().min_by_key(|g| g.unsigned_abs())
}

fn rhythm(items: &[TokenAtEnd]) -> Ns {
    let mut ends: Vec<Ns> = items.iter().map(|i| i.end).collect();
    ends.sort_unstable();
    let mut gaps: Vec<Ns> = ends.windows(2).map(|w| w[1] - w[0]).collect();
    gaps.sort_unstable();
    gaps.get(gaps.len() / 2).copied().unwrap_or(1_000_000).max(1)
}

/// Offset of `y`'s clock relative to `x`'s, to be subtracted from ends of `y`. `None` without a common token.
pub(crate) fn offset(x: &CallSequence, y: &CallSequence) -> Option<Ns> {
    let common = x.common(y).map(|(a, b)| (x.list(a), y.list(b)));
    // Use the rarest token, because it gives the fewest candidates.
    let (xs, ys) = common.min_by_key(|(xs, ys)| xs.len().saturating_mul(ys.len()))?;
    let mut candidates: Vec<Ns> = if xs.len().saturating_mul(ys.len()) <= CANDIDATES {
        xs.iter().flat_map(|(a, _)| ys.iter().map(move |(b, _)| b.saturating_sub(*a))).collect()
    } else {
        let middle = ys[ys.len() / 2].0;
        let stride = xs.len().div_ceil(CANDIDATES);
        xs.iter().step_by(stride).map(|(a, _)| middle.saturating_sub(*a)).collect()
    };
    candidates.sort_unstable_by_key(|c| (c.unsigned_abs(), *c));
    candidates.dedup();
    let step = y.calls.len().div_ceil(SAMPLE).max(1);
    // Ends with the possible partners of each call, looked up once for all candidates.
    let partners = |c: &SequencedCall| Some((c.end, x.find(y.tokens[c.at as usize].token, c.at as usize)?));
    let sampled = y.calls.iter().filter_map(partners).step_by(step);
    let sample: Vec<(Ns, &[(Ns, u32)])> = sampled.map(|(end, at)| (end, x.list(at))).collect();
    let cap = x.rhythm() / 2 + 1;
    let (first, last) = x.first_and_last.map(|(first, last)| (first - cap, last + cap))?;
    let cost = |candidate: Ns, limit: Ns| -> Ns {
        let (mut sum, mut beyond): (Ns, usize) = (0, 0);
        for (end, partners) in &sample {
            let end = end.saturating_sub(candidate);
            // A call outside the other rank's recording is weak evidence against a candidate, as long as most
            // of it overlaps.
            let outside = end < first || end > last;
            beyond += usize::from(outside);
            let miss = if outside && beyond * 2 <= sample.len() {
                cap / 4
            } else {
                nearest(partners, end).map_or(cap, |g| g.abs().min(cap))
            };
            sum = sum.saturating_add(miss);
            if sum > limit {
                break;
            }
        }
        sum
    };
    let (mut best, mut least) = (None, Ns::MAX);
    for candidate in candidates {
        // A larger offset has to be clearly better; otherwise regular steps would be matched with their
        // neighbours.
        let limit = if best.is_none() { Ns::MAX } else { least - least / 8 - 1 };
        let c = cost(candidate, limit);
        if c < limit || best.is_none() {
            (best, least) = (Some(candidate), c);
        }
    }
    let best = best?;
    let mut misses: Vec<Ns> = sample
        .iter()
        .filter_map(|(end, partners)| nearest(partners, end.saturating_sub(best)))
        .filter(|g| g.abs() < cap)
        .collect();
    Some(best.saturating_sub(median(&mut misses).unwrap_or(0)))
}

/// How partners are related.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PartnerKind {
    /// Their ends agree.
    Ends,
    /// As `Ends`, and a token occurs only within one step.
    Steps,
    /// A receiver may lag; partners only have the same order.
    Messages,
}

/// Pairs `(index in x, index in y)` of calls that are each other's nearest after `offset` is subtracted from
/// `y`. If tokens are specific to one step and both sides have the same number, order decides, as long as the
/// pairs are no further apart than pairs usually are here: ends of similar calls in quick succession may be
/// closer to each other than to their partners.
pub(crate) fn pairs(x: &CallSequence, y: &CallSequence, offset: Ns, rule: PartnerKind) -> Vec<(u32, u32)> {
    // (pair, distance, limit): the usual distance of pairs is known only when all are collected.
    let mut near: Vec<((u32, u32), u64, u64)> = Vec::new();
    let mut out = Vec::new();
    let mut in_doubt: Vec<[&[(Ns, u32)]; 2]> = Vec::new();
    for (a, b) in x.common(y) {
        let (xs, ys) = (x.list(a), y.list(b));
        let limit = x.tokens[a].half_spacing.min(y.tokens[b].half_spacing);
        let far = |i: usize, j: usize| -> u64 {
            match (xs.get(i), ys.get(j)) {
                (Some((a, _)), Some((b, _))) => b.saturating_sub(offset).abs_diff(*a),
                _ => u64::MAX,
            }
        };
        if rule == PartnerKind::Steps && xs.len() == ys.len() && (0..xs.len()).all(|i| far(i, i) <= limit) {
            out.extend(xs.iter().zip(ys).map(|((_, i), (_, j))| (*i, *j)));
            continue;
        }
        let before = near.len();
        let (mut i, mut j) = (0, 0);
        while i < xs.len() && j < ys.len() {
            let d = far(i, j);
            if far(i + 1, j) < d {
                i += 1;
            } else if far(i, j + 1) < d {
                j += 1;
            } else {
                if d <= limit {
                    near.push(((xs[i].1, ys[j].1), d, limit));
                }
                i += 1;
                j += 1;
            }
        }
        if rule == PartnerKind::Steps && xs.len() == ys.len() && near.len() - before < xs.len() {
            in_doubt.push([xs, ys]);
        }
    }
    let mut apart: Vec<u64> = near.iter().map(|(_, d, _)| *d).collect();
    apart.sort_unstable();
    let usual = apart.get(apart.len() / 2).copied().unwrap_or(0);
    for [xs, ys] in in_doubt {
        if xs.iter().zip(ys).all(|((a, _), (b, _)): (&(Ns, u32), &(Ns, u32))| {
            b.saturating_sub(offset).abs_diff(*a) <= usual * USUAL
        }) {
            near.retain(|((i, _), ..)| !xs.iter().any(|(_, k)| k == i));
            out.extend(xs.iter().zip(ys).map(|((_, i), (_, j))| (*i, *j)));
        }
    }
    // Two calls that both lost their partners may be each other's nearest, but they are further apart than
    // pairs are.
    let is_pair = |d: u64, limit: u64| {
        limit == u64::MAX || rule == PartnerKind::Messages || d <= usual.saturating_mul(USUAL).max(limit / 16)
    };
    out.extend(near.into_iter().filter(|(_, d, limit)| is_pair(*d, *limit)).map(|(pair, ..)| pair));
    out.sort_unstable();
    out
}

/// Partners are at most this many times their usual distance apart.
const USUAL: u64 = 16;

/// Half of the typical distance between neighbouring ends; [`u64::MAX`] for a single one.
fn half_spacing(list: &[(Ns, u32)]) -> u64 {
    let mut gaps: Vec<u64> = list.windows(2).map(|w| w[1].0.abs_diff(w[0].0)).collect();
    if gaps.is_empty() {
        return u64::MAX;
    }
    gaps.sort_unstable();
    gaps[gaps.len() / 2] / 2 + 1
}

/// Assigns a small number to each distinct key.
pub(crate) struct KeyNumbers<K> {
    known: HashMap<K, u32>,
}

impl<K> Default for KeyNumbers<K> {
    fn default() -> Self {
        Self { known: HashMap::new() }
    }
}

impl<K: std::hash::Hash + Eq> KeyNumbers<K> {
    pub fn of(&mut self, key: K) -> u32 {
        let next = self.known.len() as u32;
        *self.known.entry(key).or_insert(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sequence(ends: &[(u32, Ns)]) -> CallSequence {
        CallSequence::new(ends.iter().map(|&(token, end)| TokenAtEnd { token, end }).collect())
    }

    #[test]
    fn a_missing_head_and_a_missing_instance_shift_nothing() {
        let x = sequence(&[(0, 100), (0, 210), (0, 290), (0, 405), (0, 500), (0, 620)]);
        let y = sequence(&[(0, 7290), (0, 7405), (0, 7620)]);
        let o = offset(&x, &y).unwrap();
        assert_eq!(o, 7000);
        assert_eq!(pairs(&x, &y, o, PartnerKind::Ends), [(2, 0), (3, 1), (5, 2)]);
    }

    #[test]
    fn without_a_common_token_there_is_no_offset() {
        assert_eq!(offset(&sequence(&[(0, 1)]), &sequence(&[(1, 1)])), None);
        assert_eq!(offset(&sequence(&[]), &sequence(&[])), None);
    }

    #[test]
    fn tokens_are_found_where_they_stand_in_either() {
        let x = sequence(&[(0, 10), (2, 20), (5, 30), (2, 25)]);
        let y = sequence(&[(2, 20), (5, 30), (7, 40), (9, 50)]);
        assert_eq!(x.common(&y).collect::<Vec<_>>(), [(1, 0), (2, 1)]);
        assert_eq!(y.common(&x).collect::<Vec<_>>(), [(0, 1), (1, 2)]);
        assert_eq!((x.list(1), y.list(0)), (&[(20, 1), (25, 3)][..], &[(20, 0)][..]));
        assert_eq!((x.limit(2), x.limit(0), x.limit(7)), (3, u64::MAX, u64::MAX));
        let spacings: Vec<u64> = x.tokens.iter().map(|t| t.half_spacing).collect();
        assert_eq!((spacings, x.first_and_last), (vec![u64::MAX, 3, u64::MAX], Some((10, 30))));
    }

    proptest! {
        /// Steps are irregular, each rank recorded any subset, with any offset: calls that both recorded are
        /// matched. (With regular steps, a missing beginning cannot be distinguished from a missing end.)
        #[test]
        fn what_both_recorded_is_matched(
            gaps in Just((0i64..80).map(|i| 100 + 23 * i).collect::<Vec<_>>()).prop_shuffle(),
            count in 20usize..80,
            lost_x in prop::collection::vec(0usize..80, 0..4),
            lost_y in prop::collection::vec(0usize..80, 0..4),
            head in 0usize..5,
            shift in -100_000i64..100_000,
            noise in prop::collection::vec(-5i64..5, 80),
        ) {
            let mut end = 0;
            let all: Vec<(usize, u32, Ns)> = gaps.iter().take(count).enumerate()
                .map(|(i, g)| { end += g; (i, (i % 3) as u32, end) }).collect();
            let keep = |lost: &[usize], from: usize| -> Vec<(usize, u32, Ns)> {
                all.iter().filter(|(i, ..)| *i >= from && !lost.contains(i)).copied().collect()
            };
            let (xs, ys) = (keep(&lost_x, 0), keep(&lost_y, head));
            let x = sequence(&xs.iter().map(|(_, t, e)| (*t, *e)).collect::<Vec<_>>());
            let y = sequence(&ys.iter().map(|(i, t, e)| (*t, *e + shift + noise[*i])).collect::<Vec<_>>());
            let o = offset(&x, &y).unwrap();
            prop_assert!((o - shift).abs() <= 10, "offset {} for {}", o, shift);
            let got = pairs(&x, &y, o, PartnerKind::Ends);
            for (i, j) in &got {
                prop_assert_eq!(xs[*i as usize].0, ys[*j as usize].0);
            }
            let both = xs.iter().filter(|(i, ..)| ys.iter().any(|(k, ..)| k == i)).count();
            prop_assert_eq!(got.len(), both);
        }
    }
}

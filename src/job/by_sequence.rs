//! Matches the calls of a group's ranks by their order: an alignment of sequences of kind, size, type, step
//! and end.

use crate::in_order::{self, UnmatchedCall};
use crate::matching::{MatchMethod, Matched, Member, Use, call};
use crate::part::RankSummary;
use crate::sequence::{CallSequence, KeyNumbers, PartnerKind, TokenAtEnd, offset, pairs};
use hashbrown::HashMap;
use hta_base::units::Ns;
use hta_trace::collective::CollectiveKind;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn by_sequence(
    matched: &mut Matched,
    parts: &[RankSummary],
    g: u32,
    uses: &[Use],
    expected: usize,
    method: MatchMethod,
) {
    let labelled = share_labels(parts, uses);
    let kind = if labelled { PartnerKind::Steps } else { PartnerKind::Ends };
    let mut left = unmatched_calls(parts, uses, labelled);
    let mut clocks: BTreeMap<u32, Ns> = BTreeMap::new();
    // Calls that the longest sequence lacks are matched among the others, and so on.
    while left.iter().any(|(_, l)| !l.is_empty()) {
        let Some(b) = (0..left.len()).max_by_key(|k| (left[*k].1.len(), Reverse(left[*k].0))) else { break };
        let (part, calls) = (left[b].0, std::mem::take(&mut left[b].1));
        let base = BaseSequence::new(&calls);
        let mut found: Vec<Vec<Member>> = calls.iter().map(|t| vec![Member { part, call: t.call }]).collect();
        let clock = clocks.get(&part).copied();
        for (other, list) in left.iter_mut().filter(|(other, _)| *other != part) {
            let known = clock.zip(clocks.get(other)).map(|(x, y)| y - x);
            let Some(shift) = known.or_else(|| shift_between(&calls, list)) else { continue };
            let (shift, matches) = match known {
                Some(shift) => (shift, base.matches(list, shift, kind)),
                None => base.best_matches(list, shift, kind),
            };
            if known.is_none() {
                clocks.insert(*other, clock.unwrap_or(0) + shift);
            }
            let mut gone = vec![false; list.len()];
            for (x, y) in matches {
                found[x as usize].push(Member { part: *other, call: list[y as usize].call });
                gone[y as usize] = true;
            }
            let mut gone = gone.into_iter();
            list.retain(|_| gone.next() == Some(false));
        }
        clocks.entry(part).or_insert(0);
        for members in found {
            matched.add(parts, g, method, expected, members);
        }
    }
}

/// The calls of each part, in order. `labelled`: whether the tokens have the numbers of steps.
fn unmatched_calls(parts: &[RankSummary], uses: &[Use], labelled: bool) -> Vec<(u32, Vec<UnmatchedCall>)> {
    let mut tokens = KeyNumbers::default();
    let mut item = |u: &Use, i: u32| {
        let p = &parts[u.part as usize];
        let c = call(parts, u, i);
        // Ranks may send different amounts in one all-to-all.
        let bytes = c.shape.bytes.filter(|_| c.shape.kind != CollectiveKind::AllToAll);
        let label = if labelled { p.step_of(c).and_then(|s| s.label) } else { None };
        let dtype = p.calls.dtype(c).map(str::to_string);
        let plain = tokens.of((c.shape.kind, bytes, dtype.clone(), None));
        let token = tokens.of((c.shape.kind, bytes, dtype, label));
        UnmatchedCall {
            call: i,
            item: TokenAtEnd { token, end: c.span.end },
            plain,
            step: label,
            thread: c.shape.thread,
            on_host: c.shape.on_host,
            ends_together: c.shape.kind.is_synchronous(),
            is_exchange: c.shape.kind == CollectiveKind::AllToAll,
        }
    };
    uses.iter().map(|u| (u.part, u.calls.iter().map(|&i| item(u, i)).collect())).collect()
}

/// The clock of the second list minus that of the first, where their calls tell it.
fn shift_between(x: &[UnmatchedCall], y: &[UnmatchedCall]) -> Option<Ns> {
    let kept = |list: &[UnmatchedCall], keep: &dyn Fn(&UnmatchedCall) -> bool| {
        CallSequence::new(list.iter().filter(|t| keep(t)).map(|t| t.item).collect())
    };
    let of = |keep: &dyn Fn(&UnmatchedCall) -> bool| offset(&kept(x, keep), &kept(y, keep));
    // Where most calls are in marked steps, a call outside them is rare and not evidence. Nor is the end of a
    // broadcast, whose root leaves early.
    of(&|t| t.ends_together && t.item.token != t.plain)
        .or_else(|| of(&|t| t.ends_together))
        .or_else(|| of(&|_| true))
}

/// The sequence that the other ranks are matched with.
struct BaseSequence<'a> {
    calls: &'a [UnmatchedCall],
    sequence: CallSequence,
    /// By plain token, how far the end of a call may be from its partner's; computed once per token, not once
    /// per rank.
    limits: HashMap<u32, u64>,
}

impl<'a> BaseSequence<'a> {
    fn new(calls: &'a [UnmatchedCall]) -> Self {
        let plain = calls.iter().map(|t| TokenAtEnd { token: t.plain, end: t.item.end });
        let plain = CallSequence::new(plain.collect());
        let mut limits: HashMap<u32, u64> = HashMap::new();
        for t in calls {
            limits.entry(t.plain).or_insert_with(|| plain.limit(t.plain));
        }
        Self { calls, sequence: CallSequence::new(calls.iter().map(|t| t.item).collect()), limits }
    }

    /// Pairs of indices, into this and the other list.
    fn matches(&self, list: &[UnmatchedCall], shift: Ns, kind: PartnerKind) -> Vec<(u32, u32)> {
        // With step numbers the token limits the distance; without them only the time does, even for a token
        // that occurs once.
        let is_near = |(i, j): &(u32, u32)| {
            let (x, y) = (&self.calls[*i as usize], &list[*j as usize]);
            let is_marked = x.item.token != x.plain && y.item.token != y.plain;
            is_marked
                || (y.item.end - shift).abs_diff(x.item.end)
                    <= self.limits.get(&x.plain).copied().unwrap_or(0)
        };
        let other = CallSequence::new(list.iter().map(|t| t.item).collect());
        let mut matches = pairs(&self.sequence, &other, shift, kind);
        matches.retain(is_near);
        matches.extend(unmarked(self.calls, list, &matches, shift).into_iter().filter(is_near));
        between(self.calls, list, &mut matches);
        exchanges(self.calls, list, &mut matches);
        in_order::complete(self.calls, list, &mut matches);
        matches
    }

    /// The matches under an offset, or under one that the order of calls proposes and that matches more of
    /// them.
    fn best_matches(&self, list: &[UnmatchedCall], shift: Ns, kind: PartnerKind) -> (Ns, Vec<(u32, u32)>) {
        let mut best = (shift, self.matches(list, shift, kind));
        if best.1.len() == self.calls.len().min(list.len()) {
            return best;
        }
        for proposed in in_order::offsets(self.calls, list) {
            if proposed.is_of_steps || proposed.offset.unsigned_abs() <= shift.unsigned_abs() {
                let matches = self.matches(list, proposed.offset, kind);
                if matches.len() > best.1.len() {
                    best = (proposed.offset, matches);
                }
            }
        }
        best
    }
}

/// Pairs of the remaining calls for which one side has no step mark: a step that one rank recorded only in
/// part is not marked there.
fn unmarked(x: &[UnmatchedCall], y: &[UnmatchedCall], matches: &[(u32, u32)], shift: Ns) -> Vec<(u32, u32)> {
    let is_bare = |t: &UnmatchedCall| t.item.token == t.plain;
    let bare = x.iter().chain(y).filter(|t| is_bare(t)).count();
    if bare == 0 || bare == x.len() + y.len() {
        return Vec::new();
    }
    let rest = |list: &[UnmatchedCall], taken: BTreeSet<u32>| -> (Vec<u32>, CallSequence) {
        let free: Vec<u32> = (0..list.len() as u32).filter(|i| !taken.contains(i)).collect();
        let item = |i: &u32| TokenAtEnd { token: list[*i as usize].plain, end: list[*i as usize].item.end };
        let sequence = CallSequence::new(free.iter().map(item).collect());
        (free, sequence)
    };
    let (xs, free_x) = rest(x, matches.iter().map(|m| m.0).collect());
    let (ys, free_y) = rest(y, matches.iter().map(|m| m.1).collect());
    let found = pairs(&free_x, &free_y, shift, PartnerKind::Ends)
        .into_iter()
        .map(|(i, j)| (xs[i as usize], ys[j as usize]));
    found.filter(|(i, j)| is_bare(&x[*i as usize]) || is_bare(&y[*j as usize])).collect()
}

/// Matches broadcasts and reductions, whose ends do not agree. All members submit in the same order, so
/// between two matched synchronous collectives the n-th call of a token belongs to the n-th, if both ranks
/// have the same number of them.
///
/// ```text
///   root     A.b.b.b......A        leaves early
///   other    A......b.b.b.A        ends are no evidence, order is
/// ```
fn between(x: &[UnmatchedCall], y: &[UnmatchedCall], matches: &mut Vec<(u32, u32)>) {
    if x.iter().all(|t| t.ends_together) {
        return;
    }
    let mut anchors: Vec<(u32, u32)> =
        matches.iter().filter(|(i, _)| x[*i as usize].ends_together).copied().collect();
    anchors.sort_unstable();
    if anchors.windows(2).any(|w| w[0].1 >= w[1].1) {
        return;
    }
    // Maps (token, number of anchors before) to the calls of both.
    let mut segments: BTreeMap<(u32, usize), [Vec<u32>; 2]> = BTreeMap::new();
    for (side, list) in [x, y].into_iter().enumerate() {
        let at = |a: &(u32, u32)| if side == 0 { a.0 } else { a.1 };
        for (i, t) in list.iter().enumerate().filter(|(_, t)| !t.ends_together) {
            let before = anchors.partition_point(|a| at(a) < i as u32);
            segments.entry((t.plain, before)).or_default()[side].push(i as u32);
        }
    }
    segments.retain(|_, [a, b]| a.len() == b.len());
    let sure: BTreeSet<u32> = segments.values().flat_map(|[a, _]| a.iter().copied()).collect();
    let sure_y: BTreeSet<u32> = segments.values().flat_map(|[_, b]| b.iter().copied()).collect();
    matches.retain(|(i, j)| !sure.contains(i) && !sure_y.contains(j));
    matches.extend(segments.into_values().flat_map(|[a, b]| a.into_iter().zip(b)));
}

/// Matches all-to-alls of marked steps by their order, where both ranks have the same number of them in a
/// step and the ends of most of them say the same. With unequal sizes a member ends when it has received its
/// own parts, so that some ends are far apart.
fn exchanges(x: &[UnmatchedCall], y: &[UnmatchedCall], matches: &mut Vec<(u32, u32)>) {
    let mut of_step: BTreeMap<u32, [Vec<u32>; 2]> = BTreeMap::new();
    for (side, list) in [x, y].into_iter().enumerate() {
        let is_marked = |t: &UnmatchedCall| t.is_exchange && t.item.token != t.plain;
        for (i, t) in (0u32..).zip(list).filter(|(_, t)| is_marked(t)) {
            of_step.entry(t.item.token).or_default()[side].push(i);
        }
    }
    let by_ends: BTreeMap<u32, u32> = matches.iter().copied().collect();
    for [a, b] in of_step.into_values().filter(|[a, b]| a.len() == b.len()) {
        let found: Vec<(u32, u32)> = a.iter().filter_map(|i| Some((*i, *by_ends.get(i)?))).collect();
        let pairs: Vec<(u32, u32)> = a.into_iter().zip(b).collect();
        if found.len() * 2 > pairs.len() && found.iter().all(|pair| pairs.contains(pair)) {
            matches.extend(pairs.into_iter().filter(|pair| !found.contains(pair)));
        }
    }
}

/// Whether steps have numbers, and neighbouring ranks recorded common ones.
fn share_labels(parts: &[RankSummary], uses: &[Use]) -> bool {
    let labels =
        |u: &Use| -> Vec<i64> { parts[u.part as usize].steps.iter().filter_map(|s| s.label).collect() };
    let Some(first) = uses.first().map(labels) else { return false };
    !first.is_empty() && uses.iter().all(|u| labels(u).iter().any(|l| first.contains(l)))
}

//! Matches messages between two ranks, after clocks are aligned.

use crate::matching::{MatchMethod, Matched, Member};
use crate::part::RankSummary;
use crate::sequence::{CallSequence, KeyNumbers, PartnerKind, TokenAtEnd, pairs};
use hta_base::units::Ns;
use hta_trace::collective::Message;
use std::collections::{BTreeMap, BTreeSet};

/// Accuracy of aligned clocks, ns: a message may seem to arrive earlier than it was sent by this much.
const SLACK: Ns = 20_000;

/// Matches the n-th message sent to the n-th received, if there are as many of both and none is received
/// before it is sent. An eager sender does not wait, so a receiver may lag by several messages, and ends are
/// no evidence. They are evidence if they agree on one shift other than zero: then the two ranks recorded
/// different messages. On the host a send ends when its thread looks after it, which is no evidence at all
/// (`ends_tell` is false), and a kernel with messages to several ranks ends with the slowest of them:
///
/// ```text
///   rank 0, with 1 and 3   [.]    [......]      its first ends long before those of 1 and 3,
///   rank 1, with 0 and 2   [......]    [......]    which wait for rank 2
///   rank 2, with 1 and 3        [.]         [.]
/// ```
fn in_order(
    sent: usize,
    received: usize,
    by_end: &[(u32, u32)],
    ends_tell: bool,
    is_possible: impl Fn(usize, usize) -> bool,
) -> Option<Vec<(u32, u32)>> {
    let shift = |p: &(u32, u32)| i64::from(p.1) - i64::from(p.0);
    let is_one_shift = ends_tell
        && by_end.first().is_some_and(|first| shift(first) != 0)
        && by_end.windows(2).all(|w| shift(&w[0]) == shift(&w[1]));
    if sent != received || (is_one_shift && by_end.len() * 2 > sent) || !(0..sent).all(|i| is_possible(i, i))
    {
        return None;
    }
    Some((0..sent as u32).map(|i| (i, i)).collect())
}

/// Whether two messages are of one call and have different ranks at their other ends.
fn is_exchange(a: &Message, b: &Message, me: u32) -> bool {
    let other = |m: &Message| if m.src == me { m.dst } else { m.src };
    a.call == b.call && other(a) != other(b)
}

/// Matches messages: the n-th from one rank to another in a group, by order and time.
pub(crate) fn messages(parts: &[RankSummary], matched: &mut Matched, aligned: impl Fn(u32, Ns) -> Ns) {
    // Maps (group, source, destination) to the calls of the sender and of the receiver.
    type Sides = [Vec<(Member, Option<i64>)>; 2];
    let mut wires: BTreeMap<(Option<u32>, u32, u32), Sides> = BTreeMap::new();
    let mut exchanges: BTreeSet<Member> = BTreeSet::new();
    for (part, p) in parts.iter().enumerate().filter(|(_, p)| p.has_origin) {
        let with_several = p.calls.edges.windows(2).filter(|w| is_exchange(&w[0], &w[1], p.rank));
        exchanges.extend(with_several.map(|w| Member { part: part as u32, call: w[0].call }));
        for (e, c) in p.calls.messages() {
            let group = matched.group_of(part as u32, c.shape.group);
            let side = usize::from(e.src != p.rank);
            let sides = wires.entry((group, e.src, e.dst)).or_default();
            sides[side].push((Member { part: part as u32, call: e.call }, e.bytes));
        }
    }
    for ((group, _, _), [sent, received]) in wires {
        // A group without a name has no row.
        let Some(group) = group else { continue };
        let mut tokens = KeyNumbers::default();
        let mut side = |list: &[(Member, Option<i64>)]| {
            let item = |(m, bytes): &(Member, Option<i64>)| {
                let end = parts[m.part as usize].calls.calls[m.call as usize].span.end;
                TokenAtEnd { token: tokens.of(*bytes), end: aligned(m.part, end) }
            };
            CallSequence::new(list.iter().map(item).collect())
        };
        let (x, y) = (side(&sent), side(&received));
        let call = |m: &Member| &parts[m.part as usize].calls.calls[m.call as usize];
        let mut taken = (vec![false; sent.len()], vec![false; received.len()]);
        let span = |m: &Member| call(m).span;
        let by_end = pairs(&x, &y, 0, PartnerKind::Messages);
        let is_open = |m: &Member| call(m).shape.on_host || exchanges.contains(m);
        let ends_tell = !sent.iter().chain(&received).any(|(m, _)| is_open(m));
        let by_order = in_order(sent.len(), received.len(), &by_end, ends_tell, |i: usize, j: usize| {
            let (s, r) = (&sent[i], &received[j]);
            s.1 == r.1 && aligned(r.0.part, span(&r.0).end) + SLACK >= aligned(s.0.part, call(&s.0).arrival())
        });
        for (i, j) in by_order.unwrap_or(by_end) {
            (taken.0[i as usize], taken.1[j as usize]) = (true, true);
            matched.add(
                parts,
                group,
                MatchMethod::Peers,
                2,
                vec![sent[i as usize].0, received[j as usize].0],
            );
        }
        let alone = |list: &[(Member, Option<i64>)], taken: &[bool]| -> Vec<Member> {
            list.iter().zip(taken).filter(|(_, t)| !**t).map(|((m, _), _)| *m).collect()
        };
        for m in alone(&sent, &taken.0).into_iter().chain(alone(&received, &taken.1)) {
            matched.add(parts, group, MatchMethod::Peers, 2, vec![m]);
        }
    }
}

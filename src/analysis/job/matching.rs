//! Matches the calls of all ranks to instances: which calls were the same collective.
//!
//! Each group is matched by the strongest evidence that its calls carry: the sequence number (`Seq`), else an alignment
//! of the ranks' sequences by token and end (`sequence`), else groups inferred from the ranks' calls (`infer`).
//! Point-to-point messages are matched by sender, receiver and order after clocks are aligned (`peers`). An instance
//! that some members did not record is kept with the members that did; other instances are not affected.

use crate::job::groups::{Group, Resolved, resolve};
use crate::job::infer::infer;
use crate::job::part::RankSummary;
use crate::job::sequence::{CallSequence, KeyNumbers, PartnerKind, TokenAtEnd, offset, pairs};
use hta_base::units::Ns;
use hta_trace::collective::{CollectiveCall, CollectiveKind};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// How an instance was matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MatchMethod {
    /// By group, kind and sequence number.
    Number,
    /// By alignment of sequences of kind, size, type and end.
    Sequence,
    /// As `CallSequence`, in a group whose members were inferred.
    Inferred,
    /// By sender, receiver and order.
    Peers,
}

impl MatchMethod {
    pub(crate) fn name(self) -> &'static str {
        match self {
            MatchMethod::Number => "seq",
            MatchMethod::Sequence => "sequence",
            MatchMethod::Inferred => "inferred",
            MatchMethod::Peers => "peers",
        }
    }
}

/// One part's call in an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member {
    pub(crate) part: u32,
    pub(crate) call: u32,
}

/// One collective with the members that recorded it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// Index of the group.
    pub(crate) group: u32,
    pub(crate) kind: CollectiveKind,
    pub(crate) seq: Option<u64>,
    /// The largest size over the members, bytes.
    pub(crate) bytes: Option<i64>,
    pub(crate) method: MatchMethod,
    /// Index of its first member in [`Matched::members`].
    first: u32,
    count: u32,
    /// Number of members that it should have.
    pub(crate) expected: u32,
    /// Whether members disagree in size or type where they must agree.
    pub(crate) disagrees: bool,
}

impl Instance {
    /// Whether every member of the group recorded it.
    pub(crate) fn is_complete(&self) -> bool {
        self.count == self.expected
    }

    pub(crate) fn len(&self) -> usize {
        self.count as usize
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// An instance of a kind, without members.
    #[cfg(test)]
    pub fn of(kind: CollectiveKind) -> Self {
        Instance {
            group: 0,
            kind,
            seq: None,
            bytes: None,
            method: MatchMethod::Number,
            first: 0,
            count: 0,
            expected: 0,
            disagrees: false,
        }
    }

    fn range(&self) -> std::ops::Range<usize> {
        self.first as usize..(self.first + self.count) as usize
    }
}

/// The groups and instances of a job.
#[derive(Debug, Clone, Default)]
pub(crate) struct Matched {
    pub(crate) groups: Vec<Group>,
    pub(crate) instances: Vec<Instance>,
    members: Vec<Member>,
    /// Maps (part, its local group) to the group.
    of_local: HashMap<(u32, u32), u32>,
    /// Different kinds that members of one group gave for one number: (group, number, kinds).
    pub(crate) conflicts: Vec<(u32, u64, Vec<CollectiveKind>)>,
}

impl Matched {
    /// Members of an instance, by part.
    pub(crate) fn members(&self, i: &Instance) -> &[Member] {
        self.members.get(i.range()).unwrap_or(&[])
    }

    /// Whether it is not known for whom the members of an instance wait, because a rank of its group is not recorded.
    /// A message needs its two ends only.
    pub(crate) fn is_cut(&self, i: &Instance) -> bool {
        !i.kind.is_point_to_point() && self.groups.get(i.group as usize).is_some_and(|g| g.misses_rank)
    }

    fn add_group(&mut self, group: Group) -> u32 {
        let g = self.groups.len() as u32;
        self.of_local.extend(group.uses.iter().map(|u| (*u, g)));
        self.groups.push(group);
        g
    }

    /// The group of one part's local group; `None` if it is unknown.
    pub(crate) fn group_of(&self, part: u32, local: u32) -> Option<u32> {
        self.of_local.get(&(part, local)).copied()
    }

    pub(crate) fn add(
        &mut self,
        parts: &[RankSummary],
        group: u32,
        method: MatchMethod,
        expected: usize,
        mut members: Vec<Member>,
    ) {
        members.sort_unstable();
        let call = |m: &Member| &parts[m.part as usize].calls.calls[m.call as usize];
        let Some(head) = members.first().map(call) else { return };
        let (kind, seq) = (head.kind, head.seq);
        let dtype = |m: &Member| parts[m.part as usize].calls.dtype(call(m));
        let disagrees = kind.has_one_size()
            && members.iter().any(|m| {
                let (a, b) = (call(m).bytes, head.bytes);
                (a.is_some() && b.is_some() && a != b) || dtype(m).zip(dtype(&members[0])).is_some_and(|(a, b)| a != b)
            });
        self.instances.push(Instance {
            group,
            kind,
            seq: seq.filter(|_| method == MatchMethod::Number),
            bytes: members.iter().filter_map(|m| call(m).bytes).max(),
            method,
            first: self.members.len() as u32,
            count: members.len() as u32,
            expected: expected as u32,
            disagrees,
        });
        self.members.extend(members);
    }
}

/// A group's calls on one part: indices into its calls, in order of submission.
struct Use {
    part: u32,
    calls: Vec<u32>,
}

/// Matches all calls except messages between two ranks.
pub(crate) fn collectives(parts: &[RankSummary]) -> Matched {
    let comparable = |p: &RankSummary| p.has_origin;
    let used: Vec<Vec<u32>> = parts
        .iter()
        .map(|p| {
            let mut seen = vec![false; p.calls.groups.len()];
            let mut order: Vec<u32> = Vec::new();
            for c in p.calls.calls.iter().filter(|_| comparable(p)) {
                if let Some(seen) = seen.get_mut(c.group as usize).filter(|seen| !**seen) {
                    *seen = true;
                    order.push(c.group);
                }
            }
            order
        })
        .collect();
    let Resolved { groups, unknown } = resolve(parts, &used);
    let mut matched = Matched::default();
    for group in groups {
        matched.add_group(group);
    }
    let mut uses: Vec<Vec<Use>> = Vec::new();
    uses.resize_with(matched.groups.len(), Vec::new);
    for (part, p) in parts.iter().enumerate().filter(|(_, p)| comparable(p)) {
        for (i, c) in p.calls.calls.iter().enumerate().filter(|(_, c)| !c.kind.is_point_to_point()) {
            if let Some(list) = matched.group_of(part as u32, c.group).and_then(|g| uses.get_mut(g as usize)) {
                match list.last_mut() {
                    Some(u) if u.part == part as u32 => u.calls.push(i as u32),
                    _ => list.push(Use { part: part as u32, calls: vec![i as u32] }),
                }
            }
        }
    }
    for (g, uses) in uses.iter().enumerate() {
        group(&mut matched, parts, g as u32, uses, MatchMethod::Sequence);
    }
    for found in infer(parts, &unknown) {
        let uses: Vec<Use> = found.calls.into_iter().map(|(part, calls)| Use { part, calls }).collect();
        let g = matched.add_group(found.group);
        group(&mut matched, parts, g, &uses, MatchMethod::Inferred);
    }
    let recorded: Vec<u32> = parts.iter().filter(|p| !p.is_left_out).map(|p| p.rank).collect();
    matched.groups.iter_mut().for_each(|g| g.misses_rank = g.misses(&recorded));
    matched
}

fn call<'a>(parts: &'a [RankSummary], u: &Use, i: u32) -> &'a CollectiveCall {
    &parts[u.part as usize].calls.calls[i as usize]
}

fn numbered(parts: &[RankSummary], u: &Use) -> bool {
    u.calls.iter().all(|&i| call(parts, u, i).seq.is_some())
}

/// Matches a group by number if all calls have one, else by sequence.
fn group(matched: &mut Matched, parts: &[RankSummary], g: u32, uses: &[Use], otherwise: MatchMethod) {
    let expected = matched.groups[g as usize].expected();
    let kept = (matched.instances.len(), matched.members.len(), matched.conflicts.len());
    if !uses.is_empty() && uses.iter().all(|u| numbered(parts, u)) {
        if by_number(matched, parts, g, uses, expected) {
            return;
        }
        // Numbers that hardly two ranks share may count something else, so they are not evidence.
        matched.instances.truncate(kept.0);
        matched.members.truncate(kept.1);
        matched.conflicts.truncate(kept.2);
    }
    by_sequence(matched, parts, g, uses, expected, otherwise);
}

/// Matches by kind and number; a number that one rank has several times (several kernels of one call) counts its
/// occurrences. Returns `false` if several ranks have calls and hardly any number occurs on two of them.
fn by_number(matched: &mut Matched, parts: &[RankSummary], g: u32, uses: &[Use], expected: usize) -> bool {
    let mut keyed: Vec<(u64, CollectiveKind, u32, Member)> =
        Vec::with_capacity(uses.iter().map(|u| u.calls.len()).sum());
    for u in uses {
        let mut seen: HashMap<(u64, CollectiveKind), u32> = HashMap::new();
        for &i in &u.calls {
            let c = call(parts, u, i);
            let seq = c.seq.unwrap_or_default();
            let nth = seen.entry((seq, c.kind)).or_default();
            keyed.push((seq, c.kind, *nth, Member { part: u.part, call: i }));
            *nth += 1;
        }
    }
    keyed.sort_unstable();
    let mut shared = 0;
    for same in keyed.chunk_by(|a, b| (a.0, a.1, a.2) == (b.0, b.1, b.2)) {
        shared += if same.len() > 1 { same.len() } else { 0 };
        matched.add(parts, g, MatchMethod::Number, expected, same.iter().map(|k| k.3).collect());
    }
    for same in keyed.chunk_by(|a, b| a.0 == b.0) {
        let mut kinds: Vec<CollectiveKind> = same.iter().map(|k| k.1).collect();
        kinds.dedup();
        // Two kinds under one number are a conflict only if they are on different ranks.
        let on_one = |part: u32| same.iter().filter(|k| k.3.part == part).map(|k| k.1).collect::<Vec<_>>();
        let split = kinds.len() > 1 && same.iter().any(|k| !kinds.iter().all(|x| on_one(k.3.part).contains(x)));
        if split {
            matched.conflicts.push((g, same[0].0, kinds));
        }
    }
    uses.len() < 2 || shared * 4 >= keyed.len()
}

fn by_sequence(
    matched: &mut Matched,
    parts: &[RankSummary],
    g: u32,
    uses: &[Use],
    expected: usize,
    method: MatchMethod,
) {
    let labelled = share_labels(parts, uses);
    let mut tokens = KeyNumbers::default();
    let mut item = |u: &Use, i: u32| {
        let p = &parts[u.part as usize];
        let c = call(parts, u, i);
        // Ranks may send different amounts in one all-to-all.
        let bytes = c.bytes.filter(|_| c.kind != CollectiveKind::AllToAll);
        let label = if labelled { p.step_of(c).and_then(|s| s.label) } else { None };
        let dtype = p.calls.dtype(c).map(str::to_string);
        let plain = tokens.of((c.kind, bytes, dtype.clone(), None));
        let token = tokens.of((c.kind, bytes, dtype, label));
        UnmatchedCall {
            call: i,
            item: TokenAtEnd { token, end: c.span.end },
            plain,
            ends_together: c.kind.is_synchronous(),
        }
    };
    let mut left: Vec<(u32, Vec<UnmatchedCall>)> =
        uses.iter().map(|u| (u.part, u.calls.iter().map(|&i| item(u, i)).collect())).collect();
    let mut clocks: BTreeMap<u32, Ns> = BTreeMap::new();
    // Calls that the longest sequence lacks are matched among the others, and so on.
    while left.iter().any(|(_, l)| !l.is_empty()) {
        let longest = |k: &usize| (left[*k].1.len(), std::cmp::Reverse(left[*k].0));
        let Some(b) = (0..left.len()).max_by_key(longest) else { break };
        let sequence = |list: &[UnmatchedCall]| CallSequence::new(list.iter().map(|t| t.item).collect());
        let back = sequence(&left[b].1);
        let plain = left[b].1.iter().map(|t| TokenAtEnd { token: t.plain, end: t.item.end });
        let plain = CallSequence::new(plain.collect());
        // Computed once per token, not once per rank.
        let mut limits: HashMap<u32, u64> = HashMap::new();
        for t in &left[b].1 {
            limits.entry(t.plain).or_insert_with(|| plain.limit(t.plain));
        }
        let mut found: Vec<Vec<Member>> =
            left[b].1.iter().map(|t| vec![Member { part: left[b].0, call: t.call }]).collect();
        let base = clocks.get(&left[b].0).copied();
        for k in (0..left.len()).filter(|k| *k != b) {
            let other = sequence(&left[k].1);
            let known = base.zip(clocks.get(&left[k].0)).map(|(x, y)| y - x);
            // Where most calls are in marked steps, a call outside them is rare and not evidence. Nor is the end of a
            // broadcast, whose root leaves early.
            let some = |list: &[UnmatchedCall], keep: &dyn Fn(&UnmatchedCall) -> bool| {
                CallSequence::new(list.iter().filter(|t| keep(t)).map(|t| t.item).collect())
            };
            let of = |keep: &dyn Fn(&UnmatchedCall) -> bool| offset(&some(&left[b].1, keep), &some(&left[k].1, keep));
            let found_at = || {
                of(&|t| t.ends_together && t.item.token != t.plain)
                    .or_else(|| of(&|t| t.ends_together))
                    .or_else(|| offset(&back, &other))
            };
            let Some(shift) = known.or_else(found_at) else { continue };
            if known.is_none() {
                clocks.insert(left[k].0, base.unwrap_or(0) + shift);
            }
            // With step numbers the token limits the distance; without them only the time does, even for a token that
            // occurs once.
            let is_near = |(i, j): &(u32, u32)| {
                let (x, y) = (&left[b].1[*i as usize], &left[k].1[*j as usize]);
                let is_marked = x.item.token != x.plain && y.item.token != y.plain;
                is_marked || (y.item.end - shift).abs_diff(x.item.end) <= limits.get(&x.plain).copied().unwrap_or(0)
            };
            let mut matches =
                pairs(&back, &other, shift, if labelled { PartnerKind::Steps } else { PartnerKind::Ends });
            matches.retain(is_near);
            matches.extend(unmarked(&left[b].1, &left[k].1, &matches, shift).into_iter().filter(is_near));
            between(&left[b].1, &left[k].1, &mut matches);
            let mut gone = vec![false; left[k].1.len()];
            for (x, y) in matches {
                found[x as usize].push(Member { part: left[k].0, call: left[k].1[y as usize].call });
                gone[y as usize] = true;
            }
            let mut at = 0;
            left[k].1.retain(|_| {
                at += 1;
                !gone[at - 1]
            });
        }
        clocks.entry(left[b].0).or_insert(0);
        left[b].1.clear();
        for members in found {
            matched.add(parts, g, method, expected, members);
        }
    }
}

/// A call to be matched by sequence.
struct UnmatchedCall {
    call: u32,
    item: TokenAtEnd,
    /// Token without the step's number.
    plain: u32,
    ends_together: bool,
}

/// Pairs of the remaining calls for which one side has no step mark: a step that one rank recorded only in part is not
/// marked there.
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
    let found =
        pairs(&free_x, &free_y, shift, PartnerKind::Ends).into_iter().map(|(i, j)| (xs[i as usize], ys[j as usize]));
    found.filter(|(i, j)| is_bare(&x[*i as usize]) || is_bare(&y[*j as usize])).collect()
}

/// Matches broadcasts and reductions, whose ends do not agree. All members submit in the same order, so between two
/// matched synchronous collectives the n-th call of a token belongs to the n-th, if both ranks have the same number of
/// them.
///
/// ```text
///   root     A.b.b.b......A        leaves early
///   other    A......b.b.b.A        ends are no evidence, order is
/// ```
fn between(x: &[UnmatchedCall], y: &[UnmatchedCall], matches: &mut Vec<(u32, u32)>) {
    if x.iter().all(|t| t.ends_together) {
        return;
    }
    let mut anchors: Vec<(u32, u32)> = matches.iter().filter(|(i, _)| x[*i as usize].ends_together).copied().collect();
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

/// Whether steps have numbers, and neighbouring ranks recorded common ones.
fn share_labels(parts: &[RankSummary], uses: &[Use]) -> bool {
    let labels = |u: &Use| -> Vec<i64> { parts[u.part as usize].steps.iter().filter_map(|s| s.label).collect() };
    let Some(first) = uses.first().map(labels) else { return false };
    !first.is_empty() && uses.iter().all(|u| labels(u).iter().any(|l| first.contains(l)))
}

/// Accuracy of aligned clocks, ns: a message may seem to arrive earlier than it was sent by this much.
const SLACK: Ns = 20_000;

/// Matches the n-th message sent to the n-th received, if there are as many of both and none is received before it is
/// sent. An eager sender does not wait, so a receiver may lag by several messages, and ends are no evidence. They are
/// evidence if they agree on one shift: then the two ranks recorded different messages.
fn in_order(
    sent: usize,
    received: usize,
    by_end: &[(u32, u32)],
    is_possible: impl Fn(usize, usize) -> bool,
) -> Option<Vec<(u32, u32)>> {
    let shift = |p: &(u32, u32)| i64::from(p.1) - i64::from(p.0);
    let is_one_shift = by_end.windows(2).all(|w| shift(&w[0]) == shift(&w[1]));
    if sent != received || (is_one_shift && by_end.len() * 2 > sent) || !(0..sent).all(|i| is_possible(i, i)) {
        return None;
    }
    Some((0..sent as u32).map(|i| (i, i)).collect())
}

/// Matches messages: the n-th from one rank to another in a group, by order and time.
pub(crate) fn messages(parts: &[RankSummary], matched: &mut Matched, aligned: impl Fn(u32, Ns) -> Ns) {
    // Maps (group, source, destination) to the calls of the sender and of the receiver.
    type Sides = [Vec<(Member, Option<i64>)>; 2];
    let mut wires: BTreeMap<(Option<u32>, u32, u32), Sides> = BTreeMap::new();
    for (part, p) in parts.iter().enumerate().filter(|(_, p)| p.has_origin) {
        for e in &p.calls.edges {
            let Some(c) = p.calls.calls.get(e.call as usize).filter(|c| c.kind.is_point_to_point()) else { continue };
            let group = matched.group_of(part as u32, c.group);
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
        let mut taken = (vec![false; sent.len()], vec![false; received.len()]);
        let span = |m: &Member| parts[m.part as usize].calls.calls[m.call as usize].span;
        let is_possible = |i: usize, j: usize| {
            let (s, r) = (&sent[i], &received[j]);
            s.1 == r.1 && aligned(r.0.part, span(&r.0).end) + SLACK >= aligned(s.0.part, span(&s.0).start)
        };
        let by_end = pairs(&x, &y, 0, PartnerKind::Messages);
        let by_order = in_order(sent.len(), received.len(), &by_end, is_possible);
        for (i, j) in by_order.unwrap_or(by_end) {
            (taken.0[i as usize], taken.1[j as usize]) = (true, true);
            matched.add(parts, group, MatchMethod::Peers, 2, vec![sent[i as usize].0, received[j as usize].0]);
        }
        let alone = |list: &[(Member, Option<i64>)], taken: &[bool]| -> Vec<Member> {
            list.iter().zip(taken).filter(|(_, t)| !**t).map(|((m, _), _)| *m).collect()
        };
        for m in alone(&sent, &taken.0).into_iter().chain(alone(&received, &taken.1)) {
            matched.add(parts, group, MatchMethod::Peers, 2, vec![m]);
        }
    }
}

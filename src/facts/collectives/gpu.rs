//! Calls on a device: communication kernels, described by the operators that launched them.

use crate::collectives::evidence::{CallEvidence, kind_in};
use crate::collectives::found::CallCollector;
use crate::collectives::ranges::SubmissionRanges;
use hta_base::units::Ns;
use hta_trace::activity::Activity;
use hta_trace::args::Arg;
use hta_trace::category::Class;
use hta_trace::collective::dtype::{dtype_in_kernel, dtype_name};
use hta_trace::collective::group::{HeaderGroups, LocalGroup, Members};
use hta_trace::collective::{CallShape, CollectiveCall, Message};
use hta_trace::collective::{CollectiveKind, KernelRole};
use hta_trace::kernel::function_name;
use hta_trace::rank_trace::RankTrace;
use hta_trace::timeline::WorkClass;
use std::collections::BTreeMap;

pub fn find(trace: &RankTrace, found: &mut CallCollector) {
    let header = HeaderGroups::new(&trace.meta);
    let marks = SubmissionRanges::new(trace);
    let mut messages = RecordedMessages::new(trace);
    // The copies of one exchange are one call: of its outermost operator, the index among the calls.
    let mut of_copies: BTreeMap<u32, usize> = BTreeMap::new();
    for a in by_launch(trace) {
        let launch = a.launch().map(|l| (trace.columns.ts[l as usize], trace.columns.lane[l as usize]));
        let chain = operators(trace, a);
        let exchange = chain.last().copied().filter(|_| a.class == Class::Memcpy);
        if let Some((call, _)) = exchange.and_then(|of| found.calls.get_mut(*of_copies.get(&of)?)) {
            call.span = call.span.hull(a.span);
            call.released = call.span.end;
            continue;
        }
        of_copies.extend(exchange.map(|of| (of, found.calls.len())));
        let (mut e, mut kind) = match a.work {
            WorkClass::Fused => (fused(trace, a), CollectiveKind::Fused),
            _ => described(trace, a, launch, &chain, &marks),
        };
        let op = chain.last().map(|row| trace.span(*row));
        let title = launch.and_then(|(at, lane)| marks.title(lane, Some(at), op, trace));
        let me = trace.rank;
        let edge = |src, dst, bytes| Message { call: 0, src, dst, bytes };
        let named = ends(kind, (e.src, e.dst), me);
        let is_message = kind.is_point_to_point() || kind == CollectiveKind::Unknown;
        let pending: Vec<CallEvidence> = match launch {
            Some((at, lane)) if named.is_none() && is_message || e.group.is_unknown() => {
                messages.before(trace, lane, at)
            }
            _ => Vec::new(),
        };
        let sent: Vec<Message> = match named {
            Some((src, dst)) => vec![edge(src, dst, e.bytes(kind))],
            None if is_message => pending.iter().filter_map(|m| message(m, me)).collect(),
            None => Vec::new(),
        };
        join(&mut e, kind, &pending, !sent.is_empty());
        e.group.complete(&header);
        let mut bytes = e.bytes(kind);
        if named.is_none() && !sent.is_empty() {
            bytes = sent.iter().filter(|x| x.src == me).map(|x| x.bytes).sum::<Option<i64>>();
            kind = joined_kind(&sent, me, e.group.members.as_ref());
        }
        if let Some((at, lane)) = launch {
            messages.launched(lane, at);
        }
        let (root, rank_arg) = (e.root(kind), e.rank_arg);
        let group = found.group(e.group);
        let dtype = found.dtype(e.dtype.as_deref().unwrap_or_default());
        let shape = CallShape {
            kind,
            group,
            thread: launch.map(|(_, lane)| lane),
            bytes,
            dtype,
            root,
            rank_arg,
            title: found.title(title.map_or("", |row| trace.name(row))),
            peer: None,
            device: a.device(),
            stream: a.stream(),
            on_host: false,
        };
        let call = CollectiveCall {
            event: a.row,
            submit: launch.map_or(a.span.start, |(at, _)| at),
            span: a.span,
            released: a.span.end,
            seq: e.seq,
            step: a.step(),
            shape: found.shapes.shared(shape),
        };
        found.calls.push((call, sent));
    }
}

/// The kernels that are calls, in order of launch, so that each takes the messages since the previous one.
fn by_launch(trace: &RankTrace) -> Vec<&Activity> {
    let is_call = |a: &&Activity| matches!(a.work, WorkClass::Communication | WorkClass::Fused);
    let mut kernels: Vec<&Activity> = trace.activities.iter().filter(is_call).collect();
    kernels.sort_by_key(|a| {
        (a.launch().map_or(a.span.start, |l| trace.columns.ts[l as usize]), a.span.start, a.row)
    });
    kernels
}

/// A fused kernel names no group. The launches of one function are the calls of one, whose members are
/// inferred.
fn fused(trace: &RankTrace, a: &Activity) -> CallEvidence {
    let group = LocalGroup::of_fused(function_name(trace.text(a.name)));
    CallEvidence { group, ..CallEvidence::default() }
}

/// The ranks between which a call says that its message goes; `None` if it does not say.
fn ends(kind: CollectiveKind, (src, dst): (Option<u32>, Option<u32>), me: u32) -> Option<(u32, u32)> {
    match (kind, src, dst) {
        (CollectiveKind::Send, _, Some(to)) => Some((me, to)),
        (CollectiveKind::Recv, Some(from), _) => Some((from, me)),
        (CollectiveKind::SendRecv, Some(from), Some(to)) if from != to => Some((from, to)),
        _ => None,
    }
}

/// What the kernel, the operators around its launch (time and thread) and the back end's annotation say of a
/// call, and its kind.
fn described(
    trace: &RankTrace,
    a: &Activity,
    launch: Option<(Ns, u32)>,
    chain: &[u32],
    marks: &SubmissionRanges,
) -> (CallEvidence, CollectiveKind) {
    let mut e = CallEvidence::default();
    e.add(trace, a.row);
    for &op in chain {
        e.add(trace, op);
    }
    e.kind = e.kind.or_else(|| a.role.and_then(KernelRole::kind));
    let of_operators = || chain.iter().find_map(|o| kind_in(trace.name(*o)));
    if let Some((at, lane)) = launch
        && (e.dtype.is_none() || e.kind.is_none())
        && let Some(mark) = marks.around(lane, at, trace)
    {
        e.add(trace, mark);
        // The text of a title says nothing about the kind.
        let is_title = trace.classes.get(mark as usize) == Some(&Class::Title);
        e.kind = e.kind.or_else(|| if is_title { of_operators() } else { kind_in(trace.name(mark)) });
    }
    let of_kernel = || kind_in(trace.text(a.name));
    // Kernels of programs, below operators of symmetric memory.
    let of_owner =
        || a.op().map(|op| trace.name(op)).filter(|op| op.starts_with("symm_mem::")).and_then(kind_in);
    let kind = e.kind.or_else(of_kernel).or_else(of_operators).or_else(of_owner);
    let kind = kind.unwrap_or(CollectiveKind::Unknown);
    if e.dtype.is_none() {
        e.dtype = dtype_in_kernel(trace.text(a.name)).map(|d| dtype_name(d).to_string());
    }
    (e, kind)
}

/// The kind of a kernel with several messages: an all-to-all if every member is a peer.
fn joined_kind(edges: &[Message], me: u32, members: Option<&Members>) -> CollectiveKind {
    let to = |r: u32| edges.iter().any(|e| e.src == me && e.dst == r);
    let from = |r: u32| edges.iter().any(|e| e.dst == me && e.src == r);
    // A group with more members than messages cannot have exchanged data with all of them.
    let small = |m: &&Members| m.len() > 2 && m.len() <= edges.len() + 1;
    if members.filter(small).is_some_and(|m| m.iter().all(|r| r == me || (to(r) && from(r)))) {
        return CollectiveKind::AllToAll;
    }
    match (edges.iter().any(|e| e.src == me), edges.iter().any(|e| e.dst == me)) {
        (true, false) => CollectiveKind::Send,
        (false, true) => CollectiveKind::Recv,
        _ => CollectiveKind::SendRecv,
    }
}

/// The `record_param_comms` and `c10d::*` operators around the launch, innermost first; of a copy also those
/// of symmetric memory.
fn operators(trace: &RankTrace, a: &Activity) -> Vec<u32> {
    let is_copy = a.class == Class::Memcpy;
    let is_kept = |row: &u32| {
        let name = trace.name(*row);
        name == "record_param_comms"
            || name.starts_with("c10d::")
            || name.starts_with("nccl:")
            || (is_copy && name.starts_with("symm_mem::"))
    };
    let from = if is_copy { a.launch() } else { a.op() };
    from.into_iter().flat_map(|op| trace.stacks.outward(op)).filter(is_kept).collect()
}

/// The message that a record of a send or receive describes.
fn message(record: &CallEvidence, me: u32) -> Option<Message> {
    let (src, dst) = match (record.kind?, record.src, record.dst) {
        (CollectiveKind::Send, _, Some(to)) => (me, to),
        (CollectiveKind::Recv, Some(from), _) => (from, me),
        _ => return None,
    };
    Some(Message { call: 0, src, dst, bytes: record.kind.and_then(|kind| record.bytes(kind)) })
}

/// Gives a kernel that names no group that of the records before it: of its messages, or of the collectives
/// of its kind, if they all have one group. A coalesced kernel does the work of several calls.
fn join(e: &mut CallEvidence, kind: CollectiveKind, pending: &[CallEvidence], has_messages: bool) {
    let is_point = |k: CollectiveKind| k.is_point_to_point();
    let is_own = |m: &&CallEvidence| {
        m.kind.is_some_and(|k| if has_messages { is_point(k) } else { k == kind && !is_point(k) })
    };
    let own: Vec<&CallEvidence> = pending.iter().filter(is_own).collect();
    let Some(last) = own.last().filter(|last| own.iter().all(|m| m.group == last.group)) else { return };
    if !e.group.is_unknown() || last.group.is_unknown() {
        return;
    }
    e.group = last.group.clone();
    if !has_messages {
        let sum = |of: fn(&CallEvidence) -> Option<i64>| own.iter().map(|m| of(m)).sum::<Option<i64>>();
        (e.in_elements, e.out_elements) = (sum(|m| m.in_elements), sum(|m| m.out_elements));
        e.shape_elements = e.shape_elements.or_else(|| sum(|m| m.shape_elements));
        (e.seq, e.dtype) = (e.seq.or(last.seq), e.dtype.take().or_else(|| last.dtype.clone()));
    }
}

/// Collectives and messages that operators recorded with their group, per thread in order of time. A
/// coalesced kernel is launched after them and carries those that no other kernel has taken.
struct RecordedMessages {
    /// Time and row.
    by_lane: BTreeMap<u32, Vec<(Ns, u32)>>,
    taken: BTreeMap<u32, Ns>,
}

impl RecordedMessages {
    fn new(trace: &RankTrace) -> Self {
        let c = &trace.columns;
        let mut by_lane: BTreeMap<u32, Vec<(Ns, u32)>> = BTreeMap::new();
        let Some(name) = c.strings.lookup(b"record_param_comms") else {
            return Self { by_lane, taken: BTreeMap::new() };
        };
        // Consider only operators that name a peer or a group; there are few.
        let mut rows: Vec<u32> = [Arg::SrcRank, Arg::DstRank, Arg::GroupName]
            .iter()
            .flat_map(|a| c.args.column(*a).rows())
            .filter(|&r| c.name(r as usize) == name && trace.classes[r as usize] == Class::HostOp)
            .collect();
        rows.sort_unstable();
        rows.dedup();
        for row in rows {
            by_lane.entry(c.lane[row as usize]).or_default().push((c.ts[row as usize], row));
        }
        by_lane.values_mut().for_each(|m| m.sort_unstable());
        Self { by_lane, taken: BTreeMap::new() }
    }

    /// What the thread recorded since its previous launch of a communication kernel.
    fn before(&self, trace: &RankTrace, lane: u32, at: Ns) -> Vec<CallEvidence> {
        let since = self.taken.get(&lane).copied().unwrap_or(Ns::MIN);
        let all = self.by_lane.get(&lane).map_or(&[][..], Vec::as_slice);
        let (from, until) = (all.partition_point(|m| m.0 <= since), all.partition_point(|m| m.0 <= at));
        let record = |(_, row): &(Ns, u32)| {
            let mut e = CallEvidence::default();
            e.add(trace, *row);
            e
        };
        all.get(from..until).unwrap_or_default().iter().map(record).collect()
    }

    fn launched(&mut self, lane: u32, at: Ns) {
        self.taken.insert(lane, at);
    }
}

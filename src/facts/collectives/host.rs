//! Calls on the host: the ranges of CPU back ends (`gloo:all_reduce`), paired with the operators that
//! submitted them.
//!
//! ```text
//!   main thread    [c10d::allreduce_]   [c10d::allreduce_]      submission: the rank arrives
//!   worker         ......[gloo:all_reduce......]                starts late, when the worker thread is free
//!   worker         ........................[gloo:all_reduce]
//! ```
//!
//! The k-th range of a kind belongs to the k-th operator of that kind (of that kind and size, if both have
//! sizes). A range never starts before its operator; if the operator was not recorded, the range has none.

use crate::collectives::evidence::{CallEvidence, kind_in};
use crate::collectives::found::CallCollector;
use crate::collectives::ranges::SubmissionRanges;
use hta_base::units::Ns;
use hta_trace::args::Arg;
use hta_trace::category::Class;
use hta_trace::collective::CollectiveKind;
use hta_trace::collective::group::HeaderGroups;
use hta_trace::collective::{CallShape, CollectiveCall};
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::ByText;
use hta_trace::timeline::WorkClass;
use serde_json::Value;
use std::collections::BTreeMap;

/// Prefixes of the back ends that work on the host.
const PREFIXES: [&str; 3] = ["gloo:", "mpi:", "ucc:"];
/// Beginning of the names of the records of collectives on XPU (category `collective_comm`), on the thread
/// that submits them. Ranges of that name are others, which lie around the records.
const RECORDS: &str = "xccl:";

struct CollectiveRange {
    row: u32,
    kind: CollectiveKind,
    evidence: CallEvidence,
}

pub fn find(trace: &RankTrace, found: &mut CallCollector) {
    let c = &trace.columns;
    let names = kinds_by_name(trace);
    if !names.any(|n| matches!(n, NamedCollective::Range(_) | NamedCollective::Record(_))) {
        return;
    }
    let (ranges, ops) = ranges_and_operators(trace, &names);
    let submission = pair(trace, &ranges, &ops);
    let signs = ThreadMoments::new(trace, submission.iter().flatten().map(|o| c.lane[*o as usize]));
    let workers = workers(trace, &ranges);
    let marks = SubmissionRanges::new(trace);
    let header = HeaderGroups::new(&trace.meta);
    for (range, op) in ranges.into_iter().zip(submission) {
        let CollectiveRange { row, kind, evidence: mut e } = range;
        if let Some(op) = op {
            e.add(trace, op);
        }
        if e.dtype.is_none()
            && let Some(mark) = marks.around(c.lane[row as usize], c.ts[row as usize], trace)
        {
            e.add(trace, mark);
        }
        if let Some((pair, size)) = workers.get(&c.lane[row as usize])
            && e.group.name.is_none()
            && e.group.size.is_none()
        {
            (e.group.pointer, e.group.size) = (Some(*pair), Some(*size));
        }
        e.group.complete(&header);
        let ended = op.map_or(trace.span(row).end, |o| trace.span(row).end.max(trace.span(o).end));
        let released = op.map_or(ended, |o| signs.after(c.lane[o as usize], ended));
        let submit = op.map_or(c.ts[row as usize], |o| c.ts[o as usize]);
        let bytes = e.bytes(kind);
        let (root, rank_arg) = (e.root(kind), e.rank_arg);
        let peer = op.filter(|_| kind.is_point_to_point()).and_then(|op| peer(trace, op));
        let title = op.and_then(|op| marks.title(c.lane[op as usize], None, Some(trace.span(op)), trace));
        let group = found.group(e.group);
        let shape = CallShape {
            kind,
            group,
            thread: op.map(|o| c.lane[o as usize]),
            bytes,
            dtype: found.dtype(e.dtype.as_deref().unwrap_or_default()),
            root,
            rank_arg,
            title: found.title(title.map_or("", |row| trace.name(row))),
            peer,
            device: None,
            stream: None,
            on_host: true,
        };
        let of_capture = || trace.steps.steps.first().filter(|_| is_capture(trace)).map(|s| s.index);
        let call = CollectiveCall {
            event: row,
            submit,
            span: trace.span(row),
            released,
            seq: e.seq,
            step: trace.steps.at(submit).or_else(of_capture),
            shape: found.shapes.shared(shape),
        };
        found.calls.push((call, Vec::new()));
    }
}

/// Ranges of collectives, and the operators that call some, each in order of start.
fn ranges_and_operators(
    trace: &RankTrace,
    names: &ByText<NamedCollective>,
) -> (Vec<CollectiveRange>, Vec<CollectiveRange>) {
    let c = &trace.columns;
    // A collective whose kernel is recorded is that kernel's.
    let has_kernels = trace.activities.iter().any(|a| a.work == WorkClass::Communication);
    let (mut ranges, mut ops): (Vec<CollectiveRange>, Vec<CollectiveRange>) = (Vec::new(), Vec::new());
    for (row, class) in trace.classes.iter().enumerate() {
        let name = names.get(c.name(row)).copied().unwrap_or_default();
        let (list, kind) = match (class, name) {
            (Class::Collective, NamedCollective::Record(kind)) if !has_kernels => (&mut ranges, kind),
            (Class::Annotation | Class::HostOp | Class::Collective, NamedCollective::Range(kind)) => {
                (&mut ranges, kind)
            }
            (Class::HostOp, NamedCollective::Operator(kind)) => (&mut ops, kind),
            _ => continue,
        };
        let mut evidence = CallEvidence::default();
        evidence.add(trace, row as u32);
        list.push(CollectiveRange { row: row as u32, kind, evidence });
    }
    let by_start = |r: &CollectiveRange| (c.ts[r.row as usize], r.row);
    ranges.sort_by_key(by_start);
    ops.sort_by_key(by_start);
    (ranges, ops)
}

/// What a name says about a collective, with its kind.
#[derive(Debug, Clone, Copy, Default)]
enum NamedCollective {
    #[default]
    None,
    Range(CollectiveKind),
    Record(CollectiveKind),
    Operator(CollectiveKind),
}

fn kinds_by_name(trace: &RankTrace) -> ByText<NamedCollective> {
    trace.columns.strings.each(|text| {
        let kind = || kind_in(text).unwrap_or(CollectiveKind::Unknown);
        if PREFIXES.iter().any(|p| text.starts_with(p)) {
            NamedCollective::Range(kind())
        } else if text.starts_with(RECORDS) {
            NamedCollective::Record(kind())
        } else if text.starts_with("c10d::") {
            kind_in(text).map_or(NamedCollective::None, NamedCollective::Operator)
        } else {
            NamedCollective::None
        }
    })
}

/// Position of the other rank in the group of a message, which `c10d::send` and `c10d::recv_` record as
/// `Concrete Inputs`: tensors, group, position, tag. The group itself is not recorded.
fn peer(trace: &RankTrace, op: u32) -> Option<u32> {
    let text = trace.text(trace.columns.args.text(Arg::ConcreteInputs, op)?);
    let inputs: Vec<Value> = serde_json::from_str(text).ok()?;
    let position = inputs.get(2).filter(|_| inputs.len() == 4)?;
    position.as_str()?.trim().parse().ok()
}

/// For each worker thread of a CPU back end, a number that identifies its group within this rank, and the
/// group's size.
///
/// Gloo creates two threads for every group, in the order of the groups. Ranges do not name their group, so
/// with several groups the threads distinguish them. The default group has no threads if it is not used.
/// Which ranks belong to such a group is not known here: `infer` finds out from the ends of calls.
fn workers(trace: &RankTrace, ranges: &[CollectiveRange]) -> BTreeMap<u32, (u64, u32)> {
    let groups = &trace.meta.groups;
    let mut lanes: Vec<(Option<i64>, u32)> = ranges
        .iter()
        .map(|r| trace.columns.lane[r.row as usize])
        .map(|l| (trace.columns.lanes.get(l as usize).and_then(|x| x.tid_num), l))
        .collect();
    lanes.sort_unstable();
    lanes.dedup();
    let used = match lanes.len() {
        n if groups.len() > 1 && n == 2 * groups.len() => &groups[..],
        n if groups.len() > 2 && n == 2 * (groups.len() - 1) => &groups[1..],
        _ => return BTreeMap::new(),
    };
    let group =
        |i: usize| Some((i as u64, used.get(i)?.size.or(u32::try_from(used.get(i)?.ranks.len()).ok())?));
    lanes.iter().enumerate().filter_map(|(i, (_, lane))| Some((*lane, group(i / 2)?))).collect()
}

/// Starts and ends of operators and annotations by thread: evidence that the thread continued.
struct ThreadMoments {
    by_lane: BTreeMap<u32, Vec<Ns>>,
}

impl ThreadMoments {
    fn new(trace: &RankTrace, lanes: impl Iterator<Item = u32>) -> Self {
        let mut by_lane: BTreeMap<u32, Vec<Ns>> = lanes.map(|l| (l, Vec::new())).collect();
        for (row, class) in trace.classes.iter().enumerate() {
            if matches!(class, Class::HostOp | Class::Annotation | Class::Title)
                && let Some(list) = by_lane.get_mut(&trace.columns.lane[row])
            {
                let span = trace.span(row as u32);
                list.extend([span.start, span.end]);
            }
        }
        by_lane.values_mut().for_each(|l| l.sort_unstable());
        Self { by_lane }
    }

    /// The first of these moments at or after `t`, or `t` if there is none.
    fn after(&self, lane: u32, t: Ns) -> Ns {
        let list = self.by_lane.get(&lane).map_or(&[][..], Vec::as_slice);
        list.get(list.partition_point(|s| *s < t)).copied().unwrap_or(t)
    }
}

fn is_capture(trace: &RankTrace) -> bool {
    trace.steps.rule == hta_trace::step::StepRule::Capture
}

/// Assigns to each range its operator: the first of the same kind (and number of elements) that is not taken
/// and did not start later.
fn pair(trace: &RankTrace, ranges: &[CollectiveRange], ops: &[CollectiveRange]) -> Vec<Option<u32>> {
    // Use sizes only if all ranges and operators of the kind have them.
    let sized = |kind: CollectiveKind| {
        let all = |list: &[CollectiveRange]| {
            list.iter().filter(|r| r.kind == kind).all(|r| r.evidence.shape_elements.is_some())
        };
        let set = |list: &[CollectiveRange]| {
            let mut n: Vec<_> =
                list.iter().filter(|r| r.kind == kind).map(|r| r.evidence.shape_elements).collect();
            n.sort_unstable();
            n.dedup();
            n
        };
        all(ranges) && all(ops) && set(ranges) == set(ops)
    };
    let with_size: BTreeMap<CollectiveKind, bool> = ranges.iter().map(|r| (r.kind, sized(r.kind))).collect();
    let key = |r: &CollectiveRange| {
        (r.kind, r.evidence.shape_elements.filter(|_| with_size.get(&r.kind) == Some(&true)))
    };
    let mut waiting: BTreeMap<_, std::collections::VecDeque<u32>> = BTreeMap::new();
    for op in ops {
        waiting.entry(key(op)).or_default().push_back(op.row);
    }
    let ts = |row: u32| trace.columns.ts[row as usize];
    ranges
        .iter()
        .map(|r| {
            let queue = waiting.get_mut(&key(r))?;
            if queue.front().is_some_and(|&o| ts(o) <= ts(r.row)) { queue.pop_front() } else { None }
        })
        .collect()
}

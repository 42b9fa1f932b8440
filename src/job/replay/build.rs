//! Makes the nodes of a replay from the calls of a job.

use crate::ready::TOLERANCE;
use crate::replay::hosts::host_parts;
use crate::replay::nodes::{Base, EndDependency, ReplayNode};
use crate::window::start_without_meeting;
use crate::{Instance, Job, Member, RankSummary, is_queued_behind};
use hashbrown::HashMap;
use hta_base::units::Ns;

/// What one member of an instance of a rooted kind needs; `None` for all starts.
pub(super) fn one_instance(
    job: &Job,
    i: &Instance,
    id: u32,
    me: Member,
    ids: &HashMap<Member, u32>,
) -> Option<EndDependency> {
    if !(i.kind.is_from_root() || i.kind.is_to_root()) {
        return None;
    }
    let root = job.root(id)?;
    match (i.kind.is_from_root(), root == me) {
        (true, false) => ids.get(&root).map(|n| EndDependency::Start(*n)),
        (true, true) | (false, false) => Some(EndDependency::Nobody),
        (false, true) => None,
    }
}

/// Nodes of one part, in the order in which it was ready for its calls.
pub(super) fn part_nodes(job: &Job, part: u32, nodes: &mut Vec<ReplayNode>) {
    let p = &job.parts[part as usize];
    let calls = &p.calls.calls;
    let on = |t: Ns| job.aligned(part, t);
    for lane in 0..p.lanes.len() {
        let order = p.calls_by_ready(lane);
        let first = nodes.len() as u32;
        let node_of: HashMap<usize, u32> =
            order.iter().enumerate().map(|(k, &i)| (i, first + k as u32)).collect();
        let behind = calls_behind(p, &order);
        let points = job.sync_points(part, lane);
        let mut previous: Option<(Ns, usize)> = None;
        for i in order {
            let c = &calls[i];
            let t = p.readiness[i].ready;
            let met = points.before(t).map(|(_, q)| (calls[q].released, q)).filter(|(_, q)| *q != i);
            let before = previous.filter(|(b, _)| met.is_none_or(|(e, _)| e < *b));
            let (base, local) = match (before, met) {
                (Some((b, q)), _) => (Base::Ready(node_of[&q]), t - b),
                (None, Some((e, q))) => (Base::End(node_of[&q]), t - e),
                (None, None) => {
                    let (from, _) = start_without_meeting(p, i);
                    (Base::Fixed(on(from)), t - from)
                }
            };
            let member = Member { part, call: i as u32 };
            let behind = behind.get(&i).copied().unwrap_or_default();
            let behind = behind.map(|q| q.and_then(|q| node_of.get(&q)).copied());
            nodes.push(ReplayNode {
                member,
                lane: lane as u32,
                base,
                local,
                behind,
                rest: 0,
                transfer: 0,
                needs: EndDependency::Nobody,
                ready: on(t),
                end: on(c.released),
                step: None,
                host: None,
            });
            previous = Some((t, i));
        }
        if p.lanes[lane].is_gpu {
            host_parts(job, part, lane, &node_of, &mut nodes[first as usize..]);
        }
    }
}

/// A call that waits for another stream starts within this time after its end, ns.
const STREAM_WAIT: Ns = 10_000;

/// For each call of a device the calls that it waited behind: the previous one on its stream, if it started
/// right after that one's end; and the one of another stream that its stream waited for, which shows in that
/// it started when that one ended, although its data was ready before:
///
/// ```text
///   compute     |backward]
///   stream 21             [all-reduce of the tensors....]
///   stream 20                                            [all-reduce of the gradients ...]
///                         ^ ready                        ^ start: no earlier than the end on stream 21
/// ```
fn calls_behind(p: &RankSummary, order: &[usize]) -> HashMap<usize, [Option<usize>; 2]> {
    let calls = &p.calls.calls;
    let on_device = || order.iter().copied().filter(|i| !calls[*i].shape.on_host);
    let mut by_start: Vec<usize> = on_device().collect();
    by_start.sort_by_key(|&i| (calls[i].shape.stream, calls[i].span.start, i));
    let mut out: HashMap<usize, [Option<usize>; 2]> = HashMap::new();
    for w in by_start.windows(2).filter(|w| is_queued_behind(&calls[w[0]], &calls[w[1]])) {
        out.insert(w[1], [Some(w[0]), None]);
    }
    let mut by_end: Vec<(Ns, usize)> = on_device().map(|i| (calls[i].span.end, i)).collect();
    by_end.sort_unstable();
    for i in by_start {
        let (c, ready) = (&calls[i], p.readiness[i].ready);
        let own = out.get(&i).and_then(|of| of[0]).map_or(Ns::MIN, |q| calls[q].span.end);
        let least = (c.span.start - STREAM_WAIT).max(ready + TOLERANCE).max(own);
        let ended =
            by_end[..by_end.partition_point(|(end, _)| *end <= c.span.start + TOLERANCE)].iter().rev();
        let is_before = |q: usize| calls[q].shape.stream != c.shape.stream && calls[q].submit < c.submit;
        let waited = ended.take_while(|(end, _)| *end > least).find(|(_, q)| is_before(*q));
        if let Some((_, q)) = waited {
            out.entry(i).or_default()[1] = Some(*q);
        }
    }
    out
}

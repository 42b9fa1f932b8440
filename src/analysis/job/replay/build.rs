//! Makes the nodes of a replay from the calls of a job.

use crate::job::replay::hosts::host_parts;
use crate::job::replay::nodes::{Base, EndDependency, ReplayNode};
use crate::job::window::start_without_meeting;
use crate::job::{Instance, Job, Member, is_queued_behind};
use hashbrown::HashMap;
use hta_base::units::Ns;
use hta_trace::collective::CollectiveCall;

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
        let before_on_stream = before_on_stream(calls, &order);
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
            let behind = before_on_stream.get(&i).and_then(|q| node_of.get(q)).copied();
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

/// For each call of a device the previous one on its stream, if the call started right after that one's end.
fn before_on_stream(calls: &[CollectiveCall], order: &[usize]) -> HashMap<usize, usize> {
    let mut by_start: Vec<usize> = order.iter().copied().filter(|i| !calls[*i].shape.on_host).collect();
    by_start.sort_by_key(|&i| (calls[i].shape.stream, calls[i].span.start, i));
    let is_queued = |w: &&[usize]| is_queued_behind(&calls[w[0]], &calls[w[1]]);
    by_start.windows(2).filter(is_queued).map(|w| (w[1], w[0])).collect()
}

//! The host's part of a replay: what each submission follows, and whether the device waited for it.

use crate::replay::nodes::{HostBase, HostPart, ReplayNode};
use crate::window::start_without_meeting;
use crate::{Job, TimeUse};
use hashbrown::HashMap;
use hta_base::units::{Ns, Span};

/// A device that idled longer than this for its host was limited by it, ns.
const BOUND_MIN: Ns = 20_000;

/// Adds the host's parts to the nodes of a lane of a device, whose numbers are `node_of` by call.
pub(super) fn host_parts(
    job: &Job,
    part: u32,
    lane: usize,
    node_of: &HashMap<usize, u32>,
    nodes: &mut [ReplayNode],
) {
    let p = &job.parts[part as usize];
    let on = |t: Ns| job.aligned(part, t);
    let mut order: Vec<usize> = (0..nodes.len()).collect();
    order.sort_by_key(|&k| {
        let call = nodes[k].member.call as usize;
        (p.calls.calls[call].submit, call)
    });
    // The previous submission of each thread: when, and of which call.
    let mut previous: HashMap<Option<u32>, (Ns, usize)> = HashMap::new();
    for k in order {
        let call = nodes[k].member.call as usize;
        let (c, r) = (&p.calls.calls[call], &p.readiness[call]);
        let before = previous.insert(c.shape.thread, (c.submit, call));
        let waited = r.host_wait.filter(|w| before.is_none_or(|(at, _)| at <= w.returned));
        let of_wait = waited.and_then(|w| Some((w, *node_of.get(&(w.call as usize))?)));
        let (base, from) = match (of_wait, before) {
            (Some((w, node)), _) => {
                (HostBase::Return(node, w.returned - p.calls.calls[w.call as usize].released), w.returned)
            }
            (None, Some((at, q))) => match node_of.get(&q) {
                Some(node) => (HostBase::Submit(*node), at),
                None => (HostBase::Fixed(on(at)), at),
            },
            (None, None) => {
                let (from, _) = start_without_meeting(p, call);
                (HostBase::Fixed(on(from.min(c.submit))), from.min(c.submit))
            }
        };
        let n = &mut nodes[k];
        let window = Span::new(r.ready - n.local, r.ready);
        let (mut busy, mut idle) = (0, 0);
        for e in p.lanes[lane].local.entries_in(window) {
            match e.what {
                TimeUse::Kernel | TimeUse::Copy => busy += e.time,
                TimeUse::KernelWait | TimeUse::OtherWait | TimeUse::UnlinkedWait => {}
                _ => idle += e.time,
            }
        }
        n.host = Some(HostPart {
            base,
            time: c.submit - from,
            submit: on(c.submit),
            lag: r.ready - c.submit,
            busy: busy.min(n.local),
            is_bound: idle > BOUND_MIN,
        });
    }
}

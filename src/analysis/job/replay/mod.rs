//! Replay of a job: local work between collectives, and the collectives that connect it.
//!
//! ```text
//!   base ]---- local ----[ ready   start ..wait.. | transfer ] end
//!
//!   start = max(ready, end of the previous call on its stream)       end = latest start of the members + transfer
//! ```
//!
//! A *base* is what the local work before a call follows: the end of the latest collective at which the rank met the
//! others; or the moment when it was ready for the previous call, if it continued to work since then; or else the start
//! of the step or capture. With the measured local times the replay should give the measured ends; the deviation is the
//! replay error. Then local times are replaced.
//!
//! The host must not be forgotten: a rank whose device waits for nothing because its host is ahead would be limited by
//! that host if the others came earlier. So where a rank is on a device,
//!
//! ```text
//!   ready = max(base + local, submit + LATENCY)      its device waited for no launch since the base
//!   ready = max(base + busy, submit + lag)           its device waited for its host; lag = ready - submit, as measured
//! ```
//!
//! and *submit* follows from what the submitting thread did before: its previous submission, or the return of a call
//! that waited for the end of a collective.
//!
//! Nodes are replayed in the order of their measured times, none before what it depends on. If matches are wrong and no
//! such order exists, the measured time is used, and the error shows it.

mod hosts;
mod limits;
mod order;
mod removed;
mod replayed;
mod usual;

pub use limits::ReplayLimits;
pub use removed::{Removed, is_host_use};
pub use replayed::{RELIABLE_PCT, ReplayedJob};

use crate::job::delay::{StepKey, step_of};
use crate::job::window::{LocalWindow, WindowStart, start_without_meeting};
use crate::job::{Instance, Job, Member, is_queued_behind};
use hosts::host_parts;
use hta_base::units::{Ns, Span};
use hta_trace::collective::CollectiveCall;
use std::collections::{BTreeMap, HashMap};

#[derive(Clone, Copy)]
enum Base {
    /// End of a call of the same part, by node.
    End(u32),
    /// The moment when the part was ready for an earlier call, after which it continued without waiting.
    Ready(u32),
    /// A fixed moment on the common axis.
    Fixed(Ns),
}

/// What the host's time before a submission follows.
#[derive(Clone, Copy)]
enum HostBase {
    /// The submission of an earlier call, by node.
    Submit(u32),
    /// The return of a call that waited for the end of a node, this long after that end, ns.
    Return(u32, Ns),
    /// A fixed moment on the common axis.
    Fixed(Ns),
}

/// The host's part of a node on a device.
#[derive(Clone, Copy)]
struct HostPart {
    base: HostBase,
    /// From the base to the submission, as measured, ns.
    time: Ns,
    submit: Ns,
    /// From the submission until the rank was ready, as measured, ns.
    lag: Ns,
    /// Compute and exposed copies since the base of the device, ns.
    busy: Ns,
    /// Compute alone, ns.
    compute: Ns,
    /// Whether the device waited for launches since its base.
    is_bound: bool,
}

/// From a submission to an idle device until the work starts, ns.
const LATENCY: Ns = 8_000;

/// The times of a node in a replay, ns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NodeTimes {
    /// Local time with all waiting for the host.
    pub(crate) local: Ns,
    /// Local time of the device alone.
    pub(crate) busy: Ns,
    /// Time of the host before the submission.
    pub(crate) host: Ns,
    /// From the submission until the rank is ready, where its device waited for its host.
    pub(crate) lag: Ns,
    /// By how much the transfer is shorter than measured.
    pub(crate) saved: Ns,
}

/// What a replay assumes beside the times of the nodes.
#[derive(Debug, Clone, Copy, Default)]
struct Assumed {
    /// No host is ever late.
    without_hosts: bool,
    /// Transfers take no time.
    is_network_instant: bool,
    /// All ranks start at the start of the first.
    starts_together: bool,
}

/// What an end waits for in addition to its own arrival.
#[derive(Clone, Copy)]
enum EndDependency {
    Nobody,
    /// The start of one other node.
    Start(u32),
    /// All starts of these instances: a range of `Replay::joined`.
    Instances(u32, u32),
}

struct ReplayNode {
    member: Member,
    /// Index of the lane of its part.
    lane: u32,
    base: Base,
    /// From the base until the rank was ready, as measured, ns.
    local: Ns,
    /// The previous call on its stream, by node.
    behind: Option<u32>,
    /// From the later of its own start and what it needs, to its release, as measured, ns.
    rest: Ns,
    /// Of that, the transfer; what is left passes from being ready until the start.
    transfer: Ns,
    needs: EndDependency,
    ready: Ns,
    start: Ns,
    end: Ns,
    step: Option<StepKey>,
    /// `None` on the host, and where the submission is not recorded.
    host: Option<HostPart>,
}

/// Events of a node. At equal times an end comes first, because others depend on it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum NodeEvent {
    End,
    Submit,
    Ready,
    Start,
}

pub(crate) struct Replay {
    nodes: Vec<ReplayNode>,
    /// All events, in order of measured time.
    order: Vec<(u32, NodeEvent)>,
    /// Instances that ends need.
    joined: Vec<u32>,
    /// Nodes of each instance: a range of `nodes_of`.
    of_instance: Vec<(u32, u32)>,
    nodes_of: Vec<u32>,
    pub(crate) steps: Vec<StepKey>,
    start: Ns,
    /// Usual times of each node; its own if they are unknown.
    usual: Vec<NodeTimes>,
    /// What makes nodes peers, by node: exact, and without what their local time follows.
    keys: Vec<[u32; 2]>,
    /// By the last node of each part: time from its end until the end of the part's last step, ns.
    tails: BTreeMap<usize, Ns>,
}

/// Ends of the steps, ns on the common axis.
pub(crate) struct StepEnds {
    ends: Vec<Ns>,
    start: Ns,
}

impl StepEnds {
    /// Length of each step, from the last end of the previous one, ns.
    pub(crate) fn steps(&self) -> Vec<Ns> {
        let mut at = self.start;
        self.ends
            .iter()
            .map(|e| {
                let dur = (e - at).max(0);
                at = at.max(*e);
                dur
            })
            .collect()
    }

    /// From the start to the last end, ns.
    pub(crate) fn total(&self) -> Ns {
        self.ends.iter().max().map_or(0, |e| e - self.start)
    }
}

impl Replay {
    /// Builds the graph; `None` without matched collectives in steps.
    pub(crate) fn new(job: &Job) -> Option<Self> {
        let mut nodes = Vec::new();
        let mut ids: HashMap<Member, u32> = HashMap::new();
        for (part, p) in job.parts.iter().enumerate().filter(|(_, p)| p.has_origin) {
            let first = nodes.len();
            part_nodes(job, part as u32, &mut nodes);
            for (i, n) in nodes.iter().enumerate().skip(first) {
                ids.insert(n.member, i as u32);
            }
            let _ = p;
        }
        let mut me = Self {
            nodes,
            order: Vec::new(),
            joined: Vec::new(),
            of_instance: Vec::new(),
            nodes_of: Vec::new(),
            steps: Vec::new(),
            start: 0,
            usual: Vec::new(),
            keys: Vec::new(),
            tails: BTreeMap::new(),
        };
        me.link(job, &ids);
        let moments = |i| [NodeEvent::Submit, NodeEvent::Ready, NodeEvent::Start, NodeEvent::End].map(|m| (i, m));
        me.order = (0..me.nodes.len() as u32).flat_map(moments).collect();
        let times = me.order_times();
        me.order.sort_by_key(|&(i, moment)| (times[i as usize][moment as usize], moment, i));
        let mut steps: Vec<StepKey> = me.nodes.iter().filter_map(|n| n.step).collect();
        steps.sort_unstable();
        steps.dedup();
        me.steps = steps;
        let starts = me.nodes.iter().filter(|n| n.step.is_some()).map(|n| n.ready - n.local);
        me.start = starts.min()?;
        me.keys = me.keys_of(job);
        me.usual = me.usual_times(job);
        me.tails = me.tails(job);
        (!me.steps.is_empty()).then_some(me)
    }

    fn link(&mut self, job: &Job, ids: &HashMap<Member, u32>) {
        // Pairs (node, instance).
        let mut needs: Vec<(u32, u32)> = Vec::new();
        for (id, i) in job.instances().iter().enumerate() {
            let first = self.nodes_of.len();
            if i.len() > 1 {
                self.nodes_of.extend(job.members(i).iter().filter_map(|m| ids.get(m).copied()));
            }
            needs.extend(self.nodes_of[first..].iter().map(|n| (*n, id as u32)));
            self.of_instance.push((first as u32, self.nodes_of.len() as u32));
        }
        needs.sort_unstable();
        for of_node in needs.chunk_by(|a, b| a.0 == b.0) {
            let n = of_node[0].0;
            let needs = match of_node {
                [(_, one)] => {
                    one_instance(job, &job.instances()[*one as usize], *one, self.nodes[n as usize].member, ids)
                }
                _ => None,
            };
            let needs = needs.unwrap_or_else(|| {
                let first = self.joined.len() as u32;
                self.joined.extend(of_node.iter().map(|(_, id)| *id));
                EndDependency::Instances(first, self.joined.len() as u32)
            });
            self.nodes[n as usize].needs = needs;
        }
        // Compute the last measured start of each instance once, because every member needs it.
        let measured = |n: &u32| self.nodes[*n as usize].start;
        let last: Vec<Ns> = (0..self.of_instance.len() as u32)
            .map(|id| self.members(id).iter().map(measured).max().unwrap_or(Ns::MIN))
            .collect();
        for i in 0..self.nodes.len() {
            let joined = self.joined_at(i, &last);
            let n = &mut self.nodes[i];
            n.rest = (n.end - joined).max(0);
            let span = job.call(n.member).span;
            let matched = job.transfer_of(n.member);
            n.transfer = matched.map_or(n.rest, |o| n.rest.min(span.len() - o.wait));
        }
    }

    /// The later of a node's own start and what it needs, as measured; `last`: last start by instance.
    fn joined_at(&self, i: usize, last: &[Ns]) -> Ns {
        let own = self.nodes[i].start;
        match self.nodes[i].needs {
            EndDependency::Nobody => own,
            EndDependency::Start(other) => own.max(self.nodes[other as usize].start),
            EndDependency::Instances(a, b) => {
                let all = self.joined[a as usize..b as usize].iter().filter_map(|id| last.get(*id as usize));
                all.copied().max().unwrap_or(own).max(own)
            }
        }
    }

    fn members(&self, instance: u32) -> &[u32] {
        let (a, b) = self.of_instance.get(instance as usize).copied().unwrap_or_default();
        self.nodes_of.get(a as usize..b as usize).unwrap_or(&[])
    }

    /// Replays the job with times chosen by the caller.
    pub(crate) fn run(&self, times: impl Fn(usize) -> NodeTimes) -> StepEnds {
        self.replay(times, Assumed::default())
    }

    /// Replays the job with the usual times of some nodes.
    pub(crate) fn run_repaired(&self, is_fixed: impl Fn(usize) -> bool) -> StepEnds {
        self.run(|i| if is_fixed(i) { self.usual(i) } else { self.times_of(i) })
    }

    /// Replays the job with local times chosen by the caller, as if no host could be late.
    pub(crate) fn run_on_devices(&self, local: impl Fn(usize) -> Ns) -> StepEnds {
        let assumed = Assumed { without_hosts: true, ..Assumed::default() };
        self.replay(|i| NodeTimes { local: local(i), ..self.times_of(i) }, assumed)
    }

    fn replay(&self, times: impl Fn(usize) -> NodeTimes, assumed: Assumed) -> StepEnds {
        let ends = self.ends(times, assumed);
        self.times(|i| ends[i] + self.tail(i))
    }

    /// What follows the last node of a part, ns.
    fn tail(&self, node: usize) -> Ns {
        self.tails.get(&node).copied().unwrap_or(0)
    }

    /// Ends of all nodes in a replay, ns on the common axis.
    fn ends(&self, times: impl Fn(usize) -> NodeTimes, assumed: Assumed) -> Vec<Ns> {
        let mut submit: Vec<Option<Ns>> = vec![None; self.nodes.len()];
        let mut ready: Vec<Option<Ns>> = vec![None; self.nodes.len()];
        let mut start: Vec<Option<Ns>> = vec![None; self.nodes.len()];
        let mut end: Vec<Option<Ns>> = vec![None; self.nodes.len()];
        // Cache the last start of each instance, because every member needs it.
        let mut last: Vec<Option<Ns>> = vec![None; self.of_instance.len()];
        for &(i, moment) in &self.order {
            let i = i as usize;
            let n = &self.nodes[i];
            let ended = |b: u32| end[b as usize].unwrap_or(self.nodes[b as usize].end);
            match moment {
                NodeEvent::Submit => {
                    let Some(h) = n.host.filter(|_| !assumed.without_hosts) else { continue };
                    let submitted = |b: u32| submit[b as usize].or(self.nodes[b as usize].host.map(|h| h.submit));
                    let base = match h.base {
                        HostBase::Fixed(t) => t,
                        HostBase::Return(b, delay) => ended(b) + delay,
                        HostBase::Submit(b) => submitted(b).unwrap_or(h.submit - h.time),
                    };
                    submit[i] = Some(base + times(i).host);
                }
                NodeEvent::Ready => {
                    let base = match n.base {
                        Base::Fixed(_) if assumed.starts_together => self.start,
                        Base::Fixed(t) => t,
                        Base::End(b) => ended(b),
                        Base::Ready(b) => ready[b as usize].unwrap_or(self.nodes[b as usize].ready),
                    };
                    let t = times(i);
                    ready[i] = Some(match (n.host.filter(|_| !assumed.without_hosts), submit[i]) {
                        (Some(h), Some(at)) if h.is_bound => (base + t.busy).max(at + t.lag),
                        (Some(_), Some(at)) => (base + t.local).max(at + LATENCY.min(t.lag)),
                        _ => base + t.local,
                    });
                }
                NodeEvent::Start => {
                    let own = ready[i].unwrap_or(n.ready);
                    start[i] = Some(n.behind.map_or(own, |b| own.max(ended(b))));
                }
                NodeEvent::End => {
                    let at = |k: u32| start[k as usize].unwrap_or(self.nodes[k as usize].start);
                    let own = at(i as u32);
                    let joined = match n.needs {
                        EndDependency::Nobody => own,
                        EndDependency::Start(other) => own.max(at(other)),
                        EndDependency::Instances(a, b) => {
                            let mut joined = own;
                            for id in &self.joined[a as usize..b as usize] {
                                let latest = || self.members(*id).iter().map(|k| at(*k)).max().unwrap_or(Ns::MIN);
                                let t = *last[*id as usize].get_or_insert_with(latest);
                                joined = joined.max(t);
                            }
                            joined
                        }
                    };
                    let saved = if assumed.is_network_instant { n.transfer } else { times(i).saved.min(n.rest) };
                    end[i] = Some(joined + n.rest - saved);
                }
            }
        }
        end.iter().zip(&self.nodes).map(|(end, n)| end.unwrap_or(n.end)).collect()
    }

    /// The measured times.
    pub(crate) fn measured(&self) -> StepEnds {
        self.times(|i| self.nodes[i].end + self.tail(i))
    }

    fn times(&self, end: impl Fn(usize) -> Ns) -> StepEnds {
        let mut ends = vec![Ns::MIN; self.steps.len()];
        for (i, n) in self.nodes.iter().enumerate() {
            if let Some(k) = n.step.and_then(|s| self.steps.binary_search(&s).ok()) {
                ends[k] = ends[k].max(end(i));
            }
        }
        StepEnds { ends, start: self.start }
    }

    /// Measured local time of a node, ns.
    pub(crate) fn local(&self, node: usize) -> Ns {
        self.nodes[node].local
    }

    /// Measured times of a node.
    pub(crate) fn times_of(&self, node: usize) -> NodeTimes {
        let n = &self.nodes[node];
        let device = NodeTimes { local: n.local, busy: n.local, host: 0, lag: 0, saved: 0 };
        n.host.map_or(device, |h| NodeTimes { busy: h.busy, host: h.time, lag: h.lag, ..device })
    }

    /// Usual times of a node: those of its peers.
    pub(crate) fn usual(&self, node: usize) -> NodeTimes {
        self.usual[node]
    }

    /// Measured times with some time of a cause taken off: on the host, or else on the device.
    pub(crate) fn less(&self, node: usize, off: Ns, on_host: bool) -> NodeTimes {
        let t = self.times_of(node);
        let local = t.local - off;
        if !self.nodes[node].host.is_some_and(|h| h.is_bound) {
            return NodeTimes { local, busy: t.busy - off.min(t.busy), ..t };
        }
        if on_host {
            let host = off.min(t.host);
            return NodeTimes { local, host: t.host - host, lag: (t.lag - (off - host)).max(0), ..t };
        }
        // What the device computes lies between the launch and being ready.
        NodeTimes { local, busy: t.busy - off.min(t.busy), lag: (t.lag - off).max(0), ..t }
    }

    /// The nodes of a part, which follow one another.
    pub(crate) fn of_part(&self, part: u32) -> std::ops::Range<usize> {
        let from = self.nodes.partition_point(|n| n.member.part < part);
        from..self.nodes.partition_point(|n| n.member.part <= part)
    }

    pub(crate) fn part(&self, node: usize) -> u32 {
        self.nodes[node].member.part
    }

    pub(crate) fn member(&self, node: usize) -> Member {
        self.nodes[node].member
    }

    /// The local time of a node, on its rank's own clock.
    pub(crate) fn window(&self, job: &Job, node: usize) -> LocalWindow {
        let n = &self.nodes[node];
        let ready = job.ready(n.member);
        let span = Span::new(ready - n.local.max(0), ready);
        LocalWindow { lane: n.lane, span, from: WindowStart::Step }
    }

    /// The peers of a node: nodes of the same step with the same kinds and sizes of calls at the same place, itself
    /// among them.
    pub(crate) fn peers(&self) -> HashMap<(Option<StepKey>, u32), Vec<usize>> {
        let mut out: HashMap<_, Vec<usize>> = HashMap::new();
        (0..self.nodes.len()).for_each(|i| out.entry(self.peer_key(i)).or_default().push(i));
        out
    }

    pub(crate) fn peer_key(&self, node: usize) -> (Option<StepKey>, u32) {
        (self.nodes[node].step, self.keys[node][1])
    }

    /// The lane of a node.
    pub(crate) fn lane(&self, node: usize) -> u32 {
        self.nodes[node].lane
    }

    pub(crate) fn call(&self, node: usize) -> u32 {
        self.nodes[node].member.call
    }

    /// The nodes whose local times fill the local window of a node, back to the last meeting point.
    pub(crate) fn segments(&self, node: usize) -> Vec<usize> {
        let mut out = vec![node];
        while let Base::Ready(b) = self.nodes[out[out.len() - 1]].base {
            out.push(b as usize);
        }
        out
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn step(&self, node: usize) -> Option<StepKey> {
        self.nodes[node].step
    }
}

/// What one member of an instance of a rooted kind needs; `None` for all starts.
fn one_instance(job: &Job, i: &Instance, id: u32, me: Member, ids: &HashMap<Member, u32>) -> Option<EndDependency> {
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
fn part_nodes(job: &Job, part: u32, nodes: &mut Vec<ReplayNode>) {
    let p = &job.parts[part as usize];
    let calls = &p.calls.calls;
    let on = |t: Ns| job.aligned(part, t);
    for lane in 0..p.lanes.len() {
        let order = p.calls_by_ready(lane);
        let first = nodes.len() as u32;
        let node_of: HashMap<usize, u32> = order.iter().enumerate().map(|(k, &i)| (i, first + k as u32)).collect();
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
            let behind = before_on_stream.get(&i).copied();
            let start = behind.map_or(on(t), |q| on(t.max(calls[q].span.end)));
            nodes.push(ReplayNode {
                member,
                lane: lane as u32,
                base,
                local,
                behind: behind.and_then(|q| node_of.get(&q).copied()),
                rest: 0,
                transfer: 0,
                needs: EndDependency::Nobody,
                ready: on(t),
                start,
                end: on(c.released),
                step: step_of(job, member),
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
    let mut by_start: Vec<usize> = order.iter().copied().filter(|i| !calls[*i].on_host).collect();
    by_start.sort_by_key(|&i| (calls[i].stream, calls[i].span.start, i));
    let is_queued = |w: &&[usize]| is_queued_behind(&calls[w[0]], &calls[w[1]]);
    by_start.windows(2).filter(is_queued).map(|w| (w[1], w[0])).collect()
}

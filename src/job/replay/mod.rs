//! Replay of a job: local work between collectives, and the collectives that connect it.
//!
//! ```text
//!   base ]---- local ----[ ready   start ..wait.. | transfer ] end
//!
//!   start = max(ready, end of the calls it waits behind)             end = latest start of the members + transfer
//! ```
//!
//! A *base* is what the local work before a call follows: the end of the latest collective at which the rank
//! met the others; or the moment when it was ready for the previous call, if it continued to work since then;
//! or else the start of the step or capture. With the measured local times the replay should give the
//! measured ends; the deviation is the replay error. Then local times are replaced.
//!
//! The host must not be forgotten: a rank whose device waits for nothing because its host is ahead would be
//! limited by that host if the others came earlier. So where a rank is on a device,
//!
//! ```text
//!   ready = max(base + local, submit + LATENCY)      its device waited for no launch since the base
//!   ready = max(base + busy, submit + lag)           its device waited for its host; lag = ready - submit, as measured
//! ```
//!
//! and *submit* follows from what the submitting thread did before: its previous submission, or the return of
//! a call that waited for the end of a collective.
//!
//! Nodes are replayed in the order of their measured times, none before what it depends on. If matches are
//! wrong and no such order exists, the measured time is used, and the error shows it.

mod build;
mod hosts;
mod limits;
mod node_facts;
mod nodes;
mod order;
mod removed;
mod replayed;
mod usual;

pub use limits::ReplayLimits;
pub use removed::{Removed, is_host_use};
pub use replayed::{RELIABLE_PCT, ReplayedJob};

use crate::chain::StepKey;
use crate::delay::step_of;
use crate::{Job, Member};
use build::{one_instance, part_nodes};
use hashbrown::HashMap;
use hta_base::units::Ns;
use nodes::{Base, EndDependency, EventOfNode, HostBase, NodeEvent, ReplayNode};
use std::collections::{BTreeMap, BTreeSet};

/// From a submission to an idle device until the work starts, ns.
const LATENCY: Ns = 8_000;

/// The times of a node in a replay, ns.
#[derive(Debug, Clone, Copy, Default)]
pub struct NodeTimes {
    /// Local time with all waiting for the host.
    pub local: Ns,
    /// Local time of the device alone.
    pub(crate) busy: Ns,
    /// Time of the host before the submission.
    pub(crate) host: Ns,
    /// From the submission until the rank is ready, where its device waited for its host.
    pub(crate) lag: Ns,
    /// From the end of the collective that the host waited for until it went on: what else it waited for.
    pub(crate) after: Ns,
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

#[derive(Default)]
pub struct Replay {
    nodes: Vec<ReplayNode>,
    /// All events, in order of measured time.
    order: Vec<EventOfNode>,
    /// Instances that ends need.
    joined: Vec<u32>,
    /// Nodes of each instance: a range of `nodes_of`.
    of_instance: Vec<(u32, u32)>,
    nodes_of: Vec<u32>,
    pub steps: Vec<StepKey>,
    start: Ns,
    /// Usual times of each node; its own if they are unknown.
    usual: Vec<NodeTimes>,
    /// What makes nodes peers, by node, without what their local time follows.
    keys: Vec<u32>,
    /// By the last node of each part: time from its end until the end of the part's last step, ns.
    tails: BTreeMap<usize, Ns>,
}

/// Ends of the steps, ns on the common axis.
pub struct StepEnds {
    ends: Vec<Ns>,
    start: Ns,
}

impl StepEnds {
    /// Length of each step, from the last end of the previous one, ns.
    pub fn steps(&self) -> Vec<Ns> {
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
    pub fn total(&self) -> Ns {
        self.ends.iter().max().map_or(0, |e| e - self.start)
    }
}

impl Replay {
    /// Builds the graph; `None` without matched collectives in steps.
    pub(crate) fn new(job: &Job) -> Option<Self> {
        let mut nodes = Vec::new();
        let mut ids: HashMap<Member, u32> = HashMap::new();
        for (part, _) in job.parts.iter().enumerate().filter(|(_, p)| p.has_origin) {
            let first = nodes.len();
            part_nodes(job, part as u32, &mut nodes);
            for (i, n) in nodes.iter().enumerate().skip(first) {
                ids.insert(n.member, i as u32);
            }
        }
        let mut me = Self { nodes, ..Self::default() };
        me.link(job, &ids);
        drop(ids);
        me.put_in_order();
        me.find_steps(job);
        let starts = me.nodes.iter().filter(|n| n.step.is_some()).map(|n| n.ready - n.local);
        me.start = starts.min()?;
        let keys = me.keys_of(job);
        me.usual = me.usual_times(job, &keys);
        me.keys = keys.into_iter().map(|[_, coarse]| coarse).collect();
        me.tails = me.tails(job);
        (!me.steps.is_empty()).then_some(me)
    }

    fn put_in_order(&mut self) {
        let times = self.order_times();
        let of_node = |i| NodeEvent::ALL.map(|event| EventOfNode::new(i, event));
        self.order = (0..self.nodes.len() as u32).flat_map(of_node).collect();
        self.order.sort_unstable_by_key(|of| {
            let (node, event) = (of.node(), of.event());
            (times[node][event as usize], event, node)
        });
    }

    fn find_steps(&mut self, job: &Job) {
        let of_nodes: Vec<Option<StepKey>> = self.nodes.iter().map(|n| step_of(job, n.member)).collect();
        self.steps = of_nodes.iter().copied().flatten().collect::<BTreeSet<_>>().into_iter().collect();
        for (n, step) in self.nodes.iter_mut().zip(of_nodes) {
            n.step = step.and_then(|s| self.steps.binary_search(&s).ok()).map(|at| at as u32);
        }
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
                [(_, one)] => one_instance(
                    job,
                    &job.instances()[*one as usize],
                    *one,
                    self.nodes[n as usize].member,
                    ids,
                ),
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
        let measured = |n: &u32| self.start_of(*n);
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

    /// When the call of a node started, as measured: not before those that it waits behind have ended.
    fn start_of(&self, node: u32) -> Ns {
        let n = &self.nodes[node as usize];
        n.start(n.ready, |b| self.nodes[b as usize].end)
    }

    /// The later of a node's own start and what it needs, as measured; `last`: last start by instance.
    fn joined_at(&self, i: usize, last: &[Ns]) -> Ns {
        let own = self.start_of(i as u32);
        match self.nodes[i].needs {
            EndDependency::Nobody => own,
            EndDependency::Start(other) => own.max(self.start_of(other)),
            EndDependency::Instances(a, b) => {
                let all = self.joined[a as usize..b as usize].iter().filter_map(|id| last.get(*id as usize));
                all.copied().max().unwrap_or(own).max(own)
            }
        }
    }

    /// Nodes of the members of an instance.
    pub fn members(&self, instance: u32) -> &[u32] {
        let (a, b) = self.of_instance.get(instance as usize).copied().unwrap_or_default();
        self.nodes_of.get(a as usize..b as usize).unwrap_or(&[])
    }

    /// Replays the job with times chosen by the caller.
    pub fn run(&self, times: impl Fn(usize) -> NodeTimes) -> StepEnds {
        self.replay(times, Assumed::default())
    }

    /// Replays the job with the usual times of some nodes.
    pub fn run_repaired(&self, is_fixed: impl Fn(usize) -> bool) -> StepEnds {
        self.run(|i| if is_fixed(i) { self.usual(i) } else { self.times_of(i) })
    }

    /// Replays the job with local times chosen by the caller, as if no host could be late.
    pub fn run_on_devices(&self, local: impl Fn(usize) -> Ns) -> StepEnds {
        let assumed = Assumed { without_hosts: true, ..Assumed::default() };
        self.replay(|i| NodeTimes { local: local(i), ..self.times_of(i) }, assumed)
    }

    fn replay(&self, times: impl Fn(usize) -> NodeTimes, assumed: Assumed) -> StepEnds {
        let ends = self.ends(times, assumed, |_, _| {});
        self.times(|i| ends[i] + self.tail(i))
    }

    /// What follows the last node of a part, ns.
    fn tail(&self, node: usize) -> Ns {
        self.tails.get(&node).copied().unwrap_or(0)
    }

    /// Ends of all nodes in a replay, ns on the common axis. `note` is told how long each node waits for
    /// others.
    fn ends(
        &self,
        times: impl Fn(usize) -> NodeTimes,
        assumed: Assumed,
        mut note: impl FnMut(usize, Ns),
    ) -> Vec<Ns> {
        // The measured times, until they are replayed.
        let measured = |of: fn(&ReplayNode) -> Ns| -> Vec<Ns> { self.nodes.iter().map(of).collect() };
        let mut submit = measured(|n| n.host.map_or(Ns::MIN, |h| h.submit));
        let (mut ready, mut end) = (measured(|n| n.ready), measured(|n| n.end));
        let mut start: Vec<Ns> = (0..self.nodes.len() as u32).map(|i| self.start_of(i)).collect();
        // Cache the last start of each instance, because every member needs it.
        let mut last: Vec<Option<Ns>> = vec![None; self.of_instance.len()];
        for of in &self.order {
            let i = of.node();
            let n = &self.nodes[i];
            match of.event() {
                NodeEvent::Submit => {
                    let Some(h) = n.host.filter(|_| !assumed.without_hosts) else { continue };
                    let base = match h.base {
                        HostBase::Fixed(t) => t,
                        HostBase::Return(b, _) => end[b as usize] + times(i).after,
                        HostBase::Submit(b) if self.nodes[b as usize].host.is_some() => submit[b as usize],
                        HostBase::Submit(_) => h.submit - h.time,
                    };
                    submit[i] = base + times(i).host;
                }
                NodeEvent::Ready => {
                    let base = match n.base {
                        Base::Fixed(_) if assumed.starts_together => self.start,
                        Base::Fixed(t) => t,
                        Base::End(b) => end[b as usize],
                        Base::Ready(b) => ready[b as usize],
                    };
                    let t = times(i);
                    ready[i] = match n.host.filter(|_| !assumed.without_hosts) {
                        Some(h) if h.is_bound => (base + t.busy).max(submit[i] + t.lag),
                        Some(_) => (base + t.local).max(submit[i] + LATENCY.min(t.lag)),
                        None => base + t.local,
                    };
                }
                NodeEvent::Start => {
                    start[i] = n.start(ready[i], |b| end[b as usize]);
                }
                NodeEvent::End => {
                    let at = |k: u32| start[k as usize];
                    let own = start[i];
                    let joined = match n.needs {
                        EndDependency::Nobody => own,
                        EndDependency::Start(other) => own.max(at(other)),
                        EndDependency::Instances(a, b) => {
                            let mut joined = own;
                            for id in &self.joined[a as usize..b as usize] {
                                let latest =
                                    || self.members(*id).iter().map(|k| at(*k)).max().unwrap_or(Ns::MIN);
                                let t = *last[*id as usize].get_or_insert_with(latest);
                                joined = joined.max(t);
                            }
                            joined
                        }
                    };
                    let saved =
                        if assumed.is_network_instant { n.transfer } else { times(i).saved.min(n.rest) };
                    note(i, joined - own);
                    end[i] = joined + n.rest - saved;
                }
            }
        }
        end
    }

    /// The measured times.
    pub(crate) fn measured(&self) -> StepEnds {
        self.times(|i| self.nodes[i].end + self.tail(i))
    }

    fn times(&self, end: impl Fn(usize) -> Ns) -> StepEnds {
        let mut ends = vec![Ns::MIN; self.steps.len()];
        for (i, n) in self.nodes.iter().enumerate() {
            if let Some(latest) = n.step.and_then(|k| ends.get_mut(k as usize)) {
                *latest = (*latest).max(end(i));
            }
        }
        StepEnds { ends, start: self.start }
    }

    /// Measured local time of a node, ns.
    pub fn local(&self, node: usize) -> Ns {
        self.nodes[node].local
    }

    /// Measured times of a node.
    pub(crate) fn times_of(&self, node: usize) -> NodeTimes {
        let n = &self.nodes[node];
        let device = NodeTimes { local: n.local, busy: n.local, ..NodeTimes::default() };
        n.host.map_or(device, |h| {
            let after = if let HostBase::Return(_, after) = h.base { after } else { 0 };
            NodeTimes { busy: h.busy, host: h.time, lag: h.lag, after, ..device }
        })
    }

    /// Usual times of a node: those of its peers.
    pub fn usual(&self, node: usize) -> NodeTimes {
        self.usual[node]
    }

    /// Measured times with some time of a cause taken off: on the host, or else on the device.
    pub fn less(&self, node: usize, off: Ns, on_host: bool) -> NodeTimes {
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

    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }
}

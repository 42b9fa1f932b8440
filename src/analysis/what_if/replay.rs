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
//! Nodes are replayed in the order of their measured times, which is a topological order if clocks and matches are
//! right. If they are not (an end before the last arrival), the measured time is used, and the error shows it.

use crate::job::delay::{StepKey, step_of};
use crate::job::window::start_without_meeting;
use crate::job::{Instance, Job, Member, is_queued_behind, median};
use crate::trace::collective::Call;
use crate::units::Ns;
use std::collections::HashMap;

/// Fewest peers for a usual time.
const PEERS: usize = 3;

#[derive(Clone, Copy)]
enum Base {
    /// End of a call of the same part, by node.
    End(u32),
    /// The moment when the part was ready for an earlier call, after which it continued without waiting.
    Ready(u32),
    /// A fixed moment on the common axis.
    Fixed(Ns),
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

struct Node {
    member: Member,
    base: Base,
    /// From the base until the rank was ready, as measured, ns.
    local: Ns,
    /// The previous call on its stream, by node.
    behind: Option<u32>,
    /// From the later of its own start and what it needs, to its release, as measured, ns.
    rest: Ns,
    needs: EndDependency,
    ready: Ns,
    start: Ns,
    end: Ns,
    step: Option<StepKey>,
}

/// Events of a node. At equal times an end comes first, because others depend on it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum NodeEvent {
    End,
    Ready,
    Start,
}

pub struct Replay {
    nodes: Vec<Node>,
    /// All events, in order of measured time.
    order: Vec<(u32, NodeEvent)>,
    /// Instances that ends need.
    joined: Vec<u32>,
    /// Nodes of each instance: a range of `nodes_of`.
    of_instance: Vec<(u32, u32)>,
    nodes_of: Vec<u32>,
    pub steps: Vec<StepKey>,
    start: Ns,
    /// Usual local time of each node; its own if that is unknown, ns.
    usual: Vec<Ns>,
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
    pub fn new(job: &Job) -> Option<Self> {
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
        };
        me.link(job, &ids);
        let moments = |i| [NodeEvent::Ready, NodeEvent::Start, NodeEvent::End].map(|m| (i, m));
        me.order = (0..me.nodes.len() as u32).flat_map(moments).collect();
        let (nodes, order) = (&me.nodes, &mut me.order);
        order.sort_by_key(|&(i, moment)| {
            let n = &nodes[i as usize];
            let time = match moment {
                NodeEvent::End => n.end,
                // Not before its base, which may end slightly later within the tolerance.
                NodeEvent::Ready => n.ready.max(n.ready - n.local),
                NodeEvent::Start => n.start,
            };
            (time, moment, i)
        });
        let mut steps: Vec<StepKey> = me.nodes.iter().filter_map(|n| n.step).collect();
        steps.sort_unstable();
        steps.dedup();
        me.steps = steps;
        let starts = me.nodes.iter().filter(|n| n.step.is_some()).map(|n| n.ready - n.local);
        me.start = starts.min()?;
        me.usual = me.usual_times(job);
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

    /// Replays the job with local times chosen by the caller.
    pub fn run(&self, local: impl Fn(usize) -> Ns) -> StepEnds {
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
                NodeEvent::Ready => {
                    let base = match n.base {
                        Base::Fixed(t) => t,
                        Base::End(b) => ended(b),
                        Base::Ready(b) => ready[b as usize].unwrap_or(self.nodes[b as usize].ready),
                    };
                    ready[i] = Some(base + local(i));
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
                    end[i] = Some(joined + n.rest);
                }
            }
        }
        self.times(|i| end[i].unwrap_or(self.nodes[i].end))
    }

    /// The measured times.
    pub fn measured(&self) -> StepEnds {
        self.times(|i| self.nodes[i].end)
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
    pub fn local(&self, node: usize) -> Ns {
        self.nodes[node].local
    }

    /// Usual local time of a node, ns.
    pub fn usual(&self, node: usize) -> Ns {
        self.usual[node]
    }

    pub fn part(&self, node: usize) -> u32 {
        self.nodes[node].member.part
    }

    pub fn call(&self, node: usize) -> u32 {
        self.nodes[node].member.call
    }

    /// The nodes whose local times fill the local window of a node, back to the last meeting point.
    pub fn segments(&self, node: usize) -> Vec<usize> {
        let mut out = vec![node];
        while let Base::Ready(b) = self.nodes[out[out.len() - 1]].base {
            out.push(b as usize);
        }
        out
    }

    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    pub fn step(&self, node: usize) -> Option<StepKey> {
        self.nodes[node].step
    }

    /// Median over peers: ranks with the same kinds and sizes around the segment, at the same place in the same step;
    /// with fewer than three: over the rank's own other steps; otherwise unchanged.
    fn usual_times(&self, job: &Job) -> Vec<Ns> {
        let kind = |m: Member| (job.call(m).kind, job.call(m).bytes);
        let mut place: HashMap<Option<StepKey>, u32> = HashMap::new();
        let mut known: HashMap<_, u32> = HashMap::new();
        // Intern the keys: there are few kinds of segments, but as many nodes as calls.
        let mut keys: Vec<u32> = Vec::with_capacity(self.nodes.len());
        for of_part in self.nodes.chunk_by(|a, b| a.member.part == b.member.part) {
            place.clear();
            for n in of_part {
                let at = place.entry(n.step).or_default();
                let before = match n.base {
                    Base::End(b) => Some((true, kind(self.nodes[b as usize].member))),
                    Base::Ready(b) => Some((false, kind(self.nodes[b as usize].member))),
                    Base::Fixed(_) => None,
                };
                let next = known.len() as u32;
                keys.push(*known.entry((*at, before, kind(n.member))).or_insert(next));
                *at += 1;
            }
        }
        let middle = |v: &mut Vec<Ns>| if v.len() < PEERS { None } else { median(v) };
        let mut peers: HashMap<_, Vec<Ns>> = HashMap::new();
        for (n, key) in self.nodes.iter().zip(&keys) {
            peers.entry((n.step, *key)).or_default().push(n.local);
        }
        let peers: HashMap<_, Option<Ns>> = peers.into_iter().map(|(k, mut v)| (k, middle(&mut v))).collect();
        let mut usual = Vec::with_capacity(self.nodes.len());
        let mut own: HashMap<u32, Vec<Ns>> = HashMap::new();
        for of_part in self.nodes.chunk_by(|a, b| a.member.part == b.member.part) {
            let keys = &keys[usual.len()..usual.len() + of_part.len()];
            own.clear();
            for (n, key) in of_part.iter().zip(keys) {
                own.entry(*key).or_default().push(n.local);
            }
            let own: HashMap<u32, Option<Ns>> = own.iter_mut().map(|(k, v)| (*k, middle(v))).collect();
            usual.extend(of_part.iter().zip(keys).map(|(n, key)| {
                let of_peers = peers.get(&(n.step, *key)).copied().flatten();
                of_peers.or_else(|| own.get(key).copied().flatten()).unwrap_or(n.local)
            }));
        }
        usual
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
fn part_nodes(job: &Job, part: u32, nodes: &mut Vec<Node>) {
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
            nodes.push(Node {
                member,
                base,
                local,
                behind: behind.and_then(|q| node_of.get(&q).copied()),
                rest: 0,
                needs: EndDependency::Nobody,
                ready: on(t),
                start,
                end: on(c.released),
                step: step_of(job, member),
            });
            previous = Some((t, i));
        }
    }
}

/// For each call of a device the previous one on its stream, if the call started right after that one's end.
fn before_on_stream(calls: &[Call], order: &[usize]) -> HashMap<usize, usize> {
    let mut by_start: Vec<usize> = order.iter().copied().filter(|i| !calls[*i].on_host).collect();
    by_start.sort_by_key(|&i| (calls[i].stream, calls[i].span.start, i));
    let is_queued = |w: &&[usize]| is_queued_behind(&calls[w[0]], &calls[w[1]]);
    by_start.windows(2).filter(is_queued).map(|w| (w[1], w[0])).collect()
}

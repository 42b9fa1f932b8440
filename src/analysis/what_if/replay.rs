//! Replay of a job: local work between collectives, and the collectives that join it.
//!
//! ```text
//!   base ]---- local ----[ arrival ..wait.. | transfer ] end       end = last arrival + own transfer
//! ```
//!
//! A *base* is what the local work before an arrival follows: the end of the latest collective at which the rank
//! really waited; the end of the call before it on its stream, when it started right behind that; the arrival before
//! it, when the rank worked on since then; else the step's or the capture's start. With the measured local times the replay gives the measured ends back; what is missing to
//! that is the replay error. Then local times are exchanged.
//!
//! Nodes are replayed in the order of their measured times, which is a topological order wherever the clocks and
//! matches are right. Where they are not (an end before the last arrival), the measured time stands in, and the error
//! shows it.

use crate::analysis::across::delay::{StepKey, step_of};
use crate::analysis::across::{Instance, Job, Member, median};
use crate::units::Ns;
use std::collections::HashMap;

/// A call that starts so soon behind the one before it on its stream was held by it, ns.
const RIGHT_BEHIND: Ns = 20_000;

/// Fewer peers do not tell what is usual.
const PEERS: usize = 3;

#[derive(Clone, Copy)]
enum Base {
    /// End of a call of the same part, by node.
    End(u32),
    /// Arrival of a call of the same part: the rank worked on without waiting for it.
    Arrival(u32),
    /// A moment on the common axis.
    Fixed(Ns),
}

/// What an end waits for beside its own arrival.
#[derive(Clone, Copy)]
enum Needs {
    Nobody,
    /// One other node's arrival.
    Arrival(u32),
    /// All arrivals of these instances: a range of `Replay::joined`.
    Instances(u32, u32),
}

/// One call.
struct Node {
    member: Member,
    base: Base,
    /// From the base to the arrival, as measured, ns.
    local: Ns,
    /// From the later of own arrival and what it needs to its release, as measured, ns.
    rest: Ns,
    needs: Needs,
    arrival: Ns,
    end: Ns,
    step: Option<StepKey>,
}

/// The graph of a job.
pub struct Replay {
    nodes: Vec<Node>,
    /// Ends (true) and arrivals in order of measured time.
    order: Vec<(u32, bool)>,
    /// Instances that ends need.
    joined: Vec<u32>,
    /// Nodes of each instance: a range of `nodes_of`.
    of_instance: Vec<(u32, u32)>,
    nodes_of: Vec<u32>,
    pub steps: Vec<StepKey>,
    start: Ns,
    /// Usual local time of each node; its own where nothing tells.
    usual: Vec<Ns>,
}

/// Ends of the steps, ns on the common axis.
pub struct Times {
    ends: Vec<Ns>,
    start: Ns,
}

impl Times {
    /// Length of each step: from the last end of the one before.
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
    /// The graph; `None` without matched collectives in steps.
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
        me.order = me.nodes.iter().enumerate().flat_map(|(i, _)| [(i as u32, false), (i as u32, true)]).collect();
        // an end stands before an arrival of the same moment, which may build on it
        let (nodes, order) = (&me.nodes, &mut me.order);
        order.sort_by_key(|(i, is_end)| {
            let n = &nodes[*i as usize];
            (if *is_end { n.end } else { n.arrival }, !*is_end, *i)
        });
        let mut steps: Vec<StepKey> = me.nodes.iter().filter_map(|n| n.step).collect();
        steps.sort_unstable();
        steps.dedup();
        me.steps = steps;
        let starts = me.nodes.iter().filter(|n| n.step.is_some()).map(|n| n.arrival - n.local);
        me.start = starts.min()?;
        me.usual = me.usual_times(job);
        (!me.steps.is_empty()).then_some(me)
    }

    fn link(&mut self, job: &Job, ids: &HashMap<Member, u32>) {
        // (node, instance)
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
                Needs::Instances(first, self.joined.len() as u32)
            });
            self.nodes[n as usize].needs = needs;
        }
        // the last measured arrival of an instance is asked for once per member: keep it
        let measured = |n: &u32| self.nodes[*n as usize].arrival;
        let last: Vec<Ns> = (0..self.of_instance.len() as u32)
            .map(|id| self.members(id).iter().map(measured).max().unwrap_or(Ns::MIN))
            .collect();
        for i in 0..self.nodes.len() {
            let ready = self.ready(i, &last);
            let n = &mut self.nodes[i];
            n.rest = (n.end - ready).max(0);
        }
    }

    /// The later of a node's own arrival and what it needs, as measured; `last` by instance.
    fn ready(&self, i: usize, last: &[Ns]) -> Ns {
        let own = self.nodes[i].arrival;
        match self.nodes[i].needs {
            Needs::Nobody => own,
            Needs::Arrival(other) => own.max(self.nodes[other as usize].arrival),
            Needs::Instances(a, b) => {
                let all = self.joined[a as usize..b as usize].iter().filter_map(|id| last.get(*id as usize));
                all.copied().max().unwrap_or(own).max(own)
            }
        }
    }

    /// Nodes of an instance.
    fn members(&self, instance: u32) -> &[u32] {
        let (a, b) = self.of_instance.get(instance as usize).copied().unwrap_or_default();
        self.nodes_of.get(a as usize..b as usize).unwrap_or(&[])
    }

    /// Replays with local times of the caller's choice.
    pub fn run(&self, local: impl Fn(usize) -> Ns) -> Times {
        let mut arrival: Vec<Option<Ns>> = vec![None; self.nodes.len()];
        let mut end: Vec<Option<Ns>> = vec![None; self.nodes.len()];
        // the last arrival of an instance is asked for once per member: keep it
        let mut last: Vec<Option<Ns>> = vec![None; self.of_instance.len()];
        for &(i, is_end) in &self.order {
            let i = i as usize;
            let n = &self.nodes[i];
            if !is_end {
                let base = match n.base {
                    Base::Fixed(t) => t,
                    Base::End(b) => end[b as usize].unwrap_or(self.nodes[b as usize].end),
                    Base::Arrival(b) => arrival[b as usize].unwrap_or(self.nodes[b as usize].arrival),
                };
                arrival[i] = Some(base + local(i));
                continue;
            }
            let at = |k: u32| arrival[k as usize].unwrap_or(self.nodes[k as usize].arrival);
            let own = at(i as u32);
            let ready = match n.needs {
                Needs::Nobody => own,
                Needs::Arrival(other) => own.max(at(other)),
                Needs::Instances(a, b) => {
                    let mut ready = own;
                    for id in &self.joined[a as usize..b as usize] {
                        let latest = || self.members(*id).iter().map(|k| at(*k)).max().unwrap_or(Ns::MIN);
                        let t = *last[*id as usize].get_or_insert_with(latest);
                        ready = ready.max(t);
                    }
                    ready
                }
            };
            end[i] = Some(ready + n.rest);
        }
        self.times(|i| end[i].unwrap_or(self.nodes[i].end))
    }

    /// What was measured.
    pub fn measured(&self) -> Times {
        self.times(|i| self.nodes[i].end)
    }

    fn times(&self, end: impl Fn(usize) -> Ns) -> Times {
        let mut ends = vec![Ns::MIN; self.steps.len()];
        for (i, n) in self.nodes.iter().enumerate() {
            if let Some(k) = n.step.and_then(|s| self.steps.binary_search(&s).ok()) {
                ends[k] = ends[k].max(end(i));
            }
        }
        Times { ends, start: self.start }
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

    pub fn step(&self, node: usize) -> Option<StepKey> {
        self.nodes[node].step
    }

    /// Median over peers: ranks with the same kinds and sizes around the segment, in the same place of the same step;
    /// fewer than three: the rank's own other steps; else as it was.
    fn usual_times(&self, job: &Job) -> Vec<Ns> {
        let kind = |m: Member| (job.call(m).kind, job.call(m).bytes);
        let mut place: HashMap<Option<StepKey>, u32> = HashMap::new();
        let mut known: HashMap<_, u32> = HashMap::new();
        // segments of one kind have one key; there are few kinds, and as many nodes as the job has calls
        let mut keys: Vec<u32> = Vec::with_capacity(self.nodes.len());
        for of_part in self.nodes.chunk_by(|a, b| a.member.part == b.member.part) {
            place.clear();
            for n in of_part {
                let at = place.entry(n.step).or_default();
                let before = match n.base {
                    Base::End(b) => Some((true, kind(self.nodes[b as usize].member))),
                    Base::Arrival(b) => Some((false, kind(self.nodes[b as usize].member))),
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

/// What one member of an instance of a rooted kind needs; `None`: all arrivals.
fn one_instance(job: &Job, i: &Instance, id: u32, me: Member, ids: &HashMap<Member, u32>) -> Option<Needs> {
    if !(i.kind.is_from_root() || i.kind.is_to_root()) {
        return None;
    }
    let root = job.root(id)?;
    match (i.kind.is_from_root(), root == me) {
        (true, false) => ids.get(&root).map(|n| Needs::Arrival(*n)),
        (true, true) | (false, false) => Some(Needs::Nobody),
        (false, true) => None,
    }
}

/// Nodes of one part, in order of arrival.
fn part_nodes(job: &Job, part: u32, nodes: &mut Vec<Node>) {
    let p = &job.parts[part as usize];
    let calls = &p.calls.calls;
    let on = |t: Ns| job.aligned(part, t);
    for lane in 0..p.lanes.len() {
        let order = p.calls_by_arrival(lane);
        let first = nodes.len() as u32;
        let node_of: HashMap<usize, u32> = order.iter().enumerate().map(|(k, &i)| (i, first + k as u32)).collect();
        let points = p.sync_points(lane);
        let mut on_stream: HashMap<Option<i64>, usize> = HashMap::new();
        let mut previous: Option<(Ns, usize)> = None;
        for i in order {
            let c = &calls[i];
            let t = c.arrival();
            let waited = points.before(t);
            let held = on_stream.get(&c.stream).copied().filter(|&q| {
                let gap = t - calls[q].span.end;
                !c.on_host && (0..=RIGHT_BEHIND).contains(&gap)
            });
            let before = previous.filter(|(b, _)| waited.is_none_or(|(e, _)| e < *b));
            let (base, local) = match (held, before, waited) {
                (Some(q), ..) => (Base::End(node_of[&q]), t - calls[q].released),
                (None, Some((b, q)), _) => (Base::Arrival(node_of[&q]), t - b),
                (None, None, Some((e, q))) => (Base::End(node_of[&q]), t - e),
                (None, None, None) => {
                    let step = p.step_of(c).map(|s| s.window.start);
                    let from = step.filter(|s| *s <= t).unwrap_or(p.capture.start.min(t));
                    (Base::Fixed(on(from)), t - from)
                }
            };
            let member = Member { part, call: i as u32 };
            nodes.push(Node {
                member,
                base,
                local,
                rest: 0,
                needs: Needs::Nobody,
                arrival: on(t),
                end: on(c.released),
                step: step_of(job, member),
            });
            on_stream.insert(c.stream, i);
            previous = Some((t, i));
        }
    }
}

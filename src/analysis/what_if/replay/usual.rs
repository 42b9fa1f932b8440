//! The usual times of a replay's nodes: those of their peers.

use crate::analysis::what_if::replay::{Base, HostBase, NodeEvent, NodeTimes, Replay};
use crate::job::delay::StepKey;
use crate::job::{Job, Member, median};
use crate::units::Ns;
use std::collections::HashMap;

/// Fewest peers for a usual time, the node itself among them.
const PEERS: usize = 2;
/// Fewest steps of the rank for a usual time, where it has no peers.
const STEPS: usize = 3;

impl Replay {
    /// Usual times of all nodes. For peers, the host's part of being ready is the least that a launch needs.
    pub(super) fn usual_times(&self, job: &Job) -> Vec<NodeTimes> {
        let keys = self.keys(job);
        let of = |value: &dyn Fn(&NodeTimes) -> Ns| self.usual_of(&keys, &|i| value(&self.times_of(i)));
        let (local, busy, lag) = (of(&|t| t.local), of(&|t| t.busy), of(&|t| t.lag));
        // When the host submits is compared since it last waited, or since the start of the job: a host that stands
        // still elsewhere than the others is not faster.
        let mut since: Vec<Ns> = vec![0; self.nodes.len()];
        let before = |i: usize| match self.nodes[i].host.map(|h| h.base) {
            Some(HostBase::Submit(b)) => Some(b as usize),
            _ => None,
        };
        for i in self.order.iter().filter(|(_, event)| *event == NodeEvent::Submit).map(|(i, _)| *i as usize) {
            let from = match self.nodes[i].host.map(|h| h.base) {
                Some(HostBase::Submit(b)) => since[b as usize],
                Some(HostBase::Fixed(t)) => t - self.start,
                _ => 0,
            };
            since[i] = from + self.times_of(i).host;
        }
        let usual_since = self.usual_of(&keys, &|i| since[i]);
        // A repair makes no host later.
        let gained: Vec<Ns> = since.iter().zip(&usual_since).map(|(own, usual)| (own - usual).max(0)).collect();
        let host: Vec<Ns> = (0..self.nodes.len())
            .map(|i| self.times_of(i).host - gained[i] + before(i).map_or(0, |b| gained[b]))
            .collect();
        (0..self.nodes.len())
            .map(|i| NodeTimes { local: local[i], busy: busy[i], host: host[i], lag: lag[i].min(self.times_of(i).lag) })
            .collect()
    }

    /// What makes nodes peers: their place in the step, the kinds and sizes of their call and of the one before.
    fn keys(&self, job: &Job) -> Vec<u32> {
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
        keys
    }

    /// Median over peers: ranks with the same kinds and sizes around the segment, at the same place in the same step;
    /// without another one: over the rank's own steps; otherwise unchanged.
    fn usual_of(&self, keys: &[u32], value: &dyn Fn(usize) -> Ns) -> Vec<Ns> {
        let middle = |v: &mut Vec<Ns>, fewest: usize| if v.len() < fewest { None } else { median(v) };
        let mut peers: HashMap<_, Vec<Ns>> = HashMap::new();
        for (i, (n, key)) in self.nodes.iter().zip(keys).enumerate() {
            peers.entry((n.step, *key)).or_default().push(value(i));
        }
        let peers: HashMap<_, Option<Ns>> = peers.into_iter().map(|(k, mut v)| (k, middle(&mut v, PEERS))).collect();
        let mut usual: Vec<Ns> = Vec::with_capacity(self.nodes.len());
        let mut own: HashMap<u32, Vec<Ns>> = HashMap::new();
        for of_part in self.nodes.chunk_by(|a, b| a.member.part == b.member.part) {
            let first = usual.len();
            let keys = &keys[first..first + of_part.len()];
            own.clear();
            for (i, key) in keys.iter().enumerate() {
                own.entry(*key).or_default().push(value(first + i));
            }
            let own: HashMap<u32, Option<Ns>> = own.iter_mut().map(|(k, v)| (*k, middle(v, STEPS))).collect();
            usual.extend(of_part.iter().zip(keys).enumerate().map(|(i, (n, key))| {
                let of_peers = peers.get(&(n.step, *key)).copied().flatten();
                of_peers.or_else(|| own.get(key).copied().flatten()).unwrap_or_else(|| value(first + i))
            }));
        }
        usual
    }
}

//! The usual times of a replay's nodes: those of their peers.

use crate::experts::JobLayers;
use crate::pipeline_places::PipelinePlaces;
use crate::replay::nodes::{Base, HostBase, NodeEvent};
use crate::replay::{NodeTimes, Replay};
use crate::{Job, Member, RankSummary, TimeUse};
use hashbrown::{HashMap, HashSet};
use hta_base::order_statistics::median;
use hta_base::units::{Ns, Span};
use hta_trace::collective::CollectiveKind;

/// Fewest peers for a usual time, the node itself among them.
const PEERS: usize = 2;
/// Fewest members of a collective that are peers whatever their place in the step is.
const MOST: usize = 3;
/// Fewest steps of the rank for a usual time, where it has no peers.
const STEPS: usize = 3;

/// What makes a node a peer of others: exact, and without what its local time follows.
pub(super) type PeerKeys = [u32; 2];

/// By step and key: the median over peers, if there are enough.
type PeerTimes = HashMap<(Option<u32>, u32), Option<Ns>>;

impl Replay {
    /// Nodes in the order of their submission.
    fn submissions(&self) -> impl Iterator<Item = usize> {
        self.order.iter().filter(|of| of.event() == NodeEvent::Submit).map(|of| of.node())
    }

    /// Usual times of all nodes. For peers, the host's part of being ready is the least that a launch needs.
    pub(super) fn usual_times(&self, job: &Job, keys: &[PeerKeys]) -> Vec<NodeTimes> {
        let of = |value: &dyn Fn(&NodeTimes) -> Ns| self.usual_of(keys, &|i| value(&self.times_of(i)));
        let busy: Vec<Ns> = of(&|t| t.busy).iter().map(|(ns, _)| *ns).collect();
        let lag: Vec<Ns> = of(&|t| t.lag).iter().map(|(ns, _)| *ns).collect();
        let after = self.usual_of(keys, &|i| self.after_wait(i));
        // Where this one begins when it was ready for the call before, and a peer at the end of that call,
        // the peer's work during the call counts, too.
        // Tokens are conserved: nobody becomes as those are that have fewer, but as with the mean of tokens.
        let layers = JobLayers::of(job);
        let by_tokens = |i: usize| layers.more_in(self.part(i), self.window(job, i).span).by_tokens;
        let even: Vec<Ns> = match layers.layers.is_empty() {
            true => Vec::new(),
            false => (0..self.nodes.len()).map(|i| self.nodes[i].local - by_tokens(i)).collect(),
        };
        let even = |i: usize| even.get(i).copied().unwrap_or(self.nodes[i].local);
        let local = self.usual_of(keys, &even);
        let continues = |i: usize| local[i].1 && matches!(self.nodes[i].base, Base::Ready(_));
        let compared: HashSet<_> = (0..self.nodes.len())
            .filter(|i| continues(*i))
            .map(|i| (self.nodes[i].step, keys[i][1]))
            .collect();
        let during = |i: usize| {
            if compared.contains(&(self.nodes[i].step, keys[i][1])) {
                self.work_during_call(job, i)
            } else {
                0
            }
        };
        let since_ready = (!compared.is_empty()).then(|| {
            let since: Vec<Ns> = (0..self.nodes.len()).map(|i| even(i) + during(i)).collect();
            self.usual_of(keys, &|i| since[i])
        });
        let local: Vec<Ns> = (0..self.nodes.len())
            .map(|i| {
                let own = self.nodes[i].local;
                match (&since_ready, local[i]) {
                    (Some(since), _) if continues(i) => own.min(since[i].0),
                    (_, (usual, true)) => own.min(usual),
                    (_, (usual, false)) => usual,
                }
            })
            .collect();
        // When the host submits is compared since it last waited, or since the start of the job: a host that
        // stands still elsewhere than the others is not faster.
        let mut since: Vec<Ns> = vec![0; self.nodes.len()];
        let before = |i: usize| match self.nodes[i].host.map(|h| h.base) {
            Some(HostBase::Submit(b)) => Some(b as usize),
            _ => None,
        };
        for i in self.submissions() {
            let from = match self.nodes[i].host.map(|h| h.base) {
                Some(HostBase::Submit(b)) => since[b as usize],
                Some(HostBase::Fixed(t)) => t - self.start,
                _ => 0,
            };
            since[i] = from + self.times_of(i).host;
        }
        let usual_since = self.usual_of(keys, &|i| since[i]);
        // A repair makes no host later, and none works for less than no time: what it gains, it keeps for
        // what follows.
        let mut gained: Vec<Ns> = vec![0; self.nodes.len()];
        let mut host: Vec<Ns> = vec![0; self.nodes.len()];
        for i in self.submissions() {
            let own = self.times_of(i).host;
            let earlier = before(i).map_or(0, |b| gained[b]);
            gained[i] = (since[i] - usual_since[i].0).clamp(0, (earlier + own).max(0));
            host[i] = own - (gained[i] - earlier);
        }
        (0..self.nodes.len())
            .map(|i| {
                let own = self.times_of(i);
                // It goes on earlier by what its device works less, at most.
                let least = own.after - (own.busy - busy[i]).max(0);
                let (lag, after) = (lag[i].min(own.lag), own.after.min(after[i].0.max(least)));
                NodeTimes { local: local[i], busy: busy[i], host: host[i], lag, after, ..own }
            })
            .collect()
    }

    /// A host that waits for the device goes on when that has done what follows the collective, too. Who does
    /// not wait there tells nothing.
    fn after_wait(&self, node: usize) -> Ns {
        let waits = matches!(self.nodes[node].host.map(|h| h.base), Some(HostBase::Return(..)));
        if waits { self.times_of(node).after } else { Ns::MAX }
    }

    /// What a rank computed and copied while the call ran whose end a node follows, ns.
    fn work_during_call(&self, job: &Job, node: usize) -> Ns {
        let Base::End(before) = self.nodes[node].base else { return 0 };
        let m = self.nodes[before as usize].member;
        let p = &job.parts[m.part as usize];
        let (ready, released) = (p.readiness[m.call as usize].ready, p.calls.calls[m.call as usize].released);
        let local = p.lanes.get(self.nodes[before as usize].lane as usize).map(|l| &l.local);
        let entries = local.into_iter().flat_map(|l| l.entries_in(Span::new(ready, released.max(ready))));
        entries.filter(|e| matches!(e.what, TimeUse::Kernel | TimeUse::Copy)).map(|e| e.time).sum()
    }

    /// What makes nodes peers: the collective, if most ranks of the job take part in it; or else their place
    /// in the step and in a pipeline, kind and size of their call; and what they follow. With each the
    /// coarser key without the latter: a rank that is always last waits for no end.
    pub(super) fn keys_of(&self, job: &Job) -> Vec<PeerKeys> {
        // In an all-to-all, sizes differ between ranks by nature.
        let kind = |m: Member| {
            let c = job.call(m);
            (c.shape.kind, c.shape.bytes.filter(|_| c.shape.kind != CollectiveKind::AllToAll))
        };
        // Of calls without partners some ranks have more at the edges of a capture, so these have places of
        // their own.
        let joined = |m: Member| {
            let instance = job.instance_of(m)?;
            job.instances().get(instance as usize).filter(|i| i.len() > 1).map(|i| (instance, i))
        };
        let parts = job.parts.len();
        let stages = PipelinePlaces::of(job);
        // Ranks of other roles do something else, whatever their calls are.
        let role = |m: Member| job.parts.get(m.part as usize).and_then(RankSummary::role_name);
        let mut place: HashMap<(Option<u32>, bool), u32> = HashMap::new();
        let mut known: HashMap<_, u32> = HashMap::new();
        // Intern the keys: there are few kinds of segments, but as many nodes as calls.
        let mut keys: Vec<PeerKeys> = Vec::with_capacity(self.nodes.len());
        for of_part in self.nodes.chunk_by(|a, b| a.member.part == b.member.part) {
            place.clear();
            for n in of_part {
                let of_instance = joined(n.member);
                let of_most = of_instance
                    .filter(|(_, i)| !i.kind.is_point_to_point() && i.len() >= MOST && i.len() * 2 > parts)
                    .map(|(id, _)| id);
                let at = place.entry((n.step, of_instance.is_some())).or_default();
                let own = match of_most {
                    Some(id) => (Some(id), 0, true, None),
                    // Stages of a pipeline differ by what they work.
                    None => (None, *at, of_instance.is_some(), stages.stage(n.member.part)),
                };
                let before = match n.base {
                    Base::End(b) => Some((true, kind(self.nodes[b as usize].member))),
                    Base::Ready(b) => Some((false, kind(self.nodes[b as usize].member))),
                    Base::Fixed(_) => None,
                };
                let mut intern = |before| {
                    let next = known.len() as u32;
                    *known.entry((own, role(n.member), before, kind(n.member))).or_insert(next)
                };
                keys.push([intern(Some(before)), intern(None)]);
                *at += 1;
            }
        }
        keys
    }

    /// Median over peers: ranks with the same kinds and sizes around the segment, at the same place in the
    /// same step; without another one: those by the coarser key, which is told; without these: over the
    /// rank's own steps; otherwise unchanged.
    fn usual_of(&self, keys: &[PeerKeys], value: &dyn Fn(usize) -> Ns) -> Vec<(Ns, bool)> {
        let middle = |v: &mut Vec<Ns>, fewest: usize| if v.len() < fewest { None } else { median(v) };
        let of_peers = |which: usize| -> PeerTimes {
            let mut peers: HashMap<_, Vec<Ns>> = HashMap::new();
            for (i, (n, key)) in self.nodes.iter().zip(keys).enumerate() {
                peers.entry((n.step, key[which])).or_default().push(value(i));
            }
            peers.into_iter().map(|(k, mut v)| (k, middle(&mut v, PEERS))).collect()
        };
        let (peers, coarse) = (of_peers(0), of_peers(1));
        let mut usual: Vec<(Ns, bool)> = Vec::with_capacity(self.nodes.len());
        let mut own: HashMap<u32, Vec<Ns>> = HashMap::new();
        for of_part in self.nodes.chunk_by(|a, b| a.member.part == b.member.part) {
            let first = usual.len();
            let keys = &keys[first..first + of_part.len()];
            own.clear();
            for (i, key) in keys.iter().enumerate() {
                own.entry(key[0]).or_default().push(value(first + i));
            }
            let own: HashMap<u32, Option<Ns>> = own.iter_mut().map(|(k, v)| (*k, middle(v, STEPS))).collect();
            usual.extend(of_part.iter().zip(keys).enumerate().map(|(i, (n, key))| {
                let found = |of: &PeerTimes, k: u32| of.get(&(n.step, k)).copied()?;
                let exact = found(&peers, key[0]).map(|ns| (ns, false));
                let near = || found(&coarse, key[1]).map(|ns| (ns, true));
                let of_own = || own.get(&key[0]).copied()?.map(|ns| (ns, false));
                exact.or_else(near).or_else(of_own).unwrap_or_else(|| (value(first + i), false))
            }));
        }
        usual
    }
}

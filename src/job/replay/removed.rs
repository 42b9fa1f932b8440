//! What a repair removes from a replay: time of hosts, of devices and of transfers, at the place where it was
//! spent.

use crate::replay::{Assumed, NodeTimes, Replay, StepEnds};
use crate::{Job, LocalEntry, TimeUse};
use hta_base::units::{Ns, Span};
use std::collections::BTreeMap;

/// Time that goes away at a node, ns.
#[derive(Debug, Clone, Copy, Default)]
struct Away {
    /// The device waits for its host less.
    idle: Ns,
    /// The device works less.
    busy: Ns,
    /// The host works less before the submission, whether or not the device waits for it.
    host: Ns,
    transfer: Ns,
}

/// What is removed, by node; and behind the last node of a part.
#[derive(Debug, Clone, Default)]
pub struct Removed {
    /// As long as the last node of which something is removed: it is often so of most nodes.
    of: Vec<Option<Away>>,
    tails: BTreeMap<usize, Ns>,
}

impl Removed {
    fn at(&mut self, node: usize) -> &mut Away {
        if self.of.len() <= node {
            self.of.resize(node + 1, None);
        }
        self.of[node].get_or_insert_default()
    }

    pub fn idle(&mut self, node: usize, ns: Ns) {
        self.at(node).idle += ns;
    }

    pub fn busy(&mut self, node: usize, ns: Ns) {
        self.at(node).busy += ns;
    }

    pub fn host(&mut self, node: usize, ns: Ns) {
        self.at(node).host += ns;
    }

    pub(crate) fn transfer(&mut self, node: usize, ns: Ns) {
        if ns > 0 {
            self.at(node).transfer += ns;
        }
    }

    /// Removes time behind the last node of a part.
    pub fn tail(&mut self, node: usize, ns: Ns) {
        *self.tails.entry(node).or_default() += ns;
    }
}

impl Replay {
    /// Replays the job without what is removed.
    pub(crate) fn run_without(&self, removed: &Removed) -> StepEnds {
        let ends = self.ends(|i| self.without(i, removed), Assumed::default(), |_, _| {});
        let tail = |i: usize| (self.tail(i) - removed.tails.get(&i).copied().unwrap_or(0)).max(0);
        self.times(|i| ends[i] + tail(i))
    }

    /// Replays the job with other work of devices and transfers: by node the time that the device works less
    /// (negative: more), and by which the call transfers for less time; `on_devices`: as if no host could be
    /// late.
    pub(crate) fn run_changed(&self, of: impl Fn(usize) -> (Ns, Ns), on_devices: bool) -> StepEnds {
        let times = |i: usize| {
            let (less, saved) = of(i);
            NodeTimes { saved, ..self.less(i, less, false) }
        };
        self.replay(times, Assumed { without_hosts: on_devices, ..Assumed::default() })
    }

    /// By node: how much less it waits for others without what is removed, ns.
    pub(crate) fn waits_less(&self, removed: &Removed) -> Vec<Ns> {
        let mut waits = vec![0; self.node_count()];
        self.ends(|i| self.times_of(i), Assumed::default(), |i, wait| waits[i] += wait);
        self.ends(|i| self.without(i, removed), Assumed::default(), |i, wait| waits[i] -= wait);
        waits
    }

    /// How much shorter the steps become together if each starts when it did, ns. A host that waits for its
    /// device in a way that is not recorded keeps its times in a replay, as if the next step could not start
    /// earlier: this is what it would gain at most.
    pub(crate) fn shorter_steps(&self, removed: &Removed) -> Vec<Ns> {
        let (own, new) = (self.steps_of(|i| self.times_of(i)), self.steps_of(|i| self.without(i, removed)));
        let shorter = own.into_iter().zip(new).map(|((ends, starts), (new_ends, new_starts))| {
            // What starts earlier has gained before.
            let earlier = starts.iter().filter_map(|(part, at)| Some(at - new_starts.get(part)?)).min();
            (ends - new_ends - earlier.unwrap_or(0).max(0)).max(0)
        });
        shorter.collect()
    }

    /// By step: the last end, and by part the first start of a call.
    fn steps_of(&self, times: impl Fn(usize) -> NodeTimes) -> Vec<(Ns, BTreeMap<u32, Ns>)> {
        let mut waits = vec![0; self.node_count()];
        let ends = self.ends(&times, Assumed::default(), |i, wait| waits[i] += wait);
        let mut out: Vec<(Ns, BTreeMap<u32, Ns>)> = vec![(Ns::MIN, BTreeMap::new()); self.steps.len()];
        for (i, n) in self.nodes.iter().enumerate() {
            let Some(of) = n.step.and_then(|k| out.get_mut(k as usize)) else { continue };
            of.0 = of.0.max(ends[i] + self.tail(i));
            let start = ends[i] - (n.rest - times(i).saved.min(n.rest)) - waits[i];
            let first = of.1.entry(n.member.part).or_insert(start);
            *first = start.min(*first);
        }
        out
    }

    pub(crate) fn run_without_network(&self) -> StepEnds {
        self.replay(|i| self.times_of(i), Assumed { is_network_instant: true, ..Assumed::default() })
    }

    fn without(&self, node: usize, removed: &Removed) -> NodeTimes {
        let own = self.times_of(node);
        let Some(away) = removed.of.get(node).and_then(Option::as_ref) else { return own };
        let (idle, busy) = (away.idle.clamp(0, own.local.max(0)), away.busy.clamp(0, own.busy.max(0)));
        let local = own.local - (idle + busy).min(own.local.max(0));
        let saved = away.transfer.max(0);
        let Some(h) = self.nodes[node].host else {
            return NodeTimes { local, busy: local, saved, ..own };
        };
        // What the device waits for its host, the host is faster by; what lies behind the submission, the
        // device is.
        let before = idle.max(away.host).clamp(0, own.host.max(0));
        let behind = (idle - before).max(0);
        let lag = if h.is_bound { (own.lag - behind - busy).max(0) } else { own.lag };
        NodeTimes { local, busy: own.busy - busy, host: own.host - before, lag, saved, ..own }
    }

    /// What filled the local time of a node.
    pub fn local_uses<'a>(&self, job: &'a Job, node: usize) -> impl Iterator<Item = LocalEntry> + 'a {
        let n = &self.nodes[node];
        let p = &job.parts[n.member.part as usize];
        let ready = p.readiness[n.member.call as usize].ready;
        let window = Span::new(ready - n.local.max(0), ready);
        p.lanes.get(n.lane as usize).into_iter().flat_map(move |l| l.local.entries_in(window))
    }

    /// By last node of a part: what filled the time behind it, until the end of the part's last step.
    pub fn tail_uses<'a>(&self, job: &'a Job, node: usize) -> impl Iterator<Item = LocalEntry> + 'a {
        let n = &self.nodes[node];
        let p = &job.parts[n.member.part as usize];
        let from = p.calls.calls[n.member.call as usize].released;
        let window = Span::new(from, from + self.tail(node));
        p.lanes.get(n.lane as usize).into_iter().flat_map(move |l| l.local.entries_in(window))
    }

    /// The last node of a part, if it has time behind it.
    pub fn last_of(&self, part: u32) -> Option<usize> {
        self.tails.range(self.of_part(part)).find(|(_, ns)| **ns > 0).map(|(node, _)| *node)
    }

    /// The node before whose submission a host thread was busy at a moment of a part's own clock: by node, in
    /// order of submission, with the start of the stretch.
    pub fn host_stretches(&self, job: &Job, part: u32) -> Vec<(Span, usize)> {
        let calls = &job.parts[part as usize].calls.calls;
        let stretch = |i: usize| {
            let h = self.nodes[i].host?;
            let submit = calls[self.nodes[i].member.call as usize].submit;
            Some((Span::new(submit - h.time.max(0), submit), i))
        };
        let mut all: Vec<(Span, usize)> = self.of_part(part).filter_map(stretch).collect();
        all.sort_by_key(|(s, i)| (s.end, *i));
        all
    }
}

/// Whether a use of local time is idle time of a device in which its host was busy.
pub fn is_host_use(what: TimeUse) -> bool {
    use TimeUse::{Copy, Kernel, KernelWait, OtherWait, UnlinkedWait};
    !matches!(what, Kernel | Copy | KernelWait | OtherWait | UnlinkedWait)
}

//! What is known of a node of a replay.

use crate::chain::StepKey;
use crate::replay::Replay;
use crate::replay::nodes::{Base, HostBase};
use crate::window::{LocalWindow, WindowStart};
use crate::{Job, Member};
use hashbrown::HashMap;
use hta_base::units::Span;
use std::collections::BTreeMap;

impl Replay {
    /// The nodes of a part, which follow one another.
    pub fn of_part(&self, part: u32) -> std::ops::Range<usize> {
        let from = self.nodes.partition_point(|n| n.member.part < part);
        from..self.nodes.partition_point(|n| n.member.part <= part)
    }

    pub fn part(&self, node: usize) -> u32 {
        self.nodes[node].member.part
    }

    pub fn member(&self, node: usize) -> Member {
        self.nodes[node].member
    }

    /// The local time of a node, on its rank's own clock.
    pub fn window(&self, job: &Job, node: usize) -> LocalWindow {
        let n = &self.nodes[node];
        let ready = job.ready(n.member);
        let span = Span::new(ready - n.local.max(0), ready);
        LocalWindow { lane: n.lane, span, from: WindowStart::Step }
    }

    /// The peers of a node: nodes of the same step with the same kinds and sizes of calls at the same place,
    /// itself among them.
    pub fn peers(&self) -> HashMap<(Option<StepKey>, u32), Vec<usize>> {
        let mut out: HashMap<_, Vec<usize>> = HashMap::new();
        (0..self.nodes.len()).for_each(|i| out.entry(self.peer_key(i)).or_default().push(i));
        out
    }

    pub fn peer_key(&self, node: usize) -> (Option<StepKey>, u32) {
        (self.step(node), self.keys[node])
    }

    /// The lane of a node.
    pub fn lane(&self, node: usize) -> u32 {
        self.nodes[node].lane
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

    /// Whether in most steps no submission of a rank follows the end of a collective: its host waits for the
    /// device in a way that is not recorded, and keeps its times.
    pub fn keeps_hosts(&self) -> bool {
        let mut follows: BTreeMap<(u32, Option<u32>), bool> = BTreeMap::new();
        for n in &self.nodes {
            let Some(h) = n.host else { continue };
            *follows.entry((n.member.part, n.step)).or_default() |= matches!(h.base, HostBase::Return(..));
        }
        follows.values().filter(|f| **f).count() * 2 < follows.len()
    }

    pub fn step(&self, node: usize) -> Option<StepKey> {
        self.nodes[node].step.and_then(|k| self.steps.get(k as usize)).copied()
    }
}

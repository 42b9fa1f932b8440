//! Sums over the calls of operators, by window and owner: those that the host made, and those of captures
//! that graphs replay.

use crate::ops::keys::{KeyTexts, Keys, RowOwner, can_use_tensor_cores};
use hta_base::units::Ns;
use hta_facts::by_owner::{ByOwner, OwnerId};
use hta_facts::calls::CallForest;
use hta_facts::graphs::nodes::{GraphNodes, GraphReplay, OperatorCall};
use hta_facts::machine::RankMachine;
use hta_facts::operator_work::OperatorWorks;
use hta_facts::step_scopes::StepScopes;
use hta_trace::activity::Activity;
use hta_trace::category::Class;
use hta_trace::flops::roofline::{CallPeaks, Load};
use hta_trace::flops::{Family, Work};
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::StrId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The sums of one owner in one window.
#[derive(Debug, Clone, Default)]
pub(crate) struct OperatorSums {
    pub(crate) count: u64,
    pub(crate) host: Ns,
    pub(crate) host_self: Ns,
    pub(crate) host_api: Ns,
    pub(crate) gpu: Ns,
    pub(crate) gpu_self: Ns,
    pub(crate) activities: u64,
    pub(crate) kernels: u64,
    pub(crate) backward: Ns,
    pub(crate) delays: i128,
    pub(crate) delay_count: u64,
    pub(crate) delay_max: Option<Ns>,
    pub(crate) is_eligible: bool,
    pub(crate) family: Option<Family>,
    pub(crate) load: Load,
    /// Own activities of calls whose work is known.
    pub(crate) working: Vec<u32>,
    /// Instances that are not inside another one of the owner and launched something.
    pub(crate) outer: Vec<u32>,
    /// Own activities.
    pub(crate) own: Vec<u32>,
    pub(crate) graph_self: Ns,
    /// Activities of graphs at or below captured calls of the owner.
    pub(crate) replayed: Vec<u32>,
    /// Whether calls of the owner launched graphs whose activities have captured owners.
    pub(crate) has_moved: bool,
    /// End of the subtree of the last outer instance.
    until: u32,
}

impl OperatorSums {
    fn add_own(&mut self, i: u32, a: &Activity) {
        self.own.push(i);
        self.gpu_self += a.span.len();
        self.kernels += u64::from(a.class == Class::Kernel);
    }

    fn add_delay(&mut self, delay: Ns) {
        self.delays += i128::from(delay);
        self.delay_count += 1;
        self.delay_max = self.delay_max.max(Some(delay));
    }

    /// Adds the work of a call that launched `own`; without `counts` it is not known to have run.
    fn add_work(&mut self, (work, peaks): (Work, CallPeaks), own: &[u32], counts: bool) {
        self.family = Some(work.family);
        if let Some(flops) = work.flops.filter(|_| counts) {
            self.load.add(flops, work.bytes, peaks);
            self.working.extend_from_slice(own);
        }
    }
}

/// Sums while they are collected.
pub(crate) struct OperatorCharges<'a> {
    calls: &'a CallForest<'a>,
    keys: &'a Keys,
    texts: &'a KeyTexts,
    scopes: &'a StepScopes<'a>,
    nodes: Arc<GraphNodes>,
    works: Arc<OperatorWorks>,
    machine: &'a RankMachine<'a>,
    /// By position: whether it or an operator inside can use tensor cores.
    eligible: Vec<bool>,
    has_gpu: bool,
    /// The owner of each operator by position, once it was met.
    owners: Vec<Option<OwnerId>>,
    sums: ByOwner<RowOwner, OperatorSums>,
}

impl<'a> OperatorCharges<'a> {
    /// The sums of all owners.
    pub(crate) fn collect(
        calls: &'a CallForest<'a>,
        (keys, texts): (&'a Keys, &'a KeyTexts),
        scopes: &'a StepScopes<'a>,
        machine: &'a RankMachine<'a>,
    ) -> ByOwner<RowOwner, OperatorSums> {
        let trace = calls.trace;
        let mut all = Self {
            calls,
            keys,
            texts,
            scopes,
            nodes: GraphNodes::of(trace),
            works: OperatorWorks::of(trace),
            machine,
            eligible: texts.eligible(calls),
            has_gpu: trace.devices.iter().any(|w| w.is_gpu),
            owners: vec![None; calls.forest.call_count()],
            sums: ByOwner::default(),
        };
        all.host_calls();
        all.replays();
        all.unlinked();
        all.sums
    }

    /// Operators, and API calls outside any, with what they launched.
    fn host_calls(&mut self) {
        let calls = self.calls;
        let (nodes, mut rest, mut own) = (Arc::clone(&self.nodes), calls.own.as_slice(), Vec::new());
        for p in 0..calls.forest.call_count() as u32 {
            if !calls.is_op(p) && calls.op(p).is_some() {
                continue;
            }
            let (launched, after) = rest.split_at(rest.iter().take_while(|o| o.0 == p).count());
            rest = after;
            own.clear();
            own.extend(launched.iter().map(|o| o.1).filter(|i| nodes.operator_of(*i).is_none()));
            let has_moved = own.len() < launched.len();
            let owner = self.sums.id(self.texts.owner(self.keys, calls, p));
            self.owners[p as usize] = Some(owner);
            for window in self.scopes.of(self.scopes.step_at(calls.start(p))) {
                self.host_call(window, owner, p, &own);
                self.sums.at(window, owner).has_moved |= has_moved;
            }
        }
    }

    /// One call, which launched `own`.
    fn host_call(&mut self, window: usize, owner: OwnerId, p: u32, own: &[u32]) {
        let (calls, at) = (self.calls, p as usize);
        let trace = calls.trace;
        let sums = self.sums.at(window, owner);
        sums.count += 1;
        sums.is_eligible |= self.eligible[at];
        sums.host_self += calls.host_self_ns(p);
        sums.host_api += calls.host_api_ns[at];
        for &i in own {
            let a = &trace.activities[i as usize];
            sums.add_own(i, a);
            if let Some(launch) = a.launch() {
                sums.add_delay(a.span.start - trace.span(launch).start);
            }
        }
        let row = calls.row(p);
        if let Some(work) = self.works.at(row).copied().filter(|_| calls.is_op(p)) {
            let peaks = self.machine.peaks(OperatorCall::Row(row), &work);
            // Where there is a GPU, the work of an operator without GPU work is not on it.
            sums.add_work((work, peaks), own, !own.is_empty() || !self.has_gpu);
        }
        // A call inside another one of its owner adds nothing to totals.
        if p < sums.until {
            return;
        }
        sums.until = calls.forest.end[at];
        sums.host += calls.host_ns[at];
        let below = calls.below.at(p);
        sums.gpu += below.sum_ns;
        sums.activities += u64::from(below.count);
        sums.backward += calls.bwd_gpu_ns(p);
        if below.count > 0 {
            sums.outer.push(p);
        }
    }

    /// Adds the activities of graphs to the operators that captured them.
    fn replays(&mut self) {
        let nodes = Arc::clone(&self.nodes);
        let captured: Vec<OwnerId> =
            nodes.operators.iter().map(|o| self.sums.id(self.texts.captured_owner(self.keys, o))).collect();
        for (number, replay) in (0..).zip(&nodes.replays) {
            self.replay(&nodes, &captured, number, replay);
        }
    }

    fn replay(&mut self, nodes: &GraphNodes, captured: &[OwnerId], number: u32, replay: &GraphReplay) {
        let trace = self.calls.trace;
        let owner = |o: u32| captured.get(o as usize).copied();
        // All were launched by one call.
        let Some(first) = replay.nodes.first().and_then(|i| trace.activities.get(*i as usize)) else {
            return;
        };
        let windows = self.scopes.of(first.step());
        let around = self.around(replay.call);
        for (operator, own) in launched_by_operator(nodes, replay) {
            let Some(of) = owner(operator) else { continue };
            let call = OperatorCall::Captured(number, operator);
            let work = self.works.of_call(call).map(|work| (*work, self.machine.peaks(call, work)));
            for window in windows.clone() {
                let sums = self.sums.at(window, of);
                sums.count += 1;
                for &i in &own {
                    let a = &trace.activities[i as usize];
                    sums.add_own(i, a);
                    sums.graph_self += a.span.len();
                }
                if let Some(work) = work {
                    sums.add_work(work, &own, !own.is_empty());
                }
            }
            let ns: Ns = own.iter().map(|i| trace.activities[*i as usize].span.len()).sum();
            let name = nodes.operator(operator).map_or(StrId::EMPTY, |o| o.name);
            let is_eligible = can_use_tensor_cores(trace.text(name));
            // What contains the launch call has its activities already. Recursion counts once, too.
            let mut seen = around.clone();
            for who in nodes.outward(operator).filter_map(owner) {
                let is_new = !seen.contains(&who);
                for window in windows.clone() {
                    let sums = self.sums.at(window, who);
                    sums.is_eligible |= is_eligible;
                    if is_new {
                        sums.gpu += ns;
                        sums.activities += own.len() as u64;
                        sums.replayed.extend_from_slice(&own);
                    }
                }
                seen.push(who);
            }
        }
    }

    /// The owners of the operators around a call.
    fn around(&self, call: u32) -> Vec<OwnerId> {
        let calls = self.calls;
        let position = calls.forest.position(call).and_then(|p| calls.op(p));
        let outward =
            std::iter::successors(position, |p| calls.forest.parent(*p).and_then(|up| calls.op(up)));
        outward.filter_map(|p| self.owners[p as usize]).collect()
    }

    fn unlinked(&mut self) {
        let trace: &RankTrace = self.calls.trace;
        for &i in &trace.launches().unlinked {
            let a = &trace.activities[i as usize];
            self.sums.charge(self.scopes.of(a.step()), RowOwner::Unlinked, |sums| {
                sums.add_own(i, a);
                sums.gpu += a.span.len();
                sums.activities += 1;
            });
        }
    }
}

/// What each captured operator launched in a replay; nothing for those that are only around another one.
fn launched_by_operator(nodes: &GraphNodes, replay: &GraphReplay) -> BTreeMap<u32, Vec<u32>> {
    let mut launched: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for &i in &replay.nodes {
        if let Some(operator) = nodes.operator_of(i) {
            for around in nodes.outward(operator) {
                launched.entry(around).or_default();
            }
            launched.entry(operator).or_default().push(i);
        }
    }
    launched
}

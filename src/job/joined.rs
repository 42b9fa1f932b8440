//! All ranks joined: results of the stages, for the analyses that compare ranks.

use crate::clock::{Clock, ClockMode, align};
use crate::collectives::collectives;
use crate::exposed::CallSpan;
use crate::groups::Group;
use crate::lent_steps::{lend, lender};
use crate::matching::{Instance, Matched, Member};
use crate::meeting::meeting_points;
use crate::mesh::{Mesh, ProgramExtent, ToldMeshes, extent};
use crate::messages::messages;
use crate::nameless::name_groups;
use crate::origin;
use crate::part::{RankSummary, SyncPoints};
use crate::peers::name_peers;
use crate::rank_words::RankWords;
use crate::strays::{self, Stray};
use crate::waits::{Arrivals, CallWait, JobWaits, root, split};
use hta_base::units::{Ns, Span, fmt_ns};
use hta_trace::collective::{CollectiveCall, CollectiveKind};
use hta_trace::shared::SharedFacts;
use hta_trace::step::StepRule;
use hta_trace::strings::Interner;
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

pub struct Job {
    /// In order of rank.
    pub parts: Vec<RankSummary>,
    pub matched: Matched,
    /// The dimensions of the job, and the hosts of its ranks.
    pub mesh: Mesh,
    pub words: RankWords,
    /// One per part.
    pub clocks: Vec<Clock>,
    /// Whether only collectives show that the times of the ranks have one origin.
    pub is_origin_proved: bool,
    waits: JobWaits,
    /// Collectives whose members end apart, in order of instance.
    pub strays: Vec<Stray>,
    /// By part and call: whether the rank met the others at its end, so that its next local time starts
    /// there.
    met: Vec<Vec<bool>>,
    /// Names in the parts' local work.
    pub names: Interner,
    shared: SharedFacts,
}

impl Job {
    /// Runs the stages: names, matching, clocks, waits. `parts` must be in order of rank.
    pub fn join(
        parts: impl ExactSizeIterator<Item = RankSummary>,
        mode: ClockMode,
        told: &ToldMeshes,
    ) -> Self {
        let mut names = Interner::default();
        // One by one, so that only one part at a time has its own copy of names.
        let mut parts: Vec<RankSummary> = parts.map(|part| share_names(part, &mut names)).collect();
        let lender = lender(&parts);
        let has_none = parts.iter().any(|p| p.step_rule == StepRule::Capture);
        if lender.is_none() && has_none && are_steps_mixed(&parts) {
            parts.iter_mut().for_each(RankSummary::count_as_one_step);
        }
        let is_origin_proved = origin::prove(&mut parts);
        name_peers(&mut parts);
        name_groups(&mut parts);
        let mut matched = collectives(&parts, !is_origin_proved);
        let clocks = align(&parts, &matched, mode);
        messages(&parts, &mut matched, |part, t| clocks[part as usize].aligned(t));
        if let Some(from) = lender {
            lend(from, &mut parts, &matched, &clocks);
        }
        let mesh = Mesh::new(&parts, &matched, told);
        let words = RankWords::of(&parts, &mesh);
        let waits = split(&parts, &matched, &clocks);
        let strays = strays::find(&parts, &matched, &clocks);
        let met = meeting_points(&parts, &matched);
        Self {
            parts,
            matched,
            mesh,
            words,
            clocks,
            is_origin_proved,
            waits,
            strays,
            met,
            names,
            shared: SharedFacts::default(),
        }
    }

    /// A job of no ranks.
    pub fn nobody(mode: ClockMode) -> Self {
        Self::join(std::iter::empty(), mode, &ToldMeshes::default())
    }

    /// The programs of the job.
    pub fn programs(&self) -> Vec<ProgramExtent> {
        self.parts.chunk_by(|a, b| a.program() == b.program()).map(extent).collect()
    }

    /// Whether steps of a rank are iterations.
    pub fn has_iterations(&self) -> bool {
        self.parts.iter().any(|p| p.step_rule.is_iteration())
    }

    /// Whether the steps of ranks of one program were found in different ways: the first step of one rank is
    /// then no part of what another rank calls its first step, which may be all of its capture.
    pub fn has_mixed_steps(&self) -> bool {
        are_steps_mixed(&self.parts)
    }

    /// Shared data of several analyses, identified by its type; computed when first requested.
    pub fn shared<T: Any + Send + Sync>(&self, make: impl FnOnce(&Self) -> T) -> Arc<T> {
        self.shared.get(|| make(self))
    }

    pub fn instances(&self) -> &[Instance] {
        &self.matched.instances
    }

    /// The group of a call of a part.
    pub fn group_of(&self, part: u32, call: &CollectiveCall) -> Option<&Group> {
        self.matched.groups.get(self.matched.group_of(part, call.shape.group)? as usize)
    }

    pub fn members(&self, i: &Instance) -> &[Member] {
        self.matched.members(i)
    }

    pub fn call(&self, m: Member) -> &CollectiveCall {
        &self.parts[m.part as usize].calls.calls[m.call as usize]
    }

    /// The instance of a call; `None` without a partner on another rank.
    pub fn instance_of(&self, m: Member) -> Option<u32> {
        self.matched_call(m).map(|o| o.instance)
    }

    /// Waiting and transfer of a call; `None` if it is not matched, or a rank of its group is not recorded.
    pub fn outcome(&self, m: Member) -> Option<CallWait> {
        self.matched_call(m).filter(|o| o.is_divided)
    }

    /// Waiting and transfer of a call that does nothing else: `None` for a fused kernel, too.
    pub fn told_wait(&self, m: Member) -> Option<CallWait> {
        self.outcome(m).filter(|_| self.call(m).shape.kind != CollectiveKind::Fused)
    }

    fn matched_call(&self, m: Member) -> Option<CallWait> {
        self.waits.outcomes.get(m.part as usize)?.get(m.call as usize).copied().flatten()
    }

    /// A call in the form in which exposed communication is divided; undivided where members end apart.
    pub fn run(&self, m: Member) -> CallSpan {
        let span = self.call(m).span;
        let outcome = self.told_wait(m).filter(|o| !self.is_stray(o.instance));
        let until = |o: CallWait| (span.start + o.wait).max(span.end - self.received_in(m, o, span.len()));
        CallSpan { call: m.call, span, until: outcome.map(until) }
    }

    /// How long the other rank of a message received, if a host sent it: its range lasts until its thread
    /// looks after it, and nothing is transferred then. For other calls `len`.
    fn received_in(&self, m: Member, o: CallWait, len: Ns) -> Ns {
        let shape = &self.call(m).shape;
        let is_sent = shape.on_host && shape.kind == CollectiveKind::Send;
        let instance = self.instances().get(o.instance as usize).filter(|_| is_sent);
        let other = instance.and_then(|i| self.members(i).iter().find(|other| **other != m));
        other.and_then(|other| self.transfer_ns(*other)).map_or(len, |ns| ns.clamp(0, len))
    }

    /// Arrivals of the instance at an index.
    pub fn arrivals(&self, instance: usize) -> Arrivals {
        self.waits.arrivals.get(instance).copied().unwrap_or_default()
    }

    /// Whether members of the instance at an index end apart, although each waits for all others: its ends
    /// are no evidence of transfer.
    pub fn is_stray(&self, instance: u32) -> bool {
        self.strays.binary_search_by_key(&instance, |s| s.instance).is_ok()
    }

    /// Which member of a collective ends apart from the others, and by how much.
    pub fn stray_in_words(&self, stray: &Stray) -> String {
        let call = self.call(stray.member);
        let number = call.seq.map_or_else(String::new, |seq| format!(" number {seq}"));
        let side = if stray.apart < 0 { "before" } else { "after" };
        let rank = self.parts.get(stray.member.part as usize).map_or(0, |p| p.rank);
        format!(
            "{}{number} of {} ends {} {side} the others",
            call.shape.kind.name(),
            self.words.plain(&[rank]),
            fmt_ns(stray.apart.abs())
        )
    }

    /// Waiting and transfer of a call, if times of its instance are possible and its members end together.
    pub fn transfer_of(&self, m: Member) -> Option<CallWait> {
        self.told_wait(m).filter(|o| !o.is_impossible && !self.is_stray(o.instance))
    }

    /// What a call does beyond waiting for others, ns; `None` where that is not known.
    pub fn transfer_ns(&self, m: Member) -> Option<Ns> {
        Some(self.call(m).span.len() - self.told_wait(m)?.wait)
    }

    /// When a rank was ready for a call, on its own clock.
    pub fn ready(&self, m: Member) -> Ns {
        self.parts[m.part as usize].readiness[m.call as usize].ready
    }

    /// Since when a rank had computed nothing at the end of a call, on its own clock.
    pub(crate) fn idle_since(&self, m: Member) -> Ns {
        self.parts[m.part as usize].readiness[m.call as usize].idle_since
    }

    /// The moments at which a part met the others on one of its lanes.
    pub(crate) fn sync_points(&self, part: u32, lane: usize) -> SyncPoints {
        self.parts[part as usize].sync_points(lane, &self.met[part as usize])
    }

    /// The recorded root of an instance, or else its lowest member.
    pub fn root(&self, instance: u32) -> Option<Member> {
        let i = self.instances().get(instance as usize)?;
        let members = self.members(i);
        root(&self.parts, self.matched.groups.get(i.group as usize), members)
            .and_then(|i| members.get(i))
            .copied()
    }

    /// Converts a time of one part to the common axis, ns.
    pub fn aligned(&self, part: u32, t: Ns) -> Ns {
        self.clocks[part as usize].aligned(t)
    }

    /// Converts a span of one part to the common axis.
    pub fn aligned_span(&self, part: u32, s: Span) -> Span {
        Span::new(self.aligned(part, s.start), self.aligned(part, s.end))
    }
}

fn are_steps_mixed(parts: &[RankSummary]) -> bool {
    let mut told = parts.iter().filter(|p| !p.is_left_out && !p.lanes.is_empty());
    let mut rules: BTreeMap<u32, StepRule> = BTreeMap::new();
    told.any(|p| *rules.entry(p.program()).or_insert(p.step_rule) != p.step_rule)
}

/// Moves a part's names to the shared interner.
fn share_names(mut part: RankSummary, names: &mut Interner) -> RankSummary {
    let own = std::mem::take(&mut part.names);
    let map: Vec<_> = own.iter().map(|(_, text)| names.intern(text)).collect();
    let to = |id: hta_trace::strings::StrId| map.get(id.0 as usize).copied().unwrap_or_default();
    part.lanes.iter_mut().for_each(|l| l.local.rename(to));
    part.runs.iter_mut().for_each(|run| run.name = to(run.name));
    part.tokens.unknown.iter_mut().for_each(|(name, _)| *name = to(*name));
    part.origins = std::mem::take(&mut part.origins)
        .into_iter()
        .map(|(k, o)| {
            (
                to(k),
                crate::kernel_origin::KernelOrigin { op: to(o.op), frame: to(o.frame), place: to(o.place) },
            )
        })
        .collect();
    part
}

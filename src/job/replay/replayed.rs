//! The replay of a job, made once: every gain of a repair is what it says when exactly that is removed.

use crate::delay::StepKey;
use crate::replay::{Removed, Replay, ReplayLimits, StepEnds};
use crate::{Job, Member};
use hta_base::units::{Ns, percent};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A replay that is farther from what was measured is not to be believed, percent.
pub const RELIABLE_PCT: f64 = 5.0;

/// A job with the replay of what was measured.
pub struct ReplayedJob {
    pub replay: Replay,
    measured: Ns,
    pub actual: StepEnds,
}

impl ReplayedJob {
    /// The replay of a job, which several analyses share; `None` if nothing can be replayed.
    pub fn of(job: &Job) -> Option<Arc<Self>> {
        job.shared(|job| Self::new(job).map(Arc::new)).as_ref().clone()
    }

    fn new(job: &Job) -> Option<Self> {
        let is_joined = job.instances().iter().any(|i| i.len() > 1 && !job.matched.is_cut(i));
        let replay = is_joined.then(|| Replay::new(job)).flatten()?;
        let (measured, actual) = (replay.measured().total(), replay.run(|i| replay.times_of(i)));
        Some(Self { replay, measured, actual })
    }

    /// Deviation of the replay without repairs from what was measured, percent; `None` without measured time.
    pub fn error_pct(&self) -> Option<f64> {
        percent((self.actual.total() - self.measured).abs(), self.measured)
    }

    pub fn is_reliable(&self) -> bool {
        self.error_pct().is_some_and(|error| error <= RELIABLE_PCT)
    }

    /// The job and its steps without network, and without hosts.
    pub fn limits(&self, job: &Job) -> Option<(ReplayLimits, Vec<(StepKey, ReplayLimits)>)> {
        let (all, of_steps) = self.replay.limits(job)?;
        Some((all, self.replay.steps.iter().copied().zip(of_steps).collect()))
    }

    /// How much shorter the job becomes by a repair, in the steps that count (if these are known, else in
    /// all), ns.
    pub fn gain(&self, repaired: &StepEnds, counted: &[StepKey]) -> Ns {
        if counted.is_empty() || !counted.iter().all(|k: &StepKey| self.replay.steps.binary_search(k).is_ok())
        {
            return (self.actual.total() - repaired.total()).max(0);
        }
        let steps = self.replay.steps.iter().zip(self.actual.steps().into_iter().zip(repaired.steps()));
        let of_step = steps.filter(|(key, _)| counted.contains(key)).map(|(_, (own, new))| own - new);
        of_step.sum::<Ns>().max(0)
    }

    /// The gain if some parts took their usual time in some steps, ns.
    pub fn gain_of(&self, is_repaired: impl Fn(u32, Option<StepKey>) -> bool, counted: &[StepKey]) -> Ns {
        let is_fixed = |i: usize| is_repaired(self.replay.part(i), self.replay.step(i));
        self.gain(&self.replay.run_repaired(is_fixed), counted)
    }

    /// The gain if something is removed, ns.
    pub fn gain_without(&self, removed: &Removed, counted: &[StepKey]) -> Ns {
        self.gain(&self.replay.run_without(removed), counted)
    }

    /// The gain if some calls take less time to transfer, each by `saved`, ns.
    pub fn gain_of_transfers(&self, saved: impl Fn(Member) -> Ns, counted: &[StepKey]) -> Ns {
        self.gain_without(&self.transfers(saved), counted)
    }

    /// The most that this can gain where hosts wait for devices in ways that are not recorded, ns.
    pub fn most_of_transfers(&self, saved: impl Fn(Member) -> Ns) -> Ns {
        self.replay.shorter_steps(&self.transfers(saved)).into_iter().sum()
    }

    /// How much less a call waits for others if some calls take less time to transfer, ns.
    pub fn waits_of_transfers(&self, saved: impl Fn(Member) -> Ns) -> BTreeMap<Member, Ns> {
        let waits = self.replay.waits_less(&self.transfers(saved)).into_iter().enumerate();
        waits.filter(|(_, ns)| *ns > 0).map(|(i, ns)| (self.replay.member(i), ns)).collect()
    }

    fn transfers(&self, saved: impl Fn(Member) -> Ns) -> Removed {
        let mut removed = Removed::default();
        for i in 0..self.replay.node_count() {
            removed.transfer(i, saved(self.replay.member(i)));
        }
        removed
    }

    /// The gain if no transfer took time, ns.
    pub fn gain_of_network(&self, counted: &[StepKey]) -> Ns {
        self.gain(&self.replay.run_without_network(), counted)
    }
}

//! The account of a step: where the time of all ranks went, and the factors of its efficiency.
//!
//! ```text
//!   rank 0  |UUUUUUU|SSSS|FFF|MM|..I..|          |W| = T
//!   rank 1  |UUUUUUUUUUUU|FFF|.I.|DDDDD          |W| = T - D
//!
//!   T = U + X + S + F + N + M + I + D      for every rank and step
//! ```

use crate::sync;
use hta_base::units::{Ns, Span, ratio};
use hta_job::delay::StepKey;
use hta_job::replay::ReplayLimits;
use hta_job::{Job, PartWindow, RankSummary};
use hta_trace::window::Scope;
use std::collections::{BTreeMap, BTreeSet};
use std::iter::Sum;
use std::ops::Add;
use std::sync::Arc;

/// The parts of the time of a device (of a CPU-only rank: of its host) in one or several steps, ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Parts {
    /// U: compute runs.
    pub compute: Ns,
    /// X: fused kernels run and no compute: exchange, product and waiting in one.
    pub fused: Ns,
    /// S: exposed communication that waits for other ranks.
    pub waiting: Ns,
    /// F: exposed communication that transfers.
    pub transfer: Ns,
    /// N: exposed communication without a match.
    pub unmatched: Ns,
    /// M: exposed copies and sets of memory.
    pub copies: Ns,
    /// I: nothing runs.
    pub idle: Ns,
    /// D: the device's window is shorter than the step of the job.
    pub finished_early: Ns,
}

impl Parts {
    /// U + X + S + F + N + M: neither idle nor missing.
    fn busy(&self) -> Ns {
        self.compute + self.fused + self.waiting + self.transfer + self.unmatched + self.copies
    }

    /// U + X + S + F + N + M + I, the device's window.
    pub fn window(&self) -> Ns {
        self.busy() + self.idle
    }
}

impl Add for Parts {
    type Output = Parts;
    fn add(self, o: Parts) -> Parts {
        Parts {
            compute: self.compute + o.compute,
            fused: self.fused + o.fused,
            waiting: self.waiting + o.waiting,
            transfer: self.transfer + o.transfer,
            unmatched: self.unmatched + o.unmatched,
            copies: self.copies + o.copies,
            idle: self.idle + o.idle,
            finished_early: self.finished_early + o.finished_early,
        }
    }
}

impl Sum for Parts {
    fn sum<I: Iterator<Item = Parts>>(all: I) -> Parts {
        all.fold(Parts::default(), Add::add)
    }
}

/// A device of a rank: index of the part, and the device.
pub type PartDevice = (u32, Option<i64>);

pub type DeviceWindows = BTreeMap<PartDevice, Vec<Span>>;

/// One step of the job.
#[derive(Debug, Clone, Default)]
pub struct StepAccount {
    /// `None` if the recorded span is the only step.
    pub key: Option<StepKey>,
    /// Parts by device, without the time for which they finished early, which depends on the devices that are
    /// compared.
    pub parts: BTreeMap<PartDevice, Parts>,
    /// The window of each device, on its rank's own clock.
    pub windows: Arc<DeviceWindows>,
}

/// The steps that all devices have: full ones, or else all; without steps, the recorded span. Computed once
/// for a job.
pub fn steps(job: &Job) -> Arc<Vec<StepAccount>> {
    job.shared(all_steps)
}

/// The length of the steps of a job: what every gain is a share of.
#[derive(Debug, Clone, Default)]
pub struct StepLength {
    /// The steps that count; none for the recorded span.
    pub keys: Vec<StepKey>,
    /// Sum over the steps of the windows of the device with most of it, ns. Where another rank has the
    /// longest window in each step, these would count their overlap twice.
    pub time: Ns,
}

impl StepLength {
    pub fn of(job: &Job) -> Self {
        let steps = steps(job);
        let mut times: BTreeMap<PartDevice, Ns> = BTreeMap::new();
        for (place, parts) in steps.iter().flat_map(|s| &s.parts) {
            *times.entry(*place).or_default() += parts.window();
        }
        let time = times.into_values().max().unwrap_or(0);
        Self { keys: steps.iter().filter_map(|s| s.key).collect(), time }
    }

    /// A sum over all steps as the mean of a step.
    pub(crate) fn per_step(&self, sum: Ns) -> Ns {
        sum / self.keys.len().max(1) as Ns
    }

    /// The mean step, ns.
    pub(crate) fn step(&self) -> Ns {
        self.per_step(self.time)
    }
}

fn all_steps(job: &Job) -> Vec<StepAccount> {
    let is_told = |part: u32| !job.parts[part as usize].is_left_out;
    let rows: Vec<_> = sync::rows(job, false).into_iter().filter(|r| is_told(r.part)).collect();
    let places: BTreeSet<PartDevice> = rows.iter().map(|r| (r.part, r.lane.device)).collect();
    let on_device: BTreeSet<PartDevice> = rows
        .iter()
        .filter(|r| r.window.scope == Scope::DeviceStep)
        .map(|r| (r.part, r.lane.device))
        .collect();
    let mut steps: BTreeMap<StepKey, (StepAccount, bool)> = BTreeMap::new();
    let mut span = StepAccount::default();
    for r in &rows {
        let w = r.window;
        let busy = w.compute_only + w.overlapped + w.exposed + w.fused + w.copies;
        let parts = Parts {
            compute: w.compute_only + w.overlapped,
            fused: w.fused,
            waiting: r.sync,
            transfer: r.transfer,
            unmatched: r.unmatched,
            copies: w.copies,
            idle: w.dur() - busy,
            finished_early: 0,
        };
        let place = (r.part, r.lane.device);
        match (w.scope, w.label, w.step) {
            // The steps of the device replace those of its host.
            (Scope::Step, ..) if on_device.contains(&place) => {}
            (Scope::Step | Scope::DeviceStep, Some(label), _) => {
                add(&mut steps, StepKey::Label(label), place, (parts, w));
            }
            (Scope::Step | Scope::DeviceStep, None, Some(index)) => {
                add(&mut steps, StepKey::Index(index), place, (parts, w));
            }
            (Scope::Span, ..) => {
                span.insert(place, parts, w);
            }
            _ => {}
        }
    }
    if job.has_mixed_steps() {
        steps.clear();
    }
    steps.retain(|_, (step, _)| step.parts.len() == places.len());
    if steps.values().any(|(_, is_partial)| !is_partial) {
        steps.retain(|_, (_, is_partial)| !*is_partial);
    }
    // Without marked steps the only step is the capture; the recorded span is more informative, as in other
    // analyses.
    let are_iterations = job.has_iterations();
    let is_unmarked =
        !are_iterations && steps.len() == 1 && steps.keys().all(|k| matches!(k, StepKey::Index(_)));
    steps.values_mut().for_each(|(step, _)| step.wait_for_roles(job));
    if steps.is_empty() || is_unmarked {
        return if span.parts.is_empty() { Vec::new() } else { vec![span] };
    }
    steps.into_iter().map(|(key, (step, _))| StepAccount { key: Some(key), ..step }).collect()
}

fn add(
    steps: &mut BTreeMap<StepKey, (StepAccount, bool)>,
    key: StepKey,
    place: PartDevice,
    (parts, window): (Parts, &PartWindow),
) {
    let step = steps.entry(key).or_default();
    step.0.insert(place, parts, window);
    step.1 |= window.is_partial == Some(true);
}

impl StepAccount {
    /// Makes the time by which all ranks of a role have a shorter step than those of another idle time: they
    /// do not finish early, but wait for the other role.
    fn wait_for_roles(&mut self, job: &Job) {
        let role = |part: u32| job.parts.get(part as usize).and_then(RankSummary::role_name);
        let mut longest: BTreeMap<Option<&str>, Ns> = BTreeMap::new();
        for ((part, _), parts) in &self.parts {
            let of_role = longest.entry(role(*part)).or_default();
            *of_role = parts.window().max(*of_role);
        }
        let all = longest.values().copied().max().unwrap_or(0);
        for ((part, _), parts) in &mut self.parts {
            parts.idle += longest.get(&role(*part)).map_or(0, |of_role| all - of_role);
        }
    }

    fn insert(&mut self, place: PartDevice, parts: Parts, window: &PartWindow) {
        self.parts.insert(place, parts);
        Arc::make_mut(&mut self.windows).insert(place, window.spans.clone());
    }
}

/// The time of some devices in some steps, and the factors of their efficiency.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Account {
    /// Devices (on CPU-only ranks: hosts).
    pub(crate) devices: u32,
    pub(crate) steps: u32,
    /// Sum over the steps of the longest window of the devices, ns.
    pub(crate) time: Ns,
    /// Sums over devices and steps; they add up to `devices * time`.
    pub(crate) parts: Parts,
    /// The largest compute time of a device over all steps, ns.
    pub(crate) most_compute: Ns,
    pub factors: Option<Factors>,
}

/// Factors of the efficiency, each in (0, 1]; `parallel` is the product of the other three.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Factors {
    pub parallel: f64,
    pub load_balance: f64,
    pub communication: f64,
    pub orchestration: f64,
}

/// Factors of the efficiency by replay, each in (0, 1]; `parallel` is the product of the other four.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ReplayFactors {
    pub(crate) parallel: f64,
    pub(crate) load_balance: f64,
    pub(crate) serialization: f64,
    pub(crate) orchestration: f64,
    pub(crate) transfer: f64,
}

impl Account {
    /// The account of the devices that `keep` selects. `None` if there is none, or it has no time.
    pub fn new(steps: &[StepAccount], keep: impl Fn(PartDevice) -> bool) -> Option<Account> {
        let mut by_place: BTreeMap<PartDevice, Parts> = BTreeMap::new();
        let mut time = 0;
        for step in steps {
            let kept = || step.parts.iter().filter(|(place, _)| keep(**place));
            let longest = kept().map(|(_, p)| p.window()).max()?;
            time += longest;
            for (place, p) in kept() {
                let sum = by_place.entry(*place).or_default();
                *sum = *sum + Parts { finished_early: longest - p.window(), ..*p };
            }
        }
        let devices = u32::try_from(by_place.len()).ok()?;
        let parts: Parts = by_place.values().copied().sum();
        if time == 0 {
            return None;
        }
        Some(Account {
            devices,
            steps: steps.len() as u32,
            time,
            parts,
            most_compute: by_place.values().map(|p| p.compute).max().unwrap_or(0),
            factors: factors(&by_place, parts, time),
        })
    }

    /// The factors by a replay of the job in the same steps.
    pub(crate) fn replay_factors(&self, limits: ReplayLimits) -> Option<ReplayFactors> {
        let ReplayLimits { replayed, instant_network, instant_hosts } = limits.at_least(self.most_compute);
        let (n, compute) = (Ns::from(self.devices), self.parts.compute);
        Some(ReplayFactors {
            parallel: ratio(compute, n * replayed)?,
            load_balance: ratio(compute, n * self.most_compute)?,
            serialization: ratio(self.most_compute, instant_hosts)?,
            orchestration: ratio(instant_hosts, instant_network)?,
            transfer: ratio(instant_network, replayed)?,
        })
        .filter(|_| compute > 0)
    }
}

fn factors(by_place: &BTreeMap<PartDevice, Parts>, sum: Parts, time: Ns) -> Option<Factors> {
    let n = by_place.len() as Ns;
    let most = |of: fn(&Parts) -> Ns| by_place.values().map(of).max().unwrap_or(0);
    let (compute, busy) = (most(|p| p.compute), most(Parts::busy));
    Some(Factors {
        parallel: ratio(sum.compute, n * time)?,
        load_balance: ratio(sum.compute, n * compute)?,
        communication: ratio(compute, busy)?,
        orchestration: ratio(busy, time)?,
    })
    .filter(|_| compute > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parts(of: [Ns; 6]) -> Parts {
        let [compute, waiting, transfer, unmatched, copies, idle] = of;
        Parts { compute, waiting, transfer, unmatched, copies, idle, ..Parts::default() }
    }

    #[test]
    fn the_factors_of_two_ranks_are_those_computed_by_hand() {
        // Rank 0 works 60 of 100 and waits 20; rank 1 works 80 of 90.
        let of = BTreeMap::from([
            ((0, Some(0)), parts([60, 20, 5, 0, 5, 10])),
            ((1, Some(0)), parts([80, 0, 5, 0, 0, 5])),
        ]);
        let account = Account::new(&[StepAccount { parts: of, ..StepAccount::default() }], |_| true).unwrap();
        assert_eq!((account.devices, account.time, account.parts.finished_early), (2, 100, 10));
        let f = account.factors.unwrap();
        assert_eq!((f.parallel, f.load_balance), (0.7, 0.875));
        assert_eq!((f.communication, f.orchestration), (80.0 / 90.0, 0.9));
    }

    proptest! {
        #[test]
        fn factors_by_replay_are_at_most_one_and_multiply_exactly(
            compute in prop::collection::vec(1i64..1000, 1..5),
            times in prop::array::uniform3(0i64..2000),
        ) {
            let of = |u: i64| parts([u, 0, 0, 0, 0, 1000 - u]);
            let parts = (0..).zip(&compute).map(|(rank, u)| ((rank, None), of(*u))).collect();
            let account = Account::new(&[StepAccount { parts, ..StepAccount::default() }], |_| true).unwrap();
            let [replayed, instant_network, instant_hosts] = times;
            let f = account.replay_factors(ReplayLimits { replayed, instant_network, instant_hosts }).unwrap();
            let all = [f.load_balance, f.serialization, f.orchestration, f.transfer];
            prop_assert!((all.iter().product::<f64>() - f.parallel).abs() < 1e-12);
            prop_assert!(all.iter().all(|f| 0.0 < *f && *f <= 1.0));
        }

        #[test]
        fn parts_add_up_to_all_time_and_factors_to_their_product(
            steps in prop::collection::vec(prop::collection::vec(prop::array::uniform6(0i64..1000), 3), 1..5),
        ) {
            let step = |of: Vec<[Ns; 6]>| StepAccount {
                parts: (0..).zip(of).map(|(rank, of)| ((rank, None), parts(of))).collect(),
                ..StepAccount::default()
            };
            let steps: Vec<StepAccount> = steps.into_iter().map(step).collect();
            if let Some(a) = Account::new(&steps, |_| true) {
                let p = a.parts;
                prop_assert_eq!(p.window() + p.finished_early, Ns::from(a.devices) * a.time);
                if let Some(f) = a.factors {
                    prop_assert!((f.load_balance * f.communication * f.orchestration - f.parallel).abs() < 1e-12);
                    for factor in [f.parallel, f.load_balance, f.communication, f.orchestration] {
                        prop_assert!(factor > 0.0 && factor <= 1.0);
                    }
                }
            }
        }
    }
}

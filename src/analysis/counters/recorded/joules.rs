//! Energy of a device over sets of time, and of activities by their share of it.

use super::scopes::{CounterScope, PeriodOfStep, ScopedTime};
use super::words::covers;
use hashbrown::HashMap;
use hta_base::order_statistics::median;
use hta_base::units::{Ns, Span};
use hta_trace::device::DeviceWork;
use hta_trace::hardware_counters::{PowerCurve, RecordedCounter, mean_over};
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::StrId;
use hta_trace::timeline::edges;

/// The power of one device over time.
pub(super) struct DevicePower<'a> {
    counter: &'a RecordedCounter,
    curve: Result<PowerCurve, &'static str>,
}

/// Energy of a set of time.
#[derive(Debug, Clone)]
pub(super) struct JudgedEnergy {
    pub(super) pj: Option<i128>,
    pub(super) covered: Ns,
    pub(super) window: Ns,
    pub(super) reason: Option<String>,
}

impl JudgedEnergy {
    pub(super) fn joules(&self) -> Option<f64> {
        self.pj.map(|pj| pj as f64 / 1e12)
    }
}

impl<'a> DevicePower<'a> {
    pub(super) fn new(counter: &'a RecordedCounter) -> Self {
        let curve = match (counter.is_ambiguous, counter.samples.len()) {
            (true, _) => Err("two series share the name"),
            (_, ..2) => Err("one sample of power"),
            _ => PowerCurve::new(&counter.samples).ok_or("samples of power that are no power"),
        };
        Self { counter, curve }
    }

    /// Energy in a set of time. Without samples for nine tenths of it there is none.
    pub(super) fn of(&self, set: &ScopedTime) -> JudgedEnergy {
        self.judged(set, |curve| curve.energy(set.time.spans().iter().copied()))
    }

    fn judged(&self, set: &ScopedTime, energy: impl FnOnce(&PowerCurve) -> i128) -> JudgedEnergy {
        let mean = mean_over(&self.counter.cells, &set.time);
        let (covered, window) = (mean.covered, mean.window);
        let is_covered = covered > 0 && 10 * i128::from(covered) >= 9 * i128::from(window);
        let (pj, reason) = match &self.curve {
            Err(reason) => (None, Some((*reason).to_string())),
            Ok(_) if !is_covered => (None, Some(covers(covered, window))),
            Ok(curve) => (Some(energy(curve)), None),
        };
        JudgedEnergy { pj, covered, window, reason }
    }

    /// Energy of an activity by its share of time.
    pub(super) fn of_share(&self, set: &ScopedTime, pj: i128) -> JudgedEnergy {
        self.judged(set, |_| pj)
    }

    /// Whether samples are dense enough to divide power among activities: ten of them in a usual step.
    pub(super) fn is_divisible(&self, steps: &[PeriodOfStep]) -> bool {
        let usual = median(&mut steps.iter().map(|s| s.period.len()).collect::<Vec<Ns>>());
        let dense = |(period, step): (Ns, Ns)| 10 * i128::from(period) <= i128::from(step);
        self.counter.period.zip(usual).is_some_and(dense)
    }

    /// Energy of each name of activities: the power of an instant is divided equally among the activities
    /// that run. What is left of a division goes to those that started first, so that all names add up to
    /// the energy of busy time.
    pub(super) fn shares(&self, trace: &RankTrace, work: &DeviceWork) -> HashMap<StrId, i128> {
        let Ok(curve) = &self.curve else { return HashMap::new() };
        let own = work.activities.iter().filter_map(|i| trace.activities.get(*i as usize));
        shares(curve, own.map(|a| (a.span, a.name)))
    }
}

fn shares(curve: &PowerCurve, activities: impl Iterator<Item = (Span, StrId)>) -> HashMap<StrId, i128> {
    let mut of_name: HashMap<StrId, i128> = HashMap::new();
    let numbered = (0u32..).zip(activities).map(|(i, (span, name))| (span, (i, name)));
    let mut running: Vec<(u32, StrId)> = Vec::new();
    let mut until = 0;
    for (t, activity, step) in edges(numbered) {
        let now = curve.until(t);
        if let Some(n) = i128::try_from(running.len()).ok().filter(|n| *n > 0) {
            let (each, rest) = ((now - until).div_euclid(n), (now - until).rem_euclid(n));
            for (i, (_, name)) in (0..).zip(&running) {
                *of_name.entry(*name).or_default() += each + i128::from(i < rest);
            }
        }
        until = now;
        match step {
            1 => running.push(activity),
            _ => running.retain(|r| *r != activity),
        }
    }
    of_name
}

/// Scopes whose energy is the integral of power over them.
pub(super) fn has_energy(scope: CounterScope) -> bool {
    !matches!(scope, CounterScope::Collective | CounterScope::KernelName)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hta_trace::interval::Union;
    use proptest::prelude::*;

    /// ```text
    ///   W 1 for 30 ns, so 1000 pJ a ns
    ///   a   [=========)            0..10
    ///   b        [====)            5..10
    ///   a               [==)      20..23
    /// ```
    #[test]
    fn power_is_divided_equally_among_what_runs() {
        let curve = PowerCurve::new(&[(0, 1.0), (30, 1.0)]).unwrap();
        let (a, b) = (StrId(0), StrId(1));
        let runs = [(Span::new(0, 10), a), (Span::new(5, 10), b), (Span::new(20, 23), a)];
        let of = shares(&curve, runs.into_iter());
        assert_eq!((of[&a], of[&b]), (5000 + 2500 + 3000, 2500));
    }

    proptest! {
        #[test]
        fn shares_add_up_to_the_energy_of_busy_time(
            runs in prop::collection::vec((0i64..50, 0i64..12, 0u32..3), 0..12),
            power in prop::collection::vec(0u32..900, 2..9),
        ) {
            let samples: Vec<(Ns, f64)> =
                (0i64..).zip(&power).map(|(i, mw)| (7 * i, f64::from(*mw) / 1000.0)).collect();
            let curve = PowerCurve::new(&samples).unwrap();
            let runs: Vec<_> = runs.iter().map(|(s, d, n)| (Span::new(*s, s + d), StrId(*n))).collect();
            let busy = Union::new(runs.iter().map(|r| r.0));
            let of = shares(&curve, runs.iter().copied());
            prop_assert_eq!(of.values().sum::<i128>(), curve.energy(busy.spans().iter().copied()));
        }
    }
}

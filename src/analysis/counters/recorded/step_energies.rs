//! The energy of each step of each device, found once for the table `energy` and for the diagnosis.

use super::joules::{DevicePower, JudgedEnergy};
use super::scopes::{ScopedTime, recorded, steps};
use hta_trace::hardware_counters::{HardwareCounter, RecordedCounter};
use hta_trace::rank_trace::RankTrace;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The energies of the steps of one rank.
pub struct StepEnergies {
    by_device: BTreeMap<i64, BTreeMap<u32, JudgedEnergy>>,
}

impl StepEnergies {
    /// The shared instance of a rank.
    pub fn of(trace: &RankTrace) -> Arc<Self> {
        trace.shared(Self::new)
    }

    fn new(trace: &RankTrace) -> Self {
        let energies = |(device, counters): (i64, Vec<&RecordedCounter>)| {
            let power = DevicePower::of_device(&counters)?;
            let work = trace.devices.iter().find(|w| w.is_gpu && w.device == Some(device));
            let steps = steps(trace, recorded(trace, work, &counters));
            let of = steps.iter().map(|s| (s.index, power.of(&ScopedTime::of_step(s)))).collect();
            Some((device, of))
        };
        Self { by_device: by_device(trace).into_iter().filter_map(energies).collect() }
    }

    /// The energy of a step; `None` if no power of the device is recorded.
    pub(super) fn judged(&self, device: i64, step: u32) -> Option<&JudgedEnergy> {
        self.by_device.get(&device)?.get(&step)
    }

    /// The same in pJ; `None` if it is not known.
    pub fn pj(&self, device: i64, step: u32) -> Option<i128> {
        self.judged(device, step)?.pj
    }
}

/// The counters of each device.
pub(super) fn by_device(trace: &RankTrace) -> BTreeMap<i64, Vec<&RecordedCounter>> {
    let mut of_device: BTreeMap<i64, Vec<&RecordedCounter>> = BTreeMap::new();
    for counter in &trace.counters.tracks {
        of_device.entry(counter.device).or_default().push(counter);
    }
    of_device
}

impl<'a> DevicePower<'a> {
    /// The power of a device with these counters.
    pub(super) fn of_device(counters: &[&'a RecordedCounter]) -> Option<Self> {
        counters.iter().find(|c| c.kind == HardwareCounter::Power).map(|power| Self::new(power))
    }
}

//! What was recorded of the clocks of all devices of a job.

use crate::clocks::kernel_lengths::KernelsSay;
use crate::clocks::reason::{LowState, SeenBeside, StateTimes};
use crate::clocks::tables::{DeviceClocks, StepClocks};
use hashbrown::HashMap;
use hta_analysis::api::{Partial, rows};
use hta_analysis::efficiency::account::PartDevice;
use hta_base::order_statistics::median;
use hta_base::units::{Ns, fmt_joules};
use hta_job::Job;
use hta_job::delay::StepKey;
use std::collections::{BTreeMap, BTreeSet};

/// How the clock of a device falls.
#[derive(Debug, Clone)]
pub(crate) struct DeviceFall {
    pub(crate) is_steady: bool,
    pub(crate) since: Option<Ns>,
    /// Median of the clocks that are not low, and of the low ones, Hz.
    pub(crate) clocks: [i64; 2],
    /// Low time, and all time in which the device works, ns.
    pub(crate) low: Ns,
    pub(crate) busy: Ns,
    pub(super) kernels: KernelsSay,
    pub(crate) kernel: String,
    /// Median lengths of the kernel at these clocks, ns.
    pub(crate) lengths: [Ns; 2],
    pub(super) state: LowState,
}

impl DeviceFall {
    /// Whether kernels take longer by what the clock is lower.
    pub(crate) fn is_shown(&self) -> bool {
        self.kernels == KernelsSay::Follow
    }

    /// Whether it may cost time: a far fall that kernels do not clear, or a small one that they show.
    pub(crate) fn is_told(&self) -> bool {
        match self.kernels {
            KernelsSay::Follow => true,
            KernelsSay::Differ => false,
            KernelsSay::Unknown => !self.is_steady,
        }
    }

    pub(crate) fn seen(&self) -> Option<SeenBeside> {
        self.state.seen()
    }

    pub(crate) fn is_state_recorded(&self) -> bool {
        self.state.is_recorded()
    }
}

/// A device while it works in one step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StepClock {
    pub(super) clock: Option<i64>,
    pub(super) state: LowState,
    pub(crate) busy: Ns,
    pub(crate) low: Ns,
    /// What would be saved at the highest clock, at most, ns.
    pub(crate) saved: Ns,
    /// Energy of a whole step, pJ; not of one that is cut.
    energy: Option<i64>,
}

impl StepClock {
    /// Whether the clock is low for most of the step.
    pub(crate) fn is_low(&self) -> bool {
        self.busy > 0 && self.low * 2 >= self.busy
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct RecordedClocks {
    pub(super) models: BTreeMap<PartDevice, String>,
    /// Whether no file names its devices, so that those are taken for one model whose memory has one clock.
    pub(crate) is_model_assumed: bool,
    /// Devices whose clock falls.
    pub(crate) falls: BTreeMap<PartDevice, DeviceFall>,
    /// By device and step; without steps the recorded span.
    pub(crate) steps: BTreeMap<PartDevice, BTreeMap<Option<StepKey>, StepClock>>,
}

/// Share of the devices whose clocks fall of which kernels must show it, percent.
const SHOWN_PCT: usize = 75;

/// Whether the kernels of enough devices, [`SHOWN_PCT`] of all whose clocks fall, show that the fall costs
/// time.
pub(crate) fn is_shown_by(shown: usize, all: usize) -> bool {
    shown > 0 && shown * 100 >= all * SHOWN_PCT
}

/// Whether the clocks of most of so many devices fall, as the kernels of most of these say, given those whose
/// clocks fall.
pub(crate) fn do_most_fall<'a>(falls: impl Iterator<Item = &'a DeviceFall> + Clone, places: usize) -> bool {
    let told = falls.clone().filter(|fall| fall.is_told()).count();
    let all = falls.count();
    all * 2 > places && is_shown_by(told, all)
}

impl RecordedClocks {
    /// The name of a device.
    pub(crate) fn model(&self, place: PartDevice) -> Option<&str> {
        self.models.get(&place).map(String::as_str)
    }

    /// The median energy of a step over devices and whole steps, in words; `None` if none is known.
    pub(crate) fn step_energy(
        &self,
        places: impl IntoIterator<Item = PartDevice>,
        counts: impl Fn(Option<StepKey>, &StepClock) -> bool,
    ) -> Option<String> {
        let of_places = places.into_iter().filter_map(|place| self.steps.get(&place)).flatten();
        let energies = of_places.filter(|(key, step)| counts(**key, step)).filter_map(|(_, s)| s.energy);
        median(&mut energies.collect::<Vec<i64>>()).map(|pj| fmt_joules(pj as f64 / 1e12))
    }

    pub(crate) fn new(job: &Job, partials: &[Partial]) -> Self {
        let parts: HashMap<u32, u32> = (0u32..).zip(&job.parts).map(|(i, p)| (p.rank, i)).collect();
        let mut out = Self::default();
        let mut nameless: BTreeMap<PartDevice, String> = BTreeMap::new();
        let mut tops: BTreeMap<PartDevice, [Option<i64>; 2]> = BTreeMap::new();
        for row in rows::<DeviceClocks>(partials) {
            let Some(part) = parts.get(&row.rank) else { continue };
            let place = (*part, row.device);
            let top = [row.top_power, row.top_temperature];
            tops.insert(place, top);
            if row.is_nameless {
                nameless.insert(place, row.memory_clock.map_or(String::new(), |clock| clock.to_string()));
            }
            out.models.extend(row.model.map(|model| (place, model.to_string())));
            let Some((high, low)) = row.high_clock.zip(row.low_clock).filter(|_| row.low_ns > 0) else {
                continue;
            };
            let state = LowState {
                times: StateTimes {
                    power: row.power_ns,
                    plateau: row.plateau_ns,
                    temperature: row.temperature_ns,
                    hot: row.hot_ns,
                },
                top_power: top[0],
                top_temperature: top[1],
                own: [None, row.low_temperature],
                usual: [None, row.high_temperature],
            };
            let fall = DeviceFall {
                is_steady: row.is_steady,
                since: row.since_ns,
                clocks: [high, low],
                low: row.low_ns,
                busy: row.busy_ns,
                kernels: KernelsSay::named(row.kernels),
                kernel: row.kernel.to_string(),
                lengths: [row.kernel_high_ns, row.kernel_low_ns],
                state,
            };
            out.falls.insert(place, fall);
        }
        // All files of the job are of this kind. Files of two recorders may be of two clusters.
        let of_parts: BTreeSet<u32> = nameless.keys().map(|(part, _)| *part).collect();
        if out.models.is_empty() && of_parts.len() == job.parts.len() {
            (out.models, out.is_model_assumed) = (nameless, true);
        }
        for row in rows::<StepClocks>(partials) {
            let Some(part) = parts.get(&row.rank) else { continue };
            let place = (*part, row.device);
            let key = row.step.filter(|_| row.scope != "span").map(|i| StepKey::new(i, row.step_label));
            let [top_power, top_temperature] = tops.get(&place).copied().unwrap_or_default();
            let state = LowState {
                times: StateTimes {
                    power: row.power_ns,
                    plateau: row.plateau_ns,
                    temperature: row.temperature_ns,
                    hot: row.hot_ns,
                },
                top_power,
                top_temperature,
                own: [row.power, row.temperature],
                usual: [None, None],
            };
            let step = StepClock {
                clock: row.clock,
                state,
                busy: row.busy_ns,
                low: row.low_ns,
                saved: row.saved_ns,
                energy: row.energy_pj,
            };
            out.steps.entry(place).or_default().insert(key, step);
        }
        out
    }
}

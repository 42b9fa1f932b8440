//! Devices whose clock is lower than that of the others, in the same steps of the same job, and whose kernels
//! take longer by that.

use crate::clocks::kernel_lengths::follows;
use crate::clocks::reason::{LowState, SeenBeside};
use crate::clocks::recorded::{RecordedClocks, StepClock};
use crate::clocks::reference::{LOWER_MILLE, is_below, references};
use hta_analysis::efficiency::account::{DeviceWindows, PartDevice, steps};
use hta_base::order_statistics::median;
use hta_base::units::Ns;
use hta_job::delay::StepKey;
use hta_job::{Job, LocalEntry, TimeUse};
use hta_trace::strings::StrId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Fewest steps.
const STEPS: usize = 3;
/// Steps of a short job. Each doubling asks for one more step in which a device is lower.
const SHORT_JOB: usize = 16;
/// Largest number of other devices whose kernels are compared.
const COMPARED: usize = 16;

/// A device that is slower than the others because of its clock.
#[derive(Debug, Clone)]
pub(crate) struct SlowerClock {
    pub(crate) place: PartDevice,
    pub(crate) steps: BTreeSet<StepKey>,
    /// The devices of its model that are not slower, of which at most some are compared.
    peers: Arc<[PartDevice]>,
    /// Median of its clocks in these steps, and of those of the others, Hz.
    pub(crate) own: i64,
    pub(crate) others: i64,
    /// How many times as long its kernels take that the clock bounds.
    pub(crate) longer: f64,
    /// These kernels, by name and launch: their mean lengths on the others and on it, ns.
    bounded: BTreeMap<(StrId, StrId), [Ns; 2]>,
    /// Whether most devices of its model are slower than the fastest.
    pub(crate) are_most: bool,
    pub(crate) seen: Option<SeenBeside>,
    pub(crate) is_state_recorded: bool,
}

impl SlowerClock {
    /// What some time of the device would be less at the clock of the others, ns.
    pub(crate) fn excess(&self, of: &LocalEntry) -> Ns {
        let lengths = self.bounded.get(&(of.name, of.detail)).filter(|_| of.what == TimeUse::Kernel);
        lengths.map_or(0, |[usual, own]| {
            (i128::from(of.time) * i128::from(own - usual) / i128::from((*own).max(1))) as Ns
        })
    }
}

/// All devices with which some are compared.
pub(crate) fn peers_of(slower: &[&SlowerClock]) -> BTreeSet<PartDevice> {
    let mut all: Vec<&Arc<[PartDevice]>> = Vec::new();
    for s in slower {
        if !all.iter().any(|peers| Arc::ptr_eq(peers, &s.peers)) {
            all.push(&s.peers);
        }
    }
    all.into_iter().flat_map(|peers| peers.iter()).copied().collect()
}

/// A step in which a device is slower: what is known of the device in it, and the clock of its peers, Hz.
type ComparedStep = (StepKey, StepClock, i64);

/// The devices of a model that are not slower. All slower ones of the model are compared with them.
struct ModelPeers {
    peers: Arc<[PartDevice]>,
    /// By step the lower median of their clocks, Hz.
    clocks: BTreeMap<StepKey, i64>,
    /// How many devices the model has, with the slower ones.
    devices: usize,
}

fn models_of<'a>(
    clocks: &'a RecordedClocks,
    lower: &BTreeSet<PartDevice>,
) -> BTreeMap<Option<&'a str>, ModelPeers> {
    let mut by_model: BTreeMap<Option<&str>, Vec<PartDevice>> = BTreeMap::new();
    for place in clocks.steps.keys() {
        by_model.entry(clocks.model(*place)).or_default().push(*place);
    }
    let of = |(model, all): (Option<&'a str>, Vec<PartDevice>)| {
        let devices = all.len();
        let peers: Arc<[PartDevice]> = all.into_iter().filter(|place| !lower.contains(place)).collect();
        let mut by_step: BTreeMap<StepKey, Vec<i64>> = BTreeMap::new();
        for (key, step) in peers.iter().filter_map(|place| clocks.steps.get(place)).flatten() {
            if let Some((key, clock)) = key.zip(step.clock) {
                by_step.entry(key).or_default().push(clock);
            }
        }
        let middle = |(key, clocks): (StepKey, Vec<i64>)| Some((key, median_of(clocks)?));
        (model, ModelPeers { peers, clocks: by_step.into_iter().filter_map(middle).collect(), devices })
    };
    by_model.into_iter().map(of).collect()
}

pub(super) fn find(job: &Job, clocks: &RecordedClocks) -> Vec<SlowerClock> {
    let lower = lower_devices(clocks);
    if lower.is_empty() {
        return Vec::new();
    }
    let windows: BTreeMap<StepKey, Arc<DeviceWindows>> =
        steps(job).iter().filter_map(|s| Some((s.key?, Arc::clone(&s.windows)))).collect();
    let models = models_of(clocks, &lower);
    let mut usual = PeerKernels { job, windows: &windows, last: None };
    let slower = |place: &PartDevice| {
        let ModelPeers { peers, clocks: of_peers, .. } = models.get(&clocks.model(*place))?;
        let of = &below(clocks, *place, of_peers);
        if of.len() < STEPS {
            return None;
        }
        let own = median_of(of.iter().filter_map(|(_, step, _)| step.clock))?;
        let others = median_of(of.iter().map(|(.., others)| *others))?;
        let keys: BTreeSet<StepKey> = of.iter().map(|(key, ..)| *key).collect();
        let mine = kernels(job, &windows, &keys, *place);
        let BoundedKernels { longer, bounded } =
            BoundedKernels::of(&mine, usual.of(peers, &keys), [others, own])?;
        let state = state(clocks, of, compared(peers));
        Some(SlowerClock {
            place: *place,
            steps: keys,
            peers: Arc::clone(peers),
            own,
            others,
            longer,
            bounded,
            are_most: false,
            seen: state.seen(),
            is_state_recorded: state.is_recorded(),
        })
    };
    let mut found: Vec<SlowerClock> = lower.iter().filter_map(slower).collect();
    let mut slow: BTreeMap<Option<&str>, usize> = BTreeMap::new();
    for s in &found {
        *slow.entry(clocks.model(s.place)).or_default() += 1;
    }
    for s in &mut found {
        let model = clocks.model(s.place);
        let all = models.get(&model).map_or(0, |m| m.devices);
        s.are_most = slow.get(&model).is_some_and(|slow| slow * 2 > all);
    }
    found
}

/// Those whose kernels and states are compared.
fn compared(peers: &[PartDevice]) -> &[PartDevice] {
    &peers[..peers.len().min(COMPARED)]
}

fn median_of(values: impl IntoIterator<Item = i64>) -> Option<i64> {
    median(&mut values.into_iter().collect::<Vec<_>>())
}

/// The steps in which a slower device is below the median of those that are not. At a few samples a step the
/// distance of groups varies around its limit, which says nothing about single steps.
fn below(clocks: &RecordedClocks, place: PartDevice, of_peers: &BTreeMap<StepKey, i64>) -> Vec<ComparedStep> {
    let compared = |(key, step): (&Option<StepKey>, &StepClock)| {
        let others = *of_peers.get(key.as_ref()?)?;
        is_below(step.clock?, others, LOWER_MILLE).then_some(((*key)?, *step, others))
    };
    clocks.steps.get(&place).into_iter().flatten().filter_map(compared).collect()
}

/// Devices whose clock is below what devices of their model have, for longer than by chance.
fn lower_devices(clocks: &RecordedClocks) -> BTreeSet<PartDevice> {
    let mut by_step: BTreeMap<(StepKey, &str), Vec<(i64, PartDevice)>> = BTreeMap::new();
    for (place, steps) in &clocks.steps {
        let Some(model) = clocks.models.get(place) else { continue };
        for (key, step) in steps {
            if let Some((key, clock)) = key.zip(step.clock) {
                by_step.entry((key, model)).or_default().push((clock, *place));
            }
        }
    }
    // Of each device whether it is lower, by step in order.
    let mut lower: BTreeMap<PartDevice, Vec<bool>> = BTreeMap::new();
    for mut all in by_step.into_values() {
        all.sort_unstable();
        let sorted: Vec<i64> = all.iter().map(|(clock, _)| *clock).collect();
        for ((own, place), other) in all.into_iter().zip(references(&sorted)) {
            let is_lower = other.is_some_and(|other| is_below(own, other, LOWER_MILLE));
            lower.entry(place).or_default().push(is_lower);
        }
    }
    lower.into_iter().filter(|(_, steps)| is_lasting(steps)).map(|(place, _)| place).collect()
}

/// Whether there is a stretch of steps in which a device is lower more often than not, by [`STEPS`] steps
/// and more. With noise each device is lower in some steps of a long job, here and there, and the more
/// steps there are, the more of these follow each other by chance: as in rows of heads of a coin, one more
/// for twice as many.
///
/// ```text
/// 200 steps, 6 needed   ..v....v.v..........v....v...   noise: 1
///                       ..v....v.v....vvvvv.vvvvvvvvv   lower from a step on: 13
/// ```
fn is_lasting(is_lower: &[bool]) -> bool {
    let doublings = (is_lower.len() / SHORT_JOB).max(1).ilog2() as usize;
    let (mut most, mut so_far) = (0usize, 0usize);
    for lower in is_lower {
        so_far = if *lower { so_far + 1 } else { so_far.saturating_sub(1) };
        most = most.max(so_far);
    }
    most >= STEPS + doublings
}

/// Power and temperature of a device in its slower steps, to compare with those of the others then.
fn state(clocks: &RecordedClocks, of: &[ComparedStep], peers: &[PartDevice]) -> LowState {
    let own: Vec<[Option<i64>; 2]> = of.iter().map(|(_, step, _)| step.state.own).collect();
    let at = |place: &PartDevice, key: StepKey| Some(clocks.steps.get(place)?.get(&Some(key))?.state.own);
    let of_peers = |(key, ..): &ComparedStep| peers.iter().filter_map(|p| at(p, *key)).collect::<Vec<_>>();
    let usual: Vec<[Option<i64>; 2]> = of.iter().flat_map(of_peers).collect();
    let median_at = |i: usize, all: &[[Option<i64>; 2]]| median_of(all.iter().filter_map(|own| own[i]));
    let medians = |all: &[[Option<i64>; 2]]| [median_at(0, all), median_at(1, all)];
    LowState {
        times: of.iter().map(|(_, step, _)| step.state.times).sum(),
        own: medians(&own),
        usual: medians(&usual),
        ..of.first().map_or_else(LowState::default, |(_, step, _)| step.state)
    }
}

/// Time and number of compute kernels, by name and launch.
type KernelSums = BTreeMap<(StrId, StrId), (Ns, u64)>;

/// The kernels of the devices that slower ones are compared with.
struct PeerKernels<'a> {
    job: &'a Job,
    windows: &'a BTreeMap<StepKey, Arc<DeviceWindows>>,
    /// The last that were asked for: most slower devices of a model are slower in the same steps.
    last: Option<KernelsOfPeers>,
}

/// The kernels of each compared device of a model in some steps.
struct KernelsOfPeers {
    peers: Arc<[PartDevice]>,
    keys: BTreeSet<StepKey>,
    sums: Vec<KernelSums>,
}

impl PeerKernels<'_> {
    /// Those of each compared device in some steps.
    fn of(&mut self, peers: &Arc<[PartDevice]>, keys: &BTreeSet<StepKey>) -> &[KernelSums] {
        let last = self.last.take().filter(|last| Arc::ptr_eq(&last.peers, peers) && last.keys == *keys);
        let last = last.unwrap_or_else(|| KernelsOfPeers {
            peers: Arc::clone(peers),
            keys: keys.clone(),
            sums: compared(peers).iter().map(|p| kernels(self.job, self.windows, keys, *p)).collect(),
        });
        &self.last.insert(last).sums
    }
}

/// The kernels of a device that follow its clock.
struct BoundedKernels {
    longer: f64,
    bounded: BTreeMap<(StrId, StrId), [Ns; 2]>,
}

impl BoundedKernels {
    /// `None` unless they are at least half of what kernels take longer.
    fn of(mine: &KernelSums, theirs: &[KernelSums], [others, own]: [i64; 2]) -> Option<Self> {
        let mut bounded = BTreeMap::new();
        let (mut excess, mut following, mut times) = (0i128, 0i128, [0i128; 2]);
        for (kernel, (time, count)) in mine {
            let alike = theirs
                .iter()
                .filter_map(|t| t.get(kernel))
                .filter(|(_, n)| n.abs_diff(*count) * 10 <= *count);
            let Some(usual) = median_of(alike.filter_map(|(time, n)| mean(*time, *n))) else { continue };
            let Some(length) = mean(*time, *count) else { continue };
            let more = i128::from(length - usual) * i128::from(*count);
            excess += more.max(0);
            if follows([others, own], [usual, length]) {
                following += more;
                bounded.insert(*kernel, [usual, length]);
                times = [
                    times[0] + more + i128::from(usual) * i128::from(*count),
                    times[1] + i128::from(usual) * i128::from(*count),
                ];
            }
        }
        let is_most = following > 0 && following * 2 >= excess;
        is_most.then(|| Self { longer: times[0] as f64 / times[1] as f64, bounded })
    }
}

fn mean(time: Ns, count: u64) -> Option<Ns> {
    time.checked_div(i64::try_from(count).ok()?)
}

/// Time and number of the compute kernels of a device in some steps, by name and launch.
fn kernels(
    job: &Job,
    windows: &BTreeMap<StepKey, Arc<DeviceWindows>>,
    keys: &BTreeSet<StepKey>,
    (part, device): PartDevice,
) -> KernelSums {
    let mut out = KernelSums::new();
    let lane = job.parts.get(part as usize).and_then(|p| p.lanes.iter().find(|l| l.device == device));
    let Some(lane) = lane else { return out };
    let spans = keys.iter().filter_map(|key| windows.get(key)?.get(&(part, device))).flatten();
    let entries = spans.flat_map(|span| lane.local.entries_in(*span));
    for e in entries.filter(|e| e.what == TimeUse::Kernel && e.name != StrId::EMPTY) {
        let sum = out.entry((e.name, e.detail)).or_default();
        *sum = (sum.0 + e.time, sum.1 + u64::from(e.count));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `v`: a step in which the device is lower.
    fn lasts(steps: &str) -> bool {
        is_lasting(&steps.chars().map(|c| c == 'v').collect::<Vec<bool>>())
    }

    #[test]
    fn three_steps_of_a_short_job_are_lasting() {
        assert!(lasts("vvv") && lasts(".....vvv") && lasts("vvv.......") && lasts("vv.vv"));
        assert!(!lasts("vv") && !lasts("v.v.v") && !lasts(""));
    }

    #[test]
    fn a_device_that_is_lower_now_and_then_in_a_long_job_is_not_lower() {
        assert!(!lasts(&"vv........".repeat(20)), "a fifth of 200 steps");
        assert!(lasts(&"vv.v......".repeat(20).replace("......", "vvv..v")), "most of 200 steps");
        let late = |low: usize| ".........v".repeat(20 - low / 10) + &"v".repeat(low);
        assert!(lasts(&late(10)), "the last 10 of 200 steps");
        assert!(!lasts(&(".".repeat(195) + "vvvvv")) && lasts(&(".".repeat(194) + "vvvvvv")));
    }
}

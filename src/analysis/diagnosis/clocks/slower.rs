//! Devices whose clock is lower than that of the others, in the same steps of the same job, and whose kernels
//! take longer by that.

use crate::diagnosis::clocks::kernel_lengths::follows;
use crate::diagnosis::clocks::reason::{LowState, SeenBeside};
use crate::diagnosis::clocks::recorded::{RecordedClocks, StepClock};
use crate::diagnosis::clocks::reference::{LOWER_MILLE, is_below, references};
use crate::efficiency::account::{DeviceWindows, PartDevice, steps};
use crate::job::delay::StepKey;
use crate::job::{Job, LocalEntry, TimeUse};
use hta_base::order_statistics::median;
use hta_base::units::Ns;
use hta_trace::strings::StrId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Fewest steps.
const STEPS: usize = 3;
/// Largest number of other devices whose kernels are compared.
const COMPARED: usize = 16;

/// A device that is slower than the others because of its clock.
#[derive(Debug, Clone)]
pub(crate) struct SlowerClock {
    pub(crate) place: PartDevice,
    pub(crate) steps: BTreeSet<StepKey>,
    /// The devices of its model that are not slower, of which at most some are compared.
    pub(crate) peers: Vec<PartDevice>,
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

/// A device in a step: its place, what is known of it, and the clock of the others that it is compared with of its model.
type ComparedStep = (PartDevice, StepKey, StepClock, i64);

pub(super) fn find(job: &Job, clocks: &RecordedClocks) -> Vec<SlowerClock> {
    let mut lower: BTreeMap<PartDevice, usize> = BTreeMap::new();
    for place in lower_in_steps(clocks) {
        *lower.entry(place).or_default() += 1;
    }
    lower.retain(|_, steps| *steps >= STEPS);
    if lower.is_empty() {
        return Vec::new();
    }
    let windows: BTreeMap<StepKey, Arc<DeviceWindows>> =
        steps(job).iter().filter_map(|s| Some((s.key?, Arc::clone(&s.windows)))).collect();
    let slower = |place: &PartDevice| {
        let model = clocks.models.get(place);
        let alike =
            |p: &&PartDevice| *p != place && clocks.models.get(*p) == model && !lower.contains_key(*p);
        let peers: Vec<PartDevice> = clocks.steps.keys().filter(alike).copied().collect();
        let of = &below(clocks, *place, &peers);
        if of.len() < STEPS {
            return None;
        }
        let own = median_of(of.iter().filter_map(|(_, _, step, _)| step.clock))?;
        let others = median_of(of.iter().map(|(.., others)| *others))?;
        let keys: BTreeSet<StepKey> = of.iter().map(|(_, key, ..)| *key).collect();
        let compared = &peers[..peers.len().min(COMPARED)];
        let BoundedKernels { longer, bounded } =
            BoundedKernels::of(job, &windows, &keys, *place, compared, [others, own])?;
        let state = state(clocks, of, compared);
        let seen = state.seen();
        let is_state_recorded = state.is_recorded();
        Some(SlowerClock {
            place: *place,
            steps: keys,
            peers,
            own,
            others,
            longer,
            bounded,
            are_most: false,
            seen,
            is_state_recorded,
        })
    };
    let mut found: Vec<SlowerClock> = lower.keys().filter_map(slower).collect();
    let slow: BTreeSet<PartDevice> = found.iter().map(|s| s.place).collect();
    for s in &mut found {
        let model = clocks.models.get(&s.place);
        let alike = || clocks.steps.keys().filter(|p| clocks.models.get(p) == model);
        s.are_most = alike().filter(|p| slow.contains(p)).count() * 2 > alike().count();
    }
    found
}

fn median_of(values: impl IntoIterator<Item = i64>) -> Option<i64> {
    median(&mut values.into_iter().collect::<Vec<_>>())
}

/// The steps in which a slower device is below the median of those that are not. At a few samples a step the
/// distance of groups varies around its limit, which says nothing about single steps.
fn below(clocks: &RecordedClocks, place: PartDevice, peers: &[PartDevice]) -> Vec<ComparedStep> {
    let compared = |(key, step): (&Option<StepKey>, &StepClock)| {
        let of_peers = peers.iter().filter_map(|p| clocks.steps.get(p)?.get(key)?.clock);
        let (own, others) = (step.clock?, median_of(of_peers)?);
        is_below(own, others, LOWER_MILLE).then_some((place, (*key)?, *step, others))
    };
    clocks.steps.get(&place).into_iter().flatten().filter_map(compared).collect()
}

/// Every device once for each step in which its clock is below what devices of its model have then.
fn lower_in_steps(clocks: &RecordedClocks) -> Vec<PartDevice> {
    let mut by_step: BTreeMap<(StepKey, &str), Vec<(i64, PartDevice)>> = BTreeMap::new();
    for (place, steps) in &clocks.steps {
        let Some(model) = clocks.models.get(place) else { continue };
        for (key, step) in steps {
            if let Some((key, clock)) = key.zip(step.clock) {
                by_step.entry((key, model)).or_default().push((clock, *place));
            }
        }
    }
    let mut out = Vec::new();
    for mut all in by_step.into_values() {
        all.sort_unstable();
        let sorted: Vec<i64> = all.iter().map(|(clock, _)| *clock).collect();
        let compared = all.into_iter().zip(references(&sorted));
        let is_lower = |own, other: Option<i64>| other.is_some_and(|other| is_below(own, other, LOWER_MILLE));
        out.extend(compared.filter(|((own, _), other)| is_lower(*own, *other)).map(|((_, place), _)| place));
    }
    out
}

/// Power and temperature of a device in its slower steps, to compare with those of the others then.
fn state(clocks: &RecordedClocks, of: &[ComparedStep], peers: &[PartDevice]) -> LowState {
    let own: Vec<[Option<i64>; 2]> = of.iter().map(|(_, _, step, _)| step.state.own).collect();
    let at = |place: &PartDevice, key: StepKey| Some(clocks.steps.get(place)?.get(&Some(key))?.state.own);
    let of_peers = |(_, key, ..): &ComparedStep| peers.iter().filter_map(|p| at(p, *key)).collect::<Vec<_>>();
    let usual: Vec<[Option<i64>; 2]> = of.iter().flat_map(of_peers).collect();
    let median_at = |i: usize, all: &[[Option<i64>; 2]]| median_of(all.iter().filter_map(|own| own[i]));
    let medians = |all: &[[Option<i64>; 2]]| [median_at(0, all), median_at(1, all)];
    LowState {
        times: of.iter().map(|(_, _, step, _)| step.state.times).sum(),
        own: medians(&own),
        usual: medians(&usual),
        ..of.first().map_or_else(LowState::default, |(_, _, step, _)| step.state)
    }
}

/// The kernels of a device that follow its clock.
struct BoundedKernels {
    longer: f64,
    bounded: BTreeMap<(StrId, StrId), [Ns; 2]>,
}

impl BoundedKernels {
    /// `None` unless they are at least half of what kernels take longer.
    fn of(
        job: &Job,
        windows: &BTreeMap<StepKey, Arc<DeviceWindows>>,
        keys: &BTreeSet<StepKey>,
        place: PartDevice,
        peers: &[PartDevice],
        [others, own]: [i64; 2],
    ) -> Option<Self> {
        let mut bounded = BTreeMap::new();
        let mine = kernels(job, windows, keys, place);
        let theirs: Vec<_> = peers.iter().map(|p| kernels(job, windows, keys, *p)).collect();
        let (mut excess, mut following, mut times) = (0i128, 0i128, [0i128; 2]);
        for (kernel, (time, count)) in &mine {
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
) -> BTreeMap<(StrId, StrId), (Ns, u64)> {
    let mut out: BTreeMap<(StrId, StrId), (Ns, u64)> = BTreeMap::new();
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

//! Devices whose clock is lower than that of the others, in the same steps of the same job, and whose kernels
//! take longer by that.

use crate::diagnosis::clocks::kernel_lengths::follows;
use crate::diagnosis::clocks::reason::{LowState, SeenBeside};
use crate::diagnosis::clocks::recorded::{RecordedClocks, StepClock};
use crate::efficiency::account::{DeviceWindows, PartDevice, steps};
use crate::job::delay::StepKey;
use crate::job::{Job, TimeUse};
use hta_base::order_statistics::{median, median_of_others};
use hta_base::units::Ns;
use hta_trace::strings::StrId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Smallest distance to the others in a step, thousandths of their clock. Devices of a model differ by less
/// at the same work, and a rank that is 3 % slower is late by that.
const LOWER_MILLE: i128 = 25;
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
    pub(crate) seen: Option<SeenBeside>,
    pub(crate) is_state_recorded: bool,
}

/// A device in a step: its place, what is known of it, and the median clock of the others of its model.
type ComparedStep = (PartDevice, StepKey, StepClock, i64);

pub(super) fn find(job: &Job, clocks: &RecordedClocks) -> Vec<SlowerClock> {
    let mut lower: BTreeMap<PartDevice, Vec<ComparedStep>> = BTreeMap::new();
    for compared in compared(clocks) {
        let (place, _, step, others) = compared;
        let is_lower = step.clock.is_some_and(|own| {
            (i128::from(others) - i128::from(own)) * 1000 >= i128::from(others) * LOWER_MILLE
        });
        if is_lower {
            lower.entry(place).or_default().push(compared);
        }
    }
    lower.retain(|_, steps| steps.len() >= STEPS);
    if lower.is_empty() {
        return Vec::new();
    }
    let windows: BTreeMap<StepKey, Arc<DeviceWindows>> =
        steps(job).iter().filter_map(|s| Some((s.key?, Arc::clone(&s.windows)))).collect();
    let slower = |(place, of): (&PartDevice, &Vec<ComparedStep>)| {
        let own = median_of(of.iter().filter_map(|(_, _, step, _)| step.clock))?;
        let others = median_of(of.iter().map(|(.., others)| *others))?;
        let keys: BTreeSet<StepKey> = of.iter().map(|(_, key, ..)| *key).collect();
        let model = clocks.models.get(place);
        let alike =
            |p: &&PartDevice| *p != place && clocks.models.get(*p) == model && !lower.contains_key(*p);
        let peers: Vec<PartDevice> = clocks.steps.keys().filter(alike).copied().take(COMPARED).collect();
        let longer = longer(job, &windows, &keys, *place, &peers, [others, own])?;
        let state = state(clocks, of, &peers);
        let seen = state.seen();
        let is_state_recorded = state.is_recorded();
        Some(SlowerClock { place: *place, steps: keys, peers, own, others, longer, seen, is_state_recorded })
    };
    lower.iter().filter_map(slower).collect()
}

fn median_of(values: impl IntoIterator<Item = i64>) -> Option<i64> {
    median(&mut values.into_iter().collect::<Vec<_>>())
}

/// Every device in every step in which its clock and that of another one of its model are known.
fn compared(clocks: &RecordedClocks) -> Vec<ComparedStep> {
    type ClockAt = (i64, PartDevice, StepClock);
    let mut by_step: BTreeMap<(StepKey, &str), Vec<ClockAt>> = BTreeMap::new();
    for (place, steps) in &clocks.steps {
        let Some(model) = clocks.models.get(place) else { continue };
        for (key, step) in steps {
            if let Some((key, clock)) = key.zip(step.clock) {
                by_step.entry((key, model)).or_default().push((clock, *place, *step));
            }
        }
    }
    let mut out = Vec::new();
    for ((key, _), mut all) in by_step {
        all.sort_by_key(|(clock, place, _)| (*clock, *place));
        for (i, (_, place, step)) in all.iter().enumerate() {
            let others = median_of_others(&all, i).map(|(clock, ..)| clock);
            out.extend(others.map(|others| (*place, key, *step, others)));
        }
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

/// How much longer the kernels take that follow the clock; `None` unless these are at least half of what
/// kernels take longer.
fn longer(
    job: &Job,
    windows: &BTreeMap<StepKey, Arc<DeviceWindows>>,
    keys: &BTreeSet<StepKey>,
    place: PartDevice,
    peers: &[PartDevice],
    [others, own]: [i64; 2],
) -> Option<f64> {
    let mine = kernels(job, windows, keys, place);
    let theirs: Vec<_> = peers.iter().map(|p| kernels(job, windows, keys, *p)).collect();
    let (mut excess, mut following, mut times) = (0i128, 0i128, [0i128; 2]);
    for (kernel, (time, count)) in &mine {
        let alike =
            theirs.iter().filter_map(|t| t.get(kernel)).filter(|(_, n)| n.abs_diff(*count) * 10 <= *count);
        let Some(usual) = median_of(alike.filter_map(|(time, n)| mean(*time, *n))) else { continue };
        let Some(length) = mean(*time, *count) else { continue };
        let more = i128::from(length - usual) * i128::from(*count);
        excess += more.max(0);
        if follows([others, own], [usual, length]) {
            following += more;
            times = [
                times[0] + more + i128::from(usual) * i128::from(*count),
                times[1] + i128::from(usual) * i128::from(*count),
            ];
        }
    }
    let is_most = following > 0 && following * 2 >= excess;
    is_most.then(|| times[0] as f64 / times[1] as f64)
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

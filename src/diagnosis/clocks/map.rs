//! The clocks of the devices of one rank.

use crate::clocks::fall::ClockFall;
use crate::clocks::held::{HeldValue, held_while, median_by_time, percentile_by_time, time_of, within};
use crate::clocks::kernel_lengths::{KernelLengths, KernelsSay};
use crate::clocks::reason::{HOT_WITHIN, PLATEAU_PCT, StateTimes};
use crate::clocks::tables::{DeviceClockRow, DeviceClocks, StepClockRow, StepClocks};
use crate::compute::ComputeKernel;
use hta_analysis::counters::recorded::StepEnergies;
use hta_base::units::Span;
use hta_facts::nameless_devices::is_pftrace_of_torch;
use hta_trace::device::DeviceWork;
use hta_trace::hardware_counters::{HardwareCounter, RecordedCounters};
use hta_trace::interval::Union;
use hta_trace::rank_trace::RankTrace;
use hta_trace::window::Window;
use std::cmp::Reverse;

/// Share of the busy time of a step in which its clock must be known, percent.
const KNOWN_PCT: i128 = 50;

/// Power and temperature of a device while it works.
struct WorkingState {
    power: Vec<HeldValue>,
    temperature: Vec<HeldValue>,
    top_power: Option<i64>,
    top_temperature: Option<i64>,
}

/// Power and temperature in a set of time.
struct StateOf {
    /// Median power, and median temperature.
    medians: [Option<i64>; 2],
    times: StateTimes,
}

impl WorkingState {
    fn new(counters: &RecordedCounters, device: i64, busy: &Union) -> Self {
        let held = |kind| counters.of(device, kind).map_or(Vec::new(), |c| held_while(c, busy));
        let (power, temperature) = (held(HardwareCounter::Power), held(HardwareCounter::Temperature));
        let (top_power, top_temperature) =
            (percentile_by_time(&power, 99), percentile_by_time(&temperature, 100));
        Self { power, temperature, top_power, top_temperature }
    }

    fn within(&self, set: &Union) -> StateOf {
        let (power, temperature) = (within(&self.power, set), within(&self.temperature, set));
        let at_plateau = |h: &&HeldValue| {
            self.top_power.is_some_and(|top| i128::from(h.value) * 100 >= i128::from(top) * PLATEAU_PCT)
        };
        let is_hot = |h: &&HeldValue| {
            self.top_temperature.is_some_and(|top| h.value >= top.saturating_sub(HOT_WITHIN))
        };
        StateOf {
            medians: [median_by_time(&power), median_by_time(&temperature)],
            times: StateTimes {
                power: time_of(&power),
                plateau: time_of(power.iter().filter(at_plateau)),
                temperature: time_of(&temperature),
                hot: time_of(temperature.iter().filter(is_hot)),
            },
        }
    }
}

/// The longest fall that kernels follow, or else the first, with what kernels say of it.
fn shown_fall(
    trace: &RankTrace,
    kernels: &[ComputeKernel],
    falls: Vec<ClockFall>,
) -> Option<(ClockFall, KernelLengths)> {
    let with_kernels = |fall| (KernelLengths::new(trace, kernels, &fall), fall);
    let mut all: Vec<(KernelLengths, ClockFall)> = falls.into_iter().map(with_kernels).collect();
    let long = |(lengths, fall): &(KernelLengths, ClockFall)| {
        if lengths.say == KernelsSay::Follow { time_of(&fall.low) } else { 0 }
    };
    all.sort_by_key(|of| Reverse(long(of)));
    all.into_iter().next().map(|(lengths, fall)| (fall, lengths))
}

/// Adds the clocks of a device. While metrics of performance are sampled, the profiler holds the clocks of
/// the device, so that they say nothing.
pub(crate) fn push(
    (devices, steps): (&mut DeviceClocks, &mut StepClocks),
    trace: &RankTrace,
    work: &DeviceWork,
    kernels: &[ComputeKernel],
    windows: &[Window],
) {
    let counters = &trace.counters;
    let Some(device) = work.device.filter(|_| !counters.sampled_metrics) else { return };
    let Some(clock) = counters.of(device, HardwareCounter::SmClock) else { return };
    let busy = &work.timeline.busy();
    let clocks = held_while(clock, busy);
    let (fall, lengths) = shown_fall(trace, kernels, ClockFall::all(&clocks, busy.len())).unzip();
    let (state, energies) = (WorkingState::new(counters, device, busy), StepEnergies::of(trace));
    let low = fall.as_ref().map(|fall| fall.spans().map(|spans| spans.and(busy)));
    let of_low = low.as_ref().map(|[low, high]| (state.within(low), state.within(high)));
    let shown = lengths.as_ref().and_then(|l| l.shown);
    let times = of_low.as_ref().map_or_else(StateTimes::default, |(low, _)| low.times);
    devices.push(DeviceClockRow {
        rank: trace.rank,
        device: work.device,
        model: trace.device_properties(work.device).map(|d| d.name.as_str()).filter(|name| !name.is_empty()),
        is_nameless: is_pftrace_of_torch(trace),
        memory_clock: counters
            .of(device, HardwareCounter::MemoryClock)
            .and_then(|c| median_by_time(&held_while(c, busy))),
        top_power: state.top_power,
        top_temperature: state.top_temperature,
        busy_ns: busy.len(),
        low_ns: fall.as_ref().map_or(0, |f| time_of(&f.low)),
        is_steady: fall.as_ref().is_some_and(|f| f.is_steady),
        since_ns: fall.as_ref().and_then(|f| Some(f.since()? - work.capture.start)),
        high_clock: fall.as_ref().and_then(|f| median_by_time(&f.high)),
        low_clock: fall.as_ref().and_then(|f| median_by_time(&f.low)),
        kernels: lengths.as_ref().map_or("", |l| l.say.name()),
        kernel: shown.map_or("", |(name, _)| trace.text(name)),
        kernel_high_ns: shown.map_or(0, |(_, [high, _])| high),
        kernel_low_ns: shown.map_or(0, |(_, [_, low])| low),
        power_ns: times.power,
        plateau_ns: times.plateau,
        temperature_ns: times.temperature,
        hot_ns: times.hot,
        low_temperature: of_low.as_ref().and_then(|(low, _)| low.medians[1]),
        high_temperature: of_low.as_ref().and_then(|(_, high)| high.medians[1]),
    });
    for w in windows {
        let inside =
            Union::new(w.parts().iter().flat_map(|part| busy.parts_in(*part)).collect::<Vec<Span>>());
        let of = within(&clocks, &inside);
        let is_known = i128::from(time_of(&of)) * 100 >= i128::from(inside.len()) * KNOWN_PCT;
        let at = state.within(&inside);
        let (mut low_ns, mut saved_ns) = (0, 0);
        if let (Some(fall), Some(lengths), Some([low, _])) = (&fall, &lengths, &low) {
            low_ns = low.and(&inside).len();
            saved_ns = fall.bound(&lengths.bound.and(&inside));
        }
        steps.push(StepClockRow {
            rank: trace.rank,
            device: work.device,
            scope: w.scope.name(),
            step: w.step,
            step_label: w.label,
            busy_ns: inside.len(),
            low_ns,
            saved_ns,
            clock: median_by_time(&of).filter(|_| is_known),
            power: at.medians[0],
            temperature: at.medians[1],
            power_ns: at.times.power,
            plateau_ns: at.times.plateau,
            temperature_ns: at.times.temperature,
            hot_ns: at.times.hot,
            energy_pj: w
                .step
                .filter(|_| w.is_partial != Some(true))
                .and_then(|step| i64::try_from(energies.pj(device, step)?).ok()),
        });
    }
}

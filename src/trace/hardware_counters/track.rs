//! The samples of one counter of one device, in order, with their cells.

use super::cells::{CounterCell, environment_cells, pm_cells, sampling_period};
use super::kind::{CounterSource, HardwareCounter, source_of, unit_of};
use super::lost::samples_lost;
use crate::device::DeviceWork;
use crate::events::CounterSample;
use crate::strings::StrId;
use hta_base::units::{Ns, Span};
use std::collections::BTreeMap;

/// One counter of one device.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedCounter {
    pub device: i64,
    pub counter: StrId,
    pub kind: HardwareCounter,
    pub unit: Option<&'static str>,
    pub source: CounterSource,
    /// Time and value as recorded, in order of time.
    pub samples: Vec<(Ns, f64)>,
    /// One cell for each sample. Those of derived counters are empty.
    pub cells: Vec<CounterCell>,
    /// The usual time from a sample to the next: of PM sampling that of the device. `None` if there is only
    /// one.
    pub period: Option<Ns>,
    /// Whether there are two values at one time: Cuspy names two roll-ups of a metric alike. Their means say
    /// nothing.
    pub is_ambiguous: bool,
}

impl RecordedCounter {
    /// First to last sample.
    pub fn sampled(&self) -> Option<Span> {
        Some(Span::new(self.samples.first()?.0, self.samples.last()?.0))
    }

    /// Whether means of this counter say something.
    pub fn has_means(&self) -> bool {
        self.source != CounterSource::Derived && !self.is_ambiguous
    }
}

/// All counters of a rank.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RecordedCounters {
    /// By device and name.
    pub tracks: Vec<RecordedCounter>,
    /// Times of PM sampling by device, in order, each once, and the period.
    pub pm_sampling: BTreeMap<i64, (Vec<Ns>, Option<Ns>)>,
    /// Whether PM sampling ran: also where the file has its rows but not their values.
    pub sampled_metrics: bool,
}

impl RecordedCounters {
    pub fn new<'a>(samples: &[CounterSample], text: impl Fn(StrId) -> &'a str) -> Self {
        let mut values: BTreeMap<(i64, StrId), Vec<(Ns, f64)>> = BTreeMap::new();
        for s in samples {
            values.entry((s.device, s.counter)).or_default().push((s.ts, s.value));
        }
        let mut pm_sampling: BTreeMap<i64, (Vec<Ns>, Option<Ns>)> = BTreeMap::new();
        for ((device, counter), samples) in &mut values {
            samples.sort_by_key(|(ts, _)| *ts);
            if source_of(text(*counter)) == CounterSource::PmSampling {
                let (times, _) = pm_sampling.entry(*device).or_default();
                times.extend(samples.iter().map(|s| s.0));
            }
        }
        for (times, period) in pm_sampling.values_mut() {
            *period = sampling_period(times);
        }
        let pm_period = |device: i64| pm_sampling.get(&device).and_then(|(_, period)| *period);
        let mut tracks: Vec<RecordedCounter> = values
            .into_iter()
            .map(|(key, samples)| track(key, text(key.1), samples, pm_period(key.0)))
            .collect();
        tracks.sort_by_key(|t| (t.device, text(t.counter)));
        let sampled_metrics = !pm_sampling.is_empty();
        Self { tracks, pm_sampling, sampled_metrics }
    }

    /// Samples of PM sampling that the profiler has taken and lost.
    pub(crate) fn lost(&self, devices: &[DeviceWork], capture: Span) -> u64 {
        let of = |(device, (times, period)): (&i64, &(Vec<Ns>, Option<Ns>))| {
            let own = devices.iter().find(|d| d.device == Some(*device));
            Some(samples_lost(times, (*period)?, own.map_or(capture, |d| d.capture).start))
        };
        self.pm_sampling.iter().filter_map(of).sum()
    }

    /// The counter of a device with a kind, if there is one and its means say something. Of two metrics of
    /// one kind the first by name.
    pub fn of(&self, device: i64, kind: HardwareCounter) -> Option<&RecordedCounter> {
        self.tracks.iter().find(|t| t.device == device && t.kind == kind && t.has_means())
    }
}

fn track(
    (device, counter): (i64, StrId),
    name: &str,
    samples: Vec<(Ns, f64)>,
    pm_period: Option<Ns>,
) -> RecordedCounter {
    let (kind, source) = (HardwareCounter::of(name), source_of(name));
    let differs = |w: &[(Ns, f64)]| w[0].0 == w[1].0 && w[0].1.to_bits() != w[1].1.to_bits();
    let is_ambiguous = samples.windows(2).any(differs);
    let (period, cells) = match source {
        CounterSource::PmSampling => (pm_period, pm_cells(&samples, pm_period)),
        CounterSource::Environment => {
            let period = sampling_period(&mut samples.iter().map(|s| s.0).collect());
            (period, environment_cells(&samples, period))
        }
        // It is at the start of a kernel, and stands for no time of its own.
        CounterSource::Derived => (None, pm_cells(&samples, None)),
    };
    RecordedCounter {
        device,
        counter,
        kind,
        unit: unit_of(name),
        source,
        samples,
        cells,
        period,
        is_ambiguous,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 4] = ["SM Active (%)", "Power (W)", "HBM BW (%)", "Cycles (Current Kernel)"];

    fn sample(device: i64, counter: u32, ts: Ns, value: f64) -> CounterSample {
        CounterSample { device, counter: StrId(counter), ts, value }
    }

    fn made(samples: &[CounterSample]) -> RecordedCounters {
        RecordedCounters::new(samples, |id| NAMES[id.0 as usize])
    }

    #[test]
    fn counters_are_in_order_of_device_name_and_time() {
        let found =
            made(&[sample(1, 0, 5, 1.0), sample(0, 1, 9, 2.0), sample(0, 0, 7, 3.0), sample(0, 1, 2, 4.0)]);
        let order: Vec<_> = found.tracks.iter().map(|t| (t.device, t.kind.key(), t.samples.len())).collect();
        assert_eq!(order, [(0, "power", 2), (0, "sm_active", 1), (1, "sm_active", 1)]);
        assert_eq!(found.tracks[0].samples, [(2, 4.0), (9, 2.0)]);
        assert_eq!(found.tracks[0].sampled(), Some(Span::new(2, 9)));
    }

    #[test]
    fn the_period_is_that_of_all_sampled_metrics_of_the_device() {
        // HBM lacks a sample, which SM Active has.
        let found = made(&[
            sample(0, 0, 0, 1.0),
            sample(0, 0, 10, 1.0),
            sample(0, 0, 20, 1.0),
            sample(0, 2, 0, 1.0),
            sample(0, 2, 20, 1.0),
        ]);
        assert_eq!(found.pm_sampling[&0], (vec![0, 10, 20], Some(10)));
        let hbm = found.of(0, HardwareCounter::Hbm).unwrap();
        assert_eq!(
            hbm.cells.iter().map(|c| c.span).collect::<Vec<_>>(),
            [Span::new(0, 10), Span::new(20, 30)]
        );
    }

    #[test]
    fn two_series_of_one_name_and_derived_counters_have_no_means() {
        let found = made(&[sample(0, 0, 0, 1.0), sample(0, 0, 0, 2.0), sample(0, 3, 4, 100.0)]);
        assert!(found.tracks.iter().all(|t| !t.has_means()));
        assert_eq!(found.of(0, HardwareCounter::SmActive), None);
        let twice = made(&[sample(0, 0, 0, 1.0), sample(0, 0, 0, 1.0), sample(0, 0, 8, 1.0)]);
        assert!(twice.tracks[0].has_means());
        assert_eq!(twice.tracks[0].period, Some(8));
    }
}

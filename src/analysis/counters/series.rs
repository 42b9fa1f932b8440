//! Counters over time, for tables and viewers: queue length and memory bandwidth, and GPU utilization, SM
//! efficiency and estimated occupancy in equal buckets.
//!
//! ```text
//!   capture   |-------------------------------|
//!   buckets   |........|........|........|....|     the last one is divided by its own width
//! ```
//!
//! A point holds until the next one. The table `counters` and `hta overlay` use the same functions.

use crate::copies::bandwidth::bandwidth;
use crate::copies::copy::copies;
use crate::counters::load::{KernelLoad, kernels, loads, multiprocessors};
use hta_base::units::{Ns, Span};
use hta_facts::queue_lengths::queues;
use hta_trace::rank_trace::RankTrace;
use std::collections::BTreeSet;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeviceCounter {
    QueueLength,
    MemoryBandwidth,
    GpuUtilization,
    SmEfficiency,
    EstOccupancy,
}

impl DeviceCounter {
    /// All counters, in the order of the table.
    pub const ALL: [DeviceCounter; 5] = [
        DeviceCounter::QueueLength,
        DeviceCounter::MemoryBandwidth,
        DeviceCounter::GpuUtilization,
        DeviceCounter::SmEfficiency,
        DeviceCounter::EstOccupancy,
    ];

    pub fn name(self) -> &'static str {
        match self {
            DeviceCounter::QueueLength => "queue_length",
            DeviceCounter::MemoryBandwidth => "memory_bandwidth",
            DeviceCounter::GpuUtilization => "gpu_utilization_ratio",
            DeviceCounter::SmEfficiency => "sm_efficiency_ratio",
            DeviceCounter::EstOccupancy => "est_occupancy_pct",
        }
    }

    pub fn unit(self) -> &'static str {
        match self {
            DeviceCounter::QueueLength => "launches",
            DeviceCounter::MemoryBandwidth => "GB/s",
            DeviceCounter::GpuUtilization | DeviceCounter::SmEfficiency => "ratio",
            DeviceCounter::EstOccupancy => "%",
        }
    }
}

/// One counter of one device, stream or direction.
#[derive(Debug, Clone, PartialEq)]
pub struct CounterSeries {
    pub counter: DeviceCounter,
    pub device: Option<i64>,
    /// Stream of a queue; also `None` if the back end records no stream.
    pub stream: Option<i64>,
    /// Direction of copies.
    pub direction: Option<&'static str>,
    /// Value from each instant on, in order of time; `None` if it is unknown (copies without a size, kernels
    /// without the argument, or no kernel for a mean).
    pub points: Vec<(Ns, Option<f64>)>,
    /// End of the last bucket; `None` for values that change at events, whose last value is 0.
    pub end: Option<Ns>,
}

/// The counters of a rank, and why some are absent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RankCounters {
    /// Sorted by counter, device, stream, direction.
    pub series: Vec<CounterSeries>,
    /// Requested counters that have no series, with the reason.
    pub missing: Vec<(DeviceCounter, &'static str)>,
    /// Width of the buckets, ns.
    pub(crate) bucket: Ns,
}

/// The load of one device.
pub(crate) struct DeviceLoad {
    pub(crate) device: Option<i64>,
    /// One entry per bucket of the capture.
    pub(crate) buckets: Vec<KernelLoad>,
}

/// The requested counters of a rank. `bucket`: width of a bucket in ns; `None` for a hundredth of the
/// capture, rounded up.
pub fn series(trace: &RankTrace, asked: &[DeviceCounter], bucket: Option<Ns>) -> RankCounters {
    let width = bucket_width(trace.capture, bucket);
    let mut of_kernels = Vec::new();
    if asked.iter().any(|c| *c > DeviceCounter::MemoryBandwidth) {
        let parts: Vec<Span> = buckets(trace.capture, width).collect();
        let asked: Vec<&[Span]> = parts.iter().map(std::slice::from_ref).collect();
        let sms = multiprocessors(trace);
        of_kernels.extend(trace.devices.iter().filter(|w| w.is_gpu).map(|work| DeviceLoad {
            device: work.device,
            buckets: loads(&kernels(trace, work, &sms), &asked),
        }));
    }
    series_of(trace, asked, width, &of_kernels)
}

/// The requested counters of a rank, given the load of each of its devices in buckets of `width` ns.
pub(crate) fn series_of(
    trace: &RankTrace,
    asked: &[DeviceCounter],
    width: Ns,
    of_kernels: &[DeviceLoad],
) -> RankCounters {
    let mut out = RankCounters { bucket: width, ..RankCounters::default() };
    for counter in DeviceCounter::ALL.into_iter().filter(|c| asked.contains(c)) {
        let before = out.series.len();
        let reason = match counter {
            _ if trace.is_cpu_only() => "no GPU activity",
            DeviceCounter::QueueLength => {
                queue_lengths(trace, &mut out.series);
                "no launches recorded"
            }
            DeviceCounter::MemoryBandwidth => {
                bandwidths(trace, &mut out.series);
                "no copies with a size and a length"
            }
            _ => {
                bucketed(counter, trace.capture, width, of_kernels, &mut out.series);
                let any = |known: fn(&KernelLoad) -> i128| {
                    of_kernels.iter().flat_map(|of| &of.buckets).any(|l| known(l) > 0)
                };
                match counter {
                    DeviceCounter::SmEfficiency if any(|l| l.blocks_known) => {
                        "less than half of the kernels' time has known blocks per SM"
                    }
                    DeviceCounter::EstOccupancy if any(|l| l.occupancy_known) => {
                        "less than half of the kernels' time has an estimated occupancy"
                    }
                    DeviceCounter::SmEfficiency => {
                        "kernels have neither blocks per SM nor a grid and the number of SMs"
                    }
                    DeviceCounter::EstOccupancy => "kernels have no estimated occupancy",
                    _ => "no kernels with a length",
                }
            }
        };
        if out.series.len() == before {
            out.missing.push((counter, reason));
        }
    }
    out
}

fn queue_lengths(trace: &RankTrace, out: &mut Vec<CounterSeries>) {
    for q in queues(trace).iter() {
        // A change of only the pending activities does not change the length.
        let points = without_repeats(q.changes.iter().map(|c| (c.at, Some(f64::from(c.length)))));
        if !points.is_empty() {
            let (device, stream) = (q.device, q.stream);
            out.push(CounterSeries {
                counter: DeviceCounter::QueueLength,
                device,
                stream,
                direction: None,
                points,
                end: None,
            });
        }
    }
}

fn bandwidths(trace: &RankTrace, out: &mut Vec<CounterSeries>) {
    for work in trace.devices.iter().filter(|w| w.is_gpu) {
        let all = copies(trace, work);
        let directions: BTreeSet<&'static str> = all.iter().map(|c| c.direction).collect();
        for direction in directions {
            let own = || all.iter().filter(|c| c.direction == direction);
            if !own().any(|c| c.bytes.is_some() && !c.span.is_empty()) {
                continue;
            }
            let points = without_repeats(bandwidth(own()).iter().map(|b| (b.at, b.gb_per_s())));
            out.push(CounterSeries {
                counter: DeviceCounter::MemoryBandwidth,
                device: work.device,
                stream: None,
                direction: Some(direction),
                points,
                end: None,
            });
        }
    }
}

fn without_repeats(points: impl Iterator<Item = (Ns, Option<f64>)>) -> Vec<(Ns, Option<f64>)> {
    let mut kept: Vec<(Ns, Option<f64>)> = Vec::new();
    for point in points {
        if kept.last().is_none_or(|before| before.1 != point.1) {
            kept.push(point);
        }
    }
    kept
}

fn bucketed(
    counter: DeviceCounter,
    capture: Span,
    width: Ns,
    of_kernels: &[DeviceLoad],
    out: &mut Vec<CounterSeries>,
) {
    for of in of_kernels {
        // The buckets cover all kernels.
        let all = of.buckets.iter().copied().fold(KernelLoad::default(), KernelLoad::plus);
        let is_there = match counter {
            DeviceCounter::SmEfficiency => all.blocks_known > 0 && all.has_blocks(),
            DeviceCounter::EstOccupancy => all.occupancy_known > 0 && all.has_occupancy(),
            _ => all.kernel > 0,
        };
        if !is_there {
            continue;
        }
        let value = |b: Span, load: &KernelLoad| match counter {
            DeviceCounter::SmEfficiency => load.sm_efficiency(b.len()),
            DeviceCounter::EstOccupancy => load.occupancy_pct(),
            _ => load.utilization(b.len()),
        };
        out.push(CounterSeries {
            counter,
            device: of.device,
            stream: None,
            direction: None,
            points: buckets(capture, width)
                .zip(&of.buckets)
                .map(|(b, load)| (b.start, value(b, load)))
                .collect(),
            end: Some(capture.end),
        });
    }
}

/// Divides the capture into buckets; the last one may be shorter.
pub(crate) fn buckets(capture: Span, width: Ns) -> impl Iterator<Item = Span> {
    let count = (capture.len() as u64).div_ceil(width.max(1) as u64) as i64;
    (0..count).map(move |i| {
        let start = capture.start + i * width;
        Span::new(start, start.saturating_add(width).min(capture.end))
    })
}

/// Largest number of buckets of a capture; a smaller width is increased.
const MOST_BUCKETS: Ns = 1_000_000;

/// Number of buckets of a capture if no width is given.
const BUCKETS: Ns = 100;

/// The requested width in ns, or a hundredth of the capture rounded up to 1, 2 or 5 times a power of ten us.
pub fn bucket_width(capture: Span, asked: Option<Ns>) -> Ns {
    let least =
        |buckets: Ns| round_up(capture.len().div_euclid(buckets) + i64::from(capture.len() % buckets != 0));
    match asked {
        Some(width) if width > 0 && capture.len() / width <= MOST_BUCKETS => width,
        Some(_) => least(MOST_BUCKETS),
        None => least(BUCKETS),
    }
}

fn round_up(ns: Ns) -> Ns {
    let mut power: Ns = 1_000;
    loop {
        for factor in [1, 2, 5] {
            match power.checked_mul(factor) {
                Some(width) if width >= ns => return width,
                Some(_) => {}
                None => return Ns::MAX,
            }
        }
        power = power.saturating_mul(10);
    }
}

//! The load that kernels put on a device: whether any kernel runs, the blocks per SM of the running kernels,
//! and their estimated occupancy.
//!
//! ```text
//!   kernel a   [========)             0.75 blocks per SM
//!   kernel b        [=======)         0.50
//!   busy       ==============         |kernels|
//!   SMs in use 0.75 0.75 1.0 0.50     min(1, sum of the running kernels)
//! ```
//!
//! Copies and sets do not count; communication kernels do. Blocks and occupancies are integer multiples of
//! 2^-48 here, so that sums do not depend on the order of the file and parts add up exactly.

use hashbrown::HashMap;
use hta_base::units::{Ns, Span};
use hta_facts::machine::LaunchShapes;
use hta_trace::args::Arg;
use hta_trace::device::DeviceWork;
use hta_trace::rank_trace::RankTrace;
use hta_trace::timeline::{WorkClass, edges};

/// 1, in sums of blocks and occupancies.
const ONE: i128 = 1 << 48;

/// Sums over a stretch of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KernelLoad {
    /// Time in which any kernel runs, ns.
    pub(crate) kernel: Ns,
    /// Summed duration of the kernels, ns; concurrent kernels all count.
    pub(crate) kernel_sum: i128,
    /// The part of `kernel_sum` with known blocks per SM, and (next field) with known occupancy.
    pub(crate) blocks_known: i128,
    pub(crate) occupancy_known: i128,
    /// Integral of min(1, blocks per SM of the running kernels), in 2^-48 ns.
    sm: i128,
    /// Integral of the occupancies of the running kernels, in 2^-48 % ns.
    occupancy: i128,
}

impl KernelLoad {
    pub(crate) fn plus(self, o: KernelLoad) -> KernelLoad {
        KernelLoad {
            kernel: self.kernel + o.kernel,
            kernel_sum: self.kernel_sum + o.kernel_sum,
            blocks_known: self.blocks_known + o.blocks_known,
            occupancy_known: self.occupancy_known + o.occupancy_known,
            sm: self.sm.saturating_add(o.sm),
            occupancy: self.occupancy.saturating_add(o.occupancy),
        }
    }

    fn minus(self, o: KernelLoad) -> KernelLoad {
        KernelLoad {
            kernel: self.kernel - o.kernel,
            kernel_sum: self.kernel_sum - o.kernel_sum,
            blocks_known: self.blocks_known - o.blocks_known,
            occupancy_known: self.occupancy_known - o.occupancy_known,
            sm: self.sm.saturating_sub(o.sm),
            occupancy: self.occupancy.saturating_sub(o.occupancy),
        }
    }

    /// Share of `width` in which a kernel runs.
    pub fn utilization(&self, width: Ns) -> Option<f64> {
        hta_base::units::ratio(self.kernel, width)
    }

    /// Whether the blocks per SM are known for at least half of the kernels' time. If not, the efficiency
    /// would represent only a few kernels. True if no kernel runs.
    pub(crate) fn has_blocks(&self) -> bool {
        self.blocks_known * 2 >= self.kernel_sum
    }

    /// Whether the occupancy is known for at least half of the kernels' time. True if no kernel runs.
    pub(crate) fn has_occupancy(&self) -> bool {
        self.occupancy_known * 2 >= self.kernel_sum
    }

    /// Mean share of SMs in use over `width`; `None` if kernels run but none has known blocks.
    pub(crate) fn sm_efficiency(&self, width: Ns) -> Option<f64> {
        let known = self.blocks_known > 0 || self.kernel_sum == 0;
        (width > 0 && known).then(|| self.sm as f64 / ONE as f64 / width as f64)
    }

    /// Mean occupancy weighted by duration, percent; `None` if no kernel has one.
    pub(crate) fn occupancy_pct(&self) -> Option<f64> {
        (self.occupancy_known > 0).then(|| self.occupancy as f64 / ONE as f64 / self.occupancy_known as f64)
    }

    /// Share of the kernels' time with known blocks per SM, percent.
    pub(crate) fn blocks_coverage_pct(&self) -> Option<f64> {
        share(self.blocks_known, self.kernel_sum)
    }

    /// Share of the kernels' time with a known occupancy, percent.
    pub(crate) fn occupancy_coverage_pct(&self) -> Option<f64> {
        share(self.occupancy_known, self.kernel_sum)
    }
}

fn share(part: i128, whole: i128) -> Option<f64> {
    (whole > 0).then(|| 100.0 * part as f64 / whole as f64)
}

/// The contribution of one kernel while it runs.
#[derive(Debug, Clone, Copy)]
pub struct Kernel {
    pub(crate) span: Span,
    /// Blocks per SM.
    pub(crate) blocks: Option<f64>,
    /// Estimated achieved occupancy, percent.
    pub(crate) occupancy: Option<f64>,
}

/// The kernels of a device with the values from their arguments. `sms`: number of multiprocessors by device.
pub fn kernels(trace: &RankTrace, work: &DeviceWork, sms: &HashMap<i64, Option<u32>>) -> Vec<Kernel> {
    let sms = work.device.and_then(|d| sms.get(&d).copied().flatten());
    let args = &trace.columns.args;
    let float =
        |arg, row| args.column(arg).get(row).map(f64::from_bits).filter(|v| v.is_finite() && *v >= 0.0);
    let of_grid = |row: u32| {
        let sms = sms.filter(|n| *n > 0)?;
        let grid = trace.text(args.text(Arg::Grid, row)?);
        let sides = grid.trim_matches(['[', ']']).split(',').map(|s| s.trim().parse::<f64>().ok());
        Some(sides.product::<Option<f64>>()? / f64::from(sms))
    };
    let mut launches = LaunchShapes::new(trace);
    let own = work.activities.iter().map(|&i| &trace.activities[i as usize]);
    own.filter(|a| a.work != WorkClass::Memory)
        .map(|a| Kernel {
            span: a.span,
            blocks: float(Arg::BlocksPerSm, a.row).or_else(|| of_grid(a.row)),
            occupancy: launches.occupancy_pct(a),
        })
        .collect()
}

/// Number of multiprocessors of the devices in the file's header. If a device number occurs several times,
/// the first one counts.
pub fn multiprocessors(trace: &RankTrace) -> HashMap<i64, Option<u32>> {
    let mut of = HashMap::new();
    for d in &trace.meta.devices {
        of.entry(d.id).or_insert(d.sm_count);
    }
    of
}

/// Largest plausible value; no kernel has more blocks per SM.
const MOST: f64 = 1e12;

fn fixed(value: f64) -> i128 {
    (value.min(MOST) * ONE as f64).round() as i128
}

/// The load in each of several lists of disjoint spans. One sweep over the kernels, which stores only the
/// requested loads.
pub fn loads(kernels: &[Kernel], asked: &[&[Span]]) -> Vec<KernelLoad> {
    let mut instants: Vec<Ns> =
        asked.iter().copied().flatten().flat_map(|p: &Span| [p.start, p.end.max(p.start)]).collect();
    instants.sort_unstable();
    instants.dedup();
    let until = loads_until(kernels, &instants);
    let at = |t: Ns| instants.binary_search(&t).ok().and_then(|i| until.get(i)).copied().unwrap_or_default();
    let inside = |p: &Span| at(p.end.max(p.start)).minus(at(p.start));
    asked.iter().map(|parts| parts.iter().map(inside).fold(KernelLoad::default(), KernelLoad::plus)).collect()
}

/// The accumulated load before each of the given instants, which must be in order.
fn loads_until(kernels: &[Kernel], instants: &[Ns]) -> Vec<KernelLoad> {
    let adds = |i: u32| {
        let k = &kernels[i as usize];
        let flag = |x: Option<f64>| i128::from(x.is_some());
        let value = |x: Option<f64>| x.map_or(0, fixed);
        [1, value(k.blocks), flag(k.blocks), value(k.occupancy), flag(k.occupancy)]
    };
    let spans = kernels.iter().enumerate().map(|(i, k)| (k.span, i as u32));
    let mut running = [0i128; 5];
    let mut out = Vec::with_capacity(instants.len());
    let mut sum = KernelLoad::default();
    let mut at = Ns::MIN;
    for (t, i, step) in edges(spans) {
        while let Some(instant) = instants.get(out.len()).filter(|instant| **instant < t) {
            let since = if running[0] > 0 { instant.saturating_sub(at) } else { 0 };
            out.push(sum.plus(load_of(since, running)));
        }
        if running[0] > 0 {
            sum = sum.plus(load_of(t - at, running));
        }
        for (r, a) in running.iter_mut().zip(adds(i)) {
            *r += a * i128::from(step);
        }
        at = t;
    }
    out.resize(instants.len(), sum);
    out
}

fn load_of(ns: Ns, [count, blocks, blocks_known, occupancy, occupancy_known]: [i128; 5]) -> KernelLoad {
    let long = i128::from(ns);
    KernelLoad {
        kernel: ns,
        kernel_sum: count * long,
        blocks_known: blocks_known * long,
        occupancy_known: occupancy_known * long,
        sm: blocks.min(ONE) * long,
        occupancy: occupancy.saturating_mul(long),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn kernels() -> impl Strategy<Value = Vec<Kernel>> {
        let value = || prop::option::of((0u32..9).prop_map(|v| f64::from(v) / 4.0));
        let kernel = (0i64..40, 0i64..12, value(), value());
        let kernel = kernel.prop_map(|(s, d, blocks, occupancy)| Kernel {
            span: Span::new(s, s + d),
            blocks,
            occupancy,
        });
        prop::collection::vec(kernel, 0..12)
    }

    proptest! {
        #[test]
        fn loads_are_sums_over_every_nanosecond(kernels in kernels(), asked in prop::collection::vec((0i64..50, 0i64..20), 0..5)) {
            let parts: Vec<Span> = asked.iter().map(|(s, d)| Span::new(*s, s + d)).collect();
            let lists: Vec<&[Span]> = parts.iter().map(std::slice::from_ref).collect();
            for (part, load) in parts.iter().zip(loads(&kernels, &lists)) {
                let mut want = KernelLoad::default();
                for t in part.start..part.end {
                    let now: Vec<&Kernel> = kernels.iter().filter(|k| k.span.holds(t)).collect();
                    let values = |of: fn(&Kernel) -> Option<f64>| now.iter().filter_map(|k| of(k)).map(fixed).collect::<Vec<_>>();
                    let (blocks, occupancy) = (values(|k| k.blocks), values(|k| k.occupancy));
                    want.kernel += i64::from(!now.is_empty());
                    want.kernel_sum += now.len() as i128;
                    want.blocks_known += blocks.len() as i128;
                    want.occupancy_known += occupancy.len() as i128;
                    want.sm += blocks.iter().sum::<i128>().min(ONE);
                    want.occupancy += occupancy.iter().sum::<i128>();
                }
                prop_assert_eq!(load, want);
            }
        }
    }
}

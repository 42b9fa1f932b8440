//! What the kernels of a device ask of it at each instant: whether any runs, the blocks per SM of those
//! that run, and their estimated occupancy.
//!
//! ```text
//!   kernel a   [========)             0.75 blocks per SM
//!   kernel b        [=======)         0.50
//!   busy       ==============         |kernels|
//!   SMs in use 0.75 0.75 1.0 0.50     min(1, sum of those that run)
//! ```
//!
//! Copies and sets are left out; communication kernels count. Blocks and occupancies are whole multiples of
//! 2^-48 here, so that sums do not depend on the order of the file and parts add up exactly.

use crate::model::args::Arg;
use crate::model::rank_trace::{DeviceWork, RankTrace};
use crate::model::timeline::{Work, edges};
use crate::units::{Ns, Span};
use std::sync::Arc;

/// 1, in sums of blocks and occupancies.
const ONE: i128 = 1 << 48;

/// Sums over a stretch of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Load {
    /// Time in which a kernel runs, ns.
    pub kernel: Ns,
    /// Lengths of the kernels, ns: those that run at once count each.
    pub kernel_sum: i128,
    /// Of these, with known blocks per SM and with known occupancy.
    pub blocks_known: i128,
    pub occupancy_known: i128,
    /// Integral of min(1, blocks per SM of what runs), in 2^-48 ns.
    sm: i128,
    /// Integral of the occupancies of what runs, in 2^-48 % ns.
    occupancy: i128,
}

impl Load {
    fn plus(self, o: Load) -> Load {
        Load {
            kernel: self.kernel + o.kernel,
            kernel_sum: self.kernel_sum + o.kernel_sum,
            blocks_known: self.blocks_known + o.blocks_known,
            occupancy_known: self.occupancy_known + o.occupancy_known,
            sm: self.sm.saturating_add(o.sm),
            occupancy: self.occupancy.saturating_add(o.occupancy),
        }
    }

    fn minus(self, o: Load) -> Load {
        Load {
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
        crate::units::ratio(self.kernel, width)
    }

    /// Mean over `width` of the SMs in use; `None` where kernels run of which none has known blocks.
    pub fn sm_efficiency(&self, width: Ns) -> Option<f64> {
        let known = self.blocks_known > 0 || self.kernel_sum == 0;
        (width > 0 && known).then(|| self.sm as f64 / ONE as f64 / width as f64)
    }

    /// Mean occupancy weighted by length, percent; `None` where no kernel has one.
    pub fn occupancy_pct(&self) -> Option<f64> {
        (self.occupancy_known > 0).then(|| self.occupancy as f64 / ONE as f64 / self.occupancy_known as f64)
    }

    /// Share of the kernels' time that has known blocks per SM, percent.
    pub fn blocks_coverage_pct(&self) -> Option<f64> {
        share(self.blocks_known, self.kernel_sum)
    }

    /// Share of the kernels' time that has a known occupancy, percent.
    pub fn occupancy_coverage_pct(&self) -> Option<f64> {
        share(self.occupancy_known, self.kernel_sum)
    }
}

fn share(part: i128, whole: i128) -> Option<f64> {
    (whole > 0).then(|| 100.0 * part as f64 / whole as f64)
}

/// The kernels of one device over time.
#[derive(Debug, Clone, Default)]
pub struct KernelLoad {
    /// Disjoint stretches in order.
    segments: Vec<Span>,
    /// Load of all segments before segment `i`; one more entry for the whole.
    before: Vec<Load>,
}

/// What one kernel adds while it runs.
#[derive(Debug, Clone, Copy)]
pub struct Kernel {
    pub span: Span,
    /// Blocks per SM.
    pub blocks: Option<f64>,
    /// Estimated achieved occupancy, percent.
    pub occupancy: Option<f64>,
}

/// The load of each device of a rank; made once.
pub fn loads(trace: &RankTrace) -> Arc<Vec<(Option<i64>, KernelLoad)>> {
    let load = |trace: &RankTrace, w: &DeviceWork| (w.device, KernelLoad::new(&kernels(trace, w)));
    trace.shared(|t: &RankTrace| t.devices.iter().filter(|w| w.is_gpu).map(|w| load(t, w)).collect::<Vec<_>>())
}

/// The kernels of a device with what their arguments say.
pub fn kernels(trace: &RankTrace, work: &DeviceWork) -> Vec<Kernel> {
    let args = &trace.columns.args;
    let float = |arg, row| args.column(arg).get(row).map(f64::from_bits).filter(|v| v.is_finite() && *v >= 0.0);
    let sms = trace.meta.devices.iter().find(|d| Some(d.id) == work.device).and_then(|d| d.sm_count);
    let of_grid = |row: u32| {
        let sms = sms.filter(|n| *n > 0)?;
        let grid = trace.text(args.text(Arg::Grid, row)?);
        let sides = grid.trim_matches(['[', ']']).split(',').map(|s| s.trim().parse::<f64>().ok());
        Some(sides.product::<Option<f64>>()? / f64::from(sms))
    };
    let own = work.activities.iter().map(|&i| &trace.activities[i as usize]);
    own.filter(|a| a.work != Work::Memory)
        .map(|a| Kernel {
            span: a.span,
            blocks: float(Arg::BlocksPerSm, a.row).or_else(|| of_grid(a.row)),
            occupancy: float(Arg::Occupancy, a.row),
        })
        .collect()
}

/// Largest value that is believed: no kernel has more blocks per SM.
const MOST: f64 = 1e12;

fn fixed(value: f64) -> i128 {
    (value.min(MOST) * ONE as f64).round() as i128
}

impl KernelLoad {
    pub fn new(kernels: &[Kernel]) -> Self {
        let adds = |i: u32| {
            let k = &kernels[i as usize];
            let flag = |x: Option<f64>| i128::from(x.is_some());
            let value = |x: Option<f64>| x.map_or(0, fixed);
            [1, value(k.blocks), flag(k.blocks), value(k.occupancy), flag(k.occupancy)]
        };
        let spans = kernels.iter().enumerate().map(|(i, k)| (k.span, i as u32));
        let mut running = [0i128; 5];
        let mut segments: Vec<Span> = Vec::new();
        let mut before = vec![Load::default()];
        let mut sum = Load::default();
        let mut at = Ns::MIN;
        for (t, i, step) in edges(spans) {
            if t > at && running[0] > 0 {
                let span = Span::new(at, t);
                segments.push(span);
                sum = sum.plus(load_of(span.len(), running));
                before.push(sum);
            }
            for (r, a) in running.iter_mut().zip(adds(i)) {
                *r += a * i128::from(step);
            }
            at = t;
        }
        segments.shrink_to_fit();
        before.shrink_to_fit();
        Self { segments, before }
    }

    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Everything.
    pub fn whole(&self) -> Load {
        self.before.last().copied().unwrap_or_default()
    }

    fn until(&self, t: Ns) -> Load {
        let i = self.segments.partition_point(|s| s.end <= t);
        let sum = self.before.get(i).copied().unwrap_or_default();
        match (self.segments.get(i), self.before.get(i + 1)) {
            (Some(span), Some(with)) if span.start < t => {
                sum.plus(part_of(with.minus(sum), t.saturating_sub(span.start), span.len()))
            }
            _ => sum,
        }
    }

    /// The load inside disjoint `parts` of time.
    pub fn in_parts(&self, parts: &[Span]) -> Load {
        let inside = |p: &Span| self.until(p.end.max(p.start)).minus(self.until(p.start));
        parts.iter().map(inside).fold(Load::default(), Load::plus)
    }
}

fn load_of(ns: Ns, [count, blocks, blocks_known, occupancy, occupancy_known]: [i128; 5]) -> Load {
    let long = i128::from(ns);
    Load {
        kernel: ns,
        kernel_sum: count * long,
        blocks_known: blocks_known * long,
        occupancy_known: occupancy_known * long,
        sm: blocks.min(ONE) * long,
        occupancy: occupancy.saturating_mul(long),
    }
}

/// The load of the first `ns` of a segment of length `whole`: every sum is a multiple of the length.
fn part_of(load: Load, ns: Ns, whole: Ns) -> Load {
    let (ns, whole) = (i128::from(ns), i128::from(whole));
    let cut = |v: i128| v / whole * ns;
    Load {
        kernel: ns as Ns,
        kernel_sum: cut(load.kernel_sum),
        blocks_known: cut(load.blocks_known),
        occupancy_known: cut(load.occupancy_known),
        sm: cut(load.sm),
        occupancy: cut(load.occupancy),
    }
}

//! `diff_summary` and `diff_steps`: the step time and its parts.

use crate::diff::exact::{ExactFraction, Noise, is_significant, standard_error};
use crate::diff::population::{ChosenRanks, Population};
use crate::diff::set::{Set, WindowOfDevice, WorkSide};
use crate::diff::{DiffStepRow, DiffSteps, Summaries, SummaryRow};
use hta_base::table::schema::Batch;
use hta_base::units::Ns;

/// A figure of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Metric {
    StepTime,
    Compute,
    ExposedCommunication,
    ExposedMemory,
    Idle,
    Communication,
    Memory,
    GpuBusy,
    GpuSum,
}

impl Metric {
    /// All metrics, in the order of the table.
    pub(crate) const ALL: [Metric; 9] = [
        Metric::StepTime,
        Metric::Compute,
        Metric::ExposedCommunication,
        Metric::ExposedMemory,
        Metric::Idle,
        Metric::Communication,
        Metric::Memory,
        Metric::GpuBusy,
        Metric::GpuSum,
    ];

    pub(crate) const PARTS: [Metric; 4] =
        [Metric::Compute, Metric::ExposedCommunication, Metric::ExposedMemory, Metric::Idle];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Metric::StepTime => "step_time",
            Metric::Compute => "compute",
            Metric::ExposedCommunication => "exposed_communication",
            Metric::ExposedMemory => "copies",
            Metric::Idle => "idle",
            Metric::Communication => "communication",
            Metric::Memory => "memory",
            Metric::GpuBusy => "gpu_busy",
            Metric::GpuSum => "gpu_sum",
        }
    }

    pub(crate) fn is_part(self) -> bool {
        Self::PARTS.contains(&self)
    }

    /// Whether its change is reported as a share of the change of the step time.
    pub(crate) fn has_share(self) -> bool {
        self.is_part() || self == Metric::StepTime
    }

    fn of(self, w: &WindowOfDevice) -> Ns {
        match self {
            Metric::StepTime => w.dur,
            Metric::Compute => w.compute,
            Metric::ExposedCommunication => w.exposed_communication,
            Metric::ExposedMemory => w.copies,
            Metric::Idle => w.dur - w.busy,
            Metric::Communication => w.communication,
            Metric::Memory => w.memory,
            Metric::GpuBusy => w.busy,
            Metric::GpuSum => 0,
        }
    }
}

/// One side's value of a metric, with the noise of its steps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NoisyFigure {
    pub(crate) mean: ExactFraction,
    pub(crate) noise: Noise,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct MetricPair {
    pub(crate) base: NoisyFigure,
    pub(crate) test: NoisyFigure,
}

impl MetricPair {
    pub(crate) fn delta(&self) -> ExactFraction {
        self.test.mean.minus(self.base.mean)
    }

    pub(crate) fn delta_pct(&self) -> Option<f64> {
        // Percentage of base, computed from fractions, so exact up to the final division.
        self.delta().percent_of(ExactFraction {
            num: self.base.mean.num.saturating_mul(self.test.mean.den),
            den: self.base.mean.den.saturating_mul(self.test.mean.den),
        })
    }

    pub(crate) fn error(&self) -> Option<f64> {
        standard_error(self.base.noise, self.test.noise)
    }

    pub(crate) fn is_significant(&self) -> Option<bool> {
        is_significant(self.delta(), self.error())
    }
}

pub(crate) fn pair(p: &Population, metric: Metric) -> MetricPair {
    MetricPair { base: figure(&p.base, metric), test: figure(&p.test, metric) }
}

fn figure(side: &ChosenRanks, metric: Metric) -> NoisyFigure {
    if metric == Metric::GpuSum {
        return sum_of(side, |key| key.side == WorkSide::Gpu, |cell| cell.ns);
    }
    let places = side.places();
    let mut samples = vec![0.0; places.len()];
    let mut num = 0;
    for (rank, w) in side.windows() {
        let ns = metric.of(w);
        num += side.by_device.weigh(rank, ns);
        if let Some((place, ranks)) = places.get(&w.step) {
            samples[*place] += ns as f64 / (ranks * side.ranks[rank].devices) as f64;
        }
    }
    NoisyFigure { mean: side.by_device.mean(num), noise: Noise::of(&samples) }
}

/// Sums one value over the cells whose key satisfies `keep`.
pub(crate) fn sum_of(
    side: &ChosenRanks,
    keep: impl Fn(&crate::diff::set::CellKey) -> bool,
    value: impl Fn(&crate::diff::set::KeyedStep) -> i64,
) -> NoisyFigure {
    let places = side.places();
    let mut samples = vec![0.0; places.len()];
    let mut num = 0;
    for (i, of) in side.ranks.iter().enumerate() {
        let wanted: Vec<bool> = of.rank.keys.iter().map(&keep).collect();
        for cell in of.rank.cells.iter().filter(|c| of.steps.contains(&c.step)) {
            if wanted.get(cell.key as usize) == Some(&true) {
                num += side.by_rank.weigh(i, value(cell));
                if let Some((place, ranks)) = places.get(&cell.step) {
                    samples[*place] += value(cell) as f64 / *ranks as f64;
                }
            }
        }
    }
    NoisyFigure { mean: side.by_rank.mean(num), noise: Noise::of(&samples) }
}

pub(crate) fn table(p: &Population) -> Batch {
    let mut table = Summaries::default();
    let step = pair(p, Metric::StepTime).delta();
    for metric in Metric::ALL {
        let pair = pair(p, metric);
        table.push(SummaryRow {
            metric: metric.name(),
            is_part: metric.is_part(),
            scope: p.scope(),
            base_rank_count: p.base.rank_count(),
            test_rank_count: p.test.rank_count(),
            base_step_count: p.base.step_count(),
            test_step_count: p.test.step_count(),
            base_ns_per_step: pair.base.mean.value(),
            test_ns_per_step: pair.test.mean.value(),
            delta_ns_per_step: pair.delta().value(),
            delta_pct: pair.delta_pct(),
            share_of_change_pct: if metric.has_share() { pair.delta().percent_of(step) } else { None },
            base_std_ns: pair.base.noise.std,
            test_std_ns: pair.test.noise.std,
            std_error_ns: pair.error(),
            is_significant: pair.is_significant(),
        });
    }
    table.finish()
}

/// All windows of both sets, including those that are not compared.
pub(crate) fn steps(p: &Population) -> Batch {
    let mut table = DiffSteps::default();
    for (name, side) in [("base", &p.base), ("test", &p.test)] {
        push_steps(&mut table, name, side.set, side, p.by_step);
    }
    table.finish()
}

fn push_steps(table: &mut DiffSteps, name: &str, set: &Set, side: &ChosenRanks, by_step: bool) {
    for rank in &set.ranks {
        let counted = side.ranks.iter().find(|of| of.rank.rank == rank.rank);
        for w in rank.windows.iter().filter(|w| w.step.is_some() == by_step) {
            table.push(DiffStepRow {
                set: name,
                rank: rank.rank,
                device: w.device,
                scope: if by_step { "step" } else { "capture" },
                step: w.step,
                step_label: w.label,
                is_partial: w.is_partial,
                is_counted: counted.is_some_and(|of| of.steps.contains(&w.step)),
                basis: w.basis.name(),
                ts_ns: w.ts,
                dur_ns: w.dur,
                compute_ns: w.compute,
                exposed_communication_ns: w.exposed_communication,
                copies_ns: w.copies,
                idle_ns: w.dur - w.busy,
                communication_ns: w.communication,
                memory_ns: w.memory,
                busy_ns: w.busy,
            });
        }
    }
}

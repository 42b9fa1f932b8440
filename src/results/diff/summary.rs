//! `diff_summary` and `diff_steps`: the step time and its parts.

use crate::diff::exact::ExactFraction;
use crate::diff::population::{ChosenRanks, Population};
use crate::diff::set::{WindowOfDevice, WorkSide};
use crate::diff::{DiffStepRow, DiffSteps, Summaries, SummaryRow};
use hta_base::table::compare::{ComparedFigure, Noise, RunFigure, Trend};
use hta_base::table::schema::Batch;
use hta_base::units::Ns;
use hta_job::recording::rules::FUSED_PCT;

/// A figure of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Metric {
    StepTime,
    Compute,
    /// Exchange and product in one kernel, without compute.
    Fused,
    Waiting,
    Transfer,
    Unmatched,
    Copies,
    Idle,
    Communication,
    AllCopies,
    NotIdle,
    GpuTime,
}

impl Metric {
    /// All metrics, in the order of the table.
    pub(crate) const ALL: [Metric; 12] = [
        Metric::StepTime,
        Metric::Compute,
        Metric::Fused,
        Metric::Waiting,
        Metric::Transfer,
        Metric::Unmatched,
        Metric::Copies,
        Metric::Idle,
        Metric::Communication,
        Metric::AllCopies,
        Metric::NotIdle,
        Metric::GpuTime,
    ];

    /// What tells exchange, waiting and product apart, so that it has no meaning against fused kernels.
    pub(crate) fn is_of_exchange(self) -> bool {
        use Metric::{Communication, Compute, Fused, Transfer, Unmatched, Waiting};
        matches!(self, Communication | Compute | Fused | Transfer | Unmatched | Waiting)
    }

    /// The parts that sum to the step time.
    pub(crate) const PARTS: [Metric; 7] = [
        Metric::Compute,
        Metric::Fused,
        Metric::Waiting,
        Metric::Transfer,
        Metric::Unmatched,
        Metric::Copies,
        Metric::Idle,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Metric::StepTime => "step_time",
            Metric::Compute => "compute",
            Metric::Fused => "fused",
            Metric::Waiting => "waiting",
            Metric::Transfer => "transfer",
            Metric::Unmatched => "unmatched",
            Metric::Copies => "copies",
            Metric::Idle => "idle",
            Metric::Communication => "communication",
            Metric::AllCopies => "all_copies",
            Metric::NotIdle => "not_idle",
            Metric::GpuTime => "gpu_time",
        }
    }

    /// The name in version 1 of the schema, which conditions that people have written still use.
    pub(crate) fn old_name(self) -> Option<&'static str> {
        match self {
            Metric::Copies => Some("exposed_memory"),
            Metric::AllCopies => Some("memory"),
            Metric::NotIdle => Some("gpu_busy"),
            Metric::GpuTime => Some("gpu_sum"),
            _ => None,
        }
    }

    pub(crate) fn is_part(self) -> bool {
        Self::PARTS.contains(&self)
    }

    /// Whether its change is reported as a share of the change of the step time.
    pub(crate) fn has_share(self) -> bool {
        self.is_part() || self == Metric::StepTime
    }

    /// The name in a sentence or as the label of a row.
    pub(crate) fn words(self) -> String {
        self.name().replace('_', " ").replace("gpu", "GPU")
    }

    fn of(self, w: &WindowOfDevice, is_divided: bool) -> Ns {
        let [waiting, transfer] = if is_divided { [w.waiting, w.transfer] } else { [0; 2] };
        match self {
            Metric::StepTime => w.dur,
            Metric::Compute => w.compute,
            Metric::Fused => w.busy - w.compute - w.exposed - w.copies,
            Metric::Waiting => waiting,
            Metric::Transfer => transfer,
            Metric::Unmatched => w.exposed - waiting - transfer,
            Metric::Copies => w.copies,
            Metric::Idle => w.dur - w.busy,
            Metric::Communication => w.communication,
            Metric::AllCopies => w.memory,
            Metric::NotIdle => w.busy,
            Metric::GpuTime => 0,
        }
    }
}

/// One side's value of a metric, with the noise of its steps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NoisyFigure {
    pub(crate) mean: ExactFraction,
    pub(crate) noise: Noise,
}

/// A change below this percentage is none: of what it consists has no meaning.
pub(crate) const LEAST_CHANGE_PCT: f64 = 1.0;

/// Whether a change is at least [`LEAST_CHANGE_PCT`] of what it changes.
pub(crate) fn is_change(delta: ExactFraction, base: ExactFraction) -> bool {
    delta.num != 0 && delta.percent_of(base).is_none_or(|pct| pct.abs() >= LEAST_CHANGE_PCT)
}

/// The exact sums of which a figure of both sides is made.
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

    /// The figure, as numbers.
    pub(crate) fn compared(&self) -> ComparedFigure {
        let side = |of: &NoisyFigure| RunFigure { value: Some(of.mean.value()), noise: of.noise };
        let (delta, pct) = (Some(self.delta().value()), self.delta_pct());
        ComparedFigure::with_delta(side(&self.base), side(&self.test), delta, pct)
    }

    pub(crate) fn trend(&self) -> Trend {
        self.compared().trend()
    }

    /// Whether it changes by so much that it is worth to say what the change consists of.
    pub(crate) fn is_changed(&self) -> bool {
        is_change(self.delta(), self.base.mean)
    }

    /// Percentage of `part` in the change; `None` if there is hardly a change.
    pub(crate) fn share_of_change(&self, part: ExactFraction) -> Option<f64> {
        if self.is_changed() { part.percent_of(self.delta()) } else { None }
    }
}

pub(crate) fn pair(p: &Population, metric: Metric) -> MetricPair {
    let side = |side| figure(side, metric, p.is_divided);
    MetricPair { base: side(&p.base), test: side(&p.test) }
}

fn figure(side: &ChosenRanks, metric: Metric, is_divided: bool) -> NoisyFigure {
    if metric == Metric::GpuTime {
        return sum_of(side, |key| key.side == WorkSide::Gpu, |cell| cell.ns);
    }
    let places = side.places();
    let mut samples = vec![0.0; places.len()];
    let mut num = 0;
    for (rank, w) in side.windows() {
        let ns = metric.of(w, is_divided);
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

/// Whether one set exchanges inside fused kernels and the other does not.
pub(crate) fn is_fused_apart(p: &Population) -> bool {
    let (fused, busy) = (pair(p, Metric::Fused), pair(p, Metric::NotIdle));
    let share = |of: fn(&MetricPair) -> ExactFraction| of(&fused).percent_of(of(&busy)).unwrap_or(0.0);
    let is_fused =
        [|p: &MetricPair| p.base.mean, |p: &MetricPair| p.test.mean].map(|of| share(of) >= FUSED_PCT);
    is_fused[0] != is_fused[1]
}

pub(crate) fn table(p: &Population) -> Batch {
    let mut table = Summaries::default();
    let (step, is_apart) = (pair(p, Metric::StepTime), is_fused_apart(p));
    for metric in Metric::ALL {
        let is_told = !(is_apart && metric.is_of_exchange());
        let pair = pair(p, metric);
        let figure = pair.compared();
        // Only where such kernels run.
        if metric == Metric::Fused && pair.base.mean.num == 0 && pair.test.mean.num == 0 {
            continue;
        }
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
            delta_pct: figure.pct.filter(|_| is_told),
            share_of_change_pct: if is_told && metric.has_share() {
                step.share_of_change(pair.delta())
            } else {
                None
            },
            base_std_ns: pair.base.noise.std,
            test_std_ns: pair.test.noise.std,
            std_error_ns: figure.error,
            is_significant: figure.is_significant.filter(|_| is_told),
        });
    }
    table.finish()
}

/// All windows of both sets, including those that are not compared.
pub(crate) fn steps(p: &Population) -> Batch {
    let mut table = DiffSteps::default();
    for (name, side) in [("base", &p.base), ("test", &p.test)] {
        push_steps(&mut table, name, side, p);
    }
    table.finish()
}

fn push_steps(table: &mut DiffSteps, name: &str, side: &ChosenRanks, p: &Population) {
    let by_step = p.by_step;
    for rank in &side.set.ranks {
        let counted = side.ranks.iter().find(|of| of.rank.rank == rank.rank);
        for w in rank.windows.iter().filter(|w| w.step.is_some() == by_step) {
            let of = |metric: Metric| metric.of(w, p.is_divided);
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
                compute_ns: of(Metric::Compute),
                fused_ns: of(Metric::Fused),
                waiting_ns: of(Metric::Waiting),
                transfer_ns: of(Metric::Transfer),
                unmatched_ns: of(Metric::Unmatched),
                copies_ns: of(Metric::Copies),
                idle_ns: of(Metric::Idle),
                communication_ns: of(Metric::Communication),
                all_copies_ns: of(Metric::AllCopies),
                not_idle_ns: of(Metric::NotIdle),
            });
        }
    }
}

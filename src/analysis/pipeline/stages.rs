//! Which stage takes longest, and whether its work or its device is why.
//!
//! A stage that is longer in all pipelines of a job, or that has more kernels, has more work. One that is
//! longer in a single one of several pipelines, with as many kernels as elsewhere, runs on a slow rank. With
//! one pipeline and equal kernels, this cannot be told.

use crate::pipeline::measured::{PipelineRun, PipelineStep, Pipelines};
use hta_base::order_statistics::median;
use hta_base::units::Ns;
use hta_job::Job;
use hta_trace::rank_trace::StepFilter;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Smallest ratio to the usual stage for which a stage is named.
const LEAST_RATIO: f64 = 1.02;

/// Share of the steps in which a stage must be the longest to be named.
const STEADY: f64 = 0.8;

/// The mean work of a micro-batch in a stage: its chunks of all kinds, without waiting inside.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct StageWork {
    pub(super) rank: u32,
    pub(super) time: Ns,
    /// Without idle time inside, which is of the host.
    pub(super) busy: Ns,
    /// Kernels or operators, in thousandths.
    work: i64,
}

/// Why a stage is longer than the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StageVerdict {
    TooMuchWork,
    SlowRank,
    CannotTell,
}

/// The longest stage of a pipeline.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LongestStage {
    pub(crate) stage: u32,
    pub(crate) rank: u32,
    /// To the median of the other stages.
    pub(crate) ratio: f64,
    pub(crate) verdict: StageVerdict,
    /// Others that are longer in nearly all steps and for the same reason, with their ratios, ascending.
    pub(crate) also: Vec<(u32, f64)>,
    /// Whether there are other pipelines, and it is longer in all of them, too.
    pub(crate) is_of_all: bool,
    /// To the median of the same stage in other pipelines, if there are any.
    pub(crate) to_replicas: Option<f64>,
}

impl LongestStage {
    /// With those that are longer, too.
    pub(crate) fn all(&self) -> BTreeMap<u32, f64> {
        self.also.iter().copied().chain([(self.stage, self.ratio)]).collect()
    }
}

/// The pipelines of a job with the longest stage of each.
pub struct StagedPipelines {
    pub(crate) pipelines: Arc<Pipelines>,
    /// The stage that takes longest in nearly all steps, by pipeline.
    pub(crate) longest: Vec<Option<LongestStage>>,
}

impl StagedPipelines {
    pub fn of(job: &Job) -> Arc<Self> {
        job.shared(|job| Self::new(job, Pipelines::of(job)))
    }

    /// The same with some steps only.
    pub(crate) fn in_steps(&self, job: &Job, filter: &StepFilter) -> Self {
        Self::new(job, Arc::new(self.pipelines.in_steps(filter)))
    }

    fn new(job: &Job, pipelines: Arc<Pipelines>) -> Self {
        Self { longest: longest_stages(job, &pipelines.runs), pipelines }
    }

    /// Each pipeline with its longest stage.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (&PipelineRun, Option<&LongestStage>)> {
        self.pipelines.runs.iter().zip(self.longest.iter().map(Option::as_ref))
    }

    /// The first of the pipelines whose ranks idle longest in a typical step.
    pub fn worst(&self) -> Option<WorstPipeline<'_>> {
        let worst = |(number, (run, stage)): (usize, (_, _))| {
            let run: &PipelineRun = run;
            Some(WorstPipeline { number, run, step: run.typical()?, stage })
        };
        let all = self.runs().enumerate().filter_map(worst);
        all.max_by_key(|w| (w.step.whole.len() - w.step.busy_mean(), Reverse(w.number)))
    }
}

/// A pipeline with the step whose bubble is in the middle.
pub struct WorstPipeline<'a> {
    /// Index of the pipeline.
    pub number: usize,
    pub(crate) run: &'a PipelineRun,
    pub step: &'a PipelineStep,
    pub(crate) stage: Option<&'a LongestStage>,
}

/// Sums of the chunks of a stage and kind.
#[derive(Default, Clone, Copy)]
struct StageSums {
    rank: u32,
    time: Ns,
    idle: Ns,
    work: i64,
    count: i64,
}

type SumsOfStages = BTreeMap<(u32, &'static str), StageSums>;

fn sums(job: &Job, s: &PipelineStep) -> SumsOfStages {
    let mut out = SumsOfStages::new();
    for (rank, times) in s.placed.ranks.iter().zip(&s.times) {
        let part = rank.at.part.and_then(|p| job.parts.get(p as usize));
        for ((c, index), t) in rank.chunks.iter().zip(&rank.index).zip(times) {
            // Of two chunks at once it is not known what each takes.
            if c.chunk.with.is_some() {
                continue;
            }
            let sum = out.entry((c.chunk.first.stage, c.chunk.first.kind.letter())).or_default();
            sum.rank = rank.at.rank;
            sum.time += c.span.len() - t.inner_wait.min(c.span.len());
            sum.idle += t.inner_idle;
            sum.work += part.and_then(|p| p.chunks.get(*index)).map_or(0, |c| i64::from(c.work_count));
            sum.count += 1;
        }
    }
    out
}

/// The stages of a pipeline in one step.
pub(super) fn works_of(job: &Job, s: &PipelineStep) -> BTreeMap<u32, StageWork> {
    works(&sums(job, s))
}

fn works(sums: &SumsOfStages) -> BTreeMap<u32, StageWork> {
    let mut out: BTreeMap<u32, StageWork> = BTreeMap::new();
    for ((stage, _), s) in sums {
        let work = out.entry(*stage).or_default();
        work.rank = s.rank;
        work.time += s.time / s.count.max(1);
        work.busy += (s.time - s.idle).max(0) / s.count.max(1);
        work.work += s.work * 1000 / s.count.max(1);
    }
    out
}

fn longest_of(works: &BTreeMap<u32, StageWork>) -> Option<u32> {
    works.iter().max_by_key(|(stage, w)| (w.time, Reverse(**stage))).map(|(stage, _)| *stage)
}

/// A pipeline over all its steps.
struct StagesOfRun {
    works: BTreeMap<u32, StageWork>,
    /// By step: the stage that takes longest.
    longest: Vec<u32>,
    /// The stage that takes longest in all, and others that are at least half as much longer in nearly all
    /// steps.
    long: Vec<u32>,
}

impl StagesOfRun {
    fn of(job: &Job, run: &PipelineRun) -> Self {
        let sums_of: Vec<SumsOfStages> =
            run.steps.iter().filter(|s| s.placed.has_stages).map(|s| sums(job, s)).collect();
        let mut all = SumsOfStages::new();
        for (key, s) in sums_of.iter().flatten() {
            let sum = all.entry(*key).or_default();
            sum.rank = s.rank;
            (sum.time, sum.work, sum.count) = (sum.time + s.time, sum.work + s.work, sum.count + s.count);
        }
        let (works_of_all, steps) = (works(&all), sums_of.iter().map(works).collect::<Vec<_>>());
        let excess =
            |works: &BTreeMap<u32, StageWork>, stage| ratio(works, stage, |w| w.time).map(|r| r - 1.0);
        let longest = longest_of(&works_of_all);
        let most = longest.and_then(|stage| excess(&works_of_all, stage)).unwrap_or(0.0);
        let is_long = |stage: &u32| {
            let least = excess(&works_of_all, *stage).filter(|e| *e >= (most / 2.0).max(LEAST_RATIO - 1.0));
            least.is_some_and(|e| {
                let in_steps =
                    steps.iter().filter(|step| excess(step, *stage).is_some_and(|of| of >= e / 2.0));
                is_nearly_all(in_steps.count(), steps.len())
            })
        };
        let others = works_of_all.keys().copied().filter(|stage| Some(*stage) != longest && is_long(stage));
        let mut long: Vec<u32> = longest.into_iter().chain(others).collect();
        // What most stages take is usual.
        if long.len() * 2 > works_of_all.len() {
            long.truncate(1);
        }
        Self { longest: steps.iter().filter_map(longest_of).collect(), long, works: works_of_all }
    }
}

fn is_nearly_all(count: usize, steps: usize) -> bool {
    count as f64 >= STEADY * steps as f64
}

/// The ratio of a stage to the median of the others.
pub(super) fn ratio(
    works: &BTreeMap<u32, StageWork>,
    stage: u32,
    of: impl Fn(&StageWork) -> i64,
) -> Option<f64> {
    let mut others: Vec<i64> = works.iter().filter(|(s, _)| **s != stage).map(|(_, w)| of(w)).collect();
    let usual = median(&mut others).filter(|n| *n > 0)?;
    works.get(&stage).map(|w| of(w) as f64 / usual as f64)
}

/// The longest stage of each pipeline; `None` where all are as long as usual, or another one is the longest
/// in other steps.
fn longest_stages(job: &Job, runs: &[PipelineRun]) -> Vec<Option<LongestStage>> {
    let all: Vec<StagesOfRun> = runs.iter().map(|run| StagesOfRun::of(job, run)).collect();
    let judged = |own: usize, stage: u32| {
        let works = &all.get(own)?.works;
        let found = ratio(works, stage, |w| w.time).filter(|r| *r >= LEAST_RATIO)?;
        let is_longer_in = |other: &BTreeMap<u32, StageWork>| {
            ratio(other, stage, |w| w.time).is_some_and(|r| r - 1.0 >= (found - 1.0) / 2.0)
        };
        let others = || {
            let others = all.iter().enumerate().filter(|(i, _)| *i != own).map(|(_, of)| &of.works);
            others.filter(|w| w.len() == works.len())
        };
        let alike = others().filter(|w| is_longer_in(w)).count();
        let has_more = ratio(works, stage, |w| w.work).is_some_and(|r| r >= LEAST_RATIO);
        let verdict = match (others().count(), has_more) {
            (_, true) => StageVerdict::TooMuchWork,
            (0, false) => StageVerdict::CannotTell,
            (n, false) if alike == n => StageVerdict::TooMuchWork,
            (_, false) if alike == 0 => StageVerdict::SlowRank,
            _ => StageVerdict::CannotTell,
        };
        let is_of_all = alike > 0 && alike == others().count();
        let work = works.get(&stage)?;
        let mut replicas: Vec<Ns> = others().filter_map(|w| Some(w.get(&stage)?.time)).collect();
        let usual = median(&mut replicas).filter(|ns| *ns > 0);
        let to_replicas = usual.map(|ns| work.time as f64 / ns as f64);
        let (rank, ratio, also) = (work.rank, found, Vec::new());
        Some(LongestStage { stage, rank, ratio, verdict, also, is_of_all, to_replicas })
    };
    let longest = |(own, of): (usize, &StagesOfRun)| {
        let (longest, others) = of.long.split_first()?;
        let longest = judged(own, *longest)?;
        let others = others.iter().filter_map(|stage| judged(own, *stage));
        let is_same = |other: &LongestStage| {
            longest.verdict != StageVerdict::SlowRank
                && (other.verdict, other.is_of_all) == (longest.verdict, longest.is_of_all)
        };
        let also = others.filter(is_same).map(|other| (other.stage, other.ratio)).collect();
        let found = LongestStage { also, ..longest };
        let named = found.all();
        let in_steps = of.longest.iter().filter(|stage| named.contains_key(stage)).count();
        is_nearly_all(in_steps, of.longest.len()).then_some(found)
    };
    all.iter().enumerate().map(longest).collect()
}

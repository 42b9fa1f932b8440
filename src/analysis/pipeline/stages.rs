//! Which stage takes longest, and whether its work or its device is why.
//!
//! A stage that is longer in all pipelines of a job, or that has more kernels, has more work. One that is
//! longer in a single one of several pipelines, with as many kernels as elsewhere, runs on a slow rank. With
//! one pipeline and equal kernels, this cannot be told.

use crate::job::median;
use crate::pipeline::measured::{PipelineRun, Pipelines};
use hta_base::units::Ns;
use std::collections::BTreeMap;

/// Smallest ratio to the usual stage for which a stage is named.
const LEAST_RATIO: f64 = 1.02;

/// The mean work of a micro-batch in a stage: its chunks of all kinds, without waiting inside.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct StageWork {
    rank: u32,
    time: Ns,
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
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LongestStage {
    pub(crate) stage: u32,
    pub(crate) rank: u32,
    /// To the median of the other stages.
    pub(crate) ratio: f64,
    pub(crate) verdict: StageVerdict,
    /// Whether there are other pipelines, and it is longer in all of them, too.
    pub(crate) is_of_all: bool,
    /// To the median of the same stage in other pipelines, if there are any.
    pub(crate) to_replicas: Option<f64>,
}

/// Sums of the chunks of a stage and kind.
#[derive(Default, Clone, Copy)]
struct StageSums {
    rank: u32,
    time: Ns,
    work: i64,
    count: i64,
}

fn works(job: &crate::job::Job, run: &PipelineRun) -> BTreeMap<u32, StageWork> {
    let mut sums: BTreeMap<(u32, &str), StageSums> = BTreeMap::new();
    for s in run.steps.iter().filter(|s| s.placed.has_stages) {
        for (rank, times) in s.placed.ranks.iter().zip(&s.times) {
            let part = rank.at.part.and_then(|p| job.parts.get(p as usize));
            for ((c, index), t) in rank.chunks.iter().zip(&rank.index).zip(times) {
                // Of two chunks at once it is not known what each takes.
                if c.chunk.with.is_some() {
                    continue;
                }
                let sum = sums.entry((c.chunk.first.stage, c.chunk.first.kind.letter())).or_default();
                sum.rank = rank.at.rank;
                sum.time += c.span.len() - t.inner_wait.min(c.span.len());
                sum.work += part.and_then(|p| p.chunks.get(*index)).map_or(0, |c| i64::from(c.work_count));
                sum.count += 1;
            }
        }
    }
    let mut out: BTreeMap<u32, StageWork> = BTreeMap::new();
    for ((stage, _), s) in sums {
        let work = out.entry(stage).or_default();
        work.rank = s.rank;
        work.time += s.time / s.count.max(1);
        work.work += s.work * 1000 / s.count.max(1);
    }
    out
}

/// The ratio of a stage to the median of the others.
fn ratio(works: &BTreeMap<u32, StageWork>, stage: u32, of: impl Fn(&StageWork) -> i64) -> Option<f64> {
    let mut others: Vec<i64> = works.iter().filter(|(s, _)| **s != stage).map(|(_, w)| of(w)).collect();
    let usual = median(&mut others).filter(|n| *n > 0)?;
    works.get(&stage).map(|w| of(w) as f64 / usual as f64)
}

/// The longest stage of each pipeline; `None` where all are as long as usual.
pub(crate) fn longest_stages(job: &crate::job::Job, pipelines: &Pipelines) -> Vec<Option<LongestStage>> {
    let all: Vec<BTreeMap<u32, StageWork>> = pipelines.runs.iter().map(|run| works(job, run)).collect();
    let longest = |own: usize| {
        let works = all.get(own)?;
        let (stage, work) = works.iter().max_by_key(|(s, w)| (w.time, std::cmp::Reverse(**s)))?;
        let found = ratio(works, *stage, |w| w.time).filter(|r| *r >= LEAST_RATIO)?;
        let is_longer_in = |other: &BTreeMap<u32, StageWork>| {
            ratio(other, *stage, |w| w.time).is_some_and(|r| r - 1.0 >= (found - 1.0) / 2.0)
        };
        let others = || all.iter().enumerate().filter(|(i, w)| *i != own && w.len() == works.len());
        let alike = others().filter(|(_, w)| is_longer_in(w)).count();
        let has_more = ratio(works, *stage, |w| w.work).is_some_and(|r| r >= LEAST_RATIO);
        let verdict = match (others().count(), has_more) {
            (_, true) => StageVerdict::TooMuchWork,
            (0, false) => StageVerdict::CannotTell,
            (n, false) if alike == n => StageVerdict::TooMuchWork,
            (_, false) if alike == 0 => StageVerdict::SlowRank,
            _ => StageVerdict::CannotTell,
        };
        let is_of_all = alike > 0 && alike == others().count();
        let mut replicas: Vec<Ns> = others().filter_map(|(_, w)| Some(w.get(stage)?.time)).collect();
        let usual = median(&mut replicas).filter(|ns| *ns > 0);
        let to_replicas = usual.map(|ns| work.time as f64 / ns as f64);
        Some(LongestStage { stage: *stage, rank: work.rank, ratio: found, verdict, is_of_all, to_replicas })
    };
    (0..all.len()).map(longest).collect()
}

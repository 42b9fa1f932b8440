//! Where the ranks of pipelines are in their bubble: from the first start to the last end of a chunk of the
//! pipeline, without their own chunks.

use crate::pipeline::measured::{PipelineStep, Pipelines};
use crate::pipeline::repairs::saved_by_hosts;
use hta_base::units::{Ns, Span};
use hta_job::Job;
use hta_job::delay::StepKey;
use hta_trace::interval::Union;

/// The bubble of one rank in one step, on the common axis.
#[derive(Debug)]
pub struct RankBubble {
    step: Option<StepKey>,
    gaps: Union,
    /// What of it launches, the host and other work explain, between chunks or inside, ns; `None` without
    /// reasons.
    pub of_hosts: Option<Ns>,
}

/// The bubbles of all ranks, by part of the job.
pub struct PipelineGaps(Vec<Vec<RankBubble>>);

impl PipelineGaps {
    pub fn of(job: &Job) -> Self {
        let mut out: Vec<Vec<RankBubble>> = job.parts.iter().map(|_| Vec::new()).collect();
        for s in Pipelines::of(job).runs.iter().flat_map(|run| &run.steps) {
            let lag = s.reasons.as_ref().ok().map(|r| r.lag.max(0));
            let of_hosts = lag.map(|lag| lag + saved_by_hosts(s).unwrap_or(0));
            for rank in &s.placed.ranks {
                let of_part = rank.at.part.and_then(|part| out.get_mut(part as usize));
                of_part
                    .into_iter()
                    .for_each(|of| of.push(RankBubble::of(s, of_hosts, rank.chunks.iter().map(|c| c.span))));
            }
        }
        Self(out)
    }

    /// The bubble of a rank in a step; `None` if no pipeline was measured there.
    pub fn of_step(&self, part: u32, step: Option<StepKey>) -> Option<&RankBubble> {
        self.0.get(part as usize)?.iter().find(|b| b.step == step)
    }
}

impl RankBubble {
    fn of(s: &PipelineStep, of_hosts: Option<Ns>, chunks: impl Iterator<Item = Span>) -> Self {
        let gaps = Union::new(Union::new(chunks).gaps_in(s.whole));
        Self { step: s.placed.step, gaps, of_hosts }
    }

    /// How much of a span of a part lies in the bubble, ns.
    pub fn holds(&self, job: &Job, part: u32, span: Span) -> Ns {
        self.gaps.len_in(job.aligned_span(part, span))
    }

    /// The bubble without some spans of a part, ns.
    pub fn outside(&self, job: &Job, part: u32, spans: &[Span]) -> Ns {
        self.gaps.len() - spans.iter().map(|span| self.holds(job, part, *span)).sum::<Ns>()
    }
}

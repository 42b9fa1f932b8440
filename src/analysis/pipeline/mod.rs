//! Pipelines of stages: the chunks of each rank, the schedule, and the bubble, divided exactly.
//!
//! ```text
//!   chain     which ranks are a pipeline  ->  placed    stage and micro-batch of each chunk
//!   measured  the bubble by position and by reason      what_if   replays of changes
//! ```

mod bubble;
pub mod bubble_words;
pub(crate) mod chain;
mod dual_pipe;
pub mod gaps;
pub mod measured;
mod order;
mod ordered;
mod placed;
mod repairs;
mod replay;
mod report;
pub mod stages;
pub mod tables;
mod transfers;
mod what_if;
mod zero_bubble;

use crate::api::{About, Analysis, Options, Output, Partial, RowEmitter};
use hta_job::Job;
use hta_job::recording::capability::Capability;
use hta_trace::rank_trace::RankTrace;
use stages::StagedPipelines;
use std::sync::Arc;

pub struct PipelineOf;

impl Analysis for PipelineOf {
    fn about(&self) -> About {
        About {
            stem: "pipeline",
            title: "pipeline stages: schedule, bubble and its reasons, and what a change would give",
            explain: include_str!("page.md"),
            tables: tables::ALL,
            views: &tables::VIEWS,
            joins_ranks: true,
            needs: &[Capability::Ranks],
            ..About::DEFAULT
        }
    }

    fn map(&self, trace: &RankTrace, _: &Options, _: &mut RowEmitter) -> Partial {
        Partial::joined_later(trace)
    }

    fn reduce(&self, _: &[Partial], job: &Job, options: &Options) -> Output {
        let mut staged = StagedPipelines::of(job);
        if let Some(filter) = &options.model.steps {
            staged = Arc::new(staged.in_steps(job, filter));
        }
        Output {
            tables: tables::build(job, &staged),
            notes: report::notes(job, &staged),
            ..Output::default()
        }
    }
}

//! Expert layers of mixture-of-experts models: how unequal their ranks are, by tokens or by time per token.

mod chances;
mod correlation;
pub mod imbalance;
mod notes;
pub mod tables;
mod words;

use crate::api::{About, AcrossOption, Analysis, Options, Output, Partial, RowEmitter, ViewNote};
use crate::collectives::GroupSelection;
use hta_facts::experts::expert_layers;
use hta_job::Job;
use hta_job::experts::JobLayers;
use hta_job::recording::capability::Capability;
use hta_trace::rank_trace::RankTrace;

pub struct Experts;

impl Analysis for Experts {
    fn about(&self) -> About {
        About {
            stem: "experts",
            title: "layers of experts: tokens, expert time, hot ranks, waiting in exchanges",
            explain: include_str!("page.md"),
            tables: tables::ALL,
            views: &tables::VIEWS,
            rollups: &tables::ROLLUPS,
            takes_steps: false,
            takes: &[AcrossOption::Group],
            joins_ranks: true,
            replays: true,
            needs: &[Capability::Ranks, Capability::Experts],
            ..About::DEFAULT
        }
    }

    fn map(&self, trace: &RankTrace, _: &Options, _: &mut RowEmitter) -> Partial {
        let reason = expert_layers(trace).is_empty().then_some("no exchanges of experts recorded");
        Partial { rank: trace.rank, tables: Vec::new(), reason }
    }

    fn reduce(&self, _: &[Partial], job: &Job, options: &Options) -> Output {
        let layers = JobLayers::of(job);
        let shown = GroupSelection::new(job, options);
        let notes = notes::notes(job, &layers).into_iter();
        Output {
            tables: tables::build(job, &layers, &shown),
            notes: notes.map(|text| ViewNote { view: "", text }).collect(),
            ..Output::default()
        }
    }
}

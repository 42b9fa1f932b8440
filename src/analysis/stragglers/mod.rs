//! Stragglers: which rank makes the others wait, for how long, since when, and why.

mod because;
mod by_work;
mod chance;
mod confirm;
mod delays;
mod job_chains;
mod judge;
mod judge_round;
mod judged;
mod late_sets;
mod marks;
mod report;
mod straggler;
pub mod tables;
mod why;

pub use because::{because, place};
pub use chance::{Balances, P_MOST, is_always_ahead};
pub use judge_round::{DEVIATIONS, SIGMA_OF_MAD};
pub use judged::{Judged, judged};
pub use marks::{LateMarks, WhereLate};
pub use report::{always_last, cannot_tell};
pub use report::{each_time, when};
pub use straggler::NoChance;
pub use straggler::Unproven;
pub use straggler::{Judgement, Pattern, Straggler};
pub use why::main_cause;
pub use why::{StepDifferences, reasons};

use crate::api::{About, AcrossOption, Analysis, Options, Output, Partial, RowEmitter};
use hta_job::Job;
use hta_job::recording::capability::Capability;
use hta_trace::rank_trace::RankTrace;

pub struct Stragglers;

impl Analysis for Stragglers {
    fn about(&self) -> About {
        About {
            stem: "stragglers",
            title: "which rank makes the others wait, since when, and why",
            explain: include_str!("page.md"),
            tables: tables::ALL,
            views: &[tables::VIEW],
            takes: &AcrossOption::ALL,
            joins_ranks: true,
            replays: true,
            needs: &[Capability::Ranks],
            ..About::DEFAULT
        }
    }

    fn map(&self, trace: &RankTrace, _: &Options, _: &mut RowEmitter) -> Partial {
        Partial::joined_later(trace)
    }

    fn reduce(&self, _: &[Partial], job: &Job, options: &Options) -> Output {
        let judged = judged(job, options);
        let Judged { judgement, why } = judged.as_ref();
        Output {
            tables: tables::build(job, judgement, why, options),
            notes: report::notes(job, judgement, options),
            ..Output::default()
        }
    }

    fn sentences(&self, _: &[Partial], job: &Job, options: &Options) -> Vec<String> {
        let judged = judged(job, options);
        report::sentences(job, &judged.judgement, &judged.why)
    }
}

//! Stragglers: which rank makes the others wait, for how long, since when, and why.

mod chance;
mod judge;
mod marks;
mod report;
pub(crate) mod tables;
mod why;

pub use judge::{DEVIATIONS, Judgement, Pattern, SIGMA_OF_MAD, Straggler, judge};
pub use marks::{LateMarks, WhereLate};
pub use report::because;
pub use why::{StepDifferences, explain, reasons};

use crate::analysis::api::{About, Analysis, Options, Output, Partial, RowEmitter};
use crate::job::Job;
use crate::trace::rank_trace::RankTrace;

pub struct Stragglers;

impl Analysis for Stragglers {
    fn about(&self) -> About {
        About {
            stem: "stragglers",
            title: "which rank makes the others wait, since when, and why",
            explain: include_str!("page.md"),
            tables: tables::ALL,
            takes_groups: true,
            joins_ranks: true,
            ..About::DEFAULT
        }
    }

    fn map(&self, trace: &RankTrace, _: &Options, _: &mut RowEmitter) -> Partial {
        Partial::joined_later(trace)
    }

    fn reduce(&self, partials: &[Partial], job: &Job, options: &Options) -> Output {
        let judged = judge(job, options);
        let why = explain(job, &judged);
        let sums = tables::delay_sums(job, &judged);
        Output {
            tables: tables::build(job, &judged, &sums, &why, options),
            observations: report::observations(job, &judged, &why),
            views: report::views(job, &judged, &sums, partials, options),
            ..Output::default()
        }
    }
}

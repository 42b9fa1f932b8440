//! Marks for `hta overlay`: a span for each step in which a rank is late, to be drawn beside the late rank's
//! events.
//!
//! The span is the local time that made the others wait: from the last synchronisation point to the arrival,
//! in the chain in which repairing the rank saves most. Not in the registry, because its table is drawn, not
//! printed.

use crate::api::{About, Analysis, Options, Output, Partial, RowEmitter};
use crate::stragglers::job_chains::JobChains;
use crate::stragglers::judged::{Judged, judged};
use crate::stragglers::report;
use hta_base::table;
use hta_base::table::schema::Text;
use hta_job::Job;
use hta_job::delay::Chain;
use hta_job::recording::capability::Capability;
use hta_trace::rank_trace::RankTrace;

table! {
    /// A late rank's local time in one step.
    pub struct LateMarks, LateMarkRow = "late_marks" by "rank, ts_ns" {
        rank: u32, "", "late rank";
        ts_ns: i64, "ns", "last synchronisation point, on the rank's own clock";
        dur_ns: i64, "ns", "up to its arrival";
        step: Text, "", "step, as `--steps` takes it";
        excess_ns: i64, "ns", "how much longer it worked than the others";
        gain_ns: i64, "ns", "what fixing it in this step would save";
        sentence: Text, "", "who is late, and why";
    }
}

pub struct WhereLate;

impl Analysis for WhereLate {
    fn about(&self) -> About {
        About {
            stem: "late-marks",
            title: "where late ranks were late",
            explain: "",
            tables: &[LateMarks::SPEC],
            joins_ranks: true,
            needs: &[Capability::Ranks],
            ..About::DEFAULT
        }
    }

    fn map(&self, trace: &RankTrace, _: &Options, _: &mut RowEmitter) -> Partial {
        Partial::joined_later(trace)
    }

    fn reduce(&self, _: &[Partial], job: &Job, options: &Options) -> Output {
        let shared = judged(job, options);
        let Judged { judgement: judged, why } = shared.as_ref();
        let sentences = report::sentences(job, judged, why);
        let chains = JobChains::of(job, options);
        let mut rows: Vec<LateMarkRow> = Vec::new();
        let steps: Vec<Vec<String>> =
            judged.stragglers.iter().map(|s| s.steps.iter().map(|(k, _)| k.shown()).collect()).collect();
        for ((straggler, sentence), shown) in judged.stragglers.iter().zip(&sentences).zip(&steps) {
            for ((step, parts), shown) in straggler.steps.iter().zip(shown) {
                for part in parts {
                    let of_step =
                        chains.all.iter().filter(|c| c.step == Some(*step) && c.late(*part).is_some());
                    let excess = |c: &Chain| c.late(*part).map_or(0, |l| l.excess());
                    let Some(worst) = of_step.max_by_key(|c| (c.own_gain(*part), excess(c))) else {
                        continue;
                    };
                    let Some(late) = worst.late(*part) else { continue };
                    let windows = chains.windows.get(*part as usize);
                    let Some(window) =
                        windows.and_then(|w| w.get(late.member.call as usize)).copied().flatten()
                    else {
                        continue;
                    };
                    rows.push(LateMarkRow {
                        rank: job.parts[*part as usize].rank,
                        ts_ns: window.span.start,
                        dur_ns: window.span.len(),
                        step: shown,
                        excess_ns: late.excess(),
                        gain_ns: worst.own_gain(*part),
                        sentence,
                    });
                }
            }
        }
        rows.sort_by_key(|r| (r.rank, r.ts_ns));
        let mut table = LateMarks::default();
        rows.into_iter().for_each(|r| table.push(r));
        Output { tables: vec![table.finish()], ..Output::default() }
    }
}

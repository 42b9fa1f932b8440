//! HTA's `get_potential_stragglers`.

mod heuristic;
mod rows;

use self::heuristic::{Choice, Rank, potential_stragglers};
use crate::hta::NAME;
use hta_analysis::api::{About, Analysis, Options, Output, Partial, RowEmitter, ViewNote};
use hta_base::table;
use hta_base::table::schema::Text;
use hta_base::table::view::{Note, ViewSpec};
use hta_job::Job;
use hta_trace::rank_trace::RankTrace;

table! {
    /// HTA's `get_potential_stragglers` with two candidates. There are no rows if HTA raises an exception.
    pub(crate) struct Potential, PotentialRow = "compat_hta_potential_stragglers" by "position" {
        position: u32, "", "position in HTA's list";
        rank: u32, "", "rank";
        points: i64, "", "number of steps in which the rank is among the latest to start";
        kernel: Text, "", "the kernel that HTA compares";
        stream: i64, "", "stream of the kernel";
    }
}

const VIEWS: [ViewSpec; 1] = [ViewSpec {
    title: "HTA's potential stragglers: who starts one kernel last",
    columns: &["rank", "points", "kernel"],
    notes: &[Note::Text(
        "it says who starts last, not who is slow, and always names two: see `hta explain stragglers`",
    )],
    ..ViewSpec::of(Potential::SPEC)
}];

pub(crate) struct HtaStragglers;

impl Analysis for HtaStragglers {
    fn about(&self) -> About {
        About {
            kept_tables: &[rows::StragglerEvents::SPEC],
            views: &VIEWS,
            // HTA does not compare clocks. The ranks are joined only to compute the clocks in the table
            // `ranks`, as for hta's own `stragglers`.
            joins_ranks: true,
            ..head!(Some(NAME), "stragglers", "HTA's potential stragglers", [Potential])
        }
    }

    fn map(&self, trace: &RankTrace, _: &Options, _: &mut RowEmitter) -> Partial {
        Partial { rank: trace.rank, tables: vec![rows::rows(trace)], reason: None }
    }

    fn reduce(&self, partials: &[Partial], _: &Job, _: &Options) -> Output {
        reduce(partials)
    }
}

fn reduce(partials: &[Partial]) -> Output {
    // The tables were made by `map` in this process, or read from a partial and checked against their
    // declaration.
    let ranks: Vec<Rank> = partials.iter().filter_map(rows::rank).collect();
    let mut table = Potential::default();
    let found = if ranks.len() < 2 {
        Err("one rank cannot be compared".to_string())
    } else {
        potential_stragglers(&ranks, &Choice::default()).map_err(|e| e.to_string())
    };
    let note = match found {
        Err(reason) => Some(format!("HTA has no answer here and raises an exception: {reason}")),
        Ok(s) => {
            for (position, rank) in s.ranks.iter().enumerate() {
                let points = s.points.iter().find(|(r, _)| r == rank).map_or(0, |(_, p)| *p);
                table.push(PotentialRow {
                    position: position as u32,
                    rank: u32::try_from(*rank).unwrap_or(u32::MAX),
                    points,
                    kernel: &s.kernel,
                    stream: s.stream,
                });
            }
            s.tied.then(|| {
                "another rank has as many points: which one HTA names depends on the machine".to_string()
            })
        }
    };
    let notes = note.map(|text| ViewNote { view: "", text }).into_iter().collect();
    Output { tables: vec![table.finish()], notes, ..Output::default() }
}

//! An analysis answered from results: the tables that a run has left are what its ranks left, so the analysis
//! reduces them once more, to the same words.
//!
//! That holds for analyses that look at one rank after the other and keep nothing besides their tables. Of
//! the others the tables can be had, but not the text.

use crate::results::constant::constant;
use crate::results::{Results, ResultsError, columns, is_declared, told};
use crate::run::Outcome;
use crate::run::reduce::{leave_out_for_serving, note_cut_ends};
use crate::run::withhold::withhold;
use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_select::concat::concat_batches;
use hta_analysis::api::{Analysis, Options, Partial};
use hta_analysis::inventory::record_edges::RecordEdgeTable;
use hta_analysis::inventory::without_rows::WithoutRows;
use hta_analysis::inventory::{HealthTable, KernelRules, Ranks, push_counter};
use hta_analysis::job::Job;
use hta_analysis::recording::Recording;
use hta_analysis::recording::facts::Recordings;
use hta_base::health::{Counter, Health};
use hta_base::table::schema::{Batch, TableSpec, Text};
use std::collections::BTreeMap;

columns! {
    Rank of Ranks { rank }
}

columns! {
    Counted of HealthTable {
        rank: Option<u32>, file: Text, counter: Text, count: u64,
    }
}

columns! {
    Lacking of WithoutRows { rank, analysis: Text, reason: Text }
}

/// Whether the text of an analysis follows from its tables.
fn has_text(analysis: &dyn Analysis) -> bool {
    !joins(analysis) && analysis.about().kept_tables.is_empty()
}

fn joins(analysis: &dyn Analysis) -> bool {
    let about = analysis.about();
    about.joins_ranks || about.joins_peers
}

/// What a run of these analyses would find. Those whose text does not follow from tables are left out.
///
/// # Errors
/// When a table is missing or damaged.
pub fn from_results(
    results: &Results,
    analyses: &[&'static dyn Analysis],
    options: &Options,
) -> Result<Outcome, ResultsError> {
    let mut ranks: BTreeMap<u32, Partial> = BTreeMap::new();
    results.read::<Rank>(|r| {
        ranks.insert(r.rank, Partial { rank: r.rank, ..Partial::default() });
    })?;
    let mut reasons: BTreeMap<(&'static str, u32), &'static str> = BTreeMap::new();
    results.read::<Lacking>(|r| {
        let analysis = analyses.iter().find(|a| r.analysis == a.stem());
        reasons.extend(analysis.zip(constant(r.reason)).map(|(a, reason)| ((a.stem(), r.rank), reason)));
    })?;
    let mut inventory = ranks.clone();
    for spec in [Ranks::SPEC, Recordings::SPEC, RecordEdgeTable::SPEC, KernelRules::SPEC] {
        divide(results, spec, &mut inventory)?;
    }
    divide_cut_ends(results, &mut inventory)?;
    let inventory: Vec<Partial> = inventory.into_values().collect();
    let recordings = inventory.iter().filter_map(|p| p.table(Recordings::SPEC)).cloned().collect();
    let nobody = Job::nobody(options.across.clock);
    Recording::of(recordings, &nobody).give_to(&nobody);
    let mut outputs = Vec::new();
    for analysis in analyses {
        if is_declared(*analysis) {
            outputs.push((*analysis, told(results, *analysis, options)?));
            continue;
        }
        let reason = |rank: &u32| reasons.get(&(analysis.stem(), *rank)).copied();
        // Where no rank has rows, their reasons are the text.
        let is_known = has_text(*analysis) || !joins(*analysis) && ranks.keys().all(|r| reason(r).is_some());
        if !is_known {
            continue;
        }
        let mut partials = ranks.clone();
        for spec in analysis.tables() {
            divide(results, spec, &mut partials)?;
        }
        partials.iter_mut().for_each(|(rank, partial)| partial.reason = reason(rank));
        let partials: Vec<Partial> = partials.into_values().collect();
        let mut output = analysis.reduce(&partials, &nobody, options);
        withhold(&mut output, *analysis, &partials, &nobody, options);
        outputs.push((*analysis, output));
    }
    let (declared, mut reduced): (Vec<_>, Vec<_>) = outputs.into_iter().partition(|(a, _)| is_declared(*a));
    leave_out_for_serving(&inventory, &mut reduced);
    note_cut_ends(&inventory, &mut reduced);
    let place = |(analysis, _): &(&'static dyn Analysis, _)| {
        analyses.iter().position(|a| a.stem() == analysis.stem())
    };
    let mut outputs: Vec<_> = declared.into_iter().chain(reduced).collect();
    outputs.sort_by_key(place);
    Ok(Outcome {
        inventory,
        outputs,
        refused: Vec::new(),
        set_health: Health::default(),
        rank_health: Vec::new(),
        unpacked_bytes: 0,
        clocks: Vec::new(),
        recording: Recording::of_job(&nobody),
    })
}

/// Gives the ranks whose recorder cuts the ends of activities their row of health. No text needs the others.
fn divide_cut_ends(results: &Results, partials: &mut BTreeMap<u32, Partial>) -> Result<(), ResultsError> {
    results.read::<Counted>(|r| {
        let of_rank = r.rank.and_then(|rank| partials.get_mut(&rank));
        if let Some(partial) = of_rank.filter(|_| r.counter == Counter::StreamEndsCut.spec().name) {
            let mut table = HealthTable::default();
            push_counter(&mut table, r.rank, r.file, Counter::StreamEndsCut, r.count, None, "");
            partial.tables.push(table.finish());
        }
    })?;
    Ok(())
}

/// Gives each rank its rows of a table. A table without ranks was made when all were known, and will be
/// again.
fn divide(
    results: &Results,
    spec: &'static TableSpec,
    partials: &mut BTreeMap<u32, Partial>,
) -> Result<(), ResultsError> {
    if spec.columns.first().is_none_or(|c| c.name != "rank" || c.nullable) {
        return Ok(());
    }
    let batches = results.batches(spec)?.ok_or_else(|| results.no_table(spec))?;
    let mut rows: BTreeMap<u32, Vec<RecordBatch>> = BTreeMap::new();
    for all in batches.iter().map(Batch::rows) {
        let Some(ranks) = all.columns().first().and_then(|c| c.as_primitive_opt::<UInt32Type>()) else {
            continue;
        };
        let mut from = 0;
        for run in ranks.values().chunk_by(|a, b| a == b) {
            rows.entry(run[0]).or_default().push(all.slice(from, run.len()));
            from += run.len();
        }
    }
    for (rank, own) in rows {
        let Some(partial) = partials.get_mut(&rank) else { continue };
        let path = results.folder();
        let own = concat_batches(&spec.schema(), &own);
        let own =
            own.map_err(|e| ResultsError::damaged(path, "the columns that `hta explain` declares", e))?;
        partial.tables.push(Batch::new(spec, own));
    }
    Ok(())
}

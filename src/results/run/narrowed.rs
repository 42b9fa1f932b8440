//! Results narrowed to some ranks or steps: the tables that a run on these alone would leave, in memory.
//!
//! What an analysis leaves of a rank are its tables, so that of chosen ranks all that follows from them is
//! made once more: sums over ranks, and what is said of them. That holds for analyses that look at one rank
//! after the other. Those that compare ranks are refused, because each of their rows depends on all ranks.

use crate::results::{Results, ResultsError, columns};
use crate::run::reduce::{note_cut_ends, note_doubts};
use crate::run::withhold::say;
use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_array::{BooleanArray, RecordBatch};
use arrow_select::concat::concat_batches;
use arrow_select::filter::filter_record_batch;
use hta_analysis::api::{Analysis, Options, Partial};
use hta_analysis::filters;
use hta_analysis::inventory::notes;
use hta_analysis::inventory::record_edges::RecordEdgeTable;
use hta_analysis::inventory::without_rows::WithoutRows;
use hta_analysis::inventory::{HealthTable, KernelRules, Ranks};
use hta_base::table::schema::{Batch, TableSpec};
use hta_base::table::windows::{has_rows_of_all_steps, steps_of_rows};
use hta_base::wording::ranks::ranks_named;
use hta_job::Job;
use hta_job::recording::Recording;
use hta_job::recording::facts::Recordings;
use hta_trace::rank_trace::StepFilter;
use std::collections::{BTreeMap, BTreeSet};

columns! {
    NamedRank of Ranks { rank }
}

/// The tables of the inventory that sentences are made of.
const OF_INVENTORY: [&TableSpec; 5] =
    [Ranks::SPEC, Recordings::SPEC, RecordEdgeTable::SPEC, KernelRules::SPEC, HealthTable::SPEC];

/// The results of these ranks (inclusive ranges; all if empty) and of the steps that the options choose.
///
/// # Errors
/// When an analysis compares ranks or has figures of all steps together, nothing is chosen, or a table is
/// missing or damaged.
pub fn narrowed(
    results: &Results,
    analyses: &[&'static dyn Analysis],
    options: &Options,
    ranks: &[(u32, u32)],
) -> Result<Results, ResultsError> {
    let option = if ranks.is_empty() { "--steps" } else { "--ranks" };
    let chosen = chosen_ranks(results, ranks)?;
    for analysis in analyses {
        let (about, analysis) = (analysis.about(), analysis.stem());
        if about.joins_ranks || about.joins_peers {
            return Err(ResultsError::NotNarrowed { option, analysis });
        }
        if !about.kept_tables.is_empty() {
            return Err(ResultsError::NotHeld { option, analysis });
        }
    }
    let of_ranks = |spec| divided(results, spec, &chosen);
    let mut inventory: BTreeMap<u32, Partial> =
        chosen.iter().map(|rank| (*rank, Partial { rank: *rank, ..Partial::default() })).collect();
    for spec in OF_INVENTORY {
        for (rank, batch) in of_ranks(spec)? {
            inventory.entry(rank).or_default().tables.push(batch);
        }
    }
    let inventory: Vec<Partial> = inventory.into_values().collect();
    let nobody = Job::nobody(options.across.clock);
    let recordings = inventory.iter().filter_map(|p| p.table(Recordings::SPEC)).cloned().collect();
    Recording::of(recordings, &nobody).give_to(&nobody);
    let (mut outputs, mut steps) = (Vec::new(), BTreeSet::new());
    for analysis in analyses {
        let about = analysis.about();
        let mut partials: BTreeMap<u32, Partial> =
            chosen.iter().map(|rank| (*rank, Partial { rank: *rank, ..Partial::default() })).collect();
        let is_rolled = |spec: &TableSpec| about.rollups.iter().any(|r| r.table.name == spec.name);
        let is_printed = |spec: &TableSpec| about.views.iter().any(|view| view.of.name == spec.name);
        for spec in about.tables.iter().filter(|spec| !is_rolled(spec)) {
            for (rank, batch) in of_ranks(spec)? {
                let batch = match &options.model.steps {
                    Some(_) if is_printed(spec) && has_rows_of_all_steps(&batch) => {
                        let (analysis, table) = (analysis.stem(), spec.name);
                        return Err(ResultsError::OfAllSteps { analysis, table });
                    }
                    Some(filter) => of_steps(&batch, filter, &mut steps),
                    None => batch,
                };
                partials.entry(rank).or_default().tables.push(batch);
            }
        }
        let partials: Vec<Partial> = partials.into_values().collect();
        let mut output = analysis.reduce(&partials, &nobody, options);
        say(&mut output, *analysis, &partials, &nobody, options);
        analysis.complete(&partials, &mut output);
        outputs.push((*analysis, output));
    }
    // Without a row of a step these tables cannot say which steps there are.
    if let Some(filter) = options.model.steps.as_ref().filter(|_| !steps.is_empty()) {
        filters::check_steps(filter, &steps.into_iter().collect::<Vec<_>>())?;
    }
    note_cut_ends(&inventory, &mut outputs);
    note_doubts(&Recording::of_job(&nobody), &mut outputs);
    let notes = notes::table(&inventory, outputs.iter().map(|(analysis, output)| (analysis.stem(), output)));
    let reasons = of_ranks(WithoutRows::SPEC)?.into_iter().map(|(_, batch)| batch);
    let tables = outputs.into_iter().flat_map(|(_, output)| output.tables);
    let tables = inventory.into_iter().flat_map(|p| p.tables).chain(reasons).chain(tables).chain([notes]);
    Ok(Results::in_memory(results.folder().clone(), tables))
}

/// The ranks that are asked for, of those that the results have.
fn chosen_ranks(results: &Results, asked: &[(u32, u32)]) -> Result<BTreeSet<u32>, ResultsError> {
    let mut all = BTreeSet::new();
    results.read::<NamedRank>(|r| {
        all.insert(r.rank);
    })?;
    let is_asked = |rank: &u32| asked.is_empty() || asked.iter().any(|(a, b)| (*a..=*b).contains(rank));
    let chosen: BTreeSet<u32> = all.iter().copied().filter(is_asked).collect();
    if chosen.is_empty() {
        return Err(ResultsError::NoSuchRank(ranks_named(&all.into_iter().collect::<Vec<_>>())));
    }
    Ok(chosen)
}

/// The rows of each chosen rank of a table, whose first column is the rank. Of another table none: it was
/// made when all ranks were known, and is made again.
fn divided(
    results: &Results,
    spec: &'static TableSpec,
    chosen: &BTreeSet<u32>,
) -> Result<Vec<(u32, Batch)>, ResultsError> {
    if spec.columns.first().is_none_or(|c| c.name != "rank") {
        return Ok(Vec::new());
    }
    let batches = results.batches(spec)?.ok_or_else(|| results.no_table(spec))?;
    let mut rows: BTreeMap<u32, Vec<RecordBatch>> = BTreeMap::new();
    for all in batches.iter().map(Batch::rows) {
        let Some(ranks) = all.columns().first().and_then(|c| c.as_primitive_opt::<UInt32Type>()) else {
            continue;
        };
        let mut from = 0;
        for run in ranks.values().chunk_by(|a, b| a == b) {
            if chosen.contains(&run[0]) {
                rows.entry(run[0]).or_default().push(all.slice(from, run.len()));
            }
            from += run.len();
        }
    }
    let whole = |(rank, rows): (u32, Vec<RecordBatch>)| {
        let whole = concat_batches(&spec.schema(), &rows).map_err(|e| {
            ResultsError::damaged(results.folder(), "the columns that `hta explain` declares", e)
        })?;
        Ok((rank, Batch::new(spec, whole)))
    };
    rows.into_iter().map(whole).collect()
}

/// The rows of a table without those of steps that are not chosen. Adds the steps that there are.
fn of_steps(batch: &Batch, filter: &StepFilter, steps: &mut BTreeSet<(u32, Option<i64>)>) -> Batch {
    let of_rows = steps_of_rows(batch);
    // Tables without the numbers in names cannot tell which steps there are.
    let has_labels = batch.spec.column_spec("step_label").is_some();
    steps.extend(of_rows.iter().flatten().filter(|_| has_labels));
    let is_kept = |step: &Option<(u32, Option<i64>)>| step.is_none_or(|(i, label)| filter.keeps(i, label));
    kept_rows(batch, of_rows.iter().map(is_kept))
}

/// The rows of a table that are kept, by one answer for each row.
pub(super) fn kept_rows(batch: &Batch, kept: impl Iterator<Item = bool>) -> Batch {
    let kept: BooleanArray = kept.map(Some).collect();
    match filter_record_batch(&batch.rows(), &kept) {
        Ok(rows) => Batch::new(batch.spec, rows),
        Err(_) => batch.clone(),
    }
}

//! Results narrowed to some process groups: the rows of these groups in the tables of analyses that `--group`
//! narrows, as a run with that option would leave them.
//!
//! Groups are matched, and waiting is divided, among all ranks before rows are chosen. What is left out
//! changes no row of the rest, but only what is summed over rows.

use crate::results::{Results, ResultsError, columns, is_told_from};
use crate::run::narrowed::kept_rows;
use hta_analysis::api::Analysis;
use hta_analysis::collectives::tables::ProcessGroups;
use hta_analysis::efficiency::Efficiencies;
use hta_analysis::filters;
use hta_analysis::sync::Syncs;
use hta_base::table::column::Column;
use hta_base::table::schema::{Batch, TableSpec, Text};
use std::collections::{BTreeMap, BTreeSet};

columns! {
    NamedGroup of ProcessGroups { process_group: Text, name: Option<Text>, description: Option<Text> }
}

/// The column with the name of a group, as all tables show it.
const GROUP: &str = "process_group";

/// Tables in which a row without a group is of all ranks, and stays. In the others it is of calls of which
/// the group is not known.
const WITH_ALL_RANKS: [&str; 2] = [Efficiencies::SPEC.name, Syncs::SPEC.name];

/// The analysis whose rows depend on the groups that are chosen: it judges the waiting of their calls alone.
const JUDGES: &str = "stragglers";

/// The results of groups with these names: of the table `only`, or of all tables that the text is made of.
///
/// # Errors
/// When there is no such group, the rows of an analysis depend on the choice, or a table is missing or
/// damaged.
pub fn of_groups(
    results: Results,
    analyses: &[&'static dyn Analysis],
    asked: &[String],
    only: Option<&'static TableSpec>,
) -> Result<Results, ResultsError> {
    let shown = shown_groups(&results, asked)?;
    if analyses.iter().any(|analysis| analysis.stem() == JUDGES) {
        return Err(ResultsError::NotNarrowed { option: "--group", analysis: JUDGES });
    }
    let mut tables: BTreeMap<&'static str, Vec<Batch>> = BTreeMap::new();
    for analysis in analyses {
        let about = analysis.about();
        let is_asked = |spec: &TableSpec| match only {
            Some(table) => spec.name == table.name,
            None => is_told_from(*analysis, spec),
        };
        let is_rolled = |spec: &TableSpec| about.rollups.iter().any(|r| r.table.name == spec.name);
        let is_read = |spec: &TableSpec| about.rollups.iter().any(|r| is_asked(r.table) && r.reads(spec));
        let own = about.tables.iter().filter(|spec| spec.column_spec(GROUP).is_some() && !is_rolled(spec));
        for spec in own.filter(|spec| is_asked(spec) || is_read(spec)) {
            let batches = results.batches(spec)?.ok_or_else(|| results.no_table(spec))?;
            tables.insert(spec.name, batches.iter().map(|batch| of_shown(batch, &shown)).collect());
        }
        for rollup in about.rollups.iter().filter(|rollup| is_asked(rollup.table)) {
            if let Some(rows) = tables.get(rollup.of.name) {
                let folded = rollup.fold(rows);
                tables.insert(rollup.table.name, vec![folded]);
            }
        }
    }
    Ok(results.with_tables(tables))
}

/// The groups that are asked for by a name, a description, or as tables show them.
fn shown_groups(results: &Results, asked: &[String]) -> Result<BTreeSet<String>, ResultsError> {
    let (mut all, mut shown, mut known) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    let is_there = results.read::<NamedGroup>(|r| {
        let names = [Some(r.process_group), r.name, r.description];
        for name in asked.iter().filter(|name| names.contains(&Some(name.as_str()))) {
            known.insert(name.clone());
            shown.insert(r.process_group.to_string());
        }
        all.push(r.process_group.to_string());
    })?;
    if !is_there {
        return Err(results.no_table(ProcessGroups::SPEC));
    }
    match asked.iter().find(|name| !known.contains(*name)) {
        Some(name) => Err(filters::no_group(name, all.into_iter()).into()),
        None => Ok(shown),
    }
}

/// The rows of the groups that are shown.
fn of_shown(batch: &Batch, shown: &BTreeSet<String>) -> Batch {
    let rows = batch.rows();
    let Some(groups) = rows.column_by_name(GROUP).and_then(Column::new) else { return batch.clone() };
    let has_all_ranks = WITH_ALL_RANKS.contains(&batch.spec.name);
    let is_shown = |row| groups.text(row).map_or(has_all_ranks, |group| shown.contains(group));
    kept_rows(batch, (0..rows.num_rows()).map(is_shown))
}

//! Which pipelines the page draws, where a job has many: the one with the largest bubble, the one in the
//! middle of all, and then those with the next largest.

use hta_analysis::pipeline::tables::{PipelineChunks, PipelineTable};
use hta_base::table::column::Column;
use hta_base::table::view::{RowTest, TableError, ViewScope};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Columns that tell a pipeline in a step.
pub(crate) const KEY: &[&str] = &["pipeline", "step", "step_label"];
/// Most chunks of several pipelines.
const CHUNKS: usize = 4_000;

/// A row's cells in these columns.
type PipelineKey = Vec<Option<i64>>;

/// Whether a row is of a pipeline that is drawn.
///
/// # Errors
/// When a table is damaged.
pub(crate) fn drawn(scope: &ViewScope) -> Result<RowTest, TableError> {
    let key = |columns: &[Column], row: usize| columns.iter().map(|c| c.int(row)).collect::<PipelineKey>();
    let mut chunks: BTreeMap<PipelineKey, usize> = BTreeMap::new();
    scope.tables.each_row(PipelineChunks::SPEC, KEY, &mut |columns, row| {
        *chunks.entry(key(columns, row)).or_default() += 1;
    })?;
    let mut all: Vec<(i64, PipelineKey)> = Vec::new();
    let with_bubble = ["pipeline", "step", "step_label", "bubble_ns"];
    scope.tables.each_row(PipelineTable::SPEC, &with_bubble, &mut |columns, row| {
        let mut cells = key(columns, row);
        all.push((cells.pop().flatten().unwrap_or(0), cells));
    })?;
    all.sort_by_key(|(bubble, key)| (Reverse(*bubble), key.clone()));
    let middle = all.len() / 2;
    let order = all.iter().take(1).chain(all.get(middle)).chain(all.iter().skip(1));
    let mut out: BTreeSet<PipelineKey> = BTreeSet::new();
    let mut sum = 0;
    for (_, key) in order {
        let count = chunks.get(key).copied().unwrap_or(0);
        if count == 0 || out.contains(key) {
            continue;
        }
        sum += count;
        if sum > CHUNKS && !out.is_empty() {
            break;
        }
        out.insert(key.clone());
    }
    Ok(Box::new(move |columns, row| out.contains(&key(columns, row))))
}

//! Which pipelines the page draws, where a job has many: the one with the largest bubble, the one in the
//! middle of all, and then those with the next largest.

use crate::output::html::listed::RowKeys;
use crate::results::{Results, ResultsError, columns};
use hta_analysis::pipeline::tables::{PipelineChunks, PipelineTable};
use std::cmp::Reverse;
use std::collections::BTreeMap;

columns! {
    PipelineBubble of PipelineTable { pipeline: u32, step, step_label, bubble_ns: i64 }
}

columns! {
    PipelineChunk of PipelineChunks { pipeline: u32, step, step_label }
}

/// Columns that tell a pipeline in a step.
pub(crate) const KEY: &[&str] = &["pipeline", "step", "step_label"];
/// Most chunks of several pipelines.
const CHUNKS: usize = 4_000;

/// The keys of the pipelines that are drawn.
///
/// # Errors
/// When a table is damaged.
pub(crate) fn drawn(results: &Results) -> Result<RowKeys, ResultsError> {
    let key = |pipeline: u32, step: Option<u32>, label: Option<i64>| {
        vec![Some(i64::from(pipeline)), step.map(i64::from), label]
    };
    let mut chunks: BTreeMap<Vec<Option<i64>>, usize> = BTreeMap::new();
    results.read::<PipelineChunk>(|r| {
        *chunks.entry(key(r.pipeline, r.step, r.step_label)).or_default() += 1;
    })?;
    let mut all = Vec::new();
    results.read::<PipelineBubble>(|r| all.push((r.bubble_ns, key(r.pipeline, r.step, r.step_label))))?;
    all.sort_by_key(|(bubble, key)| (Reverse(*bubble), key.clone()));
    let middle = all.len() / 2;
    let order = all.iter().take(1).chain(all.get(middle)).chain(all.iter().skip(1));
    let mut out = RowKeys::new();
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
    Ok(out)
}

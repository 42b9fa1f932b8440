//! The section on iterations of an inference engine over time, by phase.

use crate::output::html::grid::{Section, missing};
use crate::output::html::overview::PageRanks;
use crate::output::html::texts::Texts;
use crate::results::{Results, ResultsError, columns};
use hta_analysis::iterations::tables::IterationsTable;
use hta_base::table;
use hta_base::table::schema::Text;

/// Largest number of iterations shown.
const MOST: usize = 4_000;

columns! {
    Iteration of IterationsTable {
        rank, device, step: u32, label: Text, phase: Option<Text>, requests: Option<u64>, tokens: Option<u64>,
        is_slow: Option<bool>, ts_ns: i64, dur_ns: i64, window_busy_ns: i64,
    }
}

table! {
    /// Iterations that are shown.
    struct ShownIterations, ShownIterationRow = "iterations" by "rank, device, step" {
        rank;
        device: Option<i64>, "", "device";
        step: u32, "", "index of the iteration in time", "iteration";
        phase: Text, "", "prefill, decode, mixed, ...; `hta explain iterations`";
        label: Text, "", "phase, requests, tokens and mean KV length in words", "what";
        requests: Option<u64>, "", "requests, in both phases";
        tokens: Option<u64>, "", "scheduled tokens";
        start_ns: i64, "ns", "start of its window, after the first event of the set";
        dur_ns: i64, "ns", "length of its window on the device", "length";
        busy_ns: i64, "ns", "part of the window in which the device runs something";
        slow: bool, "", "1: longer than usual for its phase and batch";
    }
}

/// # Errors
/// When the table is damaged.
pub(crate) fn section(
    results: &Results,
    ranks: &PageRanks,
    texts: &mut Texts,
) -> Result<Section, ResultsError> {
    let mut count = 0usize;
    let there = results.read::<Iteration>(|_| count += 1)?;
    if count == 0 {
        let none = "No iterations of an inference engine were recorded.";
        return Ok(Section::without(if there { none.to_string() } else { missing("iterations") }));
    }
    let mut shown = ShownIterations::default();
    // Where there are too many, only every few are shown, and all slow ones that fit.
    let every = count.div_ceil(MOST).max(1);
    let first = ranks.captures.values().map(|c| c.first).min().unwrap_or(0);
    let (mut row, mut slow, mut left) = (0usize, 0, 0);
    results.read::<Iteration>(|r| {
        let is_chosen = row.is_multiple_of(every);
        row += 1;
        let is_slow = r.is_slow == Some(true);
        if !is_chosen {
            if !is_slow || slow == MOST {
                left += 1;
                return;
            }
            slow += 1;
        }
        let offset = ranks.offsets.get(&r.rank).copied().unwrap_or(0);
        shown.push(ShownIterationRow {
            rank: r.rank,
            device: r.device,
            step: r.step,
            phase: r.phase.unwrap_or("unknown"),
            label: r.label,
            requests: r.requests,
            tokens: r.tokens,
            start_ns: r.ts_ns - offset - first,
            dur_ns: r.dur_ns,
            busy_ns: r.window_busy_ns,
            slow: is_slow,
        });
    })?;
    let mut grid = texts.grid(shown);
    grid.leave_out(left, Vec::new());
    Ok(Section::default().with("iterations", grid))
}

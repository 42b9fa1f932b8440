//! The section on source lines: host time of each line of user code over all ranks, and the GPU work launched
//! there.

use crate::output::html::grid::{Grid, Section, missing};
use crate::output::html::overview::nothing;
use crate::output::html::texts::Texts;
use crate::results::{Results, ResultsError, columns};
use hta_analysis::lines::LinesOverRanks;
use hta_base::table;
use hta_base::table::schema::Text;

/// Largest number of lines listed.
const MOST: usize = 400;

/// Marks lines on threads that run no operator; they are listed last.
const IDLE: &str = "idle";

columns! {
    Line of LinesOverRanks {
        scope, file: Option<Text>, line: Option<u32>, function: Option<Text>, module: Option<Text>,
        is_idle_thread: bool, calls: u64, host_self_ns: i64, host_total_ns: i64, native_ns: i64, python_ns: i64,
        blocked_ns: i64, gpu_sum_ns: i64, bwd_gpu_sum_ns: Option<i64>, rank_count: u32, max_rank: u32,
        max_rank_ns: i64,
    }
}

table! {
    /// Lines of user code.
    struct ShownLines, ShownLineRow = "lines_over_ranks" by "self_ns descending, name" {
        name: Text, "", "file and line of the calls; of a function, where it is defined", "line";
        thread: Text, "", "idle: on threads that run no operator and make no API call";
        self_ns: i64, "ns", "time in which a thread is here, over all ranks", "own time";
        native_ns: i64, "ns", "part of it in operators, API calls and built-in functions";
        python_ns: i64, "ns", "the rest: Python code", "Python";
        total_ns: i64, "ns", "with the user code that it calls", "time";
        blocked_ns: i64, "ns", "synchronizing calls made here";
        gpu_ns: i64, "ns", "GPU work launched here", "GPU time";
        bwd_gpu_ns: i64, "ns", "GPU work of its backward pass", "backward GPU";
        calls: u64, "", "calls made here";
        ranks: u64, "", "ranks that have it";
        most_ns: i64, "ns", "own time on the rank with most of it", "largest";
        most_rank: u32, "", "that rank", "on rank";
    }
}

/// The text of a Python frame, which the page links to its source.
fn name(r: &Line) -> String {
    let file = r.file.or(r.module).unwrap_or_default();
    match (r.line, r.function) {
        (Some(line), Some(function)) => format!("{file}({line}): {function}"),
        (Some(line), None) => format!("{file}:{line}"),
        _ => file.to_string(),
    }
}

/// # Errors
/// When the table is damaged.
pub(crate) fn section(results: &Results, texts: &mut Texts) -> Result<Section, ResultsError> {
    let mut grid = Grid::whole(ShownLines::SPEC);
    let there = results.read::<Line>(|r| {
        if r.scope != "capture" {
            return;
        }
        let calls = i64::try_from(r.calls).unwrap_or(i64::MAX);
        let (backward, total) = (r.bwd_gpu_sum_ns.unwrap_or(0), r.host_total_ns);
        let sums =
            [r.host_self_ns, r.native_ns, r.python_ns, total, r.blocked_ns, r.gpu_sum_ns, backward, calls];
        grid.list(MOST, sums, || {
            let thread = if r.is_idle_thread { IDLE } else { "" };
            let ranks = vec![r.rank_count.into(), r.max_rank_ns.into(), r.max_rank.into()];
            ([texts.cell(&name(&r)), texts.cell(thread)], ranks)
        });
    })?;
    if grid.len() == 0 {
        let none = "No lines: the traces were recorded without stacks (with_stack=True).";
        return Ok(Section::without(if there {
            nothing(results, none)?
        } else {
            missing("lines_over_ranks")
        }));
    }
    Ok(Section::default().with("lines", grid))
}

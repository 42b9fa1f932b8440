//! The section on source lines: host time of each line of user code over all ranks, and the GPU work launched there.

use crate::output::html::grid::{CellType, Grid, Section, missing};
use crate::output::html::tally::Tally;
use crate::output::html::texts::Texts;
use crate::results::{Results, ResultsError, columns};
use hta_analysis::lines::LinesTable;
use hta_base::table::schema::Text;

/// Largest number of lines listed.
const MOST: usize = 400;

/// Marks lines on threads that run no operator; they are listed last.
const IDLE: &str = "idle";

columns! {
    Line of LinesTable {
        rank, scope, file: Option<Text>, line: Option<u32>, function: Option<Text>, module: Option<Text>,
        is_idle_thread: bool, calls: u64, host_self_ns: i64, host_total_ns: i64, native_ns: i64, python_ns: i64,
        blocked_ns: i64, gpu_sum_ns: i64, bwd_gpu_sum_ns: Option<i64>,
    }
}

/// # Errors
/// When the table is damaged.
pub(crate) fn section(results: &Results, texts: &mut Texts) -> Result<Section, ResultsError> {
    let mut lines: Tally<2, 8> = Tally::default();
    let there = results.read::<Line>(|r| {
        if r.scope != "capture" {
            return;
        }
        let file = r.file.or(r.module).unwrap_or_default();
        // The text of a Python frame, which the page links to its source.
        let name = match (r.line, r.function) {
            (Some(line), Some(function)) => format!("{file}({line}): {function}"),
            (Some(line), None) => format!("{file}:{line}"),
            _ => file.to_string(),
        };
        let values = [
            r.host_self_ns,
            r.native_ns,
            r.python_ns,
            r.host_total_ns,
            r.blocked_ns,
            r.gpu_sum_ns,
            r.bwd_gpu_sum_ns.unwrap_or(0),
            i64::try_from(r.calls).unwrap_or(i64::MAX),
        ];
        lines.add([&name, if r.is_idle_thread { IDLE } else { "" }], r.rank, values);
    })?;
    if lines.is_empty() {
        let none = "No lines: the traces were recorded without stacks (with_stack=True).";
        return Ok(Section::without(if there { none.to_string() } else { missing("lines") }));
    }
    let mut grid = Grid::new(
        "lines",
        &[
            ("name", "line", CellType::Text, "file and line of the calls; of a function, where it is defined"),
            ("thread", "thread", CellType::Text, "idle: on threads that run no operator and make no API call"),
            ("self_ns", "own time", CellType::Ns, "time in which a thread is here, over all ranks"),
            ("native_ns", "native", CellType::Ns, "part of it in operators, API calls and built-in functions"),
            ("python_ns", "Python", CellType::Ns, "the rest: Python code"),
            ("total_ns", "time", CellType::Ns, "with the user code that it calls"),
            ("blocked_ns", "blocked", CellType::Ns, "synchronizing calls made here"),
            ("gpu_ns", "GPU time", CellType::Ns, "GPU work launched here"),
            ("bwd_gpu_ns", "backward GPU", CellType::Ns, "GPU work of its backward pass"),
            ("calls", "calls", CellType::Count, "calls made here"),
            ("ranks", "ranks", CellType::Count, "ranks that have it"),
            ("most_ns", "largest", CellType::Ns, "own time on the rank with most of it"),
            ("most_rank", "on rank", CellType::Id, "that rank"),
        ],
    );
    lines.fill_with_last(
        &mut grid,
        texts,
        MOST,
        |key| key[1] == IDLE,
        |t, _| vec![t.ranks.into(), t.most.0.into(), t.most.1.into()],
    );
    Ok(Section::default().with("lines", grid))
}

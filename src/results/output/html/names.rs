//! Sections by name over all ranks: repeated sequences, operators, calls that wait, Python functions.

use crate::output::html::grid::{Grid, Section, missing};
use crate::output::html::tally::{Tally, of_ranks};
use crate::output::html::texts::Texts;
use crate::results::{Results, ResultsError, columns};
use hta_analysis::ops::call_tree::CallTree;
use hta_analysis::patterns::tables::RepeatsTable;
use hta_base::table;
use hta_base::table::schema::Text;
use hta_trace::kernel::short_name;

/// Largest number of names listed in each table.
pub(crate) const MOST_NAMES: usize = 400;
/// Largest number of sequences listed.
const MOST_SEQUENCES: usize = 80;
/// Number of names shown of a sequence.
const SEQUENCE: usize = 8;

columns! {
    Pattern of RepeatsTable {
        rank, length: u32, names: Text, gpu_ns: i64, count: u64, gap_ns: i64, idle_ns: i64, extent_ns: i64,
    }
}

columns! {
    Call of CallTree { rank, kind: Text, name: Text, self_ns: i64, dur_ns, gpu_ns: i64, thread_launches: bool }
}

table! {
    /// Sequences of kernels that repeat, over all ranks.
    struct ShownSequences, ShownSequenceRow = "repeats" by "gpu_ns descending, names" {
        names: Text, "", "short names of its kernels, copies and sets; a loop is its body", "sequence";
        length: Text, "", "activities in one occurrence";
        gpu_ns: i64, "ns", "sum of durations in all occurrences; sequences may contain one another",
            "GPU time";
        count: u64, "", "occurrences over all ranks";
        gap_ns: i64, "ns", "time inside occurrences in which the stream ran nothing", "gaps";
        idle_ns: i64, "ns", "part of the gaps in which no stream of the device ran anything";
        extent_ns: i64, "ns", "sum of last end minus first start", "first to last";
        ranks: u64, "", "ranks that have it";
        most_ns: i64, "ns", "GPU time on the rank with most of it", "largest";
        most_rank: u32, "", "that rank", "on rank";
    }
}

table! {
    /// Python functions, over all ranks.
    struct PythonFunctions, PythonFunctionRow = "call_tree" by "thread, self_ns descending, name" {
        name: Text, "", "Python function, with file and line", "function";
        thread: Text, "", "idle: it waits on a thread that launches no GPU work";
        self_ns: i64, "ns", "without the functions that it calls, over all ranks", "own time";
        dur_ns: i64, "ns", "with everything inside; a function that calls itself counts again", "time";
        gpu_ns: i64, "ns", "GPU work launched inside", "GPU time";
        count: u64, "", "calls";
        ranks: u64, "", "ranks that have it";
    }
}

/// A sequence in one line: its first and last names, short. A sequence may have a hundred thousand names.
fn sequence(names: &str) -> String {
    let shorts = |names: &mut dyn Iterator<Item = &str>| names.map(short_name).collect::<Vec<String>>();
    if names.split('|').nth(SEQUENCE).is_none() {
        return shorts(&mut names.split('|')).join(" → ");
    }
    let head = shorts(&mut names.split('|').take(SEQUENCE - 1));
    let last = names.rsplit('|').next().unwrap_or_default();
    format!("{} → … → {}", head.join(" → "), short_name(last))
}

/// The section on repeated kernel sequences.
///
/// # Errors
/// When the table is damaged.
pub(crate) fn patterns(results: &Results, texts: &mut Texts) -> Result<Section, ResultsError> {
    let mut all: Tally<2, 5> = Tally::default();
    let there = results.read::<Pattern>(|r| {
        let shown = sequence(r.names);
        let values = [r.gpu_ns, r.count as i64, r.gap_ns, r.idle_ns, r.extent_ns];
        all.add([&shown, &r.length.to_string()], r.rank, values);
    })?;
    if all.is_empty() {
        let none = "No sequence of kernels repeats on a stream: a CPU-only job, or too few kernels.";
        return Ok(Section::without(if there { none.to_string() } else { missing("repeats") }));
    }
    let mut grid = Grid::whole(ShownSequences::SPEC);
    all.fill(&mut grid, texts, MOST_SEQUENCES, of_ranks);
    Ok(Section::default().with("sequences", grid))
}

/// Python functions, beside the tables of operators.
///
/// # Errors
/// When the table is damaged.
pub(crate) fn operators(results: &Results, texts: &mut Texts) -> Result<Section, ResultsError> {
    let mut all: Tally<2, 4> = Tally::default();
    results.read::<Call>(|r| {
        if r.kind == "python" {
            let waits = !r.thread_launches && is_waiting(r.name);
            let values = [r.self_ns, r.dur_ns, r.gpu_ns, 1];
            all.add([r.name, if waits { IDLE } else { "" }], r.rank, values);
        }
    })?;
    let mut grid = Grid::whole(PythonFunctions::SPEC);
    all.fill_with_last(&mut grid, texts, MOST_NAMES, |key| key[1] == IDLE, |t, _| vec![t.ranks.into()]);
    Ok(Section::default().with("python", grid))
}

/// Marks frames that only wait, on threads that launch nothing; they are listed last.
const IDLE: &str = "idle";

/// Whether a Python frame only waits, by its name; the query `python_functions` has the same list.
fn is_waiting(name: &str) -> bool {
    let function = |file: &str| {
        let (place, function) = name.rsplit_once("): ")?;
        place.rsplit_once('(').filter(|(path, _)| path.ends_with(file)).map(|_| function)
    };
    let has = |file: &str, fits: &dyn Fn(&str) -> bool| function(file).is_some_and(fits);
    has("threading.py", &|f| f.starts_with("wait") || f == "_wait_for_tstate_lock" || f == "join")
        || has("queue.py", &|f| f == "get")
        || has("queues.py", &|f| f == "get")
        || has("selectors.py", &|f| f == "select")
        || has("connection.py", &|f| f == "wait" || f.ends_with("poll") || f.contains("recv"))
        || ["<built-in method acquire of ", "<built-in method poll of ", "<built-in method recv"]
            .iter()
            .any(|start| name.starts_with(start))
        || (name.starts_with("<built-in ") && (name.contains("select") || name.contains("sleep")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_that_wait_are_told_by_their_names() {
        for name in [
            "threading.py(312): wait",
            "/usr/lib/python3.11/queue.py(154): get",
            "multiprocessing/connection.py(250): recv",
            "<built-in method acquire of _thread.lock object at 0x7f>",
            "<built-in function sleep>",
        ] {
            assert!(is_waiting(name), "{name}");
        }
        for name in ["train.py(3): step", "data/queue.py(9): put", "<built-in method mm of type object>", ""]
        {
            assert!(!is_waiting(name), "{name}");
        }
    }
}

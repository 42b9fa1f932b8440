//! The printed rows of the reports with a row for each event.

use crate::nsys::events::{NsysEventRow, NsysEvents, dimension};
use crate::nsys::sums::megabytes;
use hashbrown::HashMap;
use hta_analysis::printed::{PrintedColumn, View, number, text};
use hta_base::table::schema::{Batch, Table};
use std::cmp::Reverse;

/// A column and its cells.
type ListingColumn = (PrintedColumn<'static>, fn(&NsysEventRow) -> Option<String>);

fn shown<T: ToString>(cell: Option<T>) -> Option<String> {
    cell.map(|of| of.to_string())
}

/// What no input has: the file does not say it, or hta does not read it.
fn unknown(_: &NsysEventRow) -> Option<String> {
    None
}

const START: ListingColumn = (number("Start (ns)"), |r| Some(r.start_ns.to_string()));
const DURATION: ListingColumn = (number("Duration (ns)"), |r| Some(r.length_ns.to_string()));
const SOURCE: ListingColumn = (text("Src Kind"), |r| shown(r.source));
const TARGET: ListingColumn = (text("Dst Kind"), |r| shown(r.target));
const BYTES: ListingColumn = (number("Bytes (MB)"), |r| r.size_bytes.map(|b| megabytes(i128::from(b))));
const PID: ListingColumn = (number("PID"), |r| shown(r.process));
const TID: ListingColumn = (number("TID"), |r| shown(r.thread));
const DEVICE: ListingColumn = (number("Device ID"), |r| shown(r.device));
const CONTEXT: ListingColumn = (number("Context ID"), |r| shown(r.context));
const STREAM: ListingColumn = (number("Stream ID"), |r| shown(r.stream));
const API: ListingColumn = (text("API Name"), |r| shown(r.api));

const API_TRACE: &[ListingColumn] = &[
    START,
    DURATION,
    (text("Name"), |r| Some(r.name.to_string())),
    (number("Result"), unknown),
    (number("CorrID"), |r| shown(r.correlation)),
    (number("Pid"), |r| shown(r.process)),
    (number("Tid"), |r| shown(r.thread)),
    (number("T-Pri"), unknown),
    (text("Thread Name"), |r| shown(r.thread_name)),
];

const GPU_TRACE: &[ListingColumn] = &[
    START,
    DURATION,
    (number("CorrId"), |r| shown(r.correlation)),
    (number("GrdX"), |r| dimension(r.grid, 0)),
    (number("GrdY"), |r| dimension(r.grid, 1)),
    (number("GrdZ"), |r| dimension(r.grid, 2)),
    (number("BlkX"), |r| dimension(r.block, 0)),
    (number("BlkY"), |r| dimension(r.block, 1)),
    (number("BlkZ"), |r| dimension(r.block, 2)),
    (number("Reg/Trd"), |r| shown(r.registers)),
    (number("StcSMem (MB)"), unknown),
    (number("DymSMem (MB)"), unknown),
    BYTES,
    (number("Throughput (MB/s)"), |r| {
        let bytes = r.size_bytes.filter(|_| r.length_ns > 0)?;
        Some(format!("{:.3}", bytes as f64 * 1e3 / r.length_ns as f64))
    }),
    (text("SrcMemKd"), |r| shown(r.source)),
    (text("DstMemKd"), |r| shown(r.target)),
    (text("Device"), |r| {
        let name = r.device_name.unwrap_or("GPU");
        Some(r.device.map_or_else(|| name.to_string(), |id| format!("{name} ({id})")))
    }),
    (number("Ctx"), |r| shown(r.context)),
    (number("GreenCtx"), unknown),
    (number("Strm"), |r| shown(r.stream)),
    (text("Name"), |r| Some(r.name.to_string())),
];

const COPIES: &[ListingColumn] = &[DURATION, START, SOURCE, TARGET, BYTES, PID, DEVICE, CONTEXT, STREAM, API];

const SETS: &[ListingColumn] =
    &[DURATION, START, (text("Memory Kind"), |r| shown(r.source)), BYTES, PID, DEVICE, CONTEXT, STREAM, API];

const WAITS: &[ListingColumn] =
    &[DURATION, START, PID, TID, (text("API Name"), |r| Some(r.name.to_string()))];

const GAPS: &[ListingColumn] = &[DURATION, START, PID, DEVICE, CONTEXT];

const USE: &[ListingColumn] = &[(number("In-Use (%)"), in_use), DURATION, START, PID, DEVICE, CONTEXT];

fn in_use(row: &NsysEventRow) -> Option<String> {
    let busy = row.busy_ns.filter(|_| row.length_ns > 0)?;
    Some(format!("{:.1}", 100.0 * busy as f64 / row.length_ns as f64))
}

fn all(batches: &[Batch]) -> Vec<NsysEventRow<'_>> {
    batches.iter().flat_map(NsysEvents::rows).collect()
}

fn view(title: &str, columns: &[ListingColumn], rows: &[NsysEventRow]) -> View {
    let cells = |row: &NsysEventRow| columns.iter().map(|c| (c.1)(row).unwrap_or_default()).collect();
    View {
        title: title.to_string(),
        columns: columns.iter().map(|c| c.0).collect(),
        rows: rows.iter().map(cells).collect(),
        notes: Vec::new(),
    }
}

/// Rows in order of time.
fn by_start(batches: &[Batch]) -> Vec<NsysEventRow<'_>> {
    let mut rows = all(batches);
    rows.sort_by_key(|r| (r.start_ns, r.rank));
    rows
}

/// Rows from the longest to the shortest.
fn by_length(batches: &[Batch]) -> Vec<NsysEventRow<'_>> {
    let mut rows = by_start(batches);
    rows.sort_by_key(|r| Reverse(r.length_ns));
    rows
}

pub(crate) fn api_trace(title: &str, batches: &[Batch]) -> View {
    view(title, API_TRACE, &by_start(batches))
}

pub(crate) fn gpu_trace(title: &str, batches: &[Batch]) -> View {
    view(title, GPU_TRACE, &by_start(batches))
}

pub(crate) fn copies(title: &str, batches: &[Batch]) -> View {
    view(title, COPIES, &by_length(batches))
}

pub(crate) fn sets(title: &str, batches: &[Batch]) -> View {
    view(title, SETS, &by_length(batches))
}

pub fn waits(title: &str, batches: &[Batch]) -> View {
    view(title, WAITS, &by_length(batches))
}

/// Puts the number of the row before it.
fn numbered(mut view: View) -> View {
    view.columns.insert(0, number("Row#"));
    (1..).zip(&mut view.rows).for_each(|(n, row): (u64, _)| row.insert(0, n.to_string()));
    view
}

pub(crate) fn gaps(title: &str, batches: &[Batch]) -> View {
    numbered(view(title, GAPS, &by_length(batches)))
}

/// Parts with little use, the least used first.
pub(crate) fn little_use(title: &str, batches: &[Batch]) -> View {
    let mut rows = by_start(batches);
    let share =
        |r: &NsysEventRow| i128::from(r.busy_ns.unwrap_or(0)) * 1_000_000 / i128::from(r.length_ns.max(1));
    rows.sort_by_key(share);
    numbered(view(title, USE, &rows))
}

/// Most ranges that a stack lists.
const DEEPEST: usize = 100;

/// Ranges with their place in the tree; numbers are in order of start, from 1.
pub(crate) fn nested_ranges(title: &str, batches: &[Batch]) -> View {
    const HEADINGS: [PrintedColumn; 14] = [
        number("Start (ns)"),
        number("End (ns)"),
        number("Duration (ns)"),
        number("DurChild (ns)"),
        number("DurNonChild (ns)"),
        text("Name"),
        number("PID"),
        number("TID"),
        number("Lvl"),
        number("NumChild"),
        number("RangeId"),
        number("ParentId"),
        text("RangeStack"),
        text("NameTree"),
    ];
    let mut rows = all(batches);
    rows.sort_by_key(|r| (r.start_ns, Reverse(r.length_ns), r.rank, r.id));
    let numbers: HashMap<(u32, u64), u64> =
        rows.iter().zip(1..).filter_map(|(r, n)| Some(((r.rank, r.id?), n))).collect();
    let parents: HashMap<u64, u64> = rows
        .iter()
        .filter_map(|r| Some((*numbers.get(&(r.rank, r.id?))?, *numbers.get(&(r.rank, r.parent?))?)))
        .collect();
    let cells = |(r, id): (&NsysEventRow, u64)| {
        let mut stack: Vec<String> = std::iter::successors(Some(id), |n| parents.get(n).copied())
            .take(DEEPEST)
            .map(|n| format!(":{n}"))
            .collect();
        stack.reverse();
        let (children, level) = (r.children_ns.unwrap_or(0), r.level.unwrap_or(0));
        vec![
            r.start_ns.to_string(),
            r.start_ns.saturating_add(r.length_ns).to_string(),
            r.length_ns.to_string(),
            children.to_string(),
            (r.length_ns - children).to_string(),
            format!(":{}", r.name),
            r.process.unwrap_or_default().to_string(),
            r.thread.unwrap_or_default().to_string(),
            level.to_string(),
            r.children.unwrap_or(0).to_string(),
            id.to_string(),
            parents.get(&id).map(u64::to_string).unwrap_or_default(),
            stack.concat(),
            format!("{}:{}", "--".repeat((level as usize).min(DEEPEST)), r.name),
        ]
    };
    View {
        title: title.to_string(),
        columns: HEADINGS.to_vec(),
        rows: rows.iter().zip(1..).map(cells).collect(),
        notes: Vec::new(),
    }
}

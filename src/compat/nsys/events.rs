//! The reports with a row for each event: their rows, and the values of their columns.

use crate::nsys::names::{dimensions, memory_kinds, operation};
use crate::nsys::process::{process, thread_of};
use crate::nsys::ranges::ranges;
use hta_base::table;
use hta_base::table::schema::{Table, Text};
use hta_trace::activity::Activity;
use hta_trace::args::Arg;
use hta_trace::category::Class;
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::StrId;

table! {
    /// Events of a report; columns that it does not use are null.
    pub struct NsysEvents, NsysEventRow = "nsys_events" by "rank, start_ns" {
        rank;
        start_ns: i64, "ns", "start, after the time that the file counts from";
        length_ns: i64, "ns", "length";
        name: Text, "", "call, kernel, operation or range";
        correlation: Option<u64>, "", "id that joins a call with what it launched";
        process: Option<Text>, "", "process";
        thread: Option<Text>, "", "thread";
        thread_name: Option<Text>, "", "its name";
        device;
        device_name: Option<Text>, "", "name of the device";
        context: Option<u64>, "", "context";
        stream;
        grid: Option<Text>, "", "blocks, as recorded";
        block: Option<Text>, "", "threads per block, as recorded";
        registers: Option<i64>, "", "registers per thread";
        size_bytes: Option<i64>, "bytes", "bytes copied or set";
        source: Option<Text>, "", "memory that is read, or set";
        target: Option<Text>, "", "memory that is written";
        api: Option<Text>, "", "launching call";
        children_ns: Option<i64>, "ns", "time of the ranges directly inside";
        level: Option<u64>, "", "ranges around it";
        children: Option<u64>, "", "ranges directly inside";
        id: Option<u64>, "", "number of the range on its rank";
        parent: Option<u64>, "", "number of the range around it";
        busy_ns: Option<i64>, "ns", "time in which the device works";
    }
}

/// A row of this name and time.
pub(crate) fn event<'a>(rank: u32, name: &'a str, start_ns: i64, length_ns: i64) -> NsysEventRow<'a> {
    NsysEventRow {
        rank,
        start_ns,
        length_ns,
        name,
        correlation: None,
        process: None,
        thread: None,
        thread_name: None,
        device: None,
        device_name: None,
        context: None,
        stream: None,
        grid: None,
        block: None,
        registers: None,
        size_bytes: None,
        source: None,
        target: None,
        api: None,
        children_ns: None,
        level: None,
        children: None,
        id: None,
        parent: None,
        busy_ns: None,
    }
}

/// Receives the rows of a report.
pub(crate) type Emit<'a> = dyn FnMut(hta_base::table::schema::Batch) + 'a;

/// The start of a row, after the time that the file counts from.
fn start(trace: &RankTrace, ts: i64) -> i64 {
    ts.saturating_sub(trace.meta.base_ns.unwrap_or(0))
}

/// Calls of the runtime and the driver.
pub(crate) fn api_calls(trace: &RankTrace, give: &mut Emit) {
    calls(trace, |_| true, give);
}

/// Calls that wait for the device.
pub(crate) fn waiting_calls(trace: &RankTrace, give: &mut Emit) {
    calls(trace, |name| name.contains("Synchronize"), give);
}

fn calls(trace: &RankTrace, keep: fn(&str) -> bool, give: &mut Emit) {
    let names = trace.thread_names();
    let mut table = NsysEvents::default();
    for row in
        (0..trace.columns.len() as u32).filter(|r| trace.classes.get(*r as usize) == Some(&Class::Runtime))
    {
        let (name, span) = (trace.name(row), trace.span(row));
        if !keep(name) {
            continue;
        }
        let lane = trace.columns.lane.get(row as usize);
        let (process, thread) = thread_of(trace, row);
        table.push(NsysEventRow {
            correlation: trace.columns.args.uint(Arg::Correlation, row),
            process: process.map(|p| trace.text(p)),
            thread: thread.map(|t| trace.text(t)),
            thread_name: lane.and_then(|l| names.get(l)).map(|t| trace.text(*t)),
            ..event(trace.rank, name, start(trace, span.start), span.len())
        });
        table.give_piece(give);
    }
    give(table.finish());
}

/// Kernels, copies and sets.
pub(crate) fn gpu_events(trace: &RankTrace, give: &mut Emit) {
    activities(trace, |_, _| true, give);
}

/// Asynchronous copies with pageable memory on a side, which block the host nevertheless.
pub(crate) fn async_copies(trace: &RankTrace, give: &mut Emit) {
    let keep = |a: &Activity, api: Option<&str>| {
        let (source, target) = memory_kinds(trace.text(a.name));
        let is_pageable = source == Some("Pageable") || target == Some("Pageable");
        a.class == Class::Memcpy && is_pageable && api.is_some_and(|name| name.contains("Async"))
    };
    activities(trace, keep, give);
}

/// Copies by calls that block the host.
pub(crate) fn sync_copies(trace: &RankTrace, give: &mut Emit) {
    blocking(trace, Class::Memcpy, give);
}

/// Sets by calls that block the host.
pub(crate) fn sync_sets(trace: &RankTrace, give: &mut Emit) {
    blocking(trace, Class::Memset, give);
}

fn blocking(trace: &RankTrace, class: Class, give: &mut Emit) {
    // Nodes of graphs are launched by calls that are neither copies nor sets.
    let is_blocking = |name: &str| name.contains("Mem") && !name.contains("Async");
    activities(trace, |a, api| a.class == class && api.is_some_and(is_blocking), give);
}

fn activities(trace: &RankTrace, keep: impl Fn(&Activity, Option<&str>) -> bool, give: &mut Emit) {
    let args = &trace.columns.args;
    let of_rank = process(trace);
    let mut table = NsysEvents::default();
    for a in &trace.activities {
        let api = a.launch().map(|call| trace.name(call));
        if !keep(a, api) {
            continue;
        }
        let name = trace.text(a.name);
        let (source, target) = if a.class == Class::Kernel { (None, None) } else { memory_kinds(name) };
        let process = a.launch().and_then(|call| thread_of(trace, call).0).or(of_rank);
        let text = |id: Option<StrId>| id.map(|t| trace.text(t));
        table.push(NsysEventRow {
            correlation: args.uint(Arg::Correlation, a.row),
            process: text(process),
            device: a.device(),
            device_name: trace.device_properties(a.device()).map(|d| d.display_name()).as_deref(),
            context: args.uint(Arg::Context, a.row),
            stream: a.stream(),
            grid: text(args.text(Arg::Grid, a.row)),
            block: text(args.text(Arg::Block, a.row)),
            registers: args.int(Arg::Registers, a.row),
            size_bytes: if a.class == Class::Kernel { None } else { args.int(Arg::Bytes, a.row) },
            source,
            target,
            api,
            ..event(
                trace.rank,
                if a.class == Class::Kernel { name } else { operation(name) },
                start(trace, a.span.start),
                a.span.len(),
            )
        });
        table.give_piece(give);
    }
    give(table.finish());
}

/// Ranges that are pushed and popped.
pub(crate) fn nested_ranges(trace: &RankTrace, give: &mut Emit) {
    let mut table = NsysEvents::default();
    for (id, range) in (0u64..).zip(ranges(trace)).filter(|(_, r)| !r.is_start_end) {
        let (process, thread) = thread_of(trace, range.row);
        table.push(NsysEventRow {
            process: process.map(|p| trace.text(p)),
            thread: thread.map(|t| trace.text(t)),
            children_ns: Some(range.children_ns),
            level: Some(u64::from(range.level)),
            children: Some(u64::from(range.children)),
            id: Some(id),
            parent: range.parent.map(|p| p as u64),
            ..event(trace.rank, trace.name(range.row), start(trace, range.span.start), range.span.len())
        });
        table.give_piece(give);
    }
    give(table.finish());
}

/// The numbers of a grid or block, one cell each.
pub(crate) fn dimension(recorded: Option<&str>, which: usize) -> Option<String> {
    recorded.and_then(|text| dimensions(text).get(which).map(|n| (*n).to_string()))
}

//! The rows of a rank that HTA's straggler heuristic reads, as a table of the rank's partial.

use crate::hta::stragglers::heuristic::{HeuristicEvent, Rank};
use hashbrown::HashSet;
use hta_analysis::api::Partial;
use hta_base::table;
use hta_base::table::schema::{Batch, Table, Text};
use hta_trace::args::Arg;
use hta_trace::rank_trace::RankTrace;

table! {
    /// Input of HTA's straggler heuristic: one row per event.
    pub(super) struct StragglerEvents, StragglerEventRow = "compat_hta_straggler_events" by "event_id" {
        event_id: u32, "", "the event, as in `events`";
        name: Text, "", "name";
        ts_ns: i64, "ns", "start as in the file, without its base time";
        dur_ns: i64, "ns", "length";
        stream: i64, "", "stream; -1 if HTA reads none";
        correlation: i64, "", "correlation id; -1 if HTA reads none";
        is_fractional: bool, "", "some time in the file has a fraction";
    }
}

/// Rows of complete events with a category other than `Trace`, in the order of the file. Ids in quotes count
/// as absent.
pub(super) fn rows(trace: &RankTrace) -> Batch {
    let c = &trace.columns;
    let base = trace.meta.base_ns.unwrap_or(0);
    let quoted: HashSet<(u32, Arg)> = c.args.quoted_ids.iter().copied().collect();
    let (mut stream, mut correlation) = (c.args.cursor(Arg::Stream), c.args.cursor(Arg::Correlation));
    let mut table = StragglerEvents::default();
    for row in 0..c.len() {
        let event_id = row as u32;
        let (stream, correlation) = (stream.get(event_id), correlation.get(event_id));
        let category = c.categories.get(usize::from(c.cat[row])).map_or("", |k| c.strings.get(k.text));
        if category.is_empty() || category == "Trace" {
            continue;
        }
        let number =
            |v: Option<u64>, arg| v.filter(|_| !quoted.contains(&(event_id, arg))).map_or(-1, |v| v as i64);
        table.push(StragglerEventRow {
            event_id,
            name: trace.text(c.name(row)),
            ts_ns: c.ts[row] - base,
            dur_ns: c.dur[row],
            stream: number(stream, Arg::Stream),
            correlation: number(correlation, Arg::Correlation),
            is_fractional: c.has_fraction,
        });
    }
    table.finish()
}

/// Reads the rows of a rank back from its partial. Returns `None` if the partial has no table of [`rows`].
pub(super) fn rank(partial: &Partial) -> Option<Rank<'_>> {
    let table = partial.table(StragglerEvents::SPEC)?;
    let fractional = StragglerEvents::rows(table).next().is_some_and(|r| r.is_fractional);
    Some(Rank {
        rank: i64::from(partial.rank),
        fractional,
        rows: StragglerEvents::rows(table).map(row).collect(),
    })
}

fn row(r: StragglerEventRow<'_>) -> HeuristicEvent<'_> {
    HeuristicEvent {
        id: r.event_id,
        name: r.name,
        ts: r.ts_ns,
        dur: r.dur_ns,
        stream: r.stream,
        correlation: r.correlation,
    }
}

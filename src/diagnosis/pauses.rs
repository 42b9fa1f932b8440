//! Events of launching threads that stand still: far longer than others of their name.

use crate::host_ranges::{median_step, part_of_short};
use hashbrown::{HashMap, HashSet};
use hta_base::order_statistics::median_of_sorted;
use hta_base::table;
use hta_base::table::schema::{Batch, Text};
use hta_base::units::{Ns, Span};
use hta_trace::category::Class;
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::StrId;
use std::cmp::Reverse;
use std::collections::BTreeSet;

table! {
    /// Events of launching threads that stood still: self time beyond the median of their name.
    pub(crate) struct HostPauses, HostPauseRow = "host_pauses" by "rank, ts_ns, event_id" {
        rank;
        event_id: u32, "", "event, as in events";
        name: Text, "", "name of the event";
        ts_ns: i64, "ns", "start of the event";
        dur_ns: i64, "ns", "its length";
        excess_ns: i64, "ns", "self time beyond the median of the name";
    }
}

/// Largest number of pauses of a rank in the table.
const PAUSES: usize = 1_000;

/// A pause is an event whose self time exceeds the median of its name by 1 ms, or in short steps by one of so
/// many parts of a step,
const PAUSE_PARTS: Ns = 50;
/// and is at least this many times the median.
const PAUSE_TIMES: Ns = 20;
/// An operator that takes so many times as long as all later ones of its name is a first use,
const FIRST_TIMES: Ns = 10;
/// if there are so many of them.
const FIRST_OF: usize = 3;
/// Smallest share of the recorded time that pauses take, percent; of several ranks, which wait for each
/// other, that of all together.
const PAUSE_PCT: Ns = 2;
/// Share of the pauses, in time, that lie in one name, or behind another thread if a lock is the reason,
/// percent.
pub(crate) const MOST_PCT: Ns = 80;

/// An event that stood still.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pause {
    pub(crate) row: u32,
    pub(crate) span: Span,
    /// Self time beyond the median of the name, ns.
    pub(crate) excess: Ns,
}

/// The time of the pauses together if it is long enough for a cause, ns.
pub(crate) fn long_enough(trace: &RankTrace, pauses: &[Pause]) -> Option<Ns> {
    let total: Ns = pauses.iter().map(|p| p.excess).sum();
    let ranks = Ns::from(trace.meta.world_size.unwrap_or(1).max(1));
    (total * ranks * 100 >= trace.capture.len() * PAUSE_PCT).then_some(total)
}

/// The longest pauses, in order of time.
pub(crate) fn table(trace: &RankTrace, pauses: &[Pause]) -> Batch {
    let mut longest: Vec<&Pause> = pauses.iter().collect();
    longest.sort_by_key(|p| (Reverse(p.excess), p.row));
    longest.truncate(PAUSES);
    longest.sort_by_key(|p| (p.span.start, p.row));
    let mut table = HostPauses::default();
    for p in longest {
        table.push(HostPauseRow {
            rank: trace.rank,
            event_id: p.row,
            name: trace.name(p.row),
            ts_ns: p.span.start,
            dur_ns: p.span.len(),
            excess_ns: p.excess,
        });
    }
    table.finish()
}

/// By how much a pause exceeds the median of its name, ns.
fn pause_min(trace: &RankTrace) -> Ns {
    part_of_short(median_step(trace).unwrap_or(trace.capture.len()), PAUSE_PARTS)
}

/// Events of the threads that stood still, in order of time, but for those that wait for the device. The
/// first event of a name that calls others is none, because it may have to load code; operators of which that
/// is plain are the second result.
pub(crate) fn find(trace: &RankTrace, lanes: &BTreeSet<u32>, waits: &HashSet<u32>) -> (Vec<Pause>, Vec<u32>) {
    let mut by_name: HashMap<StrId, Vec<u32>> = HashMap::new();
    for (_, rows) in trace.host_rows().iter().filter(|(lane, _)| lanes.contains(lane)) {
        for &row in rows {
            // A frame that takes long runs code of its own.
            let is_kind = matches!(trace.classes[row as usize], Class::HostOp | Class::Runtime);
            if is_kind && !waits.contains(&row) {
                by_name.entry(trace.columns.name(row as usize)).or_default().push(row);
            }
        }
    }
    let own = |row: u32| trace.stacks.self_ns(row).unwrap_or(0);
    // What calls nothing, such as another view of a tensor, has no code of a device to load.
    let is_leaf = |rows: &[u32]| {
        let is_alone =
            |r: &u32| trace.classes[*r as usize] == Class::HostOp && own(*r) == trace.span(*r).len();
        rows.len() > FIRST_OF && rows.iter().all(is_alone)
    };
    let least = pause_min(trace);
    let (mut out, mut firsts) = (Vec::new(), Vec::new());
    for rows in by_name.values() {
        let longest = rows.iter().map(|r| own(*r)).max().unwrap_or(0);
        if longest < least {
            continue;
        }
        let mut times: Vec<Ns> = rows.iter().map(|r| own(*r)).collect();
        times.sort_unstable();
        let middle = median_of_sorted(&times).unwrap_or(0);
        // Where most events of a name stand still, the fastest ones show how long it takes.
        let median = if middle < least { middle } else { times[(times.len() - 1) / 10] };
        let first_row = rows.iter().copied().min_by_key(|r| trace.span(*r).start);
        let first = first_row.map(|r| trace.span(r).start).filter(|_| !is_leaf(rows));
        let next_longest = times.len().checked_sub(2).and_then(|i| times.get(i)).copied();
        firsts.extend(first_row.filter(|r| {
            trace.classes[*r as usize] == Class::HostOp
                && first.is_some()
                && times.len() >= FIRST_OF
                && next_longest.is_some_and(|next| own(*r) >= FIRST_TIMES * next)
        }));
        for &row in rows {
            let (self_time, span) = (own(row), trace.span(row));
            if self_time - median >= least && self_time >= PAUSE_TIMES * median && Some(span.start) != first {
                out.push(Pause { row, span, excess: self_time - median });
            }
        }
    }
    out.sort_unstable_by_key(|p| (p.span.start, p.row));
    (out, firsts)
}

//! Recordings that begin or end in the middle of work: the table `record_edges`, and the note about it. Times
//! in ns.
//!
//! The cases and their conditions are in `trace::record_edges`. This module adds host calls that waited for
//! work from before the recording, graph launches with fewer activities than others of the same graph, and
//! calls of the profiler itself.

use crate::inventory::profiler_calls::NameTest;
use crate::inventory::profiler_calls::ProfilerCalls;
use hashbrown::{HashMap, HashSet};
use hta_base::table;
use hta_base::table::schema::{Batch, Text};
use hta_base::units::{Ns, Span, fmt_count, fmt_ns};
use hta_base::wording::counts::plural;
use hta_trace::activity::Activity;
use hta_trace::category::Class;
use hta_trace::graph_replay::graph_of;
use hta_trace::rank_trace::RankTrace;
use hta_trace::record_edges::StartReason;
use hta_trace::strings::StrId;
use std::cmp::Reverse;
use std::collections::BTreeMap;

table! {
    /// Places where a recording begins or ends in the middle of work, and time that the profiler itself used.
    /// A recording without such edges has no row.
    pub struct RecordEdgeTable, RecordEdgeRow = "record_edges" by "rank, device, stream, case, from_ns" {
        rank;
        device: Option<i64>, "", "device index, where recorded; null: the whole rank";
        stream: Option<i64>, "", "stream, where recorded; null: the whole device";
        case: Text, "", "hidden_work, recorded_head, host_wait, lost_tail, partial_graph or profiler";
        scope: Option<Text>, "",
            "lead (its time is of the class before_capture) or lost_tail: in no window; profiler; null: the \
             time counts as usual";
        from_ns: i64, "ns", "start";
        to_ns: i64, "ns", "end";
        launches: u64, "",
            "hidden_work, recorded_head: launch calls that waited behind it; lost_tail, partial_graph: \
             launch calls that lack activities; else the calls";
        activities: u64, "",
            "hidden_work: activities that those calls own; recorded_head: activities without a launch \
             record; partial_graph: activities that are missing";
        excerpt: bool, "", "a tool cut the file out of a longer one";
        evidence: Text, "", "what shows it";
    }
}

/// Host waits shorter than the shortest hidden wait divided by this are not listed.
const WAIT_SHARE: Ns = 2;

/// A row before it is written.
struct CaptureEdge {
    device: Option<i64>,
    stream: Option<i64>,
    case: &'static str,
    scope: Option<&'static str>,
    span: Span,
    launches: u64,
    activities: u64,
    evidence: String,
}

/// The rows of one rank; `None` if there are none.
pub(crate) fn map(trace: &RankTrace, hidden_min: Ns) -> Option<Batch> {
    let mut rows = Vec::new();
    leads(trace, &mut rows);
    host_waits(trace, hidden_min / WAIT_SHARE, &mut rows);
    tails(trace, &mut rows);
    partial_graphs(trace, &mut rows);
    profiler(trace, &mut rows);
    if rows.is_empty() {
        return None;
    }
    rows.sort_by_key(|e| (e.device, e.stream, e.case, e.span));
    let mut table = RecordEdgeTable::default();
    for e in rows {
        table.push(RecordEdgeRow {
            rank: trace.rank,
            device: e.device,
            stream: e.stream,
            case: e.case,
            scope: e.scope,
            from_ns: e.span.start,
            to_ns: e.span.end,
            launches: e.launches,
            activities: e.activities,
            excerpt: trace.edges.is_excerpt,
            evidence: &e.evidence,
        });
    }
    Some(table.finish())
}

fn leads(trace: &RankTrace, out: &mut Vec<CaptureEdge>) {
    let from = trace.recorded.start;
    for s in &trace.edges.starts {
        let (device, stream) = s.stream;
        let delay = fmt_ns(s.first.start - s.call.end);
        out.push(match s.case {
            StartReason::HiddenWork => CaptureEdge {
                device,
                stream,
                case: "hidden_work",
                scope: None,
                span: Span::new(from, s.first.start),
                launches: s.launches,
                activities: s.activities,
                evidence: format!(
                    "the first launch call returned {} after the first event, its activity started {delay} \
                     later; the device is recorded as busy for {} of that",
                    fmt_ns(s.call.end - from),
                    fmt_ns(s.busy),
                ),
            },
            StartReason::RecordedHead => CaptureEdge {
                device,
                stream,
                case: "recorded_head",
                scope: None,
                span: Span::new(s.head_start, s.first.start),
                launches: s.launches,
                activities: s.head_count,
                evidence: format!(
                    "{} {} without a launch record before the first activity that has one",
                    fmt_count(s.head_count),
                    if s.head_count == 1 { "activity" } else { "activities" },
                ),
            },
        });
    }
    for (device, end) in trace.edges.leads() {
        let hidden = || {
            trace.edges.starts.iter().filter(|s| s.case == StartReason::HiddenWork && s.stream.0 == *device)
        };
        out.push(CaptureEdge {
            device: *device,
            stream: None,
            case: "hidden_work",
            scope: Some("lead"),
            span: Span::new(from, *end),
            launches: hidden().map(|s| s.launches).sum(),
            activities: hidden().map(|s| s.activities).sum(),
            evidence: format!(
                "{} began behind work that is not in the file",
                plural(hidden().count(), "stream")
            ),
        });
    }
}

/// Calls that were open when a lead ended, and had waited for at least `least`.
fn host_waits(trace: &RankTrace, least: Ns, out: &mut Vec<CaptureEdge>) {
    if trace.edges.leads().is_empty() {
        return;
    }
    let mut ends: Vec<(Ns, Reverse<Option<i64>>)> =
        trace.edges.leads().iter().map(|(device, end)| (*end, Reverse(*device))).collect();
    ends.sort_unstable();
    for row in (0..trace.columns.len()).filter(|&r| trace.classes[r] == Class::Runtime) {
        let span = trace.columns.span(row);
        // With several devices, the one it waited for longest.
        let before = ends.partition_point(|l| l.0 < span.end);
        let lead = before.checked_sub(1).and_then(|i| ends.get(i));
        if let Some((_, Reverse(device))) = lead.filter(|l| l.0 - span.start >= least.max(1)) {
            out.push(CaptureEdge {
                device: *device,
                stream: None,
                case: "host_wait",
                scope: None,
                span,
                launches: 1,
                activities: 0,
                evidence: format!("`{}` waited for work from before the capture", trace.name(row as u32)),
            });
        }
    }
}

fn tails(trace: &RankTrace, out: &mut Vec<CaptureEdge>) {
    let mut names: BTreeMap<&str, u64> = BTreeMap::new();
    for &row in &trace.edges.lost_calls {
        *names.entry(trace.name(row)).or_default() += 1;
    }
    let mut names: Vec<(&str, u64)> = names.into_iter().collect();
    names.sort_by_key(|(name, n)| (Reverse(*n), *name));
    let listed: Vec<String> = names.iter().take(3).map(|(name, n)| format!("{n} x `{name}`")).collect();
    for t in &trace.edges.tails {
        out.push(CaptureEdge {
            device: t.device,
            stream: None,
            case: "lost_tail",
            scope: Some("lost_tail"),
            span: t.span,
            launches: t.calls,
            activities: 0,
            evidence: format!(
                "launch calls without an activity after the last one that has any: {}",
                listed.join(", ")
            ),
        });
    }
}

/// One row for each device on which graph launches have fewer activities than others of the same graph.
fn partial_graphs(trace: &RankTrace, out: &mut Vec<CaptureEdge>) {
    let mut is_graph = NameTest::new(trace, |t| t.contains("GraphLaunch"));
    let graphs: Vec<(u32, &[u32])> =
        trace.launches().iter().filter(|(row, _)| is_graph.holds(*row)).collect();
    let mut by_device: BTreeMap<Option<i64>, Vec<(u32, u64, u64)>> = BTreeMap::new();
    for (row, have, of, device) in short_of(trace, &graphs) {
        by_device.entry(device).or_default().push((row, have, of));
    }
    for (device, found) in by_device {
        let spans = || found.iter().map(|f| trace.span(f.0));
        let Some(&(_, have, of)) = found.iter().max_by_key(|(row, have, of)| (of - have, Reverse(*row)))
        else {
            continue;
        };
        out.push(CaptureEdge {
            device,
            stream: None,
            case: "partial_graph",
            scope: None,
            span: Span::new(
                spans().map(|s| s.start).min().unwrap_or(0),
                spans().map(|s| s.end).max().unwrap_or(0),
            ),
            launches: found.len() as u64,
            activities: found.iter().map(|(_, have, of)| of - have).sum(),
            evidence: format!(
                "a launch of the same graph has more activities; at worst {} of {} are recorded",
                fmt_count(have),
                fmt_count(of)
            ),
        });
    }
}

/// Launches with fewer activities than another launch of the same graph: their call, both numbers of
/// activities, and the device. Graphs are identified by their ids; without ids, a launch is incomplete if its
/// names are the beginning of another's.
fn short_of(trace: &RankTrace, graphs: &[(u32, &[u32])]) -> Vec<(u32, u64, u64, Option<i64>)> {
    let activity = |i: u32| trace.activities.get(i as usize);
    let mut by_id: BTreeMap<(Option<i64>, u64), u64> = BTreeMap::new();
    // For launches without ids: length and hash of their names, with the length of a longer launch that
    // begins with them.
    let mut wholes: HashMap<(u64, u64), u64> = HashMap::new();
    let mut read: Vec<(u32, Option<i64>, u64, GraphKey)> = Vec::new();
    for (row, of) in graphs {
        let Some(first) = of.first().and_then(|&i| activity(i)) else { continue };
        let count = of.len() as u64;
        let key = match graph_of(&trace.columns, first.row) {
            Some(id) => {
                let most = by_id.entry((first.device(), id)).or_default();
                *most = count.max(*most);
                GraphKey::Id(id)
            }
            None => {
                let hash = prefixes(trace, of).last().map_or(0, |p| p.1);
                wholes.insert((count, hash), count);
                GraphKey::Names(hash)
            }
        };
        read.push((*row, first.device(), count, key));
    }
    if wholes.len() > 1 {
        let mut known: HashSet<(u64, u64)> = HashSet::new();
        for (_, of) in graphs {
            let hashes: Vec<(u64, u64)> = prefixes(trace, of).collect();
            let Some(&(count, hash)) = hashes.last() else { continue };
            // Replays of one graph are identical, so the beginnings of one suffice.
            if wholes.contains_key(&(count, hash)) && known.insert((count, hash)) {
                for prefix in hashes.iter().filter(|p| p.0 < count) {
                    if let Some(most) = wholes.get_mut(prefix) {
                        *most = count.max(*most);
                    }
                }
            }
        }
    }
    let most = |device, count, key: &GraphKey| match key {
        GraphKey::Id(id) => by_id.get(&(device, *id)).copied(),
        GraphKey::Names(hash) => wholes.get(&(count, *hash)).copied(),
    };
    let short = |(row, device, count, key): (u32, Option<i64>, u64, GraphKey)| {
        most(device, count, &key).filter(|most| *most > count).map(|most| (row, count, most, device))
    };
    read.into_iter().filter_map(short).collect()
}

/// Identifies the graph of a launch.
enum GraphKey {
    Id(u64),
    /// Hash of the names of its activities in the order of the file.
    Names(u64),
}

/// Length and hash of each beginning of a graph's list of names, in the order of the file.
fn prefixes(trace: &RankTrace, of: &[u32]) -> impl Iterator<Item = (u64, u64)> {
    let mut rows: Vec<(u32, StrId)> = of
        .iter()
        .filter_map(|&i| trace.activities.get(i as usize))
        .map(|a: &Activity| (a.row, a.name))
        .collect();
    rows.sort_unstable();
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    (1..).zip(rows).map(move |(n, (_, name))| {
        // FNV-1a over the ids, mixed so that neighbouring ids differ in all bits.
        hash = (hash ^ u64::from(name.0).wrapping_mul(0x9e37_79b9_7f4a_7c15))
            .wrapping_mul(0x0000_0100_0000_01b3);
        (n, hash)
    })
}

fn profiler(trace: &RankTrace, out: &mut Vec<CaptureEdge>) {
    for &(row, frame) in &ProfilerCalls::of(trace).calls {
        let name = trace.name(row);
        out.push(CaptureEdge {
            device: None,
            stream: None,
            case: "profiler",
            scope: Some("profiler"),
            span: trace.span(row),
            launches: 1,
            activities: 0,
            evidence: match frame {
                Some(frame) => format!("`{name}` in `{}`", trace.name(frame)),
                None => format!("`{name}` at the end of the recording, after the last launch"),
            },
        });
    }
}

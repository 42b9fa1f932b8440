//! Recordings that begin or end in the middle of work: the table `record_edges`, and the note about it. Times in ns.
//!
//! The cases and their conditions are in `trace::record_edges`. This module adds host calls that waited for work from
//! before the recording, graph launches with fewer activities than others of the same graph, and calls of the profiler
//! itself.

use crate::api::Partial;
use crate::inventory::Ranks;
use crate::recording::facts::{RECORDED, Recordings};
use hashbrown::{HashMap, HashSet};
use hta_base::table;
use hta_base::table::schema::{Batch, Text};
use hta_base::units::{Ns, Span, fmt_count, fmt_ns, fmt_pct, percent};
use hta_base::wording::counts::plural;
use hta_base::wording::ranks::rank_list;
use hta_trace::activity::Activity;
use hta_trace::args::Arg;
use hta_trace::category::Class;
use hta_trace::interval::Union;
use hta_trace::launch::is_launch_call;
use hta_trace::rank_trace::RankTrace;
use hta_trace::record_edges::StartReason;
use hta_trace::strings::StrId;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

table! {
    /// Places where a recording begins or ends in the middle of work, and time that the profiler itself used. A
    /// recording without such edges has no row.
    pub struct RecordEdgeTable, RecordEdgeRow = "record_edges" by "rank, device, stream, case, from_ns" {
        rank;
        device: Option<i64>, "", "device index, where recorded; null: the whole rank";
        stream: Option<i64>, "", "stream, where recorded; null: the whole device";
        case: Text, "", "hidden_work, recorded_head, host_wait, lost_tail, partial_graph or profiler";
        scope: Option<Text>, "", "lead (its time is of the class before_capture) or lost_tail: in no window; profiler; null: the time counts as usual";
        from_ns: i64, "ns", "start";
        to_ns: i64, "ns", "end";
        launches: u64, "", "hidden_work, recorded_head: launch calls that waited behind it; lost_tail, partial_graph: launch calls that lack activities; else the calls";
        activities: u64, "", "hidden_work: activities that those calls own; recorded_head: activities without a launch record; partial_graph: activities that are missing";
        excerpt: bool, "", "a tool cut the file out of a longer one";
        evidence: Text, "", "what shows it";
    }
}

/// Host waits shorter than the shortest hidden wait divided by this are not listed.
const WAIT_SHARE: Ns = 2;

/// Without stacks: largest time from the end of the profiler's own synchronizing call to the last host event, ns.
const BEFORE_END: Ns = 1_000_000;

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
                    "the first launch call returned {} after the first event, its activity started {delay} later; the device \
                     is recorded as busy for {} of that",
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
        let hidden =
            || trace.edges.starts.iter().filter(|s| s.case == StartReason::HiddenWork && s.stream.0 == *device);
        out.push(CaptureEdge {
            device: *device,
            stream: None,
            case: "hidden_work",
            scope: Some("lead"),
            span: Span::new(from, *end),
            launches: hidden().map(|s| s.launches).sum(),
            activities: hidden().map(|s| s.activities).sum(),
            evidence: format!("{} began behind work that is not in the file", plural(hidden().count(), "stream")),
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
    let graphs: Vec<(u32, &[u32])> = trace.launches().iter().filter(|(row, _)| is_graph.holds(*row)).collect();
    let mut by_device: BTreeMap<Option<i64>, Vec<(u32, u64, u64)>> = BTreeMap::new();
    for (row, have, of, device) in short_of(trace, &graphs) {
        by_device.entry(device).or_default().push((row, have, of));
    }
    for (device, found) in by_device {
        let spans = || found.iter().map(|f| trace.span(f.0));
        let Some(&(_, have, of)) = found.iter().max_by_key(|(row, have, of)| (of - have, Reverse(*row))) else {
            continue;
        };
        out.push(CaptureEdge {
            device,
            stream: None,
            case: "partial_graph",
            scope: None,
            span: Span::new(spans().map(|s| s.start).min().unwrap_or(0), spans().map(|s| s.end).max().unwrap_or(0)),
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

/// Launches with fewer activities than another launch of the same graph: their call, both numbers of activities, and
/// the device. Graphs are identified by their ids; without ids, a launch is incomplete if its names are the beginning
/// of another's.
fn short_of(trace: &RankTrace, graphs: &[(u32, &[u32])]) -> Vec<(u32, u64, u64, Option<i64>)> {
    let activity = |i: u32| trace.activities.get(i as usize);
    let mut by_id: BTreeMap<(Option<i64>, u64), u64> = BTreeMap::new();
    // For launches without ids: length and hash of their names, with the length of a longer launch that begins with
    // them.
    let mut wholes: HashMap<(u64, u64), u64> = HashMap::new();
    let mut read: Vec<(u32, Option<i64>, u64, GraphKey)> = Vec::new();
    for (row, of) in graphs {
        let Some(first) = of.first().and_then(|&i| activity(i)) else { continue };
        let count = of.len() as u64;
        let key = match trace.columns.args.uint(Arg::GraphId, first.row).filter(|id| *id != 0) {
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
    let mut rows: Vec<(u32, StrId)> =
        of.iter().filter_map(|&i| trace.activities.get(i as usize)).map(|a: &Activity| (a.row, a.name)).collect();
    rows.sort_unstable();
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    (1..).zip(rows).map(move |(n, (_, name))| {
        // FNV-1a over the ids, mixed so that neighbouring ids differ in all bits.
        hash = (hash ^ u64::from(name.0).wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0x0000_0100_0000_01b3);
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

/// Synchronizing calls that the profiler makes itself; they are not part of the profiled program.
pub(crate) struct ProfilerCalls {
    /// Row of each call, in order, with the profiler's frame that contains it, if stacks were recorded.
    pub(crate) calls: Vec<(u32, Option<u32>)>,
}

impl ProfilerCalls {
    /// The shared instance of a rank.
    pub fn of(trace: &RankTrace) -> Arc<Self> {
        trace.shared(Self::new)
    }

    pub(crate) fn contains(&self, row: u32) -> bool {
        self.calls.binary_search_by_key(&row, |c| c.0).is_ok()
    }

    fn new(trace: &RankTrace) -> Self {
        let c = &trace.columns;
        let syncs = rows_named(trace, Class::Runtime, |t| t.to_ascii_lowercase().contains("synchronize"));
        if syncs.is_empty() {
            return Self { calls: Vec::new() };
        }
        if !trace.classes.contains(&Class::Python) {
            return Self { calls: last_waits(trace, syncs) };
        }
        let mut by_lane: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for row in rows_named(trace, Class::Python, is_profilers_frame) {
            by_lane.entry(c.lane[row as usize]).or_default().push(row);
        }
        let mut held: BTreeMap<u32, (Union, Vec<u32>)> = BTreeMap::new();
        for (lane, mut rows) in by_lane {
            rows.sort_unstable_by_key(|&r| (c.ts[r as usize], r));
            held.insert(lane, (Union::new(rows.iter().map(|&r| trace.span(r))), rows));
        }
        let frame = |call: u32| {
            let (open, rows) = held.get(&c.lane[call as usize])?;
            let span = trace.span(call);
            if open.len_in(span) < span.len() || open.is_empty() {
                return None;
            }
            // The frame that began last is the innermost one, unless it has ended.
            let before = rows.partition_point(|&r| c.ts[r as usize] <= span.start);
            rows[..before].iter().rev().copied().take(DEEPEST).find(|&r| trace.span(r).end >= span.end)
        };
        Self { calls: syncs.into_iter().filter_map(|call| frame(call).map(|f| (call, Some(f)))).collect() }
    }
}

/// Number of the profiler's frames that are checked to find the one that contains a call.
const DEEPEST: usize = 256;

/// Tests events by name; each distinct name is tested once.
struct NameTest<'a, F> {
    trace: &'a RankTrace,
    test: F,
    known: Vec<Option<bool>>,
}

impl<'a, F: Fn(&str) -> bool> NameTest<'a, F> {
    fn new(trace: &'a RankTrace, test: F) -> Self {
        Self { trace, test, known: vec![None; trace.columns.strings.len()] }
    }

    fn holds(&mut self, row: u32) -> bool {
        let Some(name) = self.trace.columns.name.get(row as usize) else { return false };
        let test = || (self.test)(self.trace.text(StrId(*name)));
        self.known.get_mut(*name as usize).is_some_and(|known| *known.get_or_insert_with(test))
    }
}

/// Rows of a class whose names pass a test.
fn rows_named(trace: &RankTrace, class: Class, test: impl Fn(&str) -> bool) -> Vec<u32> {
    let mut named = NameTest::new(trace, test);
    (0..trace.columns.len() as u32).filter(|&r| trace.classes[r as usize] == class && named.holds(r)).collect()
}

/// Whether a Python frame belongs to the profiler, or to a function that starts or stops it.
fn is_profilers_frame(name: &str) -> bool {
    name.contains("torch/profiler/") || name.ends_with("start_profile") || name.ends_with("stop_profile")
}

/// Without stacks: calls that wait for a device, end just before the last host event, and follow all launches of their
/// process.
fn last_waits(trace: &RankTrace, mut syncs: Vec<u32>) -> Vec<(u32, Option<u32>)> {
    let c = &trace.columns;
    let hosts = (0..c.len()).filter(|&r| trace.classes[r].is_host());
    let Some(last) = hosts.map(|r| c.span(r).end).max() else { return Vec::new() };
    let mut of_device = NameTest::new(trace, |t| t.to_ascii_lowercase().contains("devicesynchronize"));
    syncs.retain(|&r| trace.span(r).end >= last.saturating_sub(BEFORE_END) && of_device.holds(r));
    if syncs.is_empty() {
        return Vec::new();
    }
    let pid = |row: u32| c.lanes.get(c.lane[row as usize] as usize).map(|l| l.pid);
    let starts_work = |t: &str| {
        let lower = t.to_ascii_lowercase();
        is_launch_call(t) || lower.contains("memcpy") || lower.contains("memset")
    };
    let mut launched: BTreeMap<Option<StrId>, Ns> = BTreeMap::new();
    for row in rows_named(trace, Class::Runtime, starts_work) {
        let last = launched.entry(pid(row)).or_insert(Ns::MIN);
        *last = c.ts[row as usize].max(*last);
    }
    // A process that launches nothing is not the profiled one.
    syncs.retain(|&r| launched.get(&pid(r)).is_some_and(|last| *last < c.ts[r as usize]));
    syncs.into_iter().map(|r| (r, None)).collect()
}

/// A lead or a lost tail, for the note.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Noted {
    pub rank: u32,
    pub device: Option<i64>,
    pub is_lead: bool,
    pub span: Span,
    pub launches: i64,
    pub excerpt: bool,
    /// First to last recorded event of the rank, ns.
    pub recorded: Ns,
}

/// The single note of a run about leads and lost tails.
pub fn note(inventory: &[Partial]) -> Option<String> {
    let mut noted = Vec::new();
    for p in inventory {
        let Some(rank) = p.rows::<Ranks>().next() else { continue };
        let recorded = rank.last_ts_ns - rank.first_ts_ns;
        let lost = p.rows::<Recordings>().next().filter(|r| r.device_state != RECORDED).map(|r| r.lost_launch_count);
        for row in p.rows::<RecordEdgeTable>() {
            let Some(scope @ ("lead" | "lost_tail")) = row.scope else { continue };
            if lost.is_some_and(|lost| !is_edge_of_lost(scope, row.launches, lost)) {
                continue;
            }
            noted.push(Noted {
                rank: p.rank,
                device: row.device,
                is_lead: scope == "lead",
                span: Span::new(row.from_ns, row.to_ns),
                launches: row.launches as i64,
                excerpt: row.excerpt,
                recorded,
            });
        }
    }
    sentences(&noted, inventory.len())
}

/// Whether what seems to be an edge is one, although more launches lack activities than the note is about: the device
/// seems to wait for earlier work where its kernels are not recorded, but launches in a row at the end are lost there.
pub fn is_edge_of_lost(scope: &str, launches: u64, lost: u64) -> bool {
    scope == "lost_tail" && launches * 2 >= lost
}

/// The text of the note, for rows from any source. `ranks`: number of ranks of the set.
pub fn sentences(noted: &[Noted], ranks: usize) -> Option<String> {
    let of = |is_lead: bool| -> Vec<&Noted> { noted.iter().filter(|n| n.is_lead == is_lead).collect() };
    let said = [lead_sentence(&of(true), ranks), tail_sentence(&of(false), ranks)];
    let said: Vec<String> = said.into_iter().flatten().collect();
    (!said.is_empty()).then(|| said.join(" "))
}

/// The subject of a sentence: a device, or the devices of several ranks.
fn who(of: &[&Noted], ranks: usize) -> String {
    let gpu = |n: &Noted| n.device.map_or_else(|| "the GPU".to_string(), |d| format!("GPU {d}"));
    match of {
        [one] if ranks == 1 => gpu(one),
        [one] => format!("{} of rank {}", gpu(one), one.rank),
        _ => {
            let mut all: Vec<u32> = of.iter().map(|n| n.rank).collect();
            all.dedup();
            format!("{} of rank{} {}", plural(of.len(), "GPU"), if all.len() == 1 { "" } else { "s" }, rank_list(&all))
        }
    }
}

fn lead_sentence(of: &[&Noted], ranks: usize) -> Option<String> {
    let most = of.iter().max_by_key(|n| (n.span.len(), Reverse(n.rank)))?;
    let (who, time) = (who(of, ranks), fmt_ns(most.span.len()));
    let share = fmt_pct(percent(most.span.len(), most.recorded));
    let mut said = match of {
        [_] => format!(
            "{} was still running work launched before this file begins: {time}, {share} of the file, left out of every share.",
            hta_base::wording::counts::capital(&who),
        ),
        _ => format!(
            "{} were still running work launched before their files begin: at most {time} (rank {}), {share} of its file, \
             left out of every share.",
            hta_base::wording::counts::capital(&who),
            most.rank,
        ),
    };
    let cut = of.iter().filter(|n| n.excerpt).count();
    said.push_str(match (cut, of.len()) {
        (0, _) => " Next time synchronise before starting the profiler, or skip the first iteration.",
        (n, all) if n == all => {
            " A tool cut this file out of a longer recording, so the work is most likely an earlier iteration (inferred): \
             analyse the uncut trace for gaps and periods."
        }
        _ => {
            " Where a file was cut out of a longer recording, analyse the uncut trace for gaps and periods; else \
             synchronise before starting the profiler, or skip the first iteration."
        }
    });
    Some(said)
}

fn tail_sentence(of: &[&Noted], ranks: usize) -> Option<String> {
    let most = of.iter().max_by_key(|n| (n.launches, Reverse(n.rank)))?;
    let who = who(of, ranks);
    Some(match of {
        [_] => format!(
            "What the last {} of {who} started was not recorded: {} after the last recorded activity, left out of every \
             share. Next time synchronise before stopping the profiler.",
            plural(most.launches as usize, "launch call"),
            fmt_ns(most.span.len()),
        ),
        _ => format!(
            "What the last launch calls of {who} started was not recorded (at most {} calls, rank {}); the time after the \
             last recorded activities is left out of every share. Next time synchronise before stopping the profiler.",
            fmt_count(most.launches as u64),
            most.rank,
        ),
    })
}

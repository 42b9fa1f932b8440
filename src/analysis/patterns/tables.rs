//! The table `repeats`: every repeated pattern of every stream, with measurements.

use crate::api::{Options, RowEmitter};
use crate::patterns::names::{brief, joined};
use crate::patterns::stream::{LaunchedStretch, PatternStream, streams};
use crate::patterns::{BY, MIN_COUNT, MIN_LENGTH, RANK_BY};
use hta_base::table;
use hta_base::table::schema::{Batch, Table, Text};
use hta_base::units::{Ns, Span, percent};
use hta_trace::activity::Activity;
use hta_trace::args::Arg;
use hta_trace::interval::Union;
use hta_trace::rank_trace::RankTrace;
use hta_trace::repeat::{self, MinimumSize};
use hta_trace::strings::ByText;
use std::cmp::Reverse;
use std::ops::Range;
use std::rc::Rc;

table! {
    /// Sequences of kernels, copies and sets that one stream ran several times; a loop is represented by its
    /// body.
    pub struct RepeatsTable, RepeatRow = "repeats"
        by "rank, gpu_ns (with --rank-by gaps: gap_ns) descending, length, first_ts_ns" {
        rank; device; stream;
        pattern_id: u32, "", "position in this order, from 0";
        length: u32, "", "activities in one occurrence";
        count: u64, "", "occurrences that do not overlap";
        names: Text, "", "names joined by |; of more than 4096 the first and last 2048";
        gpu_ns: i64, "ns", "sum of durations in all occurrences";
        covered_pct: Option<f64>, "%", "of the sum of durations on the stream";
        extent_ns: i64, "ns", "sum of last end - first start";
        busy_ns: i64, "ns", "part of extent_ns in which the stream was busy";
        gap_ns: i64, "ns", "part of extent_ns in which the stream was idle";
        idle_ns: i64, "ns", "part of gap_ns in which the whole device was idle";
        launch_count: Option<f64>, "", "launch calls per occurrence; null where none is recorded";
        launch_cpu_ns: Option<f64>, "ns", "time in these calls per occurrence";
        unlinked_count: u64, "", "activities without a launch record, in all occurrences";
        graph_pct: Option<f64>, "%", "occurrences that lie in one graph launch";
        steps: u32, "", "steps that launched any of it";
        first_ts_ns: i64, "ns", "start of the first occurrence";
        event_id: u32, "", "its first event, as in `events`";
        parent: Option<u32>, "", "first pattern in this order that contains this one";
    }
}

table! {
    /// Sequences of activities launched under an operator, and how often each occurred.
    pub(crate) struct OperatorSequences, OperatorSequenceRow = "operator_sequences"
        by "rank, gpu_dur_sum_ns descending, operator, first_ts_ns, event_id" {
        rank;
        operator: Text, "", "operator";
        sequence: Text, "",
            "names of the activities by start, joined by |; of more than 4096 the first and last 2048";
        length: u32, "", "activities";
        count: u64, "", "instances of the operator with this sequence";
        op_dur_sum_ns: i64, "ns", "sum of the operators' durations";
        gpu_dur_sum_ns: i64, "ns", "sum of the activities' durations";
        first_latency_mean_ns: f64, "ns",
            "mean time from the call to the start of the first activity, not below 0";
        steps: u32, "", "steps that launched any of it";
        first_ts_ns: i64, "ns", "start of the first instance";
        event_id: u32, "", "event of the first instance, as in `events`";
    }
}

table! {
    /// The first patterns of each rank, in the order of repeats, that say something new: parts of others only
    /// where they cover more or come again in them. And the one during whose gaps the device idles most.
    pub(crate) struct TopRepeats, TopRepeatRow = "top_repeats" by "rank, pattern_id" {
        rank; device; stream;
        pattern_id: u32, "", "as in repeats";
        length: u32, "", "activities in one occurrence", "kernels";
        count: u64, "", "occurrences", "times";
        names: Text, "", "short name of the first activity", "begins with";
        gpu_ns: i64, "ns", "sum of durations in all occurrences", "GPU";
        covered_pct: Option<f64>, "%", "of the sum of durations on the stream", "of stream";
        gap_ns: i64, "ns", "gaps of the stream in all occurrences";
        idle_ns: i64, "ns", "part of gap_ns in which the whole device was idle";
        launch_count: Option<f64>, "", "launch calls per occurrence; null where none is recorded";
        launch_cpu_ns: Option<f64>, "ns", "time in these calls per occurrence", "launch";
        graph_pct: Option<f64>, "%", "occurrences that lie in one graph launch", "in a graph";
        steps: u32, "", "steps that launched any of it";
        step_ns: Option<i64>, "ns", "mean length of the rank's full steps";
        step_idle_ns: Option<i64>, "ns",
            "idle time of the device in occurrences, mean over the same steps of what lies in them";
        is_new: bool, "", "it says something new";
        hidden_count: u64, "",
            "patterns of the rank that are not new, or not among the first; in its first row";
    }
}

/// Summary of a table whose rows have been emitted.
pub(crate) struct EmittedTable {
    pub(crate) rows: usize,
    /// The rows that the report needs.
    pub(crate) top: Batch,
}

/// One row of `repeats` before it is written.
struct MeasuredPattern {
    stream: usize,
    /// Index among the stream's patterns.
    pattern: usize,
    /// The first occurrence.
    first: Range<usize>,
    count: u64,
    gpu: Ns,
    extent: Ns,
    busy: Ns,
    idle: Ns,
    launched: LaunchedStretch,
    graphs: u64,
    steps: u32,
}

impl MeasuredPattern {
    fn length(&self) -> u32 {
        self.first.len() as u32
    }

    fn gap(&self) -> Ns {
        self.extent - self.busy
    }

    /// A sum as a mean over occurrences; `None` if no launch is recorded.
    fn per_occurrence(&self, sum: f64) -> Option<f64> {
        (self.launched.calls > 0).then(|| sum / self.count as f64)
    }
}

pub(crate) fn repeats(trace: &RankTrace, options: &Options, give: &mut RowEmitter) -> EmittedTable {
    let by_shape = options.settings.has(&BY, "shape");
    let asked = |setting| u32::try_from(options.settings.count(setting)).unwrap_or(u32::MAX);
    let least = MinimumSize { length: asked(&MIN_LENGTH), count: asked(&MIN_COUNT) };
    let by_gaps = options.settings.text(&RANK_BY) == Some("gaps");
    let is_graph = trace.columns.strings.each(|t| t.contains("GraphLaunch"));

    let mut all: Vec<PatternStream> = Vec::new();
    let mut found: Vec<repeat::FoundRepeats> = Vec::new();
    let mut rows: Vec<MeasuredPattern> = Vec::new();
    // For each stream, when its device runs anything.
    let mut busy: Vec<Rc<Union>> = Vec::new();
    for work in trace.devices.iter().filter(|w| w.is_gpu) {
        let device_busy = Rc::new(work.timeline.busy());
        for stream in streams(trace, work, by_shape) {
            busy.push(Rc::clone(&device_busy));
            let repeats = repeat::repeats(&stream.symbols, &stream.durs, least);
            for k in 0..repeats.patterns.len() {
                rows.push(MeasuredPattern {
                    stream: all.len(),
                    ..measure(trace, &stream, (work.capture, &device_busy), &is_graph, &repeats, k)
                });
            }
            all.push(stream);
            found.push(repeats);
        }
    }
    rows.sort_by_key(|m| {
        let key = if by_gaps { m.gap() } else { m.gpu };
        let start = all[m.stream].activities[m.first.start].span.start;
        (Reverse(key), m.length(), start, m.stream)
    });
    let parents = parents(&rows, &found);
    let step_idle = |m: &MeasuredPattern| {
        let pattern = &found[m.stream].patterns[m.pattern];
        let length = pattern.length() as usize;
        let taken = found[m.stream].taken(pattern);
        let spans = taken.iter().map(|&i| all[m.stream].extent(&(i as usize..i as usize + length)));
        mean_step_idle(trace, &Union::new(spans), &busy[m.stream])
    };
    write(trace, options, by_shape, &all, &rows, &parents, &step_idle, give)
}

/// Idle time of a device during the occurrences of a pattern: the mean over full steps (all, if none is full)
/// of the part inside each step, so never more than the device idles in these steps, ns.
fn mean_step_idle(trace: &RankTrace, occurrences: &Union, busy: &Union) -> Option<Ns> {
    let steps = typical_steps(trace);
    let idle = occurrences.minus(busy);
    steps.iter().map(|s| idle.len_in(*s)).sum::<Ns>().checked_div(steps.len() as Ns)
}

fn measure(
    trace: &RankTrace,
    stream: &PatternStream,
    (capture, device_busy): (Span, &Union),
    is_graph: &ByText<bool>,
    repeats: &repeat::FoundRepeats,
    k: usize,
) -> MeasuredPattern {
    let pattern = &repeats.patterns[k];
    let length = pattern.length() as usize;
    let at = |i: u32| i as usize..i as usize + length;
    let mut m = MeasuredPattern {
        stream: 0,
        pattern: k,
        first: at(pattern.first),
        count: u64::from(pattern.count),
        gpu: pattern.weight,
        extent: 0,
        busy: 0,
        idle: 0,
        launched: LaunchedStretch::default(),
        graphs: 0,
        steps: 0,
    };
    let mut steps: Vec<u32> = Vec::new();
    let mut until = Ns::MIN;
    for occurrence in repeats.taken(pattern).iter().map(|&i| at(i)) {
        // Time in the device's lead is neither gap nor idle.
        let span: Span = stream.extent(&occurrence).intersect(capture);
        m.extent += span.len();
        m.busy += stream.busy_in(span);
        // Occurrences may overlap in time if activities of the stream do: count each instant once.
        let new = Span::new(span.start.max(until), span.end);
        until = until.max(span.end);
        m.idle += new.len() - device_busy.len_in(new);
        let l = stream.launched(trace, &occurrence);
        m.launched.calls += l.calls;
        m.launched.cpu_ns += l.cpu_ns;
        m.launched.unlinked += l.unlinked;
        let of_graph = |row: u32| is_graph.holds(trace.columns.name(row as usize));
        let first = stream.activities[occurrence.start].launch();
        m.graphs += u64::from(l.calls == 1 && l.unlinked == 0 && first.is_some_and(of_graph));
        for step in stream.steps(&occurrence) {
            if steps.last() != Some(&step) {
                steps.push(step);
            }
        }
    }
    steps.sort_unstable();
    steps.dedup();
    m.steps = steps.len() as u32;
    m
}

/// For each row the first row whose pattern contains its own.
fn parents(rows: &[MeasuredPattern], found: &[repeat::FoundRepeats]) -> Vec<Option<u32>> {
    let mut parents = vec![None; rows.len()];
    for (s, repeats) in found.iter().enumerate() {
        let own: Vec<u32> = (0..rows.len() as u32).filter(|&r| rows[r as usize].stream == s).collect();
        let ranking: Vec<u32> = own.iter().map(|&r| rows[r as usize].pattern as u32).collect();
        let mut row_of = vec![0u32; ranking.len()];
        for (&row, &pattern) in own.iter().zip(&ranking) {
            row_of[pattern as usize] = row;
        }
        for (pattern, parent) in repeat::parents(repeats, &ranking).into_iter().enumerate() {
            parents[row_of[pattern] as usize] = parent.map(|p| row_of[p as usize]);
        }
    }
    parents
}

#[expect(clippy::too_many_arguments, reason = "what the rows of one table are made of")]
fn write(
    trace: &RankTrace,
    options: &Options,
    by_shape: bool,
    all: &[PatternStream],
    rows: &[MeasuredPattern],
    parents: &[Option<u32>],
    step_idle: &dyn Fn(&MeasuredPattern) -> Option<Ns>,
    give: &mut RowEmitter,
) -> EmittedTable {
    let shown = shown(rows, parents);
    let mut hidden_count = (rows.len() - shown.iter().filter(|s| s.1).count()) as u64;
    let step_ns = mean_step(trace);
    let sums: Vec<Ns> = all.iter().map(|s| s.durs.iter().sum()).collect();
    let wanted = options.wants(RepeatsTable::SPEC);
    let (mut table, mut top) = (RepeatsTable::default(), TopRepeats::default());
    for (id, (m, parent)) in rows.iter().zip(parents).enumerate() {
        let stream = &all[m.stream];
        let first = stream.activities[m.first.start];
        let covered_pct = percent(m.gpu, sums[m.stream]);
        let launch_count = m.per_occurrence(m.launched.calls as f64);
        let launch_cpu_ns = m.per_occurrence(m.launched.cpu_ns as f64);
        let graph_pct = percent(m.graphs as i64, m.count as i64);
        let pattern_id = id as u32;
        let own = &stream.activities[m.first.clone()];
        if let Some(is_new) = shown.iter().find(|s| s.0 == pattern_id).map(|s| s.1) {
            top.push(TopRepeatRow {
                rank: trace.rank,
                pattern_id,
                device: stream.device,
                stream: stream.stream,
                length: m.length(),
                count: m.count,
                names: &brief(own.iter().map(|a| trace.text(a.name))),
                gpu_ns: m.gpu,
                covered_pct,
                gap_ns: m.gap(),
                idle_ns: m.idle,
                launch_count,
                launch_cpu_ns,
                graph_pct,
                steps: m.steps,
                step_ns,
                step_idle_ns: step_idle(m),
                is_new,
                hidden_count: if is_new { std::mem::take(&mut hidden_count) } else { 0 },
            });
        }
        if !wanted {
            continue;
        }
        let names = names(trace, own, by_shape);
        table.push(RepeatRow {
            rank: trace.rank,
            device: stream.device,
            stream: stream.stream,
            pattern_id,
            length: m.length(),
            count: m.count,
            names: &names,
            gpu_ns: m.gpu,
            covered_pct,
            extent_ns: m.extent,
            busy_ns: m.busy,
            gap_ns: m.gap(),
            idle_ns: m.idle,
            launch_count,
            launch_cpu_ns,
            unlinked_count: m.launched.unlinked,
            graph_pct,
            steps: m.steps,
            first_ts_ns: first.span.start,
            event_id: first.row,
            parent: *parent,
        });
        table.give_piece(give);
    }
    give(table.finish());
    EmittedTable { rows: rows.len(), top: top.finish() }
}

/// The names of a pattern's activities, with their grids and blocks where patterns are told apart by these.
fn names(trace: &RankTrace, own: &[&Activity], by_shape: bool) -> String {
    if !by_shape {
        return joined(own.iter().map(|a| trace.text(a.name)));
    }
    let shape = |arg, row| trace.columns.args.text(arg, row).map_or("-", |t| trace.text(t));
    let named = |a: &&Activity| {
        format!("{} <{}, {}>", trace.text(a.name), shape(Arg::Grid, a.row), shape(Arg::Block, a.row))
    };
    let named: Vec<String> = own.iter().map(named).collect();
    joined(named.iter().map(String::as_str))
}

/// From this share of its occurrences on a pattern is a graph already, whose gaps need no other one, percent.
pub(crate) const GRAPH_DONE_PCT: f64 = 50.0;

/// Largest number of patterns of a rank in tables of the first ones.
pub(crate) const MOST: usize = 64;

/// The first rows that say something new (marked), and the row during whose gaps the device idles most, in
/// order.
///
/// A part of another pattern is informative if it occurs more than once in it, or also elsewhere: it covers
/// more of the stream, or is at most half as long.
fn shown(rows: &[MeasuredPattern], parents: &[Option<u32>]) -> Vec<(u32, bool)> {
    let says_new = |r: &usize| {
        parents[*r].is_none_or(|p| {
            let (own, whole) = (&rows[*r], &rows[p as usize]);
            own.gpu > whole.gpu || 2 * own.length() <= whole.length() && own.count >= 2 * whole.count
        })
    };
    let mut out: Vec<(u32, bool)> =
        (0..rows.len()).filter(says_new).take(MOST).map(|r| (r as u32, true)).collect();
    let open = |m: &&MeasuredPattern| {
        m.launched.calls > m.count && 100.0 * (m.graphs as f64) < GRAPH_DONE_PCT * m.count as f64
    };
    let most = rows.iter().enumerate().filter(|(_, m)| open(m)).max_by_key(|(r, m)| (m.idle, Reverse(*r)));
    if let Some((r, _)) = most.filter(|(r, _)| out.iter().all(|o| o.0 != *r as u32)) {
        out.push((r as u32, false));
        out.sort_unstable();
    }
    out
}

/// Windows of full steps; of all steps if none is full.
fn typical_steps(trace: &RankTrace) -> Vec<Span> {
    let steps = &trace.steps.steps;
    let full: Vec<Span> = steps.iter().filter(|s| !s.is_partial).map(|s| s.window).collect();
    if full.is_empty() { steps.iter().map(|s| s.window).collect() } else { full }
}

/// Mean length of full steps; of all steps if none is full, ns.
fn mean_step(trace: &RankTrace) -> Option<Ns> {
    let steps = typical_steps(trace);
    steps.iter().map(|s| s.len()).sum::<Ns>().checked_div(steps.len() as Ns)
}

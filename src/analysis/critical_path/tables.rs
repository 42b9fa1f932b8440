//! The tables of the path, and one rank's contribution to them.

use crate::api::RowEmitter;
use crate::critical_path::segment::{BEFORE_CAPTURE, PathClass, PathSegment, SegmentPlace};
use crate::critical_path::window::PathWindow;
use hashbrown::HashMap;
use hta_base::table;
use hta_base::table::rollup::Rollup;
use hta_base::table::schema::{Batch, Table, Text};
use hta_base::table::view::{Fold, Keep, RowTest, TableError, ViewScope, ViewSpec};
use hta_base::units::{Ns, fmt_ns, percent};
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::StrId;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Number of names listed for a class.
const NAMES: usize = 3;

table! {
    /// The critical path by class; work + overhead of all rows = dur; only before_capture lies before the
    /// window and has no percentage. With several ranks communication that matched is divided into classes
    /// `_wait` (for other ranks) and `_transfer`.
    pub struct CriticalSummary, CriticalSummaryRow = "critical_path_summary"
        by "rank, work_ns + overhead_ns descending, class" {
        rank;
        scope: Text, "", "step, annotation or capture";
        window: Text, "", "description of the window";
        step: Option<u32>, "", "index of the first step of the window";
        step_label: Option<i64>, "", "number in that step's name";
        step_count: u32, "", "steps in the window; 1 if there are none";
        ts_ns; dur_ns;
        class: Text, "", "class of the time";
        work_ns: i64, "ns", "time on edges that stand for work: an activity or a working thread ran";
        overhead_ns: i64, "ns", "time on edges that only order events: waiting and overhead";
        window_pct: Option<f64>, "%", "work + overhead, of the window";
        count: u64, "", "segments";
        top_name: Option<Text>, "", "event with most of the time";
        top_name_ns: Option<i64>, "ns", "its time";
        top_names: Option<Text>, "", "up to three names with most of the time, with their times";
        has_inferred: bool, "", "part of the time lies on inferred edges";
    }
}

table! {
    /// The critical path by class, as the mean over all ranks; `before_capture` comes last.
    pub(crate) struct CriticalOverRanks, CriticalOverRanksRow = "critical_path_over_ranks"
        by "work_ns + overhead_ns descending, class" {
        class: Text, "", "class of the time, as in critical_path_summary";
        rank_count: u32, "", "ranks that have it on their path";
        work_ns: i64, "ns", "time on edges that stand for work, mean over all ranks";
        overhead_ns: i64, "ns", "time on edges that only order events, mean over all ranks";
        window_pct: Option<f64>, "%", "work + overhead, of the windows of all ranks", "of window";
        count: u64, "", "segments, on all ranks";
        top_name: Option<Text>, "", "event with most of the time of one rank", "largest part";
        top_name_ns: Option<i64>, "ns", "its time there";
    }
}

table! {
    /// What leads the critical path of each rank.
    pub(crate) struct CriticalByRank, CriticalByRankRow = "critical_path_by_rank" by "rank" {
        rank;
        window: Text, "", "description of the window" => first(window);
        dur_ns: f64, "ns", "length of the window", "window" => mean(dur_ns);
        class: Text, "", "class with most of the time", "leads" => first(class);
        class_pct: Option<f64>, "%", "its part of the window", "of window" => first(window_pct);
        work_ns: i64, "ns", "time on edges that stand for work" => sum(work_ns);
        work_pct: Option<f64>, "%", "the same, of the window; the rest is overhead", "work"
            => percent(work_ns, dur_ns);
    }
}

pub(crate) const BY_RANK: Rollup = Rollup::of(CriticalSummary::SPEC, CriticalByRank::SPEC);

pub(crate) const VIEWS: [ViewSpec; 2] = [
    ViewSpec {
        title: "Critical path",
        columns: &["class", "work_ns", "overhead_ns", "window_pct", "top_name"],
        ..ViewSpec::of(CriticalOverRanks::SPEC)
    },
    ViewSpec {
        title: "What leads the critical path of each rank",
        columns: &["rank", "dur_ns", "class", "class_pct", "work_pct"],
        keep: &[Keep::Made(&["rank"], if_several)],
        bar: &[('#', "work_pct")],
        by: "dur_ns",
        fold: Fold::Worst,
        ..ViewSpec::of(CriticalByRank::SPEC)
    },
];

/// The path of a single rank is that of all.
fn if_several(scope: &ViewScope) -> Result<RowTest, TableError> {
    let are_several = !scope.is_one_rank;
    Ok(Box::new(move |_, _| are_several))
}

table! {
    /// The critical path of each rank by segment: each starts where the one before ended, and together they
    /// cover the window.
    pub(crate) struct CriticalPathTable, CriticalPathRow = "critical_path" by "rank, seq" {
        rank;
        device: Option<i64>, "", "device index of an activity, where recorded";
        scope: Text, "", "step, annotation or capture";
        step: Option<u32>, "", "index of the first step of the window";
        step_label: Option<i64>, "", "number in that step's name";
        seq: u32, "", "position on the path, from 0";
        ts_ns: i64, "ns", "start of the segment";
        dur_ns: i64, "ns", "length of the segment";
        class: Text, "", "class of the time";
        edge: Text, "",
            "kind of edge: gpu and host stand for work; stream, launch, stream_wait, inferred, sync, silent, \
             poll, handover, anchor: these only order events";
        inferred: bool, "",
            "the edge (inferred or poll) is a guess: nothing recorded explains the start, or what a silent \
             thread waited for";
        event_id: Option<u32>, "",
            "the event that did the work, or that came late; of a silent thread its innermost event";
        name: Option<Text>, "", "its name";
        stream: Option<i64>, "", "stream of an activity";
        thread: Option<Text>, "", "thread of a host event";
        source_event_id: Option<u32>, "",
            "event at which an edge that only orders events begins; null for work and at the start of the \
             window";
    }
}

table! {
    /// Segments of communication, for the division into waiting and transfer; not written.
    pub(crate) struct PathCalls, PathCallRow = "critical_path_calls" by "ts_ns" {
        event_id: Option<u32>, "", "its event, which may be a call of a collective";
        class: Text, "", "gpu_communication or host_communication";
        is_work: bool, "", "on an edge that works";
        ts_ns: i64, "ns", "start of the segment";
        dur_ns: i64, "ns", "length of the segment";
        name: Text, "", "name of the event";
    }
}

/// The rows of the path.
pub(crate) fn rows(trace: &RankTrace, window: &PathWindow, path: &[PathSegment], give: &mut RowEmitter) {
    let mut table = CriticalPathTable::default();
    for (seq, s) in (0..).zip(path) {
        let activity = match s.place {
            SegmentPlace::Stream(i) => trace.activities.get(i as usize),
            _ => None,
        };
        let thread = match s.place {
            SegmentPlace::Thread(lane) => trace.columns.lanes.get(lane as usize).map(|l| trace.text(l.tid)),
            _ => None,
        };
        table.push(CriticalPathRow {
            rank: trace.rank,
            device: activity.and_then(|a| a.device()),
            scope: window.scope,
            step: window.step,
            step_label: window.label,
            seq,
            ts_ns: s.span.start,
            dur_ns: s.span.len(),
            class: s.class.name(),
            edge: s.edge.name(),
            inferred: s.is_inferred(),
            event_id: s.event,
            name: s.event.map(|row| trace.name(row)),
            stream: activity.and_then(|a| a.stream()),
            thread,
            source_event_id: s.source,
        });
        table.give_piece(give);
    }
    give(table.finish());
}

/// The time of one class.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ClassTime<'a> {
    pub(crate) work: Ns,
    pub(crate) overhead: Ns,
    pub(crate) count: u64,
    pub(crate) names: BTreeMap<&'a str, Ns>,
    pub(crate) has_inferred: bool,
}

/// Sums the path by class.
pub(crate) fn sums<'a>(trace: &'a RankTrace, path: &[PathSegment]) -> BTreeMap<PathClass, ClassTime<'a>> {
    let mut by_class: BTreeMap<PathClass, ClassTime> = BTreeMap::new();
    let mut names: HashMap<(PathClass, StrId), Ns> = HashMap::new();
    for s in path {
        let sum = by_class.entry(s.class).or_default();
        *(if s.edge.is_work() { &mut sum.work } else { &mut sum.overhead }) += s.span.len();
        sum.count += 1;
        sum.has_inferred |= s.is_inferred();
        let name = s.event.map_or(StrId::EMPTY, |row| trace.columns.name(row as usize));
        *names.entry((s.class, name)).or_default() += s.span.len();
    }
    for ((class, name), ns) in names {
        *by_class.entry(class).or_default().names.entry(trace.text(name)).or_default() += ns;
    }
    by_class
}

/// A row of the summary without the columns of its window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClassRow {
    pub(crate) class: String,
    pub(crate) work: Ns,
    pub(crate) overhead: Ns,
    pub(crate) count: u64,
    pub(crate) top_name: Option<(String, Ns)>,
    pub(crate) top_names: Option<String>,
    pub(crate) has_inferred: bool,
}

impl ClassRow {
    pub(crate) fn new(class: String, sum: &ClassTime) -> Self {
        let mut top: Vec<(&str, Ns)> =
            sum.names.iter().filter(|n| !n.0.is_empty()).map(|(n, ns)| (*n, *ns)).collect();
        top.sort_by_key(|t| Reverse(t.1));
        let listed: Vec<String> =
            top.iter().take(NAMES).map(|(name, ns)| format!("{name} ({})", fmt_ns(*ns))).collect();
        Self {
            class,
            work: sum.work,
            overhead: sum.overhead,
            count: sum.count,
            top_name: top.first().map(|(name, ns)| ((*name).to_string(), *ns)),
            top_names: (!listed.is_empty()).then(|| listed.join("; ")),
            has_inferred: sum.has_inferred,
        }
    }

    pub fn read(row: CriticalSummaryRow) -> Self {
        Self {
            class: row.class.to_string(),
            work: row.work_ns,
            overhead: row.overhead_ns,
            count: row.count,
            top_name: row.top_name.map(str::to_string).zip(row.top_name_ns),
            top_names: row.top_names.map(str::to_string),
            has_inferred: row.has_inferred,
        }
    }

    pub(crate) fn ns(&self) -> Ns {
        self.work + self.overhead
    }

    /// Whether the class is outside the window.
    pub(crate) fn is_before_capture(&self) -> bool {
        self.class == BEFORE_CAPTURE
    }
}

/// The window of a rank, which all of its rows repeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PathWindowColumns {
    pub(crate) rank: u32,
    pub(crate) scope: String,
    pub(crate) window: String,
    pub(crate) step: Option<u32>,
    pub(crate) label: Option<i64>,
    pub(crate) steps: u32,
    pub(crate) ts: Ns,
    pub(crate) dur: Ns,
}

impl PathWindowColumns {
    pub(crate) fn new(rank: u32, w: &PathWindow) -> Self {
        Self {
            rank,
            scope: w.scope.to_string(),
            window: w.name.clone(),
            step: w.step,
            label: w.label,
            steps: w.steps,
            ts: w.span.start,
            dur: w.span.len(),
        }
    }

    /// The window of a row.
    pub fn read(row: CriticalSummaryRow) -> Self {
        Self {
            rank: row.rank,
            scope: row.scope.to_string(),
            window: row.window.to_string(),
            step: row.step,
            label: row.step_label,
            steps: row.step_count,
            ts: row.ts_ns,
            dur: row.dur_ns,
        }
    }
}

/// Sorts a rank's rows, longest first; the class before the window comes last.
pub(crate) fn sort(rows: &mut [ClassRow]) {
    let key = |r: &ClassRow| (r.is_before_capture(), Reverse(r.ns()));
    rows.sort_by(|a, b| key(a).cmp(&key(b)).then_with(|| a.class.cmp(&b.class)));
}

/// Adds a rank's sorted rows.
pub(crate) fn push(table: &mut CriticalSummary, head: &PathWindowColumns, rows: &[ClassRow]) {
    for r in rows {
        table.push(CriticalSummaryRow {
            rank: head.rank,
            scope: &head.scope,
            window: &head.window,
            step: head.step,
            step_label: head.label,
            step_count: head.steps,
            ts_ns: head.ts,
            dur_ns: head.dur,
            class: &r.class,
            work_ns: r.work,
            overhead_ns: r.overhead,
            window_pct: percent(r.ns(), head.dur).filter(|_| !r.is_before_capture()),
            count: r.count,
            top_name: r.top_name.as_ref().map(|t| t.0.as_str()),
            top_name_ns: r.top_name.as_ref().map(|t| t.1),
            top_names: r.top_names.as_deref(),
            has_inferred: r.has_inferred,
        });
    }
}

/// Segments of communication with their events.
pub(crate) fn communication(trace: &RankTrace, path: &[PathSegment]) -> Batch {
    let mut table = PathCalls::default();
    for s in
        path.iter().filter(|s| matches!(s.class, PathClass::GpuCommunication | PathClass::HostCommunication))
    {
        table.push(PathCallRow {
            event_id: s.event,
            class: s.class.name(),
            is_work: s.edge.is_work(),
            ts_ns: s.span.start,
            dur_ns: s.span.len(),
            name: s.name(trace),
        });
    }
    table.finish()
}

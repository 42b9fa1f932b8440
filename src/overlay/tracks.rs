//! Collects what is drawn for a rank in addition to its events: counters, the critical path with arrows
//! between its events, and spans in which the rank was late. The result is small compared to the trace: one
//! point per change of a value, one slice per segment.

use crate::overlay::OverlayRequest;
use crate::overlay::plan::DrawnSource;
use hta_analysis::api::Options;
use hta_analysis::counters::series::{CounterSeries, DeviceCounter, series};
use hta_analysis::critical_path::{PathSegment, choose, path};
use hta_analysis::stragglers::LateMarks;
use hta_base::table::schema::{Batch, Table};
use hta_base::units::{Ns, fmt_ns};
use hta_results::run::{Outcome, RowSink};
use hta_trace::rank_trace::RankTrace;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io;
use std::sync::Mutex;

/// A value over time; each value holds until the next point. Times are absolute times of the rank's own
/// clock, ns.
#[derive(Debug, Clone, PartialEq)]
pub struct CounterTrack {
    pub name: String,
    pub points: Vec<(Ns, f64)>,
}

/// A span drawn on an added track.
#[derive(Debug, Clone, PartialEq)]
pub struct Slice {
    pub ts: Ns,
    pub dur: Ns,
    pub name: String,
    pub args: Map<String, Value>,
}

/// An added track; its slices do not overlap.
#[derive(Debug, Clone, PartialEq)]
pub struct SliceTrack {
    pub name: &'static str,
    /// Category of its slices; begins with `hta_`.
    pub category: &'static str,
    pub slices: Vec<Slice>,
}

/// One end of an arrow: a moment inside an event of the source, which is identified by its `pid` and `tid` as
/// text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArrowEnd {
    pub pid: String,
    pub tid: String,
    pub ts: Ns,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flow {
    pub from: ArrowEnd,
    pub to: ArrowEnd,
    /// Kind of the edge of the critical path.
    pub name: &'static str,
}

/// Everything that is drawn for one rank.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RankTracks {
    pub counters: Vec<CounterTrack>,
    pub threads: Vec<SliceTrack>,
    pub flows: Vec<Flow>,
    /// Notes for the user about what could not be drawn, with reasons.
    pub notes: Vec<String>,
}

/// Receives each rank's trace during the analysis, and keeps only what is drawn for it.
pub struct TrackCollector<'a> {
    options: &'a Options,
    counters: &'a [DeviceCounter],
    critical_path: bool,
    /// By file name, because the rank of a file may change until it has been read completely.
    tracks: Mutex<BTreeMap<String, RankTracks>>,
    /// Ranks to draw, by file name.
    drawn: BTreeMap<String, u32>,
}

impl<'a> TrackCollector<'a> {
    pub fn new(request: &'a OverlayRequest, drawn: &[&DrawnSource]) -> Self {
        Self {
            options: request.options,
            counters: request.counters,
            critical_path: request.critical_path,
            tracks: Mutex::new(BTreeMap::new()),
            drawn: drawn.iter().map(|s| (s.input.shown.clone(), s.task.rank)).collect(),
        }
    }

    /// Whether traces have to be loaded in order to draw them.
    pub fn wants_any(&self) -> bool {
        self.critical_path || !self.counters.is_empty()
    }

    /// Adds the spans in which ranks were late (table of the stragglers analysis).
    pub fn add_marks(&mut self, outcome: &Outcome) {
        let Ok(tracks) = self.tracks.get_mut() else { return };
        let tables = outcome.outputs.iter().flat_map(|(_, o)| &o.tables);
        for table in tables.filter(|t| t.spec.name == LateMarks::SPEC.name) {
            for (file, rank) in &self.drawn {
                let slices = late_slices(table, *rank);
                if !slices.is_empty() {
                    let thread = SliceTrack { name: "straggler", category: "hta_straggler", slices };
                    tracks.entry(file.clone()).or_default().threads.push(thread);
                }
            }
        }
    }

    /// The collected tracks, by rank.
    pub fn finish(self) -> BTreeMap<u32, RankTracks> {
        let mut tracks = self.tracks.into_inner().unwrap_or_default();
        self.drawn.iter().filter_map(|(file, rank)| Some((*rank, tracks.remove(file)?))).collect()
    }
}

impl RowSink for TrackCollector<'_> {
    fn rows(&self, _: Batch) -> io::Result<()> {
        Ok(())
    }

    fn trace(&self, trace: &RankTrace) -> io::Result<()> {
        if !self.drawn.contains_key(&trace.file) {
            return Ok(());
        }
        let mut tracks = RankTracks::default();
        if !self.counters.is_empty() {
            counters(trace, self.counters, &mut tracks);
        }
        if self.critical_path {
            critical_path(trace, self.options, &mut tracks);
        }
        let mut all = self.tracks.lock().map_err(|_| io::Error::other("another thread failed"))?;
        all.insert(trace.file.clone(), tracks);
        Ok(())
    }

    fn void(&self) -> io::Result<()> {
        self.tracks.lock().map_err(|_| io::Error::other("another thread failed"))?.clear();
        Ok(())
    }
}

fn counters(trace: &RankTrace, asked: &[DeviceCounter], out: &mut RankTracks) {
    let found = series(trace, asked, None);
    for (counter, reason) in found.missing {
        out.notes.push(format!("rank {}: no {}: {reason}", trace.rank, counter.name()));
    }
    let devices = found.series.iter().filter_map(|s| s.device).collect::<std::collections::BTreeSet<_>>();
    out.counters = found.series.into_iter().map(|s| counter_track(s, devices.len() > 1)).collect();
}

fn counter_track(s: CounterSeries, names_device: bool) -> CounterTrack {
    let mut name = match s.counter {
        DeviceCounter::QueueLength => "queue length".to_string(),
        DeviceCounter::MemoryBandwidth => "memory bandwidth".to_string(),
        DeviceCounter::GpuUtilization => "GPU utilization".to_string(),
        DeviceCounter::SmEfficiency => "SM efficiency".to_string(),
        DeviceCounter::EstOccupancy => "est. occupancy".to_string(),
    };
    if let Some(direction) = s.direction {
        name.push_str(&format!(" {direction}"));
    }
    if let Some(device) = s.device.filter(|_| names_device) {
        name.push_str(&format!(" GPU {device}"));
    }
    if let Some(stream) = s.stream {
        name.push_str(&format!(" stream {stream}"));
    }
    name.push_str(&format!(" ({})", s.counter.unit()));
    let mut points: Vec<(Ns, f64)> =
        s.points.iter().filter_map(|(t, v)| Some((*t, v.filter(|v| v.is_finite())?))).collect();
    // End the last bucket explicitly with 0; viewers would extend it to the end of the trace.
    if let Some(end) = s.end.filter(|_| !points.is_empty()) {
        points.push((end, 0.0));
    }
    CounterTrack { name, points }
}

fn critical_path(trace: &RankTrace, options: &Options, out: &mut RankTracks) {
    let window = match choose(trace, options) {
        Ok(w) => w,
        Err(reason) => {
            out.notes.push(format!("rank {}: no critical path: {reason}", trace.rank));
            return;
        }
    };
    let segments = path(trace, window.span);
    let slice = |s: &PathSegment| {
        let mut args = Map::new();
        args.insert("class".to_string(), json!(s.class.name()));
        args.insert("edge".to_string(), json!(s.edge.name()));
        if s.is_inferred() {
            args.insert("inferred".to_string(), json!(true));
        }
        if let Some(event) = s.event {
            args.insert("event".to_string(), json!(trace.name(event)));
        }
        args.insert("window".to_string(), json!(window.name));
        let shown = if s.edge.is_work() { s.name(trace) } else { "" };
        let name = if shown.is_empty() {
            s.class.name().to_string()
        } else {
            format!("{}: {shown}", s.class.name())
        };
        Slice { ts: s.span.start, dur: s.span.len(), name, args }
    };
    let slices = segments.iter().map(slice).collect();
    out.threads.push(SliceTrack { name: "critical path", category: "hta_critical_path", slices });
    out.flows = arrows(trace, &segments);
}

/// Arrows from each event of the path to the next one on another thread or stream.
///
/// ```text
///   path      |--work A--|--delay--|--work B--|
///   lane 1    |=== A ===|
///                       \_________
///                                 v
///   lane 2                         |=== B ===|
/// ```
fn arrows(trace: &RankTrace, segments: &[PathSegment]) -> Vec<Flow> {
    let c = &trace.columns;
    let end = |row: u32, ts: Ns| {
        let lane = c.lanes.get(*c.lane.get(row as usize)? as usize)?;
        let text = |id| c.strings.get(id).to_string();
        Some(ArrowEnd { pid: text(lane.pid), tid: text(lane.tid), ts })
    };
    let works = segments.iter().filter_map(|s| Some((s, s.event.filter(|_| s.edge.is_work())?)));
    let mut out = Vec::new();
    let mut before: Option<(&PathSegment, u32)> = None;
    let mut edge = None;
    let mut works = works.peekable();
    for s in segments {
        if works.peek().is_none_or(|(w, _)| !std::ptr::eq(*w, s)) {
            edge = edge.or(Some(s.edge));
            continue;
        }
        let Some((segment, row)) = works.next() else { break };
        if let Some((previous, from)) = before
            && c.lane[from as usize] != c.lane[row as usize]
        {
            // An arrow must start inside its event, so it starts at the event's last nanosecond.
            let (span, last) = (trace.span(from), previous.span.end);
            let leave = last.min(span.end - 1).max(span.start);
            let arrive = segment.span.start.max(trace.span(row).start);
            if let (Some(from), Some(to)) = (end(from, leave), end(row, arrive.max(leave))) {
                out.push(Flow { from, to, name: edge.unwrap_or(segment.edge).name() });
            }
        }
        (before, edge) = (Some((segment, row)), None);
    }
    out
}

/// The spans in which a rank was late, cut so that they do not overlap.
fn late_slices(table: &Batch, rank: u32) -> Vec<Slice> {
    let mut out: Vec<Slice> = Vec::new();
    for row in LateMarks::rows(table).filter(|r| r.rank == rank) {
        let (start, end) = (row.ts_ns, row.ts_ns.saturating_add(row.dur_ns));
        let ts = out.last().map_or(start, |s| start.max(s.ts.saturating_add(s.dur)));
        let mut args = Map::new();
        args.insert("finding".to_string(), json!(row.sentence));
        args.insert("step".to_string(), json!(row.step));
        args.insert("excess_ns".to_string(), json!(row.excess_ns));
        args.insert("gain_ns".to_string(), json!(row.gain_ns));
        let name = format!("late by {} (step {})", fmt_ns(row.excess_ns), row.step);
        out.push(Slice { ts, dur: end.saturating_sub(ts).max(0), name, args });
    }
    out
}

//! Writes the overlay: the sources' events, followed for each rank by what is drawn of it.
//!
//! A single rank keeps its file's keys, process ids and base; events are only added. Several ranks get new
//! process ids, flow ids and a common base; the key `hta_overlay` lists the changes, so that they can be
//! reversed.

use crate::overlay::axis::{OverlayAxis, RankAxis};
use crate::overlay::copy::copier::{CopiedProcess, CopiedProcesses, FlowIds, Rewrite};
use crate::overlay::copy::retime::micros;
use crate::overlay::copy::stream::{CopyError, copy};
use crate::overlay::output::OverlayOutput;
use crate::overlay::plan::DrawnSource;
use crate::overlay::tracks::{ArrowEnd, RankTracks};
use crate::overlay::{OverlayError, RankStats};
use hta_base::units::Ns;
use hta_job::Clock;
use hta_read::source::ByteCount;
use hta_results::run::Progress;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io;

/// Number of process ids reserved for each rank in a file of several.
const PID_SPAN: u64 = 1000;
/// Process of the added tracks, relative to the rank's first process id.
const OWN_PID: u64 = PID_SPAN - 1;
/// Largest rank whose process ids fit in 32 bits.
const LARGEST_RANK: u32 = 4_000_000;
/// Process of the added tracks in a file of one rank, if no process of the file has this id.
const OWN_PID_ALONE: u64 = 1_000_000_000;

pub struct OverlayWriter<'a> {
    sources: &'a [&'a DrawnSource],
    axis: OverlayAxis,
    tracks: BTreeMap<u32, RankTracks>,
    /// New process ids of each source; `None` if they do not change.
    processes: Vec<Option<CopiedProcesses>>,
    own_pids: Vec<u64>,
    next_flow: u64,
    buffer: Vec<u8>,
}

impl<'a> OverlayWriter<'a> {
    pub fn new(
        sources: &'a [&'a DrawnSource],
        clocks: &[(u32, Clock)],
        tracks: BTreeMap<u32, RankTracks>,
    ) -> Self {
        let (mut processes, mut own_pids) = (Vec::new(), Vec::new());
        let next_flow = match sources {
            [alone] => {
                let survey = &alone.surveyed.survey;
                let is_free = |p: &u64| !survey.processes.contains_key(&p.to_string());
                processes.push(None);
                own_pids.push((OWN_PID_ALONE..).find(is_free).unwrap_or(OWN_PID_ALONE));
                survey.largest_id + 1
            }
            _ => {
                let by_rank = sources.iter().all(|s| s.task.rank < LARGEST_RANK);
                let first = |position: usize, s: &DrawnSource| match by_rank {
                    true => (u64::from(s.task.rank) + 1) * PID_SPAN,
                    false => (position as u64 + 1) * PID_SPAN,
                };
                let firsts: Vec<u64> = sources.iter().enumerate().map(|(i, s)| first(i, s)).collect();
                let mut spare = firsts.iter().max().copied().unwrap_or(0) + PID_SPAN;
                for (position, (s, first)) in sources.iter().zip(&firsts).enumerate() {
                    processes.push(Some(renamed(s, position, |order: u64| {
                        if order < OWN_PID {
                            return first + order;
                        }
                        spare += 1;
                        spare - 1
                    })));
                    own_pids.push(first + OWN_PID);
                }
                FlowIds::first(sources.len())
            }
        };
        let axis = OverlayAxis::new(sources, clocks);
        Self { sources, axis, tracks, processes, own_pids, next_flow, buffer: Vec::new() }
    }

    fn is_alone(&self) -> bool {
        self.sources.len() == 1
    }

    /// Notes for the user.
    pub fn notes(&self) -> Vec<String> {
        let mut notes: Vec<String> = self.tracks.values().flat_map(|t| t.notes.iter().cloned()).collect();
        for rank in &self.axis.moved {
            notes.push(format!(
                "rank {rank}: the origin of its times is unknown: it begins with the first other rank"
            ));
        }
        notes
    }

    /// Writes the whole file.
    pub fn write(
        &mut self,
        out: &mut OverlayOutput,
        progress: &dyn Progress,
    ) -> Result<Vec<RankStats>, OverlayError> {
        let count = ByteCount::default();
        let size = |s: &&DrawnSource| s.input.path.size().unwrap_or(0);
        progress.start(self.sources.len(), self.sources.iter().map(size).sum(), &count);
        let drawn = self.write_all(out, &count, progress);
        progress.finish();
        drawn
    }

    fn write_all(
        &mut self,
        out: &mut OverlayOutput,
        count: &ByteCount,
        progress: &dyn Progress,
    ) -> Result<Vec<RankStats>, OverlayError> {
        if !self.is_alone() {
            let head = self.head();
            out.write(head.as_bytes()).map_err(|e| out.error(e))?;
        }
        let mut drawn = Vec::new();
        let mut wrote_event = false;
        let mut behind = Vec::new();
        for i in 0..self.sources.len() {
            let source = self.sources[i];
            let rewrite = Rewrite {
                processes: self.processes[i].clone(),
                ids: (!self.is_alone()).then(|| FlowIds::of_rank(i)),
                time: self.axis.placed[i].retime(),
                keeps_members: self.is_alone(),
            };
            let copied = copy(&source.input, rewrite, wrote_event, count, &mut |bytes| out.write(bytes));
            let copied = copied.map_err(|e| match e {
                CopyError::Write(e) => out.error(e),
                read => read.into(),
            })?;
            wrote_event = copied.wrote_event;
            behind = copied.behind;
            let tracks = self.tracks.remove(&source.task.rank).unwrap_or_default();
            self.added(i, &tracks, &mut wrote_event, &mut |bytes| out.write(bytes))
                .map_err(|e| out.error(e))?;
            let of_threads = |category: &str| {
                tracks.threads.iter().filter(|t| t.category == category).map(|t| t.slices.len() as u64).sum()
            };
            drawn.push(RankStats {
                rank: source.task.rank,
                file: source.input.shown.clone(),
                events: copied.survey.events,
                mended: copied.survey.mended,
                counters: tracks.counters.len() as u64,
                samples: tracks.counters.iter().map(|c| c.points.len() as u64).sum(),
                segments: of_threads("hta_critical_path"),
                marks: of_threads("hta_straggler"),
                clock_offset: self.axis.placed[i].offset(),
            });
            progress.rank_done();
        }
        let root_is_array = self.is_alone() && self.sources[0].surveyed.root_is_array;
        let mut tail = if root_is_array { b"\n]\n".to_vec() } else { b"\n  ]".to_vec() };
        if !root_is_array {
            tail.extend_from_slice(&behind);
            if self.is_alone() {
                tail.extend_from_slice(b",\n  \"hta_overlay\": ");
                tail.extend_from_slice(self.legend().to_string().as_bytes());
            }
            tail.extend_from_slice(b"\n}\n");
        }
        out.write(&tail).map_err(|e| out.error(e))?;
        Ok(drawn)
    }

    /// The beginning of a file of several ranks, up to its events.
    fn head(&self) -> String {
        let base = self.axis.base.map(|b| format!("  \"baseTimeNanoseconds\": {b},\n")).unwrap_or_default();
        format!(
            "{{\n  \"schemaVersion\": 1,\n  \"displayTimeUnit\": \"ms\",\n{base}  \"hta_overlay\": \
             {},\n  \"traceEvents\": [\n",
            self.legend()
        )
    }

    /// The changes made to each rank, for the key `hta_overlay`.
    fn legend(&self) -> Value {
        let rank = |(i, s): (usize, &&DrawnSource)| {
            let mut of = Map::new();
            of.insert("rank".to_string(), json!(s.task.rank));
            let name = s.input.shown.rsplit(['/', '\\']).next().unwrap_or_default();
            of.insert("file".to_string(), json!(name));
            of.insert("hta_pid".to_string(), json!(self.own_pids[i]));
            of.insert("time_shift_ns".to_string(), json!(self.axis.placed[i].constant_shift()));
            of.insert("clock_offset_ns".to_string(), json!(self.axis.placed[i].offset()));
            if let Some(p) = &self.processes[i] {
                let back: Map<String, Value> =
                    p.ids.iter().map(|(old, new)| (new.to_string(), json!(old))).collect();
                of.insert("pids".to_string(), Value::Object(back));
                of.insert("first_flow_id".to_string(), json!(FlowIds::first(i)));
            }
            Value::Object(of)
        };
        json!({ "version": 1, "ranks": self.sources.iter().enumerate().map(rank).collect::<Vec<_>>() })
    }

    /// Writes the added events of one rank.
    fn added(
        &mut self,
        i: usize,
        tracks: &RankTracks,
        wrote_event: &mut bool,
        out: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let source = self.sources[i];
        let placed = &self.axis.placed[i];
        let own = self.own_pids[i];
        let rank = source.task.rank;
        let start = source.surveyed.survey.first.map_or(0, |t| placed.of_file(t));
        let mut writer = AddedWriter { buffer: &mut self.buffer, wrote_event, out };
        if let Some(p) = &self.processes[i] {
            name_processes(p, source, start, &mut writer)?;
        }
        if tracks.counters.is_empty() && tracks.threads.is_empty() {
            return writer.flush();
        }
        let name = if self.processes[i].is_some() {
            format!("rank {rank}: hta")
        } else {
            format!("hta rank {rank}")
        };
        let sort = self.processes[i].as_ref().map_or(0, |_| i as u64 * SORT_SPAN);
        writer.metadata("process_name", own, 0, start, json!({ "name": name }))?;
        writer.metadata("process_sort_index", own, 0, start, json!({ "sort_index": sort }))?;
        for (tid, thread) in (1..).zip(&tracks.threads) {
            writer.metadata("thread_name", own, tid, start, json!({ "name": thread.name }))?;
        }
        for c in &tracks.counters {
            let name = Value::from(c.name.as_str()).to_string();
            for (t, value) in &c.points {
                writer.event(format_args!(
                    "{{\"ph\": \"C\", \"cat\": \"hta_counter\", \"name\": {name}, \"pid\": {own}, \"tid\": \
                     0, \"ts\": {}, \"args\": {{\"value\": {value}}}}}",
                    Micros(placed.at(*t))
                ))?;
            }
        }
        for (tid, thread) in (1..).zip(&tracks.threads) {
            for s in &thread.slices {
                let (ts, end) = (placed.at(s.ts), placed.at(s.ts.saturating_add(s.dur)));
                writer.event(format_args!(
                    "{{\"ph\": \"X\", \"cat\": \"{}\", \"name\": {}, \"pid\": {own}, \"tid\": {tid}, \"ts\": \
                     {}, \"dur\": {}, \"args\": {}}}",
                    thread.category,
                    Value::from(s.name.as_str()),
                    Micros(ts),
                    Micros(end.saturating_sub(ts).max(0)),
                    Value::Object(s.args.clone())
                ))?;
            }
        }
        for f in &tracks.flows {
            let id = self.next_flow;
            self.next_flow += 1;
            for (phase, binding, end) in [("s", "", &f.from), ("f", "\"bp\": \"e\", ", &f.to)] {
                writer.event(format_args!(
                    "{{\"ph\": \"{phase}\", \"cat\": \"hta_critical_path\", \"name\": \"{}\", \"id\": {id}, \
                     {binding}\"pid\": {}, \"tid\": {}, \"ts\": {}}}",
                    f.name,
                    pid(end, self.processes[i].as_ref()),
                    number_or_text(&end.tid),
                    Micros(placed.at(end.ts))
                ))?;
            }
        }
        writer.flush()
    }
}

/// Names and orders the processes of a source that say neither themselves.
fn name_processes(
    p: &CopiedProcesses,
    source: &DrawnSource,
    start: i64,
    writer: &mut AddedWriter,
) -> io::Result<()> {
    for (old, process) in &source.surveyed.survey.processes {
        let Some(new) = p.ids.get(old) else { continue };
        if process.name.is_none() {
            let name = p.name(process.label.as_deref().unwrap_or_default(), old);
            writer.metadata("process_name", *new, 0, start, json!({ "name": name }))?;
        }
        if process.sort_index.is_none() {
            let args = json!({ "sort_index": p.sort.get(old) });
            writer.metadata("process_sort_index", *new, 0, start, args)?;
        }
    }
    Ok(())
}

/// Assigns new process ids to the processes of a source.
fn renamed(source: &DrawnSource, position: usize, mut id: impl FnMut(u64) -> u64) -> CopiedProcesses {
    let mut by_order: Vec<(&String, u32)> =
        source.surveyed.survey.processes.iter().map(|(pid, p)| (pid, p.order)).collect();
    by_order.sort_by_key(|(_, order)| *order);
    let mut sorted = by_order.clone();
    sorted.sort_by_key(|(pid, order)| (sort_index(pid, &source.surveyed.survey.processes[*pid]), *order));
    let slot = |(n, (pid, _)): (u64, (&String, u32))| {
        (pid.clone(), position as u64 * SORT_SPAN + n.min(SORT_SPAN - 1))
    };
    CopiedProcesses {
        ids: by_order.into_iter().map(|(pid, order)| (pid.clone(), id(u64::from(order)))).collect(),
        prefix: format!("rank {}: ", source.task.rank),
        sort: (1..).zip(sorted).map(slot).collect(),
    }
}

/// Number of sort indices reserved for each rank; the first is for the added tracks.
const SORT_SPAN: u64 = 1000;

/// Sort position of a process within its rank. Kineto gives devices indices from five million on.
fn sort_index(pid: &str, process: &CopiedProcess) -> i64 {
    process.sort_index.unwrap_or_else(|| match pid.parse::<i64>() {
        Ok(device @ 0..64) => 5_000_000 + device,
        Ok(host) => host,
        Err(_) => i64::MAX,
    })
}

fn pid(end: &ArrowEnd, processes: Option<&CopiedProcesses>) -> String {
    match processes {
        Some(p) => p.ids.get(&end.pid).copied().unwrap_or_default().to_string(),
        None => number_or_text(&end.pid),
    }
}

/// Formats an id as a number if it is one, else as a text.
fn number_or_text(id: &str) -> String {
    match id.parse::<i64>() {
        Ok(n) if n.to_string() == id => id.to_string(),
        _ => Value::from(id).to_string(),
    }
}

/// A time in ns that is displayed in microseconds.
struct Micros(Ns);

impl std::fmt::Display for Micros {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(&String::from_utf8_lossy(&micros(self.0)))
    }
}

impl RankAxis {
    /// Converts a time of the file (relative to its base) to the axis of the overlay.
    fn of_file(&self, t: Ns) -> Ns {
        self.at(t.saturating_add(self.base()))
    }
}

/// Size of the write buffer, bytes.
const GATHERED: usize = 1 << 16;

/// Writes added events, one per line.
struct AddedWriter<'w> {
    buffer: &'w mut Vec<u8>,
    wrote_event: &'w mut bool,
    out: &'w mut dyn FnMut(&[u8]) -> io::Result<()>,
}

impl AddedWriter<'_> {
    fn event(&mut self, text: std::fmt::Arguments) -> io::Result<()> {
        use io::Write;
        if std::mem::replace(self.wrote_event, true) {
            self.buffer.extend_from_slice(b",\n");
        }
        self.buffer.write_fmt(text)?;
        if self.buffer.len() >= GATHERED { self.flush() } else { Ok(()) }
    }

    fn metadata(&mut self, name: &str, pid: u64, tid: u64, ts: Ns, args: Value) -> io::Result<()> {
        let ts = Micros(ts);
        self.event(format_args!(
            "{{\"ph\": \"M\", \"cat\": \"hta_metadata\", \"name\": \"{name}\", \"pid\": {pid}, \"tid\": \
             {tid}, \"ts\": {ts}, \"args\": {args}}}"
        ))
    }

    fn flush(&mut self) -> io::Result<()> {
        (self.out)(self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}

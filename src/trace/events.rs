//! The columns of one trace: its complete events, their arguments and texts, in file order.
//!
//! Row `i` of every column is the `i`-th complete event of the file. The reader fills [`ColumnsBuilder`],
//! which becomes [`Columns`]: Arrow buffers, which the analyses read as slices and
//! [`crate::rank_trace::RankTrace::events`] shares. A file may be read in pieces on several cores: each piece
//! has its own builder, and [`ColumnsBuilder::append`] joins them so that the result does not depend on where
//! the file was cut.

use crate::args::ArgColumns;
use crate::category::{Class, classify};
use crate::device_fields::DeviceFields;
use crate::memory::MemoryRecord;
use crate::memory_dump::MemoryDump;
use crate::strings::{Interner, StrId, TraceTexts};
use arrow_buffer::ScalarBuffer;
use hashbrown::HashMap;
use hta_base::health::{Counter, Health};
use hta_base::units::{Ns, Span};
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

/// Marks the length of an event that has not ended: the `E` event for its `B` event has not been read yet.
pub const NO_LENGTH: Ns = Ns::MIN;

/// The track of an event: process and thread (host), or device and stream. Ids may be text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EventLane {
    pub pid: StrId,
    pub tid: StrId,
    /// The ids as numbers, if they are numeric.
    pub pid_num: Option<i64>,
    pub tid_num: Option<i64>,
}

/// A category as spelled in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpelledCategory {
    pub text: StrId,
    pub class: Class,
    pub(crate) legacy: bool,
}

/// A `B` or `E` event until it is paired. `row` is the row of the event that a `B` opens; `None` for an `E`.
#[derive(Debug, Clone, Copy)]
pub struct Mark {
    pub lane: u32,
    pub ts: Ns,
    pub row: Option<u32>,
}

/// One end of a forward-backward flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowEnd {
    pub id: u64,
    pub ts: Ns,
    pub lane: u32,
    pub is_start: bool,
}

/// A value of a hardware counter that was recorded while work ran.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CounterSample {
    pub device: i64,
    /// The counter as the file names it.
    pub counter: StrId,
    /// Time of the sample, or start of the time over which it is a mean, ns.
    pub ts: Ns,
    /// In the unit that the name tells.
    pub value: f64,
}

/// Names of processes and threads, from `M` events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneName {
    pub lane: u32,
    /// `process_name`, `process_labels` or `thread_name`.
    pub kind: StrId,
    pub text: StrId,
}

/// Everything that a trace, or one piece of its file, contains besides the columns of its complete events.
#[derive(Default)]
pub struct RecordedTrace {
    pub args: ArgColumns,
    pub categories: Vec<SpelledCategory>,
    pub lanes: Vec<EventLane>,
    /// Ids of `ac2g` flow starts: the launches that TraceLens knows.
    pub launch_flows: Vec<u64>,
    /// Ends of `fwdbwd` flows.
    pub flows: Vec<FlowEnd>,
    /// Number of starts and ends by flow category, for counting unpaired ones.
    pub flow_counts: BTreeMap<StrId, [u64; 2]>,
    pub lane_names: Vec<LaneName>,
    /// Allocations and frees; in a finished trace by device and time.
    pub memory: Vec<MemoryRecord>,
    /// Samples of hardware counters, in file order.
    pub counter_samples: Vec<CounterSample>,
    /// Whether some of them have no category, as Cuspy writes them.
    pub has_bare_samples: bool,
    /// Whether metrics of performance were sampled, also if the file lacks their values.
    pub sampled_metrics: bool,
    /// Of a file about memory, which has no events.
    pub dump: Option<MemoryDump>,
    /// Number of events by phase (`X`, `i`, `s`, ...).
    pub phases: BTreeMap<u8, u64>,
    /// Start of the record window: the `Iteration Start` mark, on the file's axis.
    pub window_start: Option<Ns>,
    /// End of the record window: the `Record Window End` mark, on the file's axis.
    pub window_end: Option<Ns>,
    /// First start and last end of the events that were not loaded because nothing needs them, ns.
    pub unloaded: Option<(Ns, Ns)>,
    /// Smallest event index that the profiler recorded: 0 in a file that was not cut.
    pub least_profiler_index: Option<i64>,
    /// Whether any `ts` had a fraction of a microsecond.
    pub has_fraction: bool,
    /// Whether the file ends in the middle of its events, so that those behind are missing.
    pub is_cut: bool,
    pub health: Health,
}

/// All columns of a trace.
#[derive(Default)]
pub struct Columns {
    /// Start, ns, on the rank's own clock.
    pub ts: ScalarBuffer<Ns>,
    /// Length, ns.
    pub dur: ScalarBuffer<Ns>,
    /// Ids in `strings`; see [`Columns::name()`].
    pub name: ScalarBuffer<u32>,
    /// Index into `categories`.
    pub cat: ScalarBuffer<u16>,
    /// Index into `lanes`.
    pub lane: ScalarBuffer<u32>,
    pub strings: TraceTexts,
    pub recorded: RecordedTrace,
}

impl Deref for Columns {
    type Target = RecordedTrace;

    fn deref(&self) -> &RecordedTrace {
        &self.recorded
    }
}

impl Columns {
    /// Number of complete events.
    pub fn len(&self) -> usize {
        self.ts.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ts.is_empty()
    }

    /// Name of a row, which must exist.
    #[inline]
    pub fn name(&self, row: usize) -> StrId {
        StrId(self.name[row])
    }

    /// Span of a row, which must exist.
    #[inline]
    pub fn span(&self, row: usize) -> Span {
        let start = self.ts[row];
        Span::new(start, start.saturating_add(self.dur[row]))
    }
}

/// The columns of a trace, or of one piece of its file, while the file is read.
#[derive(Default)]
pub struct ColumnsBuilder {
    /// Start, ns, on the file's own axis until the base time is added.
    pub ts: Vec<Ns>,
    /// Length, ns, or [`NO_LENGTH`].
    pub dur: Vec<Ns>,
    pub name: Vec<StrId>,
    /// Index into `categories`.
    pub cat: Vec<u16>,
    /// Index into `lanes`.
    pub lane: Vec<u32>,
    pub strings: Interner,
    lane_ids: HashMap<(StrId, StrId), u32>,
    category_ids: HashMap<StrId, u16>,
    pub marks: Vec<Mark>,
    /// Arguments of device rows that become other columns when the file has been read.
    pub device_fields: DeviceFields,
    pub recorded: RecordedTrace,
}

impl Deref for ColumnsBuilder {
    type Target = RecordedTrace;

    fn deref(&self) -> &RecordedTrace {
        &self.recorded
    }
}

impl DerefMut for ColumnsBuilder {
    fn deref_mut(&mut self) -> &mut RecordedTrace {
        &mut self.recorded
    }
}

impl ColumnsBuilder {
    /// The finished columns, which take over the memory of the builder.
    pub fn finish(self) -> Columns {
        let name: Vec<u32> = self.name.into_iter().map(|id| id.0).collect();
        Columns {
            ts: self.ts.into(),
            dur: self.dur.into(),
            name: name.into(),
            cat: self.cat.into(),
            lane: self.lane.into(),
            strings: self.strings.finish(),
            recorded: self.recorded,
        }
    }

    /// Number of complete events.
    pub fn len(&self) -> usize {
        self.ts.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ts.is_empty()
    }

    /// Memory of the contents, bytes, without unused capacity.
    pub fn held_bytes(&self) -> u64 {
        fn of<T>(column: &[T]) -> u64 {
            size_of_val(column) as u64
        }
        // An entry of the hash map: key, value and the map's own data about it.
        const LANE_ENTRY: u64 = 24;
        of(&self.ts)
            + of(&self.dur)
            + of(&self.name)
            + of(&self.cat)
            + of(&self.lane)
            + of(&self.lanes)
            + self.lane_ids.len() as u64 * LANE_ENTRY
            + of(&self.categories)
            + of(&self.marks)
            + of(&self.launch_flows)
            + of(&self.flows)
            + of(&self.lane_names)
            + of(&self.memory)
            + of(&self.counter_samples)
            + of(&self.device_fields.all)
            + self.args.held_bytes()
            + self.strings.held_bytes()
    }

    /// Extends the extent of the events that are not loaded.
    pub fn reach(&mut self, start: Ns, end: Ns) {
        let (first, last) = self.unloaded.unwrap_or((start, end));
        self.unloaded = Some((first.min(start), last.max(end)));
    }

    /// Index of a category, which is added if it is new. The 65,535th and later ones are `Unknown`.
    pub fn category(&mut self, text: StrId) -> u16 {
        if let Some(&i) = self.category_ids.get(&text) {
            return i;
        }
        if self.categories.len() >= usize::from(u16::MAX) {
            return u16::MAX - 1;
        }
        let (class, legacy) = classify(self.strings.get(text));
        let id = self.categories.len() as u16;
        self.categories.push(SpelledCategory { text, class, legacy });
        *self.category_ids.entry(text).or_insert(id)
    }

    /// Index of a lane, which is added if it is new.
    pub fn lane(&mut self, pid: StrId, tid: StrId) -> u32 {
        if let Some(&i) = self.lane_ids.get(&(pid, tid)) {
            return i;
        }
        let number = |s: StrId| self.strings.get(s).parse().ok();
        let lane = EventLane { pid, tid, pid_num: number(pid), tid_num: number(tid) };
        let id = self.lanes.len() as u32;
        self.lanes.push(lane);
        self.lane_ids.insert((pid, tid), id);
        id
    }

    /// Joins the next piece of the same file to this one.
    pub fn append(&mut self, piece: ColumnsBuilder) {
        let base = self.len() as u32;
        let theirs = piece.recorded;
        let strings: Vec<StrId> = piece.strings.iter().map(|(_, t)| self.strings.intern(t)).collect();
        let text = |s: StrId| strings.get(s.0 as usize).copied().unwrap_or_default();
        let cats: Vec<u16> = theirs.categories.iter().map(|c| self.category(text(c.text))).collect();
        let lanes: Vec<u32> = theirs.lanes.iter().map(|l| self.lane(text(l.pid), text(l.tid))).collect();
        let lane = |l: u32| lanes.get(l as usize).copied().unwrap_or(0);
        self.ts.extend(piece.ts);
        self.dur.extend(piece.dur);
        self.name.extend(piece.name.into_iter().map(text));
        self.cat.extend(piece.cat.into_iter().map(|c| cats.get(usize::from(c)).copied().unwrap_or(0)));
        self.lane.extend(piece.lane.into_iter().map(lane));
        self.args.append(theirs.args, base, &strings);
        self.marks.extend(piece.marks.into_iter().map(|m| Mark {
            lane: lane(m.lane),
            row: m.row.map(|r| r + base),
            ..m
        }));
        let fields = piece.device_fields.all.into_iter();
        self.device_fields.all.extend(fields.map(|(row, field, value)| (row + base, field, text(value))));
        self.launch_flows.extend(theirs.launch_flows);
        self.memory.extend(theirs.memory.into_iter().map(|m| MemoryRecord { lane: lane(m.lane), ..m }));
        let samples = theirs.counter_samples.into_iter();
        self.counter_samples.extend(samples.map(|s| CounterSample { counter: text(s.counter), ..s }));
        self.flows.extend(theirs.flows.into_iter().map(|f| FlowEnd { lane: lane(f.lane), ..f }));
        for (cat, n) in theirs.flow_counts {
            let mine = self.flow_counts.entry(text(cat)).or_default();
            mine[0] += n[0];
            mine[1] += n[1];
        }
        self.lane_names.extend(theirs.lane_names.into_iter().map(|n| LaneName {
            lane: lane(n.lane),
            kind: text(n.kind),
            text: text(n.text),
        }));
        for (phase, n) in theirs.phases {
            *self.phases.entry(phase).or_default() += n;
        }
        self.window_start = self.window_start.or(theirs.window_start);
        self.window_end = theirs.window_end.or(self.window_end);
        self.has_fraction |= theirs.has_fraction;
        self.is_cut |= theirs.is_cut;
        self.has_bare_samples |= theirs.has_bare_samples;
        self.sampled_metrics |= theirs.sampled_metrics;
        self.least_profiler_index = match (self.least_profiler_index, theirs.least_profiler_index) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        if let Some((start, end)) = theirs.unloaded {
            self.reach(start, end);
        }
        self.health.merge(&theirs.health);
    }

    /// Closes each `B` event with its `E` event (per lane, as a stack, in order of time), and drops the rows
    /// of `B` events without one.
    pub fn pair_marks(&mut self) {
        if self.marks.is_empty() {
            return;
        }
        let mut marks = std::mem::take(&mut self.marks);
        // The sort is stable, so marks at the same time keep the order of the file.
        marks.sort_by_key(|m| m.ts);
        let mut stacks: HashMap<u32, Vec<(u32, Ns)>> = HashMap::new();
        let mut without_begin = 0;
        for mark in marks {
            let stack = stacks.entry(mark.lane).or_default();
            match mark.row {
                Some(row) => stack.push((row, mark.ts)),
                None => match stack.pop() {
                    Some((row, start)) => self.dur[row as usize] = mark.ts.saturating_sub(start),
                    None => without_begin += 1,
                },
            }
        }
        let keep: Vec<bool> = self.dur.iter().map(|d| *d != NO_LENGTH).collect();
        let without_end = keep.iter().filter(|k| !**k).count() as u64;
        self.health.add(Counter::BeginWithoutEnd, without_end, None, "");
        self.health.add(Counter::EndWithoutBegin, without_begin, None, "");
        self.retain(&keep);
    }

    /// Keeps the rows marked true.
    pub fn retain(&mut self, keep: &[bool]) {
        if keep.iter().all(|k| *k) {
            return;
        }
        let mut new_row = Vec::with_capacity(keep.len());
        let mut n = 0;
        for &k in keep {
            new_row.push(k.then_some(n));
            n += u32::from(k);
        }
        retain_by(&mut self.ts, keep);
        retain_by(&mut self.dur, keep);
        retain_by(&mut self.name, keep);
        retain_by(&mut self.cat, keep);
        retain_by(&mut self.lane, keep);
        self.args.renumber(&new_row);
        self.device_fields.renumber(&new_row);
    }
}

fn retain_by<T>(column: &mut Vec<T>, keep: &[bool]) {
    let mut i = 0;
    column.retain(|_| {
        i += 1;
        keep[i - 1]
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(c: &mut ColumnsBuilder, name: &str, cat: &str, ts: Ns, dur: Ns) -> u32 {
        let name = c.strings.intern(name);
        let cat = c.strings.intern(cat);
        let cat = c.category(cat);
        let (pid, tid) = (c.strings.intern("1"), c.strings.intern("2"));
        let lane = c.lane(pid, tid);
        c.ts.push(ts);
        c.dur.push(dur);
        c.name.push(name);
        c.cat.push(cat);
        c.lane.push(lane);
        (c.len() - 1) as u32
    }

    #[test]
    fn joining_pieces_keeps_order_and_maps_ids() {
        let (mut a, mut b) = (ColumnsBuilder::default(), ColumnsBuilder::default());
        row(&mut a, "x", "kernel", 1, 1);
        row(&mut b, "y", "cpu_op", 2, 1);
        row(&mut b, "x", "kernel", 3, 1);
        a.append(b);
        let names: Vec<_> = a.name.iter().map(|n| a.strings.get(*n)).collect();
        assert_eq!(names, ["x", "y", "x"]);
        assert_eq!(a.name[0], a.name[2]);
        assert_eq!(a.cat, [0, 1, 0]);
        assert_eq!(a.lanes.len(), 1);
    }

    #[test]
    fn begin_and_end_pair_as_a_stack_and_the_rest_is_counted() {
        let mut c = ColumnsBuilder::default();
        for (name, ts) in [("outer", 0), ("inner", 2), ("lost", 20)] {
            let row = row(&mut c, name, "", ts, NO_LENGTH);
            c.marks.push(Mark { lane: 0, ts, row: Some(row) });
        }
        for ts in [5, 9] {
            c.marks.push(Mark { lane: 0, ts, row: None });
        }
        c.pair_marks();
        assert!(c.dur == [9, 3]);
        assert_eq!(c.health.count(Counter::BeginWithoutEnd), 1);
    }
}

//! The rows of a file while it is read.

use super::interned::InternedData;
use super::slices::{ClosedSlice, OpenSlice, Pairing, SliceGroups, SliceStacks};
use super::tracks::{TrackDescriptor, TrackKind, Tracks};
use crate::kineto::composed::ComposedEvent;
use crate::kineto::event::EventReader;
use crate::options::LoadOptions;
use hta_base::health::Counter;
use hta_base::units::Ns;
use hta_trace::args::Arg;
use hta_trace::events::NO_LENGTH;
use hta_trace::meta::Recorder;
use std::collections::{BTreeMap, BTreeSet};

/// Name of what the file does not name.
pub(super) const UNKNOWN: &[u8] = b"[unknown]";

/// Sequence of packets that `transformer_nuggets` adds to a file.
pub(super) const ADDED_SEQUENCE: u64 = 2001;

/// What was read so far.
pub(super) struct PerfettoRows {
    pub(super) reader: EventReader,
    pub(super) writer: Recorder,
    /// Names of the packets' sequence that is being read, and those of the others.
    pub(super) interned: InternedData,
    sequence: u64,
    others: BTreeMap<u64, InternedData>,
    held_by_others: u64,
    pub(super) tracks: Tracks,
    /// Only rows of the run whose process has this track.
    pub(super) run: Option<u64>,
    /// Text of the row that is being made.
    pub(super) text: Vec<u8>,
    pairing: Pairing,
    device_only: bool,
    /// Latest time of an event or its end.
    pub(super) last: Option<Ns>,
    /// Boot time and real time of the same instant.
    pub(super) clocks: (Option<Ns>, Option<Ns>),
    /// Devices and streams that were named.
    pub(super) named: BTreeSet<(u64, Option<i64>)>,
}

impl PerfettoRows {
    pub(super) fn new(options: LoadOptions, writer: Recorder, run: Option<u64>) -> Self {
        let pairing = match writer {
            Recorder::Cuspy => Pairing::ByPosition(SliceGroups::default()),
            _ => Pairing::Stacks(SliceStacks::default()),
        };
        Self {
            reader: EventReader::new(options),
            writer,
            interned: InternedData::default(),
            sequence: 0,
            others: BTreeMap::new(),
            held_by_others: 0,
            tracks: Tracks::default(),
            run,
            text: Vec::new(),
            pairing,
            device_only: options.device_only,
            last: None,
            clocks: (None, None),
            named: BTreeSet::new(),
        }
    }

    pub(super) fn count(&mut self, counter: Counter, at: u64, example: &str) {
        self.reader.columns.health.add(counter, 1, Some(at), example);
    }

    /// Goes on with the names of a sequence: each numbers its own.
    pub(super) fn take_names_of(&mut self, sequence: u64) {
        if self.sequence == sequence {
            return;
        }
        const ENTRY: u64 = 512;
        let next = self.others.remove(&sequence);
        self.held_by_others -= next.as_ref().map_or(0, |names| names.held() + ENTRY);
        let last = std::mem::replace(&mut self.interned, next.unwrap_or_default());
        let last_sequence = std::mem::replace(&mut self.sequence, sequence);
        if !last.is_empty() {
            self.held_by_others += last.held() + ENTRY;
            self.others.insert(last_sequence, last);
        }
    }

    /// Counts a message that breaks off.
    pub(super) fn check(&mut self, is_whole: bool, at: u64) {
        if !is_whole {
            self.count(Counter::PacketDamaged, at, "");
        }
    }

    /// A time as the file has it; `None` (counted) if it cannot be one.
    pub(super) fn time(&mut self, timestamp: u64, at: u64) -> Option<Ns> {
        let time = Ns::try_from(timestamp).ok();
        match time {
            Some(_) => self.last = self.last.max(time),
            None => self.count(Counter::TimeOverflow, at, ""),
        }
        time
    }

    /// Whether the rows of a track are read.
    pub(super) fn takes(&self, track: usize) -> bool {
        let Some(run) = self.run else { return true };
        let process = self.tracks.all.get(track).and_then(|track| self.tracks.all.get(track.process));
        process.is_some_and(|process| process.uuid == run)
    }

    /// Takes over the description of a track, and the name that it has.
    pub(super) fn describe(&mut self, bytes: &[u8], at: u64) {
        let (descriptor, is_whole) = TrackDescriptor::read(bytes);
        self.check(is_whole, at);
        let index = self.tracks.describe(&descriptor);
        if !self.takes(index) {
            return;
        }
        let Some(track) = self.tracks.all.get(index) else { return };
        let kind: &[u8] = match track.kind {
            // The rows of a device stand in a process that is named after the program elsewhere.
            TrackKind::Process if track.name.bytes().starts_with(b"GPU ") => b"process_labels",
            TrackKind::Process => b"process_name",
            TrackKind::Thread | TrackKind::Stream => b"thread_name",
            TrackKind::Counter | TrackKind::Other => return,
        };
        if track.name.bytes().is_empty() {
            return;
        }
        let mut event = ComposedEvent::new(&mut self.reader, &mut self.text, b'M', at);
        event.name(kind);
        event.place(track.pid.as_ref(), &track.tid);
        event.label(&track.name);
        event.commit();
    }

    /// Begins a slice with the row that was made for it.
    pub(super) fn begin(&mut self, slice: OpenSlice) {
        if let Some(row) = slice.row
            && let Some(dur) = self.reader.columns.dur.get_mut(row as usize)
        {
            *dur = NO_LENGTH;
        }
        let columns = &mut self.reader.columns;
        self.pairing.begin(slice, &mut |closed| close(columns, closed));
    }

    pub(super) fn end(&mut self, track: u64, ts: Ns) {
        let columns = &mut self.reader.columns;
        self.pairing.end(track, ts, &mut |closed| close(columns, closed));
    }

    /// Runs `make`, and tells whether it extended the capture by an event that has no row.
    pub(super) fn extent_of(&mut self, make: impl FnOnce(&mut Self) -> Option<u32>) -> (Option<u32>, bool) {
        if !self.device_only {
            return (make(self), false);
        }
        let before = self.reader.columns.unloaded.take();
        let row = make(self);
        let reaches = self.reader.columns.unloaded.is_some();
        if let Some((start, end)) = before {
            self.reader.columns.reach(start, end);
        }
        (row, reaches)
    }

    /// Memory besides the columns, bytes.
    pub(super) fn held(&self) -> u64 {
        const NAMED: u64 = 64;
        // Each may be that of a device of its own, of which the analyses hold so much.
        const LANE: u64 = 4 << 10;
        let of_lanes = self.reader.columns.lanes.len() as u64 * LANE;
        let of_names = self.interned.held() + self.held_by_others + self.named.len() as u64 * NAMED;
        self.pairing.held() + of_names + of_lanes + self.tracks.held() + self.text.capacity() as u64
    }

    /// Ends the slices that have no end.
    pub(super) fn finish(&mut self) {
        let pairing = std::mem::replace(&mut self.pairing, Pairing::Stacks(SliceStacks::default()));
        let columns = &mut self.reader.columns;
        let left = pairing.finish(columns.is_cut, &mut |closed| close(columns, closed));
        columns.health.add(Counter::EndWithoutBegin, left.without_begin, None, "");
        let mut unfinished = Vec::new();
        for slice in left.open {
            close(columns, (slice, self.last.unwrap_or(slice.ts).max(slice.ts)));
            unfinished.extend(slice.row.map(|row| (row, Some(0))));
        }
        columns.args.change(Arg::Finished, &unfinished);
        if self.writer == Recorder::Cuspy && !self.named.is_empty() {
            columns.health.add(Counter::StreamEndsCut, 1, None, "");
        }
        self.shift_clock();
    }

    /// Brings times from the clock of the file to that of which the base is known.
    fn shift_clock(&mut self) {
        let (Some(boot), Some(_)) = self.clocks else { return };
        let columns = &mut self.reader.columns;
        let shift = |time: &mut Ns| *time = time.saturating_sub(boot);
        columns.ts.iter_mut().for_each(shift);
        columns.counter_samples.iter_mut().for_each(|sample| shift(&mut sample.ts));
        columns.unloaded = columns.unloaded.map(|(s, e)| (s.saturating_sub(boot), e.saturating_sub(boot)));
    }
}

/// Gives a slice its length.
fn close(columns: &mut hta_trace::events::ColumnsBuilder, (slice, end): ClosedSlice) {
    match slice.row {
        Some(row) => {
            if let Some(dur) = columns.dur.get_mut(row as usize) {
                *dur = end.saturating_sub(slice.ts);
                if *dur < 0 {
                    *dur = 0;
                    columns.health.add(Counter::DurNegative, 1, None, "");
                }
            }
        }
        None if slice.reaches => columns.reach(slice.ts, end),
        None => {}
    }
}

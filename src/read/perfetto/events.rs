//! Track events: slices, instants and counters of tracks.

use super::annotations::DebugAnnotation;
use super::fields::event as at;
use super::rows::{PerfettoRows, UNKNOWN};
use super::slices::OpenSlice;
use super::tracks::{Track, TrackKind};
use super::wire::{WireMessage, integers};
use crate::kineto::composed::{ComposedEvent, EventText, float, integer};
use hta_base::health::Counter;
use hta_base::units::Ns;
use hta_trace::meta::Recorder;

/// The argument that marks rows of synchronization, which have no category.
const SYNC: &[u8] = b"cuda_sync_kind";

/// Arguments that `transformer_nuggets` adds, some with the number of a flow in brackets.
const ADDED: [&[u8]; 2] = [b"launch_latency_us", b"launch_flow_id"];

/// The argument of rows that it makes of annotations in graphs.
const ADDED_ROW: &[u8] = b"transformer_nuggets.graph_annotation";

/// A track event, without its annotations.
#[derive(Default)]
struct TrackEvent<'a> {
    kind: u64,
    track: u64,
    name: Option<&'a [u8]>,
    name_id: Option<u64>,
    category: Option<&'a [u8]>,
    category_id: Option<u64>,
    value: Option<f64>,
    whole: Option<i64>,
    /// Whether it is one of synchronization, or one that a converter added.
    is_sync: bool,
    is_added: bool,
    /// The device that an annotation tells.
    device: Option<i64>,
    is_broken: bool,
}

impl<'a> TrackEvent<'a> {
    fn read(bytes: &'a [u8], looks_inside: bool) -> Self {
        let mut found = Self::default();
        let mut message = WireMessage::new(bytes);
        while let Some((number, value)) = message.field() {
            match number {
                at::TYPE => found.kind = value.number().unwrap_or(0),
                at::TRACK => found.track = value.number().unwrap_or(0),
                at::NAME => found.name = value.bytes(),
                at::NAME_ID => found.name_id = value.number(),
                at::CATEGORY if found.category.is_none() => found.category = value.bytes(),
                at::CATEGORY_IDS if found.category_id.is_none() => {
                    found.category_id = integers(value).next();
                }
                at::COUNTER_FLOAT => found.value = value.float(),
                at::COUNTER_INT => found.whole = value.number().map(|n| n as i64),
                at::ANNOTATION if looks_inside || found.category_id.is_none() => {
                    found.look_at(&DebugAnnotation::new(value.bytes().unwrap_or_default()));
                }
                _ => {}
            }
        }
        found.is_broken = message.is_broken();
        found
    }

    fn look_at(&mut self, annotation: &DebugAnnotation) {
        match annotation.name {
            SYNC => self.is_sync = true,
            ADDED_ROW => self.is_added = true,
            b"device" => self.device = annotation.integer(),
            _ => {}
        }
    }
}

impl PerfettoRows {
    /// Reads a track event.
    pub(super) fn event(&mut self, bytes: &[u8], timestamp: u64, at: u64) {
        let is_converted = self.writer == Recorder::Converted;
        let event = TrackEvent::read(bytes, is_converted);
        self.check(!event.is_broken, at);
        let Some(time) = self.time(timestamp, at) else { return };
        if event.kind == at::END {
            if self.run.is_none() || self.tracks.find(event.track).is_some_and(|track| self.takes(track)) {
                self.end(event.track, time);
            }
            return;
        }
        let track = self.tracks.find(event.track);
        if track.map_or(self.run.is_some(), |track| !self.takes(track)) {
            return;
        }
        if track.is_none() {
            self.count(Counter::NameNotInterned, at, &format!("the track {}", event.track));
        }
        match event.kind {
            at::BEGIN => {
                let (row, reaches) = match event.is_added {
                    true => {
                        self.count(Counter::ConverterRows, at, "");
                        (None, false)
                    }
                    false => self.extent_of(|rows| rows.row(b'X', &event, track, bytes, (time, at))),
                };
                self.begin(OpenSlice { track: event.track, ts: time, row, reaches });
            }
            at::INSTANT => {
                self.row(b'i', &event, track, bytes, (time, at));
            }
            at::COUNTER => self.sample(&event, track, (time, at)),
            _ => self.count(Counter::PhMissing, at, ""),
        }
    }

    /// Makes a row of an event of a phase of Chrome JSON.
    fn row(
        &mut self,
        phase: u8,
        event: &TrackEvent,
        track: Option<usize>,
        bytes: &[u8],
        (time, at): (Ns, u64),
    ) -> Option<u32> {
        let device = self.device(event, track);
        let track = track.and_then(|track| self.tracks.all.get(track));
        let mut missing = None;
        let name = match event.name_id {
            Some(id) if event.name.is_none() => {
                let known = self.interned.names.event_text(id);
                Some(known.unwrap_or_else(|| lost(&mut missing, "name", id)))
            }
            _ => event.name.map(EventText::from),
        };
        let category = match event.category_id {
            Some(id) if event.category.is_none() => {
                let known = self.interned.categories.event_text(id);
                Some(known.unwrap_or_else(|| lost(&mut missing, "category", id)))
            }
            _ => event.category.or_else(|| default_category(event, track)).map(EventText::from),
        };
        let mut row = ComposedEvent::new(&mut self.reader, &mut self.text, phase, at);
        if let Some(name) = name {
            row.name(name);
        }
        if let Some(category) = category {
            row.category(category);
        }
        let (pid, tid): (EventText, EventText) =
            track.map_or((UNKNOWN.into(), UNKNOWN.into()), |t| (t.pid.as_ref().into(), (&t.tid).into()));
        match device {
            Some(device) => row.place(device.to_string().as_bytes(), tid),
            None => row.place(pid, tid),
        }
        row.start(time);
        row.duration(0);
        let is_converted = self.writer == Recorder::Converted;
        let mut broken = 0;
        let annotations = if row.needs_arguments() { bytes } else { &[] };
        for (number, value) in WireMessage::new(annotations) {
            if number != at::ANNOTATION {
                continue;
            }
            let annotation = DebugAnnotation::new(value.bytes().unwrap_or_default());
            broken += u64::from(annotation.is_broken);
            if !(is_converted && is_added(annotation.name)) {
                row.argument(annotation.name, |buf| annotation.write(buf));
            }
        }
        let made = row.commit();
        self.reader.columns.health.add(Counter::PacketDamaged, broken, Some(at), "");
        if let Some(missing) = missing {
            self.count(Counter::NameNotInterned, at, &missing);
        }
        made
    }

    /// The device of a row. In a run that a converter has merged with others, processes are runs, and a
    /// device row tells its device itself.
    fn device(&mut self, event: &TrackEvent, track: Option<usize>) -> Option<i64> {
        let track = self.tracks.all.get(track?).filter(|track| track.kind == TrackKind::Stream)?;
        let run = track.process;
        let run = Some(run).filter(|run| self.tracks.is_run(*run))?;
        let run = self.tracks.all.get_mut(run)?;
        run.device = event.device.or(run.device);
        Some(run.device.unwrap_or(0))
    }

    /// Keeps a sample of a counter.
    fn sample(&mut self, event: &TrackEvent, track: Option<usize>, (time, at): (Ns, u64)) {
        let Some(track) = track.and_then(|track| self.tracks.all.get(track)) else { return };
        let mut row = ComposedEvent::new(&mut self.reader, &mut self.text, b'C', at);
        row.name(&track.name);
        row.place(track.pid.as_ref(), b"");
        row.start(time);
        match (event.value, event.whole) {
            (Some(value), _) => row.argument(b"", |buf| float(buf, value)),
            (None, Some(value)) => row.argument(b"", |buf| integer(buf, value)),
            (None, None) => return,
        }
        row.commit();
    }
}

/// What stands for a text that the file does not hold.
fn lost(missing: &mut Option<String>, what: &str, id: u64) -> EventText<'static> {
    *missing = Some(format!("the {what} {id}"));
    UNKNOWN.into()
}

/// The category of rows that torch writes without one.
fn default_category(event: &TrackEvent, track: Option<&Track>) -> Option<&'static [u8]> {
    if event.is_sync {
        return Some(b"cuda_sync");
    }
    track.filter(|track| track.pid.bytes() == b"-1").map(|_| &b"overhead"[..])
}

/// Whether a converter added an argument.
fn is_added(name: &[u8]) -> bool {
    let is_it = |added: &[u8]| name.strip_prefix(added).is_some_and(|rest| matches!(rest, [] | [b'[', ..]));
    ADDED.into_iter().any(is_it) || name.starts_with(ADDED_ROW)
}

//! The tracks of a file: which process and thread, or device and stream, each stands for, in the words of
//! Chrome JSON.

use super::fields::track as at;
use super::wire::WireMessage;
use crate::kineto::composed::EventText;
use crate::room::of_map;
use hashbrown::HashMap;
use hta_trace::strings::StrId;
use std::cell::Cell;
use std::rc::Rc;

/// What torch writes in place of numbers that a track cannot have.
const NO_NUMBER: u64 = i32::MAX as u64;

/// Names of processes that are no numbers in JSON; torch numbers them.
const NAMED_PROCESSES: [&[u8]; 2] = [b"Spans", b"Traces"];

/// A descriptor as the file has it.
#[derive(Default)]
pub(super) struct TrackDescriptor<'a> {
    pub(super) uuid: u64,
    parent: Option<u64>,
    name: Option<&'a [u8]>,
    /// Number and name.
    process: Option<(u64, Option<&'a [u8]>)>,
    /// Number of the process, number and name.
    thread: Option<(u64, u64, Option<&'a [u8]>)>,
    is_counter: bool,
}

impl<'a> TrackDescriptor<'a> {
    /// The descriptor, and whether it is whole.
    pub(super) fn read(bytes: &'a [u8]) -> (Self, bool) {
        let mut found = Self::default();
        let mut message = WireMessage::new(bytes);
        while let Some((number, value)) = message.field() {
            let inner = WireMessage::new(value.bytes().unwrap_or_default());
            match number {
                at::UUID => found.uuid = value.number().unwrap_or(0),
                at::PARENT => found.parent = value.number(),
                at::NAME => found.name = value.bytes(),
                at::COUNTER => found.is_counter = true,
                at::PROCESS => {
                    let (mut pid, mut name) = (0, None);
                    for (number, value) in inner {
                        match number {
                            at::PID => pid = value.number().unwrap_or(0),
                            at::PROCESS_NAME => name = value.bytes(),
                            _ => {}
                        }
                    }
                    found.process = Some((pid, name));
                }
                at::THREAD => {
                    let (mut pid, mut tid, mut name) = (0, 0, None);
                    for (number, value) in inner {
                        match number {
                            at::PID => pid = value.number().unwrap_or(0),
                            at::TID => tid = value.number().unwrap_or(0),
                            at::THREAD_NAME => name = value.bytes(),
                            _ => {}
                        }
                    }
                    found.thread = Some((pid, tid, name));
                }
                _ => {}
            }
        }
        (found, !message.is_broken())
    }

    /// Whether it is a row of a device. `has_parent`: the file describes its process.
    pub(super) fn is_stream(&self, has_parent: bool) -> bool {
        let is_row = self.process.is_none() && self.thread.is_none() && !self.is_counter;
        let kind = || kind_of(self.name.unwrap_or_default()).0;
        has_parent && is_row && kind() == TrackKind::Stream
    }

    /// Whether it is a thread of a process.
    pub(super) fn is_thread(&self) -> bool {
        self.thread.is_some()
            || self.parent.is_some() && kind_of(self.name.unwrap_or_default()).0 == TrackKind::Thread
    }

    /// The name of a process, empty if it has none.
    pub(super) fn process_name(&self) -> &'a [u8] {
        self.process.map_or(self.name, |(_, name)| name).unwrap_or_default()
    }

    pub(super) fn parent(&self) -> Option<u64> {
        self.parent
    }
}

/// What a track is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TrackKind {
    Process,
    Thread,
    /// A stream of a device, or the ranges of the program on it.
    Stream,
    Counter,
    Other,
}

/// A text of a track, and its id among those of the trace, if it was looked for.
#[derive(Default)]
pub(super) struct TrackText {
    bytes: Box<[u8]>,
    id: Cell<Option<StrId>>,
}

impl TrackText {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl From<Vec<u8>> for TrackText {
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes: bytes.into(), id: Cell::default() }
    }
}

impl<'a> From<&'a TrackText> for EventText<'a> {
    fn from(text: &'a TrackText) -> Self {
        Self { bytes: &text.bytes, id: Some(&text.id) }
    }
}

/// A track.
pub(super) struct Track {
    pub(super) uuid: u64,
    pub(super) kind: TrackKind,
    /// Process or device, which all tracks of a process share.
    pub(super) pid: Rc<TrackText>,
    /// Thread or stream.
    pub(super) tid: TrackText,
    pub(super) name: TrackText,
    /// Index of the process; its own of a process.
    pub(super) process: usize,
    /// Of a process: index of its name among those of processes.
    process_name: Option<usize>,
    has_threads: bool,
    has_streams: bool,
    /// Of a run: the device whose rows came last.
    pub(super) device: Option<i64>,
}

/// Memory of the parts of a text besides its bytes.
const ALLOCATED: u64 = 48;

impl Track {
    /// Memory of its texts without that of the process, bytes.
    fn held(&self) -> u64 {
        3 * ALLOCATED + (self.tid.bytes.len() + self.name.bytes.len()) as u64
    }
}

/// All tracks, by their order in the file.
#[derive(Default)]
pub(super) struct Tracks {
    pub(super) all: Vec<Track>,
    by_uuid: HashMap<u64, usize>,
    /// The names of processes, and how many have each.
    process_names: HashMap<Vec<u8>, usize>,
    processes_by_name: Vec<usize>,
    /// Memory of all texts, bytes.
    held_by_texts: u64,
    last: (u64, usize),
}

impl Tracks {
    /// Adds a track, or describes it anew. Returns its index.
    pub(super) fn describe(&mut self, descriptor: &TrackDescriptor) -> usize {
        let uuid = descriptor.uuid;
        let (known, at) = match self.by_uuid.get(&uuid) {
            Some(at) => (true, *at),
            None => (false, self.all.len()),
        };
        let parent = descriptor.parent.and_then(|parent| self.by_uuid.get(&parent)).copied();
        let process = parent.and_then(|parent| self.all.get(parent)).map_or(at, |parent| parent.process);
        let mut track = self.track(descriptor, process, at);
        self.held_by_texts += track.held();
        if let Some(run) = self.all.get_mut(process).filter(|_| process != at) {
            run.has_threads |= track.kind == TrackKind::Thread;
            run.has_streams |= track.kind == TrackKind::Stream;
        }
        if track.kind == TrackKind::Process {
            // Tracks that share it keep it, whatever becomes of this one.
            self.held_by_texts += track.pid.bytes.len() as u64;
            track.process_name = Some(self.count_process(track.name.bytes()));
        }
        match self.all.get_mut(at) {
            Some(old) if known => {
                let same_name = old.process_name.and_then(|name| self.processes_by_name.get_mut(name));
                if let Some(count) = same_name {
                    *count -= 1;
                }
                self.held_by_texts -= old.held();
                let Track { has_threads, has_streams, device, .. } = *old;
                *old = Track { has_threads, has_streams, device, ..track };
            }
            _ => {
                self.by_uuid.insert(uuid, at);
                self.all.push(track);
            }
        }
        at
    }

    /// Counts a process by its name. Returns the index of the name.
    fn count_process(&mut self, name: &[u8]) -> usize {
        let next = self.processes_by_name.len();
        let at = *self.process_names.entry_ref(name).or_insert(next);
        if at == next {
            self.held_by_texts += ALLOCATED + name.len() as u64;
            self.processes_by_name.push(0);
        }
        if let Some(count) = self.processes_by_name.get_mut(at) {
            *count += 1;
        }
        at
    }

    /// Memory of all tracks, bytes.
    pub(super) fn held(&self) -> u64 {
        let lists = size_of_val(self.all.as_slice()) + size_of_val(self.processes_by_name.as_slice());
        lists as u64 + of_map(&self.by_uuid) + of_map(&self.process_names) + self.held_by_texts
    }

    /// Whether a track is the process of a run that a converter has merged: it has streams, and threads or a
    /// name of its own. The process of a device is named after the program, or after the device.
    pub(super) fn is_run(&self, at: usize) -> bool {
        self.all.get(at).is_some_and(|track| {
            let is_named = is_name_of_run(track.name.bytes());
            let is_alone =
                || track.process_name.and_then(|name| self.processes_by_name.get(name)) == Some(&1);
            track.has_streams && (track.has_threads || is_named && is_alone())
        })
    }

    fn track(&self, descriptor: &TrackDescriptor, process: usize, at: usize) -> Track {
        let TrackDescriptor { uuid, name, .. } = *descriptor;
        let parent = self.all.get(process).filter(|_| process != at);
        let own = |pid: Vec<u8>| Rc::new(TrackText::from(pid));
        let of_parent = || parent.map(|p| Rc::clone(&p.pid)).unwrap_or_default();
        let name = name.unwrap_or_default();
        let (kind, pid, tid, name) = match (descriptor.process, descriptor.thread) {
            (Some((pid, name)), _) => {
                let name = name.unwrap_or_default();
                let pid = if NAMED_PROCESSES.contains(&name) { name.to_vec() } else { number(pid) };
                (TrackKind::Process, own(pid), b"0".to_vec(), name)
            }
            (None, Some((pid, tid, name))) => {
                let name = name.unwrap_or_default();
                let is_named = parent.is_some_and(|p| NAMED_PROCESSES.contains(&p.name.bytes()));
                let pid = if is_named { of_parent() } else { own(number(pid)) };
                // A call that waits for a whole device is drawn on stream -1, which JSON writes as 1.
                let tid = match tid {
                    _ if is_named => name.to_vec(),
                    NO_NUMBER => b"1".to_vec(),
                    tid => tid.to_string().into_bytes(),
                };
                (TrackKind::Thread, pid, tid, name)
            }
            (None, None) if parent.is_none() => {
                let pid = if name == KINETO { b"-1".to_vec() } else { name.to_vec() };
                (TrackKind::Process, own(pid), b"0".to_vec(), name)
            }
            (None, None) if descriptor.is_counter => (TrackKind::Counter, of_parent(), Vec::new(), name),
            (None, None) => {
                let (kind, tid) = kind_of(name);
                (kind, of_parent(), tid.to_vec(), name)
            }
        };
        let (tid, name) = (tid.into(), name.to_vec().into());
        let (process_name, has_threads, has_streams) = (None, false, false);
        Track { uuid, kind, pid, tid, name, process, process_name, has_threads, has_streams, device: None }
    }

    /// The index of a track; `None` if the file does not describe it.
    #[inline]
    pub(super) fn find(&mut self, uuid: u64) -> Option<usize> {
        if self.last.0 == uuid && self.last.1 < self.all.len() && uuid != 0 {
            return Some(self.last.1);
        }
        let at = *self.by_uuid.get(&uuid)?;
        self.last = (uuid, at);
        Some(at)
    }
}

/// Whether a process of this name can be a run, and not a device.
pub(super) fn is_name_of_run(name: &[u8]) -> bool {
    !name.is_empty() && !name.starts_with(b"GPU ")
}

/// The process of rows about the profiler itself.
const KINETO: &[u8] = b"Kineto events";

fn number(pid: u64) -> Vec<u8> {
    if pid == NO_NUMBER { b"-1".to_vec() } else { (pid as i64).to_string().into_bytes() }
}

/// What a row of a converted trace is by its name, and its number: `stream 7`, `GPU annotations stream 7`,
/// `thread 4711 (python)`, `track 0`. Another name stands for itself.
fn kind_of(name: &[u8]) -> (TrackKind, &[u8]) {
    let behind = |word: &[u8]| {
        let rest = name.strip_prefix(word)?;
        let end = rest.iter().position(|b| !(b.is_ascii_digit() || *b == b'-')).unwrap_or(rest.len());
        let is_end = rest.get(end).is_none_or(|b| *b == b' ');
        rest.get(..end).filter(|number| !number.is_empty() && is_end)
    };
    let streams: [&[u8]; 2] = [b"stream ", b"GPU annotations stream "];
    if let Some(number) = streams.into_iter().find_map(behind) {
        return (TrackKind::Stream, number);
    }
    if let Some(number) = behind(b"thread ") {
        return (TrackKind::Thread, number);
    }
    match behind(b"track ") {
        Some(number) => (TrackKind::Other, number),
        None if name == KINETO || name == b"track" => (TrackKind::Other, b"0"),
        None => (TrackKind::Other, name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_told_by_their_names() {
        assert_eq!(kind_of(b"GPU annotations stream 7"), (TrackKind::Stream, &b"7"[..]));
        assert_eq!(kind_of(b"thread 323917 (python)"), (TrackKind::Thread, &b"323917"[..]));
        assert_eq!(kind_of(b"thread 7x"), (TrackKind::Other, &b"thread 7x"[..]));
        assert_eq!(kind_of(b"PyTorch Profiler"), (TrackKind::Other, &b"PyTorch Profiler"[..]));
    }
}

//! Loads a memory snapshot: runs the pickle and takes what lies at its top apart.

use super::bytes::Bytes;
use super::container::{Object, RowKind, Value};
use super::error::{Problem, SnapshotError};
use super::keys;
use super::kind::open_pickle;
use super::machine::Machine;
use super::store::{DeviceHistory, Generation, Segment, Snapshot};
use crate::health::Counter;
use crate::read::source::{ByteCount, Source};
use crate::units::MemoryLimit;
use std::ops::Range;
use std::path::Path;

/// Reads a snapshot from a file, which may be packed. `shown` is its name in messages.
///
/// # Errors
/// When it is no snapshot, is cut before its segments are complete, or takes more memory than `limit`.
pub fn load_snapshot(
    path: &Path,
    shown: &str,
    limit: Option<MemoryLimit>,
    count: &ByteCount,
) -> Result<Snapshot, SnapshotError> {
    let of = |problem| SnapshotError::new(shown, problem);
    let source = open_pickle(path, count).map_err(|e| of(Problem::Io(e)))?;
    read_snapshot(source, limit).map_err(of)
}

/// Reads a snapshot from a stream.
///
/// # Errors
/// As [`load_snapshot`].
pub fn read_snapshot(source: Box<dyn Source>, limit: Option<MemoryLimit>) -> Result<Snapshot, Problem> {
    let mut machine = Machine::new(Bytes::new(source), limit);
    match machine.run() {
        Ok(top) => whole(machine, top),
        Err(Problem::Cut { expected, byte }) => rest_of_cut(machine, expected, byte),
        Err(problem) => Err(problem),
    }
}

/// The parts of a snapshot as values.
#[derive(Default)]
struct Parts {
    segments: Option<Value>,
    traces: Vec<Value>,
    settings: Option<Value>,
    host_segments: Option<Value>,
    host_traces: Vec<Value>,
}

fn whole(machine: Machine, top: Value) -> Result<Snapshot, Problem> {
    let c = &machine.containers;
    let top = c.resolved(top);
    if c.get(top, keys::ENTRIES).is_some() && c.get(top, keys::PG_CONFIG).is_some() {
        return Err(Problem::FlightRecorder);
    }
    let parts = match c.object(top) {
        Some(Object::Map(_)) if c.get(top, keys::SEGMENTS).is_some() => Parts {
            segments: c.get(top, keys::SEGMENTS),
            traces: c.get(top, keys::DEVICE_TRACES).map(|v| c.values(v)).unwrap_or_default(),
            settings: c.get(top, keys::ALLOCATOR_SETTINGS),
            host_segments: c.get(top, keys::HOST_SEGMENTS),
            host_traces: c.get(top, keys::HOST_TRACES).map(|v| host_lists(v, c.values(v))).unwrap_or_default(),
        },
        Some(Object::Rows { kind: RowKind::Segment, .. }) => Parts { segments: Some(top), ..Parts::default() },
        _ => return Err(Problem::Other { what: "a Python pickle of another kind, without `segments`" }),
    };
    Ok(assemble(machine, parts))
}

/// `host_traces` is a list of entries, or a list of such lists.
fn host_lists(list: Value, values: Vec<Value>) -> Vec<Value> {
    if values.iter().all(|v| matches!(v, Value::Rows { .. })) { vec![list] } else { values }
}

/// A cut file can be used if its segments are complete: then the key after them was read.
fn rest_of_cut(mut machine: Machine, expected: &'static str, byte: u64) -> Result<Snapshot, Problem> {
    if let [top] = machine.stack[..]
        && machine.containers.get(top, keys::SEGMENTS).is_some()
    {
        // Only the end mark is missing.
        machine.rows.health.add(Counter::SnapshotCut, 1, Some(byte), "");
        return whole(machine, top);
    }
    let damage = machine.bytes.damage.take();
    let too_early = || match damage {
        Some(reason) => Problem::Packed(reason),
        None => Problem::Cut { expected, byte },
    };
    let mut stack = std::mem::take(&mut machine.stack).into_iter().skip(1).peekable();
    let mut parts = Parts::default();
    while let Some(key) = stack.next() {
        let Some(value) = stack.next() else { break };
        match key {
            Value::Text(keys::SEGMENTS) => parts.segments = Some(value),
            Value::Text(keys::ALLOCATOR_SETTINGS) => parts.settings = Some(value),
            Value::Text(keys::HOST_SEGMENTS) => parts.host_segments = Some(value),
            Value::Text(keys::DEVICE_TRACES) => {
                parts.traces = machine.containers.values(value);
                // Lists of devices that were not yet put into the outer list, and entries not yet put into theirs.
                parts.traces.extend(stack.by_ref().take_while(|v| !matches!(v, Value::Text(_))));
                break;
            }
            _ => {}
        }
        if key == Value::Text(keys::SEGMENTS) && !matches!(stack.peek(), Some(Value::Text(_))) {
            return Err(too_early());
        }
    }
    if parts.segments.is_none() {
        return Err(too_early());
    }
    machine.rows.health.add(Counter::SnapshotCut, 1, Some(byte), "");
    Ok(assemble(machine, parts))
}

fn assemble(machine: Machine, parts: Parts) -> Snapshot {
    let Machine { containers: c, mut rows, .. } = machine;
    let segments_of = |value: Option<Value>| -> Vec<Segment> {
        let values = value.map(|v| c.values(v)).unwrap_or_default();
        values.iter().flat_map(|v| rows.segments.get(range(v, RowKind::Segment)).unwrap_or_default()).copied().collect()
    };
    let (segments, host_segments) = (segments_of(parts.segments), segments_of(parts.host_segments));
    let mut histories: Vec<DeviceHistory> = Vec::new();
    let mut device = 0;
    for value in &parts.traces {
        // Rows beside the lists are the entries of the list before, in a file that was cut.
        let is_rest = matches!(value, Value::Rows { .. });
        let runs = runs(*value, &c);
        match histories.last_mut().filter(|_| is_rest) {
            Some(last) if last.device == device - 1 => last.runs.extend(runs),
            _ if is_rest => histories.push(DeviceHistory { device: (device - 1).max(0), is_host: false, runs }),
            _ => {
                histories.push(DeviceHistory { device, is_host: false, runs });
                device += 1;
            }
        }
    }
    let host_runs: Vec<Range<u32>> = parts.host_traces.iter().flat_map(|v| runs(*v, &c)).collect();
    histories.push(DeviceHistory { device: -1, is_host: true, runs: host_runs });
    histories.retain(|h| !h.is_empty());
    let generation = match &rows {
        _ if parts.host_segments.is_some() => Generation::Host,
        r if r.has_context => Generation::CompileContext,
        r if r.has_time => Generation::Timed,
        r if r.has_past => Generation::BlockHistory,
        _ => Generation::Untimed,
    };
    let settings = match parts.settings.and_then(|v| c.object(v)) {
        Some(Object::Map(at)) => {
            let pairs = c.maps.get(at as usize).map(|m| m.pairs.as_slice()).unwrap_or_default();
            let name = |key: &Value| key.text().map_or_else(String::new, |t| rows.texts.get(t).to_string());
            pairs.iter().map(|(key, value)| (name(key), c.json(*value, &rows.texts))).collect()
        }
        _ => Vec::new(),
    };
    if let Some(reason) = machine.bytes.damage {
        rows.health.note(Counter::SnapshotCut, &reason);
    }
    Snapshot {
        generation,
        texts: rows.texts,
        stacks: rows.stacks,
        segments,
        host_segments,
        blocks: rows.blocks,
        entries: rows.entries,
        histories,
        annotations: rows.annotations,
        settings,
        streams: rows.streams,
        health: rows.health,
    }
}

fn range(value: &Value, of: RowKind) -> Range<usize> {
    match value {
        Value::Rows { kind, first, len } if *kind == of => {
            *first as usize..(*first as usize).saturating_add(*len as usize)
        }
        _ => 0..0,
    }
}

/// The entries of a device's list.
fn runs(list: Value, c: &super::container::Containers) -> Vec<Range<u32>> {
    let of = |value: &Value| match value {
        Value::Rows { kind: RowKind::Entry, first, len } => Some(*first..first.saturating_add(*len)),
        _ => None,
    };
    match list {
        Value::Rows { .. } => of(&list).into_iter().collect(),
        _ => c.values(list).iter().filter_map(of).collect(),
    }
}

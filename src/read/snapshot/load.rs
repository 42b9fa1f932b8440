//! Loads a memory snapshot: runs the pickle and takes what lies at its top apart.

use super::bytes::PickleBytes;
use super::container::{Containers, Object, RowKind, SharedList, Value};
use super::error::Problem;
use super::keys;
use super::machine::PickleMachine;
use super::rows::SnapshotRowList;
use crate::room::MemoryGate;
use crate::source::Source;
use hta_base::health::Counter;
use hta_trace::snapshot::{DeviceHistory, Generation, Segment, Snapshot};
use std::collections::BTreeSet;
use std::ops::Range;

/// Largest number of devices of a snapshot. A machine has some dozen at most, and each has a report of its
/// own.
const MOST_DEVICES: usize = 1 << 10;

/// Longest name of a setting, characters.
const LONGEST_NAME: usize = 1 << 10;

/// Reads a snapshot from a stream.
///
/// # Errors
/// When it is no snapshot, is cut before its segments are complete, or takes more memory than `room` gives.
pub fn read_snapshot(source: Box<dyn Source>, room: &dyn MemoryGate) -> Result<Snapshot, Problem> {
    let mut machine = PickleMachine::new(PickleBytes::new(source), room);
    match machine.run() {
        Ok(top) => whole(machine, top),
        Err(Problem::Cut { expected, byte }) => rest_of_cut(machine, expected, byte),
        Err(problem) => Err(problem),
    }
}

/// The parts of a snapshot as values.
#[derive(Default)]
struct SnapshotParts {
    segments: Option<Value>,
    traces: Vec<Value>,
    settings: Option<Value>,
    host_segments: Option<Value>,
    host_traces: Vec<Value>,
}

fn whole(mut machine: PickleMachine, top: Value) -> Result<Snapshot, Problem> {
    let c = &mut machine.containers;
    let top = c.resolved(top);
    if c.get(top, keys::ENTRIES).is_some() && c.get(top, keys::PG_CONFIG).is_some() {
        return Err(Problem::FlightRecorder);
    }
    let parts = match c.object(top) {
        Some(Object::Map(_)) if c.get(top, keys::SEGMENTS).is_some() => SnapshotParts {
            segments: c.get(top, keys::SEGMENTS),
            traces: c.get(top, keys::DEVICE_TRACES).and_then(|v| c.take(v).ok()).unwrap_or_default(),
            settings: c.get(top, keys::ALLOCATOR_SETTINGS),
            host_segments: c.get(top, keys::HOST_SEGMENTS),
            host_traces: c.get(top, keys::HOST_TRACES).and_then(|v| c.take(v).ok()).unwrap_or_default(),
        },
        Some(Object::Rows { kind: RowKind::Segment, .. }) => {
            SnapshotParts { segments: Some(top), ..SnapshotParts::default() }
        }
        _ => return Err(Problem::Other { what: "a Python pickle of another kind, without `segments`" }),
    };
    assemble(machine, parts)
}

/// A cut file can be used if its segments are complete: then the key after them was read.
fn rest_of_cut(mut machine: PickleMachine, expected: &'static str, byte: u64) -> Result<Snapshot, Problem> {
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
    let mut parts = SnapshotParts::default();
    while let Some(key) = stack.next() {
        let Some(value) = stack.next() else { break };
        match key {
            Value::Text(keys::SEGMENTS) => parts.segments = Some(value),
            Value::Text(keys::ALLOCATOR_SETTINGS) => parts.settings = Some(value),
            Value::Text(keys::HOST_SEGMENTS) => parts.host_segments = Some(value),
            Value::Text(keys::DEVICE_TRACES) => {
                parts.traces = machine.containers.take(value).unwrap_or_default();
                // Lists of devices that were not yet put into the outer list, and entries not yet put into
                // theirs.
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
    assemble(machine, parts)
}

fn assemble(machine: PickleMachine, parts: SnapshotParts) -> Result<Snapshot, Problem> {
    let read = machine.bytes.offset();
    let PickleMachine { containers: mut c, mut rows, .. } = machine;
    let segments = segments_of(parts.segments, &mut c, &mut rows);
    let host_segments = segments_of(parts.host_segments, &mut c, &mut rows);
    let mut histories: Vec<DeviceHistory> = Vec::new();
    let mut device = 0;
    for value in &parts.traces {
        // Rows beside the lists are the entries of the list before, in a file that was cut.
        let is_rest = matches!(value, Value::Rows { .. });
        let runs = runs(*value, &mut c, &mut rows);
        match histories.last_mut().filter(|_| is_rest) {
            Some(last) if last.device == device - 1 => last.runs.extend(runs),
            _ if is_rest => {
                histories.push(DeviceHistory { device: (device - 1).max(0), is_host: false, runs })
            }
            _ => {
                histories.push(DeviceHistory { device, is_host: false, runs });
                device += 1;
            }
        }
    }
    // Either a list of entries, or a list of such lists.
    let host_runs: Vec<Range<u32>> =
        parts.host_traces.iter().flat_map(|v| runs(*v, &mut c, &mut rows)).collect();
    histories.push(DeviceHistory { device: -1, is_host: true, runs: host_runs });
    histories.retain(|h| !h.is_empty());
    let devices: BTreeSet<i64> =
        segments.iter().map(|s| s.device).chain(histories.iter().map(|h| h.device)).collect();
    if devices.len() > MOST_DEVICES {
        let what = format!("{} devices", devices.len());
        return Err(Problem::Exceeds { what, limit: MOST_DEVICES.to_string(), byte: read });
    }
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
            let mut settings = Vec::new();
            for (key, value) in pairs {
                let mut json = rows.json.writer(&c, &rows.texts, read);
                json.value(*value);
                let out = json.out;
                rows.json.spend(&out);
                let name = key.text().map_or("", |t| rows.texts.get(t)).chars().take(LONGEST_NAME).collect();
                settings.push((name, out));
            }
            settings
        }
        _ => Vec::new(),
    };
    if let Some(reason) = machine.bytes.damage {
        rows.health.note(Counter::SnapshotCut, &reason);
    }
    Ok(Snapshot {
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
        unpacked_bytes: read,
        health: rows.health,
    })
}

/// The segments of a list.
fn segments_of(list: Option<Value>, c: &mut Containers, rows: &mut SnapshotRowList) -> Vec<Segment> {
    let mut all = Vec::new();
    for range in claimed(list, RowKind::Segment, c, rows) {
        all.extend_from_slice(
            rows.segments.get(range.start as usize..range.end as usize).unwrap_or_default(),
        );
    }
    all
}

/// The entries of a device's list.
fn runs(list: Value, c: &mut Containers, rows: &mut SnapshotRowList) -> Vec<Range<u32>> {
    claimed(Some(list), RowKind::Entry, c, rows)
}

/// The rows of a list, or rows by themselves, that no other place has.
fn claimed(
    list: Option<Value>,
    of: RowKind,
    c: &mut Containers,
    rows: &mut SnapshotRowList,
) -> Vec<Range<u32>> {
    let values = match list {
        None => Vec::new(),
        Some(alone @ Value::Rows { .. }) => vec![alone],
        Some(list) => c.take(list).unwrap_or_else(|SharedList| {
            rows.shared(None);
            Vec::new()
        }),
    };
    let mut ranges = Vec::new();
    for value in values {
        match value {
            Value::Rows { kind, first, len } if kind == of && rows.claim(of, first, len, None) => {
                ranges.push(first..first.saturating_add(len));
            }
            _ => {}
        }
    }
    ranges
}

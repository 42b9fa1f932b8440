//! Writes the builder's rows as packets of Perfetto: as torch does itself, and as `transformer_nuggets`
//! converts torch's JSON. Both leave out what they have no place for: flows, memory, metadata of the job.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::event::{ArgValue, Event, EventPhase, IdValue, NameValue, TestEvent};
use crate::protobuf::ProtoMessage;
use crate::trace::TraceBuilder;

/// The kinds of device rows: their categories in JSON and their names here.
const STAGES: [(&str, &str); 6] = [
    ("kernel", "Kernel"),
    ("gpu_memcpy", "Memcpy"),
    ("gpu_memset", "Memset"),
    ("gpu_user_annotation", "Annotation"),
    ("graph_event_node", "EventRecord"),
    ("graph_host_node", "HostNode"),
];

/// Arguments of device rows with another name here.
const RENAMED: [(&str, &str); 3] =
    [("device", "device id"), ("context", "context id"), ("stream", "stream id")];

/// Arguments of device rows that are 0 where they are left out.
const LEFT_OUT: [&str; 9] = [
    "correlation",
    "priority",
    "queued",
    "channel",
    "channel_type",
    "bytes",
    "value",
    "graph id",
    "graph node id",
];

/// Number of the first lane among the names of stages.
const FIRST_LANE: i64 = 100;

/// Texts with numbers, in the order of their first use.
#[derive(Default)]
struct TextNumbers(BTreeMap<String, i64>);

impl TextNumbers {
    fn of(&mut self, text: &str) -> i64 {
        let next = self.0.len() as i64 + 1;
        *self.0.entry(text.to_owned()).or_insert(next)
    }

    /// The texts as fields of a message, each a message of its number and its text.
    fn write(&self, into: ProtoMessage, field: u32, text: u32) -> ProtoMessage {
        self.0.iter().fold(into, |message, (name, number)| {
            message.message(field, &ProtoMessage::new().int(1, *number).text(text, name))
        })
    }
}

/// A track: the process and the thread of its rows.
type TrackPlace = (String, String);

impl TraceBuilder {
    /// The packets of torch's own file.
    pub fn to_packets(&self) -> Vec<ProtoMessage> {
        let clock = |id| ProtoMessage::new().int(1, id).int(2, self.base_ns);
        let clocks = ProtoMessage::new().message(1, &clock(6)).message(1, &clock(1));
        let mut packets = vec![ProtoMessage::new().int(8, self.base_ns).int(10, 1).message(6, &clocks)];
        let (mut writer, host) = (PacketWriter::new(self), self.rows());
        let mut events = Vec::new();
        // A group for each category, as torch writes them.
        let mut groups: BTreeMap<usize, Vec<&TestEvent>> = BTreeMap::new();
        for row in host.iter().filter(|row| row.phase == EventPhase::Complete && stage(row).is_none()) {
            let order = ["cuda_runtime", "cuda_driver", "overhead", "cuda_sync"];
            let group = order.iter().position(|category| *category == row.category).map_or(0, |at| at + 1);
            groups.entry(group).or_default().push(row);
        }
        for group in groups.values() {
            events.extend(group.iter().map(|row| writer.begin(row)));
            events.extend(group.iter().map(|row| writer.end(row)));
        }
        events.extend(host.iter().filter_map(|row| writer.stage(row)));
        events.extend(host.iter().filter_map(|row| writer.sample(row)));
        packets.extend(writer.tracks(false));
        packets.push(writer.names());
        packets.extend(events);
        packets
    }

    /// The packets of torch's JSON as `transformer_nuggets` converts it. Rows of a track must not overlap in
    /// part.
    pub fn to_converted_packets(&self) -> Vec<ProtoMessage> {
        let mut writer = PacketWriter::new(self);
        // Ends come before begins of the same time; of slices that begin together the longest is first.
        let mut marks: Vec<((i64, bool, i64), ProtoMessage)> = Vec::new();
        for row in self.rows() {
            let dur = row.dur.unwrap_or(0);
            match row.phase {
                EventPhase::Complete if dur > 0 => {
                    let begin = writer.converted(row, 1);
                    marks.push(((row.ts, true, -dur), writer.packet(row.ts, 1001).message(11, &begin)));
                    let end = ProtoMessage::new().int(9, 2).int(11, writer.track(row));
                    marks.push((
                        (row.ts + dur, false, -row.ts),
                        writer.packet(row.ts + dur, 1001).message(11, &end),
                    ));
                }
                EventPhase::Instant { .. } => {
                    let event = writer.converted(row, 3);
                    marks.push(((row.ts, true, 0), writer.packet(row.ts, 1001).message(11, &event)));
                }
                _ => {}
            }
        }
        marks.sort_by_key(|(place, _)| *place);
        writer.tracks(true).into_iter().chain(marks.into_iter().map(|(_, packet)| packet)).collect()
    }

    fn rows<'a>(&'a self) -> Vec<&'a TestEvent> {
        let row = |event: &'a Event| -> Option<&'a TestEvent> {
            if let Event::Row(row) = event { Some(row) } else { None }
        };
        self.events.iter().filter_map(row).collect()
    }
}

/// The name of the kind of a device row.
fn stage(row: &TestEvent) -> Option<&'static str> {
    STAGES.iter().find(|stage| stage.0 == row.category).map(|stage| stage.1)
}

fn name(row: &TestEvent) -> String {
    match &row.name {
        NameValue::Text(text) => text.clone(),
        NameValue::Raw(bytes) => String::from_utf8_lossy(bytes).into_owned(),
    }
}

fn id(value: &IdValue) -> String {
    match value {
        IdValue::Number(n) | IdValue::Stream(n) => n.to_string(),
        IdValue::Text(text) => text.clone(),
    }
}

/// The arguments that are JSON, by their keys.
fn arguments(row: &TestEvent) -> Map<String, Value> {
    let json = |(key, value): &(String, ArgValue)| match value {
        ArgValue::Json(value) => Some((key.clone(), value.clone())),
        ArgValue::Raw(_) => None,
    };
    let mut found: Vec<(String, Value)> = row.args.iter().filter_map(json).collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found.into_iter().collect()
}

struct PacketWriter<'a> {
    trace: &'a TraceBuilder,
    tracks: BTreeMap<TrackPlace, (i64, bool)>,
    names: TextNumbers,
    categories: TextNumbers,
    kernels: TextNumbers,
    lanes: BTreeMap<String, i64>,
    counters: BTreeMap<i64, TextNumbers>,
    /// Offset of the times in the file.
    origin: i64,
}

impl<'a> PacketWriter<'a> {
    fn new(trace: &'a TraceBuilder) -> Self {
        Self {
            trace,
            tracks: BTreeMap::new(),
            names: TextNumbers::default(),
            categories: TextNumbers::default(),
            kernels: TextNumbers::default(),
            lanes: BTreeMap::new(),
            counters: BTreeMap::new(),
            origin: trace.origin_ns,
        }
    }

    fn packet(&self, ts: i64, sequence: i64) -> ProtoMessage {
        // A converted file has lost the base.
        let base = if sequence == 1 { 0 } else { self.trace.base_ns };
        ProtoMessage::new().int(8, self.origin + ts - base).int(10, sequence)
    }

    fn track(&mut self, row: &TestEvent) -> i64 {
        let next = self.tracks.len() as i64 + 1000;
        let is_stream = stage(row).is_some() || row.category == "cuda_sync";
        self.tracks.entry((id(&row.pid), id(&row.tid))).or_insert((next, is_stream)).0
    }

    fn begin(&mut self, row: &TestEvent) -> ProtoMessage {
        let mut event = ProtoMessage::new().int(9, 1).int(11, self.track(row));
        event = event.int(10, self.names.of(&name(row)));
        if !["overhead", "cuda_sync"].contains(&row.category.as_str()) {
            event = event.int(3, self.categories.of(&row.category));
        }
        for (key, value) in arguments(row) {
            event = event.message(4, &annotation(&value).text(10, &key));
        }
        self.packet(row.ts, 1).int(13, 2).message(11, &event)
    }

    fn end(&mut self, row: &TestEvent) -> ProtoMessage {
        let end = ProtoMessage::new().int(9, 2).int(11, self.track(row));
        self.packet(row.ts + row.dur.unwrap_or(0), 1).message(11, &end)
    }

    /// An event of a converted file.
    fn converted(&mut self, row: &TestEvent, kind: i64) -> ProtoMessage {
        let mut event = ProtoMessage::new();
        for (key, value) in arguments(row) {
            let value = match &value {
                Value::Array(_) | Value::Object(_) => ProtoMessage::new().text(9, &value.to_string()),
                value => annotation(value),
            };
            event = event.message(4, &value.text(10, &key));
        }
        event = event.int(9, kind).int(11, self.track(row));
        if !row.category.is_empty() {
            event = event.text(22, &row.category);
        }
        event.text(23, &name(row))
    }

    fn stage(&mut self, row: &TestEvent) -> Option<ProtoMessage> {
        let kind = stage(row).filter(|_| row.phase == EventPhase::Complete)?;
        let number = STAGES.iter().position(|stage| stage.1 == kind)? as i64 + 1;
        let device = row.arg("device").and_then(Value::as_i64).unwrap_or(0);
        let stream = row.arg("stream").and_then(Value::as_i64).unwrap_or(0);
        let lane = self.lanes.len() as i64 + FIRST_LANE;
        let lane = *self.lanes.entry(format!("[{stream:02}] stream {stream}")).or_insert(lane);
        let mut event = ProtoMessage::new().int(2, row.dur.unwrap_or(0)).int(11, device).int(13, lane);
        event = event.int(14, number);
        if matches!(kind, "Kernel" | "Annotation") {
            event = event.int(20, self.names.of(&name(row)));
        }
        if kind == "Kernel" {
            event = event.int(19, self.kernels.of(&name(row)));
            event = event.message(21, &launch(row));
        }
        let extra = |event: ProtoMessage, key: &str, text: &str| {
            event.message(6, &ProtoMessage::new().text(1, key).text(2, text))
        };
        for (key, named) in RENAMED {
            event = extra(event, named, &row.arg(key).map_or("0".to_string(), text));
        }
        for (key, value) in arguments(row) {
            let is_shown = !RENAMED.iter().any(|renamed| renamed.0 == key)
                && !["grid", "block", "registers per thread", "shared memory"].contains(&key.as_str());
            let is_left_out = LEFT_OUT.contains(&key.as_str()) && value.as_i64() == Some(0);
            if is_shown && !is_left_out {
                event = extra(event, &key, &text(&value));
            }
        }
        event = extra(event, "process_id", &self.trace.pid.to_string());
        event = extra(event, "process_name", "python");
        Some(self.packet(row.ts, 1).int(13, 2).message(53, &event))
    }

    fn sample(&mut self, row: &TestEvent) -> Option<ProtoMessage> {
        let pid = id(&row.pid);
        let device = pid.strip_prefix("GPU ")?.strip_suffix(" Counters")?.parse().ok()?;
        let value = row.arg("").and_then(Value::as_f64).filter(|_| row.phase == EventPhase::Counter)?;
        let counter = self.counters.entry(device).or_default().of(&name(row));
        let sample = ProtoMessage::new().int(1, counter).double(3, value);
        let event = ProtoMessage::new().int(4, device + 1).message(2, &sample);
        Some(self.packet(row.ts, 1).int(13, 2).message(52, &event))
    }

    /// The descriptors of all tracks.
    fn tracks(&self, is_converted: bool) -> Vec<ProtoMessage> {
        let mut processes: BTreeMap<&str, i64> = BTreeMap::new();
        let mut packets = Vec::new();
        for ((pid, tid), (uuid, is_stream)) in &self.tracks {
            let next = processes.len() as i64 + 1;
            let parent = *processes.entry(pid).or_insert(next);
            let number: i64 = pid.parse().unwrap_or(0);
            if parent == next {
                let process = ProtoMessage::new().int(1, number).text(6, "python");
                packets.push(ProtoMessage::new().int(1, parent).message(3, &process));
            }
            let row = ProtoMessage::new().int(1, *uuid).int(5, parent);
            let word = if *is_stream { "stream" } else { "thread" };
            let name = format!("{word} {tid}");
            packets.push(if is_converted {
                row.text(2, &name)
            } else {
                let thread = ProtoMessage::new().int(1, number).int(2, tid.parse().unwrap_or(0));
                row.message(4, &thread.text(5, &name))
            });
        }
        packets.iter().map(|track| ProtoMessage::new().message(60, track)).collect()
    }

    /// The packet that holds all texts.
    fn names(&self) -> ProtoMessage {
        let mut names = ProtoMessage::new();
        for (device, counters) in &self.counters {
            let specs = counters.write(ProtoMessage::new(), 1, 2);
            let of_device = ProtoMessage::new().int(1, device + 1).int(3, *device).message(2, &specs);
            names = names.message(47, &of_device);
        }
        names = self.names.write(names, 2, 2);
        names = self.categories.write(names, 1, 2);
        let stages = STAGES.iter().zip(1..).map(|(stage, number)| (stage.1.to_owned(), number));
        let lanes = self.lanes.iter().map(|(lane, number)| (lane.clone(), *number));
        for (name, number) in stages.chain(lanes) {
            names = names.message(24, &ProtoMessage::new().int(1, number).text(2, &name));
        }
        names = self.kernels.write(names, 1000, 3);
        for (name, number) in ["registers_per_thread", "shared_mem_dynamic"].into_iter().zip(1..) {
            names = names.message(1001, &ProtoMessage::new().int(1, number).text(2, name));
        }
        ProtoMessage::new().int(10, 1).int(13, 1).message(12, &names)
    }
}

/// The text of a value.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A value as torch writes it, without its name.
fn annotation(value: &Value) -> ProtoMessage {
    let message = ProtoMessage::new();
    match value {
        Value::Null => message.text(6, "null"),
        Value::Bool(is) => message.int(2, i64::from(*is)),
        Value::String(text) => message.text(6, text),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(n), _) => message.int(4, n),
            (None, Some(n)) => message.int(4, n as i64),
            (None, None) => message.double(5, number.as_f64().unwrap_or(0.0)),
        },
        Value::Array(values) => {
            values.iter().fold(message, |list, value| list.message(12, &annotation(value)))
        }
        Value::Object(members) => members
            .iter()
            .fold(message, |object, (key, value)| object.message(11, &annotation(value).text(10, key))),
    }
}

/// The launch of a kernel.
fn launch(row: &TestEvent) -> ProtoMessage {
    let mut launch = ProtoMessage::new();
    for (field, key) in [(1, "grid"), (2, "block")] {
        let sizes = row.arg(key).and_then(Value::as_array).cloned().unwrap_or_default();
        let sizes = (1..)
            .zip(sizes)
            .fold(ProtoMessage::new(), |sizes, (axis, size)| sizes.int(axis, size.as_i64().unwrap_or(0)));
        launch = launch.message(field, &sizes);
    }
    for (number, key) in [(1, "registers per thread"), (2, "shared memory")] {
        if let Some(value) = row.arg(key).and_then(Value::as_i64).filter(|value| *value != 0) {
            launch = launch.message(3, &ProtoMessage::new().int(1, number).int(4, value));
        }
    }
    launch
}

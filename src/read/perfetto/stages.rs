//! Device rows, as torch writes them: kernels, copies, sets, ranges of the program, nodes of graphs.
//!
//! ```text
//!   stage Memcpy, extra `stream id` 7, `bytes` 4096     row `gpu_memcpy`, tid 7, stream 7, bytes 4096
//! ```
//!
//! Surprising: a number that is 0 is left out, and where the program annotates a part of a graph, its keys
//! stand among the row's own. The row's own come first.

use super::annotations::text_value;
use super::fields::stage as at;
use super::interned::TextsById;
use super::rows::{PerfettoRows, UNKNOWN};
use super::wire::{WireMessage, WireValue};
use crate::cuspy::FIRST_LANE;
use crate::kineto::composed::{ComposedEvent, EventText, integer, unsigned};
use crate::kineto::cursor::{Token, TokenKind};
use hta_base::health::Counter;
use hta_base::units::Ns;

/// A kind of rows: the name in the file, the category of JSON, and the arguments that are 0 if they are left
/// out.
type StageKind = (&'static [u8], &'static [u8], &'static [&'static [u8]]);

/// All kinds of rows.
const KINDS: [StageKind; 6] = [
    (
        b"Kernel",
        b"kernel",
        &[b"correlation", b"priority", b"queued", b"channel", b"channel_type", b"shared memory"],
    ),
    (b"Memcpy", b"gpu_memcpy", &[b"correlation", b"bytes", b"channel", b"channel_type"]),
    (
        b"Memset",
        b"gpu_memset",
        &[b"correlation", b"bytes", b"value", b"memory kind", b"channel", b"channel_type"],
    ),
    (b"Annotation", b"gpu_user_annotation", &[]),
    (b"EventRecord", b"graph_event_node", &[b"correlation"]),
    (b"HostNode", b"graph_host_node", &[b"correlation"]),
];

/// The kinds with a rule of their own.
const ANNOTATION: &[u8] = b"Annotation";
const HOST_NODE: &[u8] = b"HostNode";

/// Texts about the process, which every row has.
const OF_PROCESS: [&[u8]; 3] = [b"arch", b"process_id", b"process_name"];

/// Names of a row's own arguments, as they are here and in JSON.
const OWN: [(&[u8], &[u8]); 3] =
    [(b"device id", b"device"), (b"context id", b"context"), (b"stream id", b"stream")];

/// Arguments of a launch, as they are here and in JSON.
const OF_LAUNCH: [(&[u8], &[u8]); 2] =
    [(b"registers_per_thread", b"registers per thread"), (b"shared_mem_dynamic", b"shared memory")];

/// A device row.
#[derive(Default)]
struct RenderStage<'a> {
    duration: u64,
    device: Option<u64>,
    lane: Option<u64>,
    stage: u64,
    kernel: Option<u64>,
    name: Option<u64>,
    launch: Option<&'a [u8]>,
    stream: Option<&'a [u8]>,
    /// The function of a host node.
    function: Option<&'a [u8]>,
    process: Option<&'a [u8]>,
    graph: Option<&'a [u8]>,
}

/// Name and text of an extra.
fn extra(message: &[u8]) -> (&[u8], &[u8]) {
    let (mut name, mut text) = (&b""[..], &b""[..]);
    for (number, value) in WireMessage::new(message) {
        match number {
            1 => name = value.bytes().unwrap_or_default(),
            2 => text = value.bytes().unwrap_or_default(),
            _ => {}
        }
    }
    (name, text)
}

impl<'a> RenderStage<'a> {
    /// The row, and whether it is whole.
    fn read(bytes: &'a [u8]) -> (Self, bool) {
        let mut found = Self::default();
        let mut message = WireMessage::new(bytes);
        while let Some((number, value)) = message.field() {
            match number {
                at::DURATION => found.duration = value.number().unwrap_or(0),
                at::DEVICE => found.device = value.number(),
                at::LANE => found.lane = value.number(),
                at::STAGE => found.stage = value.number().unwrap_or(0),
                at::KERNEL => found.kernel = value.number(),
                at::NAME => found.name = value.number(),
                at::LAUNCH => found.launch = value.bytes(),
                at::EXTRA => match extra(value.bytes().unwrap_or_default()) {
                    (b"stream id", text) => found.stream = found.stream.or(Some(text)),
                    (b"host fn", text) => found.function = found.function.or(Some(text)),
                    (b"process_name", text) => found.process = found.process.or(Some(text)),
                    (b"graph id", text) => found.graph = found.graph.or(Some(text)),
                    _ => {}
                },
                _ => {}
            }
        }
        (found, !message.is_broken())
    }
}

/// The lane of a row: its number and its name, from `[100003] FSDP`.
fn lane(specification: EventText) -> Option<(i64, EventText)> {
    const LONGEST_NUMBER: usize = 20;
    let inside = specification.bytes.strip_prefix(b"[")?;
    let end = inside.iter().take(LONGEST_NUMBER + 1).position(|b| *b == b']')?;
    let number = std::str::from_utf8(inside.get(..end)?).ok()?.parse().ok()?;
    let bytes = inside.get(end + 1..)?.trim_ascii_start();
    Some((number, EventText { bytes, ..specification }))
}

/// So much of the name of an unknown kind is told, bytes.
const TOLD: usize = 1 << 9;

impl PerfettoRows {
    /// Makes a row of a device row.
    pub(super) fn stage(&mut self, bytes: &[u8], timestamp: u64, at: u64) {
        let (stage, is_whole) = RenderStage::read(bytes);
        self.check(is_whole, at);
        let Some(time) = self.time(timestamp, at) else { return };
        let duration = Ns::try_from(stage.duration).unwrap_or(Ns::MAX);
        let Some(kind) = self.interned.specifications.get(stage.stage) else {
            return self.count(Counter::NameNotInterned, at, &format!("the stage {}", stage.stage));
        };
        let known = KINDS.into_iter().find(|known| known.0 == kind);
        let Some((kind, category, zeros)) = known else {
            let example = String::from_utf8_lossy(kind.get(..TOLD).unwrap_or(kind)).into_owned();
            return self.count(Counter::UnknownCategory, at, &example);
        };
        let drawn = stage.lane.and_then(|id| lane(self.interned.specifications.event_text(id)?));
        let drawn = drawn.map(|drawn| drawn.0);
        let is_on_lane = drawn.is_some_and(|lane| lane >= FIRST_LANE);
        let of_lane = drawn.filter(|_| is_on_lane || stage.stream.is_none());
        let of_lane = of_lane.map(|lane| lane.to_string().into_bytes());
        let stream = stage.stream.or(of_lane.as_deref());
        let tid = of_lane.as_deref().or(stream).unwrap_or_default();
        let device = stage.device.unwrap_or(0);
        let stream_number = std::str::from_utf8(tid).ok().and_then(|tid| tid.parse().ok());
        if !self.named.contains(&(device, stream_number)) {
            self.name_device((device, stream_number), tid, &stage, at);
        }
        let name = stage.name.and_then(|id| self.interned.names.event_text(id));
        let name = name.or_else(|| self.interned.kernels.event_text(stage.kernel?));
        let is_missing = name.is_none() && (stage.name.is_some() || stage.kernel.is_some());
        let mut row = ComposedEvent::new(&mut self.reader, &mut self.text, b'X', at);
        match (name, stage.function) {
            (Some(name), _) => row.name(name),
            (None, _) if is_missing => row.name(UNKNOWN),
            (None, Some(function)) if kind == HOST_NODE => {
                row.name([HOST_NODE, b": ", function].concat().as_slice());
            }
            (None, _) => row.name(kind),
        }
        row.category(category);
        row.place(device.to_string().as_bytes(), tid);
        row.start(time);
        row.duration(duration);
        if kind != ANNOTATION {
            row.argument(b"device", |buf| unsigned(buf, device));
            if let Some(stream) = stream {
                row.argument(b"stream", |buf| text_value(buf, stream));
                if is_on_lane {
                    row.argument(b"original_stream", |buf| text_value(buf, stream));
                }
            }
            if let Some(launch) = stage.launch {
                launch_arguments(&mut row, launch, &self.interned.launch_arguments);
            }
            extras(&mut row, bytes);
            let of_graph = stage.graph.is_some_and(|id| id != b"0").then_some(&b"graph node id"[..]);
            for key in zeros.iter().copied().chain(of_graph) {
                row.default_argument(key, |buf| integer(buf, 0));
            }
        }
        row.commit();
        if is_missing {
            self.count(Counter::NameNotInterned, at, "the name of a device row");
        }
    }

    /// Names the process and the stream of device rows.
    fn name_device(&mut self, place: (u64, Option<i64>), tid: &[u8], stage: &RenderStage, at: u64) {
        let device = place.0;
        let pid = device.to_string();
        let label = stage.lane.and_then(|id| lane(self.interned.specifications.event_text(id)?));
        let mut named = |kind: &[u8], tid: &[u8], label: EventText| {
            let mut event = ComposedEvent::new(&mut self.reader, &mut self.text, b'M', at);
            event.name(kind);
            event.place(pid.as_bytes(), tid);
            event.label(label);
            event.commit();
        };
        if self.named.insert((device, None)) {
            if let Some(process) = stage.process {
                named(b"process_name", b"0", process.into());
            }
            named(b"process_labels", b"0", format!("GPU {device}").as_bytes().into());
        }
        if self.named.insert(place) {
            named(b"thread_name", tid, label.map_or(UNKNOWN.into(), |(_, label)| label));
        }
    }
}

/// The extras of a row as its arguments. What an annotation of the program repeats of them is kept beside
/// them, as text.
fn extras(row: &mut ComposedEvent, bytes: &[u8]) {
    for (number, message) in WireMessage::new(bytes) {
        if number != at::EXTRA {
            continue;
        }
        let (name, value) = extra(message.bytes().unwrap_or_default());
        match OWN.into_iter().find(|own| own.0 == name) {
            _ if OF_PROCESS.contains(&name) || name.is_empty() => {}
            // Both are known already.
            Some((_, b"device" | b"stream")) => {}
            Some((_, key)) => row.argument(key, |buf| text_value(buf, value)),
            None if OWN.into_iter().any(|own| own.1 == name) => {
                row.rest_argument(name, |buf| text_value(buf, value));
            }
            None => row.further_argument(name, |buf| text_value(buf, value)),
        }
    }
}

/// The arguments of a kernel launch.
fn launch_arguments(row: &mut ComposedEvent, launch: &[u8], names: &TextsById) {
    for (number, value) in WireMessage::new(launch) {
        let inner = value.bytes().unwrap_or_default();
        match number {
            1 => row.argument(b"grid", |buf| dimensions(buf, inner)),
            2 => row.argument(b"block", |buf| dimensions(buf, inner)),
            3 => {
                let (mut id, mut number) = (0, 0);
                for (field, value) in WireMessage::new(inner) {
                    match (field, value) {
                        (1, value) => id = value.number().unwrap_or(0),
                        (_, WireValue::Varint(n)) => number = n as i64,
                        _ => {}
                    }
                }
                let name = names.get(id);
                if let Some((_, key)) = OF_LAUNCH.into_iter().find(|known| name == Some(known.0)) {
                    row.argument(key, |buf| integer(buf, number));
                }
            }
            _ => {}
        }
    }
}

/// `[x,y,z]`.
fn dimensions(buf: &mut Vec<u8>, message: &[u8]) -> Token {
    let mut sizes = [0; 3];
    for (number, value) in WireMessage::new(message) {
        if let Some(size) = (number as usize).checked_sub(1).and_then(|axis| sizes.get_mut(axis)) {
            *size = value.number().unwrap_or(0);
        }
    }
    let start = buf.len();
    for (mark, size) in [b'[', b',', b','].into_iter().zip(sizes) {
        buf.push(mark);
        unsigned(buf, size);
    }
    buf.push(b']');
    Token { start, end: buf.len(), kind: TokenKind::Nested }
}

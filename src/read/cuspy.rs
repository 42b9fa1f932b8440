//! Brings the device rows of Cuspy, the CUDA recorder of torch.profiler since 2.14, into the form that Kineto
//! writes, so that every analysis reads both alike. It works on rows, whatever file they come from.
//!
//! ```text
//!   Cuspy                                                      row afterwards
//!   Memcpy, copy kind HtoD, src kind pinned, dst kind device   Memcpy HtoD (Pinned -> Device)
//!   Memset, memory kind 3                                      Memset (Device)
//!   tid 7, stream 3 (a label of the program)                   stream 7
//!   tid 100003, stream 100003, original_stream 7               stream 7, display_lane 100003
//!   name attention, autograd_phase backward                    graph_annotation `attention backward`
//! ```
//!
//! Surprising: torch writes what a program annotates about a part of a CUDA graph as arguments of the rows of
//! that part, over those of the row itself. So `stream` of such a row may be any number, and only the thread
//! id of the row tells the stream.

use hashbrown::{HashMap, HashSet};
use hta_base::health::Counter;
use hta_base::wording::counts::capital;
use hta_trace::args::Arg;
use hta_trace::category::Class;
use hta_trace::device_fields::{DeviceField, DeviceFields};
use hta_trace::events::{ColumnsBuilder, LaneName};
use hta_trace::meta::{Meta, Recorder};
use hta_trace::strings::StrId;
use serde_json::Value;

/// Smallest thread id of rows that Cuspy draws on a lane of their own in place of their stream.
pub(crate) const FIRST_LANE: i64 = 100_000;

/// Smallest id of flows between nodes of a graph; those below connect a call with what it launched.
const FIRST_EDGE: u64 = 1 << 40;

/// Names of copies and sets, without what they copy or fill.
const COPY: &str = "Memcpy";
const SET: &str = "Memset";

/// Categories of rows that stand for nodes of a graph that are no work.
const GRAPH_NODES: [&str; 2] = ["graph_event_node", "graph_host_node"];

/// Number of signs from which a file is taken for one of Cuspy: each alone may be that of another writer.
const ENOUGH_SIGNS: usize = 2;

/// Finds out whether Cuspy recorded the rows, and completes them. Does nothing if a database or a memory dump
/// was read, and nothing the second time.
pub(crate) fn settle_cuspy(columns: &mut ColumnsBuilder, meta: &mut Meta) {
    let fields = std::mem::take(&mut columns.device_fields);
    let is_cuspy = match meta.recorder {
        Recorder::Nsys | Recorder::Nvprof | Recorder::MemoryDump => return,
        Recorder::Cuspy => true,
        Recorder::Kineto | Recorder::Converted => signs(columns) >= ENOUGH_SIGNS,
    };
    if is_cuspy && meta.recorder == Recorder::Kineto {
        meta.recorder = Recorder::Cuspy;
    }
    let device_rows = DeviceCategories::new(columns);
    settle_places(columns, &device_rows, &fields, is_cuspy);
    if is_cuspy {
        settle_nodes(columns, &device_rows);
        settle_thread_names(columns);
        columns.launch_flows.retain(|id| *id < FIRST_EDGE);
    }
    settle_names(columns, &fields);
    settle_annotations(columns, &fields);
}

/// Which rows are those of a device.
struct DeviceCategories {
    /// By category.
    is_device: Vec<bool>,
}

impl DeviceCategories {
    fn new(columns: &ColumnsBuilder) -> Self {
        let is_node = |text: StrId| GRAPH_NODES.contains(&columns.strings.get(text));
        let of_device = columns.categories.iter().map(|c| c.class.is_gpu() || is_node(c.text));
        Self { is_device: of_device.collect() }
    }

    fn iter<'a>(&'a self, columns: &'a ColumnsBuilder) -> impl Iterator<Item = u32> + 'a {
        let is_device = |cat: u16| self.is_device.get(usize::from(cat)) == Some(&true);
        (0u32..).zip(&columns.cat).filter(move |(_, cat)| is_device(**cat)).map(|(row, _)| row)
    }
}

/// Number of signs of Cuspy: copies named only `Memcpy`, kernels without what Kineto adds to them, nodes of
/// graphs without the graph in their upper half, samples of counters without a category.
fn signs(columns: &ColumnsBuilder) -> usize {
    let args = &columns.args;
    let class = |cat: u16| columns.categories.get(usize::from(cat)).map_or(Class::Unknown, |c| c.class);
    let of_class = |wanted: Class| {
        (0u32..).zip(&columns.cat).filter(move |(_, cat)| class(**cat) == wanted).map(|(row, _)| row)
    };
    let named = |row: u32, name: &str| {
        columns.name.get(row as usize).is_some_and(|id| columns.strings.get(*id) == name)
    };
    let has_bare_copies = of_class(Class::Memcpy).any(|row| named(row, COPY));
    let mut added = [Arg::ExternalId, Arg::BlocksPerSm, Arg::Occupancy].map(|arg| args.cursor(arg));
    let mut kernels = of_class(Class::Kernel).peekable();
    let has_bare_kernels = kernels.peek().is_some()
        && kernels.all(|row| added.iter_mut().all(|argument| argument.get(row).is_none()));
    let mut graphs = args.cursor(Arg::GraphId);
    let has_short_nodes = (args.column(Arg::GraphNodeId).iter())
        .any(|(row, node)| node <= u64::from(u32::MAX) && graphs.get(row).is_some_and(|graph| graph > 0));
    [has_bare_copies, has_bare_kernels, has_short_nodes, columns.has_bare_samples]
        .into_iter()
        .filter(|sign| *sign)
        .count()
}

/// Takes the stream and the device of device rows from where no annotation can have changed them.
fn settle_places(
    columns: &mut ColumnsBuilder,
    rows: &DeviceCategories,
    fields: &DeviceFields,
    is_cuspy: bool,
) {
    let mut originals = fields.by_row().filter_map(|(row, of_row)| {
        let text = columns.strings.get(last(of_row, DeviceField::OriginalStream)?);
        Some((row, text.parse::<i64>().ok()?))
    });
    let mut original = originals.next();
    if original.is_none() && !is_cuspy {
        return;
    }
    let args = &columns.args;
    let (mut streams, mut devices) = (args.cursor(Arg::Stream), args.cursor(Arg::Device));
    let mut lanes = args.cursor(Arg::DisplayLane);
    let (mut stream_changes, mut device_changes, mut new_lanes) = (Vec::new(), Vec::new(), Vec::new());
    let mut labels = 0;
    for row in rows.iter(columns) {
        while original.is_some_and(|(of, _)| of < row) {
            original = originals.next();
        }
        let original = original.filter(|(of, _)| *of == row).map(|(_, stream)| stream);
        if lanes.get(row).is_some() || !(is_cuspy || original.is_some()) {
            continue;
        }
        let recorded = streams.get(row).map(|stream| stream as i64);
        let place = columns.lane.get(row as usize).and_then(|lane| columns.lanes.get(*lane as usize));
        let thread = place.and_then(|lane| lane.tid_num);
        let lane = match original {
            Some(_) => thread.or(recorded),
            None => thread.filter(|thread| *thread >= FIRST_LANE),
        };
        let stream = match (original, lane) {
            (Some(stream), _) => Some(stream),
            (None, Some(_)) => None,
            (None, None) => thread.or(recorded),
        };
        new_lanes.extend(lane.map(|lane| (row, Some(lane as u64))));
        if stream != recorded {
            labels += 1;
            stream_changes.push((row, stream.map(|stream| stream as u64)));
        }
        let device = place.and_then(|lane| lane.pid_num).filter(|device| is_cuspy && *device >= 0);
        if let Some(device) = device.map(|device| device as u64).filter(|id| devices.get(row) != Some(*id)) {
            device_changes.push((row, Some(device)));
        }
    }
    columns.health.add(Counter::StreamIsLabel, labels, None, "");
    columns.args.change(Arg::Stream, &stream_changes);
    columns.args.change(Arg::Device, &device_changes);
    columns.args.change(Arg::DisplayLane, &new_lanes);
}

/// Adds node 0 to activities in graphs where it is left out.
fn settle_nodes(columns: &mut ColumnsBuilder, rows: &DeviceCategories) {
    let (mut graphs, mut nodes) = (columns.args.cursor(Arg::GraphId), columns.args.cursor(Arg::GraphNodeId));
    let lacks_node = |row: &u32| graphs.get(*row).is_some_and(|id| id > 0) && nodes.get(*row).is_none();
    let added: Vec<(u32, Option<u64>)> =
        rows.iter(columns).filter(lacks_node).map(|r| (r, Some(0))).collect();
    columns.args.change(Arg::GraphNodeId, &added);
}

/// Drops `thread 7` where the same thread is also `thread 7 (python)`: Cuspy names threads a second time.
fn settle_thread_names(columns: &mut ColumnsBuilder) {
    let names = &mut columns.recorded.lane_names;
    // Many threads may have the same long name: each text is looked at once, and gets numbers.
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    let mut number = |text| {
        let next = numbers.len();
        *numbers.entry(text).or_insert(next)
    };
    let mut known: HashMap<StrId, (usize, Option<usize>)> = HashMap::new();
    let mut longer: HashSet<(u32, StrId, usize)> = HashSet::new();
    for name in names.iter() {
        let (_, shorter) = *known.entry(name.text).or_insert_with(|| {
            let text = columns.strings.get(name.text);
            (number(text.trim_end()), text.split_once(" (").map(|(shorter, _)| number(shorter)))
        });
        longer.extend(shorter.map(|shorter| (name.lane, name.kind, shorter)));
    }
    let is_shorter = |name: &LaneName| {
        known.get(&name.text).is_some_and(|(text, _)| longer.contains(&(name.lane, name.kind, *text)))
    };
    names.retain(|name| !is_shorter(name));
}

/// Names copies and sets as Kineto does.
fn settle_names(columns: &mut ColumnsBuilder, fields: &DeviceFields) {
    let mut known: HashMap<[Option<StrId>; 4], StrId> = HashMap::new();
    for (row, of_row) in fields.by_row() {
        let kinds = [
            DeviceField::CopyKind,
            DeviceField::SourceKind,
            DeviceField::TargetKind,
            DeviceField::MemoryKind,
        ]
        .map(|field| last(of_row, field));
        let Some(old) = columns.name.get(row as usize).copied() else { continue };
        let [copied, .., filled] = kinds;
        let is_bare = match columns.strings.get(old) {
            COPY => copied.is_some(),
            SET => filled.is_some(),
            _ => false,
        };
        if !is_bare {
            continue;
        }
        let new = match known.get(&kinds) {
            Some(new) => *new,
            None => {
                let [copied, source, target, filled] =
                    kinds.map(|kind| kind.map_or("unknown", |kind| columns.strings.get(kind)));
                let name = match columns.strings.get(old) {
                    COPY => {
                        format!("{COPY} {} ({} -> {})", copy_kind(copied), memory(source), memory(target))
                    }
                    _ => format!("{SET} ({})", memory(filled)),
                };
                *known.entry(kinds).or_insert(columns.strings.intern(&name))
            }
        };
        if let Some(name) = columns.name.get_mut(row as usize) {
            *name = new;
        }
    }
}

/// The kind of a copy; kinds that Cuspy has no word for are CUPTI's numbers.
fn copy_kind(kind: &str) -> &str {
    const KINDS: [&str; 11] =
        ["Unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"];
    match kind.parse::<usize>() {
        Ok(number) => KINDS.get(number).copied().unwrap_or(kind),
        Err(_) if kind == "unknown" => "Unknown",
        Err(_) => kind,
    }
}

/// A kind of memory in Kineto's words, from Cuspy's word or CUPTI's number.
fn memory(kind: &str) -> String {
    const KINDS: [&str; 8] =
        ["unknown", "pageable", "pinned", "device", "array", "managed", "device_static", "managed_static"];
    let kind = kind.parse::<usize>().ok().and_then(|number| KINDS.get(number).copied()).unwrap_or(kind);
    kind.split('_').map(capital).collect::<Vec<String>>().join(" ")
}

/// Keeps the names that a program gave to parts of its graphs.
fn settle_annotations(columns: &mut ColumnsBuilder, fields: &DeviceFields) {
    let mut graphs = columns.args.cursor(Arg::GraphId);
    let mut annotated = Vec::new();
    for (row, of_row) in fields.by_row() {
        if graphs.get(row).is_none_or(|graph| graph == 0) {
            continue;
        }
        let parts = [DeviceField::Name, DeviceField::AutogradPhase, DeviceField::Annotation];
        let parts = parts.map(|field| last(of_row, field));
        if parts.iter().any(Option::is_some) {
            annotated.push((row, parts));
        }
    }
    let mut known: HashMap<[Option<StrId>; 3], Option<StrId>> = HashMap::new();
    let mut changes = Vec::new();
    for (row, parts) in annotated {
        let annotation = match known.get(&parts) {
            Some(annotation) => *annotation,
            None => {
                let [name, phase, list] = parts.map(|part| part.map(|part| columns.strings.get(part)));
                let text = annotation(name, phase, list);
                *known.entry(parts).or_insert(text.map(|text| columns.strings.intern(&text)))
            }
        };
        changes.extend(annotation.map(|text| (row, Some(u64::from(text.0)))));
    }
    columns.args.change(Arg::GraphAnnotation, &changes);
}

/// The annotation of a row: its name, with ` backward` in the backward pass. Torch 2.14 writes a list of
/// annotations, of which later ones replace what they repeat of earlier ones, as torch 2.15 does itself.
fn annotation(name: Option<&str>, phase: Option<&str>, list: Option<&str>) -> Option<String> {
    let (mut name, mut phase) = (name.map(str::to_string), phase.map(str::to_string));
    let list: Option<Value> = list.and_then(|list| serde_json::from_str(list).ok());
    let text = |value: &Value| value.as_str().map(str::to_string);
    for part in list.iter().flat_map(|list| list.as_array().map_or(std::slice::from_ref(list), Vec::as_slice))
    {
        name = part.get("name").and_then(text).or_else(|| text(part)).or(name);
        phase = part.get("autograd_phase").and_then(text).or(phase);
    }
    let name = name.filter(|name| !name.is_empty())?;
    Some(if phase.as_deref() == Some(BACKWARD) && name != BACKWARD {
        format!("{name} {BACKWARD}")
    } else {
        name
    })
}

/// The phase, and the name that torch itself gives to kernels of the backward pass.
const BACKWARD: &str = "backward";

/// The last value of a field of a row.
fn last(of_row: &[(u32, DeviceField, StrId)], field: DeviceField) -> Option<StrId> {
    of_row.iter().rev().find(|value| value.1 == field).map(|value| value.2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_and_sets_are_named_in_the_words_of_kineto() {
        assert_eq!(
            ["HtoD", "9", "10", "17", "unknown"].map(copy_kind),
            ["HtoD", "HtoH", "PtoP", "17", "Unknown"]
        );
        assert_eq!(memory("device_static"), "Device Static");
        assert_eq!(["pinned", "3", "0", "11"].map(memory), ["Pinned", "Device", "Unknown", "11"]);
    }

    #[test]
    fn an_annotation_says_its_name_and_the_backward_pass() {
        let of = |name, phase, list| annotation(name, phase, list);
        assert_eq!(of(Some("loss"), None, None).as_deref(), Some("loss"));
        assert_eq!(of(Some("loss"), Some("forward"), None).as_deref(), Some("loss"));
        assert_eq!(of(Some("loss"), Some("backward"), None).as_deref(), Some("loss backward"));
        assert_eq!(of(Some("backward"), Some("backward"), None).as_deref(), Some("backward"));
        assert_eq!(of(None, Some("backward"), None), None);
        let list = r#"[{"name": "attention", "autograd_phase": "backward"}]"#;
        assert_eq!(of(None, None, Some(list)).as_deref(), Some("attention backward"));
        let list = r#"[{"name": "outer"}, {"name": "inner"}, {"autograd_phase": "backward"}]"#;
        assert_eq!(of(None, None, Some(list)).as_deref(), Some("inner backward"));
        assert_eq!(of(None, None, Some("[{\"name\": ")), None);
    }
}

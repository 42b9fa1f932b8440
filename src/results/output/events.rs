//! The `events` table: every complete event of a rank, with real text and typed arguments.

use crate::output::parquet::RowGroups;
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, Int32Array, Int64Array, RecordBatch, StringArray, UInt32Array};
use arrow_buffer::ArrowNativeType;
use arrow_buffer::ScalarBuffer;
use arrow_schema::ArrowError;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use hashbrown::HashMap;
use hta_trace::args::{ARGS, Arg, ArgType, array};
use hta_trace::category::Class;
use hta_trace::graph_replay::graph_of;
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::StrId;
use std::cmp::Reverse;
use std::collections::HashMap as Notes;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Columns before the arguments: name, type, unit, meaning.
pub const BASE_COLUMNS: &[(&str, &str, &str, &str)] = &[
    ("rank", "u32", "", "rank"),
    ("event_id", "u32", "", "position among the complete events of the file"),
    ("category", "text", "", "`cat` as the file spells it"),
    ("class", "text", "", "what the category means, across eras and vendors"),
    ("name", "text", "", "name"),
    ("ts_ns", "i64", "ns", "start on the rank's own clock"),
    ("dur_ns", "i64", "ns", "length"),
    ("pid", "text", "", "process, or device"),
    ("tid", "text", "", "thread, or stream"),
    ("thread_name", "text", "", "name of the thread"),
    ("parent", "u32", "", "event around this one in its call tree"),
    ("depth", "u32", "", "depth in its call tree"),
    ("self_ns", "i64", "ns", "length without the children in its call tree"),
    ("launch_event_id", "u32", "", "GPU activities: the call that launched it"),
    ("op_event_id", "u32", "", "GPU activities: the owning operator"),
    ("step", "u32", "", "step: of the launch for GPU activities, else of its own start"),
];

/// Meaning of a row of the table.
pub const EVENTS_DOC: &str = "every complete event of a rank, one file per rank";
/// Key that its rows are sorted by.
pub const EVENTS_ORDER: &str = "ts_ns, dur_ns descending, event_id";

/// Column for the arguments without their own column (with `--keep-args`).
pub(crate) const REST_COLUMN: (&str, &str) =
    ("args_json", "other arguments as a JSON object (with --keep-args)");

/// Rows per row group.
const GROUP: usize = 1 << 20;

fn text_type() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
}

fn data_type(kind: &str) -> DataType {
    match kind {
        "u32" => DataType::UInt32,
        "i64" => DataType::Int64,
        _ => text_type(),
    }
}

/// The schema, which is the same for every rank and file.
pub fn schema(with_rest: bool) -> SchemaRef {
    let notes = |unit: &str, doc: &str| -> Notes<String, String> {
        let all = [("unit", unit), ("description", doc)];
        all.into_iter().filter(|(_, v)| !v.is_empty()).map(|(k, v)| (k.to_string(), v.to_string())).collect()
    };
    let mut fields: Vec<Field> = BASE_COLUMNS
        .iter()
        .map(|(name, kind, unit, doc)| {
            Field::new(*name, data_type(kind), true).with_metadata(notes(unit, doc))
        })
        .collect();
    for spec in ARGS {
        fields.push(
            Field::new(spec.column, spec.ty.arrow_type(), true).with_metadata(notes(spec.unit, spec.doc)),
        );
    }
    if with_rest {
        fields.push(Field::new(REST_COLUMN.0, text_type(), true).with_metadata(notes("", REST_COLUMN.1)));
    }
    let of_table = [("table", "events"), ("description", EVENTS_DOC), ("sorted_by", EVENTS_ORDER)];
    let of_table = of_table.map(|(k, v)| (k.to_string(), v.to_string()));
    Arc::new(Schema::new_with_metadata(fields, Notes::from(of_table)))
}

/// Writes a rank's events, sorted by start, then longest first, then event id.
///
/// # Errors
/// When the file cannot be written.
pub fn write(path: &Path, trace: &RankTrace, with_rest: bool) -> io::Result<()> {
    let mut file = RowGroups::new(File::create(path)?, schema(with_rest))?;
    let events = OrderedEvents::new(trace);
    for first in (0..trace.columns.len()).step_by(GROUP) {
        let rows = first..trace.columns.len().min(first + GROUP);
        file.write(|i| vec![events.column(i, rows.clone())])?;
    }
    file.finish()
}

/// All rows of a rank's events, with the columns that `keep` selects.
///
/// # Errors
/// Never for columns of the schema.
pub fn rows(trace: &RankTrace, keep: impl Fn(&str) -> bool) -> Result<RecordBatch, ArrowError> {
    let schema = schema(false);
    let wanted: Vec<usize> = (0..schema.fields().len()).filter(|&i| keep(schema.field(i).name())).collect();
    let events = OrderedEvents::new(trace);
    let columns = wanted.iter().map(|&i| events.column(i, 0..trace.columns.len())).collect();
    RecordBatch::try_new(Arc::new(schema.project(&wanted)?), columns)
}

/// The events of a rank in the order of the table.
struct OrderedEvents<'a> {
    trace: &'a RankTrace,
    /// Rows of the trace in the order of the table.
    order: ScalarBuffer<u32>,
    /// Index in `order` by row of the trace; `None` if the file is in the order of the table.
    position: Option<Vec<u32>>,
    /// Index of the activity by row of the trace; `NONE` for other events.
    activity: Vec<u32>,
    /// Launch of each node of a graph that is no activity, by row of the trace.
    idle_nodes: HashMap<u32, u32>,
    thread_names: HashMap<u32, StrId>,
    classes: ArrayRef,
}

/// The launch of each node of a graph that is no work: events that are recorded, functions of the host.
fn idle_nodes(trace: &RankTrace) -> HashMap<u32, u32> {
    let c = &trace.columns;
    let is_node = |row: &u32| {
        matches!(trace.classes.get(*row as usize), Some(Class::CudaEvent | Class::Sync))
            && graph_of(c, *row).is_some()
    };
    let mut nodes = c.args.column(Arg::GraphId).rows().filter(is_node).peekable();
    if nodes.peek().is_none() {
        return HashMap::new();
    }
    let correlation = |row: u32| c.args.uint(Arg::Correlation, row).filter(|id| *id != 0);
    let calls: HashMap<u64, u32> =
        trace.graph_replays.iter().filter_map(|(call, _)| Some((correlation(call)?, call))).collect();
    nodes.filter_map(|row| Some((row, *calls.get(&correlation(row)?)?))).collect()
}

/// Marks events that are not activities.
const NONE: u32 = u32::MAX;

impl<'a> OrderedEvents<'a> {
    fn new(trace: &'a RankTrace) -> Self {
        let c = &trace.columns;
        let mut order: Vec<u32> = (0..c.len() as u32).collect();
        // Each thread and stream of a file is in order for the most part, which a stable sort makes use of.
        let key = |r: &u32| (c.ts[*r as usize], Reverse(c.dur[*r as usize]));
        let position = (!order.is_sorted_by_key(key)).then(|| {
            order.sort_by_key(key);
            let mut position = vec![0u32; order.len()];
            (0..).zip(&order).for_each(|(i, &r)| position[r as usize] = i);
            position
        });
        let mut activity = vec![NONE; if trace.activities.is_empty() { 0 } else { c.len() }];
        (0..).zip(&trace.activities).for_each(|(i, a)| activity[a.row as usize] = i);
        let classes = Arc::new(StringArray::from_iter_values(Class::ALL.iter().map(|class| class.name())));
        Self {
            trace,
            order: order.into(),
            position,
            activity,
            idle_nodes: idle_nodes(trace),
            thread_names: trace.thread_names(),
            classes,
        }
    }

    /// The column at index `i` of the schema, for these rows of the table.
    fn column(&self, i: usize, rows: Range<usize>) -> ArrayRef {
        let c = &self.trace.columns;
        let Some(k) = i.checked_sub(BASE_COLUMNS.len()) else { return self.base(BASE_COLUMNS[i].0, rows) };
        let (column, ty) = match ARGS.get(k) {
            Some(spec) => (c.args.column(spec.id), spec.ty),
            None => (&c.args.rest, ArgType::Json),
        };
        let place = |row: u32| match &self.position {
            Some(position) => (position[row as usize] as usize).wrapping_sub(rows.start),
            None => (row as usize).wrapping_sub(rows.start),
        };
        array(column, ty, rows.len(), place, &c.strings)
    }

    /// One of the columns before the arguments.
    fn base(&self, column: &str, rows: Range<usize>) -> ArrayRef {
        let (trace, c) = (self.trace, &self.trace.columns);
        let order = &self.order[rows.clone()];
        let u32s = |of: &dyn Fn(u32) -> Option<u32>| -> ArrayRef {
            Arc::new(order.iter().map(|&r| of(r)).collect::<UInt32Array>())
        };
        let activity = |r: u32| self.activity.get(r as usize).and_then(|&i| trace.activities.get(i as usize));
        match column {
            "rank" => Arc::new(UInt32Array::from_value(trace.rank, rows.len())),
            "event_id" => Arc::new(UInt32Array::new(self.order.slice(rows.start, rows.len()), None)),
            "category" => self.texts(&c.cat, rows, |k| c.categories.get(usize::from(k)).map(|k| k.text)),
            "class" => {
                let keys = order.iter().map(|&r| trace.classes[r as usize] as i32).collect();
                Arc::new(DictionaryArray::<Int32Type>::new(
                    Int32Array::new(keys, None),
                    Arc::clone(&self.classes),
                ))
            }
            "name" => self.texts(&c.name, rows, |name| Some(StrId(name))),
            "ts_ns" => Arc::new(Int64Array::new(self.in_order(&c.ts, rows), None)),
            "dur_ns" => Arc::new(Int64Array::new(self.in_order(&c.dur, rows), None)),
            "pid" => self.texts(&c.lane, rows, |l| c.lanes.get(l as usize).map(|l| l.pid)),
            "tid" => self.texts(&c.lane, rows, |l| c.lanes.get(l as usize).map(|l| l.tid)),
            "thread_name" => self.texts(&c.lane, rows, |l| self.thread_names.get(&l).copied()),
            "parent" => u32s(&|r| trace.stacks.parent(r)),
            "depth" => u32s(&|r| trace.stacks.depth(r)),
            "self_ns" => Arc::new(order.iter().map(|&r| trace.stacks.self_ns(r)).collect::<Int64Array>()),
            "launch_event_id" => u32s(&|r| match activity(r) {
                Some(a) => a.launch(),
                None => self.idle_nodes.get(&r).copied(),
            }),
            "op_event_id" => u32s(&|r| activity(r).and_then(|a| a.op())),
            _ => u32s(&|r| match activity(r) {
                Some(a) => a.step(),
                None => trace.steps.at(c.ts[r as usize]),
            }),
        }
    }

    /// A column of the trace in the order of the table. It is shared if the file is in that order.
    fn in_order<T: ArrowNativeType>(&self, column: &ScalarBuffer<T>, rows: Range<usize>) -> ScalarBuffer<T> {
        match self.position {
            None => column.slice(rows.start, rows.len()),
            Some(_) => self.order[rows].iter().map(|&r| column[r as usize]).collect(),
        }
    }

    /// A column of texts. `text` maps the values of a column of the trace to texts.
    fn texts<T: ArrowNativeType>(
        &self,
        column: &ScalarBuffer<T>,
        rows: Range<usize>,
        text: impl Fn(T) -> Option<StrId>,
    ) -> ArrayRef {
        let keys: Int32Array =
            self.order[rows].iter().map(|&r: &u32| text(column[r as usize]).map(|id| id.0 as i32)).collect();
        Arc::new(DictionaryArray::<Int32Type>::new(
            keys,
            Arc::clone(self.trace.columns.strings.array()) as ArrayRef,
        ))
    }
}

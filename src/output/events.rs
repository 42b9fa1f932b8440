//! The `events` table: every complete event of a rank, with real text and typed arguments.

use crate::output::parquet::RowGroups;
use crate::trace::args::{ARGS, ArgType};
use crate::trace::rank_trace::RankTrace;
use crate::trace::sparse::Sparse;
use crate::trace::strings::StrId;
use arrow::array::{
    ArrayRef, BooleanArray, BooleanBufferBuilder, DictionaryArray, Float64Array, Int32Array, Int64Array, RecordBatch,
    StringArray, UInt32Array, UInt64Array,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, Int32Type, Schema, SchemaRef};
use arrow::error::ArrowError;
use hashbrown::HashMap;
use std::cmp::Reverse;
use std::collections::HashMap as Notes;
use std::fs::File;
use std::io;
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

/// What a row of the table is.
pub const EVENTS_DOC: &str = "every complete event of a rank, one file per rank";
/// Key that its rows are sorted by.
pub const EVENTS_ORDER: &str = "ts_ns, dur_ns descending, event_id";

/// Column of the arguments that have none of their own (with `--keep-args`).
pub const REST_COLUMN: (&str, &str) = ("args_json", "other arguments as a JSON object (with --keep-args)");

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

fn argument_type(ty: ArgType) -> DataType {
    match ty {
        ArgType::Int => DataType::Int64,
        ArgType::UInt => DataType::UInt64,
        ArgType::Float => DataType::Float64,
        ArgType::Bool => DataType::Boolean,
        ArgType::Text | ArgType::Json => text_type(),
    }
}

/// The schema: the same for every rank and file.
pub fn schema(with_rest: bool) -> SchemaRef {
    let notes = |unit: &str, doc: &str| -> Notes<String, String> {
        let all = [("unit", unit), ("description", doc)];
        all.into_iter().filter(|(_, v)| !v.is_empty()).map(|(k, v)| (k.to_string(), v.to_string())).collect()
    };
    let mut fields: Vec<Field> = BASE_COLUMNS
        .iter()
        .map(|(name, kind, unit, doc)| Field::new(*name, data_type(kind), true).with_metadata(notes(unit, doc)))
        .collect();
    for spec in ARGS {
        fields.push(Field::new(spec.column, argument_type(spec.ty), true).with_metadata(notes(spec.unit, spec.doc)));
    }
    if with_rest {
        fields.push(Field::new(REST_COLUMN.0, text_type(), true).with_metadata(notes("", REST_COLUMN.1)));
    }
    let of_table = [("table", "events"), ("description", EVENTS_DOC), ("sorted_by", EVENTS_ORDER)];
    let of_table = of_table.map(|(k, v)| (k.to_string(), v.to_string()));
    Arc::new(Schema::new_with_metadata(fields, Notes::from(of_table)))
}

/// Writes a rank's events, sorted by (start, longest first, event id).
///
/// # Errors
/// When the file cannot be written.
pub fn write(path: &Path, trace: &RankTrace, with_rest: bool) -> io::Result<()> {
    let mut file = RowGroups::new(File::create(path)?, schema(with_rest))?;
    let events = Events::new(trace);
    for (group, rows) in events.order.chunks(GROUP).enumerate() {
        file.write(|i| vec![events.column(i, group * GROUP, rows)])?;
    }
    file.finish()
}

/// The columns of a rank's events that `keep` wants, all rows.
///
/// # Errors
/// Never for columns of the schema.
pub fn rows(trace: &RankTrace, keep: impl Fn(&str) -> bool) -> Result<RecordBatch, ArrowError> {
    let schema = schema(false);
    let wanted: Vec<usize> = (0..schema.fields().len()).filter(|&i| keep(schema.field(i).name())).collect();
    let events = Events::new(trace);
    let columns = wanted.iter().map(|&i| events.column(i, 0, &events.order)).collect();
    RecordBatch::try_new(Arc::new(schema.project(&wanted)?), columns)
}

/// The events of a rank in the order of the table.
struct Events<'a> {
    trace: &'a RankTrace,
    derived: Derived,
    order: Vec<u32>,
    /// Place in `order`, by row.
    position: Vec<u32>,
}

impl<'a> Events<'a> {
    fn new(trace: &'a RankTrace) -> Self {
        let c = &trace.columns;
        let mut order: Vec<u32> = (0..c.len() as u32).collect();
        order.sort_unstable_by_key(|&r| (c.ts[r as usize], Reverse(c.dur.at(r as usize)), r));
        let mut position = vec![0u32; order.len()];
        for (i, &r) in order.iter().enumerate() {
            position[r as usize] = i as u32;
        }
        Self { trace, derived: Derived::new(trace), order, position }
    }

    /// The column at a place of the schema, for `rows`, which stand in `order` from `first` on.
    fn column(&self, i: usize, first: usize, rows: &[u32]) -> ArrayRef {
        let args = &self.trace.columns.args;
        match i.checked_sub(BASE_COLUMNS.len()) {
            None => base(self.trace, &self.derived, rows, BASE_COLUMNS[i].0),
            Some(k) => {
                let (column, ty) = match ARGS.get(k) {
                    Some(spec) => (args.column(spec.id), spec.ty),
                    None => (&args.rest, ArgType::Json),
                };
                argument(self.trace, column, ty, &self.position, first, rows.len())
            }
        }
    }
}

/// No activity.
const NONE: u32 = u32::MAX;

/// Per event: what the model found out about it.
struct Derived {
    /// Index of the activity by row, `NONE` for what is none.
    activity: Vec<u32>,
    thread_names: HashMap<u32, StrId>,
}

impl Derived {
    fn new(trace: &RankTrace) -> Self {
        let c = &trace.columns;
        let mut activity = vec![NONE; if trace.activities.is_empty() { 0 } else { c.len() }];
        for (i, a) in trace.activities.iter().enumerate() {
            activity[a.row as usize] = i as u32;
        }
        let named = c.lane_names.iter().filter(|n| c.strings.get(n.kind) == "thread_name");
        Self { activity, thread_names: named.map(|n| (n.lane, n.text)).collect() }
    }
}

/// Texts of a row group as a dictionary of those that occur.
#[derive(Default)]
struct Dictionary {
    of: HashMap<StrId, i32>,
    texts: Vec<StrId>,
}

impl Dictionary {
    fn key(&mut self, id: StrId) -> i32 {
        *self.of.entry(id).or_insert_with(|| {
            self.texts.push(id);
            (self.texts.len() - 1) as i32
        })
    }

    /// The column; `keys` are those that were given by this dictionary, so they are within its values.
    fn finish(self, trace: &RankTrace, keys: Int32Array) -> ArrayRef {
        let values = StringArray::from_iter_values(self.texts.iter().map(|t| trace.text(*t)));
        Arc::new(DictionaryArray::<Int32Type>::new(keys, Arc::new(values)))
    }
}

/// One of the columns before the arguments.
fn base(trace: &RankTrace, derived: &Derived, rows: &[u32], column: &str) -> ArrayRef {
    let c = &trace.columns;
    let text = |of: &dyn Fn(usize) -> Option<StrId>| -> ArrayRef {
        let mut d = Dictionary::default();
        let keys: Int32Array = rows.iter().map(|&r| of(r as usize).map(|t| d.key(t))).collect();
        d.finish(trace, keys)
    };
    let u32s = |of: &dyn Fn(u32) -> Option<u32>| -> ArrayRef {
        Arc::new(rows.iter().map(|&r| of(r)).collect::<UInt32Array>())
    };
    let i64s = |of: &dyn Fn(usize) -> Option<i64>| -> ArrayRef {
        Arc::new(rows.iter().map(|&r| of(r as usize)).collect::<Int64Array>())
    };
    let lane = |r: usize| c.lanes.get(c.lane[r] as usize);
    let activity = |r: u32| derived.activity.get(r as usize).and_then(|&i| trace.activities.get(i as usize));
    match column {
        "rank" => u32s(&|_| Some(trace.rank)),
        "event_id" => u32s(&Some),
        "category" => text(&|r| c.categories.get(usize::from(c.cat[r])).map(|k| k.text)),
        "class" => {
            let names = rows.iter().map(|&r| Some(trace.classes[r as usize].name()));
            Arc::new(names.collect::<DictionaryArray<Int32Type>>())
        }
        "name" => text(&|r| Some(c.name[r])),
        "ts_ns" => i64s(&|r| Some(c.ts[r])),
        "dur_ns" => i64s(&|r| Some(c.dur.at(r))),
        "pid" => text(&|r| lane(r).map(|l| l.pid)),
        "tid" => text(&|r| lane(r).map(|l| l.tid)),
        "thread_name" => text(&|r| derived.thread_names.get(&c.lane[r]).copied()),
        "parent" => u32s(&|r| trace.stacks.parent(r)),
        "depth" => u32s(&|r| trace.stacks.depth(r)),
        "self_ns" => i64s(&|r| trace.stacks.self_ns(r as u32)),
        "launch_event_id" => u32s(&|r| activity(r).and_then(|a| a.launch())),
        "op_event_id" => u32s(&|r| activity(r).and_then(|a| a.op())),
        _ => u32s(&|r| match activity(r) {
            Some(a) => a.step(),
            None => trace.steps.at(c.ts[r as usize]),
        }),
    }
}

/// One argument for the rows at output positions `first..first + len`.
fn argument(trace: &RankTrace, column: &Sparse, ty: ArgType, position: &[u32], first: usize, len: usize) -> ArrayRef {
    let placed = column.iter().map(|(row, value)| ((position[row as usize] as usize).wrapping_sub(first), value));
    match ty {
        ArgType::Int => {
            let (values, nulls) = spread(placed.map(|(at, v)| (at, v as i64)), len);
            Arc::new(Int64Array::new(values.into(), nulls))
        }
        ArgType::UInt => {
            let (values, nulls) = spread(placed, len);
            Arc::new(UInt64Array::new(values.into(), nulls))
        }
        ArgType::Float => {
            let (values, nulls) = spread(placed.map(|(at, v)| (at, f64::from_bits(v))), len);
            Arc::new(Float64Array::new(values.into(), nulls))
        }
        ArgType::Bool => {
            let (values, nulls) = spread(placed.map(|(at, v)| (at, v != 0)), len);
            Arc::new(BooleanArray::new(values.into(), nulls))
        }
        ArgType::Text | ArgType::Json => {
            let mut d = Dictionary::default();
            // another row group may have it
            let keyed = placed.map(|(at, v)| (at, if at < len { d.key(StrId(v as u32)) } else { 0 }));
            let (keys, nulls) = spread(keyed, len);
            d.finish(trace, Int32Array::new(keys.into(), nulls))
        }
    }
}

/// Values at their places; which of `len` places have one. Those at other places are left out. Where there are few, or
/// none, as of most arguments, most of this memory is never touched.
fn spread<T: Copy + Default>(placed: impl Iterator<Item = (usize, T)>, len: usize) -> (Vec<T>, Option<NullBuffer>) {
    let mut values = vec![T::default(); len];
    let mut is_there = BooleanBufferBuilder::new(len);
    is_there.append_n(len, false);
    for (at, value) in placed {
        if let Some(slot) = values.get_mut(at) {
            *slot = value;
            is_there.set_bit(at, true);
        }
    }
    (values, Some(NullBuffer::new(is_there.finish())))
}

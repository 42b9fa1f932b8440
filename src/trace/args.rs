//! Event arguments as typed, sparse columns.
//!
//! Kineto's `args` can contain any keys. The keys of trace-format become columns, which are declared in
//! [`ARGS`]; the others are kept as JSON text on request. Most events have few arguments, so columns are
//! `Sparse`. A value has 64 bits, which are interpreted by the column's type.

use crate::sparse::{Sparse, SparseCursor};
use crate::strings::{StrId, TraceTexts};
use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int32Array, Int64Array, UInt64Array,
    new_null_array,
};
use arrow_buffer::{BooleanBufferBuilder, NullBuffer};
use arrow_schema::DataType;
use std::sync::Arc;

/// How an argument's 64 bits are interpreted, and its type in Parquet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArgType {
    /// Signed integer.
    Int,
    /// Unsigned integer: ids may exceed `i64::MAX`.
    UInt,
    Float,
    Bool,
    /// Text, a [`StrId`].
    Text,
    /// A JSON list or object as text without white space, a [`StrId`].
    Json,
}

impl ArgType {
    /// Name of the type in the documentation and in the declarations of tables.
    pub fn name(self) -> &'static str {
        match self {
            ArgType::Int => "i64",
            ArgType::UInt => "u64",
            ArgType::Float => "f64",
            ArgType::Bool => "bool",
            ArgType::Text => "text",
            ArgType::Json => "json",
        }
    }

    /// The type of its Arrow columns.
    pub fn arrow_type(self) -> DataType {
        match self {
            ArgType::Int => DataType::Int64,
            ArgType::UInt => DataType::UInt64,
            ArgType::Float => DataType::Float64,
            ArgType::Bool => DataType::Boolean,
            ArgType::Text | ArgType::Json => {
                DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
            }
        }
    }
}

/// What an argument is needed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// An analysis reads it, so it is always loaded.
    Analysis,
    /// An analysis reads it only for events about collectives ([`is_about_collectives`]), for annotations,
    /// which may be the title of one, and for operators whose FLOPs and bytes follow from it.
    Inputs,
    /// Only the `events` table shows it, so it is not loaded with `--no-events`.
    Events,
}

/// One known argument.
#[derive(Debug)]
pub struct ArgSpec {
    pub id: Arg,
    /// Keys in trace files; none if the column is made of other arguments.
    pub keys: &'static [&'static str],
    /// Column in the `events` table.
    pub column: &'static str,
    pub ty: ArgType,
    pub need: Need,
    /// Unit, or `""`.
    pub unit: &'static str,
    pub doc: &'static str,
}

macro_rules! args {
    ($(
        $id:ident: [$($key:literal),*] $column:literal $ty:ident $need:ident $unit:literal $doc:literal;
    )+) => {
        /// The known arguments; the discriminant is the index in [`ARGS`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Arg { $($id),+ }

        /// All known arguments, in the order of the `events` table's columns.
        pub const ARGS: &[ArgSpec] = &[$(ArgSpec {
            id: Arg::$id, keys: &[$($key),*], column: $column, ty: ArgType::$ty, need: Need::$need,
            unit: $unit, doc: $doc,
        }),+];
    };
}

args! {
    Device: ["device"] "device" Int Analysis "" "device index";
    Stream: ["stream"] "stream" Int Analysis "" "stream of the device; 0 is a stream";
    Correlation: ["correlation"] "correlation" UInt Analysis "" "joins a GPU activity to its launch call";
    ExternalId: ["External id", "external id"] "external_id" UInt Analysis "" "operator id, or a copy of the \
        correlation";
    GraphNodeId: ["graph node id"] "graph_node_id" UInt Analysis "" "node of a CUDA graph; 0 without a \
        graph is none";
    GraphId: ["graph id"] "graph_id" UInt Analysis "" "CUDA graph; 0 is none";
    GraphAnnotation: [] "graph_annotation" Text Analysis "" "name that the program gave to this part of a \
        CUDA graph, with ` backward` in the backward pass";
    DisplayLane: [] "display_lane" Int Events "" "lane on which the recorder draws a row of a graph, which \
        is no stream; null: on its stream";
    Grid: ["grid"] "grid" Json Analysis "" "blocks per grid, [x,y,z]";
    Block: ["block"] "block" Json Analysis "" "threads per block, [x,y,z]";
    Bytes: ["bytes"] "size_bytes" Int Analysis "bytes" "size of a copy, set or allocation";
    CollectiveName: ["Collective name"] "collective_name" Text Analysis "" "kind of collective";
    GroupName: ["Process Group Name"] "process_group" Text Analysis "" "name of the process group";
    GroupDesc: ["Process Group Description"] "process_group_desc" Text Analysis "" "what the process group \
        is for";
    GroupId: ["Process Group ID"] "process_group_id" Int Analysis "" "process group, before it had a name";
    GroupRanks: ["Process Group Ranks"] "process_group_ranks" Text Analysis "" "member ranks as text, cut \
        after 30";
    GroupSize: ["Group size"] "group_size" Int Analysis "ranks" "members of the process group";
    GlobalRankStart: ["Global rank start"] "global_rank_start" Int Analysis "" "lowest member rank";
    GlobalRankStride: ["Global rank stride"] "global_rank_stride" Int Analysis "" "distance between member \
        ranks";
    Seq: ["Seq"] "seq" UInt Analysis "" "sequence number within the group";
    CommsId: ["Comms Id", "Communicator_id"] "comms_id" UInt Analysis "" "id of the communicator";
    InNelems: ["In msg nelems"] "in_nelems" Int Analysis "elements" "input message";
    OutNelems: ["Out msg nelems"] "out_nelems" Int Analysis "elements" "output message";
    Dtype: ["dtype"] "dtype" Text Analysis "" "element type of the message";
    InSplit: ["In split size"] "in_split" Text Analysis "" "input split sizes as text";
    OutSplit: ["Out split size"] "out_split" Text Analysis "" "output split sizes as text";
    RankArg: ["Rank"] "comm_rank" Int Analysis "" "rank that recorded the collective; of a broadcast, \
        reduce, scatter or gather the root, as a position in the group";
    SrcRank: ["Src Rank"] "src_rank" Int Analysis "" "sender";
    DstRank: ["Dst Rank"] "dst_rank" Int Analysis "" "receiver";
    IsAsync: ["Is asynchronized op"] "is_async" Bool Events "" "the caller does not wait";
    InTensorsStart: ["Input Tensors start"] "in_tensors_start" Text Events "" "first input tensors";
    OutTensorsStart: ["Output Tensors start"] "out_tensors_start" Text Events "" "first output tensors";
    Context: ["context"] "context" UInt Events "" "CUDA context";
    Registers: ["registers per thread"] "registers_per_thread" Int Analysis "" "registers per thread";
    SharedMemory: ["shared memory"] "shared_memory_bytes" Int Analysis "bytes" "static and dynamic shared \
        memory";
    BlocksPerSm: ["blocks per SM"] "blocks_per_sm" Float Analysis "" "blocks divided by SMs";
    WarpsPerSm: ["warps per SM"] "warps_per_sm" Float Events "" "warps divided by SMs";
    Occupancy: ["est. achieved occupancy %", "theoretical occupancy %"] "est_occupancy_pct" Float Analysis "%" "estimated achieved occupancy";
    OccupancyDetail: ["occupancy"] "occupancy" Json Events "" "limits of occupancy";
    Priority: ["priority"] "priority" Int Events "" "stream priority";
    Channel: ["channel"] "channel" Int Events "" "hardware channel";
    ChannelType: ["channel_type"] "channel_type" Text Events "" "hardware channel type";
    Bandwidth: ["memory bandwidth (GB/s)"] "bandwidth_gb_per_s" Float Analysis "GB/s" "as recorded";
    FromDevice: ["fromDevice"] "from_device" Int Events "" "source of a peer copy";
    ToDevice: ["toDevice"] "to_device" Int Events "" "target of a peer copy";
    Kind: ["kind"] "kind" Text Events "" "ROCm: kind of activity; nsys: StartEnd for ranges that may end on \
                                          another thread";
    Cbid: ["cbid", "cid"] "callback_id" Int Events "" "id of the API function";
    LaunchedKernel: ["kernel"] "launched_kernel" Text Analysis "" "HIP: kernel a call launches";
    CopySize: ["size"] "call_size_bytes" Int Analysis "bytes" "HIP: bytes a call copies";
    MtiaMemSize: ["mem size"] "mem_size_bytes" Int Analysis "bytes" "MTIA: size of a transfer";
    SyncKind: ["cuda_sync_kind"] "sync_kind" Text Events "" "kind of synchronization";
    WaitOnStream: ["wait_on_stream"] "wait_on_stream" Int Analysis "" "stream whose event is awaited";
    WaitOnEvent: ["wait_on_cuda_event_id"] "wait_on_event_id" Int Events "" "event that is awaited";
    WaitOnRecord: ["wait_on_cuda_event_record_corr_id"] "wait_on_record_correlation" Int Analysis "" "correlation of its record call";
    EventId: ["event_id"] "cuda_event_id" Int Events "" "recorded event";
    RecordFunctionId: ["Record function id"] "record_function_id" UInt Events "" "id of the RecordFunction";
    EvIdx: ["Ev Idx", "Profiler Event Index"] "profiler_index" Int Events "" "the profiler's own index";
    SeqNumber: ["Sequence number"] "sequence_number" Int Analysis "" "autograd sequence number";
    FwdThread: ["Fwd thread id"] "fwd_thread_id" Int Analysis "" "forward thread (the profiler's small \
        number)";
    InputDims: ["Input Dims", "Input dims"] "input_dims" Json Inputs "" "shape of each input";
    InputStrides: ["Input Strides"] "input_strides" Json Inputs "" "strides of each input";
    InputType: ["Input type"] "input_types" Json Inputs "" "element type of each input";
    ConcreteInputs: ["Concrete Inputs"] "concrete_inputs" Json Inputs "" "scalar inputs as text";
    CallStack: ["Call stack"] "call_stack" Text Events "" "frames joined by `;`, innermost first";
    ModuleHierarchy: ["Module Hierarchy"] "module_hierarchy" Text Events "" "TorchScript modules";
    Backend: ["Backend"] "backend" Text Events "" "delegate backend";
    KernelBackend: ["kernel_backend"] "kernel_backend" Text Events "" "Inductor: triton";
    KernelFile: ["kernel_file"] "kernel_file" Text Events "" "Inductor: generated file";
    KernelName: ["kernel_name"] "kernel_name" Text Events "" "Inductor: kernel";
    PythonId: ["Python id"] "python_id" Int Analysis "" "id of a Python frame";
    PythonParent: ["Python parent id"] "python_parent_id" Int Analysis "" "id of the calling frame";
    PythonModule: ["Python module id"] "python_module_id" Int Events "" "instance of an nn.Module";
    PythonThread: ["Python thread"] "python_thread" Int Events "" "the profiler's number of the thread";
    CallFrom: ["CallFrom"] "call_from" Text Analysis "" "caller, file:line";
    Finished: ["finished"] "finished" Bool Analysis "" "false: cut at the end of the window";
    TimelineStep: ["step"] "step_arg" Int Analysis "" "step, as other writers record it (what-if timelines)";
}

/// Whether an event of this name is about a collective, so that its recorded inputs describe the message.
pub fn is_about_collectives(name: &[u8]) -> bool {
    const PREFIXES: [&[u8]; 7] =
        [b"record_param_comms", b"c10d::", b"nccl:", b"gloo:", b"mpi:", b"ucc:", b"xccl:"];
    PREFIXES.iter().any(|p| name.starts_with(p))
}

impl Arg {
    /// The declaration of this argument.
    pub fn spec(self) -> &'static ArgSpec {
        &ARGS[self as usize]
    }
}

/// All argument columns of one trace.
#[derive(Debug, Clone)]
pub struct ArgColumns {
    columns: Vec<Sparse>,
    /// `stream` and `correlation` arguments that were quoted numbers, with their rows in ascending order.
    /// Other tools treat such arguments as absent.
    pub quoted_ids: Vec<(u32, Arg)>,
    /// Arguments without a column, as one JSON object per event: for counter ranges, and with `--keep-args`
    /// for all events.
    pub rest: Sparse,
}

impl Default for ArgColumns {
    fn default() -> Self {
        Self { columns: vec![Sparse::default(); ARGS.len()], quoted_ids: Vec::new(), rest: Sparse::default() }
    }
}

impl ArgColumns {
    /// Memory of the contents, bytes.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.columns.iter().chain([&self.rest]).map(Sparse::held_bytes).sum::<u64>()
            + (self.quoted_ids.len() * size_of::<(u32, Arg)>()) as u64
    }

    pub fn column(&self, arg: Arg) -> &Sparse {
        &self.columns[arg as usize]
    }

    pub fn column_mut(&mut self, arg: Arg) -> &mut Sparse {
        &mut self.columns[arg as usize]
    }

    pub fn cursor(&self, arg: Arg) -> SparseCursor<'_> {
        self.column(arg).cursor()
    }

    /// An argument of all events as an Arrow column of `rows` rows; null for events without the argument.
    pub(crate) fn array(&self, arg: Arg, rows: usize, texts: &TraceTexts) -> ArrayRef {
        array(self.column(arg), arg.spec().ty, rows, |row| row as usize, texts)
    }

    /// An integer argument of one event, by binary search.
    #[inline]
    pub fn int(&self, arg: Arg, row: u32) -> Option<i64> {
        self.column(arg).get(row).map(|v| v as i64)
    }

    /// An unsigned argument of one event, by binary search.
    pub fn uint(&self, arg: Arg, row: u32) -> Option<u64> {
        self.column(arg).get(row)
    }

    /// A text argument of one event, by binary search.
    #[inline]
    pub fn text(&self, arg: Arg, row: u32) -> Option<StrId> {
        self.column(arg).get(row).map(|v| StrId(v as u32))
    }

    /// Replaces values of a column, or removes those for which there is none; rows ascend.
    pub fn change(&mut self, arg: Arg, changes: &[(u32, Option<u64>)]) {
        if changes.is_empty() {
            return;
        }
        let mut left = changes.iter().copied().peekable();
        let mut made = Sparse::default();
        for (row, value) in self.column(arg).iter() {
            while let Some((changed, new)) = left.next_if(|change| change.0 < row) {
                new.into_iter().for_each(|new| made.push(changed, new));
            }
            let new = left.next_if(|change| change.0 == row).map_or(Some(value), |change| change.1);
            new.into_iter().for_each(|new| made.push(row, new));
        }
        left.for_each(|(row, new)| new.into_iter().for_each(|new| made.push(row, new)));
        *self.column_mut(arg) = made;
    }

    /// Appends the columns of the next piece of the same file. Its rows start at `row_base`, and `strings`
    /// maps its text ids to those of `self`.
    pub(crate) fn append(&mut self, piece: ArgColumns, row_base: u32, strings: &[StrId]) {
        let text = |v: u64| strings.get(v as usize).map_or(0, |s| u64::from(s.0));
        for (spec, (mine, theirs)) in ARGS.iter().zip(self.columns.iter_mut().zip(piece.columns)) {
            match spec.ty {
                ArgType::Text | ArgType::Json => {
                    theirs.iter().for_each(|(r, v)| mine.push(r + row_base, text(v)))
                }
                _ => mine.append(&theirs, row_base),
            }
        }
        self.quoted_ids.extend(piece.quoted_ids.iter().map(|(r, arg)| (r + row_base, *arg)));
        piece.rest.iter().for_each(|(r, v)| self.rest.push(r + row_base, text(v)));
    }

    /// Moves values to new row numbers, which must keep their order. Values of rows without a new number are
    /// dropped.
    pub(crate) fn renumber(&mut self, new_row: &[Option<u32>]) {
        let map = |r: u32| new_row.get(r as usize).copied().flatten();
        for column in self.columns.iter_mut().chain([&mut self.rest]) {
            *column = column.iter().filter_map(|(r, v)| Some((map(r)?, v))).collect();
        }
        self.quoted_ids = self.quoted_ids.iter().filter_map(|(r, arg)| Some((map(*r)?, *arg))).collect();
    }
}

/// A sparse column as an Arrow column of `rows` rows. `place` gives the row of an event's value; values
/// outside the column are left out. Texts are keys into `texts`.
pub fn array(
    column: &Sparse,
    ty: ArgType,
    rows: usize,
    place: impl Fn(u32) -> usize,
    texts: &TraceTexts,
) -> ArrayRef {
    if column.is_empty() {
        return new_null_array(&ty.arrow_type(), rows);
    }
    let placed = column.iter().map(|(row, value)| (place(row), value));
    match ty {
        ArgType::Int => {
            let (values, nulls) = spread(placed.map(|(at, v)| (at, v as i64)), rows);
            Arc::new(Int64Array::new(values.into(), nulls))
        }
        ArgType::UInt => {
            let (values, nulls) = spread(placed, rows);
            Arc::new(UInt64Array::new(values.into(), nulls))
        }
        ArgType::Float => {
            let (values, nulls) = spread(placed.map(|(at, v)| (at, f64::from_bits(v))), rows);
            Arc::new(Float64Array::new(values.into(), nulls))
        }
        ArgType::Bool => {
            let (values, nulls) = spread(placed.map(|(at, v)| (at, v != 0)), rows);
            Arc::new(BooleanArray::new(values.into(), nulls))
        }
        ArgType::Text | ArgType::Json => {
            let (keys, nulls) = spread(placed.map(|(at, v)| (at, v as i32)), rows);
            let texts = Arc::clone(texts.array());
            Arc::new(DictionaryArray::<Int32Type>::new(Int32Array::new(keys.into(), nulls), texts))
        }
    }
}

/// Values at their places, and a mask of the rows that have one. If there are few values, as for most
/// arguments, most of the zeroed memory is never touched.
fn spread<T: Copy + Default>(
    placed: impl Iterator<Item = (usize, T)>,
    rows: usize,
) -> (Vec<T>, Option<NullBuffer>) {
    let mut values = vec![T::default(); rows];
    let mut is_there = BooleanBufferBuilder::new(rows);
    is_there.append_n(rows, false);
    for (at, value) in placed {
        if let Some(slot) = values.get_mut(at) {
            *slot = value;
            is_there.set_bit(at, true);
        }
    }
    (values, Some(NullBuffer::new(is_there.finish())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn changed_columns_are_those_of_a_map(
            values in prop::collection::btree_map(0u32..60, any::<u64>(), 0..40),
            changes in prop::collection::btree_map(0u32..60, any::<Option<u64>>(), 0..40),
        ) {
            let mut args = ArgColumns::default();
            values.iter().for_each(|(row, value)| args.column_mut(Arg::Stream).push(*row, *value));
            let changes: Vec<(u32, Option<u64>)> = changes.into_iter().collect();
            args.change(Arg::Stream, &changes);
            let mut want = values;
            for (row, value) in changes {
                match value {
                    Some(value) => drop(want.insert(row, value)),
                    None => drop(want.remove(&row)),
                }
            }
            let got: Vec<_> = args.column(Arg::Stream).iter().collect();
            prop_assert_eq!(got, want.into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn declarations_stand_at_their_own_position_and_are_distinct() {
        for (i, spec) in ARGS.iter().enumerate() {
            assert_eq!(spec.id as usize, i);
        }
        let mut columns: Vec<_> = ARGS.iter().map(|s| s.column).collect();
        columns.sort_unstable();
        columns.dedup();
        assert_eq!(columns.len(), ARGS.len());
    }
}

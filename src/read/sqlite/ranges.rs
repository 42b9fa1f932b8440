//! NVTX ranges being collected, and then pushed as operators and annotations.
//!
//! Ranges are pushed when all are known, because some say something about others:
//!
//! ```text
//!   traceMarker [.......................)    the call stack of the operators inside
//!     torch.mm    [...................)      an operator with shapes, marked by PyProf
//!       aten::mm    [...............)        an operator
//!
//!   MmBackward  [.........)                  on a thread of autograd all work is of the backward pass, also what
//!     aten::mm    [....)                     autograd does between its nodes
//!                              aten::add_ [...)
//! ```

use super::nvtx::{Meaning, meaning};
use super::rows::{RecordedSpan, RowPlace, Rows};
use crate::marked_operator::{FORWARD_THREAD, is_backward_name, is_backward_node};
use hta_base::health::Counter;
use hta_trace::args::Arg;
use hta_trace::flops::has_model;
use hta_trace::strings::StrId;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The text of a range.
pub(crate) enum Said<'a> {
    Text(&'a str),
    Interned(StrId),
}

struct SqliteRange {
    start: i64,
    end: i64,
    /// Process and thread.
    thread: (i64, i64),
    /// Whether it is pushed and popped on one thread. Others are in no tree of operators.
    is_nested: bool,
    is_open: bool,
    kind: RangeKind,
}

enum RangeKind {
    Annotation(StrId),
    Operator(MarkedRange),
    /// The call stack of what is inside.
    Stack(StrId),
}

struct MarkedRange {
    name: StrId,
    sequence: Option<i64>,
    record: Option<u64>,
    /// Of PyProf, not of PyTorch.
    is_of_pyprof: bool,
    backward: SaysBackward,
    inputs: [Option<StrId>; 3],
}

/// What a name says about the backward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SaysBackward {
    /// It is a node of autograd.
    Node,
    /// It is a function that nodes call.
    Function,
    Nothing,
}

/// Arguments in the order of [`MarkedRange::inputs`].
const INPUTS: [Arg; 3] = [Arg::InputDims, Arg::InputType, Arg::ConcreteInputs];

/// Kind of a range that may end on another thread than it has started on.
const START_END: &str = "StartEnd";

/// Ranges after which memory is asked for again.
const RANGES_BETWEEN_CHECKS: usize = 1 << 14;

pub(crate) struct SqliteRanges {
    ranges: Vec<SqliteRange>,
    end_of_capture: Option<i64>,
}

impl SqliteRanges {
    /// Ranges that are still open end with what was read before.
    pub(crate) fn new(rows: &Rows) -> Self {
        Self { ranges: Vec::new(), end_of_capture: rows.last_end() }
    }

    pub(crate) fn add(
        &mut self,
        rows: &mut Rows,
        said: Said,
        span: RecordedSpan,
        place: RowPlace,
        is_nested: bool,
    ) {
        let is_open = span.1.is_none();
        let end = span.1.or_else(|| Some(self.end_of_capture?.max(span.0?)));
        if rows.how.options.device_only {
            if let Some((start, end)) = span.0.zip(end).filter(|(s, e)| s <= e) {
                rows.columns.reach(start, end);
            }
            return;
        }
        let Some((start, end)) = span.0.zip(end) else {
            rows.columns.health.add(Counter::TsMissing, 1, None, "");
            return;
        };
        let thread = match place {
            RowPlace::Thread { process, thread } => (process, thread),
            RowPlace::Stream { device, stream } => (device, stream),
        };
        if self.ranges.len().is_multiple_of(RANGES_BETWEEN_CHECKS) {
            // What is around each range is found when all are read.
            let each = size_of::<SqliteRange>() + size_of::<usize>() + size_of::<(Option<StrId>, bool)>();
            rows.hold_beside((self.ranges.capacity() * each) as u64);
        }
        if rows.is_refused() {
            return;
        }
        let kind = kind(rows, &said, is_nested);
        self.ranges.push(SqliteRange { start, end, thread, is_nested, is_open, kind });
    }

    pub(crate) fn push_into(self, rows: &mut Rows) {
        if rows.is_refused() {
            return;
        }
        let around = Surroundings::of(&self.ranges);
        for (range, (stack, is_first)) in self.ranges.iter().zip(&around.of_range) {
            let (category, name) = match &range.kind {
                RangeKind::Annotation(name) => ("user_annotation", *name),
                RangeKind::Operator(op) => ("cpu_op", op.name),
                RangeKind::Stack(_) => {
                    rows.columns.reach(range.start, range.end.max(range.start));
                    continue;
                }
            };
            let place = RowPlace::Thread { process: range.thread.0, thread: range.thread.1 };
            let span = (Some(range.start), Some(range.end));
            let Some(row) = rows.push(category, name, span, &place) else { continue };
            if range.is_open {
                rows.int(row, Arg::Finished, Some(0));
            }
            if !range.is_nested && rows.how.options.event_args {
                rows.text(row, Arg::Kind, START_END);
            }
            let RangeKind::Operator(op) = &range.kind else { continue };
            rows.int(row, Arg::SeqNumber, op.sequence);
            let is_on_autograd = *is_first && around.autograd_threads.get(&range.thread) == Some(&true);
            let is_backward = match op.backward {
                SaysBackward::Node => true,
                // The number of such a function is that of its own node in a second backward pass.
                SaysBackward::Function => op.sequence.is_none(),
                SaysBackward::Nothing => is_on_autograd,
            };
            rows.int(row, Arg::FwdThread, is_backward.then_some(FORWARD_THREAD));
            for (arg, value) in INPUTS.into_iter().zip(op.inputs) {
                rows.interned(row, arg, value);
            }
            if rows.how.options.event_args {
                rows.int(row, Arg::RecordFunctionId, op.record.and_then(|r| i64::try_from(r).ok()));
                rows.interned(row, Arg::CallStack, *stack);
            }
        }
    }
}

fn kind(rows: &mut Rows, said: &Said, is_nested: bool) -> RangeKind {
    let interned;
    let text = match said {
        Said::Text(text) => *text,
        Said::Interned(id) => {
            interned = rows.columns.strings.get(*id).to_string();
            &interned
        }
    };
    // Ranges that may end on another thread are annotations, whatever they say.
    let found = if is_nested { meaning(text) } else { Meaning::Annotation(text) };
    let event_args = rows.how.options.event_args;
    let whole_texts = rows.how.options.whole_range_texts;
    let mut intern = |text: &str| rows.intern(text);
    match found {
        Meaning::Annotation(name) => RangeKind::Annotation(intern(name)),
        Meaning::Module(name) => RangeKind::Annotation(intern(&name)),
        Meaning::Stack(frames) => RangeKind::Stack(intern(&frames)),
        Meaning::Damaged => {
            let name = intern(text);
            rows.columns.health.add(Counter::MarkerDamaged, 1, None, text);
            RangeKind::Annotation(name)
        }
        Meaning::Call(call) => RangeKind::Operator(MarkedRange {
            name: intern(if whole_texts { text } else { &call.name }),
            sequence: None,
            record: None,
            is_of_pyprof: true,
            backward: SaysBackward::Nothing,
            inputs: [&call.dims, &call.types, &call.concrete].map(|text| Some(intern(text))),
        }),
        Meaning::Operator(marked) => {
            let name = marked.full_name();
            let needs_sizes = || event_args || has_model(name.as_bytes());
            let sizes = marked.sizes.filter(|_| needs_sizes());
            let sizes = sizes.map(|s| s.chars().filter(|c| !c.is_whitespace()).collect::<String>());
            let backward = match &*name {
                name if is_backward_node(name) => SaysBackward::Node,
                name if is_backward_name(name) => SaysBackward::Function,
                _ => SaysBackward::Nothing,
            };
            RangeKind::Operator(MarkedRange {
                name: intern(if whole_texts { text } else { &name }),
                sequence: marked.sequence,
                record: marked.record,
                is_of_pyprof: false,
                backward,
                inputs: [sizes.map(|s| intern(&s)), None, None],
            })
        }
    }
}

/// What is around each range.
struct Surroundings {
    /// The innermost call stack, and whether no operator is around it; in the order of the ranges.
    of_range: Vec<(Option<StrId>, bool)>,
    /// By thread: whether it runs nothing but the backward pass.
    autograd_threads: BTreeMap<(i64, i64), bool>,
}

/// A range that is open while others are looked at.
struct OpenRange {
    end: i64,
    stack: Option<StrId>,
    is_in_operator: bool,
    is_in_backward: bool,
}

impl Surroundings {
    fn of(ranges: &[SqliteRange]) -> Self {
        let mut order: Vec<usize> = (0..ranges.len()).filter(|i| ranges[*i].is_nested).collect();
        order.sort_by_key(|i| (ranges[*i].thread, ranges[*i].start, Reverse(ranges[*i].end), *i));
        let mut of_range = vec![(None, true); ranges.len()];
        let mut autograd_threads = BTreeMap::new();
        for thread in order.chunk_by(|a, b| ranges[*a].thread == ranges[*b].thread) {
            let (mut has_node, mut has_forward) = (false, false);
            let mut open: Vec<OpenRange> = Vec::new();
            for &i in thread {
                let range = &ranges[i];
                while open.pop_if(|o| o.end <= range.start).is_some() {}
                let (stack, is_in_operator, is_in_backward) = open
                    .last()
                    .map_or((None, false, false), |o| (o.stack, o.is_in_operator, o.is_in_backward));
                of_range[i] = (stack, !is_in_operator);
                let mut inside = OpenRange { end: range.end, stack, is_in_operator, is_in_backward };
                match &range.kind {
                    RangeKind::Annotation(_) => {}
                    // PyProf marks the calls of the program, which autograd's threads do not run.
                    RangeKind::Stack(frames) => (has_forward, inside.stack) = (true, Some(*frames)),
                    RangeKind::Operator(op) => {
                        let is_node = op.backward == SaysBackward::Node;
                        has_node |= is_node;
                        has_forward |=
                            op.is_of_pyprof || op.sequence.is_some() && !is_node && !is_in_backward;
                        inside.is_in_operator = true;
                        inside.is_in_backward |= op.backward != SaysBackward::Nothing;
                    }
                }
                open.push(inside);
            }
            if let Some(&i) = thread.first() {
                autograd_threads.insert(ranges[i].thread, has_node && !has_forward);
            }
        }
        Self { of_range, autograd_threads }
    }
}

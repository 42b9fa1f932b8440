//! What divides the rows of the table of operators besides their names (`--by`).

use hashbrown::HashMap;
use hta_facts::by_owner::{NO_OPERATOR, UNLINKED};
use hta_facts::calls::CallForest;
use hta_facts::direction::{Direction, Directions};
use hta_facts::graphs::nodes::GraphNodes;
use hta_facts::modules::{InModules, around};
use hta_trace::args::Arg;
use hta_trace::category::Class;
use hta_trace::graph_capture::CapturedOperator;
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::StrId;
use std::sync::Arc;

/// Python frames of a row with `--by stack`.
const FRAMES: usize = 5;

/// An additional key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallKey {
    Shape,
    Args,
    Module,
    Direction,
    Thread,
    Stack,
    Step,
}

impl CallKey {
    pub(crate) const ALL: [CallKey; 7] = [
        CallKey::Shape,
        CallKey::Args,
        CallKey::Module,
        CallKey::Direction,
        CallKey::Thread,
        CallKey::Stack,
        CallKey::Step,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            CallKey::Shape => "shape",
            CallKey::Args => "args",
            CallKey::Module => "module",
            CallKey::Direction => "direction",
            CallKey::Thread => "thread",
            CallKey::Stack => "stack",
            CallKey::Step => "step",
        }
    }
}

/// The chosen keys.
pub(crate) struct Keys(Vec<CallKey>);

impl Keys {
    pub(crate) fn new(is_chosen: impl Fn(&str) -> bool) -> Self {
        Self(CallKey::ALL.into_iter().filter(|k| is_chosen(k.name())).collect())
    }

    pub(crate) fn has(&self, key: CallKey) -> bool {
        self.0.contains(&key)
    }
}

/// The owner of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum RowOwner {
    Op { name: StrId, inputs: [Option<StrId>; 4], of: CallPlace },
    NoOperator(CallPlace),
    Unlinked,
}

/// Where a call stands; `None` for keys that are not chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct CallPlace {
    module: Option<u32>,
    direction: Option<Direction>,
    lane: Option<u32>,
    stack: Option<u32>,
}

/// What the keys of a rank stand for. Vectors are indexed by position in the forest, and empty for keys that
/// are not chosen.
pub(crate) struct KeyTexts {
    module_of: Vec<Option<u32>>,
    paths: Vec<String>,
    directions: Option<Arc<Directions>>,
    lanes: Vec<String>,
    stack_of: Vec<Option<u32>>,
    stacks: Vec<String>,
    /// Paths and stacks of captured operators, by their text.
    captured_paths: HashMap<StrId, u32>,
    captured_stacks: HashMap<StrId, u32>,
}

/// The texts of a row's keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct KeyCells<'a> {
    pub(crate) name: &'a str,
    pub(crate) input_dims: Option<&'a str>,
    pub(crate) module: Option<&'a str>,
    /// Types, strides, scalars.
    pub(crate) args: [Option<&'a str>; 3],
    pub(crate) direction: Option<&'a str>,
    pub(crate) thread: Option<&'a str>,
    pub(crate) stack: Option<&'a str>,
}

impl KeyTexts {
    pub(crate) fn new(calls: &CallForest, keys: &Keys) -> Self {
        let trace = calls.trace;
        let (mut module_of, mut paths) = (Vec::new(), Vec::new());
        if keys.has(CallKey::Module) {
            let modules = InModules::shared(calls);
            module_of = modules.with_backward(calls);
            paths = modules.paths(calls);
        }
        let (mut stack_of, mut stacks) = (Vec::new(), Vec::new());
        if keys.has(CallKey::Stack) {
            (stack_of, stacks) = python_stacks(calls);
        }
        let (mut captured_paths, mut captured_stacks) = (HashMap::new(), HashMap::new());
        for o in &GraphNodes::of(trace).operators {
            if let Some(module) = o.module.filter(|_| keys.has(CallKey::Module)) {
                captured_paths.entry(module).or_insert_with(|| index_of(&mut paths, trace.text(module)));
            }
            if let Some(stack) = o.stack.filter(|_| keys.has(CallKey::Stack)) {
                captured_stacks.entry(stack).or_insert_with(|| index_of(&mut stacks, trace.text(stack)));
            }
        }
        let lane = |l: &hta_trace::events::EventLane| format!("{}/{}", trace.text(l.pid), trace.text(l.tid));
        Self {
            module_of,
            paths,
            directions: keys.has(CallKey::Direction).then(|| Directions::of(trace)),
            lanes: if keys.has(CallKey::Thread) {
                trace.columns.lanes.iter().map(lane).collect()
            } else {
                Vec::new()
            },
            stack_of,
            stacks,
            captured_paths,
            captured_stacks,
        }
    }

    /// The owner of what a captured operator launched. Its thread and direction are those of the capture, not
    /// of the replay, so it has none.
    pub(crate) fn captured_owner(&self, keys: &Keys, operator: &CapturedOperator) -> RowOwner {
        let of = CallPlace {
            module: operator.module.and_then(|m| self.captured_paths.get(&m)).copied(),
            stack: operator.stack.and_then(|s| self.captured_stacks.get(&s)).copied(),
            ..CallPlace::default()
        };
        let all = keys.has(CallKey::Args);
        let [dims, others @ ..] = operator.inputs;
        let [types, strides, concrete] = others.map(|input| input.filter(|_| all));
        let dims = dims.filter(|_| all || keys.has(CallKey::Shape));
        RowOwner::Op { name: operator.name, inputs: [dims, types, strides, concrete], of }
    }

    /// The owner of the call at a position: an operator, or nobody for an API call outside any.
    pub(crate) fn owner(&self, keys: &Keys, calls: &CallForest, position: u32) -> RowOwner {
        let (at, row) = (position as usize, calls.row(position));
        let c = &calls.trace.columns;
        let of = CallPlace {
            module: self.module_of.get(at).copied().flatten(),
            direction: self.directions.as_ref().map(|d| d.at(row)),
            lane: (!self.lanes.is_empty()).then(|| c.lane[row as usize]),
            stack: self.stack_of.get(at).copied().flatten(),
        };
        if calls.op(position).is_none() {
            return RowOwner::NoOperator(of);
        }
        let input = |arg, is_wanted: bool| if is_wanted { c.args.text(arg, row) } else { None };
        let all = keys.has(CallKey::Args);
        let inputs = [
            input(Arg::InputDims, all || keys.has(CallKey::Shape)),
            input(Arg::InputType, all),
            input(Arg::InputStrides, all),
            input(Arg::ConcreteInputs, all),
        ];
        RowOwner::Op { name: c.name(row as usize), inputs, of }
    }

    /// The texts of an owner.
    pub(crate) fn cells<'a>(&'a self, trace: &'a RankTrace, who: &RowOwner) -> KeyCells<'a> {
        let (name, inputs, of) = match who {
            RowOwner::Op { name, inputs, of } => (trace.text(*name), *inputs, *of),
            RowOwner::NoOperator(of) => (NO_OPERATOR, [None; 4], *of),
            RowOwner::Unlinked => (UNLINKED, [None; 4], CallPlace::default()),
        };
        let [input_dims, types, strides, concrete] = inputs.map(|i| i.map(|i| trace.text(i)));
        let text =
            |list: &'a [String], at: Option<u32>| at.and_then(|i| list.get(i as usize)).map(String::as_str);
        KeyCells {
            name,
            input_dims,
            module: text(&self.paths, of.module),
            args: [types, strides, concrete],
            direction: of.direction.map(Direction::name),
            thread: text(&self.lanes, of.lane),
            stack: text(&self.stacks, of.stack),
        }
    }

    /// By position: whether the operator or one inside can use tensor cores.
    pub(crate) fn eligible(&self, calls: &CallForest) -> Vec<bool> {
        let trace = calls.trace;
        let mut known: HashMap<StrId, bool> = HashMap::new();
        let n = calls.forest.call_count();
        let mut eligible = vec![false; n];
        // What is inside an operator comes after it.
        for p in (0..n as u32).rev() {
            let name = trace.columns.name(calls.row(p) as usize);
            let own = calls.is_op(p)
                && *known.entry(name).or_insert_with(|| can_use_tensor_cores(trace.text(name)));
            eligible[p as usize] |= own;
            if let Some(up) = calls.forest.parent(p).filter(|_| eligible[p as usize]) {
                eligible[up as usize] = true;
            }
        }
        eligible
    }
}

/// Index of a text in a list, to which it is added if it is new.
fn index_of(list: &mut Vec<String>, text: &str) -> u32 {
    let at = list.iter().position(|t| t == text).unwrap_or_else(|| {
        list.push(text.to_string());
        list.len() - 1
    });
    at as u32
}

/// Whether an operator of this name can use tensor cores.
pub(crate) fn can_use_tensor_cores(name: &str) -> bool {
    const OPERATORS: [&str; 14] = [
        "addmm",
        "baddbmm",
        "bmm",
        "mm",
        "matmul",
        "linear",
        "einsum",
        "_scaled_mm",
        "_grouped_mm",
        "_scaled_grouped_mm",
        "lstm",
        "gru",
        "lstm_cell",
        "gru_cell",
    ];
    if let Some(op) = name.strip_prefix("aten::") {
        return OPERATORS.contains(&op.trim_end_matches('_'))
            || op.contains("conv")
            || op.contains("attention");
    }
    let node = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let node = node.strip_suffix("Backward").unwrap_or_default();
    matches!(node, "Mm" | "Addmm" | "Bmm" | "Baddbmm")
        || node.ends_with("Convolution")
        || node.starts_with("ScaledDotProduct")
}

/// By position: the innermost frames around it, and their texts.
fn python_stacks(calls: &CallForest) -> (Vec<Option<u32>>, Vec<String>) {
    let trace = calls.trace;
    let frames = around(trace, &calls.forest.rows, Class::Python);
    let recorded = trace.columns.args.column(Arg::CallStack);
    let mut known: HashMap<String, u32> = HashMap::new();
    let mut stacks: Vec<String> = Vec::new();
    let mut of_frame: HashMap<u32, u32> = HashMap::new();
    let mut index = |text: String, stacks: &mut Vec<String>| {
        *known.entry(text).or_insert_with_key(|text| {
            stacks.push(text.clone());
            (stacks.len() - 1) as u32
        })
    };
    let joined = |names: &mut dyn Iterator<Item = &str>| names.take(FRAMES).collect::<Vec<_>>().join(";");
    let mut of = Vec::with_capacity(frames.len());
    for (&row, frame) in calls.forest.rows.iter().zip(&frames) {
        of.push(match frame {
            Some(frame) => Some(*of_frame.entry(*frame).or_insert_with(|| {
                let mut names = trace.stacks.outward(*frame).map(|f| trace.name(f));
                index(joined(&mut names), &mut stacks)
            })),
            // Old files write the stack at the operator.
            None => recorded.get(row).map(|text| {
                let mut names = trace.text(StrId(text as u32)).split(';').filter(|n| !n.is_empty());
                index(joined(&mut names), &mut stacks)
            }),
        });
    }
    (of, stacks)
}

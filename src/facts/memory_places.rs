//! Where allocations and frees happen: the operator, module, line, phase and step of an instant of a thread.
//!
//! ```text
//!   main       ProfilerStep#3 [.................................................)
//!              train.py:20      [.............)
//!              aten::conv2d       [.......)
//!              aten::empty          [..)
//!   record                           x          `aten::conv2d (aten::empty)`, train.py:20, forward
//!   autograd   ConvolutionBackward0                   [.....)
//!   record                                              x     train.py:20 and its module, backward
//! ```
//!
//! Under a backward operator, line and module are those of its forward operator.

use crate::calls::CallForest;
use crate::direction::{Direction, Directions};
use crate::lines::{Charging, LineId, Lines};
use crate::modules::InModules;
use hashbrown::HashMap;
use hta_base::units::{Ns, Span};
use hta_trace::category::Class;
use hta_trace::interval::Union;
use hta_trace::rank_trace::RankTrace;
use hta_trace::step::StepRule;
use hta_trace::strings::StrId;
use hta_trace::thread::InnermostTimeline;
use std::sync::Arc;

/// The part of the program in which something is allocated. The first that applies, in the order of
/// [`AROUND`], then backward, forward, outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemoryPhase {
    /// In a step of an optimizer.
    Optimizer,
    /// In `Optimizer.zero_grad`.
    ZeroGrad,
    /// In the fetch of a data loader.
    Data,
    Backward,
    /// In any other operator.
    Forward,
    /// In no operator.
    Outside,
}

impl MemoryPhase {
    /// As in the tables.
    pub fn name(self) -> &'static str {
        match self {
            MemoryPhase::Optimizer => "optimizer",
            MemoryPhase::ZeroGrad => "zero_grad",
            MemoryPhase::Data => "data",
            MemoryPhase::Backward => "backward",
            MemoryPhase::Forward => "forward",
            MemoryPhase::Outside => "outside",
        }
    }
}

/// Phases by the annotation around.
const AROUND: [(&str, MemoryPhase); 3] = [
    ("Optimizer.step", MemoryPhase::Optimizer),
    ("Optimizer.zero_grad", MemoryPhase::ZeroGrad),
    ("enumerate(Data", MemoryPhase::Data),
];

/// Start of the names of operators that allocate for others, and are shown with the operator around them.
const EMPTY: &str = "aten::empty";

/// Where an instant of a thread is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryPlace {
    /// Row of the innermost operator.
    pub op: Option<u32>,
    pub line: LineId,
    /// Index into [`MemoryPlaces::paths`].
    pub module: Option<u32>,
    pub phase: MemoryPhase,
    /// Index of the step; `None` outside steps, and if none are marked.
    pub step: Option<u32>,
}

/// Operators as they are shown: the name, and for an empty tensor the name of the operator around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShownOperator {
    pub(crate) name: StrId,
    pub(crate) around: Option<StrId>,
}

/// The places of one rank.
pub struct MemoryPlaces<'a> {
    trace: &'a RankTrace,
    calls: &'a CallForest<'a>,
    pub lines: &'a Lines,
    charging: Charging<'a>,
    modules: Arc<InModules>,
    /// By position in the call forest.
    module_of: Vec<Option<u32>>,
    /// Paths of modules.
    pub paths: Vec<String>,
    directions: Arc<Directions>,
    /// The innermost operator at every instant, by lane.
    ops: HashMap<u32, InnermostTimeline>,
    /// By lane: when each annotation of [`AROUND`] is open.
    phases: HashMap<u32, [Union; AROUND.len()]>,
}

impl<'a> MemoryPlaces<'a> {
    pub fn new(calls: &'a CallForest<'a>, lines: &'a Lines) -> Self {
        let trace = calls.trace;
        let modules = InModules::shared(calls);
        let module_of = match modules.modules.modules.is_empty() {
            true => Vec::new(),
            false => modules.with_backward(calls),
        };
        let is_op = |r: &u32| trace.classes.get(*r as usize) == Some(&Class::HostOp);
        let ops = trace.host_rows().iter().map(|(lane, rows)| {
            let ops: Vec<u32> = rows.iter().copied().filter(is_op).collect();
            (*lane, InnermostTimeline::new(&ops, &trace.columns, |_| false))
        });
        Self {
            trace,
            calls,
            lines,
            charging: Charging::new(calls, lines),
            paths: modules.paths(calls),
            modules,
            module_of,
            directions: Directions::of(trace),
            ops: ops.collect(),
            phases: phases(trace),
        }
    }

    /// Where an instant of a thread is.
    pub fn at(&self, lane: u32, t: Ns) -> MemoryPlace {
        let innermost = self.ops.get(&lane).and_then(|ops| ops.from(t).next());
        let op = innermost.filter(|piece| piece.span.holds(t)).map(|piece| piece.row);
        let position = op.and_then(|row| self.calls.forest.position(row));
        let module = match position {
            Some(p) => self.module_of.get(p as usize).copied().flatten(),
            None => self.modules.modules.of(self.lines.frame_at(lane, t)),
        };
        MemoryPlace {
            op,
            line: self.charging.of(lane, t, position).line,
            module,
            phase: self.phase(lane, t, op),
            step: if self.trace.steps.rule == StepRule::Capture { None } else { self.trace.steps.at(t) },
        }
    }

    fn phase(&self, lane: u32, t: Ns, op: Option<u32>) -> MemoryPhase {
        let instant = Span::new(t, t.saturating_add(1));
        let around =
            self.phases.get(&lane).and_then(|of| of.iter().position(|open| open.len_in(instant) > 0));
        match (around.and_then(|i| AROUND.get(i)), op) {
            (Some((_, phase)), _) => *phase,
            (None, None) => MemoryPhase::Outside,
            (None, Some(op)) => match self.directions.at(op) {
                Direction::Optimizer => MemoryPhase::Optimizer,
                Direction::Backward | Direction::Recompute => MemoryPhase::Backward,
                Direction::Forward => MemoryPhase::Forward,
            },
        }
    }

    /// The operator at a row and those around it, innermost first.
    pub fn chain(&self, op: u32) -> impl Iterator<Item = u32> {
        self.trace.stacks.outward(op).filter(|r| self.trace.classes.get(*r as usize) == Some(&Class::HostOp))
    }

    /// How the operator at a row is shown.
    pub fn shown(&self, op: u32) -> ShownOperator {
        let name = |row: u32| self.trace.columns.name(row as usize);
        let is_empty = self.trace.name(op).starts_with(EMPTY);
        let around = if is_empty { self.chain(op).nth(1).map(name) } else { None };
        ShownOperator { name: name(op), around }
    }

    /// The text of a shown operator.
    pub fn text(&self, shown: ShownOperator) -> String {
        let name = self.trace.text(shown.name);
        shown
            .around
            .map_or_else(|| name.to_string(), |around| format!("{} ({name})", self.trace.text(around)))
    }

    /// The text of a line; `None` without any Python frames in the trace.
    pub fn line(&self, line: LineId) -> Option<String> {
        (!self.lines.is_empty()).then(|| self.lines.site(line).text())
    }
}

/// When the annotations that tell phases are open, by lane.
fn phases(trace: &RankTrace) -> HashMap<u32, [Union; AROUND.len()]> {
    let c = &trace.columns;
    let of_name = |text: &str| AROUND.iter().position(|(start, _)| text.starts_with(start));
    let by_name = c.strings.each(of_name);
    let mut found: HashMap<u32, [Vec<Span>; AROUND.len()]> = HashMap::new();
    if by_name.any(Option::is_some) {
        for (lane, rows) in trace.host_rows() {
            for &row in rows.iter().filter(|r| trace.classes.get(**r as usize) != Some(&Class::Python)) {
                let phase = by_name.get(c.name(row as usize)).copied().flatten();
                if let Some(spans) = phase.and_then(|p| found.entry(*lane).or_default().get_mut(p)) {
                    spans.push(trace.span(row));
                }
            }
        }
    }
    found.into_iter().map(|(lane, of)| (lane, of.map(Union::new))).collect()
}

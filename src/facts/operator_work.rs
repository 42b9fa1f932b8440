//! FLOPs and bytes of each operator of a rank, and of the kernels that it launched.
//!
//! Operators nest, and several around one kernel may have a model: `aten::linear` over `aten::addmm`. The work belongs
//! to the innermost of them:
//!
//! ```text
//!   a product, convolution or attention counts unless it contains another one with known work
//!   other arithmetic counts unless it contains arithmetic with known work,
//!     or is inside a product, convolution or attention, whose work includes it
//!   an operator that only moves data counts unless it contains an operator with known work
//! ```
//!
//! Operators inside a call that PyProf marked have no inputs of their own, and get those of the call
//! ([`MarkedInputs`]).

use crate::facts::kernel_work::KernelWorks;
use crate::facts::marked_inputs::MarkedInputs;
use crate::flops::{Inputs, Model, Work, model};
use crate::kernel::category::Category;
use crate::trace::activity::Activity;
use crate::trace::args::Arg;
use crate::trace::category::Class;
use crate::trace::rank_trace::RankTrace;
use crate::trace::strings::StrId;
use crate::units::Ns;
use hashbrown::HashMap;
use std::sync::Arc;

/// FLOPs and bytes; of a kernel its share of those of its operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Amount {
    pub flops: Option<u64>,
    pub bytes: Option<u64>,
}

pub struct OperatorWorks {
    /// Operators whose own work counts, by row.
    counted: HashMap<u32, Work>,
    /// By row of such an operator: the activity that does its work.
    main: HashMap<u32, u32>,
    /// Calls of operators with a model whose inputs do not say how much they compute.
    pub unknown: u64,
    /// Whether shapes are recorded for any operator with a model.
    pub has_shapes: bool,
}

/// What tells calls of one operator apart: name, and texts of the inputs.
type Call = (StrId, [Option<StrId>; 4]);

impl OperatorWorks {
    pub fn of(trace: &RankTrace) -> Arc<Self> {
        trace.shared(Self::new)
    }

    fn new(trace: &RankTrace) -> Self {
        let (works, unknown, has_shapes) = modelled(trace);
        let counted = innermost(trace, &works);
        let main = main_activities(trace, &counted);
        Self { counted, main, unknown, has_shapes }
    }

    /// The work of the operator at a row, if it counts there.
    pub fn at(&self, row: u32) -> Option<&Work> {
        self.counted.get(&row)
    }

    /// The activity that does the work of the operator at a row: the longest that is more than a helper.
    pub fn main_activity(&self, row: u32) -> Option<u32> {
        self.main.get(&row).copied()
    }

    /// An activity's share of the work of its operator: all for the one that does it, nothing for helpers.
    pub fn share(&self, trace: &RankTrace, activity: u32) -> Amount {
        let Some(row) = trace.activities.get(activity as usize).and_then(Activity::op) else {
            return Amount::default();
        };
        let Some(work) = self.at(row) else { return Amount::default() };
        let is_main = self.main_activity(row) == Some(activity);
        let part = |all: Option<u64>| all.map(|n| if is_main { n } else { 0 });
        Amount { flops: part(work.flops), bytes: part(work.bytes) }
    }
}

/// The work of each operator with a model, by row; how many are unknown; whether shapes are recorded.
fn modelled(trace: &RankTrace) -> (Vec<(u32, Work)>, u64, bool) {
    let c = &trace.columns;
    let mut models: HashMap<StrId, Option<Model>> = HashMap::new();
    let mut works: HashMap<Call, Work> = HashMap::new();
    let mut args = [Arg::InputDims, Arg::InputType, Arg::InputStrides, Arg::ConcreteInputs].map(|a| c.args.cursor(a));
    let (mut found, mut unknown, mut has_shapes) = (Vec::new(), 0, false);
    let marked = MarkedInputs::new(trace);
    for row in (0..c.len() as u32).filter(|r| trace.classes[*r as usize] == Class::HostOp) {
        let name = c.name(row as usize);
        let Some(model) = *models.entry(name).or_insert_with(|| model(trace.text(name))) else { continue };
        let texts = args.each_mut().map(|a| a.get(row).map(|v| StrId(v as u32)));
        let work = *works.entry((name, texts)).or_insert_with(|| {
            let [dims, types, strides, concrete] = texts.map(|t| t.map(|t| trace.text(t)));
            let inputs = dims.zip(types).and_then(|(dims, types)| Inputs::parse(dims, types, strides, concrete));
            model.work(&inputs.unwrap_or_default())
        });
        let lent = marked.as_ref().filter(|_| texts[0].is_none()).and_then(|m| m.work(row, model));
        let work = lent.unwrap_or(work);
        has_shapes |= texts[0].is_some();
        unknown += u64::from(work.flops.is_none());
        found.push((row, work));
    }
    (found, unknown, has_shapes)
}

/// How much an operator does: moves data, computes, or multiplies matrices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Nothing,
    Moves,
    Computes,
    Multiplies,
}

fn level(work: &Work) -> Level {
    match (work.family.is_matrix(), work.flops) {
        (true, _) => Level::Multiplies,
        (false, Some(0)) => Level::Moves,
        (false, _) => Level::Computes,
    }
}

/// The operators whose own work counts: those that contain nothing known of their level or above.
fn innermost(trace: &RankTrace, works: &[(u32, Work)]) -> HashMap<u32, Work> {
    let mut contains = vec![Level::Nothing; trace.classes.len()];
    for (row, work) in works.iter().filter(|(_, w)| w.flops.is_some()) {
        for above in trace.stacks.outward(*row).skip(1) {
            let inside = &mut contains[above as usize];
            // Everything further out already knows.
            if *inside >= level(work) {
                break;
            }
            *inside = level(work);
        }
    }
    let is_matrix = |work: &Work| work.family.is_matrix();
    let counts = |(row, work): &&(u32, Work)| contains[*row as usize] < level(work);
    let mut counted: HashMap<u32, Work> = works.iter().filter(counts).copied().collect();
    let arithmetic = |(row, work): (&u32, &Work)| (!is_matrix(work) && work.flops != Some(0)).then_some(*row);
    let is_part = |row: &u32| {
        let mut around = trace.stacks.outward(*row).skip(1);
        around.any(|above| counted.get(&above).is_some_and(|w| is_matrix(w) && w.flops.is_some()))
    };
    let parts: Vec<u32> = counted.iter().filter_map(arithmetic).filter(is_part).collect();
    for row in parts {
        counted.remove(&row);
    }
    counted
}

/// The longest of an operator's own activities that is neither copy, layout change nor the combination of partial
/// results; of equally long ones the first.
fn main_activities(trace: &RankTrace, counted: &HashMap<u32, Work>) -> HashMap<u32, u32> {
    let kernels = KernelWorks::of(trace);
    let mut helpers: HashMap<StrId, bool> = HashMap::new();
    let mut chosen: HashMap<u32, ((bool, Ns), u32)> = HashMap::new();
    for (i, a) in (0..).zip(&trace.activities) {
        let Some(row) = a.op().filter(|row| counted.contains_key(row)) else { continue };
        let moves = matches!(kernels.at(i).category, Category::Layout | Category::Memcpy | Category::Memset);
        let is_helper = moves || *helpers.entry(a.name).or_insert_with(|| is_helper(trace.text(a.name)));
        let this = (!is_helper, a.span.len());
        let best = chosen.entry(row).or_insert((this, i));
        if this > best.0 {
            *best = (this, i);
        }
    }
    chosen.into_iter().map(|(row, (_, activity))| (row, activity)).collect()
}

/// Whether a kernel only prepares the work of another one, or combines its partial results.
fn is_helper(name: &str) -> bool {
    const HELPERS: [&str; 6] = ["splitkreduce", "reducesplitk", "_combine", "convert_dq", "dot_do_o", "reduce_1block"];
    let name = name.to_ascii_lowercase();
    HELPERS.iter().any(|h| name.contains(h))
}

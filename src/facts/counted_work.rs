//! FLOPs and bytes of each operator of a rank, from its recorded inputs.
//!
//! Operators nest, and several around one kernel may have a model: `aten::linear` over `aten::addmm`. The
//! work belongs to the innermost of them:
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

use crate::input_work::InputWorks;
use crate::marked_inputs::MarkedInputs;
use hta_trace::args::Arg;
use hta_trace::category::Class;
use hta_trace::flops::Work;
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::StrId;
use std::sync::Arc;

/// Operators whose own work counts.
pub(crate) struct CountedWorks {
    works: WorkByRow,
    /// Calls of operators with a model whose inputs do not say how much they compute.
    pub(crate) unknown: u64,
    /// Whether shapes are recorded for any operator with a model.
    pub(crate) has_shapes: bool,
}

impl CountedWorks {
    /// The shared instance of a rank.
    pub fn of(trace: &RankTrace) -> Arc<Self> {
        trace.shared(|trace| {
            let (works, unknown, has_shapes) = modelled(trace);
            Self { works: innermost(trace, works), unknown, has_shapes }
        })
    }

    /// The work of the operator at a row, if it counts there.
    pub(crate) fn at(&self, row: u32) -> Option<&Work> {
        self.works.at(row)
    }
}

/// Works of some operators.
#[derive(Default)]
struct WorkByRow {
    works: Vec<Work>,
    /// By row the index among `works`, `u32::MAX` for none; empty without works.
    index: Vec<u32>,
}

impl WorkByRow {
    fn new(trace: &RankTrace, works: impl Iterator<Item = (u32, Work)>) -> Self {
        let mut all = Self::default();
        for (row, work) in works {
            if all.index.is_empty() {
                all.index = vec![u32::MAX; trace.classes.len()];
            }
            all.index[row as usize] = all.works.len() as u32;
            all.works.push(work);
        }
        all
    }

    #[inline]
    fn at(&self, row: u32) -> Option<&Work> {
        self.works.get(*self.index.get(row as usize)? as usize)
    }
}

/// The work of each operator with a model, by row; how many are unknown; whether shapes are recorded.
fn modelled(trace: &RankTrace) -> (Vec<(u32, Work)>, u64, bool) {
    let c = &trace.columns;
    let mut all = InputWorks::new(trace);
    let mut args =
        [Arg::InputDims, Arg::InputType, Arg::InputStrides, Arg::ConcreteInputs].map(|a| c.args.cursor(a));
    let (mut found, mut unknown, mut has_shapes) = (Vec::new(), 0, false);
    let marked = MarkedInputs::new(trace);
    for row in (0..c.len() as u32).filter(|r| trace.classes[*r as usize] == Class::HostOp) {
        let name = c.name(row as usize);
        let Some(model) = all.model(name) else { continue };
        let texts = args.each_mut().map(|a| a.get(row).map(|v| StrId(v as u32)));
        let Some(work) = all.work((name, texts)) else { continue };
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
enum WorkLevel {
    Nothing,
    Moves,
    Computes,
    Multiplies,
}

fn level(work: &Work) -> WorkLevel {
    match (work.family.is_matrix(), work.flops) {
        (true, _) => WorkLevel::Multiplies,
        (false, Some(0)) => WorkLevel::Moves,
        (false, _) => WorkLevel::Computes,
    }
}

/// The operators whose own work counts: those that contain nothing known of their level or above.
fn innermost(trace: &RankTrace, mut works: Vec<(u32, Work)>) -> WorkByRow {
    let mut contains = vec![WorkLevel::Nothing; trace.classes.len()];
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
    works.retain(|(row, work)| contains[*row as usize] < level(work));
    let counted = WorkByRow::new(trace, works.iter().copied());
    let is_arithmetic = |work: &Work| !is_matrix(work) && work.flops != Some(0);
    let is_part = |row: u32| {
        let mut around = trace.stacks.outward(row).skip(1);
        around.any(|above| counted.at(above).is_some_and(|w| is_matrix(w) && w.flops.is_some()))
    };
    let own = works.into_iter().filter(|(row, work)| !(is_arithmetic(work) && is_part(*row)));
    WorkByRow::new(trace, own)
}

//! Stacks of user code: functions, and the lines from which they call. Library code is left out.
//!
//! ```text
//!   train.py(10): train ; train.py:12 ; model.py(5): forward ; model.py:7     a call made at line 7 of model.py
//! ```
//!
//! With `--by module` a stack is the path of modules instead.

use crate::stacks::{StackFold, StackName, Weight, thread_name};
use hta_base::table::schema::Batch;
use hta_base::units::Ns;
use hta_facts::by_owner::{NO_MODULE, UNLINKED};
use hta_facts::calls::CallForest;
use hta_facts::lines::{Charging, Lines};
use hta_facts::modules::Modules;

/// One rank's stacks: of modules if these are given.
pub(crate) fn fold(calls: &CallForest, lines: &Lines, modules: Option<&Modules>, weight: Weight) -> Batch {
    let trace = calls.trace;
    let mut fold = StackFold::new(calls);
    match weight {
        Weight::Host => host(&mut fold, lines, modules),
        Weight::Gpu => gpu(&mut fold, lines, modules),
    }
    fold.tree.table(|name| match name {
        StackName::Thread(Some(lane)) => thread_name(&trace.columns, lane),
        StackName::Line(id) => lines.site(id).text(),
        StackName::Module(m) => {
            modules.map_or_else(String::new, |modules| modules.name(trace, m).to_string())
        }
        StackName::NoModule => NO_MODULE.to_string(),
        StackName::Kernel(id) => trace.text(id).to_string(),
        StackName::Backward => "[backward]".to_string(),
        StackName::Unlinked => UNLINKED.to_string(),
        _ => String::new(),
    })
}

/// Node of the instants of a thread at which a frame is the innermost; `None` for no frame.
fn frame(fold: &mut StackFold, lines: &Lines, modules: Option<&Modules>, lane: u32, row: Option<u32>) -> u32 {
    let thread = fold.thread(lane);
    match (modules, row) {
        (Some(modules), Some(row)) => module(fold, thread, modules.of(Some(row)), modules),
        _ => fold.user_code(lines, lane, Some(thread), row),
    }
}

fn module(fold: &mut StackFold, thread: u32, module: Option<u32>, modules: &Modules) -> u32 {
    let path: Vec<u32> =
        std::iter::successors(module, |m| modules.modules.get(*m as usize).and_then(|m| m.parent)).collect();
    if path.is_empty() {
        return fold.tree.below(Some(thread), StackName::NoModule);
    }
    path.into_iter().rev().fold(thread, |node, m| fold.tree.below(Some(node), StackName::Module(m)))
}

fn host(fold: &mut StackFold, lines: &Lines, modules: Option<&Modules>) {
    for (lane, innermost) in lines.threads() {
        for piece in innermost.from(Ns::MIN) {
            let node = frame(fold, lines, modules, *lane, Some(piece.row));
            fold.tree.add(node, piece.span.len());
        }
    }
}

fn gpu(fold: &mut StackFold, lines: &Lines, modules: Option<&Modules>) {
    let calls = fold.calls;
    for launch in Charging::new(calls, lines).launches(calls) {
        let charge = launch.charge;
        let mut node = frame(fold, lines, modules, charge.lane, lines.frame_at(charge.lane, charge.t));
        if charge.is_backward {
            node = fold.tree.below(Some(node), StackName::Backward);
        }
        fold.activities(node, launch.activities, StackName::Kernel, 0);
    }
    fold.unlinked(Some(StackName::Thread(None)), StackName::Kernel, 0);
}

//! Where kernels come from: the operator and the line of the program.

use crate::end_together::RunsByName;
use hashbrown::HashMap;
use hta_base::units::Ns;
use hta_facts::lines::CodePlaces;
use hta_trace::activity::Activity;
use hta_trace::category::Class;
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::{Interner, StrId};
use hta_trace::thread::innermost_at;
use std::collections::BTreeMap;

/// The origin of a kernel: its owning operator and the Python line that was running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KernelOrigin {
    pub op: StrId,
    pub frame: StrId,
    /// The same in the user's code, with the module.
    pub place: StrId,
}

/// The origin of each kernel by name, taken from its longest run.
pub(crate) fn origins(
    trace: &RankTrace,
    runs: &RunsByName,
    names: &mut Interner,
) -> BTreeMap<StrId, KernelOrigin> {
    let mut longest: BTreeMap<StrId, &Activity> = BTreeMap::new();
    for (name, of) in runs {
        let best = of.iter().copied().reduce(|best, a| if a.span.len() > best.span.len() { a } else { best });
        longest.extend(best.map(|a| (*name, a)));
    }
    let mut queries: BTreeMap<u32, Vec<(Ns, u32)>> = BTreeMap::new();
    for a in longest.values() {
        if let Some(l) = a.launch() {
            queries
                .entry(trace.columns.lane[l as usize])
                .or_default()
                .push((trace.columns.ts[l as usize], a.row));
        }
    }
    let frames = frames_at(trace, queries);
    let mut out = BTreeMap::new();
    let mut places = CodePlaces::new(trace);
    for (name, a) in longest {
        let op = a.op().map_or(StrId::EMPTY, |o| names.intern(trace.name(o)));
        let frame = frames.get(&a.row).map_or(StrId::EMPTY, |f| names.intern(trace.name(*f)));
        let place =
            frames.get(&a.row).map_or(StrId::EMPTY, |f| names.intern(&places.of(*f).text_from(trace, *f)));
        out.insert(names.intern(trace.text(name)), KernelOrigin { op, frame, place });
    }
    out
}

/// For each query `(time, tag)` of a thread, the Python frame with file and line that was running, by tag.
fn frames_at(trace: &RankTrace, mut queries: BTreeMap<u32, Vec<(Ns, u32)>>) -> HashMap<u32, u32> {
    let mut found = HashMap::new();
    let c = &trace.columns;
    let is_code = |row: u32| trace.classes[row as usize] == Class::Python && trace.name(row).contains(".py(");
    for (lane, all) in trace.host_rows() {
        let Some(queries) = queries.get_mut(lane) else { continue };
        let rows: Vec<u32> = all.iter().copied().filter(|row| is_code(*row)).collect();
        queries.sort_unstable();
        innermost_at(&rows, c, queries, |tag, row| {
            if let Some(row) = row {
                found.insert(tag, row);
            }
        });
    }
    found
}

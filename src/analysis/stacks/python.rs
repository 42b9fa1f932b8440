//! Python frames around operators and calls, and the `nn.Module` path that contains them.
//!
//! The frame of an operator is the innermost frame open on its thread when it starts. The parent of a frame is
//! recorded, even across threads.

use crate::trace::category::Class;
use crate::trace::rank_trace::RankTrace;
use crate::trace::strings::StrId;
use crate::trace::thread::{innermost_at, sort_outer_first};
use crate::units::Ns;
use std::collections::{BTreeMap, HashMap};

/// Prefix of the names of module frames.
const MODULE: &str = "nn.Module: ";

/// Largest nesting depth of modules; deeper ones count for the last of them.
const MOST_LEVELS: u32 = 64;

/// The innermost frame (of `class`) open on the thread of each row when it starts.
pub fn around(trace: &RankTrace, rows: &[u32], class: Class) -> Vec<Option<u32>> {
    let c = &trace.columns;
    let mut frames: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for row in (0..trace.classes.len()).filter(|&r| trace.classes[r] == class) {
        frames.entry(c.lane[row]).or_default().push(row as u32);
    }
    let mut around = vec![None; rows.len()];
    if frames.is_empty() {
        return around;
    }
    let mut asked: BTreeMap<u32, Vec<(Ns, u32)>> = BTreeMap::new();
    for (i, &row) in rows.iter().enumerate() {
        asked.entry(c.lane[row as usize]).or_default().push((c.ts[row as usize], i as u32));
    }
    for (lane, mut queries) in asked {
        let Some(rows) = frames.get_mut(&lane) else { continue };
        sort_outer_first(rows, c);
        queries.sort_unstable();
        innermost_at(rows, c, &queries, |i, frame| around[i as usize] = frame);
    }
    around
}

/// Rows of Python frames, a caller before its callees.
pub fn callers_first(trace: &RankTrace) -> Vec<u32> {
    let depth = |r: &u32| trace.stacks.depth(*r).unwrap_or(0);
    let mut frames: Vec<u32> =
        (0..trace.classes.len() as u32).filter(|&r| trace.classes[r as usize] == Class::Python).collect();
    frames.sort_by_key(depth);
    frames
}

/// One `nn.Module` at one position in the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Module {
    pub name: StrId,
    /// Index of the module around it.
    pub parent: Option<u32>,
    /// 0 for the outermost.
    pub depth: u32,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Modules {
    pub modules: Vec<Module>,
    /// By row: the innermost module at or around a Python frame; empty without modules.
    of_frame: Vec<Option<u32>>,
    /// Rows of the frames that are calls of a module, with the module.
    pub calls: Vec<(u32, u32)>,
}

impl Modules {
    pub fn new(trace: &RankTrace) -> Self {
        let is_module: Vec<bool> = trace.columns.strings.iter().map(|(_, t)| t.starts_with(MODULE)).collect();
        let mut me = Self::default();
        if !is_module.contains(&true) {
            return me;
        }
        me.of_frame = vec![None; trace.classes.len()];
        let mut known: HashMap<(Option<u32>, StrId), u32> = HashMap::new();
        for row in callers_first(trace) {
            let name = trace.columns.name(row as usize);
            let caller = trace.stacks.parent(row);
            let parent = caller.and_then(|p| me.of_frame[p as usize]);
            let depth = parent.map_or(0, |p| me.modules[p as usize].depth + 1);
            let own = (is_module.get(name.0 as usize) == Some(&true) && depth < MOST_LEVELS).then(|| {
                *known.entry((parent, name)).or_insert_with(|| {
                    me.modules.push(Module { name, parent, depth });
                    (me.modules.len() - 1) as u32
                })
            });
            me.calls.extend(own.map(|m| (row, m)));
            me.of_frame[row as usize] = own.or(parent);
        }
        me
    }

    /// The innermost module at or around a frame.
    pub fn of(&self, frame: Option<u32>) -> Option<u32> {
        self.of_frame.get(frame? as usize).copied().flatten()
    }

    /// Whether the enclosing module of a module's call was called on the same thread.
    pub fn is_called_on_its_callers_thread(&self, trace: &RankTrace, row: u32) -> bool {
        let lane = |r: u32| trace.columns.lane[r as usize];
        trace.stacks.parent(row).is_some_and(|p| lane(p) == lane(row))
    }

    /// Class and number, e.g. `Linear_7`.
    pub fn name<'a>(&self, trace: &'a RankTrace, module: u32) -> &'a str {
        trace.text(self.modules[module as usize].name).strip_prefix(MODULE).unwrap_or_default()
    }

    /// The path, e.g. `Model_0/Block_3/Linear_7`.
    pub fn path(&self, trace: &RankTrace, module: u32) -> String {
        let mut names = Vec::new();
        let mut at = Some(module);
        while let Some(m) = at {
            names.push(self.name(trace, m));
            at = self.modules[m as usize].parent;
        }
        names.reverse();
        names.join("/")
    }
}

//! Python frames around operators and calls, and the `nn.Module` path that contains them.
//!
//! The frame of an operator is the innermost frame open on its thread when it starts. The parent of a frame
//! is recorded, even across threads. Without frames of modules, ranges of PyTorch Lightning's profiler are
//! calls of modules (`[pl][module]torch.nn.modules.linear.Linear: model.head`), and so are the compiled parts
//! of a model (`Torch-Compiled Region: 0/0`).

use crate::calls::CallForest;
use crate::calls::forest::NOWHERE;
use hashbrown::{HashMap, HashSet};
use hta_base::units::Ns;
use hta_trace::category::Class;
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::StrId;
use hta_trace::thread::innermost_at;
use std::sync::Arc;

/// Prefix of the names of module frames.
const MODULE: &str = "nn.Module: ";

/// Prefix of Lightning's ranges.
const LIGHTNING: &str = "[pl][module]";

/// Start of the names of ranges around compiled code.
const COMPILED: &str = "Torch-Compiled Region";

/// Largest nesting depth of modules; deeper ones count for the last of them.
const MOST_LEVELS: u32 = 64;

/// The innermost frame (of `class`) open on the thread of each row when it starts.
pub fn around(trace: &RankTrace, rows: &[u32], class: Class) -> Vec<Option<u32>> {
    around_of(trace, rows, |row| trace.classes[row as usize] == class)
}

/// The innermost of some host events that is open on the thread of each row when it starts.
pub(crate) fn around_of(trace: &RankTrace, rows: &[u32], is_frame: impl Fn(u32) -> bool) -> Vec<Option<u32>> {
    let c = &trace.columns;
    let mut around = vec![None; rows.len()];
    let mut asked: HashMap<u32, Vec<(Ns, u32)>> = HashMap::new();
    for (lane, frames) in trace.host_rows_where(is_frame) {
        if asked.is_empty() {
            for (i, &row) in rows.iter().enumerate() {
                asked.entry(c.lane[row as usize]).or_default().push((c.ts[row as usize], i as u32));
            }
        }
        let Some(queries) = asked.get_mut(&lane) else { continue };
        queries.sort_unstable();
        innermost_at(&frames, c, queries, |i, frame| around[i as usize] = frame);
    }
    around
}

/// Rows of Python frames, a caller before its callees.
pub fn callers_first(trace: &RankTrace) -> Vec<u32> {
    let frames = || (0..trace.classes.len() as u32).filter(|&r| trace.classes[r as usize] == Class::Python);
    let depth = |row: u32| trace.stacks.depth(row).unwrap_or(0) as usize;
    // Where the frames of each depth begin: stacks are long, but not deep.
    let mut next: Vec<usize> = Vec::new();
    for depth in frames().map(depth) {
        next.resize(next.len().max(depth + 2), 0);
        next[depth + 1] += 1;
    }
    for depth in 1..next.len() {
        next[depth] += next[depth - 1];
    }
    let mut ordered = vec![0; next.last().copied().unwrap_or(0)];
    for row in frames() {
        let place = &mut next[depth(row)];
        ordered[*place] = row;
        *place += 1;
    }
    ordered
}

/// One `nn.Module` at one position in the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Module {
    pub(crate) name: StrId,
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
    /// Rows of the frames or ranges that are calls of a module, with the module.
    pub calls: Vec<(u32, u32)>,
    /// Whether the calls are ranges, not Python frames.
    are_ranges: bool,
}

impl Modules {
    pub fn new(trace: &RankTrace) -> Self {
        let is_module = trace.columns.strings.each(|t| t.starts_with(MODULE));
        let mut me = Self::default();
        if !is_module.holds_any() {
            return Self::of_ranges(trace);
        }
        me.of_frame = vec![None; trace.classes.len()];
        let mut known = HashMap::new();
        for row in callers_first(trace) {
            let name = trace.columns.name(row as usize);
            let parent = trace.stacks.parent(row).and_then(|p| me.of_frame[p as usize]);
            let own = if is_module.holds(name) { me.module(&mut known, parent, name) } else { None };
            me.calls.extend(own.map(|m| (row, m)));
            me.of_frame[row as usize] = own.or(parent);
        }
        me
    }

    /// The module of a name inside another one, which is added if it is new; `None` beyond the largest depth.
    fn module(
        &mut self,
        known: &mut HashMap<(Option<u32>, StrId), u32>,
        parent: Option<u32>,
        name: StrId,
    ) -> Option<u32> {
        let depth = parent.map_or(0, |p| self.modules[p as usize].depth + 1);
        (depth < MOST_LEVELS).then(|| {
            *known.entry((parent, name)).or_insert_with(|| {
                self.modules.push(Module { name, parent, depth });
                (self.modules.len() - 1) as u32
            })
        })
    }

    /// Modules from ranges: those of Lightning, whose names are full paths, and those around compiled code.
    fn of_ranges(trace: &RankTrace) -> Self {
        let is_range = |text: &str| text.starts_with(LIGHTNING) || text.starts_with(COMPILED);
        let is_module = trace.columns.strings.each(is_range);
        let mut me = Self { are_ranges: true, ..Self::default() };
        if !is_module.holds_any() {
            return me;
        }
        me.of_frame = vec![None; trace.classes.len()];
        let can_be = |class: Class| matches!(class, Class::Annotation | Class::HostOp);
        let mut rows: Vec<u32> = (0..trace.classes.len() as u32)
            .filter(|&r| can_be(trace.classes[r as usize]))
            .filter(|&r| is_module.holds(trace.columns.name(r as usize)))
            .collect();
        rows.sort_by_key(|r| trace.stacks.depth(*r).unwrap_or(0));
        let mut known = HashMap::new();
        for row in rows {
            let parent = trace.stacks.outward(row).skip(1).find_map(|r| me.of_frame[r as usize]);
            let own = me.module(&mut known, parent, trace.columns.name(row as usize));
            me.of_frame[row as usize] = own.or(parent);
            me.calls.extend(me.of_frame[row as usize].map(|m| (row, m)));
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

    /// Class and number, e.g. `Linear_7`; of Lightning the name in the module around it, e.g. `head`; of
    /// compiled code the name of its range.
    pub fn name<'a>(&self, trace: &'a RankTrace, module: u32) -> &'a str {
        let Module { name, parent, .. } = self.modules[module as usize];
        let text = trace.text(name);
        let Some(range) = text.strip_prefix(LIGHTNING) else {
            return text.strip_prefix(MODULE).unwrap_or(text);
        };
        let path = path_of(range);
        let outer = parent
            .and_then(|p| trace.text(self.modules[p as usize].name).strip_prefix(LIGHTNING))
            .map(path_of);
        let inside = outer.and_then(|outer| path.strip_prefix(outer)?.strip_prefix('.'));
        inside.unwrap_or(path)
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

/// The path in `torch.nn.modules.linear.Linear: model.head`.
fn path_of(range: &str) -> &str {
    range.split_once(": ").map_or(range, |(_, path)| path)
}

/// Modules, and their events in the call forest.
pub struct InModules {
    pub modules: Modules,
    /// By position: the module of the frame in which an operator or call starts, or `NOWHERE`. Empty without
    /// modules.
    started_in: Vec<u32>,
}

impl InModules {
    /// The modules of a rank, found by the first that asks.
    pub fn shared(calls: &CallForest) -> Arc<Self> {
        calls.trace.shared(|_| Self::new(calls))
    }

    fn new(calls: &CallForest) -> Self {
        let modules = Modules::new(calls.trace);
        let started_in = match modules.modules.is_empty() {
            true => Vec::new(),
            false => {
                let rows = &calls.forest.rows;
                let frames = match modules.are_ranges {
                    true => {
                        let ranges: HashSet<u32> = modules.calls.iter().map(|(row, _)| *row).collect();
                        around_of(calls.trace, rows, |row| ranges.contains(&row))
                    }
                    false => around(calls.trace, rows, Class::Python),
                };
                frames.into_iter().map(|f| modules.of(f).unwrap_or(NOWHERE)).collect()
            }
        };
        Self { modules, started_in }
    }

    /// The module of the frame in which an operator or call starts.
    pub fn of(&self, position: u32) -> Option<u32> {
        self.started_in.get(position as usize).copied().filter(|&m| m != NOWHERE)
    }

    /// Like [`InModules::of`], but backward operators have the module of their forward operator.
    pub fn with_backward(&self, calls: &CallForest) -> Vec<Option<u32>> {
        let forest = &calls.forest;
        let mut of_forward: Vec<Option<u32>> = vec![None; forest.call_count()];
        for (forward, backward) in positions(calls) {
            of_forward[backward as usize] = self.of(forward);
        }
        let mut shown: Vec<Option<u32>> = (0..forest.call_count() as u32).map(|p| self.of(p)).collect();
        for p in 0..forest.call_count() {
            if shown[p].is_none() {
                let above = forest.parent(p as u32).and_then(|up| shown[up as usize]);
                shown[p] = of_forward[p].or(above);
            }
        }
        shown
    }

    /// Paths by index.
    pub fn paths(&self, calls: &CallForest) -> Vec<String> {
        (0..self.modules.modules.len() as u32).map(|m| self.modules.path(calls.trace, m)).collect()
    }
}

/// Joined operators as positions: forward, backward.
pub fn positions(calls: &CallForest) -> impl Iterator<Item = (u32, u32)> {
    let at = |row| calls.forest.position(row);
    calls.backward.pairs.iter().filter_map(move |&(f, b)| Some((at(f)?, at(b)?)))
}

/// The module of each operator and call, of a backward operator that of its forward operator.
pub struct RowModules<'a> {
    calls: CallForest<'a>,
    /// By position in the forest of calls; empty without modules.
    shown: Vec<Option<u32>>,
    /// Paths of modules, by index.
    pub paths: Vec<String>,
}

impl<'a> RowModules<'a> {
    pub fn new(trace: &'a RankTrace) -> Self {
        let calls = CallForest::new(trace);
        let found = InModules::shared(&calls);
        let (shown, paths) = match found.modules.modules.is_empty() {
            true => Default::default(),
            false => (found.with_backward(&calls), found.paths(&calls)),
        };
        Self { calls, shown, paths }
    }

    /// Index of the module of the event in a row.
    pub fn index(&self, row: u32) -> Option<u32> {
        *self.shown.get(self.calls.forest.position(row)? as usize)?
    }

    /// Its path.
    pub fn path(&self, row: u32) -> Option<&str> {
        self.paths.get(self.index(row)? as usize).map(String::as_str)
    }
}

//! Modules: the time of each `nn.Module` of the model, forward and backward.

use hta_base::table;
use hta_base::table::schema::{Batch, Text};
use hta_base::units::Ns;
use hta_facts::calls::CallForest;
use hta_facts::calls::forest::{Forest, WorkBelow};
use hta_facts::graphs::nodes::GraphNodes;
use hta_facts::modules::{InModules, positions};
use hta_trace::interval::Union;
use hta_trace::rank_trace::RankTrace;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

table! {
    /// Calls of one `nn.Module` at one place in the model, over the whole capture.
    pub struct ModulesTable, ModuleRow = "modules" by "rank, path" {
        rank;
        scope: Text, "", "capture";
        ts_ns: i64, "ns", "start of the capture";
        dur_ns: i64, "ns", "length of the capture";
        path: Text, "", "names of the modules from the outermost in, joined by /";
        name: Text, "", "its own name";
        depth: u32, "", "modules around it";
        count: u64, "", "calls; 0 for modules that only a capture of a graph has";
        op_count: u64, "",
            "operators started in it and in no nested module; captured ones once for every replay";
        host_ns: i64, "ns", "time on the host, nested modules included";
        host_self_ns: i64, "ns", "the same without nested modules, on the same thread";
        gpu_ns: i64, "ns", "sum of the GPU work launched in it and in nested modules";
        gpu_self_ns: i64, "ns", "sum of the GPU work launched in it and in no nested module";
        gpu_busy_ns: i64, "ns", "length of the union of what gpu_ns sums";
        activity_count: u64, "", "kernels, copies and sets that gpu_ns sums";
        bwd_gpu_ns: Option<i64>, "ns",
            "GPU work of the backward pass of it and of nested modules; null where none is joined";
        bwd_gpu_self_ns: Option<i64>, "ns", "the same without nested modules";
        bwd_host_ns: Option<i64>, "ns", "host time of the backward pass of it and of nested modules";
    }
}

pub(crate) fn table(calls: &CallForest, found: &InModules) -> Batch {
    let (trace, modules) = (calls.trace, &found.modules);
    // Here module indices are used as rows; a parent has a lower index than its child.
    let rows: Vec<u32> = (0..modules.modules.len() as u32).collect();
    let forest = Forest::new(rows.len(), &rows, |m| modules.modules[m as usize].parent);
    let captured = Captured::new(trace);
    let sums = ModuleSums::new(calls, found, &forest, &captured);
    let paths = found.paths(calls);
    let mut of_captures: BTreeMap<&str, &InCaptured> =
        captured.by_path.iter().map(|(path, s)| (*path, s)).collect();
    // Of several modules with one path the first has what was captured.
    let mut order: Vec<(&str, Option<u32>, Option<&InCaptured>)> = (0..)
        .zip(&paths)
        .map(|(m, path)| (path.as_str(), Some(m), of_captures.remove(path.as_str())))
        .collect();
    order.extend(of_captures.into_iter().map(|(path, sums)| (path, None, Some(sums))));
    order.sort_by_key(|(path, module, _)| (*path, *module));
    let joined = !calls.backward.pairs.is_empty();
    let nothing = InCaptured::default();
    let mut table = ModulesTable::default();
    for (path, module, captured) in order {
        let p = module.and_then(|m| forest.position(m)).map(|p| p as usize);
        let captured = captured.unwrap_or(&nothing);
        let own = p.map(|p| sums.below.at(p as u32));
        let at = |values: &[Ns]| p.and_then(|p| values.get(p)).copied().unwrap_or(0);
        let busy = || {
            let within = p.map_or(&[][..], |p| sums.below.within(p as u32, forest.end[p]));
            let all = within.iter().map(|l| l.1).chain(captured.activities.iter().copied());
            Union::new(all.map(|i| trace.activities[i as usize].span)).len()
        };
        table.push(ModuleRow {
            rank: trace.rank,
            scope: "capture",
            ts_ns: trace.capture.start,
            dur_ns: trace.capture.len(),
            path,
            name: module.map_or_else(|| path.rsplit('/').next().unwrap_or(path), |m| modules.name(trace, m)),
            depth: match module {
                Some(m) => modules.modules[m as usize].depth,
                None => path.matches('/').count() as u32,
            },
            count: p.map_or(0, |p| sums.count[p]),
            op_count: p.map_or(0, |p| sums.ops[p]) + captured.operators,
            host_ns: at(&sums.host),
            host_self_ns: at(&sums.host_self),
            gpu_ns: own.map_or(0, |o| o.sum_ns) + captured.sum,
            gpu_self_ns: at(&sums.own_gpu) + captured.own,
            gpu_busy_ns: if captured.activities.is_empty() { own.map_or(0, |o| o.busy_ns) } else { busy() },
            activity_count: own.map_or(0, |o| u64::from(o.count)) + captured.activities.len() as u64,
            bwd_gpu_ns: joined.then(|| at(&sums.bwd_gpu)),
            bwd_gpu_self_ns: joined.then(|| at(&sums.bwd_gpu_self)),
            bwd_host_ns: joined.then(|| at(&sums.bwd_host)),
        });
    }
    table.finish()
}

/// Sums of the modules of a rank by position in their forest.
struct ModuleSums {
    below: WorkBelow,
    own_gpu: Vec<Ns>,
    count: Vec<u64>,
    ops: Vec<u64>,
    host: Vec<Ns>,
    host_self: Vec<Ns>,
    bwd_gpu: Vec<Ns>,
    bwd_gpu_self: Vec<Ns>,
    bwd_host: Vec<Ns>,
}

impl ModuleSums {
    fn new(calls: &CallForest, found: &InModules, forest: &Forest, captured: &Captured) -> Self {
        let (trace, modules, n) = (calls.trace, &found.modules, forest.call_count());
        let at = |m: u32| forest.position(m).map(|p| p as usize);
        let launched = calls.below.launched.iter().filter(|l| !captured.holds(l.1));
        let launched = launched.filter_map(|&(p, i)| Some((forest.position(found.of(p)?)?, i)));
        let below = WorkBelow::new(forest, launched.collect(), &trace.activities, &calls.alone);
        let mut own_gpu = vec![0; n];
        for &(p, i) in &below.launched {
            own_gpu[p as usize] += trace.activities[i as usize].span.len();
        }
        let (mut count, mut ops) = (vec![0u64; n], vec![0u64; n]);
        let (mut host, mut host_self) = (vec![0 as Ns; n], vec![0 as Ns; n]);
        for &(row, module) in &modules.calls {
            let Some(p) = at(module) else { continue };
            let ns = trace.columns.dur[row as usize];
            count[p] += 1;
            host[p] += ns;
            host_self[p] += ns;
            let outer = modules.modules[module as usize].parent.and_then(at);
            if let Some(outer) = outer.filter(|_| modules.is_called_on_its_callers_thread(trace, row)) {
                host_self[outer] -= ns;
            }
        }
        for p in (0..calls.forest.call_count() as u32).filter(|&p| calls.is_op(p)) {
            if let Some(m) = found.of(p).and_then(at) {
                ops[m] += 1;
            }
        }
        let (bwd_gpu_self, mut bwd_host) = backward(calls, found, at, n);
        let mut bwd_gpu = bwd_gpu_self.clone();
        forest.add_up(&mut bwd_gpu);
        forest.add_up(&mut bwd_host);
        Self { below, own_gpu, count, ops, host, host_self, bwd_gpu, bwd_gpu_self, bwd_host }
    }
}

/// What a module of a capture launched in replays, nested modules included.
#[derive(Default)]
struct InCaptured {
    sum: Ns,
    /// Without nested modules.
    own: Ns,
    /// Calls of operators in it and in no nested module, once for every replay.
    operators: u64,
    activities: Vec<u32>,
}

/// The activities of graphs by the modules of their captured operators.
struct Captured<'a> {
    nodes: Arc<GraphNodes>,
    by_path: BTreeMap<&'a str, InCaptured>,
}

impl<'a> Captured<'a> {
    fn new(trace: &'a RankTrace) -> Self {
        let nodes = GraphNodes::of(trace);
        let mut by_path: BTreeMap<&str, InCaptured> = BTreeMap::new();
        let mut called: BTreeSet<(u32, u32)> = BTreeSet::new();
        for (replay, of) in (0..).zip(&nodes.replays) {
            for &i in &of.nodes {
                let Some(operator) = nodes.operator_of(i) else { continue };
                let module = |o: u32| nodes.operator(o).and_then(|o| o.module).map(|m| trace.text(m));
                for o in nodes.outward(operator) {
                    if let Some(path) = module(o).filter(|_| called.insert((replay, o))) {
                        by_path.entry(path).or_default().operators += 1;
                    }
                }
                let Some(path) = module(operator) else { continue };
                let ns = trace.activities[i as usize].span.len();
                by_path.entry(path).or_default().own += ns;
                let outer = path.match_indices('/').filter_map(|(at, _)| path.get(..at));
                for path in outer.chain([path]) {
                    let sums = by_path.entry(path).or_default();
                    sums.sum += ns;
                    sums.activities.push(i);
                }
            }
        }
        Self { nodes, by_path }
    }

    /// Whether an activity belongs to a module of a capture, and so not to that around the launch of its
    /// graph.
    fn holds(&self, activity: u32) -> bool {
        let operator = self.nodes.operator_of(activity).and_then(|o| self.nodes.operator(o));
        operator.is_some_and(|o| o.module.is_some())
    }
}

/// GPU and host time of backward operators by the module of their forward operator. A backward inside another
/// one (recomputation) counts only for the outer one's module, so that nothing counts twice.
fn backward(
    calls: &CallForest,
    found: &InModules,
    at: impl Fn(u32) -> Option<usize>,
    n: usize,
) -> (Vec<Ns>, Vec<Ns>) {
    let (mut gpu, mut host) = (vec![0; n], vec![0; n]);
    let mut pairs: Vec<(u32, u32)> = positions(calls).map(|(f, b)| (b, f)).collect();
    pairs.sort_unstable();
    let mut until = 0;
    for (b, f) in pairs {
        if b < until {
            continue;
        }
        until = calls.forest.end[b as usize];
        if let Some(m) = found.of(f).and_then(&at) {
            gpu[m] += calls.below.at(b).sum_ns;
            host[m] += calls.host_ns[b as usize];
        }
    }
    (gpu, host)
}

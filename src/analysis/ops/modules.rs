//! Modules: the time of each `nn.Module` of the model, forward and backward.

use crate::facts::calls::CallForest;
use crate::facts::calls::forest::{Forest, WorkBelow};
use crate::facts::modules::{InModules, positions};
use crate::table;
use crate::table::schema::{Batch, Text};
use crate::units::Ns;

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
        count: u64, "", "calls";
        op_count: u64, "", "operators started in it and in no nested module";
        host_ns: i64, "ns", "time on the host, nested modules included";
        host_self_ns: i64, "ns", "the same without nested modules, on the same thread";
        gpu_ns: i64, "ns", "sum of the GPU work launched in it and in nested modules";
        gpu_self_ns: i64, "ns", "sum of the GPU work launched in it and in no nested module";
        gpu_busy_ns: i64, "ns", "length of the union of what gpu_ns sums";
        activity_count: u64, "", "kernels, copies and sets that gpu_ns sums";
        bwd_gpu_ns: Option<i64>, "ns", "GPU work of the backward pass of it and of nested modules; null where none is joined";
        bwd_gpu_self_ns: Option<i64>, "ns", "the same without nested modules";
        bwd_host_ns: Option<i64>, "ns", "host time of the backward pass of it and of nested modules";
    }
}

pub fn table(calls: &CallForest, found: &InModules) -> Batch {
    let (trace, modules) = (calls.trace, &found.modules);
    let n = modules.modules.len();
    // Here module indices are used as rows; a parent has a lower index than its child.
    let rows: Vec<u32> = (0..n as u32).collect();
    let forest = Forest::new(n, &rows, |m| modules.modules[m as usize].parent);
    let at = |m: u32| forest.position(m).map(|p| p as usize);
    let launched = calls.below.launched.iter().filter_map(|&(p, i)| Some((at(found.of(p)?)? as u32, i)));
    let below = WorkBelow::new(&forest, launched.collect(), &trace.activities, &calls.alone);
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
    for p in (0..calls.forest.len()).filter(|&p| calls.is_op(p as u32)) {
        if let Some(m) = found.of(p as u32).and_then(at) {
            ops[m] += 1;
        }
    }
    let (bwd_gpu_self, mut bwd_host) = backward(calls, found, at, n);
    let mut bwd_gpu = bwd_gpu_self.clone();
    forest.add_up(&mut bwd_gpu);
    forest.add_up(&mut bwd_host);
    let paths = found.paths(calls);
    let mut order = rows;
    order.sort_by(|a, b| paths[*a as usize].cmp(&paths[*b as usize]));
    let joined = !calls.backward.pairs.is_empty();
    let mut table = ModulesTable::default();
    for m in order {
        let Some(p) = at(m) else { continue };
        let (path, gpu) = (&paths[m as usize], below.at(p as u32));
        table.push(ModuleRow {
            rank: trace.rank,
            scope: "capture",
            ts_ns: trace.capture.start,
            dur_ns: trace.capture.len(),
            path,
            name: modules.name(trace, m),
            depth: modules.modules[m as usize].depth,
            count: count[p],
            op_count: ops[p],
            host_ns: host[p],
            host_self_ns: host_self[p],
            gpu_ns: gpu.sum_ns,
            gpu_self_ns: own_gpu[p],
            gpu_busy_ns: gpu.busy_ns,
            activity_count: u64::from(gpu.count),
            bwd_gpu_ns: joined.then_some(bwd_gpu[p]),
            bwd_gpu_self_ns: joined.then_some(bwd_gpu_self[p]),
            bwd_host_ns: joined.then_some(bwd_host[p]),
        });
    }
    table.finish()
}

/// GPU and host time of backward operators by the module of their forward operator. A backward inside another one
/// (recomputation) counts only for the outer one's module, so that nothing counts twice.
fn backward(calls: &CallForest, found: &InModules, at: impl Fn(u32) -> Option<usize>, n: usize) -> (Vec<Ns>, Vec<Ns>) {
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

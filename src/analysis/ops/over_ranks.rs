//! Operators and modules over all ranks.

use crate::api::{Partial, rows};
use crate::ops::modules::ModulesTable;
use crate::ops::operators::Operators;
use crate::over_ranks::{AttainedWork, OverRanks, WorkRates, add_known};
use hta_base::table;
use hta_base::table::rollup::Rollup;
use hta_base::table::schema::{Batch, Text};

table! {
    /// Operators by name over all ranks. What one rank has is in `operators`.
    pub struct OperatorsOverRanks, OperatorOverRanksRow = "operators_over_ranks"
        by "scope, gpu_self_ns descending, host_self_ns descending, gpu_ns descending, host_ns descending, \
            count descending, name"
        key "scope, name" {
        scope: Text, "", "capture: all; step: those that start in a step (with --by step); outside: the rest";
        name: Text, "",
            "operator; `[no operator]`: API calls outside any; `[unlinked]`: GPU work of unknown launch",
            "operator";
        input_dims: Option<Text>, "",
            "shape of each input (with --by shape or args, where recorded)", "shapes";
        input_types: Option<Text>, "", "type of each input (with --by args)", "types";
        input_strides: Option<Text>, "", "strides of each input (with --by args)", "strides";
        concrete_inputs: Option<Text>, "", "scalar inputs (with --by args)", "scalars";
        module: Option<Text>, "", "path of nn.Modules around it (with --by module)";
        direction: Option<Text>, "", "forward, backward, recompute or optimizer (with --by direction)";
        thread: Option<Text>, "", "process and thread (with --by thread)";
        stack: Option<Text>, "", "the five innermost Python frames around it (with --by stack)";
        count: u64, "", "calls, on all ranks", "count";
        host_ns: i64, "ns", "time on the host, with everything nested in it", "host total";
        host_self_ns: i64, "ns", "the same without nested operators and API calls";
        host_api_ns: i64, "ns", "time in its own API calls";
        gpu_ns: i64, "ns", "sum of the GPU work launched by it and everything nested in it", "GPU total";
        gpu_self_ns: i64, "ns", "sum of the GPU work of its own API calls", "GPU self";
        bwd_gpu_ns: Option<i64>, "ns", "GPU work of its backward operators; null where none are joined";
        rank_count: u32, "", "ranks that have it";
        max_rank: u32, "", "rank with the largest gpu_self_ns; of several the lowest";
        max_rank_ns: i64, "ns", "gpu_self_ns on that rank";
        work_count: u64, "", "calls of which the work is known";
        work_busy_ns: i64, "ns", "time in which the GPU work of these calls runs", "GPU time";
        flops: Option<u64>, "FLOP", "operations of these calls; null where none is known";
        bytes: Option<u64>, "bytes", "compulsory traffic of these calls; null where that of one is unknown";
        tflops_per_s: Option<f64>, "TFLOP/s", "flops over work_busy_ns";
        tb_per_s: Option<f64>, "TB/s", "bytes over work_busy_ns";
        flops_per_byte: Option<f64>, "FLOP/byte", "arithmetic intensity", "FLOP/byte";
        roofline_pct: Option<f64>, "%",
            "of what is attainable at this intensity, mean weighted by work_busy_ns of the ranks of which it \
             is known", "of attainable";
        bound: Option<Text>, "", "compute, memory or latency, for most of that time";
    }
}

table! {
    /// Calls of one `nn.Module` at one place in the model, over all ranks. What one rank has is in `modules`.
    pub struct ModulesOverRanks, ModuleOverRanksRow = "modules_over_ranks"
        by "gpu_ns descending, host_ns descending, gpu_self_ns descending, host_self_ns descending, count \
            descending, path" {
        path: Text, "", "names of the modules from the outermost in, joined by /", "module";
        name: Text, "", "its own name" => first(name);
        count: u64, "", "calls, on all ranks", "calls" => sum(count);
        host_ns: i64, "ns", "time on the host, nested modules included", "host forward" => sum(host_ns);
        host_self_ns: i64, "ns", "the same without nested modules, on the same thread" => sum(host_self_ns);
        gpu_ns: i64, "ns", "sum of the GPU work launched in it and in nested modules", "GPU forward"
            => sum(gpu_ns);
        gpu_self_ns: i64, "ns", "sum of the GPU work launched in it and in no nested module"
            => sum(gpu_self_ns);
        bwd_gpu_ns: Option<i64>, "ns",
            "GPU work of the backward pass of it and of nested modules; null where none is joined",
            "GPU backward"
            => sum(bwd_gpu_ns);
        bwd_gpu_self_ns: Option<i64>, "ns", "the same without nested modules" => sum(bwd_gpu_self_ns);
        bwd_host_ns: Option<i64>, "ns", "host time of the backward pass of it and of nested modules"
            => sum(bwd_host_ns);
        rank_count: u32, "", "ranks that have it" => ranks;
        max_rank: u32, "", "rank with the largest gpu_ns; of several the lowest" => rank_of_max(gpu_ns);
        max_rank_ns: i64, "ns", "gpu_ns on that rank" => max_of_rank(gpu_ns);
    }
}

pub(crate) const MODULES: Rollup = Rollup::of(ModulesTable::SPEC, ModulesOverRanks::SPEC);

/// What orders no rows, and the work of the calls of an operator of which the operations are known.
#[derive(Debug, Default)]
struct OperatorWork<'a> {
    host_api_ns: i64,
    bwd_gpu_ns: Option<i64>,
    count: u64,
    busy_ns: i64,
    flops: u64,
    /// `None` before the first rank, and inside where that of one rank is unknown.
    bytes: Option<Option<u64>>,
    attained: AttainedWork<'a>,
}

pub(crate) fn operators(partials: &[Partial]) -> Batch {
    let mut all: OverRanks<(&str, [Option<&str>; 8]), 5, OperatorWork> = OverRanks::new();
    for r in rows::<Operators>(partials) {
        let inputs = (r.input_dims, r.input_types, r.input_strides, r.concrete_inputs);
        let key =
            (r.name, [inputs.0, inputs.1, inputs.2, inputs.3, r.module, r.direction, r.thread, r.stack]);
        let sums = [r.gpu_self_ns, r.host_self_ns, r.gpu_ns, r.host_ns, r.count as i64];
        let of = all.add(r.scope, key, r.rank, sums);
        of.host_api_ns += r.host_api_ns;
        add_known(&mut of.bwd_gpu_ns, r.bwd_gpu_ns);
        if let Some(flops) = r.flops.filter(|f| *f > 0) {
            of.count += r.work_count;
            of.busy_ns += r.work_busy_ns;
            of.flops = of.flops.saturating_add(flops);
            let bytes = of.bytes.unwrap_or(Some(0));
            of.bytes = Some(bytes.zip(r.bytes).map(|(sum, bytes)| sum.saturating_add(bytes)));
            of.attained.add(r.work_busy_ns, r.roofline_pct, r.bound);
        }
    }
    let mut table = OperatorsOverRanks::default();
    for (scope, (name, keys), s) in all.rows() {
        let [gpu_self_ns, host_self_ns, gpu_ns, host_ns, count] = s.sums;
        let [input_dims, input_types, input_strides, concrete_inputs, module, direction, thread, stack] =
            keys;
        let of = &s.more;
        let (flops, bytes) = (Some(of.flops).filter(|f| *f > 0), of.bytes.flatten());
        let rates = WorkRates::new(flops, bytes, of.busy_ns);
        table.push(OperatorOverRanksRow {
            scope,
            name,
            input_dims,
            input_types,
            input_strides,
            concrete_inputs,
            module,
            direction,
            thread,
            stack,
            count: count as u64,
            host_ns,
            host_self_ns,
            host_api_ns: of.host_api_ns,
            gpu_ns,
            gpu_self_ns,
            bwd_gpu_ns: of.bwd_gpu_ns,
            rank_count: s.rank_count,
            max_rank: s.max.1,
            max_rank_ns: s.max.0,
            work_count: of.count,
            work_busy_ns: of.busy_ns,
            flops,
            bytes,
            tflops_per_s: rates.tflops_per_s,
            tb_per_s: rates.tb_per_s,
            flops_per_byte: rates.flops_per_byte,
            roofline_pct: of.attained.pct(),
            bound: of.attained.bound(),
        });
    }
    table.finish()
}

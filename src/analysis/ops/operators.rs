//! The table of operators: host and GPU time, work and rates of the operators of one name, and of further
//! keys.
//!
//! Self times add up over all rows. Total times would count recursion twice, so an operator that runs inside
//! another one of its own group adds nothing to the group's totals.

use crate::api::Options;
use crate::ops::keys::{CallKey, KeyCells, KeyTexts, Keys, RowOwner};
use crate::ops::operator_sums::{OperatorCharges, OperatorSums};
use hta_base::table;
use hta_base::table::schema::{Batch, Text};
use hta_base::units::{Ns, percent};
use hta_facts::calls::CallForest;
use hta_facts::calls::forest::WorkBelow;
use hta_facts::kernel_work::KernelWorks;
use hta_facts::machine::RankMachine;
use hta_facts::step_scopes::StepScopes;
use hta_trace::category::Class;
use hta_trace::flops::Family;
use hta_trace::flops::roofline::Bound;
use hta_trace::kernel::tensor_cores::TensorCores;
use hta_trace::window::Window;
use std::cmp::Reverse;
use std::sync::Arc;

table! {
    /// Operators by name. Own times add up over the rows of a scope; total times include nested operators and
    /// calls.
    pub struct Operators, OperatorRow = "operators"
        by "rank, scope, step, gpu_self_ns descending, host_self_ns descending, name, input_dims, module" {
        rank;
        scope: Text, "", "capture: all; step: those that start in it (with --by step); outside: the rest";
        step; step_label; ts_ns; dur_ns;
        name: Text, "",
            "operator; `[no operator]`: API calls outside any; `[unlinked]`: GPU work of unknown launch";
        input_dims: Option<Text>, "", "shape of each input (with --by shape or args, where recorded)";
        input_types: Option<Text>, "", "type of each input (with --by args)";
        input_strides: Option<Text>, "", "strides of each input (with --by args)";
        concrete_inputs: Option<Text>, "", "scalar inputs (with --by args)";
        module: Option<Text>, "",
            "path of nn.Modules around it, backward: around its forward operator (with --by module)";
        direction: Option<Text>, "", "forward, backward, recompute or optimizer (with --by direction)";
        thread: Option<Text>, "", "process and thread (with --by thread)";
        stack: Option<Text>, "",
            "the five innermost Python frames around it, innermost first, joined by ; (with --by stack)";
        count: u64, "", "calls; of captured ones, once for every replay";
        host_ns: i64, "ns", "time on the host, with everything nested in it";
        host_self_ns: i64, "ns", "the same without nested operators and API calls";
        host_api_ns: i64, "ns", "time in its own API calls";
        gpu_ns: i64, "ns", "sum of the GPU work launched by it and everything nested in it";
        gpu_self_ns: i64, "ns",
            "sum of the GPU work of its own API calls; with captures (hta explain graph-ops) also of those \
             that graphs replay";
        graph_self_ns: i64, "ns", "part of gpu_self_ns that graphs replay, named by their captures";
        gpu_busy_ns: i64, "ns", "length of the union of what gpu_ns sums";
        gpu_self_busy_ns: i64, "ns", "length of the union of what gpu_self_ns sums";
        activity_count: u64, "", "kernels, copies and sets that gpu_ns sums";
        kernel_count: u64, "", "kernels that gpu_self_ns sums";
        copy_count: u64, "", "copies and sets that gpu_self_ns sums";
        launch_delay_mean_ns: Option<f64>, "ns",
            "from the start of its own API calls to the start of their GPU work, mean";
        launch_delay_max_ns: Option<i64>, "ns", "the longest of these";
        bwd_gpu_ns: Option<i64>, "ns", "GPU work of its backward operators; null where none are joined";
        host_self_pct: Option<f64>, "%", "host_self_ns, of its sum over the scope";
        gpu_self_pct: Option<f64>, "%", "gpu_self_ns, of its sum over the scope";
        tensor_core_self_ns: i64, "ns", "part of gpu_self_busy_ns in kernels that use tensor cores";
        tensor_core_ns: i64, "ns", "the same of gpu_busy_ns";
        tensor_core_unknown_ns: i64, "ns", "part of gpu_self_busy_ns in kernels whose name does not tell";
        tensor_core_eligible: bool, "", "it, or an operator inside, can use tensor cores";
        family: Option<Text>, "",
            "model of its work, named as categories of kernels: gemm, convolution, attention, normalization, \
             softmax, elementwise, reduction, gather_scatter, layout or optimizer";
        work_count: u64, "", "calls of which the work is known and counts here";
        work_busy_ns: i64, "ns", "length of the union of the GPU work of these calls";
        flops: Option<u64>, "FLOP", "operations of these calls; null where none is known";
        bytes: Option<u64>, "bytes", "compulsory traffic of these calls; null where that of one is unknown";
        tflops_per_s: Option<f64>, "TFLOP/s", "flops over work_busy_ns";
        tb_per_s: Option<f64>, "TB/s", "bytes over work_busy_ns";
        flops_per_byte: Option<f64>, "FLOP/byte", "arithmetic intensity";
        peak_flops_pct: Option<f64>, "%",
            "of the device's peak for the type of the inputs; null where that is unknown";
        peak_bandwidth_pct: Option<f64>, "%", "of the peak bandwidth of the device's memory";
        roofline_pct: Option<f64>, "%", "of what is attainable at this intensity";
        bound: Option<Text>, "", "compute, memory or latency";
    }
}

pub(crate) fn table(calls: &CallForest, keys: &Keys, texts: &KeyTexts, options: &Options) -> Batch {
    let trace = calls.trace;
    let by_step = keys.has(CallKey::Step) || options.model.steps.is_some();
    let scopes = StepScopes::every(trace).if_by_step(by_step);
    let machine = RankMachine::new(trace, &options.peaks);
    let sums = OperatorCharges::collect(calls, (keys, texts), &scopes, &machine);
    let mut rows: Vec<(usize, RowOwner, KeyCells, OperatorSums)> =
        sums.into_rows().map(|(window, who, sums)| (window, who, texts.cells(trace, &who), sums)).collect();
    rows.sort_by_key(|(window, _, cells, s)| (*window, Reverse(s.gpu_self), Reverse(s.host_self), *cells));
    let mut all: Vec<(Ns, Ns)> = vec![(0, 0); scopes.windows().len()];
    for (window, _, _, s) in &rows {
        all[*window] = (all[*window].0 + s.host_self, all[*window].1 + s.gpu_self);
    }
    let measure = OperatorTimes::new(calls);
    let mut table = Operators::default();
    for (window, who, cells, s) in &rows {
        let w = &scopes.windows()[*window];
        if scopes.is_asked(w, &options.model) {
            push(&mut table, trace.rank, (w, all[*window]), (who, cells, s), &measure);
        }
    }
    table.finish()
}

/// Adds a row. `all` is the host and GPU time of the window.
fn push(
    table: &mut Operators,
    rank: u32,
    (w, all): (&Window, (Ns, Ns)),
    (who, cells, s): (&RowOwner, &KeyCells, &OperatorSums),
    measure: &OperatorTimes,
) {
    let busy = measure.of(who, s);
    let rates = s.load.rates(busy.working);
    table.push(OperatorRow {
        rank,
        scope: w.scope.name(),
        step: w.step,
        step_label: w.label,
        ts_ns: w.start(),
        dur_ns: w.len(),
        name: cells.name,
        input_dims: cells.input_dims,
        input_types: cells.args[0],
        input_strides: cells.args[1],
        concrete_inputs: cells.args[2],
        module: cells.module,
        direction: cells.direction,
        thread: cells.thread,
        stack: cells.stack,
        count: s.count,
        host_ns: s.host,
        host_self_ns: s.host_self,
        host_api_ns: s.host_api,
        gpu_ns: if busy.is_flat { s.gpu_self } else { s.gpu },
        gpu_self_ns: s.gpu_self,
        graph_self_ns: s.graph_self,
        gpu_busy_ns: busy.all,
        gpu_self_busy_ns: busy.own,
        activity_count: if busy.is_flat { s.own.len() as u64 } else { s.activities },
        kernel_count: s.kernels,
        copy_count: s.own.len() as u64 - s.kernels,
        launch_delay_mean_ns: (s.delay_count > 0).then(|| s.delays as f64 / s.delay_count as f64),
        launch_delay_max_ns: s.delay_max,
        bwd_gpu_ns: (!measure.calls.backward.pairs.is_empty()).then_some(s.backward),
        host_self_pct: percent(s.host_self, all.0),
        gpu_self_pct: percent(s.gpu_self, all.1),
        tensor_core_self_ns: busy.own_tensor_cores,
        tensor_core_ns: busy.tensor_cores,
        tensor_core_unknown_ns: busy.own_unknown,
        tensor_core_eligible: s.is_eligible,
        family: s.family.map(Family::name),
        work_count: s.load.count,
        work_busy_ns: busy.working,
        flops: s.load.flops(),
        bytes: s.load.bytes(),
        tflops_per_s: rates.tflops_per_s,
        tb_per_s: rates.tb_per_s,
        flops_per_byte: rates.flops_per_byte,
        peak_flops_pct: rates.peak_flops_pct,
        peak_bandwidth_pct: rates.peak_bandwidth_pct,
        roofline_pct: rates.roofline_pct,
        bound: rates.bound.map(Bound::name),
    });
}

/// Lengths of the unions of the GPU work of an owner, ns.
struct OperatorBusy {
    /// Whether its calls contain nothing else, as those outside operators.
    is_flat: bool,
    all: Ns,
    own: Ns,
    /// Own work of the calls whose work is known.
    working: Ns,
    tensor_cores: Ns,
    own_tensor_cores: Ns,
    /// Own work in kernels whose name does not tell whether they use tensor cores.
    own_unknown: Ns,
}

/// Measures the GPU work of owners.
struct OperatorTimes<'a> {
    calls: &'a CallForest<'a>,
    kernels: Arc<KernelWorks>,
    /// Kernels that use tensor cores at or below each position.
    tensor_cores: WorkBelow,
}

impl<'a> OperatorTimes<'a> {
    fn new(calls: &'a CallForest<'a>) -> Self {
        let kernels = KernelWorks::of(calls.trace);
        let mut me = Self { calls, kernels, tensor_cores: WorkBelow::default() };
        let launched = calls.below.launched.iter().copied();
        let using = launched.filter(|(_, i)| me.is_kernel_with(*i, TensorCores::Yes)).collect();
        me.tensor_cores = WorkBelow::new(&calls.forest, using, &calls.trace.activities, &calls.alone);
        me
    }

    fn of(&self, who: &RowOwner, s: &OperatorSums) -> OperatorBusy {
        let calls = self.calls;
        let is_flat = match who {
            RowOwner::Unlinked => true,
            RowOwner::NoOperator(_) => s.has_moved,
            RowOwner::Op { .. } => false,
        };
        let own = calls.busy(s.own.iter().copied());
        let own_using = |uses| calls.busy(s.own.iter().copied().filter(|i| self.is_kernel_with(*i, uses)));
        let own_tensor_cores = own_using(TensorCores::Yes);
        let (all, tensor_cores) = match (is_flat, s.replayed.is_empty()) {
            (true, _) => (own, own_tensor_cores),
            (false, true) => (calls.busy_below(&s.outer), calls.busy_below_of(&self.tensor_cores, &s.outer)),
            (false, false) => {
                // What the calls of the owner launched, each once.
                let below = || calls.launched_below(&s.outer).chain(s.replayed.iter().copied());
                let using = below().filter(|i| self.is_kernel_with(*i, TensorCores::Yes));
                (calls.busy(below()), calls.busy(using))
            }
        };
        OperatorBusy {
            is_flat,
            all,
            own,
            working: if s.working.len() == s.own.len() { own } else { calls.busy(s.working.iter().copied()) },
            tensor_cores,
            own_tensor_cores,
            own_unknown: own_using(TensorCores::Unknown),
        }
    }

    fn is_kernel_with(&self, activity: u32, uses: TensorCores) -> bool {
        let is_kernel = self.calls.trace.activities[activity as usize].class == Class::Kernel;
        is_kernel && self.kernels.at(activity).tensor_cores == uses
    }
}

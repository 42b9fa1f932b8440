//! The table of operators: host and GPU time, work and rates of the operators of one name, and of further keys.
//!
//! Self times add up over all rows. Total times would count recursion twice, so an operator that runs inside another
//! one of its own group adds nothing to the group's totals.

use crate::api::Options;
use crate::facts::calls::CallForest;
use crate::facts::graphs::nodes::{GraphNodes, OperatorCall};
use crate::facts::kernel_work::KernelWorks;
use crate::facts::machine::RankMachine;
use crate::facts::operator_work::OperatorWorks;
use crate::ops::keys::{CallKey, KeyTexts, Keys, RowOwner, can_use_tensor_cores};
use hashbrown::HashMap;
use hta_base::table;
use hta_base::table::schema::{Batch, Text};
use hta_base::units::{Ns, Span, percent};
use hta_trace::category::Class;
use hta_trace::flops::Family;
use hta_trace::flops::roofline::{Bound, Load};
use hta_trace::interval::Union;
use hta_trace::kernel::tensor_cores::TensorCores;
use hta_trace::rank_trace::RankTrace;
use hta_trace::step::StepRule;
use hta_trace::strings::StrId;
use hta_trace::window::{Scope, windows};
use std::collections::BTreeMap;
use std::sync::Arc;

table! {
    /// Operators by name. Own times add up over the rows of a scope; total times include nested operators and calls.
    pub struct Operators, OperatorRow = "operators" by "rank, scope, step, gpu_self_ns descending, host_self_ns descending, name, input_dims, module" {
        rank;
        scope: Text, "", "capture: all; step: those that start in it (with --by step); outside: the rest";
        step; step_label; ts_ns; dur_ns;
        name: Text, "", "operator; `[no operator]`: API calls outside any; `[unlinked]`: GPU work of unknown launch";
        input_dims: Option<Text>, "", "shape of each input (with --by shape or args, where recorded)";
        input_types: Option<Text>, "", "type of each input (with --by args)";
        input_strides: Option<Text>, "", "strides of each input (with --by args)";
        concrete_inputs: Option<Text>, "", "scalar inputs (with --by args)";
        module: Option<Text>, "", "path of nn.Modules around it, backward: around its forward operator (with --by module)";
        direction: Option<Text>, "", "forward, backward, recompute or optimizer (with --by direction)";
        thread: Option<Text>, "", "process and thread (with --by thread)";
        stack: Option<Text>, "", "the five innermost Python frames around it, innermost first, joined by ; (with --by stack)";
        count: u64, "", "calls; of captured ones, once for every replay";
        host_ns: i64, "ns", "time on the host, with everything nested in it";
        host_self_ns: i64, "ns", "the same without nested operators and API calls";
        host_api_ns: i64, "ns", "time in its own API calls";
        gpu_ns: i64, "ns", "sum of the GPU work launched by it and everything nested in it";
        gpu_self_ns: i64, "ns", "sum of the GPU work of its own API calls; with captures (hta explain graph-ops) also of those that graphs replay";
        graph_self_ns: i64, "ns", "part of gpu_self_ns that graphs replay, named by their captures";
        gpu_busy_ns: i64, "ns", "length of the union of what gpu_ns sums";
        gpu_self_busy_ns: i64, "ns", "length of the union of what gpu_self_ns sums";
        activity_count: u64, "", "kernels, copies and sets that gpu_ns sums";
        kernel_count: u64, "", "kernels that gpu_self_ns sums";
        copy_count: u64, "", "copies and sets that gpu_self_ns sums";
        launch_delay_mean_ns: Option<f64>, "ns", "from the start of its own API calls to the start of their GPU work, mean";
        launch_delay_max_ns: Option<i64>, "ns", "the longest of these";
        bwd_gpu_ns: Option<i64>, "ns", "GPU work of its backward operators; null where none are joined";
        host_self_pct: Option<f64>, "%", "host_self_ns, of its sum over the scope";
        gpu_self_pct: Option<f64>, "%", "gpu_self_ns, of its sum over the scope";
        tensor_core_self_ns: i64, "ns", "part of gpu_self_busy_ns in kernels that use tensor cores";
        tensor_core_ns: i64, "ns", "the same of gpu_busy_ns";
        tensor_core_unknown_ns: i64, "ns", "part of gpu_self_busy_ns in kernels whose name does not tell";
        tensor_core_eligible: bool, "", "it, or an operator inside, can use tensor cores";
        family: Option<Text>, "", "model of its work: matmul, convolution, attention, normalization, softmax, elementwise, reduction, gather, copy or optimizer";
        work_count: u64, "", "calls of which the work is known and counts here";
        work_busy_ns: i64, "ns", "length of the union of the GPU work of these calls";
        flops: Option<u64>, "FLOP", "operations of these calls; null where none is known";
        bytes: Option<u64>, "bytes", "compulsory traffic of these calls; null where that of one is unknown";
        tflops_per_s: Option<f64>, "TFLOP/s", "flops over work_busy_ns";
        tb_per_s: Option<f64>, "TB/s", "bytes over work_busy_ns";
        flops_per_byte: Option<f64>, "FLOP/byte", "arithmetic intensity";
        peak_flops_pct: Option<f64>, "%", "of the device's peak for the type of the inputs; null where that is unknown";
        peak_bandwidth_pct: Option<f64>, "%", "of the peak bandwidth of the device's memory";
        roofline_pct: Option<f64>, "%", "of what is attainable at this intensity";
        bound: Option<Text>, "", "compute, memory or latency";
    }
}

/// Scope and index of the step.
type ScopeAndStep = (Scope, Option<u32>);

/// One row while it is collected.
#[derive(Debug, Clone, Default)]
struct OperatorGroup {
    count: u64,
    host: Ns,
    host_self: Ns,
    host_api: Ns,
    gpu: Ns,
    gpu_self: Ns,
    activities: u64,
    kernels: u64,
    backward: Ns,
    delays: i128,
    delay_count: u64,
    delay_max: Option<Ns>,
    is_eligible: bool,
    family: Option<Family>,
    load: Load,
    /// Own activities of calls whose work is known.
    working: Vec<u32>,
    /// Instances that are not inside another one of the group and launched something.
    outer: Vec<u32>,
    /// Own activities.
    own: Vec<u32>,
    graph_self: Ns,
    /// Activities of graphs at or below captured calls of the group.
    replayed: Vec<u32>,
    /// Whether calls of the group launched graphs whose activities have captured owners.
    has_moved: bool,
    /// End of the subtree of the last outer instance.
    until: u32,
}

pub(crate) fn table(calls: &CallForest, keys: &Keys, texts: &KeyTexts, options: &Options) -> Batch {
    let trace = calls.trace;
    let (works, kernels) = (OperatorWorks::of(trace), KernelWorks::of(trace));
    let machine = RankMachine::new(trace, &options.peaks);
    let eligible = texts.eligible(calls);
    let has_gpu = trace.devices.iter().any(|w| w.is_gpu);
    let (index, groups) = (HashMap::new(), Vec::new());
    let nodes = GraphNodes::of(trace);
    let mut groups =
        OperatorGroups { calls, keys, texts, nodes, works, kernels, machine, eligible, has_gpu, index, groups };
    groups.fill(|_| (Scope::Capture, None), |_| (Scope::Capture, None));
    if keys.has(CallKey::Step) || options.model.steps.is_some() {
        let when = |step: Option<u32>| match step {
            Some(s) => (Scope::Step, Some(s)),
            None => (Scope::Outside, None),
        };
        // Without marked steps the capture is the only step.
        let at = |ts| if trace.steps.rule == StepRule::Capture { Some(0) } else { trace.steps.at(ts) };
        groups.fill(|p| when(at(calls.start(p))), |i| when(trace.activities[i as usize].step()));
    }
    groups.write(options)
}

struct OperatorGroups<'a> {
    calls: &'a CallForest<'a>,
    keys: &'a Keys,
    texts: &'a KeyTexts,
    nodes: Arc<GraphNodes>,
    works: Arc<OperatorWorks>,
    kernels: Arc<KernelWorks>,
    machine: RankMachine<'a>,
    /// By position: whether it or an operator inside can use tensor cores.
    eligible: Vec<bool>,
    has_gpu: bool,
    index: HashMap<(ScopeAndStep, RowOwner), u32>,
    groups: Vec<(ScopeAndStep, RowOwner, OperatorGroup)>,
}

impl OperatorGroups<'_> {
    fn group(&mut self, when: ScopeAndStep, who: RowOwner) -> &mut OperatorGroup {
        let new = self.groups.len() as u32;
        let i = *self.index.entry((when, who)).or_insert(new);
        if i == new {
            self.groups.push((when, who, OperatorGroup::default()));
        }
        &mut self.groups[i as usize].2
    }

    fn fill(&mut self, of_event: impl Fn(u32) -> ScopeAndStep, of_activity: impl Fn(u32) -> ScopeAndStep) {
        let calls = self.calls;
        let trace = calls.trace;
        let mut own = calls.own.iter().peekable();
        let nodes = Arc::clone(&self.nodes);
        for p in 0..calls.forest.len() as u32 {
            let at = p as usize;
            let is_top_level_call = calls.op(p).is_none();
            if !calls.is_op(p) && !is_top_level_call {
                continue;
            }
            let row = calls.row(p);
            let who = self.texts.owner(self.keys, calls, p);
            let work = if is_top_level_call { None } else { self.works.at(row).copied() };
            let peaks = work.map(|w| self.machine.peaks(OperatorCall::Row(row), &w)).unwrap_or_default();
            let (has_gpu, is_eligible) = (self.has_gpu, self.eligible[at]);
            let group = self.group(of_event(p), who);
            group.count += 1;
            group.is_eligible |= is_eligible;
            group.host_self += calls.host_self_ns(p);
            group.host_api += calls.host_api_ns[at];
            let first = group.own.len();
            while let Some((_, i)) = own.next_if(|o| o.0 == p) {
                if nodes.operator_of(*i).is_some() {
                    group.has_moved = true;
                    continue;
                }
                let a = &trace.activities[*i as usize];
                group.own.push(*i);
                group.gpu_self += a.span.len();
                group.kernels += u64::from(a.class == Class::Kernel);
                if let Some(launch) = a.launch() {
                    let delay = a.span.start - trace.span(launch).start;
                    group.delays += i128::from(delay);
                    group.delay_count += 1;
                    group.delay_max = group.delay_max.max(Some(delay));
                }
            }
            if let Some(work) = work {
                group.family = Some(work.family);
                let own = group.own.get(first..).unwrap_or_default();
                // Where there is a GPU, the work of an operator without GPU work is not on it.
                if let Some(flops) = work.flops.filter(|_| !own.is_empty() || !has_gpu) {
                    group.load.add(flops, work.bytes, peaks);
                    let own = own.to_vec();
                    group.working.extend(own);
                }
            }
            if p < group.until {
                continue;
            }
            group.until = calls.forest.end[at];
            group.host += calls.host_ns[at];
            let below = calls.below.at(p);
            group.gpu += below.sum_ns;
            group.activities += u64::from(below.count);
            group.backward += calls.bwd_gpu_ns(p);
            if below.count > 0 {
                group.outer.push(p);
            }
        }
        self.fill_captured(&of_activity);
        for &i in &trace.launches().unlinked {
            let a = &trace.activities[i as usize];
            let group = self.group(of_activity(i), RowOwner::Unlinked);
            group.gpu_self += a.span.len();
            group.gpu += a.span.len();
            group.activities += 1;
            group.kernels += u64::from(a.class == Class::Kernel);
            group.own.push(i);
        }
    }

    /// Adds the activities of graphs to the operators that captured them.
    fn fill_captured(&mut self, of_activity: &impl Fn(u32) -> ScopeAndStep) {
        let trace = self.calls.trace;
        let nodes = Arc::clone(&self.nodes);
        let owner = |o: u32| nodes.operator(o).map(|o| self.texts.captured_owner(self.keys, o));
        let owners: Vec<Option<RowOwner>> = (0..nodes.operators.len() as u32).map(owner).collect();
        let owner = |o: u32| owners.get(o as usize).copied().flatten();
        for (number, replay) in (0..).zip(&nodes.replays) {
            let mut launched: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
            for &i in &replay.nodes {
                if let Some(operator) = nodes.operator_of(i) {
                    for around in nodes.outward(operator) {
                        launched.entry(around).or_default();
                    }
                    launched.entry(operator).or_default().push(i);
                }
            }
            // All were launched by one call.
            let Some(when) = replay.nodes.first().map(|i| of_activity(*i)) else { continue };
            let around = self.around(replay.call);
            for (&operator, own) in &launched {
                let Some(who) = owner(operator) else { continue };
                let name = nodes.operator(operator).map_or(StrId::EMPTY, |o| o.name);
                let call = OperatorCall::Captured(number, operator);
                let work = self.works.of_call(call).copied();
                let peaks = work.map(|w| self.machine.peaks(call, &w)).unwrap_or_default();
                let group = self.group(when, who);
                group.count += 1;
                for &i in own {
                    let a = &trace.activities[i as usize];
                    group.own.push(i);
                    group.gpu_self += a.span.len();
                    group.graph_self += a.span.len();
                    group.kernels += u64::from(a.class == Class::Kernel);
                }
                if let Some(work) = work {
                    group.family = Some(work.family);
                    if let Some(flops) = work.flops.filter(|_| !own.is_empty()) {
                        group.load.add(flops, work.bytes, peaks);
                        group.working.extend_from_slice(own);
                    }
                }
                let is_eligible = can_use_tensor_cores(trace.text(name));
                // What contains the launch call has its activities already.
                let mut seen = around.clone();
                for who in nodes.outward(operator).filter_map(owner) {
                    let group = self.group(when, who);
                    group.is_eligible |= is_eligible;
                    // Recursion counts once, too.
                    if !seen.contains(&who) {
                        seen.push(who);
                        group.gpu += own.iter().map(|i| trace.activities[*i as usize].span.len()).sum::<Ns>();
                        group.activities += own.len() as u64;
                        group.replayed.extend_from_slice(own);
                    }
                }
            }
        }
    }

    /// The owners of the rows of the operators around a call.
    fn around(&self, call: u32) -> Vec<RowOwner> {
        let calls = self.calls;
        let position = calls.forest.position(call).and_then(|p| calls.op(p));
        let outward = std::iter::successors(position, |p| calls.forest.parent(*p).and_then(|up| calls.op(up)));
        outward.map(|p| self.texts.owner(self.keys, calls, p)).collect()
    }

    fn write(mut self, options: &Options) -> Batch {
        let calls = self.calls;
        let trace = calls.trace;
        let spans = spans(trace);
        let mut sums: BTreeMap<ScopeAndStep, (Ns, Ns)> = BTreeMap::new();
        for (when, _, g) in &self.groups {
            let sum = sums.entry(*when).or_default();
            *sum = (sum.0 + g.host_self, sum.1 + g.gpu_self);
        }
        let mut groups = std::mem::take(&mut self.groups);
        groups.sort_by(|(when_a, a, x), (when_b, b, y)| {
            (when_a, y.gpu_self, y.host_self)
                .cmp(&(when_b, x.gpu_self, x.host_self))
                .then_with(|| self.texts.cells(trace, a).cmp(&self.texts.cells(trace, b)))
        });
        let mut table = Operators::default();
        for (when, who, g) in &groups {
            let step = when.1.and_then(|s| trace.steps.steps.get(s as usize));
            if step.is_some_and(|s| !options.model.selects(s)) {
                continue;
            }
            let cells = self.texts.cells(trace, who);
            let (ts_ns, dur_ns) = spans.get(when).copied().unwrap_or((trace.capture.start, 0));
            let (all_host, all_gpu) = sums.get(when).copied().unwrap_or_default();
            let own_busy = busy(calls, g.own.iter().copied());
            let work_busy =
                if g.working.len() == g.own.len() { own_busy } else { busy(calls, g.working.iter().copied()) };
            let using = |i: &u32, uses: TensorCores| self.is_kernel(*i) && self.kernels.at(*i).tensor_cores == uses;
            let own_using = |uses| busy(calls, g.own.iter().copied().filter(|i| using(i, uses)));
            let tensor_core_self_ns = own_using(TensorCores::Yes);
            let rates = g.load.rates(work_busy);
            // Calls outside operators contain nothing else.
            let is_flat = match who {
                RowOwner::Unlinked => true,
                RowOwner::NoOperator(_) => g.has_moved,
                RowOwner::Op { .. } => false,
            };
            table.push(OperatorRow {
                rank: trace.rank,
                scope: when.0.name(),
                step: when.1,
                step_label: step.and_then(|s| s.label),
                ts_ns,
                dur_ns,
                name: cells.name,
                input_dims: cells.input_dims,
                input_types: cells.args[0],
                input_strides: cells.args[1],
                concrete_inputs: cells.args[2],
                module: cells.module,
                direction: cells.direction,
                thread: cells.thread,
                stack: cells.stack,
                count: g.count,
                host_ns: g.host,
                host_self_ns: g.host_self,
                host_api_ns: g.host_api,
                gpu_ns: if is_flat { g.gpu_self } else { g.gpu },
                gpu_self_ns: g.gpu_self,
                graph_self_ns: g.graph_self,
                gpu_busy_ns: if is_flat { own_busy } else { self.busy_below(g) },
                gpu_self_busy_ns: own_busy,
                activity_count: if is_flat { g.own.len() as u64 } else { g.activities },
                kernel_count: g.kernels,
                copy_count: g.own.len() as u64 - g.kernels,
                launch_delay_mean_ns: (g.delay_count > 0).then(|| g.delays as f64 / g.delay_count as f64),
                launch_delay_max_ns: g.delay_max,
                bwd_gpu_ns: (!calls.backward.pairs.is_empty()).then_some(g.backward),
                host_self_pct: percent(g.host_self, all_host),
                gpu_self_pct: percent(g.gpu_self, all_gpu),
                tensor_core_self_ns,
                tensor_core_ns: if is_flat { tensor_core_self_ns } else { self.tensor_cores_below(g) },
                tensor_core_unknown_ns: own_using(TensorCores::Unknown),
                tensor_core_eligible: g.is_eligible,
                family: g.family.map(Family::name),
                work_count: g.load.count,
                work_busy_ns: work_busy,
                flops: g.load.flops(),
                bytes: g.load.bytes(),
                tflops_per_s: rates.tflops_per_s,
                tb_per_s: rates.tb_per_s,
                flops_per_byte: rates.flops_per_byte,
                peak_flops_pct: rates.peak_flops_pct,
                peak_bandwidth_pct: rates.peak_bandwidth_pct,
                roofline_pct: rates.roofline_pct,
                bound: rates.bound.map(Bound::name),
            });
        }
        table.finish()
    }

    fn is_kernel(&self, activity: u32) -> bool {
        self.calls.trace.activities[activity as usize].class == Class::Kernel
    }

    /// Length of the union of everything launched below the calls of a group, ns.
    fn busy_below(&self, group: &OperatorGroup) -> Ns {
        match group.replayed.is_empty() {
            true => busy_of(self.calls, &group.outer),
            false => busy(self.calls, self.below(group)),
        }
    }

    /// Length of the union of the kernels with tensor cores launched below the calls of a group, ns.
    fn tensor_cores_below(&self, group: &OperatorGroup) -> Ns {
        let uses = |i: &u32| self.is_kernel(*i) && self.kernels.at(*i).tensor_cores == TensorCores::Yes;
        busy(self.calls, self.below(group).filter(uses))
    }

    /// The activities below the calls of a group, each once.
    fn below<'b>(&'b self, group: &'b OperatorGroup) -> impl Iterator<Item = u32> + 'b {
        let calls = self.calls;
        let within = |p: &u32| calls.below.within(*p, calls.forest.end[*p as usize]);
        let launched = group.outer.iter().flat_map(within).map(|l| l.1);
        launched.chain(group.replayed.iter().copied())
    }
}

/// Start and length of each window.
fn spans(trace: &RankTrace) -> BTreeMap<ScopeAndStep, (Ns, Ns)> {
    let all = windows(None, trace.capture, &trace.steps.steps, |_| true);
    all.iter().map(|w| ((w.scope, w.step), (w.start(), w.len()))).collect()
}

/// Length of the union of activities, ns.
fn busy(calls: &CallForest, activities: impl Iterator<Item = u32>) -> Ns {
    let all = &calls.trace.activities;
    let mut alone = 0;
    let mut crowded: Vec<Span> = Vec::new();
    for i in activities {
        let span = all[i as usize].span;
        match calls.alone[i as usize] {
            true => alone += span.len(),
            false => crowded.push(span),
        }
    }
    alone + Union::new(crowded).len()
}

/// Length of the union of everything launched below instances, none of which contains another. The union of each
/// instance is known; only those whose work overlaps in time are united again.
fn busy_of(calls: &CallForest, instances: &[u32]) -> Ns {
    let extent = |p: u32| calls.below.at(p).extent;
    let mut sorted: Vec<u32> = instances.to_vec();
    sorted.sort_unstable_by_key(|&p| (extent(p).start, extent(p).end));
    let mut total = 0;
    let mut from = 0;
    while from < sorted.len() {
        let mut end = extent(sorted[from]).end;
        let mut until = from + 1;
        while until < sorted.len() && extent(sorted[until]).start < end {
            end = end.max(extent(sorted[until]).end);
            until += 1;
        }
        total += match &sorted[from..until] {
            [one] => calls.below.at(*one).busy_ns,
            several => {
                let of = |p: &u32| calls.below.within(*p, calls.forest.end[*p as usize]);
                busy(calls, several.iter().flat_map(of).map(|l| l.1))
            }
        };
        from = until;
    }
    total
}

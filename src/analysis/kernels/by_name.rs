//! Kernels by name: durations, how they occupy the device, and the work that they do.

use crate::api::Options;
use crate::kernels::callers::Callers;
use crate::kernels::occupied::Occupied;
use crate::kernels::{BY, by_key, scope_name, sums};
use crate::summary::Summary;
use hashbrown::HashMap;
use hta_base::table;
use hta_base::table::schema::{Batch, Text};
use hta_base::units::{Ns, percent};
use hta_facts::by_owner::UNLINKED;
use hta_facts::collectives::{activity_kind, role_name};
use hta_facts::direction::{Direction, Directions};
use hta_facts::graphs::nodes::GraphNodes;
use hta_facts::kernel_work::{KernelWork, KernelWorks};
use hta_facts::machine::{LaunchShapes, RankMachine};
use hta_facts::modules::RowModules;
use hta_facts::operator_work::OperatorWorks;
use hta_facts::step_scopes::StepScopes;
use hta_trace::activity::Activity;
use hta_trace::args::Arg;
use hta_trace::category::Class;
use hta_trace::device::DeviceWork;
use hta_trace::flops::roofline::{Bound, CallPeaks, Load};
use hta_trace::kernel::{kernel_id, short_name};
use hta_trace::rank_trace::RankTrace;
use hta_trace::strings::StrId;
use hta_trace::timeline::WorkClass;
use hta_trace::window::Window;
use std::collections::BTreeSet;
use std::sync::Arc;

table! {
    /// Summed durations by class and kernel name. Concurrent kernels count twice here; busy shares are in
    /// `kernel_classes`.
    pub struct KernelsByName, KernelsByNameRow = "kernels_by_name"
        by "rank, device, scope, step, sum_ns descending, name" {
        rank; device;
        scope: Text, "", "span: all activities; step: those launched in it; outside: the rest";
        step: Option<u32>, "", "index of the step of the launch";
        step_label;
        class: Text, "", "compute, communication, memory or fused_communication";
        class_reason: Text, "", "name of the kernel rule that set the class";
        kind: Option<Text>, "", "kind of collective or direction of copy";
        role: Option<Text>, "", "part in an exchange between ranks, as in kernels";
        name: Text, "", "full name";
        short_name: Text, "",
            "what tells it apart: last part of the path, functors, types, tile sizes; without parameters";
        kernel_id: Text, "", "first 4 hexadecimal digits of the FNV-1a hash of the full name";
        category: Text, "", "what it does, as in kernel_categories";
        category_reason: Text, "",
            "what the category follows from: row, args, name, name+op, name+range, op or none";
        tensor_cores: Text, "", "yes, no, or unknown: its name does not tell";
        op: Option<Text>, "", "owning operator, or `[unlinked]` (with --by op)";
        input_dims: Option<Text>, "", "shapes of the operator's inputs (with --by input)";
        direction: Option<Text>, "",
            "forward, backward, recompute or optimizer; null without an operator (with --by direction)";
        module: Option<Text>, "",
            "path of nn.Modules around the operator, backward: around its forward operator (with --by layer)";
        main_op: Option<Text>, "", "operator that launched most of sum_ns; null where none did";
        main_op_ns: Option<i64>, "ns", "part of sum_ns that it launched";
        main_input_dims: Option<Text>, "",
            "shapes of its inputs in most of that time; null where they are not recorded, and for operators \
             without a model of their work";
        main_input_ns: Option<i64>, "ns", "part of sum_ns that it launched with these inputs";
        grid: Option<Text>, "", "blocks (with --by shape)";
        block: Option<Text>, "", "threads per block (with --by shape)";
        registers_per_thread: Option<i64>, "", "registers of a thread (with --by shape)";
        shared_memory_bytes: Option<i64>, "bytes",
            "shared memory of a block, static and dynamic (with --by shape)";
        stream: Option<i64>, "", "stream (with --by stream)";
        count: u64, "", "activities";
        sum_ns: i64, "ns", "sum of durations";
        mean_ns: f64, "ns", "mean duration";
        min_ns: i64, "ns", "shortest";
        max_ns: i64, "ns", "longest";
        std_ns: Option<f64>, "ns", "sample standard deviation; null for one";
        p50_ns: i64, "ns", "median, nearest rank";
        p95_ns: i64, "ns", "95th percentile, nearest rank";
        time_pct: Option<f64>, "%", "of the summed durations of the scope";
        cum_pct: Option<f64>, "%", "running sum of time_pct down the table";
        stream_count: u32, "", "distinct streams";
        first_ts_ns: i64, "ns", "first start";
        blocks_per_sm: Option<f64>, "", "blocks for each multiprocessor, mean weighted by duration";
        occupancy_pct: Option<f64>, "%",
            "warps that run of those that fit on the device, as derived, mean weighted by duration";
        occupancy_known_pct: Option<f64>, "%", "part of sum_ns for which the occupancy could be derived";
        waves: Option<f64>, "", "rounds in which the device runs the grid, mean weighted by duration";
        tail: Option<f64>, "", "filled part of the last round, mean weighted by duration; 1: full";
        occupancy_limiter: Option<Text>, "",
            "what limits the blocks of a multiprocessor for most of the time: warps, registers, \
             shared_memory or blocks";
        work_count: u64, "", "activities of operators whose work is known";
        work_ns: i64, "ns", "sum of the durations of these activities";
        flops: Option<u64>, "FLOP", "share of the operations of these operators; null where none is known";
        bytes: Option<u64>, "bytes", "share of their compulsory traffic";
        tflops_per_s: Option<f64>, "TFLOP/s", "flops over work_ns";
        tb_per_s: Option<f64>, "TB/s", "bytes over the same";
        flops_per_byte: Option<f64>, "FLOP/byte", "arithmetic intensity";
        peak_flops_pct: Option<f64>, "%",
            "of the device's peak for the type of the inputs; null where that is unknown";
        peak_bandwidth_pct: Option<f64>, "%", "of the peak bandwidth of the device's memory";
        roofline_pct: Option<f64>, "%", "of what is attainable at this intensity";
        bound: Option<Text>, "", "compute, memory or latency";
    }
}

/// Selected keys of `kernels_by_name`.
#[derive(Debug, Clone, Copy)]
struct SelectedKeys {
    op: bool,
    input: bool,
    direction: bool,
    layer: bool,
    shape: bool,
    stream: bool,
}

/// Identifies a row of `kernels_by_name`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct KernelKey {
    work: WorkClass,
    name: StrId,
    rule: u16,
    does: KernelWork,
    kind: Option<&'static str>,
    /// The owning operator; `Unlinked` if the launch is unknown.
    op: Option<Owner>,
    input: Option<StrId>,
    direction: Option<Direction>,
    /// A module of the trace by its index, or of a captured operator by its path.
    module: Option<ModuleKey>,
    grid: Option<StrId>,
    block: Option<StrId>,
    registers: Option<i64>,
    shared_memory: Option<i64>,
    stream: Option<i64>,
}

/// A path of modules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum ModuleKey {
    Of(u32),
    Captured(StrId),
}

/// The operator that launched an activity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Owner {
    Op(StrId),
    Unlinked,
}

/// What the rows of one rank need.
struct NameTexts<'a> {
    trace: &'a RankTrace,
    options: &'a Options,
    keys: SelectedKeys,
    kernels: Arc<KernelWorks>,
    works: Arc<OperatorWorks>,
    nodes: Arc<GraphNodes>,
    callers: Callers<'a>,
    machine: RankMachine<'a>,
    launches: LaunchShapes<'a>,
    directions: Option<Arc<Directions>>,
    modules: Option<RowModules<'a>>,
    short: HashMap<StrId, String>,
}

pub(crate) fn table(trace: &RankTrace, options: &Options, scopes: &StepScopes) -> Batch {
    let asked = |key| options.settings.has(&BY, key);
    let keys = SelectedKeys {
        op: asked("op"),
        input: asked("input"),
        direction: asked("direction"),
        layer: asked("layer"),
        shape: asked("shape"),
        stream: asked("stream"),
    };
    let mut names = NameTexts {
        trace,
        options,
        keys,
        kernels: KernelWorks::of(trace),
        works: OperatorWorks::of(trace),
        nodes: GraphNodes::of(trace),
        callers: Callers::new(trace),
        machine: RankMachine::new(trace, &options.peaks),
        launches: LaunchShapes::new(trace),
        directions: keys.direction.then(|| Directions::of(trace)),
        modules: keys.layer.then(|| RowModules::new(trace)),
        short: HashMap::new(),
    };
    let mut table = KernelsByName::default();
    for work in trace.devices.iter().filter(|w| w.is_gpu) {
        names.device(&mut table, scopes, work);
    }
    table.finish()
}

impl NameTexts<'_> {
    fn key(&self, activity: u32, a: &Activity, does: KernelWork) -> KernelKey {
        let (trace, keys) = (self.trace, self.keys);
        let args = &trace.columns.args;
        let kind = activity_kind(trace, a);
        let owner = self.nodes.owner(trace, activity);
        let captured = self.nodes.captured(owner);
        let row = a.op().filter(|_| captured.is_none());
        KernelKey {
            work: a.work,
            name: a.name,
            rule: a.rule,
            does,
            kind,
            op: match (keys.op, a.launch(), owner) {
                (false, _, _) | (true, Some(_), None) => None,
                (true, None, _) => Some(Owner::Unlinked),
                (true, Some(_), Some(call)) => Some(Owner::Op(self.nodes.name(trace, call))),
            },
            input: owner.filter(|_| keys.input).and_then(|call| self.nodes.inputs(trace, call)[0]),
            direction: self.directions.as_ref().and_then(|d| Some(d.at(row?))),
            module: match captured.filter(|_| keys.layer) {
                Some(o) => o.module.map(ModuleKey::Captured),
                None => row.and_then(|o| self.modules.as_ref()?.index(o)).map(ModuleKey::Of),
            },
            grid: keys.shape.then(|| args.text(Arg::Grid, a.row)).flatten(),
            block: keys.shape.then(|| args.text(Arg::Block, a.row)).flatten(),
            registers: keys.shape.then(|| args.int(Arg::Registers, a.row)).flatten(),
            shared_memory: keys.shape.then(|| args.int(Arg::SharedMemory, a.row)).flatten(),
            stream: keys.stream.then_some(a.stream()).flatten(),
        }
    }

    /// The rows of a device.
    fn device(&mut self, table: &mut KernelsByName, scopes: &StepScopes, work: &DeviceWork) {
        let trace = self.trace;
        let groups = by_key(trace, work, (scopes, self.options), |i| {
            self.key(i, &trace.activities[i as usize], self.kernels.at(i))
        });
        let all = sums(trace, scopes, &groups);
        let summed = |(window, key, members): (usize, KernelKey, Vec<u32>)| {
            let times = members.iter().map(|i| trace.activities[*i as usize].span.len()).collect();
            (window, key, Summary::new(times), members)
        };
        let mut rows: Vec<(usize, KernelKey, Summary, Vec<u32>)> = groups.into_iter().map(summed).collect();
        // Sort by the text of names, so that ids (the order of the file) do not affect the output.
        rows.sort_by(|(a_window, a, a_times, x), (b_window, b, b_times, y)| {
            (a_window, b_times.sum, trace.text(a.name), a.kind)
                .cmp(&(b_window, a_times.sum, trace.text(b.name), b.kind))
                .then_with(|| x.cmp(y))
        });
        let mut cumulated = vec![0; all.len()];
        for (window, key, times, members) in &rows {
            cumulated[*window] += times.sum;
            let w = (&scopes.windows()[*window], cumulated[*window], all[*window]);
            self.push(table, work.device, w, (key, times, members));
        }
    }

    /// Adds a row of a window, with the time of the rows so far and of all.
    fn push(
        &mut self,
        table: &mut KernelsByName,
        device: Option<i64>,
        (w, cumulated, all): (&Window, Ns, Ns),
        (k, s, members): (&KernelKey, &Summary, &[u32]),
    ) {
        let trace = self.trace;
        let name = trace.text(k.name);
        let streams: BTreeSet<_> = members.iter().map(|&i| trace.activities[i as usize].stream()).collect();
        let occupied = self.occupied(members);
        let (load, worked) = self.load(members);
        let rates = load.rates(worked);
        let main = self.callers.main(members);
        table.push(KernelsByNameRow {
            rank: trace.rank,
            device,
            scope: scope_name(w),
            step: w.step,
            step_label: w.label,
            class: k.work.name(),
            class_reason: self.options.model.rules.reason(k.rule),
            kind: k.kind,
            role: role_name(self.options.model.rules.role(k.rule), k.kind),
            name,
            short_name: self.short.entry(k.name).or_insert_with(|| short_name(name)),
            kernel_id: &kernel_id(name),
            category: k.does.category.name(),
            category_reason: k.does.reason.name(),
            tensor_cores: k.does.tensor_cores.name(),
            op: k.op.map(|o| match o {
                Owner::Op(name) => trace.text(name),
                Owner::Unlinked => UNLINKED,
            }),
            input_dims: k.input.map(|t| trace.text(t)),
            direction: k.direction.map(Direction::name),
            module: k.module.and_then(|m| match m {
                ModuleKey::Of(m) => self.modules.as_ref()?.paths.get(m as usize).map(String::as_str),
                ModuleKey::Captured(path) => Some(trace.text(path)),
            }),
            main_op: main.op.map(|(name, _)| name),
            main_op_ns: main.op.map(|(_, ns)| ns),
            main_input_dims: main.inputs.map(|(dims, _)| dims),
            main_input_ns: main.inputs.map(|(_, ns)| ns),
            grid: k.grid.map(|o| trace.text(o)),
            block: k.block.map(|o| trace.text(o)),
            registers_per_thread: k.registers,
            shared_memory_bytes: k.shared_memory,
            stream: k.stream,
            count: s.count,
            sum_ns: s.sum,
            mean_ns: s.mean,
            min_ns: s.min,
            max_ns: s.max,
            std_ns: s.std,
            p50_ns: s.p50,
            p95_ns: s.p95,
            time_pct: percent(s.sum, all),
            cum_pct: percent(cumulated, all),
            stream_count: streams.len() as u32,
            first_ts_ns: members.iter().map(|i| trace.activities[*i as usize].span.start).min().unwrap_or(0),
            blocks_per_sm: occupied.blocks_per_sm(),
            occupancy_pct: occupied.mean(occupied.occupancy),
            occupancy_known_pct: percent(occupied.known, s.sum).filter(|_| k.work != WorkClass::Memory),
            waves: occupied.mean(occupied.waves),
            tail: occupied.mean(occupied.tail),
            occupancy_limiter: occupied.limiter(),
            work_count: load.count,
            work_ns: worked,
            flops: load.flops(),
            bytes: load.bytes(),
            tflops_per_s: rates.tflops_per_s,
            tb_per_s: rates.tb_per_s,
            flops_per_byte: rates.flops_per_byte,
            peak_flops_pct: rates.peak_flops_pct,
            peak_bandwidth_pct: rates.peak_bandwidth_pct,
            roofline_pct: rates.roofline_pct,
            bound: rates.bound.map(Bound::name),
        });
    }

    fn occupied(&mut self, activities: &[u32]) -> Occupied {
        let mut all = Occupied::default();
        for a in activities
            .iter()
            .map(|&i| &self.trace.activities[i as usize])
            .filter(|a| a.class == Class::Kernel)
        {
            all.add(a.span.len(), self.launches.blocks_per_sm(a), self.launches.occupancy(a));
        }
        all
    }

    /// The shares of the work of operators, and the duration of the activities that have some.
    fn load(&self, activities: &[u32]) -> (Load, Ns) {
        let trace = self.trace;
        let (mut load, mut worked) = (Load::default(), 0);
        for &i in activities {
            let a = &trace.activities[i as usize];
            let share = self.works.share(trace, i);
            let Some(flops) = share.flops else { continue };
            // A helper does none of the work, so its time has no rate.
            let work = self.works.of_activity(trace, i);
            let peaks = work.map_or_else(CallPeaks::default, |(call, work)| self.machine.peaks(call, work));
            load.add(flops, share.bytes, peaks);
            worked += a.span.len();
        }
        (load, worked)
    }
}

//! The mapper of a diff. For one rank it makes tables of its steps, and of the count and time of activities and host
//! events by name and step.
//!
//! The size of the tables depends on the number of names and steps, not of events. A null step stands for the whole
//! capture, for sets without steps.

use crate::diff::BY;
use hashbrown::HashMap;
use hta_analysis::api::{Options, Partial};
use hta_analysis::facts::graphs::nodes::{GraphNodes, OperatorCall};
use hta_analysis::facts::kernel_work::KernelWorks;
use hta_analysis::facts::modules::modules_by_row;
use hta_analysis::inventory::recorders;
use hta_base::table;
use hta_base::table::schema::{Batch, Text};
use hta_base::units::Ns;
use hta_trace::category::Class;
use hta_trace::rank_trace::RankTrace;
use hta_trace::step::{Step, StepRule};
use hta_trace::strings::{Interner, StrId};
use hta_trace::timeline::{TimePerSet, WorkClass};
use hta_trace::window::{Scope, Window, windows};
use std::collections::BTreeSet;

table! {
    /// One rank of a set.
    pub(crate) struct DiffRanks, DiffRankRow = "diff_map_ranks" by "rank" {
        rank;
        recorder: Text, "", "program that recorded the file";
        world_size: Option<u32>, "ranks", "ranks of the job, as recorded in the file";
        device_name: Option<Text>, "", "first device";
        has_modules: bool, "", "frames of nn.Module are recorded (looked for with --by module)";
        has_frames: bool, "", "Python frames are recorded";
        has_shapes: Option<bool>, "", "shapes of inputs are recorded, as the file says";
        versions: Option<Text>, "", "versions of the driver and the runtime, as the file says";
        recorded_ns: i64, "ns", "capture";
        overhead_ns: i64, "ns", "time of it in which the profiler itself worked";
        is_on_device: bool, "", "steps have the windows of the device";
        is_missed: bool, "", "steps have the windows of the host, which hold less than 90 % of what they launch";
        period: Option<u32>, "steps", "every how many steps one launches more; null: none, or steps are chosen";
    }
}

table! {
    /// One window of one device: a step, or the capture.
    pub(crate) struct MappedSteps, MappedStepRow = "diff_map_steps" by "device, step" {
        device;
        basis: Text, "", "gpu, cpu or none";
        step: Option<u32>, "", "index; null: the capture";
        step_label;
        is_partial: bool, "", "the step is cut by the capture, or has far less work than the others";
        ts_ns: i64, "ns", "start";
        dur_ns: i64, "ns", "length";
        compute_ns: i64, "ns", "|C|";
        exposed_communication_ns: i64, "ns", "|K \\ C|";
        exposed_memory_ns: i64, "ns", "|M \\ (C u K)|";
        communication_ns: i64, "ns", "|K|";
        memory_ns: i64, "ns", "|M|";
        busy_ns: i64, "ns", "|C u K u M|";
    }
}

table! {
    /// What activities and host events are called; row `i` is key `i` of `diff_map_cells`.
    pub(crate) struct MappedKeys, MappedKeyRow = "diff_map_keys" by "side, class, name, owner" {
        side: Text, "", "gpu or host";
        class: Text, "", "class or category";
        name: Text, "", "full name";
        owner: Option<Text>, "", "category, operator or module (with --by)";
    }
}

table! {
    /// Sums of one key in one step.
    pub(crate) struct MappedCells, MappedCellRow = "diff_map_cells" by "key, step" {
        key: u32, "", "row of diff_map_keys";
        step: Option<u32>, "", "index; null: the capture";
        count: i64, "", "events";
        sum_ns: i64, "ns", "summed durations";
        self_ns: i64, "ns", "the same without enclosed events";
    }
}

/// Owner of activities whose launch was not recorded.
const UNLINKED: &str = "[unlinked]";
const NO_OPERATOR: &str = "[no operator]";
const NO_MODULE: &str = "[no module]";

pub(crate) fn map(trace: &RankTrace, options: &Options) -> Partial {
    let has_steps = trace.steps.rule != StepRule::Capture;
    let chosen = |s: &Step| has_steps && options.model.steps.as_ref().is_none_or(|f| f.keeps(s.index, s.label));
    let (modules, paths) = match options.settings.text(&BY) {
        Some("module") => modules_by_row(trace),
        _ => Default::default(),
    };
    let module = |row: u32| Some(paths[*modules.get(&row)? as usize].as_str());
    let mut ranks = DiffRanks::default();
    let device = trace.devices.iter().find_map(|d| trace.meta.devices.iter().find(|m| Some(m.id) == d.device));
    let versions = recorders::versions(&trace.meta);
    let how = recorders::row(trace, versions.as_deref());
    ranks.push(DiffRankRow {
        rank: trace.rank,
        recorder: how.recorder,
        world_size: trace.meta.world_size,
        device_name: device.map(|d| d.display_name()).as_deref(),
        has_modules: !paths.is_empty(),
        has_frames: how.has_frames,
        has_shapes: how.has_shapes,
        versions: how.versions,
        recorded_ns: how.recorded_ns,
        overhead_ns: how.overhead_ns,
        is_on_device: has_steps && trace.steps.is_on_device && !trace.steps.are_iterations(),
        is_missed: has_steps && trace.steps.is_missed(),
        period: trace.steps.period.map(|p| p.every).filter(|_| options.model.steps.is_none()),
    });
    let keep: Vec<bool> = trace.steps.steps.iter().map(chosen).collect();
    let mut cells = SumsByStep::default();
    gpu(trace, options, module, &keep, &mut cells);
    host(trace, has_steps, &keep, &mut cells);
    let (keys, cells) = cells.finish();
    let tables = vec![ranks.finish(), steps(trace, chosen), keys, cells];
    Partial { rank: trace.rank, tables, reason: None }
}

fn steps(trace: &RankTrace, chosen: impl Fn(&Step) -> bool) -> Batch {
    let mut table = MappedSteps::default();
    let all = windows(None, trace.capture, &trace.steps.steps, chosen);
    let wanted = || all.iter().filter(|w| matches!(w.scope, Scope::Step | Scope::Capture));
    let mut push = |device, basis: &str, w: &Window, s: TimePerSet| {
        let step = w.step.and_then(|i| trace.steps.steps.get(i as usize));
        table.push(MappedStepRow {
            device,
            basis,
            step: w.step,
            step_label: w.label,
            is_partial: step.is_some_and(|s| s.is_partial),
            ts_ns: w.start(),
            dur_ns: w.len(),
            compute_ns: s.compute(),
            exposed_communication_ns: s.exposed_communication(),
            exposed_memory_ns: s.exposed_memory(),
            communication_ns: s.communication(),
            memory_ns: s.memory(),
            busy_ns: s.busy(),
        });
    };
    for work in &trace.devices {
        for w in wanted() {
            push(work.device, if work.is_gpu { "gpu" } else { "cpu" }, w, work.timeline.shares_in_all(&w.parts));
        }
    }
    if trace.devices.is_empty() {
        wanted().for_each(|w| push(None, "none", w, TimePerSet::default()));
    }
    table.finish()
}

#[derive(Debug, Clone, Copy, Default)]
struct CellSums {
    count: i64,
    ns: Ns,
    own: Ns,
}

impl CellSums {
    fn add(&mut self, ns: Ns, own: Ns) {
        self.count += 1;
        self.ns += ns;
        self.own += own;
    }
}

/// Sums by key and step.
#[derive(Default)]
struct SumsByStep {
    /// Key: side, class, name, owner.
    keys: Vec<(&'static str, &'static str, String, Option<String>)>,
    captures: Vec<CellSums>,
    steps: HashMap<(u32, u32), CellSums>,
}

impl SumsByStep {
    fn key(&mut self, side: &'static str, class: &'static str, name: &str, owner: Option<&str>) -> u32 {
        self.keys.push((side, class, name.to_string(), owner.map(str::to_string)));
        self.captures.push(CellSums::default());
        (self.keys.len() - 1) as u32
    }

    fn add(&mut self, key: u32, step: Option<u32>, ns: Ns, own: Ns) {
        if let Some(sums) = self.captures.get_mut(key as usize) {
            sums.add(ns, own);
        }
        if let Some(step) = step {
            self.steps.entry((key, step)).or_default().add(ns, own);
        }
    }

    /// Sorts keys by text, so that the result does not depend on ids in the file.
    fn finish(self) -> (Batch, Batch) {
        let mut order: Vec<u32> = (0..self.keys.len() as u32).collect();
        order.sort_by_key(|&k| &self.keys[k as usize]);
        let mut place = vec![0u32; order.len()];
        let mut keys = MappedKeys::default();
        for (i, &k) in order.iter().enumerate() {
            place[k as usize] = i as u32;
            let (side, class, name, owner) = &self.keys[k as usize];
            keys.push(MappedKeyRow { side, class, name, owner: owner.as_deref() });
        }
        let captures = self.captures.iter().enumerate().map(|(k, s)| (place[k], None, *s));
        let steps = self.steps.iter().map(|(&(k, step), s)| (place[k as usize], Some(step), *s));
        let mut all: Vec<(u32, Option<u32>, CellSums)> = captures.chain(steps).collect();
        all.sort_unstable_by_key(|c| (c.0, c.1));
        let mut cells = MappedCells::default();
        for (key, step, s) in all {
            cells.push(MappedCellRow { key, step, count: s.count, sum_ns: s.ns, self_ns: s.own });
        }
        (keys.finish(), cells.finish())
    }
}

fn gpu<'a>(
    trace: &'a RankTrace,
    options: &Options,
    module: impl Fn(u32) -> Option<&'a str>,
    keep: &[bool],
    cells: &mut SumsByStep,
) {
    let by = options.settings.text(&BY).unwrap_or_default();
    let categories = (by == "category").then(|| KernelWorks::of(trace));
    let nodes = GraphNodes::of(trace);
    // By operator and text of the dimensions.
    let mut with_shapes: HashMap<(StrId, Option<StrId>), StrId> = HashMap::new();
    let mut owners = Interner::default();
    let mut known: HashMap<(WorkClass, StrId, Option<StrId>), u32> = HashMap::new();
    for (i, a) in (0..).zip(&trace.activities) {
        let call = nodes.owner(trace, i);
        let owner = match (by, call) {
            ("category", _) => categories.as_ref().map(|c| owners.intern(c.at(i).category.name())),
            ("op" | "op,shape" | "module", _) if a.launch().is_none() => Some(owners.intern(UNLINKED)),
            ("op" | "op,shape", None) => Some(owners.intern(NO_OPERATOR)),
            ("op", Some(call)) => Some(owners.intern(trace.text(nodes.name(trace, call)))),
            ("module", call) => {
                let of_launch = || module(a.launch()?);
                let path = match call {
                    Some(OperatorCall::Row(op)) => module(op),
                    Some(OperatorCall::Captured(_, operator)) => {
                        nodes.operator(operator).and_then(|o| o.module).map(|m| trace.text(m))
                    }
                    None => None,
                };
                Some(owners.intern(path.or_else(of_launch).unwrap_or(NO_MODULE)))
            }
            ("op,shape", Some(call)) => {
                let name = nodes.name(trace, call);
                let [dims, ..] = nodes.inputs(trace, call);
                Some(*with_shapes.entry((name, dims)).or_insert_with(|| {
                    let dims = dims.map_or("", |d| trace.text(d));
                    owners.intern(format!("{} {dims}", trace.text(name)).trim_end())
                }))
            }
            _ => None,
        };
        let key = *known
            .entry((a.work, a.name, owner))
            .or_insert_with(|| cells.key("gpu", a.work.name(), trace.text(a.name), owner.map(|o| owners.get(o))));
        let step = a.step().filter(|s| keep.get(*s as usize) == Some(&true));
        cells.add(key, step, a.span.len(), a.span.len());
    }
}

fn host(trace: &RankTrace, has_steps: bool, keep: &[bool], cells: &mut SumsByStep) {
    let c = &trace.columns;
    // A step's own annotation is left out: it is the step itself, and its name contains a number.
    let steps: BTreeSet<StrId> = trace.steps.steps.iter().filter(|_| has_steps).map(|s| s.name).collect();
    let mut known: HashMap<(Class, StrId), u32> = HashMap::new();
    for (row, class) in trace.classes.iter().enumerate().filter(|(_, k)| k.is_host()) {
        if *class == Class::Annotation && steps.contains(&c.name(row)) {
            continue;
        }
        let key = *known
            .entry((*class, c.name(row)))
            .or_insert_with(|| cells.key("host", class.name(), trace.text(c.name(row)), None));
        let step = trace.steps.at(c.ts[row]).filter(|s| keep.get(*s as usize) == Some(&true));
        cells.add(key, step, c.dur[row], trace.stacks.self_ns(row as u32).unwrap_or(c.dur[row]));
    }
}

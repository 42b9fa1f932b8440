//! The mapper of a diff. For one rank it makes tables of its steps, and of the count and time of activities and host
//! events by name and step.
//!
//! The size of the tables depends on the number of names and steps, not of events. A null step stands for the whole
//! capture, for sets without steps.

use crate::analysis::api::{Options, Partial};
use crate::diagnosis::recording::overhead;
use crate::diff::BY;
use crate::table;
use crate::table::schema::{Batch, Text};
use crate::trace::category::Class;
use crate::trace::meta::Meta;
use crate::trace::rank_trace::RankTrace;
use crate::trace::step::{Step, StepRule};
use crate::trace::strings::{Interner, StrId};
use crate::trace::thread::{innermost_at, sort_outer_first};
use crate::trace::timeline::{TimePerSet, WorkClass};
use crate::trace::window::{Scope, Window, windows};
use crate::units::Ns;
use hashbrown::HashMap;
use std::collections::{BTreeMap, BTreeSet};

table! {
    /// One rank of a set.
    pub struct MappedRanks, MappedRankRow = "diff_map_ranks" by "rank" {
        rank;
        world_size: Option<u32>, "ranks", "ranks of the job, as recorded in the file";
        device_name: Option<Text>, "", "first device";
        has_modules: bool, "", "frames of nn.Module are recorded (looked for with --by module)";
        has_frames: bool, "", "Python frames are recorded";
        has_shapes: Option<bool>, "", "shapes of inputs are recorded, as the file says";
        versions: Option<Text>, "", "versions of the driver and the runtime, as the file says";
        recorded_ns: i64, "ns", "capture";
        overhead_ns: i64, "ns", "time of it in which the profiler itself worked";
    }
}

table! {
    /// One window of one device: a step, or the capture.
    pub struct MappedSteps, MappedStepRow = "diff_map_steps" by "device, step" {
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
    pub struct MappedKeys, MappedKeyRow = "diff_map_keys" by "side, class, name, owner" {
        side: Text, "", "gpu or host";
        class: Text, "", "class or category";
        name: Text, "", "full name";
        owner: Option<Text>, "", "operator or module (with --by)";
    }
}

table! {
    /// Sums of one key in one step.
    pub struct MappedCells, MappedCellRow = "diff_map_cells" by "key, step" {
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

pub fn map(trace: &RankTrace, options: &Options) -> Partial {
    let has_steps = trace.steps.rule != StepRule::Capture;
    let chosen = |s: &Step| has_steps && options.model.steps.as_ref().is_none_or(|f| f.keeps(s.index, s.label));
    let modules = match options.settings.text(&BY) {
        Some("module") => Modules::new(trace),
        _ => Modules::default(),
    };
    let mut ranks = MappedRanks::default();
    let device = trace.devices.iter().find_map(|d| trace.meta.devices.iter().find(|m| Some(m.id) == d.device));
    ranks.push(MappedRankRow {
        rank: trace.rank,
        world_size: trace.meta.world_size,
        device_name: device.map(|d| d.display_name()).as_deref(),
        has_modules: modules.any(),
        has_frames: trace.classes.contains(&Class::Python),
        has_shapes: trace.meta.other.get("record_shapes").map(|v| v != "0"),
        versions: versions(&trace.meta).as_deref(),
        recorded_ns: trace.capture.len(),
        overhead_ns: overhead(trace),
    });
    let keep: Vec<bool> = trace.steps.steps.iter().map(chosen).collect();
    let mut cells = Cells::default();
    gpu(trace, options, &modules, &keep, &mut cells);
    host(trace, has_steps, &keep, &mut cells);
    let (keys, cells) = cells.finish();
    let tables = vec![ranks.finish(), steps(trace, chosen), keys, cells];
    Partial { rank: trace.rank, tables, reason: None }
}

/// Versions of the driver and the runtime that the file names.
fn versions(meta: &Meta) -> Option<String> {
    let named = meta.other.iter().filter(|(key, _)| key.ends_with("_version"));
    let shown: Vec<String> =
        named.map(|(key, value)| format!("{} {value}", key.trim_end_matches("_version"))).collect();
    (!shown.is_empty()).then(|| shown.join(", "))
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
struct Cells {
    /// Key: side, class, name, owner.
    keys: Vec<(&'static str, &'static str, String, Option<String>)>,
    captures: Vec<CellSums>,
    steps: HashMap<(u32, u32), CellSums>,
}

impl Cells {
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

fn gpu(trace: &RankTrace, options: &Options, modules: &Modules, keep: &[bool], cells: &mut Cells) {
    let by = options.settings.text(&BY).unwrap_or_default();
    let of_launch = if by == "module" { modules.of_launches(trace) } else { Vec::new() };
    let mut owners = Interner::default();
    let mut known: HashMap<(WorkClass, StrId, Option<StrId>), u32> = HashMap::new();
    for (i, a) in trace.activities.iter().enumerate() {
        let owner = match by {
            "op" | "module" if a.launch().is_none() => Some(UNLINKED),
            "op" => Some(a.op().map_or(NO_OPERATOR, |op| trace.name(op))),
            "module" => Some(of_launch.get(i).copied().flatten().map_or(NO_MODULE, |m| modules.path(m))),
            _ => None,
        };
        let owner = owner.map(|o| owners.intern(o));
        let key = *known
            .entry((a.work, a.name, owner))
            .or_insert_with(|| cells.key("gpu", a.work.name(), trace.text(a.name), owner.map(|o| owners.get(o))));
        let step = a.step().filter(|s| keep.get(*s as usize) == Some(&true));
        cells.add(key, step, a.span.len(), a.span.len());
    }
}

fn host(trace: &RankTrace, has_steps: bool, keep: &[bool], cells: &mut Cells) {
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

/// Number of levels of a module's path that are kept, so that the number of keys is bounded for any nesting.
const DEEPEST: u32 = 32;

const MODULE: &str = "nn.Module: ";

#[derive(Default)]
struct Modules {
    paths: Interner,
    /// For each frame, the path of the innermost module at or around it.
    of_frame: BTreeMap<u32, (StrId, u32)>,
    /// Frames of modules by thread, outer first.
    by_lane: BTreeMap<u32, Vec<u32>>,
}

impl Modules {
    fn new(trace: &RankTrace) -> Self {
        let c = &trace.columns;
        let mut me = Self::default();
        let is_module: Vec<bool> = c.strings.iter().map(|(_, t)| t.starts_with(MODULE)).collect();
        if !is_module.contains(&true) {
            return me;
        }
        let mut frames: Vec<u32> =
            (0..c.len()).filter(|&r| trace.classes[r] == Class::Python).map(|r| r as u32).collect();
        // Parents are processed before their children.
        sort_outer_first(&mut frames, c);
        for row in frames {
            let around = trace.stacks.parent(row).and_then(|p| me.of_frame.get(&p)).copied();
            if is_module.get(c.name(row as usize).0 as usize) != Some(&true) {
                me.of_frame.extend(around.map(|a| (row, a)));
                continue;
            }
            let name = trace.name(row).trim_start_matches(MODULE);
            let own = match around {
                None => (me.paths.intern(name), 1),
                Some((path, depth)) if depth < DEEPEST => {
                    let path = format!("{}/{name}", me.paths.get(path));
                    (me.paths.intern(&path), depth + 1)
                }
                Some(at_the_limit) => at_the_limit,
            };
            me.of_frame.insert(row, own);
            me.by_lane.entry(c.lane[row as usize]).or_default().push(row);
        }
        me
    }

    fn any(&self) -> bool {
        !self.by_lane.is_empty()
    }

    fn path(&self, frame: u32) -> &str {
        self.of_frame.get(&frame).map_or("", |(path, _)| self.paths.get(*path))
    }

    /// For each activity, the innermost module that is open on the launching thread when the launch call starts.
    fn of_launches(&self, trace: &RankTrace) -> Vec<Option<u32>> {
        let c = &trace.columns;
        let mut found = vec![None; trace.activities.len()];
        let mut asked: BTreeMap<u32, Vec<(Ns, u32)>> = BTreeMap::new();
        for (i, a) in trace.activities.iter().enumerate() {
            if let Some(call) = a.launch() {
                asked.entry(c.lane[call as usize]).or_default().push((c.ts[call as usize], i as u32));
            }
        }
        for (lane, mut queries) in asked {
            let Some(rows) = self.by_lane.get(&lane) else { continue };
            queries.sort_unstable();
            innermost_at(rows, c, &queries, |i, frame| found[i as usize] = frame);
        }
        found
    }
}

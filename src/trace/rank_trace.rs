//! One rank's trace with everything that analyses share: classes, activities, steps, windows, threads.
//!
//! What every analysis needs is computed at construction; what only some need is computed when first requested.

use crate::activity::{Activity, classified, linked};
use crate::args::Arg;
use crate::believable;
use crate::category::{Class, refine};
use crate::device::DeviceWork;
use crate::events::Columns;
use crate::graph_capture::Captures;
use crate::graph_replay::GraphReplays;
use crate::inferred_steps::or_repeats;
use crate::interval::Union;
use crate::launch::{LaunchLinks, is_graph_launch, is_launch_call};
use crate::launch_times::LaunchTimes;
use crate::memory;
use crate::meta::{Device, LARGEST_GROUP, Meta, RankSource};
use crate::overrun::{self, Overruns};
use crate::record_edges::{HIDDEN_MIN, RecordEdges};
use crate::rules::ClassRules;
use crate::shared::SharedFacts;
use crate::stack::{Frames, StackForest};
use crate::step::{Step, StepRule, StepWindow, Steps, find};
use crate::step_window::{device_windows, finish, periods};
use crate::stream_capture::StreamCaptures;
use crate::strings::{StrId, TraceTexts};
use crate::thread::{InnermostTimeline, host_rows};
use crate::timeline::{Timeline, WorkClass};
use crate::unended_frames;
use crate::window::{Scope, Window, windows};
use hta_base::health::{Counter, Health};
use hta_base::units::{Ns, Span, fmt_ns};
use regex::Regex;
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// Options of the data model; the same for all ranks of a set.
pub struct ModelOptions {
    pub rules: ClassRules,
    pub step_pattern: Option<Regex>,
    pub step_window: StepWindow,
    /// Leave out activities without a launch record.
    pub linked_only: bool,
    /// Steps to select; all if absent.
    pub steps: Option<StepFilter>,
    /// Shortest wait of a stream's first activity that is evidence of work from before the recording, ns.
    pub hidden_min: Ns,
    /// Captured graphs whose operators name the kernels of replays.
    pub graph_captures: Arc<Captures>,
}

impl ModelOptions {
    /// Whether a step is selected.
    pub fn selects(&self, step: &Step) -> bool {
        self.steps.as_ref().is_none_or(|f| f.keeps(step.index, step.label))
    }
}

impl Default for ModelOptions {
    /// The options of a command without arguments.
    fn default() -> Self {
        Self {
            rules: ClassRules::builtin(),
            step_pattern: None,
            step_window: StepWindow::default(),
            linked_only: false,
            steps: None,
            hidden_min: HIDDEN_MIN,
            graph_captures: Arc::default(),
        }
    }
}

/// `--steps`: labels, or indices written `@n`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StepFilter {
    pub labels: Vec<(i64, i64)>,
    pub indices: Vec<(u32, u32)>,
}

impl std::fmt::Display for StepFilter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let run = |mark: &str, a: i64, b: i64| match a == b {
            true => format!("{mark}{a}"),
            false => format!("{mark}{a}-{mark}{b}"),
        };
        let labels = self.labels.iter().map(|(a, b)| run("", *a, *b));
        let indices = self.indices.iter().map(|(a, b)| run("@", i64::from(*a), i64::from(*b)));
        f.write_str(&labels.chain(indices).collect::<Vec<_>>().join(","))
    }
}

impl StepFilter {
    pub fn keeps(&self, index: u32, label: Option<i64>) -> bool {
        self.indices.iter().any(|(a, b)| (*a..=*b).contains(&index))
            || label.is_some_and(|l| self.labels.iter().any(|(a, b)| (*a..=*b).contains(&l)))
    }
}

/// One rank, ready for analysis.
pub struct RankTrace {
    pub rank: u32,
    pub rank_source: RankSource,
    pub file: String,
    pub unpacked_bytes: u64,
    pub meta: Meta,
    pub columns: Columns,
    /// One entry per event.
    pub classes: Vec<Class>,
    pub activities: Vec<Activity>,
    pub steps: Steps,
    /// First to last recorded event, without the profiler's own rows.
    pub recorded: Span,
    /// Where the recording begins or ends in the middle of work.
    pub edges: RecordEdges,
    /// The recorded time without the part that lies in the lead or lost tail of every device.
    pub capture: Span,
    pub health: Health,
    /// One entry per device; on a CPU-only rank with host work a single one without a device. None where work was
    /// launched, but no activity is recorded.
    pub devices: Vec<DeviceWork>,
    /// Whether work was launched on a device of which nothing is recorded.
    pub is_device_lost: bool,
    /// Parent, depth and self time of host events.
    pub stacks: StackForest,
    /// Where launches are recorded into graphs instead of run.
    pub stream_captures: StreamCaptures,
    pub graph_replays: GraphReplays,
    /// What was cut off activities that cannot have lasted as long as recorded.
    pub overruns: Overruns,
    pub launch_times: LaunchTimes,
    /// Captured graphs that were given, for this and other ranks.
    pub graph_captures: Arc<Captures>,
    hosts: Vec<(u32, Vec<u32>)>,
    shared: SharedFacts,
    threads: OnceLock<BTreeMap<u32, InnermostTimeline>>,
    launches: OnceLock<LaunchLinks>,
    added_texts: OnceLock<TraceTexts>,
}

/// The windows of the steps on the devices. Those of iterations go on until the next one begins: the gap between two
/// is time that the earlier one cost.
struct DeviceSteps(Vec<Span>);

impl RankTrace {
    pub fn new(
        rank: u32,
        rank_source: RankSource,
        file: String,
        unpacked_bytes: u64,
        meta: Meta,
        mut columns: Columns,
        options: &ModelOptions,
    ) -> Self {
        let mut health = std::mem::take(&mut columns.recorded.health);
        memory::put_in_order(&mut columns.recorded.memory, &mut health);
        let mut classes = classes(&columns);
        let base = meta.base_ns.unwrap_or(0);
        believable::leave_out(&mut columns, &mut classes, base, &mut health);
        let has_frames = !columns.args.column(Arg::PythonId).is_empty();
        let frames = has_frames.then(|| Frames::new(&columns, &classes));
        if let Some(frames) = &frames {
            unended_frames::cut(&mut columns, frames, &mut health);
        }
        // In parallel: GPU activities on one thread, host rows and steps on the other.
        let stream_captures = StreamCaptures::new(&columns, &classes);
        let mut of_hosts = Health::default();
        let ((mut all, overruns), (hosts, found)) = rayon::join(
            || {
                let mut all = linked(&columns, &classes, base, &mut health);
                let overruns = overrun::cut(&mut all, &columns, &mut health);
                (all, overruns)
            },
            || {
                let found = find(&columns, &classes, options.step_pattern.as_ref(), &mut of_hosts);
                (host_rows(&columns, &classes), found)
            },
        );
        health.merge(&of_hosts);
        let is_device_lost = all.is_empty() && launches_work(&columns, &classes, &stream_captures);
        let ((recorded, edges, launched, mut devices, mut steps, launch_times), stacks) = rayon::join(
            || {
                let recorded = capture(&columns, &classes, &all);
                let mut steps = or_repeats(found, &columns, &classes, &all);
                classified(&mut all, &columns, &classes, &hosts, &options.rules, &mut health);
                let launch_times = LaunchTimes::of(&all, &columns, &mut health);
                let window = (options.step_window, recorded);
                finish(&mut steps, &mut all, &columns, &classes, &stream_captures, window);
                let launched: Option<Vec<Activity>> =
                    options.linked_only.then(|| all.iter().filter(|a| a.launch().is_some()).copied().collect());
                let ((), devices) = rayon::join(
                    || count_events(&columns, &classes, &meta, &all, &stream_captures, &mut health),
                    || match all.is_empty() {
                        true if is_device_lost => Vec::new(),
                        true => host_work(&columns, &classes, recorded).into_iter().collect(),
                        false => device_work(launched.as_ref().unwrap_or(&all), recorded),
                    },
                );
                let edges = RecordEdges::new(
                    &columns,
                    &classes,
                    &all,
                    &devices,
                    recorded,
                    options.hidden_min,
                    &stream_captures,
                );
                (recorded, edges, launched, devices, steps, launch_times)
            },
            || StackForest::new(&columns, &classes, &hosts, frames.as_ref()),
        );
        health.add(Counter::OverlapClipped, stacks.clipped, None, "");
        health.add(Counter::OverlapSibling, stacks.siblings, None, "");
        health.add(Counter::FrameOverlap, stacks.overlaps, None, "");
        let capture = narrow(&edges, &mut devices, recorded);
        steps.narrow(capture, edges.lost_calls.iter().map(|&row| columns.ts[row as usize]));
        let all = launched.unwrap_or(all);
        let launches = OnceLock::new();
        let graph_replays = match columns.strings.iter().any(|(_, t)| is_graph_launch(t)) {
            true => GraphReplays::new(&columns, &all, launches.get_or_init(|| LaunchLinks::new(&all))),
            false => GraphReplays::default(),
        };
        health.add(Counter::GraphOrderDiffers, graph_replays.reordered, None, "");
        Self {
            rank,
            rank_source,
            file,
            unpacked_bytes,
            meta,
            columns,
            classes,
            activities: all,
            steps,
            recorded,
            edges,
            capture,
            health,
            devices,
            is_device_lost,
            stacks,
            stream_captures,
            graph_replays,
            overruns,
            launch_times,
            graph_captures: Arc::clone(&options.graph_captures),
            hosts,
            shared: SharedFacts::default(),
            threads: OnceLock::new(),
            launches,
            added_texts: OnceLock::new(),
        }
    }

    /// Whether there are no device activities.
    pub fn is_cpu_only(&self) -> bool {
        !self.devices.iter().any(|d| d.is_gpu)
    }

    /// Why there is no device, if there is none.
    pub fn without_devices(&self) -> Option<&'static str> {
        match (self.devices.is_empty(), self.is_device_lost) {
            (false, _) => None,
            (true, true) => Some("its device was not recorded: none of its launches has a recorded kernel"),
            (true, false) => Some("no GPU activity and no operators"),
        }
    }

    /// The recorded properties of a device. ROCm numbers the devices of activities otherwise than those of properties, so if
    /// no device has the number, those of any one count where all are of one product.
    pub fn device_properties(&self, device: Option<i64>) -> Option<&Device> {
        let devices = &self.meta.devices;
        let first = devices.first()?;
        let is_same =
            |d: &Device| d.name == first.name && d.memory_bytes == first.memory_bytes && d.sm_count == first.sm_count;
        let numbered = device.and_then(|id| devices.iter().find(|d| d.id == id));
        numbered.or_else(|| devices.iter().all(is_same).then_some(first))
    }

    /// The windows of one device for which analyses report.
    pub fn windows(&self, work: &DeviceWork, options: &ModelOptions) -> Vec<Window> {
        self.windows_of(work, |step| options.selects(step))
    }

    /// The windows of one device with the chosen steps; without `outside` unless all are.
    pub fn windows_of(&self, work: &DeviceWork, chosen: impl Fn(&Step) -> bool) -> Vec<Window> {
        let mut all = windows(work.span, work.capture, &self.steps.steps, chosen);
        // A step that the lead or the lost tail covers completely has no window on this device.
        all.retain(|w| w.scope != Scope::Step || !self.is_cut_away(work, w.len()));
        all
    }

    /// The windows from which the account of a job chooses: the device's steps (on a CPU-only rank the host's) and the
    /// span. A step of a device begins with the host's, or when the device has finished the step before, and ends when
    /// the device has finished what was launched in it. So the steps of a device that lags behind its host are counted
    /// in full, unless the host's windows are equal to these (`step_window`).
    pub fn account_windows(&self, work: &DeviceWork, options: &ModelOptions) -> Vec<Window> {
        let mut all = self.windows(work, options);
        all.retain(|w| matches!(w.scope, Scope::Step | Scope::Span));
        let is_marked = options.step_window != StepWindow::Device && self.steps.rule != StepRule::Capture;
        if work.is_gpu && (is_marked || self.steps.are_iterations()) {
            let on_device = self.shared(|t| match (t.steps.are_iterations(), options.step_window) {
                (true, _) => DeviceSteps(periods(&t.steps.steps)),
                // One rule for all: what was chosen for the other analyses.
                (false, StepWindow::Auto) => DeviceSteps(t.steps.steps.iter().map(|s| s.window).collect()),
                (false, _) => DeviceSteps(device_windows(&t.steps.steps, &t.activities)),
            });
            let cut = |w: &mut Window| {
                let Some(span) = w.step.and_then(|i| on_device.0.get(i as usize)) else { return };
                let start = span.start.clamp(work.capture.start, work.capture.end.max(work.capture.start));
                w.scope = Scope::DeviceStep;
                w.parts = vec![Span::new(start, span.end.min(work.capture.end).max(start))];
            };
            all.iter_mut().filter(|w| w.scope == Scope::Step).for_each(cut);
        }
        all
    }

    /// Whether the lead or the lost tail covers a step's window on a device completely, given the window's remaining
    /// length.
    pub fn is_cut_away(&self, work: &DeviceWork, len: Ns) -> bool {
        len == 0 && work.capture != self.recorded
    }

    /// Rows of the host that are the work of a CPU-only rank, each with its class.
    pub fn host_work_rows(&self) -> impl Iterator<Item = (u32, WorkClass)> + '_ {
        host_work_rows(&self.columns, &self.classes)
    }

    /// The text of an id: of the file, or one that was added.
    pub fn text(&self, id: StrId) -> &str {
        let recorded = self.columns.strings.len();
        match (id.0 as usize).checked_sub(recorded) {
            None => self.columns.strings.get(id),
            Some(beyond) => self.added_texts.get().map_or("", |t| t.get(StrId(beyond as u32))),
        }
    }

    /// Adds texts that are not in the file, once. Their ids continue those of the file.
    pub fn add_texts(&self, texts: TraceTexts) {
        self.added_texts.get_or_init(|| texts);
    }

    pub fn name(&self, row: u32) -> &str {
        self.columns.name.get(row as usize).map_or("", |n| self.text(StrId(*n)))
    }

    pub fn span(&self, row: u32) -> Span {
        self.columns.span(row as usize)
    }

    /// Each host thread's time, divided by its innermost open event. Calls of a data loader's `__next__` are marked.
    pub fn threads(&self) -> &BTreeMap<u32, InnermostTimeline> {
        self.threads.get_or_init(|| {
            let c = &self.columns;
            let loader: Vec<bool> = c.strings.iter().map(|(_, t)| is_data_loader(t)).collect();
            let marked = |r: u32| loader.get(c.name(r as usize).0 as usize) == Some(&true);
            self.hosts.iter().map(|(lane, rows)| (*lane, InnermostTimeline::new(rows, c, marked))).collect()
        })
    }

    /// Rows of host events by lane; those of one lane outer first.
    pub fn host_rows(&self) -> &[(u32, Vec<u32>)] {
        &self.hosts
    }

    /// The same of the events that `keeps` wants.
    pub fn host_rows_where(&self, keeps: impl Fn(u32) -> bool) -> impl Iterator<Item = (u32, Vec<u32>)> {
        let kept = move |(lane, rows): &(u32, Vec<u32>)| {
            let kept: Vec<u32> = rows.iter().copied().filter(|row| keeps(*row)).collect();
            (!kept.is_empty()).then_some((*lane, kept))
        };
        self.hosts.iter().filter_map(kept)
    }

    /// Shared data of several analyses, identified by its type; computed when first requested.
    pub fn shared<T: Any + Send + Sync>(&self, make: impl FnOnce(&Self) -> T) -> Arc<T> {
        self.shared.get(|| make(self))
    }

    pub fn launches(&self) -> &LaunchLinks {
        self.launches.get_or_init(|| LaunchLinks::new(&self.activities))
    }

    /// The pieces of one thread; `None` for a thread without host events.
    pub fn thread(&self, lane: u32) -> Option<&InnermostTimeline> {
        self.threads().get(&lane)
    }

    /// The main thread: the thread of the steps, else the one whose id is its process id, else the one with most
    /// operators.
    pub fn main_thread(&self) -> Option<u32> {
        let c = &self.columns;
        if self.steps.lane.is_some() {
            return self.steps.lane;
        }
        let step_name = self.steps.steps.first().map(|s| s.name);
        let of_step = step_name.and_then(|n| {
            (0..c.len()).find(|&r| c.name(r) == n && self.classes[r] == Class::Annotation).map(|r| c.lane[r])
        });
        of_step.or_else(|| {
            let mut ops: BTreeMap<u32, u64> = BTreeMap::new();
            for row in (0..c.len()).filter(|&r| self.classes[r] == Class::HostOp) {
                *ops.entry(c.lane[row]).or_default() += 1;
            }
            let is_main =
                |l: &u32| c.lanes.get(*l as usize).is_some_and(|x| x.pid_num.is_some() && x.pid_num == x.tid_num);
            let main = ops.keys().copied().find(is_main);
            main.or_else(|| ops.iter().max_by_key(|(l, n)| (**n, std::cmp::Reverse(**l))).map(|(l, _)| *l))
        })
    }
}

fn is_data_loader(name: &str) -> bool {
    (name.starts_with("enumerate(DataLoader)#") || name.starts_with("enumerate(DataPipe)#"))
        && name.contains("__next__")
}

fn classes(c: &Columns) -> Vec<Class> {
    let plain =
        |k: &crate::events::SpelledCategory| !(k.class == Class::HostOp && k.legacy) && k.class != Class::Kernel;
    let simple: Vec<Option<Class>> = c.categories.iter().map(|k| plain(k).then_some(k.class)).collect();
    (0..c.len())
        .map(|row| {
            let Some(cat) = c.categories.get(usize::from(c.cat[row])) else { return Class::Unknown };
            simple
                .get(usize::from(c.cat[row]))
                .copied()
                .flatten()
                .unwrap_or_else(|| refine(cat.class, c.strings.get(cat.text), c.strings.get(c.name(row))))
        })
        .collect()
}

/// Whether an event is host communication of a CPU job, by its name.
pub fn is_host_communication(class: Class, name: &str) -> bool {
    ["gloo:", "mpi:", "ucc:", "nccl:"].iter().any(|p| name.starts_with(p))
        || (class == Class::HostOp && (name.starts_with("c10d::") || name == "record_param_comms"))
}

fn capture(c: &Columns, classes: &[Class], all: &[Activity]) -> Span {
    let mut gpu = vec![false; if all.is_empty() { 0 } else { c.len() }];
    for a in all {
        gpu[a.row as usize] = true;
    }
    let mut span: Option<Span> = None;
    for (row, class) in classes.iter().enumerate() {
        // Activities with impossible times do not extend the capture.
        if class.is_profilers_own() || (class.is_gpu() && gpu.get(row) != Some(&true)) {
            continue;
        }
        let Span { start, end } = c.span(row);
        span = Some(span.map_or(Span::new(start, end), |s| Span::new(s.start.min(start), s.end.max(end))));
    }
    if let Some((start, end)) = c.unloaded {
        span = Some(span.map_or(Span::new(start, end), |s| Span::new(s.start.min(start), s.end.max(end))));
    }
    span.unwrap_or(Span::new(0, 0))
}

/// Removes leads and lost tails from the devices' captures. Returns the capture of the whole rank.
fn narrow(edges: &RecordEdges, devices: &mut [DeviceWork], recorded: Span) -> Span {
    let mut left: Option<Span> = None;
    for d in devices.iter_mut().filter(|d| d.is_gpu) {
        d.capture = edges.window(d.device, recorded);
        d.span = d.span.map(|s| s.intersect(d.capture)).filter(|s| s.start <= s.end);
        left = Some(left.map_or(d.capture, |l| Span::new(l.start.min(d.capture.start), l.end.max(d.capture.end))));
    }
    left.unwrap_or(recorded)
}

fn device_work(all: &[Activity], recorded: Span) -> Vec<DeviceWork> {
    let mut by_device: BTreeMap<Option<i64>, Vec<u32>> = BTreeMap::new();
    for (i, a) in all.iter().enumerate() {
        by_device.entry(a.device()).or_default().push(i as u32);
    }
    let build = |(device, activities): (Option<i64>, Vec<u32>)| {
        let of = || activities.iter().map(|&i| &all[i as usize]);
        let start = of().map(|a| a.span.start).min();
        let end = of().map(|a| a.span.end).max();
        DeviceWork {
            device,
            is_gpu: true,
            timeline: Timeline::new(of().map(|a| (a.span, a.work))),
            span: start.zip(end).map(|(s, e)| Span::new(s, e)),
            capture: recorded,
            activities,
        }
    };
    by_device.into_iter().map(build).collect()
}

/// Whether a call submits work to a device instead of recording it into a graph. Not so where the profiler reads
/// counters: then it records ranges with counters in place of activities.
fn launches_work(c: &Columns, classes: &[Class], captures: &StreamCaptures) -> bool {
    if classes.contains(&Class::Counter) {
        return false;
    }
    let is_launch: Vec<bool> = c.strings.iter().map(|(_, t)| is_launch_call(t)).collect();
    let mut calls = (0u32..).zip(classes).filter(|(_, class)| **class == Class::Runtime).map(|(row, _)| row);
    calls.any(|row| is_launch.get(c.name(row as usize).0 as usize) == Some(&true) && !captures.hold(c, row))
}

/// Rows of the host that are the work of a CPU-only rank: operators and communication ranges. Calls of a device's
/// runtime are no work: there they wait or ask for memory.
fn host_work_rows<'a>(c: &'a Columns, classes: &'a [Class]) -> impl Iterator<Item = (u32, WorkClass)> + 'a {
    let communicates: Vec<(bool, bool)> = c
        .strings
        .iter()
        .map(|(_, t)| (is_host_communication(Class::HostOp, t), is_host_communication(Class::Annotation, t)))
        .collect();
    (0u32..).zip(classes).filter_map(move |(row, class)| {
        let (as_op, as_other) = communicates.get(c.name(row as usize).0 as usize).copied().unwrap_or_default();
        match class {
            Class::HostOp if as_op => Some((row, WorkClass::Communication)),
            Class::HostOp => Some((row, WorkClass::Compute)),
            Class::Annotation if as_other => Some((row, WorkClass::Communication)),
            Class::Collective => Some((row, WorkClass::Communication)),
            _ => None,
        }
    })
}

/// The host work of a CPU-only rank, without the calls of a device's runtime inside operators.
fn host_work(c: &Columns, classes: &[Class], recorded: Span) -> Option<DeviceWork> {
    let mut calls: BTreeMap<u32, Vec<Span>> = BTreeMap::new();
    for row in (0..c.len()).filter(|&row| classes[row] == Class::Runtime) {
        calls.entry(c.lane[row]).or_default().push(c.span(row));
    }
    let calls: BTreeMap<u32, Union> = calls.into_iter().map(|(lane, spans)| (lane, Union::new(spans))).collect();
    let work = host_work_rows(c, classes).flat_map(|(row, class)| {
        let span = c.span(row as usize);
        let calls = calls.get(&c.lane[row as usize]).filter(|_| class == WorkClass::Compute);
        calls.map_or_else(|| vec![span], |calls| calls.gaps_in(span)).into_iter().map(move |span| (span, class))
    });
    let timeline = Timeline::new(work);
    let first = timeline.segments().first()?.span.start;
    let last = timeline.segments().last()?.span.end;
    Some(DeviceWork {
        device: None,
        is_gpu: false,
        activities: Vec::new(),
        timeline,
        span: Some(Span::new(first, last)),
        capture: recorded,
    })
}

/// Counts conditions that concern all events.
fn count_events(
    c: &Columns,
    classes: &[Class],
    meta: &Meta,
    all: &[Activity],
    stream_captures: &StreamCaptures,
    health: &mut Health,
) {
    let (mut zero, mut unknown, mut missing, mut overhead, mut sync, mut moved) = (0, 0, 0, 0, 0, 0);
    let mut unknown_name = String::new();
    let mut legacy = 0;
    let mut not_integer = 0;
    let unknown_text = c.strings.lookup(b"unknown");
    let mut lost = 0;
    let mut overhead_ns = 0;
    for (row, class) in classes.iter().enumerate() {
        zero += u64::from(c.dur[row] == 0);
        let cat = c.categories.get(usize::from(c.cat[row]));
        legacy += u64::from(cat.is_some_and(|k| k.legacy));
        let lane = c.lanes.get(c.lane[row] as usize);
        not_integer += u64::from(lane.is_some_and(|l| l.tid_num.is_none()));
        lost += u64::from(unknown_text == Some(c.name(row)));
        match class {
            Class::Unknown if cat.is_none_or(|k| k.text == StrId::EMPTY) => missing += 1,
            Class::Unknown => {
                unknown += 1;
                if unknown_name.is_empty() {
                    unknown_name = cat.map_or(String::new(), |k| c.strings.get(k.text).to_string());
                }
            }
            Class::Overhead => {
                overhead += 1;
                overhead_ns += c.dur[row];
            }
            Class::Sync => {
                sync += 1;
                moved += u64::from(lane.and_then(|l| l.tid_num).is_some_and(|t| t >= 1_000_000));
            }
            _ => {}
        }
    }
    let streams = c.args.column(Arg::Stream);
    let on_host = streams.rows().filter(|r| classes.get(*r as usize) == Some(&Class::HostOp)).count();
    let finished = c.args.column(Arg::Finished);
    let unfinished = finished
        .iter()
        .filter(|(r, v)| *v == 0 && matches!(classes.get(*r as usize), Some(Class::HostOp | Class::Annotation)));
    let too_large = |v: u64| i64::try_from(v).is_ok_and(|v| v > i64::from(LARGEST_GROUP));
    let mut sizes = c.args.column(Arg::GroupSize).iter().map(|(_, v)| v).filter(|v| too_large(*v));
    if let Some(first) = sizes.next() {
        health.add(Counter::GroupTooLarge, 1 + sizes.count() as u64, None, &first.to_string());
    }
    let unpaired: u64 = c.flow_counts.values().map(|[s, f]| s.abs_diff(*f)).sum();
    health.add(Counter::DurZero, zero, None, "");
    health.add(Counter::UnknownCategory, unknown, None, &unknown_name);
    health.add(Counter::MissingCategory, missing, None, "");
    health.add(Counter::ProfilerOverhead, overhead, None, &fmt_ns(overhead_ns));
    health.add(Counter::SyncRowExcluded, sync, None, "");
    health.add(Counter::SyncRowMoved, moved, None, "");
    health.add(Counter::LegacyCategory, legacy, None, "");
    health.add(Counter::TidNotInteger, not_integer, None, "");
    health.add(Counter::NameUnknown, lost, None, "");
    health.add(Counter::HostStreamArg, on_host as u64, None, "");
    health.add(Counter::Unfinished, unfinished.count() as u64, None, "");
    health.add(Counter::FlowUnpaired, unpaired, None, "");
    let nameless = meta.devices.iter().filter(|d| d.name.is_empty()).count();
    health.add(Counter::DeviceNameEmpty, nameless as u64, None, "");
    let communicates = all.iter().any(|a| a.work == WorkClass::Communication);
    if meta.world_size.is_some_and(|w| w > 1) && !all.is_empty() && !communicates {
        health.note(Counter::NoCommunicationFound, "");
    }
    health.add(Counter::LaunchWithoutKernel, idle_launches(c, classes, all, stream_captures), None, "");
}

/// Number of launch calls that started nothing and were not captured into a graph.
fn idle_launches(c: &Columns, classes: &[Class], all: &[Activity], stream_captures: &StreamCaptures) -> u64 {
    let mut launching = vec![false; c.len()];
    all.iter().filter_map(|a| a.launch()).for_each(|l| launching[l as usize] = true);
    let mut known: Vec<Option<bool>> = vec![None; c.strings.len()];
    let idle = (0..c.len()).filter(|&r| {
        let mut is_launch = || match known.get_mut(c.name(r).0 as usize) {
            Some(known) => *known.get_or_insert_with(|| is_launch_call(c.strings.get(c.name(r)))),
            None => false,
        };
        classes[r] == Class::Runtime && !launching[r] && is_launch() && !stream_captures.hold(c, r as u32)
    });
    idle.count() as u64
}

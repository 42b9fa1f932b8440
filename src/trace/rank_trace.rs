//! One rank's trace with everything that analyses share: classes, activities, steps, windows, threads.
//!
//! What every analysis needs is computed at construction; what only some need is computed when first
//! requested.

use crate::activity::{Activity, classified, linked};
use crate::args::Arg;
use crate::believable;
use crate::category::{Class, refine};
use crate::device::{DeviceWork, capture, device_work, host_work, host_work_rows, launches_work};
use crate::device_offset::{self, DeviceOffset};
use crate::event_counts::count_events;
use crate::events::Columns;
use crate::graph_capture::Captures;
use crate::graph_replay::GraphReplays;
use crate::hardware_counters::RecordedCounters;
use crate::inferred_steps::or_repeats;
use crate::launch::{LaunchLinks, is_graph_launch};
use crate::launch_times::LaunchTimes;
use crate::loop_steps::or_loop;
use crate::memory;
use crate::meta::{Device, DeviceNumbers, Meta, RankSource};
use crate::overrun::{self, Overruns};
use crate::record_edges::RecordEdges;
use crate::shared::SharedFacts;
use crate::stack::{Frames, StackForest};
use crate::step::{Step, StepRule, StepWindow, Steps, find};
use crate::step_window::{device_windows, finish, leave_out_time, periods, step_periods};
use crate::stream_capture::StreamCaptures;
use crate::strings::{StrId, TraceTexts};
use crate::thread::{InnermostTimeline, host_rows};
use crate::timeline::WorkClass;
use crate::title::{self, CollectiveOps};
use crate::unended_frames;
use crate::window::{Scope, Window, windows};
use hta_base::health::{Counter, Health};
use hta_base::units::{Ns, Span};
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

pub use crate::device::is_host_communication;
pub use crate::model_options::{ModelOptions, StepFilter};

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
    /// Samples of hardware counters, with the time for which each stands.
    pub counters: RecordedCounters,
    /// One entry per device; on a CPU-only rank with host work a single one without a device. None where work
    /// was launched, but no activity is recorded.
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
    /// By how much the times of devices were moved, because their clocks are off that of the host.
    pub device_offsets: Vec<DeviceOffset>,
    /// Captured graphs that were given, for this and other ranks.
    pub graph_captures: Arc<Captures>,
    hosts: Vec<(u32, Vec<u32>)>,
    shared: SharedFacts,
    threads: OnceLock<BTreeMap<u32, InnermostTimeline>>,
    launches: OnceLock<LaunchLinks>,
    added_texts: OnceLock<TraceTexts>,
}

/// What was read of a rank, for what follows from it.
struct ReadEvents<'a> {
    c: &'a Columns,
    classes: &'a [Class],
    collectives: &'a CollectiveOps,
    meta: &'a Meta,
    hosts: &'a [(u32, Vec<u32>)],
    stream_captures: &'a StreamCaptures,
}

/// What ran on the devices, or is the work of a rank without one.
struct WorkOfDevices {
    recorded: Span,
    edges: RecordEdges,
    /// The activities with a launch record, where the others are left out.
    launched: Option<Vec<Activity>>,
    devices: Vec<DeviceWork>,
    steps: Steps,
    launch_times: LaunchTimes,
    is_device_lost: bool,
}

impl ReadEvents<'_> {
    fn work_of_devices(
        &self,
        all: &mut Vec<Activity>,
        (found, is_clock_moved): (Steps, bool),
        options: &ModelOptions,
        health: &mut Health,
    ) -> WorkOfDevices {
        let Self { c, classes, collectives, meta, hosts, stream_captures } = *self;
        let is_device_lost = all.is_empty() && launches_work(c, classes, stream_captures);
        let recorded = capture(c, classes, all);
        let mut steps = or_repeats(found, c, classes, collectives, all);
        classified(all, c, classes, hosts, &options.rules, health);
        let launch_times = LaunchTimes::of(all, c, health);
        // Where the clock was moved by the least delay, no delay is evidence of work from before.
        let hidden_min = if is_clock_moved { Ns::MAX } else { options.hidden_min };
        finish(&mut steps, all, c, classes, stream_captures, (options.step_window, recorded));
        let launched: Option<Vec<Activity>> =
            options.linked_only.then(|| all.iter().filter(|a| a.launch().is_some()).copied().collect());
        let ((), devices) = rayon::join(
            || count_events(c, classes, meta, all, stream_captures, health),
            || match all.is_empty() {
                true if is_device_lost => Vec::new(),
                true => host_work(c, classes, recorded).into_iter().collect(),
                false => device_work(launched.as_ref().unwrap_or(all), recorded),
            },
        );
        let edges = RecordEdges::new(c, classes, all, &devices, recorded, hidden_min, stream_captures);
        WorkOfDevices { recorded, edges, launched, devices, steps, launch_times, is_device_lost }
    }
}

/// The windows of the steps on the devices. Those of iterations go on until the next one begins: the gap
/// between two is time that the earlier one cost.
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
        let base = meta.base_ns.unwrap_or(0);
        let (classes, collectives, frames) = prepare(&mut columns, base, &mut health);
        // In parallel: GPU activities on one thread, host rows and steps on the other.
        let mut of_hosts = Health::default();
        let ((mut all, overruns), (hosts, found)) = rayon::join(
            || {
                let mut all = linked(&columns, &classes, base, &mut health);
                let overruns = overrun::cut(&mut all, &columns, &mut health);
                (all, overruns)
            },
            || {
                let found =
                    find(&columns, &classes, &collectives, options.step_pattern.as_ref(), &mut of_hosts);
                (host_rows(&columns, &classes), or_loop(found, &columns, &classes))
            },
        );
        health.merge(&of_hosts);
        let device_offsets = device_offset::remove(&mut all, &mut columns, &classes, &mut health);
        let stream_captures = StreamCaptures::new(&columns, &classes);
        let read = ReadEvents {
            c: &columns,
            classes: &classes,
            collectives: &collectives,
            meta: &meta,
            hosts: &hosts,
            stream_captures: &stream_captures,
        };
        let (
            WorkOfDevices { recorded, edges, launched, mut devices, mut steps, launch_times, is_device_lost },
            stacks,
        ) = rayon::join(
            || read.work_of_devices(&mut all, (found, !device_offsets.is_empty()), options, &mut health),
            || StackForest::new(&columns, &classes, &hosts, frames.as_ref()),
        );
        stacks.tell(&mut health);
        let capture = narrow(&edges, &mut devices, recorded);
        steps.narrow(capture, edges.lost_calls.iter().map(|&row| columns.ts[row as usize]));
        let (all, launches) = (launched.unwrap_or(all), OnceLock::new());
        let graph_replays = graph_replays(&columns, &all, &launches, &mut health);
        Self {
            counters: recorded_counters(&columns, &devices, capture, &mut health),
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
            device_offsets,
            graph_captures: Arc::clone(&options.graph_captures),
            hosts,
            shared: SharedFacts::default(),
            threads: OnceLock::new(),
            launches,
            added_texts: OnceLock::new(),
        }
    }

    /// The rank inside its program, as its process groups count: of a job of one program the rank itself.
    pub fn group_rank(&self) -> u32 {
        self.meta.role.as_ref().map_or(self.rank, |role| role.rank)
    }

    /// Whether there are no device activities.
    pub fn is_cpu_only(&self) -> bool {
        !self.devices.iter().any(|d| d.is_gpu)
    }

    /// Summed duration of all activities, ns.
    pub fn gpu_ns(&self) -> Ns {
        self.activities.iter().map(|a| a.span.len()).sum()
    }

    /// Summed duration of the activities without a launch record, ns.
    pub fn unlinked_ns(&self) -> Ns {
        self.launches().unlinked.iter().map(|&i| self.activities[i as usize].span.len()).sum()
    }

    /// Why there is no device, if there is none.
    pub fn without_devices(&self) -> Option<&'static str> {
        match (self.devices.is_empty(), self.is_device_lost, self.columns.is_cut) {
            (false, ..) => None,
            (true, true, true) => Some("its file is cut: no kernel of its launches stands before the cut"),
            (true, true, false) => {
                Some("its device was not recorded: none of its launches has a recorded kernel")
            }
            (true, false, true) => {
                Some("its file is cut: no GPU activity and no operator stands before the cut")
            }
            (true, false, false) => Some("no GPU activity and no operators"),
        }
    }

    /// The recorded properties of a device. ROCm numbers the devices of activities otherwise than those of
    /// properties, so if no device has the number, those of any one count where all are of one product.
    pub fn device_properties(&self, device: Option<i64>) -> Option<&Device> {
        let numbers = self.shared(|trace| DeviceNumbers::new(&trace.meta.devices));
        self.meta.devices.get(numbers.place(device)?)
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

    /// The windows from which the account of a job chooses: the device's steps (on a CPU-only rank the
    /// host's) and the span. A step of a device begins with the host's, or when the device has finished the
    /// step before, and ends when the device has finished what was launched in it. So the steps of a device
    /// that lags behind its host are counted in full, unless the host's windows are equal to these
    /// (`step_window`). Where much time lies between the steps and the user chose no window, a step begins
    /// with the end of the one before.
    pub fn account_windows(&self, work: &DeviceWork, options: &ModelOptions) -> Vec<Window> {
        let mut all = self.windows(work, options);
        all.retain(|w| matches!(w.scope, Scope::Step | Scope::Span));
        let is_marked = options.step_window != StepWindow::Device && self.steps.rule != StepRule::Capture;
        let is_cut = work.is_gpu || self.has_periods(options);
        if is_cut && (is_marked || self.steps.are_iterations()) {
            let on_device = self.shared(|t| match (t.steps.are_iterations(), options.step_window) {
                (true, _) => {
                    let of = |a: &Activity| Some((t.span(a.launch()?).start, a.span.end));
                    let all = t.activities.iter().filter(|a| a.work == WorkClass::Communication);
                    DeviceSteps(periods(&t.steps.steps, &all.filter_map(of).collect::<Vec<_>>()))
                }
                _ if t.has_periods(options) => DeviceSteps(step_periods(&t.steps.steps)),
                // One rule for all: what was chosen for the other analyses.
                (false, StepWindow::Auto) => DeviceSteps(t.steps.steps.iter().map(|s| s.window).collect()),
                (false, _) => DeviceSteps(device_windows(&t.steps.steps, &t.activities)),
            });
            all.iter_mut().filter(|w| w.scope == Scope::Step).for_each(|w: &mut Window| {
                let Some(span) = w.step.and_then(|i| on_device.0.get(i as usize)) else { return };
                let start = span.start.clamp(work.capture.start, work.capture.end.max(work.capture.start));
                w.scope = Scope::DeviceStep;
                w.set_parts(vec![Span::new(start, span.end.min(work.capture.end).max(start))]);
            });
        }
        all
    }

    /// Whether the steps of the account begin with the end of the one before, because much time lies between
    /// them.
    pub fn has_periods(&self, options: &ModelOptions) -> bool {
        let is_open = options.step_window == StepWindow::Auto && self.steps.rule != StepRule::Capture;
        is_open && !self.steps.are_iterations() && leave_out_time(&self.steps.steps)
    }

    /// Whether the lead or the lost tail covers a step's window on a device completely, given the window's
    /// remaining length.
    pub fn is_cut_away(&self, work: &DeviceWork, len: Ns) -> bool {
        len == 0 && work.capture != self.recorded
    }

    /// Rows of the host that are the work of a CPU-only rank, each with its class.
    pub fn host_work_rows(&self) -> impl Iterator<Item = (u32, WorkClass)> + '_ {
        host_work_rows(&self.columns, &self.classes)
    }

    /// The text of an id: of the file, or one that was added.
    #[inline]
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

    #[inline]
    pub fn name(&self, row: u32) -> &str {
        self.columns.name.get(row as usize).map_or("", |n| self.text(StrId(*n)))
    }

    #[inline]
    pub fn span(&self, row: u32) -> Span {
        self.columns.span(row as usize)
    }

    /// Each host thread's time, divided by its innermost open event. Calls of a data loader's `__next__` are
    /// marked.
    pub fn threads(&self) -> &BTreeMap<u32, InnermostTimeline> {
        self.threads.get_or_init(|| {
            let c = &self.columns;
            let loader = c.strings.each(is_data_loader);
            let marked = |r: u32| loader.holds(c.name(r as usize));
            self.hosts.iter().map(|(lane, rows)| (*lane, InnermostTimeline::new(rows, c, marked))).collect()
        })
    }

    /// Rows of host events by lane; those of one lane outer first.
    pub fn host_rows(&self) -> &[(u32, Vec<u32>)] {
        &self.hosts
    }

    /// Those of one lane.
    pub fn host_rows_of(&self, lane: u32) -> Option<&[u32]> {
        let at = self.hosts.binary_search_by_key(&lane, |(of, _)| *of).ok()?;
        self.hosts.get(at).map(|(_, rows)| rows.as_slice())
    }

    /// The same of the events that `keeps` wants.
    pub fn host_rows_where(&self, keeps: impl Fn(u32) -> bool) -> impl Iterator<Item = (u32, Vec<u32>)> {
        self.hosts.iter().filter_map(move |(lane, rows): &(u32, Vec<u32>)| {
            let kept: Vec<u32> = rows.iter().copied().filter(|row| keeps(*row)).collect();
            (!kept.is_empty()).then_some((*lane, kept))
        })
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

    /// The main thread: the thread of the steps, else the one whose id is its process id, else the one with
    /// most operators.
    pub fn main_thread(&self) -> Option<u32> {
        self.shared(|trace| MainThread(trace.find_main_thread())).0
    }

    fn find_main_thread(&self) -> Option<u32> {
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
            let main = ops.keys().copied().find(|l: &u32| {
                c.lanes.get(*l as usize).is_some_and(|x| x.pid_num.is_some() && x.pid_num == x.tid_num)
            });
            main.or_else(|| ops.iter().max_by_key(|(l, n)| (**n, std::cmp::Reverse(**l))).map(|(l, _)| *l))
        })
    }
}

/// The main thread of a rank, which is found once.
struct MainThread(Option<u32>);

/// Brings what was read into order, and gives each event its class and each Python frame its length.
fn prepare(
    columns: &mut Columns,
    base: Ns,
    health: &mut Health,
) -> (Vec<Class>, CollectiveOps, Option<Frames>) {
    memory::put_in_order(&mut columns.recorded.memory, health);
    let mut classes = classes(columns);
    believable::leave_out(columns, &mut classes, base, health);
    let collectives = CollectiveOps::new(columns, &classes);
    title::mark(columns, &mut classes, &collectives);
    let has_frames = !columns.args.column(Arg::PythonId).is_empty();
    let frames = has_frames.then(|| Frames::new(columns, &classes));
    if let Some(frames) = &frames {
        unended_frames::cut(columns, frames, health);
    }
    (classes, collectives, frames)
}

fn is_data_loader(name: &str) -> bool {
    (name.starts_with("enumerate(DataLoader)#") || name.starts_with("enumerate(DataPipe)#"))
        && name.contains("__next__")
}

fn classes(c: &Columns) -> Vec<Class> {
    let plain = |k: &crate::events::SpelledCategory| {
        !(k.class == Class::HostOp && k.legacy) && k.class != Class::Kernel
    };
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

/// The replays of graphs. Links of launches are made only if there are some.
fn graph_replays(
    c: &Columns,
    all: &[Activity],
    launches: &OnceLock<LaunchLinks>,
    health: &mut Health,
) -> GraphReplays {
    if !c.strings.iter().any(|(_, text)| is_graph_launch(text)) {
        return GraphReplays::default();
    }
    let replays = GraphReplays::new(c, all, launches.get_or_init(|| LaunchLinks::new(all)));
    health.add(Counter::GraphOrderDiffers, replays.reordered, None, "");
    replays
}

fn recorded_counters(
    columns: &Columns,
    devices: &[DeviceWork],
    capture: Span,
    health: &mut Health,
) -> RecordedCounters {
    let mut counters = RecordedCounters::new(&columns.counter_samples, |id| columns.strings.get(id));
    counters.sampled_metrics |= columns.sampled_metrics;
    health.add(Counter::CounterSamplesLost, counters.lost(devices, capture), None, "");
    counters
}

/// Removes leads and lost tails from the devices' captures. Returns the capture of the whole rank.
fn narrow(edges: &RecordEdges, devices: &mut [DeviceWork], recorded: Span) -> Span {
    let mut left: Option<Span> = None;
    for d in devices.iter_mut().filter(|d| d.is_gpu) {
        d.capture = edges.window(d.device, recorded);
        d.span = d.span.map(|s| s.intersect(d.capture)).filter(|s| s.start <= s.end);
        left = Some(left.map_or(d.capture, |so_far| so_far.hull(d.capture)));
    }
    left.unwrap_or(recorded)
}

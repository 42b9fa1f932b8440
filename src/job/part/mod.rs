//! The summary of one rank for the joined job. Its size depends on the rank's collectives and steps, not on
//! its events.

mod by_start;
mod chunks;
mod host_steps;
mod read;
mod tables;
mod write;

pub use tables::TABLES;

use crate::end_together::{KernelRun, kernel_runs, runs_by_name};
use crate::kernel_origin::{KernelOrigin, origins};
use crate::local;
use crate::local::Local;
use crate::part::by_start::{CallsByStart, orders};
use crate::part::host_steps::host_steps;
use crate::ready::{Readiness, TOLERANCE, alone, readiness};
use hta_base::units::{Ns, Span};
use hta_facts::chunks::{PipelineChunk, chunks};
use hta_facts::collectives::collectives;
use hta_facts::experts::kernel_ranks::{KernelRanks, kernel_ranks};
use hta_facts::experts::{ExpertLayer, expert_layers};
use hta_facts::host_activity::{ActivitySums, HostNames};
use hta_facts::role_phases::{RolePhase, RolePhases};
use hta_facts::token_exchange::TokenExchange;
use hta_facts::windows::{WindowAccount, WindowAccounts};
use hta_trace::collective::{CollectiveCall, RankCalls};
use hta_trace::device::DeviceWork;
use hta_trace::meta::{ProcessRole, TimeEra};
use hta_trace::rank_trace::{ModelOptions, RankTrace};
use hta_trace::step::StepRule;
use hta_trace::strings::{Interner, StrId};
use hta_trace::window::Scope;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartStep {
    pub index: u32,
    pub label: Option<i64>,
    pub window: Span,
    pub is_partial: bool,
    /// When the host had ended the step before, or began the first one.
    pub(crate) host_start: Ns,
    /// Time of the threads that launch the work of devices, by what they do from then to the end of the
    /// host's step.
    pub host: ActivitySums,
}

/// The time of a lane in one window, with communication not yet divided into waiting and transfer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartWindow {
    pub scope: Scope,
    pub step: Option<u32>,
    pub label: Option<i64>,
    pub is_partial: Option<bool>,
    pub spans: Vec<Span>,
    /// Compute without concurrent communication, ns.
    pub compute_only: Ns,
    /// Compute with concurrent communication, ns.
    pub overlapped: Ns,
    /// Communication without concurrent compute or fused kernels, ns.
    pub exposed: Ns,
    /// Fused kernels without concurrent compute, ns.
    pub fused: Ns,
    /// Copies and sets of memory without compute, fused kernels and communication, ns.
    pub copies: Ns,
}

impl PartWindow {
    pub fn dur(&self) -> Ns {
        self.spans.iter().map(|s| s.len()).sum()
    }
}

/// A device of the rank, or its host if collectives run there.
#[derive(Debug, Clone, Default)]
pub struct PartLane {
    pub device: Option<i64>,
    pub is_gpu: bool,
    /// Communication without concurrent compute, as sorted and disjoint spans.
    pub exposed: Vec<Span>,
    pub windows: Vec<PartWindow>,
    pub local: Local,
}

/// Summary of one rank.
pub struct RankSummary {
    pub rank: u32,
    pub host: Option<String>,
    pub(crate) world: Option<u32>,
    /// Its place in a job of several programs.
    pub role: Option<ProcessRole>,
    /// Whether times are on the Unix axis, so that ranks can be compared.
    pub has_origin: bool,
    /// Whether nothing, or only a part, of its device is recorded, so that it counts as missing to the
    /// others.
    pub is_left_out: bool,
    pub(crate) capture: Span,
    /// Whether the file lists the groups of its rank, so that a call without a group belongs to one of them.
    pub(crate) lists_groups: bool,
    /// Devices that the rank's host can see, if the file lists them.
    pub(crate) device_count: Option<u32>,
    /// Whether names of vLLM occur in it, which makes its groups in a known order.
    pub(crate) is_vllm: bool,
    /// The ranks that exchange tokens, if names of kernels tell them.
    pub(crate) kernel_ranks: Option<KernelRanks>,
    /// Lanes of the threads that run the backward pass, ascending.
    pub(crate) backward_lanes: Vec<u32>,
    pub(crate) step_rule: StepRule,
    pub steps: Vec<PartStep>,
    /// Its phases in a loop of several roles, in order of time.
    pub(crate) phases: Vec<RolePhase>,
    pub calls: RankCalls,
    /// One entry per call.
    pub(crate) readiness: Vec<Readiness>,
    pub lanes: Vec<PartLane>,
    /// Its passes through expert layers, in order of dispatch.
    pub layers: Arc<Vec<ExpertLayer>>,
    /// The calls of each lane, by start.
    order: Vec<CallsByStart>,
    pub origins: BTreeMap<StrId, KernelOrigin>,
    /// What it computes in a pipeline, by submission.
    pub chunks: Vec<PipelineChunk>,
    /// Runs of compute kernels that are compared with those of other ranks.
    pub(crate) runs: Vec<KernelRun>,
    /// Whether it is known to exchange tokens of experts.
    pub(crate) tokens: TokenExchange,
    /// Names in `lanes`, `origins`, `runs` and `tokens`.
    pub(crate) names: Interner,
}

/// Options for mapping a rank for the joined job.
#[derive(Clone, Copy)]
pub struct JobOptions<'a> {
    pub model: &'a ModelOptions,
    /// A wait after the launch call that is shorter than this is a kernel wait, ns.
    pub kernel_wait_max: Ns,
    /// Whether there are other ranks to compare this one with.
    pub has_peers: bool,
}

/// Whether a name is that of an operator or a file of vLLM.
fn is_of_vllm(name: &str) -> bool {
    name.starts_with("vllm::") || name.starts_with("vllm/")
}

impl RankSummary {
    /// Summarises a rank. Without peers, local work is not collected, because there is nothing to compare it
    /// with.
    pub fn new(trace: &RankTrace, options: JobOptions) -> Self {
        let calls = RankCalls::clone(&collectives(trace));
        let mut names = Interner::default();
        let host_lane = calls.calls.iter().any(|c| c.shape.on_host) && !trace.is_cpu_only();
        let is_compared = options.has_peers && !calls.calls.is_empty();
        let readiness = if is_compared { readiness(trace, &calls) } else { alone(&calls) };
        let accounts = WindowAccounts::of(trace);
        let of_devices = accounts.by_device(trace, options.model);
        let lanes = if !is_compared {
            of_devices.map(|(work, windows)| lane(trace, work, &windows, options.model)).collect()
        } else {
            let hosts = HostNames::of(trace);
            let mut lanes: Vec<PartLane> = Vec::new();
            for (work, windows) in of_devices {
                let cuts = cuts(trace, &calls, &readiness, |c| {
                    !work.is_gpu || (c.shape.device == work.device && !c.shape.on_host)
                });
                let local = if work.is_gpu {
                    local::of_device(trace, work, cuts, options.kernel_wait_max, &hosts, &mut names)
                } else {
                    local::of_host(trace, cuts, &hosts, &mut names)
                };
                lanes.push(PartLane { local, ..lane(trace, work, &windows, options.model) });
            }
            if host_lane {
                let cuts = cuts(trace, &calls, &readiness, |c| c.shape.on_host);
                let local = local::of_host(trace, cuts, &hosts, &mut names);
                lanes.push(PartLane { local, ..PartLane::default() });
            }
            lanes
        };
        // Also where no collective is recorded: then the exchange of tokens may be unknown.
        let is_one_of_several = options.has_peers || trace.meta.world_size > Some(1);
        let tokens =
            if is_one_of_several { TokenExchange::of(trace, &mut names) } else { TokenExchange::default() };
        let (mut found, mut runs) = (BTreeMap::new(), Vec::new());
        let mut launching = BTreeSet::new();
        if is_compared {
            launching.extend(trace.launches().iter().map(|(row, _)| trace.columns.lane[row as usize]));
            let by_name = runs_by_name(trace);
            found = origins(trace, &by_name, &mut names);
            runs = kernel_runs(trace, &by_name, &mut names);
        }
        let chunks = if is_compared { chunks(trace).to_vec() } else { Vec::new() };
        let order = orders(&calls, &lanes);
        Self {
            rank: trace.rank,
            host: trace.meta.host_name.clone(),
            world: trace.meta.world_size,
            role: trace.meta.role.clone(),
            has_origin: trace.meta.era != TimeEra::Unknown,
            is_left_out: false,
            capture: trace.capture,
            lists_groups: trace.meta.groups.iter().any(|g| g.ranks.len() > 1),
            device_count: u32::try_from(trace.meta.devices.len()).ok().filter(|n| *n > 0),
            is_vllm: trace.columns.strings.iter().any(|(_, name)| is_of_vllm(name)),
            kernel_ranks: kernel_ranks(trace),
            backward_lanes: backward_lanes(trace, &calls),
            step_rule: trace.steps.rule,
            steps: host_steps(trace, &launching),
            phases: RolePhases::of(trace).all.clone(),
            readiness,
            layers: expert_layers(trace),
            calls,
            lanes,
            order,
            origins: found,
            chunks,
            runs,
            tokens,
            names,
        }
    }

    /// The summary that [`RankSummary::new`] makes if there are no peers.
    pub fn without_peers(mut self) -> Self {
        if self.lanes.iter().any(|l| l.is_gpu) {
            // On a rank with devices, the host is a lane only for comparison.
            self.lanes.retain(|l| l.is_gpu);
        }
        self.lanes.iter_mut().for_each(|l| l.local = Local::default());
        self.readiness = alone(&self.calls);
        self.order = orders(&self.calls, &self.lanes);
        self.origins = BTreeMap::new();
        self.chunks = Vec::new();
        self.runs = Vec::new();
        if self.world <= Some(1) {
            self.tokens = TokenExchange::default();
            self.names = Interner::default();
        }
        self
    }

    /// What tells the programs of a job apart: the number of the program's rank 0. Groups with one name in
    /// two programs are two groups.
    pub(crate) fn program(&self) -> u32 {
        self.role.as_ref().map_or(0, |role| role.first)
    }

    /// The role of its program in a job of several. Ranks are compared within a role only.
    pub fn role_name(&self) -> Option<&str> {
        self.role.as_ref().map(|role| role.name.as_str())
    }

    /// The number of the GPU that it uses; of several the first.
    pub fn gpu_device(&self) -> Option<i64> {
        self.lanes.iter().find(|l| l.is_gpu)?.device
    }

    /// Ranks of its program, if known.
    pub(crate) fn program_size(&self) -> Option<u32> {
        self.role.as_ref().map(|role| role.size).or(self.world)
    }

    /// The summary of a rank that is left out of what is told about the job.
    pub fn left_out(self) -> Self {
        Self { is_left_out: true, ..self }
    }

    /// Makes the whole capture its only step.
    pub(crate) fn count_as_one_step(&mut self) {
        self.steps = vec![PartStep {
            index: 0,
            label: None,
            window: self.capture,
            is_partial: false,
            host_start: self.capture.start,
            host: ActivitySums::default(),
        }];
        self.calls.calls.iter_mut().for_each(|call| call.step = Some(0));
    }

    /// The step of a call.
    pub fn step_of(&self, call: &CollectiveCall) -> Option<&PartStep> {
        self.steps.get(call.step? as usize)
    }

    /// Calls of a lane, in the order in which the rank was ready for them.
    pub(crate) fn calls_by_ready(&self, lane: usize) -> Vec<usize> {
        let mut out: Vec<usize> =
            self.order.get(lane).map_or(Vec::new(), |o| o.calls.iter().map(|&i| i as usize).collect());
        out.sort_by_key(|&i| (self.readiness[i].ready, i));
        out
    }

    /// Calls of a lane that overlap `span`, in order of start.
    pub fn calls_in(&self, lane: usize, span: Span) -> impl Iterator<Item = u32> {
        let calls = &self.calls.calls;
        let (order, reach) = self.order.get(lane).map_or((&[][..], &[][..]), |o| (&o.calls, &o.reach));
        let first = reach.partition_point(|r| *r <= span.start);
        let started = order[first..].iter().take_while(move |&&i| calls[i as usize].span.start < span.end);
        started.copied().filter(move |&i| calls[i as usize].span.end > span.start)
    }

    /// The synchronization points of a lane. `met` says for each call whether its end is one.
    pub(crate) fn sync_points(&self, lane: usize, met: &[bool]) -> SyncPoints {
        let calls = &self.calls.calls;
        let of_lane = self.order.get(lane).map_or(&[][..], |o| &o.calls);
        let joined = of_lane.iter().map(|&i| i as usize).filter(|&i| met.get(i) == Some(&true));
        let mut ends: Vec<(Ns, usize)> = joined.map(|i| (calls[i].released, i)).collect();
        ends.sort_unstable();
        SyncPoints(ends)
    }
}

/// Synchronization points: ends of calls at which a rank met other ranks, in order of time.
pub(crate) struct SyncPoints(Vec<(Ns, usize)>);

impl SyncPoints {
    /// The last synchronization point up to `t`, with its call.
    pub(crate) fn before(&self, t: Ns) -> Option<(Ns, usize)> {
        let (e, call) = self.0[self.0.partition_point(|(e, _)| *e <= t + TOLERANCE).checked_sub(1)?];
        Some((e.min(t), call))
    }
}

/// Lanes of the threads that submit collectives and run nodes of autograd, ascending.
fn backward_lanes(trace: &RankTrace, calls: &RankCalls) -> Vec<u32> {
    let c = &trace.columns;
    let submitting: BTreeSet<u32> = calls.calls.iter().filter_map(|call| call.shape.thread).collect();
    let is_node = |text: &str| text.starts_with("autograd::engine::evaluate_function");
    let nodes = c.strings.each(is_node);
    if submitting.is_empty() || !nodes.holds_any() {
        return Vec::new();
    }
    let mut lanes: BTreeSet<u32> = BTreeSet::new();
    for (row, lane) in c.lane.iter().enumerate() {
        if nodes.holds(c.name(row)) && submitting.contains(lane) {
            lanes.insert(*lane);
        }
    }
    lanes.into_iter().collect()
}

fn lane(trace: &RankTrace, work: &DeviceWork, windows: &[&WindowAccount], model: &ModelOptions) -> PartLane {
    let exposed = work.timeline.exposed_communication();
    let on_device = trace.account_windows(work, model).into_iter().filter(|w| w.scope == Scope::DeviceStep);
    let on_device: Vec<WindowAccount> = on_device.map(|w| WindowAccount::new(work, w)).collect();
    let windows = windows.iter().copied().chain(&on_device).map(|w| {
        let s = w.shares;
        PartWindow {
            scope: w.scope,
            step: w.step,
            label: w.label,
            is_partial: w.is_partial,
            spans: w.parts().to_vec(),
            compute_only: s.compute() - s.overlap(),
            overlapped: s.overlap(),
            exposed: s.exposed_communication(),
            fused: s.fused(),
            copies: s.copies(),
        }
    });
    PartLane {
        device: work.device,
        is_gpu: work.is_gpu,
        exposed: exposed.spans().to_vec(),
        windows: windows.collect(),
        local: Local::default(),
    }
}

/// Times at which local work is cut: where the rank was ready for the lane's calls, where these ended, the
/// starts of steps, and the start and end of the capture.
fn cuts(
    trace: &RankTrace,
    calls: &RankCalls,
    readiness: &[Readiness],
    on_lane: impl Fn(&CollectiveCall) -> bool,
) -> Vec<Ns> {
    let mut cuts = vec![trace.capture.start, trace.capture.end];
    cuts.extend(trace.steps.steps.iter().map(|s| s.window.start));
    for (c, r) in calls.calls.iter().zip(readiness).filter(|(c, _)| on_lane(c)) {
        cuts.extend([r.ready, c.released]);
    }
    cuts.sort_unstable();
    cuts.dedup();
    cuts.shrink_to_fit();
    cuts
}

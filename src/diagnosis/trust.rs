//! How far findings can be trusted, given what was recorded.

use crate::analysis::api::{Partial, rows};
use crate::diagnosis::kind::{CauseKind, Vendor};
use crate::diagnosis::recording::{RecordingRow, Recordings};
use crate::units::{Ns, fmt_count, fmt_ns, fmt_pct, percent};
use crate::wording::ranks::ranks_named;

/// The grade of a finding.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Trust {
    #[default]
    Ok,
    /// Shown after the others as "at most", with the reason.
    Downgraded(String),
    /// Only in the table; the verdict says what to record.
    Withheld(String),
}

impl Trust {
    pub fn name(&self) -> &'static str {
        match self {
            Trust::Ok => "ok",
            Trust::Downgraded(_) => "downgraded",
            Trust::Withheld(_) => "withheld",
        }
    }

    pub fn reason(&self) -> Option<&str> {
        match self {
            Trust::Ok => None,
            Trust::Downgraded(why) | Trust::Withheld(why) => Some(why),
        }
    }
}

/// Share of launches without an activity from which idle time says nothing, percent.
const LOST_LAUNCHES_PCT: u64 = 5;
/// Share of GPU time without a launch record that is reported, percent.
const UNLINKED_PCT: f64 = 5.0;
/// Share of the recorded time that the profiler worked from which nothing can be trusted, percent.
const OVERHEAD_PCT: f64 = 20.0;
/// Recorded time per Python frame below which frames distort host times, ns.
const FRAME_EVERY: Ns = 20_000;
/// Fewest GPU activities of a rank for a statement about a job.
const ACTIVITIES: u64 = 100;
/// Share of GPU time in graphs from which launching one by one is no cause, percent.
const GRAPH_PCT: f64 = 50.0;

/// What limits trust in a job's findings.
#[derive(Debug, Clone, Default)]
pub struct RecordingTrust {
    /// Why nothing that rests on idle time is said.
    pub no_idle: Option<String>,
    /// Why nothing is said at all.
    pub nothing: Option<String>,
    /// Why causes on the host are bounds only.
    stacks: Option<String>,
    /// Whether Python frames were recorded.
    pub has_frames: bool,
    /// Most kernels were launched by graphs.
    pub by_graph: bool,
    /// The job serves requests instead of training.
    pub is_serving: bool,
    /// Steps are iterations.
    pub has_iterations: bool,
    /// The first iteration is the first one after the profiler started.
    pub has_first_iteration: bool,
    pub vendor: Vendor,
    /// Whether the devices have tensor cores for other types than fp16.
    pub has_bf16: bool,
    pub has_tensor_cores: bool,
    /// Share of GPU time without a launch record, percent.
    pub unlinked_pct: Option<f64>,
    /// Ways of running a job on several devices that have a faster successor, in words.
    pub setups: Vec<String>,
    /// Ranks of the job and present ranks.
    pub world: Option<u32>,
    pub present: u32,
}

impl RecordingTrust {
    pub fn of(partials: &[Partial]) -> Self {
        let all: Vec<RecordingRow> = rows::<Recordings>(partials).collect();
        let mut out =
            Self { present: all.len() as u32, world: all.iter().filter_map(|r| r.world_size).max(), ..Self::default() };
        out.vendor = all.first().map_or(Vendor::Other, |r| Vendor::named(r.vendor));
        let capability = all.iter().find_map(|r| r.capability.and_then(|c| c.parse::<f64>().ok()));
        out.has_tensor_cores = out.vendor == Vendor::Nvidia && capability.is_none_or(|c| c >= 7.0);
        out.has_bf16 = out.vendor == Vendor::Nvidia && capability.is_none_or(|c| c >= 8.0);
        out.setups = setups(&all);
        let sum = |of: fn(&RecordingRow) -> i64| all.iter().map(of).sum::<i64>();
        let gpu = sum(|r| r.gpu_sum_ns);
        out.unlinked_pct = percent(sum(|r| r.unlinked_ns), gpu).filter(|p| *p > UNLINKED_PCT);
        out.by_graph = percent(sum(|r| r.graph_ns), gpu).is_some_and(|p| p >= GRAPH_PCT);
        out.is_serving = all.iter().any(|r| r.is_serving);
        out.has_iterations = all.iter().any(|r| r.iteration_count > 0);
        out.has_first_iteration = out.has_iterations && !all.iter().any(|r| r.excerpt);
        let is_lost =
            |r: &&RecordingRow| r.activity_count > 0 && r.lost_launch_count * 100 > r.launch_count * LOST_LAUNCHES_PCT;
        let lost: Vec<&RecordingRow> = all.iter().filter(is_lost).collect();
        if let Some(worst) = lost.iter().max_by_key(|r| r.lost_launch_count) {
            out.no_idle = Some(format!(
                "{} of {} kernel launches of {} have no recorded kernel",
                fmt_count(worst.lost_launch_count),
                fmt_count(worst.launch_count),
                ranks_named(&[worst.rank])
            ));
        }
        let overhead = percent(sum(|r| r.overhead_ns), sum(|r| r.recorded_ns));
        if let Some(share) = overhead.filter(|p| *p > OVERHEAD_PCT) {
            out.nothing = Some(format!("the profiler itself worked for {} of the time", fmt_pct(Some(share))));
        }
        out.has_frames = all.iter().any(|r| r.frame_count > 0);
        let framed = all.iter().filter(|r| r.frame_count > 0 && r.recorded_ns / (r.frame_count as i64) < FRAME_EVERY);
        if let Some(r) = framed.max_by_key(|r| r.frame_count) {
            let every = fmt_ns(r.recorded_ns / r.frame_count as i64);
            out.stacks = Some(format!("Python frames were recorded (one every {every}), which makes hosts slower"));
        }
        let is_few = |r: &RecordingRow| r.activity_count < ACTIVITIES && r.vendor != Vendor::Host.name();
        if let Some(most) = all.iter().max_by_key(|r| r.activity_count).filter(|r| is_few(r) && out.no_idle.is_none()) {
            let count = fmt_count(most.activity_count);
            out.no_idle = Some(format!("too short: {count} GPU activities, {} of GPU time", fmt_ns(most.gpu_sum_ns)));
        }
        out
    }

    /// The grade of a cause in a job of so many steps.
    pub fn of_cause(&self, kind: CauseKind, steps: usize) -> Trust {
        if let Some(why) = &self.nothing {
            return Trust::Withheld(why.clone());
        }
        let rests_on_idle =
            kind.is_on_host() || matches!(kind, CauseKind::CopyPageable | CauseKind::CopySync | CauseKind::CopySmall);
        let is_lasting = matches!(kind, CauseKind::HostPause | CauseKind::HostLock | CauseKind::Straggler);
        match (&self.no_idle, &self.stacks) {
            (Some(why), _) if rests_on_idle || kind.is_kernel_mix() => Trust::Withheld(why.clone()),
            (_, Some(why)) if kind.is_on_host() && kind != CauseKind::DataLoader => Trust::Downgraded(why.clone()),
            _ if is_lasting && steps == 1 => Trust::Downgraded("one step: cannot tell whether it lasts".to_string()),
            _ => Trust::Ok,
        }
    }
}

/// What to replace in the set-up of a job. The rules are those of the profiler plugin of TensorBoard.
fn setups(all: &[RecordingRow]) -> Vec<String> {
    let mut out = Vec::new();
    if all.iter().any(|r| r.data_parallel_count > 0 && r.device_count > 1) {
        out.push(
            "torch.nn.DataParallel runs several GPUs from one process: DistributedDataParallel, with a process for \
             each GPU, does not copy the model in every step"
                .to_string(),
        );
    }
    let on_gpu = || all.iter().filter(|r| r.device_count > 0);
    if on_gpu().any(|r| r.gloo_count > 0) && on_gpu().all(|r| r.communication_count == 0) {
        out.push(
            "collectives run on the host by Gloo, although there are GPUs: the back ends NCCL and RCCL run them on the \
             GPUs"
                .to_string(),
        );
    }
    out
}

//! How far findings can be trusted, and what else of the recording words depend on.

use hta_base::units::percent;
use hta_facts::shared_streams::CANNOT_OVERLAP_PCT;
use hta_facts::vendor::DeviceVendor;
use hta_job::recording::capability::{Capability, Grade};
use hta_job::recording::facts::RecordingRow;
use hta_job::recording::{Recording, per_step, step_noun};
use std::sync::Arc;

/// The grade of a finding.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Trust {
    #[default]
    Ok,
    /// Shown after the others as "at most", with the reason.
    AtMost(String),
    /// Only in the table; the verdict says what to record.
    Withheld(String),
}

impl Trust {
    pub(crate) fn reason(&self) -> Option<&str> {
        match self {
            Trust::Ok => None,
            Trust::AtMost(why) | Trust::Withheld(why) => Some(why),
        }
    }
}

/// Share of GPU time in graphs from which launching one by one is no cause, percent.
const GRAPH_PCT: f64 = 50.0;

/// What was recorded of a job, as far as findings depend on it.
#[derive(Debug, Clone, Default)]
pub(crate) struct RecordingTrust {
    pub(crate) recording: Arc<Recording>,
    /// Whether Python frames were recorded.
    pub(crate) has_frames: bool,
    /// Most kernels were launched by graphs.
    pub(crate) by_graph: bool,
    /// The job serves requests instead of training.
    pub(crate) is_serving: bool,
    /// Whether something is a step on each rank; else the capture counts as one, and is never called so.
    pub(crate) has_steps: bool,
    /// Steps are iterations.
    pub(crate) has_iterations: bool,
    /// The first iteration is the first one after the profiler started.
    pub(crate) has_first_iteration: bool,
    pub(crate) vendor: DeviceVendor,
    /// Whether the devices have tensor cores for other types than fp16.
    pub(crate) has_bf16: bool,
    pub(crate) has_tensor_cores: bool,
    /// Ways of running a job on several devices that have a faster successor, in words.
    pub(crate) setups: Vec<String>,
    /// Ranks of the job and present ranks.
    pub(crate) world: Option<u32>,
    pub(crate) present: u32,
}

impl RecordingTrust {
    pub fn of(recording: Arc<Recording>) -> Self {
        let all: Vec<RecordingRow> = recording.ranks().collect();
        let mut out = Self {
            present: all.len() as u32,
            world: all.iter().filter_map(|r| r.world_size).max(),
            ..Self::default()
        };
        out.vendor = all.first().map_or(DeviceVendor::Other, |r| DeviceVendor::named(r.vendor));
        let capability = all.iter().find_map(|r| r.capability.and_then(|c| c.parse::<f64>().ok()));
        out.has_tensor_cores = out.vendor == DeviceVendor::Nvidia && capability.is_none_or(|c| c >= 7.0);
        out.has_bf16 = out.vendor == DeviceVendor::Nvidia && capability.is_none_or(|c| c >= 8.0);
        out.setups = setups(&all);
        let sum = |of: fn(&RecordingRow) -> i64| all.iter().map(of).sum::<i64>();
        out.by_graph = percent(sum(|r| r.graph_ns), sum(|r| r.gpu_sum_ns)).is_some_and(|p| p >= GRAPH_PCT);
        out.is_serving = all.iter().any(|r| r.is_serving);
        out.has_steps = all.iter().all(|r| r.step_count > 0) && !recording.has_mixed_steps();
        out.has_iterations = recording.has_iterations();
        out.has_first_iteration = out.has_iterations && !all.iter().any(|r| r.excerpt);
        out.has_frames = all.iter().any(|r| r.frame_count > 0);
        drop(all);
        out.recording = recording;
        out
    }

    /// What the times are means of: steps, or iterations of an engine.
    pub(crate) fn step_noun(&self) -> &'static str {
        step_noun(self.has_iterations)
    }

    /// Behind a time that is a mean of steps.
    pub(crate) fn per_step(&self) -> &'static str {
        if self.has_steps { per_step(self.has_iterations) } else { "" }
    }

    /// Behind a time that is a mean of steps and of `what`, for example ranks.
    pub(crate) fn per_step_and(&self, what: &str) -> String {
        let per = self.per_step();
        if per.is_empty() { format!(" a {what}") } else { format!("{per} and {what}") }
    }

    /// The grade of a cause that rests on some capabilities, and perhaps must last, in a job of so many
    /// steps.
    pub(crate) fn of_cause(&self, needs: &[Capability], must_last: bool, steps: usize) -> Trust {
        match self.recording.worst(needs) {
            Some(l) if l.grade == Grade::Withheld => Trust::Withheld(l.sentence.clone()),
            Some(l) => Trust::AtMost(l.sentence.clone()),
            None if must_last && steps == 1 => {
                Trust::AtMost("one step: cannot tell whether it lasts".to_string())
            }
            None => Trust::Ok,
        }
    }
}

/// Smallest share of the recorded time with communication from which its set-up matters, percent.
const COMMUNICATION_PCT: f64 = 2.0;

/// What to replace in the set-up of a job. The rules on `DataParallel` and Gloo are those of the profiler
/// plugin of TensorBoard.
fn setups(all: &[RecordingRow]) -> Vec<String> {
    let mut out = Vec::new();
    if all.iter().any(|r| r.data_parallel_count > 0 && r.device_count > 1) {
        out.push(
            "torch.nn.DataParallel runs several GPUs from one process: DistributedDataParallel, with a \
             process for each GPU, does not copy the model in every step"
                .to_string(),
        );
    }
    let sum = |of: fn(&RecordingRow) -> i64| all.iter().map(of).sum::<i64>();
    let (beside, communication) = (sum(|r| r.beside_compute_ns), sum(|r| r.communication_ns));
    let is_worth = percent(communication, sum(|r| r.recorded_ns)).is_some_and(|pct| pct >= COMMUNICATION_PCT);
    if is_worth && percent(beside, communication).is_some_and(|pct| pct >= CANNOT_OVERLAP_PCT) {
        out.push(
            "communication runs on the stream of the compute, one by one, so that the two cannot overlap: \
             give it a stream of its own (async_op=True, or the process group's own stream)"
                .to_string(),
        );
    }
    let on_gpu = || all.iter().filter(|r| r.device_count > 0);
    // Other devices have back ends of their own.
    let back_end = match all.first().map(|r| DeviceVendor::named(r.vendor)) {
        Some(DeviceVendor::Nvidia) => Some("NCCL"),
        Some(DeviceVendor::Amd) => Some("RCCL (`nccl`)"),
        _ => None,
    };
    if let Some(name) = back_end
        && on_gpu().any(|r| r.gloo_count > 0)
        && on_gpu().all(|r| r.communication_count == 0)
    {
        out.push(format!(
            "collectives run on the host by Gloo, although there are GPUs: the back end {name} runs them on \
             the GPUs"
        ));
    }
    out
}
